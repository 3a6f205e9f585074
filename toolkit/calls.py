"""Replies that list calls, for models and servers without tool calling.

`calls_schema` composes the schema of such a reply, `parse_calls` reads it, and `Toolbox.call_many` executes the calls.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pydantic_core import from_json, to_json

from toolkit._dialects import calls as dialect
from toolkit._messages import ToolCall
from toolkit._schema.arguments import RawArguments
from toolkit._schema.json_text import to_json_text
from toolkit._toolbox import Toolbox
from toolkit._tools.bindings import get_activity
from toolkit.errors import ToolError

__all__ = ["calls_schema", "parse_calls"]


def calls_schema(toolbox: Toolbox, *, strict: bool | None = None) -> dict[str, Any]:
    """Compose the JSON Schema of a reply that lists calls.

    The reply is an object. Each of its `calls` has the keys about a call, with `_tool` and `_activity` as constants,
    then the arguments. Its `output` is the answer, if there are no calls.

    Args:
        toolbox: The tools that may be called.
        strict: Whether to write the schema so that OpenAI enforces it; as for `Toolbox.schemas`.

    Raises:
        DefinitionError: A tool cannot be described to a model.
    """
    specs = [replace(tool._spec, activity=get_activity(tool)) for tool in toolbox]
    schema = _make_dialect(toolbox, strict=strict).reply_schema(specs)
    copy: dict[str, Any] = from_json(to_json(schema))  # shares nothing with the tools
    return copy


def parse_calls(toolbox: Toolbox, reply: RawArguments, *, strict: bool | None = None) -> tuple[ToolCall, ...]:
    """Parse a reply of the schema that `calls_schema` composes.

    Args:
        toolbox: As for `calls_schema`.
        reply: The text, also in a Markdown fence; or the object, if the text is parsed already.
        strict: As for `calls_schema`.

    Raises:
        ToolError: The reply is not a JSON object with a list `calls`; the message is for the model.
    """
    text = to_json_text(reply)
    if dialect.load_reply(text) is None:
        raise ToolError('Invalid reply: it is not a JSON object with a list "calls". Send one whole object.')
    return _make_dialect(toolbox, strict=strict).parse_calls(text, [tool._spec for tool in toolbox])


def _make_dialect(toolbox: Toolbox, *, strict: bool | None) -> dialect.Calls:
    return dialect.Calls(bool(toolbox.strict if strict is None else strict))
