"""Runs for other programs.

This package serves runners and tools to others; `sources` has the tools that others serve.

Files, each importing only those below it:

    a2a      a runner for clients of the Agent2Agent protocol
    agui     the events of a run as those of AG-UI, and the decisions of its clients
    vercel   the events of a run as those of Vercel's AI SDK, and the prompts and decisions of its clients
    streams  the events of a run as those of another protocol
    mcp      a toolbox for clients of the Model Context Protocol, with prompts and resources
    local    loopback addresses
"""

__all__ = ["a2a", "agui", "mcp", "vercel"]
