"""Writing a file: all of it or nothing, and nothing once the call is cancelled.

A new file, complete and on the disk, replaces the old one, and has its mode, owner and attributes. Other hard links to
the old file keep the old text. A process that is killed while it writes can leave a part of the new file,
whose name has 16 hexadecimal digits between a dot and `.tmp`. A hash of the content that was read prevents overwriting
a change that another writer made meanwhile.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from typing import Annotated

from toolkit._concurrency.cancellation import Cancellation, cancellation_error
from toolkit._context import ToolContext
from toolkit.builtin.files.text import TooLarge, read_bytes

# Hexadecimal digits of SHA-256: enough against accidents, and few enough for a model to copy.
HASH_DIGITS = 16
MAX_HASHED = 64 * 1024 * 1024  # bytes; a larger file has no hash
# Pattern of the names of new files before they replace the old ones.
TEMPORARY_NAME = f".{'?' * 16}.tmp"
CHANGED = "it was changed since it was read; read it again"
EXISTS = "there is a file already; read it, and give its hash as expect_hash"
LOCKED = "another writer keeps its directory locked (flock); try again later"
# Seconds that a write waits for other writers, and between two attempts.
LOCK_TIMEOUT = 2.0
PAUSE = 0.01
NO_CONTEXT: ToolContext = ToolContext(deps=None)  # for a tool that is called as a function
# Described here and not in docstrings, which also describe tools without this parameter.
ExpectHash = Annotated[str, "The hash that the file had when you read it; empty for a file that is not there yet."]
# Follow no link, and do not wait for a FIFO.
_OPEN_FLAGS = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


def replace_file(directory: int, name: str, data: bytes, cancellation: Cancellation, *, expected: str | None) -> None:
    """Replace a file in an open directory, or make one with mode 0644.

    If `expected` is not None, the old file must have this hash. If it is empty, there must be none.

    Raises:
        OSError: The file cannot be replaced, does not have the expected hash, or its directory stays locked.
        Cancelled, TimedOut: The call was cancelled; nothing was changed.
    """
    new = f".{secrets.token_hex(8)}.tmp"
    try:
        with _open_old(directory, name) as old:
            _write_new_file(directory, new, data, like=old)
        with _lock(directory, cancellation):
            if expected is not None:
                _require_hash(directory, name, expected)
            _raise_if_cancelled(cancellation)
            os.replace(new, name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        with suppress(OSError):
            os.unlink(new, dir_fd=directory)
        raise

    os.fsync(directory)


def _require_hash(directory: int, name: str, expected: str) -> None:
    """Check that a file has the expected hash, or does not exist if that is empty."""
    try:
        with open_regular(os.open(name, os.O_RDONLY | _OPEN_FLAGS, dir_fd=directory)) as file:
            found = hash_bytes(read_bytes(file, MAX_HASHED))
    except FileNotFoundError:
        found = ""
    except TooLarge:
        found = "none"
    if found != expected:
        raise OSError(errno.EBUSY, CHANGED if expected else EXISTS)


@contextmanager
def open_regular(opened: int) -> Iterator[BufferedReader]:
    """Take over a descriptor of a regular file, and close it at the end."""
    with os.fdopen(_require_regular(opened), "rb") as file:
        yield file


def _require_regular(opened: int) -> int:
    """Return the descriptor of a regular file. For any other file, close it and raise an OSError."""
    mode = os.fstat(opened).st_mode
    if stat.S_ISREG(mode):
        return opened
    os.close(opened)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    raise OSError(errno.EINVAL, "it is not a regular file")


@contextmanager
def _open_old(directory: int, name: str) -> Iterator[int | None]:
    """Open the file that is to be replaced, if there is one. This fails if the file is not writable."""
    try:
        opened = _require_regular(os.open(name, os.O_WRONLY | _OPEN_FLAGS, dir_fd=directory))
    except FileNotFoundError:
        yield None
        return
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise OSError(errno.ELOOP, "it is a symbolic link; use the path of its target") from error

    try:
        yield opened
    finally:
        os.close(opened)


@contextmanager
def _lock(directory: int, cancellation: Cancellation) -> Iterator[None]:
    """Lock a directory against other writers that lock it too: flock(2)."""
    import fcntl  # Windows has none

    with Cancellation(LOCK_TIMEOUT, cancellation) as limit:
        while not _try_lock(directory):
            if limit:
                _raise_if_cancelled(cancellation)
                raise OSError(errno.EBUSY, LOCKED)
            time.sleep(PAUSE)

    try:
        yield
    finally:
        with suppress(OSError):
            fcntl.flock(directory, fcntl.LOCK_UN)


def _try_lock(directory: int) -> bool:
    import fcntl  # Windows has none

    try:
        fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return not isinstance(error, BlockingIOError)  # some file systems cannot lock
    return True


def _raise_if_cancelled(cancellation: Cancellation) -> None:
    if cancellation:
        raise cancellation_error(cancellation)


def _write_new_file(directory: int, name: str, data: bytes, like: int | None) -> None:
    """Write a new file to the disk. It gets the metadata of the old file before the content."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _OPEN_FLAGS
    with os.fdopen(os.open(name, flags, 0o644 if like is None else 0o600, dir_fd=directory), "wb") as file:
        if like is not None:
            _copy_metadata(file.fileno(), like)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _copy_metadata(new: int, like: int) -> None:
    """Copy owner, permissions and extended attributes, as far as this process may."""
    old = os.fstat(like)
    with suppress(OSError):  # not permitted, or a user that this container does not know
        os.fchown(new, old.st_uid, old.st_gid)
    os.fchmod(new, old.st_mode & 0o777)
    with suppress(AttributeError, OSError):  # only Linux has them in Python, and not on all file systems
        for attribute in os.listxattr(like):
            with suppress(OSError):
                os.setxattr(new, attribute, os.getxattr(like, attribute))


def hash_bytes(data: bytes) -> str:
    """Return the hash of a file's content."""
    return hashlib.sha256(data).hexdigest()[:HASH_DIGITS]
