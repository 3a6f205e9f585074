"""The Runner or the tools of a file, and the approval of calls that a command makes."""

from __future__ import annotations

import inspect
import sys
import traceback
from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import Any

import typer

from toolkit import Runner, Tool, Toolbox, ToolkitError, ToolNotFoundError
from toolkit._execution.approval import Approver, Decision, Verdict
from toolkit._execution.approval_request import ApprovalRequest
from toolkit._runner.options import RESERVED
from toolkit._schema.json_text import load_if_json
from toolkit._tools.tool import check_deps
from toolkit.approvers import Console, approve_all, ask_when, has_terminal
from toolkit.cli.files import find_deps, find_values, load_tools
from toolkit.cli.options import (
    AllFunctions,
    Approval,
    Approve,
    Instructions,
    Model,
    Server,
    Settings,
    Target,
    Turns,
    fail,
)

OWN_DIRECTORY = str(Path(__file__).parent)


def load(file: str, *, all_functions: bool, instead: tuple[type[object], ...] = ()) -> tuple[Runner | None, Toolbox]:
    """Return the Runner of a file, if it has one, and its toolbox. A traceback of the file begins at its own lines."""
    try:
        tools = load_tools(file, all_functions=all_functions, instead=instead)
    except ToolkitError:
        raise
    except SystemExit as end:
        guard = 'if __name__ == "__main__":'
        fail(f"{file} ended the program while it was imported, by sys.exit({end.code!r}). Put that under: {guard}")
    except Exception as error:  # noqa: BLE001  whatever the file raises
        trace = error.__traceback__
        while trace and trace.tb_frame.f_code.co_filename.startswith((OWN_DIRECTORY, "<frozen importlib")):
            trace = trace.tb_next
        traceback.print_exception(type(error), error, trace)
        if isinstance(error, ModuleNotFoundError):
            fail(f"{file} needs the module {error.name!r}. Install it for this Python: {sys.executable}")
        raise typer.Exit(1) from None

    return (tools, tools.toolbox) if isinstance(tools, Runner) else (None, tools)


def make_runner(
    file: Target,
    *,
    all_functions: AllFunctions = False,
    model: Model = None,
    base_url: Server = None,
    instructions: Instructions = None,
    max_turns: Turns = None,
    settings: Settings = None,
    approve: Approve = None,
    approver: Approver | None = None,
) -> Runner:
    """Return the file's Runner as it is, or a Runner of its tools with the options of the command line."""
    options = {"model": model, "base_url": base_url, "instructions": instructions, "max_turns": max_turns}
    given: Any = {name: value for name, value in options.items() if value is not None}
    if settings:
        given["request_options"] = dict(map(_parse_setting, settings))
    runner, toolbox = load(file, all_functions=all_functions)
    get_deps(file, toolbox)
    if runner is None:
        try:
            return Runner(toolbox, approve=approver or _make_approver(approve or "changes"), **given)
        except (ValueError, TypeError) as error:  # such as a base_url without http://
            fail(error)

    if given or approve:
        named = ["option" if name == "request_options" else name.replace("_", "-") for name in given]
        if approve:
            named.append("approve")
        names = ", ".join(f"--{name}" for name in named)
        fail(f"{names} cannot change the Runner in {file}. Set it there. {suggest_toolbox(file)}")
    return runner


def takes_runner(*, approver: Approver | None = None) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorate a command whose first parameters are a Runner and its file: add the options of `make_runner`.

    The approver is for a Runner that is made of the file's tools. Without one, `--approve` chooses it.
    """
    signature = inspect.signature(make_runner, eval_str=True)
    left_out = {"approver", *(["approve"] if approver else [])}
    shared = [each for each in signature.parameters.values() if each.name not in left_out]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        _, _, *own = inspect.signature(command, eval_str=True).parameters.values()
        parameters = sorted([*shared, *own], key=lambda each: each.kind)

        @wraps(command)
        def run(**given: Any) -> None:
            options = {each.name: given.pop(each.name) for each in shared}
            command(make_runner(**options, approver=approver), options["file"], **given)

        vars(run)["__signature__"] = inspect.Signature(parameters)
        run.__annotations__ = {each.name: each.annotation for each in parameters}
        return run

    return decorate


def _parse_setting(text: str) -> tuple[str, Any]:
    """Split `temperature=0`. A value that is not JSON is a text."""
    key, equals, value = text.partition("=")
    if not (key and equals):
        raise typer.BadParameter(f"{text!r} is not KEY=VALUE, such as temperature=0", param_hint="--option")
    if key in RESERVED:
        remedy = f"use -m {value}" if key == "model" else "leave it out"
        raise typer.BadParameter(f"the command sets {key!r} itself: {remedy}", param_hint="--option")
    return key, load_if_json(value)


def suggest_toolbox(file: str) -> str:
    """Write a hint to name a toolbox in place of a file with a Runner."""
    if named := find_values(file, Toolbox):
        return f"Or name its toolbox: add :{next(iter(named))} to the file's name here."
    return "Or write box = Toolbox([...]) there, and add :box to the file's name here."


def get_deps(file: str, tools: Iterable[Tool[..., Any]]) -> Any:
    """Return the file's variable `deps`. End the command if the tools need other ones."""
    deps = find_deps(file)
    try:
        for tool in tools:
            check_deps(tool, deps, f"write deps = ... in {file}")
    except TypeError as error:
        fail(error)
    return deps


def get_tool(toolbox: Toolbox, name: str) -> Tool[..., Any]:
    """Return a tool by its name."""
    try:
        return toolbox[name]
    except ToolNotFoundError as error:
        fail(f"{error}. With --all a file's undecorated functions are tools, too.")


def _make_approver(approval: Approval) -> Approver:
    if approval == "none":
        return approve_all
    console = _make_console()
    text = "There is no terminal to ask at; --approve none runs such calls unasked."
    person: Approver = console if console.can_ask else lambda _: Decision.unavailable(text)
    return person if approval == "all" else ask_when(person, when=may_change)


def ask_if_required(request: ApprovalRequest) -> Verdict:
    """Ask about a call that a person has typed, if its tool requires approval."""
    if not request.required:
        return True
    console = _make_console()
    return console(request) if console.can_ask else Decision.unavailable("There is no terminal to ask at: pass --yes.")


def _make_console() -> Console:
    read = ask_on_stderr if sys.stdin.isatty() and not has_terminal() else None
    return Console(read=read, write=lambda text: print(text, file=sys.stderr))


def ask_on_stderr(prompt: str) -> str:
    """Ask on standard error, since standard output may be a pipe."""
    print(prompt, end="", file=sys.stderr, flush=True)
    return input()


def may_change(request: ApprovalRequest) -> bool:
    """Return whether a call is labelled write or destructive."""
    return request.tool.settings.effect in ("write", "destructive")
