"""Signature -> validator and JSON Schema of the arguments.

How it works: the parameters become the keys of a TypedDict, whose keys may be any text, so no name is special.
pydantic builds validator and schema from that one type, so they cannot disagree. The validated values, typed, then
find their way into the call: by keyword, or by position where the signature says so. What the model left out is left
out of the call too: its default is Python's own.

Nothing is built before it is asked for.
"""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
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

_CONTEXT_NAME = re.compile(r"(\w+\.)*ToolContext(\[.*\])?")


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """One parameter of a function.

    Attributes:
        annotation: Its type, resolved; Any where there is none.
        default: What Python uses when nothing is given, or `inspect.Parameter.empty`.
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
        return self.default is Written.empty and self.kind not in (Written.VAR_POSITIONAL, Written.VAR_KEYWORD)

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
        names: Local names of the frame that decorated it.
        is_method: Whether its first parameter is the instance, not given yet.
        bound: Keywords that a partial has filled already.
    """

    callable: Callable[..., Any]
    names: Mapping[str, Any] = field(default_factory=dict)
    is_method: bool = False

    @cached_property
    def source(self) -> Callable[..., Any]:
        """The plain function behind methods, partials, wrappers, classes and callable objects."""
        return source_of(self.callable)

    @property
    def label(self) -> str:
        """The function's name for messages to its developer."""
        return (
            f"{self.source.__module__}.{self.source.__qualname__}()"
            if hasattr(self.source, "__qualname__")
            else repr(self.callable)
        )

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
        except DefinitionError:
            raise
        except Exception as error:  # noqa: BLE001  pydantic and user types raise what they like while a schema is built
            return self._build_without_unfit(offered, error)

    def arrange(self, values: dict[str, Any], context: ToolContext[Any] | None) -> tuple[list[Any], dict[str, Any]]:
        """Lay validated values out as the signature wants them: by position, then by keyword."""
        by_position: list[Any] = []
        by_keyword: dict[str, Any] = {}
        spread = any(p.kind is Written.VAR_POSITIONAL and values.get(p.name) for p in self.parameters)
        for p in self.parameters:
            given = context if p.injected else values.get(p.name, _left_out(p))
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
        for name in getattr(self.callable, "keywords", None) or {}:  # a partial keeps what it has filled as a default
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
            if isinstance(annotation, str) and _CONTEXT_NAME.fullmatch(annotation):
                return ToolContext, ""  # imported for type checkers only, which is all that a context needs
            return Any, f"its annotation {annotation!r} cannot be resolved ({error})"

    def _build(self, offered: Mapping[str, Parameter]) -> Built:
        unresolved = next((p for p in offered.values() if p.problem), None)
        if unresolved is not None:
            raise TypeError(unresolved.problem)
        adapter = _adapter(
            {p.name: p.document_type if p.required else NotRequired[p.document_type] for p in offered.values()}
        )
        schema = schemas.tidy(adapter.json_schema())
        schema["properties"] = {
            name: self._described(p, shown)
            for p, (name, shown) in zip(offered.values(), schema.get("properties", {}).items())
        }
        return Built(adapter.validator.validate_json, schema)

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
        if hasattr(function, "func") and hasattr(function, "keywords"):
            function = function.func
        elif hasattr(function, "__wrapped__"):
            function = function.__wrapped__
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


def documentation(function: Callable[..., Any]) -> str | None:
    """Find the docstring of what a callable does; a callable object's or a partial's own class is not it."""
    while hasattr(function, "func") and hasattr(function, "keywords"):
        function = function.func
    if inspect.isclass(function) or inspect.isroutine(function):
        return inspect.getdoc(function)
    return inspect.getdoc(source_of(function)) or inspect.getdoc(function)


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
    from pydantic_core import PydanticUndefined

    info: FieldInfo = copy.copy(default)
    value = Written.empty if info.is_required() else default.get_default(call_default_factory=True)
    info.default, info.default_factory = PydanticUndefined, None
    return value, info


def _left_out(p: Parameter) -> Any:
    return None if p.default is Written.empty else p.default
