"""The calls of the model in one run: the request of a turn, its time limit, and the hooks around it."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from concurrent.futures import CancelledError
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from toolkit._concurrency.async_backend import AsyncBackend
from toolkit._concurrency.backend import Backend, iterate_until
from toolkit._concurrency.cancellation import CANCELLED, Cancellation, cancellation_error
from toolkit._messages import ModelRequest, ModelResponse, OutputSpec, ToolSpec
from toolkit._runner.conversation import CallModel
from toolkit._runner.hooks import apply_model_hook
from toolkit._runner.limits import ANY_SECONDS, LAST_SECONDS
from toolkit._runner.options import RunnerSettings
from toolkit._runner.tool_calls import ToolCaller
from toolkit._tools.tool import Tool
from toolkit.errors import Cancelled, ModelError, RunError, TimedOut
from toolkit.models import Model, Piece

logger = logging.getLogger("toolkit")


@dataclass(kw_only=True, eq=False)
class ModelCaller:
    """Calls the model of a run.

    Attributes:
        tool_caller: Executes the calls of the run. It has the tools.
        output: The schema of the answer; None for any text.
        tool_choice: Whether and what the model must call; a forced call applies to the first turn only.
        allowed: Names of the tools that may be called; all if None.
        cancellation: Cancels the run. `tool_caller.deadline` is a child of it, with the run's time limit.
        list_tools: Lists the tools of the toolbox before each turn; None if changes do not count in this run.
    """

    settings: RunnerSettings
    tool_caller: ToolCaller
    output: OutputSpec | None
    tool_choice: str | None
    allowed: tuple[str, ...] | None
    cancellation: Cancellation
    list_tools: Callable[[], Mapping[str, Tool[..., Any]]] | None
    _model: Model = field(init=False)
    # The wire forms of the messages so far, cached by the model.
    _memo: list[dict[str, Any]] = field(default_factory=list)
    _specs: tuple[ToolSpec, ...] = ()

    async def choose_model(self, backend: Backend) -> Model:
        """Choose the model of the run, which `call` calls, and return it."""
        choice = self.settings.model_choice
        model = await choice.get_async_model() if isinstance(backend, AsyncBackend) else choice.get_sync_model()
        limit_rate = self.tool_caller.request.limit_rate
        self._model = limit_rate(model) if limit_rate else model
        return self._model

    def get_deadline(self, step: CallModel) -> Cancellation:
        """Return the cancellation that ends a step: of the run's time limit, or of the run for a last turn.

        A last turn may exceed the time limit.
        """
        return self.tool_caller.deadline if step.with_tools else self.cancellation

    async def call(self, step: CallModel, backend: Backend) -> AsyncGenerator[Piece, None]:
        """Call the model, and yield the pieces of its response. The last one is the whole response.

        Raises:
            ModelError: There is no response.
            RunError: The model's stream ended without one.
            TimedOut: The time of the run is up.
            Cancelled: The run was cancelled.
            Stopped: An approver ends the run.
        """
        response: ModelResponse | None = None
        with self._limit_time(step) as cancellation:
            request = await self._make_request(step, backend, cancellation)
            names = [spec.name for spec in request.tools]
            logger.debug("Request to %r, tools %s, messages %s", self._model.name, names, request.messages)
            async with aclosing(self._send(request, backend, cancellation)) as pieces:
                async for piece in pieces:
                    if isinstance(piece, ModelResponse):
                        response = piece
                    else:
                        yield piece
            logger.debug("Response %r", response)
            if response is None:
                raise RunError(f"{self._model!r} ended its stream without a ModelResponse.")
            self.tool_caller.conversation.add_usage(response.usage)  # counted even if a hook fails
            for hook in self.settings.hooks.after_model:
                context = self.tool_caller.make_context(step.turn, cancellation)
                response = await apply_model_hook(hook, response, context, backend)

        yield response

    async def _make_request(self, step: CallModel, backend: Backend, cancellation: Cancellation) -> ModelRequest:
        caller = self.tool_caller
        if self.list_tools is not None and step.turn:
            caller.replace_tools(self.list_tools())
            self._specs = ()
        if len(self._specs) != len(caller.tools):
            self._specs = tuple([tool._spec for tool in caller.tools.values()])
        if step.with_tools:
            await caller.vet_provider_tools(self._specs, step.turn, backend)
        request = ModelRequest(
            messages=step.messages,
            tools=self._list_offered() if step.with_tools else (),
            output=self.output,
            choice=self.tool_choice,
            allowed=self.allowed,
            turn=step.turn,
            early=self.settings.early,
            memo=self._memo,
            cancellation=cancellation,
        )
        offered = request.tools
        hooks = self.settings.hooks.before_model
        for hook in hooks:
            request = await apply_model_hook(hook, request, caller.make_context(step.turn, cancellation), backend)
        if hooks:
            memo = self._memo if request.messages is step.messages else []
            request = replace(request, memo=memo, cancellation=cancellation)
            is_own = request.tools is offered and (request.choice, request.allowed) == (self.tool_choice, self.allowed)
            caller.offer(None if is_own else request)
        return request

    def _list_offered(self) -> tuple[ToolSpec, ...]:
        """List the tools without those of the provider that the gates do not allow."""
        refused = {name for name, may_offer in self.tool_caller.may_offer.items() if not may_offer}
        return tuple([spec for spec in self._specs if spec.name not in refused]) if refused else self._specs

    async def _send(
        self, request: ModelRequest, backend: Backend, cancellation: Cancellation
    ) -> AsyncGenerator[Piece, None]:
        """Send a request, and yield the pieces of the response.

        Raises:
            ModelError: There is no response.
            TimedOut: The time is up.
            Cancelled: The run was cancelled.
        """
        model = self._model
        try:
            if not self.tool_caller.request.streams:
                complete = partial(model.complete, request)
                yield await backend.call(
                    complete, is_async=model.is_async, cancellation=cancellation, in_caller_task=True
                )
                return
            source = iterate_until(backend, model.stream(request), is_async=model.is_async, cancellation=cancellation)
            async with aclosing(source) as pieces:
                async for piece in pieces:
                    yield piece
                    if cancellation:
                        break
            if cancellation:
                raise cancellation_error(cancellation)
        except (TimedOut, Cancelled, CancelledError) as error:  # the last: an async model cancelled itself
            if cancellation:
                raise
            raise ModelError(f"The model failed: {error!r}") from error
        except ModelError as error:
            if self.cancellation:  # being cancelled may be why
                raise Cancelled from error
            if error.cause is None:
                raise
            raise error.with_traceback(None) from error.__cause__  # the frames of the client are in `cause`

    @contextmanager
    def _limit_time(self, step: CallModel) -> Iterator[Cancellation]:
        """Limit the time of a call of the model and its hooks. A deadline costs a thread, so it is set only if needed.

        Raises:
            ModelError: The time of the turn is up.
        """
        limits = self.settings.limits
        deadline = self.get_deadline(step)
        in_background = self.tool_caller.request.in_background
        if not in_background and limits.max_seconds is None and limits.max_seconds_per_turn is None:
            yield deadline
            return

        has_extra_turn = limits.max_seconds is not None and not step.with_tools
        seconds = limits.max_seconds_per_turn or (LAST_SECONDS if has_extra_turn else ANY_SECONDS)
        with Cancellation(seconds, parent=deadline) as cancellation:
            try:
                yield cancellation
            except (TimedOut, Cancelled) as error:
                if cancellation.reason == CANCELLED:  # maybe by a hook
                    deadline.cancel()
                if deadline or not cancellation:
                    raise
                raise ModelError(
                    f"The model did not complete its answer within {seconds:g} s, including the hooks around it."
                ) from error
