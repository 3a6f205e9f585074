"""Tools from elsewhere; each source is imported from its own module, such as `toolkit.sources.openapi`.

Files, each importing only those below it:

    mcp           the tools of a server of the Model Context Protocol
    openapi       the operations of an API that OpenAPI describes
    retrievers    passages that a search finds, by a call or in front of a prompt
    search        tools of a large toolbox that a model finds when it needs them
"""

from __future__ import annotations

__all__ = ["mcp", "openapi", "retrievers", "search"]
