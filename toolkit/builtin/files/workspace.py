"""What can be done to files beneath one directory, whatever the tools that do it are called.

`file_read`, `file_write`, `file_list`, `file_delete`, `file_stat`: the files of one workspace, whole.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import partial
from heapq import nsmallest
from io import BufferedReader
from itertools import chain
from types import MappingProxyType
from typing import BinaryIO

from toolkit._concurrency.cancellation import Cancellation
from toolkit._context import ToolContext
from toolkit._guards.paths import OutsideError, Root
from toolkit._tools.decorator import tool
from toolkit.builtin.files.sensitive import NO_PATTERNS, Patterns
from toolkit.builtin.files.text import (
    NotText,
    TextFormat,
    TooLarge,
    decode_file,
    escape_name,
    get_name,
    read_pieces,
    report_errors,
)
from toolkit.builtin.files.writing import (
    NO_CONTEXT,
    ExpectedFile,
    ExpectHash,
    hash_bytes,
    hash_pieces,
    open_regular,
    replace_file,
)

# What is read of a file to learn how it is written, in bytes.
HEAD = 65_536
SKIPPED_DIRECTORIES = ("target", ".git", "node_modules")


@dataclass(frozen=True)
class Workspace:
    """Files beneath a root.

    Every method raises OSError where something is not there, not allowed, or outside.

    Attributes:
        private: Paths that are not read.
        guarded: Paths that are changed only with somebody's yes.
        max_entries: Of directories, that a walk looks at before it gives up; so many take about a second.
        max_hashed: Bytes; a larger file has no hash, and so none can be expected of it.
    """

    root: Root
    private: Patterns = NO_PATTERNS
    guarded: Patterns = NO_PATTERNS
    max_entries: int = 200_000
    max_hashed: int = 64 * 1024 * 1024

    def needs_approval(self, path: str) -> bool:
        """Tell whether somebody has to agree before a path is changed."""
        try:
            names = self.root.split(path)
        except OSError:
            return False  # nothing there can be changed
        return names in self.guarded or names in self.private

    @contextmanager
    def open_file(self, path: str) -> Iterator[tuple[BufferedReader, os.stat_result]]:
        """Hold a regular file open to read."""
        with open_regular(self.root.open(path)) as (file, found):
            if self.root.split(path) in self.private or self.root.locate_open_file(path, file.fileno()) in self.private:
                raise PermissionError(errno.EACCES, "it may hold secrets, which are kept from you")
            yield file, found

    def make_parents(self, path: str) -> None:
        """Make the directories that lead to a path, as far as there are none."""
        with self.root.open_parent(path, make=True):
            pass

    def replace(self, path: str, data: bytes, expected: str | None, ended: Cancellation) -> None:
        """Put a file in a place, all of it or nothing.

        Args:
            path: The place.
            data: All that the file is to hold.
            expected: The old file's hash, empty where there is to be none: nothing is replaced that somebody changed.
                Of all that use this method, in whatever process, none can do so in between. None where any will do.
            ended: Tells when nothing is to be written any more.
        """
        with self.root.open_parent(path) as (directory, name):
            replace_file(directory, name, data, ExpectedFile(expected, self.max_hashed), ended)

    def encode_text(self, path: str, text: str) -> bytes:
        """Write a text as the file does that it is about to replace; the usual way, where there is none."""
        try:
            with open_regular(self.root.open(path)) as (file, found):
                form = decode_file(file.read(HEAD), is_cut=found.st_size > HEAD)[1]
        except (OutsideError, FileNotFoundError, PermissionError, NotText):
            form = TextFormat()
        return form.encode(form.adapt_line_ends(text))

    def remove(self, path: str) -> None:
        """Remove a file, a link itself, or a directory that is empty."""
        with self.root.open_parent(path) as (directory, name):
            is_directory = stat.S_ISDIR(os.lstat(name, dir_fd=directory).st_mode)
            (os.rmdir if is_directory else os.unlink)(name, dir_fd=directory)

    def stat(self, path: str) -> os.stat_result:
        """Tell what the system knows of what stands in a place, a link itself included."""
        if not self.root.split(path):
            with self.root.open_directory(path) as directory:
                return os.fstat(directory)
        with self.root.open_parent(path) as (directory, name):
            return os.lstat(name, dir_fd=directory)

    def list_entries(self, path: str) -> Iterator[os.DirEntry[str]]:
        """Give what stands in a directory, in the system's order."""
        with self.root.open_directory(path) as directory, os.scandir(directory) as entries:
            yield from entries

    def walk_files(self, path: str, depth: int, check: Callable[[], object]) -> Iterator[str]:
        """Give the paths of regular files, by name, noise left out; of a file, its own. No link is followed.

        Args:
            path: Where to look.
            depth: How many directories deep; 1 is the directory itself.
            check: Asked before each entry; raises to end the walk.
        """
        start = "/".join(self.root.split(path))
        if self._is_file(path):
            yield start
            return
        check = _limit_checks(check, self.max_entries)
        waiting = [(start, depth)]
        while waiting:
            directory, left = waiting.pop()
            found = self._list_directory(directory, check, is_start=directory == start)
            yield from (name for name, is_file in found if is_file)
            waiting += [(name, left - 1) for name, is_file in reversed(found) if not is_file and left > 1]

    def _is_file(self, path: str) -> bool:
        opened = self.root.open(path)
        try:
            return stat.S_ISREG(os.fstat(opened).st_mode)
        finally:
            os.close(opened)

    def _list_directory(self, directory: str, check: Callable[[], object], *, is_start: bool) -> list[tuple[str, bool]]:
        """List a directory's files and directories as sorted paths, each with whether it is a file."""
        found: list[tuple[str, bool]] = []
        try:
            for entry in self.list_entries(directory):
                check()
                is_file = entry.is_file(follow_symlinks=False)
                if is_file or _is_wanted(entry):
                    found.append((f"{directory}/{entry.name}".lstrip("/"), is_file))
        except OSError as error:
            # Further down, somebody removed it meanwhile, or closed it to us, or nothing here can say its name.
            if is_start or error.errno == errno.E2BIG:
                raise
        return sorted(found)


def _is_wanted(entry: os.DirEntry[str]) -> bool:
    return entry.name not in SKIPPED_DIRECTORIES and entry.is_dir(follow_symlinks=False)


def _limit_checks(check: Callable[[], object], most: int) -> Callable[[], None]:
    """Make a check of how often it is asked, too."""
    left = iter(range(most))

    def checked() -> None:
        check()
        if next(left, None) is None:
            raise OSError(errno.E2BIG, f"more than {most} entries; look further down")

    return checked


MAX_READ = 8000  # bytes
MAX_LISTED = 1000  # entries
TRUNCATED = "\n... (truncated)"
OUTSIDE_MESSAGES = MappingProxyType(
    {
        "absolute": "absolute paths not allowed: {}",
        "traversal": "path traversal not allowed: {}",
        "link": "path escapes workspace: {}",
    }
)
_report_errors = partial(report_errors, outside=OUTSIDE_MESSAGES)


class WorkspaceTools:
    """The tools for one workspace."""

    def __init__(self, workspace: Workspace, *, hashes: bool) -> None:
        self._workspace, self._hashes = workspace, hashes

    @tool(title="Read File", effect="read")
    def file_read(self, path: str) -> str:
        """Read a text file from the workspace; of a long one, the first 8000 bytes.

        Args:
            path: File path relative to the workspace.
        """
        with _report_errors("read error", path), self._workspace.open_file(path) as (file, about):
            data = file.read(MAX_READ + 1)
            is_cut = len(data) > MAX_READ
            text = decode_file(data[:MAX_READ], is_cut=is_cut)[0] + (TRUNCATED if is_cut else "")
            found = self._compute_hash(data, file, about.st_size) if self._hashes else ""
            return f"[hash {found}]\n{text}" if found else text

    def file_write(  # noqa: D417  the type says what expect_hash is
        self, path: str, content: str, expect_hash: ExpectHash = "", *, context: ToolContext = NO_CONTEXT
    ) -> str:
        """Write a text file in the workspace, in place of what it held. Missing directories are made.

        Args:
            path: File path relative to the workspace.
            content: All that the file is to hold.
            context: Tells when the call ends.
        """
        with _report_errors("mkdir error", path):
            self._workspace.make_parents(path)
        with _report_errors("write error", path):
            data = self._workspace.encode_text(path, content)
            self._workspace.replace(path, data, expect_hash if self._hashes else None, context.cancellation)
        mark = f" [hash {hash_bytes(data)}]" if self._hashes else ""
        return f"Written {len(data)} bytes to {get_name(path)}{mark}"

    @tool(title="List Directory", effect="read")
    def file_list(self, path: str = ".") -> str:
        """List one directory of the workspace: a line for each entry, with `file` or `dir`, a tab, and its name.

        Args:
            path: Directory path relative to the workspace; empty or `.` for the workspace itself.
        """
        with _report_errors("list error", path):
            found = nsmallest(
                MAX_LISTED + 1, ((entry.name, _get_kind(entry)) for entry in self._workspace.list_entries(path))
            )
        lines = "".join(f"{kind}\t{escape_name(name)}\n" for name, kind in found[:MAX_LISTED])
        return lines + (f"... (more than {MAX_LISTED} entries)" if len(found) > MAX_LISTED else "")

    @tool(title="Delete File", effect="destructive")
    def file_delete(self, path: str) -> str:
        """Delete a file or an empty directory of the workspace.

        Args:
            path: File or directory path relative to the workspace.
        """
        with _report_errors("delete error", path):
            self._workspace.remove(path)
        return f"Deleted {get_name(path)}"

    @tool(title="Look Up File", effect="read")
    def file_stat(self, path: str) -> dict[str, str | int]:
        """Tell the name, size in bytes, type and time of modification (UTC) of a file or directory of the workspace.

        Args:
            path: File or directory path relative to the workspace.
        """
        with _report_errors("stat error", path):
            found = self._workspace.stat(path)
        return {
            "name": get_name(path),
            "size": found.st_size,
            "type": "directory" if stat.S_ISDIR(found.st_mode) else "file",
            "modified": f"{datetime.fromtimestamp(found.st_mtime, timezone.utc):%Y-%m-%dT%H:%M:%SZ}",
        }

    def _compute_hash(self, beginning: bytes, file: BinaryIO, size: int) -> str:
        """Tell the hash of what was read and what follows; "" where that is too much to look through."""
        try:
            return hash_pieces(chain([beginning], read_pieces(file, size, self._workspace.max_hashed)))
        except TooLarge:
            return ""


def _get_kind(entry: os.DirEntry[str]) -> str:
    return "dir" if entry.is_dir(follow_symlinks=False) else "file"
