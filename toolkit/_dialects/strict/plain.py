"""Forms of schemas, and the form of a schema that is sent nearly unchanged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from toolkit._dialects.strict.decoders import Decoder, ObjectDecoder, SentProperty, decode_with, ends_in_key
from toolkit._dialects.strict.rules import ANNOTATIONS, Part, Rules, describe_keyword, value_kind
from toolkit._schema.json_schema import TYPES, as_list, as_mapping, map_schemas

# The note of a property that is sent under another name.
NAME_NOTE = "sent as {!r}: the provider does not take the name"


@dataclass(frozen=True)
class Note:
    """One difference between a tool's own schema and the schema that is sent, with its path."""

    path: str
    text: str


@dataclass(frozen=True, kw_only=True)
class SchemaForm:
    """A schema as it is sent, and the conversion of its documents to the tool's own.

    Attributes:
        schema: The schema that is sent.
        strict: Whether the provider is asked to enforce it.
        notes: Differences from the tool's own schema, for developers.
        decoder: Converts documents; None if they are the same in both forms.
    """

    schema: Mapping[str, Any]
    strict: bool = False
    notes: tuple[Note, ...] = ()
    decoder: Decoder | None = None

    def decode(self, document: Any) -> Any:
        """Return the tool's own document; never raises, and returns parts that are not in this form unchanged."""
        try:
            return decode_with(self.decoder, document)
        except RecursionError:
            return document

    def decode_beginning(self, document: Any) -> Any:
        """Decode the beginning of a document. Return None if its end may be a pair without its value."""
        return None if self.decoder and ends_in_key(document) else self.decode(document)


def make_plain_form(schema: Mapping[str, Any], rules: Rules) -> SchemaForm:
    """Make the form of a schema that is sent unchanged, but for noise, constraints as text, and parameters' names."""
    notes: dict[Note, None] = {}
    try:
        sent = map_schemas(schema, lambda node: _drop_keywords(node, rules, notes))
    except RecursionError:
        return SchemaForm(schema=schema, notes=(Note("", "sent as it is: it is too deep to be read"),))

    own = as_mapping(sent.get("properties"))
    keys = rules.map_keys(own)
    renamed = tuple(SentProperty(name, key) for name, key in keys.items() if name != key)
    notes.update({Note(each.name, NAME_NOTE.format(each.key)): None for each in renamed})
    if not renamed:
        return SchemaForm(schema=sent, notes=tuple(notes))

    sent = {**sent, "properties": {keys[name]: inner for name, inner in own.items()}}
    if "required" in sent:
        sent["required"] = [keys.get(name, name) for name in sent["required"]]
    return SchemaForm(schema=sent, notes=tuple(notes), decoder=ObjectDecoder(renamed))


def _drop_keywords(node: dict[str, Any], rules: Rules, notes: dict[Note, None]) -> dict[str, Any]:
    if rules.needs_types and node and node.keys() <= ANNOTATIONS:
        notes[Note("", "a schema of any value lists all types")] = None
        node = {"type": sorted(TYPES.keys() - {"integer"}), **node}
    is_list = "array" in as_list(node.get("type"))
    if rules.needs_types and is_list and node.keys().isdisjoint(("items", "prefixItems")):
        node = {**node, "items": {}}
    if rules.changed.isdisjoint(node):
        return node

    sent: dict[str, Any] = {}
    texts: list[str] = []
    for keyword, value in node.items():
        support = rules.support(keyword, value_kind(keyword, value))
        if support in ("sent", None):
            sent[keyword] = value
        elif support == "text":
            notes[Note("", f"{keyword} {value!r} goes into the description")] = None
            texts.append(describe_keyword(keyword, value))

    return Part(sent).add_description(*texts).schema
