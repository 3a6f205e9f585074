"""Runs that are left, cancelled or late, at random: threads, tasks, processes and descriptors are as they were."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import openai
import pytest

from tests.apart import late, process
from tests.resources import children, descriptors
from tests.servers import FakeServer
from tests.ways import in_own_loop
from toolkit import BusyError, Limits, ModelError, Runner, Tool, ToolCall, ToolContext, tool
from toolkit.events import TextDelta, ToolCallFinished
from toolkit.models import CallReady, ModelRequest, ModelResponse
from toolkit.testing import Reply, Request, ScriptedModel, call, reply

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs /proc")


@tool
def quick(seed: int) -> int:
    """Be done at once."""
    return seed


@tool
def patient(context: ToolContext, seed: int) -> int:
    """Work until it is cancelled, or for a while."""
    for _ in range(seed):
        if context.cancelled:
            break
        threading.Event().wait(0.001)
    return seed


@tool(timeout=0.005)
def hurried(context: ToolContext, seed: int) -> int:
    """Work longer than there is time."""
    while not context.cancelled:
        threading.Event().wait(0.001)
    return seed


@tool
async def patient_later(seed: int) -> int:
    """Work for a while, and put things away."""
    try:
        await asyncio.sleep(seed / 1000)
    finally:
        await asyncio.sleep(0)
    return seed


@tool(timeout=0.005, retries=1, idempotent=True, retry_on=(OSError,))
async def hurried_later(seed: int) -> int:
    """Work longer than there is time."""
    await asyncio.Event().wait()
    return seed


@tool
async def stubborn(seed: int) -> int:
    """Swallow a cancellation."""
    try:
        await asyncio.sleep(seed / 1000)
    except asyncio.CancelledError:
        await asyncio.sleep(0.001)
    return seed


@tool
def count(seed: int) -> Iterator[int]:
    """Give values one by one."""
    for number in range(seed % 5):
        threading.Event().wait(0.001)
        yield number


@tool
async def count_later(seed: int) -> AsyncIterator[int]:
    """Give values one by one."""
    for number in range(seed % 5):
        await asyncio.sleep(0.001)
        yield number


@tool
def failing(seed: int) -> int:
    """Fail."""
    raise OSError(seed)


IN_PLACE: list[Tool[..., Any]] = [
    quick,
    patient,
    hurried,
    patient_later,
    hurried_later,
    stubborn,
    count,
    count_later,
    failing,
]


def held() -> set[tuple[str, object]]:
    """Return the threads and descriptors of this process."""

    async def tasks() -> set[str]:
        return {task.get_name() for task in asyncio.all_tasks() - {asyncio.current_task()}}

    return {
        *(("thread", thread) for thread in threading.enumerate()),
        *(("task", name) for name in in_own_loop(tasks)),
        *(("child", number) for number in children()),
        *(("descriptor", number) for number in descriptors()),
    }


def added_since(before: set[tuple[str, object]]) -> set[tuple[str, object]]:
    """Return what runs or is open at the end that was not before; what was abandoned has ten seconds."""
    for _ in range(1000):
        if held() <= before:
            break
        threading.Event().wait(0.01)
    return held() - before


def runner_of(chance: random.Random) -> Runner:
    """A runner whose model makes some calls, twice."""

    def calls() -> list[ToolCall]:
        return [call(chance.choice(IN_PLACE).name, seed=chance.randrange(30)) for _ in range(chance.randrange(1, 7))]

    return Runner(IN_PLACE, model=ScriptedModel([calls(), calls(), "Done."]))


def leave_stream(chance: random.Random) -> None:
    """Leave a stream after some events."""
    with runner_of(chance).stream("Go on.") as events:
        for number, _ in enumerate(events):
            if number == chance.randrange(30):
                break


def cancel_what_runs(runner: Runner) -> None:
    """Cancel a run, where it has not ended."""
    with contextlib.suppress(BusyError):
        runner.cancel()


def cancel_stream(chance: random.Random) -> None:
    """Cancel a stream from another thread, and read it to its end."""
    runner = runner_of(chance)
    with runner.stream("Go on.") as events:
        timer = threading.Timer(chance.random() / 50, cancel_what_runs, [runner])
        timer.start()
        for _ in events:
            pass
        timer.join()


def leave_astream(chance: random.Random) -> None:
    """Leave a stream in a loop after some events."""

    async def main() -> None:
        async with runner_of(chance).astream("Go on.") as events:
            left = chance.randrange(30)
            async for _ in events:
                left -= 1
                if not left:
                    break
        await ended()

    asyncio.run(main())


def cancel_task(chance: random.Random) -> None:
    """Cancel the task of a run."""

    async def main() -> None:
        task = asyncio.ensure_future(runner_of(chance).arun("Go on."))
        await asyncio.wait({task}, timeout=chance.random() / 50)
        task.cancel()
        await asyncio.wait({task})
        await ended()

    asyncio.run(main())


def cancel_handle(chance: random.Random) -> None:
    """Cancel a run in the background."""
    handle = runner_of(chance).start("Go on.")
    threading.Event().wait(chance.random() / 50)
    handle.cancel()
    handle.result()


async def ended() -> None:
    """Wait until this task is alone in its loop."""
    for _ in range(1000):
        if len(asyncio.all_tasks()) == 1:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(asyncio.all_tasks())


WAYS = [leave_stream, cancel_stream, leave_astream, cancel_task, cancel_handle]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("leave", WAYS, ids=lambda leave: leave.__name__)
def test_nothing_is_left(leave: Callable[[random.Random], None], seed: int) -> None:
    """However a run ends, it leaves neither thread nor task nor descriptor."""
    chance = random.Random(f"{leave.__name__} {seed}")  # noqa: S311  no secret
    in_own_loop(lambda: asyncio.sleep(0))
    before = held()
    for _ in range(3):
        leave(chance)

    assert set() == added_since(before)


def left_runner() -> Runner:
    """A runner whose model calls two processes, of which one is late at once."""
    return Runner([process, late], model=ScriptedModel([[call("process"), call("late")], "Done."]))


def leave_processes() -> None:
    """Leave a stream while a process works."""
    with left_runner().stream("Go on.") as events:
        next(event for event in events if isinstance(event, ToolCallFinished))


def leave_processes_later() -> None:
    """Leave a stream in a loop while a process works."""

    async def main() -> None:
        async with left_runner().astream("Go on.") as events:
            async for event in events:
                if isinstance(event, ToolCallFinished):
                    break

    asyncio.run(main())


@pytest.mark.parametrize("leave", [leave_processes, leave_processes_later], ids=["stream", "astream"])
def test_no_process_is_left(leave: Callable[[], None]) -> None:
    """A run that is left while a process works leaves none."""
    in_own_loop(lambda: asyncio.sleep(0))
    before = held()
    leave()

    assert set() == added_since(before)


# -- calls that started early


@tool(effect="read")
async def endless_read() -> None:
    """Wait for ever."""
    await asyncio.Event().wait()


@tool(effect="read")
def cooperative_read(context: ToolContext) -> None:
    """Wait until it is cancelled."""
    while not context.cancelled:
        threading.Event().wait(0.001)


class Unfinished:
    """A model whose answer has a whole call, and continues with text for ever."""

    name = "unfinished"
    is_async = False

    def __init__(self, name: str) -> None:
        self.call = call(name)

    async def complete(self, request: ModelRequest) -> ModelResponse:
        raise NotImplementedError

    async def stream(self, request: ModelRequest) -> AsyncIterator[CallReady | TextDelta]:
        yield CallReady(self.call, 0)
        while True:
            yield TextDelta("...")


def left_early(runner: Runner) -> None:
    """Leave a stream once a call has started."""
    with runner.stream("Go on.") as events:
        next(event for event in events if isinstance(event, TextDelta))


def left_early_later(runner: Runner) -> None:
    """Leave a stream in a loop once a call has started."""

    async def main() -> None:
        async with runner.astream("Go on.") as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    break
        await ended()

    asyncio.run(main())


def late_early(runner: Runner) -> None:
    """Let the run's time pass, once a call has started."""
    with runner.stream("Go on.") as events:
        list(events)


@pytest.mark.parametrize("tool", [endless_read, cooperative_read], ids=["async", "sync"])
@pytest.mark.parametrize("leave", [left_early, left_early_later, late_early], ids=lambda leave: leave.__name__)
def test_no_early_call_is_left(leave: Callable[[Runner], None], tool: Tool[..., Any]) -> None:
    """A call that started early ends with a run that is left, or late, before the answer is whole."""
    in_own_loop(lambda: asyncio.sleep(0))
    before = held()
    limits = Limits(max_seconds=0.1 if leave is late_early else None, on_limit="stop")
    leave(Runner([tool], model=Unfinished(tool.name), early=True, limits=limits))

    assert set() == added_since(before)


# -- servers that send for ever


def dripping(request: Request) -> Reply:
    """An answer that never ends: comments in a stream, space before a body."""
    streams = request.body.get("stream")
    piece, kind = (b": ping\n\n", "text/event-stream") if streams else (b" ", "application/json")
    return reply.raw(itertools.repeat(piece), content_type=kind).dripping(100, 0.01)


def late_run(client: openai.OpenAI, api: Any) -> None:
    """Ask for a whole answer, for no longer than a turn may take."""
    with pytest.raises(ModelError, match="complete its answer within"):
        Runner(model="m", client=client, api=api, limits=Limits(max_seconds_per_turn=0.1)).run("Go on.")


def late_stream(client: openai.OpenAI, api: Any) -> None:
    """Ask for a streamed answer, for no longer than the run may take."""
    with Runner(model="m", client=client, api=api, limits=Limits(max_seconds=0.1, on_limit="stop")).stream(
        "Go on."
    ) as events:
        list(events)


def late_arun(client: openai.OpenAI, api: Any) -> None:
    """Ask for a whole answer of a sync client in a loop."""
    with pytest.raises(ModelError, match="complete its answer within"):
        asyncio.run(Runner(model="m", client=client, api=api, limits=Limits(max_seconds_per_turn=0.1)).arun("Go on."))


def cancelled_stream(client: openai.OpenAI, api: Any) -> None:
    """Cancel a stream that is read on this thread."""
    runner = Runner(model="m", client=client, api=api)
    with runner.stream("Go on.") as events:
        timer = threading.Timer(0.1, runner.cancel)
        timer.start()
        list(events)
        timer.join()


def cancelled_handle(client: openai.OpenAI, api: Any) -> None:
    """Cancel a run in the background, once its answer has started."""
    handle = Runner(model="m", client=client, api=api).start("Go on.")
    threading.Event().wait(0.1)
    handle.cancel()
    handle.result()


@pytest.mark.parametrize("api", ["chat", "responses"])
@pytest.mark.parametrize(
    "leave", [late_run, late_stream, late_arun, cancelled_stream, cancelled_handle], ids=lambda leave: leave.__name__
)
def test_no_connection_is_left(leave: Callable[[openai.OpenAI, str], None], api: Any) -> None:
    """A sync client's response that nobody waits for any more is closed, whatever its server still sends."""
    with FakeServer(dripping) as server, openai.OpenAI(base_url=server.base_url, api_key="test") as client:
        in_own_loop(lambda: asyncio.sleep(0))
        before = held()
        leave(client, api)

        assert set() == added_since(before)


FIRST_RUN = """
import gc, weakref
from toolkit import Runner, ToolContext, tool
from toolkit.testing import ScriptedModel, call

class Deps:
    pass

@tool
async def look(context: ToolContext[Deps]) -> str:
    "Look."
    return "seen"

deps = Deps()
runner = Runner([look], model=ScriptedModel([call("look"), "Done."]))
kept = [weakref.ref(deps), weakref.ref(runner)]
print(runner.run("Go.", deps=deps))
del deps, runner
gc.collect()
print([each() for each in kept])
"""


def test_first_run_is_not_kept() -> None:
    """The event loop of the process, which the first async call starts, does not keep that call's run and deps."""
    ended = subprocess.run([sys.executable, "-c", FIRST_RUN], capture_output=True, text=True, check=True)  # noqa: S603

    assert "Done.\n[None, None]\n" == ended.stdout
