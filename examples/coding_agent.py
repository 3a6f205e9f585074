"""Build a coding agent that fixes a small project: it reads and edits a file, runs the tests, and reports.

The project is in a temporary folder and has a bug. The file tools can access only this folder. Commands can do more,
so each needs approval: here a rule allows one command. Prints each call with the beginning of its result, the report,
and whether the tests pass. The model is scripted. To use a real one, pass its name, for OpenAI or for the server in
`OPENAI_BASE_URL`: `python examples/coding_agent.py MODEL`.
"""

import shlex
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from toolkit import ApprovalRequest, Decision, Limits, Runner
from toolkit.builtin import default_tools
from toolkit.events import RunFinished, ToolCallFinished
from toolkit.testing import ModelReply, ScriptedModel, call

FILES = {
    "basket.py": '''
def total(prices: list[int], percent_off: int = 0) -> int:
    """Add prices up, in cents, and take a discount off."""
    return sum(prices) * percent_off // 100
''',
    "test_basket.py": """
import unittest

from basket import total


class TotalTest(unittest.TestCase):
    def test_plain(self):
        self.assertEqual(300, total([100, 200]))

    def test_discount(self):
        self.assertEqual(270, total([100, 200], percent_off=10))
""",
}
TESTS = f"{shlex.quote(sys.executable)} -m unittest -q"
# The script; a model named on the command line replaces it.
SCRIPT: list[ModelReply] = [
    [call("list_files"), call("bash", command=TESTS)],
    [call("read_file", path="basket.py"), call("search", pattern="percent_off")],
    call("edit_file", path="basket.py", old_text="* percent_off", new_text="* (100 - percent_off)"),
    [call("bash", command="git push"), call("bash", command=TESTS)],
    "basket.py took only the discount where the price without it was meant. Both tests pass now.",
]
MODEL = sys.argv[1] if sys.argv[1:] else ScriptedModel(SCRIPT)


def only_the_tests(request: ApprovalRequest) -> Decision:
    """Agree to file tools, and to one command."""
    if request.name != "bash" or request.arguments["command"] == TESTS:
        return Decision.approve()
    return Decision.reject(f"Only {TESTS!r} may be run.")


with TemporaryDirectory() as folder:
    for name, text in FILES.items():
        (Path(folder) / name).write_text(text.lstrip())

    runner = Runner(
        default_tools(folder),
        model=MODEL,
        instructions=f"Mend the project in the working directory. Run its tests with {TESTS!r}. Report in a sentence.",
        approve=only_the_tests,
        limits=Limits(max_turns=20, max_seconds=300),
    )
    for event in runner.stream("The tests fail. Find out why, mend it, and see that they pass."):
        if isinstance(event, ToolCallFinished):
            lines = [line for line in event.result.text.splitlines() if line]
            print(f"{event.name}({event.arguments})", *lines[:5], *(["..."] if lines[5:] else []), sep="\n    ")
        elif isinstance(event, RunFinished):
            print(f"\n{event.output}\n")
    print((Path(folder) / "basket.py").read_text())
    tests = subprocess.run([sys.executable, "-m", "unittest", "-q"], cwd=folder, capture_output=True, check=False)
    print("Seen from outside, the tests", "fail." if tests.returncode else "pass.")
