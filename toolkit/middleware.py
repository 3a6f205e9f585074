"""Wrap the whole line of a call: whoever rewrites its arguments passes every gate again.

The stock ones are loaded when they are first used: a run without them pays for none.

What a middleware is, what it may ask for, and how several become one.

When two calls are the same: by the value of their arguments, not by their text.

Write down who called what, when, and how it ended: names and digests, no contents.

Answer a read that was made before with what it gave then.

A pattern that finds a text however it is written: as it is, escaped, or encoded.

What a middleware remembers, kept apart for each run.

Keep secrets out of results.

Break a model's circles: the same call over and over, or two in turn.
"""

from __future__ import annotations

import base64
import html
import inspect
import json
import logging
import os
import re
import threading
import time
import traceback
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeAlias, TypeVar

from pydantic_core import from_json

from toolkit._concurrency.backend import Backend, await_value
from toolkit._context import ToolContext
from toolkit._messages import File, Image, ToolCall, ToolResult
from toolkit._tools.invocation import explain, write_safely, write_value
from toolkit._tools.tool import Tool
from toolkit.errors import Denied, Failed, Halt, ToolError

__all__ = ["Middleware", "Next", "PerRun", "audit", "cache", "redact", "repeat_guard"]

T = TypeVar("T")

CallHandler: TypeAlias = Callable[[ToolCall], Awaitable[ToolResult]]


@dataclass(frozen=True)
class Next:
    """What follows a middleware: the other middleware, the gates, the tool. Calling it carries a call out.

    Attributes:
        context: What the tool is told of the run: deps, ids, whether the run was cancelled.
        tools: What the run may call, by name.
    """

    handler: CallHandler = field(repr=False)
    context: ToolContext[Any]
    tools: Mapping[str, Tool[..., Any]] = field(repr=False)
    backend: Backend = field(repr=False)

    def __call__(self, call: ToolCall) -> Awaitable[ToolResult]:
        """Carry the call out; a gate that refuses raises a ToolError."""
        return self.handler(call)

    async def wait(self, promise: Awaitable[T]) -> T:
        """Await what needs an event loop; a sync run has none that could be awaited in directly.

        Raises:
            TimedOut: The call's deadline has passed.
            Cancelled: The run was cancelled.
        """
        try:
            return await self.backend.call(
                lambda: await_value(promise), is_async=True, cancellation=self.context.cancellation
            )
        finally:
            if inspect.iscoroutine(promise) and inspect.getcoroutinestate(promise) == inspect.CORO_CREATED:
                promise.close()  # it was too late to begin


# Gets the call and what follows; answers with a result, its own or that of what follows.
Middleware: TypeAlias = Callable[[ToolCall, Next], Awaitable[ToolResult]]


def compose(
    middleware: Sequence[Middleware],
    line: CallHandler,
    context: ToolContext[Any],
    tools: Mapping[str, Tool[..., Any]],
    backend: Backend,
) -> CallHandler:
    """Fold middleware around a line, the first one outermost; without any it is the line itself."""
    for wrapper in reversed(middleware):
        line = _wrap(wrapper, Next(line, context, tools, backend))
    return line


def _wrap(wrapper: Middleware, following: Next) -> CallHandler:
    return lambda call: wrapper(call, following)


def identify(call: ToolCall) -> tuple[str, str]:
    """Give the tool's name and the arguments with sorted keys and no spaces; text that is no JSON stays as it is."""
    try:
        return call.name, json.dumps(from_json(call.arguments), sort_keys=True, separators=(",", ":"))
    except ValueError:
        return call.name, call.arguments


logger = logging.getLogger("toolkit")

AuditRecord: TypeAlias = Mapping[str, Any]


def audit(write: Callable[[AuditRecord], object] | str | os.PathLike[str]) -> Middleware:
    """Make a middleware that writes one record for each call, once it has ended; put it first, so that it sees all.

    A record has `at` (when the call ended, ISO 8601 in UTC), `run`, `call`, `tool` (as the model wrote it, at most 100
    characters), `arguments` (SHA-256 of their value, in hexadecimal), `outcome` (`ok`; the kind of a result that is an
    error, such as `denied`; or the name of the exception that paused or ended the run, such as `Deferred`) and
    `seconds`. What goes wrong in writing is logged, and the call goes on.

    Args:
        write: Takes a record, on the thread of the call; it must not block for long in an event loop. Or a path: each
            record is added to that file as a line of JSON.

    Raises:
        OSError: The file cannot be written to.
        TypeError: It is a coroutine function.
    """
    if inspect.iscoroutinefunction(write):
        raise TypeError("audit() takes a plain function: nobody would await what this one promises.")
    if callable(write):
        return partial(_audit_call, write)
    _append_line(write, "")
    return partial(_audit_call, lambda record: _append_line(write, json.dumps(record) + "\n"))


async def _audit_call(write: Callable[[AuditRecord], object], call: ToolCall, following: Next) -> ToolResult:
    began = time.perf_counter()
    outcome = "ok"
    try:
        result = await following(call)
        outcome = (result.kind or "failed") if result.is_error else "ok"
    except BaseException as error:
        outcome = error.kind if isinstance(error, ToolError) else type(error).__name__
        raise
    finally:
        record = {"outcome": outcome, "seconds": round(time.perf_counter() - began, 6)}
        _write_record(write, call, following, record)
    return result


def _write_record(write: Callable[[AuditRecord], object], call: ToolCall, following: Next, ended: AuditRecord) -> None:
    try:
        write({**_describe_call(call, following), **ended})
    except Exception:
        logger.exception("The audit record of the call %s could not be written.", call.id)


def _describe_call(call: ToolCall, following: Next) -> dict[str, Any]:
    import hashlib  # it takes longer to load than all of this package, and few runs are audited

    return {
        "at": datetime.now(timezone.utc).isoformat(),
        "run": following.context.run_id,
        "call": call.id or following.context.call_id,
        "tool": call.name[:100],
        "arguments": hashlib.sha256(identify(call)[1].encode("utf-8", "surrogatepass")).hexdigest(),
    }


def _append_line(path: str | os.PathLike[str], line: str) -> None:
    with Path(path).open("a", encoding="utf-8") as file:
        file.write(line)


CacheKey: TypeAlias = tuple[str, tuple[str, str]]


def cache(
    ttl: float = 60.0, maxsize: int = 256, *, shared: bool = False, clock: Callable[[], float] = time.monotonic
) -> Middleware:
    """Make a middleware that keeps the results of tools with `effect="read"`.

    A call with equal arguments gets a copy of the result of the first one, without asking a gate again; so tools with
    gates of their own are not kept, and runs keep theirs apart. Any call of a tool that may change something forgets
    all. Errors are not kept, nor is what cannot be copied; nor is a tool's result given for another tool that took its
    name.

    Args:
        ttl: How long a result is good, in seconds.
        maxsize: How many results are kept; the one that was used longest ago goes first.
        shared: Whether runs see each other's results, whatever their deps.
        clock: Tells the time in seconds.

    Raises:
        ValueError: `ttl` or `maxsize` is not above 0.
    """
    if ttl <= 0 or maxsize <= 0:
        raise ValueError(f"cache(ttl={ttl!r}, maxsize={maxsize!r}): both have to be above 0.")
    kept = _ResultCache(ttl, maxsize, clock)

    async def caching(call: ToolCall, following: Next) -> ToolResult:
        tool = following.tools.get(call.name)
        if tool is not None and tool.settings.effect != "read":
            return await kept.invalidate(call, following)
        if tool is None or _is_gated(tool):
            return await following(call)
        scope = "" if shared else following.context.run_id
        return await kept.get_or_call(tool, (scope, identify(call)), call, following)

    return caching


@dataclass(frozen=True)
class _CacheEntry:
    tool: Tool[..., Any]
    expires: float
    result: ToolResult


class _ResultCache:
    """Results by place, the one that was used last at the end."""

    def __init__(self, ttl: float, maxsize: int, clock: Callable[[], float]) -> None:
        self._ttl, self._maxsize, self._clock = ttl, maxsize, clock
        self._lock = threading.Lock()
        self._entries: dict[CacheKey, _CacheEntry] = {}
        self._changes = 0

    async def get_or_call(self, tool: Tool[..., Any], place: CacheKey, call: ToolCall, following: Next) -> ToolResult:
        with self._lock:
            entry, changes = self._look_up(tool, place), self._changes
        if entry is not None and (known := _copy(entry.result)) is not None:
            return known
        result = await following(call)
        if not result.is_error and (copy := _copy(result)) is not None:
            self._store(place, _CacheEntry(tool, self._clock() + self._ttl, copy), changes)
        return result

    async def invalidate(self, call: ToolCall, following: Next) -> ToolResult:
        try:
            return await following(call)
        finally:
            with self._lock:
                self._changes += 1
                self._entries.clear()

    def _look_up(self, tool: Tool[..., Any], place: CacheKey) -> _CacheEntry | None:
        entry = self._entries.pop(place, None)
        if entry is None or entry.tool is not tool or self._clock() >= entry.expires:
            return None
        self._entries[place] = entry
        return entry

    def _store(self, place: CacheKey, entry: _CacheEntry, changes: int) -> None:
        with self._lock:
            if changes == self._changes:  # else it may show how things were before
                self._entries[place] = entry
            if len(self._entries) > self._maxsize:
                del self._entries[next(iter(self._entries))]


def _copy(result: ToolResult) -> ToolResult | None:
    """Copy a result, so that nobody changes another one's; None where its values cannot be copied."""
    try:
        return deepcopy(result)
    except Exception:  # noqa: BLE001  copying runs the code of their classes
        return None


def _is_gated(tool: Tool[..., Any]) -> bool:
    return tool.settings.authorize is not None or tool.settings.approve is not False


# Encoded pieces of a text that are shorter than this say too little: ordinary words look the same.
MIN_ENCODED = 6

# What escapes in escapes make of one backslash, at most.
MAX_ESCAPES = 8
_BACKSLASHES = rf"\\{{1,{MAX_ESCAPES}}}"

# The characters that base64 writes in two ways, and URLs in a third.
_VARYING = {"+": "(?:[+-]|%2[Bb])", "/": "(?:[/_]|%2[Ff])"}
_SIX_BITS = "(?:[A-Za-z0-9+/_-]|%2[BbFf])"


def build_pattern(texts: Iterable[str]) -> re.Pattern[str]:
    """Make the pattern that finds any of the texts.

    It knows JSON's, URLs' and HTML's escapes, each character by itself, so that mixed and doubled ones are found; hex
    and both alphabets of base64, wherever in the encoded bytes the text begins.
    """
    forms = [form for text in sorted(texts, key=len, reverse=True) for form in _iter_encodings(text)]
    return re.compile("|".join(forms))


def _iter_encodings(text: str) -> Iterator[str]:
    yield "".join(map(_match_escapes, re.findall(r"\\+|[^\\]", text)))
    data = text.encode("utf-8", "surrogatepass")
    yield f"(?i:{data.hex()})"
    yield from filter(None, (_match_base64(data, shift) for shift in range(3)))


def _match_escapes(piece: str) -> str:
    """Match one character, or some backslashes, in whatever escapes they may stand."""
    if piece.startswith("\\"):  # taken together: apart, each of them could match all, in very many ways
        count = len(piece)
        return rf"(?:\\{{{count},{MAX_ESCAPES * count}}}|(?i:(?:%5c|&#x0*5c;|&#0*92;){{{count}}}))"
    percent = "".join(f"%{byte:02x}" for byte in piece.encode("utf-8", "surrogatepass"))
    forms = {
        re.escape(piece),
        re.escape(html.escape(piece)),
        f"(?i:{percent}|{_match_utf16_escapes(piece)}|&#x0*{ord(piece):x};|&#0*{ord(piece)};)",
        _match_short_escape(piece),
    }
    forms |= {r"\+"} if piece == " " else set()
    return f"(?:{'|'.join(sorted(forms, key=len))})"


def _match_utf16_escapes(character: str) -> str:
    r"""Match the \u escapes of a character: two, where UTF-16 has two units for it."""
    data = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"{_BACKSLASHES}u{data[at : at + 2].hex()}" for at in range(0, len(data), 2))


def _match_short_escape(character: str) -> str:
    r"""Match the short escape of a character, such as \n; where it has none, the character."""
    escaped = json.dumps(character, ensure_ascii=False)[1:-1]
    has_one = escaped.startswith("\\") and not escaped.startswith("\\u")
    return _BACKSLASHES + re.escape(escaped[1:]) if has_one else re.escape(character)


def _match_base64(data: bytes, shift: int) -> str:
    """Match bytes inside of base64 that began `shift` bytes earlier, with the characters that they share."""
    encoded = base64.b64encode(bytes(shift) + data).decode().rstrip("=")
    first = (shift * 8 + 5) // 6
    last = (shift + len(data)) * 8 // 6
    if last - first < MIN_ENCODED:
        return ""
    whole = "".join(_VARYING.get(character, character) for character in encoded[first:last])
    return f"{_SIX_BITS if shift else ''}{whole}{_SIX_BITS + '?' if len(encoded) > last else ''}"


# Runs that are remembered at a time; then the one that was used longest ago is forgotten.
MAX_RUNS = 10_000

S = TypeVar("S")


class PerRun(Generic[S]):
    """State of a middleware: one for each run, so that runs side by side never mix, and a resumed one finds its own.

    A call without a run gets a state of its own.

    Args:
        make: Makes the state of a run when it is first asked for. Calls of one turn share it, from several threads.
    """

    def __init__(self, make: Callable[[], S]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._states: dict[str, S] = {}

    def get(self, context: ToolContext[Any]) -> S:
        """Find the state of a call's run."""
        if not context.run_id:
            return self._make()
        with self._lock:
            state = self._states.pop(context.run_id) if context.run_id in self._states else self._make()
            self._states[context.run_id] = state
            if len(self._states) > MAX_RUNS:
                del self._states[next(iter(self._states))]
        return state


# A shorter secret would blot out ordinary words.
MIN_SECRET = 4

_PARTS = (Image, File)

Clean = Callable[[str], str]


def redact(
    secrets: Iterable[str] = (), patterns: Iterable[str | re.Pattern[str]] = (), instead: str = "[redacted]"
) -> Middleware:
    """Make a middleware that takes secrets out of whatever a call gives: text, error, value, details, exception.

    A value or details that hold one become plain data without it. A ToolError becomes a Failed without it, any other
    exception a RuntimeError; they keep the traceback, unless a line of source in it holds one. Not found are: a secret
    in pieces, such as one spread over the items of a list; one that is encrypted, compressed or encoded twice; one in a
    picture or a file; what a tool tells of its progress; why a try failed that another one follows; and what ends a
    run, such as a FatalError.

    Args:
        secrets: The very texts that nobody may see, such as keys; also found escaped, or in base64, URL encoding, hex.
        patterns: Regular expressions of further texts, such as r"sk-[A-Za-z0-9]{20,}".
        instead: What stands in their places.

    Raises:
        ValueError: A secret is shorter than 4 characters, or a pattern matches the empty text.
        TypeError: Secrets or patterns are one text, and not a list.
    """
    _reject_single_text(secrets=secrets, patterns=patterns)
    found = [re.compile(pattern) for pattern in patterns]
    exact = list(secrets)
    _reject_greedy(exact, found)
    found = [build_pattern(exact), *found] if exact else found

    def clean(text: str) -> str:
        for pattern in found:
            text = pattern.sub(lambda _: instead, text)
        return text

    async def redacting(call: ToolCall, following: Next) -> ToolResult:
        try:
            result = await following(call)
        except ToolError as refusal:
            result = explain(refusal, call.name, (), ())
        return _clean_result(result, clean)

    return redacting


def _clean_result(result: ToolResult, clean: Clean) -> ToolResult:
    value = partial(_clean_value, clean=clean)
    return result._replace(
        value=value(result.value),
        text=value(result.text),
        error=value(result.error),
        details=value(result.details),
        exception=_clean_exception(result.exception, clean),
        repairs=tuple(map(clean, result.repairs)),
    )


def _clean_value(value: Any, clean: Clean) -> Any:
    """Clean a value; beside pictures and files, part by part, so that they stay what they are."""
    if type(value) in _PARTS:
        return value
    if type(value) in (list, tuple) and any(type(part) in _PARTS for part in value):
        return type(value)(_clean_value(part, clean) for part in value)
    shown = write_value(value)
    cleaned = clean(shown)
    if cleaned == shown:
        return value
    try:
        return cleaned if isinstance(value, str) else from_json(cleaned)
    except ValueError:  # a pattern took away more than the inside of a text
        return cleaned


def _clean_exception(error: BaseException | None, clean: Clean) -> BaseException | None:
    if error is None or not _has_secret(error, clean):
        return error
    kind = Failed if isinstance(error, ToolError) else RuntimeError  # what is a ToolError ends no run
    said = "".join(traceback.format_exception_only(error)).strip()
    cleaned = kind(clean(said)).with_traceback(error.__traceback__)
    return cleaned.with_traceback(None) if _has_secret(cleaned, clean) else cleaned


def _has_secret(error: BaseException, clean: Clean) -> bool:
    """Tell whether an exception shows a secret: in its message, its causes, its notes, or a line of its traceback."""
    told = "".join(traceback.format_exception(error)) + write_safely(repr, error)
    return clean(told) != told


def _reject_single_text(**given: object) -> None:
    for name, texts in given.items():
        if isinstance(texts, (str, re.Pattern)):
            raise TypeError(f"{name}= takes a list: write {name}=[...].")


def _reject_greedy(secrets: list[str], patterns: list[re.Pattern[str]]) -> None:
    if any(len(secret) < MIN_SECRET for secret in secrets):
        raise ValueError(f"a secret of fewer than {MIN_SECRET} characters would blot out ordinary words")
    greedy = next((pattern.pattern for pattern in patterns if pattern.search("")), None)
    if greedy is not None:
        raise ValueError(f"the pattern {greedy!r} matches the empty text, so it would be found everywhere")


def repeat_guard(limit: int = 3, window: int = 4, stop_after: int | None = None) -> Middleware:
    """Make a middleware that refuses a call which has been made before, with equal arguments and the same result.

    Calls at work at the same time count as well. A call between that is another one, or that gives another result,
    begins the count anew; so a model may ask for something that changes as often as it likes.

    Args:
        limit: How often in a row a call is carried out.
        window: How many calls two calls in turn may make, A-B-A-B: an even number, 4 or more.
        stop_after: How many refusals in a row end the run, by Halt; none do by default, and the turns run out.

    Raises:
        ValueError: A bound is none that it can have.
    """
    if limit < 1 or window < 4 or window % 2 or stop_after == 0:
        raise ValueError("repeat_guard: limit and stop_after are 1 or more, window is even, 4 or more.")
    circles = ((1, limit), (2, window // 2))
    histories = PerRun(lambda: _CallHistory(deque(maxlen=max(limit, window)), stop_after))

    async def guarding(call: ToolCall, following: Next) -> ToolResult:
        history = histories.get(following.context)
        made = history.start(_PastCall(identify(call)), circles)
        try:
            result = await following(call)
        except ToolError as refusal:
            made.outcome = (True, hash(refusal.text))
            raise
        except BaseException:
            history.forget(made)  # it waits for somebody's yes, or the run has ended
            raise
        made.outcome = (result.is_error, hash((result.text, result.images, result.files)))
        return result

    return guarding


@dataclass(eq=False)
class _PastCall:
    """A call that was let pass, and its outcome: whether it failed, and what it gave. At work, it has none."""

    identity: tuple[str, str]
    outcome: tuple[bool, int] | None = None

    def is_repeat_of(self, other: _PastCall) -> bool:
        if self.identity != other.identity:
            return False
        return self.outcome is None or other.outcome is None or self.outcome == other.outcome


@dataclass
class _CallHistory:
    calls: deque[_PastCall]
    stop_after: int | None
    refused: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self, made: _PastCall, circles: tuple[tuple[int, int], ...]) -> _PastCall:
        """Note a call.

        Raises:
            Denied: It goes round in a circle.
            Halt: It does so once too often.
        """
        with self.lock:
            last = list(self.calls)
            if any(_is_circle(made, last[-period * times :], period, times) for period, times in circles):
                self.refused += 1
                raise (Halt if self.refused == self.stop_after else Denied)(_format_refusal(made.identity[0], last[-1]))
            self.refused = 0
            self.calls.append(made)
        return made

    def forget(self, made: _PastCall) -> None:
        """Take a call back that may be made once more."""
        with self.lock, suppress(ValueError):
            self.calls.remove(made)


def _is_circle(made: _PastCall, last: Sequence[_PastCall], period: int, times: int) -> bool:
    """Tell whether the last calls went round in a circle of so many calls, and this one would go on with it."""
    circle = {earlier.identity for earlier in last[:period]}
    return (
        len(last) == period * times
        and len(circle) == period
        and made.identity in circle
        and all(earlier.is_repeat_of(later) for earlier, later in zip(last, last[period:]))
    )


def _format_refusal(name: str, last: _PastCall) -> str:
    has_failed = last.outcome is not None and last.outcome[0]
    return (
        f'Circuit breaker skipped tool "{name[:100]}" after repeated {"failures" if has_failed else "calls"}. '
        "Equal arguments gave the same result each time: change them, use another tool, or answer with what there is."
    )
