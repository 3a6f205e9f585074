"""Sessions: conversations that several runs continue, in memory or in a file."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from toolkit._dialects.chat import parse_history
from toolkit._guards.options import check_type
from toolkit._messages import Message, message_from_dict, message_to_dict
from toolkit._options import check_options, explain_missing, make_hints
from toolkit._runner.history import repair_history
from toolkit._schema.json_text import dump_json
from toolkit.errors import ConversationError, DefinitionError, StoreError
from toolkit.stores.database import MEMORY, Layout, SQLiteStore

# Increased when the format of `to_json` changes; a text of another version is rejected.
VERSION = 1

_HINTS = make_hints(("session_id db_path conversation_id", "Write SQLiteSession('chats.db', 'name')."))
# What reading raises where something else was written, or damaged.
_UNREADABLE = (ValueError, TypeError, KeyError, AttributeError, RecursionError)


class Session:
    """A conversation that several runs continue, in memory.

    A run with `session=` continues the conversation, and adds its messages when it ends, is cancelled or reaches a
    limit. It adds nothing while it waits for approval, or if it raises an exception. Instructions of the runner are not
    saved.

    Args:
        messages: The first messages: from a result, or a history in OpenAI's form. A broken history is repaired.

    Raises:
        ValueError: A message has no known form.
        TypeError: `messages` is not a list of messages.

    Examples:
        >>> from toolkit import Runner
        >>> from toolkit.testing import ScriptedModel
        >>> runner, session = Runner(model=ScriptedModel(["Hello Anna.", "Anna."])), Session()
        >>> _ = runner.run("I am Anna.", session=session)
        >>> runner.run("Who am I?", session=session).output
        'Anna.'
        >>> len(Session.from_json(session.to_json()).messages)
        4
    """

    def __init__(self, messages: Iterable[Message | Mapping[str, Any]] = ()) -> None:
        self._lock = Lock()
        repaired, _ = repair_history(parse_history(messages))
        self._messages: tuple[Message, ...] = tuple(repaired)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self.messages)} messages>"

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=Lock())

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages so far."""
        return self._messages

    def extend(self, messages: Iterable[Message | Mapping[str, Any]], *, after: int | None = None) -> None:
        """Add messages.

        Args:
            messages: The messages: from a result, or in OpenAI's form.
            after: How many messages the session had when these messages were made.

        Raises:
            ConversationError: Other messages were added since then.
            ValueError: A message has no known form.
            TypeError: `messages` is not a list of messages.
        """
        added = parse_history(messages)
        with self._lock:
            _refuse_changed(len(self._messages), after)
            self._messages = (*self._messages, *added)

    def clear(self) -> None:
        """Remove all messages."""
        with self._lock:
            self._messages = ()

    def to_json(self) -> str:
        """Serialize the messages."""
        return dump_json({"version": VERSION, "messages": list(map(message_to_dict, self.messages))})

    @staticmethod
    def from_json(text: str) -> Session:
        """Parse the output of `to_json`.

        Raises:
            ConversationError: The text is something else, or of another version.
        """
        try:
            data: dict[str, Any] = json.loads(text)
            if data["version"] != VERSION:
                raise ConversationError(
                    f"This session is of version {data['version']!r}; this library reads version {VERSION}."
                )
            return Session([message_from_dict(item) for item in data["messages"]])
        except _UNREADABLE as error:
            raise ConversationError(f"This is not a session: {type(error).__name__}: {error}") from error

    if not TYPE_CHECKING:  # type checkers report missing attributes themselves
        __getattr__ = explain_missing(
            ("chat_history get_items get_messages history items", "session.messages"),
            ("add add_items add_message add_messages append", "session.extend(messages)"),
            ("clear_session reset", "session.clear()"),
            ("save to_dict", "session.to_json()"),
        )


class SQLiteSession(Session, SQLiteStore):
    """A session in a SQLite file, for several threads and processes of one machine. A file can hold many sessions.

    Args:
        path: The file, whose name has a suffix, such as "chats.db". It is created if it does not exist. Only its owner
            can read it.
        name: Name of the conversation in the file.
        timeout: Longest wait for another process that writes, in seconds.

    Raises:
        DefinitionError: `path` is a text without a suffix or directory, as the id of a session is; or `name` is not a
            text.
        StoreError: The file is damaged, holds something else, or cannot be opened.

    Examples:
        >>> session = SQLiteSession(":memory:", "anna")
        >>> session.extend([{"role": "user", "content": "I am Anna."}])
        >>> session.names()
        ('anna',)
    """

    @partial(check_options, hints=_HINTS)
    def __init__(self, path: str | os.PathLike[str], name: str = "main", *, timeout: float = 30.0) -> None:
        if isinstance(path, str) and path != MEMORY and path == Path(path).stem:
            example = f"write SQLiteSession('chats.db', {path!r}), or Path({path!r}) for a file of this name."
            raise DefinitionError(f"SQLiteSession({path!r}): the first argument is a file: {example}")
        SQLiteStore.__init__(self, path, _LAYOUT, timeout=timeout)
        self.name: str = check_type("name", name, str)

    @property
    @override
    def messages(self) -> tuple[Message, ...]:
        """The messages so far.

        Raises:
            StoreError: The messages could not be read, or one is damaged.
        """
        with self._database.snapshot() as connection:
            rows = connection.execute(_READ, (self.name,)).fetchall()
        try:
            return tuple(message_from_dict(json.loads(text)) for (text,) in rows)
        except _UNREADABLE as error:
            raise StoreError(f"A message of the session {self.name!r} is damaged: restore it from a backup.") from error

    @override
    def extend(self, messages: Iterable[Message | Mapping[str, Any]], *, after: int | None = None) -> None:
        """Add messages, all or none.

        Raises:
            ConversationError: Other messages were added since `after`.
            StoreError: The messages could not be stored.
            ValueError: A message has no known form.
            TypeError: `messages` is not a list of messages.
        """
        texts = [dump_json(message_to_dict(message)) for message in parse_history(messages)]
        with self._database.transaction() as connection:
            ((count,),) = connection.execute(_COUNT, (self.name,))
            _refuse_changed(count, after)
            rows = [(self.name, number, text, time.time()) for number, text in enumerate(texts, count)]
            connection.executemany(_WRITE, rows)

    @override
    def clear(self) -> None:
        """Remove all messages of this conversation.

        Raises:
            StoreError: The messages could not be removed.
        """
        with self._database.transaction() as connection:
            connection.execute(_CLEAR, (self.name,))

    def names(self) -> tuple[str, ...]:
        """List the conversations in the file, the latest one first.

        Raises:
            StoreError: The file could not be read.
        """
        with self._database.snapshot() as connection:
            return tuple(name for (name,) in connection.execute(_NAMES).fetchall())


_TABLE = """
CREATE TABLE messages (name TEXT, number INTEGER, message TEXT, at REAL, PRIMARY KEY (name, number)) WITHOUT ROWID
"""
_LAYOUT = Layout(holds="conversations", application_id=int.from_bytes(b"tkSE", "big"), migrations=((_TABLE,),))
_READ = "SELECT message FROM messages WHERE name = ? ORDER BY number"
_COUNT = "SELECT count(*) FROM messages WHERE name = ?"
_WRITE = "INSERT INTO messages VALUES (?, ?, ?, ?)"
_CLEAR = "DELETE FROM messages WHERE name = ?"
_NAMES = "SELECT name FROM messages GROUP BY name ORDER BY max(at) DESC, name"


def _refuse_changed(count: int, after: int | None) -> None:
    if after not in (None, count):
        raise ConversationError(
            f"The session has {count} messages now, and had {after} when this run started: another run has changed it. "
            f"Nothing was added. Run them one after the other, or give each a session of its own."
        )
