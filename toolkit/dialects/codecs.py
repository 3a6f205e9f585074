"""What a model wrote in the form that it was shown <-> the tool's own document: one codec for each rewriting.

`decode` never raises and never guesses: what is not in the shown form stays as it is, from there down, for the tool's
own validation to judge. Where no codec is needed, None stands in its place.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn, Protocol, TypeAlias

from toolkit._schema.matching import fits, is_of, resolved

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
        fitting = [i for i, schema in enumerate(self.shown) if fits(schema, document, self.shown_root)]
        close = fitting or [i for i, schema in enumerate(self.shown) if _is_of_type(schema, document, self.shown_root)]
        return decoded(self.codecs[close[0]], document) if fitting or len(close) == 1 else document

    def encode(self, document: Document) -> Document:
        """Encode as the first alternative that fits."""
        fitting = (i for i, schema in enumerate(self.own) if fits(schema, document, self.own_root))
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
        ValueError: It is no JSON, a key stands twice in one object, or a number is not finite.
        RecursionError: It is too deep.
    """
    return json.loads(text, object_pairs_hook=_without_repetition, parse_constant=_refused, parse_float=_finite)


def _is_of_type(schema: Any, document: Document, root: Any) -> bool:
    kind = resolved(schema, root).get("type")
    return isinstance(kind, str) and is_of(document, kind)


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("A key stands there twice.")
    return dict(pairs)


def _refused(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON.")


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"{text} is too big.")
    return value
