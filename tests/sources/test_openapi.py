"""OpenAPI operations as tools: their schemas, and the requests to a server on this machine."""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
import time
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml

from toolkit import DefinitionError, Image, Tool, Toolbox
from toolkit.sources.openapi import openapi_tools

Answer = tuple[int, Mapping[str, str], bytes]


@dataclass
class Received:
    """A request, as it came over the wire."""

    line: str
    headers: Mapping[str, str]
    body: bytes


@dataclass
class Server:
    """Records requests on this machine, and answers them all alike.

    Attributes:
        answers: Answers by path, without the query.
        arrived: Set by a request to /slow, which is never answered.
        left: Set when the client has closed the connection.
    """

    base_url: str = ""
    requests: list[Received] = field(default_factory=list)
    answers: dict[str, Answer] = field(default_factory=dict)
    arrived: threading.Event = field(default_factory=threading.Event)
    left: threading.Event = field(default_factory=threading.Event)

    def answer(self, path: str) -> Answer:
        """Return the answer of a path: `{"ok": true}` by default."""
        return self.answers.get(path, (200, {"Content-Type": "application/json"}, b'{"ok":true}'))


def make_handler(server: Server) -> type[BaseHTTPRequestHandler]:
    """Make a handler of one connection."""

    class Handler(BaseHTTPRequestHandler):
        def handle_one_request(self) -> None:
            self.raw_requestline = self.rfile.readline(65_537)
            if not self.raw_requestline or not self.parse_request():
                self.close_connection = True
                return
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            server.requests.append(Received(self.requestline, {k.lower(): v for k, v in self.headers.items()}, body))
            if self.path == "/slow":
                server.arrived.set()
                self.rfile.read(1)
                server.left.set()
                return
            status, headers, content = server.answer(self.path.partition("?")[0])
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(b"" if self.command == "HEAD" else content)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler


@pytest.fixture
def server() -> Iterator[Server]:
    """A server on this machine."""
    made = Server()
    with ThreadingHTTPServer(("127.0.0.1", 0), make_handler(made)) as listening:
        made.base_url = f"http://127.0.0.1:{listening.server_port}"
        thread = threading.Thread(target=listening.serve_forever, args=(0.01,))
        thread.start()
        yield made
        listening.shutdown()
        thread.join()


PETSTORE = yaml.safe_load("""
openapi: 3.0.3
info: {title: Pets, version: 1.0}
servers:
  - url: https://eu.example.com/v1
paths:
  x-note: none of them
  /pets:
    parameters:
      - $ref: '#/components/parameters/Trace'
    get:
      operationId: listPets
      tags: [pets]
      summary: List pets
      description: All of them, page by page.
      parameters:
        - {name: limit, in: query, description: How many., schema: {type: integer, maximum: 100, default: 20}}
        - {name: 'X-Tenant', in: header, required: true, schema: {type: string}}
        - {name: Host, in: header, schema: {type: string}}
        - {name: X-HTTP-Method-Override, in: header, schema: {type: string}}
      responses: {200: {description: ok}}
    post:
      operationId: createPet
      tags: [pets]
      requestBody:
        required: true
        content:
          application/json: {schema: {$ref: '#/components/schemas/Pet'}}
  /pets/{id}:
    parameters:
      - {name: id, in: path, required: true, schema: {type: string}}
    get: {operationId: getPet, tags: [pets]}
    put:
      tags: [pets]
      requestBody:
        required: true
        content:
          application/json: {schema: {$ref: '#/components/schemas/Pet'}}
    delete: {operationId: deletePet, tags: [pets]}
    patch: {operationId: patchPet, deprecated: true}
  /owners:
    head: {operationId: getPet}
components:
  parameters:
    Trace: {name: X-Trace, in: header, schema: {type: string}}
  schemas:
    Pet:
      type: object
      required: [id, name]
      properties:
        id: {type: integer, readOnly: true}
        name: {type: string, example: Rex}
        age: {type: integer, nullable: true, minimum: 0, exclusiveMinimum: true}
        mood: {type: string, enum: ['yes', 'no'], default: 'no'}
        parent: {$ref: '#/components/schemas/Pet'}
""")


def operation(declared: Mapping[str, Any], path: str = "/x", method: str = "get", **document: Any) -> dict[str, Any]:
    """A document of one operation, `x`."""
    return {"openapi": "3.1.0", "paths": {path: {method: {"operationId": "x", **declared}}}, **document}


def body(schema: Mapping[str, Any], media_type: str = "application/json", **request: Any) -> dict[str, Any]:
    """An operation that is sent something."""
    return {"requestBody": {"required": True, "content": {media_type: {"schema": schema}}, **request}}


def make_tool(document: Any, base_url: str | None = "http://127.0.0.1:1", **options: Any) -> Tool[..., Any]:
    """The only tool of a document."""
    (tool,) = openapi_tools(document, base_url=base_url, **options)
    return tool


def call(tool: Tool[..., Any], /, **arguments: Any) -> str:
    """Return the text of a call."""
    return Toolbox([tool]).call(tool.name, arguments).text


def test_pattern_that_may_take_for_ever() -> None:
    """A pattern that cannot be checked in bounded time is left to the server."""
    query = {"name": "q", "in": "query", "schema": {"type": "string", "pattern": r"^(?=(a+)+$)"}}

    assert {"q": {"type": "string"}} == make_tool(operation({"parameters": [query]})).parameters["properties"]


def test_names_and_effects() -> None:
    """Each operation has a name, a title and an effect; a second of the same name has a name of its own."""
    tools = openapi_tools(PETSTORE)

    assert [
        ("listPets", "List pets", "read", True),
        ("createPet", "POST /pets", "write", None),
        ("getPet", "GET /pets/{id}", "read", True),
        ("put_pets_id", "PUT /pets/{id}", "write", True),
        ("deletePet", "DELETE /pets/{id}", "destructive", True),
        ("getPet_e17aa954", "HEAD /owners", "read", True),
    ] == [(each.name, each.title, each.settings.effect, each.settings.idempotent) for each in tools]


def test_names_that_are_taken() -> None:
    """The name that a second operation gets instead may be taken too."""
    ids = {"/a": "p_24792510", "/b": "p", "/c": "p"}
    paths = {path: {"get": {"operationId": name}} for path, name in ids.items()}

    assert ["p_24792510", "p", "p_47925106"] == [
        each.name for each in openapi_tools({"openapi": "3.1.0", "paths": paths}, base_url="https://a.example")
    ]


def test_schema_of_parameters() -> None:
    """HTTP's own headers and what the caller sends are left out of the schema; a default is described."""
    tool = make_tool(PETSTORE, include=["listPets"], headers={"x-tenant": "me"})

    limit = {"type": "integer", "maximum": 100, "description": "How many. Default: 20."}
    assert {
        "type": "object",
        "properties": {"X-Trace": {"type": "string"}, "limit": limit},
        "required": [],
        "additionalProperties": False,
    } == tool.parameters
    assert "List pets\n\nAll of them, page by page." == tool.description


def test_schema_of_a_body() -> None:
    """The members of a body are parameters, in JSON Schema 2020-12; recursion remains, read-only ones are left out."""
    mood = {"type": "string", "enum": ["yes", "no"], "description": 'Default: "no".'}
    members = {
        "name": {"type": "string", "examples": ["Rex"]},
        "age": {"type": ["integer", "null"], "exclusiveMinimum": 0},
        "mood": mood,
        "parent": {"$ref": "#/$defs/Pet"},
    }
    tool = make_tool(PETSTORE, include=["createPet"])

    assert {"X-Trace": {"type": "string"}, **members} == tool.parameters["properties"]
    assert (["name"], members) == (tool.parameters["required"], tool.parameters["$defs"]["Pet"]["properties"])


@pytest.mark.parametrize(
    ("chosen", "names"),
    [
        ({"include": ["pets"]}, ["listPets", "createPet", "getPet", "put_pets_id", "deletePet"]),
        ({"include": ["/pets/{id}"]}, ["getPet", "put_pets_id", "deletePet"]),
        ({"include": ["/pets"], "exclude": ["deletePet", "/pets/{id}"]}, ["listPets", "createPet"]),
        ({"methods": ("get", "HEAD")}, ["listPets", "getPet", "getPet_e17aa954"]),
        ({"include": ["patchPet"], "deprecated": True}, ["patchPet"]),
    ],
    ids=["tag", "path", "exclude", "methods", "deprecated"],
)
def test_choosing(chosen: Mapping[str, Any], names: list[str]) -> None:
    """Operations are chosen by id, tag, path and method, and retain their names."""
    assert names == [each.name for each in openapi_tools(PETSTORE, **chosen)]


def test_deprecated() -> None:
    """A deprecated operation is described as such."""
    assert "Deprecated." == make_tool(PETSTORE, include=["patchPet"], deprecated=True).description


def test_long_descriptions_are_cut() -> None:
    """A description is no longer than a provider takes."""
    description = make_tool(operation({"description": "word " * 1000})).description

    assert (True, "word…") == (len(description) <= 1000, description[-5:])


GET: dict[str, Any] = operation({})
IN_PATH = {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}


@pytest.mark.parametrize(
    ("document", "options", "message"),
    [
        ({"swagger": "2.0"}, {}, "swagger2openapi"),
        ({"openapi": "4.0"}, {}, "3.0, 3.1, 3.2"),
        ("[1]\n", {}, "'paths'"),
        ('{"openapi": ', {}, "is not JSON: EOF .*column 12"),
        ("openapi: 3.1.0\n", {}, r"is not JSON: .*For YAML, pass the data: openapi_tools\(yaml.safe_load\(text\)\)"),
        ({"openapi": {1, 2}}, {}, "openapi="),
        ({"openapi": "3.1.0", "x-a": object()}, {}, "is not JSON: Unable to serialize"),
        ("https://example.com/openapi.json", {}, r"httpx2.get\(...\).text"),
        (GET, {"include": "x"}, r"include=\['x'\]"),
        (GET, {"include": ["y"]}, r"'y' is not an operation.*'/'\. Available: x"),
        (GET, {"methods": ["TRACE"]}, "TRACE.*GET, HEAD"),
        (GET, {"methods": ["POST"]}, "1 operations is left"),
        ({**GET, "paths": {}}, {}, r"^The document's paths have no operations\.$"),
        ({"paths": {}}, {}, "is an object with the keys 'openapi'"),
        (GET, {"headers": {"X": "a\n"}}, r"headers\['X'\].*strip"),
        (GET, {"client": httpx2.Client}, "is not an httpx2.AsyncClient"),
        (GET, {"max_bytes": 0}, "max_bytes=0"),
        (GET, {"max_bytes": "5"}, "max_bytes='5'"),
        (GET, {"max_bytes": True}, "max_bytes=True is not a whole number"),
        (GET, {"base_url": 3}, "base_url=3 is not of type str"),
        (GET, {"deprecated": "no"}, "deprecated='no' is not of type bool"),
        (GET, {"include": ""}, "include='' is not a list of texts"),
        (GET, {"methods": "GET"}, r"methods=\['GET'\]"),
        (GET, {"include": [5]}, r"include=\[5\] is not a list of texts"),
        (GET, {"headers": "X: 1"}, "headers= maps names"),
        (GET, {"headers": {"X Key: ": "1"}}, r"headers\['X Key: '\] cannot be sent"),
        (GET, {"client": httpx2.AsyncClient(params={"v": "1"})}, "client= has params"),
        (GET, {"timeout": "5"}, "^openapi_tools: timeout='5'"),
        (None, {}, "is data, text, or a path, not None"),
        (b"{}", {}, "is data, text, or a path, not b'{}'"),
        (operation({}, path="/x/{id}"), {}, "GET /x/{id}: .*no parameter has that name.*exclude=\\['x'\\]"),
        (operation({}, path="@evil.example/"), {}, "begins with '/'"),
        (operation({"parameters": [IN_PATH]}, path="{id}/x"), {}, "begins with '/'"),
        (operation({}, path="/x?y=1"), {}, "neither"),
        (operation({"parameters": [{**IN_PATH, "name": "a/b"}]}, path="/{a/b}/c"), {}, "nor '/' in braces"),
        (operation({"parameters": [{"name": "X\r\nX", "in": "header"}]}), {}, "is not a name of a header"),
        (operation({"requestBody": {"content": {"text/x\r\nX: 1": {}}}}), {}, "is not a media type"),
        (operation({"parameters": [{"name": "a", "in": "mind"}]}), {}, "GET /x: parameters.in: Input should be"),
        (operation({"parameters": [{"$ref": "other.yaml#/A"}]}), {}, "'other.yaml#/A' is outside.*bundle"),
        (operation(body({"$ref": "https://example.com/a.json"})), {}, "is outside.*bundle"),
        (operation({"parameters": [{"$ref": "#/a"}]}, a={"$ref": "#/a"}), {}, "in a circle"),
        (operation({"requestBody": {}}), {}, "requestBody has no content"),
        (operation({"tags": "pets"}), {}, r"GET /x: operation.tags: .*exclude=\['x'\]"),
        ({"openapi": "3.1.0", "paths": {"/n": {"$ref": "./n.yaml#/p"}}}, {}, r"/n: path: .*exclude=\['/n'\]"),
    ],
)
def test_refusals(document: Any, options: dict[str, Any], message: str) -> None:
    """An invalid document or option is refused, with the remedy."""
    given: dict[str, Any] = {"base_url": "https://example.com", **options}

    with pytest.raises(DefinitionError, match=f"(?s){message}"):
        openapi_tools(document, **given)


@pytest.mark.parametrize(
    ("parameters", "fault"),
    [
        ([], "the path has {id}, and no parameter has that name. Declare it there."),
        (
            [{"name": "id", "in": "path", "schema": {"type": "text"}}],
            "JSON Schema at '#/properties/id/type': type is not one of array, ",
        ),
    ],
)
def test_fault_of_several_operations(parameters: Any, fault: str) -> None:
    """A fault that several operations have is described once; each of them can be left out."""
    operations = {method: {"operationId": f"{method}Pet", "parameters": parameters} for method in ("get", "delete")}

    with pytest.raises(DefinitionError) as refused:
        openapi_tools({**PETSTORE, "paths": {"/pets/{id}": operations}})
    assert 1 == str(refused.value).count(fault)
    assert str(refused.value).startswith(f"GET /pets/{{id}} and 1 more: {fault}")
    assert "exclude=['getPet', 'deletePet']." in str(refused.value)


@pytest.mark.parametrize("name", ["name", "prefix"])
def test_option_of_one_tool(name: str) -> None:
    """A name or a prefix of all tools is refused with what to write."""
    options: Any = {name: "pets"}

    with pytest.raises(TypeError, match=rf"^openapi_tools has no option '{name}'\. Write .*\.prefixed\("):
        openapi_tools(PETSTORE, **options)


def test_document_without_a_server() -> None:
    """A document without a server needs an address; no operation has to be changed or left out for that."""
    with pytest.raises(DefinitionError, match=r"^The document has no server\. Pass base_url='https://\.\.\.'\.$"):
        openapi_tools({**PETSTORE, "servers": []})


def test_misspelt_selector() -> None:
    """A misspelt operation is refused with the one that is meant."""
    with pytest.raises(DefinitionError, match=r"include: 'listPet' is not .*; did you mean 'listPets'"):
        openapi_tools(PETSTORE, base_url="https://example.com", include=["listPet"])


def test_byte_order_mark() -> None:
    """A document may start with a byte order mark."""
    assert "x" == make_tool("\ufeff" + json.dumps(GET)).name


def test_a_file(tmp_path: Path) -> None:
    """A document is read from its file, by path or by the path's text."""
    path = tmp_path / "pets.json"
    path.write_text(json.dumps(PETSTORE))

    assert [len(openapi_tools(path)), len(openapi_tools(str(path)))] == [6, 6]


@pytest.mark.parametrize(
    ("servers", "base_url", "url"),
    [
        ([{"url": "https://a.example/v1/"}], None, "https://a.example/v1/x"),
        ([{"url": "https://a.example/v1"}], "http://b.example/v2", "http://b.example/v2/x"),
        ([{"url": "/v1"}], "https://b.example/v2", "https://b.example/v2/x"),
        ([], "https://b.example/v2/", "https://b.example/v2/x"),
        ([{"url": "//evil.example/v1"}], "https://b.example/v1", "https://b.example/v1/x"),
    ],
)
def test_servers(servers: list[Any], base_url: str | None, url: str) -> None:
    """The caller sets the server, or the document does."""
    asked: list[httpx2.Request] = []
    tool = make_tool(operation({}, servers=servers), base_url=base_url, client=make_recorder(asked))
    call(tool)

    assert [url] == [str(each.url) for each in asked]


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("/v1", "^The server '/v1' of the document is not a whole URL. Pass base_url="),
        ("https://{r}.example", "is not a whole URL. Pass base_url="),
        ("ftp://a.example", "servers='ftp://a.example' is not an address"),
        ("https://a.example:x", "is not an address"),
        ("https://me:secret@a.example", "servers= has a user"),
        ("https://a.example/?key=1", "a query"),
        ("https://a.example/?", "a query"),
        ("https://a.example/#", "a fragment"),
    ],
)
def test_servers_that_are_none(url: str, message: str) -> None:
    """A server that cannot be called is refused."""
    with pytest.raises(DefinitionError, match=message):
        make_tool(operation({}, servers=[{"url": url}]), base_url=None)


def make_recorder(asked: list[httpx2.Request], response: httpx2.Response | None = None) -> httpx2.AsyncClient:
    """Make a client that only records its requests."""

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request)
        return response or httpx2.Response(200, json={})

    return httpx2.AsyncClient(transport=httpx2.MockTransport(answer))


def test_one_request(server: Server) -> None:
    """A call is one request, with everything in its place."""
    tool = make_tool(PETSTORE, include=["listPets"], base_url=server.base_url)
    result = Toolbox([tool]).call("listPets", {"limit": "5", "X-Tenant": "me", "X-Trace": "t 1"})

    (received,) = server.requests
    assert ("GET /pets?limit=5 HTTP/1.1", "me", "t 1", b"") == (
        received.line,
        received.headers["x-tenant"],
        received.headers["x-trace"],
        received.body,
    )
    assert ({"ok": True}, {"operation": "GET /pets", "status": 200}) == (result.value, result.details)


def test_a_path_on_the_wire(server: Server) -> None:
    """The HTTP client leaves a path as it was written."""
    call(make_tool(PETSTORE, include=["deletePet"], base_url=server.base_url), id="a/b?c#d e%2e")

    assert ["DELETE /pets/a%2Fb%3Fc%23d%20e%252e HTTP/1.1"] == [each.line for each in server.requests]


def test_in_an_event_loop(server: Server) -> None:
    """The same tool is called in an event loop."""
    box = Toolbox([make_tool(GET, base_url=server.base_url)])
    result = asyncio.run(box.acall("x", {}))

    assert ({"ok": True}, 1) == (result.value, len(server.requests))


def test_as_a_function(server: Server) -> None:
    """A tool stays a function, of its arguments by name."""
    tool = make_tool(PETSTORE, include=["deletePet"], base_url=server.base_url)

    assert {"ok": True} == asyncio.run(tool(id="1")).value


def test_a_model_is_held_to_the_schema(server: Server) -> None:
    """Arguments that the document does not allow are never sent."""
    tool = make_tool(PETSTORE, include=["createPet"], base_url=server.base_url)
    texts = [call(tool, name="Rex", age=0), call(tool), call(tool, name="Rex", id=3)]

    assert ([True] * 3, []) == ([text.startswith("Invalid arguments: ") for text in texts], server.requests)


def test_nothing_is_sent_that_was_not_asked_for(server: Server) -> None:
    """Defaults are the server's to fill in: a change changes nothing else."""
    call(make_tool(PETSTORE, include=["createPet"], base_url=server.base_url), name="Rex")

    assert [b'{"name":"Rex"}'] == [each.body for each in server.requests]


class QueryKey(httpx2.Auth):
    """A key in the query of each request, as docs/web.md has it."""

    def auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response, None]:
        """Add it."""
        request.url = request.url.copy_merge_params({"api_key": "s3cret&"})
        yield request


def test_a_key_in_the_query(server: Server) -> None:
    """The client's `auth` signs the request that is sent, and replaces what a model writes there."""
    query = [{"name": name, "in": "query", "schema": {"type": "string"}} for name in ("q", "api_key")]
    client = httpx2.AsyncClient(auth=QueryKey())
    tool = make_tool(operation({"parameters": query}), base_url=server.base_url, client=client)
    call(tool, q="a b", api_key="other")

    assert ["GET /x?q=a+b&api_key=s3cret%26 HTTP/1.1"] == [each.line for each in server.requests]


def test_keys_in_no_text() -> None:
    """A key is in no error, and in no representation of a tool."""
    tool = make_tool(PETSTORE, include=["listPets"], headers={"x-tenant": "t3nant", "x-key": "s3cret"})
    result = Toolbox([tool]).call("listPets", {})
    texts = f"{result!r} {tool!r} {tool.handler!r}"

    assert (True, False, False) == (result.is_error, "s3cret" in texts, "t3nant" in texts)


def test_auth_of_the_client(server: Server) -> None:
    """The auth of the caller's client is that of each request."""
    call(make_tool(GET, base_url=server.base_url, client=httpx2.AsyncClient(auth=("me", "k"))))

    assert "Basic bWU6aw==" == server.requests[0].headers["authorization"]


def test_headers_of_the_client() -> None:
    """Headers that the caller's client sends with each request are not parameters."""
    client = httpx2.AsyncClient(headers={"X-Tenant": "me"})
    tool = make_tool(PETSTORE, include=["listPets"], client=client)

    assert ["X-Trace", "limit"] == list(tool.parameters["properties"])


def test_no_proxy_of_the_environment(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy is taken from the caller's client, and not from the environment."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")

    assert '{"ok":true}' == call(make_tool(GET, base_url=server.base_url))


CUT = "\n... (cut after 65,536 bytes: ask for less)"
LATER = "The server failed, not the call: try again later, or continue without it."


@pytest.mark.parametrize(
    ("status", "headers", "content", "expected"),
    [
        (200, {"Content-Type": "application/problem+json; charset=utf-8"}, b'{"a":[1]}', '{"a":[1]}'),
        (200, {"Content-Type": "application/json"}, b"{", "{"),
        (200, {"Content-Type": "text/html; charset=latin-1"}, b"caf\xe9", "café"),
        (200, {"Content-Type": "text/plain; charset=nonsense"}, "café".encode(), "café"),
        (200, {"Content-Type": "text/plain; charset=idna"}, b"a", "a"),
        (200, {"Content-Type": "text/plain; charset=unicode_escape"}, b"a\\ud800", "a?"),
        (200, {"Content-Type": "image/png"}, b"<html>", "200 OK: image/png, which cannot be shown."),
        (200, {"Content-Type": "application/pdf"}, b"%PDF\0", "200 OK: application/pdf, which cannot be shown."),
        (204, {}, b"", "204 No Content, without a body."),
        (299, {}, b"", "299, without a body."),
        (200, {"Content-Type": "text/plain"}, b"a" * 70_000, "a" * 65_536 + CUT),
        (404, {}, b"[]", "GET /x answered 404 Not Found:\n[]\nNothing is there: check the identifiers."),
        (400, {}, b"", "GET /x answered 400 Bad Request. Change the arguments before another call."),
        (503, {}, b"a" * 3000, f"GET /x answered 503 Service Unavailable:\n{'a' * 2000}...\n{LATER}"),
    ],
    ids=[
        *("json", "broken json", "latin", "no charset", "idna", "half a character", "no picture", "binary", "empty"),
        *("own status", "long", "404", "400", "503"),
    ],
)  # fmt: skip
def test_answers(server: Server, status: int, headers: Mapping[str, str], content: bytes, expected: str) -> None:
    """The model reads the response, up to a maximum size, and the remedy if it failed."""
    server.answers["/x"] = (status, headers, content)
    result = Toolbox([make_tool(GET, base_url=server.base_url)]).call("x", {})

    assert (expected, status >= 400) == (result.text, result.is_error)


PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"


def test_pictures(server: Server) -> None:
    """A picture is returned as an image."""
    server.answers["/x"] = (200, {"Content-Type": "image/png"}, PNG)

    assert (Image(PNG),) == Toolbox([make_tool(GET, base_url=server.base_url)]).call("x", {}).images


@pytest.mark.parametrize("content", [b"RIFF\0\0\0\0WAVEfmt ", PNG], ids=["a sound", "another picture"])
def test_false_pictures(server: Server, content: bytes) -> None:
    """A response that does not start as its media type requires is not returned as an image."""
    server.answers["/x"] = (200, {"Content-Type": "image/webp"}, content)

    assert "200 OK: image/webp, which cannot be shown." == call(make_tool(GET, base_url=server.base_url))


def test_reading_ends() -> None:
    """No more of a response is read than the limit, and the response is closed, also with a client of one's own."""

    class Stream(httpx2.AsyncByteStream):
        read = 0
        is_closed = False

        async def __aiter__(self) -> AsyncIterator[bytes]:
            while True:
                self.read += 1
                yield b"a"

        async def aclose(self) -> None:
            self.is_closed = True

    stream = Stream()
    client = make_recorder([], httpx2.Response(200, headers={"Content-Type": "text/plain"}, stream=stream))

    assert "aaaaa\n... (cut after 5 bytes: ask for less)" == call(make_tool(GET, client=client, max_bytes=5))
    assert (6, True) == (stream.read, stream.is_closed)


def test_compressed_answers(server: Server) -> None:
    """The size of a response is counted after decompression."""
    server.answers["/x"] = (200, {"Content-Encoding": "gzip", "Content-Type": "text/plain"}, gzip.compress(b"a" * 9**7))

    assert "aaaaa\n... (cut after 5 bytes: ask for less)" == call(make_tool(GET, base_url=server.base_url, max_bytes=5))


@pytest.mark.parametrize("location", ["/y", "{other}/y"], ids=["same host", "another host"])
def test_redirects(server: Server, location: str) -> None:
    """A redirect is reported, and never followed: no key is sent to another host."""
    server.answers["/x"] = (
        307,
        {"Location": location.format(other=server.base_url.replace("127.0.0.1", "localhost"))},
        b"",
    )
    text = call(make_tool(GET, base_url=server.base_url, headers={"X-Key": "k"}))

    redirect = "It is a redirect, which is not followed. Do not repeat the call; tell the user."
    assert (f"GET /x answered 307 Temporary Redirect. {redirect}", 1) == (text, len(server.requests))


def test_timeout(server: Server) -> None:
    """A server that does not answer costs no more than the timeout."""
    tool = make_tool(operation({}, path="/slow"), base_url=server.base_url, timeout=0.5, client=httpx2.AsyncClient())
    result = Toolbox([tool]).call("x", {})

    assert ("timed_out", True) == (result.kind, server.left.wait(5))


def test_cancelling(server: Server) -> None:
    """A call that is cancelled leaves no connection behind."""

    async def cancel() -> None:
        tool = make_tool(operation({}, path="/slow"), base_url=server.base_url)
        task = asyncio.create_task(Toolbox([tool]).acall("x", {}))
        await asyncio.to_thread(server.arrived.wait, 5)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(cancel())
    assert server.left.wait(5)


@pytest.mark.parametrize(
    ("error", "kind", "expected"),
    [
        (httpx2.ConnectError, "failed", "there was no answer (ConnectError)"),
        (httpx2.ReadTimeout, "timed_out", "the server did not answer in time (ReadTimeout)"),
        (httpx2.DecodingError, "failed", "there was no answer (DecodingError)"),
    ],
)
def test_no_answer(error: Callable[[str], httpx2.HTTPError], kind: str, expected: str) -> None:
    """Without a response the model reads the reason, without the address."""

    def fail(_: httpx2.Request) -> httpx2.Response:
        raise error("https://example.com/?key=s3cret")

    tool = make_tool(GET, client=httpx2.AsyncClient(transport=httpx2.MockTransport(fail)))
    result = Toolbox([tool]).call("x", {})

    assert (kind, f"GET /x: {expected}. Try again later, or continue without it.") == (result.kind, result.text)


def test_a_long_address(server: Server) -> None:
    """Arguments that make an address too long are refused."""
    tool = make_tool(operation({"parameters": [IN_PATH]}, path="/{id}"), base_url=server.base_url)
    result = Toolbox([tool]).call("x", {"id": "a" * 70_000})

    assert ("invalid_arguments", []) == (result.kind, server.requests)


MEMBERS = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "array", "items": {}}}}


@pytest.mark.parametrize(
    ("declared", "arguments", "media_type", "sent"),
    [
        (body(MEMBERS), {"a": "é", "b": [1, None]}, "application/json", '{"a":"é","b":[1,null]}'),
        (body(MEMBERS), {}, "application/json", "{}"),
        (body(MEMBERS, required=False), {}, None, ""),
        (body({"type": "array", "items": {}}), {"body": [1]}, "application/json", "[1]"),
        (body(MEMBERS, "application/merge-patch+json"), {"a": "x"}, "application/merge-patch+json", '{"a":"x"}'),
        (body({"oneOf": [MEMBERS, {"type": "null"}]}), {"body": None}, "application/json", "null"),
        (body(MEMBERS, "application/*"), {"a": "x"}, "application/json", '{"a":"x"}'),
        (body(MEMBERS, "application/*+json"), {"a": "x"}, "application/json", '{"a":"x"}'),
        (
            body(MEMBERS, "Application/X-WWW-Form-Urlencoded; charset=utf-8"),
            {"a": "x"},
            "application/x-www-form-urlencoded",
            "a=x",
        ),
        (
            {"requestBody": {"content": dict.fromkeys(("application/json-patch+json", "application/a+json"), {})}},
            {"body": {}},
            "application/a+json",
            "{}",
        ),
        (body({}, "text/plain"), {"body": "a b"}, "text/plain", "a b"),
        (body(MEMBERS, "application/xml"), {"body": "<a/>"}, "application/xml", "<a/>"),
        (
            body(MEMBERS, "application/x-www-form-urlencoded"),
            {"a": "1&b=2", "b": ["x y", {"c": 1}]},
            "application/x-www-form-urlencoded",
            "a=1%26b%3D2&b=x%20y&b=%7B%22c%22%3A1%7D",
        ),
    ],
    ids=[
        "json",
        "required",
        "optional",
        "array",
        "+json",
        "choice",
        "any",
        "any json",
        "parameters",
        "patches",
        "text",
        "xml",
        "form",
    ],
)
def test_bodies(server: Server, declared: Mapping[str, Any], arguments: Any, media_type: str | None, sent: str) -> None:
    """A body is sent in the form that the document asks for."""
    call(make_tool(operation(declared, method="post"), base_url=server.base_url), **arguments)

    (received,) = server.requests
    assert (media_type, sent) == (received.headers.get("content-type"), received.body.decode())


def test_multipart() -> None:
    """A multipart form is refused, unless the document offers another form."""
    form = {"multipart/form-data": {"schema": {"type": "object"}}}
    declared = {"requestBody": {"content": form}}
    with pytest.raises(DefinitionError, match=r"requestBody: multipart/form-data is not supported\."):
        make_tool(operation(declared, method="post"))

    declared = {"requestBody": {"content": {**form, "text/plain": {}}}}
    assert "as text/plain" in str(make_tool(operation(declared, method="post")).parameters)


def test_a_media_type_of_the_caller(server: Server) -> None:
    """The caller's media type replaces the document's."""
    declared = operation(body(MEMBERS), method="post")
    call(make_tool(declared, base_url=server.base_url, headers={"Content-Type": "application/vnd.api+json"}), a="x")

    assert server.requests[0].headers["content-type"] == "application/vnd.api+json"


def test_a_form_of_no_object(server: Server) -> None:
    """A form that is not an object is refused, and not sent."""
    declared = body({"oneOf": [{}]}, "application/x-www-form-urlencoded")
    text = call(make_tool(operation(declared, method="post"), base_url=server.base_url), body="a=1&b=2")

    assert ("Invalid arguments: body: a form is an object", []) == (text[:44], server.requests)


def test_names_that_meet(server: Server) -> None:
    """Arguments of one name in several places, or of names that no provider takes, have names of their own."""
    listed: list[Any] = [
        {"name": "id", "in": place, "required": True, "schema": {}} for place in ("path", "query", "header")
    ]
    listed += [{"name": "filter[a]", "in": "query", "schema": {}}, {"name": "_filter_a", "in": "query", "schema": {}}]
    declared = {"parameters": listed, **body({"type": "object", "properties": {"id": {}, "arguments": {}}})}
    tool = make_tool(operation(declared, path="/{id}", method="post"), base_url=server.base_url)
    names = ["id", "query_id", "header_id", "filter_a", "query_filter_a", "body_id", "arguments"]
    call(tool, **{name: str(number) for number, name in enumerate(names)})

    (received,) = server.requests
    assert names == list(tool.parameters["properties"])
    assert ("POST /0?id=1&filter%5Ba%5D=3&_filter_a=4 HTTP/1.1", "2", {"id": "5", "arguments": "6"}) == (
        received.line,
        received.headers["id"],
        json.loads(received.body),
    )


def test_read_only_members_of_a_composition() -> None:
    """Read-only members are left out of every part of a composed schema."""
    base = {"type": "object", "required": ["id"], "properties": {"id": {"$ref": "#/$defs/Id"}}}
    schema = {"allOf": [base, {"type": "object", "required": ["id", "a"], "properties": {"a": {}}}]}
    document = operation(body(schema), method="post") | {"$defs": {"Id": {"type": "string", "readOnly": True}}}
    tool = make_tool(document)

    parts = tool.parameters["properties"]["body"]["allOf"]
    assert [([], {}), (["a"], {"a": {}})] == [(part["required"], part["properties"]) for part in parts]


@pytest.mark.parametrize("shape", [{"type": "integer", "readOnly": True}, {"$ref": "#/components/schemas/Number"}])
def test_parameter_of_a_read_only_schema(shape: Any) -> None:
    """A parameter stays one, though its schema is that of a member of a response."""
    asked: list[httpx2.Request] = []
    schemas = {"Number": {"type": "integer", "readOnly": True}}
    declared = operation(
        {"parameters": [{"name": "a", "in": "query", "schema": shape}]}, components={"schemas": schemas}
    )
    make_tool(declared, client=make_recorder(asked)).invoke({"a": 3})

    assert b"a=3" == asked[0].url.query


def test_read_only_members_far_away() -> None:
    """Read-only members are left out behind any number of references."""
    schemas: dict[str, Any] = {
        "Id": {"properties": {"id": {"readOnly": True}}},
        "Base": {"allOf": [{"$ref": "#/$defs/Id"}]},
        "Full": {"allOf": [{"$ref": "#/$defs/Base"}, {"anyOf": [{"required": ["id", "a"]}]}], "required": ["id"]},
    }
    tool = make_tool(operation(body({"$ref": "#/$defs/Full"}), method="post") | {"$defs": schemas})
    shown = tool.parameters["$defs"]["Full"]

    assert (["a"], []) == (shown["allOf"][1]["anyOf"][0]["required"], shown["required"])


@pytest.mark.parametrize(
    ("declared", "sent"),
    [
        ({"type": "string", "nullable": True}, {"type": ["string", "null"]}),
        (
            {"type": "string", "enum": ["a"], "nullable": True},
            {"anyOf": [{"type": "string", "enum": ["a"]}, {"type": "null"}]},
        ),
        ({"nullable": True, "description": "A."}, {"anyOf": [{}, {"type": "null"}], "description": "A."}),
        (
            {"allOf": [{"type": "string"}], "nullable": True, "description": "A."},
            {"anyOf": [{"allOf": [{"type": "string"}]}, {"type": "null"}], "description": "A."},
        ),
        ({"type": "number", "maximum": 2, "exclusiveMaximum": True}, {"type": "number", "exclusiveMaximum": 2}),
        ({"type": "number", "minimum": 2, "exclusiveMinimum": False}, {"type": "number", "minimum": 2}),
        ({"type": "string", "example": "a"}, {"type": "string", "examples": ["a"]}),
        ({"type": "integer", "default": 3, "x-go-name": "A"}, {"type": "integer", "description": "Default: 3."}),
        ({"oneOf": [{"type": "string"}]}, {"anyOf": [{"type": "string"}]}),
        (True, {}),
    ],
)
def test_translation(declared: Any, sent: Mapping[str, Any]) -> None:
    """The keywords of 3.0 become JSON Schema."""
    tool = make_tool(operation(body({"type": "object", "properties": {"a": declared}}), method="post"))

    assert sent == tool.parameters["properties"]["a"]


@pytest.mark.parametrize(
    "declared",
    [
        {"type": "string", "nullable": True},
        {"type": ["string", "null"]},
        {"anyOf": [{"type": "string"}, {"type": "null"}], "title": "A"},
    ],
)
def test_parameter_that_may_be_null(declared: Any) -> None:
    """A parameter that is null is not sent, so a model has one way to leave it out."""
    tool = make_tool(operation({"parameters": [{"name": "a", "in": "query", "schema": declared}]}), strict=True)
    strict, gemini = (Toolbox([tool]).schemas(dialect)[0] for dialect in ("chat", "gemini"))
    shown = strict["function"]["parameters"]["properties"]["a"]

    assert {"type": ["string", "null"], "description": "Send null to leave it out."} == shown
    assert {"type": "string"} == gemini["parameters"]["properties"]["a"]


@pytest.mark.parametrize(
    ("pet", "sent"),
    [
        ({"oneOf": [{"type": "integer"}, {"type": "number"}, {"type": "string"}]}, 9),
        ({"oneOf": [{"properties": {"name": {"type": "string"}}}, {"required": ["age"]}]}, {"name": "Tom", "age": 9}),
        ({"oneOf": [{"required": ["kind"]}] * 2, "discriminator": {"propertyName": "kind"}}, {"kind": "cat"}),
    ],
)
def test_overlapping_alternatives(pet: Any, sent: Any) -> None:
    """A value may match several alternatives of a `oneOf`."""
    asked: list[httpx2.Request] = []
    tool = make_tool(operation(body(pet), method="post"), client=make_recorder(asked))

    assert not tool.invoke({"body": sent}).is_error
    assert sent == json.loads(asked[0].content)


@pytest.mark.parametrize(
    "shape",
    [{"type": "object", "properties": {"a": {}}, "required": True}, {"allOf": [{"required": [{}]}]}],
)
def test_malformed_list_of_required_members(shape: Any) -> None:
    """A malformed `required` is a fault of its operation, which can be left out."""
    with pytest.raises(
        DefinitionError, match=r"^POST /x: JSON Schema at .*required is not a list of names.*\n.*exclude="
    ):
        make_tool(operation(body(shape), method="post"))


def test_nullable_part_of_a_composition() -> None:
    """An object that may be null is joined with the other parts of a composition, and not sent as JSON text."""
    base = {"type": "object", "nullable": True, "properties": {"a": {"type": "string"}}, "required": ["a"]}
    own = {"type": "object", "properties": {"b": {"type": "string"}}, "required": ["b"]}
    whole = body({"allOf": [{"$ref": "#/components/schemas/Base"}, own]})
    tool = make_tool(operation(whole, method="post", components={"schemas": {"Base": base}}), strict=True)
    sent = Toolbox([tool]).schemas("chat")[0]["function"]["parameters"]["properties"]["body"]

    assert ("object", {"a", "b"}) == (sent["type"], {*sent["properties"]})


# -- size


def many(count: int) -> list[dict[str, Any]]:
    """Documents with so many properties, parameters or definitions of one operation."""
    names = [f"p{number}" for number in range(count)]
    text = {"type": "string"}
    references = {name: {"$ref": f"#/components/schemas/{name}"} for name in names}
    parts = [{"type": "object", "properties": {name: text}} for name in names]
    whole = {name: {"allOf": [{"$ref": "#/components/schemas/whole"}]} for name in names}
    bodies: list[tuple[Any, Any]] = [
        (dict.fromkeys(names, text), {}),
        ({chr(0x4E00 + number): text for number in range(count)}, {}),
        (references, dict.fromkeys(names, text)),
        (whole, {"whole": {"allOf": parts}}),
    ]
    documents = [
        {
            **operation({"requestBody": {"content": {"application/json": {"schema": {"properties": properties}}}}}),
            "components": {"schemas": schemas},
        }
        for properties, schemas in bodies
    ]
    parameters = [{"name": name, "in": "query", "schema": text} for name in names]
    return [*documents, operation({"parameters": parameters})]


@pytest.mark.parametrize(
    "kind", range(5), ids=["properties", "equal names", "references", "compositions", "parameters"]
)
def test_time_grows_with_size(kind: int) -> None:
    """An operation of eight times the size takes about eight times as long, and not 64 times."""

    def measure(count: int) -> float:
        document = many(count)[kind]
        start = time.process_time()
        make_tool(document)
        return time.process_time() - start

    measure(50)
    large, small = (min(measure(count) for _ in range(3)) for count in (800, 100))
    assert large < 24 * max(small, 0.0025)


def test_source() -> None:
    """A tool names the operation that it was made of, when another one has its name for example."""
    (made,) = openapi_tools(GET, base_url="https://example.com")
    other = Tool.from_schema(made.name, {"properties": {}})

    with pytest.raises(
        DefinitionError, match=r"the existing one the OpenAPI operation GET /\S* of https://example.com\."
    ):
        Toolbox([made, other])
