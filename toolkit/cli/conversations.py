"""The conversations that `run` and `chat` save for a user, in one file, and the command that shows them: logs."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Collection, Iterable
from contextlib import suppress
from datetime import datetime
from itertools import chain, count
from pathlib import Path
from typing import Annotated

import typer

from toolkit import Session, SQLiteSession
from toolkit._messages import Message, ModelResponse, ToolMessage, UserMessage
from toolkit._schema.error_messages import shorten, suggest
from toolkit._schema.json_text import escape_invisible
from toolkit.cli.files import get_stem
from toolkit.cli.options import print_output
from toolkit.display import Transcript
from toolkit.errors import StoreError, ToolkitError

# The environment variable with the path of the file; if it is empty, no conversation is saved.
VARIABLE = "TOOLKIT_SESSIONS"
NO_FILE = f"No conversations are saved: {VARIABLE} names no file. Set it to the path of one."
MAX_TITLE = 60  # characters of a conversation's first prompt in a list


def open_session(target: str, name: str | None, *, continues: bool) -> Session:
    """Open the conversation with a name, the latest one to continue it, or a new one.

    If the file cannot be used, a new conversation is in memory only, with a message on standard error.

    Raises:
        ToolkitError: There is no conversation to continue; or `name` or `continues` is given, and no file is used.
    """
    path = _find_file()
    if path is None:
        if name or continues:
            raise ToolkitError(NO_FILE)
        return Session()

    try:
        names = SQLiteSession(path).names()
    except StoreError as error:
        if name or continues:
            raise
        print(f"toolkit: this conversation is not saved: {error}", file=sys.stderr)
        return Session()

    if continues and not name and not names:
        raise ToolkitError("There is no conversation to continue yet.")
    return SQLiteSession(path, name or (names[0] if continues else _make_name(target, names)))


def logs(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="One conversation; otherwise all are listed.")
    ] = None,
    *,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print each with its messages as JSON, one per line.")
    ] = False,
) -> None:
    """Show the conversations of `run` and `chat`, the latest first."""
    path = _find_file()
    if path is None:
        raise ToolkitError(NO_FILE)

    names = SQLiteSession(path).names()
    if name is not None and name not in names:
        raise ToolkitError(f"There is no conversation {name!r}{suggest(name, names)}")
    if not names:
        print("toolkit: no conversation is saved yet.", file=sys.stderr)

    for each in [name] if name else names:
        session = SQLiteSession(path, each)
        if as_json:
            print_output(json.dumps({"name": each, **json.loads(session.to_json())}, ensure_ascii=False))
        elif name:
            _print_messages(session.messages)
        else:
            prompt = next((message.text for message in session.messages if isinstance(message, UserMessage)), "")
            print(f"{escape_invisible(each)}  {shorten(escape_invisible(' '.join(prompt.split())), MAX_TITLE)}")


def _print_messages(messages: Iterable[Message]) -> None:
    transcript = Transcript()
    for message in messages:
        if isinstance(message, ModelResponse):
            transcript.add_response(message)
        elif isinstance(message, ToolMessage):
            transcript.write("Error" if message.is_error else "Result", message.text)
        else:
            transcript.write("User", message.text)


def _find_file() -> Path | None:
    """Return the path of the file, or None if no conversation is saved. Make the default folder if possible."""
    path = os.environ.get(VARIABLE)
    base = os.environ.get("LOCALAPPDATA" if sys.platform == "win32" else "XDG_DATA_HOME")
    try:
        if path is not None:
            return Path(path).expanduser() if path.strip() else None
        folder = (Path(base) if base else Path.home() / ".local" / "share") / "function-toolkit"
    except RuntimeError:  # the user has no home directory
        return None
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
    return folder / "sessions.db"


def _make_name(target: str, names: Collection[str]) -> str:
    """Make a name from the name of the file and the time, such as tools-20261123-1405."""
    name = f"{get_stem(target)}-{datetime.now().astimezone():%Y%m%d-%H%M}"
    return next(each for each in chain([name], (f"{name}-{number}" for number in count(2))) if each not in names)
