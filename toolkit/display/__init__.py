"""Runs and tools for people: transcripts, HTML for notebooks, forms.

Nothing here starts a run: the functions take its events or its result.

Files, each importing only those below it:
    cards         tools, toolboxes, runners and results as HTML
    form          a tool's parameters as an HTML form
    page          a run as a page of its own, its turns and calls as bars
    question      a question with buttons
    terminal      a run as lines of text
    notebook      a run as HTML
    markup        parts of HTML, and their style
    formatting    texts without control characters, and calls as short lines
"""

from __future__ import annotations

from toolkit.display.form import Form, InvalidForm
from toolkit.display.notebook import Story
from toolkit.display.terminal import Transcript, ashow, show

__all__ = ["Form", "InvalidForm", "Story", "Transcript", "ashow", "show"]
