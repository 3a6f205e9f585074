"""The command line: its commands, in the order of its help."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import typer

from toolkit import __version__
from toolkit.cli.calling import call, check, list_tools, lock, schema
from toolkit.cli.conversations import logs
from toolkit.cli.demonstration import demo
from toolkit.cli.options import HELP, Command, Group, quote_words, report_errors
from toolkit.cli.running import chat, resume, run
from toolkit.cli.serving import inspect, serve, worker

app: typer.Typer = typer.Typer(
    cls=Group,
    help="Let a language model call the Python functions of a file.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # brackets in a tool's description are text
    context_settings={"help_option_names": HELP},
)

COMMANDS: Mapping[str, Callable[..., None]] = {
    "run": run,
    "chat": chat,
    "resume": resume,
    "logs": logs,
    "call": call,
    "list": list_tools,
    "schema": schema,
    "check": check,
    "inspect": inspect,
    "serve": serve,
    "worker": worker,
    "lock": lock,
    "demo": demo,
}
# A prompt without quotes is several arguments, which `run` refuses with a hint; `call` passes options to its tool.
SETTINGS: Mapping[str, dict[str, Any]] = {
    "run": {"allow_extra_args": True},
    "call": {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
}
for _name, _command in COMMANDS.items():
    app.command(_name, cls=Command, context_settings=SETTINGS.get(_name))(report_errors(_command))


def run_command(arguments: Sequence[str]) -> int:
    """Run a command line, and return its exit code."""
    if arguments and arguments[0].endswith(".py"):
        print(f"toolkit: put a command before the file: toolkit run {quote_words(*arguments)}", file=sys.stderr)
        return 2
    try:
        app([*arguments], prog_name="toolkit")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    return 0


@app.callback(invoke_without_command=True)
def _options(*, version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False) -> None:
    if version:
        print(f"toolkit {__version__}")
        raise typer.Exit
