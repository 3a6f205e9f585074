"""Tools that change nothing: reads run, and the others say that they did not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from toolkit._messages import ToolResult
from toolkit._schema.error_messages import outline_json
from toolkit._schema.function_schema import ArgumentSchema
from toolkit._toolbox import Toolbox
from toolkit._tools.addable import Addable
from toolkit._tools.bindings import AnyTool
from toolkit._tools.functions import Action
from toolkit._tools.handlers import DeclaredHandler, Handler, LatentHandler


def dry_run(tools: Toolbox | Iterable[Addable]) -> Toolbox:
    """Return a toolbox with the same tools, of which only those labelled `effect="read"` run.

    A call of any other tool, unlabelled ones included, passes validation and every gate, and runs nothing. Its value is
    None, and its text says so, with the form of a real result; outputs are not checked. Latent tools, whose output the
    model writes, stay as they are.

    Labels are believed, those of MCP servers too, and a read that changes something does so. Later changes of `tools`,
    and of the sources in it, do not reach the toolbox that is returned.

    Args:
        tools: A toolbox, or what one is made of.

    Raises:
        DefinitionError: One of them cannot be a tool.
    """
    box = tools if isinstance(tools, Toolbox) else Toolbox(tools)
    dry = [_make_dry(tool) for tool in box.snapshot().values()]
    made = Toolbox(dry, strict=box.strict, references=box.references)
    made.bindings.modules = box.bindings.modules
    return made


def _make_dry(tool: AnyTool) -> AnyTool:
    handler = tool.handler
    if tool.settings.effect == "read" or isinstance(handler, LatentHandler):
        return tool
    activity: Any = handler.activity  # None for a function, as the model sees it
    settings = replace(tool.settings, executor=None, isolate=None, undo=None)
    return replace(
        tool, activity=None, handler=_DryHandler(handler.interface, activity, real=handler), settings=settings
    )


@dataclass(frozen=True)
class _DryHandler(DeclaredHandler):
    """Executes nothing.

    Attributes:
        real: The handler that would execute the calls.
    """

    real: Handler = field(kw_only=True)

    @property
    def origin(self) -> str:
        """The origin of the interface; an approver sees it, and an approval of a dry run is for no real call."""
        return f"dry run of {self.real.origin}"

    @cached_property
    def argument_schema(self) -> ArgumentSchema:
        """The schema of its arguments: they are validated as ever."""
        return self.real.argument_schema

    def make_action(self, tool: AnyTool) -> Action:
        """Return a function that says what it did not do."""
        schema = self.interface.returns.schema
        outline = "" if schema is None else outline_json(schema, schema)
        form = f" A real result has the form {outline}." if outline.startswith(("{", "[")) else ""
        text = f"Dry run: {tool.name} was not executed, and nothing has changed.{form}"
        return lambda _, __: ToolResult(None, text=text)
