"""What is said about a call, in the keys that stand beside its arguments and begin with an underscore."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from toolkit.parts import sendable

TOOL, ACTIVITY, REASONING, OUTPUT = "_tool", "_activity", "_reasoningForCall", "_output"
INSTANCE, OUTPUT_PATH, MODULE, IMPORTS = "_instance", "_outputPath", "_module", "_imports"

# In the order in which they are shown, in front of the arguments.
META = (TOOL, ACTIVITY, MODULE, IMPORTS, INSTANCE, OUTPUT_PATH, REASONING, OUTPUT)


def parted(document: Mapping[str, Any], keys: Collection[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Part what a model wrote into the arguments, and the fields of a call that hold what it said about it.

    Args:
        document: The arguments as they came.
        keys: Those that are none of the tool's arguments.
    """
    said = {_FIELDS[key]: value for key, value in document.items() if key in keys and key in _FIELDS}
    fields = {field: sendable(value) for field, value in said.items() if isinstance(value, str)}
    return {key: value for key, value in document.items() if key not in keys}, fields | _listed(document, keys)


def _listed(document: Mapping[str, Any], keys: Collection[str]) -> dict[str, Any]:
    named = document.get(IMPORTS) if IMPORTS in keys else None
    return (
        {"imports": tuple(sendable(name) for name in named if isinstance(name, str))} if isinstance(named, list) else {}
    )


_FIELDS = {REASONING: "reasoning", INSTANCE: "instance", OUTPUT_PATH: "output_path"}
