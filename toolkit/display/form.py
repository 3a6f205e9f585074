"""What a tool takes as an HTML form, and what a browser posts as arguments: the tool's interface for people.

Elements of HTML, and texts that are no markup in them.

The controls of a form: each draws itself as HTML, and reads what a browser posts of it.

A JSON Schema of an object -> the controls of a form.
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
from toolkit.display.formatting import shortened, visible
from toolkit.errors import InvalidArguments

MAX_LABEL = 200  # characters
MAX_HELP = 2_000


def textarea(text: str, attributes: Mapping[str, Any]) -> str:
    """Write a text of several lines; browsers drop the first line break."""
    return f"<textarea{written_attributes({'rows': 4, **attributes})}>\n{escape(replace_surrogates(text))}</textarea>"


def tag(name: str, attributes: Mapping[str, Any]) -> str:
    """Write an element that has no content."""
    return f"<{name}{written_attributes(attributes)}>"


def written_attributes(attributes: Mapping[str, Any]) -> str:
    """Write attributes: those that are true by their name alone, those that are false or None not at all."""
    given = {key: value for key, value in attributes.items() if value is not None and value is not False}
    return "".join(f" {key}" if value is True else f' {key}="{_quoted(value)}"' for key, value in given.items())


def title(label: str, *, is_required: bool) -> str:
    """Write a label, with a mark where there has to be a value."""
    mark = ' <span title="required">*</span>' if is_required else ""
    return f"<b>{safe(label, MAX_LABEL)}</b>{mark}"


def safe(text: str, size: int) -> str:
    """Write a text so that it is no markup, and moves nothing."""
    return escape(visible(shortened(text, size)))


def written(value: Any, indent: int | None = None) -> str:
    """Write a value as JSON."""
    return json.dumps(value, ensure_ascii=False, indent=indent, default=str)


def _quoted(value: Any) -> str:
    return escape(replace_surrogates(str(value)))


LONG = 200  # characters; a longer text gets several lines
_WIDE = "width:100%;max-width:40em;box-sizing:border-box"
_LOCAL_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?")
_NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")
_WHOLE = re.compile(r"[-+]?[0-9]{1,300}")
# What browsers call the formats that they have controls for.
_INPUTS = {"date": "date", "date-time": "datetime-local", "time": "time", "email": "email", "uri": "url"}
_OFF = frozenset({"", "false", "off", "0", "no"})  # what programs send for an empty checkbox; browsers send nothing

Texts: TypeAlias = Sequence[str]


class Nothing(Enum):
    """What stands for a value that was left out."""

    NOTHING = "nothing"


NOTHING: Literal[Nothing.NOTHING] = Nothing.NOTHING


@dataclass(frozen=True)
class Entries:
    """What stands in a form: texts and errors, by the names of controls."""

    texts: Mapping[str, Texts]
    errors: dict[str, str] = field(default_factory=dict)


class Part(Protocol):
    """A control, or a group of them."""

    @property
    def name(self) -> str:
        """What its value is posted as."""
        ...

    def draw(self, entries: Entries) -> str:
        """Write it as HTML."""
        ...

    def read(self, entries: Entries) -> Any:
        """Read its value, or NOTHING; what cannot be read is an error in the entries."""
        ...

    def enter(self, value: Any) -> Iterator[tuple[str, Texts]]:
        """Write a value, or NOTHING, as a browser would post it."""
        ...


@dataclass(frozen=True, kw_only=True)
class Control(ABC):
    """One value.

    Attributes:
        label: What people read; the text is not escaped.
        schema: What the value is, apart from null.
        is_required: Whether it has to be there.
        is_insisted: Whether the browser is to insist on it: not inside an object that may be left out.
        is_nullable: Whether it may be null.
    """

    name: str
    label: str
    schema: Mapping[str, Any]
    is_required: bool
    is_insisted: bool
    is_nullable: bool

    def draw(self, entries: Entries) -> str:
        """Write label, control, description and error."""
        said = str(self.schema.get("description", ""))
        about = f"<br><small>{safe(said, MAX_HELP)}</small>" if said else ""
        error = entries.errors.get(self.name, "")
        told = f'<br><strong role="alert">{safe(error, MAX_HELP)}</strong>' if error else ""
        wrong = {"aria-invalid": "true"} if error else {}
        inner = self.labelled(self._drawn(entries.texts.get(self.name, ()), {"name": self.name, **wrong}))
        return f'<div style="margin:.6em 0">{inner}{about}{told}</div>'

    def labelled(self, drawn: str) -> str:
        """Put the label to the control."""
        return f"<label>{title(self.label, is_required=self.is_required)}<br>{drawn}</label>"

    def read(self, entries: Entries) -> Any:
        """Read the value; an empty control is null where that may be, and to leave it out would mean something else."""
        texts = entries.texts.get(self.name, ())
        try:
            value = self._value(texts)
        except ValueError as error:
            entries.errors[self.name] = str(error)
            return NOTHING
        is_null = self.is_nullable and (self.is_required or (texts and self.schema.get("default") is not None))
        return None if value is NOTHING and is_null else value

    def enter(self, value: Any) -> Iterator[tuple[str, Texts]]:
        """Write the value; its default, where there is none."""
        own = self.schema.get("default", NOTHING) if value is NOTHING else value
        yield self.name, () if own is NOTHING or own is None else self._texts(own)

    @property
    def _insists(self) -> Mapping[str, Any]:
        return {"required": self.is_insisted and not self.is_nullable}

    @abstractmethod
    def _drawn(self, texts: Texts, attributes: Mapping[str, Any]) -> str: ...

    @abstractmethod
    def _value(self, texts: Texts) -> Any: ...

    def _texts(self, value: Any) -> Texts:
        return (value if isinstance(value, str) else written(value),)


class Text(Control):
    """A line of text, of a kind that browsers know; several lines where it may be long."""

    @override
    def _drawn(self, texts: Texts, attributes: Mapping[str, Any]) -> str:
        text = "".join(texts[:1])
        limits = {"minlength": self.schema.get("minLength"), "maxlength": self.schema.get("maxLength")}
        given = {**attributes, **limits, **self._insists, "style": _WIDE}
        if "\n" in text or (limits["maxlength"] or 0) > LONG:
            return textarea(text, given)
        kind = "password" if self.schema.get("writeOnly") else _INPUTS.get(str(self.schema.get("format")), "text")
        is_foreign = kind == "datetime-local" and text and not _LOCAL_TIME.fullmatch(text)
        return tag("input", {"type": "text" if is_foreign else kind, "value": text, **given})

    @override
    def _value(self, texts: Texts) -> Any:
        text = "".join(texts[:1])
        is_emptied = texts and self.schema.get("default") and not self.is_nullable
        return text if text or is_emptied else NOTHING


class Number(Control):
    """A number."""

    @override
    def _drawn(self, texts: Texts, attributes: Mapping[str, Any]) -> str:
        step = 1 if self.schema.get("type") == "integer" else 0
        limits = {"step": step or "any", "min": self._bound("Minimum", step), "max": self._bound("Maximum", -step)}
        return tag("input", {"type": "number", "value": "".join(texts[:1]), **attributes, **limits, **self._insists})

    @override
    def _value(self, texts: Texts) -> Any:
        text = "".join(texts[:1]).strip()
        if not text:
            return NOTHING
        number = float(text) if _NUMBER.fullmatch(text) else math.nan
        if not math.isfinite(number):
            raise ValueError(f"{shortened(text, MAX_LABEL)!r} is no number")
        return int(text) if _WHOLE.fullmatch(text) else number

    def _bound(self, end: str, step: int) -> Any:
        """Find the last number that browsers are to let through: they know no bound that is not itself allowed."""
        beyond, own = self.schema.get(f"exclusive{end}"), self.schema.get(end.lower())
        bounds = [bound for bound in (own, None if beyond is None else beyond + step) if bound is not None]
        return (max if end == "Minimum" else min)(bounds, default=None)


class Check(Control):
    """A truth value."""

    @override
    def labelled(self, drawn: str) -> str:
        """Put the label behind the box; an empty one says no, so there is nothing to insist on."""
        return f"<label>{drawn} {title(self.label, is_required=False)}</label>"

    @override
    def _drawn(self, texts: Texts, attributes: Mapping[str, Any]) -> str:
        return tag("input", {"type": "checkbox", "value": "true", **attributes, "checked": self._value(texts)})

    @override
    def _value(self, texts: Texts) -> Any:
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
    def _drawn(self, texts: Texts, attributes: Mapping[str, Any]) -> str:
        blank = "" if self.takes_many else '<option value=""></option>'
        shown = ((key, value if isinstance(value, str) else key) for key, value in self._keyed.items())
        options = "".join(self._option(key, str(told), is_chosen=key in texts) for key, told in shown)
        many = {"multiple": True, "size": min(len(self.options), 8)} if self.takes_many else self._insists
        return f"<select{written_attributes({**attributes, **many})}>{blank}{options}</select>"

    @override
    def _value(self, texts: Texts) -> Any:
        chosen = [text for text in texts if text]
        unknown = next((text for text in chosen if text not in self._keyed), None)
        if unknown is not None:
            raise ValueError(f"{shortened(unknown, MAX_LABEL)!r} is none of {', '.join(self._keyed)}")
        values = [self._keyed[text] for text in chosen]
        if self.takes_many:
            return values if values or self.is_required or self.schema.get("default") else NOTHING
        return values[0] if values else NOTHING

    @override
    def _texts(self, value: Any) -> Texts:
        wanted = value if self.takes_many and isinstance(value, list) else [value]
        texts = {written(option): key for key, option in self._keyed.items()}
        return [texts[each] for each in map(written, wanted) if each in texts]

    @property
    def _keyed(self) -> Mapping[str, Any]:
        """List the options by what is posted for them: themselves, or as JSON where they are not all texts."""
        are_texts = all(isinstance(option, str) and option for option in self.options)
        return {option if are_texts else written(option): option for option in self.options}

    @staticmethod
    def _option(key: str, told: str, *, is_chosen: bool) -> str:
        return f"<option{written_attributes({'value': key, 'selected': is_chosen})}>{safe(told, MAX_LABEL)}</option>"


class Document(Control):
    """Any value, as JSON."""

    @override
    def _drawn(self, texts: Texts, attributes: Mapping[str, Any]) -> str:
        hint = {"placeholder": "JSON", "spellcheck": "false", "style": f"{_WIDE};font-family:monospace"}
        return textarea("".join(texts[:1]), {**attributes, **hint, **self._insists})

    @override
    def _value(self, texts: Texts) -> Any:
        text = "".join(texts[:1]).strip()
        if not text:
            return NOTHING
        try:
            return from_json(text, allow_inf_nan=False)
        except ValueError as error:
            raise ValueError(f"this is not valid JSON: {error}") from None

    @override
    def _texts(self, value: Any) -> Texts:
        return (written(value, indent=2),)


# An object that lies deeper is written as JSON; a schema may contain itself.
MAX_DEPTH = 4
_KINDS: Mapping[Any, type[Control]] = {"string": Text, "integer": Number, "number": Number, "boolean": Check}
# What says more of a value than its type does.
_COMPOSED = frozenset({"anyOf", "oneOf", "allOf", "not", "if", "patternProperties", "prefixItems", "$ref"})


@dataclass(frozen=True, kw_only=True)
class Group:
    """An object: its members, in a frame."""

    name: str
    label: str
    schema: Mapping[str, Any]
    is_required: bool
    is_nullable: bool
    parts: tuple[Part, ...]

    @property
    def inside(self) -> Iterator[Part]:
        """List all that is in it, what is in inner groups too."""
        for part in self.parts:
            yield part
            yield from part.inside if isinstance(part, Group) else ()

    def draw(self, entries: Entries) -> str:
        """Write the frame, and what is in it."""
        said, error = str(self.schema.get("description", "")), entries.errors.get(self.name, "")
        about = f"<small>{safe(said, MAX_HELP)}</small>" if said else ""
        told = f'<br><strong role="alert">{safe(error, MAX_HELP)}</strong>' if error else ""
        legend = f"<legend>{title(self.label, is_required=self.is_required)}</legend>"
        return f'<fieldset style="margin:.6em 0">{legend}{about}{told}{self.drawn(entries)}</fieldset>'

    def drawn(self, entries: Entries) -> str:
        """Write what is in it."""
        return "".join(part.draw(entries) for part in self.parts)

    def read(self, entries: Entries) -> Any:
        """Read the object; where nothing was entered, it is left out or null, if it may be."""
        if self._is_untouched(entries) and (self.is_nullable or not self.is_required):
            return None if self.is_required else NOTHING
        values = {_key(part): part.read(entries) for part in self.parts}
        return {key: value for key, value in values.items() if value is not NOTHING}

    def enter(self, value: Any) -> Iterator[tuple[str, Texts]]:
        """Write the values of its members; those of its default, where there are none."""
        known = as_mapping(self.schema.get("default") if value is NOTHING else value)
        for part in self.parts:
            yield from part.enter(known.get(_key(part), NOTHING))

    def _is_untouched(self, entries: Entries) -> bool:
        """Tell whether nothing stands in it but defaults."""
        own = ((entries.texts.get(name, ()), texts) for name, texts in self.enter(NOTHING))
        return all([text for text in given if text] in ([], [*texts]) for given, texts in own)


@dataclass(frozen=True)
class _Place:
    """Where a part stands: in which schema, how deep, whether it has to be there, whether all around it has to."""

    root: Mapping[str, Any]
    path: tuple[str, ...] = ()
    is_required: bool = True
    is_insisted: bool = True

    def below(self, key: str, *, is_required: bool) -> _Place:
        """Go one step in."""
        return _Place(self.root, (*self.path, key), is_required, self.is_insisted and is_required)


def group_of(schema: Mapping[str, Any]) -> Group:
    """Make the controls of an object."""
    return _group(schema, _Place(schema), "", is_nullable=False)


def name_of(path: tuple[str | int, ...]) -> str:
    """Name what a control posts: its path, with dots."""
    return ".".join(str(step).replace("~", "~0").replace(".", "~1") for step in path)


def _key(part: Part) -> str:
    return part.name.rpartition(".")[2].replace("~1", ".").replace("~0", "~")


def _group(schema: Mapping[str, Any], place: _Place, label: str, *, is_nullable: bool) -> Group:
    needed, inner = schema.get("required", ()), schema["properties"].items()
    here = replace(place, is_insisted=place.is_insisted and not is_nullable)
    return Group(
        name=name_of(place.path),
        label=label,
        schema=schema,
        is_required=place.is_required,
        is_nullable=is_nullable,
        parts=tuple(_part(as_mapping(part), here.below(key, is_required=key in needed)) for key, part in inner),
    )


def _part(schema: Mapping[str, Any], place: _Place) -> Part:
    whole = resolve_reference(schema, place.root)
    some = without_null(whole)
    bare = whole if some is None else _single(some, place.root)
    label = str(bare.get("title") or place.path[-1].replace("_", " "))
    is_nullable = some is not whole
    if _is_group(bare) and len(place.path) <= MAX_DEPTH:
        return _group(bare, place, label, is_nullable=is_nullable)
    kind, more = _kind(bare, place.root, is_nullable=is_nullable)
    told = {"is_required": place.is_required, "is_insisted": place.is_insisted, "is_nullable": is_nullable}
    return kind(name=name_of(place.path), label=label, schema=bare, **told, **more)


def _single(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Take the only alternative for the whole."""
    ways = schema.get("anyOf", schema.get("oneOf"))
    if not isinstance(ways, list) or len(ways) != 1:
        return schema
    rest = {keyword: value for keyword, value in schema.items() if keyword not in ("anyOf", "oneOf")}
    return {**resolve_reference(as_mapping(ways[0]), root), **rest}


def _is_group(schema: Mapping[str, Any]) -> bool:
    is_closed = not schema.get("additionalProperties") and _COMPOSED.isdisjoint(schema)
    return schema.get("type") == "object" and bool(schema.get("properties")) and is_closed


def _kind(
    schema: Mapping[str, Any], root: Mapping[str, Any], *, is_nullable: bool
) -> tuple[type[Control], dict[str, Any]]:
    """Choose the control of a value."""
    if options := _options(schema):
        return Choice, {"options": options}
    if not _COMPOSED.isdisjoint(schema) or not isinstance(schema.get("type"), str):
        return Document, {}
    if schema["type"] == "array" and (options := _options(resolve_reference(as_mapping(schema.get("items")), root))):
        return Choice, {"options": options, "takes_many": True}
    if schema["type"] == "boolean" and is_nullable:
        return Choice, {"options": [True, False]}
    return _KINDS.get(schema["type"], Document), {}


def _options(schema: Mapping[str, Any]) -> list[Any]:
    """List the values of an enumeration, but for null."""
    values = [schema["const"]] if "const" in schema else schema.get("enum", [])
    return [value for value in values if value is not None]


class InvalidForm(InvalidArguments):
    """What was posted does not fit.

    Attributes:
        form: The form with what was posted, and what is wrong beside it.
        errors: What is wrong, by the names of the controls; under the empty name what concerns the whole.
    """

    def __init__(self, form: Form, errors: Mapping[str, str]) -> None:
        super().__init__("; ".join(f"{name}: {text}" if name else text for name, text in errors.items()))
        self.form = form
        self.errors = errors


class Form:
    """What a tool takes, as an HTML form: `str(form)` for a page; a notebook shows it by itself.

    Values inside of objects are posted under dotted names, `place.city`; what no control fits is written as JSON. Where
    the model makes a tool's output, that is not among the controls. Whatever the tool, its schema and the values say is
    text here, never markup.

    Args:
        tool: Whose parameters it shows.
        values: Arguments that stand in it from the beginning; defaults do anyway.
        action: Where it is posted to; the page's own address, by default.

    Raises:
        DefinitionError: The tool cannot be described.

    Example:
        >>> from toolkit import tool
        >>> @tool
        ... def weather(city: str, days: int = 1) -> str:
        ...     '''Tell the weather.'''
        ...     return f"{days} days of sun in {city}"
        >>> form = Form(weather, {"city": "Paris"})
        >>> '<input type="text" value="Paris" name="city" required' in str(form)
        True
        >>> weather.invoke(form.read({"city": "Lima", "days": "2"})).text
        '2 days of sun in Lima'
    """

    def __init__(self, tool: Tool[..., Any], values: Mapping[str, Any] | None = None, *, action: str = "") -> None:
        self.tool, self.action = tool, action
        self._entries = Entries(dict(self._whole.enter(values or {})))

    def read(self, posted: Mapping[str, Any]) -> str:
        """Read what a browser posts, and give the arguments as JSON text, for `tool.invoke`.

        Args:
            posted: Texts, or lists of texts, by name, as web frameworks have them. What the form has no control for is
                passed over.

        Raises:
            InvalidForm: It does not fit; the exception has what is wrong by control, and the form to show again.
        """
        entries = Entries({part.name: _texts_of(posted, part.name) for part in self._whole.inside})
        text = written(self._whole.read(entries))
        for name, said in self._faults(text):
            entries.errors.setdefault(name, said)
        if entries.errors:
            raise InvalidForm(self._showing(entries), entries.errors)
        return text

    def __str__(self) -> str:
        attributes = written_attributes({"method": "post", "action": self.action or None})
        button = f'<button type="submit">{safe(self.tool.title or self.tool.name, MAX_LABEL)}</button>'
        return f"<form{attributes}>{self._inner}{button}</form>"

    def _repr_html_(self) -> str:
        return f"<form>{self._inner}</form>"

    @property
    def _inner(self) -> str:
        about, error = self.tool.description, self._entries.errors.get("", "")
        told = f'<p style="white-space:pre-wrap">{safe(about, MAX_HELP)}</p>' if about else ""
        wrong = f'<p><strong role="alert">{safe(error, MAX_HELP)}</strong></p>' if error else ""
        return told + wrong + self._whole.drawn(self._entries)

    @property
    def _accepted(self) -> ArgumentSchema:
        return self.tool.handler.interface.built

    @cached_property
    def _whole(self) -> Group:
        return group_of(self._accepted.schema)

    def _showing(self, entries: Entries) -> Form:
        shown = Form(self.tool, action=self.action)
        shown._entries = entries
        return shown

    def _faults(self, text: str) -> Iterator[tuple[str, str]]:
        """Find what the tool itself would refuse, by the control where it stands."""
        try:
            self._accepted.validator(text)
        except ValidationError as error:
            for fault in error.errors(include_url=False, include_context=False, include_input=False):
                yield self._placed(fault["loc"], "required" if fault["type"] == "missing" else fault["msg"])
        except Exception as error:  # noqa: BLE001  the user's types raise what they like
            yield "", f"{type(error).__name__}: {error}"

    def _placed(self, location: tuple[int | str, ...], said: str) -> tuple[str, str]:
        """Find the control of a fault; what lies deeper is told in words."""
        names = {part.name for part in self._whole.inside}
        depth = next((size for size in range(len(location), 0, -1) if name_of(location[:size]) in names), 0)
        rest = format_path(location[depth:])
        return name_of(location[:depth]), f"{rest}: {said}" if rest else said


def _texts_of(posted: Any, name: str) -> Texts:
    """Find what was posted under a name: a text, a list of them, or what a framework's `getlist` gives."""
    given = posted.getlist(name) if hasattr(posted, "getlist") else posted.get(name, NOTHING)
    many = given if isinstance(given, (list, tuple)) else [] if given is NOTHING else [given]
    texts = (each if isinstance(each, str) else written(each) for each in many)
    return [text.replace("\r\n", "\n") for text in texts]  # browsers send the former
