"""The form in which each construct of JSON Schema is sent, and the codec that reads it back.

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
from toolkit._dialects.strict.state import (
    ANNOTATIONS,
    STRUCTURE,
    Part,
    RewriteState,
    Schema,
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

Construct: TypeAlias = Callable[[RewriteState, Schema, str], Part]

_OBJECT_KEYWORDS = frozenset(
    {"properties", "required", "additionalProperties", "patternProperties", "propertyNames", "description"}
)
_ARRAY_KEYWORDS = frozenset({"items", "prefixItems", "description"})
_TUPLE_KEYWORDS = _ARRAY_KEYWORDS | {"minItems", "maxItems", "additionalItems"}
_SCALARS = frozenset({"string", "boolean", "integer", "number", "null"})
_TYPE_NAMES = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}
_NULL = {"type": "null"}


def rewrite(state: RewriteState, schema: Any, path: str) -> Part:
    """Rewrite one schema, by the first construct that it is."""
    state.parts += 1
    if state.parts > MAX_PARTS:
        return state.make_text(schema, path, f"there are more than {MAX_PARTS} schemas before it")
    construct = _find_construct(schema) if isinstance(schema, Mapping) else None
    if construct is None:
        return state.make_text(schema, path, "it may be anything")
    return construct(state, schema, path)


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


def rewrite_reference(state: RewriteState, schema: Schema, path: str) -> Part:
    """Rewrite a reference: to a shared definition where the provider takes one, else to its target."""
    pointer = schema["$ref"]
    if not isinstance(look_up(state.root, str(pointer)), Mapping):
        return state.make_text(schema, path, f"{pointer!r} is not in the schema")
    if _is_inlined(state, schema):
        with enter_reference(state, schema) as target:
            if target is not schema:
                return rewrite(state, target, path)
        name = pointer.rpartition("/")[2]
        return state.make_text(schema, path, f"{name!r} lies more than {MAX_DEPTH} times inside itself")
    beside = {key: value for key, value in schema.items() if key != "$ref"}
    name = _define(state, pointer)
    codec: Codec | None = state.codecs[name] if name in state.codecs else ReferenceCodec(name, state.codecs)
    described = Part({}).describe(schema.get("description", "")).schema
    rest = state.add_keywords(described, beside, path, ("description",))
    reference = {"$ref": f"#/$defs/{name}"}
    return Part({"anyOf": [reference], **rest} if rest else reference, codec)  # no keyword may stand beside $ref


def _is_inlined(state: RewriteState, schema: Any) -> bool:
    """Return whether a schema is a reference that is replaced by its target."""
    if not isinstance(schema, Mapping) or "$ref" not in schema:
        return False
    pointer = schema["$ref"]
    target = look_up(state.root, str(pointer))
    if not isinstance(target, Mapping):
        return False
    if pointer not in state.recursive:
        state.recursive[pointer] = pointer in collect_references(target, state.root)
    kind = "recursive" if state.recursive[pointer] else ""
    return not state.rules.sends("$ref", kind) or bool(schema.keys() - ANNOTATIONS - {"$ref"})


@contextmanager
def enter_reference(state: RewriteState, schema: Any) -> Iterator[Any]:
    """Yield the target of a reference that is inlined, unless it lies too deep inside itself; else the schema."""
    if not _is_inlined(state, schema) or state.entered.count(schema["$ref"]) >= MAX_DEPTH:
        yield schema
        return
    state.entered.append(schema["$ref"])
    beside = {key: value for key, value in schema.items() if key != "$ref"}
    try:
        yield _merge_schemas(beside, look_up(state.root, schema["$ref"]))
    finally:
        state.entered.pop()


def _define(state: RewriteState, pointer: str) -> str:
    """Rewrite a definition once, and return its name."""
    if pointer in state.names:
        return state.names[pointer]
    last = pointer.rpartition("/")[2].strip("#") or "root"
    name = state.names[pointer] = state.make_key(last, state.names.values(), pointer)
    target = look_up(state.root, pointer)
    # What is inside it may point to it. Until it is rewritten, its properties' names tell it from others.
    keys = list(as_mapping(target.get("properties")))
    required = target.get("required", ()) if state.rules.sends("required", "partial") else keys
    is_outlined = keys and all(map(state.is_legal_key, keys))
    state.definitions[name] = state.make_object({key: {} for key in keys}, required) if is_outlined else {}
    part = rewrite(state, target, last)
    state.definitions[name], state.codecs[name] = part.schema, part.codec
    return name


def rewrite_all_of(state: RewriteState, schema: Schema, path: str) -> Part:
    """Rewrite schemas that all hold to one."""
    whole: dict[str, Any] = {key: value for key, value in schema.items() if key != "allOf"}
    state.add_note(path, "allOf is sent as one schema")
    with ExitStack() as references:
        for entry in schema["allOf"]:
            node = references.enter_context(enter_reference(state, entry))
            whole = _merge_schemas(whole, node if isinstance(node, Mapping) else {})
        return rewrite(state, whole, path)


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


def rewrite_object(state: RewriteState, schema: Schema, path: str) -> Part:
    """Rewrite an object: closed, open, or with nothing but free keys."""
    own = as_mapping(schema.get("properties"))
    if unknown := _conditional_names(schema) - own.keys():
        return state.make_text(schema, path, f"{min(unknown)!r} is a property under some condition only")
    if is_open(schema) and not own and path:
        part = _rewrite_free_keys(state, schema, path)
    elif not own and path and not state.rules.sends("properties", "none"):
        return state.make_text(schema, path, "the provider takes no object without properties")
    else:
        part = _rewrite_properties(state, schema, path)
    description = " ".join(filter(None, (schema.get("description"), part.schema.get("description"))))
    target = {**part.schema, "description": description} if description else part.schema
    return Part(state.add_keywords(target, schema, path, _OBJECT_KEYWORDS), part.codec)


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


def _rewrite_free_keys(state: RewriteState, schema: Schema, path: str) -> Part:
    """Rewrite the free keys of an object to an array of pairs."""
    state.add_note(path, "sent as a list of key and value")
    patterns = as_mapping(schema.get("patternProperties"))
    others = schema.get("additionalProperties", not patterns)
    values = [*patterns.values(), *([] if others is False else [others])]
    union = True if True in values else {"anyOf": values}
    value = rewrite(state, values[0] if len(values) == 1 else union, f"{path}.*".lstrip("."))
    key = rewrite(state, {"type": "string", **as_mapping(schema.get("propertyNames"))}, f"{path} (keys)")
    key_schema = key.schema if key.codec is None and key.schema.get("type") == "string" else {"type": "string"}
    pair = state.make_object({KEY: key_schema, VALUE: value.schema}, [KEY, VALUE])
    hint = f"Keys match the regular expression {' or '.join(map(quote_json, patterns))}." if patterns else ""
    part = Part({"type": "array", "items": pair}).describe("Each key once, with its value.", hint)
    return Part(part.schema, PairsCodec(value.codec))


def _rewrite_properties(state: RewriteState, schema: Schema, path: str) -> Part:
    own, needed = as_mapping(schema.get("properties")), schema.get("required", ())
    sent: dict[str, Any] = {}
    required: list[str] = []
    changed: list[Property] = []
    for name, key in state.map_keys(own, path).items():
        place = f"{path}.{name}".lstrip(".")
        if own[name] is False:
            state.add_note(place, "left out: no value is valid")
            continue
        sent[key], property_, is_required = _rewrite_property(
            state, Property(name, key), own[name], place, is_required=name in needed
        )
        required += [key] if is_required else []
        changed += [property_] if property_ != Property(name, name) else []
    if not is_open(schema):
        return Part(state.make_object(sent, required), ObjectCodec(tuple(changed)) if changed else None)
    names = frozenset(own)
    rest, pairs = make_free_name("additional_properties", names | sent.keys()), _rewrite_free_keys(state, schema, path)
    required += [] if state.rules.sends("required", "partial") else [rest]
    codec = ObjectCodec(tuple(changed), rest, cast("PairsCodec", pairs.codec), names)
    return Part(state.make_object({**sent, rest: pairs.schema}, required), codec)


def _rewrite_property(
    state: RewriteState, property_: Property, schema: Any, path: str, *, is_required: bool
) -> tuple[dict[str, Any], Property, bool]:
    """Rewrite one property; return its schema, the property with its codec, and whether it is sent as required."""
    with enter_reference(state, schema) as node:
        if isinstance(node, Mapping) and not state.rules.sends("type", "null") and without_null(node) is not node:
            return _rewrite_without_null(state, property_, node, path, is_required=is_required)
        part = rewrite(state, node, path)
    if is_required or state.rules.sends("required", "partial"):
        return part.schema, replace(property_, codec=part.codec), is_required
    if is_valid(schema, None, state.root) and as_mapping(schema).get("default", schema) is not None:
        return _rewrite_with_mark(state, property_, schema, path, part)
    state.add_note(path, "optional, sent as nullable: null leaves it out")
    nullable = Part(add_null(part.schema)).describe("Send null to leave it out.")
    return nullable.schema, replace(property_, codec=part.codec, omission=(None,)), True


def _rewrite_with_mark(
    state: RewriteState, property_: Property, schema: Any, path: str, part: Part
) -> tuple[dict[str, Any], Property, bool]:
    """Make an optional property required whose null is a value of its own: a mark leaves it out."""
    state.add_note(path, f"optional, and null is a value: {quote_json(OMIT)} leaves it out")
    (name,) = OMIT
    mark = state.make_object({name: {"type": "boolean", "enum": [True]}}, [name])
    if not are_disjoint(part.schema, mark, {"$defs": state.definitions}):
        part = state.make_text(schema, path, "it cannot be told from the mark")
    marked = Part(add_alternative(part.schema, mark)).describe(f"Send {quote_json(OMIT)} to leave it out.")
    return marked.schema, replace(property_, codec=part.codec, omission=(OMIT,)), True


def _rewrite_without_null(
    state: RewriteState, property_: Property, schema: Schema, path: str, *, is_required: bool
) -> tuple[dict[str, Any], Property, bool]:
    """Make a nullable property optional where the provider has no null: leaving it out stands for null."""
    bare = without_null(schema)
    if bare is None or (not is_required and schema.get("default", schema) is not None):
        part = state.make_text(schema, path, "the provider has no null")
        return part.schema, replace(property_, codec=part.codec), is_required
    part = rewrite(state, bare, path)
    state.add_note(path, "nullable, sent as optional: leaving it out means null")
    if is_required:
        described = part.describe("Left out, it is null.")
        return described.schema, replace(property_, codec=part.codec, absence=(None,)), False
    return part.schema, replace(property_, codec=part.codec, default=(None,)), False


def rewrite_array(state: RewriteState, schema: Schema, path: str) -> Part:
    """Rewrite an array and its items."""
    if "prefixItems" in schema or isinstance(schema.get("items"), list):
        return _rewrite_tuple(state, schema, path)
    item = rewrite(state, schema.get("items", True), f"{path}[]")
    target = Part({"type": "array", "items": item.schema}).describe(schema.get("description", "")).schema
    codec = None if item.codec is None else ItemsCodec(item.codec)
    return Part(state.add_keywords(target, schema, path, _ARRAY_KEYWORDS), codec)


def _rewrite_tuple(state: RewriteState, schema: Schema, path: str) -> Part:
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
    state.add_note(path, "a tuple, sent as an object with a property for each item")
    inner = _rewrite_properties(state, listing, path)
    codec = TupleCodec(tuple(names), inner.codec, "more" if is_endless else None)
    target = Part(inner.schema).describe(schema.get("description", "")).schema
    return Part(state.add_keywords(target, schema, path, _TUPLE_KEYWORDS), codec)


def rewrite_types(state: RewriteState, schema: Schema, path: str) -> Part:
    """Rewrite a schema that lists several types."""
    kinds = schema["type"]
    if state.rules.sends("type", "list") and _SCALARS.issuperset(kinds):
        return rewrite_scalar(state, schema, path)
    annotations = {key: value for key, value in schema.items() if key in ANNOTATIONS}
    rest = {key: value for key, value in schema.items() if key not in ANNOTATIONS}
    return rewrite_union(state, {"anyOf": [{**rest, "type": kind} for kind in kinds], **annotations}, path)


def rewrite_scalar(state: RewriteState, schema: Schema, path: str) -> Part:
    """Rewrite a text, a number, a boolean or null."""
    if schema["type"] == "null" and not state.rules.sends("type", "null"):
        return state.make_text(schema, path, "the provider has no null")
    return Part(state.add_keywords({"type": schema["type"]}, schema, path))


_BY_TYPE: Mapping[str, Construct] = {
    "object": rewrite_object,
    "array": rewrite_array,
    **dict.fromkeys(_SCALARS, rewrite_scalar),
}


def rewrite_enumeration(state: RewriteState, schema: Schema, path: str) -> Part:
    """Rewrite a list of values, or the only one."""
    own_type = schema.get("type")
    values = [value for value in list_allowed_values(schema, []) if is_valid({"type": own_type}, value, {})]
    support = state.rules.support("enum", enum_kind(values))
    if not values or support not in ("sent", "words"):
        return state.make_text(schema, path, "the provider does not take such an enumeration")
    kinds = list(dict.fromkeys(_TYPE_NAMES[type(value)] for value in values))
    kind = own_type if isinstance(own_type, str) else kinds[0] if len(kinds) == 1 else kinds
    target = state.add_keywords({"type": kind}, schema, path)
    if support == "words":
        state.add_note(path, "enum goes into the description")
        return Part(target).describe(describe_keyword("enum", values))
    is_constant = "const" in schema and state.rules.sends("const")
    return Part({**target, **({"const": values[0]} if is_constant else {"enum": values})})


def rewrite_union(state: RewriteState, schema: Schema, path: str) -> Part:
    """Rewrite a union to `anyOf`, which is no different from `oneOf` where a document is of one alternative alone."""
    listed = schema.get("anyOf", schema.get("oneOf"))
    others = [choice for choice in listed if choice not in (False, _NULL)]
    has_null = _NULL in listed
    if not others or (has_null and not state.rules.sends("type", "null")):
        return state.make_text(schema, path, "the provider has no null")
    before = dict(state.notes)
    part = _join_alternatives(state, others, path)
    if isinstance(part, str):
        state.notes = before
        return state.make_text(schema, path, part)
    if "oneOf" in schema:
        state.add_note(path, "oneOf is sent as anyOf")
    target = add_null(part.schema) if has_null else part.schema
    return Part(state.add_keywords(target, schema, path, ("anyOf", "oneOf")), part.codec)


def _join_alternatives(state: RewriteState, alternatives: Sequence[Any], path: str) -> Part | str:
    """Rewrite alternatives other than null; return the reason where they have to be JSON text."""
    parts = [rewrite(state, choice, path) for choice in alternatives]
    if len(parts) == 1:
        return parts[0]
    if not state.rules.sends("anyOf"):
        return _find_widest(parts) or "the provider knows no unions"
    parts = _wrap_alike(state, parts, path)
    if not all(one.codec == other.codec or _are_apart(state, one, other) for one, other in combinations(parts, 2)):
        return "its alternatives look alike"
    choices = (part.schema["anyOf"] if part.schema.keys() == {"anyOf"} else [part.schema] for part in parts)
    joined = {"anyOf": [*chain.from_iterable(choices)]}
    codecs = tuple(part.codec for part in parts)
    if all(codec == codecs[0] for codec in codecs):
        return Part(joined, codecs[0])
    sent = tuple(part.schema for part in parts)
    return Part(joined, UnionCodec(sent, tuple(alternatives), codecs, {"$defs": state.definitions}, state.root))


def _wrap_alike(state: RewriteState, parts: Sequence[Part], path: str) -> list[Part]:
    """Wrap each alternative that has a codec and looks like another one into an object of its own."""
    wrapped: list[Part] = []
    for number, part in enumerate(parts, 1):
        is_alike = any(other.codec != part.codec and not _are_apart(state, part, other) for other in parts)
        if is_alike and part.codec is not None:
            key = f"option_{number}"
            state.add_note(path, f"an alternative is wrapped as {key!r}, for it looks like another one")
            part = Part(state.make_object({key: part.schema}, [key]), WrapperCodec(key, part.codec))
        wrapped.append(part)
    return wrapped


def _are_apart(state: RewriteState, one: Part, other: Part) -> bool:
    return are_disjoint(one.schema, other.schema, {"$defs": state.definitions})


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
