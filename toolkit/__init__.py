"""Let a language model call your Python functions.

    from toolkit import Runner, Toolbox, tool

Every name here is loaded when it is first used: importing the package loads neither openai nor an extra.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolkit._lazy import lazy_names

if TYPE_CHECKING:
    from toolkit._context import ToolContext as ToolContext
    from toolkit._execution.approval import Decision as Decision
    from toolkit._execution.approval import Deny as Deny
    from toolkit._execution.approval_request import ApprovalRequest as ApprovalRequest
    from toolkit._execution.ledger import Ledger as Ledger
    from toolkit._execution.ledger import LedgerEntry as LedgerEntry
    from toolkit._execution.ledger import MemoryLedger as MemoryLedger
    from toolkit._execution.ledger import SQLiteLedger as SQLiteLedger
    from toolkit._execution.parallel import batched as batched
    from toolkit._execution.undo import Undo as Undo
    from toolkit._messages import Effect as Effect
    from toolkit._messages import File as File
    from toolkit._messages import Image as Image
    from toolkit._messages import ToolCall as ToolCall
    from toolkit._messages import ToolResult as ToolResult
    from toolkit._messages import Usage as Usage
    from toolkit._runner.history import repair_history as repair_history
    from toolkit._runner.limits import Limits as Limits
    from toolkit._runner.limits import Prices as Prices
    from toolkit._runner.result import RunResult as RunResult
    from toolkit._runner.runner import Runner as Runner
    from toolkit._runner.saved_runs import SQLiteRuns as SQLiteRuns
    from toolkit._runner.session import Session as Session
    from toolkit._runner.session import SQLiteSession as SQLiteSession
    from toolkit._runner.state import RunState as RunState
    from toolkit._runner.stream import AsyncRunStream as AsyncRunStream
    from toolkit._runner.stream import RunHandle as RunHandle
    from toolkit._runner.stream import RunStream as RunStream
    from toolkit._toolbox import Toolbox as Toolbox
    from toolkit._tools.decorator import tool as tool
    from toolkit._tools.definitions import Fingerprint as Fingerprint
    from toolkit._tools.shared_values import SharedValues as SharedValues
    from toolkit._tools.tool import Tool as Tool
    from toolkit.errors import ApprovalError as ApprovalError
    from toolkit.errors import BusyError as BusyError
    from toolkit.errors import Cancelled as Cancelled
    from toolkit.errors import DefinitionError as DefinitionError
    from toolkit.errors import Denied as Denied
    from toolkit.errors import DuplicateToolError as DuplicateToolError
    from toolkit.errors import Failed as Failed
    from toolkit.errors import FatalError as FatalError
    from toolkit.errors import Halt as Halt
    from toolkit.errors import InvalidArguments as InvalidArguments
    from toolkit.errors import LimitError as LimitError
    from toolkit.errors import ModelError as ModelError
    from toolkit.errors import NoModelError as NoModelError
    from toolkit.errors import NotFound as NotFound
    from toolkit.errors import RunError as RunError
    from toolkit.errors import TimedOut as TimedOut
    from toolkit.errors import ToolError as ToolError
    from toolkit.errors import ToolkitError as ToolkitError
    from toolkit.errors import ToolNotFoundError as ToolNotFoundError
    from toolkit.events import FinishReason as FinishReason
    from toolkit.events import PendingApproval as PendingApproval
    from toolkit.models.combined import FallbackModel as FallbackModel
    from toolkit.models.combined import RateLimitedModel as RateLimitedModel
    from toolkit.models.openai import OpenAIModel as OpenAIModel
    from toolkit.models.responses import ResponsesModel as ResponsesModel

__version__ = "0.2.0.dev0"

# Where each public name lives. The block above says the same to type checkers; a test holds the two together.
_HOMES = {
    "toolkit._context": ("ToolContext",),
    "toolkit._execution.approval": ("Decision", "Deny"),
    "toolkit._execution.approval_request": ("ApprovalRequest",),
    "toolkit._execution.ledger": ("Ledger", "LedgerEntry", "MemoryLedger", "SQLiteLedger"),
    "toolkit._execution.parallel": ("batched",),
    "toolkit._execution.undo": ("Undo",),
    "toolkit._messages": ("Effect", "File", "Image", "ToolCall", "ToolResult", "Usage"),
    "toolkit._runner.history": ("repair_history",),
    "toolkit._runner.limits": ("Limits", "Prices"),
    "toolkit._runner.result": ("RunResult",),
    "toolkit._runner.runner": ("Runner",),
    "toolkit._runner.session": ("SQLiteSession", "Session"),
    "toolkit._runner.saved_runs": ("SQLiteRuns",),
    "toolkit._runner.state": ("RunState",),
    "toolkit._runner.stream": ("AsyncRunStream", "RunHandle", "RunStream"),
    "toolkit._toolbox": ("Toolbox",),
    "toolkit._tools.decorator": ("tool",),
    "toolkit._tools.definitions": ("Fingerprint",),
    "toolkit._tools.shared_values": ("SharedValues",),
    "toolkit._tools.tool": ("Tool",),
    "toolkit.errors": (
        "ApprovalError",
        "BusyError",
        "Cancelled",
        "DefinitionError",
        "Denied",
        "DuplicateToolError",
        "Failed",
        "FatalError",
        "Halt",
        "InvalidArguments",
        "LimitError",
        "ModelError",
        "NoModelError",
        "NotFound",
        "RunError",
        "TimedOut",
        "ToolError",
        "ToolkitError",
        "ToolNotFoundError",
    ),
    "toolkit.events": ("FinishReason", "PendingApproval"),
    "toolkit.models.combined": ("FallbackModel", "RateLimitedModel"),
    "toolkit.models.openai": ("OpenAIModel",),
    "toolkit.models.responses": ("ResponsesModel",),
}

if not TYPE_CHECKING:  # for which each name that is not declared above is a mistake
    __getattr__, __dir__, __all__ = lazy_names(globals(), _HOMES)
