"""`weather`: the current weather, from Open-Meteo, which needs no key."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from annotated_types import Ge, Le
from pydantic import FiniteFloat, StringConstraints, TypeAdapter
from typing_extensions import NotRequired, TypedDict

from toolkit._guards.service import TIMEOUT, JsonService, check_base_url, clean_text
from toolkit._options import check_options
from toolkit._tools.decorator import tool
from toolkit._tools.tool import Tool
from toolkit.errors import Failed

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
        DefinitionError: The address is not one of HTTP, or the timeout is not above 0.
    """
    forecast = check_base_url("base_url", base_url)
    geocoding = GEOCODING if forecast == FORECAST else forecast
    return _Weather(*(JsonService("Open-Meteo", url, timeout=timeout) for url in (forecast, geocoding))).weather


@dataclass(frozen=True)
class _Weather:
    forecast: JsonService
    geocoding: JsonService

    @tool(title="Weather", effect="read")
    async def weather(
        self, location: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]
    ) -> Weather:
        """Get the current weather at a place: temperature, humidity, wind and conditions.

        Args:
            location: City name, such as "Jakarta", or "latitude,longitude", such as "-6.2,106.8".
        """
        place = _parse_coordinates(location) or await self._look_up_place(location)
        parameters = {
            "latitude": str(place["latitude"]),
            "longitude": str(place["longitude"]),
            "current": "temperature_2m,relative_humidity_2m,wind_speed_10m,weather_code",
        }
        reply = await self.forecast.get("/v1/forecast", parameters, _FORECAST)
        now = reply["current"]
        return Weather(
            location=", ".join(filter(None, (clean_text(place["name"]), clean_text(place.get("country"))))),
            temperature_c=now["temperature_2m"],
            humidity_pct=now["relative_humidity_2m"],
            wind_speed_kmh=now["wind_speed_10m"],
            conditions=CONDITIONS.get(now["weather_code"], f"WMO code {now['weather_code']}"),
        )

    async def _look_up_place(self, name: str) -> _Place:
        parameters: dict[str, str | int] = {"name": name, "count": 1, "language": "en", "format": "json"}
        reply = await self.geocoding.get("/v1/search", parameters, _PLACES)
        places = reply.get("results")
        if not places:
            raise Failed(f"location not found: {name}")
        return places[0]


def _parse_coordinates(location: str) -> _Place | None:
    """Parse "latitude,longitude"; None for a name."""
    match = _COORDINATES.fullmatch(location)
    if match is None:
        return None
    latitude, longitude = map(float, match.groups())
    if abs(latitude) > 90 or abs(longitude) > 180:
        raise Failed(f"location not found: {location}: latitudes are -90 to 90, longitudes -180 to 180")
    return _Place(name=location, latitude=latitude, longitude=longitude)
