"""Small functions for schemas written by hand."""

from __future__ import annotations

from typing import Any, cast

import jsonschema  # type: ignore[import-untyped]
import pytest

from toolkit import DefinitionError, Tool, schema

MADE = {
    "string": (schema.string("City name"), {"type": "string", "description": "City name"}),
    "string without keywords": (schema.string(), {"type": "string"}),
    "string, keywords": (schema.string(minLength=1, default=""), {"type": "string", "minLength": 1, "default": ""}),
    "integer": (schema.integer("Days", minimum=0), {"type": "integer", "description": "Days", "minimum": 0}),
    "number": (schema.number(exclusiveMinimum=0), {"type": "number", "exclusiveMinimum": 0}),
    "boolean": (schema.boolean("Sent?"), {"type": "boolean", "description": "Sent?"}),
    "enum": (schema.enum("asc", "desc", default="asc"), {"type": "string", "enum": ["asc", "desc"], "default": "asc"}),
    "enum, described": (
        schema.enum("a", description="Letter"), {"type": "string", "description": "Letter", "enum": ["a"]},
    ),
    "array": (
        schema.array(schema.integer(), "Days", minItems=1),
        {"type": "array", "description": "Days", "items": {"type": "integer"}, "minItems": 1},
    ),
    "object": (
        schema.object("Place", city=schema.string(), zip=schema.string(default="")),
        {
            "type": "object",
            "description": "Place",
            "properties": {"city": {"type": "string"}, "zip": {"type": "string", "default": ""}},
            "required": ["city"],
        },
    ),
    "object, nothing required": (
        schema.object(required=[], city=schema.string()),
        {"type": "object", "properties": {"city": {"type": "string"}}},
    ),
    "object, empty": (schema.object(), {"type": "object", "properties": {}}),
    "object, a property called description": (
        schema.object(description=schema.string()),
        {"type": "object", "properties": {"description": {"type": "string"}}, "required": ["description"]},
    ),
    "object, names that are not keywords": (
        schema.object("", {"required": schema.boolean(), "zip-code": schema.string(default="")}, city=schema.string()),
        {
            "type": "object",
            "properties": {
                "required": {"type": "boolean"},
                "zip-code": {"type": "string", "default": ""},
                "city": {"type": "string"},
            },
            "required": ["required", "city"],
        },
    ),
}  # fmt: skip

REFUSED = {
    "enum of nothing": (lambda: schema.enum(), r"schema\.enum\(\) takes the allowed texts, one by one"),
    "enum of a list": (lambda: schema.enum(cast("Any", ["a", "b"])), r'schema\.enum\("asc", "desc"\)'),
    "array of nothing": (lambda: schema.array(cast("Any", None)), r"schema\.array\(\): items=None is not a schema"),
    "array of a text": (lambda: schema.array(cast("Any", "x")), r"schema\.array\(\): items='x' is not a schema"),
    "required as a text": (
        lambda: schema.object(required=cast("Any", "ab"), a=schema.string(), b=schema.string()),
        "required='ab' is not a list of names",
    ),
    "required as a property": (
        lambda: schema.object(required=cast("Any", schema.boolean())),
        r'is described by schema\.object\("", \{"required": \.\.\.\}\)',
    ),
    "unknown required": (
        lambda: schema.object(required=["town"], city=schema.string()), "'town' is required and not described",
    ),
    "no schema": (
        lambda: schema.object(city=cast("Any", "text")), r"city='text' is not a schema, such as schema\.string\(\)",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("made", "wanted"), MADE.values(), ids=MADE)
def test_schema(made: dict[str, Any], wanted: dict[str, Any]) -> None:
    """A helper makes the plain JSON Schema of its type, which is a schema in the eyes of others, too."""
    assert wanted == made
    assert "type" in made
    jsonschema.Draft202012Validator.check_schema(made)


@pytest.mark.parametrize(("make", "text"), REFUSED.values(), ids=REFUSED)
def test_refused(make: Any, text: str) -> None:
    """What would be no schema is refused, with what is wrong."""
    with pytest.raises(DefinitionError, match=text):
        make()


def test_schema_of_a_tool() -> None:
    """What the helpers make declares a tool, and checks its calls."""
    made = Tool.from_schema(
        "sort", schema.object(order=schema.enum("asc", "desc"), days=schema.array(schema.integer())),
        lambda order, days: sorted(days, reverse=order == "desc"),
    )  # fmt: skip

    assert [3, 1] == made.invoke('{"order": "desc", "days": [1, 3]}').value
    assert "invalid_arguments" == made.invoke('{"order": "up", "days": []}').kind
