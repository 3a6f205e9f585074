"""A JSON Schema -> the form in which a provider is shown it, and the way back of what the model fills it with.

A form is lossless: whatever the tool accepts can be said in it, and reading it back gives the tool's own arguments,
which are then checked against the tool's own schema. Where strict rules allow no such form, the plain one is taken.

How it works: `keywords` has the table of what each provider understands. `rewriting` finds out which construct a schema
is; `objects`, `unions` and `references` have one function for each, which makes what is shown and picks the codec that
reads it back. `codecs` and `members` have the codecs, each with its inverse.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from pydantic_core import to_json

from toolkit._messages import ToolSpec
from toolkit._schema.json_schema import rewritten
from toolkit._schema.matching import mapping
from toolkit.dialects.bounds import excess
from toolkit.dialects.keywords import sort_of, words
from toolkit.dialects.members import Field, Fields
from toolkit.dialects.rewriting import Rewriter
from toolkit.dialects.rules import ANTHROPIC, ANTHROPIC_STRICT, PLAIN, Rules, always_sent, quoted_changes, rewrites
from toolkit.dialects.scope import Note, Part, Unsayable


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
        shown = rewritten(schema, lambda node: _without_noise(node, rules, notes))
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
    own = mapping(part.shown.get("properties"))
    names = Rewriter(rules, part.shown, notes).keys(own, "")
    changed = tuple(Field(name, shown) for name, shown in names.items() if name != shown)
    if not changed:
        return part
    shown = {**part.shown, "properties": {names[name]: inner for name, inner in own.items()}}
    if "required" in shown:
        shown["required"] = [names.get(name, name) for name in shown["required"]]
    return Part(shown, Fields(changed))
