"""URLs, and the HTTP client of ready tools and sources: guarded connections, bounded time and bytes.

httpx2 parses a URL once, and its host is looked up once. If connections to all of its addresses are allowed, one of
them is used; TLS and the header Host keep the name. A URL is not judged by its text, but by the address of its host,
however that is written.

Each request has a guarded connection of its own, and uses no proxy. The time limit is for the whole exchange, redirects
included. Requests share no state, such as cookies, and use nothing from the environment, such as passwords.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, contextmanager
from functools import cached_property
from typing import Any, TypeVar

import httpcore2
import httpx2

from toolkit._guards.network import HOST_NAME, MAX_HOST_NAME, MAX_PORT, GuardedNetwork, RefusedConnection
from toolkit._guards.options import check_type
from toolkit.errors import DefinitionError, Failed

T = TypeVar("T")

TIMEOUT = 15.0  # seconds
MAX_BYTES = 2**20
MAX_REDIRECTS = 5
REDIRECT_STATUSES = (301, 302, 303, 307, 308)
FIRST_ERROR_STATUS = 400  # there is no highest one: some sites send 999 to programs
USER_AGENT = "Mozilla/5.0 (compatible; function-toolkit)"
SCHEMES = ("http", "https")
MAX_SHOWN = 200  # characters of a URL or an error in a message

# Supported encodings, by their names. A body that was compressed twice is not supported.
ENCODINGS = {"gzip": "gzip", "x-gzip": "gzip", "deflate": "deflate"}
# Other encodings. Any other name, such as "none" or "utf-8", means nothing, as in browsers.
OTHER_ENCODINGS = frozenset(("br", "zstd", "dcb", "dcz", "compress", "x-compress", "exi", "pack200-gzip", "aes128gcm"))
# Headers of `get`.
DEFAULT_HEADERS: Mapping[str, str] = {
    "Accept": "text/html, application/xhtml+xml, application/json;q=0.9, text/*;q=0.8, */*;q=0.1",
    "Accept-Encoding": "gzip, deflate",
    "Connection": "close",
}


class HttpClient(httpx2.AsyncBaseTransport):
    """Sends requests through a guarded network, with limits on time and size.

    A response has its body, decompressed, up to `max_bytes`. Its extension `is_cut` says whether there was more. This
    class can be the transport of an `httpx2.AsyncClient`.

    Args:
        network: Opens the connections.
        timeout: Seconds for a whole exchange, redirects included.
        max_bytes: The most bytes of a response that are read, decompressed.
        user_agent: Value of the header User-Agent, sent with `get`.
    """

    def __init__(
        self,
        network: GuardedNetwork,
        *,
        timeout: float | None = TIMEOUT,
        max_bytes: int = MAX_BYTES,
        user_agent: str = USER_AGENT,
    ) -> None:
        self._network = network
        self._timeout = timeout
        self._max_bytes = max_bytes
        self._headers = {**DEFAULT_HEADERS, "User-Agent": user_agent}

    @classmethod
    def for_server(cls, url: httpx2.URL, *, timeout: float | None, max_bytes: int = MAX_BYTES) -> HttpClient:
        """Make a client that connects only to the server of a URL, which the application chose, and may be private."""
        host = f"[{url.host}]" if ":" in url.host else url.raw_host.decode("ascii")
        port = url.port or {"http": 80, "https": 443}[url.scheme]
        return cls(GuardedNetwork([f"{host}:{port}"], ports=()), timeout=timeout, max_bytes=max_bytes)

    async def get(self, url: str) -> httpx2.Response:
        """Fetch a URL, following up to five redirects.

        Raises:
            Failed: The URL cannot be fetched. The text begins with `invalid URL`, `fetch error`, `read error` or
                `HTTP`.
        """
        try:
            start = parse_url(url)
        except ValueError as error:
            raise Failed(f"invalid URL: {error}") from None
        try:
            response = await self._limit_time(self._follow_redirects(start))
        except httpx2.HTTPError as error:
            raise Failed(str(error)) from error
        if response.status_code >= FIRST_ERROR_STATUS:
            raise Failed(f"HTTP {response.status_code} from {str(response.url)[:MAX_SHOWN]}")
        return response

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send one request, and return its response with any status. Redirects are not followed.

        Raises:
            httpx2.HTTPError: There is no complete response in time.
        """
        return await self._limit_time(self._exchange(request))

    async def _limit_time(self, exchange: Awaitable[T]) -> T:
        try:
            return await asyncio.wait_for(exchange, self._timeout)
        except (asyncio.TimeoutError, httpx2.TimeoutException) as error:
            raise httpx2.ReadTimeout(f"fetch error: it took longer than {self._timeout or 0:g} seconds") from error

    async def _follow_redirects(self, url: httpx2.URL) -> httpx2.Response:
        for _ in range(MAX_REDIRECTS + 1):
            request = httpx2.Request("GET", url, headers=self._headers)
            async with self._open_response(request) as response:
                target = _find_redirect(response, url)
                if target is None:
                    return await self._read_response(response, request)
            url = target
        raise Failed(f"fetch error: there are more than {MAX_REDIRECTS} redirects")

    async def _exchange(self, request: httpx2.Request) -> httpx2.Response:
        async with self._open_response(request) as response:
            return await self._read_response(response, request)

    @asynccontextmanager
    async def _open_response(self, request: httpx2.Request) -> AsyncIterator[httpcore2.Response]:
        """Send a request, and yield the response before its body is read."""
        url = request.url
        context = self._context if url.scheme == "https" else None
        async with (
            AsyncExitStack() as connections,
            httpcore2.AsyncConnectionPool(context, network_backend=_Backend(self._network, connections)) as pool,
        ):
            with _translate_errors("fetch error"):
                try:
                    check_url(url)
                except ValueError as error:
                    raise RefusedConnection(str(error)) from None
                response = await pool.handle_async_request(
                    httpcore2.Request(
                        request.method,
                        httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
                        headers=request.headers.raw,
                        content=request.stream,
                        extensions={**request.extensions, "timeout": {"connect": self._timeout}},
                    )
                )
            yield response

    async def _read_response(self, response: httpcore2.Response, request: httpx2.Request) -> httpx2.Response:
        headers = httpx2.Headers(response.headers)
        body = bytearray()
        with _translate_errors("read error"):
            headers["content-encoding"] = _choose_encoding(headers.get("content-encoding", ""))
            packed = httpx2.Response(response.status, headers=headers, content=response.aiter_stream())
            async with aclosing(packed.aiter_bytes()) as chunks:
                async for chunk in chunks:
                    body += chunk
                    if len(body) > self._max_bytes:
                        break

        headers.pop("content-encoding", None)
        if types := headers.get_list("content-type"):
            headers["content-type"] = types[-1]  # of several, browsers use the last
        return httpx2.Response(
            response.status,
            headers=headers,
            content=bytes(body[: self._max_bytes]),
            request=request,
            extensions={"is_cut": len(body) > self._max_bytes},
        )

    @cached_property
    def _context(self) -> ssl.SSLContext:
        return httpx2.create_ssl_context()  # with the system's authorities, or those of SSL_CERT_FILE


class _Backend(httpcore2.AsyncNetworkBackend):
    """Opens the connection of one exchange, and has it closed: httpcore2 does not if it is cancelled during TLS."""

    def __init__(self, network: GuardedNetwork, connections: AsyncExitStack) -> None:
        self._network = network
        self._connections = connections

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,  # noqa: ARG002  httpcore2 passes them
        socket_options: Iterable[Any] | None = None,  # noqa: ARG002
    ) -> httpcore2.AsyncNetworkStream:
        stream = await self._network.connect(host, port, timeout)
        self._connections.push_async_callback(stream.aclose)
        return stream


def _choose_encoding(names: str) -> str:
    """Return the encoding of a body by the value of its header, or "" if there is none."""
    listed = [name.strip().lower() for name in names.split(",")]
    known = [ENCODINGS[name] for name in listed if name in ENCODINGS]
    if len(known) > 1 or not OTHER_ENCODINGS.isdisjoint(listed):
        raise httpx2.DecodingError("the supported encodings are gzip and deflate")
    return "".join(known)


@contextmanager
def _translate_errors(phase: str) -> Iterator[None]:
    """Translate errors of httpcore2 to those of httpx2 with the same names. The message begins with the phase.

    The message does not repeat bytes of the server, which may contain a key from the request.
    """
    try:
        yield
    except (httpcore2.TimeoutException, httpcore2.NetworkError, httpcore2.ProtocolError, httpx2.HTTPError) as error:
        text = str(error)[:MAX_SHOWN] or type(error).__name__
        if isinstance(error, httpcore2.ProtocolError):
            text = text.partition(": ")[0]
        kind: type[Exception] = getattr(httpx2, type(error).__name__, type(error))
        raise kind(f"{phase}: {text}") from error


def _find_redirect(response: httpcore2.Response, url: httpx2.URL) -> httpx2.URL | None:
    """Return the URL to which a response redirects, or None if it does not."""
    location = httpx2.Headers(response.headers).get("location")
    if response.status not in REDIRECT_STATUSES or location is None:
        return None
    try:
        target = parse_url(location, url)
    except ValueError as error:
        raise Failed(f"fetch error: the redirect is an invalid URL: {error}") from None
    if (url.scheme, target.scheme) == ("https", "http"):
        raise Failed("fetch error: a redirect from https to http is not followed")
    return target


def parse_url(text: str, base: httpx2.URL | None = None) -> httpx2.URL:
    """Parse a URL of http or https without user and password, relative to `base` if there is one.

    Raises:
        ValueError: The URL is invalid; the message says why.
    """
    if "\\" in text:  # browsers treat it as a slash, other programs as a letter
        raise ValueError("there is a backslash in it")
    try:
        url = httpx2.URL(text.strip()) if base is None else base.join(text.strip())
    except (httpx2.InvalidURL, ValueError) as error:
        raise ValueError(str(error)[:MAX_SHOWN]) from None
    check_url(url)
    return url


def check_url(url: httpx2.URL) -> None:
    """Check the scheme, user, host and port of a URL. The addresses of the host are checked later.

    Raises:
        ValueError: It has another scheme, an invalid host or port, or a user.
    """
    if url.scheme not in SCHEMES:
        reason = f", not {url.scheme[:MAX_SHOWN]!r}" if url.scheme else ": begin with https://"
        raise ValueError(f"only http and https are supported{reason}")
    if url.userinfo:
        raise ValueError("user and password do not belong in it")
    host = url.raw_host.decode("ascii")
    if not (HOST_NAME.fullmatch(host) or ":" in host) or len(host) > MAX_HOST_NAME:
        raise ValueError(f"{host[:MAX_SHOWN]!r} is not a host name")
    if url.port is not None and not 0 < url.port <= MAX_PORT:
        raise ValueError(f"{url.port} is not a port")


def check_base_url(parameter: str, url: str) -> str:
    """Check the address of a service, and return it without a slash at its end.

    Raises:
        DefinitionError: It is no HTTP address, or has a user, a query or a fragment; the message names the parameter.
    """
    if not {"@", "?", "#"}.isdisjoint(check_type(parameter, url, str)):  # a user may be a secret, so it is not repeated
        raise DefinitionError(f"{parameter}= has a user, a query or a fragment: write 'https://api.example.org'.")
    try:
        parse_url(url)
    except ValueError:
        raise DefinitionError(
            f"{parameter}={url!r:.100} is not an address such as 'https://api.example.org'."
        ) from None
    return url.strip().rstrip("/")
