"""Functions that write JSON Schema by hand, one for each type.

from toolkit import schema

schema.object(city=schema.string("City name"), unit=schema.enum("celsius", "fahrenheit", default="celsius"))
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

from toolkit.errors import DefinitionError

__all__ = ["array", "boolean", "enum", "integer", "number", "object", "string"]

Schema: TypeAlias = dict[str, Any]

_NONE: Mapping[str, Schema] = MappingProxyType({})


def string(description: str = "", **keywords: Any) -> Schema:
    """Describe a string. Keywords are those of JSON Schema, such as `minLength=1` or `default=""`."""
    return _describe("string", description, keywords)


def integer(description: str = "", **keywords: Any) -> Schema:
    """Describe an integer. Keywords are those of JSON Schema, such as `minimum=0`."""
    return _describe("integer", description, keywords)


def number(description: str = "", **keywords: Any) -> Schema:
    """Describe a number. Keywords are those of JSON Schema, such as `exclusiveMinimum=0`."""
    return _describe("number", description, keywords)


def boolean(description: str = "", **keywords: Any) -> Schema:
    """Describe a boolean."""
    return _describe("boolean", description, keywords)


def enum(*values: str, description: str = "", **keywords: Any) -> Schema:
    """Describe a string that is one of `values`.

    Raises:
        DefinitionError: There are no values, or one is not a string.
    """
    if not values or not all(isinstance(value, str) for value in values):
        raise DefinitionError('schema.enum() takes the texts that there are, one by one: schema.enum("asc", "desc").')
    return _describe("string", description, {"enum": list(values), **keywords})


def array(items: Schema, description: str = "", **keywords: Any) -> Schema:
    """Describe a list by the schema of its items. Keywords are those of JSON Schema, such as `minItems=1`.

    Raises:
        DefinitionError: `items` is not a schema.
    """
    _refuse_other("array", {"items": items})
    return _describe("array", description, {"items": items, **keywords})


def object(  # noqa: A001  the standard's own word
    description: str = "",
    others: Mapping[str, Schema] = _NONE,
    /,
    *,
    required: list[str] | tuple[str, ...] | None = None,
    **properties: Schema,
) -> Schema:
    """Describe an object by its properties.

    Args:
        description: Description for the model.
        others: Properties whose names cannot be keywords here, such as `{"required": schema.boolean()}`.
        required: Names of the required properties; by default, of all that have no default.
        **properties: Schemas by name.

    Raises:
        DefinitionError: A required property is missing, or a property is not a schema.
    """
    schemas = {**others, **properties}
    _refuse_other("object", schemas)
    names = [name for name, each in schemas.items() if "default" not in each] if required is None else _list(required)
    missing = next((name for name in names if name not in schemas), None)
    if missing is not None:
        raise DefinitionError(f"schema.object(): {missing!r} is required and not described.")
    return _describe("object", description, {"properties": schemas, **({"required": names} if names else {})})


def _refuse_other(kind: str, schemas: Mapping[str, Any]) -> None:
    wrong = next((name for name, each in schemas.items() if not isinstance(each, dict)), None)
    if wrong is not None:
        raise DefinitionError(f"schema.{kind}(): {wrong}={schemas[wrong]!r} is no schema, such as schema.string().")


def _list(names: Any) -> list[str]:
    if isinstance(names, (list, tuple)):
        return list(names)
    raise DefinitionError(
        f"schema.object(): required={names!r} is no list of names. A property that is called so is described by "
        f'schema.object("", {{"required": ...}}).'
    )


def _describe(kind: str, description: str, keywords: dict[str, Any]) -> Schema:
    return {"type": kind, **({"description": description} if description else {}), **keywords}
