"""`shell_exec` and `bash`: two names and texts for running a command."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

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
class CommandTool:
    """Commands of one directory, and the rules for them.

    Attributes:
        runner: Runs the commands.
        seconds: Seconds for a command.
        deny: Texts that a command may not contain.
        confirm: Called with each command; it runs only if this returns True.
        error_on_exit: Whether a command that fails makes the call fail.
    """

    runner: CommandRunner
    seconds: float
    deny: Sequence[str]
    confirm: Callable[[str], bool] | None
    error_on_exit: bool

    @property
    def identity(self) -> str:
        """The directory, for approvals."""
        return self.runner.root.identity

    def ask(self, command: str) -> None:
        """Ask for confirmation of a command.

        Raises:
            Failed: It was not confirmed.
        """
        if self.confirm is not None and self.confirm(command) is not True:
            raise Failed("Command was not confirmed by the user.")

    def make_result(self, outcome: CommandOutcome, text: str, late: str) -> ToolResult:
        """Make the result of a command.

        Args:
            outcome: The end of the command.
            text: The output, as the model reads it.
            late: Message for a command that took too long.
        """
        details = {"exit_code": outcome.exit_code, "success": outcome.exit_code == 0}
        if outcome.status is None:
            error = _make_error(outcome.reason, late)
            return ToolResult(append_line(text, error.text), error=error.text, kind=error.kind, details=details)
        return ToolResult(text, error=(outcome.failure if self.error_on_exit else "") or None, details=details)


class ShellTool(CommandTool):
    """`shell_exec` for one directory."""

    @tool(title="Run Command", effect="destructive")
    async def shell_exec(self, command: str, timeout: int = 0, *, context: ToolContext) -> ToolResult:
        """Run a command with sh in the workspace directory and return its output.

        Each call starts in that directory. There is no input and no terminal. Background processes are ended when the
        command ends. Long output is cut in the middle.

        Args:
            command: Shell command to execute.
            timeout: Seconds that it may take, 300 at most; 0 for the usual time.
            context: Ends the command.
        """
        return await run_to_end(partial(self._run, command, timeout), context.cancellation)

    def _run(self, command: str, timeout: int, cancellation: Cancellation) -> ToolResult:
        if not command.strip():
            raise Failed("command is required")
        blocked = next((text for text in self.deny if text.lower() in command.lower()), None)
        if blocked is not None:
            raise Failed(f"command blocked for safety: {blocked}")
        self.ask(command)
        seconds = min(timeout if timeout > 0 else self.seconds, MAX_SECONDS)
        outcome = self.runner.run(command, seconds, cancellation)
        text = _join_streams(outcome.stdout, outcome.stderr, self.runner.max_output)
        if outcome.status is not None:
            text = append_line(text, outcome.failure) or "(no output)"
        return self.make_result(outcome, text, f"command timed out after {seconds:g}s")


class BashTool(CommandTool):
    """`bash` for one directory."""

    @tool(title="Run Command", effect="destructive")
    async def bash(self, command: str, *, context: ToolContext) -> ToolResult:
        """Run a bash command in the working directory and return its exit code, stdout and stderr.

        Each call starts in that directory. There is no input and no terminal. Background processes are ended when the
        command ends. Long output is cut in the middle.

        Args:
            command: The bash command to execute.
            context: Ends the command.
        """
        return await run_to_end(partial(self._run, command), context.cancellation)

    def _run(self, command: str, cancellation: Cancellation) -> ToolResult:
        denied = next((text for text in self.deny if text in command), None)
        if denied is not None:
            raise Failed(f"Command blocked by safety policy: contains '{denied}'. This pattern is denied for safety.")
        self.ask(command)
        outcome = self.runner.run(command, self.seconds, cancellation)
        text = _format_streams(outcome.stdout, outcome.stderr, self.runner.max_output)
        if outcome.status is not None:
            text = f"Exit code: {outcome.exit_code}\n{text}"
        return self.make_result(outcome, text, f"Command timed out after {self.seconds:g}s")


def _make_error(reason: str, late: str) -> ToolError:
    """Make the error for the reason why a command was ended."""
    if reason == LATE:
        return TimedOut(late)
    if reason == DEADLINE:
        return TimedOut("Timed out.")
    if reason == GUARD_LOST:
        return Failed("The end of the command is unknown: it killed its supervisor process.")
    return Cancelled()


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


def append_line(output: str, last: str) -> str:
    """Append a line to an output, unless it is empty."""
    return f"{output}{'' if output.endswith(chr(10)) or not output else chr(10)}{last}" if last else output
