"""A value -> its text in a path, a query, a header or a cookie: RFC 6570, and what OpenAPI adds to it.

What cannot be told apart by who reads it is refused: an item that contains what the items are joined by.
Source of the table: OpenAPI 3.1.1, section Style Examples. What is undefined there: a list or an object inside of
another is JSON; `deepObject` goes on in brackets; what is delimited and exploded is written as a form.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any
from urllib.parse import quote

from pydantic_core import to_json

from toolkit.errors import InvalidArguments

# What a header may hold: visible ASCII, and blanks inside; so there is no second header in it (RFC 9110, section 5.5).
HEADER = re.compile(r"([!-~]([ -~\t]*[!-~])?)?")
# Reserved characters of RFC 3986 that mean nothing in a query, nor in a form.
RESERVED = ":/?@!$'()*,"


@dataclass(frozen=True)
class Style:
    """How the parts of a value are joined.

    Attributes:
        first: What stands in front.
        separator: What is between parts that are exploded.
        delimiter: What is between parts that are not.
        is_named: Whether the name stands there too.
    """

    first: str
    separator: str
    delimiter: str
    is_named: bool


STYLES: Mapping[str, Style] = MappingProxyType(
    {
        "simple": Style("", ",", ",", is_named=False),
        "label": Style(".", ".", ",", is_named=False),
        "matrix": Style(";", ";", ",", is_named=True),
        "form": Style("", "&", ",", is_named=True),
        "spaceDelimited": Style("", "&", "%20", is_named=True),
        "pipeDelimited": Style("", "&", "%7C", is_named=True),
        "cookie": Style("", "; ", ",", is_named=True),
    }
)

Encode = Callable[[str], str]


def is_json(media_type: str) -> bool:
    """Whether it is JSON, by RFC 6839 too."""
    essence = media_type.partition(";")[0].strip().lower()
    return essence in ("application/json", "text/json") or essence.endswith("+json")


def plain(value: Any, media_type: str = "") -> str:
    """Write a value as text: a text as it is, unless the media type is JSON; all else as JSON."""
    return value if isinstance(value, str) and not is_json(media_type) else to_json(value).decode()


def encoded(text: str, *, reserved: bool = False) -> str:
    """Write a text in the characters of a URL, so that it ends nothing there.

    Args:
        text: Any.
        reserved: Whether characters stay that have a meaning in other URLs.
    """
    return quote(text, safe=RESERVED if reserved else "")


def header(text: str) -> str:
    """Check that a text can be the value of a header.

    Raises:
        InvalidArguments: It cannot.
    """
    if HEADER.fullmatch(text) is None:
        raise InvalidArguments(
            f"{text[:50]!r} cannot be sent in a header: use visible ASCII characters, without line breaks, and without "
            f"blanks at the ends."
        )
    return text


def defined(value: Any) -> Any:
    """Leave out the parts of a list or an object that are null: RFC 6570, section 2.3."""
    if isinstance(value, dict):
        return {name: part for name, part in value.items() if part is not None}
    return [part for part in value if part is not None] if isinstance(value, list) else value


def is_undefined(value: Any) -> bool:
    """Whether a value leaves nothing to be written: RFC 6570, section 2.3."""
    return value is None or value == [] or value == {}


def styled(name: str, value: Any, style: str, *, explode: bool, encode: Encode = encoded) -> str:
    """Write a value that is not undefined.

    Raises:
        InvalidArguments: What was written could be read as something else.
    """
    if style == "deepObject":
        return "&".join(f"{encoded(key)}={encode(plain(part))}" for key, part in deep(name, value))
    rule, key = STYLES[style], encoded(name)
    if isinstance(value, dict):
        return _object(rule, key, value, explode=explode, encode=encode)
    if isinstance(value, list):
        return _array(rule, key, value, explode=explode, encode=encode)
    return rule.first + _named(rule, key, encode(plain(value)))


def deep(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """List what is in a value by names in brackets.

    Raises:
        InvalidArguments: A key has brackets of its own.
    """
    if not isinstance(value, (dict, list)):
        yield name, value
        return
    known = defined(value)
    for key, part in known.items() if isinstance(known, dict) else enumerate(known):
        if not {"[", "]"}.isdisjoint(str(key)):
            raise InvalidArguments(f"{name}: the key {key!r} must not contain brackets.")
        yield from deep(f"{name}[{key}]", part)


def keys_of(name: str, value: Any, style: str, *, explode: bool) -> list[str]:
    """List the names that keys inside a value are written as, beside its own: none must pose as something else's."""
    if style == "deepObject":
        return [key for key, _ in deep(name, value) if key != name]
    return list(value) if explode and isinstance(value, dict) else []


def _object(rule: Style, key: str, value: Mapping[str, Any], *, explode: bool, encode: Encode) -> str:
    pairs = [(encode(name), encode(plain(part))) for name, part in value.items()]
    if explode:
        _check_apart([name for name, _ in pairs], "=")
        return rule.first + _joined(rule.separator, [f"{name}={part}" for name, part in pairs])
    return rule.first + _named(rule, key, _joined(rule.delimiter, [each for pair in pairs for each in pair]))


def _array(rule: Style, key: str, value: list[Any], *, explode: bool, encode: Encode) -> str:
    parts = [encode(plain(part)) for part in value]
    if not explode:
        return rule.first + _named(rule, key, _joined(rule.delimiter, parts))
    return rule.first + _joined(rule.separator, [_named(rule, key, part) for part in parts])


def _named(rule: Style, key: str, text: str) -> str:
    if not rule.is_named:
        return text
    return key if rule.first and not text else f"{key}={text}"  # an empty path-style parameter has no `=`


def _joined(between: str, parts: list[str]) -> str:
    _check_apart(parts, between)
    return between.join(parts)


def _check_apart(parts: Iterable[str], between: str) -> None:
    """Check that parts can be told apart by what is between them.

    Raises:
        InvalidArguments: One of them has it inside.
    """
    bad = next((part for part in parts if between in part), None)
    if bad is not None:
        raise InvalidArguments(f"{bad[:50]!r} must not contain {between!r}: that is what parts are joined by.")
