"""Importing the libraries that tools are made for, when they are needed."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def load_library(module: str, package: str) -> Any:
    """Import a module of a library.

    Raises:
        ImportError: It is not installed; the message names the package.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if f"{error.name}".partition(".")[0] != module.partition(".")[0]:
            raise
        raise ImportError(f"This adapter needs another package: pip install {package}") from error
