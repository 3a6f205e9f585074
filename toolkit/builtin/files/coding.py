"""`read_file`, `write_file`, `edit_file`: files, for a model that writes code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Annotated

from annotated_types import Ge

from toolkit._context import ToolContext
from toolkit._guards.media import picture
from toolkit._messages import Image, ToolResult
from toolkit._tools.decorator import tool
from toolkit.builtin.files.edits import edited, summary
from toolkit.builtin.files.hashes import Hash, hash_of
from toolkit.builtin.files.limits import CodingLimits
from toolkit.builtin.files.matching import clipped
from toolkit.builtin.files.names import told
from toolkit.builtin.files.pieces import pieces
from toolkit.builtin.files.replacing import NOBODY, ExpectHash
from toolkit.builtin.files.texts import decoded, line_blocks, lines_of
from toolkit.builtin.files.workspace import Workspace

MAX_PAGE = 500  # lines, where nothing else is said
MAX_LINES = 5000  # lines, whatever is said
ADVICE = " Use offset/limit for partial reads."
OUTSIDE: Mapping[str, str] = MappingProxyType(
    dict.fromkeys(("absolute", "traversal", "link"), "path '{}' is outside the allowed directories")
)
told_coder = partial(told, outside=OUTSIDE)


class CodingFiles:
    """The tools for one project."""

    def __init__(self, workspace: Workspace, limits: CodingLimits, *, hashes: bool) -> None:
        self._workspace, self._limits, self._hashes = workspace, limits, hashes

    @tool(title="Read File", effect="read")
    def read_file(
        self, path: str, offset: Annotated[int, Ge(0)] | None = None, limit: Annotated[int, Ge(0)] | None = None
    ) -> ToolResult:
        """Read a file: a text with its lines numbered, 500 of them where nothing else is said, or a picture.

        Args:
            path: File path to read.
            offset: Starting line number, counted from 1.
            limit: Maximum number of lines to return.
        """
        is_part = offset is not None or limit is not None
        most = self._limits.max_paged if is_part else self._limits.max_bytes
        found = Hash()
        with told_coder(f"Cannot access {path}", path), self._workspace.opened(path) as (file, about):
            if media_type := picture(file.peek()):
                data = b"".join(pieces(file, about.st_size, self._limits.max_image))
                return ToolResult(Image(data, media_type), details={"path": path})
            with told_coder(f"Cannot read {path}", path, large="" if is_part else ADVICE):
                blocks = line_blocks(found.through(pieces(file, about.st_size, most)))
                page = _page(blocks, max(offset or 1, 1) - 1, limit, is_part=is_part)
        return ToolResult(f"[hash {found}]\n{page}" if self._hashes else page, details={"path": path})

    def write_file(  # noqa: D417  the type says what expect_hash is
        self, path: str, content: str, expect_hash: ExpectHash = "", *, context: ToolContext = NOBODY
    ) -> ToolResult:
        """Write a text file, in place of what it held. Missing directories are made. To change a part, use edit_file.

        Args:
            path: File path to write.
            content: All that the file is to hold.
            context: Tells when the call ends.
        """
        with told_coder("Cannot create directory", path):
            self._workspace.make_parents(path)
        with told_coder(f"Cannot write {path}", path):
            data = self._workspace.encoded(path, content)
            self._workspace.replace(path, data, expect_hash if self._hashes else None, context.cancellation)
        details = {"path": path, "bytes": len(data)}
        return ToolResult(f"Wrote {len(data)} bytes to {path}{self._mark(data)}", details=details)

    @tool(title="Edit File", effect="write")
    def edit_file(self, path: str, old_text: str, new_text: str, *, context: ToolContext = NOBODY) -> ToolResult:
        """Replace one text in a file by another. For new files, use write_file.

        Args:
            path: File path to edit.
            old_text: Exact text to find, white space and indentation included; it must occur exactly once.
            new_text: What to put in its place.
            context: Tells when the call ends.
        """
        missing = f"Cannot read {path}: No such file or directory. Use write_file to create new files."
        with told_coder(f"Cannot read {path}", path, missing=missing), self._workspace.opened(path) as (file, about):
            data = b"".join(pieces(file, about.st_size, self._limits.max_bytes))
            text, form = decoded(data)
        changed = edited(text, old_text, new_text, path)
        now = form.encoded(changed)
        if changed != text:
            with told_coder(f"Cannot write {path}", path):
                self._workspace.replace(path, now, hash_of(data), context.cancellation)
        details = {"path": path, "old_lines": len(lines_of(old_text)), "new_lines": len(lines_of(new_text))}
        said = "No changes (old_text == new_text)" if changed == text else summary(old_text, new_text, path)
        return ToolResult(said + self._mark(now), details=details)

    def _mark(self, data: bytes) -> str:
        return f" [hash {hash_of(data)}]" if self._hashes else ""


def _page(blocks: Iterable[list[str]], start: int, limit: int | None, *, is_part: bool) -> str:
    end = start + min(MAX_PAGE if limit is None else limit, MAX_LINES)
    kept: list[str] = []
    total = 0
    for block in blocks:
        kept += map(clipped, block[max(start - total, 0) : max(end - total, 0)])
        total += len(block)
    start = min(start, total)
    end = start + len(kept)
    header = f"[Lines {start + 1}-{end} of {total}]" if is_part or end < total else f"[{total} lines]"
    return "\n".join([header, *(f"{number:>4} | {line}" for number, line in enumerate(kept, start + 1))])
