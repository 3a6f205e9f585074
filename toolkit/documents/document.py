"""Where the parts of a JSON Schema lie: JSON pointers, anchors, identifiers, and what a reference means."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn
from urllib.parse import unquote, urldefrag, urljoin

from pydantic_core import from_json, to_json

from toolkit.errors import DefinitionError

MAX_SIZE = 2**20  # bytes of JSON; a thousand times what a tool's schema has

# Keywords whose value maps names to schemas, and those whose value is data.
_NAMED = frozenset({"properties", "$defs", "definitions", "patternProperties", "dependentSchemas"})
_DATA = frozenset({"default", "const", "enum", "examples", "example"})


def refuse(place: str, reason: str, remedy: str) -> NoReturn:
    """Refuse a schema.

    Args:
        place: JSON pointer of the part that cannot be used.
        reason: Why it cannot.
        remedy: What to do, in a sentence.

    Raises:
        DefinitionError: Always.
    """
    raise DefinitionError(f"JSON Schema at {f'#{place}'!r}: {reason}. {remedy}")


def below(place: str, *steps: str | int) -> str:
    """Write the JSON pointer of what lies in a place."""
    return place + "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in steps)


@dataclass(frozen=True)
class Document:
    """A JSON Schema and the names that its parts have.

    Attributes:
        root: The schema, a copy of what was given.
        resources: Identifiers of the parts that have one, and of the whole, by their pointers.
        anchors: Pointers of the parts that have an anchor, by their resource's pointer and the anchor.
    """

    root: Any
    resources: Mapping[str, str]
    anchors: Mapping[tuple[str, str], str]

    @classmethod
    def of(cls, schema: Mapping[str, Any]) -> Document:
        """Copy a schema, and find its names.

        Raises:
            DefinitionError: It is no JSON, or too large.
        """
        root = _copied(schema)
        named = list(_named(root))
        resources = {"": ""} | {
            place: str(part["$id"])
            for place, part in named
            if isinstance(part.get("$id"), str) and part["$id"][:1] != "#"
        }
        for place in sorted(resources, key=len):  # outer ones first: inner ones are relative to them
            resources[place] = urljoin(resources[_resource(resources, place.rpartition("/")[0])], resources[place])
        anchors = {
            (_resource(resources, place), part[keyword]): place
            for place, part in named
            for keyword in ("$anchor", "$dynamicAnchor")
            if isinstance(part.get(keyword), str)
        }
        return cls(root, {place: urldefrag(uri).url for place, uri in resources.items()}, anchors)

    def target(self, reference: str, place: str) -> str:
        """Find what a reference points to, as a JSON pointer.

        Raises:
            DefinitionError: It points to nothing in this document.
        """
        resource = _resource(self.resources, place)
        base = self.resources[resource]
        uri, fragment = urldefrag(reference if reference[:1] == "#" else urljoin(base, reference))
        if reference[:1] != "#" and uri != base:
            found = [pointer for pointer, own in self.resources.items() if own == uri]
            if not found:
                refuse(place, f"{reference!r} lies outside of this document", "Copy what it names into $defs.")
            resource = found[0]
        if fragment and fragment[0] != "/":
            return self._anchored(resource, fragment, place)
        target = resource + "".join(below("", *_steps(fragment)))
        self.at(target, place)
        return target

    def at(self, pointer: str, place: str = "") -> Any:
        """Give what a pointer names.

        Raises:
            DefinitionError: There is nothing.
        """
        part = self.root
        for step in _steps(pointer):
            key: Any = int(step) if isinstance(part, list) and step.isdecimal() else step
            if not _has(part, key):
                refuse(place, f"there is nothing at {f'#{pointer}'!r}", "Mend the $ref, or define it in $defs.")
            part = part[key]
        return part

    def _anchored(self, resource: str, anchor: str, place: str) -> str:
        if (resource, anchor) not in self.anchors:
            refuse(place, f"there is no $anchor {anchor!r}", "Mend the $ref, or define it in $defs.")
        return self.anchors[resource, anchor]


def _has(part: Any, key: Any) -> bool:
    return key in range(len(part)) if isinstance(part, list) else isinstance(part, dict) and key in part


def _copied(schema: Any) -> Any:
    try:
        text = to_json(schema, inf_nan_mode="constants")
        copy = from_json(text, allow_inf_nan=False)
    except (ValueError, TypeError, RecursionError) as error:
        raise DefinitionError(f"JSON Schema: it is not JSON ({error}). Build it of plain values.") from error
    if len(text) > MAX_SIZE:
        refuse(
            "", f"it has {len(text):,} bytes, and {MAX_SIZE:,} are the most", "Leave out what the tool does not need."
        )
    return copy


def _named(root: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """List the parts that may have a name, with their places."""
    waiting = [("", root, False)]
    while waiting:
        place, part, is_names = waiting.pop()
        if isinstance(part, list):
            waiting += [(below(place, number), each, False) for number, each in enumerate(part)]
        if not isinstance(part, dict):
            continue
        if not is_names and part.keys() & {"$id", "$anchor", "$dynamicAnchor"}:
            yield place, part
        inner = [(key, value) for key, value in part.items() if is_names or key not in _DATA]
        waiting += [(below(place, key), value, key in _NAMED and not is_names) for key, value in inner]


def _resource(resources: Mapping[str, str], place: str) -> str:
    """Find the innermost part with an identifier that a place lies in."""
    while place not in resources:
        place = place.rpartition("/")[0]
    return place


def _steps(pointer: str) -> list[str]:
    return [unquote(step).replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]
