"""Hints for what users of `llm` and of other commands most often type. More are in docs/migrating.md."""

from __future__ import annotations

from collections.abc import Mapping

COMMANDS: Mapping[str, str] = {
    "help": "Write: toolkit --help, or toolkit COMMAND --help.",
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
_KEY = "Set the variable OPENAI_API_KEY."
_PRINTED = "Leave it out: calls and results are printed."
# For `run` and `chat`.
OPTIONS: Mapping[str, str] = {
    "-f": "Write -a FILE.",
    "-s": _SYSTEM,
    "--api-key": _KEY,
    "--chain-limit": _CHAIN_LIMIT,
    "--cid": _CONVERSATION,
    "--cl": _CHAIN_LIMIT,
    "--conversation": _CONVERSATION,
    "--functions": "Name the file or write the code in place of FILE, with --all for undecorated functions.",
    "--key": _KEY,
    "--max-tokens": "Write -o max_tokens=N.",
    "--no-stream": "Write -q, or leave it out in a pipe.",
    "--stream": "Leave it out: the answer is printed as it arrives.",
    "--system": _SYSTEM,
    "--ta": "Write --approve all.",
    "--td": _PRINTED,
    "--temperature": "Write -o temperature=NUMBER.",
    "--verbose": _PRINTED,
}
# For other commands; `call` has the option `--yes`, unless the tool has `approve=False`.
OTHER_OPTIONS: Mapping[str, str] = {
    "--port": "Write --http PORT.",
    "--yes": "Leave it out: the tool runs without a question.",
}
CHAT_TAKES_NO_PROMPT = "Type it into the chat, or write: toolkit run FILE PROMPT."
ONE_VALUE = "Quote a text with spaces, repeat the option for each item of a list, and give a boolean no value."
