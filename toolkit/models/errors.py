"""Translation of the openai package's errors to ModelError, by one table."""

from __future__ import annotations

import os
import re
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from toolkit._schema.error_messages import shorten
from toolkit.errors import ModelError

UNREADABLE = "The request to the model failed, or its answer cannot be read; check base_url, which often ends in /v1."
# Texts for people, by the names of exceptions of the client or of HTTP; the most specific class of an exception counts.
ADVICE: Mapping[str, str] = {
    **dict.fromkeys(("APITimeoutError", "TimeoutException"), "The model's server did not answer in time."),
    **dict.fromkeys(
        ("APIConnectionError", "TransportError", "SSLError"),
        "The model's server cannot be reached, or the connection broke; check base_url and that it runs.",
    ),
    "AuthenticationError": "The model's server does not accept the API key; check OPENAI_API_KEY or api_key.",
    "PermissionDeniedError": "The API key may not use this model.",
    "NotFoundError": (
        "The model's server does not know this model or address; check model and base_url (often with /v1)."
    ),
    "RateLimitError": "The model's server refuses more requests for now.",
    "BadRequestError": "The model's server refuses the request.",
    "UnprocessableEntityError": "The model's server refuses the request.",
    "InternalServerError": "The model's server failed.",
    "APIResponseValidationError": UNREADABLE,
    "APIError": "The model's server reports an error.",
    "OpenAIError": "The openai package could not send the request.",
}

# What is added to the advice, by what servers say when they refuse a request.
REMEDIES: Mapping[str, str] = {
    r"not support (tool|function)|(tool|function) calling\W+is not supported|unsupported param: tools": (
        'dialect="calls" is for models without tool calling.'
    ),
    r"\bstrict\b|identical first keys": "strict=False turns strict mode off.",
    r"context.(length|window|size)|prompt is too long|input token count": (
        "The hook toolkit.middleware.Compaction shortens long conversations."
    ),
}
# Characters. A shorter key is a placeholder such as "none" or "test", which may occur in any text.
SHORTEST_KEY = 8
# Characters of a server's text in which reasons are looked for; with a client of the application, it may be far longer.
SEARCHED = 10_000
# Characters of a key's beginning, such as `sk-proj-1234`, that are taken for a key which was cut off.
SHORTEST_START = 12


@contextmanager
def translate_errors(client: Any = None, model: str = "") -> Iterator[None]:
    """Translate every exception in the block to a ModelError with the model's name and address, without the API key.

    The client's error is its `cause`, and is not printed, since that takes ten times the lines of the reason. If the
    client's error contains the API key, because the server repeats it, there is no cause.

    Raises:
        ModelError: An exception was raised in the block.
    """
    try:
        yield
    except ModelError as error:
        _add_place(error, client, model)
        raise
    except Exception as error:  # noqa: BLE001  translated
        raise _translate(error, client, model) from None


def _translate(error: Exception, client: Any, model: str) -> ModelError:
    status, key = getattr(error, "status_code", None), _find_key(client)
    advice = next((ADVICE[kind.__name__] for kind in type(error).__mro__ if kind.__name__ in ADVICE), UNREADABLE)
    public = _without_key(_read_message(error), key)[:SEARCHED]
    if status in (400, 422):
        remedies = (text for pattern, text in REMEDIES.items() if re.search(pattern, public, re.IGNORECASE))
        advice = " ".join((advice, *remedies))
    needed = re.search(r"(?:only supported in|use) /?v1/(chat|responses)\b", public)
    if status in (400, 404) and needed:
        advice += f' api="{needed[1]}" is for models that need that API.'
    if re.search("CERTIFICATE_VERIFY_FAILED.*(issuer|self.signed)", public):
        advice += " SSL_CERT_FILE can name a file of certificates to trust."
    if isinstance(error, RuntimeError) and re.search("[Ll]oop is closed|different (event )?loop", public):
        advice = "An AsyncOpenAI client serves one event loop: make one in each, or pass an OpenAI, which serves all."
    printed = "".join(traceback.format_exception(error)) + _read_error(error)
    cause = error if printed == _without_key(printed, key) else None
    what = f"status {status}" if status else type(error).__name__
    origin = ", ".join(filter(None, (_describe_place(client, model), _describe_proxy(client), what)))
    return ModelError(f"{advice} ({': '.join(filter(None, (origin, excerpt(public))))})", status, cause)


def _describe_place(client: Any, model: str) -> str:
    """Return a model's name and address, as far as they are known."""
    return " at ".join(filter(None, (model, get_address(client))))


def _describe_proxy(client: Any) -> str:
    """Return which variable names a proxy for a client's server; a proxy often refuses addresses of a local network."""
    from urllib.request import proxy_bypass  # slow to load

    server = urlsplit(get_address(client))
    variables = (f"{server.scheme.upper()}_PROXY", "ALL_PROXY")
    name = next((name for name in variables if os.environ.get(name) or os.environ.get(name.lower())), "")
    return f"{name} is set" if name and server.hostname and not proxy_bypass(server.hostname) else ""


def _add_place(error: ModelError, client: Any, model: str) -> None:
    """Add the model's name and address to a message that lacks them."""
    text, place = _without_key(str(error), _find_key(client)), _describe_place(client, model)
    error.args = (text if not place or f"({place}" in text else f"{text} ({place})", error.status)


def get_address(client: Any) -> str:
    """Return the address of a client's server without user, password and query, which may be secret; empty if none."""
    parts = urlsplit(str(getattr(client, "base_url", None) or ""))
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def refuses_format(error: ModelError) -> bool:
    """Return whether a server refused the schema of its answer, in any wording."""
    return _refuses(error, r"response.?(format|mime)|text\.format|json_schema|json.mode")


def refuses_reasoning(error: ModelError) -> bool:
    """Return whether a server refused the reasoning of earlier answers, such as another server's, in any wording."""
    return _refuses(error, r"reasoning|thinking|encrypted.content")


def _refuses(error: ModelError, names: str) -> bool:
    if error.status not in (400, 422):
        return False
    text = f"{error} {_read_error(error.cause or error)}"[:SEARCHED]
    return re.search(names, text, re.IGNORECASE) is not None


def excerpt(value: object) -> str:
    """Return the first 300 characters of a server's text."""
    return shorten(str(value), 300)


def _read_message(error: Exception) -> str:
    """Return the server's message, or else the error's text, with the cause."""
    body = getattr(error, "body", None)
    message = body.get("message") if isinstance(body, Mapping) else None
    text = message if isinstance(message, str) and message else _read_error(error)
    cause = str(error.__cause__ or "")
    return text if cause in text else f"{text} {cause}"


def _read_error(error: BaseException) -> str:
    """Return an error's text, with what the server sent if the text lacks it, and the address of a redirect."""
    body = getattr(error, "body", None) or getattr(error, "doc", None)  # the latter of a JSONDecodeError
    text = re.sub(r"^Error code: \d+( - )?", "", str(error))  # the status is shown beside it
    location = getattr(getattr(error, "response", None), "headers", {}).get("location")
    shown = str(body or "")
    full = text if shown in text else f"{text} {shown}".lstrip()
    return f"{full} It names another address: {location}".lstrip() if location else full


def _find_key(client: Any) -> str:
    """Return the API key; empty for a placeholder."""
    key = getattr(client, "api_key", None)
    return key if isinstance(key, str) and len(key) >= SHORTEST_KEY else ""


def _without_key(text: str, key: str) -> str:
    # An HTTP client writes a key with a line end by repr().
    text = text.replace(key, "[key]").replace(repr(key)[1:-1], "[key]") if key else text
    if len(key) > SHORTEST_START and key[:SHORTEST_START] in text:  # an excerpt ends inside of the key
        for length in range(len(key) - 1, SHORTEST_START - 1, -1):
            text = text.replace(key[:length], "[key]")
    return text
