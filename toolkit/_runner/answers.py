"""The answers to many prompts in a file, one a line, so that a second attempt asks for the others only.

A line is added at the end in one write, and never changed. A process that dies while it writes leaves half a line,
which is not an answer; the next line begins behind it.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict, deque
from hashlib import sha256
from pathlib import Path
from typing import Any

from toolkit._messages import message_to_dict
from toolkit._runner.conversation import Conversation, Finished
from toolkit._runner.limits import Limits
from toolkit._runner.options import Prompt
from toolkit._runner.output import TEXT, build_output
from toolkit._runner.prompt import make_user_message
from toolkit._runner.result import RunResult
from toolkit._runner.state import RunState, restore_calls
from toolkit._schema.json_text import dump_json
from toolkit.errors import ConversationError, StoreError, ToolError
from toolkit.events import REASONS_WITHOUT_ANSWER

# Each line begins like this.
BEGINNING = '{"digest": "'
NO_ANSWER = frozenset({*REASONS_WITHOUT_ANSWER, "halted", "length", "content_filter", "empty"})


class Answers:
    """The answers in a file.

    The same prompt may stand in the file several times: each of its answers is taken once.

    Args:
        path: The file; created if it does not exist. It holds whole conversations, and only its owner may read it.
        output_type: Type of the answers. One that is not of this type is no answer.
        limits: Their prices give the costs.

    Raises:
        StoreError: The file cannot be opened, or holds something else.
        DefinitionError: No JSON can be of the `output_type`.
    """

    def __init__(self, path: str | os.PathLike[str], output_type: Any, limits: Limits) -> None:
        self._path = Path(path).absolute()  # a tool may change the directory
        self._output = TEXT if output_type is str else build_output(output_type)
        self._limits = limits
        self._found: defaultdict[str, deque[RunResult[Any]]] = defaultdict(deque)
        text = self._read()
        for number, line in enumerate(text.split("\n"), 1):
            self._add(line, number)
        if text and not text.endswith("\n"):
            self._append("\n")

    def take(self, prompt: Prompt) -> RunResult[Any] | None:
        """Return an answer to a prompt, and forget it; None if there is none."""
        found = self._found.get(_digest(prompt))
        return found.popleft() if found else None

    def save(self, prompt: Prompt, outcome: RunResult[Any] | Exception) -> None:
        """Add an answer to the file. Errors, and results of runs that ended without an answer, are not saved.

        Raises:
            StoreError: It cannot be written.
        """
        if isinstance(outcome, Exception) or outcome.finish_reason in NO_ANSWER:
            return
        if outcome.finish_reason != "stop" and not outcome.output:  # a limit was reached before there was an answer
            return
        facts = {
            "digest": _digest(prompt),
            "prompt": "" if prompt is None or isinstance(prompt, RunState) else make_user_message(prompt).text,
            "answer": _get_text(outcome.state),
            "model": outcome.model,
            "state": json.loads(outcome.state.to_json()),
        }
        self._append(dump_json(facts) + "\n")

    def _read(self) -> str:
        try:
            with os.fdopen(self._open_file(), "rb") as file:
                return file.read().decode("utf-8", "replace")
        except OSError as error:
            raise StoreError(f"The file of answers {str(self._path)!r} cannot be opened: {error.strerror}.") from error

    def _append(self, text: str) -> None:
        data = text.encode("utf-8", "replace")
        try:
            with os.fdopen(self._open_file(), "ab", buffering=0) as file:
                written = file.write(data)
        except OSError as error:
            raise StoreError(f"An answer cannot be written to {str(self._path)!r}: {error.strerror}.") from error
        if written != len(data):
            raise StoreError(f"An answer cannot be written to {str(self._path)!r}: the disk is full.")

    def _open_file(self) -> int:
        return os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)

    def _add(self, line: str, number: int) -> None:
        """Read a line; skip it if it is incomplete."""
        if not (line.startswith(BEGINNING) or BEGINNING.startswith(line)):
            raise StoreError(
                f"Line {number} of {str(self._path)!r} is not an answer that map() has saved: choose another file."
            )
        try:
            facts: dict[str, Any] = json.loads(line)
            state = RunState.from_json(json.dumps(facts["state"]))
            result = self._restore(state, facts["model"])
        except (ValueError, KeyError, TypeError, ConversationError, ToolError):
            return
        self._found[facts["digest"]].append(result)

    def _restore(self, state: RunState, model: str) -> RunResult[Any]:
        prices = self._limits.prices
        return RunResult(
            output=self._output.parse(_get_text(state)),
            messages=state.messages,
            calls=tuple(restore_calls(state).values()),
            usage=state.usage,
            finish_reason=state.finish_reason or "stop",
            model=model,
            state=state,
            cost=prices.compute_cost(state.usage) if prices else None,
        )


def _get_text(state: RunState) -> str:
    step = Conversation.restore(state).next()
    return step.output if isinstance(step, Finished) else ""


def _digest(prompt: Prompt) -> str:
    """Return a digest of what is sent; the content of files counts, not their names."""
    if isinstance(prompt, RunState):
        text = prompt.to_json()
    else:
        text = "" if prompt is None else json.dumps(message_to_dict(make_user_message(prompt)))
    return sha256(text.encode()).hexdigest()
