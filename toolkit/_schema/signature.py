"""Signatures: the parameters of a callable, and how validated values are passed to it.

Values are passed by keyword, or by position where the signature demands it. What the model left out is left out of the
call too: its default is Python's own. Nothing is built before it is first used.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property, partial
from types import FunctionType
from typing import TYPE_CHECKING, Any

from toolkit._context import ToolContext
from toolkit._schema.annotations import (
    find_called,
    find_inherited_docstring,
    find_source,
    is_dispatched,
    list_keywords,
    read_closure,
    read_docstring,
    read_signature,
    resolve_annotation,
)
from toolkit._schema.parameters import Documentation, Parameter, ParameterSchema
from toolkit._schema.return_schema import ReturnType, resolve_result
from toolkit.errors import DefinitionError

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from toolkit._schema.docstrings import Docstring

# The annotation as text: `ToolContext`, `toolkit.ToolContext[Deps]`, the same with None.
_CONTEXT_NAME = re.compile(r"(None\s*\|\s*|(\w+\.)*Optional\[)?(\w+\.)*ToolContext(\[.*\])?(\s*\|\s*None|\])?")


@dataclass(frozen=True)
class Signature:
    """Parameters and documentation of one callable.

    Attributes:
        callable: The function, class or object that is called.
        names: Names in the frames around it that its annotations use.
        is_method: Whether its first parameter is the instance, which is not bound yet.
        owner: The class whose method it is.
    """

    callable: Callable[..., Any]
    names: Mapping[str, Any] = field(default_factory=dict)
    is_method: bool = False
    owner: type | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return Signature, (self.callable, self.names, self.is_method, self.owner)  # cached properties are built again

    @cached_property
    def source(self) -> Callable[..., Any]:
        """The plain function behind methods, partials, wrappers, classes and callable objects."""
        return find_source(self.callable)

    @property
    def label(self) -> str:
        """The function's name for error messages."""
        module, name = getattr(self.source, "__module__", None), getattr(self.source, "__qualname__", None)
        return f"{module or 'builtins'}.{name}()" if name else repr(self.callable)

    @cached_property
    def docstring(self) -> Docstring:
        """The parsed docstring, or that of the method which this one overrides."""
        from toolkit._schema.docstrings import parse  # slow to load, and needed with the schema only

        text = read_docstring(self.callable) or find_inherited_docstring(self.owner, self.callable)
        return parse(text, [name.lstrip("*") for name in self._declared])

    @cached_property
    def returns(self) -> ReturnType:
        """Return schema of the return annotation; one that cannot be resolved says nothing."""
        if inspect.isclass(self.callable):
            return ReturnType(self.callable, "")
        try:
            annotation = resolve_annotation(self._python.return_annotation, self.source, self.names)
            annotation = resolve_result(annotation)
        except Exception:  # noqa: BLE001  an annotation is code of the user's
            annotation = Any
        return ReturnType(annotation, self.docstring.returns, self._scope)

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """Every parameter that a call may have, in order."""
        return tuple([self._make_parameter(declared) for declared in self._declared.values()])

    @property
    def unannotated(self) -> tuple[str, ...]:
        """Names of the parameters without an annotation."""
        return tuple(name for name, p in self._declared.items() if p.annotation is inspect.Parameter.empty)

    @cached_property
    def has_plain_call(self) -> bool:
        """True if validated values can be passed by keyword as they are."""
        return all(
            p.kind in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
            and not (p.is_injected or p.field or p.has_mutable_default)
            for p in self.parameters
        )

    @cached_property
    def argument_schema(self) -> ParameterSchema:
        """Argument schema of the parameters that a model may fill."""
        return ParameterSchema(
            offered=[p for p in self.parameters if not p.is_injected],
            label=self.label,
            names=self._scope,
            read_documentation=self._read_documentation,
            list_taken=self._list_taken,
        )

    @property
    def _scope(self) -> dict[str, Any]:
        return {**self.names, **read_closure(self.source)}

    def _read_documentation(self) -> Documentation:
        docstring = self.docstring
        if not docstring.examples:
            return docstring.parameters, ()
        offered = [p.name for p in self.argument_schema.offered]
        return docstring.parameters, find_examples(docstring.examples, getattr(self.source, "__name__", ""), offered)

    def arrange(self, values: dict[str, Any], context: ToolContext[Any] | None) -> tuple[list[Any], dict[str, Any]]:
        """Arrange validated values for the call: positional arguments, then keyword arguments."""
        by_position: list[Any] = []
        by_keyword: dict[str, Any] = {}
        positional_kinds = self._list_positional_kinds(values)
        for p in self.parameters:
            if p.kind is inspect.Parameter.VAR_POSITIONAL:
                by_position += values.get(p.name, ())
            elif p.kind is inspect.Parameter.VAR_KEYWORD:
                by_keyword |= values.get(p.name, {})
            elif p.kind in positional_kinds:
                by_position.append(pick_value(p, values, context))
            elif p.is_injected or p.field is not None or p.has_mutable_default or p.name in values:
                by_keyword[p.name] = pick_value(p, values, context)
        return by_position, by_keyword

    def _list_positional_kinds(self, values: Mapping[str, Any]) -> Collection[Any]:
        """List the kinds of parameters that are passed by position: all in front of `*args` with values."""
        if any(p.kind is inspect.Parameter.VAR_POSITIONAL and values.get(p.name) for p in self.parameters):
            return (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        return (inspect.Parameter.POSITIONAL_ONLY,)

    @cached_property
    def _is_plain(self) -> bool:
        """True if the callable is a plain function, whose own signature is the whole truth."""
        own = getattr(self.callable, "__dict__", {})
        return type(self.callable) is FunctionType and "__wrapped__" not in own and "__signature__" not in own

    @cached_property
    def _python(self) -> inspect.Signature:
        return read_signature(self.callable if self._is_plain else find_called(self.callable))

    @cached_property
    def _positional(self) -> Collection[str]:
        """Names of the parameters that are passed by position, though the signature allows keywords."""
        if self._is_plain:
            return ()
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        names = [p.name for p in self._python.parameters.values() if p.kind is kind]
        if is_dispatched(self.callable):
            return names[:1]
        known = list_keywords(self.callable)
        return () if known is None else [name for name in names if name not in known]

    @cached_property
    def _declared(self) -> Mapping[str, inspect.Parameter]:
        """Python's parameters, without the instance and what a partial binds by keyword."""
        try:
            declared = dict(self._python.parameters)
        except (ValueError, TypeError) as error:
            raise DefinitionError(
                f"{self.callable!r} has no signature that Python can read. Wrap it in a function."
            ) from error
        if self.is_method and declared:
            del declared[next(iter(declared))]
        if isinstance(self.callable, partial):
            for name in self.callable.keywords:  # a partial keeps it as a default
                declared.pop(name, None)
        return declared

    def _make_parameter(self, declared: inspect.Parameter) -> Parameter:
        annotation, problem = self._resolve(declared.annotation)
        default, info = declared.default, None
        if type(default).__name__ == "FieldInfo":
            default, info = _read_default(default), default
        kind = inspect.Parameter.POSITIONAL_ONLY if declared.name in self._positional else declared.kind
        return Parameter(
            name=declared.name, kind=kind, annotation=annotation, default=default, field=info, problem=problem
        )

    def _resolve(self, annotation: Any) -> tuple[Any, str]:
        """Resolve an annotation; where that fails, return Any and the reason."""
        if annotation is inspect.Parameter.empty:
            return Any, ""
        try:
            return resolve_annotation(annotation, self.source, self.names), ""
        except Exception as error:  # noqa: BLE001  an annotation is code of the user's
            if _CONTEXT_NAME.fullmatch(getattr(annotation, "__forward_arg__", str(annotation))):
                return ToolContext, ""  # imported for type checkers only, which suffices
            return Any, f"its annotation {annotation!r} cannot be resolved ({error})"

    def _list_taken(self) -> frozenset[str]:
        """List the keywords that belong to a parameter."""
        named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        taken = {p.name for p in self._python.parameters.values() if p.kind in named}
        return frozenset(taken | self.callable.keywords.keys() if isinstance(self.callable, partial) else taken)


def _read_default(field_info: FieldInfo) -> Any:
    """Read the default of pydantic's `Field(...)`: its factory, where it has one."""
    if field_info.is_required():
        return inspect.Parameter.empty
    return field_info.default_factory or field_info.default


def pick_value(p: Parameter, values: dict[str, Any], context: ToolContext[Any] | None) -> Any:
    """Pick the value that is passed for a parameter: the argument, or a default that belongs to this call alone."""
    if p.is_injected:
        return context
    if p.name in values:
        return values[p.name]
    if p.field:
        return p.field.get_default(call_default_factory=True, validated_data=values)
    if p.has_mutable_default:  # changes by one call must not reach the next
        return deepcopy(p.default)
    return None if p.default is inspect.Parameter.empty else p.default


def find_examples(examples: Iterable[str], name: str, parameters: Sequence[str]) -> list[dict[str, Any]]:
    """Find arguments in a docstring's examples: calls in doctests, with literals only, and JSON objects.

    Args:
        examples: The texts of the examples.
        name: The function's name.
        parameters: Its parameters, in the order of positional arguments.
    """
    return [found for text in examples for found in (*_find_calls(text, name, parameters), *_find_json_objects(text))]


def _find_calls(example: str, name: str, parameters: Sequence[str]) -> Iterator[dict[str, Any]]:
    for call in filter(lambda node: isinstance(node, ast.Call), ast.walk(_parse_doctest(example))):
        arguments = _read_literals(call, parameters) if _is_call_of(call, name) else None
        if arguments is not None:
            yield arguments


def _parse_doctest(example: str) -> ast.AST:
    """Parse the lines behind the prompts of a doctest; what is no Python is an empty module."""
    lines = (line.lstrip() for line in example.splitlines())
    code = "\n".join(line[4:] for line in lines if line.startswith((">>> ", "... ")))
    try:
        return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module(body=[], type_ignores=[])


def _is_call_of(call: ast.AST, name: str) -> bool:
    function = getattr(call, "func", None)
    return name in (getattr(function, "id", None), getattr(function, "attr", None))


def _read_literals(call: Any, parameters: Sequence[str]) -> dict[str, Any] | None:
    """Read the arguments of a call; None where one is no literal, or has no name."""
    nodes = dict([*zip(parameters, call.args), *((each.arg, each.value) for each in call.keywords)])
    if len(call.args) > len(parameters) or None in nodes:
        return None
    try:
        values = {key: ast.literal_eval(node) for key, node in nodes.items()}
        document: dict[str, Any] = json.loads(json.dumps(values, allow_nan=False))
    except (ValueError, TypeError, RecursionError):
        return None
    return document


def _find_json_objects(example: str) -> Iterator[dict[str, Any]]:
    for paragraph in re.split(r"\n\s*\n", example):
        text = paragraph.strip().removeprefix("```json").removeprefix("```").removesuffix("```")
        with suppress(ValueError, RecursionError):
            document = json.loads(text)
            if isinstance(document, dict):
                yield document
