"""What this process holds: its open descriptors and its children, zombies included."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path


def descriptors() -> Iterator[str]:
    """What is open, but for that which this look opens itself."""
    for path in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            if path.readlink().name != "fd":
                yield path.name


def children() -> Iterator[str]:
    """The processes that the threads of this one have started."""
    for path in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):  # a thread that has ended since
            yield from path.read_text(encoding="ascii").split()


def held() -> set[str]:
    """Both of them."""
    return {*descriptors(), *(f"child {number}" for number in children())}
