"""Structured output: what the model is asked for, what its answer becomes, and what of one that does not fit."""

import asyncio
import enum
import json
import logging
import pickle
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Annotated, Any, Literal

import openai
import pytest
from pydantic import AfterValidator, BaseModel, Field, RootModel, field_validator, model_validator
from typing_extensions import Self, TypedDict

from tests import ways
from tests.servers import FakeServer
from toolkit import DefinitionError, Limits, ModelError, RunError, Runner, RunResult, RunState, ToolError
from toolkit.events import OutputDelta, RunFinished, TextDelta, ToolArgumentsDelta
from toolkit.models import ModelResponse
from toolkit.testing import Reply, ScriptedModel, call, reply


class Person(BaseModel):
    """Somebody."""

    name: str
    age: int = Field(ge=0)


class Tree(BaseModel):
    value: int
    left: "Tree | None" = None


class Numbers(RootModel[list[int]]):
    pass


class Row(TypedDict):
    key: str


@dataclass
class Point:
    x: int
    y: int = 0


class Color(enum.Enum):
    RED = "red"


class Search(BaseModel):
    pattern: str
    seen: list[Any] = [object]


class Place(BaseModel):
    x: float


class Span(BaseModel):
    first: int
    last: int

    @model_validator(mode="after")
    def check(self) -> "Span":
        if self.first > self.last:
            raise ValueError("first must not be after last")
        return self


class Fussy(BaseModel):
    value: int

    @field_validator("value")
    @classmethod
    def fail(cls, value: int) -> int:
        return value // 0


ANN = '{"name": "Ann", "age": 30}'
UNFIT = "Invalid output: age: Input should be greater than or equal to 0 (received -1)"
REFUSED = '{"name": "Ann", "age": -1}'


def add(a: int, b: int = 0) -> int:
    """Add two numbers."""
    return a + b


run_for_person = partial(ways.run, output_type=Person)
WAYS = (ways.run, ways.arun, ways.stream, ways.astream)
ALL = pytest.mark.parametrize(
    "go", [partial(way, output_type=Person) for way in WAYS], ids=[way.__name__ for way in WAYS]
)


def served(*replies: Reply, go: Callable[..., Any] = run_for_person, dialect: Any = "chat") -> tuple[Any, list[Any]]:
    """The results of a run over these replies, and the requests' bodies."""
    with (
        FakeServer(replies) as server,
        openai.OpenAI(base_url=server.base_url, api_key="test", max_retries=0) as client,
    ):
        result = go(Runner([add], model="fake", client=client, dialect=dialect))
        return result, [request.body for request in server.requests]


# -- the value


@ALL
def test_model(go: Callable[..., RunResult[Any]]) -> None:
    """The output is a value of the type, through every backend; the messages stay plain text."""
    result = go(Runner(model=ScriptedModel([ANN])))

    assert (Person(name="Ann", age=30), ANN) == (result.output, result.messages[-1].text)


TYPES: dict[str, tuple[Any, str, Any]] = {
    "model": (Person, ANN, Person(name="Ann", age=30)),
    "recursive model": (Tree, '{"value": 1, "left": {"value": 2}}', Tree(value=1, left=Tree(value=2))),
    "root model": (Numbers, '{"result": [1]}', Numbers([1])),
    "dataclass": (Point, '{"x": 1}', Point(1)),
    "typed dict": (Row, '{"key": "a"}', {"key": "a"}),
    "dict": (dict[str, int], '{"a": 1}', {"a": 1}),
    "list": (list[int], '{"result": [1, 2]}', [1, 2]),
    "int": (int, '{"result": 5}', 5),
    "bool": (bool, '{"result": true}', True),
    "literal": (Literal["yes", "no"], '{"result": "no"}', "no"),
    "enum": (Color, '{"result": "red"}', Color.RED),
    "union": (int | Person, f'{{"result": {ANN}}}', Person(name="Ann", age=30)),
    "optional": (Person | None, '{"result": null}', None),
    "annotated": (Annotated[int, Field(ge=1)], '{"result": 1}', 1),
    "annotated model": (Annotated[Person, Field(examples=[{"name": "Bo", "age": 1}])], ANN, Person(name="Ann", age=30)),
    "text with a length": (Annotated[str, Field(min_length=1)], '{"result": "a"}', "a"),
    "anything": (Any, '{"result": {"a": 1}}', {"a": 1}),
}


@pytest.mark.parametrize(("kind", "text", "value"), TYPES.values(), ids=TYPES)
def test_types(kind: Any, text: str, value: Any) -> None:
    """Whatever pydantic can validate can be an output; what is not a JSON object comes under the key `result`."""
    assert value == Runner(model=ScriptedModel([text])).run("x", output_type=kind).output


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (Person, f"```json\n{ANN}\n```", Person(name="Ann", age=30)),
        (Person, f"\n``` json \n{ANN}```\n", Person(name="Ann", age=30)),
        (Row, json.dumps({"key": "```\na\n```"}), {"key": "```\na\n```"}),
        (list[int], "[1, 2]", [1, 2]),
        (list[int], "```json\n[1]\n```", [1]),
        (Person | None, ANN, Person(name="Ann", age=30)),
        (Person, f"```{ANN}```", Person(name="Ann", age=30)),
        (Person, f"```json {ANN}```", Person(name="Ann", age=30)),
        (Literal["yes", "no"], ' "no"', "no"),
    ],
    ids=[
        "fence",
        "bare fence",
        "fence inside",
        "without its key",
        "fenced, without its key",
        "object without its key",
        "fence in a line",
        "named fence in a line",
        "white space",
    ],
)
def test_what_is_tolerated(kind: Any, text: str, value: Any) -> None:
    """A Markdown fence around an answer, and a value without its key, are read as what they are."""
    assert value == Runner(model=ScriptedModel([text])).run("x", output_type=kind).output


@pytest.mark.timeout(20)
@pytest.mark.parametrize("text", ["```\n" + " " * 1_000_000 + "x", "```" * 300_000, "\n" * 1_000_000 + "```"])
def test_degenerate_answers(text: str) -> None:
    """An answer that continues without end is refused as fast as any other, and not repeated to the model."""
    model = ScriptedModel([text, ANN])
    Runner(model=model).run("x", output_type=Person)

    assert len(model.requests[1].messages[-1].text) < 1_000


def test_default_without_json() -> None:
    """A default that JSON cannot show is not part of what the model is asked for."""
    model = ScriptedModel(['{"pattern": "a"}'])
    output = Runner(model=model).run("x", output_type=Search).output
    wanted = model.requests[0].output

    assert (Search(pattern="a"), {"pattern": {"type": "string"}, "seen": {"type": "array", "items": {}}}) == (
        output, wanted.spec.parameters["properties"] if wanted else None
    )  # fmt: skip


def test_text() -> None:
    """With `str`, which is the default, the output is the model's text as it is, and nothing is asked for."""
    model = ScriptedModel(["```\nhi\n```"] * 2)
    outputs = [Runner(model=model).run("x").output, Runner(model=model).run("x", output_type=str).output]

    assert (["```\nhi\n```"] * 2, [None, None]) == (outputs, [request.output for request in model.requests])


def test_result_as_text() -> None:
    """A result prints as its output does."""
    assert "5" == str(Runner(model=ScriptedModel(["5"])).run("x", output_type=int))


def test_state_is_plain() -> None:
    """The state of a run with an output type pickles, and goes through JSON."""
    state = Runner(model=ScriptedModel([REFUSED, ANN])).run("x", output_type=Person).state
    back = pickle.loads(pickle.dumps(state))  # noqa: S301

    assert (state, state, 1) == (RunState.from_json(state.to_json()), back, state.output_retries)


def test_impossible_type() -> None:
    """A type that no JSON can fill is refused before the model is called."""
    with pytest.raises(DefinitionError, match=r"output_type=.*Callable.* is not a type that JSON can fill: "):
        Runner(model=ScriptedModel([])).run("x", output_type=Callable[[], int])


def test_none() -> None:
    """None, as a wrapper passes it that was given no type, is refused before the model is called."""
    with pytest.raises(DefinitionError, match="None is not .*: null is not an answer; leave it out for text"):
        Runner(model=ScriptedModel([])).run("x", output_type=None)


def test_type_without_fields() -> None:
    """A type that can hold nothing, as `BaseModel` itself, is refused before the model is called."""
    with pytest.raises(DefinitionError, match="BaseModel.* is not a type that JSON can fill: it has no fields"):
        Runner(model=ScriptedModel([])).run("x", output_type=BaseModel)


@pytest.mark.parametrize("kind", [add, lambda name: name, len], ids=["function", "lambda", "builtin"])
def test_function(kind: Any) -> None:
    """A function, which pydantic would call to validate an answer, is refused before the model is called."""
    with pytest.raises(DefinitionError, match="JSON can fill: a function is not a type"):
        Runner(model=ScriptedModel([])).run("x", output_type=kind)


def test_async_validator() -> None:
    """A validator that is async would not run, and its coroutine be the answer: it is refused."""

    async def check(number: int) -> int:
        return number

    with pytest.raises(DefinitionError, match="its validator 'check' is async, and would not be awaited"):
        Runner(model=ScriptedModel([])).run("x", output_type=Annotated[int, AfterValidator(check)])


def test_class_that_pydantic_does_not_know() -> None:
    """A plain class is refused with the types to write, and without advice about pydantic's settings."""

    class Shelf:
        pass

    with pytest.raises(DefinitionError, match="JSON can fill: JSON cannot represent .*Shelf.*>. Pass a type, such as"):
        Runner(model=ScriptedModel([])).run("Which shelf?", output_type=Shelf)


# -- an answer that does not fit


@ALL
def test_retry(go: Callable[..., RunResult[Any]]) -> None:
    """An answer that does not fit goes back to the model, which reads where, why and what instead."""
    with ScriptedModel([REFUSED, ANN]) as model:
        result = go(Runner(model=model))
    found = model.requests[1].messages[-1]

    assert (Person(name="Ann", age=30), True, True) == (
        result.output, found.text.startswith(UNFIT), '"required": ["name", "age"]' in found.text
    )  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "text", "why"),
    [
        (Person, "Ann is 30.", r"not valid JSON \(expected value at line 1 column 1\)"),
        (Person, '{"name": "Ann", "a', r"not valid JSON \(EOF while parsing"),
        (Person, '{"name": "Ann"}', "age: missing, but required"),
        (Person, "[]", "expected one JSON object with name, age, received "),
        (Person, '{"name": "\ud800"}', "expected one JSON object with name, age, received "),
        (list[int], '{"result": [1, "two"]}', r'result\[1\]: Input should be a valid integer.* \(received "two"\)'),
        (list[int], '{"numbers": [1]}', "result: missing, but required"),
        (list[int], '["one", "two"]', r"result\[0\]: Input should .*; result\[1\]: Input should "),
        (float, "NaN", "result: Input should be a finite number"),
        (Place, '{"x": NaN}', "x: Input should be a finite number"),
        (Place, '{"x": 1e999}', "x: Input should be a finite number"),
        (int, '1, "result": 2', r"not valid JSON \(trailing characters"),
        (Fussy, '{"value": 1}', r"it could not be checked \(ZeroDivisionError\)"),
    ],
    ids=[
        "prose",
        "cut",
        "missing",
        "no object",
        "surrogate",
        "item",
        "other key",
        "items without the key",
        "NaN",
        "NaN in a model",
        "too large",
        "more than a value",
        "a validator that fails",
    ],
)
def test_budget(kind: Any, text: str, why: str) -> None:
    """After two retries the run ends in an error that says what was wrong."""
    with ScriptedModel([text] * 3) as model, pytest.raises(RunError, match=rf"after 3 answers.*Invalid output: {why}"):
        Runner(model=model).run("x", output_type=kind)


@pytest.mark.parametrize("stream", [False, True])
def test_truncated_answer(stream: bool) -> None:
    """Of an answer that the server cut off, the model and the error say so."""
    cut = reply.text('{"name": "Ann", "a', finish_reason="length")
    with FakeServer([cut, cut]) as server:
        runner = Runner(base_url=server.base_url, model="fake", limits=Limits(max_output_retries=1))
        with pytest.raises(RunError, match=r"2 answers.* The answer was cut off \(length\)\. Invalid output"):
            (ways.stream if stream else ways.run)(runner, output_type=Person)

    assert server.requests[1].body["messages"][-1]["content"].startswith("The answer was cut off (length). Invalid")


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (ToolError("Ann is too young"), r"Ann is too young\. The last one"),
        (ValueError("Ann is too young"), r"result: Value error, Ann is too young \(received {.*}\)\. The last one"),
        (KeyError("parents"), r"it could not be checked \(KeyError\)\. The last one"),
    ],
    ids=["ToolError", "ValueError", "another"],
)
def test_validator_of_a_union(error: Exception, why: str) -> None:
    """The model reads what a validator says about one of several models, also if its answer leaves out the key."""

    def check(value: Person | Place) -> Person | Place:
        raise error

    test_budget(Annotated[Person | Place, AfterValidator(check)], ANN, why)


class Teacher(BaseModel):
    age: int

    @model_validator(mode="after")
    def refuse(self) -> Self:
        raise ValueError("too young")


def test_validator_of_a_member_of_a_union() -> None:
    """What the validator of one model says has the same place in an answer with the key and in one without."""
    why = r'result: Value error, too young \(received {"age": 9}\); result.x \(Place\): missing, but required'
    for answer in ('{"result": {"age": 9}}', '{"age": 9}'):
        test_budget(Teacher | Place, answer, why)


def test_validator_that_explains() -> None:
    """The model reads the text of a ToolError that a validator of the output type raises."""

    def check(query: str) -> str:
        if not query.startswith("SELECT"):
            raise ToolError("Write a SELECT query.")
        return query

    with ScriptedModel(['{"result": "DROP"}', '{"result": "SELECT 1"}']) as model:
        result = Runner(model=model).run("x", output_type=Annotated[str, AfterValidator(check)])

    assert "SELECT 1" == result.output
    assert "Invalid output: Write a SELECT query. Answer again" in model.requests[1].messages[-1].text


WHOLE: dict[str, tuple[Any, str, str]] = {
    "a model": (Span, '{"first": 2, "last": 1}', "Value error, first must not be after last (received "),
    "a dict": (Annotated[dict[str, int], Field(min_length=1)], "{}", "Dictionary should have at least 1 item"),
    "a JSON Schema": ({"type": "object", "additionalProperties": True, "minProperties": 1}, "{}", "Dictionary should "),
    "no object": (dict[str, int], "[1]", "expected one JSON object with any keys, received [1]"),
}


@pytest.mark.parametrize(("kind", "text", "why"), WHOLE.values(), ids=WHOLE)
def test_fault_of_the_whole(kind: Any, text: str, why: str) -> None:
    """The model reads what is wrong with the object as a whole, such as what its model's own validator says."""
    with ScriptedModel([text, text]) as model, pytest.raises(RunError):
        Runner(model=model, limits=Limits(max_output_retries=1)).run("x", output_type=kind)

    assert model.requests[1].messages[-1].text.startswith(f"Invalid output: {why}")


def test_equal_keys() -> None:
    """Of equal keys in an answer the last one wins."""
    with ScriptedModel(['{"x": 1, "x": 2}']) as model:
        assert Place(x=2) == Runner(model=model).run("x", output_type=Place).output


def test_refusal_of_the_model() -> None:
    """Where a model refuses to answer, the error that ends the run quotes it."""
    refused = {"choices": [{"message": {"role": "assistant", "refusal": "I cannot help."}, "finish_reason": "stop"}]}
    with pytest.raises(RunError, match=r"after 3 answers.*Invalid output: .* The last one: 'I cannot help\.'$"):
        served(*[reply.body(refused)] * 3)


@pytest.mark.parametrize("retries", [0, 1, 4])
def test_own_budget(retries: int) -> None:
    """How often an answer goes back is `Limits.max_output_retries`."""
    with ScriptedModel(["?"] * (retries + 1)) as model, pytest.raises(RunError, match="no answer of its output_type"):
        Runner(model=model, limits=Limits(max_output_retries=retries)).run("x", output_type=Person)


@pytest.mark.parametrize("retries", [-1, "2", None])
def test_impossible_budget(retries: Any) -> None:
    """A budget is a whole number."""
    with pytest.raises(ValueError, match="max_output_retries=.* is not a whole number"):
        Runner(limits=Limits(max_output_retries=retries))


def test_tools_come_first() -> None:
    """Only what ends the run is an output: text beside calls is none."""
    beside = ModelResponse(text=ANN, calls=(call("add", a=1),))
    result = Runner([add], model=ScriptedModel([beside, "It is 1.", ANN])).run("x", output_type=Person)

    assert (1, 1) == (len(result.calls), result.state.output_retries)


# -- the last turn


def test_last_turn() -> None:
    """The last answer, without tools, has to fit too; one that does not goes back as any other."""
    with ScriptedModel([[call("add", a=1)], "It is 1.", ANN]) as model:
        result = Runner([add], model=model, max_turns=1).run("x", output_type=Person)
    asked = [(bool(request.tools), request.output is not None) for request in model.requests]

    assert ([(True, True), (False, True), (False, True)], "max_turns") == (asked, result.finish_reason)


def test_stop_without_an_answer() -> None:
    """A run that stops at its limit without an answer that fits ends in an error, and asks for no other."""
    model = ScriptedModel([[call("add", a=1)]])

    with pytest.raises(RunError, match="no answer of its output_type after 1 answers") as caught:
        Runner([add], model=model, limits=Limits(max_turns=1, on_limit="stop")).run("x", output_type=Person)
    assert 0 == caught.value.result.state.output_retries


# -- on the wire

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


@ALL
def test_native(go: Callable[..., Any]) -> None:
    """The chat dialect asks by `response_format`, enforced, on every turn, beside the tools."""
    result, bodies = served(reply.calls(("add", {"a": 1})), reply.text(ANN), go=go)
    asked = {"name": "final_result", "description": "The final answer. Give it when you have it. Somebody.",
             "schema": PERSON, "strict": True}  # fmt: skip

    assert (Person(name="Ann", age=30), [{"type": "json_schema", "json_schema": asked}] * 2, ["add"]) == (
        result.output,
        [body["response_format"] for body in bodies],
        [each["function"]["name"] for each in bodies[-1]["tools"]],
    )


def test_nothing_without_a_type() -> None:
    """Without an output type a request has no key that it had not before."""
    _, bodies = served(reply.text("Hi."), go=lambda runner: runner.run("Who?"))

    assert {"model", "messages", "tools", "stream"} >= bodies[0].keys()


def test_form_is_read_back() -> None:
    """What strict schemas cannot say is asked for in another form, and read back into the type's own."""
    pairs = '{"result": {"item_1": 1, "item_2": "a"}}'
    result, _ = served(reply.text(pairs), go=lambda runner: runner.run("x", output_type=tuple[int, str]))

    assert ((1, "a"), '{"result":[1,"a"]}') == (result.output, result.messages[-1].text)


def test_streamed_text() -> None:
    """A structured answer is streamed as it comes."""
    with (
        FakeServer([reply.text(ANN)]) as server,
        openai.OpenAI(base_url=server.base_url, api_key="test") as client,
        Runner(model="fake", client=client).stream("x", output_type=Person) as events,
    ):
        seen = list(events)

    assert (ANN, True) == (
        "".join(event.text for event in seen if isinstance(event, TextDelta)),
        isinstance(seen[-1], RunFinished) and len(seen) > 4,
    )


@ALL
def test_calls_dialect(go: Callable[..., Any]) -> None:
    """In the dialect 'calls' the type's schema stands in place of the output, and in the guide."""
    replies = [{"calls": [{"_tool": "add", "a": 1}], "output": None}, {"calls": [], "output": json.loads(ANN)}]
    result, bodies = served(*(reply.text(json.dumps(each)) for each in replies), go=go, dialect="calls")
    schema = bodies[0]["response_format"]["json_schema"]["schema"]

    assert (Person(name="Ann", age=30), [PERSON, {"type": "null"}], True) == (
        result.output, schema["properties"]["output"]["anyOf"], "Output: The final answer" in str(bodies[0])
    )  # fmt: skip


def test_calls_dialect_without_tools() -> None:
    """Without tools the dialect 'calls' asks for the answer alone."""
    with (
        FakeServer([reply.text('{"value": 1}')]) as server,
        openai.OpenAI(base_url=server.base_url, api_key="x") as client,
    ):
        result = Runner(model="fake", client=client, dialect="calls").run("x", output_type=Tree)
    asked = server.requests[0].body["response_format"]["json_schema"]

    assert (Tree(value=1), "final_result") == (result.output, asked["name"])


# -- a server that takes no response_format

REFUSALS = {
    "by name": reply.error(400, "'response_format' is not supported"),
    "by parameter": reply.error(400, "Unsupported value", param="response_format"),
    "by words": reply.error(422, "This model has no response format json_schema."),
    "Groq": reply.error(400, "json mode cannot be combined with tool/function calling"),
    "Gemini": reply.body(
        [{"error": {"message": "Function calling with a response mime type: 'application/json' is unsupported"}}],
        status=400,
    ),
}


@ALL
@pytest.mark.parametrize("refusal", REFUSALS.values(), ids=REFUSALS)
def test_fallback(refusal: Reply, go: Callable[..., Any], caplog: pytest.LogCaptureFixture) -> None:
    """Where the server refuses `response_format`, the answer is a call; that is decided once, and logged."""
    caplog.set_level(logging.INFO, "toolkit")
    calls = reply.calls(("add", {"a": 1})), reply.calls(("final_result", json.loads(ANN)))
    result, bodies = served(refusal, *calls, go=go)
    found = [record for record in caplog.records if "it is asked to call 'final_result'" in record.getMessage()]

    assert (Person(name="Ann", age=30), [True, False, False], 1, ["add"]) == (
        result.output, ["response_format" in body for body in bodies], len(found), [made.name for made in result.calls]
    )  # fmt: skip


def test_fallback_is_streamed() -> None:
    """An answer that came as a call is reported as text when it is whole."""
    with (
        FakeServer([REFUSALS["by name"], reply.calls(("final_result", ANN))]) as server,
        openai.OpenAI(base_url=server.base_url, api_key="test") as client,
        Runner(model="fake", client=client).stream("x", output_type=Person) as events,
    ):
        texts = [event.text for event in events if isinstance(event, TextDelta)]

    assert [ANN] == texts


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_fallback_grows(api: Literal["chat", "responses"]) -> None:
    """An answer that arrives as a call is shown as it grows, and a second one in its place; the calls are not shown."""
    answer = reply.calls(*(("final_result", {"result": [number] * 50}) for number in (1, 2)))
    with (
        FakeServer([REFUSALS["by name"], answer]) as server,
        openai.OpenAI(base_url=server.base_url, api_key="test", max_retries=0) as client,
        Runner(model="fake", client=client, api=api).stream("x", output_type=list[int]) as events,
    ):
        found: list[Any] = [event for event in events if isinstance(event, (OutputDelta, ToolArgumentsDelta))]

    assert {OutputDelta} == set(map(type, found))
    assert all(len([event for event in found if event.value[0] == number]) > 2 for number in (1, 2))


def test_fallback_beside_a_call() -> None:
    """An answer beside calls waits: the calls are executed, and the model is called again."""
    both = reply.calls(("add", {"a": 1}), ("final_result", json.loads(ANN)))
    result, bodies = served(REFUSALS["by name"], both, reply.calls(("final_result", json.loads(ANN))))

    assert (Person(name="Ann", age=30), ["1"], 3) == (
        result.output, [made.result.text for made in result.calls], len(bodies)
    )  # fmt: skip


def test_fallback_that_does_not_fit() -> None:
    """A call whose arguments do not fit goes back as any other answer."""
    result, bodies = served(REFUSALS["by name"], *(reply.calls(("final_result", each)) for each in (REFUSED, ANN)))

    assert (Person(name="Ann", age=30), True) == (
        result.output, bodies[-1]["messages"][-1]["content"].startswith(UNFIT)
    )  # fmt: skip


def test_free_name() -> None:
    """The answer's tool has a name that no tool of the toolbox has."""

    def final_result() -> str:
        """Not the answer."""
        return "no"

    model = ScriptedModel(["5"])
    Runner([final_result], model=model).run("x", output_type=int)
    wanted = model.requests[0].output

    assert "final_result_2" == (wanted.spec.name if wanted else "")


@pytest.mark.parametrize("status", [400, 401, 500])
def test_other_refusals(status: int) -> None:
    """Any other refusal leaves the run as it is."""
    with pytest.raises(ModelError) as caught:
        served(reply.error(status, "no such thing as max_tokens"))

    assert status == caught.value.status


def test_refused_twice() -> None:
    """A server that keeps refusing is not asked for ever."""
    with pytest.raises(ModelError, match="response_format"):
        served(REFUSALS["by name"], REFUSALS["by name"])


def test_tool_that_cannot_be_described() -> None:
    """What is wrong with a tool is the developer's to know, and no failure of the server."""

    def hooked(hook: Callable[[], int]) -> int:
        return hook()

    client = openai.OpenAI(base_url="http://127.0.0.1:1", api_key="test")

    with pytest.raises(DefinitionError, match="parameter 'hook' cannot be described"):
        Runner([hooked], model="fake", client=client, dialect="calls").run("x", output_type=int)


def test_runs_do_not_share() -> None:
    """What one run has found out of its server is not known to the next."""

    def twice(runner: Runner) -> None:
        for _ in range(2):
            run_for_person(runner)

    answer = reply.calls(("final_result", json.loads(ANN)))
    _, bodies = served(REFUSALS["by name"], answer, REFUSALS["by name"], answer, go=twice)

    assert [True, False, True, False] == ["response_format" in body for body in bodies]


# -- a JSON Schema

TREE = {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#"}}}}
SCHEMAS: dict[str, tuple[Mapping[str, Any], str, Any]] = {
    "object": (PERSON, ANN, {"name": "Ann", "age": 30}),
    "read-only mapping": (MappingProxyType(PERSON), ANN, {"name": "Ann", "age": 30}),
    "definition": ({"$ref": "#/$defs/P", "$defs": {"P": PERSON}}, ANN, {"name": "Ann", "age": 30}),
    "recursive": (TREE, '{"kids": [{"kids": []}]}', {"kids": [{"kids": []}]}),
    "any object": ({"type": "object"}, '{"a": 1}', {"a": 1}),
    "array": ({"type": "array", "items": {"type": "integer"}}, '{"result": [1, 2]}', [1, 2]),
    "without its key": ({"type": "array", "items": {"type": "integer"}}, "[1, 2]", [1, 2]),
    "enumeration": ({"enum": ["yes", "no"]}, '{"result": "no"}', "no"),
    "recursive array": ({"type": "array", "items": {"$ref": "#"}}, '{"result": [[], [[]]]}', [[], [[]]]),
    "union": ({"anyOf": [PERSON, {"type": "null"}]}, '{"result": null}', None),
    "union without its key": ({"anyOf": [PERSON, {"type": "null"}]}, ANN, {"name": "Ann", "age": 30}),
    "anything": ({}, '{"result": {"a": 1}}', {"a": 1}),
    "default": ({"type": "object", "properties": {"a": {"type": "integer", "default": 7}}}, "{}", {"a": 7}),
}


@pytest.mark.parametrize(("schema", "text", "value"), SCHEMAS.values(), ids=SCHEMAS)
def test_schemas(schema: Mapping[str, Any], text: str, value: Any) -> None:
    """A JSON Schema can be an output, too: the value is plain data."""
    assert value == Runner(model=ScriptedModel([text])).run("x", output_type=schema).output


def by_schema(runner: Runner) -> RunResult[Any]:
    return runner.run("Who?", output_type={"description": "Somebody.", **PERSON})


def by_schema_later(runner: Runner) -> RunResult[Any]:
    return asyncio.run(runner.arun("Who?", output_type={"description": "Somebody.", **PERSON}))


@pytest.mark.parametrize("go", [by_schema, by_schema_later])
@pytest.mark.parametrize(
    ("dialect", "answer"),
    [("chat", ANN), ("calls", f'{{"calls": [], "output": {ANN}}}')],
    ids=["native", "calls"],
)
def test_schema_on_the_wire(go: Callable[..., Any], dialect: str, answer: str) -> None:
    """A JSON Schema is asked for as the type is that has it."""
    result, bodies = served(reply.text(answer), go=go, dialect=dialect)
    typed, expected = served(reply.text(answer), dialect=dialect)

    assert (vars(typed.output), expected[0]["response_format"]) == (result.output, bodies[0]["response_format"])


@pytest.mark.parametrize("go", [by_schema, by_schema_later])
def test_schema_as_a_call(go: Callable[..., Any]) -> None:
    """Where the server refuses `response_format`, an answer of a JSON Schema is a call."""
    result, _ = served(REFUSALS["by name"], reply.calls(("final_result", json.loads(ANN))), go=go)

    assert {"name": "Ann", "age": 30} == result.output


def test_schema_that_is_not_met() -> None:
    """An answer that does not fit the schema goes back to the model, with what is wrong."""
    with ScriptedModel([REFUSED, ANN]) as model:
        result = Runner(model=model).run("Who?", output_type=PERSON)

    assert ({"name": "Ann", "age": 30}, True) == (result.output, UNFIT in model.requests[1].messages[-1].text)


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"type": "objekt"}, "type is not one of"),
        ({"type": "object", "properties": {"a": 5}}, "'#/properties/a': it is not a schema"),
        ({"type": "object", "properties": {}, "additionalProperties": False}, "it has no fields"),
        ({"$ref": "#/$defs/P"}, "there is nothing at"),
    ],
    ids=["type", "property", "empty", "reference"],
)
def test_impossible_schema(schema: Mapping[str, Any], why: str) -> None:
    """What is not a JSON Schema is refused before the model is called, with the place that is wrong."""
    with pytest.raises(DefinitionError, match=f"is not a type that JSON can fill: .*{re.escape(why)}"):
        Runner(model=ScriptedModel([])).run("x", output_type=schema)
