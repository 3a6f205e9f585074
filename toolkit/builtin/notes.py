"""`todo_write` and `shared_state`: a model's list of tasks, and texts that several agents share."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from annotated_types import MaxLen
from pydantic import StringConstraints
from typing_extensions import TypedDict

from toolkit._guards.options import check_type, check_whole
from toolkit._messages import ToolResult
from toolkit._tools.decorator import tool
from toolkit._tools.tool import Tool
from toolkit.errors import Failed, InvalidArguments

MAX_ITEMS = 50
MAX_BYTES = 10 * 1024 * 1024
MAX_LISTED = 200

Status = Literal["pending", "in_progress", "completed"]
Key = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]


class Todo(TypedDict):
    """One task.

    Attributes:
        content: The task as an order: "Run the tests".
        activeForm: The same in the present continuous: "Running the tests".
        status: State of the task.
    """

    content: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=1000)]
    activeForm: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]
    status: Status


@dataclass
class Todos:
    """The list of one conversation, for display. A model replaces the whole list.

    Attributes:
        items: The tasks in the model's order; empty when all are completed.
    """

    items: tuple[Todo, ...] = ()


def todo_tool(todos: Todos | None = None) -> Tool[..., Any]:
    """Make `todo_write`.

    Args:
        todos: The list; a new one by default. Each conversation needs its own.

    Raises:
        DefinitionError: `todos` is not a `Todos`.
    """
    current = Todos() if todos is None else check_type("todos", todos, Todos)

    @tool(title="Todo List", effect="write", idempotent=True)
    def todo_write(todos: Annotated[list[Todo], MaxLen(MAX_ITEMS)]) -> ToolResult:
        """Write your task list, replacing the old one.

        Use it for work of three steps and more, and when the user asks for a list or for several things. Mark a task
        as in_progress before you start it, one at a time, and as completed as soon as it is done, not before. Leave out
        what is no longer needed. When all tasks are completed, the list is cleared.

        Args:
            todos: All tasks, with the completed ones. content is an order ("Run the tests"), activeForm the same in
                the present continuous ("Running the tests").
        """
        is_completed = all(item["status"] == "completed" for item in todos)
        current.items = () if is_completed else tuple(todos)
        return ToolResult(_summarize(todos), details={"todos": list(current.items)})

    return todo_write


def _summarize(todos: list[Todo]) -> str:
    counts = Counter(item["status"] for item in todos)
    if counts["completed"] == len(todos):
        return "All tasks are completed; the list is cleared." if todos else "The list is empty."
    summary = ", ".join(f"{counts[status]} {status}" for status in ("in_progress", "pending", "completed"))
    return f"The list has {len(todos)} tasks: {summary}. Continue, and keep it up to date."


class SharedState:
    """Texts by name, for any number of agents and threads.

    Args:
        max_bytes: Limit for all names and texts together, in UTF-8.

    Raises:
        DefinitionError: `max_bytes` is not a positive integer.
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = check_whole("max_bytes", max_bytes)
        self._lock = threading.Lock()
        self._texts: dict[str, str] = {}
        self._total = 0  # bytes of all names and texts

    def get(self, key: str) -> str | None:
        """Return the text of a name, or None if there is none."""
        with self._lock:
            return self._texts.get(key)

    def set(self, key: str, value: str) -> None:
        """Store a text under a name, replacing the old one.

        Raises:
            Failed: There is no room; nothing was changed.
        """
        with self._lock:
            size = _count_bytes(value)
            old = self._texts.get(key)
            total = self._total + size + (_count_bytes(key) if old is None else -_count_bytes(old))
            if total > self._max_bytes:
                raise Failed(
                    f"SharedState capacity exceeded: storing '{key}' ({size} bytes) would bring total to "
                    f"{total} / {self._max_bytes} bytes. Remove some first."
                )
            self._texts[key] = value
            self._total = total

    def remove(self, key: str) -> bool:
        """Remove the text of a name, and return whether there was one."""
        with self._lock:
            text = self._texts.pop(key, None)
            if text is not None:
                self._total -= _count_bytes(key) + _count_bytes(text)
            return text is not None

    def sizes(self) -> dict[str, int]:
        """Return the size of each text in bytes, sorted by name."""
        with self._lock:
            texts = dict(self._texts)
        return {key: _count_bytes(texts[key]) for key in sorted(texts)}


def shared_state_tool(state: SharedState | None = None) -> Tool[..., Any]:
    """Make `shared_state`, by which cooperating agents share texts.

    Args:
        state: The texts. Pass the same object to the tools of all cooperating agents.

    Raises:
        DefinitionError: `state` is not a `SharedState`.
    """
    texts = SharedState() if state is None else check_type("state", state, SharedState)

    @tool(title="Shared State", effect="write", idempotent=True)
    def shared_state(
        action: Literal["get", "set", "list", "remove"], key: Key | None = None, value: str | None = None
    ) -> ToolResult:
        """Read and write named texts in a store that other agents see too. They stay until they are removed.

        Args:
            action: What to do.
            key: Name of the text; for get, set and remove.
            value: The text; for set.
        """
        if action == "list":
            sizes = texts.sizes()
            listed = [f"{name} ({size} bytes)" for name, size in list(sizes.items())[:MAX_LISTED]]
            more = [f"and {len(sizes) - MAX_LISTED} more"] if len(sizes) > MAX_LISTED else []
            return ToolResult(", ".join((*listed, *more)) or "(empty)", details={"action": action})

        if key is None or (action == "set" and value is None):
            name = "key" if key is None else "value"
            raise InvalidArguments(f"Missing required '{name}' parameter for {action}")

        details: dict[str, Any] = {"action": action, "key": key}
        if action == "set":
            texts.set(key, value or "")
            size = _count_bytes(value or "")
            return ToolResult(f"Stored '{key}' ({size} bytes)", details={**details, "bytes": size})
        if action == "remove":
            existed = texts.remove(key)
            text = f"Removed '{key}'" if existed else f"Key '{key}' not found"
            return ToolResult(text, details={**details, "existed": existed})

        stored = texts.get(key)
        if stored is None:
            raise Failed(f"Key '{key}' not found in shared state")
        return ToolResult(stored, details=details)

    return shared_state


def _count_bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
