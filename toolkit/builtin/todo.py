"""`todo_write`: a model's list of tasks."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from annotated_types import MaxLen
from pydantic import StringConstraints
from typing_extensions import TypedDict

from toolkit._guards.options import check_type
from toolkit._messages import ToolResult
from toolkit._tools.decorator import tool
from toolkit._tools.tool import Tool

MAX_ITEMS = 50

Status = Literal["pending", "in_progress", "completed"]


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
    """The list of one conversation, for display; a model replaces the whole list.

    Attributes:
        items: The tasks in the model's order; empty when all are completed.
    """

    items: tuple[Todo, ...] = ()


def todo_tool(todos: Todos | None = None) -> Tool[..., Any]:
    """Make `todo_write`.

    Args:
        todos: Holds the list; a new one by default. Each conversation needs its own.

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
