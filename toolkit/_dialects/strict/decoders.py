"""Conversion of documents from the form that is sent to the tool's own: one decoder for each rewriting.

Decoding never guesses: a part that is not in the form that was sent is returned unchanged, with all parts inside it,
for the tool's own validation. None stands for a decoder that would change nothing.

"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, TypeAlias

from toolkit._dialects.strict.matching import is_type, is_valid
from toolkit._schema.json_schema import resolve_reference
from toolkit._schema.json_text import load_if_json

Document: TypeAlias = Any
Members: TypeAlias = list[tuple[str, Any]]

KEY = "key"
VALUE = "value"

# Sent by a model to leave out a property for which null is a value.
OMIT: Mapping[str, bool] = {"omit": True}


class Decoder(Protocol):
    """Converts a document from the form that is sent to the tool's own."""

    def decode(self, document: Document) -> Document:
        """Return the tool's own document."""
        ...


def decode_with(decoder: Decoder | None, document: Document) -> Document:
    """Decode with a decoder, if there is one."""
    return document if decoder is None else decoder.decode(document)


@dataclass(frozen=True)
class TextDecoder:
    """The JSON text of any value -> the value. A text that is not JSON stays the text."""

    def decode(self, document: Document) -> Document:
        """Parse the text."""
        return load_if_json(document) if isinstance(document, str) else document


@dataclass(frozen=True)
class ItemsDecoder:
    """The items of an array, each by one decoder."""

    item: Decoder

    def decode(self, document: Document) -> Document:
        """Decode each item."""
        return [self.item.decode(item) for item in document] if isinstance(document, list) else document


@dataclass(frozen=True)
class WrapperDecoder:
    """An object with one property -> its value."""

    key: str
    value: Decoder | None = None

    def decode(self, document: Document) -> Document:
        """Unwrap the value."""
        is_wrapped = isinstance(document, dict) and document.keys() == {self.key}
        return decode_with(self.value, document[self.key]) if is_wrapped else document


@dataclass(frozen=True)
class UnionDecoder:
    """A union: the decoder of the alternative that matches the document.

    Attributes:
        sent: The alternatives as they are sent.
        decoders: The decoders of the alternatives, in the same order.
        root: The document that references of the alternatives point into.
    """

    sent: tuple[Any, ...] = field(hash=False)
    decoders: tuple[Decoder | None, ...]
    root: Any = field(compare=False, repr=False)

    def decode(self, document: Document) -> Document:
        """Decode as the first alternative that matches or, if none does, as the only one of the document's type."""
        fitting = [i for i, schema in enumerate(self.sent) if is_valid(schema, document, self.root)]
        close = fitting or [i for i, schema in enumerate(self.sent) if self._is_of_type(schema, document)]
        return decode_with(self.decoders[close[0]], document) if fitting or len(close) == 1 else document

    def _is_of_type(self, schema: Any, document: Document) -> bool:
        kind = resolve_reference(schema, self.root).get("type")
        return isinstance(kind, str) and is_type(document, kind)


@dataclass(frozen=True)
class ReferenceDecoder:
    """The target of a reference, whose decoder may not have been made yet."""

    name: str
    decoders: Mapping[str, Decoder | None] = field(compare=False, repr=False)

    def decode(self, document: Document) -> Document:
        """Decode as the target."""
        return decode_with(self.decoders.get(self.name), document)


@dataclass(frozen=True)
class PairsDecoder:
    """An array of `{"key": ..., "value": ...}` -> an object with any keys."""

    value: Decoder | None = None

    def decode(self, document: Document) -> Document:
        """Make the object, unless a key occurs twice."""
        pairs = self.parse_pairs(document)
        return document if pairs is None or len(dict(pairs)) < len(pairs) else dict(pairs)

    def parse_pairs(self, document: Document) -> Members | None:
        """Read keys and decoded values. Return None for anything but an array of pairs."""
        if not isinstance(document, list) or not all(map(_is_pair, document)):
            return None
        return [(pair[KEY], decode_with(self.value, pair[VALUE])) for pair in document]


def _is_pair(item: Any) -> bool:
    return isinstance(item, dict) and item.keys() == {KEY, VALUE} and isinstance(item[KEY], str)


def ends_in_key(document: Document) -> bool:
    """Return whether the beginning of a document may end in a pair whose value is missing."""
    if isinstance(document, list) and document:
        first = document[0]
        last = document[-1]
        may_be_pairs = first is last or _is_pair(first)
        return (may_be_pairs and isinstance(last, dict) and last.keys() <= {KEY}) or ends_in_key(last)
    return isinstance(document, dict) and bool(document) and ends_in_key(next(reversed(document.values())))


@dataclass(frozen=True)
class SentProperty:
    """The form in which one property is sent.

    Attributes:
        name: The name in the tool's own schema.
        key: The name that is sent.
        omission: At most one value, which a model sends to leave the property out.
        absence: At most one value, which the property gets if a model leaves it out.
    """

    name: str
    key: str
    decoder: Decoder | None = None
    omission: tuple[Any, ...] = ()
    absence: tuple[Any, ...] = ()


@dataclass(frozen=True)
class ObjectDecoder:
    """The properties of an object. Those that are not listed are returned unchanged.

    Attributes:
        properties: Properties that are sent in another form; all properties, if there is a rest.
        rest: The key under which an open object's other keys are sent, as pairs.
    """

    properties: tuple[SentProperty, ...]
    rest: str | None = None
    pairs: PairsDecoder = PairsDecoder()

    def decode(self, document: Document) -> Document:
        """Decode each property. If two would get the same name, return a list, which validation refuses."""
        if not isinstance(document, dict):
            return document
        members = [member for key, value in document.items() for member in self._decode_member(key, value)]
        members += ((p.name, value) for p in self.properties for value in p.absence if p.key not in document)
        decoded = dict(members)
        return decoded if len(decoded) == len(members) else [document]

    @cached_property
    def _by_key(self) -> Mapping[str, SentProperty]:
        return {property_.key: property_ for property_ in self.properties}

    def _decode_member(self, key: str, value: Any) -> Members:
        pairs = self.pairs.parse_pairs(value) if key == self.rest else None
        if pairs is not None:
            return pairs
        property_ = self._by_key.get(key, SentProperty(key, key))
        return [] if value in property_.omission else [(property_.name, decode_with(property_.decoder, value))]


@dataclass(frozen=True)
class TupleDecoder:
    """An object with one property for each place -> an array whose items have types of their own.

    Attributes:
        places: Names of the properties, in order.
        properties: The decoder of the object.
        rest: Name of the property with the items after the last place.
        defaults: The defaults of places, for those before the end that a model leaves out.
    """

    places: tuple[str, ...]
    properties: Decoder | None = None
    rest: str | None = None
    defaults: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def decode(self, document: Document) -> Document:
        """Make the array, unless an item before its end is missing and has no default."""
        values = decode_with(self.properties, document)
        if not isinstance(values, dict) or not values.keys() <= {*self.places, self.rest}:
            return document

        tail = values.get(self.rest, [])
        if not isinstance(tail, list):
            return document

        lengths = [number for number, place in enumerate(self.places, 1) if place in values or tail]
        filled = self.places[: max(lengths, default=0)]
        whole = {**self.defaults, **values}
        if any(place not in whole for place in filled):
            return document
        return [*(whole[place] for place in filled), *tail]
