"""pydantic's generator of JSON Schema, with what it leaves out. It is slow to load."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, Flag
from functools import partial
from inspect import cleandoc, iscoroutinefunction
from typing import TYPE_CHECKING, Any
from uuid import UUID

from pydantic.errors import PydanticInvalidForJsonSchema
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import PydanticOmit, SchemaValidator
from typing_extensions import get_type_hints, override

from toolkit._schema.docstrings import find_field_text, parse_docstring, read_field_texts
from toolkit._schema.json_schema import Schema, UnusableType, find_flag_bounds, list_allowed_values

if TYPE_CHECKING:
    from pydantic_core.core_schema import (
        DataclassSchema,
        DictSchema,
        EnumSchema,
        IsSubclassSchema,
        ModelSchema,
        NamedTupleSchema,
        TaggedUnionSchema,
        TypedDictSchema,
        UnionSchema,
    )

# Texts for error messages about types without a JSON Schema, by the type of the core schema.
_UNWRITABLE = {
    "callable": "a function",
    "union": "any of the union",
    "function-plain": "a type with its own validator; derive a model of pydantic.v1 from pydantic.BaseModel instead",
}


class Generator(GenerateJsonSchema):
    """pydantic's generator with clear errors, with constraints and texts that it leaves out, and no warnings."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012  pydantic's own, set again

    @override
    def handle_invalid_for_json_schema(self, schema: Any, error_info: str) -> JsonSchemaValue:
        kind = getattr(schema.get("cls"), "__qualname__", schema.get("cls")) or _UNWRITABLE.get(schema["type"])
        raise PydanticInvalidForJsonSchema(f"JSON cannot represent {kind or schema['type']}")

    @override
    def is_subclass_schema(self, schema: IsSubclassSchema) -> JsonSchemaValue:
        raise PydanticInvalidForJsonSchema("JSON cannot represent a class")

    @override
    def generate_inner(self, schema: Any) -> JsonSchemaValue:
        _refuse_misplaced(schema)
        if self.mode == "validation":
            _refuse_async(schema)
        generated = super().generate_inner(schema)
        generated.update({key: float(value) for key, value in generated.items() if isinstance(value, Decimal)})
        return _write_constraints(schema, generated)

    @override
    def field_is_present(self, field: Any) -> bool:
        is_argument = field.get("init", True)  # False after dataclasses.field(init=False)
        return (self.mode == "serialization" or is_argument) and super().field_is_present(field)

    @override
    def model_field_schema(self, schema: Any) -> JsonSchemaValue:
        return _omit_unfit(self._write_field, schema, self.mode)

    def _write_field(self, field: Any) -> JsonSchemaValue:
        is_named = self._config.validate_by_name or self.mode == "serialization"
        if not is_named and _is_path(field.get("validation_alias")):
            raise PydanticInvalidForJsonSchema("the alias of a field is a path into the document")
        return super().model_field_schema(field)

    dataclass_field_schema = typed_dict_field_schema = model_field_schema  # pydantic's three are equal

    @override
    def model_schema(self, schema: ModelSchema) -> JsonSchemaValue:
        return _add_texts(super().model_schema(schema), schema["cls"])

    @override
    def dataclass_schema(self, schema: DataclassSchema) -> JsonSchemaValue:
        return _add_texts(super().dataclass_schema(schema), schema["cls"])

    @override
    def typed_dict_schema(self, schema: TypedDictSchema) -> JsonSchemaValue:
        return _add_texts(super().typed_dict_schema(schema), schema.get("cls"))

    @override
    def named_tuple_schema(self, schema: NamedTupleSchema) -> JsonSchemaValue:
        return _name_items(super().named_tuple_schema(schema), schema["cls"])

    @override
    def dict_schema(self, schema: DictSchema) -> JsonSchemaValue:
        generated = super().dict_schema(schema)
        keys = schema.get("keys_schema", {"type": "any"})
        names = self.resolve_ref_schema(self.generate_inner(keys))
        is_parsed = self.mode == "serialization" or keys["type"].startswith("function-")
        if names.get("type") in ("array", "object") and not is_parsed:
            raise PydanticInvalidForJsonSchema("the keys of an object are texts in JSON")
        return generated | _write_keys(generated, names)

    @override
    def enum_schema(self, schema: EnumSchema) -> JsonSchemaValue:
        is_flag = issubclass(schema["cls"], Flag) and schema["members"]
        return _write_flag(schema["cls"]) if is_flag else _name_members(super().enum_schema(schema), schema["cls"])

    @override
    def tagged_union_schema(self, schema: TaggedUnionSchema) -> JsonSchemaValue:
        generated = super().tagged_union_schema(schema)
        if callable(schema["discriminator"]):  # it chooses, though several members may match
            generated["anyOf"] = generated.pop("oneOf")
        return generated

    @override
    def union_schema(self, schema: UnionSchema) -> JsonSchemaValue:
        generated = super().union_schema(schema)
        is_empty = generated.get("anyOf") == []  # each member was skipped
        return self.handle_invalid_for_json_schema(schema, "") if is_empty else generated


def _is_path(alias: Any) -> bool:
    """Return whether a field has only paths into the document as aliases, which JSON Schema cannot express."""
    return isinstance(alias, list) and all(not isinstance(path, list) or len(path) > 1 for path in alias)


def _omit_unfit(generate: Callable[[Any], JsonSchemaValue], field: Any, mode: str) -> JsonSchemaValue:
    """Generate the JSON Schema of a field. Leave out a field of arguments with a default if no JSON can fill it."""
    try:
        return generate(field)
    except PydanticInvalidForJsonSchema:
        if field["schema"]["type"] == "default" and mode == "validation":
            raise PydanticOmit from None
        raise


# Values on which pydantic's constraints are tried, by the type of the core schema.
_EMPTY: tuple[Any, ...] = ("", b"", [], (), {}, set(), frozenset(), deque())
_LEAST: tuple[Any, ...] = (0, 0.0, False, Decimal(), UUID(int=0), date.min, datetime.min, time.min, timedelta())
_SAMPLES = {type(sample).__name__.lower(): sample for sample in (*_EMPTY, *_LEAST)}


def _refuse_misplaced(core: Mapping[str, Any]) -> None:
    """Refuse a constraint that a type cannot have, such as the length of a number."""
    inner, *checks = core.get("steps") or [core.get("schema"), {**core, "schema": {"type": "any"}}]
    if core["type"] not in ("function-after", "chain") or inner["type"] not in _SAMPLES:
        return
    for check in filter(_is_constraint, checks):
        if check["type"] == "function-after" and not isinstance(check["function"]["function"], partial):
            continue  # a predicate, which need not take the sample
        with suppress(ValueError):  # the type can have the constraint, and the sample does not meet it
            try:
                SchemaValidator(check).validate_python(_SAMPLES[inner["type"]])
            except TypeError as error:
                name = str(error).partition("'")[2].partition("'")[0]
                raise UnusableType(f"{name} is no constraint of {inner['type']}") from error


def _refuse_async(core: Mapping[str, Any]) -> None:
    """Refuse an async validator: pydantic would take its coroutine for the value."""
    function = core["function"]["function"] if core["type"].startswith("function-") else None
    if iscoroutinefunction(function):
        raise UnusableType(f"its validator {getattr(function, '__name__', '')!r} is async, and would not be awaited")


def _is_constraint(core: Any) -> bool:
    """Return whether a core schema is a constraint that pydantic checks by a function, such as one of a union."""
    function = core.get("function", {}).get("function")
    return str(getattr(getattr(function, "func", function), "__module__", "")).startswith("pydantic.")


def _is_about_json(core: Any) -> bool:
    """Return whether a constraint is about the value in JSON, and not about what a function makes of it."""
    while (core["type"] == "function-after" and _is_constraint(core)) or (
        core["type"] == "function-before" and "json_schema_input_schema" not in core
    ):
        core = core["schema"]
    return not core["type"].startswith("function-")


# Keywords of JSON Schema by pydantic's names of constraints, for each type.
_NUMBER = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
    "multiple_of": "multipleOf",
}
_BOUND_NAMES: Mapping[Any, Mapping[str, str]] = {
    "integer": _NUMBER,
    "number": _NUMBER,
    "string": {"minLength": "minLength", "maxLength": "maxLength"},
    "array": {"minLength": "minItems", "maxLength": "maxItems"},
    "object": {"minLength": "minProperties", "maxLength": "maxProperties"},
}


def _write_constraints(core: Any, generated: JsonSchemaValue) -> JsonSchemaValue:
    """Rename a constraint, which pydantic writes by its own name, to the keyword of a type or of a union's members."""
    if core["type"] != "function-after" or not _is_constraint(core):
        return generated

    bounds = {name: generated.pop(name) for name in (*_NUMBER, "minLength", "maxLength") if name in generated}
    is_about_json = _is_about_json(core)
    for member in generated.get("anyOf", [generated]):
        names = _BOUND_NAMES.get(member.get("type"), {})
        written = {
            keyword: bounds[name]
            for name, keyword in names.items()
            if isinstance(bounds.get(name), (int, float)) and (is_about_json or name not in _NUMBER)
        }
        member.update({**written, **member})

    return generated


def _write_flag(kind: type[Flag]) -> JsonSchemaValue:
    """Write a flag as a number, the sum of any of its members. A docstring of its class replaces the description."""
    least, most = find_flag_bounds(kind)
    text = f"The sum of any of: {_list_members(kind)}."
    return {"type": "integer", "minimum": least, "maximum": most, "description": text}


def _name_members(generated: JsonSchemaValue, kind: type[Enum]) -> JsonSchemaValue:
    """Describe an enum whose values are no texts by the names of its members. A docstring replaces that, too."""
    return generated if generated.get("type") == "string" else {**generated, "description": f"{_list_members(kind)}."}


def _list_members(kind: type[Enum]) -> str:
    return ", ".join(f"{json.dumps(member.value, default=str)} ({name})" for name, member in kind.__members__.items())


def _add_texts(generated: JsonSchemaValue, kind: Any) -> JsonSchemaValue:
    """Add the texts about fields that pydantic leaves out: those in the annotations and the docstring of a class."""
    properties = generated.get("properties", {})
    fields = getattr(kind, "__pydantic_fields__", None)
    entries = _move_entries(generated, properties if fields is None else fields)
    texts = read_field_texts(kind, entries)
    if properties and fields is None:  # a TypedDict, or a dataclass that is not pydantic's
        texts = entries | _read_texts(kind)
    for name, text in texts.items():
        if name in properties and text not in [part.get("description") for part in properties[name].get("anyOf", ())]:
            properties[name] = {"description": text, **properties[name]}
    return generated


def _move_entries(generated: JsonSchemaValue, names: Collection[str]) -> dict[str, str]:
    """Return the texts of a docstring about fields, and remove them from it, unless it has other entries, too."""
    parsed = parse_docstring(generated.get("description"), names)
    entries = {**parsed.attributes, **parsed.parameters}
    if entries and entries.keys() <= set(names) and not (parsed.returns or parsed.raises or parsed.examples):
        del generated["description"]
        if parsed.description:
            generated["description"] = parsed.description
    return entries


def _name_items(generated: JsonSchemaValue, kind: Any) -> JsonSchemaValue:
    """Describe a named tuple by its docstring, and its items by texts about them, or else by their names."""
    names = getattr(kind, "_fields", ())
    docstring = getattr(kind, "__doc__", None)
    if docstring and not docstring.startswith(f"{kind.__name__}("):  # Python's own
        generated["description"] = cleandoc(docstring)
    texts = _move_entries(generated, names) | _read_texts(kind)
    for name, item in zip(names, generated.get("prefixItems", ())):
        item.setdefault("description", texts.get(name) or name)
    return generated


def _read_texts(kind: Any) -> dict[str, str]:
    """Return the texts in the annotations of a class, by the names of its fields."""
    try:
        hints = get_type_hints(kind, include_extras=True)
    except Exception:  # noqa: BLE001  an annotation is code of the user's, or has a name of a local scope
        return {}
    return {name: text for name, hint in hints.items() if (text := find_field_text(hint))}


def _write_keys(generated: JsonSchemaValue, names: Schema) -> dict[str, Any]:
    """Return keywords for the keys of a dict, which are texts in JSON. With a pattern, no other keys are allowed."""
    if "patternProperties" in generated:
        return {"additionalProperties": False}
    values = list_allowed_values(names, [])
    if not values and names.get("type") == "integer" and "propertyNames" in generated:  # a flag
        return {"propertyNames": {"pattern": "^[0-9]+$"}}
    if all(isinstance(value, str) for value in values):
        return {}
    return {"propertyNames": {"enum": [value if isinstance(value, str) else json.dumps(value) for value in values]}}
