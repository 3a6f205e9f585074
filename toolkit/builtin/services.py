"""`weather` and `wikipedia`: tools that ask JSON services whose addresses the application sets."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, TypeVar
from urllib.parse import quote

import httpx2
from annotated_types import Ge, Le
from pydantic import FiniteFloat, OnErrorOmit, StringConstraints, TypeAdapter
from pydantic_core import from_json
from typing_extensions import NotRequired, TypedDict

from toolkit import __version__
from toolkit._guards.hidden_text import escape_hidden
from toolkit._guards.http_client import MAX_BYTES, HttpClient, check_base_url
from toolkit._guards.options import check_header, check_seconds
from toolkit._options import check_options
from toolkit._tools.decorator import tool
from toolkit._tools.tool import Tool
from toolkit.errors import Failed

USER_AGENT = f"function-toolkit/{__version__} (https://pypi.org/project/function-toolkit/) httpx2"
TIMEOUT = 10.0  # seconds
HEADERS = {"Accept": "application/json", "Accept-Encoding": "identity", "Connection": "close"}
MAX_TEXT = 2000  # characters
MAX_ERROR = 500  # characters of a service's error message
_TAG = re.compile(r"<[a-zA-Z/!?][^<>]*>")

T = TypeVar("T")


@dataclass(frozen=True)
class JsonService:
    """A JSON service at one address. Redirects are not followed, and the environment has no influence.

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
        check_seconds("timeout", self.timeout)
        check_header("user_agent", self.user_agent)

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


def strip_markup(text: object) -> str:
    """Return a text without the tags and character references of HTML, or "" if it is not text."""
    return html.unescape(_TAG.sub("", text)) if isinstance(text, str) else ""


def clean_text(text: object) -> str:
    """Write a service's text on one line, cut at `MAX_TEXT`. Return "" if it is not text.

    Invisible characters are escaped, since anyone who can write to the service may have hidden instructions for the
    model in the text.
    """
    return escape_hidden(" ".join(text.split())[:MAX_TEXT]) if isinstance(text, str) else ""


FORECAST = "https://api.open-meteo.com"
GEOCODING = "https://geocoding-api.open-meteo.com"

# The part of WMO code table 4677 that Open-Meteo uses: https://open-meteo.com/en/docs.
CONDITIONS: Mapping[int, str] = {
    0: "Clear sky",
    1: "Mainly clear",
    2: "Partly cloudy",
    3: "Overcast",
    45: "Fog",
    48: "Depositing rime fog",
    51: "Light drizzle",
    53: "Moderate drizzle",
    55: "Dense drizzle",
    56: "Light freezing drizzle",
    57: "Dense freezing drizzle",
    61: "Slight rain",
    63: "Moderate rain",
    65: "Heavy rain",
    66: "Light freezing rain",
    67: "Heavy freezing rain",
    71: "Slight snowfall",
    73: "Moderate snowfall",
    75: "Heavy snowfall",
    77: "Snow grains",
    80: "Slight rain showers",
    81: "Moderate rain showers",
    82: "Violent rain showers",
    85: "Slight snow showers",
    86: "Heavy snow showers",
    95: "Thunderstorm",
    96: "Thunderstorm with slight hail",
    99: "Thunderstorm with heavy hail",
}

_DEGREES = r"\s*([+-]?\d{1,3}(?:\.\d{1,15})?)\s*"
_COORDINATES = re.compile(f"{_DEGREES},{_DEGREES}", re.ASCII)


class _Place(TypedDict):
    name: str
    latitude: FiniteFloat
    longitude: FiniteFloat
    country: NotRequired[str | None]


class _Places(TypedDict):
    results: NotRequired[list[_Place]]


class _Current(TypedDict):
    temperature_2m: FiniteFloat
    relative_humidity_2m: FiniteFloat
    wind_speed_10m: FiniteFloat
    weather_code: Annotated[int, Ge(0), Le(99)]


class _Forecast(TypedDict):
    current: _Current


_PLACES = TypeAdapter(_Places)
_FORECAST = TypeAdapter(_Forecast)


class Weather(TypedDict):
    """The current weather at one place."""

    location: str
    temperature_c: float
    humidity_pct: float
    wind_speed_kmh: float
    conditions: str


@check_options
def weather_tool(*, base_url: str = FORECAST, timeout: float = TIMEOUT) -> Tool[..., Any]:
    """Make `weather`.

    Args:
        base_url: Address of Open-Meteo, or of a server with its APIs for forecasts and places.
        timeout: Seconds for each response.

    Raises:
        DefinitionError: `base_url` is not an HTTP address, or the timeout is not above 0.
    """
    url = check_base_url("base_url", base_url)
    forecast = JsonService("Open-Meteo", url, timeout=timeout)
    geocoding = JsonService("Open-Meteo", GEOCODING if url == FORECAST else url, timeout=timeout)

    @tool(title="Weather", effect="read")
    async def weather(
        location: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)],
    ) -> Weather:
        """Get the current weather at a place: temperature, humidity, wind and conditions.

        Args:
            location: City name, such as "Jakarta", or "latitude,longitude", such as "-6.2,106.8".
        """
        place = _parse_coordinates(location) or await _look_up_place(location, geocoding)
        parameters = {
            "latitude": str(place["latitude"]),
            "longitude": str(place["longitude"]),
            "current": "temperature_2m,relative_humidity_2m,wind_speed_10m,weather_code",
        }
        reply = await forecast.get("/v1/forecast", parameters, _FORECAST)
        now = reply["current"]
        return Weather(
            location=", ".join(filter(None, (clean_text(place["name"]), clean_text(place.get("country"))))),
            temperature_c=now["temperature_2m"],
            humidity_pct=now["relative_humidity_2m"],
            wind_speed_kmh=now["wind_speed_10m"],
            conditions=CONDITIONS.get(now["weather_code"], f"WMO code {now['weather_code']}"),
        )

    return weather


async def _look_up_place(name: str, geocoding: JsonService) -> _Place:
    parameters: dict[str, str | int] = {"name": name, "count": 1, "language": "en", "format": "json"}
    places = (await geocoding.get("/v1/search", parameters, _PLACES)).get("results")
    if not places:
        raise Failed(f"location not found: {name}")
    return places[0]


def _parse_coordinates(location: str) -> _Place | None:
    """Parse "latitude,longitude". Return None for a name."""
    match = _COORDINATES.fullmatch(location)
    if match is None:
        return None
    latitude, longitude = map(float, match.groups())
    return _Place(name=location, latitude=latitude, longitude=longitude)


class _Article(TypedDict):
    title: str
    key: str
    excerpt: NotRequired[Any]
    description: NotRequired[Any]
    thumbnail: NotRequired[Any]


class _Pages(TypedDict):
    pages: list[OnErrorOmit[_Article]]


_PAGES = TypeAdapter(_Pages)


class Article(TypedDict):
    """One article."""

    title: str
    key: str
    excerpt: str
    url: str
    description: str
    thumbnail: str


class Articles(TypedDict):
    """Search results, the best first."""

    results: list[Article]


@check_options
def wikipedia_tool(
    *, base_url: str = "https://en.wikipedia.org", user_agent: str = USER_AGENT, timeout: float = TIMEOUT
) -> Tool[..., Any]:
    """Make `wikipedia`.

    Args:
        base_url: The Wikipedia of a language, or another wiki that MediaWiki runs.
        user_agent: The value of the header User-Agent. Wikimedia wants it to name the program and a contact:
            "my-bot/1.0 (me@example.org)", see https://foundation.wikimedia.org/wiki/Policy:User-Agent_policy.
        timeout: Seconds for a response.

    Raises:
        DefinitionError: `base_url` is not an HTTP address, the timeout is not above 0, or `user_agent` cannot be sent.
    """
    url = check_base_url("base_url", base_url)
    service = JsonService("Wikipedia", url, user_agent=user_agent, timeout=timeout)

    @tool(title="Wikipedia", effect="read", trust="foreign")
    async def wikipedia(
        query: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=300)],
        limit: Annotated[int, Ge(1), Le(10)] = 5,
    ) -> Articles:
        """Search Wikipedia: titles, short excerpts and addresses of articles, the best first.

        Args:
            query: The query.
            limit: Maximum number of articles.
        """
        parameters: dict[str, str | int] = {"q": query, "limit": limit}
        reply = await service.get("/w/rest.php/v1/search/page", parameters, _PAGES)
        return Articles(results=[_make_article(page, url) for page in reply["pages"][:limit]])

    return wikipedia


def _make_article(page: _Article, base_url: str) -> Article:
    return Article(
        title=clean_text(page["title"]),
        key=clean_text(page["key"]),
        excerpt=clean_text(strip_markup(page.get("excerpt"))),
        url=f"{base_url}/wiki/{quote(page['key'], safe='')}" if page["key"].strip(".") else "",  # ".." is another path
        description=clean_text(page.get("description")),
        thumbnail=_make_thumbnail(page.get("thumbnail")),
    )


def _make_thumbnail(thumbnail: object) -> str:
    """Return the URL of a picture, or "" if it is not an HTTP address."""
    url = clean_text(thumbnail.get("url")) if isinstance(thumbnail, dict) else ""
    url = f"https:{url}" if url.startswith("//") else url
    return url if url.startswith(("http://", "https://")) else ""
