"""The context of a call: facts about its run, cancellation, and progress reports."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Generic, NoReturn

from typing_extensions import TypeVar

from toolkit._concurrency.cancellation import Cancellation

Deps = TypeVar("Deps", default=None)


def discard(*_: object) -> None:
    """Ignore what a tool emits when it was called without a run."""


@dataclass(frozen=True, kw_only=True)
class ToolContext(Generic[Deps]):
    """The call's view of its run, passed to every parameter annotated `ToolContext`.

    Such a parameter is not part of the schema, and the model never fills it in.

    Attributes:
        deps: The object that the application passed to the run: a database, a user, a client.
        run_id: Id of the run; empty without one.
        call_id: Id of the call, unique in the run.
        provider_call_id: The provider's id of the call.
        tool_name: The name by which the model called.
        iteration: Turn of the run, counted from 0.
        attempt: Attempt of the call, counted from 0.
        shared: Values shared by the calls of the run, as far as this call may see them: copies, by dotted path.
        cancellation: Cancels the call, from any thread or at its deadline.
        emit: Receives the arguments of `progress` and `update`; tools call those.
    """

    deps: Deps = field(repr=False)
    run_id: str = ""
    call_id: str = ""
    provider_call_id: str = ""
    tool_name: str = ""
    iteration: int = 0
    attempt: int = 0
    shared: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    cancellation: Cancellation = field(default_factory=Cancellation, repr=False, compare=False)
    emit: Callable[[str | None, Any], object] = field(default=discard, repr=False, compare=False)

    @property
    def cancelled(self) -> bool:
        """True once the call should end: the run was cancelled, left or failed, or the deadline has passed."""
        return bool(self.cancellation)

    @property
    def deadline(self) -> float | None:
        """Deadline of the call on the clock of `time.monotonic()`, in seconds; None without one."""
        return self.cancellation.deadline

    @staticmethod
    def current() -> ToolContext[Any] | None:
        """Return the context of the call whose function runs here, for helpers that it calls; None outside of a call.

        Threads that the function starts itself have it if they run in a copy of its context (see `contextvars`).
        """
        return current_context.get()

    def progress(self, text: str) -> None:
        """Report progress as text, for users: the model never sees it. Safe from any thread."""
        self.emit(str(text), None)

    def update(self, partial: Any) -> None:
        """Report the whole result so far, for users: the model never sees it. Safe from any thread."""
        self.emit(None, partial)

    @property
    def idempotency_key(self) -> str:
        """A key of 32 hexadecimal digits, the same for every attempt of one call; empty without a run."""
        if not self.run_id:
            return ""
        import hashlib  # takes longer to load than this module, and few tools ask for the key

        identity = f"{self.run_id}:{self.iteration}:{self.call_id}"
        return hashlib.sha256(identity.encode()).hexdigest()[:32]

    @classmethod
    def __get_pydantic_core_schema__(cls, *_: object) -> NoReturn:
        raise TypeError("a context comes from the run: write ToolContext alone, or ToolContext | None")


# The context of the call whose function runs here.
current_context: ContextVar[ToolContext[Any] | None] = ContextVar("current_context", default=None)
