"""The type of a run's answer -> what the model is asked for, and the typed value of what it says.

An answer is one JSON object: of the type itself where that is one (a model, a dataclass, a TypedDict), else the value
under the key `result`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from itertools import chain, count
from typing import Any, Generic

from pydantic_core import ValidationError, from_json
from typing_extensions import TypedDict, TypeVar

from toolkit._messages import OutputSpec, ToolSpec
from toolkit._schema.error_messages import MAX_NAME, explained, shortened
from toolkit._schema.json_schema import inlined, of_object
from toolkit._schema.json_text import doubts, unfenced
from toolkit._schema.parameters import ByDocument
from toolkit.errors import DefinitionError, InvalidArguments, ToolError

T = TypeVar("T", default=str)

KEY = "result"
# What the tool is called whose call is the answer, where a server cannot be asked for JSON otherwise.
NAME = "final_result"
DESCRIPTION = "The final answer. Give it when you have it."


@dataclass(frozen=True, kw_only=True)
class Output(Generic[T]):
    """What a run's answer has to be.

    Attributes:
        asked: What the model is asked for; None where any text will do.
        validate: Makes the value of a text.
    """

    asked: OutputSpec | None
    validate: Callable[[str], T]

    def read(self, text: str) -> T:
        """Turn an answer into its value.

        Raises:
            ToolError: It does not fit; the text is for the model.
        """
        return self._checked(unfenced(text)) if self.asked else self.validate(text)

    def is_call(self, name: str) -> bool:
        """Tell whether a call of this name is the answer."""
        return self.asked is not None and self.asked.by_tool and self.asked.spec.name == name

    def _checked(self, text: str) -> T:
        try:
            value, doubt = self.validate(text), doubts(text)
        except ValidationError as error:
            faults = error.errors(include_url=False, include_context=False)
            raise ToolError(f"Invalid output: {explained(faults, self.schema)}") from error
        except InvalidArguments as error:
            raise ToolError(f"Invalid output: {error}") from error
        except Exception as error:
            raise ToolError(f"Invalid output: it could not be checked ({type(error).__name__}).") from error
        if doubt:
            raise ToolError(f"Invalid output: {doubt}.")
        return value

    @property
    def schema(self) -> Mapping[str, Any]:
        """JSON Schema of an answer."""
        return self.asked.spec.parameters if self.asked else {}

    @property
    def remedy(self) -> str:
        """What to do instead, for the model: not every server shows it the schema."""
        schema = json.dumps(self.schema, ensure_ascii=False)
        return f"Answer again, with one JSON object of this schema and nothing else: {schema}"


def output_of(kind: Any, taken: Collection[str] = ()) -> Output[Any]:
    """Describe the answer of one run.

    Args:
        kind: Whatever pydantic can validate, or a JSON Schema, whose values are plain data; `str` means any text.
        taken: Names of tools, of which the answer's is none.

    Raises:
        DefinitionError: No JSON can be of this type.
    """
    if kind is str:
        return Output(asked=None, validate=str)
    try:
        schema, validate = _documented(kind) if isinstance(kind, Mapping) else _described(kind)
    except Exception as error:
        reason, shown = str(error).partition("\n")[0], shortened(repr(kind), MAX_NAME)
        raise DefinitionError(f"output_type={shown} is no type that JSON can fill: {reason}") from error
    names = chain((NAME,), (f"{NAME}_{number}" for number in count(2)))
    name = next(name for name in names if name not in taken)
    description = f"{DESCRIPTION} {schema.pop('description', '')}".rstrip()
    spec = ToolSpec(name=name, description=description, parameters=schema, strict=True)
    return Output(asked=OutputSpec(spec=spec), validate=validate)


def _described(kind: Any) -> tuple[dict[str, Any], Callable[[str], Any]]:
    from pydantic import ConfigDict, TypeAdapter

    adapter = TypeAdapter[Any](kind)
    if schema := of_object(adapter):
        whole = {"type": "object", "properties": {}, **schema}
        _refuse_empty(whole)
        return whole, adapter.validate_json
    wrapper = TypedDict("wrapper", {KEY: kind})  # type: ignore[misc]  # a type made at run time
    wrapper.__pydantic_config__ = ConfigDict(extra="forbid", allow_inf_nan=False)  # type: ignore[attr-defined]
    wrapped = TypeAdapter[Any](wrapper)

    return of_object(wrapped), lambda text: wrapped.validate_json(_keyed(text))[KEY]


def _documented(kind: Mapping[str, Any]) -> tuple[dict[str, Any], Callable[[str], Any]]:
    from toolkit._schema.validation.references import (
        Document,  # they take long to load, and a type does not need them
        hoisted,
    )

    schema = hoisted(Document.of({**inlined(kind)}))
    if schema.get("type") == "object":
        whole = {"properties": {}, **({} if schema.get("properties") else {"additionalProperties": True}), **schema}
        _refuse_empty(whole)
        return whole, ByDocument(whole).validator
    definitions = {"$defs": schema["$defs"]} if "$defs" in schema else {}
    inner = {keyword: part for keyword, part in schema.items() if keyword != "$defs"}
    wrapped = {"type": "object", "properties": {KEY: inner}, "required": [KEY], "additionalProperties": False}
    validate = ByDocument({**wrapped, **definitions}).validator
    return {**wrapped, **definitions}, lambda text: validate(_keyed(text))[KEY]


def _refuse_empty(schema: Mapping[str, Any]) -> None:
    """Refuse an object of which nothing can be said.

    Raises:
        TypeError: It is one.
    """
    if not (schema["properties"] or schema.get("additionalProperties")):
        raise TypeError("it has no fields.")


def _keyed(text: str) -> str:
    """Put a value under its key: some models give the value itself. What is no JSON is refused later, as such."""
    try:
        document = from_json(text)
    except ValueError:
        return text
    return text if isinstance(document, dict) else f'{{"{KEY}": {text}}}'
