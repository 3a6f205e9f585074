"""`@tool` makes a tool of a function."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, ParamSpec, TypeVar, get_args, get_origin, overload

from typing_extensions import Unpack

from toolkit._schema.annotations import frame_names, is_declaration, raw_annotations, resolve_annotation, source_of
from toolkit._schema.signature import Signature
from toolkit._tools.handlers import Bound, Function, Handler, Latent, refuse_private, without_function
from toolkit._tools.options import USUAL, ToolOptions, refuse_unknown, split_options
from toolkit._tools.tool import Tool, name_of, safe_name
from toolkit.errors import DefinitionError

P = ParamSpec("P")
R = TypeVar("R")
_ABOUT_TOOLS = re.compile(r"\bTool\b")


@overload
def tool(
    function: Callable[P, R],
    /,
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    **options: Unpack[ToolOptions],
) -> Tool[P, R]: ...
@overload
def tool(
    *, name: str | None = None, title: str | None = None, description: str | None = None, **options: Unpack[ToolOptions]
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...
def tool(
    function: Any = None,
    /,
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    **options: Unpack[ToolOptions],
) -> Any:
    """Make a tool of a function: its name, docstring and signature are what the model is told.

    Registers nowhere; the function is not changed, nor is its schema built before it is asked for.

    Args:
        function: Any callable: function, coroutine function, method, class, partial, callable object.
        name: For the model; the function's own by default, with what providers refuse replaced.
        title: For people.
        description: For the model; the docstring's prose by default.
        **options: See ToolOptions.

    Raises:
        DefinitionError: It cannot be a tool; the message names the function and what to change.

    Example:
        >>> @tool
        ... def add(a: int, b: int) -> int:
        ...     '''Add two numbers.'''
        ...     return a + b
        >>> add(1, 2)
        3
        >>> add.invoke('{"a": 1, "b": 2}').text
        '3'
    """
    about: dict[str, Any] = {"name": name, "title": title, "text": description, **options}
    given = {key: value for key, value in about.items() if value is not None}
    refuse_unknown(options)
    return partial(_decorated, given) if function is None else _decorated(given, function)


def tool_methods(owner: type) -> list[str]:
    """List the methods of a class that are tools, in the order of its body, a base's before its children's."""
    written = dict.fromkeys(name for kind in reversed(owner.__mro__) for name in vars(kind))
    return [name for name in written if _is_tool(inspect.getattr_static(owner, name, None))]


def _is_tool(attribute: object) -> bool:
    return isinstance(getattr(attribute, "__func__", attribute), Tool)


def _decorated(given: Mapping[str, Any], function: Any) -> Any:
    if isinstance(function, Tool):
        fields = split_options(given, name_of(function), function.settings)
        return replace(function, handler=_carried(function.handler, fields.get("activity")), **fields)
    bound = getattr(function, "__func__", None)
    if isinstance(bound, Tool):  # a class method made of a tool
        return _decorated(given, bound.__get__(function.__self__))
    plain = bound if isinstance(function, (classmethod, staticmethod)) else function
    if not callable(plain):
        raise DefinitionError(
            f"@tool needs something that can be called; it got {function!r}. Give options by name: @tool(name=...)."
        )
    own = Function(Signature(plain, frame_names(source_of(plain))))
    _refuse_maker(own.signature)
    named = {"name": safe_name(name_of(plain)), **split_options(given, name_of(plain), USUAL)}
    handler = _carried(Latent(own) if is_declaration(plain) else own, named.get("activity"))
    made: Tool[Any, Any] = Tool(handler=handler, of_class=isinstance(function, classmethod), **named)
    return staticmethod(made) if isinstance(function, staticmethod) else made


def _refuse_maker(signature: Signature) -> None:
    """Refuse a function that makes tools: the parentheses behind it were forgotten.

    Raises:
        DefinitionError: Its return annotation is a tool, or a list of them.
    """
    if _are_tools(_returned(signature)):
        name = name_of(signature.callable)
        raise DefinitionError(f"{signature.label}: {name} makes tools: write {name}(...).")


def _returned(signature: Signature) -> Any:
    """Read the return annotation, where it may be about tools: no other is worth the time."""
    try:
        written = raw_annotations(signature.source).get("return")
        is_meant = _ABOUT_TOOLS.search(repr(written))
        return resolve_annotation(written, signature.source, signature.names) if is_meant else None
    except Exception:  # noqa: BLE001  an annotation is code of the user's
        return None


def _are_tools(annotation: Any) -> bool:
    origin = get_origin(annotation) or annotation
    return origin is Tool or (origin is list and any(map(_are_tools, get_args(annotation))))


def _carried(handler: Handler, activity: str | None) -> Handler:
    """Part a function from what carries its tool out, where that is not its body."""
    if isinstance(handler, (Function, Bound)) and activity != "":
        return handler
    interface = handler.interface
    if isinstance(interface, Function):
        refuse_private(interface.origin, interface.parameter_names)
    return handler if activity is None else without_function(interface, activity)
