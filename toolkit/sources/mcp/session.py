"""One connection to a server, opened, held and closed by one task of the package's private event loop."""

from __future__ import annotations

import asyncio
import atexit
import contextvars
import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

import anyio
import mcp_types as types
from mcp import Client, MCPError
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp_types import methods
from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json

import toolkit
from toolkit._concurrency.async_backend import AsyncBackend
from toolkit._concurrency.backend import call_function
from toolkit._concurrency.event_loop import private_loop
from toolkit._concurrency.tasks import call_soon
from toolkit._context import ToolContext
from toolkit._guards.hidden_text import escape_hidden
from toolkit._schema.error_messages import shorten
from toolkit.errors import Failed, ToolkitError
from toolkit.sources.mcp.requests import MAX_QUESTIONS, ServerRequests
from toolkit.sources.mcp.transport import Address, Streams
from toolkit.sources.remote import find_leaf, make_reporter

logger: logging.Logger = logging.getLogger("toolkit")

MAX_PAGES = 100
MAX_TOOLS = 10_000  # of one server; prompts and resources, too
MAX_PARTS = 10_000  # texts, images and files of a result
LEFT_OUT = f"[The result has more than {MAX_PARTS:,} parts. The others are left out.]"
MAX_PAGE = 2_000  # characters of an address in a warning, with the server's reason
DEBOUNCE = 0.2  # seconds in which several changes of the tools count as one
# Seconds for a server to end; then its processes are killed, which takes up to four more.
GRACE = 8.0

# A function of a message and a JSON Schema of the answer; returns the answer, or None to decline.
Elicit = Callable[[str, Mapping[str, Any]], "Mapping[str, Any] | Awaitable[Mapping[str, Any] | None] | None"]
Answer: TypeAdapter[Any] = TypeAdapter(types.CallToolResult | types.InputRequiredResult)
# Texts by which the mcp package reports a lost connection. Its code, -32000, is used for other errors by many servers.
CLOSED = "Connection closed"
STREAM_CLOSED = "SSE stream "
# Its texts for an HTTP status that is an error, and for 404 to a request of a session.
STATUS_ERRORS = ("Server returned an error response", "Not Found")
EXPIRED = "Session terminated"


class Session:
    """A connection to a server. It is made and used in the private loop.

    One task opens, holds and closes it, since cancel scopes belong to one task.

    Args:
        address: Where the server is.
        timeout: Seconds for each answer.
        elicit: Answers the server's questions, or True for the run's approver; without it they are refused.
        may_sample: Whether the server may ask for answers of a model.
        on_tools: Receives the server's tools, at the start and whenever they have changed.
        on_fault: Receives the name and the fault of each malformed tool in a listing.
    """

    def __init__(
        self,
        address: Address,
        timeout: float,
        *,
        elicit: Elicit | bool | None,
        may_sample: bool,
        on_tools: Callable[[list[types.Tool]], object],
        on_fault: Callable[[object, str], object],
    ) -> None:
        self._address = address
        self._timeout = timeout
        self._elicit = elicit
        self._may_sample = may_sample
        self._on_tools = on_tools
        self._on_fault = on_fault
        self._calls: dict[Callable[[str], None], ServerRequests | None] = {}  # by the function that reports progress
        self._questions = 0  # of a server of an older version of the protocol, since the last call began
        self._loop = asyncio.get_running_loop()
        self._client: asyncio.Future[Client] = self._loop.create_future()
        self._closing = asyncio.Event()
        self._changed = asyncio.Event()
        self._scope = anyio.CancelScope()
        self._owner: asyncio.Task[None] | None = None
        self._streams: Streams | None = None
        self._process = os.getpid()

    @property
    def client(self) -> Client:
        """The client of the mcp package, once it has connected."""
        return self._client.result()

    @property
    def has_ended(self) -> bool:
        """True if no call can be made any more."""
        is_over = self._closing.is_set() or self._owner is None or self._owner.done()
        return is_over or (self._streams is not None and self._streams.has_ended)

    def is_lost(self, error: MCPError) -> bool:
        """True if an error of a call says that its connection is gone. A server may answer with the same code."""
        is_unsent = isinstance(error.__context__, (anyio.BrokenResourceError, anyio.ClosedResourceError))
        is_closed = error.message.startswith(STREAM_CLOSED) or (error.message == CLOSED and self.has_ended)
        return error.code == types.CONNECTION_CLOSED and (is_unsent or is_closed)

    def has_expired(self, error: Exception) -> bool:
        """True if an error says that the server has forgotten this session, and so has not executed the request."""
        return self.has_ended and isinstance(error, MCPError) and error.message == EXPIRED

    @property
    def fault(self) -> str:
        """Why this side ended the connection, or "" if it did not."""
        return self._streams.fault if self._streams else ""

    async def start(self) -> None:
        """Connect and list the tools.

        Raises:
            Exception: The server cannot be reached; there may be several exceptions in a group.
        """
        self._owner = contextvars.Context().run(self._loop.create_task, self._own())  # not in one call's context
        atexit.register(self._close_at_exit)
        await asyncio.shield(self._client)
        self._on_tools(await self.list_all("tools"))

    async def _own(self) -> None:
        """Hold the connection until it is closed. `_client` gets the client, or the error if there is none."""
        try:
            with self._scope:
                async with self._address.open(self._timeout) as server:
                    if isinstance(server, Streams):
                        self._streams = server
                        server.on_result = self._limit_result
                    client = Client(
                        server,
                        read_timeout_seconds=self._timeout,
                        client_info=types.Implementation(name="toolkit", version=toolkit.__version__),
                        elicitation_callback=self._on_question if self._elicit else None,
                        sampling_callback=self._on_sampling if self._may_sample else None,
                        logging_callback=self._on_log,
                        log_level="info",
                        message_handler=self._on_message,
                        cache=None,
                    )
                    async with client, anyio.create_task_group() as group:
                        self._client.set_result(client)
                        group.start_soon(self._subscribe, client)
                        group.start_soon(self._list_again)
                        await self._closing.wait()
                        group.cancel_scope.cancel()
        except Exception as error:
            if self._client.done():
                logger.debug("The connection to the MCP server %s ended.", self._address, exc_info=error)
            else:
                self._client.set_exception(self._explain(error))
        finally:
            self._client.cancel()
            atexit.unregister(self._close_at_exit)

    def _explain(self, error: Exception) -> BaseException:
        """Return the error of a connection that failed, with details from the streams if they have some."""
        leaf = find_leaf(error)
        if not isinstance(leaf, MCPError) or self._streams is None:
            return leaf
        if self._address.is_command and leaf.code == types.CONNECTION_CLOSED:
            return Failed(f"{self.fault or 'the command ended at once; see its standard error'}.")
        return self.add_status(leaf)

    def add_status(self, error: MCPError) -> MCPError:
        """Return an error that only says that there was an HTTP error with the status, and any other as it is."""
        if error.message not in STATUS_ERRORS or self._streams is None or self._streams.status is None:
            return error
        return MCPError(error.code, f"its last answer had the HTTP status {self._streams.status}.", error.data)

    def _limit_result(self, result: dict[str, Any]) -> None:
        """Leave out parts of a result beyond `MAX_PARTS`, and the malformed tools of a listing.

        The mcp package would refuse the listing as a whole, and describe every malformed part.
        """
        if isinstance(content := result.get("content"), list) and len(content) > MAX_PARTS:
            result["content"] = [*content[:MAX_PARTS], {"type": "text", "text": LEFT_OUT}]
        if self._client.done() and isinstance(tools := result.get("tools"), list):
            self._warn_of_rest("tools", is_more=len(tools) > MAX_TOOLS)
            result["tools"] = [each for each in tools[:MAX_TOOLS] if not self._report_fault(result, each)]

    def _report_fault(self, result: Mapping[str, Any], listed: Any) -> bool:
        """Return whether something is wrong with a listed tool, and report it; a schema of null is one without keys."""
        if isinstance(listed, dict) and listed.get("inputSchema", "") is None:
            listed["inputSchema"] = {"type": "object"}
        try:
            methods.parse_server_result("tools/list", self.client.protocol_version, {**result, "tools": [listed]})
        except ValidationError as error:
            for each in error.errors(include_url=False, include_input=False):
                if "tools" in each["loc"]:
                    location = ".".join(map(str, each["loc"][each["loc"].index("tools") + 2 :]))
                    name = listed.get("name") if isinstance(listed, dict) else listed
                    self._on_fault(name, f"{location or 'the tool'}: {each['msg']}.")
                    return True
        return False

    async def list_all(self, *kinds: str) -> list[Any]:
        """List the "tools", "prompts", "resources" or "resource_templates" of the server, at most `MAX_TOOLS` of each.

        A server that has none of a kind might not know the method. The list is empty then.
        """
        return [each for kind in kinds for each in await self._list(kind)]

    async def _list(self, kind: str) -> list[Any]:
        """List one kind, page by page. Of a longer list, the rest is left out with a warning."""
        client = self.client
        listed = list[Any]()
        cursor = None

        for _ in range(MAX_PAGES):
            try:
                page = await getattr(client, f"list_{kind}")(cursor=cursor)
            except MCPError as error:
                if error.code == types.METHOD_NOT_FOUND and not getattr(client.server_capabilities, kind, None):
                    return []
                raise
            listed += getattr(page, kind)
            cursor = page.next_cursor
            if cursor is None or len(listed) > MAX_TOOLS:
                break

        self._warn_of_rest(kind, is_more=cursor is not None or len(listed) > MAX_TOOLS)
        return listed[:MAX_TOOLS]

    def _warn_of_rest(self, kind: str, *, is_more: bool) -> None:
        if is_more:
            logger.warning("The MCP server %s has too many %s; the last are left out.", self._address, kind)

    async def call(
        self, name: str, arguments: dict[str, Any], context: ToolContext[Any], requests: ServerRequests | None
    ) -> types.CallToolResult:
        """Call a tool. Its updates and log messages become progress of the call.

        `Client.call_tool` is not used, since it validates results without a limit.

        Raises:
            MCPError: The server refused the call, did not answer in time, or is gone.
            ValueError: Its answer is not a result.
            Failed: The server asks for something that is refused, or too often.
        """
        session = self.client.session
        report = make_reporter(context)

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            report(message or (f"{progress:g}" if total is None else f"{progress:g} of {total:g}"))

        self._calls[report] = requests
        self._questions = count = 0
        params = types.CallToolRequestParams(name=name, arguments=arguments)

        try:
            for _ in range(MAX_QUESTIONS):
                request = types.CallToolRequest(params=params)
                answer = await session.send_request(request, Answer, progress_callback=on_progress)
                if isinstance(answer, types.CallToolResult):
                    return answer
                asked = answer.input_requests or {}
                count += len(asked)
                if count > MAX_QUESTIONS:
                    break
                responses = {key: await self._respond(each, requests) for key, each in asked.items()}
                params = params.model_copy(
                    update={"input_responses": responses or None, "request_state": answer.request_state}
                )
        finally:
            del self._calls[report]

        raise Failed(f"The MCP server asked {MAX_QUESTIONS} times or more, and gave no result.")

    async def _respond(self, request: types.InputRequest, requests: ServerRequests | None) -> types.InputResponse:
        if isinstance(request, types.CreateMessageRequest) and requests is not None:
            return await requests.sample(request.params)
        if isinstance(request, types.ElicitRequest) and self._elicit:
            return await self._answer(request.params, requests)
        raise Failed("The MCP server asks for something that it does not get here: input, a model, or directories.")

    async def _respond_late(self, request: types.InputRequest) -> Any:
        """Answer a server of an older version of the protocol, which does not say during which call it asks."""
        requests = [*self._calls.values()]
        self._questions += 1
        if not requests or self._questions > MAX_QUESTIONS:
            return types.ErrorData(code=types.INVALID_REQUEST, message="No call is running that may ask this.")
        try:
            return await self._respond(request, requests[0] if len(requests) == 1 else None)
        except Failed as error:
            return types.ErrorData(code=types.INVALID_REQUEST, message=str(error))

    async def _on_question(self, context: Any, params: types.ElicitRequestParams) -> Any:  # noqa: ARG002  the SDK's
        return await self._respond_late(types.ElicitRequest(params=params))

    async def _on_sampling(self, context: Any, params: types.CreateMessageRequestParams) -> Any:  # noqa: ARG002  same
        return await self._respond_late(types.CreateMessageRequest(params=params))

    async def _answer(self, params: types.ElicitRequestParams, requests: ServerRequests | None) -> types.ElicitResult:
        """Answer a question by `elicit`, or by the run's approver. Decline it if that fails."""
        if not isinstance(params, types.ElicitRequestFormParams):
            asked = escape_hidden(shorten(f"{params.url} {params.message}", MAX_PAGE))
            logger.warning("The MCP server %s wants a page to be opened, which is declined: %s", self._address, asked)
            return types.ElicitResult(action="decline")
        answer: Mapping[str, Any] | None = None
        try:
            if callable(self._elicit):
                answer = await call_function(self._elicit, (params.message, params.requested_schema), AsyncBackend())
            elif requests is not None:
                with suppress(Failed):
                    answer = await requests.ask(params)
            if answer is not None:
                return types.ElicitResult(action="accept", content=dict(answer))
        except Exception:
            logger.exception("elicit= of an MCP server failed, so its question is declined.")

        return types.ElicitResult(action="decline")

    async def _on_log(self, params: types.LoggingMessageNotificationParams) -> None:
        text = params.data if isinstance(params.data, str) else to_json(params.data, fallback=repr).decode()
        for report in self._calls:
            report(f"{params.level}: {text}")

    async def _on_message(self, message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self._changed.set()

    async def _list_again(self) -> None:
        while await self._changed.wait():
            await asyncio.sleep(DEBOUNCE)
            self._changed.clear()
            try:
                self._on_tools(await self.list_all("tools"))
            except (MCPError, ValueError, ToolkitError, OSError):
                logger.warning("The changed tools of the MCP server %s cannot be listed.", self._address, exc_info=True)

    async def _subscribe(self, client: Client) -> None:
        """Subscribe to changes of the tools. Before the version 2026-07-28 of the protocol they come unasked."""
        with suppress(ListenNotSupportedError, SubscriptionLost, MCPError, TimeoutError):
            async with client.listen(tools_list_changed=True) as changes:
                async for _ in changes:
                    pass  # each arrives as a message, too

    def close_soon(self) -> None:
        """End the connection without waiting. Works on any thread."""
        call_soon(self._loop, self._closing.set)

    async def close(self) -> None:
        """End the connection. A server that does not end is killed."""
        self._closing.set()
        if self._owner is not None:
            if not self._client.done():
                self._scope.cancel()
            await asyncio.wait([self._owner], timeout=GRACE)
            self._scope.cancel()

    def _close_at_exit(self) -> None:
        if self._process == os.getpid():  # a forked process has its own
            with suppress(Exception):
                private_loop.run(self.close)
