"""Models made of others: several as fallbacks, and one whose requests are limited in rate."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace

from toolkit._concurrency.backend import close_iterator
from toolkit._concurrency.cancellation import Cancellation
from toolkit._options import is_whole
from toolkit.errors import ModelError
from toolkit.models import Model, ModelRequest, ModelResponse, Piece

logger: logging.Logger = logging.getLogger("toolkit")

MINUTE = 60.0
# Seconds between two checks whether a waiting run was cancelled.
PAUSE = 0.05


@dataclass(frozen=True)
class FallbackModel:
    """A model that asks several models in order, until one answers.

    The next model is asked if one raises ModelError: its server refuses, fails, or gives no usable answer. If a part of
    an answer was already streamed, no other model is asked.

    Args:
        models: The models, such as OpenAIModel or ResponsesModel, all sync or all async.

    Raises:
        TypeError: There is none, one is not a model, or some are sync and others async.

    Examples:
        >>> from toolkit import ModelError, Runner
        >>> from toolkit.testing import ScriptedModel
        >>> def fail(request):
        ...     raise ModelError("overloaded")
        >>> models = [ScriptedModel(fail, name="large"), ScriptedModel(["Hello."], name="small")]
        >>> Runner(model=FallbackModel(models)).run("Hi!").output
        'Hello.'
    """

    models: Sequence[Model]

    def __post_init__(self) -> None:
        models = self.models
        is_list = isinstance(models, Sequence) and not isinstance(models, str)
        if not is_list or not models or not all(isinstance(each, Model) for each in models):
            raise TypeError(
                f"models={models!r:.100} is not a list of one or more models, such as [OpenAIModel(client, 'name')]."
            )
        if len({each.is_async for each in models}) > 1:
            raise TypeError("Some of the models are async and others are not: give all the same kind of client.")

    @property
    def name(self) -> str:
        """The names of the models, in order."""
        return ", else ".join(each.name for each in self.models)

    @property
    def is_async(self) -> bool:
        """True if the models need an event loop."""
        return self.models[0].is_async

    async def complete(self, request: ModelRequest) -> ModelResponse:
        """Answer a request.

        Raises:
            ModelError: No model answered; the error is that of the last one.
        """
        for number, model in enumerate(self.models):
            try:
                return await model.complete(self._make_request(request, number))
            except ModelError as error:  # noqa: PERF203  a request takes much longer
                self._pass_on(error, request, number)
        raise AssertionError  # unreachable: `_pass_on` raises the error of the last model

    async def stream(self, request: ModelRequest) -> AsyncIterator[Piece]:
        """Answer a request in pieces; the last one is the whole answer.

        Raises:
            ModelError: No model answered; or the answer of one failed after its first piece.
        """
        for number, model in enumerate(self.models):
            has_started = False
            pieces = model.stream(self._make_request(request, number))
            try:
                async for piece in pieces:
                    has_started = True
                    yield piece
            except ModelError as error:
                if has_started:
                    raise
                self._pass_on(error, request, number)
            else:
                return
            finally:
                await close_iterator(pieces)

    def _make_request(self, request: ModelRequest, number: int) -> ModelRequest:
        """Return the request for a model; only the first model uses the cached wire forms of messages."""
        return replace(request, memo=[]) if number else request

    def _pass_on(self, error: ModelError, request: ModelRequest, number: int) -> None:
        """Log the error of a model before the next one is asked; raise it if there is none or the run was cancelled."""
        if request.cancellation or number == len(self.models) - 1:
            raise error
        logger.warning("%s failed, so %s is asked: %s", self.models[number].name, self.models[number + 1].name, error)


@dataclass(frozen=True)
class RateLimitedModel:
    """A model whose requests wait until they are within a rate, which all runs and threads that use it share.

    Args:
        model: The model.
        rpm: Requests per minute: the most that start within a minute.
        tpm: Tokens per minute, input and output. While the answers of the last minute have more, requests wait. The
            tokens of a request are known only after its answer.

    Raises:
        TypeError: `model` is not a model.
        ValueError: A rate is not a whole number above 0, or no rate is given.
    """

    model: Model
    rpm: int | None = None
    tpm: int | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False, compare=False)
    _starts: deque[float] = field(default_factory=deque, init=False, repr=False, compare=False)
    _tokens: deque[tuple[float, int]] = field(default_factory=deque, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        rates = [rate for rate in (self.rpm, self.tpm) if rate is not None]
        if not isinstance(self.model, Model):
            raise TypeError(f"model={self.model!r:.100} is not a model, such as OpenAIModel(client, 'name').")
        if not rates or not all(is_whole(rate, 1) for rate in rates):
            raise ValueError(f"rpm={self.rpm!r}, tpm={self.tpm!r}: give one or both, whole numbers of at least 1.")

    @property
    def name(self) -> str:
        """The model's name."""
        return self.model.name

    @property
    def is_async(self) -> bool:
        """True if the model needs an event loop."""
        return self.model.is_async

    async def complete(self, request: ModelRequest) -> ModelResponse:
        """Answer a request when it is within the rate.

        Raises:
            ModelError: There is no answer; or the run was cancelled while the request waited.
        """
        await self._wait_for_turn(request.cancellation)
        response = await self.model.complete(request)
        self._count(response)
        return response

    async def stream(self, request: ModelRequest) -> AsyncIterator[Piece]:
        """Answer a request in pieces when it is within the rate.

        Raises:
            ModelError: As for `complete`.
        """
        await self._wait_for_turn(request.cancellation)
        pieces = self.model.stream(request)
        try:
            async for piece in pieces:
                if isinstance(piece, ModelResponse):
                    self._count(piece)
                yield piece
        finally:
            await close_iterator(pieces)

    async def _wait_for_turn(self, cancellation: Cancellation | None) -> None:
        while (seconds := self._take_turn()) > 0:
            if cancellation:
                raise ModelError("The run ended while its request waited for the rate limit.")
            pause = min(seconds, PAUSE)
            await asyncio.sleep(pause) if self.is_async else time.sleep(pause)  # noqa: ASYNC251  a sync model has no loop

    def _take_turn(self) -> float:
        """Count a request that may start now, and return 0; otherwise return the seconds to wait at least."""
        with self._lock:
            now = time.monotonic()
            while self._starts and self._starts[0] <= now - MINUTE:
                self._starts.popleft()
            while self._tokens and self._tokens[0][0] <= now - MINUTE:
                self._tokens.popleft()
            if self.rpm is not None and len(self._starts) >= self.rpm:
                return self._starts[0] + MINUTE - now
            if self.tpm is not None:
                used = sum(tokens for _, tokens in self._tokens)
                if used >= self.tpm:
                    return self._tokens[0][0] + MINUTE - now
            self._starts.append(now)
            return 0.0

    def _count(self, response: ModelResponse) -> None:
        usage = response.usage
        with self._lock:
            self._tokens.append((time.monotonic(), usage.total_tokens))
