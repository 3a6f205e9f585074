"""A hand-made JSON Schema -> an interface, and what it says about the calls themselves.

    {
        "type": "object",
        "description": "Analyzes text sentiment",
        "properties": {
            "_tool": {"type": "string", "const": "sentimentAnalysis"},
            "text": {"type": "string"},
            "_output": {"type": "object", "properties": {"sentiment": {"type": "string"}}}
        }
    }

Properties that begin with an underscore are about the call; the others are its arguments.

Two types, what a tool needs and what it gives -> an interface; each of them may be a JSON Schema as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from toolkit._messages import ACTIVITY, IMPORTS, INSTANCE, META, MODULE, OUTPUT, REASONING, TOOL
from toolkit._schema.argument_schema import DocumentSchema, TypeSchema
from toolkit._schema.json_schema import inline_root
from toolkit._schema.return_schema import ReturnDocument, ReturnType
from toolkit._schema.validation.properties import find_outer_properties, forbid_extra
from toolkit._schema.validation.references import SchemaDocument as Parts
from toolkit._schema.validation.references import bundle
from toolkit._tools.handlers import Declaration, checked, named, refuse_private
from toolkit._tools.options import Scope, scope_of
from toolkit.errors import DefinitionError

# What may stand there as it is, in the place of a schema that has it as a constant.
_BARE = frozenset({TOOL, ACTIVITY, MODULE, IMPORTS})
# Other words for the same.
_LATER = {"_delegate": MODULE, "_scopes": IMPORTS}


@dataclass(frozen=True)
class Declared:
    """What a schema declares.

    Attributes:
        interface: The tool, apart from what carries it out.
        activity: The name of what carries it out; None where the schema leaves that open.
        about: What a model is to say about a call beside its arguments, by key: schemas.
        asked: The keys of what it must say about every call.
        scope: What calls may see; None where nothing is said.
    """

    interface: Declaration
    activity: str | None
    about: Mapping[str, Any]
    asked: tuple[str, ...]
    scope: Scope | None


def declared(name: str, schema: Any) -> Declared:
    """Read a hand-made schema.

    Raises:
        DefinitionError: It is no schema of an object, or what it says about calls does not hold together; the message
            says where.
    """
    origin = f"Tool.from_schema({name!r})"
    with named(origin):
        document = Parts.load(schema)
        whole = inline_root(document.root) if isinstance(document.root, dict) else {}
        properties, said = _properties(document.root, whole)
        _check_name(name, said)
        about = {key: _text(key, said[key]) for key in (INSTANCE, REASONING) if key in said}
        activity, scope = _activity(said.get(ACTIVITY)), scope_of(said.get(MODULE), said.get(IMPORTS))
        interface = _interface(origin, document, {**whole, "properties": properties}, said)
    refuse_private(origin, properties)
    made = checked(interface)
    refuse_private(origin, find_outer_properties(document, whole))
    return Declared(made, activity, about, _asked(whole.get("required")), scope)


def _properties(given: Any, whole: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Part the parameters, and what is said about calls."""
    if not isinstance(given, dict) or whole.get("type", "object") != "object":
        raise DefinitionError('a tool is a JSON Schema {"type": "object", "properties": ...}.')
    properties = whole.get("properties", {})
    if not isinstance(properties, dict):
        raise DefinitionError(f"properties={properties!r} is no object of schemas by name.")
    shown = {_LATER.get(str(key), str(key)): _schema(key, value) for key, value in properties.items()}
    return {key: shown[key] for key in shown if key not in META}, {key: shown[key] for key in META if key in shown}


def _schema(key: str, value: Any) -> Any:
    if value is True and key not in _BARE:
        return {}
    if isinstance(value, dict) or key in (*_BARE, *_LATER):
        return value
    raise DefinitionError(f'properties.{key} is no JSON Schema: {value!r}. Write one, such as {{"type": "string"}}.')


def _asked(required: Any) -> tuple[str, ...]:
    names = [_LATER.get(key, key) for key in required if isinstance(key, str)] if isinstance(required, list) else []
    return tuple(key for key in META if key in names)


def _interface(origin: str, document: Parts, whole: dict[str, Any], said: Mapping[str, Any]) -> Declaration:
    """Make what the tool needs, and what it gives, schemas of their own."""
    description, required = whole.pop("description", ""), whole.get("required")
    if not isinstance(description, str):
        raise DefinitionError(f"description={description!r} is no text.")
    if isinstance(required, list):
        whole["required"] = [key for key in required if key not in (*META, *_LATER)]
    bare = forbid_extra({key: value for key, value in whole.items() if key != "title"})
    output = bundle(document, f"/properties/{OUTPUT}", said[OUTPUT], whole=bare) if OUTPUT in said else None
    return Declaration(
        origin, description, DocumentSchema(bundle(document, part=bare, whole=bare)), ReturnDocument(output)
    )


def _constant(said: Any) -> Any:
    """Read a constant, or what stands in the place of one; None where nothing is said of it; else what was said."""
    shown = said if isinstance(said, dict) else {"const": said}
    if shown.get("type", "string") != "string" or ("default" in shown and shown.keys().isdisjoint(("const", "enum"))):
        return shown
    values = shown.get("enum")
    return shown.get("const", values[0] if isinstance(values, list) and len(values) == 1 else values)


def _check_name(name: str, said: Mapping[str, Any]) -> None:
    if TOOL in said and _constant(said[TOOL]) not in (name, None):
        raise DefinitionError(
            f'{TOOL} is {said[TOOL]!r}. It is the name as a constant, {{"const": {name!r}}}, or left out.'
        )


def _activity(said: Any) -> str | None:
    """Read what carries the tool out."""
    activity = _constant(said)
    if activity is None or isinstance(activity, str):
        return activity
    raise DefinitionError(
        f'{ACTIVITY} is {said!r}. It names what carries the tool out, {{"const": "name"}}; empty, it leaves that to '
        f"the model. To choose one of several, see Toolbox.bindings.choose()."
    )


def _text(key: str, shown: Mapping[str, Any]) -> Mapping[str, Any]:
    """Check that a model can say it in words."""
    if shown.get("type", "string") != "string":
        raise DefinitionError(f'{key} is {shown!r}. It is a text, {{"type": "string"}}.')
    return {"type": "string", **shown}


def of_types(name: str, accepts: Any, gives: Any) -> Declaration:
    """Declare an interface by types, each of which may be a JSON Schema as well.

    Raises:
        DefinitionError: The input is of no object, or has a member that begins with an underscore.
    """
    origin = f"Tool.from_models({name!r})"
    with named(origin):
        built = DocumentSchema(_document(accepts)) if isinstance(accepts, Mapping) else TypeSchema(accepts)
        returns = ReturnDocument(bundle(Parts.load(gives))) if isinstance(gives, Mapping) else ReturnType(gives)
        made = Declaration(origin, built.schema.get("description", ""), built, returns)
    refuse_private(origin, built.schema["properties"])
    return checked(made)


def _document(given: Mapping[str, Any]) -> dict[str, Any]:
    document = Parts.load(given)
    whole = inline_root(document.root)
    if whole.get("type", "object") != "object" or not isinstance(whole.get("properties", {}), Mapping):
        raise DefinitionError('the input of a tool is a JSON Schema {"type": "object", "properties": ...}.')
    built: dict[str, Any] = bundle(document, part=forbid_extra(whole))
    return built
