"""The exceptions, and the tree of them that their module's docstring draws."""

from __future__ import annotations

import re

from toolkit import errors


def drawn_bases() -> dict[str, str]:
    """Read the base class of each name from the drawing."""
    path: list[str] = []
    bases = {}
    for line in (errors.__doc__ or "").splitlines():
        if found := re.match(r"    ([│ ]*)(?:[├└]── )?([A-Z]\w+)", line):
            depth = len(found[1]) // 4 + ("──" in line)
            path[depth:] = [found[2]]
            bases[found[2]] = path[depth - 1] if depth else "Exception"
    return bases


def test_tree() -> None:
    """The docstring draws every exception of the module below its base class."""
    classes = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)]

    assert {kind.__name__: kind.__bases__[0].__name__ for kind in classes} == drawn_bases()
