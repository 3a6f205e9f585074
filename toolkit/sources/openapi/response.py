"""A server's response as a tool's result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import httpx2
from pydantic_core import from_json

from toolkit._guards.media import detect_image
from toolkit._messages import Image, ToolResult
from toolkit.errors import Failed, InvalidArguments, TimedOut, ToolError
from toolkit.sources.openapi.styles import is_json

# Characters of an error's body that the model gets: enough to see what went wrong, not a page of HTML.
MAX_ERROR_BODY = 2_000
# Advice to the model by status, else by class of status.
ADVICE: Mapping[int, str] = {
    401: "The application's key was not accepted. Do not repeat the call; tell the user.",
    403: "The application may not do this. Do not repeat the call; tell the user.",
    404: "Nothing is there: check the identifiers.",
    409: "It does not fit the present state: look at that first.",
    429: "There were too many requests: wait before another.",
    3: "It points elsewhere, which is not followed. Do not repeat the call; tell the user.",
    4: "Change the arguments before another call.",
    5: "The server failed, not the call: try again later, or go on without it.",
}


@dataclass(frozen=True)
class ServerResponse:
    """A server's response.

    Attributes:
        label: The operation.
        status: HTTP status.
        media_type: The media type in lower case, with its parameters.
        body: The bytes that were read, decompressed.
        is_cut: Whether there was more.
        charset: The encoding of the text.
    """

    label: str
    status: int
    media_type: str
    body: bytes
    is_cut: bool
    charset: str

    def render(self) -> ToolResult:
        """Make the result for the model."""
        result = self._render_error() if self.status >= 300 else self._render_success()
        return result.replace(details={"operation": self.label, "status": self.status})

    @property
    def _status_line(self) -> str:
        return f"{self.status} {httpx2.codes.get_reason_phrase(self.status)}".strip()

    def _render_error(self) -> ToolResult:
        body = self._body_text.strip()
        cut = "..." if len(body) > MAX_ERROR_BODY or (self.is_cut and body) else ""
        advice = ADVICE.get(self.status, ADVICE[min(self.status // 100, 5)])
        quoted = f":\n{body[:MAX_ERROR_BODY]}{cut}\n" if body else ". "
        return ToolResult(error=f"{self.label} answered {self._status_line}{quoted}{advice}")

    def _render_success(self) -> ToolResult:
        essence = self.media_type.partition(";")[0].strip()
        if not self.body:
            return ToolResult(text=f"{self._status_line}, without a body.")
        if is_json(essence) and not self.is_cut:
            return self._render_json()
        if detect_image(self.body) == essence and not self.is_cut:
            image = Image(self.body, essence)
            return ToolResult(image, "[image]", images=(image,))
        if self._is_binary(essence):
            return ToolResult(text=f"{self._status_line}: {essence or 'binary data'}, which cannot be shown.")
        return self._render_text()

    def _render_json(self) -> ToolResult:
        try:
            return ToolResult(from_json(self.body, allow_inf_nan=False))
        except ValueError:  # the media type is wrong
            return self._render_text()

    def _render_text(self) -> ToolResult:
        cut = f"\n... (cut after {len(self.body):,} bytes: ask for less)" if self.is_cut else ""
        return ToolResult(self._body_text + cut)

    @property
    def _body_text(self) -> str:
        try:
            text = self.body.decode(self.charset, "replace")
        except (LookupError, ValueError):  # an unknown charset, or none for text
            text = self.body.decode("utf-8", "replace")
        return text.encode("utf-8", "replace").decode()  # some charsets produce lone surrogates

    def _is_binary(self, essence: str) -> bool:
        is_text = is_json(essence) or essence.startswith("text/") or essence.endswith(("xml", "yaml", "javascript"))
        return not is_text and (
            b"\0" in self.body[:1024] or essence.startswith(("image/", "audio/", "video/", "font/"))
        )


async def read_response(label: str, response: httpx2.Response, max_bytes: int) -> ServerResponse:
    """Read a response up to `max_bytes` decompressed bytes."""
    chunks, size = [], 0
    async for chunk in response.aiter_bytes():
        chunks.append(chunk)
        size += len(chunk)
        if size > max_bytes:
            break
    is_cut = size > max_bytes or bool(response.extensions.get("is_cut"))  # by the guarded client
    media_type = response.headers.get("content-type", "").lower()
    body = b"".join(chunks)
    return ServerResponse(
        label, response.status_code, media_type, body[:max_bytes], is_cut, response.charset_encoding or "utf-8"
    )


def translate_error(label: str, error: Exception) -> ToolError:
    """Make the error for a request without a response; it does not quote the URL, which may have a key in it."""
    kind, reason, advice = next(
        (kind, reason, advice) for cause, kind, reason, advice in _FAILURES if isinstance(error, cause)
    )
    return kind(f"{label}: {reason} ({type(error).__name__}). {advice}")


_LATER = "Try again later, or go on without it."
# Errors of the HTTP client, special kinds first: the error for the model, the reason, and advice.
_FAILURES: tuple[tuple[type[Exception], type[ToolError], str, str], ...] = (
    (httpx2.TimeoutException, TimedOut, "the server did not answer in time", _LATER),
    (httpx2.NetworkError, Failed, "the server could not be reached, or left", _LATER),
    (httpx2.DecodingError, Failed, "the answer cannot be unpacked", _LATER),
    (httpx2.InvalidURL, InvalidArguments, "they are too long for an address", "Send less."),
    (
        RuntimeError,
        Failed,
        "the application's HTTP client is closed, or belongs to another event loop",
        "Do not repeat the call; tell the user.",
    ),
    (Exception, Failed, "there was no answer", _LATER),
)
