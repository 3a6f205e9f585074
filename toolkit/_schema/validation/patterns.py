"""Regular expressions of ECMAScript, translated for the engines of Rust and Python.

Rust's engine comes first: its time is proportional to the text. What it lacks, look-around and back references, is left
to Python's, which may take exponential time: nested repetition is refused there, and the length of the text is limited
so that no match takes more than about a second.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from pydantic_core import PydanticCustomError, PydanticKnownError, SchemaError, SchemaValidator

from toolkit._schema.validation.pointers import refuse
from toolkit.errors import DefinitionError

Node = dict[str, Any]

MAX_TRIES = 10**7  # tries of Python's engine for one text, about a second

_TOKEN = re.compile(
    r"\\u\{[0-9A-Fa-f]+\}|\\u[0-9A-Fa-f]{4}|\\c[A-Za-z]|\\k<\w+>|\\[pP]\{[^}]*\}|\\.|\[\^?\]?|\(\?<(?=\w)|.", re.DOTALL
)
_WORD = "0-9A-Za-z_"
_SPACE = r"\s\x{FEFF}"
# ECMAScript's tokens as Rust's, outside of a character class and inside.
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


def write_pattern(pattern: str, place: str) -> Node:
    """Write pydantic-core's schema of the texts that match a pattern.

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


def drop_unsafe_pattern(schema: Node) -> Node:
    """Drop a pattern that no engine takes here from one schema of another program, which checks it itself."""
    try:
        if isinstance(schema.get("pattern"), str):
            write_pattern(schema["pattern"], "")
    except DefinitionError:
        return {keyword: value for keyword, value in schema.items() if keyword != "pattern"}
    return schema


def build_matcher(pattern: str, place: str) -> Callable[[str], bool]:
    """Build a function that checks whether a text matches a pattern.

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

    def match(text: str) -> str:
        if len(text) > longest:
            raise PydanticCustomError(
                "pattern_length", "String should have at most {most} characters", {"most": longest}
            )
        if not compiled.search(text):
            raise PydanticKnownError("string_pattern_mismatch", {"pattern": pattern})
        return text

    function = {"type": "no-info", "function": match}
    return {"type": "function-after", "function": function, "schema": {"type": "str"}}


def _count_branches(pattern: str) -> int | None:
    """Count where a pattern can branch; None where it does so inside a repetition."""
    counts = [0]  # of the groups that are open
    closed = 0  # of what stands before
    for sign in _REPEAT.findall(pattern):
        if sign[0] in "*+?{":
            if closed and sign not in ("?", "{0,1}", "{1}"):
                return None
            counts[-1] += sign[0] != "{" or "," in sign
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
