"""A model behind an OpenAI-compatible server: what it is sent, by which client, and what its errors become."""

import asyncio
import functools
import json
import pickle
import re
import traceback
import types
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import httpx2
import openai
import pytest

from tests.servers import FakeServer
from tests.ways import in_own_loop
from toolkit import Limits, ModelError, OpenAIModel, Runner, Session, ToolCall, Usage
from toolkit.events import TextDelta
from toolkit.models import Model, ModelRequest, ModelResponse, UserMessage
from toolkit.models.errors import UNREADABLE, translate_errors
from toolkit.testing import Reply, reply

ASKED = ModelRequest(messages=(UserMessage("x"),))


def add(a: int) -> int:
    """Add."""
    return a


def through_sync(server: FakeServer, **options: Any) -> str:
    with openai.OpenAI(base_url=server.base_url, api_key="test", max_retries=0) as client:
        return Runner([add], model="fake", client=client, **options).run("x").output


def through_async(server: FakeServer, **options: Any) -> str:
    async def main() -> str:
        async with openai.AsyncOpenAI(base_url=server.base_url, api_key="test", max_retries=0) as client:
            return (await Runner([add], model="fake", client=client, **options).arun("x")).output

    return asyncio.run(main())


def through_sync_in_a_loop(server: FakeServer, **options: Any) -> str:
    async def main() -> str:
        with openai.OpenAI(base_url=server.base_url, api_key="test", max_retries=0) as client:
            return (await Runner([add], model="fake", client=client, **options).arun("x")).output

    return asyncio.run(main())


def through_async_without_a_loop(server: FakeServer, **options: Any) -> str:
    client = openai.AsyncOpenAI(base_url=server.base_url, api_key="test", max_retries=0)
    try:
        return Runner([add], model="fake", client=client, **options).run("x").output
    finally:
        in_own_loop(client.close)


EVERY_WAY = pytest.mark.parametrize(
    "through",
    [through_sync, through_async, through_sync_in_a_loop, through_async_without_a_loop],
    ids=["sync in run", "async in arun", "sync in arun", "async in run"],
)


@EVERY_WAY
def test_clients(through: Callable[..., str]) -> None:
    """Either kind of client serves either backend, calls and all."""
    with FakeServer([reply.calls(("add", {"a": 1})), reply.text("Hi.")]) as server:
        assert "Hi." == through(server)


@EVERY_WAY
def test_request_on_the_wire(through: Callable[..., str]) -> None:
    """A request holds model, messages, tools and the further keys, and nothing else."""
    with FakeServer([reply.text("Hi.")]) as server:
        through(server, request_options={"temperature": 0.5, "seed": 7})
        body = server.requests[0].body

    assert ("fake", [{"role": "user", "content": "x"}], 0.5, 7) == (
        body["model"], body["messages"], body["temperature"], body["seed"]
    )  # fmt: skip
    assert {"model", "messages", "tools", "temperature", "seed"} == body.keys() - {"stream"}


def test_streamed_request() -> None:
    """A streamed request asks for the usage too, and it arrives."""
    with (
        FakeServer([reply.text("Hi.", usage=(3, 4))]) as server,
        openai.OpenAI(base_url=server.base_url, api_key="test") as client,
        Runner(model="fake", client=client).stream("x") as events,
    ):
        list(events)
        assert (True, {"include_usage": True}, Usage(3, 4, 1)) == (
            server.requests[0].body["stream"], server.requests[0].body["stream_options"], events.result.usage
        )  # fmt: skip


def test_stream_options() -> None:
    """`stream_options` may be replaced, or left out by None; a request that is not streamed has none."""
    for given, sent in (({"include_usage": False}, {"include_usage": False}), (None, None)):
        with FakeServer(["Hi.", "Hi."]) as server:
            options = {"stream_options": given, "seed": None}
            runner = Runner(base_url=server.base_url, model="m", request_options=options)
            list(runner.stream("x"))
            runner.run("x")

        streamed, whole = (request.body for request in server.requests)
        assert (sent, None) == (streamed.get("stream_options"), whole.get("stream_options"))
        assert {"messages", "model", "stream"} == whole.keys() == streamed.keys() - {"stream_options"}


CALLS = [reply.calls(("add", {"a": 1}))]


def test_options_that_need_tools() -> None:
    """Keys that servers refuse without tools are left out of a last turn, which has none."""
    options = {"tool_choice": "auto", "parallel_tool_calls": False, "seed": 7}
    with FakeServer([CALLS[0], reply.text("Hi.")]) as server:
        through_sync(server, request_options={"parallel_tool_calls": False, "seed": 7}, tool_choice="auto", max_turns=1)

    assert [{*options}, {"seed"}] == [request.body.keys() & options.keys() for request in server.requests]


# -- who sees what of a request


class Recorder:
    """Something that behaves like a client, and keeps what `create` was given."""

    def __init__(self, answer: Any) -> None:
        self.chat = self.completions = self
        self.answer = answer
        self.seen: list[dict[str, Any]] = []

    def create(self, **request: Any) -> Any:
        self.seen.append(request)
        return self.answer


HI = {"choices": [{"message": {"content": "Hi."}, "finish_reason": "stop"}]}


def completed(model: Model, request: ModelRequest = ASKED) -> ModelResponse:
    return asyncio.run(model.complete(request))


def test_double_sees_ordinary_arguments() -> None:
    """A test double of a client is given the ordinary arguments, and may answer plain data."""
    client = Recorder(HI)

    assert "Hi." == completed(OpenAIModel(client, "fake", options={"seed": 7})).text
    assert [
        {"model": "fake", "messages": [{"role": "user", "content": "x"}], "seed": 7, "stream": False}
    ] == client.seen


def test_double_that_is_awaited() -> None:
    """A double may answer with a promise."""

    async def later() -> Any:
        return HI

    assert "Hi." == completed(OpenAIModel(Recorder(later()), "fake")).text


def test_double_keeps_what_it_saw() -> None:
    """Messages that a double was given do not change as the run continues."""
    memo: list[dict[str, Any]] = []
    client = Recorder(HI)
    completed(OpenAIModel(client, "fake"), ModelRequest(messages=(UserMessage("a"),), memo=memo))
    completed(OpenAIModel(client, "fake"), ModelRequest(messages=(UserMessage("a"), UserMessage("b")), memo=memo))

    assert [1, 2] == [len(request["messages"]) for request in client.seen]


class Proxy:
    """Wraps a method as tracing packages do: it answers for what it wraps, its class included."""

    def __init__(self, wrapped: Any, seen: list[dict[str, Any]]) -> None:
        self._wrapped, self._seen = wrapped, seen

    @property  # type: ignore[misc]
    def __class__(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]  # what such proxies do
        return type(self._wrapped)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._wrapped, name)

    def __call__(self, **request: Any) -> Any:
        self._seen.append(request)
        return self._wrapped(**request)


def wrapped_on_the_instance(client: openai.OpenAI, seen: list[dict[str, Any]]) -> None:
    create = client.chat.completions.create

    @functools.wraps(create)
    def traced(**request: Any) -> Any:
        seen.append(request)
        return create(**request)

    client.chat.completions.create = traced  # type: ignore[method-assign]


def wrapped_as_a_method(client: openai.OpenAI, seen: list[dict[str, Any]]) -> None:
    create: Any = type(client.chat.completions).create

    @functools.wraps(create)
    def traced(self: Any, **request: Any) -> Any:
        seen.append(request)
        return create(self, **request)

    client.chat.completions.create = types.MethodType(traced, client.chat.completions)  # type: ignore[method-assign]


def wrapped_in_a_proxy(client: openai.OpenAI, seen: list[dict[str, Any]]) -> None:
    client.chat.completions.create = Proxy(client.chat.completions.create, seen)  # type: ignore[method-assign]


def wrapped_below(client: openai.OpenAI, seen: list[dict[str, Any]]) -> None:
    """Wrap the method that `create` calls, as Logfire and OpenInference do."""
    request = client.request

    @functools.wraps(request)
    def traced(cast_to: Any, options: Any, **more: Any) -> Any:
        answer: Any = request(cast_to, options, **more)
        if answer.choices[0].message.content == "Hi.":
            seen.append(options.json_data)
        return answer

    client.request = traced  # type: ignore[method-assign]


@pytest.mark.parametrize("wrap", [wrapped_on_the_instance, wrapped_as_a_method, wrapped_in_a_proxy, wrapped_below])
def test_wrapper_sees_ordinary_arguments(wrap: Callable[[openai.OpenAI, list[dict[str, Any]]], None]) -> None:
    """Whoever has wrapped `create`, as tracing does, sees messages and tools as ordinary arguments."""
    seen: list[dict[str, Any]] = []
    with FakeServer([reply.text("Hi.")]) as server, openai.OpenAI(base_url=server.base_url, api_key="test") as client:
        wrap(client, seen)
        Runner([add], model="fake", client=client).run("x")

    assert [{"model", "messages", "tools", "stream"}] == [request.keys() for request in seen]
    assert [{"role": "user", "content": "x"}] == seen[0]["messages"]


class TracedStream:
    """A stream as tracing packages wrap it: it has the methods of both kinds, and sees whether the stream ended."""

    def __init__(self, stream: Any, seen: list[str]) -> None:
        self.response, self._stream, self._seen = stream, stream, seen

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> Any:
        try:
            return next(self._stream)
        except StopIteration:
            self._seen.append("end")
            raise

    def __aiter__(self) -> Any:
        return self

    async def __anext__(self) -> Any:
        try:
            return await anext(self._stream)
        except StopAsyncIteration:
            self._seen.append("end")
            raise


@pytest.mark.parametrize("is_held", [False, True])
@pytest.mark.parametrize("api", ["chat", "responses"])
@pytest.mark.parametrize("is_async", [False, True])
def test_wrapped_stream(is_async: bool, api: Any, is_held: bool) -> None:
    """A wrapper's stream is read to its end, unless the server holds it open: what traces it ends there."""
    seen: list[str] = []

    async def main(server: FakeServer) -> str:
        async with openai.AsyncOpenAI(base_url=server.base_url, api_key="test") as client:
            resource: Any = client.chat.completions if api == "chat" else client.responses
            create = resource.create

            async def traced(**request: Any) -> Any:
                return TracedStream(await create(**request), seen)

            resource.create = traced
            async with Runner(client=client, model="fake", api=api).astream("x") as stream:
                return "".join([event.text async for event in stream if isinstance(event, TextDelta)])

    def main_sync(server: FakeServer) -> str:
        with openai.OpenAI(base_url=server.base_url, api_key="test") as client:
            resource: Any = client.chat.completions if api == "chat" else client.responses
            create = resource.create
            resource.create = lambda **request: TracedStream(create(**request), seen)
            with Runner(client=client, model="fake", api=api).stream("x") as stream:
                return "".join(event.text for event in stream if isinstance(event, TextDelta))

    answer = reply.text("Hi there.").held() if is_held else reply.text("Hi there.")
    with FakeServer([answer]) as server:
        assert "Hi there." == (asyncio.run(main(server)) if is_async else main_sync(server))
    assert is_held or ["end"] == seen


def test_client_without_post() -> None:
    """An object that has only the `chat` of a client will do."""
    with FakeServer([reply.text("Hi.")]) as server, openai.OpenAI(base_url=server.base_url, api_key="test") as client:
        assert "Hi." == Runner([add], model="fake", client=types.SimpleNamespace(chat=client.chat)).run("x").output


def test_client_behind_create() -> None:
    """A request goes where the package's own `create` sends it, whichever object leads to that."""
    with FakeServer([reply.text("Hi.")]) as server, openai.OpenAI(base_url=server.base_url, api_key="test") as other:

        class Client(openai.OpenAI):
            @property
            def chat(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]  # a wrapper's
                return other.chat

        with Client(base_url="http://127.0.0.1:1", api_key="test", max_retries=0) as client:
            assert "Hi." == completed(OpenAIModel(client, "fake")).text


@pytest.mark.parametrize("name", ["timeout", "extra_headers", "extra_query", "extra_body"])
def test_option_of_the_client(name: str) -> None:
    """What is an argument of `create`, and no key of a body, is refused with what to do."""
    with pytest.raises(TypeError, match=rf"{name}.* is not a key of .* body: write the keys of extra_body beside"):
        OpenAIModel(Recorder(HI), "fake", options={name: {}})


@pytest.mark.parametrize("max_seconds", [None, 60])
@pytest.mark.parametrize("through", [through_sync, through_async])
def test_charset_of_an_answer(through: Callable[..., str], max_seconds: float | None) -> None:
    """JSON is UTF-8, whatever its headers say; what is not UTF-8 is refused."""
    limits = Limits(max_seconds=max_seconds)
    text = '{"choices": [{"message": {"content": "Grüß dich"}, "finish_reason": "stop"}]}'
    kind = "application/json; charset=latin-1"
    script = [reply.raw(text.encode(charset), content_type=kind) for charset in ("utf-8", "latin-1")]
    with FakeServer(script) as server:
        assert "Grüß dich" == through(server, limits=limits)
        with pytest.raises(ModelError, match="cannot be read"):
            through(server, limits=limits)


# -- what an answer becomes


@pytest.mark.parametrize("written", [r'"\ud800"', r'"\"\ud800\""', r'"[\ud800]"'])
def test_half_a_character_in_strict_arguments(written: str) -> None:
    """A call with half a character, in a value that a strict schema has as JSON text, gets an error, and the run ends.

    The function does not run.
    """
    seen: list[Any] = []

    def keep(value: Any) -> None:
        """Keep."""
        seen.append(value)

    with FakeServer([reply.calls(("keep", f'{{"value": {written}}}')), reply.text("No.")]) as server:
        runner = Runner([keep], model="fake", base_url=server.base_url, api_key="test", strict=True)
        result = runner.run("x")

    assert ("No.", []) == (result.output, seen)
    assert "Invalid arguments" in result.calls[0].result.text


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_strict_arguments_encoded_twice(api: Any) -> None:
    """Arguments that a model has encoded twice reach the function, and are sent back as one object."""

    def weigh(tags: dict[str, int], limit: int = 5) -> str:
        """Weigh tags."""
        return f"{tags} {limit}"

    written = '{"tags":[{"key":"a","value":1}],"limit":null}'
    with FakeServer([reply.calls(("weigh", json.dumps(written))), reply.text("Done.")]) as server:
        runner = Runner([weigh], model="fake", base_url=server.base_url, api_key="test", api=api, strict=True)
        result = runner.run("x")

    body = server.requests[1].body
    sent = body["messages"][1]["tool_calls"][0]["function"] if api == "chat" else body["input"][1]
    assert ("{'a': 1} 5", written) == (result.calls[0].result.text, sent["arguments"])


def test_response() -> None:
    """Text, reasoning, calls, cost, reason and the model's own name are read."""
    answer = {
        "model": "fake-2026",
        "choices": [
            {
                "message": {
                    "content": "Hi.",
                    "reasoning_content": "Hm.",
                    "tool_calls": [{"id": "w", "function": {"name": "add", "arguments": "{}"}}],
                },
                "finish_reason": "tool_calls",
            }
        ],
        "usage": {"prompt_tokens": 3, "completion_tokens": 4},
    }

    assert ModelResponse(
        text="Hi.",
        calls=(ToolCall(name="add", arguments="{}", provider_call_id="w"),),
        finish_reason="tool_calls",
        usage=Usage(3, 4, 1),
        model="fake-2026",
        reasoning="Hm.",
        reasoning_key="reasoning_content",
    ) == completed(OpenAIModel(Recorder(answer), "fake"))


@pytest.mark.parametrize(("written", "total"), [(5, 50), (20, 50), (20, None)])
def test_reasoning_is_output(written: int, total: int | None) -> None:
    """Tokens of reasoning are part of the output, also where a server such as xAI's counts them apart."""
    usage = {"prompt_tokens": 30, "completion_tokens": written, "total_tokens": total}
    reported = {**usage, "completion_tokens_details": {"reasoning_tokens": 15}}

    assert Usage(30, 20, 1, 0, 15) == completed(OpenAIModel(Recorder({**HI, "usage": reported}), "fake")).usage


def test_usage_in_detail() -> None:
    """Tokens of the cache and of reasoning are read where the server reports them."""
    usage = {
        "prompt_tokens": 30,
        "completion_tokens": 20,
        "prompt_tokens_details": {"cached_tokens": 12, "cache_write_tokens": 9},
        "completion_tokens_details": {"reasoning_tokens": 15},
    }

    assert Usage(30, 20, 1, 12, 15, 9) == completed(OpenAIModel(Recorder({**HI, "usage": usage}), "fake")).usage


@pytest.mark.parametrize(
    "usage",
    [None, {}, [], {"total_tokens": 5}, {"prompt_tokens": None, "completion_tokens": "4"},
     {"prompt_tokens": -3, "completion_tokens": True}],
    ids=str,
)  # fmt: skip
def test_odd_usage(usage: Any) -> None:
    """What a server does not count is taken as nothing; the request counts."""
    assert Usage(0, 0, 1) == completed(OpenAIModel(Recorder({**HI, "usage": usage}), "fake")).usage


def test_defaults_of_an_answer() -> None:
    """An answer without the model's name has ours, and one that came whole needs no finish reason."""
    response = completed(OpenAIModel(Recorder({"choices": [{"message": {"content": "Hi."}}]}), "fake"))

    assert ("fake", "stop") == (response.model, response.finish_reason)


def test_long_nonsense_is_shortened() -> None:
    """An error shows the beginning of what came, not all of it."""
    with pytest.raises(ModelError) as caught:
        completed(OpenAIModel(Recorder("x" * 10_000), "fake"))

    assert f"The server's answer is not a chat completion; check base_url: {'x' * 299}… (fake)" == str(caught.value)


def test_empty_answer() -> None:
    """An error about an answer without a text says that there is none."""
    with pytest.raises(ModelError) as caught:
        completed(OpenAIModel(Recorder(""), "fake"))

    assert "The server's answer is not a chat completion; check base_url: it is empty (fake)" == str(caught.value)


@pytest.mark.parametrize("error", ["no memory", {"message": "no memory"}], ids=["text", "object"])
def test_error_that_a_client_passes_on(error: Any) -> None:
    """An error within a stream that the client takes for a chunk is the run's, with the server's text."""
    client = Recorder([{"choices": [{"delta": {"content": "x"}}]}, {"error": error}])
    with (
        pytest.raises(ModelError, match="The server broke off its answer: .*no memory"),
        Runner(model=OpenAIModel(client, "fake")).stream("x") as events,
    ):
        list(events)


def test_repr() -> None:
    """A model shows its name and where it is; so does one behind a double."""
    with openai.OpenAI(base_url="http://127.0.0.1:1/v1", api_key="secret") as client:
        assert "<OpenAIModel fake at http://127.0.0.1:1/v1/>" == repr(OpenAIModel(client, "fake"))
    with openai.OpenAI(base_url="http://ann:secret@127.0.0.1:1/v1", api_key="secret") as client:
        assert "<OpenAIModel fake at http://127.0.0.1:1/v1/>" == repr(OpenAIModel(client, "fake"))
    assert "<OpenAIModel fake at ?>" == repr(OpenAIModel(Recorder(HI), "fake"))


# -- errors

EXCEPTIONS = sorted(
    (kind for kind in vars(openai).values() if type(kind) is type and issubclass(kind, openai.OpenAIError)),
    key=lambda kind: kind.__name__,
)
REFUSES = "The model's server refuses the request."
KEY = "The model's server does not accept the API key; check OPENAI_API_KEY or api_key."
ASIDE = "The openai package could not send the request."
REPORTS = "The model's server reports an error."

CONNECTION = "The model's server cannot be reached, or the connection broke; check base_url and that it runs."

UNKNOWN = "The model's server does not know this model or address; check model and base_url (often with /v1)."

ADVICE = {
    "APIConnectionError": CONNECTION,
    "APIError": REPORTS,
    "APIResponseValidationError": UNREADABLE,
    "APIStatusError": REPORTS,
    "APITimeoutError": "The model's server did not answer in time.",
    "AuthenticationError": KEY,
    "BadRequestError": REFUSES,
    "ConflictError": REPORTS,
    "ContentFilterFinishReasonError": ASIDE,
    "InternalServerError": "The model's server failed.",
    "LengthFinishReasonError": ASIDE,
    "NotFoundError": UNKNOWN,
    "OAuthError": KEY,
    "OpenAIError": ASIDE,
    "PermissionDeniedError": "The API key may not use this model.",
    "RateLimitError": "The model's server refuses more requests for now.",
    "UnprocessableEntityError": REFUSES,
    "WebSocketConnectionClosedError": ASIDE,
    "WebSocketQueueFullError": ASIDE,
    "_AmbiguousModuleClientUsageError": ASIDE,
}


def made(kind: type[openai.OpenAIError]) -> openai.OpenAIError:
    """Make an exception of the package without what its constructor wants."""
    error = kind.__new__(kind)
    Exception.__init__(error, "canary")
    return error


@pytest.mark.parametrize("kind", EXCEPTIONS, ids=lambda kind: kind.__name__)
def test_table_of_errors(kind: type[openai.OpenAIError]) -> None:
    """Every exception of the openai package has advice of its own or of its family; a new one must be put here."""
    with pytest.raises(ModelError) as caught, translate_errors():
        raise made(kind)

    status = getattr(kind, "status_code", None)
    origin = f"status {status}" if status else kind.__name__
    assert f"{ADVICE[kind.__name__]} ({origin}: canary)" == str(caught.value)


@pytest.mark.parametrize(
    "error", [ValueError("x"), UnicodeDecodeError("utf-8", b"\xff", 0, 1, "x"), TypeError(), KeyError()]
)
def test_other_errors(error: Exception) -> None:
    """What the package lets through is a ModelError too, with its cause."""
    with pytest.raises(ModelError, match=UNREADABLE) as caught, translate_errors():
        raise error

    assert (error, None) == (caught.value.cause, caught.value.__cause__)


@pytest.mark.parametrize("text", ["Event loop is closed", "<Lock> is bound to a different event loop"])
def test_client_of_another_loop(text: str) -> None:
    """An async client that is used in a second event loop is an error that says what to pass."""
    with pytest.raises(ModelError, match="serves one event loop: make one in each"), translate_errors():
        raise RuntimeError(text)


def test_place_of_an_error() -> None:
    """An error that is raised inside gets the model's name and address, once, and loses the key."""
    client = openai.OpenAI(base_url="http://localhost:1/v1", api_key="sk-canary-canary")
    with pytest.raises(ModelError) as caught, translate_errors(client, "m"), translate_errors(client, "m"):
        raise ModelError("The server says: sk-canary-canary.", 500)

    assert ("The server says: [key]. (m at http://localhost:1/v1/)", 500) == (str(caught.value), caught.value.status)


@pytest.mark.parametrize(
    "error", [ModelError("mine"), KeyboardInterrupt(), asyncio.CancelledError(), GeneratorExit()], ids=repr
)
def test_errors_that_pass(error: BaseException) -> None:
    """An error of ours, an interrupt and a cancellation pass as they are."""
    with pytest.raises(type(error)) as caught, translate_errors():
        raise error

    assert error is caught.value


def asked_once(answer: Reply) -> ModelError:
    with FakeServer([answer]) as server, pytest.raises(ModelError) as caught:
        through_sync(server)
    return caught.value


@pytest.mark.parametrize(
    ("status", "advice"),
    [(400, REFUSES), (401, KEY), (403, "may not use"), (404, "check model and base_url"), (409, REPORTS),
     (422, REFUSES), (429, "refuses more requests"), (500, "server failed"), (503, "server failed"), (418, REPORTS)],
)  # fmt: skip
def test_status(status: int, advice: str) -> None:
    """A status is on the error; the text has model, address, status and the server's message once, and what to do."""
    error = asked_once(reply.error(status, "the server's words"))

    assert (status, True) == (error.status, advice in str(error))
    parts = ("fake at http://127.0.0.1", f"status {status}", "server's words")
    assert [1, 1, 1] == [str(error).count(part) for part in parts]


def test_address_without_secrets() -> None:
    """The address in an error has no user and no password."""
    with FakeServer([reply.error(401, "no")]) as server:
        host = server.base_url.removeprefix("http://")
        runner = Runner(base_url=f"http://ann:secret@{host}", api_key="a-key-of-mine", model="m")
        with pytest.raises(ModelError, match="m at http://127.0.0.1") as caught:
            runner.run("Hello.")

    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("is_async", [False, True])
def test_account_of_the_environment(is_async: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the environment says of an account at OpenAI is not sent to another server."""
    monkeypatch.setenv("OPENAI_ORG_ID", "secret-1")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "secret-2")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-One: secret-3\nX-Two: secret-4")
    with FakeServer([reply.text("Hello.")]) as server:
        runner = Runner(base_url=server.base_url, api_key="a-key-of-mine", model="m")
        assert "Hello." == (asyncio.run(runner.arun("Hi.")) if is_async else runner.run("Hi.")).output

    assert "secret" not in str(server.requests[0].headers)


@pytest.mark.parametrize(
    "text",
    [
        "qwen does not support tools",  # Ollama
        "`tool calling` is not supported with this model",  # Groq
        "Unsupported param: tools",  # llama.cpp
    ],
)
def test_model_without_tools(text: str) -> None:
    """Where a model has no tool calling, the error names the dialect that needs none."""
    assert 'dialect="calls"' in str(asked_once(reply.error(400, text)))
    for other in ("no such tool", "Invalid schema of add, param: tools[0].function.parameters"):
        assert 'dialect="calls"' not in str(asked_once(reply.error(400, other)))


@pytest.mark.parametrize(
    "text",
    [
        "Tools with mixed values for 'strict' are not allowed.",
        "unknown field: strict",
        "Invalid schema: Objects provided via 'anyOf' must not share identical first keys.",
    ],
)
def test_server_without_strict_mode(text: str) -> None:
    """Where a server refuses strict tools, the error names the option that turns them off."""
    assert "strict=False turns strict mode off." in str(asked_once(reply.error(422, text)))
    assert "strict=False" not in str(asked_once(reply.error(422, "restricted")))


@pytest.mark.parametrize(
    "text",
    [
        "Your input exceeds the context window of this model.",  # OpenAI
        "This model's maximum context length is 8192 tokens.",  # vLLM
        "the request exceeds the available context size",  # llama.cpp
        "prompt is too long: 226360 tokens > 200000 maximum",  # Anthropic
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",  # Gemini
    ],
)
def test_conversation_that_is_too_long(text: str) -> None:
    """Where a conversation is longer than the model can read, the error names what shortens it."""
    assert "Compaction shortens long conversations." in str(asked_once(reply.error(400, text)))


def test_reason_of_any_length() -> None:
    """Advice is looked for in the beginning of what a server says, so that a very long text does not take long."""
    error = asked_once(reply.error(400, "no " * 10_000 + "qwen does not support tools"))

    assert ("no no" in str(error), 'dialect="calls"' in str(error)) == (True, False)


@pytest.mark.parametrize(
    ("status", "text", "api"),
    [
        (400, "Tools are not supported for m in /v1/chat/completions. To use them, use /v1/responses.", "responses"),
        (404, "This model is only supported in v1/responses and not in v1/chat/completions.", "responses"),
        (404, "This model is only supported in v1/chat/completions and not in v1/responses.", "chat"),
        (404, "there is no /v1/chat/completions", ""),
    ],
)
def test_model_of_the_other_api(status: int, text: str, api: str) -> None:
    """Where a model, or its tools, needs the other API, the error names the option."""
    assert ([api] if api else []) == re.findall(r'api="(\w+)" is for', str(asked_once(reply.error(status, text))))


def test_traceback_is_short() -> None:
    """A traceback ends with what to do, and has no line of the client's; the client's exception is the cause."""
    error = asked_once(reply.error(401, "no"))
    lines = "".join(traceback.format_exception(error)).splitlines()

    assert lines[-1].startswith("toolkit.errors.ModelError: The model's server does not accept the API key; check")
    assert not any("openai/" in line for line in lines) and len(lines) < 40
    assert isinstance(error.cause, openai.AuthenticationError)
    restored = pickle.loads(pickle.dumps(error))  # noqa: S301  our own
    assert (401, None) == (restored.status, restored.cause)


def test_nobody_is_there() -> None:
    """A server that is not there is an error that names what to check."""
    with FakeServer() as server:
        server.close()
        with pytest.raises(ModelError, match="cannot be reached.*check base_url and that it runs") as caught:
            through_sync(server)

    assert caught.value.status is None


def test_deadline() -> None:
    """A server that does not answer in time is an error that says so."""
    with (
        FakeServer([reply.hang()]) as server,
        openai.OpenAI(
            base_url=server.base_url, api_key="test", max_retries=0, timeout=httpx2.Timeout(5, read=0.05)
        ) as client,
        pytest.raises(ModelError, match="did not answer in time"),
    ):
        Runner(model="fake", client=client).run("x")


def test_key_is_not_shown() -> None:
    """A refused key is not in the error, and not in its cause."""
    with (
        FakeServer([reply.error(401, "no")]) as server,
        openai.OpenAI(base_url=server.base_url, api_key="sk-canary", max_retries=0) as client,
        pytest.raises(ModelError) as caught,
    ):
        Runner(model="fake", client=client).run("x")

    assert "canary" not in f"{caught.value!r} {caught.value.cause!r}"


def test_usage_of_a_choice() -> None:
    """Usage is read where Moonshot sends it in a stream: in the last choice."""
    usage = {"prompt_tokens": 3, "completion_tokens": 4}
    chunks = [{"choices": [{"delta": {"content": "Hi."}, "finish_reason": "stop", "usage": usage}]}]
    with Runner(model=OpenAIModel(Recorder(chunks), "fake")).stream("x") as events:
        list(events)

    assert Usage(3, 4, 1) == events.result.usage


def test_request_that_cannot_be_made() -> None:
    """An option that no request can carry is a ModelError, not the client's own."""
    with FakeServer() as server, pytest.raises(ModelError, match="The request to the model failed"):
        through_sync(server, request_options={"seed": object()})


@pytest.mark.parametrize(
    "given",
    [("sk-key", "gpt-6-luna"), ("gpt-6-luna", openai.OpenAI(api_key="test")), ("gpt-6-luna",), (openai.OpenAI,)],
    ids=["a key", "the wrong order", "a name alone", "a client alone"],
)
def test_arguments_in_the_wrong_place(given: tuple[Any, ...]) -> None:
    """A model without a client or a name is refused when it is made; no key is repeated."""
    text = "OpenAIModel() takes a client and the model's name, such as OpenAIModel(OpenAI(), 'gpt-6-luna')."
    with pytest.raises(TypeError, match=f"^{re.escape(text)}$"):
        OpenAIModel(*given)


def test_dialect_by_name() -> None:
    """A model takes a dialect of its API by name, for a FallbackModel of two servers, for example."""
    answers = [reply.text('{"calls": [{"_tool": "add", "a": 1}], "output": null}'), reply.text("Two.")]
    with FakeServer(answers) as server, openai.OpenAI(base_url=server.base_url, api_key="test") as client:
        result = Runner([add], model=OpenAIModel(client, "m", dialect="calls")).run("x")

    assert ([None], True) == (
        [made.result.error for made in result.calls],
        "response_format" in server.requests[0].body,
    )


@pytest.mark.parametrize("key", ["messages", "model", "stream", "tools"])
def test_options_that_each_request_has(key: str) -> None:
    """Options may not replace what each request has of its own, such as the run's tools."""
    with pytest.raises(TypeError, match=rf"options={{'{key}': ...}}: each request has a '{key}' of its own"):
        OpenAIModel(object(), "m", options={key: []})


SIGNED = {"google": {"thought_signature": "c2ln"}}
SIGNED_CALL = {"id": "a", "function": {"name": "get_time", "arguments": "{}"}, "extra_content": SIGNED}


@pytest.mark.parametrize("streams", [False, True])
def test_extra_content(streams: bool) -> None:
    """What a server added to a call is sent back with it, also after the chat was saved and loaded."""

    def get_time() -> str:
        """Get the time."""
        return "noon"

    message = json.dumps({"choices": [{"message": {"tool_calls": [SIGNED_CALL]}}]})
    chunk = json.dumps(
        {
            "choices": [
                {"index": 0, "delta": {"tool_calls": [{"index": 0, **SIGNED_CALL}]}, "finish_reason": "tool_calls"}
            ]
        }
    )
    events = reply.raw(f"data: {chunk}\n\ndata: [DONE]\n\n".encode(), content_type="text/event-stream")
    first = events if streams else reply.raw(message.encode(), content_type="application/json")
    with FakeServer([first, reply.text("It is noon."), reply.text("Yes.")], strict=False) as server:
        runner, session = Runner([get_time], base_url=server.base_url, model="gemini"), Session()
        if streams:
            list(runner.stream("What time is it?", session=session))
        else:
            runner.run("What time is it?", session=session)
        runner.run("Sure?", session=Session.from_json(session.to_json()))

    sent = [request.body["messages"][1]["tool_calls"][0] for request in server.requests[1:]]
    assert [SIGNED, SIGNED] == [call["extra_content"] for call in sent]


def send_back(first: Reply, streams: bool) -> list[dict[str, Any]]:
    """Return a response with a call as it is sent back: in its run, from a saved chat and from a history in JSON."""
    with FakeServer([first, *map(reply.text, ("Done.", "Yes.", "Sure."))]) as server:
        runner, session = Runner([add], base_url=server.base_url, model="thinker"), Session()
        if streams:
            list(runner.stream("Add 1.", session=session))
        else:
            runner.run("Add 1.", session=session)
        runner.run("Sure?", session=Session.from_json(session.to_json()))
        runner.run("Really?", messages=server.requests[-1].body["messages"])
    return [request.body["messages"][1] for request in server.requests[1:]]


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("key", ["reasoning", "reasoning_content"])
@pytest.mark.parametrize("text", ["Hm.", ""])
def test_reasoning_goes_back_as_it_came(text: str, key: str, streams: bool) -> None:
    """Reasoning goes back with the server's key, even if it is empty, also from a saved chat or a history in JSON."""
    call = {"index": 0, "id": "a", "function": {"name": "add", "arguments": '{"a": 1}'}}
    deltas = [{key: text}, {"content": "", "tool_calls": [call]}]
    chunks = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}
    whole = reply.body({"choices": [{"message": {key: text, "tool_calls": [call]}}]})

    sent = send_back(reply.chunks([*chunks, end]) if streams else whole, streams)
    assert [{key: text}] * 3 == [{k: message[k] for k in message if k.startswith("reasoning")} for message in sent]


def test_reasoning_that_a_hook_keeps_back() -> None:
    """Without its key, reasoning stays in the history and is not sent: for a server that refuses another one's."""

    class Quiet:
        def before_model(self, request: ModelRequest) -> ModelRequest:
            messages = (m.replace(reasoning_key="") if isinstance(m, ModelResponse) else m for m in request.messages)
            return replace(request, messages=tuple(messages))

    history = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hi.", "reasoning_content": "Hm."}]
    with FakeServer([reply.text("Yes.")]) as server:
        result = Runner(base_url=server.base_url, model="m", hooks=[Quiet()]).run("Sure?", messages=history)

    answered = result.messages[1]
    assert isinstance(answered, ModelResponse)
    assert ("Hm.", {"role": "assistant", "content": "Hi."}) == (
        answered.reasoning,
        server.requests[0].body["messages"][1],
    )


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "'messages.1': property 'reasoning_content' is unsupported"),  # Groq
        (422, "Extra inputs are not permitted: body.messages.1.assistant.reasoning_content"),  # Mistral
    ],
)
def test_reasoning_that_a_server_refuses(status: int, message: str) -> None:
    """A server that refuses the reasoning of another one gets the conversation without it, and its own back."""
    history = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hi.", "reasoning_content": "Hm."}]
    call = {"id": "a", "function": {"name": "add", "arguments": '{"a": 1}'}}
    thought = reply.body({"choices": [{"message": {"reasoning": "Well.", "tool_calls": [call]}}]})
    with FakeServer([reply.error(status, message), thought, "Yes."]) as server:
        result = Runner([add], base_url=server.base_url, model="m").run("Sure?", messages=history)

    sent = [[key for m in each.body["messages"] for key in m if "reasoning" in key] for each in server.requests]
    assert "Yes." == result.output
    assert [["reasoning_content"], [], ["reasoning"]] == sent


SUMMARY = {"type": "reasoning.summary", "summary": "I look at the clock.", "id": None, "index": 0}
SIGNATURE = {"type": "reasoning.encrypted", "data": "c2ln", "id": "a", "index": 0}


@pytest.mark.parametrize("streams", [False, True])
def test_reasoning_details(streams: bool) -> None:
    """The reasoning details of OpenRouter are sent back as they came, also from a saved chat or a history in JSON."""
    call = {"index": 0, "id": "a", "function": {"name": "add", "arguments": '{"a": 1}'}}
    whole = {"reasoning_details": [SUMMARY, SIGNATURE], "tool_calls": [call]}
    deltas = [
        {"reasoning_details": [{**SUMMARY, "summary": "I look "}]},
        {"reasoning_details": [{**SUMMARY, "summary": "at the clock."}]},
        {"reasoning_details": [SIGNATURE], "tool_calls": [call]},
    ]
    chunks = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}
    first = reply.chunks([*chunks, end]) if streams else reply.body({"choices": [{"message": whole}]})

    assert [[SUMMARY, SIGNATURE]] * 3 == [message["reasoning_details"] for message in send_back(first, streams)]


THOUGHT = {"type": "thinking", "thinking": "I look at the clock.", "signature": "c2ln"}
SECOND = {"type": "thinking", "thinking": "It is late.", "signature": "ZW5k"}
REDACTED = {"type": "redacted_thinking", "data": "c2VjcmV0"}


@pytest.mark.parametrize("streams", [False, True])
def test_thinking_blocks(streams: bool) -> None:
    """Claude's thoughts in LiteLLM's form go back whole and in order: with a call, Claude refuses to miss them."""
    call = {"index": 0, "id": "a", "function": {"name": "add", "arguments": '{"a": 1}'}}
    blocks = [THOUGHT, REDACTED, SECOND, SECOND]
    fragments: list[dict[str, Any]] = [
        {**THOUGHT, "thinking": "I look ", "signature": None},
        {**THOUGHT, "thinking": "at the clock.", "signature": ""},
        {**THOUGHT, "thinking": ""},
        REDACTED,
        SECOND,
        {"type": "thinking", "thinking": "It is late."},
        {"type": "thinking", "signature": "ZW5k"},
    ]
    deltas = [{"reasoning_content": each.get("thinking"), "thinking_blocks": [each]} for each in fragments]
    chunks = [{"choices": [{"index": 0, "delta": delta}]} for delta in [*deltas, {"tool_calls": [call]}]]
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}
    whole = {"choices": [{"message": {"thinking_blocks": blocks, "tool_calls": [call]}}]}

    sent = send_back(reply.chunks([*chunks, end]) if streams else reply.body(whole), streams)
    assert [blocks] * 3 == [message["thinking_blocks"] for message in sent]


def test_reasoning_details_without_an_answer() -> None:
    """Of an answer that was cut off in its reasoning, they are not sent to Responses, which does not take them."""
    cut = {"message": {"content": "", "reasoning_details": [SUMMARY]}, "finish_reason": "length"}
    with FakeServer([reply.body({"choices": [cut]}), "Hello."]) as server:
        session = Session()
        Runner([], base_url=server.base_url, model="any").run("Hi", session=session)
        Runner([], base_url=server.base_url, model="any", api="responses").run("Hi?", session=session)

    assert "reasoning.summary" in session.to_json()
    assert [item["role"] for item in server.requests[-1].body["input"]] == ["user", "user"]
