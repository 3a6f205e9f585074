"""Items that a toolbox can be made of, and the tools of each.

An item is a tool, a function, a source of tools, a Runner that has a name, an object whose decorated methods are tools,
or an object with `name`, `parameters` and `execute`.
"""

from __future__ import annotations

import inspect
import logging
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Protocol, TypeAlias

from typing_extensions import TypeIs

from toolkit._tools.bindings import AnyTool, Tools
from toolkit._tools.decorator import tool as make_tool
from toolkit._tools.decorator import tool_methods
from toolkit._tools.functions import FunctionHandler
from toolkit._tools.tool import Tool, refuse_unbound
from toolkit.errors import DefinitionError

logger = logging.getLogger("toolkit")

# Any object may be an item; one that stands for no tool is refused when it is added.
Addable: TypeAlias = object
# Attributes that a tool written as an object may have, besides name, parameters and execute.
OBJECT_OPTIONS = ("title", "description", "effect", "authorize", "approve")
OTHER_LIBRARIES = "The tools of some other libraries are converted by toolkit.adapters."
# Kinds of tools by parts of their origins, for messages; all others are native.
KINDS = {
    "the MCP server ": "mcp",
    "the A2A agent ": "a2a",
    "the sub-agent ": "sub-agent",
    "the retriever ": "retriever",
    "the memory tool ": "memory",
}


class ToolSource(Protocol):
    """Tools that may change: a toolbox reads the current ones whenever a run starts."""

    def current_tools(self) -> tuple[AnyTool, ...]:
        """Return the current tools, as the same tuple as long as nothing changes."""
        ...


def is_source(item: object) -> TypeIs[ToolSource]:
    """Return whether an item is a source of tools, by its class: some objects have every attribute."""
    return not inspect.isclass(item) and hasattr(type(item), "current_tools")


def list_tools(item: Addable) -> Iterable[AnyTool]:
    """List the tools of an item that is not a source.

    Raises:
        DefinitionError: The item is not a tool, and has no tools.
    """
    if isinstance(item, Tool) or inspect.isroutine(item):
        tool = item if isinstance(item, Tool) else make_tool(item)
        refuse_unbound(tool, "add")
        return [tool]
    if is_source(item):
        raise DefinitionError(f"{item!r:.100} is a source, whose tools may change: pass it to Toolbox.add().")

    owner = item if inspect.isclass(item) else type(item)
    methods = tool_methods(owner)
    if item is owner and (methods or hasattr(item, "current_tools") or _is_written(item)):
        raise DefinitionError(f"The tools of {owner.__qualname__} need an instance: write {owner.__name__}(...).")
    if methods:
        return [tool for name in methods for tool in list_tools(getattr(item, name))]
    if _is_written(item):
        return [_make_written(item)]

    as_tool: Any = getattr(item, "as_tool", None)
    if as_tool and item is not owner and hasattr(item, "toolbox"):  # a Runner; a tool of LangChain has no toolbox
        return [as_tool()]
    if as_tool:
        raise DefinitionError(
            f"{item!r:.100} is not a tool here. {OTHER_LIBRARIES} An agent becomes one by .as_tool(name, description)."
        )
    if not callable(item):
        raise DefinitionError(
            f"{item!r:.100} is not a tool. Pass a function (f, not f()), an object whose methods are decorated with "
            "@tool, or one with name, parameters and execute. Unpack a list or a Toolbox: [*tools]. For a JSON Schema "
            f"write Tool.from_schema(name, schema, function). {OTHER_LIBRARIES}"
        )

    if _takes_anything(item):
        raise DefinitionError(
            f"{item!r:.100} does not say which arguments it takes, only *args or **kwargs: pass the function that it "
            f"calls, such as its .fn or .func. {OTHER_LIBRARIES}"
        )
    return [make_tool(item)]


def _is_written(item: object) -> bool:
    """Return whether an object or a class is written as a tool."""
    return all(hasattr(item, part) for part in ("name", "parameters", "execute"))


def _make_written(item: Any) -> AnyTool:
    """Make a tool from an object that has the attributes of one."""
    for part in ("name", "parameters", "title", "description"):
        if inspect.ismethod(getattr(item, part, None)):
            raise DefinitionError(f"{type(item).__qualname__}.{part} is a method: make it an attribute or a property.")
    options = {option: getattr(item, option) for option in OBJECT_OPTIONS if hasattr(item, option)}
    return Tool.from_schema(item.name, item.parameters, item.execute, **options)


def _takes_anything(item: Callable[..., Any]) -> bool:
    """Return whether a callable object says nothing about its arguments, as tools of LlamaIndex: `*args, **kwargs`."""
    if inspect.isclass(item) or isinstance(item, partial):
        return False
    try:
        parameters = [*inspect.signature(item).parameters.values()]
    except (TypeError, ValueError):  # refused later, with its reason
        return False

    if parameters and parameters[0].kind is inspect.Parameter.VAR_POSITIONAL:  # options after it are the object's own
        parameters = [p for p in parameters if p.default is p.empty]
    return bool(parameters) and all(
        p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
        and (p.annotation is p.empty or str(p.annotation).endswith(("Any", ".args", ".kwargs")))
        for p in parameters
    )


def is_redefined(old: AnyTool | None, new: AnyTool) -> bool:
    """Return whether a tool is the same function, or another version of it: its notebook cell was run again."""
    before = old and old.handler.interface
    after = new.handler.interface
    is_interactive = not hasattr(sys.modules["__main__"], "__file__")
    if not (is_interactive and isinstance(before, FunctionHandler) and isinstance(after, FunctionHandler)):
        return False
    if before.function == after.function:  # methods of two objects are different
        return True
    is_new_version = before.origin == after.origin and before.signature.source is not after.signature.source
    return is_new_version and "<locals>" not in after.origin


def describe_conflict(old: AnyTool, new: AnyTool) -> str:
    """Describe two tools of one name: the kinds and the sources of both."""
    return (
        f'duplicate tool name "{new.name}": {_find_kind(new)} tool conflicts with an existing {_find_kind(old)} tool. '
        f"The new one is {_name_source(new)}, the existing one {_name_source(old)}."
    )


def _find_kind(tool: AnyTool) -> str:
    return next((kind for part, kind in KINDS.items() if part in tool.origin), "native")


def _name_source(tool: AnyTool) -> str:
    interface = tool.handler.interface
    is_function = isinstance(interface, FunctionHandler) and not interface.signature.origin
    return f"the function {tool.origin}" if is_function else tool.origin


def exchange_tools(tools: Tools, old: Sequence[AnyTool], new: Sequence[AnyTool]) -> Tools:
    """Replace the old tools of a source by its new ones in the same places. Tools with new names come last."""
    owned = {*map(id, old)}
    known = {tool.name for tool in old}
    fresh = {tool.name: tool for tool in new}
    current = {
        name: fresh[name] if id(tool) in owned else tool
        for name, tool in tools.items()
        if id(tool) not in owned or name in fresh
    }
    added = {name: tool for name, tool in fresh.items() if name not in known}
    for name in added.keys() & current.keys():
        logger.warning("%s The new one is left out.", describe_conflict(current[name], added[name]))
    return current | {name: tool for name, tool in added.items() if name not in current}
