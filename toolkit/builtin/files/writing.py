"""A file in a place: all of it or nothing, and only while the call that writes it still counts.

A new file, complete and on the disk, takes the place of the old one, with its mode, owner and attributes. Other hard
links to the old file keep the old text. A process that is killed while it writes can leave a part of the new file,
whose name has 16 hexadecimal digits between a dot and `.tmp`.

What a file's content is known by, so that nobody overwrites what somebody else wrote meanwhile.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BufferedReader
from typing import Annotated

from toolkit._concurrency.cancellation import Cancellation
from toolkit._concurrency.threads import cancellation_error
from toolkit._context import ToolContext
from toolkit.builtin.files.text import TooLarge, read_pieces

# Hexadecimal digits of SHA-256: enough against accidents, and few enough for a model to copy.
DIGITS = 16


class ContentHash:
    """The hash of all that passed through, as text."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()

    def update_from(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """Give the same pieces, and count them in."""
        for piece in pieces:
            self._digest.update(piece)
            yield piece

    def __str__(self) -> str:
        return self._digest.hexdigest()[:DIGITS]


def hash_bytes(data: bytes) -> str:
    """Tell the hash of a content."""
    return hash_pieces([data])


def hash_pieces(pieces: Iterable[bytes]) -> str:
    """Tell the hash of a content that comes in pieces."""
    found = ContentHash()
    for _ in found.update_from(pieces):
        pass
    return str(found)


# The names of new files that are not in their places yet.
TEMPORARY_NAME = f".{'?' * 16}.tmp"
CHANGED = "somebody else changed it since it was read; read it again"
EXISTS = "there is a file already; read it, and give its hash as expect_hash"
LOCKED = "somebody else keeps its directory locked (flock); try again when they are done"
# Seconds that a write waits for others, and between two looks.
LOCK_TIMEOUT = 2.0
PAUSE = 0.01
NO_CONTEXT: ToolContext = ToolContext(deps=None)  # who calls a tool as a function
# Its text is here because a tool that takes none has no use for it.
ExpectHash = Annotated[str, "The hash that the file had when you read it; empty for a file that is not there yet."]
# No link is followed, no FIFO waited for.
_OPEN_FLAGS = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_KINDS = (
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def replace_file(directory: int, name: str, data: bytes, expected: ExpectedFile, cancellation: Cancellation) -> None:
    """Put a file into an open directory; where there is none of this name, with mode 0644.

    Raises:
        OSError: It cannot be, or the old one is not what was expected, or others keep the directory locked.
        Cancelled, TimedOut: The call ended; nothing was changed.
    """
    new = f".{secrets.token_hex(8)}.tmp"
    try:
        with _open_old(directory, name) as old:
            _write(directory, new, data, like=old)
        with _lock(directory, cancellation):
            expected.check(directory, name)
            _raise_if_cancelled(cancellation)
            os.replace(new, name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        with suppress(OSError):
            os.unlink(new, dir_fd=directory)
        raise
    os.fsync(directory)


@dataclass(frozen=True)
class ExpectedFile:
    """What a file was like that is to be replaced.

    Attributes:
        hash: Of what it holds; empty where there is to be no file; None where anything will do.
        most: Bytes that are looked through; a file that has more is another one.
    """

    hash: str | None = None
    max_bytes: int = 0

    def check(self, directory: int, name: str) -> None:
        """Make sure of it.

        Raises:
            OSError: It is different.
        """
        if self.hash is None:
            return
        try:
            with open_regular(os.open(name, os.O_RDONLY | _OPEN_FLAGS, dir_fd=directory)) as (file, found):
                is_same = self.hash == hash_pieces(read_pieces(file, found.st_size, self.max_bytes))
        except FileNotFoundError:
            is_same = not self.hash
        except TooLarge:
            is_same = False
        if not is_same:
            raise OSError(errno.EBUSY, CHANGED if self.hash else EXISTS)


@contextmanager
def open_regular(opened: int) -> Iterator[tuple[BufferedReader, os.stat_result]]:
    """Hold an open file, provided that it is a regular one."""
    with os.fdopen(_require_regular(opened), "rb") as file:
        yield file, os.fstat(opened)


def _require_regular(opened: int) -> int:
    """Give an open file back if it is a regular one, else close it and refuse."""
    mode = os.fstat(opened).st_mode
    if stat.S_ISREG(mode):
        return opened
    os.close(opened)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    kind = next((name for is_kind, name in _KINDS if is_kind(mode)), "something else")
    raise OSError(errno.EINVAL, f"it is no regular file, but {kind}")


@contextmanager
def _open_old(directory: int, name: str) -> Iterator[int | None]:
    """Hold the file open that is to be replaced, where there is one: only what may be written to is replaced."""
    try:
        opened = _require_regular(os.open(name, os.O_WRONLY | _OPEN_FLAGS, dir_fd=directory))
    except FileNotFoundError:
        yield None
        return
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise OSError(errno.ELOOP, "it is a link; name the file that it leads to") from error
    try:
        yield opened
    finally:
        os.close(opened)


@contextmanager
def _lock(directory: int, ended: Cancellation) -> Iterator[None]:
    """Let nobody else put a file into a directory meanwhile who asks for the same; flock(2)."""
    import fcntl  # Windows has none

    with Cancellation(LOCK_TIMEOUT, ended) as late:
        while not _try_lock(directory):
            if late:
                _raise_if_cancelled(ended)
                raise OSError(errno.EBUSY, LOCKED)
            time.sleep(PAUSE)
    try:
        yield
    finally:
        with suppress(OSError):
            fcntl.flock(directory, fcntl.LOCK_UN)


def _try_lock(directory: int) -> bool:
    import fcntl  # as above

    try:
        fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass  # some file systems cannot
    return True


def _raise_if_cancelled(ended: Cancellation) -> None:
    if ended:
        raise cancellation_error(ended)


def _write(directory: int, name: str, data: bytes, like: int | None) -> None:
    """Make a file, and have it on the disk: it looks like the old one before anything is in it."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _OPEN_FLAGS
    with os.fdopen(os.open(name, flags, 0o644 if like is None else 0o600, dir_fd=directory), "wb") as file:
        if like is not None:
            _copy_metadata(file.fileno(), like)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _copy_metadata(new: int, like: int) -> None:
    """Give a file the owner, mode and attributes of another, as far as this process may."""
    old = os.fstat(like)
    with suppress(OSError):  # not permitted, or of somebody that this container does not know
        os.fchown(new, old.st_uid, old.st_gid)
    mine = os.fstat(new)
    is_same = (mine.st_uid, mine.st_gid) == (old.st_uid, old.st_gid)
    os.fchmod(new, stat.S_IMODE(old.st_mode) & (0o7777 if is_same else 0o777))
    for attribute in _list_attributes(like):
        with suppress(OSError):
            os.setxattr(new, attribute, os.getxattr(like, attribute))


def _list_attributes(opened: int) -> list[str]:
    """List what else the system knows of a file; nothing, where the file system keeps nothing."""
    with suppress(AttributeError, OSError):  # only Linux has them in Python
        return os.listxattr(opened)
    return []
