"""Values as people are shown them before they say yes: nothing hidden, nothing that looks like something else."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic_core import to_jsonable_python

from toolkit._schema.json_text import escaped
from toolkit.digests import canonical


def shown(values: Mapping[str, Any], indent: int | None = None) -> str:
    """Write arguments as JSON, with whatever is unseen, or looks like a Latin letter beside one, as an escape.

    A reader of JSON gets the same values from it as without the escapes.
    """
    plain = {name: _plain(value) for name, value in values.items()}
    return escaped(json.dumps(plain, ensure_ascii=False, indent=indent), keep="\n")


def shortened(text: str, most: int) -> str:
    """Cut the middle out of a long text, and say so, with what tells the whole one from others."""
    if len(text) <= most:
        return text
    import hashlib  # as in `digests`

    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    note = f"\n... {len(text) - most:,} of {len(text):,} characters are not shown here; SHA-256 of all: {digest} ...\n"
    return text[: most - most // 4] + note + text[len(text) - most // 4 :]


def _plain(value: Any) -> Any:
    if isinstance(value, (set, frozenset)):
        value = sorted(value, key=canonical)
    return to_jsonable_python(value, bytes_mode="base64", fallback=repr)
