"""A part of a JSON Schema -> the same as a schema of its own, all of whose references lead into its `$defs`.

Pointers to other places, to the whole, anchors and identifiers hold in one document only; a definition can be moved
along with what refers to it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from toolkit.documents.document import Document, below

# Keywords whose value maps names to schemas, those whose value is data, and those that name a part.
_HOISTED = frozenset({"properties", "patternProperties", "dependentSchemas"})
_DATA = frozenset({"default", "const", "enum", "examples", "example"})
_NAMES = frozenset({"$id", "$anchor", "$dynamicAnchor", "$defs", "definitions"})


def hoisted(
    document: Document, place: str = "", part: Mapping[str, Any] | None = None, whole: Mapping[str, Any] | None = None
) -> Any:
    """Make a part of a document stand alone.

    Args:
        document: What its references are of.
        place: JSON pointer of the part.
        part: What stands there; what the document has there, by default.
        whole: What a reference to the whole means, where that is something else.

    Raises:
        DefinitionError: A reference points to nothing.
    """
    hoisting = _Hoisting(document, document.root if whole is None else whole)
    shown = hoisting.walked(document.at(place) if part is None else part, place)
    hoisting.define()
    return {**shown, "$defs": hoisting.definitions} if hoisting.definitions else shown


@dataclass
class _Hoisting:
    """The definitions that one part needs.

    Attributes:
        names: Their names, by the pointers of the places where they were found.
        waiting: Pointers of those that are not copied yet: a chain of references may be longer than Python's stack.
    """

    document: Document
    whole: Any
    names: dict[str, str] = field(default_factory=dict)
    definitions: dict[str, Any] = field(default_factory=dict)
    waiting: list[str] = field(default_factory=list)

    def define(self) -> None:
        """Copy what was pointed to, and what that points to."""
        while self.waiting:
            target = self.waiting.pop()
            part = self.document.at(target) if target else self.whole
            self.definitions[self.names[target]] = self.walked(part, target)

    def walked(self, value: Any, place: str, *, is_named: bool = False) -> Any:
        """Copy a schema, its references led to definitions."""
        if isinstance(value, list):
            return [self.walked(item, below(place, number)) for number, item in enumerate(value)]
        if not isinstance(value, Mapping):
            return value
        if is_named:
            return {name: self.walked(part, below(place, name)) for name, part in value.items()}
        kept = {keyword: part for keyword, part in value.items() if keyword not in _NAMES}
        inner = {keyword: self._inner(keyword, part, place) for keyword, part in kept.items()}
        return {**inner, "$ref": self._defined(value["$ref"], place)} if isinstance(value.get("$ref"), str) else inner

    def _inner(self, keyword: str, value: Any, place: str) -> Any:
        if keyword in _DATA:
            return value
        return self.walked(value, below(place, keyword), is_named=keyword in _HOISTED)

    def _defined(self, reference: str, place: str) -> str:
        """Name what a reference points to, once, and give the pointer of the definition."""
        target = self.document.target(reference, place)
        if target not in self.names:
            name = self.names[target] = _free(target, self.definitions)
            self.definitions[name] = {}
            self.waiting.append(target)
        return f"#/$defs/{self.names[target]}"


def _free(target: str, taken: Mapping[str, Any]) -> str:
    """Name a definition after the last step of its pointer, in letters that need no escape."""
    name = re.sub(r"(~[01]|[^a-zA-Z0-9_.-])+", "_", target.rpartition("/")[2]) or "root"
    choices = [name, *(f"{name}_{number}" for number in range(2, len(taken) + 2))]
    return next(choice for choice in choices if choice not in taken)
