"""A schema -> the part that is shown and its codec: which construct it is, and who rewrites it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from toolkit._schema.matching import references_in
from toolkit.dialects.codecs import Wrapped
from toolkit.dialects.objects import array, object_
from toolkit.dialects.references import merged, opened, reference
from toolkit.dialects.scope import Part, Schema, Scope, Unsayable
from toolkit.dialects.unions import SCALARS, enumeration, is_union, scalar, types, union

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
        used = [pointer.rpartition("/")[2] for pointer in references_in(shown, {"$defs": self.definitions})]
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
