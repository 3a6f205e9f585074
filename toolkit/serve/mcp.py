"""A toolbox for clients of the Model Context Protocol, with prompts and resources beside the tools.

    serve([add])                   over standard input and output, until the client disconnects
    serve([add], http=8000)        at http://127.0.0.1:8000/mcp, until Ctrl-C
    serve([add], prompts=[review], resources=[note])

    @prompt                        @resource("notes://{name}")
    def review(code: str): ...     def note(name: str): ...

What must stay true: a call passes the same gates as any other. Without an approver, the client asks its user about a
call that requires approval, by elicitation; if the client cannot ask, the call is refused. An approval is for one tool,
definition and arguments.

A prompt's function returns a text, an image, a file or a message, or a list of these. A resource's function returns a
text, bytes, an image or a file, or any other value, which is sent as JSON. A resource's address may have parameters in
braces, each for one segment of a path.
"""

from __future__ import annotations

import asyncio
import logging
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from functools import partial
from types import NoneType
from typing import Any, TypeVar
from urllib.parse import quote, unquote, urlsplit

from toolkit._concurrency.tasks import call_soon
from toolkit._context import ToolContext
from toolkit._dialects.base import encode_base64
from toolkit._dialects.catalog import DIALECTS
from toolkit._dialects.mcp import render_resource
from toolkit._execution.approval import Approver, Decision, Verdict
from toolkit._execution.approval_request import ApprovalRequest
from toolkit._guards.options import check_function, check_type
from toolkit._lazy import needs_extra
from toolkit._messages import File, Image, Message, ModelResponse, ToolCall, ToolResult, UserMessage
from toolkit._options import check_options, make_hints
from toolkit._runner.prompt import make_user_message
from toolkit._schema.arguments import RawArguments
from toolkit._schema.error_messages import shorten
from toolkit._toolbox import Toolbox, make_toolbox
from toolkit._tools.addable import Addable
from toolkit._tools.bindings import AnyTool
from toolkit._tools.decorator import tool as make_tool
from toolkit._tools.results import write_value
from toolkit._tools.tool import check_deps
from toolkit.errors import DefinitionError, Failed, FatalError
from toolkit.serve.local import parse_address

with needs_extra("toolkit.serve.mcp", "mcp"):
    import anyio
    import mcp_types as types
    from mcp import MCPError
    from mcp.server import Server
    from mcp.server.context import ServerRequestContext
    from mcp.server.stdio import stdio_server
    from mcp_types.version import MODERN_PROTOCOL_VERSIONS

__all__ = ["make_server", "prompt", "resource", "serve"]

logger: logging.Logger = logging.getLogger("toolkit")

T = TypeVar("T")

MAX_UPDATE = 1_000  # characters
CANNOT_ASK = "This client cannot ask its user for approval."
WAITS = "The call waits for the approval of the client's user."
# The form that a client shows its user: the protocol allows one level of plain values.
FORM: dict[str, Any] = {
    "type": "object",
    "properties": {"approve": {"type": "boolean", "title": "Run it", "description": "Whether to run the tool."}},
    "required": ["approve"],
}
_PARAMETER = re.compile(r"\{([^{}]*)\}")
# Hints for options that other libraries have.
HINTS = make_hints(
    ("host path port transport", "serve([...]) uses standard input and output; serve([...], http=8000) serves HTTP."),
    ("tools", "Tools are the first argument: make_server([...])."),
)


@partial(check_options, hints=HINTS)
def make_server(
    toolbox: Toolbox | Iterable[Addable],
    *,
    name: str = "toolkit",
    instructions: str | None = None,
    deps: Any = None,
    approve: Approver | None = None,
    prompts: Iterable[object] = (),
    resources: Iterable[object] = (),
) -> Server[Any]:
    """Make a server of the `mcp` package, for an event loop or an ASGI application of yours.

    Args:
        toolbox: A Toolbox, or the items for one; later changes of a Toolbox are served, too.
        name: Name of the server, for people.
        instructions: Text for the client's model.
        deps: Passed to tools, prompts and resources as `ToolContext.deps`.
        approve: Asked about each call. By default the client's user is asked about calls that require approval.
        prompts: Functions that are decorated with `prompt`.
        resources: Functions that are decorated with `resource`.

    Raises:
        DefinitionError: An item is not a tool, prompt or resource, or cannot be described to a client; two prompts have
            the same name, or two resources the same address; or an option has a wrong value.
        TypeError: A function declares the type of its deps, and `deps` is missing or of another type.
    """
    import toolkit

    check_type("name", name, str)
    check_type("instructions", instructions, str, NoneType)
    for option, items in ("prompts", prompts), ("resources", resources):
        check_type(option, items, Iterable)
    if approve is not None:
        check_function("approve", approve)
    box = make_toolbox(toolbox)
    for tool in box:
        check_deps(tool, deps, "pass deps= to the server")
    box.schemas("mcp")  # a tool that cannot be described to a client is found here
    library = _Library(prompts, resources, deps)
    handlers = dict[str, Any]()
    if library.prompts.names:
        handlers |= {"on_list_prompts": library.list_prompts, "on_get_prompt": library.get_prompt}
    if library.resources:
        handlers |= {
            "on_list_resources": library.list_resources,
            "on_list_resource_templates": library.list_templates,
            "on_read_resource": library.read_resource,
        }

    async def list_tools(_: Any, __: Any) -> types.ListToolsResult:
        listed = [_render_tool(tool, schema) for tool, schema in zip(box, box.schemas("mcp"))]
        return types.ListToolsResult(tools=listed)

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
        **handlers,
    )


def serve(toolbox: Toolbox | Iterable[Addable], *, http: str | int | None = None, **options: Any) -> None:
    """Serve tools until the client disconnects, or Ctrl-C.

    Args:
        toolbox: As for `make_server`.
        http: A port, or `host:port`, to serve HTTP at the path `/mcp`; it must be of this machine. By default the
            server uses standard input and output, and tools print to standard error.
        **options: As for `make_server`.

    Raises:
        DefinitionError: The address is not a local one; or as for `make_server`.
        TypeError: As for `make_server`.
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
        with redirect_stdout(sys.stderr):  # else the client would read what tools print
            await server.run(receive, send, server.create_initialization_options())


def _render_tool(tool: AnyTool, schema: dict[str, Any]) -> types.Tool:
    """Render a tool, with hints from its effect and from `idempotent`."""
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
    """A call of a client."""

    box: Toolbox
    context: ServerRequestContext[Any]
    params: types.CallToolRequestParams
    deps: Any
    approver: Approver | None
    # What the client must ask its user before it repeats the call, by the digest of the call.
    questions: dict[str, types.InputRequest] = field(default_factory=dict)

    async def run(self) -> types.CallToolResult | types.InputRequiredResult:
        """Execute the call and report its progress. The result is returned after the last report."""
        loop = asyncio.get_running_loop()
        updates = asyncio.Queue["str | None"]()

        def emit(text: str | None, partial: Any) -> None:
            call_soon(loop, updates.put_nowait, shorten(write_value(partial) if text is None else text, MAX_UPDATE))

        result = ToolResult()
        async with anyio.create_task_group() as group:
            group.start_soon(self._report_progress, updates)
            arguments = self.params.arguments or {}
            context = ToolContext(deps=self.deps, emit=emit)
            approve = self.approver or self._ask_client
            result = await _execute(self.box, self.params.name, arguments, context, approve)
            call_soon(loop, updates.put_nowait, None)

        if self.questions:
            return types.InputRequiredResult(input_requests=self.questions)

        call = ToolCall(name=self.params.name)
        tool = self.box.get(self.params.name)
        specs = [] if tool is None else [tool._spec]
        return types.CallToolResult.model_validate(DIALECTS["mcp"]().render_results([(call, result)], specs)[0])

    async def _report_progress(self, updates: asyncio.Queue[str | None]) -> None:
        count = 0
        while (text := await updates.get()) is not None:
            count += 1
            await self.context.session.report_progress(count, None, text)

    async def _ask_client(self, request: ApprovalRequest) -> Verdict:
        """Ask the client's user about a call that requires approval: now, or before the client repeats the call."""
        session = self.context.session
        if not request.required:
            return True

        capabilities = session.client_capabilities
        elicitation = None if capabilities is None else capabilities.elicitation
        if elicitation is None or (elicitation.form is None and elicitation.url is not None):
            return Decision.unavailable(CANNOT_ASK)

        tool = request.tool
        title = f" ({tool.title})" if tool.title else ""
        imports = f", and the shared values {request.imports_json}" if request.imports else ""
        message = f"Run {tool.name}{title} with {request.arguments_json}{imports}?"
        answer: Any
        if session.can_send_request:
            answer = await session.elicit_form(message, FORM, self.context.request_id)
        elif session.protocol_version not in MODERN_PROTOCOL_VERSIONS:  # with json_response=True, for example
            return Decision.unavailable(CANNOT_ASK)
        elif (answer := (self.params.input_responses or {}).get(request.digest)) is None:
            form = types.ElicitRequestFormParams(message=message, requested_schema=FORM)
            self.questions[request.digest] = types.ElicitRequest(params=form)
            return Decision.unavailable(WAITS)

        is_accepted = isinstance(answer, types.ElicitResult) and answer.action == "accept"
        return is_accepted and (answer.content or {}).get("approve") is True


@dataclass(frozen=True, eq=False)
class Prompt:
    """A prompt that a client's user may choose, made by `prompt`."""

    tool: AnyTool

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        return self.tool(*args, **kwargs)


@dataclass(frozen=True, eq=False)
class Resource:
    """Content that a client may read, made by `resource`.

    Attributes:
        uri: The address, with parameters in braces.
        media_type: The media type; "" if it depends on the content.
    """

    uri: str
    media_type: str
    tool: AnyTool

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        return self.tool(*args, **kwargs)

    @property
    def parameters(self) -> list[str]:
        """The names of the parameters in the address."""
        return _PARAMETER.findall(self.uri)

    def match(self, uri: str) -> dict[str, str] | None:
        """Return the arguments in an address, or None if the address is not of this resource."""
        pattern = "".join(
            f"(?P<{part}>[^/]+)" if number % 2 else re.escape(_encode(part))
            for number, part in enumerate(_PARAMETER.split(self.uri))
        )
        found = re.fullmatch(pattern, _encode(uri))
        if found is None:
            return None

        arguments = {name: unquote(value) for name, value in found.groupdict().items()}
        for value in arguments.values():  # each is one part of a path
            if "/" in value or "\\" in value or value in (".", ".."):
                return None
        return arguments


def _encode(uri: str) -> str:
    """Encode what no address may have, such as spaces and letters outside ASCII. Many clients have done so."""
    return quote(uri, safe="%/:?#[]@!$&'()*+,;=")


def prompt(function: Callable[..., Any]) -> Prompt:
    """Make a prompt of a function, with its name, docstring and parameters.

    Raises:
        DefinitionError: The function's signature is not supported.
    """
    return Prompt(make_tool(function))


def resource(uri: str, *, media_type: str = "") -> Callable[[Callable[..., Any]], Resource]:
    """Make a resource of a function, sync or async.

    Args:
        uri: The address, such as "config://app", or "notes://{name}" for a function with a parameter `name`.
        media_type: The media type; by default that of the image or file, or the one for text, bytes or JSON.

    Raises:
        DefinitionError: The address has no scheme, or its parameters are not those of the function.
    """
    if not urlsplit(check_type("uri", uri, str)).scheme:
        raise DefinitionError(f"uri={uri!r:.100} is not an address: write it with a scheme, such as 'config://app'.")

    def decorate(function: Callable[..., Any]) -> Resource:
        new = Resource(uri, check_type("media_type", media_type, str), make_tool(function))
        if sorted(new.parameters) != sorted(new.tool.parameters["properties"]):
            raise DefinitionError(
                f"{new.tool.origin}: the address {uri!r} has the parameters {new.parameters}, but the function "
                f"has {[*new.tool.parameters['properties']]}. They must be the same."
            )
        return new

    return decorate


class _Library:
    """The prompts and resources of one server."""

    def __init__(self, prompts: Iterable[object], resources: Iterable[object], deps: Any) -> None:
        self._deps = deps
        self.prompts: Toolbox = Toolbox([_check_kind(each, Prompt, "@prompt").tool for each in prompts])
        self.resources: list[Resource] = [_check_kind(each, Resource, "@resource(uri)") for each in resources]
        addresses = dict[str, Resource]()
        for each in self.resources:
            if addresses.setdefault(_PARAMETER.sub("{}", each.uri), each) is not each:
                raise DefinitionError(f"Two resources have the address {each.uri!r}. Change one of them.")
        for tool in (*self.prompts, *(each.tool for each in self.resources)):
            check_deps(tool, deps, "pass deps= to the server")

    async def list_prompts(self, _: Any, __: Any) -> types.ListPromptsResult:
        """Answer prompts/list."""
        return types.ListPromptsResult(prompts=[_describe_prompt(each) for each in self.prompts])

    async def get_prompt(self, _: Any, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        """Answer prompts/get."""
        found = self.prompts.get(params.name)
        if found is None:
            raise MCPError(types.INVALID_PARAMS, f"There is no prompt {params.name!r:.100}.")
        result = await self._call_tool(found, params.arguments or {})
        messages = [each for message in _list_messages(result.value) for each in _render_message(message)]
        return types.GetPromptResult(description=found.description, messages=messages)

    async def list_resources(self, _: Any, __: Any) -> types.ListResourcesResult:
        """Answer resources/list."""
        plain = [
            types.Resource(uri=each.uri, **_describe_resource(each)) for each in self.resources if not each.parameters
        ]
        return types.ListResourcesResult(resources=plain)

    async def list_templates(self, _: Any, __: Any) -> types.ListResourceTemplatesResult:
        """Answer resources/templates/list."""
        listed = [each for each in self.resources if each.parameters]
        templates = [types.ResourceTemplate(uri_template=each.uri, **_describe_resource(each)) for each in listed]
        return types.ListResourceTemplatesResult(resource_templates=templates)

    async def read_resource(self, _: Any, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        """Answer resources/read."""
        for each in self.resources:
            if (arguments := each.match(params.uri)) is not None:
                result = await self._call_tool(each.tool, arguments)
                return types.ReadResourceResult(contents=[_render_content(params.uri, each.media_type, result.value)])
        raise MCPError(types.INVALID_PARAMS, f"There is no resource {params.uri!r:.300}.")

    async def _call_tool(self, tool: AnyTool, arguments: dict[str, str]) -> ToolResult:
        """Call a function, with its gates."""
        result = await _execute(Toolbox([tool]), tool.name, arguments, ToolContext(deps=self._deps))
        if result.is_error:
            raise MCPError(types.INVALID_PARAMS, result.text)
        return result


def _check_kind(value: object, kind: type[T], decorator: str) -> T:
    if not isinstance(value, kind):
        raise DefinitionError(
            f"{value!r:.100} is not a {kind.__name__.lower()}: decorate the function with {decorator}."
        )
    return value


async def _execute(
    box: Toolbox, name: str, arguments: RawArguments, context: ToolContext[Any], approve: Approver | None = None
) -> ToolResult:
    """Execute a call, with its gates. An exception that would end a run is only logged, and the call fails."""
    try:
        return await box.acall(name, arguments, context, approve=approve)
    except (FatalError, DefinitionError, TypeError) as error:  # such as of a tool that was added later
        logger.error("The served call %s failed.", name, exc_info=error)  # noqa: TRY400  its trace is no surprise
        return ToolResult.from_error(Failed(f"{name} failed."))


def _describe_prompt(tool: AnyTool) -> types.Prompt:
    required = tool.parameters.get("required", ())
    arguments = [
        types.PromptArgument(name=name, description=schema.get("description"), required=name in required)
        for name, schema in tool.parameters["properties"].items()
    ]
    return types.Prompt(name=tool.name, title=tool.title or None, description=tool.description, arguments=arguments)


def _describe_resource(each: Resource) -> dict[str, Any]:
    tool = each.tool
    about = {"name": tool.name, "title": tool.title or None, "description": tool.description}
    return {**about, "mime_type": each.media_type or None}


def _list_messages(value: Any) -> Iterator[Message]:
    for each in value if isinstance(value, (list, tuple)) else (value,):
        if isinstance(each, (UserMessage, ModelResponse)):
            yield each
        elif isinstance(each, (Image, File)):
            yield make_user_message([each])
        else:
            yield UserMessage(write_value(each))


def _render_message(message: Message) -> Iterator[types.PromptMessage]:
    role: Any = "assistant" if isinstance(message, ModelResponse) else "user"
    if message.text:
        yield types.PromptMessage(role=role, content=types.TextContent(text=message.text))
    for image in message.images if isinstance(message, UserMessage) else ():
        content = types.ImageContent(data=encode_base64(image), mime_type=image.media_type)
        yield types.PromptMessage(role=role, content=content)
    for file in message.files if isinstance(message, UserMessage) else ():
        embedded = types.EmbeddedResource.model_validate(render_resource(file))
        yield types.PromptMessage(role=role, content=embedded)


def _render_content(uri: str, media_type: str, value: Any) -> types.TextResourceContents | types.BlobResourceContents:
    if isinstance(value, bytes):
        value = File(value, media_type or "application/octet-stream", "")
    if isinstance(value, (Image, File)):
        data = encode_base64(value)
        return types.BlobResourceContents(uri=uri, mime_type=media_type or value.media_type, blob=data)
    default = "text/plain" if isinstance(value, str) else "application/json"
    return types.TextResourceContents(uri=uri, mime_type=media_type or default, text=write_value(value))
