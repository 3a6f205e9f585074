"""Python functions as tools: call one with the values of a call, and collect what it yields."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from toolkit._concurrency.cancellation import CANCELLED, note_effects
from toolkit._context import ToolContext
from toolkit._schema.scopes import collect_names
from toolkit._schema.signature import Signature
from toolkit._tools.options import DEFAULT_SETTINGS, ToolSettings
from toolkit.errors import Cancelled, DefinitionError

if TYPE_CHECKING:
    from toolkit._schema.function_schema import ParameterSchema, ReturnType

# Validated values and context in, the function's value out: or a promise of it, or values one by one.
Action: TypeAlias = Callable[[dict[str, Any], ToolContext[Any] | None], Any]

# A tool's generator is read to its end; one without end must not fill the memory. The size is of its texts and bytes.
MAX_ITEMS = 100_000
MAX_SIZE = 64 * 2**20


@dataclass(frozen=True)
class FunctionHandler:
    """Executes a tool by calling a Python function.

    Attributes:
        settings: The settings of the tool that the function was taken from. A tool that it is bound to inherits them.
        instance: The object whose method is called; None for a function.
    """

    activity: ClassVar[None] = None
    signature: Signature
    settings: ToolSettings = field(default=DEFAULT_SETTINGS, kw_only=True, compare=False)
    instance: Any = field(default=None, kw_only=True)

    @property
    def interface(self) -> FunctionHandler:
        """The declaration: the function's own signature and docstring."""
        return self

    @property
    def function_handler(self) -> FunctionHandler:
        """The handler of the function that executes the calls."""
        return self

    @property
    def origin(self) -> str:
        """The function's name, for error messages."""
        return self.signature.label

    @property
    def function(self) -> Callable[..., Any]:
        """The function that is called."""
        written = self.signature.callable
        return written if self.instance is None else written.__get__(self.instance)

    @property
    def description(self) -> str:
        """The docstring without its sections."""
        return self.signature.docstring.description

    @property
    def raises(self) -> Mapping[str, str]:
        """The docstring's `Raises:`."""
        return self.signature.docstring.raises

    @property
    def argument_schema(self) -> ParameterSchema:
        """The schema of its parameters."""
        return self.signature.argument_schema

    @property
    def returns(self) -> ReturnType:
        """The schema of its return annotation."""
        return self.signature.returns

    @property
    def plain_function(self) -> Callable[..., Any] | None:
        """The function, if its signature takes values by keyword only and it is not a generator. Otherwise None."""
        called = self._called
        yields = inspect.isgeneratorfunction(called) or inspect.isasyncgenfunction(called)
        return self.function if self.signature.has_plain_call and not yields else None

    @property
    def is_async(self) -> bool:
        """True if the function itself is a coroutine function or an async generator."""
        called = self._called
        return inspect.iscoroutinefunction(called) or inspect.isasyncgenfunction(called)

    @property
    def _called(self) -> Callable[..., Any]:
        function = self.function
        if inspect.isclass(function) or inspect.isroutine(function) or isinstance(function, partial):
            return function
        called: Callable[..., Any] = type(function).__call__
        return called

    def make_action(self, tool: Any) -> Action:  # noqa: ARG002  only declared tools are passed on
        """Return the function that arranges the values and calls the function."""
        function = self.function
        arrange = self.signature.arrange

        def call(values: dict[str, Any], context: ToolContext[Any] | None) -> Any:
            by_position, by_keyword = arrange(values, context or ToolContext(deps=None))
            return function(*by_position, **by_keyword)

        return call

    def in_class(self, owner: type | None = None) -> FunctionHandler:
        """Return the handler of the function as a method, whose first parameter is the instance."""
        if self.signature.is_method:
            return self
        return replace(self, signature=replace(self.signature, is_method=True, owner=owner))

    def bind(self, instance: Any) -> FunctionHandler:
        """Return the handler of the method on one instance. Instances share the schema, unless the class is generic."""
        signature = self.signature
        if getattr(signature.owner, "__parameters__", ()):
            kind = instance if isinstance(instance, type) else type(instance)
            signature = replace(signature, owner=inspect.getattr_static(instance, "__orig_class__", kind))
        return replace(self, signature=signature, instance=instance)


def make_function_handler(function: Any) -> FunctionHandler:
    """Make the handler of a function.

    Raises:
        DefinitionError: `function` cannot be called.
    """
    if not callable(function):
        raise DefinitionError(f"A tool needs a callable, not {function!r:.100}.")
    return FunctionHandler(Signature(function, collect_names(function)))


def collect(value: Any, context: ToolContext[Any] | None) -> Any:
    """Collect the values of a generator in a list, and emit each of them. Return any other value unchanged.

    For an async generator, return an awaitable of the list.

    Raises:
        Cancelled: The call was cancelled between two values.
    """
    kind = type(value)
    if hasattr(kind, "__next__"):
        return _collect_sync(value, context)
    if hasattr(kind, "__anext__"):
        from toolkit._concurrency.backend import LazyAwaitable  # slow to load

        return LazyAwaitable(partial(_collect_async, value, context))
    return value


async def collect_awaited(value: Any, context: ToolContext[Any] | None) -> Any:
    """Await a value until its outcome is no longer awaitable, and collect generators as `collect` does."""
    while hasattr(type(value), "__await__"):
        value = collect(await value, context)
    return value


def _measure(value: Any) -> int:
    return len(value) if isinstance(value, (str, bytes)) else 0


def _collect_sync(values: Iterator[Any], context: ToolContext[Any] | None) -> list[Any]:
    collected: list[Any] = []
    size = 0
    try:
        for value in islice(_emit_each(values, context) if context else values, MAX_ITEMS):
            collected.append(value)
            size += _measure(value)
            if size >= MAX_SIZE:
                break
        return collected
    finally:
        if inspect.isgenerator(values):
            values.close()


def _emit_each(values: Iterator[Any], context: ToolContext[Any]) -> Iterator[Any]:
    for value in values:
        context.update(value)
        if context.cancellation.reason == CANCELLED:  # at a deadline the wait for the call ends by itself
            raise note_effects(Cancelled(), has_started=True)
        yield value


async def _collect_async(values: AsyncIterator[Any], context: ToolContext[Any] | None) -> list[Any]:
    import asyncio

    collected: list[Any] = []
    size = 0
    try:
        async for value in values:
            collected.append(value)
            size += _measure(value)
            if context:
                context.update(value)
                if context.cancellation.reason == CANCELLED:  # raised here, unless the generator has caught it before
                    await asyncio.sleep(0)
            if len(collected) == MAX_ITEMS or size >= MAX_SIZE:
                break
    finally:
        if inspect.isasyncgen(values):
            await values.aclose()

    return collected
