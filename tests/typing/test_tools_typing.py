"""What type checkers know of a tool: mypy, pyright and pyrefly read this file, pytest runs it.

An error that has to be one is ignored by name, for each checker; both are told to complain of an ignore without error.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from dataclasses import FrozenInstanceError
from typing import Any

import pytest
from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolUnionParam
from typing_extensions import assert_type

from toolkit import DefinitionError, Tool, Toolbox, ToolContext, ToolResult, tool
from toolkit.calls import parse_calls


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


@tool
def counting(end: int) -> Iterator[int]:
    yield from range(end)


@tool(name="count_later")
async def counting_later(end: int) -> AsyncIterator[int]:
    for number in range(end):
        yield number


@tool
def free(*names: str, **ages: int) -> list[str]:
    return [*names, *ages]


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

    @tool
    @classmethod
    def opened(cls, name: str) -> Account:
        return cls()

    @tool
    @staticmethod
    def interest(amount: int) -> float:
        return amount / 10


class Savings(Account):
    # pyright and pyrefly compare the types of `self`, too, as if a tool were a variable and no method.
    @tool
    def deposit(self, amount: int) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]  # pyrefly: ignore[bad-override]
        return super().deposit(amount) + 1


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
    """Type checkers refuse what the function does not take."""
    with pytest.raises(TypeError):
        add(1, 2, 3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    with pytest.raises(TypeError):
        add()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    with pytest.raises(TypeError):
        optioned(1, 2)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    with pytest.raises(TypeError):
        add(a="1")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def test_wrong_options() -> None:
    """Type checkers refuse options that the decorator does not have, and what cannot be called."""
    with pytest.raises(TypeError):
        tool(nmae="plus")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    with pytest.raises(DefinitionError):
        tool("plus")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]


def test_wrong_members() -> None:
    """Type checkers know what a tool has, and that it is frozen."""
    with pytest.raises(AttributeError):
        add.shema  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(FrozenInstanceError):
        add.name = "plus"  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]


def test_wrong_result() -> None:
    """Type checkers refuse a result where another type is due."""
    text: str = add(1)  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]

    assert "3" != text


def test_generators() -> None:
    """A decorated generator function gives its iterator."""
    assert_type(counting(2), Iterator[int])
    assert_type(counting_later(2), AsyncIterator[int])

    assert [0, 1] == list(counting(2))


def test_variadic() -> None:
    """Parameters with stars keep their types."""
    assert_type(free("a", "b", c=1), list[str])

    assert ["a", "c"] == free("a", c=1)


def test_as_callable() -> None:
    """A tool goes wherever its function would."""
    doubled: Callable[[int], int] = add

    assert [3, 4] == list(map(doubled, [1, 2]))


def test_members() -> None:
    """What a tool tells of itself is typed."""
    assert_type(add.name, str)
    assert_type(add.title, str | None)
    assert_type(add.description, str)
    assert_type(add.parameters, dict[str, Any])
    assert_type(add.is_async, bool)
    assert_type(add.with_name("plus")(1), int)
    assert_type(Account().deposit.name, str)

    assert "plus" == add.with_name("plus").name


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


def test_wrong_method_call() -> None:
    """Type checkers know a bound method's parameters."""
    with pytest.raises(TypeError):
        Account().deposit()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    with pytest.raises(TypeError):
        Account().deposit(1, 2)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def test_class_method() -> None:
    """A class method has no `cls`, on the class as on an instance."""
    assert_type(Account().opened("a"), Account)
    assert_type(Account.opened("a"), Account)

    assert isinstance(Account().opened("a"), Account)


def test_static_method() -> None:
    """A static method keeps its parameters, on the class as on an instance."""
    assert_type(Account.interest(1), float)
    assert_type(Account().interest(1), float)

    assert 0.1 == Account.interest(1) == Account().interest(1)


def test_overridden_method() -> None:
    """A subclass may put a tool of its own in a tool's place, and call the one above."""
    assert_type(Savings().deposit(1), float)
    account: Account = Savings()
    assert_type(account.deposit(1), float)

    assert 2.0 == account.deposit(1)


async def auditing() -> bool:
    return assert_type(await Account().audit(1), bool)


def test_async_method() -> None:
    """An async method on an instance gives what can be awaited."""
    with pytest.raises(StopIteration, match="True"):
        auditing().send(None)


def test_results() -> None:
    """The model's ways in give results, whatever the function gives."""
    assert_type(add.invoke('{"a": 1}'), ToolResult)
    box = Toolbox([add, later, Account().deposit])
    assert_type(box.call("add", '{"a": 1}'), ToolResult)
    assert_type(box["add"], Tool[..., Any])
    assert_type(box.names, tuple[str, ...])
    assert_type([made.name for made in box], list[str])

    assert "3" == add.invoke('{"a": 1}').text


def test_own_loop() -> None:
    """Schemas and answers go into a request of the provider's package, whose types are its own."""
    messages: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Add."}]
    box = Toolbox([add])
    tools: list[ChatCompletionToolUnionParam] = box.schemas("chat")
    messages += box.answer({"choices": [{"message": {"role": "assistant", "content": "No."}}]})

    assert (1, 1) == (len(messages), len(tools))


def test_union_with_a_subclass() -> None:
    """Toolboxes of two classes make one of the left one's class."""

    class Drawer(Toolbox):
        """A toolbox of the application's own class."""

    assert_type(Drawer([add]) | Toolbox([later]), Drawer)
    assert_type(Toolbox([later]) | Drawer([add]), Toolbox)

    assert isinstance(Drawer([add]) | Toolbox([later]), Drawer)


def test_context() -> None:
    """A context knows the type of what it brings; without a type it brings nothing."""
    assert_type(asking("q", ToolContext(deps=Database())), str)
    bare: ToolContext = ToolContext(deps=None)
    assert_type(bare.deps, None)

    assert "dbq" == asking.invoke('{"query": "q"}', ToolContext(deps=Database())).text


def test_declarations() -> None:
    """A declared tool is typed as far as its schema goes: not at all; what is bound stays the function that it is."""
    made = Tool.from_schema("double", {"properties": {"number": {"type": "integer"}}}, lambda number: 2 * number)
    assert_type(made, Tool[..., Any])
    assert_type(Tool.from_models("double", {"properties": {}}, int), Tool[..., Any])
    box = Toolbox([made])

    @box.bind("double")
    def exactly(number: int) -> int:
        return 2 * number

    assert_type(exactly(1), int)
    assert_type(box.bindings.activity_of("double"), str)
    assert_type(box.call_many(parse_calls(box, '{"calls": []}'), wait="success"), list[ToolResult])

    assert 4 == box.call("double", {"number": 2}).value


def test_tool_without_parameters() -> None:
    """An annotation may name a Tool without its parameters."""

    def name(made: Tool) -> str:
        return made.name

    assert_type(name(add), str)
    assert "add" == name(add)
