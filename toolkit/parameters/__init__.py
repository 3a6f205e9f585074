"""One parameter of a function, as Python has it and as a JSON document has it."""

from __future__ import annotations

from dataclasses import dataclass
from inspect import Parameter as Written
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin

import typing_extensions
from typing_extensions import NotRequired, ReadOnly, Required, Unpack

from toolkit._context import ToolContext

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """One parameter of a function.

    Attributes:
        annotation: Its type, resolved; Any where there is none.
        default: What Python uses when nothing is given, or `inspect.Parameter.empty`; a factory, where a field has one.
        field: pydantic's `Field(...)`, where it stands in place of the default.
        problem: Why its annotation has no meaning here.
    """

    name: str
    kind: Any
    annotation: Any
    default: Any = Written.empty
    field: FieldInfo | None = None
    problem: str = ""

    @property
    def injected(self) -> bool:
        """Whether the run supplies it and the model does not."""
        return any(part is ToolContext or get_origin(part) is ToolContext for part in _alternatives(self.annotation))

    @property
    def is_mutable(self) -> bool:
        """Whether a function that changes its default would change it for every later call."""
        return type(self.default) in (list, dict, set, bytearray)

    @property
    def required(self) -> bool:
        """Whether a call must give it."""
        if self.kind is Written.VAR_KEYWORD:
            return _needs_a_key(self.document_type)
        return self.default is Written.empty and self.kind is not Written.VAR_POSITIONAL

    @property
    def document_type(self) -> Any:
        """The type of its value in a JSON document."""
        if self.kind is Written.VAR_POSITIONAL:
            return list[self.annotation]  # type: ignore[name-defined]  # a type made at run time
        if self.kind is Written.VAR_KEYWORD and get_origin(self.annotation) in (Unpack, typing_extensions.Unpack):
            return get_args(self.annotation)[0]
        if self.kind is Written.VAR_KEYWORD:
            return dict[str, self.annotation]  # type: ignore[name-defined]
        return Annotated[self.annotation, self.field] if self.field else self.annotation

    @property
    def field_type(self) -> Any:
        """The same, as the type of a key of a TypedDict."""
        return self.document_type if self.required else NotRequired[self.document_type]

    @property
    def note(self) -> str:
        """The text that stands in `Annotated[...]` itself, plain or as PEP 727's `Doc`."""
        metadata = get_args(self.annotation)[1:] if get_origin(self.annotation) is Annotated else ()
        notes = (item if isinstance(item, str) else getattr(item, "documentation", None) for item in metadata)
        return next((note for note in notes if isinstance(note, str)), "")


def _needs_a_key(keywords: Any) -> bool:
    """Tell whether a TypedDict has a required key; Python itself does not read that where annotations are texts."""
    if not typing_extensions.is_typeddict(keywords):
        return False
    known: frozenset[str] = keywords.__required_keys__
    try:
        types = typing_extensions.get_type_hints(keywords, include_extras=True)
    except NameError:  # a name of a local scope: pydantic knows more, but not this
        return bool(known)
    return any(_is_required(types[name], otherwise=name in known) for name in types)


def _is_required(annotation: Any, *, otherwise: bool) -> bool:
    origin = get_origin(annotation)
    if origin in (ReadOnly, Annotated):
        return _is_required(get_args(annotation)[0], otherwise=otherwise)
    return origin is Required or (otherwise and origin is not NotRequired)


def _alternatives(annotation: Any) -> tuple[Any, ...]:
    origin = get_origin(annotation)
    if origin is Annotated:
        return _alternatives(get_args(annotation)[0])
    return get_args(annotation) if origin is Union or isinstance(annotation, _UNION) else (annotation,)


_UNION = type(int | str)
