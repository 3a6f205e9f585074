"""The texts of several pages, read side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from queue import SimpleQueue
from typing import TypeAlias

from toolkit._concurrency.cancellation import Cancellation
from toolkit._concurrency.threads import Crew, Outcome, Work, taken

# Gives the text of the page at a URL; what it raises means that the page is left out.
Read: TypeAlias = Callable[[str, Cancellation], str]
Arrived: TypeAlias = tuple[str, Outcome[str]]

MAX_TEXT = 8000  # characters


def texts(read: Read, urls: Sequence[str], seconds: float, until: Cancellation) -> dict[str, str]:
    """Read pages at the same time; those that fail, or take longer than so many seconds, are left out."""
    arriving, found = SimpleQueue[Arrived | None](), dict[str, str]()
    with Cancellation(seconds, until) as limit:
        works = [Work(partial(read, url, limit), partial(_put, arriving, url)) for url in urls]
        Crew(works, len(works)).start()
        while len(found) < len(urls) and (arrived := taken(arriving, limit)):
            url, (text, _) = arrived
            found[url] = (text or "")[:MAX_TEXT]
    return found


def _put(arriving: SimpleQueue[Arrived | None], url: str, outcome: Outcome[str]) -> None:
    arriving.put((url, outcome))
