"""The HTTP client of ready tools and sources: guarded connections, bounded time and bytes.

Each request has a guarded connection of its own, through no proxy. Time covers the whole exchange, redirects included;
bytes are counted before and after decompression. Requests share no state and take nothing from the environment: no
cookies, no password. Sync callers use `get` and `send`, async callers `asend`, or `AsyncTransport` where they need an
`httpx2.AsyncClient`.
"""

from __future__ import annotations

import ssl
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import cached_property, partial

import httpcore2
import httpx2

from toolkit._concurrency.cancellation import Cancellation, current_cancellation
from toolkit._concurrency.tasks import run_to_end
from toolkit._concurrency.threads import cancellation_error
from toolkit._guards.network import Dialer, RefusedConnection
from toolkit._guards.transport import MAX_SHOWN, NetworkBackend, check_url, parse_url
from toolkit.errors import Cancelled, Failed, TimedOut

TIMEOUT = 15.0  # seconds
MAX_BYTES = 2**20
MAX_REDIRECTS = 5
REDIRECT_STATUSES = (301, 302, 303, 307, 308)
FIRST_ERROR_STATUS = 400  # 999 is one, too: some sites send it to programs
USER_AGENT = "Mozilla/5.0 (compatible; function-toolkit)"

# Encodings that can be decompressed up to a size. Others, and bodies compressed twice, are not read.
ENCODINGS = ("identity", "gzip", "deflate")
# Headers of `get`.
DEFAULT_HEADERS: Mapping[str, str] = {
    "Accept": "text/html, application/xhtml+xml, application/json;q=0.9, text/*;q=0.8, */*;q=0.1",
    "Accept-Encoding": "gzip, deflate",
    "Connection": "close",
}


class HttpError(Failed):
    """A request got no complete response; the cause is an exception of httpx2, or that of the deadline."""


class HttpTimeout(HttpError):
    """A request took too long."""


class HttpClient:
    """Sends requests through the guard, within a time and up to a size.

    A response has its whole body, decompressed; its extension `is_cut` says whether there was more.

    Args:
        dialer: Opens the connections.
        timeout: Seconds for a whole exchange, redirects included.
        max_bytes: Bytes of a response that are read, before and after decompression; the rest is left.
        user_agent: Value of the header User-Agent, sent with `get`.
        context: Checks certificates; by default, the system's authorities, or those of `SSL_CERT_FILE`.
    """

    def __init__(
        self,
        dialer: Dialer,
        *,
        timeout: float | None = TIMEOUT,
        max_bytes: int = MAX_BYTES,
        user_agent: str = USER_AGENT,
        context: ssl.SSLContext | None = None,
    ) -> None:
        self._dialer, self._timeout, self._max_bytes = dialer, timeout, max_bytes
        self._headers = {**DEFAULT_HEADERS, "User-Agent": user_agent}
        self._given_context = context

    @classmethod
    def for_server(cls, url: httpx2.URL, *, timeout: float | None = TIMEOUT, max_bytes: int = MAX_BYTES) -> HttpClient:
        """Make a client for one server that the application chose: it connects to nothing else, public or not.

        Args:
            url: An address of the server; its path is ignored.
            timeout: Seconds for a whole exchange.
            max_bytes: Bytes of a response that are read.
        """
        host = f"[{url.host}]" if ":" in url.host else url.raw_host.decode("ascii")
        port = url.port or {"http": 80, "https": 443}[url.scheme]
        return cls(Dialer([f"{host}:{port}"], ports=()), timeout=timeout, max_bytes=max_bytes)

    def get(self, url: str, cancellation: Cancellation | None = None) -> httpx2.Response:
        """Fetch a URL, following up to five redirects.

        Raises:
            Failed: There is no page; the text begins with `invalid URL`, `fetch error`, `read error` or `HTTP`.
            Cancelled: `cancellation` was cancelled.
            TimedOut: The deadline of `cancellation` has passed.
        """
        try:
            start = parse_url(url)
        except ValueError as error:
            raise Failed(f"invalid URL: {error}") from None
        with self._limit(cancellation) as limit:
            response = self._follow_redirects(start, limit)
        if response.status_code >= FIRST_ERROR_STATUS:
            raise Failed(f"HTTP {response.status_code} from {str(response.url)[:MAX_SHOWN]}")
        return response

    def send(self, request: httpx2.Request, cancellation: Cancellation | None = None) -> httpx2.Response:
        """Send one request, and return its response whatever the status, that of a redirect too.

        Raises:
            HttpError: There is no complete response; HttpTimeout if it took too long.
            Cancelled: `cancellation` was cancelled.
            TimedOut: The deadline of `cancellation` has passed.
        """
        with self._limit(cancellation) as limit, self._open_response(request, limit) as response:
            return self._read_response(response, request, limit)

    async def asend(self, request: httpx2.Request) -> httpx2.Response:
        """Send one request on a thread, as `send` does; the connection is closed when the task or run is cancelled."""
        outer = current_cancellation.get()
        return await run_to_end(partial(self.send, request), Cancellation() if outer is None else outer)

    @contextmanager
    def _limit(self, cancellation: Cancellation | None) -> Iterator[Cancellation]:
        """Bound the time of an exchange; if the caller's `cancellation` ends it, raise that error."""
        with Cancellation(self._timeout, cancellation) as limit:
            try:
                yield limit
            except Failed:
                if cancellation:
                    raise cancellation_error(cancellation) from None
                raise

    def _follow_redirects(self, url: httpx2.URL, limit: Cancellation) -> httpx2.Response:
        for _ in range(MAX_REDIRECTS + 1):
            request = httpx2.Request("GET", url, headers=self._headers)
            with self._open_response(request, limit) as response:
                target = _find_redirect(response, url)
                if target is None:
                    return self._read_response(response, request, limit)
            url = target
        raise Failed(f"fetch error: there are more than {MAX_REDIRECTS} redirects")

    @contextmanager
    def _open_response(self, request: httpx2.Request, limit: Cancellation) -> Iterator[httpcore2.Response]:
        backend, url = NetworkBackend(self._dialer, limit), request.url
        context = self._context if url.scheme == "https" else None
        with httpcore2.ConnectionPool(context, network_backend=backend, max_keepalive_connections=0) as pool:
            with self._translate_errors("fetch error", limit):
                try:
                    check_url(url)
                except ValueError as error:
                    raise RefusedConnection(str(error)) from None
                response = pool.handle_request(
                    httpcore2.Request(
                        request.method,
                        httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
                        headers=request.headers.raw,
                        content=request.stream,
                        extensions=request.extensions,
                    )
                )
            with closing(response):
                yield response

    def _read_response(
        self, response: httpcore2.Response, request: httpx2.Request, limit: Cancellation
    ) -> httpx2.Response:
        headers = httpx2.Headers(response.headers)
        with self._translate_errors("read error", limit):
            encoding = headers.get("content-encoding", "").lower() or "identity"
            if encoding not in ENCODINGS:
                raise httpx2.DecodingError(f"of encodings, only {' and '.join(ENCODINGS[1:])} are read")
            data, is_cut = _take_bytes(response.iter_stream(), self._max_bytes)
            body, has_more = _decompress(data, encoding, self._max_bytes)
        headers.pop("content-encoding", None)
        if types := headers.get_list("content-type"):
            headers["content-type"] = types[-1]  # of several, browsers take the last
        extensions = {"is_cut": is_cut or has_more}
        return httpx2.Response(response.status, headers=headers, content=body, request=request, extensions=extensions)

    @contextmanager
    def _translate_errors(self, phase: str, limit: Cancellation) -> Iterator[None]:
        try:
            with _translate_httpcore_errors():
                yield
        except (httpx2.HTTPError, TimedOut, Cancelled) as error:
            if limit:
                seconds = self._timeout or 0  # without a timeout, the caller's cancellation ended it: see `_limit`
                raise HttpTimeout(f"{phase}: it took longer than {seconds:g} seconds") from error
            kind = HttpTimeout if isinstance(error, httpx2.TimeoutException) else HttpError
            raise kind(f"{phase}: {_describe_error(error) or type(error).__name__}") from error

    @cached_property
    def _context(self) -> ssl.SSLContext:
        return self._given_context or httpx2.create_ssl_context()


class AsyncTransport(httpx2.AsyncBaseTransport):
    """Sends the requests of an `httpx2.AsyncClient` by an `HttpClient`, for auth flows of httpx2."""

    def __init__(self, client: HttpClient) -> None:
        self._client = client

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request.

        Raises:
            HTTPError: There is no complete response.
        """
        try:
            return await self._client.asend(request)
        except HttpError as error:
            cause = error.__cause__
            raise cause if isinstance(cause, httpx2.HTTPError) else httpx2.ReadTimeout(str(error)) from None


@contextmanager
def _translate_httpcore_errors() -> Iterator[None]:
    """Raise errors of httpcore2 as those of httpx2, which have the same names."""
    try:
        yield
    except (httpcore2.TimeoutException, httpcore2.NetworkError, httpcore2.ProtocolError) as error:
        kind: type[httpx2.TransportError] = getattr(httpx2, type(error).__name__, httpx2.TransportError)
        raise kind(str(error)) from error


def _describe_error(error: Exception) -> str:
    """Describe an error without the bytes of the server, which may repeat a key that was sent."""
    text = str(error)
    return text.partition(": ")[0] if isinstance(error, httpx2.ProtocolError) else text[:MAX_SHOWN]


def _take_bytes(chunks: Iterable[bytes], size: int) -> tuple[bytes, bool]:
    """Return the first bytes of a stream, and whether there are more."""
    data = bytearray()
    for chunk in chunks:
        data += chunk
        if len(data) > size:
            return bytes(data[:size]), True
    return bytes(data), False


def _decompress(data: bytes, encoding: str, size: int) -> tuple[bytes, bool]:
    """Decompress bytes up to a size, and return whether there are more, or the end of the data is missing."""
    if encoding == "identity" or not data:
        return data, False
    is_raw = encoding == "deflate" and data[0] & 15 != zlib.DEFLATED  # RFC 1950, 2.2: many servers send no header
    decompressor = zlib.decompressobj(-zlib.MAX_WBITS if is_raw else zlib.MAX_WBITS + 32)  # 32: zlib or gzip
    try:
        body = decompressor.decompress(data, size + 1)
    except zlib.error as error:
        raise httpx2.DecodingError(str(error)) from error
    return body[:size], not decompressor.eof


def _find_redirect(response: httpcore2.Response, url: httpx2.URL) -> httpx2.URL | None:
    """Return the URL to which a response redirects, if it does."""
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
