"""Calls that refer to the results of others: in one reply, in any order, and from one reply to the next."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from tests.properties import examples
from toolkit import FatalError, Tool, Toolbox, ToolCall, ToolContext, ToolError, ToolResult, schema, tool
from toolkit._dialects.base import DialectName
from toolkit._tools.shared_values import SharedValues

All: TypeAlias = Callable[..., list[ToolResult]]


class Road(BaseModel):
    """Where it leads."""

    to: str
    miles: int


@tool
def join(parts: list[str] | str, end: str = "") -> str:
    """Join texts."""
    return "".join(parts) + end


@tool
async def ajoin(parts: list[str], end: str = "") -> str:
    """Join texts, later."""
    await asyncio.sleep(0)
    return "".join(parts) + end


@tool
def place(name: str, context: ToolContext) -> dict[str, Any]:
    """Find a place."""
    if name == "Atlantis":
        raise ToolError("it sank")
    return {"name": name, "roads": [{"to": "Oslo", "miles": 3}]}


@tool
def walk(miles: int) -> int:
    """Walk."""
    return miles


TOOLS: list[Tool[..., Any]] = [join, ajoin, place, walk]
BOX = Toolbox(TOOLS, references=True)


def call(name: str, /, to: str = "", of: str = "", **arguments: Any) -> ToolCall:
    """Make a call that keeps its result somewhere."""
    return ToolCall(name=name, arguments=json.dumps(arguments), output_path=to, instance=of)


def store_results(**results: Any) -> SharedValues:
    """Make the shared values that earlier calls leave behind, by path."""
    shared = SharedValues()
    for path, value in results.items():
        shared.store_result(path, value)
    return shared


def in_place(calls: Sequence[ToolCall], **options: Any) -> list[ToolResult]:
    """Carry calls out on this thread and others."""
    return BOX.call_many(calls, **options)


def in_a_loop(calls: Sequence[ToolCall], **options: Any) -> list[ToolResult]:
    """Carry calls out in an event loop."""
    return asyncio.run(BOX.acall_many(calls, **options))


WAYS = st.sampled_from([in_place, in_a_loop])
ways = pytest.mark.parametrize("carried_out", [in_place, in_a_loop], ids=["call_many", "acall_many"])


@ways
def test_a_result_as_an_argument(carried_out: All) -> None:
    """An argument that refers to another call's result gets it, whichever comes first; results are in call order."""
    calls = [
        call("walk", miles="†home.roads.0.miles"),
        call("join", parts=["to ", "†home.name"], end="†mark"),
        call("place", to="home", name="Rome"),
    ]

    assert ["3", "to Rome!"] == [result.text for result in carried_out(calls, shared={"mark": "!"})][:2]


@ways
def test_a_chain(carried_out: All) -> None:
    """More calls than may run at once, each of which refers to the one behind it, all have a result."""
    chain = [call("join", to=f"n{number}", parts=[f"†n{number + 1}"], end=".") for number in range(300)]
    calls = [*chain, call("join", to="n300", parts="x")]

    assert "x" + "." * 300 == carried_out(calls)[0].text


def test_state() -> None:
    """`†state.city` is `†city`, and so is an output path that is written like one."""
    calls = [
        call("join", to="†state.city", parts="Rome"),
        call("join", parts="†city"),
        call("join", parts="†state.city"),
    ]

    assert ["Rome"] * 3 == [result.value for result in BOX.call_many(calls)]


def test_a_text_that_begins_with_a_mark() -> None:
    """Two marks stand for a text that begins with one; one inside of a text is a character like any other."""
    calls = [call("join", parts="††note"), call("join", parts="see †note"), call("join", parts=["a", "†††"])]

    assert ["†note", "see †note", "a††"] == [result.value for result in BOX.call_many(calls)]


def test_without_references() -> None:
    """Where calls do not refer to each other, a mark is a character, and no result is kept."""
    shared = SharedValues()

    assert ["†note"] == [
        result.value for result in Toolbox(TOOLS).call_many([call("join", "note", parts="†note")], shared=shared)
    ]
    assert () == shared.paths()


def test_values_are_checked() -> None:
    """What a reference stands for is checked like any argument."""
    wrong, _ = BOX.call_many([call("walk", miles="†city"), call("join", to="city", parts="Rome")])

    assert ("invalid_arguments", True) == (wrong.kind, (wrong.text or "").startswith("Invalid arguments: miles: "))


@pytest.mark.parametrize("is_async", [False, True], ids=["call", "acall"])
@pytest.mark.parametrize(
    ("parts", "text"), [("††x", "†x"), ("†x", "here"), (["†x", "!"], "here!")], ids=["mark", "reference", "inside"]
)
def test_a_call_by_name(parts: Any, text: str, is_async: bool) -> None:
    """What is called by name may refer to what is shared, as any call may."""
    words, shared = {"parts": parts}, {"x": "here"}
    result = (
        asyncio.run(BOX.acall("join", words, shared=shared)) if is_async else BOX.call("join", words, shared=shared)
    )

    assert text == result.text


def test_what_a_call_by_name_sees() -> None:
    """Without references, too, a call by name finds in its context what is shared."""

    @tool
    def seen(context: ToolContext) -> dict[str, Any]:
        return dict(context.shared)

    assert {"x": 1} == Toolbox([seen]).call("seen", shared={"x": 1}).value


@ways
def test_a_dangling_reference(carried_out: All) -> None:
    """A reference to nothing is an error that says what there is, and the tool is not entered."""
    (result,) = carried_out([call("walk", miles="†mile")], shared={"miles": 3})

    text = "Invalid arguments: †mile: there is nothing at 'mile'; did you mean 'miles'? There is: miles"
    assert (text, "invalid_arguments") == (result.text, result.kind)


@ways
def test_what_a_dangling_reference_is_told(carried_out: All) -> None:
    """The error tells of what was there before, and of what the call waits for: not of what else has ended by now."""
    calls = [
        call("walk", to="other", miles=1),
        call("walk", to="more", miles="†other"),
        call("join", to="home", parts="a"),
        call("join", parts=["†home", "†road"]),
    ]

    text = "Invalid arguments: †road: there is nothing at 'road'. There is: home, miles"
    assert text == carried_out(calls, shared={"miles": 3})[3].text


@pytest.mark.parametrize("path", ["†", "†a..b", "†state."])
def test_a_reference_that_is_no_path(path: str) -> None:
    """A reference without a path is refused."""
    (result,) = BOX.call_many([call("walk", miles=path)])

    assert (result.text or "").startswith(f"Invalid arguments: {path}: ")


def test_an_output_path_that_is_none() -> None:
    """A call whose result could not be kept is not carried out."""
    (result,) = BOX.call_many([call("walk", to="a..b", miles=3)])

    assert (result.text or "").startswith("Invalid arguments: _outputPath: 'a..b' is no path: ")


@ways
def test_a_reference_to_a_call_that_failed(carried_out: All) -> None:
    """A call that needs the result of one that failed is not carried out, though an older value is there."""
    calls = [call("join", parts="†home.name"), call("place", to="home", name="Atlantis")]
    result, _ = carried_out(calls, shared=store_results(**{"home.name": "Rome"}))

    assert "Not run: it needs the result of place at 'home', which failed: it sank" == result.text


@ways
def test_a_circle(carried_out: All) -> None:
    """Calls that wait for themselves are refused, and those behind them; the others are carried out."""
    calls = [
        call("join", to="a", parts="†b"),
        call("join", to="b", parts="†c"),
        call("join", to="c", parts="†a"),
        call("join", parts="†c"),
        call("join", parts="free"),
    ]
    kinds = [result.kind for result in carried_out(calls)]

    assert ["invalid_arguments"] * 3 + ["failed", None] == kinds


def test_its_own_path() -> None:
    """A call that refers to where it keeps its result gets what was there before."""
    shared = store_results(count=3)
    BOX.call_many([call("join", to="text", parts=["a"]), call("walk", to="count", miles="†count")], shared=shared)

    assert (3, "a") == (shared.get("count"), shared.get("text"))


@ways
@pytest.mark.parametrize("of", ["", "home"])
@pytest.mark.parametrize("to", ["user", "state.user", "†user", "user.name", "user.role.rank"])
def test_values_of_the_application(to: str, of: str, carried_out: All) -> None:
    """A call whose result would replace, extend or hide a value of the application is refused and does not run."""
    shared = SharedValues({"user.role": "guest", "user.name": "Ann"})
    (result,) = carried_out([call("join", to=to, of=of, parts="root")], shared=shared)

    assert result.kind == "invalid_arguments"
    assert "is read-only. Choose another path." in (result.text or "")
    assert [{"role": "guest", "name": "Ann"}] * 2 == [shared.get("user", instance) for instance in ("", "home")]


def test_the_last_write_wins() -> None:
    """Of calls that keep their results in one place the last one wins; who refers to it gets that."""
    ready = threading.Event()

    @tool
    def slow(text: str) -> str:
        ready.wait(5)
        return text

    @tool
    def quick(text: str) -> str:
        ready.set()
        return text

    box = Toolbox([slow, quick, join], references=True)
    calls = [call("join", parts="†x"), call("slow", to="x", text="1"), call("quick", to="y", text="2")]

    assert ["3", "1", "2", "3"] == [r.value for r in box.call_many([*calls, call("quick", to="x", text="3")])]


@ways
def test_unblocked_calls_run_in_parallel(carried_out: All) -> None:
    """A call begins as soon as those that it needs have ended: one that has nothing to do with it may go on."""
    done = threading.Event()

    @tool
    def wait() -> bool:
        return done.wait(5)

    @tool
    def tell(text: str) -> str:
        done.set()
        return text

    box = Toolbox([wait, tell, join], references=True)
    calls = [call("wait"), call("join", to="x", parts="go"), call("tell", text="†x")]
    results = box.call_many(calls) if carried_out is in_place else asyncio.run(box.acall_many(calls))

    assert [True, "go", "go"] == [result.value for result in results]


def test_instances() -> None:
    """A call sees the results of its own instance first, and those of none; not those of another."""
    calls = [
        call("join", to="name", of="one", parts="Ann"),
        call("join", to="name", parts="Bob"),
        call("join", of="one", parts="†name"),
        call("join", of="two", parts="†name"),
        call("join", to="only", of="one", parts="x"),
        call("join", of="two", parts="†only"),
    ]
    results = BOX.call_many(calls)

    assert ["Ann", "Bob", "Ann", "Bob", "x", None] == [result.value for result in results]


def test_a_text_stays_text() -> None:
    """A result is kept as JSON data; a text that looks like a number is none."""
    shared = SharedValues()
    BOX.call_many([call("join", to="text", parts="5"), call("walk", to="number", miles=5)], shared=shared)

    assert ("5", 5) == (shared.get("text"), shared.get("number"))


def test_a_result_of_ones_own_making() -> None:
    """Of a result that is only a text, the text is kept; of a failure, nothing."""

    @tool
    def made(text: str, error: str | None = None) -> ToolResult:
        return ToolResult(text=text, error=error)

    shared, box = SharedValues(), Toolbox([made], references=True)
    box.call_many([call("made", to="a", text="hello"), call("made", to="b", text="", error="no")], shared=shared)

    assert ("a",) == shared.paths()
    assert "hello" == shared.get("a")


def test_a_result_that_is_too_large() -> None:
    """A result for which there is no room is told all the same, with that."""
    (result,) = BOX.call_many([call("join", to="x", parts="y" * 9_000_000)], shared={"z": "z" * 9_000_000})

    assert (result.text or "").endswith("'x' was not stored: it has 9,000,002 bytes, and there is no room for them.")


def test_equal_keys() -> None:
    """Of equal keys the last one wins, also where it refers to something."""
    repeated = ToolCall(name="walk", arguments='{"miles": 1, "miles": "†x"}')

    assert 7 == BOX.call_many([repeated], shared={"x": 7})[0].value


def test_an_escaped_mark() -> None:
    """A reference may be written with an escape, as JSON allows it."""
    assert 7 == BOX.call_many([ToolCall(name="walk", arguments='{"miles": "\\u2020x"}')], shared={"x": 7})[0].value


@pytest.mark.parametrize("arguments", ["", "†x", "[†x", '["†x"]', '{"miles": "†x"'])
def test_what_is_no_object(arguments: str) -> None:
    """What is no JSON object is refused by the tool, as ever."""
    assert "invalid_arguments" == BOX.call_many([ToolCall(name="walk", arguments=arguments)], shared={"x": 7})[0].kind


def test_the_model_fills_the_output() -> None:
    """What a model gives itself is kept like any result, and is its own text, also with a mark."""
    latent = Tool.from_schema(
        "judge", schema.object(text=schema.string()) | {"properties": {"_output": schema.string(), "text": {}}}
    )
    box = Toolbox([latent, join], references=True)
    calls = [call("judge", to="word", text="†given", _output="†good"), call("join", parts="†word")]

    assert ["†good", "†good"] == [result.value for result in box.call_many(calls, shared={"given": "x"})]


@ways
@pytest.mark.parametrize("wait", ["success", "first"])
def test_success_of_a_reference(carried_out: All, wait: str) -> None:
    """The first call that succeeds may be one that refers to another."""
    calls = [call("walk", miles="†no"), call("walk", miles="†x")][wait == "first" :]

    assert [7] == [result.value for result in carried_out(calls, shared={"x": 7}, wait=wait)]


@ways
def test_a_fatal_error(carried_out: All) -> None:
    """What ends everything leaves, and nobody waits for the call any longer."""

    @tool
    def end() -> str:
        raise FatalError("over")

    box = Toolbox([end, join], references=True)
    calls = [call("end", to="x"), call("join", parts="†x")]
    with pytest.raises(FatalError, match="over"):
        box.call_many(calls) if carried_out is in_place else asyncio.run(box.acall_many(calls))


def test_what_is_shown() -> None:
    """A model may say an instance and an output path of each call, and refer to values in each argument."""
    reference = {"type": "string", "pattern": "^†.+$"}
    shown = BOX.schemas()[3]["function"]["parameters"]

    assert ["_instance", "_outputPath", "miles"] == list(shown["properties"])
    assert {"anyOf": [{"type": "integer"}, reference]} == shown["properties"]["miles"]
    assert ["miles"] == shown["required"]


@pytest.mark.parametrize("dialect", ["chat", "responses", "anthropic", "gemini", "mcp", "minimal", "calls"])
@pytest.mark.parametrize("strict", [True, False])
def test_schema_of_a_result(dialect: DialectName, strict: bool) -> None:
    """In every dialect the model reads the schema of a result where it may refer to it."""
    returned = json.dumps({"type": "integer"}, separators=(",", ":"))

    sent = json.dumps(BOX.schemas(dialect, strict=strict)[3], ensure_ascii=False)
    assert f"The JSON Schema of the result: {returned}".replace('"', '\\"') in sent


def test_schema_of_an_output() -> None:
    """A model that writes the output itself reads its schema only once."""
    latent = Tool.from_schema("guess", schema.object("Guess.", _output=schema.object(miles=schema.integer())))

    assert "JSON Schema of the result" not in json.dumps(Toolbox([latent], references=True).schemas())


OWN = Tool.from_schema(
    "own",
    schema.object("Find.", name=schema.string(), _outputPath={"const": "†data.own"}, _output=schema.string()),
    lambda name: f"{name}!",
)


def test_output_path_of_a_tool() -> None:
    """A tool whose schema has an output path stores results and refers to others in a toolbox without references."""
    box = Toolbox([OWN, walk])
    first, second = (each["function"]["parameters"]["properties"] for each in box.schemas())
    results = box.call_many([call("own", name="†data.own!"), call("own", to="†data.own", name="Rome")])
    again = box.call_many([call("own", name="†data.own"), call("own", to="†data.own", name="Rome")])

    assert ("†data.own", ["miles"]) == (first["_outputPath"]["const"], list(second))
    assert [True, False] == [result.is_error for result in results]
    assert ["Rome!!", "Rome!"] == [result.text for result in again]


@ways
def test_alternatives(carried_out: All) -> None:
    """Of several references the first that has a value counts, wherever they stand."""
    calls = [
        call("join", parts=["†a || †b", "†none || †b || †a"]),
        call("join", to="b", parts="B"),
        call("join", to="a", parts="A"),
    ]

    assert "AB" == carried_out(calls)[0].text


@ways
def test_alternative_to_a_call_that_failed(carried_out: All) -> None:
    """A call whose reference has an alternative runs although the other call has failed."""
    calls = [
        call("join", parts="†sunk || †home"),
        call("join", parts=["†sunk || †home", "†sunk"]),
        call("place", to="sunk", name="Atlantis"),
    ]
    one, other, _ = carried_out(calls, shared={"home": "Rome"})

    assert "Rome" == one.text
    assert "Not run: it needs the result of place at 'sunk', which failed: it sank" == other.text


def test_no_alternative() -> None:
    """Where none of the references has a value, the error names them all."""
    result = BOX.call_many([call("join", parts="†x||†y")], shared={"home": "Rome"})[0]

    assert "Invalid arguments: †x||†y: there is nothing at 'x || y'. There is: home" == result.text


def test_what_is_not_shown() -> None:
    """Without references a tool is shown as it is; a tool itself stays as it is in any case."""
    assert (
        {"type": "integer"} == walk.parameters["properties"]["miles"] == BOX["walk"].parameters["properties"]["miles"]
    )
    assert Toolbox([walk]).schemas() == Toolbox([walk], references=False).schemas()
    assert ["miles"] == list(Toolbox([walk]).schemas()[0]["function"]["parameters"]["properties"])


@pytest.mark.parametrize(
    "box",
    [
        BOX.prefixed(""),
        BOX.filtered(bool),
        BOX | Toolbox(),
        Toolbox() | BOX,
        Toolbox([walk]) | BOX.filtered(lambda _: False),
    ],
    ids=["prefixed", "filtered", "joined", "joined before", "joined with none"],
)
def test_boxes_made_of_it(box: Toolbox) -> None:
    """A toolbox that is made of one with references has them, too."""
    assert box.references
    assert 7 == box.call_many([call("walk", miles="†x")], shared={"x": 7})[0].value


ARGUMENTS = {"_instance": "one", "_outputPath": "n", "miles": 3}
REPLIES = [
    ("chat", {"tool_calls": [{"id": "1", "function": {"name": "walk", "arguments": ARGUMENTS}}]}),
    ("anthropic", {"content": [{"type": "tool_use", "id": "1", "name": "walk", "input": ARGUMENTS}]}),
    ("responses", {"output": [{"type": "function_call", "call_id": "1", "name": "walk", "arguments": ARGUMENTS}]}),
    ("gemini", {"candidates": [{"content": {"parts": [{"function_call": {"name": "walk", "args": ARGUMENTS}}]}}]}),
    ("calls", json.dumps({"calls": [{"_tool": "walk", **ARGUMENTS}], "output": None})),
]
"""One call in the words of each provider."""


@pytest.mark.parametrize(("dialect", "reply"), REPLIES, ids=[name for name, _ in REPLIES])
@pytest.mark.parametrize("strict", [False, True], ids=["lenient", "strict"])
def test_replies(dialect: DialectName, reply: Any, strict: bool) -> None:
    """What is kept of one reply can be referred to in the next, whoever speaks."""
    shared = SharedValues()
    answered = BOX.answer(reply, dialect, strict=strict, shared=shared)
    asyncio.run(BOX.aanswer(reply, dialect, strict=strict, shared=shared))

    assert 1 == len(answered)
    assert 3 == shared.get("n", "one")
    assert "3" == BOX.call_many([call("walk", of="one", miles="†n")], shared=shared)[0].text


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (list[int], [1, 2]),
        (dict[str, int], {"a": 1}),
        (Literal["a", 1], "a"),
        (Road, {"to": "Oslo", "miles": 3}),
        (Any, None),
    ],
    ids=["list", "dict", "choice", "model", "anything"],
)
@pytest.mark.parametrize("strict", [False, True], ids=["lenient", "strict"])
def test_arguments_of_any_type(kind: Any, value: Any, strict: bool) -> None:
    """A reference may stand for an argument of any type, also where the provider is shown another form of it."""
    got: list[Any] = []

    def take(given: Any) -> None:
        got.append(given.model_dump() if isinstance(given, Road) else given)

    take.__annotations__ = {"given": kind}
    calls = [{"id": "1", "function": {"name": "take", "arguments": {"given": "†x"}}}]
    Toolbox([take], references=True).answer({"tool_calls": calls}, strict=strict, shared={"x": value})

    assert [value] == got


@st.composite
def graphs(draw: st.DrawFn, *, with_circles: bool) -> list[ToolCall]:
    """Draw calls, each of which keeps its result and refers to some others: to those before it, or to any."""
    size = draw(st.integers(1, 12))
    numbers = st.integers(0, size - 1)
    return [
        call(
            draw(st.sampled_from(["join", "ajoin"])),
            to=f"n{number}",
            parts=[f"†n{other}" for other in draw(st.sets(numbers, max_size=3)) if with_circles or other < number],
            end=f"{number}.",
        )
        for number in range(size)
    ]


def one_by_one(calls: Sequence[ToolCall]) -> dict[str, Any]:
    """Carry calls out one after the other."""
    shared = SharedValues()
    return {call.output_path: BOX.call_many([call], shared=shared)[0].value for call in calls}


@examples(60)
@given(graphs(with_circles=False), st.randoms(), WAYS)
def test_any_order(calls: list[ToolCall], random: Any, carried_out: All) -> None:
    """Calls in any order give what they give one by one, each behind those that it refers to."""
    mixed = random.sample(calls, len(calls))
    results = carried_out(mixed)

    assert one_by_one(calls) == {call.output_path: result.value for call, result in zip(mixed, results)}


@examples(60)
@given(graphs(with_circles=True), WAYS)
def test_any_circles(calls: list[ToolCall], carried_out: All) -> None:
    """Whatever refers to whatever, each call has one result: an error where it waits for itself or for such a call."""
    needs = {c.output_path: {part[1:] for part in json.loads(c.arguments)["parts"]} for c in calls}
    good = set[str]()
    while more := {name for name, others in needs.items() if others <= good} - good:
        good |= more
    results = carried_out(calls)

    assert [call.output_path in good for call in calls] == [not result.is_error for result in results]
