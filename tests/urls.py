"""URLs that want into a private network: targets, in spellings, in shapes, at depths; and what judges where they led.

As a program, it gets them on a machine where every address is its own, and tells which of them were connected to:

    unshare -Urn sh -c 'ip link set lo up && ip route add local 0.0.0.0/0 dev lo && python -m tests.urls 2000'
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from itertools import count, product
from urllib.parse import quote

from toolkit import ToolError
from toolkit._guards.http_client import HttpClient
from toolkit._guards.network import GuardedNetwork

PUBLIC = "93.184.216.34"
PUBLIC6 = "2606:4700::1111"
PUBLIC_NAME = "public.example"
PORTS = (80, 443)

TARGETS = (
    *(
        "0.0.0.0",  # noqa: S104  nothing is bound to it
        "0.0.0.1",
        "10.0.0.1",
        "10.255.255.255",
        "100.64.0.1",
        "100.100.100.200",
        "127.0.0.1",
        "127.255.255.254",
    ),
    *("168.63.129.16", "169.254.0.1", "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.1", "192.0.0.192"),
    *("192.0.2.1", "192.88.99.1", "192.168.0.1", "192.168.255.255", "198.18.0.1", "198.19.255.255", "198.51.100.1"),
    *("203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255", PUBLIC),
)


def parts(number: int) -> tuple[int, int, int, int]:
    """The four bytes of an IPv4 address."""
    return number >> 24, number >> 16 & 255, number >> 8 & 255, number & 255


def joined(number: int, form: str) -> str:
    """The four bytes in a form each, with dots between them."""
    return ".".join(format(part, form) for part in parts(number))


def moved(text: str, zero: int, dot: str = ".") -> str:
    """A dotted address with other digits than those of ASCII."""
    return "".join(chr(zero + int(letter)) if letter.isdigit() else dot for letter in text)


def six(number: int) -> str:
    """An IPv6 address as it stands in a URL."""
    return f"[{IPv6Address(number)}]"


# Ways to write an IPv4 address.
SPELLINGS: Mapping[str, Callable[[int], str]] = {
    "dotted": lambda n: joined(n, "d"),
    "decimal": str,
    "hexadecimal": hex,
    "capitals": lambda n: f"0X{n:08X}",
    "octal": lambda n: f"0{n:o}",
    "long-octal": lambda n: f"{n:030o}",
    "dotted-hexadecimal": lambda n: ".".join(map(hex, parts(n))),
    "dotted-octal": lambda n: ".".join(f"0{part:o}" for part in parts(n)),
    "zeros": lambda n: joined(n, "03d"),
    "mixed": lambda n: "{:#x}.{}.0{:o}.{}".format(*parts(n)),
    "two-parts": lambda n: f"{n >> 24}.{n & 0xFFFFFF}",
    "three-parts": lambda n: "{}.{}.{}".format(*parts(n)[:2], n & 0xFFFF),
    "overflow": lambda n: str(n + 2**32),
    "trailing-dot": lambda n: joined(n, "d") + ".",
    "full-width": lambda n: moved(joined(n, "d"), 0xFF10),
    "full-width-dots": lambda n: moved(joined(n, "d"), 0xFF10, "\uff0e"),
    "ideographic-dots": lambda n: joined(n, "d").replace(".", "\u3002"),
    "half-width-dots": lambda n: joined(n, "d").replace(".", "\uff61"),
    "mathematical": lambda n: moved(joined(n, "d"), 0x1D7CE),
    "arabic": lambda n: moved(joined(n, "d"), 0x0660),
    "percent": lambda n: "".join(f"%{ord(letter):02x}" for letter in joined(n, "d")),
    "percent-dots": lambda n: joined(n, "d").replace(".", "%2e"),
    "percent-twice": lambda n: joined(n, "d").replace(".", "%252e"),
    "soft-hyphen": lambda n: joined(n, "d").replace(".", "\u00ad."),
    "mapped": lambda n: six(0xFFFF << 32 | n),
    "mapped-dotted": lambda n: f"[::ffff:{joined(n, 'd')}]",
    "mapped-long": lambda n: f"[0:0:0:0:0:FFFF:{n >> 16:04X}:{n & 0xFFFF:04X}]",
    "translated": lambda n: six(0xFFFF << 48 | n),
    "compatible": six,
    "nat64": lambda n: six(0x64FF9B << 96 | n),
    "local-nat64": lambda n: six(0x64FF9B0001 << 80 | n),
    "6to4": lambda n: six(0x2002 << 112 | n << 80 | 1),
    "teredo": lambda n: six(0x20010000 << 96 | n ^ 0xFFFFFFFF),
    "isatap": lambda n: six(0x26064700 << 96 | 0x5EFE << 32 | n),
    "link-local": lambda n: six(0xFE80 << 112 | n),
    "zone": lambda n: f"[fe80::{n & 0xFFFF:x}%25lo]",
    "zone-mapped": lambda n: f"[::ffff:{joined(n, 'd')}%lo]",
    "unique-local": lambda n: six(0xFD00 << 112 | n),
    "site-local": lambda n: six(0xFEC0 << 112 | n),
    "multicast": lambda n: six(0xFF02 << 112 | n),
    "public-six": lambda n: f"[{PUBLIC6}]",
    "loopback-six": lambda n: "[0:0::0:1]",
    "any-six": lambda n: "[::]",
    "brackets": lambda n: f"[{joined(n, 'd')}]",
    "name": lambda n: f"{joined(n, 'd')}.at.example",
    "name-capitals": lambda n: f"{joined(n, 'd')}.AT.Example.",
    "name-percent": lambda n: f"{joined(n, 'd')}%2eat%2eexample",
    "localhost": lambda n: "localhost",
    "localhost-capitals": lambda n: "LocalHost.",
    "localhost-circled": lambda n: "\u24dboc\u24d0lhost",
    "punycode": lambda n: f"xn--{joined(n, 'd')}",
}

# Places of a host in a URL, so and so deep.
SHAPES: Mapping[str, Callable[[str, int], str]] = {
    "plain": lambda host, depth: f"http://{host}/{'a/' * depth}",
    "tls": lambda host, depth: f"https://{host}/{'../' * depth}",
    "port": lambda host, depth: f"http://{host}:{'0' * depth}80/",
    "other-port": lambda host, depth: f"http://{host}:{22 + depth}/",
    "arabic-port": lambda host, depth: f"http://{host}:\u0668\u0660/{depth}",
    "no-port": lambda host, depth: f"https://{host}:?{depth}",
    "capitals": lambda host, depth: f"HTTP://{host}#{depth}",
    "user": lambda host, depth: f"http://{'u' * depth}@{host}/",
    "public-user": lambda host, depth: f"http://{PUBLIC_NAME}{'@' * (depth + 1)}{host}/",
    "public-password": lambda host, depth: f"http://{PUBLIC_NAME}:{80 + depth}@{host}/",
    "as-user": lambda host, depth: f"http://{host}{'%2f' * depth}@{PUBLIC_NAME}/",
    "as-password": lambda host, depth: f"http://{PUBLIC_NAME}:{host}@{PUBLIC_NAME}:80{depth}/",
    "behind-hash": lambda host, depth: f"http://{PUBLIC_NAME}{'#' * (depth + 1)}@{host}/",
    "behind-question": lambda host, depth: f"http://{PUBLIC_NAME}{'?' * (depth + 1)}@{host}/",
    "behind-slash": lambda host, depth: f"http://{PUBLIC_NAME}{'/' * (depth + 1)}@{host}/",
    "behind-backslash": lambda host, depth: f"http://{PUBLIC_NAME}{chr(92) * (depth + 1)}@{host}/",
    "before-hash": lambda host, depth: f"http://{host}{'#' * (depth + 1)}@{PUBLIC_NAME}/",
    "before-backslash": lambda host, depth: f"http://{host}{chr(92) * (depth + 1)}@{PUBLIC_NAME}/",
    "before-name": lambda host, depth: f"http://{host}{'.' * (depth + 1)}{PUBLIC_NAME}/",
    "before-nul": lambda host, depth: f"http://{host}{'%00' * (depth + 1)}.{PUBLIC_NAME}/",
    "behind-nul": lambda host, depth: f"http://{PUBLIC_NAME}{chr(0) * (depth + 1)}.{host}/",
    "comma": lambda host, depth: f"http://{PUBLIC_NAME},{host}:{depth}/",
    "one-slash": lambda host, depth: f"http:/{host}/{depth}",
    "no-slash": lambda host, depth: f"http:{host}/{depth}",
    "three-slashes": lambda host, depth: f"http:///{'/' * depth}{host}/",
    "backslashes": lambda host, depth: f"http:{chr(92) * (depth + 2)}{host}/",
    "no-scheme": lambda host, depth: f"//{host}/{depth}",
    "spaces": lambda host, depth: f"{' ' * depth}http://{host}/ ",
    "inner-space": lambda host, depth: f"http://{' ' * depth}{host}/",
    "tab": lambda host, depth: f"ht{chr(9) * (depth + 1)}tp://{host}/",
    "line-end": lambda host, depth: f"http://{PUBLIC_NAME}{'%0d%0a' * depth}{chr(13)}{chr(10)}Host: {host}/",
    "encoded-url": lambda host, depth: f"http://{quote(host, safe='')}/{depth}",
    "nested": lambda host, depth: f"http://{PUBLIC_NAME}/?url={'http://' * depth}{host}",
    "file": lambda host, depth: f"file://{host}/{depth}",
    "gopher": lambda host, depth: f"gopher://{host}:80/_{depth}",
    "ftp": lambda host, depth: f"ftp://{host}:80/{depth}",
    "data": lambda host, depth: f"data:text/plain,{host}{depth}",
    "jar": lambda host, depth: f"jar:http://{host}!/{depth}",
    "unix": lambda host, depth: f"http+unix://{host}/{depth}",
}


def urls() -> Iterator[str]:
    """All of them, without end: each spelling of each target in each shape, deeper each time."""
    for depth in count():
        for target, spell, shape in product(TARGETS, SPELLINGS.values(), SHAPES.values()):
            yield shape(spell(int(IPv4Address(target))), depth)


def lookup(host: str, port: int) -> list[str]:
    """Look up as the system does, but for names, which it would ask others for."""
    if host.lower().rstrip(".").endswith(".at.example"):
        return [host[: -len(".at.example")].rstrip(".") if not host.endswith(".") else host[: -len(".at.example.")]]
    known = {"localhost": ["::1", "127.0.0.1"], PUBLIC_NAME: [PUBLIC]}.get(host.rstrip("."))
    if known:
        return known
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    return [str(place[0]) for *_, place in found]


@cache
def is_forbidden(text: str) -> bool:
    """Whether an address is not one of the internet's: by the standard library, and by what it does not know."""
    address = ip_address(text)
    if isinstance(address, IPv4Address):
        extra = ("168.63.129.16/32", "192.0.0.0/24", "192.88.99.0/24", "224.0.0.0/4")
        return not address.is_global or any(address in ip_network(network) for network in extra)
    inner = str(IPv4Address(int(address) & 0xFFFFFFFF))
    if address in ip_network("64:ff9b::/96") or int(address) >> 32 & 0xFDFFFFFF == 0x5EFE:
        return is_forbidden(inner)
    return not address.is_global or address not in ip_network("2000::/3") or address in ip_network("2002::/16")


def serve(seen: set[str]) -> None:
    """Accept at every address of this machine, and note at which; nothing is answered."""

    def accept(listening: socket.socket) -> None:
        while True:
            connection, _ = listening.accept()
            seen.add(connection.getsockname()[0].removeprefix("::ffff:"))
            connection.close()

    for port in (*PORTS, 22):
        listening = socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
        threading.Thread(target=accept, args=(listening,), daemon=True).start()


def main(wanted: int) -> None:
    """Get so many of the URLs, spread over all of them, and one address unguarded."""
    seen: set[str] = set()
    serve(seen)
    web = HttpClient(GuardedNetwork(resolve=lookup))
    total = len(TARGETS) * len(SPELLINGS) * len(SHAPES)
    for number, url in zip(range(total), urls(), strict=False):
        if number % (total // wanted) == 0:
            with suppress(ToolError):
                asyncio.run(web.get(url))
    guarded = sorted(seen)
    with suppress(ToolError):
        asyncio.run(HttpClient(GuardedNetwork(["10.9.8.7"])).get("http://10.9.8.7/"))
    print(json.dumps({"guarded": guarded, "unguarded": sorted(seen - set(guarded))}))


if __name__ == "__main__":
    main(int(sys.argv[1]))
