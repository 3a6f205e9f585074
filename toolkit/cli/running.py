"""Commands that ask a model: run, chat, resume; and the conversations that they keep."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from toolkit import ModelError, Runner, RunResult, Session, SQLiteRuns, ToolkitError
from toolkit._execution.approval import Decision
from toolkit._messages import UserMessage, write_output
from toolkit._runner.output import build_output
from toolkit._runner.prompt import make_user_message
from toolkit._runner.stream import RunStream
from toolkit.cli.conversations import open_session, print_conversations
from toolkit.cli.options import (
    AllFunctions,
    Approve,
    AsJson,
    Continue,
    Instructions,
    Model,
    Quiet,
    Server,
    SessionName,
    Settings,
    Target,
    Tools,
    Turns,
    fail,
)
from toolkit.cli.targets import get_tool, load, make_runner, read_answer
from toolkit.display import follow, show
from toolkit.errors import DefinitionError
from toolkit.events import PendingApproval, RunFinished, TextDelta, event_to_dict

# What ended a run, by its finish reason.
ENDS: Mapping[str, str] = {
    "length": "The answer is cut off: allow it more tokens, such as by -o max_tokens=4000.",
    "content_filter": "The provider's filter stopped the answer: ask in other words.",
    "empty": "The model gave no answer: ask again, or another model by -m.",
    "halted": "A hook of the Runner ended the run.",
    "cancelled": "The run was cancelled.",
}
ONE_TOOL = "A single tool is called by: toolkit call {file} TOOL"


def run(
    context: typer.Context,
    file: Target,
    prompt: Annotated[
        str | None, typer.Argument(metavar="PROMPT", help="Read from standard input if it is '-' or missing.")
    ] = None,
    *,
    all_functions: AllFunctions = False,
    model: Model = None,
    base_url: Server = None,
    instructions: Instructions = None,
    max_turns: Turns = None,
    settings: Settings = None,
    tools: Tools = None,
    approve: Approve = None,
    session: SessionName = None,
    goes_on: Continue = False,
    attach: Annotated[list[Path] | None, typer.Option("--attach", "-a", help="A picture, PDF or text file.")] = None,
    schema: Annotated[
        str | None, typer.Option("--schema", help="JSON Schema of the answer: a file, or the JSON itself.")
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Answer one prompt with the tools of a file.

    The answer goes to standard output; in a pipe, the calls go to standard error.
    """
    if context.args:
        raise typer.BadParameter(f"write it in quotes. {ONE_TOOL.format(file=file)}", param_hint="PROMPT")
    runner = make_runner(
        file,
        all_functions=all_functions,
        approve=approve,
        model=model,
        base_url=base_url,
        instructions=instructions,
        max_turns=max_turns,
        settings=settings,
    )
    _check_tools(runner, tools)
    if quiet:
        runner._factory.model_choice.announces = False
    if prompt in (None, "-") and not sys.stdin.isatty():
        prompt = sys.stdin.read()
    if prompt in (None, "-") or not prompt.strip():
        raise typer.BadParameter("write it, or pipe it in", param_hint="PROMPT")
    stream = runner.stream(
        _attach(prompt, attach or ()),
        output_type=str if schema is None else _read_schema(schema),
        session=open_session(file, session, continues=goes_on),
        allowed_tools=tools or None,
    )
    _end_run(_print_run(stream, as_json=as_json, quiet=quiet), file, runner)


def chat(
    file: Target,
    *,
    all_functions: AllFunctions = False,
    model: Model = None,
    base_url: Server = None,
    instructions: Instructions = None,
    max_turns: Turns = None,
    settings: Settings = None,
    tools: Tools = None,
    approve: Approve = None,
    session: SessionName = None,
    goes_on: Continue = False,
) -> None:
    """Talk to a model that has the tools of a file.

    Ctrl-C cancels an answer. Ctrl-D, 'exit' or 'quit' ends the conversation.
    """
    runner = make_runner(
        file,
        all_functions=all_functions,
        approve=approve,
        model=model,
        base_url=base_url,
        instructions=instructions,
        max_turns=max_turns,
        settings=settings,
    )
    _check_tools(runner, tools)
    print(f"{runner.model.name}, with {', '.join(runner.toolbox.names) or 'no tools'}. Ctrl-D ends the conversation.")
    conversation = open_session(file, session, continues=goes_on)
    for prompt in iter(_read_prompt, None):
        _answer(runner, prompt, conversation, tools or None)


def resume(
    file: Target,
    run_id: Annotated[
        str | None, typer.Argument(metavar="RUN_ID", help="The run. Without it, those that have not ended.")
    ] = None,
    *,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Go on with a run that was saved, such as after a crash.

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
        fail(f"No run {run_id!r:.100} can go on. These can: {', '.join(unfinished) or 'none'}.")
    state = saved.load(run_id)
    stream = runner.stream(state, decisions={each.call.id: _decide(each) for each in state.pending})
    _end_run(_print_run(stream, as_json=as_json, quiet=quiet), file, runner)


def logs(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="One conversation; otherwise all are listed.")
    ] = None,
) -> None:
    """Show the conversations of `run` and `chat`, the latest first."""
    print_conversations(name)


def _attach(prompt: str, files: Sequence[Path]) -> UserMessage:
    try:
        return make_user_message([prompt, *files])
    except (ValueError, OSError) as error:
        reason = str(error).partition(" File(")[0]  # what a program may send beyond that
        raise typer.BadParameter(reason, param_hint="--attach") from None


def _check_tools(runner: Runner, tools: Sequence[str] | None) -> None:
    for name in tools or ():
        get_tool(runner.toolbox, name)


def _read_schema(text: str) -> dict[str, Any]:
    """Read a JSON Schema from a file, or from the text itself."""
    try:
        found = json.loads(text if text.lstrip().startswith(("{", "[")) else Path(text).read_text("utf-8"))
    except (ValueError, OSError) as error:
        raise typer.BadParameter(f"it is neither JSON nor a file with it: {error}", param_hint="--schema") from None
    if not isinstance(found, dict):
        raise typer.BadParameter('a schema is an object, such as {"type": "integer"}', param_hint="--schema")
    try:
        build_output(found)
    except DefinitionError as error:
        raise typer.BadParameter(f"it is no JSON Schema: {error.__cause__}", param_hint="--schema") from None
    return found


def _print_run(stream: RunStream[Any], *, as_json: bool, quiet: bool) -> RunResult[Any]:
    if not (as_json or quiet):
        if sys.stdout.isatty():
            return show(stream)
        with stream:
            for _ in follow((each for each in stream if not isinstance(each, (TextDelta, RunFinished))), sys.stderr):
                pass
        return _print_answer(stream.result)
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


def _print_json(data: Mapping[str, Any]) -> None:
    print(json.dumps(data, ensure_ascii=False), flush=True)


def _print_answer(result: RunResult[Any]) -> RunResult[Any]:
    if result.output not in (None, ""):
        print(write_output(result.output))
    return result


def _end_run(result: RunResult[Any], file: str, runner: Runner) -> None:
    if result.finish_reason != "stop":
        print(f"toolkit: {_describe_end(result, file, runner)}", file=sys.stderr)
        raise typer.Exit(3)


def _describe_end(result: RunResult[Any], file: str, runner: Runner) -> str:
    """Say in a sentence why a run ended without an answer, and how to go on."""
    reason = result.finish_reason
    if result.is_paused:
        calls = ", ".join(f"{each.call.name}({each.arguments})" for each in result.pending)
        command = f"toolkit resume {file} {result.state.run_id}"
        if isinstance(runner._factory.options.get("checkpoint"), SQLiteRuns):
            return f"{calls} waits for approval. Decide on it: {command}"
        return (
            f"{calls} waits for approval, and the run is not saved. "
            f'For "{command}", write Runner(..., checkpoint=SQLiteRuns("runs.db")) in {file}, and run it again.'
        )
    if reason == "max_turns":
        turns = "1 turn" if (count := runner.limits.max_turns) == 1 else f"{count} turns"
        return f"The run stopped after {turns}: raise --max-turns, or the Runner's max_turns."
    if reason.startswith("max_"):
        return f"The run reached its limit {reason}: raise it in {file}."
    return ENDS.get(reason) or f"The run ended without an answer: {str(result).splitlines()[-1]}"


def _decide(pending: PendingApproval) -> Decision:
    """Ask about a call that waits; without a terminal it goes on waiting."""
    if not sys.stdin.isatty():
        return Decision.defer(pending.reason)
    imports = f" with {pending.imports}" if pending.imports else ""
    print(f"{pending.call.name}({pending.arguments}){imports}", file=sys.stderr)
    answer = read_answer("Run it? [y]es, [n]o, anything else goes on waiting: ").strip().lower()
    return {"y": Decision.approve(), "n": Decision.reject()}.get(answer[:1], Decision.defer(pending.reason))


def _answer(runner: Runner, prompt: str, session: Session, tools: Sequence[str] | None) -> None:
    """Show the answer to a prompt; without an answer, the conversation stays as it was."""
    try:
        show(runner.stream(prompt, session=session, allowed_tools=tools))
    except KeyboardInterrupt:
        print("Cancelled.")
    except ModelError as error:
        print(f"toolkit: {error}", file=sys.stderr)


def _read_prompt() -> str | None:
    """Read lines until one is a prompt; None at the end."""
    try:
        while not (prompt := input("> ").strip()):
            pass
    except (EOFError, KeyboardInterrupt):
        print()
        return None
    return None if prompt in ("exit", "quit") else prompt
