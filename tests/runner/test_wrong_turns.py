"""Wrong turns of a first hour, in a script and in a notebook: each ends in a sentence that names the way on.

Those of a shell are in `tests/cli/test_commands.py`: `test_mistakes`.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import traceback
from pathlib import Path

import pytest

import toolkit

START = '''
from dataclasses import dataclass
from pathlib import Path
import asyncio
from toolkit import ApprovalRequest, Image, Limits, Runner, RunState, SQLiteSession, Toolbox, ToolContext, tool
from toolkit.approvers import ApprovalQueue, Console, defer
from toolkit.events import TextDelta, ToolCallStarted
from toolkit.testing import ScriptedModel, call

def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b

class Thing:
    """Something that JSON cannot represent."""

    def __init__(self, fd): ...

@dataclass
class Database:
    path: str = ""

@tool
def query(context: ToolContext[Database]) -> str:
    """Query the database."""
    return ""

runner = Runner([add], model=ScriptedModel(lambda request: "Hello."))
'''

# What is written, and what the last line says.
TURNS: dict[str, tuple[str, str]] = {
    "no key": ('Runner([add], model="gpt-6-luna").run("Hi")', "OPENAI_API_KEY is not set"),
    "wrong port": ('Runner(base_url="http://127.0.0.1:9/v1", model="m").run("Hi")', "check base_url and that it runs"),
    "no http": ('Runner(base_url="localhost:11434/v1", model="m")', "such as 'http://localhost:11434/v1'"),
    "client as model": ("import openai\nRunner(model=openai.OpenAI(api_key='k'))", "Pass a client as client="),
    "module as client": ("import openai\nRunner(client=openai, model='m')", r"write client=OpenAI\(\.\.\.\)"),
    "bad signature": (
        'def f(x: Thing) -> str:\n    "F."\nRunner([f])',
        "Annotate it with the type that the model sends: Annot",
    ),
    "schema of a bad signature": (
        'def f(x: Thing) -> str:\n    "F."\ntool(f).parameters',
        "Annotate it with the type that the model sends: Annot",
    ),
    "call as tool": ("Runner([add(1, 2)])", r"3 is not a tool. Pass a function \(f, not f\(\)\)"),
    "name as tool": ('Runner("add")', "the function itself, not its name"),
    "same name": ('Toolbox([add, tool(name="add")(query)])', "Give one another name="),
    "misspelt tool": ('Toolbox([add])["ad"]', "did you mean 'add'"),
    "misspelt option": ('Runner([add], instruction="Be kind.")', "Did you mean 'instructions'"),
    "misspelt option of a tool": ("tool(aprove=True)(add)", "Did you mean 'approve'"),
    "option of another library": ('Runner([add], system_prompt="Be kind.")', r"Write Runner\(..., instructions=...\)"),
    "mode of another library": ('Runner([add], mode="sequential")', "order='sequential'"),
    "mode of another library's tool": ("tool(parallel=False)(add)", "Write exclusive=True"),
    "approval in other words": ("Runner([add], approval_handler=print)", r"Write Runner\(..., approve=...\)"),
    "misspelt limit": ("Limits(max_turn=3)", "Did you mean 'max_turns'"),
    "forgotten deps": ('Runner([query], model=ScriptedModel(["x"])).run("Hi")', "pass deps= to the run"),
    "approver's class": ("Runner(approve=Console)", r"such as Console\(\)"),
    "session by name": ('runner.run("Hi", session="chats.db")', r"write session=SQLiteSession\('chats.db', 'name'\)"),
    "items of a session": ('SQLiteSession("chats.db").get_items()', r"write session\.messages\."),
    "history as prompt": ('runner.run([{"role": "user", "content": "Hi"}])', r"as messages=\[...\]"),
    "history as another library's input": (
        'runner.run({"messages": [{"role": "user", "content": "Hi"}]})',
        r"as messages=\[...\]",
    ),
    "no prompt": ("runner.run()", "pass a prompt"),
    "missing file": ('runner.run(["Look", Path("photo.png")])', "is not a file; the current directory is"),
    "prompts by name": ('runner.map({"a": "Hi"})', "is not a list of prompts"),
    "runner for another process": ("import pickle\npickle.dumps(runner)", r"make one in each process, or use map\(\)"),
    "one prompt for many": ('runner.map("Hi")', r"write \[prompt\], or runner.run\(prompt\)"),
    "async stream in a plain loop": ('for event in runner.astream("Hi"): ...', "async for event in stream"),
    "plain stream in an async loop": (
        'async def main():\n    async for event in runner.stream("Hi"): ...\nasyncio.run(main())',
        "In an event loop write runner.astream",
    ),
    "plain stream in an async block": (
        'async def main():\n    async with runner.stream("Hi"): ...\nasyncio.run(main())',
        "In an event loop write runner.astream",
    ),
    "async stream in a plain block": ('with runner.astream("Hi"): ...', "async for event in stream"),
    "answer of a stream": ('runner.stream("Hi").output', "write stream.result.output, after the last event"),
    "answer of a handle": ('runner.start("Hi").output', r"write handle.result\(\).output"),
    "end of a handle": ('runner.start("Hi").done()', r"write handle\.status\."),
    "decorator of another library": ("@runner.tool\ndef f(): ...", r"write @tool of toolkit, .*: Runner\(\[f\]\)"),
    "decorator of a toolbox": ("@Toolbox().tool\ndef f(): ...", r"write @tool of toolkit, .*: Toolbox\(\[f\]\)"),
    "removal in other words": ('Toolbox([add]).unregister("add")', r"write box.remove\(name\)"),
    "calls in other words": ("Toolbox([add]).race([])", r"write box.call_many\(calls, wait=...\)"),
    "hooks of a toolbox": ("Toolbox([add], hooks=[])", "'hooks'. It is an option of Runner."),
    "tools of a toolbox": ("Toolbox([add]).list_tools()", r"write \[\*box\]"),
    "another library's method": ('runner.run_sync("Hi")', r"write runner.run\(prompt\)"),
    "value of a call": (
        'Runner([add], model=ScriptedModel([call("add", a=1, b=2), "3"])).run("Hi").calls[0].output',
        r"write call.result.text, or call.result.value",
    ),
    "model in the place of tools": (
        'Runner("openai:gpt-6")',
        r"not its name\. Pass a model as Runner\(model=\.\.\.\)\.",
    ),
    "tools in a subclass of a toolbox": (
        "class Shelf(Toolbox):\n    @tool\n    def find(self, word: str) -> str: return word",
        r"The tool 'find' of Shelf would not be .* without Toolbox as its base, and Toolbox\(\[Shelf\(\)\]\)",
    ),
    "filter of a context and a tool": (
        "Toolbox([add]).filtered(lambda context, tool: True)",
        r"takes a sync function: filtered\(lambda tool: ",
    ),
    "steps of a result": ('runner.run("Hi").steps', r"write result\.calls\."),
    "copy of a runner": ("runner.clone()", r"write another Runner\(\[\.\.\.\], \.\.\.\)\."),
    "schema in other words": ("tool(add).tool_call_schema", r"write tool\.parameters\."),
    "schemas in other words": ("Toolbox([add]).to_openai_tools()", r'write box\.schemas\("chat"\)\.'),
    "calls of a reply": ("Toolbox([add]).execute_tool_calls([])", r"write box\.answer\(reply\)\."),
    "text of a stream": ('runner.stream("Hi").text_stream', "write for event in stream"),
    "artifact of a result": ('tool(add).invoke({"a": 1, "b": 2}).artifact', r"write result\.details\."),
    "method without its object": (
        "class Shop:\n    def buy(self, item: str) -> str:\n        'Buy.'\nRunner([Shop.buy])",
        r"Shop.buy\(\) is a method and needs its instance: add instance.buy",
    ),
    "misspelt hook beside another": (
        "class Log:\n    def before_model(self, request): ...\n    def after_tool(self): ...\nRunner(hooks=[Log()])",
        "has after_tool, which is not a method of hooks. Those are before_model, after_model",
    ),
    "hook without a list": (
        "class Log:\n    def before_model(self, request): ...\nRunner(hooks=Log())",
        r"write hooks=\[...\]",
    ),
    "approver's class of a tool": ("tool(add, approve=Console)", r"such as Console\(\)"),
    "message without content": (
        'runner.run("Hi", messages=[{"role": "user", "text": "Hello"}])',
        "A message of the role user needs content; this one has none: .*Hello",
    ),
    "value as type of the answer": (
        'runner.run("Hi", output_type=[int, str])',
        r"is not a type that JSON can fill: .*Pass a type, such as .* or a union A \| B\.",
    ),
    "another library's name": ('runner.run("Hi").final_output', r"write result\.output\."),
    "tokens": ('runner.run("Hi").total_tokens', r"write result\.usage\.total_tokens\."),
    "that name of a stream": ('runner.stream("Hi").final_output', "write stream.result.output, after the last event"),
    "events of a stream": ('runner.stream("Hi").stream_events()', "write for event in stream"),
    "another library's context": (
        "ToolContext(deps=None).context",
        r"ToolContext has no attribute 'context': write context\.deps",
    ),
    "partial result in other words": (
        "ToolContext(deps=None).on_update",
        r"ToolContext has no attribute 'on_update': write context\.update\(value\)",
    ),
    "queues in other words": ("runner.clear_all_queues()", r"write runner\.clear\(\)"),
    "another library's tool": ("tool(add).run", r"Tool has no attribute 'run': write tool\.invoke\(arguments\)"),
    "label of a tool": ("tool(add).label", r"write tool\.title"),
    "function of a tool": ("tool(add).func", r"write inspect\.unwrap\(tool\)"),
    "another library's command line": ("runner.to_cli_sync()", "write toolkit chat FILE or toolkit inspect FILE"),
    "image of a path": ("Image(path='photo.png')", r"Write data=Path\(...\).read_bytes\(\)"),
    "session by id": ("SQLiteSession(session_id='anna')", r"Write SQLiteSession\('chats\.db', 'name'\)"),
    "name of a waiting call": (
        'Runner([add], model=ScriptedModel([call("add", a=1, b=2)]), approve=defer).run("Hi").pending[0].name',
        r"write pending\.call\.name",
    ),
    "tokens by OpenAI's name": ('runner.run("Hi").usage.prompt_tokens', r"write usage\.input_tokens\."),
    "content of a message": ('runner.run("Hi").messages[0].content', r"UserMessage has .*: write message\.text\."),
    "role of a message": ('runner.run("Hi").messages[0].role', r"write isinstance\(message, UserMessage\)"),
    "arguments of a call": ('call("add", a=1).args', r"ToolCall has .*: write json\.loads\(call\.arguments\)\."),
    "decision on a state": (
        'Runner([add], model=ScriptedModel([call("add", a=1, b=2)]), approve=defer).run("Hi").state.approve("x")',
        r"RunState has no attribute 'approve': write runner\.resume\(state, ",
    ),
    "result as a text": ('runner.run("Hi").strip()', r"RunResult has no attribute 'strip': write result\.output"),
    "content of a result": ('tool(add).invoke({"a": 1, "b": 2}).content', r"write result\.text, or result\.value\."),
    "success of a result": ("tool(add).invoke({}).ok", r"write not result\.is_error\."),
    "effect of a tool": ("tool(add).effect", r"write tool\.settings\.effect"),
    "effect of a request": (
        "ApprovalRequest(tool(add), {}, ToolContext(deps=None)).effect",
        r"write request\.tool\.settings",
    ),
    "piece of a text": ('TextDelta("Hi").delta', r"write event\.text\."),
    "tool of an event": ('ToolCallStarted(call("add")).tool_name', r"write event\.call\.name\."),
    "verdict in a queue": ('ApprovalQueue().approve("x")', r"write queue\.answer\(call_id, True\)\."),
    "unknown dialect": ('Toolbox([add]).schemas("claude")', "is not one of 'chat'"),
    "no state": ('RunState.from_json("{")', "This is not the state of a run"),
    "answer of another type": ('runner.run("Hi", output_type=int)', "no answer of its output_type"),
}


@pytest.fixture(autouse=True)
def newcomer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A directory without files, and an environment without keys."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith(("OPENAI_", "TOOLKIT_MODEL"))]:
        monkeypatch.delenv(name)


@pytest.mark.parametrize(("code", "sentence"), TURNS.values(), ids=TURNS)
def test_script(code: str, sentence: str) -> None:
    """In a script the traceback is that of the script, with no more than two lines of the library below."""
    scope: dict[str, object] = {"__name__": "__main__"}
    exec(START, scope)
    with pytest.raises(Exception, match=sentence) as caught:
        exec(compile(code, "script.py", "exec"), scope)

    own = [each for each in traceback.extract_tb(caught.value.__traceback__) if is_own(each.filename)]
    assert len(own) <= 2
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def is_own(path: str) -> bool:
    """Return whether a file is the library's."""
    return Path(path).is_relative_to(Path(toolkit.__file__).parent)


@pytest.mark.parametrize("name", ["no key", "bad signature", "plain stream in an async loop", "tokens", "no state"])
def test_notebook(name: str) -> None:
    """In a notebook the cell ends in the same sentence."""
    code, sentence = TURNS[name]
    shell = pytest.importorskip("IPython.core.interactiveshell").InteractiveShell()
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(shown):
        shell.run_cell(START)
        shell.run_cell(code)
    text = re.sub(r"\x1b\[[0-9;]*m", "", shown.getvalue())

    assert re.search(sentence, re.findall(r"^\w+Error: .*", text, re.MULTILINE)[-1])
