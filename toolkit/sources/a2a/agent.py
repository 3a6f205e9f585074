"""The address of an agent: its card, and clients that talk to it and to no other address."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cached_property
from urllib.parse import urlsplit

import httpx
from a2a.client import A2ACardResolver, AgentCardResolutionError, Client, ClientConfig, ClientFactory
from a2a.types import AgentCard
from a2a.utils.constants import AGENT_CARD_WELL_KNOWN_PATH

from toolkit._guards.http_client import check_base_url
from toolkit._guards.options import check_headers
from toolkit.errors import DefinitionError
from toolkit.sources.remote import BoundedStream, find_reason

MAX_CARD = 1_000_000  # bytes
MAX_ANSWER = 10_000_000  # bytes of one answer, or of all that one stream brings
MAX_MARKS = 200_000  # commas and opening brackets of a request, of one answer or of one event
CONNECT = 10.0  # seconds; all else is limited by the deadline of the call
BINDING = "JSONRPC"
# Names of this machine; a card may have another one of them than the URL.
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1", "0.0.0.0"})  # noqa: S104  nothing is bound
PORTS: Mapping[str, int] = {"http": 80, "https": 443}


class AgentError(ValueError):
    """A card or an answer that cannot be used. The message quotes only addresses from it, and has no full stop."""


@dataclass(frozen=True, kw_only=True)
class Address:
    """The address of an agent, and the headers of requests to it.

    Attributes:
        url: The URL without a slash at its end; the card is beneath it.
        headers: Headers of each request.
    """

    url: str
    headers: Mapping[str, str] = field(repr=False)

    @classmethod
    def parse(cls, url: str, token: str | None, headers: Mapping[str, str] | None) -> Address:
        """Check an address, which may be that of the card itself, and the token for it.

        Raises:
            DefinitionError: `url` is not an HTTP address, the token is invalid, or `headers` has one, too.
        """
        all_headers = check_headers(headers)
        if token is not None:
            if not isinstance(token, str) or not token.isascii() or not token.isprintable() or not token.strip():
                raise DefinitionError("token= must be visible ASCII characters.")
            if "authorization" in map(str.lower, all_headers):
                raise DefinitionError("Set either token= or the header Authorization, not both.")
            all_headers["Authorization"] = f"Bearer {token}"
        base = check_base_url("url", url)
        return cls(url=base.removesuffix(AGENT_CARD_WELL_KNOWN_PATH), headers=all_headers)

    @property
    def short_name(self) -> str:
        """A name for the agent, from its address alone."""
        return urlsplit(self.url).hostname or "agent"

    @cached_property
    def _ssl_context(self) -> ssl.SSLContext | bool:
        return httpx.create_ssl_context() if self.url.startswith("https:") else False

    @asynccontextmanager
    async def _open_http(self, max_bytes: int) -> AsyncIterator[httpx.AsyncClient]:
        """Open a client that follows no redirect, and limits the bytes of an answer."""

        async def limit_answer(response: httpx.Response) -> None:
            response.stream = _AnswerStream(response, max_bytes, MAX_MARKS)

        async with httpx.AsyncClient(
            headers={**self.headers, "Accept-Encoding": "identity"},
            timeout=httpx.Timeout(None, connect=CONNECT),
            verify=self._ssl_context,
            event_hooks={"response": [limit_answer]},
        ) as http:
            yield http

    async def fetch_card(self) -> AgentCard:
        """Fetch the agent's card. Only its interfaces at this address remain.

        Raises:
            AgentError: The card is invalid or too long, or has no interface at this address.
            AgentCardResolutionError: There is no answer.
        """
        async with self._open_http(MAX_CARD) as http:
            try:
                card = await A2ACardResolver(http, self.url).get_agent_card()
            except AgentCardResolutionError as error:
                if isinstance(error.__cause__, httpx.RequestError) or (error.status_code or 0) >= 500:
                    raise
                raise AgentError(describe(error)) from error  # a second try would not help

            self._keep_own(card)
            try:
                _make_client(http, card)
            except ValueError as error:
                raise AgentError("its card names no supported version of the protocol") from error
        return card

    def _keep_own(self, card: AgentCard) -> None:
        """Remove the interfaces of other hosts from a card, and set the address of this agent in the others."""
        interfaces = [each for each in card.supported_interfaces if each.protocol_binding == BINDING]
        own = [each for each in interfaces if self._is_own(each.url)]
        if not own:
            elsewhere = ", ".join(f"{each.url!r:.100}" for each in interfaces[:3])
            reason = f"names only {elsewhere}: pass that address" if elsewhere else f"offers no {BINDING}"
            raise AgentError(f"its card {reason}")
        here = urlsplit(self.url)
        for each in own:
            each.url = urlsplit(each.url)._replace(scheme=here.scheme, netloc=here.netloc).geturl()
        del card.supported_interfaces[:]
        card.supported_interfaces.extend(own)

    def _is_own(self, url: str) -> bool:
        """Return whether an address is of the same scheme, host and port: a token must go to no other."""
        try:
            here, there = urlsplit(self.url), urlsplit(url)
            ports = [each.port or PORTS.get(each.scheme) for each in (here, there)]
        except ValueError:
            return False
        is_host = here.hostname == there.hostname or {here.hostname, there.hostname} <= LOOPBACK
        return is_host and here.scheme == there.scheme and ports[0] == ports[1]

    @asynccontextmanager
    async def open(self, card: AgentCard) -> AsyncIterator[Client]:
        """Open a client for the agent of a card that `fetch_card` has returned."""
        async with self._open_http(MAX_ANSWER) as http:
            yield _make_client(http, card)


def _make_client(http: httpx.AsyncClient, card: AgentCard) -> Client:
    """Make a client.

    Raises:
        ValueError: The card names no supported version of the protocol.
    """
    # Without streaming, the agent is asked to answer at once, and its task is polled.
    polling = not card.capabilities.streaming
    config = ClientConfig(httpx_client=http, supported_protocol_bindings=[BINDING], polling=polling)
    return ClientFactory(config).create(card)


class _AnswerStream(BoundedStream, httpx.AsyncByteStream):
    error = AgentError
    counts_texts = True  # httpx ends a line also where JSON ends none, so a text of JSON might not be one for it


def describe(error: BaseException) -> str:
    """Describe an error of the transport, without text from the agent, an address or a full stop."""
    cause = error.__cause__ or error
    if isinstance(error, AgentError):
        return str(error)
    if isinstance(cause, httpx.HTTPStatusError):
        return describe_status(cause.response.status_code)
    if isinstance(error, AgentCardResolutionError) and not isinstance(cause, httpx.HTTPError):
        return "its answer is not an agent card"
    return f"{type(cause).__name__}{find_reason(cause)}"


def describe_status(status: int) -> str:
    """Describe an HTTP status, with the remedy for it."""
    advice = ""
    if status in (401, 403):
        advice = ": it does not accept the token. Pass token= or headers="
    elif 300 <= status < 400:
        advice = ", a redirect, which is not followed. Pass the address that it leads to"
    return f"it answered with HTTP {status}{advice}"
