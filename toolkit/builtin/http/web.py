"""Getting pages through the guard: within a time, up to a size, redirect by redirect."""

from __future__ import annotations

import ssl
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

import httpx2

from toolkit._concurrency.cancellation import Cancellation
from toolkit._concurrency.threads import over
from toolkit._guards.network import Dialer, Refused
from toolkit._guards.transport import SHOWN, GuardedTransport, parsed
from toolkit.errors import Cancelled, Failed, TimedOut

TIMEOUT = 15.0  # seconds
MAX_BYTES = 2**20
USER_AGENT = "Mozilla/5.0 (compatible; function-toolkit)"
REDIRECTS = 5
REDIRECTING = (301, 302, 303, 307, 308)
FAILING = 400  # and above

# What is asked for, and can be decompressed up to a size. What comes otherwise, or twice compressed, is not read.
ENCODINGS = ("identity", "gzip", "deflate")
SAID: Mapping[str, str] = MappingProxyType(
    {
        "User-Agent": USER_AGENT,
        "Accept": "text/html, application/xhtml+xml, application/json;q=0.9, text/*;q=0.8, */*;q=0.1",
        "Accept-Encoding": "gzip, deflate",
        "Connection": "close",
    }
)


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a server answered, with whatever status.

    Attributes:
        url: Where it was found, behind all redirects.
        status: HTTP status.
        headers: Its headers.
        body: Its bytes, decompressed.
        is_cut: Whether there was more of it.
    """

    url: str
    status: int
    headers: httpx2.Headers
    body: bytes
    is_cut: bool

    @property
    def media_type(self) -> str:
        """Such as `text/html`; empty where the server says nothing."""
        return self._content_type.partition(";")[0].strip().lower()

    @property
    def charset(self) -> str | None:
        """What the server says of the encoding of its text."""
        return httpx2.Response(self.status, headers={"content-type": self._content_type}).charset_encoding

    @property
    def _content_type(self) -> str:
        return (self.headers.get_list("content-type") or [""])[-1]  # of several, browsers take the last


class Web:
    """Gets pages, within a time and up to a size.

    Nothing is kept between two requests, nor taken from the environment: no cookies, no proxy, no password.

    Args:
        dialer: Opens the connections.
        timeout: Seconds for all of it, redirects included.
        max_bytes: How much is read, before and after decompression; what follows is left.
        headers: Sent with `get`, but not on to another host.
        context: Checks certificates; by default, the system's authorities, or those of `SSL_CERT_FILE`.
    """

    def __init__(
        self,
        dialer: Dialer,
        *,
        timeout: float = TIMEOUT,
        max_bytes: int = MAX_BYTES,
        headers: Mapping[str, str] | None = None,
        context: ssl.SSLContext | None = None,
    ) -> None:
        self._dialer, self._timeout, self._max_bytes = dialer, timeout, max_bytes
        self._headers, self._given = httpx2.Headers(headers), context

    def get(self, url: str, until: Cancellation | None = None) -> Answer:
        """Get what is at a URL, by way of five redirects at most.

        Raises:
            Failed: It cannot be had; the text begins with `invalid URL`, `fetch error`, `read error` or `HTTP`.
            Cancelled: `until` was called off.
            TimedOut: `until` has no time left.
        """
        try:
            start = parsed(url)
        except ValueError as error:
            raise Failed(f"invalid URL: {error}") from None
        with self._limited(until) as limit:
            answer = self._followed(start, limit)
        if answer.status >= FAILING:
            raise Failed(f"HTTP {answer.status} from {answer.url[:SHOWN]}")
        return answer

    def send(self, request: httpx2.Request, until: Cancellation | None = None) -> Answer:
        """Send one request; any status is an answer, that of a redirect too.

        Raises:
            Failed: As for `get`, and so are the others.
        """
        with self._limited(until) as limit, self._sent(request, limit) as response:
            return self._read(response, request.url, limit)

    @contextmanager
    def _limited(self, until: Cancellation | None) -> Iterator[Cancellation]:
        with Cancellation(self._timeout, until) as limit:
            try:
                yield limit
            except Failed as error:
                raise over(until) if until else error from None

    def _followed(self, url: httpx2.URL, limit: Cancellation) -> Answer:
        said = httpx2.Headers(SAID)
        headers = said.copy()
        headers.update(self._headers)
        for _ in range(REDIRECTS + 1):
            with self._sent(httpx2.Request("GET", url, headers=headers), limit) as response:
                goal = _goal(response, url)
                if goal is None:
                    return self._read(response, url, limit)
            headers = headers if _origin(goal) == _origin(url) else said
            url = goal
        raise Failed(f"fetch error: there are more than {REDIRECTS} redirects")

    @contextmanager
    def _sent(self, request: httpx2.Request, limit: Cancellation) -> Iterator[httpx2.Response]:
        context = self._context if request.url.scheme == "https" else None
        with GuardedTransport(self._dialer, limit, context) as transport:
            with self._told("fetch error", limit):
                response = transport.handle_request(request)
            with closing(response):
                yield response

    def _read(self, response: httpx2.Response, url: httpx2.URL, limit: Cancellation) -> Answer:
        encoding = response.headers.get("content-encoding", "").lower() or "identity"
        if encoding not in ENCODINGS:
            raise Failed(f"read error: of encodings, only {' and '.join(ENCODINGS[1:])} are read")
        with self._told("read error", limit):
            sent, is_cut = _first(response.iter_raw(), self._max_bytes)
            body, goes_on = _decompressed(sent, encoding, self._max_bytes)
        return Answer(
            url=str(url),
            status=response.status_code,
            headers=response.headers,
            body=body,
            is_cut=is_cut or goes_on,
        )

    @contextmanager
    def _told(self, what: str, limit: Cancellation) -> Iterator[None]:
        try:
            yield
        except (httpx2.HTTPError, zlib.error, Refused, TimedOut, Cancelled) as error:
            why = f"it took longer than {self._timeout:g} seconds" if limit else _why(error)
            raise Failed(f"{what}: {why or type(error).__name__}") from error

    @cached_property
    def _context(self) -> ssl.SSLContext:
        return self._given or httpx2.create_ssl_context()


def _why(error: Exception) -> str:
    """Say what is wrong, without the bytes of a server that are: they could be anything, a key that it was sent too."""
    text = str(error)
    return text.partition(": ")[0] if isinstance(error, httpx2.ProtocolError) else text[:SHOWN]


def _first(pieces: Iterable[bytes], size: int) -> tuple[bytes, bool]:
    """Give the first bytes of a stream, and tell whether there are more."""
    data = bytearray()
    for piece in pieces:
        data += piece
        if len(data) > size:
            return bytes(data[:size]), True
    return bytes(data), False


def _decompressed(data: bytes, encoding: str, size: int) -> tuple[bytes, bool]:
    """Decompress bytes up to a size, and tell whether there are more, or the end of them is missing."""
    if encoding == "identity" or not data:
        return data, False
    is_raw = encoding == "deflate" and data[0] & 15 != zlib.DEFLATED  # RFC 1950, 2.2: many servers send no header
    decompressor = zlib.decompressobj(-zlib.MAX_WBITS if is_raw else zlib.MAX_WBITS + 32)  # 32: zlib or gzip
    found = decompressor.decompress(data, size + 1)
    return found[:size], not decompressor.eof


def _goal(response: httpx2.Response, url: httpx2.URL) -> httpx2.URL | None:
    """Say where a response leads on to; None where it is the end."""
    location = response.headers.get("location")
    if response.status_code not in REDIRECTING or location is None:
        return None
    try:
        goal = parsed(location, url)
    except ValueError as error:
        raise Failed(f"fetch error: the redirect is an invalid URL: {error}") from None
    if (url.scheme, goal.scheme) == ("https", "http"):
        raise Failed("fetch error: a redirect from https to http is not followed")
    return goal


def _origin(url: httpx2.URL) -> tuple[str, bytes, int | None]:
    return url.scheme, url.raw_host, url.port
