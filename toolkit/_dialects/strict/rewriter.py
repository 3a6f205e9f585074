"""A JSON Schema -> the form in which a provider is shown it, and the way back of what the model fills it with.

A form is lossless: whatever the tool accepts can be said in it, and reading it back gives the tool's own arguments,
which are then checked against the tool's own schema. Where strict rules allow no such form, the plain one is taken.

How it works: `keywords` has the table of what each provider understands. `rewriting` finds out which construct a schema
is; `objects`, `unions` and `references` have one function for each, which makes what is shown and picks the codec that
reads it back. `codecs` and `members` have the codecs, each with its inverse.

A schema -> the part that is shown and its codec: which construct it is, and who rewrites it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, cast

from pydantic_core import to_json

from toolkit._dialects.strict.codecs import Field, Fields, Wrapped
from toolkit._dialects.strict.constructs import (
    SCALARS,
    array,
    enumeration,
    is_union,
    merged,
    object_,
    opened,
    reference,
    scalar,
    types,
    union,
)
from toolkit._dialects.strict.rules import (
    ANTHROPIC,
    ANTHROPIC_STRICT,
    PLAIN,
    Rules,
    always_sent,
    excess,
    quoted_changes,
    rewrites,
    sort_of,
    words,
)
from toolkit._dialects.strict.scope import Note, Part, Schema, Scope, Unsayable
from toolkit._messages import ToolSpec
from toolkit._schema.json_schema import map_schemas
from toolkit._schema.matching import as_mapping, collect_references

# More schemas than this are not rewritten one by one, as inlined references can multiply; what is left is JSON text.
MAX_PARTS = 2000

# The key of a root that is no object, in the object that all providers ask for.
ROOT = "arguments"


@dataclass
class Rewriter(Scope):
    """Rewrites every schema inside one."""

    parts: int = 0

    def part(self, schema: Any, path: str) -> Part:
        """Rewrite one schema, by the first construct that it is."""
        self.parts += 1
        if self.parts > MAX_PARTS:
            return self.text(schema, path, f"there are more than {MAX_PARTS} schemas before it")
        if isinstance(schema, Mapping):
            for is_it, rewrite in CONSTRUCTS:
                if is_it(schema):
                    return rewrite(self, schema, path)
        return self.text(schema, path, "it may be anything")

    def whole(self) -> Part:
        """Rewrite the root, whose form is always an object.

        Raises:
            Unsayable: It would be nothing but JSON text.
        """
        root = {key: value for key, value in self.root.items() if key not in ("$defs", "definitions")}
        with opened(self, root) as node:
            part = self.part(node, "")
        if part.shown.get("type") == "string":
            raise Unsayable("", next(reversed(self.notes)).text)
        if part.shown.get("type") != "object":
            self.note("", f"the root is no object: sent inside {ROOT!r}")
            part = Part(self.object_of({ROOT: part.shown}, [ROOT]), Wrapped(ROOT, part.codec))
        return Part({**part.shown, **self._definitions(part.shown)}, part.codec)

    def _definitions(self, shown: Schema) -> dict[str, Any]:
        """Give the definitions that are needed, in the order in which they are."""
        used = [pointer.rpartition("/")[2] for pointer in collect_references(shown, {"$defs": self.definitions})]
        return {"$defs": {name: self.definitions[name] for name in used}} if used else {}


def all_of(scope: Scope, schema: Schema, path: str) -> Part:
    """Show schemas that all hold as one."""
    whole: dict[str, Any] = {key: value for key, value in schema.items() if key != "allOf"}
    scope.note(path, "allOf is sent as one schema")
    with ExitStack() as references:
        for entry in schema["allOf"]:
            node = references.enter_context(opened(scope, entry))
            whole = merged(whole, node if isinstance(node, Mapping) else {})
        return scope.part(whole, path)


def _type_of(schema: Schema) -> Any:
    """Read the type, or find the one that a schema without one is about."""
    if "type" in schema:
        return schema["type"]
    if "properties" in schema:
        return "object"
    return "array" if schema.keys() & {"items", "prefixItems"} else None


def _is_scalar(schema: Schema) -> bool:
    return isinstance(schema.get("type"), str) and schema["type"] in SCALARS


CONSTRUCTS: tuple[tuple[Callable[[Schema], bool], Callable[[Scope, Schema, str], Part]], ...] = (
    (lambda schema: "$ref" in schema, reference),
    (lambda schema: isinstance(schema.get("allOf"), list), all_of),
    (is_union, union),
    (lambda schema: "const" in schema or "enum" in schema, enumeration),
    (lambda schema: isinstance(schema.get("type"), list) and bool(schema["type"]), types),
    (lambda schema: _type_of(schema) == "object", object_),
    (lambda schema: _type_of(schema) == "array", array),
    (_is_scalar, scalar),
)


@dataclass(frozen=True, kw_only=True)
class Form:
    """How one schema is shown.

    Attributes:
        schema: What is sent.
        strict: Whether the provider is asked to enforce it.
        notes: Where it differs from the tool's own schema, in words for developers.
        decode: Makes the tool's own document of one in this form; None where they are the same. It never raises, and
            leaves as it is what is not in this form.
        encode: The inverse of `decode`; None where all documents are the same.
    """

    schema: Mapping[str, Any]
    strict: bool = False
    notes: tuple[Note, ...] = ()
    decode: Callable[[Any], Any] | None = None
    encode: Callable[[Any], Any] | None = None


def form_of(spec: ToolSpec, rules: Rules) -> Form:
    """Find the form of a tool's arguments under a provider's rules; it is made once and kept by the spec."""
    schema, form = spec.forms.get(rules.name, (None, None))
    if schema is not spec.parameters:
        form = formed(spec.parameters, rules)
        spec.forms[rules.name] = spec.parameters, form
    return cast("Form", form)


def formed(schema: Mapping[str, Any], rules: Rules) -> Form:
    """Make the form of a schema under a provider's rules.

    Where there is no lossless one, it is the form under `PLAIN`, with a note that says which place is at fault and why.
    """
    if not rewrites(rules.column):
        return _plain(schema, rules)
    try:
        return _closed(schema, rules)
    except Unsayable as found:
        fault = found.note
    except _UNREADABLE as error:
        fault = Note("", f"the schema cannot be read ({type(error).__name__})")
    plain = _plain(schema, ANTHROPIC if rules is ANTHROPIC_STRICT else PLAIN)
    note = Note(fault.path, f"no form under the rules {rules.name!r}: {fault.text}")
    return Form(schema=plain.schema, notes=(note, *plain.notes), decode=plain.decode, encode=plain.encode)


# What comes of schemas from elsewhere that are no schemas, or too deep.
_UNREADABLE = (RecursionError, TypeError, ValueError, AttributeError, KeyError)


def _closed(schema: Mapping[str, Any], rules: Rules) -> Form:
    rewriter = Rewriter(rules, schema)
    part = rewriter.whole()
    too_much = excess(part.shown, rules.limits)
    if too_much:
        raise Unsayable("", too_much)
    return _form(part, tuple(rewriter.notes), strict=rules.strict)


def _plain(schema: Mapping[str, Any], rules: Rules) -> Form:
    notes: dict[Note, None] = {}
    try:
        # Most schemas say nothing that is not sent as it is, and searching their text takes a tenth of walking them.
        text = to_json(schema)
        if not rules.keys and not any(word in text for word in quoted_changes(rules.column)):
            return Form(schema=schema)
        shown = map_schemas(schema, lambda node: _without_noise(node, rules, notes))
    except (RecursionError, ValueError):  # pydantic-core calls what is too deep circular
        return Form(schema=schema, notes=(Note("", "sent as it is: it is too deep to be read"),))
    return _form(_renamed(Part(shown), rules, notes), tuple(notes))


def _form(part: Part, notes: tuple[Note, ...], *, strict: bool = False) -> Form:
    if part.codec is None:
        return Form(schema=part.shown, strict=strict, notes=notes)
    decode, encode = _safe(part.codec.decode), _safe(part.codec.encode)
    return Form(schema=part.shown, strict=strict, notes=notes, decode=decode, encode=encode)


def _safe(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Leave a document as it is that is too deep to be walked."""

    def walked(document: Any) -> Any:
        try:
            return read(document)
        except RecursionError:
            return document

    return walked


def _without_noise(node: dict[str, Any], rules: Rules, notes: dict[Note, None]) -> dict[str, Any]:
    if node.keys() <= always_sent(rules.column):
        return node
    support = {key: rules.support(key, sort_of(key, value)) for key, value in node.items()}
    kept = {key: value for key, value in node.items() if support[key] in ("sent", None)}
    said = {key: value for key, value in node.items() if support[key] == "words"}
    notes.update({Note("", f"{keyword} {value!r} is said in words"): None for keyword, value in said.items()})
    return Part(kept).saying(*map(words, said.keys(), said.values())).shown


def _renamed(part: Part, rules: Rules, notes: dict[Note, None]) -> Part:
    """Rename the parameters whose names the provider refuses."""
    own = as_mapping(part.shown.get("properties"))
    names = Rewriter(rules, part.shown, notes).keys(own, "")
    changed = tuple(Field(name, shown) for name, shown in names.items() if name != shown)
    if not changed:
        return part
    shown = {**part.shown, "properties": {names[name]: inner for name, inner in own.items()}}
    if "required" in shown:
        shown["required"] = [names.get(name, name) for name in shown["required"]]
    return Part(shown, Fields(changed))
