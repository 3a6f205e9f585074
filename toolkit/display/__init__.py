"""Runs, for people to look at."""

from toolkit.display.text import Transcript, show

__all__ = ["Transcript", "show"]
