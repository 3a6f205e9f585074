"""One call, from the model's words to a result.

    resolve -> validate -> authorize -> approve -> invoke -> render

Middleware wraps the whole line. A step that refuses raises a ToolError, which is the call's result; only FatalError and
cancellation leave.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from concurrent.futures import CancelledError
from dataclasses import dataclass, replace
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any, cast

from toolkit.approval import ApprovalRequest, Approver, approve
from toolkit.authorization import Authorizer, authorize
from toolkit.context import ToolContext
from toolkit.doors import Door, awaited
from toolkit.errors import Cancelled, DefinitionError, Failed, FatalError, ToolError, UnknownTool
from toolkit.faults import close_to
from toolkit.messages import ToolCall, ToolResult
from toolkit.middleware import Middleware, Next, compose
from toolkit.results import explained
from toolkit.tools import Tool

logger = logging.getLogger("toolkit")


@dataclass(frozen=True, kw_only=True)
class Dispatcher:
    """Knows the tools by name, and the gates before them."""

    tools: Mapping[str, Tool[..., Any]]
    authorizer: Authorizer | None = None
    approver: Approver | None = None
    middleware: tuple[Middleware, ...] = ()

    async def dispatch(self, call: ToolCall, context: ToolContext[Any], door: Door) -> ToolResult:
        """Carry one call out; whatever a tool or a middleware does, there is a result.

        Raises:
            FatalError: A tool raised it.
            DefinitionError: A tool cannot be described to a model.
        """
        line: Next = partial(self._line, context=replace(context, tool_name=call.name), door=door)
        try:
            result = _checked(await compose(self.middleware, line)(call))
        except ToolError as refusal:
            return explained(refusal, call.name, (), ())
        except (FatalError, DefinitionError):
            raise
        except CancelledError as error:  # the turn was left; nobody reads this result
            return ToolResult.failed(Cancelled(), error)
        except Exception as error:
            logger.exception("A middleware raised; the call %s gets an error.", call.name)
            return ToolResult.failed(Failed(f"{call.name[:100]} was not carried out."), error)
        _log(call, result)
        return result

    async def _line(self, call: ToolCall, context: ToolContext[Any], door: Door) -> ToolResult:
        tool = self._resolved(call)
        values, repairs = tool.read(call.arguments)
        shown = MappingProxyType(values)  # what a gate sees is what runs
        await authorize(self.authorizer, tool, shown, context, door)
        await approve(self.approver, ApprovalRequest(tool, shown, context), door)
        result = await invoke(tool, values, context, door)
        return result._replace(repairs=repairs) if repairs else result

    def _resolved(self, call: ToolCall) -> Tool[..., Any]:
        if not call.name:
            raise UnknownTool(f"the call names none{close_to('', self._names)}")
        tool = self.tools.get(call.name)
        if tool is None:
            raise UnknownTool(f"{call.name[:100]!r}{close_to(call.name, self._names)}")
        return tool

    @cached_property
    def _names(self) -> tuple[str, ...]:
        return tuple(self.tools)


def _checked(result: object) -> ToolResult:
    if isinstance(result, ToolResult):
        return result
    raise TypeError(f"a middleware answers with a ToolResult, not {result!r}; does it return what the line gave it?")


def _log(call: ToolCall, result: ToolResult) -> None:
    if result.exception and not isinstance(result.exception, ToolError):
        logger.warning("Tool %s raised", call.name, exc_info=result.exception)


async def invoke(tool: Tool[..., Any], values: dict[str, Any], context: ToolContext[Any], door: Door) -> ToolResult:
    """Let a tool do its work, where its kind belongs: on this thread, on another, or in an event loop."""

    async def begin() -> Any:
        return tool.carry_out(values, context)

    result = await (begin() if tool.is_async else door.call(begin, is_async=False))
    if isinstance(result, ToolResult):
        return result

    return cast("ToolResult", await door.call(lambda: awaited(result), is_async=True))
