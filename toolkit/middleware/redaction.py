"""Removal of secrets from the results of calls."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterable
from functools import partial
from typing import Any

from pydantic_core import from_json

from toolkit._execution.dispatcher import Middleware, Next
from toolkit._guards.redaction import Clean, make_cleaner
from toolkit._messages import File, Image, ToolCall, ToolResult
from toolkit._options import check_options
from toolkit._tools.results import explain_exception, write_safely, write_value
from toolkit.errors import Failed, ToolError

_PARTS = (Image, File)


@check_options
def redact(secrets: Iterable[str] = (), *, patterns: Iterable[str | re.Pattern[str]] = ()) -> Middleware:
    """Create a middleware that removes secrets from a call's result: text, error, value, details, exception.

    A secret becomes [redacted]. A value or details with a secret become plain data without it. A ToolError becomes a
    Failed without it, any other exception a RuntimeError. They keep the traceback, unless a line of source in it
    contains a secret. The middleware does not find secrets that are split, encrypted, compressed or encoded twice, nor
    secrets in images, files, progress reports, errors of attempts that are retried, and exceptions that end the run.

    Args:
        secrets: Secret texts, such as keys. They are also found if they are escaped or encoded as URL, base64 or hex.
        patterns: Regular expressions of further texts, such as r"sk-[A-Za-z0-9]{20,}".

    Raises:
        ValueError: A secret is shorter than 4 characters, or a pattern matches the empty text.
        TypeError: Secrets or patterns are one text instead of a list.
    """
    clean = make_cleaner(secrets, patterns)

    async def clean_result(call: ToolCall, call_next: Next) -> ToolResult:
        try:
            result = await call_next(call)
        except ToolError as refusal:
            result = explain_exception(refusal, call.name)
        return _clean_result(result, clean)

    return clean_result


def _clean_result(result: ToolResult, clean: Clean) -> ToolResult:
    value = partial(_clean_value, clean=clean)
    return result.replace(
        value=value(result.value),
        text=value(result.text),
        error=value(result.error),
        details=value(result.details),
        exception=_clean_exception(result.exception, clean),
        repairs=tuple(map(clean, result.repairs)),
    )


def _clean_value(value: Any, clean: Clean) -> Any:
    """Clean a value. Clean a list with images or files item by item, so that these do not change."""
    if type(value) in _PARTS:
        return value
    if type(value) in (list, tuple) and any(type(part) in _PARTS for part in value):
        return type(value)(_clean_value(part, clean) for part in value)

    text = write_value(value)
    cleaned = clean(text)
    if cleaned == text:
        return value
    try:
        return cleaned if isinstance(value, str) else from_json(cleaned)
    except ValueError:  # a pattern has removed quotes or brackets of the JSON
        return cleaned


def _clean_exception(error: BaseException | None, clean: Clean) -> BaseException | None:
    if error is None or not _has_secret(error, clean):
        return error
    kind = Failed if isinstance(error, ToolError) else RuntimeError  # only a ToolError does not end a run
    message = "".join(traceback.format_exception_only(error)).strip()
    cleaned = kind(clean(message)).with_traceback(error.__traceback__)
    return cleaned.with_traceback(None) if _has_secret(cleaned, clean) else cleaned


def _has_secret(error: BaseException, clean: Clean) -> bool:
    """Return whether an exception contains a secret: in its message, causes, notes, or a line of its traceback."""
    text = "".join(traceback.format_exception(error)) + write_safely(repr, error)
    return clean(text) != text
