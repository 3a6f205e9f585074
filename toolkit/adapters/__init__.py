"""Tools of this library for other agent libraries, and their tools for this one.

    to_langchain([add])             a list of LangChain's tools, for its agents
    Runner([from_langchain(tool)])  a tool of LangChain, for a Runner

The libraries are LangChain, openai-agents, pydantic-ai, smolagents and Anthropic's SDK. A function imports its library
when it is called.

Files, each importing only those below it:

    outgoing    tools of a Toolbox, for other libraries
    incoming    tools of other libraries, for a Toolbox
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
