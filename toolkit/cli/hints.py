"""What a user of `llm` may type, and what it is here."""

from __future__ import annotations

from collections.abc import Mapping

COMMANDS: Mapping[str, str] = {
    "aliases": "Set the variable TOOLKIT_MODEL to the name of your model.",
    "embed": "For embeddings see toolkit.builtin.embeddings in Python.",
    "help": "Write: toolkit --help.",
    "install": "Write: pip install.",
    "keys": "Set the variable OPENAI_API_KEY.",
    "models": "Name a model with -m: one of your server, or embedded; TOOLKIT_MODEL sets the default.",
    "prompt": "Write: toolkit run FILE PROMPT.",
    "schemas": "Write: toolkit run FILE PROMPT --schema 'name: str, age: int'.",
    "similar": "For embeddings see toolkit.builtin.embeddings in Python.",
    "templates": "A script of your shell is one.",
    "tools": "Write: toolkit list FILE.",
    "version": "Write: toolkit --version.",
}
_RUN: Mapping[str, str] = {
    "-R": "Reasoning is not printed.",
    "-d": "Set the variable TOOLKIT_SESSIONS to the file.",
    "-f": "Write -a FILE.",
    "-n": "To save no conversation, set the variable TOOLKIT_SESSIONS to an empty text.",
    "-s": "Write -i TEXT.",
    "--async": "Leave it out.",
    "--at": "Write -a FILE; its type is found.",
    "--cid": "Write --session NAME.",
    "--cl": "Write --max-turns N.",
    "--functions": "Name the file or write the code in place of FILE, with --all for undecorated functions.",
    "--key": "Set the variable OPENAI_API_KEY.",
    "--log": "Leave it out: conversations are saved.",
    "--no-stream": "Write -q, or leave it out in a pipe.",
    "--schema-multi": "Write --schema with a JSON Schema of an array.",
    "--sf": 'Write -i "$(cat FILE)".',
    "--ta": "Write --approve all.",
    "--td": "Leave it out: calls and results are printed.",
}
_LOGS: Mapping[str, str] = {
    "-c": "Write the name of a conversation: toolkit logs NAME.",
    "-d": "Set the variable TOOLKIT_SESSIONS to the file.",
    "-l": "The latest is in front.",
    "-n": "Write: toolkit logs | head -n 3.",
    "-q": "Write: toolkit logs --json | grep TEXT.",
    "-r": "Write --json.",
    "-s": "Leave it out: the list is short.",
    "--cid": "Write the name of a conversation: toolkit logs NAME.",
}
_LONG: Mapping[str, str] = {
    "--chain-limit": "--cl",
    "--conversation": "--cid",
    "--count": "-n",
    "--database": "-d",
    "--fragment": "-f",
    "--hide-reasoning": "-R",
    "--latest": "-l",
    "--no-log": "-n",
    "--query": "-q",
    "--response": "-r",
    "--system": "-s",
    "--system-prompt": "-s",
    "--tools-approve": "--ta",
    "--tools-debug": "--td",
}


def find_hint(command: str, option: str) -> str:
    """Return what to write in place of an option that a command does not have; empty if that is not known."""
    hints = _LOGS if command == "logs" else _RUN if command in ("run", "chat") else {}
    return hints.get(_LONG.get(option, option), "")
