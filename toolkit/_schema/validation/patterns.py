"""Regular expressions of ECMAScript, translated for the engine of Rust, which pydantic-core uses.

Its time is proportional to the text, so a foreign pattern cannot block a program. It supports no look-around and no
back references; Python's engine does, and may take exponential time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from pydantic_core import SchemaError, SchemaValidator

from toolkit._schema.validation.pointers import refuse
from toolkit.errors import DefinitionError

Node = dict[str, Any]

_TOKEN = re.compile(r"\\u\{[0-9A-Fa-f]+\}|\\u[0-9A-Fa-f]{4}|\\c[A-Za-z]|\\[pP]\{[^}]*\}|\\.|\[\^?\]?|.", re.DOTALL)
_WORD = "0-9A-Za-z_"
_SPACE = r"\s\x{FEFF}"
# Rust's tokens by those of ECMAScript, outside of a character class and inside.
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
    "[]": r"\[]",
    "[^]": r"\[\^]",
    "&": r"\&",
    "~": r"\~",
}


def write_pattern(pattern: str, place: str) -> Node:
    """Write pydantic-core's schema of the texts that match a pattern.

    Raises:
        DefinitionError: The engine does not support the pattern.
    """
    written = _translate(pattern)
    core: Any = {"type": "str", "pattern": written}
    try:
        SchemaValidator(core)
    except SchemaError as error:
        reason = str(error).strip().rpartition(": ")[2].rstrip(".")
        refuse(place, f"the pattern {pattern!r} cannot be used ({reason})", "Write it in plainer terms.")

    node: Node = core
    if written != pattern:  # the error names the pattern of the schema
        node = {"type": "custom-error", "custom_error_type": "string_pattern_mismatch", "schema": core}
        node["custom_error_context"] = {"pattern": pattern}
    return node


def drop_unsafe_pattern(schema: Node) -> Node:
    """Drop the pattern of a schema if the engine does not support it: the schema's own program checks it."""
    try:
        if isinstance(schema.get("pattern"), str):
            write_pattern(schema["pattern"], "")
    except DefinitionError:
        return {keyword: value for keyword, value in schema.items() if keyword != "pattern"}
    return schema


def build_matcher(pattern: str, place: str) -> Callable[[str], bool]:
    """Build a function that returns whether a text matches a pattern.

    Raises:
        DefinitionError: The engine does not support the pattern.
    """
    core: Any = write_pattern(pattern, place)
    return SchemaValidator(core).isinstance_python


def _translate(pattern: str) -> str:
    written = []
    is_inside = False
    for sign in _TOKEN.findall(pattern):
        known = _INSIDE if is_inside else _OUTSIDE
        written.append(known.get(sign) or _translate_escape(sign))
        is_inside = (is_inside or sign in ("[", "[^")) and sign not in ("]", "[]", "[^]")
    return "".join(written)


def _translate_escape(sign: str) -> str:
    if sign.startswith(r"\u{"):
        return rf"\U{int(sign[3:-1], 16):08x}"
    if sign.startswith(r"\c"):
        return rf"\x{ord(sign[2]) % 32:02x}"
    return "/" if sign == r"\/" else sign
