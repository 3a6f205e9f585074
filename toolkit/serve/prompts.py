"""Prompts and resources of an MCP server: functions whose texts a client's user, or the client itself, asks for.

    @prompt                        @resource("notes://{name}")
    def review(code: str): ...     def note(name: str): ...

A prompt's function returns a text, an image, a file or a message, or a list of these. A resource's returns a text,
bytes, an image or a file, or what is sent as JSON; its address may have parameters in braces, each of which is one part
of a path.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

import mcp_types as types
from mcp import MCPError

from toolkit._context import ToolContext
from toolkit._dialects.base import encode_base64
from toolkit._dialects.mcp import render_resource
from toolkit._execution.approval import Approver
from toolkit._guards.options import check_type
from toolkit._messages import File, Image, Message, ModelResponse, ToolResult, UserMessage
from toolkit._runner.prompt import make_user_message
from toolkit._schema.arguments import RawArguments
from toolkit._toolbox import Toolbox
from toolkit._tools.bindings import AnyTool
from toolkit._tools.decorator import tool
from toolkit._tools.results import write_value
from toolkit._tools.tool import check_deps
from toolkit.errors import DefinitionError, Failed, FatalError, Halt

logger: logging.Logger = logging.getLogger("toolkit")

_PARAMETER = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True, eq=False)
class Prompt:
    """A prompt that a client's user may choose; `prompt` makes it."""

    tool: AnyTool

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        return self.tool(*args, **kwargs)


@dataclass(frozen=True, eq=False)
class Resource:
    """Content that a client may read; `resource` makes it.

    Attributes:
        uri: Its address, with parameters in braces.
        media_type: Its media type; "" where the content says it.
    """

    uri: str
    media_type: str
    tool: AnyTool

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        return self.tool(*args, **kwargs)

    @property
    def parameters(self) -> list[str]:
        """The parameters of the address."""
        return _PARAMETER.findall(self.uri)

    def match(self, uri: str) -> dict[str, str] | None:
        """Return the arguments that an address has; None if it is not of this resource."""
        pattern = "".join(
            f"(?P<{part}>[^/]+)" if number % 2 else re.escape(part)
            for number, part in enumerate(_PARAMETER.split(self.uri))
        )
        found = re.fullmatch(pattern, uri)
        arguments = {name: unquote(value) for name, value in found.groupdict().items()} if found else {}
        is_one_part = not any("/" in value or value in (".", "..") for value in arguments.values())
        return arguments if found and is_one_part else None


def prompt(function: Callable[..., Any]) -> Prompt:
    """Make a prompt of a function: its name, docstring and parameters are the prompt's.

    Raises:
        DefinitionError: It cannot be described.
    """
    return Prompt(tool(function))


def resource(uri: str, *, media_type: str = "") -> Callable[[Callable[..., Any]], Resource]:
    """Make a resource of a function, sync or async.

    Args:
        uri: Its address, such as "config://app", or "notes://{name}" for a function with a parameter `name`.
        media_type: Its media type. By default that of an image or a file, or else the one of text, bytes or JSON.

    Raises:
        DefinitionError: The address has no scheme, or its parameters are not those of the function.
    """
    if not urlsplit(check_type("uri", uri, str)).scheme:
        raise DefinitionError(f"uri={uri!r} is not an address: write it with a scheme, such as 'config://app'.")

    def decorate(function: Callable[..., Any]) -> Resource:
        made = Resource(uri, check_type("media_type", media_type, str), tool(function))
        if sorted(made.parameters) != sorted(made.tool.parameters["properties"]):
            raise DefinitionError(
                f"{made.tool.origin}: the address {uri!r} has the parameters {made.parameters}, and the function "
                f"{[*made.tool.parameters['properties']]}."
            )
        return made

    return decorate


class Library:
    """The prompts and resources of one server.

    Args:
        prompts: Prompts, or functions that `prompt` takes.
        resources: Resources.
        deps: Given to the functions as `ToolContext.deps`.

    Raises:
        DefinitionError: Two prompts have one name, or two resources one address; or something is neither.
        TypeError: One of them takes `deps` of a type, and there are none, or others.
    """

    def __init__(self, prompts: Iterable[object], resources: Iterable[object], deps: Any) -> None:
        self._deps = deps
        self.prompts: Toolbox = Toolbox([*map(_take_prompt, prompts)])
        self.resources: list[Resource] = [*map(_check_resource, resources)]
        places = dict[str, Resource]()
        for each in self.resources:
            if places.setdefault(_PARAMETER.sub("{}", each.uri), each) is not each:
                raise DefinitionError(f"Two resources have the address {each.uri!r}, of which one would be read.")
        for made in (*self.prompts, *(each.tool for each in self.resources)):
            check_deps(made, deps, "pass deps= to the server")

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

    async def _call_tool(self, made: AnyTool, arguments: dict[str, str]) -> ToolResult:
        """Call a function with its gates.

        Raises:
            MCPError: It failed.
        """
        result = await execute(Toolbox([made]), made.name, arguments, ToolContext(deps=self._deps))
        if result.is_error:
            raise MCPError(types.INVALID_PARAMS, result.text or result.error or "")
        return result


def _take_prompt(given: Any) -> Any:
    if isinstance(given, Resource):
        raise DefinitionError(f"{given.tool.origin} is a resource: pass it as resources=.")
    return given.tool if isinstance(given, Prompt) else given


def _check_resource(given: object) -> Resource:
    if not isinstance(given, Resource):
        raise DefinitionError(f"{given!r:.100} is not a resource: decorate its function with @resource(uri).")
    return given


async def execute(
    box: Toolbox, name: str, arguments: RawArguments, context: ToolContext[Any], approve: Approver | None = None
) -> ToolResult:
    """Execute a call with its gates; what would end a run is an error that says nothing of it."""
    try:
        return await box.acall(name, arguments, context, approve=approve)
    except (FatalError, Halt, DefinitionError, TypeError) as error:  # of a tool that was added later, too
        logger.error("The served call %s failed", name, exc_info=error)  # noqa: TRY400  its trace is no surprise
        return ToolResult.from_error(Failed(f"{name} failed."))


def _describe_prompt(made: AnyTool) -> types.Prompt:
    required = made.parameters.get("required", ())
    arguments = [
        types.PromptArgument(name=name, description=schema.get("description"), required=name in required)
        for name, schema in made.parameters["properties"].items()
    ]
    return types.Prompt(name=made.name, title=made.title or None, description=made.description, arguments=arguments)


def _describe_resource(each: Resource) -> dict[str, Any]:
    made = each.tool
    about = {"name": made.name, "title": made.title or None, "description": made.description}
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
        resource = types.EmbeddedResource.model_validate(render_resource(file))
        yield types.PromptMessage(role=role, content=resource)


def _render_content(uri: str, media_type: str, value: Any) -> types.TextResourceContents | types.BlobResourceContents:
    if isinstance(value, bytes):
        value = File(value, media_type or "application/octet-stream", "")
    if isinstance(value, (Image, File)):
        given = media_type or value.media_type
        return types.BlobResourceContents(uri=uri, mime_type=given, blob=encode_base64(value))
    usual = "text/plain" if isinstance(value, str) else "application/json"
    return types.TextResourceContents(uri=uri, mime_type=media_type or usual, text=write_value(value))
