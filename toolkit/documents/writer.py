"""Walks a JSON Schema and writes what each part means for pydantic-core."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from toolkit.documents.checks import Members, Probe, door, never
from toolkit.documents.document import Document, below, refuse
from toolkit.documents.work import Work

Node: TypeAlias = dict[str, Any]
Steps: TypeAlias = "Callable[[Writer, dict[str, Any], str], list[Node]]"

MAX_DEPTH = 100  # steps of a JSON pointer
MAX_PARTS = 10_000

FREE_REF = "any JSON"  # no JSON pointer
FREE: Mapping[str, Any] = {"type": "definition-ref", "schema_ref": FREE_REF}


@dataclass(frozen=True)
class Writer:
    """Writes schemas for pydantic-core.

    Attributes:
        steps: Writes one schema with keywords, as checks that follow each other.
        fills: Whether defaults are filled in, and a value that fits none of several as it is may be read as any.
        definitions: The parts that are shared, by their pointers; None until they are written.
        probed: The parts that the probe is asked for.
    """

    document: Document
    steps: Steps
    probe: Probe
    work: Work
    fills: bool
    definitions: dict[str, Node | None] = field(default_factory=dict)
    probed: set[str] = field(default_factory=set)
    places: set[str] = field(default_factory=set)

    def core(self, schema: Any, place: str) -> Node:
        """Write a schema.

        Raises:
            DefinitionError: It cannot be carried out.
        """
        if schema is True:
            return dict(FREE)
        if schema is False:
            return {"type": "function-plain", "function": plain(never)}
        if not isinstance(schema, dict):
            refuse(place, "it is no schema", "A schema is an object, true or false.")
        self.places.add(place)
        if len(self.places) > MAX_PARTS:
            refuse(place, f"it has more than {MAX_PARTS:,} parts", "Leave out what the tool does not need.")
        if place.count("/") > MAX_DEPTH:
            refuse(place, f"it lies more than {MAX_DEPTH} steps deep", "Move it into $defs, and point to it by $ref.")
        return chained(self.steps(self, schema, place))

    def here(self, place: str, schema: Any, *keys: str | int) -> Node:
        """Write a part that holds for the same value."""
        inner = below(place, *keys)
        self.work.add(place, here=[inner])
        return self.core(schema, inner)

    def deeper(self, place: str, schema: Any, *keys: str | int) -> Node:
        """Write a part that holds for values inside."""
        inner = below(place, *keys)
        self.work.add(place, deeper=[inner])
        return self.core(schema, inner)

    def shared(self, pointer: str) -> Node:
        """Write a part once, and point to it."""
        self.definitions.setdefault(pointer, None)
        return {"type": "definition-ref", "schema_ref": pointer}

    def probing(self, pointer: str) -> str:
        """Have a part known to the probe."""
        self.probed.add(pointer)
        return pointer

    def complete(self) -> None:
        """Write the definitions that are still to be written, and those that these point to."""
        while missing := [pointer for pointer, core in self.definitions.items() if core is None]:
            for pointer in missing:
                self.definitions[pointer] = self.core(self.document.at(pointer), pointer)


def plain(function: Callable[..., Any]) -> Node:
    """Name a function of a value alone."""
    return {"type": "no-info", "function": function}


def informed(function: Callable[..., Any]) -> Node:
    """Name a function that is told what the validation is about."""
    return {"type": "with-info", "function": function}


def after(function: Node, core: Node) -> Node:
    """Write a check that follows another."""
    return {"type": "function-after", "function": function, "schema": core}


def wrapped(function: Node, core: Node) -> Node:
    """Write a check that calls another."""
    return {"type": "function-wrap", "function": function, "schema": core}


def doors(cores: list[Node]) -> Node:
    """Write checks that a function may call, each or not."""
    return {"type": "tuple", "items_schema": [wrapped(plain(door), core) for core in cores]}


def chained(steps: list[Node]) -> Node:
    """Write checks that follow each other, each of what the one before it made."""
    flat = [each for step in steps for each in (step["steps"] if step["type"] == "chain" else [step])]
    return flat[0] if len(flat) == 1 else {"type": "chain", "steps": flat}


def members(values: Sequence[Any]) -> Node:
    """Write that a value is one of some."""
    if values and all(isinstance(each, str) for each in values):
        return {"type": "literal", "expected": values}
    return after(plain(Members.of(values).check), {"type": "any"})


def labelled(cores: list[tuple[Node, str]]) -> Node:
    """Write alternatives, with names for their errors."""
    return cores[0][0] if len(cores) == 1 else {"type": "union", "choices": cores}


def free() -> Node:
    """Write the definition of any JSON: numbers that it does not have are refused."""
    values = {"type": "dict", "keys_schema": {"type": "str"}, "values_schema": FREE}
    choices = [{"type": "none"}, *({"type": kind, "strict": True} for kind in ("str", "bool", "int"))]
    number = {"type": "float", "strict": True, "allow_inf_nan": False}
    union = {
        "type": "union",
        "mode": "left_to_right",
        "choices": [*choices, number, {"type": "list", "items_schema": FREE}, values],
    }
    return {"type": "custom-error", "custom_error_type": "finite_number", "schema": union, "ref": FREE_REF}
