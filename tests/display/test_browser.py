"""The saved page in a browser: skipped where Chromium is not installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from toolkit import Runner, ToolError
from toolkit.testing import ScriptedModel, call

CHROMIUM = shutil.which("chromium")
MODULES = [Path(place) for place in os.environ.get("NODE_PATH", "").split(os.pathsep) if place]
AXE = next((file for place in MODULES if (file := place / "axe-core" / "axe.min.js").is_file()), None)
AUDIT = """
axe.run().then(({violations}) => {
  document.title = ["checked", ...violations.map(each => `${each.impact}: ${each.help}`)].join("|");
});"""
DARK, LIGHT = (22, 24, 28), (255, 255, 255)


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
@pytest.mark.parametrize(("scheme", "background"), [("0", DARK), ("1", LIGHT)], ids=["dark", "light"])
def test_saved_page_in_a_browser(tmp_path: Path, scheme: str, background: tuple[int, int, int]) -> None:
    """The page has the colours that the reader prefers, and a picture of turns and calls, without a script."""
    PIL = pytest.importorskip("PIL.Image")

    def look(place: str) -> str:
        """Look at a place."""
        return "<script>document.body.remove()</script>"

    model = ScriptedModel([call("look", place="pond"), "<img src=x onerror='document.body.remove()'>"])
    Runner([look], model=model).run("What is there?").save(tmp_path / "run.html")
    options = [f"--blink-settings=preferredColorScheme={scheme}", f"--user-data-dir={tmp_path / 'profile'}"]
    more = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--window-size=400,900",
        f"--screenshot={tmp_path / 'a.png'}",
    ]
    page = (tmp_path / "run.html").as_uri()
    subprocess.run([str(CHROMIUM), *options, *more, page], capture_output=True, check=True, timeout=120)
    picture = PIL.open(tmp_path / "a.png").convert("RGB")
    colours = [colour for _, colour in picture.getcolors(picture.width * picture.height)]

    assert background == picture.getpixel((3, 3))
    assert any(blue - red > 60 for red, _, blue in colours)  # the bar of a turn
    assert any(green - red > 40 and green - blue > 40 for red, green, blue in colours)  # and of a call


@pytest.mark.skipif(CHROMIUM is None or AXE is None, reason="needs Chromium, and axe-core in a directory of NODE_PATH")
@pytest.mark.parametrize("scheme", ["0", "1"], ids=["dark", "light"])
def test_accessible_page(tmp_path: Path, scheme: str) -> None:
    """axe-core finds nothing to mend in the saved page, in dark and in light."""

    def look(place: str) -> str:
        """Look at a place."""
        raise ToolError(f"There is no {place}.")

    model = ScriptedModel([[call("look", place="pond"), call("look", place="sea")], "# Nothing\n\n- `no` pond"])
    Runner([look], model=model, instructions="Look.").run("What is there?").save(tmp_path / "run.html")
    page = (tmp_path / "run.html").read_text("utf-8")
    axe = Path(str(AXE)).read_text("utf-8")
    (tmp_path / "run.html").write_text(
        re.sub(r"<meta http-equiv[^>]*>", "", page) + f"<script>{axe}{AUDIT}</script>", "utf-8"
    )
    options = [f"--blink-settings=preferredColorScheme={scheme}", f"--user-data-dir={tmp_path / 'profile'}"]
    more = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=9000", "--dump-dom"]
    command = [str(CHROMIUM), *options, *more, (tmp_path / "run.html").as_uri()]
    shown = subprocess.run(command, capture_output=True, check=True, timeout=120, text=True).stdout

    assert ["checked"] == re.findall(r"<title>(.*?)</title>", shown)
