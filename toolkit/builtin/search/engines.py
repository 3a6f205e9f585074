"""Search engines that have an API: Brave, and Google by way of Serper."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import httpx2

from toolkit._concurrency.cancellation import outer
from toolkit._guards.network import Dialer
from toolkit._guards.transport import parsed
from toolkit.builtin.http.options import web_of
from toolkit.builtin.http.web import FAILING
from toolkit.builtin.search.results import entries
from toolkit.errors import DefinitionError, Failed

TIMEOUT = 10.0  # seconds
MAX_SHOWN = 500  # characters of what an engine says of an error
KEY = re.compile(r"[!#-\[\]-~]+")  # what is written in JSON and in headers as it is
SECRET = 8  # characters of a key from which on it is masked: a shorter one is part of many words


class _Engine:
    """An engine that is asked with a key, which is in no text, repr or error."""

    name: ClassVar[str]
    variable: ClassVar[str]
    home: ClassVar[str]

    def __init__(self, key: str | None = None, *, base_url: str | None = None, timeout: float = TIMEOUT) -> None:
        self._key = _checked(key or os.environ.get(self.variable, ""), type(self).__name__, self.variable)
        url = _address(self.home if base_url is None else base_url)
        self._base_url = str(url).rstrip("/")
        host = f"[{url.host}]" if ":" in url.host else url.raw_host.decode("ascii")
        port = url.port or {"http": 80, "https": 443}[url.scheme]
        self._web = web_of(dialer=Dialer([f"{host}:{port}"]), timeout=timeout)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(base_url={self._base_url!r})"

    def _asked(self, method: str, path: str, headers: Mapping[str, str], **sent: Any) -> Any:
        """Ask, and read the answer.

        Raises:
            Failed: There is none, or it is no JSON.
        """
        headers = {"Accept": "application/json", "Accept-Encoding": "gzip", "Connection": "close", **headers}
        request = httpx2.Request(method, self._base_url + path, headers=headers, **sent)
        answer = self._web.send(request, outer.get())
        if answer.status >= FAILING:
            said = self._masked(answer.body.decode("utf-8", "replace"))
            raise Failed(f"{self.name} API {answer.status}: {' '.join(said.split())[:MAX_SHOWN]}")
        try:
            return json.loads(self._masked(json.dumps(json.loads(answer.body))))
        except (ValueError, RecursionError):
            raise Failed(f"{self.name} API: the answer is no JSON") from None

    def _masked(self, text: str) -> str:
        return text if len(self._key) < SECRET else text.replace(self._key, "***")


class Brave(_Engine):
    """Brave Search.

    Args:
        key: The API's key; that of the environment variable BRAVE_API_KEY by default.
        base_url: Where the API is; whatever its address, it may be connected to.
        timeout: Seconds for an answer.

    Raises:
        DefinitionError: There is no key, or it cannot be sent; or `base_url` or `timeout` is none.
    """

    name = "brave"
    variable = "BRAVE_API_KEY"
    home = "https://api.search.brave.com"

    def __call__(self, query: str, count: int) -> Sequence[Mapping[str, Any]]:
        """Find pages.

        Raises:
            Failed: There is no answer, or none that can be read.
        """
        asked = {"q": query, "count": str(count)}
        headers = {"X-Subscription-Token": self._key}
        return entries(self._asked("GET", "/res/v1/web/search", headers, params=asked), "web", "results")


class Serper(_Engine):
    """Google's results, by way of serper.dev.

    Args:
        key: The API's key; that of the environment variable SERPER_API_KEY by default.
        base_url: Where the API is; whatever its address, it may be connected to.
        timeout: Seconds for an answer.

    Raises:
        DefinitionError: There is no key, or it cannot be sent; or `base_url` or `timeout` is none.
    """

    name = "serper"
    variable = "SERPER_API_KEY"
    home = "https://google.serper.dev"

    def __call__(self, query: str, count: int) -> Sequence[Mapping[str, Any]]:
        """Find pages.

        Raises:
            Failed: There is no answer, or none that can be read.
        """
        asked = {"q": query, "num": count}
        return entries(self._asked("POST", "/search", {"X-API-KEY": self._key}, json=asked), "organic")


def _checked(key: str, engine: str, variable: str) -> str:
    if not key:
        raise DefinitionError(f"{engine} needs a key: give it, as {engine}(key), or set {variable}.")
    if not (isinstance(key, str) and KEY.fullmatch(key)):
        raise DefinitionError(f"The key of {engine} is no text, or has characters that no key has, perhaps a line end.")
    return key


def _address(base_url: str) -> httpx2.URL:
    if not isinstance(base_url, str) or "?" in base_url or "#" in base_url:
        raise DefinitionError("base_url= is no address of an API: it is a text without '?' and '#'.")
    try:
        return parsed(base_url)
    except ValueError as error:
        raise DefinitionError(f"base_url= is no address of an API: {error}.") from None
