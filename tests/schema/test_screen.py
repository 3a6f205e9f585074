"""What people are shown before they say yes: the values themselves, and nothing that hides in them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit import ApprovalRequest, ToolContext, tool
from toolkit.approvers import shorten_middle

HIDDEN = {
    "override": ("pay \u202ebob", r"pay \u202ebob"),
    "isolate": ("\u2066a\u2069", r"\u2066a\u2069"),
    "zero width": ("pa\u200by", r"pa\u200by"),
    "joiner": ("a\u2060b", r"a\u2060b"),
    "byte order": ("\ufeffa", r"\ufeffa"),
    "soft hyphen": ("a\xadb", r"a\u00adb"),
    "no-break space": ("a\xa0b", r"a\u00a0b"),
    "ideographic space": ("a\u3000b", r"a\u3000b"),
    "escape": ("\x1b[2Ja", r"\u001b[2Ja"),
    "backspace": ("a\bb", r"a\u0008b"),
    "carriage return": ("a\rb", r"a\u000db"),
    "delete": ("a\x7fb", r"a\u007fb"),
    "c1": ("a\x9bb", r"a\u009bb"),
    "null": ("a\x00b", r"a\u0000b"),
    "line separator": ("a\u2028b", r"a\u2028b"),
    "tag": ("a\U000e0041b", r"a\udb40\udc41b"),
    "variation": ("a\ufe0fb", r"a\ufe0fb"),
    "more variation": ("a\U000e0100b", r"a\udb40\udd00b"),
    "filler": ("a\u3164b", r"a\u3164b"),
    "grapheme joiner": ("a\u034fb", r"a\u034fb"),
    "blank": ("a\u2800b", r"a\u2800b"),
    "half a character": ("a\ud800b", r"a\ud800b"),
    "private": ("a\ue000b", r"a\ue000b"),
    "unassigned": ("a\u0378b", r"a\u0378b"),
    "Cyrillic in Latin": ("p\u0430ypal", r"p\u0430ypal"),
    "Greek in Latin": ("pa\u03bfl", r"pa\u03bfl"),
    "wide in Latin": ("\uff50ay", r"\uff50ay"),
    "Roman numeral in Latin": ("paypa\u217c", r"paypa\u217c"),
    "Latin alpha": ("p\u0251ypal", r"p\u0251ypal"),
    "small capital": ("\u1d18aypal", r"\u1d18aypal"),
    "ligature": ("\ufb01ne", r"\ufb01ne"),
    "Georgian in Latin": ("pay\u10e7", r"pay\u10e7"),
    "Hebrew in Latin": ("\u05d5ist", r"\u05d5ist"),
    "Thai in Latin": ("p\u0e32y", r"p\u0e32y"),
    "foreign digit in Latin": ("pay\u0966", r"pay\u0966"),
    "mathematical in Latin": ("\U0001d429ay", r"\ud835\udc29ay"),
}


@tool
def look(value: int) -> None:
    """Look."""


def show(title: str) -> str:
    """Return a tool's title as people are shown it."""
    return ApprovalRequest(tool(look, title=title), {"value": 1}, ToolContext(deps=None)).to_pending().title


@pytest.mark.parametrize(("text", "seen"), HIDDEN.values(), ids=HIDDEN)
def test_hidden(text: str, seen: str) -> None:
    """What is not seen, turns the text round or passes for a Latin letter is shown as an escape."""
    assert seen == show(text)


@pytest.mark.parametrize(
    "text",
    [
        "pay 5",
        "Grüße",
        "привет мир",
        "καλημέρα",
        "東京Tower",
        "日本語",
        "नमस्ते",
        "😀",
        "a + b = c",
        "5 m² µm Nº",
        "kɔ ŋutɔ ılık",
        "",
    ],
    ids=repr,
)
def test_plain(text: str) -> None:
    """Texts of whatever language are shown as they are."""
    assert text == show(text)


VALUES: dict[str, tuple[Any, str]] = {
    "number": (5, "5"),
    "text": ("a\nb", r'"a\nb"'),
    "override": ("\u202ea", r'"\u202ea"'),
    "written escape": (r"\u202ea", r'"\\u202ea"'),
    "set": ({"a"}, '["a"]'),
    "bytes": (b"a", '"a"'),
    "not a number": (float("nan"), "NaN"),
    "half a character": ("\ud800", r'"\ud800"'),
    "a key": ({"\u202ea": 1}, r'{"\u202ea": 1}'),
}


def render_arguments(values: dict[str, Any], indent: int | None = None) -> str:
    """Write the values of a request as JSON."""
    return ApprovalRequest(look, values, ToolContext(deps=None)).render_arguments(indent)


@pytest.mark.parametrize(("value", "text"), VALUES.values(), ids=VALUES)
def test_values(value: Any, text: str) -> None:
    """Values are rendered as JSON; escapes differ from texts that look like some."""
    assert f'{{"value": {text}}}' == render_arguments({"value": value})


def test_object() -> None:
    """What JSON does not know is rendered by its repr."""
    assert '{"value": "<object ' in render_arguments({"value": object()})


# A key that begins with an underscore may be about the call.
NAMES = st.text().filter(lambda name: not name.startswith("_"))


@given(st.dictionaries(NAMES, st.recursive(st.text() | st.integers() | st.none(), st.lists, max_leaves=20)))
def test_round_trip(values: dict[str, Any]) -> None:
    """A reader of what is shown gets the values themselves."""
    assert values == json.loads(render_arguments(values))
    assert values == json.loads(render_arguments(values, indent=2))


@given(st.text())
def test_nothing_unprintable(text: str) -> None:
    """No character is left that a terminal acts on, or shows nothing for."""
    assert show(text).isprintable()


def test_short() -> None:
    """A text of the bound's length is left whole."""
    assert "a" * 100 == shorten_middle("a" * 100, 100)


def test_long() -> None:
    """Of a long text the middle is left out; its length and digest tell it from others with the same ends."""
    one, other = (shorten_middle("a" * 90 + middle + "b" * 90, 100) for middle in "xy")

    assert "\n... 81 of 181 characters are not shown here; SHA-256 of all: " in one
    assert (True, True, True) == (one != other, one.startswith("a" * 75 + "\n"), one.endswith("\n" + "b" * 25))
