"""Keywords that speak of a value of any type, and how all of a schema's keywords come together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from toolkit.documents.checks import Alternatives, Conditional, Dependent, Not, Only
from toolkit.documents.document import below
from toolkit.documents.kinds import CONSTRAINTS, KINDS, Schema
from toolkit.documents.shapes import checked
from toolkit.documents.writer import (
    FREE,
    Node,
    Writer,
    after,
    chained,
    doors,
    informed,
    labelled,
    members,
    plain,
    wrapped,
)


def steps_of(writer: Writer, written: Schema, place: str) -> list[Node]:
    """Write a schema with keywords as checks that follow each other.

    Raises:
        DefinitionError: It cannot be carried out.
    """
    schema = checked(written, place)
    typed = _typed(writer, schema, place)
    guarded = [] if typed else _guarded(writer, schema, place)
    reading = [write(writer, schema, place) for keyword, write in _READING.items() if keyword in schema]
    checking = [write(writer, schema, place) for keyword, write in _CHECKING.items() if keyword in schema]
    first = typed or reading or [dict(FREE)]
    steps = [*first, *guarded, *(reading if typed else []), *checking]
    return [{"type": "nullable", "schema": chained(steps)}] if schema.get("nullable") is True else steps


def _typed(writer: Writer, schema: Schema, place: str) -> list[Node]:
    """Write the types that a value may have."""
    named = schema.get("type", [])
    names = list(dict.fromkeys([named] if isinstance(named, str) else named))
    kinds = [name for name in names if name != "null" and not (name == "integer" and "number" in names)]
    cores = [(chained(KINDS[name](writer, schema, place)), name) for name in kinds or names]
    if not cores:
        return []
    core = labelled(cores)
    return [{"type": "nullable", "schema": core}] if kinds and "null" in names else [core]


def _guarded(writer: Writer, schema: Schema, place: str) -> list[Node]:
    """Write what is said of some types where others may be, too."""
    return [
        wrapped(plain(Only(types).check), chained(KINDS[kind](writer, schema, place)))
        for kind, (keywords, types) in CONSTRAINTS.items()
        if schema.keys() & keywords
    ]


def _members(_writer: Writer, schema: Schema, _place: str) -> Node:
    return members(schema["enum"])


def _constant(_writer: Writer, schema: Schema, _place: str) -> Node:
    return members([schema["const"]])


def _reference(writer: Writer, schema: Schema, place: str) -> Node:
    target = writer.document.target(schema["$ref"], place)
    writer.work.add(place, here=[target])
    return writer.shared(target)


def _all(writer: Writer, schema: Schema, place: str) -> Node:
    return chained([writer.here(place, each, "allOf", i) for i, each in enumerate(schema["allOf"])])


def _any(writer: Writer, schema: Schema, place: str) -> Node:
    choices = schema["anyOf"]
    if writer.fills and sum(map(_may_hold, choices)) > 1:
        return _alternatives(writer, choices, below(place, "anyOf"), is_exclusive=False)
    return labelled([(writer.here(place, each, "anyOf", i), _label(each, i)) for i, each in enumerate(choices)])


def _one(writer: Writer, schema: Schema, place: str) -> Node:
    return _alternatives(writer, schema["oneOf"], below(place, "oneOf"), is_exclusive=True)


def _alternatives(writer: Writer, choices: list[Any], place: str, *, is_exclusive: bool) -> Node:
    """Write alternatives that are asked for as a value is, before any of them may read it as something else."""
    places = [writer.probing(below(place, i)) for i in range(len(choices))]
    writer.work.add(place.rpartition("/")[0], here=places)
    check = Alternatives(writer.probe, places, is_exclusive)
    if not writer.fills:
        return after(informed(check.only), dict(FREE))
    cores = [writer.shared(each) for each in places]
    union = labelled([(core, _label(each, i)) for i, (core, each) in enumerate(zip(cores, choices))])
    return wrapped(informed(check.check), doors([*cores, union]))


def _may_hold(schema: Any) -> bool:
    """Tell whether values that fit may hold others: pydantic-core prefers those of which it knows more keys."""
    types = schema.get("type", "object") if isinstance(schema, dict) else "object"
    return bool({"object", "array"}.intersection([types] if isinstance(types, str) else types))


def _label(schema: Any, number: int) -> str:
    """Name an alternative, for its errors."""
    said = schema if isinstance(schema, dict) else {}
    names = (said.get("title"), str(said.get("$ref", "")).rpartition("/")[2], said.get("type"))
    return next((name for name in names if name and isinstance(name, str)), str(number))


def _not(writer: Writer, _schema: Schema, place: str) -> Node:
    inner = writer.probing(below(place, "not"))
    writer.work.add(place, here=[inner])
    return after(informed(Not(writer.probe, inner).check), {"type": "any"})


def _if(writer: Writer, schema: Schema, place: str) -> Node:
    inner = writer.probing(below(place, "if"))
    writer.work.add(place, here=[inner])
    cores = [writer.here(place, schema[each], each) if each in schema else {"type": "any"} for each in ("then", "else")]
    return wrapped(informed(Conditional(writer.probe, inner).check), doors(cores))


def _dependent(writer: Writer, schema: Schema, place: str) -> Node:
    schemas = schema["dependentSchemas"]
    cores = [writer.here(place, each, "dependentSchemas", key) for key, each in schemas.items()]
    return wrapped(plain(Only({dict}).check), wrapped(plain(Dependent(list(schemas)).check), doors(cores)))


# What takes a value in, and refuses what is no JSON.
_READING: Mapping[str, Callable[[Writer, Schema, str], Node]] = {
    "const": _constant,
    "enum": _members,
    "$ref": _reference,
    "allOf": _all,
    "anyOf": _any,
    "oneOf": _one,
}
# What looks at a value that was taken in.
_CHECKING: Mapping[str, Callable[[Writer, Schema, str], Node]] = {
    "not": _not,
    "if": _if,
    "dependentSchemas": _dependent,
}
