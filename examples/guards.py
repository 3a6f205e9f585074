"""Guard tool calls: a hook denies some of them, and middleware redacts secrets, stops loops and writes an audit log.

Prints each call with its result, and the audit records. The model is scripted.
"""

import json
from pathlib import PurePosixPath

from toolkit import Deny, Runner, ToolCall, ToolContext, tool
from toolkit.middleware import audit, redact, repeat_guard
from toolkit.testing import ModelReply, ScriptedModel, call

KEY = "sk-5f2e81c0"
FILES = {"notes.txt": "Buy milk.", "settings.ini": f"[server]\nkey = {KEY}"}


@tool(effect="read")
def read_file(path: str) -> str:
    """Read a file of the project.

    Args:
        path: Its path, inside the project.
    """
    return FILES[path]


class InsideOnly:
    """Forbids paths that lead out of the project."""

    def before_call(self, call: ToolCall, context: ToolContext[str]) -> Deny | None:
        """Check the arguments as the model wrote them; if they are not JSON, the exception denies the call."""
        path = PurePosixPath(json.loads(call.arguments).get("path", ""))
        if path.is_absolute() or ".." in path.parts:
            return Deny(f"{context.deps} may not leave the project")
        return None


SCRIPT: list[ModelReply] = [
    [call("read_file", path="notes.txt")],
    [call("read_file", path="settings.ini")],
    [call("read_file", path="../secret/key.pem")],
    *[[call("read_file", path="notes.txt")]] * 3,
    "There is milk to buy.",
]


def main() -> None:
    """Let the scripted model try forbidden calls."""
    records: list[object] = []
    runner = Runner(
        [read_file],
        model=ScriptedModel(SCRIPT),
        hooks=[InsideOnly()],
        middleware=[audit(records.append), redact([KEY]), repeat_guard(limit=2)],
    )
    result = runner.run("What is there to do?", deps="Ann")
    for finished in result.calls:
        print(f"{finished.proposed_arguments}\n    {finished.result.text!r}")
    print("Records, in the order in which the calls ended; a call that a hook denied reaches no middleware:")
    print(*records, result.output, sep="\n")


if __name__ == "__main__":
    main()
