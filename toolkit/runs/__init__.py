"""One run, and the ways to follow it: in place, in an event loop, in the background."""

from __future__ import annotations

from toolkit.runs.handle import RunHandle
from toolkit.runs.result import RunResult
from toolkit.runs.run import Run
from toolkit.runs.streams import AsyncRunStream, RunStream

__all__ = ["AsyncRunStream", "Run", "RunHandle", "RunResult", "RunStream"]
