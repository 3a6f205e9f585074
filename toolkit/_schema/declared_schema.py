"""Argument and return schemas of declared tools: of a JSON Schema, of a type, and of two joined schemas."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast, get_origin

from pydantic_core import to_json
from typing_extensions import get_type_hints, is_typeddict

from toolkit._messages import OUTPUT
from toolkit._schema.core_schema import describe_object
from toolkit._schema.function_schema import ArgumentSchema, ReturnSchema, summarize_error
from toolkit._schema.json_mode import build_json_validator
from toolkit._schema.json_schema import rename_definitions, wrap_schema
from toolkit._schema.json_text import load_object
from toolkit.errors import DefinitionError

if TYPE_CHECKING:
    from pydantic import TypeAdapter


class ModelArguments(dict[str, Any]):
    """Members by name of `instance`: the model, dataclass or dict that the arguments were validated into."""

    def __init__(self, instance: Any) -> None:
        if isinstance(instance, dict):
            super().__init__(instance)
        elif is_dataclass(instance):
            super().__init__({member.name: getattr(instance, member.name) for member in fields(instance)})
        else:
            super().__init__({**vars(instance), **(getattr(instance, "model_extra", None) or {})})
        self.instance = instance


@dataclass(frozen=True, eq=False)
class DocumentSchema(ArgumentSchema):
    """Argument schema from a JSON Schema. Values are plain data."""

    document: dict[str, Any]

    @cached_property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema, unchanged."""
        return self.document

    @cached_property
    def validator(self) -> Callable[[str], dict[str, Any]]:
        """Function that turns JSON text into values by name.

        Raises:
            DefinitionError: The schema has a part that cannot be checked.
        """
        from toolkit._schema.validation.validator import build_validator  # slow to load; signatures do without it

        return build_validator(self.document)

    def check(self) -> None:
        """Check that a validator can be built, without keeping it: of thousands of tools, few are called.

        Raises:
            DefinitionError: The schema has a part that cannot be checked.
        """
        from toolkit._schema.validation.syntax import is_plain  # slow to load, as above

        if not is_plain(self.document):
            _ = replace(self).validator


@dataclass(frozen=True, eq=False)
class TypeSchema(ArgumentSchema):
    """Argument schema from a pydantic model, a dataclass or a TypedDict, whose members are the arguments."""

    kind: Any

    @cached_property
    def schema(self) -> dict[str, Any]:
        """JSON Schema of the type.

        Raises:
            DefinitionError: The type has no members.
        """
        schema = describe_object(self._adapter)
        if "properties" in schema:
            return {**schema, "additionalProperties": schema.get("additionalProperties", False)}
        raise DefinitionError(f"{self.kind!r} has no members: the input of a tool is a model, dataclass or TypedDict.")

    @cached_property
    def validator(self) -> Callable[[str], dict[str, Any]]:
        """Function that turns JSON text into `ModelArguments`."""
        validate = build_json_validator(self._adapter)
        return lambda text: ModelArguments(validate(text))

    @property
    def value_types(self) -> Mapping[str, Any]:
        """Annotations of the members."""
        with suppress(NameError, TypeError):  # a name of a local scope: such values are checked once more
            return get_type_hints(get_origin(self.kind) or self.kind, include_extras=True)
        return {}

    @property
    def undefined_names(self) -> Collection[str]:
        """Names of optional members of a TypedDict. A member of another type is required, or has a default."""
        return super().undefined_names if is_typeddict(get_origin(self.kind) or self.kind) else ()

    def to_plain(self, values: dict[str, Any], *, by_alias: bool) -> dict[str, Any]:
        """Convert the instance to plain data."""
        instance = cast("ModelArguments", values).instance
        document: dict[str, Any] = self._adapter.dump_python(instance, mode="json", by_alias=by_alias, round_trip=True)
        return document

    @property
    def value_names(self) -> Collection[str]:
        """Names of the members in Python, which may differ from those in JSON."""
        kind = get_origin(self.kind) or self.kind
        tables = (getattr(kind, name, None) for name in ("model_fields", "__dataclass_fields__", "__annotations__"))
        return [*next(filter(None, tables), self.schema["properties"])]

    @cached_property
    def _adapter(self) -> TypeAdapter[Any]:
        from pydantic import TypeAdapter

        try:
            adapter = TypeAdapter(self.kind)
            adapter.rebuild(raise_errors=True)
        except Exception as error:  # pydantic and user types raise what they like while a schema is built
            why = summarize_error(error)
            raise DefinitionError(f"{self.kind!r} is not a type that JSON can fill: {why}.") from error
        return adapter


@dataclass(frozen=True, eq=False)
class JoinedSchema(ArgumentSchema):
    """Argument schema that joins two others with different keys."""

    first: ArgumentSchema
    second: ArgumentSchema

    @cached_property
    def schema(self) -> dict[str, Any]:
        """JSON Schema of both, the first one's keys first."""
        first = rename_definitions(self.first.schema, "output")
        second = self.second.schema
        joined = {
            **second,
            "properties": {**first["properties"], **second["properties"]},
            "required": [*first.get("required", ()), *second.get("required", ())],
        }
        definitions = {**first.get("$defs", {}), **second.get("$defs", {})}
        return {**joined, "$defs": definitions} if definitions else joined

    @cached_property
    def validator(self) -> Callable[[str], dict[str, Any]]:
        """Function that turns JSON text into the values of both."""
        keys = self.first.schema["properties"].keys()

        def validate(text: str) -> dict[str, Any]:
            document = load_object(text)
            if document is None:
                return self.second.validator(text)  # raises
            values = self.second.validator(_dump_keys(document, document.keys() - keys))
            return {**self.first.validator(_dump_keys(document, keys & document.keys())), **values}

        return validate


def _dump_keys(document: Mapping[str, Any], keys: Iterable[str]) -> str:
    chosen = {*keys}
    return to_json({key: value for key, value in document.items() if key in chosen}, inf_nan_mode="constants").decode()


@dataclass(frozen=True, eq=False)
class ReturnDocument(ReturnSchema):
    """Return schema from a JSON Schema, or None if the value is not described."""

    document: dict[str, Any] | None

    @cached_property
    def schema(self) -> dict[str, Any] | None:
        """The JSON Schema, unchanged."""
        return self.document

    @cached_property
    def argument_schema(self) -> ArgumentSchema:
        """Argument schema of the value alone, as `_output`. Without a schema, it is a string."""
        return DocumentSchema(wrap_schema({"type": "string"} if self.document is None else self.document, OUTPUT))

    def check(self, value: Any) -> Any:
        """Validate a value by the schema, and return it as plain data. Without a schema, return the value itself."""
        if self.document is None:
            return value
        return self.argument_schema.validator(to_json({OUTPUT: value}).decode())[OUTPUT]
