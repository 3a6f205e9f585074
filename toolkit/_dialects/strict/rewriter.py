"""The form of a schema under a provider's rules: how each construct of JSON Schema is sent, and how it is read back.

{"a": int, "b": int = 1}            {"a": int, "b": int | null}, or `b` optional if the provider allows that
{"a": int, **more}                  {"a": int, "additional_properties": [{"key", "value"}]}
{**more}                            [{"key", "value"}]
[int, str]                          {"item_1": int, "item_2": str}
oneOf, anyOf                        anyOf, if a document shows which alternative it matches
any other union                     JSON text
a reference                         a shared definition if the provider supports them, otherwise its target
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import chain, combinations
from typing import Any, TypeAlias, cast

from toolkit._dialects.strict.decoders import (
    KEY,
    OMIT,
    VALUE,
    Decoder,
    ItemsDecoder,
    ObjectDecoder,
    PairsDecoder,
    ReferenceDecoder,
    SentProperty,
    TextDecoder,
    TupleDecoder,
    UnionDecoder,
    WrapperDecoder,
)
from toolkit._dialects.strict.matching import are_disjoint, is_valid
from toolkit._dialects.strict.plain import NAME_NOTE, Note, SchemaForm, make_plain_form
from toolkit._dialects.strict.roots import COMPOSITIONS, hoist_alternatives, make_flat_form, merge_schemas
from toolkit._dialects.strict.rules import (
    ANNOTATIONS,
    ANTHROPIC,
    ANTHROPIC_STRICT,
    GRAMMAR,
    HOLDERS,
    PLAIN,
    STRUCTURE,
    Part,
    Rules,
    describe_keyword,
    drop_noise,
    enum_kind,
    find_excess,
    quote_json,
    value_kind,
)
from toolkit._schema.json_schema import (
    add_alternative,
    add_null,
    as_mapping,
    collect_references,
    list_allowed_values,
    look_up,
    make_free_name,
    without_null,
)

Schema: TypeAlias = Mapping[str, Any]

# The key of a root that is not an object, in the object that all providers require.
ROOT = "arguments"
# The most copies of one definition inside itself if references are inlined; a deeper one is sent as JSON text.
MAX_DEPTH = 3
# More schemas than this are not rewritten one by one, as inlined references can multiply; the rest is JSON text.
MAX_PARTS = 2000
# Characters. A longer schema is not repeated in a description.
MAX_QUOTED = 1000

_SCALARS = frozenset({"string", "boolean", "integer", "number", "null"})
_TYPE_NAMES = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}
_NULL = {"type": "null"}
# Raised while a schema is read that is malformed or nested too deep.
_UNREADABLE = (RecursionError, TypeError, ValueError, AttributeError, KeyError)


class NoFormError(Exception):
    """A schema has no lossless form under the rules, for this reason. Internal: it never leaves this module."""


def make_form(schema: Schema, rules: Rules) -> SchemaForm:
    """Make the form of a schema under a provider's rules.

    If there is no lossless form, it is the plain form, with a note of the reason.
    """
    if not rules.has_rewrites:
        return _make_plain_form(schema, rules)
    try:
        return _make_rewritten_form(schema, rules)
    except NoFormError as error:
        reason = str(error)
    except _UNREADABLE as error:
        reason = f"the schema cannot be read ({type(error).__name__})"
    plain = _make_plain_form(schema, ANTHROPIC if rules is ANTHROPIC_STRICT else GRAMMAR)
    return replace(plain, notes=(Note("", f"no form under the rules {rules.name!r}: {reason}"), *plain.notes))


def _make_plain_form(schema: Schema, rules: Rules) -> SchemaForm:
    """Make the form of a schema that is sent nearly unchanged, without compositions at the root of all but MCP."""
    if rules is not PLAIN and not COMPOSITIONS.isdisjoint(schema):
        with suppress(*_UNREADABLE):
            return make_flat_form(schema, rules)
    return make_plain_form(schema, rules)


def _make_rewritten_form(schema: Schema, rules: Rules) -> SchemaForm:
    """Rewrite a schema, whose form is always an object.

    Raises:
        NoFormError: The whole form would be JSON text, or exceeds a limit of the provider.
    """
    state = RewriteState(rules, schema)
    root = {key: value for key, value in schema.items() if key not in ("$defs", "definitions")}
    if not COMPOSITIONS.isdisjoint(root) and root.get("type") == "object":
        part = rewrite_object(state, hoist_alternatives(root, schema), "")
    else:
        with enter_reference(state, root) as node:
            part = rewrite(state, node, "")

    if part.schema.get("type") == "string":
        raise NoFormError(next(reversed(state.notes)).text)
    if part.schema.get("type") != "object":
        state.note("", f"the root is not an object: sent inside {ROOT!r}")
        part = state.wrap(part, ROOT)
    sent = part.schema
    if pointers := collect_references(sent, {"$defs": state.definitions}):
        used = [pointer.rpartition("/")[2] for pointer in pointers]
        sent = {**sent, "$defs": {name: state.definitions[name] for name in used}}
    if excess := find_excess(sent, rules.limits):
        raise NoFormError(excess)
    return SchemaForm(schema=sent, strict=rules.strict, notes=tuple(state.notes), decoder=part.decoder)


@dataclass
class RewriteState:
    """The state of rewriting one schema, and the steps that all constructs share.

    Attributes:
        root: The tool's own schema, into which references point.
        definitions: The `$defs` that are sent.
        decoders: The decoders of these definitions.
        names: The names of these definitions, by the references that point to them.
        entered: The references that are being inlined, outermost first.
        recursive: Whether the target of a reference refers to itself, by reference, once that was computed.
        parts: Number of schemas that have been rewritten.
    """

    rules: Rules
    root: Schema
    notes: dict[Note, None] = field(default_factory=dict)
    definitions: dict[str, Any] = field(default_factory=dict)
    decoders: dict[str, Decoder | None] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    entered: list[str] = field(default_factory=list)
    recursive: dict[str, bool] = field(default_factory=dict)
    parts: int = 0

    def note(self, path: str, text: str) -> None:
        """Note a difference between the tool's own schema and the schema that is sent."""
        self.notes[Note(path, text)] = None

    def make_text(self, schema: Any, path: str, reason: str) -> Part:
        """Send any value as JSON text, the form of last resort, which is always lossless."""
        self.note(path, f"sent as JSON text: {reason}")
        own = {key: value for key, value in as_mapping(schema).items() if key in ANNOTATIONS}
        text = f"JSON text of {self._describe_values(schema)}."
        return self.add_keywords(Part({"type": "string", "description": text}, TextDecoder()), own, path)

    def add_keywords(self, part: Part, schema: Schema, path: str, handled: Collection[str] = ()) -> Part:
        """Add a schema's keywords to the part that is sent: unchanged, in the description, or not at all.

        Those of STRUCTURE, and those that the construct has handled, are left out.
        """
        sent = dict(part.schema)
        texts = [sent.pop("description", "")]
        for keyword, value in schema.items():
            if keyword in handled or keyword in STRUCTURE:
                continue
            support = self.rules.support(keyword, value_kind(keyword, value))
            if support == "sent" and keyword not in HOLDERS:
                sent[keyword] = value
            elif support is None:
                self.note(path, f"{keyword} is left out: it is not a keyword of JSON Schema")
            elif support != "noise":
                self.note(path, f"{keyword} goes into the description")
                texts.append(describe_keyword(keyword, value))

        return Part(sent, part.decoder).add_description(*texts)

    def make_object(self, properties: Schema, required: Sequence[str]) -> dict[str, Any]:
        """Make the schema of an object with these properties and no others."""
        closed = {"additionalProperties": False} if self.rules.sends("additionalProperties", "false") else {}
        needed = {"required": list(required)} if required or not self.rules.sends("required", "partial") else {}
        return {"type": "object", "properties": dict(properties), **needed, **closed}

    def wrap(self, part: Part, key: str) -> Part:
        """Send a value inside an object of its own."""
        return Part(self.make_object({key: part.schema}, [key]), WrapperDecoder(key, part.decoder))

    def are_disjoint(self, one: Part, other: Part) -> bool:
        """Return whether no document that is sent can match both parts; False in doubt."""
        return are_disjoint(one.schema, other.schema, {"$defs": self.definitions})

    def _describe_values(self, schema: Any) -> str:
        """Describe the values that a schema accepts, for a description."""
        bare = drop_noise(as_mapping(schema))
        quoted = {key: value for key, value in bare.items() if key not in ANNOTATIONS}
        if pointers := collect_references(quoted, self.root):
            quoted["$defs"] = {p.rpartition("/")[2]: drop_noise(look_up(self.root, p)) for p in pointers}
        text = quote_json(quoted)
        return f"a value that matches {text}" if quoted and len(text) <= MAX_QUOTED else "any value"


def rewrite(state: RewriteState, schema: Any, path: str) -> Part:
    """Rewrite one schema, by the first construct that applies."""
    state.parts += 1
    if state.parts > MAX_PARTS:
        return state.make_text(schema, path, f"there are more than {MAX_PARTS} schemas before it")
    construct = _find_construct(schema) if isinstance(schema, Mapping) else None
    if construct is None:
        return state.make_text(schema, path, "it may be anything")
    return construct(state, schema, path)


Construct: TypeAlias = Callable[[RewriteState, Schema, str], Part]


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
    if "type" not in schema:  # other keywords imply it
        if "properties" in schema:
            kind = "object"
        elif schema.keys() & {"items", "prefixItems"}:
            kind = "array"
    return _BY_TYPE.get(kind) if isinstance(kind, str) else None


def rewrite_reference(state: RewriteState, schema: Schema, path: str) -> Part:
    """Rewrite a reference: to a shared definition if the provider supports them, otherwise to its target."""
    pointer = schema["$ref"]
    if not isinstance(look_up(state.root, str(pointer)), Mapping):
        return state.make_text(schema, path, f"{pointer!r} is not in the schema")

    with enter_reference(state, schema) as target:
        if target is not schema:
            return rewrite(state, target, path)
    if _is_inlined(state, schema):
        name = pointer.rpartition("/")[2]
        return state.make_text(schema, path, f"{name!r} lies more than {MAX_DEPTH} times inside itself")

    name = _define(state, pointer)
    decoder: Decoder | None = state.decoders[name] if name in state.decoders else ReferenceDecoder(name, state.decoders)
    reference = {"$ref": f"#/$defs/{name}"}
    beside = state.add_keywords(Part({}), schema, path).schema
    return Part({"anyOf": [reference], **beside} if beside else reference, decoder)  # no keyword may be beside $ref


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
    """Yield the target of a reference that is inlined. Yield other schemas, or a target too deep in itself, as is."""
    if not _is_inlined(state, schema) or state.entered.count(schema["$ref"]) >= MAX_DEPTH:
        yield schema
        return
    state.entered.append(schema["$ref"])
    beside = {key: value for key, value in schema.items() if key != "$ref"}
    try:
        yield merge_schemas(beside, look_up(state.root, schema["$ref"]))
    finally:
        state.entered.pop()


def _define(state: RewriteState, pointer: str) -> str:
    """Rewrite a definition once, and return its name."""
    if pointer in state.names:
        return state.names[pointer]

    last = pointer.rpartition("/")[2].strip("#") or "root"
    name = state.names[pointer] = state.rules.make_key(last, state.names.values())
    target = look_up(state.root, pointer)

    # Parts inside it may refer to it. Until it is rewritten, an outline with the names of its properties stands for it,
    # so that alternatives can be distinguished.
    keys = list(as_mapping(target.get("properties")))
    required = target.get("required", ()) if state.rules.sends("required", "partial") else keys
    is_outlined = keys and all(map(state.rules.accepts_key, keys))
    state.definitions[name] = state.make_object({key: {} for key in keys}, required) if is_outlined else {}
    part = rewrite(state, target, last)
    state.definitions[name] = part.schema
    state.decoders[name] = part.decoder
    return name


def rewrite_all_of(state: RewriteState, schema: Schema, path: str) -> Part:
    """Rewrite the schemas in `allOf` as one."""
    whole: dict[str, Any] = {key: value for key, value in schema.items() if key != "allOf"}
    state.note(path, "allOf is sent as one schema")
    with ExitStack() as references:
        for entry in schema["allOf"]:
            node = references.enter_context(enter_reference(state, entry))
            whole = merge_schemas(whole, as_mapping(node))
        return rewrite(state, whole, path)


def rewrite_object(state: RewriteState, schema: Schema, path: str) -> Part:
    """Rewrite an object: closed, open, or with free keys only."""
    own = as_mapping(schema.get("properties"))
    if unknown := _conditional_names(schema) - own.keys():
        return state.make_text(schema, path, f"{min(unknown)!r} is a property under some condition only")
    if _is_open(schema) and not own and path:
        part = _rewrite_free_keys(state, schema, path)
    elif not own and path and not state.rules.sends("properties", "none"):
        return state.make_text(schema, path, "the provider takes no object without properties")
    else:
        part = _rewrite_properties(state, schema, path)
    return state.add_keywords(part, schema, path)


def _conditional_names(schema: Schema) -> set[str]:
    """List the properties that a schema has only under a condition, such as those in `then`."""
    found = [schema.get("then"), schema.get("else"), *as_mapping(schema.get("dependentSchemas")).values()]
    found += [*schema.get("anyOf", ()), *schema.get("oneOf", ()), *schema.get("allOf", ())]
    names: set[str] = set()
    for part in filter(None, map(as_mapping, found)):
        names |= {*as_mapping(part.get("properties")), *_conditional_names(part)}
    return names


def _is_open(schema: Schema) -> bool:
    """Return whether an object may have keys that it does not list.

    An object that lists properties and has no `additionalProperties` is treated as closed, as its author nearly always
    means it. Pydantic ignores other keys.
    """
    if schema.get("patternProperties"):
        return True
    return schema.get("additionalProperties", "properties" not in schema) is not False


def _rewrite_free_keys(state: RewriteState, schema: Schema, path: str) -> Part:
    """Rewrite the free keys of an object to an array of pairs."""
    state.note(path, "sent as a list of key and value")
    patterns = as_mapping(schema.get("patternProperties"))
    others = schema.get("additionalProperties", not patterns)
    values = [*patterns.values(), *([] if others is False else [others])]
    union = True if True in values else {"anyOf": values}
    value = rewrite(state, values[0] if len(values) == 1 else union, f"{path}.*".lstrip("."))
    key = rewrite(state, {"type": "string", **as_mapping(schema.get("propertyNames"))}, f"{path} (keys)")
    key_schema = key.schema if key.decoder is None and key.schema.get("type") == "string" else {"type": "string"}
    pair = state.make_object({KEY: key_schema, VALUE: value.schema}, [KEY, VALUE])
    hint = f"Keys match the regular expression {' or '.join(map(quote_json, patterns))}." if patterns else ""
    part = Part({"type": "array", "items": pair}, PairsDecoder(value.decoder))
    return part.add_description("Each key once, with its value.", hint)


def _rewrite_properties(state: RewriteState, schema: Schema, path: str) -> Part:
    own = as_mapping(schema.get("properties"))
    needed = schema.get("required", ())
    has_rest = _is_open(schema)
    sent: dict[str, Any] = {}
    required: list[str] = []
    listed: list[SentProperty] = []

    for name, key in state.rules.map_keys(own).items():
        place = f"{path}.{name}".lstrip(".")
        if key != name:
            state.note(place, NAME_NOTE.format(key))
        if own[name] is False:
            state.note(place, "left out: no value is valid")
            continue
        sent[key], property_, is_required = _rewrite_property(
            state, SentProperty(name, key), own[name], place, is_required=name in needed
        )
        if is_required:
            required.append(key)
        if has_rest or property_ != SentProperty(name, name):
            listed.append(property_)

    if not has_rest:
        return Part(state.make_object(sent, required), ObjectDecoder(tuple(listed)) if listed else None)

    rest = make_free_name("additional_properties", {*own, *sent})
    pairs = _rewrite_free_keys(state, schema, path)
    if not state.rules.sends("required", "partial"):
        required.append(rest)
    decoder = ObjectDecoder(tuple(listed), rest, cast("PairsDecoder", pairs.decoder))
    return Part(state.make_object({**sent, rest: pairs.schema}, required), decoder)


def _rewrite_property(
    state: RewriteState, property_: SentProperty, schema: Any, path: str, *, is_required: bool
) -> tuple[dict[str, Any], SentProperty, bool]:
    """Rewrite one property. Return its schema, the property with its decoder, and whether it is sent as required."""
    with enter_reference(state, schema) as node:
        if isinstance(node, Mapping) and not state.rules.sends("type", "null") and without_null(node) is not node:
            return _rewrite_without_null(state, property_, node, path, is_required=is_required)
        part = rewrite(state, node, path)
    if is_required or state.rules.sends("required", "partial"):
        return part.schema, replace(property_, decoder=part.decoder), is_required
    if is_valid(schema, None, state.root) and as_mapping(schema).get("default", schema) is not None:
        return _rewrite_with_mark(state, property_, schema, path, part)
    state.note(path, "optional, sent as nullable: null leaves it out")
    nullable = Part(add_null(part.schema)).add_description("Send null to leave it out.")
    return nullable.schema, replace(property_, decoder=part.decoder, omission=(None,)), True


def _rewrite_with_mark(
    state: RewriteState, property_: SentProperty, schema: Any, path: str, part: Part
) -> tuple[dict[str, Any], SentProperty, bool]:
    """Make an optional property required, although null is a value of it: a mark leaves it out."""
    state.note(path, f"optional, and null is a value: {quote_json(OMIT)} leaves it out")
    (name,) = OMIT
    mark = state.make_object({name: {"type": "boolean", "enum": [True]}}, [name])
    if not state.are_disjoint(part, Part(mark)):
        part = state.make_text(schema, path, "it cannot be told from the mark")
    marked = Part(add_alternative(part.schema, mark)).add_description(f"Send {quote_json(OMIT)} to leave it out.")
    return marked.schema, replace(property_, decoder=part.decoder, omission=(OMIT,)), True


def _rewrite_without_null(
    state: RewriteState, property_: SentProperty, schema: Schema, path: str, *, is_required: bool
) -> tuple[dict[str, Any], SentProperty, bool]:
    """Make a nullable property optional for a provider without null: leaving it out stands for null."""
    bare = without_null(schema)
    if bare is None or (not is_required and schema.get("default", schema) is not None):
        part = state.make_text(schema, path, "the provider has no null")
        return part.schema, replace(property_, decoder=part.decoder), is_required
    part = rewrite(state, bare, path)
    state.note(path, "nullable, sent as optional: leaving it out means null")
    if is_required:
        part = part.add_description("Left out, it is null.")
        property_ = replace(property_, absence=(None,))
    return part.schema, replace(property_, decoder=part.decoder), False


def rewrite_array(state: RewriteState, schema: Schema, path: str) -> Part:
    """Rewrite an array and its items."""
    if "prefixItems" in schema or isinstance(schema.get("items"), list):
        return _rewrite_tuple(state, schema, path)
    item = rewrite(state, schema.get("items", True), f"{path}[]")
    decoder = None if item.decoder is None else ItemsDecoder(item.decoder)
    return state.add_keywords(Part({"type": "array", "items": item.schema}, decoder), schema, path)


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
    state.note(path, "a tuple, sent as an object with a property for each item")
    inner = _rewrite_properties(state, listing, path)
    defaults = {name: item["default"] for name, item in zip(names, first) if "default" in as_mapping(item)}
    decoder = TupleDecoder(tuple(names), inner.decoder, "more" if is_endless else None, defaults)
    return state.add_keywords(Part(inner.schema, decoder), schema, path, ("minItems", "maxItems"))


def rewrite_types(state: RewriteState, schema: Schema, path: str) -> Part:
    """Rewrite a schema that lists several types."""
    kinds = schema["type"]
    if state.rules.sends("type", "list") and _SCALARS.issuperset(kinds):
        return rewrite_scalar(state, schema, path)
    annotations = {key: value for key, value in schema.items() if key in ANNOTATIONS}
    rest = {key: value for key, value in schema.items() if key not in ANNOTATIONS}
    return rewrite_union(state, {"anyOf": [{**rest, "type": kind} for kind in kinds], **annotations}, path)


def rewrite_scalar(state: RewriteState, schema: Schema, path: str) -> Part:
    """Rewrite a string, a number, a boolean or null."""
    if schema["type"] == "null" and not state.rules.sends("type", "null"):
        return state.make_text(schema, path, "the provider has no null")
    return state.add_keywords(Part({"type": schema["type"]}), schema, path)


_BY_TYPE: Mapping[str, Construct] = {
    "object": rewrite_object,
    "array": rewrite_array,
    **dict.fromkeys(_SCALARS, rewrite_scalar),
}


def rewrite_enumeration(state: RewriteState, schema: Schema, path: str) -> Part:
    """Rewrite `enum` or `const`."""
    own_type = schema.get("type")
    values = [value for value in list_allowed_values(schema, []) if is_valid({"type": own_type}, value, {})]
    support = state.rules.support("enum", enum_kind(values))
    if not values or support not in ("sent", "text"):
        return state.make_text(schema, path, "the provider does not take such an enumeration")

    named = dict.fromkeys(_TYPE_NAMES[type(value)] for value in values)
    kinds = [kind for kind in named if kind != "integer" or "number" not in named]  # an integer is a number
    kind = kinds[0] if len(kinds) == 1 else kinds
    if isinstance(own_type, str):
        kind = own_type
    part = state.add_keywords(Part({"type": kind}), schema, path)
    if support == "text":
        state.note(path, "enum goes into the description")
        return part.add_description(describe_keyword("enum", values))
    is_constant = "const" in schema and state.rules.sends("const")
    return Part({**part.schema, **({"const": values[0]} if is_constant else {"enum": values})})


def rewrite_union(state: RewriteState, schema: Schema, path: str) -> Part:
    """Rewrite a union to `anyOf`, which means the same as `oneOf` if a document can match only one alternative."""
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
        state.note(path, "oneOf is sent as anyOf")
    if has_null:
        part = Part(add_null(part.schema), part.decoder)
    return state.add_keywords(part, schema, path, ("anyOf", "oneOf"))


def _join_alternatives(state: RewriteState, alternatives: Sequence[Any], path: str) -> Part | str:
    """Rewrite alternatives other than null. Return a reason if they have to be sent as JSON text."""
    parts = [rewrite(state, choice, path) for choice in alternatives]
    if len(parts) == 1:
        return parts[0]
    if not state.rules.sends("anyOf"):
        return "the provider knows no unions"
    if not all(one.decoder == other.decoder or state.are_disjoint(one, other) for one, other in combinations(parts, 2)):
        return "its alternatives look alike"

    choices = (part.schema["anyOf"] if part.schema.keys() == {"anyOf"} else [part.schema] for part in parts)
    joined = {"anyOf": [*chain.from_iterable(choices)]}
    decoders = tuple(part.decoder for part in parts)
    if all(decoder == decoders[0] for decoder in decoders):
        return Part(joined, decoders[0])
    sent = tuple(part.schema for part in parts)
    return Part(joined, UnionDecoder(sent, decoders, {"$defs": state.definitions}))
