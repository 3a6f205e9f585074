"""Ways to carry a tool out. Every handler has one signature: validated values and context in, value out."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Any, Protocol, TypeAlias

from toolkit._concurrency.cancellation import CANCELLED
from toolkit._context import ToolContext
from toolkit._schema.parameters import Built
from toolkit._schema.signature import Returns, Signature
from toolkit.errors import Cancelled
from toolkit.interfaces import Interface

# Validated values and context in, the function's value out: or a promise of it, or values one by one.
Action: TypeAlias = Callable[[dict[str, Any], ToolContext[Any] | None], Any]

# A tool's generator is read to its end; one without end must not fill the memory.
MAX_ITEMS = 100_000


class Handler(Interface, Protocol):
    """What a tool carries to be carried out."""

    @property
    def interface(self) -> Interface:
        """The same, apart from what carries it out."""
        ...

    @property
    def activity(self) -> str | None:
        """The name of what it does in a toolbox; empty where the model does it; None where nothing was said."""
        ...

    @property
    def is_async(self) -> bool:
        """Whether what it gives must be awaited."""
        ...

    @property
    def is_generator(self) -> bool:
        """Whether it gives its values one by one."""
        ...

    @property
    def plain_function(self) -> Callable[..., Any] | None:
        """What takes the values by keyword as they are, where there is such a function."""
        ...

    def prepared(self) -> Action:
        """Make what carries a call out; it is kept and called many times."""
        ...


@dataclass(frozen=True)
class Function:
    """Carries a tool out by calling a Python function."""

    signature: Signature
    activity: None = field(default=None, init=False)

    @property
    def interface(self) -> Interface:
        """The function's own words and types."""
        return self

    @property
    def origin(self) -> str:
        """The function's name, for messages to its developer."""
        return self.signature.label

    @property
    def function(self) -> Callable[..., Any]:
        """What is called."""
        return self.signature.callable

    @property
    def parameter_names(self) -> Collection[str]:
        """Names of the parameters that the run does not supply."""
        return [p.name for p in self.signature.parameters if not p.injected]

    @property
    def description(self) -> str:
        """The docstring without its sections."""
        return self.signature.docstring.description

    @property
    def raises(self) -> Mapping[str, str]:
        """The docstring's `Raises:`."""
        return self.signature.docstring.raises

    @property
    def built(self) -> Built:
        """What the signature accepts."""
        return self.signature.built

    @property
    def returns(self) -> Returns:
        """What the return annotation says."""
        return self.signature.returns

    @property
    def plain_function(self) -> Callable[..., Any] | None:
        """The function, where the signature asks for nothing but values by keyword."""
        return self.function if self.signature.has_plain_call else None

    @property
    def is_async(self) -> bool:
        """Whether the function is a coroutine function or an async generator; what it wraps may be another kind."""
        called = self._called
        return inspect.iscoroutinefunction(called) or inspect.isasyncgenfunction(called)

    @property
    def is_generator(self) -> bool:
        """Whether the function gives its values one by one."""
        called = self._called
        return inspect.isgeneratorfunction(called) or inspect.isasyncgenfunction(called)

    @property
    def _called(self) -> Callable[..., Any]:
        function = self.function
        if inspect.isclass(function) or inspect.isroutine(function) or isinstance(function, partial):
            return function
        called: Callable[..., Any] = type(function).__call__
        return called

    def prepared(self) -> Action:
        """Make the call of the function; a generator is read to its end."""
        function, arrange = self.function, self.signature.arrange

        def arranged(values: dict[str, Any], context: ToolContext[Any] | None) -> Any:
            by_position, by_keyword = arrange(values, context or ToolContext(deps=None))
            return function(*by_position, **by_keyword)

        return arranged

    def in_class(self, owner: type | None = None) -> Function:
        """Make the handler of the same function as a method: its first parameter is the instance."""
        if self.signature.is_method:
            return self
        return replace(self, signature=replace(self.signature, is_method=True, owner=owner))

    def bind(self, instance: Any) -> BoundFunction:
        """Make the handler of the same method on one instance; schema and docstring are shared, not built again."""
        return BoundFunction(self.signature, instance)


@dataclass(frozen=True)
class BoundFunction(Function):
    """Carries a tool out by calling a method of one instance."""

    instance: Any

    @property
    def function(self) -> Callable[..., Any]:
        """What is called."""
        bound: Callable[..., Any] = self.signature.callable.__get__(self.instance)
        return bound


def gathered(value: Any, context: ToolContext[Any] | None = None) -> Any:
    """Read what gives its values one by one to its end: as a list, or as a promise of one.

    Args:
        value: What a function gave; anything else is given back as it is.
        context: Is told each value as it comes.

    Raises:
        Cancelled: The call was called off between two values.
    """
    kind = type(value)
    if hasattr(kind, "__next__"):
        return _listed(value, context)
    return _collected(value, context) if hasattr(kind, "__anext__") else value


def _listed(values: Iterator[Any], context: ToolContext[Any] | None) -> list[Any]:
    try:
        return list(islice(_told(values, context) if context else values, MAX_ITEMS))
    finally:
        if inspect.isgenerator(values):
            values.close()


def _told(values: Iterator[Any], context: ToolContext[Any]) -> Iterator[Any]:
    for value in values:
        _tell(value, context)
        yield value


def _tell(value: Any, context: ToolContext[Any]) -> None:
    context.update(value)
    if context.cancellation.reason == CANCELLED:  # who waits for a deadline leaves at its end
        raise Cancelled


async def _collected(values: AsyncIterator[Any], context: ToolContext[Any] | None) -> list[Any]:
    collected: list[Any] = []
    try:
        async for value in values:
            if context:
                _tell(value, context)
            collected.append(value)
            if len(collected) == MAX_ITEMS:
                break
    finally:
        if inspect.isasyncgen(values):
            await values.aclose()
    return collected
