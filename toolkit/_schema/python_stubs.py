"""Python stubs of tools: a model that writes code reads them, and its code is type-checked with them."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from toolkit._schema.json_schema import as_mapping, collect_references, look_up, make_free_name

_TYPING = ("Any", "Literal", "NotRequired", "TypedDict")
HEADER = f"from typing import {', '.join(_TYPING)}"
# Not those that a notebook or `site` has added, so that stubs are the same everywhere.
_BUILTINS = (name for name, value in vars(builtins).items() if getattr(value, "__module__", "") == "builtins")
_RESERVED = frozenset([*_TYPING, *_BUILTINS])
# The most levels of types that are described; deeper types are Any.
MAX_DEPTH = 8

_SIMPLE: Mapping[str, str] = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "null": "None",
    "object": "dict[str, Any]",
    "array": "list[Any]",
}


class StubWriter:
    """Writer of stubs. The schemas of objects become classes, each written once, with other names than functions."""

    def __init__(self, functions: Iterable[str] = ()) -> None:
        self._functions = {*functions}
        self.classes: dict[str, str] = {}  # sources by name
        # Names of the classes, by proposed name, and schema with those that it refers to.
        self._names: dict[tuple[str, str], str] = {}

    def write_function(
        self,
        name: str,
        parameters: Mapping[str, Any],
        output: Mapping[str, Any] | None,
        description: str,
        failures: Sequence[str],
    ) -> str:
        """Write the stub of one tool as an async function. Its docstring lists the failures, as RuntimeError."""
        title = make_identifier(name).title().replace("_", "")
        required = parameters.get("required", ())
        properties = parameters["properties"]  # the required ones come first
        written = [
            f"{key}: {self.write_type(properties[key], parameters, title + key.title())}"
            + ("" if key in required else f" = {_write_default(properties[key])}")
            for key in properties
            if is_identifier(key)
        ]
        if len(written) < len(properties):
            written.append("**others: Any")
        returns = "Any" if output is None else self.write_type(output, output, f"{title}Result")
        head = f"async def {name}({', '.join(written)}) -> {returns}:"
        texts = [f"{key}: {text}" for key in properties if (text := as_mapping(properties[key]).get("description"))]
        body = _write_docstring(description, texts, [f"RuntimeError: {reason}" for reason in failures])
        return f'{head}\n    """{body}"""' if body else f"{head} ..."

    def write_type(self, schema: Any, root: Any, name: str, depth: int = 0) -> str:
        """Write the type that a JSON Schema describes. A type that Python cannot express is Any.

        `root` is the document that the schema's references point into. `name` is the name of the class, if it becomes
        one.
        """
        part = as_mapping(schema)
        if depth > MAX_DEPTH:
            return "Any"
        if isinstance(reference := part.get("$ref"), str):
            return self.write_type(look_up(root, reference), root, reference.rpartition("/")[2], depth + 1)

        choices = part.get("enum", [part["const"]] if "const" in part else None)
        if choices is not None:
            return _write_choices(choices)

        branches = part.get("anyOf") or part.get("oneOf")
        if isinstance(branches, list):
            return _join(self.write_type(each, root, f"{name}{at}", depth + 1) for at, each in enumerate(branches, 1))

        kinds = part.get("type")
        if isinstance(kinds, list):
            return _join(self.write_type({**part, "type": kind}, root, name, depth + 1) for kind in kinds)
        if kinds == "array" and isinstance(part.get("items"), Mapping):
            return f"list[{self.write_type(part['items'], root, f'{name}Item', depth + 1)}]"
        if kinds == "object":
            return self._write_object(part, root, name, depth)
        return _SIMPLE.get(kinds, "Any") if isinstance(kinds, str) else "Any"

    def _write_object(self, part: Mapping[str, Any], root: Any, name: str, depth: int) -> str:
        properties = as_mapping(part.get("properties"))
        others = part.get("additionalProperties")
        if not properties:
            values = self.write_type(others, root, f"{name}Value", depth + 1) if isinstance(others, Mapping) else "Any"
            return f"dict[str, {values}]"
        if not all(map(is_identifier, properties)):
            return "dict[str, Any]"

        targets = [look_up(root, reference) for reference in collect_references(part, root)]
        known = (name, str([part, *targets]))
        if known in self._names:  # a type may hold itself
            return self._names[known]

        name = self._names[known] = make_free_name(make_identifier(name), self._functions | self.classes.keys())
        self.classes[name] = ""
        required = part.get("required", ())
        types = {
            key: self.write_type(each, root, f"{name}{key.title()}", depth + 1) for key, each in properties.items()
        }
        lines = [f"class {name}(TypedDict):"]
        for key, kind in types.items():
            lines.append(f"    {key}: {kind}" if key in required else f"    {key}: NotRequired[{kind}]")
        self.classes[name] = "\n".join(lines)
        return name


def make_identifier(name: str) -> str:
    """Convert the name of a tool or a type to an identifier of Python that has no other meaning in a program.

    It does not begin with an underscore, since programs do not see such names of the stubs.
    """
    cleaned = re.sub(r"\W", "_", name, flags=re.ASCII).lstrip("_")
    public = cleaned if cleaned[:1].isalpha() else f"tool_{cleaned}"
    return f"{public}_" if keyword.iskeyword(public) or public in _RESERVED else public


def is_identifier(text: str) -> bool:
    """Return whether a text is an identifier of Python: ASCII, and no keyword."""
    return text.isidentifier() and text.isascii() and not keyword.iskeyword(text)


def _write_choices(choices: Any) -> str:
    if not isinstance(choices, list) or not all(isinstance(each, (str, bool, int, type(None))) for each in choices):
        return "Any"
    return f"Literal[{', '.join(map(repr, choices))}]" if choices else "Any"


def _join(kinds: Iterable[str]) -> str:
    unique = [*dict.fromkeys(kinds)]
    return "Any" if "Any" in unique or not unique else " | ".join(unique)


def _write_docstring(description: str, parameters: Sequence[str], raised: Sequence[str]) -> str:
    """Write the inside of a docstring, indented by four spaces."""
    lines = [description]
    for title, entries in (("Args:", parameters), ("Raises:", raised)):
        if entries:
            lines += ["", title, *[f"    {entry}" for entry in entries]]
    text = "\n".join(lines).strip().replace("\\", "\\\\").replace('"""', "'''")
    text = re.sub('"$', r'\\"', text)
    return text.replace("\n", "\n    ").replace("    \n", "\n")


def _write_default(schema: Any) -> str:
    """Write a default: a plain value as it is, anything else as an ellipsis."""
    default = as_mapping(schema).get("default", ...)
    return repr(default) if isinstance(default, (str, bool, int, float, type(None))) else "..."
