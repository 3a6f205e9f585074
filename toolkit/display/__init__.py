"""Runs, for people to look at, and tools, for people to fill in."""

from __future__ import annotations

from toolkit.display.form import Form, InvalidForm
from toolkit.display.notebook import Story
from toolkit.display.terminal import Transcript, ashow, follow, show

__all__ = ["Form", "InvalidForm", "Story", "Transcript", "ashow", "follow", "show"]
