"""What each provider understands of JSON Schema (draft 2020-12): one table, which the rewriting reads.

A row is a keyword, or a keyword with the sort of its value: `format=uuid`, `type=null`, `$ref=recursive`. In it stands,
for each column, what becomes of the keyword:

    sent       goes out as it is
    words      goes into the description, and is enforced by the tool's own validation alone
    rewritten  is said by other keywords, and read back by a codec
    noise      is left out: it tells a model nothing

Sources, as of November 2026:
    strict     https://developers.openai.com/api/docs/guides/structured-outputs#supported-schemas; besides, look-around
               is refused with "regex lookaround is not supported", without strict mode too, and a reference may have
               no neighbours
    anthropic  https://platform.claude.com/docs/en/build-with-claude/structured-outputs#json-schema-limitations
    gemini     https://ai.google.dev/api/caching#Schema. `parameters` takes a part of OpenAPI's Schema Object: one type,
               no null, no reference, texts alone in enum, properties in every object. `parametersJsonSchema` takes
               JSON Schema, but not in the Live API, and not behind gateways that turn it into the former. The column
               is what both take, so it does not matter which one carries it.
    minimal    what servers with few keywords have in common
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

Support: TypeAlias = Literal["sent", "words", "rewritten", "noise"]

S: Support = "sent"
W: Support = "words"
R: Support = "rewritten"
N: Support = "noise"

COLUMNS = ("plain", "grammar", "strict", "anthropic", "gemini", "minimal")

KEYWORDS: Mapping[str, tuple[Support, ...]] = {
    # row                     plain grammar strict anthropic gemini minimal
    "type": (S, S, S, S, S, S),
    "type=null": (S, S, S, S, R, R),
    "type=list": (S, S, S, S, R, R),
    "description": (S, S, S, S, S, S),
    "enum": (S, S, S, S, S, S),  # of texts
    "enum=number": (S, S, S, S, W, S),
    "enum=boolean": (S, S, S, S, W, W),
    "enum=mixed": (S, S, S, S, R, R),
    "enum=data": (S, S, R, R, R, R),
    "const": (S, S, S, S, R, R),
    "default": (S, S, W, W, W, W),
    "default=null": (S, S, N, N, N, N),
    "examples": (S, S, W, W, W, W),
    "deprecated": (S, S, W, W, W, W),
    "title": (N, N, N, N, N, N),
    "readOnly": (S, S, N, N, N, N),
    "writeOnly": (S, S, N, N, N, N),
    # objects
    "properties": (S, S, S, S, S, S),
    "properties=none": (S, S, S, S, R, R),
    "required": (S, S, S, S, S, S),
    "required=partial": (S, S, R, S, S, S),
    "additionalProperties": (S, S, R, R, R, R),
    "additionalProperties=false": (S, S, S, S, N, N),
    "patternProperties": (S, S, R, R, R, R),
    "propertyNames": (S, W, R, R, R, R),
    "unevaluatedProperties": (S, S, W, W, W, W),
    "unevaluatedProperties=false": (S, S, N, N, N, N),
    "minProperties": (S, S, W, W, W, W),
    "maxProperties": (S, S, W, W, W, W),
    "dependentRequired": (S, S, W, W, W, W),
    "dependentSchemas": (S, S, W, W, W, W),
    # arrays
    "items": (S, S, S, S, S, S),
    "prefixItems": (S, S, R, R, R, R),
    "unevaluatedItems": (S, S, W, W, W, W),
    "unevaluatedItems=false": (S, S, N, N, N, N),
    "contains": (S, S, W, W, W, W),
    "minContains": (S, S, W, W, W, W),
    "maxContains": (S, S, W, W, W, W),
    "minItems": (S, S, S, W, S, W),
    "minItems=0": (S, S, S, S, S, N),
    "minItems=1": (S, S, S, S, S, W),
    "maxItems": (S, S, S, W, S, W),
    "uniqueItems": (S, W, W, W, W, W),
    "uniqueItems=false": (S, N, N, N, N, N),
    # texts
    "minLength": (S, S, S, W, S, W),
    "maxLength": (S, S, S, W, S, W),
    "pattern": (S, S, S, S, S, W),
    "pattern=lookaround": (W, W, W, W, W, W),
    "format": (S, W, W, W, W, W),
    "format=date-time": (S, S, S, S, S, W),
    "format=date": (S, S, S, S, W, W),
    "format=time": (S, S, S, S, W, W),
    "format=duration": (S, W, S, S, W, W),
    "format=email": (S, S, S, S, W, W),
    "format=hostname": (S, W, S, S, W, W),
    "format=ipv4": (S, W, S, S, W, W),
    "format=ipv6": (S, S, S, S, W, W),
    "format=uuid": (S, S, S, S, W, W),
    "format=uri": (S, W, W, S, W, W),
    "contentEncoding": (S, S, W, W, W, W),
    "contentMediaType": (S, S, W, W, W, W),
    "contentSchema": (S, S, W, W, W, W),
    # numbers
    "minimum": (S, S, S, W, S, W),
    "maximum": (S, S, S, W, S, W),
    "exclusiveMinimum": (S, S, S, W, W, W),
    "exclusiveMaximum": (S, S, S, W, W, W),
    "multipleOf": (S, S, S, W, W, W),
    # composition
    "anyOf": (S, S, S, S, S, R),
    "oneOf": (S, S, R, R, R, R),
    "allOf": (S, S, R, R, R, R),
    "discriminator": (S, S, N, N, N, N),  # OpenAPI's; pydantic writes it beside oneOf
    "not": (S, S, W, W, W, W),
    "if": (S, S, W, W, W, W),
    "then": (S, S, W, W, W, W),
    "else": (S, S, W, W, W, W),
    # references
    "$ref": (S, S, S, S, R, R),
    "$ref=recursive": (S, S, S, R, R, R),
    "$defs": (S, S, S, S, R, R),
    "definitions": (S, S, R, R, R, R),  # the name of $defs in older drafts
    "$id": (S, S, N, N, N, N),
    "$anchor": (S, S, N, N, N, N),
    "$dynamicAnchor": (S, S, N, N, N, N),
    "$dynamicRef": (S, S, R, R, R, R),
    "$schema": (N, N, N, N, N, N),
    "$vocabulary": (N, N, N, N, N, N),
    "$comment": (N, N, N, N, N, N),
}

# How a constraint is said in a description; {} is its value.
WORDS: Mapping[str, str] = {
    "default": "Default: {}.",
    "examples": "Examples: {}.",
    "deprecated": "Deprecated.",
    "enum": "One of {}.",
    "minProperties": "At least {} keys.",
    "maxProperties": "At most {} keys.",
    "propertyNames": "Each key must match {}.",
    "dependentRequired": "Keys that need others beside them: {}.",
    "dependentSchemas": "With these keys, the whole must match: {}.",
    "unevaluatedProperties": "All other keys must match {}.",
    "unevaluatedItems": "All other items must match {}.",
    "contains": "Some items must match {}.",
    "minContains": "At least {} such items.",
    "maxContains": "At most {} such items.",
    "minItems": "At least {} items.",
    "maxItems": "At most {} items.",
    "uniqueItems": "No item twice.",
    "minLength": "At least {} characters.",
    "maxLength": "At most {} characters.",
    "pattern": "Must match the regular expression {}.",
    "format": "Format: {}.",
    "contentEncoding": "Encoding: {}.",
    "contentMediaType": "Media type: {}.",
    "contentSchema": "Its content must match {}.",
    "minimum": "At least {}.",
    "maximum": "At most {}.",
    "exclusiveMinimum": "More than {}.",
    "exclusiveMaximum": "Less than {}.",
    "multipleOf": "A multiple of {}.",
    "not": "Must not match {}.",
    "if": "If it matches {}, see below.",
    "then": "Then it must match {}.",
    "else": "Else it must match {}.",
    "anyOf": "Must match one of {}.",
    "oneOf": "Must match just one of {}.",
    "allOf": "Must match all of {}.",
}
# Said without quotes: names, not values.
_BARE = frozenset({"format", "contentEncoding", "contentMediaType"})

# Look-around, and back references: no automaton can follow them.
_LOOKAROUND = re.compile(r"\(\?<?[=!]|\\[1-9]|\(\?P=")


def sort_of(keyword: str, value: Any) -> str:
    """Name the sort of a keyword's value, as the rows of the table do."""
    if keyword in _SORTED:
        return _SORTED[keyword](value)
    return json.dumps(value) if isinstance(value, (bool, int, type(None))) else ""


def sort_of_values(values: Any) -> str:
    """Name the sort of what an enumeration lists; texts are the plain case, without a name."""
    kinds = {_SORTS.get(type(value), "data") for value in values} if isinstance(values, list) else {"data"}
    return kinds.pop() if len(kinds) == 1 else "data" if "data" in kinds else "mixed"


_SORTS = {str: "", int: "number", float: "number", bool: "boolean", type(None): "mixed"}
_SORTED: Mapping[str, Callable[[Any], str]] = {
    "type": lambda value: "list" if isinstance(value, list) else "",
    "enum": sort_of_values,
    "format": str,
    "pattern": lambda value: "lookaround" if _LOOKAROUND.search(str(value)) else "",
}


def words(keyword: str, value: Any) -> str:
    """Say a constraint in a short sentence."""
    if keyword in ("examples", "enum") and isinstance(value, list):
        return WORDS[keyword].format(", ".join(map(json_of, value)))
    return WORDS[keyword].format(value if keyword in _BARE else json_of(value))


def json_of(value: Any) -> str:
    """Write a value as JSON."""
    return json.dumps(value, ensure_ascii=False)
