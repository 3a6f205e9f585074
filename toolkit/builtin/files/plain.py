"""`file_read`, `file_write`, `file_list`, `file_delete`, `file_stat`: the files of one workspace, whole."""

from __future__ import annotations

import os
import stat
from datetime import datetime, timezone
from functools import partial
from heapq import nsmallest
from itertools import chain
from types import MappingProxyType
from typing import BinaryIO

from toolkit._context import ToolContext
from toolkit._tools.decorator import tool
from toolkit.builtin.files.hashes import hash_of, hash_of_all
from toolkit.builtin.files.names import name_of, shown, told
from toolkit.builtin.files.pieces import TooLarge, pieces
from toolkit.builtin.files.replacing import NOBODY, ExpectHash
from toolkit.builtin.files.texts import decoded
from toolkit.builtin.files.workspace import Workspace

MAX_READ = 8000  # bytes
MAX_LISTED = 1000  # entries
TRUNCATED = "\n... (truncated)"
OUTSIDE = MappingProxyType(
    {
        "absolute": "absolute paths not allowed: {}",
        "traversal": "path traversal not allowed: {}",
        "link": "path escapes workspace: {}",
    }
)
_told = partial(told, outside=OUTSIDE)


class PlainFiles:
    """The tools for one workspace."""

    def __init__(self, workspace: Workspace, *, hashes: bool) -> None:
        self._workspace, self._hashes = workspace, hashes

    @tool(title="Read File", effect="read")
    def file_read(self, path: str) -> str:
        """Read a text file from the workspace; of a long one, the first 8000 bytes.

        Args:
            path: File path relative to the workspace.
        """
        with _told("read error", path), self._workspace.opened(path) as (file, about):
            data = file.read(MAX_READ + 1)
            is_cut = len(data) > MAX_READ
            text = decoded(data[:MAX_READ], is_cut=is_cut)[0] + (TRUNCATED if is_cut else "")
            found = self._hash(data, file, about.st_size) if self._hashes else ""
            return f"[hash {found}]\n{text}" if found else text

    def file_write(  # noqa: D417  the type says what expect_hash is
        self, path: str, content: str, expect_hash: ExpectHash = "", *, context: ToolContext = NOBODY
    ) -> str:
        """Write a text file in the workspace, in place of what it held. Missing directories are made.

        Args:
            path: File path relative to the workspace.
            content: All that the file is to hold.
            context: Tells when the call ends.
        """
        with _told("mkdir error", path):
            self._workspace.make_parents(path)
        with _told("write error", path):
            data = self._workspace.encoded(path, content)
            self._workspace.replace(path, data, expect_hash if self._hashes else None, context.cancellation)
        mark = f" [hash {hash_of(data)}]" if self._hashes else ""
        return f"Written {len(data)} bytes to {name_of(path)}{mark}"

    @tool(title="List Directory", effect="read")
    def file_list(self, path: str = ".") -> str:
        """List one directory of the workspace: a line for each entry, with `file` or `dir`, a tab, and its name.

        Args:
            path: Directory path relative to the workspace; empty or `.` for the workspace itself.
        """
        with _told("list error", path):
            found = nsmallest(MAX_LISTED + 1, ((entry.name, _kind(entry)) for entry in self._workspace.entries(path)))
        lines = "".join(f"{kind}\t{shown(name)}\n" for name, kind in found[:MAX_LISTED])
        return lines + (f"... (more than {MAX_LISTED} entries)" if len(found) > MAX_LISTED else "")

    @tool(title="Delete File", effect="destructive")
    def file_delete(self, path: str) -> str:
        """Delete a file or an empty directory of the workspace.

        Args:
            path: File or directory path relative to the workspace.
        """
        with _told("delete error", path):
            self._workspace.remove(path)
        return f"Deleted {name_of(path)}"

    @tool(title="Look Up File", effect="read")
    def file_stat(self, path: str) -> dict[str, str | int]:
        """Tell the name, size in bytes, type and time of modification (UTC) of a file or directory of the workspace.

        Args:
            path: File or directory path relative to the workspace.
        """
        with _told("stat error", path):
            found = self._workspace.stat(path)
        return {
            "name": name_of(path),
            "size": found.st_size,
            "type": "directory" if stat.S_ISDIR(found.st_mode) else "file",
            "modified": f"{datetime.fromtimestamp(found.st_mtime, timezone.utc):%Y-%m-%dT%H:%M:%SZ}",
        }

    def _hash(self, beginning: bytes, file: BinaryIO, size: int) -> str:
        """Tell the hash of what was read and what follows; "" where that is too much to look through."""
        try:
            return hash_of_all(chain([beginning], pieces(file, size, self._workspace.max_hashed)))
        except TooLarge:
            return ""


def _kind(entry: os.DirEntry[str]) -> str:
    return "dir" if entry.is_dir(follow_symlinks=False) else "file"
