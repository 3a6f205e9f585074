"""One run, and the ways to follow it: in place, in an event loop, in the background."""

from __future__ import annotations

from toolkit._runner.result import RunResult
from toolkit._runner.run import Run
from toolkit._runner.stream import AsyncRunStream, RunHandle, RunStream

__all__ = ["AsyncRunStream", "Run", "RunHandle", "RunResult", "RunStream"]
