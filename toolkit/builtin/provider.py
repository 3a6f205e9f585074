"""Tools that the model's provider executes: web search, file search, a code interpreter.

    Runner([add, provider_tool("web_search")], api="responses")

The provider calls and executes them while it answers, so single calls cannot be refused. Instead, the gates of a run
decide whether it may offer such a tool to the model, with the tool's settings as the arguments.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, get_args

from toolkit._messages import Effect
from toolkit._tools.tool import Tool, with_origin
from toolkit.errors import DefinitionError

ProviderToolName: TypeAlias = Literal["web_search", "file_search", "code_interpreter"]

DESCRIPTIONS: Mapping[str, str] = {
    "web_search": "Search the web; executed by the model's provider.",
    "file_search": "Search files that the provider stores; executed by the model's provider.",
    "code_interpreter": "Run Python in a container of the provider; executed by the model's provider.",
}
EFFECTS: Mapping[str, Effect] = {"web_search": "read", "file_search": "read"}
# Settings that the provider requires: those with a default, and those that the application has to pass.
DEFAULTS: Mapping[str, Mapping[str, Any]] = {"code_interpreter": {"container": {"type": "auto"}}}
REQUIRED: Mapping[str, str] = {"file_search": "vector_store_ids"}
PARAMETERS: Mapping[str, Any] = {"type": "object", "properties": {}, "additionalProperties": True}


class _ProviderHandler:
    """The function of a tool that the provider executes; `provider_form` is the tool in a request to the provider."""

    def __init__(self, provider_form: Mapping[str, Any]) -> None:
        self.provider_form = provider_form

    def __call__(self, settings: dict[str, Any]) -> str:  # noqa: ARG002  they are for the gates
        """Return a note: the call only passes the gates, and the provider executes the tool."""
        return f"{self.provider_form['type']} is executed by the model's provider."


def provider_tool(name: ProviderToolName, **settings: Any) -> Tool[..., Any]:
    """Make a tool that OpenAI executes itself, for Responses; every other API refuses it.

    Each use is an event in the run, and stays in the conversation. The gates of a run are asked once, before it offers
    the tool, with the settings as arguments. If they do not allow it, the run does not offer the tool.

    Args:
        name: "web_search", "file_search" or "code_interpreter".
        **settings: Further keys of the tool in a request, such as `vector_store_ids=["vs_1"]` of a file search.

    Raises:
        DefinitionError: There is no such tool, or a setting is missing or has no JSON form.

    Examples:
        >>> from toolkit import Toolbox
        >>> Toolbox([provider_tool("web_search", search_context_size="low")]).schemas("responses")
        [{'type': 'web_search', 'search_context_size': 'low'}]
    """
    if name not in get_args(ProviderToolName):
        names = ", ".join(map(repr, get_args(ProviderToolName)))
        raise DefinitionError(f"provider_tool({name!r}) is not one of {names}.")

    settings = {**DEFAULTS.get(name, {}), **settings}
    if (required := REQUIRED.get(name, "")) and not settings.get(required):
        raise DefinitionError(f"provider_tool({name!r}) needs {required}=[...].")

    try:
        json.dumps(settings, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise DefinitionError(f"provider_tool({name!r}) has a setting that is not JSON: {error}") from None

    function = _ProviderHandler({"type": name, **settings})
    effect = EFFECTS.get(name)
    tool = Tool.from_schema(name, PARAMETERS, function, description=DESCRIPTIONS[name], effect=effect, trust="foreign")
    return with_origin(tool, "a tool of the model's provider")
