"""The pages of `toolkit inspect`: HTML without scripts, sent in pieces while a run emits its events.

Every text of a tool, a model or a person is escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, NamedTuple

from toolkit import RunHandle, Tool, ToolkitError, ToolResult, Usage
from toolkit.display.cards import render_tool, render_tool_result
from toolkit.display.form import Form
from toolkit.display.formatting import escape_text
from toolkit.display.markup import (
    MAX_PAGE,
    STYLE,
    format_tokens,
    render_code,
    render_dim,
    render_error,
    render_folded,
    render_head,
    render_markdown,
    render_pill,
    render_text,
)
from toolkit.display.notebook import make_row, make_waiting_row, render_row
from toolkit.events import (
    ApprovalNeeded,
    Event,
    LimitReached,
    PendingApproval,
    RunFinished,
    RunStarted,
    TextDelta,
    ToolCallFinished,
    ToolCallStarted,
)

PAGE_STYLE = """body{margin:0 auto;padding:1.2em;max-width:76em;display:flex;flex-wrap:wrap;gap:1em 2.5em}
nav{flex:1 1 15em;max-width:100%}main{flex:999 1 24em;min-width:0}
nav .d{padding:0 .6em}nav.tk ul{list-style:none;margin:.4em 0;padding:0}
nav a{display:flex;flex-wrap:wrap;gap:0 .6em;align-items:baseline;justify-content:space-between;padding:.2em .6em;
border-radius:6px;color:inherit;text-decoration:none}
nav a:hover,nav a[aria-current]{background:var(--s)}nav a[aria-current]{font-weight:600}
textarea,input,select,button{font:inherit;max-width:100%;box-sizing:border-box}
textarea,select,input:not([type=checkbox],[type=radio]){background:none;color:inherit;border:1px solid #808080;
border-radius:6px;padding:.35em .6em}
textarea{width:100%}select option{background:Canvas;color:CanvasText}
button{padding:.35em 1.2em;margin:.6em .8em 0 0;border:1px solid #2563eb;border-radius:6px;background:#2563eb;
color:#fff;font-weight:600;cursor:pointer}
button:hover{filter:brightness(1.15)}button.q{background:none;border-color:#808080;color:inherit;font-weight:400}
hr{border:0;border-top:1px solid var(--l);margin:1.5em 0 .8em}form small{opacity:.8}
label{margin-right:1em}main a{color:inherit}
fieldset{border:1px solid var(--l);border-radius:8px;margin:.6em 0;padding:.2em 1em .8em;min-width:0}
.you{background:var(--s);border-radius:8px;padding:.3em 1em;margin-top:1.6em}
@media (max-width:40em){nav ul{display:flex;flex-wrap:wrap}}"""


class Exchange(NamedTuple):
    """A prompt of the chat, and the run that answers it. The prompt is empty if the run resumes the one before."""

    prompt: str
    handle: RunHandle


@dataclass(frozen=True)
class Site:
    """The parts that all pages share."""

    title: str  # name of the file with the tools
    root: str  # path of the first page, which ends with a slash
    tools: Sequence[Tool[..., Any]]

    def render(self, here: str, content: Iterable[str]) -> Iterator[str]:
        """Render a page in pieces: the links to the tools, and the content."""
        yield f"{render_head(f'{here} · {self.title}', PAGE_STYLE, STYLE)}<body>"
        tools = "".join(
            self._render_link(each.name, f"tools/{each.name}", here, each.settings.effect or "") for each in self.tools
        )
        title = render_dim(self.title, tag="div")
        yield f'<nav aria-label="Tools" class="tk">{title}<ul>{self._render_link("Chat", "", here)}{tools}</ul></nav>'
        yield '<main class="tk">'
        yield from content
        yield "</main></body></html>"

    def _render_link(self, name: str, path: str, here: str, effect: str = "") -> str:
        current = ' aria-current="page"' if name == here else ""
        mark = render_pill(effect) if effect else ""
        return f'<li><a href="{self.root}{path}"{current}>{escape(name)}{mark}</a></li>'

    def render_tool(self, form: Form, result: str = "") -> Iterator[str]:
        """Render a tool: its form, the result of the last call, and its definition."""
        tool = form.tool
        yield f"<h1>{escape(tool.name)}</h1>{form}{result}<hr>{render_folded('Definition', render_tool(tool))}"

    def render_result(self, result: ToolResult) -> str:
        """Render the result of a call, with the message of an exception, for the author of the tool."""
        error = result.exception
        detail = f"{type(error).__name__}: {error}" if result.kind == "failed" and error else ""
        return f"<h2>Result</h2>{render_tool_result(result)}{render_dim(detail, tag='div')}"

    def render_question(self, tool: Tool[..., Any], call: str, arguments: str) -> Iterator[str]:
        """Render the question whether a call may run."""
        path = f"{self.root}tools/{tool.name}"
        effect = render_pill(tool.settings.effect or "needs approval")
        hidden = f'<input type="hidden" name="approved" value="{escape(arguments)}">'
        yield f'<h1>Run {escape(tool.name)}?</h1><div class="c wait">{effect} {render_code(call, MAX_PAGE)}</div>'
        yield f'<form method="post" action="{path}">{hidden}<button>Run it</button> <a href="{path}">Cancel</a></form>'

    def render_chat(self, exchanges: Sequence[Exchange]) -> Iterator[str]:
        """Render a conversation, with its last run as it happens.

        At the end are the calls that wait for approval, or a field for the next prompt.
        """
        yield "<h1>Chat</h1>"
        pending: Sequence[PendingApproval] = ()
        for number, (prompt, handle) in enumerate(exchanges):
            if prompt:
                yield f'<div class="you">{render_text(prompt, MAX_PAGE)}</div>'
            is_active = handle.status in ("pending", "running")
            if is_active:
                yield f'<div id="stop">{self._render_button("cancel", "Stop")}</div>'
            yield from _render_events(handle.events(), number)
            if is_active:
                yield _hide("stop")
            error, pending = _read_end(handle)
            yield render_error(error)

        yield self._render_decisions(pending) if pending else self._render_prompt()
        if exchanges:
            yield self._render_button("new", "New conversation")

    def _render_prompt(self) -> str:
        field = '<textarea id="prompt" name="prompt" rows="3" required autofocus></textarea><button>Send</button>'
        label = '<h2><label for="prompt">Prompt</label></h2>'
        return f'<form method="post" action="{self.root}chat">{label}{field}</form>'

    def _render_decisions(self, pending: Iterable[PendingApproval]) -> str:
        fields = "".join(
            f"<fieldset><legend>{escape(each.call.name)}</legend>{render_row(make_waiting_row(each), MAX_PAGE)}"
            + "".join(
                f'<label><input type="radio" name="{escape(each.call.id)}" value="{value}" required> {text}</label> '
                for value, text in (("yes", "Approve"), ("no", "Reject"))
            )
            + "</fieldset>"
            for each in pending
        )
        form = f'<form method="post" action="{self.root}decide">{fields}<button>Continue</button></form>'
        return f"<h2>Approval</h2>{form}"

    def _render_button(self, path: str, text: str) -> str:
        return f'<form method="post" action="{self.root}{path}"><button class="q">{text}</button></form>'


def _render_events(events: Iterable[Event], number: int) -> Iterator[str]:
    """Render the events of a run as they arrive. HTML that has been sent can only be hidden."""
    has_text = is_open = False
    count = 0  # of the texts so far
    name = ""  # of the model

    for event in events:
        if is_open and not isinstance(event, TextDelta):
            is_open = False
            yield "</div>"
        match event:
            case RunStarted(model=model):
                name = model
            case TextDelta(text=text):
                count += 0 if is_open else 1
                opening = "" if is_open else f'<div class="t" id="text-{number}-{count}">'
                yield opening + escape_text(text, MAX_PAGE)
                has_text = is_open = True
            case ToolCallStarted(call=call):
                has_text = False  # a text before a call is not the answer
                text = escape_text(str(call), MAX_PAGE)
                yield f'<div class="d" id="call-{escape(call.id)}">{text} runs …</div>'
            case ToolCallFinished(call=call):
                yield _hide(f"call-{call.id}") + render_row(make_row(event), MAX_PAGE)
            case ApprovalNeeded(approval=approval):
                yield _hide(f"call-{approval.call.id}")
            case LimitReached(limit=limit):
                yield render_dim(f"The limit {limit} is reached.", tag="div")
            case RunFinished(output=output, finish_reason=reason, usage=usage):
                hidden_text = _hide(f"text-{number}-{count}") if has_text else ""
                yield hidden_text + render_markdown(output, MAX_PAGE) + _render_end(reason, name, usage)


def _render_end(reason: str, model: str, usage: Usage) -> str:
    """Render why a run ended, if that is unusual, and what it used."""
    if reason == "paused":
        return ""
    about = render_dim(" · ".join(filter(None, (model, format_tokens(usage)))), tag="div")
    return about if reason == "stop" else render_pill(reason) + about


def _hide(name: str) -> str:
    return f"<style>#{escape(name)}{{display:none}}</style>"


def _read_end(handle: RunHandle) -> tuple[str, tuple[PendingApproval, ...]]:
    """Wait for the end of a run, and return its error, and the calls that wait for approval."""
    try:
        return "", handle.result().pending
    except Exception as error:  # noqa: BLE001  whatever a hook of the file raises
        return format_error(error), ()


def format_error(error: Exception) -> str:
    """Return the message of an exception, with its class if it is not of this library."""
    return str(error) if isinstance(error, ToolkitError) else f"{type(error).__name__}: {error}"
