"""Runs as HTML for notebooks, in the notebook's own colours, light or dark.

All texts of models and tools are escaped: they fetch no images and make no links.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Any

from typing_extensions import override

from toolkit._messages import (
    FILES_TEXT,
    IMAGES_TEXT,
    File,
    Image,
    ModelResponse,
    ToolCall,
    UserMessage,
)
from toolkit._schema.json_text import load_if_json
from toolkit.display.formatting import escape_text, get_progress_text
from toolkit.display.markup import (
    MAX_ANSWER,
    MAX_CELL,
    MAX_NAME,
    MAX_PAGE,
    format_count,
    format_seconds,
    format_tokens,
    format_value,
    render_attachments,
    render_card,
    render_code,
    render_data,
    render_dim,
    render_error,
    render_folded,
    render_json,
    render_markdown,
    render_pill,
    render_table,
    render_text,
)
from toolkit.events import (
    ApprovalNeeded,
    Event,
    MessageAdded,
    OutputDelta,
    PendingApproval,
    ReasoningDelta,
    RunFinished,
    RunStarted,
    SubAgentEvent,
    TextDelta,
    ToolArgumentsDelta,
    ToolCallFinished,
    ToolCallStarted,
    ToolCallUpdated,
    TurnFinished,
    TurnStarted,
)

# Frequent events, and the last one, after which `end_line` updates the display.
FREQUENT = (TextDelta, ReasoningDelta, ToolArgumentsDelta, OutputDelta, ToolCallUpdated, SubAgentEvent, RunFinished)
SECONDS_BETWEEN_UPDATES = 0.1
MAX_TABLE = 10  # rows of a table among the calls of a run; `ToolResult` displays more
# Limits for an active run, since each update sends the whole display.
MAX_ACTIVE_CALLS = 20
MAX_ACTIVE_BYTES = 200_000  # of images


@dataclass(frozen=True, kw_only=True)
class Row:
    """One call as it is displayed."""

    name: str
    arguments: str
    text: str = ""
    state: str = "done"  # or running, paused with the run, waiting, error
    title: str = ""
    effect: str = ""
    reasoning: str = ""
    seconds: float | None = None
    images: tuple[Image, ...] = ()
    files: tuple[File, ...] = ()
    value: Any = None  # what may be displayed as a table in place of the text
    anchor: str = ""  # id of its element


@dataclass(kw_only=True)
class Turn:
    """One response of the model, its calls by id, and the messages that were sent to the model after their results."""

    number: int | None = None  # from 0; None for calls of an earlier response, which is not displayed
    response: ModelResponse = field(default_factory=ModelResponse)
    rows: dict[str, Row] = field(default_factory=dict)
    messages: list[str] = field(default_factory=list)


def render_result(result: Any) -> str:
    """Render a RunResult: the answer, the calls that wait for approval, and a folded timeline of all calls."""
    rows = {finished.call.id: make_row(finished) for finished in result.calls}
    turns = list_turns(result.state, rows)
    answer = str(result)
    if result.is_paused:  # the answer would list the waiting calls, which follow
        answer = "" if result.output is None else str(result.output)
    about = [format_tokens(result.state.usage), result.model]
    data = render_data(result.output)
    end = result.finish_reason if data else ""  # otherwise the answer has it
    run = _render_run("" if data else answer, turns, about, end, turns, is_unfolded=False)
    return render_card(data, run)


def render_state(state: Any, calls: Iterable[ToolCallFinished]) -> str:
    """Render a RunState: its phase, the calls that wait for approval, and a timeline of its calls so far."""
    rows = {finished.call.id: replace(make_row(finished), seconds=None) for finished in calls}
    about = [format_count(len(state.messages), "message"), format_tokens(state.usage)]
    end = state.finish_reason or state.phase
    turns = list_turns(state, rows)
    return render_card(_render_run("", turns, about, end, turns, is_unfolded=False))


def find_cell() -> int | None:
    """Return the number of the cell that is running, or None outside of IPython."""
    shell = _find_shell()
    return None if shell is None else int(shell.execution_count)


def is_in_kernel() -> bool:
    """Return whether the code runs in the kernel of a notebook."""
    return getattr(_find_shell(), "kernel", None) is not None


def is_in_marimo() -> bool:
    """Return whether the code runs in a cell of marimo, on the thread of the cell."""
    marimo = sys.modules.get("marimo")
    return marimo is not None and bool(marimo.running_in_notebook())


def _find_shell() -> Any:
    return getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()


def render_events(status: str, events: Iterable[Event], error: BaseException | None = None) -> str:
    """Render a run that may be active: its status, its error and its events so far."""
    failure = f"{type(error).__name__}: {error}" if error else ""
    return render_card(render_pill(status), render_error(failure), Story(events).body)


def render_stream(result: Any) -> str:
    """Render the RunResult of a stream, or a hint if the stream has not ended, and so has none."""
    if result is not None:
        return render_result(result)
    text = "Its events have not been read: iterate over the stream, or call toolkit.display.show(stream)."
    return render_card(f'<div class="h">{render_pill("not ended")}{render_dim(text)}</div>')


@dataclass
class Story:
    """The events of a run so far, which a notebook can display again after each event.

    Until the run has ended, at most 20 calls of the latest turns are displayed, with at most 200,000 bytes of images.
    Active calls have precedence over finished calls of the same turn.

    Examples:
        >>> from toolkit import Runner
        >>> from toolkit.testing import ScriptedModel
        >>> story = Story()
        >>> for event in Runner(model=ScriptedModel(["Hello."])).stream("Hi!"):
        ...     story.add(event)  # in a notebook: view = display(story, display_id=True), and here view.update(story)
        >>> "Hello." in story._repr_html_()
        True
    """

    events: Iterable[Event] = ()
    question: str = ""
    _answer: str = field(default="", init=False)
    _turns: list[Turn] = field(default_factory=list, init=False)
    _about: list[str] = field(default_factory=list, init=False)
    _end: str = field(default="", init=False)

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
                self._turns.append(Turn(number=event.turn))
            case TextDelta():
                self._answer += event.text
            case TurnFinished(response=response):
                self._last_turn.response = response
            case MessageAdded(message=message):
                self._last_turn.messages.append(message.text)
            case RunFinished():
                self._answer = event.output
                self._end = event.finish_reason
                self._about = [format_tokens(event.usage), *self._about]
                if event.finish_reason == "paused":
                    self._end_calls("paused")

    def _add_to_calls(self, event: Event) -> None:
        match event:
            case ToolCallStarted():
                self._change_row(event.call, title=event.title)
            case ToolCallUpdated() | SubAgentEvent():
                if text := get_progress_text(event):
                    self._change_row(event.call, text=text)
            case ApprovalNeeded(approval=approval):
                self._find_rows(approval.call)[approval.call.id] = make_waiting_row(approval)
            case ToolCallFinished():
                self._find_rows(event.call)[event.call.id] = make_row(event)

    def _end_calls(self, state: str) -> None:
        for turn in self._turns:
            open_rows = {call_id: row for call_id, row in turn.rows.items() if row.state == "running"}
            turn.rows |= {call_id: replace(row, state=state) for call_id, row in open_rows.items()}

    @property
    def _last_turn(self) -> Turn:
        if not self._turns:
            self._turns.append(Turn())
        return self._turns[-1]

    def _find_rows(self, call: ToolCall) -> dict[str, Row]:
        return next((turn.rows for turn in self._turns if call.id in turn.rows), self._last_turn.rows)

    def _change_row(self, call: ToolCall, **changes: Any) -> None:
        rows = self._find_rows(call)
        rows[call.id] = replace(rows.get(call.id) or _make_open_row(call), **changes)

    @property
    def body(self) -> str:
        """HTML of the run, without the card around it."""
        return self._render(self._turns)

    def _render(self, shown: Sequence[Turn]) -> str:
        question = f"<b>{render_text(self.question, MAX_ANSWER)}</b>" if self.question else ""
        return question + _render_run(self._answer, self._turns, self._about, self._end, shown, is_unfolded=True)

    def __repr__(self) -> str:
        return f"<Story, {format_count(sum(len(turn.rows) for turn in self._turns), 'call')}>"

    def _repr_html_(self) -> str:
        return render_card(self.body if self._end else self._render(_list_latest(self._turns)))


class LiveStory(Story):
    """A story that is displayed in the current cell, and updated with each event."""

    def __init__(self, question: str = "") -> None:
        super().__init__(question=question)
        self._updated = monotonic()
        if is_in_marimo():
            self._update = sys.modules["marimo"].output.replace
        else:
            from IPython.display import display  # only a notebook asks

            self._update = display(self, display_id=True).update  # type: ignore[no-untyped-call]

    @override
    def add(self, event: Event) -> None:
        """Add an event. After frequent events the display is updated at most ten times a second."""
        super().add(event)
        if not isinstance(event, FREQUENT) or monotonic() - self._updated > SECONDS_BETWEEN_UPDATES:
            self._update(self)
            self._updated = monotonic()

    def end_line(self) -> None:
        """Update the display after the last event or an exception."""
        if not self._end:
            self._end = "not ended"
            self._end_calls("cancelled")
        self._update(self)


def list_turns(state: Any, rows: Mapping[str, Row]) -> list[Turn]:
    """List the run's turns, without earlier runs of the conversation. Calls without a turn come first."""
    remaining = {**rows, **{each.call.id: make_waiting_row(each) for each in state.pending}}
    phase = "paused" if state.phase == "paused" else "running"
    turns: list[Turn] = []
    for each in state.messages[state.start :]:
        if isinstance(each, ModelResponse):
            own_rows = {call.id: remaining.pop(call.id, _make_open_row(call, phase)) for call in each.calls}
            turns.append(Turn(number=len(turns), response=each, rows=own_rows))
        elif turns and isinstance(each, UserMessage) and each.text not in (IMAGES_TEXT, FILES_TEXT):
            turns[-1].messages.append(each.text)
    return [Turn(rows=remaining), *turns] if remaining else turns


def _make_open_row(call: ToolCall, state: str = "running") -> Row:
    return Row(name=call.name, arguments=call.arguments, reasoning=call.reasoning, state=state)


def make_waiting_row(approval: PendingApproval) -> Row:
    """Make the row of a call that waits for approval."""
    agent = f"The model of {approval.agent} asks." if approval.agent else ""
    imports = f"It imports {approval.imports}" if approval.imports else ""
    return replace(
        _make_open_row(approval.call),
        arguments=approval.arguments,
        text="\n".join(filter(None, (agent, approval.reason, imports))),
        state="waiting",
        title=approval.title,
        effect=approval.effect,
    )


def make_row(event: ToolCallFinished) -> Row:
    """Make the row of a finished call."""
    return Row(
        name=event.name,
        title=event.title,
        arguments=event.arguments,
        reasoning=event.call.reasoning,
        text=event.result.text or "",
        state="error" if event.result.is_error else "done",
        seconds=event.seconds or None,  # 0 if it is not known how long it ran
        images=event.result.images,
        files=event.result.files,
        value=None if event.result.is_error else event.result.value,
    )


def render_call(event: ToolCallFinished) -> str:
    """Render a finished call alone."""
    return render_card(render_row(make_row(event)))


def _list_latest(turns: Sequence[Turn]) -> list[Turn]:
    """List the latest turns, with at most 20 calls. Active calls have precedence in a turn."""
    latest: list[Turn] = []
    calls = MAX_ACTIVE_CALLS
    room = MAX_ACTIVE_BYTES

    for turn in reversed(turns[-MAX_ACTIVE_CALLS:]):
        chosen = sorted(turn.rows, key=lambda call_id: turn.rows[call_id].state in ("done", "error"))[:calls]
        rows = {call_id: row for call_id, row in turn.rows.items() if call_id in chosen}
        for call_id, row in rows.items():
            room -= sum(len(image.data) for image in row.images)
            rows[call_id] = row if room >= 0 else replace(row, images=())
        latest.insert(0, replace(turn, rows=rows))
        calls -= len(rows)

    return latest


def _render_run(
    answer: str, turns: Sequence[Turn], about: Iterable[str], end: str, shown: Sequence[Turn], *, is_unfolded: bool
) -> str:
    """Render a run: how it ended, its answer, and a timeline of the turns in `shown`, which may lack calls.

    The timeline is folded, unless a call failed or `is_unfolded` is set.
    """
    rows = [row for turn in turns for row in turn.rows.values()]
    errors = sum(row.state == "error" for row in rows)
    counts = [format_count(len(rows), "call"), *([format_count(errors, "error")] if errors else [])]
    summary = " · ".join(filter(None, [*counts, *about]))
    waiting = [row for row in rows if row.state == "waiting"]
    approvals = "" if is_unfolded else "".join(map(render_row, waiting))  # visible outside the folded timeline
    is_usual = end in ("", "stop") or (end == "paused" and bool(waiting))
    mark = "" if is_usual else render_pill(end)
    hidden = {"waiting"} if approvals else set()
    timeline = "".join(render_turn(turn, answer, hidden) for turn in shown)
    left = len(rows) - sum(len(turn.rows) for turn in shown)
    timeline += render_dim(f"… {format_count(left, 'more call')}" if left else "", tag="div")
    opened = " open" if is_unfolded or errors else ""
    folded = f"<details{opened}><summary>{render_dim(summary)}</summary>{timeline}</details>"
    steps = folded if timeline else render_dim(summary, tag="div")
    return f"{mark}{render_json(answer, MAX_ANSWER, render_markdown)}{approvals}{steps}"


def render_turn(turn: Turn, answer: str, hidden: Collection[str] = (), *, is_page: bool = False) -> str:
    """Render a turn, without rows in a hidden state.

    Return "" if the turn is only the run's answer, which is displayed elsewhere. On a page nothing is folded.
    """
    rows = [row for row in turn.rows.values() if row.state not in hidden]
    response = turn.response
    if not (rows or response.reasoning or turn.messages):
        return ""

    tag, size = ("h3", MAX_PAGE) if is_page else ("div", MAX_CELL)
    tokens = render_dim(format_tokens(response.usage))
    name = "Before" if turn.number is None else f"Turn {turn.number + 1}"
    return "".join(
        (
            f'<{tag} class="h" style="margin-top:.8em"><b>{name}</b>{tokens}</{tag}>',
            render_folded("Reasoning", render_text(response.reasoning, size), is_open=is_page),
            "" if response.text == answer else render_text(response.text, size),
            *(render_row(row, size) for row in rows),
            *(render_dim("Message", tag="div") + render_text(text, size) for text in turn.messages),
        )
    )


def render_row(row: Row, size: int = MAX_CELL) -> str:
    """Render one call: its arguments beside its result, or above it if that is a table, or on a narrow page.

    A text has at most `size` characters. If that is the size of a page, a table is the whole text that the model read.
    """
    style = {"error": " bad", "waiting": " wait"}.get(row.state, "")
    mark = {"done": "", "waiting": "waits for approval"}.get(row.state, row.state)
    seconds = render_dim("" if row.seconds is None else format_seconds(row.seconds))
    marks = "".join(render_pill(each) for each in (mark, row.effect) if each)
    head = f'<div class="h"><b>{render_code(row.name, MAX_NAME)}</b>{render_dim(row.title)}{marks}{seconds}</div>'
    arguments = f"{_render_arguments(row, size)}{render_dim(row.reasoning, tag='div')}"
    table = render_table(row.value, MAX_TABLE) if size == MAX_CELL else ""
    result = f"{table or render_json(row.text, size)}{render_attachments(row.images, row.files)}"
    anchor = f' id="{row.anchor}"' if row.anchor else ""
    layout = "" if table else ' class="f"'
    parts = "".join(f"<div>{part}</div>" for part in (arguments, result) if part)
    return f'<div class="c{style}"{anchor}>{head}<div{layout}>{parts}</div></div>'


def _render_arguments(row: Row, size: int) -> str:
    """Render a call's arguments, one on each line. A text that is not a JSON object is rendered as it is.

    Arguments that wait for approval are rendered as they are, too, since their JSON has escapes for misleading
    characters.
    """
    arguments = None if row.state == "waiting" else load_if_json(row.arguments)
    if not isinstance(arguments, dict):
        return f'<div class="t">{render_code(row.arguments, size)}</div>'
    lines = (
        f"{escape_text(name, MAX_NAME)} = {render_code(format_value(value), size)}" for name, value in arguments.items()
    )
    return "".join(f'<div class="t">{line}</div>' for line in lines)
