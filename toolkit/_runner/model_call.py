"""One call of the model, whole or streamed, within its time."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from toolkit._concurrency.backend import Backend, iterate_until
from toolkit._concurrency.cancellation import Cancellation
from toolkit._messages import ModelRequest, OutputSpec, ToolSpec
from toolkit._runner.hooks import Hooks
from toolkit._runner.limits import ANY_SECONDS, LAST_SECONDS, Limits
from toolkit._runner.state import CallModel
from toolkit._tools.tool import Tool
from toolkit.errors import Cancelled, ModelError, TimedOut
from toolkit.models import Model, Piece


@dataclass(kw_only=True)
class ModelCaller:
    """Calls a run's model.

    Attributes:
        output: What the answer must be; None for any text.
        tools: The tools that are offered, by name; more may join in the course of a run.
        choice: The tool choice; one that forces a call applies to the first turn only.
        allowed: Names of the tools that may be called; all if None.
        streams: Whether the response is streamed.
        early: Whether a call is wanted as soon as it has arrived.
        in_background: Whether the run may abandon a model that it waits for.
        cancellation: Cancels the run.
        deadline: The same, with the run's time limit.
        memo: The wire forms of the messages so far, kept for the model.
    """

    limits: Limits
    hooks: Hooks
    output: OutputSpec | None
    tools: Mapping[str, Tool[..., Any]]
    choice: str | None
    allowed: tuple[str, ...] | None
    streams: bool
    early: bool
    in_background: bool
    cancellation: Cancellation
    deadline: Cancellation
    memo: list[dict[str, Any]] = field(default_factory=list)
    _specs: tuple[ToolSpec, ...] = ()

    async def call(
        self, step: CallModel, model: Model, backend: Backend, cancellation: Cancellation
    ) -> AsyncGenerator[Piece, None]:
        """Call the model once; the last piece is the whole response.

        Raises:
            ModelError: There is no response.
            TimedOut: The time is up.
            Cancelled: The run was cancelled.
        """
        if len(self._specs) != len(self.tools):
            self._specs = tuple([tool._spec for tool in self.tools.values()])
        request = ModelRequest(
            messages=step.messages,
            tools=self._specs if step.with_tools else (),
            output=self.output,
            choice=self.choice,
            allowed=self.allowed,
            turn=step.turn,
            early=self.early,
            memo=self.memo,
        )
        changed = await self.hooks.before_model(request, backend, cancellation)
        memo = self.memo if changed.messages is request.messages else []
        request = replace(changed, memo=memo, cancellation=cancellation)
        try:
            if not self.streams:
                complete = partial(model.complete, request)
                yield await backend.call(
                    complete, is_async=model.is_async, cancellation=cancellation, in_caller_task=True
                )
                return
            source = iterate_until(backend, model.stream(request), is_async=model.is_async, cancellation=cancellation)
            async with aclosing(source) as pieces:
                async for piece in pieces:
                    yield piece
                    self._check_cancelled()
        except (TimedOut, Cancelled) as error:
            if cancellation:
                raise
            raise ModelError(f"The model failed: {error!r}") from error
        except ModelError:
            self._check_cancelled()  # being cancelled may be why
            raise

    @property
    def elapsed(self) -> float:
        """Seconds since the run started; 0 without a time limit."""
        return (self.limits.max_seconds or 0.0) - (self.deadline.remaining or 0.0)

    def deadline_of(self, step: CallModel) -> Cancellation:
        """Return what bounds a call of the model; a last turn may run after the run's time is up."""
        return self.deadline if step.with_tools else self.cancellation

    @contextmanager
    def time(self, step: CallModel) -> Iterator[Cancellation]:
        """Bound a call of the model and the hooks around it; with a deadline only where that is worth a thread.

        Raises:
            ModelError: The time of the turn is up.
        """
        deadline = self.deadline_of(step)
        if not (self.in_background or self.limits.is_timed):
            yield deadline
            return
        is_extra = self.limits.max_seconds is not None and not step.with_tools
        seconds = self.limits.max_seconds_per_turn or (LAST_SECONDS if is_extra else ANY_SECONDS)
        with Cancellation(seconds, parent=deadline) as cancellation:
            try:
                yield cancellation
            except (TimedOut, Cancelled) as error:
                if deadline or not cancellation:
                    raise
                raise ModelError(
                    f"The model gave no whole answer in its time: {seconds:g} s, with the hooks around it."
                ) from error

    def _check_cancelled(self) -> None:
        if self.cancellation:
            raise Cancelled
