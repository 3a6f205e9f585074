"""The schemas that are shown compile to grammars: with these engines servers hold a model to a schema."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple
from uuid import UUID

import openai
import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from tests.servers import FakeServer
from toolkit import Runner, Tool, Toolbox, tool
from toolkit.calls import calls_schema
from toolkit.testing import reply

SHOWN = ["chat", "chat strict", "responses", "minimal", "calls", "calls strict"]


class Node(BaseModel):
    value: int
    children: list[Node] = []


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"]
    friend: Cat | Dog | None = None


class Options(TypedDict, total=False):
    verbose: bool
    tags: list[str]


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Level(Enum):
    LOW = 1
    HIGH = 2


class Point(NamedTuple):
    x: float
    y: float = 0.0


class Open(BaseModel, extra="allow"):
    name: str


TYPES: dict[str, Any] = {
    "text": str,
    "whole number": int,
    "number": float,
    "yes or no": bool,
    "nothing": type(None),
    "anything": Any,
    "a dict of anything": dict[str, Any],
    "any object": dict,
    "path": Path,
    "regular expression": re.Pattern,
    "any list": list,
    "list": list[int],
    "list of lists": list[list[str]],
    "set": set[str],
    "tuple": tuple[int, str],
    "tuple of any length": tuple[int, ...],
    "empty tuple": tuple[()],
    "dict": dict[str, int],
    "dict of numbers": dict[int, str],
    "dict of lists": dict[str, list[int]],
    "dict of dates": dict[date, int],
    "dict of choices": dict[Literal["a", "b"], int],
    "optional": int | None,
    "union": int | str | list[int],
    "union of models": Cat | Dog,
    "discriminated union": Annotated[Cat | Dog, Field(discriminator="kind")],
    "choice": Literal["a", "b"],
    "choice of numbers": Literal[1, 2],
    "choice of several kinds": Literal["a", 1, None, True],
    "a constant": Literal["only"],
    "enum": Colour,
    "enum of numbers": Level,
    "model": Cat,
    "open model": Open,
    "recursive model": Node,
    "list of recursive models": list[Node],
    "typed dict": Options,
    "named tuple": Point,
    "bounds": Annotated[int, Field(ge=1, le=50)],
    "open bounds": Annotated[float, Field(gt=0, lt=1)],
    "multiples": Annotated[int, Field(multiple_of=5)],
    "length": Annotated[str, Field(min_length=1, max_length=20)],
    "pattern": Annotated[str, Field(pattern=r"^[a-z]+-\d{2,4}$")],
    "number of items": Annotated[list[int], Field(min_length=1, max_length=3)],
    "date": date,
    "date and time": datetime,
    "time": time,
    "duration": timedelta,
    "id": UUID,
    "decimal": Decimal,
    "address": IPv4Address,
    "new address": IPv6Address,
    "bytes": bytes,
}


def taking(annotation: Any) -> Callable[..., Any]:
    """A function that takes a value of a type, and another one that may be left out."""

    def take(value: Any, again: Any = None) -> None:
        """Take a value."""

    take.__annotations__ = {"value": annotation, "again": annotation | None}
    return take


def unicode_names(größe: int, 名前: str = "x") -> None:
    """Take names of other scripts."""


def many(a: int, b: str, c: float = 1.5, *rest: int, d: bool = False, **more: str) -> None:
    """Take many things."""


def untyped(a, b=None, c: Any = 1, *rest) -> None:  # type: ignore[no-untyped-def]
    """Take anything.

    Args:
        a: First.
        rest: Others.
    """


def nothing() -> None:
    """Take nothing."""


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: taking(annotation) for name, annotation in TYPES.items()},
    "names of other scripts": unicode_names,
    "many parameters": many,
    "no parameters": nothing,
    "untyped": untyped,
}


def schema_of(function: Callable[..., Any], shown: str) -> str:
    dialect: Any
    dialect, _, strict = shown.partition(" ")
    (made,) = Toolbox([tool(function, name="take")]).schemas(dialect, strict=bool(strict))
    return json.dumps(made.get("function", made).get("parameters", made), ensure_ascii=False)


def llguidance(schema: str) -> None:
    """What llama.cpp, vLLM and SGLang use."""
    matcher = pytest.importorskip("llguidance").LLMatcher
    fault = matcher.validate_grammar(matcher.grammar_from_json_schema(schema))
    if fault:
        raise ValueError(fault)


def outlines(schema: str) -> None:
    """What TGI uses, and vLLM can use."""
    pytest.importorskip("outlines_core.json_schema").build_regex_from_schema(schema)


def xgrammar(schema: str) -> None:
    """What vLLM, SGLang and TensorRT-LLM use."""
    pytest.importorskip("xgrammar", exc_type=ImportError).Grammar.from_json_schema(schema)


# Formats that OpenAI's strict mode knows, and an engine does not.
UNKNOWN: dict[tuple[Any, str], list[str]] = {
    (outlines, "chat strict"): ["duration", "address", "new address"],
    (outlines, "calls strict"): ["duration", "address", "new address"],
}


def compiles(engine: Callable[[str], None], schema: str) -> bool:
    try:
        engine(schema)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("engine", [llguidance, outlines, xgrammar], ids=lambda engine: engine.__name__)
@pytest.mark.parametrize("shown", SHOWN)
def test_schemas_compile(engine: Callable[[str], None], shown: str) -> None:
    """What is shown of a function of any kind is a grammar for the engines that servers use."""
    refused = [name for name, function in FUNCTIONS.items() if not compiles(engine, schema_of(function, shown))]

    assert UNKNOWN.get((engine, shown), []) == refused


@pytest.mark.parametrize("name", ["chat", "calls"])
def test_openai_takes_what_is_strict(name: Any) -> None:
    """What is shown as strict of a function of any kind keeps to the rules of OpenAI's strict mode."""
    tools = [tool(function, name=f"take_{number}") for number, function in enumerate(FUNCTIONS.values())]
    with FakeServer([reply.text("Hi")]) as server:
        Runner(tools, model="fake", base_url=server.base_url, dialect=name, strict=True).run("Hi")

    assert [] == server.problems
    assert "strict" in json.dumps(server.requests[0].body)


# -- compositions: one schema of all calls

TREE = {
    "description": "Grow a tree.",
    "properties": {
        "_tool": {"const": "tree"},
        "root": {
            "type": "object",
            "properties": {
                "value": {"type": "integer"},
                "inner": {"type": "array", "items": {"$ref": "#/properties/root"}},
            },
            "required": ["value"],
        },
        "_output": {
            "type": "object",
            "properties": {
                "sum": {"$ref": "#/properties/root/properties/value"},
                "tree": {"$ref": "#/properties/root"},
            },
            "required": ["sum", "tree"],
        },
    },
    "required": ["root"],
}
NESTED = {
    "description": "Call yourself.",
    "properties": {"name": {"type": "string"}, "inner": {"$ref": "#"}, "_output": {"type": "string"}},
    "required": ["name"],
}
ANCHORED = {
    "$id": "https://example.com/anchored",
    "description": "Follow anchors.",
    "properties": {
        "first": {"$anchor": "size", "type": "integer", "minimum": 0},
        "second": {"$ref": "#size"},
        "third": {"$ref": "https://example.com/anchored#list"},
        "_output": {"$ref": "#list"},
    },
    "required": ["first", "second"],
    "definitions": {
        "list": {
            "$anchor": "list",
            "type": "object",
            "properties": {"x": {"type": "integer"}, "next": {"$ref": "#list"}},
            "required": ["x"],
            "additionalProperties": False,
        }
    },
}
MARKED = {
    "description": "Count with reasons.",
    "properties": {
        "_reasoningForCall": {"type": "string"},
        "text": {"type": "string"},
        "_output": {"type": "object", "properties": {"n": {"type": "integer"}}},
    },
    "patternProperties": {"^x-": {"type": "string"}},
}
HAND_MADE = {"tree": TREE, "nested": NESTED, "anchored": ANCHORED, "marked": MARKED}
OUTPUTS = {f"gives {name}": Tool.from_models("take", Cat, annotation) for name, annotation in TYPES.items()}


def boxes() -> dict[str, Toolbox]:
    """A toolbox for each hand-made schema and each kind of output, and one that has all that there is."""
    made = {name: Tool.from_schema(name, schema) for name, schema in HAND_MADE.items()}
    functions = [tool(function, name=f"take_{number}") for number, function in enumerate(FUNCTIONS.values())]
    every = Toolbox([*made.values(), *functions], references=True)
    every.bind("tree", lambda root: root)
    return {**{name: Toolbox([one]) for name, one in {**made, **OUTPUTS}.items()}, "every": every}


def llama_cpp(schemas: Mapping[str, str]) -> list[str]:
    """List what llama.cpp refuses: it makes a grammar, in a process of its own, which LLGuidance compiles."""
    pytest.importorskip("xllamacpp")
    script = (
        "import json, sys, xllamacpp\n"
        "made = {name: xllamacpp.json_schema_to_grammar(schema) for name, schema in json.load(sys.stdin).items()}\n"
        "print(json.dumps(made))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script],
        input=json.dumps(schemas),
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    matcher = pytest.importorskip("llguidance").LLMatcher
    texts = {name: grammar.removeprefix("%llguidance {}") for name, grammar in json.loads(ran.stdout).items()}
    return [name for name, text in texts.items() if matcher.validate_grammar(matcher.grammar_from_lark(text))]


def references_in(schema: Any) -> Iterator[str]:
    """The references in a schema."""
    if isinstance(schema, dict) and isinstance(schema.get("$ref"), str):
        yield schema["$ref"]
    for inner in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from references_in(inner)


@pytest.mark.parametrize("strict", [False, True], ids=["plain", "strict"])
@pytest.mark.parametrize("engine", [llguidance, xgrammar], ids=lambda engine: engine.__name__)
def test_compositions_compile(engine: Callable[[str], None], *, strict: bool) -> None:
    """What is composed of tools of any kind is a grammar for the engines that servers use."""
    made = {name: json.dumps(calls_schema(box, strict=strict)) for name, box in boxes().items()}

    assert [] == [name for name, schema in made.items() if not compiles(engine, schema)]


@pytest.mark.parametrize("strict", [False, True], ids=["plain", "strict"])
def test_compositions_compile_in_llama_cpp(*, strict: bool) -> None:
    """The same for llama.cpp."""
    assert [] == llama_cpp({name: json.dumps(calls_schema(box, strict=strict)) for name, box in boxes().items()})


@pytest.mark.parametrize("strict", [False, True], ids=["plain", "strict"])
def test_pointers_lead_somewhere(*, strict: bool) -> None:
    """Whatever a composition refers to is in it, as one of its definitions."""
    made = [calls_schema(box, strict=strict) for box in boxes().values()]
    known = [{f"#/$defs/{name}" for name in schema.get("$defs", ())} for schema in made]

    assert any(known)
    assert [] == [each for schema, own in zip(made, known) for each in references_in(schema) if each not in own]


def test_openai_takes_a_strict_composition() -> None:
    """A strict composition keeps to the rules of OpenAI's strict mode."""
    made = boxes()
    with (
        FakeServer([reply.text("Hi")] * len(made)) as server,
        openai.OpenAI(base_url=server.base_url, api_key="test") as client,
    ):
        for box in made.values():
            reply_form = {"name": "reply", "schema": calls_schema(box, strict=True), "strict": True}
            form: Any = {"type": "json_schema", "json_schema": reply_form}
            client.chat.completions.create(
                model="fake", messages=[{"role": "user", "content": "Hi"}], response_format=form
            )

    assert [] == server.problems
