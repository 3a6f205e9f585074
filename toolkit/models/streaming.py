"""Assemble the calls of a streamed completion, whose fragments servers number and name in many ways.

A fragment belongs to the call at its index, unless it starts a new call: by another id and a name, or after complete
JSON. Where the index is missing, it belongs to the call with its id, else to the last one. The first name that is not
empty counts. Servers known for each deviation are listed with the tests.

A fragment that repeats its call so far, and an object that repeats the one before it in one text of arguments, came
twice and count once.

The cost of a fragment does not grow with what has arrived before it: an answer may be millions of fragments long.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

from toolkit._dialects.base import get_member, split_function
from toolkit._messages import ToolCall, replace_surrogates
from toolkit._options import is_whole
from toolkit._schema.json_text import Nesting, is_object, is_truncated
from toolkit.errors import ModelError

# Calls in one answer. Each would have to be stored, and answered.
MAX_CALLS = 10_000

_SPACE = re.compile(r"\s*")


@dataclass
class OpenCall:
    """A call that is still arriving.

    Attributes:
        number: Position among the answer's calls, from 0.
        is_whole: Whether the arguments are one whole JSON object.
        is_listed: Whether the accumulator has listed it as ready.
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
        """The arguments, as far as they have arrived."""
        return replace_surrogates("".join(self.parts))

    def add(self, piece: Any) -> str:
        """Add a fragment, and return its part of the arguments.

        Raises:
            ModelError: Name or arguments are no text.
        """
        name, arguments = split_function(piece)
        if not isinstance(name, (str, type(None))):
            raise ModelError(f"The model's answer is malformed: the name of a call is {name!r:.50}.")
        self.id = self.id or _identity(piece)
        if isinstance(name, str) and name and name != self.name:
            # Two names for one call: the result is no tool's name.
            self.name = f"{self.name.partition('|')[0]}|{name}" if self.name else name
        text = _to_text(arguments)
        if self._is_repeated(piece, text):
            return ""
        self.parts.append(text)
        self._watch(text)
        return text

    def _is_repeated(self, piece: Any, text: str) -> bool:
        """Return whether a fragment repeats the call so far: nothing that starts with a bracket goes on like that."""
        if not text.startswith("{") or _identity(piece) != self.id or not self.id:
            return False
        return sum(map(len, self.parts)) == len(text) and "".join(self.parts) == text

    def _watch(self, text: str) -> None:
        """Parse the arguments once, when their outermost bracket closes; only space may follow."""
        if self._has_closed:
            self.is_whole = self.is_whole and not text.strip()
            return
        self._nesting.add(text)
        if self._nesting.is_closed:
            self._has_closed, self.is_whole = True, is_object(self.arguments)

    def build(self) -> ToolCall:
        """Make one call of what has arrived."""
        return ToolCall(
            name=replace_surrogates(self.name), arguments=self.arguments, provider_call_id=replace_surrogates(self.id)
        )

    def build_all(self) -> Iterable[ToolCall]:
        """Make one call, or several where the arguments are several whole objects in a row; of equal ones one."""
        first, *more = (text for text, _ in groupby(_split_objects(self.arguments)))
        call = replace(self.build(), arguments=first)
        return [call, *(replace(call, arguments=text, provider_call_id="") for text in more)]


@dataclass
class Accumulator:
    """Collects the calls of one answer."""

    open: list[OpenCall] = field(default_factory=list)
    _latest: dict[object, OpenCall] = field(default_factory=dict)
    _ready: list[OpenCall] = field(default_factory=list)
    _known: dict[tuple[object, str], OpenCall] = field(default_factory=dict)

    def add(self, piece: Any) -> tuple[OpenCall, str]:
        """Add a fragment to its call; return the call and the fragment's part of the arguments.

        Raises:
            ModelError: There are more than MAX_CALLS calls.
        """
        call = self._find_call(piece) or self._start_call(_index(piece))
        text = call.add(piece)
        if call.id:
            self._known.setdefault((call.index, call.id), call)
            self._known.setdefault((None, call.id), call)
        if call.is_whole and call.name and not call.is_listed:
            call.is_listed = True
            self._ready.append(call)
        return call, text

    def add_whole(self, piece: Any) -> None:
        """Add a call of an answer that was not streamed: each is separate, whatever its index or id.

        Raises:
            ModelError: As `add`.
        """
        self._start_call(None).add(piece)

    def take_ready(self) -> list[OpenCall]:
        """List the calls whose name and arguments were completed since the last time."""
        ready, self._ready = self._ready, []
        return ready

    def build_calls(self) -> tuple[ToolCall, ...]:
        """Make the calls, in the order in which they started.

        Raises:
            ModelError: As `add`.
        """
        calls = tuple(call for open_call in self.open for call in open_call.build_all())
        _check_count(len(calls))
        return calls

    def _start_call(self, index: object) -> OpenCall:
        number = len(self.open)
        _check_count(number + 1)
        call = OpenCall(number=number, index=number if index is None else index)
        self.open.append(call)
        self._latest[call.index] = call
        return call

    def _find_call(self, piece: Any) -> OpenCall | None:
        index, identity = _index(piece), _identity(piece)
        found = self._latest.get(index) if index is not None else self._find_without_index(identity)
        if found is None or not _is_new_call(found, piece):
            return found
        return self._known.get((found.index, identity))

    def _find_without_index(self, identity: str) -> OpenCall | None:
        if identity:
            return self._known.get((None, identity))
        return self.open[-1] if self.open else None


def _check_count(calls: int) -> None:
    if calls > MAX_CALLS:
        raise ModelError(f"The model's answer has more than {MAX_CALLS:,} calls. Its calls are discarded.")


def _is_new_call(call: OpenCall, piece: Any) -> bool:
    name, arguments = split_function(piece)
    if identity := _identity(piece):
        return call.id not in ("", identity) and not _continues(call, name, arguments)
    has_news = name and (arguments or name != call.name)
    return bool(has_news and call.name) and call.is_whole


def _continues(call: OpenCall, name: Any, arguments: Any) -> bool:
    """Return whether a fragment with a new id continues a call: some servers make an id for each fragment."""
    if call.is_whole or not isinstance(arguments, str) or not arguments or not any(call.parts):
        return False
    return not name or (name == call.name and not arguments.lstrip().startswith("{"))


def _to_text(arguments: Any) -> str:
    if arguments is None or isinstance(arguments, str):
        return arguments or ""
    if not isinstance(arguments, (Mapping, list, tuple)):
        raise ModelError(f"The model's answer is malformed: the arguments of a call are {arguments!r:.50}.")
    return json.dumps(arguments, ensure_ascii=False, default=str)  # of a server that decoded the text already


def _index(piece: Any) -> object:
    index = get_member(piece, "index")
    return index if isinstance(index, (int, str)) else None


def _identity(piece: Any) -> str:
    identity = get_member(piece, "id")
    if is_whole(identity):
        return str(identity)
    return identity.strip() if isinstance(identity, str) else ""


def _split_objects(text: str) -> list[str]:
    """Split a text of several JSON objects, the last of which may be cut; any other text stays as it is."""
    if is_object(text) or not text.lstrip().startswith("{"):
        return [text]
    *whole, last = _split_json(text)
    is_valid = all(map(is_object, whole)) and (is_object(last) or is_truncated(last))
    return [*whole, last] if is_valid else [text]


def _split_json(text: str) -> list[str]:
    """List the JSON texts at the start of a text, and its rest."""
    decoder, position = json.JSONDecoder(), 0
    found: list[str] = []
    with suppress(ValueError, RecursionError):
        while position < len(text) and len(found) <= MAX_CALLS:
            _, end = decoder.raw_decode(text, position)
            found.append(text[position:end])
            position = end + len(_SPACE.match(text, end)[0])  # type: ignore[index]  # it matches anywhere, maybe nothing
    return [*found, *filter(None, [text[position:]])]
