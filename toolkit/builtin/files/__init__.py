"""File tools for one directory and what is beneath it: two families of names, one way of doing it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from toolkit._guards import options
from toolkit._guards.paths import Root
from toolkit._tools.decorator import tool
from toolkit._tools.tool import Tool
from toolkit.builtin.files.coding import CodingLimits, EditingTools, FindingTools
from toolkit.builtin.files.sensitive import DEFAULT_GUARDED, DEFAULT_PRIVATE, Patterns
from toolkit.builtin.files.workspace import Workspace, WorkspaceTools
from toolkit.builtin.files.writing import TEMPORARY_NAME

__all__ = ["DEFAULT_GUARDED", "DEFAULT_PRIVATE", "CodingLimits", "Root", "coding_tools", "file_tools"]


def file_tools(
    root: str | os.PathLike[str] | Root,
    *,
    private: Sequence[str] = DEFAULT_PRIVATE,
    guarded: Sequence[str] = DEFAULT_GUARDED,
    hashes: bool = False,
) -> list[Tool[..., Any]]:
    """Make `file_read`, `file_write`, `file_list`, `file_delete` and `file_stat` for what is beneath a directory.

    No path leads out of it, not by links, nor while somebody moves things about. Relative links that stay inside are
    followed to read, where the kernel can tell (Linux 5.6), and never to write. Hard links to files elsewhere can be
    read. Patterns are about what is beneath the directory, wherever it stands itself.

    Args:
        root: The directory, which is there already; it is held open.
        private: What is not read, as patterns of names, `/` between them, `*` and `?` in them, and `!` before what is
            not meant; it is written only with somebody's yes.
        guarded: What is changed only with somebody's yes, such as what is run later without anybody's asking. An
            approver that agrees to a tool by its name, such as `allow("file_write", ...)`, agrees to that too.
        hashes: Whether what is read or written tells its hash, and `file_write` asks for the one that the file had when
            it was read, as `expect_hash`: what somebody else has changed since is not overwritten, nor is what was not
            read. For agents that work on the same files. A file of more than 64 MiB has none.

    Raises:
        DefinitionError: There is no such directory, the system cannot open files beneath one, or a value makes no
            sense.
    """
    workspace = _make_workspace(root, private, guarded)
    made = WorkspaceTools(workspace, hashes=options.check_type("hashes", hashes, bool))
    write = _make_write_tool(workspace, made.file_write, "Write File", hashes=hashes)
    return [made.file_read, write, made.file_list, _require_approval(workspace, made.file_delete), made.file_stat]


def coding_tools(
    root: str | os.PathLike[str] | Root,
    *,
    private: Sequence[str] = DEFAULT_PRIVATE,
    guarded: Sequence[str] = DEFAULT_GUARDED,
    hashes: bool = False,
    limits: CodingLimits | None = None,
) -> list[Tool[..., Any]]:
    """Make `read_file`, `write_file`, `edit_file`, `list_files` and `search` for what is beneath a directory.

    Args:
        root: As for `file_tools`, and so are the others.
        private: What is neither read nor searched.
        guarded: What is changed only with somebody's yes.
        hashes: As for `file_tools`; `write_file` asks for them. `edit_file` changes the text that it has read, or
            nothing.
        limits: How far the tools go.

    Raises:
        DefinitionError: As for `file_tools`.
    """
    how_far = CodingLimits() if limits is None else options.check_type("limits", limits, CodingLimits)
    workspace = _make_workspace(root, private, guarded)
    workspace = replace(workspace, max_hashed=max(how_far.max_bytes, how_far.max_paged))
    made = EditingTools(workspace, how_far, hashes=options.check_type("hashes", hashes, bool))
    finding = FindingTools(workspace, how_far)
    write = _make_write_tool(workspace, made.write_file, "Write File", hashes=hashes)
    return [made.read_file, write, _require_approval(workspace, made.edit_file), finding.list_files, finding.search]


def _make_workspace(root: str | os.PathLike[str] | Root, private: Sequence[str], guarded: Sequence[str]) -> Workspace:
    kept = Patterns([*options.check_texts("private", private), TEMPORARY_NAME])
    return Workspace(options.open_root(root), kept, Patterns(options.check_texts("guarded", guarded)))


def _make_write_tool(workspace: Workspace, write: Callable[..., Any], title: str, *, hashes: bool) -> Tool[..., Any]:
    """Make the tool that writes; a model is told of hashes only where they are asked for."""
    told = write if hashes else partial(write, expect_hash="")
    made: Tool[..., Any] = tool(told, name=write.__name__, title=title, effect="write", idempotent=not hashes)
    return _require_approval(workspace, made)


def _require_approval(workspace: Workspace, made: Tool[..., Any]) -> Tool[..., Any]:
    """Have somebody asked before one of the paths is changed that need it."""
    return tool(made, approve=lambda request: workspace.needs_approval(request.arguments["path"]))
