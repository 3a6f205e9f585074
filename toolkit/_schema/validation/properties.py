"""The properties of a hand-made JSON Schema: its own, and those that other keywords add."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from toolkit._messages import META
from toolkit._schema.json_schema import TYPES
from toolkit._schema.validation.references import SchemaDocument, join_pointer
from toolkit._schema.validation.syntax import APPLICATORS
from toolkit.errors import DefinitionError

# Applicators, and those beside `if`, by their kind of value.
_LISTS, _SCHEMAS = ("allOf", "anyOf", "oneOf"), ("if", "then", "else")
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
_TELLING = frozenset({"$ref", "const", "enum", "allOf", "anyOf", "oneOf", "properties"})


def forbid_extra(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Forbid parameters that are not listed, unless the schema allows them: models invent some.

    Raises:
        DefinitionError: A required parameter is not listed, or a parameter stands beside `properties`.
    """
    _refuse_misplaced(schema)
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if schema.keys() & APPLICATORS:
        return {**schema, "type": "object", "properties": properties}
    if not isinstance(required, list):
        raise DefinitionError(f"required={required!r} is not a list of names.")
    missing = next((name for name in required if name not in [*properties]), None)
    if missing is not None:
        raise DefinitionError(f"{missing!r} is required and not among the properties. Add it, or drop it.")
    return {"additionalProperties": False, **schema, "type": "object", "properties": properties}


def _refuse_misplaced(schema: Mapping[str, Any]) -> None:
    """Refuse a parameter beside the keywords: it would be ignored as an unknown keyword.

    Raises:
        DefinitionError: There is one.
    """
    beside = next((key for key, value in schema.items() if _is_parameter(str(key), value)), None)
    if beside is not None:
        raise DefinitionError(
            f"{beside!r} stands beside the keywords of the schema. Put the parameters under properties: "
            f'{{"type": "object", "properties": {{"{beside}": ...}}}}.'
        )


def _is_parameter(key: str, value: Any) -> bool:
    if key in META:
        return True
    if not isinstance(value, dict) or key in _OBJECTS or key.startswith(("$", "x-")):
        return False
    kind = value.get("type")
    names = kind if isinstance(kind, list) else [kind]
    return not _TELLING.isdisjoint(value) or any(name in names for name in TYPES)


def find_outer_properties(document: SchemaDocument, whole: Mapping[str, Any]) -> Iterator[str]:
    """List the properties that keywords other than `properties` add to a schema.

    Args:
        document: The schema.
        whole: Its root, or the schema that its root refers to.

    Raises:
        DefinitionError: A reference points to nothing.
    """
    waiting, seen = [""], set[str]()
    while waiting:
        place = waiting.pop()
        part = document.look_up(place)
        if isinstance(part, dict) and place not in seen:
            seen.add(place)
            waiting += _list_applied(document, place, part)
            own = part.get("properties", {})
            yield from () if own is whole.get("properties") else own


def _list_applied(document: SchemaDocument, place: str, part: Mapping[str, Any]) -> Iterator[str]:
    """List the pointers of the schemas that apply to the same object."""
    if "$ref" in part:
        yield document.resolve(part["$ref"], place)
    yield from (join_pointer(place, keyword) for keyword in _SCHEMAS if keyword in part)
    yield from (join_pointer(place, "dependentSchemas", name) for name in part.get("dependentSchemas", {}))
    yield from (join_pointer(place, keyword, at) for keyword in _LISTS for at in range(len(part.get(keyword, ()))))
