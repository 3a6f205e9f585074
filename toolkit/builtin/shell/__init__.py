"""`shell_exec` and `bash`: commands in one directory; no process of a command outlives its call.

Files, each importing only those below it:

    process    one command: the guard process, its output, its end
    sandbox    namespaces by bubblewrap, environment variables, resource limits
    guard      the program of the guard process, which imports nothing of the package
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from typing_extensions import TypedDict, Unpack

from toolkit._concurrency.backend import is_async
from toolkit._concurrency.cancellation import DEADLINE, Cancellation
from toolkit._concurrency.tasks import run_to_end
from toolkit._context import ToolContext
from toolkit._guards.options import check_env, check_seconds, check_texts, check_type, check_whole, open_root
from toolkit._guards.paths import Root
from toolkit._messages import ToolResult
from toolkit._options import spell_options
from toolkit._tools.decorator import tool
from toolkit._tools.options import ValueRule
from toolkit._tools.tool import Tool
from toolkit.builtin.files import coding_tools
from toolkit.builtin.shell.process import GUARD_LOST, LATE, Capture, CommandOutcome, CommandRunner
from toolkit.builtin.shell.sandbox import CommandLimits, Sandbox
from toolkit.errors import Cancelled, DefinitionError, Failed, TimedOut, ToolError

# Denied by default. This prevents accidents, not attacks: a command can be written in countless ways.
DEFAULT_SHELL_DENY = ("rm -rf /", "sudo ", "mkfs", "> /dev/", "dd if=")
DEFAULT_BASH_DENY = ("rm -rf /", "rm -rf /*", "mkfs", "dd if=", ":(){:|:&};:", ":(){ :|:& };:")
DEFAULT_TIMEOUT = 30  # seconds
MAX_SECONDS = 300  # for a command of shell_exec
BETWEEN = "\n--- stderr ---\n"
TRUNCATED = "\n... (truncated)"
OUTPUT_TRUNCATED = "\n... (output truncated)"


class CommandOptions(TypedDict, total=False):
    """Options that both tools have: see `shell_tool`."""

    confirm: Callable[[str], bool] | None
    approve: bool | ValueRule
    error_on_exit: bool
    env: Mapping[str, str] | None
    limits: CommandLimits | None
    sandbox: bool | Sandbox


_DEFAULTS: Mapping[str, Any] = {"approve": False, "error_on_exit": False, "sandbox": False}


@spell_options(CommandOptions, _DEFAULTS, {})
def shell_tool(
    root: str | os.PathLike[str] | Root,
    *,
    timeout: float = DEFAULT_TIMEOUT,
    max_output: int = 4000,
    deny: Sequence[str] = DEFAULT_SHELL_DENY,
    **options: Unpack[CommandOptions],
) -> Tool[..., Any]:
    """Make `shell_exec`, which runs a command with sh in a directory.

    Without a sandbox, a command can do whatever this process can: it starts in the directory, but can leave it, and it
    can read this process's environment. When a command ends, times out or is cancelled, all processes that it started
    are killed: on Linux also those in other sessions, elsewhere those in its process group. The command's own
    environment has a few variables such as `PATH`, `HOME` and `LANG`, and no keys.

    Args:
        root: An existing directory; it is held open.
        timeout: Seconds for a command by default, 300 at most; 0 or less is 30. Killing its processes takes a moment
            more, or up to 10 seconds if they resist.
        max_output: Bytes of output that the model gets, half from the beginning and half from the end.
        deny: Texts that a command may not contain, in upper or lower case. This prevents accidents, but is not a
            sandbox.
        confirm: A function of each command that is not denied, called on the thread that runs it; only True lets it
            run.
        approve: Whether a call needs approval, as for `@tool`.
        error_on_exit: Whether the call fails if the command exits with another code than 0.
        env: Variables that are added to the environment.
        limits: Resource limits of a command.
        sandbox: Whether each command runs in its own namespaces, by bubblewrap: True, or a `Sandbox`.

    Raises:
        DefinitionError: There is no such directory, the sandbox does not work, an option is invalid, or this is
            a program of PyInstaller.
    """
    seconds = min(check_seconds("timeout", timeout, DEFAULT_TIMEOUT), MAX_SECONDS)
    return _make_tool("sh", root, seconds, max_output, deny, options)


@spell_options(CommandOptions, _DEFAULTS, {})
def bash_tool(
    root: str | os.PathLike[str] | Root,
    *,
    timeout: float = 120,
    max_output: int = 256 * 1024,
    deny: Sequence[str] = DEFAULT_BASH_DENY,
    **options: Unpack[CommandOptions],
) -> Tool[..., Any]:
    """Make `bash`, which runs a command with bash in a directory, under the same conditions as `shell_tool`.

    Args:
        root: The directory.
        timeout: Seconds for a command; killing its processes takes up to 10 more.
        max_output: Bytes of stdout, and of stderr, that the model gets.
        deny: Texts that a command may not contain; the case of letters matters. This prevents accidents, but is not a
            sandbox.
        **options: As for `shell_tool`.

    Raises:
        DefinitionError: As for `shell_tool`.
    """
    return _make_tool("bash", root, check_seconds("timeout", timeout), max_output, deny, options)


def default_tools(root: str | os.PathLike[str] | Root) -> list[Tool[..., Any]]:
    """Make the tools of an agent that works on a project: `bash_tool(root)` and `coding_tools(root)`, in this order.

    The file tools stay in the directory. Commands can leave it and can read private files: require approval for them
    (`Runner(..., approve=...)`), or combine the two yourself, with a sandbox.

    Args:
        root: An existing directory; it is held open.

    Raises:
        DefinitionError: As for `coding_tools` and `bash_tool`.
    """
    root = open_root(root)
    return [bash_tool(root), *coding_tools(root)]


def _make_tool(
    interpreter: str,
    root: str | os.PathLike[str] | Root,
    seconds: float,
    max_output: int,
    deny: Sequence[str],
    options: CommandOptions,
) -> Tool[..., Any]:
    """Make a tool, and try its sandbox, so that a fault is raised here and not by the first command."""
    if getattr(sys, "frozen", False):
        raise DefinitionError(
            f"The tool for {interpreter} starts Python, which a program of PyInstaller does not have. Write a tool of "
            "your own with subprocess.run()."
        )

    root = open_root(root)
    limits = options.get("limits")
    confirm = options.get("confirm")
    if confirm is not None and (not callable(confirm) or is_async(confirm)):
        raise DefinitionError("confirm= must be a plain function of the command. Pass an async one as approve=.")

    option = check_type("sandbox", options.get("sandbox", False), bool, Sandbox)
    sandbox = Sandbox() if option is True else option or None
    runner = CommandRunner(
        root=root,
        interpreter=(interpreter, "-c", "--"),
        max_output=check_whole("max_output", max_output),
        variables=check_env(options.get("env")),
        limits=CommandLimits() if limits is None else check_type("limits", limits, CommandLimits),
        make_prefix=sandbox.prepare(root) if sandbox else None,
    )
    error_on_exit = check_type("error_on_exit", options.get("error_on_exit", False), bool)
    commands = _Commands(runner, seconds, check_texts("deny", deny), confirm, error_on_exit)
    command_tool = commands.bash if interpreter == "bash" else commands.shell_exec
    isolation = sandbox.description if sandbox else "There is no sandbox."
    description = f"{command_tool.description}\n\nA command may take {seconds:g} seconds. {isolation}"
    return tool(command_tool, description=description, approve=options.get("approve", False))


@dataclass(frozen=True)
class _Commands:
    """The tools for commands of one directory. Their options are those of `shell_tool`."""

    runner: CommandRunner
    seconds: float
    deny: Sequence[str]
    confirm: Callable[[str], bool] | None
    error_on_exit: bool

    @property
    def identity(self) -> str:
        """The directory, for approvals."""
        return self.runner.root.identity

    @tool(title="Run Command", effect="destructive")
    async def shell_exec(self, command: str, timeout: int = 0, *, context: ToolContext) -> ToolResult:
        """Run a command with sh in the workspace directory and return its output.

        Each call starts in that directory. There is no input and no terminal. Background processes are ended when the
        command ends. Long output is cut in the middle.

        Args:
            command: Shell command to execute.
            timeout: Seconds that it may take, 300 at most; 0 for the default.
            context: Cancels the command.
        """
        return await run_to_end(partial(self._run_sh, command, timeout), context.cancellation)

    @tool(title="Run Command", effect="destructive")
    async def bash(self, command: str, *, context: ToolContext) -> ToolResult:
        """Run a bash command in the working directory and return its exit code, stdout and stderr.

        Each call starts in that directory. There is no input and no terminal. Background processes are ended when the
        command ends. Long output is cut in the middle.

        Args:
            command: The bash command to execute.
            context: Cancels the command.
        """
        return await run_to_end(partial(self._run_bash, command), context.cancellation)

    def _run_sh(self, command: str, timeout: int, cancellation: Cancellation) -> ToolResult:
        if not command.strip():
            raise Failed("command is required")
        if blocked := next((text for text in self.deny if text.lower() in command.lower()), None):
            raise Failed(f"command blocked for safety: {blocked}")
        seconds = min(timeout if timeout > 0 else self.seconds, MAX_SECONDS)
        outcome = self._run(command, seconds, cancellation)
        text = _join_streams(outcome.stdout, outcome.stderr, self.runner.max_output)
        if outcome.status is not None:
            text = _append_line(text, outcome.failure) or "(no output)"
        return self._make_result(outcome, text, f"command timed out after {seconds:g}s")

    def _run_bash(self, command: str, cancellation: Cancellation) -> ToolResult:
        if denied := next((text for text in self.deny if text in command), None):
            text = f"Command blocked by safety policy: contains '{denied}'. This pattern is denied for safety."
            raise Failed(text)
        outcome = self._run(command, self.seconds, cancellation)
        text = _format_streams(outcome.stdout, outcome.stderr, self.runner.max_output)
        if outcome.status is not None:
            text = f"Exit code: {outcome.exit_code}\n{text}"
        if outcome.exit_code == -1:
            text = _append_line(text, outcome.failure)
        return self._make_result(outcome, text, f"Command timed out after {self.seconds:g}s")

    def _run(self, command: str, seconds: float, cancellation: Cancellation) -> CommandOutcome:
        """Run a command once it is confirmed."""
        if self.confirm is not None and self.confirm(command) is not True:
            raise Failed("Command was not confirmed by the user.")
        return self.runner.run(command, seconds, cancellation)

    def _make_result(self, outcome: CommandOutcome, text: str, late: str) -> ToolResult:
        """Make the result of a command from its output; `late` is the message if it took too long."""
        details = {"exit_code": outcome.exit_code, "success": outcome.exit_code == 0}
        if outcome.status is None:
            error = _make_error(outcome.reason, late)
            return ToolResult(_append_line(text, error.text), error=error.text, kind=error.kind, details=details)
        return ToolResult(text, error=(outcome.failure if self.error_on_exit else "") or None, details=details)


def _make_error(reason: str, late: str) -> ToolError:
    """Make the error for the reason why a command was ended."""
    if reason == LATE:
        return TimedOut(late)
    if reason == DEADLINE:
        return TimedOut()
    if reason == GUARD_LOST:
        return Failed("The end of the command is unknown: it killed its supervisor process.")
    return Cancelled()


def _join_streams(stdout: Capture, stderr: Capture, max_bytes: int) -> str:
    """Join stdout and stderr. If both are too long together, each gets at least half of the room."""
    between = BETWEEN if stdout.size and stderr.size else ""
    room = max_bytes - len(between)
    first = stdout.text(max(room - stderr.size, room // 2)) if stdout.size else ""
    second = stderr.text(max(room - stdout.size, room // 2)) if stderr.size else ""
    note = TRUNCATED if stdout.size + stderr.size > room else ""
    return f"{first}{between}{second}{note}"


def _format_streams(stdout: Capture, stderr: Capture, max_bytes: int) -> str:
    """Return stdout, or both streams under headings if there is stderr."""
    output = stdout.text(max_bytes) + (OUTPUT_TRUNCATED if stdout.size > max_bytes else "")
    if not stderr.size:
        return output
    errors = stderr.text(max_bytes) + (OUTPUT_TRUNCATED if stderr.size > max_bytes else "")
    return f"STDOUT:\n{output}\nSTDERR:\n{errors}"


def _append_line(output: str, last: str) -> str:
    """Append a line to an output, unless the line is empty."""
    if not last:
        return output
    separator = "\n" if output and not output.endswith("\n") else ""
    return f"{output}{separator}{last}"
