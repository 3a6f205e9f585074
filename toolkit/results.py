"""What a function gave back -> what the model is shown."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from pydantic_core import to_json

from toolkit.errors import Cancelled, ToolError
from toolkit.messages import Image, ToolResult, sendable

# What a value's own `str` or `repr` may add to a conversation, in characters.
MAX_WRITTEN = 10_000


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


_QUICK: Mapping[type, Callable[[Any], str]] = {int: str, str: written}
SPECIAL = frozenset({ToolResult, Image, list, tuple})


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
    kind = error.kind if isinstance(error, ToolError) else "failed"
    text = _said(error) if isinstance(error, ToolError) else ""
    text = text or f"{name} failed: {type(error).__name__}{_told(error, announced, relay)}"
    return ToolResult(text=text, error=text, kind=kind, exception=error)


def _completed(result: ToolResult, write: Callable[[Any], str]) -> ToolResult:
    if result.text is not None:
        return result._replace(text=sendable(result.text))
    shown = ToolResult(text="") if result.value is None and result.is_error else rendered(result.value, write)
    text = sendable("\n".join(part for part in (shown.text, result.error) if part))
    return result._replace(
        text=text, images=result.images or shown.images, kind=result.kind or ("failed" if result.is_error else None)
    )


def _special(value: Any, write: Callable[[Any], str]) -> ToolResult | None:
    """Make a result of what is one already, or holds pictures; None of a list without."""
    if type(value) is ToolResult:
        return _completed(value, write)
    parts = [value] if type(value) is Image else value
    return _pictured(value, parts) if any(type(part) is Image for part in parts) else None


def _pictured(value: Any, parts: Sequence[Any]) -> ToolResult:
    """Part pictures from texts: a result's text says where each picture stands."""
    texts = ["[image]" if type(part) is Image else rendered(part, written).text or "" for part in parts]
    return ToolResult(value, "\n".join(texts), images=tuple(part for part in parts if type(part) is Image))


def _to_text_somehow(value: Any) -> str:
    try:
        return to_json(value, inf_nan_mode="strings", bytes_mode="base64", fallback=str).decode()
    except Exception:  # noqa: BLE001  as in `writer`
        return _safe(repr, value) or f"<{type(value).__name__} that cannot be shown>"


def _said(error: ToolError) -> str:
    try:
        return sendable(error.text)
    except Exception:  # noqa: BLE001  as in `writer`
        return ""


def _told(error: BaseException, announced: Collection[str], relay: Collection[type[BaseException]]) -> str:
    names = [f".{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__]
    if isinstance(error, tuple(relay)) or any(_is_called(name, known) for name in names for known in announced):
        return f": {_safe(str, error)}"
    return ". Its message is not shown here. Try other arguments or another tool, or report that this did not work."


def _is_called(name: str, known: str) -> bool:
    """Tell whether a class may go by a shorter name: its end, or its package and its last word, as it is imported."""
    package, _, word = known.rpartition(".")
    return name.endswith(f".{known}") or (name.startswith(f".{package}.") and name.endswith(f".{word}"))


def _safe(write: Callable[[Any], str], value: Any) -> str:
    """Write a value by code of the user's, or nothing where that fails."""
    try:
        return write(value)[:MAX_WRITTEN].encode("utf-8", "replace").decode()
    except Exception:  # noqa: BLE001  as in `writer`
        return ""
