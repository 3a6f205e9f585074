"""OpenAI's Responses: tools, calls, and conversations as items.

Sources: `openai.types.responses` of the openai package, version 3.57, and the guide
https://developers.openai.com/api/docs/guides/tools-tool-search, read in November 2026: a call of a tool that is loaded
later has a namespace, the tool's own name if it is in no other, and is sent back with that namespace.

The items of a model's answer are sent back unchanged, so that no reasoning and nothing unknown to this library is lost;
only a call's id, name and arguments are made acceptable. An answer that was changed since, by a hook for example, is
written from its text and calls. No item refers to data that a server has stored: reasoning is sent back only with its
content or its encrypted form, and only if an item of the model follows it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from typing_extensions import override

from toolkit._dialects.base import (
    FinishedCalls,
    RunDialect,
    data_url,
    describe,
    get_member,
    has_object_output,
    join_text,
    list_items,
    make_call,
)
from toolkit._dialects.chat import is_detail, sanitize_arguments, sanitize_name
from toolkit._dialects.strict.rules import GRAMMAR, STRICT
from toolkit._dialects.tool_choice import offer_allowed, render_choice
from toolkit._messages import (
    File,
    Image,
    Message,
    ModelRequest,
    ModelResponse,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
    collect_attachments,
    make_message,
    replace_surrogates,
)

Item = Mapping[str, Any]

# Type of a call -> type of the item that answers it.
ANSWERS = {"function_call": "function_call_output", "custom_tool_call": "custom_tool_call_output"}


class Responses(RunDialect):
    """Tools go out as flat functions, calls come back as items `function_call`."""

    name = "responses"
    rules = GRAMMAR
    strict_rules = STRICT

    @override
    def render_results(self, done: FinishedCalls, specs: Sequence[ToolSpec] = ()) -> list[dict[str, Any]]:
        """Answer each call by an item with its text, images and files."""
        return [_render_answer(make_message(*each), {}) for each in done]

    def render_request(self, request: ModelRequest) -> dict[str, Any]:
        """Write input and tools; each message is converted to its wire form once in a run."""
        memo = request.memo
        namespaces = {spec.name: spec.namespace for spec in request.all_tools if spec.namespace}
        memo += ({"items": items} for items in render_input(request.messages[len(memo) :], namespaces))
        body: dict[str, Any] = {"input": [item for entry in memo for item in entry["items"]]}
        request = _apply_hidden_choice(request)
        if tools := self.render_tools(request.all_tools):
            body["tools"] = tools
        choice = render_choice(request, lambda kind, members: {"type": kind, **members})
        return body | choice | _render_text_format(self.render_output_format(request.output))

    @override
    def decode_calls(self, calls: Iterable[ToolCall], specs: Sequence[ToolSpec]) -> tuple[ToolCall, ...]:
        """Decode calls. Rename a call with a wrong namespace `namespace.name`, which is not the name of a tool."""
        known = {(spec.name, spec.namespace or spec.name) for spec in specs}
        named = [
            replace(call, name=f"{call.namespace}.{call.name}")
            if call.namespace and (call.name, call.namespace) not in known
            else call
            for call in calls
        ]
        return super().decode_calls(named, specs)

    def render_tools(self, specs: Sequence[ToolSpec]) -> list[dict[str, Any]]:
        """Write tools in their namespaces, and the tool that searches for tools to be loaded later."""
        tools: dict[str, dict[str, Any]] = {}
        for spec in specs:
            function = (
                {**self.render_tool(spec), "defer_loading": True} if spec.defer_loading else self.render_tool(spec)
            )
            if spec.namespace is None:
                tools[f"function {spec.name}"] = function
                continue
            empty: dict[str, Any] = {"type": "namespace", "name": spec.namespace, "tools": []}
            tools.setdefault(f"namespace {spec.namespace}", empty)["tools"].append(function)

        search = [{"type": "tool_search"}] if any(spec.defer_loading for spec in specs) else []
        return [*map(_describe_namespace, tools.values()), *search]

    @override
    def render_provider_tool(self, name: str, form: Mapping[str, Any]) -> dict[str, Any]:
        """Write a tool that the provider executes."""
        return dict(form)

    def _render_tool(self, spec: ToolSpec) -> dict[str, Any]:
        form = self.form(spec)
        return {
            "type": "function",
            "name": spec.name,
            **describe(spec),
            "parameters": form.schema,
            "strict": form.strict,  # the server's own default may differ
            **({"output_schema": spec.output} if has_object_output(spec) else {}),
        }

    @override
    def _without_reasoning(self, wire: dict[str, Any]) -> dict[str, Any]:
        return {"items": [item for item in wire["items"] if not _is_reasoning(item)]}

    def _parse_calls(self, reply: Any) -> Iterable[ToolCall]:
        """Read a response, or its output."""
        return map(parse_call, filter(is_call, list_items(reply, "output")))


def _apply_hidden_choice(request: ModelRequest) -> ModelRequest:
    """Express a choice of tools that it cannot name, such as those in a namespace or loaded later, by offering them."""
    if request.allowed is not None:  # the provider would execute its other tools
        own = tuple(spec for spec in request.tools if not spec.provider_form or spec.name in request.allowed)
        request = replace(request, tools=own)
    hidden = {spec.name for spec in request.tools if spec.namespace or spec.defer_loading or spec.provider_form}
    if request.choice in hidden:
        return offer_allowed(replace(request, choice="required", allowed=(str(request.choice),)))
    return offer_allowed(request) if hidden.intersection(request.allowed or ()) else request


def _describe_namespace(tool: dict[str, Any]) -> dict[str, Any]:
    """Describe a namespace by its tools: of tools that are loaded later, the model sees only this description."""
    if tool["type"] != "namespace":
        return tool
    return {**tool, "description": f"Tools: {', '.join(inner['name'] for inner in tool['tools'])}."}


def _render_text_format(body: dict[str, Any]) -> dict[str, Any]:
    """Translate the `response_format` of Chat Completions."""
    if "response_format" not in body:
        return {}
    return {"text": {"format": {"type": "json_schema", **body["response_format"]["json_schema"]}}}


def is_call(item: Any) -> bool:
    """Return whether an item is a call that this library executes."""
    kind = get_member(item, "type")
    return isinstance(kind, str) and kind in ANSWERS


def parse_call(item: Any) -> ToolCall:
    """Read a call with the arguments that the model wrote."""
    arguments = get_member(item, "input" if get_member(item, "type") == "custom_tool_call" else "arguments")
    call = make_call(get_member(item, "name"), arguments, get_member(item, "call_id"))
    namespace = get_member(item, "namespace")
    return replace(call, namespace=replace_surrogates(namespace)) if isinstance(namespace, str) else call


def output_text(items: Iterable[Any]) -> str:
    """Join the text of messages, refusals included. Comments on the way to another message are not the answer."""
    messages = [item for item in items if get_member(item, "type") == "message"]
    answers = [item for item in messages if get_member(item, "phase") != "commentary"]
    return "".join(map(_item_text, answers or messages))


def reasoning_text(items: Iterable[Any]) -> str:
    """Join the model's reasoning: the summary, or else the reasoning itself."""
    texts = (get_member(item, "summary") or get_member(item, "content") for item in items if _is_reasoning(item))
    parts = (part for parts in texts if isinstance(parts, list) for part in parts)
    return "\n\n".join(filter(None, (join_text(get_member(part, "text")) for part in parts)))


def _render_answer(message: ToolMessage, call_item: Item) -> dict[str, Any]:
    """Write the item that answers a call, with images and files. The call's own item is empty if it is unknown."""
    text = replace_surrogates(message.text)
    others = _render_attachments(message.images, message.files)
    return {
        "type": ANSWERS[call_item.get("type", "function_call")],
        "call_id": message.provider_call_id or message.call_id,
        "output": [*_render_text(text), *others] if others else text,
        **({"caller": call_item["caller"]} if call_item.get("caller") else {}),
    }


def render_input(messages: Sequence[Message], namespaces: Mapping[str, str]) -> Iterator[list[Item]]:
    """Yield the items of messages in which each call has its answer; `namespaces` are those of tools, by name."""
    call_items: dict[str, Item] = {}
    answers: list[ToolMessage] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            answers.append(message)
            yield [_render_answer(message, call_items.get(message.provider_call_id or message.call_id, {}))]
            continue
        if isinstance(message, ModelResponse):
            items = render_response(message, namespaces)
            call_items.update((item["call_id"], item) for item in items if is_call(item))
            yield items
        else:
            yield [] if message in collect_attachments(answers) else [_render_prompt(message)]
        answers = []


def _render_prompt(message: SystemMessage | UserMessage) -> Item:
    """Write a message of the system or the user."""
    text = replace_surrogates(message.text)
    if isinstance(message, SystemMessage):
        return {"role": "system", "content": text}
    others = _render_attachments(message.images, message.files)
    return {"role": "user", "content": [*_render_text(text), *others] if others else text}


def render_response(response: ModelResponse, namespaces: Mapping[str, str]) -> list[Item]:
    """Return the items of a model's answer, or write it from text and calls if it was changed."""
    if not _is_unchanged(response.items, response):
        return _rewrite_response(response, namespaces)
    calls = iter(response.calls)
    items = [_sanitize_call(item, next(calls)) if is_call(item) else _sanitize_item(item) for item in response.items]
    rest = [item for item in items if item]
    while rest and _is_reasoning(rest[-1]):
        rest.pop()
    return rest


def _is_unchanged(items: Sequence[Item], response: ModelResponse) -> bool:
    """Return whether an answer still equals its items: hooks may have changed it, or the text was parsed."""
    received = [(call.name, call.arguments) for call in map(parse_call, filter(is_call, items))]
    current = [(call.name, call.wire_arguments or call.arguments) for call in response.calls]
    return bool(items) and received == current and output_text(items) == response.text


def _sanitize_item(item: Item) -> Item:
    """Return an item unchanged, or changed so that no server refuses it. Return {} if that is impossible."""
    if _is_reasoning(item):
        has_id = _is_filled(item.get("id"), str) and isinstance(item.get("summary"), list)
        return item if has_id and (_is_filled(item.get("encrypted_content"), str) or item.get("content")) else {}
    if item["type"] == "message" and not _is_message(item):
        text = _item_text(item)
        return {"role": "assistant", "content": text} if text else {}
    return {} if is_detail(item) else item


# The member with the text of a part, by the type of the part.
_TEXT_MEMBERS = {"output_text": "text", "refusal": "refusal"}


def _is_message(item: Item) -> bool:
    """Return whether an item is a message of the model whose parts all have a text."""
    content: Any = item.get("content")
    if item.get("role") != "assistant" or not _is_filled(content, list):
        return False

    for part in content:
        member = _TEXT_MEMBERS.get(str(get_member(part, "type")), "")
        if not isinstance(get_member(part, member), str):
            return False
    return True


def _is_filled(value: Any, kind: type) -> bool:
    return isinstance(value, kind) and bool(value)


def _rewrite_response(response: ModelResponse, namespaces: Mapping[str, str]) -> list[Item]:
    text = [{"role": "assistant", "content": replace_surrogates(response.text)}] if response.text else []
    return [*text, *(_render_call(call, namespaces) for call in response.calls)]


def _render_call(call: ToolCall, namespaces: Mapping[str, str]) -> dict[str, Any]:
    item = _sanitize_call({"type": "function_call", "name": call.name, "arguments": ""}, call)
    return {**item, "namespace": namespaces[call.name]} if call.name in namespaces else item


def _sanitize_call(item: Item, call: ToolCall) -> dict[str, Any]:
    """Return a call with an id, a name and arguments that servers accept. A custom tool's input may be any text."""
    sanitized = {**item, "call_id": call.provider_call_id or call.id, "name": sanitize_name(call.name)}
    if item["type"] == "function_call":
        sanitized["arguments"] = sanitize_arguments(replace_surrogates(call.wire_arguments or call.arguments))
    return sanitized


def _render_attachments(images: Iterable[Image], files: Iterable[File]) -> list[dict[str, Any]]:
    parts = [{"type": "input_image", "image_url": data_url(image)} for image in images]
    return [*parts, *({"type": "input_file", "filename": f.name, "file_data": data_url(f)} for f in files)]


def _render_text(text: str) -> list[dict[str, Any]]:
    return [{"type": "input_text", "text": text}] if text else []


def _is_reasoning(item: Any) -> bool:
    return bool(get_member(item, "type") == "reasoning")


def _item_text(item: Any) -> str:
    content = get_member(item, "content")
    parts = content if isinstance(content, list) else [{"text": content}]
    return "".join(join_text(get_member(part, "text")) or join_text(get_member(part, "refusal")) for part in parts)
