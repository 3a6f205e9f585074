"""Files beneath one directory, and `file_read`, `file_write`, `file_list`, `file_delete`, `file_stat`.

Both families of tools use a `Workspace`; the other family is in `coding`.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import partial
from heapq import nsmallest
from io import BufferedReader
from itertools import islice
from typing import NamedTuple

from toolkit._concurrency.cancellation import Cancellation
from toolkit._context import ToolContext
from toolkit._guards.paths import OutsideError, Root
from toolkit._tools.decorator import tool
from toolkit.builtin.files.sensitive import Patterns
from toolkit.builtin.files.text import (
    NotText,
    TextFormat,
    TooLarge,
    decode_file,
    escape_name,
    get_name,
    read_bytes,
    report_errors,
)
from toolkit.builtin.files.writing import MAX_HASHED, NO_CONTEXT, ExpectHash, hash_bytes, open_regular, replace_file

HEAD = 65_536  # bytes of a file that are read to detect its format
SKIPPED_DIRECTORIES = ("target", ".git", "node_modules")
MAX_READ = 8000  # bytes
MAX_LISTED = 1000  # entries
TRUNCATED = "\n... (truncated)"
OUTSIDE_MESSAGES: Mapping[str, str] = {
    "absolute": "absolute paths not allowed: {}",
    "traversal": "path traversal not allowed: {}",
    "link": "path escapes workspace: {}",
}
_report_errors = partial(report_errors, outside=OUTSIDE_MESSAGES)


class FileTools:
    """The base of tools for the files of one workspace."""

    def __init__(self, workspace: Workspace, *, hashes: bool) -> None:
        self._workspace = workspace
        self._hashes = hashes

    @property
    def identity(self) -> str:
        """The directory, for approvals."""
        return self._workspace.root.identity

    def _format_hash(self, data: bytes) -> str:
        return f" [hash {hash_bytes(data)}]" if self._hashes else ""


class WorkspaceTools(FileTools):
    """The tools of `file_tools`."""

    @tool(title="Read File", effect="read")
    def file_read(self, path: str) -> str:
        """Read a text file from the workspace, up to 8000 bytes.

        Args:
            path: File path relative to the workspace.
        """
        with _report_errors("read error", path), self._workspace.open_file(path) as file:
            data = file.read(MAX_READ + 1)
            is_cut = len(data) > MAX_READ
            text, _ = decode_file(data[:MAX_READ], is_cut=is_cut)
            if is_cut:
                text += TRUNCATED
            mark = ""
            with suppress(TooLarge):
                if self._hashes:
                    mark = f"[hash {hash_bytes(data + read_bytes(file, MAX_HASHED))}]\n"
            return mark + text

    def file_write(  # noqa: D417  the type says what expect_hash is
        self, path: str, content: str, expect_hash: ExpectHash = "", *, context: ToolContext = NO_CONTEXT
    ) -> str:
        """Write a text file in the workspace, replacing its content. Missing directories are made.

        Args:
            path: File path relative to the workspace.
            content: The whole content of the file.
            context: Cancels the write.
        """
        with _report_errors("mkdir error", path):
            self._workspace.root.make_parents(path)
        with _report_errors("write error", path):
            data = self._workspace.encode_text(path, content)
            self._workspace.replace(path, data, expect_hash if self._hashes else None, context.cancellation)
        return f"Written {len(data)} bytes to {get_name(path)}{self._format_hash(data)}"

    @tool(title="List Directory", effect="read")
    def file_list(self, path: str = ".") -> str:
        """List one directory of the workspace: a line for each entry, with `file` or `dir`, a tab, and its name.

        Args:
            path: Directory path relative to the workspace; empty or `.` for the workspace itself.
        """
        with _report_errors("list error", path):
            listed = self._workspace.list_entries(path)
            kinds = ((entry.name, "dir" if entry.is_dir(follow_symlinks=False) else "file") for entry in listed)
            entries = nsmallest(MAX_LISTED + 1, kinds)
        lines = "".join(f"{kind}\t{escape_name(name)}\n" for name, kind in entries[:MAX_LISTED])
        return lines + (f"... (more than {MAX_LISTED} entries)" if len(entries) > MAX_LISTED else "")

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
        """Return the name, size in bytes, type and time of modification (UTC) of a file or directory of the workspace.

        Args:
            path: File or directory path relative to the workspace.
        """
        with _report_errors("stat error", path):
            status = self._workspace.stat(path)
        return {
            "name": get_name(path),
            "size": status.st_size,
            "type": "directory" if stat.S_ISDIR(status.st_mode) else "file",
            "modified": f"{datetime.fromtimestamp(status.st_mtime, timezone.utc):%Y-%m-%dT%H:%M:%SZ}",
        }


class WalkedPath(NamedTuple):
    """A file, or a directory whose files are too deep, as `Workspace.walk_files` yields it."""

    path: str
    is_file: bool


@dataclass(frozen=True)
class Workspace:
    """Files beneath a root.

    Methods that use a file raise OSError if it does not exist, is not allowed, or is outside.

    Attributes:
        root: The directory.
        private: Paths that are not read.
        guarded: Paths that are changed only with approval.
        max_entries: Entries of directories that a walk visits before it fails; the default takes about a second.
    """

    root: Root
    private: Patterns
    guarded: Patterns
    max_entries: int = 200_000

    def needs_approval(self, path: str) -> bool:
        """Return whether changing a path needs approval."""
        try:
            names = self.root.split(path)
        except OSError:
            return False  # nothing there can be changed
        return names in self.guarded or names in self.private

    @contextmanager
    def open_file(self, path: str) -> Iterator[BufferedReader]:
        """Open a regular file to read."""
        with open_regular(self.root.open(path)) as file:
            if self.root.split(path) in self.private or self.root.locate_open_file(path, file.fileno()) in self.private:
                raise PermissionError(errno.EACCES, "it may hold secrets, so it cannot be read")
            yield file

    def replace(self, path: str, data: bytes, expected: str | None, cancellation: Cancellation) -> None:
        """Write a file, all of it or nothing.

        A file that has another hash than `expected` is not replaced; "" stands for no file, None for any. No other
        caller of this method, in any process, can write in between.
        """
        with self.root.open_parent(path) as (directory, name):
            replace_file(directory, name, data, cancellation, expected=expected)

    def encode_text(self, path: str, text: str) -> bytes:
        """Encode a text in the format of the file that it replaces, or in the default format if there is no file."""
        try:
            with open_regular(self.root.open(path)) as file:
                head = file.read(HEAD)
                _, text_format = decode_file(head, is_cut=len(head) == HEAD)
        except (OutsideError, FileNotFoundError, PermissionError, NotText):
            text_format = TextFormat()
        return text_format.encode(text_format.adapt_line_ends(text))

    def remove(self, path: str) -> None:
        """Remove a file, a link itself, or an empty directory."""
        with self.root.open_parent(path) as (directory, name):
            is_directory = stat.S_ISDIR(os.lstat(name, dir_fd=directory).st_mode)
            (os.rmdir if is_directory else os.unlink)(name, dir_fd=directory)

    def stat(self, path: str) -> os.stat_result:
        """Return the status of a path, or of a link itself."""
        if not self.root.split(path):
            with self.root.open_directory(path) as directory:
                return os.fstat(directory)
        with self.root.open_parent(path) as (directory, name):
            return os.lstat(name, dir_fd=directory)

    def list_entries(self, path: str) -> Iterator[os.DirEntry[str]]:
        """Yield the entries of a directory, in the system's order."""
        with self.root.open_directory(path) as directory, os.scandir(directory) as entries:
            yield from entries

    def walk_files(self, path: str, depth: int, check: Callable[[], object]) -> Iterator[WalkedPath]:
        """Yield regular files in order of names, without `SKIPPED_DIRECTORIES`. No link is followed.

        A directory that is too deep is yielded in place of the files in it.

        Args:
            path: A directory, or a file, whose own path is yielded.
            depth: Levels of directories; 1 is the directory itself.
            check: Called before each entry; raises to end the walk.
        """
        start = "/".join(self.root.split(path))
        if self._is_file(path):
            yield WalkedPath(start, is_file=True)
            return

        pending = [(start, depth)]
        count = 0
        while pending:
            directory, left = pending.pop()
            entries = self._list_directory(directory, check, self.max_entries - count, is_start=directory == start)
            count += len(entries)
            if count > self.max_entries:
                raise OSError(errno.E2BIG, f"more than {self.max_entries} entries; look further down")
            yield from (WalkedPath(name, is_file=True) for name, kind in entries if kind == "file")
            inner = [name for name, kind in entries if kind == "directory"]
            if left > 1:
                pending += [(name, left - 1) for name in reversed(inner)]
            else:
                yield from (WalkedPath(name, is_file=False) for name in inner)

    def _is_file(self, path: str) -> bool:
        opened = self.root.open(path)
        try:
            return stat.S_ISREG(os.fstat(opened).st_mode)
        finally:
            os.close(opened)

    def _list_directory(
        self, directory: str, check: Callable[[], object], most: int, *, is_start: bool
    ) -> list[tuple[str, str]]:
        """List up to `most` + 1 entries of a directory as sorted paths, each with "file", "directory" or ""."""
        entries: list[tuple[str, str]] = []
        try:
            for entry in islice(self.list_entries(directory), most + 1):
                check()
                kind = ""
                if entry.is_file(follow_symlinks=False):
                    kind = "file"
                elif entry.name not in SKIPPED_DIRECTORIES and entry.is_dir(follow_symlinks=False):
                    kind = "directory"
                entries.append((f"{directory}/{entry.name}".lstrip("/"), kind))
        except OSError:
            # A directory further down may have been removed meanwhile, be unreadable, or have too long a path.
            if is_start:
                raise

        return sorted(entries)
