"""A run as a whole page: one HTML file that fetches nothing and runs no script."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any, NamedTuple

from toolkit._messages import ModelResponse, SystemMessage, UserMessage
from toolkit.display.formatting import escape_text
from toolkit.display.markup import (
    MAX_NAME,
    MAX_PAGE,
    format_count,
    format_seconds,
    format_tokens,
    render_attachments,
    render_card,
    render_data,
    render_dim,
    render_head,
    render_markdown,
    render_pill,
    render_text,
)
from toolkit.display.notebook import list_turns, make_row, render_turn

MAX_BARS = 500
POLICY = """<meta http-equiv="Content-Security-Policy" \
content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">"""
STYLE = """body{margin:2em auto;padding:0 1em;max-width:64em}
.tk .g{list-style:none;padding:0;margin:.5em 0}
.tk .g li{display:grid;grid-template-columns:minmax(0,2fr) minmax(0,5fr) 4em;gap:0 .8em;align-items:center}
.tk .g .n{color:inherit;font-size:.9em;white-space:nowrap;overflow:hidden;text-overflow:ellipsis;text-decoration:none}
.tk .g .n:hover{text-decoration:underline}
.tk .g .k{position:relative;height:1em;overflow:hidden;border-right:1px solid var(--l);
background:linear-gradient(to right,var(--l) 1px,transparent 1px) 0/25% 100%}
.tk .g .b{position:absolute;top:.1em;bottom:.1em;min-width:3px;border-radius:3px;background:var(--g)}
.tk .g .b.turn{background:color-mix(in srgb,#2196f3 60%,currentColor)}.tk .g .b.bad{background:var(--b)}
@media (max-width:40em){.tk .g li{grid-template-columns:1fr auto;margin-bottom:.4em}.tk .g .k{grid-area:2/1/3/3}}"""


class _Bar(NamedTuple):
    started: float
    seconds: float
    label: str
    style: str  # "turn"; "bad" for a call that failed
    link: str


def render_page(result: Any) -> str:
    """Render a RunResult as a whole page, on which nothing is folded, so that a browser's search finds all texts."""
    turns = list_turns(result.state, {finished.call.id: make_row(finished) for finished in result.calls})
    ids = [call_id for turn in turns for call_id in turn.rows]
    anchors = {call_id: f"call-{number}" for number, call_id in enumerate(ids, 1)}
    for turn in turns:
        turn.rows = {call_id: replace(row, anchor=anchors[call_id]) for call_id, row in turn.rows.items()}
    bars = sorted((bar for bar in _make_bars(result, anchors) if bar.started), key=lambda bar: bar.started)
    prompts = _list_prompts(result.state)
    calls = "".join(render_turn(turn, str(result), is_page=True) for turn in turns)
    lines = "\n".join(prompt.text for prompt in prompts).splitlines()
    title = next((line for line in lines if line.strip()), "Run")
    content = render_card(
        f"<h1>Run</h1>{_render_facts(result, len(ids), bars)}",
        *(
            _render_section("Instructions", each.text)
            for each in result.state.messages
            if isinstance(each, SystemMessage)
        ),
        *(f"{_render_section('Prompt', each.text)}{render_attachments(each.images, each.files)}" for each in prompts),
        f"<h2>Answer</h2>{_render_answer(result)}",
        f"<h2>Timeline</h2>{_render_timeline(bars)}" if bars else "",
        f"<h2>Calls</h2>{calls}" if calls else "",
    )
    return f"{render_head(title, STYLE, POLICY)}<body>\n<main>\n{content}\n</main>\n</body>\n</html>\n"


def _list_prompts(state: Any) -> Sequence[UserMessage]:
    """List the messages of the user with which the run started, without those of earlier runs."""
    prompts: list[UserMessage] = []
    for number, each in enumerate(state.messages):
        if isinstance(each, UserMessage):
            prompts.append(each)
        elif isinstance(each, ModelResponse):
            if number >= state.start:
                break
            prompts.clear()
    return prompts


def _render_facts(result: Any, count: int, bars: Sequence[_Bar]) -> str:
    errors = sum(finished.result.is_error for finished in result.calls)
    facts = (
        result.model,
        f"{datetime.fromtimestamp(bars[0].started, timezone.utc):%Y-%m-%d %H:%M} UTC" if bars else "",
        format_seconds(_get_end(bars) - bars[0].started) if bars else "",
        format_count(len(result.responses), "turn") if result.responses else "",
        format_count(count, "call"),
        format_count(errors, "error") if errors else "",
        format_tokens(result.state.usage),
        "" if result.cost is None else f"cost {result.cost:.6f}".rstrip("0").rstrip("."),
    )
    mark = "" if result.finish_reason == "stop" else render_pill(result.finish_reason)
    return f'<div class="h">{mark}{render_dim(" · ".join(filter(None, facts)))}</div>'


def _render_answer(result: Any) -> str:
    if result.is_paused:
        return render_dim("Calls wait for approval.", tag="div")
    return render_data(result.output) or render_markdown(str(result), MAX_PAGE) or render_dim("None.", tag="div")


def _render_section(title: str, text: str) -> str:
    return f"<h2>{title}</h2>{render_text(text, MAX_PAGE)}" if text else ""


def _make_bars(result: Any, anchors: Mapping[str, str]) -> Iterator[_Bar]:
    for turn in result.responses:
        yield _Bar(turn.started, turn.seconds, f"Turn {turn.turn + 1}", "turn", "")
    for finished in result.calls:
        prefix, style = ("Error: ", "bad") if finished.result.is_error else ("", "")
        label = f"{prefix}{finished.ran or finished.call}"
        yield _Bar(finished.started, finished.seconds, label, style, anchors[finished.call.id])


def _get_end(bars: Sequence[_Bar]) -> float:
    return max(bar.started + bar.seconds for bar in bars)


def _render_timeline(bars: Sequence[_Bar]) -> str:
    """Render turns and calls as bars, each below the one that started before it."""
    start = bars[0].started
    length = _get_end(bars) - start or 1.0
    rows = "".join(_render_bar(bar, start, length) for bar in bars[:MAX_BARS])
    more = f"… {len(bars) - MAX_BARS:,} more" if len(bars) > MAX_BARS else ""
    return f'<ol class="g" aria-label="Timeline">{rows}</ol>{render_dim(more, tag="div")}'


def _render_bar(bar: _Bar, start: float, length: float) -> str:
    label = escape_text(bar.label, 2 * MAX_NAME)
    name = f'<a href="#{bar.link}" class="n">{label}</a>' if bar.link else f'<span class="n">{label}</span>'
    left = min(99.5, (bar.started - start) / length * 100)  # so that a short bar at the end is visible
    width = f"left:{left:.2f}%;width:{bar.seconds / length * 100:.2f}%"
    track = f'<span class="k"><span class="b {bar.style}" style="{width}"></span></span>'
    return f'<li>{name}{track}<span class="d">{format_seconds(bar.seconds)}</span></li>'
