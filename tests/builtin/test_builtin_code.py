"""`run_code`: programs that call tools, each call through the line that it would pass alone."""

from __future__ import annotations

import ast
import asyncio
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from toolkit import (
    ApprovalRequest,
    Decision,
    DefinitionError,
    FatalError,
    Halt,
    Image,
    Limits,
    Runner,
    Tool,
    Toolbox,
    ToolError,
    tool,
)
from toolkit.approvers import ask_when, defer
from toolkit.builtin import ask_user_tool, code_tool, plan_tool, provider_tool
from toolkit.events import ToolCallUpdated
from toolkit.schema import integer, string
from toolkit.testing import ScriptedModel, call

pytest.importorskip("pydantic_monty")
PIXEL = Image(b"\x89PNG")


class Day(BaseModel):
    """A day of a forecast."""

    name: str
    degrees: float
    next: Day | None = None


@tool(effect="read")
def forecast(city: str, unit: Literal["C", "F"] = "C", days: int = 2) -> list[Day]:
    """Forecast of the weather.

    Args:
        city: Name of the city.
    """
    if city == "Atlantis":
        raise ToolError("There is no such city.")
    return [Day(name=f"day {number}", degrees=20 + number) for number in range(days)]


@tool(effect="read")
async def wait(seconds: float) -> str:
    """Wait."""
    await asyncio.sleep(seconds)
    return f"{seconds} s"


@tool(effect="read")
def draw() -> Image:
    """Draw."""
    return PIXEL


class Account:
    """An account that records what was taken."""

    def __init__(self) -> None:
        self.taken: list[int] = []

    @tool(effect="write")
    async def take(self, amount: int) -> int:
        """Take an amount."""
        self.taken.append(amount)
        await asyncio.sleep(0.01)
        self.taken.append(-amount)
        return amount


TOOLS = [forecast, wait, draw]


def run_program(code: str, *tools: Any, **options: Any) -> Any:
    """Run one program in a run, and return its result."""
    model = ScriptedModel([[call("run_code", code=code)], "Done."])
    return Runner([code_tool(tools or TOOLS)], model=model, **options).run("Go").calls[0].result


PROGRAMS: dict[str, tuple[str, Any]] = {
    "value": ("1 + 1", {"value": 2}),
    "nothing": ("x = 1", {"value": None}),
    "bytes": ("[b'a', 1]", {"value": ["a", 1]}),
    "bytes that are not UTF-8": ("[b'\\xff', 1]", {"value": ["_w==", 1]}),
    "printed": ("print('a')\nprint(2)", {"printed": "a\n2\n", "value": None}),
    "call": ("(await forecast('Oslo', days=1))[0]", {"value": {"name": "day 0", "degrees": 20.0, "next": None}}),
    "positional": ("len(await forecast('Oslo', 'F', 3))", {"value": 3}),
    "loop": ("sum([day['degrees'] for day in await forecast('Oslo')])", {"value": 41.0}),
    "caught": (
        "try:\n    await forecast('Atlantis')\nexcept RuntimeError as error:\n    print(error)",
        {"printed": "There is no such city.\n", "value": None},
    ),
}


@pytest.mark.parametrize(("code", "value"), PROGRAMS.values(), ids=PROGRAMS)
def test_program(code: str, value: Any) -> None:
    """A program returns what it prints and its last value; its calls return values."""
    assert value == run_program(code).value


FAULTS: dict[str, tuple[str, str]] = {
    "syntax": ("x = (", "invalid-syntax"),
    "type": ("await forecast(5)", "Expected `str`, found `Literal[5]`"),
    "unknown function": ("await fetch('x')", "Name `fetch` used when not defined"),
    "unknown parameter": ("await forecast(town='Oslo')", "town"),
    "not awaited": ("forecast('Oslo')", "is not awaited"),
    "failed call": ("await forecast('Atlantis')", "RuntimeError: There is no such city."),
    "own error": ("1 / 0", "ZeroDivisionError"),
    "after printing": ("print('so far')\n1 / 0", 'It had printed: "so far\\n"'),
    "file": ("open('/etc/passwd')", "`open`"),
    "environment": ("import os\nos.environ['HOME']", "not supported"),
    "socket": ("import socket", "Cannot resolve imported module `socket`"),
    "process": ("import subprocess\nsubprocess.run('id')", "subprocess"),
    "memory": ("x = [0] * 10**10", "MemoryError"),
    "depth": ("def f():\n    return f()\nf()", "RecursionError"),
}


@pytest.mark.parametrize(("code", "fault"), FAULTS.values(), ids=FAULTS)
def test_fault(code: str, fault: str) -> None:
    """What a program may not do, or does wrong, is an error that says what and where."""
    result = run_program(code)

    assert "The program failed:\n" in result.error
    assert fault in result.error


def test_endless_program() -> None:
    """A program that does not end is ended; the time of its calls is not its own."""
    program = code_tool(TOOLS, max_seconds=0.3)

    assert "TimeoutError" in (program.invoke({"code": "while True:\n    pass"}).error or "")
    assert {"value": "0.6 s"} == program.invoke({"code": "await wait(0.6)"}).value


def test_calls_at_the_same_time() -> None:
    """Calls that only read run together."""
    start = time.monotonic()
    result = run_program("import asyncio\nlen(await asyncio.gather(*[wait(0.5) for _ in range(20)]))")

    assert {"value": 20} == result.value
    assert time.monotonic() - start < 8  # one after the other would take 10


def test_writing_calls() -> None:
    """Calls that write run one after the other."""
    account = Account()
    run_program("import asyncio\nawait asyncio.gather(*[take(n) for n in range(1, 6)])", account.take)

    assert [1, -1, 2, -2, 3, -3, 4, -4, 5, -5] == account.taken


def test_calls_that_are_not_awaited() -> None:
    """No call outlives its program."""
    account = Account()
    result = run_program("pending = [take(1), take(2)]\n1 / 0", account.take)

    assert "ZeroDivisionError" in result.error
    assert sum(account.taken) == 0


def test_pictures() -> None:
    """Pictures that calls return reach the model."""
    assert (PIXEL,) == run_program("_ = await draw()").images


def test_gates() -> None:
    """Each call is put to the approver, as the program is."""
    account, seen = Account(), list[str]()

    def approver(request: ApprovalRequest) -> bool | Decision:
        seen.append(str(request))
        return request.name == "run_code" or Decision.reject("Too much.")

    result = run_program("await take(900)", account.take, approve=approver)

    assert ['run_code({"code": "await take(900)"})', 'take({"amount": 900})'] == seen
    assert "RuntimeError: Tool execution was rejected by the user. Reason: Too much." in result.error
    assert [] == account.taken


def test_deferred_approval() -> None:
    """A call whose approval is deferred is refused, and nothing of it runs."""
    account = Account()
    approver = ask_when(defer, names=["take"])
    result = run_program("await take(1)", account.take, approve=approver)

    assert "this call needs approval, and a program cannot wait for that" in result.error
    assert [] == account.taken


def test_stop() -> None:
    """An approver that stops the run ends the program; nothing after it is called."""
    account = Account()

    def approver(request: ApprovalRequest) -> bool | Decision:
        return request.name == "run_code" or Decision.stop("Enough.")

    code = "for n in (1, 2):\n    try:\n        await take(n)\n    except RuntimeError:\n        pass"
    model = ScriptedModel([[call("run_code", code=code)], "Never."])
    result = Runner([code_tool([account.take])], model=model, approve=approver).run("Go")

    assert ("stopped", []) == (result.finish_reason, account.taken)


def test_tool_that_ends_the_run() -> None:
    """A tool ends the run by `Halt` or FatalError, though the program catches every exception."""

    @tool
    def end(error: bool) -> str:
        """End."""
        raise FatalError("gone") if error else Halt("Closed.")

    def go(error: bool) -> Any:
        code = f"try:\n    await end({error})\nexcept Exception as error:\n    print(error)"
        return Runner([code_tool([end])], model=ScriptedModel([[call("run_code", code=code)]])).run("Go")

    assert ("halted", "Closed.") == (go(False).finish_reason, go(False).output)
    with pytest.raises(FatalError, match="gone"):
        go(True)


def test_tool_that_cannot_be_executed() -> None:
    """A tool that cannot be sent to where it is to run ends the run, and its developer reads why."""

    @tool(isolate="process")
    def local() -> None:
        """Do something."""

    model = ScriptedModel([[call("run_code", code="await local()")]])
    with pytest.raises(FatalError, match="Define it at the top of a module"):
        Runner([code_tool([local])], model=model).run("Go")


def test_limits() -> None:
    """Calls of a program count for the limits of the run."""
    account = Account()
    code = "import asyncio\nfor n in (1, 2, 3):\n    await take(n)"
    result = run_program(code, account.take, limits=Limits(max_calls=3, on_limit="stop"))

    assert result.is_error
    assert [1, -1, 2, -2] == account.taken


def test_allowed_tools() -> None:
    """A tool that the run may not call is not called by a program either."""
    account = Account()
    model = ScriptedModel([[call("run_code", code="await take(1)")], "Done."])
    tools = [account.take, code_tool([account.take])]
    result = Runner(tools, model=model, allowed_tools=["run_code"]).run("Go")

    assert "may not be called now" in (result.calls[0].result.error or "")
    assert [] == account.taken


def test_too_many_calls() -> None:
    """A program can make at most 500 calls."""
    result = run_program("for n in range(501):\n    await wait(0)")

    assert "A program can make at most 500 calls." in result.error


def test_long_arguments() -> None:
    """The arguments of a program's calls take no more memory than the program may."""

    @tool
    def measure(text: str) -> int:
        """Measure a text."""
        return len(text)

    program = code_tool([measure], max_memory=50_000_000)
    lines = "text = 'x' * 10_000_000\nfor n in range({}):\n    await measure(text)"

    assert not program.invoke({"code": lines.format(4)}).is_error
    assert "at most 50,000,000 bytes together" in (program.invoke({"code": lines.format(5)}).error or "")
    letters = program.invoke({"code": lines.replace("'x'", "'é'").format(3)})
    assert "at most 50,000,000 bytes together" in (letters.error or "")


@pytest.mark.parametrize("code", ["10**1_000_000", "[{'a': (10**1_000_000,)}]", "{10**1_000_000: 1}"])
def test_long_integers(code: str) -> None:
    """A value with an integer of more than 100,000 digits is not written: that takes minutes."""
    long = "(Not written: A value has an integer of more than 100,000 digits.)"
    assert {"value": long} == run_program(code).value


GROWING = {
    "list": "x = []\nfor _ in range(40):\n    x = [x, x]\n",
    "object": "class A:\n    def __init__(self, x):\n        self.x = x\nx = 1\n"
    "for _ in range(40):\n    x = A([x, x])\n",
    "name of a class": f"class {'A' * 100_000}:\n    pass\nx = [{'A' * 100_000}()] * 2000\n",
    "text": "x = ['a' * 1_000_000] * 2000\n",
    "integer": "x = [10**90_000] * 2000\n",
    "error": "x = [ValueError('a' * 1_000_000)] * 2000\n",
}


@pytest.mark.parametrize("code", GROWING.values(), ids=GROWING)
def test_values_that_grow(code: str) -> None:
    """A value that contains the same part many times is not written if it is larger than the program may be."""

    @tool
    def show(value: Any) -> None:
        """Show."""

    assert {"value": "(Not written: A value has more than 104,857,600 bytes.)"} == run_program(f"{code}x").value
    assert "A value has more than 104,857,600 bytes." in run_program(f"{code}await show(x)", show).error


def test_deep_value() -> None:
    """A value that is nested too deeply is not written; what the program printed is kept."""
    result = run_program("print('a')\nx = []\nfor _ in range(2000):\n    x = [x]\nx")

    assert "a\n" == result.value["printed"]
    assert result.value["value"].startswith("(Not written: ")


def test_long_integers_as_arguments() -> None:
    """A program cannot pass an integer of more than 100,000 digits to a call."""

    @tool
    def double(number: int) -> int:
        """Double a number."""
        return 2 * number

    assert (
        "A value has an integer of more than 100,000 digits." in run_program("await double(10**110_000)", double).error
    )


def test_progress() -> None:
    """The calls of a program are its progress."""
    model = ScriptedModel([[call("run_code", code="await forecast('Oslo')")], "Done."])
    with Runner([code_tool(TOOLS)], model=model).stream("Go") as stream:
        updates = [event for event in stream if isinstance(event, ToolCallUpdated)]

    assert ['forecast({"city":"Oslo"})'] == [event.text for event in updates]


@pytest.mark.parametrize("cancel", ["run", "task"])
def test_cancelled(cancel: str) -> None:
    """A cancelled run ends the program and its calls."""
    ended = list[float]()

    async def go() -> None:
        begun = asyncio.Event()

        @tool(effect="read")
        async def hang(seconds: float) -> None:
            """Wait."""
            begun.set()
            try:
                await asyncio.sleep(seconds)
            finally:
                ended.append(seconds)

        model = ScriptedModel([[call("run_code", code="await hang(60)")], "Done."])
        runner = Runner([code_tool([hang])], model=model)
        task = asyncio.ensure_future(runner.arun("Go"))
        await begun.wait()
        _ = runner.cancel() if cancel == "run" else task.cancel()
        await asyncio.wait([task], timeout=20)
        assert task.done()

    asyncio.run(go())
    assert [60] == ended


STUB = '''from typing import Any, Literal, NotRequired, TypedDict

class Day(TypedDict):
    name: str
    degrees: float
    next: NotRequired[Day | None]

async def forecast(city: str, unit: Literal['C', 'F'] = 'C', days: int = 2) -> list[Day]:
    """Forecast of the weather.

    Args:
        city: Name of the city."""

async def find_it(key: int, **others: Any) -> Any:
    """A \\\\ and \'\'\' in a text."""'''


def test_stubs() -> None:
    """A model reads the tools as Python functions; what cannot be a name in Python is replaced."""
    find = Tool.from_schema(
        "find-it",
        {
            "type": "object",
            "description": 'A \\ and """ in a text.',
            "properties": {"key": integer(), "zip-code": string()},
            "required": ["key", "zip-code"],
        },
        lambda **given: given,
    )

    made = code_tool([forecast, find])

    assert f"```python\n{STUB}\n```" in (made.description or "")
    assert {"value": {"key": 1, "zip-code": "2"}} == made.invoke(
        {"code": "await find_it(1, **{'zip-code': '2'})"}
    ).value


def test_stubs_list_failures() -> None:
    """A model reads for which documented reasons a function raises RuntimeError, and may catch them."""

    @tool(relay=(OSError,))
    def measure(city: str) -> int:
        """Measure.

        Raises:
            KeyError: There is no such city.
            ValueError
        """
        raise KeyError(city)

    reasons = ["KeyError: There is no such city.", "ValueError", "OSError"]
    raised = "".join(f"\n        RuntimeError: {reason}" for reason in reasons)
    program = "try:\n    await measure('Atlantis')\nexcept RuntimeError as error:\n    print(error)"

    assert f'\n    Raises:{raised}"""\n' in (code_tool([measure]).description or "")
    assert "Atlantis" in run_program(program, measure).value["printed"]


@pytest.mark.parametrize("text", ['Find "it"', 'Find ""it""', '"', '\\\\"', '""""'])
def test_quotes_at_the_end(text: str) -> None:
    """The stub of a tool whose description ends with a quote is Python."""
    made = code_tool([tool(lambda: 1, name="find", description=text)])
    stub = ast.parse((made.description or "").partition("```python\n")[2].removesuffix("\n```")).body[-1]

    assert isinstance(stub, ast.AsyncFunctionDef)
    assert text.replace('"""', "'''") == ast.get_docstring(stub)


def make_box_tool(name: str, schema: Any) -> Tool[..., Any]:
    """Make a tool that takes a box, which holds an item with the schema, and returns the box."""
    item = {"type": "object", "properties": {"key": schema}, "required": ["key"]}
    box = {"type": "object", "properties": {"item": {"$ref": "#/$defs/Item"}}, "required": ["item"]}
    properties = {"box": {"$ref": "#/$defs/Box"}}
    whole = {
        "type": "object",
        "properties": properties,
        "required": ["box"],
        "$defs": {"Box": box, "Item": item},
    }
    return Tool.from_schema(name, whole, lambda box: box)


def make_item_tool(name: str, kind: str, schema: Any) -> Tool[..., Any]:
    """Make a tool that takes an item, whose schema has a name of its own, and returns it."""
    item = {"type": "object", "properties": {"key": schema}, "required": ["key"]}
    properties = {"item": {"$ref": f"#/$defs/{kind}"}}
    whole = {"type": "object", "properties": properties, "required": ["item"], "$defs": {kind: item}}
    return Tool.from_schema(name, whole, lambda item: item)


@pytest.mark.parametrize("values", ["'Oslo', 'C', 2, 'x'", "'Oslo', city='Rome'"])
def test_arguments_that_the_type_check_does_not_see(values: str) -> None:
    """A call with a value too many, or with an argument twice, fails as in Python."""
    result = run_program(
        f"def run(f, *values, **named):\n    return f(*values, **named)\nawait run(forecast, {values})"
    )

    assert "TypeError: forecast() takes up to 3 values without a name, and each argument once." in result.error


def test_two_types_of_one_name() -> None:
    """Tools may have different types of the same name, and share equal ones."""
    tools = [
        make_item_tool("first", "Item", string()),
        make_item_tool("second", "Item", integer()),
        make_item_tool("third", "Item", string()),
    ]
    made = code_tool(tools)
    code = "[await first({'key': 'a'}), await second({'key': 1}), await third({'key': 'b'})]"

    assert {"value": [{"key": "a"}, {"key": 1}, {"key": "b"}]} == made.invoke({"code": code}).value
    assert 2 == (made.description or "").count("(TypedDict):")


def test_equal_types_with_parts_of_one_name() -> None:
    """Types that only look the same are different ones if the types that they refer to are."""
    made = code_tool([make_box_tool("first", string()), make_box_tool("second", integer())])
    code = "[await first({'item': {'key': 'a'}}), await second({'item': {'key': 1}})]"

    assert {"value": [{"item": {"key": "a"}}, {"item": {"key": 1}}]} == made.invoke({"code": code}).value
    assert "error[" in made.invoke({"code": "await second({'item': {'key': 'a'}})"}).text


def test_tool_with_the_name_of_a_type() -> None:
    """A program may name a type although a tool has the same name."""
    made = code_tool([make_item_tool("first", "Item", string()), make_item_tool("Item", "Part", string())])
    code = "item: Item_2 = {'key': 'a'}\n[await first(item), await Item({'key': 'b'})]"

    assert {"value": [{"key": "a"}, {"key": "b"}]} == made.invoke({"code": code}).value


@pytest.mark.parametrize("kind", ["str", "len", "Any", "TypedDict"])
def test_type_with_the_name_of_a_builtin(kind: str) -> None:
    """A type of one tool does not change what a builtin name means in a program, and for other tools."""
    made = code_tool([make_item_tool("first", kind, string()), forecast])
    code = "[len(await forecast('Oslo')), await first({'key': str(1)})]"

    assert {"value": [2, {"key": "1"}]} == made.invoke({"code": code}).value


@pytest.mark.parametrize(
    ("name", "written"), [("sum", "sum_"), ("class", "class_"), ("_find", "find"), ("2fa", "tool_2fa"), ("_", "tool_")]
)
def test_names_that_programs_cannot_use(name: str, written: str) -> None:
    """A tool whose name is a builtin or a keyword, or begins with an underscore or a digit, has another in programs."""
    made = code_tool([tool(lambda: 7, name=name)])

    assert {"value": "7"} == made.invoke({"code": f"await {written}()"}).value


def test_one_name_in_python() -> None:
    """Two tools that would have one name in Python are refused."""

    def make(name: str) -> Tool[..., Any]:
        return tool(lambda: 1, name=name)

    with pytest.raises(DefinitionError, match="'a_b' and 'a-b' have the same name in Python"):
        code_tool([make("a-b"), make("a_b")])


@pytest.mark.parametrize("make", [lambda: plan_tool([forecast]), lambda: code_tool([forecast]), ask_user_tool])
def test_tools_that_are_left_out(make: Callable[[], Any]) -> None:
    """Tools that make calls themselves, or ask a user, cannot be called by a program."""
    try:
        excluded = make()
    except TypeError:  # it wants a function that asks
        excluded = ask_user_tool(lambda _: "yes")
    made = code_tool([forecast, excluded])

    assert f"async def {excluded.name}(" not in (made.description or "")


def test_effect() -> None:
    """The effect of a program is the worst of its tools."""
    assert ["read", "write", "destructive"] == [
        code_tool(tools).settings.effect
        for tools in ([forecast], [forecast, Account().take], [tool(lambda: 1, name="x")])
    ]


def test_mistakes() -> None:
    """A limit that is not a number of seconds is refused."""
    with pytest.raises(DefinitionError, match="max_seconds=0 is not a number of seconds above 0"):
        code_tool(Toolbox(TOOLS), max_seconds=0)


def test_tools_of_a_provider() -> None:
    """A program has no tools that only a model's provider can run."""
    subject = code_tool([provider_tool("web_search")])
    result = Toolbox([subject]).call(subject.name, {"code": "await web_search()"})

    assert "web_search" not in subject.description and result.is_error


PROCESS = """
import atexit, time
from toolkit.builtin import code_tool

atexit.register(lambda: print(time.monotonic() - end))  # called after what is registered later
print(code_tool([]).invoke({"code": "1 + 2"}).value["value"])
end = time.monotonic()
"""


def test_end_of_the_process() -> None:
    """A process waits for the interpreter's threads at its exit, which would otherwise abort it now and then."""
    answer, seconds = subprocess.check_output([sys.executable, "-c", PROCESS], text=True).split()

    assert "3" == answer
    assert float(seconds) >= 0.1
