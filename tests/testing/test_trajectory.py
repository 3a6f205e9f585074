"""The calls of a run are compared with those expected, and a difference can be read."""

import asyncio
from typing import Any

import pytest

from toolkit import Runner, RunResult, ToolCall
from toolkit.testing import ScriptedModel, assert_calls, call


def add(a: int, b: int = 0) -> int:
    """Add two numbers."""
    return a + b


def note(text: str = "") -> str:
    """Note a text."""
    return "noted"


def run(*calls: ToolCall) -> RunResult:
    return Runner([add, note], model=ScriptedModel([[*calls], "Done."] if calls else ["Done."])).run("Go.")


ONE, TWO = call("add", a=1, b=2), call("add", a=1, b=3)


@pytest.mark.parametrize(
    ("made", "expected", "options"),
    [
        ([], [], {}),
        ([ONE], ["add"], {}),
        ([ONE], [ONE], {}),
        ([ONE], [call("add", b=2, a=1.0)], {}),
        ([ONE], [call("add", a=1)], {"partial": True}),
        ([ONE], [call("add")], {"partial": True}),
        ([ONE, TWO], [TWO, ONE], {"any_order": True}),
        ([ONE, TWO], ["add", ONE], {"any_order": True}),
        ([ONE, TWO], [call("add", a=1), ONE], {"any_order": True, "partial": True}),
        ([call("add", a="x")], [call("add", a="x")], {}),
        ([call("sub", a=1)], ["sub"], {}),
        ([ToolCall(name="add", arguments="{broken")], [ToolCall(name="add", arguments="{broken")], {}),
        ([call("note", deep={"a": [1, {"b": None}]})], [call("note", deep={"a": [1, {"b": None}]})], {}),
    ],
)
def test_calls_as_expected(made: Any, expected: Any, options: Any) -> None:
    """Names, exact and partial arguments match, in order or in any; failed calls and unknown tools are calls, too."""
    assert_calls(run(*made), expected, **options)


@pytest.mark.parametrize(
    ("made", "expected", "options"),
    [
        ([], ["add"], {}),
        ([ONE], [], {}),
        ([ONE], ["note"], {}),
        ([ONE], [call("add", a=1)], {}),
        ([ONE], [call("add", a=1, c=2)], {"partial": True}),
        ([ONE, TWO], [TWO, ONE], {}),
        ([ONE, TWO], [ONE, ONE], {"any_order": True}),
        ([ONE], [ONE, ONE], {"any_order": True}),
        ([ONE, ONE], [ONE], {"any_order": True}),
        ([call("note", yes=True)], [call("note", yes=1)], {}),
        ([call("note", deep=[{"yes": True}])], [call("note", deep=[{"yes": 1}])], {}),
        ([ToolCall(name="add", arguments="{broken")], [call("add")], {"partial": True}),
        ([ONE], [call("add", a=1, b=2, _instance="left")], {}),
    ],
)
def test_other_calls(made: Any, expected: Any, options: Any) -> None:
    """Anything else is an AssertionError."""
    with pytest.raises(AssertionError, match="The run made other calls than expected"):
        assert_calls(run(*made), expected, **options)


def test_message_is_side_by_side() -> None:
    """The message shows both lists in columns and marks the rows that differ; failed calls say so."""
    with pytest.raises(AssertionError) as caught:
        assert_calls(run(ONE, call("add", a="x"), call("note", text="é")), ["add", call("add", a=1)])

    assert (
        str(caught.value)
        == """The run made other calls than expected.
  expected   actual
  add        add(a=1, b=2)
! add(a=1)   add(a="x")  [invalid_arguments]
! -          note(text="é")"""
    )


def test_message_in_any_order() -> None:
    """What has found its match stands first, the rest below."""
    with pytest.raises(AssertionError) as caught:
        assert_calls(run(ONE, call("note"), TWO), [TWO, call("add", a=9), ONE], any_order=True, partial=True)

    assert (
        str(caught.value)
        == """The run made other calls than expected, in any order, with these arguments at least.
  expected        actual
  add(a=1, b=3)   add(a=1, b=3)
  add(a=1, b=2)   add(a=1, b=2)
! add(a=9)        note()"""
    )


def test_long_calls_stand_below_each_other() -> None:
    """Calls that are too wide for two columns are shown whole, one below the other."""
    with pytest.raises(AssertionError) as caught:
        assert_calls(run(call("note", text="x" * 60)), [call("note", text="y" * 60)])

    expected, actual = str(caught.value).splitlines()[1:]
    assert (expected, actual) == (
        f'! expected: note(text="{"y" * 60}")',
        f'  actual:   note(text="{"x" * 60}")',
    )


def test_async_run() -> None:
    """The result of an async run is compared in the same way."""
    model = ScriptedModel([ONE, "Done."])

    assert_calls(asyncio.run(Runner([add], model=model).arun("Go.")), [ONE])


@pytest.mark.parametrize("expected", ["add", ONE, None])
def test_expected_is_a_list_of_calls(expected: Any) -> None:
    """A single call is refused with the right form."""
    with pytest.raises(TypeError, match='is not a list of expected calls: write a list of "add" or call'):
        assert_calls(run(ONE), expected)


@pytest.mark.parametrize("expected", [1, ("add", {"a": 1}), None])
def test_expected_call(expected: Any) -> None:
    """An item that is no call is refused with the right form."""
    with pytest.raises(TypeError, match='is not an expected call: write "add" or call'):
        assert_calls(run(ONE), [expected])


def test_result_is_of_a_run() -> None:
    """Arguments in the wrong order are refused."""
    with pytest.raises(TypeError, match="takes the result of a run first"):
        assert_calls(["add"], run(ONE))  # type: ignore[arg-type]
