"""Tools for other agent libraries, and tools of theirs.

    to_langchain([add])             a list of their tools, for their agents
    Runner([from_langchain(tool)])  a tool of theirs, for a Runner

There are LangChain, openai-agents, pydantic-ai, smolagents and Anthropic's SDK. A function imports its library when it
is called.

Files, each importing only those below it:

    outgoing    tools of a Toolbox, for them
    incoming    their tools, for a Toolbox
"""

from __future__ import annotations

from toolkit.adapters.incoming import (
    from_anthropic,
    from_langchain,
    from_openai_agents,
    from_pydantic_ai,
    from_smolagents,
)
from toolkit.adapters.outgoing import to_anthropic, to_langchain, to_openai_agents, to_pydantic_ai, to_smolagents

__all__ = [
    "from_anthropic",
    "from_langchain",
    "from_openai_agents",
    "from_pydantic_ai",
    "from_smolagents",
    "to_anthropic",
    "to_langchain",
    "to_openai_agents",
    "to_pydantic_ai",
    "to_smolagents",
]
