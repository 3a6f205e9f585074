"""What a function gave back -> what the model is shown."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from pydantic_core import to_json

from toolkit.errors import ToolError
from toolkit.messages import ToolResult

# What a value's own `str` or `repr` may add to a conversation, in characters.
MAX_WRITTEN = 10_000


def rendered(value: Any) -> ToolResult:
    """Make a result of what a function returned: text as it is, everything else as JSON in UTF-8, None as `null`.

    Never raises for what a value is: the function has run, and its effect cannot be called back.
    """
    kind = type(value)
    if kind is ToolResult:
        return _completed(value)
    try:
        text = value if kind is str else str(value) if kind is int else to_json(value, inf_nan_mode="strings").decode()
    except Exception:  # noqa: BLE001  values are the user's: anything may happen while one is read
        text = _to_text_somehow(value)
    return _new(
        ToolResult, (value, text, None, None, None, None, ())
    )  # half the time of the constructor, on every call


_new = tuple.__new__


def explained(error: BaseException, name: str, relay: Collection[str]) -> ToolResult:
    """Make a result of what a tool raised; only texts that are meant for the model reach it.

    Args:
        error: What was raised.
        name: The tool's.
        relay: Names of the exceptions whose message the model may see, besides ToolError.
    """
    if isinstance(error, ToolError):
        return ToolResult.failed(error)
    kind = type(error).__name__
    text = f"{name} failed: {kind}"
    if any(_name_matches(base, relay) for base in type(error).__mro__):
        text = f"{text}: {_safe(str, error)}"
    else:
        text += (
            ". Its message is not shown here. Try other arguments or another tool, or report that this did not work."
        )
    return ToolResult(text=text, error=text, kind="failed", exception=error)


def _completed(result: ToolResult) -> ToolResult:
    if result.text is not None:
        return result
    shown = "" if result.value is None and result.is_error else rendered(result.value).text
    text = "\n".join(part for part in (shown, result.error) if part)
    return result._replace(text=text, kind=result.kind or ("failed" if result.is_error else None))


def _to_text_somehow(value: Any) -> str:
    try:
        return to_json(value, inf_nan_mode="strings", bytes_mode="base64", fallback=str).decode()
    except Exception:  # noqa: BLE001  as in `rendered`
        return _safe(repr, value) or f"<{type(value).__name__} that cannot be shown>"


def _name_matches(kind: type, relay: Collection[str]) -> bool:
    return kind.__name__ in relay or f"{kind.__module__}.{kind.__qualname__}" in relay


def _safe(write: Callable[[Any], str], value: Any) -> str:
    """Write a value by code of the user's, or nothing where that fails."""
    try:
        return write(value)[:MAX_WRITTEN].encode("utf-8", "replace").decode()
    except Exception:  # noqa: BLE001  as in `rendered`
        return ""
