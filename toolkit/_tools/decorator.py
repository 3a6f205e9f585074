"""The decorator `@tool`: make a tool from a function, or from another tool with other options."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, get_args, get_origin, overload

from typing_extensions import Unpack

from toolkit._options import refuse_unknown_options, shorten_traceback, spell_options
from toolkit._schema.signature import Signature, read_annotations, resolve_annotation
from toolkit._tools.functions import FunctionHandler, make_function_handler
from toolkit._tools.options import (
    DEFAULT_SETTINGS,
    DEFAULTS,
    HINTS,
    ToolOptions,
    ToolSettings,
    split_options,
)
from toolkit._tools.tool import Tool, find_wrapped_tool, name_of, safe_name
from toolkit.errors import DefinitionError, ToolkitError

if TYPE_CHECKING:
    from toolkit._tools.handlers import Handler, ToolInterface

P = ParamSpec("P")
R = TypeVar("R")
_MENTIONS_TOOL = re.compile(r"\bTool\b")


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
@spell_options(ToolOptions, DEFAULTS, HINTS)
def tool(
    function: Any = None,
    /,
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    **options: Unpack[ToolOptions],
) -> Any:
    """Make a tool from a function. The model sees its name, docstring and signature.

    The tool is not registered anywhere, and the function is not changed. The schema is built when it is first needed.

    Args:
        function: Any callable: a function, coroutine function, method, class, partial or callable object. Or another
            tool, which keeps its gates and the options that you do not pass.
        name: The name for the model. By default the function's name, without characters that providers refuse.
        title: A name for people.
        description: The description for the model. By default the text of the docstring before its sections.
        relay: Exceptions whose message the model may read, besides ToolError and those in the docstring's `Raises:`.
        strict: Whether the provider enforces the schema, if the schema can be rewritten without loss. By default the
            run decides.
        effect: The effect of a call: "read" changes nothing, "write" changes something, "destructive" changes what
            cannot be restored. Reads run in parallel; the others run alone and in order. Calls of a tool without an
            effect run in parallel and are never retried.
        trust: "foreign" if the results contain texts of other people, such as web pages and mails. After a call of this
            tool, `toolkit.approvers.after_foreign` asks about changes.
        idempotent: Whether a call may run twice without harm. By default True for reads.
        exclusive: Whether a call runs alone. Calls before it end first, and calls after it wait.
        max_parallel: The maximum number of calls at the same time, in all runs of this process. Other calls wait.
        timeout: Seconds for one attempt. A thread cannot be stopped: if it is still running, the run continues without
            it.
        retries: How often a failed attempt is repeated, 0 by default. Needs `effect="read"` or `idempotent=True`.
        retry_on: Exceptions after which an attempt is repeated, or a sync function of the exception that returns
            whether to repeat. By default all except ToolError; TimedOut is included.
        retry_delay: The maximum number of seconds before the first retry, 0.5 by default. Doubled for each further
            retry, up to 30 seconds.
        executor: The `concurrent.futures.Executor` that runs the function, such as a process pool.
        isolate: "process" runs each call in its own process. A timeout or a cancellation kills it.
        authorize: A function of tool, arguments and context that allows or denies a call, after the run's authorizer.
        approve: Whether each call needs approval; or a function of an ApprovalRequest that returns whether the call
            needs it.
        undo: A function or tool that undoes a successful call: see `Runner.undo`. Parameters with the names of the
            tool's parameters get the arguments of the call; one other parameter gets the result. A tool with
            `idempotent=True` is called again if an earlier attempt failed or was interrupted.
        max_result: The maximum number of characters of a result that the model reads. By default the run's
            `max_result`.
        return_direct: Whether the result is the answer of the run, without another response of the model.
        activity: The name under which the function is bound: see `Toolbox.bind`. By default the name of the tool. With
            "", the model writes the output itself.
        latent: Whether the model writes the output itself, even if the function has a body, as with `activity=""`.
        reasoning: Whether the model is asked why it makes each call. The answer is in `ToolCall.reasoning`.
        module: The name of a module that executes the tool in a separate run, without the conversation and `deps`: see
            `Toolbox.bindings.module`.
        imports: Paths of the shared values that a call may read. By default all; in a module none. Or a JSON Schema of
            an array of an enum, from which the model chooses.
        namespace: A group of tools, for dialects that have groups.
        defer_loading: Whether the provider loads the parameters only when the model searches for the tool.

    Raises:
        DefinitionError: The function cannot be a tool, or an option has a wrong value or would loosen a gate of the
            other tool. The message says what to change.
        TypeError: There is no such option.

    Examples:
        >>> @tool
        ... def add(a: int, b: int) -> int:
        ...     '''Add two numbers.'''
        ...     return a + b
        >>> add(1, 2)
        3
        >>> add.invoke('{"a": 1, "b": 2}').text
        '3'
    """
    given: dict[str, Any] = {"name": name, "title": title, "_description": description, **options}
    return partial(_make_tool, given) if function is None else _make_tool(given, function)


def check_defaults(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Check a toolbox's options for tools that do not set them, and copy them.

    Raises:
        TypeError: There is no such option, or it is about a single tool.
        DefinitionError: An option has a wrong value, or they are no dict.
    """
    if not isinstance(given, Mapping):
        raise DefinitionError(f"Toolbox(defaults={given!r:.100}) is not a dict of options of tools.")
    refuse_unknown_options("Toolbox(defaults=...)", given, ["relay", *ToolSettings.__dataclass_fields__], HINTS)
    split_options(given, "Toolbox(defaults=...)", replace(DEFAULT_SETTINGS, idempotent=True))
    return dict(given)


def add_defaults(target: Tool[..., Any], defaults: Mapping[str, Any]) -> Tool[..., Any]:
    """Apply options that a tool does not set. Retries apply only to a tool that may be repeated.

    If another program stated the effect of its tool, the stricter of this effect and the default holds.
    """
    if "effect" in defaults and getattr(target.handler.interface, "is_hint", False):
        settings = target.settings.inherit(replace(DEFAULT_SETTINGS, effect=defaults["effect"]))
        target = replace(target, settings=settings)
    own = {**vars(target.settings), "relay": target.relay}
    added = {name: value for name, value in defaults.items() if own[name] == DEFAULTS.get(name)}
    retries = added.pop("retries", 0)
    if added:
        target = tool(target, **added)
    if retries and target.settings.may_repeat:
        target = tool(target, retries=retries)
    return target


def tool_methods(owner: type) -> list[str]:
    """List the methods of a class that are tools, in the order of definition. Those of base classes come first."""
    names = dict.fromkeys(name for kind in reversed(owner.__mro__) for name in vars(kind))
    found = {name: inspect.getattr_static(owner, name, None) for name in names}
    return [name for name, member in found.items() if isinstance(getattr(member, "__func__", member), Tool)]


def _make_tool(given: Mapping[str, Any], function: Any) -> Any:
    try:
        return _convert(given, function)
    except ToolkitError as error:
        shorten_traceback(error)
        raise error
    except Exception as error:  # an attribute of the object raised it, or is of another type than a function's
        raise DefinitionError(
            f"A {type(function).__qualname__} is not a function, and cannot be read like one: {type(error).__name__}: "
            f"{error}. Wrap it in a function; of a mock, use unittest.mock.create_autospec()."
        ) from error


def _convert(given: Mapping[str, Any], function: Any) -> Any:
    if isinstance(function, Tool):
        fields = split_options(given, name_of(function), function.settings)
        return replace(function, handler=_choose_handler(function.handler, fields.get("activity")), **fields)

    bound = getattr(function, "__func__", None)
    if isinstance(bound, Tool):  # a class method made of a tool
        return _convert(given, bound.__get__(function.__self__))

    plain = bound if isinstance(function, (classmethod, staticmethod)) else function
    if not callable(plain):
        raise DefinitionError(
            f"@tool needs something that can be called, not {function!r:.100}. Give options by name: @tool(name=...)."
        )

    function_handler = make_function_handler(plain)
    name = name_of(plain)
    if _returns_tools(function_handler.signature):
        raise DefinitionError(f"{function_handler.origin} returns tools, but is not one itself: call it, {name}(...).")

    wrapped = find_wrapped_tool(plain)
    settings = DEFAULT_SETTINGS if wrapped is None else wrapped.settings  # what wraps a tool keeps its gates
    fields = {"name": safe_name(name), **split_options(given, name, settings)}
    choose = _drop_function if _is_declaration(plain) else _choose_handler
    handler = choose(function_handler, fields.get("activity"))
    result: Tool[Any, Any] = Tool(handler=handler, _is_classmethod=isinstance(function, classmethod), **fields)
    return staticmethod(result) if isinstance(function, staticmethod) else result


def _returns_tools(signature: Signature) -> bool:
    """Return whether a function makes tools, by its return annotation: the user has probably forgotten to call it."""
    try:
        raw = read_annotations(signature.source).get("return")
        if type(raw) is type or not _MENTIONS_TOOL.search(repr(raw)):  # others are not worth the time
            return raw is Tool
        return _are_tools(resolve_annotation(raw, signature.source, signature.names))
    except Exception:  # noqa: BLE001  an annotation is code of the user's
        return False


def _are_tools(annotation: Any) -> bool:
    origin = get_origin(annotation) or annotation
    return origin is Tool or (origin is list and any(map(_are_tools, get_args(annotation))))


def _choose_handler(handler: Handler, activity: str | None) -> Handler:
    """Return the handler of a function. If the function does not execute the tool, use only its declaration."""
    if activity is None or (activity and handler.function_handler):
        return handler
    return _drop_function(handler.interface, activity)


def _drop_function(interface: ToolInterface, activity: str | None) -> Handler:
    from toolkit._tools.handlers import refuse_private, without_function  # slow to load, and few tools need it

    if isinstance(interface, FunctionHandler):
        refuse_private(interface.origin, [p.name for p in interface.signature.look() if not p.is_injected])
    return without_function(interface, activity)


def _does_nothing() -> None: ...


async def _awaits_nothing() -> None: ...


def _says_nothing() -> None:
    """Have a docstring, which is a constant of the code. With `python -OO`, the byte code differs from that above."""
    ...  # noqa: PIE790


async def _awaits_and_says_nothing() -> None:
    """Have a docstring, too."""
    ...  # noqa: PIE790


# Byte code of functions that do nothing.
_NOTHING = [f.__code__.co_code for f in (_does_nothing, _awaits_nothing, _says_nothing, _awaits_and_says_nothing)]
# From Python 3.15 on, None is no constant of the code, but a part of an instruction.
_NONE_IS_CONSTANT = None in _says_nothing.__code__.co_consts


def _is_declaration(function: object) -> bool:
    """Return whether the body of a function is `...`, below its docstring: it declares a tool, and does nothing.

    `pass` and `return` have the same byte code as `...`, so the source is read, too. Without source, a function that
    does nothing and has a return annotation is taken for a declaration. If it is annotated with None, it is complete,
    since it does all that it declares.
    """
    if not isinstance(function, FunctionType) or not _is_empty(function.__code__):
        return False
    annotations = read_annotations(function)
    if annotations.get("return", "") in (None, "None"):
        return False
    last = _read_last_statement(function)
    if last is None:
        return "return" in annotations
    return isinstance(last, ast.Expr) and isinstance(last.value, ast.Constant) and last.value.value is ...


def _read_last_statement(function: FunctionType) -> ast.stmt | None:
    """Read the last statement of a function. Return None if there is no source, or another one at this place."""
    code = function.__code__
    bare = FunctionType(code, function.__globals__, closure=function.__closure__)  # it wraps nothing
    try:
        written = ast.parse(textwrap.dedent(inspect.getsource(bare)))  # Python 3.14 finds none of code from a prompt
    except (OSError, TypeError, SyntaxError):
        return None
    functions = (node for node in ast.walk(written) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))
    return next((node.body[-1] for node in functions if node.name == code.co_name), None)


def _is_empty(code: CodeType) -> bool:
    """Return whether code does nothing and returns None."""
    return code.co_code in _NOTHING and (code.co_consts[-1] is None or not _NONE_IS_CONSTANT)
