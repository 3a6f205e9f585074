"""Fingerprints: whether two processes have the same tools and settings, and what differs."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from toolkit import Fingerprint, Limits, Runner, Tool, Toolbox, batched, tool
from toolkit.approvers import after_foreign, allow, approve_all, ask_when, defer
from toolkit.errors import DefinitionError, FingerprintError
from toolkit.middleware import repeat_guard
from toolkit.testing import ScriptedModel


def add(a: int, b: int = 1) -> int:
    """Add."""
    return a + b


def look() -> str:
    """Look."""
    return ""


def other_add(a: int, b: int = 1, c: int = 2) -> int:
    """Add."""
    return a + b + c


def test_order_of_tools_does_not_count() -> None:
    """The same tools in another order are the same."""
    one, two = Toolbox([add, look]).fingerprint(), Toolbox([look, add]).fingerprint()

    assert (str(one), []) == (str(two), one.find_differences(two))
    assert "sha256:" == str(one)[:7] and 64 == len(str(one)[7:])


CHANGES: dict[str, tuple[Any, list[str]]] = {
    "schema": ([tool(other_add, name="add"), look], ["tool add differs"]),
    "name": ([tool(add, name="plus"), look], ["tool add is missing there", "tool plus is only there"]),
    "description": ([tool(add, description="Sum up."), look], ["tool add differs"]),
    "effect": ([tool(add, effect="read"), look], ["tool add differs"]),
    "idempotent": ([tool(add, idempotent=True), look], ["tool add differs"]),
    "timeout": ([tool(add, timeout=5), look], ["tool add differs"]),
    "approve": ([tool(add, approve=True), look], ["tool add differs"]),
    "default written out": ([tool(add, retries=0, approve=False), look], []),
    "gone": ([look], ["tool add is missing there"]),
    "new": ([add, look, tool(look, name="see")], ["tool see is only there"]),
}


@pytest.mark.parametrize("change", CHANGES)
def test_changes_of_tools(change: str) -> None:
    """Whatever a model sees of a tool, and how its calls are treated, counts; the differences name the tool."""
    tools, expected = CHANGES[change]
    old, new = Toolbox([add, look]).fingerprint(), Toolbox(tools).fingerprint()

    assert expected == old.find_differences(new)
    assert (not expected) == (str(old) == str(new))


POLICIES: list[Any] = [
    defer,
    ask_when(defer, names=["add"]),
    ask_when(defer, names=["look"]),
    ask_when(defer, effects=["write"]),
    ask_when(approve_all, names=["add"]),
    allow("add", otherwise=defer),
    allow("look", otherwise=defer),
    allow(tool(add), otherwise=defer),
    allow(tool(look), otherwise=defer),
    after_foreign(defer),
    after_foreign(defer, effects=["destructive"]),
]


def test_policies() -> None:
    """The approvers of this library count by what they are given: other names or effects are another policy."""
    digests = [str(Runner([add, look], model="m", approve=policy).fingerprint()) for policy in POLICIES]

    assert len({*digests}) == len(POLICIES)
    again = Runner([look, add], model="m", approve=ask_when(defer, names=["add"])).fingerprint()
    assert digests[1] == str(again)


SETTINGS: dict[str, dict[str, Any]] = {
    "instructions": {"instructions": "Be brief."},
    "model": {"model": "other"},
    "limits": {"limits": Limits(max_calls=3)},
    "order": {"order": "sequential"},
    "approve": {"approve": defer},
    "authorize": {"authorize": lambda tool, arguments, context: True},
    "middleware": {"middleware": [repeat_guard()]},
    "allowed_tools": {"allowed_tools": ["add"]},
    "request_options": {"request_options": {"temperature": 0.5}},
    "api_key": {"api_key": "secret"},
    "max_result": {"max_result": 50},
}


def runner(**options: Any) -> Runner:
    settings: dict[str, Any] = {"model": "m", **options}
    return Runner([add, look], **settings)


@pytest.mark.parametrize("name", SETTINGS)
def test_changes_of_settings(name: str) -> None:
    """Each setting that decides what a run does counts, by its name."""
    assert [f"setting {name} {'differs' if name in ('model', 'limits') else 'is only there'}"] == runner().fingerprint(
    ).find_differences(runner(**SETTINGS[name]).fingerprint())  # fmt: skip


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ({"limits": Limits(max_turns=3)}, {"max_turns": 3}),
        ({"order": "parallel"}, {}),
        ({"api_key": "one"}, {"api_key": "two"}),
        ({"base_url": "http://a"}, {}),
        ({"checkpoint": print}, {}),
    ],
)
def test_what_does_not_count(one: dict[str, Any], two: dict[str, Any]) -> None:
    """Spelling, defaults, the value of a key, and where a run runs make no difference."""
    assert str(runner(**one).fingerprint()) == str(runner(**two).fingerprint())


def may_call(*_: object, user: str) -> bool:
    """Allow nothing to strangers."""
    return bool(user)


def test_values_of_a_setting_count() -> None:
    """Two functions of a gate are told apart by their names and what they are bound to, two orders by their sizes."""
    pairs: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"approve": defer}, {"approve": approve_all}),
        ({"order": batched(2)}, {"order": batched(3)}),
        ({"allowed_tools": {"add"}}, {"allowed_tools": {"look"}}),
        ({"approve": partial(defer)}, {"approve": partial(approve_all)}),
        ({"authorize": partial(may_call, user="a")}, {"authorize": partial(may_call, user="b")}),
    ]

    for one, two in pairs:
        assert str(runner(**one).fingerprint()) != str(runner(**two).fingerprint())


def test_no_secret_is_in_it() -> None:
    """Neither a key nor a text of the settings can be read from a fingerprint."""
    text = runner(api_key="sk-very-secret", instructions="Hidden words.").fingerprint().to_json()

    assert "secret" not in text and "Hidden" not in text


def test_check_names_what_differs() -> None:
    """The error says which tools and settings differ, and what to do."""
    old = Runner([add, look], max_turns=3).fingerprint()
    new = Runner([tool(other_add, name="add"), look], max_turns=4).fingerprint()
    old.check(Fingerprint.from_json(old.to_json()))

    with pytest.raises(FingerprintError, match=r"tool add differs; setting limits differs\. Give both"):
        old.check(new)


def above(*tools: Any, **options: Any) -> Runner:
    """Make a runner with a sub-agent that has a sub-agent with these tools and settings."""
    model = ScriptedModel([])
    inner = Runner(tools, model=model, name="inner", **options)
    return Runner([Runner([tool(inner.as_tool(), timeout=5)], model=model, name="outer")], model=model)


def test_sub_agents() -> None:
    """The tools and settings of sub-agents count, at any depth."""
    path = "subagent_outer/subagent_inner"
    old = above(add).fingerprint()

    assert [] == old.find_differences(above(add).fingerprint())
    assert [f"setting {path}/instructions is only there"] == old.find_differences(
        above(add, instructions="Add.").fingerprint()
    )
    assert [f"tool {path}/add differs", f"tool {path}/look is only there"] == old.find_differences(
        above(tool(other_add, name="add"), look).fingerprint()
    )
    assert [f"tool {path}/add differs", f"tool {path}/look is only there"] == above(
        add
    ).toolbox.fingerprint().find_differences(above(tool(other_add, name="add"), look).toolbox.fingerprint())


def test_sub_agents_in_a_circle() -> None:
    """Sub-agents that call each other have no fingerprint, and the error says why."""
    box = Toolbox()
    runner = Runner(box, model=ScriptedModel([]), name="one")
    box.add(runner)

    for each in (runner, box):
        with pytest.raises(DefinitionError, match="in a circle"):
            each.fingerprint()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 2}', '{"version": 1, "tools": {"a": 1}}'])
def test_other_texts(text: str) -> None:
    """A text that is not a fingerprint is refused."""
    with pytest.raises(DefinitionError, match="fingerprint"):
        Fingerprint.from_json(text)


def test_declared_tools() -> None:
    """A tool without a function has a fingerprint, too."""

    def made(least: int) -> Toolbox:
        number = {"type": "integer", "minimum": least}
        return Toolbox([Tool.from_schema("look", {"type": "object", "properties": {"n": number}})])

    assert str(made(1).fingerprint()) == str(made(1).fingerprint()) != str(made(2).fingerprint())


PROGRAM = """
from toolkit import Runner

def add(a: int, b: int = 1) -> int:
    '''Add.'''
    return a + b

runner = Runner([add], model="a-model")
if __name__ == "__main__":
    print(runner.fingerprint())
"""


def test_other_processes(tmp_path: Path) -> None:
    """A file has the same fingerprint as a program and as a module."""
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    root = str(Path(__file__).parents[2])
    commands = [["program.py"], ["-c", "import program; print(program.runner.fingerprint())"]]
    printed = {
        subprocess.run(
            [sys.executable, *command],
            cwd=tmp_path, env={"PYTHONPATH": f"{root}:{tmp_path}"}, capture_output=True, text=True, check=True,
        ).stdout
        for command in commands
    }  # fmt: skip

    assert 1 == len(printed)
