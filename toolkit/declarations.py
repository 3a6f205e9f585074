"""A hand-made JSON Schema -> an interface, and what it says about the calls themselves.

{"type": "object", "description": "Analyzes text sentiment",
"properties": {"_tool": {"type": "string", "const": "sentimentAnalysis"},
"text": {"type": "string"},
"_output": {"type": "object", "properties": {"sentiment": {"type": "string"}}}}}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from toolkit.about import ACTIVITY, META, OUTPUT, REASONING, TOOL
from toolkit.errors import DefinitionError
from toolkit.interfaces import Declaration, Document, refuse_private
from toolkit.parameters.accepted import ByDocument


@dataclass(frozen=True)
class Declared:
    """What a schema declares.

    Attributes:
        interface: The tool, apart from what carries it out.
        activity: The name of what carries it out; None where the schema leaves that open.
        about: What a model is to say about a call beside its arguments, by key: schemas.
    """

    interface: Declaration
    activity: str | None
    about: Mapping[str, Any]


def declared(name: str, schema: Any) -> Declared:
    """Read a hand-made schema.

    Raises:
        DefinitionError: It is no schema of an object, or what it says about calls does not hold together; the message
            says where.
    """
    origin = f"Tool.from_schema({name!r})"
    properties = _properties(origin, schema)
    said = {key: properties.pop(key) for key in META if key in properties}
    refuse_private(origin, properties)
    _check_name(origin, name, said.get(TOOL))
    activity = _activity(origin, said[ACTIVITY]) if ACTIVITY in said else None
    whole = {key: value for key, value in schema.items() if key not in ("description", "title")}
    required = [key for key in schema.get("required", ()) if key not in META]
    _check_required(origin, required, properties)
    built = {"additionalProperties": False, **whole, "type": "object", "properties": properties, "required": required}
    definitions = {"$defs": schema["$defs"]} if "$defs" in schema else {}
    output = Document({**said[OUTPUT], **definitions} if OUTPUT in said else None)
    interface = Declaration(origin, str(schema.get("description", "")), ByDocument(built), output)
    return Declared(interface, activity, {REASONING: said[REASONING]} if REASONING in said else {})


def _properties(origin: str, schema: Any) -> dict[str, Any]:
    if not isinstance(schema, Mapping) or schema.get("type", "object") != "object":
        raise DefinitionError(f'{origin}: a tool is a JSON Schema {{"type": "object", "properties": ...}}.')
    properties = schema.get("properties", {})
    if not isinstance(properties, Mapping):
        raise DefinitionError(f"{origin}: properties={properties!r} is no object of schemas by name.")
    wrong = [key for key, value in properties.items() if key != ACTIVITY and not isinstance(value, (Mapping, bool))]
    if wrong:
        raise DefinitionError(f"{origin}: properties.{wrong[0]} is no JSON Schema: {properties[wrong[0]]!r}.")
    return dict(properties)


def _check_name(origin: str, name: str, constant: Any) -> None:
    if constant is not None and (not isinstance(constant, Mapping) or constant.get("const", name) != name):
        raise DefinitionError(
            f'{origin}: {TOOL} is {constant!r}. It is the name as a constant, {{"const": {name!r}}}, or left out.'
        )


def _activity(origin: str, said: Any) -> str:
    """Read what carries the tool out: a constant, or the bare text."""
    activity = said.get("const", "") if isinstance(said, Mapping) else said
    if not isinstance(activity, str):
        raise DefinitionError(
            f'{origin}: {ACTIVITY} is {said!r}. It names what carries the tool out, {{"const": "name"}}; empty, it '
            f"leaves that to the model."
        )
    return activity


def _check_required(origin: str, required: list[Any], properties: Mapping[str, Any]) -> None:
    missing = next((key for key in required if key not in properties), None)
    if missing is not None:
        raise DefinitionError(f"{origin}: {missing!r} is required and not among the properties. Add it, or drop it.")
