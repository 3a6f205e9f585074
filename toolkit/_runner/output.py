"""Structured output: from the type of a run's answer to a schema for the model, and from its text to a typed value.

An answer is one JSON object: the value itself if its type is an object (a model, a dataclass, a TypedDict), or else an
object with the value under the key `result`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from inspect import isroutine
from io import StringIO
from typing import Any, Generic, TypeAlias

from pydantic_core import ValidationError, from_json, to_json
from typing_extensions import TypedDict, TypeVar

from toolkit._messages import OutputSpec, ToolSpec, replace_surrogates
from toolkit._options import is_number
from toolkit._schema.core_schema import describe_object
from toolkit._schema.declared_schema import DocumentSchema
from toolkit._schema.error_messages import MAX_NAME, ErrorExplainer, shorten
from toolkit._schema.function_schema import summarize_error
from toolkit._schema.json_mode import build_json_validator
from toolkit._schema.json_schema import inline_root, make_free_name, wrap_schema
from toolkit._schema.json_text import strip_fence, strip_fence_start
from toolkit.errors import DefinitionError, ToolError
from toolkit.events import (
    REASONS_WITHOUT_ANSWER,
    FinishReason,
    OutputDelta,
    ReasoningDelta,
    TextDelta,
    ToolArgumentsDelta,
)

T = TypeVar("T", default=str)

KEY = "result"
# Name of the tool whose call is the answer, for servers that cannot be asked for JSON in another way.
NAME = "final_result"
TYPES = "Pass a type, such as a pydantic model, a dataclass, list[str] or a union A | B."
DESCRIPTION = "The final answer. Give it when you have it."
# Types of the errors that a validator of the user's raises.
_CHECKS = frozenset({"value_error", "assertion_error"})
# Finish reasons of a run whose last text is not of its output type.
UNTYPED_REASONS: frozenset[FinishReason] = frozenset({*REASONS_WITHOUT_ANSWER, "halted"})


@dataclass(frozen=True, kw_only=True)
class Output(Generic[T]):
    """The type of a run's answer.

    Attributes:
        spec: The schema that is sent to the model; None if any text is an answer.
        validate: Makes a value from a text.
    """

    spec: OutputSpec | None
    validate: Callable[[str], T]

    def parse(self, text: str) -> T:
        """Parse an answer into its value.

        Raises:
            ToolError: The answer is not of the type; the text is for the model.
        """
        if self.spec is None:
            return self.validate(text)
        text = strip_fence(text)
        try:
            return self.validate(text)
        except ValidationError as error:
            faults = error.errors(include_url=False, include_context=False)
            is_under_key = all(fault["loc"][:1] == (KEY,) for fault in faults)
            raise _refuse(ErrorExplainer(self.schema).explain(faults, _add_key(text, objects=is_under_key))) from error
        except ToolError as error:  # of a validator, or of a JSON Schema
            raise _refuse(str(error)) from error
        except Exception as error:
            raise _refuse(f"it could not be checked ({type(error).__name__})") from error

    @property
    def schema(self) -> Mapping[str, Any]:
        """JSON Schema of an answer."""
        return self.spec.spec.parameters if self.spec else {}

    @property
    def remedy(self) -> str:
        """Instruction for the model after a wrong answer. It repeats the schema, which not every server shows."""
        schema = json.dumps(self.schema, ensure_ascii=False)
        return f"Answer again, with one JSON object of this schema and nothing else: {schema}"


# Any text is an answer.
TEXT = Output[str](spec=None, validate=str)


def build_output(kind: Any, taken: Collection[str] = ()) -> Output[Any]:
    """Describe the answer of one run, for any type other than text.

    Args:
        kind: Any type that pydantic validates, or a JSON Schema, whose values are plain data.
        taken: Names of tools; the tool of the answer gets another name.

    Raises:
        DefinitionError: No JSON can be of this type.
    """
    schema, validate = _build(kind)
    description = f"{DESCRIPTION} {schema.pop('description', '')}".rstrip()
    spec = ToolSpec(name=make_free_name(NAME, taken), description=description, parameters=schema, strict=True)
    return Output(spec=OutputSpec(spec=spec), validate=validate)


def write_schema(kind: Any) -> str:
    """Write the JSON Schema of an answer, for the `output_type` of another process. Return "" if any text is an answer.

    Raises:
        DefinitionError: No JSON can be of this type.
    """
    return "" if kind is str else json.dumps(_build(kind)[0])


def read_answer(text: str, reason: FinishReason, kind: Any) -> Any:
    """Parse the answer of a run that has ended in another process. Return None if there is no answer.

    Raises:
        ToolError: The answer is not of the type.
    """
    if kind is str:
        return text
    return None if reason in UNTYPED_REASONS else build_output(kind).parse(text)


def _build(kind: Any) -> tuple[dict[str, Any], Callable[[str], Any]]:
    try:
        return _build_from_schema(kind) if isinstance(kind, Mapping) else _build_from_type(kind)
    except Exception as error:
        why = summarize_error(error)
        shown = shorten(repr(kind), MAX_NAME)
        raise DefinitionError(f"output_type={shown} is not a type that JSON can fill: {why}. {TYPES}") from error


def _build_from_type(kind: Any) -> tuple[dict[str, Any], Callable[[str], Any]]:
    from pydantic import ConfigDict, TypeAdapter

    if kind is None:
        raise TypeError("null is not an answer; leave it out for text")
    if isroutine(kind):
        raise TypeError("a function is not a type")

    adapter = TypeAdapter[Any](kind)
    if schema := describe_object(adapter):
        whole = {"type": "object", "properties": {}, **schema}
        _reject_empty_object(whole)
        return whole, build_json_validator(adapter)

    wrapper = TypedDict("wrapper", {KEY: kind})  # type: ignore[misc]  # a type made at run time
    wrapper.__pydantic_config__ = ConfigDict(extra="forbid", allow_inf_nan=False)  # type: ignore[attr-defined]
    wrapped = TypeAdapter[Any](wrapper)
    validate = build_json_validator(wrapped)
    return describe_object(wrapped), lambda text: _read_value(validate, text)


def _build_from_schema(kind: Mapping[str, Any]) -> tuple[dict[str, Any], Callable[[str], Any]]:
    from toolkit._schema.validation.pointers import SchemaDocument, bundle  # slow to load; a type needs neither

    schema = bundle(SchemaDocument.load({**inline_root(kind)}))
    if schema.get("type") == "object":
        anything = {} if schema.get("properties") else {"additionalProperties": True}
        whole = {"type": "object", "properties": {}, **anything, **schema}
        _reject_empty_object(whole)
        validate = DocumentSchema(whole).validator
        is_wrapped = [*whole["properties"]] == [KEY]  # perhaps what another process made of a type
        return whole, (lambda text: validate(_add_key(text))) if is_wrapped else validate

    wrapped = {**wrap_schema(schema, KEY), "additionalProperties": False}
    validate_whole = DocumentSchema(wrapped).validator
    return wrapped, lambda text: _read_value(validate_whole, text)


def _reject_empty_object(schema: Mapping[str, Any]) -> None:
    """Reject an object without fields."""
    if not (schema["properties"] or schema.get("additionalProperties")):
        raise TypeError("it has no fields")


def _refuse(why: str) -> ToolError:
    end = "" if why.endswith((".", "?", "!")) else "."
    return ToolError(f"Invalid output: {why}{end}")


def _read_value(validate: Callable[[str], Any], text: str) -> Any:
    """Read the value under its key. If this fails, read the whole text as the value, even if it is an object."""
    keyed = _add_key(text)
    try:
        return validate(keyed)[KEY]
    except Exception:
        bare = _add_key(text, objects=True)
        if bare != keyed:
            try:
                return validate(bare)[KEY]
            except ValidationError as error:  # the model reads the first error, unless a validator of the type failed
                if any(fault["type"] in _CHECKS for fault in error.errors(include_url=False, include_context=False)):
                    raise
        raise


def _add_key(text: str, *, objects: bool = False) -> str:
    """Put a value under its key, since some models write the value itself. Invalid JSON is rejected later.

    With `objects`, an object without the key is a value, too. An empty object may be the start of an answer, so it is
    left as it is.
    """
    try:
        document = from_json(text)
    except (ValueError, TypeError):  # the latter of unpaired surrogates
        return text
    if isinstance(document, dict) and not (objects and document and KEY not in document):
        return text
    return f'{{"{KEY}": {text}}}'


Delta: TypeAlias = TextDelta | ReasoningDelta | ToolArgumentsDelta

# A text is parsed again when it has grown by an eighth, so that all passes cost at most nine times the last one.
_SHARE = 8


@dataclass
class PartialOutput:
    """Parses one answer as it arrives, and yields its value each time that it changes. It never raises.

    An incomplete end is left out: a number, an item of a list, a field with a default. There is no value while a
    required field is missing. The type's own validators run for every value.
    """

    output: Output[Any]
    _text: StringIO = field(default_factory=StringIO, init=False)
    _due: int = field(default=1, init=False)
    _call: int | None = field(default=None, init=False)
    _last: tuple[Any, ...] = field(default=(), init=False)  # the last value, if there is one

    def transform(self, piece: Delta) -> Iterator[Delta | OutputDelta]:
        """Yield a delta, followed by an `OutputDelta` if it has changed the value.

        A delta of the call that holds the answer is not yielded itself.
        """
        spec = self.output.spec
        if isinstance(piece, ToolArgumentsDelta) and spec and spec.by_tool and spec.spec.name == piece.name:
            yield from self.feed(piece.text, piece.index)
            return
        yield piece
        if isinstance(piece, TextDelta):
            yield from self.feed(piece.text)

    def feed(self, text: str, call: int | None = None) -> Iterator[OutputDelta]:
        """Add a piece of the answer, and yield the value if it has changed.

        The piece belongs to the text, or to the arguments of the call with this index. If the piece before belonged to
        another of these, the answer starts again.
        """
        if call != self._call:
            self._call = call
            self._text = StringIO()
            self._due = 1
        self._text.write(text)
        size = self._text.tell()
        if size >= self._due:
            self._due = size + max(1, size // _SHARE)
            yield from self._emit_if_changed(self._complete_prefixes())

    def finish(self, text: str) -> Iterator[OutputDelta]:
        """Yield the value of the whole answer, if it differs from the last one."""
        yield from self._emit_if_changed(iter((text,)))

    def _emit_if_changed(self, texts: Iterator[str]) -> Iterator[OutputDelta]:
        """Yield the value of the first text that has one, if it differs from the last value."""
        found = next(filter(None, map(self._try_parse, texts)), ())
        if found and not _is_equal(found, self._last):
            self._last = found
            yield OutputDelta(found[0])

    def _try_parse(self, text: str) -> tuple[Any, ...]:
        """Return a tuple with the value of a text, or an empty tuple if it has none yet. The value may be None."""
        try:
            return (self.output.parse(text),)
        except Exception:  # noqa: BLE001  reported once the answer is whole
            return ()

    def _complete_prefixes(self) -> Iterator[str]:
        """Yield the ways to complete the text so far to JSON, the longest first."""
        text = strip_fence_start(replace_surrogates(self._text.getvalue()))
        with suppress(ValueError):  # not JSON, or nested too deeply to be read, or on Windows to be written
            document = from_json(text, allow_partial="trailing-strings", allow_inf_nan=False)
            if isinstance(document, (dict, list, str)):  # text that is not JSON may begin like a number, true or null
                beginnings = map(self._decode, _shorten(document, text))
                yield from (to_json(beginning).decode() for beginning in beginnings if beginning is not None)

    def _decode(self, document: Any) -> Any:
        spec = self.output.spec
        return spec.decode(document) if spec and spec.decode else document


def _shorten(document: Any, text: str) -> Iterator[Any]:
    """Yield the document parsed from an incomplete `text`, then the same document with less and less of its end.

    Only the end may be incomplete. So the last entry is left out first, then the last entry of the list or object
    around it, and so on.
    """
    containers = []
    leaf = document
    while isinstance(leaf, (list, dict)) and leaf:
        containers.append(leaf)
        leaf = leaf[_last_key(leaf)]
    if not (is_number(leaf) and text[-1].isdigit()):  # more digits may follow
        yield document
    for container in reversed(containers):
        del container[_last_key(container)]
        yield document


def _last_key(container: Any) -> Any:
    return next(reversed(container)) if isinstance(container, dict) else -1


def _is_equal(value: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    try:
        return bool(value == other)
    except Exception:  # noqa: BLE001  values are the user's: some cannot be compared
        return False
