"""Every exception, by who has to act.

    ToolkitError
    ├── DefinitionError          the developer: a tool cannot be made or added
    │   └── DuplicateToolError
    ├── ToolError                the model: its text is what the model is shown
    │   ├── Failed
    │   │   └── StoreError       what `toolkit.stores` could not read or write
    │   ├── NotFound
    │   │   └── UnknownTool
    │   ├── InvalidArguments
    │   ├── Cancelled
    │   ├── Denied
    │   └── TimedOut
    ├── FatalError               a tool says: end the run
    ├── Halt                     a hook says: end the run with this answer
    └── RunError                 the application: leaves `run`
        ├── ModelError           the model's server failed or answered nonsense
        ├── NoModelError         nothing says which model should answer
        ├── LimitError           a limit was reached and `on_limit="raise"`
        ├── BusyError            the runner has as many runs under way as it may have
        ├── ApprovalError        a decision came too late, twice, or for no call that waits
        └── ConversationError    a driver took a step that the conversation did not ask for

Pausing is not an error.
"""

from __future__ import annotations

from typing import ClassVar


class ToolkitError(Exception):
    """The root of everything that this library raises."""


class DefinitionError(ToolkitError):
    """A function cannot be a tool, or a tool cannot join a toolbox; the message says what to change."""


class DuplicateToolError(DefinitionError):
    """A toolbox already has a tool of this name."""


class ToolError(ToolkitError):
    """Raise it in a tool to tell the model why there is no result.

    The message reaches the model word for word, so it should say what the model can do about it.
    """

    kind: ClassVar[str] = "failed"
    prefix: ClassVar[str] = ""

    @property
    def text(self) -> str:
        """What the model is shown."""
        return self.prefix + str(self)


class Failed(ToolError):
    """The tool ran and could not do what was asked."""


class NotFound(ToolError):
    """Something that the call needs is not there."""

    kind = "not_found"
    prefix = "Tool not found: "


class UnknownTool(NotFound):
    """The model named a tool that was not offered."""

    prefix = "unknown tool: "


class UnknownActivity(NotFound):
    """A tool names what carries it out, and there is nothing of that name."""

    prefix = "activity not found: "


class InvalidArguments(ToolError):
    """The arguments do not fit the tool's parameters; the tool's body was not entered."""

    kind = "invalid_arguments"
    prefix = "Invalid arguments: "


class Cancelled(ToolError):
    """The call was given up before it had a result."""

    kind = "cancelled"

    @property
    def text(self) -> str:
        """What the model is shown."""
        return f"Cancelled: {self}" if self.args else "Cancelled"


class Denied(ToolError):
    """A gate refused the call; the tool's body was not entered."""

    kind = "denied"


class TimedOut(ToolError):
    """The call took longer than it may."""

    kind = "timed_out"


class FatalError(ToolkitError):
    """Raise it in a tool to end the run: it leaves `run` as it is, and the model is told nothing."""


class Halt(ToolkitError):
    """Raise it in a hook to end the run with this text as its answer."""


class RunError(ToolkitError):
    """A run ended without an answer."""


class ModelError(RunError):
    """The model's server could not be reached, refused the request, or sent an answer that cannot be used.

    Attributes:
        status: HTTP status, where there was one.
    """

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message, status)
        self.status = status

    def __str__(self) -> str:
        return str(self.args[0])


class NoModelError(RunError):
    """Nothing says which model should answer."""


class LimitError(RunError):
    """A limit of the run was reached, and `on_limit="raise"` asks for this error."""


class BusyError(RunError):
    """The runner has as many runs under way as it may have, or it is not clear which of them is meant."""


class ApprovalError(RunError):
    """A decision came too late, for the second time, or for no call that waits for one."""


class ConversationError(RunError):
    """A driver took a step that the conversation did not ask for."""
