"""What the value of each keyword looks like, and the keywords that are refused."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from toolkit.documents.document import below, refuse

TYPES = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})
_DIALECTS = ("http://json-schema.org/", "https://json-schema.org/")
_VOCABULARIES = "https://json-schema.org/draft/2020-12/vocab/"
# Applicators that hold for the same value; what they say counts for `unevaluatedProperties` and `unevaluatedItems`.
_APPLICATORS = frozenset({"$ref", "allOf", "anyOf", "oneOf", "if", "dependentSchemas"})
_UNEVALUATED = {"unevaluatedProperties": "additionalProperties", "unevaluatedItems": "items"}


def _is_count(value: Any) -> bool:
    return _is_number(value) and value >= 0 and value == int(value)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _is_types(value: Any) -> bool:
    names = value if isinstance(value, list) else [value]
    return bool(names) and _is_names(names) and TYPES.issuperset(names)


def _is_schemas(value: Any) -> bool:
    return isinstance(value, list) and bool(value)


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _is_schema(value: Any) -> bool:
    return isinstance(value, (dict, bool))


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


_Shape = tuple[Callable[[Any], bool], str]
_COUNT: _Shape = (_is_count, "a whole number, at least 0")
_NUMBER: _Shape = (_is_number, "a number")
_SCHEMA: _Shape = (_is_schema, "one schema")
_SCHEMAS: _Shape = (_is_schemas, "a list of schemas")
_OBJECT: _Shape = (_is_object, "an object")
_TEXT: _Shape = (_is_text, "a string")

_SHAPES: Mapping[str, _Shape] = {
    "type": (_is_types, f"one of {', '.join(sorted(TYPES))}, or a list of these"),
    "enum": (lambda value: isinstance(value, list), "a list"),
    "required": (_is_names, "a list of names"),
    "dependentRequired": (
        lambda value: isinstance(value, dict) and all(map(_is_names, value.values())),
        "lists of names",
    ),
    "multipleOf": (lambda value: _is_number(value) and value > 0, "a number above 0"),
    "pattern": _TEXT,
    "$ref": _TEXT,
    "description": _TEXT,
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _NUMBER),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minContains", "maxContains"), _COUNT),
    **dict.fromkeys(("minProperties", "maxProperties"), _COUNT),
    **dict.fromkeys(("properties", "patternProperties", "dependentSchemas"), _OBJECT),
    **dict.fromkeys(("allOf", "anyOf", "oneOf", "prefixItems"), _SCHEMAS),
    **dict.fromkeys(("items", "contains", "additionalProperties", "propertyNames"), _SCHEMA),
    **dict.fromkeys(("not", "if", "then", "else"), _SCHEMA),
}

_REFUSED: Mapping[str, str] = {
    "$dynamicRef": "Write $ref.",
    "$recursiveRef": "Write $ref.",
    "dependencies": "Write dependentRequired or dependentSchemas.",
}


def checked(schema: dict[str, Any], place: str) -> dict[str, Any]:
    """Check the keywords of one schema, and say in usual ones what there is in others.

    Raises:
        DefinitionError: One has a value that it cannot have, or is not supported.
    """
    for keyword, value in schema.items():
        if keyword in _REFUSED:
            refuse(below(place, keyword), f"{keyword} is not supported", _REFUSED[keyword])
        if keyword in _SHAPES and not _SHAPES[keyword][0](value):
            refuse(below(place, keyword), f"{keyword} is not {_SHAPES[keyword][1]}", "Mend it.")
    _check_vocabulary(schema, place)
    return _evaluated(schema, place)


def _check_vocabulary(schema: dict[str, Any], place: str) -> None:
    dialect = schema.get("$schema", _DIALECTS[0])
    if not _is_text(dialect) or not dialect.startswith(_DIALECTS):
        refuse(below(place, "$schema"), f"{dialect!r} is not known", "Say it in draft 2020-12.")
    needed = schema.get("$vocabulary")
    unknown = [uri for uri, is_needed in needed.items() if is_needed] if isinstance(needed, dict) else []
    unknown = [uri for uri in unknown if not uri.startswith(_VOCABULARIES)]
    if unknown:
        refuse(below(place, "$vocabulary"), f"{unknown[0]!r} is not known", "Say it in draft 2020-12.")


def _evaluated(schema: dict[str, Any], place: str) -> dict[str, Any]:
    """Write `unevaluated...` as the keyword that says the same where nothing else looks at the value."""
    written = dict(schema)
    for keyword, plain in _UNEVALUATED.items():
        rest = written.pop(keyword, True)
        if rest is True or plain in schema:
            continue
        if schema.keys() & _APPLICATORS or "contains" in schema:
            refuse(
                below(place, keyword),
                f"{keyword} is not supported beside $ref, allOf and their like",
                f"Write {plain}.",
            )
        written[plain] = rest
    return written
