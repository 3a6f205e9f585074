"""OpenAI's Chat Completions, with native tool calls.

Wire facts: `openai.types.chat` of the openai package, version 3.54.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import singledispatch
from typing import Any

from pydantic_core import from_json
from typing_extensions import override

from toolkit._messages import (
    Message,
    ModelRequest,
    ModelResponse,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolResult,
    ToolSpec,
    UserMessage,
    attached,
    sendable,
)
from toolkit.choice import chosen
from toolkit.dialects.dialect import RunDialect
from toolkit.dialects.rules import GRAMMAR, MINIMAL, STRICT
from toolkit.dialects.structured import asked
from toolkit.dialects.wire import attribute, call_of, data_url, function_of, owned, text_of


class Chat(RunDialect):
    """Tools go out as functions, calls come back as `tool_calls`."""

    name = "chat"
    rules, strict_rules = GRAMMAR, STRICT

    @override
    def answers(
        self, done: Sequence[tuple[ToolCall, ToolResult]], specs: Sequence[ToolSpec] = ()
    ) -> list[dict[str, Any]]:
        """Answer each call by a message of the role tool; pictures follow in one of the user."""
        return [*(_answer(call, result) for call, result in done), *pictures(done)]

    def body(self, request: ModelRequest) -> dict[str, Any]:
        """Make messages and tools; each message is turned into its wire form once in a run."""
        memo = request.memo
        memo += map(encoded, request.messages[len(memo) :])
        body: dict[str, Any] = {"messages": list(memo)}  # whoever keeps it sees it as it was, not as the run goes on
        if tools := [self.tool(spec) for spec in request.offered]:
            body["tools"] = tools
        return body | _chosen(request) | asked(request.output, self.form)

    def shows_text(self, request: ModelRequest) -> bool:
        """Tell that text is for people: calls come beside it, unless the answer itself is one."""
        return request.output is None or not request.output.by_tool

    def read(self, text: str, calls: Sequence[ToolCall], specs: Sequence[ToolSpec]) -> tuple[str, tuple[ToolCall, ...]]:
        """Take the text as it came, and the calls in their tools' own forms."""
        return text, owned(calls, specs, self.form)

    def _shown(self, spec: ToolSpec) -> dict[str, Any]:
        form = self.form(spec)
        function = {"name": spec.name, "description": spec.description, "parameters": form.schema}
        return {"type": "function", "function": {**function, "strict": True} if form.strict else function}

    def _found(self, reply: Any) -> Iterable[ToolCall]:
        """Read a completion, or its message."""
        return map(_read_call, listed_calls(message_of(reply)))


class Minimal(Chat):
    """`chat`, for gateways and servers that refuse keywords which they do not know, and enforce none."""

    name = "minimal"
    rules = strict_rules = MINIMAL


def _chosen(request: ModelRequest) -> dict[str, Any]:
    return chosen(
        request,
        lambda name: {"type": "function", "function": {"name": name}},
        lambda mode, tools: {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}},
    )


def pictures(done: Sequence[tuple[ToolCall, ToolResult]]) -> list[dict[str, Any]]:
    """Make the message that shows what pictures and files results have, where there are any."""
    return list(map(encoded, attached(result for _, result in done)))


def message_of(reply: Any) -> Any:
    """Find the message in a completion; a message alone is one, too."""
    choice = choice_of(reply)
    return reply if choice is None else attribute(choice, "message")


def choice_of(reply: Any) -> Any:
    """Find the first choice in a completion or a chunk; None where there is none."""
    choices = attribute(reply, "choices")
    return choices[0] if isinstance(choices, (list, tuple)) and choices else None


def listed_calls(message: Any) -> list[Any]:
    """List the calls of a message or a delta, those in the form before `tool_calls` too."""
    listed = attribute(message, "tool_calls")
    former = attribute(message, "function_call")
    calls = [call for call in listed if call is not None] if isinstance(listed, (list, tuple)) else []
    return [*calls, {"function": former}] if former and not calls else calls


@singledispatch
def encoded(message: Message) -> dict[str, Any]:
    """Write a message in its wire form."""
    raise TypeError(f"{message!r} is not a message.")


@encoded.register
def _(message: SystemMessage) -> dict[str, Any]:
    return {"role": "system", "content": sendable(message.text)}


@encoded.register
def _(message: UserMessage) -> dict[str, Any]:
    if not (message.images or message.files):
        return {"role": "user", "content": sendable(message.text)}
    text = [{"type": "text", "text": sendable(message.text)}] if message.text else []
    images = [{"type": "image_url", "image_url": {"url": data_url(image)}} for image in message.images]
    files = [{"type": "file", "file": {"filename": f.name, "file_data": data_url(f)}} for f in message.files]
    return {"role": "user", "content": [*text, *images, *files]}


@encoded.register
def _(message: ModelResponse) -> dict[str, Any]:
    wire: dict[str, Any] = {"role": "assistant", "content": sendable(message.text) or (None if message.calls else "")}
    if message.reasoning:
        wire["reasoning_content"] = sendable(message.reasoning)
    if message.calls:
        wire["tool_calls"] = [_encoded_call(call) for call in message.calls]
    return wire


@encoded.register
def _(message: ToolMessage) -> dict[str, Any]:
    return {
        "role": "tool",
        "tool_call_id": message.provider_call_id or message.call_id,
        "content": sendable(message.text),
    }


def _read_call(item: Any) -> ToolCall:
    return call_of(*function_of(item), attribute(item, "id"))


def _answer(call: ToolCall, result: ToolResult) -> dict[str, Any]:
    return encoded(
        ToolMessage(call_id=call.id, provider_call_id=call.provider_call_id, name=call.name, text=text_of(result))
    )


def _encoded_call(call: ToolCall) -> dict[str, Any]:
    # What is sent must be acceptable whatever the model wrote, or every later request of the conversation is refused.
    function = {"name": legal(call.name), "arguments": lawful(sendable(call.wire_arguments or call.arguments))}
    return {"id": call.provider_call_id or call.id, "type": "function", "function": function}


def legal(name: str) -> str:
    """Make a name that no server refuses, whatever the model wrote."""
    if re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name):
        return name
    legal = re.sub(r"[^A-Za-z0-9_-]+", "_", name)[:64]
    return legal if legal.strip("_") else "unknown"


def lawful(text: str) -> str:
    """Make the text of a JSON object of what the model wrote; an empty one where it is none."""
    try:
        return text if isinstance(from_json(text, allow_inf_nan=False), dict) else "{}"
    except ValueError:
        return "{}"
