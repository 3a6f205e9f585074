"""The answer of a model as Markdown, in what notebooks display."""

from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit import Runner
from toolkit.testing import ScriptedModel

TAGS = {"div", "span", "b", "i", "code", "pre", "ul", "ol", "li", "hr", "blockquote"} | {
    *("table", "thead", "tbody", "tr", "th", "td")
}

HEAD = "<thead><tr><th>a</th><th>b</th></tr></thead>"


def rendered(answer: str) -> str:
    """The HTML of an answer, without the card around it, and without classes."""
    html = Runner(model=ScriptedModel([answer])).run("x")._repr_html_()
    inner = html.partition("</style>")[2].rpartition('<span class="d">0 calls')[0]
    return re.sub(r' (?:class|tabindex)="\w+"', "", inner)


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
        self.open += [] if tag == "hr" else [tag]

    def handle_endtag(self, tag: str) -> None:
        assert tag == self.open.pop()


@pytest.mark.parametrize(
    ("answer", "html"),
    [
        ("Two\nlines.", "<div>Two\nlines.</div>"),
        ("One.\n\nTwo.", "<div>One.</div><div>Two.</div>"),
        ("# A *title* #\ntext", "<div><b>A <i>title</i></b></div><div>text</div>"),
        ("**bold `a*b*`**, _it_, `<b>`", "<div><b>bold <code>a*b*</code></b>, <i>it</i>, <code>&lt;b&gt;</code></div>"),
        ("snake_case_name, __init__, 2*3*4, a ** b", "<div>snake_case_name, __init__, 2*3*4, a ** b</div>"),
        ("- a\n  - b\n- c", "<ul><li>a<ul><li>b</li></ul></li><li>c</li></ul>"),
        ("- a\n1. b\n2. c", '<ul><li>a</li></ul><ol start="1"><li>b</li><li>c</li></ol>'),
        ("**bold *and italic***, **kwargs, *args", "<div><b>bold <i>and italic</i></b>, **kwargs, *args</div>"),
        ("3. a\n\n4. b\n   more", '<ol start="3"><li>a</li><li>b\nmore</li></ol>'),
        ("```py\nif a < b:\n    *c*\n```\nend", "<pre>if a &lt; b:\n    *c*</pre><div>end</div>"),
        ("~~~\nopen", "<pre>open</pre>"),
        ("> quoted\n> **twice**\n\n---", "<blockquote>quoted\n<b>twice</b></blockquote><hr>"),
        (
            "| a | b |\n|---|:-:|\n| `1` | 2 | 3 |",
            f"<div><table>{HEAD}<tbody><tr><td><code>1</code></td><td>2</td></tr></tbody></table></div>",
        ),
        (
            "| a | b |\n|---|---|\n| `int \\| str` | 2 |",
            f"<div><table>{HEAD}<tbody><tr><td><code>int | str</code></td><td>2</td></tr></tbody></table></div>",
        ),
        ("a | b", "<div>a | b</div>"),
    ],
    ids=lambda value: value[:12].replace("\n", " "),
)
def test_markdown(answer: str, html: str) -> None:
    """What models use of Markdown is displayed as such; names and products in plain text stay as they are."""
    assert html == rendered(answer)


def test_links_and_images_are_text() -> None:
    """Neither a link nor an image becomes one: nothing is fetched, and no text hides where a click leads."""
    text = '![x](http://evil/x.png) [here](javascript:alert(1)) <a href="http://evil">y</a> <img src=x onerror=y>'

    assert f"<div>{text}</div>" == unescape(rendered(text))
    assert {"div"} == Balance(rendered(text)).tags


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
