"""Connections to public addresses, at a few ports, and to other destinations that are allowed.

A host name is looked up once, all its addresses are checked, and a connection is opened to one of these addresses. So a
name server cannot change its answer between the check and the connection.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any, TypeAlias, cast

import httpcore2
import httpx2

from toolkit._concurrency.async_backend import AsyncBackend
from toolkit._concurrency.backend import call_function
from toolkit._options import is_whole
from toolkit.errors import DefinitionError

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network
# Looks a host up and returns its addresses as text.
Resolve: TypeAlias = Callable[[str, int], Sequence[str]]
_Table: TypeAlias = tuple[tuple[Network, str], ...]

PORTS = frozenset((80, 443))
MAX_PORT = 65535
# Host names that are looked up: only those that name servers and `inet_aton` understand.
HOST_NAME = re.compile(r"[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*\.?")
MAX_HOST_NAME = 254  # characters
MAX_ADDRESSES = 8  # of one host that are tried, one after the other


def _table(entries: Iterable[tuple[str, str]]) -> _Table:
    return tuple((ip_network(network), reason) for network, reason in entries)


# Every entry of https://www.iana.org/assignments/iana-ipv4-special-registry, even the reachable ones, since they serve
# no pages. Also multicast, and 168.63.129.16, at which Azure's own service answers on each of its machines.
SPECIAL_IPV4 = _table(
    [
        ("0.0.0.0/8", "this network"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "shared by a provider's customers"),
        ("127.0.0.0/8", "loopback"),
        ("168.63.129.16/32", "a cloud's own"),
        ("169.254.0.0/16", "link-local"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "reserved for protocols"),
        ("192.0.2.0/24", "for documentation"),
        ("192.31.196.0/24", "reserved for AS112"),
        ("192.52.193.0/24", "reserved for AMT"),
        ("192.88.99.0/24", "a 6to4 relay"),
        ("192.168.0.0/16", "private"),
        ("192.175.48.0/24", "reserved for AS112"),
        ("198.18.0.0/15", "for benchmarks"),
        ("198.51.100.0/24", "for documentation"),
        ("203.0.113.0/24", "for documentation"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
    ]
)

# Every entry of https://www.iana.org/assignments/iana-ipv6-special-registry, and everything outside of 2000::/3, the
# only range of global addresses (https://www.iana.org/assignments/ipv6-address-space). The first match counts.
SPECIAL_IPV6 = _table(
    [
        ("::1/128", "loopback"),
        ("::/128", "this host"),
        ("::ffff:0:0/96", "an IPv4 address in IPv6"),
        ("::ffff:0:0:0/96", "an IPv4 address in IPv6"),
        ("::/96", "an IPv4 address in IPv6"),
        ("64:ff9b:1::/48", "local NAT64"),
        ("100::/64", "discarded"),
        ("fc00::/7", "private"),
        ("fe80::/10", "link-local"),
        ("fec0::/10", "site-local"),
        ("ff00::/8", "multicast"),
        ("::/3", "not global"),
        ("4000::/2", "not global"),
        ("8000::/1", "not global"),
        ("2001::/32", "a Teredo tunnel"),
        ("2001::/23", "reserved for protocols"),
        ("2001:db8::/32", "for documentation"),
        ("2002::/16", "a 6to4 tunnel"),
        ("2620:4f:8000::/48", "reserved for AS112"),
        ("3fff::/20", "for documentation"),
    ]
)

# RFC 6052: a network without IPv4 reaches every IPv4 host through these addresses.
NAT64 = IPv6Network("64:ff9b::/96")

# RFC 5214, 6.1: the bits before the IPv4 address in the lower half of an ISATAP address, without the universal bit.
ISATAP = 0x00005EFE
UNIVERSAL = 0x02000000


def describe_special(address: Address) -> str | None:
    """Return the reason why an address is not public, such as "private", or None if it is public.

    An IPv6 address that contains an IPv4 address is public only if both are.
    """
    if isinstance(address, IPv4Address):
        return _find_reason(SPECIAL_IPV4, address)
    if address.scope_id:
        return "of one link only"
    inner = _extract_ipv4(address)
    if inner is not None and (reason := describe_special(inner)):
        return f"{inner} in IPv6, {reason}"
    return None if address in NAT64 else _find_reason(SPECIAL_IPV6, address)


def _extract_ipv4(address: IPv6Address) -> IPv4Address | None:
    number = int(address)
    is_isatap = (number >> 32) & ~UNIVERSAL & 0xFFFFFFFF == ISATAP
    return IPv4Address(number & 0xFFFFFFFF) if is_isatap or address in NAT64 else None


def _find_reason(table: _Table, address: Address) -> str | None:
    return next((reason for network, reason in table if address in network), None)


class RefusedConnection(httpx2.ConnectError):
    """A connection is not allowed. The message has the reason."""


def parse_exemption(allowed: str) -> tuple[Network | str, int | None]:
    """Parse an entry of `allow`. Return its network, or its host name in lower case, and its only port, if it has one.

    Raises:
        DefinitionError: The entry is not a network, address or host name.
    """
    if not isinstance(allowed, str):
        raise DefinitionError(f"allow: {allowed!r:.100} is not text.")

    with suppress(ValueError):
        return ip_network(allowed), None
    is_place = {*"/@?#"}.isdisjoint(allowed) and not allowed.endswith(":")  # which httpx2 reads as any port
    try:
        url = httpx2.URL(f"tcp://{allowed}" if is_place else "")
    except httpx2.InvalidURL:
        url = httpx2.URL()

    host = url.raw_host.decode("ascii").rstrip(".")
    port = None if url.port is None else _check_port(url.port)
    with suppress(ValueError):
        return ip_network(host), port
    if not HOST_NAME.fullmatch(host) or host.replace(".", "").isdigit():
        raise DefinitionError(
            f"allow: {allowed!r:.100} is not a network (such as 10.0.0.0/8), address or host name. Write the host "
            f"alone, or with its port: 127.0.0.1:8080."
        )
    return host, port


def _check_port(port: int) -> int:
    if not is_whole(port, 1) or port > MAX_PORT:
        raise DefinitionError(f"{port!r} is not a port: ports are numbers from 1 to {MAX_PORT}.")
    return port


def resolve(host: str, port: int) -> list[str]:
    """Look up the addresses of a host by the system's resolver.

    Raises:
        OSError: The lookup failed.
    """
    # As bytes, which Python sends unchanged; it would convert a text to another name.
    entries = socket.getaddrinfo(host.encode("ascii"), port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in entries))


class GuardedNetwork:
    """Opens connections to public addresses, and to other destinations that are allowed.

    Args:
        allow: Destinations besides public addresses: networks (`"10.0.0.0/8"`), at every port; addresses, or host
            names with any addresses, at every port or at one (`"127.0.0.1:8080"`, `"[::1]:8080"`).
        ports: Allowed ports of public addresses.
        resolve: Looks up names.
        backend: Connects to addresses that were checked.

    Raises:
        DefinitionError: An entry of `allow` or `ports` is invalid.
    """

    def __init__(
        self,
        allow: Iterable[str] = (),
        ports: Collection[int] = PORTS,
        *,
        resolve: Resolve = resolve,
        backend: httpcore2.AsyncNetworkBackend | None = None,
    ) -> None:
        for name, value, example in ("allow", allow, "'10.0.0.0/8'"), ("ports", ports, "80, 443"):
            if isinstance(value, str) or not isinstance(value, Iterable):
                raise DefinitionError(f"{name}={value!r:.100} is not a list. Pass one, such as {name}=[{example}].")
        self._exemptions = tuple(map(parse_exemption, allow))
        self._ports = frozenset(map(_check_port, ports))
        self._resolve = resolve
        self._backend: httpcore2.AsyncNetworkBackend = backend or cast(Any, httpcore2.AnyIOBackend())

    def look_up(self, host: str, port: int) -> list[Address]:
        """Look up a host, and return its addresses if connections to all of them are allowed.

        Raises:
            RefusedConnection: A connection to one of them is not allowed, or there is none.
            OSError: The lookup failed.
        """
        addresses = [ip_address(text) for text in self._resolve(host, port)]
        if not addresses:
            raise RefusedConnection(f"{host} has no address")
        for address in addresses:
            self._check_address(host, address, port)
        return addresses

    def _check_address(self, host: str, address: Address, port: int) -> None:
        for place, only_port in self._exemptions:
            is_there = host.rstrip(".") == place if isinstance(place, str) else address in place
            if is_there and only_port in (None, port):
                return
        if port not in self._ports:
            ports = ", ".join(map(str, sorted(self._ports)))
            raise RefusedConnection(f"port {port} is not allowed, only {ports}")
        if reason := describe_special(address):
            name = host if ":" in host or host == str(address) else f"{host} ({address})"
            raise RefusedConnection(f"{name} is not a public address: {reason}")

    async def connect(self, host: str, port: int, timeout: float | None = None) -> httpcore2.AsyncNetworkStream:
        """Connect to the first address of a host that answers; each gets an equal part of `timeout`, in seconds.

        The lookup runs on a thread. If the caller is cancelled the thread is abandoned, and no connection is opened.

        Raises:
            RefusedConnection: A connection to the host is not allowed.
            httpcore2.ConnectError, httpcore2.ConnectTimeout: The lookup failed, or no address answers.
        """
        try:
            addresses = await call_function(self.look_up, (host, port), AsyncBackend())
        except OSError as error:
            raise httpcore2.ConnectError(f"{host} cannot be looked up: {error.strerror or error}") from error
        *others, last = addresses[:MAX_ADDRESSES]
        seconds = None if timeout is None else timeout / (len(others) + 1)
        for address in others:
            with suppress(httpcore2.ConnectError, httpcore2.ConnectTimeout):
                return await self._backend.connect_tcp(str(address), port, seconds)
        return await self._backend.connect_tcp(str(last), port, seconds)
