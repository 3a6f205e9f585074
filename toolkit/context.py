"""What a tool may know of the run that called it."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Event
from typing import Generic, NoReturn

from typing_extensions import TypeVar

Deps = TypeVar("Deps", default=None)


@dataclass(frozen=True, kw_only=True)
class ToolContext(Generic[Deps]):
    """Ask for it with a parameter annotated `ToolContext`; the model neither sees nor supplies it.

    Attributes:
        deps: What the application gave to the run: a database, a user, a client.
        run_id: The run; empty when the tool was called without one.
        call_id: The call, unique in the run.
        wire_id: What the provider calls this call.
        tool_name: The name by which the model called.
        iteration: Which turn of the run, counted from 0.
        ended: Set when the run is over.
    """

    deps: Deps
    run_id: str = ""
    call_id: str = ""
    wire_id: str = ""
    tool_name: str = ""
    iteration: int = 0
    ended: Event = field(default_factory=Event, repr=False, compare=False)

    @property
    def cancelled(self) -> bool:
        """Whether the run is over while the tool still works: it was left, or failed."""
        return self.ended.is_set()

    @classmethod
    def __get_pydantic_core_schema__(cls, *_: object) -> NoReturn:
        raise TypeError("a context comes from the run: write ToolContext alone, or ToolContext | None")

    @property
    def idempotency_key(self) -> str:
        """The same for every try of one call, another for every other call: 32 hexadecimal digits."""
        import hashlib  # it takes longer to load than all of the context, and few tools ask for the key

        identity = f"{self.run_id}:{self.iteration}:{self.call_id}"
        return hashlib.sha256(identity.encode()).hexdigest()[:32]
