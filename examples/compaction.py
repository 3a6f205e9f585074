"""Shorten a long conversation for the model. The result keeps all messages.

Prints the tokens of each request. They grow to the limit. Then older results are cut, and later older turns are
summarised. The model is scripted.
"""

import json
from collections.abc import Sequence

from toolkit import Runner, tool
from toolkit.middleware import Compaction, estimate_tokens
from toolkit.models import ModelResponse
from toolkit.testing import ScriptedModel, call


@tool(effect="read")
def read_chapter(number: int) -> str:
    """Read a chapter of a book."""
    return "\n".join(f"Line {line} of chapter {number}." for line in range(1, 151))


def summarize(messages: Sequence[object]) -> str:
    """Write the summary of the messages that are left out; the place for a call of another model.

    It gets its last summary, and the messages since then.
    """
    calls = [call for message in messages if isinstance(message, ModelResponse) for call in message.calls]
    number = json.loads(calls[-1].arguments)["number"]
    return f"{number} chapters have been read, and nothing has happened in them."


model = ScriptedModel([*[[call("read_chapter", number=number)] for number in range(1, 13)], "Nothing happens."])
hook = Compaction(max_tokens=4_000, keep_recent=4, summarize=summarize)
result = Runner([read_chapter], model=model, hooks=[hook], max_turns=20).run("What happens in the book?")

for number, request in enumerate(model.requests, 1):
    print(f"request {number:2}: {len(request.messages):2} messages, {estimate_tokens(request.messages):5,} tokens")
print(next(message.text for message in model.requests[-1].messages if message.text.startswith("[Summary")))
print(f"result: {len(result.messages)} messages, {estimate_tokens(result.messages):,} tokens")
