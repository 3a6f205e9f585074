"""What a tool may know of the run that called it, and tell it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, NoReturn

from typing_extensions import TypeVar

from toolkit._concurrency.cancellation import Cancellation

Deps = TypeVar("Deps", default=None)


def ignore(*_: object) -> None:
    """Take no notice of what a tool tells: it was called without a run."""


@dataclass(frozen=True, kw_only=True)
class ToolContext(Generic[Deps]):
    """Ask for it with a parameter annotated `ToolContext`; the model neither sees nor supplies it.

    Attributes:
        deps: What the application gave to the run: a database, a user, a client.
        run_id: The run; empty when the tool was called without one.
        call_id: The call, unique in the run.
        provider_call_id: What the provider calls this call.
        tool_name: The name by which the model called.
        iteration: Which turn of the run, counted from 0.
        attempt: Which try of the call, counted from 0.
        shared: What the calls of the run share, as far as this one may see it: copies of values, by dotted path.
        cancellation: Tells when the call is to end.
        tell: Takes progress and partial results; `progress` and `update` are how a tool says them.
    """

    deps: Deps
    run_id: str = ""
    call_id: str = ""
    provider_call_id: str = ""
    tool_name: str = ""
    iteration: int = 0
    attempt: int = 0
    shared: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    cancellation: Cancellation = field(default_factory=Cancellation, repr=False, compare=False)
    emit: Callable[[str | None, Any], object] = field(default=ignore, repr=False, compare=False)

    @property
    def cancelled(self) -> bool:
        """Whether the call is to end: the run was cancelled, left or failed, or the time is up."""
        return bool(self.cancellation)

    @property
    def deadline(self) -> float | None:
        """When the call has to be done, by `time.monotonic()`; None where nothing says so."""
        return self.cancellation.deadline

    def progress(self, text: str) -> None:
        """Tell how far the call is; the model never sees it. May be called from any thread."""
        self.emit(str(text), None)

    def update(self, partial: Any) -> None:
        """Show what there is so far, in whole; the model never sees it. May be called from any thread."""
        self.emit(None, partial)

    @classmethod
    def __get_pydantic_core_schema__(cls, *_: object) -> NoReturn:
        raise TypeError("a context comes from the run: write ToolContext alone, or ToolContext | None")

    @property
    def idempotency_key(self) -> str:
        """The same for every try of one call, another for every other: 32 hexadecimal digits; empty without a run."""
        if not self.run_id:
            return ""
        import hashlib  # it takes longer to load than all of the context, and few tools ask for the key

        identity = f"{self.run_id}:{self.iteration}:{self.call_id}"
        return hashlib.sha256(identity.encode()).hexdigest()[:32]
