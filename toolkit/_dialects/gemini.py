"""Google's Gemini: calls and their responses are parts of a content.

Wire facts: `google.genai.types` of the google-genai package, version 3.4. Pictures and files stand inside a function's
response, which Gemini understands from version 3 on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from typing_extensions import override

from toolkit._dialects.base import Dialect, attribute, base64_of, call_of, data_of, items, text_of
from toolkit._dialects.strict.rules import GEMINI
from toolkit._messages import File, Image, ToolCall, ToolResult, ToolSpec
from toolkit.errors import DefinitionError


class Gemini(Dialect):
    """Tools go out as function declarations, calls come back as parts `functionCall`.

    Whether calls keep to their schemas is said of a request, not of a tool.
    """

    name = "gemini"
    rules = strict_rules = GEMINI

    @override
    def answers(
        self, done: Sequence[tuple[ToolCall, ToolResult]], specs: Sequence[ToolSpec] = ()
    ) -> list[dict[str, Any]]:
        """Answer all calls by one content."""
        parts = [{"functionResponse": _answer(call, result)} for call, result in done]
        return [{"role": "user", "parts": parts}] if parts else []

    def _shown(self, spec: ToolSpec) -> dict[str, Any]:
        if not (spec.name[0].isalpha() or spec.name[0] == "_"):
            raise DefinitionError(
                f"Tool {spec.name!r}: Gemini's names begin with a letter or '_'. Pass another name=, or put a prefix "
                f"with Toolbox.prefixed()."
            )
        schema = self.form(spec).schema
        shown = {"name": spec.name, "description": spec.description}
        return {**shown, "parameters": schema} if schema.get("properties") else shown

    def _found(self, reply: Any) -> Iterable[ToolCall]:
        """Read a response's first candidate, its content, or the content's parts."""
        candidate = next(iter(items(reply, "candidates")), None)
        content = attribute(candidate, "content") or reply
        return map(_read_call, filter(None, map(_call_in, items(content, "parts"))))


def _call_in(part: Any) -> Any:
    return attribute(part, "functionCall") or attribute(part, "function_call")


def _read_call(call: Any) -> ToolCall:
    return call_of(attribute(call, "name"), attribute(call, "args"), attribute(call, "id"))


def _answer(call: ToolCall, result: ToolResult) -> dict[str, Any]:
    response = {"error": text_of(result)} if result.is_error else {"output": data_of(result)}
    answer: dict[str, Any] = {"name": call.name, "response": response}
    if call.provider_call_id:
        answer["id"] = call.provider_call_id
    if parts := [*map(_part, result.images), *(_part(file, displayName=file.name) for file in result.files)]:
        answer["parts"] = parts
    return answer


def _part(part: Image | File, **names: str) -> dict[str, Any]:
    return {"inlineData": {"mimeType": part.media_type, "data": base64_of(part), **names}}
