"""All types that are not usual: pydantic makes their schemas, of validator and of JSON, from one source.

Types become the keys of a TypedDict, whose keys may be any text, so no name is special. What is known of a class is
kept as long as the class lives: many tools share few models.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from pydantic_core import SchemaValidator, from_json, to_json
from typing_extensions import TypedDict

from toolkit.parameters.cores import FINITE, mended
from toolkit.parameters.simple import CoreWriter, JsonWriter, Node, Unusual
from toolkit.schemas import clean, clean_all, generator

# Classes that refer to each other are described again for each that is described alone: of so many, all at once.
MAX_APART = 32


@dataclass(frozen=True)
class Fields:
    """What pydantic makes of named types.

    Attributes:
        cores: pydantic-core's schema of each, as the field of a TypedDict.
        definitions: What they refer to.
    """

    cores: Mapping[str, Node]
    definitions: Sequence[Node]

    def shown(self) -> tuple[dict[str, Node], Node]:
        """Make the JSON Schema of each, and the definitions that these refer to."""
        if not self.cores:
            return {}, {}
        inputs: Any = [
            (name, "validation", {"type": "definitions", "schema": core, "definitions": self.definitions})
            for name, core in self.cores.items()
        ]
        found, definitions = generator()().generate_definitions(inputs)
        return {name: clean(found[name, "validation"]) for name in self.cores}, clean_all(definitions)


def typed_fields(types: Mapping[str, Any], names: Mapping[str, Any]) -> Fields:
    """Make fields of types.

    Args:
        types: By the names of the fields.
        names: What the classes among them may name, besides what their modules hold.

    Raises:
        Exception: Whatever pydantic and the user's types raise where a type cannot be described.
    """
    if not types:
        return Fields({}, ())
    from pydantic import ConfigDict, TypeAdapter

    arguments = TypedDict("arguments", dict(types))  # type: ignore[misc]  # noqa: UP013  keys known at run time only
    arguments.__pydantic_config__ = ConfigDict(extra="forbid", allow_inf_nan=False)  # type: ignore[attr-defined]
    adapter = TypeAdapter(arguments)
    adapter.rebuild(_types_namespace=names)  # does nothing where all names were found
    core: Any = adapter.core_schema
    whole = core["schema"] if core["type"] == "definitions" else core
    return Fields(whole["fields"], core.get("definitions", ()))


class FieldWriter(JsonWriter):
    """Writes JSON Schema of usual types and of classes.

    Attributes:
        definitions: What the written schemas refer to.
    """

    def __init__(self) -> None:
        self.definitions: Node = {}

    def named(self, kind: type) -> Node:
        """Write a class; its definitions are added to those that are there.

        Raises:
            Unusual: There are many, or two classes have one name.
        """
        if len(self.definitions) > MAX_APART:
            raise Unusual
        found, definitions = _known.schema_of(kind)
        self.add(definitions)
        return found

    def add(self, definitions: Node) -> None:
        """Add definitions.

        Raises:
            Unusual: Two classes have one name.
        """
        if any(self.definitions.get(name, schema) != schema for name, schema in definitions.items()):
            raise Unusual
        self.definitions |= definitions


class Core(CoreWriter):
    """Writes pydantic-core's schemas of usual types, and of classes that carry their own.

    Attributes:
        definitions: What the written schemas refer to, by their names.
    """

    def __init__(self) -> None:
        self.definitions: dict[str, Node] = {}

    def named(self, kind: type) -> Node:
        """Write a class."""
        core = _own_core(kind)
        if core is None:
            raise Unusual
        return self.hoisted(mended(core))

    def hoisted(self, core: Node) -> Node:
        """Take the definitions out of a schema."""
        if core["type"] != "definitions":
            return core
        self.add(core["definitions"])
        inner: Node = core["schema"]
        return inner

    def add(self, definitions: Sequence[Node]) -> None:
        """Add definitions."""
        self.definitions |= {each["ref"]: each for each in definitions}


def key_of(name: str, core: Node) -> str:
    """Find the name of a field in JSON: its alias or, of several, the first that is no path.

    Raises:
        TypeError: All are paths into the document, of which JSON Schema has no notion.
    """
    alias = core.get("validation_alias", name)
    if isinstance(alias, str):
        return alias
    paths = alias if isinstance(alias[0], list) else [alias]
    key = next((path[0] for path in paths if len(path) == 1), None)
    if key is None:
        raise TypeError(f"the alias of {name!r} is a path into the document. Give it a name as alias.")
    return str(key)


def validating(cores: Mapping[str, Node], definitions: Mapping[str, Node]) -> Callable[[str], dict[str, Any]]:
    """Make what turns the text of a JSON object with these fields, and no others, into values."""
    arguments = {"type": "typed-dict", "fields": cores, "extra_behavior": "forbid", "config": FINITE}
    whole: Any = {"type": "definitions", "schema": arguments, "definitions": list(definitions.values())}
    # A model's own validator, which would be used otherwise, takes NaN.
    return SchemaValidator(whole, _use_prebuilt=False).validate_json


@dataclass(frozen=True)
class _Classes:
    """What is known of classes, as JSON text, with the identity of the core schema that it was made of.

    A model that is rebuilt gets another one. A text takes less room than what it says, and no tool can change it for
    another.
    """

    texts: WeakKeyDictionary[type, tuple[int, bytes]] = field(default_factory=WeakKeyDictionary)

    def schema_of(self, kind: type) -> tuple[Node, Node]:
        """Give the JSON Schema of a class, and its definitions."""
        core = _own_core(kind)
        known = self.texts.get(kind)
        if known is None or known[0] != id(core):
            known = self.texts[kind] = (id(core), to_json(self._made(kind, core)))
        made: tuple[Node, Node] = from_json(known[1])
        return made

    def _made(self, kind: type, core: Node | None) -> tuple[Node, Node]:
        made = typed_fields({"it": kind}, {}) if core is None else Fields({"it": core}, ())
        found, definitions = made.shown()
        return found["it"], definitions


_known = _Classes()


def _own_core(kind: type) -> Node | None:
    """Find the core schema that a model or a dataclass of pydantic's carries; None while it is not complete."""
    own = vars(kind)
    core: Node | None = own.get("__pydantic_core_schema__") if own.get("__pydantic_complete__") else None
    return core
