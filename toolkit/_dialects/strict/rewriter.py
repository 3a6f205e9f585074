"""The form in which a schema is sent under a provider's rules."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from pydantic_core import to_json

from toolkit._dialects.strict.codecs import Codec, ObjectCodec, Property, WrapperCodec
from toolkit._dialects.strict.constructs import enter_reference, rewrite
from toolkit._dialects.strict.rules import (
    ANTHROPIC,
    ANTHROPIC_STRICT,
    PLAIN,
    Rules,
    describe_keyword,
    find_excess,
    fixed_keywords,
    has_rewrites,
    quoted_keywords,
    value_kind,
)
from toolkit._dialects.strict.state import ANNOTATIONS, NoFormError, Note, Part, RewriteState
from toolkit._messages import ToolSpec
from toolkit._schema.json_schema import TYPES, as_mapping, collect_references, map_schemas

# The key of a root that is no object, in the object that all providers require.
ROOT = "arguments"
# The starts, in JSON text, of schemas that have annotations alone, and of some others.
_OTHERS = "|".join(map(re.escape, sorted(ANNOTATIONS - {"description"})))
_UNTYPED = re.compile(rf'\{{"(?:description":"(?:[^"\\]|\\.)*"(?:\}}|,"(?:{_OTHERS})")|(?:{_OTHERS})":)'.encode())
# Raised for schemas from elsewhere that are malformed, or too deep.
_UNREADABLE = (RecursionError, TypeError, ValueError, AttributeError, KeyError)


@dataclass(frozen=True, kw_only=True)
class SchemaForm:
    """A schema as it is sent, and the way back.

    Attributes:
        schema: The schema that is sent.
        strict: Whether the provider is asked to enforce it.
        notes: Where it differs from the tool's own schema, for developers.
        codec: Converts documents; None where they are the same in both forms.
    """

    schema: Mapping[str, Any]
    strict: bool = False
    notes: tuple[Note, ...] = ()
    codec: Codec | None = None

    def decode(self, document: Any) -> Any:
        """Make the tool's own document. Never raises, and leaves as it is what is not in this form."""
        try:
            return document if self.codec is None else self.codec.decode(document)
        except RecursionError:
            return document

    def encode(self, document: Any) -> Any:
        """Make the document in this form: the inverse of `decode`."""
        try:
            return document if self.codec is None else self.codec.encode(document)
        except RecursionError:
            return document


def get_form(spec: ToolSpec, rules: Rules) -> SchemaForm:
    """Return the form of a tool's parameters under a provider's rules; the spec caches it."""
    schema, form = spec.forms.get(rules.name, (None, None))
    if schema is not spec.parameters:
        form = make_form(spec.parameters, rules)
        spec.forms[rules.name] = spec.parameters, form
    return cast("SchemaForm", form)


def make_form(schema: Mapping[str, Any], rules: Rules) -> SchemaForm:
    """Make the form of a schema under a provider's rules.

    Where no lossless one exists, it is the plain form, with a note that names the place and the reason.
    """
    if not has_rewrites(rules.column):
        return _make_plain_form(schema, rules)
    try:
        return _make_rewritten_form(schema, rules)
    except NoFormError as error:
        path, reason = error.path, error.reason
    except _UNREADABLE as error:
        path, reason = "", f"the schema cannot be read ({type(error).__name__})"
    plain = _make_plain_form(schema, ANTHROPIC if rules is ANTHROPIC_STRICT else PLAIN)
    note = Note(path, f"no form under the rules {rules.name!r}: {reason}")
    return SchemaForm(schema=plain.schema, notes=(note, *plain.notes), codec=plain.codec)


def _make_rewritten_form(schema: Mapping[str, Any], rules: Rules) -> SchemaForm:
    """Rewrite a schema, whose form is always an object.

    Raises:
        NoFormError: It would be nothing but JSON text, or is too big.
    """
    state = RewriteState(rules, schema)
    root = {key: value for key, value in schema.items() if key not in ("$defs", "definitions")}
    with enter_reference(state, root) as node:
        part = rewrite(state, node, "")
    if part.schema.get("type") == "string":
        raise NoFormError("", next(reversed(state.notes)).text)
    if part.schema.get("type") != "object":
        state.add_note("", f"the root is not an object: sent inside {ROOT!r}")
        part = Part(state.make_object({ROOT: part.schema}, [ROOT]), WrapperCodec(ROOT, part.codec))
    sent = part.schema
    if pointers := collect_references(sent, {"$defs": state.definitions}):
        used = [pointer.rpartition("/")[2] for pointer in pointers]
        sent = {**sent, "$defs": {name: state.definitions[name] for name in used}}
    if excess := find_excess(sent, rules.limits):
        raise NoFormError("", excess)
    return SchemaForm(schema=sent, strict=rules.strict, notes=tuple(state.notes), codec=part.codec)


def _make_plain_form(schema: Mapping[str, Any], rules: Rules) -> SchemaForm:
    """Send a schema as it is, but for keywords that become words or tell a model nothing, and names of parameters."""
    notes: dict[Note, None] = {}
    try:
        # Most schemas have no such keyword, and searching their text takes a tenth of walking them.
        text = to_json(schema)
        is_untyped = rules.needs_types and _UNTYPED.search(text)
        if not (rules.keys or is_untyped or any(keyword in text for keyword in quoted_keywords(rules.column))):
            return SchemaForm(schema=schema)
        sent = map_schemas(schema, lambda node: _drop_keywords(node, rules, notes))
    except (RecursionError, ValueError):  # pydantic-core calls what is too deep circular
        return SchemaForm(schema=schema, notes=(Note("", "sent as it is: it is too deep to be read"),))
    own = as_mapping(sent.get("properties"))
    keys = RewriteState(rules, sent, notes).map_keys(own, "")
    renamed = tuple(Property(name, key) for name, key in keys.items() if name != key)
    if not renamed:
        return SchemaForm(schema=sent, notes=tuple(notes))
    sent = {**sent, "properties": {keys[name]: inner for name, inner in own.items()}}
    if "required" in sent:
        sent["required"] = [keys.get(name, name) for name in sent["required"]]
    return SchemaForm(schema=sent, notes=tuple(notes), codec=ObjectCodec(renamed))


def _drop_keywords(node: dict[str, Any], rules: Rules, notes: dict[Note, None]) -> dict[str, Any]:
    if rules.needs_types and node and node.keys() <= ANNOTATIONS:
        notes[Note("", "a schema of any value lists all types")] = None
        node = {"type": sorted(TYPES.keys() - {"integer"}), **node}
    if node.keys() <= fixed_keywords(rules.column):
        return node
    support = {key: rules.support(key, value_kind(key, value)) for key, value in node.items()}
    sent = {key: value for key, value in node.items() if support[key] in ("sent", None)}
    described = {key: value for key, value in node.items() if support[key] == "words"}
    notes.update(
        {Note("", f"{keyword} {value!r} goes into the description"): None for keyword, value in described.items()}
    )
    return Part(sent).describe(*map(describe_keyword, described.keys(), described.values())).schema
