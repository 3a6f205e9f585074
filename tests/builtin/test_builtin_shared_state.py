"""`shared_state`: texts by name, for several agents at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from toolkit import DefinitionError, Runner, Toolbox
from toolkit.builtin import SharedState, shared_state_tool
from toolkit.errors import Failed
from toolkit.testing import ModelReply, ScriptedModel, call

UNCHANGED = {"k": 2}
FULL = "SharedState capacity exceeded: storing 'x' (13 bytes) would bring total to 17 / 16 bytes. Remove some first."


@pytest.fixture
def state() -> SharedState:
    """A store that holds one text of two bytes, and has room for 13 more."""
    subject = SharedState(max_bytes=16)
    subject.set("k", "é")
    return subject


def call_tool(state: SharedState, **arguments: Any) -> str:
    """Call the tool, and return its text."""
    return Toolbox([shared_state_tool(state)]).call("shared_state", arguments).text


@pytest.mark.parametrize(
    ("arguments", "text", "sizes"),
    [
        ({"action": "get", "key": "k"}, "é", UNCHANGED),
        ({"action": "get", "key": "x"}, "Key 'x' not found in shared state", UNCHANGED),
        ({"action": "set", "key": "x", "value": "ab"}, "Stored 'x' (2 bytes)", {"k": 2, "x": 2}),
        ({"action": "set", "key": "k", "value": "a" * 15}, "Stored 'k' (15 bytes)", {"k": 15}),
        ({"action": "remove", "key": "k"}, "Removed 'k'", {}),
        ({"action": "remove", "key": "x"}, "Key 'x' not found", UNCHANGED),
        ({"action": "list"}, "k (2 bytes)", UNCHANGED),
        ({"action": "get"}, "Invalid arguments: Missing required 'key' parameter for get", UNCHANGED),
        ({"action": "set", "key": "k"}, "Invalid arguments: Missing required 'value' parameter for set", UNCHANGED),
        (
            {"action": "set", "key": "x", "value": "a" * 13},
            FULL,
            UNCHANGED,
        ),
    ],
    ids=str,
)
def test_actions(state: SharedState, arguments: dict[str, Any], text: str, sizes: dict[str, int]) -> None:
    """Each action returns its text and details."""
    assert text == call_tool(state, **arguments)
    assert sizes == state.sizes()


@pytest.mark.parametrize("arguments", [{}, {"action": "clear"}, {"action": "get", "key": " "}], ids=str)
def test_refused(state: SharedState, arguments: dict[str, Any]) -> None:
    """Another action, and a key without a letter, are refused."""
    assert "invalid_arguments" == Toolbox([shared_state_tool(state)]).call("shared_state", arguments).kind


def test_list() -> None:
    """Names are listed in order, with their sizes, up to 200 of them."""
    state = SharedState()
    for name, size in (("b", 2048), ("a", 3 * 1024**2), *((f"c{n:03}", 0) for n in range(199))):
        state.set(name, "x" * size)

    assert call_tool(state, action="list").startswith("a (3145728 bytes), b (2048 bytes), c000 (0 bytes), ")
    assert "c197 (0 bytes), and 1 more" == call_tool(state, action="list")[-26:]
    assert "(empty)" == call_tool(SharedState(), action="list")


def test_most_bytes() -> None:
    """10 MiB fit, and not a byte more."""
    state = SharedState()
    state.set("k", "x" * (10 * 1024**2 - 1))

    with pytest.raises(Failed, match="capacity exceeded"):
        state.set("l", "")


def test_room_that_becomes_free() -> None:
    """A text that is removed, or replaced by a shorter one, leaves its bytes to others; a refused one takes none."""
    state = SharedState(10)
    state.set("a", "12345")
    for _ in range(3):
        with pytest.raises(Failed, match="14 / 10 bytes"):
            state.set("b", "1234567")
        state.set("a", "12")
        state.set("bb", "é123")
        state.set("a", "1")
        state.remove("bb")
        state.remove("bb")
        state.set("a", "12345")

    assert {"a": 5} == state.sizes()


@pytest.mark.parametrize("size", [0, -1, 1.5, True, "10"], ids=repr)
def test_invalid_size(size: Any) -> None:
    """An invalid size is refused."""
    with pytest.raises(DefinitionError, match="max_bytes"):
        SharedState(size)


@pytest.mark.parametrize("state", [{}, 10], ids=repr)
def test_invalid_state(state: Any) -> None:
    """A value that is not a `SharedState` is refused when the tool is made."""
    with pytest.raises(DefinitionError, match="state="):
        shared_state_tool(state)


def test_at_the_same_time() -> None:
    """Concurrent writes and removals leave the right count of used bytes."""
    state = SharedState(max_bytes=2000)

    def work(number: int) -> None:
        for _ in range(100):
            state.set(f"{number % 4}", "x" * number)
            state.remove(f"{(number + 1) % 4}")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(16)))
    for key in range(4):
        state.remove(str(key))
    state.set("all", "x" * 1997)

    assert {"all": 1997} == state.sizes()


def test_other_texts_are_not_counted_again() -> None:
    """Storing and removing a text takes as long beside many texts as beside none: the others are not encoded again."""
    counted = list[str]()

    class Text(str):
        def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
            counted.append(str(self))
            return super().encode(encoding, errors)

    state = SharedState()
    state.set(Text("old"), Text("text"))
    counted.clear()
    state.set("new", "text")
    state.remove("new")

    assert [] == counted


def test_two_agents() -> None:
    """One agent reads the text of another; other stores are separate."""
    state = SharedState()
    writes: list[ModelReply] = [call("shared_state", action="set", key="plan", value="Paint it."), "Kept."]
    reads: list[ModelReply] = [call("shared_state", action="get", key="plan"), "Read."]
    Runner([shared_state_tool(state)], model=ScriptedModel(writes)).run("Keep it.")

    assert "Paint it." == Runner([shared_state_tool(state)], model=ScriptedModel(reads)).run("?").calls[0].result.text
    assert "(empty)" == shared_state_tool().invoke({"action": "list"}).text
