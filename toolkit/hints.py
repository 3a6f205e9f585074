"""Annotations -> types, wherever the function was written.

A name in a string annotation is looked for in the function's own scopes, innermost first: its type parameters, its
closure, the frame that decorated it (function locals, class bodies, notebook cells), its module. The return annotation
is never looked at here, so it cannot block a tool.
"""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Callable, Mapping
from typing import Any

import typing_extensions


def frame_names(function: Callable[..., Any], depth: int) -> Mapping[str, Any]:
    """Keep the local names of the frame that decorates, where a string annotation may need them.

    Args:
        function: What is decorated.
        depth: How many frames up the decorating one is, from the caller of this function.
    """
    annotations = getattr(function, "__dict__", {}).get("__annotations__") or raw_annotations(function)
    if not any(isinstance(annotation, str) for annotation in annotations.values()):
        return {}
    frame = sys._getframe(depth + 1)  # noqa: SLF001  the public way, inspect.currentframe, is this one
    return {} if frame.f_locals is frame.f_globals else dict(frame.f_locals)


def raw_annotations(function: Callable[..., Any]) -> Mapping[str, Any]:
    """Read annotations as they were written: nothing is evaluated that has not been."""
    if sys.version_info >= (3, 14):  # names that are not defined yet would raise there
        import annotationlib

        return annotationlib.get_annotations(function, format=annotationlib.Format.FORWARDREF)
    return getattr(function, "__annotations__", {})


def signature(function: Callable[..., Any]) -> inspect.Signature:
    """Read a signature without evaluating its annotations.

    Raises:
        ValueError: There is none, as for some functions written in C.
    """
    if sys.version_info >= (3, 14):
        import annotationlib

        return inspect.signature(function, annotation_format=annotationlib.Format.FORWARDREF)
    return inspect.signature(function)


def resolved(annotation: Any, function: Callable[..., Any], names: Mapping[str, Any]) -> Any:
    """Make the type that an annotation of `function` means.

    Raises:
        NameError: A name is in none of the function's scopes.
    """
    holder = types.SimpleNamespace(__annotations__={"it": annotation})
    scope = {**names, **_closure(function)}
    hints = typing_extensions.get_type_hints(
        holder, globalns=getattr(function, "__globals__", {}), localns=scope, include_extras=True
    )
    return hints["it"]


def _closure(function: Callable[..., Any]) -> dict[str, Any]:
    names = getattr(getattr(function, "__code__", None), "co_freevars", ())
    cells = getattr(function, "__closure__", None) or ()
    held = {name: cell.cell_contents for name, cell in zip(names, cells) if _filled(cell)}
    return {**held, **{parameter.__name__: parameter for parameter in getattr(function, "__type_params__", ())}}


def _filled(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018  reading an empty cell is how Python tells that it is empty
    except ValueError:
        return False
    return True
