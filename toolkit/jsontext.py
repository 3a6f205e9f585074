"""JSON texts, as models write them: whole, cut, or no JSON at all."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic_core import PydanticSerializationError, from_json, to_json

from toolkit.parts import sendable


def as_text(words: str | bytes | Mapping[str, Any] | None) -> str:
    """Write arguments as the text of a JSON object."""
    if isinstance(words, bytes):
        words = words.decode("utf-8", "surrogateescape")  # what is not UTF-8 is refused later, and never repaired
    if isinstance(words, str):
        return words
    try:
        return to_json(words or {}).decode()
    except PydanticSerializationError:
        return json.dumps(words, default=repr)  # halves of surrogate pairs, as escapes: refused later, too


def is_object(text: str) -> bool:
    """Tell whether a text is one whole JSON object."""
    try:
        return isinstance(from_json(sendable(text)), dict)
    except ValueError:
        return False


def is_cut(text: str) -> bool:
    """Tell whether a text is the beginning of a JSON text that was not received whole."""
    try:
        from_json(sendable(text))
    except ValueError as error:
        return bool(text.strip()) and str(error).startswith("EOF while parsing")
    return False
