"""One message to an agent, its task until that ends or waits for something, and the result of the call."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import anyio
import httpx
from a2a.client import A2AClientError, Client
from a2a.types import (
    Artifact,
    GetTaskRequest,
    Message,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    StreamResponse,
    Task,
    TaskState,
    TaskStatus,
)
from a2a.types import Part as WirePart
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message as ProtoMessage
from pydantic_core import to_json

from toolkit._messages import ToolResult
from toolkit.sources.a2a.agent import AgentError
from toolkit.sources.remote import TRIES, Part, attach_parts, decode_file, join_parts

FIRST_PAUSE = 0.2  # seconds before a task is polled
LONGEST_PAUSE = 5.0  # the same, at most
GROWTH = 1.5  # of the pause, from one poll to the next
# Id of a task. The model reads it, so it has no character with which a mark of a chat template could be made.
ID = re.compile(r"[!-;=?-{}~]{1,200}")

ENDED = frozenset(
    {
        TaskState.TASK_STATE_COMPLETED,
        TaskState.TASK_STATE_FAILED,
        TaskState.TASK_STATE_CANCELED,
        TaskState.TASK_STATE_REJECTED,
    }
)
WAITING = frozenset({TaskState.TASK_STATE_INPUT_REQUIRED, TaskState.TASK_STATE_AUTH_REQUIRED})
GO_ON = "[The agent waits for an answer. To give it, call {tool} again with task_id={id!r} and the answer as message.]"
SIGN_IN = (
    "[The agent needs a sign-in that this program does not have. Tell the user. Once that is done, call {tool} again "
    "with task_id={id!r}.]"
)
# The outcome of a task that has no result, and what a model can do.
FAILURES: Mapping[int, str] = {
    TaskState.TASK_STATE_FAILED: "The agent failed at the task. Change the message, or continue without it.",
    TaskState.TASK_STATE_REJECTED: "The agent rejected the task. Ask for something else, or continue without it.",
    TaskState.TASK_STATE_CANCELED: "The agent cancelled the task, without a result.",
}
EXACT = 2**53  # above, floats are not exact whole numbers
NOTHING = "The agent has done the task, without output."


@dataclass(eq=False)
class Exchange:
    """A message to an agent, and the agent's answer."""

    client: Client
    report: Callable[[str], None]  # receives the progress that the agent reports
    task: Task | None = None  # as far as it is known
    _pieces: dict[str, list[Artifact]] = field(default_factory=dict)  # by id of the artifact

    @property
    def is_open(self) -> bool:
        """True if the agent still works on the task."""
        return self.task is not None and self.task.status.state not in ENDED | WAITING

    async def send(self, text: str, skill: str, task_id: str) -> Task | Message:
        """Send a message, and follow the task until it ends, or waits for input or authentication.

        With `task_id`, the message continues that task.

        Raises:
            A2AError: The agent refused the message, or cannot be reached.
            ValueError: The agent's answer is invalid.
        """
        message = Message(role=Role.ROLE_USER, message_id=uuid4().hex, parts=[WirePart(text=text)])
        message.metadata.update({"skillId": skill})
        if task_id:
            self._set_task(task := await self._get(task_id))
            message.task_id = task.id
            message.context_id = task.context_id
        request = SendMessageRequest(message=message, configuration=SendMessageConfiguration(history_length=0))

        try:
            async with aclosing(self.client.send_message(request)) as events:  # type: ignore[type-var]  # it is a generator
                async for event in events:
                    answer = self._process(event)
                    if answer is not None:
                        return answer
        except A2AClientError as error:
            if self.task is None or not isinstance(error.__cause__, httpx.RequestError):
                raise

        if self.task is None:
            raise AgentError("it is empty")
        return await self._poll(self.task.id)

    async def _poll(self, task_id: str) -> Task:
        """Ask for the task, less and less often, until it ends or waits. A few lost answers are tolerated."""
        pause = FIRST_PAUSE
        misses = 0
        while True:
            await anyio.sleep(pause)
            pause = min(pause * GROWTH, LONGEST_PAUSE)
            try:
                task = await self._get(task_id)
            except A2AClientError as error:
                misses += 1
                if misses == TRIES or not isinstance(error.__cause__, httpx.RequestError):
                    raise
                continue
            misses = 0
            is_news = self.task is None or self.task.status != task.status
            self.task = task
            if not self.is_open:
                return task
            if is_news:
                self._report(task.status)

    async def _get(self, task_id: str) -> Task:
        task = await self.client.get_task(GetTaskRequest(id=task_id, history_length=0))
        if task.id != task_id:
            raise AgentError("it is about another task")
        return task

    def _process(self, event: StreamResponse) -> Task | Message | None:
        """Process an event of the agent. Return the agent's answer once it is complete."""
        kind = event.WhichOneof("payload")
        if kind == "message" and (self.task is None or event.message.task_id in ("", self.task.id)):
            return event.message
        if kind == "task":
            self._check_id(event.task.id)
            is_unchanged = self.task is not None and self.task.status == event.task.status
            self._set_task(event.task)
            if is_unchanged:  # this is the task as it was before the message
                return None
        elif kind == "status_update":
            self._ensure_task(event.status_update.task_id, event.status_update.context_id).status.CopyFrom(
                event.status_update.status
            )
            if self.is_open:
                self._report(event.status_update.status)
        elif kind == "artifact_update":
            update = event.artifact_update
            self._ensure_task(update.task_id, update.context_id)
            if not update.append:
                self._pieces[update.artifact.artifact_id] = []
            self._pieces.setdefault(update.artifact.artifact_id, []).append(update.artifact)
            return None
        else:
            raise AgentError("it is neither a message nor a task")

        return None if self.is_open else self._finish()

    def _set_task(self, task: Task) -> None:
        self.task = task
        self._pieces = {each.artifact_id: [each] for each in task.artifacts}

    def _ensure_task(self, task_id: str, context_id: str) -> Task:
        self._check_id(task_id)
        if self.task is None:
            self.task = Task(id=task_id, context_id=context_id)
        return self.task

    def _check_id(self, task_id: str) -> None:
        if not ID.fullmatch(task_id):
            raise AgentError("its task has no id that can be used")
        if self.task is not None and self.task.id != task_id:
            raise AgentError("it is about another task")

    def _finish(self) -> Task | None:
        """Return the task, with its complete artifacts."""
        if self.task is not None:
            artifacts = [*map(_join_pieces, self._pieces.values())]
            del self.task.artifacts[:]
            self.task.artifacts.extend(artifacts)
        return self.task

    def _report(self, status: TaskStatus) -> None:
        if text := "\n".join(part.text for part in status.message.parts if part.HasField("text")):
            self.report(text)


def _join_pieces(pieces: Sequence[Artifact]) -> Artifact:
    """Join the pieces of an artifact. A text at the start of a piece continues a text at the end of the last piece."""
    joined = pieces[0]
    rests = defaultdict[int, list[str]](list)  # the rests of texts, by position of the part
    for piece in pieces[1:]:
        parts = [*piece.parts]
        if joined.parts and parts and joined.parts[-1].HasField("text") and parts[0].HasField("text"):
            rests[len(joined.parts) - 1].append(parts.pop(0).text)
        joined.parts.extend(parts)
    for position, texts in rests.items():
        joined.parts[position].text += "".join(texts)
    return joined


def make_result(tool: str, answer: Task | Message) -> ToolResult:
    """Make the result of a call: a task is its value, as JSON. Texts are joined, nothing is fetched.

    Raises:
        ValueError: The answer has a number that JSON does not have.
    """
    if isinstance(answer, Message):
        parts = [*map(read_part, answer.parts)]
        text = join_parts(parts) or NOTHING
        return ToolResult(text, text, **attach_parts(parts))

    parts = [read_part(part) for artifact in answer.artifacts for part in artifact.parts]
    parts += map(read_part, answer.status.message.parts)
    answer.ClearField("history")  # earlier messages, which some agents send unasked
    value = _make_plain(answer)
    note, is_error = _find_note(tool, answer)
    text = "\n".join(filter(None, (join_parts(parts), note)))
    if is_error:
        return ToolResult(value, text, error=text, kind="failed", **attach_parts(parts))
    return ToolResult(value, text or NOTHING, **attach_parts(parts))


def _make_plain(message: ProtoMessage) -> Any:
    """Convert a message to JSON data.

    In free-form data, Protobuf does not keep the order of keys, so they are sorted. It stores every number as a float,
    so whole numbers become integers again.
    """

    def restore(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: restore(value[key]) for key in sorted(value)}
        if isinstance(value, list):
            return [restore(item) for item in value]
        if isinstance(value, float) and value.is_integer() and abs(value) <= EXACT:
            return int(value)
        return value

    return restore(MessageToDict(message))


def _find_note(tool: str, task: Task) -> tuple[str, bool]:
    """Return a note for the model about the state of a task, and whether it is an error."""
    state = task.status.state
    if state == TaskState.TASK_STATE_INPUT_REQUIRED:
        return GO_ON.format(tool=tool, id=task.id), False
    if state == TaskState.TASK_STATE_AUTH_REQUIRED:
        return SIGN_IN.format(tool=tool, id=task.id), True
    if state in FAILURES:
        return f"[{FAILURES[state]}]", True
    return "", False


def read_part(part: WirePart) -> Part:
    """Read a part of a message: a text, data as JSON, an image or a file. A link is named and not followed."""
    kind = part.WhichOneof("content")
    if kind == "text":
        return part.text
    if kind == "data":
        return to_json(_make_plain(part.data)).decode()
    if kind == "raw":
        return decode_file(part.raw, part.media_type or "application/octet-stream", part.filename or "file")
    return f"[{part.filename or 'file'}]({part.url})" if kind == "url" else ""
