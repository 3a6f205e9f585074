"""`shell_exec` and `bash`: one way to run a command, under two families' names and texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from toolkit._concurrency.cancellation import DEADLINE, Cancellation
from toolkit._concurrency.tasks import run_to_end
from toolkit._context import ToolContext
from toolkit._messages import ToolResult
from toolkit._tools.decorator import tool
from toolkit.builtin.shell.process import LATE, LOST, Capture, Commands, Outcome
from toolkit.errors import Cancelled, Failed, TimedOut, ToolError

# Seconds that a model may ask for.
MAX_SECONDS = 300
BETWEEN = "\n--- stderr ---\n"
TRUNCATED = "\n... (truncated)"
OUTPUT_TRUNCATED = "\n... (output truncated)"


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What a tool does beside running commands.

    Attributes:
        seconds: How long a command may take.
        deny: Texts that no command may hold.
        confirm: Says of each command whether it may run; only True is a yes.
        error_on_exit: Whether a command that fails is a call that fails.
    """

    seconds: float
    deny: Sequence[str]
    confirm: Callable[[str], bool] | None
    error_on_exit: bool


class ShellExec:
    """The tool for one workspace."""

    def __init__(self, commands: Commands, rules: Rules) -> None:
        self._commands, self._rules = commands, rules

    @tool(title="Run Command", effect="destructive")
    async def shell_exec(self, command: str, timeout: int = 0, *, context: ToolContext) -> ToolResult:
        """Run a command with sh in the workspace directory, and give what it prints.

        Each call begins in that directory again. There is no input and no terminal. What is left running in the
        background ends with the command. Of long output, the beginning and the end are given.

        Args:
            command: Shell command to execute.
            timeout: Seconds that it may take, 300 at most; 0 for the usual time.
            context: Ends the command.
        """
        return await run_to_end(partial(self._run, command, timeout), context.cancellation)

    def _run(self, command: str, timeout: int, cancellation: Cancellation) -> ToolResult:
        if not command.strip():
            raise Failed("command is required")
        blocked = next((text for text in self._rules.deny if text.lower() in command.lower()), None)
        if blocked is not None:
            raise Failed(f"command blocked for safety: {blocked}")
        _ask(self._rules, command)
        seconds = min(timeout if timeout > 0 else self._rules.seconds, MAX_SECONDS)
        outcome = self._commands.run(command, seconds, cancellation)
        output = _joined(outcome.stdout, outcome.stderr, self._commands.max_output)
        if outcome.status is None:
            return _unfinished(outcome, output, f"command timed out after {seconds:g}s")
        return _finished(outcome, _lines(output, outcome.failure) or "(no output)", self._rules)


class Bash:
    """The tool for one working directory."""

    def __init__(self, commands: Commands, rules: Rules) -> None:
        self._commands, self._rules = commands, rules

    @tool(title="Run Command", effect="destructive")
    async def bash(self, command: str, *, context: ToolContext) -> ToolResult:
        """Run a bash command in the working directory, and give its exit code, stdout and stderr.

        Each call begins in that directory again. There is no input and no terminal. What is left running in the
        background ends with the command. Of long output, the beginning and the end are given.

        Args:
            command: The bash command to execute.
            context: Ends the command.
        """
        return await run_to_end(partial(self._run, command), context.cancellation)

    def _run(self, command: str, cancellation: Cancellation) -> ToolResult:
        denied = next((text for text in self._rules.deny if text in command), None)
        if denied is not None:
            raise Failed(f"Command blocked by safety policy: contains '{denied}'. This pattern is denied for safety.")
        _ask(self._rules, command)
        outcome = self._commands.run(command, self._rules.seconds, cancellation)
        output = _parted(outcome.stdout, outcome.stderr, self._commands.max_output)
        if outcome.status is None:
            return _unfinished(outcome, output, f"Command timed out after {self._rules.seconds:g}s")
        return _finished(outcome, f"Exit code: {outcome.exit_code}\n{output}", self._rules)


def _ask(rules: Rules, command: str) -> None:
    if rules.confirm is not None and rules.confirm(command) is not True:
        raise Failed("Command was not confirmed by the user.")


def _finished(outcome: Outcome, text: str, rules: Rules) -> ToolResult:
    """Make the result of a command that ended by itself."""
    error = outcome.failure if rules.error_on_exit else ""
    return ToolResult(text, error=error or None, details=_details(outcome))


def _unfinished(outcome: Outcome, output: str, late: str) -> ToolResult:
    """Make the result of a command that was ended: what it had printed is kept."""
    error = _error(outcome.why, late)
    return ToolResult(_lines(output, error.text), error=error.text, kind=error.kind, details=_details(outcome))


def _error(why: str, late: str) -> ToolError:
    """Make the error for what a command was ended for."""
    if why == LATE:
        return TimedOut(late)
    if why == DEADLINE:
        return TimedOut("Timed out.")
    if why == LOST:
        return Failed("Nobody knows how the command ended: it killed the process that watched over it.")
    return Cancelled()


def _details(outcome: Outcome) -> dict[str, Any]:
    return {"exit_code": outcome.exit_code, "success": outcome.exit_code == 0}


def _joined(stdout: Capture, stderr: Capture, most: int) -> str:
    """Put stderr behind stdout; of what is too long, each has at least half of the room."""
    between = BETWEEN if stdout.size and stderr.size else ""
    room = most - len(between)
    texts = (
        one.text(max(room - other.size, room // 2)) if one.size else ""
        for one, other in ((stdout, stderr), (stderr, stdout))
    )
    return between.join(texts) + (TRUNCATED if stdout.size + stderr.size > room else "")


def _parted(stdout: Capture, stderr: Capture, most: int) -> str:
    """Give stdout, or both under headings where there is something in stderr."""
    texts = [one.text(most) + (OUTPUT_TRUNCATED if one.size > most else "") for one in (stdout, stderr)]
    return "STDOUT:\n{}\nSTDERR:\n{}".format(*texts) if stderr.size else texts[0]


def _lines(output: str, last: str) -> str:
    """Put a line behind an output, where there is one to put."""
    return f"{output}{'' if output.endswith(chr(10)) or not output else chr(10)}{last}" if last else output
