"""One parameter of a function, as Python has it and as a JSON document has it.

A property that is made once, and fits a protocol that has a property of its name.

pyright does not take `functools.cached_property` for a property.

What a tool accepts where no Python signature says it: a JSON Schema, a type, or two of them joined.

Parameters -> validator and JSON Schema of the arguments.

How it works: the usual types are written by hand, models and other classes are described once each, and what is left
goes through pydantic together.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cached_property
from inspect import Parameter as Written
from typing import TYPE_CHECKING, Annotated, Any, Protocol, TypeVar, Union, get_args, get_origin

import typing_extensions
from pydantic_core import PydanticOmit, SchemaError, from_json, to_json
from typing_extensions import NotRequired, ReadOnly, Required, Unpack

from toolkit._context import ToolContext
from toolkit._messages import META
from toolkit._schema.core_schema import Core, Fields, FieldWriter, Unusual, key_of, mended, typed_fields, validating
from toolkit._schema.error_messages import shorten
from toolkit._schema.json_schema import json_default, object_schema, rename_definitions
from toolkit.errors import DefinitionError

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from pydantic.fields import FieldInfo

if TYPE_CHECKING:
    from builtins import property as kept
else:
    from functools import cached_property as kept

__all__ = ["kept"]


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """One parameter of a function.

    Attributes:
        annotation: Its type, resolved; Any where there is none.
        default: What Python uses when nothing is given, or `inspect.Parameter.empty`; a factory, where a field has one.
        field: pydantic's `Field(...)`, where it stands in place of the default.
        problem: Why its annotation has no meaning here.
    """

    name: str
    kind: Any
    annotation: Any
    default: Any = Written.empty
    field: FieldInfo | None = None
    problem: str = ""

    @property
    def injected(self) -> bool:
        """Whether the run supplies it and the model does not."""
        return any(part is ToolContext or get_origin(part) is ToolContext for part in _alternatives(self.annotation))

    @property
    def is_mutable(self) -> bool:
        """Whether a function that changes its default would change it for every later call."""
        return type(self.default) in (list, dict, set, bytearray)

    @property
    def required(self) -> bool:
        """Whether a call must give it."""
        if self.kind is Written.VAR_KEYWORD:
            return _needs_a_key(self.document_type)
        return self.default is Written.empty and self.kind is not Written.VAR_POSITIONAL

    @property
    def document_type(self) -> Any:
        """The type of its value in a JSON document."""
        if self.kind is Written.VAR_POSITIONAL:
            return list[self.annotation]  # type: ignore[name-defined]  # a type made at run time
        if self.kind is Written.VAR_KEYWORD and get_origin(self.annotation) in (Unpack, typing_extensions.Unpack):
            return get_args(self.annotation)[0]
        if self.kind is Written.VAR_KEYWORD:
            return dict[str, self.annotation]  # type: ignore[name-defined]
        return Annotated[self.annotation, self.field] if self.field else self.annotation

    @property
    def field_type(self) -> Any:
        """The same, as the type of a key of a TypedDict."""
        return self.document_type if self.required else NotRequired[self.document_type]

    @property
    def note(self) -> str:
        """The text that stands in `Annotated[...]` itself, plain or as PEP 727's `Doc`."""
        metadata = get_args(self.annotation)[1:] if get_origin(self.annotation) is Annotated else ()
        notes = (item if isinstance(item, str) else getattr(item, "documentation", None) for item in metadata)
        return next((note for note in notes if isinstance(note, str)), "")


def _needs_a_key(keywords: Any) -> bool:
    """Tell whether a TypedDict has a required key; Python itself does not read that where annotations are texts."""
    if not typing_extensions.is_typeddict(keywords):
        return False
    known: frozenset[str] = keywords.__required_keys__
    try:
        types = typing_extensions.get_type_hints(keywords, include_extras=True)
    except NameError:  # a name of a local scope: pydantic knows more, but not this
        return bool(known)
    return any(_is_required(types[name], otherwise=name in known) for name in types)


def _is_required(annotation: Any, *, otherwise: bool) -> bool:
    origin = get_origin(annotation)
    if origin in (ReadOnly, Annotated):
        return _is_required(get_args(annotation)[0], otherwise=otherwise)
    return origin is Required or (otherwise and origin is not NotRequired)


def _alternatives(annotation: Any) -> tuple[Any, ...]:
    origin = get_origin(annotation)
    if origin is Annotated:
        return _alternatives(get_args(annotation)[0])
    return get_args(annotation) if origin is Union or isinstance(annotation, _UNION) else (annotation,)


_UNION = type(int | str)


class ArgumentSchema(Protocol):
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


class ModelArguments(dict[str, Any]):
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
class DocumentSchema(Shown):
    """Accepts what a JSON Schema says; values are plain data."""

    schema: dict[str, Any]
    hidden: Mapping[str, str] = field(default_factory=dict)

    @kept
    def validator(self) -> Callable[[str], dict[str, Any]]:
        """What turns JSON text into values by name.

        Raises:
            DefinitionError: The schema says what cannot be checked.
        """
        from toolkit._schema.validation import validator_of  # it takes long to load, and a signature does not need it

        return validator_of(self.schema)


@dataclass(frozen=True, eq=False)
class TypeSchema(Shown):
    """Accepts the members of one type: a pydantic model, a dataclass, a TypedDict."""

    kind: Any
    hidden: Mapping[str, str] = field(default_factory=dict)

    @kept
    def schema(self) -> dict[str, Any]:
        """JSON Schema of the arguments, of type object.

        Raises:
            DefinitionError: The type is none of an object.
        """
        shown = object_schema(self._adapter)
        if "properties" in shown:
            return {**shown, "additionalProperties": shown.get("additionalProperties", False)}
        raise DefinitionError(f"{self.kind!r} has no members: the input of a tool is a model, dataclass or TypedDict.")

    @kept
    def validator(self) -> Callable[[str], dict[str, Any]]:
        """What turns JSON text into values by name."""
        read = self._adapter.validate_json
        return lambda text: ModelArguments(read(text))

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
class JoinedSchema(Shown):
    """Accepts what two accept, each its own keys."""

    first: ArgumentSchema
    second: ArgumentSchema

    @property
    def hidden(self) -> Mapping[str, str]:
        """Parameters that no JSON can fill."""
        return self.second.hidden

    @kept
    def schema(self) -> dict[str, Any]:
        """JSON Schema of both, the keys of the first in front."""
        first, second = rename_definitions(self.first.schema, "output"), self.second.schema
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
class LenientSchema(Lean):
    """Accepts what another does, and overlooks what else may be said about a call."""

    inner: ArgumentSchema

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


T = TypeVar("T")

REMEDY = "Give it a type that JSON can fill, or a default (it is then left out), or bind it by a partial."
MAX_SHOWN_TYPE = 200  # characters; a union of models may have thousands
NAME_REMEDY = "Define or import what it names, or give it a default (it is then left out)."


@dataclass(frozen=True)
class Line:
    """How one parameter stands in a JSON document.

    Attributes:
        key: Its name there: its alias, where it has one.
        schema: JSON Schema of its value.
        required: Whether it must be there.
    """

    key: str
    schema: dict[str, Any]
    required: bool


@dataclass(frozen=True)
class Described:
    """What a model may be told of parameters.

    Attributes:
        lines: By the names of the parameters.
        definitions: What their schemas refer to.
        hidden: The parameters that no JSON can fill, and why.
    """

    lines: dict[str, Line]
    definitions: dict[str, Any]
    hidden: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class ParameterSchema:
    """Validator and JSON Schema of the parameters that a model may fill; each is made when it is first asked for.

    Attributes:
        offered: The parameters that a model may fill.
        label: The function's name for messages to its developer.
        texts: Gives what the docstring says of them.
        names: What the function's annotations name in the frames that it was written in.
        examples: Gives arguments that the docstring shows.
        taken: Gives the keywords that belong to a parameter already, so that `**kwargs` may not bring them.
        forms: How dialects show the schema, kept by them.
    """

    offered: Sequence[Parameter]
    label: str
    texts: Callable[[], Mapping[str, str]]
    names: Mapping[str, Any]
    examples: Callable[[], Sequence[Mapping[str, Any]]]
    taken: Callable[[], Collection[str]]
    forms: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def hidden(self) -> Mapping[str, str]:
        """Parameters that no JSON can fill, left out because they have a default: their names, and why."""
        return self._described.hidden

    @kept
    def schema(self) -> dict[str, Any]:
        """JSON Schema of the arguments: draft 2020-12, of type object.

        Raises:
            DefinitionError: A parameter without a default cannot be described to a model.
        """
        texts, told = self.texts(), self._described
        shown = [(p, told.lines[p.name]) for p in self.offered if p.name in told.lines]
        required = [line.key for _, line in shown if line.required]
        return {
            "type": "object",
            "properties": {line.key: _with_text(p, line.schema, texts) for p, line in shown},
            **_keyword_unless_empty("required", required),
            "additionalProperties": False,
            **_keyword_unless_empty("$defs", told.definitions),
            **_keyword_unless_empty("examples", self.examples()),
        }

    @kept
    def validator(self) -> Callable[[str], dict[str, Any]]:
        """What turns JSON text into typed values.

        Raises:
            DefinitionError: As above.
        """
        writer = Core()
        offered = [p for p in self.offered if p.name in self._described.lines]
        cores = _each(offered, lambda p: _core_field(writer, p))
        rest = typed_fields({p.name: p.field_type for p in offered if p.name not in cores}, self.names)
        writer.add(mended(rest.definitions))
        cores = {p.name: cores.get(p.name) or mended(rest.cores[p.name]) for p in offered}
        for p in filter(_is_rest, offered):
            cores[p.name]["schema"] = _without_taken(cores[p.name]["schema"], self.taken())
        return validating(cores, writer.definitions)

    @cached_property
    def _described(self) -> Described:
        told = self._told()
        keys = [line.key for line in told.lines.values()]
        twice = next((key for key in keys if keys.count(key) > 1), None)
        if twice is not None:
            raise DefinitionError(
                f"{self.label}: two parameters are {twice!r} in JSON. Give one of them another alias."
            )
        return told

    def _told(self) -> Described:
        writer = FieldWriter()
        lines = _each(self.offered, lambda p: _line(writer, p))
        rest = self._generated([p for p in self.offered if p.name not in lines])
        try:
            writer.add(rest.definitions)
        except Unusual:  # two classes have one name; pydantic tells them apart
            return self._generated(self.offered)
        return Described(lines | rest.lines, writer.definitions, rest.hidden)

    def _generated(self, parameters: Sequence[Parameter]) -> Described:
        """Let pydantic describe parameters; what no JSON can fill is left out where it has a default."""
        hidden: dict[str, str] = {}
        try:
            made, shown, definitions = self._made(parameters)
        except Exception as error:  # noqa: BLE001  pydantic and user types raise what they like while a schema is built
            hidden = self._unfit(parameters, error)
            made, shown, definitions = self._made([p for p in parameters if p.name not in hidden])
        lines = {name: Line(key_of(name, core), shown[name], core["required"]) for name, core in made.cores.items()}
        return Described(lines, definitions, hidden)

    def _made(self, parameters: Sequence[Parameter]) -> tuple[Fields, dict[str, Any], dict[str, Any]]:
        unresolved = next((p for p in parameters if p.problem), None)
        if unresolved is not None:
            raise TypeError(unresolved.problem)
        made = typed_fields({p.name: p.field_type for p in parameters}, self.names)
        for name, core in made.cores.items():
            key_of(name, core)  # it has one, or this raises
        return made, *made.shown()

    def _unfit(self, parameters: Sequence[Parameter], error: Exception) -> dict[str, str]:
        """Say why no JSON can fill parameters, where that is so.

        Raises:
            DefinitionError: One has no default.
        """
        reasons = {p.name: reason for p in parameters if (reason := self._reason(p))}
        needed = next((p for p in parameters if p.required and p.name in reasons), None)
        if needed is not None:
            raise DefinitionError(f"{self.label}: {_refused(needed, reasons[needed.name])}") from error
        if not reasons:
            raise DefinitionError(f"{self.label}: pydantic cannot build its parameters: {error}") from error
        return reasons

    def _reason(self, p: Parameter) -> str:
        """Say why no JSON can fill a parameter, or nothing."""
        if p.problem:
            return p.problem
        try:
            self._made([p])
        except PydanticOmit:
            return "pydantic is told to leave it out (SkipJsonSchema)"
        except Exception as error:  # noqa: BLE001  as in `_generated`
            written = shorten(inspect.formatannotation(p.annotation), MAX_SHOWN_TYPE)
            return f"its type is {written} ({shorten(_why(error), MAX_SHOWN_TYPE)})"
        return ""


def _why(error: Exception) -> str:
    """Find the words that say why: pydantic's first sentence, before its advice to authors; or the core's last line."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    if isinstance(error, SchemaError):
        return lines[-1].strip().removeprefix("error: ")
    return re.split(r"\.(?:\s|$)", lines[0])[0]


def _refused(p: Parameter, reason: str) -> str:
    remedy = NAME_REMEDY if p.problem else REMEDY
    return f"parameter {p.name!r} cannot be described to a model: {reason}. {remedy}"


def _each(parameters: Sequence[Parameter], write: Callable[[Parameter], T]) -> dict[str, T]:
    """Write what can be written by hand."""
    written = {}
    for p in parameters:
        with suppress(Exception):  # a class that pydantic refuses is looked at again, beside all that is left to it
            if not p.problem:
                written[p.name] = write(p)
    return written


def _line(writer: FieldWriter, p: Parameter) -> Line:
    own = FieldWriter()  # what is written of a type that proves unusual is forgotten
    line = Line(p.name, own.write(p.document_type), p.required)
    writer.add(own.definitions)
    return line


def _core_field(writer: Core, p: Parameter) -> dict[str, Any]:
    return {"type": "typed-dict-field", "schema": writer.write(p.document_type), "required": p.required}


def _is_rest(p: Parameter) -> bool:
    return p.kind is Written.VAR_KEYWORD


def _without_taken(core: dict[str, Any], taken: Collection[str]) -> dict[str, Any]:
    """Refuse what would take the place of another parameter: given by the run, a partial, or beside it."""

    def check(free: dict[str, Any]) -> dict[str, Any]:
        wrong = next((name for name in free if name in taken), None)
        if wrong is not None:
            raise ValueError(f"{wrong!r} cannot be given here")
        return free

    return {"type": "function-after", "function": {"type": "no-info", "function": check}, "schema": core}


def _keyword_unless_empty(keyword: str, value: Any) -> dict[str, Any]:
    return {keyword: value} if value else {}


def _with_text(p: Parameter, shown: dict[str, Any], texts: Mapping[str, str]) -> dict[str, Any]:
    text = shown.get("description") or p.note or texts.get(p.name, "")
    default = {} if p.default is Written.empty else json_default(p.default)
    return {**shown, **({"description": text} if text else {}), **default}
