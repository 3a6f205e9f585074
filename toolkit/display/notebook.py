"""A run in a notebook: HTML in the notebook's own colours, light or dark.

Whatever a model or a tool wrote is text here, never markup: no picture is fetched, and no link is made, because it says
so.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from html import escape

from toolkit._messages import Image, ToolCall, Usage
from toolkit.display.formatting import shortened, told, visible
from toolkit.events import (
    ApprovalNeeded,
    Event,
    RunFinished,
    RunStarted,
    TextDelta,
    ToolCallFinished,
    ToolCallStarted,
    ToolCallUpdated,
    TurnStarted,
)

MAX_ANSWER = 20_000  # characters
MAX_CELL = 2_000
MAX_NAME = 64
_PICTURE = re.compile(r"image/[a-z0-9.+-]+")
_CELL = "text-align:left;vertical-align:top;padding:.3em .6em;border-top:1px solid rgba(128,128,128,.4)"
_WORD = "white-space:nowrap"
_TEXT = "white-space:pre-wrap;overflow-wrap:anywhere"


@dataclass(frozen=True, kw_only=True)
class _Row:
    name: str
    arguments: str
    text: str
    state: str  # running, waiting, error or done
    reasoning: str = ""
    seconds: float | None = None
    images: tuple[Image, ...] = ()


def html_of(output: object, calls: Iterable[ToolCallFinished], usage: Usage, finish_reason: str, model: str) -> str:
    """Show what a run came to: the answer, and below it a table of the calls that unfolds."""
    end = f"ended by {finish_reason}" if finish_reason != "stop" else ""
    return _card(str(output), list(map(_row, calls)), [_tokens(usage), model, end], is_unfolded=False)


@dataclass
class Story:
    """The events of a run so far, for a notebook to show again and again while it happens.

    Example:
        >>> from toolkit import Runner
        >>> from toolkit.testing import ScriptedModel
        >>> story = Story()
        >>> for event in Runner(model=ScriptedModel(["Hello."])).stream("Hi!"):
        ...     story.add(event)  # in a notebook: view = display(story, display_id=True), and here view.update(story)
        >>> "Hello." in story._repr_html_()
        True
    """

    events: Iterable[Event] = ()
    _answer: str = field(default="", init=False)
    _rows: dict[str, _Row] = field(default_factory=dict, init=False)
    _about: list[str] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        for event in self.events:
            self.add(event)

    def add(self, event: Event) -> None:
        """Take in what an event has for people to read."""
        self._take_answer(event)
        self._take_call(event)

    def _take_answer(self, event: Event) -> None:
        match event:
            case RunStarted():
                self._about = [event.model]
            case TurnStarted():
                self._answer = ""
            case TextDelta():
                self._answer += event.text
            case RunFinished():
                self._answer = event.output
                self._about = [_tokens(event.usage), *self._about]

    def _take_call(self, event: Event) -> None:
        match event:
            case ToolCallStarted():
                self._rows[event.call.id] = _open_row(event.call)
            case ToolCallUpdated():
                self._rows[event.call.id] = _open_row(event.call, told(event))
            case ApprovalNeeded():
                self._rows[event.approval.call.id] = _open_row(event.approval.call, state="waiting")
            case ToolCallFinished():
                self._rows[event.call.id] = _row(event)

    def _repr_html_(self) -> str:
        return _card(self._answer, self._rows.values(), self._about, is_unfolded=True)


def _open_row(call: ToolCall, text: str = "", state: str = "running") -> _Row:
    return _Row(name=call.name, arguments=call.arguments, reasoning=call.reasoning, text=text, state=state)


def _row(event: ToolCallFinished) -> _Row:
    return _Row(
        name=event.name,
        arguments=event.arguments,
        reasoning=event.call.reasoning,
        text=event.result.text or "",
        state="error" if event.result.is_error else "done",
        seconds=event.seconds,
        images=event.result.images,
    )


def _card(answer: str, rows: Collection[_Row], about: Iterable[str], *, is_unfolded: bool) -> str:
    errors = sum(row.state == "error" for row in rows)
    counts = [_counted(len(rows), "call"), *([_counted(errors, "error")] if errors else [])]
    summary = f'<span style="opacity:.7">{_safe(" · ".join(filter(None, [*counts, *about])), MAX_CELL)}</span>'
    table = f"<details{' open' * is_unfolded}><summary>{summary}</summary>{_table(rows)}</details>" if rows else summary
    return f'<div><div style="{_TEXT};margin-bottom:.5em">{_safe(answer, MAX_ANSWER)}</div>{table}</div>'


def _table(rows: Iterable[_Row]) -> str:
    head = "".join(f'<th style="{_CELL}">{title}</th>' for title in ("Tool", "Arguments", "Result", "Seconds"))
    body = "".join(f"<tr>{''.join(_cells(row))}</tr>" for row in rows)
    return f'<table style="border-collapse:collapse;margin-top:.5em"><tr>{head}</tr>{body}</table>'


def _cells(row: _Row) -> Iterator[str]:
    mark = "" if row.state == "done" else f"<b>{row.state}</b> "
    seconds = "" if row.seconds is None else f"{row.seconds:.2f}"
    pictures = "".join(map(_picture, row.images))
    yield _cell(_code(row.name, MAX_NAME), _WORD)
    yield _cell(f"{_code(row.arguments, MAX_CELL)}{_faint(row.reasoning)}", _TEXT)
    yield _cell(f"{mark}{_safe(row.text, MAX_CELL)}{pictures}", _TEXT)
    yield _cell(seconds, _WORD)


def _cell(content: str, style: str) -> str:
    return f'<td style="{_CELL};{style}">{content}</td>'


def _picture(image: Image) -> str:
    media_type = image.media_type.partition(";")[0]
    if not _PICTURE.fullmatch(media_type):
        return ""
    data = base64.b64encode(image.data).decode()
    return f'<br><img alt="" style="max-height:10em" src="data:{media_type};base64,{data}">'


def _faint(text: str) -> str:
    return f'<div style="opacity:.7">{_safe(text, MAX_CELL)}</div>' if text else ""


def _code(text: str, size: int) -> str:
    return f"<code>{_safe(text, size)}</code>"


def _safe(text: str, size: int) -> str:
    return escape(visible(shortened(text, size)))


def _tokens(usage: Usage) -> str:
    if not (usage.input_tokens or usage.output_tokens):
        return ""
    return f"{usage.input_tokens} tokens in, {usage.output_tokens} out"


def _counted(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
