"""What a dialect is: one provider's way to speak about tools, and what all of them do alike."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from toolkit._messages import ModelRequest, ToolCall, ToolResult, ToolSpec
from toolkit.dialects.forms import Form, form_of
from toolkit.dialects.rules import Rules
from toolkit.dialects.wire import owned


@dataclass(frozen=True)
class Dialect(ABC):
    """One provider's way to speak about tools.

    Attributes:
        strict: Whether the provider is to enforce the schemas of tools that have no opinion of their own; of no effect
            where it enforces none.
        name: What users call it.
        rules: What the provider understands of JSON Schema.
        strict_rules: What it understands of a schema that it enforces.
    """

    strict: bool = False
    name: ClassVar[str]
    rules: ClassVar[Rules]
    strict_rules: ClassVar[Rules]

    def form(self, spec: ToolSpec) -> Form:
        """Tell how a tool's arguments are shown, and where that differs from the tool's own schema."""
        return form_of(spec, self.strict_rules if self.is_strict(spec) else self.rules)

    def is_strict(self, spec: ToolSpec) -> bool:
        """Tell whether a tool's schema is to be enforced, where that can be done."""
        return self.strict if spec.strict is None else spec.strict

    def tool(self, spec: ToolSpec) -> dict[str, Any]:
        """Show one tool; it is made once, and must not be changed.

        Raises:
            DefinitionError: The provider takes no such tool.
        """
        shown: dict[str, Any] = spec.shown.get(self) or spec.shown.setdefault(self, self._shown(spec))
        return shown

    def calls(self, reply: Any, specs: Sequence[ToolSpec]) -> tuple[ToolCall, ...]:
        """Find the calls in a reply: of the provider's client, or the same as plain data.

        Their arguments are in the tools' own forms. Nothing that a model wrote raises; what is no call is left out.
        """
        return owned(self._found(reply), specs, self.form)

    @abstractmethod
    def answers(
        self, done: Sequence[tuple[ToolCall, ToolResult]], specs: Sequence[ToolSpec] = ()
    ) -> list[dict[str, Any]]:
        """Make the messages that answer calls: each exactly once, in the order given."""

    @abstractmethod
    def _shown(self, spec: ToolSpec) -> dict[str, Any]:
        """Show one tool."""

    @abstractmethod
    def _found(self, reply: Any) -> Iterable[ToolCall]:
        """Find the calls as they were written."""


class RunDialect(Dialect):
    """A dialect in which a run can be held: over Chat Completions, or over Responses."""

    @abstractmethod
    def body(self, request: ModelRequest) -> dict[str, Any]:
        """Make the part of the request's body that says messages and tools."""

    @abstractmethod
    def shows_text(self, request: ModelRequest) -> bool:
        """Tell whether the text of the reply is meant for people as it comes."""

    @abstractmethod
    def read(self, text: str, calls: Sequence[ToolCall], specs: Sequence[ToolSpec]) -> tuple[str, tuple[ToolCall, ...]]:
        """Find text and calls in a whole reply; the calls' arguments come in the tools' own forms."""
