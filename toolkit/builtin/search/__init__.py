"""Searching the web: `web_search` reads what it finds and gives what answers best; `search` gives the links alone.

    Toolbox([web_search_tool(Brave(), embed=OpenAIEmbeddings("text-embedding-3-small"))])
    Toolbox([search_tool(Serper())])
    Toolbox([web_search_tool(lambda query, count: [{"title": ..., "url": ..., "snippet": ...}])])

A search engine is any function, sync or async, of what is looked for and how many results are wanted. Pages are read
through the same guard as those of `http_fetch`: what an engine finds leads into no private network.
"""

from __future__ import annotations

from toolkit.builtin.search.engines import Brave, Serper
from toolkit.builtin.search.results import Result, Search
from toolkit.builtin.search.tools import search_tool, web_search_tool

__all__ = ["Brave", "Result", "Search", "Serper", "search_tool", "web_search_tool"]
