"""What a server's tool returns, as the result of a call."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

import mcp_types as types
from pydantic_core import to_json

from toolkit._messages import File, Image, ToolResult
from toolkit._tools.bindings import AnyTool
from toolkit.errors import InvalidArguments

Part = str | Image | File


def make_result(tool: AnyTool, result: types.CallToolResult) -> ToolResult:
    """Make the result of a call: structured content is its value, texts are joined, nothing is fetched."""
    parts = [*map(_read_block, result.content)]
    images, files = _select(Image, parts), _select(File, parts)
    structured = result.structured_content
    text = "\n".join(map(_write_part, parts)) if parts or structured is None else to_json(structured).decode()
    if result.is_error:
        text = text or f"{tool.name} failed, and gave no reason."
        return ToolResult(text=text, error=text, kind="failed", images=images, files=files)
    fault = None
    try:
        value = text if structured is None else tool.handler.returns.check(structured)
    except (ValueError, InvalidArguments):
        value, fault = structured, f"This does not match what {tool.name} declares to return."
    return ToolResult(value, text, error=fault, images=images, files=files)


def _read_block(block: types.ContentBlock) -> Part:
    if isinstance(block, types.TextContent):
        return block.text
    if isinstance(block, types.ImageContent):
        return _decode(block.data, block.mime_type, "image")
    if isinstance(block, types.AudioContent):
        return _decode(block.data, block.mime_type, "audio")
    if isinstance(block, types.ResourceLink):
        return f"[{block.title or block.name}]({block.uri})"
    if isinstance(block.resource, types.TextResourceContents):
        return block.resource.text
    name = PurePosixPath(unquote(urlsplit(str(block.resource.uri)).path)).name
    return _decode(block.resource.blob, block.resource.mime_type or "application/octet-stream", name or "file")


def _decode(data: str, media_type: str, name: str) -> Part:
    try:
        content = base64.b64decode(data, validate=True)
        return Image(content, media_type) if media_type.startswith("image/") else File(content, media_type, name)
    except (binascii.Error, ValueError):
        return f"[{name} that cannot be read]"


def _write_part(part: Part) -> str:
    if isinstance(part, str):
        return part
    return "[image]" if isinstance(part, Image) else f"[file {part.name}]"


def _select(kind: type[Any], parts: Iterable[Part]) -> tuple[Any, ...]:
    return tuple(part for part in parts if isinstance(part, kind))
