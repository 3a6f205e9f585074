"""A run as a transcript: what people read, in a terminal and in a pipe."""

from __future__ import annotations

import io
from collections.abc import Callable

from toolkit import Runner, tool
from toolkit.display import show
from toolkit.testing import ScriptedModel, call


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
def fail() -> str:
    """Fail."""
    raise ValueError("secret")


class Terminal(io.StringIO):
    """A stream that says that somebody looks."""

    def isatty(self) -> bool:
        return True


def shown(*script: object, question: str = "What is 1 + 2?", out: io.StringIO | None = None) -> str:
    """The transcript of a scripted run."""
    out = out or io.StringIO()
    show(Runner([add, fail], model=ScriptedModel(script), max_turns=2).stream("x"), question, out)  # type: ignore[arg-type]
    return out.getvalue()


def test_whole_transcript() -> None:
    """Question, call, result and answer stand below each other."""
    assert (
        "Question  What is 1 + 2?\n"
        "Call      add(a=1, b=2)\n"
        "Result    3\n"
        "Answer    It is 3.\n"
    ) == shown([call("add", a=1, b=2)], "It is 3.")  # fmt: skip


def test_several_calls_name_their_results() -> None:
    """Where a turn has several calls, each result says whose it is."""
    lines = shown([call("add", a=1, b=2), call("fail")], "Done.").splitlines()

    assert {"Result    add(a=1, b=2): 3"} < set(lines)
    assert any(line.startswith("Error     fail(): fail failed: ValueError") for line in lines)


def test_further_lines_are_indented() -> None:
    """Texts of several lines keep to their column."""
    assert "Question  one\n          two\nAnswer    a\n          b\n" == shown("a\nb", question="one\ntwo")


def test_result_of_the_run_is_given() -> None:
    """What is shown is also returned."""
    stream = Runner(model=ScriptedModel(["Hello."])).stream("Hi!")

    assert "Hello." == show(stream, out=io.StringIO()).output


def test_unusual_end_is_told() -> None:
    """A run that ended at its limit says so."""
    calls = [[call("add", a=1, b=2)], [call("add", a=1, b=2)], "Enough."]

    assert shown(*calls).endswith("Answer    Enough.\nEnded     by max_turns\n")


def test_broken_arguments_are_shown_as_they_are() -> None:
    """Arguments that are no JSON object are shown word for word."""
    from toolkit import ToolCall

    text = shown([ToolCall(name="add", arguments="[1, 2]"), ToolCall(name="add", arguments="a=1")], "Oh.")

    assert "Call      add([1, 2])\nCall      add(a=1)\n" in text


def test_long_results_are_cut() -> None:
    """A text of many lines is cut, and the rest counted."""

    def lines() -> str:
        """Give lines."""
        return "\n".join(map(str, range(30)))

    out = io.StringIO()
    show(Runner([lines], model=ScriptedModel([[call("lines")], "Done."])).stream("x"), out=out)

    assert "          19\n          … 10 more lines\nAnswer" in out.getvalue()


def test_colours_only_where_somebody_looks(environment: Callable[[str, str], None]) -> None:
    """A terminal gets colours, unless NO_COLOR is set; a pipe never does."""
    coloured = shown("Hi.", out=Terminal())
    environment("NO_COLOR", "1")

    assert (True, False, False) == tuple(
        "\x1b[" in text for text in (coloured, shown("Hi.", out=Terminal()), shown("Hi."))
    )


def test_control_characters_are_shown() -> None:
    """What a model writes cannot move the cursor, change the title or turn the direction of text."""
    text = shown("\x1b[2Jgone\u202e", question="\x07")

    assert "Question  \\x07\nAnswer    \\x1b[2Jgone\\u202e\n" == text


def test_narrow_encoding() -> None:
    """A stream that cannot hold a character gets its escape."""
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    show(Runner(model=ScriptedModel(["Grüße \ud83d"])).stream("x"), out=out)

    out.seek(0)
    assert "Answer    Gr\\xfc\\xdfe \\ud83d\n" == out.read()
