"""Approvers, which ask a person before a call runs, and policies, which ask an approver about some calls only.

Only `allow` and `approve_all` skip an approval that a tool itself requires.
"""

from __future__ import annotations

import json
import select
import sys
import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, Any, get_args

from typing_extensions import override

from toolkit._concurrency.cancellation import Cancellation
from toolkit._execution.approval import Approver, Decision, Verdict
from toolkit._execution.approval_request import ApprovalRequest, digest_definition
from toolkit._guards.options import check_choice, check_function, check_sync_function, check_texts, check_type
from toolkit._messages import Effect
from toolkit._options import check_methods, check_options, explain_missing
from toolkit._schema.json_text import escape_confusable
from toolkit._tools.tool import Tool
from toolkit.display.cards import render_decided, render_pending
from toolkit.display.formatting import print_text
from toolkit.display.notebook import is_in_kernel
from toolkit.display.question import Question, has_widgets
from toolkit.errors import ApprovalError, DefinitionError
from toolkit.events import PendingApproval

__all__ = [
    "ApprovalQueue",
    "Approver",
    "Console",
    "Notebook",
    "after_foreign",
    "allow",
    "approve_all",
    "ask_when",
    "defer",
]

if TYPE_CHECKING:
    import asyncio

# The most characters of a call's arguments that are shown at first.
MAX_ARGUMENTS = 4_000
# Unclear answers after which the call is rejected.
MAX_TRIES = 5
# Seconds to wait for buttons to appear, and between two checks whether the call was cancelled.
READY_SECONDS = 5.0
PAUSE = 0.1

CHOICES = "[y]es, [n]o, [e]dit, [a]lways this tool, [w]hole arguments, [s]top the run"
HELP = "Answer y, n, e, a, w or s; after n and s you may say why: n too expensive"


@check_methods()
class Console:
    """An approver that asks at the terminal, one question at a time.

    It shows the arguments with nothing hidden. "Yes" is for one call. "Always" is for all calls of this tool, until its
    definition changes, for the lifetime of this approver. Input that was typed at a terminal before the question is
    dropped, except on Windows. In a notebook, it asks in the field of `input()`. Without a terminal or a notebook, and
    at the end of the input, the call is refused.

    Args:
        read: A function that shows a prompt and returns the typed line. By default it reads the terminal's next line;
            in a notebook it is `input`.
        write: A function that shows a text. By default it prints, and escapes characters that the output cannot show.

    Raises:
        DefinitionError: `read` or `write` is not a sync function.
    """

    def __init__(
        self, *, read: Callable[[str], str] | None = None, write: Callable[[str], object] = print_text
    ) -> None:
        self._read = None if read is None else check_sync_function("read", read)
        self._write = check_sync_function("write", write)
        self._lock = threading.Lock()
        self._always: set[tuple[str, Tool[..., Any]]] = set()

    @property
    def can_ask(self) -> bool:
        """True if a person can be asked: at a terminal, in a kernel, or in marimo."""
        is_marimo = type(sys.stdin).__module__.startswith("marimo.")  # on any thread, unlike marimo's test
        is_terminal = sys.stdin is not None and sys.stdin.isatty()
        return self._read is not None or is_terminal or is_marimo or is_in_kernel()

    def __call__(self, request: ApprovalRequest) -> Verdict:
        """Ask about one call."""
        if not self.can_ask:
            return Decision.unavailable("There is no terminal to ask at.")
        with self._lock:
            if (digest_definition(request.tool), request.tool) in self._always:
                return True
            return self._ask_user(request)

    def _ask_user(self, request: ApprovalRequest) -> Verdict:
        if request.context.cancelled:
            return False
        self._write(_describe_request(request))
        try:
            answers = (self._read_answer(request) for _ in range(MAX_TRIES))
            return next((answer for answer in answers if answer is not None), False)
        except EOFError:
            return Decision.unavailable("There was no answer: the input has ended.")
        except NotImplementedError:  # of a kernel whose front end has no input field, such as nbconvert
            return Decision.unavailable("There is nobody to ask: this front end takes no input.")

    def _read_answer(self, request: ApprovalRequest) -> Verdict | None:
        """Read one answer. Return None if it is not a decision."""
        line = self._read_line(f"{CHOICES}? ", request)
        if line is None:
            return False

        word, _, reason = line.strip().partition(" ")
        if request.context.cancelled:
            self._write("The call was cancelled, so this line was not used. If it was a new prompt, type it again.")
            return False
        match word.lower(), reason.strip():
            case ("n" | "no", reason):
                return Decision.reject(reason)
            case ("s" | "stop", reason):
                return Decision.stop(reason)
            case ("y" | "yes", ""):
                return True
            case ("a" | "always", ""):
                self._always.add((digest_definition(request.tool), request.tool))
                return True
            case ("e" | "edit", ""):
                return self._edit(request)
            case ("w" | "whole", ""):
                self._write(_write_values(request))
            case _:
                self._write(HELP)

        return None

    def _edit(self, request: ApprovalRequest) -> Verdict | None:
        line = self._read_line("All arguments, as JSON: ", request)
        if line is None:
            return False

        try:
            arguments = json.loads(line)
        except ValueError as error:
            self._write(f"That is not JSON: {error}")
            return None

        if isinstance(arguments, dict):
            return Decision.modify(arguments)
        self._write("Arguments are a JSON object: {...}")
        return None

    def _read_line(self, prompt: str, request: ApprovalRequest) -> str | None:
        """Read a line. Return None if the call is cancelled before, in which case the line is not read."""
        if self._read is not None or not has_terminal():
            return (self._read or input)(prompt)

        import termios  # Windows has none

        termios.tcflush(sys.stdin, termios.TCIFLUSH)  # what was typed before the prompt is not the answer
        print(prompt, end="", file=sys.stderr, flush=True)  # as `input` does at a terminal
        is_typed = False
        while not is_typed:
            is_typed = bool(select.select([sys.stdin], [], [], PAUSE)[0])
            if request.context.cancelled:
                return None

        line = sys.stdin.readline()
        if not line:
            raise EOFError
        return line


def has_terminal() -> bool:
    """Return whether the standard input is a terminal at which `Console` can wait for a line and for cancellation."""
    if sys.platform == "win32" or sys.stdin is None or is_in_kernel():
        return False
    return sys.stdin.isatty() and sys.stdin == sys.__stdin__


def _describe_request(request: ApprovalRequest) -> str:
    tool = request.tool
    about = ", ".join(filter(None, (escape_confusable(tool.title or ""), tool.settings.effect)))
    reason = shorten_middle(escape_confusable(request.call.reasoning), MAX_ARGUMENTS)
    reasoning = f"It gives this reason: {reason}\n" if reason else ""
    arguments = shorten_middle(_write_values(request), MAX_ARGUMENTS)
    called = f"{tool.name} ({about})" if about else tool.name
    model = f"The model of {request.context.agent}" if request.context.agent else "The model"
    return f"{model} wants to call {called}:\n{_describe_origin(request)}{reasoning}{arguments}"


def _describe_origin(request: ApprovalRequest) -> str:
    """Describe the tool's origin, and the foreign tools that the run has called."""
    tool = request.tool
    source = f"The tool is {escape_confusable(tool.origin)}.\n" if tool.origin != tool.name else ""
    read = f"The run has read what others wrote, by {', '.join(request.foreign)}.\n" if request.foreign else ""
    return source + read


def _write_values(request: ApprovalRequest) -> str:
    """Write the values of a call: the arguments, and the shared values that it imports."""
    arguments = request.render_arguments(indent=2)
    return f"{arguments}\nIt imports these shared values: {request.imports_json}" if request.imports else arguments


def shorten_middle(text: str, most: int) -> str:
    """Replace the middle of a long text by a note with its length and its SHA-256."""
    if len(text) <= most:
        return text
    import hashlib  # slow to load, and rarely used

    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    note = f"\n... {len(text) - most:,} of {len(text):,} characters are not shown here; SHA-256 of all: {digest} ...\n"
    return text[: most - most // 4] + note + text[len(text) - most // 4 :]


class ApprovalQueue:
    """An approver whose calls wait in a queue until another part of the program answers them. Many runs can share it.

    The run emits `ApprovalNeeded` for each call. A call that times out or is cancelled leaves the queue at once.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[str, _WaitingCall] = {}

    @property
    def pending(self) -> tuple[PendingApproval, ...]:
        """The calls that wait, the oldest first."""
        with self._lock:
            return tuple(question.pending for question in self._open.values() if not question.cancellation)

    def answer(self, call_id: str, verdict: Verdict) -> None:
        """Decide on a call. Works on any thread and in any task.

        Raises:
            ApprovalError: No such call waits: it is unknown, has ended, or was answered already.
        """
        with self._lock:
            question = self._open.pop(call_id, None)
        if question is not None and not question.cancellation and not question.loop.is_closed():
            with suppress(InvalidStateError):
                question.verdict.set_result(verdict)
                return
        raise ApprovalError(f"The call {call_id!r} does not wait for a decision, or was answered already.")

    if not TYPE_CHECKING:  # type checkers report missing attributes themselves
        __getattr__ = explain_missing(("approve reject resolve", "queue.answer(call_id, True)"))

    async def __call__(self, request: ApprovalRequest) -> Verdict:
        """Add a call to the queue, and wait for the answer."""
        import asyncio

        question = _WaitingCall(request.to_pending(), request.context.cancellation, asyncio.get_running_loop())
        with self._lock:
            if self._open.setdefault(request.call.id, question) is not question:
                raise ApprovalError(f"A call {request.call.id!r} is in this queue already.")
        try:
            request.announce()
            return await asyncio.wrap_future(question.verdict)
        finally:
            with self._lock:
                if self._open.get(request.call.id) is question:
                    del self._open[request.call.id]


@dataclass(frozen=True)
class _WaitingCall:
    """A call in the queue, with the future of its answer. `cancellation` ends the wait."""

    pending: PendingApproval
    cancellation: Cancellation
    loop: asyncio.AbstractEventLoop
    verdict: Future[Verdict] = field(default_factory=Future)


class Notebook(Console):
    """An approver that asks in a notebook, by buttons if they work, or else with `input()`.

    Buttons need the extra `notebook`, and a kernel that receives clicks while a cell runs: ipykernel 7 in JupyterLab
    4.4 or later; ipykernel 7.4 elsewhere, with `await runner.arun(...)`; or any kernel with `runner.start(...)`, after
    the cell has ended. If no button appears within five seconds, `input()` is used. Without a front end the call is
    refused.
    """

    _without_buttons: frozenset[bool] = frozenset()  # they failed on the main thread (True), on others (False)

    @override
    def _ask_user(self, request: ApprovalRequest) -> Verdict:
        is_main = threading.current_thread() is threading.main_thread()
        has_buttons = is_main not in self._without_buttons and has_widgets()
        if self._read is None and has_buttons and is_in_kernel():
            pending = request.to_pending(_describe_origin(request).rstrip())
            question = Question(render_pending(pending, sys.maxsize))  # in full: a person must see all that is approved
            question.display()
            if question.wait_until_ready(READY_SECONDS):
                return _wait_for_button(question, request, partial(render_decided, pending))
            question.close("")
            self._without_buttons |= {is_main}
        return super()._ask_user(request)


def _wait_for_button(question: Question, request: ApprovalRequest, render: Callable[[str, str], str]) -> Verdict:
    try:
        while (answer := question.wait(PAUSE)) is None:
            if request.context.cancelled:
                question.close(render("cancelled", ""))
                return False
    except BaseException:
        question.close(render("not answered", ""))
        raise
    is_approved, reason = answer
    question.close(render("approved" if is_approved else "rejected", reason))
    return True if is_approved else Decision.reject(reason)


NO_CONDITION = (
    "ask_when needs a condition: give names=, effects= or when=. approve=person asks about every call, and "
    "when=lambda request: request.required about those whose tools require approval."
)


def approve_all(_: ApprovalRequest) -> bool:
    """Approve every call without asking."""
    return True


def defer(_: ApprovalRequest) -> Decision:
    """Pause the run at every call, until there is a decision."""
    return Decision.defer()


@check_options
def allow(*tools: str | Tool[..., Any], otherwise: Approver) -> Approver:
    """Approve calls of the listed tools, and ask another approver about the rest.

    Args:
        *tools: Names, or patterns such as "read_*"; or tools, with their current definition. The approver is asked if a
            tool has changed since, or for another tool of the same name or another instance.
        otherwise: Approver for the rest.

    Raises:
        DefinitionError: One of the tools is neither a name nor a tool, or `otherwise` cannot be called.
    """
    for each in tools:
        check_type("tools", each, str, Tool)
    check_function("otherwise", otherwise)
    patterns = tuple(each.strip() for each in tools if isinstance(each, str))
    listed = tuple(each for each in tools if isinstance(each, Tool))
    definitions = _Definitions(listed, frozenset((digest_definition(each), each) for each in listed))
    return partial(_allow, names=patterns, definitions=definitions, otherwise=otherwise)


@dataclass(frozen=True)
class _Definitions:
    """Tools with digests of their definitions. A fingerprint leaves out the digests, since they may depend on paths."""

    tools: tuple[Tool[..., Any], ...]
    digests: frozenset[tuple[str, Tool[..., Any]]] = field(repr=False)


def _allow(
    request: ApprovalRequest, *, names: Sequence[str], definitions: _Definitions, otherwise: Approver
) -> Verdict | Awaitable[Verdict]:
    if definitions.tools and (digest_definition(request.tool), request.tool) in definitions.digests:
        return True
    return True if _is_named(request, names) else otherwise(request)


@check_options
def ask_when(
    approver: Approver,
    *,
    names: Sequence[str] = (),
    effects: Sequence[Effect] = (),
    when: Callable[[ApprovalRequest], object] | None = None,
) -> Approver:
    """Ask an approver about calls that meet one of the conditions, and approve the rest.

    Calls that need approval by their tool's own `approve=` are always asked about.

    Args:
        approver: Approver for calls that meet a condition.
        names: Names of tools, or patterns such as "delete_*". A name that no tool has is not an error, since other
            runners may have the tool.
        effects: Effects of tools, such as "destructive"; a tool without an effect may have any of them.
        when: A sync function of an ApprovalRequest. If it returns anything but False, the approver is asked.

    Raises:
        DefinitionError: There is no condition, or no approver; a condition can never be met; or `when` is async.
    """
    patterns = tuple(each.strip() for each in check_texts("names", names))
    asked_about = _check_effects(effects) if effects else frozenset()
    if not (patterns or asked_about) and when is None:
        raise DefinitionError(NO_CONDITION)
    check_function("approver", approver)
    if when is not None:
        check_sync_function("when", when)
    return partial(_ask_when, approver=approver, names=patterns, effects=asked_about, when=when)


def _ask_when(
    request: ApprovalRequest,
    *,
    approver: Approver,
    names: Sequence[str],
    effects: frozenset[str | None],
    when: Callable[[ApprovalRequest], object] | None,
) -> Verdict | Awaitable[Verdict]:
    is_asked = (
        request.required
        or _is_named(request, names)
        or request.tool.settings.effect in effects
        or (when is not None and when(request) is not False)
    )
    return approver(request) if is_asked else True


@check_options
def after_foreign(approver: Approver, *, effects: Sequence[Effect] = ("write", "destructive")) -> Approver:
    """Ask an approver about changes after the run has called a tool with `trust="foreign"`, and approve the rest.

    Texts of other people may contain instructions for the model. The tools of MCP servers and A2A agents, the tools for
    the web, and tools with `@tool(trust="foreign")` are foreign. Calls in earlier messages and of sub-agents count,
    too.

    Calls whose tool requires approval are always asked about.

    Args:
        approver: Approver for these calls.
        effects: Effects that are asked about; a tool without an effect may have any of them.

    Raises:
        DefinitionError: There is no approver, or an effect that does not exist.
    """
    return ask_when(approver, when=partial(_follows_foreign, effects=_check_effects(effects)))


def _follows_foreign(request: ApprovalRequest, *, effects: frozenset[str | None]) -> bool:
    return bool(request.foreign) and request.tool.settings.effect in effects


def _is_named(request: ApprovalRequest, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(request.tool.name, pattern) for pattern in patterns)


def _check_effects(effects: Sequence[Effect]) -> frozenset[str | None]:
    """Check names of effects, and add None: a tool without an effect may have any of them."""
    names = check_texts("effects", effects)
    return frozenset([None, *(check_choice("effects", name, *get_args(Effect)) for name in names)])
