"""Runs for other programs.

Servers and encoders of a run live here; tools that come from elsewhere live in `sources`.

Files:
    agui    the events of a run in AG-UI, and the decisions of its clients
"""

__all__ = ["agui"]
