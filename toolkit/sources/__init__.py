"""Tools of servers, agents, APIs and searches; each source has its own module, such as `toolkit.sources.openapi`.

Files, each importing only those below it:

    a2a           the skills of an agent of the Agent2Agent protocol
    mcp           the tools of a server of the Model Context Protocol
    openapi       the operations of an API that OpenAPI describes
    retrievers    passages that a search finds, for a call or before a prompt
    search        tools of a large toolbox that a model finds when it needs them
    remote        the base of sources in another program
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolkit._lazy import lazy_names

__all__ = ["a2a", "mcp", "openapi", "retrievers", "search"]

if not TYPE_CHECKING:  # with __getattr__, a type checker would accept any name
    __getattr__, *_ = lazy_names(globals(), {})  # other names are explained
