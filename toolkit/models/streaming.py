"""Assemble the calls of a streamed completion, whose fragments servers number and name in many ways.

A fragment belongs to the call with its id or, if there is none, to the latest one at its index, unless it has a name
and starts a new call: with another id, or after complete JSON. A fragment without id and index belongs to the last
call. So does one without id and name at a new index if that call is not whole yet, or if the fragment has no arguments.
The tests list the servers that are known for each deviation.

Repetitions are dropped: a fragment that equals its call so far, a call that equals another one with its id, and an
object that equals the one before it in one text of arguments.

The cost of a fragment does not grow with the length of the answer, which may have millions of fragments.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, NamedTuple

from toolkit._dialects.base import canonical_text, drop_repeated, get_member
from toolkit._dialects.chat import read_extra
from toolkit._messages import ToolCall, replace_surrogates
from toolkit._schema.json_text import Nesting, is_object, is_truncated
from toolkit.errors import ModelError
from toolkit.models.wire import read_arguments, read_identity, read_index, read_object, read_text

# The most calls in one answer. Each has to be stored and answered.
MAX_CALLS = 10_000

_SPACE = re.compile(r"\s*")


class Fragment(NamedTuple):
    """A part of a call as it was received, or a whole call; missing members are empty.

    Attributes:
        place: The index of the call in the answer; `index` is a method of tuples.
        extra: The `extra_content` of the server, as JSON text, which is sent back.
    """

    place: int | None
    id: str
    name: str
    arguments: str
    extra: str

    @classmethod
    def read(cls, piece: Any) -> Fragment:
        """Read a fragment.

        Raises:
            ModelError: A member has a wrong type.
        """
        function = read_object(get_member(piece, "function"), "the function of a call")
        function = function or read_object(get_member(piece, "custom"), "the custom part of a call")
        arguments = get_member(function, "arguments")
        return cls(
            read_index(get_member(piece, "index"), "the index of a call"),
            read_identity(get_member(piece, "id"), "the id of a call"),
            read_text(get_member(function, "name"), "the name of a call"),
            read_arguments(get_member(function, "input") if arguments is None else arguments),
            read_extra(piece),
        )


@dataclass
class OpenCall:
    """A call that is still arriving.

    Attributes:
        number: Position among the answer's calls, from 0.
        length: Characters of the arguments so far.
        is_whole: Whether the arguments are one whole JSON object.
        is_complete: Whether `Accumulator.complete` has found it complete.
    """

    number: int = 0
    index: int | None = None
    id: str = ""
    name: str = ""
    extra: str = ""
    parts: list[str] = field(default_factory=list)
    length: int = 0
    is_whole: bool = False
    is_complete: bool = False
    _has_closed: bool = False
    _nesting: Nesting = field(default_factory=Nesting)

    @property
    def arguments(self) -> str:
        """The arguments, as far as they have arrived."""
        return replace_surrogates("".join(self.parts))

    def add(self, piece: Fragment) -> str:
        """Add a fragment, and return its part of the arguments."""
        self.id, self.extra = self.id or piece.id, self.extra or piece.extra
        if piece.name and piece.name != self.name:
            # A call with two names must not run, so both are joined to a text that no tool has as its name.
            self.name = f"{self.name.partition('|')[0]}|{piece.name}" if self.name else piece.name
        if self.is_repeated(piece):
            return ""
        self.parts.append(piece.arguments)
        self.length += len(piece.arguments)
        self._watch(piece.arguments)
        return piece.arguments

    def is_repeated(self, piece: Fragment) -> bool:
        """Return whether a fragment repeats the call so far: no call continues with its own start."""
        is_start = piece.arguments.startswith("{") and (self.is_whole or bool(piece.name))
        is_same = piece.name in ("", self.name) and piece.id in ("", self.id) and len(piece.arguments) == self.length
        return is_start and is_same and "".join(self.parts) == piece.arguments

    def _watch(self, text: str) -> None:
        """Parse the arguments once, when their outermost bracket closes; only white space may follow."""
        if self._has_closed:
            self.is_whole = self.is_whole and not text.strip()
            return
        self._nesting.add(text)
        if self._nesting.is_closed:
            self._has_closed, self.is_whole = True, is_object(self.arguments)

    def build(self) -> ToolCall:
        """Make one call of the fragments so far."""
        return ToolCall(
            name=replace_surrogates(self.name),
            arguments=self.arguments,
            provider_call_id=replace_surrogates(self.id),
            extra_content=self.extra,
        )

    def build_all(self) -> Iterable[ToolCall]:
        """Make one call, or several if the arguments are several objects in a row, without repeated ones."""
        first, *more = _split_objects(self.arguments)
        if more:
            first, *more = (next(equal) for _, equal in groupby([first, *more], canonical_text))
        call = self.build().replace(arguments=first)
        return [call, *(call.replace(arguments=text, provider_call_id="") for text in more)]


@dataclass
class Accumulator:
    """Collects the calls of one answer."""

    open: list[OpenCall] = field(default_factory=list)
    _latest: dict[int | None, OpenCall] = field(default_factory=dict)
    _known: dict[tuple[int | None, str], OpenCall] = field(default_factory=dict)

    def add(self, piece: Any) -> tuple[OpenCall, str]:
        """Add a fragment to its call; return the call and the fragment's part of the arguments.

        Raises:
            ModelError: There are more than MAX_CALLS calls, or a member of the fragment has a wrong type.
        """
        fragment = Fragment.read(piece)
        call = self._find_call(fragment) or self._start_call(fragment.place)
        text = call.add(fragment)
        if call.id:
            self._known.setdefault((call.index, call.id), call)
            self._known.setdefault((None, call.id), call)
        return call, text

    def add_whole(self, piece: Any) -> None:
        """Add a call of an answer that was not streamed; its index and id are not compared with others.

        Raises:
            ModelError: As `add`.
        """
        call, whole = self._start_call(None), Fragment.read(piece)
        call.id, call.name, call.parts, call.extra = whole.id, whole.name, [whole.arguments], whole.extra

    def complete(self, call: OpenCall) -> bool:
        """Return whether name and arguments of a call have just become complete, and no earlier call has its id."""
        is_first = call.is_whole and bool(call.name) and not call.is_complete
        call.is_complete = call.is_complete or is_first
        return is_first and self._known.get((None, call.id), call) is call

    def build_calls(self) -> tuple[ToolCall, ...]:
        """Make the calls, in the order in which they started.

        Raises:
            ModelError: As `add`.
        """
        calls = [call for open_call in self.open for call in open_call.build_all()]
        check_count(len(calls))
        return drop_repeated(calls)

    def _start_call(self, index: int | None) -> OpenCall:
        number = len(self.open)
        check_count(number + 1)
        call = OpenCall(number=number, index=number if index is None else index)
        self.open.append(call)
        self._latest[call.index] = call
        return call

    def _find_call(self, piece: Fragment) -> OpenCall | None:
        if piece.id and (known := self._known.get((piece.place, piece.id))):
            return known
        last = self.open[-1] if self.open and not piece.id else None
        if piece.place is None:
            found = last
        else:
            is_part = not piece.name and last is not None and not (last.is_whole and piece.arguments.strip())
            found = self._latest.get(piece.place, last if is_part else None)
        return found if found is None or not _starts_call(found, piece) else None


def check_count(count: int, what: str = "calls") -> None:
    """Refuse an answer of more than MAX_CALLS calls or items.

    Raises:
        ModelError: There are more.
    """
    if count > MAX_CALLS:
        raise ModelError(f"The model's answer has more than {MAX_CALLS:,} {what}. Its calls are discarded.")


def _starts_call(call: OpenCall, piece: Fragment) -> bool:
    """Return whether a fragment at the index of a call starts a new one; a fragment without a name never does."""
    if not piece.name:
        return False
    if piece.id:
        return call.id not in ("", piece.id) and not _continues(call, piece)
    has_more = piece.arguments or piece.name != call.name
    return bool(has_more and call.name) and call.is_whole and not call.is_repeated(piece)


def _continues(call: OpenCall, piece: Fragment) -> bool:
    """Return whether a fragment with a new id continues a call: some servers change the id with each fragment."""
    if call.is_whole or not piece.arguments or not call.length:
        return False
    return piece.name == call.name and not piece.arguments.lstrip().startswith("{")


def _split_objects(text: str) -> list[str]:
    """Split a text of several JSON objects, the last of which may be truncated; any other text is one part."""
    if is_object(text) or not text.lstrip().startswith("{"):
        return [text]
    decoder, whole, position = json.JSONDecoder(), list[str](), 0
    with suppress(ValueError, RecursionError):
        while position < len(text) and len(whole) <= MAX_CALLS:
            _, end = decoder.raw_decode(text, position)
            whole.append(text[position:end])
            position = end + len(_SPACE.match(text, end)[0])  # type: ignore[index]  # it always matches
    rest = text[position:]
    is_valid = all(map(is_object, whole)) and (not rest or is_truncated(rest))
    return [*whole, *filter(None, [rest])] if is_valid else [text]
