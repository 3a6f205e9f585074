"""Use Ollama, vLLM or another server with OpenAI's API, with a tool that has state, and continue the conversation.

Prints the two answers, and every call with its arguments and result. Uses the server of OPENAI_BASE_URL and the model
of TOOLKIT_MODEL (Ollama: http://localhost:11434/v1). Without them a scripted server on this machine is used.
"""

import os
from contextlib import ExitStack

from openai import OpenAI

from toolkit import Runner, Toolbox, ToolContext, ToolError, tool
from toolkit.testing import FakeServer, reply


class Shelf:
    """Books with their places; its decorated methods are tools."""

    def __init__(self) -> None:
        self.places = {"Emma": "A3", "Dune": "F1"}

    @tool
    def find_book(self, title: str, context: ToolContext[str]) -> str:
        """Find a book's place on the shelf.

        Args:
            title: The book's title, without the author.
        """
        if title not in self.places:
            raise ToolError(f"no book {title!r}; there are: {', '.join(self.places)}")
        return f"{self.places[title]} (asked by {context.deps})"


SCRIPT = [
    reply.calls(("find_book", {"title": "Dune"})),
    reply.text("Dune stands at F1."),
    reply.calls(("find_book", {"title": "Emma"}), ("find_book", {"title": "Ulysses"})),
    reply.text("Emma stands at A3; Ulysses is not on the shelf."),
]

with ExitStack() as stack:
    address, model = os.environ.get("OPENAI_BASE_URL"), os.environ.get("TOOLKIT_MODEL")
    if not (address and model):
        address, model = stack.enter_context(FakeServer(SCRIPT)).base_url, "scripted"
    client = OpenAI(base_url=address, api_key=os.environ.get("OPENAI_API_KEY", "none"))
    runner = Runner(Toolbox.from_object(Shelf()), client=client, model=model, instructions="Answer in one sentence.")

    first = runner.run("Where is Dune?", deps="Ann")
    second = runner.run("And Emma and Ulysses?", messages=first.messages, deps="Ann")

for result in (first, second):
    print(result.output)
    for call in result.calls:
        print(f"    {call}")
