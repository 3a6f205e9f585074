"""Many prompts with one runner."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from toolkit import ModelError, Runner, Session, tool
from toolkit.models import ModelRequest
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
    with pytest.raises(TypeError, match=r"There is no option 'dpes'\. Did you mean 'deps'"):
        go(runner, ["1"], dpes=1)
    with pytest.raises(TypeError, match="session= is for one run at a time"):
        go(runner, ["1"], session=Session())
    with pytest.raises(ValueError, match="max_parallel=0 is not a whole number of runs"):
        go(runner, ["1"], max_parallel=0)


@WAYS
@pytest.mark.parametrize("is_terminal", [True, False])
def test_progress(
    go: Callable[..., list[Any]], is_terminal: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Progress is counted on standard error, where that is a terminal."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    go(Runner(model=ScriptedModel(answer)), ["3", "4", "5"], max_parallel=1, progress=True)

    shown = "\r1 done\r2 done, 1 failed\r3 done, 1 failed\n" if is_terminal else ""
    assert shown == capsys.readouterr().err


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
