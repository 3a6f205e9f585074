"""`default_tools`: the tools of an agent that works on a project."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from typing_extensions import Unpack

from toolkit._guards.options import open_root
from toolkit._guards.paths import Root
from toolkit._options import refuse_unknown_options
from toolkit._tools.tool import Tool
from toolkit.builtin.files import coding_tools
from toolkit.builtin.files.coding import CodingLimits
from toolkit.builtin.files.sensitive import DEFAULT_GUARDED, DEFAULT_PRIVATE
from toolkit.builtin.shell import BashOptions, bash_tool


def default_tools(
    root: str | os.PathLike[str] | Root,
    *,
    private: Sequence[str] = DEFAULT_PRIVATE,
    guarded: Sequence[str] = DEFAULT_GUARDED,
    hashes: bool = False,
    file_limits: CodingLimits | None = None,
    **bash: Unpack[BashOptions],
) -> list[Tool[..., Any]]:
    """Make `bash`, `read_file`, `write_file`, `edit_file`, `list_files` and `search` for one directory, in this order.

    The file tools stay in the directory. Commands can leave it and can read private files: require approval for them
    (`approve=True`, and `Runner(..., approve=...)`), or use a sandbox.

    Args:
        root: An existing directory; it is held open.
        private: As for `coding_tools`.
        guarded: As for `coding_tools`.
        hashes: As for `coding_tools`.
        file_limits: As `limits` of `coding_tools`.
        **bash: The options of `bash_tool`: `timeout`, `max_output`, `deny`, `confirm`, `approve`, `error_on_exit`,
            `env`, `limits`, `sandbox`.

    Raises:
        DefinitionError: As for `coding_tools` and `bash_tool`.
        TypeError: There is no such option.
    """
    refuse_unknown_options(bash, ["private", "guarded", "hashes", "file_limits", *BashOptions.__annotations__])
    root = open_root(root)
    files = coding_tools(root, private=private, guarded=guarded, hashes=hashes, limits=file_limits)
    return [bash_tool(root, **bash), *files]
