"""Argument schemas and return schemas, the base classes and those of functions: JSON Schema, validator, serializer.

Common types, and classes, are described one by one, and all other types by pydantic, together. A return annotation
that cannot be resolved, or that pydantic cannot describe, is ignored: it makes no tool unusable.
"""

from __future__ import annotations

import collections.abc
import inspect
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field, fields
from functools import cached_property
from types import SimpleNamespace, UnionType
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeAlias, Union, get_args, get_origin

import typing_extensions
from pydantic_core import PydanticOmit, SchemaError, SchemaSerializer, from_json, to_json
from typing_extensions import NotRequired, ReadOnly, Required

from toolkit._context import ToolContext
from toolkit._messages import OUTPUT, File, Image, ToolResult
from toolkit._schema.core_schema import (
    UNPACK,
    TypeWriter,
    Unusual,
    apply_after,
    clean,
    generate_fields,
    get_key,
    render_default,
)
from toolkit._schema.docstrings import find_text
from toolkit._schema.error_messages import shorten
from toolkit._schema.json_mode import build_object_validator
from toolkit._schema.json_schema import UnusableType, as_mapping
from toolkit.errors import DefinitionError

if TYPE_CHECKING:
    from pydantic import ConfigDict, TypeAdapter
    from pydantic.fields import FieldInfo


class Uncached:
    """Base of dataclasses whose cached properties are neither copied nor sent to another process."""

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]


class ArgumentSchema(Uncached):
    """JSON Schema and validator of a tool's arguments, each built when it is first read."""

    @cached_property
    def schema(self) -> dict[str, Any]:
        """JSON Schema of the arguments, of type object."""
        raise NotImplementedError

    @cached_property
    def validator(self) -> Callable[[str], dict[str, Any]]:
        """Function that turns JSON text into values by name. It raises pydantic-core's `ValidationError`."""
        raise NotImplementedError

    @property
    def value_names(self) -> Collection[str]:
        """Names of the values."""
        return [*self.schema["properties"]]

    @property
    def value_types(self) -> Mapping[str, Any]:
        """Python types of values by name; empty for plain data, or if they cannot be resolved."""
        return {}

    @property
    def undefined_names(self) -> Collection[str]:
        """Names of arguments that are optional and have no default."""
        properties = self.schema["properties"]
        required = self.schema.get("required", ())
        return [name for name, part in properties.items() if name not in required and "default" not in as_mapping(part)]

    def add_defaults(self, values: dict[str, Any]) -> dict[str, Any]:
        """Add the defaults that the validator left to Python."""
        return values

    def to_plain(self, values: dict[str, Any], *, by_alias: bool) -> dict[str, Any]:  # noqa: ARG002  only types have any
        """Convert values to plain data by their types; `by_alias` gives members of a type their names in JSON."""
        return values


class ReturnSchema(Uncached):
    """JSON Schema, serializer and check of a tool's value, and an argument schema of the value alone."""

    @cached_property
    def schema(self) -> dict[str, Any] | None:
        """JSON Schema of the value; None if it is unknown."""
        raise NotImplementedError

    @cached_property
    def serializer(self) -> SchemaSerializer | None:
        """Serializer of the value, made by pydantic; None if any JSON writer would do."""
        return None

    @cached_property
    def argument_schema(self) -> ArgumentSchema:
        """Argument schema with the value as its only argument, `_output`, for a model that fills it in."""
        raise NotImplementedError

    def check(self, value: Any) -> Any:
        """Validate a value by the declared type or JSON Schema, and return the result. Without one, return the value.

        Raises:
            Exception: It is not valid; an error of pydantic, of the schema, or of the user's type.
        """
        raise NotImplementedError


REMEDY = (
    "Annotate it with the type that the model sends: Annotated[{written}, FromJson(str)] makes it from a text, "
    "FromJson(list[float], function) by a function (toolkit.schema.FromJson). If your program has it: "
    "ToolContext.deps, functools.partial or a default (then left out)."
)
NAME_REMEDY = (
    "Write a type such as list[int], whose names are defined or imported, and not under `if TYPE_CHECKING:`; or give "
    "it a default (it is then left out)."
)
DEPENDENCY = "it is a dependency of FastAPI or LangChain, which a tool does not get"
DEPENDENCY_REMEDY = (
    "Write a function for the tool, with the value from ToolContext.deps, or bind it by functools.partial."
)
NON_TYPE = " is not a type"
NON_TYPE_REMEDY = "Write a type such as list[int]."
OPTION = "its default is an option of typer, which only typer replaces by a value"
OPTION_REMEDY = "Move the option into the annotation, and write the default itself: Annotated[int, typer.Option()] = 1."
INSTALL_REMEDY = "Install the package, or write another type."
TYPE_REMEDY = "Correct the annotation: write a type, and constraints that some value meets."
# The repr of an undefined name in that of an annotation. Python 3.14 adds the owner of the name.
_REFERENCE = re.compile(r"ForwardRef\((['\"])(.*?)\1(?:, [^()]*)?\)")
MAX_SHOWN_TYPE = 200  # characters; a union of models may have thousands

# Texts of the parameters by name, and examples of arguments.
Documentation: TypeAlias = tuple[Mapping[str, str], Sequence[Mapping[str, Any]]]


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """One parameter of a function.

    Attributes:
        annotation: Its type, resolved; Any if there is none.
        default: Python's default, or `inspect.Parameter.empty`; of a field with a factory, the factory.
        field: pydantic's `Field(...)`, if it is the default.
        problem: Why it cannot be described, such as an annotation that is not a type; empty if there is no problem.
    """

    name: str
    kind: Any
    annotation: Any
    default: Any = inspect.Parameter.empty
    field: FieldInfo | None = None
    problem: str = ""

    @cached_property
    def is_injected(self) -> bool:
        """True if the run supplies it, and not the model."""
        annotation = get_args(self.annotation)[0] if get_origin(self.annotation) is Annotated else self.annotation
        alternatives = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
        return ToolContext in [*alternatives, *map(get_origin, alternatives)]

    @property
    def has_mutable_default(self) -> bool:
        """True if its default could be changed in place, for every later call."""
        return type(self.default).__hash__ is None  # as for pydantic

    @property
    def is_required(self) -> bool:
        """True if every call must have an argument for it."""
        if self.kind is inspect.Parameter.VAR_KEYWORD:
            return _has_required_key(self.json_type)
        if self.kind is inspect.Parameter.VAR_POSITIONAL:
            return _has_required_item(self.json_type)
        return self.default is inspect.Parameter.empty

    @property
    def json_type(self) -> Any:
        """Type of its value in JSON: `*args` are a list or the unpacked tuple, `**kwargs` a dict or a TypedDict."""
        if get_origin(self.annotation) in UNPACK:
            return get_args(self.annotation)[0]
        if self.kind is inspect.Parameter.VAR_POSITIONAL:  # types made at run time
            is_tuple = _is_unpacked(self.annotation)
            return tuple[get_args(self.annotation)] if is_tuple else list[self.annotation]  # type: ignore[misc,name-defined]
        if self.kind is inspect.Parameter.VAR_KEYWORD:
            return dict[str, self.annotation]  # type: ignore[name-defined]
        return Annotated[self.annotation, self.field] if self.field else self.annotation

    @property
    def field_type(self) -> Any:
        """`json_type` as the type of a key of a TypedDict."""
        return self.json_type if self.is_required else NotRequired[self.json_type]

    def make_default(self, values: dict[str, Any]) -> Any:
        """Return the default for a call with these values, as a copy if possible, which the call may change."""
        if self.field:
            return self.field.get_default(call_default_factory=True, validated_data=values)
        if self.has_mutable_default:
            with suppress(Exception):  # it may hold a lock or a connection
                return deepcopy(self.default)
        return None if self.default is inspect.Parameter.empty else self.default


def _is_unpacked(annotation: Any) -> bool:
    """Return whether an annotation is `*tuple[...]`."""
    return bool(getattr(annotation, "__unpacked__", False))


def _has_required_item(items: Any) -> bool:
    """Return whether a tuple is never empty. A list may be."""
    args = get_args(items) if get_origin(items) is tuple else ()
    return args[1:] != (...,) and not all(map(_is_unpacked, args))


def _has_required_key(keywords: Any) -> bool:
    """Return whether a TypedDict has a required key, which `__required_keys__` misses in string annotations."""
    keywords = get_origin(keywords) or keywords  # the class of a generic one
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


class Property(NamedTuple):
    """A parameter as a property in JSON."""

    key: str  # its alias, if it has one
    schema: dict[str, Any]  # JSON Schema of its value
    core: dict[str, Any]  # core schema of its value, as the field of a TypedDict


class Properties(NamedTuple):
    """Parameters as properties, by the names of the parameters; and those that are left out, with the reasons."""

    by_name: dict[str, Property]
    writer: TypeWriter  # holds the definitions that their schemas refer to
    hidden: Mapping[str, str]


@dataclass(frozen=True, eq=False, kw_only=True)
class ParameterSchema(ArgumentSchema):
    """Argument schema of the parameters of a function.

    Attributes:
        offered: The parameters that a model may fill.
        label: The function's name for error messages.
        names: Names in the frames around the function that its annotations use.
        read_documentation: Returns texts and examples; called when `schema` is first read.
        list_taken: Lists the names of the function's own parameters, which `**kwargs` may not contain.
    """

    offered: Sequence[Parameter]
    label: str
    names: Mapping[str, Any]
    read_documentation: Callable[[], Documentation]
    list_taken: Callable[[], Collection[str]]

    @property
    def is_built(self) -> bool:
        """True once the parameters have been described, which fails as long as names of their types are not defined."""
        return "_properties" in self.__dict__

    @property
    def hidden(self) -> Mapping[str, str]:
        """Parameters that are left out, since no JSON can fill them and they have a default, with the reasons."""
        return self._properties.hidden

    @property
    def keys(self) -> Mapping[str, str]:
        """Names in JSON, by the names of the parameters that a model may fill."""
        return {name: each.key for name, each in self._properties.by_name.items()}

    @cached_property
    def schema(self) -> dict[str, Any]:
        """JSON Schema of the arguments: draft 2020-12, of type object.

        Raises:
            DefinitionError: A parameter without a default cannot be described to a model.
        """
        known = self._properties.by_name
        definitions = self._properties.writer.definitions
        texts, examples = self.read_documentation()
        described = [(p, known[p.name]) for p in self.offered if p.name in known]
        properties: dict[str, Any] = {}

        for p, each in described:
            text = find_text(p.json_type) or each.schema.get("description")
            text = text or find_text(p.annotation) or texts.get(p.name)  # of each of `*args`; of the docstring
            default = {} if p.default is inspect.Parameter.empty else render_default(p.default)
            properties[each.key] = {**each.schema, **({"description": text} if text else {}), **default}

        schema: dict[str, Any] = {"type": "object", "properties": properties}
        if required := [each.key for _, each in described if each.core["required"]]:
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
        by_name, writer, _ = self._properties
        cores = {p.name: by_name[p.name].core for p in self.offered if p.name in by_name}
        definitions = writer.complete()
        for p in self.offered:
            core = cores.get(p.name)
            if core and p.kind is inspect.Parameter.VAR_KEYWORD:
                cores[p.name] = {**core, "schema": _refuse_taken(core["schema"], self.list_taken())}
            elif core and core["schema"]["type"] == "default" and not (p.is_required or p.field):
                cores[p.name] = {**core, "schema": core["schema"]["schema"]}  # Python's own default wins
        return build_object_validator(cores, definitions)

    @property
    def value_types(self) -> Mapping[str, Any]:
        """Annotations of the parameters."""
        return {p.name: p.annotation for p in self.offered}

    @property
    def undefined_names(self) -> Collection[str]:
        """Empty: each parameter is required, or has a default."""
        return ()

    def add_defaults(self, values: dict[str, Any]) -> dict[str, Any]:
        """Add the defaults of the parameters that a call left out."""
        return {**{p.name: p.make_default(values) for p in self._defaulted if p.name not in values}, **values}

    def to_plain(self, values: dict[str, Any], *, by_alias: bool) -> dict[str, Any]:  # noqa: ARG002  always by alias
        """Convert values to plain data by their annotations."""
        return {p.name: self._write_plain(p, values[p.name]) for p in self.offered if p.name in values}

    def _write_plain(self, p: Parameter, value: Any) -> Any:
        serializer = ReturnType(p.json_type, names=self.names).serializer
        return from_json(serializer.to_json(value, by_alias=True, warnings=False) if serializer else to_json(value))

    @cached_property
    def _defaulted(self) -> tuple[Parameter, ...]:
        rest = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
        return tuple(p for p in self.offered if not p.is_required and p.kind not in rest and p.name not in self.hidden)

    @cached_property
    def _properties(self) -> Properties:
        writer = TypeWriter()
        written = writer.write_usual({p.name: p.json_type for p in self.offered if not p.problem})
        usual: dict[str, Property] = {}

        for p in self.offered:
            if p.name in written:
                schema, core = written[p.name]
                field = {"type": "typed-dict-field", "schema": core, "required": p.is_required}
                usual[p.name] = Property(p.name, schema, field)

        rest = [p for p in self.offered if p.name not in usual]
        try:
            properties = self._generate(rest, usual, writer) if rest else Properties(usual, writer, {})
        except Unusual:  # two classes have one name; pydantic gives them two
            properties = self._generate(self.offered, {}, TypeWriter())

        keys = [each.key for each in properties.by_name.values()]
        if repeated := [key for key in keys if keys.count(key) > 1]:
            raise DefinitionError(
                f"{self.label}: two parameters are {repeated[0]!r} in JSON. Give one of them another alias."
            )
        return properties

    def _generate(self, parameters: Sequence[Parameter], usual: dict[str, Property], writer: TypeWriter) -> Properties:
        """Describe parameters by pydantic. Leave out those that no JSON can fill, if they have a default."""
        hidden: dict[str, str] = {}
        try:
            generated, definitions, core_definitions = self._describe(parameters)
        except Exception as error:  # noqa: BLE001  pydantic and user types raise what they like while a schema is built
            hidden = self._find_unfit(parameters, error)
            rest = [p for p in parameters if p.name not in hidden]
            generated, definitions, core_definitions = self._describe(rest)
        writer.add(definitions, core_definitions)
        return Properties(usual | generated, writer, hidden)

    def _describe(self, parameters: Sequence[Parameter]) -> tuple[dict[str, Property], dict[str, Any], Any]:
        """Return parameters as properties, with the definitions of their JSON Schemas and of their core schemas."""
        unresolved = next((p for p in parameters if p.problem), None)
        if unresolved is not None:
            raise TypeError(unresolved.problem)
        fields = generate_fields({p.name: p.field_type for p in parameters}, self.names)
        keys = {name: get_key(name, core) for name, core in fields.cores.items()}
        schemas, definitions = fields.make_json_schemas()
        made = {name: Property(keys[name], schemas[name], core) for name, core in fields.cores.items()}
        return made, definitions, fields.definitions

    def _find_unfit(self, parameters: Sequence[Parameter], error: Exception) -> dict[str, str]:
        """Find the parameters that no JSON can fill, and why."""
        errors = {p.name: found for p in parameters if (found := self._find_error(p))}
        refused = (p for p in parameters if p.name in errors and (p.is_required or _is_wrong(errors[p.name])))
        needed = next(refused, None)
        if needed is not None:
            raise DefinitionError(
                f"{self.label}: parameter {needed.name!r} cannot be described to a model: "
                f"{_explain(needed, errors[needed.name])}. {_choose_remedy(needed, errors[needed.name])}"
            ) from error
        if not errors:
            raise DefinitionError(f"{self.label}: pydantic cannot build its parameters: {error}") from error
        return {p.name: _explain(p, errors[p.name]) for p in parameters if p.name in errors}

    def _find_error(self, p: Parameter) -> Exception | None:
        """Return the error about a parameter that no JSON can fill, or None if JSON can fill it."""
        try:
            self._describe([p])
        except Exception as error:  # noqa: BLE001  as in `_generate`
            return error
        return None


def _explain(p: Parameter, error: Exception) -> str:
    if p.problem:
        return p.problem
    if isinstance(error, PydanticOmit):
        return "it is marked to be left out (SkipJsonSchema)"
    if undefined := _find_undefined(p):
        return f"its annotation has {undefined!r}, which is not defined"
    return f"its type is {_write_type(p)} ({shorten(summarize_error(error), MAX_SHOWN_TYPE)})"


def _find_undefined(p: Parameter) -> str:
    """Find a name that is not defined in the values of an annotation, such as constraints, in Python 3.14; or ""."""
    found = _REFERENCE.search(repr(p.annotation))
    return found[2] if found else ""


def _is_wrong(error: Exception) -> bool:
    """Return whether a constraint does not fit its type, no value meets it, or a package of the type is missing."""
    is_protocol = '"is-instance"' in str(error)  # not checkable at run time, and no mistake beside a default
    return isinstance(error, (UnusableType, SchemaError, ImportError)) and not is_protocol


def _choose_remedy(p: Parameter, error: Exception) -> str:
    from pydantic.errors import PydanticInvalidForJsonSchema  # few definitions are refused

    if p.problem.endswith(NON_TYPE):
        return NON_TYPE_REMEDY
    if p.problem or isinstance(error, NameError) or _find_undefined(p):
        return {DEPENDENCY: DEPENDENCY_REMEDY, OPTION: OPTION_REMEDY}.get(p.problem, NAME_REMEDY)
    if isinstance(error, ImportError):  # as for EmailStr
        return INSTALL_REMEDY
    if not isinstance(error, (PydanticInvalidForJsonSchema, PydanticOmit)):
        return TYPE_REMEDY if _is_wrong(error) else f"{TYPE_REMEDY} Or give it a default (it is then left out)."
    written = _write_type(p)
    return REMEDY.format(written=written if len(written) < 80 else "...")


def _write_type(p: Parameter) -> str:
    return shorten(inspect.formatannotation(simplify_annotation(p.annotation)), MAX_SHOWN_TYPE)


class _Unquoted(str):
    """Text whose repr has no quotes."""

    __slots__ = ()
    __repr__ = str.__str__


def simplify_annotation(annotation: Any) -> Any:
    """Simplify an annotation for display: strings and undefined names without quotes, types without `Annotated`."""
    if isinstance(annotation, str):
        return _Unquoted(annotation)
    if annotation is None:
        return None
    with suppress(Exception):  # names that are not defined yet, objects that are no types; it is code of the user's
        annotation = typing_extensions.get_type_hints(SimpleNamespace(__annotations__={"it": annotation}))["it"]
    return _Unquoted(write_references(annotation)) if "ForwardRef(" in repr(annotation) else annotation


def write_references(annotation: Any) -> str:
    """Write an annotation with the names that are not defined as they are."""
    return re.sub(r"(?<![\w.])typing\.", "", _REFERENCE.sub(r"\2", repr(annotation)))


# The beginning of pydantic's message about a type that it does not know.
_UNABLE = "Unable to generate pydantic-core schema for"


def summarize_error(error: Exception) -> str:
    """Extract the reason from a message: pydantic's first sentence, or pydantic-core's last line."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    if isinstance(error, SchemaError):
        return lines[-1].strip().removeprefix("error: ")
    return re.split(r"\.(?:\s|$)", lines[0])[0].replace(_UNABLE, "JSON cannot represent")


def _refuse_taken(core: dict[str, Any], taken: Collection[str]) -> dict[str, Any]:
    """Add a check to the schema of `**kwargs` that refuses the names of other parameters."""

    def check(keywords: dict[str, Any]) -> dict[str, Any]:
        wrong = next((name for name in keywords if name in taken), None)
        if wrong is not None:
            raise ValueError(f"{wrong!r} is already set, and cannot be given here")
        return keywords

    return apply_after(check, core)


# Return annotations of functions whose values are collected in a list. Their first argument is the type of one value.
_ITERATORS = (
    collections.abc.Iterator,
    collections.abc.Generator,
    collections.abc.AsyncIterator,
    collections.abc.AsyncGenerator,
    collections.abc.AsyncIterable,
)
_AWAITABLES = (collections.abc.Awaitable, collections.abc.Coroutine)
# Types whose values any JSON writer accepts, and types that no schema describes. These are tuples, since an annotation
# may be any object, such as a list, which has no hash.
_JSON = (str, int, float, bool, type(None), None, Any, list, dict)
_UNDESCRIBED = (Any, inspect.Parameter.empty, object, ToolResult, Image, File)


@dataclass(frozen=True)
class ReturnType(ReturnSchema):
    """Return schema of a function's return annotation."""

    annotation: Any  # the type of a call's result; see `resolve_result`
    text: str = ""  # the docstring's text about it
    # Names in the frames around the function that annotations use.
    names: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def schema(self) -> dict[str, Any] | None:
        """JSON Schema of the value; None if the annotation does not describe it."""
        if self.annotation is Any:
            return None
        usual = TypeWriter().write_usual({OUTPUT: self.annotation}) if _is_json(self.annotation) else {}
        schema = usual[OUTPUT].schema if usual else self._generate_schema()
        return {"description": self.text, **schema} if schema and self.text else schema

    @cached_property
    def serializer(self) -> SchemaSerializer | None:
        """Serializer of a value by its annotated type; None if any JSON writer would do."""
        if _is_json(self.annotation):
            return None
        # pydantic takes no configuration for a class that may have its own, but it does for a union with such a class.
        adapter = self._build_adapter(lambda: self.annotation | None, {"ser_json_inf_nan": "strings"})
        return adapter and adapter.serializer

    @cached_property
    def argument_schema(self) -> ArgumentSchema:
        """Argument schema of the value alone, as `_output`. It is a text if the annotation does not describe it."""
        annotation = str if self.annotation in (Any, inspect.Parameter.empty, object) else self.annotation
        output = Parameter(name=OUTPUT, kind=inspect.Parameter.KEYWORD_ONLY, annotation=annotation)
        return ParameterSchema(
            offered=[output],
            label="the return value",
            names=self.names,
            read_documentation=lambda: ({OUTPUT: self.text} if self.text else {}, ()),
            list_taken=tuple,
        )

    def check(self, value: Any) -> Any:
        """Validate a value by the annotated type, and return the result. Without a usable type, return the value."""
        return value if self._adapter is None else self._adapter.validate_python(value)

    @cached_property
    def _adapter(self) -> TypeAdapter[Any] | None:
        return self._build_adapter(lambda: self.annotation)

    def _generate_schema(self) -> dict[str, Any] | None:
        from toolkit._schema.generator import Generator  # slow to load

        try:
            adapter = self._adapter
            return adapter and clean(adapter.json_schema(schema_generator=Generator, mode="serialization"))
        except Exception:  # noqa: BLE001  pydantic and user types raise what they like while a schema is built
            return None

    def _build_adapter(self, make_type: Callable[[], Any], config: ConfigDict | None = None) -> TypeAdapter[Any] | None:
        """Build the adapter of a type made of the annotation. Return None if it cannot be described."""
        if self.annotation in _UNDESCRIBED or _has_parts(self.annotation):
            return None
        from pydantic import TypeAdapter

        try:
            adapter: TypeAdapter[Any] = TypeAdapter(make_type(), config=config)
            # A model may use names that are not defined yet, or for type checkers only.
            is_complete = adapter.pydantic_complete or adapter.rebuild(
                raise_errors=False, _types_namespace=dict(self.names)
            )
        except Exception:  # noqa: BLE001  as above
            return None

        return adapter if is_complete else None


def resolve_result(annotation: Any) -> Any:
    """Return the type of a call's result: of an awaitable the awaited type, of an iterator a list of its items.

    Both may be in a union, in `Annotated` or behind a type alias.
    """
    origin = get_origin(annotation)
    args = get_args(annotation)
    if origin in _AWAITABLES and args:
        return resolve_result(args[-1])
    if origin in _ITERATORS and args:
        return list[args[0]]  # type: ignore[valid-type]
    if origin is Annotated:
        return Annotated[(resolve_result(args[0]), *args[1:])]
    if origin in (Union, UnionType):
        return Union[tuple(map(resolve_result, args))]  # noqa: UP007  made at run time
    if type(annotation).__name__ == "TypeAliasType":
        value = resolve_result(annotation.__value__)
        return annotation if value == annotation.__value__ else value
    return annotation


def _has_parts(annotation: Any) -> bool:
    """Return whether values may hold images, files or results, which are not sent as JSON, or models of any class."""
    is_part = any(annotation is part for part in (Image, File, ToolResult)) or _is_any_model(annotation)
    return is_part or any(map(_has_parts, get_args(annotation)))


def _is_any_model(annotation: Any) -> bool:
    """Return whether a class is a base without fields, such as `BaseModel`: by it, no field of a value is written."""
    return {} in (getattr(annotation, name, None) for name in ("model_fields", "__dataclass_fields__"))


def _is_json(annotation: Any) -> bool:
    origin = get_origin(annotation)
    if origin is Annotated:
        return False
    return annotation in _JSON or (origin in (list, dict) and all(map(_is_json, get_args(annotation))))
