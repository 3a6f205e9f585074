"""Which addresses are public: all others lead into somebody's own network, or to no host at all."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from typing import TypeAlias

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
