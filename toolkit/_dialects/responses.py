"""OpenAI's Responses: calls and their outputs are items of their own.

Wire facts: `openai.types.responses` of the openai package, version 3.54, and the guide
https://developers.openai.com/api/docs/guides/tools-tool-search, read in November 2026: a tool that is loaded later
comes back in a namespace, its own name where it has no other, and a call goes back with the namespace it came with.

A conversation as the items of OpenAI's Responses, in both directions.

What a model said goes back item by item as it came, so that no thought and nothing that this library does not know is
lost; of a call only its id, its name and its arguments are made acceptable. Where an answer no longer says what its
items say, since somebody has changed it, it is written anew. Nothing refers to what a server has kept: thoughts go
back only where they carry themselves, and where what they led to follows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import singledispatch
from typing import Any

from typing_extensions import override

from toolkit._dialects.base import (
    RunDialect,
    attribute,
    call_of,
    content_of,
    data_url,
    gives_object,
    items,
    output_request,
    owned,
)
from toolkit._dialects.calls import Calls
from toolkit._dialects.chat import lawful, legal
from toolkit._dialects.strict.rules import MINIMAL, PLAIN, STRICT
from toolkit._dialects.tool_choice import chosen, narrowed
from toolkit._messages import (
    File,
    Image,
    Message,
    ModelRequest,
    ModelResponse,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolResult,
    ToolSpec,
    UserMessage,
    collect_attachments,
    replace_surrogates,
)

Item = Mapping[str, Any]

# Calls that we answer, and the items that do so.
ANSWERS = {"function_call": "function_call_output", "custom_tool_call": "custom_tool_call_output"}


def to_plain_item(item: Any) -> dict[str, Any] | None:
    """Make plain data of an item, whatever its type, that can be sent back; None where it is none."""
    if hasattr(item, "model_dump"):
        item = item.model_dump(mode="python", by_alias=True, exclude_unset=True, warnings=False)
    if not isinstance(item, Mapping) or not isinstance(item.get("type"), str):
        return None
    text = replace_surrogates(json.dumps(item, ensure_ascii=False, default=str))
    found: dict[str, Any] = json.loads(text, parse_constant=lambda _: None)  # no request can carry NaN
    return found


def is_call(item: Any) -> bool:
    """Tell whether an item wants something to be carried out here."""
    kind = attribute(item, "type")
    return isinstance(kind, str) and kind in ANSWERS


def parse_call(item: Any) -> ToolCall:
    """Read a call as it was written."""
    arguments = attribute(item, "input" if attribute(item, "type") == "custom_tool_call" else "arguments")
    call, namespace = (
        call_of(attribute(item, "name"), arguments, attribute(item, "call_id")),
        attribute(item, "namespace"),
    )
    return replace(call, namespace=replace_surrogates(namespace)) if isinstance(namespace, str) else call


def output_text(items: Iterable[Any]) -> str:
    """Read what the model says to the user, refusals included."""
    return "".join(_item_text(item) for item in items if attribute(item, "type") == "message")


def reasoning_text(items: Iterable[Any]) -> str:
    """Read what the model shows of its thoughts: the summary, or else the thoughts themselves."""
    told = (attribute(item, "summary") or attribute(item, "content") for item in items if _is_thought(item))
    parts = (part for parts in told if isinstance(parts, list) for part in parts)
    return "\n\n".join(filter(None, (content_of(attribute(part, "text")) for part in parts)))


def answer_of(call: ToolCall | ToolMessage, result: ToolResult | ToolMessage, asked: Item) -> dict[str, Any]:
    """Answer a call by an item; pictures and files stand in it.

    Args:
        call: Whose id is answered.
        result: What the model is told.
        asked: The item that is answered, as far as it is known.
    """
    text, others = replace_surrogates(result.text or ""), _attachments(result.images, result.files)
    own_id = call.call_id if isinstance(call, ToolMessage) else call.id
    return {
        "type": ANSWERS[asked.get("type", "function_call")],
        "call_id": call.provider_call_id or own_id,
        "output": [*_told(text), *others] if others else text,
        **({"caller": asked["caller"]} if asked.get("caller") else {}),
    }


def input_of(messages: Sequence[Message], groups: Mapping[str, str]) -> Iterator[list[Item]]:
    """Write messages as items, those of each message together.

    Args:
        messages: Calls and their answers belong together: none of the answers may be missing.
        groups: The namespaces of tools that have one.
    """
    asked: dict[str, Item] = {}
    answers: list[ToolMessage] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            answers.append(message)
            yield [answer_of(message, message, asked.get(message.provider_call_id or message.call_id, {}))]
            continue
        shown_already = message in collect_attachments(answers)
        answers = []
        items = said(message, groups) if isinstance(message, ModelResponse) else encoded(message)
        asked.update((item["call_id"], item) for item in items if is_call(item))
        yield [] if shown_already else items


@singledispatch
def encoded(message: Message) -> list[Item]:
    """Write what is no word of the model, and no answer to one."""
    raise TypeError(f"{message!r} is not a message.")


@encoded.register
def _(message: SystemMessage) -> list[Item]:
    return [{"role": "system", "content": replace_surrogates(message.text)}]


@encoded.register
def _(message: UserMessage) -> list[Item]:
    text, others = replace_surrogates(message.text), _attachments(message.images, message.files)
    return [{"role": "user", "content": [*_told(text), *others] if others else text}]


def said(response: ModelResponse, groups: Mapping[str, str]) -> list[Item]:
    """Write an answer of the model as it came, or else anew."""
    if not _is_said_by(response.items, response):
        return _anew(response, groups)
    calls = iter(response.calls)
    items = [_acceptable(item, next(calls)) if is_call(item) else _mended(item) for item in response.items]
    lasting = [item for item in items if item]
    while lasting and _is_thought(lasting[-1]):
        lasting.pop()
    return lasting


def _is_said_by(items: Sequence[Item], response: ModelResponse) -> bool:
    """Tell whether items say what an answer says; hooks may have changed it, and its text may have been read."""
    written = [(call.name, call.arguments) for call in map(parse_call, filter(is_call, items))]
    meant = [(call.name, call.wire_arguments or call.arguments) for call in response.calls]
    return bool(items) and written == meant and output_text(items) == response.text


def _mended(item: Item) -> Item:
    """Keep an item as it came, but for thoughts and messages that would be refused; nothing may be left of those."""
    if _is_thought(item):
        is_known = _is_filled(item.get("id"), str) and isinstance(item.get("summary"), list)
        return item if is_known and (_is_filled(item.get("encrypted_content"), str) or item.get("content")) else {}
    if item["type"] == "message" and not _is_message(item):
        text = _item_text(item)
        return {"role": "assistant", "content": text} if text else {}
    return item


def _is_message(item: Item) -> bool:
    content: Any = item.get("content")
    members = {"output_text": "text", "refusal": "refusal"}
    return (
        item.get("role") == "assistant"
        and _is_filled(content, list)
        and all(isinstance(attribute(part, members.get(str(attribute(part, "type")), "")), str) for part in content)
    )


def _is_filled(value: Any, kind: type) -> bool:
    return isinstance(value, kind) and bool(value)


def _anew(response: ModelResponse, groups: Mapping[str, str]) -> list[Item]:
    text = [{"role": "assistant", "content": replace_surrogates(response.text)}] if response.text else []
    return [*text, *(_call(call, groups) for call in response.calls)]


def _call(call: ToolCall, groups: Mapping[str, str]) -> dict[str, Any]:
    item = _acceptable({"type": "function_call", "name": call.name, "arguments": ""}, call)
    return {**item, "namespace": groups[call.name]} if call.name in groups else item


def _acceptable(item: Item, call: ToolCall) -> dict[str, Any]:
    """Make a call one that no server refuses, whatever the model wrote; the words of a custom tool may be any."""
    taken = {**item, "call_id": call.provider_call_id or call.id, "name": legal(call.name)}
    if item["type"] == "function_call":
        taken["arguments"] = lawful(replace_surrogates(call.wire_arguments or call.arguments))
    return taken


def _attachments(images: Iterable[Image], files: Iterable[File]) -> list[dict[str, Any]]:
    shown = [{"type": "input_image", "image_url": data_url(image)} for image in images]
    return [*shown, *({"type": "input_file", "filename": f.name, "file_data": data_url(f)} for f in files)]


def _told(text: str) -> list[dict[str, Any]]:
    return [{"type": "input_text", "text": text}] if text else []


def _is_thought(item: Any) -> bool:
    return bool(attribute(item, "type") == "reasoning")


def _item_text(item: Any) -> str:
    content = attribute(item, "content")
    parts = content if isinstance(content, list) else [{"text": content}]
    return "".join(content_of(attribute(part, "text")) or content_of(attribute(part, "refusal")) for part in parts)


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
        groups = {spec.name: spec.namespace for spec in request.all_tools if spec.namespace}
        memo += ({"items": told} for told in input_of(request.messages[len(memo) :], groups))
        body: dict[str, Any] = {"input": [item for told in memo for item in told["items"]]}
        request = _told_by_the_list(request)
        if tools := self.tools(request.all_tools):
            body["tools"] = tools
        return body | _chosen(request) | _text(output_request(request.output, self.form))

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
        return map(parse_call, filter(is_call, items(reply, "output")))


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
