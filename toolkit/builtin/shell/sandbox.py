"""The surroundings of a command: a sandbox by bubblewrap, environment variables, resource limits.

bubblewrap: https://github.com/containers/bubblewrap
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from glob import glob
from pathlib import Path
from typing import TypeAlias

from toolkit._guards.options import check_texts, check_type, check_whole
from toolkit._guards.paths import Root
from toolkit.builtin.files.sensitive import DEFAULT_PRIVATE
from toolkit.errors import DefinitionError

# Variables of this process that commands get, besides LC_...; keys, tokens and passwords have other names.
PASSED_VARIABLES = frozenset(
    ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "LD_LIBRARY_PATH")
)
# Variables for programs without a terminal: no colours, no pager, no editor (git keeps the message or list that it has
# prepared), no question; and Python writes its output at once, so that it is not lost if the command is ended.
UNATTENDED_VARIABLES: Mapping[str, str] = {
    "TERM": "dumb",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "EDITOR": "true",
    "GIT_EDITOR": "true",
    "DEBIAN_FRONTEND": "noninteractive",
    "PYTHONUNBUFFERED": "1",
    "PATH": os.defpath,
}
# Usual places of secrets: those that file tools do not read, and the configuration of programs.
DEFAULT_HIDDEN = ("~/.config", *(f"~/{path}" for path in DEFAULT_PRIVATE if not path.startswith("!")))
INSTALL = "Install it (Debian, Ubuntu: apt install bubblewrap), on a Linux system that allows namespaces."
TEMPORARY = "/tmp"  # noqa: S108  the sandbox has one of its own
# Directories that a sandbox has of its own, each with the option that makes it.
OWN_MOUNTS: Mapping[str, str] = {"/dev": "--dev", "/proc": "--proc", TEMPORARY: "--tmpfs", "/run": "--tmpfs"}
TRIAL_TIMEOUT = 10.0  # seconds
# Returns the arguments that precede a command, for the real path of the directory that can be written to.
MakePrefix: TypeAlias = Callable[[Path], list[str]]


@dataclass(frozen=True, kw_only=True)
class Sandbox:
    """Namespaces for a command: one directory to write to, no other processes, no network.

    Everything else can be read, except hidden paths; /tmp and /run are empty, and removed at the end. A server that
    listens on a socket file elsewhere can be reached. The kernel is shared. Memory and CPU are not limited.

    Attributes:
        network: Whether the network can be reached, including the machine's own services.
        hidden: Paths that appear empty, except the directory itself; `~` is the user's home, `*` and `?` match within
            names.

    Raises:
        DefinitionError: A value is invalid.
    """

    network: bool = False
    hidden: Sequence[str] = DEFAULT_HIDDEN

    def __post_init__(self) -> None:
        check_type("network", self.network, bool)
        check_texts("hidden", self.hidden)

    @property
    def description(self) -> str:
        """The sandbox, described for a model."""
        network = "The network can be reached" if self.network else "No network, except Unix sockets in files"
        return (
            f"It runs in a sandbox: only this directory and /tmp can be written to, /tmp is empty at first. {network}."
        )

    def make_prefix(self, program: str, directory: Path) -> list[str]:
        """Return bubblewrap's arguments before a command, for the real path of the directory that can be written to."""
        hidden = [real for path in self.hidden for real in _expand(path)]
        parents = [path for path in hidden if directory.is_relative_to(path)]
        return [
            program,
            "--unshare-all",
            *(["--share-net"] if self.network else []),
            *("--die-with-parent", "--new-session", "--cap-drop", "ALL"),
            *("--ro-bind", "/", "/"),
            *(argument for path, option in OWN_MOUNTS.items() for argument in (option, path)),
            *_make_hiding_options(parents),
            *("--bind", str(directory), str(directory)),
            *_make_hiding_options(path for path in hidden if path not in parents),
            *("--setenv", "TMPDIR", TEMPORARY, "--chdir", str(directory), "--"),
        ]

    def prepare(self, root: Root) -> MakePrefix:
        """Find bubblewrap and try it. Return the function that makes its arguments.

        Raises:
            DefinitionError: bubblewrap does not work, or the directory contains one that a sandbox has of its own.
        """
        found = shutil.which("bwrap")
        program = "" if found is None else str(Path(found).absolute())
        problem = self._find_problem(program, root) if program else "bubblewrap (bwrap) is not installed"
        if problem:
            raise DefinitionError(f"There can be no sandbox: {problem}. {INSTALL}")
        return partial(self.make_prefix, program)

    def _find_problem(self, program: str, root: Root) -> str:
        try:
            command = [*self.make_prefix(program, _check_directory(root.locate())), "true"]
            trial = subprocess.run(  # noqa: S603
                command, stdin=subprocess.DEVNULL, capture_output=True, timeout=TRIAL_TIMEOUT, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"bubblewrap cannot be tried: {error}"
        message = trial.stderr.decode(errors="replace").strip()
        return message.rstrip(".") or f"bubblewrap ends with {trial.returncode}" if trial.returncode else ""


def _check_directory(directory: Path) -> Path:
    """Return a directory if there can be a sandbox for it, else raise."""
    if any(Path(path).resolve().is_relative_to(directory) for path in OWN_MOUNTS):
        own = ", ".join(OWN_MOUNTS)
        raise DefinitionError(f"There can be no sandbox for {directory}: a sandbox has {own} of its own.")
    return directory


def _expand(path: str) -> list[str]:
    """List the real paths that a pattern matches. A path that this process cannot find is not in the sandbox either."""
    path = os.path.expanduser(path).replace("[", "[[]")  # noqa: PTH111  it raises nothing
    real_paths: list[str] = []
    for match in glob(path):  # noqa: PTH207  it raises nothing, too
        with suppress(OSError):
            real_paths.append(os.path.realpath(match))
    return real_paths


def _make_hiding_options(paths: Iterable[str]) -> list[str]:
    """Return the options that hide paths."""
    arguments: list[str] = []
    for path in paths:
        arguments += ("--tmpfs", path) if os.path.isdir(path) else ("--ro-bind", os.devnull, path)  # noqa: PTH112
    return arguments


@dataclass(frozen=True, kw_only=True)
class CommandLimits:
    """Resource limits of a command; each of its processes is counted alone (getrlimit(2)).

    Attributes:
        cpu_seconds: CPU time of a process.
        memory: Bytes that a process may allocate.
        file_size: Bytes of a file that it writes.
        open_files: Files that a process has open.
        processes: Processes of the user, including those of this library; root may have any number.

    Raises:
        DefinitionError: A limit is not a whole number above 0.
    """

    cpu_seconds: int | None = None
    memory: int | None = None
    file_size: int | None = None
    open_files: int | None = None
    processes: int | None = None

    def __post_init__(self) -> None:
        for name, maximum in self._given.items():
            check_whole(name, maximum)

    def to_rlimits(self) -> list[tuple[int, int]]:
        """Return the limits by the system's numbers for them. Core dumps are off."""
        import resource  # not on every system

        return [
            (resource.RLIMIT_CORE, 0),
            *((getattr(resource, _RLIMITS[name]), most) for name, most in self._given.items()),
        ]

    @property
    def _given(self) -> dict[str, int]:
        return {name: maximum for name, maximum in vars(self).items() if maximum is not None}


_RLIMITS: Mapping[str, str] = {
    "cpu_seconds": "RLIMIT_CPU",
    "memory": "RLIMIT_AS",
    "file_size": "RLIMIT_FSIZE",
    "open_files": "RLIMIT_NOFILE",
    "processes": "RLIMIT_NPROC",
}


def make_environment(extra: Mapping[str, str]) -> dict[str, str]:
    """Make a command's variables: those of this process that may pass, those for no terminal, and `extra`."""
    passed = {name: value for name, value in os.environ.items() if name in PASSED_VARIABLES or name.startswith("LC_")}
    return {**UNATTENDED_VARIABLES, **passed, **extra}
