"""Commands about the tools themselves: call, list, schema, check, lock."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from toolkit import Tool, Toolbox, ToolContext, ToolError, ToolResult
from toolkit._messages import CHARACTERS_PER_TOKEN
from toolkit._schema.error_messages import summarize_signature
from toolkit._tools.definitions import check_lock
from toolkit.approvers import approve_all
from toolkit.cli.arguments import WHOLE, make_command
from toolkit.cli.options import (
    HELP,
    AllFunctions,
    Called,
    Command,
    Dialect,
    LockFile,
    Name,
    Target,
    UpdateLock,
    fail,
    print_output,
    quote_words,
)
from toolkit.cli.targets import ask_if_required, get_deps, get_tool, load

LOCK = Path("tools.lock.json")


def call(context: typer.Context, file: Target, tool: Called = None, *, all_functions: AllFunctions = False) -> None:
    """Call one tool; its parameters are options.

    For example: toolkit call tools.py add --a 1 --b 2. Its options: toolkit call tools.py add --help.
    If the tool requires approval, you are asked; --yes approves the call.
    """
    if file in HELP:
        print(context.get_help())
        raise typer.Exit

    _, toolbox = load(file, all_functions=all_functions)
    if tool is None or tool in HELP:
        _print_list(toolbox)
        raise typer.Exit(2 if tool is None else 0)
    if tool.startswith("-"):
        raise typer.BadParameter(f"write its name before its options: {' or '.join(toolbox.names)}", param_hint="TOOL")

    chosen = get_tool(toolbox, tool)
    deps = get_deps(file, [chosen])
    if context.args and not (value := context.args[0]).startswith("-"):
        raise typer.BadParameter(_explain_value(chosen, value), param_hint=quote_words(value))

    def print_result(arguments: str, is_approved: bool) -> None:  # noqa: FBT001  the command passes it
        approver = approve_all if is_approved else ask_if_required
        result = toolbox.call(chosen.name, arguments, ToolContext(deps=deps), approve=approver)
        if result.is_error:
            fail(_describe_error(chosen.name, result))
        print_output(result.text)

    command = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    command.command(cls=Command, context_settings={"help_option_names": HELP})(make_command(chosen, print_result))
    command(context.args, prog_name=f"toolkit call {file} {tool}")


def list_tools(
    file: Target,
    *,
    all_functions: AllFunctions = False,
    sizes: Annotated[bool, typer.Option("--sizes", help="Print how much each tool adds to a request.")] = False,
) -> None:
    """List the tools of a file."""
    _, toolbox = load(file, all_functions=all_functions)
    if not sizes:
        _print_list(toolbox)
        return
    rows = toolbox.sizes()
    rows = {**rows, "in all": sum(rows.values())}
    width = max(map(len, rows))
    for name, size in rows.items():
        print(f"{name:<{width}}  {size:>9,} bytes  about {size // CHARACTERS_PER_TOKEN:>7,} tokens")


def schema(
    file: Target,
    tool: Name = None,
    *,
    all_functions: AllFunctions = False,
    dialect: Dialect = "chat",
    strict: Annotated[bool, typer.Option(help="Write the schemas for the provider's strict mode.")] = False,
) -> None:
    """Print the schemas that a provider receives."""
    _, toolbox = load(file, all_functions=all_functions)
    if tool is not None:
        chosen = get_tool(toolbox, tool)
        toolbox = toolbox.filtered(lambda each: each is chosen)
    print(json.dumps(toolbox.schemas(dialect, strict=strict or None), indent=2, ensure_ascii=False))


def check(file: Target, *, all_functions: AllFunctions = False, dialect: Dialect = "chat") -> None:
    """Report problems that a model or a provider may have.

    The exit code is 1 with errors or warnings.
    """
    _, toolbox = load(file, all_functions=all_functions)
    report = toolbox.check(dialect)
    print(report)
    if report.at_least("warning"):
        raise typer.Exit(1)


def lock(
    file: Target,
    *,
    all_functions: AllFunctions = False,
    path: LockFile = LOCK,
    update: UpdateLock = False,
) -> None:
    """Compare the tools with their definitions in a file.

    The exit code is 1 if they differ, or there is no such file.
    """
    _, box = load(file, all_functions=all_functions)
    options = " --all" if all_functions else ""
    if path != LOCK:
        options += f" --lock {path}"
    try:
        check_lock(path, box, update=update, remedy=f"toolkit lock {file}{options} --update")
    except OSError as error:
        fail(f"{path} cannot be used: {error.strerror}. Name another file with --lock.")
    count = "1 tool" if len(box) == 1 else f"{len(box)} tools"
    print(f"{path}: {count} {'written' if update else 'as before'}")


def _explain_value(tool: Tool[..., Any], value: str) -> str:
    """Explain how a value without an option is written: as that of the first parameter, or of the one that it names."""
    names = [*tool.parameters["properties"]]
    name, _, rest = value.partition("=")
    if value.startswith("{"):
        name = WHOLE
        rest = value
    elif not names:
        return f"{tool.name} takes no arguments"
    elif name not in names:
        name = names[0]
        rest = value
    return f"write it as an option: --{name.replace('_', '-')} {quote_words(rest)}"


def _describe_error(name: str, result: ToolResult) -> str | None:
    """Describe an error for the author of the tool, who may also read the message of an exception."""
    if result.kind != "failed" or isinstance(result.exception, ToolError):
        return result.text
    return f"{name} raised {type(result.exception).__name__}: {result.exception}"


def _render_head(tool: Tool[..., Any]) -> str:
    """Render the name and signature of a tool, by its schema if it has no function."""
    signature = tool._signature
    return summarize_signature(tool.name, tool.parameters) if signature == "(...)" else f"{tool.name}{signature}"


def _print_list(toolbox: Toolbox) -> None:
    for tool in toolbox:
        effect = f"  [{tool.settings.effect}]" if tool.settings.effect else ""
        print(f"{_render_head(tool)}{effect}")
        if tool.description:
            print(f"    {' '.join(tool.description.partition(chr(10) * 2)[0].split())}")
