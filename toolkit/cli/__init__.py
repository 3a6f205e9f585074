"""The command `toolkit`: run, chat with, call and inspect the tools of a Python file.

Files, each importing only those below it:
    commands         the command line
    calling          commands about the tools themselves
    running          commands that ask a model
    serving          commands that serve tools, and the worker of durable runs
    demonstration    a model that calls three functions
    inspecting       the server of a page that calls tools
    pages            its pages
    targets          the Runner or the tools of a file, and the approval of calls
    conversations    saved conversations, and the command that shows them
    options          options that commands share, hints for unknown ones, and reports of errors
    arguments        a command whose options are the parameters of a tool
    files            the tools of a file or module
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from io import TextIOWrapper, UnsupportedOperation
from pathlib import Path

__all__ = ["main"]

NO_TYPER = 'toolkit: the command needs an extra: pip install "function-toolkit[cli]".'


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line.

    Returns:
        The exit code. 0: done. 1: it failed. 2: the command line is wrong. 3: the run ended without an answer.
        130: interrupted.
    """
    if find_spec("typer") is None:
        print(NO_TYPER, file=sys.stderr)
        return 1
    _prepare_streams()
    from toolkit.cli.commands import run_command

    try:
        return run_command(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader closed the pipe; at exit Python would write once more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _prepare_streams() -> None:
    """Open the standard streams that are closed. Pipes carry UTF-8, and what does not fit is escaped."""
    for name, mode in {"stdin": "r", "stdout": "w", "stderr": "w"}.items():
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115  as long as the process
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            with suppress(UnsupportedOperation):  # it was read before
                stream.reconfigure(encoding=None if stream.isatty() else "utf-8", errors="backslashreplace")
