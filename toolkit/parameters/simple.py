"""The usual types, written by hand: what pydantic makes of them, without the time that it takes.

One walk over a type, two ways to write what is met: as JSON Schema for the model, as pydantic-core's schema for the
validator. Both are what pydantic itself makes, and any type that is not usual is left to it.
"""

from __future__ import annotations

import types
from abc import ABC, abstractmethod
from collections.abc import (
    Callable,
    Collection,
    Container,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
    Reversible,
    Sequence,
)
from datetime import date, datetime, time, timedelta
from itertools import chain
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, Union, get_args, get_origin
from uuid import UUID

from typing_extensions import LiteralString

from toolkit.parameters.cores import texts_first

Node: TypeAlias = dict[str, Any]

_LISTS = frozenset({list, set, frozenset, Collection, Container, Reversible, Iterator})
_BARE: Mapping[Any, Any] = {
    list: list[Any],
    set: set[Any],
    frozenset: frozenset[Any],
    tuple: tuple[Any, ...],
    dict: dict[Any, Any],
}


def _then(function: Callable[[Any], Any], core: Node) -> Node:
    """Make pydantic-core's schema of what a function makes of a value."""
    return {"type": "function-after", "function": {"type": "no-info", "function": function}, "schema": core}


class Unusual(Exception):
    """A type is none of those that are written by hand."""


class Writer(ABC):
    """A way to write types down."""

    scalars: ClassVar[Mapping[Any, Node]]

    def write(self, annotation: Any) -> Node:
        """Write a type.

        Raises:
            Unusual: It is left to pydantic.
        """
        origin, args = get_origin(annotation), get_args(annotation)
        if origin is None and isinstance(annotation, Hashable):
            return self._bare(annotation)
        if not args:
            raise Unusual
        if origin in _LISTS:
            return self.listed(origin, self.write(*args))
        if origin in _FORMS:
            return _FORMS[origin](self, args)
        raise Unusual

    def _bare(self, kind: Any) -> Node:
        if kind in self.scalars:
            return dict(self.scalars[kind])
        if kind in _BARE:
            return self.write(_BARE[kind])
        if isinstance(kind, type):
            return self.named(kind)
        raise Unusual

    @abstractmethod
    def listed(self, kind: Any, item: Node) -> Node:
        """Write a list, a set, a frozenset or, of abstract ones, what a list can be."""

    @abstractmethod
    def row(self, items: Sequence[Node], repeated: int | None) -> Node:
        """Write a tuple; the item of the number `repeated` may be there any number of times."""

    @abstractmethod
    def mapping(self, key: Node, value: Node) -> Node:
        """Write a dict."""

    @abstractmethod
    def literal(self, values: Sequence[Any]) -> Node:
        """Write a Literal of texts or of integers."""

    @abstractmethod
    def nullable(self, node: Node) -> Node:
        """Write what may be None, too."""

    @abstractmethod
    def choice(self, nodes: Sequence[Node]) -> Node:
        """Write a union."""

    @abstractmethod
    def named(self, kind: type) -> Node:
        """Write a class that is none of the others."""


class JsonWriter(Writer, ABC):
    """Writes JSON Schema, draft 2020-12."""

    scalars: ClassVar[Mapping[Any, Node]] = {
        str: {"type": "string"},
        int: {"type": "integer"},
        float: {"type": "number"},
        bool: {"type": "boolean"},
        None: {"type": "null"},
        type(None): {"type": "null"},
        Any: {},
        object: {},
        LiteralString: {"type": "string"},
        bytes: {"type": "string", "format": "binary"},
        bytearray: {"type": "string", "format": "binary"},
        date: {"type": "string", "format": "date"},
        datetime: {"type": "string", "format": "date-time"},
        time: {"type": "string", "format": "time"},
        timedelta: {"type": "string", "format": "duration"},
        UUID: {"type": "string", "format": "uuid"},
    }

    def listed(self, kind: Any, item: Node) -> Node:
        """Write a list, a set, a frozenset or, of abstract ones, what a list can be."""
        return {"type": "array", "items": item, **({"uniqueItems": True} if kind in (set, frozenset) else {})}

    def row(self, items: Sequence[Node], repeated: int | None) -> Node:
        """Write a tuple; behind items that are repeated, any of them may stand anywhere."""
        first = list(items if repeated is None else items[:repeated])
        least = len(items) - (repeated is not None)
        return {
            "type": "array",
            **({"prefixItems": first} if first else {}),
            **({"maxItems": least} if repeated is None else {"items": self.choice(items[repeated:])}),
            **({"minItems": least} if least or repeated is None else {}),
        }

    def mapping(self, key: Node, value: Node) -> Node:  # noqa: ARG002  keys are texts in JSON
        """Write a dict."""
        return {"type": "object", "additionalProperties": value or True}

    def literal(self, values: Sequence[Any]) -> Node:
        """Write a Literal of texts or of integers."""
        kind = "string" if isinstance(values[0], str) else "integer"
        return {"const": values[0], "type": kind} if len(values) == 1 else {"enum": list(values), "type": kind}

    def nullable(self, node: Node) -> Node:
        """Write what may be None, too."""
        return self.choice([node, {"type": "null"}])

    def choice(self, nodes: Sequence[Node]) -> Node:
        """Write a union; equal members are one, and unions in it are its own members."""
        members: list[Node] = []
        for node in nodes:
            inner = node["anyOf"] if node.keys() == {"anyOf"} else [node]
            members += [member for member in inner if member not in members]
        return members[0] if len(members) == 1 else {"anyOf": members}


class CoreWriter(Writer, ABC):
    """Writes the schemas of pydantic-core."""

    scalars: ClassVar[Mapping[Any, Node]] = {
        str: {"type": "str"},
        int: {"type": "int"},
        float: {"type": "float"},
        bool: {"type": "bool"},
        None: {"type": "none"},
        type(None): {"type": "none"},
        Any: {"type": "any"},
        object: {"type": "any"},
        LiteralString: {"type": "str"},
        bytes: {"type": "bytes"},
        bytearray: _then(bytearray, {"type": "bytes"}),
        date: {"type": "date"},
        datetime: {"type": "datetime", "microseconds_precision": "truncate"},
        time: {"type": "time", "microseconds_precision": "truncate"},
        timedelta: {"type": "timedelta", "microseconds_precision": "truncate"},
        UUID: {"type": "uuid"},
    }

    def listed(self, kind: Any, item: Node) -> Node:
        """Write a list, a set, a frozenset or, of abstract ones, what a list can be."""
        if kind is Iterator:
            return _then(iter, self.listed(list, item))
        return {"type": kind.__name__ if kind in (set, frozenset) else "list", "items_schema": item}

    def row(self, items: Sequence[Node], repeated: int | None) -> Node:
        """Write a tuple."""
        place = {} if repeated is None else {"variadic_item_index": repeated}
        return {"type": "tuple", "items_schema": list(items), **place}

    def mapping(self, key: Node, value: Node) -> Node:
        """Write a dict."""
        return {"type": "dict", "keys_schema": key, "values_schema": value}

    def literal(self, values: Sequence[Any]) -> Node:
        """Write a Literal of texts or of integers."""
        return {"type": "literal", "expected": list(values)}

    def nullable(self, node: Node) -> Node:
        """Write what may be None, too."""
        return {"type": "nullable", "schema": node}

    def choice(self, nodes: Sequence[Node]) -> Node:
        """Write a union."""
        return {"type": "union", "choices": texts_first(nodes)}


def _tuple(writer: Writer, args: tuple[Any, ...]) -> Node:
    items = list(_items(args))
    repeated = next((number for number, (_, is_repeated) in enumerate(items) if is_repeated), None)
    return writer.row([writer.write(item) for item, _ in items], repeated)


def _items(args: tuple[Any, ...]) -> Iterable[tuple[Any, bool]]:
    """List the types of a tuple's items, and whether each is repeated; `*tuple[...]` in it stands for its own."""
    if args[1:] == (...,):
        return [(args[0], True)]
    parts = (_items(get_args(arg)) if getattr(arg, "__unpacked__", False) else [(arg, False)] for arg in args)
    return chain.from_iterable(parts)


def _dict(writer: Writer, args: tuple[Any, ...]) -> Node:
    key, value = args
    if key not in (Any, str, int):
        raise Unusual
    return writer.mapping(writer.write(key), writer.write(value))


def _union(writer: Writer, args: tuple[Any, ...]) -> Node:
    choices = [writer.write(arg) for arg in args if arg is not type(None)]
    node = choices[0] if len(choices) == 1 else writer.choice(choices)
    return writer.nullable(node) if len(choices) < len(args) else node


def _literal(writer: Writer, args: tuple[Any, ...]) -> Node:
    kinds = {type(arg) for arg in args}
    if kinds not in ({str}, {int}):
        raise Unusual
    return writer.literal(args)


def _annotated(writer: Writer, args: tuple[Any, ...]) -> Node:
    if all(isinstance(item, str) or hasattr(item, "documentation") for item in args[1:]):
        return writer.write(args[0])
    raise Unusual


_FORMS: Mapping[Any, Callable[[Writer, tuple[Any, ...]], Node]] = {
    tuple: _tuple,
    dict: _dict,
    Union: _union,
    types.UnionType: _union,
    Literal: _literal,
    Annotated: _annotated,
}
