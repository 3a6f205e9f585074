"""Signatures: the parameters and annotations of a callable, and how validated values are passed to it.

Values are passed by keyword, or by position if the signature demands it. Arguments that the model left out are not
passed, so that Python's own defaults apply. Nothing is built before it is first used.

A name in a string annotation is looked up in the function's own scopes, innermost first: its type parameters, its
closure, the frames around it (function locals, class bodies, notebook cells), its class, its module. The frame in which
it is decorated is not searched, unless it is defined there.
"""

from __future__ import annotations

import builtins
import collections.abc
import inspect
import re
import sys
import types
import typing
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial, singledispatchmethod
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, TypeVar, cast, get_args, get_origin

import typing_extensions

from toolkit._context import ToolContext
from toolkit._options import UNEVALUATED
from toolkit.errors import DefinitionError

if sys.version_info >= (3, 14):
    import annotationlib

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from toolkit._schema.docstrings import Docstring
    from toolkit._schema.function_schema import Documentation, Parameter, ParameterSchema, ReturnType


# Types of deps that accept None, also as members of a union.
_OPEN = (None, type(None), Any, object)
# An annotation of a context as text: `ToolContext`, `toolkit.ToolContext[Deps]`, the same with None or in Annotated.
_CONTEXT_NAME = re.compile(
    r"(None\s*\|\s*|(\w+\.)*(Optional|Union|Annotated)\[(None,\s*)?)?(\w+\.)*ToolContext(\[.*\])?(\s*\|\s*None|(,.*)?\])?"
)

# Classes that mark a parameter as one that another library fills.
_DEPENDENCIES = frozenset({"fastapi.params.Depends", "langchain_core.tools.base.InjectedToolArg"})


@dataclass(frozen=True)
class Signature:
    """Parameters and documentation of one callable.

    Attributes:
        callable: The function, class or object that is called.
        names: Names in the frames around it that its annotations use.
        is_method: Whether its first parameter is the instance, which is not bound yet.
        owner: The class whose method it is, or the generic alias by which its instance was made.
        origin: Name for error messages, if the function's own name would not help.
    """

    callable: Callable[..., Any]
    names: Mapping[str, Any] = field(default_factory=dict)
    is_method: bool = False
    owner: type | None = None
    origin: str = ""

    def __reduce__(self) -> tuple[Any, ...]:  # without cached properties
        return Signature, (self.callable, self.names, self.is_method, self.owner, self.origin)

    @cached_property
    def source(self) -> Callable[..., Any]:
        """The plain function behind methods, partials, wrappers, classes and callable objects."""
        return find_source(self.callable)

    @property
    def label(self) -> str:
        """Name for error messages: `origin`, or else the function's qualified name."""
        if self.origin:
            return self.origin
        module = getattr(self.source, "__module__", None)
        name = getattr(self.source, "__qualname__", None)
        return f"{module or 'builtins'}.{name}()" if name else repr(self.callable)

    @cached_property
    def docstring(self) -> Docstring:
        """The parsed docstring, or that of the method which this one overrides."""
        from toolkit._schema.docstrings import parse_docstring  # slow to load, and needed for the schema only

        owner = get_origin(self.owner) or self.owner
        text = read_docstring(self.callable) or find_inherited_docstring(owner, self.callable)
        names = [name.lstrip("*") for name in self.declared]
        parsed = parse_docstring(text, names)
        if inspect.isclass(self.callable):  # fields or `__init__` may document them, too
            from toolkit._schema.docstrings import read_field_texts

            texts = {name: text for name, text in read_field_texts(self.callable, {}).items() if name in names}
            written = parse_docstring(inspect.getdoc(self.source), names).parameters
            parsed = replace(parsed, parameters={**parsed.attributes, **written, **parsed.parameters, **texts})
        elif not parsed.description and find_called(self.callable) is not self.callable:  # its class may describe it
            parsed = replace(parsed, description=parse_docstring(inspect.getdoc(self.callable), names).description)

        rest = [name for name, p in self.declared.items() if p.kind is inspect.Parameter.VAR_KEYWORD]
        return replace(parsed, parameters=self._move_keys(parsed.parameters, rest[0])) if rest else parsed

    def _move_keys(self, texts: Mapping[str, str], rest: str) -> Mapping[str, str]:
        """Move the texts about names that are no parameters to `**rest`, which takes them."""
        known = read_signature(find_called(unwrap_partials(self.callable))).parameters
        keys = [f"- {name}: {text}" for name, text in texts.items() if name not in known]
        about = "\n\n".join(filter(None, [texts.get(rest, ""), "\n".join(keys)]))
        return {**{name: text for name, text in texts.items() if name in known}, rest: about}

    @property
    def returns(self) -> ReturnType:
        """Return schema of the return annotation, which is Any as long as it cannot be resolved."""
        try:
            return self._returns
        except Exception:  # noqa: BLE001  an annotation is code of the user's
            from toolkit._schema.function_schema import ReturnType

            return ReturnType(Any, self.docstring.returns, self._scope)

    @cached_property
    def _returns(self) -> ReturnType:
        from toolkit._schema.function_schema import ReturnType, resolve_result

        if inspect.isclass(self.callable):
            return ReturnType(self.callable, "")
        annotation = resolve_annotation(self._python.return_annotation, self.source, self.names)
        if getattr(annotation, "__parameters__", ()) or isinstance(annotation, TypeVar):
            annotation = self._fill_variables(annotation)
        return ReturnType(resolve_result(annotation), self.docstring.returns, self._scope)

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """All parameters, in order, without the instance and those that a partial binds."""
        return tuple([self._make_parameter(declared) for declared in self.declared.values()])

    def look(self) -> tuple[Parameter, ...]:
        """Return the parameters without keeping them: names in their annotations may be defined later."""
        return replace(self).parameters

    @property
    def unannotated(self) -> tuple[str, ...]:
        """Names of the parameters without an annotation."""
        return tuple(name for name, p in self.declared.items() if p.annotation is inspect.Parameter.empty)

    @cached_property
    def has_plain_call(self) -> bool:
        """True if validated values can be passed by keyword as they are."""
        return all(
            p.kind in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
            and not (p.is_injected or p.field or p.has_mutable_default)
            for p in self.parameters
        )

    @cached_property
    def deps_types(self) -> tuple[Any, ...]:
        """Types X of parameters annotated `ToolContext[X]`, but for those that accept None."""
        types = [get_args(p.annotation)[0] for p in self.parameters if get_origin(p.annotation) is ToolContext]
        return tuple(
            kind
            for kind in types  # their arguments may be lists, as of Callable, so no set can hold these
            if not isinstance(kind, TypeVar) and not any(part in _OPEN for part in (kind, *get_args(kind)))
        )

    @property
    def argument_schema(self) -> ParameterSchema:
        """Argument schema of the parameters that a model may fill, made anew until it could be built."""
        made: ParameterSchema | None = self.__dict__.get("_made")
        if made is not None:
            if made.is_built:
                return made
            for name in ("parameters", "declared", "_python"):  # names in their annotations may be defined by now
                self.__dict__.pop(name, None)

        from toolkit._schema.function_schema import ParameterSchema  # slow to load: it needs pydantic-core

        made = self.__dict__["_made"] = ParameterSchema(
            offered=[p for p in self.parameters if not p.is_injected],
            label=self.label,
            names=self._scope,
            read_documentation=self._read_documentation,
            list_taken=self._list_taken,
        )
        return made

    @property
    def _scope(self) -> dict[str, Any]:
        return {**self.names, **read_closure(self.source)}

    def _read_documentation(self) -> Documentation:
        docstring = self.docstring
        if not docstring.examples:
            return docstring.parameters, ()

        from toolkit._schema.docstrings import find_examples

        # An example has the arguments that a partial binds, too.
        whole = read_signature(find_called(unwrap_partials(self.callable)))
        injected = [p.name for p in self.parameters if p.is_injected]
        taken = [p for p in [*whole.parameters.values()][self.is_method :] if p.name not in injected]
        name = getattr(self.callable if inspect.isclass(self.callable) else self.source, "__name__", "")
        signature = whole.replace(parameters=taken)
        return docstring.parameters, find_examples(docstring.examples, name, signature, self.argument_schema.keys)

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
                by_position.append(p.default if self._is_shared(p) else _pick_value(p, values, context))
            elif p.is_injected or p.field or p.name in values or (p.has_mutable_default and not self._is_shared(p)):
                by_keyword[p.name] = _pick_value(p, values, context)

        return by_position, by_keyword

    def _is_shared(self, p: Parameter) -> bool:
        """Return whether a default is an object of a type that no JSON can fill: calls share it, without copies."""
        return p.has_mutable_default and p.name in self.argument_schema.hidden

    def _list_positional_kinds(self, values: Mapping[str, Any]) -> Collection[Any]:
        """List the kinds of parameters that are passed by position: all before `*args` if that has values."""
        if any(p.kind is inspect.Parameter.VAR_POSITIONAL and values.get(p.name) for p in self.parameters):
            return (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        return (inspect.Parameter.POSITIONAL_ONLY,)

    @cached_property
    def _python(self) -> inspect.Signature:
        return read_signature(self.callable if is_plain_function(self.callable) else find_called(self.callable))

    @cached_property
    def _positional(self) -> Collection[str]:
        """Names of parameters that must be passed by position, though a wrapper's signature allows keywords."""
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        names = [p.name for p in self._python.parameters.values() if p.kind is kind]
        return names[: count_positional(self.callable, names)]

    @cached_property
    def declared(self) -> Mapping[str, inspect.Parameter]:
        """Python's parameters, without the instance and those that a partial binds.

        Raises:
            DefinitionError: Python cannot read the signature.
        """
        try:
            declared = dict(self._python.parameters)
        except Exception as error:  # a ValueError; or what a `__signature__` raises
            raise DefinitionError(
                f"{self.callable!r} has no signature that Python can read. Wrap it in a function."
            ) from error

        if self.is_method and declared:
            del declared[next(iter(declared))]
        if isinstance(self.callable, partial):
            for name in self.callable.keywords:  # inspect lists it still, with the bound value as its default
                declared.pop(name, None)
        return declared

    def _make_parameter(self, declared: inspect.Parameter) -> Parameter:
        """Make a parameter. If its annotation cannot be resolved or is not a type, it is Any, with a `problem`."""
        from toolkit._schema.function_schema import DEPENDENCY, OPTION, Parameter

        annotation: Any = Any if declared.annotation is declared.empty else declared.annotation
        problem = ""
        try:
            if annotation is not Any:
                annotation = resolve_annotation(annotation, self.source, self.names)
            if getattr(annotation, "__parameters__", ()) or isinstance(annotation, TypeVar):
                annotation = self._fill_variables(annotation)
        except Exception as error:  # noqa: BLE001  an annotation is code of the user's
            annotation, problem = _refuse_unresolved(annotation, error)

        non_type = next(_find_non_types(annotation), None)
        is_slip = False
        if non_type is not None:
            annotation, problem, is_slip = _refuse_non_type(annotation, non_type)
        value: Any = annotation
        if type(annotation).__name__ == "TypeAliasType":
            with suppress(Exception):  # its value is code of the user's
                value = value.__value__

        marks = [declared.default, *getattr(value, "__metadata__", ())]
        kinds = [mark if isinstance(mark, type) else type(mark) for mark in marks]
        classes, *others = [[f"{base.__module__}.{base.__name__}" for base in kind.__mro__] for kind in kinds]
        is_field = "pydantic.fields.FieldInfo" in classes  # FastAPI's `Query` is derived from it
        default = _read_default(declared.default) if is_field else declared.default
        info = declared.default if is_field else None
        foreign = "" if _DEPENDENCIES.isdisjoint(sum(others, classes)) else DEPENDENCY
        option = OPTION if "typer.models.ParameterInfo" in classes else ""
        if foreign or option or is_slip:  # without a default it is refused, and not left out
            default = declared.empty
            problem = foreign or option or problem
        is_positional = not is_plain_function(self.callable) and declared.name in self._positional
        kind = inspect.Parameter.POSITIONAL_ONLY if is_positional else declared.kind
        parameter = Parameter(
            name=declared.name, kind=kind, annotation=annotation, default=default, field=info, problem=problem
        )
        if value is not annotation and (behind := replace(parameter, annotation=value)).is_injected:
            return behind
        return parameter

    def _fill_variables(self, annotation: Any) -> Any:
        """Replace type variables by the types that the method's class has for them, or by a limit with a name in it."""
        owner = getattr(find_called(unwrap_partials(self.callable)), "__self__", self.owner)
        kind = get_origin(owner) or (owner if isinstance(owner, type) else type(owner))
        name = getattr(self.source, "__name__", "")
        home = next((base for base in kind.__mro__ if name in vars(base)), kind)
        # The alias by which an instance was made; read like this, since an object may make up every attribute.
        alias = inspect.getattr_static(owner, "__orig_class__", owner if get_origin(owner) else kind)
        limits = {
            variable: resolve_annotation(limit, self.source, self.names)
            for variable, limit in _find_open_limits(annotation)
        }
        return fill_variables(annotation, {**limits, **find_type_arguments(alias, home)})

    def _list_taken(self) -> frozenset[str]:
        """List the keywords that belong to a parameter."""
        named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        taken = {p.name for p in self._python.parameters.values() if p.kind in named}
        return frozenset(taken | self.callable.keywords.keys() if isinstance(self.callable, partial) else taken)


# Modules of types that are not classes, such as type variables; and those among them that no parameter can have.
TYPING = ("typing", "typing_extensions", "annotationlib")
_NO_VALUES = (typing.NoReturn, typing_extensions.Never, typing_extensions.Self)
# Values that stand for themselves in annotations (PEP 661); built in from Python 3.15 on.
SENTINELS = (typing_extensions.Sentinel, getattr(builtins, "sentinel", typing_extensions.Sentinel))
# Modules of generic types whose arguments are types, and generic types whose arguments are not.
_GENERIC_MODULES = ("builtins", "collections", "collections.abc", "types", *TYPING)
_NO_TYPE_ARGUMENTS = (typing.Literal, collections.abc.Callable)


def _find_non_types(annotation: Any) -> Iterator[Any]:
    """Find values in place of types, as in `x: [int]` or `x: dict[str, any]`, which pydantic takes for Any."""
    origin = get_origin(annotation)
    if origin is None and annotation is not None and not isinstance(annotation, (type, str)):
        is_form = type(annotation).__module__ in TYPING and not isinstance(annotation, SENTINELS)
        is_form = is_form and annotation not in _NO_VALUES
        if not is_form and not hasattr(annotation, "__get_pydantic_core_schema__"):
            yield annotation
    elif getattr(origin, "__module__", "") in _GENERIC_MODULES and origin not in _NO_TYPE_ARGUMENTS:
        for argument in get_args(annotation)[: 1 if origin is typing.Annotated else None]:
            if not isinstance(argument, (tuple, type(...))):  # `tuple[()]` in Python 3.10, `tuple[int, ...]`
                yield from _find_non_types(argument)


def _refuse_unresolved(annotation: Any, error: Exception) -> tuple[Any, str]:
    """Return Any in place of an annotation that cannot be resolved, and the reason.

    If the annotation is named like ToolContext, return that, without a reason.
    """
    from toolkit._schema.function_schema import write_references

    written = write_references(annotation)
    if _CONTEXT_NAME.fullmatch(written.strip("'\"")):
        return ToolContext, ""  # may be imported for type checkers only
    return Any, f"its annotation {written} cannot be resolved ({error})"


def _refuse_non_type(annotation: Any, non_type: Any) -> tuple[Any, str, bool]:
    """Leave the sentinels out of a union, and explain what else in an annotation is no type.

    Returns:
        The type; why it is none, or ""; and whether that is a slip, which a default does not excuse.
    """
    from toolkit._schema.function_schema import NON_TYPE

    if isinstance(non_type, SENTINELS):
        annotation = _drop_sentinels(annotation)
        non_type = next(_find_non_types(annotation), None)
        if non_type is None:
            return annotation, "", False
    part = "" if non_type is annotation else f" has {inspect.formatannotation(non_type)}, which"
    problem = f"its annotation {inspect.formatannotation(annotation)}{part}{NON_TYPE}"
    return Any, problem, non_type is not callable and not isinstance(non_type, SENTINELS)


def _drop_sentinels(annotation: Any) -> Any:
    """Leave out the sentinels of a union: no model sends one."""
    origin = get_origin(annotation)
    arguments = get_args(annotation)
    if origin is typing.Annotated:
        return typing.Annotated[(_drop_sentinels(arguments[0]), *arguments[1:])]
    if origin in (typing.Union, types.UnionType):  # a union made at run time
        types_left = tuple(each for each in arguments if not isinstance(each, SENTINELS))
        return typing.Union[types_left] if types_left else annotation  # noqa: UP007
    return annotation


def _read_default(field_info: FieldInfo) -> Any:
    """Return the default of pydantic's `Field(...)`: its factory, if it has one."""
    if field_info.is_required():
        return inspect.Parameter.empty
    return field_info.default_factory or field_info.default


def _pick_value(p: Parameter, values: dict[str, Any], context: ToolContext[Any] | None) -> Any:
    """Return the value to pass for a parameter: the context, the argument, or the default."""
    if p.is_injected:
        return context
    return values[p.name] if p.name in values else p.make_default(values)


# A function with the mark that makes inspect.iscoroutinefunction() accept an object; new in Python 3.12.
_MARKED = getattr(inspect, "markcoroutinefunction", lambda function: function)(lambda: None)
_GENERIC: object = types.GenericAlias  # `list[int]`, which Python 3.10 takes for a class
_COPIED = ("__module__", "__name__", "__qualname__", "__isabstractmethod__", "__annotate__", "__type_params__")


def is_plain_function(function: object) -> bool:
    """Return whether a callable is a function that wraps no other, and has no `__signature__`."""
    return type(function) is FunctionType and function.__dict__.keys().isdisjoint(("__wrapped__", "__signature__"))


def find_source(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the plain function behind a callable, which has its code, module and annotations.

    Raises:
        DefinitionError: The callable wraps itself.
    """
    while not is_plain_function(function) and (inner := _unwrap_once(function)) is not function:
        function = inner
    return function


def _unwrap_once(function: Callable[..., Any]) -> Callable[..., Any]:
    """Unwrap one layer of a callable. Return the callable itself if it wraps nothing."""
    if isinstance(function, partial):
        return function.func
    if getattr(function, "__wrapped__", None) is not None:
        try:
            return cast("Callable[..., Any]", inspect.unwrap(function))
        except ValueError as error:
            raise DefinitionError(f"{function!r} wraps itself. Set its __wrapped__ to what it calls.") from error
    if inspect.isclass(function):
        return function.__init__ if inspect.isfunction(function.__init__) else function
    method = function if inspect.isroutine(function) else getattr(function, "__call__", None)  # noqa: B004  as it is
    return method.__func__ if inspect.ismethod(method) else function


def unwrap_partials(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the callable behind partials."""
    while isinstance(function, partial):
        function = function.func
    return function


def read_docstring(function: Callable[..., Any]) -> str | None:
    """Return the docstring of a callable. That of `__call__` comes before that of the object's class."""
    if isinstance(function, partial):
        return vars(function).get("__doc__") or read_docstring(function.func)
    if inspect.isclass(function):
        return _read_class_docstring(function)
    if inspect.isroutine(function):
        inner = inspect.unwrap(function)  # functools.wraps() copies the docstring of an object's class
        is_copied = inner is not function and function.__doc__ == type(inner).__doc__
        return read_docstring(inner) if is_copied else inspect.getdoc(function)
    written = inspect.getdoc(find_source(function))
    return inspect.getdoc(function) if written in (None, type.__call__.__doc__) else written


def _read_class_docstring(kind: type) -> str:
    """Return the docstring of a class itself, or "" if only a base, such as pydantic's, has one."""
    own = vars(kind).get("__doc__")
    text = inspect.cleandoc(own) if isinstance(own, str) else ""
    is_signature = text.startswith(f"{kind.__name__}(") and "\n" not in text  # Python's, of a dataclass or named tuple
    return "" if is_signature else text


def find_inherited_docstring(owner: type | None, function: Callable[..., Any]) -> str | None:
    """Return the docstring of the method that this one overrides, also of a decorated one, unlike `inspect.getdoc`."""
    name = getattr(function, "__name__", "")
    overridden = (inspect.getattr_static(base, name, None) for base in (owner.__mro__[1:] if owner else ()))
    return next((doc for method in overridden if (doc := getattr(method, "__doc__", None))), None)


def find_called(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the callable that has the signature: for an object, its bound `__call__`."""
    register: Any = getattr(function, "register", None)
    if isinstance(getattr(register, "__self__", None), singledispatchmethod):  # bound, but looks like a function
        return MethodType(function.__wrapped__, function)  # type: ignore[attr-defined]  # each of them has it
    if _has_signature(function):
        return function
    method: Callable[..., Any] = function.__call__  # type: ignore[operator]  # an object has it
    return method if isinstance(method, (FunctionType, MethodType, partial)) else function


def _has_signature(function: Callable[..., Any]) -> bool:
    """Return whether a callable has a signature of its own, and is not an object with `__call__` alone."""
    if isinstance(function, (type, partial)) or inspect.isroutine(function):
        return True
    return hasattr(function, "__wrapped__") or hasattr(function, "__signature__")


def count_positional(function: Callable[..., Any], names: Sequence[str]) -> int:
    """Count those first parameters that a wrapper, or a wrapper inside it, accepts by position only.

    `names` are the parameters that its signature allows as keywords.
    """
    if hasattr(function, "register") and hasattr(function, "__wrapped__"):  # of functools.singledispatch
        return 1
    if isinstance(function, MethodType):
        return max(count_positional(function.__func__, ["self", *names]) - 1, 0)

    code = getattr(function, "__code__", None)
    inner = getattr(function, "__wrapped__", None)
    below = count_positional(inner, names) if inner and not hasattr(function, "__signature__") else 0
    if code is None or is_plain_function(function):
        return below
    if code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS) == inspect.CO_VARARGS:
        return len(names)

    own = code.co_varnames[: code.co_argcount]
    given = code.co_posonlyargcount
    other = (number for number, (mine, name) in enumerate(zip(own, names), 1) if mine != name or number <= given)
    return max(below, *other, 0)


def is_resolved(annotation: Any) -> bool:
    """Return whether an annotation has no name that must be looked up."""
    if isinstance(annotation, type) and type(annotation) is not _GENERIC:
        return True
    if isinstance(annotation, (str, typing.ForwardRef)):
        return False
    given = getattr(annotation, "__args__", ())
    return not isinstance(given, tuple) or _is_literal(annotation) or all(map(is_resolved, given))


def read_annotations(function: Callable[..., Any]) -> Mapping[str, Any]:
    """Read annotations without looking up names that are not defined yet.

    Raises:
        DefinitionError: An annotation of a function cannot be evaluated. Before Python 3.14, `def` itself raises.
    """
    if sys.version_info >= (3, 14):
        try:
            return annotationlib.get_annotations(function, format=annotationlib.Format.FORWARDREF)
        except Exception as error:
            if type(function) is FunctionType:
                raise DefinitionError(
                    f"{function.__module__}.{function.__qualname__}(): an annotation cannot be evaluated "
                    f"({type(error).__name__}: {error}). Correct it. Where a name is in quotes, the whole type must be "
                    f"in quotes, as in 'City | None'."
                ) from error
            if isinstance(function, type) or isinstance(error, ValueError):
                return {}  # of a class, pydantic says what is wrong; those of an odd object are not a dict
            raise

    return getattr(function, "__annotations__", {})


def read_signature(function: Callable[..., Any]) -> inspect.Signature:
    """Read a signature without evaluating its annotations.

    Raises:
        ValueError: There is no signature, as for some functions written in C.
    """
    if isinstance(function, partial) and "__wrapped__" in vars(function):  # update_wrapper() hides bound arguments
        function = partial(function.func, *function.args, **function.keywords)
    shown = inspect.unwrap(function, stop=_has_own_parameters)
    follow = type(shown) is not FunctionType
    return inspect.signature(shown, follow_wrapped=follow, **UNEVALUATED)


def _has_own_parameters(function: Callable[..., Any]) -> bool:
    """Return whether a wrapper's own parameters are used: without `*args` and `**kwargs`, it may supply others."""
    if type(function) is not FunctionType or "__signature__" in function.__dict__:
        return True
    return not function.__code__.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)


def render_signature(function: Callable[..., Any], *, leave_out: Collection[str]) -> str:
    """Render a signature without some of its parameters and without `Annotated`."""
    from toolkit._schema.function_schema import simplify_annotation

    written = read_signature(function)
    rest = (p for p in written.parameters.values() if p.name not in leave_out)
    parameters = [p.replace(annotation=simplify_annotation(p.annotation)) for p in rest]
    result = simplify_annotation(written.return_annotation)
    return str(written.replace(parameters=parameters, return_annotation=result))


def read_attributes(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the attributes by which an object that wraps a function looks like that function."""
    found = {key: value for key in _COPIED if (value := getattr(function, key, None)) is not None}
    found["__doc__"] = getattr(function, "__doc__", None)
    found["__annotations__"] = read_annotations(function)
    found["__wrapped__"] = function
    if is_plain_function(function) and not (function.__dict__ or function.__code__.co_flags & inspect.CO_COROUTINE):
        return found  # inspect.iscoroutinefunction() would double the time
    return found | vars(_MARKED) if inspect.iscoroutinefunction(function) else found


def resolve_annotation(annotation: Any, function: Callable[..., Any], names: Mapping[str, Any]) -> Any:
    """Resolve an annotation of `function` to a type.

    Raises:
        NameError: A name is in none of the function's scopes.
    """
    if is_resolved(annotation):
        return annotation
    holder = types.SimpleNamespace(__annotations__={"it": annotation})
    scope = {**names, **read_closure(function)}
    hints = typing_extensions.get_type_hints(
        holder, globalns=getattr(function, "__globals__", {}), localns=scope, include_extras=True
    )
    again = hints["it"] if sys.version_info >= (3, 11) else _convert_strings(hints["it"])
    return again if again is hints["it"] else resolve_annotation(again, function, names)


def _find_open_limits(annotation: Any) -> Iterator[tuple[TypeVar, Any]]:
    """Find the type variables with names, which pydantic does not look up, in their bounds or constraints."""
    if type(annotation) is TypeVar:  # an unpacked type says that it is one, too, in Python 3.10
        choices = annotation.__constraints__
        limit = typing.Union[choices] if choices else annotation.__bound__  # noqa: UP007  made at run time
        if limit is not None and not is_resolved(limit):
            yield annotation, limit
    for part in get_args(annotation):
        yield from _find_open_limits(part)


def find_type_arguments(kind: Any, home: type) -> dict[Any, Any]:
    """Find the types that a class, or a generic alias of one, has for the type variables of its base `home`."""
    origin, arguments = _split_alias(kind)
    pairs = zip(getattr(origin, "__parameters__", ()), arguments)
    given = {variable: each for variable, each in pairs if isinstance(variable, TypeVar) and is_resolved(each)}
    if origin is home:
        return given
    for base in vars(origin).get("__orig_bases__", origin.__bases__):
        base_class, _ = _split_alias(base)
        if home in base_class.__mro__:
            return find_type_arguments(fill_variables(base, given), home)
    return {}


def _split_alias(kind: Any) -> tuple[Any, tuple[Any, ...]]:
    """Split a generic alias into the class and its arguments. Those of pydantic's models are classes."""
    own = getattr(kind, "__pydantic_generic_metadata__", {})
    return own.get("origin") or get_origin(kind) or kind, own.get("args") or get_args(kind)


def fill_variables(annotation: Any, types: Mapping[Any, Any]) -> Any:
    """Replace the type variables in a type, as far as their types are known."""
    if isinstance(annotation, TypeVar):
        return types.get(annotation, annotation)
    variables = getattr(annotation, "__parameters__", ())
    is_written = get_args(annotation) or hasattr(annotation, "__pydantic_generic_metadata__")
    if types.keys().isdisjoint(variables) or not is_written:  # a class alone has variables of its own
        return annotation
    return annotation[tuple(types.get(variable, variable) for variable in variables)]


def _is_literal(annotation: Any) -> bool:
    return getattr(annotation, "__origin__", None) is typing.Literal


def _convert_strings(annotation: Any) -> Any:
    """Convert the strings in `list["City"]` to references, as Python 3.11 does and 3.10 does not."""
    given = getattr(annotation, "__args__", ())
    if _is_literal(annotation) or not isinstance(given, tuple):
        return annotation
    converted = tuple(typing.ForwardRef(part) if isinstance(part, str) else _convert_strings(part) for part in given)
    return annotation if all(new is old for new, old in zip(converted, given)) else _rebuild(annotation, converted)


def _rebuild(annotation: Any, arguments: tuple[Any, ...]) -> Any:
    """Rebuild a generic type with other arguments."""
    if isinstance(annotation, types.GenericAlias):
        return types.GenericAlias(typing.cast(type, annotation.__origin__), arguments)
    return annotation.copy_with(arguments) if hasattr(annotation, "copy_with") else annotation


def read_closure(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the names in a function's closure, and its type parameters."""
    names = getattr(getattr(function, "__code__", None), "co_freevars", ())
    cells = getattr(function, "__closure__", None) or ()
    held = {name: cell.cell_contents for name, cell in zip(names, cells) if _is_filled(cell)}
    return {**held, **{parameter.__name__: parameter for parameter in getattr(function, "__type_params__", ())}}


def _is_filled(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018  raises if the cell is empty
    except ValueError:
        return False
    return True
