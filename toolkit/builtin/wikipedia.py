"""`wikipedia`: searches articles by MediaWiki's REST API."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import quote

from annotated_types import Ge, Le
from pydantic import OnErrorOmit, StringConstraints, TypeAdapter
from typing_extensions import NotRequired, TypedDict

from toolkit._guards.service import TIMEOUT, USER_AGENT, JsonService, check_base_url, clean_text, strip_markup
from toolkit._options import check_options
from toolkit._tools.decorator import tool
from toolkit._tools.tool import Tool


class _Article(TypedDict):
    title: str
    key: str
    excerpt: NotRequired[Any]
    description: NotRequired[Any]
    thumbnail: NotRequired[Any]


class _Pages(TypedDict):
    pages: list[OnErrorOmit[_Article]]


_PAGES = TypeAdapter(_Pages)


class Article(TypedDict):
    """One article."""

    title: str
    key: str
    excerpt: str
    url: str
    description: str
    thumbnail: str


class Articles(TypedDict):
    """Search results, the best first."""

    results: list[Article]


@check_options
def wikipedia_tool(
    *, base_url: str = "https://en.wikipedia.org", user_agent: str = USER_AGENT, timeout: float = TIMEOUT
) -> Tool[..., Any]:
    """Make `wikipedia`.

    Args:
        base_url: The Wikipedia of a language, or another wiki that MediaWiki runs.
        user_agent: The value of the header User-Agent. Wikimedia wants it to name the program and a contact:
            "my-bot/1.0 (me@example.org)", see https://foundation.wikimedia.org/wiki/Policy:User-Agent_policy.
        timeout: Seconds for a response.

    Raises:
        DefinitionError: The address is not one of HTTP, the timeout is not above 0, or `user_agent` cannot be sent.
    """
    url = check_base_url("base_url", base_url)
    return _Wikipedia(JsonService("Wikipedia", url, user_agent=user_agent, timeout=timeout)).wikipedia


@dataclass(frozen=True)
class _Wikipedia:
    service: JsonService

    @tool(title="Wikipedia", effect="read", trust="foreign")
    async def wikipedia(
        self,
        query: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=300)],
        limit: Annotated[int, Ge(1), Le(10)] = 5,
    ) -> Articles:
        """Search Wikipedia: titles, short excerpts and addresses of articles, the best first.

        Args:
            query: The query.
            limit: Maximum number of articles.
        """
        parameters: dict[str, str | int] = {"q": query, "limit": limit}
        reply = await self.service.get("/w/rest.php/v1/search/page", parameters, _PAGES)
        return Articles(results=[_make_article(page, self.service.base_url) for page in reply["pages"][:limit]])


def _make_article(page: _Article, base_url: str) -> Article:
    return Article(
        title=clean_text(page["title"]),
        key=clean_text(page["key"]),
        excerpt=clean_text(strip_markup(page.get("excerpt"))),
        url=f"{base_url}/wiki/{quote(page['key'], safe='')}" if page["key"].strip(".") else "",  # "..": a parent path
        description=clean_text(page.get("description")),
        thumbnail=_make_thumbnail(page.get("thumbnail")),
    )


def _make_thumbnail(thumbnail: object) -> str:
    """Return the URL of a picture; "" if it is not one of HTTP."""
    url = clean_text(thumbnail.get("url")) if isinstance(thumbnail, dict) else ""
    url = f"https:{url}" if url.startswith("//") else url
    return url if url.startswith(("http://", "https://")) else ""
