"""Many prompts with one runner."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest
from typing_extensions import TypedDict

from toolkit import Halt, Image, Limits, ModelError, Prices, Runner, RunResult, Session, Usage, tool
from toolkit.approvers import defer
from toolkit.errors import DefinitionError, NoModelError, StoreError
from toolkit.models import ModelRequest, ModelResponse
from toolkit.testing import ModelReply, ScriptedModel, call


def answer(request: ModelRequest) -> ModelReply:
    """Answer a number by its double; refuse one that cannot be divided."""
    number = int(request.messages[-1].text)
    if number % 5 == 4:
        raise ModelError(f"{number} failed.")
    time.sleep(0.01 * (number % 3))
    return str(2 * number)


def run_many(runner: Runner, prompts: Any, **options: Any) -> list[Any]:
    return runner.map(prompts, **options)


def arun_many(runner: Runner, prompts: Any, **options: Any) -> list[Any]:
    return asyncio.run(runner.amap(prompts, **options))


WAYS = pytest.mark.parametrize("go", [run_many, arun_many])


@WAYS
def test_any_number_at_the_same_time(go: Callable[..., list[Any]]) -> None:
    """A number far above that of the prompts means all of them, and costs nothing."""
    outcomes = go(Runner(model=ScriptedModel(answer)), ["0", "1"], max_parallel=10**20)

    assert ["0", "2"] == [each.output for each in outcomes]
    assert [] == go(Runner(model=ScriptedModel(answer)), [], max_parallel=10**20)


@WAYS
@pytest.mark.parametrize("count", [None, 0, 1])
def test_unreliable_length(go: Callable[..., list[Any]], count: int | None) -> None:
    """All prompts are run, even if their number is not known or wrong, as that of a progress bar around them."""

    class Bar:
        def __iter__(self) -> Iterator[str]:
            return iter(["0", "1"])

        def __len__(self) -> Any:
            return count

    assert ["0", "2"] == [each.output for each in go(Runner(model=ScriptedModel(answer)), Bar())]


@WAYS
@pytest.mark.parametrize("max_parallel", [1, 3, 50])
def test_order(go: Callable[..., list[Any]], max_parallel: int) -> None:
    """Results come in the order of the prompts, with the error of each run that failed in its place."""
    outcomes = go(Runner(model=ScriptedModel(answer)), map(str, range(20)), max_parallel=max_parallel)

    assert [f"{number} failed." if number % 5 == 4 else str(2 * number) for number in range(20)] == list(
        map(str, outcomes)
    )
    assert [4, 9, 14, 19] == [number for number, each in enumerate(outcomes) if isinstance(each, ModelError)]


@WAYS
def test_parallel(go: Callable[..., list[Any]]) -> None:
    """No more runs are active than were asked for, and prompts are read when one can start."""
    lock, active, most, read = threading.Lock(), 0, 0, 0

    @tool
    def work() -> str:
        """Work."""
        nonlocal active, most
        with lock:
            active += 1
            most = max(most, active)
        time.sleep(0.02)
        with lock:
            active -= 1
        return "done"

    def prompts() -> Iterator[str]:
        nonlocal read
        for number in range(12):
            with lock:
                read += 1
            assert read <= 12
            yield str(number)

    def script(request: ModelRequest) -> ModelReply:
        return [call("work")] if len(request.messages) == 1 else "ok"

    assert 12 * ["ok"] == [
        each.output for each in go(Runner([work], model=ScriptedModel(script)), prompts(), max_parallel=3)
    ]
    assert 2 <= most <= 3


@WAYS
def test_prompts_that_cannot_start(go: Callable[..., list[Any]]) -> None:
    """A prompt that is none has its error in its place, and the others run; so has each one if none can start."""
    runner = Runner(model=ScriptedModel(answer))

    assert ["2", "ValueError", "4"] == [
        type(each).__name__ if isinstance(each, Exception) else each.output for each in go(runner, ["1", [], "2"])
    ]
    assert 3 * [ValueError] == [*map(type, go(runner, [[], [], []], max_parallel=1))]


@WAYS
def test_mistakes_in_the_runner(go: Callable[..., list[Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    """What would be the error of each prompt is raised: no model, or a type of answers that JSON cannot have."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)

    with pytest.raises(NoModelError, match="names a model, but not its server"):
        go(Runner(model="gpt-6-luna"), ["1", "2"])
    with pytest.raises(DefinitionError, match="is not a type that JSON can fill"):
        go(Runner(model=ScriptedModel(answer)), ["1", "2"], output_type=threading.Event)


@WAYS
def test_no_model_beside_other_outcomes(
    go: Callable[..., list[Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That there is no model is raised though an answer was saved or a prompt was wrong, but not beside new answers."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    go(Runner(model=ScriptedModel(["saved"])), ["1"], save=tmp_path / "answers")

    with pytest.raises(NoModelError):
        go(Runner(model="gpt-6-luna"), ["1", "2"], save=tmp_path / "answers")
    with pytest.raises(NoModelError):
        go(Runner(model="gpt-6-luna"), [[], "2"], max_parallel=1)

    lost = Runner(model=ScriptedModel(["one", NoModelError("lost")]))
    assert [RunResult, NoModelError] == [*map(type, go(lost, ["1", "2"], max_parallel=1))]


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_column_of_a_table(frame: Callable[..., Any]) -> None:
    """The prompts may be a column of a table; the table itself is refused, since its items are its columns."""
    table, runner = frame({"text": ["1", "2"], "id": ["7", "8"]}), Runner(model=ScriptedModel(answer))

    assert ["2", "4"] == [each.output for each in results(runner.map(table["text"]))]
    with pytest.raises(TypeError, match=r"whose items are its columns: pass one of them"):
        runner.map(table)


def test_broken_prompts() -> None:
    """When the prompts themselves raise, no run is active any more."""
    active = 0

    @tool
    async def work() -> str:
        """Work."""
        nonlocal active
        active += 1
        try:
            await asyncio.sleep(60)
        finally:
            active -= 1
        return "done"

    async def go() -> int:
        def prompts() -> Iterator[str]:
            yield from "ab"
            raise OSError("The file ends here.")

        runner = Runner([work], model=ScriptedModel(lambda _: [call("work")]))
        with pytest.raises(OSError, match="ends here"):
            await runner.amap(prompts(), max_parallel=3)
        return active

    assert 0 == asyncio.run(go())


@WAYS
def test_nothing(go: Callable[..., list[Any]]) -> None:
    """Without prompts there are no results."""
    assert [] == go(Runner(model=ScriptedModel([])), [])


@WAYS
def test_options(go: Callable[..., list[Any]]) -> None:
    """Options hold for each run; a wrong one is refused before any run starts."""
    runner = Runner(model=ScriptedModel(answer))

    assert [2, 4] == [each.output for each in go(runner, ["1", "2"], output_type=int)]
    with pytest.raises(TypeError, match=r"Runner.a?map has no option 'dpes'\. Did you mean 'deps'"):
        go(runner, ["1"], dpes=1)
    with pytest.raises(TypeError, match=r"'max_paralel'\. Did you mean 'max_parallel'"):
        go(runner, ["1"], max_paralel=3)
    with pytest.raises(TypeError, match=r"^(?!.*session).* are: prompts, output_type, max_parallel, rpm, tpm, save, "):
        go(runner, ["1"], xyzzy=3)
    with pytest.raises(TypeError, match="save=True is not a file's path"):
        go(runner, ["1"], save=True)
    with pytest.raises(TypeError, match="It belongs to one run"):
        go(runner, ["1"], session=Session())
    with pytest.raises(ValueError, match="max_parallel=0 is not a whole number of at least 1"):
        go(runner, ["1"], max_parallel=0)


@WAYS
@pytest.mark.parametrize("is_terminal", [True, False])
def test_progress(
    go: Callable[..., list[Any]], is_terminal: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bar with what is done, has failed and is left is drawn on standard error, where that is a terminal."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    go(Runner(model=ScriptedModel(answer)), ["3", "4", "5"], max_parallel=1, progress=True)

    shown = [
        "[##########....................] 1/3 done, T left",
        "[####################..........] 2/3 done, 1 failed, T left",
        "[##############################] 3/3 done, 1 failed, 0:00 left",
    ]
    lines = [re.sub(r"(?<=[12]/3 done, )(1 failed, )?\d:\d\d", r"\1T", line) for line in read_lines(capsys)]
    assert (shown if is_terminal else []) == lines


def read_lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return the lines that were drawn over each other."""
    return [line.rstrip() for line in capsys.readouterr().err.split("\r") if line]


@WAYS
def test_progress_of_an_iterator(
    go: Callable[..., list[Any]], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nobody knows how many there are, they are counted."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    go(Runner(model=ScriptedModel(answer)), iter(["3", "4"]), max_parallel=1, progress=True)

    assert ["1 done", "2 done, 1 failed"] == read_lines(capsys)


@WAYS
@pytest.mark.usefixtures("fast_clock")
def test_rate(go: Callable[..., list[Any]]) -> None:
    """No more requests begin within a minute than `rpm`, whichever runs they belong to."""
    times = list[float]()

    def note(_: ModelRequest) -> str:
        times.append(time.monotonic())
        return "ok"

    assert 6 == len(go(Runner(model=ScriptedModel(note)), ["Go"] * 6, rpm=2))
    assert all(third - first >= 40 for first, third in zip(sorted(times), sorted(times)[2:]))


@WAYS
@pytest.mark.usefixtures("fast_clock")
def test_rate_of_tokens(go: Callable[..., list[Any]]) -> None:
    """Once the tokens of the last minute are used up, the next run waits."""
    start, usage = time.monotonic(), Usage(5, 5, 1)
    model = ScriptedModel(lambda _: ModelResponse(text="ok", usage=usage))

    assert 3 == len(go(Runner(model=model), ["Go"] * 3, max_parallel=1, tpm=10))
    assert time.monotonic() - start >= 120


@WAYS
@pytest.mark.parametrize("rate", [{"rpm": 0}, {"tpm": 1.5}, {"rpm": True}])
def test_no_rate(go: Callable[..., list[Any]], rate: dict[str, Any]) -> None:
    """What is no rate is refused before any run starts."""
    with pytest.raises(ValueError, match=r"[rt]pm=.* is not a whole number of at least 1"):
        go(Runner(model=ScriptedModel([])), ["Go"], **rate)


# -- answers in a file


@WAYS
def test_second_attempt(go: Callable[..., list[Any]], tmp_path: Path) -> None:
    """A second attempt with the same file asks for what has no answer, and returns all of them, in order."""
    asked, failing = list[str](), {"2"}

    def double(request: ModelRequest) -> str:
        text = request.messages[-1].text
        asked.append(text)
        if text in failing:
            raise ModelError("overloaded")
        return str(2 * int(text))

    runner, file = Runner(model=ScriptedModel(double)), tmp_path / "answers.jsonl"
    assert ["2", "overloaded", "6"] == list(map(str, go(runner, ["1", "2", "3"], save=file)))
    failing.clear()
    asked.clear()

    assert ["8", "6", "4", "2"] == [each.output for each in go(runner, iter(["4", "3", "2", "1"]), save=file)]
    assert ["2", "4"] == sorted(asked)


@WAYS
def test_whole_results(go: Callable[..., list[Any]], tmp_path: Path) -> None:
    """A result from the file has its typed answer, its messages and calls, its usage and its cost."""

    @tool
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    reply = ModelResponse(text='{"result": 3}', usage=Usage(1_000_000, 0, 1))
    model = ScriptedModel([[call("add", a=1, b=2)], reply])
    runner = Runner([add], model=model, limits=Limits(prices=Prices(input=2.0, output=0.0)))
    options: dict[str, Any] = {"output_type": int, "save": tmp_path / "answers.jsonl"}
    (first,), (second,) = (go(runner, ["1 + 2?"], **options) for _ in range(2))

    facts = [
        (each.output, each.messages, each.usage, each.cost, each.model, each.finish_reason, each.state)
        for each in (first, second)
    ]
    assert facts[0] == facts[1]
    assert (3, 2.0, "3") == (second.output, second.cost, second.calls[0].result.text)


@WAYS
def test_same_prompts(go: Callable[..., list[Any]], tmp_path: Path) -> None:
    """Of equal prompts each has an answer of its own."""
    runner, file = Runner(model=ScriptedModel(["a", "b", "c"])), tmp_path / "answers.jsonl"
    go(runner, ["x"] * 2, save=file, max_parallel=1)

    assert ["a", "b", "c"] == [each.output for each in go(runner, ["x"] * 3, save=file, max_parallel=1)]


@WAYS
def test_pictures(go: Callable[..., list[Any]], tmp_path: Path) -> None:
    """Prompts with attachments are told apart by their content."""
    runner, file = Runner(model=ScriptedModel(["a", "b", "c"])), tmp_path / "answers.jsonl"
    prompts = [["Look", Image(data, "image/png")] for data in (b"1", b"2", b"3")]
    go(runner, prompts[:2], save=file, max_parallel=1)

    assert ["b", "c"] == [each.output for each in go(runner, prompts[1:], save=file, max_parallel=1)]


@pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 0.6, 0.999])
def test_torn_line(share: float, tmp_path: Path) -> None:
    """A last line that was cut off, wherever, costs this one answer; the file is continued, and read again."""
    file = tmp_path / "answers.jsonl"
    runner = Runner(model=ScriptedModel(lambda request: f"é{request.messages[-1].text}"))
    runner.map(["1", "2"], save=file, max_parallel=1)
    first, second = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(first + second[: int(len(second) * share)])

    assert ["é1", "é2", "é3"] == [each.output for each in results(runner.map(["1", "2", "3"], save=file))]
    rested = Runner(model=ScriptedModel([]))
    assert ["é1", "é2", "é3"] == [each.output for each in results(rested.map(["1", "2", "3"], save=file))]


def results(outcomes: list[RunResult[Any] | Exception]) -> list[RunResult[Any]]:
    """Return outcomes that are all results."""
    assert [] == [each for each in outcomes if isinstance(each, Exception)]
    return [each for each in outcomes if not isinstance(each, Exception)]


def test_killed_process(tmp_path: Path) -> None:
    """A process that dies in the middle loses what was running, and nothing else."""
    file, program = tmp_path / "answers.jsonl", tmp_path / "program.py"
    program.write_text(KILLED, encoding="utf-8")
    assert 9 == subprocess.run([sys.executable, program, file], check=False, timeout=60).returncode
    asked = list[str]()

    def note(request: ModelRequest) -> str:
        asked.append(request.messages[-1].text)
        return "late"

    outcomes = results(Runner(model=ScriptedModel(note)).map(map(str, range(6)), save=file))
    assert ["early"] * 3 + ["late"] * 3 == [each.output for each in outcomes]
    assert ["3", "4", "5"] == sorted(asked)


KILLED = """
import os, sys
from toolkit import Runner
from toolkit.testing import ScriptedModel

def answer(request):
    if request.messages[-1].text == "3":
        os._exit(9)
    return "early"

Runner(model=ScriptedModel(answer)).map(map(str, range(6)), max_parallel=1, save=sys.argv[1])
"""


def test_what_is_no_answer(tmp_path: Path) -> None:
    """A run that waits for approval, or was cancelled, has no answer; nor has one of another type than is asked for."""

    @tool(approve=True)
    def pay() -> str:
        """Pay."""
        return "paid"

    file = tmp_path / "answers.jsonl"
    runner = Runner([pay], model=ScriptedModel([[call("pay")], "42", '{"result": 7}']), approve=defer)
    assert ["paused"] == [each.finish_reason for each in results(runner.map(["Go"], save=file))]
    assert ["42"] == [each.output for each in results(runner.map(["Go"], save=file))]
    assert [42] == [each.output for each in results(runner.map(["Go"], save=file, output_type=int))]
    assert [{"result": 7}] == [each.output for each in results(runner.map(["Go"], save=file, output_type=Seven))]


class Seven(TypedDict):
    """An answer that "42" is not."""

    result: int


DAMAGE: dict[str, tuple[str, str]] = {
    "no answer": ('"answer": "old"', '"answer": null'),
    "an answer that is no text": ('"answer": "old"', '"answer": [5]'),
    "too deep": ('"answer": "old"', '"answer": ' + "[" * 100_000),
    "messages that are none": ('"messages": [', '"messages": [5, '),
}


@pytest.mark.parametrize(("part", "damaged"), DAMAGE.values(), ids=DAMAGE)
def test_damaged_line(part: str, damaged: str, tmp_path: Path) -> None:
    """A line that is damaged is no answer: its prompt is asked again."""
    file = tmp_path / "answers.jsonl"
    Runner(model=ScriptedModel(["old"])).map(["1"], save=file)
    file.write_text(file.read_text(encoding="utf-8").replace(part, damaged), encoding="utf-8")

    assert ["new"] == [each.output for each in results(Runner(model=ScriptedModel(["new"])).map(["1"], save=file))]


@WAYS
def test_other_file(go: Callable[..., list[Any]], tmp_path: Path) -> None:
    """Another file is refused, and left as it is; and so is what is no file."""
    file = tmp_path / "notes.txt"
    file.write_text("Buy milk.", encoding="utf-8")
    with pytest.raises(StoreError, match=r"Line 1 of .*notes.txt' is not an answer that map\(\) has saved"):
        go(Runner(model=ScriptedModel([])), ["1"], save=file)
    with pytest.raises(StoreError, match="cannot be opened: No such file or directory"):
        go(Runner(model=ScriptedModel([])), ["1"], save=tmp_path / "none" / "answers.jsonl")

    assert "Buy milk." == file.read_text(encoding="utf-8")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other rights")
def test_private_file(tmp_path: Path) -> None:
    """Conversations are for their owner alone."""
    Runner(model=ScriptedModel(["a"])).map(["1"], save=tmp_path / "answers.jsonl")

    assert 0o600 == (tmp_path / "answers.jsonl").stat().st_mode & 0o777


def test_interrupted() -> None:
    """What leaves `map` early cancels the runs that are active."""
    begun, ended = threading.Event(), threading.Event()

    @tool
    def hang(seconds: float) -> str:
        """Wait until the run is cancelled."""
        begun.set()
        return "waited"

    def prompts() -> Iterator[str]:
        yield "Go"
        assert begun.wait(20)
        raise KeyboardInterrupt

    def script(_: ModelRequest) -> ModelReply:
        time.sleep(0.01)
        return [call("hang", seconds=1)]

    runner = Runner([hang], model=ScriptedModel(script), max_turns=100_000, hooks=[_Ending(ended)])
    with pytest.raises(KeyboardInterrupt):
        runner.map(prompts(), max_parallel=2)
    assert ended.wait(20)


class _Ending:
    """Notes that no further request is sent for a while."""

    def __init__(self, ended: threading.Event) -> None:
        self._ended = ended
        self._timer: threading.Timer | None = None

    def before_model(self, request: ModelRequest) -> ModelRequest:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = threading.Timer(0.5, self._ended.set)
        self._timer.daemon = True
        self._timer.start()
        return request


def test_cancelled_task() -> None:
    """Cancelling `amap` cancels its runs."""

    async def go() -> list[str]:
        ended, started = list[str](), asyncio.Semaphore(0)

        @tool
        async def hang() -> None:
            """Wait."""
            started.release()
            try:
                await asyncio.sleep(60)
            finally:
                ended.append("ended")

        runner = Runner([hang], model=ScriptedModel(lambda _: [call("hang")]))
        task = asyncio.ensure_future(runner.amap(["a", "b", "c"], max_parallel=2))
        for _ in range(2):
            await started.acquire()
        task.cancel()
        await asyncio.wait([task], timeout=20)
        return ended

    assert ["ended", "ended"] == asyncio.run(go())


def test_empty_answers(tmp_path: Path) -> None:
    """A run that ended without an answer runs again."""
    file = tmp_path / "answers.jsonl"
    first = Runner(model=ScriptedModel(lambda _: "")).map(["a", "b"], save=file, max_parallel=1)
    second = Runner(model=ScriptedModel(["A.", "B."])).map(["a", "b"], save=file, max_parallel=1)

    assert ["", "", "A.", "B."] == [each.output for each in first + second if isinstance(each, RunResult)]


@pytest.mark.parametrize(
    ("first", "expected"),
    [
        (ModelResponse(text="Ha", finish_reason="length"), "whole"),
        (ModelResponse(text="Ha", finish_reason="content_filter"), "whole"),
        (call("stop"), "whole"),
        ([call("look"), "so far"], "so far"),
        ([call("look"), ""], "whole"),
    ],
    ids=["cut off", "filtered", "halted", "a last answer at a limit", "no answer at a limit"],
)
def test_which_ends_are_answers(tmp_path: Path, first: Any, expected: str) -> None:
    """A part of an answer, and a text of a tool in its place, are asked for again; an answer at a limit is not."""

    @tool
    def stop() -> str:
        """Stop."""
        raise Halt("half")

    @tool
    def look() -> str:
        """Look."""
        return "seen"

    replies = first if isinstance(first, list) else [first]
    runner = Runner([stop, look], model=ScriptedModel([*replies, "whole"]), max_turns=1)
    go = partial(runner.map, ["Go"], save=tmp_path / "answers.jsonl")
    assert ["stop"] != [each.finish_reason for each in results(go())]

    assert [expected] == [each.output for each in results(go())]


def test_answers_without_prompts(tmp_path: Path) -> None:
    """The answer to a conversation that ends with its question is kept in the file, too."""
    question = [{"role": "user", "content": "x"}]
    runner = Runner(model=ScriptedModel(["once"]))
    outputs = [runner.map([None], messages=question, save=tmp_path / "answers")[0] for _ in range(2)]

    assert ["once", "once"] == [*map(str, outputs)]
