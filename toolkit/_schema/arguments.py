"""A model's words -> typed values, or an error that the model can act on.

One pass of pydantic-core takes the raw text to typed values. Only when that fails come the repairs that are safe: they
decode what was encoded twice, drop a null that stands for "left out", and overlook what is said about the call and not
asked for. They never guess, and never mend text that was cut.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from pydantic_core import ValidationError, from_json, to_json

from toolkit._messages import META
from toolkit._schema.argument_schema import ArgumentSchema
from toolkit._schema.error_messages import explain_errors, format_path
from toolkit._schema.json_text import to_json_text
from toolkit.errors import InvalidArguments

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

RawArguments: TypeAlias = str | bytes | Mapping[str, Any]
# Values, and what had to be mended for them; or why there are none.
Outcome: TypeAlias = tuple[dict[str, Any], tuple[str, ...]] | InvalidArguments

# Arguments are read into memory whole, several times their size. No model writes so many characters.
MAX_TEXT = 16 * 2**20
# Listing faults takes time for each, here about a quarter of a second; of more than so many none is named.
MAX_COUNTED = 100_000

# Faults that a text may have where JSON itself is due, by pydantic-core's names.
_NOT_A_STRING = frozenset(
    f"{kind}_type"
    for kind in ("dict", "list", "model", "model_attributes", "dataclass", "tuple", "set", "frozen_set", "mapping")
)
# Faults of what a value says, not of its type: some text may stand there.
_VALUE_FAULTS = frozenset({"value_error", "assertion_error", "literal_error", "enum"})
# A key that no parameter has, in a signature and in a model.
_UNKNOWN_KEY = frozenset({"unexpected_keyword_argument", "extra_forbidden"})
_REPAIRABLE = _NOT_A_STRING | {"json_invalid"}  # blank text is


@dataclass(frozen=True)
class ArgumentParser:
    """Turns a model's words into the values of one tool's parameters.

    Attributes:
        name: The tool's, for what is said of it.
    """

    name: str
    validate: Callable[[str], dict[str, Any]]
    schema: Mapping[str, Any]

    @classmethod
    def for_tool(cls, name: str, built: ArgumentSchema) -> ArgumentParser:
        """Make the reader of what a tool accepts.

        Raises:
            DefinitionError: A parameter cannot be described to a model.
        """
        return cls(name, built.validator, built.schema)

    def parse(self, words: RawArguments | None) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Turn words into values, and say what had to be mended.

        Args:
            words: Raw text, of at most MAX_TEXT characters; or a mapping, where a server has decoded the text already.
                Blank text and null mean that there are no arguments.

        Raises:
            InvalidArguments: They do not fit.
        """
        outcome = self.try_parse(words)
        if isinstance(outcome, InvalidArguments):
            raise outcome
        return outcome

    def try_parse(self, words: RawArguments | None) -> Outcome:
        """Do what `read` does, and give a refusal back: raising it takes time."""
        text = to_json_text(words)
        try:
            return self.validate_text(text), ()
        except Exception as error:  # noqa: BLE001  pydantic-core's own, and those of the user's types
            return self.repair(text, error)

    def parse_document(self, words: RawArguments | None) -> dict[str, Any]:
        """Give the object that fitting words are read as, mended as `read` mends them, with no default in it.

        Raises:
            InvalidArguments: They do not fit.
        """
        text = to_json_text(words)
        try:
            self.validate_text(text)
        except ValidationError as error:
            mended = _repair_text(text, error.errors(include_url=False, include_context=False), self.schema)
            if mended is None:
                raise InvalidArguments("they do not fit") from error
            text = mended[0]
        said: dict[str, Any] = from_json(text)
        return said

    def validate_text(self, text: str) -> dict[str, Any]:
        """Validate a text in one pass.

        Raises:
            InvalidArguments: It is too long.
            Exception: It does not fit, or one of the user's types failed.
        """
        if len(text) > MAX_TEXT:
            refuse_long(text)
        return self.validate(text)

    def repair(self, text: str, error: Exception) -> Outcome:
        """Mend a text that did not fit, where that is safe, and validate it again."""
        if not isinstance(error, ValidationError):
            return _explain_exception(error)
        if error.error_count() > MAX_COUNTED:
            return InvalidArguments(f"they have {error.error_count():,} faults. Send less, and as the schema says.")
        faults = error.errors(include_url=False, include_context=False)
        try:
            mended = _repair_text(text, faults, self.schema)
            return (
                (self.validate_text(mended[0]), mended[1])
                if mended
                else InvalidArguments(explain_errors(faults, self.schema, self.name))
            )
        except ValidationError as still:
            faults = still.errors(include_url=False, include_context=False)
            return InvalidArguments(explain_errors(faults, self.schema, self.name))
        except InvalidArguments as refusal:
            return refusal


def refuse_long(words: RawArguments) -> NoReturn:
    """Refuse a text that is too long to be read.

    Raises:
        InvalidArguments: Always.
    """
    raise InvalidArguments(f"they have {len(words):,} characters, and {MAX_TEXT:,} are the most. Send less.")


def _explain_exception(error: Exception) -> InvalidArguments:
    if isinstance(error, InvalidArguments):
        return error
    refusal = InvalidArguments(f"they could not be checked ({type(error).__name__}). Try other values.")
    refusal.__cause__ = error
    return refusal


def _repair_text(
    text: str, faults: Sequence[ErrorDetails], schema: Mapping[str, Any]
) -> tuple[str, tuple[str, ...]] | None:
    """Mend a text where it failed, and say how; None where nothing can be mended without guessing."""
    if not any(map(_is_repairable, faults)):
        return None
    if text.strip() in ("", "null"):
        return "{}", ()
    return None if faults[0]["type"] == "json_invalid" else _repair_document(text, faults, schema)


def _is_repairable(fault: ErrorDetails) -> bool:
    return fault["input"] is None or fault["type"] in _REPAIRABLE or _is_about_the_call(fault)


def _is_about_the_call(fault: ErrorDetails) -> bool:
    """Tell whether something is said about the call that the tool has no parameter for."""
    return fault["type"] in _UNKNOWN_KEY and len(fault["loc"]) == 1 and fault["loc"][0] in META


def _repair_document(
    text: str, faults: Sequence[ErrorDetails], schema: Mapping[str, Any]
) -> tuple[str, tuple[str, ...]] | None:
    document = [from_json(text)]  # in a list, so that the whole is a place like any other
    optional = schema["properties"].keys() - set(schema.get("required", ()))
    texts = {_locate(document, fault["loc"])[2] for fault in faults if _is_refused_text(fault)}
    mendable = [fault for fault in faults if _locate(document, fault["loc"])[2] not in texts]
    repairs = tuple(dict.fromkeys(note for fault in mendable for note in _repair_place(document, fault, optional)))
    return (to_json(document[0], inf_nan_mode="constants").decode(), repairs) if repairs else None


def _is_refused_text(fault: ErrorDetails) -> bool:
    """Tell whether a text stands where one may, and is refused for what it says, such as its length."""
    said = fault["type"].startswith("string_") or fault["type"] in _VALUE_FAULTS
    return isinstance(fault["input"], str) and said


def _repair_place(document: list[Any], fault: ErrorDetails, optional: Collection[str]) -> Iterator[str]:
    holder, key, path = _locate(document, fault["loc"])
    value = holder[key]
    if isinstance(value, str) and fault["type"] in _NOT_A_STRING and (decoded := _decode(value)) is not None:
        holder[key] = decoded
        yield f"{path or 'arguments'}: decoded from a JSON string"
    elif _is_about_the_call(fault) and key in META:
        del holder[key]
        yield f"{path}: overlooked"
    elif value is None and holder is document[0] and key in optional and isinstance(holder, dict):
        del holder[key]
        yield f"{path}: null taken as left out"


def _locate(document: list[Any], location: Sequence[int | str]) -> tuple[Any, Any, str]:
    """Find the deepest place that a fault's location names; branches of a union have names that no place has."""
    holder: Any = document
    key: int | str = 0
    walked: list[int | str] = []
    for step in location:
        inner = holder[key]
        if not ((isinstance(inner, dict) and step in inner) or (isinstance(inner, list) and step in range(len(inner)))):
            continue
        holder, key = inner, step
        walked.append(step)
    return holder, key, format_path(walked)


def _decode(text: str) -> dict[str, Any] | list[Any] | None:
    try:
        value = from_json(text)
    except ValueError:
        return None
    return value if isinstance(value, (dict, list)) else None
