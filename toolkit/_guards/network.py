"""Opening a connection: a name is looked up once, each address is checked, and one of these is connected to.

Which addresses are public: all others lead into somebody's own network, or to no host at all.

Where a connection may lead: to public addresses, at a few ports, and to what is allowed besides.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import CancelledError, Future, InvalidStateError
from concurrent.futures import TimeoutError as Unfinished
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from threading import BoundedSemaphore
from typing import TypeAlias

import httpx2

from toolkit._concurrency.cancellation import Cancellation
from toolkit._concurrency.threads import Job, Outcome, cancellation_error, on_cancel, time_left
from toolkit.errors import DefinitionError

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network
Table: TypeAlias = tuple[tuple[Network, str], ...]


def _table(entries: Iterable[tuple[str, str]]) -> Table:
    return tuple((ip_network(network), what) for network, what in entries)


# https://www.iana.org/assignments/iana-ipv4-special-registry, each entry of it, those that are reachable too: no pages
# are served from them. Besides, multicast, and a host that a cloud answers from on every one of its machines.
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

# https://www.iana.org/assignments/iana-ipv6-special-registry in the same way; and all that is not in 2000::/3, from
# which alone global addresses are given out (https://www.iana.org/assignments/ipv6-address-space). The first that
# holds an address counts.
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

# RFC 6052: a network without IPv4 reaches every IPv4 host by an address in it.
NAT64 = IPv6Network("64:ff9b::/96")

# RFC 5214, 6.1: what stands before the IPv4 address in the lower half of an ISATAP address, the universal bit aside.
ISATAP = 0x00005EFE
UNIVERSAL = 0x02000000


def objection(address: Address) -> str | None:
    """Say why an address is not public, in words that follow "is"; None where it is public.

    An IPv4 address in an IPv6 address counts as what it is, or the IPv6 address is none to connect to.
    """
    if isinstance(address, IPv4Address):
        return _listed(SPECIAL_IPV4, address)
    if address.scope_id:
        return "of one link only"
    inner = _inner(address)
    if inner is not None and (what := objection(inner)):
        return f"{inner} in IPv6, {what}"
    return None if address in NAT64 else _listed(SPECIAL_IPV6, address)


def _inner(address: IPv6Address) -> IPv4Address | None:
    number = int(address)
    is_isatap = (number >> 32) & ~UNIVERSAL & 0xFFFFFFFF == ISATAP
    return IPv4Address(number & 0xFFFFFFFF) if is_isatap or address in NAT64 else None


def _listed(table: Table, address: Address) -> str | None:
    return next((what for network, what in table if address in network), None)


# What may be allowed: a network, an address, or a host's name; each may have a port.
Allowed: TypeAlias = str | Address | Network

PORTS = frozenset((80, 443))
LAST_PORT = 65535
# For the developer, who reads the traceback; no model is told how to get further.
REMEDY = "ports= says which ports of public addresses may be connected to, allow= which addresses and hosts besides."

# What is looked up as it is written: everything that name servers and `inet_aton` understand, and nothing else.
NAME = re.compile(r"[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*\.?")
LONGEST_NAME = 254


class Refused(Exception):
    """A connection may not be made; the message says why."""


@dataclass(frozen=True)
class Exemption:
    """What is allowed although it is not public.

    Attributes:
        place: A network, or a host's name in small letters.
        port: The port that it is allowed at; any by default.
    """

    place: Network | str
    port: int | None = None

    def covers(self, host: str, address: Address, port: int) -> bool:
        """Tell whether it covers one address that a host has."""
        if self.port not in (None, port):
            return False
        return host.rstrip(".") == self.place if isinstance(self.place, str) else address in self.place


class Destinations:
    """Says where connections may lead.

    Args:
        allow: What is allowed besides public addresses: networks (`"10.0.0.0/8"`), addresses, or names of hosts, whose
            addresses may be any then; each at every port, or with one (`"127.0.0.1:8080"`, `"[::1]:8080"`).
        ports: The ports of public addresses.

    Raises:
        DefinitionError: `allow` or `ports` holds something else.
    """

    def __init__(self, allow: Iterable[Allowed] = (), ports: Collection[int] = PORTS) -> None:
        if isinstance(allow, str) or not isinstance(allow, Iterable):
            raise DefinitionError(f"allow={allow!r} is no list. Give one, such as allow=['10.0.0.0/8'].")
        if isinstance(ports, str) or not isinstance(ports, Iterable):
            raise DefinitionError(f"ports={ports!r} is no list. Give one, such as ports=[80, 443].")
        self._exemptions = tuple(exemption(allowed) for allowed in allow)
        self._ports = frozenset(map(_port, ports))

    def checked(self, host: str, port: int, addresses: Sequence[str]) -> list[Address]:
        """Give the addresses of a host as what they are, if all of them may be connected to.

        Raises:
            Refused: One of them may not, or there is none.
        """
        found = [ip_address(text) for text in addresses]
        if not found:
            raise Refused(f"{host} has no address")
        for address in found:
            self._check(host, address, port)
        return found

    def _check(self, host: str, address: Address, port: int) -> None:
        if any(exemption.covers(host, address, port) for exemption in self._exemptions):
            return
        if port not in self._ports:
            known = ", ".join(map(str, sorted(self._ports)))
            raise Refused(f"port {port} may not be connected to, only {known}") from DefinitionError(REMEDY)
        if what := objection(address):
            shown = host if ":" in host or host == str(address) else f"{host} ({address})"
            raise Refused(f"{shown} is not a public address: {what}")


def exemption(allowed: Allowed) -> Exemption:
    """Read what is allowed.

    Raises:
        DefinitionError: It is neither a network nor an address nor a name, or may be two of them.
    """
    if not isinstance(allowed, str):
        return Exemption(_network(allowed))
    address, _, last = allowed.rpartition(":")
    if last.isdigit() and _is_address(address):
        raise DefinitionError(f"allow: {allowed!r} may have a port. Write [{address}]:{last}, or [{allowed}].")
    host, port = _parted(allowed)
    try:
        return Exemption(ip_network(host), port)
    except ValueError:
        return Exemption(_name(host), port)


def _network(allowed: object) -> Network:
    if not isinstance(allowed, (IPv4Address, IPv4Network, IPv6Address, IPv6Network)):
        raise DefinitionError(f"allow: {allowed!r} is no text, address or network.")
    return ip_network(allowed)


def _is_address(text: str) -> bool:
    try:
        return bool(IPv6Address(text))
    except ValueError:
        return False


def _name(host: str) -> str:
    """Write a name as it is looked up."""
    try:
        name = httpx2.URL(scheme="http", host=host).raw_host.decode("ascii").rstrip(".")
    except httpx2.InvalidURL:
        name = ""
    if not NAME.fullmatch(name) or name.replace(".", "").isdigit():
        raise DefinitionError(
            f"allow: {host!r} is no network (such as 10.0.0.0/8), address or name of a host. Write the host alone, or "
            f"with its port: 127.0.0.1:8080."
        )
    return name


def _parted(text: str) -> tuple[str, int | None]:
    """Part a place from its port: an IPv6 address with one stands in brackets."""
    bracketed = re.fullmatch(r"\[(.*)\](?::(\d+))?", text)
    named = re.fullmatch(r"([^:]*):(\d+)", text)
    found = bracketed or named
    if found is None:
        return text, None
    return found[1], None if found[2] is None else _port(int(found[2]))


def _port(port: int) -> int:
    if isinstance(port, bool) or not isinstance(port, int) or not 0 < port <= LAST_PORT:
        raise DefinitionError(f"{port!r} is no port: they are numbers from 1 to {LAST_PORT}.")
    return port


# Gives the addresses of a host, as text.
Resolve: TypeAlias = Callable[[str, int], Sequence[str]]
# Connects to an address and a port, within seconds.
Connect: TypeAlias = Callable[[str, int, float | None], socket.socket]

# Connections that are being opened at the same time. No lookup can be ended: while it hangs, it takes a place.
AT_ONCE = 128
# Addresses of one host that are connected to, one after the other.
TRIED = 8


def resolve(host: str, port: int) -> list[str]:
    """Ask the system for the addresses of a host.

    Raises:
        OSError: It knows none.
    """
    # As bytes, which are sent as they are: of text, Python would make another name once more.
    found = socket.getaddrinfo(host.encode("ascii"), port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(place[0]) for *_, place in found))


def connect(address: str, port: int, seconds: float | None) -> socket.socket:
    """Connect to an address; nothing is looked up.

    Raises:
        OSError: There is no connection.
    """
    made = socket.create_connection((address, port), seconds)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


class Dialer:
    """Opens connections to public addresses, and to what is allowed besides.

    Args:
        allow: What is allowed although it is not public: networks, addresses, names of hosts, each with a port or at
            all of them.
        ports: The ports of public addresses.
        resolve: Looks names up.
        connect: Connects to an address that was checked; it gets no other.

    Raises:
        DefinitionError: `allow` or `ports` holds something else.
    """

    def __init__(
        self,
        allow: Iterable[Allowed] = (),
        ports: Collection[int] = PORTS,
        *,
        resolve: Resolve = resolve,
        connect: Connect = connect,
    ) -> None:
        self._destinations = Destinations(allow, ports)
        self._resolve, self._connect = resolve, connect
        self._places = BoundedSemaphore(AT_ONCE)

    def addresses(self, host: str, port: int) -> list[Address]:
        """Look a host up, and give its addresses if all of them may be connected to.

        Raises:
            Refused: One of them may not, or there is none.
            OSError: It cannot be looked up.
        """
        return self._destinations.checked(host, port, self._resolve(host, port))

    def dial(self, host: str, port: int, cancellation: Cancellation) -> socket.socket:
        """Connect to a host, on a thread of its own: neither a lookup nor a connect can be ended.

        Raises:
            Refused: It may not be connected to, or too many connections are being opened.
            OSError: It has no address, or cannot be connected to.
            TimedOut: `cancellation` has no time left.
            Cancelled: `cancellation` was called off.
        """
        if not self._places.acquire(blocking=False):
            raise Refused(f"{AT_ONCE} connections are being opened already, and there may be no more; try again later")
        handed = Future[socket.socket]()
        Job(partial(self._open, host, port, cancellation), partial(self._hand, handed)).start()
        with on_cancel(cancellation, handed.cancel), suppress(CancelledError, Unfinished):
            return handed.result(time_left(cancellation))
        if not handed.cancel():
            handed.result().close()
        raise cancellation_error(cancellation)

    def _open(self, host: str, port: int, cancellation: Cancellation) -> socket.socket:
        addresses = self.addresses(host, port)[:TRIED]
        for left in range(len(addresses), 1, -1):
            with suppress(OSError):
                return self._to(addresses[-left], port, cancellation, left)
        return self._to(addresses[-1], port, cancellation, 1)

    def _to(self, address: Address, port: int, cancellation: Cancellation, left: int) -> socket.socket:
        """Connect to one address; those that are left get as much of the time."""
        if cancellation:
            raise cancellation_error(cancellation)
        seconds = cancellation.remaining
        return self._connect(str(address), port, None if seconds is None else seconds / left)

    def _hand(self, handed: Future[socket.socket], outcome: Outcome[socket.socket]) -> None:
        """Hand a connection over; where nobody waits any more, close it."""
        self._places.release()
        made, error = outcome
        try:
            if made is None:
                handed.set_exception(error)
            else:
                handed.set_result(made)
        except InvalidStateError:
            if made is not None:
                made.close()
