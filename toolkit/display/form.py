"""A tool's parameters as an HTML form, and a browser's post as arguments.

Each parameter has one control, which renders itself as HTML and parses what a browser posts for it. Lists, objects and
unions are entered as JSON. Every text in the form is escaped.
"""

from __future__ import annotations

import json
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import Any

from pydantic_core import ValidationError, from_json
from typing_extensions import override

from toolkit._messages import replace_surrogates
from toolkit._schema.error_messages import format_path, outline_json, shorten
from toolkit._schema.function_schema import ArgumentSchema
from toolkit._schema.json_schema import as_mapping, is_secret, resolve_reference, without_null
from toolkit._tools.tool import Tool
from toolkit.display.formatting import escape_text
from toolkit.errors import InvalidArguments

MAX_LABEL = 200  # characters
MAX_HELP = 2_000
LONG = 200  # characters; a text that may be longer gets several lines
_WIDE = "width:100%;max-width:40rem;box-sizing:border-box"
_LOCAL_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?")
# Formats that browsers have controls for, and their names there.
_INPUTS = {"date": "date", "date-time": "datetime-local", "time": "time", "email": "email", "uri": "url"}
_OFF = frozenset({"", "false", "off", "0", "no"})  # sent by programs for an empty checkbox; browsers send nothing

# The value of a control that was left empty.
NOTHING: Any = object()


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
    entered as JSON. Where the model makes a tool's output, that is not among the controls. All texts of the tool, its
    schema and the values are escaped.

    Args:
        tool: The tool with the parameters.
        values: Arguments to fill in; defaults are filled in anyway.
        action: Address to post to; by default that of the page.

    Raises:
        DefinitionError: The tool's signature is not supported.
        TypeError: It is not a tool.

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
        self._texts = {each.name: each.format(filled_in.get(each.name, NOTHING)) for each in self._controls}
        self._errors: dict[str, str] = {}

    def read(self, posted: Mapping[str, Any]) -> str:
        """Parse what a browser posts into arguments as JSON text, for `tool.invoke`.

        Args:
            posted: Texts, or lists of texts, by name, as web frameworks have them. Names without a control are ignored.

        Raises:
            InvalidForm: It does not fit; the exception has the errors by control, and the form to show again.
        """
        form = Form(self.tool, action=self.action)
        values: dict[str, Any] = {}
        for control in self._controls:
            form._texts[control.name] = text = _get_text(posted, control.name)
            try:
                value = control.parse(text)
            except ValueError as error:
                form._errors[control.name] = str(error)
                continue
            values |= {} if value is NOTHING else {control.name: value}
        arguments = to_json(values)
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
        about, error = self.tool.description, self._errors.get("", "")
        description = f'<p style="white-space:pre-wrap">{escape_text(about, MAX_HELP)}</p>' if about else ""
        alert = f'<p><strong role="alert">{escape_text(error, MAX_HELP)}</strong></p>' if error else ""
        controls = (each.render(self._texts[each.name], self._errors.get(each.name, "")) for each in self._controls)
        return description + alert + "".join(controls)

    @property
    def _schema(self) -> ArgumentSchema:
        return self.tool.handler.interface.argument_schema

    @cached_property
    def _controls(self) -> tuple[Control, ...]:
        return make_controls(self._schema.schema)

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
        """Find the control of an error; a deeper location becomes part of the message."""
        depth = 1 if location[:1] in {(each.name,) for each in self._controls} else 0
        rest = format_path(location[depth:])
        return "".join(map(str, location[:depth])), f"{rest}: {message}" if rest else message


def _get_text(posted: Mapping[str, Any], name: str) -> str | None:
    """Return the text posted under a name, the last of a list; None where there is none."""
    value = posted.get(name)
    if isinstance(value, (list, tuple)):
        value = value[-1] if value else None
    if value is None:
        return None
    text = value if isinstance(value, str) else to_json(value)
    return text.replace("\r\n", "\n")  # browsers send CRLF


@dataclass(frozen=True, kw_only=True)
class Control(ABC):
    """A control for one value.

    Attributes:
        label: Visible name, not escaped.
        schema: Schema of the value, without null.
        is_required: Whether the schema requires a value.
        is_nullable: Whether it may be null.
    """

    name: str
    label: str
    schema: Mapping[str, Any]
    is_required: bool
    is_nullable: bool

    def render(self, text: str | None, error: str) -> str:
        """Render label, control, description and error."""
        description = str(self.schema.get("description", ""))
        about = f"<br><small>{escape_text(description, MAX_HELP)}</small>" if description else ""
        alert = f'<br><strong role="alert">{escape_text(error, MAX_HELP)}</strong>' if error else ""
        invalid = {"aria-invalid": "true"} if error else {}
        inner = self.add_label(self._render_control(text or "", {"name": self.name, **invalid}))
        return f'<div style="margin:.6em 0">{inner}{about}{alert}</div>'

    def add_label(self, control: str) -> str:
        """Put the label above the control."""
        return f"<label>{render_title(self.label, is_required=self.is_required)}<br>{control}</label>"

    def parse(self, text: str | None) -> Any:
        """Parse what was posted: nothing is null, if null is allowed and leaving it out would mean something else.

        Raises:
            ValueError: The text cannot be parsed.
        """
        value = self._parse_value(text)
        is_emptied = text is not None and self.schema.get("default") is not None
        is_null = self.is_nullable and (self.is_required or is_emptied)
        return None if value is NOTHING and is_null else value

    def format(self, value: Any) -> str | None:
        """Return the text that a browser would post for a value; for NOTHING that of the default."""
        own = self.schema.get("default") if value is NOTHING else value
        return None if own is None else self._format_value(own)

    @property
    def _required(self) -> Mapping[str, Any]:
        return {"required": self.is_required and not self.is_nullable}

    @abstractmethod
    def _render_control(self, text: str, attributes: Mapping[str, Any]) -> str: ...

    @abstractmethod
    def _parse_value(self, text: str | None) -> Any: ...

    def _format_value(self, value: Any) -> str:
        return value if isinstance(value, str) else to_json(value)


class Text(Control):
    """A line of text, of a kind that browsers know; several lines where it may be long."""

    @override
    def _render_control(self, text: str, attributes: Mapping[str, Any]) -> str:
        limits = {"minlength": self.schema.get("minLength"), "maxlength": self.schema.get("maxLength")}
        attributes = {**attributes, **limits, **self._required, "style": _WIDE}
        kind = "password" if is_secret(self.schema) else _INPUTS.get(str(self.schema.get("format")), "text")
        if kind == "text" and ("\n" in text or (limits["maxlength"] or 0) > LONG):
            return render_textarea(text, attributes)
        is_foreign = kind == "datetime-local" and text and not _LOCAL_TIME.fullmatch(text)
        return render_input({"type": "text" if is_foreign else kind, "value": text, **attributes})

    @override
    def _parse_value(self, text: str | None) -> Any:
        is_emptied = text is not None and self.schema.get("default") and not self.is_nullable
        return text if text or is_emptied else NOTHING


class Number(Control):
    """A number."""

    @override
    def _render_control(self, text: str, attributes: Mapping[str, Any]) -> str:
        step = 1 if self.schema.get("type") == "integer" else "any"
        limits = {"step": step, "min": self.schema.get("minimum"), "max": self.schema.get("maximum")}
        return render_input({"type": "number", "value": text, **attributes, **limits, **self._required})

    @override
    def _parse_value(self, text: str | None) -> Any:
        written = (text or "").strip()
        if not written:
            return NOTHING
        try:
            number = float(written)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise ValueError(f"{shorten(written, MAX_LABEL)!r} is not a number")
        return int(written) if written.lstrip("+-").isdigit() else number


class Check(Control):
    """A truth value."""

    @override
    def add_label(self, control: str) -> str:
        """Put the label behind the box; an empty box is a value, so it is never required."""
        return f"<label>{control} {render_title(self.label, is_required=False)}</label>"

    @override
    def _render_control(self, text: str, attributes: Mapping[str, Any]) -> str:
        return render_input({"type": "checkbox", "value": "true", **attributes, "checked": self._parse_value(text)})

    @override
    def _parse_value(self, text: str | None) -> Any:
        return (text or "").strip().lower() not in _OFF


@dataclass(frozen=True, kw_only=True)
class Choice(Control):
    """One of a few values.

    Attributes:
        options: The values.
    """

    options: Sequence[Any]

    @override
    def _render_control(self, text: str, attributes: Mapping[str, Any]) -> str:
        labels = ((key, value if isinstance(value, str) else key) for key, value in self._options_by_key.items())
        options = "".join(self._render_option(key, str(label), is_chosen=key == text) for key, label in labels)
        attributes = {**attributes, **self._required}
        return f'<select{render_attributes(attributes)}><option value=""></option>{options}</select>'

    @override
    def _parse_value(self, text: str | None) -> Any:
        if not text:
            return NOTHING
        if text not in self._options_by_key:
            raise ValueError(f"{shorten(text, MAX_LABEL)!r} is not one of {', '.join(self._options_by_key)}")
        return self._options_by_key[text]

    @override
    def _format_value(self, value: Any) -> str:
        keys = {to_json(option): key for key, option in self._options_by_key.items()}
        return keys.get(to_json(value), "")

    @property
    def _options_by_key(self) -> Mapping[str, Any]:
        """The options by posted text: themselves, or JSON if they are not all texts."""
        are_texts = all(isinstance(option, str) and option for option in self.options)
        return {option if are_texts else to_json(option): option for option in self.options}

    @staticmethod
    def _render_option(key: str, label: str, *, is_chosen: bool) -> str:
        attributes = render_attributes({"value": key, "selected": is_chosen})
        return f"<option{attributes}>{escape_text(label, MAX_LABEL)}</option>"


@dataclass(frozen=True, kw_only=True)
class Document(Control):
    """Any value, as JSON.

    Attributes:
        outline: The JSON in short, such as `{"name": string}`.
    """

    outline: str

    @override
    def _render_control(self, text: str, attributes: Mapping[str, Any]) -> str:
        hint = {"placeholder": self.outline or "JSON", "spellcheck": "false", "style": f"{_WIDE};font-family:monospace"}
        return render_textarea(text, {**attributes, **hint, **self._required})

    @override
    def _parse_value(self, text: str | None) -> Any:
        written = (text or "").strip()
        if not written:
            return NOTHING
        try:
            return from_json(written, allow_inf_nan=False)
        except ValueError as error:
            raise ValueError(f"this is not valid JSON: {error}") from None

    @override
    def _format_value(self, value: Any) -> str:
        if value in ([], {}) and value == self.schema.get("default") and not self.is_nullable:
            return ""  # which leaves it out; the placeholder says what may be written
        return to_json(value, indent=2)


_KINDS: Mapping[str, type[Control]] = {"string": Text, "integer": Number, "number": Number, "boolean": Check}
# Keywords that constrain a value beyond its type.
_COMPOSED = frozenset({"anyOf", "oneOf", "allOf", "not", "if", "patternProperties", "prefixItems", "$ref"})


def make_controls(schema: Mapping[str, Any]) -> tuple[Control, ...]:
    """Make a control for each property of a schema."""
    required = schema.get("required", ())
    properties = schema["properties"].items()
    return tuple(
        _make_control(name, as_mapping(part), schema, is_required=name in required) for name, part in properties
    )


def _make_control(name: str, schema: Mapping[str, Any], root: Mapping[str, Any], *, is_required: bool) -> Control:
    whole = resolve_reference(schema, root)
    some = without_null(whole)
    bare = whole if some is None else _unwrap_single(some, root)
    common: dict[str, Any] = {
        "name": name,
        "label": str(bare.get("title") or name.replace("_", " ")),
        "schema": bare,
        "is_required": is_required,
        "is_nullable": some is not whole,
    }
    if options := _list_options(bare, is_nullable=some is not whole):
        return Choice(**common, options=options)
    kind = _KINDS.get(str(bare.get("type"))) if _COMPOSED.isdisjoint(bare) else None
    return kind(**common) if kind else Document(**common, outline=outline_json(bare, root))


def _unwrap_single(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Merge a single alternative of `anyOf` or `oneOf` into its schema."""
    ways = schema.get("anyOf", schema.get("oneOf"))
    if not isinstance(ways, list) or len(ways) != 1:
        return schema
    rest = {keyword: value for keyword, value in schema.items() if keyword not in ("anyOf", "oneOf")}
    return {**resolve_reference(as_mapping(ways[0]), root), **rest}


def _list_options(schema: Mapping[str, Any], *, is_nullable: bool) -> list[Any]:
    """List the values of an enumeration, or of a truth value that may also be left open; null is not among them."""
    if schema.get("type") == "boolean" and is_nullable:
        return [True, False]
    values = [schema["const"]] if "const" in schema else schema.get("enum", [])
    return [value for value in values if value is not None]


def render_textarea(text: str, attributes: Mapping[str, Any]) -> str:
    """Render a text of several lines; browsers drop the first line break."""
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
