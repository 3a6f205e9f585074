"""Google's Gemini: `generateContent`, with calls as parts of a content, and Interactions, with calls as steps.

Sources: `google.genai.types` and `google.genai.interactions` of the google-genai package, version 3.6. Images and files
are inside a function's response, which Gemini understands from version 3 on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from typing_extensions import override

from toolkit._dialects.base import Dialect, FinishedCalls, encode_base64, get_member, list_items, make_call, result_data
from toolkit._dialects.strict.rules import GEMINI
from toolkit._messages import File, Image, ToolCall, ToolResult, ToolSpec, replace_surrogates
from toolkit.errors import DefinitionError


class Gemini(Dialect):
    """Tools go out as function declarations, calls come back as parts `functionCall`.

    Whether Gemini enforces schemas is set by the request, not by a tool.
    """

    name = "gemini"
    rules = strict_rules = GEMINI

    @override
    def render_results(self, done: FinishedCalls, specs: Sequence[ToolSpec] = ()) -> list[dict[str, Any]]:
        """Answer all calls by one content."""
        parts = [{"functionResponse": _render_response(call, result)} for call, result in done]
        return [{"role": "user", "parts": parts}] if parts else []

    def _render_tool(self, spec: ToolSpec) -> dict[str, Any]:
        if not (spec.name[0].isalpha() or spec.name[0] == "_"):
            raise DefinitionError(
                f"Tool {spec.name!r}: Gemini's names begin with a letter or '_'. Pass another name=, or put a prefix "
                f"with Toolbox.prefixed()."
            )
        schema = self.form(spec).schema
        declaration = {"name": spec.name, "description": spec.description}
        return {**declaration, "parameters": schema} if schema.get("properties") else declaration

    def _parse_calls(self, reply: Any) -> Iterable[ToolCall]:
        """Read a response's first candidate, its content, or the content's parts."""
        candidate = next(iter(list_items(reply, "candidates")), None)
        content = get_member(candidate, "content") or reply
        for part in list_items(content, "parts"):
            if call := get_member(part, "functionCall") or get_member(part, "function_call"):
                yield make_call(get_member(call, "name"), get_member(call, "args"), get_member(call, "id"))


class Interactions(Gemini):
    """Tools go out as functions, calls come back as steps `function_call`, and results are steps, too."""

    name = "interactions"

    @override
    def render_results(self, done: FinishedCalls, specs: Sequence[ToolSpec] = ()) -> list[dict[str, Any]]:
        """Answer each call by a step."""
        return [_render_step(call, result) for call, result in done]

    @override
    def _render_tool(self, spec: ToolSpec) -> dict[str, Any]:
        return {"type": "function", **super()._render_tool(spec)}

    @override
    def _parse_calls(self, reply: Any) -> Iterable[ToolCall]:
        """Read an interaction, or its steps. Leave out calls that have a result, as in a stored interaction."""
        steps = list_items(reply, "steps")
        answered = [get_member(step, "call_id") for step in steps if get_member(step, "type") == "function_result"]
        for step in steps:
            if get_member(step, "type") == "function_call" and get_member(step, "id") not in answered:
                yield make_call(get_member(step, "name"), get_member(step, "arguments"), get_member(step, "id"))


def _render_response(call: ToolCall, result: ToolResult) -> dict[str, Any]:
    response = {"error": replace_surrogates(result.text)} if result.is_error else {"output": result_data(result)}
    answer: dict[str, Any] = {"name": call.name, "response": response}
    if call.provider_call_id:
        answer["id"] = call.provider_call_id
    files = (_render_part(file, displayName=file.name) for file in result.files)
    if parts := [*map(_render_part, result.images), *files]:
        answer["parts"] = parts
    return answer


def _render_part(part: Image | File, **names: str) -> dict[str, Any]:
    return {"inlineData": {"mimeType": part.media_type, "data": encode_base64(part), **names}}


def _render_step(call: ToolCall, result: ToolResult) -> dict[str, Any]:
    text = replace_surrogates(result.text)
    attachments = [*map(_render_image, result.images), *map(_render_document, result.files)]
    step = {"type": "function_result", "name": call.name, "call_id": call.provider_call_id or call.id}
    blocks = [{"type": "text", "text": text}] if text.strip() else []
    content = [*blocks, *attachments] if attachments else text
    return {**step, "result": content, **({"is_error": True} if result.is_error else {})}


def _render_image(image: Image) -> dict[str, Any]:
    return {"type": "image", "mime_type": image.media_type, "data": encode_base64(image)}


def _render_document(file: File) -> dict[str, Any]:
    if file.media_type == "application/pdf":
        return {"type": "document", "mime_type": file.media_type, "data": encode_base64(file)}
    try:
        text = file.data.decode()
    except UnicodeDecodeError:
        text = f"[{file.name} cannot be shown here: {file.media_type}]"
    return {"type": "text", "text": text}
