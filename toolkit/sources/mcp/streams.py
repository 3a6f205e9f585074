"""The streams to a server: they know when the server has ended them.

The mcp package bounds neither a line of a command nor an answer of a URL, so that is done here.
"""

from __future__ import annotations

import codecs
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import httpx2
import mcp_types as types

MAX_MESSAGE = 16 * 2**20  # bytes
# The encoding of a command's output: UTF-8, up to MAX_MESSAGE bytes of a line.
LINES = "toolkit_lines"
# What stands for a line that is too long; no message.
TOO_LONG = "TOO LONG FOR TOOLKIT"


class Streams(AbstractAsyncContextManager[Any]):
    """The streams of a transport of the mcp package.

    Attributes:
        has_ended: Whether the server has ended the connection.
        status: The last HTTP status of a URL that is an error, such as "401 Unauthorized".
        fault: Why the connection was ended here; empty where it was not.
        on_result: Receives each result of the server before the mcp package does, and may change it.
    """

    def __init__(self, streams: AbstractAsyncContextManager[Any]) -> None:
        self._streams = streams
        self.status: str | None = None
        self.fault = ""
        self.has_ended: bool = False
        self.on_result: Callable[[dict[str, Any]], object] | None = None

    async def __aenter__(self) -> Any:
        received, sent = await self._streams.__aenter__()
        return _Received(received, self), sent

    async def __aexit__(self, *error: Any) -> Any:
        return await self._streams.__aexit__(*error)

    async def on_response(self, response: httpx2.Response) -> None:
        """Bound an answer, and notice errors, and that the session is gone: by status 404, whatever the body says.

        Raises:
            httpx2.StreamError: It is compressed, although that was not asked for: it may grow a thousandfold.
        """
        request = response.request
        if response.headers.get("content-encoding", "identity") != "identity":
            raise httpx2.StreamError("it is compressed")
        if not response.headers.get("content-type", "").lower().startswith("text/event-stream"):
            response.stream = _BoundedStream(response.stream)
        if response.is_error:
            self.status = f"{response.status_code} {httpx2.codes.get_reason_phrase(response.status_code)}".strip()
        if response.status_code == httpx2.codes.NOT_FOUND and request.method == "POST":
            self.has_ended |= "mcp-session-id" in request.headers


class _BoundedStream(httpx2.AsyncByteStream):
    """The bytes of an answer that is one message."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = MAX_MESSAGE
        async for chunk in self._stream:
            left -= len(chunk)
            if left < 0:
                raise httpx2.StreamError(f"it has more than {MAX_MESSAGE:,} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


class _LineDecoder(codecs.BufferedIncrementalDecoder):
    """Decodes UTF-8; in place of a line that is too long stands one that says so."""

    length = 0  # bytes of the line that has not ended
    skips = False  # its rest

    def _buffer_decode(self, input: Any, errors: str, final: bool) -> tuple[str, int]:  # noqa: A002, FBT001  the names of the base class
        return codecs.utf_8_decode(input, errors, final)

    def decode(self, input: Any, final: bool = False) -> str:  # noqa: A002, FBT001, FBT002  as above
        data = input
        if self.skips:
            _, newline, data = data.partition(b"\n")
            self.skips = not newline
        end = data.rfind(b"\n") + 1
        self.length = len(data) - end + (0 if end else self.length)
        if self.length > MAX_MESSAGE:
            self.skips, self.length = True, 0
            self.reset()
            return f"\n{TOO_LONG}\n"
        return super().decode(data, final)


def _find_codec(name: str) -> codecs.CodecInfo | None:
    utf8 = codecs.lookup("utf-8")
    return codecs.CodecInfo(utf8.encode, utf8.decode, incrementaldecoder=_LineDecoder) if name == LINES else None


codecs.register(_find_codec)


class _Received:
    """The stream of received messages, as far as the mcp package uses it."""

    def __init__(self, stream: Any, owner: Streams) -> None:
        self._stream, self._owner = stream, owner

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
            self._owner.fault = f"it sent a line of more than {MAX_MESSAGE:,} bytes"
            raise StopAsyncIteration
        message = getattr(item, "message", None)
        if self._owner.on_result is not None and isinstance(message, types.JSONRPCResponse):
            self._owner.on_result(message.result)
        return item
