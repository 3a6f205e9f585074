"""A pattern that finds a text however it is written: as it is, escaped, or encoded."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Iterable, Iterator

# Encoded pieces of a text that are shorter than this say too little: ordinary words look the same.
MIN_ENCODED = 6

# What escapes in escapes make of one backslash, at most.
MAX_ESCAPES = 8
_BACKSLASHES = rf"\\{{1,{MAX_ESCAPES}}}"

# The characters that base64 writes in two ways, and URLs in a third.
_VARYING = {"+": "(?:[+-]|%2[Bb])", "/": "(?:[/_]|%2[Ff])"}
_SIX_BITS = "(?:[A-Za-z0-9+/_-]|%2[BbFf])"


def pattern_of(texts: Iterable[str]) -> re.Pattern[str]:
    """Make the pattern that finds any of the texts.

    It knows JSON's, URLs' and HTML's escapes, each character by itself, so that mixed and doubled ones are found; hex
    and both alphabets of base64, wherever in the encoded bytes the text begins.
    """
    forms = [form for text in sorted(texts, key=len, reverse=True) for form in _forms(text)]
    return re.compile("|".join(forms))


def _forms(text: str) -> Iterator[str]:
    yield "".join(map(_escapable, re.findall(r"\\+|[^\\]", text)))
    data = text.encode("utf-8", "surrogatepass")
    yield f"(?i:{data.hex()})"
    yield from filter(None, (_base64(data, shift) for shift in range(3)))


def _escapable(piece: str) -> str:
    """Match one character, or some backslashes, in whatever escapes they may stand."""
    if piece.startswith("\\"):  # taken together: apart, each of them could match all, in very many ways
        count = len(piece)
        return rf"(?:\\{{{count},{MAX_ESCAPES * count}}}|(?i:(?:%5c|&#x0*5c;|&#0*92;){{{count}}}))"
    percent = "".join(f"%{byte:02x}" for byte in piece.encode("utf-8", "surrogatepass"))
    forms = {
        re.escape(piece),
        re.escape(html.escape(piece)),
        f"(?i:{percent}|{_units(piece)}|&#x0*{ord(piece):x};|&#0*{ord(piece)};)",
        _short(piece),
    }
    forms |= {r"\+"} if piece == " " else set()
    return f"(?:{'|'.join(sorted(forms, key=len))})"


def _units(character: str) -> str:
    r"""Match the \u escapes of a character: two, where UTF-16 has two units for it."""
    data = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"{_BACKSLASHES}u{data[at : at + 2].hex()}" for at in range(0, len(data), 2))


def _short(character: str) -> str:
    r"""Match the short escape of a character, such as \n; where it has none, the character."""
    escaped = json.dumps(character, ensure_ascii=False)[1:-1]
    has_one = escaped.startswith("\\") and not escaped.startswith("\\u")
    return _BACKSLASHES + re.escape(escaped[1:]) if has_one else re.escape(character)


def _base64(data: bytes, shift: int) -> str:
    """Match bytes inside of base64 that began `shift` bytes earlier, with the characters that they share."""
    encoded = base64.b64encode(bytes(shift) + data).decode().rstrip("=")
    first = (shift * 8 + 5) // 6
    last = (shift + len(data)) * 8 // 6
    if last - first < MIN_ENCODED:
        return ""
    whole = "".join(_VARYING.get(character, character) for character in encoded[first:last])
    return f"{_SIX_BITS if shift else ''}{whole}{_SIX_BITS + '?' if len(encoded) > last else ''}"
