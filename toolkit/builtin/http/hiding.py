"""What a page hides from its readers by its own attributes; what style sheets and scripts hide is not known."""

from __future__ import annotations

import re

HIDDEN = "[hidden], [aria-hidden=true i], [popover], template, datalist, dialog:not([open])"
FALLBACKS = "noframes, noembed, iframe, object, audio, video, canvas"  # for browsers that are no more

LONGEST_HIDDEN = 100  # characters of a declaration; one that hides something is short
_COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:([0-9a-fA-F]{1,6})\s?|(.))", re.DOTALL)
_NOTHING = r"\+?(?:0+(?:\.0\d*)?|\.0\d*|\d+(?:\.\d+)?e-\d+)(?:e[+-]?\d+)?[a-z%]*"
_HIDES = re.compile(
    "|".join(
        (
            "display:none",
            "(content-)?visibility:(hidden|collapse)",
            "color:transparent",
            rf"(font-size|opacity):{_NOTHING}",
            rf"font:([a-z-]*){_NOTHING}/.*",
            r"(left|right|top|margin-left|margin-top|text-indent):-\d{3,}[.\da-z]*",
            r"transform:scale(x|y|3d)?\(0[,)].*",
            r"clip-path:inset\((50|100)%.*",
            r"clip:rect\([01](px)?,.*",
        )
    )
)


def hides(style: str) -> bool:
    """Tell whether a style attribute hides an element, in one of the usual ways."""
    plain = _ESCAPE.sub(_unescaped, _COMMENT.sub("", style)).lower()
    declarations = ("".join(part.split()).removesuffix("!important") for part in plain.split(";"))
    return any(len(each) <= LONGEST_HIDDEN and _HIDES.fullmatch(each) for each in declarations)


def _unescaped(found: re.Match[str]) -> str:
    if found[2]:
        return found[2]
    number = int(found[1], 16)
    return chr(number) if number <= 0x10FFFF else "\ufffd"
