"""The properties of a hand-made JSON Schema: its own, and those that it has by its other keywords.

JSON Schema as plain data: what is noise in it, and what may stand in it.

Two JSON Schemas, of what is given and of what is wanted: in what they cannot agree.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from toolkit._messages import META
from toolkit._schema.validation.keywords import TYPES
from toolkit._schema.validation.references import Document, below
from toolkit.errors import DefinitionError

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
    from pydantic_core.core_schema import IsSubclassSchema, UnionSchema

# Keywords whose value maps names, chosen by the user, to schemas: a name there is never a keyword.
_NAMED = frozenset({"properties", "$defs", "definitions", "patternProperties", "dependentSchemas"})
# Keywords whose value is data, not a schema.
_DATA = frozenset({"default", "const", "enum", "examples", "example", "required", "dependentRequired", "$vocabulary"})


def map_schemas(schema: Any, rewrite: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    """Apply `rewrite` to every schema inside a schema, from the inside out, and give a new one."""
    if isinstance(schema, list):
        return [map_schemas(item, rewrite) for item in schema]
    if not isinstance(schema, (dict, Mapping)):  # a dict is told from other things several times faster
        return schema
    return rewrite({keyword: _inner(keyword, value, rewrite) for keyword, value in schema.items()})


def clean(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Drop titles, which repeat names, and defaults that are no JSON."""
    made: dict[str, Any] = map_schemas(schema, _plain)
    return made


def clean_all(definitions: Mapping[Any, Any]) -> dict[str, Any]:
    """Clean schemas by name."""
    return {name: clean(schema) for name, schema in definitions.items()}


@cache
def generator() -> type[GenerateJsonSchema]:
    """Make pydantic's generator, silent about defaults that JSON cannot show: they are left out on purpose."""
    from pydantic.json_schema import GenerateJsonSchema

    class Generator(GenerateJsonSchema):
        ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012  pydantic's own, set anew

        def is_subclass_schema(self, schema: IsSubclassSchema) -> JsonSchemaValue:
            return self.handle_invalid_for_json_schema(schema, "a class, which JSON has no form for")

        def union_schema(self, schema: UnionSchema) -> JsonSchemaValue:
            made = super().union_schema(schema)
            if made.get("anyOf") == []:  # each member was skipped
                return self.handle_invalid_for_json_schema(schema, "a union of what JSON has no form for")
            return made

    return Generator


def rename_definitions(schema: Mapping[str, Any], owner: str) -> dict[str, Any]:
    """Give the definitions of a schema names that no other owner uses."""
    whole: dict[str, Any] = map_schemas(schema, lambda node: _pointing_to(node, owner))
    if "$defs" in whole:
        whole["$defs"] = {f"{owner}.{name}": part for name, part in whole["$defs"].items()}
    return whole


def inline_root(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Put what a schema refers to as a whole in the place of the reference."""
    definitions = schema.get("$defs")
    if not isinstance(definitions, Mapping) or schema.keys() - {"$defs", "$ref", "$schema", "description", "title"}:
        return schema
    target = definitions.get(str(schema.get("$ref", "")).removeprefix("#/$defs/"))
    own = {keyword: value for keyword, value in schema.items() if keyword != "$ref"}
    return {**target, **own} if isinstance(target, Mapping) else schema


def object_schema(adapter: TypeAdapter[Any]) -> dict[str, Any]:
    """Make the JSON Schema of an object; an empty one of any other type. Only a type with members has `properties`."""
    schema = adapter.json_schema(schema_generator=generator())
    definitions = schema.get("$defs", {})
    root = {**definitions[schema["$ref"].rpartition("/")[2]], "$defs": definitions} if "$ref" in schema else schema
    front = {keyword: root[keyword] for keyword in ("type", "properties") if keyword in root}
    return clean({**front, **root}) if root.get("type") == "object" else {}


def json_default(default: Any) -> dict[str, Any]:
    """Write a default as the keyword `default`, or as nothing where JSON has no form for it."""
    from pydantic_core import PydanticSerializationError, to_jsonable_python

    try:
        value = to_jsonable_python(_in_order(default))
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except (PydanticSerializationError, ValueError, TypeError, RecursionError):
        return {}
    return {"default": value}


def _pointing_to(node: dict[str, Any], owner: str) -> dict[str, Any]:
    reference = node.get("$ref")
    if not isinstance(reference, str):
        return node
    return {**node, "$ref": reference.replace("#/$defs/", f"#/$defs/{owner}.", 1)}


def _in_order(value: Any) -> Any:
    """Put sets in an order that is the same in every process."""
    if isinstance(value, (set, frozenset)):
        from pydantic_core import to_json

        return sorted(map(_in_order, value), key=to_json)
    if type(value) in (list, tuple):
        return [_in_order(item) for item in value]
    return {key: _in_order(item) for key, item in value.items()} if type(value) is dict else value


def _plain(node: dict[str, Any]) -> dict[str, Any]:
    """Drop the title and a default that is no JSON; a default that was a set is put in order."""
    default = node.get("default")
    if isinstance(default, list) and any(kind.get("uniqueItems") for kind in node.get("anyOf", [node])):
        default = sorted(default, key=json.dumps)
    shown = json_default(default) if "default" in node else {}
    return {key: value for key, value in node.items() if key not in ("title", "default")} | shown


def _inner(keyword: str, value: Any, rewrite: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    if keyword in _NAMED and isinstance(value, (dict, Mapping)):
        return {name: map_schemas(schema, rewrite) for name, schema in value.items()}
    return value if keyword in _DATA else map_schemas(value, rewrite)


# Schemas may refer to themselves, in many places each time: so many levels are compared.
MAX_DEPTH = 3
# What stands beside branches, and says nothing that holds in each of them.
_NO_CONSTRAINTS = frozenset({"anyOf", "oneOf", "discriminator", "default", "title", "description", "examples", "$defs"})

_TYPES = MappingProxyType(
    {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null", list: "array", dict: "object"}
)


@dataclass(frozen=True)
class Part:
    """A part of a schema.

    Attributes:
        schema: The part itself.
        definitions: What it may refer to.
    """

    schema: Mapping[str, Any]
    definitions: Mapping[str, Any]

    @classmethod
    def of(cls, schema: Mapping[str, Any]) -> Part:
        """Take a schema as a whole."""
        definitions = schema.get("$defs", {})
        return cls(inline_root(schema), definitions)

    @property
    def required(self) -> Collection[str]:
        """The members that must be there."""
        found: Collection[str] = self.schema.get("required", ())
        return found

    @property
    def branches(self) -> Sequence[Part]:
        """The parts of which one holds; none where that is not said."""
        branches = self.schema.get("anyOf", self.schema.get("oneOf", ()))
        beside = {keyword: said for keyword, said in self.schema.items() if keyword not in _NO_CONSTRAINTS}
        return [self.inner({**beside, **(branch if isinstance(branch, Mapping) else {})}) for branch in branches]

    @property
    def values(self) -> Sequence[Any]:
        """The only values that may stand there; none where that is not said."""
        found: Sequence[Any] = self.schema.get("enum", [self.schema["const"]] if "const" in self.schema else [])
        return found

    @property
    def types(self) -> Sequence[str]:
        """The types that may stand there; none where that is not said."""
        said = self.schema.get("type", [])
        of_values = [_TYPES[type(value)] for value in self.values if type(value) in _TYPES]
        return list(dict.fromkeys(of_values)) or ([said] if isinstance(said, str) else said)

    @property
    def cases(self) -> Sequence[Part]:
        """The parts that may stand there, one by one: by branch, by value, by type."""
        by_value = [{"const": value} for value in self.values]
        by_type = [{"type": kind} for kind in self.types]
        without = {keyword: said for keyword, said in self.schema.items() if keyword not in ("enum", "type")}
        return self.branches or [Part({**without, **said}, self.definitions) for said in by_value or by_type] or [self]

    def or_null(self) -> Part:
        """Give a part that takes null as well."""
        return Part({"anyOf": [self.schema, {"type": "null"}]}, self.definitions)

    @property
    def properties(self) -> Mapping[str, Any]:
        """The members that it lists."""
        found: Mapping[str, Any] = self.schema.get("properties", {})
        return found

    def at(self, name: str) -> Part:
        """Give what is said of a member."""
        return self.inner(self.properties[name])

    def inner(self, schema: Any) -> Part:
        """Give a part of this part, what it refers to in the place of a reference."""
        shown = schema if isinstance(schema, Mapping) else {}
        return Part(inline_root({**shown, "$defs": self.definitions}), self.definitions)


def differs(given: Part, wanted: Part, depth: int = MAX_DEPTH) -> str:
    """Say in what two schemas cannot agree; nothing where that is not seen at once."""
    if given.branches or wanted.branches:
        return _between(given, wanted, depth - 1) if depth else ""
    if why := _of_values(given, wanted):
        return why
    if "properties" in given.schema:
        missing = next((name for name in wanted.required if name not in given.properties), None)
        if missing is not None:
            return f"it has no {missing!r}"
    return _inside(given, wanted, depth - 1) if depth else ""


def _between(given: Part, wanted: Part, depth: int) -> str:
    """Look for a case of what is given that agrees with no branch of what is wanted."""
    others = wanted.branches or [wanted]
    for one in given.cases:
        whys = [differs(one, other, depth) for other in others]
        if all(whys):
            return "; ".join(dict.fromkeys(whys))
    return ""


def _of_values(given: Part, wanted: Part) -> str:
    taken = {*wanted.types, *(["integer"] if "number" in wanted.types else [])}
    other = next((kind for kind in given.types if taken and kind not in taken), None)
    if other is not None:
        return f"{other}, and not {' or '.join(wanted.types)}"
    values = [(isinstance(value, bool), value) for value in wanted.values]  # True equals 1 in Python
    missing = [value for value in given.values if values and (isinstance(value, bool), value) not in values]
    return f"{missing[0]!r}, and not {' or '.join(map(repr, wanted.values))}" if missing else ""


def _inside(given: Part, wanted: Part, depth: int) -> str:
    for name in (each for each in given.properties if each in wanted.properties):
        if why := differs(given.at(name), wanted.at(name), depth):
            return f"{name}: {why}"
    items = given.schema.get("items", True), wanted.schema.get("items", True)
    why = differs(given.inner(items[0]), wanted.inner(items[1]), depth)
    return f"its items: {why}" if why else ""


# Keywords by which a schema lists properties elsewhere than in its own `properties`.
_ELSEWHERE = frozenset({"$ref", "allOf", "anyOf", "oneOf", "if", "dependentSchemas"})
# Those keywords, and what belongs to `if`, by what they hold.
_LISTS, _SCHEMAS = ("allOf", "anyOf", "oneOf"), ("if", "then", "else")
# Keywords whose value may look like a schema: it is one, holds some, or is data.
_OBJECTS = frozenset(
    {
        *("properties", "patternProperties", "additionalProperties", "unevaluatedProperties", "propertyNames"),
        *("items", "additionalItems", "unevaluatedItems", "contains", "contentSchema"),
        *("not", "if", "then", "else", "dependentSchemas", "dependentRequired", "dependencies", "definitions"),
        *("default", "const", "example", "examples", "discriminator"),
    }
)
# What a schema has and other objects hardly.
_TELLING = frozenset({"$ref", "const", "enum", "allOf", "anyOf", "oneOf", "properties"})


def forbid_extra(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Accept no other parameter than those listed, unless the schema says so: models invent some.

    Raises:
        DefinitionError: Its properties are none, or stand beside `properties`.
    """
    _refuse_beside(schema)
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if schema.keys() & _ELSEWHERE:
        return {**schema, "type": "object", "properties": properties}
    if not isinstance(required, list):
        raise DefinitionError(f"required={required!r} is no list of names.")
    missing = next((name for name in required if name not in [*properties]), None)
    if missing is not None:
        raise DefinitionError(f"{missing!r} is required and not among the properties. Add it, or drop it.")
    return {"additionalProperties": False, **schema, "type": "object", "properties": properties}


def _refuse_beside(schema: Mapping[str, Any]) -> None:
    """Refuse a parameter in the place of a keyword: as an unknown one it would say nothing.

    Raises:
        DefinitionError: There is one.
    """
    beside = next((key for key, value in schema.items() if _is_parameter(str(key), value)), None)
    if beside is not None:
        raise DefinitionError(
            f"{beside!r} stands beside the keywords of the schema. Put the parameters under properties: "
            f'{{"type": "object", "properties": {{"{beside}": ...}}}}.'
        )


def _is_parameter(key: str, value: Any) -> bool:
    if key in META:
        return True
    if not isinstance(value, dict) or key in _OBJECTS or key.startswith(("$", "x-")):
        return False
    kind = value.get("type")
    names = kind if isinstance(kind, list) else [kind]
    return not _TELLING.isdisjoint(value) or any(name in names for name in TYPES)


def find_outer_properties(document: Document, whole: Mapping[str, Any]) -> Iterator[str]:
    """List the properties that a schema has elsewhere than in its own `properties`.

    Args:
        document: The schema.
        whole: Its root, or what that refers to as a whole.

    Raises:
        DefinitionError: It refers to nothing.
    """
    waiting, seen = [""], set[str]()
    while waiting:
        place = waiting.pop()
        part = document.at(place)
        if isinstance(part, dict) and place not in seen:
            seen.add(place)
            waiting += _applied(document, place, part)
            own = part.get("properties", {})
            yield from () if own is whole.get("properties") else own


def _applied(document: Document, place: str, part: Mapping[str, Any]) -> Iterator[str]:
    """Point to the schemas that hold for the same object."""
    if "$ref" in part:
        yield document.target(part["$ref"], place)
    yield from (below(place, keyword) for keyword in _SCHEMAS if keyword in part)
    yield from (below(place, "dependentSchemas", name) for name in part.get("dependentSchemas", {}))
    yield from (below(place, keyword, at) for keyword in _LISTS for at in range(len(part.get(keyword, ()))))
