"""Runs, for people to look at."""

from toolkit.display.notebook import Story
from toolkit.display.text import Transcript, ashow, follow, show

__all__ = ["Story", "Transcript", "ashow", "follow", "show"]
