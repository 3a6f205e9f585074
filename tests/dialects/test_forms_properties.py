"""Forms for any tool: what a model is shown is lawful, and what it writes comes back as what was meant."""

from __future__ import annotations

import dataclasses
import inspect
import json
from collections.abc import Iterator
from typing import Annotated, Any, Literal, NamedTuple, Optional, TypeAlias, Union

from hypothesis import HealthCheck, assume, given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from pydantic import BaseModel, ConfigDict, Field, create_model
from typing_extensions import NotRequired, TypedDict

from tests.encoding import encode
from tests.properties import examples
from toolkit import Tool, tool
from toolkit._dialects.strict.rewriter import make_form
from toolkit._dialects.strict.rules import ANTHROPIC_STRICT, GEMINI, MINIMAL, PLAIN, STRICT, Rules

any_rules = st.sampled_from([PLAIN, STRICT, ANTHROPIC_STRICT, GEMINI, MINIMAL])
NAMES = ("a", "b", "key", "value", "größe", "item_1")


class Sort(NamedTuple):
    """A type, and the documents of it."""

    type: Any
    documents: st.SearchStrategy[Any]


# A default that is not a value of any type here, so that leaving out differs from all that can be given.
LEFT_OUT: Any = Field(default_factory=lambda: ("left out",))

Parts: TypeAlias = list[tuple[str, Sort, bool]]


class Node(BaseModel):
    """A tree."""

    name: str
    children: list[Node] = []
    weights: dict[str, int] = {}


class Cat(BaseModel):
    """One of two kinds."""

    kind: Literal["cat"]
    lives: int = 9


class Dog(BaseModel):
    """The other kind."""

    kind: Literal["dog"]
    tags: dict[str, str] = {}


def made(type_: Any, documents: st.SearchStrategy[Any]) -> st.SearchStrategy[Sort]:
    """Always the same sort."""
    return st.just(Sort(type_, documents))


nodes: st.SearchStrategy[Any] = st.recursive(
    st.fixed_dictionaries({"name": st.text(max_size=3)}),
    lambda inner: st.fixed_dictionaries(
        {"name": st.text(max_size=3)},
        optional={
            "children": st.lists(inner, max_size=2),
            "weights": st.dictionaries(st.text(max_size=2), st.integers()),
        },
    ),
    max_leaves=4,
)
pets = st.one_of(
    st.fixed_dictionaries({"kind": st.just("cat")}, optional={"lives": st.integers(0, 9)}),
    st.fixed_dictionaries({"kind": st.just("dog")}, optional={"tags": st.dictionaries(st.text(max_size=2), st.text())}),
)
numbers = st.floats(allow_nan=False, allow_infinity=False, width=32)
anything = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-9, 9), st.text(max_size=3)),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=4,
)

scalars: st.SearchStrategy[Sort] = st.one_of(
    made(int, st.integers(-99, 99)),
    made(float, numbers),
    made(str, st.text(max_size=4)),
    made(bool, st.booleans()),
    made(Annotated[int, Field(ge=1, lt=9)], st.integers(1, 8)),
    made(Annotated[str, Field(min_length=1, pattern="^[a-z]+$")], st.sampled_from(["x", "yy"])),
    made(Literal["x", "y"], st.sampled_from(["x", "y"])),
    made(Literal["x", 1, None], st.sampled_from(["x", 1, None])),
    made(Literal[1, 2], st.sampled_from([1, 2])),
    made(Literal[True], st.just(True)),
    made(Any, anything),
    made(Node, nodes),
    made(Annotated[Cat | Dog, Field(discriminator="kind")], pets),
)


def nested(inner: st.SearchStrategy[Sort]) -> st.SearchStrategy[Sort]:
    """What holds other types."""
    return st.one_of(
        inner.map(lambda s: Sort(list[s.type], st.lists(s.documents, max_size=3))),  # type: ignore[name-defined]
        inner.map(lambda s: Sort(Optional[s.type], st.none() | s.documents)),  # noqa: UP045
        inner.map(lambda s: Sort(dict[str, s.type], st.dictionaries(st.text(max_size=3), s.documents, max_size=3))),  # type: ignore[name-defined]
        st.tuples(inner, inner).map(
            lambda p: Sort(tuple[p[0].type, p[1].type], listed(p[0].documents, p[1].documents))  # type: ignore[misc]
        ),
        st.tuples(inner, inner).map(lambda p: Sort(Union[p[0].type, p[1].type], p[0].documents | p[1].documents)),  # noqa: UP007
        st.just(Sort(set[int], st.lists(st.integers(0, 9), unique=True, max_size=3))),
        st.tuples(st.sampled_from([model_of, open_model_of, typed_dict_of, dataclass_of]), parts_of(inner)).map(
            lambda pair: pair[0](pair[1])
        ),
    )


def parts_of(inner: st.SearchStrategy[Sort]) -> st.SearchStrategy[Parts]:
    """Up to three named types, each required or not."""
    parts = st.lists(st.tuples(inner, st.booleans()), max_size=3)
    return st.tuples(parts, st.permutations(NAMES)).map(lambda p: [(name, *part) for name, part in zip(p[1], p[0])])


def listed(*places: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    """Lists with one item for each strategy."""
    return st.tuples(*places).map(list)


def documents_of(parts: Parts) -> st.SearchStrategy[dict[str, Any]]:
    """Objects whose properties are required or not."""
    required = {name: sort.documents for name, sort, needed in parts if needed}
    return st.fixed_dictionaries(required, optional={n: sort.documents for n, sort, needed in parts if not needed})


def model_of(parts: Parts) -> Sort:
    """A model that ignores what it does not know."""
    fields: dict[str, Any] = {n: (s.type, ...) if needed else (s.type, LEFT_OUT) for n, s, needed in parts}
    return Sort(create_model("Model", **fields), documents_of(parts))


def open_model_of(parts: Parts) -> Sort:
    """A model that keeps what it does not know."""
    fields: dict[str, Any] = {n: (s.type, ...) if needed else (s.type, LEFT_OUT) for n, s, needed in parts}
    free = st.dictionaries(st.sampled_from(["p", "q", "r"]), anything, max_size=2)
    documents = st.tuples(free, documents_of(parts)).map(lambda pair: {**pair[0], **pair[1]})
    return Sort(create_model("Open", __config__=ConfigDict(extra="allow"), **fields), documents)


def typed_dict_of(parts: Parts) -> Sort:
    """A TypedDict, some of whose keys may be missing."""
    keys = {name: sort.type if needed else NotRequired[sort.type] for name, sort, needed in parts}
    return Sort(TypedDict("Keys", keys), documents_of(parts))  # type: ignore[operator]


def dataclass_of(parts: Parts) -> Sort:
    """A dataclass with defaults."""
    fields = [(n, s.type, dataclasses.field(default=None)) for n, s, needed in parts if not needed]
    first: list[Any] = [(n, s.type) for n, s, needed in parts if needed]
    made = dataclasses.make_dataclass("Data", [*first, *fields])
    return Sort(made, documents_of(parts))


sorts: st.SearchStrategy[Sort] = st.recursive(scalars, nested, max_leaves=5)


@st.composite
def calls(draw: Any) -> tuple[Tool[..., Any], dict[str, Any]]:
    """A tool of random parameters, and arguments for it."""
    parts = draw(parts_of(sorts))
    free = draw(st.booleans())
    document = draw(documents_of(parts))
    more = draw(st.dictionaries(st.sampled_from(["x", "y"]), st.integers(), max_size=2)) if free else {}
    return tool_of(parts, free=free), {**document, **({"more": more} if more else {})}


def tool_of(parts: Parts, *, free: bool) -> Tool[..., Any]:
    """A tool that gives back its arguments."""
    kind = inspect.Parameter.KEYWORD_ONLY
    parameters = [
        inspect.Parameter(n, kind, annotation=s.type, default=inspect.Parameter.empty if needed else "left out")
        for n, s, needed in parts
    ]
    if free:
        parameters.append(inspect.Parameter("more", inspect.Parameter.VAR_KEYWORD, annotation=int))

    def echo(**given: Any) -> Any:
        return given

    echo.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return tool(echo)


def values(made: Tool[..., Any], document: Any) -> Any:
    """What a tool gets of its arguments; None where it refuses them."""
    result = made.invoke(json.dumps(document))
    return None if result.is_error else result.value


SLOW = (HealthCheck.too_slow, HealthCheck.filter_too_much)
checked = examples(50, suppress_health_check=SLOW)


def texts_in(document: Any) -> Iterator[str]:
    """The texts in a document."""
    if isinstance(document, str):
        yield document
    for inner in document.values() if isinstance(document, dict) else document if isinstance(document, list) else ():
        yield from texts_in(inner)


def is_json(text: str) -> bool:
    """Whether a text is JSON."""
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def nodes_in(schema: Any) -> Iterator[dict[str, Any]]:
    """The schemas in a form, which has no others than these."""
    if not isinstance(schema, dict):
        return
    yield schema
    for named in ("properties", "$defs"):
        for inner in schema.get(named, {}).values():
            yield from nodes_in(inner)
    for inner in [*schema.get("anyOf", []), schema.get("items")]:
        yield from nodes_in(inner)


# What OpenAI's guide to structured outputs allows, section "Supported schemas", as of November 2026.
OPENAI_KEYWORDS = {
    *(
        "type",
        "description",
        "enum",
        "const",
        "anyOf",
        "$ref",
        "$defs",
        "properties",
        "required",
        "additionalProperties",
    ),
    *("items", "minItems", "maxItems", "pattern", "format", "minLength", "maxLength"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
}
OPENAI_FORMATS = {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}


def openai_faults(schema: dict[str, Any]) -> list[str]:
    """Why OpenAI would refuse a schema in strict mode."""
    nodes = list(nodes_in(schema))
    objects = [node for node in nodes if node.get("type") == "object"]
    return [
        *[f"keyword {key}" for node in nodes for key in node.keys() - OPENAI_KEYWORDS],
        *[f"format {node['format']}" for node in nodes if node.get("format", "date") not in OPENAI_FORMATS],
        *["look-around" for node in nodes if "(?=" in node.get("pattern", "") or "(?!" in node.get("pattern", "")],
        *["a reference with neighbours" for node in nodes if "$ref" in node and len(node) > 1],
        *["no type" for node in nodes if not node.keys() & {"type", "anyOf", "$ref"}],
        *["an array without items" for node in nodes if node.get("type") == "array" and "items" not in node],
        *["an open object" for node in objects if node.get("additionalProperties") is not False],
        *["an optional property" for node in objects if list(node["properties"]) != node["required"]],
        *["a root that is not an object" for _ in [1] if schema.get("type") != "object" or "anyOf" in schema],
    ]


def keywords_in(schema: dict[str, Any]) -> set[str]:
    """The keywords that a form uses."""
    return {key for node in nodes_in(schema) for key in node}


@checked
@given(rules=any_rules, call=calls())
def test_a_form_is_lawful(rules: Rules, call: tuple[Tool[..., Any], dict[str, Any]]) -> None:
    """A form is valid JSON Schema, plain JSON, the same each time, and no title is in it."""
    form, again = make_form(call[0].parameters, rules), make_form(call[0].parameters, rules)
    Draft202012Validator.check_schema(form.schema)

    assert json.dumps(form.schema, allow_nan=False) == json.dumps(again.schema)
    assert "title" not in keywords_in(dict(form.schema))


@checked
@given(call=calls())
def test_strict_forms_keep_to_the_rules_of_openai(call: tuple[Tool[..., Any], dict[str, Any]]) -> None:
    """Nothing is in a strict form that OpenAI's strict mode refuses."""
    form = make_form(call[0].parameters, STRICT)

    assert not form.strict or [] == openai_faults(dict(form.schema))


@checked
@given(call=calls())
def test_minimal_forms_have_six_keywords(call: tuple[Tool[..., Any], dict[str, Any]]) -> None:
    """A minimal form has no references, unions, bounds or lists of types."""
    form = make_form(call[0].parameters, MINIMAL)
    kinds = [node["type"] for node in nodes_in(dict(form.schema))]

    assert keywords_in(dict(form.schema)) <= {"type", "description", "properties", "required", "items", "enum"}
    assert set(kinds) <= {"object", "array", "string", "integer", "number", "boolean"}


@checked
@given(call=calls())
def test_gemini_forms_fit_its_schema_object(call: tuple[Tool[..., Any], dict[str, Any]]) -> None:
    """A form for Gemini has one type everywhere, texts alone in enumerations, and no object without properties."""
    form = dict(make_form(call[0].parameters, GEMINI).schema)
    lawful = {"type", "format", "description", "enum", "properties", "required", "items", "anyOf", "pattern"}
    bounds = {"minItems", "maxItems", "minLength", "maxLength", "minimum", "maximum"}
    inner = [node for node in nodes_in(form) if node is not form]

    assert keywords_in(form) <= lawful | bounds
    assert all(isinstance(node.get("type", ""), str) and node.get("type") != "null" for node in inner)
    assert all(node.get("properties") for node in inner if node.get("type") == "object")
    assert all(isinstance(value, str) for node in inner for value in node.get("enum", ()))


@checked
@given(rules=any_rules, call=calls())
def test_the_natural_form_is_taken_too(rules: Rules, call: tuple[Tool[..., Any], dict[str, Any]]) -> None:
    """Arguments in the tool's own form come through as they are, or are refused; they never become others."""
    made, document = call
    assume(not any(map(is_json, texts_in(document))))
    expected = values(made, document)
    before = json.dumps(document)
    read = values(made, make_form(made.parameters, rules).decode(document))

    assert read is None or expected == read
    assert before == json.dumps(document)


@checked
@given(rules=any_rules, call=calls(), document=anything)
def test_reading_never_raises(rules: Rules, call: tuple[Tool[..., Any], dict[str, Any]], document: Any) -> None:
    """Whatever a model writes is read, and can be written as JSON."""
    form = make_form(call[0].parameters, rules)
    keys = list(form.schema["properties"])

    assert isinstance(json.dumps(form.decode(document)), str)
    assert isinstance(json.dumps(form.decode(dict.fromkeys(keys, document))), str)


@checked
@given(rules=any_rules, call=calls())
def test_what_is_said_in_a_form_comes_back(rules: Rules, call: tuple[Tool[..., Any], dict[str, Any]]) -> None:
    """Valid arguments can be encoded in the form, and decode to the same values."""
    made, document = call
    expected = values(made, document)
    assume(expected is not None)
    form = make_form(made.parameters, rules)
    shown = encode(form, document, rules)

    assert [] == [error.message for error in Draft202012Validator(form.schema).iter_errors(shown)]
    assert expected == values(made, form.decode(shown))
