"""Hand-made schemas that point to places of their own: each becomes a definition, which can be moved along."""

from __future__ import annotations

from typing import Any

import pytest

from toolkit import DefinitionError, Tool

WHOLE: dict[str, Any] = {
    "properties": {"_output": {"type": "string"}, "n": {"type": "integer"}, "inner": {"$ref": "#"}},
    "required": ["n"],
}
SIZE = {"type": "integer", "minimum": 0}

POINTERS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a definition": (
        {"properties": {"a": {"$ref": "#/$defs/size"}}, "$defs": {"size": SIZE, "unused": {}}},
        {"size": SIZE},
    ),
    "definitions of older drafts": (
        {"properties": {"a": {"$ref": "#/definitions/size"}}, "definitions": {"size": SIZE}},
        {"size": SIZE},
    ),
    "a property": ({"properties": {"a": SIZE, "b": {"$ref": "#/properties/a"}}}, {"a": SIZE}),
    "an anchor": (
        {"properties": {"a": {"$anchor": "s", **SIZE}, "b": {"$ref": "#s"}}},
        {"a": SIZE},
    ),
    "an identifier": (
        {
            "$id": "https://example.com/t",
            "properties": {"a": {"$ref": "size"}, "b": {"$ref": "https://example.com/t#/$defs/x"}},
            "$defs": {"x": {"$id": "size", **SIZE}},
        },
        {"x": SIZE},
    ),
    "an identifier of an older draft": (
        {
            "$id": "https://a.example/t#",
            "properties": {"a": {"$ref": "https://a.example/t#/$defs/x"}},
            "$defs": {"x": SIZE},
        },
        {"x": SIZE},
    ),
    "percent signs": (
        {
            "properties": {"a": {"$ref": "#/$defs/%2541"}, "b": {"$ref": "#s"}, "c": {"$ref": "#/$defs/100%25"}},
            "$defs": {"%41": SIZE, "A": {"type": "string"}, "a%20b": {"$anchor": "s", **SIZE}, "100%": SIZE},
        },
        {"_41": SIZE, "a_20b": SIZE, "100_": SIZE},
    ),
    "definitions of a part": (
        {"properties": {"a": {"$ref": "#/properties/b/$defs/size"}, "b": {"$defs": {"size": SIZE}}}},
        {"size": SIZE},
    ),
    "two of one name": (
        {"properties": {"a": {"$ref": "#/$defs/x"}, "b": {"$ref": "#/properties/x"}, "x": {}}, "$defs": {"x": SIZE}},
        {"x": SIZE, "x_2": {}},
    ),
    "a name that needs escapes": (
        {"properties": {"a": {"$ref": "#/$defs/a~1b%25"}}, "$defs": {"a/b%": SIZE}},
        {"a_b_": SIZE},
    ),
}


@pytest.mark.parametrize(("schema", "expected"), POINTERS.values(), ids=POINTERS)
def test_definitions(schema: dict[str, Any], expected: dict[str, Any]) -> None:
    """Whatever a reference points to becomes a definition; what nothing points to goes."""
    assert expected == Tool.from_schema("t", schema, lambda **values: values).parameters["$defs"]


def test_the_whole() -> None:
    """A reference to the root means the parameters, without the keys about calls."""
    made = Tool.from_schema("t", WHOLE, lambda **values: values)

    assert ["n", "inner"] == list(made.parameters["$defs"]["root"]["properties"])
    assert {"n": 1, "inner": {"n": 2}} == made.invoke({"n": 1, "inner": {"n": 2}}).value


def test_data_stays() -> None:
    """What looks like a reference in a default or a choice is data."""
    looks = {"$ref": "#/nowhere"}
    made = Tool.from_schema("t", {"properties": {"a": {"enum": [looks], "default": looks}}}, lambda a: a)

    assert ({"enum": [looks], "default": looks}, looks) == (made.parameters["properties"]["a"], made.invoke({}).value)


def test_parameters_called_like_keywords() -> None:
    """Parameters may be called as the keywords are that name places."""
    names = ["$ref", "$defs", "$id", "$anchor", "definitions"]
    made = Tool.from_schema("t", {"properties": dict.fromkeys(names, SIZE)}, lambda **values: values)

    assert names == list(made.parameters["properties"])


@pytest.mark.parametrize("pointer", ["#/$defs/none", "#none", "https://example.com/other", "#/properties/a/0"])
def test_pointers_to_nothing(pointer: str) -> None:
    """A reference to nothing is refused where the tool is declared, with its place."""
    with pytest.raises(DefinitionError, match=r"^Tool\.from_schema\('t'\): JSON Schema at '#/properties/a'"):
        Tool.from_schema("t", {"properties": {"a": {"$ref": pointer}}})


def test_a_long_chain() -> None:
    """Definitions may point to one another in a chain that is longer than Python's stack."""
    chain = {f"s{n}": {"properties": {"next": {"$ref": f"#/$defs/s{n + 1}"}}} for n in range(1000)} | {"s1000": SIZE}
    made = Tool.from_schema("t", {"properties": {"a": {"$ref": "#/$defs/s0"}}, "$defs": chain})

    assert sorted(chain) == sorted(made.parameters["$defs"])


def test_models_of_schemas() -> None:
    """Input and output that are JSON Schemas have their own pointers."""
    shown = {"properties": {"n": {"type": "integer"}, "next": {"$ref": "#"}}, "type": "object"}
    made = Tool.from_models("t", shown, {**shown, "required": ["n"]})

    assert {"n": 1} == made.invoke({"next": {"n": 2}, "_output": {"n": 1}}).value
    assert made.invoke({"_output": {"n": 1, "next": {}}}).is_error
