"""A callable -> what it stands for: the plain function behind it, its docstring, the way that it is called."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Collection
from functools import partial, singledispatchmethod
from types import CodeType, FunctionType, MethodType
from typing import Any

from toolkit.errors import DefinitionError


def _does_nothing() -> None: ...


async def _promises_nothing() -> None: ...


# What the code of a function that does nothing is made of: every other byte is an argument.
_NOTHING = (_does_nothing.__code__.co_code[::2], _promises_nothing.__code__.co_code[::2])


def source_of(function: Callable[..., Any]) -> Callable[..., Any]:
    """Find the plain function whose code, module and annotations a callable stands for.

    Raises:
        DefinitionError: It wraps itself.
    """
    while (inner := _behind(function)) is not function:
        function = inner
    return function


def _behind(function: Callable[..., Any]) -> Callable[..., Any]:
    """Find what a callable stands for, one layer further in; itself where there is none."""
    if isinstance(function, partial):
        return function.func
    if getattr(function, "__wrapped__", None) is not None:
        return _unwrapped(function)
    if inspect.isclass(function):
        return _constructor(function)
    method = function if inspect.isroutine(function) else getattr(function, "__call__", None)  # noqa: B004  as it is
    return method.__func__ if inspect.ismethod(method) else function


def _constructor(kind: type) -> Callable[..., Any]:
    made_by: Any = kind.__init__  # type: ignore[misc]  # of this very class
    return made_by if inspect.isfunction(made_by) else kind


def _unwrapped(function: Callable[..., Any]) -> Callable[..., Any]:
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
    if not isinstance(function, FunctionType) or not _does_as_little(function.__code__):
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


def _does_as_little(code: CodeType) -> bool:
    """Tell whether code does nothing, and gives None: the last constant is what it gives, behind the docstring."""
    return code.co_code[::2] in _NOTHING and code.co_consts[-1] is None


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


def inherited(owner: type | None, function: Callable[..., Any]) -> str | None:
    """Find the docstring of the method that one overrides; Python's own search knows no decorated methods."""
    name = getattr(function, "__name__", "")
    overridden = (inspect.getattr_static(base, name, None) for base in (owner.__mro__[1:] if owner else ()))
    return next((doc for method in overridden if (doc := getattr(method, "__doc__", None))), None)


def called(function: Callable[..., Any]) -> Callable[..., Any]:
    """Find what shows how a callable is called: of an object its method, bound as the method's kind demands."""
    if dispatcher := _method_dispatcher(function):  # its wrapper shows the instance, which it holds
        bound: Callable[..., Any] = dispatcher.func.__get__(dispatcher, type(dispatcher))
        return bound
    if _shows_itself(function):
        return function
    method: Callable[..., Any] = function.__call__  # type: ignore[operator]  # an object has it
    return method if isinstance(method, (FunctionType, MethodType, partial)) else function


def _shows_itself(function: Callable[..., Any]) -> bool:
    """Tell whether a signature can be read of what is not just an object with `__call__`."""
    if isinstance(function, (type, partial)) or inspect.isroutine(function):
        return True
    return hasattr(function, "__wrapped__") or hasattr(function, "__signature__")


def is_dispatched(function: Callable[..., Any]) -> bool:
    """Tell whether the type of the first value decides what is carried out, so that it must go in by position."""
    is_function = hasattr(function, "dispatch") and hasattr(function, "registry")
    return is_function or _method_dispatcher(function) is not None


def _method_dispatcher(function: Callable[..., Any]) -> singledispatchmethod[Any] | None:
    owner = getattr(getattr(function, "register", None), "__self__", None)
    return owner if isinstance(owner, singledispatchmethod) else None


def known_keywords(function: Callable[..., Any]) -> Collection[str] | None:
    """List the only keywords of a wrapper that passes on by position what else it gets; None of any other callable."""
    code = getattr(function, "__code__", None)
    if code is None or code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS) != inspect.CO_VARARGS:
        return None
    names: Collection[str] = code.co_varnames[: code.co_argcount]
    return names
