"""Runs in a SQLite file: each step is saved, and another process goes on after a crash."""

from __future__ import annotations

import json
import os
import random
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from toolkit import Decision, ModelError, Runner, SQLiteLedger, SQLiteRuns, tool
from toolkit.errors import ConversationError, StoreError
from toolkit.testing import ScriptedModel, call


@pytest.fixture
def runs(tmp_path: Path) -> SQLiteRuns:
    return SQLiteRuns(tmp_path / "runs.db")


@tool(effect="write")
def write(n: int) -> str:
    """Write."""
    return f"written {n}"


def make(runs: SQLiteRuns, *script: Any, **options: Any) -> Runner:
    return Runner([write], model=ScriptedModel(script), checkpoint=runs, **options)


def test_a_run_goes_on(runs: SQLiteRuns) -> None:
    """A run whose model failed is resumed by its id; what was done is not done again."""
    with pytest.raises(ModelError):
        make(runs, call("write", n=1), ModelError("down")).run("Go.")
    [(run_id, phase)] = runs.unfinished().items()
    result = make(runs, "Done.").resume(run_id)

    assert ("asking", "Done.", "written 1") == (phase, result.output, result.messages[2].text)
    assert ({}, "finished") == (runs.unfinished(), runs.load(run_id).phase)


def test_an_ended_run_is_not_resumed(runs: SQLiteRuns) -> None:
    """A run that has ended does not ask the model again."""
    run_id = make(runs, "Done.").run("Go.").state.run_id

    with pytest.raises(ConversationError, match="has finished"):
        make(runs).resume(run_id)


@pytest.mark.parametrize("name", ["", "no-such-run"])
def test_unknown_run(name: str, runs: SQLiteRuns) -> None:
    """An id that is not in the file is an error that says where ids are."""
    with pytest.raises(ConversationError, match=r"unfinished\(\)"):
        make(runs).resume(name)


def test_run_ids_need_saved_runs() -> None:
    """Without a file a run's id is refused, with what it needs."""
    with pytest.raises(ConversationError, match=r"not the state of a run: '5c1f'.*checkpoint=SQLiteRuns"):
        Runner(model=ScriptedModel([])).resume("5c1f")


def test_paused_runs(runs: SQLiteRuns) -> None:
    """A run that waits for approval is in the file; the decision goes on from there."""
    paused = make(runs, call("write", n=1), approve=lambda _: Decision.defer()).run("Go.")
    found = runs.unfinished()
    run_id = paused.state.run_id
    result = make(runs, "Done.").resume(run_id, {paused.pending[0].call.id: True})

    assert ({run_id: "paused"}, "Done.", "written 1") == (found, result.output, result.messages[2].text)


def test_a_state_is_accepted_as_before(runs: SQLiteRuns) -> None:
    """The state itself and its JSON resume a run, too."""
    for is_text in (False, True):
        paused = make(runs, call("write", n=1), approve=lambda _: Decision.defer()).run("Go.")
        decisions = {paused.pending[0].call.id: True}

        assert (
            "Done." == make(runs, "Done.").resume(paused.state.to_json() if is_text else paused.state, decisions).output
        )


def test_own_ledger_stays(runs: SQLiteRuns, tmp_path: Path) -> None:
    """A ledger of the application's own is used in place of the file's."""
    ledger = SQLiteLedger(tmp_path / "calls.db")
    run_id = make(runs, call("write", n=1), "Done.", ledger=ledger).run("Go.").state.run_id

    assert (0, 4) == (len(runs.read(run_id)), len(ledger.read(run_id)))


def test_prune(runs: SQLiteRuns) -> None:
    """Ended runs are deleted with their calls once they are old enough; others stay."""
    ended = make(runs, call("write", n=1), "Done.").run("Go.").state.run_id
    waiting = make(runs, call("write", n=1), approve=lambda _: Decision.defer()).run("Go.").state.run_id

    assert (0, 1, 0) == (runs.prune(60), runs.prune(0), runs.prune(0))
    assert ((), [waiting]) == (runs.read(ended), [*runs.unfinished()])
    with pytest.raises(ValueError, match="seconds=-1"):
        runs.prune(-1)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other rights")
def test_file_is_private(runs: SQLiteRuns, tmp_path: Path) -> None:
    """Only its owner may read the conversations; another kind of store is refused."""
    assert 0 == stat.S_IMODE((tmp_path / "runs.db").stat().st_mode) & 0o077
    with pytest.raises(StoreError, match="something other than a ledger"):
        SQLiteLedger(tmp_path / "runs.db")


# -- kills

PROGRAM = """
import os, sys, time
from pathlib import Path
from toolkit import Runner, SQLiteRuns, ToolContext, tool
from toolkit.models import ModelResponse
from toolkit.testing import ScriptedModel, call

HOME = Path(sys.argv[1])

def note(file, line):
    handle = os.open(HOME / file, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    os.write(handle, f"{line}\\n".encode())
    os.close(handle)

@tool(effect="write")
def book(n: int, context: ToolContext) -> str:
    '''Book, once.'''
    note("booked", context.call_id)
    time.sleep(0.01)
    return f"booked {n}"

@tool(idempotent=True)
def store(n: int, context: ToolContext) -> str:
    '''Store under a key.'''
    note("stored", f"{context.call_id}:{context.idempotency_key}")
    time.sleep(0.01)
    return f"stored {n}"

def answer(request):
    turn = sum(isinstance(message, ModelResponse) for message in request.messages)
    time.sleep(0.01)
    if turn == 6:
        return "Done."
    return [call("store", n=turn), call("book", n=turn), call("store", n=turn + 100)]

runs = SQLiteRuns(HOME / "runs.db")
runner = Runner([book, store], model=ScriptedModel(answer), checkpoint=runs)
print("ready", flush=True)
open_runs = [*runs.unfinished()]
result = runner.resume(open_runs[0]) if open_runs else runner.run("Go.")
(HOME / "result.part").write_text(result.state.to_json())
(HOME / "result.part").replace(HOME / "result")
"""


def start(home: Path) -> subprocess.Popen[str]:
    root = str(Path(__file__).parents[2])
    command = [sys.executable, "-c", PROGRAM, str(home)]
    made = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={"PYTHONPATH": root})  # noqa: S603
    assert made.stdout and "ready\n" == made.stdout.readline()
    return made


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")
@pytest.mark.parametrize("seed", range(int(os.environ.get("TOOLKIT_RUN_KILLS", "1"))))
def test_kills(seed: int, tmp_path: Path) -> None:
    """However often its process is killed, a run comes to its end; no call that may not be repeated ran twice."""
    chance = random.Random(seed)  # noqa: S311  the same kills each time
    for _ in range(50):
        process = start(tmp_path)
        time.sleep(chance.uniform(0, 0.25))
        process.kill()
        process.wait(timeout=30)
        assert process.stdout
        process.stdout.close()
        if (tmp_path / "result").exists():
            break
    else:
        with start(tmp_path) as process:
            process.wait(timeout=60)

    messages = json.loads((tmp_path / "result").read_text())["messages"]
    results = [message for message in messages if message.get("name") in ("book", "store")]
    run_id = results[0]["call_id"].partition("_")[0]  # where the result of one was not written, another was begun
    booked, stored = (
        [call for call in (tmp_path / name).read_text().split() if call.startswith(run_id)]
        for name in ("booked", "stored")
    )
    answered = [message["text"] for message in results]
    unknown = [message for message in results if message["text"].startswith("This call was started before")]

    assert "Done." == messages[-1]["text"]
    assert 18 == len(results) == len({message["call_id"] for message in results})
    assert len({*booked}) == len(booked) <= 6
    assert {"book"} >= {message["name"] for message in unknown}
    assert {*booked} >= {m["call_id"] for m in results if m["name"] == "book" and m not in unknown}
    assert 12 == len({*stored}) == sum(text.startswith("stored") for text in answered)
