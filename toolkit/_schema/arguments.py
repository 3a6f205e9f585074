"""Parsing of a model's raw arguments into typed values, or into an error that the model can act on.

pydantic-core turns raw text into typed values in one pass. If that fails, safe repairs are tried: values that were
encoded twice are decoded, and a null for an optional parameter is dropped, as are keys about the call itself that are
no parameters. Repairs never guess, and truncated text is never repaired. If a key is repeated, the last one wins, as
in every JSON parser.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from pydantic_core import ValidationError, from_json, to_json

from toolkit._messages import META
from toolkit._options import get_short_traceback
from toolkit._schema.error_messages import ErrorExplainer, format_path, locate, summarize_signature
from toolkit._schema.function_schema import ArgumentSchema
from toolkit._schema.json_text import to_json_text
from toolkit.errors import InvalidArguments, ToolError

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

logger = logging.getLogger("toolkit")

RawArguments: TypeAlias = str | bytes | Mapping[str, Any]
# Values, the repairs they needed, and the JSON text that they were read from; or the error.
Parsed: TypeAlias = tuple[dict[str, Any], tuple[str, ...], str] | InvalidArguments

# The most characters of a call's arguments. Parsing takes several times their size in memory.
MAX_TEXT = 16 * 2**20
# The most errors that are listed, which takes about a quarter of a second. If there are more, none is.
MAX_ERRORS = 100_000


# Errors of pydantic-core for text in place of an array or object.
_CONTAINER_EXPECTED = frozenset(
    f"{kind}_type"
    for kind in (
        *("dict", "ordered_dict", "counter", "mapping", "model", "model_attributes", "dataclass", "named_tuple"),
        *("list", "tuple", "set", "frozen_set", "deque"),
    )
)
# Errors about a value, not about its type: another text may be valid.
_VALUE_FAULTS = frozenset({"value_error", "assertion_error", "literal_error", "enum"})
# Errors about a key that no parameter has, in a signature and in a model.
_UNKNOWN_KEY = frozenset({"unexpected_keyword_argument", "extra_forbidden"})
_REPAIRABLE = _CONTAINER_EXPECTED | _UNKNOWN_KEY | {"json_invalid"}  # the last one for blank text


class ArgumentParser:
    """Parser of the raw arguments of one tool.

    Attributes:
        schema: The JSON Schema of the arguments.
        validate: Turns a valid JSON text into values by name, without repairs; raises as `ArgumentSchema.validator`.

    Raises:
        DefinitionError: A parameter cannot be described to a model.
    """

    def __init__(self, name: str, arguments: ArgumentSchema) -> None:
        self._name = name
        self.schema: Mapping[str, Any] = arguments.schema
        self.validate: Callable[[str], dict[str, Any]] = arguments.validator

    @cached_property
    def _explainer(self) -> ErrorExplainer:
        return ErrorExplainer(self.schema, summarize_signature(self._name, self.schema))

    def parse(self, arguments: RawArguments | None) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Parse and validate a call's arguments. Return values by name, and the repairs that were needed.

        Args:
            arguments: Raw text, of at most MAX_TEXT characters; or a mapping, if a server has parsed the text
                already. Blank text and null mean that there are no arguments.

        Raises:
            InvalidArguments: They do not fit the schema.
        """
        outcome = self.try_parse(arguments)
        if isinstance(outcome, InvalidArguments):
            raise outcome
        values, repairs, _ = outcome
        return values, repairs

    def parse_document(self, arguments: RawArguments | None) -> dict[str, Any]:
        """Parse valid arguments to plain data, repaired as by `parse`, without defaults.

        Raises:
            InvalidArguments: They do not fit the schema.
        """
        parsed = self.try_parse(arguments)
        if isinstance(parsed, InvalidArguments):
            raise parsed
        _, _, text = parsed
        document: dict[str, Any] = from_json(text)
        return document

    def try_parse(self, arguments: RawArguments | None) -> Parsed:
        """Parse like `parse`, but return the error, which is faster than raising it."""
        try:
            text = to_json_text(arguments)
        except (RecursionError, ValueError):
            return InvalidArguments("they are nested too deeply, or contain themselves.")
        try:
            return self.validate_text(text), (), text
        except Exception as error:  # noqa: BLE001  errors of pydantic-core, and of the user's types
            return self.repair(text, error)

    def validate_text(self, text: str) -> dict[str, Any]:
        """Validate a text in one pass.

        Raises:
            InvalidArguments: The text has more than MAX_TEXT characters.
            Exception: The text does not fit the schema, or one of the user's types failed.
        """
        if len(text) > MAX_TEXT:
            refuse_length(text)
        return self.validate(text)

    def repair(self, text: RawArguments, error: Exception) -> Parsed:
        """Repair a text that is not valid, if that is safe, and validate it again. A mapping is parsed as usual."""
        if not isinstance(text, str):
            return self.try_parse(text)
        if not isinstance(error, ValidationError):
            return _explain_exception(error)
        if len(text) > MAX_ERRORS and error.error_count() > MAX_ERRORS:
            return InvalidArguments(f"they have {error.error_count():,} errors. Send less, and follow the schema.")

        faults = _list_faults(error)
        repairs: tuple[str, ...] = ()
        while (repaired := _repair_text(text, faults, self.schema)) is not None:
            text, notes = repaired
            repairs = (*repairs, *notes)
            try:
                return self.validate_text(text), repairs, text
            except ValidationError as remaining:  # a decoded value may hold encoded ones
                faults = _list_faults(remaining)
            except Exception as raised:  # noqa: BLE001  as in `try_parse`
                return _explain_exception(raised)

        return InvalidArguments(self._explainer.explain(faults, text))

    def explain(self, error: ValidationError) -> InvalidArguments:
        """Explain an error of a model that was made of parsed arguments."""
        refusal = InvalidArguments(self._explainer.explain(_list_faults(error)))
        refusal.__cause__ = error
        return refusal


def refuse_length(arguments: RawArguments) -> NoReturn:
    """Raise an InvalidArguments about arguments of more than MAX_TEXT characters."""
    raise InvalidArguments(f"they have {len(arguments):,} characters; the limit is {MAX_TEXT:,}. Send less.")


def _list_faults(error: ValidationError) -> list[ErrorDetails]:
    return error.errors(include_url=False, include_context=False)


def _explain_exception(error: Exception) -> InvalidArguments:
    if isinstance(error, InvalidArguments):
        return error
    unclear = f"they could not be checked ({type(error).__name__}). Try other values."
    refusal = InvalidArguments(error.text if isinstance(error, ToolError) else unclear)
    refusal.__cause__ = error
    if not isinstance(error, ToolError):
        logger.warning("Arguments could not be checked; the call is refused.", exc_info=get_short_traceback(error))
    return refusal


def _repair_text(
    text: str, faults: Sequence[ErrorDetails], schema: Mapping[str, Any]
) -> tuple[str, tuple[str, ...]] | None:
    """Repair the invalid values in a text. Return it with notes, or None if nothing can be repaired safely."""
    candidates = [fault for fault in faults if fault["type"] in _REPAIRABLE or fault["input"] is None]
    if not candidates:
        return None
    if text.strip() in ("", "null"):
        return "{}", ()
    if faults[0]["type"] == "json_invalid" and not faults[0]["loc"]:
        return None

    document = [from_json(text)]  # in a list, so that the whole document can be replaced, too
    optional = schema["properties"].keys() - set(schema.get("required", ()))
    text_paths = {_find_path(document, fault) for fault in faults if _is_refused_text(fault)}
    repairable = [fault for fault in candidates if _find_path(document, fault) not in text_paths]
    notes = chain.from_iterable(_repair_value(document, fault, optional) for fault in repairable)
    repairs = tuple(dict.fromkeys(notes))  # each note once
    return (to_json(document[0], inf_nan_mode="constants").decode(), repairs) if repairs else None


def _find_path(document: list[Any], fault: ErrorDetails) -> str:
    _, _, path = _locate(document, fault["loc"])
    return path


def _is_refused_text(fault: ErrorDetails) -> bool:
    """Return whether a text was refused for its content, such as its length, and not for its type."""
    is_about_content = fault["type"].startswith("string_") or fault["type"] in _VALUE_FAULTS
    return isinstance(fault["input"], str) and is_about_content


def _repair_value(document: list[Any], fault: ErrorDetails, optional: Collection[str]) -> Iterator[str]:
    """Repair the value that a fault is about, and yield a note of it."""
    holder, key, path = _locate(document, fault["loc"])
    value = holder[key]
    if isinstance(value, str) and fault["type"] in _CONTAINER_EXPECTED and (decoded := _decode(value)) is not None:
        holder[key] = decoded
        yield f"{path or 'arguments'}: decoded from a JSON string"
    elif fault["type"] in _UNKNOWN_KEY and len(fault["loc"]) == 1 and key in META:  # a key about the call itself
        del holder[key]
        yield f"{path}: overlooked"
    elif value is None and holder is document[0] and key in optional and isinstance(holder, dict):
        del holder[key]
        yield f"{path}: null taken as left out"


def _locate(document: list[Any], location: Sequence[int | str]) -> tuple[Any, Any, str]:
    """Find the deepest value of a location that the document has. Return its container, its key and its path."""
    path, _ = locate(document[0], location)
    holder: Any = document
    key: int | str = 0
    for step in path:
        holder, key = holder[key], step
    return holder, key, format_path(path)


def _decode(text: str) -> dict[str, Any] | list[Any] | None:
    try:
        value = from_json(text)
    except ValueError:
        return None
    return value if isinstance(value, (dict, list)) else None
