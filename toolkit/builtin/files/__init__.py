"""File tools for one directory and everything beneath it: two families of names on one implementation.

Files, each importing only those below it:

    coding       `coding_tools`: reading pages, editing, listing, searching
    workspace    files beneath a root, and `file_tools`
    writing      writing a file: all or nothing, hashes, locks
    text         reading and decoding text, errors and names for a model
    sensitive    patterns of private and guarded paths
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from toolkit._guards import options
from toolkit._guards.paths import Root
from toolkit._options import check_options, make_hints
from toolkit._tools.decorator import tool
from toolkit._tools.tool import Tool
from toolkit.builtin.files.coding import CodingLimits, CodingTools
from toolkit.builtin.files.sensitive import DEFAULT_GUARDED, DEFAULT_PRIVATE, Patterns
from toolkit.builtin.files.workspace import Workspace, WorkspaceTools
from toolkit.builtin.files.writing import TEMPORARY_NAME

# Hints for options that other libraries have.
HINTS = make_hints(
    (
        "allow_delete allow_write enable_delete enable_write read_only readonly",
        "Toolbox([...]).filtered(lambda tool: tool.settings.effect == 'read') has the tools that only read.",
    ),
)


@partial(check_options, hints=HINTS)
def file_tools(
    root: str | os.PathLike[str] | Root,
    *,
    private: Sequence[str] = DEFAULT_PRIVATE,
    guarded: Sequence[str] = DEFAULT_GUARDED,
    hashes: bool = False,
) -> list[Tool[..., Any]]:
    """Make `file_read`, `file_write`, `file_list`, `file_delete` and `file_stat` for the files beneath a directory.

    No path leads out of the directory, even by links or while files are moved. Relative links that stay inside are
    followed to read, if the kernel supports it (Linux 5.6), and never to write. Hard links to files elsewhere can be
    read. Patterns are compared with paths relative to the directory.

    Args:
        root: An existing directory; it is held open.
        private: Files that are not read, and written only with approval: patterns of names with `/` between them, `*`
            and `?` in them, and `!` before exceptions.
        guarded: Files that are changed only with approval, such as those that other programs run later. An approver
            that allows a tool by its name, such as `allow("file_write", ...)`, allows these changes, too.
        hashes: Whether results have the hash of the file, and `file_write` has the parameter `expect_hash`: a file that
            has changed since it was read, or was not read, is not overwritten. For agents that work on the same files.
            A file of more than 64 MiB has no hash.

    Raises:
        DefinitionError: There is no such directory, the system cannot open files beneath one, or an option is invalid.
    """
    workspace = _make_workspace(root, private, guarded)
    tools = WorkspaceTools(workspace, hashes=options.check_type("hashes", hashes, bool))
    write = _make_write_tool(workspace, tools.file_write, hashes=hashes)
    return [tools.file_read, write, tools.file_list, _require_approval(workspace, tools.file_delete), tools.file_stat]


@partial(check_options, hints=HINTS)
def coding_tools(
    root: str | os.PathLike[str] | Root,
    *,
    private: Sequence[str] = DEFAULT_PRIVATE,
    guarded: Sequence[str] = DEFAULT_GUARDED,
    hashes: bool = False,
    limits: CodingLimits | None = None,
) -> list[Tool[..., Any]]:
    """Make `read_file`, `write_file`, `edit_file`, `list_files` and `search` for the files beneath a directory.

    Args:
        root: As for `file_tools`.
        private: As for `file_tools`; these files are not searched either.
        guarded: As for `file_tools`.
        hashes: As for `file_tools`, for `write_file`. `edit_file` never overwrites a change that is made meanwhile.
        limits: Limits of the tools.

    Raises:
        DefinitionError: As for `file_tools`.
    """
    chosen = CodingLimits() if limits is None else options.check_type("limits", limits, CodingLimits)
    workspace = _make_workspace(root, private, guarded)
    tools = CodingTools(workspace, chosen, hashes=options.check_type("hashes", hashes, bool))
    write = _make_write_tool(workspace, tools.write_file, hashes=hashes)
    return [tools.read_file, write, _require_approval(workspace, tools.edit_file), tools.list_files, tools.search]


def _make_workspace(root: str | os.PathLike[str] | Root, private: Sequence[str], guarded: Sequence[str]) -> Workspace:
    private_patterns = Patterns([*options.check_texts("private", private), TEMPORARY_NAME])
    return Workspace(options.open_root(root), private_patterns, Patterns(options.check_texts("guarded", guarded)))


def _make_write_tool(workspace: Workspace, write: Callable[..., Any], *, hashes: bool) -> Tool[..., Any]:
    """Make the tool that writes. It has the parameter `expect_hash` only with `hashes`."""
    function = write if hashes else partial(write, expect_hash="")
    write_tool: Tool[..., Any] = tool(
        function, name=write.__name__, title="Write File", effect="write", idempotent=not hashes
    )
    return _require_approval(workspace, write_tool)


def _require_approval(workspace: Workspace, file_tool: Tool[..., Any]) -> Tool[..., Any]:
    """Require approval for calls that change a private or guarded path."""
    return tool(file_tool, approve=lambda request: workspace.needs_approval(request.arguments["path"]))
