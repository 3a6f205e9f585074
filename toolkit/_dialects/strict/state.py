"""The state of rewriting one schema, and the steps that all constructs share."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from toolkit._dialects.strict.codecs import Codec, TextCodec
from toolkit._dialects.strict.rules import WORDS, Rules, describe_keyword, quote_json, value_kind
from toolkit._schema.json_schema import as_mapping, collect_references, look_up, map_schemas

Schema: TypeAlias = Mapping[str, Any]

# Characters. A longer schema is not repeated in a description.
MAX_QUOTED = 1000

# Keywords that describe, and neither allow nor forbid anything.
ANNOTATIONS = frozenset(
    {"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment", "discriminator"}
)
# Keywords that define a construct: each construct sends its own, and those of another construct mean nothing there.
STRUCTURE = frozenset(
    {"type", "enum", "const", "$ref", "$defs", "definitions", "properties", "required", "additionalProperties"}
    | {"patternProperties", "propertyNames", "items", "prefixItems", "additionalItems"}
)
# Keywords whose schemas may themselves use what the provider does not know, so none is sent as it is.
_HOLDERS = frozenset({"anyOf", "oneOf", "allOf", "not", "if", "then", "else", "dependentSchemas", "contains"})
# Keywords that tell a model nothing.
_NOISE = frozenset({"title", "$schema", "$comment", "$vocabulary", "$defs", "definitions", "discriminator"})
# How each keyword allows null.
_NULLS: Mapping[str, Any] = {"anyOf": {"type": "null"}, "oneOf": {"type": "null"}, "type": "null", "enum": None}


class NoFormError(Exception):
    """A schema has no lossless form under the rules: where, and why. Internal: it never leaves `rewriter`."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path, self.reason = path, reason


@dataclass(frozen=True)
class Note:
    """One difference between a tool's own schema and what is sent: where, and what."""

    path: str
    text: str


@dataclass(frozen=True)
class Part:
    """One schema as it is sent, and the codec of its documents."""

    schema: dict[str, Any]
    codec: Codec | None = None

    def describe(self, *texts: str) -> Part:
        """Return a copy with sentences added to the description."""
        description = " ".join(filter(None, (self.schema.get("description"), *texts)))
        return Part({**self.schema, "description": description}, self.codec) if description else self


@dataclass
class RewriteState:
    """The state of rewriting one schema.

    Attributes:
        root: The tool's own schema, into which references point.
        definitions: The `$defs` that are sent.
        codecs: The codecs of these definitions.
        names: Their names, by the references that point to them.
        entered: The references that are being inlined, outermost first.
        recursive: Whether the target of a reference leads back to itself, as far as that was computed.
        parts: How many schemas have been rewritten.
    """

    rules: Rules
    root: Schema
    notes: dict[Note, None] = field(default_factory=dict)
    definitions: dict[str, Any] = field(default_factory=dict)
    codecs: dict[str, Codec | None] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    entered: list[str] = field(default_factory=list)
    recursive: dict[str, bool] = field(default_factory=dict)
    parts: int = 0

    def add_note(self, path: str, text: str) -> None:
        """Record a difference."""
        self.notes[Note(path, text)] = None

    def make_text(self, schema: Any, path: str, reason: str) -> Part:
        """Send any value as JSON text, the form of last resort, which is always lossless."""
        self.add_note(path, f"sent as JSON text: {reason}")
        own = {key: schema[key] for key in schema if key in ANNOTATIONS} if isinstance(schema, Mapping) else {}
        text = f"JSON text of {self._describe_values(schema)}."
        part = Part({"type": "string"}).describe(own.get("description", ""), text)
        return Part(self.add_keywords(part.schema, own, path, ("description",)), TextCodec())

    def add_keywords(self, target: Schema, schema: Schema, path: str, handled: Collection[str] = ()) -> dict[str, Any]:
        """Add a schema's keywords to what is sent of it: as they are, as words, or not at all.

        Args:
            target: What is sent so far.
            schema: The tool's own.
            path: Its place, for notes.
            handled: Keywords that the construct has dealt with.
        """
        sent: dict[str, Any] = {}
        texts: list[str] = []
        for keyword, value in schema.items():
            if keyword in handled or keyword in STRUCTURE:
                continue
            support = self.rules.support(keyword, value_kind(keyword, value))
            if support == "sent" and keyword not in _HOLDERS:
                sent[keyword] = value
            elif support is None:
                self.add_note(path, f"{keyword} is left out: it is not a keyword of JSON Schema")
            elif support != "noise" and keyword in WORDS:
                self.add_note(path, f"{keyword} goes into the description")
                texts.append(describe_keyword(keyword, drop_noise(value)))
        return Part({**target, **sent}).describe(*texts).schema

    def make_object(self, properties: Schema, required: Sequence[str]) -> dict[str, Any]:
        """Make the schema of an object with these properties and no others."""
        closed = {"additionalProperties": False} if self.rules.sends("additionalProperties", "false") else {}
        needed = {"required": list(required)} if required or not self.rules.sends("required", "partial") else {}
        return {"type": "object", "properties": dict(properties), **needed, **closed}

    def is_legal_key(self, name: str) -> bool:
        """Return whether the provider accepts a property's name."""
        return not self.rules.keys or re.fullmatch(self.rules.keys, name) is not None

    def map_keys(self, names: Collection[str], path: str) -> dict[str, str]:
        """Map properties' names to different names that the provider accepts; legal names stay."""
        keys = {name: name for name in names if self.is_legal_key(name)}
        for name in names:
            if name not in keys:
                keys[name] = self.make_key(name, {*names, *keys.values()}, f"{path}.{name}".lstrip("."))
        return keys

    def make_key(self, name: str, taken: Collection[str], path: str) -> str:
        """Make a name that the provider accepts and that is not taken."""
        if self.is_legal_key(name):
            return make_free_name(name, taken)
        legal = re.sub(r"[^a-zA-Z0-9_]+", "_", name).strip("_")[:50]
        legal = f"key_{legal}" if not legal or legal[0].isdigit() else legal
        self.add_note(path, f"sent as {legal!r}: the provider does not take the name")
        return make_free_name(legal, taken)

    def _describe_values(self, schema: Any) -> str:
        """Describe in words which values a schema accepts."""
        bare = drop_noise(as_mapping(schema))
        quoted = {key: value for key, value in bare.items() if key not in ANNOTATIONS}
        if pointers := collect_references(quoted, self.root):
            quoted["$defs"] = {p.rpartition("/")[2]: drop_noise(look_up(self.root, p)) for p in pointers}
        text = quote_json(quoted)
        return f"a value that matches {text}" if quoted and len(text) <= MAX_QUOTED else "any value"


def drop_noise(schema: Any) -> Any:
    """Remove the keywords that tell a model nothing."""
    return map_schemas(schema, lambda node: {key: value for key, value in node.items() if key not in _NOISE})


def make_free_name(name: str, taken: Collection[str]) -> str:
    """Make a name that is not taken, by a number at its end."""
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}_{number}"
    return free


def add_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema that allows null too."""
    kind = schema.get("type", [])
    kinds = kind if isinstance(kind, list) else [kind]
    if "null" in kinds:
        return schema
    if kinds and schema.keys().isdisjoint({"enum", "const"}) and {"object", "array"}.isdisjoint(kinds):
        return {**schema, "type": [*kinds, "null"]}
    return add_alternative(schema, {"type": "null"})


def add_alternative(schema: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Return a schema that allows another one too; the description stays that of the whole."""
    description = {key: value for key, value in schema.items() if key == "description"}
    bare = {key: value for key, value in schema.items() if key != "description"}
    choices = bare["anyOf"] if bare.keys() == {"anyOf"} else [bare]
    return {"anyOf": choices if other in choices else [*choices, other], **description}


def without_null(schema: Schema) -> Schema | None:
    """Return a schema that does not allow null: None where nothing is left, the same one where it never did."""
    if schema.get("const", schema) is None:
        return None
    own = {keyword: schema[keyword] for keyword in _NULLS if keyword in schema}
    rest = {keyword: _remove_null(_NULLS[keyword], values) for keyword, values in own.items()}
    if rest == own:
        return schema
    return {**schema, **rest} if all(rest.values()) else None


def _remove_null(null: Any, values: Any) -> Any:
    rest = [value for value in (values if isinstance(values, list) else [values]) if value != null]
    return rest[0] if len(rest) == 1 and null == "null" else rest
