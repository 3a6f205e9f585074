"""Many prompts with one runner, some of them at the same time; and the file that keeps their answers."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from dataclasses import replace
from functools import partial
from hashlib import sha256
from operator import length_hint
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeAlias, cast

from toolkit._concurrency.async_backend import AsyncBackend
from toolkit._concurrency.tasks import get_loop
from toolkit._concurrency.threads import get_item
from toolkit._messages import message_to_dict
from toolkit._options import is_whole
from toolkit._runner.conversation import Conversation, Finished
from toolkit._runner.limits import Limits
from toolkit._runner.options import MAP_DEFAULTS, MapOptions, Prompt, RunRequest
from toolkit._runner.output import TEXT, Output, build_output
from toolkit._runner.prompt import make_user_message
from toolkit._runner.result import RunResult, restore_result
from toolkit._runner.run import Run
from toolkit._runner.state import RunState
from toolkit._runner.stream import RunHandle
from toolkit._schema.json_text import dump_json
from toolkit._tools.library_values import is_table
from toolkit.errors import ConversationError, NoModelError, StoreError, ToolError
from toolkit.events import REASONS_WITHOUT_ANSWER
from toolkit.models import Model
from toolkit.models.combined import RateLimitedModel

# The outcome of a prompt: the result of its run, or the exception that the run raised.
PromptOutcome: TypeAlias = "RunResult[Any] | Exception"

# Characters of the bar, and of its line.
WIDTH = 30
LINE = 75
# The beginning of each line of a file of answers.
BEGINNING = '{"digest": "'
NO_ANSWER = frozenset({*REASONS_WITHOUT_ANSWER, "halted", "length", "content_filter", "empty"})


def run_all(create: Callable[[RunRequest], Run[Any]], batch: PromptBatch) -> list[PromptOutcome]:
    """Run the prompts of a batch in the background, and return their outcomes, in order.

    If this function raises an exception, also KeyboardInterrupt, the runs are cancelled.
    """
    request = replace(batch.request, streams=True, in_background=True)
    ended = SimpleQueue[int]()
    active = dict[int, tuple[Prompt, RunHandle[Any]]]()

    def wait_for_one() -> None:
        number = cast("int", get_item(ended, None))
        prompt, handle = active.pop(number)
        batch.add(number, prompt, _get_outcome(handle))

    try:
        for number, prompt in enumerate(batch.prompts):
            try:
                if batch.skip(number, prompt):
                    continue
                handle = RunHandle(create(replace(request, prompt=prompt)))
            except Exception as error:  # noqa: BLE001  it is the outcome of the prompt
                batch.add(number, prompt, error)
                continue
            active[number] = prompt, handle
            handle.call_when_done(partial(ended.put, number))
            if len(active) == batch.max_parallel:
                wait_for_one()
        while active:
            wait_for_one()
    finally:
        for _, handle in active.values():
            handle.cancel()
        batch.end()

    return batch.list_outcomes()


async def arun_all(create: Callable[[RunRequest], Run[Any]], batch: PromptBatch) -> list[PromptOutcome]:
    """Do what `run_all` does, in the running event loop. Cancelling it cancels the runs."""
    get_loop()
    waiting = enumerate(batch.prompts)

    async def work() -> None:
        for number, prompt in waiting:
            try:
                if batch.skip(number, prompt):
                    continue
                run = create(replace(batch.request, prompt=prompt))
                outcome: PromptOutcome = await run.finish(AsyncBackend())
            except Exception as error:  # noqa: BLE001  it is the outcome of the prompt
                outcome = error
            batch.add(number, prompt, outcome)

    try:
        workers = [asyncio.ensure_future(work()) for _ in range(batch.max_parallel)]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
    finally:
        batch.end()

    return batch.list_outcomes()


class PromptBatch:
    """The prompts of `Runner.map`, which says what the options mean and what is raised, and their outcomes so far.

    The prices of `limits` give the costs of saved answers.
    """

    def __init__(self, prompts: Iterable[Prompt], output_type: Any, options: MapOptions, limits: Limits) -> None:
        if isinstance(prompts, (str, Mapping)) or not isinstance(prompts, Iterable):
            raise TypeError(
                f"prompts={prompts!r:.100} is not a list of prompts: write [prompt], or runner.run(prompt)."
            )
        if is_table(prompts) and hasattr(prompts, "columns"):
            raise TypeError("prompts= is a table, whose items are its columns: pass one of them, such as df['text'].")

        given: dict[str, Any] = {**MAP_DEFAULTS, **options}
        if isinstance(given["messages"], Iterator):  # each run reads them
            given["messages"] = tuple(given["messages"])
        self.prompts = prompts
        max_parallel: int = given.pop("max_parallel")
        if not is_whole(max_parallel, 1):
            raise ValueError(f"max_parallel={max_parallel!r} is not a whole number of at least 1.")

        self.max_parallel: int = min(max_parallel, max(1, length_hint(prompts, sys.maxsize)))
        limit_rate = make_rate(given.pop("rpm", None), given.pop("tpm", None))
        save = given.pop("save", None)
        if save is not None and not isinstance(save, (str, os.PathLike)):
            raise TypeError(f"save={save!r:.100} is not a file's path, such as save='answers.jsonl'.")

        is_notebook = type(sys.stdout).__module__.startswith("ipykernel")  # it displays standard error as a failure
        out = sys.stdout if is_notebook else sys.stderr
        has_bar = given.pop("progress") and out and (is_notebook or out.isatty())
        self._bar = out if has_bar else None
        self.request = RunRequest(prompt=None, output_type=output_type, limit_rate=limit_rate, **given)
        output = TEXT if output_type is str else build_output(output_type)
        self._answers = None if save is None else Answers(save, output, limits)
        self._outcomes: dict[int, PromptOutcome] = {}
        self._skipped = self._failed = 0
        self._start = time.monotonic()

    def skip(self, number: int, prompt: Prompt) -> bool:
        """Use the saved answer to a prompt. Return False if there is none."""
        saved = self._answers.take(prompt) if self._answers else None
        if saved is None:
            return False
        self._outcomes[number] = saved
        self._skipped += 1
        self._report_progress()
        return True

    def add(self, number: int, prompt: Prompt, outcome: PromptOutcome) -> None:
        """Add the outcome of a prompt, and save it.

        Raises:
            StoreError: The outcome cannot be saved.
            NoModelError: The outcome is one, and no prompt was answered before. All other prompts would fail alike.
        """
        if isinstance(outcome, NoModelError) and len(self._outcomes) == self._skipped + self._failed:
            raise outcome
        self._outcomes[number] = outcome
        if isinstance(outcome, Exception):
            self._failed += 1
        if self._answers:
            self._answers.save(prompt, outcome)
        self._report_progress()

    def list_outcomes(self) -> list[PromptOutcome]:
        """List the outcomes in the order of their prompts."""
        return [self._outcomes[number] for number in sorted(self._outcomes)]

    def end(self) -> None:
        """End the line of the progress bar."""
        if self._bar:
            self._bar.write("\n")

    def _report_progress(self) -> None:
        if not self._bar:
            return
        done = len(self._outcomes)
        total = len(self.prompts) if isinstance(self.prompts, Sized) else 0
        parts = [f"{done}/{total} done" if total else f"{done} done", f"{self._failed} failed" if self._failed else ""]
        if total and done > self._skipped:
            seconds = (time.monotonic() - self._start) / (done - self._skipped) * (total - done)
            parts.append(f"{int(seconds) // 60}:{int(seconds) % 60:02} left")
        bar = f"[{'#' * (WIDTH * done // total):.<{WIDTH}}] " if total else ""
        self._bar.write("\r" + (bar + ", ".join(filter(None, parts))).ljust(LINE))  # covers a longer line
        self._bar.flush()


def _get_outcome(handle: RunHandle[Any]) -> PromptOutcome:
    try:
        return handle.result()
    except Exception as error:  # noqa: BLE001  it is the outcome of the prompt
        return error


def make_rate(rpm: int | None, tpm: int | None) -> Callable[[Model], Model] | None:
    """Return a function that wraps a model so that all its uses together keep a rate per minute.

    Return None without a rate.

    Raises:
        ValueError: A rate is not a whole number above 0.
    """
    for name, rate in (("rpm", rpm), ("tpm", tpm)):
        if rate is not None and not is_whole(rate, 1):
            raise ValueError(f"{name}={rate!r} is not a whole number of at least 1.")
    if rpm is None and tpm is None:
        return None
    limited = dict[int, RateLimitedModel]()
    return lambda model: limited.setdefault(id(model), RateLimitedModel(model, rpm, tpm))


class Answers:
    """The answers to prompts in a file, one per line, so that a second attempt runs only the other prompts.

    A line is added at the end in one write, and never changed. A process that dies while it writes leaves half a line,
    which is not an answer. The next answer starts on a new line. The same prompt may be in the file several times: each
    of its answers is taken once.

    Args:
        path: The file; created if it does not exist. It holds whole conversations, and only its owner may read it.
        output: What the answers are. An answer of another type is ignored.
        limits: Their prices give the costs.

    Raises:
        StoreError: The file cannot be opened, or holds something else.
    """

    def __init__(self, path: str | os.PathLike[str], output: Output[Any], limits: Limits) -> None:
        self._path = Path(path).absolute()  # a tool may change the directory
        self._output = output
        self._limits = limits
        self._found: defaultdict[str, deque[RunResult[Any]]] = defaultdict(deque)
        text = self._read()
        for number, line in enumerate(text.split("\n"), 1):
            self._add(line, number)
        if text and not text.endswith("\n"):
            self._append("\n")

    def take(self, prompt: Prompt) -> RunResult[Any] | None:
        """Return an answer to a prompt and forget it, or None if there is none."""
        found = self._found.get(_digest(prompt))
        return found.popleft() if found else None

    def save(self, prompt: Prompt, outcome: RunResult[Any] | Exception) -> None:
        """Add an answer to the file. Errors, and results of runs that ended without an answer, are not saved.

        Raises:
            StoreError: The answer cannot be written.
        """
        if isinstance(outcome, Exception) or outcome.finish_reason in NO_ANSWER:
            return
        if outcome.finish_reason != "stop" and not outcome.output:  # a limit was reached before there was an answer
            return

        step = Conversation(outcome.state).next()
        facts = {
            "digest": _digest(prompt),
            "prompt": "" if prompt is None or isinstance(prompt, RunState) else make_user_message(prompt).text,
            "answer": step.output if isinstance(step, Finished) else "",
            "model": outcome.model,
            "state": json.loads(outcome.state.to_json()),
        }
        self._append(dump_json(facts) + "\n")

    def _read(self) -> str:
        try:
            with os.fdopen(self._open_file(), "rb") as file:
                return file.read().decode("utf-8", "replace")
        except OSError as error:
            raise StoreError(f"The file of answers {str(self._path)!r} cannot be opened: {error.strerror}.") from error

    def _append(self, text: str) -> None:
        data = text.encode("utf-8", "replace")
        try:
            with os.fdopen(self._open_file(), "ab") as file:
                file.write(data)  # at once, however long it is
        except OSError as error:
            raise StoreError(f"An answer cannot be written to {str(self._path)!r}: {error.strerror}.") from error

    def _open_file(self) -> int:
        return os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)

    def _add(self, line: str, number: int) -> None:
        """Read a line. Skip it if it is incomplete or damaged."""
        if not (line.startswith(BEGINNING) or BEGINNING.startswith(line)):
            raise StoreError(
                f"Line {number} of {str(self._path)!r} is not an answer that map() has saved: choose another file."
            )
        try:
            facts: dict[str, Any] = json.loads(line)
            if not isinstance(facts["answer"], str):
                return
            output = self._output.parse(facts["answer"])
            state = RunState.from_json(json.dumps(facts["state"]))
            cost = Conversation(state, self._limits).cost
            result = restore_result(state, output, facts["model"], cost)
        except (ValueError, KeyError, TypeError, RecursionError, ConversationError, ToolError):
            return

        self._found[facts["digest"]].append(result)


def _digest(prompt: Prompt) -> str:
    """Return a digest of the message that is sent. The content of files counts, not their names."""
    if isinstance(prompt, RunState):
        text = prompt.to_json()
    else:
        text = "" if prompt is None else json.dumps(message_to_dict(make_user_message(prompt)))
    return sha256(text.encode()).hexdigest()
