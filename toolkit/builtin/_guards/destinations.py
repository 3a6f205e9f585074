"""Where a connection may lead: to public addresses, at a few ports, and to what is allowed besides."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TypeAlias

import httpx2

from toolkit.builtin._guards.addresses import Address, Network, objection
from toolkit.errors import DefinitionError

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
