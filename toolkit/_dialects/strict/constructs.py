"""What is sent of each construct of JSON Schema, and the codec that reads it back.

{"a": int, "b": int = 1}            {"a": int, "b": int | null}, or `b` optional where the provider allows that
{"a": int, **more}                  {"a": int, "additional_properties": [{"key", "value"}]}
{**more}                            [{"key", "value"}]
[int, str]                          {"item_1": int, "item_2": str}
oneOf, anyOf                        anyOf, where a document shows which alternative it is of
[{...}, {...}] that look alike      [{...}, {"option_2": {...}}]
a union where there is no anyOf     the widest of the alternatives, or JSON text
a reference                         a shared definition where the provider takes them, else its target
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import reduce
from itertools import chain, combinations
from typing import Any, TypeAlias, cast

from toolkit._dialects.strict.codecs import (
    KEY,
    OMIT,
    VALUE,
    Codec,
    ItemsCodec,
    ObjectCodec,
    PairsCodec,
    Property,
    ReferenceCodec,
    TupleCodec,
    UnionCodec,
    WrapperCodec,
)
from toolkit._dialects.strict.rules import describe_keyword, enum_kind, quote_json
from toolkit._dialects.strict.scope import (
    ANNOTATIONS,
    STRUCTURE,
    Part,
    Schema,
    Scope,
    add_alternative,
    add_null,
    make_free_name,
    without_null,
)
from toolkit._schema.json_schema import (
    are_disjoint,
    as_mapping,
    collect_references,
    is_valid,
    list_allowed_values,
    look_up,
)

# How often one definition is repeated inside itself where references are inlined; what lies deeper is JSON text.
MAX_DEPTH = 3
# More schemas than this are not rewritten one by one, as inlined references can multiply; the rest is JSON text.
MAX_PARTS = 2000

Construct: TypeAlias = Callable[[Scope, Schema, str], Part]

_OBJECT_KEYWORDS = frozenset(
    {"properties", "required", "additionalProperties", "patternProperties", "propertyNames", "description"}
)
_ARRAY_KEYWORDS = frozenset({"items", "prefixItems", "description"})
_TUPLE_KEYWORDS = _ARRAY_KEYWORDS | {"minItems", "maxItems", "additionalItems"}
_SCALARS = frozenset({"string", "boolean", "integer", "number", "null"})
_TYPE_NAMES = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}
_NULL = {"type": "null"}


def rewrite(scope: Scope, schema: Any, path: str) -> Part:
    """Rewrite one schema, by the first construct that it is."""
    scope.parts += 1
    if scope.parts > MAX_PARTS:
        return scope.make_text(schema, path, f"there are more than {MAX_PARTS} schemas before it")
    construct = _find_construct(schema) if isinstance(schema, Mapping) else None
    if construct is None:
        return scope.make_text(schema, path, "it may be anything")
    return construct(scope, schema, path)


def _find_construct(schema: Schema) -> Construct | None:
    if "$ref" in schema:
        return rewrite_reference
    if isinstance(schema.get("allOf"), list):
        return rewrite_all_of
    choices = schema.get("anyOf", schema.get("oneOf"))
    if isinstance(choices, list) and choices and not schema.keys() & STRUCTURE - {"$defs", "definitions"}:
        return rewrite_union
    if "const" in schema or "enum" in schema:
        return rewrite_enumeration
    kind = schema.get("type")
    if isinstance(kind, list) and kind:
        return rewrite_types
    if "type" not in schema:  # it is implied by what the schema is about
        kind = "object" if "properties" in schema else "array" if schema.keys() & {"items", "prefixItems"} else None
    return _BY_TYPE.get(kind) if isinstance(kind, str) else None


def rewrite_reference(scope: Scope, schema: Schema, path: str) -> Part:
    """Rewrite a reference: to a shared definition where the provider takes one, else to its target."""
    pointer = schema["$ref"]
    if not isinstance(look_up(scope.root, str(pointer)), Mapping):
        return scope.make_text(schema, path, f"{pointer!r} is not in the schema")
    if _is_inlined(scope, schema):
        with enter_reference(scope, schema) as target:
            if target is not schema:
                return rewrite(scope, target, path)
        name = pointer.rpartition("/")[2]
        return scope.make_text(schema, path, f"{name!r} lies more than {MAX_DEPTH} times inside itself")
    beside = {key: value for key, value in schema.items() if key != "$ref"}
    name = _define(scope, pointer)
    codec: Codec | None = scope.codecs[name] if name in scope.codecs else ReferenceCodec(name, scope.codecs)
    described = Part({}).describe(schema.get("description", "")).schema
    rest = scope.add_keywords(described, beside, path, ("description",))
    reference = {"$ref": f"#/$defs/{name}"}
    return Part({"anyOf": [reference], **rest} if rest else reference, codec)  # no keyword may stand beside $ref


def _is_inlined(scope: Scope, schema: Any) -> bool:
    """Return whether a schema is a reference that is replaced by its target."""
    if not isinstance(schema, Mapping) or "$ref" not in schema:
        return False
    pointer = schema["$ref"]
    target = look_up(scope.root, str(pointer))
    if not isinstance(target, Mapping):
        return False
    if pointer not in scope.recursive:
        scope.recursive[pointer] = pointer in collect_references(target, scope.root)
    kind = "recursive" if scope.recursive[pointer] else ""
    return not scope.rules.sends("$ref", kind) or bool(schema.keys() - ANNOTATIONS - {"$ref"})


@contextmanager
def enter_reference(scope: Scope, schema: Any) -> Iterator[Any]:
    """Yield the target of a reference that is inlined, unless it lies too deep inside itself; else the schema."""
    if not _is_inlined(scope, schema) or scope.entered.count(schema["$ref"]) >= MAX_DEPTH:
        yield schema
        return
    scope.entered.append(schema["$ref"])
    beside = {key: value for key, value in schema.items() if key != "$ref"}
    try:
        yield _merge_schemas(beside, look_up(scope.root, schema["$ref"]))
    finally:
        scope.entered.pop()


def _define(scope: Scope, pointer: str) -> str:
    """Rewrite a definition once, and return its name."""
    if pointer in scope.names:
        return scope.names[pointer]
    last = pointer.rpartition("/")[2].strip("#") or "root"
    name = scope.names[pointer] = scope.make_key(last, scope.names.values(), pointer)
    target = look_up(scope.root, pointer)
    # What is inside it may point to it. Until it is rewritten, its properties' names tell it from others.
    keys = list(as_mapping(target.get("properties")))
    required = target.get("required", ()) if scope.rules.sends("required", "partial") else keys
    is_outlined = keys and all(map(scope.is_legal_key, keys))
    scope.definitions[name] = scope.make_object({key: {} for key in keys}, required) if is_outlined else {}
    part = rewrite(scope, target, last)
    scope.definitions[name], scope.codecs[name] = part.schema, part.codec
    return name


def rewrite_all_of(scope: Scope, schema: Schema, path: str) -> Part:
    """Rewrite schemas that all hold to one."""
    whole: dict[str, Any] = {key: value for key, value in schema.items() if key != "allOf"}
    scope.add_note(path, "allOf is sent as one schema")
    with ExitStack() as references:
        for entry in schema["allOf"]:
            node = references.enter_context(enter_reference(scope, entry))
            whole = _merge_schemas(whole, node if isinstance(node, Mapping) else {})
        return rewrite(scope, whole, path)


def _merge_schemas(first: Schema, second: Schema) -> dict[str, Any]:
    """Merge two schemas that both hold; where they disagree the first one wins, and the result is wider."""
    both = {**second, **first}
    for keyword in ("properties", "patternProperties"):
        if keyword in first and keyword in second:
            one, other = first[keyword], second[keyword]
            different = [name for name in one if name in other and one[name] != other[name]]
            both[keyword] = {**one, **other, **{name: {"allOf": [one[name], other[name]]} for name in different}}
    if "required" in first and "required" in second:
        both["required"] = list(dict.fromkeys([*first["required"], *second["required"]]))
    return both


def rewrite_object(scope: Scope, schema: Schema, path: str) -> Part:
    """Rewrite an object: closed, open, or with nothing but free keys."""
    own = as_mapping(schema.get("properties"))
    if unknown := _conditional_names(schema) - own.keys():
        return scope.make_text(schema, path, f"{min(unknown)!r} is a property under some condition only")
    if is_open(schema) and not own and path:
        part = _rewrite_free_keys(scope, schema, path)
    elif not own and path and not scope.rules.sends("properties", "none"):
        return scope.make_text(schema, path, "the provider takes no object without properties")
    else:
        part = _rewrite_properties(scope, schema, path)
    description = " ".join(filter(None, (schema.get("description"), part.schema.get("description"))))
    target = {**part.schema, "description": description} if description else part.schema
    return Part(scope.add_keywords(target, schema, path, _OBJECT_KEYWORDS), part.codec)


def _conditional_names(schema: Schema) -> set[str]:
    """List the properties that a schema has only under a condition, such as those in `then`."""
    parts = [schema.get("then"), schema.get("else"), *as_mapping(schema.get("dependentSchemas")).values()]
    parts += [*schema.get("anyOf", ()), *schema.get("oneOf", ())]
    return {name for part in parts for name in as_mapping(as_mapping(part).get("properties"))}


def is_open(schema: Schema) -> bool:
    """Return whether an object may have keys that it does not list.

    One that lists properties and has no `additionalProperties` is taken as closed, as its author nearly always means
    it; pydantic ignores other keys.
    """
    if schema.get("patternProperties"):
        return True
    return schema.get("additionalProperties", "properties" not in schema) is not False


def _rewrite_free_keys(scope: Scope, schema: Schema, path: str) -> Part:
    """Rewrite the free keys of an object to an array of pairs."""
    scope.add_note(path, "sent as a list of key and value")
    patterns = as_mapping(schema.get("patternProperties"))
    others = schema.get("additionalProperties", not patterns)
    values = [*patterns.values(), *([] if others is False else [others])]
    union = True if True in values else {"anyOf": values}
    value = rewrite(scope, values[0] if len(values) == 1 else union, f"{path}.*".lstrip("."))
    key = rewrite(scope, {"type": "string", **as_mapping(schema.get("propertyNames"))}, f"{path} (keys)")
    key_schema = key.schema if key.codec is None and key.schema.get("type") == "string" else {"type": "string"}
    pair = scope.make_object({KEY: key_schema, VALUE: value.schema}, [KEY, VALUE])
    hint = f"Keys match the regular expression {' or '.join(map(quote_json, patterns))}." if patterns else ""
    part = Part({"type": "array", "items": pair}).describe("Each key once, with its value.", hint)
    return Part(part.schema, PairsCodec(value.codec))


def _rewrite_properties(scope: Scope, schema: Schema, path: str) -> Part:
    own, needed = as_mapping(schema.get("properties")), schema.get("required", ())
    sent: dict[str, Any] = {}
    required: list[str] = []
    changed: list[Property] = []
    for name, key in scope.map_keys(own, path).items():
        place = f"{path}.{name}".lstrip(".")
        if own[name] is False:
            scope.add_note(place, "left out: no value is valid")
            continue
        sent[key], property_, is_required = _rewrite_property(
            scope, Property(name, key), own[name], place, is_required=name in needed
        )
        required += [key] if is_required else []
        changed += [property_] if property_ != Property(name, name) else []
    if not is_open(schema):
        return Part(scope.make_object(sent, required), ObjectCodec(tuple(changed)) if changed else None)
    names = frozenset(own)
    rest, pairs = make_free_name("additional_properties", names | sent.keys()), _rewrite_free_keys(scope, schema, path)
    required += [] if scope.rules.sends("required", "partial") else [rest]
    codec = ObjectCodec(tuple(changed), rest, cast("PairsCodec", pairs.codec), names)
    return Part(scope.make_object({**sent, rest: pairs.schema}, required), codec)


def _rewrite_property(
    scope: Scope, property_: Property, schema: Any, path: str, *, is_required: bool
) -> tuple[dict[str, Any], Property, bool]:
    """Rewrite one property; return its schema, the property with its codec, and whether it is sent as required."""
    with enter_reference(scope, schema) as node:
        if isinstance(node, Mapping) and not scope.rules.sends("type", "null") and without_null(node) is not node:
            return _rewrite_without_null(scope, property_, node, path, is_required=is_required)
        part = rewrite(scope, node, path)
    if is_required or scope.rules.sends("required", "partial"):
        return part.schema, replace(property_, codec=part.codec), is_required
    if is_valid(schema, None, scope.root) and as_mapping(schema).get("default", schema) is not None:
        return _rewrite_with_mark(scope, property_, schema, path, part)
    scope.add_note(path, "optional, sent as nullable: null leaves it out")
    nullable = Part(add_null(part.schema)).describe("Send null to leave it out.")
    return nullable.schema, replace(property_, codec=part.codec, omission=(None,)), True


def _rewrite_with_mark(
    scope: Scope, property_: Property, schema: Any, path: str, part: Part
) -> tuple[dict[str, Any], Property, bool]:
    """Make an optional property required whose null is a value of its own: a mark leaves it out."""
    scope.add_note(path, f"optional, and null is a value: {quote_json(OMIT)} leaves it out")
    (name,) = OMIT
    mark = scope.make_object({name: {"type": "boolean", "enum": [True]}}, [name])
    if not are_disjoint(part.schema, mark, {"$defs": scope.definitions}):
        part = scope.make_text(schema, path, "it cannot be told from the mark")
    marked = Part(add_alternative(part.schema, mark)).describe(f"Send {quote_json(OMIT)} to leave it out.")
    return marked.schema, replace(property_, codec=part.codec, omission=(OMIT,)), True


def _rewrite_without_null(
    scope: Scope, property_: Property, schema: Schema, path: str, *, is_required: bool
) -> tuple[dict[str, Any], Property, bool]:
    """Make a nullable property optional where the provider has no null: leaving it out stands for null."""
    bare = without_null(schema)
    if bare is None or (not is_required and schema.get("default", schema) is not None):
        part = scope.make_text(schema, path, "the provider has no null")
        return part.schema, replace(property_, codec=part.codec), is_required
    part = rewrite(scope, bare, path)
    scope.add_note(path, "nullable, sent as optional: leaving it out means null")
    if is_required:
        described = part.describe("Left out, it is null.")
        return described.schema, replace(property_, codec=part.codec, absence=(None,)), False
    return part.schema, replace(property_, codec=part.codec, default=(None,)), False


def rewrite_array(scope: Scope, schema: Schema, path: str) -> Part:
    """Rewrite an array and its items."""
    if "prefixItems" in schema or isinstance(schema.get("items"), list):
        return _rewrite_tuple(scope, schema, path)
    item = rewrite(scope, schema.get("items", True), f"{path}[]")
    target = Part({"type": "array", "items": item.schema}).describe(schema.get("description", "")).schema
    codec = None if item.codec is None else ItemsCodec(item.codec)
    return Part(scope.add_keywords(target, schema, path, _ARRAY_KEYWORDS), codec)


def _rewrite_tuple(scope: Scope, schema: Schema, path: str) -> Part:
    """Rewrite an array whose items have types of their own to an object with a property for each."""
    first = schema.get("prefixItems", schema.get("items", []))
    tail = schema.get("items", True) if "prefixItems" in schema else schema.get("additionalItems", True)
    least = schema.get("minItems", 0)
    names = [f"item_{number}" for number in range(1, len(first) + 1)]
    is_endless = tail is not False and schema.get("maxItems", len(first) + 1) > len(first)
    more = {"more": {"type": "array", "items": tail}} if is_endless else {}
    listing = {
        "properties": {**dict(zip(names, first)), **more},
        "required": [*names[:least], *more],
        "additionalProperties": False,
    }
    scope.add_note(path, "a tuple, sent as an object with a property for each item")
    inner = _rewrite_properties(scope, listing, path)
    codec = TupleCodec(tuple(names), inner.codec, "more" if is_endless else None)
    target = Part(inner.schema).describe(schema.get("description", "")).schema
    return Part(scope.add_keywords(target, schema, path, _TUPLE_KEYWORDS), codec)


def rewrite_types(scope: Scope, schema: Schema, path: str) -> Part:
    """Rewrite a schema that lists several types."""
    kinds = schema["type"]
    if scope.rules.sends("type", "list") and _SCALARS.issuperset(kinds):
        return rewrite_scalar(scope, schema, path)
    annotations = {key: value for key, value in schema.items() if key in ANNOTATIONS}
    rest = {key: value for key, value in schema.items() if key not in ANNOTATIONS}
    return rewrite_union(scope, {"anyOf": [{**rest, "type": kind} for kind in kinds], **annotations}, path)


def rewrite_scalar(scope: Scope, schema: Schema, path: str) -> Part:
    """Rewrite a text, a number, a boolean or null."""
    if schema["type"] == "null" and not scope.rules.sends("type", "null"):
        return scope.make_text(schema, path, "the provider has no null")
    return Part(scope.add_keywords({"type": schema["type"]}, schema, path))


_BY_TYPE: Mapping[str, Construct] = {
    "object": rewrite_object,
    "array": rewrite_array,
    **dict.fromkeys(_SCALARS, rewrite_scalar),
}


def rewrite_enumeration(scope: Scope, schema: Schema, path: str) -> Part:
    """Rewrite a list of values, or the only one."""
    own_type = schema.get("type")
    values = [value for value in list_allowed_values(schema, []) if is_valid({"type": own_type}, value, {})]
    support = scope.rules.support("enum", enum_kind(values))
    if not values or support not in ("sent", "words"):
        return scope.make_text(schema, path, "the provider does not take such an enumeration")
    kinds = list(dict.fromkeys(_TYPE_NAMES[type(value)] for value in values))
    kind = own_type if isinstance(own_type, str) else kinds[0] if len(kinds) == 1 else kinds
    target = scope.add_keywords({"type": kind}, schema, path)
    if support == "words":
        scope.add_note(path, "enum goes into the description")
        return Part(target).describe(describe_keyword("enum", values))
    is_constant = "const" in schema and scope.rules.sends("const")
    return Part({**target, **({"const": values[0]} if is_constant else {"enum": values})})


def rewrite_union(scope: Scope, schema: Schema, path: str) -> Part:
    """Rewrite a union to `anyOf`, which is no different from `oneOf` where a document is of one alternative alone."""
    listed = schema.get("anyOf", schema.get("oneOf"))
    others = [choice for choice in listed if choice not in (False, _NULL)]
    has_null = _NULL in listed
    if not others or (has_null and not scope.rules.sends("type", "null")):
        return scope.make_text(schema, path, "the provider has no null")
    before = dict(scope.notes)
    part = _join_alternatives(scope, others, path)
    if isinstance(part, str):
        scope.notes = before
        return scope.make_text(schema, path, part)
    if "oneOf" in schema:
        scope.add_note(path, "oneOf is sent as anyOf")
    target = add_null(part.schema) if has_null else part.schema
    return Part(scope.add_keywords(target, schema, path, ("anyOf", "oneOf")), part.codec)


def _join_alternatives(scope: Scope, alternatives: Sequence[Any], path: str) -> Part | str:
    """Rewrite alternatives other than null; return the reason where they have to be JSON text."""
    parts = [rewrite(scope, choice, path) for choice in alternatives]
    if len(parts) == 1:
        return parts[0]
    if not scope.rules.sends("anyOf"):
        return _find_widest(parts) or "the provider knows no unions"
    parts = _wrap_alike(scope, parts, path)
    if not all(one.codec == other.codec or _are_apart(scope, one, other) for one, other in combinations(parts, 2)):
        return "its alternatives look alike"
    choices = (part.schema["anyOf"] if part.schema.keys() == {"anyOf"} else [part.schema] for part in parts)
    joined = {"anyOf": [*chain.from_iterable(choices)]}
    codecs = tuple(part.codec for part in parts)
    if all(codec == codecs[0] for codec in codecs):
        return Part(joined, codecs[0])
    sent = tuple(part.schema for part in parts)
    return Part(joined, UnionCodec(sent, tuple(alternatives), codecs, {"$defs": scope.definitions}, scope.root))


def _wrap_alike(scope: Scope, parts: Sequence[Part], path: str) -> list[Part]:
    """Wrap each alternative that has a codec and looks like another one into an object of its own."""
    wrapped: list[Part] = []
    for number, part in enumerate(parts, 1):
        is_alike = any(other.codec != part.codec and not _are_apart(scope, part, other) for other in parts)
        if is_alike and part.codec is not None:
            key = f"option_{number}"
            scope.add_note(path, f"an alternative is wrapped as {key!r}, for it looks like another one")
            part = Part(scope.make_object({key: part.schema}, [key]), WrapperCodec(key, part.codec))
        wrapped.append(part)
    return wrapped


def _are_apart(scope: Scope, one: Part, other: Part) -> bool:
    return are_disjoint(one.schema, other.schema, {"$defs": scope.definitions})


def _find_widest(parts: Sequence[Part]) -> Part | None:
    """Find one type that takes every alternative: the same one, number for integer, one enumeration for two."""
    if any(part.codec is not None for part in parts):
        return None
    first, *others = (part.schema for part in parts)
    widest: dict[str, Any] | None = first
    widest = reduce(_widen, others, widest)
    return None if widest is None else Part(widest)


def _widen(one: dict[str, Any] | None, other: dict[str, Any]) -> dict[str, Any] | None:
    if one is None or one == other:
        return one
    if one.keys() == other.keys() == {"type", "enum"} and one["type"] == other["type"]:
        return {"type": one["type"], "enum": list(dict.fromkeys([*one["enum"], *other["enum"]]))}
    are_numbers = {str(one.get("type")), str(other.get("type"))} == {"integer", "number"}
    return {"type": "number"} if are_numbers and one.keys() | other.keys() <= {"type", "description"} else None
