"""A JSON Schema of an object -> the controls of a form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from toolkit._dialects.strict.scope import without_null
from toolkit._schema.matching import mapping, resolved
from toolkit.display.controls import NOTHING, Check, Choice, Control, Document, Entries, Number, Part, Text, Texts
from toolkit.display.markup import MAX_HELP, safe, title

# An object that lies deeper is written as JSON; a schema may contain itself.
MAX_DEPTH = 4
_KINDS: Mapping[Any, type[Control]] = {"string": Text, "integer": Number, "number": Number, "boolean": Check}
# What says more of a value than its type does.
_COMPOSED = frozenset({"anyOf", "oneOf", "allOf", "not", "if", "patternProperties", "prefixItems", "$ref"})


@dataclass(frozen=True, kw_only=True)
class Group:
    """An object: its members, in a frame."""

    name: str
    label: str
    schema: Mapping[str, Any]
    is_required: bool
    is_nullable: bool
    parts: tuple[Part, ...]

    @property
    def inside(self) -> Iterator[Part]:
        """List all that is in it, what is in inner groups too."""
        for part in self.parts:
            yield part
            yield from part.inside if isinstance(part, Group) else ()

    def draw(self, entries: Entries) -> str:
        """Write the frame, and what is in it."""
        said, error = str(self.schema.get("description", "")), entries.errors.get(self.name, "")
        about = f"<small>{safe(said, MAX_HELP)}</small>" if said else ""
        told = f'<br><strong role="alert">{safe(error, MAX_HELP)}</strong>' if error else ""
        legend = f"<legend>{title(self.label, is_required=self.is_required)}</legend>"
        return f'<fieldset style="margin:.6em 0">{legend}{about}{told}{self.drawn(entries)}</fieldset>'

    def drawn(self, entries: Entries) -> str:
        """Write what is in it."""
        return "".join(part.draw(entries) for part in self.parts)

    def read(self, entries: Entries) -> Any:
        """Read the object; where nothing was entered, it is left out or null, if it may be."""
        if self._is_untouched(entries) and (self.is_nullable or not self.is_required):
            return None if self.is_required else NOTHING
        values = {_key(part): part.read(entries) for part in self.parts}
        return {key: value for key, value in values.items() if value is not NOTHING}

    def enter(self, value: Any) -> Iterator[tuple[str, Texts]]:
        """Write the values of its members; those of its default, where there are none."""
        known = mapping(self.schema.get("default") if value is NOTHING else value)
        for part in self.parts:
            yield from part.enter(known.get(_key(part), NOTHING))

    def _is_untouched(self, entries: Entries) -> bool:
        """Tell whether nothing stands in it but defaults."""
        own = ((entries.texts.get(name, ()), texts) for name, texts in self.enter(NOTHING))
        return all([text for text in given if text] in ([], [*texts]) for given, texts in own)


@dataclass(frozen=True)
class _Place:
    """Where a part stands: in which schema, how deep, whether it has to be there, whether all around it has to."""

    root: Mapping[str, Any]
    path: tuple[str, ...] = ()
    is_required: bool = True
    is_insisted: bool = True

    def below(self, key: str, *, is_required: bool) -> _Place:
        """Go one step in."""
        return _Place(self.root, (*self.path, key), is_required, self.is_insisted and is_required)


def group_of(schema: Mapping[str, Any]) -> Group:
    """Make the controls of an object."""
    return _group(schema, _Place(schema), "", is_nullable=False)


def name_of(path: tuple[str | int, ...]) -> str:
    """Name what a control posts: its path, with dots."""
    return ".".join(str(step).replace("~", "~0").replace(".", "~1") for step in path)


def _key(part: Part) -> str:
    return part.name.rpartition(".")[2].replace("~1", ".").replace("~0", "~")


def _group(schema: Mapping[str, Any], place: _Place, label: str, *, is_nullable: bool) -> Group:
    needed, inner = schema.get("required", ()), schema["properties"].items()
    here = replace(place, is_insisted=place.is_insisted and not is_nullable)
    return Group(
        name=name_of(place.path),
        label=label,
        schema=schema,
        is_required=place.is_required,
        is_nullable=is_nullable,
        parts=tuple(_part(mapping(part), here.below(key, is_required=key in needed)) for key, part in inner),
    )


def _part(schema: Mapping[str, Any], place: _Place) -> Part:
    whole = resolved(schema, place.root)
    some = without_null(whole)
    bare = whole if some is None else _single(some, place.root)
    label = str(bare.get("title") or place.path[-1].replace("_", " "))
    is_nullable = some is not whole
    if _is_group(bare) and len(place.path) <= MAX_DEPTH:
        return _group(bare, place, label, is_nullable=is_nullable)
    kind, more = _kind(bare, place.root, is_nullable=is_nullable)
    told = {"is_required": place.is_required, "is_insisted": place.is_insisted, "is_nullable": is_nullable}
    return kind(name=name_of(place.path), label=label, schema=bare, **told, **more)


def _single(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Take the only alternative for the whole."""
    ways = schema.get("anyOf", schema.get("oneOf"))
    if not isinstance(ways, list) or len(ways) != 1:
        return schema
    rest = {keyword: value for keyword, value in schema.items() if keyword not in ("anyOf", "oneOf")}
    return {**resolved(mapping(ways[0]), root), **rest}


def _is_group(schema: Mapping[str, Any]) -> bool:
    is_closed = not schema.get("additionalProperties") and _COMPOSED.isdisjoint(schema)
    return schema.get("type") == "object" and bool(schema.get("properties")) and is_closed


def _kind(
    schema: Mapping[str, Any], root: Mapping[str, Any], *, is_nullable: bool
) -> tuple[type[Control], dict[str, Any]]:
    """Choose the control of a value."""
    if options := _options(schema):
        return Choice, {"options": options}
    if not _COMPOSED.isdisjoint(schema) or not isinstance(schema.get("type"), str):
        return Document, {}
    if schema["type"] == "array" and (options := _options(resolved(mapping(schema.get("items")), root))):
        return Choice, {"options": options, "takes_many": True}
    if schema["type"] == "boolean" and is_nullable:
        return Choice, {"options": [True, False]}
    return _KINDS.get(schema["type"], Document), {}


def _options(schema: Mapping[str, Any]) -> list[Any]:
    """List the values of an enumeration, but for null."""
    values = [schema["const"]] if "const" in schema else schema.get("enum", [])
    return [value for value in values if value is not None]
