"""What a tool takes as an HTML form, and what a browser posts as arguments: the tool's interface for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from pydantic_core import ValidationError

from toolkit._schema.error_messages import path_of
from toolkit._schema.parameters import Accepted
from toolkit._tools.tool import Tool
from toolkit.display.controls import NOTHING, Entries, Texts
from toolkit.display.fields import Group, group_of, name_of
from toolkit.display.markup import MAX_HELP, MAX_LABEL, safe, written, written_attributes
from toolkit.errors import InvalidArguments


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
    def _accepted(self) -> Accepted:
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
        rest = path_of(location[depth:])
        return name_of(location[:depth]), f"{rest}: {said}" if rest else said


def _texts_of(posted: Any, name: str) -> Texts:
    """Find what was posted under a name: a text, a list of them, or what a framework's `getlist` gives."""
    given = posted.getlist(name) if hasattr(posted, "getlist") else posted.get(name, NOTHING)
    many = given if isinstance(given, (list, tuple)) else [] if given is NOTHING else [given]
    texts = (each if isinstance(each, str) else written(each) for each in many)
    return [text.replace("\r\n", "\n") for text in texts]  # browsers send the former
