"""Every public exception, sorted by who has to act.

    ToolkitError
    ├── DefinitionError          the developer: a tool or an option is invalid
    │   ├── DuplicateToolError
    │   ├── FingerprintError     two processes have different tools or settings
    │   └── ToolNotFoundError    a KeyError too
    ├── ToolError                the model: it receives the message
    │   ├── Failed
    │   │   └── StoreError       a file of `toolkit.stores` cannot be used
    │   ├── NotFound
    │   │   ├── UnknownTool
    │   │   └── UnknownActivity
    │   ├── InvalidArguments
    │   ├── Cancelled
    │   ├── Denied
    │   └── TimedOut
    ├── FatalError               a tool or a hook ends the run with an error
    │   └── Halt                 ... with an answer
    └── RunError                 the application: it is raised by `run`
        ├── ModelError
        ├── NoModelError
        ├── LimitError
        ├── BusyError
        ├── ApprovalError
        ├── ConversationError
        ├── RunNotFoundError     the server knows no such run
        ├── RunEndedError        the run has ended already
        ├── RunExistsError       the server has a run of this id
        └── RunUnreachableError  no worker answers, or no server

A paused run raises nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import Self, override

from toolkit._lazy import lazy_names

__all__ = [
    "ApprovalError",
    "BusyError",
    "Cancelled",
    "ConversationError",
    "DefinitionError",
    "Denied",
    "DuplicateToolError",
    "Failed",
    "FatalError",
    "FingerprintError",
    "Halt",
    "InvalidArguments",
    "LimitError",
    "ModelError",
    "NoModelError",
    "NotFound",
    "RunEndedError",
    "RunError",
    "RunExistsError",
    "RunNotFoundError",
    "RunUnreachableError",
    "StoreError",
    "TimedOut",
    "ToolError",
    "ToolNotFoundError",
    "ToolkitError",
    "UnknownActivity",
    "UnknownTool",
]


class ToolkitError(Exception):
    """Base class of every exception that this library defines for its users.

    Attributes:
        cause: The exception that led to it, if that is not part of the traceback. It is not pickled.
        result: The RunResult so far, if the exception has left a run; otherwise None.
    """

    cause: BaseException | None = None
    result: Any = None

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self.args, {**self.__dict__, "cause": None}


class DefinitionError(ToolkitError):
    """A function cannot be a tool, a tool cannot join a toolbox, or an option is invalid.

    The message names it, and says what to change.
    """


class DuplicateToolError(DefinitionError):
    """The toolbox already has a tool of this name."""


class FingerprintError(DefinitionError):
    """Two processes have different tools or settings. The message names the differences."""


class ToolNotFoundError(DefinitionError, KeyError):
    """The toolbox has no tool, bound function or choice of this name."""

    def __str__(self) -> str:
        return Exception.__str__(self)  # a KeyError would put its message in quotes


class ToolError(ToolkitError):
    """Raise it in a tool to explain to the model why there is no result.

    The message reaches the model unchanged, so it should say what the model can do about it.

    Attributes:
        kind: `ToolResult.kind` of the call.
        prefix: The beginning of `text`, before the message.
    """

    kind: ClassVar[str] = "failed"
    prefix: ClassVar[str] = ""

    @property
    def text(self) -> str:
        """The text that the model receives."""
        return self.prefix + str(self)


class Failed(ToolError):
    """The tool ran and could not do what the call asked for."""


class StoreError(Failed):
    """A file of `toolkit.stores` cannot be used, and nothing was written. The message says what to do."""


class NotFound(ToolError):
    """Something that the call needs does not exist."""

    kind = "not_found"
    prefix = "Tool not found: "


class UnknownTool(NotFound):
    """The model called a tool that it was not offered."""

    prefix = "unknown tool: "


class UnknownActivity(NotFound):
    """The tool declares an activity for which no function is bound."""

    prefix = "activity not found: "


class InvalidArguments(ToolError):
    """The arguments do not match the tool's parameters. The tool did not run."""

    kind = "invalid_arguments"
    prefix = "Invalid arguments: "


class Cancelled(ToolError):
    """The call was cancelled before it had a result."""

    kind = "cancelled"

    @property
    def text(self) -> str:
        """The text that the model receives."""
        return f"Cancelled: {self}" if self.args else "Cancelled"


class Denied(ToolError):
    """A gate refused the call. The tool did not run."""

    kind = "denied"


class TimedOut(ToolError):
    """The call exceeded its timeout."""

    kind = "timed_out"

    def __init__(self, message: str = "Timed out.") -> None:
        super().__init__(message)

    @classmethod
    def after(cls, seconds: float | None, why: str = "") -> Self:
        """Make the error of a call with this timeout, in seconds."""
        text = "Timed out" if seconds is None else f"Timed out after {seconds:g} s"
        return cls(f"{text}: {why}" if why else f"{text}.")


class FatalError(ToolkitError):
    """Raise it in a tool or a hook to end the run: `run` raises it unchanged, and the model receives nothing."""


class Halt(FatalError):
    """Raise it in a tool or a hook to end the run with an answer: its message, the last one of the conversation."""


class RunError(ToolkitError):
    """A run ended without an answer."""


class ModelError(RunError):
    """The model's server could not be reached, refused the request, or sent an invalid response.

    Attributes:
        status: HTTP status; None without a response.
        cause: The client's own exception, which is not part of the traceback; None if there is none, or if it contains
            the API key. It is not pickled.
    """

    def __init__(self, message: str, status: int | None = None, cause: BaseException | None = None) -> None:
        super().__init__(message, status)
        self.status = status
        self.cause = cause

    def __str__(self) -> str:
        return str(self.args[0])


class NoModelError(RunError):
    """No model is configured, or the configured one cannot be used. The message says what to do."""


class LimitError(RunError):
    """The run reached a limit, and `on_limit="raise"` is set."""


class BusyError(RunError):
    """The runner already has as many active runs as it may have, or a method needs exactly one active run."""


class ApprovalError(RunError):
    """A decision came too late, came twice, or names a call that is not pending."""


class ConversationError(RunError):
    """A run cannot continue from a saved state or a session, or from a run that has ended or is active."""


class RunNotFoundError(RunError):
    """There is no run of this id, or the server has deleted it."""


class RunEndedError(RunError):
    """The run has ended: it can neither be steered nor cancelled."""


class RunExistsError(RunError):
    """The server already has a run of this id, active or ended."""


class RunUnreachableError(RunError):
    """No worker of a durable run answers, or no server. The run is not lost."""


if not TYPE_CHECKING:  # with __getattr__, a type checker would accept any name
    __getattr__, *_ = lazy_names(globals(), {})  # other names are explained
