"""Tools that run commands in one directory; when a call ends, nothing of its command is left.

What only a tool for commands is made with: each value is looked at where it is given.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from toolkit._concurrency.backend import is_async
from toolkit._guards import options
from toolkit._guards.options import is_text
from toolkit._guards.paths import Root
from toolkit._tools.decorator import tool
from toolkit._tools.tool import Tool
from toolkit.builtin.shell.process import Commands
from toolkit.builtin.shell.sandbox import HIDDEN, CommandLimits, Sandbox
from toolkit.builtin.shell.tools import MAX_SECONDS, Bash, Rules, ShellExec
from toolkit.errors import DefinitionError


def variables(env: Mapping[str, str] | None) -> dict[str, str]:
    """Give a copy of variables that somebody wants to add to an environment.

    Raises:
        DefinitionError: There can be no such variable.
    """
    if not isinstance(env, (Mapping, type(None))):
        raise DefinitionError(f"env={env!r:.100} is no mapping, such as env={{'CI': '1'}}.")
    added = dict(env or {})
    for name, value in added.items():
        if not is_text(name) or not name or "=" in name or not is_text(value):
            raise DefinitionError(f"env= needs texts by name, without NUL, and without '=' in a name; it has {name!r}.")
    return added


def asked(confirm: Callable[[str], bool] | None) -> Callable[[str], bool] | None:
    """Give a plain function, where there is one.

    Raises:
        DefinitionError: It cannot be called, or answers with a promise.
    """
    if confirm is not None and (not callable(confirm) or is_async(confirm)):
        raise DefinitionError("confirm= is a plain function of the command; an async one can be given as approve=.")
    return confirm


__all__ = ["BLOCKED", "DENIED", "HIDDEN", "CommandLimits", "Sandbox", "bash_tool", "shell_tool"]

# What `shell_exec` and `bash` refuse where nothing else is said. It stops accidents, and nobody who means it: the same
# command can be written in countless ways. It is no sandbox.
BLOCKED = ("rm -rf /", "sudo ", "mkfs", "> /dev/", "dd if=")
DENIED = ("rm -rf /", "rm -rf /*", "mkfs", "dd if=", ":(){:|:&};:")
USUAL_SECONDS = 30


def shell_tool(
    root: str | os.PathLike[str] | Root,
    *,
    timeout: float = USUAL_SECONDS,
    max_output: int = 4000,
    deny: Sequence[str] = BLOCKED,
    confirm: Callable[[str], bool] | None = None,
    approve: bool | Callable[..., Any] = False,
    error_on_exit: bool = False,
    env: Mapping[str, str] | None = None,
    limits: CommandLimits | None = None,
    sandbox: bool | Sandbox = False,
) -> Tool[..., Any]:
    """Make `shell_exec`, which runs a command with sh in a directory.

    Without a sandbox a command can do whatever this process can: the directory is where it begins, not where it has to
    stay, and it can read this process's environment. When it ends, is late or is called off, all that it started is
    ended: on Linux whatever became of it, elsewhere what is left of its process group. The environment is made of a few
    variables (`PATH`, `HOME`, `LANG` and the like), without keys.

    Args:
        root: The directory, which is there already; it is held open.
        timeout: Seconds that a command may take where the model does not say, 300 at most; 0 or less is 30. To end what
            it leaves takes a moment more, and 10 seconds more where that keeps itself from being ended.
        max_output: Bytes of output that the model is shown, half from the beginning and half from the end.
        deny: Texts that no command may hold, in small or capital letters. It stops accidents; it is no sandbox.
        confirm: Is asked about each command, on the thread that runs it; only True lets it run.
        approve: Whether somebody has to agree before, as for every tool.
        error_on_exit: Whether a command that exits with something else than 0 makes the call fail.
        env: Variables that are added to the environment.
        limits: What a command may use.
        sandbox: Namespaces of its own, by bubblewrap: True, or what they are to be like.

    Raises:
        DefinitionError: There is no such directory, no sandbox where one is required, or a value makes no sense.
    """
    rules = Rules(
        seconds=min(options.seconds("timeout", timeout, USUAL_SECONDS), MAX_SECONDS),
        deny=options.texts("deny", deny),
        confirm=asked(confirm),
        error_on_exit=options.of_type("error_on_exit", error_on_exit, bool),
    )
    commands = _commands(root, "sh", max_output, env, limits, sandbox)
    return _told(ShellExec(commands, rules).shell_exec, commands, rules, approve)


def bash_tool(
    root: str | os.PathLike[str] | Root,
    *,
    timeout: float = 120,
    max_output: int = 256 * 1024,
    deny: Sequence[str] = DENIED,
    confirm: Callable[[str], bool] | None = None,
    approve: bool | Callable[..., Any] = False,
    error_on_exit: bool = False,
    env: Mapping[str, str] | None = None,
    limits: CommandLimits | None = None,
    sandbox: bool | Sandbox = False,
) -> Tool[..., Any]:
    """Make `bash`, which runs a command with bash in a directory; all that `shell_tool` says holds here, too.

    Args:
        root: The directory.
        timeout: Seconds that a command may take; to end what it leaves, up to 10 more.
        max_output: Bytes of stdout, and of stderr, that the model is shown.
        deny: Texts that no command may hold, letter for letter. It stops accidents; it is no sandbox.
        confirm: Is asked about each command that is not denied; only True lets it run.
        approve: Whether somebody has to agree before, as for every tool.
        error_on_exit: Whether a command that exits with something else than 0 makes the call fail.
        env: Variables that are added to the environment.
        limits: What a command may use.
        sandbox: Namespaces of its own, by bubblewrap: True, or what they are to be like.

    Raises:
        DefinitionError: As for `shell_tool`.
    """
    rules = Rules(
        seconds=options.seconds("timeout", timeout),
        deny=options.texts("deny", deny),
        confirm=asked(confirm),
        error_on_exit=options.of_type("error_on_exit", error_on_exit, bool),
    )
    commands = _commands(root, "bash", max_output, env, limits, sandbox)
    return _told(Bash(commands, rules).bash, commands, rules, approve)


def _commands(
    root: str | os.PathLike[str] | Root,
    interpreter: str,
    max_output: int,
    env: Mapping[str, str] | None,
    limits: CommandLimits | None,
    sandbox: bool | Sandbox,  # noqa: FBT001  True is short for the usual one
) -> Commands:
    held = options.held(root)
    return Commands(
        root=held,
        interpreter=(interpreter, "-c", "--"),
        max_output=options.whole("max_output", max_output),
        variables=variables(env),
        limits=CommandLimits() if limits is None else options.of_type("limits", limits, CommandLimits),
        sandbox=_sandbox(held, options.of_type("sandbox", sandbox, bool, Sandbox)),
    )


def _sandbox(root: Root, wanted: bool | Sandbox) -> tuple[Sandbox, str] | None:  # noqa: FBT001
    if wanted is False:
        return None
    sandbox = Sandbox() if wanted is True else wanted
    program = sandbox.found(root)
    return None if program is None else (sandbox, program)


def _told(made: Tool[..., Any], commands: Commands, rules: Rules, approve: bool | Callable[..., Any]) -> Tool[..., Any]:  # noqa: FBT001
    """Have a tool say what holds for it."""
    reach = "There is no sandbox." if commands.sandbox is None else commands.sandbox[0].told
    description = f"{made.description}\n\nA command may take {rules.seconds:g} seconds. {reach}"
    return tool(made, description=description, approve=approve)
