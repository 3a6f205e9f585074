"""The `undo` of a tool: which values of a call it takes, decided by the names of its parameters."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from toolkit._schema.signature import read_annotations
from toolkit._tools.functions import FunctionHandler
from toolkit._tools.handlers import list_value_names, make_default_filler
from toolkit.errors import DefinitionError

if TYPE_CHECKING:
    from toolkit._tools.handlers import Handler

_REST = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)


@dataclass(frozen=True)
class UndoPlan:
    """The values of a call that the function which undoes it takes.

    Attributes:
        handler: The handler of the tool.
        arguments: Names of the arguments.
        result: The parameter that gets the result; empty if there is none.
        rest: The parameter that gets the other arguments; empty if there is none.
    """

    handler: Handler
    arguments: tuple[str, ...]
    result: str
    rest: str

    def fit(self, values: Mapping[str, Any], result: Any) -> dict[str, Any]:
        """Arrange the validated arguments of a call and its result; defaults are added to arguments left out."""
        whole = make_default_filler(self.handler.argument_schema)(dict(values))
        fitted = {name: whole[name] for name in self.arguments if name in whole}
        if self.result:
            fitted[self.result] = result
        if self.rest:
            fitted[self.rest] = {name: value for name, value in whole.items() if name not in fitted}
        return fitted


def plan_undo(handler: Handler, function: FunctionHandler) -> UndoPlan:
    """Decide what a function takes of the calls that it undoes.

    Args:
        handler: The handler of the tool.
        function: The handler of the function.

    Raises:
        DefinitionError: It needs more than the arguments and the result.
    """
    known = _list_names(handler)
    parameters = [p for p in function.signature.parameters if not p.is_injected]
    named = [p for p in parameters if p.kind not in _REST]
    others = [p.name for p in named if p.name not in known and p.is_required]
    if len(others) > 1 or (others and _returns_nothing(handler)):
        what = "one parameter gets the result" if len(others) > 1 else "the tool returns nothing"
        raise DefinitionError(
            f"{handler.origin}: undo={function.origin} takes {' and '.join(map(repr, others))}, and {what}. The others "
            f"are named as the tool's: {', '.join(known) or 'it has none'}."
        )
    rest = next((p.name for p in parameters if p.kind is inspect.Parameter.VAR_KEYWORD), "")
    return UndoPlan(handler, tuple(p.name for p in named if p.name in known), "".join(others), rest)


def _list_names(handler: Handler) -> Collection[str]:
    interface = handler.interface
    if isinstance(interface, FunctionHandler):
        return interface.signature.declared
    return list_value_names(interface.argument_schema)


def _returns_nothing(handler: Handler) -> bool:
    """Return whether the return annotation is None; names in annotations may not be defined yet."""
    interface = handler.interface
    annotations = read_annotations(interface.signature.source) if isinstance(interface, FunctionHandler) else {}
    return annotations.get("return", "") in (None, type(None), "None")
