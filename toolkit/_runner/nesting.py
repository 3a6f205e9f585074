"""Runs that a call of another run starts: what they share with the run above.

Cancellation and deadline pass down by `current_cancellation`. Usage and calls count in every run above. Each call
passes the gates and the middleware of the runs above as well as those of its own run.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from toolkit._concurrency.backend import Backend
from toolkit._execution.dispatcher import Dispatcher
from toolkit._execution.invoke import Emit
from toolkit._messages import ToolCall
from toolkit._runner.conversation import Conversation
from toolkit.models.default import ModelChoice

# Runs inside each other, whatever starts them; sub-agents have a lower limit of their own.
MAX_NESTING = 10


@dataclass(frozen=True)
class ParentRun:
    """A run as those that its calls start see it.

    Attributes:
        depth: How many runs there are down to this one, itself included.
        streams: Whether somebody listens to its events.
        model_choice: Chooses its model.
        observers: Hooks that get each event of this run and of those below.
    """

    conversation: Conversation
    dispatcher: Dispatcher
    depth: int
    streams: bool
    model_choice: ModelChoice
    observers: tuple[Callable[..., Any], ...] = ()


@dataclass(frozen=True)
class ParentCall:
    """The call that is being executed, and its run."""

    run: ParentRun
    call: ToolCall
    emit: Emit
    backend: Backend


parent_call: ContextVar[ParentCall | None] = ContextVar("parent_call", default=None)
