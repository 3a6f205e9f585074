"""Two JSON Schemas, of what is given and of what is wanted: in what they cannot agree."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from toolkit.schemas import inlined

# Schemas may refer to themselves, in many places each time: so many levels are compared.
MAX_DEPTH = 3
# What stands beside branches, and says nothing that holds in each of them.
_NO_CONSTRAINTS = frozenset({"anyOf", "oneOf", "discriminator", "default", "title", "description", "examples", "$defs"})

_TYPES = MappingProxyType(
    {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null", list: "array", dict: "object"}
)


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
    def required(self) -> Collection[str]:
        """The members that must be there."""
        found: Collection[str] = self.schema.get("required", ())
        return found

    @property
    def branches(self) -> Sequence[Part]:
        """The parts of which one holds; none where that is not said."""
        branches = self.schema.get("anyOf", self.schema.get("oneOf", ()))
        beside = {keyword: said for keyword, said in self.schema.items() if keyword not in _NO_CONSTRAINTS}
        return [self.inner({**beside, **(branch if isinstance(branch, Mapping) else {})}) for branch in branches]

    @property
    def values(self) -> Sequence[Any]:
        """The only values that may stand there; none where that is not said."""
        found: Sequence[Any] = self.schema.get("enum", [self.schema["const"]] if "const" in self.schema else [])
        return found

    @property
    def types(self) -> Sequence[str]:
        """The types that may stand there; none where that is not said."""
        said = self.schema.get("type", [])
        of_values = [_TYPES[type(value)] for value in self.values if type(value) in _TYPES]
        return list(dict.fromkeys(of_values)) or ([said] if isinstance(said, str) else said)

    @property
    def cases(self) -> Sequence[Part]:
        """The parts that may stand there, one by one: by branch, by value, by type."""
        by_value = [{"const": value} for value in self.values]
        by_type = [{"type": kind} for kind in self.types]
        without = {keyword: said for keyword, said in self.schema.items() if keyword not in ("enum", "type")}
        return self.branches or [Part({**without, **said}, self.definitions) for said in by_value or by_type] or [self]

    def or_null(self) -> Part:
        """Give a part that takes null as well."""
        return Part({"anyOf": [self.schema, {"type": "null"}]}, self.definitions)

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
    if given.branches or wanted.branches:
        return _between(given, wanted, depth - 1) if depth else ""
    if why := _of_values(given, wanted):
        return why
    if "properties" in given.schema:
        missing = next((name for name in wanted.required if name not in given.properties), None)
        if missing is not None:
            return f"it has no {missing!r}"
    return _inside(given, wanted, depth - 1) if depth else ""


def _between(given: Part, wanted: Part, depth: int) -> str:
    """Look for a case of what is given that agrees with no branch of what is wanted."""
    others = wanted.branches or [wanted]
    for one in given.cases:
        whys = [differs(one, other, depth) for other in others]
        if all(whys):
            return "; ".join(dict.fromkeys(whys))
    return ""


def _of_values(given: Part, wanted: Part) -> str:
    taken = {*wanted.types, *(["integer"] if "number" in wanted.types else [])}
    other = next((kind for kind in given.types if taken and kind not in taken), None)
    if other is not None:
        return f"{other}, and not {' or '.join(wanted.types)}"
    values = [(isinstance(value, bool), value) for value in wanted.values]  # True equals 1 in Python
    missing = [value for value in given.values if values and (isinstance(value, bool), value) not in values]
    return f"{missing[0]!r}, and not {' or '.join(map(repr, wanted.values))}" if missing else ""


def _inside(given: Part, wanted: Part, depth: int) -> str:
    for name in (each for each in given.properties if each in wanted.properties):
        if why := differs(given.at(name), wanted.at(name), depth):
            return f"{name}: {why}"
    items = given.schema.get("items", True), wanted.schema.get("items", True)
    why = differs(given.inner(items[0]), wanted.inner(items[1]), depth)
    return f"its items: {why}" if why else ""
