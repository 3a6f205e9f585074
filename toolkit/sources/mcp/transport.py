"""The address of a server, and the streams to it, with limits that the mcp package does not set."""

from __future__ import annotations

import codecs
import logging
import math
import os
import re
import shlex
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import NoneType
from typing import Any

import httpx2
import mcp_types as types
from mcp import StdioServerParameters
from mcp.client.auth import OAuthClientProvider
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from toolkit._guards.options import check_env, check_headers, check_type
from toolkit.errors import DefinitionError
from toolkit.sources.remote import BoundedStream, MarkCounter

logger: logging.Logger = logging.getLogger("toolkit")

MAX_MESSAGE = 16 * 2**20  # bytes
MAX_MARKS = 1_000_000  # commas and opening brackets of a message, outside its texts
# Name of the encoding of a command's output: UTF-8, with lines of at most MAX_MESSAGE bytes and MAX_MARKS, and without
# other lines than messages, which the mcp package would log with a traceback.
LINES = "toolkit_lines"
TOO_LONG = "TOO LONG FOR TOOLKIT"  # replaces a line that is too long; it is not a message

_LAUNCHER = re.compile(r"(python|node|deno|uv|uvx|pipx|npx|bunx)[\d.]*$")
# In an answer with status 400, which servers after the examples of the TypeScript SDK send in place of 404.
_FORGOTTEN = re.compile(rb"(?i)session[ -]?id|not initialized")
_PART = re.compile(r"[^\n]*\n|[^\n]+")  # of a line
_SWITCHES = ("-m", "-u", "-y", "--yes", "run")  # of launchers; none takes a value but the program to launch


@dataclass(frozen=True, kw_only=True)
class Address:
    """The address of a server, and the way to reach it.

    Attributes:
        server: A URL, a command as a list, or a server object of the mcp package.
        headers: Headers of each request to a URL.
        auth: Signs each request to a URL.
        env: Variables of a command's process, besides those that every process gets.
        cwd: The directory of a command's process.
    """

    server: Any
    headers: Mapping[str, str] | None = field(default=None, repr=False)
    auth: httpx2.Auth | None = field(default=None, repr=False)
    env: Mapping[str, str] | None = field(default=None, repr=False)
    cwd: str | Path | None = None

    @property
    def is_url(self) -> bool:
        """True if it is a URL."""
        return isinstance(self.server, str)

    @property
    def is_command(self) -> bool:
        """True if it is a command."""
        return isinstance(self.server, list)

    @classmethod
    def parse(cls, server: Any, **options: Any) -> Address:
        """Make an address from a URL, a command or a server object.

        Raises:
            DefinitionError: `server` is none of them, or an option belongs to another kind or is invalid.
        """
        is_url = isinstance(server, str) and server.startswith(("http://", "https://"))
        if isinstance(server, str) and not is_url:
            server = shlex.split(server.replace("\\", r"\\") if sys.platform == "win32" else server)
        if isinstance(server, Sequence) and not is_url:
            server = [os.fspath(check_type("server", word, str, os.PathLike)) for word in server]
        if server in ("", []) or server is None or isinstance(server, (int, float, Mapping)):
            given = f"a {type(server).__name__}" if server else repr(server)  # a dict may hold secrets
            raise DefinitionError(
                f"MCP() takes a command, a URL or a server object, not {given}: "
                "write MCP('uvx bird-server'), or MCP([command, *args], env={...})."
            )

        address = cls(server=server, **options)
        kind = "a server object"
        allowed: tuple[str, ...] = ()
        if address.is_url:
            kind = "a URL"
            allowed = ("headers", "auth")
        elif address.is_command:
            kind = "a command"
            allowed = ("env", "cwd")
        other = next((name for name, value in options.items() if value is not None and name not in allowed), None)
        if other:
            raise DefinitionError(f"MCP() of {address}: {other}= cannot be used with {kind}.")

        check_headers(address.headers)
        check_env(address.env)
        check_type("cwd", address.cwd, str, os.PathLike, NoneType)
        if not isinstance(address.auth, (httpx2.Auth, type(None))):
            raise DefinitionError("auth= is not an httpx2.Auth. A key is sent by headers={'Authorization': key}.")
        return address

    def __str__(self) -> str:
        """Return the address without secrets: of a command only the program, since arguments may be keys."""
        if self.is_command:
            return str(self.server[0])
        if self.is_url:
            return str(httpx2.URL(self.server).copy_with(userinfo=b"", query=None, fragment=None))
        return type(self.server).__name__

    @property
    def short_name(self) -> str:
        """A name for the server, from its address alone: a host, a program, or the program that a launcher starts.

        Raises:
            DefinitionError: The argument of a launcher may be a key, and not a program.
        """
        if self.is_url:
            return httpx2.URL(self.server).host
        if self.is_command:
            program, *words = self.server
            if not _LAUNCHER.match(Path(program).stem):
                return Path(program).stem
            started = next((word for word in words if word not in _SWITCHES), "-")
            if started.startswith("-") or any(mark in started for mark in ("=", "?", "://")):
                raise DefinitionError(f"MCP() of {self}: what it starts has no plain name. Pass name=.")
            return Path(started).stem
        return str(getattr(self.server, "name", "") or "server")

    @asynccontextmanager
    async def open(self, seconds: float) -> AsyncIterator[Any]:
        """Open the server for a client of the mcp package: as Streams, or as the server object itself."""
        if self.is_url:
            options: dict[str, Any] = {
                "timeout": httpx2.Timeout(seconds, read=None),  # a stream may be silent; each request has its deadline
                "limits": httpx2.Limits(max_connections=None),  # no call waits for another one's connection
            }
            headers = {"Accept-Encoding": "identity", **(self.headers or {})}
            auth = _TokenAuth(self.auth) if isinstance(self.auth, OAuthClientProvider) else self.auth
            async with httpx2.AsyncClient(headers=headers, auth=auth, **options) as http:
                transport = streamable_http_client(self.server, http_client=http, max_sse_event_size=MAX_MESSAGE)
                streams = Streams(transport)
                http.event_hooks = {"response": [streams.on_response]}
                yield streams
        elif self.is_command:
            program, *arguments = self.server
            command = StdioServerParameters(
                command=program,
                args=arguments,
                env=None if self.env is None else dict(self.env),
                cwd=self.cwd,
                encoding=LINES,
                encoding_error_handler="replace",  # with "strict", one byte that is not UTF-8 would end all reading
            )
            inherited: Any = None  # its standard error is that of this process
            yield Streams(stdio_client(command, errlog=inherited))
        else:
            yield self.server


class _TokenAuth(httpx2.Auth):
    """Lets requests with a valid token be sent at the same time; a provider alone sends one after the other."""

    def __init__(self, provider: OAuthClientProvider) -> None:
        self._provider = provider

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        context = self._provider.context
        if context.current_tokens is not None and context.is_token_valid():
            request.headers["Authorization"] = f"Bearer {context.current_tokens.access_token}"
            response = yield request
            if response.status_code not in (httpx2.codes.UNAUTHORIZED, httpx2.codes.FORBIDDEN):
                return
        async with aclosing(self._provider.async_auth_flow(request)) as flow:
            sent = await anext(flow)
            with suppress(StopAsyncIteration):
                while True:
                    sent = await flow.asend((yield sent))


class Streams(AbstractAsyncContextManager[Any]):
    """The streams of a transport of the mcp package."""

    def __init__(self, streams: AbstractAsyncContextManager[Any]) -> None:
        self._streams = streams
        self.status: str | None = None  # the last HTTP status that is an error, such as "401 Unauthorized"
        self.fault = ""  # why this side ended the connection; empty if it did not
        self.has_ended: bool = False  # by the server
        # Receives each result of the server before the mcp package does, and may change it.
        self.on_result: Callable[[dict[str, Any]], object] | None = None

    async def __aenter__(self) -> Any:
        received, sent = await self._streams.__aenter__()
        return _Received(received, self), sent

    async def __aexit__(self, *error: Any) -> Any:
        return await self._streams.__aexit__(*error)

    async def on_response(self, response: httpx2.Response) -> None:
        """Limit an answer, and record an error, and the end of the session: status 404, or what some servers answer.

        Raises:
            httpx2.StreamError: The answer is compressed.
        """
        request = response.request
        media_type = response.headers.get("content-type", "").lower()
        has_events = media_type.startswith("text/event-stream")
        response.stream = _AnswerStream(response, math.inf if has_events else MAX_MESSAGE, MAX_MARKS)
        if response.is_error:
            self.status = f"{response.status_code} {httpx2.codes.get_reason_phrase(response.status_code)}".strip()
        if request.method != "POST" or "mcp-session-id" not in request.headers:
            return
        if response.status_code == httpx2.codes.BAD_REQUEST and media_type.startswith("application/json"):
            with suppress(httpx2.StreamError):  # it is too long
                if _FORGOTTEN.search(await response.aread()):
                    response.status_code = httpx2.codes.NOT_FOUND
        if response.status_code == httpx2.codes.NOT_FOUND:
            self.has_ended = True
            response.headers["content-type"] = "text/plain"  # so that the mcp package has one error for any body


class _AnswerStream(BoundedStream, httpx2.AsyncByteStream):
    error = httpx2.StreamError


class _LineDecoder(codecs.BufferedIncrementalDecoder):
    """Decodes UTF-8, leaves out lines that are no messages, and replaces a line that is too long by TOO_LONG."""

    # Of the last line: its bytes so far, whether it is blank so far, and whether it may be a message.
    length = 0
    is_start = True
    is_message = True

    def __init__(self, errors: str = "strict") -> None:
        super().__init__(errors)
        self._marks = MarkCounter()  # of the last line

    def _buffer_decode(self, input: Any, errors: str, final: bool) -> tuple[str, int]:  # noqa: A002, FBT001  the names of the base class
        return codecs.utf_8_decode(input, errors, final)

    def decode(self, input: Any, final: bool = False) -> str:  # noqa: A002, FBT001, FBT002  as above
        end = input.rfind(b"\n") + 1
        self.length = len(input) - end + (0 if end else self.length)
        if end:
            self._marks = MarkCounter()
        self._marks.add(input[end:])
        if self.length <= MAX_MESSAGE and self._marks.count <= MAX_MARKS:
            return "".join(filter(self._belongs_to_message, _PART.findall(super().decode(input, final))))
        self.reset()
        return f"\n{TOO_LONG}\n"  # which ends the connection

    def _belongs_to_message(self, part: str) -> bool:
        """Return whether a part of a line may belong to a message, which is an object in JSON."""
        if self.is_start and not part.strip():
            return False
        if self.is_start:
            self.is_message = part.lstrip().startswith("{")
            if not self.is_message:
                logger.warning("An MCP server has printed a line that is no message, which is left out: %.200r", part)
        self.is_start = part.endswith("\n")
        return self.is_message


def _find_codec(name: str) -> codecs.CodecInfo | None:
    utf8 = codecs.lookup("utf-8")
    return codecs.CodecInfo(utf8.encode, utf8.decode, incrementaldecoder=_LineDecoder) if name == LINES else None


codecs.register(_find_codec)


class _Received:
    """The stream of received messages, as far as the mcp package uses it."""

    def __init__(self, stream: Any, owner: Streams) -> None:
        self._stream = stream
        self._owner = owner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def __aenter__(self) -> _Received:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> Any:
        self._owner.has_ended = True  # before waiting calls are notified
        return await self._stream.__aexit__(*error)

    def __aiter__(self) -> _Received:
        return self

    async def __anext__(self) -> Any:
        item = await self._stream.__anext__()
        if isinstance(item, Exception) and TOO_LONG in str(item):
            self._owner.fault = f"it sent a line of more than {MAX_MESSAGE:,} bytes or {MAX_MARKS:,} values"
            raise StopAsyncIteration
        message = getattr(item, "message", None)
        if self._owner.on_result is not None and isinstance(message, types.JSONRPCResponse):
            self._owner.on_result(message.result)
        return item
