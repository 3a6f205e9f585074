"""Saved pages and cards in a browser: skipped where Chromium is not installed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.browser import NEEDS_AXE, NEEDS_CHROMIUM, SCHEMES, audit, browse
from toolkit import Runner, Toolbox, ToolError, tool
from toolkit.approvers import defer
from toolkit.testing import ScriptedModel, call

ROOT = Path(__file__).parents[2]
DARK, LIGHT = (22, 24, 28), (255, 255, 255)


@NEEDS_CHROMIUM
@pytest.mark.parametrize(("scheme", "background"), [("0", DARK), ("1", LIGHT)], ids=["dark", "light"])
def test_saved_page_in_a_browser(tmp_path: Path, scheme: str, background: tuple[int, int, int]) -> None:
    """The page has the colours that the reader prefers, and a picture of turns and calls, without a script."""
    PIL = pytest.importorskip("PIL.Image")

    def look(place: str) -> str:
        """Look at a place."""
        return "<script>document.body.remove()</script>"

    model = ScriptedModel([call("look", place="pond"), "<img src=x onerror='document.body.remove()'>"])
    Runner([look], model=model).run("What is there?").save(tmp_path / "run.html")
    options = [f"--blink-settings=preferredColorScheme={scheme}", "--window-size=400,900"]
    browse((tmp_path / "run.html").as_uri(), tmp_path / "profile", *options, f"--screenshot={tmp_path / 'a.png'}")
    picture = PIL.open(tmp_path / "a.png").convert("RGB")
    colours = [colour for _, colour in picture.getcolors(picture.width * picture.height)]

    assert background == picture.getpixel((3, 3))
    assert any(blue - red > 60 for red, _, blue in colours)  # the bar of a turn
    assert any(green - red > 40 and green - blue > 40 for red, green, blue in colours)  # and of a call


@tool(effect="read")
def look(place: str, times: int = 1) -> list[dict[str, str]]:
    """Look at a place.

    Args:
        place: Where.
    """
    if place == "pond":
        raise ToolError(f"There is no {place}.")
    return [{"place": place, "seen": "x" * 3000}]


@tool(effect="destructive")
def drain(place: str) -> str:
    """Drain a place."""
    return "drained"


def run(**options: Any) -> Any:
    """A run with an error, a long result and reasoning."""
    calls = [
        call("look", place="pond"),
        call("look", place="sea", _reasoningForCall="It is near."),
        call("drain", place="sea"),
    ]
    model = ScriptedModel([calls, "# Nothing\n\n- `no` pond\n\n> none"])
    return Runner([look, drain], model=model, instructions="Look.", **options).run("What is there?")


@NEEDS_AXE
@SCHEMES
def test_accessible_page(tmp_path: Path, scheme: str) -> None:
    """axe-core finds nothing to mend in saved pages, in dark and in light."""
    for result in (run(), run(approve=defer)):
        result.save(tmp_path / "run.html")
        assert [] == audit((tmp_path / "run.html").read_text("utf-8"), tmp_path, scheme)


@NEEDS_AXE
@SCHEMES
def test_accessible_cards(tmp_path: Path, scheme: str) -> None:
    """axe-core finds nothing to mend in what a notebook displays, in dark and in light."""
    paused = run(approve=defer)
    values = [look, Toolbox([look, drain]), run(), paused, paused.state, look.invoke('{"place": "sea"}')]
    colours = ":root{color-scheme:light dark;background:Canvas;color:CanvasText}"
    head = f'<!doctype html><html lang="en"><title>Cards</title><style>{colours}</style><main><h1>Cards</h1>'
    cards = "".join(value._repr_html_() for value in values).replace("<details", "<details open")

    assert [] == audit(f"{head}{cards}</main>", tmp_path, scheme)


@NEEDS_AXE
def test_faults_of_the_documentation(tmp_path: Path) -> None:
    """axe-core finds no serious fault in a page of the reference."""
    pytest.importorskip("zensical")
    source = tmp_path / "source"
    shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns(".[!c]*", "site", "tests", "examples", "benchmarks"))
    build = [sys.executable, "-m", "zensical", "build"]
    subprocess.run(build, cwd=source, capture_output=True, check=True, timeout=300)
    file = source / "site" / "reference" / "approval" / "index.html"
    html = file.read_text("utf-8").replace("<head>", f'<head><base href="{file.as_uri()}">', 1)

    assert [] == [fault for fault in audit(html, tmp_path, "1") if fault.startswith(("serious", "critical"))]
