"""Return schemas: JSON Schema of a tool's value, and how such values are written.

Nothing here can make a tool unusable: an annotation that cannot be resolved, or that pydantic cannot describe, says
nothing.
"""

from __future__ import annotations

import collections.abc
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin

from pydantic_core import to_json

from toolkit._messages import OUTPUT, File, Image, ToolResult
from toolkit._schema.argument_schema import ArgumentSchema, DocumentSchema, Parameter, ParameterSchema, get_fields
from toolkit._schema.core_schema import JsonSchemaWriter
from toolkit._schema.json_schema import clean, get_generator

if TYPE_CHECKING:
    from pydantic import ConfigDict, TypeAdapter

# Their values are collected in a list; the type of the values is the first argument of each.
_ITERATORS = (
    collections.abc.Iterator,
    collections.abc.Generator,
    collections.abc.AsyncIterator,
    collections.abc.AsyncGenerator,
    collections.abc.AsyncIterable,
)
_AWAITABLES = (collections.abc.Awaitable, collections.abc.Coroutine)
# Types whose values need no writer of their own.
# Tuples, since an annotation may be any object, such as a list, which has no hash.
_JSON = (str, int, float, bool, type(None), None, Any, list, dict)
_UNDESCRIBED = (Any, inspect.Parameter.empty, object, ToolResult, Image, File)


class ReturnSchema:
    """JSON Schema of a tool's value, a function that writes such values, and the value as an argument."""

    __getstate__ = get_fields

    @cached_property
    def schema(self) -> dict[str, Any] | None:
        """JSON Schema of the value; None where it is unknown."""
        raise NotImplementedError

    @cached_property
    def to_json(self) -> Callable[..., bytes] | None:
        """Serializer of a value, as pydantic has it; None where any JSON writer would do."""
        return None

    @cached_property
    def argument_schema(self) -> ArgumentSchema:
        """Argument schema of the value alone, as `_output`: the model fills it in itself."""
        raise NotImplementedError

    def check(self, value: Any) -> Any:
        """Return a value as one of the declared type, or of the JSON Schema; an undeclared one as it is.

        Raises:
            Exception: It is none; of pydantic, of the schema, or of the user's type.
        """
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class ReturnDocument(ReturnSchema):
    """Return schema of a JSON Schema; None leaves the value open."""

    document: dict[str, Any] | None

    @cached_property
    def schema(self) -> dict[str, Any] | None:
        """The JSON Schema, as it was given."""
        return self.document

    @cached_property
    def argument_schema(self) -> ArgumentSchema:
        """Argument schema of the value; of a string, where there is no schema."""
        whole = {"type": "string"} if self.document is None else self.document
        definitions = {"$defs": whole["$defs"]} if "$defs" in whole else {}
        inner = {keyword: value for keyword, value in whole.items() if keyword != "$defs"}
        return DocumentSchema({"type": "object", "properties": {OUTPUT: inner}, "required": [OUTPUT], **definitions})

    def check(self, value: Any) -> Any:
        """Return a value as plain data that matches the schema."""
        if self.document is None:
            return value
        return self.argument_schema.validator(to_json({OUTPUT: value}).decode())[OUTPUT]


@dataclass(frozen=True)
class ReturnType(ReturnSchema):
    """Return schema of a function's return annotation.

    Attributes:
        annotation: The type of a call's result; see `resolve_result`.
        text: The docstring's text about it.
        names: Names in the frames around the function that annotations use.
    """

    annotation: Any
    text: str = ""
    names: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def schema(self) -> dict[str, Any] | None:
        """JSON Schema of the value; None where the annotation says nothing."""
        if self.annotation is Any:
            return None
        usual = JsonSchemaWriter().write_usual({OUTPUT: self.annotation}) if _is_json(self.annotation) else {}
        schema = usual[OUTPUT] if usual else self._describe()
        return {"description": self.text, **schema} if schema and self.text else schema

    @cached_property
    def to_json(self) -> Callable[..., bytes] | None:
        """Serializer of a value by its annotated type; None where any JSON writer would do."""
        if _is_json(self.annotation):
            return None
        # pydantic takes no configuration for a class that may have its own, but it does for a union with such a class.
        adapter = self._build_adapter(lambda: self.annotation | None, {"ser_json_inf_nan": "strings"})
        return adapter and adapter.serializer.to_json

    @cached_property
    def argument_schema(self) -> ArgumentSchema:
        """Argument schema of the value alone, as `_output`; of a text, where the annotation says nothing."""
        annotation = str if self.annotation in (Any, inspect.Parameter.empty, object) else self.annotation
        output = Parameter(name=OUTPUT, kind=inspect.Parameter.KEYWORD_ONLY, annotation=annotation)
        return ParameterSchema(
            offered=[output],
            label="what it returns",
            names=self.names,
            read_documentation=lambda: ({OUTPUT: self.text} if self.text else {}, ()),
            list_taken=tuple,
        )

    def check(self, value: Any) -> Any:
        """Return a value as one of the annotated type."""
        return value if self._adapter is None else self._adapter.validate_python(value)

    @cached_property
    def _adapter(self) -> TypeAdapter[Any] | None:
        return self._build_adapter(lambda: self.annotation)

    def _describe(self) -> dict[str, Any] | None:
        try:
            adapter = self._adapter
            return adapter and clean(adapter.json_schema(schema_generator=get_generator(), mode="serialization"))
        except Exception:  # noqa: BLE001  pydantic and user types raise what they like while a schema is built
            return None

    def _build_adapter(self, form: Callable[[], Any], config: ConfigDict | None = None) -> TypeAdapter[Any] | None:
        """Build the adapter of a form of the annotation; None where it cannot be described."""
        if self.annotation in _UNDESCRIBED or _has_parts(self.annotation):
            return None
        from pydantic import TypeAdapter

        try:
            adapter: TypeAdapter[Any] = TypeAdapter(form(), config=config)
            # A model may use names that are not defined yet, or for type checkers only.
            is_complete = adapter.pydantic_complete or adapter.rebuild(
                raise_errors=False, _types_namespace=dict(self.names)
            )
        except Exception:  # noqa: BLE001  as above
            return None
        return adapter if is_complete else None


def resolve_result(annotation: Any) -> Any:
    """Resolve a return annotation to the type of the result: what is awaited, or a list of what is generated."""
    origin, args = get_origin(annotation), get_args(annotation)
    if origin in _AWAITABLES and args:
        return resolve_result(args[-1])
    return list[args[0]] if origin in _ITERATORS and args else annotation  # type: ignore[valid-type]


def _has_parts(annotation: Any) -> bool:
    """Check whether values may hold images, files or results, which are not sent as JSON."""
    return any(annotation is part for part in (Image, File, ToolResult)) or any(map(_has_parts, get_args(annotation)))


def _is_json(annotation: Any) -> bool:
    origin = get_origin(annotation)
    if origin is Annotated:
        return False
    return annotation in _JSON or (origin in (list, dict) and all(map(_is_json, get_args(annotation))))
