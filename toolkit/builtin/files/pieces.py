"""What a file holds, piece by piece, and no more than is wanted."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from typing import BinaryIO

# Bytes.
PIECE = 1024 * 1024


class TooLarge(OSError):
    """A file holds more than is read."""

    def __init__(self, size: int, most: int) -> None:
        super().__init__(errno.EFBIG, f"File too large ({size} bytes, max {most}).")


def pieces(file: BinaryIO, size: int, most: int) -> Iterator[bytes]:
    """Give what an open file holds, from where it stands.

    Args:
        file: The file.
        size: Its size, as far as the system knows it: a file may grow while it is read, or have no size.
        most: Bytes.

    Raises:
        TooLarge: There is more.
    """
    if size > most:
        raise TooLarge(size, most)
    taken = 0
    while piece := file.read(PIECE):
        taken += len(piece)
        if taken > most:
            raise TooLarge(taken, most)
        yield piece
