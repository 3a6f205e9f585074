"""Signature -> validator and JSON Schema of the arguments.

How it works: the parameters become the keys of a TypedDict, whose keys may be any text, so no name is special.
pydantic builds validator and schema from that one type, so they cannot disagree. The validated values, typed, then
find their way into the call: by keyword, or by position where the signature says so. What the model left out is left
out of the call too: its default is Python's own.

Nothing is built before it is asked for.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from inspect import Parameter as Written
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin

import typing_extensions
from typing_extensions import NotRequired, TypedDict, Unpack

from toolkit import hints, schemas
from toolkit.context import ToolContext
from toolkit.docstrings import Docstring, parse
from toolkit.errors import DefinitionError

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from pydantic.fields import FieldInfo

# As a text: `ToolContext`, `toolkit.ToolContext[Deps]`, the same with None.
_CONTEXT_NAME = re.compile(r"(None\s*\|\s*|(\w+\.)*Optional\[)?(\w+\.)*ToolContext(\[.*\])?(\s*\|\s*None|\])?")


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
    def required(self) -> bool:
        """Whether a call must give it."""
        if self.kind is Written.VAR_KEYWORD:
            return bool(getattr(self.document_type, "__required_keys__", ()))
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
    def note(self) -> str:
        """The text that stands in `Annotated[...]` itself, plain or as PEP 727's `Doc`."""
        metadata = get_args(self.annotation)[1:] if get_origin(self.annotation) is Annotated else ()
        notes = (item if isinstance(item, str) else getattr(item, "documentation", None) for item in metadata)
        return next((note for note in notes if isinstance(note, str)), "")


@dataclass(frozen=True)
class Built:
    """What pydantic makes of the parameters that a model may fill.

    Attributes:
        hidden: Parameters that no JSON can fill, left out because they have a default.
    """

    validator: Callable[[str], dict[str, Any]]
    schema: dict[str, Any]
    hidden: tuple[str, ...] = ()


@dataclass(frozen=True)
class Signature:
    """The parameters of one callable, as a model and as Python see them.

    Attributes:
        callable: What will be called.
        names: Local names of the frames that it was written in.
        is_method: Whether its first parameter is the instance, not given yet.
    """

    callable: Callable[..., Any]
    names: Mapping[str, Any] = field(default_factory=dict)
    is_method: bool = False

    def __reduce__(self) -> tuple[Any, ...]:
        return Signature, (self.callable, self.names, self.is_method)  # what is built is built again

    @cached_property
    def source(self) -> Callable[..., Any]:
        """The plain function behind methods, partials, wrappers, classes and callable objects."""
        return source_of(self.callable)

    @property
    def label(self) -> str:
        """The function's name for messages to its developer."""
        where, name = getattr(self.source, "__module__", None), getattr(self.source, "__qualname__", None)
        return f"{where or 'builtins'}.{name}()" if name else repr(self.callable)

    @cached_property
    def docstring(self) -> Docstring:
        """What the docstring says."""
        text = documentation(self.callable)
        return parse(text, {name.lstrip("*") for name in self._written})

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """Every parameter that a call may give, in order."""
        return tuple(self._parameter(written) for written in self._written.values())

    @cached_property
    def has_plain_call(self) -> bool:
        """Whether validated values can go in by keyword just as they are."""
        return all(
            p.kind in (Written.POSITIONAL_OR_KEYWORD, Written.KEYWORD_ONLY) and not (p.injected or p.field)
            for p in self.parameters
        )

    @cached_property
    def built(self) -> Built:
        """Validator and schema.

        Raises:
            DefinitionError: A parameter without a default cannot be described to a model.
        """
        offered = {p.name: p for p in self.parameters if not p.injected}
        try:
            return self._build(offered)
        except Exception as error:  # noqa: BLE001  pydantic and user types raise what they like while a schema is built
            return self._build_without_unfit(offered, error)

    def arrange(self, values: dict[str, Any], context: ToolContext[Any] | None) -> tuple[list[Any], dict[str, Any]]:
        """Lay validated values out as the signature wants them: by position, then by keyword."""
        by_position: list[Any] = []
        by_keyword: dict[str, Any] = {}
        spread = any(p.kind is Written.VAR_POSITIONAL and values.get(p.name) for p in self.parameters)
        for p in self.parameters:
            given = context if p.injected else values[p.name] if p.name in values else _left_out(p, values)
            if p.kind is Written.VAR_POSITIONAL:
                by_position += values.get(p.name, ())
            elif p.kind is Written.VAR_KEYWORD:
                by_keyword |= values.get(p.name, {})
            elif p.kind is Written.POSITIONAL_ONLY or (spread and p.kind is Written.POSITIONAL_OR_KEYWORD):
                by_position.append(given)
            elif p.injected or p.field or p.name in values:
                by_keyword[p.name] = given
        return by_position, by_keyword

    @cached_property
    def _written(self) -> Mapping[str, Written]:
        try:
            found = dict(hints.signature(self.callable).parameters)
        except (ValueError, TypeError) as error:
            raise DefinitionError(
                f"{self.callable!r} has no signature that Python can read. Wrap it in a function."
            ) from error
        if self.is_method and found:
            del found[next(iter(found))]
        for name in _filled(self.callable):  # a partial keeps it as a default
            found.pop(name, None)
        return found

    def _parameter(self, written: Written) -> Parameter:
        annotation, problem = self._resolved(written.annotation)
        default, info = _without_field(written.default)
        return Parameter(
            name=written.name, kind=written.kind, annotation=annotation, default=default, field=info, problem=problem
        )

    def _resolved(self, annotation: Any) -> tuple[Any, str]:
        if annotation is Written.empty:
            return Any, ""
        try:
            return hints.resolved(annotation, self.source, self.names), ""
        except Exception as error:  # noqa: BLE001  an annotation is code of the user's
            if _CONTEXT_NAME.fullmatch(getattr(annotation, "__forward_arg__", str(annotation))):
                return ToolContext, ""  # imported for type checkers only, which is all that a context needs
            return Any, f"its annotation {annotation!r} cannot be resolved ({error})"

    def _build(self, offered: Mapping[str, Parameter]) -> Built:
        unresolved = next((p for p in offered.values() if p.problem), None)
        if unresolved is not None:
            raise TypeError(unresolved.problem)
        types = {p.name: self._document_type(p) for p in offered.values()}
        adapter = _adapter({name: it if offered[name].required else NotRequired[it] for name, it in types.items()})
        schema = schemas.tidy(adapter.json_schema(schema_generator=schemas.generator()))
        schema["properties"] = {
            name: self._described(p, shown)
            for p, (name, shown) in zip(offered.values(), schema.get("properties", {}).items())
        }
        return Built(adapter.validator.validate_json, schema)

    def _document_type(self, p: Parameter) -> Any:
        if p.kind is not Written.VAR_KEYWORD:
            return p.document_type
        from pydantic import AfterValidator

        return Annotated[p.document_type, AfterValidator(self._without_taken)]

    def _without_taken(self, free: dict[str, Any]) -> dict[str, Any]:
        """Refuse what would take the place of another parameter: given by the run, a partial, or beside it."""
        taken = next((name for name in free if name in self._taken), None)
        if taken is not None:
            raise ValueError(f"{taken!r} cannot be given here")
        return free

    @cached_property
    def _taken(self) -> frozenset[str]:
        """The keywords that belong to a parameter already."""
        named = hints.signature(self.callable).parameters.values()
        return frozenset(p.name for p in named if p.kind in (Written.POSITIONAL_OR_KEYWORD, Written.KEYWORD_ONLY)) | {
            *_filled(self.callable)
        }

    def _described(self, p: Parameter, shown: dict[str, Any]) -> dict[str, Any]:
        text = shown.get("description") or p.note or self.docstring.parameters.get(p.name, "")
        default = schemas.json_default(p.default)
        return {**shown, **({"description": text} if text else {}), **default}

    def _build_without_unfit(self, offered: Mapping[str, Parameter], error: Exception) -> Built:
        unfit = {name: why for name, p in offered.items() if (why := _unfit(p))}
        for name, why in unfit.items():
            if offered[name].required:
                raise DefinitionError(
                    f"{self.label}: parameter {name!r} cannot be described to a model: {why}. "
                    "Give it a type that JSON can fill, or a default (it is then left out), or bind it by a partial."
                ) from error
        if not unfit:
            raise DefinitionError(f"{self.label}: pydantic cannot build its parameters: {error}") from error
        rest = {name: p for name, p in offered.items() if name not in unfit}
        built = self._build(rest)
        return Built(built.validator, built.schema, tuple(unfit))


def source_of(function: Callable[..., Any]) -> Callable[..., Any]:
    """Find the plain function whose code, module and annotations a callable stands for."""
    while True:
        if isinstance(function, partial):
            function = function.func
        elif (wrapped := getattr(function, "__wrapped__", None)) is not None:
            function = wrapped
        elif inspect.ismethod(function):
            function = function.__func__
        elif inspect.isclass(function):
            return function.__init__ if inspect.isfunction(function.__init__) else function
        elif inspect.isroutine(function):
            return function
        elif inspect.ismethod(method := getattr(function, "__call__", None)):  # noqa: B004  the method itself is wanted
            function = method
        else:
            return function


def without_partials(function: Callable[..., Any]) -> Callable[..., Any]:
    """Find what a partial, or a partial of one, calls."""
    while isinstance(function, partial):
        function = function.func
    return function


def documentation(function: Callable[..., Any]) -> str | None:
    """Find the docstring of what a callable does; a callable object's or a partial's own class is not it."""
    function = without_partials(function)
    if inspect.isclass(function) or inspect.isroutine(function):
        return inspect.getdoc(function)
    return inspect.getdoc(source_of(function)) or inspect.getdoc(function)


def _filled(function: Callable[..., Any]) -> Mapping[str, Any]:
    return function.keywords if isinstance(function, partial) else {}


def _adapter(fields: Mapping[str, Any]) -> TypeAdapter[Any]:
    from pydantic import ConfigDict, TypeAdapter

    arguments = TypedDict("arguments", dict(fields))  # type: ignore[misc]  # noqa: UP013  keys known at run time only
    arguments.__pydantic_config__ = ConfigDict(extra="forbid", allow_inf_nan=False)  # type: ignore[attr-defined]
    return TypeAdapter(arguments)


def _unfit(p: Parameter) -> str:
    """Say why no JSON can fill a parameter, or nothing."""
    if p.problem:
        return p.problem
    try:
        _adapter({p.name: p.document_type}).json_schema()
    except Exception as error:  # noqa: BLE001  as in `built`
        reason = str(error).partition("\n")[0].rstrip(".")
        return f"its type is {inspect.formatannotation(p.annotation)} ({reason})"
    return ""


def _alternatives(annotation: Any) -> tuple[Any, ...]:
    origin = get_origin(annotation)
    if origin is Annotated:
        return _alternatives(get_args(annotation)[0])
    return get_args(annotation) if origin is Union or isinstance(annotation, _UNION) else (annotation,)


_UNION = type(int | str)


def _without_field(default: Any) -> tuple[Any, FieldInfo | None]:
    """Part a default from pydantic's `Field(...)`, which may stand in its place."""
    if type(default).__name__ != "FieldInfo":
        return default, None
    if default.is_required():
        return Written.empty, default
    return default.default_factory or default.default, default


def _left_out(p: Parameter, values: dict[str, Any]) -> Any:
    if p.field:
        return p.field.get_default(call_default_factory=True, validated_data=values)
    return None if p.default is Written.empty else p.default
