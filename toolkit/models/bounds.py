"""How much of an answer is read: a server may send without end, or a gigabyte in a compressed kilobyte.

Counted is what comes out of the decompression, where the client reads it, so nothing above a bound is ever held.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import TYPE_CHECKING

from toolkit.errors import ModelError

if TYPE_CHECKING:
    import httpx2

# Bytes. The longest answers of today's models have about half a megabyte of text, as ten megabytes of events.
MAX_ANSWER = 64 * 2**20
MAX_EVENT = 16 * 2**20

_EVENT_ENDS = (b"\n\n", b"\r\n\r\n", b"\r\r")


class Meter:
    """Counts what has arrived of one answer, and of the event that is arriving."""

    def __init__(self) -> None:
        self.answer = 0
        self.event = 0

    def passed(self, piece: bytes) -> bytes:
        """Count a piece, and give it back.

        Raises:
            ModelError: It is more than an answer may have.
        """
        ended = max(piece.rfind(end) for end in _EVENT_ENDS)  # where an end comes apart, the event counts as longer
        self.answer += len(piece)
        self.event = len(piece) + (self.event if ended < 0 else -ended)
        if self.answer > MAX_ANSWER or self.event > MAX_EVENT:
            bound = f"{MAX_ANSWER >> 20} MiB, or {MAX_EVENT >> 20} MiB in one event"
            raise ModelError(f"The model's answer is longer than {bound}. Nothing of it was carried out.")
        return piece


def bound(response: httpx2.Response) -> None:
    """Let no more be read of a response that has just begun than an answer may have; twice is as good as once."""
    if "iter_bytes" in vars(response):
        return
    meter, read, aread = Meter(), response.iter_bytes, response.aiter_bytes

    def iter_bytes(chunk_size: int | None = None) -> Iterator[bytes]:
        return map(meter.passed, read(chunk_size))

    async def aiter_bytes(chunk_size: int | None = None) -> AsyncGenerator[bytes, None]:
        async with aclosing(aread(chunk_size)) as pieces:
            async for piece in pieces:
                yield meter.passed(piece)

    vars(response).update(iter_bytes=iter_bytes, aiter_bytes=aiter_bytes)
