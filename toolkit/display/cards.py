"""Tools, toolboxes, runners and results of calls as HTML for notebooks."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from toolkit._messages import Image, ToolResult, make_plain
from toolkit._schema.json_schema import as_mapping
from toolkit._schema.python_stubs import StubWriter
from toolkit._tools.tool import Tool
from toolkit.display.formatting import escape_text
from toolkit.display.markup import (
    MAX_ANSWER,
    MAX_CELL,
    MAX_NAME,
    format_count,
    format_value,
    render_attachments,
    render_card,
    render_cells,
    render_code,
    render_dim,
    render_error,
    render_folded,
    render_json,
    render_pill,
    render_table,
    render_text,
)
from toolkit.display.notebook import make_waiting_row, render_row
from toolkit.errors import DefinitionError
from toolkit.events import PendingApproval

# Keywords of a parameter's schema that are displayed beside its type.
_LIMITS = frozenset(
    {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "pattern", "format"}
    | {"minLength", "maxLength", "minItems", "maxItems", "uniqueItems"}
)


def render_tool(tool: Tool[..., Any]) -> str:
    """Render a tool: signature, effect and other marks, description, parameters and origin."""
    try:
        schema, output = tool.parameters, tool.output_schema
    except DefinitionError as error:
        signature = f"{tool.name}(...)"
        parts = render_error(str(error))
    else:
        signature = _format_signature(tool.name, schema, output)
        parts = _render_parameters(schema) + render_folded("JSON Schema", render_code(format_value(schema), MAX_ANSWER))
    head = f'<div class="h">{render_code(signature)}{render_dim(tool.title or "")}{_render_marks(tool)}</div>'
    source = render_dim(f"Source: {tool.origin}", tag="div")
    return render_card(head, render_text(tool.description, MAX_CELL), parts, source)


def render_toolbox(tools: Iterable[Tool[..., Any]]) -> str:
    """Render a toolbox: a table of its tools."""
    return render_card(_render_tools(list(tools)))


def render_runner(model: str | None, instructions: str, tools: Iterable[Tool[..., Any]], limits: Any) -> str:
    """Render a runner: its model, instructions, limits that differ from their defaults, and tools."""
    listed = list(tools)
    values = {each.name: getattr(limits, each.name) for each in fields(limits)}
    displayed = [
        f"{each.name} = {values[each.name]}"
        for each in fields(limits)
        if values[each.name] and (each.name == "max_turns" or values[each.name] != each.default)
    ]
    name = render_code(model, MAX_CELL) if model else render_dim("a model that the first run chooses")
    head = f'<div class="h"><b>Runner</b>{name}{render_dim(" · ".join(displayed))}</div>'
    return render_card(head, render_text(instructions, MAX_CELL), _render_tools(listed))


def render_pending(approval: PendingApproval, size: int = MAX_CELL) -> str:
    """Render a call that waits for approval, with texts of at most `size` characters."""
    return render_card(render_row(make_waiting_row(approval), size))


def render_decided(approval: PendingApproval, decision: str, reason: str) -> str:
    """Render a call that no longer waits for approval: the decision, and the reason for it."""
    row = replace(make_waiting_row(approval), state=decision, text=reason)
    return render_card(render_row(row, sys.maxsize))  # in full: it is the record of what was decided on


def render_picture(image: Image) -> str:
    """Render an image."""
    return render_card(render_attachments([image], ()))


def _format_signature(name: str, schema: Mapping[str, Any], output: Any) -> str:
    """Write name, parameters and return type. The types of the parameters are in the table."""
    names = (
        f"{each}={part['default']!r}" if "default" in as_mapping(part) else each
        for each, part in schema["properties"].items()
    )
    returns = "" if output is None else f" -> {StubWriter().write_type(output, output, 'Result')}"
    return f"{name}({', '.join(names)}){returns}"


def _render_marks(tool: Tool[..., Any]) -> str:
    """Render the effect of a tool, and the options that matter to its callers."""
    settings = tool.settings
    marks: list[str] = []
    if settings.effect:
        marks.append(render_pill(settings.effect))
    if settings.trust:
        marks.append(render_pill(f"trust: {settings.trust}", "wait"))
    if settings.approve:
        marks.append(render_pill("needs approval", "wait"))
    if settings.timeout is not None:
        marks.append(render_pill(f"timeout {settings.timeout:g} s", ""))
    if settings.retries:
        marks.append(render_pill(format_count(settings.retries, "retry", "retries"), ""))
    if tool.is_async:
        marks.append(render_pill("async", ""))
    return " ".join(marks)


def _render_tools(tools: Sequence[Tool[..., Any]]) -> str:
    if not tools:
        return render_dim("No tools.", tag="div")
    return render_cells(("Tool", "Parameters", "Description"), map(_render_tool_cells, tools))


def _render_tool_cells(tool: Tool[..., Any]) -> Iterator[str]:
    title = render_dim(tool.title or "", tag="div")
    marks = _render_marks(tool)
    yield f'{render_code(tool.name, MAX_NAME)}{title}<div class="h">{marks}</div>'

    try:
        schema = tool.parameters
    except DefinitionError as error:
        yield render_error(str(error))
    else:
        required = schema.get("required", ())
        names = (name if name in required else f"{name}?" for name in schema["properties"])
        yield escape_text(", ".join(names), MAX_CELL)

    yield escape_text(tool.description.partition("\n\n")[0], MAX_CELL)


def _render_parameters(schema: Mapping[str, Any]) -> str:
    if not schema["properties"]:
        return render_dim("No parameters.", tag="div")
    rows = (_render_parameter_cells(name, as_mapping(part), schema) for name, part in schema["properties"].items())
    return render_cells(("Parameter", "Type", "Description"), rows)


def _render_parameter_cells(name: str, part: Mapping[str, Any], schema: Mapping[str, Any]) -> Iterator[str]:
    kind = StubWriter().write_type(part, schema, name.title())
    default = f" = {part['default']!r}" if "default" in part else ""
    limits = ", ".join(f"{word} {value}" for word, value in part.items() if word in _LIMITS)
    is_optional = not default and name not in schema.get("required", ())
    yield render_code(name, MAX_NAME) + render_dim("optional" if is_optional else "", tag="div")
    yield render_code(kind + default) + render_dim(limits, tag="div")
    yield escape_text(str(part.get("description", "")), MAX_CELL)


def render_tool_result(result: ToolResult) -> str:
    """Render a result: its error, its value as a table or its text, and its images and files."""
    error = render_error(result.error or "", result.kind or "error")
    repairs = render_dim(f"Repaired: {', '.join(result.repairs)}" if result.repairs else "", tag="div")
    attachments = render_attachments(result.images, result.files)
    text = result.text if result.text is not None else format_value(make_plain(result.value))
    is_error_alone = result.is_error and result.value is None  # the text repeats the error
    body = render_table(result.value) or ("" if is_error_alone else render_json(text, MAX_ANSWER))
    return render_card(error, body, attachments, repairs)
