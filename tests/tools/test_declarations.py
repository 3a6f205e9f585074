"""Tools without a function: declared by a JSON Schema, by types, or by a function whose body is left out."""

# A body that is left out is what these tests are about.
# mypy: disable-error-code="empty-body"
# ruff: noqa: PIE790

from __future__ import annotations

import copy
import json
import linecache
import subprocess
import sys
import tracemalloc
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from enum import Enum
from typing import Any, Generic, TypeVar

import pytest
from pydantic import BaseModel, Field, RootModel, field_validator
from typing_extensions import NotRequired, TypedDict

from toolkit import DefinitionError, Tool, Toolbox, ToolContext, tool
from toolkit.calls import calls_schema, parse_calls

T = TypeVar("T")
SENTIMENT: dict[str, Any] = {
    "type": "object",
    "description": "Analyzes text sentiment",
    "properties": {
        "_tool": {"type": "string", "const": "sentimentAnalysis"},
        "text": {"type": "string", "description": "Text to analyze"},
        "_output": {
            "type": "object",
            "properties": {"sentiment": {"type": "string"}, "confidence": {"type": "number"}},
        },
    },
}
FILLED = '{"text": "Good!", "_output": {"sentiment": "positive", "confidence": 0.9}}'


def declared(properties: dict[str, Any], **keywords: Any) -> Tool[..., Any]:
    return Tool.from_schema("x", {"type": "object", "properties": properties, **keywords})


class Mood(Enum):
    GOOD = "good"
    BAD = "bad"


class Mail(BaseModel):
    """Send a mail."""

    to: str = Field(alias="toWhom", description="Address.")
    copies: int = 1

    @field_validator("copies")
    @classmethod
    def positive(cls, copies: int) -> int:
        if copies < 1:
            raise ValueError("at least one copy is needed")
        return copies


@dataclass(slots=True)
class Trip:
    start: date
    stops: list[str] = field(default_factory=list)


class Place(TypedDict):
    city: str
    zip: NotRequired[str]


class Box(BaseModel, Generic[T]):
    item: T


class Node(BaseModel):
    name: str
    inner: list[Node] = []


# A hand-made schema


def test_schema_of_a_tool() -> None:
    """A schema declares a tool: description, parameters and output."""
    made = Tool.from_schema("sentimentAnalysis", SENTIMENT)

    assert ("sentimentAnalysis", "Analyzes text sentiment") == (made.name, made.description)
    assert SENTIMENT["properties"]["_output"] == made.output_schema
    assert ["_output", "text"] == list(made.parameters["properties"])


def test_latent_tool() -> None:
    """Without a function the call's own output is the result."""
    made = Tool.from_schema("sentimentAnalysis", SENTIMENT)

    assert {"sentiment": "positive", "confidence": 0.9} == made.invoke(FILLED).value


@pytest.mark.parametrize(
    ("raw", "fault"),
    [
        ('{"text": "x"}', "_output: missing"),
        ('{"text": "x", "_output": {"confidence": "high"}}', "_output.confidence"),
        ('{"text": "x", "_output": "good"}', "_output"),
        ('{"_output": {}, "text": 5}', "text: Input should be a valid string"),
        ('{"_output": {}, "text": "x", "mood": 1}', "mood: no such parameter"),
    ],
    ids=["missing", "inside", "of another type", "argument", "unknown"],
)
def test_output_of_the_model_is_checked(raw: str, fault: str) -> None:
    """An output that does not match the schema is an error that names the place."""
    made = Tool.from_schema("sentimentAnalysis", SENTIMENT)

    result = made.invoke(raw)
    assert "invalid_arguments" == result.kind
    assert fault in str(result.text)


def test_function_beside_a_schema() -> None:
    """With a function the model is not asked for the output, and one that it writes is ignored."""
    made = Tool.from_schema("sentimentAnalysis", SENTIMENT, lambda text: {"sentiment": text.lower(), "confidence": 1})

    assert ["text"] == list(made.parameters["properties"])
    assert {"sentiment": "good!", "confidence": 1} == made.invoke(FILLED).value


META_FIELDS = {
    "tool, constant": ({"_tool": {"type": "string", "const": "x"}}, (None, {})),
    "tool, text": ({"_tool": "x"}, (None, {})),
    "tool, only of a type": ({"_tool": {"type": "string"}}, (None, {})),
    "activity, constant": ({"_activity": {"const": "geo.find"}}, ("geo.find", {})),
    "activity, text": ({"_activity": "geo.find"}, ("geo.find", {})),
    "activity, one of one": ({"_activity": {"enum": ["geo.find"]}}, ("geo.find", {})),
    "activity, empty": ({"_activity": ""}, ("", {})),
    "activity, only of a type": ({"_activity": {"type": "string"}}, (None, {})),
    "reasoning": (
        {"_reasoningForCall": {"description": "Why?"}},
        (None, {"_reasoningForCall": {"type": "string", "description": "Why?"}}),
    ),
    "reasoning, anything": ({"_reasoningForCall": True}, (None, {"_reasoningForCall": {"type": "string"}})),
    "instance": (
        {"_instance": {"type": "string", "description": "A city."}},
        (None, {"_instance": {"type": "string", "description": "A city."}}),
    ),
}


@pytest.mark.parametrize(("properties", "wanted"), META_FIELDS.values(), ids=META_FIELDS)
def test_meta_fields(properties: dict[str, Any], wanted: tuple[Any, Any]) -> None:
    """Meta fields of a schema are not parameters of the tool."""
    made = declared({**properties, "a": {"type": "string"}}, required=["a", *properties])

    assert wanted == (made.activity, dict(made._meta))
    names = ["a"] if made.activity else ["_output", "a"]
    assert names == [*made.parameters["properties"]] == made.parameters["required"]


@pytest.mark.parametrize(
    ("declared_schema", "value"),
    [
        ({"type": "integer"}, 3),
        ({"$ref": "#/$defs/Mood"}, "good"),
        ({"type": "array", "items": {"$ref": "#/$defs/Mood"}}, ["bad"]),
        (True, {"any": ["thing"]}),
        ({}, None),
    ],
    ids=["integer", "reference", "reference inside", "true", "empty"],
)
def test_output_of_any_schema(declared_schema: Any, value: Any) -> None:
    """The output may have any schema, and refer to the definitions of the whole."""
    made = declared({"_output": declared_schema}, **{"$defs": {"Mood": {"enum": ["good", "bad"]}}})

    assert value == made.invoke(json.dumps({"_output": value})).value


def test_output_without_a_schema() -> None:
    """The output of a tool without a declared one is a text."""
    made = declared({})

    assert {"_output": {"type": "string"}} == made.parameters["properties"]
    assert made.output_schema is None
    assert "done" == made.invoke('{"_output": "done"}').value


NO_SCHEMAS: dict[str, tuple[Any, str]] = {
    "none": (None, r'a tool is a JSON Schema \{"type": "object"'),
    "list": ([], "a tool is a JSON Schema"),
    "text": ("x", "a tool is a JSON Schema"),
    "array": ({"type": "array", "items": {}}, "a tool is a JSON Schema"),
    "no JSON": ({"properties": {"a": {"default": object()}}}, "it is not JSON"),
    "not a number": ({"properties": {"a": {"default": float("nan")}}}, "it is not JSON"),
    "half a character": ({"description": "\ud800"}, "it is not JSON"),
    "description": ({"description": 5}, "description=5 is not text"),
    "properties": ({"properties": ["a"]}, r"properties=\['a'\] is not an object of schemas by name"),
    "property": ({"properties": {"a": "string"}}, r"properties\.a is not a JSON Schema: 'string'\. Write one, such as"),
    "property without values": ({"properties": {"a": False}}, r"properties\.a is not a JSON Schema: False"),
    "type": ({"properties": {"a": {"type": "text"}}}, "'#/properties/a/type': type is not one of array, boolean"),
    "type in a union": (
        {"properties": {"a": {"anyOf": [{"type": 1}, {}]}}},
        "'#/properties/a/anyOf/0/type': type is not",
    ),
    "description inside": ({"properties": {"a": {"description": 5}}}, "'#/properties/a/description'.* not a string"),
    "pattern": ({"properties": {"a": {"pattern": "("}}}, "#/properties/a/pattern"),
    "reference": (
        {"properties": {"a": {"$ref": "#/$defs/no"}}},
        "'#/properties/a': there is nothing at '#/\\$defs/no'. Correct the \\$ref, or define it in \\$defs",
    ),
    "required": ({"properties": {"a": {}}, "required": "a"}, "required='a' is not a list of names"),
    "required, unknown": (
        {"properties": {"a": {}}, "required": ["b"]},
        "'b' is required and not among the properties. Add it, or drop it",
    ),
    "required, no names": ({"properties": {"a": {}}, "required": [[]]}, r"\[\] is required and not among"),
    "tool, another": ({"properties": {"_tool": {"const": "y"}}}, r"_tool is .*It is the name as a constant, .*'x'"),
    "tool, one of others": ({"properties": {"_tool": {"enum": ["y", "z"]}}}, "_tool is "),
    "activity, number": (
        {"properties": {"_activity": 5}},
        "_activity is 5. It names the function that executes the tool",
    ),
    "activity, several": ({"properties": {"_activity": {"enum": ["a", "b"]}}}, r"see Toolbox\.bindings\.choose\(\)"),
    "output": ({"properties": {"_output": 5}}, r"properties\._output is not a JSON Schema: 5"),
    "output, type": ({"properties": {"_output": {"type": "text"}}}, "'#/properties/_output/type'"),
    "output, reference": ({"properties": {"_output": {"$ref": "#/no"}}}, "'#/properties/_output': there is nothing"),
    "reasoning": ({"properties": {"_reasoningForCall": {"type": "integer"}}}, "_reasoningForCall is .* It is text"),
    "tool, of another type": ({"properties": {"_tool": {"type": "integer"}}}, "_tool is .* It is the name"),
    "tool, a default": ({"properties": {"_tool": {"default": "x"}}}, "_tool is .* It is the name"),
    "activity, a default": (
        {"properties": {"_activity": {"default": "b"}}},
        "_activity is .*Toolbox\\.bindings\\.choose",
    ),
    "no list": ({"allOf": 5}, "'#/allOf'"),
    "beside": ({"text": {"type": "string"}}, "'text' stands beside.*under properties: .*{\"text\": ...}"),
    "beside properties": ({"properties": {"a": {}}, "b": {"type": ["string", "null"]}}, "'b' stands beside"),
    "beside, a choice": ({"properties": {"a": {}}, "b": {"enum": [1, 2]}}, "'b' stands beside"),
    "beside, a reference": ({"b": {"$ref": "#/$defs/B"}, "$defs": {"B": {}}}, "'b' stands beside"),
    "beside, a type": ({"city": "string", "days": "int"}, "'city' stands beside.*under properties"),
    "beside, about a call": ({"_tool": "x", "properties": {}}, "'_tool' stands beside.*under properties"),
    "private": ({"properties": {"_city": {}}}, "parameter '_city' begins with '_'.* Call it 'city'"),
    "nothing but private": ({"properties": {"_": {}}}, "Call it 'value'"),
}


@pytest.mark.parametrize(("schema", "text"), NO_SCHEMAS.values(), ids=NO_SCHEMAS)
def test_invalid_schema(schema: Any, text: str) -> None:
    """An invalid schema is refused at once; the message names the tool, the place, and the remedy."""
    with pytest.raises(DefinitionError, match=rf"(?s)^Tool\.from_schema\('x'\): .*{text}"):
        Tool.from_schema("x", schema)


@pytest.mark.parametrize("name", ["", "a b", "größe", "x" * 65, 5, None], ids=repr)
@pytest.mark.parametrize("make", [Tool.from_schema, Tool.from_models])
def test_invalid_name(make: Callable[..., Any], name: Any) -> None:
    """A name that providers refuse is refused, with one that is valid."""
    with pytest.raises(DefinitionError, match=r"is not a valid tool name: .* Pass name='"):
        make(name, {"type": "object", "properties": {}})


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"activity": 5}, r"Tool\.from_schema\('x'\): activity=5"),
        ({"effect": "z"}, r"Tool\.from_schema\('x'\): effect='z'"),
        ({"function": "f"}, "A tool needs a callable, not 'f'"),
    ],
    ids=["activity", "effect", "function"],
)
def test_invalid_option(options: dict[str, Any], text: str) -> None:
    """Options are checked as those of the decorator."""
    with pytest.raises(DefinitionError, match=text):
        Tool.from_schema("x", {"properties": {}}, **options)


def test_options_win_over_the_schema() -> None:
    """Options have precedence over the schema."""
    made = Tool.from_schema("x", {"description": "a", "properties": {"_activity": "b"}}, activity="c", description="d")

    assert ("c", "d") == (made.activity, made.description)


def test_unicode() -> None:
    """Names of parameters and texts may be in any script."""
    made = declared({"größe": {"type": "string", "description": "日本"}}, description="Größe")

    assert "Größe" == made.description
    assert "o" == made.invoke('{"größe": "é", "_output": "o"}').value


def test_schema_is_copied() -> None:
    """Changing a schema afterwards changes no tool."""
    original = copy.deepcopy(SENTIMENT)
    made = Tool.from_schema("sentimentAnalysis", original)
    before = copy.deepcopy((made.parameters, made.output_schema))
    original["properties"]["text"]["type"] = "integer"
    original["properties"]["_output"]["properties"].clear()
    original["properties"]["more"] = {}

    assert before == (made.parameters, made.output_schema)
    assert not made.invoke(FILLED).is_error


def test_schema_is_not_changed() -> None:
    """A schema is not changed by declaring a tool."""
    original = copy.deepcopy(SENTIMENT)
    Tool.from_schema("sentimentAnalysis", original).invoke(FILLED)

    assert SENTIMENT == original


@pytest.mark.parametrize(
    ("keywords", "is_taken"),
    [({}, False), ({"additionalProperties": True}, True), ({"anyOf": [{"properties": {"b": {}}}]}, True)],
    ids=["by default", "as it says", "listed elsewhere"],
)
def test_other_parameters(keywords: dict[str, Any], is_taken: bool) -> None:
    """Parameters that a schema does not list are refused, unless it allows them."""
    made = Tool.from_schema("x", {"properties": {"a": {}}, **keywords}, lambda values: values)

    assert is_taken is not made.invoke('{"b": 1}').is_error


@pytest.mark.parametrize(
    "keywords",
    [
        {"default": {"type": "string"}, "examples": [{"type": "string"}]},
        {"$defs": {"type": {"type": "string"}}},
        {"dependentSchemas": {"a": {"type": "object"}}, "propertyNames": {"type": "string"}},
        {"x-form": {"type": "string"}},
        {"$comment": {"type": "string"}},
        {"xml": {"name": "a"}, "externalDocs": {"url": "https://example.com"}, "form": "string"},
    ],
    ids=lambda keywords: ", ".join(keywords),
)
def test_other_keywords(keywords: dict[str, Any]) -> None:
    """Other keywords of JSON Schema, and extensions, are not parameters."""
    made = Tool.from_schema("x", {"properties": {"a": {}}, **keywords}, lambda a: a)

    assert 1 == made.invoke('{"a": 1}').value


def test_schema_that_refers_to_itself() -> None:
    """A schema that only refers to a definition is that definition."""
    made = Tool.from_schema("x", Node.model_json_schema(), lambda name, inner: (name, inner))

    assert ["name", "inner"] == list(made.parameters["properties"])
    assert ("a", [{"name": "b", "inner": []}]) == made.invoke('{"name": "a", "inner": [{"name": "b"}]}').value


# Types


MODELS: dict[str, tuple[Any, str, Any]] = {
    "model": (Mail, '{"toWhom": "ann", "copies": "2"}', Mail(toWhom="ann", copies=2)),
    "dataclass": (Trip, '{"start": "2026-01-02"}', Trip(date(2026, 1, 2))),
    "typed dictionary": (Place, '{"city": "Oslo"}', {"city": "Oslo"}),
    "generic": (Box[Mood], '{"item": "good"}', Box[Mood](item=Mood.GOOD)),
    "recursive": (Node, '{"name": "a", "inner": [{"name": "b"}]}', Node(name="a", inner=[Node(name="b")])),
    "schema": ({"properties": {"a": {"type": "integer"}}}, '{"a": 1}', {"a": 1}),
    "schema without properties": ({"type": "object"}, "{}", {}),
}


@pytest.mark.parametrize(("accepts", "raw", "wanted"), MODELS.values(), ids=MODELS)
def test_values_as_one(accepts: Any, raw: str, wanted: Any) -> None:
    """A function with one parameter of another name gets the whole value."""
    made = Tool.from_models("x", accepts, function=lambda whole: [whole])

    assert [wanted] == made.invoke(raw).value


class Given(TypedDict):
    a: int


@pytest.mark.parametrize("accepts", [{"properties": {"a": {"type": "integer"}}}, Given])
def test_value_bound_by_a_default(accepts: Any) -> None:
    """A function that keeps a value of its loop as a default gets the whole value, and that default."""
    made = [Tool.from_models(n, accepts, function=lambda whole, n=n: [whole, n]) for n in ("x", "y")]
    made += [Tool.from_models("z", accepts, function=lambda whole, n="z", more=1: [whole, n])]  # no tool, no context

    assert [[{"a": 1}, "x"], [{"a": 1}, "y"], [{"a": 1}, "z"]] == [each.invoke({"a": 1}).value for each in made]
    assert [] == [found for found in Toolbox(made).check() if found.code == "mismatch"]


@pytest.mark.parametrize(
    ("accepts", "function", "raw", "wanted"),
    [
        (Mail, lambda to, copies: (to, copies), '{"toWhom": "ann"}', ("ann", 1)),
        (Trip, lambda start, stops: (start, stops), '{"start": "2026-01-02"}', (date(2026, 1, 2), [])),
        (Place, lambda city, zip="-": (city, zip), '{"city": "Oslo"}', ("Oslo", "-")),
        (Box[int], lambda item: item + 1, '{"item": 1}', 2),
    ],
    ids=["model with an alias", "dataclass", "typed dictionary", "one member"],
)
def test_values_by_name(accepts: Any, function: Any, raw: str, wanted: Any) -> None:
    """A function with the members' names gets each under its Python name, and `check` finds nothing."""
    made = Tool.from_models("x", accepts, Any, function)

    assert wanted == made.invoke(raw).value
    assert [] == [found for found in Toolbox([made]).check() if found.code == "mismatch"]


def test_argument_with_the_name_of_the_rest() -> None:
    """A function that takes any keywords gets one of its parameter's own name, too."""
    made = Tool.from_schema("keep", {"type": "object", "properties": {"data": {}, "other": {}}}, lambda **data: data)

    assert made.invoke({"data": 1, "other": 2}).value == {"data": 1, "other": 2}
    assert made.invoke({"data": {"x": 1}}).value == {"data": {"x": 1}}


def test_validator_of_a_model() -> None:
    """The model reads the message of a pydantic validator."""
    made = Tool.from_models("x", Mail, function=lambda mail: mail.to)

    refused = made.invoke('{"toWhom": "ann", "copies": 0}')
    assert ("invalid_arguments", True) == (refused.kind, "at least one copy is needed" in str(refused.text))


def test_description_of_a_model() -> None:
    """The docstring of the input is the description; `description=` has precedence."""
    assert "Send a mail." == Tool.from_models("x", Mail).description
    assert "Other." == Tool.from_models("x", Mail, description="Other.").description


GIVEN: dict[str, tuple[Any, str, Any]] = {
    "text": (str, '"x"', "x"),
    "list": (list[int], "[1]", [1]),
    "none": (None, "null", None),
    "date": (date, '"2026-01-02"', date(2026, 1, 2)),
    "enum": (Mood, '"good"', Mood.GOOD),
    "model": (Mail, '{"toWhom": "a"}', Mail(toWhom="a")),
    "optional model": (Mail | None, "null", None),
    "recursive": (Node, '{"name": "a", "inner": [{"name": "b"}]}', Node(name="a", inner=[Node(name="b")])),
    "schema": ({"type": "integer"}, "3", 3),
    "recursive schema": (
        {"type": "object", "properties": {"inner": {"$ref": "#"}}, "additionalProperties": False},
        '{"inner": {"inner": {}}}',
        {"inner": {"inner": {}}},
    ),
}


@pytest.mark.parametrize(("gives", "written", "wanted"), GIVEN.values(), ids=GIVEN)
def test_output_by_type(gives: Any, written: str, wanted: Any) -> None:
    """The model's output is validated into the declared type."""
    made = Tool.from_models("x", Place, gives)

    assert wanted == made.invoke(f'{{"city": "Oslo", "_output": {written}}}').value
    assert "invalid_arguments" == made.invoke('{"city": "Oslo", "_output": {"no": [0.5]}}').kind


class Private(BaseModel):
    city: str = Field(alias="_city")


NO_MODELS: dict[str, tuple[Any, Any, str]] = {
    "integer": (int, str, r"Tool\.from_models\('x'\): <class 'int'> has no members"),
    "list": (list[int], str, "has no members: the input of a tool is a model, dataclass or TypedDict"),
    "none": (None, str, "has no members"),
    "any dict": (dict, str, "<class 'dict'> has no members: the input of a tool is a model, dataclass or TypedDict"),
    "dict": (dict[str, int], str, "has no members"),
    "mapping": (Mapping[str, Any], str, "has no members"),
    "model of a dict": (RootModel[dict[str, int]], str, "has no members"),
    "union": (Mail | Trip, str, "has no members"),
    "value": (5, str, "5 is not a type that JSON can fill"),
    "name of nothing": ("Nowhere", str, "'Nowhere' is not a type that JSON can fill"),
    "private": (Private, str, "parameter '_city' begins with '_'"),
    "schema": ({"type": "array"}, str, r"Tool\.from_models\('x'\): accepts= is a JSON Schema"),
    "schema, beside": ({"a": {"type": "string"}}, str, r"Tool\.from_models\('x'\): 'a' stands beside"),
    "schema, inside": (
        {"properties": {"a": {"type": "text"}}}, str, r"Tool\.from_models\('x'\): .*#/properties/a/type",
    ),
    "output": (Place, {"type": "text"}, r"Tool\.from_models\('x'\): .*#/properties/_output/type"),
}  # fmt: skip


@pytest.mark.parametrize(("accepts", "gives", "text"), NO_MODELS.values(), ids=NO_MODELS)
def test_invalid_models(accepts: Any, gives: Any, text: str) -> None:
    """A type that cannot be the input or the output of a tool is refused, in one line."""
    with pytest.raises(DefinitionError, match=text) as refused:
        Tool.from_models("x", accepts, gives)

    assert 1 == len(str(refused.value).splitlines())


# Functions whose body is left out


def plain(city: str) -> str: ...


async def later(city: str) -> str: ...


def documented(city: str) -> str:
    """Find."""
    ...


def commented(city: str) -> str:
    # Somebody else does it.
    ...  # not here


def only_documented(city: str) -> Any:
    """Find."""


def passing(city: str) -> Any:
    pass


def nothing(city: str) -> None:
    return None


def missing(city: str) -> str:
    raise NotImplementedError


def finished(city: str) -> None: ...


def giving(city: str) -> Any:
    return ...


def working(city: str) -> str:
    city = city.upper()
    ...
    return city


def generating(city: str) -> Iterator[str]:
    ...
    yield city


def is_latent(function: Callable[..., Any]) -> bool:
    return "" == Toolbox([function]).bindings.activity_of(tool(function).name)


@pytest.mark.parametrize("function", [plain, later, documented, commented], ids=lambda made: made.__name__)
def test_declaration(function: Callable[..., Any]) -> None:
    """A function whose body is `...` declares a latent tool."""
    assert is_latent(function)
    assert "Oslo" == tool(function).invoke('{"city": "x", "_output": "Oslo"}').value


@pytest.mark.parametrize(
    "function",
    [only_documented, passing, nothing, missing, finished, giving, working, generating, lambda city: ...],
    ids=lambda made: made.__name__,
)
def test_no_declaration(function: Callable[..., Any]) -> None:
    """A function with any other body is called, however little it does."""
    assert not is_latent(function)
    assert "_output" not in tool(function, name="x").parameters["properties"]


def test_declaration_inside_a_function() -> None:
    """A function inside another declares a tool, too."""

    def inner(city: str) -> Mood:
        """Find."""
        ...

    assert Mood.BAD == tool(inner).invoke('{"city": "x", "_output": "bad"}').value


@pytest.mark.parametrize(
    ("written", "is_declared"),
    [
        ("def f(city: str) -> str: ...", True),
        ("async def f(city: str) -> str: ...", True),
        ("def f(city: str) -> str: pass", True),
        ("def f(city: str): ...", False),
        ("def f(city: str) -> None: ...", False),
        ("def f(city: str) -> str: return 'x'", False),
        ("def f(city: str) -> str:\n  'doc'\n  return 'doc'", False),
        ("def f(city: str) -> str:\n  'doc'\n  ...", True),
        ("def f(city: str) -> bool: return True", False),
        ("def f(city: str) -> int: return 5", False),
    ],
)
def test_declaration_without_source(written: str, is_declared: bool) -> None:
    """Without source, a function that does nothing and has a return annotation declares a tool."""
    space: dict[str, Any] = {}
    exec(written, space)

    assert is_declared is is_latent(space["f"])


def test_declaration_with_the_source_of_another_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same if its file name has another text, as in `python -c` on Python 3.13."""
    text = "import toolkit\n"
    monkeypatch.setitem(linecache.cache, "<string>", (len(text), None, [text], "<string>"))
    space: dict[str, Any] = {}
    exec("def f(city: str) -> str: ...", space)

    assert is_latent(space["f"])


@pytest.mark.skipif(sys.version_info < (3, 13), reason="before, Python keeps no source of `python -c` and of prompts")
@pytest.mark.parametrize(("body", "handler"), [("...", "LatentHandler"), ("pass", "FunctionHandler")])
def test_declaration_at_a_prompt(body: str, handler: str) -> None:
    """A function that is typed at a prompt or written in `python -c` has a source, by which it is told apart."""
    text = f"from toolkit import tool\n@tool\ndef f(city: str) -> str: {body}\nprint(type(f.handler).__name__)"

    assert f"{handler}\n" == subprocess.check_output([sys.executable, "-c", text], text=True)


def test_declaration_without_docstrings() -> None:
    """Python may remove the docstring above `...`: the function still declares a tool."""
    text = "from toolkit import tool\n@tool\ndef f(city: str) -> str:\n 'Find.'\n ...\nprint(type(f.handler).__name__)"

    assert "LatentHandler\n" == subprocess.check_output([sys.executable, "-OO", "-c", text], text=True)


class Atlas:
    """Tools of which some are left out."""

    def __init__(self, where: str = "here") -> None:
        self.where = where

    @tool
    def capital(self, country: str) -> str:
        """Find a capital.

        Args:
            country: Its name.
        """
        ...

    @tool
    async def river(self, country: str) -> str: ...

    @tool
    @classmethod
    def sea(cls, country: str) -> str: ...

    @tool
    @staticmethod
    def lake(country: str) -> str: ...

    @tool
    def hill(self, country: str) -> str:
        return f"{self.where}: {country}"


@pytest.mark.parametrize("name", ["capital", "river", "sea", "lake"])
def test_declared_method(name: str) -> None:
    """A method without a body is a tool of its object, without `self`."""
    box = Toolbox.from_object(Atlas())

    assert {"_output", "country"} == box[name].parameters["properties"].keys()
    assert "Oslo" == box.call(name, '{"country": "Norway", "_output": "Oslo"}').value
    assert "there: x" == Toolbox.from_object(Atlas("there")).call("hill", '{"country": "x"}').value


def test_declared_method_is_bound() -> None:
    """A function can be bound to a declared method; it gets no `self`."""
    box = Toolbox.from_object(Atlas())
    box.bind("capital", lambda country: f"{country} city")

    assert "Chad city" == box.call("capital", '{"country": "Chad"}').value


def test_declared_method_needs_its_instance() -> None:
    """A declared method on its class is not a tool of a toolbox."""
    with pytest.raises(DefinitionError, match="is a method and needs its instance"):
        Toolbox([Atlas.capital])


def test_declaration_cannot_be_called() -> None:
    """Calling a declared tool from Python raises an error that says that it has no function."""
    with pytest.raises(NotImplementedError, match=r"plain\(\) has no function: bind one in a Toolbox"):
        tool(plain)("Oslo")


def test_private_parameter_of_a_declaration() -> None:
    """A declared tool has no parameter that starts with an underscore; one with a body may."""

    def hidden(_city: str) -> str: ...

    def kept(_city: str) -> str:
        return _city

    with pytest.raises(DefinitionError, match=r"hidden\(\): the parameter '_city' begins with '_'.* Call it 'city'"):
        tool(hidden)
    assert "Oslo" == Toolbox([kept]).call("kept", '{"_city": "Oslo"}').value


def test_names_of_meta_fields_in_a_function() -> None:
    """A function with a body may call its parameters as it likes, in every dialect."""

    def odd(_tool: int, _output: int, _reasoningForCall: str = "") -> list[Any]:
        return [_tool, _output, _reasoningForCall]

    box = Toolbox([odd])
    raw = {"_tool": 1, "_output": 2, "_reasoningForCall": "r"}
    entry = calls_schema(box)["properties"]["calls"]["items"]["anyOf"][0]
    renamed = dict(zip([key for key in entry["properties"] if key not in ("_tool", "_activity")], raw.values()))

    assert [1, 2, "r"] == box.call("odd", raw).value
    assert "odd" == entry["properties"]["_tool"]["const"]
    assert [1, 2, "r"] == box.call_many([parse_calls(box, json.dumps({"calls": [{"_tool": "odd", **renamed}]}))[0]])[
        0
    ].value


def test_context_of_a_declaration() -> None:
    """A context is not a parameter of a declared tool."""

    def asking(city: str, context: ToolContext) -> str: ...

    assert {"_output", "city"} == tool(asking).parameters["properties"].keys()


def test_generator_without_a_body() -> None:
    """A declared generator returns a list."""

    def counting(end: int) -> Iterator[int]: ...

    async def counting_later(end: int) -> AsyncIterator[int]: ...

    values = [tool(made).invoke('{"end": 2, "_output": [0, 1]}').value for made in (counting, counting_later)]
    assert [[0, 1], [0, 1]] == values


def test_reasoning_is_asked_for() -> None:
    """`reasoning=True` asks the model for its reason, which the function does not get."""

    @tool(reasoning=True)
    def find(city: str) -> str:
        return city

    box = Toolbox([find])
    [call] = parse_calls(box, '{"calls": [{"_tool": "find", "_reasoningForCall": "They asked.", "city": "Oslo"}]}')

    assert ["_reasoningForCall", "city"] == list(box.schemas()[0]["function"]["parameters"]["properties"])
    assert ("They asked.", "Oslo") == (call.reasoning, box.call_many([call])[0].value)


@pytest.mark.parametrize("strict", [False, True], ids=["plain", "strict"])
def test_required_meta_fields(strict: bool) -> None:
    """Meta fields that a schema requires are required of the model, and the function does not get them."""
    imports = {"type": "array", "items": {"enum": ["city"]}}
    meta = {"_reasoningForCall": {"type": "string"}, "_imports": imports, "_instance": {"type": "string"}}
    made = declared({**meta, "q": {"type": "string"}}, required=["q", "_imports", "_reasoningForCall", "_tool"])
    box = Toolbox([made])
    box.bind("x", lambda q: q)
    [sent] = box.schemas(strict=strict)
    required = {"_imports", "_reasoningForCall", "q"} | ({"_instance"} if strict else set())

    assert required == {*sent["function"]["parameters"]["required"]}
    assert "a" == box.call("x", {"q": "a", "_reasoningForCall": "why", "_imports": []}).value


def test_body_that_is_left_to_the_model() -> None:
    """`latent=True` leaves a tool to the model, whatever its body is; with an activity it makes no sense."""
    made = tool(working, latent=True)

    assert ["from the model"] * 2 == [
        each.invoke('{"city": "Oslo", "_output": "from the model"}').value
        for each in (made, tool(tool(working), activity=""))
    ]
    with pytest.raises(DefinitionError, match="latent=True leaves the tool to the model, and activity='geo' does not"):
        tool(working, latent=True, activity="geo")


def test_memory_of_a_declaration() -> None:
    """Of a declared tool, as servers have thousands, nothing is kept until it is called but its schema."""
    properties = {f"p{number}": {"type": "string", "minLength": 1} for number in range(10)}
    tracemalloc.start()
    try:
        made = [declared(properties) for _ in range(100)]
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert size / len(made) < 10_000


@pytest.mark.parametrize("function", [None, lambda text: f"found {text}"], ids=["no function", "function"])
def test_activity_outside_a_toolbox(function: Callable[..., Any] | None) -> None:
    """A tool with an activity is not latent; the function beside it is executed under that name."""
    properties = {"_activity": {"const": "geo"}, "text": {"type": "string"}}
    made = Tool.from_schema("x", {"properties": properties}, function)
    raw = {"text": "a", "_output": "made up"}
    wanted = ("geo", "found a" if function else "activity not found: geo")

    assert wanted == (made._spec.activity, made.invoke(raw).text)
    assert wanted == (Toolbox([made]).bindings.activity_of("x"), Toolbox([made]).call("x", raw).text)
