"""A server's answer -> a tool's result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import httpx2
from pydantic_core import from_json

from toolkit._guards.media import picture
from toolkit._messages import Image, ToolResult
from toolkit.errors import Failed, InvalidArguments, TimedOut, ToolError
from toolkit.sources.openapi.styles import is_json

# Characters of an error's body that the model is shown: enough for what went wrong, not for a page of HTML.
TOLD = 2_000
# What a model can do about a status, else about its class.
ADVICE: Mapping[int, str] = MappingProxyType(
    {
        401: "The application's key was not accepted. Do not repeat the call; tell the user.",
        403: "The application may not do this. Do not repeat the call; tell the user.",
        404: "Nothing is there: check the identifiers.",
        409: "It does not fit the present state: look at that first.",
        429: "There were too many requests: wait before another.",
        3: "It points elsewhere, which is not followed. Do not repeat the call; tell the user.",
        4: "Change the arguments before another call.",
        5: "The server failed, not the call: try again later, or go on without it.",
    }
)


@dataclass(frozen=True)
class Answer:
    """What a server answered.

    Attributes:
        label: The operation.
        status: HTTP status, and its reason in the standard's words.
        media_type: What the body is, in small letters, with its parameters.
        body: As much of it as was read.
        is_cut: Whether there was more.
        charset: What its text is written in.
    """

    label: str
    status: int
    media_type: str
    body: bytes
    is_cut: bool
    charset: str

    def result(self) -> ToolResult:
        """Make what the model is told."""
        shown = self._failed() if self.status >= 300 else self._succeeded()
        return shown._replace(details={"operation": self.label, "status": self.status})

    @property
    def _line(self) -> str:
        return f"{self.status} {httpx2.codes.get_reason_phrase(self.status)}".strip()

    def _failed(self) -> ToolResult:
        body = self._text.strip()
        cut = "..." if len(body) > TOLD or (self.is_cut and body) else ""
        advice = ADVICE.get(self.status, ADVICE[min(self.status // 100, 5)])
        said = f":\n{body[:TOLD]}{cut}\n" if body else ". "
        return ToolResult(error=f"{self.label} answered {self._line}{said}{advice}")

    def _succeeded(self) -> ToolResult:
        essence = self.media_type.partition(";")[0].strip()
        if not self.body:
            return ToolResult(text=f"{self._line}, without a body.")
        if is_json(essence) and not self.is_cut:
            return self._decoded()
        if picture(self.body) == essence and not self.is_cut:
            image = Image(self.body, essence)
            return ToolResult(image, "[image]", images=(image,))
        if self._is_binary(essence):
            return ToolResult(text=f"{self._line}: {essence or 'binary data'}, which cannot be shown.")
        return self._as_text()

    def _decoded(self) -> ToolResult:
        try:
            return ToolResult(from_json(self.body, allow_inf_nan=False))
        except ValueError:  # it says so and is none
            return self._as_text()

    def _as_text(self) -> ToolResult:
        cut = f"\n... (cut after {len(self.body):,} bytes: ask for less)" if self.is_cut else ""
        return ToolResult(self._text + cut)

    @property
    def _text(self) -> str:
        try:
            text = self.body.decode(self.charset, "replace")
        except (LookupError, ValueError):  # of no such name, or not for this
            text = self.body.decode("utf-8", "replace")
        return text.encode("utf-8", "replace").decode()  # some charsets make halves of characters

    def _is_binary(self, essence: str) -> bool:
        is_told = is_json(essence) or essence.startswith("text/") or essence.endswith(("xml", "yaml", "javascript"))
        return not is_told and (
            b"\0" in self.body[:1024] or essence.startswith(("image/", "audio/", "video/", "font/"))
        )


async def answer_of(label: str, response: httpx2.Response, most: int) -> Answer:
    """Read a response, but no more than so many bytes of it, unpacked."""
    chunks, size = [], 0
    async for chunk in response.aiter_bytes():
        chunks.append(chunk)
        size += len(chunk)
        if size > most:
            break
    media_type = response.headers.get("content-type", "").lower()
    body = b"".join(chunks)
    return Answer(
        label, response.status_code, media_type, body[:most], size > most, response.charset_encoding or "utf-8"
    )


def failure(label: str, error: Exception) -> ToolError:
    """Say why there is no answer, without the address: there may be a key in it."""
    kind, said, advice = next((kind, said, advice) for sort, kind, said, advice in _FAILURES if isinstance(error, sort))
    return kind(f"{label}: {said} ({type(error).__name__}). {advice}")


_LATER = "Try again later, or go on without it."
# What went wrong on the way, special kinds first: the error told, why, and what to do.
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
