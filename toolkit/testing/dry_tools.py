"""Toolboxes in which only reads run; the results of the other tools are simulated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic_core import to_json

from toolkit._messages import ToolResult
from toolkit._schema.function_schema import ArgumentSchema, ReturnSchema
from toolkit._schema.json_schema import as_mapping, resolve_reference
from toolkit._toolbox import Toolbox, make_toolbox
from toolkit._tools.addable import Addable
from toolkit._tools.bindings import AnyTool
from toolkit._tools.functions import Action
from toolkit._tools.handlers import DeclaredHandler, Handler, LatentHandler

# Simulated values by the format of a text, or by the type.
_SAMPLES: Mapping[str, Any] = {
    "date": "2030-01-01",
    "date-time": "2030-01-01T12:00:00Z",
    "time": "12:00:00",
    "duration": "PT1H",
    "email": "name@example.com",
    "uri": "https://example.com/",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "string": "text",
    "integer": 1,
    "number": 1.0,
    "boolean": True,
}
MAX_DEPTH = 8


def dry_run(tools: Toolbox | Iterable[Addable]) -> Toolbox:
    """Return a toolbox with the same tools, of which only those labelled `effect="read"` run.

    Calls of all other tools, including tools without a label, pass validation and every gate, but run nothing. Their
    text says so. Their value is simulated from the output schema. It is the same for each call, and None without a
    schema, or if a pattern or a validator refuses it. Latent tools, whose output the model writes, stay as they are.

    Labels are trusted, even those of MCP servers: a tool that is labelled a read runs, even if it changes something.
    Later changes of `tools`, and of the sources in it, do not change the returned toolbox.

    Args:
        tools: A toolbox, or the items for one.

    Raises:
        DefinitionError: One of them cannot be a tool.
    """
    box = make_toolbox(tools)
    dry = [_make_dry(tool) for tool in box.snapshot().values()]
    dry_box = Toolbox(dry, strict=box.strict, references=box.references)
    dry_box.bindings.modules = box.bindings.modules
    return dry_box


def _make_dry(tool: AnyTool) -> AnyTool:
    handler = tool.handler
    if tool.settings.effect == "read" or isinstance(handler, LatentHandler):
        return tool
    activity: Any = handler.activity  # None for a function
    settings = replace(tool.settings, executor=None, isolate=None, undo=None)
    return replace(
        tool, activity=None, handler=_DryHandler(handler.interface, activity, real=handler), settings=settings
    )


@dataclass(frozen=True)
class _DryHandler(DeclaredHandler):
    """Simulates the results of calls, which the handler `real` would execute."""

    real: Handler = field(kw_only=True)

    @property
    def origin(self) -> str:
        """The origin, which an approver sees. It makes an approval of a dry run invalid for a real call."""
        return f"dry run of {self.real.origin}"

    @property
    def argument_schema(self) -> ArgumentSchema:
        """The schema of the arguments, which are validated as usual."""
        return self.real.argument_schema

    def make_action(self, tool: AnyTool) -> Action:
        """Return a function whose result says that the tool was not executed, and has a simulated value."""
        text = f"Dry run: {tool.name} was not executed, and nothing has changed."

        def simulate(_values: object, _context: object) -> ToolResult:
            value, json_text = _simulate(self.interface.returns)
            return ToolResult(value, text=f"{text} Simulated result: {json_text}" if json_text else text)

        return simulate


def _simulate(returns: ReturnSchema) -> tuple[Any, str]:
    """Make a value that fits an output schema, or None if there is none, and its JSON, "" for a string or None."""
    schema = returns.schema
    try:
        sample = None if schema is None else _make_sample(schema, schema, MAX_DEPTH)
        return returns.check(sample), "" if isinstance(sample, (str, type(None))) else to_json(sample).decode()
    except Exception:  # noqa: BLE001  the user's type may raise anything
        return None, ""


def _make_sample(schema: Any, root: Any, depth: int) -> Any:
    """Make a value that a schema describes. Below `depth` levels it is None, which most schemas refuse."""
    part = resolve_reference(as_mapping(schema), root)
    if not depth or "const" in part:
        return part.get("const")
    if known := part.get("examples") or part.get("enum"):
        return known[0]
    if branches := part.get("anyOf") or part.get("oneOf"):
        return _make_sample(branches[0], root, depth - 1)

    kind = part.get("type")
    if kind == "object":
        members = part.get("properties", {})
        required = part.get("required", ())
        return {name: _make_sample(each, root, depth - 1) for name, each in members.items() if name in required}
    if kind == "array":
        items = part.get("prefixItems") or ([part["items"]] if part.get("items") else [])
        return [_make_sample(each, root, depth - 1) for each in items]
    value = _SAMPLES.get(part.get("format", ""), _SAMPLES.get(str(kind)))
    return max(value, part.get("minimum", value)) if kind in ("integer", "number") else value
