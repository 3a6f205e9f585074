"""One answer of the model: asked for, in pieces or whole, in the time that there is."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from toolkit._concurrency.backend import Backend, iterate_until
from toolkit._concurrency.cancellation import Cancellation
from toolkit._messages import ModelRequest, ToolSpec
from toolkit._runner.hooks import Hooks
from toolkit._runner.limits import ANY_SECONDS, LAST_SECONDS, Limits
from toolkit._runner.output import Output
from toolkit._runner.state import CallModel
from toolkit._tools.tool import Tool
from toolkit.errors import Cancelled, ModelError, TimedOut
from toolkit.models import Model, Piece


@dataclass(kw_only=True)
class ModelCaller:
    """How a run asks its model.

    Attributes:
        tools: The tools on offer, by name; more may join in the course of a run.
        choice: What the model has to call; what forces a call does so in the first turn only.
        allowed: The tools that may be called; all where it is None.
        streams: Whether the model is to answer in pieces.
        early: Whether calls are wanted as soon as they have arrived.
        is_apart: Whether the run may leave a model that it waits for.
        stop: Calls the run off.
        work: The same, and the end of its time.
        memo: Wire forms of the first messages, kept by the model.
    """

    limits: Limits
    hooks: Hooks
    output: Output[Any]
    tools: Mapping[str, Tool[..., Any]]
    choice: str | None
    allowed: tuple[str, ...] | None
    streams: bool
    early: bool
    is_apart: bool
    stop: Cancellation
    work: Cancellation
    memo: list[dict[str, Any]] = field(default_factory=list)
    _specs: tuple[ToolSpec, ...] = ()

    async def answered(
        self, todo: CallModel, model: Model, backend: Backend, cancellation: Cancellation
    ) -> AsyncGenerator[Piece, None]:
        """Ask once, in the time of a turn; the last piece is the whole answer.

        Raises:
            ModelError: There is none.
            TimedOut: The time is up.
            Cancelled: The run was called off.
        """
        request = replace(await self._request(todo, backend, cancellation), cancellation=cancellation)
        with self._failures(cancellation):
            if not self.streams:
                complete = partial(model.complete, request)
                yield await backend.call(complete, is_async=model.is_async, cancellation=cancellation, stays=True)
                return
            drawing = iterate_until(backend, model.stream(request), is_async=model.is_async, cancellation=cancellation)
            async with aclosing(drawing) as pieces:
                async for piece in pieces:
                    yield piece
                    self._refuse_to_go_on()

    @property
    def spent(self) -> float:
        """How long the run has taken, in seconds; 0 where nobody counts."""
        return (self.limits.seconds or 0.0) - (self.work.remaining or 0.0)

    def span(self, todo: CallModel) -> Cancellation:
        """Say how long there is for an answer; the last one of a run may come after its time."""
        return self.work if todo.with_tools else self.stop

    def _refuse_to_go_on(self) -> None:
        if self.stop:
            raise Cancelled

    async def _request(self, todo: CallModel, backend: Backend, cancellation: Cancellation) -> ModelRequest:
        request = ModelRequest(
            messages=todo.messages,
            tools=self._offered() if todo.with_tools else (),
            output=self.output.asked,
            choice=self.choice,
            allowed=self.allowed,
            turn=todo.turn,
            early=self.early,
            memo=self.memo,
        )
        changed = await self.hooks.before_model(request, backend, cancellation)
        return changed if changed.messages is request.messages else replace(changed, memo=[])

    def _offered(self) -> tuple[ToolSpec, ...]:
        if len(self._specs) != len(self.tools):
            self._specs = tuple(tool.spec for tool in self.tools.values())
        return self._specs

    @contextmanager
    def time(self, todo: CallModel) -> Iterator[Cancellation]:
        """Bound an answer and the hooks around it; with an end only where that is worth a thread of its own.

        Raises:
            ModelError: The time of the turn is up.
        """
        span = self.span(todo)
        cancellation = Cancellation(self._seconds(todo), parent=span) if self.is_apart or self.limits.is_timed else span
        try:
            yield cancellation
        except (TimedOut, Cancelled) as error:
            if span or not cancellation:
                raise
            late = f"The model gave no whole answer in its time: {self._seconds(todo):g} s, with the hooks around it."
            raise ModelError(late) from error
        finally:
            if cancellation is not span:
                cancellation.cancel()
                cancellation.close()

    @contextmanager
    def _failures(self, cancellation: Cancellation) -> Iterator[None]:
        """Tell what the model raises from the end of its time."""
        try:
            yield
        except (TimedOut, Cancelled) as error:
            if cancellation:
                raise
            raise ModelError(f"The model failed: {error!r}") from error
        except ModelError:
            self._refuse_to_go_on()  # where it was called off, that may be why
            raise

    def _seconds(self, todo: CallModel) -> float:
        """Say how long one answer may take; the last one of a run whose time is up has some time of its own."""
        is_extra = self.limits.seconds is not None and not todo.with_tools
        return self.limits.turn_seconds or (LAST_SECONDS if is_extra else ANY_SECONDS)
