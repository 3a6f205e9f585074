"""Runs, for people to look at, and tools, for people to fill in."""

from toolkit.display.form import Form, InvalidForm
from toolkit.display.notebook import Story
from toolkit.display.text import Transcript, ashow, follow, show

__all__ = ["Form", "InvalidForm", "Story", "Transcript", "ashow", "follow", "show"]
