"""Commands that ask a model: run, chat, resume."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from toolkit import ModelError, Runner, RunResult, SQLiteRuns, ToolkitError
from toolkit._execution.approval import Decision
from toolkit._messages import File, Image, UserMessage, write_output
from toolkit._runner.output import build_output
from toolkit._runner.prompt import make_user_message, read_file
from toolkit._runner.stream import RunStream
from toolkit._schema.json_text import dump_json
from toolkit.cli.conversations import open_session
from toolkit.cli.files import find_deps
from toolkit.cli.options import (
    AsJson,
    Continue,
    Quiet,
    SessionName,
    ShowUsage,
    Target,
    Tools,
    fail,
    print_output,
    report,
)
from toolkit.cli.targets import ask_on_stderr, get_deps, get_tool, load, takes_runner
from toolkit.display import Transcript
from toolkit.display.markup import format_tokens
from toolkit.errors import DefinitionError
from toolkit.events import PendingApproval, RunFinished, TextDelta, event_to_dict

# Explanations of the end of a run, by finish reason.
ENDS: Mapping[str, str] = {
    "length": "The answer is cut off: allow it more tokens, such as by -o max_tokens=4000.",
    "content_filter": "The provider's filter stopped the answer: ask in other words.",
    "empty": "The model gave no answer: ask again, or another model by -m.",
    "halted": "A tool or a hook ended the run with this answer.",
    "cancelled": "The run was cancelled.",
}
# JSON Schema's names of types.
SCHEMA_TYPES: Mapping[str, str] = {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}


@takes_runner()
def run(
    runner: Runner,
    file: str,
    context: typer.Context,
    prompt: Annotated[
        str | None, typer.Argument(metavar="PROMPT", help="Read from standard input if it is '-' or missing.")
    ] = None,
    *,
    tools: Tools = None,
    session: SessionName = None,
    continues: Continue = False,
    attach: Annotated[
        list[Path] | None,
        typer.Option(
            "--attach",
            "-a",
            metavar="FILE",
            help="Attach an image, PDF or text file ('-': standard input); may be repeated.",
        ),
    ] = None,
    schema: Annotated[
        str | None,
        typer.Option("--schema", help="Fields of the answer: 'name: str, age: int'; or a JSON Schema, or its file."),
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    usage: ShowUsage = False,
) -> None:
    """Answer one prompt with the tools of a file.

    The answer goes to standard output; in a pipe, the calls go to standard error.
    """
    if context.args:
        text = f"write it in quotes. To call one tool: toolkit call {file} TOOL"
        raise typer.BadParameter(text, param_hint="PROMPT")

    _check_tools(runner, tools)
    if quiet:
        runner._factory.settings.model_choice.announces = False
    stream = runner.stream(
        _attach(_complete_prompt(prompt), attach or ()),
        output_type=str if schema is None else _read_schema(schema),
        deps=find_deps(file),
        session=open_session(file, session, continues=continues),
        allowed_tools=tools or None,
    )
    _finish(stream, file, runner, as_json=as_json, quiet=quiet, usage=usage)


@takes_runner()
def chat(
    runner: Runner,
    file: str,
    *,
    tools: Tools = None,
    session: SessionName = None,
    continues: Continue = False,
) -> None:
    """Chat with a model that has the tools of a file.

    Ctrl-C cancels an answer or a line. Ctrl-D, 'exit' or 'quit' ends the conversation.
    """
    _check_tools(runner, tools)
    print(f"{runner.model.name}, with {', '.join(runner.toolbox.names) or 'no tools'}. Ctrl-D ends the conversation.")
    conversation = open_session(file, session, continues=continues)
    for prompt in filter(None, iter(_read_prompt, None)):
        stream = runner.stream(prompt, deps=find_deps(file), session=conversation, allowed_tools=tools or None)
        _answer(stream, file, runner)


def resume(
    file: Target,
    run_id: Annotated[
        str | None, typer.Argument(metavar="RUN_ID", help="The run; otherwise unfinished runs are listed.")
    ] = None,
    *,
    as_json: AsJson = False,
    quiet: Quiet = False,
    usage: ShowUsage = False,
) -> None:
    """Continue a saved run, for example after a crash.

    The file has a Runner with checkpoint=SQLiteRuns("runs.db"). Calls that wait for approval are asked about.
    """
    runner, _ = load(file, all_functions=False)
    saved = None if runner is None else runner._factory.options.get("checkpoint")
    if runner is None or not isinstance(saved, SQLiteRuns):
        fail(f'{file} has no Runner that saves its runs: write Runner(..., checkpoint=SQLiteRuns("runs.db")) there.')
    unfinished = saved.unfinished()
    if run_id is None:
        for each, phase in unfinished.items():
            print(f"{each}  {phase}")
        if not unfinished:
            print("toolkit: every saved run has ended.", file=sys.stderr)
        return

    if run_id not in unfinished:
        fail(f"No run {run_id!r:.100} can be continued. These can: {', '.join(unfinished) or 'none'}.")
    state = saved.load(run_id)
    decisions = {each.call.id: _decide(each) for each in state.pending}
    stream = runner.stream(state, deps=get_deps(file, runner.toolbox), decisions=decisions)
    _finish(stream, file, runner, as_json=as_json, quiet=quiet, usage=usage)


def _complete_prompt(prompt: str | None) -> str:
    """Return the prompt, or standard input if the prompt is '-' or missing."""
    text = "-" if prompt is None else prompt
    if text == "-":
        text = "" if sys.stdin.isatty() else str(sys.stdin.read())
    if not text.strip():
        raise typer.BadParameter("write it in quotes, or pipe it in", param_hint="PROMPT")
    return text


def _attach(prompt: str, files: Sequence[Path]) -> UserMessage:
    if address := next((file for file in files if re.match("https?:", str(file))), None):
        text = f"it takes files: download {address.name}, or pipe it in with -a -"
        raise typer.BadParameter(text, param_hint="--attach")
    try:
        attachments = [_read_pipe() if str(file) == "-" else file for file in files]
        return make_user_message([prompt, *attachments])
    except (ValueError, OSError) as error:
        reason = str(error).partition(" File(")[0]  # without the hint for programs
        raise typer.BadParameter(reason, param_hint="--attach") from None


def _read_pipe() -> str | Image | File:
    if sys.stdin.isatty():
        raise ValueError("pipe a file in, or name one")
    return read_file(Path("stdin"), sys.stdin.buffer)


def _check_tools(runner: Runner, tools: Sequence[str] | None) -> None:
    for name in tools or ():
        get_tool(runner.toolbox, name)


def _read_schema(text: str) -> dict[str, Any]:
    """Read a JSON Schema from its text, from a file, or from fields such as `name: str, age: int`."""
    is_json = text.lstrip().startswith(("{", "["))
    try:
        if ":" in text and not is_json and not Path(text).is_file():
            fields = [field.partition(":") for field in text.split(",")]
            properties = {name.strip(): _make_schema(kind.strip()) for name, _, kind in fields}
            return {"type": "object", "properties": properties, "required": [*properties]}
        found: dict[str, Any] = json.loads(text if is_json else Path(text).read_text("utf-8"))
        build_output(found)
    except (ValueError, OSError, DefinitionError) as error:
        form = "'name: str, scores: list[int]' (types: str, int, float, bool, lists)"
        reason = f"it is neither a JSON Schema, nor a file with one, nor fields such as {form}: {error}"
        raise typer.BadParameter(reason, param_hint="--schema") from None

    return found


def _make_schema(kind: str) -> dict[str, Any]:
    """Make the JSON Schema of a type such as `str` or `list[int]`."""
    items = re.fullmatch(r"list\[(.+)\]", kind)
    if not items and kind not in SCHEMA_TYPES:
        raise ValueError(f"there is no type {kind!r}")
    return {"type": "array", "items": _make_schema(items[1])} if items else {"type": SCHEMA_TYPES[kind]}


def _print_run(stream: RunStream[Any], *, as_json: bool, quiet: bool) -> RunResult[Any]:
    """Print a run: as it happens, its answer alone, or its events as JSON, the last of which may be an error."""
    if not (as_json or quiet):
        return _show(stream, is_terminal=sys.stdout.isatty())
    try:
        with stream:
            for event in stream:
                if as_json:
                    _print_json(event_to_dict(event))
    except ToolkitError as error:
        if as_json:
            _print_json({"type": "error", "exception": type(error).__name__, "message": str(error)})
        raise

    return stream.result if as_json else _print_answer(stream.result)


def _show(stream: RunStream[Any], *, is_terminal: bool) -> RunResult[Any]:
    """Print a run while it happens; in a pipe only the answer goes to standard output, the rest to standard error."""
    hidden = () if is_terminal else (TextDelta, RunFinished)
    transcript = Transcript(sys.stdout if is_terminal else sys.stderr)
    with stream:
        try:
            for event in stream:
                if isinstance(event, RunFinished):
                    event = replace(event, finish_reason="stop")  # `_report_end` explains any other
                if not isinstance(event, hidden):
                    transcript.add(event)
        finally:
            transcript.end_line()

    return stream.result if is_terminal else _print_answer(stream.result)


def _print_json(data: Mapping[str, Any]) -> None:
    print_output(dump_json(data))


def _print_answer(result: RunResult[Any]) -> RunResult[Any]:
    if result.output not in (None, ""):
        print_output(write_output(result.output))
    return result


def _finish(stream: RunStream[Any], file: str, runner: Runner, *, as_json: bool, quiet: bool, usage: bool) -> None:
    result = _print_run(stream, as_json=as_json, quiet=quiet)
    if usage:
        cost = "" if result.cost is None else f", cost {result.cost:.6f}"
        print(f"toolkit: {format_tokens(result.usage) or 'the server counts no tokens'}{cost}", file=sys.stderr)
    if not _report_end(result, file, runner):
        raise typer.Exit(3)


def _report_end(result: RunResult[Any], file: str, runner: Runner) -> bool:
    """Print why a run ended without an answer. Return whether it ended with one."""
    if result.finish_reason != "stop":
        report(_describe_end(result, file, runner))
    return result.finish_reason == "stop"


def _describe_end(result: RunResult[Any], file: str, runner: Runner) -> str:
    """Describe why a run ended without an answer, and how to continue."""
    reason = result.finish_reason
    if result.is_paused:
        calls = ", ".join(map(str, result.pending))
        command = f"toolkit resume {file} {result.state.run_id}"
        if isinstance(runner._factory.options.get("checkpoint"), SQLiteRuns):
            return f"Waiting for approval: {calls}. Decide with: {command}"
        return (
            f"Waiting for approval: {calls}. The run is not saved. "
            f'To decide later, write Runner(..., checkpoint=SQLiteRuns("runs.db")) in {file}, and run it again.'
        )

    if reason == "max_turns":
        turns = "1 turn" if (count := runner.limits.max_turns) == 1 else f"{count} turns"
        return f"The run stopped after {turns}: raise --max-turns, or the Runner's max_turns."
    if reason.startswith("max_"):
        return f"The run reached its limit {reason}: raise it in {file}."
    return ENDS.get(reason) or f"The run ended without an answer: {str(result).splitlines()[-1]}"


def _decide(pending: PendingApproval) -> Decision:
    """Ask about a call that waits for approval; without a terminal it stays deferred."""
    if not sys.stdin.isatty():
        return Decision.defer(pending.reason)
    print(pending, file=sys.stderr)
    answer = ask_on_stderr("Run it? [y]es, [n]o, anything else to decide later: ").strip().lower()
    return {"y": Decision.approve(), "n": Decision.reject()}.get(answer[:1], Decision.defer(pending.reason))


def _answer(stream: RunStream[Any], file: str, runner: Runner) -> None:
    """Print the answer to a prompt of a chat. After an error the conversation is unchanged."""
    try:
        _report_end(_show(stream, is_terminal=True), file, runner)
    except KeyboardInterrupt:
        print("Cancelled.")
    except ModelError as error:
        report(error)


def _read_prompt() -> str | None:
    """Read a line. Return "" if it was interrupted, and None if the chat ends."""
    try:
        prompt = input("> ").strip()
    except KeyboardInterrupt:
        print()
        return ""
    except EOFError:
        print()
        return None
    return None if prompt in ("exit", "quit") else prompt
