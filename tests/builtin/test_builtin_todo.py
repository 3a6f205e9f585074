"""`todo_write`: the list is the last one that the model wrote."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from typing import Any

import pytest

from toolkit import DefinitionError, Runner, Toolbox
from toolkit.builtin import Todos, todo_tool
from toolkit.builtin.notes import Todo
from toolkit.testing import ScriptedModel, call

Items = list[dict[str, Any]]


def item(status: str = "pending", content: str = "Run the tests", form: str = "Running the tests") -> dict[str, Any]:
    """One thing to do."""
    return {"content": content, "activeForm": form, "status": status}


def write(todos: Todos, items: Items) -> str:
    """Write a list, and return the text for the model."""
    return Toolbox([todo_tool(todos)]).call("todo_write", {"todos": items}).text


@pytest.mark.parametrize(
    ("items", "text", "expected"),
    [
        (
            [item("in_progress"), item(), item("completed")],
            "The list has 3 tasks: 1 in_progress, 1 pending, 1 completed. Continue, and keep it up to date.",
            3,
        ),
        ([item("completed")] * 2, "All tasks are completed; the list is cleared.", 0),
        ([], "The list is empty.", 0),
    ],
    ids=["under way", "done", "empty"],
)
def test_write(items: Items, text: str, expected: int) -> None:
    """A list replaces the old one; a list of completed tasks clears it."""
    todos = Todos()
    write(todos, [item()])

    assert text == write(todos, items)
    assert items[:expected] == list(todos.items)


@pytest.mark.parametrize(
    "items",
    [
        [item()] * 51,
        [item("done")],
        [item(content=" ")],
        [item(form="")],
        [item(content="x" * 1001)],
        [item(form="x" * 201)],
        [{"content": "a"}],
    ],
    ids=["too many", "status", "no content", "no form", "long content", "long form", "missing"],
)
def test_refused(items: Items) -> None:
    """A list that goes beyond a bound is refused, and nothing changes."""
    todos = Todos()
    write(todos, [item()])

    assert "Invalid arguments: todos" == write(todos, items)[:24]
    assert (item(),) == todos.items


def test_bounds() -> None:
    """50 items, of 1000 and 200 characters, fit."""
    todos = Todos()
    write(todos, [item(content="x" * 1000, form="y" * 200)] * 50)

    assert 50 == len(todos.items)


def test_nothing_is_shared() -> None:
    """Two tools of two factories know nothing of each other."""
    one, other = todo_tool(), todo_tool()
    one.invoke({"todos": [item()]})

    assert {"todos": []} == other.invoke({"todos": []}).details
    assert {"todos": [item("in_progress")]} == one.invoke({"todos": [item("in_progress")]}).details


def test_at_the_same_time() -> None:
    """Lists that are written at the same time never mix."""
    todos, lists = Todos(), [[item(content=str(n))] * 50 for n in range(40)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda items: write(todos, items), lists))

    assert list(todos.items) in lists


def test_in_a_run() -> None:
    """A run writes its list step by step, and the application sees each of them."""
    todos, seen = Todos(), list[tuple[Todo, ...]]()
    script = [call("todo_write", todos=[item(status)]) for status in ("pending", "in_progress", "completed")]
    model = ScriptedModel([*script, "Done."])
    Runner([todo_tool(todos)], model=model, checkpoint=lambda _: seen.append(todos.items)).run("Run the tests.")

    assert [(), (item("pending"),), (item("in_progress"),), ()] == [items for items, _ in groupby(seen)]


@pytest.mark.parametrize("todos", [[], {}], ids=repr)
def test_definition(todos: Any) -> None:
    """A value that is not a `Todos` is refused when the tool is made."""
    with pytest.raises(DefinitionError, match="todos="):
        todo_tool(todos)
