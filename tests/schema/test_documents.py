"""A JSON Schema from elsewhere checks a document, and gives its values."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from pydantic_core import ValidationError

from toolkit import Tool
from toolkit._schema.validation.validator import build_validator
from toolkit.errors import DefinitionError, InvalidArguments

NESTED = {"$defs": {"t": {"properties": {"n": {"$ref": "#/$defs/t"}, "v": {"type": "integer"}}}}, "$ref": "#/$defs/t"}
POINT = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}

# Schema, documents that fit, documents that do not.
KEYWORDS: dict[str, tuple[Any, list[str], list[str]]] = {
    "true": ({}, ["1", "null", '"a"', '[{"a": [1.5]}]'], ["NaN", "[Infinity]", '{"a": 1e999}', "tru"]),
    "type string": ({"type": "string"}, ['""', '"5"'], ["5", "null", "true", "[]"]),
    "type integer": ({"type": "integer"}, ["5", "-1", "3.0", '"5"'], ["3.5", "true", "null", '"a"']),
    "type number": ({"type": "number"}, ["5", "0.5", '"5"'], ["true", "null", '"a"', "NaN", "1e999"]),
    "type boolean": ({"type": "boolean"}, ["true", "false", '"true"'], ["2", "null", '"a"']),
    "type null": ({"type": "null"}, ["null"], ["0", '""', "false"]),
    "type array": ({"type": "array"}, ["[]", "[1, null]"], ["{}", '"[]"', "[NaN]"]),
    "type object": ({"type": "object"}, ["{}", '{"a": 1}'], ["[]", '"{}"', '{"a": NaN}']),
    "types": ({"type": ["string", "integer", "null"]}, ['"a"', "1", "null"], ["1.5", "[]", "true"]),
    "nullable": ({"type": "string", "nullable": True, "enum": ["a"]}, ['"a"', "null"], ['"b"', "1"]),
    "enum": ({"enum": [1, "a", None, [1]]}, ["1", "1.0", '"a"', "null", "[1.0]"], ["true", "[true]", "2", '"1"']),
    "enum of texts": ({"enum": ["a", "b"]}, ['"a"'], ['"c"', "1"]),
    "empty enum": ({"enum": []}, [], ["1", "null"]),
    "const": ({"const": {"a": 1}}, ['{"a": 1}', '{"a": 1.0}'], ['{"a": true}', "{}", '{"a": 1, "b": 1}']),
    "const true": ({"const": True}, ["true"], ["1", "false"]),
    "minimum": ({"minimum": 1.5}, ["1.5", "2", '"a"'], ["1", "1.4"]),
    "minimum of an integer": ({"type": "integer", "minimum": 1.5}, ["2"], ["1"]),
    "exclusiveMinimum": ({"type": "integer", "exclusiveMinimum": 1}, ["2"], ["1"]),
    "maximum": ({"maximum": 9007199254740992}, ["9007199254740992"], ["9007199254740993"]),
    "exclusiveMaximum": ({"type": "number", "exclusiveMaximum": 2}, ["1.9"], ["2", "2.0"]),
    "multipleOf": ({"multipleOf": 0.1}, ["0.3", "1", "1e308", '"a"'], ["0.35"]),
    "length": ({"minLength": 2, "maxLength": 3}, ['"ab"', '"\\ud83d\\ude00b"', "1"], ['"a"', '"abcd"']),
    "pattern": ({"pattern": "b$"}, ['"ab"', "1"], ['"ab\\n"', '"ba"']),
    "pattern of ECMAScript": ({"pattern": "^\\d[^[]\\/\\cA$"}, ['"1a/\\u0001"'], ['"١a/\\u0001"', '"1[/\\u0001"']),
    "pattern of brackets": ({"pattern": "^[[^]?[[]a[^]$"}, ['"^[ab"', '"[a\\n"'], ['"]ab"', '"[a"', '"[]ab"']),
    "pattern of a character": ({"pattern": "^\\u{1F600}$"}, ['"\\ud83d\\ude00"'], ['"u"']),
    "items": ({"items": {"type": "integer"}}, ["[]", "[1]", '{"a": "b"}'], ['["a"]']),
    "prefixItems": (
        {"prefixItems": [{"type": "integer"}, {"type": "string"}]},
        ["[]", "[1]", '[1, "a", null]'],
        ["[1, 1]"],
    ),
    "prefixItems alone": ({"prefixItems": [True], "items": False}, ["[]", "[1]"], ["[1, 2]"]),
    "minItems": ({"minItems": 1, "maxItems": 2}, ["[1]", "1"], ["[]", "[1, 2, 3]"]),
    "uniqueItems": ({"uniqueItems": True}, ["[1, true]", '[{"a": 1}, {"a": 2}]'], ["[1, 1.0]", "[[1], [1]]"]),
    "contains": ({"contains": {"const": 1}}, ["[0, 1]", "1"], ["[]", "[0]"]),
    "maxContains": ({"contains": {"const": 1}, "minContains": 0, "maxContains": 1}, ["[]", "[1]"], ["[1, 1]"]),
    "required": ({"required": ["a"]}, ['{"a": null}', "1"], ["{}"]),
    "additionalProperties": (
        {"properties": {"a": {}}, "additionalProperties": {"type": "integer"}},
        ['{"a": "b", "c": 1}'],
        ['{"c": "d"}'],
    ),
    "no others": ({"properties": {"a": {}}, "additionalProperties": False}, ['{"a": 1}'], ['{"b": 1}']),
    "required and no others": ({"required": ["a"], "additionalProperties": False}, ["1"], ["{}", '{"a": 1}']),
    "patternProperties": (
        {
            "properties": {"ab": {"minimum": 1}},
            "patternProperties": {"^a": {"maximum": 5}},
            "additionalProperties": False,
        },
        ['{"ab": 3, "ac": 0}', "{}"],
        ['{"ab": 6}', '{"ab": 0}', '{"ac": 6}', '{"b": 1}'],
    ),
    "propertyNames": ({"propertyNames": {"maxLength": 1}}, ['{"a": 1}'], ['{"ab": 1}']),
    "minProperties": ({"minProperties": 1, "maxProperties": 1}, ['{"a": 1}', "[]"], ["{}", '{"a": 1, "b": 1}']),
    "dependentRequired": ({"dependentRequired": {"a": ["b"]}}, ["{}", '{"a": 1, "b": 1}'], ['{"a": 1}']),
    "dependentSchemas": ({"dependentSchemas": {"a": {"required": ["b"]}}}, ["{}", '{"b": 1}'], ['{"a": 1}']),
    "unevaluatedProperties": ({"properties": {"a": {}}, "unevaluatedProperties": False}, ['{"a": 1}'], ['{"b": 1}']),
    "unevaluatedItems with not": ({"unevaluatedItems": {"not": {"const": 1}}}, ["[2]"], ["[1]"]),
    "anyOf": ({"anyOf": [{"type": "integer"}, {"minLength": 2, "type": "string"}]}, ["1", '"ab"'], ["null", '"a"']),
    "oneOf": ({"oneOf": [{"minimum": 2}, {"maximum": 3}]}, ["1", "4"], ["2", '"a"']),
    "oneOf of types": ({"oneOf": [{"type": "integer"}, {"type": "string"}]}, ["1", '"1"'], ["null"]),
    "allOf": ({"allOf": [{"minimum": 1}, {"maximum": 3}]}, ["2", '"a"'], ["0", "4"]),
    "not": ({"not": {"type": "integer"}}, ['"1"', "1.5"], ["1", "1.0"]),
    "if": ({"if": {"minimum": 5}, "then": {"multipleOf": 5}, "else": {"const": 1}}, ["10", "1"], ["6", "2"]),
    "if without else": ({"if": {"type": "integer"}, "then": {"minimum": 5}}, ["5", '"a"'], ["4"]),
    "$ref": (NESTED, ['{"n": {"n": {"v": 1}}}', "1"], ['{"n": {"v": "a"}}']),
    "$ref beside others": ({"$ref": "#/$defs/a", "maximum": 3, "$defs": {"a": {"minimum": 1}}}, ["2"], ["0", "4"]),
    "$ref to the whole": ({"items": {"$ref": "#"}, "type": "array"}, ["[[], [[]]]"], ["[1]", "[[1]]"]),
    "$ref with escapes": ({"$ref": "#/$defs/a~1b%25", "$defs": {"a/b%": {"const": 1}}}, ["1"], ["2"]),
    "$ref to an older place": ({"$ref": "#/definitions/a", "definitions": {"a": {"const": 1}}}, ["1"], ["2"]),
    "$anchor": ({"$ref": "#it", "$defs": {"a": {"$anchor": "it", "const": 1}}}, ["1"], ["2"]),
    "$id": (
        {
            "$id": "https://a.example/b",
            "$ref": "c#/$defs/d",
            "$defs": {"c": {"$id": "c", "$defs": {"d": {"const": 1}}}},
        },
        ["1"],
        ["2"],
    ),
    "false": ({"properties": {"a": False}}, ["{}"], ['{"a": 1}']),
    "format": ({"type": "string", "format": "date"}, ['"2026-13-45"'], ["1"]),
    "unknown": ({"x-a": 1, "$comment": "b", "contentEncoding": "base64", "title": "c"}, ["1"], []),
}


@pytest.mark.parametrize(("schema", "fitting", "others"), KEYWORDS.values(), ids=KEYWORDS)
def test_keyword(schema: Any, fitting: list[str], others: list[str]) -> None:
    """Documents that fit give values; others are refused."""
    validate = build_validator(schema)

    assert NotImplemented not in [validate(text) for text in fitting]
    for text in others:
        with pytest.raises(ValidationError):
            validate(text)


VALUES: dict[str, tuple[Any, str, str]] = {
    "integer from text": ({"type": "integer"}, '"5"', "5"),
    "integer from a float": ({"type": "integer"}, "3.0", "3"),
    "number stays an integer": ({"type": "number", "minimum": 1}, "3", "3"),
    "number stays a float": ({"type": "number"}, "3.0", "3.0"),
    "truth from text": ({"type": "boolean"}, '"true"', "True"),
    "text stays": ({"type": "string"}, '" 05 "', "' 05 '"),
    "text before integer": ({"type": ["integer", "string"]}, '"5"', "'5'"),
    "text in one of several": ({"oneOf": [{"type": "integer"}, {"type": "string"}]}, '"5"', "'5'"),
    "integer in one of several": ({"oneOf": [{"type": "integer"}, {"type": "null"}]}, '"5"', "5"),
    "as it is in one of any": (
        {"anyOf": [{"properties": {"a": {"type": "integer"}}}, {"type": "object"}]},
        '{"a": "5"}',
        "{'a': '5'}",
    ),
    "not parsed without a type": ({"minimum": 3}, '"1"', "'1'"),
    "constant as it was written": ({"const": 1}, "1.0", "1.0"),
    "default": ({"properties": {"a": {"default": [1]}}}, "{}", "{'a': [1]}"),
    "default inside": ({"properties": {"a": {"properties": {"b": {"default": 1}}}}}, '{"a": {}}', "{'a': {'b': 1}}"),
    "default in items": ({"items": {"properties": {"b": {"default": 1}}}}, "[{}]", "[{'b': 1}]"),
    "default by reference": (
        {"$ref": "#/$defs/a", "$defs": {"a": {"properties": {"b": {"default": 1}}}}},
        "{}",
        "{'b': 1}",
    ),
    "default in one of several": ({"oneOf": [{"properties": {"a": {"default": 1}}}, False]}, "{}", "{'a': 1}"),
    "no default where given": ({"properties": {"a": {"default": 1}}}, '{"a": 2}', "{'a': 2}"),
    "no default in a condition": (
        {"if": {"properties": {"a": {"default": 1}}, "required": ["a"]}, "then": False},
        "{}",
        "{}",
    ),
    "default after counting": ({"properties": {"a": {"default": 1}}, "maxProperties": 0}, "{}", "{'a': 1}"),
    "order": (
        {"properties": {"a": {}, "b": {}}},
        '{"d": 1, "b": 2, "c": 3, "a": 4}',
        "{'a': 4, 'b': 2, 'd': 1, 'c': 3}",
    ),
}


@pytest.mark.parametrize(("schema", "text", "expected"), VALUES.values(), ids=VALUES)
def test_values(schema: Any, text: str, expected: str) -> None:
    """Values have the types of the schema, where nothing is lost by that, and absent ones their defaults."""
    assert expected == repr(build_validator(schema)(text))


def test_defaults_are_copied() -> None:
    """What is done to a default is not seen by the next call."""
    validate = build_validator({"properties": {"a": {"default": []}}})

    validate("{}")["a"].append(1)

    assert {"a": []} == validate("{}")


def test_the_schema_is_copied() -> None:
    """What is done to the schema afterwards changes nothing."""
    schema = {"properties": {"a": {"enum": [1]}}}
    validate = build_validator(schema)

    schema.clear()

    with pytest.raises(ValidationError):
        validate('{"a": 2}')


FAULTS: dict[str, tuple[Any, str, list[tuple[Any, ...]]]] = {
    "missing": (POINT, "{}", [("missing", ("x",))]),
    "type": (POINT, '{"x": "a"}', [("int_parsing", ("x",))]),
    "fraction": (POINT, '{"x": 1.5}', [("int_from_float", ("x",))]),
    "truth": (POINT, '{"x": true}', [("int_type", ("x",))]),
    "text of JSON": (POINT, '"{}"', [("dict_type", ())]),
    "text of a list": ({"properties": {"a": {"type": "array"}}}, '{"a": "[]"}', [("list_type", ("a",))]),
    "other": (POINT | {"additionalProperties": False}, '{"x": 1, "y": 2}', [("extra_forbidden", ("y",))]),
    "other beside patterns": (
        {"patternProperties": {"^a": {}}, "additionalProperties": False},
        '{"b": 1}',
        [("extra_forbidden", ("b",))],
    ),
    "inside": ({"items": {"properties": {"a": POINT}}}, '[{"a": {"x": 1}}, {"a": {}}]', [("missing", (1, "a", "x"))]),
    "by pattern": ({"patternProperties": {"^a": {"type": "null"}}}, '{"ab": 1}', [("none_required", ("ab",))]),
    "in a row": ({"prefixItems": [{}, POINT]}, "[1, {}]", [("missing", (1, "x"))]),
    "enum": ({"enum": ["a"]}, '"b"', [("literal_error", ())]),
    "mixed enum": ({"enum": ["a", 1]}, "true", [("literal_error", ())]),
    "minimum": ({"type": "number", "minimum": 1}, "0", [("greater_than_equal", ())]),
    "multiple": ({"multipleOf": 2}, "3", [("multiple_of", ())]),
    "length": ({"minLength": 2}, '"a"', [("string_too_short", ())]),
    "pattern": ({"pattern": "^\\d$"}, '"a"', [("string_pattern_mismatch", ())]),
    "items": ({"minItems": 1}, "[]", [("too_short", ())]),
    "together": ({"dependentRequired": {"a": ["b"]}}, '{"a": 1}', [("missing", ("b",))]),
    "condition": ({"if": {}, "then": {"properties": {"a": POINT}}}, '{"a": {}}', [("missing", ("a", "x"))]),
    "alternatives": (
        {"anyOf": [{"type": "integer"}, {"$ref": "#/$defs/Point"}], "$defs": {"Point": POINT}},
        '{"x": null}',
        [("int_type", ("integer",)), ("int_type", ("Point", "x"))],
    ),
    "none of one": (
        {"oneOf": [{"type": "integer"}, POINT]},
        "null",
        [("int_type", ("integer",)), ("dict_type", ("object",))],
    ),
    "too many of one": ({"oneOf": [{"type": "integer"}, {}]}, "1", [("one_of", ())]),
    "no JSON": (POINT, "{", [("json_invalid", ())]),
}


@pytest.mark.parametrize(("schema", "text", "expected"), FAULTS.values(), ids=FAULTS)
def test_faults(schema: Any, text: str, expected: list[tuple[Any, ...]]) -> None:
    """Faults have the kinds and the places that those of a function's arguments have."""
    with pytest.raises(ValidationError) as caught:
        build_validator(schema)(text)

    assert expected == [(fault["type"], fault["loc"]) for fault in caught.value.errors()]


def test_an_error_quotes_the_pattern_as_it_was_written() -> None:
    """The model reads the pattern of the schema, not what the engine was given."""
    with pytest.raises(ValidationError, match=r"should match pattern '\^\\d\$'"):
        build_validator({"type": "string", "pattern": "^\\d$"})('"a"')


def deep(schema: dict[str, Any], keyword: str, times: int) -> dict[str, Any]:
    for _ in range(times):
        schema = {keyword: schema}
    return schema


def chain(kind: str) -> dict[str, Any]:
    """Definitions of which each has the next one twice."""
    parts = {
        f"a{i}": {kind: [{"$ref": f"#/$defs/a{i + 1}"}, {"$ref": f"#/$defs/a{i + 1}", "title": "b"}]} for i in range(40)
    }
    return {"$ref": "#/$defs/a0", "$defs": {**parts, "a40": {}}}


UNFIT: dict[str, tuple[Any, str]] = {
    "remote": ({"items": {"$ref": "https://a.example/b.json"}}, "'#/items': 'https://a.example/b.json' is outside"),
    "nothing there": ({"$ref": "#/$defs/a"}, "'#': there is nothing at '#/$defs/a'"),
    "no anchor": ({"$ref": "#a"}, "'#': there is no $anchor 'a'"),
    "within an identifier": (
        {"$defs": {"a": {"$id": "b", "items": {"$ref": "#/$defs/c"}}, "c": {}}, "$ref": "b"},
        "'#/$defs/a/items': '#/$defs/c' belongs to the $id above it",
    ),
    "within one of two equal identifiers": (
        {"$defs": {"a": {"$id": "b", "items": {"$ref": "#/$defs/c"}}, "b": {"$id": "b"}, "c": {}}, "$ref": "#/$defs/a"},
        "'#/$defs/a/items': '#/$defs/c' belongs to the $id above it",
    ),
    "two anchors": (
        {"$defs": {"a": {"$anchor": "n"}, "b": {"$id": "x", "items": {"$anchor": "n"}}}, "$ref": "#n"},
        "there are two of $anchor 'n'",
    ),
    "dynamic": ({"items": {"$dynamicRef": "#a"}}, "'#/items/$dynamicRef': $dynamicRef is not supported"),
    "older": ({"dependencies": {"a": ["b"]}}, "Write dependentRequired or dependentSchemas"),
    "items of older drafts": ({"items": [{}]}, "'#/items': items is not one schema"),
    "limit of older drafts": ({"exclusiveMinimum": True}, "exclusiveMinimum is not a number"),
    "other language": ({"$schema": "https://a.example"}, "'https://a.example' is not known"),
    "unevaluated": ({"unevaluatedProperties": False, "allOf": [{}]}, "unevaluatedProperties is not supported beside"),
    "pattern": (
        {"properties": {"a/b": {"pattern": "["}}},
        "'#/properties/a~1b/pattern': the pattern '[' cannot be used (unclosed character class)",
    ),
    "pattern with look-around": ({"pattern": "^(?=(a+)+$)"}, "cannot be used (look-around, including"),
    "pattern with a reference": ({"pattern": "^(?<a>.)\\1$"}, "cannot be used (backreferences are not supported)"),
    "pattern that is large": ({"pattern": "(a{999}){999}"}, "cannot be used (Compiled regex exceeds size limit"),
    "pattern of a key": ({"patternProperties": {"(": {}}}, "the pattern '(' cannot be used"),
    "circle": ({"$ref": "#"}, "its $ref leads back to itself"),
    "circle of two": (
        {"$defs": {"a": {"not": {"$ref": "#/$defs/b"}}, "b": {"$ref": "#/$defs/a"}}, "items": {"$ref": "#/$defs/a"}},
        "leads back",
    ),
    "deep": (deep({}, "items", 101), "it is nested more than 100 levels deep"),
    "deeper": (deep({}, "items", 5_000), "it is not JSON"),
    "many": ({"properties": {f"a{i}": {} for i in range(10_001)}}, "it has more than 10,000 parts"),
    "long": ({"title": "a" * 2**20}, "it has 1,048,588 bytes"),
    "references in a row": (
        {"$ref": "#/$defs/a0", "$defs": {f"a{i}": {"$ref": f"#/$defs/a{i + 1}"} for i in range(110)} | {"a110": {}}},
        "more than 100 references follow each other",
    ),
    "laughs": (chain("anyOf"), "more than 10,000 schemas apply to one value"),
    "type": ({"type": "int"}, "'#/type': type is not one of array, boolean"),
    "no schema": ({"properties": {"a": 1}}, "'#/properties/a': it is not a schema"),
    "no JSON": ({"default": object()}, "it is not JSON"),
    "not a number": ({"minimum": float("nan")}, "it is not JSON"),
    "huge": ({"type": "string", "minLength": 1e30}, "pydantic-core does not take it"),
    "negative": ({"minLength": -1}, "minLength is not a whole number"),
    "zero": ({"multipleOf": 0}, "multipleOf is not a number above 0"),
}


@pytest.mark.parametrize(("schema", "reason"), UNFIT.values(), ids=UNFIT)
def test_unfit_schemas(schema: Any, reason: str) -> None:
    """A tool whose schema is invalid or not supported is refused at its declaration, with the place and the reason."""
    with pytest.raises(DefinitionError) as caught:
        Tool.from_models("find", {}, schema)

    assert reason in str(caught.value).replace("#/properties/_output", "#")


def test_many_identifiers() -> None:
    """The time of a check does not grow with identifiers times references."""
    identified = {f"a{number}": {"$id": f"a{number}"} for number in range(30_000)}
    names = {f"b{number}": {"$ref": "#/$defs/c"} for number in range(9_000)}
    start = time.thread_time()
    build_validator({"properties": names, "$defs": {**identified, "c": {}}})

    assert time.thread_time() - start < 10


def expression(kinds: int) -> dict[str, Any]:
    parts = {"l": {"$ref": "#"}, "r": {"$ref": "#"}}
    objects = [
        {"type": "object", "properties": {"op": {"const": f"k{i}"}, **parts}, "required": ["op"]} for i in range(kinds)
    ]
    return {"oneOf": [{"type": "integer"}, *objects]}


def test_trees_of_marked_alternatives() -> None:
    """What tells alternatives apart is looked at first, so that each part of a tree is read a few times only."""
    tree: Any = 1
    for _ in range(60):
        tree = {"op": "k2", "l": tree, "r": 1}

    assert tree == build_validator(expression(3))(json.dumps(tree))


@pytest.mark.parametrize("kind", ["anyOf", "oneOf"])
def test_alternatives_inside_each_other(kind: str) -> None:
    """A document for which alternatives would be tried without end is refused soon."""
    validate = build_validator({kind: [{"properties": {"n": {"$ref": "#"}}, "required": [f"a{i}"]} for i in range(3)]})

    with pytest.raises(InvalidArguments, match="too many alternatives"):
        validate('{"n":' * 90 + "1" + "}" * 90)


def test_deep_documents() -> None:
    """A document whose alternatives lie too deep inside each other for Python is refused."""
    validate = build_validator({"oneOf": [{"type": "array", "items": {"$ref": "#"}}, False]})

    with pytest.raises(InvalidArguments, match="too many alternatives"):
        validate("[" * 190 + "]" * 190)


def test_long_lists_of_references() -> None:
    """What is counted for a document is no limit to its length."""
    validate = build_validator({"anyOf": [{"type": "array", "items": {"$ref": "#"}}, {"type": "integer"}]})

    assert 50_000 == len(validate(json.dumps([1] * 50_000)))


def test_pattern_that_branches() -> None:
    """The time of a pattern is proportional to the text, whatever it repeats."""
    validate = build_validator({"pattern": "^(a+)+$"})

    with pytest.raises(ValidationError, match="should match pattern"):
        validate(json.dumps("a" * 100_000 + "!"))


NAMES = st.sampled_from(["a", "b", "ab"])
SCALARS = st.sampled_from([None, True, False, 0, 1, -2, 3, 0.5, 1.0, 2.5, "", "a", "ab", "ba"])
DOCUMENTS = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=6
)
TYPES = st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object"])
COUNTS = st.integers(0, 3)
LIMITS = st.sampled_from([-2, 0, 0.5, 1, 2, 2.5])
REFERENCE = st.just({"$ref": "#/$defs/it"})


def keywords(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Schemas of a few keywords that have schemas in them."""
    several = st.lists(inner, min_size=1, max_size=3)
    by_name = st.dictionaries(NAMES, inner, max_size=2)
    names = st.lists(NAMES, max_size=2, unique=True)
    optional = {
        "type": TYPES | st.lists(TYPES, min_size=1, max_size=3, unique=True),
        "enum": st.lists(DOCUMENTS, min_size=1, max_size=3),
        "const": DOCUMENTS,
        **dict.fromkeys(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"], LIMITS),
        "multipleOf": st.sampled_from([1, 2, 0.5]),
        **dict.fromkeys(["minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"], COUNTS),
        "pattern": st.sampled_from(["a", "^a", "b$"]),
        **dict.fromkeys(["items", "contains", "additionalProperties", "propertyNames"], inner),
        **dict.fromkeys(["minContains", "maxContains"], COUNTS),
        "uniqueItems": st.booleans(),
        **dict.fromkeys(["prefixItems", "allOf", "anyOf", "oneOf"], several),
        **dict.fromkeys(["not", "if", "then", "else"], inner),
        **dict.fromkeys(["properties", "dependentSchemas"], by_name),
        "patternProperties": st.dictionaries(st.sampled_from(["^a", "b$"]), inner, max_size=2),
        "required": names,
        "dependentRequired": st.dictionaries(NAMES, names, max_size=2),
    }
    few = st.lists(st.sampled_from(list(optional)), min_size=1, max_size=3, unique=True)
    return few.flatmap(lambda chosen: st.fixed_dictionaries({keyword: optional[keyword] for keyword in chosen}))


SCHEMAS = st.recursive(st.booleans() | REFERENCE | TYPES.map(lambda name: {"type": name}), keywords, max_leaves=6)


@given(SCHEMAS, st.lists(DOCUMENTS, min_size=1, max_size=5))
def test_agrees_with_another_validator(schema: Any, documents: list[Any]) -> None:
    """Without coercion, a document is valid where another validator accepts it."""
    whole = {"$defs": {"it": schema}, "not": {"not": {"$ref": "#/$defs/it"}}}
    try:
        validate = build_validator(whole)
    except DefinitionError:
        assume(False)
    oracle = Draft202012Validator(whole)

    assert [oracle.is_valid(each) for each in documents] == [fits(validate, each) for each in documents]


@given(SCHEMAS, st.lists(DOCUMENTS, min_size=1, max_size=5))
def test_what_fits_stays_as_it_is(schema: Any, documents: list[Any]) -> None:
    """A document that fits as it is gives the values that stand in it."""
    whole = {"$defs": {"it": schema}, "$ref": "#/$defs/it"}
    try:
        validate = build_validator(whole)
    except DefinitionError:
        assume(False)
    valid = list(filter(Draft202012Validator(whole).is_valid, documents))

    assert valid == [validate(json.dumps(each)) for each in valid]


def fits(validate: Any, document: Any) -> bool:
    try:
        validate(json.dumps(document))
    except ValidationError:
        return False
    return True
