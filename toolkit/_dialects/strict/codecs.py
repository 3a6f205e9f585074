"""Documents in the form that is sent <-> the tool's own: one codec for each rewriting.

`decode` never raises and never guesses: what is not in the form that was sent stays as it is, from there down, for the
tool's own validation. None stands in place of a codec that would change nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import takewhile
from typing import Any, NoReturn, Protocol, TypeAlias

from toolkit._schema.json_schema import is_type, is_valid, resolve_reference

Document: TypeAlias = Any
Members: TypeAlias = list[tuple[str, Any]]

KEY, VALUE = "key", "value"

# Sent by a model to leave out a property for which null is a value.
OMIT: Mapping[str, bool] = {"omit": True}


class Codec(Protocol):
    """Converts a document from the form that is sent to the tool's own, and back."""

    def decode(self, document: Document) -> Document:
        """Make the tool's own document."""
        ...

    def encode(self, document: Document) -> Document:
        """Make the document in the form that is sent."""
        ...


def decode_with(codec: Codec | None, document: Document) -> Document:
    """Decode with a codec, if there is one."""
    return document if codec is None else codec.decode(document)


def encode_with(codec: Codec | None, document: Document) -> Document:
    """Encode with a codec, if there is one."""
    return document if codec is None else codec.encode(document)


@dataclass(frozen=True)
class TextCodec:
    """Any value <-> its JSON text; a text that is not JSON stays the text."""

    def decode(self, document: Document) -> Document:
        """Read the text."""
        if not isinstance(document, str):
            return document
        try:
            return read_json(document)
        except (ValueError, RecursionError):
            return document

    def encode(self, document: Document) -> Document:
        """Write the text."""
        try:
            return json.dumps(document, ensure_ascii=False, allow_nan=False)
        except (ValueError, TypeError, RecursionError):
            return document


@dataclass(frozen=True)
class ItemsCodec:
    """The items of an array, each by one codec."""

    item: Codec

    def decode(self, document: Document) -> Document:
        """Decode each item."""
        return [self.item.decode(item) for item in document] if isinstance(document, list) else document

    def encode(self, document: Document) -> Document:
        """Encode each item."""
        return [self.item.encode(item) for item in document] if isinstance(document, list) else document


@dataclass(frozen=True)
class WrapperCodec:
    """A value <-> an object with that value alone, under the key of an alternative of a union."""

    key: str
    value: Codec | None = None

    def decode(self, document: Document) -> Document:
        """Unwrap the value."""
        is_wrapped = isinstance(document, dict) and document.keys() == {self.key}
        return decode_with(self.value, document[self.key]) if is_wrapped else document

    def encode(self, document: Document) -> Document:
        """Wrap the value."""
        return {self.key: encode_with(self.value, document)}


@dataclass(frozen=True)
class UnionCodec:
    """A union: the codec of the alternative that matches the document.

    Attributes:
        sent: The alternatives as they are sent.
        own: The alternatives in the tool's own schema, in the same order.
    """

    sent: tuple[Any, ...] = field(compare=False)
    own: tuple[Any, ...] = field(compare=False)
    codecs: tuple[Codec | None, ...]
    sent_root: Any = field(compare=False, repr=False)
    own_root: Any = field(compare=False, repr=False)

    def decode(self, document: Document) -> Document:
        """Decode as the first alternative that matches; else as the only one of the document's type."""
        fitting = [i for i, schema in enumerate(self.sent) if is_valid(schema, document, self.sent_root)]
        close = fitting or [i for i, schema in enumerate(self.sent) if _is_of_type(schema, document, self.sent_root)]
        return decode_with(self.codecs[close[0]], document) if fitting or len(close) == 1 else document

    def encode(self, document: Document) -> Document:
        """Encode as the first alternative that matches."""
        fitting = (i for i, schema in enumerate(self.own) if is_valid(schema, document, self.own_root))
        number = next(fitting, None)
        return document if number is None else encode_with(self.codecs[number], document)


def _is_of_type(schema: Any, document: Document, root: Any) -> bool:
    kind = resolve_reference(schema, root).get("type")
    return isinstance(kind, str) and is_type(document, kind)


@dataclass(frozen=True)
class ReferenceCodec:
    """The target of a reference, whose codec may not have been made yet."""

    name: str
    codecs: Mapping[str, Codec | None] = field(compare=False, repr=False)

    def decode(self, document: Document) -> Document:
        """Decode as the target."""
        return decode_with(self.codecs.get(self.name), document)

    def encode(self, document: Document) -> Document:
        """Encode as the target."""
        return encode_with(self.codecs.get(self.name), document)


@dataclass(frozen=True)
class PairsCodec:
    """An object with any keys <-> an array of `{"key": ..., "value": ...}`."""

    value: Codec | None = None

    def decode(self, document: Document) -> Document:
        """Make the object, unless a key occurs twice."""
        pairs = self.parse_pairs(document)
        return document if pairs is None or len(dict(pairs)) < len(pairs) else dict(pairs)

    def encode(self, document: Document) -> Document:
        """Make the array."""
        if not isinstance(document, dict):
            return document
        return [{KEY: key, VALUE: encode_with(self.value, value)} for key, value in document.items()]

    def parse_pairs(self, document: Document) -> Members | None:
        """Read keys and decoded values; return None for anything but an array of pairs."""
        if not isinstance(document, list) or not all(map(_is_pair, document)):
            return None
        return [(pair[KEY], decode_with(self.value, pair[VALUE])) for pair in document]


@dataclass(frozen=True)
class Property:
    """The form in which one property is sent.

    Attributes:
        name: The tool's own name of it.
        key: The name that is sent.
        omission: At most one value, which a model sends to leave the property out.
        absence: At most one value, which the property gets where a model leaves it out.
        default: At most one value, which need not be sent because the tool takes it anyway.
    """

    name: str
    key: str
    codec: Codec | None = None
    omission: tuple[Any, ...] = ()
    absence: tuple[Any, ...] = ()
    default: tuple[Any, ...] = ()


@dataclass(frozen=True)
class ObjectCodec:
    """The properties of an object; those that are not listed stay as they are.

    Attributes:
        changed: The properties that are sent in another form.
        rest: The key under which an open object's other keys are sent, as pairs.
        names: The tool's own properties, where there is such a rest.
    """

    changed: tuple[Property, ...]
    rest: str | None = None
    pairs: PairsCodec = PairsCodec()
    names: frozenset[str] = frozenset()

    def decode(self, document: Document) -> Document:
        """Decode each property; where two would get one name, return a list, which validation refuses."""
        if not isinstance(document, dict):
            return document
        members = [member for key, value in document.items() for member in self._decode_member(key, value)]
        members += ((p.name, value) for p in self.changed for value in p.absence if p.key not in document)
        return dict(members) if len(dict(members)) == len(members) else [document]

    def encode(self, document: Document) -> Document:
        """Encode each property, and add those that must not be left out."""
        if not isinstance(document, dict):
            return document
        members = dict(member for key, value in document.items() for member in self._encode_member(key, value))
        omitted = {p.key: value for p in self.changed for value in p.omission if p.name not in document}
        return {**members, **omitted, **self._encode_rest(document)}

    @cached_property
    def _by_key(self) -> Mapping[str, Property]:
        return {property_.key: property_ for property_ in self.changed}

    @cached_property
    def _by_name(self) -> Mapping[str, Property]:
        return {property_.name: property_ for property_ in self.changed}

    def _decode_member(self, key: str, value: Any) -> Members:
        pairs = self.pairs.parse_pairs(value) if key == self.rest else None
        if pairs is not None:
            return pairs
        property_ = self._by_key.get(key, Property(key, key))
        return [] if value in property_.omission else [(property_.name, decode_with(property_.codec, value))]

    def _encode_member(self, key: str, value: Any) -> Members:
        property_ = self._by_name.get(key, Property(key, key))
        is_free = self.rest and key not in self.names
        is_implied = value is None and None in (*property_.absence, *property_.default)
        return [] if is_free or is_implied else [(property_.key, encode_with(property_.codec, value))]

    def _encode_rest(self, document: dict[str, Any]) -> dict[str, Any]:
        if not self.rest:
            return {}
        free = {key: value for key, value in document.items() if key not in self.names}
        return {self.rest: self.pairs.encode(free)}


@dataclass(frozen=True)
class TupleCodec:
    """An array whose items have types of their own <-> an object with one property for each place.

    Attributes:
        places: Names of the properties, in order.
        properties: The codec of that object.
        rest: The property with the items after the last place.
    """

    places: tuple[str, ...]
    properties: Codec | None = None
    rest: str | None = None

    def decode(self, document: Document) -> Document:
        """Make the array, unless a place before its end is empty."""
        values = decode_with(self.properties, document)
        if not isinstance(values, dict):
            return document
        filled = list(takewhile(values.__contains__, self.places))
        tail = values.get(self.rest, [])
        is_whole = not tail or len(filled) == len(self.places)
        is_known = values.keys() - {self.rest} == set(filled) and isinstance(tail, list)
        return [*map(values.__getitem__, filled), *tail] if is_known and is_whole else document

    def encode(self, document: Document) -> Document:
        """Make the object."""
        if not isinstance(document, list):
            return document
        tail = {self.rest: document[len(self.places) :]} if self.rest else {}
        return encode_with(self.properties, {**dict(zip(self.places, document)), **tail})


def _is_pair(item: Any) -> bool:
    return isinstance(item, dict) and item.keys() == {KEY, VALUE} and isinstance(item[KEY], str)


def read_json(text: str) -> Any:
    """Parse JSON text as strictly as a tool parses its arguments.

    Raises:
        ValueError: The text is not JSON, or has a number that is not finite.
        RecursionError: It is nested too deeply.
    """
    return json.loads(text, parse_constant=_refuse_constant, parse_float=_parse_float)


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON.")


def _parse_float(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"{text} is too big.")
    return value
