"""A root without alternatives: OpenAI and Anthropic refuse a tool with `anyOf`, `oneOf`, `allOf` or `not` at the root.

The properties of all alternatives become properties of the root, and what distinguishes them goes into the description.
The schema that is sent accepts more than the tool, whose own validation sees all arguments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from toolkit._dialects.strict.plain import Note, SchemaForm, make_plain_form
from toolkit._dialects.strict.rules import ANNOTATIONS, Part, Rules, describe_keyword
from toolkit._schema.json_schema import as_mapping, look_up

Schema: TypeAlias = Mapping[str, Any]

# Keywords that are refused at the root of a tool's parameters, but not inside of them.
COMPOSITIONS = frozenset({"anyOf", "oneOf", "allOf", "not"})
# Keywords of an alternative that the root says, or that say nothing.
_SAID = ANNOTATIONS - {"description"} | {"type", "properties"}
# Keywords that are one condition.
_CONDITION = frozenset({"if", "then", "else"})
# Keywords of entries of `allOf` that are merged into those of the root, or that say nothing.
_MERGED = ANNOTATIONS | {"type", "properties", "patternProperties", "required", "additionalProperties"}


def make_flat_form(schema: Schema, rules: Rules) -> SchemaForm:
    """Make the plain form of a schema. Compositions that are left at its root go into the description."""
    form = make_plain_form(hoist_alternatives(schema, schema), rules)
    moved = [keyword for keyword in form.schema if keyword in COMPOSITIONS]
    rest = {key: value for key, value in form.schema.items() if key not in COMPOSITIONS}
    texts = [describe_keyword(keyword, form.schema[keyword]) for keyword in moved]
    notes = [Note("", f"{keyword} goes into the description") for keyword in moved]
    return replace(form, schema=Part(rest).add_description(*texts).schema, notes=(*form.notes, *notes))


def hoist_alternatives(schema: Schema, root: Schema) -> dict[str, Any]:
    """Return the schema of an object with the properties of its alternatives. These keep what distinguishes them."""
    hoisted = _merge_entries(schema, root)
    for keyword in ("anyOf", "oneOf"):
        alternatives = [hoist_alternatives(as_mapping(each), root) for each in hoisted.get(keyword, ())]
        objects = [each for each in alternatives if "object" in each.get("type", "object")]  # it may be a list of types
        if any("properties" in each for each in objects):
            _hoist(hoisted, keyword, objects)
    return hoisted


def _merge_entries(schema: Schema, root: Schema) -> dict[str, Any]:
    """Merge the target of a reference and the entries of `allOf` into a schema. What differs stays in `allOf`."""
    whole = {key: value for key, value in schema.items() if key not in ("$ref", "allOf")}
    entries = [look_up(root, schema["$ref"])] if "$ref" in schema else []
    left: list[Any] = []

    for entry in (*entries, *schema.get("allOf", ())):
        own = hoist_alternatives(as_mapping(entry), root)
        left += own.pop("allOf", ())
        different = {key for key in own.keys() & whole.keys() - _MERGED if own[key] != whole[key]}
        if different & _CONDITION:
            different |= _CONDITION
        left.append({key: value for key, value in own.items() if key in different})
        whole = merge_schemas(whole, own)

    return {**whole, "allOf": [each for each in left if each]} if any(left) else whole


def _hoist(whole: dict[str, Any], keyword: str, alternatives: Sequence[Schema]) -> None:
    found: dict[str, list[Any]] = {}
    for alternative in alternatives:
        for name, inner in as_mapping(alternative.get("properties")).items():
            kinds = found.setdefault(name, [])
            if inner not in kinds:
                kinds.append(inner)

    shared = {name: kinds[0] if len(kinds) == 1 else {"anyOf": kinds} for name, kinds in found.items()}
    needed = [each.get("required", ()) for each in alternatives]
    always = [name for name in needed[0] if all(name in names for names in needed)]
    whole["properties"] = {**shared, **as_mapping(whole.get("properties"))}
    if required := list(dict.fromkeys([*whole.get("required", ()), *always])):
        whole["required"] = required
    others = [each.get("patternProperties") or each.get("additionalProperties") for each in alternatives]
    is_open = any(each not in (None, False) for each in others)
    if is_open or None not in others:
        whole.setdefault("additionalProperties", is_open)
    different = {name for name, kinds in found.items() if len(kinds) > 1}
    whole[keyword] = [_reduce(each, different) for each in alternatives]
    if not any(whole[keyword]):
        del whole[keyword]


def _reduce(alternative: Schema, different: set[str]) -> dict[str, Any]:
    """Return the keywords of an alternative that the whole schema does not already have."""
    own = as_mapping(alternative.get("properties"))
    properties = {name: inner for name, inner in own.items() if name in different}
    rest = {key: value for key, value in alternative.items() if key not in _SAID}
    if not rest.get("additionalProperties"):
        rest.pop("additionalProperties", None)
    return {**({"properties": properties} if properties else {}), **rest}


def merge_schemas(first: Schema, second: Schema) -> dict[str, Any]:
    """Merge two schemas that both apply. If a keyword differs the first one wins, and the result may accept more."""
    both = {**{key: second[key] for key in second if "if" not in first or key not in _CONDITION}, **first}
    for keyword in ("properties", "patternProperties"):
        if keyword in first and keyword in second:
            one = first[keyword]
            other = second[keyword]
            different = [name for name in one if name in other and one[name] != other[name]]
            both[keyword] = {**one, **other, **{name: {"allOf": [one[name], other[name]]} for name in different}}
    if "required" in first and "required" in second:
        both["required"] = list(dict.fromkeys([*first["required"], *second["required"]]))
    return both
