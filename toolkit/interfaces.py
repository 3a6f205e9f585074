"""What a tool is, apart from what carries it out: its words, what it accepts, what it gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from toolkit._messages import OUTPUT
from toolkit._schema.parameters import Accepted, ByDocument, Lean, kept
from toolkit.errors import DefinitionError


class Given(Protocol):
    """What a tool gives."""

    @property
    def schema(self) -> dict[str, Any] | None:
        """JSON Schema of the value; None where nothing is said."""
        ...

    @property
    def to_json(self) -> Callable[[Any], bytes] | None:
        """Writes a value; None where any JSON writer would do."""
        ...

    @property
    def asked(self) -> Accepted:
        """The value as an argument: what a model fills in that is to give it by itself."""
        ...


class Interface(Protocol):
    """What a tool is, apart from what carries it out."""

    @property
    def origin(self) -> str:
        """Where it comes from, for messages to its developer."""
        ...

    @property
    def description(self) -> str:
        """What the tool does, in its author's words."""
        ...

    @property
    def raises(self) -> Mapping[str, str]:
        """The failures that its author has announced: exception name and text."""
        ...

    @property
    def built(self) -> Accepted:
        """What it accepts."""
        ...

    @property
    def returns(self) -> Given:
        """What it gives."""
        ...


@dataclass(frozen=True, eq=False)
class Document(Lean):
    """What a JSON Schema says that a tool gives."""

    schema: dict[str, Any] | None
    to_json: None = None

    @kept
    def asked(self) -> Accepted:
        """The value as an argument; a text, where nothing is said of it."""
        whole = {"type": "string"} if self.schema is None else self.schema
        definitions = {"$defs": whole["$defs"]} if "$defs" in whole else {}
        shown = {keyword: value for keyword, value in whole.items() if keyword != "$defs"}
        return ByDocument({"type": "object", "properties": {OUTPUT: shown}, "required": [OUTPUT], **definitions})


@dataclass(frozen=True, eq=False)
class Declaration:
    """An interface without a function: of a schema, or of types."""

    origin: str
    description: str
    built: Accepted
    returns: Given
    raises: Mapping[str, str] = field(default_factory=dict)


def checked(made: Declaration) -> Declaration:
    """Check what an interface says by JSON Schemas now: a mistake in them is its author's, not that of a call.

    Raises:
        DefinitionError: A schema cannot be carried out; the message says whose, and where.
    """
    documents = [made.built, *([made.returns.asked] if isinstance(made.returns, Document) else [])]
    with named(made.origin):
        _ = [each.validator for each in documents]  # it is kept
    return made


@contextmanager
def named(origin: str) -> Iterator[None]:
    """Say in the message of a DefinitionError whose mistake it is."""
    try:
        yield
    except DefinitionError as error:
        raise DefinitionError(f"{origin}: {error}") from None


def refuse_private(origin: str, names: Any) -> None:
    """Refuse parameters that look like words about a call.

    Raises:
        DefinitionError: One of them begins with an underscore.
    """
    private = next((name for name in names if str(name).startswith("_")), None)
    if private is not None:
        raise DefinitionError(
            f"{origin}: the parameter {private!r} begins with '_', which is kept for what is said about a call, such "
            f"as {OUTPUT}. Call it {private.lstrip('_') or 'value'!r}."
        )
