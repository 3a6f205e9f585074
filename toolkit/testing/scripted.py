"""A model that answers by a script: no server, no network, no randomness."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from typing_extensions import Never, Self

from toolkit._dialects.base import split_meta
from toolkit._messages import IMPORTS, INSTANCE, OUTPUT_PATH, REASONING, ModelRequest, ModelResponse, ToolCall, Usage
from toolkit.errors import FatalError
from toolkit.events import ReasoningDelta, TextDelta
from toolkit.models import Piece

# A text is an answer; calls are a turn; a response is returned as it is; an exception is raised; a function is called
# with the request, and returns any of these.
ModelReply: TypeAlias = (
    "str | ToolCall | Sequence[ToolCall] | ModelResponse | BaseException | Callable[[ModelRequest], ModelReply]"
)


class ScriptError(AssertionError, FatalError):
    """The requests or calls of a test do not fit its script or cassette."""


def call(name: str, /, *unnamed: Never, **arguments: Any) -> ToolCall:
    """Make a call for a script: `call("add", a=1, b=2)`.

    Metadata such as `_reasoningForCall="why"` goes into the call's fields, not its arguments.

    Raises:
        TypeError: The name is not a string, or an argument is positional.
    """
    if unnamed:
        raise TypeError(f"call() takes arguments by name, such as call('add', a=1), not {unnamed[0]!r:.100}.")
    if not isinstance(name, str):
        raise TypeError(f"call() takes a tool's name, such as call('add', a=1), not {name!r:.100}.")
    own, metadata = split_meta(arguments, (REASONING, INSTANCE, OUTPUT_PATH, IMPORTS))
    return ToolCall(name=name, arguments=json.dumps(own, ensure_ascii=False), **metadata)


def split_response(response: ModelResponse) -> Iterator[Piece]:
    """Yield a response as a stream does: its reasoning, its text word by word, then the response itself."""
    if response.reasoning:
        yield ReasoningDelta(response.reasoning)
    yield from map(TextDelta, re.findall(r"\s*\S+|\s+", response.text))
    yield response


@dataclass
class ScriptedModel:
    """A model that answers by a script. Its `with` block raises `ScriptError` at its end if replies are unused.

    Args:
        script: Replies, one for each request, each a ModelReply; or a function from a request to its reply.
        name: The model's name, in results and events.
        is_async: Whether the model counts as one whose methods need an event loop.

    Attributes:
        requests: The requests received, in order.

    Examples:
        >>> from toolkit import Runner
        >>> with ScriptedModel([[call("len", value="four")], "4 letters"]) as model:
        ...     runner = Runner(model=model, max_turns=2)
        ...     runner.run("How long is 'four'?").output
        '4 letters'
    """

    # ModelReply types the parameters of a lambda; `object` is what mypy makes of a variable with texts and calls.
    script: Iterable[ModelReply | object] | Callable[[ModelRequest], ModelReply]
    name: str = field(default="scripted", kw_only=True)
    is_async: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        self.requests: list[ModelRequest] = []
        script = [self.script] if isinstance(self.script, str) else self.script
        self._unused = None if callable(script) else deque(script)
        self._length = len(self._unused or ())

    async def complete(self, request: ModelRequest) -> ModelResponse:
        """Return the next reply.

        Raises:
            ScriptError: The script has no reply left.
        """
        self.requests.append(replace(request, memo=[]))
        return self._make_response(self._next_reply(request), request)

    async def stream(self, request: ModelRequest) -> AsyncIterator[Piece]:
        """Yield the next reply: its reasoning, its text word by word, then the response itself.

        Raises:
            ScriptError: The script has no reply left.
        """
        for piece in split_response(await self.complete(request)):
            yield piece

    def check(self) -> None:
        """Check that every reply was used.

        Raises:
            ScriptError: Replies are left.
        """
        if self._unused:
            raise ScriptError(f"The script has unused replies: {[*self._unused]!r}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.check()

    def _next_reply(self, request: ModelRequest) -> object:
        if self._unused is None:
            return self.script  # a function, which is a reply
        try:
            return self._unused.popleft()  # in one step: runs on several threads may share the script
        except IndexError:
            raise ScriptError(
                f"No reply of the script is left ({self._length} used), and there is one more request: "
                f"{request.messages[-1]!r}"
            ) from None

    def _make_response(self, reply: object, request: ModelRequest) -> ModelResponse:
        if isinstance(reply, BaseException):
            raise reply
        if isinstance(reply, ModelResponse):
            return reply
        if isinstance(reply, str):
            return ModelResponse(text=reply, finish_reason="stop", usage=Usage(requests=1), model=self.name)
        if callable(reply) and not isinstance(reply, type):
            return self._make_response(reply(request), request)

        calls = (reply,) if isinstance(reply, ToolCall) else reply
        if not isinstance(calls, Sequence) or not all(isinstance(each, ToolCall) for each in calls):
            raise ScriptError(
                "A reply is text, calls such as [call('add', a=1)], a ModelResponse, an exception, or a function "
                f"that returns one of these, not {reply!r:.200}. A typed answer is a text with its JSON."
            )
        return ModelResponse(calls=tuple(calls), finish_reason="tool_calls", usage=Usage(requests=1), model=self.name)
