"""The saved page in a browser: skipped where Chromium is not installed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from toolkit import Runner
from toolkit.testing import ScriptedModel, call

CHROMIUM = shutil.which("chromium")
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
