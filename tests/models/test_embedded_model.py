"""The embedded model for real: it calls functions, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.properties import IS_WHOLE, combine
from toolkit import NoModelError, Runner, RunResult, Tool, Toolbox, schema
from toolkit.cli.demonstration import QUESTIONS, add, convert, weather
from toolkit.events import TextDelta
from toolkit.models.local import EmbeddedModel, embedded_model
from toolkit.models.openai import OpenAIModel

pytestmark = pytest.mark.real_model

ANSWERS = {
    QUESTIONS[0]: ("add", '{"a": 17, "b": 25}', "The sum of 17 and 25 is 42."),
    QUESTIONS[1]: ("convert", '{"amount": 100, "source": "USD", "target": "EUR"}', "100 USD is 90 EUR."),
    QUESTIONS[2]: ("weather", '{"city": "Paris"}', "The weather in Paris is 18 degrees and sunny."),
}

# A fork that starts a server of its own, and goes on.
FORK = """
reads, writes = os.pipe()
child = os.fork()
if not child:
    share_server(get_weights())
    os.write(writes, b"started")
    os.close(1)
    time.sleep(60)
    os._exit(0)
os.read(reads, 7)
print(child, flush=True)
"""


@pytest.fixture(scope="module")
def model() -> OpenAIModel:
    """The embedded model, fetched where it is not here yet."""
    return embedded_model()


def describe(value: tuple[Tool[..., object], ...] | str) -> str:
    """Describe a question, or tools by their names."""
    return value if isinstance(value, str) else "-".join(tool.name for tool in value)


def summarize(result: RunResult) -> tuple[str, str, str]:
    """The call and the answer of a run with one call."""
    (call,) = result.calls
    return call.name, call.arguments, result.output


PAIRS = combine(itertools.permutations((add, convert, weather)), QUESTIONS)


@pytest.mark.parametrize(("tools", "question"), PAIRS if IS_WHOLE else PAIRS[::2], ids=describe)
def test_questions_of_the_demonstration(
    model: OpenAIModel, tools: tuple[Tool[..., object], ...], question: str
) -> None:
    """Each question gets the right call and the right sentence, whatever the tools' order; both turns' tokens count."""
    result = Runner(tools, model=model).run(question)

    assert (ANSWERS[question], 2) == (summarize(result), result.usage.requests)
    assert result.usage.input_tokens > 50 and result.usage.output_tokens > 10


def sentiment(output: dict[str, Any]) -> Tool[..., Any]:
    """A tool that is declared and not implemented."""
    text = schema.string("Text to analyze")
    shown = {"type": "object", "properties": {"text": text, "_output": output}}
    return Tool.from_schema("sentimentAnalysis", {**shown, "description": "Analyzes text sentiment"})


REVIEW = "What is the sentiment of the text 'I love this library'?"


def test_tool_without_a_function(model: OpenAIModel) -> None:
    """The model executes a tool that has no function: its output is an object of the schema."""
    output = {"type": "object", "properties": {"sentiment": {"type": "string"}, "confidence": {"type": "number"}}}
    (made,) = Runner([sentiment(output)], model=model).run(REVIEW).calls

    assert made.result.error is None
    assert isinstance(made.result.value["sentiment"], str)


def test_tool_with_and_one_without_a_function(model: OpenAIModel) -> None:
    """Both kinds stand side by side, and the right one is called: with an output by the model, and by the function."""
    mood = schema.enum("positive", "negative", "neutral")
    output = schema.object(sentiment=mood, confidence=schema.number(minimum=0, maximum=1))
    place = {**schema.object(location=schema.string()), "description": "Gets the weather of a place"}
    box = Toolbox([sentiment(output), Tool.from_schema("weatherCheck", place)])
    box.bind("weatherCheck", lambda location: f"18 degrees and sunny in {location}")
    ran = [Runner(box, model=model).run(question).calls[0] for question in (REVIEW, QUESTIONS[2])]

    assert [("sentimentAnalysis", "positive"), ("weatherCheck", "18 degrees and sunny in Paris")] == [
        (ran[0].name, ran[0].result.value["sentiment"]),
        (ran[1].name, ran[1].result.value),
    ]


def test_stream_gives_the_sentence_in_pieces(model: OpenAIModel) -> None:
    """The answer streams; the call before it is not text."""
    with Runner([add, convert, weather], model=model).stream(QUESTIONS[2]) as stream:
        words = [event.text for event in stream if isinstance(event, TextDelta)]

    assert len(words) > 3
    assert ANSWERS[QUESTIONS[2]][2] == "".join(words)


def test_two_event_loops() -> None:
    """A Runner that chose the embedded model itself works in one event loop after the other."""
    runner = Runner([add, convert, weather])
    outputs = [asyncio.run(runner.arun(QUESTIONS[0])).output for _ in range(2)]

    assert [ANSWERS[QUESTIONS[0]][2]] * 2 == outputs


def test_runners_share_one_server(model: OpenAIModel) -> None:
    """A second embedded model of a process is served by the same server."""
    assert model.client.base_url == embedded_model().client.base_url


def test_name_in_answers(model: OpenAIModel) -> None:
    """An answer, which sessions and logs keep, has the name of the weights, and not where they lie."""
    (turn,) = Runner(model=model).run("Hello").responses

    assert "SmolLM2-135M-Instruct.Q4_1" == turn.response.model


def test_server_wants_its_key(model: OpenAIModel) -> None:
    """Another program of this machine cannot talk to the server."""
    url = f"{model.client.base_url}chat/completions"

    assert 401 == httpx2.post(url, json={"messages": [{"role": "user", "content": "Hi"}]}, trust_env=False).status_code


def test_file_that_is_no_model(tmp_path: Path) -> None:
    """A file that llama.cpp cannot load is refused with its name."""
    file = tmp_path / "broken.gguf"
    file.write_bytes(b"GGUF?")

    with pytest.raises(NoModelError, match=r"broken\.gguf could not be served"):
        embedded_model(file)
    with pytest.raises(NoModelError, match=r"There is no file .*missing\.gguf\."):
        embedded_model(tmp_path / "missing.gguf")


def test_program_without_a_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a program of PyInstaller, which would start itself and no Python, there is no embedded model."""
    monkeypatch.setattr(sys, "frozen", True, raising=False)

    with pytest.raises(NoModelError, match=r"a program of PyInstaller does not have\. For another model set OPENAI"):
        embedded_model(tmp_path)


def test_library_of_the_system_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where llama.cpp lacks a library of the system, as in small images of containers, the error has the command."""
    (tmp_path / "xllamacpp.py").write_text("raise ImportError('libgomp.so.1: cannot open shared object file')")
    (tmp_path / "small.gguf").write_bytes(b"GGUF")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    with pytest.raises(NoModelError, match=r"missing: libgomp\.so\.1: .* apt-get install libgomp1"):
        embedded_model(tmp_path / "small.gguf")


@pytest.mark.slow
def test_demonstration_in_a_pipe() -> None:
    """`toolkit demo` prints the whole transcript without colours, and nothing on standard error."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("OPENAI_", "TOOLKIT_"))}
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-m", "toolkit", "demo"],
        env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip

    assert (0, "") == (ran.returncode, ran.stderr)
    assert all(f"Answer    {answer}\n" in ran.stdout for _, _, answer in ANSWERS.values())
    assert "\x1b" not in ran.stdout and "Answered by SmolLM2-135M-Instruct" in ran.stdout


@pytest.mark.slow
def test_server_that_died_is_replaced() -> None:
    """When its server was killed, a Runner starts another one for its next run."""
    runner = Runner([add, convert, weather])
    before = runner.model
    assert isinstance(before, EmbeddedModel)
    os.kill(before.server.pid, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while before.is_open and time.monotonic() < deadline:
        time.sleep(0.02)

    assert ANSWERS[QUESTIONS[0]] == summarize(runner.run(QUESTIONS[0]))


@pytest.mark.skipif(not Path("/proc").exists(), reason="the process is looked for in /proc")
@pytest.mark.parametrize("beside", ["", FORK], ids=["alone", "with a fork that has a server of its own"])
def test_server_ends_with_a_killed_owner(beside: str) -> None:
    """When the owner is killed, nothing of the server stays, even while a fork goes on with a server of its own."""
    script = (
        "import os, time; from toolkit.models.local.server import share_server\n"
        "from toolkit.models.local import get_weights\n"
        f"pid = share_server(get_weights()).pid\n{beside}\nprint(pid, flush=True); input()"
    )
    owner = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with owner:
        assert owner.stdout is not None
        fork = int(owner.stdout.readline()) if beside else 0
        pid = int(owner.stdout.readline())
        owner.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 10
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    if fork:
        os.kill(fork, signal.SIGKILL)

    assert not Path(f"/proc/{pid}").exists()
