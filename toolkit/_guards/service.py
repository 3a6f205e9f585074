"""Asking a service that answers with JSON, whose address the application knows."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from pydantic import TypeAdapter
from pydantic_core import from_json

from toolkit import __version__
from toolkit._guards import options
from toolkit._schema.json_text import escape_invisible
from toolkit.errors import DefinitionError, Failed

if TYPE_CHECKING:
    import httpx2

USER_AGENT = f"function-toolkit/{__version__} (https://pypi.org/project/function-toolkit/) httpx2"
MAX_BYTES = 1024 * 1024
SECONDS = 10.0
MAX_TEXT = 2000  # characters
# Unseen, and yet part of how Persian, the scripts of India and emoji are written.
JOINERS = "\u200c\u200d\ufe0f"

T = TypeVar("T")


@dataclass(frozen=True)
class Service:
    """A service at one address: no redirect leads elsewhere, and no environment variable.

    Attributes:
        name: What it is called in errors.
        base_url: Where it is, as `address` gives it.
        user_agent: Who asks.
        seconds: For an answer, from the first byte to the last.

    Raises:
        DefinitionError: There is no time for an answer, or the one who asks cannot be named so.
    """

    name: str
    base_url: str
    user_agent: str = USER_AGENT
    seconds: float = SECONDS

    def __post_init__(self) -> None:
        options.seconds("timeout", self.seconds)  # which the factories call it
        agent = self.user_agent
        if not (isinstance(agent, str) and agent.strip() and agent.isascii() and agent.isprintable()):
            raise DefinitionError(f"user_agent={agent!r} is no line of ASCII, such as 'my-bot/1.0 (me@example.org)'.")

    async def get(self, path: str, parameters: Mapping[str, str | int], kind: TypeAdapter[T]) -> T:
        """Ask for something; called off, it closes the connection.

        Raises:
            Failed: There is no answer in time, or none that can be used; the text is for the model.
        """
        import httpx2  # it takes longer to load than all of the tools

        try:
            body = await asyncio.wait_for(self._body(path, parameters), self.seconds)
        except (asyncio.TimeoutError, httpx2.TimeoutException) as error:
            raise Failed(f"{self.name} did not answer within {self.seconds:g} s. Try again later.") from error
        except httpx2.HTTPError as error:
            raise Failed(f"{self.name} cannot be reached ({type(error).__name__}). Try again later.") from error
        try:
            return kind.validate_python(from_json(body))
        except ValueError as error:  # ValidationError is one
            raise Failed(f"{self.name} gave an answer that cannot be read.") from error

    async def _body(self, path: str, parameters: Mapping[str, str | int]) -> bytes:
        import httpx2

        headers = {"User-Agent": self.user_agent, "Accept": "application/json", "Accept-Encoding": "identity"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=self.seconds, trust_env=False) as client,
            client.stream("GET", self.base_url + path, params=dict(parameters)) as response,
        ):
            if response.status_code != 200:
                raise Failed(f"{self.name} answered with HTTP {response.status_code}.")
            return await self._read(response)

    async def _read(self, response: httpx2.Response) -> bytes:
        body = bytearray()
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > MAX_BYTES:
                raise Failed(f"{self.name} gave an answer that is too long: more than {MAX_BYTES} bytes.")
        return bytes(body)


def address(parameter: str, url: str) -> str:
    """Give the address of a service without a slash at its end.

    Raises:
        DefinitionError: It is none of HTTP, or a path cannot follow it; the message names the parameter.
    """
    if not _is_address(url):
        raise DefinitionError(f"{parameter}={url!r:.100} is no address such as 'https://api.example.org'.")
    if "@" in urlsplit(url).netloc or not {"?", "#"}.isdisjoint(url):  # the first may be a secret: it is not shown
        raise DefinitionError(f"{parameter}= has a user, a query or a fragment: write 'https://api.example.org'.")
    return url.rstrip("/")


def plain(text: object) -> str:
    """Write a text of a service on one line: the beginning, and escapes for what is hidden in it; "" where it is none.

    Whoever writes to the service may have hidden words for the model there.
    """
    return escape_invisible(" ".join(text.split())[:MAX_TEXT], keep=JOINERS) if isinstance(text, str) else ""


def _is_address(url: object) -> bool:
    try:
        parts = urlsplit(url) if isinstance(url, str) else None
        return parts is not None and parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # of the host, or of the port
        return False
