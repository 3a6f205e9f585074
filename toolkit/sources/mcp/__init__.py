"""The tools of a server of the Model Context Protocol.

    runner = Runner([add, MCP("uvx some-server"), MCP("http://localhost:8000/mcp", headers={"Authorization": key})])

Invariants: whatever a server sends is data. It sets no names but those of its own tools, waives no gate, sees no other
server's keys, and causes no request to another address. Each wait for it has an end.

Files, each importing only those below it:

    session     one connection: opened, held and closed by one task
    requests    requests of a server for an answer of the run's model, or of its approver
    transport   the address of a server, and bounded streams to it
    results     answers of a server as results, messages and contents
"""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import ValidationError
from typing_extensions import Unpack

from toolkit._concurrency.event_loop import private_loop
from toolkit._context import ToolContext
from toolkit._guards.hidden_text import escape_hidden
from toolkit._guards.options import check_type
from toolkit._lazy import needs_extra
from toolkit._messages import File, Image, Message, ToolResult
from toolkit._options import make_hints, spell_options
from toolkit._schema.error_messages import shorten
from toolkit._schema.json_text import escape_confusable
from toolkit._tools.bindings import AnyTool
from toolkit._tools.definitions import compare_tools, write_lock
from toolkit._tools.options import DEFAULTS, ToolOptions, ToolSettings, split_options
from toolkit._tools.options import HINTS as TOOL_HINTS
from toolkit.errors import DefinitionError, Denied, Failed, TimedOut, ToolError

with needs_extra("MCP", "mcp"):
    import anyio
    import mcp_types as types
    from mcp import MCPError
    from mcp.client.auth import OAuthFlowError

    from toolkit.sources.mcp.requests import ServerRequests, make_question_tool, make_sampling_tool
    from toolkit.sources.mcp.results import make_messages, make_result, read_contents
    from toolkit.sources.mcp.session import Elicit, Session
    from toolkit.sources.mcp.transport import Address
    from toolkit.sources.remote import RemoteSource, Unreachable

if TYPE_CHECKING:
    import httpx2

__all__ = ["MCP"]

logger: logging.Logger = logging.getLogger("toolkit")

T = TypeVar("T")

TIMEOUT = 30.0  # seconds
NO_DESCRIPTION = "MCP tool (no description)"
LOST = "The connection to the MCP server {name!r} was lost{reason}. Whether it has executed the call is unknown."
CHANGED = "{name} has changed since it was locked. It was not called."
RESOURCES = ("resources", "resource_templates")
MAX_ERROR = 500  # characters of a server's error message
MAX_FAULTS = 200_000  # of an answer; more would take long to list

# Hints for options that other libraries have.
HINTS = make_hints(
    ("allowed_tools include include_tools tool_filter tools", "Write allow=[...], with the server's own names."),
    ("exclude exclude_tools excluded_tools", "Write block=[...], with the server's own names."),
    ("prefix tool_prefix", "Write name=...: the tools are called mcp_NAME_TOOL."),
    (
        "args command params transport type url",
        "The command or the URL is the first argument: MCP('uvx server'), MCP('http://localhost:8000/mcp').",
    ),
    ("api_key token", "Write headers={'Authorization': 'Bearer ...'}, or auth=..."),
    ("require_approval", "Write approve=True."),
    ("elicitation_callback elicitation_handler", "Write elicit=..."),
    ("sampling_callback sampling_handler sampling_model", "Write sample=True."),
)


class MCP(RemoteSource):
    """A server of the Model Context Protocol, with tools for a Toolbox or a Runner.

    It connects when its tools are first needed, stays connected until `close` or the end of the program, and connects
    again at the next call after the connection was lost. The names of its tools begin with `mcp_` and its own name. Its
    hints set their effects, "read" or "destructive", unless there is `effect=`.

    Args:
        server: A command, as text or as a list, whose standard input and output are the connection; a URL
            (streamable HTTP); or a server object of the `mcp` package, which runs in this process, in a loop of its
            own. Nothing passes through a shell.
        name: Name of the server here; by default made of its host or its command, never of a name that it sends.
        allow: The server's names of its tools that are used.
        block: The server's names of its tools that are not used. Either `allow` or `block`.
        headers: Headers of each request to a URL, such as a bearer token.
        auth: Signs each request to a URL, such as the OAuth providers of `mcp.client.auth`.
        env: Environment variables of a command. By default it has only PATH, HOME and a few more.
        cwd: The directory of a command.
        optional: Whether a server that cannot be reached is left out, with a warning.
        lock: A file with the definitions of this server's tools, such as "files.lock.json". It is written if it does
            not exist. From then on a tool that differs is left out until `write_lock`, with a warning about the
            difference.
        elicit: A function of the server's question and a JSON Schema that returns an answer, or None to decline. With
            True, the run's approver answers each question: it is a call of a tool `elicitation_NAME`, and the approver
            changes its argument `answer`. By default a server cannot ask.
        sample: Whether a server may ask the run's model for an answer (sampling). Each request is a call of a tool
            `sampling_NAME`, which needs approval, and counts in the limits and the usage of the run.
        **options: Options of each tool, as for `tool`, such as `approve=True`. `timeout`, 30 seconds by default, is
            also the time to connect, in up to three tries.

    Attributes:
        name: The name of the server here.

    Raises:
        DefinitionError: An option is invalid.
        TypeError: There is no such option.

    Examples:
        >>> with MCP([sys.executable, "server.py"]) as server:
        ...     Toolbox([server]).call("mcp_server_add", '{"a": 1, "b": 2}')
    """

    _kind = "MCP server"
    _item = "tool"
    _prefix = "mcp"
    _final = (FileNotFoundError, PermissionError, NotADirectoryError, DefinitionError, OAuthFlowError)

    @spell_options(ToolOptions, {**DEFAULTS, "timeout": TIMEOUT}, {**TOOL_HINTS, **HINTS})
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
        lock: str | Path | None = None,
        elicit: Elicit | bool | None = None,
        sample: bool = False,
        **options: Unpack[ToolOptions],
    ) -> None:
        split_options(options, "MCP", ToolSettings())
        self._address = Address.parse(server, headers=headers, auth=auth, env=env, cwd=cwd)
        super().__init__(
            self._address.short_name if name is None else name,
            allow=allow,
            block=block,
            optional=optional,
            options={"timeout": TIMEOUT, **options},
            location=f"Its URL is {self._address}." if self._address.is_url else "",  # the name of a command is enough
        )
        if not (elicit is None or isinstance(elicit, bool) or callable(elicit)):
            raise DefinitionError(f"elicit={elicit!r:.100} is neither True nor a function of a message and a schema.")

        self._elicit = elicit
        self._may_sample = check_type("sample", sample, bool)
        self._request_tools = (
            make_sampling_tool(self.name) if sample else None,
            make_question_tool(self.name) if elicit is True else None,
        )
        self._lock_file = None if lock is None else Path(check_type("lock", lock, str, Path))
        self._listed: tuple[AnyTool, ...] = ()  # those that differ from the lock, too

        # They belong to the private loop, which is another one after a fork or after it was closed.
        self._loop: asyncio.AbstractEventLoop | None = None
        self._session: Session | None = None
        self._lock: asyncio.Lock | None = None

    def __repr__(self) -> str:
        return f"<MCP server {self.name!r}: {self._address}>"

    async def _open(self) -> None:
        await self._get_session()

    async def _close(self) -> None:
        await super()._close()
        if self._session is not None and self._loop is asyncio.get_running_loop():
            await self._session.close()

    async def _get_session(self) -> Session:
        """Return the connection, a new one if there is none or the last one has ended.

        Raises:
            Failed: The server cannot be reached.
        """
        if self._lock is None or self._loop is not asyncio.get_running_loop():
            self._loop = asyncio.get_running_loop()
            self._session = None
            self._lock = asyncio.Lock()
        async with self._lock:
            self._check_open()
            if self._session is not None and self._session.has_ended:
                self._session.close_soon()
                self._session = None
            if self._session is None:
                self._session = await self._try(self._start_session)
            return self._session

    async def _start_session(self) -> Session:
        reference = weakref.ref(self)  # the connection of an MCP that is no longer referenced is closed

        def on_tools(listed: list[types.Tool]) -> None:
            if (server := reference()) is not None:
                server.update_tools(listed)

        def on_fault(name: object, fault: str) -> None:
            if (server := reference()) is not None:
                server.leave_out(name, fault)

        session = Session(
            self._address,
            self._timeout,
            elicit=self._elicit,
            may_sample=self._may_sample,
            on_tools=on_tools,
            on_fault=on_fault,
        )
        try:
            await session.start()
        except BaseException:
            with anyio.CancelScope(shield=True):
                await session.close()
            raise

        weakref.finalize(self, session.close_soon).atexit = False
        return session

    def update_tools(self, listed: Sequence[types.Tool]) -> None:
        """Make the tools that the server lists. Those that cannot be made are left out, with a warning."""
        self._update_tools([(spec.name, spec) for spec in listed], self._make_tool)

    def write_lock(self) -> None:
        """Write the tools of the last listing to the lock, and use all of them. Connects first.

        Raises:
            DefinitionError: There is no `lock=`, or it cannot be written.
            Failed: The server cannot be reached.
        """
        if self._lock_file is None:
            raise DefinitionError(f"{self!r} has no lock. Pass lock=, such as lock='{self.name}.lock.json'.")
        self.connect()
        private_loop.run(self._get_session)  # fails if an optional server cannot be reached
        self._write(self._lock_file, self._listed)
        self._tools = self._listed

    def _write(self, path: Path, tools: tuple[AnyTool, ...]) -> None:
        try:
            write_lock(path, tools)
        except OSError as error:
            raise DefinitionError(f"The lock {path} cannot be written: {error.strerror}.") from None

    def list_prompts(self) -> list[types.Prompt]:
        """List the prompts of the server, as the mcp package has them. Connects first.

        Raises:
            Failed: The server cannot be reached, or its answer is invalid.
            TimedOut: It did not answer in time.
        """
        return private_loop.run(self.alist_prompts)

    async def alist_prompts(self) -> list[types.Prompt]:
        """Async version of `list_prompts`."""
        return await self._ask(lambda session: session.list_all("prompts"))

    def get_prompt(self, name: str, /, **arguments: str) -> list[Message]:
        """Get the messages of a prompt, for `runner.run(messages=...)`. Connects first.

        Raises:
            Failed: As for `list_prompts`; or there is no such prompt, or not with these arguments.
            TimedOut: It did not answer in time.
            TypeError: An argument is not text.
        """
        return private_loop.run(partial(self.aget_prompt, name, **arguments))

    async def aget_prompt(self, name: str, /, **arguments: str) -> list[Message]:
        """Async version of `get_prompt`."""
        for key, value in arguments.items():
            if not isinstance(value, str):
                raise TypeError(f"{key}={value!r:.100} is not text, as MCP requires: write {key}={str(value)!r:.100}.")
        result = await self._ask(lambda session: session.client.get_prompt(name, arguments))
        return make_messages(result.messages)

    def list_resources(self) -> list[types.Resource | types.ResourceTemplate]:
        """List the resources and the resource templates of the server, as the mcp package has them. Connects first.

        Raises:
            Failed: As for `list_prompts`.
            TimedOut: It did not answer in time.
        """
        return private_loop.run(self.alist_resources)

    async def alist_resources(self) -> list[types.Resource | types.ResourceTemplate]:
        """Async version of `list_resources`."""
        return await self._ask(lambda session: session.list_all(*RESOURCES))

    def read_resource(self, uri: str) -> list[str | Image | File]:
        """Read a resource: texts, images and files, as `runner.run` takes them. Connects first.

        Raises:
            Failed: As for `list_prompts`; or there is no such resource.
            TimedOut: It did not answer in time.
        """
        return private_loop.run(partial(self.aread_resource, uri))

    async def aread_resource(self, uri: str) -> list[str | Image | File]:
        """Async version of `read_resource`."""
        result = await self._ask(lambda session: session.client.read_resource(uri))
        return [*map(read_contents, result.contents)]

    async def _ask(self, request: Callable[[Session], Awaitable[T]]) -> T:
        """Make a request of the application, which is not a call of a tool.

        Raises:
            Failed: The server cannot be reached, was lost or refused the request, or its answer is invalid.
            TimedOut: It did not answer in time.
        """

        async def ask(session: Session) -> T:
            with anyio.fail_after(self._timeout):
                return await request(session)

        return await private_loop.arun(lambda: self._request(ask))

    async def _request(self, request: Callable[[Session], Awaitable[T]], *, is_first: bool = True) -> T:
        """Make a request, in the private loop. Use a new session if the server has forgotten the last one."""
        session = await self._get_session()
        try:
            return await request(session)
        except (MCPError, ValueError, TimeoutError) as error:
            if not is_first or not session.has_expired(error):
                raise self._explain(error, session) from error
        return await self._request(request, is_first=False)

    def _explain(self, error: Exception, session: Session) -> ToolError:
        """Explain why a request has no answer."""
        if isinstance(error, TimeoutError):
            return TimedOut.after(self._timeout)
        if not isinstance(error, MCPError):
            return Failed(f"The MCP server {self.name!r} gave an invalid answer: {self._describe(error)}")
        if error.code == types.REQUEST_TIMEOUT and isinstance(error.__context__, TimeoutError):
            return TimedOut.after(self._timeout)  # as the tool's own limit does; a server may answer with the same code
        if session.is_lost(error):
            return Failed(LOST.format(name=self.name, reason=f": {session.fault}" if session.fault else ""))
        return Failed(f"The MCP server {self.name!r} refused the call: {self._describe(session.add_status(error))}")

    def _select_usable(self, tools: tuple[AnyTool, ...]) -> tuple[AnyTool, ...]:
        """Leave out the tools that differ from the lock. Write the lock if it does not exist.

        Raises:
            DefinitionError: The lock is damaged, or cannot be read or written.
        """
        path = self._lock_file
        self._listed = tools
        if path is None:
            return tools

        try:
            differences = compare_tools(path, tools)
        except FileNotFoundError:
            self._write(path, tools)
            logger.warning("%r: %s was written, with %d tools. Review it, and keep it.", self, path, len(tools))
            return tools
        except OSError as error:
            raise DefinitionError(f"The lock {path} cannot be read: {error.strerror}.") from None

        for name, lines in differences.items():
            reason = escape_confusable("; ".join(lines))
            self.leave_out(name, f"it differs from {path}: {reason}. If that is right, call write_lock().")
        return tuple(tool for tool in tools if tool.name not in differences)

    def _make_tool(self, spec: types.Tool) -> AnyTool:
        if spec.execution and spec.execution.task_support == "required":
            raise DefinitionError("it can only be called as an MCP task, which is not supported.")

        name = spec.name  # so that the tool does not hold the whole spec

        async def call(tool: AnyTool, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
            requests = ServerRequests.start(self._request_tools, context)
            work = private_loop.arun(partial(self._call, tool, name, arguments, context, requests))
            return await (requests.watch(work) if requests else work)

        hints = spec.annotations or types.ToolAnnotations()
        effect = "destructive" if hints.destructive_hint else None
        if hints.read_only_hint:
            effect = "read"
        declaration: dict[str, Any] = {
            "title": spec.title or hints.title or name,
            "description": spec.description or NO_DESCRIPTION,
            "effect": effect,
        }
        return self._declare(name, spec.input_schema, spec.output_schema or Any, call, declaration)

    def _describe(self, error: BaseException) -> str:
        """Describe an error of a transport: by its message if that has no address, else by its class."""
        if isinstance(error, FileNotFoundError):
            return f"there is no {str(error.filename or self._address)!r}."  # the program, or cwd=; Windows names none
        if isinstance(error, NotADirectoryError):
            return f"{str(error.filename or self._address.cwd)!r}: {error.strerror}."
        if isinstance(error, MCPError):
            return escape_hidden(shorten(f"{error.message}", MAX_ERROR))
        if isinstance(error, ValidationError) and error.error_count() > MAX_FAULTS:
            return f"it has {error.error_count():,} faults."
        if isinstance(error, ValidationError):
            fault = error.errors(include_url=False, include_input=False)[0]
            return escape_hidden(shorten(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}.", MAX_ERROR))
        return super()._describe(error)

    async def _call(
        self, tool: AnyTool, name: str, arguments: dict[str, Any], context: ToolContext, requests: ServerRequests | None
    ) -> ToolResult:
        """Call a tool of the server.

        Raises:
            Failed: The server cannot be reached, was lost, or refused the call.
            Denied: The tool differs from the lock by now.
            TimedOut: It did not answer in time.
        """

        async def call(session: Session) -> ToolResult:
            if self._lock_file is not None and all(each.name != tool.name for each in self._tools or ()):
                raise Denied(CHANGED.format(name=tool.name))
            answer = await session.call(name, arguments, context, requests)
            return await anyio.to_thread.run_sync(make_result, tool, answer)  # it may take long to check

        try:
            return await self._request(call)
        except Unreachable as error:
            raise Failed(error.brief) from error
