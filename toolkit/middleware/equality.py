"""When two calls are the same: by the value of their arguments, not by their text."""

from __future__ import annotations

import json

from pydantic_core import from_json

from toolkit._messages import ToolCall


def identity_of(call: ToolCall) -> tuple[str, str]:
    """Give the tool's name and the arguments with sorted keys and no spaces; text that is no JSON stays as it is."""
    try:
        return call.name, json.dumps(from_json(call.arguments), sort_keys=True, separators=(",", ":"))
    except ValueError:
        return call.name, call.arguments
