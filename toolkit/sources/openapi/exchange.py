"""One exchange with a server: a request made from arguments, and the response as a tool's result.

A request goes to one host, by one method, with the same number of path segments, and follows no redirect. The caller's
headers override all others; a model neither sees nor chooses them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote

import httpx2
from pydantic_core import from_json

from toolkit._guards.http_client import HttpClient
from toolkit._guards.media import detect_image
from toolkit._guards.options import HEADER_VALUE, TOKEN
from toolkit._messages import Image, ToolResult
from toolkit.errors import DefinitionError, Failed, InvalidArguments, TimedOut, ToolError
from toolkit.sources.openapi.inputs import Body, Parameter
from toolkit.sources.openapi.styles import is_json

MAX_BYTES = 65_536  # of a response; a page of JSON is about as large
# A parameter in a path, such as {id}.
TEMPLATE = re.compile(r"\{([^{}/]*)\}")
# A path outside of its templates: no query, no fragment, and nothing that could be read as a slash.
LITERAL = re.compile(r"/([^?#%{}\\\x00-\x1f\x7f]|%[0-9A-Fa-f]{2})*")
# Characters of a path that are not encoded (RFC 3986, section 3.3), besides letters, digits and `-._~`.
SAFE = "/%!$&'()*+,;=:@"
# Characters of an error's body that the model gets: enough to see what went wrong, not a page of HTML.
MAX_ERROR_BODY = 2_000
LATER = "Try again later, or continue without it."
# Advice to the model by status, else by class of status.
ADVICE: Mapping[int, str] = {
    401: "The application's key was not accepted. Do not repeat the call; tell the user.",
    403: "The application may not do this. Do not repeat the call; tell the user.",
    404: "Nothing is there: check the identifiers.",
    409: "It does not fit the present state: look at that first.",
    429: "There were too many requests: wait before another.",
    3: "It is a redirect, which is not followed. Do not repeat the call; tell the user.",
    4: "Change the arguments before another call.",
    5: "The server failed, not the call: try again later, or continue without it.",
}


@dataclass(frozen=True)
class RequestBuilder:
    """Builds the requests of one operation.

    Attributes:
        base: URL that the path follows, without a slash at its end.
        path: Path with a template for each of its parameters.
        headers: The caller's headers, which override all others.
        parameters: The parameters that the model fills in.
        body: The body; None if there is none.
    """

    method: str
    base: str
    path: str
    headers: Mapping[str, str] = field(repr=False)
    parameters: Sequence[Parameter]
    body: Body | None

    def __post_init__(self) -> None:
        names = {each.spec.name for each in self.parameters if each.spec.place == "path"}
        missing = next((name for name in TEMPLATE.findall(self.path) if name not in names), None)
        if missing is not None:
            raise DefinitionError(f"the path has {{{missing}}}, and no parameter has that name. Declare it there.")
        if not LITERAL.fullmatch(TEMPLATE.sub("x", self.path)):
            raise DefinitionError(
                "the path is invalid: it begins with '/', and has neither '?' nor '#', nor '/' in braces."
            )
        for each in self.parameters:
            if each.spec.place == "header" and not TOKEN.fullmatch(each.spec.name):
                raise DefinitionError(f"parameters: {each.spec.name!r} is not a name of a header.")
        if self.body and not HEADER_VALUE.fullmatch(self.body.media_type):
            raise DefinitionError(f"requestBody: {self.body.media_type!r} is not a media type.")

    def build(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments from which the HTTP client builds a request.

        Raises:
            InvalidArguments: An argument cannot be encoded.
        """
        queries = (each.encode(arguments.get(each.argument)) for each in self.parameters if each.spec.place == "query")
        query = "&".join(filter(None, queries))
        url = self.base + self._build_path(arguments) + (f"?{query}" if query else "")
        body = self.body.build(arguments) if self.body else {}
        headers = self._build_headers(arguments, body.get("headers", {}))
        return {**body, "method": self.method, "url": url, "headers": headers}

    def _build_path(self, arguments: Mapping[str, Any]) -> str:
        values = {
            each.spec.name: each.encode(arguments.get(each.argument))
            for each in self.parameters
            if each.spec.place == "path"
        }
        parts = enumerate(TEMPLATE.split(self.path))  # every second one is a name
        path = "".join(values[part] if number % 2 else quote(part, safe=SAFE) for number, part in parts)
        for template, segment in zip(self.path.split("/"), path.split("/"), strict=True):
            if template != segment:
                _check_segment(template, segment)
        return path

    def _build_headers(self, arguments: Mapping[str, Any], defaults: Mapping[str, str]) -> dict[str, str]:
        """Return the headers by names in lower case."""
        headers = {"Accept": "application/json, */*;q=0.5", **defaults}
        for each in self.parameters:
            if each.spec.place == "header" and each.has_value(value := arguments.get(each.argument)):
                headers[each.spec.name] = each.encode(value)
        return {name.lower(): value for name, value in {**headers, **self.headers}.items()}


def _check_segment(template: str, segment: str) -> None:
    """Check that a segment stays one segment, even for a server that decodes it too early.

    Raises:
        InvalidArguments: The segment is empty, or could be read as `.` or `..`.
    """
    steps = [step.partition(";")[0] for step in re.split(r"[/\\]", unquote(segment))]
    if segment == "" or not {".", ".."}.isdisjoint(steps):
        raise InvalidArguments(
            f"{template}: a path parameter must not be empty or '.' or '..', or contain such a segment."
        )


@dataclass(frozen=True)
class Sender:
    """Sends requests, with the caller's client or a guarded one.

    Attributes:
        client: The caller's client; None for guarded ones.
        timeout: Seconds for a request.
        max_bytes: Bytes of a response that are read.
        transports: The transport of a guarded client, which reaches only one server, by base URL.
    """

    client: httpx2.AsyncClient | None
    timeout: float | None
    max_bytes: int
    transports: dict[str, HttpClient] = field(default_factory=dict, repr=False)

    def open_transport(self, base_url: str) -> HttpClient:
        """Return the transport that reaches only one server."""
        if base_url not in self.transports:
            url = httpx2.URL(base_url)
            self.transports[base_url] = HttpClient.for_server(url, timeout=self.timeout, max_bytes=self.max_bytes)
        return self.transports[base_url]

    async def send(self, label: str, request: dict[str, Any], transport: HttpClient) -> ToolResult:
        """Send a request, and render the response.

        Raises:
            ToolError: There is no response.
        """
        try:
            async with (
                self._open_client(transport) as client,
                client.stream(**request, follow_redirects=False) as response,
            ):
                return await _read_response(label, response, self.max_bytes)
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise _translate_error(label, error) from error

    def _open_client(self, transport: HttpClient) -> AbstractAsyncContextManager[httpx2.AsyncClient]:
        if self.client is not None:
            return nullcontext(self.client)
        headers = {"Accept-Encoding": "gzip, deflate"}  # the transport can decode these
        return httpx2.AsyncClient(transport=transport, headers=headers, timeout=self.timeout, trust_env=False)


async def _read_response(label: str, response: httpx2.Response, max_bytes: int) -> ToolResult:
    """Read at most `max_bytes` decompressed bytes of a response, and make its result."""
    read = bytearray()
    async for chunk in response.aiter_bytes():
        read += chunk
        if len(read) > max_bytes:
            break

    is_cut = len(read) > max_bytes or bool(response.extensions.get("is_cut"))  # by the guarded client
    body = bytes(read[:max_bytes])
    status = response.status_code
    if status >= 300:
        result = _render_error(label, response, body, is_cut=is_cut)
    else:
        result = _render_success(response, body, is_cut=is_cut)
    return result.replace(details={"operation": label, "status": status})


def _render_error(label: str, response: httpx2.Response, body: bytes, *, is_cut: bool) -> ToolResult:
    status = response.status_code
    text = _decode(response, body).strip()
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


def _translate_error(label: str, error: Exception) -> ToolError:
    """Make the error for a request without a response. It does not quote the URL, which may have a key in it."""
    reason = f"({type(error).__name__})"
    if isinstance(error, httpx2.InvalidURL):
        return InvalidArguments(f"{label}: the arguments are too long for a URL {reason}. Send less.")
    if isinstance(error, httpx2.TimeoutException):
        return TimedOut(f"{label}: the server did not answer in time {reason}. {LATER}")
    return Failed(f"{label}: there was no answer {reason}. {LATER}")
