"""What a tool accepts where no Python signature says it: a JSON Schema, a type, or two of them joined."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, get_origin

from pydantic_core import from_json, to_json

from toolkit._messages import META
from toolkit.errors import DefinitionError
from toolkit.kept import kept
from toolkit.schemas import apart, of_object

if TYPE_CHECKING:
    from pydantic import TypeAdapter


class Accepted(Protocol):
    """What a tool accepts."""

    @property
    def schema(self) -> dict[str, Any]:
        """JSON Schema of the arguments, of type object."""
        ...

    @property
    def validator(self) -> Callable[[str], dict[str, Any]]:
        """What turns JSON text into values by name."""
        ...

    @property
    def hidden(self) -> Mapping[str, str]:
        """Parameters that no JSON can fill: their names, and why."""
        ...

    @property
    def forms(self) -> dict[Any, Any]:
        """How dialects show the schema, kept by them."""
        ...


class Filled(dict[str, Any]):
    """Values by name, and the one value that they were read into."""

    def __init__(self, whole: Any) -> None:
        super().__init__(_members(whole))
        self.whole = whole


class Lean:
    """What is copied and sent without what it has worked out."""

    def __getstate__(self) -> dict[str, Any]:
        return {made.name: getattr(self, made.name) for made in fields(self)}  # type: ignore[arg-type]  # a dataclass is


class Shown(Lean):
    """What dialects show."""

    @kept
    def forms(self) -> dict[Any, Any]:
        """How dialects show the schema, kept by them."""
        return {}


@dataclass(frozen=True, eq=False)
class ByDocument(Shown):
    """Accepts what a JSON Schema says; values are plain data."""

    schema: dict[str, Any]
    hidden: Mapping[str, str] = field(default_factory=dict)

    @kept
    def validator(self) -> Callable[[str], dict[str, Any]]:
        """What turns JSON text into values by name.

        Raises:
            DefinitionError: The schema says what cannot be checked.
        """
        from toolkit.documents import validator_of  # it takes long to load, and a signature does not need it

        return validator_of(self.schema)


@dataclass(frozen=True, eq=False)
class ByType(Shown):
    """Accepts the members of one type: a pydantic model, a dataclass, a TypedDict."""

    kind: Any
    hidden: Mapping[str, str] = field(default_factory=dict)

    @kept
    def schema(self) -> dict[str, Any]:
        """JSON Schema of the arguments, of type object.

        Raises:
            DefinitionError: The type is none of an object.
        """
        shown = of_object(self._adapter)
        if "properties" in shown:
            return {**shown, "additionalProperties": shown.get("additionalProperties", False)}
        raise DefinitionError(f"{self.kind!r} has no members: the input of a tool is a model, dataclass or TypedDict.")

    @kept
    def validator(self) -> Callable[[str], dict[str, Any]]:
        """What turns JSON text into values by name."""
        read = self._adapter.validate_json
        return lambda text: Filled(read(text))

    def written(self, value: Any, *, by_alias: bool) -> dict[str, Any]:
        """Write a value as plain data."""
        plain: dict[str, Any] = self._adapter.dump_python(value, mode="json", by_alias=by_alias, round_trip=True)
        return plain

    @cached_property
    def names(self) -> Collection[str]:
        """What the members are called in Python, where they may have other names than in JSON."""
        kind = get_origin(self.kind) or self.kind
        tables = (getattr(kind, name, None) for name in ("model_fields", "__dataclass_fields__", "__annotations__"))
        return [*next(filter(None, tables), self.schema["properties"])]

    @cached_property
    def _adapter(self) -> TypeAdapter[Any]:
        from pydantic import TypeAdapter

        try:
            adapter = TypeAdapter(self.kind)
            adapter.rebuild(raise_errors=True)
        except Exception as error:  # pydantic and user types raise what they like while a schema is built
            why = str(error).partition("\n")[0]
            raise DefinitionError(f"{self.kind!r} is no type that JSON can fill: {why}") from error
        return adapter


@dataclass(frozen=True, eq=False)
class Joined(Shown):
    """Accepts what two accept, each its own keys."""

    first: Accepted
    second: Accepted

    @property
    def hidden(self) -> Mapping[str, str]:
        """Parameters that no JSON can fill."""
        return self.second.hidden

    @kept
    def schema(self) -> dict[str, Any]:
        """JSON Schema of both, the keys of the first in front."""
        first, second = apart(self.first.schema, "output"), self.second.schema
        both = {name: {**first.get(name, {}), **second.get(name, {})} for name in ("properties", "$defs")}
        required = [*first.get("required", ()), *second.get("required", ())]
        return {**second, "properties": both["properties"], "required": required} | _unless_empty(both["$defs"])

    @kept
    def validator(self) -> Callable[[str], dict[str, Any]]:
        """What turns JSON text into the values of both."""
        keys = self.first.schema["properties"].keys()

        def validate(text: str) -> dict[str, Any]:
            document = _read(text)
            if not isinstance(document, dict):
                return self.second.validator(text)  # which refuses it
            values = self.second.validator(_written(document, document.keys() - keys))
            return {**self.first.validator(_written(document, keys & document.keys())), **values}

        return validate


@dataclass(frozen=True, eq=False)
class Heedless(Lean):
    """Accepts what another does, and overlooks what else may be said about a call."""

    inner: Accepted

    @property
    def schema(self) -> dict[str, Any]:
        """JSON Schema of the arguments."""
        return self.inner.schema

    @property
    def hidden(self) -> Mapping[str, str]:
        """Parameters that no JSON can fill."""
        return self.inner.hidden

    @property
    def forms(self) -> dict[Any, Any]:
        """How dialects show the schema."""
        return self.inner.forms

    @kept
    def validator(self) -> Callable[[str], dict[str, Any]]:
        """What turns JSON text into values by name."""
        validate, overlooked = self.inner.validator, {*META} - self.schema["properties"].keys()

        def heedless(text: str) -> dict[str, Any]:
            document = _read(text) if '"_' in text else None
            if not isinstance(document, dict) or overlooked.isdisjoint(document):
                return validate(text)
            return validate(_written(document, document.keys() - overlooked))

        return heedless


def _members(whole: Any) -> dict[str, Any]:
    if isinstance(whole, dict):
        return whole
    if is_dataclass(whole):
        return {member.name: getattr(whole, member.name) for member in fields(whole)}
    return {**vars(whole), **(getattr(whole, "model_extra", None) or {})}


def _read(text: str) -> Any:
    try:
        return from_json(text)
    except ValueError:
        return None


def _written(document: Mapping[str, Any], keys: Iterable[str]) -> str:
    chosen = {*keys}
    return to_json({key: value for key, value in document.items() if key in chosen}, inf_nan_mode="constants").decode()


def _unless_empty(definitions: Mapping[str, Any]) -> dict[str, Any]:
    return {"$defs": definitions} if definitions else {}
