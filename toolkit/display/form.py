"""A tool's parameters as an HTML form, and a browser's post as arguments.

A JSON Schema becomes a group of controls; each control renders itself as HTML and parses what a browser posts for it.
Every text in the form is escaped.
"""

from __future__ import annotations

import json
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from html import escape
from typing import Any, Literal, Protocol, TypeAlias

from pydantic_core import ValidationError, from_json
from typing_extensions import override

from toolkit._dialects.strict.scope import without_null
from toolkit._messages import replace_surrogates
from toolkit._schema.argument_schema import ArgumentSchema
from toolkit._schema.error_messages import format_path
from toolkit._schema.matching import as_mapping, resolve_reference
from toolkit._tools.tool import Tool
from toolkit.display.formatting import escape_controls, shorten
from toolkit.errors import InvalidArguments

MAX_LABEL = 200  # characters
MAX_HELP = 2_000


def render_textarea(text: str, attributes: Mapping[str, Any]) -> str:
    """Render a text of several lines; browsers drop the first line break."""
    return f"<textarea{render_attributes({'rows': 4, **attributes})}>\n{escape(replace_surrogates(text))}</textarea>"


def render_tag(name: str, attributes: Mapping[str, Any]) -> str:
    """Render an element without content."""
    return f"<{name}{render_attributes(attributes)}>"


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


def escape_text(text: str, size: int) -> str:
    """Cut a text, and escape markup and control characters."""
    return escape(escape_controls(shorten(text, size)))


def to_json(value: Any, indent: int | None = None) -> str:
    """Serialize a value as JSON."""
    return json.dumps(value, ensure_ascii=False, indent=indent, default=str)


def _escape_attribute(value: Any) -> str:
    return escape(replace_surrogates(str(value)))


LONG = 200  # characters; a text that may be longer gets several lines
_WIDE = "width:100%;max-width:40em;box-sizing:border-box"
_LOCAL_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?")
_NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")
_WHOLE = re.compile(r"[-+]?[0-9]{1,300}")
# Formats that browsers have controls for, and their names there.
_INPUTS = {"date": "date", "date-time": "datetime-local", "time": "time", "email": "email", "uri": "url"}
_OFF = frozenset({"", "false", "off", "0", "no"})  # sent by programs for an empty checkbox; browsers send nothing

Texts: TypeAlias = Sequence[str]


class Nothing(Enum):
    """Type of the marker for a value that was left out."""

    NOTHING = "nothing"


NOTHING: Literal[Nothing.NOTHING] = Nothing.NOTHING


@dataclass(frozen=True)
class Entries:
    """The texts in a form and its errors, by the names of controls."""

    texts: Mapping[str, Texts]
    errors: dict[str, str] = field(default_factory=dict)


class Part(Protocol):
    """A control, or a group of them."""

    @property
    def name(self) -> str:
        """Name that its value is posted under."""
        ...

    def render(self, entries: Entries) -> str:
        """Render it as HTML."""
        ...

    def read(self, entries: Entries) -> Any:
        """Parse its value, or NOTHING; what cannot be parsed is added to the errors."""
        ...

    def format_entries(self, value: Any) -> Iterator[tuple[str, Texts]]:
        """Yield the names and texts that a browser would post for a value, or for NOTHING."""
        ...


@dataclass(frozen=True, kw_only=True)
class Control(ABC):
    """A control for one value.

    Attributes:
        label: Visible name, not escaped.
        schema: Schema of the value, without null.
        is_required: Whether the schema requires a value.
        is_insisted: Whether the browser should require it; not so inside an object that may be left out.
        is_nullable: Whether it may be null.
    """

    name: str
    label: str
    schema: Mapping[str, Any]
    is_required: bool
    is_insisted: bool
    is_nullable: bool

    def render(self, entries: Entries) -> str:
        """Render label, control, description and error."""
        description = str(self.schema.get("description", ""))
        about = f"<br><small>{escape_text(description, MAX_HELP)}</small>" if description else ""
        error = entries.errors.get(self.name, "")
        alert = f'<br><strong role="alert">{escape_text(error, MAX_HELP)}</strong>' if error else ""
        invalid = {"aria-invalid": "true"} if error else {}
        inner = self.add_label(self._render_control(entries.texts.get(self.name, ()), {"name": self.name, **invalid}))
        return f'<div style="margin:.6em 0">{inner}{about}{alert}</div>'

    def add_label(self, control: str) -> str:
        """Put the label above the control."""
        return f"<label>{render_title(self.label, is_required=self.is_required)}<br>{control}</label>"

    def read(self, entries: Entries) -> Any:
        """Parse the value; an empty one is null if null is allowed and leaving it out would mean something else."""
        texts = entries.texts.get(self.name, ())
        try:
            value = self._parse_value(texts)
        except ValueError as error:
            entries.errors[self.name] = str(error)
            return NOTHING
        is_null = self.is_nullable and (self.is_required or (texts and self.schema.get("default") is not None))
        return None if value is NOTHING and is_null else value

    def format_entries(self, value: Any) -> Iterator[tuple[str, Texts]]:
        """Yield the text of the value, or of its default."""
        own = self.schema.get("default", NOTHING) if value is NOTHING else value
        yield self.name, () if own is NOTHING or own is None else self._format_value(own)

    @property
    def _required(self) -> Mapping[str, Any]:
        return {"required": self.is_insisted and not self.is_nullable}

    @abstractmethod
    def _render_control(self, texts: Texts, attributes: Mapping[str, Any]) -> str: ...

    @abstractmethod
    def _parse_value(self, texts: Texts) -> Any: ...

    def _format_value(self, value: Any) -> Texts:
        return (value if isinstance(value, str) else to_json(value),)


class Text(Control):
    """A line of text, of a kind that browsers know; several lines where it may be long."""

    @override
    def _render_control(self, texts: Texts, attributes: Mapping[str, Any]) -> str:
        text = "".join(texts[:1])
        limits = {"minlength": self.schema.get("minLength"), "maxlength": self.schema.get("maxLength")}
        attributes = {**attributes, **limits, **self._required, "style": _WIDE}
        if "\n" in text or (limits["maxlength"] or 0) > LONG:
            return render_textarea(text, attributes)
        kind = "password" if self.schema.get("writeOnly") else _INPUTS.get(str(self.schema.get("format")), "text")
        is_foreign = kind == "datetime-local" and text and not _LOCAL_TIME.fullmatch(text)
        return render_tag("input", {"type": "text" if is_foreign else kind, "value": text, **attributes})

    @override
    def _parse_value(self, texts: Texts) -> Any:
        text = "".join(texts[:1])
        is_emptied = texts and self.schema.get("default") and not self.is_nullable
        return text if text or is_emptied else NOTHING


class Number(Control):
    """A number."""

    @override
    def _render_control(self, texts: Texts, attributes: Mapping[str, Any]) -> str:
        step = 1 if self.schema.get("type") == "integer" else 0
        limits = {"step": step or "any", "min": self._bound("Minimum", step), "max": self._bound("Maximum", -step)}
        return render_tag(
            "input", {"type": "number", "value": "".join(texts[:1]), **attributes, **limits, **self._required}
        )

    @override
    def _parse_value(self, texts: Texts) -> Any:
        text = "".join(texts[:1]).strip()
        if not text:
            return NOTHING
        number = float(text) if _NUMBER.fullmatch(text) else math.nan
        if not math.isfinite(number):
            raise ValueError(f"{shorten(text, MAX_LABEL)!r} is not a number")
        return int(text) if _WHOLE.fullmatch(text) else number

    def _bound(self, end: str, step: int) -> Any:
        """Return the last allowed number: browsers have no exclusive bounds."""
        beyond, own = self.schema.get(f"exclusive{end}"), self.schema.get(end.lower())
        bounds = [bound for bound in (own, None if beyond is None else beyond + step) if bound is not None]
        return (max if end == "Minimum" else min)(bounds, default=None)


class Check(Control):
    """A truth value."""

    @override
    def add_label(self, control: str) -> str:
        """Put the label behind the box; an empty box is a value, so it is never required."""
        return f"<label>{control} {render_title(self.label, is_required=False)}</label>"

    @override
    def _render_control(self, texts: Texts, attributes: Mapping[str, Any]) -> str:
        return render_tag(
            "input", {"type": "checkbox", "value": "true", **attributes, "checked": self._parse_value(texts)}
        )

    @override
    def _parse_value(self, texts: Texts) -> Any:
        return any(text.strip().lower() not in _OFF for text in texts)


@dataclass(frozen=True, kw_only=True)
class Choice(Control):
    """One of a few values.

    Attributes:
        options: The values.
        takes_many: Whether the value is a list of them.
    """

    options: Sequence[Any]
    takes_many: bool = False

    @override
    def _render_control(self, texts: Texts, attributes: Mapping[str, Any]) -> str:
        blank = "" if self.takes_many else '<option value=""></option>'
        labels = ((key, value if isinstance(value, str) else key) for key, value in self._options_by_key.items())
        options = "".join(self._render_option(key, str(label), is_chosen=key in texts) for key, label in labels)
        many = {"multiple": True, "size": min(len(self.options), 8)} if self.takes_many else self._required
        return f"<select{render_attributes({**attributes, **many})}>{blank}{options}</select>"

    @override
    def _parse_value(self, texts: Texts) -> Any:
        chosen = [text for text in texts if text]
        unknown = next((text for text in chosen if text not in self._options_by_key), None)
        if unknown is not None:
            raise ValueError(f"{shorten(unknown, MAX_LABEL)!r} is none of {', '.join(self._options_by_key)}")
        values = [self._options_by_key[text] for text in chosen]
        if self.takes_many:
            return values if values or self.is_required or self.schema.get("default") else NOTHING
        return values[0] if values else NOTHING

    @override
    def _format_value(self, value: Any) -> Texts:
        wanted = value if self.takes_many and isinstance(value, list) else [value]
        texts = {to_json(option): key for key, option in self._options_by_key.items()}
        return [texts[each] for each in map(to_json, wanted) if each in texts]

    @property
    def _options_by_key(self) -> Mapping[str, Any]:
        """The options by posted text: themselves, or JSON if they are not all texts."""
        are_texts = all(isinstance(option, str) and option for option in self.options)
        return {option if are_texts else to_json(option): option for option in self.options}

    @staticmethod
    def _render_option(key: str, label: str, *, is_chosen: bool) -> str:
        attributes = render_attributes({"value": key, "selected": is_chosen})
        return f"<option{attributes}>{escape_text(label, MAX_LABEL)}</option>"


class Document(Control):
    """Any value, as JSON."""

    @override
    def _render_control(self, texts: Texts, attributes: Mapping[str, Any]) -> str:
        hint = {"placeholder": "JSON", "spellcheck": "false", "style": f"{_WIDE};font-family:monospace"}
        return render_textarea("".join(texts[:1]), {**attributes, **hint, **self._required})

    @override
    def _parse_value(self, texts: Texts) -> Any:
        text = "".join(texts[:1]).strip()
        if not text:
            return NOTHING
        try:
            return from_json(text, allow_inf_nan=False)
        except ValueError as error:
            raise ValueError(f"this is not valid JSON: {error}") from None

    @override
    def _format_value(self, value: Any) -> Texts:
        return (to_json(value, indent=2),)


# A deeper object is entered as JSON; a schema may contain itself.
MAX_DEPTH = 4
_KINDS: Mapping[Any, type[Control]] = {"string": Text, "integer": Number, "number": Number, "boolean": Check}
# Keywords that constrain a value beyond its type.
_COMPOSED = frozenset({"anyOf", "oneOf", "allOf", "not", "if", "patternProperties", "prefixItems", "$ref"})


@dataclass(frozen=True, kw_only=True)
class Group:
    """An object: its members in a frame."""

    name: str
    label: str
    schema: Mapping[str, Any]
    is_required: bool
    is_nullable: bool
    parts: tuple[Part, ...]

    @property
    def descendants(self) -> Iterator[Part]:
        """All parts, those of inner groups included."""
        for part in self.parts:
            yield part
            yield from part.descendants if isinstance(part, Group) else ()

    def render(self, entries: Entries) -> str:
        """Render the frame and its parts."""
        description, error = str(self.schema.get("description", "")), entries.errors.get(self.name, "")
        about = f"<small>{escape_text(description, MAX_HELP)}</small>" if description else ""
        alert = f'<br><strong role="alert">{escape_text(error, MAX_HELP)}</strong>' if error else ""
        legend = f"<legend>{render_title(self.label, is_required=self.is_required)}</legend>"
        return f'<fieldset style="margin:.6em 0">{legend}{about}{alert}{self.render_parts(entries)}</fieldset>'

    def render_parts(self, entries: Entries) -> str:
        """Render the parts without the frame."""
        return "".join(part.render(entries) for part in self.parts)

    def read(self, entries: Entries) -> Any:
        """Parse the object; if nothing was entered, it is left out or null, where that is allowed."""
        if self._is_untouched(entries) and (self.is_nullable or not self.is_required):
            return None if self.is_required else NOTHING
        values = {_get_key(part): part.read(entries) for part in self.parts}
        return {key: value for key, value in values.items() if value is not NOTHING}

    def format_entries(self, value: Any) -> Iterator[tuple[str, Texts]]:
        """Yield the texts of its members, or of those of its default."""
        known = as_mapping(self.schema.get("default") if value is NOTHING else value)
        for part in self.parts:
            yield from part.format_entries(known.get(_get_key(part), NOTHING))

    def _is_untouched(self, entries: Entries) -> bool:
        """Decide whether it contains nothing but defaults."""
        own = ((entries.texts.get(name, ()), texts) for name, texts in self.format_entries(NOTHING))
        return all([text for text in current if text] in ([], [*texts]) for current, texts in own)


@dataclass(frozen=True)
class _Place:
    """The place of a part: root schema, path, whether it is required, and whether all groups around it are."""

    root: Mapping[str, Any]
    path: tuple[str, ...] = ()
    is_required: bool = True
    is_insisted: bool = True

    def below(self, key: str, *, is_required: bool) -> _Place:
        """Return the place of a member."""
        return _Place(self.root, (*self.path, key), is_required, self.is_insisted and is_required)


def make_group(schema: Mapping[str, Any]) -> Group:
    """Make the controls for an object."""
    return _make_group(schema, _Place(schema), "", is_nullable=False)


def join_path(path: tuple[str | int, ...]) -> str:
    """Join a path to the name that a control posts under."""
    return ".".join(str(step).replace("~", "~0").replace(".", "~1") for step in path)


def _get_key(part: Part) -> str:
    return part.name.rpartition(".")[2].replace("~1", ".").replace("~0", "~")


def _make_group(schema: Mapping[str, Any], place: _Place, label: str, *, is_nullable: bool) -> Group:
    required, members = schema.get("required", ()), schema["properties"].items()
    here = replace(place, is_insisted=place.is_insisted and not is_nullable)
    return Group(
        name=join_path(place.path),
        label=label,
        schema=schema,
        is_required=place.is_required,
        is_nullable=is_nullable,
        parts=tuple(
            _make_part(as_mapping(part), here.below(key, is_required=key in required)) for key, part in members
        ),
    )


def _make_part(schema: Mapping[str, Any], place: _Place) -> Part:
    whole = resolve_reference(schema, place.root)
    some = without_null(whole)
    bare = whole if some is None else _unwrap_single(some, place.root)
    label = str(bare.get("title") or place.path[-1].replace("_", " "))
    is_nullable = some is not whole
    if _is_group(bare) and len(place.path) <= MAX_DEPTH:
        return _make_group(bare, place, label, is_nullable=is_nullable)
    kind, more = _choose_control(bare, place.root, is_nullable=is_nullable)
    flags = {"is_required": place.is_required, "is_insisted": place.is_insisted, "is_nullable": is_nullable}
    return kind(name=join_path(place.path), label=label, schema=bare, **flags, **more)


def _unwrap_single(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Merge a single alternative of `anyOf` or `oneOf` into its schema."""
    ways = schema.get("anyOf", schema.get("oneOf"))
    if not isinstance(ways, list) or len(ways) != 1:
        return schema
    rest = {keyword: value for keyword, value in schema.items() if keyword not in ("anyOf", "oneOf")}
    return {**resolve_reference(as_mapping(ways[0]), root), **rest}


def _is_group(schema: Mapping[str, Any]) -> bool:
    is_closed = not schema.get("additionalProperties") and _COMPOSED.isdisjoint(schema)
    return schema.get("type") == "object" and bool(schema.get("properties")) and is_closed


def _choose_control(
    schema: Mapping[str, Any], root: Mapping[str, Any], *, is_nullable: bool
) -> tuple[type[Control], dict[str, Any]]:
    """Choose the control for a schema, and its further arguments."""
    if options := _list_options(schema):
        return Choice, {"options": options}
    if not _COMPOSED.isdisjoint(schema) or not isinstance(schema.get("type"), str):
        return Document, {}
    if schema["type"] == "array" and (
        options := _list_options(resolve_reference(as_mapping(schema.get("items")), root))
    ):
        return Choice, {"options": options, "takes_many": True}
    if schema["type"] == "boolean" and is_nullable:
        return Choice, {"options": [True, False]}
    return _KINDS.get(schema["type"], Document), {}


def _list_options(schema: Mapping[str, Any]) -> list[Any]:
    """List the values of an enumeration, without null."""
    values = [schema["const"]] if "const" in schema else schema.get("enum", [])
    return [value for value in values if value is not None]


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

    Values in objects are posted under dotted names, `place.city`; a value without a fitting control is entered as JSON.
    Where the model makes a tool's output, that is not among the controls. All texts of the tool, its schema and the
    values are escaped.

    Args:
        tool: The tool with the parameters.
        values: Arguments to fill in; defaults are filled in anyway.
        action: Address to post to; by default that of the page.

    Raises:
        DefinitionError: The tool's signature is not supported.

    Example:
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
        self.tool, self.action = tool, action
        self._entries = Entries(dict(self._group.format_entries(values or {})))

    def read(self, posted: Mapping[str, Any]) -> str:
        """Parse what a browser posts into arguments as JSON text, for `tool.invoke`.

        Args:
            posted: Texts, or lists of texts, by name, as web frameworks have them. Names without a control are ignored.

        Raises:
            InvalidForm: It does not fit; the exception has the errors by control, and the form to show again.
        """
        entries = Entries({part.name: _get_texts(posted, part.name) for part in self._group.descendants})
        text = to_json(self._group.read(entries))
        for name, message in self._find_errors(text):
            entries.errors.setdefault(name, message)
        if entries.errors:
            raise InvalidForm(self._make_form(entries), entries.errors)
        return text

    def __str__(self) -> str:
        attributes = render_attributes({"method": "post", "action": self.action or None})
        button = f'<button type="submit">{escape_text(self.tool.title or self.tool.name, MAX_LABEL)}</button>'
        return f"<form{attributes}>{self._content}{button}</form>"

    def _repr_html_(self) -> str:
        return f"<form>{self._content}</form>"

    @property
    def _content(self) -> str:
        about, error = self.tool.description, self._entries.errors.get("", "")
        description = f'<p style="white-space:pre-wrap">{escape_text(about, MAX_HELP)}</p>' if about else ""
        alert = f'<p><strong role="alert">{escape_text(error, MAX_HELP)}</strong></p>' if error else ""
        return description + alert + self._group.render_parts(self._entries)

    @property
    def _schema(self) -> ArgumentSchema:
        return self.tool.handler.interface.argument_schema

    @cached_property
    def _group(self) -> Group:
        return make_group(self._schema.schema)

    def _make_form(self, entries: Entries) -> Form:
        form = Form(self.tool, action=self.action)
        form._entries = entries
        return form

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
        names = {part.name for part in self._group.descendants}
        depth = next((size for size in range(len(location), 0, -1) if join_path(location[:size]) in names), 0)
        rest = format_path(location[depth:])
        return join_path(location[:depth]), f"{rest}: {message}" if rest else message


def _get_texts(posted: Any, name: str) -> Texts:
    """Return the texts posted under a name: a text, a list, or the result of a framework's `getlist`."""
    value = posted.getlist(name) if hasattr(posted, "getlist") else posted.get(name, NOTHING)
    many = value if isinstance(value, (list, tuple)) else [] if value is NOTHING else [value]
    texts = (each if isinstance(each, str) else to_json(each) for each in many)
    return [text.replace("\r\n", "\n") for text in texts]  # browsers send CRLF
