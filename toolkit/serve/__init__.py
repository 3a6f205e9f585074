"""Runs for other programs.

Servers and encoders of a run live here; tools that come from elsewhere live in `sources`.

Files, each importing only those below it:

    a2a      a runner for clients of the Agent2Agent protocol
    agui     the events of a run in AG-UI, and the decisions of its clients
    vercel   the same for the AI SDK of Vercel
    streams  the events of a run in the form of another protocol
    mcp      a toolbox for clients of the Model Context Protocol, with prompts and resources
    local    addresses of this machine
"""

__all__ = ["a2a", "agui", "mcp", "vercel"]
