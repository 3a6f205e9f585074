"""Hand-made JSON Schemas: one small function for each type.

from toolkit import schema

schema.object(city=schema.string("City name"), unit=schema.enum("celsius", "fahrenheit", default="celsius"))
"""

from __future__ import annotations

from typing import Any, TypeAlias

from toolkit.errors import DefinitionError

Schema: TypeAlias = dict[str, Any]


def string(description: str = "", **keywords: Any) -> Schema:
    """Describe a text. Keywords are JSON Schema's own, such as `minLength=1` or `default=""`."""
    return _typed("string", description, keywords)


def integer(description: str = "", **keywords: Any) -> Schema:
    """Describe a whole number. Keywords as `minimum=0`."""
    return _typed("integer", description, keywords)


def number(description: str = "", **keywords: Any) -> Schema:
    """Describe a number. Keywords as `exclusiveMinimum=0`."""
    return _typed("number", description, keywords)


def boolean(description: str = "", **keywords: Any) -> Schema:
    """Describe a truth value."""
    return _typed("boolean", description, keywords)


def enum(*values: str, description: str = "", **keywords: Any) -> Schema:
    """Describe a text that is one of a few.

    Raises:
        DefinitionError: There are none.
    """
    if not values:
        raise DefinitionError('schema.enum() needs the values that there are: schema.enum("asc", "desc").')
    return _typed("string", description, {"enum": list(values), **keywords})


def array(items: Schema, description: str = "", **keywords: Any) -> Schema:
    """Describe a list, by what each of its items is. Keywords as `minItems=1`."""
    return _typed("array", description, {"items": items, **keywords})


def object(  # noqa: A001  the standard's own word
    description: str = "", /, *, required: list[str] | None = None, **properties: Schema
) -> Schema:
    """Describe an object by its properties.

    Args:
        description: What it is.
        required: Names of the properties that have to be there; all that have no default, where it is left out.
        **properties: A schema each.

    Raises:
        DefinitionError: A property that has to be there is not described, or is described by no schema.
    """
    wrong = next((name for name, shown in properties.items() if not isinstance(shown, dict)), None)
    if wrong is not None:
        raise DefinitionError(f"schema.object(): {wrong}={properties[wrong]!r} is no schema, such as schema.string().")
    needed = [name for name, shown in properties.items() if "default" not in shown] if required is None else required
    missing = next((name for name in needed if name not in properties), None)
    if missing is not None:
        raise DefinitionError(f"schema.object(): {missing!r} is required and not described.")
    return _typed("object", description, {"properties": properties, **({"required": needed} if needed else {})})


def _typed(kind: str, description: str, keywords: dict[str, Any]) -> Schema:
    return {"type": kind, **({"description": description} if description else {}), **keywords}
