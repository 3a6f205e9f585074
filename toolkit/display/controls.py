"""The controls of a form: each draws itself as HTML, and reads what a browser posts of it."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal, Protocol, TypeAlias

from pydantic_core import from_json
from typing_extensions import override

from toolkit.display.lines import shortened
from toolkit.display.markup import MAX_HELP, MAX_LABEL, safe, tag, textarea, title, written, written_attributes

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
