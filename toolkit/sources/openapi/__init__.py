"""The operations of an HTTP service, as its OpenAPI document tells them, as tools.

    tools = openapi_tools(Path("petstore.yaml"), methods=("GET",), auth={"api_key": key})

How it works: `reading` makes data of a document, `objects` are its parts, `operations` chooses among them. `inputs` and
`bodies` make one flat schema of what an operation needs, in which `translation` says the document's schemas as JSON
Schema 2020-12. `requests` writes arguments by `styles`, to where `servers` and `security` say; `answers` reads what
comes back.

What must stay true: arguments change neither host, nor method, nor the number of a path's segments; keys come from the
caller, go nowhere but to the host that is called, and are in no text that is made here. httpx2 logs each address at
level INFO, with the keys that a document wants in the query.

The operations of an OpenAPI document as tools.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from ssl import SSLContext
from typing import Any

import httpx2
from typing_extensions import Unpack

from toolkit._guards.options import of_type, whole
from toolkit._messages import ToolResult
from toolkit._options import refuse_unknown_options
from toolkit._schema.validation.references import Document
from toolkit._tools.options import OPTION_NAMES, ToolOptions, ToolSettings, split_options
from toolkit._tools.tool import Tool
from toolkit.errors import DefinitionError
from toolkit.sources.openapi.document import (
    EFFECTS,
    IDEMPOTENT,
    Given,
    Operation,
    base_of,
    checked,
    operations,
    origin,
    read,
    selected,
)
from toolkit.sources.openapi.inputs import inputs_of
from toolkit.sources.openapi.request import Auth, Requests, Security, check_name, check_sendable, security_of
from toolkit.sources.openapi.response import answer_of, failure
from toolkit.sources.openapi.schema import Root, Source

# Characters of a description, and of a title: OpenAI takes 1,024 of the first.
MOST_TOLD, MOST_TITLE = 1_000, 100
# Bytes of an answer that are read; a page of JSON is about as large.
MAX_BYTES = 65_536
TIMEOUT = 30.0
# Redirects that are followed, all of them to the same host.
MAX_REDIRECTS = 5
# Operations whose faults are told; the names of all are.
MOST_FAULTS = 10


def openapi_tools(
    document: Given,
    *,
    base_url: str | None = None,
    include: Collection[str] | None = None,
    exclude: Collection[str] = (),
    methods: Collection[str] = tuple(EFFECTS),
    deprecated: bool = False,
    prefix: str = "",
    headers: Mapping[str, str] | None = None,
    auth: Auth | None = None,
    client: httpx2.AsyncClient | None = None,
    max_bytes: int = MAX_BYTES,
    **options: Unpack[ToolOptions],
) -> list[Tool[..., Any]]:
    """Make a tool of each operation.

    A call sends one request to the host that `base_url` or the document names; a model fills in the parameters and the
    body, and nothing else. The tools have no state but the client's.

    Args:
        document: OpenAPI 3.0 to 3.2: as data, as text in JSON or YAML, or the path of its file. It is not fetched,
            and neither is what it refers to.
        base_url: Where the server is, in the place of what the document says; what a relative server there follows.
        include: Operation ids, tags, or paths with all that is under them; all by default.
        exclude: The same, of what is left out.
        methods: HTTP methods; `methods=("GET",)` for tools that only read.
        deprecated: Whether operations are offered that the document calls deprecated.
        prefix: Stands in front of each name, with two underscores.
        headers: Sent with each request, such as a key; a model cannot set one of these names.
        auth: Keys by the names of the document's security schemes, which say where they go; or what httpx2 takes.
        client: Sends the requests, and stays open: for proxies, certificates, or connections that are kept. It belongs
            to one event loop. By default each call has a client of its own.
        max_bytes: Bytes of an answer that are read; what is longer is cut, and says so.
        **options: For each tool. `effect`, `idempotent` follow the method, `timeout` is 30 seconds.

    Raises:
        DefinitionError: The document or an option is none; or an operation cannot be a tool, all of which are named.
        OSError: The document's file cannot be read.
        ImportError: The document is YAML, and the extra `openapi` is not installed.
    """
    refuse_unknown_options(options, OPTION_NAMES, error=DefinitionError)
    of_type("deprecated", deprecated, bool)
    split_options(options, "openapi_tools", ToolSettings())
    source = Source(Document(read(document), {"": ""}, {}))
    root = source.read(Root, source.document.root, "the document")
    security = security_of(source, root, auth)
    sender = _Sender(client, None if isinstance(auth, Mapping) else auth, options.get("timeout", TIMEOUT), max_bytes)
    base = None if base_url is None else checked(of_type("base_url", base_url, str))
    service = _Service(source, root, base, _checked({} if headers is None else headers), security, sender)
    offered = operations(source, root, of_type("prefix", prefix, str))
    security.check_used(each.told.security for each in offered)
    return service.tools(selected(offered, include, exclude, methods, deprecated=deprecated), dict(options))


@dataclass(frozen=True)
class _Service:
    """What all operations of one document share."""

    source: Source
    root: Root
    base_url: str | None
    headers: Mapping[str, str] = field(repr=False)
    security: Security
    sender: _Sender

    def tools(self, chosen: list[Operation], options: dict[str, Any]) -> list[Tool[..., Any]]:
        """Make the tools.

        Raises:
            DefinitionError: Some operations cannot be tools.
        """
        outcomes = [self._outcome(operation, options) for operation in chosen]
        faults = {each.name: outcome for each, outcome in zip(chosen, outcomes) if isinstance(outcome, str)}
        if faults:
            told = "\n".join([*faults.values()][:MOST_FAULTS])
            raise DefinitionError(
                f"{told}\nMend the document, put what it refers to into it (`npx @redocly/cli bundle`), or leave these "
                f"{len(faults)} operations out: exclude={[*faults]}."
            )
        return [outcome for outcome in outcomes if isinstance(outcome, Tool)]

    def _outcome(self, operation: Operation, options: dict[str, Any]) -> Tool[..., Any] | str:
        if operation.fault:
            return f"{operation.label}: {operation.fault}"
        try:
            return self._tool(operation, options)
        except DefinitionError as error:
            return f"{operation.label}: {error}"

    def _tool(self, operation: Operation, options: dict[str, Any]) -> Tool[..., Any]:
        requests, sender = self._requests(operation), self.sender
        usual = {"timeout": TIMEOUT, "effect": EFFECTS[operation.method]}
        if operation.method in IDEMPOTENT:
            usual["idempotent"] = True

        async def call(**_arguments: Any) -> ToolResult:  # no argument begins with an underscore: none is called so
            return await sender.sent(operation.label, requests.request(_arguments))

        schema, description = requests.inputs.schema, _description(operation)
        title = operation.told.summary[:MOST_TITLE] or operation.label
        told: Any = {"title": title, "description": description, **usual, **options}
        return Tool.from_schema(operation.name, schema, call, **told)

    def _requests(self, operation: Operation) -> Requests:
        servers = operation.told.servers or operation.item.servers or self.root.servers
        own = () if self.sender.client is None else self.sender.client.headers
        kept = {*self.security.kept, *(("header", name.casefold()) for name in (*self.headers, *own))}
        return Requests(
            operation.method,
            base_of(servers, self.base_url),
            operation.path,
            inputs_of(self.source, operation, kept),
            self.security.keys(operation.told.security),
            self.headers,
        )


@dataclass(frozen=True)
class _Sender:
    """Sends requests.

    Attributes:
        client: The caller's, where there is one.
        auth: The caller's, as the client takes it.
        timeout: Seconds for each step of a request; a call as a whole has as many.
        max_bytes: Bytes of an answer that are read.
    """

    client: httpx2.AsyncClient | None
    auth: httpx2.Auth | tuple[str, str] | None = field(repr=False)
    timeout: float | None
    max_bytes: int

    def __post_init__(self) -> None:
        if not isinstance(self.client, (httpx2.AsyncClient, type(None))):
            raise DefinitionError(f"client={self.client!r} is no httpx2.AsyncClient; the sync backends take that too.")
        if self.client is not None and self.client.params:
            raise DefinitionError("client= has params, which would stand for each query. Make it without them.")
        if not (isinstance(self.auth, (httpx2.Auth, type(None))) or _is_pair(self.auth)):
            raise DefinitionError("auth= is keys by names of security schemes, a user and password, or httpx2.Auth.")
        whole("max_bytes", self.max_bytes)

    async def sent(self, label: str, request: dict[str, Any]) -> ToolResult:
        """Send a request, and make a result of the answer.

        Raises:
            ToolError: There is no answer.
        """
        try:
            async with self._open() as client:
                response = await self._answered(client, client.build_request(**request))
                try:
                    return (await answer_of(label, response, self.max_bytes)).result()
                finally:
                    await response.aclose()
        except (httpx2.HTTPError, httpx2.InvalidURL, RuntimeError) as error:
            raise failure(label, error) from error

    async def _answered(self, client: httpx2.AsyncClient, request: httpx2.Request) -> httpx2.Response:
        """Send a request, and follow redirects that change neither host nor method, and bring no user along."""
        known: Any = {} if self.auth is None else {"auth": self.auth}
        for _ in range(MAX_REDIRECTS):
            response = await client.send(request, stream=True, follow_redirects=False, **known)
            following = response.next_request
            if following is None or _is_elsewhere(request, following):
                return response
            await response.aclose()
            request = following
        return await client.send(request, stream=True, follow_redirects=False, **known)

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[httpx2.AsyncClient]:
        if self.client is not None:
            yield self.client
            return
        certificates = await asyncio.to_thread(_certificates)
        async with httpx2.AsyncClient(verify=certificates, timeout=self.timeout, trust_env=False) as client:
            yield client


def _checked(headers: Mapping[str, str]) -> dict[str, str]:
    if not isinstance(headers, Mapping):
        raise DefinitionError("headers= maps names to values: headers={'X-Key': key}.")
    for name, value in headers.items():
        check_name(f"headers[{name!r}]", name)
        check_sendable(f"headers[{name!r}]", value)
    return dict(headers)


def _is_pair(auth: Any) -> bool:
    return isinstance(auth, tuple) and len(auth) == 2 and all(isinstance(each, str) for each in auth)


def _is_elsewhere(request: httpx2.Request, following: httpx2.Request) -> bool:
    same = origin(following.url) == origin(request.url) and following.method == request.method
    return not same or bool(following.url.userinfo)


@cache
def _certificates() -> SSLContext:
    """Load the certificates that this machine trusts: that takes longer than a request."""
    return httpx2.create_ssl_context()


def _description(operation: Operation) -> str:
    told = operation.told
    mark = "Deprecated." if told.deprecated else ""
    texts = [mark, told.summary.strip(), "" if told.description == told.summary else told.description.strip()]
    text = "\n\n".join(filter(None, texts)) or operation.label
    return text if len(text) <= MOST_TOLD else f"{text[: MOST_TOLD - 1].rstrip()}…"


__all__ = ["openapi_tools"]
