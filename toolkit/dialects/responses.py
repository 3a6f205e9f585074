"""OpenAI's Responses: calls and their outputs are items of their own.

Wire facts: `openai.types.responses` of the openai package, version 3.54.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from typing_extensions import override

from toolkit.dialects.chat import data_url
from toolkit.dialects.dialect import Dialect
from toolkit.dialects.rules import PLAIN, STRICT
from toolkit.dialects.wire import attribute, call_of, gives_object, items, text_of
from toolkit.messages import ToolCall, ToolResult, ToolSpec


class Responses(Dialect):
    """Tools go out as flat functions, calls come back as items `function_call`."""

    name = "responses"
    rules, strict_rules = PLAIN, STRICT

    @override
    def answers(
        self, done: Sequence[tuple[ToolCall, ToolResult]], specs: Sequence[ToolSpec] = ()
    ) -> list[dict[str, Any]]:
        """Answer each call by an item; pictures stand in it."""
        return [_answer(call, result) for call, result in done]

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
        return (_read_call(item) for item in items(reply, "output") if attribute(item, "type") == "function_call")


def _read_call(item: Any) -> ToolCall:
    return call_of(attribute(item, "name"), attribute(item, "arguments"), attribute(item, "call_id"))


def _answer(call: ToolCall, result: ToolResult) -> dict[str, Any]:
    text = text_of(result)
    images = [{"type": "input_image", "image_url": data_url(image)} for image in result.images]
    output = [{"type": "input_text", "text": text}, *images] if images else text
    return {"type": "function_call_output", "call_id": call.provider_call_id or call.id, "output": output}
