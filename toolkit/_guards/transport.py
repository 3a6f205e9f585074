"""A transport for httpx2 that connects to nothing but public addresses, and to what is allowed besides.

A URL is parsed once, by httpx2; what it makes of the host is looked up once; if each address that comes of it may be
connected to, one of them is, and TLS and the header Host keep the name. No text of a URL is judged: however a host is
written, what counts is where it leads. Whoever follows redirects sends each one through here.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import httpcore2
import httpx2

from toolkit._concurrency.cancellation import Cancellation
from toolkit._concurrency.threads import cancellation_error
from toolkit._guards.network import LAST_PORT, LONGEST_NAME, NAME, Dialer, Refused
from toolkit.errors import TimedOut

SCHEMES = ("http", "https")
SHOWN = 200  # characters


def parsed(text: str, base: httpx2.URL | None = None) -> httpx2.URL:
    """Read a URL of http or https, without user and password; a relative one where there is a base.

    Raises:
        ValueError: It is none; the message says why.
    """
    if "\\" in text:  # to browsers it is a slash, and to others a letter
        raise ValueError("there is a backslash in it")
    try:
        url = httpx2.URL(text.strip()) if base is None else base.join(text.strip())
    except (httpx2.InvalidURL, ValueError) as error:
        raise ValueError(str(error)[:SHOWN]) from None
    check(url)
    return url


def check(url: httpx2.URL) -> None:
    """Refuse what is not fetched, wherever it leads.

    Raises:
        ValueError: It is another scheme, names nobody's host, or tells who asks.
    """
    if url.scheme not in SCHEMES:
        said = f", not {url.scheme[:SHOWN]!r}" if url.scheme else ": begin with https://"
        raise ValueError(f"only http and https are fetched{said}")
    if url.userinfo:
        raise ValueError("user and password do not belong into it")
    host = url.raw_host.decode("ascii")
    if not (NAME.fullmatch(host) or ":" in host) or len(host) > LONGEST_NAME:
        raise ValueError(f"{host[:SHOWN]!r} is no host")
    if url.port is not None and not 0 < url.port <= LAST_PORT:
        raise ValueError(f"{url.port} is no port")


class GuardedTransport(httpx2.BaseTransport):
    """Sends requests, each on a connection of its own, by HTTP/1.1, through no proxy.

    Args:
        dialer: Opens the connections.
        cancellation: Ends what is under way: a lookup, a connect, a handshake, a read, however slowly its bytes drip.
        context: Checks certificates; the system's authorities by default.
    """

    def __init__(
        self, dialer: Dialer, cancellation: Cancellation | None = None, context: ssl.SSLContext | None = None
    ) -> None:
        backend = _Backend(dialer, Cancellation() if cancellation is None else cancellation)
        self._pool = httpcore2.ConnectionPool(context, network_backend=backend, max_keepalive_connections=0)

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request.

        Raises:
            Refused: It leads where it may not.
            TransportError: It cannot be sent, or there is no answer.
        """
        url = request.url
        try:
            check(url)
        except ValueError as error:
            raise Refused(str(error)) from None
        sent = httpcore2.Request(
            request.method,
            httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
            headers=request.headers.raw,
            content=request.stream,
            extensions=request.extensions,
        )
        with _errors_of_httpx2():
            got = self._pool.handle_request(sent)
        return httpx2.Response(got.status, headers=got.headers, stream=_Body(got), extensions=got.extensions)

    def close(self) -> None:
        """Close what is still open."""
        self._pool.close()


class _Body(httpx2.SyncByteStream):
    def __init__(self, response: httpcore2.Response) -> None:
        self._response = response

    def __iter__(self) -> Iterator[bytes]:
        with _errors_of_httpx2():
            yield from self._response.iter_stream()

    def close(self) -> None:
        self._response.close()


class _Backend(httpcore2.NetworkBackend):
    """Where httpcore2 gets its connections: all of them from one dialer."""

    def __init__(self, dialer: Dialer, cancellation: Cancellation) -> None:
        self._dialer, self._until = dialer, cancellation

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,  # noqa: ARG002  httpcore2 names them
        socket_options: Iterable[Any] | None = None,  # noqa: ARG002
    ) -> httpcore2.NetworkStream:
        with Cancellation(timeout, self._until) as limit, _named(httpcore2.ConnectTimeout, httpcore2.ConnectError):
            return _Stream(self._dialer.dial(host, port, limit), self._until)


class _Stream(httpcore2.NetworkStream):
    """One connection, which ends with `cancellation` whatever it is doing."""

    def __init__(self, connection: socket.socket, cancellation: Cancellation) -> None:
        self._socket: Any = connection
        self._until = cancellation
        self._leave = cancellation.subscribe(self._break)

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        with _named(httpcore2.ReadTimeout, httpcore2.ReadError):
            self._set(timeout)
            data: bytes = self._socket.recv(max_bytes)
        if not data and self._until:  # the end is not the server's
            raise cancellation_error(self._until)
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        with _named(httpcore2.WriteTimeout, httpcore2.WriteError):
            self._set(timeout)
            self._socket.sendall(buffer)

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.NetworkStream:
        with _named(httpcore2.ConnectTimeout, httpcore2.ConnectError), self._closing():
            self._socket = ssl_context.wrap_socket(
                self._socket, server_hostname=server_hostname, do_handshake_on_connect=False
            )
            self._set(timeout)  # from here on `_break` reaches it; what came before is seen now
            self._socket.do_handshake()
        return self

    def close(self) -> None:
        self._leave()
        self._socket.close()

    def get_extra_info(self, info: str) -> Any:
        return self._socket if info == "socket" else None

    def _set(self, timeout: float | None) -> None:
        if self._until:
            raise cancellation_error(self._until)
        times = [time for time in (timeout, self._until.remaining) if time is not None]
        self._socket.settimeout(min(times, default=None))

    def _break(self) -> None:
        # To close it would not wake who reads from it; a TLS socket's own shutdown would take its state from it.
        with suppress(OSError):
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    @contextmanager
    def _closing(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.close()
            raise


@contextmanager
def _named(late: type[Exception], failed: type[Exception]) -> Iterator[None]:
    """Call errors of the system, and time that is up, as httpcore2 calls them."""
    try:
        yield
    except (TimeoutError, TimedOut) as error:
        raise late(str(error)) from error
    except OSError as error:
        raise failed(str(error)) from error


@contextmanager
def _errors_of_httpx2() -> Iterator[None]:
    """Call httpcore2's errors as httpx2 calls them: by the same names."""
    try:
        yield
    except (httpcore2.TimeoutException, httpcore2.NetworkError, httpcore2.ProtocolError) as error:
        kind: type[httpx2.TransportError] = getattr(httpx2, type(error).__name__, httpx2.TransportError)
        raise kind(str(error)) from error
