"""The way in for a model's words: what a tool has for those who carry its calls out."""

from __future__ import annotations

from collections.abc import Awaitable
from functools import cached_property
from typing import Any

from toolkit._context import ToolContext
from toolkit._messages import ToolResult
from toolkit._schema.arguments import MAX_TEXT, Words, refuse_doubtful, refuse_long
from toolkit.errors import InvalidArguments
from toolkit.handlers import Handler
from toolkit.invocation import Hot, Invocation

_new = tuple.__new__


class Invocable:
    """What has a name and a handler, and can be invoked by a model's words."""

    name: str
    handler: Handler
    relay: tuple[type[BaseException], ...]

    def invoke(self, words: Words = "{}", context: ToolContext[Any] | None = None) -> ToolResult:
        """Carry out a model's call, without gates; a tool's fault is a result, not an exception.

        Args:
            words: The arguments, as the model wrote them.
            context: What a parameter annotated ToolContext gets.

        Raises:
            FatalError: The tool raised it.
        """
        function, validate, colons, braces, writers = self._hot
        try:
            if len(words) > MAX_TEXT:
                refuse_long(words)
            values = validate(words)  # type: ignore[arg-type]  # what is no text is refused, and read again
            if words.count(":") != colons or words.count("{") != braces:  # type: ignore[union-attr, arg-type]  # as above
                refuse_doubtful(words)  # type: ignore[arg-type]  # as above
        except Exception as error:  # noqa: BLE001  read again, and explained there
            return self.invocation.again(words, context, error)
        if function is None:
            return self.invocation.finished(self.invocation.carry_out(values, context))
        try:
            value = function(**values)
        except BaseException as error:  # noqa: BLE001  whatever a tool raises is the answer to its call
            return self.invocation.failed(error)
        try:  # the constructor takes twice the time, on every call
            return _new(ToolResult, (value, writers[type(value)](value), None, None, None, None, (), (), ()))
        except Exception:  # noqa: BLE001  a value of another type, or one that cannot be written as others of its type
            return self.invocation.finished(self.invocation.settled(value))

    async def ainvoke(self, words: Words = "{}", context: ToolContext[Any] | None = None) -> ToolResult:
        """Carry out a model's call, without gates, in the running loop; a sync function gets a thread of its own."""
        return await self.invocation.ainvoke(words, context)

    def read(self, words: Words) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Turn a model's words into typed values, and say what had to be mended.

        Raises:
            InvalidArguments: They do not fit; the text is for the model.
        """
        return self.invocation.reader.read(words)

    def refusal(self, words: Words) -> InvalidArguments | None:
        """Tell why a model's words would be refused; None where they fit."""
        outcome = self.invocation.reader.outcome(words)
        return outcome if isinstance(outcome, InvalidArguments) else None

    def carry_out(
        self, values: dict[str, Any], context: ToolContext[Any] | None = None
    ) -> ToolResult | Awaitable[ToolResult]:
        """Call the handler with validated values; what comes back is a result, or a promise of one."""
        return self.invocation.carry_out(values, context)

    @cached_property
    def invocation(self) -> Invocation:
        """What carries calls out."""
        return Invocation(self.name, self.handler, self.relay)

    @cached_property
    def _hot(self) -> Hot:
        return self.invocation.hot
