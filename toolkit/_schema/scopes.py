"""Scopes of a function: the names of its classes, and of frames around it, that its annotations use."""

from __future__ import annotations

import inspect
import re
import sys
import types
from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from types import FunctionType
from typing import Any

from toolkit._schema.signature import TYPING, find_source, is_resolved, read_annotations, unwrap_partials

_NAME = re.compile(r"[^\W\d]\w*")


def collect_names(function: Callable[..., Any]) -> Mapping[str, Any]:
    """Collect the names that annotations use from the method's class and from frames around it that still run."""
    source = find_source(function)
    annotations = read_annotations(source)
    settled = [type(annotation) is type or is_resolved(annotation) for annotation in annotations.values()]
    if all(settled):
        return {}

    module, path = (getattr(source, name, "") for name in ("__module__", "__qualname__"))
    path = path.rpartition(".")[0]
    called = unwrap_partials(function)
    owner = getattr(called, "__self__", called)
    bases = () if type(owner) is FunctionType else inspect.getmro(owner if isinstance(owner, type) else type(owner))
    homes = [base for base in bases if (base.__module__, base.__qualname__) == (module, path)]
    local: dict[str, Any] = {}
    frame: types.FrameType | None = sys._getframe(1)  # noqa: SLF001  the public way, inspect.currentframe, is this one
    while frame is not None:
        if _is_around(frame, source):
            local = {**frame.f_locals, **local}  # the names of inner ones win
        frame = frame.f_back

    outer = _collect_class_names([_find_class(path, source)]) | {home.__name__: home for home in homes}
    return _pick_mentioned(annotations, {**outer, **local, **_collect_class_names([*reversed(bases), *homes])})


def _collect_class_names(classes: Iterable[type]) -> dict[str, Any]:
    """Collect the inner types and type parameters of classes. Those of later ones win."""
    names: dict[str, Any] = {}
    for each in classes:
        declared = vars(each).get("__type_params__")
        names |= {variable.__name__: variable for variable in (declared if isinstance(declared, tuple) else ())}
        names |= {name: inner for name, inner in vars(each).items() if _is_type(inner)}
    return names


def _find_class(path: str, function: Callable[..., Any]) -> type:
    """Find the class with a dotted path in the module of a function, or `object` if there is none."""
    first, *rest = path.split(".")
    module = getattr(function, "__globals__", {})
    found = reduce(lambda place, name: getattr(place, name, None), rest, module.get(first))
    return found if isinstance(found, type) else object


def _is_type(value: object) -> bool:
    """Return whether a value is a class, or a type such as `list[int]` or `Literal["a"]`."""
    return isinstance(value, type) or type(value).__module__ in ("types", *TYPING)


def _is_around(frame: types.FrameType, function: Callable[..., Any]) -> bool:
    """Return whether a function was defined in the code that a frame runs, below the top level of its module."""
    module = getattr(function, "__globals__", None)
    if frame.f_globals is not module or frame.f_locals is module:
        return False
    return _contains(frame.f_code, getattr(function, "__code__", None))


def _contains(outer: types.CodeType, inner: object) -> bool:
    """Return whether code contains other code, at any depth, as the body of a class contains its methods."""
    return any(part is inner or _contains(part, inner) for part in outer.co_consts if isinstance(part, types.CodeType))


def _pick_mentioned(annotations: Mapping[str, Any], local: Mapping[str, Any]) -> dict[str, Any]:
    """Pick the names that annotations use, and those that the annotations of the picked classes use."""
    picked: dict[str, Any] = {}
    pending = [annotations]
    while pending:
        names = set(_NAME.findall(repr(pending.pop()))) & local.keys() - picked.keys()
        picked |= {name: local[name] for name in names}
        pending += [read_annotations(local[name]) for name in names if isinstance(local[name], type)]
    return picked
