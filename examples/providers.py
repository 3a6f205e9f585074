"""Use one toolbox with several providers, in your own loop.

Prints the output of `explain` and `check`, and the messages that answer a strict call of OpenAI and a call of
Anthropic. The replies are literals. The client of a provider returns the same.
"""

from __future__ import annotations

from toolkit import Toolbox, tool


@tool
def search(query: str, weights: dict[str, float], limit: int = 5) -> str:
    """Search the archive.

    Args:
        query: Words to look for.
        weights: How much each tag counts.
        limit: At most so many results.
    """
    return f"{query!r} with {weights}, at most {limit}"


@tool
def forget(topic: str) -> str:  # noqa: D103  no docstring, which `check` reports
    return f"forgot {topic}"


box = Toolbox([search, forget])
print(search.explain("chat"), end="\n\n")
print(box.check(), end="\n\n")

# Strict: a dict is sent as a list of pairs, and null omits the limit. The function sees neither.
ARGUMENTS = '{"query": "cats", "weights": [{"key": "pet", "value": 2}], "limit": null}'
chat = {"tool_calls": [{"id": "a", "type": "function", "function": {"name": "search", "arguments": ARGUMENTS}}]}
print(box.answer(chat, "chat", strict=True))

CALL = {"type": "tool_use", "id": "b", "name": "search", "input": {"query": "dogs", "weights": {"pet": 1}}}
anthropic = {"role": "assistant", "content": [CALL]}
print(box.answer(anthropic, "anthropic"))
