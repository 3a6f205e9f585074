"""Translate the errors of the openai package to ModelError, by one table."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from toolkit.errors import ModelError

UNREADABLE = "The request to the model failed, or its answer cannot be read."

# Characters. A shorter key is a placeholder such as "none" or "test", which may occur in any text.
SHORTEST_KEY = 8


@contextmanager
def translate_errors(client: Any = None) -> Iterator[None]:
    """Raise whatever the client raises as a ModelError, so that callers need not know its exceptions.

    Args:
        client: Its API key is removed from the message, should the server repeat it.

    Raises:
        ModelError: Anything was raised.
    """
    try:
        yield
    except (ModelError, GeneratorExit):
        raise
    except Exception as error:
        import openai

        status = getattr(error, "status_code", None)
        advice = next((text for kind, text in _list_advice(openai) if isinstance(error, kind)), UNREADABLE)
        text = _read_error(error)
        public = _without_key(text, client)
        failure = ModelError(f"{advice} ({type(error).__name__}: {excerpt(public)})", status)
        if public != text:
            raise failure from None  # the cause would show the key, too
        raise failure from error


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
        (openai.NotFoundError, "The model's server does not know this model or address; check model and base_url."),
        (openai.RateLimitError, "The model's server refuses more requests for now."),
        (openai.BadRequestError, "The model's server refuses the request."),
        (openai.UnprocessableEntityError, "The model's server refuses the request."),
        (openai.InternalServerError, "The model's server failed."),
        (openai.APIResponseValidationError, UNREADABLE),
        (openai.APIError, "The model's server reports an error."),
        (openai.OpenAIError, "The openai package could not send the request."),
    )


def refuses_format(error: ModelError) -> bool:
    """Return whether a server refused the schema of its answer, however it puts that."""
    text = _read_error(error.__cause__ or error)
    named = re.search(r"response.?format|text\.format|json_schema", text, re.IGNORECASE)
    return error.status in (400, 422) and named is not None


def excerpt(value: Any) -> str:
    """Return the first 300 characters of a server's text."""
    text = str(value)
    return text if len(text) <= 300 else f"{text[:299]}…"


def _read_error(error: BaseException) -> str:
    """Return an error's text, with the server's body where the client's text leaves that out."""
    text, body = str(error), getattr(error, "body", None)
    elsewhere = getattr(getattr(error, "response", None), "headers", {}).get("location")
    full = text if not body or str(body) in text else f"{text} {body}"
    return f"{full} It names another address: {elsewhere}" if elsewhere else full


def _without_key(text: str, client: Any) -> str:
    key = getattr(client, "api_key", None)
    return text.replace(key, "[key]") if isinstance(key, str) and len(key) >= SHORTEST_KEY else text
