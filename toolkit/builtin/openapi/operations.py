"""The operations of a document: what each is called, and which of them are wanted."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from toolkit._guards.options import texts
from toolkit._tools.options import Effect
from toolkit._tools.tool import legal_name
from toolkit.builtin.openapi.objects import OperationObject, PathItem, Root, Source
from toolkit.errors import DefinitionError

# What each method does to the world: RFC 9110, section 9.2. TRACE is none of them: its answer repeats the keys sent.
EFFECTS: Mapping[str, Effect] = MappingProxyType(
    {
        "GET": "read",
        "HEAD": "read",
        "OPTIONS": "read",
        "POST": "write",
        "PUT": "write",
        "PATCH": "write",
        "DELETE": "destructive",
    }
)
IDEMPOTENT = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE"})


@dataclass(frozen=True)
class Operation:
    """What one method does at one path.

    Attributes:
        name: The tool's.
        told: What the document says of it.
        item: What it says of the path.
        fault: Why it cannot be read; empty where it can.
    """

    method: str
    path: str
    name: str
    told: OperationObject
    item: PathItem
    fault: str = ""

    @property
    def label(self) -> str:
        """The operation as people write it."""
        return f"{self.method} {self.path}".strip()

    @property
    def words(self) -> Collection[str]:
        """What it may be chosen by, besides its path."""
        return {self.name, self.told.operation_id, *self.told.tags} - {""}

    def matches(self, word: str) -> bool:
        """Whether it is meant by a word: a name, an operation id, a tag, or a path that it lies at or under."""
        if word[:1] != "/":
            return word in self.words
        return self.path == word or self.path.startswith(f"{word.rstrip('/')}/")


def operations(source: Source, root: Root, prefix: str) -> list[Operation]:
    """List all operations, faulty ones too; their names do not depend on which of them are wanted."""
    taken = set[str]()
    made = []
    for each in _listed(source, root):
        usual = re.sub(r"[^A-Za-z0-9]+", "_", f"{each.method.lower()}{each.path}").strip("_")
        name = _free(_name(prefix, each.told.operation_id or usual), each.label, taken) if each.method else each.path
        taken.add(name)
        made.append(replace(each, name=name))
    return made


def selected(
    offered: list[Operation],
    include: Collection[str] | None,
    exclude: Collection[str],
    methods: Collection[str],
    *,
    deprecated: bool,
) -> list[Operation]:
    """Choose operations.

    Raises:
        DefinitionError: A word chooses nothing, or all of them together do.
    """
    for option, words in (("include", () if include is None else include), ("exclude", exclude)):
        _check_words(option, words, offered)
    wanted = {method.upper() for method in texts("methods", methods)}
    if wanted - EFFECTS.keys():
        raise DefinitionError(f"methods={sorted(wanted)}: those that a tool may use are {', '.join(EFFECTS)}.")
    chosen = [
        operation
        for operation in offered
        if operation.method in (*wanted, "")
        and (deprecated or not operation.told.deprecated)
        and (include is None or any(map(operation.matches, include)))
        and not any(map(operation.matches, exclude))
    ]
    if not chosen:
        raise DefinitionError(
            f"Of the document's {len(offered)} operations none is left: look at include=, exclude=, methods= and "
            f"deprecated=."
        )
    return chosen


def _check_words(option: str, words: Collection[str], offered: list[Operation]) -> None:
    for word in texts(option, words):
        if not any(operation.matches(word) for operation in offered):
            names = ", ".join(operation.name for operation in offered[:20])
            raise DefinitionError(
                f"{option}: {word!r} is no operation, no tag, and no path that begins with '/'. There are: {names}."
            )


def _listed(source: Source, root: Root) -> Iterator[Operation]:
    """List the operations, without names; a path that cannot be read is one, of no method."""
    paths = {path: part for path, part in root.paths.items() if path[:2] != "x-" and part is not None}
    for path, part in paths.items():
        try:
            methods: Any = source.resolved(part, "path")
            item = source.read(PathItem, methods, "path")
        except DefinitionError as error:
            nothing = OperationObject.model_validate({}), PathItem.model_validate({})
            yield Operation("", path, "", *nothing, str(error))
            continue
        for method in EFFECTS:
            if methods.get(method.lower()) is not None:
                yield _read(source, method, path, item, methods[method.lower()])


def _read(source: Source, method: str, path: str, item: PathItem, part: Any) -> Operation:
    try:
        return Operation(method, path, "", source.read(OperationObject, part, "operation"), item)
    except DefinitionError as error:
        known = {"operationId": part["operationId"]} if isinstance(part, dict) and "operationId" in part else {}
        return Operation(method, path, "", OperationObject.model_validate(known), item, str(error))


def _name(prefix: str, name: str) -> str:
    return legal_name(f"{prefix}__{name}" if prefix else name)


def _free(name: str, label: str, taken: Collection[str]) -> str:
    """Name an operation; the second of a name, and those after it, by method and path too."""
    digest = hashlib.sha256(label.encode()).hexdigest()
    choices = [name, *(f"{name[:55]}_{digest[start : start + 8]}" for start in range(len(digest) - 7))]
    return next(choice for choice in choices if choice not in taken)
