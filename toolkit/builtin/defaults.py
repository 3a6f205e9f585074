"""`default_tools`: the tools of an agent that works on a project."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from toolkit._guards.options import open_root
from toolkit._guards.paths import Root
from toolkit._options import check_options
from toolkit._tools.tool import Tool
from toolkit.builtin.files import coding_tools
from toolkit.builtin.files.coding import CodingLimits
from toolkit.builtin.files.sensitive import DEFAULT_GUARDED, DEFAULT_PRIVATE
from toolkit.builtin.shell import bash_tool
from toolkit.builtin.shell.sandbox import Sandbox


@check_options
def default_tools(
    root: str | os.PathLike[str] | Root,
    *,
    private: Sequence[str] = DEFAULT_PRIVATE,
    guarded: Sequence[str] = DEFAULT_GUARDED,
    limits: CodingLimits | None = None,
    sandbox: bool | Sandbox = False,
) -> list[Tool[..., Any]]:
    """Make `read_file`, `write_file`, `edit_file`, `list_files`, `search` and `bash` for one directory.

    The file tools stay in the directory. Commands can leave it and can read private files: require approval for them
    (`Runner(..., approve=...)`), or use a sandbox.

    Args:
        root: An existing directory; it is held open.
        private: As for `coding_tools`.
        guarded: As for `coding_tools`.
        limits: As for `coding_tools`.
        sandbox: As for `bash_tool`.

    Raises:
        DefinitionError: As for `coding_tools` and `bash_tool`.
    """
    root = open_root(root)
    files = coding_tools(root, private=private, guarded=guarded, limits=limits)
    return [*files, bash_tool(root, sandbox=sandbox)]
