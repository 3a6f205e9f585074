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
from toolkit import FatalError, SharedValues, Tool, Toolbox, ToolCall, ToolContext, ToolError, ToolResult, schema, tool

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
    """Make a call that stores its result at a path."""
    return ToolCall(name=name, arguments=json.dumps(arguments), output_path=to, instance=of)


def store_results(**results: Any) -> SharedValues:
    """Make the shared values that earlier calls leave behind, by path."""
    shared = SharedValues()
    for path, value in results.items():
        shared.store_result(path, value)
    return shared


def call_sync(calls: Sequence[ToolCall], **options: Any) -> list[ToolResult]:
    """Execute calls on this thread and others."""
    return BOX.call_many(calls, **options)


def call_async(calls: Sequence[ToolCall], **options: Any) -> list[ToolResult]:
    """Execute calls in an event loop."""
    return asyncio.run(BOX.acall_many(calls, **options))


WAYS = st.sampled_from([call_sync, call_async])
ways = pytest.mark.parametrize("execute", [call_sync, call_async], ids=["call_many", "acall_many"])


@ways
def test_a_result_as_an_argument(execute: All) -> None:
    """An argument that refers to another call's result gets it, in any order; results are in call order."""
    calls = [
        call("walk", miles="†home.roads.0.miles"),
        call("join", parts=["to ", "†home.name"], end="†mark"),
        call("place", to="home", name="Rome"),
    ]

    assert ["3", "to Rome!"] == [result.text for result in execute(calls, shared={"mark": "!"})][:2]


@ways
def test_a_chain(execute: All) -> None:
    """More calls than may run at once, each of which refers to the one behind it, all have a result."""
    chain = [call("join", to=f"n{number}", parts=[f"†n{number + 1}"], end=".") for number in range(300)]
    calls = [*chain, call("join", to="n300", parts="x")]

    assert "x" + "." * 300 == execute(calls)[0].text


def test_state() -> None:
    """`†state.city` is `†city`, and so is an output path that is written like one."""
    calls = [
        call("join", to="†state.city", parts="Rome"),
        call("join", parts="†city"),
        call("join", parts="†state.city"),
    ]

    assert ["Rome"] * 3 == [result.value for result in BOX.call_many(calls)]


def test_escaped_mark_in_a_text() -> None:
    """Two marks stand for a text that starts with one; one inside a text is a normal character."""
    calls = [call("join", parts="††note"), call("join", parts="see †note"), call("join", parts=["a", "†††"])]

    assert ["†note", "see †note", "a††"] == [result.value for result in BOX.call_many(calls)]


def test_long_values() -> None:
    """Short arguments whose values are longer together than arguments may be are refused before these are written."""
    shared = store_results(a="x" * 2**20)
    (many,), (few,) = (BOX.call_many([call("join", parts=["†a"] * count)], shared=shared) for count in (40, 10))

    assert ("invalid_arguments", True) == (many.kind, "more than 16,777,216 bytes together" in many.text)
    assert 10 * 2**20 == len(few.value)


def test_without_references() -> None:
    """Without references a mark is a normal character, and no result is stored."""
    shared = SharedValues()

    assert ["†note"] == [
        result.value for result in Toolbox(TOOLS).call_many([call("join", "note", parts="†note")], shared=shared)
    ]
    assert () == shared.paths()


def test_values_are_validated() -> None:
    """The value of a reference is validated like any argument."""
    wrong, _ = BOX.call_many([call("walk", miles="†city"), call("join", to="city", parts="Rome")])

    assert ("invalid_arguments", True) == (wrong.kind, wrong.text.startswith("Invalid arguments: miles: "))


@pytest.mark.parametrize("is_async", [False, True], ids=["call", "acall"])
@pytest.mark.parametrize(
    ("parts", "text"), [("††x", "†x"), ("†x", "here"), (["†x", "!"], "here!")], ids=["mark", "reference", "inside"]
)
def test_a_call_by_name(parts: Any, text: str, is_async: bool) -> None:
    """A call by name may refer to shared values."""
    words, shared = {"parts": parts}, {"x": "here"}
    result = (
        asyncio.run(BOX.acall("join", words, shared=shared)) if is_async else BOX.call("join", words, shared=shared)
    )

    assert text == result.text


def test_shared_values_of_a_call_by_name() -> None:
    """Without references, too, a call by name has the shared values in its context."""

    @tool
    def seen(context: ToolContext) -> dict[str, Any]:
        return dict(context.shared)

    assert {"x": 1} == Toolbox([seen]).call("seen", shared={"x": 1}).value


@ways
def test_a_dangling_reference(execute: All) -> None:
    """A reference without a value is an error that lists the values, and the tool is not called."""
    (result,) = execute([call("walk", miles="†mile")], shared={"miles": 3})

    text = "Invalid arguments: †mile: there is nothing at 'mile'; did you mean 'miles'? Available: miles"
    assert (text, "invalid_arguments") == (result.text, result.kind)


@pytest.mark.parametrize("path", ["†", "†a..b", "†state."])
def test_a_reference_that_is_no_path(path: str) -> None:
    """A reference without a path is refused."""
    (result,) = BOX.call_many([call("walk", miles=path)])

    assert result.text.startswith(f"Invalid arguments: {path}: ")


def test_invalid_output_path() -> None:
    """A call whose result cannot be stored is not executed."""
    (result,) = BOX.call_many([call("walk", to="a..b", miles=3)])

    assert result.text.startswith("Invalid arguments: _outputPath: 'a..b' is not a path: ")


@ways
def test_a_reference_to_a_call_that_failed(execute: All) -> None:
    """A call that needs the result of a failed one is not executed, even if there is an older value."""
    calls = [call("join", parts="†home.name"), call("place", to="home", name="Atlantis")]
    result, _ = execute(calls, shared=store_results(**{"home.name": "Rome"}))

    assert "Not run: it needs the result of place at 'home', which failed: it sank" == result.text


@ways
def test_a_circle(execute: All) -> None:
    """Calls that wait for themselves, and those behind them, are refused; the others are executed."""
    calls = [
        call("join", to="a", parts="†b"),
        call("join", to="b", parts="†c"),
        call("join", to="c", parts="†a"),
        call("join", parts="†c"),
        call("join", parts="free"),
    ]
    kinds = [result.kind for result in execute(calls)]

    assert ["invalid_arguments"] * 4 + [None] == kinds


def test_its_own_path() -> None:
    """A call that refers to its own path gets the earlier value."""
    shared = store_results(count=3)
    BOX.call_many([call("join", to="text", parts=["a"]), call("walk", to="count", miles="†count")], shared=shared)

    assert (3, "a") == (shared.get("count"), shared.get("text"))


@ways
@pytest.mark.parametrize("of", ["", "home"])
@pytest.mark.parametrize("to", ["user", "state.user", "†user", "user.name", "user.role.rank"])
def test_values_of_the_application(to: str, of: str, execute: All) -> None:
    """A call whose result would replace, extend or hide a value of the application is refused and does not run."""
    shared = SharedValues({"user.role": "guest", "user.name": "Ann"})
    (result,) = execute([call("join", to=to, of=of, parts="root")], shared=shared)

    assert result.kind == "invalid_arguments"
    assert "is read-only. Choose another path." in result.text
    assert [{"role": "guest", "name": "Ann"}] * 2 == [shared.get("user", instance) for instance in ("", "home")]


def test_the_last_write_wins() -> None:
    """Of calls that store their results at one path the last one wins, and calls that refer to it get that."""
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
def test_unblocked_calls_run_in_parallel(execute: All) -> None:
    """A call starts once those that it needs have ended, while unrelated ones may still run."""
    done = threading.Event()

    @tool
    def wait() -> bool:
        return done.wait(5)

    @tool
    def report(text: str) -> str:
        done.set()
        return text

    box = Toolbox([wait, report, join], references=True)
    calls = [call("wait"), call("join", to="x", parts="go"), call("report", text="†x")]
    results = box.call_many(calls) if execute is call_sync else asyncio.run(box.acall_many(calls))

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
    """A result is stored as JSON data; a text that looks like a number remains a text."""
    shared = SharedValues()
    BOX.call_many([call("join", to="text", parts="5"), call("walk", to="number", miles=5)], shared=shared)

    assert ("5", 5) == (shared.get("text"), shared.get("number"))


def test_result_without_a_value() -> None:
    """Of a result that is only a text, the text is stored; of a failure, nothing."""

    @tool
    def made(text: str, error: str | None = None) -> ToolResult:
        return ToolResult(text=text, error=error)

    shared, box = SharedValues(), Toolbox([made], references=True)
    box.call_many([call("made", to="a", text="hello"), call("made", to="b", text="", error="no")], shared=shared)

    assert ("a",) == shared.paths()
    assert "hello" == shared.get("a")


def test_a_result_that_is_too_large() -> None:
    """A result that is too large to be stored reaches the model with a note about that."""
    (result,) = BOX.call_many([call("join", to="x", parts="y" * 9_000_000)], shared={"z": "z" * 9_000_000})

    assert result.text.endswith("'x' was not stored: it has 9,000,002 bytes; all values may have 16,777,216.")


def test_equal_keys() -> None:
    """Of equal keys the last one wins, also where it refers to something."""
    repeated = ToolCall(name="walk", arguments='{"miles": 1, "miles": "†x"}')

    assert 7 == BOX.call_many([repeated], shared={"x": 7})[0].value


def test_an_escaped_mark() -> None:
    """A reference may be written with an escape, as JSON allows it."""
    assert 7 == BOX.call_many([ToolCall(name="walk", arguments='{"miles": "\\u2020x"}')], shared={"x": 7})[0].value


@pytest.mark.parametrize("arguments", ["", "†x", "[†x", '["†x"]', '{"miles": "†x"'])
def test_arguments_that_are_no_object(arguments: str) -> None:
    """Arguments that are not a JSON object are refused by the tool."""
    assert "invalid_arguments" == BOX.call_many([ToolCall(name="walk", arguments=arguments)], shared={"x": 7})[0].kind


def test_the_model_fills_the_output() -> None:
    """The output of a latent call is stored like any result, and is not a reference itself."""
    latent = Tool.from_schema(
        "judge", schema.object(text=schema.string()) | {"properties": {"_output": schema.string(), "text": {}}}
    )
    box = Toolbox([latent, join], references=True)
    calls = [call("judge", to="word", text="†given", _output="†good"), call("join", parts="†word")]

    assert ["†good", "†good"] == [result.value for result in box.call_many(calls, shared={"given": "x"})]


@ways
@pytest.mark.parametrize("wait", ["success", "first"])
def test_success_of_a_reference(execute: All, wait: str) -> None:
    """The first call that succeeds may be one that refers to another."""
    calls = [call("walk", miles="†no"), call("walk", miles="†x")][wait == "first" :]

    assert [7] == [result.value for result in execute(calls, shared={"x": 7}, wait=wait)]


@ways
def test_a_fatal_error(execute: All) -> None:
    """A FatalError is raised, and no call waits any longer."""

    @tool
    def end() -> str:
        raise FatalError("over")

    box = Toolbox([end, join], references=True)
    calls = [call("end", to="x"), call("join", parts="†x")]
    with pytest.raises(FatalError, match="over"):
        box.call_many(calls) if execute is call_sync else asyncio.run(box.acall_many(calls))


def test_sent_schema() -> None:
    """A model may write an instance and an output path for each call, and a reference for each argument."""
    reference = {"type": "string", "pattern": "^†.+$"}
    shown = BOX.schemas()[3]["function"]["parameters"]

    assert ["_instance", "_outputPath", "miles"] == list(shown["properties"])
    assert {"anyOf": [{"type": "integer"}, reference]} == shown["properties"]["miles"]
    assert ["miles"] == shown["required"]


@pytest.mark.parametrize(
    "dialect", ["chat", "responses", "anthropic", "gemini", "interactions", "mcp", "minimal", "calls"]
)
@pytest.mark.parametrize("strict", [True, False])
def test_schema_of_a_result(dialect: Any, strict: bool) -> None:
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
def test_alternatives(execute: All) -> None:
    """Of several references the first that has a value counts, in lists too."""
    calls = [
        call("join", parts=["†a || †b", "†none || †b || †a"]),
        call("join", to="b", parts="B"),
        call("join", to="a", parts="A"),
    ]

    assert "AB" == execute(calls)[0].text


@ways
def test_alternative_to_a_call_that_failed(execute: All) -> None:
    """A call whose reference has an alternative runs although the other call has failed."""
    calls = [
        call("join", parts="†sunk || †home"),
        call("join", parts=["†sunk || †home", "†sunk"]),
        call("place", to="sunk", name="Atlantis"),
    ]
    one, other, _ = execute(calls, shared={"home": "Rome"})

    assert "Rome" == one.text
    assert "Not run: it needs the result of place at 'sunk', which failed: it sank" == other.text


def test_no_alternative() -> None:
    """Where none of the references has a value, the error names them all."""
    result = BOX.call_many([call("join", parts="†x||†y")], shared={"home": "Rome"})[0]

    assert "Invalid arguments: †x||†y: there is nothing at 'x || y'. Available: home" == result.text


def test_sent_schema_without_references() -> None:
    """Without references a tool's schema is sent as it is; the tool itself is never changed."""
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
    ("interactions", {"steps": [{"type": "function_call", "id": "1", "name": "walk", "arguments": ARGUMENTS}]}),
    ("calls", json.dumps({"calls": [{"_tool": "walk", **ARGUMENTS}], "output": None})),
]
"""One call in the words of each provider."""


@pytest.mark.parametrize(("dialect", "reply"), REPLIES, ids=[name for name, _ in REPLIES])
@pytest.mark.parametrize("strict", [False, True], ids=["lenient", "strict"])
def test_replies(dialect: Any, reply: Any, strict: bool) -> None:
    """A result of one reply can be referred to in the next, in every dialect."""
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
    """A reference may stand for an argument of any type, also where the dialect sends another form of it."""
    got: list[Any] = []

    def take(given: Any) -> None:
        got.append(given.model_dump() if isinstance(given, Road) else given)

    take.__annotations__ = {"given": kind}
    calls = [{"id": "1", "function": {"name": "take", "arguments": {"given": "†x"}}}]
    Toolbox([take], references=True).answer({"tool_calls": calls}, strict=strict, shared={"x": value})

    assert [value] == got


@st.composite
def graphs(draw: st.DrawFn, *, with_circles: bool) -> list[ToolCall]:
    """Generate calls that store their results and refer to others: to those before them, or to any."""
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


def call_one_by_one(calls: Sequence[ToolCall]) -> dict[str, Any]:
    """Execute calls one after the other."""
    shared = SharedValues()
    return {call.output_path: BOX.call_many([call], shared=shared)[0].value for call in calls}


@examples(60)
@given(graphs(with_circles=False), st.randoms(), WAYS)
def test_any_order(calls: list[ToolCall], random: Any, execute: All) -> None:
    """Calls in any order have the same results as one by one, in the order of their dependencies."""
    mixed = random.sample(calls, len(calls))
    results = execute(mixed)

    assert call_one_by_one(calls) == {call.output_path: result.value for call, result in zip(mixed, results)}


@examples(60)
@given(graphs(with_circles=True), WAYS)
def test_any_circles(calls: list[ToolCall], execute: All) -> None:
    """Whatever refers to whatever, each call has one result: an error where it waits for itself or for such a call."""
    needs = {c.output_path: {part[1:] for part in json.loads(c.arguments)["parts"]} for c in calls}
    good = set[str]()
    while more := {name for name, others in needs.items() if others <= good} - good:
        good |= more
    results = execute(calls)

    assert [call.output_path in good for call in calls] == [not result.is_error for result in results]


def test_application_sets_what_a_call_has_stored() -> None:
    """A value of the application takes the place of those that calls have stored there, in every instance."""
    shared = SharedValues({"kept": 1})
    for path in ("user", "team.user", "list"):
        shared.store_result(path, {"user": "ann"} if path == "list" else "ann", "one")
    shared.set("kept", 2, "one")
    for path in ("user", "team", "list.user", "kept"):
        shared.set(path, "bob")

    assert ["bob", "bob", "bob"] == [shared.get(path, "one") for path in ("user", "team", "list.user")]
    assert [2, "bob"] == [shared.get("kept", "one"), shared.get("kept")]
    with pytest.raises(KeyError):
        shared.get("team.user", "one")
