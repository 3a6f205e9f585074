"""Text as people may see it: nothing hidden, nothing that looks like something else."""

from __future__ import annotations

import re
import unicodedata

# Printable by Python's word, and yet nothing is to be seen: joiners, fillers, selectors, the blank of Braille.
_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U0001d159\U000e0100-\U000e01ef]"
)


# What looks like an ASCII letter, by Unicode's names: letters of some scripts, and some rare Latin ones.
_ALIKE = re.compile(
    "ARMENIAN|CHEROKEE|COPTIC|CYRILLIC|FULLWIDTH|GREEK|LISU|MATHEMATICAL"
    "|LATIN LETTER (SMALL CAPITAL|DENTAL CLICK)|LATIN SMALL LETTER (ALPHA|IOTA|SCRIPT G)"
)


# Other ways to write ASCII letters, such as U+217C for l, by Unicode's decompositions.
_ASCII_AGAIN = re.compile("<(compat|font)> 00[4-7]")


_LATIN = re.compile("[A-Za-z]")


def escaped(text: str, keep: str = "") -> str:
    """Write what is unseen or acts on a terminal as escapes, and letters that pass for Latin ones beside them."""
    if text.isascii() and text.isprintable():
        return text
    return revealed(re.sub(r"\w+", lambda word: _told_apart(word.group()), text), keep)


def revealed(text: str, keep: str = "") -> str:
    """Write what is unseen or acts on a terminal as escapes, and leave all letters as they are."""
    return "".join(c if c in keep or _is_seen(c) else _escape(c) for c in text)


def _is_seen(character: str) -> bool:
    return character.isprintable() and not _UNSEEN.match(character)


def _told_apart(word: str) -> str:
    if word.isascii() or not _LATIN.search(word):
        return word
    return "".join(_escape(c) if _is_alike(c) else c for c in word)


def _is_alike(character: str) -> bool:
    again = _ASCII_AGAIN.match(unicodedata.decomposition(character))
    return bool(again or _ALIKE.match(unicodedata.name(character, "")))


def _escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[place : place + 4]}" for place in range(0, len(units), 4))
