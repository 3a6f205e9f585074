"""Keep secrets out of results."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from pydantic_core import from_json

from toolkit._messages import File, Image, ToolCall, ToolResult
from toolkit._tools.invocation import explained, safely, written
from toolkit.errors import Failed, ToolError
from toolkit.middleware.encodings import pattern_of
from toolkit.middleware.line import Middleware, Next

# A shorter secret would blot out ordinary words.
MIN_SECRET = 4

_PARTS = (Image, File)

Clean = Callable[[str], str]


def redact(
    secrets: Iterable[str] = (), patterns: Iterable[str | re.Pattern[str]] = (), instead: str = "[redacted]"
) -> Middleware:
    """Make a middleware that takes secrets out of whatever a call gives: text, error, value, details, exception.

    A value or details that hold one become plain data without it. A ToolError becomes a Failed without it, any other
    exception a RuntimeError; they keep the traceback, unless a line of source in it holds one. Not found are: a secret
    in pieces, such as one spread over the items of a list; one that is encrypted, compressed or encoded twice; one in a
    picture or a file; what a tool tells of its progress; why a try failed that another one follows; and what ends a
    run, such as a FatalError.

    Args:
        secrets: The very texts that nobody may see, such as keys; also found escaped, or in base64, URL encoding, hex.
        patterns: Regular expressions of further texts, such as r"sk-[A-Za-z0-9]{20,}".
        instead: What stands in their places.

    Raises:
        ValueError: A secret is shorter than 4 characters, or a pattern matches the empty text.
        TypeError: Secrets or patterns are one text, and not a list.
    """
    _refuse_single(secrets=secrets, patterns=patterns)
    found = [re.compile(pattern) for pattern in patterns]
    exact = list(secrets)
    _refuse_greedy(exact, found)
    found = [pattern_of(exact), *found] if exact else found

    def clean(text: str) -> str:
        for pattern in found:
            text = pattern.sub(lambda _: instead, text)
        return text

    async def redacting(call: ToolCall, following: Next) -> ToolResult:
        try:
            result = await following(call)
        except ToolError as refusal:
            result = explained(refusal, call.name, (), ())
        return _cleaned(result, clean)

    return redacting


def _cleaned(result: ToolResult, clean: Clean) -> ToolResult:
    value = partial(_value, clean=clean)
    return result._replace(
        value=value(result.value),
        text=value(result.text),
        error=value(result.error),
        details=value(result.details),
        exception=_exception(result.exception, clean),
        repairs=tuple(map(clean, result.repairs)),
    )


def _value(value: Any, clean: Clean) -> Any:
    """Clean a value; beside pictures and files, part by part, so that they stay what they are."""
    if type(value) in _PARTS:
        return value
    if type(value) in (list, tuple) and any(type(part) in _PARTS for part in value):
        return type(value)(_value(part, clean) for part in value)
    shown = written(value)
    cleaned = clean(shown)
    if cleaned == shown:
        return value
    try:
        return cleaned if isinstance(value, str) else from_json(cleaned)
    except ValueError:  # a pattern took away more than the inside of a text
        return cleaned


def _exception(error: BaseException | None, clean: Clean) -> BaseException | None:
    if error is None or not _tells(error, clean):
        return error
    kind = Failed if isinstance(error, ToolError) else RuntimeError  # what is a ToolError ends no run
    said = "".join(traceback.format_exception_only(error)).strip()
    cleaned = kind(clean(said)).with_traceback(error.__traceback__)
    return cleaned.with_traceback(None) if _tells(cleaned, clean) else cleaned


def _tells(error: BaseException, clean: Clean) -> bool:
    """Tell whether an exception shows a secret: in its message, its causes, its notes, or a line of its traceback."""
    told = "".join(traceback.format_exception(error)) + safely(repr, error)
    return clean(told) != told


def _refuse_single(**given: object) -> None:
    for name, texts in given.items():
        if isinstance(texts, (str, re.Pattern)):
            raise TypeError(f"{name}= takes a list: write {name}=[...].")


def _refuse_greedy(secrets: list[str], patterns: list[re.Pattern[str]]) -> None:
    if any(len(secret) < MIN_SECRET for secret in secrets):
        raise ValueError(f"a secret of fewer than {MIN_SECRET} characters would blot out ordinary words")
    greedy = next((pattern.pattern for pattern in patterns if pattern.search("")), None)
    if greedy is not None:
        raise ValueError(f"the pattern {greedy!r} matches the empty text, so it would be found everywhere")
