"""A command whose options are the parameters of a tool."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from inspect import Parameter, Signature
from types import GenericAlias
from typing import Annotated, Any, Literal, get_origin

import typer

from toolkit import Tool
from toolkit._schema.error_messages import outline_json
from toolkit._schema.json_schema import as_mapping, resolve_reference
from toolkit._schema.json_text import load_if_json, load_typed

# The Python types of options, by JSON Schema's types.
TYPES: Mapping[str, type] = {"string": str, "integer": int, "number": float, "boolean": bool}
# The option that takes all arguments, and the one that approves the call.
WHOLE = "arguments"
YES = "yes"


def make_command(tool: Tool[..., Any], run: Callable[[str, bool], None]) -> Callable[..., None]:
    """Make a function for Typer with an option for each parameter of a tool.

    Texts, numbers, booleans, enumerations and lists of them are options of these types. Other parameters are options
    that take JSON, or a text that does not begin as JSON. Missing options are left to the tool's defaults; the tool
    itself validates all values. `--arguments` takes a JSON object of all arguments. `--yes` approves the call; a tool
    with `approve=False` has no such option. A parameter with one of these names replaces that option.

    `run` gets the arguments as JSON text, and whether the call is approved.
    """
    schema = tool.parameters
    properties: Mapping[str, Any] = schema["properties"]
    options = {f"option_{number}": name for number, name in enumerate(properties)}  # names need not be identifiers
    types = {name: _find_type(properties[name], schema) for name in properties}

    def command(**values: Any) -> None:
        is_approved = bool(values.pop(YES, False))
        arguments = _parse(values.pop(WHOLE, None) or "{}", WHOLE)
        if not isinstance(arguments, dict):
            raise typer.BadParameter("it is not a JSON object", param_hint=f"--{WHOLE}")

        for option, value in values.items():
            name = options[option]
            items = map(load_if_json, map(str, value)) if isinstance(value, list) else ()
            if any(isinstance(item, list) for item in items):  # the tool would take the text for an item
                remedy = f"repeat the option for each item, or write --{WHOLE} JSON"
                raise typer.BadParameter(f"it is a list: {remedy}", param_hint=f"--{name.replace('_', '-')}")
            if value is not None and value != []:
                arguments[name] = _parse(str(value), name) if types[name] is None else value

        run(json.dumps(arguments), is_approved)

    required = schema.get("required", ())
    parameters = [
        _make_option(option, name, types[name], _describe(properties[name], types[name], schema, name in required))
        for option, name in options.items()
    ]
    if WHOLE not in properties:
        parameters.append(_make_option(WHOLE, WHOLE, None, "All arguments; single options replace its members."))
    if YES not in properties and tool.settings.approve is not False:
        option = Annotated[bool, typer.Option(f"--{YES}", "-y", help="Approve the call.", show_default=False)]
        parameters.append(Parameter(YES, Parameter.KEYWORD_ONLY, default=False, annotation=option))
    vars(command)["__signature__"] = Signature(parameters)
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    command.__doc__ = tool.description
    return command


def _find_type(schema: Any, root: Mapping[str, Any]) -> Any:
    """Return the Python type of an option, or None if it takes JSON."""
    schema = resolve_reference(schema, root) if isinstance(schema, Mapping) else {}
    choices = [part for part in schema.get("anyOf", ()) if part != {"type": "null"}]
    if len(choices) == 1:
        return _find_type(choices[0], root)

    values = schema.get("enum", ())
    if values and all(isinstance(value, str) for value in values):
        return Literal[tuple(values)]
    if schema.get("type") == "array":
        item = _find_type(schema.get("items"), root)
        item = str if get_origin(item) is Literal else item  # Typer has no lists of choices
        return None if item is None or get_origin(item) is list else GenericAlias(list, item)
    return TYPES.get(str(schema.get("type")))


def _describe(schema: Any, kind: Any, root: Mapping[str, Any], is_required: bool) -> str:  # noqa: FBT001
    schema = as_mapping(schema)
    parts = [schema.get("description", "")]
    if get_origin(kind) is list:
        parts.append("[once per item]")
    elif kind is None:
        parts.append(outline_json(schema, root))
    if "format" in schema:
        parts.append(f"[format {schema['format']}]")
    if is_required:
        parts.append("[required]")
    elif "default" in schema:
        parts.append(f"[default: {json.dumps(schema['default'])}]")
    return " ".join(filter(None, parts))


def _make_option(option: str, name: str, kind: Any, text: str) -> Parameter:
    flag = f"--{name.replace('_', '-')}"
    names = f"{flag}/--no-{flag[2:]}" if kind is bool else flag
    information = typer.Option(names, help=text, metavar="JSON" if kind is None else None, show_default=False)
    annotation: Any = Annotated[(kind or str) | None, information]
    return Parameter(option, Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _parse(text: str, name: str) -> Any:
    try:
        return load_typed(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=f"--{name.replace('_', '-')}") from None
