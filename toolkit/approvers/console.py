"""A person at a terminal is asked, one question at a time."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from toolkit._execution.approval import ApprovalRequest, Decision, Verdict, definition_of, shortened, shown
from toolkit._schema.json_text import escaped
from toolkit._tools.tool import Tool

# Characters of a call's arguments that are shown at once.
MAX_SHOWN = 4_000
# Answers that are none, until the call is rejected.
MAX_TRIES = 5

CHOICES = "[y]es, [n]o, [e]dit, [a]lways this tool, [w]hole arguments, [s]top the run"
HELP = "Answer y, n, e, a, w or s; after n and s you may say why: n too expensive"


class Console:
    """An approver that asks at the terminal.

    It shows the arguments as they will be used, with nothing hidden. A yes is for one call; "always" is for the calls
    of this tool as it is now, for as long as this approver lives. The end of the input is a no.

    Args:
        read: Shows a prompt and gives what is typed; `input`, where there is a terminal, by default.
        write: Shows a text.
    """

    def __init__(self, *, read: Callable[[str], str] | None = None, write: Callable[[str], object] = print) -> None:
        self._read = read
        self.write = write
        self._lock = threading.Lock()
        self._always: set[str] = set()

    @property
    def can_ask(self) -> bool:
        """Whether there is somebody to ask."""
        return self._read is not None or (sys.stdin is not None and sys.stdin.isatty())

    def __call__(self, request: ApprovalRequest) -> Verdict:
        """Ask about one call."""
        if not self.can_ask:
            return Decision.reject("There is no terminal to ask at.")
        with self._lock:
            if definition_of(request.tool) in self._always:
                return True
            return self._asked(request)

    def _asked(self, request: ApprovalRequest) -> Verdict:
        if request.context.cancelled:
            return False
        self.write(_described(request))
        try:
            answers = (self._answer(request) for _ in range(MAX_TRIES))
            verdict = next((answer for answer in answers if answer is not None), False)
        except EOFError:
            return Decision.reject("Nobody was there to answer.")
        if request.context.cancelled:
            self.write("This came too late: the call was given up.")
        return verdict

    def _answer(self, request: ApprovalRequest) -> Verdict | None:
        """Take one answer; None where it decides nothing."""
        word, _, reason = self.read(f"{CHOICES}? ").strip().partition(" ")
        answers = _ANSWERS_WITH_REASON if reason else _ANSWERS
        return answers.get(word.lower(), _explain)(self, request, reason.strip())

    def read(self, prompt: str) -> str:
        """Take a line."""
        return (self._read or input)(prompt)

    def remember(self, tool: Tool[..., Any]) -> None:
        """Ask no more about a tool, as it is now."""
        self._always.add(definition_of(tool))


def _approve(*_: object) -> Verdict:
    return True


def _reject(_: Console, __: ApprovalRequest, reason: str) -> Verdict:
    return Decision.reject(reason)


def _stop(_: Console, __: ApprovalRequest, reason: str) -> Verdict:
    return Decision.stop(reason)


def _approve_always(console: Console, request: ApprovalRequest, _: str) -> Verdict:
    console.remember(request.tool)
    return True


def _edit(console: Console, *_: object) -> Verdict | None:
    try:
        arguments = json.loads(console.read("All arguments, as JSON: "))
    except ValueError as error:
        console.write(f"That is no JSON: {error}")
        return None
    if isinstance(arguments, dict):
        return Decision.modify(arguments)
    console.write("Arguments are a JSON object: {...}")
    return None


def _show_all(console: Console, request: ApprovalRequest, _: str) -> None:
    console.write(shown(request.arguments, indent=2))


def _explain(console: Console, *_: object) -> None:
    console.write(HELP)


_Answer: TypeAlias = Callable[[Console, ApprovalRequest, str], "Verdict | None"]
_ANSWERS_WITH_REASON: Mapping[str, _Answer] = {"n": _reject, "no": _reject, "s": _stop, "stop": _stop}
_ANSWERS: Mapping[str, _Answer] = {
    **_ANSWERS_WITH_REASON,
    **dict.fromkeys(("y", "yes"), _approve),
    **dict.fromkeys(("e", "edit"), _edit),
    **dict.fromkeys(("a", "always"), _approve_always),
    **dict.fromkeys(("w", "whole"), _show_all),
}


def _described(request: ApprovalRequest) -> str:
    tool = request.tool
    title = f" ({escaped(tool.title)})" if tool.title else ""
    effect = f", which is {tool.settings.effect}" if tool.settings.effect else ""
    said = shortened(escaped(request.call.reasoning), MAX_SHOWN)
    reasoning = f"It gives this reason: {said}\n" if said else ""
    arguments = shortened(shown(request.arguments, indent=2), MAX_SHOWN)
    return f"The model asks for {tool.name}{title}{effect}:\n{reasoning}{arguments}"
