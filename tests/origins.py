"""A server on loopback that sends whatever bytes a test wants, as slowly as it wants."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from types import TracebackType
from typing import TypeAlias

from typing_extensions import Self

# Gets what was asked, and gives the pieces of what is sent back.
Answer: TypeAlias = Callable[[bytes], Iterable[bytes]]


def http(body: bytes = b"", *headers: str, status: str = "200 OK") -> list[bytes]:
    """An answer with its length."""
    lines = [f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(body)}", "Connection: close", "", ""]
    return ["\r\n".join(lines).encode("latin-1"), body]


class Origin:
    """Answers each request by a function; `requests` are the heads and bodies that came."""

    def __init__(self, answer: Answer, context: ssl.SSLContext | None = None) -> None:
        self._answer, self._context = answer, context
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self.port: int = self._listening.getsockname()[1]
        self.url = f"{'https' if context else 'http'}://127.0.0.1:{self.port}"
        self.requests: list[bytes] = []
        self.closing = threading.Event()
        self.asked = threading.Event()

    def drip(self, *pieces: bytes, piece: bytes, every: float = 0.01) -> Iterable[bytes]:
        """Pieces, and then one again and again, for as long as the server runs."""
        yield from pieces
        while not self.closing.wait(every):
            yield piece

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.closing.set()
        for connection in [self._listening, *self._open]:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listening.accept()
                self._open.append(connection)
                thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _serve(self, plain: socket.socket) -> None:
        with suppress(OSError), plain:
            connection = self._context.wrap_socket(plain, server_side=True) if self._context else plain
            with connection:
                self._open.append(connection)
                self.requests.append(_request(connection))
                self.asked.set()
                for piece in self._answer(self.requests[-1]):
                    connection.sendall(piece)


def _request(connection: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(65536)
        if not data:
            return data
    head, _, body = data.partition(b"\r\n\r\n")
    length = next((int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0)
    while len(body) < length:
        body += connection.recv(65536)
    return head + b"\r\n\r\n" + body
