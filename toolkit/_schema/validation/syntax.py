"""The values that each keyword of JSON Schema may have, and the keywords that are not supported."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from toolkit._schema.json_schema import TYPES, as_list, is_json_number
from toolkit._schema.validation.pointers import join_pointer, refuse

# Keywords whose schemas apply to the same value.
APPLICATORS = frozenset({"$ref", "allOf", "anyOf", "oneOf", "if", "dependentSchemas"})
_DIALECTS = ("http://json-schema.org/", "https://json-schema.org/")
_UNEVALUATED = {"unevaluatedProperties": "additionalProperties", "unevaluatedItems": "items"}


def _is_count(value: Any) -> bool:
    return is_json_number(value) and value >= 0 and value == int(value)


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _is_types(value: Any) -> bool:
    names = as_list(value)
    return bool(names) and _is_names(names) and all(name in TYPES for name in names)


_Shape = tuple[Callable[[Any], bool], str]
_COUNT: _Shape = (_is_count, "a whole number of at least 0")
_NUMBER: _Shape = (is_json_number, "a number")
_SCHEMA: _Shape = (lambda value: isinstance(value, (dict, bool)), "one schema")
_SCHEMAS: _Shape = (lambda value: isinstance(value, list) and bool(value), "a list of schemas")
_OBJECT: _Shape = (lambda value: isinstance(value, dict), "an object")
_TEXT: _Shape = (lambda value: isinstance(value, str), "a string")

_SHAPES: Mapping[str, _Shape] = {
    "type": (_is_types, f"one of {', '.join(sorted(TYPES))}, or a list of these"),
    "enum": (lambda value: isinstance(value, list), "a list"),
    "required": (_is_names, "a list of names"),
    "dependentRequired": (
        lambda value: isinstance(value, dict) and all(map(_is_names, value.values())),
        "lists of names",
    ),
    "multipleOf": (lambda value: is_json_number(value) and value > 0, "a number above 0"),
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

MAX_PLAIN = 40  # parts; even nested in each other, so many are not too deep
# Keywords, each with a check of its value, from which a validator can always be built. Inner schemas are checked apart.
_PLAIN: Mapping[str, Callable[[Any], bool]] = {
    **{keyword: _SHAPES[keyword][0] for keyword in ("type", "description", "required", "properties", "anyOf")},
    **{keyword: _SHAPES[keyword][0] for keyword in ("items", "additionalProperties")},
    **dict.fromkeys(("title", "default", "format", "examples"), lambda _: True),
    **dict.fromkeys(
        ("minimum", "maximum", "minLength", "maxLength"), lambda value: type(value) is int and 0 <= value < 2**31
    ),
    "enum": _is_names,
    "$schema": lambda value: isinstance(value, str) and value.startswith(_DIALECTS),
}

_REFUSED: Mapping[str, str] = {
    "$dynamicRef": "Write $ref.",
    "$recursiveRef": "Write $ref.",
    "dependencies": "Write dependentRequired or dependentSchemas.",
}


def is_plain(schema: Any) -> bool:
    """Return whether a validator can certainly be built of a schema: it is small, and has only common keywords."""
    parts = [schema]
    for part in parts:
        if isinstance(part, bool):
            continue
        if not isinstance(part, dict) or not all(key in _PLAIN and _PLAIN[key](part[key]) for key in part):
            return False
        parts += part.get("properties", {}).values()
        parts += part.get("anyOf", ())
        parts += (part[keyword] for keyword in ("items", "additionalProperties") if keyword in part)
        if len(parts) > MAX_PLAIN:
            return False

    return True


def check_keywords(schema: dict[str, Any], place: str) -> None:
    """Check the keywords of one schema, and add the supported equivalents of `unevaluated...`.

    Raises:
        DefinitionError: A keyword has an invalid value, or is not supported.
    """
    for keyword, value in schema.items():
        if keyword in _REFUSED:
            refuse(join_pointer(place, keyword), f"{keyword} is not supported", _REFUSED[keyword])
        if keyword in _SHAPES:
            is_valid, description = _SHAPES[keyword]
            if not is_valid(value):
                refuse(join_pointer(place, keyword), f"{keyword} is not {description}", "Correct it.")

    dialect = schema.get("$schema", _DIALECTS[0])
    if not isinstance(dialect, str) or not dialect.startswith(_DIALECTS):
        refuse(join_pointer(place, "$schema"), f"{dialect!r} is not known", "Write it in draft 2020-12.")
    _replace_unevaluated(schema, place)


def _replace_unevaluated(schema: dict[str, Any], place: str) -> None:
    """Add the keyword that means the same as `unevaluated...` beside no applicator. Refuse it beside one."""
    for keyword, plain in _UNEVALUATED.items():
        if schema.get(keyword, True) is True or plain in schema:
            continue
        if schema.keys() & APPLICATORS or "contains" in schema:
            refuse(
                join_pointer(place, keyword),
                f"{keyword} is not supported beside $ref, allOf and their like",
                f"Write {plain}.",
            )
        schema[plain] = schema[keyword]
