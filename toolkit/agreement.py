"""Two JSON Schemas, of what is given and of what is wanted: in what they cannot agree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from toolkit.schemas import inlined

# Schemas may refer to themselves, in many places each time: so many levels are compared.
MAX_DEPTH = 3


@dataclass(frozen=True)
class Part:
    """A part of a schema.

    Attributes:
        schema: The part itself.
        definitions: What it may refer to.
    """

    schema: Mapping[str, Any]
    definitions: Mapping[str, Any]

    @classmethod
    def of(cls, schema: Mapping[str, Any]) -> Part:
        """Take a schema as a whole."""
        definitions = schema.get("$defs", {})
        return cls(inlined(schema), definitions)

    @property
    def properties(self) -> Mapping[str, Any]:
        """The members that it lists."""
        found: Mapping[str, Any] = self.schema.get("properties", {})
        return found

    def at(self, name: str) -> Part:
        """Give what is said of a member."""
        return self.inner(self.properties[name])

    def inner(self, schema: Any) -> Part:
        """Give a part of this part, what it refers to in the place of a reference."""
        shown = schema if isinstance(schema, Mapping) else {}
        return Part(inlined({**shown, "$defs": self.definitions}), self.definitions)


def differs(given: Part, wanted: Part, depth: int = MAX_DEPTH) -> str:
    """Say in what two schemas cannot agree; nothing where that is not seen at once."""
    types = given.schema.get("type"), wanted.schema.get("type")
    if all(isinstance(kind, str) for kind in types) and types[0] != types[1] and types != ("integer", "number"):
        return f"{types[0]}, and not {types[1]}"
    if "properties" in given.schema:
        missing = next((name for name in wanted.schema.get("required", ()) if name not in given.properties), None)
        if missing is not None:
            return f"it has no {missing!r}"
    return _inside(given, wanted, depth - 1) if depth else ""


def _inside(given: Part, wanted: Part, depth: int) -> str:
    for name in (each for each in given.properties if each in wanted.properties):
        if why := differs(given.at(name), wanted.at(name), depth):
            return f"{name}: {why}"
    items = given.schema.get("items", True), wanted.schema.get("items", True)
    why = differs(given.inner(items[0]), wanted.inner(items[1]), depth)
    return f"its items: {why}" if why else ""
