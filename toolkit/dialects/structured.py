"""An answer that has a schema: how it is asked for, and how it is found in a reply.

It is treated as the arguments of a tool, whether the model calls that tool or writes them as its text: the same form
goes out, and the same way leads back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from toolkit._messages import OutputSpec, ToolCall, ToolSpec
from toolkit.dialects.forms import Form

Read: TypeAlias = Callable[[str, Sequence[ToolCall], Sequence[ToolSpec]], tuple[str, tuple[ToolCall, ...]]]


def asked(output: OutputSpec | None, form_of: Callable[[ToolSpec], Form]) -> dict[str, Any]:
    """Make the part of a request's body that asks for such an answer as text; nothing where it is to be a call."""
    if output is None or output.by_tool:
        return {}
    form = form_of(output.spec)
    schema = {"name": output.spec.name, "description": output.spec.description, "schema": form.schema}
    json_schema = {**schema, "strict": True} if form.strict else schema
    return {"response_format": {"type": "json_schema", "json_schema": json_schema}}


def answered(text: str, calls: Sequence[ToolCall], output: OutputSpec, read: Read) -> tuple[str, tuple[ToolCall, ...]]:
    """Find the answer in text and calls, as a text in its own form; the other calls stay.

    Args:
        text: The reply's own.
        calls: Already read.
        output: What the answer has to be.
        read: A dialect's way to read calls.
    """
    given: Sequence[ToolCall] = [call for call in calls if call.name == output.spec.name]
    if not output.by_tool:
        _, given = read("", [ToolCall(name=output.spec.name, arguments=text)], [output.spec])
    answer = given[-1].arguments if given else text
    return answer, tuple(call for call in calls if call.name != output.spec.name or not output.by_tool)
