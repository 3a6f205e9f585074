"""Chromium and axe-core, for tests of pages: skipped where they are not installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

CHROMIUM = shutil.which("chromium")
MODULES = [Path(place) for place in os.environ.get("NODE_PATH", "").split(os.pathsep) if place]
AXE = next((file for place in MODULES if (file := place / "axe-core" / "axe.min.js").is_file()), None)
NEEDS_CHROMIUM = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
NEEDS_AXE = pytest.mark.skipif(
    CHROMIUM is None or AXE is None, reason="needs Chromium, and axe-core in a directory of NODE_PATH"
)
# The schemes of colours that a reader may prefer, by their numbers in Chromium.
SCHEMES = pytest.mark.parametrize("scheme", ["0", "1"], ids=["dark", "light"])
AUDIT = """
axe.run().then(({violations}) => {
  document.title = ["checked", ...violations.map(each => `${each.impact}: ${each.help}`)].join("|");
});"""


def browse(address: str, profile: Path, *options: str) -> str:
    """Open a page in Chromium, and return what it has printed."""
    usual = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}"]
    command = [str(CHROMIUM), *usual, *options, address]
    return subprocess.run(command, capture_output=True, check=True, timeout=120, text=True).stdout


def audit(html: str, folder: Path, scheme: str) -> list[str]:
    """Return the faults that axe-core finds in a page."""
    axe, page = Path(str(AXE)).read_text("utf-8"), folder / "page.html"
    page.write_text(re.sub(r"<meta http-equiv[^>]*>", "", html) + f"<script>{axe}{AUDIT}</script>", "utf-8")
    options = [f"--blink-settings=preferredColorScheme={scheme}", "--virtual-time-budget=9000", "--dump-dom"]
    title: str
    (title,) = re.findall(r"<title>(.*?)</title>", browse(page.as_uri(), folder / "profile", *options))
    checked, *faults = title.split("|")
    assert "checked" == checked
    return faults
