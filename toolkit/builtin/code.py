"""`run_code`: a program that the model writes and that calls tools, in an interpreter that can do nothing else.

    Toolbox([code_tool([search, get_weather])])

The interpreter is Monty, of the package pydantic-monty: a subset of Python in a process of its own, without files,
network, environment or imports beyond a few standard modules. Needs the extra `code`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property, partial
from importlib.util import find_spec
from itertools import chain
from typing import Any

from pydantic_core import to_json, to_jsonable_python
from typing_extensions import Self

from toolkit._concurrency.threads import wait_at_exit
from toolkit._context import ToolContext
from toolkit._execution.references import parse_result_text
from toolkit._guards.hidden_text import escape_hidden
from toolkit._guards.options import check_seconds, check_whole
from toolkit._messages import META, ToolCall, ToolResult
from toolkit._schema.error_messages import shorten
from toolkit._schema.json_text import is_long_integer
from toolkit._schema.python_stubs import HEADER, StubWriter, is_identifier, make_identifier
from toolkit._toolbox import Toolbox
from toolkit._tools.addable import Addable
from toolkit._tools.decorator import tool
from toolkit._tools.results import write_value
from toolkit._tools.tool import Tool
from toolkit.builtin.plan import InnerCalls
from toolkit.errors import DefinitionError, Failed, FatalError, ToolError

NAME = "run_code"
# Limits of one program: seconds of its own work, without the calls that it waits for; bytes of its memory; calls.
MAX_SECONDS = 10.0
MAX_MEMORY = 100 * 2**20
MAX_CALLS = 500
MAX_ERROR = 2_000  # characters of an error that the model reads
MAX_SHOWN = 60  # characters of a call's arguments in its progress
VALUE_SIZE = 50  # bytes that any value takes; of an integer each bit takes one more, since it takes long to write

NO_INTERPRETER = 'code_tool() needs an extra: pip install "function-toolkit[code]".'
ENDED = "The program has ended."
NEEDS_APPROVAL = "this call needs approval, and a program cannot wait for that. Call this tool by itself."
DESCRIPTION = """Run a Python program that calls functions; returns what it prints and the value of its last expression.

Use it if several calls belong together: loops, conditions, sums over many results. Calls are awaited, as in
`await f(1)`; `await asyncio.gather(f(1), f(2))` runs them together. A call that fails raises RuntimeError. There are no
files, no network and no packages, only the language, asyncio, datetime, json, math and re, and these functions:

"""


def code_tool(
    tools: Toolbox | Iterable[Addable], *, max_seconds: float = MAX_SECONDS, max_memory: int = MAX_MEMORY
) -> Tool[..., Any]:
    """Make `run_code`, by which a model writes a Python program that calls tools.

    The program is type-checked against stubs of the tools before it starts. Each of its calls is executed like a call
    of the model: it counts in the run's limits, and passes validation, the run's gates, hooks, middleware and ledger,
    and the tool's own gates. A call that needs approval is refused, unless an approver decides at once.

    Args:
        tools: The tools that a program may call: those of a toolbox at this time. Tools that make calls themselves, ask
            a user, or are executed by the model's provider are left out.
        max_seconds: Seconds of the program's own work, calls not counted.
        max_memory: Bytes of memory of the program, of its value, and of the arguments of its calls together.

    Raises:
        DefinitionError: `max_seconds` or `max_memory` is not above 0, the extra `code` is not installed, or two tools
            have the same name in Python.
    """
    check_seconds("max_seconds", max_seconds)
    check_whole("max_memory", max_memory)
    if find_spec("pydantic_monty") is None:
        raise DefinitionError(NO_INTERPRETER)
    program = _Interpreter(InnerCalls.of(tools), max_seconds, max_memory)
    effect = program.calls.effect
    text = f"{DESCRIPTION}```python\n{program.stubs}\n```"
    return tool(program.run_code, description=text, effect=effect)


@dataclass(frozen=True)
class _Interpreter:
    """The tools that programs can call, and the limits of a program."""

    calls: InnerCalls
    max_seconds: float
    max_memory: int

    @cached_property
    def functions(self) -> dict[str, Tool[..., Any]]:
        """The tools by their names in Python."""
        functions = dict[str, Tool[..., Any]]()
        for name, each in self.calls.tools.items():
            if functions.setdefault(make_identifier(name), each) is not each:
                other = functions[make_identifier(name)].name
                raise DefinitionError(f"The tools {name!r} and {other!r} have the same name in Python: rename one.")
        return functions

    @cached_property
    def stubs(self) -> str:
        """The tools as Python functions without bodies."""
        writer = StubWriter(self.functions)
        written = [
            writer.write_function(name, *_read_schemas(each), _list_failures(each))
            for name, each in self.functions.items()
        ]
        return "\n\n".join([HEADER, *writer.classes.values(), *written])

    @tool(name=NAME, title="Run Code")
    async def run_code(self, code: str, context: ToolContext[Any]) -> ToolResult:
        """Run a Python program.

        Args:
            code: The program.
            context: Context of the program's own call.
        """
        import pydantic_monty as monty

        wait_at_exit()
        program = _Program(self, context)
        printed = monty.CollectString()
        limits: monty.ResourceLimits = {
            "max_feed_duration_secs": self.max_seconds,
            "max_total_sleep_secs": self.max_seconds,
            "max_memory": self.max_memory,
            "max_suspensions": 4 * MAX_CALLS,
        }
        value: Any = None
        checks: dict[str, Any] = {"type_check": True, "type_check_stubs": self.stubs, "type_check_format": "concise"}

        try:
            async with (
                monty.AsyncMonty(max_processes=1) as pool,
                pool.checkout(limits=limits, **checks) as session,
                program,
            ):
                value = await session.feed_run(code, external_lookup=program.functions, print_callback=printed)
        except monty.MontyError as error:
            if program.stopped is None:
                raise _explain_failure(error, printed.output) from error

        if isinstance(program.stopped, FatalError):
            raise program.stopped
        if program.stopped is not None:
            return program.stopped

        shown = {"printed": printed.output} if printed.output else {}
        done = {**shown, "value": self._read_value(value)}
        text = escape_hidden(write_value(done))  # results of foreign tools may be part of it
        return ToolResult(done, text, images=tuple(program.images), files=tuple(program.files))

    def _read_value(self, value: Any) -> Any:
        """Return the value of a program as plain data, or a sentence if it cannot be written."""
        try:
            _check_size(value, self.max_memory)
            return _to_plain_data(value)
        except (ValueError, RecursionError) as error:
            return f"(Not written: {error})"


@dataclass
class _Program:
    """One program while it runs. Its end waits for calls that the program has started and not awaited."""

    interpreter: _Interpreter
    context: ToolContext[Any]
    stopped: ToolResult | FatalError | None = None  # by an approver, or by the exception of a tool, which ended the run
    images: list[Any] = field(default_factory=list)
    files: list[Any] = field(default_factory=list)
    _count: int = 0
    _written: int = 0  # bytes of arguments
    _tasks: set[asyncio.Task[Any]] = field(default_factory=set)
    _has_ended: bool = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, _: Any, error: BaseException | None, __: Any) -> None:
        self._has_ended = True
        if self._tasks and isinstance(error, (Exception, type(None))):
            await asyncio.wait(self._tasks)
        for task in self._tasks:  # the program was cancelled
            task.cancel()

    @property
    def functions(self) -> dict[str, Callable[..., Awaitable[Any]]]:
        """The functions that the program can call."""
        return {name: partial(self._call_tool, each) for name, each in self.interpreter.functions.items()}

    @cached_property
    def _turn(self) -> AbstractAsyncContextManager[Any]:
        """Lets one call run at a time if a tool has to run alone."""
        tools = self.interpreter.calls.tools.values()
        return asyncio.Lock() if any(each.settings.runs_alone for each in tools) else nullcontext()

    async def _call_tool(self, each: Tool[..., Any], /, *values: Any, **named: Any) -> Any:
        """Execute a call of the program like one of the model. Raise RuntimeError in the program if it fails."""
        task: Any = asyncio.current_task()
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        number = self._count
        self._count += 1
        if number >= MAX_CALLS:
            raise RuntimeError(f"A program can make at most {MAX_CALLS} calls.")

        parameters, _, _ = _read_schemas(each)
        keys = [key for key in parameters["properties"] if is_identifier(key)]
        unnamed = dict(zip(keys, values))
        if len(values) > len(keys) or not unnamed.keys().isdisjoint(named):  # the type check does not see every call
            raise TypeError(f"{each.name}() takes up to {len(keys)} values without a name, and each argument once.")

        arguments = self._write_arguments({**unnamed, **named})
        call = ToolCall(name=each.name, arguments=arguments, id=f"{self.context.call_id}/{number}")
        async with self._turn:
            if self._has_ended or self.stopped is not None:
                raise RuntimeError(ENDED)
            self.context.progress(f"{each.name}({shorten(arguments, MAX_SHOWN)})")
            try:
                result = (await self.interpreter.calls.run([call], self.context, number))[call.id]
            except FatalError as error:
                self.stopped = error
                raise RuntimeError(ENDED) from error

        if result.kind == "stopped":
            self.stopped = result
        if result.is_error:
            raise RuntimeError(NEEDS_APPROVAL if result.kind == "pending" else result.text)

        self.images += result.images
        self.files += result.files
        return parse_result_text(result.text, each)

    def _write_arguments(self, arguments: dict[str, Any]) -> str:
        _check_size(arguments, self.interpreter.max_memory)
        written = to_json(arguments)
        self._written += len(written)
        if self._written > self.interpreter.max_memory:
            raise RuntimeError(
                f"The arguments of a program have at most {self.interpreter.max_memory:,} bytes together."
            )
        return written.decode()


def _check_size(value: Any, max_bytes: int) -> None:
    """Check that a value of a program can be written: a small one may contain the same list millions of times.

    Raises:
        ValueError: An integer has too many digits, or all parts together have too many bytes.
        RecursionError: It is nested too deeply.
    """
    if _measure(value, {}) > max_bytes:
        raise ValueError(f"A value has more than {max_bytes:,} bytes.")


def _measure(value: Any, sizes: dict[int, int]) -> int:
    """Return about how many bytes a value takes where it is written. `sizes` has the sizes of its parts by id."""
    if is_long_integer(value):
        raise ValueError("A value has an integer of more than 100,000 digits.")
    if isinstance(value, (int, float)):
        return VALUE_SIZE + (value.bit_length() if isinstance(value, int) else 0)
    if isinstance(value, (str, bytes)):
        return VALUE_SIZE + len(value)
    if id(value) not in sizes:
        parts = getattr(value, "attributes", value)  # those of an object of a class
        parts = chain(parts, parts.values()) if isinstance(parts, dict) else parts
        is_plain = not isinstance(parts, (chain, list, tuple, set, frozenset))
        size = len(repr(value)) if is_plain else sum(_measure(part, sizes) for part in parts)
        sizes[id(value)] = VALUE_SIZE + size + len(getattr(value, "name", ""))  # that of the class

    return sizes[id(value)]


def _read_schemas(each: Tool[..., Any]) -> tuple[dict[str, Any], Any, str]:
    """Return the JSON Schemas of a tool's arguments, without metadata, and of its result, and its description."""
    schema = each.parameters
    properties = {key: part for key, part in schema["properties"].items() if key not in META}
    ordered = sorted(properties, key=lambda key: key not in schema.get("required", ()))
    own = {**schema, "properties": {key: properties[key] for key in ordered}}
    return own, each.output_schema, each.description or ""


def _list_failures(each: Tool[..., Any]) -> list[str]:
    """List the exceptions whose messages a program may read: those in the docstring, and relayed ones."""
    known = each.handler.interface.raises
    others = {error.__name__: "" for error in each.relay if error.__name__ not in known}
    return [f"{name}: {text}".removesuffix(": ") for name, text in {**known, **others}.items()]


def _to_plain_data(value: Any) -> Any:
    """Return a value as JSON has it: bytes as text, or as Base64 if they are not UTF-8."""
    convert = partial(to_jsonable_python, value, fallback=repr, inf_nan_mode="strings")
    try:
        return convert()
    except UnicodeDecodeError:
        return convert(bytes_mode="base64")


def _explain_failure(error: Any, printed: str) -> ToolError:
    """Explain to the model why its program failed, with the text that it had printed."""
    text = shorten((error.display() if hasattr(error, "display") else str(error)).rstrip(), MAX_ERROR)
    before = f"\nIt had printed: {shorten(json.dumps(printed, ensure_ascii=False), MAX_ERROR)}" if printed else ""
    return Failed(escape_hidden(f"The program failed:\n{text}{before}"))
