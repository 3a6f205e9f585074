"""One message to an agent, and its task until that ends or waits for something."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from uuid import uuid4

import anyio
import httpx
from a2a.client import A2AClientError, Client
from a2a.types import (
    Artifact,
    GetTaskRequest,
    Message,
    Part,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    StreamResponse,
    Task,
    TaskState,
    TaskStatus,
)

from toolkit.sources.a2a.agent import WrongAnswerError
from toolkit.sources.remote import TRIES, RunningCall

FIRST_PAUSE = 0.2  # seconds between two looks at a task
LONGEST_PAUSE = 5.0  # the same, at most
GROWTH = 1.5  # of the pause, from one look to the next
ID = re.compile(r"[!-;=?-{}~]{1,200}")  # of a task: the model reads it, so it makes no mark of a chat template

ENDED = frozenset(
    {
        TaskState.TASK_STATE_COMPLETED,
        TaskState.TASK_STATE_FAILED,
        TaskState.TASK_STATE_CANCELED,
        TaskState.TASK_STATE_REJECTED,
    }
)
WAITING = frozenset({TaskState.TASK_STATE_INPUT_REQUIRED, TaskState.TASK_STATE_AUTH_REQUIRED})


@dataclass(eq=False)
class Exchange:
    """A message to an agent, and what it answers.

    Attributes:
        client: A client for the agent.
        running: Receives what the agent reports.
        task: The task, as far as it is known.
    """

    client: Client
    running: RunningCall
    task: Task | None = None
    _pieces: dict[str, list[Artifact]] = field(default_factory=dict)  # of each artifact

    @property
    def is_open(self) -> bool:
        """Whether the agent has a task that it still works on."""
        return self.task is not None and self.task.status.state not in ENDED | WAITING

    async def send(self, text: str, skill: str, task_id: str) -> Task | Message:
        """Send a message, and follow the task until it ends, or waits for input or authentication.

        Args:
            text: The message.
            skill: Id of the skill, which goes with the message as metadata.
            task_id: The task that the message continues; "" for a new one.

        Raises:
            A2AError: The agent refused the message, or cannot be reached.
            ValueError: Its answer is invalid.
        """
        message = Message(role=Role.ROLE_USER, message_id=uuid4().hex, parts=[Part(text=text)])
        message.metadata.update({"skillId": skill})
        if task_id:
            self._take_task(task := await self._get(task_id))
            message.task_id, message.context_id = task.id, task.context_id
        request = SendMessageRequest(message=message, configuration=SendMessageConfiguration(history_length=0))
        try:
            async with aclosing(self.client.send_message(request)) as events:  # type: ignore[type-var]  # it is a generator
                async for event in events:
                    answer = self._take(event)
                    if answer is not None:
                        return answer
        except A2AClientError as error:
            if self.task is None or not isinstance(error.__cause__, httpx.RequestError):
                raise
        if self.task is None:
            raise WrongAnswerError("it is empty")
        return await self._poll(self.task.id)

    async def _poll(self, task_id: str) -> Task:
        pause, misses = FIRST_PAUSE, 0
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
            is_news, self.task = self.task is None or self.task.status != task.status, task
            if not self.is_open:
                return task
            if is_news:
                self._report(task.status)

    async def _get(self, task_id: str) -> Task:
        task = await self.client.get_task(GetTaskRequest(id=task_id, history_length=0))
        if task.id != task_id:
            raise WrongAnswerError("it is about another task")
        return task

    def _take(self, event: StreamResponse) -> Task | Message | None:
        """Take what the agent says; returns its answer once it is whole."""
        kind = event.WhichOneof("payload")
        if kind == "message" and (self.task is None or event.message.task_id in ("", self.task.id)):
            return event.message
        if kind == "task":
            self._check_id(event.task.id)
            self._take_task(event.task)
        elif kind == "status_update":
            self._know(event.status_update.task_id, event.status_update.context_id).status.CopyFrom(
                event.status_update.status
            )
            if self.is_open:
                self._report(event.status_update.status)
        elif kind == "artifact_update":
            update = event.artifact_update
            self._know(update.task_id, update.context_id)
            known = self._pieces.get(update.artifact.artifact_id, []) if update.append else []
            self._pieces[update.artifact.artifact_id] = known
            known.append(update.artifact)
        else:
            raise WrongAnswerError("it is neither a message nor a task")
        return None if self.is_open else self._finish()

    def _take_task(self, task: Task) -> None:
        self.task = task
        self._pieces = {each.artifact_id: [each] for each in task.artifacts}

    def _know(self, task_id: str, context_id: str) -> Task:
        self._check_id(task_id)
        if self.task is None:
            self.task = Task(id=task_id, context_id=context_id)
        return self.task

    def _check_id(self, task_id: str) -> None:
        if not ID.fullmatch(task_id):
            raise WrongAnswerError("its task has no id that can be used")
        if self.task is not None and self.task.id != task_id:
            raise WrongAnswerError("it is about another task")

    def _finish(self) -> Task | None:
        """Put the artifacts together."""
        if self.task is not None:
            whole = [*map(_join_pieces, self._pieces.values())]
            del self.task.artifacts[:]
            self.task.artifacts.extend(whole)
        return self.task

    def _report(self, status: TaskStatus) -> None:
        if text := "\n".join(part.text for part in status.message.parts if part.HasField("text")):
            self.running.report(text)


def _join_pieces(pieces: Sequence[Artifact]) -> Artifact:
    """Put an artifact together; a text that goes on in the next piece is one text."""
    if len(pieces) == 1:
        return pieces[0]
    runs = [[part] for part in pieces[0].parts]
    for piece in pieces[1:]:
        for number, part in enumerate(piece.parts):
            if number == 0 and runs and part.HasField("text") and runs[-1][-1].HasField("text"):
                runs[-1].append(part)
            else:
                runs.append([part])
    joined = Artifact(artifact_id=pieces[0].artifact_id, name=pieces[0].name, description=pieces[0].description)
    for run in runs:
        part = joined.parts.add()
        part.CopyFrom(run[0])
        if len(run) > 1:
            part.text = "".join(each.text for each in run)
    return joined
