"""One tool's way from a model's words to a result, without gates.

A call that goes well touches nothing but what is `hot`; the methods of `Invocation` meet whatever else may happen.

What the model may know of an exception: texts that are meant for it, and the names of classes.

What a function gave back, or raised -> what the model is shown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, TypeAlias

from pydantic_core import to_json

from toolkit._concurrency.async_backend import AsyncBackend
from toolkit._concurrency.backend import await_value, is_cancelling, is_interrupt
from toolkit._concurrency.event_loop import private_loop
from toolkit._context import ToolContext
from toolkit._messages import File, Image, ToolResult, replace_surrogates
from toolkit._schema.arguments import ArgumentParser, RawArguments
from toolkit._schema.error_messages import MAX_ERROR, shorten
from toolkit._tools.handlers import Action, Handler, gathered
from toolkit.errors import Cancelled, FatalError, InvalidArguments, ToolError

# What a value's own `str` or `repr` may add to a conversation, in characters.
MAX_WRITTEN = 10_000
MAX_NAME = 100
# So many exceptions of a group are looked at: more than MAX_ERROR characters can name.
MAX_LEAVES = 1_000

REMEDY = "Try other arguments or another tool, or report that this did not work."


def explanation(
    error: BaseException, name: str, announced: Collection[str], relay: Collection[type[BaseException]]
) -> tuple[str, str]:
    """Tell what the model is told of an exception, and its kind.

    A ToolError's text is its author's, at any length; anything else has at most MAX_ERROR characters. Of a group of
    exceptions each one is told; one that is alone in its groups, as if there were none.
    """
    leaves = list(islice(_leaves(error), MAX_LEAVES)) or [error]
    only = leaves[0] if len(leaves) == 1 else error
    if isinstance(only, ToolError) and (text := _said(only)):
        return text, only.kind
    return _summary(name, dict(_told(leaf, announced, relay) for leaf in leaves)), "failed"


def write_safely(write: Callable[[Any], str], value: Any) -> str:
    """Write a value by code of the user's, or nothing where that fails."""
    try:
        return replace_surrogates(shorten(write(value), MAX_WRITTEN))
    except Exception:  # noqa: BLE001  it is the user's: anything may happen
        return ""


def _leaves(error: BaseException) -> Iterator[BaseException]:
    """Give what groups of exceptions hold, in order; an exception that is no group gives itself."""
    waiting = [error]
    for _ in range(100 * MAX_LEAVES):  # a group of somebody's own making may hold itself
        if not waiting:
            return
        one = waiting.pop()
        if any(kind.__name__ == "BaseExceptionGroup" for kind in type(one).__mro__):  # no builtin in Python 3.10
            waiting += reversed(getattr(one, "exceptions", ()))
        else:
            yield one


def _said(error: ToolError) -> str:
    try:
        return replace_surrogates(error.text)
    except Exception:  # noqa: BLE001  as in `safely`
        return ""


def _told(error: BaseException, announced: Collection[str], relay: Collection[type[BaseException]]) -> tuple[str, bool]:
    """Say what the model may know of an exception, and whether its message is part of that."""
    if isinstance(error, ToolError) and (text := _said(error)):
        return text, True
    title = shorten(type(error).__name__, MAX_NAME)
    names = [f".{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__]
    if isinstance(error, tuple(relay)) or any(_is_called(name, known) for name in names for known in announced):
        return f"{title}: {_without_secrets(write_safely(str, error))}", True
    return title, False


def _summary(name: str, told: Mapping[str, bool]) -> str:
    """Say what went wrong: what the model may know of each exception, and whether it knows all."""
    which = "Its message is" if len(told) == 1 else "Not all messages are"
    rest = "" if all(told.values()) else f". {which} not shown here. {REMEDY}"
    what = f"{shorten(replace_surrogates(name), MAX_NAME)} failed: {'; '.join(told)}"
    return replace_surrogates(shorten(what, MAX_ERROR - len(rest)) + rest)


def _is_called(name: str, known: str) -> bool:
    """Tell whether a class may go by a shorter name: its end, or its package and its last word, as it is imported."""
    package, _, word = known.rpartition(".")
    return name.endswith(f".{known}") or (name.startswith(f".{package}.") and name.endswith(f".{word}"))


def _without_secrets(text: str) -> str:
    """Take out of the addresses in a text who asks, and the values of what is asked: keys and passwords stand there."""
    return _ADDRESS.sub(lambda found: found[1] + _VALUE.sub(r"\1=...", found[2]), text)


# Scheme, user and password, host and path, and what is asked. A password may hold signs that end a host.
_ADDRESS = re.compile(
    r"(\b[a-z][a-z0-9+.-]{0,30}://)(?:[^\s/?#@:\"'<>]*:[^\s\"'<>]*@|[^\s/?#\"'<>]*@)?([^\s\"'<>]*)", re.IGNORECASE
)
_VALUE = re.compile(r"(?<=[?&;#])([^=&;#\s]*)=[^&;#\s]*")


def writer(to_json: Callable[[Any], bytes] | None) -> Callable[[Any], str]:
    """Make what writes the values of one tool: text as it is, everything else as JSON in UTF-8, None as `null`.

    It never raises for what a value is: the function has run, and its effect cannot be called back.

    Args:
        to_json: Writes values as the type that the tool announced; may raise.
    """
    if to_json is None:
        return write_value

    def write(value: Any) -> str:
        try:
            return write_value(value) if isinstance(value, str) else to_json(value).decode()
        except Exception:  # noqa: BLE001  values are the user's: anything may happen while one is read
            return write_value(value)

    return write


def writers(write: Callable[[Any], str]) -> dict[type, Callable[[Any], str]]:
    """Say how values of the usual types are written; unlike `write`, these may raise."""
    usual = (int, float, bool, dict, type(None))
    return (
        dict.fromkeys(usual, write) if write is not write_value else {**_QUICK, **dict.fromkeys(usual[1:], write_value)}
    )


def render(value: Any, write: Callable[[Any], str]) -> ToolResult:
    """Make a result of what a function returned."""
    if type(value) in SPECIAL and (made := _special(value, write)) is not None:
        return made
    return ToolResult(value, write(value))


def write_value(value: Any) -> str:
    """Write any value."""
    try:
        if isinstance(value, str):
            return replace_surrogates(str.__str__(value))
        return to_json(value, inf_nan_mode="strings").decode()
    except Exception:  # noqa: BLE001  as in `writer`
        return _to_text_somehow(value)


def complete(result: ToolResult, write: Callable[[Any], str] = write_value, *, is_final: bool = False) -> ToolResult:
    """Add what a result leaves out: its text, from value and error, and its kind.

    Args:
        result: A result that a tool or a middleware made.
        write: Writes the value.
        is_final: Leave the text as it is where there is one, though it does not hold the error.
    """
    shown, error = _content(result, write), None if result.error is None else _as_text(result.error)
    text = shown.text or ""
    if error and not (is_final and result.text) and text != error and not text.endswith(f"\n{error}"):
        text = f"{text}\n{error}" if text else error
    return result._replace(
        text=text,
        error=error,
        kind=result.kind or (None if error is None else "failed"),
        images=_only(Image, result.images) or shown.images,
        files=_only(File, result.files) or shown.files,
    )


_QUICK: Mapping[type, Callable[[Any], str]] = {int: str, str: write_value}
SPECIAL = frozenset({ToolResult, Image, File, list, tuple})


def explain(
    error: BaseException, name: str, announced: Collection[str], relay: Collection[type[BaseException]]
) -> ToolResult:
    """Make a result of what a tool raised; only texts that are meant for the model reach it.

    Args:
        error: What was raised.
        name: The tool's.
        announced: Names, of which a dotted one may be shortened on the left, of exceptions whose message the model may
            see, besides ToolError.
        relay: Such exceptions themselves.
    """
    if type(error).__name__ == "CancelledError":  # asyncio's, or that of futures: neither need be loaded
        return ToolResult.from_error(Cancelled(), error)
    text, kind = explanation(error, name, announced, relay)
    return ToolResult(text=text, error=text, kind=kind, exception=error)


def _content(result: ToolResult, write: Callable[[Any], str]) -> ToolResult:
    """Make what a result says beside its error."""
    if result.text is not None:
        return ToolResult(text=_as_text(result.text))
    parts = (*_only(Image, result.images), *_only(File, result.files))
    if result.value is None and (parts or result.is_error):
        return ToolResult(text="\n".join(map(_shown, parts)))
    return render(result.value, write)


def _special(value: Any, write: Callable[[Any], str]) -> ToolResult | None:
    """Make a result of what is one already, or holds pictures or files; None of a list without."""
    if type(value) is ToolResult:
        return complete(value, write)
    parts = value if type(value) in (list, tuple) else [value]
    return _parted(value, parts) if any(type(part) in (Image, File) for part in parts) else None


def _parted(value: Any, parts: Sequence[Any]) -> ToolResult:
    """Part pictures and files from texts: a result's text says where each of them stands."""
    text = "\n".join(map(_shown, parts))
    return ToolResult(value, text, images=_only(Image, parts), files=_only(File, parts))


def _only(kind: type[Any], parts: Any) -> tuple[Any, ...]:
    """Choose the pictures, or the files, of what should be a tuple of them."""
    listed = parts if isinstance(parts, (list, tuple)) else [parts]
    return tuple(part for part in listed if type(part) is kind)


def _shown(part: Any) -> str:
    if type(part) is File:
        return f"[file {part.name}]"
    return "[image]" if type(part) is Image else render(part, write_value).text or ""


def _as_text(value: Any) -> str:
    return write_value(value) if isinstance(value, str) else write_safely(str, value)


def _to_text_somehow(value: Any) -> str:
    return _tried(_to_json_with_words, value) or _tried(_lenient, value) or _as_word(value, repr)


def _tried(write: Callable[[Any], str], value: Any) -> str:
    try:
        return replace_surrogates(write(value))
    except Exception:  # noqa: BLE001  as in `writer`
        return ""


def _to_json_with_words(value: Any) -> str:
    return to_json(value, inf_nan_mode="strings", bytes_mode="base64", fallback=_as_word).decode()


def _as_word(value: Any, write: Callable[[Any], str] = str) -> str:
    return write_safely(write, value) or f"<{type(value).__name__} that cannot be shown>"


# As pydantic-core's writer does not, it takes halves of characters.
_lenient = json.JSONEncoder(ensure_ascii=False, allow_nan=False, default=_as_word, separators=(",", ":")).encode


# What every call needs, in one look-up: the function, if it takes the values by keyword as they are; what makes values
# of a text; and how to write a value, by its type.
Hot: TypeAlias = tuple[Callable[..., Any] | None, Callable[[str], dict[str, Any]], dict[type, Callable[[Any], str]]]


@dataclass(frozen=True, eq=False)
class Invocation:
    """Carries out the calls of one tool; made with its first call, and kept."""

    name: str
    handler: Handler
    relay: tuple[type[BaseException], ...]

    @cached_property
    def reader(self) -> ArgumentParser:
        """Makes values of words."""
        return ArgumentParser.for_tool(self.name, self.handler.built)

    @cached_property
    def fast_path(self) -> Hot:
        """What every call needs."""
        reader, function = self.reader, self.handler.plain_function
        return function, reader.validate, writers(self.write)

    @cached_property
    def emits(self) -> bool:
        """Whether calls may have something to tell before they end."""
        return self.handler.plain_function is None or self.handler.is_generator

    @cached_property
    def write(self) -> Callable[[Any], str]:
        """Writes what the tool gives, as its return annotation says; what it makes never raises."""
        return writer(self.handler.returns.to_json)

    def again(self, words: RawArguments, context: ToolContext[Any] | None, error: Exception) -> ToolResult:
        """Carry out a call whose words did not fit, where they can be mended."""
        outcome = self.reader.repair(words, error) if type(words) is str else self.reader.try_parse(words)
        if isinstance(outcome, InvalidArguments):
            return ToolResult.from_error(outcome)
        values, repairs = outcome
        result = self.finished(self.execute(values, context))
        return result._replace(repairs=repairs) if repairs else result

    def finished(self, result: ToolResult | Awaitable[ToolResult]) -> ToolResult:
        """Wait for a promise, in the private loop."""
        return result if isinstance(result, ToolResult) else private_loop.run(await_value(result))

    async def ainvoke(self, words: RawArguments, context: ToolContext[Any] | None) -> ToolResult:
        """Carry out a call in the running loop; a sync function gets a thread of its own."""
        outcome = self.reader.try_parse(words)
        if isinstance(outcome, InvalidArguments):
            return ToolResult.from_error(outcome)
        values, repairs = outcome
        result = self.execute(values, context) if self.is_async else await self._in_thread(values, context)
        whole = result if isinstance(result, ToolResult) else await result
        return whole._replace(repairs=repairs) if repairs else whole

    def execute(
        self, values: dict[str, Any], context: ToolContext[Any] | None = None
    ) -> ToolResult | Awaitable[ToolResult]:
        """Call the handler with validated values; what comes back is a result, or a promise of one."""
        try:
            function = self.fast_path[0]
            value = function(**values) if function else self._action(values, context)
        except BaseException as error:  # noqa: BLE001  whatever a tool raises is the answer to its call
            return self.fail(error)
        return self.settle(value, context)

    def settle(self, value: Any, context: ToolContext[Any] | None = None) -> ToolResult | Awaitable[ToolResult]:
        """Make a result, or a promise of one, of what the handler gave."""
        try:
            whole = gathered(value, context)
        except BaseException as error:  # noqa: BLE001  as in `carry_out`
            return self.fail(error)
        if hasattr(type(whole), "__await__"):
            return self._later(whole)
        if whole is value and type(value) not in SPECIAL:
            self.fast_path[-1][type(value)] = self.write
        return render(whole, self.write)

    def fail(self, error: BaseException, *, may_be_the_runs: bool = False) -> ToolResult:
        """Make the result of what a tool raised; what is meant for the run leaves."""
        if is_interrupt(error) or (may_be_the_runs and is_cancelling(error)):
            raise error
        if (fatal := _fatal_in(error)) is not None:
            raise fatal
        return explain(error, self.name, self.handler.raises, self.relay)

    def perform(self, values: dict[str, Any], context: ToolContext[Any] | None) -> Any:
        """Call the handler where there is neither a loop nor a run: its value, whole, or what it raises."""
        whole = gathered(self._action(values, context), context)
        if not hasattr(type(whole), "__await__"):
            return whole
        import asyncio

        return asyncio.run(await_value(whole))

    async def _later(self, promise: Awaitable[Any]) -> ToolResult:
        try:
            value = await promise
        except BaseException as error:  # noqa: BLE001  as in `carry_out`
            return self.fail(error, may_be_the_runs=True)
        return render(value, self.write)

    async def _in_thread(
        self, values: dict[str, Any], context: ToolContext[Any] | None
    ) -> ToolResult | Awaitable[ToolResult]:
        async def begun() -> ToolResult | Awaitable[ToolResult]:
            return self.execute(values, context)

        return await AsyncBackend().call(begun, is_async=False)

    @cached_property
    def is_async(self) -> bool:
        """Whether what the handler gives must be awaited."""
        return self.handler.is_async

    @cached_property
    def _action(self) -> Action:
        return self.handler.prepared()


def _fatal_in(error: BaseException) -> FatalError | None:
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
