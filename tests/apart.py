"""Tools for other processes, which find them here by name."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from toolkit import Denied, FatalError, Halt, Toolbox, ToolContext, ToolError, tool


class Unusual(Exception):
    """An exception that pickles, and cannot be unpickled."""

    def __init__(self, one: str, other: str) -> None:
        super().__init__(f"{one} and {other}")


def _unusual() -> None:
    raise Unusual("this", "that")


class Over(Halt):
    """An end of the run that pickles, and cannot be unpickled."""

    def __init__(self, one: str, other: str) -> None:
        super().__init__(f"{one} and {other}")


def _over() -> None:
    raise Over("this", "that")


def _denied() -> None:
    class Rule(Denied):
        """A refusal that no other process finds."""

    raise Rule("Not on Sundays.")


def _local() -> None:
    class Local(Exception):
        """An exception that no other process finds."""

    raise Local("gone")


def _raise(error: BaseException) -> None:
    raise error


ENDS: dict[str, Any] = {
    "value error": lambda: _raise(ValueError("why")),
    "tool error": lambda: _raise(ToolError("Try later.")),
    "fatal": lambda: _raise(FatalError("no more")),
    "over": _over,
    "denied": _denied,
    "exit": lambda: sys.exit(4),
    "interrupt": lambda: _raise(KeyboardInterrupt()),
    "stop": lambda: _raise(StopIteration()),
    "local": _local,
    "unusual": _unusual,
    "unsendable": lambda: threading.Lock(),
    "os exit": lambda: os._exit(3),
    "killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "segfault": lambda: ctypes.string_at(0),
    "closed": lambda: os.closerange(3, 20),
}


@tool(isolate="process", relay=(ValueError, Unusual))
def end(how: str) -> Any:
    """End in one of many ways."""
    return ENDS[how]()


@tool(isolate="process")
def process() -> int:
    """Return the id of the process."""
    return os.getpid()


@tool(isolate="process")
async def process_later() -> int:
    """Return the id of the process."""
    await asyncio.sleep(0)
    return os.getpid()


@tool(isolate="process")
def count(to: int, context: ToolContext) -> Iterator[int]:
    """Count."""
    context.progress(f"to {to}")
    yield from range(to)


@tool(isolate="process")
async def count_later(to: int) -> AsyncIterator[int]:
    """Count."""
    for number in range(to):
        yield number


class Counter:
    """Has a method that is a tool."""

    def __init__(self, start: int) -> None:
        self.start = start

    @tool(isolate="process")
    def add(self, amount: int) -> int:
        """Add to it."""
        return self.start + amount


@tool
def known_there(context: ToolContext[str]) -> str:
    """Return what the context holds."""
    return f"{context.deps} {context.call_id} {context.iteration} {context.deadline is not None}"


known = tool(known_there, name="known", isolate="process")


@tool(isolate="process")
def measure(text: str) -> int:
    """Return the length of a text."""
    return len(text)


@tool(isolate="process")
def prints(text: str = "said") -> str:
    """Print, and read."""
    print(text)
    return sys.stdin.read()


@tool(isolate="process", timeout=0.01)
def late() -> None:
    """Never end."""
    threading.Event().wait()


@tool(isolate="process")
def parent(path: str) -> None:
    """Start a child, write its id to a file, and never end."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    Path(path).write_text(str(child.pid), encoding="ascii")
    threading.Event().wait()


@tool(isolate="process")
def nested() -> Any:
    """Return the id of the process of another tool."""
    return Toolbox([process]).call("process").value


@tool
def where(number: int) -> int:
    """Return the id of the process."""
    return os.getpid()


@tool
async def where_later(number: int) -> int:
    """Return the id of the process."""
    await asyncio.sleep(0)
    return os.getpid()


@tool
def fail_there(how: str) -> Any:
    """End in one of many ways."""
    return ENDS[how]()
