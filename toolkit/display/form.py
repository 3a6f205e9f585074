"""A tool's parameters as an HTML form, and a browser's post as arguments.

Each parameter has one field, which renders its control as HTML, and parses the text that a browser posts. Lists,
objects and unions are entered as JSON. Every text in the form is escaped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import Any

from pydantic_core import ValidationError

from toolkit._messages import replace_surrogates
from toolkit._schema.error_messages import format_path, outline_json
from toolkit._schema.function_schema import ArgumentSchema
from toolkit._schema.json_schema import as_mapping, is_secret, list_allowed_values, resolve_reference, without_null
from toolkit._schema.json_text import load_typed
from toolkit._tools.tool import Tool
from toolkit.display.formatting import escape_text
from toolkit.errors import InvalidArguments

MAX_LABEL = 200  # characters
MAX_HELP = 2_000
LONG = 200  # characters; a text that may be longer gets several lines
_WIDE = "width:100%;max-width:40rem;box-sizing:border-box"
_LOCAL_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?")
# Formats that have an input of their own in browsers, and its type.
_INPUTS = {"date": "date", "date-time": "datetime-local", "time": "time", "email": "email", "uri": "url"}
_OFF = frozenset({"", "false", "off", "0", "no"})  # sent by programs for an empty checkbox; browsers send nothing

NOTHING: Any = object()  # the value of an empty control: the argument is omitted


class InvalidForm(InvalidArguments):
    """A post that does not fit the tool's parameters.

    Attributes:
        form: The form with the posted values, and the errors beside them.
        errors: Messages by the names of the controls; "" for the form as a whole.
    """

    def __init__(self, form: Form, errors: Mapping[str, str]) -> None:
        super().__init__("; ".join(f"{name}: {text}" if name else text for name, text in errors.items()))
        self.form = form
        self.errors = errors


class Form:
    """A tool's parameters as an HTML form: `str(form)` for a page; notebooks display it.

    Each parameter is posted under its name. A list, an object, or any other value without a control of its own is
    entered as JSON. The output of a latent tool has no control. All texts of the tool, its schema and the values are
    escaped.

    Args:
        tool: The tool with the parameters.
        values: Arguments to fill in; for others their defaults are filled in.
        action: Address to post to; by default that of the page.

    Raises:
        DefinitionError: The tool's signature is not supported.
        TypeError: `tool` is not a tool.

    Examples:
        >>> from toolkit import tool
        >>> @tool
        ... def weather(city: str, days: int = 1) -> str:
        ...     '''Get the weather.'''
        ...     return f"{days} days of sun in {city}"
        >>> form = Form(weather, {"city": "Paris"})
        >>> '<input type="text" value="Paris" name="city" required' in str(form)
        True
        >>> weather.invoke(form.read({"city": "Lima", "days": "2"})).text
        '2 days of sun in Lima'
    """

    def __init__(self, tool: Tool[..., Any], values: Mapping[str, Any] | None = None, *, action: str = "") -> None:
        if not isinstance(tool, Tool):
            raise TypeError(f"Form() takes a tool, not {tool!r:.100}: decorate the function with @tool.")
        self.tool = tool
        self.action = action
        filled_in = values or {}
        self._texts = {each.name: each.format(filled_in.get(each.name, NOTHING)) for each in self._fields}
        self._errors: dict[str, str] = {}

    def read(self, posted: Mapping[str, Any]) -> str:
        """Parse the post of a browser into arguments as JSON text, for `tool.invoke`.

        Args:
            posted: Texts, or lists of texts, by name, as from web frameworks. Names without a control are ignored.

        Raises:
            InvalidForm: The post does not fit; the exception has the errors by control, and the form to show again.
        """
        form = Form(self.tool, action=self.action)
        form._texts = {each.name: _get_text(posted, each.name) for each in self._fields}
        values: dict[str, Any] = {}

        for each in self._fields:
            try:
                values[each.name] = each.parse(form._texts[each.name])
            except ValueError as error:  # noqa: PERF203  all errors are shown
                form._errors[each.name] = str(error)

        arguments = to_json({name: value for name, value in values.items() if value is not NOTHING})
        for name, message in self._find_errors(arguments):
            form._errors.setdefault(name, message)
        if form._errors:
            raise InvalidForm(form, form._errors)
        return arguments

    def __str__(self) -> str:
        attributes = render_attributes({"method": "post", "action": self.action or None})
        button = f'<button type="submit">{escape_text(self.tool.title or self.tool.name, MAX_LABEL)}</button>'
        return f"<form{attributes}>{self._content}{button}</form>"

    def __repr__(self) -> str:
        return f"<Form of {self.tool!r}>"

    def _repr_html_(self) -> str:
        return f"<form>{self._content}</form>"

    @property
    def _content(self) -> str:
        about = self.tool.description
        error = self._errors.get("", "")
        description = f'<p style="white-space:pre-wrap">{escape_text(about, MAX_HELP)}</p>' if about else ""
        alert = f'<p><strong role="alert">{escape_text(error, MAX_HELP)}</strong></p>' if error else ""
        controls = (each.render(self._texts[each.name], self._errors.get(each.name, "")) for each in self._fields)
        return description + alert + "".join(controls)

    @property
    def _schema(self) -> ArgumentSchema:
        return self.tool.handler.interface.argument_schema

    @cached_property
    def _fields(self) -> tuple[Field, ...]:
        return make_fields(self._schema.schema)

    def _find_errors(self, text: str) -> Iterator[tuple[str, str]]:
        """Yield the errors of the tool's own validation, by control."""
        try:
            self._schema.validator(text)
        except ValidationError as error:
            for fault in error.errors(include_url=False, include_context=False, include_input=False):
                yield self._locate_error(fault["loc"], "required" if fault["type"] == "missing" else fault["msg"])
        except Exception as error:  # noqa: BLE001  the user's types may raise anything
            yield "", f"{type(error).__name__}: {error}"

    def _locate_error(self, location: tuple[int | str, ...], message: str) -> tuple[str, str]:
        """Return the control of an error, and the message, with the location inside the control."""
        depth = 1 if location[:1] in {(each.name,) for each in self._fields} else 0
        rest = format_path(location[depth:])
        return "".join(map(str, location[:depth])), f"{rest}: {message}" if rest else message


def _get_text(posted: Mapping[str, Any], name: str) -> str | None:
    """Return the text posted under a name, or the last one of a list, or None if there is none."""
    value = posted.get(name)
    if isinstance(value, (list, tuple)):
        value = value[-1] if value else None
    if value is None:
        return None
    text = value if isinstance(value, str) else to_json(value)
    return text.replace("\r\n", "\n")  # browsers send CRLF


@dataclass(frozen=True, kw_only=True)
class Field:
    """A parameter as a field of a form.

    Attributes:
        label: Visible name, not escaped.
        kind: Its control: "text", "number", "checkbox", "choice", or "json" for a text with JSON.
        schema: Schema of the value, without null.
        outline: A summary of the schema, such as `{"name": string}`, for a text with JSON.
        options: The values to choose from, by their texts.
        is_required: Whether the schema requires a value.
        is_nullable: Whether the value may be null.
    """

    name: str
    label: str
    kind: str
    schema: Mapping[str, Any]
    outline: str
    options: Mapping[str, Any]
    is_required: bool
    is_nullable: bool

    def render(self, text: str | None, error: str) -> str:
        """Render label, control, description and error. An empty checkbox is a value, so it is never required."""
        description = str(self.schema.get("description", ""))
        about = f"<br><small>{escape_text(description, MAX_HELP)}</small>" if description else ""
        alert = f'<br><strong role="alert">{escape_text(error, MAX_HELP)}</strong>' if error else ""
        invalid = {"aria-invalid": "true"} if error else {}
        control = self._render_control(text or "", {"name": self.name, **invalid})
        is_box = self.kind == "checkbox"
        title = render_title(self.label, is_required=self.is_required and not is_box)
        label = f"{control} {title}" if is_box else f"{title}<br>{control}"
        return f'<div style="margin:.6em 0"><label>{label}</label>{about}{alert}</div>'

    def parse(self, text: str | None) -> Any:
        """Parse a posted text, which the tool's own validation checks afterwards.

        An empty control is null if null is allowed, and if leaving out the argument would mean another value. If the
        person has deleted a default text, it is an empty text. Otherwise it is NOTHING.

        Raises:
            ValueError: The text begins as JSON, but is not valid JSON.
        """
        if self.kind == "checkbox":
            return (text or "").strip().lower() not in _OFF
        if self.kind == "text" and text:
            return text
        if text and text.strip():
            return self.options.get(text, text) if self.kind == "choice" else load_typed(text)
        default = self.schema.get("default")
        is_emptied = text is not None and default is not None
        if self.is_nullable and (self.is_required or is_emptied):
            return None
        return "" if self.kind == "text" and is_emptied and default else NOTHING

    def format(self, value: Any) -> str | None:
        """Return the text that a browser would post for a value; NOTHING stands for the default."""
        default = self.schema.get("default")
        own = default if value is NOTHING else value
        if own is None:
            return None
        if self.kind == "choice":
            return next((text for text, option in self.options.items() if to_json(option) == to_json(own)), "")
        if self.kind == "json":  # an empty default would hide the placeholder
            return "" if own in ([], {}) and own == default and not self.is_nullable else to_json(own, indent=2)
        return own if isinstance(own, str) else to_json(own)

    def _render_control(self, text: str, attributes: Mapping[str, Any]) -> str:
        required = {"required": self.is_required and not self.is_nullable}
        match self.kind:
            case "checkbox":
                return render_input({"type": "checkbox", "value": "true", **attributes, "checked": self.parse(text)})
            case "number":
                step = 1 if self.schema.get("type") == "integer" else "any"
                limits = {"step": step, "min": self.schema.get("minimum"), "max": self.schema.get("maximum")}
                return render_input({"type": "number", "value": text, **attributes, **limits, **required})
            case "choice":
                options = (_render_option(option, is_chosen=option == text) for option in ("", *self.options))
                return f"<select{render_attributes({**attributes, **required})}>{''.join(options)}</select>"
            case "json":
                hint = {"placeholder": self.outline or "JSON", "spellcheck": "false"}
                return render_textarea(
                    text, {**attributes, **hint, "style": f"{_WIDE};font-family:monospace", **required}
                )

        return self._render_text(text, {**attributes, **required, "style": _WIDE})

    def _render_text(self, text: str, attributes: Mapping[str, Any]) -> str:
        """Render an input of the type that fits the format, or a text area if the text may be long."""
        limits = {"minlength": self.schema.get("minLength"), "maxlength": self.schema.get("maxLength")}
        kind = "password" if is_secret(self.schema) else _INPUTS.get(str(self.schema.get("format")), "text")
        if kind == "text" and ("\n" in text or (limits["maxlength"] or 0) > LONG):
            return render_textarea(text, {**attributes, **limits})
        is_unsupported = kind == "datetime-local" and text and not _LOCAL_TIME.fullmatch(text)  # such as with an offset
        return render_input({"type": "text" if is_unsupported else kind, "value": text, **attributes, **limits})


_KINDS: Mapping[str, str] = {"string": "text", "integer": "number", "number": "number", "boolean": "checkbox"}
# Keywords that constrain a value beyond its type.
_COMPOSED = frozenset({"anyOf", "oneOf", "allOf", "not", "if", "patternProperties", "prefixItems", "$ref"})


def make_fields(schema: Mapping[str, Any]) -> tuple[Field, ...]:
    """Make a field for each property of a schema."""
    required = schema.get("required", ())
    properties = schema["properties"].items()
    return tuple(_make_field(name, as_mapping(part), schema, is_required=name in required) for name, part in properties)


def _make_field(name: str, schema: Mapping[str, Any], root: Mapping[str, Any], *, is_required: bool) -> Field:
    """Make a field by its schema without references and null. Composed schemas are entered as JSON."""
    whole = resolve_reference(schema, root)
    not_null = without_null(whole)
    is_nullable = not_null is not whole
    bare = whole if not_null is None else _unwrap_single(not_null, root)
    values = _list_options(bare, is_nullable=is_nullable)
    are_texts = all(isinstance(value, str) and value for value in values)
    simple = _KINDS.get(str(bare.get("type"))) if _COMPOSED.isdisjoint(bare) else None
    return Field(
        name=name,
        label=str(bare.get("title") or name.replace("_", " ")),
        kind="choice" if values else simple or "json",
        schema=bare,
        outline=outline_json(bare, root),
        options={value if are_texts else to_json(value): value for value in values},
        is_required=is_required,
        is_nullable=is_nullable,
    )


def _unwrap_single(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Merge a single alternative of `anyOf` or `oneOf` into its schema."""
    ways = schema.get("anyOf", schema.get("oneOf"))
    if not isinstance(ways, list) or len(ways) != 1:
        return schema
    rest = {keyword: value for keyword, value in schema.items() if keyword not in ("anyOf", "oneOf")}
    return {**resolve_reference(as_mapping(ways[0]), root), **rest}


def _list_options(schema: Mapping[str, Any], *, is_nullable: bool) -> list[Any]:
    """List the values of an enumeration, or of a boolean that may be null, without null."""
    if schema.get("type") == "boolean" and is_nullable:
        return [True, False]
    return [value for value in list_allowed_values(schema, []) if value is not None]


def _render_option(text: str, *, is_chosen: bool) -> str:
    attributes = render_attributes({"value": text, "selected": is_chosen and text != ""})
    return f"<option{attributes}>{escape_text(text, MAX_LABEL)}</option>"


def render_textarea(text: str, attributes: Mapping[str, Any]) -> str:
    """Render a text area. It begins with a line break, which browsers drop."""
    return f"<textarea{render_attributes({'rows': 4, **attributes})}>\n{escape(replace_surrogates(text))}</textarea>"


def render_input(attributes: Mapping[str, Any]) -> str:
    """Render an input."""
    return f"<input{render_attributes(attributes)}>"


def render_attributes(attributes: Mapping[str, Any]) -> str:
    """Render attributes: True as the name alone, False and None not at all."""
    present = {key: value for key, value in attributes.items() if value is not None and value is not False}
    return "".join(
        f" {key}" if value is True else f' {key}="{_escape_attribute(value)}"' for key, value in present.items()
    )


def render_title(label: str, *, is_required: bool) -> str:
    """Render a label, with a mark if a value is required."""
    mark = ' <span title="required">*</span>' if is_required else ""
    return f"<b>{escape_text(label, MAX_LABEL)}</b>{mark}"


def to_json(value: Any, indent: int | None = None) -> str:
    """Serialize a value as JSON."""
    return json.dumps(value, ensure_ascii=False, indent=indent, default=str)


def _escape_attribute(value: Any) -> str:
    return escape(replace_surrogates(str(value)))
