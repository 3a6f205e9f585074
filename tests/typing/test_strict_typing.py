# pyright: strict
"""Natural code of a user whose checkers are strict: mypy, pyright and pyrefly read this file, pytest runs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from typing_extensions import assert_type

from toolkit import ApprovalRequest, LedgerEntry, Runner, Tool, Toolbox, ToolContext, tool
from toolkit.builtin import ingest_text, knowledge_tools
from toolkit.models import Message, ModelResponse, UserMessage
from toolkit.stores import SQLiteKnowledge
from toolkit.testing import ScriptedModel, call


@tool(effect="read", approve=lambda request: request.arguments["amount"] > 9, retry_on=lambda error: error.args)
def spend(amount: int) -> int:
    return amount


@tool(authorize=lambda tool, arguments, context: context.deps or tool.name in arguments)
def earn(amount: int) -> int:
    return amount


class Shop:
    def ask(self, request: ApprovalRequest) -> bool:
        return request.name != "buy"

    def allow(self, tool: Tool, arguments: Mapping[str, Any], context: ToolContext) -> bool:
        return bool(tool.name and arguments and not context.deps)

    @tool(approve=ask, authorize=allow)
    def buy(self, item: str) -> str:
        return item


def test_rules() -> None:
    """The parameters of a rule need no annotations."""
    assert_type(spend(1) + earn(1), int)
    box = Toolbox([spend, earn])

    assert [None, "unavailable"] == [box.call("spend", {"amount": amount}).kind for amount in (1, 10)]
    assert "denied" == box.call("earn", {"amount": 1}).kind


def test_rules_as_methods() -> None:
    """A rule may be a method of the tool's class."""
    assert_type(Shop().buy("tea"), str)

    assert "tea" == Toolbox([Shop()]).call("buy", {"item": "tea"}).value


class Chats:
    """Conversations in a store of the application's own."""

    def __init__(self) -> None:
        self._chats: dict[str, list[Message]] = {}

    def load(self, name: str) -> list[Message]:
        return self._chats.get(name, [])

    def save(self, name: str, messages: Sequence[Message]) -> None:
        self._chats[name] = list(messages)


def test_own_store() -> None:
    """A function may say that it takes or returns messages."""
    chats, runner = Chats(), Runner(model=ScriptedModel(["Hi.", "Bye."]))
    history: list[Message] = [UserMessage("Who am I?"), ModelResponse(text="Ann.")]
    chats.save("ann", runner.run("Hi.", messages=history).messages)

    assert 6 == len(runner.run("Bye.", messages=chats.load("ann")).messages)


def embed(texts: list[str]) -> list[list[float]]:
    return [[float(len(text))] for text in texts]


def test_own_embeddings() -> None:
    """A function that embeds a list of texts is one that a store uses."""
    store = SQLiteKnowledge()
    ingest_text("Tea is at noon.", store, embed)
    search = Toolbox(knowledge_tools(store, embed))["knowledge_search"]

    assert "Tea is at noon." in search.invoke({"query": "tea"}).text


class ListLedger:
    """A ledger as an application writes one."""

    def __init__(self) -> None:
        self.entries: list[LedgerEntry] = []

    def write(self, entry: LedgerEntry) -> bool:
        is_first = all((entry.call_id, entry.stage) != (each.call_id, each.stage) for each in self.entries)
        if is_first:
            self.entries.append(entry)
        return is_first

    def read(self, run_id: str, call_id: str | None = None) -> list[LedgerEntry]:
        return [each for each in self.entries if each.run_id == run_id and call_id in (None, each.call_id)]


def test_own_ledger() -> None:
    """A ledger may return a list."""
    ledger, model = ListLedger(), ScriptedModel([call("spend", amount=1), "Spent."])
    Runner([spend], model=model, ledger=ledger).run("Spend.")

    assert "finished" == ledger.entries[-1].stage


def test_script() -> None:
    """A script may be a variable, and a function among its replies needs no annotations."""
    script = [call("spend", amount=1), "Spent."]
    counting = ScriptedModel([lambda request: f"{len(request.messages)} message", "Bye."])

    assert "Spent." == Runner([spend], model=ScriptedModel(script)).run("Spend.").output
    assert "1 message" == Runner(model=counting).run("Count.").output
