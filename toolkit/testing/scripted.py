"""A model that says what the script says: no server, no network, no chance."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, TypeAlias

from typing_extensions import Self

from toolkit._messages import (
    IMPORTS,
    INSTANCE,
    OUTPUT_PATH,
    REASONING,
    ModelRequest,
    ModelResponse,
    ToolCall,
    Usage,
    split_meta,
)
from toolkit.events import TextDelta
from toolkit.models import Piece
from toolkit.testing.errors import ScriptError

# A text answers, calls are made, a response is given as it is, an exception is raised, a function is asked.
ModelReply: TypeAlias = (
    "str | ToolCall | Sequence[ToolCall] | ModelResponse | BaseException | Callable[[ModelRequest], ModelReply]"
)


def call(name: str, /, **arguments: Any) -> ToolCall:
    """Make a call for a script: `call("add", a=1, b=2)`; `_reasoningForCall="why"` and the like become its fields."""
    own, said = split_meta(arguments, (REASONING, INSTANCE, OUTPUT_PATH, IMPORTS))
    return ToolCall(name=name, arguments=json.dumps(own, ensure_ascii=False), **said)


@dataclass
class ScriptedModel:
    """Answers by a script; as a context manager it also refuses to leave replies unused.

    Args:
        script: Replies, one for each request; or a function that makes one of each request.

    Attributes:
        requests: What the model was asked, in order.

    Example:
        >>> from toolkit import Runner
        >>> with ScriptedModel([[call("len", value="four")], "4 letters"]) as model:
        ...     runner = Runner(model=model, max_turns=2)
        ...     runner.run("How long is 'four'?").output
        '4 letters'
    """

    script: Iterable[ModelReply] | Callable[[ModelRequest], ModelReply]
    name: str = "scripted"
    is_async: bool = False

    def __post_init__(self) -> None:
        self.requests: list[ModelRequest] = []
        script = [self.script] if isinstance(self.script, str) else self.script
        self._replies = None if callable(script) else list(script)
        self._used = 0

    async def complete(self, request: ModelRequest) -> ModelResponse:
        """Give the next reply.

        Raises:
            ScriptError: There is none left.
        """
        self.requests.append(replace(request, memo=[]))
        return self._response(self._next(request), request)

    async def stream(self, request: ModelRequest) -> AsyncIterator[Piece]:
        """Give the next reply, its text word by word.

        Raises:
            ScriptError: There is none left.
        """
        response = await self.complete(request)
        for word in re.findall(r"\s*\S+|\s+", response.text):
            yield TextDelta(word)
        yield response

    def check(self) -> None:
        """Make sure that every reply was asked for.

        Raises:
            ScriptError: Replies are left.
        """
        left = [] if self._replies is None else self._replies[self._used :]
        if left:
            raise ScriptError(f"The run has ended, but the script has more: {left!r}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.check()

    def _next(self, request: ModelRequest) -> ModelReply:
        if self._replies is None:
            return self.script  # type: ignore[return-value]  # the script is a function, which is a reply
        if self._used == len(self._replies):
            raise ScriptError(
                f"The script has {self._used} replies, and the model is asked once more: {request.messages[-1]!r}"
            )
        self._used += 1
        return self._replies[self._used - 1]

    def _response(self, reply: ModelReply, request: ModelRequest) -> ModelResponse:
        if isinstance(reply, BaseException):
            raise reply
        if isinstance(reply, ModelResponse):
            return reply
        if isinstance(reply, str):
            return ModelResponse(text=reply, finish_reason="stop", usage=Usage(requests=1), model=self.name)
        if callable(reply):
            return self._response(reply(request), request)
        calls = (reply,) if isinstance(reply, ToolCall) else tuple(reply)
        return ModelResponse(calls=calls, finish_reason="tool_calls", usage=Usage(requests=1), model=self.name)
