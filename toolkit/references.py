"""References between calls: an argument `†trip.city` stands for a value that is kept there.

What is in here only looks at calls: which of them wait for which, and in what order they may be carried out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Any, TypeAlias

from pydantic_core import from_json, to_json

from toolkit._messages import OUTPUT, OUTPUT_PATH, ToolCall
from toolkit._schema.arguments import MAX_TEXT, refuse_doubtful
from toolkit._tools.shared_values import MARK, Path, path_of
from toolkit.errors import InvalidArguments

_ESCAPED = "\\u2020"

# Which calls a call waits for, by their places among the calls.
Needs: TypeAlias = Mapping[int, Collection[int]]


@dataclass(frozen=True)
class Plan:
    """In what order calls may be carried out.

    Attributes:
        order: The places of all calls: each behind those that it waits for, in call order otherwise.
        needs: Of each call, those whose results it refers to or imports.
        after: Of each call, those that have to end before it, the last one first: the same, and those that keep a
            result where it does.
        circular: Calls that wait for themselves, and by way of which others.
    """

    order: Sequence[int]
    needs: Needs
    after: Mapping[int, Sequence[int]]
    circular: Needs


def planned(calls: Sequence[ToolCall], imports: Callable[[ToolCall], Collection[str] | None]) -> Plan:
    """Find out which calls wait for which.

    A call waits for every other one that keeps its result at, above or below a place that it refers to or imports, be
    it in its own instance or in none. Of those that keep theirs in one place, each waits for the one before it.
    Imports that would make a circle are not waited for: a model cannot leave out what a tool always imports.

    Args:
        calls: In call order.
        imports: The paths of what a call imports; None where it may neither refer to others nor keep its result.
    """
    imported = [imports(call) for call in calls]
    kept = [None if paths is None else _kept(call) for call, paths in zip(calls, imported)]
    said = [() if paths is None else references_in(call.arguments) for call, paths in zip(calls, imported)]
    writers = _Writers(kept)
    needs = {place: writers.of(_places(call, said[place])) - {place} for place, call in enumerate(calls)}
    caught = _circular(needs)
    circular = {place: needs[place] & caught for place in sorted(caught)}
    free = {place: set() if place in circular else others for place, others in needs.items()}
    wider = _joined(free, [writers.of(_places(call, paths or ())) for call, paths in zip(calls, imported)])
    order = ordered(wider)
    return Plan(order, wider, _after(order, wider, kept), circular)


def ordered(needs: Needs) -> list[int]:
    """Put places into an order in which each stands behind those that it needs; circles are left out."""
    followers = defaultdict[int, list[int]](list)
    for place, others in needs.items():
        for other in others:
            followers[other].append(place)
    left = {place: len(others) for place, others in needs.items()}
    ready = [place for place, number in left.items() if not number]
    heapify(ready)
    order: list[int] = []
    while ready:
        order.append(heappop(ready))
        for place in followers[order[-1]]:
            left[place] -= 1
            if not left[place]:
                heappush(ready, place)
    return order


def substituted(arguments: str, value_of: Callable[[str], Any]) -> str:
    """Put values in the places of references.

    Args:
        arguments: JSON text.
        value_of: Gives the value at a path.

    Raises:
        InvalidArguments: There is no such value, or readers of JSON disagree about the text.
    """
    document = _document(arguments)
    if document is None:
        return arguments
    refuse_doubtful(arguments)
    own = {name: value if name == OUTPUT else _filled(value, value_of) for name, value in document.items()}
    return to_json(own, inf_nan_mode="constants").decode()


def references_in(arguments: str) -> set[str]:
    """List the paths that the arguments of a call refer to."""
    paths = set[str]()
    with suppress(InvalidArguments):  # refused when the turn of the call comes
        substituted(arguments, paths.add)
    return paths


def kept_at(call: ToolCall) -> str:
    """Tell where a call wants its result kept.

    Raises:
        InvalidArguments: That is no path.
    """
    path = call.output_path.removeprefix(MARK)
    try:
        path_of(path or "none")
    except ValueError as error:
        raise InvalidArguments(f"{OUTPUT_PATH}: {error}") from error
    return path


class _Writers:
    """Which calls keep a result where."""

    def __init__(self, kept: Sequence[Path | None] = ()) -> None:
        self._by_root = defaultdict[Path, list[tuple[int, Path]]](list)
        for place, path in enumerate(kept):
            self.add(place, path)

    def add(self, place: int, path: Path | None) -> None:
        """Tell where a call keeps its result; None where it does not."""
        if path:
            self._by_root[path[:2]].append((place, path))

    def of(self, paths: Iterable[Path]) -> set[int]:
        """Find those that keep theirs at, above or below some paths."""
        return {place for path in paths for place, other in self._by_root.get(path[:2], ()) if _overlap(path, other)}


def _circular(needs: Needs) -> set[int]:
    """Find what waits for itself: what stands neither in front of all circles nor behind them."""
    stuck = needs.keys() - ordered(needs)
    followers: dict[int, list[int]] = {place: [] for place in stuck}
    for place in stuck:
        for other in stuck.intersection(needs[place]):
            followers[other].append(place)
    return stuck - {*ordered(followers)}


def _joined(needs: Needs, imported: Sequence[Collection[int]]) -> Needs:
    """Add what is imported to what is needed, but for calls that would wait for each other then."""
    whole = {place: {*others, *imported[place]} - {place} for place, others in needs.items()}
    caught = _circular(whole)
    return {
        place: {*needs[place], *(others - caught if place in caught else others)} for place, others in whole.items()
    }


def _after(order: Sequence[int], needs: Needs, kept: Sequence[Path | None]) -> dict[int, Sequence[int]]:
    writers = _Writers()
    after: dict[int, Sequence[int]] = {}
    rank = {place: number for number, place in enumerate(order)}
    for place in order:
        path = kept[place]
        others = {*needs[place], *writers.of([path] if path else ())}
        after[place] = sorted(others, key=rank.__getitem__, reverse=True)  # who waits for the last one is woken once
        writers.add(place, path)
    return after


def _kept(call: ToolCall) -> Path | None:
    if not call.output_path:
        return None
    try:
        return (call.instance, *path_of(kept_at(call)))
    except InvalidArguments:
        return None  # it is refused when its turn comes


def _places(call: ToolCall, paths: Iterable[str]) -> Iterator[Path]:
    """List where values that a call refers to may be."""
    for path in paths:
        try:
            steps = path_of(path)
        except ValueError:
            continue  # refused when the turn of the call comes
        yield from ((owner, *steps) for owner in {call.instance, ""})


def _document(arguments: str) -> dict[str, Any] | None:
    """Read arguments that may hold references; None where there are none, or the tool will refuse the text."""
    if (MARK not in arguments and _ESCAPED not in arguments) or len(arguments) > MAX_TEXT:
        return None
    try:
        document = from_json(arguments)
    except ValueError:
        return None
    return document if isinstance(document, dict) else None


def _filled(value: Any, value_of: Callable[[str], Any]) -> Any:
    if isinstance(value, str) and value.startswith(MARK):
        return value[1:] if value.startswith(MARK * 2) else _looked_up(value, value_of)
    if isinstance(value, list):
        return [_filled(item, value_of) for item in value]
    return {key: _filled(item, value_of) for key, item in value.items()} if isinstance(value, dict) else value


def _looked_up(reference: str, value_of: Callable[[str], Any]) -> Any:
    try:
        return value_of(reference[1:])
    except (KeyError, ValueError) as error:
        raise InvalidArguments(f"{reference[:100]}: {error.args[0]}") from error


def _overlap(one: Path, other: Path) -> bool:
    length = min(len(one), len(other))
    return one[:length] == other[:length]
