"""The baseline of each comparison: the same work, written by hand for this one case.

A call is pydantic-core's validator, the function and pydantic-core's serializer. A conversation is a loop on the openai
client. Neither checks, repairs or reports anything that the case does not need.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

import openai
from pydantic.experimental.arguments_schema import generate_arguments_schema
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import SchemaValidator, ValidationError, to_json

Call: TypeAlias = Callable[[str], str]
AsyncCall: TypeAlias = Callable[[str], Awaitable[str]]


class Wish(NamedTuple):
    """One call of the model."""

    id: str
    name: str
    arguments: str


def called(function: Callable[..., object]) -> Call:
    """Make the baseline for calling a function: JSON text in, JSON text out."""
    validate = _validator(function)

    def call(words: str) -> str:
        try:
            positional, named = validate(words)
        except ValidationError as error:
            return str(error)
        return _written(function(*positional, **named))

    return call


def acalled(function: Callable[..., Awaitable[object]]) -> AsyncCall:
    """Make the baseline for calling a coroutine function."""
    validate = _validator(function)

    async def call(words: str) -> str:
        try:
            positional, named = validate(words)
        except ValidationError as error:
            return str(error)
        return _written(await function(*positional, **named))

    return call


def described(function: Callable[..., object]) -> dict[str, Any]:
    """Make the JSON Schema of a function's arguments, as pydantic makes it; the docstring is not read."""
    return GenerateJsonSchema().generate(generate_arguments_schema(function, "arguments"))


def converse(client: openai.OpenAI, schemas: Any, calls: Mapping[str, Call], *, stream: bool) -> str:
    """Run a conversation, and return the model's answer."""
    messages: list[Any] = [{"role": "user", "content": "Go."}]
    while True:
        reply: Any = client.chat.completions.create(model="scripted", messages=messages, tools=schemas, stream=stream)
        text, wishes = _merged(reply) if stream else _read(reply)
        if not wishes:
            return text
        messages.append(_said(text, wishes))
        messages += [_told(wish, calls[wish.name](wish.arguments)) for wish in wishes]


async def aconverse(client: openai.AsyncOpenAI, schemas: Any, calls: Mapping[str, AsyncCall], *, stream: bool) -> str:
    """Run a conversation in the running loop; calls of one turn run at the same time."""
    messages: list[Any] = [{"role": "user", "content": "Go."}]
    while True:
        asked: Any = client.chat.completions.create(model="scripted", messages=messages, tools=schemas, stream=stream)
        reply = await asked
        text, wishes = _merged([chunk async for chunk in reply]) if stream else _read(reply)
        if not wishes:
            return text
        messages.append(_said(text, wishes))
        answers = await _together([calls[wish.name](wish.arguments) for wish in wishes])
        messages += map(_told, wishes, answers)


def _written(value: object) -> str:
    """Write a value for a model: text as it is, anything else as JSON."""
    return value if isinstance(value, str) else to_json(value).decode()


def _validator(function: Callable[..., object]) -> Callable[[str], Any]:
    """Make the validator that pydantic makes of a signature: JSON text in, positional and keyword arguments out."""
    return SchemaValidator(generate_arguments_schema(function, "arguments")).validate_json


async def _together(promises: list[Awaitable[str]]) -> list[str]:
    if len(promises) == 1:  # a task for a single call is needless work
        return [await promises[0]]
    return await asyncio.gather(*promises)


def _read(reply: Any) -> tuple[str, list[Wish]]:
    message = reply.choices[0].message
    listed = message.tool_calls or ()
    return message.content or "", [Wish(call.id, call.function.name, call.function.arguments) for call in listed]


def _merged(chunks: Iterable[Any]) -> tuple[str, list[Wish]]:
    words: list[str] = []
    heads: list[Any] = []
    parts: list[list[str]] = []
    for delta in (choice.delta for chunk in chunks for choice in chunk.choices):
        words.append(delta.content or "")
        for piece in delta.tool_calls or ():
            if piece.id:
                heads.append(piece)
                parts.append([])
            parts[piece.index].append(piece.function.arguments)
    return "".join(words), [Wish(head.id, head.function.name, "".join(part)) for head, part in zip(heads, parts)]


def _said(text: str, wishes: list[Wish]) -> dict[str, Any]:
    calls = [
        {"id": wish.id, "type": "function", "function": {"name": wish.name, "arguments": wish.arguments}}
        for wish in wishes
    ]
    return {"role": "assistant", "content": text or None, "tool_calls": calls}


def _told(wish: Wish, text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": wish.id, "content": text}
