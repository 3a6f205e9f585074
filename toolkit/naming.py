"""Names for tools: what providers accept, and how a function's name becomes one."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

from toolkit._schema.annotations import without_partials

# What OpenAI and Anthropic accept as a tool's name; one bad name makes them refuse the whole request.
NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def legal_name(name: str) -> str:
    """Make a name that providers accept of one that they may refuse; names that differ stay apart.

    Letters lose their accents, what is left over becomes `_`, and what is too long ends in a hash of the whole.
    """
    if NAME.fullmatch(name):
        return name
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    legal = re.sub(r"[^A-Za-z0-9_-]+", "_", plain)
    legal = (legal.strip("_") if legal != name else legal) or "tool"
    if len(legal) <= 64 and len(plain) >= len(name):
        return legal
    import hashlib  # it takes longer to load than all of this module, and is seldom needed

    digest = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:8]
    return f"{legal[:55]}_{digest}"


def name_of(function: Any) -> str:
    """Find what a callable is called; an object that is called has the name of its class."""
    function = without_partials(function)
    written = getattr(function, "__name__", None)
    return (
        written
        if isinstance(written, str) and written
        else re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", type(function).__name__).lower()
    )
