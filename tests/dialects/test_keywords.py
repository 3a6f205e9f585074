"""The table of keywords: each keyword of JSON Schema, under each provider's rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]

from toolkit._dialects.strict.rewriter import make_form
from toolkit._dialects.strict.rules import (
    ANTHROPIC_STRICT,
    GEMINI,
    KEYWORDS,
    MINIMAL,
    PLAIN,
    STRICT,
    Rules,
    describe_keyword,
    value_kind,
)

RULES = [PLAIN, STRICT, ANTHROPIC_STRICT, GEMINI, MINIMAL]
TREE = {"type": "object", "properties": {"inner": {"$ref": "#/$defs/Tree"}}, "required": []}

# For each row of the table, a schema that uses it.
SCHEMAS: Mapping[str, dict[str, Any]] = {
    "type": {"type": "integer"},
    "type=null": {"type": "null"},
    "type=list": {"type": ["integer", "string"]},
    "description": {"type": "string", "description": "A text."},
    "enum": {"type": "string", "enum": ["a", "b"]},
    "enum=empty": {"type": "string", "enum": ["", "a"]},
    "enum=number": {"type": "integer", "enum": [1, 2]},
    "enum=boolean": {"type": "boolean", "enum": [True]},
    "enum=mixed": {"enum": [1, "a"]},
    "enum=data": {"enum": [[1], {"a": 2}]},
    "const": {"type": "string", "const": "a"},
    "default": {"type": "string", "default": "a"},
    "default=null": {"type": "string", "default": None},
    "examples": {"type": "string", "examples": ["a", "b"]},
    "deprecated": {"type": "string", "deprecated": True},
    "title": {"type": "string", "title": "Name"},
    "readOnly": {"type": "string", "readOnly": True},
    "writeOnly": {"type": "string", "writeOnly": True},
    "properties": {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
    "properties=none": {"type": "object", "properties": {}},
    "required": {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
    "required=partial": {"type": "object", "properties": {"a": {"type": "string"}}},
    "additionalProperties": {"type": "object", "additionalProperties": {"type": "integer"}},
    "additionalProperties=false": {
        "type": "object",
        "properties": {"a": {"type": "string"}},
        "required": ["a"],
        "additionalProperties": False,
    },
    "patternProperties": {"type": "object", "patternProperties": {"^x-": {"type": "integer"}}},
    "propertyNames": {"type": "object", "propertyNames": {"enum": ["a", "b"]}},
    "unevaluatedProperties": {"type": "object", "unevaluatedProperties": {"type": "integer"}},
    "unevaluatedProperties=false": {
        "type": "object",
        "properties": {"a": {"type": "string"}},
        "required": ["a"],
        "unevaluatedProperties": False,
    },
    "minProperties": {"type": "object", "minProperties": 1},
    "maxProperties": {"type": "object", "maxProperties": 9},
    "dependentRequired": {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "required": ["a", "b"],
        "dependentRequired": {"a": ["b"]},
    },
    "dependentSchemas": {
        "type": "object",
        "properties": {"a": {"type": "string"}},
        "required": ["a"],
        "dependentSchemas": {"a": {"required": ["a"]}},
    },
    "items": {"type": "array", "items": {"type": "string"}},
    "prefixItems": {"type": "array", "prefixItems": [{"type": "string"}], "items": False, "minItems": 1},
    "unevaluatedItems": {"type": "array", "unevaluatedItems": {"type": "integer"}},
    "unevaluatedItems=false": {"type": "array", "unevaluatedItems": False},
    "contains": {"type": "array", "contains": {"const": 1}},
    "minContains": {"type": "array", "minContains": 2},
    "maxContains": {"type": "array", "maxContains": 3},
    "minItems": {"type": "array", "minItems": 4},
    "minItems=0": {"type": "array", "minItems": 0},
    "minItems=1": {"type": "array", "minItems": 1},
    "maxItems": {"type": "array", "maxItems": 5},
    "uniqueItems": {"type": "array", "uniqueItems": True},
    "uniqueItems=false": {"type": "array", "uniqueItems": False},
    "minLength": {"type": "string", "minLength": 3},
    "maxLength": {"type": "string", "maxLength": 9},
    "pattern": {"type": "string", "pattern": "^[a-z]+$"},
    "pattern=lookaround": {"type": "string", "pattern": "^(?!x).*$"},
    "format": {"type": "string", "format": "password"},
    **{
        f"format={kind}": {"type": "string", "format": kind}
        for kind in ("date-time", "date", "time", "duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri")
    },
    "contentEncoding": {"type": "string", "contentEncoding": "base64"},
    "contentMediaType": {"type": "string", "contentMediaType": "image/png"},
    "contentSchema": {"type": "string", "contentSchema": {"type": "integer"}},
    "minimum": {"type": "integer", "minimum": 1},
    "maximum": {"type": "integer", "maximum": 9},
    "exclusiveMinimum": {"type": "number", "exclusiveMinimum": 1.5},
    "exclusiveMaximum": {"type": "number", "exclusiveMaximum": 9.5},
    "multipleOf": {"type": "integer", "multipleOf": 5},
    "anyOf": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
    "oneOf": {"oneOf": [{"type": "string"}, {"type": "integer"}]},
    "allOf": {"allOf": [{"type": "string"}]},
    "discriminator": {"anyOf": [{"type": "string"}, {"type": "integer"}], "discriminator": {"propertyName": "a"}},
    "not": {"type": "string", "not": {"const": "a"}},
    "if": {"type": "string", "if": {"const": "a"}},
    "then": {"type": "string", "then": {"const": "a"}},
    "else": {"type": "string", "else": {"const": "a"}},
    "$ref": {"$ref": "#/$defs/Name"},
    "$ref=recursive": {"$ref": "#/$defs/Tree"},
    "$defs": {"$ref": "#/$defs/Name"},
    "definitions": {"$ref": "#/definitions/Name"},
    "$id": {"type": "string", "$id": "https://example.org/name"},
    "$anchor": {"type": "string", "$anchor": "name"},
    "$dynamicAnchor": {"type": "string", "$dynamicAnchor": "name"},
    "$dynamicRef": {"$dynamicRef": "#name"},
    "$schema": {"type": "string", "$schema": "https://json-schema.org/draft/2020-12/schema"},
    "$vocabulary": {"type": "string", "$vocabulary": {"https://example.org/name": True}},
    "$comment": {"type": "string", "$comment": "Not for models."},
}
by_rules = pytest.mark.parametrize("rules", RULES, ids=lambda rules: rules.name)


def around(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of a tool with one parameter."""
    names = {"Name": {"type": "string"}, "Tree": TREE}
    extra = {"definitions": names} if "#/definitions/Name" in schema.values() else {"$defs": names}
    return {"type": "object", "properties": {"p": schema}, "required": ["p"], "additionalProperties": False, **extra}


def nodes_in(schema: Any) -> Iterator[dict[str, Any]]:
    """The schemas in a form that is not plain."""
    if isinstance(schema, dict):
        yield schema
        for inner in [*schema.get("properties", {}).values(), *schema.get("$defs", {}).values()]:
            yield from nodes_in(inner)
        for inner in [*schema.get("anyOf", []), schema.get("items")]:
            yield from nodes_in(inner)


def of_row(node: dict[str, Any], row: str) -> bool:
    """Whether a schema uses what a row of the table is about."""
    keyword, _, sort = row.partition("=")
    return keyword in node and (value_kind(keyword, node[keyword]) == sort or not sort)


@by_rules
def test_a_form_has_only_keywords_that_the_table_allows(rules: Rules) -> None:
    """Whatever a schema uses, each keyword in its form is one that goes out under these rules."""
    for row, schema in SCHEMAS.items():
        form = make_form(around(schema), rules)
        nodes = nodes_in(form.schema) if rules is not PLAIN else [form.schema["properties"]["p"]]
        wrong = [key for node in nodes for key, value in node.items() if not rules.sends(key, value_kind(key, value))]

        assert (row, []) == (row, wrong)
        Draft202012Validator.check_schema(form.schema)


# What holds schemas, which are rewritten themselves, or stands elsewhere.
HOLDERS = {"anyOf", "items", "$defs", "definitions", "additionalProperties"}


@by_rules
def test_what_is_sent_is_there(rules: Rules) -> None:
    """A keyword that goes out is in the form, with its value."""
    for row, schema in SCHEMAS.items():
        keyword = row.partition("=")[0]
        if rules.support(row) == "sent" and keyword not in HOLDERS:
            form = make_form(around(schema), rules).schema

            assert (row, schema.get(keyword)) == (row, form["properties"]["p"].get(keyword))


@by_rules
def test_what_is_said_in_words_is_there(rules: Rules) -> None:
    """A keyword that is sent as words stands in the description, with a note."""
    for row, schema in SCHEMAS.items():
        keyword = row.partition("=")[0]
        if rules.support(row) == "text" and rules is not PLAIN:
            form = make_form(around(schema), rules)

            assert describe_keyword(keyword, schema[keyword]) in form.schema["properties"]["p"]["description"]
            assert f"{keyword} goes into the description" in [note.text for note in form.notes if note.path == "p"]


def test_each_row_has_a_test() -> None:
    """The table and the schemas above are about the same."""
    assert KEYWORDS.keys() == SCHEMAS.keys()


def test_the_table_has_every_keyword_of_the_draft() -> None:
    """No keyword of JSON Schema, draft 2020-12, is missing in the table, deprecated ones aside."""
    vocabularies = ("core", "applicator", "unevaluated", "validation", "meta-data", "format-annotation", "content")
    base = "https://json-schema.org/draft/2020-12/meta/"
    drafts: list[Any] = [REGISTRY.contents(base + name) for name in vocabularies]
    keywords = {keyword for draft in drafts for keyword in draft["properties"]}

    assert set() == keywords - KEYWORDS.keys()


@pytest.mark.parametrize("rules", RULES[1:], ids=lambda rules: rules.name)
def test_a_foreign_keyword_is_left_out(rules: Rules) -> None:
    """A keyword that the table does not know is not sent to a provider with rules, and a note says so."""
    form = make_form(around({"type": "string", "x-order": 1}), rules)

    assert {"type": "string"} == form.schema["properties"]["p"]
    assert "x-order is left out: it is not a keyword of JSON Schema" in [note.text for note in form.notes]


def test_a_foreign_keyword_stays_without_rules() -> None:
    """Plain rules leave a keyword that the table does not know."""
    form = make_form(around({"type": "string", "x-order": 1}), PLAIN)

    assert {"type": "string", "x-order": 1} == form.schema["properties"]["p"]


def test_a_name_is_no_keyword() -> None:
    """A property may be called as a keyword is."""
    schema = around({"type": "object", "properties": {"title": {"type": "string"}, "default": {"type": "integer"}}})
    form = make_form({**schema, "title": "arguments"}, PLAIN)

    assert schema == form.schema
