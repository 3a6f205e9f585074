"""Tools of a Toolbox for other agent libraries.

A call passes the gates of its tool; a call that requires approval is refused without an approver. The gates, middleware
and limits of a Runner do not apply. The model reads the text of a result, as in a run.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from toolkit._context import ToolContext
from toolkit._dialects.base import data_url, encode_base64
from toolkit._dialects.catalog import DIALECTS
from toolkit._execution.approval import Approver
from toolkit._execution.truncation import MAX_RESULT, truncate
from toolkit._messages import ToolCall, ToolResult, make_plain
from toolkit._schema.arguments import RawArguments
from toolkit._schema.json_text import to_json_text
from toolkit._toolbox import Toolbox, make_toolbox
from toolkit._tools.addable import Addable
from toolkit._tools.bindings import AnyTool
from toolkit._tools.tool import CONTEXT_REMEDY, check_deps
from toolkit.adapters.incoming import load_library
from toolkit.errors import DefinitionError, Failed, FatalError

logger: logging.Logger = logging.getLogger("toolkit")

Tools = Toolbox | Iterable[Addable]
HIDDEN = (FatalError, DefinitionError)  # exceptions that end a run, whose messages are not for a model


def to_langchain(
    tools: Tools, *, context: ToolContext[Any] | None = None, approve: Approver | None = None
) -> list[Any]:
    """Convert tools for LangChain and LangGraph. A failed call raises a ToolException, which they convert to text.

    Args:
        tools: A Toolbox, or the items of one.
        context: The value of parameters annotated ToolContext.
        approve: As for `Toolbox.call`. Without it a call whose tool requires approval is refused.

    Raises:
        ImportError: The library is not installed.
        DefinitionError: An item cannot be a tool.
        TypeError: A tool needs deps, and `context` has none.
    """
    base = load_library("langchain_core.tools", "langchain-core")
    bridge = _Bridge(make_toolbox(tools), "mcp", context, approve)

    def make(tool: AnyTool) -> Any:
        def run(_: Any, /, **arguments: Any) -> Any:
            return convert(bridge.call(tool.name, arguments))

        async def arun(_: Any, /, **arguments: Any) -> Any:
            return convert(await bridge.acall(tool.name, arguments))

        def convert(result: ToolResult) -> Any:
            if result.is_error:
                raise base.ToolException(result.text)
            images = [{"type": "image", "base64": encode_base64(i), "mime_type": i.media_type} for i in result.images]
            files = [
                {"type": "file", "base64": encode_base64(f), "mime_type": f.media_type, "filename": f.name}
                for f in result.files
            ]
            return [{"type": "text", "text": result.text}, *images, *files] if images or files else result.text

        # Not a StructuredTool, which cannot have parameters `config` and `run_manager`.
        members = {"_run": run, "_arun": arun, "__module__": __name__}
        kind: Any = type("ToolkitTool", (base.BaseTool,), members)
        schema = {"title": tool.name, **bridge.schema(tool)}
        return kind(name=tool.name, description=tool.description, args_schema=schema, handle_tool_error=True)

    return bridge.make_all(make)


def to_openai_agents(
    tools: Tools, *, context: ToolContext[Any] | None = None, approve: Approver | None = None
) -> list[Any]:
    """Convert tools for openai-agents, with schemas that are not strict. The output of a failed call is its text.

    Arguments and errors are those of `to_langchain`.
    """
    agents = load_library("agents", "openai-agents")
    bridge = _Bridge(make_toolbox(tools), "responses", context, approve)

    def make(tool: AnyTool) -> Any:
        async def invoke(_: Any, arguments: str) -> Any:
            result = await bridge.acall(tool.name, arguments)
            images = [agents.ToolOutputImage(image_url=data_url(image)) for image in result.images]
            files = [agents.ToolOutputFileContent(file_data=data_url(f), filename=f.name) for f in result.files]
            if not images and not files:
                return result.text
            return [agents.ToolOutputText(text=result.text), *images, *files]

        return agents.FunctionTool(
            name=tool.name,
            description=tool.description,
            params_json_schema=bridge.schema(tool),
            on_invoke_tool=invoke,
            strict_json_schema=False,
        )

    return bridge.make_all(make)


def to_pydantic_ai(
    tools: Tools, *, context: ToolContext[Any] | None = None, approve: Approver | None = None
) -> list[Any]:
    """Convert tools for pydantic-ai. A failed call raises a ToolFailed, whose text the model reads.

    Arguments and errors are those of `to_langchain`.
    """
    pydantic_ai = load_library("pydantic_ai", "pydantic-ai-slim")
    bridge = _Bridge(make_toolbox(tools), "mcp", context, approve)

    def make(tool: AnyTool) -> Any:
        async def call(**arguments: Any) -> Any:
            result = await bridge.acall(tool.name, arguments)
            if result.is_error:
                raise pydantic_ai.ToolFailed(f"{result.text}")
            parts: list[Any] = [*result.images, *result.files]
            binary = [pydantic_ai.BinaryContent(part.data, media_type=part.media_type) for part in parts]
            return [result.text, *binary] if binary else result.text

        return pydantic_ai.Tool.from_schema(call, tool.name, tool.description, bridge.schema(tool))

    return bridge.make_all(make)


def to_smolagents(
    tools: Tools, *, context: ToolContext[Any] | None = None, approve: Approver | None = None
) -> list[Any]:
    """Convert tools for smolagents; they return values as plain data, for agents that write Python.

    Arguments and errors are those of `to_langchain`. A tool whose name is not an identifier of Python is refused, too.
    """
    base = load_library("smolagents", "smolagents").Tool
    bridge = _Bridge(make_toolbox(tools), "mcp", context, approve, HIDDEN)

    def make(tool: AnyTool) -> Any:
        def forward(_: Any, /, *values: Any, **arguments: Any) -> Any:
            if len(values) > len(inputs):
                raise TypeError(f"{tool.name} takes at most {len(inputs)} arguments.")
            result = bridge.call(tool.name, {**dict(zip(inputs, values)), **arguments})
            if result.is_error:
                raise Failed(f"{result.text}")
            has_value = result.value is not None and not result.images and not result.files
            return make_plain(result.value) if has_value else result.text

        inputs = _describe_inputs(bridge.schema(tool))
        if not tool.name.isidentifier():
            raise DefinitionError(
                f"Tool {tool.name!r}: smolagents needs an identifier of Python as its name; see Tool.with_name()."
            )
        members = {
            "name": tool.name,
            "description": tool.description,
            "inputs": inputs,
            "output_type": "any",
            "skip_forward_signature_validation": True,
            "forward": forward,
        }
        return type("ToolkitTool", (base,), members)()

    return bridge.make_all(make)


def to_anthropic(
    tools: Tools, *, is_async: bool = False, context: ToolContext[Any] | None = None, approve: Approver | None = None
) -> list[Any]:
    """Convert tools for the tool runner of Anthropic's SDK. A failed call raises a ToolError.

    Arguments and errors are those of `to_langchain`; with `is_async` the tools are for `AsyncAnthropic`.
    """
    sdk = load_library("anthropic.lib.tools", "anthropic")
    bridge = _Bridge(make_toolbox(tools), "anthropic", context, approve, HIDDEN)

    def make(tool: AnyTool) -> Any:
        def call(_: Any, arguments: Any) -> Any:
            return convert(bridge.call(tool.name, arguments))

        async def acall(_: Any, arguments: Any) -> Any:
            return convert(await bridge.acall(tool.name, arguments))

        def convert(result: ToolResult) -> Any:
            (message,) = DIALECTS["anthropic"]().render_results([(ToolCall(name=tool.name), result)])
            block = message["content"][0]
            if result.is_error:
                raise sdk.ToolError(block["content"])
            return block.get("content", "")

        definition = _copy(DIALECTS["anthropic"]().render_tool(tool._spec))
        base = sdk.BetaAsyncBuiltinFunctionTool if is_async else sdk.BetaBuiltinFunctionTool
        return type("ToolkitTool", (base,), {"to_dict": lambda _: definition, "call": acall if is_async else call})()

    return bridge.make_all(make)


@dataclass(frozen=True)
class _Bridge:
    """Calls of a toolbox's tools by another library."""

    box: Toolbox
    dialect: str  # the wire format of schemas and arguments
    context: ToolContext[Any] | None
    approve: Approver | None
    hidden: tuple[type[Exception], ...] = ()  # logged instead of raised, since the library would show them to its model

    def make_all(self, make: Callable[[AnyTool], Any]) -> list[Any]:
        """Convert each tool of the toolbox by `make`."""
        tools = [*self.box.snapshot().values()]
        for tool in tools:
            check_deps(tool, self.context.deps if self.context else None, CONTEXT_REMEDY)
        return [*map(make, tools)]

    def schema(self, tool: AnyTool) -> dict[str, Any]:
        return _copy(DIALECTS[self.dialect]().form(tool._spec).schema)

    def call(self, name: str, arguments: RawArguments) -> ToolResult:
        try:
            results = self.box.call_many([self._read(name, arguments)], self.context, approve=self.approve)
        except self.hidden as error:
            return _hide(name, error)
        return self._truncate(name, results[0])

    async def acall(self, name: str, arguments: RawArguments) -> ToolResult:
        try:
            results = await self.box.acall_many([self._read(name, arguments)], self.context, approve=self.approve)
        except self.hidden as error:
            return _hide(name, error)
        return self._truncate(name, results[0])

    def _read(self, name: str, arguments: RawArguments) -> ToolCall:
        tool = self.box.get(name)
        call = ToolCall(name=name, arguments=to_json_text(arguments))
        return DIALECTS[self.dialect]().decode_calls([call], [tool._spec] if tool else [])[0]

    def _truncate(self, name: str, result: ToolResult) -> ToolResult:
        tool = self.box.get(name)
        return truncate(result, (tool and tool.settings.max_result) or MAX_RESULT)


def _copy(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Copy a schema, since another library may change it."""
    copy: dict[str, Any] = json.loads(json.dumps(schema))
    return copy


def _hide(name: str, error: Exception) -> ToolResult:
    logger.error("The call %s failed.", name, exc_info=error)
    return ToolResult.from_error(Failed(f"{name} failed."))


def _describe_inputs(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Write a schema as inputs of smolagents, each with one or several types and a description."""
    definitions = schema.get("$defs", {})
    required = schema.get("required", ())

    def describe(name: str, part: Mapping[str, Any]) -> dict[str, Any]:
        whole = json.dumps({**part, "$defs": definitions} if '"$ref"' in json.dumps(part) else part)
        is_plain = part.keys() <= {"type", "description", "enum", "default"}
        description = part.get("description", "")
        text = description if is_plain else f"{description} JSON Schema: {whole}".strip()
        values = {"enum": part["enum"]} if "enum" in part else {}
        nullable = {} if name in required else {"nullable": True}
        return {"type": _read_type(part), "description": text, **values, **nullable}

    return {name: describe(name, part) for name, part in schema["properties"].items()}


def _read_type(schema: Mapping[str, Any]) -> str | list[str]:
    """Return the types that a schema or its `anyOf` names, or "any" if a branch has no type."""
    types: list[str] = []
    for branch in schema.get("anyOf", [schema]):
        named = branch.get("type", "any")
        types += [named] if isinstance(named, str) else named
    if "any" in types:
        return "any"
    if len(types) == 1:
        return types[0]
    if "number" in types:
        types = [*types, "integer"]  # in a list, smolagents tells the two apart
    return list(dict.fromkeys(types))
