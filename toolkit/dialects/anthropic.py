"""Anthropic's Messages: calls and results are blocks of a message's content.

Wire facts: `anthropic.types` of the anthropic package, version 2.12, and what the API answers to requests that it
refuses: a failed result holds text alone, and some of it; no text block is blank. Of one request's limits nothing is
said here, since a dialect sees one tool at a time: 20 strict tools, which may have 24 optional parameters together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from toolkit.dialects.forms import Form, form_of
from toolkit.dialects.rules import ANTHROPIC, ANTHROPIC_STRICT
from toolkit.dialects.wire import attribute, base64_of, call_of, items, owned, text_of, wants_strict
from toolkit.messages import Image, ToolCall, ToolResult, ToolSpec


@dataclass(frozen=True)
class Anthropic:
    """Tools go out with an `input_schema`, calls come back as blocks `tool_use`.

    Attributes:
        strict: Whether the provider is to enforce the schemas of tools that have no opinion of their own.
    """

    name: str = "anthropic"
    strict: bool = False

    def form(self, spec: ToolSpec) -> Form:
        """Tell how a tool's arguments are shown."""
        return form_of(spec, ANTHROPIC_STRICT if wants_strict(spec, otherwise=self.strict) else ANTHROPIC)

    def tool(self, spec: ToolSpec) -> dict[str, Any]:
        """Show one tool; it is made once, and must not be changed."""
        shown: dict[str, Any] = spec.forms.get(self) or spec.forms.setdefault(self, self._shown(spec))
        return shown

    def calls(self, reply: Any, specs: Sequence[ToolSpec]) -> tuple[ToolCall, ...]:
        """Find the calls in a message, or in its content."""
        found = (block for block in items(reply, "content") if attribute(block, "type") == "tool_use")
        return owned(map(_read_call, found), specs, self.form)

    def answers(
        self,
        done: Sequence[tuple[ToolCall, ToolResult]],
        specs: Sequence[ToolSpec] = (),  # noqa: ARG002  the signature is the dialects'
    ) -> list[dict[str, Any]]:
        """Answer all calls by one message of the user; the pictures of failed calls follow their results."""
        results = [_answer(call, result) for call, result in done]
        others = [_image(image) for _, result in done if result.is_error for image in result.images]
        return [{"role": "user", "content": [*results, *others]}] if results else []

    def _shown(self, spec: ToolSpec) -> dict[str, Any]:
        form = self.form(spec)
        shown = {"name": spec.name, "description": spec.description, "input_schema": form.schema}
        return {**shown, "strict": True} if form.strict else shown


def _read_call(block: Any) -> ToolCall:
    return call_of(attribute(block, "name"), attribute(block, "input"), attribute(block, "id"))


def _answer(call: ToolCall, result: ToolResult) -> dict[str, Any]:
    answer = {"type": "tool_result", "tool_use_id": call.wire_id or call.id}
    text = text_of(result)
    if result.is_error:
        return {**answer, "content": text if text.strip() else "error", "is_error": True}
    told = [{"type": "text", "text": text}] if text.strip() else []
    content = [*told, *map(_image, result.images)] if result.images else text
    return {**answer, "content": content} if content else answer


def _image(image: Image) -> dict[str, Any]:
    source = {"type": "base64", "media_type": image.media_type, "data": base64_of(image)}
    return {"type": "image", "source": source}
