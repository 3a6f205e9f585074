"""Clients of the openai package, made for a server's address and a key."""

from __future__ import annotations

import os
import re
import sys
import weakref
from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeVar

from toolkit.errors import NoModelError
from toolkit.models.transport import limit_response

if TYPE_CHECKING:
    import ssl

    import httpx2
    import openai

ClientT = TypeVar("ClientT", bound="openai.OpenAI | openai.AsyncOpenAI")

# The most connection pools of an async client, the open responses in one pool before the next is used, and the most
# connections of a pool: together as many as a client of the package has.
MAX_POOLS = 32
MAX_OPEN = 8
MAX_CONNECTIONS = 1000 // MAX_POOLS

# Variables of the environment that HTTP clients read.
HTTP_VARIABLES = ("ALL_PROXY", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_DIR", "SSL_CERT_FILE")


def make_sync_client(base_url: Any, api_key: str) -> openai.OpenAI:
    """Make a client for `run` and `stream`; its connections are closed when it is garbage-collected."""
    import openai

    http = _make_http_client(openai.DefaultHttpxClient, event_hooks={"response": [limit_response]})
    client = _make_client(openai.OpenAI, base_url, api_key, http)
    weakref.finalize(client, http.close)
    return client


def make_async_client(base_url: Any, api_key: str) -> openai.AsyncOpenAI:
    """Make a client for `arun` and `astream`, to be used and closed in one event loop."""
    import httpx2
    import openai

    async def limit(response: httpx2.Response) -> None:
        limit_response(response)

    http = _make_http_client(
        _make_pooled_class(),
        event_hooks={"response": [limit]},
        limits=httpx2.Limits(max_connections=MAX_CONNECTIONS, max_keepalive_connections=2 * MAX_OPEN),
    )
    return _make_client(openai.AsyncOpenAI, base_url, api_key, http)


def is_openai(address: object) -> bool:
    """Return whether an address is OpenAI's own, such as that of one of its regions."""
    host = r"https?://([^/?#@]*@)?([\w-]+\.)*api\.openai\.com(:\d+)?(/|$)"
    return re.match(host, str(address), re.ASCII | re.IGNORECASE) is not None


def _make_client(kind: Callable[..., ClientT], base_url: Any, api_key: str, http: Any) -> ClientT:
    """Make a client; the account and additional headers in the environment are sent to OpenAI's server only."""
    import openai

    if not base_url or is_openai(base_url):
        return kind(base_url=base_url, api_key=api_key, http_client=http)
    lines = os.environ.get("OPENAI_CUSTOM_HEADERS", "").splitlines()
    omitted = {line.partition(":")[0].strip(): openai.Omit() for line in lines if ":" in line}
    client = kind(base_url=base_url, api_key=api_key, http_client=http, default_headers=omitted)
    client.organization = client.project = None
    return client


def _make_http_client(kind: Callable[..., Any], **options: Any) -> Any:
    """Make an HTTP client.

    Raises:
        NoModelError: The environment has a proxy or certificates that cannot be used.
    """
    try:
        return kind(follow_redirects=False, verify=_load_certificates(), **options)
    except Exception as error:
        names = [name for name in HTTP_VARIABLES if os.environ.get(name) or os.environ.get(name.lower())]
        raise NoModelError(f"No HTTP client can be made; check {', '.join(names) or 'proxies'}: {error}") from error


@cache
def _make_pooled_class() -> type[Any]:
    """Make a class of HTTP clients with several small connection pools: a large one is slow, as it checks them all.

    The first pool that is not busy sends a request, so a single conversation keeps one connection.
    """
    import openai

    class PooledClient(openai.DefaultAsyncHttpxClient):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            self._make_pool = partial(openai.DefaultAsyncHttpxClient, **options, cookies=self.cookies.jar)
            self._open: dict[Any, int] = {}  # responses by pool

        async def send(self, request: Any, **options: Any) -> Any:
            pool = _choose_pool(self._open, self._make_pool)
            self._open[pool] += 1
            try:
                response = await pool.send(request, **options)
            except BaseException:
                self._open[pool] -= 1
                raise
            if response.is_closed:
                self._open[pool] -= 1
                return response
            close = response.aclose

            async def aclose() -> None:
                del vars(response)["aclose"]  # counted once; and the response is no longer part of a reference cycle
                self._open[pool] -= 1
                await close()

            vars(response)["aclose"] = aclose
            return response

        async def aclose(self) -> None:
            for pool in self._open:
                await pool.aclose()
            await super().aclose()

    return PooledClient


def _choose_pool(opened: dict[Any, int], make: Callable[[], Any]) -> Any:
    """Return the first pool that is not busy; if all are, a new one or, of MAX_POOLS, the least busy one."""
    for pool, responses in opened.items():
        if responses < MAX_OPEN:
            return pool
    if len(opened) == MAX_POOLS:
        return min(opened, key=opened.__getitem__)
    pool = make()
    opened[pool] = 0
    return pool


@cache
def _load_certificates() -> ssl.SSLContext | bool:
    """Load the certificates of authorities, once in a process: it takes tens of milliseconds."""
    if sys.platform == "emscripten":
        return True  # the browser has them
    import httpx2

    return httpx2.create_ssl_context()
