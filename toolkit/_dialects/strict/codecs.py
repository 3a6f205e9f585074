"""What a model wrote in the form that it was shown <-> the tool's own document: one codec for each rewriting.

`decode` never raises and never guesses: what is not in the shown form stays as it is, from there down, for the tool's
own validation to judge. Where no codec is needed, None stands in its place.

The codecs of what has members: objects, open objects and tuples.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import takewhile
from typing import Any, NoReturn, Protocol, TypeAlias

from toolkit._schema.matching import is_type, is_valid, resolve_reference

Document: TypeAlias = Any


class Codec(Protocol):
    """Turns a document from the shown form into the tool's own, and back."""

    def decode(self, document: Document) -> Document:
        """Make the tool's own document."""
        ...

    def encode(self, document: Document) -> Document:
        """Make the document that is shown."""
        ...


def decoded(codec: Codec | None, document: Document) -> Document:
    """Decode with a codec, where there is one."""
    return document if codec is None else codec.decode(document)


def encoded(codec: Codec | None, document: Document) -> Document:
    """Encode with a codec, where there is one."""
    return document if codec is None else codec.encode(document)


@dataclass(frozen=True)
class Text:
    """Any value <-> its JSON text; a text that is no JSON stays the text."""

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
class Items:
    """The items of an array, each by one codec."""

    item: Codec

    def decode(self, document: Document) -> Document:
        """Decode each item."""
        return [self.item.decode(item) for item in document] if isinstance(document, list) else document

    def encode(self, document: Document) -> Document:
        """Encode each item."""
        return [self.item.encode(item) for item in document] if isinstance(document, list) else document


@dataclass(frozen=True)
class Wrapped:
    """A value <-> an object with that value alone, under a key that tells which alternative of a union it is."""

    key: str
    value: Codec | None = None

    def decode(self, document: Document) -> Document:
        """Take the value out."""
        wrapped = isinstance(document, dict) and document.keys() == {self.key}
        return decoded(self.value, document[self.key]) if wrapped else document

    def encode(self, document: Document) -> Document:
        """Put the value in."""
        return {self.key: encoded(self.value, document)}


@dataclass(frozen=True)
class Choice:
    """A union: the codec of that alternative which the document is of.

    Attributes:
        shown: The alternatives as they are shown, and their codecs.
        own: The alternatives in the tool's own schema, in the same order.
    """

    shown: tuple[Any, ...] = field(compare=False)
    own: tuple[Any, ...] = field(compare=False)
    codecs: tuple[Codec | None, ...]
    shown_root: Any = field(compare=False, repr=False)
    own_root: Any = field(compare=False, repr=False)

    def decode(self, document: Document) -> Document:
        """Decode as the alternative that fits; else as the only one of the document's type."""
        fitting = [i for i, schema in enumerate(self.shown) if is_valid(schema, document, self.shown_root)]
        close = fitting or [i for i, schema in enumerate(self.shown) if _is_of_type(schema, document, self.shown_root)]
        return decoded(self.codecs[close[0]], document) if fitting or len(close) == 1 else document

    def encode(self, document: Document) -> Document:
        """Encode as the first alternative that fits."""
        fitting = (i for i, schema in enumerate(self.own) if is_valid(schema, document, self.own_root))
        number = next(fitting, None)
        return document if number is None else encoded(self.codecs[number], document)


@dataclass(frozen=True)
class Named:
    """What a reference points to; its codec may still be in the making."""

    name: str
    codecs: Mapping[str, Codec | None] = field(compare=False, repr=False)

    def decode(self, document: Document) -> Document:
        """Decode as what the reference points to."""
        return decoded(self.codecs.get(self.name), document)

    def encode(self, document: Document) -> Document:
        """Encode as what the reference points to."""
        return encoded(self.codecs.get(self.name), document)


def read_json(text: str) -> Any:
    """Read a JSON text as strictly as a tool reads its arguments.

    Raises:
        ValueError: It is no JSON, or a number is not finite.
        RecursionError: It is too deep.
    """
    return json.loads(text, parse_constant=_refused, parse_float=_finite)


def _is_of_type(schema: Any, document: Document, root: Any) -> bool:
    kind = resolve_reference(schema, root).get("type")
    return isinstance(kind, str) and is_type(document, kind)


def _refused(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON.")


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"{text} is too big.")
    return value


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
