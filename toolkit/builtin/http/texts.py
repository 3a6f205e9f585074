"""What a page says: its bytes as text, and of HTML what a reader would see."""

from __future__ import annotations

import re
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from encodings import normalize_encoding
from encodings.aliases import aliases
from html import unescape
from importlib.util import find_spec
from typing import TYPE_CHECKING

from toolkit.builtin.http.hiding import FALLBACKS, HIDDEN, hides

if TYPE_CHECKING:
    import turbohtml

HTML = ("text/html", "application/xhtml+xml")

# Bytes at the start in which HTML may say how it is encoded, https://html.spec.whatwg.org/#charset.
PROLOGUE = 1024
_META = re.compile(rb"""<meta\s[^>]{0,200}?charset\s*=\s*["']?\s*([\w.:-]{1,40})""", re.IGNORECASE)

_MARKS = ((BOM_UTF8, "utf-8"), (BOM_UTF16_LE, "utf-16-le"), (BOM_UTF16_BE, "utf-16-be"))

# The encodings of https://encoding.spec.whatwg.org, by Python's modules; it has others, some of them slow or no text's.
_ENCODINGS = frozenset(
    (
        *("utf_8", "utf_16", "utf_16_le", "utf_16_be", "ascii", "gbk", "gb18030", "gb2312", "big5", "big5hkscs"),
        *("euc_jp", "iso2022_jp", "shift_jis", "cp932", "euc_kr", "cp949", "koi8_r", "koi8_u", "mac_roman"),
        *("mac_cyrillic", "cp866", "cp874", "tis_620", "latin_1"),
        *(f"iso8859_{part}" for part in (*range(2, 12), *range(13, 17))),
        *(f"cp{page}" for page in range(1250, 1259)),
    )
)

# A comment, an element whose text nobody reads, or a tag with its quoted values. Each is closed by the end of the text
# too: what was tried once is not tried again.
_TAG = re.compile(
    r"<!--.*?(?:-->|\Z)"
    r"|<(script|style|template|noscript|title)\b.*?(?:</\1\b[^>]*(?:>|\Z)|\Z)"
    r"""|<[a-z/!?](?:[^>=]+|=\s*"[^"]*(?:"|\Z)|=\s*'[^']*(?:'|\Z)|=)*(?:>|\Z)""",
    re.DOTALL | re.IGNORECASE,
)
_BLOCK = re.compile(
    r"</?\s*(p|div|br|li|d[dt]|t[dhr]|h[1-6]|table|section|article|pre|ul|ol|hr|blockquote)\b", re.IGNORECASE
)


def decoded(data: bytes, charset: str | None, *, is_html: bool = False, is_cut: bool = False) -> str:
    """Read bytes as text: by their byte order mark, by the charset that is said, or as UTF-8 or Windows-1252.

    Bytes that are no text become U+FFFD.
    """
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding, "replace")
    said = charset or (_declared(data) if is_html else None)
    if said and (known := _known(said)):
        return data.decode(known, "replace")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        is_whole = not (is_cut and error.reason == "unexpected end of data")
        return data.decode("cp1252" if is_whole else "utf-8", "replace")


def _declared(data: bytes) -> str | None:
    found = _META.search(data[:PROLOGUE])
    said = found[1].decode("ascii", "replace").lower() if found else None
    return "utf-8" if said and said.startswith("utf-16") else said  # whoever could read it reads no UTF-16


def is_marked(data: bytes) -> bool:
    """Tell whether bytes begin with a byte order mark."""
    return data.startswith(tuple(mark for mark, _ in _MARKS))


def _known(label: str) -> str | None:
    """Say which encoding a label means; `codecs` is not asked, as it keeps every label."""
    spelled = normalize_encoding(label).lower()
    name = aliases.get(spelled, spelled)
    return {"latin_1": "cp1252", "ascii": "cp1252"}.get(name, name) if name in _ENCODINGS else None


def readable(html: str) -> str:
    """Give what a reader would want of HTML: its main text, or all of its text where none stands out.

    Needs the extra `http`; without it all tags are stripped, and what is hidden is not known. Either takes time and
    memory in proportion to the length, for broken HTML too: a second and 250 MB at most for a mebibyte, as measured.
    """
    text = _extracted(html) if find_spec("turbohtml") else stripped(html)
    return text.strip()


def _extracted(html: str) -> str:
    import turbohtml  # an extra

    page = turbohtml.parse(html, positions=False)
    page.remove(f"{HIDDEN}, {FALLBACKS}")
    for element in page.select("[style]"):
        if hides(str(element.attrs["style"])):
            element.decompose()
    main = page.main_content()
    _flatten(page)
    return (main.to_text() if main else "") or page.to_text()


def _flatten(page: turbohtml.Document) -> None:
    """Make a line of each row of a table: laid out as a grid, it would have every row as wide as the widest."""
    from turbohtml import Text

    for cell in page.select(":is(td, th) + :is(td, th)"):
        cell.insert_before(Text(" | "))
    for cell in page.select("td, th"):
        cell.tag = "span"
    for part in page.select("table, caption, thead, tbody, tfoot, tr"):
        part.tag = "div"


def stripped(html: str) -> str:
    """Give the text of HTML without its tags, line by line."""
    text = _TAG.sub(lambda tag: "\n" if _BLOCK.match(tag[0]) else "", html)
    return "\n".join(filter(None, map(str.strip, unescape(text).splitlines())))
