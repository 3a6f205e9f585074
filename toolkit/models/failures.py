"""What a client of the openai package raises -> the one error of this library, by one table."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from toolkit.errors import ModelError

UNREADABLE = "The model could not be asked, or its answer cannot be read."


@contextmanager
def translated() -> Iterator[None]:
    """Make a ModelError of whatever the client raises; nobody has to know its exceptions, or those below it.

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
        raise ModelError(f"{advice} ({type(error).__name__}: {excerpt(_said(error))})", status) from error


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
    """Tell whether a server refuses a request for its `response_format`, by whatever words."""
    said = _said(error.__cause__ or error)
    return error.status in (400, 422) and re.search("response.?format|json_schema", said, re.IGNORECASE) is not None


def excerpt(value: Any) -> str:
    """Show the beginning of what a server said."""
    text = str(value)
    return text if len(text) <= 300 else f"{text[:299]}…"


def _said(error: BaseException) -> str:
    """Read an error, with what the server sent where the client's words leave that out."""
    text, body = str(error), getattr(error, "body", None)
    return text if not body or str(body) in text else f"{text} {body}"
