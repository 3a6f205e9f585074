"""What a client of the openai package raises -> the one error of this library, by one table."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from toolkit.errors import ModelError

UNREADABLE = "The model could not be asked, or its answer cannot be read."


# Characters. Shorter ones are no keys but words that stand for one, such as "none" or "test".
SHORTEST_KEY = 8


@contextmanager
def translated(client: Any = None) -> Iterator[None]:
    """Make a ModelError of whatever the client raises; nobody has to know its exceptions, or those below it.

    Args:
        client: Whose key is not to be repeated, though the server does so.

    Raises:
        ModelError: Something was raised.
    """
    try:
        yield
    except (ModelError, GeneratorExit):
        raise
    except Exception as error:
        import openai

        status = getattr(error, "status_code", None)
        advice = next((text for kind, text in _advice(openai) if isinstance(error, kind)), UNREADABLE)
        said = _said(error)
        shown = _without_key(said, client)
        failure = ModelError(f"{advice} ({type(error).__name__}: {excerpt(shown)})", status)
        if shown != said:
            raise failure from None  # what it comes from would show the key, too
        raise failure from error


def _advice(openai: Any) -> tuple[tuple[type[Exception], str], ...]:
    """What to do about the client's errors, the most specific first."""
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
        (openai.OpenAIError, "The openai package could not ask the model's server."),
    )


def refuses_format(error: ModelError) -> bool:
    """Tell whether a server refuses a request for the schema of its answer, by whatever words."""
    said = _said(error.__cause__ or error)
    named = re.search(r"response.?format|text\.format|json_schema", said, re.IGNORECASE)
    return error.status in (400, 422) and named is not None


def excerpt(value: Any) -> str:
    """Show the beginning of what a server said."""
    text = str(value)
    return text if len(text) <= 300 else f"{text[:299]}…"


def _said(error: BaseException) -> str:
    """Read an error, with what the server sent where the client's words leave that out."""
    text, body = str(error), getattr(error, "body", None)
    elsewhere = getattr(getattr(error, "response", None), "headers", {}).get("location")
    told = text if not body or str(body) in text else f"{text} {body}"
    return f"{told} It names another address: {elsewhere}" if elsewhere else told


def _without_key(text: str, client: Any) -> str:
    key = getattr(client, "api_key", None)
    return text.replace(key, "[key]") if isinstance(key, str) and len(key) >= SHORTEST_KEY else text
