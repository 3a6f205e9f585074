"""Examples in docstrings -> arguments, for a model to imitate: calls in doctests, with literals only; JSON objects."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

_STATEMENT = re.compile(r"^ *>>> .*(?:\n *\.\.\. .*)*", re.MULTILINE)
_PROMPT = re.compile(r"^ *(?:>>>|\.\.\.) ", re.MULTILINE)


def find_examples(texts: Iterable[str], name: str, parameters: Sequence[str]) -> list[dict[str, Any]]:
    """Find arguments in the examples of a docstring.

    Args:
        texts: The texts of the examples.
        name: The function's name.
        parameters: Its parameters, in the order of positional arguments.
    """
    return [found for text in texts for found in (*_find_calls(text, name, parameters), *_find_json_objects(text))]


def _find_calls(text: str, name: str, parameters: Sequence[str]) -> Iterator[dict[str, Any]]:
    for statement in _STATEMENT.findall(text):
        for node in ast.walk(_parse(_PROMPT.sub("", statement))):
            if isinstance(node, ast.Call) and name in (getattr(node.func, "id", ""), getattr(node.func, "attr", "")):
                arguments = _read_literals(node, parameters)
                if arguments is not None:
                    yield arguments


def _parse(code: str) -> ast.AST:
    """Parse a statement; what is not Python is an empty module."""
    try:
        return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module(body=[], type_ignores=[])


def _read_literals(call: ast.Call, parameters: Sequence[str]) -> dict[str, Any] | None:
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


def _find_json_objects(text: str) -> Iterator[dict[str, Any]]:
    for paragraph in re.split(r"\n\s*\n", text):
        content = paragraph.strip().removeprefix("```json").removeprefix("```").removesuffix("```")
        with suppress(ValueError, RecursionError):
            document = json.loads(content)
            if isinstance(document, dict):
                yield document
