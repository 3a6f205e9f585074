"""What the rewriting of one schema knows and gathers, and the small steps that all constructs share."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from toolkit._dialects.strict.codecs import Codec, Text
from toolkit._dialects.strict.rules import WORDS, Rules, json_of, sort_of, words
from toolkit._schema.json_schema import map_schemas
from toolkit._schema.matching import as_mapping, collect_references, look_up

Schema: TypeAlias = Mapping[str, Any]

# A longer schema is not repeated in a description.
MAX_QUOTED = 1000

# Keywords that only tell something, and allow and forbid nothing.
ANNOTATIONS = frozenset(
    {"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment", "discriminator"}
)
# Keywords that say what a schema is: a construct shows its own, and those of another construct say nothing there.
STRUCTURE = frozenset(
    {"type", "enum", "const", "$ref", "$defs", "definitions", "properties", "required", "additionalProperties"}
    | {"patternProperties", "propertyNames", "items", "prefixItems", "additionalItems"}
)
# Keywords that hold schemas: such a schema may itself use what the provider does not know, so none is sent as it is.
_HOLDERS = frozenset({"anyOf", "oneOf", "allOf", "not", "if", "then", "else", "dependentSchemas", "contains"})


class Unsayable(Exception):
    """A schema has no lossless form under the rules; the text says where and why."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.note = Note(path, reason)


@dataclass(frozen=True)
class Note:
    """One difference between a tool's own schema and what is sent: where, and what."""

    path: str
    text: str


@dataclass(frozen=True)
class Part:
    """One schema as it is shown, and the codec of its documents."""

    shown: dict[str, Any]
    codec: Codec | None = None

    def saying(self, *texts: str) -> Part:
        """Add sentences to the description."""
        said = " ".join(text for text in (self.shown.get("description"), *texts) if text)
        return Part({**self.shown, "description": said}, self.codec) if said else self


@dataclass
class Scope(ABC):
    """The rewriting of one schema.

    Attributes:
        root: The tool's own schema, which references point into.
        definitions: What goes out as `$defs`.
        codecs: The codecs of these definitions.
        names: Their names, by the references that point to them.
        entered: The references that are being inlined, outermost first.
        recursive: Whether what a reference points to leads back to itself, where that has been asked.
    """

    rules: Rules
    root: Schema
    notes: dict[Note, None] = field(default_factory=dict)
    definitions: dict[str, Any] = field(default_factory=dict)
    codecs: dict[str, Codec | None] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    entered: list[str] = field(default_factory=list)
    recursive: dict[str, bool] = field(default_factory=dict)

    @abstractmethod
    def part(self, schema: Any, path: str) -> Part:
        """Rewrite one schema."""

    def note(self, path: str, text: str) -> None:
        """Keep a difference."""
        self.notes[Note(path, text)] = None

    def text(self, schema: Any, path: str, reason: str) -> Part:
        """Show any value as JSON text: the way out that is always lossless."""
        self.note(path, f"sent as JSON text: {reason}")
        told = {key: schema[key] for key in schema if key in ANNOTATIONS} if isinstance(schema, Mapping) else {}
        shown = Part({"type": "string"}).saying(told.get("description", ""), f"JSON text of {self._value(schema)}.")
        return Part(self.carried(told, path, ("description",), shown.shown), Text())

    def carried(self, schema: Schema, path: str, done: Collection[str], shown: Schema) -> dict[str, Any]:
        """Add to `shown` the keywords that the construct at hand has not done: sent, as words, or not at all."""
        sent: dict[str, Any] = {}
        said: list[str] = []
        for keyword, value in schema.items():
            if keyword in done or keyword in STRUCTURE:
                continue
            if keyword not in _HOLDERS and self.rules.sends(keyword, sort_of(keyword, value)):
                sent[keyword] = value
            else:
                said += self._said(keyword, value, path)
        return Part({**shown, **sent}).saying(*said).shown

    def _said(self, keyword: str, value: Any, path: str) -> list[str]:
        support = self.rules.support(keyword, sort_of(keyword, value))
        if support is None:
            self.note(path, f"{keyword} is left out: it is no keyword of JSON Schema")
        if support in (None, "noise") or keyword not in WORDS:
            return []
        self.note(path, f"{keyword} is said in words")
        return [words(keyword, without_noise(value))]

    def object_of(self, properties: Schema, required: Sequence[str]) -> dict[str, Any]:
        """Show an object with these properties and no others."""
        closed = {"additionalProperties": False} if self.rules.sends("additionalProperties", "false") else {}
        needed = {"required": list(required)} if required or not self.rules.sends("required", "partial") else {}
        return {"type": "object", "properties": dict(properties), **needed, **closed}

    def takes(self, name: str) -> bool:
        """Tell whether the provider takes a name of a property."""
        return not self.rules.keys or re.fullmatch(self.rules.keys, name) is not None

    def keys(self, names: Collection[str], path: str) -> dict[str, str]:
        """Name properties so that the provider takes them, and no two alike."""
        shown = {name: name for name in names if self.takes(name)}
        for name in names:
            if name not in shown:
                shown[name] = self.key(name, {*names, *shown.values()}, f"{path}.{name}".lstrip("."))
        return shown

    def key(self, name: str, taken: Collection[str], path: str) -> str:
        """Make a name of a property that the provider takes and that is not taken."""
        if self.takes(name):
            return free_name(name, taken)
        legal = re.sub(r"[^a-zA-Z0-9_]+", "_", name).strip("_")[:50]
        legal = f"key_{legal}" if not legal or legal[0].isdigit() else legal
        self.note(path, f"sent as {legal!r}: the provider does not take the name")
        return free_name(legal, taken)

    def _value(self, schema: Any) -> str:
        """Say in words which values a schema takes."""
        bare = without_noise(as_mapping(schema))
        told = {key: value for key, value in bare.items() if key not in ANNOTATIONS}
        if pointers := collect_references(told, self.root):
            told["$defs"] = {p.rpartition("/")[2]: without_noise(look_up(self.root, p)) for p in pointers}
        text = json_of(told)
        return f"a value that matches {text}" if told and len(text) <= MAX_QUOTED else "any value"


def free_name(name: str, taken: Collection[str]) -> str:
    """Make a name that is not taken."""
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}_{number}"
    return free


def nullable(shown: dict[str, Any]) -> dict[str, Any]:
    """Show that null is allowed too."""
    kind = shown.get("type", [])
    kinds = kind if isinstance(kind, list) else [kind]
    if "null" in kinds:
        return shown
    if kinds and shown.keys().isdisjoint({"enum", "const"}) and {"object", "array"}.isdisjoint(kinds):
        return {**shown, "type": [*kinds, "null"]}
    return either(shown, {"type": "null"})


def either(shown: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Show one more alternative; the description stays that of the whole."""
    told = {key: value for key, value in shown.items() if key == "description"}
    bare = {key: value for key, value in shown.items() if key != "description"}
    choices = bare["anyOf"] if bare.keys() == {"anyOf"} else [bare]
    return {"anyOf": choices if other in choices else [*choices, other], **told}


# How keywords say that null is allowed.
_NULLS: Mapping[str, Any] = {"anyOf": {"type": "null"}, "oneOf": {"type": "null"}, "type": "null", "enum": None}


def without_null(schema: Schema) -> Schema | None:
    """Take null out of a schema's types; None where nothing is left, the same schema where it does not say null."""
    if schema.get("const", schema) is None:
        return None
    said = {keyword: schema[keyword] for keyword in _NULLS if keyword in schema}
    kept = {keyword: _without(_NULLS[keyword], values) for keyword, values in said.items()}
    if kept == said:
        return schema
    return {**schema, **kept} if all(kept.values()) else None


def _without(null: Any, values: Any) -> Any:
    kept = [value for value in (values if isinstance(values, list) else [values]) if value != null]
    return kept[0] if len(kept) == 1 and null == "null" else kept


def without_noise(schema: Any) -> Any:
    """Leave out of a schema what tells a model nothing."""
    noise = ("title", "$schema", "$comment", "$vocabulary", "$defs", "definitions", "discriminator")
    return map_schemas(schema, lambda node: {key: value for key, value in node.items() if key not in noise})
