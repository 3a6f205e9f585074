"""Approve calls later, in another process.

The first process starts a run, which pauses at the payments, saves the state to a file, and ends. The second process
reads the file, decides, and resumes the run. Without arguments this program starts both, one after the other, and
they print what they do. The model is scripted: no key is needed.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from toolkit import Decision, Runner, RunState, SQLiteLedger, tool
from toolkit.approvers import defer
from toolkit.models import ModelRequest, ToolMessage
from toolkit.testing import ModelReply, ScriptedModel, call


@tool(effect="destructive")
def pay(to: str, amount: int) -> str:
    """Pay a person, in euros."""
    return f"{to} has got {amount} euros"


def reply(request: ModelRequest) -> ModelReply:
    """Request two payments, then repeat their results."""
    results = [message.text for message in request.messages if isinstance(message, ToolMessage)]
    return "; ".join(results) if results else [call("pay", to="Ann", amount=30), call("pay", to="Bob", amount=200)]


def runner(folder: Path) -> Runner:
    """Make the same runner in both processes; the ledger keeps calls from running twice."""
    return Runner([pay], model=ScriptedModel(reply), approve=defer, ledger=SQLiteLedger(folder / "calls.db"))


def begin(folder: Path) -> None:
    """Run until a call needs approval."""
    result = runner(folder).run("Pay Ann 30 and Bob 200 euros.")
    print(f"First process: {result.finish_reason}.")
    (folder / "state.json").write_text(result.state.to_json(), encoding="utf-8")


def decide(folder: Path) -> None:
    """Decide on the calls that wait, and resume the run."""
    state = RunState.from_json((folder / "state.json").read_text(encoding="utf-8"))
    for waiting in state.pending:
        print(f"Second process: {waiting.call.name} waits with {waiting.arguments}.")
    ann, bob = (waiting.call.id for waiting in state.pending)
    decisions: dict[str, bool | Decision] = {ann: True, bob: Decision.reject("Ask me again tomorrow.")}
    print(f"Second process: {runner(folder).resume(state, decisions)}")
    print(f"And once more:  {runner(folder).resume(state, {ann: True, bob: False})}")  # Ann is not paid twice


def start_both(folder: Path) -> None:
    """Start one process after the other."""
    flags = [f"-W{text}" for text in sys.warnoptions]
    for step in ("begin", "decide"):
        subprocess.run([sys.executable, *flags, __file__, step, str(folder)], check=True)  # noqa: S603  this program


if len(sys.argv) > 1:
    {"begin": begin, "decide": decide}[sys.argv[1]](Path(sys.argv[2]))
else:
    with tempfile.TemporaryDirectory() as directory:
        start_both(Path(directory))
