"""OpenAI's Chat Completions, with native tool calls.

Wire facts: `openai.types.chat` of the openai package, version 3.54.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

from pydantic_core import from_json

from toolkit.dialects.forms import Form, form_of
from toolkit.dialects.rules import GRAMMAR, STRICT
from toolkit.dialects.structured import asked
from toolkit.dialects.wire import attribute, base64_of, call_of, owned, text_of, wants_strict
from toolkit.jsontext import as_text
from toolkit.messages import (
    IMAGES_TEXT,
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
    sendable,
)


@dataclass(frozen=True)
class Chat:
    """Tools go out as functions, calls come back as `tool_calls`.

    Attributes:
        strict: Whether the provider is to enforce the schemas of tools that have no opinion of their own.
    """

    name: str = "chat"
    strict: bool = False

    def form(self, spec: ToolSpec) -> Form:
        """Tell how a tool's arguments are shown."""
        return form_of(spec, STRICT if wants_strict(spec, otherwise=self.strict) else GRAMMAR)

    def tool(self, spec: ToolSpec) -> dict[str, Any]:
        """Show one tool; it is made once, and must not be changed."""
        shown: dict[str, Any] = spec.forms.get(self) or spec.forms.setdefault(self, self._shown(spec))
        return shown

    def calls(self, reply: Any, specs: Sequence[ToolSpec]) -> tuple[ToolCall, ...]:
        """Find the calls in a completion, or in its message."""
        return owned(map(_read_call, listed_calls(message_of(reply))), specs, self.form)

    def answers(
        self,
        done: Sequence[tuple[ToolCall, ToolResult]],
        specs: Sequence[ToolSpec] = (),  # noqa: ARG002  the signature is the dialects'
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
        return body | asked(request.output, self.form)

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


def pictures(done: Sequence[tuple[ToolCall, ToolResult]]) -> list[dict[str, Any]]:
    """Make the message that shows what pictures results have, where there are any."""
    images = tuple(image for _, result in done for image in result.images)
    return [encoded(UserMessage(IMAGES_TEXT, images))] if images else []


def message_of(reply: Any) -> Any:
    """Find the message in a completion; a message alone is one, too."""
    choices = attribute(reply, "choices")
    return attribute(choices[0], "message") if isinstance(choices, (list, tuple)) and choices else reply


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
    if not message.images:
        return {"role": "user", "content": sendable(message.text)}
    parts: list[dict[str, Any]] = [{"type": "text", "text": sendable(message.text)}] if message.text else []
    return {
        "role": "user",
        "content": [*parts, *({"type": "image_url", "image_url": {"url": data_url(i)}} for i in message.images)],
    }


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
    return {"role": "tool", "tool_call_id": message.wire_id or message.call_id, "content": sendable(message.text)}


def data_url(image: Image) -> str:
    """Write a picture into a URL."""
    return f"data:{image.media_type};base64,{base64_of(image)}"


_OURS = (SystemMessage, UserMessage, ModelResponse, ToolMessage)


def decoded(messages: Iterable[Message | Mapping[str, Any]]) -> list[Message]:
    """Read a history in wire form; messages that are ours already stay as they are.

    Raises:
        ValueError: A message has no role, or one that is not known; or it lacks what messages of its role have.
        TypeError: Something is no message at all.
    """
    read: list[Message] = []
    names: dict[str, str] = {}
    for message in messages:
        known = message if isinstance(message, _OURS) else _decoded(_as_mapping(message), names)
        if isinstance(known, ModelResponse):
            names.update((call.wire_id, call.name) for call in known.calls)
        read.append(known)
    return read


def _read_call(item: Any) -> ToolCall:
    function = attribute(item, "function") or attribute(item, "custom")
    arguments = attribute(function, "arguments")
    return call_of(
        attribute(function, "name"),
        attribute(function, "input") if arguments is None else arguments,
        attribute(item, "id"),
    )


def _answer(call: ToolCall, result: ToolResult) -> dict[str, Any]:
    return encoded(ToolMessage(call_id=call.id, wire_id=call.wire_id, name=call.name, text=text_of(result)))


def _encoded_call(call: ToolCall) -> dict[str, Any]:
    # What is sent must be acceptable whatever the model wrote, or every later request of the conversation is refused.
    function = {"name": _legal(call.name), "arguments": _strict(sendable(call.wire_arguments or call.arguments))}
    return {"id": call.wire_id or call.id, "type": "function", "function": function}


def _legal(name: str) -> str:
    if re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name):
        return name
    legal = re.sub(r"[^A-Za-z0-9_-]+", "_", name)[:64]
    return legal if legal.strip("_") else "unknown"


def _strict(text: str) -> str:
    try:
        return text if isinstance(from_json(text, allow_inf_nan=False), dict) else "{}"
    except ValueError:
        return "{}"


def _as_mapping(message: Any) -> Mapping[str, Any]:
    if hasattr(message, "model_dump"):  # an answer of the openai package, put into the history as it is
        message = message.model_dump()
    if not isinstance(message, Mapping):
        raise TypeError(f"{message!r} is not a message: it takes those of another result, or dicts in OpenAI's form.")
    return message


def _decoded(message: Mapping[str, Any], names: Mapping[str, str]) -> Message:
    role, content = message.get("role"), message.get("content")
    text = content if isinstance(content, str) else _text_of(content)
    if role in ("system", "developer"):
        return SystemMessage(text)
    if role == "user":
        return UserMessage(text, tuple(_images_of(content)))
    if role == "assistant":
        calls = tuple(map(_decoded_call, message.get("tool_calls") or ()))
        return ModelResponse(text=text, calls=calls, reasoning=message.get("reasoning_content") or "")
    if role == "tool":
        if not isinstance(wire_id := message.get("tool_call_id"), str):
            raise ValueError(
                f"A message of the role 'tool' needs the tool_call_id that it answers; this is {message!r}."
            )
        return ToolMessage(call_id=wire_id, wire_id=wire_id, name=names.get(wire_id, ""), text=text)
    raise ValueError(f"A message's role is one of system, developer, user, assistant, tool; this one has {role!r}.")


def _decoded_call(call: Mapping[str, Any]) -> ToolCall:
    wire_id, function = call.get("id"), call.get("function") or {}
    if not isinstance(wire_id, str) or "name" not in function:
        raise ValueError(f"A tool call needs an id and a function with a name; this is {call!r}.")
    return ToolCall(id=wire_id, wire_id=wire_id, name=function["name"], arguments=as_text(function.get("arguments")))


def _text_of(content: Any) -> str:
    return "".join(part.get("text") or "" for part in content or ())


def _images_of(content: Any) -> Iterable[Image]:
    parts = () if isinstance(content, str) else content or ()
    for part in parts:
        if isinstance(part.get("text"), str):
            continue
        url = (part.get("image_url") or {}).get("url", "")
        head, comma, data = url.partition(";base64,")
        if not comma:
            raise ValueError(
                f"A user's message holds text and pictures as data URLs; this is neither: {str(part)[:100]}"
            )
        yield Image(base64.b64decode(data), head.removeprefix("data:"))
