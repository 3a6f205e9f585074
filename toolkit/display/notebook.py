"""A run as HTML for notebooks, in the notebook's own colours, light or dark.

Whatever a model or a tool wrote is escaped: it fetches no image, and makes no link.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from toolkit._messages import Image, ToolCall, Usage
from toolkit.display.formatting import escape_text, get_progress_text
from toolkit.events import (
    ApprovalNeeded,
    Event,
    RunFinished,
    RunStarted,
    SubAgentEvent,
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
    title: str = ""
    reasoning: str = ""
    seconds: float | None = None
    images: tuple[Image, ...] = ()


def render_result(answer: str, calls: Iterable[ToolCallFinished], usage: Usage, model: str) -> str:
    """Render a result: the answer, and below it a folded table of the calls."""
    return _render_card(answer, list(map(_make_row, calls)), [_format_tokens(usage), model], is_unfolded=False)


@dataclass
class Story:
    """The events of a run so far, which a notebook can display again after each event.

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
        """Add an event to what is displayed."""
        self._add_to_answer(event)
        self._add_to_calls(event)

    def _add_to_answer(self, event: Event) -> None:
        match event:
            case RunStarted():
                self._about = [event.model]
            case TurnStarted():
                self._answer = ""
            case TextDelta():
                self._answer += event.text
            case RunFinished():
                self._answer = event.output
                self._about = [_format_tokens(event.usage), *self._about]

    def _add_to_calls(self, event: Event) -> None:
        match event:
            case ToolCallStarted():
                self._rows[event.call.id] = replace(_make_open_row(event.call), title=event.title)
            case ToolCallUpdated() | SubAgentEvent():
                if text := get_progress_text(event):
                    self._reopen_row(event.call, text=text)
            case ApprovalNeeded():
                self._reopen_row(event.approval.call, state="waiting")
            case ToolCallFinished():
                self._rows[event.call.id] = _make_row(event)

    def _reopen_row(self, call: ToolCall, **changes: Any) -> None:
        self._rows[call.id] = replace(self._rows.get(call.id) or _make_open_row(call), **changes)

    def _repr_html_(self) -> str:
        return _render_card(self._answer, self._rows.values(), self._about, is_unfolded=True)


def _make_open_row(call: ToolCall) -> _Row:
    return _Row(name=call.name, arguments=call.arguments, reasoning=call.reasoning, text="", state="running")


def _make_row(event: ToolCallFinished) -> _Row:
    return _Row(
        name=event.name,
        title=event.title,
        arguments=event.arguments,
        reasoning=event.call.reasoning,
        text=event.result.text or "",
        state="error" if event.result.is_error else "done",
        seconds=event.seconds,
        images=event.result.images,
    )


def _render_card(answer: str, rows: Collection[_Row], about: Iterable[str], *, is_unfolded: bool) -> str:
    errors = sum(row.state == "error" for row in rows)
    counts = [_format_count(len(rows), "call"), *([_format_count(errors, "error")] if errors else [])]
    summary = f'<span style="opacity:.7">{escape_text(" · ".join(filter(None, [*counts, *about])), MAX_CELL)}</span>'
    table = (
        f"<details{' open' * is_unfolded}><summary>{summary}</summary>{_render_table(rows)}</details>"
        if rows
        else summary
    )
    return f'<div><div style="{_TEXT};margin-bottom:.5em">{escape_text(answer, MAX_ANSWER)}</div>{table}</div>'


def _render_table(rows: Iterable[_Row]) -> str:
    head = "".join(f'<th style="{_CELL}">{title}</th>' for title in ("Tool", "Arguments", "Result", "Seconds"))
    body = "".join(f"<tr>{''.join(_render_cells(row))}</tr>" for row in rows)
    return f'<table style="border-collapse:collapse;margin-top:.5em"><tr>{head}</tr>{body}</table>'


def _render_cells(row: _Row) -> Iterator[str]:
    mark = "" if row.state == "done" else f"<b>{row.state}</b> "
    seconds = "" if row.seconds is None else f"{row.seconds:.2f}"
    pictures = "".join(map(_render_image, row.images))
    yield _render_cell(f"{_render_code(row.name, MAX_NAME)}{_render_note(row.title)}", _WORD)
    yield _render_cell(f"{_render_code(row.arguments, MAX_CELL)}{_render_note(row.reasoning)}", _TEXT)
    yield _render_cell(f"{mark}{escape_text(row.text, MAX_CELL)}{pictures}", _TEXT)
    yield _render_cell(seconds, _WORD)


def _render_cell(content: str, style: str) -> str:
    return f'<td style="{_CELL};{style}">{content}</td>'


def _render_image(image: Image) -> str:
    media_type = image.media_type.partition(";")[0]
    if not _PICTURE.fullmatch(media_type):
        return ""
    data = base64.b64encode(image.data).decode()
    return f'<br><img alt="" style="max-height:10em" src="data:{media_type};base64,{data}">'


def _render_note(text: str) -> str:
    return f'<div style="opacity:.7">{escape_text(text, MAX_CELL)}</div>' if text else ""


def _render_code(text: str, size: int) -> str:
    return f"<code>{escape_text(text, size)}</code>"


def _format_tokens(usage: Usage) -> str:
    if not (usage.input_tokens or usage.output_tokens):
        return ""
    return f"{usage.input_tokens} tokens in, {usage.output_tokens} out"


def _format_count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
