"""What a function gave back, or raised -> what the model is shown."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from pydantic_core import to_json

from toolkit._messages import File, Image, ToolResult, sendable
from toolkit.errors import Cancelled
from toolkit.raised import explanation, safely


def writer(to_json: Callable[[Any], bytes] | None) -> Callable[[Any], str]:
    """Make what writes the values of one tool: text as it is, everything else as JSON in UTF-8, None as `null`.

    It never raises for what a value is: the function has run, and its effect cannot be called back.

    Args:
        to_json: Writes values as the type that the tool announced; may raise.
    """
    if to_json is None:
        return written

    def write(value: Any) -> str:
        try:
            return written(value) if isinstance(value, str) else to_json(value).decode()
        except Exception:  # noqa: BLE001  values are the user's: anything may happen while one is read
            return written(value)

    return write


def writers(write: Callable[[Any], str]) -> dict[type, Callable[[Any], str]]:
    """Say how values of the usual types are written; unlike `write`, these may raise."""
    usual = (int, float, bool, dict, type(None))
    return dict.fromkeys(usual, write) if write is not written else {**_QUICK, **dict.fromkeys(usual[1:], written)}


def rendered(value: Any, write: Callable[[Any], str]) -> ToolResult:
    """Make a result of what a function returned."""
    if type(value) in SPECIAL and (made := _special(value, write)) is not None:
        return made
    return ToolResult(value, write(value))


def written(value: Any) -> str:
    """Write any value."""
    try:
        if isinstance(value, str):
            return sendable(str.__str__(value))
        return to_json(value, inf_nan_mode="strings").decode()
    except Exception:  # noqa: BLE001  as in `writer`
        return _to_text_somehow(value)


def completed(result: ToolResult, write: Callable[[Any], str] = written) -> ToolResult:
    """Add to a result of somebody's own making what it leaves out: its text, from value and error, and its kind."""
    shown, error = _content(result, write), None if result.error is None else _as_text(result.error)
    text = shown.text or ""
    if error and text != error and not text.endswith(f"\n{error}"):  # it may have been completed before
        text = f"{text}\n{error}" if text else error
    return result._replace(
        text=text,
        error=error,
        kind=result.kind or (None if error is None else "failed"),
        images=_only(Image, result.images) or shown.images,
        files=_only(File, result.files) or shown.files,
    )


_QUICK: Mapping[type, Callable[[Any], str]] = {int: str, str: written}
SPECIAL = frozenset({ToolResult, Image, File, list, tuple})


def explained(
    error: BaseException, name: str, announced: Collection[str], relay: Collection[type[BaseException]]
) -> ToolResult:
    """Make a result of what a tool raised; only texts that are meant for the model reach it.

    Args:
        error: What was raised.
        name: The tool's.
        announced: Names, of which a dotted one may be shortened on the left, of exceptions whose message the model may
            see, besides ToolError.
        relay: Such exceptions themselves.
    """
    if type(error).__name__ == "CancelledError":  # asyncio's, or that of futures: neither need be loaded
        return ToolResult.failed(Cancelled(), error)
    text, kind = explanation(error, name, announced, relay)
    return ToolResult(text=text, error=text, kind=kind, exception=error)


def _content(result: ToolResult, write: Callable[[Any], str]) -> ToolResult:
    """Make what a result says beside its error."""
    if result.text is not None:
        return ToolResult(text=_as_text(result.text))
    parts = (*_only(Image, result.images), *_only(File, result.files))
    if result.value is None and (parts or result.is_error):
        return ToolResult(text="\n".join(map(_shown, parts)))
    return rendered(result.value, write)


def _special(value: Any, write: Callable[[Any], str]) -> ToolResult | None:
    """Make a result of what is one already, or holds pictures or files; None of a list without."""
    if type(value) is ToolResult:
        return completed(value, write)
    parts = value if type(value) in (list, tuple) else [value]
    return _parted(value, parts) if any(type(part) in (Image, File) for part in parts) else None


def _parted(value: Any, parts: Sequence[Any]) -> ToolResult:
    """Part pictures and files from texts: a result's text says where each of them stands."""
    text = "\n".join(map(_shown, parts))
    return ToolResult(value, text, images=_only(Image, parts), files=_only(File, parts))


def _only(kind: type[Any], parts: Any) -> tuple[Any, ...]:
    """Choose the pictures, or the files, of what should be a tuple of them."""
    listed = parts if isinstance(parts, (list, tuple)) else [parts]
    return tuple(part for part in listed if type(part) is kind)


def _shown(part: Any) -> str:
    if type(part) is File:
        return f"[file {part.name}]"
    return "[image]" if type(part) is Image else rendered(part, written).text or ""


def _as_text(value: Any) -> str:
    return written(value) if isinstance(value, str) else safely(str, value)


def _to_text_somehow(value: Any) -> str:
    return _tried(_to_json_with_words, value) or _tried(_lenient, value) or _as_word(value, repr)


def _tried(write: Callable[[Any], str], value: Any) -> str:
    try:
        return sendable(write(value))
    except Exception:  # noqa: BLE001  as in `writer`
        return ""


def _to_json_with_words(value: Any) -> str:
    return to_json(value, inf_nan_mode="strings", bytes_mode="base64", fallback=_as_word).decode()


def _as_word(value: Any, write: Callable[[Any], str] = str) -> str:
    return safely(write, value) or f"<{type(value).__name__} that cannot be shown>"


# As pydantic-core's writer does not, it takes halves of characters.
_lenient = json.JSONEncoder(ensure_ascii=False, allow_nan=False, default=_as_word, separators=(",", ":")).encode
