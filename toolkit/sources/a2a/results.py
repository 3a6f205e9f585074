"""An agent's answer as the result of a call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from a2a.types import Message, Task, TaskState
from a2a.types import Part as WirePart
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message as ProtoMessage
from pydantic_core import to_json

from toolkit._messages import ToolResult
from toolkit.sources.remote import Part, attach_parts, decode_file, join_parts

GO_ON = "[The agent waits for an answer. To give it, call {tool} again with task_id={id!r} and the answer as message.]"
SIGN_IN = (
    "[The agent needs a sign-in that this program does not have. Tell the user. Once that is done, call {tool} again "
    "with task_id={id!r}.]"
)
# The outcome of a task that has no result, and what a model can do.
FAILURES: Mapping[int, str] = {
    TaskState.TASK_STATE_FAILED: "The agent failed at the task. Change the message, or go on without it.",
    TaskState.TASK_STATE_REJECTED: "The agent rejected the task. Ask for something else, or go on without it.",
    TaskState.TASK_STATE_CANCELED: "The agent cancelled the task, without a result.",
}
EXACT = 2**53  # beyond, floats are not exact whole numbers
NOTHING = "The agent has done the task, and gave no output."


def make_result(tool: str, answer: Task | Message) -> ToolResult:
    """Make the result of a call: a task is its value, as JSON; texts are joined, nothing is fetched.

    Args:
        tool: Name of the tool, for a model that has to call it again.
        answer: What the agent gave.

    Raises:
        ValueError: A number in it is not one that JSON has.
    """
    if isinstance(answer, Message):
        parts = read_parts(answer.parts)
        text = join_parts(parts) or NOTHING
        return ToolResult(text, text, **attach_parts(parts))
    parts = read_parts([part for artifact in answer.artifacts for part in artifact.parts])
    parts += read_parts(answer.status.message.parts)
    answer.ClearField("history")  # what was said on the way; some agents send it unasked
    value = _make_plain(answer)
    note, is_error = _find_note(tool, answer)
    text = "\n".join(filter(None, (join_parts(parts), note)))
    if is_error:
        return ToolResult(value, text, error=text, kind="failed", **attach_parts(parts))
    return ToolResult(value, text or NOTHING, **attach_parts(parts))


def _make_plain(message: ProtoMessage) -> Any:
    """Make JSON of a message, whose free objects have no order, and whose free numbers are floats, even whole ones."""

    def restore(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: restore(value[key]) for key in sorted(value)}
        if isinstance(value, list):
            return [*map(restore, value)]
        return int(value) if isinstance(value, float) and value.is_integer() and abs(value) <= EXACT else value

    return restore(MessageToDict(message))


def _find_note(tool: str, task: Task) -> tuple[str, bool]:
    """Return what a model has to know about the state of a task, and whether it is an error."""
    state = task.status.state
    if state == TaskState.TASK_STATE_INPUT_REQUIRED:
        return GO_ON.format(tool=tool, id=task.id), False
    if state == TaskState.TASK_STATE_AUTH_REQUIRED:
        return SIGN_IN.format(tool=tool, id=task.id), True
    return (f"[{FAILURES[state]}]", True) if state in FAILURES else ("", False)


def read_parts(parts: Iterable[WirePart]) -> list[Part]:
    """Read the parts of a message: texts, data as JSON, images and files; links are named and not followed."""
    return [*map(_read_part, parts)]


def _read_part(part: WirePart) -> Part:
    """Read a part: a link is named and not followed."""
    kind = part.WhichOneof("content")
    if kind == "text":
        return part.text
    if kind == "data":
        return to_json(_make_plain(part.data)).decode()
    if kind == "raw":
        return decode_file(part.raw, part.media_type or "application/octet-stream", part.filename or "file")
    return f"[{part.filename or 'file'}]({part.url})" if kind == "url" else ""
