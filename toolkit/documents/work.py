"""How much work a schema makes: none without end, and none that grows beyond all bounds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import Any

from toolkit.documents.document import refuse
from toolkit.errors import InvalidArguments

MAX_STEPS = 10_000  # that a schema may need for one place of a document
MAX_CHAIN = 100  # schemas that hold for one place, each by way of another
SPARE = 20_000  # steps for any document, besides those for its length
PER_CHARACTER = 4

NESTED = "too many alternatives lie inside each other. Send less, or nest it less."


@dataclass(frozen=True)
class Work:
    """What each part of a schema leads to.

    Attributes:
        here: The parts that hold for the same place of a document.
        deeper: Those that hold for places inside it.
    """

    # Dicts without values: sets that keep their order.
    here: defaultdict[str, dict[str, None]] = field(default_factory=lambda: defaultdict(dict))
    deeper: defaultdict[str, dict[str, None]] = field(default_factory=lambda: defaultdict(dict))

    def add(self, place: str, *, here: Sequence[str] = (), deeper: Sequence[str] = ()) -> None:
        """Note where a part leads."""
        self.here[place] |= dict.fromkeys(here)
        self.deeper[place] |= dict.fromkeys(deeper)

    def check(self) -> None:
        """Refuse what cannot be carried out.

        Raises:
            DefinitionError: A part leads to itself for the same place, or to very many.
        """
        try:
            steps, lengths = _totals(self.here)
        except CycleError as error:
            refuse(error.args[1][0], "its $ref leads back to itself", "Point it to a schema that says something.")
        for place, count in steps.items():
            if count > MAX_STEPS:
                refuse(place, f"more than {MAX_STEPS:,} schemas apply to one value", "Name each alternative once.")
            if lengths[place] > MAX_CHAIN:
                refuse(place, f"more than {MAX_CHAIN} references follow each other", "Point to the last of them.")

    def is_small(self) -> bool:
        """Tell whether no document can make it grow."""
        whole = {place: {**self.here[place], **self.deeper[place]} for place in [*self.here, *self.deeper]}
        try:
            return max(_totals(whole)[0].values(), default=0) <= MAX_STEPS
        except CycleError:
            return False


@dataclass
class Allowance:
    """The steps that are left for one document."""

    left: int

    @classmethod
    def of(cls, text: str) -> Allowance:
        """Allow what a document of this length may need."""
        return cls(SPARE + PER_CHARACTER * len(text))


def counted(value: Any, info: Any) -> Any:
    """Count a step.

    Raises:
        InvalidArguments: It is one too many.
    """
    info.context.left -= 1
    if info.context.left < 0:
        raise InvalidArguments(NESTED)
    return value


def _totals(edges: Mapping[str, Mapping[str, None]]) -> tuple[dict[str, int], dict[str, int]]:
    """Count, for each part, all that it leads to, and the longest way."""
    steps: dict[str, int] = {}
    lengths: dict[str, int] = {}
    for place in TopologicalSorter(edges).static_order():
        inner: Mapping[str, None] = edges.get(place, {})
        steps[place] = min(1 + sum(steps[each] for each in inner), MAX_STEPS + 1)
        lengths[place] = 1 + max((lengths[each] for each in inner), default=0)
    return steps, lengths
