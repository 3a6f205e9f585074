"""Invoke one tool without gates: parse raw arguments, call the handler, render its value or error.

A call that goes well stays in one function of its tool's own, which is made once; methods handle whatever else happens.
"""

from __future__ import annotations

import json
import logging
import re
import threading
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property, partial
from inspect import CO_COROUTINE
from itertools import islice
from types import NoneType
from typing import Any, TypeAlias

from pydantic_core import from_json, to_json

from toolkit._concurrency.async_backend import AsyncBackend
from toolkit._concurrency.backend import await_value, is_cancelling
from toolkit._concurrency.event_loop import private_loop
from toolkit._context import ToolContext, current_context
from toolkit._messages import REMEDY, File, Image, ToolResult, clean_json, replace_surrogates
from toolkit._schema.arguments import MAX_TEXT, ArgumentParser, Outcome, RawArguments, refuse_length
from toolkit._schema.error_messages import MAX_ERROR, shorten
from toolkit._tools.foreign_values import (
    LEFT_OUT,
    has_picture,
    is_long_array,
    is_table,
    to_image,
    to_plain,
    write_array,
    write_table,
)
from toolkit._tools.functions import Action, collect
from toolkit._tools.handlers import Handler
from toolkit.errors import Cancelled, FatalError, InvalidArguments, ToolError, ToolkitError

logger = logging.getLogger("toolkit")

# Characters of a value's own `str` or `repr` in a result.
MAX_WRITTEN = 10_000
MAX_NAME = 100
# Exceptions of a group that are looked at: more than MAX_ERROR characters can name.
MAX_LEAVES = 1_000

# How deep in a value images and pictures are looked for, in dicts and lists of so many items at most.
MAX_DEPTH = 2
MAX_ITEMS = 100
_has_only_plain = frozenset({str, int, float, bool, type(None)}).issuperset


def explain(
    error: BaseException,
    name: str,
    announced: Collection[str] = (),
    relay: Collection[type[BaseException]] = (),
) -> ToolResult:
    """Make the result of an exception; the model sees only messages that are meant for it.

    A ToolError's text is used as it is; any other has at most MAX_ERROR characters. A group of exceptions is
    described one by one; a group of one like its only exception.

    Args:
        error: The exception.
        name: The tool's name.
        announced: Names of exceptions whose message the model may see, besides ToolError; a dotted name may be
            shortened on the left.
        relay: Such exception classes.
    """
    if type(error).__name__ == "CancelledError":  # of asyncio or concurrent.futures, without importing them
        return ToolResult.from_error(Cancelled(), error)
    leaves = list(islice(_flatten(error), MAX_LEAVES)) or [error]
    only = leaves[0] if len(leaves) == 1 else error
    kind, text = (only.kind, _safe_text(only)) if isinstance(only, ToolError) else ("failed", "")
    text = text or _summarize(name, dict(_describe(leaf, announced, relay) for leaf in leaves))
    return ToolResult(text=text, error=text, kind=kind, exception=error)


def log_exception(name: str, error: BaseException) -> None:
    """Log the exception of a call with its traceback: of a ToolError, which is an answer, at level DEBUG."""
    if not isinstance(error, ToolkitError):
        logger.warning("Tool %s raised", name, exc_info=error)
    elif logger.isEnabledFor(logging.DEBUG):
        logger.debug("Tool %s refused", name, exc_info=error)


def write_safely(write: Callable[[Any], str], value: Any) -> str:
    """Write a value by the user's own code; "" if that fails."""
    try:
        return replace_surrogates(shorten(write(value), MAX_WRITTEN))
    except Exception:  # noqa: BLE001  it is the user's: anything may happen
        return ""


def _flatten(error: BaseException) -> Iterator[BaseException]:
    """Yield the exceptions in nested groups, in order; an exception that is no group yields itself."""
    waiting = [error]
    for _ in range(100 * MAX_LEAVES):  # a hand-made group may contain itself
        if not waiting:
            return
        one = waiting.pop()
        if any(kind.__name__ == "BaseExceptionGroup" for kind in type(one).__mro__):  # no builtin in Python 3.10
            waiting += reversed(getattr(one, "exceptions", ()))
        else:
            yield one


def _safe_text(error: ToolError) -> str:
    try:
        return replace_surrogates(error.text)
    except Exception:  # noqa: BLE001  as in `write_safely`
        return ""


def _describe(
    error: BaseException, announced: Collection[str], relay: Collection[type[BaseException]]
) -> tuple[str, bool]:
    """Return an exception's description for the model, and whether that includes its message."""
    if isinstance(error, ToolError) and (text := _safe_text(error)):
        return text, True
    title = shorten(type(error).__name__, MAX_NAME)
    names = [f".{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__]
    if isinstance(error, tuple(relay)) or any(_matches_name(name, known) for name in names for known in announced):
        return f"{title}: {_strip_secrets(write_safely(str, error))}", True
    return title, False


def _summarize(name: str, descriptions: Mapping[str, bool]) -> str:
    """Join the descriptions of exceptions, with a note if a message was left out."""
    which = "Its message is" if len(descriptions) == 1 else "Not all messages are"
    rest = "" if all(descriptions.values()) else f". {which} not shown here. {REMEDY}"
    what = f"{shorten(replace_surrogates(name), MAX_NAME)} failed: {'; '.join(descriptions)}"
    return replace_surrogates(shorten(what, MAX_ERROR - len(rest)) + rest)


def _matches_name(name: str, known: str) -> bool:
    """Return whether a class may go by a shorter name: the end of its path, or its package and its own name."""
    package, _, word = known.rpartition(".")
    return name.endswith(f".{known}") or (name.startswith(f".{package}.") and name.endswith(f".{word}"))


def _strip_secrets(text: str) -> str:
    """Remove user, password and query values from the URLs in a text, where keys stand."""
    return _ADDRESS.sub(lambda found: found[1] + _VALUE.sub(r"\1=...", found[2]), text)


# Scheme, user and password, host and path, query. A password may hold characters that end a host.
_ADDRESS = re.compile(
    r"(\b[a-z][a-z0-9+.-]{0,30}://)(?:[^\s/?#@:\"'<>]*:[^\s\"'<>]*@|[^\s/?#\"'<>]*@)?([^\s\"'<>]*)", re.IGNORECASE
)
_VALUE = re.compile(r"(?<=[?&;#])([^=&;#\s]*)=[^&;#\s]*")


def make_writer(to_json: Callable[..., bytes] | None) -> Callable[[Any], str]:
    """Make the function that writes a tool's values: text as it is, anything else as JSON, None as `null`.

    It never raises, whatever the value: the function has run, and its effect cannot be undone.

    Args:
        to_json: Writes values as the annotated type; may raise.
    """
    if to_json is None:
        return write_value

    def write(value: Any) -> str:
        try:
            return write_value(value) if isinstance(value, str) else to_json(value, warnings=False).decode()
        except Exception:  # noqa: BLE001  reading a user's value may raise anything
            return write_value(value)

    return write


def render(value: Any, write: Callable[[Any], str]) -> ToolResult:
    """Make the result of a function's return value."""
    if is_special(type(value)) and (made := _special(value, write)) is not None:
        return made
    return ToolResult(value, write(value))


def is_special(kind: type) -> bool:
    """Return whether values of a type may be, or hold, something that is not sent as text."""
    return kind in SPECIAL or (kind.__module__ != "builtins" and has_picture((kind,)))


def write_value(value: Any) -> str:
    """Write any value: text as it is, anything else as JSON if possible."""
    try:
        if isinstance(value, str):
            return replace_surrogates(str.__str__(value))
        return to_json(value, inf_nan_mode="strings").decode()
    except Exception:  # noqa: BLE001  as in `make_writer`
        return _to_text_somehow(value)


def complete(result: ToolResult, write: Callable[[Any], str] = write_value) -> ToolResult:
    """Make the text of a result that a tool made, from its value or text and its error; and add what it leaves out."""
    shown, error = _content(result, write), None if result.error is None else _as_text(result.error)
    text = shown.text or ""
    if error and text != error and not text.endswith(f"\n{error}"):
        text = f"{text}\n{error}" if text else error
    return _complete_fields(result, shown, text, error)


def accept(result: ToolResult) -> ToolResult:
    """Complete the result of a middleware or hook: the model reads its text as it is, and nothing is added to it.

    An error that the text does not hold, since it was redacted, is replaced by the text.
    """
    if result.text is None:
        return complete(result)
    text, error = _as_text(result.text), None if result.error is None else _as_text(result.error)
    if error is not None and error not in text:
        error = text
    return _complete_fields(result, ToolResult(text=text), text, error)


def _complete_fields(result: ToolResult, shown: ToolResult, text: str, error: str | None) -> ToolResult:
    return result._replace(
        text=text,
        error=error,
        kind=result.kind or (None if error is None else "failed"),
        images=_parts_of(Image, result.images) or shown.images,
        files=_parts_of(File, result.files) or shown.files,
    )


SPECIAL = frozenset({ToolResult, Image, File, dict, list, tuple})


def _content(result: ToolResult, write: Callable[[Any], str]) -> ToolResult:
    """Render a result's own text, without its error."""
    if result.text is not None:
        return ToolResult(text=_as_text(result.text))
    parts = (*_parts_of(Image, result.images), *_parts_of(File, result.files))
    if result.value is None and (parts or result.is_error):
        return ToolResult(text="\n".join(map(_render_part, parts)))
    return render(result.value, write)


def _special(value: Any, write: Callable[[Any], str]) -> ToolResult | None:
    """Render a ToolResult, an image, a file, or a list that holds one; None for any other value."""
    if type(value) is ToolResult:
        return complete(value, write)
    parts = value if type(value) in (list, tuple) else [value]
    kinds = set(map(type, parts))
    if has_picture(kinds - {str, int, float, dict}):
        parts = [to_image(part) for part in parts]
        kinds = set(map(type, parts))
    if kinds & {Image, File}:
        return _render_parts(value, parts)
    return _render_inner_parts(value) if _holds_parts(value) else None


def _render_parts(value: Any, parts: Sequence[Any]) -> ToolResult:
    """Separate images and files from texts; the text marks the place of each."""
    text = "\n".join(map(_render_part, parts))
    return ToolResult(value, text, images=_parts_of(Image, parts), files=_parts_of(File, parts))


def _holds_parts(value: Any, depth: int = MAX_DEPTH) -> bool:
    """Return whether a value is an image, a file or a picture, or a small dict, list or tuple that holds one."""
    kind = type(value)
    if kind in (dict, list, tuple):
        items = value.values() if kind is dict else value
        is_open = depth > 0 and len(value) <= MAX_ITEMS and not _has_only_plain(map(type, items))
        return is_open and any(_holds_parts(item, depth - 1) for item in items)
    return kind in (Image, File) or (kind.__module__ != "builtins" and has_picture((kind,)))


def _render_inner_parts(value: Any) -> ToolResult | None:
    """Separate images and files inside of dicts and lists from the JSON, which marks the place of each."""
    taken: list[Any] = []

    def take(inner: Any, depth: int) -> Any:
        if type(inner) is dict and depth:
            return {key: take(item, depth - 1) for key, item in inner.items()}
        if type(inner) in (list, tuple) and depth:
            return [take(item, depth - 1) for item in inner]
        part = to_image(inner)
        if type(part) not in (Image, File):
            return inner
        taken.append(part)
        return _render_part(part)

    text = write_value(take(value, MAX_DEPTH))
    return ToolResult(value, text, images=_parts_of(Image, taken), files=_parts_of(File, taken)) if taken else None


def _parts_of(kind: type[Any], parts: Any) -> tuple[Any, ...]:
    """Return the images, or the files, among parts."""
    listed = parts if isinstance(parts, (list, tuple)) else [parts]
    return tuple(part for part in listed if type(part) is kind)


def _render_part(part: Any) -> str:
    if type(part) is File:
        return f"[file {part.name}]"
    return "[image]" if type(part) is Image else render(part, write_value).text or ""


def _as_text(value: Any) -> str:
    return write_value(value) if isinstance(value, str) else write_safely(str, value)


def _to_text_somehow(value: Any) -> str:
    for is_long, write in ((is_table, write_table), (is_long_array, write_array)):
        if is_long(value) and (text := _try(write, value)):
            return text
    return _try(_to_lenient_json, value) or _try(_write_parts, value) or _to_word(value, repr)


def _try(write: Callable[[Any], str], value: Any) -> str:
    try:
        return replace_surrogates(write(value))
    except Exception:  # noqa: BLE001  as in `make_writer`
        return ""


def _to_lenient_json(value: Any) -> str:
    return to_json(value, inf_nan_mode="strings", bytes_mode="base64", fallback=_to_plain).decode()


def _to_plain(value: Any) -> Any:
    try:
        plain = to_plain(value)
    except Exception:  # noqa: BLE001  as in `make_writer`
        return _to_word(value)
    return replace_surrogates(shorten(plain, MAX_WRITTEN)) if isinstance(plain, str) and not is_table(value) else plain


def _to_word(value: Any, write: Callable[[Any], str] = str) -> str:
    return write_safely(write, value) or f"<{type(value).__name__} that cannot be written>"


def _write_parts(value: Any) -> str:
    """Write a value of which a part cannot be written, such as an unpaired surrogate or `pandas.NaT`, part by part."""
    return json.dumps(_convert_parts(value), ensure_ascii=False, separators=(",", ":"))


def _convert_parts(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _convert_parts(part) for key, part in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_convert_parts(part) for part in value]
    if isinstance(value, (str, int, float, NoneType)):
        return clean_json(value)
    try:
        return from_json(_to_lenient_json(value))
    except Exception:  # noqa: BLE001  as in `make_writer`
        plain = _to_plain(value)
        return _convert_parts(plain) if isinstance(plain, (dict, list)) else plain


# Types of values that `write` needs no look at, and their writers where there is no return annotation; these may raise.
_USUAL = (int, float, bool, dict, type(None))
_QUICK: Mapping[type, Callable[[Any], str]] = {int: str, str: replace_surrogates}

Invoke: TypeAlias = Callable[[RawArguments, ToolContext[Any] | None], ToolResult]
AsyncInvoke: TypeAlias = Callable[[RawArguments, ToolContext[Any] | None], Awaitable[ToolResult]]

_new = tuple.__new__  # the constructor of a result takes twice the time


class Invocation:
    """Parses, executes and renders the calls of one tool; made at its first call.

    Attributes:
        parser: Parses raw arguments.
        is_async: Whether what the handler gives must be awaited.
        emits: Whether a call may emit updates before it ends.
        write: Writes a return value as text, by the return annotation; never raises.

    Raises:
        DefinitionError: A parameter cannot be described to a model.
    """

    def __init__(self, tool: Any) -> None:
        self.name: str = tool.name
        self.handler: Handler = tool.handler
        self.relay: tuple[type[BaseException], ...] = tool.relay
        self._tool, name, handler = tool, self.name, self.handler
        self.parser = ArgumentParser(name, handler.argument_schema)
        self.is_async = handler.is_async
        # The function, if it takes values by keyword as they are; and the writers of usual values, by type.
        self._function, to_json = handler.plain_function, handler.returns.to_json
        self.emits = self._function is None
        self.write = make_writer(to_json)
        self._writers: dict[type, Callable[[Any], str]] = dict.fromkeys(_USUAL, self.write)
        self._writers[dict] = self._write_dict
        if to_json is None:
            self._writers.update(_QUICK)
        self.invoke, self.ainvoke = self._make_invoke(), self._make_ainvoke()

    def _make_invoke(self) -> Invoke:
        function, validate, writers = self._function, self.parser.validate, self._writers

        def invoke(arguments: RawArguments, context: ToolContext[Any] | None) -> ToolResult:
            try:
                if len(arguments) > MAX_TEXT:
                    refuse_length(arguments)
                values = validate(arguments)  # type: ignore[arg-type]  # raises for what is not text
            except Exception as error:  # noqa: BLE001  pydantic-core's own, and those of the user's types
                return self._invoke_outcome(self.parser.repair(arguments, error), context)
            if function is None or context is not None:
                return self._invoke_outcome((values, ()), context)
            try:
                value = function(**values)
            except BaseException as error:  # noqa: BLE001  whatever a tool raises is its result
                return self._log(self.fail(error))
            try:
                return _new(ToolResult, (value, writers[type(value)](value), None, None, None, None, (), (), ()))
            except Exception:  # noqa: BLE001  a type without a writer yet, or a value that needs the general one
                return self._log(self._wait(self.settle(value)))

        return invoke

    def _make_ainvoke(self) -> AsyncInvoke:
        validate, writers, code = self.parser.validate, self._writers, getattr(self._function, "__code__", None)
        function = self._function if code and code.co_flags & CO_COROUTINE else None

        async def ainvoke(arguments: RawArguments, context: ToolContext[Any] | None) -> ToolResult:
            try:
                if len(arguments) > MAX_TEXT:
                    refuse_length(arguments)
                values = validate(arguments)  # type: ignore[arg-type]  # as above
            except Exception as error:  # noqa: BLE001  as above
                return await self._ainvoke_outcome(self.parser.repair(arguments, error), context)
            if function is None or context is not None:
                return await self._ainvoke_outcome((values, ()), context)
            try:
                value = await function(**values)
            except BaseException as error:  # noqa: BLE001  as above
                return self._log(self.fail(error, may_be_cancelled=True))
            try:
                return _new(ToolResult, (value, writers[type(value)](value), None, None, None, None, (), (), ()))
            except Exception:  # noqa: BLE001  as above
                return self._render(value)

        return ainvoke

    def _invoke_outcome(self, outcome: Outcome, context: ToolContext[Any] | None) -> ToolResult:
        if isinstance(outcome, InvalidArguments):
            return self._log(ToolResult.from_error(outcome))
        values, repairs = outcome
        self._tool._check_deps(context)
        result = self._wait(self.execute(values, context))
        return self._log(result._replace(repairs=repairs) if repairs else result)

    async def _ainvoke_outcome(self, outcome: Outcome, context: ToolContext[Any] | None) -> ToolResult:
        if isinstance(outcome, InvalidArguments):
            return self._log(ToolResult.from_error(outcome))
        values, repairs = outcome
        self._tool._check_deps(context)
        result = self.execute(values, context) if self.is_async else await self._execute_in_thread(values, context)
        whole = result if isinstance(result, ToolResult) else await result
        return self._log(whole._replace(repairs=repairs) if repairs else whole)

    def _wait(self, result: ToolResult | Awaitable[ToolResult]) -> ToolResult:
        """Wait for an awaitable result in the private event loop."""
        return result if isinstance(result, ToolResult) else private_loop.run(partial(await_value, result))

    def execute(
        self, values: dict[str, Any], context: ToolContext[Any] | None = None
    ) -> ToolResult | Awaitable[ToolResult]:
        """Call the handler with validated values; returns a result, or an awaitable of one."""
        outer = current_context.get()
        if context is not None:
            current_context.set(context)
        try:
            function = self._function
            return self.settle(function(**values) if function else self._action(values, context), context)
        except BaseException as error:  # noqa: BLE001  whatever a tool raises is its result
            return self.fail(error)
        finally:
            current_context.set(outer)

    def settle(self, value: Any, context: ToolContext[Any] | None = None) -> ToolResult | Awaitable[ToolResult]:
        """Make the result of a handler's value; an awaitable of it if the value must be awaited."""
        try:
            whole = collect(value, context)
        except BaseException as error:  # noqa: BLE001  as in `execute`
            return self.fail(error)
        if hasattr(type(whole), "__await__"):
            return self._settle_async(whole, context)
        return self._render(whole)

    def fail(self, error: BaseException, *, may_be_cancelled: bool = False) -> ToolResult:
        """Make the result of an exception of this thread; raises what ends the run: Ctrl-C, cancellation, FatalError.

        Ctrl-C is any KeyboardInterrupt on the main thread. Elsewhere only a tool can have raised it.
        """
        is_main = threading.current_thread() is threading.main_thread()
        if (isinstance(error, KeyboardInterrupt) and is_main) or (may_be_cancelled and is_cancelling(error)):
            raise error
        return self.explain_error(error)

    def _log(self, result: ToolResult) -> ToolResult:
        """Log the exception of a failed call without a run, and return the result."""
        if result.exception is not None:
            log_exception(self.name, result.exception)
        return result

    def explain_error(self, error: BaseException) -> ToolResult:
        """Make the result of an exception, which may come from another process or thread; raises a FatalError."""
        if (fatal := _find_fatal(error)) is not None:
            raise fatal
        _add_remedy(error)
        return explain(error, self.name, self.handler.raises, self.relay)

    def perform(self, values: dict[str, Any], context: ToolContext[Any] | None) -> Any:
        """Call the handler without a loop or a run and return its value; for a process or an executor."""
        outer = current_context.get()
        current_context.set(context)
        try:
            whole = collect(self._action(values, context), context)
            if not hasattr(type(whole), "__await__"):
                return whole
            import asyncio

            return asyncio.run(await_value(whole))
        finally:
            current_context.set(outer)

    async def _settle_async(self, awaitable: Awaitable[Any], context: ToolContext[Any] | None) -> ToolResult:
        outer = current_context.get()
        if context is not None:
            current_context.set(context)
        try:
            value = await awaitable
        except BaseException as error:  # noqa: BLE001  as in `execute`
            return self.fail(error, may_be_cancelled=True)
        finally:
            current_context.set(outer)
        return self._render(value)

    def _write_dict(self, value: dict[Any, Any]) -> str:
        """Write a dict without pictures; one that holds any needs `render`.

        Raises:
            TypeError: It does.
        """
        text = self.write(value)
        if (LEFT_OUT in text or '"media_type":"' in text) and _holds_parts(value):  # looking at each item takes longer
            raise TypeError("a picture is no text")
        return text

    def _render(self, value: Any) -> ToolResult:
        """Make the result of a value, and note how values of its type are written."""
        if not is_special(type(value)):
            self._writers[type(value)] = self.write
        return render(value, self.write)

    async def _execute_in_thread(
        self, values: dict[str, Any], context: ToolContext[Any] | None
    ) -> ToolResult | Awaitable[ToolResult]:
        async def execute() -> ToolResult | Awaitable[ToolResult]:
            return self.execute(values, context)

        return await AsyncBackend().call(execute, is_async=False)

    @cached_property
    def _action(self) -> Action:
        return self.handler.make_action(self._tool)


# What sqlite3 raises where a connection is used on another thread, and what to do about that.
_OTHER_THREAD = "SQLite objects created in a thread can only be used in that same thread"
_OTHER_THREAD_REMEDY = (
    "A tool may run on any thread: connect in each call, or pass sqlite3.connect(..., check_same_thread=False), whose "
    "tools must not write at the same time."
)


def _add_remedy(error: BaseException) -> None:
    """Add to the message of sqlite3 about threads what to do, for the application and its log."""
    if type(error).__module__ == "sqlite3" and error.args and str(error.args[0]).startswith(_OTHER_THREAD):
        error.args = (f"{error.args[0]} {_OTHER_THREAD_REMEDY}",)


def _find_fatal(error: BaseException) -> FatalError | None:
    """Find what ends the run, in a group of errors too."""
    seen, left = set[int](), [error]
    while left:
        one = left.pop()
        if isinstance(one, FatalError):
            return one
        if id(one) not in seen:
            seen.add(id(one))
            left += getattr(one, "exceptions", ())
    return None
