"""The operations of an OpenAPI document as tools.

    tools = openapi_tools(Path("petstore.json"), methods=("GET",), headers={"X-Key": key})

Invariants: arguments change neither host, nor method, nor the number of segments of a path. Keys come from the caller,
are sent only to the host that is called, and are in no message of this package. httpx2 logs each URL at level INFO.

Files, each importing only those below it:

    exchange    builds and sends a request, and renders the response
    inputs      parameters and bodies as one flat argument schema, and their encoding
    document    loads a document, lists and selects its operations, resolves its servers
    schema      the document's objects, and its schemas as JSON Schema 2020-12
    styles      the text of a value in a path, query, header or cookie
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx2
from typing_extensions import Unpack

from toolkit._guards.http_client import check_base_url
from toolkit._guards.options import check_headers, check_type, check_whole
from toolkit._messages import ToolResult
from toolkit._options import make_hints, spell_options
from toolkit._schema.error_messages import shorten
from toolkit._schema.validation.pointers import SchemaDocument
from toolkit._tools.options import DEFAULTS, ToolOptions, ToolSettings, split_options
from toolkit._tools.options import HINTS as TOOL_HINTS
from toolkit._tools.tool import Tool, with_origin
from toolkit.errors import DefinitionError
from toolkit.sources.openapi.document import (
    EFFECTS,
    IDEMPOTENT,
    DocumentInput,
    Operation,
    find_server_url,
    list_operations,
    load_document,
    select_operations,
)
from toolkit.sources.openapi.exchange import MAX_BYTES, RequestBuilder, Sender
from toolkit.sources.openapi.inputs import make_inputs
from toolkit.sources.openapi.schema import Root, Source
from toolkit.sources.remote import MAX_DESCRIPTION, MAX_TITLE

__all__ = ["openapi_tools"]

TIMEOUT = 30.0  # seconds
MAX_FAULTS = 10  # that a message describes; it names all operations that have one
# Hints for options that other libraries have.
HINTS = make_hints(
    ("prefix name", "Write Toolbox(openapi_tools(...)).prefixed(...)."),
    ("url", "Write base_url=..."),
    ("operations tags", "Write include=[...] or exclude=[...], with operation ids, tags or paths."),
    ("api_key auth token", "Write headers={'Authorization': 'Bearer ...'}, or client=httpx2.AsyncClient(auth=...)."),
)


@spell_options(ToolOptions, {**DEFAULTS, "timeout": TIMEOUT}, {**TOOL_HINTS, **HINTS})
def openapi_tools(
    document: DocumentInput,
    *,
    base_url: str | None = None,
    include: Collection[str] | None = None,
    exclude: Collection[str] = (),
    methods: Collection[str] = tuple(EFFECTS),
    deprecated: bool = False,
    headers: Mapping[str, str] | None = None,
    client: httpx2.AsyncClient | None = None,
    max_bytes: int = MAX_BYTES,
    **options: Unpack[ToolOptions],
) -> list[Tool[..., Any]]:
    """Make a tool of each operation.

    A call sends one request to the host that `base_url` or the document names; a model fills in the parameters and the
    body, and nothing else. The tools have no state but the client's.

    Args:
        document: OpenAPI 3.0 to 3.2: as data, as JSON text, or the path of a JSON file; for YAML, pass
            `yaml.safe_load(text)`. Neither the document nor a reference in it is fetched.
        base_url: Address that the paths follow, in place of the document's servers.
        include: Operation ids, tags, or paths with everything under them; all by default.
        exclude: Operation ids, tags or paths to leave out.
        methods: HTTP methods; `methods=("GET",)` for tools that only read.
        deprecated: Whether to offer operations that the document calls deprecated.
        headers: Sent with each request, such as a key; a model cannot set a header of these names.
        client: Sends the requests, and stays open: for proxies, certificates, its own `auth`, or connections that are
            kept alive. It belongs to one event loop. By default each request has a connection of its own, which
            reaches only the server.
        max_bytes: Bytes of a response that are read; a longer one is cut, with a note.
        **options: Options of each tool. `effect` and `idempotent` follow the method, `timeout` is 30 seconds.

    Raises:
        DefinitionError: The document or an option is invalid; or operations cannot be tools: the message names them.
        TypeError: There is no such option.
        OSError: The document's file cannot be read.
    """
    split_options(options, "openapi_tools", ToolSettings())
    check_type("deprecated", deprecated, bool)
    if not isinstance(client, (httpx2.AsyncClient, type(None))):
        raise DefinitionError(f"client={client!r:.100} is not an httpx2.AsyncClient; sync calls take that, too.")
    if client is not None and client.params:
        raise DefinitionError("client= has params, which would replace each query. Make it without them.")

    source = Source(SchemaDocument(load_document(document), {"": ""}))
    root = source.parse(Root, source.document.root, "the document")
    sender = Sender(client, options.get("timeout", TIMEOUT), check_whole("max_bytes", max_bytes))
    base = None if base_url is None else check_base_url("base_url", base_url)
    service = _Service(source, root, base, check_headers(headers), sender)
    operations = select_operations(list_operations(source, root), include, exclude, methods, deprecated=deprecated)
    return service.make_tools(operations, dict(options))


@dataclass(frozen=True)
class _Service:
    """The parts of a document and the options that all of its operations share."""

    source: Source
    root: Root
    base_url: str | None
    headers: Mapping[str, str] = field(repr=False)
    sender: Sender

    def make_tools(self, operations: list[Operation], options: dict[str, Any]) -> list[Tool[..., Any]]:
        """Make the tools.

        Raises:
            DefinitionError: Some operations cannot be tools, or a server names no host.
        """
        tools = list[Tool[..., Any]]()
        faults = dict[str, list[Operation]]()
        for each in operations:
            base = self.base_url or find_server_url(each.spec.servers or each.path_item.servers or self.root.servers)
            try:
                tools.append(self._make_tool(each, base, options))
            except DefinitionError as error:
                fault = str(error).removeprefix(f"Tool.from_schema({each.name!r}): ")
                faults.setdefault(fault, []).append(each)

        if faults:
            lines = [f"{_list_labels(unfit)}: {fault}" for fault, unfit in faults.items()][:MAX_FAULTS]
            names = [each.name for unfit in faults.values() for each in unfit]
            remedy = "Correct the document, bundle the files that it refers to (`npx @redocly/cli bundle`), or pass"
            raise DefinitionError("\n".join([*lines, f"{remedy} exclude={names}."]))
        return tools

    def _make_tool(self, operation: Operation, base: str, options: dict[str, Any]) -> Tool[..., Any]:
        if operation.fault:
            raise DefinitionError(operation.fault)

        sender = self.sender
        client_headers = () if sender.client is None else sender.client.headers
        header_names = {("header", name.casefold()) for name in (*self.headers, *client_headers)}
        schema, parameters, body = make_inputs(self.source, operation, header_names)
        builder = RequestBuilder(operation.method, base, operation.path, self.headers, parameters, body)
        transport = sender.open_transport(base)

        async def call(**_arguments: Any) -> ToolResult:  # no argument begins with an underscore, so none has that name
            return await sender.send(operation.label, builder.build(_arguments), transport)

        declaration: Any = {
            "title": operation.spec.summary[:MAX_TITLE] or operation.label,
            "description": _describe(operation),
            "timeout": TIMEOUT,
            "effect": EFFECTS[operation.method],
            **({"idempotent": True} if operation.method in IDEMPOTENT else {}),
            **options,
        }
        tool = Tool.from_schema(operation.name, schema, call, **declaration)
        return with_origin(tool, f"the OpenAPI operation {operation.label} of {base}")


def _describe(operation: Operation) -> str:
    spec = operation.spec
    mark = "Deprecated." if spec.deprecated else ""
    texts = [mark, spec.summary.strip(), "" if spec.description == spec.summary else spec.description.strip()]
    return shorten("\n\n".join(filter(None, texts)) or operation.label, MAX_DESCRIPTION)


def _list_labels(operations: list[Operation]) -> str:
    """Write the operations that have the same fault: the first, and the number of the others."""
    others = f" and {len(operations) - 1} more" if operations[1:] else ""
    return f"{operations[0].label}{others}"
