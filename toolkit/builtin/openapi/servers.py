"""Where requests go: what the caller says, or the document; never the model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import urljoin

import httpx2

from toolkit.builtin.openapi.objects import Server
from toolkit.errors import DefinitionError


def base_of(servers: Sequence[Server], base_url: str | None) -> str:
    """Find what the paths of operations follow.

    Args:
        servers: The document's; the first counts, with the defaults of its variables. A relative one follows base_url.
        base_url: The caller's, checked, in the place of one that names a host.

    Raises:
        DefinitionError: Neither says where the server is.
    """
    told = _filled(servers[0]) if servers else ""
    if base_url is not None:
        return _following(base_url, told)
    if "://" not in told:
        raise DefinitionError(
            f"The document does not say at which host its server {told or '/'!r} is. Pass base_url='https://...'."
        )
    return checked(told)


def join(base: str, path: str) -> str:
    """Put a path behind a base."""
    return base.rstrip("/") + path


def origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    """Tell who answers at an address."""
    return url.scheme, url.host, url.port


def _following(base_url: str, told: str) -> str:
    """Join what the document says, unless that leads to another host: how addresses are read differs too much."""
    if "://" in told or told.strip("/") == "":
        return base_url
    try:
        joined = urljoin(base_url, told)
        is_elsewhere = origin(httpx2.URL(joined)) != origin(httpx2.URL(base_url))
    except (ValueError, httpx2.InvalidURL) as error:
        raise DefinitionError(f"The server {told!r} is no address: {error}.") from error
    return base_url if is_elsewhere else checked(joined)


def _filled(server: Server) -> str:
    def default(found: re.Match[str]) -> str:
        told: Any = server.variables.get(found[1])
        if not isinstance(told, dict) or "default" not in told:
            raise DefinitionError(f"The server {server.url!r} has no default for {found[1]!r}. Pass base_url=.")
        return str(told["default"])

    return re.sub(r"\{([^{}]*)\}", default, server.url)


def checked(url: str) -> str:
    """Check an address that paths can follow.

    Raises:
        DefinitionError: It is none.
    """
    try:
        read = httpx2.URL(url)
    except httpx2.InvalidURL as error:
        raise DefinitionError(f"The base address {url!r} is none: {error}.") from error
    if read.scheme not in ("http", "https") or not read.host:
        raise DefinitionError(f"The base address {url!r} is none of the form 'https://host/path'. Pass base_url=.")
    if read.userinfo or not {"?", "#"}.isdisjoint(url):
        raise DefinitionError("The base address has a user, a query or a fragment: leave it out; auth= takes the keys.")
    return url
