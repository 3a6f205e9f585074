"""The tools of a server of the Model Context Protocol.

    runner = Runner([add, MCP("uvx some-server"), MCP("http://localhost:8000/mcp", headers={"Authorization": key})])

What must stay true: whatever a server says is data. It changes no name but those of its own tools, waives no gate, sees
no other server's keys, and makes nothing be fetched. Each wait for it has an end.

Files, each importing only those below it:

    session     one connection: opened, kept and closed by one task
    results     what a server's tool returns, as the result of a call
"""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typing_extensions import Self, Unpack

from toolkit._concurrency.event_loop import private_loop
from toolkit._context import ToolContext
from toolkit._guards.options import check_type
from toolkit._messages import ToolResult
from toolkit._options import refuse_unknown_options
from toolkit._schema.error_messages import shorten
from toolkit._tools.bindings import AnyTool
from toolkit._tools.options import HINTS, OPTION_NAMES, ToolOptions, ToolSettings, split_options
from toolkit._tools.tool import Tool, safe_name
from toolkit.errors import DefinitionError, Failed, TimedOut

try:
    from toolkit.sources.mcp.results import make_result
    from toolkit.sources.mcp.session import Address, Elicit, Session
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types", "anyio"):
        raise
    raise ImportError('MCP servers need an extra: pip install "function-toolkit[mcp]".') from error
import anyio
import mcp_types as types
from mcp import MCPError

if TYPE_CHECKING:
    import httpx2

__all__ = ["MCP"]

logger = logging.getLogger("toolkit")

TIMEOUT = 30.0  # seconds
TRIES = 3
PAUSE = 0.5  # seconds before the second try, and twice as many before the third
MAX_DESCRIPTION = 1_000  # characters: OpenAI takes 1,024
MAX_TITLE = 100  # characters
NO_DESCRIPTION = "MCP tool (no description)"
BOTH_LISTS = "set either AllowTools or BlockTools, not both"
LOST = "The connection to the MCP server {name!r} was lost. Whether it has executed the call is unknown."
SESSION_GONE = "Session terminated"  # the mcp package's own text
MAX_ERROR = 500  # characters
# What no second try changes.
FINAL = (FileNotFoundError, PermissionError, NotADirectoryError, DefinitionError)


class MCP:
    """A server of the Model Context Protocol, whose tools a Toolbox or a Runner takes.

    It connects when its tools are first needed, stays connected until `close` or the end of the program, and connects
    again at the next call after the connection was lost. The names of its tools begin with `mcp_` and its own name. Its
    hints set their effects: "read" or "destructive", where `effect=` does not.

    Args:
        server: A command, as text or as a list, whose standard input and output are the connection; a URL
            (streamable HTTP); or a server object of the `mcp` package, which runs in this process, in a loop of its
            own. Nothing passes through a shell.
        name: Name of the server here; by default made of its host or its command, never of what it says.
        allow: Names of its tools, as it calls them, that are used.
        block: Names of its tools that are not used. Either `allow` or `block`.
        headers: Of each request to a URL, such as a bearer token.
        auth: Signs each request to a URL, such as the OAuth providers of `mcp.client.auth`.
        env: Environment variables of a command. By default it has only PATH, HOME and a few more.
        cwd: The directory of a command.
        optional: Whether a server that cannot be reached is left out, with a warning.
        elicit: A function of the server's question and a JSON Schema that returns an answer, or None to decline. By
            default a server cannot ask.
        **options: Options of each tool, as for `tool`, such as `approve=True`. `timeout`, 30 seconds by default, is
            also the time to connect, in up to three tries.

    Attributes:
        name: The name of the server here.

    Raises:
        DefinitionError: An option is wrong.
        TypeError: There is no such option.

    Example:
        >>> with MCP([sys.executable, "server.py"]) as server:
        ...     Toolbox([server]).call("mcp_server_add", '{"a": 1, "b": 2}')
    """

    def __init__(
        self,
        server: str | Sequence[str | Path] | Any,
        *,
        name: str | None = None,
        allow: Collection[str] | None = None,
        block: Collection[str] | None = None,
        headers: Mapping[str, str] | None = None,
        auth: httpx2.Auth | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | Path | None = None,
        optional: bool = False,
        elicit: Elicit | None = None,
        **options: Unpack[ToolOptions],
    ) -> None:
        refuse_unknown_options(options, [*OWN_OPTIONS, *OPTION_NAMES], HINTS)
        split_options(options, "MCP", ToolSettings())
        self._address = Address.parse(server, headers=headers, auth=auth, env=env, cwd=cwd)
        self.name = safe_name(check_type("name", self._address.short_name if name is None else name, str))
        for option, names in (("allow", allow), ("block", block)):
            if isinstance(names, str):
                raise DefinitionError(f"{option}={names!r} is one text: write {option}=[{names!r}].")
        if allow is not None and block is not None:
            raise DefinitionError(BOTH_LISTS)
        self._allow, self._block = allow, block
        self._optional, self._elicit = optional, elicit
        self._options: dict[str, Any] = {"timeout": TIMEOUT, **options}
        self._timeout: float = check_type("timeout", self._options["timeout"], int, float)
        self._tools: tuple[AnyTool, ...] | None = None
        self._is_closed = False
        # In the private loop: another one after a fork, or after it was closed.
        self._loop: asyncio.AbstractEventLoop | None = None
        self._session: Session | None = None
        self._lock: asyncio.Lock | None = None

    def __repr__(self) -> str:
        return f"<MCP server {self.name!r}: {self._address}>"

    @property
    def tools(self) -> tuple[AnyTool, ...]:
        """The tools that the server has now, as it last said; connects first.

        Raises:
            Failed: The server cannot be reached, and is not optional.
        """
        if self._tools is None:
            self.connect()
        return self._tools or ()

    def current_tools(self) -> tuple[AnyTool, ...]:
        """Return `tools`: a toolbox asks for them at each run."""
        return self.tools

    def connect(self) -> Self:
        """Connect and list the tools, unless that is done.

        Raises:
            Failed: The server cannot be reached, and is not optional.
        """
        return private_loop.run(self._connect)

    async def aconnect(self) -> Self:
        """Do what `connect` does, in the running event loop."""
        return await private_loop.arun(self._connect)

    def close(self) -> None:
        """End the connection, and the process of a command; calls of the tools fail from now on."""
        private_loop.run(self._close)

    async def aclose(self) -> None:
        """Do what `close` does, in the running event loop."""
        await private_loop.arun(self._close)

    def __enter__(self) -> Self:
        return self.connect()

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return await self.aconnect()

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def _connect(self) -> Self:
        self._is_closed = False
        try:
            await self._get_session()
        except Failed as error:
            if not self._optional:
                raise
            logger.warning("%s It is optional, so its tools are left out.", error, exc_info=error.__cause__)
            self._tools = ()
        return self

    async def _close(self) -> None:
        self._is_closed = True
        if self._session is not None and self._loop is asyncio.get_running_loop():
            await self._session.close()

    async def _get_session(self) -> Session:
        """Return the connection, a new one if there is none or the last one has ended.

        Raises:
            Failed: The server cannot be reached.
        """
        if self._lock is None or self._loop is not asyncio.get_running_loop():
            self._loop, self._session, self._lock = asyncio.get_running_loop(), None, asyncio.Lock()
        async with self._lock:
            if self._is_closed:
                raise Failed(f"The MCP server {self.name!r} was closed.")
            if self._session is not None and self._session.has_ended:
                self._session.close_soon()
                self._session = None
            if self._session is None:
                self._session = await self._open_session()
            return self._session

    async def _open_session(self) -> Session:
        fault: Exception = TimeoutError()
        with anyio.move_on_after(self._timeout):
            for attempt in range(TRIES):
                await anyio.sleep(attempt * PAUSE)
                try:
                    return await self._try_to_open()
                except Exception as error:  # noqa: BLE001  the transports raise what they like
                    fault = error
                    if isinstance(_find_leaf(error), FINAL):
                        break
            raise Failed(f"The MCP server {self.name!r} cannot be reached: {_describe(fault)}") from _find_leaf(fault)
        reason = f"it did not answer within {self._timeout:g} s."
        raise Failed(f"The MCP server {self.name!r} cannot be reached: {reason}") from fault

    async def _try_to_open(self) -> Session:
        me = weakref.ref(self)  # the connection of an MCP that nobody has any more is closed

        def on_tools(listed: list[types.Tool]) -> None:
            if (server := me()) is not None:
                server.take_tools(listed)

        session = Session(self._address, self._timeout, self._elicit, on_tools)
        try:
            await session.start()
        except BaseException:
            with anyio.CancelScope(shield=True):
                await session.close()
            raise
        weakref.finalize(self, session.close_soon).atexit = False
        return session

    def take_tools(self, listed: Sequence[types.Tool]) -> None:
        """Take over what the server lists; what cannot be a tool is left out, with a warning."""
        known = {spec.name for spec in listed}
        for option, names in (("allow", self._allow), ("block", self._block)):
            if unknown := sorted({*(names or ())} - known):
                logger.warning("%r: %s= names tools that the server does not have: %s.", self, option, unknown)
        made: dict[str, AnyTool] = {}
        for spec in listed:
            if (self._allow is not None and spec.name not in self._allow) or spec.name in (self._block or ()):
                continue
            try:
                tool = self._make_tool(spec)
            except DefinitionError as error:
                logger.warning("%r: the tool %r is left out: %s", self, spec.name, error)
            else:
                if made.setdefault(tool.name, tool) is not tool:
                    logger.warning("%r: the tool %r is left out: another one is called so, too.", self, spec.name)
        self._tools = tuple(made.values())

    def _make_tool(self, spec: types.Tool) -> AnyTool:
        async def call(_context: ToolContext, **_arguments: Any) -> ToolResult:  # no argument begins with an underscore
            return await private_loop.arun(partial(self._call, tool, spec.name, _arguments, _context))

        hints = spec.annotations or types.ToolAnnotations()
        title = spec.title or hints.title or spec.name
        effect = "read" if hints.read_only_hint else "destructive" if hints.destructive_hint else None
        declaration: dict[str, Any] = {
            "title": title[:MAX_TITLE],
            "description": _shorten(spec.description or NO_DESCRIPTION),
            "effect": effect,
            **self._options,
        }
        name, output = safe_name(f"mcp_{self.name}_{spec.name}"), spec.output_schema or Any
        made = Tool.from_models(name, spec.input_schema, output, call, **declaration)
        handler: Any = made.handler
        interface = replace(handler.interface, origin=f"the tool {spec.name!r} of the MCP server {self.name!r}")
        tool = replace(made, handler=handler.of(interface))
        return tool

    async def _call(self, tool: AnyTool, name: str, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Call a tool of the server.

        Raises:
            Failed: The server cannot be reached, was lost, or refused the call.
            TimedOut: It did not answer in time.
        """
        session = await self._get_session()
        try:
            return make_result(tool, await session.call(name, arguments, context))
        except MCPError as error:
            if error.code == types.REQUEST_TIMEOUT:  # as the tool's own time limit, which passes in the same moment
                raise TimedOut(f"Timed out after {self._timeout:g} s.") from error
            if error.code != types.CONNECTION_CLOSED and error.message != SESSION_GONE:
                raise Failed(f"The MCP server {self.name!r} refused the call: {_describe(error)}") from error
            session.close_soon()
            raise Failed(LOST.format(name=self.name)) from error
        except ValueError as error:
            raise Failed(
                f"The MCP server {self.name!r} gave an answer that is none: {type(error).__name__}."
            ) from error


# Its options besides those of `@tool`.
OWN_OPTIONS = MCP.__init__.__code__.co_varnames[1 : 2 + MCP.__init__.__code__.co_kwonlyargcount]


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_DESCRIPTION else f"{text[: MAX_DESCRIPTION - 1].rstrip()}…"


def _find_leaf(error: BaseException) -> BaseException:
    """Return the first exception inside groups."""
    while getattr(error, "exceptions", ()):
        error = error.exceptions[0]  # type: ignore[attr-defined]  # no builtin in Python 3.10
    return error


def _describe(error: BaseException) -> str:
    """Describe an error of a transport: its class, and only such messages as have no address in them."""
    leaf = _find_leaf(error)
    if isinstance(leaf, FileNotFoundError):
        return f"there is no program {leaf.filename!r}."
    return shorten(f"{leaf.message}" if isinstance(leaf, MCPError) else f"{type(leaf).__name__}.", MAX_ERROR)
