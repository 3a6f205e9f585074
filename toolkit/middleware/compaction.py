"""Compaction: a hook that shortens the requests of a long conversation.

The conversation itself is not changed, only the messages of a request. They depend on the conversation only, so the
requests of a resumed run are the same.
"""

from __future__ import annotations

import inspect
import threading
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import accumulate, pairwise, takewhile
from math import ceil
from typing import Any, NamedTuple, TypeAlias, cast

from toolkit._dialects.chat import is_detail
from toolkit._messages import (
    CHARACTERS_PER_TOKEN,
    FILES_TEXT,
    IMAGES_TEXT,
    Message,
    ModelRequest,
    ModelResponse,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from toolkit._options import is_whole

# A sync or async function that returns a summary of messages that are left out.
Summarize: TypeAlias = Callable[[Sequence[Message]], str | Awaitable[str]]

# Estimated tokens of an image or a file: providers count from 85 to several thousand.
ATTACHMENT_TOKENS = 1_000
# Lines of a result that is cut, and its most characters.
LINES = 50
CHARACTERS = 10_000
# Characters of a message in a summary; more for a message of the user.
MAX_SUMMARY_LINE = 200
MAX_USER_LINE = 1_000
# Characters of the first line of a summary, and of the note in a text whose middle is left out.
MAX_HEAD = 70
MAX_NOTE = 50
# The most tokens of all summaries, in percent of `max_tokens`.
SUMMARY = 10
# The goal of cutting results and summarising turns, in percent of `max_tokens`. It is lower than necessary, so that the
# next requests can begin with the same messages, which servers have cached.
TARGET = 75
# The most summaries that are cached.
MAX_SUMMARIES = 256


class Compaction:
    """A hook that shortens the messages of a request if they are longer than `max_tokens`.

    First, older results of tools are cut to their first and last lines, 50 together. If that is not enough, older turns
    are replaced by a summary, whose middle is cut if it is too long. If the recent messages alone are too long, their
    results are cut, too, and the older ones of them are summarised.

    The instructions, the first and the latest message of the user, and the last turn are always sent, even if they are
    longer than `max_tokens`. A call is always sent with its result.

    The size is the number of tokens that the server reported for the last request, plus a quarter of the characters
    that were added since. Without a report it is a quarter of all characters. An image or a file counts as 1,000
    tokens.

    Args:
        max_tokens: Tokens of the messages of a request, at least 1,000.
        keep_recent: Number of last messages that are sent unchanged, unless they alone are too long.
        summarize: A sync or async function that returns a summary of the messages that are left out, for example by a
            run of another model. It gets its last summary and the messages since, shortened to `max_tokens`. By default
            each message becomes a line. Summaries are cut to a tenth of `max_tokens`.

    Raises:
        ValueError: A number is out of range.
        TypeError: `summarize` is not a function.

    Examples:
        >>> from toolkit import Runner
        >>> runner = Runner(model="gpt-6-luna", hooks=[Compaction(max_tokens=50_000)])
    """

    def __init__(
        self,
        max_tokens: int = 100_000,
        *,
        keep_recent: int = 10,
        summarize: Summarize | None = None,
    ) -> None:
        for name, value, least in ("max_tokens", max_tokens, 1_000), ("keep_recent", keep_recent, 0):
            if not is_whole(value, least):
                raise ValueError(f"{name}={value!r} is not a whole number of at least {least}.")
        if summarize is not None and not callable(summarize):
            raise TypeError(f"summarize={summarize!r:.100} is not a function of messages.")
        self._max_tokens = max_tokens
        self._keep_recent = keep_recent
        self._summarize = summarize
        self._summaries: dict[tuple[Message, ...], str] = {}
        self._lock = threading.Lock()

    def before_model(self, request: ModelRequest) -> ModelRequest | Awaitable[ModelRequest] | None:
        """Shorten the messages of a request. Return None if they are short enough."""
        history = _History(request.messages, summary_tokens=self._max_tokens * SUMMARY // 100)
        start, cut = self._find_cuts(history)
        if start == cut == 0:
            return None
        sections = history.split(start, cut)
        summaries = {
            number: self._get_summary(section.messages)
            for number, section in enumerate(sections)
            if not section.is_sent
        }
        if any(map(inspect.isawaitable, summaries.values())):
            return self._wait_for(request, sections, summaries)
        return self._shorten_request(request, sections, cast("dict[int, str]", summaries))

    def _find_cuts(self, history: _History) -> tuple[int, int]:
        """Return two positions: blocks before the first are left out, results in blocks before the second are cut.

        All requests of the conversation so far are repeated, so that the positions change only if one was too long.
        """
        start = cut = excess = 0
        for point in history.points:
            levels = self._list_levels(history, point, start, cut)
            start, cut = next((s, c) for s, c, goal in levels if history.measure(s, c, point) + excess <= goal)
            excess = history.find_excess(start, cut, point)
        return start, cut

    def _list_levels(self, history: _History, point: int, start: int, cut: int) -> Iterable[tuple[int, int, float]]:
        """Yield positions for a request, those that cut the most last, each with the size below which it is chosen."""
        whole = self._max_tokens
        target = self._max_tokens * TARGET / 100
        yield start, cut, whole
        last = max(start, history.find_last_turn(point))
        recent = max(start, min(last, history.find_recent(point, self._keep_recent)))
        cut = max(cut, recent)
        yield start, cut, target
        yield recent, cut, target
        yield recent, cut, whole
        yield from ((earliest, point, whole) for earliest in range(recent, last))
        yield last, point, float("inf")

    def _get_summary(self, messages: tuple[Message, ...]) -> str | Awaitable[str]:
        if self._summarize is None:
            return _cut_lines("\n".join(map(_describe_message, messages)))
        with self._lock:
            known = self._summaries.get(messages)
        if known is not None:
            return known
        summary = self._summarize(self._list_new(messages))
        return summary if inspect.isawaitable(summary) else self._remember(messages, summary)

    def _list_new(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """List the messages for `summarize`. If the first of them have a summary, it takes their place.

        The messages are shortened, too, since the model that summarises may have no larger context window.
        """
        with self._lock:
            summarized = [known for known in self._summaries if known == messages[: len(known)]]
            first = max(summarized, key=len, default=())
            summary = self._summaries.get(first)
        if summary is not None:
            messages = (_write_summary(len(first), summary), *messages[len(first) :])
        shorten = Compaction(self._max_tokens, keep_recent=self._keep_recent).before_model
        request = shorten(ModelRequest(messages=messages))
        return request.messages if isinstance(request, ModelRequest) else messages

    def _remember(self, messages: tuple[Message, ...], summary: Any) -> str:
        if not isinstance(summary, str):
            raise TypeError(f"summarize={self._summarize!r} must return text, not {summary!r:.100}.")
        with self._lock:
            self._summaries[messages] = summary
            if len(self._summaries) > MAX_SUMMARIES:
                del self._summaries[next(iter(self._summaries))]
        return summary

    async def _wait_for(
        self, request: ModelRequest, sections: Sequence[_Section], summaries: dict[int, str | Awaitable[str]]
    ) -> ModelRequest:
        done: dict[int, str] = {}
        for number, summary in summaries.items():
            if isinstance(summary, str):
                done[number] = summary
            else:
                done[number] = self._remember(sections[number].messages, await summary)
        return self._shorten_request(request, sections, done)

    def _shorten_request(
        self, request: ModelRequest, sections: Sequence[_Section], summaries: dict[int, str]
    ) -> ModelRequest:
        characters = self._max_tokens * SUMMARY // 100 // max(1, len(summaries)) * CHARACTERS_PER_TOKEN - MAX_HEAD
        messages: list[Message] = []
        for number, section in enumerate(sections):
            if number in summaries:
                messages.append(_write_summary(len(section.messages), _cut_middle(summaries[number], characters)))
            else:
                messages += section.messages
        return replace(request, messages=tuple(messages))


def estimate_tokens(messages: Iterable[Message]) -> int:
    """Estimate the tokens of messages: a quarter of their characters; 1,000 for an image or a file."""
    return sum(map(_estimate, messages))


def _estimate(message: Message) -> int:
    if isinstance(message, ModelResponse):
        calls = sum(len(call.name) + len(call.wire_arguments or call.arguments) for call in message.calls)
        details = sum(len(str(item)) for item in message.items if is_detail(item))
        items = sum(len(str(item)) for item in message.items) - details  # they have the text and the calls
        characters = details + (items or len(message.text) + len(message.reasoning) + calls)
        return ceil(characters / CHARACTERS_PER_TOKEN)
    tokens = ceil(len(message.text) / CHARACTERS_PER_TOKEN)
    if not isinstance(message, UserMessage):  # the message after results has their images and files
        return tokens
    return tokens + ATTACHMENT_TOKENS * (len(message.images) + len(message.files))


class _Section(NamedTuple):
    """Messages that follow each other, and are sent or left out together."""

    messages: tuple[Message, ...]
    is_sent: bool


class _History:
    """A conversation in blocks, with the size of the messages before each block.

    The messages of a block are sent together or not at all: a response with its results, or a single other message.

    Attributes:
        points: Numbers of the blocks that are responses, and of the block that is requested now.
    """

    def __init__(self, messages: Sequence[Message], summary_tokens: int) -> None:
        self._summary_tokens = summary_tokens
        starts = (number for number, pair in enumerate(pairwise(messages), 1) if not _belongs(*pair))
        self._starts = sorted({0, *starts, len(messages)})
        self._blocks = [tuple(messages[start:end]) for start, end in pairwise(self._starts)]
        self._whole = _accumulate(map(estimate_tokens, self._blocks))
        firsts = [block[0] for block in self._blocks]
        self._users = [number for number, first in enumerate(firsts) if isinstance(first, UserMessage)]
        self._instructions = range(sum(1 for _ in takewhile(lambda first: isinstance(first, SystemMessage), firsts)))
        responses = [number for number, first in enumerate(firsts) if isinstance(first, ModelResponse)]
        self.points = (*responses, len(self._blocks))

    def measure(self, start: int, cut: int, point: int) -> int:
        """Return the size of a request for the response at `point`, in tokens."""
        size = self._whole[point] - self._whole[max(start, cut)]
        if cut > start:
            size += self._short[cut] - self._short[start]
        if not start:
            return size
        kept = [number for number in self._list_kept(point) if number < start]
        size += sum(self._whole[number + 1] - self._whole[number] for number in kept)
        return size + self._summary_tokens if start > len(kept) else size

    def find_excess(self, start: int, cut: int, point: int) -> int:
        """Return the difference between the server's count of tokens for the request at `point` and the estimate.

        That request may have had the whole history, so the nearer estimate of both is used.
        """
        first = self._blocks[point][0] if point < len(self._blocks) else None
        usage = first.usage if isinstance(first, ModelResponse) else None
        if usage is None or not usage.input_tokens:
            return 0
        tokens = usage.input_tokens // max(1, usage.requests)
        return min((tokens - self.measure(start, cut, point), tokens - self._whole[point]), key=abs)

    def find_last_turn(self, point: int) -> int:
        """Return the block at which the last turn before `point` begins: calls with results, or unanswered messages."""
        responses = self.points[: bisect_left(self.points, point)]
        last = responses[-1] if responses else -1
        has_results = last >= 0 and len(self._blocks[last]) > 1
        return last if has_results else last + 1

    def find_recent(self, point: int, count: int) -> int:
        """Return the block that has the first of the last `count` messages before `point`."""
        return bisect_left(self._starts, self._starts[point] - count)

    def split(self, start: int, cut: int) -> list[_Section]:
        """Split the history into sections that are sent and sections that are left out, with results cut."""
        kept = {*self._list_kept(len(self._blocks)), *range(start, len(self._blocks))}
        sections: list[_Section] = []
        for number, block in enumerate(self._blocks):
            messages = self._cut_block(block) if number < cut else block
            is_sent = number in kept
            if sections and sections[-1].is_sent == is_sent:
                messages = (*sections.pop().messages, *messages)
            sections.append(_Section(messages, is_sent))
        return sections

    def _list_kept(self, point: int) -> list[int]:
        """Return the blocks before `point` that are always sent: instructions, the first and the last user message."""
        count = bisect_left(self._users, point)
        return sorted({*self._instructions, *self._users[: min(1, count)], *self._users[max(0, count - 1) : count]})

    @cached_property
    def _short(self) -> list[int]:
        return _accumulate(estimate_tokens(self._cut_block(block)) for block in self._blocks)

    def _cut_block(self, block: tuple[Message, ...]) -> tuple[Message, ...]:
        return block if len(block) == 1 else tuple(map(self._cut_result, block))

    def _cut_result(self, message: Message) -> Message:
        if not isinstance(message, ToolMessage):
            return message
        text = _cut_middle(_cut_lines(message.text), CHARACTERS)
        return message if text == message.text else message.replace(text=text)


def _accumulate(sizes: Iterable[int]) -> list[int]:
    return list(accumulate(sizes, initial=0))


def _belongs(earlier: Message, message: Message) -> bool:
    """Return whether a message belongs to the one before it: a result, or the images and files of results."""
    if isinstance(message, ToolMessage):
        return True
    is_attachment = isinstance(message, UserMessage) and message.text in (IMAGES_TEXT, FILES_TEXT)
    return is_attachment and isinstance(earlier, ToolMessage)


def _write_summary(count: int, text: str) -> UserMessage:
    return UserMessage(f"[Summary of {count} earlier messages, which are left out here]\n{text}")


def _cut_lines(text: str) -> str:
    """Cut a text to its first and last lines."""
    lines = text.split("\n")
    if len(lines) <= LINES:
        return text
    return "\n".join([*lines[: LINES // 2], f"[... {len(lines) - LINES} lines truncated ...]", *lines[-LINES // 2 :]])


def _cut_middle(text: str, most: int) -> str:
    """Cut a text to its first and last characters."""
    if len(text) <= most:
        return text
    half = max(0, most - MAX_NOTE) // 2
    return f"{text[:half]}[... {len(text) - 2 * half} characters truncated ...]{text[len(text) - half :]}"


def _describe_message(message: Message) -> str:
    """Describe a message in one line."""
    if isinstance(message, ModelResponse):
        parts: list[str] = []
        if text := " ".join(message.text.split()):
            parts.append(f"Assistant: {_cut_middle(text, MAX_SUMMARY_LINE)}")
        if message.calls:
            calls = [f"{call.name}({_cut_middle(call.arguments, MAX_SUMMARY_LINE)})" for call in message.calls]
            parts.append(f"[Assistant called {', '.join(calls)}]")
        return " ".join(parts) or "[Assistant]"

    name = "User" if isinstance(message, UserMessage) else "System"
    if isinstance(message, ToolMessage):
        name = f"Error of {message.name}" if message.is_error else f"Result of {message.name}"
    most = MAX_USER_LINE if isinstance(message, UserMessage) else MAX_SUMMARY_LINE
    return f"{name}: {_cut_middle(' '.join(message.text.split()), most)}"
