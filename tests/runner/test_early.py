"""Calls that start while the answer that holds them is still arriving."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from tests.servers import FakeServer
from tests.ways import astream, start, stream
from toolkit import (
    FatalError,
    Halt,
    Limits,
    MemoryLedger,
    ModelError,
    Runner,
    RunResult,
    RunState,
    Toolbox,
    ToolCall,
    ToolContext,
    batched,
    tool,
)
from toolkit.events import (
    Event,
    TextDelta,
    ToolCallFinished,
    ToolCallRetried,
    ToolCallStarted,
    ToolCallUpdated,
    TurnFinished,
    TurnStarted,
)
from toolkit.models import CallReady, ModelRequest, ModelResponse
from toolkit.testing import call, reply

CUT_TEXT = "Not run: the answer that held this call was cut off. Send it again, with shorter arguments or fewer calls."
WAYS = pytest.mark.parametrize("go", [stream, astream, start])


@dataclass
class Promising:
    """A model that gives each call as soon as it has it, and ends each of its answers once `go_on` is set."""

    promised: Sequence[ToolCall]
    calls: Sequence[ToolCall] | None = None
    answers: int = 1
    finish_reason: str = "tool_calls"
    error: Exception | None = None
    is_async: bool = False
    name: str = "promising"
    go_on: threading.Event = field(default_factory=threading.Event)
    turn: int = 0

    async def complete(self, request: ModelRequest) -> ModelResponse:
        raise NotImplementedError

    async def stream(self, request: ModelRequest) -> AsyncIterator[Any]:
        self.turn += 1
        if self.turn > self.answers:
            yield ModelResponse(text="ok", finish_reason="stop")
            return
        for position, each in enumerate(self.promised):
            yield CallReady(each, position)
        yield TextDelta("...")
        assert await (asyncio.to_thread(self.go_on.wait, 5) if self.is_async else waited(self.go_on))
        if self.error:
            raise self.error
        calls = self.promised if self.calls is None else self.calls
        yield ModelResponse(calls=tuple(calls), finish_reason=self.finish_reason)


async def waited(event: threading.Event) -> bool:
    return event.wait(5)


class Library:
    """Tools that record their arguments, and let the model continue once `enough` calls have started."""

    def __init__(self, model: Promising, enough: int = 1) -> None:
        self.model = model
        self.enough = enough
        self.started: list[str] = []
        if not enough:
            model.go_on.set()

    def begin(self, name: str) -> str:
        self.started.append(name)
        if len(self.started) >= self.enough:
            self.model.go_on.set()
        return name

    def runner(self, **options: Any) -> Runner:
        def made(name: str, **settings: Any) -> Any:
            def use(n: int = 0) -> str:
                """Use."""
                return self.begin(f"{name}{n}")

            return tool(use, name=name, **settings)

        tools = [
            made("read", effect="read"),
            made("write", effect="write"),
            made("plain"),
            made("alone", effect="read", exclusive=True),
            made("asked", effect="read", approve=True),
        ]
        return Runner(tools, model=self.model, early=True, **options)


def reads(*numbers: int) -> list[ToolCall]:
    return [call("read", n=n) for n in numbers]


def texts(result: RunResult) -> list[str]:
    return [message.text for message in result.messages]


@WAYS
@pytest.mark.parametrize("is_async", [False, True], ids=["sync model", "async model"])
def test_begins_early(is_async: bool, go: Callable[[Runner], RunResult]) -> None:
    """Calls of tools that read start before the answer ends: this one ends only once they have."""
    library = Library(Promising(reads(1, 2), is_async=is_async), enough=2)
    result = go(library.runner())

    assert (["read1", "read2"], ["read1", "read2", "ok"]) == (sorted(library.started), texts(result)[2:])


def test_result_comes_once() -> None:
    """A call that started early starts once and finishes once, and its start is reported before the answer ends."""
    library = Library(Promising(reads(1)))
    kinds = (ToolCallStarted, ToolCallFinished, TurnFinished)
    events = [type(event) for event in library.runner().stream("go") if isinstance(event, kinds)]

    assert [ToolCallStarted, TurnFinished, ToolCallFinished, TurnFinished] == events


def test_same_id() -> None:
    """A call that started early has the id that the history has for it."""
    ids: list[str] = []
    model = Promising([call("read")])

    @tool(effect="read")
    def read(context: ToolContext) -> None:
        """Read."""
        ids.append(context.call_id)
        model.go_on.set()

    result = stream(Runner([read], model=model, early=True))

    assert ids == [done.call.id for done in result.calls]


@pytest.mark.parametrize("references", [False, True])
def test_runs_as_written(references: bool) -> None:
    """A call that started early has no other call as `ran`, unless something has changed it."""
    model = Promising(reads(1))

    @tool(effect="read")
    def read(n: int) -> None:
        """Read."""
        model.go_on.set()

    result = stream(Runner(Toolbox([read], references=references), model=model, early=True))

    assert [None] == [end.ran for end in result.calls]


def retold(go_on: bool) -> list[Event]:
    """Return the events of a call that starts early, and lets the answer continue when it starts or when it ends."""
    model = Promising(reads(1))

    @tool(effect="read", retries=1)
    def read(n: int, context: ToolContext) -> None:
        """Read."""
        context.progress(f"try {context.attempt}")
        if go_on or context.attempt:
            model.go_on.set()
        if not context.attempt:
            raise OSError

    kinds = (ToolCallStarted, ToolCallUpdated, ToolCallRetried, ToolCallFinished)
    return [event for event in Runner([read], model=model, early=True).stream("go") if isinstance(event, kinds)]


@pytest.mark.parametrize("go_on", [True, False], ids=["while it works", "when it has ended"])
def test_what_is_reported(go_on: bool) -> None:
    """The updates of a call that started early are reported between its start and its end, in order."""
    kinds = [type(event) for event in retold(go_on)]

    assert [ToolCallStarted, ToolCallUpdated, ToolCallRetried, ToolCallUpdated, ToolCallFinished] == kinds


def test_state_that_cannot_be_saved() -> None:
    """If the checkpoint fails before the calls of a response, each call has its start and its end all the same."""

    def save(state: RunState) -> None:
        if state.phase == "calling":
            raise OSError("full")

    library = Library(Promising(reads(1), calls=[*reads(1), call("plain")]))
    events: list[Event] = []
    with pytest.raises(OSError, match="full"):
        events.extend(library.runner(checkpoint=save).stream("go"))

    started = [event.call.id for event in events if isinstance(event, ToolCallStarted)]
    assert (2, started) == (len(started), [event.call.id for event in events if isinstance(event, ToolCallFinished)])


@dataclass
class Changing:
    """A hook that makes something else of the first answer."""

    change: Callable[[ModelResponse], ModelResponse]
    is_done: bool = False

    def after_model(self, response: ModelResponse) -> ModelResponse:
        if self.is_done:
            return response
        self.is_done = True
        return self.change(response)


def halted(_: ModelResponse) -> ModelResponse:
    raise Halt("enough")


def failed(_: ModelResponse) -> ModelResponse:
    raise ModelError("no answer")


def ends(library: Library, **options: Any) -> list[tuple[str, str]]:
    """Return each start and end of a call, with its arguments or text; and an error at the end."""
    reported = []
    try:
        for event in library.runner(**options).stream("go"):
            if isinstance(event, ToolCallStarted):
                reported.append(("started", event.call.arguments))
            elif isinstance(event, ToolCallFinished):
                reported.append((event.result.kind or "ok", event.result.text))
    except ModelError as error:
        reported.append(("raised", str(error)))
    return reported


STARTED = ("started", '{"n": 1}')
DROPPED = ("cancelled", "Dropped: the model's answer does not hold this call in the end.")


@pytest.mark.parametrize(
    ("change", "reported"),
    [
        (lambda response: replace(response, calls=(), text="no"), [STARTED, DROPPED]),
        (
            lambda response: replace(response, calls=tuple(reads(2))),
            [STARTED, DROPPED, ("started", '{"n": 2}'), ("ok", "read2")],
        ),
        (halted, [STARTED, DROPPED]),
        (failed, [STARTED, DROPPED, ("raised", "no answer")]),
        (lambda response: replace(response, finish_reason="length"), [STARTED, ("cancelled", CUT_TEXT)]),
    ],
    ids=["removed", "changed", "halted", "failed", "cut"],
)
def test_every_start_has_its_end(
    change: Callable[[ModelResponse], ModelResponse], reported: list[tuple[str, str]]
) -> None:
    """A call that started early and is not in the whole answer is reported as dropped; the one in its place starts."""
    assert reported == ends(Library(Promising(reads(1))), hooks=[Changing(change)])


@pytest.mark.parametrize(
    ("answers", "change"),
    [(1, lambda response: replace(response, calls=tuple(reads(2)))), (2, lambda _: ModelResponse())],
    ids=["another call", "the same call, when the model is asked again"],
)
def test_one_end_for_each_id(answers: int, change: Callable[[ModelResponse], ModelResponse]) -> None:
    """A call that takes the place of a dropped one has an id of its own: each id starts once and ends once."""
    library = Library(Promising(reads(1), answers=answers))
    events = list(library.runner(hooks=[Changing(change)]).stream("go"))
    started = [event.call.id for event in events if isinstance(event, ToolCallStarted)]
    finished = [event.call.id for event in events if isinstance(event, ToolCallFinished)]

    assert (2, started) == (len(set(started)), finished)


def test_answer_that_breaks_off() -> None:
    """What started early is reported as dropped before the exception that ends the run."""
    library = Library(Promising(reads(1), error=ModelError("broke off")))

    assert [STARTED, DROPPED, ("raised", "broke off")] == ends(library)


def test_cancelled_behind_the_answer() -> None:
    """A run that is cancelled between an answer and its calls reports the end of what started early."""
    ends = []
    with Library(Promising(reads(1))).runner().stream("go") as events:
        for event in events:
            ends += [event] if isinstance(event, ToolCallFinished) else []
            if isinstance(event, TurnFinished):
                events.cancel()

    assert (1, list(events.result.calls)) == (len(ends), ends)


def test_ledger() -> None:
    """With a ledger nothing starts early: a call that is changed in the end would not be the one it knows."""
    library = Library(Promising(reads(1)), enough=0)
    change = Changing(lambda response: replace(response, calls=(call("write", n=2),)))
    reported = ends(library, ledger=MemoryLedger(), hooks=[change])

    assert [("started", '{"n": 2}'), ("ok", "write2")] == reported


@WAYS
@pytest.mark.parametrize("reason", ["length", "content_filter"])
def test_cut(reason: str, go: Callable[[Runner], RunResult]) -> None:
    """What started early in a truncated answer is dropped: the call gets the same result as the others of it."""
    result = go(Library(Promising(reads(1), finish_reason=reason)).runner())

    assert [CUT_TEXT, "ok"] == texts(result)[2:]


@WAYS
def test_answer_that_fails(go: Callable[[Runner], RunResult]) -> None:
    """Where an answer breaks off, what started early is dropped."""
    library = Library(Promising(reads(1), error=ModelError("broke off")))
    with pytest.raises(ModelError, match="broke off"):
        go(library.runner())

    assert ["read1"] == library.started


def test_other_call_in_the_end() -> None:
    """Where the whole answer has another call than was promised, that one is executed."""
    library = Library(Promising(reads(1), calls=reads(2)))

    assert ["read2", "ok"] == texts(stream(library.runner()))[2:]


def pass_on(call: Any, proceed: Callable[[Any], Any]) -> Any:
    """Change nothing."""
    return proceed(call)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("write", {}),
        ("plain", {}),
        ("alone", {}),
        ("asked", {"approve": lambda _: True}),
        ("read", {"middleware": [pass_on]}),
    ],
    ids=["write", "plain", "alone", "asked", "middleware"],
)
def test_waits(name: str, options: dict[str, Any]) -> None:
    """A call that does more than read, runs alone, or needs approval or a middleware waits for the whole answer."""
    library = Library(Promising([call(name)]), enough=0)
    events = library.runner(**options).stream("go")
    seen = [list(library.started) for event in events if isinstance(event, TurnFinished)]

    assert ([], [f"{name}0"]) == (seen[0], library.started)


def test_behind_a_write() -> None:
    """A read behind a write waits for it, as in any answer."""
    library = Library(Promising([*reads(1), call("write", n=2), *reads(3)]))
    early = [list(library.started) for event in library.runner().stream("go") if isinstance(event, TurnFinished)]

    assert (["read1"], ["read1", "write2", "read3"]) == (early[0], library.started)


@pytest.mark.parametrize(("order", "count"), [("sequential", 1), (batched(2), 2), ("parallel", 3)], ids=str)
def test_as_many_as_the_order_allows(order: Any, count: int) -> None:
    """No more start early than would run together."""
    library = Library(Promising(reads(1, 2, 3)), enough=count)
    early = [
        len(library.started) for event in library.runner(order=order).stream("go") if isinstance(event, TurnFinished)
    ]

    assert (count, 3) == tuple(early)


def test_max_parallel() -> None:
    """`max_parallel` bounds what starts early, too."""
    library = Library(Promising(reads(1, 2, 3)))
    early = [
        len(library.started) for event in library.runner(max_parallel=1).stream("go") if isinstance(event, TurnFinished)
    ]

    assert [1, 3] == early


def test_limit() -> None:
    """A call that a limit refuses does not start early."""
    library = Library(Promising(reads(1, 2)))
    runner = library.runner(limits=Limits(max_calls_per_tool={"read": 1}))
    result = stream(runner)

    assert (["read1"], "Not run: read may be called 1 times in a run. Go on without it.") == (
        library.started,
        texts(result)[3],
    )


def test_not_chosen() -> None:
    """Where no call is wanted, none is executed, early or not."""
    library = Library(Promising(reads(1)), enough=0)
    stream(library.runner(tool_choice="none"))

    assert [] == library.started


def test_not_asked_for() -> None:
    """Without `early` a promise is nothing: calls start once the answer is whole."""
    model = Promising(reads(1))
    model.go_on.set()

    @tool(effect="read")
    def read(n: int) -> int:
        """Read."""
        return n

    kinds = [type(event) for event in Runner([read], model=model).stream("go")]

    assert kinds.index(TurnFinished) < kinds.index(ToolCallStarted)


@WAYS
def test_fatal_error(go: Callable[[Runner], RunResult]) -> None:
    """A tool that ends the run does so when its answer is whole, if it started early."""
    model = Promising([call("read")])

    @tool(effect="read")
    def read() -> None:
        """Read."""
        model.go_on.set()
        raise FatalError("the end")

    with pytest.raises(FatalError, match="the end"):
        go(Runner([read], model=model, early=True))


def test_steered() -> None:
    """Once the user has steered the run, no call starts early: it would be skipped."""
    library = Library(Promising(reads(1)), enough=0)
    runner = library.runner()
    with runner.stream("go") as events:
        next(event for event in events if isinstance(event, TurnStarted))
        runner.steer("wait")
        list(events)

    assert [] == library.started


def test_left() -> None:
    """A stream that is left while a call has started early waits for nothing."""
    library = Library(Promising(reads(1)))
    with library.runner().stream("go") as events:
        next(event for event in events if isinstance(event, TextDelta))
    library.model.go_on.set()

    assert ("cancelled", ["go"]) == (events.result.finish_reason, texts(events.result))


@WAYS
@pytest.mark.parametrize("api", ["chat", "responses"])
def test_on_the_wire(api: Any, go: Callable[[Runner], RunResult]) -> None:
    """With a server's stream a call starts as soon as its arguments are whole, while the stream is still open."""
    started = threading.Event()

    @tool(effect="read")
    def read(n: int) -> int:
        """Read."""
        started.set()
        return n

    answer = reply.calls(("read", {"n": 1}), ("read", {"n": 2}))
    with FakeServer([answer, reply.text("ok")]) as server:
        result = go(Runner([read], model="fake", base_url=server.base_url, api=api, early=True))

    assert (["1", "2", "ok"], True) == (texts(result)[2:], started.is_set())


def test_while_the_server_is_silent() -> None:
    """A server that falls silent after its first call has it executed all the same."""
    started = threading.Event()

    @tool(effect="read")
    def read(n: int) -> int:
        """Read."""
        started.set()
        return n

    def pieces() -> Any:
        delta = {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "read", "arguments": '{"n": 1}'}}]}
        yield {"choices": [{"index": 0, "delta": delta}]}
        second = {"tool_calls": [{"index": 1, "id": "b", "function": {"name": "read", "arguments": '{"n": 2}'}}]}
        yield {"choices": [{"index": 0, "delta": second}]}
        assert started.wait(5)
        yield {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}

    with FakeServer([reply.chunks(pieces()), reply.text("ok")]) as server:
        result = stream(Runner([read], model="fake", base_url=server.base_url, early=True))

    assert ["1", "2", "ok"] == texts(result)[2:]
