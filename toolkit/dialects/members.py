"""The codecs of what has members: objects, open objects and tuples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from typing import Any, TypeAlias

from toolkit.dialects.codecs import Codec, Document, decoded, encoded

Members: TypeAlias = list[tuple[str, Any]]

KEY, VALUE = "key", "value"

# What a model sends to leave a property out whose null means something by itself.
OMIT: Mapping[str, bool] = {"omit": True}


@dataclass(frozen=True)
class Pairs:
    """An object with any keys <-> an array of `{"key": ..., "value": ...}`."""

    value: Codec | None = None

    def decode(self, document: Document) -> Document:
        """Make the object, unless a key stands there twice."""
        pairs = self.pairs(document)
        return document if pairs is None or len(dict(pairs)) < len(pairs) else dict(pairs)

    def encode(self, document: Document) -> Document:
        """Make the array."""
        if not isinstance(document, dict):
            return document
        return [{KEY: key, VALUE: encoded(self.value, value)} for key, value in document.items()]

    def pairs(self, document: Document) -> Members | None:
        """Read the array; None where it is none, or holds something else."""
        if not isinstance(document, list) or not all(map(_is_pair, document)):
            return None
        return [(pair[KEY], decoded(self.value, pair[VALUE])) for pair in document]


@dataclass(frozen=True)
class Field:
    """How one property is shown.

    Attributes:
        name: The tool's own name of it.
        shown: The name that is shown.
        omission: The values that stand for a property that is left out: at most one.
        absence: The values that a property has which is left out in the shown form: at most one.
        default: The values that are left out in the shown form because the tool takes them anyway: at most one.
    """

    name: str
    shown: str
    codec: Codec | None = None
    omission: tuple[Any, ...] = ()
    absence: tuple[Any, ...] = ()
    default: tuple[Any, ...] = ()

    @property
    def changes(self) -> bool:
        """Whether it is anything but as it was."""
        return self != Field(self.name, self.name)


@dataclass(frozen=True)
class Fields:
    """The properties of an object; those that are not listed stay as they are.

    Attributes:
        rest: The property that holds what has no property of its own, as pairs.
        known: The tool's own names, where there is such a rest.
    """

    fields: tuple[Field, ...]
    rest: str | None = None
    pairs: Pairs = Pairs()
    known: frozenset[str] = frozenset()

    def decode(self, document: Document) -> Document:
        """Decode each property; where two would have one name, make something that no object is."""
        if not isinstance(document, dict):
            return document
        read = [member for key, value in document.items() for member in self._read(key, value)]
        read += ((f.name, value) for f in self.fields for value in f.absence if f.shown not in document)
        return dict(read) if len(dict(read)) == len(read) else [document]

    def encode(self, document: Document) -> Document:
        """Encode each property, and write down those that are left out."""
        if not isinstance(document, dict):
            return document
        shown = dict(member for key, value in document.items() for member in self._written(key, value))
        omitted = {f.shown: value for f in self.fields for value in f.omission if f.name not in document}
        return {**shown, **omitted, **self._free(document)}

    @cached_property
    def _by_shown(self) -> Mapping[str, Field]:
        return {field.shown: field for field in self.fields}

    @cached_property
    def _by_name(self) -> Mapping[str, Field]:
        return {field.name: field for field in self.fields}

    def _read(self, key: str, value: Any) -> Members:
        pairs = self.pairs.pairs(value) if key == self.rest else None
        if pairs is not None:
            return pairs
        field = self._by_shown.get(key, Field(key, key))
        return [] if value in field.omission else [(field.name, decoded(field.codec, value))]

    def _written(self, key: str, value: Any) -> Members:
        field = self._by_name.get(key, Field(key, key))
        free = self.rest and key not in self.known
        unsaid = value is None and None in (*field.absence, *field.default)
        return [] if free or unsaid else [(field.shown, encoded(field.codec, value))]

    def _free(self, document: dict[str, Any]) -> dict[str, Any]:
        if not self.rest:
            return {}
        free = {key: value for key, value in document.items() if key not in self.known}
        return {self.rest: self.pairs.encode(free)}


@dataclass(frozen=True)
class Places:
    """An array whose items have types of their own <-> an object with one property for each place.

    Attributes:
        places: Names of the properties, in order.
        fields: The codec of that object.
        rest: The property with the items behind the last place.
    """

    places: tuple[str, ...]
    fields: Codec | None = None
    rest: str | None = None

    def decode(self, document: Document) -> Document:
        """Make the array, unless a place in it is empty."""
        values = decoded(self.fields, document)
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
        return encoded(self.fields, {**dict(zip(self.places, document)), **tail})


def _is_pair(item: Any) -> bool:
    return isinstance(item, dict) and item.keys() == {KEY, VALUE} and isinstance(item[KEY], str)
