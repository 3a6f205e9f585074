"""Connect two agents with A2A: an editor asks an ornithologist, who asks for confirmation before a change.

`python examples/a2a_agents.py` serves one agent on this machine, gives another agent its skill, and prints the run. The
models are scripted. It needs an extra: pip install "function-toolkit[a2a]".
"""

import re
import time
from collections.abc import Generator
from contextlib import contextmanager
from threading import Thread

from toolkit import Runner, ToolCall, tool
from toolkit.approvers import ask_when, defer
from toolkit.display import show
from toolkit.models import ModelRequest
from toolkit.serve.a2a import make_app
from toolkit.sources.a2a import A2A
from toolkit.testing import ScriptedModel, call


@tool(effect="write", approve=True)
def add_sighting(bird: str, place: str) -> str:
    """Add a sighting to the register."""
    return f"{bird} at the {place}: added as number 8."


@contextmanager
def serve_in_background(runner: Runner) -> Generator[str]:
    """Serve a runner on a free port of this machine; a separate program would call `toolkit.serve.a2a.serve`."""
    import uvicorn  # from the extra a2a

    app = make_app(runner, name="Ornithologist", description="Keeps the register of sightings.")
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning", ws="none"))
    thread = Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join()


def answer_question(request: ModelRequest) -> ToolCall:
    """Answer the agent's question as a model does: by the task that its result names."""
    found = re.search(r"task_id='([^']+)'", request.messages[-1].text)
    return call("a2a_birds_ask", message="approve", task_id=found[1] if found else "")


def main() -> None:
    """Let another agent register a heron."""
    ornithologist = Runner(
        [add_sighting],
        model=ScriptedModel([call("add_sighting", bird="heron", place="pond"), "The heron has the number 8."]),
        approve=ask_when(defer, when=lambda request: request.required),  # the caller decides
    )
    model = ScriptedModel(
        [
            call("a2a_birds_ask", message="Add a heron at the pond."),
            answer_question,
            "The heron is registered, with the number 8.",
        ]
    )
    with serve_in_background(ornithologist) as url, A2A(url, name="birds") as agent:
        show(Runner([agent], model=model).stream("Register the heron."))


if __name__ == "__main__":
    main()
