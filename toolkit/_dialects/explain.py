"""Explain to a developer what a dialect sends of one tool."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from toolkit._dialects.base import Dialect
from toolkit._dialects.strict.scope import Note
from toolkit._messages import ToolSpec


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """A tool as a dialect sends it, and where that differs from the tool's own schema; printed, it is a short report.

    Attributes:
        tool: The tool's name.
        dialect: The dialect's.
        strict: Whether the provider is asked to enforce the schema.
        notes: Where the schema that is sent differs from the tool's own, and why.
        sent: The tool as it is sent.
    """

    tool: str
    dialect: str
    strict: bool
    notes: tuple[Note, ...]
    sent: Mapping[str, Any]

    def __repr__(self) -> str:
        size = len(json.dumps(self.sent, ensure_ascii=False))
        enforced = "strict" if self.strict else "not strict"
        head = f"{self.tool} in the dialect {self.dialect!r}: {enforced}, {size:,} characters"
        width = max((len(note.path) for note in self.notes), default=0)
        lines = [f"  {note.path:<{width}}  {note.text}" for note in self.notes]
        return "\n".join([head, *lines]) if lines else f"{head}, sent as it is"

    __str__ = __repr__


def explain(spec: ToolSpec, dialect: Dialect) -> Explanation:
    """Explain what a dialect sends of a tool."""
    form = dialect.form(spec)
    return Explanation(
        tool=spec.name, dialect=dialect.name, strict=form.strict, notes=form.notes, sent=dialect.render_tool(spec)
    )
