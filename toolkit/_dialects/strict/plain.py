"""The form of a schema that is sent nearly as it is; and what every form is made of."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic_core import to_json

from toolkit._dialects.strict.decoders import Decoder, ObjectDecoder, Property, decode_with
from toolkit._dialects.strict.rules import (
    ANNOTATIONS,
    Rules,
    describe_keyword,
    value_kind,
)
from toolkit._schema.json_schema import TYPES, as_mapping, map_schemas

# The starts, in JSON text, of schemas that have annotations alone, and of some others.
_OTHERS = "|".join(map(re.escape, sorted(ANNOTATIONS - {"description"})))
_UNTYPED = re.compile(rf'\{{"(?:description":"(?:[^"\\]|\\.)*"(?:\}}|,"(?:{_OTHERS})")|(?:{_OTHERS})":)'.encode())


@dataclass(frozen=True)
class Note:
    """One difference between a tool's own schema and what is sent: where, and what."""

    path: str
    text: str


class Notes(dict[Note, None]):
    """Notes in the order in which they were added, each once."""

    def add(self, path: str, text: str) -> None:
        """Add a note, unless it is there already."""
        self[Note(path, text)] = None


@dataclass(frozen=True)
class Part:
    """One schema as it is sent, and the decoder of its documents."""

    schema: dict[str, Any]
    decoder: Decoder | None = None

    def describe(self, *texts: str) -> Part:
        """Return a copy with sentences added to the description."""
        description = " ".join(filter(None, (self.schema.get("description"), *texts)))
        return Part({**self.schema, "description": description}, self.decoder) if description else self


@dataclass(frozen=True, kw_only=True)
class SchemaForm:
    """A schema as it is sent, and the way back.

    Attributes:
        schema: The schema that is sent.
        strict: Whether the provider is asked to enforce it.
        notes: Where it differs from the tool's own schema, for developers.
        decoder: Converts documents; None where they are the same in both forms.
    """

    schema: Mapping[str, Any]
    strict: bool = False
    notes: tuple[Note, ...] = ()
    decoder: Decoder | None = None

    def decode(self, document: Any) -> Any:
        """Make the tool's own document. Never raises, and leaves as it is what is not in this form."""
        try:
            return decode_with(self.decoder, document)
        except RecursionError:
            return document


def make_plain_form(schema: Mapping[str, Any], rules: Rules) -> SchemaForm:
    """Send a schema as it is, but for keywords that become words or tell a model nothing, and names of parameters."""
    notes = Notes()
    try:
        # Most schemas have no such keyword, and searching their text takes a tenth of walking them.
        text = to_json(schema)
        is_untyped = rules.needs_types and _UNTYPED.search(text)
        if not (rules.keys or is_untyped or any(f'"{keyword}"'.encode() in text for keyword in rules.changed)):
            return SchemaForm(schema=schema)
        sent = map_schemas(schema, lambda node: _drop_keywords(node, rules, notes))
    except (RecursionError, ValueError):  # pydantic-core calls what is too deep circular
        return SchemaForm(schema=schema, notes=(Note("", "sent as it is: it is too deep to be read"),))
    own = as_mapping(sent.get("properties"))
    keys = map_keys(own, rules, notes)
    renamed = tuple(Property(name, key) for name, key in keys.items() if name != key)
    if not renamed:
        return SchemaForm(schema=sent, notes=tuple(notes))
    sent = {**sent, "properties": {keys[name]: inner for name, inner in own.items()}}
    if "required" in sent:
        sent["required"] = [keys.get(name, name) for name in sent["required"]]
    return SchemaForm(schema=sent, notes=tuple(notes), decoder=ObjectDecoder(renamed))


def _drop_keywords(node: dict[str, Any], rules: Rules, notes: Notes) -> dict[str, Any]:
    if rules.needs_types and node and node.keys() <= ANNOTATIONS:
        notes.add("", "a schema of any value lists all types")
        node = {"type": sorted(TYPES.keys() - {"integer"}), **node}
    if rules.changed.isdisjoint(node):
        return node
    sent = Part({})
    texts: list[str] = []
    for keyword, value in node.items():
        support = rules.support(keyword, value_kind(keyword, value))
        if support in ("sent", None):
            sent.schema[keyword] = value
        elif support == "words":
            notes.add("", f"{keyword} {value!r} goes into the description")
            texts.append(describe_keyword(keyword, value))
    return sent.describe(*texts).schema


def map_keys(names: Collection[str], rules: Rules, notes: Notes, path: str = "") -> dict[str, str]:
    """Map properties' names to different names that the provider accepts; legal names stay."""
    keys = {name: name for name in names if rules.accepts_key(name)}
    for name in names:
        if name not in keys:
            keys[name] = make_key(name, {*names, *keys.values()}, rules, notes, f"{path}.{name}".lstrip("."))
    return keys


def make_key(name: str, taken: Collection[str], rules: Rules, notes: Notes, path: str) -> str:
    """Make a name that the provider accepts and that is not taken."""
    if rules.accepts_key(name):
        return make_free_name(name, taken)
    legal = re.sub(r"[^a-zA-Z0-9_]+", "_", name).strip("_")[:50]
    legal = f"key_{legal}" if not legal or legal[0].isdigit() else legal
    notes.add(path, f"sent as {legal!r}: the provider does not take the name")
    return make_free_name(legal, taken)


def make_free_name(name: str, taken: Collection[str]) -> str:
    """Make a name that is not taken, by a number at its end."""
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}_{number}"
    return free
