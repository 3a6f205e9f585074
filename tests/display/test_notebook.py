"""What notebooks display: runs, tools, toolboxes, results, states."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import sys
import threading
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Annotated, Any, Literal

import pandas as pd
import polars as pl
import pytest
from IPython.lib.pretty import pretty
from pydantic import Field

from toolkit import (
    Halt,
    Image,
    Limits,
    NotFound,
    PendingApproval,
    Runner,
    RunResult,
    RunState,
    Tool,
    Toolbox,
    ToolCall,
    ToolResult,
    Usage,
    tool,
)
from toolkit.approvers import defer
from toolkit.display import Form, Story
from toolkit.events import (
    ApprovalNeeded,
    RunFinished,
    RunStarted,
    TextDelta,
    ToolCallFinished,
    ToolCallStarted,
    ToolCallUpdated,
    TurnFinished,
    TurnStarted,
)
from toolkit.models import ModelResponse
from toolkit.testing import ScriptedModel, call

QUICK = ToolCall(name="load", arguments='{"rows": 3}', id="r_1")
WAITING = PendingApproval(
    call=ToolCall(name="delete", id="r_2"),
    digest="d",
    arguments='{"title": "Dune"}',
    effect="destructive",
    reason="Why.",
)
TAGS = {"div", "style", "details", "summary", "span", "table", "thead", "tbody", "tr", "th", "td", "code", "b", "pre"}
HOSTILE = '<script>alert(1)</script><img src=x onerror="a()"> ![x](http://example.com/?q=1) \u202e\x1b[2J\ud83d'


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(effect="destructive")
def fail() -> str:
    """Fail."""
    raise ValueError("secret")


class Reader(HTMLParser):
    """Gathers the tags, attributes and texts of HTML; whatever is opened has to be closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.cells: list[str] = []
        self.texts: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(html)
        self.close()
        assert [] == self.open

    @property
    def text(self) -> str:
        return "|".join(self.texts)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        self.open += [tag] if tag not in ("br", "img", "hr") else []
        self.cells += [""] if tag == "td" else []

    def handle_endtag(self, tag: str) -> None:
        assert tag in ("br", "hr") or tag == self.open.pop()

    def handle_data(self, data: str) -> None:
        if data == "\n" or self.open[-1] == "style":
            return
        self.texts.append(data)
        if "td" in self.open:
            self.cells[-1] += data


def displayed(value: Any) -> Reader:
    """What a notebook displays of a value."""
    return Reader(rendered(value))


def rendered(value: Any) -> str:
    html = value._repr_html_()
    assert isinstance(html, str)
    return html


def made(
    *calls: ToolCallFinished, output: Any = "", usage: Usage = Usage(), model: str = "m", **more: Any
) -> RunResult:
    """A result with calls that all belong to one turn."""
    response = ModelResponse(calls=tuple(each.call for each in calls), usage=usage, **more)
    state = RunState(run_id="r", messages=(response,), turns=1, usage=usage)
    return RunResult(
        output=output, messages=(response,), calls=calls, usage=usage, finish_reason="stop", model=model, state=state
    )


def run(*script: Any, **options: Any) -> RunResult:
    return Runner([add, fail], model=ScriptedModel(script), max_turns=2, **options).run("x")


# -- runs


def test_result_of_a_run() -> None:
    """The answer comes first; a timeline of turns and calls unfolds, each with arguments, result and duration."""
    card = displayed(run(call("add", a=1, b=2), [ToolCall(name="add", arguments="[1]"), call("fail")], "It is 3."))
    first = r"Turn 1\|add\|\d+ ms\|a = \|1\|b = \|2\|3"
    second = r"Turn 2\|add\|error\|\d+ ms\|\[1\]\|Invalid arguments.*\|fail\|error\|\d+ ms\|fail failed: ValueError.*"

    assert re.fullmatch(rf"(?s)It is 3\..*\|3 calls · 2 errors · scripted\|{first}\|{second}", card.text)
    assert "open" in dict(card.attributes)  # it has errors
    assert "open" not in dict(displayed(run(call("add", a=1, b=2), "It is 3.")).attributes)


def test_tokens_of_a_turn() -> None:
    """Tokens stand beside each turn, and in the summary."""
    text = displayed(made(ToolCallFinished(QUICK, ToolResult(3, "3"), 2.3), usage=Usage(1200, 5, 1))).text

    assert "1 call · 1,200 tokens in, 5 out · m|Turn 1|1,200 tokens in, 5 out|load|2.3 s|rows = |3|3" == text


def test_reasoning_of_a_call_and_of_a_turn() -> None:
    """Why the model made a call stands below its arguments; the reasoning of the turn is folded."""
    asked = ToolCall(name="add", reasoning="They asked.", id="r_0")
    card = displayed(made(ToolCallFinished(asked, ToolResult(3, "3"), 0.1), reasoning="Hm.", text="I add."))

    assert card.text.endswith("Turn 1|Reasoning|Hm.|I add.|add|100 ms|They asked.|3")
    assert 2 == card.tags.count("details")


def test_result_without_calls() -> None:
    """Where there were no calls there is nothing to unfold."""
    card = displayed(run("Hello."))

    assert ("Hello.|0 calls · scripted", False) == (card.text, "details" in card.tags)


def test_calls_of_an_earlier_run() -> None:
    """The timeline has the turns of its own run, not those of the conversation before it."""
    runner = Runner([add], model=ScriptedModel([call("add", a=1, b=2), "Three.", "Bye."]))
    second = runner.run("Thanks.", messages=runner.run("x").messages)

    assert "Bye.|0 calls · scripted" == displayed(second).text


def test_unusual_end() -> None:
    """A result says by what its run ended."""
    text = displayed(run(call("add", a=1, b=2), call("add", a=1, b=2), "It is 3.")).text

    assert text.startswith("It is 3.|\n[stopped: max_turns]|2 calls · scripted")


def test_paused_run() -> None:
    """What waits for approval stands above the folded calls, with its arguments; and so it does in the state."""
    paused = run(
        [call("add", a=1, b=2), call("fail")],
        approve=lambda request: defer(request) if request.name == "fail" else True,
    )
    result, state = displayed(paused), displayed(RunState.from_json(paused.state.to_json()))

    assert result.text.startswith("fail|waits for approval|destructive|{}|2 calls · scripted|Turn 1|add|"), result.text
    assert state.text.startswith(
        "fail|waits for approval|destructive|{}|2 calls · 2 messages|Turn 1|add|a = |1|b = |2|3"
    )


def test_pending_approval() -> None:
    """A pending approval has the call, its arguments, its effect and the reason."""
    assert 'delete|waits for approval|destructive|{"title": "Dune"}|Why.' == displayed(WAITING).text
    assert "The model of Ann asks.\nWhy." in displayed(dataclasses.replace(WAITING, agent="Ann")).text


def test_misleading_arguments_to_approve() -> None:
    """What is to be approved is not decoded: invisible characters and new lines stay escapes."""
    misleading = PendingApproval(call=WAITING.call, digest="d", arguments=r'{"title": "Du\u200bne\nnote = \"ok\""}')

    assert displayed(misleading).text.endswith(r'|{"title": "Du\u200bne\nnote = \"ok\""}')


def test_structured_output_as_a_table() -> None:
    """An answer that is a list of objects is a table."""
    card = displayed(made(output=[{"name": "Ann", "age": 3}, {"name": "Bob", "size": [1, 2]}]))

    assert ["Ann", "3", "", "Bob", "", "[1, 2]"] == card.cells


def test_everything_is_text() -> None:
    """Nothing that a model or a tool wrote becomes markup: no script, no picture, no link, no control character."""
    hostile_call = ToolCall(name=HOSTILE, arguments='{"a": "<b>"}', reasoning=HOSTILE, id="r_0")
    done = ToolCallFinished(hostile_call, ToolResult(text=HOSTILE, error=HOSTILE), 0.1, title=HOSTILE)
    other = ToolCallFinished(
        ToolCall(name="f", arguments=f'{{"a": "{HOSTILE}"}}', id="r_1"), ToolResult(text="{}"), 0.1
    )
    result = made(done, other, output=HOSTILE, model=HOSTILE, text=HOSTILE, reasoning=HOSTILE)
    text = HOSTILE.replace("\ud83d", "")  # a schema is JSON
    declared = Tool.from_schema(
        "t",
        {
            "type": "object",
            "description": text,
            "properties": {text: {"enum": [text], "default": text, "description": text, "pattern": "<b>"}},
        },
        title=text,
    )
    table = ToolResult([{HOSTILE: HOSTILE}], HOSTILE, HOSTILE, kind=HOSTILE, repairs=(HOSTILE,))
    for each in (result, declared, Toolbox([declared]), Runner([declared], model=HOSTILE, instructions=HOSTILE), table):
        html = rendered(each)
        card = Reader(html)
        assert {*card.tags} <= TAGS | {"p"}
        assert {"style", "class", "open", "tabindex"} >= {name for name, _ in card.attributes}
        body = html.partition("</style>")[2]
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f\u202e\ud800-\udfff]", body)


def test_pictures() -> None:
    """A tool's picture is shown from its bytes; what is no picture by its media type is not."""
    images = (Image(b"\x00", 'image/png; a="onload="b()"'), Image(b"\x00", "text/html"))
    result = ToolResult(text="", images=images)
    for value in (result, made(ToolCallFinished(QUICK, result, 0.1))):
        html = rendered(value)
        assert ["data:image/png;base64,AA=="] == [value for name, value in Reader(html).attributes if name == "src"]
        assert "onload" not in html


def test_calls_of_a_result() -> None:
    """IPython displays each call of a list in a short form, in a terminal and in a notebook."""
    done = ToolCallFinished(QUICK, ToolResult(42, "42"), 0.1)
    assert "(load(rows=3) -> 42, load(rows=3) -> 42)" == pretty((done, done))  # type: ignore[no-untyped-call]


def test_long_texts() -> None:
    """Long texts are cut: a notebook keeps what it displays."""
    other = ToolCall(name="load", id="r_3")
    done = [ToolCallFinished(each, ToolResult(text="y" * 10**6), 0.1) for each in (QUICK, other)]

    assert len(rendered(made(*done, output="x" * 10**6))) < 40_000


def test_text_of_many_lines() -> None:
    """A text of many short lines scrolls, as a long one does."""
    for lines, start in ((20, '<div class="t">'), (60, '<div class="t s" tabindex="0">')):
        result = ToolResult(text="line\n" * lines)
        assert f"{start}line\n" in rendered(made(ToolCallFinished(QUICK, result, 0.1)))


def test_colours_are_the_notebooks() -> None:
    """No background hides a dark page, and no text has a colour of its own: all are mixed with the page's."""
    style = rendered(run("Hello.")).partition("</style>")[0]
    colours = re.findall(r"(?<![-\w])(?:background|color|--[gbw]):([^;}]+)", style)

    assert "var(--jp-" in style and len(colours) > 5
    assert all(
        re.fullmatch(r"inherit|var\(--[sgbw]\)(?:!important)?|color-mix\(.*,currentColor\)", each) for each in colours
    )


def test_look_of_code() -> None:
    """Blocks of code have their font and their box in JupyterLab, too, whose own rules for `pre` would win."""
    (rule,) = re.findall(r"\.tk pre\{(.*?)\}", rendered(run("Hello.")), re.S)

    assert re.match(r"font-family:[^;}]*monospace", rule)
    assert ["background", "padding", "margin"] == re.findall(r"([a-z]+):[^;:]*!important", rule)


def test_prices() -> None:
    """MathJax, which would make a formula of what is between two dollar signs, is told to leave the card alone."""
    card = displayed(run("One costs $5, the other $10."))

    assert card.attributes[0] == ("class", "tk tex2jax_ignore mathjax_ignore")
    assert card.text.startswith("One costs $5, the other $10.")


def test_direction_of_text() -> None:
    """The direction of a text is that of its first word, so the full stop of a Hebrew sentence is on its left."""
    assert ".tk .t,.tk p,.tk li,.tk td{unicode-bidi:plaintext;text-align:left}" in rendered(run("Hello."))


def test_story_of_a_structured_output() -> None:
    """The answer of an active run is no Markdown if it is JSON."""
    story = Story([TurnStarted(turn=0), TextDelta('{"month": "*Jan*"}')])

    assert displayed(story).text.startswith('{"month": "*Jan*"}|')


def test_story() -> None:
    """Events make a card that grows: calls run, report progress, wait, and have results; the answer comes last."""
    story = Story([RunStarted(run_id="r", model="m"), TurnStarted(turn=0), TextDelta("Hm."), ToolCallStarted(QUICK)])
    started = displayed(story)
    story.add(ToolCallUpdated(QUICK, "50 %"))
    halfway = displayed(story)
    story.add(ToolCallFinished(QUICK, ToolResult(3, "3"), 0.5))
    story.add(ApprovalNeeded(WAITING))
    story.add(TurnStarted(turn=1))
    story.add(TextDelta("Th"))
    story.add(RunFinished(output="Three.", finish_reason="stop", usage=Usage()))

    assert "Hm.|1 call · m|Turn 1|load|running|rows = |3" == started.text
    assert started.text + "|50 %" == halfway.text
    assert displayed(story).text.startswith(
        "Three.|2 calls · m|Turn 1|load|500 ms|rows = |3|3|delete|waits for approval"
    )


def test_story_of_a_resumed_run() -> None:
    """A call of an earlier response, which runs before the first turn, comes before it."""
    story = Story([ToolCallStarted(QUICK), ToolCallFinished(QUICK, ToolResult(3, "3"), 0.5), TurnStarted(turn=1)])

    assert displayed(story).text.startswith("1 call|Before|load|500 ms|rows = |3|3")


def test_repr() -> None:
    """Where there is no HTML, a line says what it is."""
    story = Story([TurnStarted(turn=0), ToolCallStarted(QUICK)])

    assert ("<Story, 1 call>", "<Form of <Tool add(a: int, b: int) -> int>>") == (repr(story), repr(Form(add)))


@pytest.mark.parametrize("place", ["tool", "hook"])
def test_run_that_is_halted(place: str, tmp_path: Path) -> None:
    """The calls of a run that a Halt ends are in their turn, and its page has its prompt, in a later run, too."""

    def close(*_: Any) -> None:
        raise Halt("Closed.")

    hook = type("Hook", (), {"after_call": staticmethod(close)})()
    made = tool(lambda: close() if place == "tool" else 1, name="buy")
    runner = Runner([made], model=ScriptedModel(lambda _: call("buy")), hooks=[hook] if place == "hook" else [])
    first = runner.run("One, please.")
    second = runner.run("Another one.", messages=first.messages)
    for result in (first, second):
        assert displayed(result).text.startswith("Closed.|\n[stopped: halted]|1 call · 1 error · scripted|Turn 1|buy|")
    second.save(tmp_path / "run.html")
    page = (tmp_path / "run.html").read_text(encoding="utf-8")

    assert "Another one." in page and "One, please." not in page


def test_stream_and_handle() -> None:
    """A stream says what to do, then has its result; a handle has its status and what has happened."""
    stream = Runner([add], model=ScriptedModel([call("add", a=1, b=2), "Three."])).stream("x")
    before = displayed(stream)
    list(stream)
    handle = Runner([add], model=ScriptedModel([call("add", a=1, b=2), "Three."])).start("x")
    handle.result()

    assert before.text.startswith("not ended|")
    assert displayed(stream).text.startswith("Three.|1 call · scripted|Turn 1|add|")
    assert displayed(handle).text.startswith("completed|Three.|1 call · scripted|Turn 1|add|")


def test_handle_without_calls() -> None:
    """The counts of a run stand below its status."""
    is_asked = threading.Event()
    handle = Runner(model=ScriptedModel(lambda _: "Hi." if is_asked.wait(30) else "")).start("x")
    html = rendered(handle)
    is_asked.set()
    handle.result()

    assert '</span><div class="d">0 calls' in html


def test_interrupted_call() -> None:
    """A call that was interrupted has no duration, since nobody knows it."""

    @tool
    def wait() -> None:
        """Wait."""
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        Runner([wait], model=ScriptedModel([call("wait")])).run("x")

    assert "Turn 1|wait|error|Cancelled" in displayed(caught.value.result).text  # type: ignore[attr-defined]


def test_failed_handle() -> None:
    """Why a run in the background failed is readable."""
    started = Runner(model=ScriptedModel([])).start("x")
    with pytest.raises(Exception):  # noqa: PT011, B017
        started.result()

    assert displayed(started).text.startswith("failed|error|ScriptError: ")


# -- tools, toolboxes, runners


@tool(effect="read", trust="foreign", title="Weather", timeout=2.5, retries=1)
def get_weather(
    city: str, days: Annotated[int, Field(ge=1, le=14)] = 3, unit: Literal["celsius", "kelvin"] = "celsius"
) -> list[float]:
    """Forecast the weather.

    Args:
        city: Name of a city.
        days: Number of days.
    """
    return []


def test_tool() -> None:
    """A tool has its signature, description, parameters, effect, trust and source."""
    card = displayed(get_weather)
    head = "get_weather(city, days=3, unit='celsius') -> list[float]|Weather"
    marks = "read| |trust: foreign| |timeout 2.5 s| |1 retry"

    assert card.text.startswith(f"{head}|{marks}|Forecast the weather.|"), card.text
    assert card.cells == [
        *("city", "str", "Name of a city."),
        *("days", "int = 3maximum 14, minimum 1", "Number of days."),
        *("unit", "Literal['celsius', 'kelvin'] = 'celsius'", ""),
    ]
    assert re.search(r"Source: .*get_weather", card.text)


def test_toolbox_and_runner() -> None:
    """A toolbox is a table of its tools; a runner has its model, instructions and limits, too."""
    box = Toolbox([get_weather, fail])
    runner = Runner(box, model="gpt-x", instructions="Be brief.", limits=Limits(max_seconds=5))

    cells = [
        "get_weatherWeatherread trust: foreign timeout 2.5 s 1 retry",
        "city, days?, unit?",
        "Forecast the weather.",
    ]
    assert [*cells, "faildestructive", "", "Fail."] == displayed(box).cells
    assert displayed(runner).text.startswith("Runner|gpt-x|max_turns = 10 · max_seconds = 5|Be brief.|Tool|")
    assert displayed(box).cells == displayed(runner).cells
    assert "No tools." == displayed(Toolbox()).text


def test_tool_that_cannot_be_described() -> None:
    """What is wrong with a tool is displayed; displaying it does not raise."""

    class Odd:
        """No type for a model."""

    @tool
    def odd(value: Odd) -> str:
        """Odd."""
        return ""

    assert "odd(...)|Odd.|error|" in displayed(odd).text
    assert "|error|" in displayed(Toolbox([odd])).text


# -- results of calls


@dataclass
class Sale:
    month: str
    units: int


TABLES: dict[str, Any] = {
    "mappings": [{"month": "Jan", "units": 3}, {"month": "Feb", "units": 5}],
    "dataclasses": [Sale("Jan", 3), Sale("Feb", 5)],
    "pandas": pd.DataFrame({"month": ["Jan", "Feb"], "units": [3, 5]}),
    "polars": pl.DataFrame({"month": ["Jan", "Feb"], "units": [3, 5]}),
}


@pytest.mark.parametrize("value", TABLES.values(), ids=TABLES)
def test_table(value: Any) -> None:
    """Rows are a table, whatever they are made of."""
    card = displayed(ToolResult(value, text="for the model"))

    assert ["month", "units"] == card.texts[:2]
    assert ["Jan", "3", "Feb", "5"] == card.cells


@pytest.mark.parametrize("output", [{"month": "*Jan*", "units": 3}, Sale("*Jan*", 3)], ids=["dict", "dataclass"])
def test_structured_output(output: object) -> None:
    """An answer with fields is JSON, and no Markdown."""
    assert displayed(made(output=output)).text.startswith('{"month": "*Jan*", "units": 3}|')


def test_long_table() -> None:
    """A long table is cut, and the rest counted."""
    for value in ([{"n": n} for n in range(1000)], pd.DataFrame({"n": range(1000)})):
        card = displayed(ToolResult(value))
        assert (50, "… 950 more rows") == (len(card.cells), card.texts[-1])


def test_almost_whole_table() -> None:
    """One row that is left out is counted in the singular; large numbers have commas."""
    assert "… 1 more row" == displayed(ToolResult([{"n": n} for n in range(51)])).texts[-1]
    assert "… 4,950 more rows" == displayed(ToolResult([{"n": n} for n in range(5000)])).texts[-1]


def test_tables_among_calls() -> None:
    """A table that a call returned has ten rows in the timeline of its run, and where the call is displayed alone."""
    frame = pd.DataFrame({"day": range(1000), "rain": 0.5})
    result = Runner([tool(lambda: frame, name="read")], model=ScriptedModel([call("read"), "Wet."])).run("x")

    for card in (displayed(result), displayed(result.calls[0])):
        assert (20, "… 990 more rows") == (len(card.cells), card.texts[-1])
        assert "read" in card.texts


def test_page_of_a_table(tmp_path: Path) -> None:
    """A saved page has the whole text of a table, as the model read it."""
    frame = pd.DataFrame({"day": range(100), "rain": 0.5})
    result = Runner([tool(lambda: frame, name="read")], model=ScriptedModel([call("read"), "Wet."])).run("x")
    result.save(tmp_path / "run.html")

    assert "day,rain\n0,0.5\n" in (tmp_path / "run.html").read_text()
    assert "\n99,0.5" in (tmp_path / "run.html").read_text()


def test_image() -> None:
    """An image is displayed."""
    (source,) = [value for name, value in displayed(Image(b"\0", "image/png")).attributes if name == "src"]

    assert "data:image/png;base64,AA==" == source


def test_partial_table() -> None:
    """A table beside an error stays the text of both."""
    finished = ToolCallFinished(QUICK, ToolResult([{"n": 1}], '[{"n":1}]\nno more', "no more"), 0.1)

    assert [] == displayed(made(finished)).cells


def test_text_and_error_of_a_call() -> None:
    """A value that is not a table is its text; an error has its kind and text, without the exception's own."""
    box = Toolbox([add, fail])

    assert "3" == displayed(box.call("add", {"a": 1, "b": 2})).text
    assert '{"a": [1]}' == displayed(ToolResult({"a": [1]})).text
    assert displayed(box.call("fail")).text.startswith("failed|fail failed: ValueError")
    assert "secret" not in rendered(box.call("fail"))
    assert "not_found|Tool not found: No such book." == displayed(ToolResult.from_error(NotFound("No such book."))).text


# -- loading


def test_display_is_loaded_by_need() -> None:
    """Neither tools nor runners load what displays them."""
    code = "import sys\nfrom toolkit import Runner, Toolbox, tool\nassert 'toolkit.display' not in sys.modules"

    subprocess.run([sys.executable, "-c", code], check=True)


def test_page(tmp_path: Path) -> None:
    """A run is saved as a page that fetches nothing and shows what was said as text."""

    def look(place: str) -> str:
        """Look at a place."""
        return f"<img src=http://127.0.0.1/{place}>"

    calls = [call("look", place="<b>Oslo</b>"), call("look", place="Rome")]
    model = ScriptedModel([calls, "<script>alert(1)</script>"])
    Runner([look], model=model).run("Where is <i>it</i>?").save(tmp_path / "run.html")
    page = (tmp_path / "run.html").read_text(encoding="utf-8")

    assert page.startswith("<!doctype html>")
    assert [] == re.findall(r"<(?:script|img|i)\b|<b>Oslo", page)
    shown = ("Where is &lt;i&gt;it", "&lt;b&gt;Oslo", "http://127.0.0.1/Rome", "&lt;script&gt;alert")
    assert [] == [text for text in shown if text not in page]
    assert "<details" not in page  # nothing is folded


def test_page_has_a_timeline(tmp_path: Path) -> None:
    """The page draws turns and calls on one scale of time; each call links to its arguments and result."""
    slow, quick = (
        ToolCallFinished(ToolCall(name=name, id=name), result, seconds, started=101.0)
        for name, result, seconds in (
            ("slow", ToolResult(1, "1"), 3.0),
            ("quick", ToolResult(text="no", error="no"), 1.0),
        )
    )
    result = made(slow, quick, output="Done.")
    turn = TurnFinished(turn=0, response=ModelResponse(), seconds=1.0, started=100.0)
    result = dataclasses.replace(result, responses=(turn,))
    result.save(tmp_path / "run.html")
    page = (tmp_path / "run.html").read_text(encoding="utf-8")
    bars = re.findall(r'class="n">(.*?)</(?:a|span)>.*?style="(.*?)"', page)

    assert [
        ("Turn 1", "left:0.00%;width:25.00%"),
        ("slow()", "left:25.00%;width:75.00%"),
        ("Error: quick()", "left:25.00%;width:25.00%"),
    ] == bars
    assert re.findall(r'href="#(.*?)"', page) == re.findall(r'id="(.*?)"', page) == ["call-1", "call-2"]
    assert "4.0 s · 1 turn · 2 calls · 1 error" in page


def test_page_has_whole_texts(tmp_path: Path) -> None:
    """The page cuts no text that a notebook would cut, so that a browser's search finds all of it."""
    result = made(ToolCallFinished(QUICK, ToolResult(text="y" * 50_000 + "end"), 0.1), output="x" * 50_000 + "end")
    result.save(tmp_path / "run.html")

    assert 2 == (tmp_path / "run.html").read_text(encoding="utf-8").count("end</")


def test_story_of_a_paused_run() -> None:
    """Once a run has paused, the call of its sub-agent that waits is shown as paused, not as running."""
    worker = Runner([add], model=ScriptedModel([call("add", a=1, b=2)]), approve=defer)
    runner = Runner([worker.as_tool("clerk", "work")], model=ScriptedModel([call("clerk", query="Add.")]))
    text = displayed(Story(runner.stream("go"))).text

    assert "|clerk|paused|" in text and "|add|waits for approval|" in text and "running" not in text


def test_page_of_a_paused_run(tmp_path: Path) -> None:
    """The page of a paused run has the calls that wait among its calls, and says so where the answer would be."""
    Runner([fail], model=ScriptedModel([call("fail")]), approve=defer).run("x").save(tmp_path / "run.html")
    text = Reader((tmp_path / "run.html").read_text("utf-8").partition("<main>\n")[2].partition("\n</main>")[0]).text

    assert "|Answer|Calls wait for approval.|" in text and "|Calls|Turn 1|fail|waits for approval|" in text


@pytest.mark.parametrize("first", [[], [""]], ids=["", "empty"])
def test_page_of_a_later_run(first: list[str], tmp_path: Path) -> None:
    """The prompt is that of the run itself; what the model was sent later stands where it came."""
    model = ScriptedModel(["Hello.", *first, call("add", a=1, b=2), call("add", a=1, b=2), "Three."])
    runner = Runner([add], model=model, max_turns=1 + len(first))
    runner.run("What is it?", messages=runner.run("Hi!").messages).save(tmp_path / "run.html")
    text = Reader((tmp_path / "run.html").read_text("utf-8").partition("<main>\n")[2].partition("\n</main>")[0]).text

    assert "|Prompt|What is it?|Answer|" in text and "Hi!" not in text
    assert "|3|Message|You have used all available tool calls." in text


def test_page_without_pictures_of_tools_among_the_prompts(tmp_path: Path) -> None:
    """Pictures that tools returned stand beside their calls, not among the user's prompts."""

    def draw() -> Image:
        """Draw."""
        return Image(b"\0", "image/png")

    Runner([draw], model=ScriptedModel([call("draw"), "Done."])).run("Draw.").save(tmp_path / "run.html")

    assert 1 == (tmp_path / "run.html").read_text(encoding="utf-8").count("<img")


def test_json_of_a_call() -> None:
    """Objects and lists are code, long ones in several lines, and other texts stay as they are."""
    value = {"order": 7, "items": [{"sku": number} for number in range(9)]}
    row = made(ToolCallFinished(ToolCall(name="ship", arguments=json.dumps(value), id="r_0"), ToolResult(value), 0.1))
    written = "\n".join(["[", *(f'  {{"sku": {number}}},' for number in range(8)), '  {"sku": 8}', "]"])

    assert f"order = |7|items = |{written}" in displayed(row).text
    assert '{\n  "order": 7,\n  "items": [\n    {"sku": 0},' in displayed(ToolResult(value)).text
    assert "{not JSON}" == displayed(ToolResult(text="{not JSON}")).text


def test_plain_text() -> None:
    """Where there is no HTML, a state is one line, and a result has a text only where it is not the value itself."""
    state = Runner([fail], model=ScriptedModel([call("fail")]), approve=defer).run("x").state

    assert f"<RunState {state.run_id}, paused, messages: 2, turns: 1, pending: 1>" == repr(state)
    assert "ToolResult(value='sunny')" == repr(ToolResult("sunny", "sunny"))
    assert "ToolResult(value=3, text='3')" == repr(ToolResult(3, "3"))
