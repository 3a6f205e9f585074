"""Options that commands share, hints for unknown ones, and their reports of errors."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup
from typing_extensions import override

from toolkit import ToolkitError
from toolkit._dialects.catalog import DialectName
from toolkit.display.formatting import escape_controls

HELP = ["-h", "--help"]
Approval = Literal["changes", "all", "none"]  # the calls that a person is asked about

Target = Annotated[
    str, typer.Argument(metavar="FILE", help="tools.py, package.module, tools.py:box, or code: 'def ...'")
]
AllFunctions = Annotated[bool, typer.Option("--all", help="Use the file's undecorated functions, too.")]
Model = Annotated[str | None, typer.Option("--model", "-m", help="The model's name, or 'embedded'.")]
Server = Annotated[str | None, typer.Option(help="An OpenAI-compatible server, such as http://localhost:11434/v1")]
Instructions = Annotated[str | None, typer.Option("--instructions", "-i", help="The system message.")]
Turns = Annotated[int | None, typer.Option("--max-turns", min=1, help="The maximum number of model responses.")]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--option", "-o", metavar="KEY=VALUE", help="Add a key to each request, such as temperature=0; may be repeated."
    ),
]
Tools = Annotated[
    list[str] | None,
    typer.Option("--tool", "-T", metavar="NAME", help="Let the model call only this tool; may be repeated."),
]
Approve = Annotated[
    Approval | None,
    typer.Option(help="Ask before calls labelled write or destructive ('changes', the default), 'all', or 'none'."),
]
Name = Annotated[str | None, typer.Argument(metavar="TOOL", help="One tool; otherwise all.")]
LockFile = Annotated[Path, typer.Option("--lock", help="The file with the definitions.")]
UpdateLock = Annotated[bool, typer.Option("--update", help="Write the file instead of comparing.")]
Called = Annotated[str | None, typer.Argument(metavar="TOOL", help="The tool; without it, the tools are listed.")]
Continue = Annotated[bool, typer.Option("--continue", "-c", help="Continue the latest conversation.")]
SessionName = Annotated[
    str | None, typer.Option("--session", help="Start or continue the conversation with this name.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the events as JSON, one per line.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only the answer.")]
ShowUsage = Annotated[bool, typer.Option("--usage", "-u", help="Print the number of tokens used on standard error.")]
Dialect = Annotated[DialectName, typer.Option(help="The format of a provider.")]

# Hints for what users of `llm` and of other commands most often type. More are in docs/migrating.md.
COMMANDS: Mapping[str, str] = {
    "help": "Write: toolkit --help, or toolkit COMMAND --help.",
    "keys": "Set the variable OPENAI_API_KEY.",
    "models": "Name a model with -m: one of your server, or embedded; TOOLKIT_MODEL sets the default.",
    "prompt": "Write: toolkit run FILE PROMPT.",
    "templates": "Write a script of your shell.",
    "tools": "Write: toolkit list FILE.",
    "version": "Write: toolkit --version.",
}
_CHAIN_LIMIT = "Write --max-turns N."
_CONVERSATION = "Write --session NAME."
_SYSTEM = "Write -i TEXT."
_KEY = "Set the variable OPENAI_API_KEY."
_PRINTED = "Leave it out: calls and results are printed."
# For `run` and `chat`.
OPTIONS: Mapping[str, str] = {
    "-f": "Write -a FILE.",
    "-s": _SYSTEM,
    "--api-key": _KEY,
    "--chain-limit": _CHAIN_LIMIT,
    "--cid": _CONVERSATION,
    "--cl": _CHAIN_LIMIT,
    "--conversation": _CONVERSATION,
    "--functions": "Name the file or write the code in place of FILE, with --all for undecorated functions.",
    "--key": _KEY,
    "--max-tokens": "Write -o max_tokens=N.",
    "--no-stream": "Write -q, or leave it out in a pipe.",
    "--stream": "Leave it out: the answer is printed as it arrives.",
    "--system": _SYSTEM,
    "--ta": "Write --approve all.",
    "--td": _PRINTED,
    "--temperature": "Write -o temperature=NUMBER.",
    "--verbose": _PRINTED,
}
# For other commands.
OTHER_OPTIONS: Mapping[str, str] = {
    "--local": "Write -m embedded.",
    "--port": "Write --http PORT.",
    "--stdio": "Leave it out: without --http, standard input and output are used.",
    "--yes": "Leave it out: only the call of a tool that requires approval has it.",
}
CHAT_TAKES_NO_PROMPT = "Type it into the chat, or write: toolkit run FILE PROMPT."
ONE_VALUE = "Quote a text with spaces, repeat the option for each item of a list, and give a boolean no value."


class Command(TyperCommand):
    """A command whose errors about options have hints, and not the prefix that newer versions of Typer add."""

    @override
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            error.message = error.message.removeprefix("Value error, ")
            if getattr(error.param, "multiple", False):
                error.message += ". Repeat the option for each item of the list."
            raise
        except Exception as error:
            if hint := _find_hint(ctx, error):
                vars(error).update(message=f"{error}. {hint}", possibilities=None)
            raise


def _find_hint(ctx: Any, error: Exception) -> str:
    """Return a hint for an unknown option or an extra argument, or ""."""
    command = ctx.info_name
    if option := getattr(error, "option_name", ""):
        is_of_tool = " call " in command and option != "--yes"  # the options are the tool's parameters
        if is_of_tool and not getattr(error, "possibilities", ()):
            return f"Available: {', '.join(each.opts[0] for each in ctx.command.params) or 'none'}."
        return (OPTIONS if command in ("run", "chat") else OTHER_OPTIONS).get(option, "")
    if "unexpected extra argument" not in str(error):
        return ""
    if command == "chat":
        return CHAT_TAKES_NO_PROMPT
    return ONE_VALUE if " call " in command else ""


class Group(TyperGroup):
    """The commands. An unknown command is refused with a hint."""

    @override
    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name = args[0]
        if name not in self.commands and (name in COMMANDS or not get_close_matches(name, self.commands)):
            hint = COMMANDS.get(name, f"To ask a model: toolkit run FILE {quote_words(name)}.")
            ctx.fail(f"No such command {name!r}. {hint}")
        return super().resolve_command(ctx, args)


def report_errors(function: Callable[..., None]) -> Callable[..., None]:
    """Decorate a command: an error of the package or the system is one line on standard error, and exit code 1."""

    @wraps(function)
    def run(*args: Any, **options: Any) -> None:
        try:
            function(*args, **options)
        except BrokenPipeError:
            raise
        except (ToolkitError, OSError) as error:  # such as a disk without space
            fail(error)
        except KeyboardInterrupt:
            raise typer.Exit(130) from None

    return run


def quote_words(*words: str) -> str:
    """Write words as a part of a command line; in the shells of Windows only double quotes quote."""
    return subprocess.list2cmdline(words) if sys.platform == "win32" else shlex.join(words)


def print_output(text: str) -> None:
    """Print a text of a model or a tool. At a terminal, its control characters are escaped."""
    print(escape_controls(text.replace("\r\n", "\n")) if sys.stdout.isatty() else text, flush=True)


def report(message: object) -> None:
    """Print one line on standard error. A server may have written a part of it."""
    print(f"toolkit: {escape_controls(str(message))}", file=sys.stderr)


def fail(error: object) -> NoReturn:
    """End the command with one line on standard error, and exit code 1."""
    report(error)
    raise typer.Exit(1)
