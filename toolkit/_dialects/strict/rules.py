"""The parts of JSON Schema (draft 2020-12) that each provider understands, and its limits on the size of a schema.

KEYWORDS is the table that the rewriting reads. A row is a keyword, or a keyword with the kind of its value:
`format=uuid`, `type=null`, `$ref=recursive`. A column says how a provider's schemas treat the keyword:

    sent       it is sent unchanged
    text       it becomes a part of the description; only the tool's own validation enforces it
    rewritten  it is expressed by other keywords, and a decoder converts documents back
    noise      it is left out, since it means nothing to a model

Sources, as of November 2026:
    strict     https://developers.openai.com/api/docs/guides/structured-outputs#supported-schemas; besides, look-around
               is refused with "regex lookaround is not supported", even without strict mode, and no keyword may be
               beside a reference
    anthropic  https://platform.claude.com/docs/en/build-with-claude/structured-outputs#json-schema-limitations
    gemini     https://ai.google.dev/api/caching#Schema. `parameters` takes a part of OpenAPI's Schema Object: one type,
               no null, no reference, only texts in enum, properties in every object. `parametersJsonSchema` takes
               JSON Schema, but not in the Live API, and not behind gateways that convert it to the former. The column
               has the keywords that both accept, so that either can be used.
    minimal    the keywords that servers with few of them have in common
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any, Literal, TypeAlias

from toolkit._dialects.strict.decoders import Decoder
from toolkit._schema.json_schema import iterate_schemas, list_allowed_values, look_up, make_free_name, map_schemas

Schema: TypeAlias = Mapping[str, Any]

Support: TypeAlias = Literal["sent", "text", "rewritten", "noise"]

S: Support = "sent"
T: Support = "text"
R: Support = "rewritten"
N: Support = "noise"

COLUMNS = ("plain", "grammar", "strict", "anthropic", "gemini", "minimal")

KEYWORDS: Mapping[str, tuple[Support, ...]] = {
    # row                     plain grammar strict anthropic gemini minimal
    "type": (S, S, S, S, S, S),
    "type=null": (S, S, S, S, R, R),
    "type=list": (S, S, S, S, R, R),
    "description": (S, S, S, S, S, S),
    "enum": (S, S, S, S, S, S),  # of texts
    "enum=empty": (S, S, S, S, T, S),  # of texts, one of which is empty: "enum[0]: cannot be empty"
    "enum=number": (S, S, S, S, T, S),
    "enum=boolean": (S, S, S, S, T, T),
    "enum=mixed": (S, S, S, S, R, R),
    "enum=data": (S, S, R, R, R, R),
    "const": (S, S, S, S, R, R),
    "default": (S, S, T, T, T, T),
    "default=null": (S, S, N, N, N, N),
    "examples": (S, S, T, T, T, T),
    "deprecated": (S, S, T, T, T, T),
    "title": (N, N, N, N, N, N),
    "readOnly": (S, S, N, N, N, N),
    "writeOnly": (S, S, N, N, N, N),
    # objects
    "properties": (S, S, S, S, S, S),
    "properties=none": (S, S, S, S, R, R),
    "required": (S, S, S, S, S, S),
    "required=partial": (S, S, R, S, S, S),
    "additionalProperties": (S, S, R, R, R, R),
    "additionalProperties=false": (S, S, S, S, N, N),
    "patternProperties": (S, S, R, R, R, R),
    "propertyNames": (S, T, R, R, R, R),
    "unevaluatedProperties": (S, S, T, T, T, T),
    "unevaluatedProperties=false": (S, S, N, N, N, N),
    "minProperties": (S, S, T, T, T, T),
    "maxProperties": (S, S, T, T, T, T),
    "dependentRequired": (S, S, T, T, T, T),
    "dependentSchemas": (S, S, T, T, T, T),
    # arrays
    "items": (S, S, S, S, S, S),
    "prefixItems": (S, S, R, R, R, R),
    "unevaluatedItems": (S, S, T, T, T, T),
    "unevaluatedItems=false": (S, S, N, N, N, N),
    "contains": (S, S, T, T, T, T),
    "minContains": (S, S, T, T, T, T),
    "maxContains": (S, S, T, T, T, T),
    "minItems": (S, S, S, T, S, T),
    "minItems=0": (S, S, S, S, S, N),
    "minItems=1": (S, S, S, S, S, T),
    "maxItems": (S, S, S, T, S, T),
    "uniqueItems": (S, T, T, T, T, T),
    "uniqueItems=false": (S, N, N, N, N, N),
    # texts
    "minLength": (S, S, S, T, S, T),
    "maxLength": (S, S, S, T, S, T),
    "pattern": (S, S, S, S, S, T),
    "pattern=lookaround": (T, T, T, T, T, T),
    "format": (S, T, T, T, T, T),
    "format=date-time": (S, S, S, S, S, T),
    "format=date": (S, S, S, S, T, T),
    "format=time": (S, S, S, S, T, T),
    "format=duration": (S, T, S, S, T, T),
    "format=email": (S, S, S, S, T, T),
    "format=hostname": (S, T, S, S, T, T),
    "format=ipv4": (S, T, S, S, T, T),
    "format=ipv6": (S, T, S, S, T, T),
    "format=uuid": (S, S, S, S, T, T),
    "format=uri": (S, T, T, S, T, T),
    "contentEncoding": (S, S, T, T, T, T),
    "contentMediaType": (S, S, T, T, T, T),
    "contentSchema": (S, S, T, T, T, T),
    # numbers
    "minimum": (S, S, S, T, S, T),
    "maximum": (S, S, S, T, S, T),
    "exclusiveMinimum": (S, S, S, T, T, T),
    "exclusiveMaximum": (S, S, S, T, T, T),
    "multipleOf": (S, S, S, T, T, T),
    # composition
    "anyOf": (S, S, S, S, S, R),
    "oneOf": (S, S, R, R, R, R),
    "allOf": (S, S, R, R, R, R),
    "discriminator": (S, S, N, N, N, N),  # OpenAPI's; pydantic writes it beside oneOf
    "not": (S, S, T, T, T, T),
    "if": (S, S, T, T, T, T),
    "then": (S, S, T, T, T, T),
    "else": (S, S, T, T, T, T),
    # references
    "$ref": (S, S, S, S, R, R),
    "$ref=recursive": (S, S, S, R, R, R),
    "$defs": (S, S, S, S, R, R),
    "definitions": (S, S, R, R, R, R),  # the name of $defs in older drafts
    "$id": (S, S, N, N, N, N),
    "$anchor": (S, S, N, N, N, N),
    "$dynamicAnchor": (S, S, N, N, N, N),
    "$dynamicRef": (S, S, R, R, R, R),
    "$schema": (N, N, N, N, N, N),
    "$vocabulary": (N, N, N, N, N, N),
    "$comment": (N, N, N, N, N, N),
}

# A constraint as a sentence of the description; {} is its value. Others are written as they are, with their keyword.
TEXTS: Mapping[str, str] = {
    "default": "Default: {}.",
    "examples": "Examples: {}.",
    "deprecated": "Deprecated.",
    "enum": "One of {}.",
    "minItems": "At least {} items.",
    "maxItems": "At most {} items.",
    "uniqueItems": "No item twice.",
    "minLength": "At least {} characters.",
    "maxLength": "At most {} characters.",
    "pattern": "Must match the regular expression {}.",
    "format": "Format: {}.",
    "minimum": "At least {}.",
    "maximum": "At most {}.",
    "exclusiveMinimum": "More than {}.",
    "exclusiveMaximum": "Less than {}.",
    "multipleOf": "A multiple of {}.",
}
# Keywords that describe, and neither allow nor forbid anything.
ANNOTATIONS = frozenset(
    {"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment", "discriminator"}
)
# Keywords that define a construct: each construct sends its own, and those of another construct mean nothing there.
STRUCTURE = frozenset(
    {"type", "enum", "const", "$ref", "$defs", "definitions", "properties", "required", "additionalProperties"}
    | {"patternProperties", "propertyNames", "items", "prefixItems", "additionalItems"}
)
# Keywords whose inner schemas may have keywords that the provider does not know, so they are never copied unchanged.
HOLDERS = frozenset(
    {"anyOf", "oneOf", "allOf", "not", "if", "then", "else", "dependentSchemas", "contains", "contentSchema"}
    | {"unevaluatedProperties", "unevaluatedItems"}
)
# Keywords that mean nothing to a model.
_NOISE = frozenset({"title", "$schema", "$comment", "$vocabulary", "$defs", "definitions", "discriminator"})


@dataclass(frozen=True, kw_only=True, eq=False)
class Rules:
    """The parts of JSON Schema that a provider understands.

    Attributes:
        name: Their name, for notes.
        keywords: The provider's column of the table.
        strict: Whether the provider enforces the schema.
        needs_types: Whether a schema that has only annotations, and so allows any value, must list all types, and one
            of lists must have `items`.
        keys: Regular expression of the names of properties that it accepts; empty if it accepts all.
        limits: The largest value of each measure of a schema, by the names of MEASURES.
    """

    name: str
    keywords: Mapping[str, Support]
    strict: bool = False
    needs_types: bool = False
    keys: str = ""
    limits: Mapping[str, int] = field(default_factory=dict)

    def support(self, keyword: str, kind: str = "") -> Support | None:
        """Return the treatment of a keyword, or of one kind of its values, or None if the table has no such row."""
        return self.keywords.get(f"{keyword}={kind}") or self.keywords.get(keyword)

    def sends(self, keyword: str, kind: str = "") -> bool:
        """Return whether a keyword is sent unchanged."""
        return self.support(keyword, kind) == "sent"

    def accepts_key(self, name: str) -> bool:
        """Return whether the provider accepts a property's name."""
        return not self.keys or re.fullmatch(self.keys, name) is not None

    def map_keys(self, names: Collection[str]) -> dict[str, str]:
        """Map properties' names to distinct names that the provider accepts. Legal names are not changed."""
        keys = {name: name for name in names if self.accepts_key(name)}
        for name in names:
            if name not in keys:
                keys[name] = self.make_key(name, {*names, *keys.values()})
        return keys

    def make_key(self, name: str, taken: Collection[str]) -> str:
        """Make a name that the provider accepts and that is not taken."""
        if not self.accepts_key(name):
            name = re.sub(r"[^a-zA-Z0-9_]+", "_", name).strip("_")[:50]
            name = f"key_{name}" if not name or name[0].isdigit() else name
        return make_free_name(name, taken)

    @cached_property
    def has_rewrites(self) -> bool:
        """True if keywords are rewritten; otherwise they are sent, described or left out."""
        return "rewritten" in self.keywords.values()

    @cached_property
    def changed(self) -> frozenset[str]:
        """The keywords that are not always sent unchanged."""
        return frozenset(row.partition("=")[0] for row, support in self.keywords.items() if support != "sent")


def _read_column(name: str) -> Mapping[str, Support]:
    return {row: supports[COLUMNS.index(name)] for row, supports in KEYWORDS.items()}


# Anthropic's API refuses a whole request with "Property keys should match pattern ..."; other providers do not document
# which keys they accept, and refuse none that matches this pattern.
_KEYS = r"[a-zA-Z0-9_.-]{1,64}"

PLAIN = Rules(name="plain", keywords=_read_column("plain"))
# For servers that compile a schema to a grammar: outlines-core refuses {"description": ...} without a type. OpenAI
# refuses all tools because of one with "array schema missing items", also without strict mode.
GRAMMAR = Rules(name="grammar", keywords=_read_column("grammar"), needs_types=True)
ANTHROPIC = Rules(name="anthropic", keywords=_read_column("plain"), keys=_KEYS)
STRICT = Rules(
    name="strict",
    keywords=_read_column("strict"),
    strict=True,
    keys=_KEYS,
    limits={
        "properties": 5000,
        "levels of objects": 10,
        "characters in names and values": 120_000,
        "values in enumerations": 1000,
        "characters in one enumeration": 15_000,
    },
)
ANTHROPIC_STRICT = Rules(
    name="anthropic_strict",
    keywords=_read_column("anthropic"),
    strict=True,
    keys=_KEYS,
    limits={"optional properties": 24, "unions": 16},
)
GEMINI = Rules(name="gemini", keywords=_read_column("gemini"), keys=r"[a-zA-Z_][a-zA-Z0-9_]{0,63}")
MINIMAL = Rules(name="minimal", keywords=_read_column("minimal"), keys=_KEYS)


# Look-around and back references, which engines with linear time do not support.
_LOOKAROUND = re.compile(r"\(\?<?[=!]|\\[1-9]|\(\?P=")


def value_kind(keyword: str, value: Any) -> str:
    """Return the kind of a keyword's value, as the rows of the table name it."""
    if keyword in _KINDS:
        return _KINDS[keyword](value)
    return json.dumps(value) if isinstance(value, (bool, int, type(None))) else ""


def enum_kind(values: Any) -> str:
    """Return the kind of the values in an enumeration, or "" for texts that are not empty."""
    kinds = {_ENUM_KINDS.get(type(value), "data") for value in values} if isinstance(values, list) else {"data"}
    if kinds == {""} and "" in values:
        return "empty"
    if len(kinds) == 1:
        return kinds.pop()
    return "data" if "data" in kinds else "mixed"


_ENUM_KINDS = {str: "", int: "number", float: "number", bool: "boolean", type(None): "mixed"}
_KINDS: Mapping[str, Callable[[Any], str]] = {
    "type": lambda value: "list" if isinstance(value, list) else "",
    "enum": enum_kind,
    "format": str,
    "pattern": lambda value: "lookaround" if _LOOKAROUND.search(str(value)) else "",
}

# With one of these at its end, as with a letter, a description needs a full stop before another sentence.
_CLOSING = frozenset(")]\"'`%")


def describe_keyword(keyword: str, value: Any) -> str:
    """Describe a constraint in a short sentence."""
    if keyword in HOLDERS:
        value = drop_noise({keyword: value})[keyword]
    if keyword in ("examples", "enum") and isinstance(value, list):
        text = ", ".join(map(quote_json, value))
    else:
        text = str(value) if keyword == "format" else quote_json(value)
    return TEXTS.get(keyword, f"{keyword}: {{}}.").format(text)


@dataclass(frozen=True)
class Part:
    """One schema as it is sent, and the decoder of its documents."""

    schema: dict[str, Any]
    decoder: Decoder | None = None

    def add_description(self, *texts: str) -> Part:
        """Return a copy with sentences added to the description, after a full stop."""
        own = self.schema.get("description", "")
        added = " ".join(filter(None, texts))
        if own and added and (own[-1].isalnum() or own[-1] in _CLOSING):
            own += "."
        description = " ".join(filter(None, (own, added)))
        return Part({**self.schema, "description": description}, self.decoder) if description else self


def drop_noise(schema: Any) -> Any:
    """Remove the keywords that mean nothing to a model."""
    return map_schemas(schema, lambda node: {key: value for key, value in node.items() if key not in _NOISE})


def quote_json(value: Any) -> str:
    """Write a value as JSON text for a description."""
    return json.dumps(value, ensure_ascii=False)


# OpenAI limits the characters of an enumeration only if it has more texts than this.
MANY_TEXTS = 250


def find_excess(schema: Schema, limits: Mapping[str, int]) -> str | None:
    """Describe the first limit that a schema exceeds. Return None if it exceeds none."""
    nodes = [*iterate_schemas(schema)] if limits else []
    for name, limit in limits.items():
        measured = MEASURES[name](nodes)
        if measured > limit:
            return f"{measured} {name}, where the provider takes {limit}"
    return None


def _count_levels(nodes: Sequence[Schema]) -> int:
    """Count the levels of nested objects. A recursive one counts once."""
    root = nodes[0]
    depths = dict[str, int]()

    def measure(schema: Any) -> int:
        if not isinstance(schema, Mapping):
            return 0
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            inner = max(map(measure, _list_inner(schema)), default=0)
            return inner + 1 if schema.get("type") == "object" else inner
        if reference not in depths:
            depths[reference] = 0  # the count inside of itself
            depths[reference] = measure(look_up(root, reference))
        return depths[reference]

    return measure(root)


def _list_inner(schema: Schema) -> Iterator[Any]:
    yield from schema.get("properties", {}).values()
    yield from schema.get("anyOf", ())
    yield schema.get("items")


def _count_characters(nodes: Sequence[Schema]) -> int:
    count = 0
    for node in nodes:
        texts = chain(node.get("properties", ()), node.get("$defs", ()), list_allowed_values(node, []))
        count += sum(len(str(text)) for text in texts)
    return count


def _find_longest(nodes: Sequence[Schema]) -> int:
    texts = ([value for value in node.get("enum", ()) if isinstance(value, str)] for node in nodes)
    return max((len("".join(listed)) for listed in texts if len(listed) > MANY_TEXTS), default=0)


# The measures that limits apply to, each a function of the list of all schemas inside a schema.
MEASURES: Mapping[str, Callable[[Sequence[Schema]], int]] = {
    "properties": lambda nodes: sum(len(node.get("properties", ())) for node in nodes),
    "levels of objects": _count_levels,
    "characters in names and values": _count_characters,
    "values in enumerations": lambda nodes: sum(len(node.get("enum", ())) for node in nodes),
    "characters in one enumeration": _find_longest,
    "optional properties": lambda nodes: sum(
        [len(node.get("properties", {}).keys() - set(node.get("required", ()))) for node in nodes]
    ),
    "unions": lambda nodes: len([1 for node in nodes if "anyOf" in node or isinstance(node.get("type"), list)]),
}
