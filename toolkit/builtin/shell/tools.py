"""`shell_exec` and `bash`: two names and texts for running a command."""

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
from toolkit.builtin.shell.process import GUARD_LOST, LATE, Capture, CommandOutcome, CommandRunner
from toolkit.errors import Cancelled, Failed, TimedOut, ToolError

MAX_SECONDS = 300  # that a model may ask for
BETWEEN = "\n--- stderr ---\n"
TRUNCATED = "\n... (truncated)"
OUTPUT_TRUNCATED = "\n... (output truncated)"


@dataclass(frozen=True, kw_only=True)
class CommandRules:
    """Rules for the commands of a tool.

    Attributes:
        seconds: Seconds for a command.
        deny: Texts that a command may not contain.
        confirm: Called with each command; it runs only if this returns True.
        error_on_exit: Whether a command that fails makes the call fail.
    """

    seconds: float
    deny: Sequence[str]
    confirm: Callable[[str], bool] | None
    error_on_exit: bool


class ShellTool:
    """`shell_exec` for one directory."""

    def __init__(self, commands: CommandRunner, rules: CommandRules) -> None:
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
        _confirm(self._rules, command)
        seconds = min(timeout if timeout > 0 else self._rules.seconds, MAX_SECONDS)
        outcome = self._commands.run(command, seconds, cancellation)
        output = _join_streams(outcome.stdout, outcome.stderr, self._commands.max_output)
        if outcome.status is None:
            return _make_unfinished_result(outcome, output, f"command timed out after {seconds:g}s")
        return _make_result(outcome, _append_line(output, outcome.failure) or "(no output)", self._rules)


class BashTool:
    """`bash` for one directory."""

    def __init__(self, commands: CommandRunner, rules: CommandRules) -> None:
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
        _confirm(self._rules, command)
        outcome = self._commands.run(command, self._rules.seconds, cancellation)
        output = _format_streams(outcome.stdout, outcome.stderr, self._commands.max_output)
        if outcome.status is None:
            return _make_unfinished_result(outcome, output, f"Command timed out after {self._rules.seconds:g}s")
        return _make_result(outcome, f"Exit code: {outcome.exit_code}\n{output}", self._rules)


def _confirm(rules: CommandRules, command: str) -> None:
    if rules.confirm is not None and rules.confirm(command) is not True:
        raise Failed("Command was not confirmed by the user.")


def _make_result(outcome: CommandOutcome, text: str, rules: CommandRules) -> ToolResult:
    """Make the result of a command that ended by itself."""
    error = outcome.failure if rules.error_on_exit else ""
    return ToolResult(text, error=error or None, details=_make_details(outcome))


def _make_unfinished_result(outcome: CommandOutcome, output: str, late: str) -> ToolResult:
    """Make the result of a command that was ended, with its output so far."""
    error = _make_error(outcome.reason, late)
    return ToolResult(
        _append_line(output, error.text), error=error.text, kind=error.kind, details=_make_details(outcome)
    )


def _make_error(reason: str, late: str) -> ToolError:
    """Make the error for the reason why a command was ended."""
    if reason == LATE:
        return TimedOut(late)
    if reason == DEADLINE:
        return TimedOut("Timed out.")
    if reason == GUARD_LOST:
        return Failed("Nobody knows how the command ended: it killed the process that watched over it.")
    return Cancelled()


def _make_details(outcome: CommandOutcome) -> dict[str, Any]:
    return {"exit_code": outcome.exit_code, "success": outcome.exit_code == 0}


def _join_streams(stdout: Capture, stderr: Capture, max_bytes: int) -> str:
    """Join stdout and stderr; if that is too long, each gets at least half of the room."""
    between = BETWEEN if stdout.size and stderr.size else ""
    room = max_bytes - len(between)
    texts = (
        one.text(max(room - other.size, room // 2)) if one.size else ""
        for one, other in ((stdout, stderr), (stderr, stdout))
    )
    return between.join(texts) + (TRUNCATED if stdout.size + stderr.size > room else "")


def _format_streams(stdout: Capture, stderr: Capture, max_bytes: int) -> str:
    """Return stdout, or both streams under headings if there is stderr."""
    texts = [one.text(max_bytes) + (OUTPUT_TRUNCATED if one.size > max_bytes else "") for one in (stdout, stderr)]
    return "STDOUT:\n{}\nSTDERR:\n{}".format(*texts) if stderr.size else texts[0]


def _append_line(output: str, last: str) -> str:
    """Append a line to an output, unless it is empty."""
    return f"{output}{'' if output.endswith(chr(10)) or not output else chr(10)}{last}" if last else output
