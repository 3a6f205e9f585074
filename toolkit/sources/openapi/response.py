"""A server's response as a tool's result."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

import httpx2
from pydantic_core import from_json

from toolkit._guards.media import detect_image
from toolkit._messages import Image, ToolResult
from toolkit.errors import Failed, InvalidArguments, TimedOut, ToolError
from toolkit.sources.openapi.styles import is_json

# Characters of an error's body that the model gets: enough to see what went wrong, not a page of HTML.
MAX_ERROR_BODY = 2_000
LATER = "Try again later, or go on without it."
# Advice to the model by status, else by class of status.
ADVICE: Mapping[int, str] = {
    401: "The application's key was not accepted. Do not repeat the call; tell the user.",
    403: "The application may not do this. Do not repeat the call; tell the user.",
    404: "Nothing is there: check the identifiers.",
    409: "It does not fit the present state: look at that first.",
    429: "There were too many requests: wait before another.",
    3: "It is a redirect, which is not followed. Do not repeat the call; tell the user.",
    4: "Change the arguments before another call.",
    5: "The server failed, not the call: try again later, or go on without it.",
}


async def read_response(label: str, response: httpx2.Response, max_bytes: int) -> ToolResult:
    """Make the result of a response, of which up to `max_bytes` decompressed bytes are read."""
    read = bytearray()
    async for chunk in response.aiter_bytes():
        read += chunk
        if len(read) > max_bytes:
            break
    is_cut = len(read) > max_bytes or bool(response.extensions.get("is_cut"))  # by the guarded client
    body, status = bytes(read[:max_bytes]), response.status_code
    if status >= 300:
        result = _render_error(label, response, body, is_cut=is_cut)
    else:
        result = _render_success(response, body, is_cut=is_cut)
    return result.replace(details={"operation": label, "status": status})


def _render_error(label: str, response: httpx2.Response, body: bytes, *, is_cut: bool) -> ToolResult:
    status, text = response.status_code, _decode(response, body).strip()
    cut = "..." if len(text) > MAX_ERROR_BODY or (is_cut and text) else ""
    advice = ADVICE.get(status, ADVICE[min(status // 100, 5)])
    quoted = f":\n{text[:MAX_ERROR_BODY]}{cut}\n" if text else ". "
    return ToolResult(error=f"{label} answered {_describe_status(status)}{quoted}{advice}")


def _render_success(response: httpx2.Response, body: bytes, *, is_cut: bool) -> ToolResult:
    status = _describe_status(response.status_code)
    essence = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if not body:
        return ToolResult(text=f"{status}, without a body.")
    if is_json(essence) and not is_cut:
        with suppress(ValueError):  # the media type is wrong
            return ToolResult(from_json(body, allow_inf_nan=False))
    if detect_image(body) == essence and not is_cut:
        image = Image(body, essence)
        return ToolResult(image, "[image]", images=(image,))
    if _is_binary(essence, body):
        return ToolResult(text=f"{status}: {essence or 'binary data'}, which cannot be shown.")
    cut = f"\n... (cut after {len(body):,} bytes: ask for less)" if is_cut else ""
    return ToolResult(_decode(response, body) + cut)


def _describe_status(status: int) -> str:
    return f"{status} {httpx2.codes.get_reason_phrase(status)}".strip()


def _decode(response: httpx2.Response, body: bytes) -> str:
    try:
        text = body.decode(response.charset_encoding or "utf-8", "replace")
    except (LookupError, ValueError):  # an unknown charset, or none for text
        text = body.decode("utf-8", "replace")
    return text.encode("utf-8", "replace").decode()  # some charsets produce lone surrogates


def _is_binary(essence: str, body: bytes) -> bool:
    is_text = is_json(essence) or essence.startswith("text/") or essence.endswith(("xml", "yaml", "javascript"))
    return not is_text and (b"\0" in body[:1024] or essence.startswith(("image/", "audio/", "video/", "font/")))


def translate_error(label: str, error: Exception) -> ToolError:
    """Make the error for a request without a response; it does not quote the URL, which may have a key in it."""
    reason = f"({type(error).__name__})"
    if isinstance(error, httpx2.InvalidURL):
        return InvalidArguments(f"{label}: they are too long for an address {reason}. Send less.")
    if isinstance(error, httpx2.TimeoutException):
        return TimedOut(f"{label}: the server did not answer in time {reason}. {LATER}")
    return Failed(f"{label}: there was no answer {reason}. {LATER}")
