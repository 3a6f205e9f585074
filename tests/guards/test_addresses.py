"""Public addresses, and destinations that are allowed besides."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any

import pytest

from toolkit import DefinitionError
from toolkit._guards.network import GuardedNetwork, RefusedConnection
from toolkit.builtin import http_tool

# The IANA registries of special-purpose addresses, and other addresses that are not public, written independently.
IPV4 = [
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.0.2.0/24",
    "192.31.196.0/24",
    "192.52.193.0/24",
    "192.88.99.0/24",
    "192.168.0.0/16",
    "192.175.48.0/24",
    "198.18.0.0/15",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "224.0.0.0/4",
    "240.0.0.0/4",
    "255.255.255.255/32",
]
IPV6 = [
    "::/128",
    "::1/128",
    "::/96",
    "::ffff:0:0/96",
    "::ffff:0:0:0/96",
    "64:ff9b:1::/48",
    "100::/64",
    "100:0:0:1::/64",
    "2001::/23",
    "2001::/32",
    "2001:2::/48",
    "2001:3::/32",
    "2001:4:112::/48",
    "2001:10::/28",
    "2001:20::/28",
    "2001:30::/28",
    "2001:db8::/32",
    "2002::/16",
    "2620:4f:8000::/48",
    "3fff::/20",
    "5f00::/16",
    "fc00::/7",
    "fe80::/10",
    "fec0::/10",
    "ff00::/8",
    "4000::/3",
    "6000::/3",
    "8000::/3",
    "a000::/3",
    "c000::/3",
    "e000::/4",
    "f000::/5",
    "f800::/6",
    "fe00::/9",
    "400::/6",
    "200::/7",
]
CLOUDS = ["169.254.169.254", "168.63.129.16", "192.0.0.192", "100.100.100.200", "fd00:ec2::254", "fe80::a9fe:a9fe"]
PUBLIC = [
    "1.1.1.1",
    "8.8.8.8",
    "9.255.255.255",
    "11.0.0.0",
    "93.184.216.34",
    "100.63.255.255",
    "100.128.0.0",
    "126.255.255.255",
    "128.0.0.0",
    "168.63.129.15",
    "168.63.129.17",
    "169.253.255.255",
    "172.15.255.255",
    "172.32.0.0",
    "191.255.255.255",
    "192.0.1.0",
    "192.167.255.255",
    "198.17.255.255",
    "198.20.0.0",
    "223.255.255.255",
    "2000::",
    "2001:200::",
    "2001:4860:4860::8888",
    "2003::",
    "2606:4700::1111",
    "2a00:1450:4001::1",
    "3ffe:ffff::1",
]

# Ways to write an IPv4 address as an IPv6 address.
EMBEDDINGS = {
    "mapped": lambda inner: 0xFFFF << 32 | inner,
    "translated": lambda inner: 0xFFFF << 48 | inner,
    "compatible": lambda inner: inner,
    "nat64": lambda inner: 0x64FF9B << 96 | inner,
    "local-nat64": lambda inner: 0x64FF9B0001 << 80 | inner,
    "6to4": lambda inner: 0x2002 << 112 | inner << 80,
    "teredo-server": lambda inner: 0x20010000 << 96 | inner << 64,
    "teredo-client": lambda inner: 0x20010000 << 96 | inner ^ 0xFFFFFFFF,
    "isatap": lambda inner: 0x2A000000 << 96 | 0x5EFE << 32 | inner,
    "isatap-universal": lambda inner: 0x2A000000 << 96 | 0x02005EFE << 32 | inner,
}


def ends(network: str) -> list[IPv4Address | IPv6Address]:
    """The first address of a network, the last, and one in between."""
    result: IPv4Network | IPv6Network = ip_network(network)
    return [result[0], result[-1], result[result.num_addresses // 2]]


def find_reason(address: object) -> str | None:
    """Return why a name with this address may not be connected to; None if it may."""
    try:
        GuardedNetwork(resolve=lambda *_: [str(address)]).look_up("a.example", 80)
    except RefusedConnection as error:
        return str(error).partition(" is not a public address: ")[2]
    return None


@pytest.mark.parametrize("network", [*IPV4, *IPV6])
def test_special_networks(network: str) -> None:
    """No address of a special network is public: neither the first nor the last nor one between."""
    assert [] == [address for address in ends(network) if find_reason(address) is None]


@pytest.mark.parametrize("text", CLOUDS)
def test_clouds(text: str) -> None:
    """The metadata addresses of clouds are not public."""
    assert find_reason(text)


@pytest.mark.parametrize("text", PUBLIC)
def test_public(text: str) -> None:
    """Addresses of the internet are public, those next to a special network too."""
    assert find_reason(text) is None


@pytest.mark.parametrize("embedding", EMBEDDINGS)
def test_embeddings(embedding: str) -> None:
    """An IPv4 address that is not public is not public in IPv6 either, however it is embedded."""
    embedded = [IPv6Address(EMBEDDINGS[embedding](int(inner))) for network in IPV4 for inner in ends(network)]

    assert [] == [address for address in embedded if find_reason(address) is None]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("64:ff9b::808:808", None),
        ("2a00::5efe:808:808", None),
        ("64:ff9b::7f00:1", "127.0.0.1 in IPv6, loopback"),
        ("2a00::5efe:a00:1", "10.0.0.1 in IPv6, private"),
        ("fe80::5efe:808:808", "link-local"),
        ("::ffff:8.8.8.8", "an IPv4 address in IPv6"),
        ("2606:4700::1%eth0", "of one link only"),
        ("2001:0:1::1", "a Teredo tunnel"),
        ("2002:808:808::1", "a 6to4 tunnel"),
    ],
)
def test_reasons(text: str, what: str | None) -> None:
    """NAT64 and ISATAP addresses count as the IPv4 address in them; other IPv4 addresses in IPv6 are not public."""
    assert what == find_reason(text)


def test_never_laxer_than_python() -> None:
    """No address is public here that the standard library knows as not global."""
    texts = [str(address) for network in [*IPV4, *IPV6] for address in ends(network)]
    private = [ip_address(text) for text in [*texts, *PUBLIC, *CLOUDS] if not ip_address(text).is_global]

    assert [] == [address for address in private if find_reason(address) is None]


@pytest.mark.parametrize(
    ("allow", "host", "port", "address"),
    [
        ("10.0.0.0/8", "intranet.example", 8080, "10.1.2.3"),
        ("127.0.0.1", "localhost", 80, "127.0.0.1"),
        ("::1", "::1", 80, "::1"),
        ("127.0.0.1:8080", "localhost", 8080, "127.0.0.1"),
        ("[::1]:8080", "::1", 8080, "::1"),
        ("[::1]", "::1", 9, "::1"),
        ("fd00::/8", "x", 80, "fd12::1"),
        ("Intranet.Example", "intranet.example.", 80, "10.0.0.1"),
        ("intranet.example.:8443", "intranet.example", 8443, "10.0.0.1"),
        ("B\u00fccher.example:81", "xn--bcher-kva.example", 81, "10.0.0.1"),
        ("[::1:80]", "x", 9, "::1:80"),
        ("fd00::1", "x", 80, "fd00::1"),
    ],
)
def test_allowed(allow: str, host: str, port: int, address: str) -> None:
    """A network, an address or a name may be allowed, at every port or at one."""
    assert [ip_address(address)] == GuardedNetwork([allow], resolve=lambda *_: [address]).look_up(host, port)


@pytest.mark.parametrize(
    ("allow", "host", "port", "addresses", "why"),
    [
        ([], "a.example", 80, [], "a.example has no address"),
        ([], "127.0.0.1", 80, ["127.0.0.1"], "127.0.0.1 is not a public address: loopback"),
        ([], "a.example", 80, ["8.8.8.8", "::1"], "a.example (::1) is not a public address: loopback"),
        ([], "a.example", 22, ["8.8.8.8"], "port 22 is not allowed, only 80, 443"),
        (
            ["10.0.0.0/8"],
            "x",
            80,
            ["10.0.0.1", "11.0.0.1", "127.0.0.1"],
            "x (127.0.0.1) is not a public address: loopback",
        ),
        (["10.0.0.1:81"], "x", 80, ["10.0.0.1"], "x (10.0.0.1) is not a public address: private"),
        (["a.example"], "b.a.example", 80, ["10.0.0.1"], "b.a.example (10.0.0.1) is not a public address: private"),
        (["0.0.0.0/0"], "::1", 80, ["::1"], "::1 is not a public address: loopback"),
        (
            ["127.0.0.1"],
            "x",
            80,
            ["::ffff:127.0.0.1"],
            "x (::ffff:127.0.0.1) is not a public address: an IPv4 address in IPv6",
        ),
    ],
)
def test_refused(allow: list[str], host: str, port: int, addresses: list[str], why: str) -> None:
    """One forbidden address of a host is enough to refuse it; an exemption covers no more than its entry."""
    with pytest.raises(RefusedConnection) as caught:
        GuardedNetwork(allow, resolve=lambda *_: addresses).look_up(host, port)

    assert why == str(caught.value).replace("7f00:1", "127.0.0.1")


def test_ports() -> None:
    """The allowed ports of public addresses can be set."""
    assert [ip_address("8.8.8.8")] == GuardedNetwork(ports=[8443], resolve=lambda *_: ["8.8.8.8"]).look_up(
        "a.example", 8443
    )


@pytest.mark.parametrize(
    "allow",
    [
        None,
        5,
        b"10.0.0.1",
        ip_network("10.0.0.0/8"),
        "10.0.0.0/8:81",
        "[fd00::/8]:81",
        "",
        "*",
        "*.example",
        "10.0.0.0/33",
        "10.0.0.1/8",
        "1.2.3.4.5",
        "a b",
        "a/b",
        "a:b",
        "a:",
        "127.0.0.1:",
        "[::1]:",
        "a:0",
        "a:99999",
        "[::1",
        "http://a",
    ],
)
def test_invalid_exemptions(allow: Any) -> None:
    """An entry of `allow` that is invalid or ambiguous is refused."""
    with pytest.raises(DefinitionError):
        http_tool(allow=[allow])


def test_url_as_exemption() -> None:
    """The message for a URL in `allow` has the form that is expected."""
    with pytest.raises(DefinitionError, match=r"Write the host alone, or with its port: 127\.0\.0\.1:8080"):
        http_tool(allow=["http://127.0.0.1:1"])


@pytest.mark.parametrize("port", [0, -1, 65536, True, "80"])
def test_invalid_ports(port: int) -> None:
    """A port is a whole number from 1 to 65535."""
    with pytest.raises(DefinitionError, match="is not a port"):
        http_tool(ports=[port])
