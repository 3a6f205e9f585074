"""What type checkers know of a tool: mypy and pyright read this file, pytest runs it."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

import pytest
from typing_extensions import assert_type

from toolkit import Tool, Toolbox, ToolContext, ToolResult, tool


class Database:
    """What an application gives to its tools."""

    name = "db"


@tool
def add(a: int, b: int = 2) -> int:
    return a + b


@tool(name="plus", title="Plus", relay=(KeyError,))
def optioned(a: int, *, b: int = 2) -> str:
    return str(a + b)


@tool
async def later(a: int) -> str:
    return str(a)


@tool
def asking(query: str, context: ToolContext[Database]) -> str:
    assert_type(context.deps, Database)
    return context.deps.name + query


class Account:
    @tool
    def deposit(self, amount: int) -> float:
        return float(amount)

    @tool(name="look")
    def read(self, key: str) -> bytes:
        return key.encode()

    @tool
    async def audit(self, amount: int) -> bool:
        return amount > 0


def test_function() -> None:
    """A decorated function keeps its parameters and its return type."""
    assert_type(add(1), int)
    assert_type(add(a=1, b=2), int)

    assert isinstance(add, Tool)


def test_options() -> None:
    """With options the decorator keeps them, too."""
    assert_type(optioned(1, b=2), str)

    assert "3" == optioned(1)


def test_wrong_arguments() -> None:
    """Type checkers refuse what the function does not take: an unused `ignore` would be an error here."""
    with pytest.raises(TypeError):
        add(1, 2, 3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def test_function_by_hand() -> None:
    """A function that is made a tool by a call is typed as by the decorator, with options or without."""

    def double(a: int) -> int:
        return 2 * a

    assert_type(tool(double)(1), int)
    assert_type(tool(double, name="twice")(1), int)
    assert_type(tool(name="twice")(double)(1), int)

    assert 2 == tool(double)(1)


async def awaiting() -> str:
    return assert_type(await later(1), str)


def test_async_function() -> None:
    """A decorated coroutine function gives what can be awaited."""
    coroutine: Coroutine[Any, Any, str] = awaiting()

    with pytest.raises(StopIteration, match="1"):
        coroutine.send(None)


def test_method() -> None:
    """A method on an instance has no `self`."""
    account = Account()
    assert_type(account.deposit(1), float)
    assert_type(account.read(key="a"), bytes)

    assert 1.0 == account.deposit(1)


def test_method_on_its_class() -> None:
    """A method on its class asks for its instance."""
    assert_type(Account.deposit(Account(), 1), float)

    assert 1.0 == Account.deposit(Account(), 1)


async def auditing() -> bool:
    return assert_type(await Account().audit(1), bool)


def test_async_method() -> None:
    """An async method on an instance gives what can be awaited."""
    with pytest.raises(StopIteration, match="True"):
        auditing().send(None)


def test_results() -> None:
    """The model's ways in give results, whatever the function gives."""
    assert_type(add.invoke('{"a": 1}'), ToolResult)
    assert_type(Toolbox([add, later, Account().deposit]).call("add", '{"a": 1}'), ToolResult)

    assert "3" == add.invoke('{"a": 1}').text


def test_context() -> None:
    """A context knows the type of what it brings; without a type it brings nothing."""
    assert_type(asking("q", ToolContext(deps=Database())), str)
    bare: ToolContext = ToolContext(deps=None)
    assert_type(bare.deps, None)

    assert "dbq" == asking.invoke('{"query": "q"}', ToolContext(deps=Database())).text
