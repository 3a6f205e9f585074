"""Documents as a model writes them in the form that is sent: the inverse of decoding, which only tests need."""

from __future__ import annotations

import json
from functools import singledispatch
from typing import Any

from toolkit._dialects.strict.decoders import (
    KEY,
    VALUE,
    ItemsDecoder,
    ObjectDecoder,
    PairsDecoder,
    ReferenceDecoder,
    SentProperty,
    TextDecoder,
    TupleDecoder,
    UnionDecoder,
    WrapperDecoder,
)
from toolkit._dialects.strict.matching import is_valid
from toolkit._dialects.strict.plain import SchemaForm
from toolkit._dialects.strict.rules import GEMINI, MINIMAL, Rules


def encode(form: SchemaForm, document: Any, rules: Rules) -> Any:
    """Write a document of a tool's own schema in the form that is sent under a provider's rules."""
    written = write(form.decoder, document)
    return drop_null(written) if rules in (GEMINI, MINIMAL) else written


def drop_null(value: Any) -> Any:
    """Leave out members that are null, where the provider has no null: the tool takes that for null."""
    if isinstance(value, dict):
        return {key: drop_null(each) for key, each in value.items() if each is not None}
    return [drop_null(each) for each in value] if isinstance(value, list) else value


@singledispatch
def write(decoder: Any, document: Any) -> Any:
    """Write a document so that a decoder reads it back; None stands for no decoder."""
    assert decoder is None
    return document


@write.register
def _(decoder: TextDecoder, document: Any) -> Any:
    return json.dumps(document, ensure_ascii=False)


@write.register
def _(decoder: ItemsDecoder, document: Any) -> Any:
    return [write(decoder.item, item) for item in document] if isinstance(document, list) else document


@write.register
def _(decoder: WrapperDecoder, document: Any) -> Any:
    return {decoder.key: write(decoder.value, document)}


@write.register
def _(decoder: UnionDecoder, document: Any) -> Any:
    """Write the first alternative that comes back as the same document."""
    for schema, inner in zip(decoder.sent, decoder.decoders):
        written = write(inner, document)
        if is_valid(schema, written, decoder.root) and (inner is None or inner.decode(written) == document):
            return written
    return document


@write.register
def _(decoder: ReferenceDecoder, document: Any) -> Any:
    return write(decoder.decoders.get(decoder.name), document)


@write.register
def _(decoder: PairsDecoder, document: Any) -> Any:
    if not isinstance(document, dict):
        return document
    return [{KEY: key, VALUE: write(decoder.value, value)} for key, value in document.items()]


@write.register
def _(decoder: ObjectDecoder, document: Any) -> Any:
    if not isinstance(document, dict):
        return document
    by_name = {property_.name: property_ for property_ in decoder.properties}
    free = {key: value for key, value in document.items() if decoder.rest and key not in by_name}
    own = {key: by_name.get(key, SentProperty(key, key)) for key in document if key not in free}
    written = {
        property_.key: write(property_.decoder, document[key])
        for key, property_ in own.items()
        if not (document[key] is None and property_.absence)
    }
    omitted = {p.key: value for p in decoder.properties for value in p.omission if p.name not in document}
    rest = {decoder.rest: write(decoder.pairs, free)} if decoder.rest else {}
    return {**written, **omitted, **rest}


@write.register
def _(decoder: TupleDecoder, document: Any) -> Any:
    if not isinstance(document, list):
        return document
    tail = {decoder.rest: document[len(decoder.places) :]} if decoder.rest else {}
    return write(decoder.properties, {**dict(zip(decoder.places, document)), **tail})
