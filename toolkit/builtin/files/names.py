"""Names and reasons, as a model reads them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import PurePosixPath

from toolkit._guards.paths import Outside
from toolkit.builtin.files.pieces import TooLarge
from toolkit.errors import Failed


def shown(name: str) -> str:
    """Write a file's name, or path, on one line: what cannot be seen, or is no UTF-8, as an escape."""
    if name.isprintable():
        return name
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in name)


def name_of(path: str) -> str:
    """Take the last name of a path."""
    return shown(PurePosixPath(path).name or ".")


@contextmanager
def told(what: str, path: str, outside: Mapping[str, str], missing: str = "", large: str = "") -> Iterator[None]:
    """Tell the model what went wrong.

    Args:
        what: The work that failed.
        path: As the model gave it.
        outside: What is said of a path that leads out, by how it does; `{}` is the path.
        missing: What is said where nothing is there; else the system's reason, as of all the rest.
        large: What is said besides where a file is too large.
    """
    try:
        yield
    except Outside as error:
        raise Failed(outside[error.how].format(path)) from error
    except TooLarge as error:
        raise Failed(f"{_why(error)}{large}") from error
    except OSError as error:
        is_missing = missing and isinstance(error, (FileNotFoundError, NotADirectoryError))
        raise Failed(missing if is_missing else f"{what}: {_why(error)}") from error


def _why(error: OSError) -> str:
    """Say why something failed, without the path: it may tell where the workspace is."""
    return error.strerror or type(error).__name__
