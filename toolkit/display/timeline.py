"""The turns and calls of a run as bars on one scale of time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from toolkit.display.formatting import escape_text, format_call
from toolkit.display.markup import MAX_NAME, format_seconds, render_dim
from toolkit.events import ToolCallFinished, TurnFinished

MAX_BARS = 500
# For a page whose content is a card.
STYLE = """.tk .g{list-style:none;padding:0;margin:.5em 0}
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


def render_timeline(
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


def measure_seconds(responses: Iterable[TurnFinished], calls: Iterable[ToolCallFinished]) -> float:
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
