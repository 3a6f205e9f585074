"""Google's Gemini: calls and their responses are parts of a content.

Wire facts: `google.genai.types` of the google-genai package, version 3.4. Pictures stand inside a function's response,
which Gemini understands from version 3 on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from toolkit.dialects.forms import Form, form_of
from toolkit.dialects.rules import GEMINI
from toolkit.dialects.wire import attribute, base64_of, call_of, data_of, items, owned, text_of
from toolkit.errors import DefinitionError
from toolkit.messages import Image, ToolCall, ToolResult, ToolSpec


@dataclass(frozen=True)
class Gemini:
    """Tools go out as function declarations, calls come back as parts `functionCall`.

    Attributes:
        strict: Of no effect: whether calls keep to their schemas is said of a request, not of a tool.
    """

    name: str = "gemini"
    strict: bool = False

    def form(self, spec: ToolSpec) -> Form:
        """Tell how a tool's arguments are shown."""
        return form_of(spec, GEMINI)

    def tool(self, spec: ToolSpec) -> dict[str, Any]:
        """Show one tool; it is made once, and must not be changed.

        Raises:
            DefinitionError: Its name begins with a digit or `-`.
        """
        shown: dict[str, Any] = spec.forms.get(self) or spec.forms.setdefault(self, self._shown(spec))
        return shown

    def calls(self, reply: Any, specs: Sequence[ToolSpec]) -> tuple[ToolCall, ...]:
        """Find the calls in a response's first candidate, in its content, or in the content's parts."""
        candidate = next(iter(items(reply, "candidates")), None)
        content = attribute(candidate, "content") or reply
        return owned(map(_read_call, filter(None, map(_call_in, items(content, "parts")))), specs, self.form)

    def answers(
        self,
        done: Sequence[tuple[ToolCall, ToolResult]],
        specs: Sequence[ToolSpec] = (),  # noqa: ARG002  the signature is the dialects'
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


def _call_in(part: Any) -> Any:
    return attribute(part, "functionCall") or attribute(part, "function_call")


def _read_call(call: Any) -> ToolCall:
    return call_of(attribute(call, "name"), attribute(call, "args"), attribute(call, "id"))


def _answer(call: ToolCall, result: ToolResult) -> dict[str, Any]:
    response = {"error": text_of(result)} if result.is_error else {"output": data_of(result)}
    answer: dict[str, Any] = {"name": call.name, "response": response}
    if call.wire_id:
        answer["id"] = call.wire_id
    if result.images:
        answer["parts"] = [_image(image) for image in result.images]
    return answer


def _image(image: Image) -> dict[str, Any]:
    return {"inlineData": {"mimeType": image.media_type, "data": base64_of(image)}}
