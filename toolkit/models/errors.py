"""Translate the errors of the openai package to ModelError, by one table."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from toolkit.errors import ModelError

UNREADABLE = "The request to the model failed, or its answer cannot be read."

# Characters. A shorter key is a placeholder such as "none" or "test", which may occur in any text.
SHORTEST_KEY = 8


@contextmanager
def translate_errors(client: Any = None, model: str = "") -> Iterator[None]:
    """Raise whatever the client raises as a ModelError, so that callers need not know its exceptions.

    The client's traceback has ten times the lines of the reason, so it is kept as `cause`, and not shown.

    Args:
        client: The message names its address. Its API key is removed, should the server repeat it.
        model: The model's name, for the message.

    Raises:
        ModelError: Anything was raised.
    """
    try:
        yield
    except (ModelError, GeneratorExit):
        raise
    except Exception as error:  # noqa: BLE001  it is the cause of the error that is raised
        import openai

        status = getattr(error, "status_code", None)
        advice = next((text for kind, text in _list_advice(openai) if isinstance(error, kind)), UNREADABLE)
        public = _without_key(_read_message(error), client)
        if status == 400 and re.search(r"not support (tool|function)", public):
            advice += ' dialect="calls" is for models without tool calling.'
        shows_key = _without_key(_read_error(error), client) != _read_error(error)
        place = " at ".join(filter(None, (model, show_address(getattr(client, "base_url", None) or ""))))
        origin = ", ".join(filter(None, (place, f"status {status}" if status else type(error).__name__)))
        raise ModelError(f"{advice} ({origin}: {excerpt(public)})", status, None if shows_key else error) from None


def _list_advice(openai: Any) -> tuple[tuple[type[Exception], str], ...]:
    """Pair the client's exceptions with what happened and what to do, the most specific first."""
    return (
        (openai.APITimeoutError, "The model's server did not answer in time."),
        (
            openai.APIConnectionError,
            "The model's server cannot be reached, or the connection broke; check base_url and that it runs.",
        ),
        (
            openai.AuthenticationError,
            "The model's server does not accept the API key; check OPENAI_API_KEY or api_key.",
        ),
        (openai.PermissionDeniedError, "The API key may not use this model."),
        (
            openai.NotFoundError,
            "The model's server does not know this model or address; check model and base_url (often with /v1).",
        ),
        (openai.RateLimitError, "The model's server refuses more requests for now."),
        (openai.BadRequestError, "The model's server refuses the request."),
        (openai.UnprocessableEntityError, "The model's server refuses the request."),
        (openai.InternalServerError, "The model's server failed."),
        (openai.APIResponseValidationError, UNREADABLE),
        (openai.APIError, "The model's server reports an error."),
        (openai.OpenAIError, "The openai package could not send the request."),
    )


def show_address(url: object) -> str:
    """Return the address of a server without what may be secret: user, password, query."""
    parts = urlsplit(str(url))
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def refuses_format(error: ModelError) -> bool:
    """Return whether a server refused the schema of its answer, however it puts that."""
    text = f"{error} {_read_error(error.cause or error)}"
    named = re.search(r"response.?format|text\.format|json_schema", text, re.IGNORECASE)
    return error.status in (400, 422) and named is not None


def excerpt(value: Any) -> str:
    """Return the first 300 characters of a server's text."""
    text = str(value)
    return text if len(text) <= 300 else f"{text[:299]}…"


def _read_message(error: Exception) -> str:
    """Return the server's message where it has one, else the error's text and its cause."""
    body = getattr(error, "body", None)
    message = body.get("message") if isinstance(body, Mapping) else None
    text = message if isinstance(message, str) and message else _read_error(error)
    return f"{text} {error.__cause__}" if error.__cause__ else text


def _read_error(error: BaseException) -> str:
    """Return an error's text, with the server's body where the client's text leaves that out."""
    text, body = str(error), getattr(error, "body", None)
    elsewhere = getattr(getattr(error, "response", None), "headers", {}).get("location")
    full = text if not body or str(body) in text else f"{text} {body}"
    return f"{full} It names another address: {elsewhere}" if elsewhere else full


def _without_key(text: str, client: Any) -> str:
    key = getattr(client, "api_key", None)
    return text.replace(key, "[key]") if isinstance(key, str) and len(key) >= SHORTEST_KEY else text
