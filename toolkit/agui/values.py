"""Results, approvals and usage in the words of AG-UI."""

from __future__ import annotations

import base64
from typing import Any

from toolkit._messages import File, Image, PendingApproval, ToolResult, Usage, sendable
from toolkit.agui.answers import ANSWER
from toolkit.events import ApprovalNeeded, event_to_dict


def content_of(result: ToolResult) -> str | list[dict[str, Any]]:
    """Write what a result shows: a text, or the parts of it where there are pictures or files."""
    text = sendable(result.text or "")
    parts: list[Image | File] = [*result.images, *result.files]
    return [{"type": "text", "text": text}, *map(_part, parts)] if parts else text


def interrupt_of(approval: PendingApproval) -> dict[str, Any]:
    """Write what a run waits for; its id is the call's, by which a decision names it."""
    call, facts = approval.call, event_to_dict(ApprovalNeeded(approval))
    told = ("toolName", "arguments", "reasoning", "digest", "effect")
    about = {name: facts[name] for name in told if name in facts}
    message = sendable(f"Allow {approval.title or call.name}? {approval.reason}".rstrip())
    identity = {"id": call.id, "reason": "tool_call", "toolCallId": call.id}
    return {**identity, "message": message, "responseSchema": ANSWER, "metadata": about}


def usage_of(usage: Usage, model: str) -> dict[str, Any]:
    """Write tokens; a count of 0 means that the provider has not told, and then nothing must be said."""
    counts = {"inputTokens": usage.input_tokens, "outputTokens": usage.output_tokens}
    told = {name: count for name, count in counts.items() if count}
    return {"usage": [{"model": sendable(model), **told}]} if told else {}


def _part(part: Image | File) -> dict[str, Any]:
    sort = part.media_type.partition("/")[0]
    source = {"type": "data", "value": base64.b64encode(part.data).decode(), "mimeType": part.media_type}
    named = {"metadata": {"name": part.name}} if isinstance(part, File) else {}
    return {"type": sort if sort in ("image", "audio", "video") else "document", "source": source, **named}
