"""Results of calls: the values and exceptions of tools as text, images and files for the model.

A value that cannot be written never fails a call: the tool has run, and its effect cannot be undone.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from operator import attrgetter
from sys import maxsize
from typing import Any, Literal

from pydantic_core import PydanticSerializationError, SchemaSerializer, from_json, to_json

from toolkit._concurrency.cancellation import note_effects
from toolkit._messages import REMEDY, File, Image, ToolResult, clean_json, replace_surrogates
from toolkit._options import get_short_traceback
from toolkit._schema.error_messages import MAX_ERROR, shorten
from toolkit._schema.json_text import is_long_integer
from toolkit._tools.library_values import can_draw, hide_address, is_table, to_image, to_plain, write_table
from toolkit.errors import Cancelled, ToolError, ToolkitError

logger = logging.getLogger("toolkit")

# Characters of a value's own `str` or `repr` in a result.
MAX_WRITTEN = 10_000
MAX_NAME = 100
LONG_INTEGER = "(An integer of more than 100,000 digits, which is too long to write.)"
# Exceptions of a group that are looked at: more than MAX_ERROR characters can name.
MAX_LEAVES = 1_000
# Images and pictures are searched for in this many levels of a value, and in dicts and lists of at most MAX_ITEMS.
MAX_DEPTH = 2
MAX_ITEMS = 100
# The end of an error's text if the model may not read the message of each exception.
_HIDDEN = f"not shown here. {REMEDY}"
# Types whose values may be, or hold, something that is not sent as text.
_SPECIAL = frozenset({ToolResult, Image, File, dict, list, tuple})
_get_text = attrgetter("text")
_has_only_plain = frozenset({str, int, float, bool, type(None)}).issuperset


def explain_exception(
    error: BaseException,
    name: str,
    announced: Collection[str] = (),
    relay: Collection[type[BaseException]] = (),
) -> ToolResult:
    """Make the result of an exception. The model sees only messages that are meant for it.

    The text of a ToolError is used unchanged. Any other text has at most MAX_ERROR characters. The exceptions of a
    group are described one by one. A group of one exception is described like this exception.

    Args:
        error: The exception.
        name: The tool's name.
        announced: Names of exceptions whose message the model may see, besides ToolError; a dotted name may be
            shortened on the left.
        relay: Such exception classes.
    """
    class_name = f"{type(error).__module__.partition('.')[0]}.{type(error).__name__}"
    if class_name in ("asyncio.CancelledError", "concurrent.CancelledError"):  # without importing them
        return ToolResult.from_error(note_effects(Cancelled(), has_started=True), error)

    leaves = list(islice(flatten(error), MAX_LEAVES)) or [error]
    only = leaves[0] if len(leaves) == 1 else error
    kind = "failed"
    text = ""
    if isinstance(only, ToolError):
        kind = only.kind
        text = write_safely(_get_text, only, maxsize)
    if not text:
        text = _summarize(name, dict(_describe_exception(leaf, announced, relay) for leaf in leaves))
    return ToolResult(text=text, error=text, kind=kind, exception=error)


def log_exception(name: str, error: BaseException, text: str | None) -> None:
    """Log the exception of a call: in one line if the model reads its message, otherwise with its traceback.

    At level DEBUG, every exception has its traceback. A ToolError is an answer of the tool, so it is logged only there.
    """
    if isinstance(error, ToolkitError):
        logger.debug("Tool %s refused", name, exc_info=error)
    elif (text or "").endswith(_HIDDEN):
        shown = f"{type(error).__name__} (relay= lets the model read the message)"
        logger.warning("Tool %s raised %s", name, shown, exc_info=get_short_traceback(error))
    else:
        shown = " ".join(write_safely(repr, error, MAX_ERROR).split())
        is_debug = logger.isEnabledFor(logging.DEBUG)
        logger.warning("Tool %s raised %s", name, shown, exc_info=get_short_traceback(error) if is_debug else None)


def write_safely(write: Callable[[Any], str], value: Any, most: int = MAX_WRITTEN) -> str:
    """Write a value by the user's own code, with at most `most` characters. Return "" if that fails."""
    try:
        return replace_surrogates(shorten(write(value), most))
    except Exception:  # noqa: BLE001  it is the user's: anything may happen
        return ""


def flatten(error: BaseException) -> Iterator[BaseException]:
    """Yield the exceptions in nested groups, in order. An exception that is not a group yields itself."""
    waiting = [error]
    for _ in range(100 * MAX_LEAVES):  # a hand-made group may contain itself
        if not waiting:
            return
        current = waiting.pop()
        if any(kind.__name__ == "BaseExceptionGroup" for kind in type(current).__mro__):  # no builtin in Python 3.10
            waiting += reversed(getattr(current, "exceptions", ()))
        else:
            yield current


def _describe_exception(
    error: BaseException, announced: Collection[str], relay: Collection[type[BaseException]]
) -> tuple[str, bool]:
    """Return an exception's description for the model, and whether that includes its message."""
    title = shorten(type(error).__name__, MAX_NAME)
    if isinstance(error, ToolError):
        return write_safely(_get_text, error, maxsize) or f"{title}. {REMEDY}", True
    names = [f".{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__]
    is_announced = any(_matches_name(name, known) for name in names for known in announced)
    if is_announced or isinstance(error, tuple(relay)):
        message = _strip_secrets(write_safely(str, error))
        return f"{title}: {message}" if message else f"{title}. {REMEDY}", True
    return title, False


def _summarize(name: str, descriptions: Mapping[str, bool]) -> str:
    """Join the descriptions of exceptions, with a note if a message was left out."""
    which = "Its message is" if len(descriptions) == 1 else "Some messages are"
    rest = "" if all(descriptions.values()) else f". {which} {_HIDDEN}"
    what = f"{shorten(replace_surrogates(name), MAX_NAME)} failed: {'; '.join(descriptions)}"
    return replace_surrogates(shorten(what, MAX_ERROR - len(rest)) + rest)


def _matches_name(name: str, known: str) -> bool:
    """Return whether a class may go by a shorter name: the end of its path, or its package and its own name."""
    package, _, word = known.rpartition(".")
    return name.endswith(f".{known}") or (name.startswith(f".{package}.") and name.endswith(f".{word}"))


def _strip_secrets(text: str) -> str:
    """Remove user, password and query from the URLs in a text, since they may hold keys."""
    return _ADDRESS.sub(lambda found: found[1] + _VALUE.sub(r"\1...", found[2]), text)


# Scheme, user and password, host and path, query. A password may hold characters that end a host.
_ADDRESS = re.compile(
    r"((?:\b[a-z][a-z0-9+.-]{0,30}:)?//)(?:[^\s/?#@:\"'<>]*:[^\s\"'<>]*@|[^\s/?#\"'<>]*@)?([^\s\"'<>]*)", re.IGNORECASE
)
_VALUE = re.compile(r"(?<=[?&;#])([^=&;#\s]*=|(?=[^&;#\s]))[^&;#\s]*")


def make_writer(serializer: SchemaSerializer) -> Callable[[Any], str]:
    """Make a function that writes values as `write_value` does, but by the serializer of their annotated type."""

    def write(value: Any) -> str:
        try:
            if isinstance(value, str) or is_long_integer(value):
                return write_value(value)
            try:
                return serializer.to_json(value, by_alias=True, warnings=False).decode()
            except PydanticSerializationError:  # such as bytes that are not UTF-8
                return write_value(serializer.to_python(value, by_alias=True, warnings=False))
        except Exception:  # noqa: BLE001  reading a user's value may raise anything
            return write_value(value)

    return write


def render(value: Any, write: Callable[[Any], str]) -> ToolResult:
    """Make the result of a function's return value."""
    if is_special(type(value)) and (special := _special(value, write)) is not None:
        return special
    return ToolResult(value, write(value))


def is_special(kind: type) -> bool:
    """Return whether values of a type may be, or hold, something that is not sent as text."""
    return kind in _SPECIAL or (kind.__module__ != "builtins" and can_draw(kind))


def write_value(value: Any) -> str:
    """Write any value: text as it is, None as `null`, anything else as JSON if possible. Never raises."""
    try:
        if isinstance(value, str):
            return replace_surrogates(str.__str__(value))
        return LONG_INTEGER if is_long_integer(value) else to_json(value, inf_nan_mode="strings").decode()
    except Exception:  # noqa: BLE001  as in `make_writer`
        return _to_text_somehow(value)


def complete(result: ToolResult, write: Callable[[Any], str] = write_value) -> ToolResult:
    """Complete a result that a tool returned: its text, from its value or error, and the fields that it leaves out."""
    rendered = _content(result, write)
    error = _find_wrong_part(result) if result.error is None else _as_text(result.error)
    text = rendered.text
    if error and text != error and not text.endswith(f"\n{error}"):
        text = f"{text}\n{error}" if text else error
    return result.replace(
        text=text,
        error=error,
        kind=result.kind or (None if error is None else "failed"),
        images=_parts_of(Image, result.images) or rendered.images,
        files=_parts_of(File, result.files) or rendered.files,
    )


def accept(result: ToolResult) -> ToolResult:
    """Complete the result of a middleware or hook: the model reads its text as it is, and nothing is added to it.

    An error that the text does not hold, since it was redacted, is replaced by the text.
    """
    whole = complete(result)
    if result.text is None:
        return whole
    text = _as_text(result.text)
    error = whole.error
    return whole.replace(text=text, error=text if error and error not in text else error)


def follow_error(result: ToolResult, given: ToolResult) -> ToolResult:
    """Update the text of a result whose error a hook or middleware has changed, unless it has changed the text, too.

    `given` is the result that it got.
    """
    text = result.text
    if not result.error or result.error == given.error or text is None or text != given.text:
        return result
    if given.error and given.error in text:
        return result.replace(text=text.replace(given.error, result.error))
    return result.replace(text=f"{text}\n{result.error}" if text else result.error)


def _content(result: ToolResult, write: Callable[[Any], str]) -> ToolResult:
    """Render a result's own text, without its error."""
    if result.text is not None:
        return ToolResult(text=_as_text(result.text))
    parts = (*_parts_of(Image, result.images), *_parts_of(File, result.files))
    if result.value is None and (parts or result.is_error):
        return ToolResult(text="\n".join(map(_render_part, parts)))
    return render(result.value, write)


def _special(value: Any, write: Callable[[Any], str]) -> ToolResult | None:
    """Render a ToolResult, an image, a file, or a value that contains one. Return None for any other value.

    The text has a mark in place of each image and file. A list of them has one line for each item; any other value is
    JSON.
    """
    if type(value) is ToolResult:
        return complete(value, write)

    items = value if type(value) in (list, tuple) else [value]
    kinds = set(map(type, items))
    if any(map(can_draw, kinds - {str, int, float, dict})):
        items = list(map(to_image, items))
        kinds = set(map(type, items))
    if kinds.isdisjoint((ToolResult, Image, File)) and not holds_parts(value):
        return None

    taken: list[Any] = []
    lines = [value] if kinds.isdisjoint((Image, File)) else items
    text = "\n".join(write_value(_take_parts(line, taken)) for line in lines)
    return ToolResult(value, text, images=_parts_of(Image, taken), files=_parts_of(File, taken))


def holds_parts(value: Any, depth: int = MAX_DEPTH) -> bool:
    """Return whether a value is a result, an image, a file or a picture, or a small dict or list that holds one."""
    kind = type(value)
    if kind in (dict, list, tuple):
        items = value.values() if kind is dict else value
        is_open = depth > 0 and len(value) <= MAX_ITEMS and not _has_only_plain(map(type, items))
        return is_open and any(holds_parts(item, depth - 1) for item in items)
    return kind in (ToolResult, Image, File) or (kind.__module__ != "builtins" and can_draw(kind))


def _take_parts(value: Any, taken: list[Any], depth: int = MAX_DEPTH) -> Any:
    """Copy a value with marks in place of the images and files in its dicts and lists, which are added to `taken`.

    Of a result, only the text is written, never the details or the exception.
    """
    if type(value) is ToolResult:
        whole = complete(value)
        taken += (*whole.images, *whole.files)
        return whole.text
    if type(value) is dict and depth:
        return {key: _take_parts(item, taken, depth - 1) for key, item in value.items()}
    if type(value) in (list, tuple) and depth:
        return [_take_parts(item, taken, depth - 1) for item in value]

    part = to_image(value)
    if type(part) not in (Image, File):
        return value
    taken.append(part)
    return _render_part(part)


def _find_wrong_part(result: ToolResult) -> str | None:
    """Return an error about a part of a result's images or files that is of another type, or None if all are right."""
    for name, kind, parts in (("images", Image, result.images), ("files", File, result.files)):
        if wrong := [type(part).__name__ for part in _list_parts(parts) if type(part) is not kind]:
            return f"{name}= of a ToolResult takes {kind.__name__}(data, media_type), not {wrong[0]}."
    return None


def _parts_of(kind: type[Any], parts: Any) -> tuple[Any, ...]:
    """Return the images, or the files, among parts."""
    return tuple(part for part in _list_parts(parts) if type(part) is kind)


def _list_parts(parts: Any) -> Sequence[Any]:
    if parts is None:
        return ()
    return parts if isinstance(parts, (list, tuple)) else (parts,)


def _render_part(part: Image | File) -> str:
    return f"[file {part.name}]" if isinstance(part, File) else "[image]"


def _as_text(value: Any) -> str:
    return write_value(value) if isinstance(value, str) else write_safely(str, value)


def _to_text_somehow(value: Any) -> str:
    if is_table(value) and (text := write_safely(write_table, value, maxsize)):
        return text
    # The last one is for bytes in a dict whose keys JSON takes only by their text, such as dates.
    writers = (_to_lenient_json, _write_parts, partial(_to_lenient_json, bytes_mode="base64"))
    texts = (write_safely(write, value, maxsize) for write in writers)
    return next(filter(None, texts), "") or _to_word(value, repr)


def _to_lenient_json(value: Any, bytes_mode: Literal["utf8", "base64"] = "utf8") -> str:
    return to_json(value, inf_nan_mode="strings", bytes_mode=bytes_mode, fallback=_to_plain).decode()


def _to_plain(value: Any) -> Any:
    try:
        plain = to_plain(value)
    except Exception:  # noqa: BLE001  as in `make_writer`
        return _to_word(value)
    return replace_surrogates(shorten(plain, MAX_WRITTEN)) if isinstance(plain, str) and not is_table(value) else plain


def _to_word(value: Any, write: Callable[[Any], str] = str) -> str:
    return hide_address(write_safely(write, value)) or f"<{type(value).__name__} that cannot be written>"


def _write_parts(value: Any) -> str:
    """Write a value part by part, since a part cannot be written: bytes, an unpaired surrogate or `pandas.NaT`."""
    plain = json.loads(json.dumps(value, default=_convert_part))
    return json.dumps(clean_json(plain), ensure_ascii=False, separators=(",", ":"))


def _convert_part(value: Any) -> Any:
    for bytes_mode in ("utf8", "base64"):
        with suppress(Exception):  # as in `make_writer`
            return from_json(_to_lenient_json(value, bytes_mode))
    return _to_plain(value)
