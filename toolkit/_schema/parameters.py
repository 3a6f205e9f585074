"""Parameters of a Python function, and the argument schema that is made of them.

Usual types are written by hand, models and other classes are described once each, and what is left goes through
pydantic together.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar, Union, get_args, get_origin

import typing_extensions
from pydantic_core import PydanticOmit, SchemaError
from typing_extensions import NotRequired, ReadOnly, Required, Unpack

from toolkit._context import ToolContext
from toolkit._schema.argument_schema import ArgumentSchema
from toolkit._schema.core_schema import (
    CoreSchemaWriter,
    Fields,
    JsonSchemaWriter,
    Unusual,
    adapt_to_json,
    build_object_validator,
    generate_fields,
    get_key,
)
from toolkit._schema.error_messages import shorten
from toolkit._schema.json_schema import render_default
from toolkit.errors import DefinitionError

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

REMEDY = "Give it a type that JSON can fill, or a default (it is then left out), or bind it by a partial."
NAME_REMEDY = "Define or import what it names, or give it a default (it is then left out)."
MAX_SHOWN_TYPE = 200  # characters; a union of models may have thousands

# Texts of the parameters by name, and examples of arguments.
Documentation: TypeAlias = tuple[Mapping[str, str], Sequence[Mapping[str, Any]]]

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """One parameter of a function.

    Attributes:
        annotation: Its type, resolved; Any where there is none.
        default: Python's default, or `inspect.Parameter.empty`; of a field with a factory, the factory.
        field: pydantic's `Field(...)`, where it stands in place of the default.
        problem: Why its annotation cannot be resolved.
    """

    name: str
    kind: Any
    annotation: Any
    default: Any = inspect.Parameter.empty
    field: FieldInfo | None = None
    problem: str = ""

    @property
    def is_injected(self) -> bool:
        """True if the run supplies it, and not the model."""
        return any(ToolContext in (part, get_origin(part)) for part in _list_alternatives(self.annotation))

    @property
    def has_mutable_default(self) -> bool:
        """True if a function that changes its default would change it for every later call."""
        return type(self.default) in (list, dict, set, bytearray)

    @property
    def is_required(self) -> bool:
        """True if every call must have it."""
        if self.kind is inspect.Parameter.VAR_KEYWORD:
            return _has_required_key(self.json_type)
        return self.default is inspect.Parameter.empty and self.kind is not inspect.Parameter.VAR_POSITIONAL

    @property
    def json_type(self) -> Any:
        """Type of its value in JSON: `*args` are a list, `**kwargs` a dict."""
        if self.kind is inspect.Parameter.VAR_POSITIONAL:
            return list[self.annotation]  # type: ignore[name-defined]  # a type made at run time
        if self.kind is inspect.Parameter.VAR_KEYWORD and get_origin(self.annotation) in _UNPACK:
            return get_args(self.annotation)[0]
        if self.kind is inspect.Parameter.VAR_KEYWORD:
            return dict[str, self.annotation]  # type: ignore[name-defined]
        return Annotated[self.annotation, self.field] if self.field else self.annotation

    @property
    def field_type(self) -> Any:
        """`json_type` as the type of a key of a TypedDict."""
        return self.json_type if self.is_required else NotRequired[self.json_type]

    @property
    def note(self) -> str:
        """Text in `Annotated[...]`, plain or as PEP 727's `Doc`; empty where there is none."""
        if get_origin(self.annotation) is not Annotated:
            return ""
        metadata = get_args(self.annotation)[1:]
        notes = [item if isinstance(item, str) else getattr(item, "documentation", None) for item in metadata]
        return next((note for note in notes if isinstance(note, str)), "")


_UNION = type(int | str)
_UNPACK = (Unpack, typing_extensions.Unpack)


def _list_alternatives(annotation: Any) -> tuple[Any, ...]:
    """List the members of a union; of any other type, the type itself."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return _list_alternatives(get_args(annotation)[0])
    return get_args(annotation) if origin is Union or isinstance(annotation, _UNION) else (annotation,)


def _has_required_key(keywords: Any) -> bool:
    """Check whether a TypedDict has a required key, which `__required_keys__` misses in string annotations."""
    if not typing_extensions.is_typeddict(keywords):
        return False
    known: frozenset[str] = keywords.__required_keys__
    try:
        types = typing_extensions.get_type_hints(keywords, include_extras=True)
    except NameError:  # a name of a local scope: pydantic resolves it, but does not say whether a key is required
        return bool(known)
    return any(_is_required_key(types[name], is_known=name in known) for name in types)


def _is_required_key(annotation: Any, *, is_known: bool) -> bool:
    origin = get_origin(annotation)
    if origin in (ReadOnly, Annotated):
        return _is_required_key(get_args(annotation)[0], is_known=is_known)
    return origin is Required or (is_known and origin is not NotRequired)


@dataclass(frozen=True)
class Property:
    """A parameter as a property in JSON.

    Attributes:
        key: Its name there: its alias, where it has one.
        schema: JSON Schema of its value.
        is_required: Whether it must be there.
    """

    key: str
    schema: dict[str, Any]
    is_required: bool


@dataclass(frozen=True)
class Properties:
    """Parameters as properties.

    Attributes:
        by_name: Properties by the names of the parameters.
        definitions: JSON Schemas that theirs refer to.
        hidden: Parameters that no JSON can fill, and why; they have a default, so a model need not know them.
    """

    by_name: dict[str, Property]
    definitions: dict[str, Any]
    hidden: dict[str, str]


@dataclass(frozen=True, eq=False, kw_only=True)
class ParameterSchema(ArgumentSchema):
    """Argument schema of the parameters of a function.

    Attributes:
        offered: The parameters that a model may fill.
        label: The function's name for error messages.
        names: Names in the frames around the function that its annotations use.
        read_documentation: Returns texts and examples; called with the first use of `schema`.
        list_taken: Lists the keywords that belong to a parameter, which `**kwargs` may not bring.
    """

    offered: Sequence[Parameter]
    label: str
    names: Mapping[str, Any]
    read_documentation: Callable[[], Documentation]
    list_taken: Callable[[], Collection[str]]

    @property
    def hidden(self) -> Mapping[str, str]:
        """Parameters that no JSON can fill, left out because they have a default: their names, and why."""
        return self._properties.hidden

    @cached_property
    def schema(self) -> dict[str, Any]:
        """JSON Schema of the arguments: draft 2020-12, of type object.

        Raises:
            DefinitionError: A parameter without a default cannot be described to a model.
        """
        texts, examples = self.read_documentation()
        known, definitions = self._properties.by_name, self._properties.definitions
        shown = [(p, known[p.name]) for p in self.offered if p.name in known]
        properties = {own.key: _add_text(p, own.schema, texts) for p, own in shown}
        schema: dict[str, Any] = {"type": "object", "properties": properties}
        if required := [own.key for _, own in shown if own.is_required]:
            schema["required"] = required
        schema["additionalProperties"] = False
        if definitions:
            schema["$defs"] = definitions
        if examples:
            schema["examples"] = examples
        return schema

    @cached_property
    def validator(self) -> Callable[[str], dict[str, Any]]:
        """Function that turns JSON text into typed values by name.

        Raises:
            DefinitionError: As `schema` does.
        """
        writer = CoreSchemaWriter()
        offered = [p for p in self.offered if p.name in self._properties.by_name]
        usual = _write_usual(offered, partial(_write_core, writer))
        rest = generate_fields({p.name: p.field_type for p in offered if p.name not in usual}, self.names)
        writer.add(adapt_to_json(rest.definitions))
        cores = {p.name: usual.get(p.name) or adapt_to_json(rest.cores[p.name]) for p in offered}
        for p in offered:
            if p.kind is inspect.Parameter.VAR_KEYWORD:
                cores[p.name]["schema"] = _refuse_taken(cores[p.name]["schema"], self.list_taken())
        return build_object_validator(cores, writer.definitions)

    @cached_property
    def _properties(self) -> Properties:
        writer = JsonSchemaWriter()
        usual = _write_usual(self.offered, partial(_write_property, writer))
        rest = [p for p in self.offered if p.name not in usual]
        if not rest:
            return Properties(usual, writer.definitions, {})
        generated = self._generate(rest)
        try:
            writer.add(generated.definitions)
        except Unusual:  # two classes have one name; pydantic gives them two
            properties = self._generate(self.offered)
        else:
            properties = Properties(usual | generated.by_name, writer.definitions, generated.hidden)
        keys = [each.key for each in properties.by_name.values()]
        repeated = next((key for key in keys if keys.count(key) > 1), None)
        if repeated is not None:
            raise DefinitionError(
                f"{self.label}: two parameters are {repeated!r} in JSON. Give one of them another alias."
            )
        return properties

    def _generate(self, parameters: Sequence[Parameter]) -> Properties:
        """Describe parameters by pydantic; what no JSON can fill is left out where it has a default."""
        hidden: dict[str, str] = {}
        try:
            fields, schemas, definitions = self._describe(parameters)
        except Exception as error:  # noqa: BLE001  pydantic and user types raise what they like while a schema is built
            hidden = self._find_unfit(parameters, error)
            fields, schemas, definitions = self._describe([p for p in parameters if p.name not in hidden])
        by_name = {
            name: Property(get_key(name, core), schemas[name], core["required"]) for name, core in fields.cores.items()
        }
        return Properties(by_name, definitions, hidden)

    def _describe(self, parameters: Sequence[Parameter]) -> tuple[Fields, dict[str, Any], dict[str, Any]]:
        unresolved = next((p for p in parameters if p.problem), None)
        if unresolved is not None:
            raise TypeError(unresolved.problem)
        fields = generate_fields({p.name: p.field_type for p in parameters}, self.names)
        for name, core in fields.cores.items():
            get_key(name, core)  # it has one, or this raises
        return fields, *fields.describe()

    def _find_unfit(self, parameters: Sequence[Parameter], error: Exception) -> dict[str, str]:
        """Find the parameters that no JSON can fill, and why.

        Raises:
            DefinitionError: One has no default.
        """
        reasons = {p.name: reason for p in parameters if (reason := self._find_reason(p))}
        needed = next((p for p in parameters if p.is_required and p.name in reasons), None)
        if needed is not None:
            remedy = NAME_REMEDY if needed.problem else REMEDY
            raise DefinitionError(
                f"{self.label}: parameter {needed.name!r} cannot be described to a model: {reasons[needed.name]}. "
                f"{remedy}"
            ) from error
        if not reasons:
            raise DefinitionError(f"{self.label}: pydantic cannot build its parameters: {error}") from error
        return reasons

    def _find_reason(self, p: Parameter) -> str:
        """Find why no JSON can fill a parameter; return an empty text where it can."""
        if p.problem:
            return p.problem
        try:
            self._describe([p])
        except PydanticOmit:
            return "it is marked to be left out (SkipJsonSchema)"
        except Exception as error:  # noqa: BLE001  as in `_generate`
            written = shorten(inspect.formatannotation(p.annotation), MAX_SHOWN_TYPE)
            return f"its type is {written} ({shorten(_summarize(error), MAX_SHOWN_TYPE)})"
        return ""


def _summarize(error: Exception) -> str:
    """Pick from a message what says why: pydantic's first sentence, before its advice; or the core's last line."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    if isinstance(error, SchemaError):
        return lines[-1].strip().removeprefix("error: ")
    return re.split(r"\.(?:\s|$)", lines[0])[0]


def _write_usual(parameters: Sequence[Parameter], write: Callable[[Parameter], T]) -> dict[str, T]:
    """Write by hand what can be written so, by name; the rest is left out."""
    written = {}
    for p in parameters:
        with suppress(Exception):  # a class that pydantic refuses is looked at again, beside all that is left to it
            if not p.problem:
                written[p.name] = write(p)
    return written


def _write_property(writer: JsonSchemaWriter, p: Parameter) -> Property:
    own = JsonSchemaWriter()  # what is written of a type that proves unusual is forgotten
    written = Property(p.name, own.write(p.json_type), p.is_required)
    if own.definitions:
        writer.add(own.definitions)
    return written


def _write_core(writer: CoreSchemaWriter, p: Parameter) -> dict[str, Any]:
    return {"type": "typed-dict-field", "schema": writer.write(p.json_type), "required": p.is_required}


def _refuse_taken(core: dict[str, Any], taken: Collection[str]) -> dict[str, Any]:
    """Refuse keywords that would take the place of another parameter: given by the run, a partial, or beside it."""

    def check(keywords: dict[str, Any]) -> dict[str, Any]:
        wrong = next((name for name in keywords if name in taken), None)
        if wrong is not None:
            raise ValueError(f"{wrong!r} cannot be given here")
        return keywords

    return {"type": "function-after", "function": {"type": "no-info", "function": check}, "schema": core}


def _add_text(p: Parameter, schema: dict[str, Any], texts: Mapping[str, str]) -> dict[str, Any]:
    """Add description and default to the schema of a parameter."""
    text = schema.get("description") or p.note or texts.get(p.name, "")
    default = {} if p.default is inspect.Parameter.empty else render_default(p.default)
    return {**schema, **({"description": text} if text else {}), **default}
