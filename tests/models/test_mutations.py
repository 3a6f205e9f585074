"""A mutator over good answers: whatever is wrong with an answer, what must hold of a run holds.

A good answer of either API has up to eight calls, or a text; up to six mutations of the tables below are made in it,
each named after the fault in the wild that it stands for. 50 cases run each time; `TOOLKIT_MUTATIONS=100000` runs as
many as it says.
"""

from __future__ import annotations

import copy
import json
import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import openai
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import strict_chat, strict_responses
from tests.servers import FakeServer
from toolkit import ModelError, Runner, RunResult, Toolbox
from toolkit.models import ModelResponse, ToolMessage
from toolkit.models.openai import OpenAIModel
from toolkit.models.responses import ResponsesModel
from toolkit.testing import Reply, rendering, reply

CASES = int(os.environ.get("TOOLKIT_MUTATIONS", "50"))
pytestmark = pytest.mark.timeout(max(300, CASES // 10))  # seconds
THOROUGH = settings(max_examples=CASES)
SAMPLE = settings(THOROUGH, max_examples=max(CASES // 20, 1))

Place: TypeAlias = tuple[Any, Any]  # an object or a list, and a key or an index of it
Change: TypeAlias = Callable[[random.Random, Place], None]

ODD: list[Any] = [
    *(None, "", " ", "x", "{", "[1]", "\ud800", "\x00"),
    *(0, -1, 10**30, 1.5, True),
    *([], {}, ["x"], {"x": None}, [None], [[]]),
]


# -- what can be changed at a place


def drop(chance: random.Random, place: Place) -> None:
    holder, key = place
    del holder[key]


def rename(chance: random.Random, place: Place) -> None:
    holder, key = place
    if isinstance(holder, dict):
        holder[f"{key}s"] = holder.pop(key)


def retype(chance: random.Random, place: Place) -> None:
    holder, key = place
    holder[key] = copy.deepcopy(chance.choice(ODD))


def to(*values: Any) -> Change:
    """Put one of these there."""

    def change(chance: random.Random, place: Place) -> None:
        holder, key = place
        holder[key] = copy.deepcopy(chance.choice(values))

    return change


def duplicate(chance: random.Random, place: Place) -> None:
    holder, key = place
    if isinstance(holder, list):
        holder.insert(key, copy.deepcopy(holder[key]))


def reorder(chance: random.Random, place: Place) -> None:
    holder, _ = place
    if isinstance(holder, list):
        chance.shuffle(holder)


def split(chance: random.Random, place: Place) -> None:
    """Tear a list's item in two: an object's members, or a text."""
    holder, key = place
    item = holder[key]
    if isinstance(holder, list) and isinstance(item, dict) and item:
        at = chance.randrange(len(item) + 1)
        holder[key : key + 1] = [dict(list(item.items())[:at]), dict(list(item.items())[at:])]


def merge(chance: random.Random, place: Place) -> None:
    """Put a list's item into the one before it."""
    holder, key = place
    if isinstance(holder, list) and key and isinstance(holder[key], dict) and isinstance(holder[key - 1], dict):
        holder[key - 1].update(holder.pop(key))


def truncate(chance: random.Random, place: Place) -> None:
    """End a list, or a text, before its end."""
    holder, key = place
    if isinstance(holder, list):
        del holder[key:]
    elif isinstance(holder[key], str):
        holder[key] = holder[key][: chance.randrange(len(holder[key]) + 1)]


def garble(chance: random.Random, place: Place) -> None:
    """Put a stray character into a text."""
    holder, key = place
    if isinstance(text := holder[key], str):
        at = chance.randrange(len(text) + 1)
        holder[key] = text[:at] + chance.choice('{}[]",:\\ \x00\ud83dé\n') + text[at:]


def decode(chance: random.Random, place: Place) -> None:
    holder, key = place
    if isinstance(holder[key], str):
        holder[key] = {"a": 1} if not holder[key] else json_or(holder[key])


def encode(chance: random.Random, place: Place) -> None:
    holder, key = place
    holder[key] = json.dumps(holder[key])


def join(chance: random.Random, place: Place) -> None:
    """Write a text twice, one behind the other."""
    holder, key = place
    if isinstance(holder[key], str):
        holder[key] += chance.choice(("", " ")) + holder[key]


def named(*names: str) -> Change:
    """Give a fragment a name where it has none."""

    def change(chance: random.Random, place: Place) -> None:
        holder, key = place
        if isinstance(holder[key], dict):
            holder[key].setdefault("name", chance.choice(names))

    return change


def many(chance: random.Random, place: Place) -> None:
    holder, key = place
    if isinstance(holder, list):
        holder[key:key] = [copy.deepcopy(holder[key]) for _ in range(40)]


def json_or(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


ANY = "anywhere"

# The fault that it stands for; where: the key whose values are changed, or an item of the list at a key; and how.
EITHER: dict[str, tuple[str, Change]] = {
    "A5 arguments twice in one text": ("arguments", join),
    "A6 an id is missing": ("id", drop),
    "A6 an id is nothing": ("id", to(None, "", " ", 7)),
    "A11 a name is null": ("name", to(None, "")),
    "A13 a name is missing": ("name", drop),
    "A14 a tool that is not there": ("name", to("nod", "functions.need", "NEED")),
    "A16 a name that no request can carry": ("name", garble),
    "A17 arguments as an object": ("arguments", decode),
    "A18 arguments that are nothing": ("arguments", to(None, "", "  ", "null")),
    "A19 arguments that are not an object": ("arguments", to("[1]", "5", '"x"', "true", [1], 5)),
    "A20 arguments encoded twice": ("arguments", encode),
    "A22 arguments that are not JSON": ("arguments", garble),
    "A25 arguments cut, under any label": ("arguments", truncate),
    "A28 content that says nothing": ("content", to(None, "", [], " ")),
    "A31 another body": ("[]", retype),
    "A32 an error in the middle": ("[]", to({"error": {"message": "no memory"}}, {"error": "no memory"})),
    "A35 an unknown type": ("type", to("custom", "magic")),
    "F7 silent end": ("[]", truncate),
    "F15 chunks out of order": ("[]", reorder),
    "F15 a chunk twice": ("[]", duplicate),
    "F15 chunks in one": ("[]", merge),
    "F16 anything is missing": (ANY, drop),
    "F16 anything is renamed": (ANY, rename),
    "F16 anything is something else": (ANY, retype),
    "F16 any text is garbled": (ANY, garble),
    "F16 anything ends early": (ANY, truncate),
}
MUTATIONS: dict[str, dict[str, tuple[str, Change]]] = {
    "chat": {
        **EITHER,
        "A1 an index 0": ("index", to(0)),
        "A2 an index is missing": ("index", drop),
        "A3 indexes with gaps": ("index", to(1, 3, 7, -1, "0", 10**9)),
        "A4 a fragment comes apart in its chunk": ("tool_calls[]", split),
        "A7 one id for several calls": ("id", to("same")),
        "A9 a call twice": ("tool_calls[]", duplicate),
        "A10 a name in a later fragment": ("function", named("need", "say")),
        "A12 an empty name in a later fragment": ("function", named("")),
        "A24 cut by length": ("finish_reason", to("length", "content_filter")),
        "A26 another finish reason": ("finish_reason", to("stop", "end_turn", "other", "")),
        "A27 announced calls do not come": ("tool_calls", drop),
        "A29 choices are missing": ("choices", drop),
        "A29 choices are nothing": ("choices", to([], None, {})),
        "A30 a delta or a message is null": ("delta", to(None)),
        "A30 a message is null": ("message", to(None, [], "x")),
        "A30 content in parts": ("content", to([{"type": "text", "text": "x"}, None])),
        "A35 a call without a function": ("function", rename),
        "A36 many calls": ("tool_calls[]", many),
        "F7 no finish reason": ("finish_reason", to(None)),
        "F15 another choice": ("choices[]", duplicate),
    },
    "responses": {
        **EITHER,
        "A1 an index 0": ("output_index", to(0)),
        "A2 an index is missing": ("output_index", drop),
        "A3 indexes with gaps": ("output_index", to(1, 3, 7, -1, "0", 10**9)),
        "A6 no piece names its item": ("item_id", drop),
        "A6 a piece names another item": ("item_id", to("fc_0", "fc_1", "other", 5)),
        "A7 one id for several calls": ("call_id", to("same")),
        "A6 a call has no id": ("call_id", drop),
        "A9 a call twice": ("output[]", duplicate),
        "A24 cut by length": ("incomplete_details", to({"reason": "max_output_tokens"}, {"reason": "content_filter"})),
        "A24 an item is cut": ("status", to("incomplete", "in_progress")),
        "A26 another status": ("status", to("failed", "cancelled", "queued", "other", None)),
        "A27 announced calls do not come": ("output", drop),
        "A27 the end lists nothing": ("output", to([], None)),
        "A29 the response is missing": ("response", drop),
        "A30 an item is null": ("item", to(None, [], "x")),
        "A30 an item of the list is null": ("output[]", to(None, [], "x")),
        "A36 many calls": ("output[]", many),
        "F7 the end never comes": ("type", to("response.in_progress")),
        "F7 an end of another kind": ("type", to("response.incomplete", "response.failed", "response.completed")),
        "F15 a piece ends early": ("delta", truncate),
        "F15 a piece is garbled": ("delta", garble),
        "F15 items out of order": ("output[]", reorder),
        "F15 items in one": ("output[]", merge),
    },
}


def places(value: Any, path: str = "") -> Iterator[tuple[str, Place]]:
    """Every place in a JSON value, with the name of where it is: its key, or that of its list and `[]`."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield str(key), (value, key)
            yield from places(inner, str(key))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield f"{path}[]", (value, number)
            yield from places(inner, f"{path}[]")


def mutate(answer: list[Any], mutation: tuple[str, Change], seed: int) -> None:
    """Make one mutation in an answer, in place; nothing where it has no such place."""
    where, change = mutation
    found = [place for there, place in places(answer) if where in (there, ANY)]
    if found:
        chance = random.Random(seed)  # noqa: S311  a case has to be the same each time
        change(chance, chance.choice(found))


# -- good answers

TEXTS = ["{}", '{"a": 1}', '{"a": 2, "note": "x}\\"{"}', '{"text": "Grüß dich \U0001f600"}', '{"a": "3"}']


def fragments(number: int, name: str, text: str, size: int) -> Iterator[dict[str, Any]]:
    yield {"index": number, "id": f"call_{number}", "type": "function", "function": {"name": name, "arguments": ""}}
    for at in range(0, len(text), size):
        yield {"index": number, "function": {"arguments": text[at : at + size]}}


def streamed(calls: list[tuple[str, str]], text: str, size: int) -> list[Any]:
    pieces = [piece for n, (name, given) in enumerate(calls) for piece in fragments(n, name, given, size)]
    deltas = [
        {"role": "assistant", "content": None},
        *([{"content": text}] if text else []),
        *({"tool_calls": [piece]} for piece in pieces),
    ]
    last: dict[str, Any] = {"index": 0, "delta": {}, "finish_reason": "tool_calls" if calls else "stop"}
    return [
        *({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas),
        {"choices": [last]},
        {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 7}},
    ]


def whole(calls: list[tuple[str, str]], text: str) -> list[Any]:
    made = [
        {"id": f"call_{n}", "type": "function", "function": {"name": name, "arguments": given}}
        for n, (name, given) in enumerate(calls)
    ]
    message = {"role": "assistant", "content": text or None, **({"tool_calls": made} if calls else {})}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
    return [{"choices": [choice], "usage": {"prompt_tokens": 5, "completion_tokens": 7}}]


def items(calls: list[tuple[str, str]], text: str) -> list[dict[str, Any]]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    spoken = {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": content}
    thought = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm."}]}
    made = [
        {"type": "function_call", "id": f"fc_{n}", "call_id": f"call_{n}", "name": name, "arguments": given}
        for n, (name, given) in enumerate(calls)
    ]
    return [
        {**thought, "encrypted_content": "gAAAA"},
        *([spoken] if text else []),
        *({**call, "status": "completed"} for call in made),
    ]


def response(calls: list[tuple[str, str]], text: str, size: int, *, streams: bool) -> list[Any]:
    """A good answer in Responses: its events, or the one body."""
    ask = rendering.ReplyContext(
        number=1, model="fake", stream=streams, include_usage=True, new_id=str, api="responses"
    )
    sent = b"".join(reply.output(*items(calls, text), split=size).render(ask).pieces)
    if not streams:
        return [json.loads(sent)]
    return [json.loads(event.partition(b"data: ")[2]) for event in sent.split(b"\n\n") if event]


def good(api: Any, calls: list[tuple[str, str]], text: str, size: int, *, streams: bool) -> list[Any]:
    if api == "responses":
        return response(calls, text, size, streams=streams)
    return streamed(calls, text, size) if streams else whole(calls, text)


CALLS = st.lists(st.tuples(st.sampled_from(["need", "say", "ping"]), st.sampled_from(TEXTS)), max_size=8)
WRONG = {
    api: st.lists(st.tuples(st.sampled_from(list(table)), st.integers(0, 10**6)), max_size=6)
    for api, table in MUTATIONS.items()
}


@dataclass(frozen=True)
class Mutant:
    """An answer with something wrong with it."""

    api: Any
    streams: bool
    answer: list[Any]


@st.composite
def mutants(draw: st.DrawFn) -> Mutant:
    """A good answer of either API, streamed or whole, with up to six things wrong with it."""
    api = draw(st.sampled_from(list(MUTATIONS)))
    calls = draw(CALLS)
    streams = draw(st.booleans())
    is_mute = draw(st.booleans())
    text = "" if calls and is_mute else "Hello."
    answer = good(api, calls, text, draw(st.sampled_from([3, 8, 100])), streams=streams)
    for name, seed in draw(WRONG[api]):
        mutate(answer, MUTATIONS[api][name], seed)
    return Mutant(api, streams, answer)


# -- what must hold


class Entered:
    """Tools that keep a record of who was entered."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.tools = self.box()

    def box(self) -> Toolbox:
        def need(a: int) -> int:
            """Need a number."""
            self.calls.append("need")
            return a

        def say(text: str = "", note: str = "") -> str:
            """Say a text."""
            self.calls.append("say")
            return text

        def ping() -> str:
            """Answer."""
            self.calls.append("ping")
            return "pong"

        return Toolbox([need, say, ping])


@pytest.fixture(scope="module")
def entered() -> Entered:
    return Entered()


HI = {(api, streams): good(api, [], "Hi.", 8, streams=streams) for api in MUTATIONS for streams in (True, False)}


class InProcess:
    """A client that answers with plain data, then with a text, and keeps what it was asked."""

    def __init__(self, mutant: Mutant) -> None:
        self.api = mutant.api
        self.answers = [mutant.answer]
        self.requests: list[bytes] = []
        self.chat = self.completions = self.responses = self

    def create(self, *, stream: bool, **request: Any) -> Any:
        self.requests.append(json.dumps({**request, "stream": stream}).encode())
        answer = self.answers.pop() if self.answers else HI[self.api, stream]
        return iter(answer) if stream else answer[0] if answer else None


def ran(runner: Runner, *, streams: bool) -> RunResult:
    if not streams:
        return runner.run("Go on.")
    with runner.stream("Go on.") as events:
        list(events)
    return events.result


def faults_of(client: InProcess) -> list[str]:
    """What a strict server refuses of requests: what is not strict JSON, does not pair, or repeats an id."""
    return [fault for body in client.requests if (fault := fault_of(body, client.api))]


def fault_of(body: bytes, api: str) -> str:
    try:
        strict_chat.check_content(body, CHECKS[api])
    except strict_chat.Fault as fault:
        return str(fault)
    return ""


def pairs_of(result: RunResult) -> tuple[list[str], list[str]]:
    """The ids of all calls in order, and those of all answers; each answer follows its own calls."""
    due: list[str] = []
    called: list[str] = []
    answered: list[str] = []
    for message in result.messages:
        if isinstance(message, ToolMessage):
            assert message.call_id == due.pop(0)
            answered.append(message.provider_call_id)
        else:
            assert [] == due
            due = [call.id for call in message.calls] if isinstance(message, ModelResponse) else []
            called += [call.provider_call_id for call in message.calls] if due else []  # type: ignore[union-attr]
    return called, answered


def ends_early(text: str) -> bool:
    """Whether a text is the beginning of an object, by what Python's own reader says of where it fails."""
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return bool(text.strip()) and (error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string"))
    return False


def is_cut_off(result: RunResult) -> bool:
    """Whether the first answer with calls ended in the middle, by its label or by its arguments."""
    answers = [m for m in result.messages if isinstance(m, ModelResponse) and m.calls]
    if not answers:
        return False
    texts = [call.wire_arguments or call.arguments for call in answers[0].calls]
    return answers[0].finish_reason in ("length", "content_filter") or any(map(ends_early, texts))


def has_end(mutant: Mutant) -> bool:
    """Whether a stream says anywhere why it ended."""
    values = [(there, holder[key]) for there, (holder, key) in places(mutant.answer)]
    if mutant.api == "responses":
        return any(value in (("type", "response.completed"), ("type", "response.incomplete")) for value in values)
    return any(there == "finish_reason" and isinstance(value, str) and value for there, value in values)


MODELS: dict[str, Any] = {"chat": OpenAIModel, "responses": ResponsesModel}
CHECKS = {"chat": strict_chat.check_request, "responses": strict_responses.check_request}


@THOROUGH
@given(mutants())
def test_mutated_answers(entered: Entered, mutant: Mutant) -> None:
    """Only ModelError leaves; nothing of a cut answer runs; each call has one result; each request can be sent."""
    client = InProcess(mutant)
    entered.calls.clear()
    try:
        result = ran(Runner(entered.tools, model=MODELS[mutant.api](client, "fake")), streams=mutant.streams)
    except ModelError:
        assert ([], []) == (entered.calls, faults_of(client))
        return
    called, answered = pairs_of(result)

    assert (called, len(called)) == (answered, len(set(called)))
    assert not (is_cut_off(result) and entered.calls)
    assert not (mutant.streams and entered.calls and not has_end(mutant))
    assert [] == faults_of(client)


# -- a sample through the real client, and over a wire that breaks

# The next request has a connection of its own: that it may fail as well would be another story.
CLOSE = {"connection": "close"}
WIRE: dict[str, Callable[[Reply, int], Reply]] = {
    "whole": lambda answer, _: answer,
    "in slices": lambda answer, size: answer.dripping(size + 20, 0),
    "F6 closed": lambda answer, size: answer.cut(size),
    "F6 reset": lambda answer, size: answer.reset(size),
    "F7 ended": lambda answer, size: answer.truncated(size),
}


class Line:
    """A server that sends a given response, then a text; and a client of it."""

    def __init__(self) -> None:
        self.answers: list[Reply] = []
        self.server = FakeServer(lambda _: self.answers.pop() if self.answers else reply.text("Hi."))
        self.client = openai.OpenAI(base_url=self.server.base_url, api_key="test", max_retries=0, timeout=10)


@pytest.fixture(scope="module")
def line() -> Iterator[Line]:
    line = Line()
    with line.server, line.client:
        yield line


@SAMPLE
@given(mutants(), st.sampled_from(list(WIRE)), st.integers(0, 1500))
def test_mutated_answers_on_the_wire(line: Line, entered: Entered, mutant: Mutant, wire: str, size: int) -> None:
    """The same holds through the openai package, over a wire that breaks: the strict server refuses nothing."""
    answer = mutant.answer or ([] if mutant.streams else [None])
    sent = send(answer, streams=mutant.streams)
    line.answers[:] = [WIRE[wire](sent, size)]
    entered.calls.clear()
    try:
        result = ran(Runner(entered.tools, model="fake", client=line.client, api=mutant.api), streams=mutant.streams)
    except ModelError:
        assert ([], []) == (entered.calls, line.server.problems)
        return
    called, answered = pairs_of(result)

    assert (called, len(called), []) == (answered, len(set(called)), line.server.problems)
    assert not (is_cut_off(result) and entered.calls)


# -- recorded conversations: what runs is what was sent, once

# Name and arguments in fragments: where one is missing, comes twice or belongs to another call, no JSON is left.
RECORDED: list[list[tuple[str, list[str]]]] = [
    [
        ("note", ['{"a', '": 1, "text": "x', '"}']),
        ("note", ['{"a":', ' 2, "text": "y"', "}"]),
        ("shout", ['{"loud": "three"}']),
    ],
    [("shout", ['{"loud"', ': "four', '"}'])],
]


def recorded(api: Any, calls: list[tuple[str, list[str]]], *, streams: bool) -> list[Any]:
    """One answer of a conversation as a server of OpenAI's sent it: its chunks or events, or its one body."""
    texts = [(name, "".join(parts)) for name, parts in calls]
    if not (api == "chat" and streams):
        return good(api, texts, "Let me see.", 7, streams=streams)
    chunks = streamed(texts, "Let me see.", 1000)
    at = 2
    for number, (_, parts) in enumerate(calls):
        pieces = [{"index": number, "function": {"arguments": part}} for part in parts]
        deltas = [{"index": 0, "delta": {"tool_calls": [piece]}, "finish_reason": None} for piece in pieces]
        chunks[at + 1 : at + 2] = [{"choices": [delta]} for delta in deltas]
        at += 1 + len(parts)
    return chunks


def kind_of(value: Any) -> type:
    return type(None) if value is None else type(value)


def retype_values(chance: random.Random, answer: list[Any]) -> None:
    """Give values another type."""
    for _ in range(chance.randint(1, 3)):
        holder, key = chance.choice([place for _, place in places(answer)] or [([None], 0)])
        holder[key] = copy.deepcopy(chance.choice([odd for odd in ODD if kind_of(odd) is not kind_of(holder[key])]))


def choose_list(chance: random.Random, answer: list[Any]) -> list[Any]:
    """The chunks of a stream; of a whole answer its calls or items."""
    inner = [holder[key] for there, (holder, key) in places(answer) if there in ("tool_calls", "output")]
    return chance.choice(inner) if len(answer) == 1 and inner else answer


def repeat_chunks(chance: random.Random, answer: list[Any]) -> None:
    """Send chunks twice, one behind the other."""
    chunks = choose_list(chance, answer)
    for at in sorted(chance.sample(range(len(chunks)), min(len(chunks), chance.randint(1, 3))), reverse=True):
        chunks.insert(at, copy.deepcopy(chunks[at]))


def drop_chunks(chance: random.Random, answer: list[Any]) -> None:
    """Lose chunks."""
    chunks = choose_list(chance, answer)
    for at in sorted(chance.sample(range(len(chunks)), min(len(chunks), chance.randint(1, 3))), reverse=True):
        del chunks[at]


def shuffle_ids(chance: random.Random, answer: list[Any]) -> None:
    """Let ids or indexes change their places."""
    there = chance.choice(["id", "call_id", "item_id", "index", "output_index"])
    found = [place for name, place in places(answer) if name == there]
    values = [holder[key] for holder, key in found]
    chance.shuffle(values)
    for (holder, key), value in zip(found, values):
        holder[key] = value


HARMS = [retype_values, repeat_chunks, drop_chunks, shuffle_ids]


class Diary:
    """Tools that keep what they were called with."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.tools = Toolbox([self.note, self.shout])

    def note(self, a: int, text: str) -> str:
        """Note a number and a text."""
        self.calls.append(("note", {"a": a, "text": text}))
        return "noted"

    def shout(self, loud: str) -> str:
        """Shout a text."""
        self.calls.append(("shout", {"loud": loud}))
        return "shouted"


SENT = [(name, json.loads("".join(parts))) for calls in RECORDED for name, parts in calls]


def find_fault(line: Line, api: Any, *, streams: bool, seed: int) -> str:
    """Hold a recorded conversation of which one answer is harmed; describe what must not have happened."""
    chance = random.Random(seed)  # noqa: S311  a case has to be the same each time
    answers = [recorded(api, calls, streams=streams) for calls in RECORDED]
    harm = chance.choice(HARMS)
    harm(chance, chance.choice(answers))
    diary = Diary()
    line.answers[:] = [send(answer, streams=streams) for answer in reversed(answers)]
    line.server.problems.clear()
    try:
        runner = Runner(diary.tools, model="fake", client=line.client, api=api)
        called, answered = pairs_of(ran(runner, streams=streams))
    except ModelError:
        called, answered = [], []
    except Exception as error:  # noqa: BLE001  whatever it is, it is a fault
        return f"{harm.__name__}: {error!r}"
    checks = {
        "not a call that was sent": [call for call in diary.calls if call not in SENT],
        "ran twice": [call for call in SENT if diary.calls.count(call) > 1],
        "not answered": [call_id for call_id in called if answered.count(call_id) != 1],
        "refused by the strict server": [*line.server.problems],
    }
    return "; ".join(f"{harm.__name__}: {name}: {found}" for name, found in checks.items() if found)


def send(answer: list[Any], *, streams: bool) -> Reply:
    """Make the reply that sends chunks or events, or one body."""
    if not streams:
        return reply.body(answer[0], headers=CLOSE)
    events = [b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in answer]
    return reply.raw(b"".join([*events, b"data: [DONE]\n\n"]), content_type="text/event-stream", headers=CLOSE)


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("api", list(MODELS))
def test_harmed_conversation(line: Line, api: Any, streams: bool) -> None:
    """A call runs with the arguments that were sent, and once, whatever is retyped, repeated, lost or renamed."""
    faults = {seed: find_fault(line, api, streams=streams, seed=seed) for seed in range(max(CASES // 2, 1))}

    assert {} == {seed: fault for seed, fault in faults.items() if fault}


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("api", list(MODELS))
def test_recorded_conversation(line: Line, api: Any, streams: bool) -> None:
    """Without harm the conversation runs all its calls, those of one answer in any order."""
    diary = Diary()
    answers = [recorded(api, calls, streams=streams) for calls in RECORDED]
    line.answers[:] = [send(answer, streams=streams) for answer in reversed(answers)]
    ran(Runner(diary.tools, model="fake", client=line.client, api=api), streams=streams)

    assert sorted(SENT, key=str) == sorted(diary.calls, key=str)


# -- the mutator itself


@pytest.mark.parametrize("api", MUTATIONS)
def test_mutation_changes_something(api: Any) -> None:
    """Each mutation of the tables changes an answer that has a place for it."""
    calls = [("need", '{"a": 1}'), ("say", '{"text": "x"}')]
    given = [good(api, calls, "Hi.", 4, streams=streams) for streams in (True, False)]
    for name, mutation in MUTATIONS[api].items():
        changed = copy.deepcopy(given)
        for answer in changed:
            for seed in range(20):
                mutate(answer, mutation, seed)

        assert given != changed, name
