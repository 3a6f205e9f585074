"""Invoke one tool without gates: parse raw arguments, call the handler, make the result.

A call that goes well stays in one function of its tool's own, which is made once; methods handle whatever else happens.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import cached_property, partial
from typing import Any, TypeAlias

from pydantic_core import ValidationError

from toolkit._concurrency.async_backend import AsyncBackend
from toolkit._concurrency.backend import LazyAwaitable, await_value, is_cancelling
from toolkit._concurrency.event_loop import private_loop
from toolkit._concurrency.threads import is_interrupt
from toolkit._context import ToolContext, current_context
from toolkit._messages import ToolResult, replace_surrogates
from toolkit._schema.arguments import MAX_TEXT, ArgumentParser, Parsed, RawArguments, refuse_length
from toolkit._tools.functions import Action, collect, collect_awaited
from toolkit._tools.library_values import LEFT_OUT
from toolkit._tools.results import (
    explain_exception,
    flatten,
    holds_parts,
    is_special,
    log_exception,
    make_writer,
    render,
    write_value,
)
from toolkit.errors import FatalError, InvalidArguments

# Writers of values without a serializer of their annotation; they may raise.
_QUICK: Mapping[type, Callable[[Any], str]] = {int: str, str: replace_surrogates}

Invoke: TypeAlias = Callable[[RawArguments, ToolContext[Any] | None], ToolResult]
AsyncInvoke: TypeAlias = Callable[[RawArguments, ToolContext[Any] | None], Coroutine[Any, Any, ToolResult]]

_new = tuple.__new__  # the constructor of a result takes twice the time
_OTHERS = ToolResult()[2:]  # the fields of a result after its value and its text


class Invocation:
    """Parses, executes and renders the calls of one tool. It is made at the first call.

    Attributes:
        parser: Parses raw arguments.
        is_async: Whether what the handler gives must be awaited.
        emits: Whether a call may emit updates before it ends.
        write: Writes a return value as text, by the return annotation; never raises.

    Raises:
        DefinitionError: A parameter cannot be described to a model.
    """

    def __init__(self, tool: Any) -> None:
        self._tool = tool
        handler = tool.handler
        self.parser = ArgumentParser(tool.name, handler.argument_schema)
        self.is_async = handler.is_async

        # The function, if it takes values by keyword as they are; and writers of values by type, see `_render`.
        self._function = handler.plain_function
        serializer = handler.interface.returns.serializer
        self.emits = self._function is None
        self.write = make_writer(serializer) if serializer else write_value
        self._writers: dict[type, Callable[[Any], str]] = {dict: self._write_dict}
        if serializer is None:
            self._writers.update(_QUICK)
        self.invoke = self._make_invoke()
        self.ainvoke = self._make_ainvoke()

    def _make_invoke(self) -> Invoke:
        function = self._function
        validate = self.parser.validate
        writers = self._writers

        def invoke(arguments: RawArguments, context: ToolContext[Any] | None) -> ToolResult:
            try:
                if len(arguments) > MAX_TEXT:
                    refuse_length(arguments)
                values = validate(arguments)  # type: ignore[arg-type]  # raises for what is not text
            except Exception as error:  # noqa: BLE001  pydantic-core's own, and those of the user's types
                parsed = self.parser.repair(arguments, error)
            else:
                if function is not None and context is None:
                    try:
                        value = function(**values)
                    except BaseException as error:  # noqa: BLE001  whatever a tool raises is its result
                        return self._log(self.fail(error))
                    try:
                        text = writers[type(value)](value)
                        return _new(ToolResult, (value, text) + _OTHERS)  # noqa: RUF005  unpacking takes longer
                    except Exception:  # noqa: BLE001  a type without a writer yet, or a value that needs the general one
                        return self._log(self._wait(self.settle(value)))
                parsed = values, (), ""

            return self._invoke_parsed(parsed, context)

        return invoke

    def _make_ainvoke(self) -> AsyncInvoke:
        validate = self.parser.validate
        writers = self._writers
        code = getattr(self._function, "__code__", None)
        function = self._function if code and code.co_flags & inspect.CO_COROUTINE else None

        async def ainvoke(arguments: RawArguments, context: ToolContext[Any] | None) -> ToolResult:
            try:
                if len(arguments) > MAX_TEXT:
                    refuse_length(arguments)
                values = validate(arguments)  # type: ignore[arg-type]  # as above
            except Exception as error:  # noqa: BLE001  as above
                parsed = self.parser.repair(arguments, error)
            else:
                if function is not None and context is None:
                    try:
                        value = await function(**values)
                    except BaseException as error:  # noqa: BLE001  as above
                        return self._log(self.fail(error, may_be_cancelled=True))
                    try:
                        text = writers[type(value)](value)
                        return _new(ToolResult, (value, text) + _OTHERS)  # noqa: RUF005  as above
                    except Exception:  # noqa: BLE001  as above
                        settled = self.settle(value)
                        return self._log(settled if isinstance(settled, ToolResult) else await settled)
                parsed = values, (), ""

            return await self._ainvoke_parsed(parsed, context)

        return ainvoke

    def _invoke_parsed(self, parsed: Parsed, context: ToolContext[Any] | None) -> ToolResult:
        if isinstance(parsed, InvalidArguments):
            return self._log(ToolResult.from_error(parsed))
        values, repairs, _ = parsed
        self._tool._check_deps(context)
        result = self._wait(self.execute(values, context))
        return self._log(result.replace(repairs=repairs) if repairs else result)

    async def _ainvoke_parsed(self, parsed: Parsed, context: ToolContext[Any] | None) -> ToolResult:
        if isinstance(parsed, InvalidArguments):
            return self._log(ToolResult.from_error(parsed))
        values, repairs, _ = parsed
        self._tool._check_deps(context)
        result = self.execute(values, context) if self.is_async else await self._execute_in_thread(values, context)
        whole = result if isinstance(result, ToolResult) else await result
        return self._log(whole.replace(repairs=repairs) if repairs else whole)

    def _wait(self, result: ToolResult | Awaitable[ToolResult]) -> ToolResult:
        """Wait for an awaitable result in the private event loop."""
        return result if isinstance(result, ToolResult) else private_loop.run(partial(await_value, result))

    def execute(
        self, values: dict[str, Any], context: ToolContext[Any] | None = None
    ) -> ToolResult | Awaitable[ToolResult]:
        """Call the handler with validated values, and return its result, or an awaitable of the result."""
        outer = current_context.get()
        if context is not None:
            current_context.set(context)
        try:
            function = self._function
            return self.settle(function(**values) if function else self._action(values, context), context)
        except BaseException as error:  # noqa: BLE001  whatever a tool raises is its result
            return self.fail(error)
        finally:
            current_context.set(outer)

    def settle(self, value: Any, context: ToolContext[Any] | None = None) -> ToolResult | Awaitable[ToolResult]:
        """Make the result of a handler's value, or an awaitable of the result if the value must be awaited."""
        try:
            whole = collect(value, context)
        except BaseException as error:  # noqa: BLE001  as in `execute`
            return self.fail(error)
        if hasattr(type(whole), "__await__"):
            return LazyAwaitable(partial(self._settle_async, whole, context))
        return self._render(whole)

    def fail(self, error: BaseException, *, may_be_cancelled: bool = False) -> ToolResult:
        """Make the result of an exception of this thread. An exception that ends the run, such as Ctrl-C, is raised."""
        if is_interrupt(error) or (may_be_cancelled and is_cancelling(error)):
            raise error
        return self.explain_error(error)

    def _log(self, result: ToolResult) -> ToolResult:
        """Log the exception of a failed call without a run, and return the result."""
        if result.exception is not None:
            log_exception(self._tool.name, result.exception, result.text)
        return result

    def explain_error(self, error: BaseException) -> ToolResult:
        """Make the result of an exception, which may come from another process or thread.

        Raises:
            FatalError: The exception is one, or a group that contains one.
        """
        for leaf in flatten(error):
            if isinstance(leaf, FatalError):
                raise leaf
        if isinstance(error, ValidationError) and self._makes_model:
            return ToolResult.from_error(self.parser.explain(error))
        return explain_exception(error, self._tool.name, self._tool.handler.interface.raises, self._tool.relay)

    @property
    def _makes_model(self) -> bool:
        """Whether the tool is a class of pydantic, whose own validators may refuse arguments."""
        function = getattr(self._tool.handler.function_handler, "function", None)
        return inspect.isclass(function) and hasattr(function, "__pydantic_validator__")

    def perform(self, values: dict[str, Any], context: ToolContext[Any] | None) -> Any:
        """Call the handler and return its value, without an event loop or a run, for a process or an executor."""
        outer = current_context.get()
        current_context.set(context)
        try:
            whole = collect(self._action(values, context), context)
            if not hasattr(type(whole), "__await__"):
                return whole
            import asyncio

            return asyncio.run(collect_awaited(whole, context))
        finally:
            current_context.set(outer)

    async def _settle_async(self, awaitable: Awaitable[Any], context: ToolContext[Any] | None) -> ToolResult:
        outer = current_context.get()
        if context is not None:
            current_context.set(context)
        try:
            value = await collect_awaited(awaitable, context)
        except BaseException as error:  # noqa: BLE001  as in `execute`
            return self.fail(error, may_be_cancelled=True)
        finally:
            current_context.set(outer)
        return self._render(value)

    def _write_dict(self, value: dict[Any, Any]) -> str:
        """Write a dict as text.

        Raises:
            TypeError: The dict contains pictures or results, so `render` has to write it.
        """
        text = self.write(value)
        may_hold = LEFT_OUT in text or '"media_type":"' in text or ",[],[]" in text  # images and files of a result
        if may_hold and holds_parts(value):  # looking at each item takes longer
            raise TypeError("an image is not text")
        return text

    def _render(self, value: Any) -> ToolResult:
        """Make the result of a value, and note how values of its type are written."""
        if not is_special(type(value)):
            self._writers[type(value)] = self.write
        return render(value, self.write)

    async def _execute_in_thread(
        self, values: dict[str, Any], context: ToolContext[Any] | None
    ) -> ToolResult | Awaitable[ToolResult]:
        async def execute() -> ToolResult | Awaitable[ToolResult]:
            return self.execute(values, context)

        return await AsyncBackend().call(execute, is_async=False)

    @cached_property
    def _action(self) -> Action:
        action: Action = self._tool.handler.make_action(self._tool)
        return action
