"""The answer of a model as Markdown, in what notebooks display."""

from __future__ import annotations

import re
import sys
from html import unescape
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit import Runner
from toolkit.display.markup import _make_markdown_parser
from toolkit.testing import ScriptedModel

TAGS = {"div", "span", "p", "br", "b", "strong", "em", "code", "pre", "ul", "ol", "li", "hr", "blockquote"} | {
    *("table", "thead", "tbody", "tr", "th", "td")
}

HEAD = "<thead><tr><th>a</th><th>b</th></tr></thead>"


def rendered(answer: str) -> str:
    """The HTML of an answer, without the card around it, and without attributes that only change how it looks."""
    html = Runner(model=ScriptedModel([answer])).run("x")._repr_html_()
    inner = html.partition("</style>")[2].rpartition('<div class="d">0 calls')[0]
    return re.sub(r' (?:class|tabindex|style)="[\w:-]+"', "", inner)


class Balance(HTMLParser):
    """Checks that whatever is opened is closed, and gathers names of tags."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.feed(html)
        self.close()
        assert [] == self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        assert {name for name, _ in attrs} <= {"start"}
        self.open += [] if tag in ("hr", "br") else [tag]

    def handle_endtag(self, tag: str) -> None:
        assert tag in ("hr", "br") or tag == self.open.pop()


@pytest.mark.parametrize(
    ("answer", "html"),
    [
        ("Two\nlines.", "<p>Two<br />lines.</p>"),
        ("One.\n\nTwo.", "<p>One.</p><p>Two.</p>"),
        ("# A *title* #\ntext", "<p><b>A <em>title</em></b></p><p>text</p>"),
        ("**bold `a*b*`**, `<b>`", "<p><strong>bold <code>a*b*</code></strong>, <code>&lt;b&gt;</code></p>"),
        ("snake_case_name, a ** b", "<p>snake_case_name, a ** b</p>"),
        ("- a\n  - b\n- c", "<ul><li>a<ul><li>b</li></ul></li><li>c</li></ul>"),
        ("3. a\n4. b\n   more", '<ol start="3"><li>a</li><li>b<br />more</li></ol>'),
        ("```py\nif a < b:\n    *c*\n```\nend", "<pre>if a &lt; b:    *c*</pre><p>end</p>"),
        ("> quoted\n\n---", "<blockquote><p>quoted</p></blockquote><hr />"),
        (
            "| a | b |\n|---|:-:|\n| `1` | 2 | 3 |",
            f"<div><table>{HEAD}<tbody><tr><td><code>1</code></td><td>2</td></tr></tbody></table></div>",
        ),
        ("a | b", "<p>a | b</p>"),
    ],
    ids=lambda value: value[:12].replace("\n", " "),
)
def test_markdown(answer: str, html: str) -> None:
    """What models use of Markdown is displayed as such."""
    assert html == rendered(answer).replace("\n", "")


def test_without_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without markdown-it-py an answer is displayed as it was written."""
    monkeypatch.setitem(sys.modules, "markdown_it", None)
    _make_markdown_parser.cache_clear()

    assert "<div>**bold** &lt;b&gt;</div>" == rendered("**bold** <b>")


def test_no_control_characters() -> None:
    """An entity is text: it cannot become a character that changes the direction of a text."""
    assert "<p>&amp;#8238;</p>" == rendered("&#8238;").strip()


def test_links_and_images_are_text() -> None:
    """Neither a link nor an image becomes one: nothing is fetched, and no text hides where a click leads."""
    text = '![x](http://evil/x.png) [here](javascript:alert(1)) <a href="http://evil">y</a> <img src=x onerror=y>'

    assert f"<p>{text}</p>" == unescape(rendered(text)).strip()
    assert {"p"} == Balance(rendered(text)).tags


@given(st.text(alphabet="ab1.)#*_`~>|-:+<&\"' \n", max_size=80))
def test_any_text_is_whole_html(text: str) -> None:
    """Whatever is written, each tag is one of a few and is closed."""
    assert Balance(rendered(f"x\n{text}")).tags <= TAGS


@pytest.mark.parametrize(
    "piece", ["**a", "*", "`", "_a ", "- ", " - a\n", "|", "> ", "```\n", "1. a\n", "**a `", "    "]
)
def test_long_repetitions(piece: str) -> None:
    """A text that opens ever more is rendered in a time in proportion to its length."""
    assert Balance(rendered("x\n" + piece * (19_000 // len(piece)))).tags <= TAGS
