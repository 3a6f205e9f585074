"""Removal of secrets from texts, also in common escapes and encodings."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias
from urllib.parse import quote, quote_plus

Clean: TypeAlias = Callable[[str], str]

MIN_SECRET = 4  # characters; a shorter secret occurs in ordinary texts
MIN_ENCODED = 6  # characters; a shorter piece of encoded text occurs in ordinary texts

# Matches between two characters of base64 or hex: encoders wrap lines, which may be indented or escaped.
_WRAPS = r"(?:\s|\\+[rnt])*"

# Characters that are not escaped in URLs: by Python's `quote`, by JavaScript's `encodeURIComponent` and `encodeURI`,
# and in paths by RFC 3986.
_KEPT_IN_URLS = ("", "/", "!'()*", "!'()*;,/?:@&=+$#", "!'()*;,/:@&=+$")
# What finds a slash: JSON of PHP has a backslash before it, and JSON within JSON has three, or seven.
_SLASH = r"\\{0,7}/"
# Escapes of JSON in a page of HTML, as written by Go and Flask, and of pages themselves.
_MARKUP_IN_JSON = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})
_QUOTE_IN_JSON = str.maketrans({"'": "\\u0027"})
_QUOTES_IN_PAGES = tuple(str.maketrans({'"': double, "'": "&#39;"}) for double in ("&quot;", "&#34;"))


def make_cleaner(secrets: Iterable[str], patterns: Iterable[str | re.Pattern[str]]) -> Clean:
    """Make a function that removes secrets from a text: see `redact`."""
    for name, texts in ("secrets", secrets), ("patterns", patterns):
        if isinstance(texts, str) or not isinstance(texts, Iterable):
            raise TypeError(f"{name}= takes a list: write {name}=[...].")
    exact = list(secrets)
    found = [re.compile(pattern) for pattern in patterns]
    _reject_greedy(exact, found)
    found = [build_pattern(exact), *found] if exact else found

    def clean(text: str) -> str:
        for pattern in found:
            text = pattern.sub("[redacted]", text)
        return text

    return clean


def _reject_greedy(secrets: list[str], patterns: list[re.Pattern[str]]) -> None:
    if not all(isinstance(secret, str) for secret in secrets):
        raise TypeError("secrets=: one is not text, such as a variable of the environment that is not set.")
    if any(len(secret) < MIN_SECRET for secret in secrets):
        raise ValueError(
            f"secrets=: a secret of fewer than {MIN_SECRET} characters occurs in ordinary texts: leave it out."
        )
    greedy = next((pattern.pattern for pattern in patterns if pattern.search("")), None)
    if greedy is not None:
        raise ValueError(f"patterns=: the pattern {greedy!r} matches the empty text, so it would be found everywhere.")


def build_pattern(texts: Iterable[str]) -> re.Pattern[str]:
    """Build the pattern that finds any of the texts, plain and in common escapes and encodings.

    The escapes are those of Python, JSON (also within JSON), URLs and HTML. The encodings are hex and both alphabets of
    base64, at any position in the encoded bytes and on any number of lines.
    """
    forms: set[str] = set()
    for text in texts:
        forms |= {re.escape(text), *_iter_escapes(text), *_iter_encodings(text)}
    return re.compile("|".join(sorted(forms, key=len, reverse=True)).replace("/", _SLASH))


def _iter_escapes(text: str) -> Iterator[str]:
    """Yield patterns of the text in escaped forms, with letters of either case."""
    data = text.encode("utf-8", "surrogatepass")
    once = [json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]]
    once += [form.translate(_MARKUP_IN_JSON) for form in once]
    once += [form.translate(_QUOTE_IN_JSON) for form in once]
    twice = [json.dumps(form)[1:-1] for form in once]
    urls = [*(quote(data, safe=kept) for kept in _KEPT_IN_URLS), quote_plus(data)]
    bare = html.escape(text, quote=False)
    pages = [bare, html.escape(text), *map(bare.translate, _QUOTES_IN_PAGES)]
    python = [repr(text)[1:-1], ascii(text)[1:-1], repr(data)[2:-1]]
    for form in (*once, *twice, *urls, *pages, *python):
        if form != text:
            yield f"(?i:{re.escape(form)})"


def _iter_encodings(text: str) -> Iterator[str]:
    data = text.encode("utf-8", "surrogatepass")
    yield f"(?i:{_WRAPS.join(data.hex())})"
    for shift in range(3):  # bytes before the text in its group of three
        # The characters from `first` to `last` depend on the text only, not on the bytes around it.
        first = (shift * 8 + 5) // 6
        last = (shift + len(data)) * 8 // 6
        encoded = base64.b64encode(bytes(shift) + data).decode()[first:last]
        for form in {encoded, encoded.replace("+", "-").replace("/", "_"), quote(encoded, safe="")}:
            if len(encoded) >= MIN_ENCODED:
                yield rf"(?<!\\){_WRAPS.join(map(re.escape, form))}"  # a letter after a backslash belongs to an escape
