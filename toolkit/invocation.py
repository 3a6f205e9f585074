"""One tool's way from a model's words to a result, without gates.

A call that goes well touches nothing but what is `hot`; the methods of `Invocation` meet whatever else may happen.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

from toolkit._concurrency.async_backend import AsyncDoor
from toolkit._concurrency.backend import awaited, is_cancelling, is_interrupt
from toolkit._concurrency.event_loop import private_loop
from toolkit._context import ToolContext
from toolkit._messages import ToolResult
from toolkit._schema.arguments import Reader, Words
from toolkit.errors import FatalError, InvalidArguments
from toolkit.handlers import Action, Handler, gathered
from toolkit.results import SPECIAL, explained, rendered, writer, writers

# What every call needs, in one look-up: the function, if it takes the values by keyword as they are; what makes values
# of a text; how many colons and braces a text has at least, see Reader; and how to write a value, by its type.
Hot: TypeAlias = tuple[
    Callable[..., Any] | None, Callable[[str], dict[str, Any]], int, int, dict[type, Callable[[Any], str]]
]


@dataclass(frozen=True, eq=False)
class Invocation:
    """Carries out the calls of one tool; made with its first call, and kept."""

    name: str
    handler: Handler
    relay: tuple[type[BaseException], ...]

    @cached_property
    def reader(self) -> Reader:
        """Makes values of words."""
        return Reader.of(self.name, self.handler.built)

    @cached_property
    def hot(self) -> Hot:
        """What every call needs."""
        reader, function = self.reader, self.handler.plain_function
        return function, reader.validate, reader.colons, reader.braces, writers(self.write)

    @cached_property
    def tells(self) -> bool:
        """Whether calls may have something to tell before they end."""
        return self.handler.plain_function is None or self.handler.is_generator

    @cached_property
    def write(self) -> Callable[[Any], str]:
        """Writes what the tool gives, as its return annotation says; what it makes never raises."""
        return writer(self.handler.returns.to_json)

    def again(self, words: Words, context: ToolContext[Any] | None, error: Exception) -> ToolResult:
        """Carry out a call whose words did not fit, where they can be mended."""
        outcome = self.reader.mended(words, error) if type(words) is str else self.reader.outcome(words)
        if isinstance(outcome, InvalidArguments):
            return ToolResult.failed(outcome)
        values, repairs = outcome
        result = self.finished(self.carry_out(values, context))
        return result._replace(repairs=repairs) if repairs else result

    def finished(self, result: ToolResult | Awaitable[ToolResult]) -> ToolResult:
        """Wait for a promise, in the private loop."""
        return result if isinstance(result, ToolResult) else private_loop.run(awaited(result))

    async def ainvoke(self, words: Words, context: ToolContext[Any] | None) -> ToolResult:
        """Carry out a call in the running loop; a sync function gets a thread of its own."""
        outcome = self.reader.outcome(words)
        if isinstance(outcome, InvalidArguments):
            return ToolResult.failed(outcome)
        values, repairs = outcome
        result = self.carry_out(values, context) if self.is_async else await self._in_thread(values, context)
        whole = result if isinstance(result, ToolResult) else await result
        return whole._replace(repairs=repairs) if repairs else whole

    def carry_out(
        self, values: dict[str, Any], context: ToolContext[Any] | None = None
    ) -> ToolResult | Awaitable[ToolResult]:
        """Call the handler with validated values; what comes back is a result, or a promise of one."""
        try:
            function = self.hot[0]
            value = function(**values) if function else self._action(values, context)
        except BaseException as error:  # noqa: BLE001  whatever a tool raises is the answer to its call
            return self.failed(error)
        return self.settled(value, context)

    def settled(self, value: Any, context: ToolContext[Any] | None = None) -> ToolResult | Awaitable[ToolResult]:
        """Make a result, or a promise of one, of what the handler gave."""
        try:
            whole = gathered(value, context)
        except BaseException as error:  # noqa: BLE001  as in `carry_out`
            return self.failed(error)
        if hasattr(type(whole), "__await__"):
            return self._later(whole)
        if whole is value and type(value) not in SPECIAL:
            self.hot[-1][type(value)] = self.write
        return rendered(whole, self.write)

    def failed(self, error: BaseException, *, may_be_the_runs: bool = False) -> ToolResult:
        """Make the result of what a tool raised; what is meant for the run leaves."""
        if is_interrupt(error) or (may_be_the_runs and is_cancelling(error)):
            raise error
        if (fatal := _fatal_in(error)) is not None:
            raise fatal
        return explained(error, self.name, self.handler.raises, self.relay)

    def perform(self, values: dict[str, Any], context: ToolContext[Any] | None) -> Any:
        """Call the handler where there is neither a loop nor a run: its value, whole, or what it raises."""
        whole = gathered(self._action(values, context), context)
        if not hasattr(type(whole), "__await__"):
            return whole
        import asyncio

        return asyncio.run(awaited(whole))

    async def _later(self, promise: Awaitable[Any]) -> ToolResult:
        try:
            value = await promise
        except BaseException as error:  # noqa: BLE001  as in `carry_out`
            return self.failed(error, may_be_the_runs=True)
        return rendered(value, self.write)

    async def _in_thread(
        self, values: dict[str, Any], context: ToolContext[Any] | None
    ) -> ToolResult | Awaitable[ToolResult]:
        async def begun() -> ToolResult | Awaitable[ToolResult]:
            return self.carry_out(values, context)

        return await AsyncDoor().call(begun, is_async=False)

    @cached_property
    def is_async(self) -> bool:
        """Whether what the handler gives must be awaited."""
        return self.handler.is_async

    @cached_property
    def _action(self) -> Action:
        return self.handler.prepared()


def _fatal_in(error: BaseException) -> FatalError | None:
    """Find what ends the run, in a group of errors too."""
    seen, left = set[int](), [error]
    while left:
        one = left.pop()
        if isinstance(one, FatalError):
            return one
        if id(one) not in seen:
            seen.add(id(one))
            left += getattr(one, "exceptions", ())
    return None
