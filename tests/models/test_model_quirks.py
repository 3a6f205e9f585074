"""What models and their servers get wrong: a table over a server that sends it, streamed and whole.

The server is strict: it refuses a later request whose calls and answers do not pair, whose ids repeat, or whose
arguments are not JSON. So every row also says that the conversation can go on.
"""

import asyncio
import json
from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import openai
import pytest

from tests.servers import FakeServer
from toolkit import Limits, ModelError, Runner, RunResult, Toolbox, ToolCall, tool
from toolkit._messages import OutputSpec
from toolkit.events import ToolArgumentsDelta
from toolkit.models import CallReady, ModelRequest, ModelResponse, Piece, ToolMessage
from toolkit.models.openai import OpenAIModel
from toolkit.testing import Reply, reply

CUT_TEXT = "Not run: the answer that held this call was cut off. Send it again, with shorter arguments or fewer calls."

STREAMED = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])


class Line:
    """A server, a client of it, and tools that keep a record of who was entered."""

    def __init__(self) -> None:
        self.script: deque[Reply] = deque()
        self.entered: list[str] = []
        self.server = FakeServer(lambda _: self.script.popleft())
        self.tools = self.box()
        self.client = openai.OpenAI(api_key="test", base_url=self.server.base_url, max_retries=0, timeout=10)

    def run(self, *script: Reply, streamed: bool, max_turns: int = 10, **options: Any) -> RunResult:
        """Let a runner meet these replies, all of them, and find nothing wrong with its requests."""
        self.script.extend(script)
        self.entered.clear()
        runner = Runner(self.tools, model="fake", client=self.client, max_turns=max_turns, **options)
        try:
            return through(runner) if streamed else runner.run("Go on.")
        finally:
            left, problems = list(self.script), list(self.server.problems)
            self.script.clear()
            self.server.problems.clear()
            assert ([], []) == (left, problems)

    def box(self) -> Toolbox:
        entered = self.entered

        def add(a: int = 0, b: int = 0) -> int:
            """Add."""
            entered.append("add")
            return a + b

        def need(a: int) -> int:
            """Need a number."""
            entered.append("need")
            return a

        def take(items: list[int], note: str = "") -> int:
            """Take numbers."""
            entered.append("take")
            return sum(items)

        def say(text: str | None = None) -> str:
            """Say a text."""
            entered.append("say")
            return f"<{text}>"

        def ping() -> str:
            """Answer."""
            entered.append("ping")
            return "pong"

        return Toolbox([add, need, take, say, ping])


def through(runner: Runner) -> RunResult:
    with runner.stream("Go on.") as events:
        list(events)
    return events.result


@pytest.fixture(scope="module")
def line() -> Iterator[Line]:
    line = Line()
    with line.server, line.client:
        yield line


def texts_of(result: RunResult) -> list[str]:
    """Return the texts of the results."""
    return [f"{m.name}: {m.text}" for m in result.messages if isinstance(m, ToolMessage)]


def piece(arguments: Any = None, name: Any = None, **more: Any) -> dict[str, Any]:
    """A call or a fragment of one, with nothing in it that is not given."""
    function = {key: value for key, value in {"name": name, "arguments": arguments}.items() if value is not None}
    return {**more, "function": function}


def chunk(*pieces: Any, finish_reason: str | None = None, **delta: Any) -> dict[str, Any]:
    calls = {"tool_calls": list(pieces)} if pieces else {}
    return {"choices": [{"index": 0, "delta": {**calls, **delta}, "finish_reason": finish_reason}]}


def in_chunks(*deltas: list[Any], finish_reason: str | None = "tool_calls") -> Reply:
    return reply.chunks([*(chunk(*pieces) for pieces in deltas), chunk(finish_reason=finish_reason)])


def message(*calls: Any, finish_reason: str | None = "tool_calls", **more: Any) -> Reply:
    content = {"role": "assistant", "content": None, **({"tool_calls": list(calls)} if calls else {}), **more}
    return reply.body({"choices": [{"index": 0, "message": content, "finish_reason": finish_reason}]})


FRAGMENTED = [piece("", "add", id="a"), piece('{"a"'), piece(": 1}"), piece("", "need", id="b"), piece('{"a": 2}')]
ONE_TWO = ["add: 1", "need: 2"]

# Fragments as they come, one list for each delta; and the results that the model reads then.
FRAGMENTS: dict[str, tuple[list[list[Any]], list[str]]] = {
    "A1 index 0 for all, whole": (
        [[piece(f'{{"a": {n}}}', "add", id=f"c{n}", index=0)] for n in (1, 2, 3)],
        ["add: 1", "add: 2", "add: 3"],
    ),
    "A1 index 0 for all, in fragments": ([[{**p, "index": 0}] for p in FRAGMENTED], ONE_TWO),
    "A1 index 0 for all, fragments taking turns": (
        [
            [piece("", "add", id="a", index=0)],
            [piece("", "need", id="b", index=0)],
            [piece('{"a": 1}', id="a", index=0)],
            [piece('{"a": 2}', id="b", index=0)],
        ],
        ONE_TWO,
    ),
    "A2 no index": ([[p] for p in FRAGMENTED], ONE_TWO),
    "A2 no index in the first": (
        [[p if "id" in p else {**p, "index": int(n > 2)}] for n, p in enumerate(FRAGMENTED)],
        ONE_TWO,
    ),
    "A2 no index in the middle": (
        [[{**p, "index": int(n > 2)} if "id" in p else p] for n, p in enumerate(FRAGMENTED)],
        ONE_TWO,
    ),
    "A2 no index, ids in each": (
        [
            [piece("", "add", id="a")],
            [piece("", "need", id="b")],
            [piece('{"a": 1}', id="a")],
            [piece('{"a": 2}', id="b")],
        ],
        ONE_TWO,
    ),
    "A2 no index, no id, whole": ([[piece('{"a": 1}', "add")], [piece('{"a": 2}', "need")]], ONE_TWO),
    "A2 no index, no id, in fragments": (
        [[piece("", "add")], [piece('{"a":')], [piece("1}")], [piece("", "need")], [piece('{"a": 2}')]],
        ONE_TWO,
    ),
    **{
        f"A3 indexes {low!r} and {high!r}": (
            [
                [piece("", "add", id="a", index=low)],
                [piece("", "need", id="b", index=high)],
                [piece('{"a": 1}', index=low)],
                [piece('{"a": 2}', index=high)],
            ],
            ONE_TWO,
        )
        for low, high in ((1, 2), (0, 3), (0, 7), (-1, 0), ("0", "1"), (10**9, 0), (7, 3))
    },
    "A3 arguments at the next index": (
        [
            [piece('{"a": 1}', "add", id="a", index=0)],
            [piece("", "need", id="b", index=0)],
            [piece('{"a"', index=1)],
            [piece(": 2}", index=1)],
            [piece("", "ping", id="c", index=1)],
            [piece("{}", index=2)],
            [piece("\n", index=3)],
        ],
        [*ONE_TWO, "ping: pong"],
    ),
    "A4 one index twice in the first delta": (
        [[piece("", "add", id="a", index=0), piece('{"a"', index=0)], [piece(": 1}", index=0)]],
        ["add: 1"],
    ),
    "A5 two objects at one index, no ids": (
        [[piece('{"a": 1}', "add", index=0)], [piece('{"a": 2}', "add", index=0)]],
        ["add: 1", "add: 2"],
    ),
    "A5 two objects in one text": ([[piece('{"a": 1}{"b": 2}', "add", id="a", index=0)]], ["add: 1", "add: 2"]),
    "A5 two objects in fragments": (
        [[piece("", "add", id="a", index=0)], [piece('{"a": 1}', index=0)], [piece(' {"b": 2} ', index=0)]],
        ["add: 1", "add: 2"],
    ),
    "A5 two objects, the second cut": (
        [[piece('{"a": 1} {"a"', "add", id="a", index=0), piece("{}", "ping", id="b", index=1)]],
        [f"add: {CUT_TEXT}", f"add: {CUT_TEXT}", f"ping: {CUT_TEXT}"],
    ),
    "A7 one id, own indexes": (
        [[piece('{"a": 1}', "add", id="a", index=0)], [piece('{"a": 2}', "need", id="a", index=1)]],
        ONE_TWO,
    ),
    "A7 one id, one index": (
        [[piece('{"a": 1}', "add", id="a", index=0)], [piece('{"a": 2}', "add", id="a", index=0)]],
        ["add: 1", "add: 2"],
    ),
    "A7 one id, no index": ([[piece(f'{{"a": {n}}}', "add", id="a")] for n in (1, 2)], ["add: 1", "add: 2"]),
    "A10 name in each chunk": (
        [[piece(text, "add", id="a", index=0)] for text in ('{"a"', ": 1", "}", "")],
        ["add: 1"],
    ),
    "A10 name in every second chunk": (
        [[piece(text, name, index=0)] for text, name in (('{"a"', "add"), (": ", None), ("1}", "add"))],
        ["add: 1"],
    ),
    "A10 two names for one id": (
        [[piece('{"a"', "add", id="a", index=0)], [piece(": 1}", "need", id="a", index=0)]],
        ["add|need: unknown tool: 'add|need'"],
    ),
    "A11 name null, then empty, then there": (
        [
            [{"index": 0, "id": "a", "function": {"name": None, "arguments": ""}}],
            [piece('{"a"', "", index=0)],
            [piece(": 1}", index=0)],
            [piece(None, "add", index=0)],
        ],
        ["add: 1"],
    ),
    "A11 arguments, then name, then id": (
        [[piece('{"a": 1}', index=0)], [piece(None, "add", index=0)], [{"index": 0, "id": "a"}]],
        ["add: 1"],
    ),
    "A12 empty names later": (
        [
            [piece("", "add", id="a", index=0)],
            *([piece(text, "", id="", index=0)] for text in ("{", '"a"', ":", "1", "}")),
        ],
        ["add: 1"],
    ),
    "F15 fragments of two calls take turns": (
        [
            [piece("", "add", id="a", index=0), piece("", "need", id="b", index=1)],
            *([piece(x, index=1), piece(y, index=0)] for x, y in zip('{"a": 2}', '{"a": 1}')),
        ],
        ONE_TWO,
    ),
}


@pytest.mark.parametrize(("deltas", "expected"), FRAGMENTS.values(), ids=FRAGMENTS)
def test_fragments(line: Line, deltas: list[list[Any]], expected: list[str]) -> None:
    """However a server numbers and names its fragments, each call is put together and answered once."""
    result = line.run(in_chunks(*deltas), reply.text("Done."), streamed=True)

    assert [*expected, "Done."] == [*begins(expected, texts_of(result)), result.output]


BROKEN = "not valid JSON"
NAMELESS = ": unknown tool: the call names none."
NOT_AN_OBJECT = "expected one JSON object with a, received"

# Calls as they come, whole; and the results that the model reads, or how they begin.
CALLS: dict[str, tuple[list[Any], list[str]]] = {
    **{
        f"A6 id {given!r}": ([{"id": given, **piece("{}", "add")}, {"id": given, **piece("{}", "ping")}],
                               ["add: 0", "ping: pong"])
        for given in (None, "", " ", 7)
    },
    "A6 no id": ([piece("{}", "add"), piece("{}", "ping")], ["add: 0", "ping: pong"]),
    **{
        f"A7 one id for {count}": ([piece(f'{{"a": {n}}}', "need", id="same") for n in range(count)],
                                   [f"need: {n}" for n in range(count)])
        for count in (2, 8)
    },
    "A9 one tool twice": ([piece(f'{{"text": "{t}"}}', "say", id=t) for t in "xy"], ["say: <x>", "say: <y>"]),
    "A13 no name": ([piece("{}", id="a")], [": unknown tool: the call names none. Available:"]),
    "A13 null name": ([{"id": "a", "function": {"name": None, "arguments": "{}"}}], [NAMELESS]),
    "A13 no function": ([{"id": "a", "type": "function"}], [NAMELESS]),
    "A13 null function": ([{"id": "a", "function": None}], [NAMELESS]),
    "A14 unknown name": ([piece("{}", "nod", id="a")], ["nod: unknown tool: 'nod'. Available: add, need, "]),
    **{
        f"A15 {name!r}": ([piece("{}", name, id="a")], [f"{name}: unknown tool: {name!r}"])
        for name in ("functions.add", "default_api:add", "ADD", "add ", " add")
    },
    **{
        f"A16 {name[:9]!r}": ([piece("{}", name, id="a")], [f"{name}: unknown tool: "])
        for name in ("x" * 10_000, "add\nadd", "\U0001f600", "a\x00b", "___", "ä", "add\ud800")
        if "\ud800" not in name
    },
    "A17 an object": ([piece({"a": 1}, "need", id="a")], ["need: 1"]),
    "A17 an object with a list": ([piece({"items": [1, 2]}, "take", id="a")], ["take: 3"]),
    "A17 an empty object": ([piece({}, "ping", id="a")], ["ping: pong"]),
    **{
        f"A18 {text!r}, nothing needed": ([{"id": "a", "function": {"name": "add", "arguments": text}}], ["add: 0"])
        for text in (None, "", "  ", "\n", "null", "{}")
    },
    **{
        f"A18 {text!r}, a needed": ([{"id": "a", "function": {"name": "need", "arguments": text}}],
                                    ["need: Invalid arguments: a: missing, but required"])
        for text in (None, "", "  ", "\n", "null", "{}")
    },
    **{
        f"A19 {text}": ([piece(text, "need", id="a")], [f"need: Invalid arguments: {NOT_AN_OBJECT}"])
        for text in ("[1]", "5", '"five"', "true", "[]")
    },
    "A19 a list, decoded": ([piece([1], "need", id="a")], [f"need: Invalid arguments: {NOT_AN_OBJECT} [1]"]),
    "A20 encoded twice": ([piece(json.dumps('{"a": 1}'), "need", id="a")], ["need: 1"]),
    "A20 encoded three times": (
        [piece(json.dumps(json.dumps('{"a": 1}')), "need", id="a")],
        ["need: Invalid arguments:"],
    ),
    "A21 a list as text": ([piece('{"items": "[1, 2]"}', "take", id="a")], ["take: 3"]),
    "A21 a text that looks like a list": ([piece('{"text": "[1, 2]"}', "say", id="a")], ["say: <[1, 2]>"]),
    **{
        f"A22 {text!r}": ([piece(text, "need", id="a")], [f"need: Invalid arguments: {BROKEN}"])
        for text in ("{'a': 1}", '{"a": 1,}', '{"a": 1} // one', "{a: 1}", '{"a": True}', '```json\n{}\n```', "<|x|>")
    },
    "A22 NaN": ([piece('{"a": NaN}', "need", id="a")], ["need: Invalid arguments: a: "]),
    "A22 half a character": ([piece('{"text": "\\ud83d"}', "say", id="a")], ["say: Invalid arguments: "]),
    "A35 custom": (
        [{"id": "a", "type": "custom", "custom": {"name": "need", "input": "one"}}],
        [f"need: Invalid arguments: {BROKEN}"],
    ),
    "A35 unknown type": ([{"id": "a", "type": "magic", "magic": {"name": "need"}}], [NAMELESS]),
    "A35 null": ([None, piece("{}", "ping", id="a")], ["ping: pong"]),
}  # fmt: skip


def begins(expected: list[str], actual: list[str]) -> list[str]:
    """Cut texts down to what is expected of them, so that lists can be compared."""
    return [text[: len(start)] for text, start in zip(actual, expected)] + actual[len(expected) :]


@STREAMED
@pytest.mark.parametrize(("calls", "expected"), CALLS.values(), ids=CALLS)
def test_calls(line: Line, calls: list[Any], expected: list[str], streamed: bool) -> None:
    """A call that is odd is executed where its meaning is certain, else answered with what is wrong with it."""
    numbered = [{**c, "index": n} if isinstance(c, dict) else c for n, c in enumerate(calls)]
    answer = in_chunks(numbered) if streamed else message(*calls)
    result = line.run(answer, reply.text("Done."), streamed=streamed)

    assert ([*expected, "Done."]) == [*begins(expected, texts_of(result)), result.output]


@STREAMED
def test_function_call_of_old(line: Line, streamed: bool) -> None:
    """A35: a call in the form before `tool_calls` is executed."""
    former = {"name": "need", "arguments": '{"a": 1}'}
    answer = (
        reply.chunks([chunk(function_call=former), chunk(finish_reason="function_call")])
        if streamed
        else message(function_call=former, finish_reason="function_call")
    )
    result = line.run(answer, reply.text("Done."), streamed=streamed)

    assert ["need: 1"] == texts_of(result)


@STREAMED
def test_ids_that_repeat_in_later_turns(line: Line, streamed: bool) -> None:
    """A8: one id in the turns 1, 2 and 5 is three calls, each with its own result."""
    ids = ("x", "x", "y", "z", "x")
    script = [reply.calls(("need", {"a": turn}, provider_call_id)) for turn, provider_call_id in enumerate(ids)]
    result = line.run(*script, reply.text("Done."), streamed=streamed)

    assert [f"need: {turn}" for turn in range(5)] == texts_of(result)


@STREAMED
def test_bad_arguments_do_not_poison_the_session(line: Line, streamed: bool) -> None:
    """A23: a server that refuses arguments which are not JSON is never sent any, for 20 turns."""
    script = [reply.calls(("need", text)) for text in ("{'a': 1}", "[1]", '{"a": NaN}', "null") * 5]
    result = line.run(*script, reply.text("Done."), streamed=streamed, max_turns=25)

    assert ("Done.", 20) == (result.output, len(texts_of(result)))


def test_the_raw_text_stays_visible(line: Line) -> None:
    """A23: what the model wrote stays on the call, though a repaired form is sent back."""
    result = line.run(message(piece("{'a': 1}", "need", id="a")), reply.text("Done."), streamed=False)

    assert ["{'a': 1}"] == [finished.arguments for finished in result.calls]


THREE = [('{"a": 1}', "need", "a"), ('{"text": "two"}', "say", "b"), ('{"items": [1, 2]}', "take", "c")]


def cut_after(size: int, reason: str) -> list[dict[str, Any]]:
    """Three calls whose arguments break off after so many characters, and a finish reason all the same."""
    pieces = []
    for index, (text, name, provider_call_id) in enumerate(THREE):
        pieces += [piece("", name, id=provider_call_id, index=index)] if size >= 0 else []
        pieces += [piece(text[:size], index=index)] if size > 0 else []
        size -= len(text)
    return [*map(chunk, pieces), chunk(finish_reason=reason)]


WHOLE_LENGTH = sum(len(text) for text, _, _ in THREE)
# Where arguments end between two calls, nothing distinguishes a truncated response from a whole one.
INSIDE = [n for n in range(1, WHOLE_LENGTH) if n not in (8, 8 + 15)]


@pytest.mark.parametrize("size", range(0, WHOLE_LENGTH + 1, 5))
def test_cut_by_length(line: Line, size: int) -> None:
    """A24: no call of a response that ended in `length` runs, wherever it was cut; each result says so."""
    result = line.run(reply.chunks(cut_after(size, "length")), reply.text("Done."), streamed=True)

    assert ({CUT_TEXT}, []) == ({text.partition(": ")[2] for text in texts_of(result)}, line.entered)


@pytest.mark.parametrize("reason", ["tool_calls", "stop", "end_turn"])
@pytest.mark.parametrize("size", INSIDE[::6])
def test_cut_under_another_label(line: Line, size: int, reason: str) -> None:
    """A25: arguments that break off mean a cut response, whatever the finish reason; none of its calls runs."""
    result = line.run(reply.chunks(cut_after(size, reason)), reply.text("Done."), streamed=True)

    assert ({CUT_TEXT}, []) == ({text.partition(": ")[2] for text in texts_of(result)}, line.entered)


# Where arguments break off, and something is wrong with them before that.
CUT_AND_BROKEN = {
    "raw newline": '{"text": "a\nb',
    "raw tab": '{"text": "a\tb',
    "bad escape": '{"text": "a\\x',
    "single quotes": "{'text': 'a",
    "word": '{"text": Tru',
    "number": '{"text": .5, "q":"',
    "fence": '```json\n{"text": "a',
}


@STREAMED
@pytest.mark.parametrize("text", CUT_AND_BROKEN.values(), ids=[f"A25 {name}" for name in CUT_AND_BROKEN])
def test_cut_and_broken(line: Line, text: str, streamed: bool) -> None:
    """A25: arguments that break off mean a cut response, whatever is wrong with them before; none of its calls runs."""
    result = line.run(reply.calls(("ping", {}), ("say", text)), reply.text("Done."), streamed=streamed)

    assert ([f"ping: {CUT_TEXT}", f"say: {CUT_TEXT}"], []) == (texts_of(result), line.entered)


class InProcess:
    """A client that answers with chunks of plain data."""

    def __init__(self, chunks: list[Any]) -> None:
        self.chunks = chunks
        self.chat = self.completions = self

    def create(self, **_: Any) -> Any:
        return iter(self.chunks)


def entered_after(line: Line, chunks: list[dict[str, Any]]) -> list[str]:
    """The tools that run after this answer."""
    line.entered.clear()
    limits = Limits(max_turns=1, on_limit="stop")
    through(Runner(line.tools, model=OpenAIModel(InProcess(chunks), "fake"), limits=limits))
    return line.entered


@pytest.mark.parametrize(
    ("reason", "sizes"),
    [("length", range(WHOLE_LENGTH + 1)), *((reason, INSIDE) for reason in ("tool_calls", "stop", "end_turn"))],
    ids=["A24 length", "A25 tool_calls", "A25 stop", "A25 end_turn"],
)
def test_cut_at_every_byte(line: Line, reason: str, sizes: Sequence[int]) -> None:
    """Wherever three calls are cut, none of them runs."""
    assert [] == [size for size in sizes if entered_after(line, cut_after(size, reason))]


@pytest.mark.parametrize("later", ["tool_calls", "stop"])
def test_finish_reason_after_a_cut(line: Line, later: str) -> None:
    """A25: a router's own finish reason after `length` does not make the answer whole."""
    cut = [*cut_after(WHOLE_LENGTH, "length"), chunk(finish_reason=later)]
    result = line.run(reply.chunks(cut), reply.text("Done."), streamed=True)

    assert ({CUT_TEXT}, []) == ({text.partition(": ")[2] for text in texts_of(result)}, line.entered)


def test_not_cut(line: Line) -> None:
    """The same three calls, whole, run."""
    assert ["need", "say", "take"] == sorted(entered_after(line, cut_after(WHOLE_LENGTH, "tool_calls")))


@STREAMED
@pytest.mark.parametrize(
    "reason", ["length", "content_filter", "max_tokens", "MAX_TOKENS", "sensitive", "model_length"]
)
def test_cut_whole_answer(line: Line, reason: str, streamed: bool) -> None:
    """A24: an answer of whole calls is cut as well where its finish reason says so, in any provider's words."""
    answer = reply.calls(("need", {"a": 1}), ("ping", {}), finish_reason=reason)
    result = line.run(answer, reply.text("Done."), streamed=streamed)

    assert [f"need: {CUT_TEXT}", f"ping: {CUT_TEXT}"] == texts_of(result)


@STREAMED
@pytest.mark.parametrize(
    "reason", ["error", "NETWORK_ERROR", "overloaded_error", "insufficient_system_resource", "abort"]
)
def test_answer_that_ends_in_an_error(line: Line, reason: str, streamed: bool) -> None:
    """A26: a finish reason that says that the server failed is an error, and no call of the answer runs."""
    with pytest.raises(ModelError, match=rf"The server broke off its answer: {reason}"):
        line.run(reply.calls(("ping", {}), finish_reason=reason), streamed=streamed)

    assert [] == line.entered


def test_error_of_a_choice(line: Line) -> None:
    """A26: the error beside such a finish reason is told."""
    failed = {"choices": [{"delta": {}, "finish_reason": "error", "error": {"code": 502, "message": "no memory"}}]}
    with pytest.raises(ModelError, match="no memory"):
        line.run(reply.chunks([chunk(content="Hi"), failed]), streamed=True)


@STREAMED
@pytest.mark.parametrize(
    "reason", ["stop", "end_turn", "other", "function_call", "STOP", "tool_use", "eos", "tool_calls"]
)
def test_finish_reason_beside_calls(line: Line, reason: str, streamed: bool) -> None:
    """A26: whole calls are executed, whatever the finish reason."""
    result = line.run(reply.calls(("ping", {}), finish_reason=reason), reply.text("Done."), streamed=streamed)

    assert ["ping: pong"] == texts_of(result)


def test_null_finish_reason_beside_calls(line: Line) -> None:
    """A26: an answer that came whole needs no finish reason."""
    result = line.run(reply.calls(("ping", {}), finish_reason=None), reply.text("Done."), streamed=False)

    assert ["ping: pong"] == texts_of(result)


@STREAMED
def test_announced_calls_that_do_not_come(line: Line, streamed: bool) -> None:
    """A27: `tool_calls` without any call is an empty answer: requested once more, then the end."""
    nothing = [reply.text("", finish_reason="tool_calls")] * 2
    result = line.run(*nothing, streamed=streamed)

    assert ("", "empty", 2) == (result.output, result.finish_reason, result.usage.requests)


@STREAMED
def test_announced_calls_beside_text(line: Line, streamed: bool) -> None:
    """A27: text under the label `tool_calls` is the answer."""
    result = line.run(reply.text("Hi.", finish_reason="tool_calls"), streamed=streamed)

    assert ("Hi.", "stop") == (result.output, result.finish_reason)


@STREAMED
@pytest.mark.parametrize("content", [None, "", [], " ", [{"type": "text", "text": ""}]], ids=str)
def test_empty_answer(line: Line, content: Any, streamed: bool) -> None:
    """A28: an empty answer is requested once more, and the next one counts."""
    empty = (
        reply.chunks([chunk(content=content), chunk(finish_reason="stop")])
        if streamed
        else message(content=content, finish_reason="stop")
    )
    result = line.run(empty, reply.text("Hi."), streamed=streamed)

    assert ("Hi.", "stop", 2) == (result.output, result.finish_reason, result.usage.requests)


CAME_TWICE: dict[str, list[list[Any]]] = {
    "a chunk with the whole call": [[piece('{"a": 1}', "need", id="a", index=0)]] * 2,
    "a chunk with the start of the call": [
        *[[piece('{"a"', "need", id="a", index=0)]] * 2,
        [piece(": 1}", index=0)],
    ],
    "a chunk with all arguments": [
        [piece("", "need", id="a", index=0)],
        *[[piece('{"a": 1}', index=0)]] * 2,
    ],
    "an object in one text": [[piece('{"a": 1}{"a": 1}', "need", id="a", index=0)]],
    "an object in one text, written otherwise": [[piece('{"a":1}\n{"a": 1}', "need", id="a", index=0)]],
    "a chunk with the whole call, no id": [[piece('{"a": 1}', "need", index=0)]] * 2,
    "a chunk with the whole call, no id, no index": [[piece('{"a": 1}', "need")]] * 2,
    "a chunk with the start of the call, no id": [*[[piece('{"a"', "need", index=0)]] * 2, [piece(": 1}", index=0)]],
    "a call, at another index": [[piece('{"a": 1}', "need", id="a", index=n)] for n in range(2)],
    "an index as number and as text": [[piece('{"a"', "need", id="a", index=0)], [piece(": 1}", index="0")]],
}


@pytest.mark.parametrize("deltas", CAME_TWICE.values(), ids=CAME_TWICE)
def test_call_that_comes_twice_runs_once(line: Line, deltas: list[list[Any]]) -> None:
    """A chunk, or an object in the arguments, that comes twice is one call."""
    assert ["need: 1"] == texts_of(line.run(in_chunks(*deltas), reply.text("Done."), streamed=True))


def test_one_text_that_comes_twice_runs_once(line: Line) -> None:
    """The same in a whole answer; different objects are different calls."""
    answer = message(piece('{"a": 1}{"a":1}{"a": 2}', "need", id="a"))

    assert ["need: 1", "need: 2"] == texts_of(line.run(answer, reply.text("Done."), streamed=False))


def test_whole_call_that_comes_twice_runs_once(line: Line) -> None:
    """Two calls of a whole answer with one id, one name and equal arguments are one; without an id they are two."""
    twice = [piece(text, "need", id="a") for text in ('{"a": 1}', '{"a":1}')]
    others = [piece('{"a": 2}', "need")] * 2
    result = line.run(message(*twice, *others), reply.text("Done."), streamed=False)

    assert ["need: 1", "need: 2", "need: 2"] == texts_of(result)


def test_arguments_that_contain_themselves(line: Line) -> None:
    """A fragment that equals the one before it is not a repetition: objects may lie in each other."""
    deltas = [[piece("", "say", id="a", index=0)], *([piece(text, index=0)] for text in ('{"a":', '{"a":', "1}}"))]
    result = line.run(in_chunks(*deltas), reply.text("Done."), streamed=True)

    assert ['{"a":{"a":1}}'] == [call.arguments for call in result.calls]


def test_new_id_in_each_fragment_after_empty_arguments(line: Line) -> None:
    """The same where the first fragment has only the name."""
    texts = ["", '{"te', 'xt": "x', '"}']
    deltas = [[piece(text, None if n else "say", id=f"id{n}", index=0)] for n, text in enumerate(texts)]

    assert ["say: <x>"] == texts_of(line.run(in_chunks(*deltas), reply.text("Done."), streamed=True))


@pytest.mark.parametrize("name", [None, "say"], ids=["no name", "its name"])
def test_new_id_in_each_fragment(line: Line, name: str | None) -> None:
    """Fragments of one index with an id of their own each are one call."""
    texts = ['{"te', 'xt": "x', '"}']
    deltas = [[piece(text, name if n else "say", id=f"id{n}", index=0)] for n, text in enumerate(texts)]

    assert ["say: <x>"] == texts_of(line.run(in_chunks(*deltas), reply.text("Done."), streamed=True))


WRONG_TYPES: dict[str, Any] = {
    "a number": 5,
    "a text": "0",
    "a list": [],
    "choices": {"choices": 5},
    "choices that are an object": {"choices": {}},
    "a choice": {"choices": [5]},
    "a choice's index": {"choices": [{"index": True, "delta": {}}]},
    "delta": {"choices": [{"index": 0, "delta": 5}]},
    "content": chunk(content=5),
    "a part of the content": chunk(content=["x"]),
    "tool_calls": {"choices": [{"index": 0, "delta": {"tool_calls": 5}}]},
    "a call": chunk(5),
    "function": chunk({"index": 0, "function": 5}),
    "function that is false": chunk({"index": 0, "function": False}),
    "function_call": chunk(function_call="need"),
    "index": chunk(piece("", index=[0])),
    "index that is not a number": chunk(piece("", index="x")),
    "id": chunk(piece("", index=0, id=["x"])),
    "name": chunk(piece("", 5, index=0)),
    "arguments": chunk(piece(0, index=0)),
    "arguments that are false": chunk(piece(False, index=0)),
    "finish reason": {"choices": [{"index": 0, "delta": {}, "finish_reason": 5}]},
}


@pytest.mark.parametrize("wrong", WRONG_TYPES.values(), ids=WRONG_TYPES)
def test_fragment_of_a_wrong_type(line: Line, wrong: Any) -> None:
    """A fragment that cannot be read is not passed over: the rest of the call would run with other values."""
    start, rest = chunk(piece('{"a": 1', "need", id="a", index=0)), chunk(piece("2}", index=0))
    chunks = [start, wrong, rest, chunk(finish_reason="tool_calls")]
    events = [b"data: " + json.dumps(sent).encode() + b"\n\n" for sent in chunks]
    answer = reply.raw(b"".join(events), content_type="text/event-stream")
    with pytest.raises(ModelError, match=r"malformed: .* Its calls are discarded\."):
        line.run(answer, streamed=True)

    assert [] == line.entered


GOOD_CALL = piece('{"a": 1}', "need", id="a")
WRONG_MEMBERS: dict[str, dict[str, Any]] = {
    "content": {"content": 5},
    "content that is an object": {"content": {}},
    "refusal": {"refusal": 5},
    "calls": {"tool_calls": 5},
    "a call": {"tool_calls": [GOOD_CALL, 5]},
    "an id": {"tool_calls": [{**GOOD_CALL, "id": ["x"]}]},
    "audio": {"audio": 5},
}


@pytest.mark.parametrize("wrong", WRONG_MEMBERS.values(), ids=WRONG_MEMBERS)
def test_whole_message_of_a_wrong_type(line: Line, wrong: dict[str, Any]) -> None:
    """A whole answer is refused for one member of a wrong type."""
    with pytest.raises(ModelError, match=r"malformed: .* Its calls are discarded\."):
        line.run(message(**{"tool_calls": [GOOD_CALL], **wrong}), streamed=False)

    assert [] == line.entered


@pytest.mark.parametrize(
    "choices", [5, {}, [5], [{"message": 5}], [{"message": None}], [{}], [{"message": {}, "finish_reason": 5}]], ids=str
)
def test_whole_choice_of_a_wrong_type(line: Line, choices: Any) -> None:
    """So it is for a choice, or one without a message."""
    with pytest.raises(ModelError, match="malformed"):
        line.run(reply.body({"choices": choices}), streamed=False)


@pytest.mark.parametrize("arguments", [0, False, 1.5])
def test_whole_call_with_arguments_of_a_wrong_type(line: Line, arguments: Any) -> None:
    """The same in a whole answer."""
    with pytest.raises(ModelError, match="malformed"):
        line.run(message(piece(arguments, "need", id="a")), streamed=False)


NO_CHOICE = {"empty": {"choices": []}, "null": {"choices": None}, "missing": {}}


@pytest.mark.parametrize("position", [0, 1, 3], ids=["first", "middle", "last"])
@pytest.mark.parametrize("odd", NO_CHOICE.values(), ids=NO_CHOICE)
def test_chunk_without_choices(line: Line, odd: dict[str, Any], position: int) -> None:
    """A29: a chunk without choices is passed over, wherever it is."""
    chunks = [chunk(content="Hel"), chunk(content="lo"), chunk(finish_reason="stop")]
    chunks.insert(position, odd)

    assert "Hello" == line.run(reply.chunks(chunks), streamed=True).output


@pytest.mark.parametrize("odd", NO_CHOICE.values(), ids=NO_CHOICE)
def test_answer_without_choices(line: Line, odd: dict[str, Any]) -> None:
    """A29: a whole answer without choices is an error that shows what came."""
    with pytest.raises(ModelError, match=r"The server's answer is not a chat completion; check base_url: .*choices"):
        line.run(reply.body({"id": "x", "choices": None, **odd}), streamed=False)


def test_error_in_the_place_of_an_answer(line: Line) -> None:
    """A29: an error that comes with status 200, as by OpenRouter, is told, without advice about the address."""
    body = {"error": {"message": "overloaded", "code": 502}}
    with pytest.raises(ModelError, match=r"^The model's server reports an error: {.message.: .overloaded."):
        line.run(reply.body(body), streamed=False)


def test_null_delta(line: Line) -> None:
    """A30: a chunk whose delta is null is passed over."""
    odd: dict[str, Any] = {"choices": [{"index": 0, "delta": None, "finish_reason": None}]}
    chunks = [odd, chunk(content="Hi."), odd, chunk(finish_reason="stop")]

    assert "Hi." == line.run(reply.chunks(chunks), streamed=True).output


@STREAMED
def test_content_in_parts(line: Line, streamed: bool) -> None:
    """A30: content as a list of parts is read as its texts."""
    parts = [{"type": "text", "text": "Hel"}, {"type": "image"}, {"type": "text", "text": "lo"}, None]
    answer = (
        reply.chunks([chunk(content=parts), chunk(finish_reason="stop")])
        if streamed
        else message(content=parts, finish_reason="stop")
    )

    assert "Hello" == line.run(answer, streamed=streamed).output


@STREAMED
def test_answer_in_audio(line: Line, streamed: bool) -> None:
    """A30: an answer that is said aloud is its transcript, which goes back as text."""
    pieces: list[Any] = [{"id": "audio_1"}, {"transcript": "Good "}, {"data": "AAAA"}, {"transcript": "day."}]
    answer = (
        reply.chunks([*(chunk(audio=piece) for piece in pieces), chunk(finish_reason="stop")])
        if streamed
        else message(
            content=None, audio={"id": "audio_1", "data": "AAAA", "transcript": "Good day."}, finish_reason="stop"
        )
    )

    assert "Good day." == line.run(answer, streamed=streamed).output


BODIES: dict[str, bytes] = {
    "error body": b'{"error": {"message": "no memory", "code": 500}}',
    "html": b"<html><body>Bad gateway</body></html>",
    "null": b"null",
    "list": b"[]",
    "text": b'"x"',
    "number": b"5",
    "empty": b"",
    "half": b'{"choices": [{"mess',
    "not UTF-8": b"\xff\xfe{}",
    "choices of numbers": b'{"choices": 5}',
}


LEAKED = {
    "tags": '<tool_call>\n{"name": "ping", "arguments": {}}\n</tool_call>',
    "JSON": '{"name": "ping", "arguments": {}}',
    "JSON in a fence": '```json\n{"name": "ping", "arguments": {}}\n```',
    "list of JSON": '[{"name": "ping", "arguments": {}}]',
    "the wire's own": '{"tool_calls": [{"id": "a", "function": {"name": "ping", "arguments": "{}"}}]}',
    "schema-first": '{"calls": [{"_tool": "ping"}], "output": null}',
    "Python": "[ping()]",
    "Mistral": '[TOOL_CALLS][{"name": "ping", "arguments": {}}]',
    "Llama": "<|python_tag|>ping()",
    "function tag": "<function=ping>{}</function>",
    "XML": '<function_calls><invoke name="ping"></invoke></function_calls>',
    "DeepSeek": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>ping\n```json\n{}\n```",
    "Harmony": "<|channel|>commentary to=functions.ping<|message|>{}<|call|>",
}


@STREAMED
@pytest.mark.parametrize("reason", ["stop", "tool_calls"])
@pytest.mark.parametrize("text", LEAKED.values(), ids=LEAKED)
def test_call_in_the_text(line: Line, text: str, reason: str, streamed: bool) -> None:
    """A33: what looks like a call in a text is text: shown, never executed."""
    result = line.run(reply.text(text, finish_reason=reason), streamed=streamed)

    assert (text, []) == (result.output, line.entered)


@STREAMED
def test_call_without_an_offer(line: Line, streamed: bool) -> None:
    """A34: a call in the last turn, which offers no tools, is not executed, and the text beside it is the answer."""
    script = [reply.calls(("ping", {})), reply.calls(("ping", {}), text="Done.")]
    result = line.run(*script, streamed=streamed, max_turns=1)

    refusal = "ping: Not run: no tool can be called in the last turn."
    assert (["ping: pong", refusal], "Done.") == (texts_of(result), result.output)
    assert ["ping"] == line.entered


@STREAMED
@pytest.mark.parametrize(
    ("options", "offered"),
    [({"tool_choice": "none"}, "none"), ({"allowed_tools": ["need", "say"]}, "need, say")],
    ids=["tool_choice", "allowed_tools"],
)
def test_call_of_what_may_not_be_called(line: Line, options: dict[str, Any], offered: str, streamed: bool) -> None:
    """A34: a call of a tool that may not be called now is not executed; the model reads what it may call."""
    result = line.run(reply.calls(("ping", {})), reply.text("Done."), streamed=streamed, **options)
    refusal = f"ping: Tool not found: ping may not be called now. Available: {offered}"

    assert ([refusal], []) == (texts_of(result), line.entered)


MANY = Limits().max_calls_per_turn


@pytest.mark.parametrize(("count", "streamed"), [(500, True), (MANY, False), (MANY + 1, True), (5_000, False)])
def test_many_calls(line: Line, count: int, streamed: bool) -> None:
    """A36: of very many calls as many run as one answer may have; the results of the others say why they did not."""
    result = line.run(reply.calls(*[("ping", {})] * count), reply.text("Done."), streamed=streamed)
    most = min(count, MANY)
    over = f"ping: Not run: one answer may hold {MANY} calls. Send this one again later, if it is needed."

    assert (["ping: pong"] * most + [over] * (count - most), most) == (texts_of(result), len(line.entered))


@STREAMED
def test_more_calls_than_an_answer_can_have(line: Line, streamed: bool) -> None:
    """A36: an answer with tens of thousands of calls is not an answer."""
    calls = [piece("", "ping", index=number) for number in range(10_001)]
    with pytest.raises(ModelError, match=r"more than 10,000 calls\. Its calls are discarded"):
        line.run(in_chunks(calls) if streamed else message(*calls), streamed=streamed)

    assert [] == line.entered


@STREAMED
def test_more_objects_than_an_answer_can_have(line: Line, streamed: bool) -> None:
    """A36: tens of thousands of objects in the arguments of one call are not arguments."""
    answer = reply.calls(("need", "{}" * 20_000), split=1_000)
    result = line.run(answer, reply.text("Done."), streamed=streamed)

    assert [f"need: Invalid arguments: {BROKEN}"] == [
        text[: len(f"need: Invalid arguments: {BROKEN}")] for text in texts_of(result)
    ]


@STREAMED
def test_long_arguments(line: Line, streamed: bool) -> None:
    """A36: ten megabytes of arguments arrive whole, in pieces as well."""
    text = "x" * 10_000_000
    result = line.run(reply.calls(("say", {"text": text}), split=100_000), reply.text("Done."), streamed=streamed)

    assert (["say"], 1) == (line.entered, len(texts_of(result)))


def test_the_same_call_for_ever(line: Line) -> None:
    """A37: a model that repeats one call for ever is stopped by the turns, with an outcome that says so."""
    script = [reply.calls(("ping", {}))] * 12 + [reply.text("I give up.")]
    result = line.run(*script, streamed=False, max_turns=12)

    assert ("I give up.", "max_turns", 12) == (result.output, result.finish_reason, len(line.entered))


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["in order", "the other first"])
def test_choices_that_take_turns(line: Line, order: tuple[int, int]) -> None:
    """F15: of several choices only the first one is read, though their chunks take turns."""

    def part(index: int, finish_reason: str | None = None, **delta: Any) -> dict[str, Any]:
        return {"choices": [{"index": index, "delta": delta, "finish_reason": finish_reason}]}

    call = piece("{}", "ping", id="a", index=0)
    parts: dict[int, list[Any]] = {
        0: [part(0, content="Hel"), part(0, content="lo"), part(0, "stop")],
        1: [part(1, content="Wor"), part(1, tool_calls=[call]), part(1, "length")],
    }
    chunks = [parts[index][number] for number in range(3) for index in order]

    assert ("Hello", "stop") == (
        (result := line.run(reply.chunks(chunks), streamed=True)).output, result.finish_reason
    )  # fmt: skip
    assert [] == line.entered


@pytest.mark.parametrize("content_type", ["application/json", "text/html"])
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_no_completion(line: Line, body: bytes, content_type: str) -> None:
    """A31: whatever comes with status 200 and is not a completion is one kind of error."""
    with pytest.raises(ModelError, match="is not a chat completion|reports an error|cannot be read|malformed"):
        line.run(reply.raw(body, content_type=content_type), streamed=False)


@pytest.mark.parametrize("max_seconds", [None, 60])
@pytest.mark.parametrize("content_type", ["application/json", "text/html", "application/octet-stream"])
def test_completion_of_another_media_type(line: Line, content_type: str, max_seconds: float | None) -> None:
    """A31: a completion is read whatever media type its server names, in a run of limited time too."""
    body = json.dumps({"choices": [{"message": {"content": "Hello"}, "finish_reason": "stop"}]}).encode()
    limits = Limits(max_seconds=max_seconds)

    assert "Hello" == line.run(reply.raw(body, content_type=content_type), streamed=False, limits=limits).output


@pytest.mark.parametrize("content_type", ["application/json", "text/event-stream"])
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_no_stream(line: Line, body: bytes, content_type: str) -> None:
    """A31: the same in place of a stream is an error too, which says so where no event came."""
    with pytest.raises(ModelError, match="The server sent no stream|cannot be read|reports an error|malformed"):
        line.run(reply.raw(body, content_type=content_type), streamed=True)


def test_error_in_place_of_a_stream(line: Line) -> None:
    """A31: an error with status 200 is shown, also where a stream was asked for."""
    with pytest.raises(ModelError, match=r"sent no stream.*It sent: .*the quota is used up"):
        line.run(reply.body({"error": {"message": "the quota is used up"}}), streamed=True)


def test_server_that_does_not_stream(line: Line) -> None:
    """A31: a whole answer in place of a stream is an error that says what to do, and its calls do not run."""
    message = {"tool_calls": [{"id": "a", "function": {"name": "ping", "arguments": "{}"}}]}

    with pytest.raises(ModelError, match=r"it does not stream; check base_url, or use run\(\)"):
        line.run(reply.body({"choices": [{"message": message, "finish_reason": "tool_calls"}]}), streamed=True)

    assert [] == line.entered


@pytest.mark.parametrize(
    "error", [{"message": "no memory"}, "no memory", ["no memory"]], ids=["object", "text", "list"]
)
def test_error_within_a_stream(line: Line, error: Any) -> None:
    """A32: an error in the middle of a stream is the run's, with the server's text; no call before it runs."""
    chunks = [chunk(piece("{}", "ping", id="a", index=0)), {"error": error}, chunk(finish_reason="tool_calls")]

    with pytest.raises(ModelError, match="no memory"):
        line.run(reply.chunks(chunks), streamed=True)


@pytest.mark.parametrize("error", [{"message": "no memory"}, {"type": "error", "message": "no memory"}], ids=str)
def test_reason_at_the_end_of_a_stream(line: Line, error: dict[str, str]) -> None:
    """A32: if a stream breaks off, the error has what was sent last, unless it was a piece of the answer."""
    for last, is_told in ((error, True), (chunk(content="no memory"), False)):
        with pytest.raises(ModelError, match="broke off, without a finish reason") as caught:
            line.run(reply.chunks([chunk(content="Hi"), last]), streamed=True)

        assert is_told == ("no memory" in str(caught.value))


def test_event_that_is_no_json(line: Line) -> None:
    """A32: the error about an event that is no JSON has its text, which may be the server's reason."""
    with pytest.raises(ModelError, match=r"cannot be read.*no memory"):
        line.run(reply.raw(b"event: error\ndata: no memory\n\n", content_type="text/event-stream"), streamed=True)


# -- A38: the wire of a stream

HI = [chunk(content="Grüß "), chunk(content="dich \U0001f600"), chunk(finish_reason="stop")]
SSE = b"".join(b"data: " + json.dumps({"id": "x", **c}, ensure_ascii=False).encode() + b"\n\n" for c in HI)
SPELLINGS: dict[str, bytes] = {
    "comments": b": hello\n\n" + SSE.replace(b"\n\n", b"\n\n: ping\n\n") + b"data: [DONE]\n\n",
    "CRLF": SSE.replace(b"\n", b"\r\n") + b"data: [DONE]\r\n\r\n",
    "CR": SSE.replace(b"\n", b"\r") + b"data: [DONE]\r\r",
    "CR, no [DONE]": SSE.replace(b"\n", b"\r"),
    "no space": SSE.replace(b"data: ", b"data:") + b"data:[DONE]\n\n",
    "event names and ids": SSE.replace(b"data: ", b"event: message\nid: 1\ndata: ") + b"data: [DONE]\n\n",
    "no [DONE]": SSE,
    "keep-alive after an id": SSE.replace(b"data: ", b"id: 1\ndata: ").replace(b"\n\n", b"\n\n: ping\n\n"),
    "keep-alive after a retry": b"retry: 100\n\n: ping\n\n" + SSE,
    "events without data": SSE.replace(b"\n\n", b"\n\nevent: ping\n\n") + b"data: [DONE]\n\n",
    "empty data": SSE.replace(b"\n\n", b"\n\ndata:\n\ndata: \n\n"),
    "byte order mark": b"\xef\xbb\xbf" + SSE,
}


@pytest.mark.parametrize("content", SPELLINGS.values(), ids=SPELLINGS)
def test_spellings_of_a_stream(line: Line, content: bytes) -> None:
    """A38: every spelling that server-sent events allow is read."""
    answer = reply.raw(content, content_type="text/event-stream")

    assert "Grüß dich \U0001f600" == line.run(answer, streamed=True).output


@pytest.mark.parametrize("content", SPELLINGS.values(), ids=SPELLINGS)
def test_spellings_of_a_stream_in_a_loop(line: Line, content: bytes) -> None:
    """A38: the same holds in an event loop."""

    async def main() -> str:
        async with openai.AsyncOpenAI(api_key="test", base_url=line.server.base_url, max_retries=0) as client:
            async with Runner(model="fake", client=client).astream("Go on.") as events:
                async for _ in events:
                    pass
            return events.result.output

    line.script.append(reply.raw(content, content_type="text/event-stream"))

    assert "Grüß dich \U0001f600" == asyncio.run(main())


def test_byte_order_mark_under_a_wrapper(line: Line) -> None:
    """A38: the mark is left out as well if the package reads the stream, for a wrapper of `create`."""
    with openai.OpenAI(api_key="test", base_url=line.server.base_url, max_retries=0) as client:
        client.chat.completions.create = partial(client.chat.completions.create)  # type: ignore[assignment]
        line.script.append(reply.raw(SPELLINGS["byte order mark"], content_type="text/event-stream"))
        with Runner(model="fake", client=client).stream("Go on.") as events:
            list(events)

    assert "Grüß dich \U0001f600" == events.result.output


def test_byte_order_mark_of_a_whole_answer(line: Line) -> None:
    """A38: a byte order mark in front of a whole answer is left out as well."""
    body = b"\xef\xbb\xbf" + json.dumps({"choices": [{"message": {"content": "Hi."}}]}).encode()

    assert "Hi." == line.run(reply.raw(body), streamed=False).output


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_stream_in_slices(line: Line, size: int) -> None:
    """A38: characters and events that come apart on the wire are put together."""
    content = b"\xef\xbb\xbf" + SPELLINGS["keep-alive after an id"]
    slices = [content[at : at + size] for at in range(0, len(content), size)]
    answer = reply.raw(slices, content_type="text/event-stream")

    assert "Grüß dich \U0001f600" == line.run(answer, streamed=True).output


UNREADABLE = {
    "not UTF-8": SSE.replace("ü".encode(), b"\xfc"),
    "not JSON": SSE.replace(b"}\n", b"\n"),
}


@pytest.mark.parametrize("content", UNREADABLE.values(), ids=UNREADABLE)
def test_stream_that_cannot_be_read(line: Line, content: bytes) -> None:
    """A38: what cannot be read is a ModelError or read past, nothing else."""
    try:
        output = line.run(reply.raw(content, content_type="text/event-stream"), streamed=True).output
    except ModelError as error:
        output = str(error)

    assert "cannot be read" in output or output.endswith("dich \U0001f600")


@STREAMED
def test_halves_of_a_character(line: Line, streamed: bool) -> None:
    """Halves of a character are joined where they came apart, and replaced where they are alone."""
    texts = ["smile \ud83d", "\ude00 and \ud83d", " alone"]
    answer = (
        reply.chunks([*(chunk(content=t) for t in texts), chunk(finish_reason="stop")])
        if streamed
        else message(content="".join(texts), finish_reason="stop")
    )

    assert "smile \U0001f600 and � alone" == line.run(answer, streamed=streamed).output


@STREAMED
def test_halves_of_a_character_are_not_sent_back(line: Line, streamed: bool) -> None:
    """Text, name, id and arguments with half a character leave a history that can be sent."""
    call = piece('{"text": "\ud83d"}', "sa\ud83d", id="i\ud83d", index=0)
    answer = (
        reply.chunks([chunk(call, content="\ud83d"), chunk(finish_reason="tool_calls")])
        if streamed
        else message(call, content="\ud83d")
    )

    assert "Done." == line.run(answer, reply.text("Done."), streamed=streamed).output


# -- F: faults of the network

GOOD = reply.calls(("ping", {}), ("need", {"a": 1}))
FAULTS: dict[str, Reply] = {
    "F5 closed before the answer": GOOD.cut(None),
    "F5 reset before the answer": GOOD.reset(None),
    **{f"F6 closed after {size} bytes": GOOD.cut(size) for size in (0, 1, 100, 300)},
    **{f"F6 reset after {size} bytes": GOOD.reset(size) for size in (1, 300)},
    "F5 garbage for HTTP": reply.verbatim(b"\x16\x03\x01 hello"),
    "F16 status 418": reply.error(418, "teapot"),
}


@STREAMED
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_fault_of_the_network(line: Line, fault: Reply, streamed: bool) -> None:
    """Every fault of the network is a ModelError, and no call of that answer has run."""
    with pytest.raises(ModelError, match="cannot be reached|broke|cannot be read|reports an error"):
        line.run(fault, streamed=streamed)

    assert [] == line.entered


GOOD_CHUNKS = [
    chunk(piece("", "ping", id="a", index=0)),
    chunk(piece("{}", index=0)),
    chunk(piece('{"a": 1}', "need", id="b", index=1)),
]


@pytest.mark.parametrize("done", [False, True], ids=["silent", "DONE"])
@pytest.mark.parametrize("count", range(1, 4))
def test_stream_ends_without_a_finish_reason(line: Line, count: int, done: bool) -> None:
    """F7: a stream that ends without a finish reason has no calls that run, wherever it ends."""
    with pytest.raises(ModelError, match=r"without a finish reason\. Its calls are discarded\. \(.+ at http"):
        line.run(reply.chunks(GOOD_CHUNKS[:count], done=done), streamed=True)

    assert [] == line.entered


def test_socket_stays_open_after_the_end(line: Line) -> None:
    """F8: `[DONE]` is the end, though the server keeps the connection open."""
    assert "Hi." == line.run(reply.text("Hi.").held(), streamed=True).output


# -- calls that are whole before the answer is


@tool
def need(a: int, b: int = 0) -> int:
    """Need a number."""
    return a


@tool
def say(text: str) -> str:
    """Say a text."""
    return text


def pieces_of(chunks: list[Any], **request: Any) -> list[Piece]:
    """What a model gives for these chunks, as it gives it."""
    asked = ModelRequest(**{"messages": (), "tools": (need._spec, say._spec), "early": True, **request})
    answers = OpenAIModel(InProcess([*chunks, chunk(finish_reason="tool_calls")]), "fake").stream(asked)

    async def all_of_them() -> list[Piece]:
        return [piece async for piece in answers]

    return asyncio.run(all_of_them())


def called(name: str, arguments: str, provider_call_id: str = "", wire: str = "") -> ToolCall:
    return ToolCall(name=name, arguments=arguments, provider_call_id=provider_call_id, wire_arguments=wire)


N1, N2 = called("need", '{"a": 1}', "a"), called("say", '{"text": "x"}', "b")
EARLY: dict[str, tuple[list[list[Any]], list[list[tuple[ToolCall, int]]]]] = {
    "when the object closes": (
        [[piece("", "need", id="a", index=0)], *([piece(text, index=0)] for text in ('{"a": ', "1}", ""))],
        [[], [], [(N1, 0)], []],
    ),
    "whole at once": (
        [[piece('{"a": 1}', "need", id="a", index=0)], [piece('{"text": "x"}', "say", id="b", index=1)]],
        [[(N1, 0)], [(N2, 1)]],
    ),
    "two in one delta": (
        [[piece('{"a": 1}', "need", id="a", index=0), piece('{"text": "x"}', "say", id="b", index=1)]],
        [[(N1, 0), (N2, 1)]],
    ),
    "the second one first": (
        [
            [piece('{"a": ', "need", id="a", index=0)],
            [piece('{"text": "x"}', "say", id="b", index=1)],
            [piece("1}", index=0)],
        ],
        [[], [(N2, 1)], [(N1, 0)]],
    ),
    "the name comes last": (
        [[piece('{"a": 1}', id="a", index=0)], [piece("", "need", index=0)]],
        [[], [(N1, 0)]],
    ),
    "brackets and quotes in a text": (
        [[piece("", "say", id="a", index=0)], *([piece(text, index=0)] for text in ('{"text": "}\\', '"', '{"', "}"))],
        [[], [], [], [], [(called("say", '{"text": "}\\"{"}', "a"), 0)]],
    ),
    "an object in the arguments": (
        [[piece('{"text": {"a": []}', "say", id="a", index=0)], [piece("}", index=0)]],
        [[], [(called("say", '{"text": {"a": []}}', "a"), 0)]],
    ),
    "decoded already": ([[piece({"a": 1}, "need", id="a", index=0)]], [[(N1, 0)]]),
    "in the tool's own form": (
        [[piece('{"a": 1, "b": null}', "need", id="a", index=0)]],
        [[(called("need", '{"a":1}', "a", '{"a": 1, "b": null}'), 0)]],
    ),
    "no object": ([[piece("[1]", "need", id="a", index=0)]], [[]]),
    "not JSON": ([[piece("{'a': 1}", "need", id="a", index=0)]], [[]]),
    "nothing yet": ([[piece("", "need", id="a", index=0)]], [[]]),
    "no such tool": ([[piece('{"a": 1}', "nod", id="a", index=0)]], [[]]),
}  # fmt: skip


@pytest.mark.parametrize(("deltas", "expected"), EARLY.values(), ids=EARLY)
def test_call_is_ready(deltas: list[list[Any]], expected: list[list[tuple[ToolCall, int]]]) -> None:
    """A call is given with the chunk that makes its arguments whole, once, as it will be in the answer."""
    counts = [len(pieces_of([chunk(*pieces) for pieces in deltas[:n]])) for n in range(len(deltas) + 1)]
    given = pieces_of([chunk(*pieces) for pieces in deltas])
    updates = [given[low - 1 : high - 1] for low, high in zip(counts, counts[1:])]
    actual = [[(p.call, p.position) for p in new if isinstance(p, CallReady)] for new in updates]

    assert expected == actual
    assert all(final(given).calls[position] == call for new in actual for call, position in new)


def final(pieces: list[Piece]) -> ModelResponse:
    assert isinstance(pieces[-1], ModelResponse)
    return pieces[-1]


def test_call_that_was_not_ready_after_all() -> None:
    """What follows a whole object may change the answer's call: it differs from the one that was given."""
    pieces = pieces_of([chunk(piece('{"a": 1}', "need", id="a", index=0)), chunk(piece('{"a": 2}', index=0))])
    ready = [p.call.arguments for p in pieces if isinstance(p, CallReady)]

    assert (['{"a": 1}'], ['{"a": 1}', '{"a": 2}']) == (ready, [c.arguments for c in final(pieces).calls])


def test_ready_calls_on_demand() -> None:
    """Calls are given early only where the request asks for it."""
    pieces = pieces_of([chunk(piece('{"a": 1}', "need", id="a", index=0))], early=False)

    assert [] == [p for p in pieces if isinstance(p, CallReady)]


def test_the_call_that_is_the_answer_is_not_ready() -> None:
    """Where the answer is to be a call, that call is not a tool's, so nobody can begin with it."""
    pieces = pieces_of(
        [chunk(piece('{"text": "x"}', "say", id="a", index=0))],
        tools=(need._spec,),
        output=OutputSpec(spec=say._spec, by_tool=True),
    )

    assert [] == [p for p in pieces if isinstance(p, CallReady)]


def test_arguments_in_pieces() -> None:
    """Arguments are given as they come, with the call they belong to and its name as far as it is known."""
    deltas = [
        [piece("", "need", id="a", index=7)],
        [piece('{"a"', index=7), piece('{"text', "say", id="b", index=9)],
        [piece(": 1}", index=7)],
    ]
    pieces = pieces_of([chunk(*given) for given in deltas], early=False)

    assert [
        ToolArgumentsDelta(index=0, name="need", text='{"a"'),
        ToolArgumentsDelta(index=1, name="say", text='{"text'),
        ToolArgumentsDelta(index=0, name="need", text=": 1}"),
    ] == pieces[:-1]
