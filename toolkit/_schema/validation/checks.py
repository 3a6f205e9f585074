"""Checks in Python that pydantic-core lacks, exact numbers, and limits on the work that a schema causes."""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from graphlib import CycleError, TopologicalSorter
from math import isfinite
from typing import Any, NoReturn, TypeAlias

from pydantic_core import PydanticCustomError, PydanticKnownError

from toolkit._schema.json_schema import MAX_KEYS, to_hashable
from toolkit._schema.validation.pointers import refuse
from toolkit.errors import InvalidArguments

MAX_STEPS = 10_000  # steps that a schema may need for one value of a document
MAX_CHAIN = 100  # references that follow each other

# Function that returns checks, each of which its caller may call or not; its argument is a tuple with a None for each.
DeferredChecks: TypeAlias = Callable[[Any], Sequence[Callable[[Any], Any]]]

NESTED = "too many alternatives lie inside each other. Send less, or nest it less."


@dataclass
class Probe:
    """Test whether a value matches a part of the schema as it is, without defaults and coercion."""

    validator: Any = None  # set once it is built, since the schemas that it is built from refer to this

    def fits(self, place: str, value: Any, info: Any) -> bool:
        """Return whether a value matches the part at a JSON pointer."""
        fits: bool = self.validator.isinstance_python((place, value), strict=True, context=info.context)
        return fits


def keep_value(value: Any, check: Callable[[Any], Any]) -> Any:
    """Check a value, and return it unchanged."""
    check(value)
    return value


def refuse_value(_value: Any) -> NoReturn:
    """Refuse any value."""
    raise PydanticCustomError("never", "No value is allowed here")


def check_unique(value: list[Any]) -> list[Any]:
    """Check that no item occurs twice, and that at most MAX_KEYS items are not text."""
    if sum(not isinstance(item, str) for item in value) > MAX_KEYS:
        raise PydanticKnownError(
            "too_long", {"field_type": "List", "max_length": MAX_KEYS, "actual_length": len(value)}
        )
    seen = set()
    for place, known in enumerate(map(to_hashable, value)):
        if known in seen:
            raise PydanticCustomError(
                "unique_items", "List should have unique items, and item {number} is a duplicate", {"number": place}
            )
        seen.add(known)

    return value


@dataclass(frozen=True)
class Alternatives:
    """Check of `oneOf`, and of `anyOf`: a value is read as the first alternative that it matches as it is.

    A value that matches none as it is may be coerced to any.
    """

    probe: Probe
    places: Sequence[str]
    is_exclusive: bool  # whether a value that matches several is refused

    def find_first(self, value: Any, info: Any) -> int | None:
        """Return the index of the first alternative that matches, or None if none does."""
        first = None
        for number, place in enumerate(self.places):
            if not self.probe.fits(place, value, info):
                continue
            if first is not None:
                raise PydanticCustomError("one_of", "Input should match just one of the alternatives, not several")
            first = number
            if not self.is_exclusive:
                break
        return first

    def check_exactly(self, value: Any, info: Any) -> Any:
        """Return a value unchanged if it matches an alternative as it is, and refuse it otherwise."""
        if self.find_first(value, info) is None:
            raise PydanticCustomError("one_of", "Input should match one of the alternatives")
        return value

    def choose(self, value: Any, defer: DeferredChecks, info: Any) -> Any:
        """Validate a value by the first alternative that it matches as it is, or else by any of them."""
        first = self.find_first(value, info)
        checks = defer((None,) * (len(self.places) + 1))
        return checks[-1 if first is None else first](value)


# By keyword: a test that refuses a number, and pydantic-core's names for the error and the limit.
BOUNDS: Mapping[str, tuple[Callable[[Any, Any], bool], str, str]] = {
    "minimum": (operator.lt, "greater_than_equal", "ge"),
    "exclusiveMinimum": (operator.le, "greater_than", "gt"),
    "maximum": (operator.gt, "less_than_equal", "le"),
    "exclusiveMaximum": (operator.ge, "less_than", "lt"),
    "multipleOf": (lambda value, step: not is_multiple(value, step), "multiple_of", "multiple_of"),
}


def to_integer(value: Any) -> Any:
    """Convert a whole float to an integer, and refuse a bool."""
    if type(value) is bool:
        raise PydanticKnownError("int_type")
    return int(value) if type(value) is float and value.is_integer() else value


def keep_number(value: Any, check: Callable[[Any], Any]) -> Any:
    """Return a finite number unchanged, and refuse a bool. Validate anything else by `check`."""
    if type(value) is int or (type(value) is float and isfinite(value)):
        return value
    if type(value) is bool:
        raise PydanticKnownError("float_type")
    return check(value)


def is_multiple(value: float, step: float) -> bool:
    """Return whether a number is a multiple of another in decimal notation, so that 0.3 is a multiple of 0.1."""
    return (Fraction(repr(value)) / Fraction(repr(step))).denominator == 1


@dataclass(frozen=True)
class Workload:
    """Graph of the parts of a schema: an edge leads from each part to the parts that it uses."""

    # By part, the parts for the same value and those for values inside it. The inner dicts are ordered sets.
    here: defaultdict[str, dict[str, None]] = field(default_factory=lambda: defaultdict(dict))
    deeper: defaultdict[str, dict[str, None]] = field(default_factory=lambda: defaultdict(dict))

    def add(self, place: str, *, here: Sequence[str] = (), deeper: Sequence[str] = ()) -> None:
        """Add edges from a part."""
        self.here[place] |= dict.fromkeys(here)
        self.deeper[place] |= dict.fromkeys(deeper)

    def refuse_excess(self) -> None:
        """Refuse a schema that causes endless or excessive work.

        Raises:
            DefinitionError: A part leads to itself for the same value, or to too many others.
        """
        try:
            steps, lengths = _sum_up(self.here)
        except CycleError as error:
            refuse(error.args[1][0], "its $ref leads back to itself", "Point it to a schema that says something.")
        for place, count in steps.items():
            if count > MAX_STEPS:
                refuse(place, f"more than {MAX_STEPS:,} schemas apply to one value", "Name each alternative once.")
            if lengths[place] > MAX_CHAIN:
                refuse(place, f"more than {MAX_CHAIN} references follow each other", "Point to the last of them.")

    def is_small(self) -> bool:
        """Return whether the work is small for any document."""
        try:
            steps, lengths = _sum_up({place: {**self.here[place], **self.deeper[place]} for place in self.here})
        except CycleError:
            return False
        return max(steps.values(), default=0) <= MAX_STEPS and max(lengths.values(), default=0) <= MAX_CHAIN


def count_step(value: Any, info: Any) -> Any:
    """Count a step. The context is a list of one number, the steps that are left for the document.

    Raises:
        InvalidArguments: No step is left.
    """
    info.context[0] -= 1
    if info.context[0] < 0:
        raise InvalidArguments(NESTED)
    return value


def _sum_up(edges: Mapping[str, Mapping[str, None]]) -> tuple[dict[str, int], dict[str, int]]:
    """Count the steps that each part causes, and the length of its longest path."""
    steps: dict[str, int] = {}
    lengths: dict[str, int] = {}
    for place in TopologicalSorter(edges).static_order():
        inner: Mapping[str, None] = edges.get(place, {})
        steps[place] = min(1 + sum(steps[each] for each in inner), MAX_STEPS + 1)
        lengths[place] = 1 + max((lengths[each] for each in inner), default=0)
    return steps, lengths
