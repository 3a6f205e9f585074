"""The context of a call: facts about its run, cancellation, and progress reports."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic

from typing_extensions import TypeVar

from toolkit._concurrency.cancellation import Cancellation
from toolkit._options import explain_missing

Deps = TypeVar("Deps", default=None)


def discard(*_: object) -> None:
    """Ignore the reports of a tool that was called without a run."""


@dataclass(frozen=True, kw_only=True)
class ToolContext(Generic[Deps]):
    """The context of one call: the application's objects, ids, progress and cancellation.

    Annotate a parameter with `ToolContext` to get it. The parameter is not part of the schema.

    Attributes:
        deps: The object that the application passed to the run: a database, a user, a client.
        run_id: Id of the run. Empty without a run.
        call_id: Id of the call, unique in the run.
        provider_call_id: The provider's id of the call.
        tool_name: The name of the tool, as the model wrote it.
        agent: The name of the runner; of a sub-agent without a name, that of its tool. Empty if there is none.
        iteration: Turn of the run, counted from 0.
        attempt: Attempt of the call, counted from 0.
        shared: Copies of the shared values that this call may read, by dotted path.
        cancellation: The object that cancels the call, from any thread or at its deadline.
        emit: The function to which reports are passed. Call `progress` or `update` instead.
    """

    deps: Deps = field(repr=False)
    run_id: str = ""
    call_id: str = ""
    provider_call_id: str = ""
    tool_name: str = ""
    agent: str = ""
    iteration: int = 0
    attempt: int = 0
    shared: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    cancellation: Cancellation = field(default_factory=Cancellation, repr=False, compare=False)
    emit: Callable[[str | None, Any], object] = field(default=discard, repr=False, compare=False)

    @property
    def cancelled(self) -> bool:
        """True if the call should end: the run was cancelled, closed or failed, or the deadline has passed."""
        return bool(self.cancellation)

    @property
    def deadline(self) -> float | None:
        """Deadline of the call on the clock of `time.monotonic()`, in seconds; None without one."""
        return self.cancellation.deadline

    if not TYPE_CHECKING:  # type checkers report missing attributes themselves
        __getattr__ = explain_missing(
            (
                "config context get_state invocation_state lifespan_context runtime set_state state store",
                "context.deps",
            ),
            ("debug error info log logger on_progress report_progress stream_writer warning", "context.progress(text)"),
            ("emit_output_delta on_update", "context.update(value)"),
            ("cancel_signal is_cancelled", "context.cancelled"),
            ("remaining_time", "context.deadline"),
            ("run_step", "context.iteration"),
            ("elicit interrupt", "@tool(approve=True), or ask_user_tool of toolkit.builtin"),
            ("retry", "context.attempt"),
            ("tool_call_id", "context.call_id"),
        )

    @staticmethod
    def current() -> ToolContext[Any] | None:
        """Return the context of the current call, for helper functions. None outside of a call.

        In threads that you start yourself, run the helper in a copy of the context (see `contextvars`).
        """
        return current_context.get()

    def progress(self, text: str) -> None:
        """Report progress as text for users. The model does not see it. Works on any thread."""
        self.emit(str(text), None)

    def update(self, partial: Any) -> None:
        """Report the result so far for users. The model does not see it. Works on any thread."""
        self.emit(None, partial)

    @property
    def idempotency_key(self) -> str:
        """A key of 32 hexadecimal digits, equal for all attempts of one call. Empty without a run."""
        if not self.run_id:
            return ""
        import hashlib  # takes longer to load than this module, and few tools ask for the key

        identity = f"{self.run_id}:{self.iteration}:{self.call_id}"
        return hashlib.sha256(identity.encode()).hexdigest()[:32]


def use_context(given: ToolContext[Any] | None) -> ToolContext[Any]:
    """Return a caller's context, or for None one without deps.

    Raises:
        TypeError: The value is not a ToolContext, but for example the deps themselves.
    """
    if isinstance(given, (ToolContext, type(None))):
        return given or ToolContext(deps=None)
    raise TypeError(f"The context is of type {type(given).__name__}: write ToolContext(deps=...).")


# The context of the current call.
current_context: ContextVar[ToolContext[Any] | None] = ContextVar("current_context", default=None)
