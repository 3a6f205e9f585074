"""A callable -> its parameters, and the way of validated values into its call.

Values go in by keyword, or by position where the signature says so. What the model left out is left out of the call
too: its default is Python's own. Nothing is built before it is asked for.

A docstring's examples -> arguments that a model may be shown, and that `check()` tries out.

A return annotation -> JSON Schema of what a function gives, and the way to write it.

Nothing here can block a tool: an annotation that has no meaning, or that pydantic cannot describe, says nothing.
"""

from __future__ import annotations

import ast
import collections.abc
import inspect
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property, partial
from inspect import Parameter as Written
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin

from toolkit._context import ToolContext
from toolkit._messages import OUTPUT, File, Image, ToolResult
from toolkit._schema.annotations import (
    called,
    closure,
    documentation,
    inherited,
    is_dispatched,
    known_keywords,
    resolve_annotation,
    signature,
    source_of,
)
from toolkit._schema.argument_schema import ArgumentSchema, DocumentSchema, get_fields
from toolkit._schema.core_schema import FieldWriter
from toolkit._schema.json_schema import clean, generator
from toolkit._schema.parameters import Parameter, ParameterSchema
from toolkit.errors import DefinitionError

if TYPE_CHECKING:
    from pydantic import ConfigDict, TypeAdapter
    from pydantic.fields import FieldInfo

    from toolkit._schema.docstrings import Docstring


def documents(examples: Iterable[str], name: str, parameters: Sequence[str]) -> list[dict[str, Any]]:
    """Find arguments in examples: calls of the function in doctests, with literals only; and objects in JSON.

    Args:
        examples: The texts of a docstring's examples.
        name: The function's own.
        parameters: Its parameters, in the order in which values go in by position.
    """
    return [document for example in examples for document in (*_called(example, name, parameters), *_written(example))]


def _called(example: str, name: str, parameters: Sequence[str]) -> Iterator[dict[str, Any]]:
    for call in filter(lambda node: isinstance(node, ast.Call), ast.walk(_code(example))):
        document = _arguments(call, parameters) if _is_of(call, name) else None
        if document is not None:
            yield document


def _code(example: str) -> ast.AST:
    """Read the lines behind the prompts of a doctest; what is no Python is nothing."""
    lines = (line.lstrip() for line in example.splitlines())
    code = "\n".join(line[4:] for line in lines if line.startswith((">>> ", "... ")))
    try:
        return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module(body=[], type_ignores=[])


def _is_of(call: ast.AST, name: str) -> bool:
    function = getattr(call, "func", None)
    return name in (getattr(function, "id", None), getattr(function, "attr", None))


def _arguments(call: Any, parameters: Sequence[str]) -> dict[str, Any] | None:
    """Read the arguments of a call; None where one is no literal, or has no name."""
    given = dict([*zip(parameters, call.args), *((each.arg, each.value) for each in call.keywords)])
    if len(call.args) > len(parameters) or None in given:
        return None
    try:
        values = {key: ast.literal_eval(value) for key, value in given.items()}
        document: dict[str, Any] = json.loads(json.dumps(values, allow_nan=False))
    except (ValueError, TypeError, RecursionError):
        return None
    return document


def _written(example: str) -> Iterator[dict[str, Any]]:
    for paragraph in re.split(r"\n\s*\n", example):
        text = paragraph.strip().removeprefix("```json").removeprefix("```").removesuffix("```")
        with suppress(ValueError, RecursionError):
            document = json.loads(text)
            if isinstance(document, dict):
                yield document


# Of what these give, the model gets all, as a list: the values' type is the first argument of each.
_ONE_BY_ONE = (
    collections.abc.Iterator,
    collections.abc.Generator,
    collections.abc.AsyncIterator,
    collections.abc.AsyncGenerator,
    collections.abc.AsyncIterable,
)
_PROMISES = (collections.abc.Awaitable, collections.abc.Coroutine)
# Values of these are written as any JSON value is.
_JSON = frozenset({str, int, float, bool, type(None), None, Any, list, dict})
_SAYS_NOTHING = frozenset({Any, inspect.Parameter.empty, object, ToolResult, Image, File})


class ReturnSchema:
    """JSON Schema of a tool's value, a function that writes such values, and the value as an argument."""

    __getstate__ = get_fields

    @cached_property
    def schema(self) -> dict[str, Any] | None:
        """JSON Schema of the value; None where it is unknown."""
        raise NotImplementedError

    @cached_property
    def to_json(self) -> Callable[[Any], bytes] | None:
        """Function that writes a value; None where any JSON writer would do."""
        return None

    @cached_property
    def argument_schema(self) -> ArgumentSchema:
        """Argument schema of the value alone, as `_output`: the model fills it in itself."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class ReturnDocument(ReturnSchema):
    """Return schema of a JSON Schema; None says nothing."""

    document: dict[str, Any] | None

    @cached_property
    def schema(self) -> dict[str, Any] | None:
        """The JSON Schema as it was given."""
        return self.document

    @cached_property
    def argument_schema(self) -> ArgumentSchema:
        """Argument schema of the value; of a text, where nothing is said of it."""
        whole = {"type": "string"} if self.document is None else self.document
        definitions = {"$defs": whole["$defs"]} if "$defs" in whole else {}
        inner = {keyword: value for keyword, value in whole.items() if keyword != "$defs"}
        return DocumentSchema({"type": "object", "properties": {OUTPUT: inner}, "required": [OUTPUT], **definitions})


@dataclass(frozen=True)
class ReturnType(ReturnSchema):
    """What a function gives, as its annotation says.

    Attributes:
        annotation: The type of what a call comes to in the end; see `in_the_end`.
        text: What the docstring says of it.
        names: What annotations name in the frames that the function was written in.
    """

    annotation: Any
    text: str = ""
    names: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def schema(self) -> dict[str, Any] | None:
        """JSON Schema of the value, or None where the annotation says nothing."""
        if self.annotation is Any:
            return None
        shown = FieldWriter().write(self.annotation) if _is_json(self.annotation) else self._described()
        return {"description": self.text, **shown} if shown and self.text else shown

    @cached_property
    def to_json(self) -> Callable[[Any], bytes] | None:
        """Writes a value by its annotated type, one of another type by that; None where any JSON writer would do."""
        if _is_json(self.annotation):
            return None
        # Pydantic takes no configuration for a class that may have one, but it does for what holds such a class.
        adapter = self._adapted(lambda: self.annotation | None, {"ser_json_inf_nan": "strings"})
        return adapter and partial(adapter.serializer.to_json, warnings=False)

    @cached_property
    def argument_schema(self) -> ArgumentSchema:
        """The value as an argument: what a model fills in that is to give it by itself; a text, if nothing is said."""
        annotation = str if self.annotation in (Any, inspect.Parameter.empty, object) else self.annotation
        output = Parameter(name=OUTPUT, kind=inspect.Parameter.KEYWORD_ONLY, annotation=annotation)
        return ParameterSchema(
            offered=[output],
            label="what it returns",
            texts=lambda: {OUTPUT: self.text} if self.text else {},
            examples=list,
            names=self.names,
            taken=tuple,
        )

    def _described(self) -> dict[str, Any] | None:
        try:
            adapter = self._adapted(lambda: self.annotation)
            return adapter and clean(adapter.json_schema(schema_generator=generator(), mode="serialization"))
        except Exception:  # noqa: BLE001  pydantic and user types raise what they like while a schema is built
            return None

    def _adapted(self, form: Callable[[], Any], config: ConfigDict | None = None) -> TypeAdapter[Any] | None:
        """Make what describes and writes values of a form of the annotation."""
        if self.annotation in _SAYS_NOTHING or _has_parts(self.annotation):
            return None
        from pydantic import TypeAdapter

        try:
            adapter: TypeAdapter[Any] = TypeAdapter(form(), config=config)
            # A model may name what is not there yet, or is there for type checkers only.
            whole = adapter.pydantic_complete or adapter.rebuild(raise_errors=False, _types_namespace=dict(self.names))
        except Exception:  # noqa: BLE001  as above
            return None
        return adapter if whole else None


def in_the_end(annotation: Any) -> Any:
    """Find the type of what a call comes to: of what a promise holds, a list of what a generator gives."""
    origin, given = get_origin(annotation), get_args(annotation)
    if origin in _PROMISES and given:
        return in_the_end(given[-1])
    return list[given[0]] if origin in _ONE_BY_ONE and given else annotation  # type: ignore[valid-type]


def _has_parts(annotation: Any) -> bool:
    """Tell whether values may hold what goes to the model in its own way, not as JSON."""
    return any(annotation is part for part in (Image, File, ToolResult)) or any(map(_has_parts, get_args(annotation)))


def _is_json(annotation: Any) -> bool:
    origin = get_origin(annotation)
    if origin is Annotated:
        return False
    return annotation in _JSON or (origin in (list, dict) and all(map(_is_json, get_args(annotation))))


# As a text: `ToolContext`, `toolkit.ToolContext[Deps]`, the same with None.
_CONTEXT_NAME = r"(None\s*\|\s*|(\w+\.)*Optional\[)?(\w+\.)*ToolContext(\[.*\])?(\s*\|\s*None|\])?"


@dataclass(frozen=True)
class Signature:
    """The parameters of one callable, as a model and as Python see them.

    Attributes:
        callable: What will be called.
        names: Local names of the frames that it was written in.
        is_method: Whether its first parameter is the instance, not given yet.
        owner: The class that it is a method of, where it was written there.
    """

    callable: Callable[..., Any]
    names: Mapping[str, Any] = field(default_factory=dict)
    is_method: bool = False
    owner: type | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return Signature, (self.callable, self.names, self.is_method, self.owner)  # what is built is built again

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
        from toolkit._schema.docstrings import (
            parse,  # its patterns take time to compile, and are needed with the schema only
        )

        text = documentation(self.callable) or inherited(self.owner, self.callable)
        return parse(text, {name.lstrip("*") for name in self._written})

    @cached_property
    def returns(self) -> ReturnType:
        """What a call gives, as the return annotation says; one that has no meaning here says nothing."""
        if inspect.isclass(self.callable):
            return ReturnType(self.callable, "")
        try:
            written = self._python.return_annotation
            annotation = in_the_end(resolve_annotation(written, self.source, self.names))
        except Exception:  # noqa: BLE001  an annotation is code of the user's
            annotation = Any
        return ReturnType(annotation, self.docstring.returns, self._around)

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """Every parameter that a call may give, in order."""
        return tuple(self._parameter(written) for written in self._written.values())

    @property
    def unannotated(self) -> tuple[str, ...]:
        """The parameters about whose type nothing is said."""
        return tuple(name for name, p in self._written.items() if p.annotation is Written.empty)

    @cached_property
    def has_plain_call(self) -> bool:
        """Whether validated values can go in by keyword just as they are."""
        return all(
            p.kind in (Written.POSITIONAL_OR_KEYWORD, Written.KEYWORD_ONLY)
            and not (p.injected or p.field or p.is_mutable)
            for p in self.parameters
        )

    @cached_property
    def built(self) -> ParameterSchema:
        """Validator and schema."""
        return ParameterSchema(
            offered=[p for p in self.parameters if not p.injected],
            label=self.label,
            texts=lambda: self.docstring.parameters,
            examples=self._examples,
            names=self._around,
            taken=self._taken,
        )

    @property
    def _around(self) -> dict[str, Any]:
        return {**self.names, **closure(self.source)}

    def _examples(self) -> list[dict[str, Any]]:
        offered = [p.name for p in self.parameters if not p.injected]
        return documents(self.docstring.examples, getattr(self.source, "__name__", ""), offered)

    def arrange(self, values: dict[str, Any], context: ToolContext[Any] | None) -> tuple[list[Any], dict[str, Any]]:
        """Lay validated values out as the signature wants them: by position, then by keyword."""
        by_position: list[Any] = []
        by_keyword: dict[str, Any] = {}
        placed = self._placed(values)
        for p in self.parameters:
            if p.kind is Written.VAR_POSITIONAL:
                by_position += values.get(p.name, ())
            elif p.kind is Written.VAR_KEYWORD:
                by_keyword |= values.get(p.name, {})
            elif p.kind in placed:
                by_position.append(value_or_default(p, values, context))
            elif _is_given(p, values):
                by_keyword[p.name] = value_or_default(p, values, context)
        return by_position, by_keyword

    def _placed(self, values: Mapping[str, Any]) -> Collection[Any]:
        """List the kinds of parameters that go in by position: in front of `*args` that are given, all that may."""
        if any(p.kind is Written.VAR_POSITIONAL and values.get(p.name) for p in self.parameters):
            return (Written.POSITIONAL_ONLY, Written.POSITIONAL_OR_KEYWORD)
        return (Written.POSITIONAL_ONLY,)

    @cached_property
    def _python(self) -> inspect.Signature:
        return signature(called(self.callable))

    @cached_property
    def _positional(self) -> Collection[str]:
        """Names of values that must go in by position, though what is shown of the callable allows keywords."""
        names = [p.name for p in self._python.parameters.values() if p.kind is Written.POSITIONAL_OR_KEYWORD]
        if is_dispatched(self.callable):
            return names[:1]
        return [] if (known := known_keywords(self.callable)) is None else [name for name in names if name not in known]

    @cached_property
    def _written(self) -> Mapping[str, Written]:
        try:
            found = dict(self._python.parameters)
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
        kind = Written.POSITIONAL_ONLY if written.name in self._positional else written.kind
        default, info = _without_field(written.default)
        return Parameter(
            name=written.name, kind=kind, annotation=annotation, default=default, field=info, problem=problem
        )

    def _resolved(self, annotation: Any) -> tuple[Any, str]:
        if annotation is Written.empty:
            return Any, ""
        try:
            return resolve_annotation(annotation, self.source, self.names), ""
        except Exception as error:  # noqa: BLE001  an annotation is code of the user's
            if re.fullmatch(_CONTEXT_NAME, getattr(annotation, "__forward_arg__", str(annotation))):
                return ToolContext, ""  # imported for type checkers only, which is all that a context needs
            return Any, f"its annotation {annotation!r} cannot be resolved ({error})"

    def _taken(self) -> frozenset[str]:
        """The keywords that belong to a parameter already."""
        named = (Written.POSITIONAL_OR_KEYWORD, Written.KEYWORD_ONLY)
        keywords = {p.name for p in self._python.parameters.values() if p.kind in named}
        return frozenset(keywords | _filled(self.callable).keys())


def _filled(function: Callable[..., Any]) -> Mapping[str, Any]:
    return function.keywords if isinstance(function, partial) else {}


def _without_field(default: Any) -> tuple[Any, FieldInfo | None]:
    """Part a default from pydantic's `Field(...)`, which may stand in its place."""
    if type(default).__name__ != "FieldInfo":
        return default, None
    if default.is_required():
        return Written.empty, default
    return default.default_factory or default.default, default


def _is_given(p: Parameter, values: Mapping[str, Any]) -> bool:
    return p.injected or p.field is not None or p.is_mutable or p.name in values


def value_or_default(p: Parameter, values: dict[str, Any], context: ToolContext[Any] | None) -> Any:
    """Give a parameter's value: what was given, or its default, which is this call's own."""
    if p.injected:
        return context
    if p.name in values:
        return values[p.name]
    if p.field:
        return p.field.get_default(call_default_factory=True, validated_data=values)
    if p.is_mutable:  # what one call makes of it is not for the next
        return deepcopy(p.default)
    return None if p.default is Written.empty else p.default
