"""Texts without control characters, and calls as short lines."""

from __future__ import annotations

import re
import sys
from html import escape
from typing import TextIO

from toolkit._messages import ToolCall
from toolkit._schema.error_messages import shorten
from toolkit._schema.json_text import load_if_json
from toolkit.events import Event, SubAgentEvent, ToolCallFinished, ToolCallStarted, ToolCallUpdated

MAX_ARGUMENT = 80  # characters
MAX_RESULT = 200  # characters, of a result on one line
# C0 except tab and newline, C1, characters that change the direction of text, and surrogates.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def escape_controls(text: str) -> str:
    """Escape control characters, by which a model could move the cursor or change the direction of text."""
    return _CONTROLS.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def print_text(text: str, out: TextIO | None = None, end: str = "\n") -> None:
    """Print a text. What the stream, standard output by default, cannot encode is escaped."""
    encoding = getattr(out or sys.stdout, "encoding", None) or "utf-8"
    print(text.encode(encoding, "backslashreplace").decode(encoding), end=end, file=out, flush=True)


def escape_text(text: str, size: int) -> str:
    """Cut a text, and escape markup and control characters."""
    return escape(escape_controls(shorten(text, size)))


def format_call(call: ToolCall) -> str:
    """Write a call as Python would, long arguments cut: `add(a=17, b=25)`."""
    arguments = load_if_json(call.arguments)
    if not isinstance(arguments, dict):
        return f"{call.name}({shorten(call.arguments, MAX_ARGUMENT)})"
    written = (f"{name}={shorten(repr(value), MAX_ARGUMENT)}" for name, value in arguments.items())
    return f"{call.name}({', '.join(written)})"


def format_finished(call: ToolCallFinished) -> str:
    """Write a call and its result on one line, both cut: `add(a=17, b=25) -> 42`."""
    text = " ".join(shorten(call.result.text or "", MAX_RESULT).split())
    return f"{call.ran or call.call} -> {escape_controls(text)}"


def get_progress_text(event: Event) -> str:
    """Return the text of a call's progress or partial result, or the call that its sub-agent makes, or "" if none."""
    match event:
        case ToolCallUpdated(text=text, partial=partial):
            return text or (partial.text if partial else None) or ""
        case SubAgentEvent(event=ToolCallStarted(call=call)):
            return str(call)
        case SubAgentEvent(call=call, event=inner):
            return get_progress_text(inner)
    return ""
