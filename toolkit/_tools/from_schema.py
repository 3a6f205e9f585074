"""Declarations of tools: by a JSON Schema written by hand, or by two types.

    {
        "type": "object",
        "description": "Analyzes text sentiment",
        "properties": {
            "_tool": {"type": "string", "const": "sentimentAnalysis"},
            "text": {"type": "string"},
            "_output": {"type": "object", "properties": {"sentiment": {"type": "string"}}}
        }
    }

Properties that begin with an underscore are about the call; the others are its arguments. Of two types, one has the
parameters and one is the output; either may be a JSON Schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolkit._messages import ACTIVITY, IMPORTS, INSTANCE, META, MODULE, OUTPUT, OUTPUT_PATH, REASONING, TOOL
from toolkit._schema.declared_schema import DocumentSchema, ReturnDocument, TypeSchema
from toolkit._schema.function_schema import ReturnType
from toolkit._schema.json_schema import TYPES, inline_root
from toolkit._schema.validation.pointers import SchemaDocument, bundle
from toolkit._schema.validation.syntax import APPLICATORS
from toolkit._tools.handlers import Declaration, check_declaration, name_origin, refuse_private
from toolkit._tools.shared_values import META_SCHEMAS, parse_scope
from toolkit.errors import DefinitionError

# Keys whose value may be a plain value, in place of a schema with a constant.
_PLAIN_KEYS = frozenset({TOOL, ACTIVITY, MODULE, IMPORTS})
# Synonyms, from a later version of the format.
_SYNONYMS = {"_delegate": MODULE, "_scopes": IMPORTS}


def parse_schema(name: str, schema: Any) -> tuple[Declaration, dict[str, Any]]:
    """Parse a hand-written schema. Return the declaration, and the fields of the tool that `_activity` and others set.

    Raises:
        DefinitionError: `schema` is not the schema of an object, or a key such as `_activity` is wrong.
    """
    origin = f"Tool.from_schema({name!r})"
    with name_origin(origin):
        document = SchemaDocument.load(schema)
        whole = inline_root(document.root) if isinstance(document.root, dict) else {}
        properties, fields = _split_properties(document.root, whole)
        _check_name(name, fields)
        meta = {key: _check_text(key, fields[key]) for key in (INSTANCE, OUTPUT_PATH, REASONING) if key in fields}
        activity = _parse_activity(fields.get(ACTIVITY))
        scope = parse_scope(fields.get(MODULE), fields.get(IMPORTS))
        interface = _make_interface(origin, document, {**whole, "properties": properties}, fields)

    refuse_private(origin, properties)
    named = whole["required"] if isinstance(whole.get("required"), list) else []
    names = [_SYNONYMS.get(key, key) for key in named if isinstance(key, str)]
    required = tuple(key for key in META if key in names)
    fields = {"activity": activity, "_scope": scope, "_meta": meta or None, "_required_meta": required}
    return check_declaration(interface), fields


def _split_properties(given: Any, whole: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split the properties into parameters and keys about calls."""
    if not isinstance(given, dict) or whole.get("type", "object") != "object":
        raise DefinitionError(f'a tool is a JSON Schema {{"type": "object", "properties": ...}}, not {given!r:.100}.')
    properties = whole.get("properties", {})
    if not isinstance(properties, dict):
        raise DefinitionError(f"properties={properties!r:.100} is not an object of schemas by name.")
    schemas = {_SYNONYMS.get(str(key), str(key)): _check_schema(key, value) for key, value in properties.items()}
    fields = {key: schemas[key] for key in META if key in schemas}
    return {key: schema for key, schema in schemas.items() if key not in META}, fields


def _check_schema(key: str, value: Any) -> Any:
    if value is True and key not in _PLAIN_KEYS:
        return {}
    if isinstance(value, dict) or key in (*_PLAIN_KEYS, *_SYNONYMS):
        return value
    raise DefinitionError(
        f'properties.{key} is not a JSON Schema: {value!r:.100}. Write one, such as {{"type": "string"}}.'
    )


def _make_interface(
    origin: str, document: SchemaDocument, whole: dict[str, Any], fields: Mapping[str, Any]
) -> Declaration:
    """Make two documents of the schema: the parameters, and the output."""
    description = whole.pop("description", "")
    required = whole.get("required")
    if not isinstance(description, str):
        raise DefinitionError(f"description={description!r:.100} is not text.")
    if isinstance(required, list):
        whole["required"] = [key for key in required if key not in (*META, *_SYNONYMS)]
    bare = _forbid_extra({key: value for key, value in whole.items() if key != "title"})
    output = bundle(document, f"/properties/{OUTPUT}", fields[OUTPUT], whole=bare) if OUTPUT in fields else None
    return Declaration(
        origin, description, DocumentSchema(bundle(document, part=bare, whole=bare)), ReturnDocument(output)
    )


def _get_constant(value: Any) -> Any:
    """Return the constant that a schema requires, or None if it requires none. A value that is no schema is a constant.

    Without a constant text, the schema itself is returned if it is of another type than text or has only a default,
    and the list of its `enum` if it has several values. The caller refuses these.
    """
    if not isinstance(value, dict):
        return value
    is_text = value.get("type", "string") == "string"
    values = value.get("enum")
    if not is_text or ("default" in value and "const" not in value and "enum" not in value):
        return value
    if isinstance(values, list) and len(values) == 1:
        return value.get("const", values[0])
    return value.get("const", values)


def _check_name(name: str, fields: Mapping[str, Any]) -> None:
    if TOOL in fields and _get_constant(fields[TOOL]) not in (name, None):
        raise DefinitionError(
            f'{TOOL} is {fields[TOOL]!r}. It is the name as a constant, {{"const": {name!r}}}, or left out.'
        )


def _parse_activity(value: Any) -> str | None:
    """Parse the name of the function that executes the tool."""
    activity = _get_constant(value)
    if activity is None or isinstance(activity, str):
        return activity
    raise DefinitionError(
        f'{ACTIVITY} is {value!r:.100}. It names the function that executes the tool, {{"const": "name"}}; empty, it '
        f"leaves that to the model. To choose one of several, see Toolbox.bindings.choose()."
    )


def _check_text(key: str, schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Check that a schema describes a text."""
    if schema.get("type", "string") != "string":
        raise DefinitionError(f'{key} is {schema!r:.100}. It is text: {{"type": "string"}}.')
    return {**META_SCHEMAS.get(key, {}), "type": "string", **schema}


def parse_types(origin: str, accepts: Any, gives: Any, *, is_hint: bool = False) -> Declaration:
    """Declare an interface by two types, each of which may be a JSON Schema; `is_hint` is as for Declaration.

    Raises:
        DefinitionError: The input is not of an object, or has a member that begins with an underscore.
    """
    with name_origin(origin):
        built = DocumentSchema(_load_object(accepts)) if isinstance(accepts, Mapping) else TypeSchema(accepts)
        returns = (
            ReturnDocument(bundle(SchemaDocument.load(gives))) if isinstance(gives, Mapping) else ReturnType(gives)
        )
        declaration = Declaration(origin, built.schema.get("description", ""), built, returns, is_hint=is_hint)
    refuse_private(origin, built.schema["properties"])
    return check_declaration(declaration)


def _load_object(given: Mapping[str, Any]) -> dict[str, Any]:
    document = SchemaDocument.load(given)
    whole = inline_root(document.root)
    if whole.get("type", "object") != "object" or not isinstance(whole.get("properties", {}), Mapping):
        raise DefinitionError(f'accepts= is a JSON Schema {{"type": "object", "properties": ...}}, not {given!r:.100}.')
    built: dict[str, Any] = bundle(document, part=_forbid_extra(whole))
    return built


# Keywords whose value may look like the schema of a parameter.
_OBJECTS = frozenset(
    {
        *("properties", "patternProperties", "additionalProperties", "unevaluatedProperties", "propertyNames"),
        *("items", "additionalItems", "unevaluatedItems", "contains", "contentSchema"),
        *("not", "if", "then", "else", "dependentSchemas", "dependentRequired", "dependencies", "definitions"),
        *("default", "const", "example", "examples", "discriminator"),
    }
)
# Keywords that show that an object is a schema.
_MARKS = ("type", "$ref", "const", "enum", "anyOf", "oneOf", "allOf", "properties")
# Texts that are meant as the type of a parameter where nothing else says that this is a schema.
_TYPE_NAMES = frozenset({*TYPES, "str", "int", "float", "bool", "list", "dict"})


def _forbid_extra(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Forbid parameters that are not listed, unless the schema allows them: models invent some."""
    _refuse_misplaced(schema)
    properties = schema.get("properties", {})
    required = schema.get("required", [])
    if schema.keys() & APPLICATORS:
        return {**schema, "type": "object", "properties": properties}
    if not isinstance(required, list):
        raise DefinitionError(f"required={required!r:.100} is not a list of names.")
    missing = next((name for name in required if name not in [*properties]), None)
    if missing is not None:
        raise DefinitionError(f"{missing!r} is required and not among the properties. Add it, or drop it.")
    return {"additionalProperties": False, **schema, "type": "object", "properties": properties}


def _refuse_misplaced(schema: Mapping[str, Any]) -> None:
    """Refuse a parameter beside the keywords: it would be ignored as an unknown keyword."""
    is_bare = not any(schema.get(mark) for mark in _MARKS)  # `properties` may have been added
    beside = next((key for key, value in schema.items() if _is_parameter(str(key), value, is_bare=is_bare)), None)
    if beside is not None:
        raise DefinitionError(
            f"{beside!r} stands beside the keywords of the schema. Put the parameters under properties: "
            f'{{"type": "object", "properties": {{"{beside}": ...}}}}.'
        )


def _is_parameter(key: str, value: Any, *, is_bare: bool) -> bool:
    if key in META or key in _OBJECTS or key.startswith(("$", "x-")):
        return key in META
    if isinstance(value, str):
        return is_bare and value in _TYPE_NAMES and key not in ("title", "description")
    return isinstance(value, dict) and not value.keys().isdisjoint(_MARKS)
