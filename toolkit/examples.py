"""A docstring's examples -> arguments that a model may be shown, and that `check()` tries out."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any


def documents(examples: Iterable[str], name: str, parameters: Sequence[str]) -> list[dict[str, Any]]:
    """Find arguments in examples: calls of the function in doctests, with literals only; and objects in JSON.

    Args:
        examples: The texts of a docstring's examples.
        name: The function's own.
        parameters: Its parameters, in the order in which values go in by position.
    """
    return [document for example in examples for document in (*_called(example, name, parameters), *_written(example))]


def _called(example: str, name: str, parameters: Sequence[str]) -> Iterator[dict[str, Any]]:
    for call in filter(lambda node: isinstance(node, ast.Call), ast.walk(_code(example))):
        document = _arguments(call, parameters) if _is_of(call, name) else None
        if document is not None:
            yield document


def _code(example: str) -> ast.AST:
    """Read the lines behind the prompts of a doctest; what is no Python is nothing."""
    lines = (line.lstrip() for line in example.splitlines())
    code = "\n".join(line[4:] for line in lines if line.startswith((">>> ", "... ")))
    try:
        return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module(body=[], type_ignores=[])


def _is_of(call: ast.AST, name: str) -> bool:
    function = getattr(call, "func", None)
    return name in (getattr(function, "id", None), getattr(function, "attr", None))


def _arguments(call: Any, parameters: Sequence[str]) -> dict[str, Any] | None:
    """Read the arguments of a call; None where one is no literal, or has no name."""
    given = dict([*zip(parameters, call.args), *((each.arg, each.value) for each in call.keywords)])
    if len(call.args) > len(parameters) or None in given:
        return None
    try:
        values = {key: ast.literal_eval(value) for key, value in given.items()}
        document: dict[str, Any] = json.loads(json.dumps(values, allow_nan=False))
    except (ValueError, TypeError, RecursionError):
        return None
    return document


def _written(example: str) -> Iterator[dict[str, Any]]:
    for paragraph in re.split(r"\n\s*\n", example):
        text = paragraph.strip().removeprefix("```json").removeprefix("```").removesuffix("```")
        with suppress(ValueError, RecursionError):
            document = json.loads(text)
            if isinstance(document, dict):
                yield document
