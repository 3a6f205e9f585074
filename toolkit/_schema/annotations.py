"""Annotations -> types, wherever the function was written; and signatures, to be shown.

A name in a string annotation is looked for in the function's own scopes, innermost first: its type parameters, its
closure, the frames that it was written in (function locals, class bodies, notebook cells), its module. Who decorates it
lends it no names. The return annotation is never looked at here, so it cannot block a tool.

A callable -> what it stands for: the plain function behind it, its docstring, the way that it is called.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
import types
import typing
from collections.abc import Callable, Collection, Mapping
from functools import partial, singledispatchmethod
from types import CodeType, FunctionType, MethodType
from typing import Any

import typing_extensions

from toolkit.errors import DefinitionError


def _does_nothing() -> None: ...


async def _awaits_nothing() -> None: ...


# What the code of a function that does nothing is made of: every other byte is an argument.
_NOTHING = (_does_nothing.__code__.co_code[::2], _awaits_nothing.__code__.co_code[::2])


def find_source(function: Callable[..., Any]) -> Callable[..., Any]:
    """Find the plain function whose code, module and annotations a callable stands for.

    Raises:
        DefinitionError: It wraps itself.
    """
    while (inner := _unwrap_once(function)) is not function:
        function = inner
    return function


def _unwrap_once(function: Callable[..., Any]) -> Callable[..., Any]:
    """Find what a callable stands for, one layer further in; itself where there is none."""
    if isinstance(function, partial):
        return function.func
    if getattr(function, "__wrapped__", None) is not None:
        return _unwrap(function)
    if inspect.isclass(function):
        return _find_constructor(function)
    method = function if inspect.isroutine(function) else getattr(function, "__call__", None)  # noqa: B004  as it is
    return method.__func__ if inspect.ismethod(method) else function


def _find_constructor(kind: type) -> Callable[..., Any]:
    made_by: Any = kind.__init__  # type: ignore[misc]  # of this very class
    return made_by if inspect.isfunction(made_by) else kind


def _unwrap(function: Callable[..., Any]) -> Callable[..., Any]:
    try:
        inner: Callable[..., Any] = inspect.unwrap(function)
    except ValueError as error:
        raise DefinitionError(f"{function!r} wraps itself. Set its __wrapped__ to what it calls.") from error
    return inner


def is_declaration(function: object) -> bool:
    """Tell whether the body of a function is `...`, below its docstring: it says what there is, and does nothing.

    `pass` and `return` have the same code, so the source is looked at too: that of the code itself, not of what it
    wraps. Where that is not to be had, a function that says what it returns and does nothing is taken for a
    declaration. One that returns None does all that it says.
    """
    if not isinstance(function, FunctionType) or not _is_empty(function.__code__):
        return False
    if function.__annotations__.get("return", "") in (None, "None"):
        return False
    try:
        written = ast.parse(textwrap.dedent(inspect.getsource(function.__code__)))
    except (OSError, TypeError, SyntaxError):
        return "return" in function.__annotations__
    functions = (node for node in ast.walk(written) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))
    last = next((node.body[-1] for node in functions if node.name == function.__code__.co_name), None)
    return isinstance(last, ast.Expr) and isinstance(last.value, ast.Constant) and last.value.value is ...


def _is_empty(code: CodeType) -> bool:
    """Tell whether code does nothing, and gives None: the last constant is what it gives, behind the docstring."""
    return code.co_code[::2] in _NOTHING and code.co_consts[-1] is None


def unwrap_partials(function: Callable[..., Any]) -> Callable[..., Any]:
    """Find what a partial, or a partial of one, calls."""
    while isinstance(function, partial):
        function = function.func
    return function


def read_docstring(function: Callable[..., Any]) -> str | None:
    """Find the docstring of what a callable does; a callable object's or a partial's own class is not it."""
    function = unwrap_partials(function)
    if inspect.isclass(function) or inspect.isroutine(function):
        return inspect.getdoc(function)
    return inspect.getdoc(find_source(function)) or inspect.getdoc(function)


def find_inherited_docstring(owner: type | None, function: Callable[..., Any]) -> str | None:
    """Find the docstring of the method that one overrides; Python's own search knows no decorated methods."""
    name = getattr(function, "__name__", "")
    overridden = (inspect.getattr_static(base, name, None) for base in (owner.__mro__[1:] if owner else ()))
    return next((doc for method in overridden if (doc := getattr(method, "__doc__", None))), None)


def find_called(function: Callable[..., Any]) -> Callable[..., Any]:
    """Find what shows how a callable is called: of an object its method, bound as the method's kind demands."""
    if dispatcher := _find_dispatcher(function):  # its wrapper shows the instance, which it holds
        bound: Callable[..., Any] = dispatcher.func.__get__(dispatcher, type(dispatcher))
        return bound
    if _has_signature(function):
        return function
    method: Callable[..., Any] = function.__call__  # type: ignore[operator]  # an object has it
    return method if isinstance(method, (FunctionType, MethodType, partial)) else function


def _has_signature(function: Callable[..., Any]) -> bool:
    """Tell whether a signature can be read of what is not just an object with `__call__`."""
    if isinstance(function, (type, partial)) or inspect.isroutine(function):
        return True
    return hasattr(function, "__wrapped__") or hasattr(function, "__signature__")


def is_dispatched(function: Callable[..., Any]) -> bool:
    """Tell whether the type of the first value decides what is carried out, so that it must go in by position."""
    is_function = hasattr(function, "dispatch") and hasattr(function, "registry")
    return is_function or _find_dispatcher(function) is not None


def _find_dispatcher(function: Callable[..., Any]) -> singledispatchmethod[Any] | None:
    owner = getattr(getattr(function, "register", None), "__self__", None)
    return owner if isinstance(owner, singledispatchmethod) else None


def list_keywords(function: Callable[..., Any]) -> Collection[str] | None:
    """List the only keywords of a wrapper that passes on by position what else it gets; None of any other callable."""
    code = getattr(function, "__code__", None)
    if code is None or code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS) != inspect.CO_VARARGS:
        return None
    names: Collection[str] = code.co_varnames[: code.co_argcount]
    return names


_NAME = re.compile(r"[^\W\d]\w*")


def _marked() -> None: ...


# What makes inspect.iscoroutinefunction() say yes to an object; Python 3.12 was the first to have such a mark.
_MARKED = getattr(inspect, "markcoroutinefunction", lambda function: function)(_marked)
_GENERIC: object = types.GenericAlias  # `list[int]`, which Python 3.10 takes for a class
_COPIED = ("__module__", "__name__", "__qualname__", "__isabstractmethod__")


def collect_frame_names(function: Callable[..., Any]) -> Mapping[str, Any]:
    """Keep what the annotations of a function name in the frames that it was written in, where these still run."""
    annotations = read_annotations(function)
    settled = [type(annotation) is type or is_resolved(annotation) for annotation in annotations.values()]
    if all(settled):
        return {}
    local: dict[str, Any] = {}
    frame: types.FrameType | None = sys._getframe(1)  # noqa: SLF001  the public way, inspect.currentframe, is this one
    while frame is not None:
        if _is_around(frame, function):
            local = {**frame.f_locals, **local}  # the names of inner ones win
        frame = frame.f_back
    return _pick_mentioned(annotations, local)


def _is_around(frame: types.FrameType, function: Callable[..., Any]) -> bool:
    """Tell whether a function was written in what a frame runs, below the top level of its module."""
    module = getattr(function, "__globals__", None)
    if frame.f_globals is not module or frame.f_locals is module:
        return False
    return _contains(frame.f_code, getattr(function, "__code__", None))


def _pick_mentioned(annotations: Mapping[str, Any], local: Mapping[str, Any]) -> dict[str, Any]:
    """Pick what annotations name, and what the annotations of these classes name."""
    picked: dict[str, Any] = {}
    open_ends = [annotations]
    while open_ends:
        names = set(_NAME.findall(repr(open_ends.pop()))) & local.keys() - picked.keys()
        picked |= {name: local[name] for name in names}
        open_ends += [read_annotations(local[name]) for name in names if isinstance(local[name], type)]
    return picked


def is_resolved(annotation: Any) -> bool:
    """Tell whether nothing in an annotation is a name that must be looked up."""
    if isinstance(annotation, type) and type(annotation) is not _GENERIC:
        return True
    if isinstance(annotation, (str, typing.ForwardRef)):
        return False
    given = getattr(annotation, "__args__", ())
    return not isinstance(given, tuple) or _is_literal(annotation) or all(map(is_resolved, given))


def read_annotations(function: Callable[..., Any]) -> Mapping[str, Any]:
    """Read annotations as they were written: nothing is evaluated that has not been."""
    if sys.version_info >= (3, 14):  # names that are not defined yet would raise there
        import annotationlib

        return annotationlib.get_annotations(function, format=annotationlib.Format.FORWARDREF)
    return getattr(function, "__annotations__", {})


def read_signature(function: Callable[..., Any]) -> inspect.Signature:
    """Read a signature without evaluating its annotations.

    Raises:
        ValueError: There is none, as for some functions written in C.
    """
    if sys.version_info >= (3, 14):
        import annotationlib

        return inspect.signature(function, annotation_format=annotationlib.Format.FORWARDREF)
    return inspect.signature(function)


def render_signature(function: Callable[..., Any]) -> str:
    """Write a signature as its author did; `(...)` where there is none."""
    try:
        written = read_signature(function)
    except (ValueError, TypeError):
        return "(...)"
    parameters = [p.replace(annotation=_unquote(p.annotation)) for p in written.parameters.values()]
    return str(written.replace(parameters=parameters, return_annotation=_unquote(written.return_annotation)))


def read_attributes(function: Callable[..., Any]) -> dict[str, Any]:
    """Gather what makes an object look like a function: names, docstring, annotations, and the function behind it."""
    found = {key: value for key in _COPIED if (value := getattr(function, key, None)) is not None}
    found["__doc__"] = getattr(function, "__doc__", None)
    found["__annotations__"] = read_annotations(function)
    found["__wrapped__"] = function
    return found | vars(_MARKED) if inspect.iscoroutinefunction(function) else found


def resolve_annotation(annotation: Any, function: Callable[..., Any], names: Mapping[str, Any]) -> Any:
    """Make the type that an annotation of `function` means.

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


def _is_literal(annotation: Any) -> bool:
    return getattr(annotation, "__origin__", None) is typing.Literal


class _Unquoted(str):
    """A text that is shown without quotes."""

    __slots__ = ()
    __repr__ = str.__str__


def _unquote(annotation: Any) -> Any:
    return _Unquoted(annotation) if isinstance(annotation, str) else annotation


def _contains(outer: types.CodeType, inner: object) -> bool:
    """Tell whether a code has another one written in it, at any depth: methods are, in their class's body."""
    return any(part is inner or _contains(part, inner) for part in outer.co_consts if isinstance(part, types.CodeType))


def _convert_strings(annotation: Any) -> Any:
    """Make references of the strings in `list["City"]`, as Python 3.11 does and 3.10 does not."""
    given = getattr(annotation, "__args__", ())
    if _is_literal(annotation) or not isinstance(given, tuple):
        return annotation
    made = tuple(map(_to_reference, given))
    return annotation if all(new is old for new, old in zip(made, given)) else _rebuild(annotation, made)


def _to_reference(part: Any) -> Any:
    return typing.ForwardRef(part) if isinstance(part, str) else _convert_strings(part)


def _rebuild(annotation: Any, arguments: tuple[Any, ...]) -> Any:
    """Make a generic type again, with other arguments."""
    if isinstance(annotation, types.GenericAlias):
        return types.GenericAlias(typing.cast(type, annotation.__origin__), arguments)
    return annotation.copy_with(arguments) if hasattr(annotation, "copy_with") else annotation


def read_closure(function: Callable[..., Any]) -> dict[str, Any]:
    """Find the names that a function holds itself: its type parameters, and what it uses of the functions around it."""
    names = getattr(getattr(function, "__code__", None), "co_freevars", ())
    cells = getattr(function, "__closure__", None) or ()
    held = {name: cell.cell_contents for name, cell in zip(names, cells) if _is_filled(cell)}
    return {**held, **{parameter.__name__: parameter for parameter in getattr(function, "__type_params__", ())}}


def _is_filled(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018  reading an empty cell is how Python tells that it is empty
    except ValueError:
        return False
    return True
