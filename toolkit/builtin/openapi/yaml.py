"""YAML as its version 1.2 reads it: `no` and `2024-05-01` are texts, as in the JSON that a document stands for."""

from __future__ import annotations

import re
from importlib.util import find_spec
from typing import Any

from toolkit.errors import DefinitionError

# Keys and values of a document, each as often as aliases repeat it: a few lines of them can stand for billions.
MOST = 5_000_000

# YAML 1.2.2, section 10.3.2, core schema: what is written so, and not quoted, is no text.
_BOOL, _NULL = r"true|True|TRUE|false|False|FALSE", r"~|null|Null|NULL|"
_INT, _FLOAT = r"[-+]?[0-9]+", r"[-+]?(\.[0-9]+|[0-9]+\.[0-9]*)([eE][-+]?[0-9]+)?|[-+]?[0-9]+[eE][-+]?[0-9]+"
# Each with the characters that it may begin with.
_PLAIN = (
    ("bool", _BOOL, "tTfF"),
    ("null", _NULL, ["~", "n", "N", ""]),
    ("int", _INT, "-+0123456789"),
    ("float", _FLOAT, "-+.0123456789"),
    ("merge", "<<", "<"),
)


def parsed(text: str) -> Any:
    """Read a YAML text.

    Raises:
        DefinitionError: It is none, or its aliases make it too large.
        ImportError: The extra `openapi` is not installed.
    """
    if find_spec("yaml") is None:
        raise ImportError('OpenAPI documents in YAML need an extra: pip install "function-toolkit[openapi]".')
    import yaml

    try:
        return _constructed(_loader()(text))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise DefinitionError(f"The OpenAPI document is neither JSON nor YAML: {error}") from error


def _constructed(loader: Any) -> Any:
    """Make the values; they are counted before, for to merge is to copy."""
    try:
        node = loader.get_single_node()
        if _size(node, {}) > MOST:
            raise DefinitionError(f"The OpenAPI document has more than {MOST:,} keys and values: use fewer aliases.")
        return None if node is None else loader.construct_document(node)
    finally:
        loader.dispose()


def _loader() -> Any:
    import yaml

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # one of two, by what is built
        yaml_implicit_resolvers: dict[Any, Any] = {}  # noqa: RUF012  of the class, as PyYAML wants it

    for tag, pattern, first in _PLAIN:
        Loader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(rf"(?:{pattern})\Z"), list(first))
    Loader.add_constructor("tag:yaml.org,2002:int", lambda loader, node: int(loader.construct_scalar(node)))
    return Loader


def _size(node: Any, known: dict[int, int]) -> int:
    """Count nodes, each that is shared as often as it is used."""
    if not isinstance(getattr(node, "value", None), list):
        return 1
    if id(node) not in known:
        known[id(node)] = MOST  # what holds itself is endless
        inner = (each for part in node.value for each in (part if isinstance(part, tuple) else (part,)))
        known[id(node)] = 1 + sum(_size(each, known) for each in inner)
    return known[id(node)]
