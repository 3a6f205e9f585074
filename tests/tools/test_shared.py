"""Values that calls share: stored at dotted paths, by instance, and read through a view."""

from __future__ import annotations

import pickle
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.threads import together
from toolkit import Runner, SharedValues, Toolbox, ToolCall, ToolContext, tool
from toolkit.testing import ScriptedModel

NAMES = st.sampled_from(["a", "b", "0", "é"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map(".".join)
VALUES = st.recursive(st.none() | st.integers() | st.text("ab†", max_size=3), lambda inner: st.lists(inner, max_size=3))


@tool
def read_values(context: ToolContext) -> dict[str, Any]:
    """Return the values that a call may see."""
    return dict(context.shared)


def test_a_path() -> None:
    """A value is found at its path, as a part of the value above it, and by paths into it."""
    shared = SharedValues()
    shared.set("trip.city", {"names": ["Rome", "Roma"]})

    assert {"city": {"names": ["Rome", "Roma"]}} == shared.get("trip")
    assert ["Rome", "Roma"] == shared.get("state.trip.city.names")
    assert "Roma" == shared.get("trip.city.names.1")


def test_the_last_one_wins() -> None:
    """A value replaces the one at its path, and one above it that is not an object."""
    shared = SharedValues({"trip": "Rome", "days": {"first": 1}})
    shared.set("trip.city", "Oslo")
    shared.set("days", 3)

    assert ({"city": "Oslo"}, 3, ("days", "trip", "trip.city")) == (
        shared.get("trip"),
        shared.get("days"),
        shared.paths(),
    )


@pytest.mark.parametrize("path", ["", ".", "a.", "a..b", "state.", ".".join("a" * 33), 1, None], ids=str)
def test_no_path(path: Any) -> None:
    """A path has one to 32 names, and none of them is empty."""
    with pytest.raises(ValueError, match="is not a path: one to 32 names with dots between"):
        SharedValues().set(path, 1)


@pytest.mark.parametrize("path", ["city", "trip.days", "trip.city.0", "list.2", "list.first", "list.-1"])
def test_missing_value(path: str) -> None:
    """A path without a value is a KeyError that lists the paths that there are."""
    shared = SharedValues({"trip.city": "Rome", "list": [1, 2]})

    with pytest.raises(KeyError, match=rf"there is nothing at '{path}'.* Available: list, trip\.city"):
        shared.get(path)


def test_instances() -> None:
    """An instance sees its own value first, and otherwise the one that belongs to none; never that of another."""
    shared = SharedValues({"city": "Rome", "days": 2})
    shared.set("city", "Oslo", "first")
    shared.set("secret", 1, "second")

    assert ("Oslo", 2, "Rome") == (shared.get("city", "first"), shared.get("days", "first"), shared.get("city"))
    assert {"city": "Oslo", "days": 2} == dict(shared.view(instance="first"))


def test_a_value_of_the_application_in_place_of_a_result() -> None:
    """A result that it replaces in another instance goes with all that was added to it, and none of its paths stays."""
    shared = SharedValues()
    shared.store_result("trip", {"days": 2}, "first")
    shared.store_result("trip.hotel", "Ritz", "first")
    shared.store_result("trips", 1, "first")
    shared.set("trip.city", "Rome")

    assert {"trip.city": "Rome", "trips": 1} == dict(shared.view("first"))


def test_a_value_of_the_application_below_two_results() -> None:
    """It replaces several results in another instance, one of which is inside the other."""
    shared = SharedValues()
    shared.store_result("trip", {"days": 2}, "first")
    shared.store_result("trip.hotel", {"stars": 3}, "first")
    shared.set("trip.hotel.name", "Ritz")

    assert {"trip.hotel.name": "Ritz"} == dict(shared.view("first"))


def test_copies() -> None:
    """Changing a value after it was stored, or after it was read, does not change the stored one."""
    given = {"names": ["Rome"]}
    shared = SharedValues({"city": given})
    given["names"].append("Roma")
    shared.get("city")["names"].append("Oslo")

    assert {"names": ["Rome"]} == shared.get("city")


@pytest.mark.parametrize("value", [object(), {1: {2, object()}}, "\ud800"], ids=["object", "inside", "half"])
def test_no_json(value: Any) -> None:
    """A value that JSON cannot represent is refused."""
    with pytest.raises(ValueError, match="'city' was not stored: it cannot be written as JSON"):
        SharedValues({"city": value})


def test_a_circle_is_no_json() -> None:
    """A list that contains itself is refused, too."""
    circle: list[Any] = []
    circle.append(circle)

    with pytest.raises(ValueError, match="it cannot be written as JSON"):
        SharedValues({"city": circle})


def test_maximum_size() -> None:
    """At most 16 MiB are stored; a value that replaces another one uses its room."""
    shared = SharedValues({"a.b": "x" * (16_777_216 - 100)})
    with pytest.raises(ValueError, match="'c' was not stored: it has 202 bytes; all values may have 16,777,216"):
        shared.set("c", "x" * 200)
    shared.set("a", 1)
    shared.set("c", "x" * 200)

    assert (1, "x" * 200) == (shared.get("a"), shared.get("c"))


def test_a_view() -> None:
    """A view finds values by path, and their members; other paths are not in it."""
    view = SharedValues({"trip.city": "Rome", "key": "secret"}).view()

    assert {"trip.city": "Rome", "key": "secret"} == dict(view)
    assert "{'key': 'secret', 'trip.city': 'Rome'}" == repr(view)
    assert ("Rome", {"city": "Rome"}) == (view["trip.city"], view["trip"])
    assert (True, False, False, False) == ("key" in view, "ke" in view, "trip.day" in view, "" in view)


def test_a_view_is_for_reading() -> None:
    """A view cannot be written to; it has later values too, and is pickled as plain data."""
    shared = SharedValues({"city": "Rome"})
    view = shared.view()
    shared.set("days", 2)

    assert not hasattr(view, "__setitem__")
    assert {"city": "Rome", "days": 2} == dict(view) == pickle.loads(pickle.dumps(view))  # noqa: S301  its own


@pytest.mark.parametrize("given", [3, "city", [("city", 1)]])
def test_no_values(given: Any) -> None:
    """Shared values are SharedValues or a mapping."""
    with pytest.raises(TypeError, match="is neither SharedValues nor a mapping of values by path"):
        Toolbox([read_values]).call_many([], shared=given)


def test_in_the_context() -> None:
    """A tool finds the shared values in its context, also without references."""
    assert {"city": "Rome"} == Toolbox([read_values]).call_many(
        [ToolCall(name="read_values")], shared={"city": "Rome"}
    )[0].value
    assert {} == Toolbox([read_values]).call("read_values").value


def test_for_many_runs() -> None:
    """Several runs can share them: a call sees what one of an earlier run has stored."""
    shared, values = SharedValues(), []
    for _ in range(2):
        model = ScriptedModel([ToolCall(name="read_values", output_path="first"), "Done."])
        result = Runner(Toolbox([read_values], references=True), model=model).run("Go.", shared=shared)
        values.append(result.calls[0].result.value)

    assert [{}, {"first": {}}] == values


def test_in_another_process() -> None:
    """A call in another process finds them, too."""
    apart = tool(name="read_values", isolate="process")(read_values)

    assert {"city": "Rome"} == Toolbox([apart]).call_many([ToolCall(name="read_values")], shared={"city": "Rome"})[
        0
    ].value


def test_threads() -> None:
    """Values that many threads store are all there."""
    shared = SharedValues()
    together(*[partial(shared.set, f"a.n{number}", number) for number in range(50)])

    assert {f"n{number}": number for number in range(50)} == shared.get("a")


def test_result_at_the_same_time() -> None:
    """A value of the application stays, also if it is set while a call stores its result at the same path."""

    def store(shared: SharedValues) -> None:
        with suppress(ValueError):
            shared.store_result("a", "result")

    for _ in range(200):
        shared = SharedValues()
        together(partial(shared.set, "a", "own"), *[partial(store, shared)] * 2)
        assert "own" == shared.get("a")


def test_value_of_each_listed_path() -> None:
    """A path that is listed while others store values has its value already."""
    shared = SharedValues()

    def store(name: str) -> None:
        for number in range(1_000):
            shared.set(f"{name}.n{number % 30}", number)

    def read() -> None:
        for _ in range(1_000):
            assert dict(shared.view()).keys() <= {*shared.paths()}

    together(partial(store, "a"), partial(store, "b"), read, read)


@given(st.lists(st.tuples(PATHS, VALUES), min_size=1))
def test_any_values(puts: list[tuple[str, Any]]) -> None:
    """A value is found after it was stored, whatever was stored before."""
    shared = SharedValues()
    for path, value in puts:
        shared.set(path, value)

        assert value == shared.get(path)
