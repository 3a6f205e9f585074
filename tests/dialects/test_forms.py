"""The form in which a tool is shown to a provider, and the way back of what the model writes."""

from __future__ import annotations

import json
import time
from typing import Any, Literal

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from pydantic import BaseModel, ConfigDict

from tests.encoding import encode
from toolkit import Toolbox, tool
from toolkit._dialects.strict.plain import Note
from toolkit._dialects.strict.rewriter import make_form
from toolkit._dialects.strict.rules import ANTHROPIC, ANTHROPIC_STRICT, GEMINI, GRAMMAR, MINIMAL, PLAIN, STRICT, Rules

RULES = [PLAIN, ANTHROPIC, STRICT, ANTHROPIC_STRICT, GEMINI, MINIMAL]
by_rules = pytest.mark.parametrize("rules", RULES, ids=lambda rules: rules.name)

TEXT = {"type": "string"}
INTEGER = {"type": "integer"}
NULLABLE = {"anyOf": [TEXT, {"type": "null"}]}


def root(*required: str, **properties: Any) -> dict[str, Any]:
    """The schema of arguments."""
    closed = {"additionalProperties": False}
    return {"type": "object", "properties": properties, "required": list(required), **closed}


def shown(schema: dict[str, Any], rules: Rules = STRICT) -> Any:
    """How the only, required parameter is shown."""
    return make_form(root("p", p=schema), rules).schema["properties"]["p"]


def pairs_of(value: dict[str, Any], description: str = "Each key once, with its value.") -> dict[str, Any]:
    """How an open object is shown in strict mode."""
    return {"type": "array", "items": root("key", "value", key=TEXT, value=value), "description": description}


ANY = {"type": "string", "description": "JSON text of any value."}
# In strict mode an object with any keys is an array, too.
ALIKE = {"anyOf": [{"type": "array", "items": INTEGER}, {"type": "object", "additionalProperties": INTEGER}]}
NULLS = {"type": "array", "items": {"type": "null"}}
MARK = root("omit", omit={"type": "boolean", "enum": [True]})

# A construct; how strict mode shows it; a document, and the same one as it is shown.
CONSTRUCTS: dict[str, tuple[Any, Any, Any, Any]] = {
    "scalar": ({"type": "string", "minLength": 3}, {"type": "string", "minLength": 3}, "abc", "abc"),
    "format": ({"type": "string", "format": "uri"}, {"type": "string", "description": "Format: uri."}, "a:b", "a:b"),
    "nullable": (NULLABLE, {"type": ["string", "null"]}, None, None),
    "null": ({"type": "null"}, {"type": "null"}, None, None),
    "nullable enum": ({"enum": ["a", None]}, {"type": ["string", "null"], "enum": ["a", None]}, None, None),
    "mixed enum": ({"enum": ["a", 1]}, {"type": ["string", "integer"], "enum": ["a", 1]}, 1, 1),
    "const": ({"const": "a"}, {"type": "string", "const": "a"}, "a", "a"),
    "anything": ({}, ANY, [1, None], "[1, null]"),
    "true": (True, ANY, "text", '"text"'),
    "object without a type": ({"properties": {"a": TEXT}, "required": ["a"]}, root("a", a=TEXT), {"a": ""}, {"a": ""}),
    "array without a type": ({"items": TEXT}, {"type": "array", "items": TEXT}, ["a"], ["a"]),
    "array of nulls": (NULLS, NULLS, [None], [None]),
    "open object": (
        {"type": "object", "additionalProperties": INTEGER},
        pairs_of(INTEGER),
        {"a": 1, "b": 2},
        [{"key": "a", "value": 1}, {"key": "b", "value": 2}],
    ),
    "open object of anything": (
        {"type": "object"},
        pairs_of(ANY),
        {"a": {"b": 1}},
        [{"key": "a", "value": '{"b": 1}'}],
    ),
    "keys by pattern": (
        {"type": "object", "patternProperties": {"^x": INTEGER}},
        pairs_of(INTEGER, 'Each key once, with its value. Keys match the regular expression "^x".'),
        {"xy": 1},
        [{"key": "xy", "value": 1}],
    ),
    "tuple": (
        {"type": "array", "prefixItems": [INTEGER, TEXT], "minItems": 2, "maxItems": 2},
        root("item_1", "item_2", item_1=INTEGER, item_2=TEXT),
        [1, "a"],
        {"item_1": 1, "item_2": "a"},
    ),
    "tuple with a tail": (
        {"type": "array", "prefixItems": [INTEGER], "items": TEXT, "minItems": 1},
        root("item_1", "more", item_1=INTEGER, more={"type": "array", "items": TEXT}),
        [1, "a", "b"],
        {"item_1": 1, "more": ["a", "b"]},
    ),
    "tuple that may be shorter": (
        {"type": "array", "prefixItems": [INTEGER, TEXT], "minItems": 1, "maxItems": 2},
        root(
            *("item_1", "item_2"),
            item_1=INTEGER,
            item_2={"type": ["string", "null"], "description": "Send null to leave it out."},
        ),
        [1],
        {"item_1": 1, "item_2": None},
    ),
    "set": (
        {"type": "array", "items": INTEGER, "uniqueItems": True},
        {"type": "array", "items": INTEGER, "description": "No item twice."},
        [1, 2],
        [1, 2],
    ),
    "optional property": (
        {"type": "object", "properties": {"a": INTEGER}},
        root("a", a={"type": ["integer", "null"], "description": "Send null to leave it out."}),
        {},
        {"a": None},
    ),
    "optional property, nullable": (
        {"type": "object", "properties": {"a": {**NULLABLE, "default": "x"}}},
        root(
            "a",
            a={
                "anyOf": [{"type": ["string", "null"]}, MARK],
                "description": 'Default: "x". Send {"omit": true} to leave it out.',
            },
        ),
        {},
        {"a": {"omit": True}},
    ),
    "optional property, null alone": (
        {"type": "object", "properties": {"a": {"type": "null", "default": None}}},
        root("a", a={"type": "null", "description": "Send null to leave it out."}),
        {},
        {"a": None},
    ),
    "properties and free keys": (
        {"type": "object", "properties": {"a": INTEGER}, "required": ["a"], "additionalProperties": TEXT},
        root("a", "additional_properties", a=INTEGER, additional_properties=pairs_of(TEXT)),
        {"a": 1, "b": "c"},
        {"a": 1, "additional_properties": [{"key": "b", "value": "c"}]},
    ),
    "one of": ({"oneOf": [TEXT, INTEGER]}, {"anyOf": [TEXT, INTEGER]}, 1, 1),
    "alternatives written alike": (
        ALIKE,
        {"type": "string", "description": f"JSON text of a value that matches {json.dumps(ALIKE)}."},
        {"a": 1},
        '{"a": 1}',
    ),
    "all of one": ({"allOf": [TEXT], "description": "A."}, {"type": "string", "description": "A."}, "a", "a"),
    "all of two": (
        {"allOf": [{"type": "object", "properties": {"a": TEXT}, "required": ["a"]}, {"properties": {"b": TEXT}}]},
        root("a", "b", a=TEXT, b={"type": ["string", "null"], "description": "Send null to leave it out."}),
        {"a": "x"},
        {"a": "x", "b": None},
    ),
    "a name that is refused": (
        {"type": "object", "properties": {"größe": INTEGER, "$top": INTEGER}, "required": ["größe", "$top"]},
        root("gr_e", "top", gr_e=INTEGER, top=INTEGER),
        {"größe": 1, "$top": 2},
        {"gr_e": 1, "top": 2},
    ),
}
by_construct = pytest.mark.parametrize(("own", "strict", "document", "written"), CONSTRUCTS.values(), ids=CONSTRUCTS)


@by_construct
def test_strict_mode_shows(own: Any, strict: Any, document: Any, written: Any) -> None:
    """Each construct has one strict form."""
    assert strict == shown(own)


@by_construct
def test_what_strict_mode_shows_is_read_back(own: Any, strict: Any, document: Any, written: Any) -> None:
    """Encoding and decoding a construct are each other's inverse; the tool's own form is understood, too."""
    form = make_form(root("p", p=own), STRICT)

    assert {"p": written} == encode(form, {"p": document}, STRICT)
    assert {"p": document} == form.decode({"p": written}) == form.decode({"p": document})


@by_construct
def test_every_construct_is_lossless(own: Any, strict: Any, document: Any, written: Any) -> None:
    """Under all rules a construct can be encoded, and decodes to the same value."""
    for rules in RULES:
        form = make_form(root("p", p=own), rules)
        encoded = encode(form, {"p": document}, rules)

        assert Draft202012Validator(form.schema).is_valid(encoded), rules
        assert {"p": document} == form.decode(encoded), rules


def test_equal_keys_in_a_json_text() -> None:
    """Of equal keys in a value that is written as JSON text the last one wins."""
    assert {"p": {"a": 2}} == make_form(root("p", p={}), STRICT).decode({"p": '{"a": 1, "a": 2}'})


OPEN = {"type": "object", "properties": {"a": INTEGER}, "additionalProperties": TEXT}
UNREAD = {
    "a key twice": (CONSTRUCTS["open object"][0], [{"key": "a", "value": 1}, {"key": "a", "value": 2}]),
    "a pair without value": (CONSTRUCTS["open object"][0], [{"key": "a"}]),
    "a pair with more": (CONSTRUCTS["open object"][0], [{"key": "a", "value": 1, "note": ""}]),
    "a tuple with a gap": (CONSTRUCTS["tuple"][0], {"item_2": "a"}),
    "a tuple with more": (CONSTRUCTS["tuple"][0], {"item_1": 1, "item_2": "a", "item_3": 2}),
    "a tail that is a text": (CONSTRUCTS["tuple with a tail"][0], {"item_1": 1, "more": "ab"}),
    "no JSON": ({}, "half {"),
    "a number that JSON has not": ({}, "NaN"),
    "half a character": ({}, "\ud800"),
    "too deep": ({}, "[" * 100_000),
    "another type": (CONSTRUCTS["tuple"][0], 5),
}


@pytest.mark.parametrize(("own", "document"), UNREAD.values(), ids=UNREAD)
def test_what_is_not_understood_is_left_as_it_is(own: Any, document: Any) -> None:
    """Nothing is guessed, and no key is lost."""
    assert {"p": document} == make_form(root("p", p=own), STRICT).decode({"p": document})


@pytest.mark.parametrize(
    ("sent", "own"),
    [
        ({"item_1": 1, "item_2": None, "item_3": "a"}, [1, 0, "a"]),
        ({"item_1": 1, "item_3": "a"}, [1, 0, "a"]),
        ({"item_1": 1, "item_2": None, "item_3": None}, [1]),
        ({"item_2": 2, "item_3": "a"}, {"item_2": 2, "item_3": "a"}),
    ],
    ids=["null", "left out", "at the end", "without a default"],
)
def test_an_item_that_is_left_out_before_another_has_its_default(sent: Any, own: Any) -> None:
    """A tuple has no gaps: an item that a model leaves out before another one is sent with its default."""
    items = [INTEGER, {**INTEGER, "default": 0}, TEXT]
    form = make_form(root("p", p={"type": "array", "prefixItems": items, "minItems": 1, "maxItems": 3}), STRICT)

    assert {"p": own} == form.decode({"p": sent})


@pytest.mark.parametrize("key", ["b", "a"], ids=["twice", "beside the property"])
def test_a_free_key_that_is_there_already_makes_the_object_invalid(key: str) -> None:
    """Two values for one key never become one: validation sees no object."""
    twice = [{"key": "b", "value": "1"}, {"key": key, "value": "2"}]
    read = make_form(root("p", p=OPEN), STRICT).decode({"p": {"a": 1, "additional_properties": twice}})

    assert isinstance(read["p"], list)


def test_a_document_too_deep_is_left_as_it_is() -> None:
    """Reading never fails, however deep a document is."""
    tree = {"type": "object", "properties": {"inner": {"$ref": "#/$defs/Tree"}}}
    form = make_form({**root("p", p={"$ref": "#/$defs/Tree"}), "$defs": {"Tree": tree}}, STRICT)
    document: dict[str, Any] = {}
    for _ in range(10_000):
        document = {"inner": document}

    assert form.decoder is not None and form.decode({"p": document})["p"] is document


def test_a_plain_tool_costs_nothing() -> None:
    """Where the form is the tool's own, there is nothing to decode."""
    form = make_form(root("a", "b", a=TEXT, b={"type": "array", "items": INTEGER}), STRICT)

    assert (True, None, ()) == (form.strict, form.decoder, form.notes)


def test_a_recursive_model_that_is_as_it_was_is_read_as_it_is() -> None:
    """References alone change nothing."""
    node = {"type": "object", "properties": {"inner": {"type": "array", "items": {"$ref": "#/$defs/Node"}}}}
    schema = {**root("p", p={"$ref": "#/$defs/Node"}), "$defs": {"Node": {**node, "required": ["inner"]}}}
    document = {"p": {"inner": [{"inner": []}, {"inner": 5}]}}

    assert document == make_form(schema, STRICT).decode(document)


class Tree(BaseModel):
    """A tree with defaults."""

    name: str
    children: list[Tree] = []


class Free(BaseModel):
    """A model that takes any key."""

    model_config = ConfigDict(extra="allow")
    kind: Literal["free"]


@tool
def grow(tree: Tree, weights: dict[str, float], free: Free | None = None) -> None:
    """Grow a tree."""


def test_a_recursive_model_keeps_its_reference() -> None:
    """A model that holds itself stays a definition where the provider takes references."""
    form = make_form(grow.parameters, STRICT)
    children = form.schema["$defs"]["Tree"]["properties"]["children"]

    assert {"$ref": "#/$defs/Tree"} == form.schema["properties"]["tree"]
    assert [{"type": "array", "items": {"$ref": "#/$defs/Tree"}}, {"type": "null"}] == children["anyOf"]


def test_a_recursive_property_may_be_left_out_or_null() -> None:
    """Left out and null stay apart in a definition that holds itself."""
    link = {"anyOf": [{"$ref": "#/$defs/Link"}, {"type": "null"}]}
    schema = {**root("p", p=link), "$defs": {"Link": {"type": "object", "properties": {"next": link}}}}
    form = make_form(schema, STRICT)
    written = {"p": {"next": {"next": {"omit": True}}}}

    next_ = form.schema["$defs"]["Link"]["properties"]["next"]

    assert [{"$ref": "#/$defs/Link"}, {"type": "null"}, MARK] == next_["anyOf"]
    assert {"p": {"next": {}}} == form.decode(written)
    assert {"p": {"next": None}} == form.decode({"p": {"next": None}})
    assert written == encode(form, {"p": {"next": {}}}, STRICT)


def test_a_mark_that_could_be_a_value_gives_way_to_json_text() -> None:
    """Where an object may itself be `{"omit": true}`, leaving out stays sayable."""
    omit = root("omit", omit={"type": "boolean"})
    form = make_form(root("p", p={"type": "object", "properties": {"a": {"anyOf": [omit, {"type": "null"}]}}}), STRICT)

    assert {"p": {"a": {"omit": True}}} == form.decode(encode(form, {"p": {"a": {"omit": True}}}, STRICT))
    assert {"p": {}} == form.decode(encode(form, {"p": {}}, STRICT))


@pytest.mark.parametrize("rules", [GEMINI, MINIMAL, ANTHROPIC_STRICT], ids=lambda rules: rules.name)
def test_a_recursive_model_is_written_out_where_it_must(rules: Rules) -> None:
    """Without recursion, a model is written inside itself three times; what lies deeper is JSON text."""
    form = make_form(grow.parameters, rules)
    document: dict[str, Any] = {"name": "leaf"}
    for _ in range(6):
        document = {"name": "branch", "children": [document]}
    encoded = encode(form, {"tree": document, "weights": {}}, rules)
    deep = encoded["tree"]["children"][0]["children"][0]["children"][0]

    assert isinstance(deep, str)
    assert {"tree": document, "weights": {}} == form.decode(encoded)


def test_a_default_is_described_whole() -> None:
    """A member of a default that is named as a keyword is data."""
    own = {"type": "object", "additionalProperties": TEXT, "default": {"title": "Dr", "name": "Ann"}}

    assert 'Default: {"title": "Dr", "name": "Ann"}.' in shown(own)["description"]


@by_rules
def test_a_form_is_the_same_each_time(rules: Rules) -> None:
    """Two forms of one tool have the same bytes, and the tool's own schema is as it was."""
    before = json.dumps(grow.parameters)

    assert json.dumps(make_form(grow.parameters, rules).schema) == json.dumps(make_form(grow.parameters, rules).schema)
    assert before == json.dumps(grow.parameters)


def test_a_form_is_made_once() -> None:
    """A tool's form under one provider's rules is cached."""
    assert grow.explain("chat").notes
    assert grow.explain("chat").notes is grow.explain("responses").notes


def test_notes_say_every_difference_and_where() -> None:
    """Each difference is reported to the developer, with its path."""
    schema = root("a", a={"type": "object", "additionalProperties": {"type": "string", "format": "uri"}})

    assert (
        Note("a", "sent as a list of key and value"),
        Note("a.*", "format goes into the description"),
    ) == make_form(schema, STRICT).notes


CHAIN: dict[str, Any] = TEXT
for _ in range(11):
    CHAIN = root("p", p=CHAIN)
BIG = {
    "depth": (CHAIN, "11 levels of objects, where the provider takes 10"),
    "properties": (
        root(*(f"p{n}" for n in range(5001)), **{f"p{n}": TEXT for n in range(5001)}),
        "5001 properties, where the provider takes 5000",
    ),
    "values": (
        root("p", p={"type": "integer", "enum": list(range(1001))}),
        "1001 values in enumerations, where the provider takes 1000",
    ),
    "texts": (
        root("p", p={"type": "string", "enum": [f"{n:060}" for n in range(251)]}),
        "15060 characters in one enumeration, where the provider takes 15000",
    ),
    "names": (
        root("p", p={"type": "string", "const": "x" * 120_000}),
        "120001 characters in names and values, where the provider takes 120000",
    ),
}


@pytest.mark.parametrize(("schema", "reason"), BIG.values(), ids=BIG)
def test_a_schema_beyond_a_limit_is_not_strict(schema: dict[str, Any], reason: str) -> None:
    """What strict mode does not take goes out plainly, with one note that says why."""
    form = make_form(schema, STRICT)

    assert (schema, False, None) == (form.schema, form.strict, form.decoder)
    assert (Note("", f"no form under the rules 'strict': {reason}"),) == form.notes


def test_a_schema_at_a_limit_is_strict() -> None:
    """Ten levels of objects are taken."""
    assert make_form(CHAIN["properties"]["p"], STRICT).strict


FOREIGN: dict[str, dict[str, Any]] = {
    "no properties": {"type": "object"},
    "nothing": {},
    "a union": {"anyOf": [root("a", a=TEXT), root("b", b=TEXT)]},
    "a reference": {"$ref": "#/$defs/A", "$defs": {"A": root("a", a=TEXT)}},
    "itself": {"type": "object", "properties": {"inner": {"$ref": "#"}}},
    "a circle of references": {"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/A"}}},
    "a circle of allOf": {"allOf": [{"$ref": "#"}]},
    "a dead reference": root("p", p={"$ref": "#/$defs/None"}),
    "a remote reference": root("p", p={"$ref": "https://example.org/schema"}),
    "false": root("p", p=False, q=TEXT),
    "older definitions": {**root("p", p={"$ref": "#/definitions/A"}), "definitions": {"A": TEXT}},
    "an older tuple": root("p", p={"type": "array", "items": [TEXT, INTEGER], "additionalItems": False}),
    "no schema": {"type": "object", "properties": ["a"]},
    "properties that are texts": {"type": "object", "properties": {"a": "string"}},
    "an unknown type": root("p", p={"type": "any"}),
    "an empty union": root("p", p={"anyOf": []}),
}


@by_rules
def test_a_foreign_schema_has_a_form(rules: Rules) -> None:
    """Whatever another's schema is like, a form is found, and reading never fails."""
    for schema in FOREIGN.values():
        form = make_form(schema, rules)

        assert isinstance(json.dumps(form.schema), str)
        assert "text" == form.decode("text")


@by_rules
def test_a_schema_too_deep_has_a_form(rules: Rules) -> None:
    """A schema that cannot be walked goes out as it is."""
    deep: dict[str, Any] = TEXT
    for _ in range(20_000):
        deep = {"type": "array", "items": deep}
    form = make_form(root("p", p=deep), rules)

    assert form.schema["properties"]["p"] is deep
    assert form.notes


def test_references_that_multiply_end() -> None:
    """Definitions that name each other many times make no endless form."""
    names = [f"D{n}" for n in range(12)]
    inner = {name: {"$ref": f"#/$defs/{name}"} for name in names}
    schema = {**root("p", p={"$ref": "#/$defs/D0"}), "$defs": {name: root(*names, **inner) for name in names}}

    assert len(json.dumps(make_form(schema, MINIMAL).schema)) < 5_000_000


def chain(count: int, kind: str) -> dict[str, Any]:
    """Definitions, each of which refers to the next twice."""
    definitions: dict[str, Any] = {f"d{count}": {"type": "string"}}
    for number in range(count):
        next_one = {"$ref": f"#/$defs/d{number + 1}"}
        node = {"properties": {"a": next_one, "b": next_one}, "type": "object", "additionalProperties": False}
        either = [{"properties": {"a": next_one, "k": {"const": k}}, "type": "object"} for k in (1, 2)]
        definitions[f"d{number}"] = node if kind == "properties" else {"anyOf": either}
    return {"type": "object", "properties": {"x": {"$ref": "#/$defs/d0"}}, "required": ["x"], "$defs": definitions}


@pytest.mark.parametrize("kind", ["properties", "anyOf"])
@pytest.mark.parametrize("rules", [GRAMMAR, *RULES[2:]], ids=lambda rules: rules.name)
def test_chains_of_references_take_linear_time(kind: str, rules: Rules) -> None:
    """Definitions with two references each are rewritten, and documents of them decoded, in linear time."""
    document: Any = {"k": 3}
    for _ in range(22):
        document = {"a": document, "k": 3}
    begin = time.process_time()

    form = make_form(chain(22, kind), rules)
    form.decode({"x": document})

    assert time.process_time() - begin < 5  # seconds; exponential ones take minutes


def test_a_condition_that_brings_properties_is_no_closed_object() -> None:
    """Keys that exist under a condition only stay sayable: the object is JSON text."""
    schema = {"type": "object", "properties": {"a": TEXT}, "then": {"properties": {"b": TEXT}}}

    assert "string" == shown(schema)["type"]
    assert not make_form(schema, STRICT).strict


def test_an_alternative_as_sibling_is_said_in_words() -> None:
    """`anyOf` beside properties is a constraint: the object stays, and the description has it."""
    schema = {**root(a=TEXT, b=TEXT), "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}

    assert 'anyOf: [{"required": ["a"]}, {"required": ["b"]}].' == shown(schema)["description"]


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ({"const": 5}, {"type": "integer", "enum": [5]}),
        ({"enum": [0.5, 1]}, {"type": "number", "enum": [0.5, 1]}),
        ({"type": "string", "maxLength": 9}, {"type": "string", "description": "At most 9 characters."}),
    ],
    ids=["const", "numbers", "bound"],
)
def test_minimal_rules_show(own: dict[str, Any], expected: dict[str, Any]) -> None:
    """Where few keywords are known, others and the description do."""
    assert expected == shown(own, MINIMAL)


@pytest.mark.parametrize("rules", [GEMINI, MINIMAL], ids=lambda rules: rules.name)
def test_without_null_a_nullable_parameter_is_left_out(rules: Rules) -> None:
    """A provider without null says it by leaving out; the tool still gets its null."""
    form = make_form(root("p", p=NULLABLE), rules)

    assert {"type": "string", "description": "Left out, it is null."} == form.schema["properties"]["p"]
    assert {"p": None} == form.decode({})
    assert {} == encode(form, {"p": None}, rules)


@pytest.mark.parametrize("rules", [GEMINI, MINIMAL], ids=lambda rules: rules.name)
def test_the_text_null_is_not_null(rules: Rules) -> None:
    """An enumeration may list the word "null"."""
    form = make_form(root("p", p={"type": "string", "enum": ["null", "zero"]}), rules)

    assert {"type": "string", "enum": ["null", "zero"]} == form.schema["properties"]["p"]
    assert form.decoder is None


def test_names_are_changed_for_anthropic_without_strict_mode_too() -> None:
    """Anthropic refuses some names of parameters in all modes; the tool gets its own names back."""
    form = make_form(root("filter[id]", **{"filter[id]": TEXT, "filter_id": TEXT}), ANTHROPIC)

    assert ["filter_id_2", "filter_id"] == list(form.schema["properties"])
    assert ["filter_id_2"] == form.schema["required"]
    assert {"filter[id]": "a", "filter_id": "b"} == form.decode({"filter_id_2": "a", "filter_id": "b"})


def test_the_root_is_always_an_object() -> None:
    """Arguments that are not an object by themselves go inside one."""
    form = make_form(FOREIGN["a union"], STRICT)

    assert "object" == form.schema["type"]
    assert {"b": "x"} == form.decode({"arguments": {"b": "x"}})


ATTACHMENT: dict[str, Any] = {
    "type": "object",
    "properties": {"page": {"type": "string"}},
    "required": ["page"],
    "oneOf": [
        {
            "type": "object",
            "properties": {"kind": {"const": "text"}, "content": {"type": "string"}},
            "required": ["kind", "content"],
        },
        {"$ref": "#/$defs/Link"},
        {"type": "null"},
    ],
    "not": {"required": ["content", "url"]},
    "$defs": {
        "Link": {
            "type": "object",
            "properties": {"kind": {"const": "link"}, "url": {"type": "string"}},
            "required": ["kind", "url"],
        }
    },
}
WHOLE = {"allOf": [{"$ref": "#/$defs/Link"}, {"properties": {"page": {"type": "string"}}}], **ATTACHMENT}
PARAMETERS = {"anthropic": "input_schema", "mcp": "inputSchema"}


class Attach:
    """A tool of another library."""

    name = "attach"
    description = "Attach."

    def __init__(self, parameters: dict[str, Any]) -> None:
        self.parameters = parameters

    def execute(self, **arguments: Any) -> Any:
        """Return the arguments."""
        return arguments


def show_parameters(parameters: dict[str, Any], dialect: Any, *, strict: bool) -> Any:
    shown = Toolbox([Attach(parameters)]).schemas(dialect, strict=strict)[0]
    return shown.get("function", shown)[PARAMETERS.get(dialect, "parameters")]


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("dialect", ["chat", "responses", "anthropic", "gemini", "minimal"])
@pytest.mark.parametrize("parameters", [ATTACHMENT, WHOLE], ids=["oneOf", "allOf"])
def test_no_provider_gets_alternatives_at_the_root(parameters: dict[str, Any], dialect: Any, strict: bool) -> None:
    """OpenAI and Anthropic refuse them, so their properties are the root's, and the description has the rest."""
    shown = show_parameters(parameters, dialect, strict=strict)

    assert set() == shown.keys() & {"anyOf", "oneOf", "allOf", "not"}
    assert {"page", "kind", "content", "url"} == shown["properties"].keys()
    assert {"page", "kind"} <= set(shown["required"])
    assert '"required": ["kind", "content"]' in shown["description"]
    assert 'not: {"required": ["content", "url"]}' in shown["description"]


def test_mcp_gets_alternatives_at_the_root() -> None:
    """The Model Context Protocol allows them."""
    assert ATTACHMENT["oneOf"] == show_parameters(ATTACHMENT, "mcp", strict=False)["oneOf"]


def test_references_into_alternatives_at_the_root() -> None:
    """What a reference points to is sent, too."""
    parameters = {**ATTACHMENT, "properties": {"page": {"$ref": "#/oneOf/0/properties/content"}}}
    shown = show_parameters(parameters, "chat", strict=False)

    assert ({"$ref": "#/$defs/content"}, TEXT) == (shown["properties"]["page"], shown["$defs"]["content"])


def test_alternatives_at_the_root_that_take_any_key() -> None:
    """In strict mode such a tool takes any key, too; alternatives that differ in nothing else are not described."""
    parameters: dict[str, Any] = {
        "type": "object",
        "anyOf": [{"properties": {"a": TEXT}, "additionalProperties": True}, {"properties": {"b": TEXT}}],
    }
    box = Toolbox([Attach(parameters)])
    more = {"a": None, "b": None, "additional_properties": [{"key": "c", "value": '"x"'}]}
    call = {"id": "1", "function": {"name": "attach", "arguments": json.dumps(more)}}
    (answer,) = box.answer({"role": "assistant", "tool_calls": [call]}, "chat", strict=True)

    assert {"c": "x"} == json.loads(answer["content"])
    assert "oneOf" not in str(show_parameters({**parameters, "oneOf": parameters["anyOf"][1:]}, "chat", strict=False))


def test_calls_of_a_tool_with_alternatives_at_its_root() -> None:
    """The tool's own schema still decides about each call."""
    box = Toolbox([Attach(ATTACHMENT)])
    written = [
        {"page": "p", "kind": "link", "content": None, "url": "u"},
        {"page": "p", "kind": "text", "content": None, "url": "u"},
    ]
    calls = [{"id": str(n), "function": {"name": "attach", "arguments": json.dumps(w)}} for n, w in enumerate(written)]
    first, second = box.answer({"role": "assistant", "tool_calls": calls}, "chat", strict=True)

    assert {"page": "p", "kind": "link", "url": "u"} == json.loads(first["content"])
    assert second["content"].startswith("Invalid arguments")


LOOKUP: dict[str, Any] = {
    "type": "object",
    "properties": {"limit": {"type": "integer"}},
    "anyOf": [
        {
            "description": "By name.",
            "allOf": [{"$ref": "#/$defs/Page"}, {"required": ["name"]}],
            "properties": {"name": TEXT},
        },
        {"type": ["object", "null"], "$ref": "#/$defs/Page", "properties": {"id": TEXT}, "required": ["id"]},
        {"properties": {"tag": TEXT}, "required": ["tag"], "additionalProperties": {}},
        {"properties": {"path": TEXT}, "patternProperties": {"^x-": TEXT}, "additionalProperties": False},
    ],
    "$defs": {"Page": {"type": "object", "properties": {"page": {"type": "integer"}}, "required": ["page"]}},
}


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize(
    "arguments",
    [
        {"name": "a", "page": 1},
        {"id": "7", "page": 2, "limit": 3},
        {"tag": "t", "color": "red"},
        {"path": "/", "x-a": "1"},
    ],
    ids=lambda arguments: min(arguments),
)
def test_each_alternative_at_the_root_can_be_sent(arguments: dict[str, Any], strict: bool) -> None:
    """Also one of several parts, of several types, or with keys that are not listed."""
    rules = STRICT if strict else ANTHROPIC
    form = make_form(LOOKUP, rules)
    sent = encode(form, arguments, rules)

    assert form.strict is strict
    assert Draft202012Validator(form.schema).is_valid(sent)
    assert form.decode(sent) == arguments
    assert "By name." in form.schema["description"]


@pytest.mark.parametrize("strict", [True, False])
def test_conditions_at_the_root_stay_apart(strict: bool) -> None:
    """Of several in `allOf` one is the root's, and the description has the others."""
    first, second = ({"if": {"required": ["a"]}, "then": {"required": ["b"]}}, {"if": {"required": ["c"]}, "else": {}})
    own = {"type": "object", "properties": {"a": TEXT, "b": TEXT, "c": TEXT}, "allOf": [first, second]}
    shown = make_form(own, STRICT if strict else ANTHROPIC).schema

    assert 'allOf: [{"if": {"required": ["c"]}, "else": {}}]' in shown["description"]
    assert "else" not in shown
    assert ("then" in shown) is not strict
