"""Removing secrets from texts, however they are escaped or encoded."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

Clean: TypeAlias = Callable[[str], str]

# Characters. A shorter secret occurs in ordinary texts.
MIN_SECRET = 4
# Encoded pieces of a text that are shorter than this match ordinary texts.
MIN_ENCODED = 6

# What escapes in escapes make of one backslash, at most.
MAX_ESCAPES = 8
_BACKSLASHES = rf"\\{{1,{MAX_ESCAPES}}}"

# The characters that base64 writes in two ways, and URLs in a third.
_VARYING = {"+": "(?:[+-]|%2[Bb])", "/": "(?:[/_]|%2[Ff])"}
_SIX_BITS = "(?:[A-Za-z0-9+/_-]|%2[BbFf])"

# Between two characters of base64 or hex: encoders wrap lines, which may be indented or escaped.
_WRAPS = r"(?:\s|\\+[rnt])*"


def make_cleaner(
    secrets: Iterable[str] = (), patterns: Iterable[str | re.Pattern[str]] = (), instead: str = "[redacted]"
) -> Clean:
    """Make a function that removes secrets from a text: see `redact`."""
    _reject_single_text(secrets=secrets, patterns=patterns)
    found = [re.compile(pattern) for pattern in patterns]
    exact = list(secrets)
    _reject_greedy(exact, found)
    found = [build_pattern(exact), *found] if exact else found

    def clean(text: str) -> str:
        for pattern in found:
            text = pattern.sub(lambda _: instead, text)
        return text

    return clean


def _reject_single_text(**given: object) -> None:
    for name, texts in given.items():
        if isinstance(texts, (str, re.Pattern)):
            raise TypeError(f"{name}= takes a list: write {name}=[...].")


def _reject_greedy(secrets: list[str], patterns: list[re.Pattern[str]]) -> None:
    if any(len(secret) < MIN_SECRET for secret in secrets):
        raise ValueError(
            f"secrets=: a secret of fewer than {MIN_SECRET} characters occurs in ordinary texts: leave it out."
        )
    greedy = next((pattern.pattern for pattern in patterns if pattern.search("")), None)
    if greedy is not None:
        raise ValueError(f"patterns=: the pattern {greedy!r} matches the empty text, so it would be found everywhere.")


def build_pattern(texts: Iterable[str]) -> re.Pattern[str]:
    """Build the pattern that finds any of the texts, however they are escaped or encoded.

    It knows the escapes of JSON, URLs and HTML, each character by itself, so that mixed and repeated ones are found;
    hex; and both alphabets of base64, wherever in the encoded bytes the text begins, and on several lines, too.
    """
    forms = [form for text in sorted(texts, key=len, reverse=True) for form in _iter_encodings(text)]
    return re.compile("|".join(forms))


def _iter_encodings(text: str) -> Iterator[str]:
    yield "".join(map(_match_escapes, re.findall(r"\\+|[^\\]", text)))
    data = text.encode("utf-8", "surrogatepass")
    yield f"(?i:{_WRAPS.join(data.hex())})"
    yield from filter(None, (_match_base64(data, shift) for shift in range(3)))


def _match_escapes(piece: str) -> str:
    """Match one character, or several backslashes, in any escapes."""
    if piece.startswith("\\"):  # taken together: apart, each of them could match all, in very many ways
        count = len(piece)
        return rf"(?:\\{{{count},{MAX_ESCAPES * count}}}|(?i:(?:%5c|&#x0*5c;|&#0*92;){{{count}}}))"
    percent = "".join(f"%{byte:02x}" for byte in piece.encode("utf-8", "surrogatepass"))
    forms = {
        re.escape(piece),
        re.escape(html.escape(piece)),
        f"(?i:{percent}|{_match_utf16_escapes(piece)}|&#x0*{ord(piece):x};|&#0*{ord(piece)};)",
        _match_short_escape(piece),
    }
    forms |= {r"\+"} if piece == " " else set()
    return f"(?:{'|'.join(sorted(forms, key=len))})"


def _match_utf16_escapes(character: str) -> str:
    r"""Match the \u escapes of a character: two, where UTF-16 needs two units."""
    data = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"{_BACKSLASHES}u{data[at : at + 2].hex()}" for at in range(0, len(data), 2))


def _match_short_escape(character: str) -> str:
    r"""Match the short escape of a character, such as \n; or the character, where it has none."""
    escaped = json.dumps(character, ensure_ascii=False)[1:-1]
    has_one = escaped.startswith("\\") and not escaped.startswith("\\u")
    return _BACKSLASHES + re.escape(escaped[1:]) if has_one else re.escape(character)


def _match_base64(data: bytes, shift: int) -> str:
    """Match bytes within base64 that began `shift` bytes earlier, with the characters that they share."""
    encoded = base64.b64encode(bytes(shift) + data).decode().rstrip("=")
    first = (shift * 8 + 5) // 6
    last = (shift + len(data)) * 8 // 6
    if last - first < MIN_ENCODED:
        return ""
    # Behind a backslash stands the letter of an escape, as in "\n\n\n": many of these would each be a beginning.
    shared = [rf"(?<!\\){_SIX_BITS}"] if shift else []
    whole = [_VARYING.get(character, character) for character in encoded[first:last]]
    return _WRAPS.join([*shared, *whole]) + (f"{_SIX_BITS}?" if len(encoded) > last else "")
