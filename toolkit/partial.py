"""A structured answer while it arrives: as much of it as is a value of its type already."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from pydantic_core import from_json, to_json

from toolkit._messages import sendable
from toolkit._schema.json_text import without_opening
from toolkit.events import OutputDelta, ReasoningDelta, TextDelta, ToolArgumentsDelta
from toolkit.output import Output

_Delta: TypeAlias = TextDelta | ReasoningDelta | ToolArgumentsDelta

# A text is read anew when it has grown by an eighth: all readings together cost nine times the last one, at most.
_SHARE = 8


@dataclass
class Partial:
    """Reads one answer of the model as it arrives, and gives its value each time that has changed.

    What is not whole is left out, from the end: a number, an item of a list, a field with a default. There is no value
    yet while a field is missing that has to be there. The type's own validators run for every value. It never raises.

    Args:
        output: What the answer has to be.
    """

    output: Output[Any]
    _text: str = field(default="", init=False)
    _new: list[str] = field(default_factory=list, init=False)
    _size: int = field(default=0, init=False)
    _due: int = field(default=1, init=False)
    _call: int | None = field(default=None, init=False)
    _last: tuple[Any, ...] = field(default=(), init=False)  # the value given last, if there is one

    def shown(self, piece: _Delta) -> Iterator[_Delta | OutputDelta]:
        """Pass on what the model says, and the answer as it grows in its place where it is a call."""
        if isinstance(piece, ToolArgumentsDelta) and self.output.is_call(piece.name):
            yield from self.take(piece.text, piece.index)
            return
        yield piece
        if isinstance(piece, TextDelta):
            yield from self.take(piece.text)

    def take(self, text: str, call: int | None = None) -> Iterator[OutputDelta]:
        """Add a piece of the answer.

        Args:
            text: As it arrived.
            call: The number of the call whose arguments it is of; None where it is of the text. A piece from elsewhere
                than the one before begins the answer anew.
        """
        if not self.output.asked:
            return
        if call != self._call:
            self._call, self._text, self._size, self._due = call, "", 0, 1
            self._new.clear()
        self._new.append(text)
        self._size += len(text)
        if self._size >= self._due:
            self._due = self._size + max(1, self._size // _SHARE)
            yield from self._changed(self._beginnings())

    def end(self, text: str) -> Iterator[OutputDelta]:
        """Give the value of the whole answer, where it is another than the last, or the first."""
        if self.output.asked:
            yield from self._changed(iter((text,)))

    def _changed(self, texts: Iterator[str]) -> Iterator[OutputDelta]:
        """Give the value of the first text that has one."""
        found = next(filter(None, map(self._read, texts)), ())
        if found and not _is_same(found, self._last):
            self._last = found
            yield OutputDelta(found[0])

    def _read(self, text: str) -> tuple[Any, ...]:
        try:
            return (self.output.read(text),)
        except Exception:  # noqa: BLE001  whatever fails here fails again once the answer is whole, and is told then
            return ()

    def _beginnings(self) -> Iterator[str]:
        """List the JSON texts that what has arrived may stand for, the longest first."""
        self._text += "".join(self._new)
        self._new.clear()
        text = without_opening(sendable(self._text))
        try:
            document = from_json(text, allow_partial="trailing-strings", allow_inf_nan=False)
        except ValueError:
            return
        if isinstance(document, (dict, list, str)):  # a word of prose may begin as a number or a truth does
            yield from (to_json(beginning).decode() for beginning in _shortened(document, text))


def _shortened(document: Any, text: str) -> Iterator[Any]:
    """Give a document that has arrived as far as `text`, and then, each time, less of its end.

    Only what stands at the end may be cut, so only that is left out: the last entry, then the last one around it.
    """
    containers, leaf = [], document
    while isinstance(leaf, (list, dict)) and leaf:
        containers.append(leaf)
        leaf = leaf[_last_key(leaf)]
    if not (_is_number(leaf) and text[-1].isdigit()):  # more digits may follow
        yield document
    for container in reversed(containers):
        del container[_last_key(container)]
        yield document


def _last_key(container: Any) -> Any:
    return next(reversed(container)) if isinstance(container, dict) else -1


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_same(value: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    try:
        return bool(value == other)
    except Exception:  # noqa: BLE001  values are the user's: some cannot be compared
        return False
