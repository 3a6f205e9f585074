"""JSON Schema as plain data: what is noise in it, and what may stand in it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic.json_schema import GenerateJsonSchema

# Keywords whose value maps names, chosen by the user, to schemas: a name there is never a keyword.
_NAMED = frozenset({"properties", "$defs", "definitions", "patternProperties", "dependentSchemas"})
# Keywords whose value is data, not a schema.
_DATA = frozenset({"default", "const", "enum", "examples", "example", "required"})


def rewritten(schema: Any, rewrite: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    """Apply `rewrite` to every schema inside a schema, from the inside out, and give a new one."""
    if isinstance(schema, list):
        return [rewritten(item, rewrite) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    return rewrite({keyword: _inner(keyword, value, rewrite) for keyword, value in schema.items()})


def tidy(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Drop titles, which repeat names, and lay an arguments schema out as providers want to see it."""
    clean = rewritten(schema, lambda node: {key: value for key, value in node.items() if key != "title"})
    return {
        "type": "object",
        "properties": clean.get("properties", {}),
        **{key: clean[key] for key in ("required", "additionalProperties", "$defs") if key in clean},
    }


@cache
def generator() -> type[GenerateJsonSchema]:
    """Make pydantic's generator, silent about defaults that JSON cannot show: they are left out on purpose."""
    from pydantic.json_schema import GenerateJsonSchema

    return type(
        "Generator", (GenerateJsonSchema,), {"ignored_warning_kinds": {"skipped-choice", "non-serializable-default"}}
    )


def json_default(default: Any) -> dict[str, Any]:
    """Write a default as the keyword `default`, or as nothing where JSON has no form for it."""
    from pydantic_core import PydanticSerializationError, to_jsonable_python

    try:
        value = to_jsonable_python(default)
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except (PydanticSerializationError, ValueError, TypeError, RecursionError):
        return {}
    return {"default": sorted(value, key=json.dumps) if isinstance(default, (set, frozenset)) else value}


def _inner(keyword: str, value: Any, rewrite: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    if keyword in _NAMED and isinstance(value, Mapping):
        return {name: rewritten(schema, rewrite) for name, schema in value.items()}
    return value if keyword in _DATA else rewritten(value, rewrite)
