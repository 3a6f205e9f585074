"""Parameters -> validator and JSON Schema of the arguments.

How it works: the parameters become the keys of a TypedDict, whose keys may be any text, so no name is special. pydantic
builds validator and schema from that one type, so they cannot disagree.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter as Written
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin

import typing_extensions
from typing_extensions import NotRequired, TypedDict, Unpack

from toolkit import schemas
from toolkit.context import ToolContext

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from pydantic.fields import FieldInfo


REMEDY = "Give it a type that JSON can fill, or a default (it is then left out), or bind it by a partial."


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
    def required(self) -> bool:
        """Whether a call must give it."""
        if self.kind is Written.VAR_KEYWORD:
            return bool(getattr(self.document_type, "__required_keys__", ()))
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
    def note(self) -> str:
        """The text that stands in `Annotated[...]` itself, plain or as PEP 727's `Doc`."""
        metadata = get_args(self.annotation)[1:] if get_origin(self.annotation) is Annotated else ()
        notes = (item if isinstance(item, str) else getattr(item, "documentation", None) for item in metadata)
        return next((note for note in notes if isinstance(note, str)), "")


@dataclass(frozen=True)
class Built:
    """What pydantic makes of the parameters that a model may fill.

    Attributes:
        hidden: Parameters that no JSON can fill, left out because they have a default.
    """

    validator: Callable[[str], dict[str, Any]]
    schema: dict[str, Any]
    hidden: tuple[str, ...] = ()


def build(offered: Sequence[Parameter], texts: Mapping[str, str], taken: Collection[str]) -> Built:
    """Build validator and schema.

    Args:
        offered: The parameters that a model may fill.
        texts: What the docstring says of them.
        taken: Keywords that belong to a parameter already, so that `**kwargs` may not bring them.

    Raises:
        Exception: Whatever pydantic and the user's types raise where a type cannot be described.
    """
    unresolved = next((p for p in offered if p.problem), None)
    if unresolved is not None:
        raise TypeError(unresolved.problem)
    types = {p.name: _document_type(p, taken) for p in offered}
    adapter = _adapter({p.name: types[p.name] if p.required else NotRequired[types[p.name]] for p in offered})
    schema = schemas.tidy(adapter.json_schema(schema_generator=schemas.generator()))
    shown: dict[str, Any] = schema["properties"]
    names = list(shown) if len(shown) == len(offered) else [p.name for p in offered]  # an alias stands in its place
    for p, name in zip(offered, names):
        if name in shown:
            shown[name] = _described(p, shown[name], texts)
    return Built(adapter.validator.validate_json, schema)


def unfit(p: Parameter) -> str:
    """Say why no JSON can fill a parameter, or nothing."""
    if p.problem:
        return p.problem
    try:
        _adapter({p.name: p.document_type}).json_schema()
    except Exception as error:  # noqa: BLE001  as in `built`
        reason = str(error).partition("\n")[0].rstrip(".")
        return f"its type is {inspect.formatannotation(p.annotation)} ({reason}). {REMEDY}"
    return ""


def _document_type(p: Parameter, taken: Collection[str]) -> Any:
    if p.kind is not Written.VAR_KEYWORD:
        return p.document_type
    from pydantic import AfterValidator

    def without_taken(free: dict[str, Any]) -> dict[str, Any]:
        """Refuse what would take the place of another parameter: given by the run, a partial, or beside it."""
        wrong = next((name for name in free if name in taken), None)
        if wrong is not None:
            raise ValueError(f"{wrong!r} cannot be given here")
        return free

    return Annotated[p.document_type, AfterValidator(without_taken)]


def _described(p: Parameter, shown: dict[str, Any], texts: Mapping[str, str]) -> dict[str, Any]:
    text = shown.get("description") or p.note or texts.get(p.name, "")
    return {**shown, **({"description": text} if text else {}), **schemas.json_default(p.default)}


def _adapter(fields: Mapping[str, Any]) -> TypeAdapter[Any]:
    from pydantic import ConfigDict, TypeAdapter

    arguments = TypedDict("arguments", dict(fields))  # type: ignore[misc]  # noqa: UP013  keys known at run time only
    arguments.__pydantic_config__ = ConfigDict(extra="forbid", allow_inf_nan=False)  # type: ignore[attr-defined]
    return TypeAdapter(arguments)


def _alternatives(annotation: Any) -> tuple[Any, ...]:
    origin = get_origin(annotation)
    if origin is Annotated:
        return _alternatives(get_args(annotation)[0])
    return get_args(annotation) if origin is Union or isinstance(annotation, _UNION) else (annotation,)


_UNION = type(int | str)
