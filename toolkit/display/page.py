"""A run as a page of its own: one file that fetches nothing and runs no script."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from toolkit._messages import FILES_TEXT, IMAGES_TEXT, SystemMessage, UserMessage
from toolkit.display.formatting import escape_text, format_call
from toolkit.display.markdown import render_markdown
from toolkit.display.markup import (
    MAX_NAME,
    format_count,
    format_seconds,
    format_tokens,
    render_attachments,
    render_card,
    render_dim,
    render_folded,
    render_pill,
    render_table,
    render_text,
)
from toolkit.display.notebook import Turn, list_turns, make_row, render_row
from toolkit.events import ToolCallFinished, TurnFinished

MAX_TEXT = 200_000  # characters: more than a run leaves of a result
MAX_BARS = 500
# The style of the bars.
BARS = """.tk .g{list-style:none;padding:0;margin:.5em 0}
.tk .g li{display:grid;grid-template-columns:minmax(0,2fr) minmax(0,5fr) 4em;gap:0 .8em;align-items:center}
.tk .g .n{color:inherit;font-size:.9em;white-space:nowrap;overflow:hidden;text-overflow:ellipsis}
.tk .g .k{position:relative;height:1em;overflow:hidden;border-right:1px solid var(--l);
background:linear-gradient(to right,var(--l) 1px,transparent 1px) 0/25% 100%}
.tk .g .b{position:absolute;top:.1em;bottom:.1em;min-width:3px;border-radius:3px;background:var(--g)}
.tk .g .b.turn{background:color-mix(in srgb,#2196f3 60%,currentColor)}.tk .g .b.bad{background:var(--b)}
@media (max-width:40em){.tk .g li{grid-template-columns:1fr auto;margin-bottom:.4em}.tk .g .k{grid-area:2/1/3/3}}"""
# A turn has the style "turn"; a call that failed "bad".
_BAR = """<li><{tag}{link} class="n">{label}</{tag}><span class="k"><span class="b {style}" \
style="left:{left:.2f}%;width:{width:.2f}%"></span></span><span class="d">{seconds}</span></li>"""


# In the colours that the reader prefers.
PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
:root{{color-scheme:light dark;font-family:system-ui,sans-serif;line-height:1.5}}
@media (prefers-color-scheme:dark){{:root{{background:#16181c;color:#e6e6e6}}}}
body{{margin:2em auto;padding:0 1em;max-width:64em}}
h1{{font-size:1.5em;margin:0 0 .2em}}
h2{{font-size:1.2em;margin:1.6em 0 .3em}}
h3{{font-size:1em;margin:1.4em 0 .3em}}
h3 .d{{font-weight:normal}}
:target{{outline:2px solid;outline-offset:4px}}
.tk .s{{max-height:20em;overflow-y:auto}}@media print{{.tk .s{{max-height:none}}}}
{bars}
</style>
</head>
<body>
<main>
{content}
</main>
</body>
</html>
"""


def render_page(result: Any) -> str:
    """Render a RunResult as a whole page: what happened, with nothing folded, so that a browser's search finds it."""
    messages = result.state.messages
    users = (message for message in messages if isinstance(message, UserMessage))
    prompts = [message for message in users if message.text not in (IMAGES_TEXT, FILES_TEXT)]  # those are of tools
    title = next((line for message in prompts[-1:] for line in message.text.splitlines() if line.strip()), "Run")
    content = render_card(
        f"<h1>Run</h1>{_render_facts(result)}",
        *(_render_section("Instructions", each.text) for each in messages if isinstance(each, SystemMessage)),
        "<h2>Prompt</h2>",
        *(render_text(each.text, MAX_TEXT) + render_attachments(each.images, each.files) for each in prompts),
        f"<h2>Answer</h2>{_render_answer(result)}",
        *_render_turns(result),
    )
    return PAGE.format(bars=BARS, title=escape_text(title, MAX_NAME), content=content)


def _render_facts(result: Any) -> str:
    seconds, errors = (
        _measure_seconds(result.responses, result.calls),
        sum(made.result.is_error for made in result.calls),
    )
    first = next((turn.started for turn in result.responses if turn.started), 0.0)
    facts = (
        result.model,
        f"{datetime.fromtimestamp(first, timezone.utc):%Y-%m-%d %H:%M} UTC" if first else "",
        format_seconds(seconds) if seconds else "",
        format_count(len(result.responses), "turn") if result.responses else "",
        format_count(len(result.calls), "call"),
        format_count(errors, "error") if errors else "",
        format_tokens(result.state.usage),
        "" if result.cost is None else f"cost {result.cost:.6f}".rstrip("0").rstrip("."),
    )
    mark = "" if result.finish_reason == "stop" else render_pill(result.finish_reason)
    return f'<div class="h">{mark}{render_dim(" · ".join(filter(None, facts)))}</div>'


def _render_answer(result: Any) -> str:
    return render_table(result.output) or render_markdown(str(result), MAX_TEXT) or render_dim("None.", tag="div")


def _render_section(title: str, text: str) -> str:
    return f"<h2>{title}</h2>{render_text(text, MAX_TEXT)}" if text else ""


def _render_turns(result: Any) -> Iterator[str]:
    """Render the picture of the run, and its calls turn by turn, to which the picture links."""
    turns = list_turns(result.state, {made.call.id: make_row(made) for made in result.calls})
    ids = [call_id for turn in turns for call_id in turn.rows]
    links = {call_id: f"call-{number}" for number, call_id in enumerate(ids, 1)}
    if picture := _render_timeline(result.responses, result.calls, links):
        yield f"<h2>Timeline</h2>{picture}"
    if any(turn.rows or turn.reasoning for turn in turns):
        yield "<h2>Calls</h2>"
    for turn in turns:
        yield from _render_turn(turn, links, str(result))


def _render_turn(turn: Turn, links: dict[str, str], answer: str) -> Sequence[str]:
    if not (turn.rows or turn.reasoning):
        return ()  # the answer alone
    name = "Before" if turn.number is None else f"Turn {turn.number + 1}"
    return (
        f"<h3>{name} {render_dim(format_tokens(turn.usage))}</h3>",
        render_folded("Reasoning", render_text(turn.reasoning, MAX_TEXT), is_open=True) if turn.reasoning else "",
        "" if turn.text == answer else render_text(turn.text, MAX_TEXT),
        *(f'<div id="{links[call_id]}">{render_row(row, MAX_TEXT)}</div>' for call_id, row in turn.rows.items()),
    )


@dataclass(frozen=True)
class _Bar:
    label: str
    style: str
    link: str
    started: float
    seconds: float

    @property
    def ended(self) -> float:
        return self.started + self.seconds


def _render_timeline(
    responses: Iterable[TurnFinished], calls: Iterable[ToolCallFinished], links: Mapping[str, str]
) -> str:
    """Render turns and calls as bars, each below the one that started before it; "" where no start is known.

    Args:
        responses: The turns.
        calls: The calls.
        links: Ids of elements of the page by call id, for links.
    """
    bars = sorted((bar for bar in _make_bars(responses, calls, links) if bar.started), key=lambda bar: bar.started)
    if not bars:
        return ""
    start = bars[0].started
    length = max(bar.ended for bar in bars) - start or 1.0
    rows = "".join(_render_bar(bar, start, length) for bar in bars[:MAX_BARS])
    more = f"… {len(bars) - MAX_BARS:,} more" if len(bars) > MAX_BARS else ""
    return f'<ol class="g" aria-label="Timeline">{rows}</ol>{render_dim(more, tag="div")}'


def _measure_seconds(responses: Iterable[TurnFinished], calls: Iterable[ToolCallFinished]) -> float:
    """Return the seconds from the start of the first turn or call to the end of the last; 0 where they are unknown."""
    bars = [bar for bar in _make_bars(responses, calls, {}) if bar.started]
    return max(bar.ended for bar in bars) - min(bar.started for bar in bars) if bars else 0.0


def _make_bars(
    responses: Iterable[TurnFinished], calls: Iterable[ToolCallFinished], links: Mapping[str, str]
) -> Iterator[_Bar]:
    for turn in responses:
        yield _Bar(f"Turn {turn.turn + 1}", "turn", "", turn.started, turn.seconds)
    for made in calls:
        label, style = format_call(made.ran or made.call), ""
        if made.result.is_error:
            label, style = f"Error: {label}", "bad"
        yield _Bar(label, style, links.get(made.call.id, ""), made.started, made.seconds)


def _render_bar(bar: _Bar, start: float, length: float) -> str:
    return _BAR.format(
        tag="a" if bar.link else "span",
        link=f' href="#{bar.link}"' if bar.link else "",
        label=escape_text(bar.label, 2 * MAX_NAME),
        style=bar.style,
        left=(bar.started - start) / length * 100,
        width=bar.seconds / length * 100,
        seconds=format_seconds(bar.seconds),
    )
