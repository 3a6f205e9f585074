"""The text of a value in a path, a query or a header: RFC 6570, with OpenAPI's additions.

An item that contains the delimiter of the items is refused, since the server could not separate them.
Source of the styles: OpenAPI 3.1.1, section Style Examples. Nested values are undefined there: a list or an object
inside of another is written as JSON, but with further brackets in `deepObject`. The styles that hardly any service has
are refused: `label`, `matrix` and those with other delimiters than a comma.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any
from urllib.parse import quote

from pydantic_core import to_json

from toolkit._guards.options import HEADER_VALUE
from toolkit.errors import InvalidArguments

# Delimiters of exploded parts; that of all others is a comma.
_DELIMITERS: Mapping[str, str] = {"simple": ",", "form": "&"}
Encode = Callable[[str], str]


def is_json(media_type: str) -> bool:
    """Return whether a media type is JSON, including the suffix `+json` of RFC 6839."""
    essence = media_type.partition(";")[0].strip().lower()
    return essence in ("application/json", "text/json") or essence.endswith("+json")


def to_text(value: Any, media_type: str = "") -> str:
    """Return a text as it is, unless the media type is JSON. Return anything else as JSON."""
    return value if isinstance(value, str) and not is_json(media_type) else to_json(value).decode()


def percent_encode(text: str) -> str:
    """Encode a text for a URL, all reserved characters included."""
    return quote(text, safe="")


def check_header_value(text: str) -> str:
    """Check that a text can be the value of a header, and return it.

    Raises:
        InvalidArguments: The text cannot be sent in a header.
    """
    if HEADER_VALUE.fullmatch(text) is None:
        raise InvalidArguments(
            f"{text[:50]!r} cannot be sent in a header: use visible ASCII characters, without line breaks, and without "
            f"blanks at the ends."
        )
    return text


def drop_nulls(value: Any) -> Any:
    """Drop the parts of a list or an object that are null: RFC 6570, section 2.3."""
    if isinstance(value, dict):
        return {name: part for name, part in value.items() if part is not None}
    return [part for part in value if part is not None] if isinstance(value, list) else value


def is_undefined(value: Any) -> bool:
    """Return whether a value has no text: RFC 6570, section 2.3."""
    return value is None or value == [] or value == {}


def apply_style(name: str, value: Any, style: str, *, explode: bool, encode: Encode) -> str:
    """Return the text of a value that is not undefined.

    Raises:
        InvalidArguments: The text could be read as another value.
    """
    if style == "deepObject":
        return "&".join(f"{percent_encode(key)}={encode(to_text(part))}" for key, part in flatten(name, value))

    key = "" if style == "simple" else f"{percent_encode(name)}="
    if isinstance(value, dict):
        pairs = [(encode(name), encode(to_text(part))) for name, part in value.items()]
        if explode:
            _check_separable([name for name, _ in pairs], "=")
            parts = [f"{name}={part}" for name, part in pairs]
        else:
            parts = [*chain.from_iterable(pairs)]
    elif isinstance(value, list):
        parts = [f"{key if explode else ''}{encode(to_text(part))}" for part in value]
    else:
        return key + encode(to_text(value))

    delimiter = _DELIMITERS[style] if explode else ","
    _check_separable(parts, delimiter)
    return ("" if explode else key) + delimiter.join(parts)


def flatten(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the parts of a nested value, by names with brackets.

    Raises:
        InvalidArguments: A key has brackets of its own.
    """
    if not isinstance(value, (dict, list)):
        yield name, value
        return
    known = drop_nulls(value)
    for key, part in known.items() if isinstance(known, dict) else enumerate(known):
        if not {"[", "]"}.isdisjoint(str(key)):
            raise InvalidArguments(f"{name}: the key {key!r} must not contain brackets.")
        yield from flatten(f"{name}[{key}]", part)


def list_nested_keys(name: str, value: Any, style: str, *, explode: bool) -> list[str]:
    """List the names under which keys inside a value are sent: none may be the name of another parameter."""
    if style == "deepObject":
        return [key for key, _ in flatten(name, value) if key != name]
    return list(value) if explode and isinstance(value, dict) else []


def _check_separable(parts: Iterable[str], delimiter: str) -> None:
    """Check that no part contains the delimiter.

    Raises:
        InvalidArguments: A part contains it.
    """
    bad = next((part for part in parts if delimiter in part), None)
    if bad is not None:
        raise InvalidArguments(f"{bad[:50]!r} must not contain {delimiter!r}, which separates the parts.")
