"""What a search engine finds, whoever asks it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from toolkit._concurrency.async_backend import AsyncDoor
from toolkit._concurrency.backend import called
from toolkit.builtin.http.texts import stripped
from toolkit.errors import Failed

# Characters. They come from whoever has got a page into an engine, so they are one line each, and short.
MAX_TITLE = 200
MAX_URL = 2000
MAX_SNIPPET = 1000


@dataclass(frozen=True, kw_only=True)
class Result:
    """One page that was found.

    Attributes:
        title: The page's title.
        url: Where the page is.
        snippet: A few words of it.
    """

    title: str
    url: str
    snippet: str = ""


# A result, or a mapping with `title`, `url` (or `link`) and `snippet` (or `description`).
Found: TypeAlias = Result | Mapping[str, Any]
# Gets what is looked for, and how many results are wanted.
Search: TypeAlias = Callable[[str, int], Iterable[Found] | Awaitable[Iterable[Found]]]


async def found(search: Search, query: str, count: int) -> list[Result]:
    """Ask for results, on a thread or in the loop; a task that is cancelled waits for neither.

    Those without an address of the web are left out, and so is what comes twice.

    Raises:
        Failed: The results are none that can be read.
    """
    door = AsyncDoor()
    listed = await called(search, (query, count), door)
    results: list[Result] = await called(_results, (listed,), door)  # a generator may go on asking
    return results[:count]


def _results(listed: object) -> list[Result]:
    if isinstance(listed, (str, Mapping)) or not isinstance(listed, Iterable):
        raise Failed("search error: the search engine gave an answer that cannot be read")
    results = [result for result in map(_read, listed) if result.url.startswith(("http://", "https://"))]
    return list({result.url: result for result in reversed(results)}.values())[::-1]


def _read(given: object) -> Result:
    if isinstance(given, Result):
        title, url, snippet = given.title, given.url, given.snippet
    elif isinstance(given, Mapping):
        title, url, snippet = (
            _first(given, "title"),
            _first(given, "url", "link"),
            _first(given, "snippet", "description"),
        )
    else:
        title = url = snippet = ""
    address = "" if len(url) > MAX_URL or any(letter.isspace() for letter in url) else url
    return Result(title=_line(title)[:MAX_TITLE] or address, url=address, snippet=_line(snippet)[:MAX_SNIPPET])


def _first(given: Mapping[str, Any], *names: str) -> str:
    return next((given[name] for name in names if isinstance(given.get(name), str)), "")


def _line(text: str) -> str:
    """Make one line of a text that may have tags in it, as those of Brave have."""
    return " ".join(stripped(text).split())


def entries(answer: Any, *path: str) -> Sequence[Mapping[str, Any]]:
    """Look a list of objects up in JSON; what is something else there counts as not there."""
    for name in path:
        answer = answer.get(name) if isinstance(answer, Mapping) else None
    return [entry for entry in answer if isinstance(entry, Mapping)] if isinstance(answer, list) else []
