"""The values exchanged with a model."""

from __future__ import annotations

import pickle

from toolkit import Runner, ToolResult, Usage, tool
from toolkit._messages import ToolSpec
from toolkit.testing import ScriptedModel, call


def test_pickled_spec() -> None:
    """A pickled specification leaves its cache behind, which may hold what cannot be pickled."""
    spec = ToolSpec(name="add", description="", parameters={})
    spec.cache["chat"] = lambda: None

    copy = pickle.loads(pickle.dumps(spec))  # noqa: S301
    assert (spec, {}) == (copy, copy.cache)


def test_result_with_an_error() -> None:
    """A result whose text is its error shows it once."""
    assert "ToolResult(error='no', kind='failed')" == repr(ToolResult(text="no", error="no", kind="failed"))
    assert "ToolResult(value=3, text='3 no', error='no')" == repr(ToolResult(3, "3 no", error="no"))


def test_total_tokens() -> None:
    """The total of a usage is what the model read and wrote; cached and reasoning tokens are part of these."""
    assert 15 == Usage(10, 5, cached_tokens=8, reasoning_tokens=3).total_tokens


def test_printed_usage() -> None:
    """A usage prints the counts that are not zero, also within the result of a run."""
    assert "Usage(input_tokens=10, output_tokens=5, requests=1)" == repr(Usage(10, 5, 1))
    assert "usage=Usage(requests=1)" in repr(Runner(model=ScriptedModel(["Hello."])).run("Hi"))


def test_printed_calls() -> None:
    """A call prints on one line, as Python would write it, with its result; long and hidden texts do no harm."""

    @tool
    def look_up(word: str) -> str:
        """Look up a word."""
        return f"{word}:\na\x1b[2Jbird " + "." * 1000

    model = ScriptedModel([[call("look_up", word="tern"), call("look_up", wort="x" * 100)], "Done."])
    known, wrong = Runner([look_up], model=model).run("What is a tern?").calls

    assert "look_up(word='tern')" == str(known.call)
    assert str(known).startswith("look_up(word='tern') -> tern: a\\x1b[2Jbird ...")
    assert len(str(known)) < 250
    assert str(wrong).startswith(f"look_up(wort='{'x' * 78}…) -> Invalid arguments: word: missing, but required")
