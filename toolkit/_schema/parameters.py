"""Parameters of a function, and the JSON Schema and validator of its arguments.

Usual types are written by hand, models and other classes are described once each, and what is left goes through
pydantic together.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from inspect import Parameter as Written
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, Union, get_args, get_origin

import typing_extensions
from pydantic_core import PydanticOmit, SchemaError
from typing_extensions import NotRequired, ReadOnly, Required, Unpack

from toolkit._context import ToolContext
from toolkit._schema.argument_schema import ArgumentSchema
from toolkit._schema.core_schema import Core, Fields, FieldWriter, Unusual, key_of, mended, typed_fields, validating
from toolkit._schema.error_messages import shorten
from toolkit._schema.json_schema import json_default
from toolkit.errors import DefinitionError

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo


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


@dataclass(frozen=True, eq=False, kw_only=True)
class ParameterSchema(ArgumentSchema):
    """Validator and JSON Schema of the parameters that a model may fill; each is made when it is first asked for.

    Attributes:
        offered: The parameters that a model may fill.
        label: The function's name for messages to its developer.
        texts: Gives what the docstring says of them.
        names: What the function's annotations name in the frames that it was written in.
        examples: Gives arguments that the docstring shows.
        taken: Gives the keywords that belong to a parameter already, so that `**kwargs` may not bring them.
    """

    offered: Sequence[Parameter]
    label: str
    texts: Callable[[], Mapping[str, str]]
    names: Mapping[str, Any]
    examples: Callable[[], Sequence[Mapping[str, Any]]]
    taken: Callable[[], Collection[str]]

    @property
    def hidden(self) -> Mapping[str, str]:
        """Parameters that no JSON can fill, left out because they have a default: their names, and why."""
        return self._described.hidden

    @cached_property
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

    @cached_property
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
