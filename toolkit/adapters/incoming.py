"""Tools of other agent libraries for a Toolbox.

A tool that requires approval in its library requires it here, too. A tool with gates that only an agent of its library
evaluates is refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from pydantic_core import ValidationError
from typing_extensions import Unpack

from toolkit._context import ToolContext
from toolkit._messages import ToolResult
from toolkit._schema.error_messages import ErrorExplainer
from toolkit._tools.options import ToolOptions
from toolkit._tools.tool import Tool, safe_name
from toolkit.errors import DefinitionError, Failed, InvalidArguments
from toolkit.sources.remote import Part, attach_parts, decode_file, join_parts

# The names of the types that smolagents checks.
_TYPES = ("string", "boolean", "integer", "number", "array", "object", "null")


def load_library(module: str, package: str) -> Any:
    """Import a module of a library.

    Raises:
        ImportError: The library is not installed; the message names the package.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if f"{error.name}".partition(".")[0] != module.partition(".")[0]:
            raise
        raise ImportError(f'This adapter needs another package: pip install "{package}".') from error


def from_langchain(tool: Any, **options: Unpack[ToolOptions]) -> Tool[..., Any]:
    """Convert a tool of LangChain. The model reads the message of a ToolException.

    Args:
        tool: A BaseTool; its callbacks and tags stay in effect.
        **options: As for `toolkit.tool`.

    Raises:
        ImportError: langchain-core is not installed.
        DefinitionError: `tool` is not a BaseTool, or its schema cannot be used.
    """
    library = load_library("langchain_core.tools", "langchain-core")
    _check_kind(tool, "BaseTool of LangChain", library.BaseTool)
    schema = tool.tool_call_schema
    schema = schema if isinstance(schema, Mapping) else schema.model_json_schema()

    async def execute(_context: ToolContext, **_arguments: Any) -> Any:
        identity = _context.provider_call_id or _context.call_id or "call"
        call = {"type": "tool_call", "id": identity, "name": tool.name, "args": _arguments}
        try:
            answer = await tool.ainvoke(call)
        except library.ToolException as error:
            raise Failed(str(error)) from error
        except ValidationError as error:
            raise _explain_arguments(error, getattr(tool.args_schema, "__name__", ""), schema) from error

        content = getattr(answer, "content", answer)
        if getattr(answer, "status", "") == "error":
            raise Failed(content if isinstance(content, str) else json.dumps(content))
        return _join_blocks(content)

    return _declare(tool.name, tool.description, schema, execute, options)


def from_openai_agents(tool: Any, **options: Unpack[ToolOptions]) -> Tool[..., Any]:
    """Convert a FunctionTool of openai-agents; `ToolContext.deps` becomes its context.

    A tool that needs approval there needs it here, too. It converts most of its errors to text itself.

    Args:
        tool: The FunctionTool.
        **options: As for `toolkit.tool`.

    Raises:
        ImportError: openai-agents is not installed.
        DefinitionError: `tool` is not a FunctionTool; or it has guardrails or a rule `is_enabled`, which only an agent
            of openai-agents evaluates.
    """
    agents = load_library("agents", "openai-agents")
    _check_kind(tool, "FunctionTool of openai-agents", agents.FunctionTool)
    lost = {
        "tool_input_guardrails": tool.tool_input_guardrails,
        "tool_output_guardrails": tool.tool_output_guardrails,
        "is_enabled": tool.is_enabled is not True,
    }
    _refuse_lost(tool.name, "openai-agents", lost)
    make_context = import_module("agents.tool_context").ToolContext
    models = (agents.ToolOutputText, agents.ToolOutputImage, agents.ToolOutputFileContent)

    async def execute(_context: ToolContext[Any], **_arguments: Any) -> Any:
        text = json.dumps(_arguments)
        identity = _context.provider_call_id or _context.call_id or "call"
        context = make_context(context=_context.deps, tool_name=tool.name, tool_call_id=identity, tool_arguments=text)
        output = await tool.on_invoke_tool(context, text)
        outputs = output if isinstance(output, list) else [output]
        if all(isinstance(part, models) for part in outputs):
            output = [part.model_dump(exclude_none=True) for part in outputs]
        return _join_blocks(output)

    chosen = {"timeout": tool.timeout_seconds, **_require_approval(tool.name, tool.needs_approval, options)}
    return _declare(tool.name, tool.description, tool.params_json_schema, execute, chosen)


def from_pydantic_ai(tool: Any, **options: Unpack[ToolOptions]) -> Tool[..., Any]:
    """Convert a tool of pydantic-ai. The model reads the messages of ModelRetry and ToolFailed.

    A tool that requires approval there requires it here, too.

    Args:
        tool: A `pydantic_ai.Tool` whose function has no parameter for a RunContext.
        **options: As for `toolkit.tool`.

    Raises:
        ImportError: pydantic-ai is not installed.
        DefinitionError: `tool` is not such a Tool; or it needs a RunContext, `prepare` or `args_validator`, which only
            an agent of pydantic-ai provides.
    """
    library = load_library("pydantic_ai", "pydantic-ai-slim")
    _check_kind(tool, "Tool of pydantic-ai", library.Tool)
    lost = {"RunContext": tool.takes_ctx, "prepare": tool.prepare, "args_validator": tool.args_validator}
    _refuse_lost(tool.name, "pydantic-ai", lost)
    inner = tool.function_schema

    async def execute(**_arguments: Any) -> Any:
        try:
            values = inner.validator.validate_python(_arguments)
        except ValidationError as error:
            raise _explain_arguments(error, error.title, inner.json_schema) from error
        try:
            value = await inner.call(values, None)
        except (library.ModelRetry, library.ToolFailed) as error:
            raise Failed(str(error)) from error
        value = value.return_value if isinstance(value, library.ToolReturn) else value
        return [*map(read, value)] if isinstance(value, list) else read(value)

    def read(value: Any) -> Any:
        is_binary = isinstance(value, library.BinaryContent)
        return decode_file(value.data, value.media_type, "file") if is_binary else value

    chosen = {"timeout": tool.timeout, **_require_approval(tool.name, tool.requires_approval, options)}
    return _declare(tool.name, tool.description, inner.json_schema, execute, chosen)


def from_smolagents(tool: Any, **options: Unpack[ToolOptions]) -> Tool[..., Any]:
    """Convert a tool of smolagents. It runs as a sync function.

    Args:
        tool: A `smolagents.Tool`.
        **options: As for `toolkit.tool`.

    Raises:
        ImportError: smolagents is not installed.
        DefinitionError: `tool` is not a Tool of smolagents, or takes an image or audio, which no model can write.
    """
    _check_kind(tool, "Tool of smolagents", load_library("smolagents", "smolagents").Tool)

    def execute(**_arguments: Any) -> Any:
        return tool(**_arguments)

    return _declare(tool.name, tool.description, _read_inputs(tool.name, tool.inputs), execute, options)


def from_anthropic(tool: Any, **options: Unpack[ToolOptions]) -> Tool[..., Any]:
    """Convert a tool for the tool runner of Anthropic's SDK. The model reads the content of a ToolError.

    Args:
        tool: A tool made by `beta_tool` or `beta_async_tool`, or another runnable tool with an `input_schema`.
        **options: As for `toolkit.tool`.

    Raises:
        ImportError: anthropic is not installed.
        DefinitionError: `tool` is not a runnable tool, or Anthropic's API defines it.
    """
    sdk = load_library("anthropic.lib.tools", "anthropic")
    async_kinds = (sdk.BetaAsyncFunctionTool, sdk.BetaAsyncBuiltinFunctionTool)
    kinds = (sdk.BetaFunctionTool, sdk.BetaBuiltinFunctionTool, *async_kinds)
    _check_kind(tool, "runnable tool of Anthropic's SDK", *kinds)
    definition = tool.to_dict()
    if "input_schema" not in definition:
        raise DefinitionError(f"{tool.name}: Anthropic's API defines this tool; other models do not know it.")

    schema = definition["input_schema"]
    title = getattr(getattr(tool, "func", None), "__name__", "")

    def explain(error: Exception) -> Exception:
        if isinstance(error, sdk.ToolError):
            content: Any = getattr(error, "content", "")
            return Failed(content if isinstance(content, str) else join_parts([*map(_read_block, content)]))
        cause = error.__cause__
        return _explain_arguments(cause, title, schema) if isinstance(cause, ValidationError) else error

    def execute(**_arguments: Any) -> Any:
        try:
            return _join_blocks(tool.call(_arguments))
        except Exception as error:
            raise explain(error) from error

    async def aexecute(**_arguments: Any) -> Any:
        try:
            return _join_blocks(await tool.call(_arguments))
        except Exception as error:
            raise explain(error) from error

    chosen = aexecute if isinstance(tool, async_kinds) else execute
    return _declare(definition["name"], definition.get("description", ""), schema, chosen, options)


def _declare(name: str, description: Any, schema: Any, execute: Any, options: Mapping[str, Any]) -> Tool[..., Any]:
    chosen: Any = {key: value for key, value in options.items() if value is not None}
    return Tool.from_schema(safe_name(name), schema, execute, description=description or "", **chosen)


def _check_kind(tool: Any, what: str, *kinds: type) -> None:
    if not isinstance(tool, kinds):
        raise DefinitionError(f"{tool!r:.100} is not a {what}.")


def _refuse_lost(name: str, library: str, lost: Mapping[str, Any]) -> None:
    """Refuse a tool with parts that only an agent of its library evaluates."""
    if found := [part for part, value in lost.items() if value]:
        raise DefinitionError(
            f"{name}: only an agent of {library} evaluates its {' and '.join(found)}. Leave it out, or decorate the "
            f"function itself with toolkit.tool."
        )


def _require_approval(name: str, required: object, options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return options that require approval if the tool does; for a rule of its own, which cannot run here, always."""
    if not required:
        return options
    if options.get("approve") is False:
        raise DefinitionError(f"{name} requires approval: approve=False would waive it. Leave it out.")
    return {**options, "approve": options.get("approve") or True}


def _explain_arguments(error: ValidationError, title: str, schema: Mapping[str, Any]) -> Exception:
    """Return an error that explains a failed validation of arguments to the model. Return any other error unchanged."""
    if error.title != title:
        return error
    return InvalidArguments(ErrorExplainer({"properties": {}, **schema}).explain(error.errors(include_url=False)))


def _join_blocks(content: Any) -> Any:
    """Make a result of blocks of content. Return any other value unchanged."""
    blocks = content if isinstance(content, list) else [content]
    if isinstance(content, str) or not all(isinstance(block, Mapping) and "type" in block for block in blocks):
        return content
    parts = [_read_block(block) for block in blocks]
    return ToolResult(join_parts(parts), text=join_parts(parts), **attach_parts(parts))


def _read_block(block: Mapping[str, Any]) -> Part:
    """Read text, an image or a file. Write anything else, such as an address, as JSON text."""
    if isinstance(block.get("text"), str):
        return str(block["text"])

    inner = block.get("source") or block
    address = inner.get("image_url") or inner.get("file_data") or ""
    address = address.get("url", "") if isinstance(address, Mapping) else address
    if address.startswith("data:"):
        head, _, data = address[len("data:") :].partition(",")
        media_type = head.partition(";")[0]
    else:
        data = inner.get("base64") or inner.get("data")
        media_type = inner.get("mime_type") or inner.get("media_type")

    if not isinstance(data, str) or not media_type:
        return json.dumps(block, default=str)
    return data if inner.get("type") == "text" else decode_file(data, media_type, block.get("filename") or "file")


def _read_inputs(name: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Write inputs of smolagents as a schema."""
    properties = {}
    for key, declared in inputs.items():
        types = [declared["type"]] if isinstance(declared["type"], str) else [*declared["type"]]
        if unknown := {*types} - {*_TYPES, "any"}:
            raise DefinitionError(f"{name}: no model can write {key!r}, which is of type {unknown.pop()!r}.")
        known = [*types, "null"] if declared.get("nullable") else types
        kind = {} if "any" in types else {"type": known[0] if len(known) == 1 else known}
        rest = {part: value for part, value in declared.items() if part not in ("type", "nullable")}
        properties[key] = {**rest, **kind}
    required = [key for key, declared in inputs.items() if not declared.get("nullable")]
    return {"type": "object", "properties": properties, "required": required}
