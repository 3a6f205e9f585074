"""How OpenAPI tools write arguments: the specification's own table, and whatever a model thinks of."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, unquote

import httpx2
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.properties import examples
from toolkit import DefinitionError, Tool, Toolbox
from toolkit.sources.openapi import openapi_tools


class Wire:
    """A client that answers every request alike, and records the last one."""

    def __init__(self) -> None:
        self.last: httpx2.Request | None = None
        self.client = httpx2.AsyncClient(transport=httpx2.MockTransport(self._answer))

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        self.last = request
        return httpx2.Response(200, json={})

    def send_call(self, tool: Tool[..., Any], arguments: Mapping[str, Any]) -> httpx2.Request | None:
        """Call a tool; return its request, or None if the arguments were refused."""
        self.last = None
        result = Toolbox([tool]).call(tool.name, arguments)
        assert (self.last is None) == (result.kind == "invalid_arguments"), result
        return self.last


WIRE = Wire()


def tool(*parameters: Mapping[str, Any], path: str = "/x", method: str = "get", **keywords: Any) -> Tool[..., Any]:
    """A tool of one operation."""
    operation = {"operationId": "x", "parameters": [*parameters], **keywords}
    document = {"openapi": "3.1.1", "paths": {path: {method: operation}}}
    (made,) = openapi_tools(document, base_url="https://api.example/v1", client=WIRE.client)
    return made


def parameter(place: str, name: str = "color", **keywords: Any) -> dict[str, Any]:
    """A parameter of any type."""
    return {"name": name, "in": place, "schema": {}, "required": place == "path", **keywords}


BLUE, COLORS, RGB = "blue", ["blue", "black", "brown"], {"R": 100, "G": 200, "B": 150}

# OpenAPI 3.1.1, section Style Examples; with it, what the styles of other places are get_part like.
TABLE: list[tuple[str, str, bool, Any, str]] = [
    ("path", "simple", False, BLUE, "blue"),
    ("path", "simple", False, COLORS, "blue,black,brown"),
    ("path", "simple", False, RGB, "R,100,G,200,B,150"),
    ("path", "simple", True, BLUE, "blue"),
    ("path", "simple", True, COLORS, "blue,black,brown"),
    ("path", "simple", True, RGB, "R=100,G=200,B=150"),
    ("query", "form", False, "", "color="),
    ("query", "form", False, BLUE, "color=blue"),
    ("query", "form", False, COLORS, "color=blue,black,brown"),
    ("query", "form", False, RGB, "color=R,100,G,200,B,150"),
    ("query", "form", True, "", "color="),
    ("query", "form", True, BLUE, "color=blue"),
    ("query", "form", True, COLORS, "color=blue&color=black&color=brown"),
    ("query", "form", True, RGB, "R=100&G=200&B=150"),
    ("query", "deepObject", True, RGB, "color%5BR%5D=100&color%5BG%5D=200&color%5BB%5D=150"),
    ("query", "deepObject", True, {"a": {"b": [1, "c"]}}, "color%5Ba%5D%5Bb%5D%5B0%5D=1&color%5Ba%5D%5Bb%5D%5B1%5D=c"),
    ("query", "deepObject", True, {"a": [], "b": None}, ""),
    ("header", "simple", False, "", ""),
    ("header", "simple", False, COLORS, "blue,black,brown"),
    ("header", "simple", False, RGB, "R,100,G,200,B,150"),
    ("header", "simple", True, RGB, "R=100,G=200,B=150"),
]


def get_part(place: str, request: httpx2.Request | None) -> str:
    """Return a part of the last request."""
    if request is None:
        return "refused"
    path, _, query = request.url.raw_path.decode().partition("?")
    return str({"path": path.removeprefix("/v1/"), "query": query, "header": request.headers.get("color")}[place])


@pytest.mark.parametrize(("place", "style", "explode", "value", "expected"), TABLE)
def test_styles(place: str, style: str, explode: bool, value: Any, expected: str) -> None:
    """Each style is get_part as the specification has it."""
    path = "/{color}" if place == "path" else "/x"
    made = tool(parameter(place, style=style, explode=explode), path=path)

    assert expected == get_part(place, WIRE.send_call(made, {"color": value}))


@pytest.mark.parametrize(
    ("place", "value", "expected"),
    [
        ("path", COLORS, "blue,black,brown"),
        ("query", COLORS, "color=blue&color=black&color=brown"),
        ("query", True, "color=true"),
        ("query", 1.0, "color=1.0"),
        ("query", [[1], {"a": None}], "color=%5B1%5D&color=%7B%22a%22%3Anull%7D"),
        ("query", None, ""),
        ("query", [], ""),
        ("query", {}, ""),
        ("query", [1, None], "color=1"),
        ("query", {"a": None}, ""),
        ("header", None, "None"),
        ("header", [], "None"),
        ("header", RGB, "R,100,G,200,B,150"),
    ],
)
def test_usual_styles(place: str, value: Any, expected: str) -> None:
    """Without a declared style each place has its default; empty values are not written."""
    made = tool(parameter(place), path="/{color}" if place == "path" else "/x")

    assert expected == get_part(place, WIRE.send_call(made, {"color": value}))


@pytest.mark.parametrize("style", ["label", "matrix", "spaceDelimited", "pipeDelimited"])
def test_rare_styles(style: str) -> None:
    """An operation with another style is refused, and named."""
    with pytest.raises(DefinitionError, match=r"GET /x: parameters\.style: (?s:.*) exclude=\['x'\]"):
        tool(parameter("query", style=style))


@pytest.mark.parametrize(
    ("place", "media_type", "value", "expected"),
    [
        ("query", "application/json", {"lat": 1.5}, "color=%7B%22lat%22%3A1.5%7D"),
        ("query", "application/json", "a", "color=%22a%22"),
        ("query", "application/json", [], "color=%5B%5D"),
        ("header", "application/json", [1], "[1]"),
        ("path", "text/plain", "a/b", "a%2Fb"),
    ],
)
def test_content(place: str, media_type: str, value: Any, expected: str) -> None:
    """A parameter that is a document of its own is get_part as one."""
    declared = {"name": "color", "in": place, "required": True, "content": {media_type: {"schema": {}}}}
    made = tool(declared, path="/{color}" if place == "path" else "/x")

    assert expected == get_part(place, WIRE.send_call(made, {"color": value}))


@pytest.mark.parametrize(
    ("path", "send_call"),
    [("/a b/{color}", "/a%20b/x"), ("/café/{color}", "/caf%C3%A9/x"), ("/%20/t('{color}')", "/%20/t('x')")],
)
def test_literals(path: str, send_call: str) -> None:
    """The get_fixed_parts parts of a path are written in the characters of a URL."""
    request = WIRE.send_call(tool(parameter("path"), path=path), {"color": "x"})

    assert request is not None and f"/v1{send_call}" == request.url.raw_path.decode()


@pytest.mark.parametrize(
    ("place", "declared", "value"),
    [
        ("path", {}, ".."),
        ("path", {}, "."),
        ("path", {}, ""),
        ("path", {}, None),
        ("path", {}, []),
        ("path", {}, "a/../b"),
        ("path", {}, "..\\b"),
        ("query", {"style": "deepObject"}, {"a][b": 1}),
        ("query", {}, {"other": 1}),
        ("query", {}, {"KEY": 1}),
        ("header", {}, "a\r\nX: b"),
        ("header", {}, "a\x00"),
        ("header", {}, " a"),
        ("header", {}, "é"),
        ("header", {}, ["a,b"]),
        ("header", {"explode": True}, {"a=b": "c"}),
    ],
)
def test_ambiguous_values(place: str, declared: Mapping[str, Any], value: Any) -> None:
    """A value that a server would parse as another one is refused, before anything is send_call."""
    others = [parameter("query", "other"), parameter("query", "key")]
    made = tool(parameter(place, **declared), *others, path="/{color}/y" if place == "path" else "/x")

    assert "refused" == get_part(place, WIRE.send_call(made, {"color": value}))


def test_a_step_up_beside_a_literal() -> None:
    """A value is not a step up for servers that cut a segment at its first semicolon either."""
    made = tool(parameter("path"), path="/u/{color};v=1/c")

    assert "refused" == get_part("path", WIRE.send_call(made, {"color": ".."}))


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
STEPS = st.lists(st.sampled_from(["..", ".", "/", "\\", "?", "#", "%", "2e", "@", ":", "//", ";", "\r\n", "a"]))
WORDS = TEXTS | STEPS.map("".join)
ITEM = tool(
    parameter("path", "id"),
    parameter("path", "part"),
    parameter("query", "q"),
    parameter("query", "list"),
    parameter("query", "deep", style="deepObject"),
    parameter("header", "X-Note"),
    path="/items/{id}/parts/{part}",
    method="put",
    requestBody={"content": {"text/plain": {}}},
)
OPTIONAL = {
    "q": WORDS,
    "list": st.lists(WORDS, min_size=1),
    "deep": st.dictionaries(WORDS, WORDS, min_size=1),
    "X-Note": WORDS,
    "body": WORDS,
}


@examples(300)
@given(arguments=st.fixed_dictionaries({"id": WORDS, "part": WORDS}, optional=OPTIONAL))
@example({"id": "%2e%2e", "part": "@evil.example/?x#y"})
@example({"id": "https://evil.example", "part": "a", "q": "1&id=2"})
def test_any_values(arguments: dict[str, Any]) -> None:
    """Method, host and segments do not change, and a server parses the same values; or nothing is send_call."""
    request = WIRE.send_call(ITEM, arguments)

    assert parse_request(request) in (None, ("PUT", "api.example", "v1", "items", "parts", arguments))


@pytest.mark.parametrize("value", ["a/b", "..a", "...", "%2e%2e", "a b", "a?b#c", "@evil.example", "é\n", ";=", "a:b"])
def test_what_is_no_step(value: str) -> None:
    """A value that leads nowhere else is send_call, whatever characters it has."""
    request = WIRE.send_call(ITEM, {"id": value, "part": value})

    assert ("PUT", "api.example", "v1", "items", "parts", {"id": value, "part": value}) == parse_request(request)


def parse_request(request: httpx2.Request | None) -> tuple[Any, ...] | None:
    """Parse a request as a server does: its get_fixed_parts parts, and the arguments; None without a request."""
    if request is None:
        return None
    path, _, query = request.url.raw_path.decode().partition("?")
    _, version, items, item, parts, part = path.split("/")
    arguments = {
        "id": unquote(item),
        "part": unquote(part),
        **read_query(query),
        **{"X-Note": value for value in request.headers.get_list("x-note")},
        **({"body": request.content.decode()} if "content-type" in request.headers else {}),
    }
    return request.method, request.url.host, version, items, parts, arguments


def read_query(query: str) -> dict[str, Any]:
    """Read a query as a server does."""
    parse_request: dict[str, Any] = {}
    for name, value in parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query)):
        found = re.fullmatch(r"deep\[(.*)\]", name, re.DOTALL)
        if found:
            parse_request.setdefault("deep", {})[found[1]] = value
        elif name == "list":
            parse_request.setdefault("list", []).append(value)
        else:
            parse_request[name] = value
    return parse_request


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.parametrize(("place", "style", "explode"), sorted({row[:3] for row in TABLE}))
@examples(30)
@given(value=VALUES)
def test_any_value_in_any_style(place: str, style: str, explode: bool, value: Any) -> None:
    """Whatever a value is, and however it is get_part: it stays in its place, or nothing is send_call."""
    path = "/a/{color}/b" if place == "path" else "/a/x/b"
    request = WIRE.send_call(tool(parameter(place, style=style, explode=explode), path=path), {"color": value})

    assert get_fixed_parts(request) in (None, ("GET", "https", "api.example", ["", "v1", "a", "b"]))


def get_fixed_parts(request: httpx2.Request | None) -> tuple[Any, ...] | None:
    """Return the parts of a request that arguments must not change; None without a request."""
    if request is None:
        return None
    steps = request.url.raw_path.decode().partition("?")[0].split("/")
    return request.method, request.url.scheme, request.url.host, [*steps[:3], *steps[4:]]


JSON = tool(method="post", requestBody={"required": True, "content": {"application/json": {}}})


@examples(100)
@given(value=VALUES)
def test_bodies_of_any_value(value: Any) -> None:
    """A JSON body arrives as it was passed, whatever it is."""
    request = WIRE.send_call(JSON, {"body": value})

    assert [value] == [json.loads(request.content) if request else "refused"]
