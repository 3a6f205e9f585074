"""Chat Completions for servers that read but the simplest JSON Schema."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.dialects.chat import Chat
from toolkit.dialects.forms import Form, form_of
from toolkit.dialects.rules import MINIMAL
from toolkit.messages import ToolSpec


@dataclass(frozen=True)
class Minimal(Chat):
    """`chat`, with schemas for gateways and servers that refuse keywords which they do not know.

    Attributes:
        strict: Of no effect: such a server enforces nothing.
    """

    name: str = "minimal"

    def form(self, spec: ToolSpec) -> Form:
        """Tell how a tool's arguments are shown."""
        return form_of(spec, MINIMAL)
