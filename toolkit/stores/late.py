"""Work that is done for a call ends with it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from toolkit.cancellation import Cancellation, outer
from toolkit.threads import over


@contextmanager
def ended_by(cancellation: Cancellation) -> Iterator[None]:
    """Have what is done in the block look at this one."""
    token = outer.set(cancellation)
    try:
        yield
    finally:
        outer.reset(token)


def refuse_late() -> None:
    """Go no further where the call, or the run, that this is done for was called off.

    Raises:
        Cancelled, TimedOut: It was.
    """
    if until := outer.get():
        raise over(until)
