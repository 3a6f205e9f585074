"""The items of a response: what they may be, which event belongs to which, and each call once.

In a stream an item's last form counts. A piece belongs to the item at its index, or with its id, or else to the last
one of its type: servers leave out either. A call is known by its `call_id`: where it comes again with equal arguments,
it is one call; with others the answer is refused. The cost of a piece does not grow with what has arrived before it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from toolkit._dialects.base import canonical_text, get_member
from toolkit._dialects.responses import Item, is_call, to_plain_item
from toolkit._messages import replace_surrogates
from toolkit.errors import ModelError
from toolkit.models.errors import excerpt
from toolkit.models.streaming import check_count
from toolkit.models.wire import (
    malformed,
    read_arguments,
    read_content,
    read_identity,
    read_index,
    read_object,
    read_objects,
    read_text,
)

# Whether it is of a call, which id, its value.
Identity: TypeAlias = tuple[bool, str, str]

# Status of an item that was cut.
UNFINISHED = ("incomplete", "in_progress")


@dataclass
class OpenItem:
    """An item that is still arriving.

    Attributes:
        first: The item as it was added.
        index: Its index in the output, where the server sends one.
        call: Position among the answer's calls, from 0, and the same if it comes again; None if it is not a call.
        parts: Text that has arrived.
        last: The final item, once it has arrived.
    """

    first: Item
    index: object = None
    call: int | None = None
    parts: list[str] = field(default_factory=list)
    last: Item | None = None

    def is_open_to(self, item: Item, index: object) -> bool:
        """Return whether an event's item may be this one."""
        pairs = ((self.index, index), (self.first.get("call_id") or None, item.get("call_id") or None))
        is_same = all(mine is None or theirs is None or mine == theirs for mine, theirs in pairs)
        return self.last is None and self.first["type"] == item["type"] and is_same

    def build(self, *, is_lost: bool) -> Item:
        """Make the item of what has arrived; a call of which nothing but the start came is cut.

        Args:
            is_lost: Whether the final form should have come, since others have one: a call without it is cut, too.
        """
        if self.last is not None:
            return self.last
        arrived = replace_surrogates("".join(self.parts))
        item = {name: value for name, value in self.first.items() if name != "status"}
        if item["type"] == "message":
            return {**item, "content": [{"type": "output_text", "text": arrived, "annotations": []}]}
        if not is_call(item):
            return item
        member = "input" if item["type"] == "custom_tool_call" else "arguments"
        is_cut = is_lost or not (self.parts or _read_arguments(item))
        return {**item, member: arrived or item.get(member, ""), **({"status": "incomplete"} if is_cut else {})}


class OpenItems:
    """The items of a streamed response, found by their events.

    Attributes:
        items: In the order in which they started.
    """

    def __init__(self) -> None:
        self.items: list[OpenItem] = []
        self._latest: dict[tuple[str, Any], OpenItem] = {}
        self._calls: dict[object, int] = {}

    def merge(self, listed: Sequence[Item]) -> tuple[Item, ...]:
        """Return the items as they arrived if they are whole, else those that the end lists; each call once.

        Raises:
            ModelError: The stream and its end have different calls.
        """
        final: list[Item] = [item.last for item in self.items if item.last is not None]
        ended = {item.call for item in self.items if item.last is not None and item.call is not None}
        started = (item for item in self.items if item.last is not None or item.call not in ended)
        arrived = [item.build(is_lost=bool(final)) for item in started]
        is_whole = len(final) == len(arrived) >= len(listed)
        chosen, others = (arrived, listed) if is_whole or not listed else (listed, final)
        items = tuple(_drop_repeated(chosen))
        if others and Counter(_list_calls(others)) != Counter(_list_calls(items)):
            raise ModelError(
                "The model's answer has other calls at its end than in its stream. Its calls are discarded."
            )
        return items

    def find_or_start(self, event: Any, item: Item) -> OpenItem:
        """Find an event's item, or start it."""
        return self._find(event, item) or self.start(event, item)

    def find_for_piece(self, event: Any, kind: str) -> OpenItem | None:
        """Find the item of a piece, or start it; None if the item has been final before."""
        item = {"type": kind}
        found = self._find(event, item)
        if found is None and any(one.last is not None for one in self._list_known(event, item)):
            return None
        return found or self.start(event, item)

    def _find(self, event: Any, item: Item) -> OpenItem | None:
        """Find an event's item: at its index, by its id, or else the last of its type; a final item is never found."""
        candidates = (self._latest.get(key) for key in _list_keys(event, item))
        return next((one for one in candidates if one and one.is_open_to(item, _index(event))), None)

    def is_added(self, event: Any, item: Item) -> bool:
        """Return whether an item was added before, with the same ids."""
        return any(one.first == item for one in self._list_known(event, item))

    def is_final(self, event: Any, item: Item) -> bool:
        """Return whether a final item came before, with the same ids."""
        return any(one.last == item for one in self._list_known(event, item))

    def _list_known(self, event: Any, item: Item) -> list[OpenItem]:
        return [self._latest[key] for key in _list_keys(event, item) if key[0] == "id" and key in self._latest]

    def start(self, event: Any, item: Item) -> OpenItem:
        """Add an item.

        Raises:
            ModelError: There are more than MAX_CALLS.
        """
        call = self._calls.setdefault(item.get("call_id") or object(), len(self._calls)) if is_call(item) else None
        new = OpenItem(first=item, index=_index(event), call=call)
        self.items.append(new)
        self._latest.update(dict.fromkeys(_list_keys(event, item), new))
        check_count(len(self.items), "items")
        return new


def _list_keys(event: Any, item: Item) -> Iterator[tuple[str, Any]]:
    """List the keys under which an item is found again: its index, its ids, its type."""
    if (index := _index(event)) is not None:
        yield "index", index
    identities = (get_member(event, "item_id"), item.get("id"), item.get("call_id"))
    yield from (("id", identity) for identity in identities if isinstance(identity, str) and identity)
    yield "type", item["type"]


def _index(event: Any) -> int | None:
    return read_index(get_member(event, "output_index"), "the index of an item")


def read_item(value: Any) -> Item | None:
    """Read an item as plain data.

    Raises:
        ModelError: It is not an item, or a member of a call or a message has a wrong type.
    """
    if read_object(value, "an item") is None:
        return None
    item = to_plain_item(value)
    if item is None:
        raise malformed("an item", value)
    if is_call(item):
        for member in ("call_id", "id"):
            read_identity(item.get(member), f"the {member} of a call")
        for member in ("name", "namespace", "status"):
            read_text(item.get(member), f"the {member} of a call")
        _read_arguments(item)
    elif item["type"] == "message":
        read_content(item.get("content"), "the content of a message")
        read_text(item.get("status"), "the status of a message")
    return item


def read_items(output: Any) -> list[Item]:
    """Read the items of a response.

    Raises:
        ModelError: As `read_item`, or there are more than MAX_CALLS.
    """
    items = [item for item in map(read_item, read_objects(output, "the output")) if item is not None]
    check_count(len(items), "items")
    return items


def _read_arguments(item: Item) -> str:
    return read_arguments(item.get("input" if item["type"] == "custom_tool_call" else "arguments"))


def _drop_repeated(items: Iterable[Item]) -> Iterator[Item]:
    """Yield each call once, and each other item once that has an id.

    Raises:
        ModelError: A call comes again with another name or other arguments.
    """
    known: dict[Identity, Item] = {}
    for item in items:
        found = _find_known(item, known)
        if found is None or (found != item and not is_call(item)):
            yield item
            known.update(dict.fromkeys(_list_identities(item), item))
        elif is_call(item) and _list_content(found) != _list_content(item):
            name = excerpt(item.get("call_id") or item.get("id"))
            raise ModelError(f"The model's answer has different calls with the id {name!r}. Its calls are discarded.")


def _list_calls(items: Iterable[Item]) -> list[tuple[object, ...]]:
    """List what the calls say; some gateways give them other ids in each event."""
    return [_list_content(item) for item in _drop_repeated(items) if is_call(item)]


def _find_known(item: Item, known: Mapping[Identity, Item]) -> Item | None:
    """Find the item that came before: by `call_id`, or by `id` where one of both has no `call_id`."""
    for identity in _list_identities(item):
        found = known.get(identity)
        call_ids = (found or {}).get("call_id"), item.get("call_id")
        if found is not None and (call_ids[0] == call_ids[1] or not all(call_ids)):
            return found
    return None


def _list_identities(item: Item) -> list[Identity]:
    """List the ids under which an item is known; those of calls are separate."""
    ids = ((member, item.get(member)) for member in ("call_id", "id"))
    return [
        (is_call(item), member, str(value)) for member, value in ids if isinstance(value, (str, int)) and value != ""
    ]


def _list_content(item: Item) -> tuple[object, ...]:
    return item["type"], item.get("name"), item.get("namespace"), canonical_text(_read_arguments(item))
