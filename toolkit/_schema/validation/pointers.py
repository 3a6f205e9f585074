"""References of a JSON Schema: JSON pointers, anchors and identifiers, and bundling a part as a schema of its own.

Pointers, anchors and identifiers are valid in one document only. In a bundle all references point to `$defs`, so it can
be moved into another schema. An identifier is a name like an anchor: it is compared as it is written.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn
from urllib.parse import unquote

from pydantic_core import from_json, to_json

from toolkit._schema.json_schema import DATA, NAMED, look_up, make_free_name
from toolkit.errors import DefinitionError

MAX_SIZE = 2**20  # bytes of JSON; a thousand times what a tool's schema has


def refuse(place: str, reason: str, remedy: str) -> NoReturn:
    """Raise a DefinitionError about a part of a schema, at a JSON pointer: why it cannot be used, and what to do."""
    raise DefinitionError(f"JSON Schema at {f'#{place}'!r}: {reason}. {remedy}")


def join_pointer(place: str, *steps: str | int) -> str:
    """Append steps to a JSON pointer, as in a URL."""
    for step in steps:
        place = f"{place}/{str(step).replace('~', '~0').replace('/', '~1').replace('%', '%25')}"
    return place


@dataclass(frozen=True)
class SchemaDocument:
    """A JSON Schema, and the identifiers and anchors of its parts.

    Attributes:
        root: A copy of the schema.
        names: Pointers of the parts with an identifier, and of the whole, by the identifier; of those with an anchor,
            by the anchor behind a "#".
        identified: Pointers of the parts with an identifier.
    """

    root: Any
    names: Mapping[str, str]
    identified: Collection[str] = ()

    @classmethod
    def load(cls, schema: Mapping[str, Any]) -> SchemaDocument:
        """Copy a schema, and find its identifiers and anchors.

        Raises:
            DefinitionError: The schema is not JSON, or too large.
        """
        try:
            text = to_json(schema, inf_nan_mode="constants")
            root = from_json(text, allow_inf_nan=False)
        except (ValueError, TypeError, RecursionError) as error:
            raise DefinitionError(f"JSON Schema: it is not JSON ({error}). Build it of plain values.") from error

        if len(text) > MAX_SIZE:
            reason = f"it has {len(text):,} bytes, and {MAX_SIZE:,} are the most"
            refuse("", reason, "Leave out what the tool does not need.")
        names: dict[str, str] = {}
        identified: set[str] = set()

        for name, place in _iterate_names(root):
            if name.startswith("#") and name in names:
                refuse(place, f"there are two of $anchor {name[1:]!r}", "Rename one of them.")
            names[name] = place
            if not name.startswith("#"):
                identified.add(place)

        return cls(root, {**names, "": ""}, identified)

    def resolve(self, reference: str, place: str) -> str:
        """Resolve a reference to a JSON pointer.

        Raises:
            DefinitionError: The reference has no target in this document, or is relative to an identifier in it.
        """
        identifier, _, fragment = reference.partition("#")
        if not identifier and self._is_identified(place):
            refuse(place, f"{reference!r} belongs to the $id above it", "Leave out that $id.")
        if identifier not in self.names:
            refuse(place, f"{reference!r} is outside of this document", "Copy its target into $defs.")
        if fragment and fragment[0] != "/":
            if f"#{fragment}" not in self.names:
                refuse(place, f"there is no $anchor {fragment!r}", "Correct the $ref, or define it in $defs.")
            return self.names[f"#{fragment}"]

        target = self.names[identifier] + unquote(fragment).replace("%", "%25")
        self.look_up(target, place)
        return target

    def _is_identified(self, place: str) -> bool:
        """Return whether a part has an identifier, or lies in one that does. The whole does not count."""
        while place and place not in self.identified:
            place = place.rpartition("/")[0]
        return bool(place)

    def look_up(self, pointer: str, place: str = "") -> Any:
        """Return the part at a pointer.

        Raises:
            DefinitionError: There is no part at this pointer.
        """
        part = look_up(self.root, f"#{pointer}")
        if part is None:
            refuse(place, f"there is nothing at {f'#{pointer}'!r}", "Correct the $ref, or define it in $defs.")
        return part


class _Place(NamedTuple):
    """A part of a schema, and whether its keys are names, such as those in `properties`, and not keywords."""

    pointer: str
    part: Any
    has_names: bool = False


def _iterate_names(root: Any) -> Iterator[tuple[str, str]]:
    """Yield the identifiers and anchors of all parts of a schema, each with the pointer of its part.

    An anchor is yielded with a "#" before it.
    """
    waiting = [_Place("", root)]
    while waiting:
        pointer, part, has_names = waiting.pop()
        if isinstance(part, list):
            for number, item in enumerate(part):
                if isinstance(item, (dict, list)):
                    waiting.append(_Place(join_pointer(pointer, number), item))
            continue
        if not isinstance(part, dict):
            continue

        if not has_names and isinstance(part.get("$id"), str):
            yield part["$id"].removesuffix("#"), pointer  # identifiers of older drafts end in "#"
        if not has_names and isinstance(part.get("$anchor"), str):
            yield f"#{part['$anchor']}", pointer
        for key, value in part.items():
            if isinstance(value, (dict, list)) and (has_names or key not in DATA):
                waiting.append(_Place(join_pointer(pointer, key), value, has_names=key in NAMED and not has_names))


# Keywords whose value maps names to schemas, those whose value is data, and those that name a part.
_HOISTED = frozenset({"properties", "patternProperties", "dependentSchemas"})
_NAMES = frozenset({"$id", "$anchor", "$dynamicAnchor", "$defs", "definitions"})


def bundle(
    document: SchemaDocument,
    place: str = "",
    part: Mapping[str, Any] | None = None,
    whole: Mapping[str, Any] | None = None,
) -> Any:
    """Bundle a part of a document with the definitions that it refers to.

    Args:
        document: The document that its references belong to.
        place: JSON pointer of the part.
        part: The part, if it is not the document's own at this place.
        whole: The target of references to the whole, if it is not the document's root.

    Raises:
        DefinitionError: A reference has no target.
    """
    source = document.look_up(place) if part is None else part
    hoisting = _Hoisting(document, document.root if whole is None else whole)
    copied = hoisting.copy(source, place)
    hoisting.define()
    return {**copied, "$defs": hoisting.definitions} if hoisting.definitions else copied


@dataclass
class _Hoisting:
    """Definitions that one part needs."""

    document: SchemaDocument
    whole: Any
    names: dict[str, str] = field(default_factory=dict)  # by their pointers in the document
    definitions: dict[str, Any] = field(default_factory=dict)
    # Pointers of those that are not copied yet; without recursion, since Python's stack is limited.
    waiting: list[str] = field(default_factory=list)

    def define(self) -> None:
        """Copy the definitions that were referred to, and those that these refer to."""
        while self.waiting:
            target = self.waiting.pop()
            part = self.document.look_up(target) if target else self.whole
            self.definitions[self.names[target]] = self.copy(part, target)

    def copy(self, value: Any, place: str, *, is_named: bool = False) -> Any:
        """Copy a schema, or a mapping of names to schemas, with references that point to definitions."""
        if isinstance(value, list):
            return [self.copy(item, join_pointer(place, number)) for number, item in enumerate(value)]
        if not isinstance(value, dict):
            return value
        if is_named:
            return {name: self.copy(part, join_pointer(place, name)) for name, part in value.items()}

        inner = {
            key: part if key in DATA else self.copy(part, join_pointer(place, key), is_named=key in _HOISTED)
            for key, part in value.items()
            if key not in _NAMES
        }
        if isinstance(value.get("$ref"), str):
            inner["$ref"] = self._name_target(value["$ref"], place)
        return inner

    def _name_target(self, reference: str, place: str) -> str:
        """Name the target of a reference, once, and return the pointer of its definition."""
        target = self.document.resolve(reference, place)
        if target not in self.names:
            # The last step of the pointer, in characters that need no escape.
            own = re.sub(r"(~[01]|%25|[^a-zA-Z0-9_.-])+", "_", target.rpartition("/")[2]) or "root"
            name = self.names[target] = make_free_name(own, self.definitions)
            self.definitions[name] = {}
            self.waiting.append(target)
        return f"#/$defs/{self.names[target]}"
