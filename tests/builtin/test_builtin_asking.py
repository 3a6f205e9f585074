"""`ask_user`: a question reaches a person, the answer the model."""

from __future__ import annotations

import asyncio
import io
import sys
import threading
from typing import Any, cast

import pytest

from toolkit import DefinitionError, Runner, Tool, Toolbox, ToolContext, ToolError
from toolkit import tool as make_tool
from toolkit.builtin import Question, ask_user_tool
from toolkit.builtin.ask_user import Handler
from toolkit.events import ToolCallStarted
from toolkit.testing import ScriptedModel, call


def ask(tool: Tool[..., Any], **arguments: Any) -> tuple[str, str | None]:
    """Call the tool; return its text and the kind of error."""
    result = Toolbox([tool]).call("ask_user", arguments)
    return result.text, result.kind


async def later(question: Question) -> str:
    """Answer after others had their turn."""
    await asyncio.sleep(0)
    return f"to {question.text}"


class Polite:
    """An approver that approves everything; `questions` has the requests."""

    def __init__(self) -> None:
        self.questions: list[Question] = []

    def __call__(self, question: Question) -> str:
        """Say yes."""
        self.questions.append(question)
        return "yes"


class Person:
    """A user who never answers; `asked` is set when a question arrives."""

    def __init__(self) -> None:
        self.started = 0
        self.asked = threading.Event()
        self.gone = threading.Event()
        self.question: Question | None = None

    def sync(self, question: Question) -> str:
        """Wait for ever, as input() does."""
        self.question = question
        self.started += 1
        self.asked.set()
        self.gone.wait(30)
        return "late"

    async def later(self, question: Question) -> str:
        """Wait for ever, and record a cancellation."""
        self.question = question
        self.asked.set()
        try:
            return str(await asyncio.get_running_loop().create_future())
        finally:
            self.gone.set()


def answer_later(question: Question) -> Any:
    """Answer with a promise."""
    return later(question)


@pytest.mark.parametrize(
    "handler", [lambda question: f"to {question.text}", later, answer_later], ids=["sync", "async", "promise"]
)
def test_answer(handler: Handler) -> None:
    """The person's answer is the result, whether the handler waits for it or promises it."""
    tool = ask_user_tool(handler)
    model = ScriptedModel([call("ask_user", question="Go?"), "Gone."])

    assert ("to Go?", None) == ask(tool, question="Go?")
    assert "to Go?" == asyncio.run(Runner([tool], model=model).arun("Go.")).calls[0].result.text


@pytest.mark.parametrize(
    ("multi_select", "answer", "text"),
    [
        (False, "Ja", "Ja"),
        (False, ["a", "b"], "a\nb"),
        (True, ["a", "ü"], '["a","ü"]'),
        (True, "a", '["a"]'),
        (True, [], "[]"),
    ],
    ids=str,
)
def test_multi_select(multi_select: bool, answer: Any, text: str) -> None:
    """With `multi_select`, the answer is a JSON array, whatever its length."""
    tool = ask_user_tool(lambda _: answer)

    assert (text, None) == ask(tool, question="Which?", options=["a", "b"], multi_select=multi_select)


def test_question() -> None:
    """The handler receives the question, its options and its origin."""
    person = Polite()
    tool = ask_user_tool(person, agent="painter")
    Runner([tool], model=ScriptedModel([call("ask_user", question=" Red? ", options=["yes", "no"]), "."])).run("Paint.")
    expected = {"text": "Red?", "options": ("yes", "no"), "multi_select": False}

    assert expected == {name: getattr(person.questions[0], name) for name in expected}
    assert {"agent": "painter", "source": "llm"} == person.questions[0].metadata
    assert "ask_user" == person.questions[0].context.tool_name


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"question": "  "},
        {"question": "x" * 4001},
        {"question": "?", "options": ["x"] * 51},
        {"question": "?", "options": [""]},
        {"question": "?", "options": ["x" * 501]},
    ],
    ids=["none", "blank", "long", "many options", "empty option", "long option"],
)
def test_refused(arguments: dict[str, Any]) -> None:
    """An empty question, or one beyond a limit, does not reach the handler."""
    person = Polite()

    assert "invalid_arguments" == ask(ask_user_tool(person), **arguments)[1]
    assert [] == person.questions


def test_reason() -> None:
    """The model reads the text of a handler's ToolError; of other errors only the class."""

    def away(_: Question) -> str:
        raise ToolError("The user has gone home.")

    def broken(_: Question) -> str:
        raise OSError("/dev/tty is gone")

    assert ("The user has gone home.", "failed") == ask(ask_user_tool(away), question="?")
    assert (
        "ask_user failed: OSError. Its message is not shown here." == ask(ask_user_tool(broken), question="?")[0][:56]
    )


@pytest.mark.parametrize("answer", [5, [1], [None]], ids=repr)
def test_wrong_answer(answer: Any) -> None:
    """A value that is not text is not an answer."""
    assert "failed" == ask(ask_user_tool(lambda _: answer), question="?")[1]


def test_no_answer(caplog: pytest.LogCaptureFixture) -> None:
    """If the handler returns None, the model reads that there was no answer, and a warning is logged."""
    assert ("No answer was given.", "failed") == ask(ask_user_tool(lambda _: None), question="Go?")
    assert "returned None" in caplog.text


@pytest.mark.parametrize(("answer", "multi_select"), [("", False), (" \n", False), ([], False), ("", True)], ids=str)
def test_empty_answer(answer: Any, multi_select: bool) -> None:
    """An empty text, as of a person who only presses Enter, is no answer."""
    tool = ask_user_tool(lambda _: answer)

    assert ("No answer was given.", "failed") == ask(tool, question="Go?", multi_select=multi_select)


async def gone(_: Question) -> str:
    """Raise as input() does at the end of its text."""
    raise EOFError


@pytest.mark.parametrize("handler", [input, gone], ids=["input", "async"])
def test_no_user(handler: Handler, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """At the end of the input the model reads that no user is there; the log has one line."""
    monkeypatch.setattr(sys, "stdin", io.StringIO())

    assert ("No user is there to answer. Continue without an answer.", "failed") == ask(
        ask_user_tool(handler), question="Go?"
    )
    assert 1 == len(caplog.text.splitlines())


def test_input(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """`input` is a handler: it prints question and options, and returns a line."""
    monkeypatch.setattr(sys, "stdin", io.StringIO("blue\n"))

    assert ("blue", None) == ask(ask_user_tool(input), question="Which?", options=["red", "blue"])
    assert "Which?\n- red\n- blue\n" == capsys.readouterr().out


def test_text() -> None:
    """A question as a text hides nothing from the person who reads it."""
    question = Question(text="Go\u202e?\nNow?", options=("y\x1bes\n- no",), context=ToolContext(deps=None))

    assert "Go\\u202e?\nNow?\n- y\\u001bes\\u000a- no\n" == str(question)


@pytest.mark.parametrize("kind", ["sync", "later"])
def test_cancelled(kind: str) -> None:
    """A cancelled run does not wait for an answer, and the handler can see the cancellation."""
    person = Person()
    runner = Runner([ask_user_tool(getattr(person, kind))], model=ScriptedModel([call("ask_user", question="Go?")]))
    handle = runner.start("Go.")
    person.asked.wait(10)
    runner.cancel()

    assert "cancelled" == handle.result(10).finish_reason
    assert person.question is not None and person.question.context.cancelled
    person.gone.set()


def test_cancelled_handler() -> None:
    """An async handler is cancelled with the run."""
    person = Person()
    runner = Runner([ask_user_tool(person.later)], model=ScriptedModel([call("ask_user", question="Go?")]))
    handle = runner.start("Go.")
    person.asked.wait(10)
    runner.cancel()
    handle.result(10)

    assert person.gone.wait(10)


@pytest.mark.parametrize("kind", ["sync", "later"])
def test_timeout(kind: str) -> None:
    """Without an answer in time the call fails, and the run continues."""
    person = Person()
    asking = make_tool(ask_user_tool(getattr(person, kind)), timeout=0.05)
    model = ScriptedModel([call("ask_user", question="Go?"), "Nobody is there."])
    result = Runner([asking], model=model).run("Go.")
    person.gone.set()

    assert ("timed_out", "Nobody is there.") == (result.calls[0].result.kind, result.output)


def test_one_at_a_time() -> None:
    """Two questions of one turn are asked one after the other."""
    at_once, most = threading.Semaphore(1), list[bool]()

    def answer(question: Question) -> str:
        most.append(at_once.acquire(blocking=False))
        at_once.release()
        return question.text

    calls = [call("ask_user", question=str(number)) for number in range(8)]
    result = Runner([ask_user_tool(answer)], model=ScriptedModel([calls, "."])).run("Go.")

    assert [True] * 8 == most
    assert list("01234567") == [subject.result.text for subject in result.calls]


def test_one_at_a_time_of_all_runs() -> None:
    """A run waits while another run asks the same user; when it is cancelled, it stops waiting."""
    first, second = Person(), Person()
    people = iter([first, second])
    tool = ask_user_tool(lambda question: next(people).sync(question))
    runners = [Runner([tool], model=ScriptedModel([call("ask_user", question="Go?"), "."])) for _ in range(2)]
    asking = runners[0].start("Go.")
    first.asked.wait(10)
    waiting = runners[1].start("Go.")
    next(event for event in waiting.events() if isinstance(event, ToolCallStarted))
    runners[1].cancel()

    assert "cancelled" == waiting.result(10).finish_reason
    assert not second.asked.is_set()
    first.gone.set()
    assert "late" == asking.result(10).calls[0].result.text


def test_definition() -> None:
    """An invalid handler is refused when the tool is made."""
    with pytest.raises(DefinitionError, match="handler=None"):
        ask_user_tool(cast("Any", None))
