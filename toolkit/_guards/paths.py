"""Files beneath one directory: every path is looked up from a directory that stays open.

There are two lookups. The kernel's, openat2 (Linux 5.6), follows links and refuses those that lead out. The stepwise
one opens one directory after the other and follows no link. Files to change are looked up stepwise on every system, so
the path that was approved is the path that is changed. Without openat2, files to read are looked up stepwise, too.

A hard link to a file outside can be read like any other file. Writing replaces it by a new file, so the file outside
does not change. File systems mounted beneath the directory are part of it.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Literal, TypeAlias

from toolkit.errors import DefinitionError

MAX_PATH = 4096  # bytes: PATH_MAX of Linux
# Flags to open a file that may be a FIFO, without waiting for its other end, or a terminal, without being controlled by
# it.
_SAFELY = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
_DIRECTORY = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _SAFELY
# Flags to open a directory on the way, which only has to be searched: a process may do that without reading it.
_PASSAGE = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
# The suffix in /proc of the path of an open file that was removed: proc_pid_fd(5).
_REMOVED = " (deleted)"


class OutsideError(PermissionError):
    """A path leads out of the directory, or may do so: an absolute one, one with too many `..`, or by a link."""

    def __init__(self, way: Literal["absolute", "traversal", "link"]) -> None:
        super().__init__(errno.EXDEV, "outside the allowed directory")
        self.way = way


# Opens the path with some names beneath an open directory, with some flags.
Lookup: TypeAlias = Callable[[int, Sequence[str], int], int]


class Root:
    """A directory that stays open, even if it is moved.

    Args:
        path: The directory.
        lookup: Opens paths to read; by default the kernel's lookup if this system has it, otherwise the stepwise one.

    Raises:
        DefinitionError: There is no such directory, or this system cannot open files beneath a directory.
    """

    def __init__(self, path: str | os.PathLike[str], lookup: Lookup | None = None) -> None:
        if os.open not in os.supports_dir_fd:
            raise DefinitionError(
                "File and shell tools need a system that opens files beneath a directory: Linux, macOS, BSD. On "
                "Windows, run Python in WSL."
            )

        if not isinstance(path, (str, os.PathLike)):
            raise DefinitionError(f"root={path!r:.100} is not a usable directory: give its path, as str or Path.")

        try:
            self._descriptor = os.open(path, _DIRECTORY)
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            fault = f"{os.fspath(path)!r} is not a usable directory: {why}."
            raise DefinitionError(f"{fault} Make it first, or name another.") from error

        weakref.finalize(self, os.close, self._descriptor)
        self._paths = (Path(path).absolute(), Path(path).resolve())
        self.lookup: Lookup = lookup or _choose_lookup(self._descriptor)

    @property
    def identity(self) -> str:
        """The path under which it was opened, without links, so that an approval is only valid for this directory."""
        return str(self._paths[1])

    def locate(self) -> Path:
        """Return its current path, or its last one if it was removed.

        Raises:
            OSError: The path is unknown: this needs Linux and /proc.
        """
        return _locate(self._descriptor)

    def split(self, path: str) -> tuple[str, ...]:
        """Split a path, absolute or relative, into names; `.` and `..` are resolved.

        Raises:
            OutsideError: The path leads out of the directory.
            OSError: No file can have such a path.
        """
        _check_path(path)
        names: list[str] = []
        for name in self._make_relative(path).parts:
            if name != "..":
                names.append(name)
            elif names:
                names.pop()
            else:
                raise OutsideError("traversal")
        return tuple(names)

    def open(self, path: str, flags: int = os.O_RDONLY) -> int:
        """Open a path. The kernel's lookup follows links that stay inside.

        Raises:
            OSError: The path cannot be opened, or is outside.
        """
        names = self.split(path)
        if not names and os.fstat(self._descriptor).st_nlink == 0:
            raise FileNotFoundError(errno.ENOENT, "the root directory was removed")
        return self.lookup(self._descriptor, names, flags | _SAFELY)

    @contextmanager
    def open_directory(self, path: str) -> Iterator[int]:
        """Open a directory for a `with` block."""
        opened = self.open(path, _DIRECTORY)
        try:
            yield opened
        finally:
            os.close(opened)

    @contextmanager
    def open_parent(self, path: str) -> Iterator[tuple[int, str]]:
        """Open the parent directory of a path, and yield it with the path's last name. No link is followed.

        Raises:
            OSError: The directory does not exist or is outside, or the path is that of the root itself.
        """
        names = self.split(path)
        if not names:
            raise OSError(errno.EBUSY, "this is the root directory")
        *above, name = names
        opened = open_stepwise(self._descriptor, above, _DIRECTORY)
        try:
            yield opened, name
        finally:
            os.close(opened)

    def make_parents(self, path: str) -> None:
        """Make the missing parent directories of a path, with mode 0755. No link is followed.

        Raises:
            OSError: A directory cannot be made, or is outside; or the path begins with `~` for the home directory, and
                would make a directory with this name.
        """
        names = self.split(path)[:-1]
        if names[:1] == ("~",) and not os.access("~", os.F_OK, dir_fd=self._descriptor):
            raise OSError(errno.EINVAL, "~ is not the home directory here; write a path without it")
        current = os.dup(self._descriptor)
        try:
            for name in names:
                with suppress(FileExistsError):
                    os.mkdir(name, 0o755, dir_fd=current)
                current = _step(current, name)
        finally:
            os.close(current)

    def locate_open_file(self, path: str, opened: int) -> tuple[str, ...]:
        """Return the names of an open file's real path, which differs from `path` if a link led to it.

        If the file was removed, it is its last path.

        Raises:
            OutsideError: The file was moved out, or its path is unknown.
        """
        if self.lookup is open_stepwise:
            return self.split(path)
        try:
            return _locate(opened).relative_to(self.locate()).parts
        except (OSError, ValueError):
            raise OutsideError("link") from None

    def _make_relative(self, path: str) -> PurePosixPath:
        pure_path = PurePosixPath(path)
        if not pure_path.is_absolute():
            return pure_path
        for root in self._paths:
            with suppress(ValueError):
                return pure_path.relative_to(root)
        raise OutsideError("absolute")


def _choose_lookup(directory: int) -> Lookup:
    """Choose the kernel's lookup if it works: old kernels lack it, and some containers forbid it or have no /proc."""
    if sys.platform != "linux":
        return open_stepwise
    by_kernel = KernelLookup()
    try:
        os.close(by_kernel(directory, (), _DIRECTORY))
        _locate(directory)
    except OSError:
        return open_stepwise
    return by_kernel


def _locate(opened: int) -> Path:
    """Return the current path of an open file, or its last one if it was removed."""
    path = Path(f"/proc/self/fd/{opened}").readlink()
    with suppress(OSError):
        if os.path.samestat(path.lstat(), os.fstat(opened)):
            return path
    return Path(str(path).removesuffix(_REMOVED))


def _check_path(path: str) -> None:
    """Check that a file can have a path."""
    if "\0" in path or any("\ud800" <= sign <= "\udfff" for sign in path):
        raise OSError(errno.EINVAL, "a path cannot contain a NUL or an unpaired surrogate")
    if len(path.encode()) >= MAX_PATH:
        raise _make_error(errno.ENAMETOOLONG)


class KernelLookup:
    """Looks a path up by openat2: openat2(2), linux/openat2.h."""

    NUMBER = 437  # the same on every architecture that Linux 5.6 and Python run on
    BENEATH = 0x08
    NO_MAGIC_LINKS = 0x02
    # The kernel asks to try again if something was moved while it followed a `..` in a link.
    AGAIN = (errno.EAGAIN, errno.EINTR)
    TRIES = 100

    def __init__(self) -> None:
        self._system_call = ctypes.CDLL(None, use_errno=True).syscall

    def __call__(self, directory: int, names: Sequence[str], flags: int) -> int:
        how = (ctypes.c_uint64 * 3)(flags | os.O_CLOEXEC, 0, self.BENEATH | self.NO_MAGIC_LINKS)
        path = os.fsencode("/".join(names) or ".")
        size = ctypes.c_size_t(ctypes.sizeof(how))
        number = ctypes.c_long(self.NUMBER)
        for _ in range(self.TRIES):
            opened = self._system_call(number, ctypes.c_long(directory), ctypes.c_char_p(path), ctypes.byref(how), size)
            if opened >= 0:
                return int(opened)
            if ctypes.get_errno() not in self.AGAIN:
                break
        raise _make_error(ctypes.get_errno())


def open_stepwise(directory: int, names: Sequence[str], flags: int) -> int:
    """Open a path one name at a time. No link is followed."""
    current = os.dup(directory)
    try:
        for name in names[:-1]:
            current = _step(current, name)
        return _open_in(current, names[-1] if names else ".", flags)
    finally:
        os.close(current)


def _step(current: int, name: str) -> int:
    """Open a directory inside an open one, and close the outer one."""
    below = _open_in(current, name, _PASSAGE)
    os.close(current)
    return below


def _open_in(directory: int, name: str, flags: int) -> int:
    try:
        return os.open(name, flags | _NO_LINK | _SAFELY, dir_fd=directory)
    except OSError as error:
        if _is_link(directory, name):
            raise OutsideError("link") from error
        raise


def _is_link(directory: int, name: str) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode)
    except OSError:
        return False


def _make_error(number: int) -> OSError:
    return OutsideError("link") if number in (errno.EXDEV, errno.ELOOP) else OSError(number, os.strerror(number))
