"""OpenAI's Responses: calls and their outputs are items of their own.

Wire facts: `openai.types.responses` of the openai package, version 3.54.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from toolkit.dialects.chat import data_url
from toolkit.dialects.forms import Form, form_of
from toolkit.dialects.rules import PLAIN, STRICT
from toolkit.dialects.wire import attribute, call_of, gives_object, items, owned, text_of, wants_strict
from toolkit.messages import ToolCall, ToolResult, ToolSpec


@dataclass(frozen=True)
class Responses:
    """Tools go out as flat functions, calls come back as items `function_call`.

    Attributes:
        strict: Whether the provider is to enforce the schemas of tools that have no opinion of their own.
    """

    name: str = "responses"
    strict: bool = False

    def form(self, spec: ToolSpec) -> Form:
        """Tell how a tool's arguments are shown."""
        return form_of(spec, STRICT if wants_strict(spec, otherwise=self.strict) else PLAIN)

    def tool(self, spec: ToolSpec) -> dict[str, Any]:
        """Show one tool; it is made once, and must not be changed."""
        shown: dict[str, Any] = spec.forms.get(self) or spec.forms.setdefault(self, self._shown(spec))
        return shown

    def calls(self, reply: Any, specs: Sequence[ToolSpec]) -> tuple[ToolCall, ...]:
        """Find the calls in a response, or in its output."""
        found = (item for item in items(reply, "output") if attribute(item, "type") == "function_call")
        return owned(map(_read_call, found), specs, self.form)

    def answers(
        self,
        done: Sequence[tuple[ToolCall, ToolResult]],
        specs: Sequence[ToolSpec] = (),  # noqa: ARG002  the signature is the dialects'
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


def _read_call(item: Any) -> ToolCall:
    return call_of(attribute(item, "name"), attribute(item, "arguments"), attribute(item, "call_id"))


def _answer(call: ToolCall, result: ToolResult) -> dict[str, Any]:
    text = text_of(result)
    images = [{"type": "input_image", "image_url": data_url(image)} for image in result.images]
    output = [{"type": "input_text", "text": text}, *images] if images else text
    return {"type": "function_call_output", "call_id": call.wire_id or call.id, "output": output}
