"""The items of a streamed response, as they arrive.

A piece belongs to the item at its index, or of its id, or else to the last one of its kind: servers leave out either.
What a piece costs does not grow with what has arrived before it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from toolkit._dialects.base import attribute
from toolkit._dialects.responses import is_call
from toolkit._messages import sendable
from toolkit.errors import ModelError
from toolkit.models.accumulator import MAX_CALLS


@dataclass
class Item:
    """An item that is still arriving.

    Attributes:
        call: Which call of the answer it is, from 0; None where it is none.
        last: Its last form, once that is there.
    """

    first: Mapping[str, Any]
    index: object = None
    call: int | None = None
    parts: list[str] = field(default_factory=list)
    last: Mapping[str, Any] | None = None

    def is_open_to(self, item: Mapping[str, Any], index: object) -> bool:
        """Tell whether what an event brings of an item may belong to this one."""
        known = ((self.index, index), (self.first.get("call_id") or None, item.get("call_id") or None))
        is_same = all(mine is None or theirs is None or mine == theirs for mine, theirs in known)
        return self.last is None and self.first["type"] == item["type"] and is_same

    def whole(self) -> Mapping[str, Any]:
        """Make the item of what has arrived; where its last form never came, it is as whole as the answer."""
        if self.last is not None:
            return self.last
        arrived = sendable("".join(self.parts))
        begun = {name: value for name, value in self.first.items() if name != "status"}
        if begun["type"] == "message":
            return {**begun, "content": [{"type": "output_text", "text": arrived, "annotations": []}]}
        member = "input" if begun["type"] == "custom_tool_call" else "arguments"
        return {**begun, member: arrived} if is_call(begun) and arrived else begun


class Arrival:
    """Finds the item that an event is about.

    Attributes:
        items: What has arrived, in the order in which it began.
    """

    def __init__(self) -> None:
        self.items: list[Item] = []
        self._latest: dict[tuple[str, Any], Item] = {}
        self._calls = itertools.count()

    @property
    def is_whole(self) -> bool:
        """Whether the last form of every item has come."""
        return all(item.last is not None for item in self.items)

    def open_at(self, event: Any, item: Mapping[str, Any]) -> Item:
        """Find an item, or begin it."""
        return self.found(event, item) or self.begun(item, event)

    def found(self, event: Any, item: Mapping[str, Any]) -> Item | None:
        """Find what an event is about: at its place, or else the last of its kind; nothing that is whole already."""
        candidates = (self._latest.get(place) for place in _places(event, item))
        return next((one for one in candidates if one and one.is_open_to(item, _index(event))), None)

    def begun(self, item: Mapping[str, Any], event: Any) -> Item:
        """Begin an item.

        Raises:
            ModelError: There are more than MAX_CALLS.
        """
        new = Item(first=item, index=_index(event), call=next(self._calls) if is_call(item) else None)
        self.items.append(new)
        self._latest.update(dict.fromkeys(_places(event, item), new))
        check_count(self.items)
        return new


def check_count(items: Sequence[object]) -> None:
    """Refuse an answer of more items than anybody would have to keep.

    Raises:
        ModelError: There are more than MAX_CALLS.
    """
    if len(items) > MAX_CALLS:
        raise ModelError(f"The model's answer has more than {MAX_CALLS:,} items. Nothing of it was carried out.")


def _places(event: Any, item: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """List where an item can be found again: at its index, under an id, or as the last of its kind."""
    if (index := _index(event)) is not None:
        yield "index", index
    identities = (attribute(event, "item_id"), item.get("id"), item.get("call_id"))
    yield from (("id", identity) for identity in identities if isinstance(identity, str) and identity)
    yield "kind", item["type"]


def _index(event: Any) -> int | None:
    index = attribute(event, "output_index")
    return index if isinstance(index, int) else None
