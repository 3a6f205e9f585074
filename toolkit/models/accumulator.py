"""The pieces of a streamed answer -> the answer, for servers that number and name their pieces in many ways.

Calls come in fragments. A fragment belongs to the call at its index, unless it brings another id or begins anew after
complete JSON; where the index is missing, to the call with its id, else to the last one. The first name that is not
empty counts. Servers known for each oddity are listed with the tests.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from toolkit.dialects.wire import attribute, function_of
from toolkit.jsontext import is_cut, is_object
from toolkit.messages import ToolCall, sendable

_SPACE = re.compile(r"\s*")


@dataclass
class OpenCall:
    """A call that is still arriving."""

    index: object = None
    id: str = ""
    name: str = ""
    parts: list[str] = field(default_factory=list)

    @property
    def arguments(self) -> str:
        """What has arrived of the arguments."""
        return sendable("".join(self.parts))

    def take(self, piece: Any) -> None:
        """Add a fragment."""
        name, arguments = function_of(piece)
        self.id = self.id or _identity(piece)
        if isinstance(name, str) and name and name != self.name:
            self.name = f"{self.name}|{name}" if self.name else name  # two names for one call: nobody's tool
        self.parts.append(_text_of(arguments))

    def closed(self) -> Iterable[ToolCall]:
        """Make calls of what has arrived: one, or several where whole objects stand one after the other."""
        texts = _objects(self.arguments)
        for number, text in enumerate(texts):
            yield ToolCall(
                name=sendable(self.name), arguments=text, provider_call_id=sendable(self.id) if number == 0 else ""
            )


@dataclass
class Accumulator:
    """Collects the calls of one answer."""

    open: list[OpenCall] = field(default_factory=list)

    def take(self, piece: Any) -> None:
        """Add a fragment of a streamed answer to the call that it belongs to."""
        call = self._call_of(piece)
        if call is None:
            index = _index(piece)
            call = OpenCall(index=len(self.open) if index is None else index)
            self.open.append(call)
        call.take(piece)

    def take_whole(self, piece: Any) -> None:
        """Add a call of an answer that was not streamed: each is one of its own, whatever its index or id."""
        self.open.append(OpenCall())
        self.open[-1].take(piece)

    def calls(self) -> tuple[ToolCall, ...]:
        """Make the calls, in the order in which they began."""
        return tuple(call for open_call in self.open for call in open_call.closed())

    def _call_of(self, piece: Any) -> OpenCall | None:
        candidates, identity = self._candidates(piece), _identity(piece)
        found = next(candidates, None)
        if found is None or not _begins_anew(found, piece):
            return found
        return next((call for call in candidates if identity and call.id == identity), None)

    def _candidates(self, piece: Any) -> Iterator[OpenCall]:
        """List the calls that a fragment may belong to, the likeliest first."""
        index, identity = _index(piece), _identity(piece)
        if index is not None:
            return (call for call in reversed(self.open) if call.index == index)
        if identity:
            return (call for call in self.open if call.id == identity)
        return reversed(self.open[-1:])


def _begins_anew(call: OpenCall, piece: Any) -> bool:
    if identity := _identity(piece):
        return call.id not in ("", identity)
    name, arguments = function_of(piece)
    brings = name and (arguments or name != call.name)
    return bool(brings and call.name) and is_object(call.arguments)


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
    lawful = all(map(is_object, whole)) and (is_object(last) or is_cut(last))
    return [*whole, last] if lawful else [text]


def _parted(text: str) -> list[str]:
    """List the JSON texts that a text begins with, and what is left of it."""
    decoder, position = json.JSONDecoder(), 0
    found: list[str] = []
    with suppress(ValueError, RecursionError):
        while position < len(text):
            _, end = decoder.raw_decode(text, position)
            found.append(text[position:end])
            position = end + len(_SPACE.match(text, end)[0])  # type: ignore[index]  # it matches anywhere, maybe nothing
    return [*found, *filter(None, [text[position:]])]
