"""`weather`: the weather now, from Open-Meteo, which needs no key."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any

from annotated_types import Ge, Le
from pydantic import FiniteFloat, StringConstraints, TypeAdapter
from typing_extensions import NotRequired, TypedDict

from toolkit._guards.service import SECONDS, Service, address, plain
from toolkit._tools.decorator import tool
from toolkit._tools.tool import Tool
from toolkit.errors import Failed

FORECAST = "https://api.open-meteo.com"
GEOCODING = "https://geocoding-api.open-meteo.com"

# WMO code table 4677, as far as https://open-meteo.com/en/docs says that it is used.
CONDITIONS: Mapping[int, str] = MappingProxyType(
    {
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
)

_DEGREES = r"\s*([+-]?\d{1,3}(?:\.\d{1,15})?)\s*"
_PLACE = re.compile(f"{_DEGREES},{_DEGREES}", re.ASCII)


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
    """The weather at one place, now."""

    location: str
    temperature_c: float
    humidity_pct: float
    wind_speed_kmh: float
    conditions: str


def weather_tool(
    *, base_url: str = FORECAST, geocoding_url: str | None = None, timeout: float = SECONDS
) -> Tool[..., Any]:
    """Make `weather`.

    Args:
        base_url: Where Open-Meteo is, or what speaks as it does.
        geocoding_url: Where places are looked up; the same by default, where that is not Open-Meteo's own.
        timeout: Seconds for each of its answers.

    Raises:
        DefinitionError: An address is none of HTTP, or there is no time for an answer.
    """
    forecast = address("base_url", base_url)
    usual = GEOCODING if forecast == FORECAST else forecast
    places = usual if geocoding_url is None else address("geocoding_url", geocoding_url)
    return _Weather(*(Service("Open-Meteo", url, seconds=timeout) for url in (forecast, places))).weather


@dataclass(frozen=True)
class _Weather:
    forecast: Service
    geocoding: Service

    @tool(title="Weather", effect="read")
    async def weather(
        self, location: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]
    ) -> Weather:
        """Tell the weather at a place now: temperature, humidity, wind and conditions.

        Args:
            location: City name, such as "Jakarta", or "latitude,longitude", such as "-6.2,106.8".
        """
        place = _coordinates(location) or await self._found(location)
        asked = "temperature_2m,relative_humidity_2m,wind_speed_10m,weather_code"
        where = {"latitude": str(place["latitude"]), "longitude": str(place["longitude"])}
        reply = await self.forecast.get("/v1/forecast", {**where, "current": asked}, _FORECAST)
        now = reply["current"]
        return Weather(
            location=", ".join(filter(None, (plain(place["name"]), plain(place.get("country"))))),
            temperature_c=now["temperature_2m"],
            humidity_pct=now["relative_humidity_2m"],
            wind_speed_kmh=now["wind_speed_10m"],
            conditions=CONDITIONS.get(now["weather_code"], f"WMO code {now['weather_code']}"),
        )

    async def _found(self, name: str) -> _Place:
        asked: dict[str, str | int] = {"name": name, "count": 1, "language": "en", "format": "json"}
        reply = await self.geocoding.get("/v1/search", asked, _PLACES)
        places = reply.get("results")
        if not places:
            raise Failed(f"location not found: {name}")
        return places[0]


def _coordinates(location: str) -> _Place | None:
    """Read "latitude,longitude"; None of what is a name."""
    found = _PLACE.fullmatch(location)
    if found is None:
        return None
    latitude, longitude = map(float, found.groups())
    if abs(latitude) > 90 or abs(longitude) > 180:
        raise Failed(f"location not found: {location}: latitudes are -90 to 90, longitudes -180 to 180")
    return _Place(name=location, latitude=latitude, longitude=longitude)
