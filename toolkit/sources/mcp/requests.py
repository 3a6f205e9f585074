"""A server's requests to a run: for an answer of its model (sampling), or of a person (elicitation).

Each is executed as a call, with the gates and limits of the run. The run's model and approver may belong to the run's
event loop, so the call is executed there, not in the loop of the connection.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast

import mcp_types as types
from pydantic_core import to_json
from typing_extensions import Self, TypedDict

from toolkit._concurrency.async_backend import AsyncBackend
from toolkit._context import ToolContext
from toolkit._guards.hidden_text import escape_hidden
from toolkit._messages import CHARACTERS_PER_TOKEN, ToolCall, ToolResult
from toolkit._runner.runner import Runner
from toolkit._runner.tool_calls import ParentCall, find_dispatcher, parent_call
from toolkit._schema.declared_schema import ReturnDocument
from toolkit._tools.bindings import AnyTool
from toolkit._tools.decorator import tool
from toolkit._tools.tool import safe_name, with_origin
from toolkit.errors import DefinitionError, Failed, FatalError, InvalidArguments

logger: logging.Logger = logging.getLogger("toolkit")

MAX_QUESTIONS = 10  # in one call
REFUSED = "The request for an answer was refused."


class SampledMessage(TypedDict):
    """A message of a server's request."""

    role: Literal["user", "assistant"]
    text: str


def make_sampling_tool(server: str) -> AnyTool:
    """Make the tool that answers a server's requests for sampling; each request is a call of it."""

    @tool(name=safe_name(f"sampling_{server}"), title=f"Answer for {server}", approve=True)
    async def sample(messages: list[SampledMessage], context: ToolContext[Any], instructions: str = "") -> ToolResult:
        """Answer a request of an MCP server with the model of the run."""
        parent = cast("ParentCall", parent_call.get())
        runner = Runner(model=await parent.caller.settings.model_choice.get_async_model(), instructions=instructions)
        result = await runner.arun(
            messages=[{"role": each["role"], "content": each["text"]} for each in messages], deps=context.deps
        )
        if not result.output:
            raise Failed(f"The model gave no answer: {result.finish_reason}.")
        return ToolResult(result.output, details=result)

    return with_origin(sample, f"the MCP server {server!r}")


def make_question_tool(server: str) -> AnyTool:
    """Make the tool for a server's questions. The run's approver changes the argument `answer` of each call."""

    @tool(name=safe_name(f"elicitation_{server}"), title=f"Answer {server}", approve=True)
    def answer_question(question: str, form: dict[str, Any], answer: dict[str, Any]) -> Any:  # noqa: ARG001  for the approver
        """Answer a question of an MCP server, by values that match a JSON Schema."""
        try:
            return ReturnDocument(form).check(answer)
        except (ValueError, InvalidArguments, DefinitionError) as error:
            logger.warning(
                "The answer to a question of the MCP server %r does not match its form, so the question is declined. "
                "An approver approves the call with another `answer`, as `e` does in a Console.",
                server,
            )
            raise Failed(f"The answer does not match the form: {error}") from None

    return with_origin(answer_question, f"the MCP server {server!r}")


@dataclass(eq=False)
class ServerRequests:
    """Answers the requests that a server makes during one call of its tools. It is made in the run's event loop."""

    tools: tuple[AnyTool | None, AnyTool | None]  # those that answer them, for sampling and for elicitation
    context: ToolContext[Any]  # of the server's call
    # The result of the request at which an approver ended the run, or the exception that has ended it there.
    stopped: ToolResult | Exception | None = None
    _count: int = 0
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    _scope: contextvars.Context = field(default_factory=contextvars.copy_context)

    @classmethod
    def start(cls, tools: tuple[AnyTool | None, AnyTool | None], context: ToolContext[Any]) -> Self | None:
        """Prepare for requests during a call. Return None if they are refused."""
        return cls(tools, context) if any(tools) and parent_call.get() else None

    async def watch(self, work: Awaitable[ToolResult]) -> ToolResult:
        """Wait for the server's call. If an approver ended the run meanwhile, return the result of that request.

        Raises:
            FatalError: A hook, a middleware or the model has raised it at a request.
        """
        try:
            result = await work
        except Failed as refusal:
            result = ToolResult.from_error(refusal)
            if self.stopped is None:
                raise
        if isinstance(self.stopped, Exception):
            raise self.stopped
        return self.stopped or result

    async def sample(self, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
        """Answer a request with the run's model. Works in any event loop.

        Raises:
            Failed: The request is refused, or cannot be answered.
        """
        messages = [{"role": each.role, "text": _read_text(each)} for each in params.messages]
        result = await self._call(
            self.tools[0], messages=messages, instructions=escape_hidden(params.system_prompt or "")
        )
        text = f"{result.value}"
        max_characters = params.max_tokens * CHARACTERS_PER_TOKEN
        return types.CreateMessageResult(
            role="assistant",
            content=types.TextContent(text=text[:max_characters]),
            model=result.details.model,
            stop_reason="endTurn" if len(text) <= max_characters else "maxTokens",
        )

    async def ask(self, params: types.ElicitRequestFormParams) -> Mapping[str, Any]:
        """Answer a question with the run's approver. Works in any event loop.

        Raises:
            Failed: The question is refused.
        """
        result = await self._call(self.tools[1], question=params.message, form=params.requested_schema, answer={})
        answer: Mapping[str, Any] = result.value
        return answer

    async def _call(self, answer_tool: AnyTool | None, **arguments: Any) -> ToolResult:
        """Execute a request as a call of the run, in the run's event loop."""
        call = self._scope.run(asyncio.run_coroutine_threadsafe, self._dispatch(answer_tool, arguments), self._loop)
        return await asyncio.wrap_future(call)

    async def _dispatch(self, answer_tool: AnyTool | None, arguments: Mapping[str, Any]) -> ToolResult:
        """Execute a request as a call of the run. What ends the run is kept in `stopped`; the request is refused."""
        number = self._count
        run = find_dispatcher()
        self._count += 1
        if answer_tool is None or run is None or number >= MAX_QUESTIONS or self.stopped is not None:
            raise Failed(REFUSED)

        call = ToolCall(
            name=answer_tool.name, arguments=to_json(arguments).decode(), id=f"{self.context.call_id}/{number}"
        )
        dispatcher = replace(run, tools={answer_tool.name: answer_tool}, available=None)
        if dispatcher.count(answer_tool.name, number):
            raise Failed(REFUSED)

        try:
            result = await dispatcher.dispatch(call, self.context, AsyncBackend())
        except (FatalError, DefinitionError) as error:
            self.stopped = error
            raise Failed(REFUSED) from None

        if result.kind == "stopped":
            self.stopped = result
        if result.is_error:
            raise Failed(REFUSED) from result.exception
        return result


def _read_text(message: types.SamplingMessage) -> str:
    """Return the text of a message that has nothing else, with hidden characters escaped."""
    parts = [each.text if isinstance(each, types.TextContent) else None for each in message.content_as_list]
    if None in parts:
        raise Failed("Only text can be put to the model.")
    return escape_hidden("\n".join(filter(None, parts)))
