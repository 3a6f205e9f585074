"""URLs, and a network backend of httpcore2 that connects only to public addresses, and to what is allowed besides.

httpx2 parses a URL once. The host that it found is looked up once. If every address found may be connected to, one of
them is; TLS and the header Host keep the name. The text of a URL is not judged: what counts is the address to which it
leads, however the host is written.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import httpcore2
import httpx2

from toolkit._concurrency.cancellation import Cancellation
from toolkit._concurrency.threads import cancellation_error
from toolkit._guards.network import HOST_NAME, MAX_HOST_NAME, MAX_PORT, Dialer
from toolkit.errors import TimedOut

SCHEMES = ("http", "https")
MAX_SHOWN = 200  # characters of a URL or an error in a message


def parse_url(text: str, base: httpx2.URL | None = None) -> httpx2.URL:
    """Parse a URL of http or https without user and password, relative to `base` if there is one.

    Raises:
        ValueError: The URL is invalid; the message says why.
    """
    if "\\" in text:  # browsers read it as a slash, others as a letter
        raise ValueError("there is a backslash in it")
    try:
        url = httpx2.URL(text.strip()) if base is None else base.join(text.strip())
    except (httpx2.InvalidURL, ValueError) as error:
        raise ValueError(str(error)[:MAX_SHOWN]) from None
    check_url(url)
    return url


def check_url(url: httpx2.URL) -> None:
    """Check that a URL may be fetched, whatever its address is.

    Raises:
        ValueError: It has another scheme, an invalid host or port, or a user.
    """
    if url.scheme not in SCHEMES:
        reason = f", not {url.scheme[:MAX_SHOWN]!r}" if url.scheme else ": begin with https://"
        raise ValueError(f"only http and https are fetched{reason}")
    if url.userinfo:
        raise ValueError("user and password do not belong into it")
    host = url.raw_host.decode("ascii")
    if not (HOST_NAME.fullmatch(host) or ":" in host) or len(host) > MAX_HOST_NAME:
        raise ValueError(f"{host[:MAX_SHOWN]!r} is not a host name")
    if url.port is not None and not 0 < url.port <= MAX_PORT:
        raise ValueError(f"{url.port} is not a port")


class NetworkBackend(httpcore2.NetworkBackend):
    """Gives httpcore2 the connections of one dialer.

    Args:
        dialer: Opens the connections.
        cancellation: Stops a lookup, connect, handshake or read at once, however slowly its bytes arrive.
    """

    def __init__(self, dialer: Dialer, cancellation: Cancellation) -> None:
        self._dialer, self._cancellation = dialer, cancellation

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,  # noqa: ARG002  httpcore2 names them
        socket_options: Iterable[Any] | None = None,  # noqa: ARG002
    ) -> httpcore2.NetworkStream:
        with (
            Cancellation(timeout, self._cancellation) as limit,
            _translate_os_errors(httpcore2.ConnectTimeout, httpcore2.ConnectError),
        ):
            return _NetworkStream(self._dialer.dial(host, port, limit), self._cancellation)


class _NetworkStream(httpcore2.NetworkStream):
    """One connection, which is shut down when `cancellation` is cancelled, whatever it is doing."""

    def __init__(self, connection: socket.socket, cancellation: Cancellation) -> None:
        self._socket: Any = connection
        self._cancellation = cancellation
        self._unsubscribe = cancellation.subscribe(self._shut_down)

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        with _translate_os_errors(httpcore2.ReadTimeout, httpcore2.ReadError):
            self._set_timeout(timeout)
            data: bytes = self._socket.recv(max_bytes)
        if not data and self._cancellation:  # this end was shut down, not the server's
            raise cancellation_error(self._cancellation)
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        with _translate_os_errors(httpcore2.WriteTimeout, httpcore2.WriteError):
            self._set_timeout(timeout)
            self._socket.sendall(buffer)

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.NetworkStream:
        with ExitStack() as on_error, _translate_os_errors(httpcore2.ConnectTimeout, httpcore2.ConnectError):
            on_error.callback(self.close)
            self._socket = ssl_context.wrap_socket(
                self._socket, server_hostname=server_hostname, do_handshake_on_connect=False
            )
            self._set_timeout(timeout)  # notices a cancellation that came before `_shut_down` could reach this socket
            self._socket.do_handshake()
            on_error.pop_all()
        return self

    def close(self) -> None:
        self._unsubscribe()
        self._socket.close()

    def get_extra_info(self, info: str) -> Any:
        return self._socket if info == "socket" else None

    def _set_timeout(self, timeout: float | None) -> None:
        if self._cancellation:
            raise cancellation_error(self._cancellation)
        times = [time for time in (timeout, self._cancellation.remaining) if time is not None]
        self._socket.settimeout(min(times, default=None))

    def _shut_down(self) -> None:
        # Closing would not wake a reader; the `shutdown` of a TLS socket would take the TLS state from the reader.
        with suppress(OSError):
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)


@contextmanager
def _translate_os_errors(timeout: type[Exception], failure: type[Exception]) -> Iterator[None]:
    """Raise errors of the system, and deadlines, as errors of httpcore2."""
    try:
        yield
    except (TimeoutError, TimedOut) as error:
        raise timeout(str(error)) from error
    except OSError as error:
        raise failure(str(error)) from error
