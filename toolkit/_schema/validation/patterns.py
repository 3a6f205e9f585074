"""Regular expressions of ECMAScript, for the engines that there are.

The first is Rust's, which takes time in proportion to the text. What it lacks, look-around and references back, is left
to Python's, which may need exponentially long: nested repetition is refused there, and the text may be only so long
that no match takes more than a second or so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic_core import PydanticCustomError, PydanticKnownError, SchemaError, SchemaValidator

from toolkit._schema.validation.references import refuse

Node = dict[str, Any]

MAX_TRIES = 10**7  # that Python's engine makes for one text, about a second

_TOKEN = re.compile(
    r"\\u\{[0-9A-Fa-f]+\}|\\u[0-9A-Fa-f]{4}|\\c[A-Za-z]|\\k<\w+>|\\[pP]\{[^}]*\}|\\.|\[\^?\]?|\(\?<(?=\w)|.", re.DOTALL
)
_WORD = "0-9A-Za-z_"
_SPACE = r"\s\x{FEFF}"
# How ECMAScript's tokens are written for Rust, outside of a class and inside.
_OUTSIDE: Mapping[str, str] = {
    ".": r"[^\n\r\x{2028}\x{2029}]",
    r"\d": "[0-9]",
    r"\D": "[^0-9]",
    r"\w": f"[{_WORD}]",
    r"\W": f"[^{_WORD}]",
    r"\s": f"[{_SPACE}]",
    r"\S": f"[^{_SPACE}]",
    r"\b": r"(?-u:\b)",
    "[]": r"[^\s\S]",
    "[^]": r"[\s\S]",
}
_INSIDE: Mapping[str, str] = {
    r"\d": "0-9",
    r"\D": "[^0-9]",
    r"\w": _WORD,
    r"\W": f"[^{_WORD}]",
    r"\s": _SPACE,
    r"\S": f"[^{_SPACE}]",
    r"\b": r"\x08",
    "[": r"\[",
    "[^": r"\[\^",
    "&": r"\&",
    "~": r"\~",
}
_PYTHON: Mapping[str, str] = {"$": r"\Z", "(?<": "(?P<"}
_REPEAT = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]|\(\??|\)|\||[*+?]|\{\d+(?:,\d*)?\}|.", re.DOTALL)


@dataclass(frozen=True)
class Search:
    """Searches a text by Python's engine, if it is no longer than `longest`."""

    compiled: re.Pattern[str]
    pattern: str
    longest: int

    def check(self, text: str) -> str:
        """Give a text in which the pattern is found."""
        if len(text) > self.longest:
            raise PydanticCustomError(
                "pattern_length", "String should have at most {most} characters", {"most": self.longest}
            )
        if not self.compiled.search(text):
            raise PydanticKnownError("string_pattern_mismatch", {"pattern": self.pattern})
        return text


def write_pattern(pattern: str, place: str) -> Node:
    """Make pydantic-core's schema of the texts in which a pattern is found.

    Raises:
        DefinitionError: No engine takes it.
    """
    written = _translate(pattern, _OUTSIDE, _INSIDE)
    core: Any = {"type": "str", "pattern": written}
    try:
        SchemaValidator(core)
    except SchemaError:
        return _write_python_pattern(pattern, place)
    shown = {"type": "custom-error", "custom_error_type": "string_pattern_mismatch", "schema": core}
    return core if written == pattern else {**shown, "custom_error_context": {"pattern": pattern}}


def build_matcher(pattern: str, place: str) -> Callable[[str], bool]:
    """Make what tells whether a pattern is found in a text.

    Raises:
        DefinitionError: No engine takes it.
    """
    core: Any = write_pattern(pattern, place)
    return SchemaValidator(core).isinstance_python


def _translate(pattern: str, outside: Mapping[str, str], inside: Mapping[str, str]) -> str:
    written, is_inside = [], False
    for sign in _TOKEN.findall(pattern):
        known = inside if is_inside else outside
        written.append(known.get(sign) or _translate_escape(sign))
        is_inside = (is_inside or sign in ("[", "[^")) and sign != "]"
    return "".join(written)


def _translate_escape(sign: str) -> str:
    if sign.startswith(r"\u{"):
        return rf"\U{int(sign[3:-1], 16):08x}"
    if sign.startswith(r"\c"):
        return rf"\x{ord(sign[2]) % 32:02x}"
    if sign.startswith(r"\k<"):
        return f"(?P={sign[3:-1]})"
    return "/" if sign == r"\/" else sign


def _write_python_pattern(pattern: str, place: str) -> Node:
    try:
        compiled = re.compile(_translate(pattern, _PYTHON, {}), re.ASCII)
    except (re.error, OverflowError, RecursionError) as error:
        refuse(place, f"no engine takes the pattern {pattern!r} ({error})", "Write it in plainer terms.")
    repeats = _count_branches(pattern)
    if repeats is None:
        refuse(
            place,
            f"the pattern {pattern!r} may take for ever",
            "Repeat nothing inside a repetition, or leave out (?=, (?! and \\1.",
        )
    longest = int(MAX_TRIES ** (1 / (repeats + 1)))
    function = {"type": "no-info", "function": Search(compiled, pattern, longest).check}
    return {"type": "function-after", "function": function, "schema": {"type": "str"}}


def _count_branches(pattern: str) -> int | None:
    """Count the ways a pattern can branch; None where they lie inside a repetition."""
    counts = [0]  # of the groups that are open
    closed = 0  # of what stands before
    for sign in _REPEAT.findall(pattern):
        if sign[0] in "*+?{":
            if closed and not _is_once(sign):
                return None
            counts[-1] += not _is_fixed(sign)
            closed = 0
        elif sign[0] == "(":
            counts.append(0)
            closed = 0
        elif sign == ")" and len(counts) > 1:
            closed = counts.pop()
            counts[-1] += closed
        else:
            counts[-1] += sign == "|"
            closed = 0
    return sum(counts)


def _is_once(sign: str) -> bool:
    return sign in ("?", "{0,1}", "{1}")


def _is_fixed(sign: str) -> bool:
    return sign[0] == "{" and "," not in sign
