"""OpenAPI documents in the manner of large services: recursion, composition, forms with brackets, many operations."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest

from toolkit import DefinitionError, Toolbox
from toolkit.sources.openapi import openapi_tools

# In the manner of GitHub: ids with slashes, references to parameters, recursive and composed schemas, an own host.
HUB: dict[str, Any] = {
    "openapi": "3.0.3",
    "info": {"title": "Hub", "version": "1"},
    "servers": [{"url": "https://api.hub.example"}],
    "paths": {
        "/repos/{owner}/{repo}/contents/{path}": {
            "get": {
                "operationId": "repos/get-content",
                "tags": ["repos"],
                "parameters": [
                    {"$ref": "#/components/parameters/owner"},
                    {"$ref": "#/components/parameters/repo"},
                    {"name": "path", "in": "path", "required": True, "schema": {"type": "string"}},
                    {"name": "ref", "in": "query", "schema": {"type": "string"}},
                ],
            }
        },
        "/repos/{owner}/{repo}/rules": {
            "post": {
                "operationId": "repos/create-rule",
                "tags": ["repos"],
                "parameters": [
                    {"$ref": "#/components/parameters/owner"},
                    {"$ref": "#/components/parameters/repo"},
                ],
                "requestBody": {"$ref": "#/components/requestBodies/Rule"},
            }
        },
        "/repos/{owner}/{repo}/assets": {
            "servers": [{"url": "https://uploads.hub.example"}],
            "post": {
                "operationId": "repos/upload-asset",
                "parameters": [
                    {"$ref": "#/components/parameters/owner"},
                    {"$ref": "#/components/parameters/repo"},
                    {"name": "name", "in": "query", "required": True, "schema": {"type": "string"}},
                ],
                "requestBody": {
                    "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
                },
            },
        },
    },
    "components": {
        "parameters": {
            "owner": {"name": "owner", "in": "path", "required": True, "schema": {"type": "string"}},
            "repo": {"name": "repo", "in": "path", "required": True, "schema": {"type": "string"}},
        },
        "requestBodies": {
            "Rule": {
                "required": True,
                "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Rule"}}},
            }
        },
        "schemas": {
            "Rule": {
                "type": "object",
                "required": ["name", "when"],
                "properties": {
                    "id": {"type": "integer", "readOnly": True},
                    "name": {"type": "string", "minLength": 1},
                    "when": {"$ref": "#/components/schemas/Condition"},
                },
            },
            "Condition": {
                "oneOf": [
                    {"$ref": "#/components/schemas/Match"},
                    {
                        "type": "object",
                        "required": ["all"],
                        "properties": {"all": {"type": "array", "items": {"$ref": "#/components/schemas/Condition"}}},
                    },
                ],
                "discriminator": {"propertyName": "kind", "mapping": {"match": "#/components/schemas/Match"}},
            },
            "Match": {
                "allOf": [
                    {"type": "object", "required": ["pattern"], "properties": {"pattern": {"type": "string"}}},
                    {"properties": {"negate": {"type": "boolean", "nullable": True}}},
                ]
            },
        },
    },
}

# In the manner of Stripe: one form with brackets, styles by member, a bearer key, a choice of an object or nothing.
PAY: dict[str, Any] = {
    "openapi": "3.0.0",
    "info": {"title": "Pay", "version": "1"},
    "servers": [{"url": "https://api.pay.example/"}],
    "security": [{"basicAuth": []}, {"bearerAuth": []}],
    "paths": {
        "/v1/customers": {
            "get": {
                "operationId": "GetCustomers",
                "parameters": [
                    {
                        "name": "created",
                        "in": "query",
                        "style": "deepObject",
                        "explode": True,
                        "schema": {
                            "anyOf": [
                                {"type": "object", "properties": {"gt": {"type": "integer"}}},
                                {"type": "integer"},
                            ]
                        },
                    },
                    {
                        "name": "expand",
                        "in": "query",
                        "style": "deepObject",
                        "explode": True,
                        "schema": {"type": "array", "items": {"type": "string"}},
                    },
                ],
                "requestBody": {
                    "content": {
                        "application/x-www-form-urlencoded": {
                            "encoding": {},
                            "schema": {"type": "object", "properties": {}},
                        }
                    },
                    "required": False,
                },
            },
            "post": {
                "operationId": "PostCustomers",
                "requestBody": {
                    "content": {
                        "application/x-www-form-urlencoded": {
                            "encoding": {
                                "address": {"explode": True, "style": "deepObject"},
                                "items": {"explode": True, "style": "deepObject"},
                                "plan": {"contentType": "application/json"},
                                "tags": {"explode": False, "style": "form"},
                                "any": {"explode": True, "style": "form"},
                            },
                            "schema": {
                                "type": "object",
                                "properties": {
                                    "email": {"type": "string", "maxLength": 512, "nullable": True},
                                    "address": {
                                        "anyOf": [
                                            {"type": "object", "properties": {"city": {"type": "string"}}},
                                            {"type": "string", "enum": [""]},
                                        ]
                                    },
                                    "items": {"type": "array", "items": {"type": "object"}},
                                    "tags": {"type": "array", "items": {"type": "string"}},
                                    "any": {"type": "object"},
                                    "made": {"type": "string", "readOnly": True},
                                    "plan": {"type": "array", "items": {"type": "string"}},
                                },
                                "additionalProperties": False,
                            },
                        }
                    }
                },
            },
        }
    },
    "components": {
        "securitySchemes": {
            "basicAuth": {"type": "http", "scheme": "basic"},
            "bearerAuth": {"type": "http", "scheme": "bearer", "bearerFormat": "auth-scheme"},
        }
    },
}


def box(document: dict[str, Any], asked: list[httpx2.Request], **options: Any) -> Toolbox:
    """The tools of a service whose requests are written down."""

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request)
        return httpx2.Response(200, json=[])

    client = httpx2.AsyncClient(transport=httpx2.MockTransport(answer))
    return Toolbox(openapi_tools(document, client=client, **options))


def test_recursive_rules() -> None:
    """A recursive schema is checked to its depth, and valid values are sent unchanged."""
    asked: list[httpx2.Request] = []
    tools = box(HUB, asked)
    deep = {"all": [{"all": [{"pattern": "a", "negate": None}]}]}
    broken = {"all": [{"all": [{"pattern": 1}]}]}
    outcomes = [
        tools.call("repos_create-rule", {"owner": "o", "repo": "r", "name": "n", "when": when}).kind
        for when in (deep, broken)
    ]

    assert [None, "invalid_arguments"] == outcomes
    assert [{"name": "n", "when": deep}] == [json.loads(request.content) for request in asked]


@pytest.mark.parametrize(
    ("name", "arguments", "url"),
    [
        (
            "repos_get-content",
            {"path": "a/b.py", "ref": "a/b"},
            "api.hub.example/repos/o/r/contents/a%2Fb.py?ref=a%2Fb",
        ),
        ("repos_upload-asset", {"name": "a.txt", "body": "text"}, "uploads.hub.example/repos/o/r/assets?name=a.txt"),
    ],
)
def test_addresses(name: str, arguments: dict[str, Any], url: str) -> None:
    """An operation is sent to its own server, a value of a path in its own segment."""
    asked: list[httpx2.Request] = []
    box(HUB, asked).call(name, {"owner": "o", "repo": "r", **arguments})

    assert [f"https://{url}"] == [str(request.url) for request in asked]


def test_one_base_for_all() -> None:
    """`base_url=` is used for operations with a server of their own too."""
    asked: list[httpx2.Request] = []
    tools = box(HUB, asked, base_url="https://hub.internal/api/v3")
    tools.call("repos_upload-asset", {"owner": "o", "repo": "r", "name": "a"})

    assert ["https://hub.internal/api/v3/repos/o/r/assets?name=a"] == [str(request.url) for request in asked]


@pytest.mark.parametrize(
    ("arguments", "query"),
    [
        ({"created": {"gt": 5}, "expand": ["data.a"]}, "created%5Bgt%5D=5&expand%5B0%5D=data.a"),
        ({"created": 5, "expand": []}, "created=5"),
        ({}, ""),
    ],
)
def test_queries_with_brackets(arguments: dict[str, Any], query: str) -> None:
    """An object in a query is written in brackets, and an empty body is none."""
    asked: list[httpx2.Request] = []
    box(PAY, asked, headers={"Authorization": "Bearer sk"}).call("GetCustomers", arguments)

    assert [(query, b"", "Bearer sk")] == [(r.url.query.decode(), r.content, r.headers["authorization"]) for r in asked]


@pytest.mark.parametrize(
    ("arguments", "form"),
    [
        ({"email": "a+b@c.example"}, "email=a%2Bb%40c.example"),
        ({"address": {"city": "Å & B"}}, "address%5Bcity%5D=%C3%85%20%26%20B"),
        ({"address": ""}, "address="),
        ({"items": [{"price": 1, "tags": ["a"]}]}, "items%5B0%5D%5Bprice%5D=1&items%5B0%5D%5Btags%5D%5B0%5D=a"),
        ({"tags": ["a", "b"]}, "tags=a,b"),
        ({"any": {"k": "v", "l": "w"}}, "k=v&l=w"),
        ({"plan": ["a"]}, "plan=%5B%22a%22%5D"),
        ({"email": None}, ""),
    ],
)
def test_forms_with_brackets(arguments: dict[str, Any], form: str) -> None:
    """Each member of a form is written in its own style."""
    asked: list[httpx2.Request] = []
    box(PAY, asked).call("PostCustomers", arguments)

    assert [form] == [request.content.decode() for request in asked]


@pytest.mark.parametrize(
    "arguments",
    [{"email": "a", "any": {"email": "b"}}, {"any": {"email": "b"}}, {"any": {"made": "b"}}],
    ids=["given", "not given", "of answers"],
)
def test_key_of_another_member(arguments: dict[str, Any]) -> None:
    """A key of a free object in a form is not one of the form's other members, present or not."""
    asked: list[httpx2.Request] = []
    result = box(PAY, asked).call("PostCustomers", arguments)

    assert ("invalid_arguments", []) == (result.kind, asked)


FAULTS: dict[str, Any] = {
    "a path of another file": {"$ref": "./other.yaml#/p"},
    "a list": [],
    "tags": {"get": {"operationId": "y", "tags": "pets"}},
}


@pytest.mark.parametrize("chosen", [{"include": ["x"]}, {"exclude": ["/y"]}], ids=["include", "exclude"])
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_faults_of_other_paths(fault: Any, chosen: dict[str, Any]) -> None:
    """An error in one path does not matter for another one."""
    document = {"openapi": "3.1.0", "paths": {"/x": {"get": {"operationId": "x"}}, "/y": fault}}

    assert ["x"] == [each.name for each in openapi_tools(document, base_url="https://a.example", **chosen)]


def test_what_is_empty() -> None:
    """A path or a method that YAML leaves empty is none."""
    document = {"openapi": "3.1.0", "paths": {"/x": {"get": {"operationId": "x"}, "post": None}, "/y": None}}

    assert ["x"] == [each.name for each in openapi_tools(document, base_url="https://a.example")]


def test_a_long_ring_of_schemas() -> None:
    """Schemas may refer to one another in a ring that is longer than Python's stack."""
    schemas = {f"s{n}": {"properties": {"next": {"$ref": f"#/$defs/s{(n + 1) % 1000}"}}} for n in range(1000)}
    content = {"application/json": {"schema": {"$ref": "#/$defs/s0"}}}
    paths = {"/x": {"post": {"operationId": "x", "requestBody": {"required": True, "content": content}}}}
    asked: list[httpx2.Request] = []
    box({"openapi": "3.1.0", "paths": paths, "$defs": schemas}, asked, base_url="https://a").call("x", {"next": {}})

    assert [b'{"next":{}}'] == [request.content for request in asked]


@pytest.mark.parametrize("document", [HUB, PAY], ids=["hub", "pay"])
@pytest.mark.parametrize("dialect", ["chat", "responses", "anthropic", "gemini", "interactions", "mcp"])
def test_shown_to_every_provider(document: dict[str, Any], dialect: Any) -> None:
    """Every dialect can show every tool."""
    tools = box(document, [])

    assert len(tools) == len(tools.schemas(dialect))


def test_many_operations() -> None:
    """Of a document with many operations, those that are wrong are named together."""
    paths: dict[str, Any] = {f"/x{n}": {"get": {"operationId": f"x{n}"}} for n in range(300)}
    paths |= {f"/y{n}": {"get": {"operationId": f"y{n}", "parameters": [{"$ref": "#/gone"}]}} for n in range(2)}
    document = {"openapi": "3.1.0", "paths": paths}

    with pytest.raises(DefinitionError, match=r"exclude=\['y0', 'y1'\]"):
        openapi_tools(document, base_url="https://a.example")
    assert 300 == len(openapi_tools(document, base_url="https://a.example", exclude=["y0", "y1"]))
