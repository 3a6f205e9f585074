"""A return annotation -> JSON Schema of what a function gives, and the way to write it.

Nothing here can block a tool: an annotation that has no meaning, or that pydantic cannot describe, says nothing.
"""

from __future__ import annotations

import collections.abc
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin

from toolkit._messages import OUTPUT, File, Image, ToolResult
from toolkit.kept import kept
from toolkit.parameters import Parameter
from toolkit.parameters.accepted import Lean
from toolkit.parameters.built import Built
from toolkit.parameters.generated import FieldWriter
from toolkit.schemas import clean, generator

if TYPE_CHECKING:
    from pydantic import ConfigDict, TypeAdapter

# Of what these give, the model gets all, as a list: the values' type is the first argument of each.
_ONE_BY_ONE = (
    collections.abc.Iterator,
    collections.abc.Generator,
    collections.abc.AsyncIterator,
    collections.abc.AsyncGenerator,
    collections.abc.AsyncIterable,
)
_PROMISES = (collections.abc.Awaitable, collections.abc.Coroutine)
# Values of these are written as any JSON value is.
_JSON = frozenset({str, int, float, bool, type(None), None, Any, list, dict})
_SAYS_NOTHING = frozenset({Any, inspect.Parameter.empty, object, ToolResult, Image, File})


@dataclass(frozen=True)
class Returns(Lean):
    """What a function gives, as its annotation says.

    Attributes:
        annotation: The type of what a call comes to in the end; see `in_the_end`.
        text: What the docstring says of it.
        names: What annotations name in the frames that the function was written in.
    """

    annotation: Any
    text: str = ""
    names: Mapping[str, Any] = field(default_factory=dict)

    @kept
    def schema(self) -> dict[str, Any] | None:
        """JSON Schema of the value, or None where the annotation says nothing."""
        if self.annotation is Any:
            return None
        shown = FieldWriter().write(self.annotation) if _is_json(self.annotation) else self._described()
        return {"description": self.text, **shown} if shown and self.text else shown

    @kept
    def to_json(self) -> Callable[[Any], bytes] | None:
        """Writes a value by its annotated type, one of another type by that; None where any JSON writer would do."""
        if _is_json(self.annotation):
            return None
        # Pydantic takes no configuration for a class that may have one, but it does for what holds such a class.
        adapter = self._adapted(lambda: self.annotation | None, {"ser_json_inf_nan": "strings"})
        return adapter and partial(adapter.serializer.to_json, warnings=False)

    @kept
    def asked(self) -> Built:
        """The value as an argument: what a model fills in that is to give it by itself; a text, if nothing is said."""
        annotation = str if self.annotation in (Any, inspect.Parameter.empty, object) else self.annotation
        output = Parameter(name=OUTPUT, kind=inspect.Parameter.KEYWORD_ONLY, annotation=annotation)
        return Built(
            offered=[output],
            label="what it returns",
            texts=lambda: {OUTPUT: self.text} if self.text else {},
            examples=list,
            names=self.names,
            taken=tuple,
        )

    def _described(self) -> dict[str, Any] | None:
        try:
            adapter = self._adapted(lambda: self.annotation)
            return adapter and clean(adapter.json_schema(schema_generator=generator(), mode="serialization"))
        except Exception:  # noqa: BLE001  pydantic and user types raise what they like while a schema is built
            return None

    def _adapted(self, form: Callable[[], Any], config: ConfigDict | None = None) -> TypeAdapter[Any] | None:
        """Make what describes and writes values of a form of the annotation."""
        if self.annotation in _SAYS_NOTHING or _has_parts(self.annotation):
            return None
        from pydantic import TypeAdapter

        try:
            adapter: TypeAdapter[Any] = TypeAdapter(form(), config=config)
            # A model may name what is not there yet, or is there for type checkers only.
            whole = adapter.pydantic_complete or adapter.rebuild(raise_errors=False, _types_namespace=dict(self.names))
        except Exception:  # noqa: BLE001  as above
            return None
        return adapter if whole else None


def in_the_end(annotation: Any) -> Any:
    """Find the type of what a call comes to: of what a promise holds, a list of what a generator gives."""
    origin, given = get_origin(annotation), get_args(annotation)
    if origin in _PROMISES and given:
        return in_the_end(given[-1])
    return list[given[0]] if origin in _ONE_BY_ONE and given else annotation  # type: ignore[valid-type]


def _has_parts(annotation: Any) -> bool:
    """Tell whether values may hold what goes to the model in its own way, not as JSON."""
    return any(annotation is part for part in (Image, File, ToolResult)) or any(map(_has_parts, get_args(annotation)))


def _is_json(annotation: Any) -> bool:
    origin = get_origin(annotation)
    if origin is Annotated:
        return False
    return annotation in _JSON or (origin in (list, dict) and all(map(_is_json, get_args(annotation))))
