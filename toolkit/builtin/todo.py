"""`todo_write`: a model's list of what it has to do."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any, Literal

from annotated_types import MaxLen
from pydantic import StringConstraints
from typing_extensions import TypedDict

from toolkit._messages import ToolResult
from toolkit._tools.decorator import tool
from toolkit._tools.tool import Tool
from toolkit.errors import DefinitionError

MAX_ITEMS = 50

Status = Literal["pending", "in_progress", "completed"]


class Todo(TypedDict):
    """One thing to do.

    Attributes:
        content: What to do, as an order: "Run the tests".
        activeForm: The same while it is done: "Running the tests".
        status: How far it is.
    """

    content: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=1000)]
    activeForm: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]
    status: Status


class Todos:
    """The list of one conversation, to be shown; a model replaces it in whole."""

    def __init__(self) -> None:
        self._items: tuple[Todo, ...] = ()

    @property
    def items(self) -> tuple[Todo, ...]:
        """What there is to do, in the model's order; empty when all is done."""
        return self._items

    def replace(self, items: list[Todo]) -> None:
        """Put another list in its place; one in which all is done leaves none."""
        is_done = all(item["status"] == "completed" for item in items)
        self._items = () if is_done else tuple(items)


def todo_tool(todos: Todos | None = None) -> Tool[..., Any]:
    """Make `todo_write`.

    Args:
        todos: Where the list is kept; one of the tool's own by default. Each conversation needs its own.

    Raises:
        DefinitionError: It is no Todos.
    """
    kept = Todos() if todos is None else todos
    if not isinstance(kept, Todos):
        raise DefinitionError(f"todo_tool: todos={todos!r} is no list of this kind: write Todos().")

    @tool(title="Todo List", effect="write", idempotent=True)
    def todo_write(todos: Annotated[list[Todo], MaxLen(MAX_ITEMS)]) -> ToolResult:
        """Write the list of what you have to do, in place of the old one.

        Use it for work of three steps and more, and when the user asks for a list or for several things. Mark a task
        as in_progress before you begin it, one at a time, and as completed as soon as it is done, not before. Leave out
        what is no longer needed. When all tasks are completed, the list is cleared.

        Args:
            todos: All tasks, those that are done included. content is an order ("Run the tests"), activeForm says the
                same while it is done ("Running the tests").
        """
        kept.replace(todos)
        return ToolResult(_told(todos), details={"todos": list(kept.items)})

    return todo_write


def _told(todos: list[Todo]) -> str:
    counts = Counter(item["status"] for item in todos)
    if counts["completed"] == len(todos):
        return "All tasks are completed; the list is cleared." if todos else "The list is empty."
    said = ", ".join(f"{counts[status]} {status}" for status in ("in_progress", "pending", "completed"))
    return f"The list has {len(todos)} tasks: {said}. Go on, and keep it up to date."
