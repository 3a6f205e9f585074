"""OpenAI's Chat Completions, with native tool calls.

Wire facts: `openai.types.chat` of the openai package, version 3.54.

A history in OpenAI's form -> our messages.

Older forms are read, too: `function_call`, and messages of the role `function`. A call of a custom tool becomes one
whose argument is its `input`. Ids that are missing stay empty: whoever repairs the history gives others.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import singledispatch
from typing import Any, TypeAlias

from pydantic_core import from_json
from typing_extensions import override

from toolkit._dialects.base import RunDialect, attribute, call_of, data_url, function_of, output_request, owned, text_of
from toolkit._dialects.strict.rules import GRAMMAR, MINIMAL, STRICT
from toolkit._dialects.tool_choice import chosen
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
from toolkit._schema.json_text import to_json_text


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
        if tools := [self.tool(spec) for spec in request.all_tools]:
            body["tools"] = tools
        return body | _chosen(request) | output_request(request.output, self.form)

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
        return map(_read_call, list_calls(message_of(reply)))


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
    return list(map(encoded, collect_attachments(result for _, result in done)))


def message_of(reply: Any) -> Any:
    """Find the message in a completion; a message alone is one, too."""
    choice = first_choice(reply)
    return reply if choice is None else attribute(choice, "message")


def first_choice(reply: Any) -> Any:
    """Find the first choice in a completion or a chunk; None where there is none."""
    choices = attribute(reply, "choices")
    return choices[0] if isinstance(choices, (list, tuple)) and choices else None


def list_calls(message: Any) -> list[Any]:
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
    return {"role": "system", "content": replace_surrogates(message.text)}


@encoded.register
def _(message: UserMessage) -> dict[str, Any]:
    if not (message.images or message.files):
        return {"role": "user", "content": replace_surrogates(message.text)}
    text = [{"type": "text", "text": replace_surrogates(message.text)}] if message.text else []
    images = [{"type": "image_url", "image_url": {"url": data_url(image)}} for image in message.images]
    files = [{"type": "file", "file": {"filename": f.name, "file_data": data_url(f)}} for f in message.files]
    return {"role": "user", "content": [*text, *images, *files]}


@encoded.register
def _(message: ModelResponse) -> dict[str, Any]:
    wire: dict[str, Any] = {
        "role": "assistant",
        "content": replace_surrogates(message.text) or (None if message.calls else ""),
    }
    if message.reasoning:
        wire["reasoning_content"] = replace_surrogates(message.reasoning)
    if message.calls:
        wire["tool_calls"] = [_encoded_call(call) for call in message.calls]
    return wire


@encoded.register
def _(message: ToolMessage) -> dict[str, Any]:
    return {
        "role": "tool",
        "tool_call_id": message.provider_call_id or message.call_id,
        "content": replace_surrogates(message.text),
    }


def _read_call(item: Any) -> ToolCall:
    return call_of(*function_of(item), attribute(item, "id"))


def _answer(call: ToolCall, result: ToolResult) -> dict[str, Any]:
    return encoded(
        ToolMessage(call_id=call.id, provider_call_id=call.provider_call_id, name=call.name, text=text_of(result))
    )


def _encoded_call(call: ToolCall) -> dict[str, Any]:
    # What is sent must be acceptable whatever the model wrote, or every later request of the conversation is refused.
    function = {
        "name": legal(call.name),
        "arguments": lawful(replace_surrogates(call.wire_arguments or call.arguments)),
    }
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


_Part: TypeAlias = str | Image | File
_OURS = (SystemMessage, UserMessage, ModelResponse, ToolMessage)


def parse_history(messages: Iterable[Message | Mapping[str, Any]]) -> list[Message]:
    """Read a history in wire form; messages that are ours already stay as they are.

    Raises:
        ValueError: A message has no role, or one that is not known; or it lacks what messages of its role have.
        TypeError: Something is no message at all.
    """
    read: list[Message] = []
    names: dict[str, str] = {}
    for message in messages:
        known = message if isinstance(message, _OURS) else _decoded(_as_mapping(message))
        if isinstance(known, ModelResponse):
            names.update((call.provider_call_id, call.name) for call in known.calls if call.provider_call_id)
        read.append(_named(known, names))
    return read


def _named(message: Message, names: Mapping[str, str]) -> Message:
    if isinstance(message, ToolMessage) and not message.name:
        return replace(message, name=names.get(message.provider_call_id, ""))
    return message


def _as_mapping(message: Any) -> Mapping[str, Any]:
    if hasattr(message, "model_dump"):  # an answer of the openai package, put into the history as it is
        message = message.model_dump()
    if not isinstance(message, Mapping):
        raise TypeError(f"{message!r} is not a message: it takes those of another result, or dicts in OpenAI's form.")
    return message


def _decoded(message: Mapping[str, Any]) -> Message:
    role, content = message.get("role"), message.get("content")
    if role not in tuple(_READERS):
        raise ValueError(f"A message's role is one of {', '.join(_READERS)}; this one has {role!r}.")
    try:
        return _READERS[role](message, [content] if isinstance(content, str) else list(map(_part, content or ())))
    except (TypeError, AttributeError) as error:
        raise ValueError(f"This is not a message in OpenAI's form: {str(message)[:200]}") from error


def _system(_: Mapping[str, Any], parts: Sequence[_Part]) -> Message:
    return SystemMessage(_only_text(parts))


def _user(_: Mapping[str, Any], parts: Sequence[_Part]) -> Message:
    return UserMessage(_text(parts), *_attached(parts))


def _text(parts: Sequence[_Part]) -> str:
    return "".join(part for part in parts if isinstance(part, str))


def _only_text(parts: Sequence[_Part]) -> str:
    if any(_attached(parts)):
        raise ValueError("Pictures and files stand in messages of the user alone; put them into one.")
    return _text(parts)


def _attached(parts: Sequence[_Part]) -> tuple[tuple[Image, ...], tuple[File, ...]]:
    images = tuple(part for part in parts if isinstance(part, Image))
    return images, tuple(part for part in parts if isinstance(part, File))


def _part(part: Mapping[str, Any]) -> _Part:
    """Read a part of a message: a text, or a refusal, which is what a model says instead; or a picture, or a file."""
    said = part.get("text", part.get("refusal"))
    return said if isinstance(said, str) else _file(part)


def _file(part: Mapping[str, Any]) -> Image | File:
    file, image = part.get("file") or {}, part.get("image_url") or {}
    head, comma, data = (file.get("file_data") or image.get("url") or "").partition(";base64,")
    if not comma:
        told = "A message holds text, and pictures and files as data URLs"
        raise ValueError(f"{told}; this is neither: {str(part)[:100]}")
    content, media_type = base64.b64decode(data), head.removeprefix("data:")
    return File(content, media_type, file.get("filename") or "file") if file else Image(content, media_type)


def _assistant(message: Mapping[str, Any], parts: Sequence[_Part]) -> Message:
    text = "\n".join(filter(None, (_only_text(parts) or _transcript(message), message.get("refusal"))))
    older = message.get("function_call")
    calls = [*(message.get("tool_calls") or ()), *([{"function": older}] if older else ())]
    reasoning = message.get("reasoning_content") or message.get("reasoning") or ""
    return ModelResponse(text=text, calls=tuple(map(_call, calls)), reasoning=reasoning)


def _transcript(message: Mapping[str, Any]) -> str:
    audio = message.get("audio") or {}
    transcript = audio.get("transcript", "")
    if audio and not transcript:
        raise ValueError(f"Of an answer in audio its transcript is kept; this one has none: {str(audio)[:100]}")
    return str(transcript)


def _call(call: Mapping[str, Any]) -> ToolCall:
    function, custom = call.get("function") or {}, call.get("custom") or {}
    name = function.get("name") or custom.get("name")
    if not isinstance(name, str):
        raise ValueError(  # noqa: TRY004  it is a message with something missing
            f"A tool call needs a function with a name; this is {call!r}."
        )
    arguments = {"input": custom.get("input")} if custom else function.get("arguments")
    own = _id(call.get("id"))
    return ToolCall(id=own, provider_call_id=own, name=name, arguments=to_json_text(arguments))


def _tool(message: Mapping[str, Any], parts: Sequence[_Part]) -> Message:
    own, name = _id(message.get("tool_call_id")), message.get("name") or ""
    return ToolMessage(call_id=own, provider_call_id=own, name=name, text=_only_text(parts))


def _id(value: Any) -> str:
    return "" if value is None else str(value)


_READERS: Mapping[Any, Callable[[Mapping[str, Any], Sequence[_Part]], Message]] = {
    "system": _system,
    "developer": _system,
    "user": _user,
    "assistant": _assistant,
    "tool": _tool,
    "function": _tool,
}
