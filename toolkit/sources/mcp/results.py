"""Answers of a server: the result of a call, the contents of a resource, the messages of a prompt."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

import mcp_types as types
from pydantic_core import to_json

from toolkit._guards.hidden_text import escape_hidden
from toolkit._messages import Message, ModelResponse, ToolResult
from toolkit._runner.prompt import make_user_message
from toolkit._tools.bindings import AnyTool
from toolkit.errors import InvalidArguments
from toolkit.sources.remote import Part, attach_parts, decode_file, join_parts


def make_result(tool: AnyTool, result: types.CallToolResult) -> ToolResult:
    """Make the result of a call: structured content is its value, texts are joined, nothing is fetched."""
    parts = [*map(_read_block, result.content)]
    attached = attach_parts(parts)
    structured = result.structured_content
    text = join_parts(parts) if parts or structured is None else escape_hidden(to_json(structured).decode())
    if result.is_error:
        text = text or f"{tool.name} failed, and gave no reason."
        return ToolResult(text=text, error=text, kind="failed", **attached)

    fault = None
    try:
        value = text if structured is None else tool.handler.interface.returns.check(structured)
    except (ValueError, InvalidArguments):
        value = structured
        fault = f"This does not match what {tool.name} declares to return."
    return ToolResult(value, text, error=fault, **attached)


def make_messages(messages: Sequence[types.PromptMessage]) -> list[Message]:
    """Make the messages of a prompt."""
    return [_make_message(each.role, _read_block(each.content)) for each in messages]


def _make_message(role: str, part: Part) -> Message:
    part = escape_hidden(part) if isinstance(part, str) else part
    return make_user_message([part]) if role == "user" else ModelResponse(text=join_parts([part]))


def _read_block(block: types.ContentBlock) -> Part:
    if isinstance(block, types.TextContent):
        return block.text
    if isinstance(block, types.ImageContent):
        return decode_file(block.data, block.mime_type, "image")
    if isinstance(block, types.AudioContent):
        return decode_file(block.data, block.mime_type, "audio")
    if isinstance(block, types.ResourceLink):
        return f"[{block.title or block.name}]({block.uri})"
    return read_contents(block.resource)


def read_contents(contents: types.TextResourceContents | types.BlobResourceContents) -> Part:
    """Read the contents of a resource. Hidden characters in a text are escaped."""
    if isinstance(contents, types.TextResourceContents):
        return escape_hidden(contents.text)
    name = PurePosixPath(unquote(urlsplit(str(contents.uri)).path)).name
    return decode_file(contents.blob, contents.mime_type or "application/octet-stream", name or "file")
