"""Digests of calls and of tools' definitions, which bind an approval or a record to one call.

A digest is the same in every process, whatever the order of keys. It covers what the model wrote, so a default that the
tool makes for each call is not part of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from toolkit._messages import ToolCall
from toolkit._schema.json_text import load_json, make_digest
from toolkit._tools.handlers import Handler
from toolkit._tools.tool import Tool, find_instance, name_function
from toolkit.errors import DefinitionError

# Increased when the digest covers something else. A saved approval of another version is asked for again.
DIGEST_VERSION = 4


def digest_call(
    tool: Tool[..., Any], call: ToolCall, run_id: str, imports: Mapping[str, Any] = MappingProxyType({})
) -> str:
    """Return the SHA-256 of a call: its run, its id, its tool's definition, its arguments and what it imports."""
    try:
        arguments = load_json(call.arguments)
    except ValueError:  # it is repaired before it runs, the same text always in the same way
        arguments = call.arguments
    return make_digest([run_id, call.id, digest_definition(tool), arguments, dict(imports)])


def digest_definition(tool: Tool[..., Any]) -> str:
    """Return the SHA-256 of a tool's definition: name, function, description, parameters, effect, and what it reaches.

    The function counts by its qualified name without its module: a function in another file is still the same. What it
    reaches is the function that is bound to it, by its name and its activity, and the `identity` that its instance
    states, such as a directory.
    """
    definition = [tool.name, name_function(tool), tool.description, tool.parameters, tool.settings.effect]
    return make_digest([DIGEST_VERSION, *definition, *_get_reach(tool.handler)])


def _get_reach(handler: Handler) -> list[str | None]:
    function = handler.function_handler
    if function is None:
        return []
    identity = getattr(find_instance(function), "identity", None)
    own = "" if identity is None or callable(identity) else str(identity)
    if function is handler:
        return [own]
    return [getattr(function.signature.source, "__qualname__", ""), handler.activity, own]


def check_identity(tool: Tool[..., Any]) -> None:
    """Check that the instance of a tool does not state its `identity` by a method, which would be ignored.

    Raises:
        DefinitionError: It does.
    """
    instance = find_instance(tool)
    if callable(getattr(instance, "identity", None)):
        raise DefinitionError(
            f"{type(instance).__qualname__}.identity is a method, so approvals that wait cannot be bound to an object. "
            "Make it a @property or an attribute, whose value is a text."
        )
