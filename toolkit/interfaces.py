"""What a tool is, apart from what carries it out: its words, what it accepts, what it gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from toolkit import schemas
from toolkit.about import OUTPUT
from toolkit.documents.document import Document as Parts
from toolkit.documents.document import below
from toolkit.documents.hoisting import hoisted
from toolkit.errors import DefinitionError
from toolkit.kept import kept
from toolkit.parameters.accepted import Accepted, ByDocument, ByType, Lean
from toolkit.returns import Returns

# Keywords by which a schema lists properties elsewhere than in its own `properties`.
_ELSEWHERE = frozenset({"$ref", "allOf", "anyOf", "oneOf", "if", "dependentSchemas"})
# Those keywords, and what belongs to `if`, by what they hold.
_LISTS, _SCHEMAS = ("allOf", "anyOf", "oneOf"), ("if", "then", "else")


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


def of_types(name: str, accepts: Any, gives: Any) -> Declaration:
    """Declare an interface by types, each of which may be a JSON Schema as well.

    Raises:
        DefinitionError: The input is of no object, or has a member that begins with an underscore.
    """
    origin = f"Tool.from_models({name!r})"
    with named(origin):
        built = ByDocument(_document(accepts)) if isinstance(accepts, Mapping) else ByType(accepts)
        returns = Document(hoisted(Parts.of(gives))) if isinstance(gives, Mapping) else Returns(gives)
        made = Declaration(origin, built.schema.get("description", ""), built, returns)
    refuse_private(origin, built.schema["properties"])
    return checked(made)


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


def elsewhere(document: Parts, whole: Mapping[str, Any]) -> Iterator[str]:
    """List the properties that a schema has elsewhere than in its own `properties`.

    Args:
        document: The schema.
        whole: Its root, or what that refers to as a whole.

    Raises:
        DefinitionError: It refers to nothing.
    """
    waiting, seen = [""], set[str]()
    while waiting:
        place = waiting.pop()
        part = document.at(place)
        if isinstance(part, dict) and place not in seen:
            seen.add(place)
            waiting += _applied(document, place, part)
            own = part.get("properties", {})
            yield from () if own is whole.get("properties") else own


def _applied(document: Parts, place: str, part: Mapping[str, Any]) -> Iterator[str]:
    """Point to the schemas that hold for the same object."""
    if "$ref" in part:
        yield document.target(part["$ref"], place)
    yield from (below(place, keyword) for keyword in _SCHEMAS if keyword in part)
    yield from (below(place, "dependentSchemas", name) for name in part.get("dependentSchemas", {}))
    yield from (below(place, keyword, at) for keyword in _LISTS for at in range(len(part.get(keyword, ()))))


def closed(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Accept no other parameter than those listed, unless the schema says so: models invent some.

    Raises:
        DefinitionError: Its properties are none.
    """
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if schema.keys() & _ELSEWHERE:
        return {**schema, "type": "object", "properties": properties}
    if not isinstance(required, list):
        raise DefinitionError(f"required={required!r} is no list of names.")
    missing = next((name for name in required if name not in [*properties]), None)
    if missing is not None:
        raise DefinitionError(f"{missing!r} is required and not among the properties. Add it, or drop it.")
    return {"additionalProperties": False, **schema, "type": "object", "properties": properties}


def _document(given: Mapping[str, Any]) -> dict[str, Any]:
    document = Parts.of(given)
    whole = schemas.inlined(document.root)
    if whole.get("type", "object") != "object" or not isinstance(whole.get("properties", {}), Mapping):
        raise DefinitionError('the input of a tool is a JSON Schema {"type": "object", "properties": ...}.')
    built: dict[str, Any] = hoisted(document, part=closed(whole))
    return built
