"""A toolbox for clients of the Model Context Protocol.

    serve([add])                   over standard input and output, until the client leaves
    serve([add], http="8000")      at http://127.0.0.1:8000/mcp, until it is interrupted
    serve([add], prompts=[review], resources=[note])     functions that are decorated with @prompt, @resource(uri)

What must stay true: a call passes the same gates as any other. One that requires approval is put to the client's user,
by elicitation, and is refused where the client cannot ask. An approval is for one tool, definition and arguments.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from typing import Any

from toolkit._concurrency.tasks import call_soon
from toolkit._context import ToolContext
from toolkit._dialects.catalog import DIALECTS
from toolkit._execution.approval import Approver, Decision, Verdict
from toolkit._execution.approval_request import ApprovalRequest
from toolkit._lazy import needs_extra
from toolkit._messages import ToolCall, ToolResult
from toolkit._schema.error_messages import shorten
from toolkit._toolbox import Toolbox
from toolkit._tools.addable import Addable
from toolkit._tools.bindings import AnyTool
from toolkit._tools.results import write_value
from toolkit._tools.tool import check_deps
from toolkit.serve.local import parse_address

with needs_extra("toolkit.serve.mcp", "mcp"):
    import anyio
    import mcp_types as types
    from mcp.server import Server
    from mcp.server.context import ServerRequestContext
    from mcp.server.stdio import stdio_server

    from toolkit.serve.prompts import Library, execute, prompt, resource

__all__ = ["make_server", "prompt", "resource", "serve"]

MAX_UPDATE = 1_000  # characters
CANNOT_ASK = "This client cannot ask its user for approval."
WAITS = "It waits for the approval of the client's user."
# The form that a client shows its user: the protocol allows one level of plain values.
FORM: dict[str, Any] = {
    "type": "object",
    "properties": {"approve": {"type": "boolean", "title": "Run it", "description": "Whether the tool is run."}},
    "required": ["approve"],
}


def make_server(
    toolbox: Toolbox | Iterable[Addable],
    *,
    name: str = "toolkit",
    instructions: str = "",
    deps: Any = None,
    approve: Approver | None = None,
    prompts: Iterable[object] = (),
    resources: Iterable[object] = (),
) -> Server[Any]:
    """Make a server of the `mcp` package, to be run in an event loop or mounted in an application of yours.

    Args:
        toolbox: A Toolbox, or anything that a Toolbox takes; later changes of a Toolbox are served, too.
        name: Name of the server, for people.
        instructions: Text for the client's model.
        deps: Given to tools as `ToolContext.deps`.
        approve: Asked about each call. By default the client's user is asked about calls that require approval.
        prompts: Functions that are decorated with `prompt`.
        resources: Functions that are decorated with `resource`.

    Raises:
        DefinitionError: One of the tools cannot be a tool, or no client can be sent it.
        TypeError: One of them takes `deps` of a type, and there are none, or others.
    """
    import toolkit

    box = toolbox if isinstance(toolbox, Toolbox) else Toolbox(toolbox)
    for tool in box:
        check_deps(tool, deps, "pass deps= to the server")
    box.schemas("mcp")  # a tool that cannot be described to a client is found here
    library, offers = Library(prompts, resources, deps), dict[str, Any]()
    if library.prompts.names:
        offers |= {"on_list_prompts": library.list_prompts, "on_get_prompt": library.get_prompt}
    if library.resources:
        offers |= {
            "on_list_resources": library.list_resources,
            "on_list_resource_templates": library.list_templates,
            "on_read_resource": library.read_resource,
        }

    async def list_tools(_: Any, __: Any) -> types.ListToolsResult:
        return types.ListToolsResult(
            tools=[_render_tool(tool, schema) for tool, schema in zip(box, box.schemas("mcp"))]
        )

    async def call_tool(
        context: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        return await _ServedCall(box, context, params, deps, approve).run()

    return Server(
        name,
        version=toolkit.__version__,
        instructions=instructions or None,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        **offers,
    )


def serve(toolbox: Toolbox | Iterable[Addable], *, http: str | None = None, **options: Any) -> None:
    """Serve tools until the client leaves, or Ctrl-C.

    Args:
        toolbox: As for `make_server`.
        http: A port, or `host:port`, to serve HTTP at the path `/mcp`, to this machine alone. By default the
            server uses standard input and output; what tools print then goes to standard error.
        **options: As for `make_server`.

    Raises:
        DefinitionError: The address is not of this machine, or one of the tools cannot be a tool.
    """
    server = make_server(toolbox, **options)
    if http is None:
        asyncio.run(_serve_stdio(server))
        return
    import uvicorn

    host, port = parse_address(http)
    uvicorn.run(server.streamable_http_app(host=host), host=host, port=port, log_level="warning", ws="none")


async def _serve_stdio(server: Server[Any]) -> None:
    async with stdio_server() as (receive, send):
        with redirect_stdout(sys.stderr):  # what tools print, which would else be written to the client at the end
            await server.run(receive, send, server.create_initialization_options())


def _render_tool(tool: AnyTool, schema: dict[str, Any]) -> types.Tool:
    """Render a tool with the hints that its effect gives; one without an effect has none."""
    effect, idempotent = tool.settings.effect, tool.settings.idempotent
    hints = types.ToolAnnotations(
        read_only_hint=None if effect is None else effect == "read",
        destructive_hint=None if effect in (None, "read") else effect == "destructive",
        idempotent_hint=idempotent,
    )
    has_hints = effect is not None or idempotent is not None
    return types.Tool.model_validate({**schema, "annotations": hints if has_hints else None})


@dataclass
class _ServedCall:
    """A call of a client.

    Attributes:
        questions: What the client is to ask its user before it calls again, by the digest of the call.
    """

    box: Toolbox
    context: ServerRequestContext[Any]
    params: types.CallToolRequestParams
    deps: Any
    approver: Approver | None
    questions: dict[str, types.InputRequest] = field(default_factory=dict)

    async def run(self) -> types.CallToolResult | types.InputRequiredResult:
        """Execute the call and report its progress; the result comes after all of it."""
        loop, updates = asyncio.get_running_loop(), asyncio.Queue["str | None"]()

        def emit(text: str | None, partial: Any) -> None:
            call_soon(loop, updates.put_nowait, shorten(write_value(partial) if text is None else text, MAX_UPDATE))

        result = ToolResult()
        async with anyio.create_task_group() as group:
            group.start_soon(self._report_progress, updates)
            result = await self._execute_call(ToolContext(deps=self.deps, emit=emit))
            call_soon(loop, updates.put_nowait, None)
        if self.questions:
            return types.InputRequiredResult(input_requests=self.questions)
        call, tool = ToolCall(name=self.params.name), self.box.get(self.params.name)
        specs = [] if tool is None else [tool._spec]
        return types.CallToolResult.model_validate(DIALECTS["mcp"]().render_results([(call, result)], specs)[0])

    async def _execute_call(self, context: ToolContext[Any]) -> ToolResult:
        arguments = self.params.arguments or {}
        return await execute(self.box, self.params.name, arguments, context, self.approver or self._ask_client)

    async def _report_progress(self, updates: asyncio.Queue[str | None]) -> None:
        count = 0
        while (text := await updates.get()) is not None:
            count += 1
            await self.context.session.report_progress(count, None, text)

    async def _ask_client(self, request: ApprovalRequest) -> Verdict:
        """Ask the client's user about a call that requires approval, in this request or before the next."""
        session = self.context.session
        if not request.required:
            return True
        capabilities = session.client_capabilities
        asking = None if capabilities is None else capabilities.elicitation
        if asking is None or (asking.form is None and asking.url is not None):
            return Decision.unavailable(CANNOT_ASK)
        tool = request.tool
        title = f" ({tool.title})" if tool.title else ""
        imports = f", and the shared values {request.imports_json}" if request.imports else ""
        message = f"Run {tool.name}{title} with {request.arguments_json}{imports}?"
        answer: Any
        if session.can_send_request:
            answer = await session.elicit_form(message, FORM, self.context.request_id)
        elif (answer := (self.params.input_responses or {}).get(request.digest)) is None:
            form = types.ElicitRequestFormParams(message=message, requested_schema=FORM)
            self.questions[request.digest] = types.ElicitRequest(params=form)
            return Decision.unavailable(WAITS)
        is_accepted = isinstance(answer, types.ElicitResult) and answer.action == "accept"
        return is_accepted and (answer.content or {}).get("approve") is True
