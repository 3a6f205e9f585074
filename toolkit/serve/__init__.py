"""Runs for other programs.

Servers and encoders of a run live here; tools that come from elsewhere live in `sources`.

Files, each importing only those below it:

    agui    the events of a run in AG-UI, and the decisions of its clients
    mcp     a toolbox for clients of the Model Context Protocol
"""

__all__ = ["agui", "mcp"]
