"""What a command finds about it: variables by a list of what may pass, and bounds of what it may use."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType

from toolkit._guards.options import whole

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
