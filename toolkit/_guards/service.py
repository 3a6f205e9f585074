"""A JSON service at an address that the application knows, such as Open-Meteo or Wikipedia."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

import httpx2
from pydantic import TypeAdapter
from pydantic_core import from_json

from toolkit import __version__
from toolkit._guards import options
from toolkit._guards.hidden_text import escape_hidden
from toolkit._guards.http_client import MAX_BYTES, HttpClient, parse_url
from toolkit.errors import DefinitionError, Failed

USER_AGENT = f"function-toolkit/{__version__} (https://pypi.org/project/function-toolkit/) httpx2"
TIMEOUT = 10.0  # seconds
HEADERS = {"Accept": "application/json", "Accept-Encoding": "identity", "Connection": "close"}
MAX_TEXT = 2000  # characters
MAX_ERROR = 500  # characters of a service's error message
_TAG = re.compile(r"<[a-zA-Z/!?][^<>]*>")

T = TypeVar("T")


@dataclass(frozen=True)
class JsonService:
    """A service at one address; redirects are not followed, and the environment is not read.

    Attributes:
        name: Its name in errors.
        base_url: Its address, as `check_base_url` returns it.
        user_agent: The value of the header User-Agent.
        timeout: Seconds for a response, from the connect to the last byte.
        key: A secret that is sent; it is masked in all texts of the service.

    Raises:
        DefinitionError: `timeout` or `user_agent` is invalid.
    """

    name: str
    base_url: str
    user_agent: str = USER_AGENT
    timeout: float = TIMEOUT
    key: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        options.check_seconds("timeout", self.timeout)
        options.check_header("user_agent", self.user_agent)

    async def get(self, path: str, parameters: Mapping[str, str | int], kind: TypeAdapter[T]) -> T:
        """Fetch and validate JSON, as `send` does."""
        return await self.send(httpx2.Request("GET", self.base_url + path, params=dict(parameters)), kind)

    async def send(self, request: httpx2.Request, kind: TypeAdapter[T]) -> T:
        """Send a request, and validate the JSON of the response.

        Raises:
            Failed: There is no response in time, or none that can be used; the text is for the model.
        """
        request.headers.update({**HEADERS, "User-Agent": self.user_agent})
        try:
            response = await self._client.handle_async_request(request)
        except httpx2.TimeoutException as error:
            raise Failed(f"{self.name} did not answer within {self.timeout:g} s. Try again later.") from error
        except httpx2.HTTPError as error:
            raise Failed(f"{self.name} cannot be reached ({type(error).__name__}). Try again later.") from error
        text = response.content.decode("utf-8", "replace")
        text = text.replace(self.key, "***") if self.key else text
        if response.status_code != 200:
            raise Failed(f"{self.name} API {response.status_code}: {clean_text(text)[:MAX_ERROR]}")
        if response.extensions["is_cut"]:
            raise Failed(f"{self.name} gave an answer that is too long: more than {MAX_BYTES} bytes.")
        try:
            return kind.validate_python(from_json(text))
        except ValueError as error:  # ValidationError is one
            raise Failed(f"{self.name} gave an answer that cannot be read.") from error

    @cached_property
    def _client(self) -> HttpClient:
        return HttpClient.for_server(httpx2.URL(self.base_url), timeout=self.timeout)


def check_base_url(parameter: str, url: str) -> str:
    """Check the address of a service, and return it without a slash at its end.

    Raises:
        DefinitionError: It is not an HTTP address, or a path cannot follow it; the message names the parameter.
    """
    if isinstance(url, str) and not {"@", "?", "#"}.isdisjoint(url):  # a user may be a secret, so it is not repeated
        raise DefinitionError(f"{parameter}= has a user, a query or a fragment: write 'https://api.example.org'.")
    try:
        parse_url(url)
    except (ValueError, TypeError):
        raise DefinitionError(
            f"{parameter}={url!r:.100} is not an address such as 'https://api.example.org'."
        ) from None
    return url.strip().rstrip("/")


def strip_markup(text: object) -> str:
    """Return a text without the tags and character references of HTML; "" if it is not a text."""
    return html.unescape(_TAG.sub("", text)) if isinstance(text, str) else ""


def clean_text(text: object) -> str:
    """Write a service's text on one line, cut at `MAX_TEXT`, with invisible characters escaped; "" if it is not a text.

    Anyone who can write to the service may have hidden instructions for the model there.
    """
    return escape_hidden(" ".join(text.split())[:MAX_TEXT]) if isinstance(text, str) else ""
