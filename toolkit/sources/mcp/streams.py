"""The streams to a server: they know when the server has ended them, and the last output of its command.

The mcp package bounds neither a line of a command nor an answer of a URL, so that is done here.
"""

from __future__ import annotations

import codecs
import os
import re
import sys
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any, BinaryIO

import anyio.to_thread
import httpx2
import mcp_types as types

from toolkit._schema.json_text import escape_confusable

MAX_MESSAGE = 16 * 2**20  # bytes
# The encoding of a command's output: UTF-8, up to MAX_MESSAGE bytes of a line.
LINES = "toolkit_lines"
# What stands for a line that is too long; no message.
TOO_LONG = "TOO LONG FOR TOOLKIT"
MAX_WORDS = 500  # characters at the end of a command's standard error that are shown
MAX_END = 4 * MAX_WORDS  # bytes that have so many
LAST_WORDS = 1.0  # seconds to wait for that end


class Streams(AbstractAsyncContextManager[Any]):
    """The streams of a transport of the mcp package.

    Attributes:
        has_ended: Whether the server has ended the connection.
        errors: The standard error of a command; None for a URL.
        status: The last HTTP status of a URL that is an error, such as "401 Unauthorized".
        fault: Why the connection was ended here; empty where it was not.
        on_result: Receives each result of the server before the mcp package does, and may change it.
    """

    def __init__(self, streams: AbstractAsyncContextManager[Any], errors: ErrorOutput | None = None) -> None:
        self._streams = streams
        self.errors = errors
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


class ErrorOutput:
    """The standard error of a command: passed on to that of this process, and its end stored.

    Attributes:
        file: For the command's process; closed here once that has it.
    """

    def __init__(self, hidden: Mapping[str, str]) -> None:
        """Open it.

        Args:
            hidden: What stands in place of each text that is not shown.
        """
        receiving, sending = os.pipe()
        self.file: BinaryIO = os.fdopen(sending, "wb")
        self._hidden = {os.fsencode(secret): placeholder.encode() for secret, placeholder in hidden.items()}
        self._secrets = re.compile(b"|".join(map(re.escape, self._hidden)) or b"(?!)")  # which matches nothing
        self._kept = MAX_END + max(map(len, self._hidden), default=0)  # each secret of the end is there as a whole
        self._end = b""
        self._thread = threading.Thread(target=self._pass_on, args=(receiving,), name="toolkit-mcp", daemon=True)
        self._thread.start()

    def _pass_on(self, receiving: int) -> None:
        with os.fdopen(receiving, "rb", buffering=0) as stream:
            while chunk := stream.read(65_536):
                self._end = (self._end + chunk)[-self._kept :]
                with suppress(
                    OSError, ValueError, AttributeError
                ):  # not by `write`, whose lock a thread must not hold at the exit
                    os.write((sys.__stderr__ or sys.stderr).fileno(), chunk)

    async def read_end(self) -> str:
        """Return the last lines; waits for the end of the command, for a moment."""
        await anyio.to_thread.run_sync(self._thread.join, LAST_WORDS)
        data = self._end
        start = max(len(data) - MAX_END, 0)
        for found in self._secrets.finditer(data):
            if found.start() < start < found.end():
                start = found.start()
        shown = self._secrets.sub(lambda found: self._hidden[found[0]], data[start:])
        text = shown.decode(errors="replace").strip()
        end = text[-MAX_WORDS:]
        return escape_confusable(end if end == text and not start else end.partition("\n")[2] or end, keep="\n")
