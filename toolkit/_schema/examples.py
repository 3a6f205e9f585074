"""Arguments in the examples of a docstring: calls in doctests, and JSON objects."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any


def find_examples(examples: Iterable[str], name: str, parameters: Sequence[str]) -> list[dict[str, Any]]:
    """Find arguments in a docstring's examples: calls in doctests, with literals only, and JSON objects.

    Args:
        examples: The texts of the examples.
        name: The function's name.
        parameters: Its parameters, in the order of positional arguments.
    """
    return [found for text in examples for found in (*_find_calls(text, name, parameters), *_find_json_objects(text))]


def _find_calls(example: str, name: str, parameters: Sequence[str]) -> Iterator[dict[str, Any]]:
    for call in filter(lambda node: isinstance(node, ast.Call), ast.walk(_parse_doctest(example))):
        arguments = _read_literals(call, parameters) if _is_call_of(call, name) else None
        if arguments is not None:
            yield arguments


def _parse_doctest(example: str) -> ast.AST:
    """Parse the lines behind the prompts of a doctest; what is not Python is an empty module."""
    lines = (line.lstrip() for line in example.splitlines())
    code = "\n".join(line[4:] for line in lines if line.startswith((">>> ", "... ")))
    try:
        return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module(body=[], type_ignores=[])


def _is_call_of(call: ast.AST, name: str) -> bool:
    function = getattr(call, "func", None)
    return name in (getattr(function, "id", None), getattr(function, "attr", None))


def _read_literals(call: Any, parameters: Sequence[str]) -> dict[str, Any] | None:
    """Read the arguments of a call; None where one is not a literal, or has no name."""
    nodes = dict([*zip(parameters, call.args), *((each.arg, each.value) for each in call.keywords)])
    if len(call.args) > len(parameters) or None in nodes:
        return None
    try:
        values = {key: ast.literal_eval(node) for key, node in nodes.items()}
        document: dict[str, Any] = json.loads(json.dumps(values, allow_nan=False))
    except (ValueError, TypeError, RecursionError):
        return None
    return document


def _find_json_objects(example: str) -> Iterator[dict[str, Any]]:
    for paragraph in re.split(r"\n\s*\n", example):
        text = paragraph.strip().removeprefix("```json").removeprefix("```").removesuffix("```")
        with suppress(ValueError, RecursionError):
            document = json.loads(text)
            if isinstance(document, dict):
                yield document
