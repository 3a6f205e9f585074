"""A page as text, whatever it came as."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit._concurrency.cancellation import Cancellation
from toolkit._guards.transport import SHOWN
from toolkit.builtin.http.texts import HTML, decoded, is_marked, readable
from toolkit.builtin.http.web import Answer, Web
from toolkit.errors import Failed

# Media types that are text, besides text/..., ...+json and ...+xml.
TEXTS = (
    "json",
    "xml",
    "javascript",
    "x-javascript",
    "ecmascript",
    "x-ndjson",
    "yaml",
    "x-yaml",
    "toml",
    "sql",
    "graphql",
)
# What says nothing of what it is.
UNSAID = ("", "application/octet-stream", "binary/octet-stream")
SAMPLE = 1024  # bytes
# How data begins that has no zero byte so early, whatever a server calls it.
DATA = (b"%PDF-", b"\x89PNG", b"GIF8", b"\xff\xd8\xff", b"PK\x03\x04", b"\x1f\x8b")


@dataclass(frozen=True, kw_only=True)
class Page:
    """What was found at a URL.

    Attributes:
        url: Where it was found, behind all redirects.
        status: HTTP status.
        media_type: Such as `text/html`; empty where the server says nothing.
        text: Its text, of HTML what a reader would want of it.
        size: Bytes that were read.
        is_cut: Whether there was more of it than is read.
    """

    url: str
    status: int
    media_type: str
    text: str
    size: int
    is_cut: bool


def page(web: Web, url: str, until: Cancellation | None = None) -> Page:
    """Get a page, and its text.

    Raises:
        Failed: It cannot be had, or is no text.
        Cancelled: `until` was called off.
        TimedOut: `until` has no time left.
    """
    answer = web.get(url, until)
    return Page(
        url=answer.url,
        status=answer.status,
        media_type=answer.media_type,
        text=_text(answer),
        size=len(answer.body),
        is_cut=answer.is_cut,
    )


def _text(answer: Answer) -> str:
    kind = answer.media_type
    is_html = kind in HTML or (not kind and answer.body.lstrip()[:5].lower() in (b"<html", b"<!doc"))
    if _is_data(answer) or not (is_html or _is_text(kind)):
        size = f"{'more than ' if answer.is_cut else ''}{len(answer.body)} bytes"
        raise Failed(f"read error: it is no text but {kind[:SHOWN] or 'unknown data'}, {size}")
    text = decoded(answer.body, answer.charset, is_html=is_html, is_cut=answer.is_cut)
    return readable(text) if is_html else text.strip()


def _is_data(answer: Answer) -> bool:
    is_utf16 = is_marked(answer.body) or (answer.charset or "").startswith("utf-16")
    return answer.body.startswith(DATA) or (b"\0" in answer.body[:SAMPLE] and not is_utf16)


def _is_text(kind: str) -> bool:
    family, _, form = kind.partition("/")
    is_named = family == "text" or form.endswith(("+json", "+xml")) or (family == "application" and form in TEXTS)
    return is_named or kind in UNSAID
