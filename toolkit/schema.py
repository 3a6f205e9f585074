"""Functions to write JSON Schema by hand, one for each type; and an annotation for types without a schema.

from toolkit import schema

schema.object(city=schema.string("City name"), unit=schema.enum("celsius", "fahrenheit", default="celsius"))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import iscoroutinefunction
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias, get_origin

from toolkit.errors import DefinitionError

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema

__all__ = ["FromJson", "array", "boolean", "enum", "integer", "number", "object", "string"]

Schema: TypeAlias = dict[str, Any]

_NONE: Mapping[str, Schema] = MappingProxyType({})


@dataclass(frozen=True)
class FromJson:
    """An annotation for a type that JSON cannot represent: the model sends another type, and a function converts it.

    Args:
        given: The type that the model sends, such as `str` or `list[float]`; its values are validated first.
        convert: A function that converts the model's value; by default the annotated class itself. If it raises, the
            argument is invalid, and the model reads the exception's message.

    Raises:
        DefinitionError: `convert` is async; or it is missing, and the annotated type is not a class but, for example,
            `list[float]` or a union. Raised when the tool is described.

    Examples:
        >>> from fractions import Fraction
        >>> from typing import Annotated
        >>> from toolkit import tool
        >>> @tool
        ... def halve(value: Annotated[Fraction, FromJson(str)]) -> str:
        ...     return str(value / 2)
        >>> halve.invoke({"value": "1/3"}).text
        '1/6'
    """

    given: Any
    convert: Callable[[Any], Any] | None = None

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the schema of the model's type, with the conversion of validated values."""
        from pydantic_core import core_schema

        if iscoroutinefunction(self.convert):
            raise DefinitionError(f"FromJson(..., {self.convert!r:.100}) takes a sync function: none is awaited.")
        if self.convert is None and (get_origin(source) or not isinstance(source, type)):
            raise DefinitionError(
                f"FromJson({getattr(self.given, '__name__', self.given)}) annotates {source!r:.100}, which is not a "
                "class that can be called: pass a function that makes the value, FromJson(..., function)."
            )

        make = self.convert or source

        def convert(value: Any) -> Any:
            try:
                return make(value)
            except Exception as error:
                raise ValueError(str(error) or type(error).__name__) from error

        return core_schema.no_info_after_validator_function(convert, handler.generate_schema(self.given))


def string(description: str = "", **keywords: Any) -> Schema:
    """Describe a string. Keywords are those of JSON Schema, such as `minLength=1` or `default=""`."""
    return _make_schema("string", description, keywords)


def integer(description: str = "", **keywords: Any) -> Schema:
    """Describe an integer. Keywords are those of JSON Schema, such as `minimum=0`."""
    return _make_schema("integer", description, keywords)


def number(description: str = "", **keywords: Any) -> Schema:
    """Describe a number. Keywords are those of JSON Schema, such as `exclusiveMinimum=0`."""
    return _make_schema("number", description, keywords)


def boolean(description: str = "", **keywords: Any) -> Schema:
    """Describe a boolean."""
    return _make_schema("boolean", description, keywords)


def enum(*values: str, description: str = "", **keywords: Any) -> Schema:
    """Describe a string that is one of `values`.

    Raises:
        DefinitionError: There are no values, or one is not a string.
    """
    if not values or not all(isinstance(value, str) for value in values):
        raise DefinitionError('schema.enum() takes the allowed texts, one by one: schema.enum("asc", "desc").')
    return _make_schema("string", description, {"enum": list(values), **keywords})


def array(items: Schema, description: str = "", **keywords: Any) -> Schema:
    """Describe a list by the schema of its items. Keywords are those of JSON Schema, such as `minItems=1`.

    Raises:
        DefinitionError: `items` is not a schema.
    """
    _refuse_other("array", {"items": items})
    return _make_schema("array", description, {"items": items, **keywords})


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
    without_default = [name for name, each in schemas.items() if "default" not in each]
    names = without_default if required is None else _list(required)
    missing = next((name for name in names if name not in schemas), None)
    if missing is not None:
        raise DefinitionError(f"schema.object(): {missing!r} is required and not described.")

    keywords: dict[str, Any] = {"properties": schemas}
    if names:
        keywords["required"] = names
    return _make_schema("object", description, keywords)


def _refuse_other(kind: str, schemas: Mapping[str, Any]) -> None:
    wrong = next((name for name, each in schemas.items() if not isinstance(each, dict)), None)
    if wrong is not None:
        raise DefinitionError(f"schema.{kind}(): {wrong}={schemas[wrong]!r} is not a schema, such as schema.string().")


def _list(names: Any) -> list[str]:
    if isinstance(names, (list, tuple)):
        return list(names)
    raise DefinitionError(
        f"schema.object(): required={names!r:.100} is not a list of names. A property that has that name is described "
        f'by schema.object("", {{"required": ...}}).'
    )


def _make_schema(kind: str, description: str, keywords: dict[str, Any]) -> Schema:
    return {"type": kind, **({"description": description} if description else {}), **keywords}
