"""What may be said of how pages are got."""

from __future__ import annotations

import re
import ssl
from collections.abc import Collection, Iterable, Mapping
from typing import Annotated

import httpx2
from pydantic import Field, InstanceOf, TypeAdapter, ValidationError
from typing_extensions import TypedDict, Unpack

from toolkit._guards.network import PORTS, Allowed, Dialer
from toolkit.builtin.http.web import MAX_BYTES, TIMEOUT, Web
from toolkit.errors import DefinitionError

LONGEST = 86_400  # seconds
# They are how the message is sent.
UNSUITED = frozenset(
    ("host", "connection", "content-length", "transfer-encoding", "accept-encoding", "upgrade", "te", "trailer")
)
# What stands in the names of credentials: headers go to whatever host a model names, so they can be no secret.
_SECRET = re.compile(r"auth|cookie|credential|key|password|secret|session|token", re.IGNORECASE)
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t\x20-\x7e]*")


class WebOptions(TypedDict, total=False):
    """What may be said of how pages are got.

    Attributes:
        timeout: Seconds for all of a page, its lookups and redirects included; 15 by default, a day at most.
        max_bytes: How much of it is read, before and after decompression; 1 MiB by default.
        allow: What may be fetched although it is not public: networks (`"10.0.0.0/8"`), addresses, or names of hosts,
            whatever their addresses are; each at every port, or with one (`"127.0.0.1:8080"`).
        ports: The ports of public addresses; 80 and 443 by default.
        headers: Sent to whatever host a model names, so no credentials: names with `auth`, `cookie`, `credential`,
            `key`, `password`, `secret`, `session` or `token` in them are refused. A redirect to another origin is sent
            none.
        user_agent: What the client calls itself.
        ssl_context: Checks certificates; by default, the system's authorities, or those of `SSL_CERT_FILE`.
        dialer: Opens the connections; `allow` and `ports` are its own then.
    """

    timeout: Annotated[float, Field(gt=0, le=LONGEST)]
    max_bytes: Annotated[int, Field(gt=0)]
    allow: InstanceOf[Iterable[Allowed]]
    ports: InstanceOf[Collection[int]]
    headers: Annotated[Mapping[str, str], Field(strict=False)]
    user_agent: Annotated[str, Field(min_length=1)]
    ssl_context: InstanceOf[ssl.SSLContext]
    dialer: InstanceOf[Dialer]


_OPTIONS = TypeAdapter(WebOptions)


def web_of(**options: Unpack[WebOptions]) -> Web:
    """Make what gets pages.

    Raises:
        DefinitionError: An option is none that can be used.
    """
    _refuse_mistakes(options)
    _refuse_unsuited(options.get("headers", {}))
    headers = httpx2.Headers(options.get("headers"))
    if "user_agent" in options:
        _refuse_unsuited({"User-Agent": options["user_agent"]})
        headers["User-Agent"] = options["user_agent"]
    return Web(
        _dialer(options),
        timeout=options.get("timeout", TIMEOUT),
        max_bytes=options.get("max_bytes", MAX_BYTES),
        headers=headers,
        context=options.get("ssl_context"),
    )


def _refuse_mistakes(options: WebOptions) -> None:
    unknown = options.keys() - WebOptions.__annotations__.keys()
    if unknown:
        raise DefinitionError(f"There is no option {min(unknown)!r}: {', '.join(WebOptions.__annotations__)}.")
    try:
        _OPTIONS.validate_python(options, strict=True)
    except ValidationError as error:
        mistake = error.errors()[0]
        raise DefinitionError(f"{mistake['loc'][0]}: {mistake['msg']}.") from None


def _dialer(options: WebOptions) -> Dialer:
    if "dialer" not in options:
        return Dialer(options.get("allow", ()), options.get("ports", PORTS))
    if own := sorted({"allow", "ports"} & options.keys()):
        raise DefinitionError(f"dialer= says itself where connections may lead. Leave out {' and '.join(own)}.")
    return options["dialer"]


def _refuse_unsuited(headers: Mapping[str, str]) -> None:
    for name, value in headers.items():
        if name.lower() in UNSUITED or _SECRET.search(name):
            raise DefinitionError(f"headers: {name!r} cannot be sent to whatever host a model names. Leave it out.")
        if not (_NAME.fullmatch(name) and _VALUE.fullmatch(value)):
            raise DefinitionError(f"headers: {name!r} or its value has characters that a header cannot have.")
