"""Environments of their own for programs of others, whose packages must not meet those of the tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def install_packages(place: str, name: str, *packages: str) -> Path:
    """Install packages into an environment of this name, unless it is there; returns the directory of its commands."""
    environment = Path(place).absolute() / name
    if not (environment / "done").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", environment], check=True)
        command = [str(environment / "bin" / "python"), "-m", "pip", "install", "-q", *packages]
        subprocess.run(command, check=True)
        (environment / "done").touch()
    return environment / "bin"
