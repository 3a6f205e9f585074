"""OpenAI's Chat Completions: tools, native tool calls, and messages in both directions.

Source: `openai.types.chat` of the openai package, version 3.57. A history may have the older forms, too:
`function_call`, and messages of the role `function`. A call of a custom tool becomes a call with one argument, `input`.
Missing ids stay empty; the repair of a history assigns new ones.
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

from toolkit._dialects.base import (
    FinishedCalls,
    RunDialect,
    data_url,
    describe,
    get_member,
    join_text,
    make_call,
    split_function,
    to_plain_item,
)
from toolkit._dialects.strict.rules import GRAMMAR, MINIMAL, STRICT
from toolkit._dialects.tool_choice import render_choice
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
from toolkit._schema.json_text import dump_json, load_json, to_json_text

# The keys with which servers send the model's reasoning.
REASONING_KEYS = ("reasoning_content", "reasoning")
# The keys of its details, and how the types of these begin: OpenRouter's, and LiteLLM's for Claude.
_DETAILS = {"reasoning_details": ("reasoning.",), "thinking_blocks": ("thinking", "redacted_thinking")}


class Chat(RunDialect):
    """Tools go out as functions, calls come back as `tool_calls`."""

    name = "chat"
    rules = GRAMMAR
    strict_rules = STRICT

    @override
    def render_results(self, done: FinishedCalls, specs: Sequence[ToolSpec] = ()) -> list[dict[str, Any]]:
        """Answer each call by a message of the role tool. Images and files follow in a user message."""
        return [*(render_message(make_message(*each)) for each in done), *render_attachments(done)]

    def render_request(self, request: ModelRequest) -> dict[str, Any]:
        """Write messages and tools; each message is converted to its wire form once in a run."""
        memo = request.memo
        memo += map(render_message, request.messages[len(memo) :])
        body: dict[str, Any] = {"messages": list(memo)}  # a copy, so that a recorded body does not grow with the run
        if tools := [self.render_tool(spec) for spec in request.all_tools]:
            body["tools"] = tools
        choice = render_choice(request, lambda kind, members: {"type": kind, kind: members})
        return body | choice | self.render_output_format(request.output)

    @override
    def _without_reasoning(self, wire: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in wire.items() if key not in (*REASONING_KEYS, *_DETAILS)}

    def _render_tool(self, spec: ToolSpec) -> dict[str, Any]:
        form = self.form(spec)
        function = {"name": spec.name, **describe(spec), "parameters": form.schema}
        return {"type": "function", "function": {**function, "strict": True} if form.strict else function}

    def _parse_calls(self, reply: Any) -> Iterable[ToolCall]:
        """Read a completion, one of its choices, the message of that, or calls."""
        calls = filter(_is_call, reply if isinstance(reply, (list, tuple)) else [reply])
        items = [*calls, *list_wire_calls(get_message(reply))]
        return (make_call(*split_function(item), get_member(item, "id")) for item in items)


class Minimal(Chat):
    """`chat` with few keywords, for gateways and servers that refuse those that they do not know."""

    name = "minimal"
    rules = strict_rules = MINIMAL


def render_attachments(done: FinishedCalls) -> list[dict[str, Any]]:
    """Write the user message with the images and files of results. The list is empty if there are none."""
    return list(map(render_message, collect_attachments(result for _, result in done)))


def get_message(reply: Any) -> Any:
    """Return the message in a completion, or in one of its choices. A message alone is returned as it is."""
    choices = get_member(reply, "choices")
    is_completion = isinstance(choices, (list, tuple)) and choices and choices[0] is not None
    choice = choices[0] if is_completion else reply
    message = None if get_member(choice, "role") else get_member(choice, "message")  # only a message has a role
    return choice if message is None else message


def _is_call(item: Any) -> bool:
    return bool(get_member(item, "function") or get_member(item, "custom"))


def list_wire_calls(message: Any) -> list[Any]:
    """List the calls of a message or a delta, the older `function_call` included."""
    listed = get_member(message, "tool_calls")
    older = get_member(message, "function_call")
    calls = [call for call in listed if call is not None] if isinstance(listed, (list, tuple)) else []
    return [*calls, {"function": older}] if older and not calls else calls


@singledispatch
def render_message(message: Message) -> dict[str, Any]:
    """Write a message in its wire form."""
    raise TypeError(f"{message!r:.100} is not a message.")


@render_message.register
def _(message: SystemMessage) -> dict[str, Any]:
    return {"role": "system", "content": replace_surrogates(message.text)}


@render_message.register
def _(message: UserMessage) -> dict[str, Any]:
    if not (message.images or message.files):
        return {"role": "user", "content": replace_surrogates(message.text)}
    text = [{"type": "text", "text": replace_surrogates(message.text)}] if message.text else []
    images = [{"type": "image_url", "image_url": {"url": data_url(image)}} for image in message.images]
    files = [{"type": "file", "file": {"filename": f.name, "file_data": data_url(f)}} for f in message.files]
    return {"role": "user", "content": [*text, *images, *files]}


@render_message.register
def _(message: ModelResponse) -> dict[str, Any]:
    wire: dict[str, Any] = {
        "role": "assistant",
        # Anthropic refuses a text of white space, which models write before calls.
        "content": None if message.calls and not message.text.strip() else replace_surrogates(message.text),
    }
    if message.reasoning_key in REASONING_KEYS:
        wire[message.reasoning_key] = replace_surrogates(message.reasoning)
    for key, kinds in _DETAILS.items():
        if details := [item for item in message.items if str(item.get("type")).startswith(kinds)]:
            wire[key] = details
    if message.calls:
        wire["tool_calls"] = [_render_call(call) for call in message.calls]
    return wire


@render_message.register
def _(message: ToolMessage) -> dict[str, Any]:
    return {
        "role": "tool",
        "tool_call_id": message.provider_call_id or message.call_id,
        "content": replace_surrogates(message.text),
    }


def _render_call(call: ToolCall) -> dict[str, Any]:
    # A server that refuses a call in the history would refuse every later request, so each call is made acceptable.
    function = {
        "name": sanitize_name(call.name),
        "arguments": sanitize_arguments(replace_surrogates(call.wire_arguments or call.arguments)),
    }
    extra = {"extra_content": load_json(call.extra_content)} if call.extra_content else {}
    return {"id": call.provider_call_id or call.id, "type": "function", "function": function, **extra}


def read_extra(call: Any) -> str:
    """Return the `extra_content` of a call as JSON text: Gemini refuses the next request without its signature there.

    Source: https://ai.google.dev/gemini-api/docs/thought-signatures
    """
    extra = get_member(call, "extra_content")
    return dump_json(extra) if isinstance(extra, dict) else ""


def read_reasoning(message: Any) -> tuple[str, str]:
    """Return the reasoning of a message, and the key that has it. An empty one is sent back, too.

    vLLM drops it if it comes with the other key, and Groq and Cerebras refuse that. DeepSeek needs an empty one, too.
    """
    values = ((get_member(message, key), key) for key in REASONING_KEYS)
    found = [(join_text(value), key) for value, key in values if isinstance(value, (str, list))]
    return max(found, key=lambda each: bool(each[0]), default=("", ""))


def read_details(message: Any) -> tuple[dict[str, Any], ...]:
    """Return the details of a message's reasoning, with the signatures of Gemini (OpenRouter) and Claude (LiteLLM).

    Sources: https://openrouter.ai/docs/guides/best-practices/reasoning-tokens,
    https://docs.litellm.ai/docs/reasoning_content
    """
    lists = (get_member(message, key) for key in _DETAILS)
    details = (to_plain_item(detail) for listed in lists if isinstance(listed, (list, tuple)) for detail in listed)
    return tuple(detail for detail in details if detail is not None and is_detail(detail))


def is_detail(item: Mapping[str, Any]) -> bool:
    """Return whether an item of an answer is a detail of its reasoning, which no other API takes."""
    return any(str(item.get("type")).startswith(kinds) for kinds in _DETAILS.values())


def sanitize_name(name: str) -> str:
    """Return a name that every server accepts: a legal one unchanged, another one with illegal characters replaced."""
    if re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name):
        return name
    legal = re.sub(r"[^A-Za-z0-9_-]+", "_", name)[:64]
    return legal if legal.strip("_") else "unknown"


def sanitize_arguments(text: str) -> str:
    """Return a text that is a JSON object, the text of an object that it encodes, or else an empty object."""
    try:
        value = from_json(text, allow_inf_nan=False)
        if isinstance(value, str):
            text = value
            value = from_json(text, allow_inf_nan=False)
        return text if isinstance(value, dict) else "{}"
    except ValueError:
        return "{}"


_Part: TypeAlias = str | Image | File
_MESSAGES = (SystemMessage, UserMessage, ModelResponse, ToolMessage)


def parse_history(messages: Iterable[Message | Mapping[str, Any]]) -> list[Message]:
    """Read a history in wire form. Messages of this library are returned unchanged.

    Raises:
        ValueError: A message has no role or an unknown one, or lacks a member that its role requires.
        TypeError: The history is not a list, or an entry is not a message.
    """
    if isinstance(messages, (str, Mapping)) or not isinstance(messages, Iterable):
        raise TypeError(f"messages= takes a list of messages, such as result.messages, not {messages!r:.100}.")

    history: list[Message] = []
    names: dict[str, str] = {}
    for entry in messages:
        message = entry if isinstance(entry, _MESSAGES) else _parse_message(entry)
        if isinstance(message, ModelResponse):
            names.update((call.provider_call_id, call.name) for call in message.calls if call.provider_call_id)
        if isinstance(message, ToolMessage) and not message.name:
            message = replace(message, name=names.get(message.provider_call_id, ""))
        history.append(message)

    return history


def _parse_message(message: Any) -> Message:
    if hasattr(message, "model_dump"):  # a message of the openai package
        message = message.model_dump()
    if not isinstance(message, Mapping):
        raise TypeError(f"{message!r:.100} is not a message: pass those of another result, or dicts in OpenAI's form.")

    role, content = message.get("role"), message.get("content")
    if role not in tuple(_PARSERS):
        roles = ", ".join(_PARSERS)
        text = f"A message of Chat Completions has a role, one of {roles}; this one has {role!r}"
        raise ValueError(f"{text}: {str(message)[:100]}")
    if content is None and role in ("system", "developer", "user"):
        raise ValueError(f"A message of the role {role} needs content; this one has none: {str(message)[:100]}")
    try:
        return _PARSERS[role](message, [content] if isinstance(content, str) else list(map(_parse_part, content or ())))
    except (TypeError, AttributeError) as error:
        raise ValueError(f"This is not a message in OpenAI's form: {str(message)[:200]}") from error


def _parse_part(part: Mapping[str, Any]) -> _Part:
    """Read a part of a message: text, a refusal, an image or a file."""
    text = part.get("text", part.get("refusal"))
    if isinstance(text, str):
        return text
    file, image = part.get("file") or {}, part.get("image_url") or {}
    head, comma, data = (file.get("file_data") or image.get("url") or "").partition(";base64,")
    if not comma:
        raise ValueError(f"A message holds text, and images and files as data URLs; this is neither: {str(part)[:100]}")
    content = base64.b64decode(data)
    media_type = head.removeprefix("data:")
    return File(content, media_type, file.get("filename") or "file") if file else Image(content, media_type)


def _parse_system(_: Mapping[str, Any], parts: Sequence[_Part]) -> Message:
    return SystemMessage(_require_text(parts))


def _parse_user(_: Mapping[str, Any], parts: Sequence[_Part]) -> Message:
    images = tuple(part for part in parts if isinstance(part, Image))
    files = tuple(part for part in parts if isinstance(part, File))
    return UserMessage("".join(part for part in parts if isinstance(part, str)), images, files)


def _parse_assistant(message: Mapping[str, Any], parts: Sequence[_Part]) -> Message:
    text = "\n".join(filter(None, (_require_text(parts) or _read_transcript(message), message.get("refusal"))))
    older = message.get("function_call")
    calls = [*(message.get("tool_calls") or ()), *([{"function": older}] if older else ())]
    reasoning, key = read_reasoning(message)
    parsed = tuple(map(_parse_call, calls))
    return ModelResponse(text=text, calls=parsed, reasoning=reasoning, reasoning_key=key, items=read_details(message))


def _parse_tool(message: Mapping[str, Any], parts: Sequence[_Part]) -> Message:
    call_id = _to_id(message.get("tool_call_id"))
    name = _get_text(message, "name")
    return ToolMessage(call_id=call_id, provider_call_id=call_id, name=name, text=_require_text(parts))


_PARSERS: Mapping[Any, Callable[[Mapping[str, Any], Sequence[_Part]], Message]] = {
    "system": _parse_system,
    "developer": _parse_system,
    "user": _parse_user,
    "assistant": _parse_assistant,
    "tool": _parse_tool,
    "function": _parse_tool,
}


def _get_text(message: Mapping[str, Any], key: str) -> str:
    """Return an optional text of a message, or "" if it is missing or not text."""
    text = message.get(key)
    return text if isinstance(text, str) else ""


def _require_text(parts: Sequence[_Part]) -> str:
    if not all(isinstance(part, str) for part in parts):
        raise ValueError("Only user messages may have images and files: put them into a user message.")
    return "".join(map(str, parts))


def _read_transcript(message: Mapping[str, Any]) -> str:
    audio = message.get("audio") or {}
    transcript = audio.get("transcript", "")
    if audio and not transcript:
        raise ValueError(f"An audio answer is represented by its transcript; this one has none: {str(audio)[:100]}")
    return str(transcript)


def _parse_call(call: Mapping[str, Any]) -> ToolCall:
    function = call.get("function") or {}
    custom = call.get("custom") or {}
    name = function.get("name") or custom.get("name")
    if not isinstance(name, str):
        raise ValueError(  # noqa: TRY004  it is a message with something missing
            f"A tool call needs a function with a name; this is {call!r:.100}."
        )

    arguments = {"input": custom.get("input")} if custom else function.get("arguments")
    call_id = _to_id(call.get("id"))
    return ToolCall(
        id=call_id,
        provider_call_id=call_id,
        name=name,
        arguments=to_json_text(arguments),
        extra_content=read_extra(call),
    )


def _to_id(value: Any) -> str:
    return "" if value is None else str(value)
