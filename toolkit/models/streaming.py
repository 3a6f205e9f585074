"""The pieces of a streamed answer -> the answer, for servers that number and name their pieces in many ways.

Calls come in fragments. A fragment belongs to the call at its index, unless it brings another id or begins anew after
complete JSON; where the index is missing, to the call with its id, else to the last one. The first name that is not
empty counts. Servers known for each oddity are listed with the tests.

What a fragment costs does not grow with what has arrived before it: an answer may be millions of fragments long.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from toolkit._dialects.base import attribute, function_of
from toolkit._messages import ToolCall, replace_surrogates
from toolkit._schema.json_text import Nesting, is_object, is_truncated
from toolkit.errors import ModelError

# More calls than this in one answer are no answer; each of them would have to be kept, and answered.
MAX_CALLS = 10_000

_SPACE = re.compile(r"\s*")


@dataclass
class OpenCall:
    """A call that is still arriving.

    Attributes:
        number: Which call of the answer, from 0.
        is_whole: Whether the arguments are one whole JSON object.
        is_listed: Whether the accumulator has told that it is whole.
    """

    number: int = 0
    index: object = None
    id: str = ""
    name: str = ""
    parts: list[str] = field(default_factory=list)
    is_whole: bool = False
    is_listed: bool = False
    _has_closed: bool = False
    _nesting: Nesting = field(default_factory=Nesting)

    @property
    def arguments(self) -> str:
        """What has arrived of the arguments."""
        return replace_surrogates("".join(self.parts))

    def take(self, piece: Any) -> str:
        """Add a fragment, and give what it brought of the arguments."""
        name, arguments = function_of(piece)
        self.id = self.id or _identity(piece)
        if isinstance(name, str) and name and name != self.name:
            # Two names for one call: nobody's tool.
            self.name = f"{self.name.partition('|')[0]}|{name}" if self.name else name
        text = _text_of(arguments)
        self.parts.append(text)
        self._watch(text)
        return text

    def _watch(self, text: str) -> None:
        """Read the arguments once, when their outermost bracket closes; what comes then must be space."""
        if self._has_closed:
            self.is_whole = self.is_whole and not text.strip()
            return
        self._nesting.add(text)
        if self._nesting.is_closed:
            self._has_closed, self.is_whole = True, is_object(self.arguments)

    def call(self) -> ToolCall:
        """Make one call of what has arrived."""
        return ToolCall(
            name=replace_surrogates(self.name), arguments=self.arguments, provider_call_id=replace_surrogates(self.id)
        )

    def closed(self) -> Iterable[ToolCall]:
        """Make calls of what has arrived: one, or several where whole objects stand one after the other."""
        first, *more = _objects(self.arguments)
        call = replace(self.call(), arguments=first)
        return [call, *(replace(call, arguments=text, provider_call_id="") for text in more)]


@dataclass
class Accumulator:
    """Collects the calls of one answer."""

    open: list[OpenCall] = field(default_factory=list)
    _latest: dict[object, OpenCall] = field(default_factory=dict)
    _ready: list[OpenCall] = field(default_factory=list)
    _known: dict[tuple[object, str], OpenCall] = field(default_factory=dict)

    def take(self, piece: Any) -> tuple[OpenCall, str]:
        """Add a fragment of a streamed answer to the call that it belongs to; give both.

        Raises:
            ModelError: There are more than MAX_CALLS calls.
        """
        call = self._call_of(piece) or self._begun(_index(piece))
        text = call.take(piece)
        if call.id:
            self._known.setdefault((call.index, call.id), call)
            self._known.setdefault((None, call.id), call)
        if call.is_whole and call.name and not call.is_listed:
            call.is_listed = True
            self._ready.append(call)
        return call, text

    def take_whole(self, piece: Any) -> None:
        """Add a call of an answer that was not streamed: each is one of its own, whatever its index or id.

        Raises:
            ModelError: As `take`.
        """
        self._begun(None).take(piece)

    def ready(self) -> list[OpenCall]:
        """List the calls that have a name and whole arguments since this was asked last."""
        ready, self._ready = self._ready, []
        return ready

    def calls(self) -> tuple[ToolCall, ...]:
        """Make the calls, in the order in which they began.

        Raises:
            ModelError: As `take`.
        """
        calls = tuple(call for open_call in self.open for call in open_call.closed())
        _check_count(len(calls))
        return calls

    def _begun(self, index: object) -> OpenCall:
        number = len(self.open)
        _check_count(number + 1)
        call = OpenCall(number=number, index=number if index is None else index)
        self.open.append(call)
        self._latest[call.index] = call
        return call

    def _call_of(self, piece: Any) -> OpenCall | None:
        index, identity = _index(piece), _identity(piece)
        found = self._latest.get(index) if index is not None else self._without_index(identity)
        if found is None or not _begins_anew(found, piece):
            return found
        return self._known.get((found.index, identity))

    def _without_index(self, identity: str) -> OpenCall | None:
        if identity:
            return self._known.get((None, identity))
        return self.open[-1] if self.open else None


def _check_count(calls: int) -> None:
    if calls > MAX_CALLS:
        raise ModelError(f"The model's answer has more than {MAX_CALLS:,} calls. Nothing of it was carried out.")


def _begins_anew(call: OpenCall, piece: Any) -> bool:
    if identity := _identity(piece):
        return call.id not in ("", identity)
    name, arguments = function_of(piece)
    brings = name and (arguments or name != call.name)
    return bool(brings and call.name) and call.is_whole


def _text_of(arguments: Any) -> str:
    if arguments is None or isinstance(arguments, str):
        return arguments or ""
    return json.dumps(arguments, ensure_ascii=False, default=str)  # of a server that has decoded the text already


def _index(piece: Any) -> object:
    index = attribute(piece, "index")
    return index if isinstance(index, (int, str)) else None


def _identity(piece: Any) -> str:
    identity = attribute(piece, "id")
    if isinstance(identity, int) and not isinstance(identity, bool):
        return str(identity)
    return identity.strip() if isinstance(identity, str) else ""


def _objects(text: str) -> list[str]:
    """Part a text that is several JSON objects, be the last one cut; any other text stays as it is."""
    if is_object(text) or not text.lstrip().startswith("{"):
        return [text]
    *whole, last = _parted(text)
    lawful = all(map(is_object, whole)) and (is_object(last) or is_truncated(last))
    return [*whole, last] if lawful else [text]


def _parted(text: str) -> list[str]:
    """List the JSON texts that a text begins with, and what is left of it."""
    decoder, position = json.JSONDecoder(), 0
    found: list[str] = []
    with suppress(ValueError, RecursionError):
        while position < len(text) and len(found) <= MAX_CALLS:
            _, end = decoder.raw_decode(text, position)
            found.append(text[position:end])
            position = end + len(_SPACE.match(text, end)[0])  # type: ignore[index]  # it matches anywhere, maybe nothing
    return [*found, *filter(None, [text[position:]])]
