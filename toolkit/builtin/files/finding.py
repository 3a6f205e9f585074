"""`list_files` and `search`: which files there are, and what stands in them, for a model that writes code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import PurePosixPath
from typing import Annotated

from annotated_types import Ge

from toolkit._concurrency.cancellation import Cancellation
from toolkit._concurrency.threads import over
from toolkit._context import ToolContext
from toolkit._messages import ToolResult
from toolkit._tools.decorator import tool
from toolkit.builtin.files.coding import told_coder
from toolkit.builtin.files.limits import CodingLimits
from toolkit.builtin.files.matching import clipped, globber, matcher
from toolkit.builtin.files.names import shown
from toolkit.builtin.files.pieces import pieces
from toolkit.builtin.files.texts import line_blocks
from toolkit.builtin.files.workspace import Workspace
from toolkit.errors import Failed

MAX_LISTED = 200  # files
MAX_MATCHES = 50
MAX_DEPTH = 100  # directories, where nothing else is said


class FindingFiles:
    """The tools for one project."""

    def __init__(self, workspace: Workspace, limits: CodingLimits) -> None:
        self._workspace, self._limits = workspace, limits

    @tool(title="List Files", effect="read")
    def list_files(
        self, path: str = ".", pattern: str = "", max_depth: Annotated[int, Ge(1)] = 3, *, context: ToolContext
    ) -> ToolResult:
        """List the files beneath a directory, sorted; what is in target, .git and node_modules is left out.

        Args:
            path: Directory to list.
            pattern: Glob: `*.py` is about names, `src/**/*.py` about paths from that directory on; all by default.
            max_depth: How many directories deep to look.
            context: Ends the listing.
        """
        fits = globber(pattern)
        failing = told_coder(
            f"Failed to list {path}", path, missing=f"Directory not found: {path}. Check the path and try again."
        )
        with failing, _until(context, self._limits.list_seconds, "Listing timed out") as check:
            found = sorted(self._fitting(path, fits, max_depth, check))
        return _listed(found, path)

    @tool(title="Search Files", effect="read")
    def search(
        self, pattern: str, path: str = ".", include: str = "", *, case_sensitive: bool = False, context: ToolContext
    ) -> ToolResult:
        """Search for a pattern across files. Gives lines of the form `path:line number:text`, 50 at most.

        Left out is what is binary, private or too large, or in target, .git or node_modules. Of a line the first 2000
        characters are searched.

        Args:
            pattern: Regular expression as ripgrep takes it, matched against each line.
            path: Directory or file to search in.
            include: Glob: `*.py` is about names, `src/**/*.py` about paths from that directory on; all by default.
            case_sensitive: Whether capitals matter.
            context: Ends the search.
        """
        matches, fits = matcher(pattern, case_sensitive=case_sensitive), globber(include)
        failing = told_coder("Search error", path)
        with failing, _until(context, self._limits.search_seconds, "Search timed out") as check:
            names = self._fitting(path, fits, MAX_DEPTH, check)
            hits = chain.from_iterable(self._hits(name, path, matches, check) for name in names)
            return _matched(list(islice(hits, MAX_MATCHES)), pattern)

    def _fitting(
        self, path: str, fits: Callable[[str], bool], depth: int, check: Callable[[], object]
    ) -> Iterator[str]:
        start = PurePosixPath(*self._workspace.root.names(path))
        for name in self._workspace.files(path, depth, check):
            below = PurePosixPath(name).relative_to(start)
            if fits(str(below) if below.name else start.name):
                yield name

    def _hits(self, name: str, path: str, matches: Callable[[str], bool], check: Callable[[], object]) -> Iterator[str]:
        """Search a file; one that is no text, may not be read, or is gone, has nothing, unless the model named it."""
        check()
        try:
            for number, line in enumerate(self._lines(name), 1):
                check()
                if matches(line):
                    yield f"{shown(name)}:{number}:{clipped(line)}"
        except OSError:
            if self._workspace.root.names(path) == self._workspace.root.names(name):
                raise

    def _lines(self, name: str) -> Iterator[str]:
        with self._workspace.opened(name) as (file, about):
            yield from chain.from_iterable(line_blocks(pieces(file, about.st_size, self._limits.max_paged)))


@contextmanager
def _until(context: ToolContext, seconds: float, late: str) -> Iterator[Callable[[], None]]:
    """Give what ends the work when the time is up, or the run was left."""
    with Cancellation(seconds, context.cancellation) as ended:

        def check() -> None:
            if context.cancellation:
                raise over(context.cancellation)
            if ended:
                raise Failed(late)

        check()
        yield check


def _listed(found: list[str], path: str) -> ToolResult:
    total = len(found)
    details = {"total": total, "truncated": total > MAX_LISTED}
    if not found:
        return ToolResult(f"No files found in {path}", details=details)
    names = "\n".join(map(shown, found[:MAX_LISTED]))
    count = f"... ({total} files, showing first {MAX_LISTED})" if total > MAX_LISTED else f"({total} files)"
    return ToolResult(f"{names}\n\n{count}", details=details)


def _matched(hits: list[str], pattern: str) -> ToolResult:
    details = {"matches": len(hits)}
    if not hits:
        return ToolResult(f"No matches found for '{pattern}'", details=details)
    count = f"... (showing first {MAX_MATCHES} matches)" if len(hits) >= MAX_MATCHES else f"({len(hits)} matches)"
    return ToolResult("\n".join([*hits, count]), details=details)
