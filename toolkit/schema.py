"""Hand-made JSON Schemas: one small function for each type.

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
        DefinitionError: There are none, or one is no text.
    """
    if not values or not all(isinstance(value, str) for value in values):
        raise DefinitionError('schema.enum() takes the texts that there are, one by one: schema.enum("asc", "desc").')
    return _typed("string", description, {"enum": list(values), **keywords})


def array(items: Schema, description: str = "", **keywords: Any) -> Schema:
    """Describe a list, by what each of its items is. Keywords as `minItems=1`.

    Raises:
        DefinitionError: The items are described by no schema.
    """
    _refuse_other("array", {"items": items})
    return _typed("array", description, {"items": items, **keywords})


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
        description: What it is.
        others: Properties whose names are no keywords of Python's or of this function's, as
            `{"required": schema.boolean()}`.
        required: Names of the properties that have to be there; all that have no default, where it is left out.
        **properties: A schema each.

    Raises:
        DefinitionError: A property that has to be there is not described, or is described by no schema.
    """
    shown = {**others, **properties}
    _refuse_other("object", shown)
    needed = [name for name, each in shown.items() if "default" not in each] if required is None else _listed(required)
    missing = next((name for name in needed if name not in shown), None)
    if missing is not None:
        raise DefinitionError(f"schema.object(): {missing!r} is required and not described.")
    return _typed("object", description, {"properties": shown, **({"required": needed} if needed else {})})


def _refuse_other(kind: str, shown: Mapping[str, Any]) -> None:
    wrong = next((name for name, each in shown.items() if not isinstance(each, dict)), None)
    if wrong is not None:
        raise DefinitionError(f"schema.{kind}(): {wrong}={shown[wrong]!r} is no schema, such as schema.string().")


def _listed(names: Any) -> list[str]:
    if isinstance(names, (list, tuple)):
        return list(names)
    raise DefinitionError(
        f"schema.object(): required={names!r} is no list of names. A property that is called so is described by "
        f'schema.object("", {{"required": ...}}).'
    )


def _typed(kind: str, description: str, keywords: dict[str, Any]) -> Schema:
    return {"type": kind, **({"description": description} if description else {}), **keywords}
