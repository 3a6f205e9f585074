"""What users of `llm` most often type, and what it is here. More is in docs/migrating.md."""

from __future__ import annotations

from collections.abc import Mapping

COMMANDS: Mapping[str, str] = {
    "keys": "Set the variable OPENAI_API_KEY.",
    "models": "Name a model with -m: one of your server, or embedded; TOOLKIT_MODEL sets the default.",
    "prompt": "Write: toolkit run FILE PROMPT.",
    "templates": "Write a script of your shell.",
    "tools": "Write: toolkit list FILE.",
    "version": "Write: toolkit --version.",
}
_CHAIN_LIMIT = "Write --max-turns N."
_CONVERSATION = "Write --session NAME."
_SYSTEM = "Write -i TEXT."
OPTIONS: Mapping[str, str] = {
    "-f": "Write -a FILE.",
    "-s": _SYSTEM,
    "--chain-limit": _CHAIN_LIMIT,
    "--cid": _CONVERSATION,
    "--cl": _CHAIN_LIMIT,
    "--conversation": _CONVERSATION,
    "--functions": "Name the file or write the code in place of FILE, with --all for undecorated functions.",
    "--key": "Set the variable OPENAI_API_KEY.",
    "--no-stream": "Write -q, or leave it out in a pipe.",
    "--system": _SYSTEM,
    "--ta": "Write --approve all.",
    "--td": "Leave it out: calls and results are printed.",
}
