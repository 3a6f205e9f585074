"""Loopback addresses: `serve` listens on no others, since it does not authenticate its callers."""

from __future__ import annotations

from toolkit.errors import DefinitionError

LOOPBACK = ("127.0.0.1", "localhost", "::1")


def parse_address(address: str | int) -> tuple[str, int]:
    """Parse `port` or `host:port`.

    Raises:
        DefinitionError: The address is not of this form, or is not a loopback address.
    """
    host, _, port = str(address).rpartition(":")
    host = host.strip("[]") or LOOPBACK[0]
    if not port.isdecimal() or int(port) > 65_535:
        raise DefinitionError(f"http={address!r} is not a port: write '8000' or '127.0.0.1:8000'.")
    if host not in LOOPBACK:
        raise DefinitionError(
            f"http={address!r} is not a local address, so anybody could call the tools. Serve the app yourself, with "
            f"authentication: make_server(...).streamable_http_app() of MCP, or make_app(...) of A2A."
        )
    return host, int(port)
