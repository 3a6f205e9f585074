"""OpenAI's Responses: calls and their outputs are items of their own.

Wire facts: `openai.types.responses` of the openai package, version 3.54, and the guide
https://developers.openai.com/api/docs/guides/tools-tool-search, read in November 2026: a tool that is loaded later
comes back in a namespace, its own name where it has no other, and a call goes back with the namespace it came with.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from typing_extensions import override

from toolkit._messages import ModelRequest, ToolCall, ToolResult, ToolSpec
from toolkit.choice import chosen, narrowed
from toolkit.dialects.calls import Calls
from toolkit.dialects.dialect import RunDialect
from toolkit.dialects.items import answer_of, call_in, input_of, is_call
from toolkit.dialects.rules import MINIMAL, PLAIN, STRICT
from toolkit.dialects.structured import asked
from toolkit.dialects.wire import gives_object, items, owned


class Responses(RunDialect):
    """Tools go out as flat functions, calls come back as items `function_call`."""

    name = "responses"
    rules, strict_rules = PLAIN, STRICT

    @override
    def answers(
        self, done: Sequence[tuple[ToolCall, ToolResult]], specs: Sequence[ToolSpec] = ()
    ) -> list[dict[str, Any]]:
        """Answer each call by an item; pictures and files stand in it."""
        return [answer_of(call, result, {}) for call, result in done]

    @override
    def calls(self, reply: Any, specs: Sequence[ToolSpec]) -> tuple[ToolCall, ...]:
        """Find the calls in a response, or its output; one that names another tool's group is of no tool."""
        return self.read("", tuple(self._found(reply)), specs)[1]

    def body(self, request: ModelRequest) -> dict[str, Any]:
        """Make input and tools; each message is turned into its wire form once in a run."""
        memo = request.memo
        groups = {spec.name: spec.namespace for spec in request.offered if spec.namespace}
        memo += ({"items": told} for told in input_of(request.messages[len(memo) :], groups))
        body: dict[str, Any] = {"input": [item for told in memo for item in told["items"]]}
        request = _told_by_the_list(request)
        if tools := self.tools(request.offered):
            body["tools"] = tools
        return body | _chosen(request) | _text(asked(request.output, self.form))

    def shows_text(self, request: ModelRequest) -> bool:
        """Tell that text is for people: calls come beside it, unless the answer itself is one."""
        return request.output is None or not request.output.by_tool

    def read(self, text: str, calls: Sequence[ToolCall], specs: Sequence[ToolSpec]) -> tuple[str, tuple[ToolCall, ...]]:
        """Take the text as it came, and the calls in their tools' own forms."""
        return text, owned(_routed(calls, specs), specs, self.form)

    def tools(self, specs: Sequence[ToolSpec]) -> list[dict[str, Any]]:
        """Show tools in their groups, and what finds those that are to be loaded later."""
        shown: dict[str, dict[str, Any]] = {}
        for spec in specs:
            function = {**self.tool(spec), "defer_loading": True} if spec.defer_loading else self.tool(spec)
            if spec.namespace is None:
                shown[f"function {spec.name}"] = function
                continue
            empty: dict[str, Any] = {"type": "namespace", "name": spec.namespace, "tools": []}
            shown.setdefault(f"namespace {spec.namespace}", empty)["tools"].append(function)
        searched = [{"type": "tool_search"}] if any(spec.defer_loading for spec in specs) else []
        return [*map(_described, shown.values()), *searched]

    def _shown(self, spec: ToolSpec) -> dict[str, Any]:
        form = self.form(spec)
        return {
            "type": "function",
            "name": spec.name,
            "description": spec.description,
            "parameters": form.schema,
            "strict": form.strict,  # left out, the server may decide for itself
            **({"output_schema": spec.output} if gives_object(spec) else {}),
        }

    def _found(self, reply: Any) -> Iterable[ToolCall]:
        """Read a response, or its output."""
        return map(call_in, filter(is_call, items(reply, "output")))


class MinimalResponses(Responses):
    """`responses`, for servers that know few keywords, and enforce none."""

    name = "minimal"
    rules = strict_rules = MINIMAL


class CallsResponses(Calls):
    """`calls` as `text.format` of OpenAI's Responses; what the model thought does not go back to it."""

    @override
    def body(self, request: ModelRequest) -> dict[str, Any]:
        """Make input and, where tools are on offer, the schema of the reply."""
        body = super().body(request)
        return {"input": [*map(_as_item, body["messages"])], **_text(body)}


def _routed(calls: Iterable[ToolCall], specs: Sequence[ToolSpec]) -> list[ToolCall]:
    """Give calls that name a group which their tool is not in the name of no tool."""
    places = {(spec.name, spec.namespace or spec.name) for spec in specs}
    lost = [bool(call.namespace) and (call.name, call.namespace) not in places for call in calls]
    return [replace(c, name=f"{c.namespace}.{c.name}") if is_lost else c for c, is_lost in zip(calls, lost)]


def _told_by_the_list(request: ModelRequest) -> ModelRequest:
    """Say by the list of tools what no choice can name: tools in a group, or not loaded yet."""
    hidden = {spec.name for spec in request.tools if spec.namespace or spec.defer_loading}
    if request.choice in hidden:
        return narrowed(replace(request, choice="required", allowed=(str(request.choice),)))
    return narrowed(request) if hidden.intersection(request.allowed or ()) else request


def _chosen(request: ModelRequest) -> dict[str, Any]:
    return chosen(
        request,
        lambda name: {"type": "function", "name": name},
        lambda mode, tools: {"type": "allowed_tools", "mode": mode, "tools": tools},
    )


def _described(shown: dict[str, Any]) -> dict[str, Any]:
    """Describe a group by what is in it: the model sees no more of tools that are loaded later."""
    if shown["type"] != "namespace":
        return shown
    return {**shown, "description": f"Tools: {', '.join(tool['name'] for tool in shown['tools'])}."}


def _text(body: dict[str, Any]) -> dict[str, Any]:
    """Write what Chat Completions call `response_format`."""
    if "response_format" not in body:
        return {}
    return {"text": {"format": {"type": "json_schema", **body["response_format"]["json_schema"]}}}


def _as_item(message: dict[str, Any]) -> dict[str, Any]:
    """Write a message of Chat Completions as an item."""
    content = message["content"]
    return message if isinstance(content, str) else {**message, "content": [*map(_as_part, content)]}


def _as_part(part: dict[str, Any]) -> dict[str, Any]:
    kind = part["type"]
    if kind == "text":
        return {"type": "input_text", "text": part["text"]}
    if kind == "file":
        return {"type": "input_file", **part["file"]}
    return {"type": "input_image", "image_url": part["image_url"]["url"]}
