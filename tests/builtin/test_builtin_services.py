"""`weather` and `wikipedia`, against a server on this machine that speaks as the real ones do, or worse."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from toolkit import DefinitionError, Runner, Tool, Toolbox, __version__
from toolkit.builtin import weather_tool, wikipedia_tool
from toolkit.testing import ScriptedModel, call

JAKARTA = {"results": [{"id": 1, "name": "Jakarta", "latitude": -6.2, "longitude": 106.8, "country": "Indonesia"}]}
NOW = {"temperature_2m": 31.5, "relative_humidity_2m": 70, "wind_speed_10m": 8.6, "weather_code": 2}
WEATHER = {"temperature_c": 31.5, "humidity_pct": 70, "wind_speed_kmh": 8.6, "conditions": "Partly cloudy"}
PAGE = {
    "id": 9228,
    "key": "Earth_&_Moon",
    "title": "Earth & Moon",
    "excerpt": 'The <span class="searchmatch">Earth</span> &amp; its moon &lt;3',
    "description": "Third planet",
    "thumbnail": {"mimetype": "image/jpeg", "width": 60, "url": "//upload.example.org/earth.jpg"},
}


UNREADABLE = "Open-Meteo gave an answer that cannot be read."


class Service:
    """A server on this machine; `answer` makes the response for a path, and `requests` has the requests."""

    def __init__(self, answer: dict[str, Any]) -> None:
        self.answer = answer
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.headers: dict[str, str] = {}
        self.asked, self.left = threading.Event(), threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def close(self) -> None:
        """End it, and its threads."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                service.requests.append((parts.path, dict(parse_qsl(parts.query))))
                service.headers = dict(self.headers)
                answer = service.answer.get(parts.path, (404, b"{}"))
                with suppress(OSError):  # the client may not want all of it
                    (answer if callable(answer) else self.give)(self, answer)

            @staticmethod
            def give(handler: BaseHTTPRequestHandler, answer: Any) -> None:
                status, body = answer if isinstance(answer, tuple) else (200, json.dumps(answer).encode())
                handler.send_response(status)
                handler.send_header("Content-Length", str(len(body)))
                handler.send_header("Location", "/v1/elsewhere")
                handler.end_headers()
                handler.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                """Log nothing."""

        return Handler

    def silent(self, handler: BaseHTTPRequestHandler, _: Any) -> None:
        """Send nothing until the client disconnects."""
        self.asked.set()
        handler.connection.recv(1)
        self.left.set()

    def endless(self, handler: BaseHTTPRequestHandler, _: Any) -> None:
        """Answer without end."""
        handler.send_response(200)
        handler.end_headers()
        while True:
            handler.wfile.write(b" " * 65536)


@pytest.fixture
def service() -> Iterator[Service]:
    """A server that knows the weather in Jakarta, and one article."""
    subject = Service(
        {"/v1/search": JAKARTA, "/v1/forecast": {"current": NOW}, "/w/rest.php/v1/search/page": {"pages": [PAGE]}}
    )
    yield subject
    subject.close()


def call_tool(subject: Tool[..., Any], **arguments: Any) -> Any:
    """Return a tool's value, or its text if it is an error."""
    result = Toolbox([subject]).call(subject.name, arguments)
    return result.text if result.is_error else json.loads(result.text)


def test_weather(service: Service) -> None:
    """A city is looked up, and its weather returned with units in the names."""
    assert {"location": "Jakarta, Indonesia", **WEATHER} == call_tool(
        weather_tool(base_url=service.url), location=" Jakarta "
    )
    assert ["/v1/search", "/v1/forecast"] == [path for path, _ in service.requests]
    assert {"name": "Jakarta", "count": "1", "language": "en", "format": "json"} == service.requests[0][1]
    assert ("-6.2", "106.8") == (service.requests[1][1]["latitude"], service.requests[1][1]["longitude"])


@pytest.mark.parametrize("location", ["-6.2,106.8", "+6 , -106.80"], ids=repr)
def test_coordinates(service: Service, location: str) -> None:
    """Coordinates need not be looked up."""
    assert {"location": location, **WEATHER} == call_tool(weather_tool(base_url=service.url), location=location)
    assert ["/v1/forecast"] == [path for path, _ in service.requests]


@pytest.mark.parametrize(
    ("location", "text"),
    [
        ("Nowhere", "location not found: Nowhere"),
        (" ", 'Invalid arguments: location: String should have at least 1 character (received " ").'),
    ],
    ids=repr,
)
def test_no_place(service: Service, location: str, text: str) -> None:
    """An unknown place is an error."""
    service.answer["/v1/search"] = {"generationtime_ms": 0.5}

    assert text == call_tool(weather_tool(base_url=service.url), location=location)[: len(text)]


def test_unknown_code(service: Service) -> None:
    """An unknown weather code is returned as a number."""
    service.answer["/v1/forecast"] = {"current": {**NOW, "weather_code": 42}}

    assert "WMO code 42" == call_tool(weather_tool(base_url=service.url), location="0,0")["conditions"]


def test_place_as_text(service: Service) -> None:
    """Invisible characters in the name of a place are escaped."""
    service.answer["/v1/search"] = {"results": [{**JAKARTA["results"][0], "name": "J\u202e", "country": None}]}

    assert "J\\u202e" == call_tool(weather_tool(base_url=service.url), location="Jakarta")["location"]


def test_wikipedia(service: Service) -> None:
    """Articles have their URL, and an excerpt without markup."""
    article = {
        "title": "Earth & Moon",
        "key": "Earth_&_Moon",
        "excerpt": "The Earth & its moon <3",
        "url": f"{service.url}/wiki/Earth_%26_Moon",
        "description": "Third planet",
        "thumbnail": "https://upload.example.org/earth.jpg",
    }

    assert {"results": [article]} == call_tool(wikipedia_tool(base_url=service.url), query="earth", limit=1)
    assert [("/w/rest.php/v1/search/page", {"q": "earth", "limit": "1"})] == service.requests


def test_wikipedia_without(service: Service) -> None:
    """Missing fields of an article are empty; no result is not an error."""
    tool = wikipedia_tool(base_url=service.url)
    service.answer["/w/rest.php/v1/search/page"] = {
        "pages": [{"title": "X", "key": "X", "excerpt": None, "description": None, "thumbnail": None}] * 9
    }
    result = call_tool(tool, query="x")["results"]
    service.answer["/w/rest.php/v1/search/page"] = {"pages": []}

    assert (5, "", "", "") == (len(result), result[0]["excerpt"], result[0]["description"], result[0]["thumbnail"])
    assert {"results": []} == call_tool(tool, query="x")


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("thumbnail", {"url": "javascript:alert(1)"}, ""),
        ("thumbnail", {"url": "https://example.org/\u202e.png"}, "https://example.org/\\u202e.png"),
        ("thumbnail", {"url": "/" + "x" * 2000}, ""),
        ("thumbnail", [], ""),
        ("thumbnail", {"url": 5}, ""),
        ("excerpt", 5, ""),
        ("excerpt", "a\u202e<b>b</b>&#xe0041;\u200b c\u00a0d", "a\\u202eb\\udb40\\udc41\\u200b c d"),
        ("excerpt", "👩\u200d👧 ❤\ufe0f میان\u200cبر", "👩\u200d👧 ❤\ufe0f میان\u200cبر"),
        ("description", "\x1b[31m", "\\u001b[31m"),
        ("title", "x" * 3000, "x" * 2000),
    ],
    ids=str,
)
def test_odd_fields(service: Service, field: str, value: Any, expected: str) -> None:
    """An invalid field is left out, cut or escaped; the article remains."""
    service.answer["/w/rest.php/v1/search/page"] = {"pages": [{**PAGE, field: value}]}

    assert expected == call_tool(wikipedia_tool(base_url=service.url), query="x")["results"][0][field]


@pytest.mark.parametrize(
    ("key", "path"),
    [("../../x", "/wiki/..%2F..%2Fx"), ("AC/DC", "/wiki/AC%2FDC"), ("x?y#z", "/wiki/x%3Fy%23z"), ("..", None)],
    ids=repr,
)
def test_key(service: Service, key: str, path: str | None) -> None:
    """The URL of an article is one of the wiki, whatever its key."""
    service.answer["/w/rest.php/v1/search/page"] = {"pages": [{**PAGE, "key": key}]}
    result = call_tool(wikipedia_tool(base_url=f"{service.url}/"), query="x")["results"][0]

    assert (f"{service.url}{path}" if path else "") == result["url"]


def test_no_article(service: Service) -> None:
    """An invalid article is left out; the others remain."""
    service.answer["/w/rest.php/v1/search/page"] = {"pages": [{"title": 5, "key": "X"}, {}, None, PAGE]}

    assert ["Earth & Moon"] == [
        one["title"] for one in call_tool(wikipedia_tool(base_url=service.url), query="x")["results"]
    ]


@pytest.mark.parametrize(
    "arguments", [{"query": " "}, {"query": "x", "limit": 0}, {"query": "x", "limit": 11}], ids=str
)
def test_wikipedia_refused(service: Service, arguments: dict[str, Any]) -> None:
    """An empty query and a limit above ten are refused."""
    assert "Invalid arguments: " == call_tool(wikipedia_tool(base_url=service.url), **arguments)[:19]
    assert [] == service.requests


@pytest.mark.parametrize(
    ("agent", "options"),
    [
        (f"function-toolkit/{__version__} (https://pypi.org/project/function-toolkit/) httpx2", {}),
        ("bot/1 (me@example.org)", {"user_agent": "bot/1 (me@example.org)"}),
    ],
    ids=["usual", "own"],
)
def test_headers(service: Service, agent: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The service receives the user agent, and nothing of the environment."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    call_tool(wikipedia_tool(base_url=service.url, **options), query="earth")

    assert agent == service.headers["User-Agent"]
    assert {"Host", "User-Agent", "Accept", "Accept-Encoding", "Connection"} == set(service.headers)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ((503, b"{}"), "Open-Meteo API 503: {}"),
        ((302, b"{}"), "Open-Meteo API 302: {}"),
        ((200, b"<html>"), "Open-Meteo gave an answer that cannot be read."),
        ((200, b'{"current": 5}'), "Open-Meteo gave an answer that cannot be read."),
        ((200, json.dumps({"current": {**NOW, "temperature_2m": float("nan")}}).encode()), UNREADABLE),
        ((200, json.dumps({"current": NOW}).replace("31.5", "1e999").encode()), UNREADABLE),
        ((200, json.dumps({"current": {**NOW, "weather_code": int("9" * 4000)}}).encode()), UNREADABLE),
        ((200, b"[" * 100_000), "Open-Meteo gave an answer that cannot be read."),
        ((200, b"\xff"), "Open-Meteo gave an answer that cannot be read."),
        ((200, b" " * 1_048_577), "Open-Meteo gave an answer that is too long: more than 1048576 bytes."),
    ],
    ids=["status", "redirect", "html", "form", "nan", "infinite", "code", "deep", "bytes", "long"],
)
def test_bad_answers(service: Service, answer: tuple[int, bytes], text: str) -> None:
    """An invalid response is an error in plain text; redirects are not followed."""
    service.answer["/v1/forecast"] = answer

    assert text == call_tool(weather_tool(base_url=service.url), location="0,0")
    assert ["/v1/forecast"] == [path for path, _ in service.requests]


def test_endless(service: Service) -> None:
    """An answer without end is left when it is too long."""
    service.answer["/v1/forecast"] = service.endless

    assert "too long" in call_tool(weather_tool(base_url=service.url), location="0,0")


def test_late(service: Service) -> None:
    """A response that does not come in time is an error, and the connection is closed."""
    service.answer["/v1/forecast"] = service.silent

    assert "Open-Meteo did not answer within 0.5 s. Try again later." == call_tool(
        weather_tool(base_url=service.url, timeout=0.5), location="0,0"
    )
    assert service.left.wait(10)


def test_unreachable() -> None:
    """If the server cannot be reached, the result is an error."""
    missing = Service({})
    missing.close()

    assert "Open-Meteo cannot be reached (ConnectError). Try again later." == call_tool(
        weather_tool(base_url=missing.url), location="0,0"
    )


def test_cancelled(service: Service) -> None:
    """A cancelled run closes the connection."""
    service.answer["/v1/forecast"] = service.silent
    runner = Runner([weather_tool(base_url=service.url)], model=ScriptedModel([call("weather", location="0,0")]))
    handle = runner.start("How is the weather?")
    service.asked.wait(10)
    runner.cancel()

    assert "cancelled" == handle.result(10).finish_reason
    assert service.left.wait(10)


def test_in_a_loop(service: Service) -> None:
    """A run in an event loop asks both at the same time."""
    calls = [call("weather", location="Jakarta"), call("wikipedia", query="earth")]
    tools = [weather_tool(base_url=service.url), wikipedia_tool(base_url=service.url)]
    result = asyncio.run(Runner(tools, model=ScriptedModel([calls, "31.5"])).arun("?"))

    assert [False, False] == [subject.result.is_error for subject in result.calls]


@pytest.mark.parametrize("make", [weather_tool, wikipedia_tool])
@pytest.mark.parametrize(
    "url",
    ["", "api.example.org", "file:///etc/passwd", "http://", "http://[::1", "http://127.0.0.1:99999", None, 5],
    ids=repr,
)
def test_invalid_address(make: Callable[..., Any], url: Any) -> None:
    """An invalid base URL is refused when the tool is made."""
    with pytest.raises(DefinitionError, match="base_url="):
        make(base_url=url)


@pytest.mark.parametrize("make", [weather_tool, wikipedia_tool])
@pytest.mark.parametrize("more", ["me:s3cret@a.example", "a.example?x=1", "a.example/?", "a.example#f"])
def test_more_than_an_address(make: Callable[..., Any], more: str) -> None:
    """A base URL with a query or a user is refused; the message shows no password."""
    with pytest.raises(DefinitionError, match="^base_url= has a user, a query or a fragment") as refused:
        make(base_url=f"https://{more}")

    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize("agent", ["", "a\r\nX: y", "ä", None], ids=repr)
def test_invalid_user_agent(agent: Any) -> None:
    """An invalid user agent is refused when the tool is made."""
    with pytest.raises(DefinitionError, match="user_agent="):
        wikipedia_tool(user_agent=agent)


@pytest.mark.parametrize("make", [weather_tool, wikipedia_tool])
@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf"), "3", None, True], ids=repr)
def test_invalid_timeout(make: Callable[..., Any], timeout: Any) -> None:
    """An invalid timeout is refused when the tool is made."""
    with pytest.raises(DefinitionError, match="timeout="):
        make(timeout=timeout)
