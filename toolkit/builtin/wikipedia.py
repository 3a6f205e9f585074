"""`wikipedia`: articles by what they are about, from MediaWiki's REST API."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import quote, urljoin, urlsplit

from annotated_types import Ge, Le
from pydantic import OnErrorOmit, StringConstraints, TypeAdapter
from typing_extensions import NotRequired, TypedDict

from toolkit._guards.service import MAX_TEXT, SECONDS, USER_AGENT, Service, address, plain
from toolkit._tools.decorator import tool
from toolkit._tools.tool import Tool

_TAG = re.compile(r"<[^<>]*>")


class _Page(TypedDict):
    title: str
    key: str
    excerpt: NotRequired[Any]
    description: NotRequired[Any]
    thumbnail: NotRequired[Any]


class _Pages(TypedDict):
    pages: list[OnErrorOmit[_Page]]


_PAGES = TypeAdapter(_Pages)


class Article(TypedDict):
    """One article that was found."""

    title: str
    key: str
    excerpt: str
    url: str
    description: str
    thumbnail: str


class Articles(TypedDict):
    """What was found, the best first."""

    results: list[Article]


def wikipedia_tool(
    *, base_url: str = "https://en.wikipedia.org", user_agent: str = USER_AGENT, timeout: float = SECONDS
) -> Tool[..., Any]:
    """Make `wikipedia`.

    Args:
        base_url: The Wikipedia of a language, or another wiki that MediaWiki runs.
        user_agent: Who asks. Wikimedia wants it to name the program and somebody to reach:
            "my-bot/1.0 (me@example.org)", see https://foundation.wikimedia.org/wiki/Policy:User-Agent_policy.
        timeout: Seconds for an answer.

    Raises:
        DefinitionError: The address is none of HTTP, or there is no time for an answer.
    """
    url = address("base_url", base_url)
    return _Wikipedia(Service("Wikipedia", url, user_agent=user_agent, seconds=timeout)).wikipedia


@dataclass(frozen=True)
class _Wikipedia:
    service: Service

    @tool(title="Wikipedia", effect="read")
    async def wikipedia(
        self,
        query: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=300)],
        limit: Annotated[int, Ge(1), Le(10)] = 5,
    ) -> Articles:
        """Search Wikipedia: titles, short excerpts and addresses of articles, the best first.

        Args:
            query: What to look for.
            limit: How many articles to give, at most.
        """
        asked: dict[str, str | int] = {"q": query, "limit": limit}
        reply = await self.service.get("/w/rest.php/v1/search/page", asked, _PAGES)
        return Articles(results=[_article(page, self.service.base_url) for page in reply["pages"][:limit]])


def _article(page: _Page, base_url: str) -> Article:
    return Article(
        title=plain(page["title"]),
        key=plain(page["key"]),
        excerpt=_text(page.get("excerpt")),
        url=_address(page["key"], base_url),
        description=plain(page.get("description")),
        thumbnail=_picture(page.get("thumbnail"), base_url),
    )


def _text(excerpt: object) -> str:
    """Take the markup out of an excerpt."""
    return plain(html.unescape(_TAG.sub("", excerpt))) if isinstance(excerpt, str) else ""


def _address(key: str, base_url: str) -> str:
    """Say where an article is; nowhere, where its name would lead up from there."""
    return f"{base_url}/wiki/{quote(key, safe='')}" if key.strip(".") else ""


def _picture(thumbnail: object, base_url: str) -> str:
    """Say where a picture is; nowhere, where that is no plain address of HTTP."""
    given = thumbnail.get("url") if isinstance(thumbnail, dict) else None
    if not (isinstance(given, str) and given.isascii() and given.isprintable() and len(given) <= MAX_TEXT):
        return ""
    try:
        url = urljoin(base_url, given)
        return url if urlsplit(url).scheme in ("http", "https") else ""
    except ValueError:
        return ""
