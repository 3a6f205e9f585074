"""What a file's content is known by, so that nobody overwrites what somebody else wrote meanwhile."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

# Hexadecimal digits of SHA-256: enough against accidents, and few enough for a model to copy.
DIGITS = 16


class Hash:
    """The hash of all that passed through, as text."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()

    def through(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """Give the same pieces, and count them in."""
        for piece in pieces:
            self._digest.update(piece)
            yield piece

    def __str__(self) -> str:
        return self._digest.hexdigest()[:DIGITS]


def hash_of(data: bytes) -> str:
    """Tell the hash of a content."""
    return hash_of_all([data])


def hash_of_all(pieces: Iterable[bytes]) -> str:
    """Tell the hash of a content that comes in pieces."""
    found = Hash()
    for _ in found.through(pieces):
        pass
    return str(found)
