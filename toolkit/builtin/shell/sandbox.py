"""A sandbox around a command, by bubblewrap: https://github.com/containers/bubblewrap.

What a command finds about it: variables by a list of what may pass, and bounds of what it may use.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from glob import glob
from pathlib import Path
from types import MappingProxyType

from toolkit._guards.options import of_type, texts, whole
from toolkit._guards.paths import Root
from toolkit.builtin.files.sensitive import PRIVATE
from toolkit.errors import DefinitionError

# What passes of the variables of this process; keys, tokens and passwords have other names. `*` stands for any end.
PASSED = (
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "TZ",
    "TMPDIR",
    "LD_LIBRARY_PATH",
)
# Nobody is there to see colours, to turn pages or to type a password.
UNATTENDED: Mapping[str, str] = MappingProxyType(
    {"TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0", "PATH": os.defpath}
)


def environment(extra: Mapping[str, str]) -> dict[str, str]:
    """Make a command's variables: those that may pass, those for where nobody is, and `extra`."""
    passed = {name: value for name, value in os.environ.items() if _passes(name)}
    return {**UNATTENDED, **passed, **extra}


def _passes(name: str) -> bool:
    return any(name.startswith(known[:-1]) if known.endswith("*") else name == known for known in PASSED)


@dataclass(frozen=True, kw_only=True)
class CommandLimits:
    """What a command may use, where that is bounded; each of its processes is counted alone (getrlimit(2)).

    Attributes:
        cpu_seconds: Time that a process computes.
        memory: Bytes that a process may ask for.
        file_size: Bytes of a file that it writes.
        open_files: Files that a process has open.
        processes: Processes of the user, this library's included; root may have any number.

    Raises:
        DefinitionError: A bound is no whole number above 0.
    """

    cpu_seconds: int | None = None
    memory: int | None = None
    file_size: int | None = None
    open_files: int | None = None
    processes: int | None = None

    def __post_init__(self) -> None:
        for name, most in self._given().items():
            whole(name, most)

    def numbers(self) -> list[tuple[int, int]]:
        """Give the bounds by the system's numbers for them; without core dumps."""
        import resource  # not on every system

        known = {
            "cpu_seconds": resource.RLIMIT_CPU,
            "memory": resource.RLIMIT_AS,
            "file_size": resource.RLIMIT_FSIZE,
            "open_files": resource.RLIMIT_NOFILE,
            "processes": resource.RLIMIT_NPROC,
        }
        return [(resource.RLIMIT_CORE, 0), *((known[name], most) for name, most in self._given().items())]

    def _given(self) -> dict[str, int]:
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: most for name, most in values.items() if most is not None}


# Where secrets are usually kept: what file tools keep from a model, and what programs set down for themselves.
HIDDEN = ("~/.config", *(f"~/{path}" for path in PRIVATE if not path.startswith("!")))
INSTALL = "Install it (Debian, Ubuntu: apt install bubblewrap), on Linux, where namespaces are allowed."
TEMPORARY = "/tmp"  # noqa: S108  the sandbox has one of its own
# What a sandbox has of its own, each by the option that makes it.
OWN = MappingProxyType({"/dev": "--dev", "/proc": "--proc", TEMPORARY: "--tmpfs", "/run": "--tmpfs"})
# How long a trial may take, in seconds.
TRIAL = 10.0


@dataclass(frozen=True, kw_only=True)
class Sandbox:
    """Namespaces of a command's own: one directory to write to, other processes out of sight, no network.

    Everything else can be read, except what is hidden; /tmp and /run are empty, and gone at the end. Who listens on a
    socket in a file elsewhere can be reached. It shares the kernel, and bounds neither memory nor computing.

    Attributes:
        network: Whether the network can be reached, the machine's own services included.
        required: Whether there is no tool where there is no sandbox; otherwise commands run without, and the tool's
            description says so.
        hidden: Paths, `~` for the user's directory, `*` and `?` for any signs of a name. In place of each there is
            nothing, but for the directory itself.

    Raises:
        DefinitionError: A value makes no sense.
    """

    network: bool = False
    required: bool = True
    hidden: Sequence[str] = HIDDEN

    def __post_init__(self) -> None:
        of_type("network", self.network, bool)
        of_type("required", self.required, bool)
        texts("hidden", self.hidden)

    @property
    def told(self) -> str:
        """What a model should know of it."""
        network = "The network can be reached" if self.network else "No network, but for Unix sockets in files"
        return (
            f"It runs in a sandbox: only this directory and /tmp can be written to, /tmp is empty at first. {network}."
        )

    def around(self, program: str, directory: Path) -> list[str]:
        """Write the command line that a command is added to.

        Args:
            program: Bubblewrap.
            directory: What can be written to, by its real path.
        """
        hidden = [place for path in self.hidden for place in _found(path)]
        above = [place for place in hidden if directory.is_relative_to(place)]
        return [
            program,
            "--unshare-all",
            *(["--share-net"] if self.network else []),
            *("--die-with-parent", "--new-session", "--cap-drop", "ALL"),
            *("--ro-bind", "/", "/"),
            *(word for place, option in OWN.items() for word in (option, place)),
            *_hiding(above),
            *("--bind", str(directory), str(directory)),
            *_hiding(place for place in hidden if place not in above),
            *("--setenv", "TMPDIR", TEMPORARY, "--chdir", str(directory), "--"),
        ]

    def found(self, root: Root) -> str | None:
        """Find bubblewrap, and try whether it can do this here; None where it cannot, and it need not.

        Raises:
            DefinitionError: It cannot, or the directory is one that a sandbox has of its own.
        """
        program = shutil.which("bwrap")
        problem = "bubblewrap (bwrap) is not installed" if program is None else self._problem(program, root)
        if problem and self.required:
            raise DefinitionError(f"There can be no sandbox: {problem}. {INSTALL}")
        return None if problem or program is None else str(Path(program).absolute())

    def _problem(self, program: str, root: Root) -> str:
        try:
            command = [*self.around(program, _usable(root.where())), "true"]
            tried = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=TRIAL, check=False)  # noqa: S603
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"bubblewrap cannot be tried: {error}"
        said = tried.stderr.decode(errors="replace").strip()
        return said.rstrip(".") or f"bubblewrap ends with {tried.returncode}" if tried.returncode else ""


def _usable(directory: Path) -> Path:
    """Give a directory back if a sandbox can be for it, else refuse."""
    if any(Path(place).resolve().is_relative_to(directory) for place in OWN):
        raise DefinitionError(f"There can be no sandbox for {directory}: it has {', '.join(OWN)} of its own.")
    return directory


def _found(path: str) -> list[str]:
    """List what a path is meant to lead to and does; what cannot be found here cannot be found there either."""
    path = os.path.expanduser(path).replace("[", "[[]")  # noqa: PTH111  it raises nothing
    found: list[str] = []
    for one in glob(path):  # noqa: PTH207  it raises nothing, too
        with suppress(OSError):
            found.append(os.path.realpath(one))
    return found


def _hiding(places: Iterable[str]) -> list[str]:
    """Write what puts places out of sight."""
    hiding: list[str] = []
    for place in places:
        hiding += ("--tmpfs", place) if os.path.isdir(place) else ("--ro-bind", os.devnull, place)  # noqa: PTH112
    return hiding
