"""One connection to a server, opened, kept and closed by one task of the package's private event loop."""

from __future__ import annotations

import asyncio
import atexit
import contextvars
import logging
import os
import re
import shlex
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import httpx2
import mcp_types as types
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from pydantic import TypeAdapter
from pydantic_core import to_json

import toolkit
from toolkit._concurrency.async_backend import AsyncBackend
from toolkit._concurrency.backend import call_function
from toolkit._concurrency.event_loop import private_loop
from toolkit._concurrency.tasks import call_soon
from toolkit._context import ToolContext
from toolkit._schema.error_messages import shorten
from toolkit.errors import DefinitionError, Failed

logger = logging.getLogger("toolkit")

MAX_PAGES = 100
MAX_TOOLS = 10_000  # of one server
MAX_UPDATES = 1_000  # of one call
MAX_UPDATE = 1_000  # characters
MAX_ROUNDS = 10  # of questions in one call
DEBOUNCE = 0.2  # seconds: many changes are one
# Seconds for a server to end; then its processes are killed, which takes up to four more.
GRACE = 8.0

# A function of a message and a JSON Schema of the answer; returns the answer, or None to decline.
Elicit = Callable[[str, Mapping[str, Any]], "Mapping[str, Any] | Awaitable[Mapping[str, Any] | None] | None"]
_LAUNCHER = re.compile(r"(python|node|deno|uv|uvx|pipx|npx|bunx)[\d.]*$")
_SWITCHES = ("-m", "-u", "-y", "--yes", "run")  # of launchers; none takes a value besides what is launched
Answer = TypeAdapter[Any](types.CallToolResult | types.InputRequiredResult)


@dataclass(frozen=True, kw_only=True)
class Address:
    """Where a server is, and how it is reached.

    Attributes:
        server: A URL, a command as a list, or a server object of the mcp package.
        headers: Of each request to a URL.
        auth: Signs each request to a URL.
        env: Variables of a command's process, besides those that every process gets.
        cwd: The directory of a command's process.
    """

    server: Any
    headers: Mapping[str, str] | None = field(default=None, repr=False)
    auth: httpx2.Auth | None = field(default=None, repr=False)
    env: Mapping[str, str] | None = field(default=None, repr=False)
    cwd: str | Path | None = None

    @classmethod
    def parse(cls, server: Any, **options: Any) -> Address:
        """Tell a URL, a command and a server object apart.

        Raises:
            DefinitionError: It is none of them, or an option belongs to another kind.
        """
        is_url = isinstance(server, str) and server.startswith(("http://", "https://"))
        if isinstance(server, str) and not is_url:
            server = shlex.split(server)
        if isinstance(server, Sequence) and not is_url:
            server = [os.fspath(word) for word in server]
        if server in ("", []):
            raise DefinitionError("MCP() takes a command, a URL or a server object; this one is empty.")
        own = ("headers", "auth") if is_url else ("env", "cwd") if isinstance(server, list) else ()
        others = [name for name, value in options.items() if value is not None and name not in own]
        if others:
            kind = "a URL" if is_url else "a command" if isinstance(server, list) else "a server object"
            raise DefinitionError(f"MCP() of {cls(server=server)}: {others[0]}= does not go with {kind}.")
        return cls(server=server, **options)

    def __str__(self) -> str:
        """Return what may be shown: of a command the program, since arguments may be keys."""
        if isinstance(self.server, list):
            return str(self.server[0])
        if isinstance(self.server, str):
            return str(httpx2.URL(self.server).copy_with(userinfo=b"", query=None, fragment=None))
        return type(self.server).__name__

    @property
    def short_name(self) -> str:
        """A name for the server, from its address alone: a host, a program, or what a launcher starts.

        Raises:
            DefinitionError: It cannot be told from an argument that may be a key.
        """
        if isinstance(self.server, str):
            return httpx2.URL(self.server).host
        if isinstance(self.server, list):
            program = Path(self.server[0]).stem
            if not _LAUNCHER.match(program):
                return program
            started = next((word for word in self.server[1:] if word not in _SWITCHES), "-")
            if started.startswith("-") or any(mark in started for mark in ("=", "?", "://")):
                raise DefinitionError(f"MCP() of {self}: what it starts has no plain name. Pass name=.")
            return Path(started).stem
        return str(getattr(self.server, "name", "") or "server")

    @asynccontextmanager
    async def open(self, seconds: float) -> AsyncIterator[Any]:
        """Open what a client of the mcp package takes."""
        async with AsyncExitStack() as stack:
            if isinstance(self.server, str):
                limits = httpx2.Timeout(seconds, read=None)  # a stream may be silent; each request has its deadline
                http = httpx2.AsyncClient(headers=self.headers, auth=self.auth, timeout=limits)
                yield streamable_http_client(self.server, http_client=await stack.enter_async_context(http))
            elif isinstance(self.server, list):
                env = None if self.env is None else dict(self.env)
                started = StdioServerParameters(command=self.server[0], args=self.server[1:], env=env, cwd=self.cwd)
                yield Pipes(stdio_client(started, errlog=sys.__stderr__ or sys.stderr))  # that of a notebook is no file
            else:
                yield self.server


class Pipes(AbstractAsyncContextManager[Any]):
    """The streams of a command, which know when the command has ended."""

    def __init__(self, streams: AbstractAsyncContextManager[Any]) -> None:
        self._streams = streams
        self._received: Any = None

    async def __aenter__(self) -> Any:
        self._received, sent = await self._streams.__aenter__()
        return self._received, sent

    async def __aexit__(self, *error: Any) -> Any:
        return await self._streams.__aexit__(*error)

    @property
    def has_ended(self) -> bool:
        """Whether the command has closed its standard output."""
        return self._received is not None and self._received.statistics().open_send_streams == 0


@dataclass(eq=False)
class RunningCall:
    """A call whose server has not answered yet; what the server reports goes to the call's context."""

    context: ToolContext[Any]
    left: int = MAX_UPDATES

    def report(self, text: str) -> None:
        """Report progress, up to a number of times."""
        self.left -= 1
        if self.left >= 0:
            self.context.progress(shorten(text, MAX_UPDATE))

    async def on_progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Report the server's own text, or how much is done."""
        self.report(message or (f"{progress:g}" if total is None else f"{progress:g} of {total:g}"))


class Session:
    """A connection to a server; it is made and used in the private loop.

    A task owns it from the beginning to the end, since cancel scopes belong to one task.

    Args:
        address: Where the server is.
        timeout: Seconds for each answer.
        elicit: Answers the server's questions; without it they are refused.
        on_tools: Receives the server's tools, at the start and whenever they have changed.
    """

    def __init__(
        self, address: Address, timeout: float, elicit: Elicit | None, on_tools: Callable[[list[types.Tool]], object]
    ) -> None:
        self._address, self._timeout, self._elicit, self._on_tools = address, timeout, elicit, on_tools
        self._calls: set[RunningCall] = set()
        self._loop = asyncio.get_running_loop()
        self._client: asyncio.Future[Client] = self._loop.create_future()
        self._closing, self._changed, self._scope = asyncio.Event(), asyncio.Event(), anyio.CancelScope()
        self._owner: asyncio.Task[None] | None = None
        self._server: object = None
        self._process = os.getpid()

    @property
    def has_ended(self) -> bool:
        """Whether no call can be made any more."""
        is_over = self._closing.is_set() or self._owner is None or self._owner.done()
        return is_over or (isinstance(self._server, Pipes) and self._server.has_ended)

    async def start(self) -> None:
        """Connect and list the tools.

        Raises:
            Exception: It failed; there may be several in a group.
        """
        self._owner = contextvars.Context().run(self._loop.create_task, self._own())  # not in one call's context
        atexit.register(self._close_at_exit)
        self._on_tools(await self._list_tools(await asyncio.shield(self._client)))

    async def _own(self) -> None:
        try:
            with self._scope:
                async with self._address.open(self._timeout) as server:
                    self._server = server
                    client = Client(
                        server,
                        read_timeout_seconds=self._timeout,
                        client_info=types.Implementation(name="toolkit", version=toolkit.__version__),
                        elicitation_callback=self._on_question if self._elicit else None,
                        logging_callback=self._on_log,
                        log_level="info",
                        message_handler=self._on_message,
                        cache=None,
                    )
                    async with client, anyio.create_task_group() as group:
                        self._client.set_result(client)
                        group.start_soon(self._subscribe, client)
                        group.start_soon(self._list_again, client)
                        await self._closing.wait()
                        group.cancel_scope.cancel()
        except Exception as error:
            if self._client.done():
                logger.debug("The connection to the MCP server %s ended", self._address, exc_info=error)
            else:
                self._client.set_exception(error)
        finally:
            self._client.cancel()
            atexit.unregister(self._close_at_exit)

    async def _list_tools(self, client: Client) -> list[types.Tool]:
        """List the tools of the server, as far as their number is sensible."""
        tools, cursor = list[types.Tool](), None
        for _ in range(MAX_PAGES):
            page = await client.list_tools(cursor=cursor)
            tools += page.tools
            cursor = page.next_cursor
            if cursor is None or len(tools) > MAX_TOOLS:
                break
        if cursor is not None or len(tools) > MAX_TOOLS:
            logger.warning("The MCP server %s has too many tools; the last are left out.", self._address)
        return tools[:MAX_TOOLS]

    async def call(self, name: str, arguments: dict[str, Any], context: ToolContext[Any]) -> types.CallToolResult:
        """Call a tool; its updates and log messages become progress of the call.

        Not `Client.call_tool`, which validates what comes back without any bound.

        Raises:
            MCPError: The server refused, did not answer in time, or is gone.
            ValueError: Its answer is no result.
        """
        session, running = self._client.result().session, RunningCall(context)
        self._calls.add(running)
        params = types.CallToolRequestParams(name=name, arguments=arguments)
        try:
            for _ in range(MAX_ROUNDS):
                request = types.CallToolRequest(params=params)
                answer = await session.send_request(request, Answer, progress_callback=running.on_progress)
                if isinstance(answer, types.CallToolResult):
                    return answer
                responses = {key: await self._respond(each) for key, each in (answer.input_requests or {}).items()}
                params = params.model_copy(
                    update={"input_responses": responses or None, "request_state": answer.request_state}
                )
        finally:
            self._calls.discard(running)
        raise ValueError("it asks without end")

    async def _respond(self, request: types.InputRequest) -> types.InputResponse:
        if isinstance(request, types.ElicitRequest):
            answer = await self._on_question(None, request.params)
            if isinstance(answer, types.ElicitResult):
                return answer
        raise Failed("The MCP server asks for something that it does not get here: input, a model, or directories.")

    async def _on_question(
        self,
        context: Any,  # noqa: ARG002  the mcp package's interface
        params: types.ElicitRequestParams,
    ) -> types.ElicitResult | types.ErrorData:
        if self._elicit is None:
            return types.ErrorData(code=types.INVALID_REQUEST, message="Elicitation is not supported.")
        if not isinstance(params, types.ElicitRequestFormParams):
            return types.ElicitResult(action="decline")
        answer = await call_function(self._elicit, (params.message, params.requested_schema), AsyncBackend())
        if answer is None:
            return types.ElicitResult(action="decline")
        return types.ElicitResult(action="accept", content=dict(answer))

    async def _on_log(self, params: types.LoggingMessageNotificationParams) -> None:
        text = params.data if isinstance(params.data, str) else to_json(params.data, fallback=repr).decode()
        for call in self._calls:
            call.report(f"{params.level}: {text}")

    async def _on_message(self, message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self._changed.set()

    async def _list_again(self, client: Client) -> None:
        while await self._changed.wait():
            await asyncio.sleep(DEBOUNCE)
            self._changed.clear()
            try:
                self._on_tools(await self._list_tools(client))
            except (MCPError, ValueError):
                logger.warning("The changed tools of the MCP server %s cannot be listed", self._address, exc_info=True)

    async def _subscribe(self, client: Client) -> None:
        """Subscribe to changes of the tools; before the version 2026-07-28 of the protocol they come unasked."""
        with suppress(ListenNotSupportedError, SubscriptionLost, MCPError, TimeoutError):
            async with client.listen(tools_list_changed=True) as changes:
                async for _ in changes:
                    pass  # each arrives as a message, too

    def close_soon(self) -> None:
        """End the connection without waiting; from any thread."""
        call_soon(self._loop, self._closing.set)

    async def close(self) -> None:
        """End the connection; a server that does not end is killed."""
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
