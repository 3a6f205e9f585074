"""Paths that want out of their directory: families of attacks, in encodings, at depths; and a race against a swapper.

`TOOLKIT_PATHS=250000 python -m pytest tests/guards/test_paths.py` tries more of them, and races for longer.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import socket
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import count, islice
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote

import pytest

from toolkit import DefinitionError, Toolbox
from toolkit._guards.paths import KernelLookup, Lookup, OutsideError, open_stepwise
from toolkit.builtin import Root, coding_tools, file_tools

PATHS = int(os.environ.get("TOOLKIT_PATHS", "10000"))
FORBIDDEN = "the secret"

Identity: TypeAlias = tuple[int, int]

# What each family ends in, once it is out, or in place of getting out.
TAILS = (
    "secret",
    "outside/secret",
    "outside",
    "outside/new",
    "workspace-evil/secret",
    "workspace/file.txt",
    "etc/passwd",
    "file.txt",
    "a/b/file.txt",
)
# Ways to leave, so and so often.
FAMILIES: Mapping[str, Callable[[int], str]] = {
    "parents": lambda depth: "../" * depth,
    "parents-after-names": lambda depth: "a/b/" + "../" * depth,
    "in-and-out": lambda depth: "a/../" * depth + "../",
    "dots": lambda depth: "./" * depth + "../",
    "slashes": lambda depth: ".." + "/" * (depth + 1),
    "doubled": lambda depth: "....//" * (depth + 1),
    "backslashes": lambda depth: "..\\" * (depth + 1),
    "mixed": lambda depth: "..\\../" * (depth + 1),
    "semicolons": lambda depth: "..;/" * (depth + 1),
    "spaces": lambda depth: ".. /" * (depth + 1),
    "nul": lambda depth: "file.txt\0" + "../" * (depth + 1),
    "absolute": lambda depth: "/" + "../" * depth,
    "double-absolute": lambda depth: "//" + "./" * depth,
    "home": lambda depth: "~/" + "../" * depth,
    "drive": lambda depth: "C:/" + "../" * depth,
    "unc": lambda depth: "\\\\?\\C:\\" + "../" * depth,
    "url": lambda depth: "file:///" + "../" * depth,
    "link-out": lambda depth: "a/../" * depth + "link-out/",
    "link-up": lambda depth: "./" * depth + "link-up/" * (depth + 1),
    "link-absolute": lambda depth: "./" * depth + "link-absolute/",
    "link-inside": lambda depth: "link-inside/../" * depth + "../",
    "link-loop": lambda depth: "link-loop/" * (depth + 1),
    "link-to-link": lambda depth: "./" * depth + "link-to-link/",
    "process-root": lambda depth: "./" * depth + "link-process-root/",
    "process-files": lambda depth: f"link-process-files/{depth}/",
    "process-directory": lambda depth: "link-process-directory/" + "../" * depth,
}
ENCODINGS: Mapping[str, Callable[[str], str]] = {
    "plain": str,
    "percent": lambda path: path.replace(".", "%2e"),
    "percent-slash": lambda path: path.replace("/", "%2F"),
    "percent-all": lambda path: quote(path, safe=""),
    "percent-twice": lambda path: quote(quote(path, safe="")),
    "overlong": lambda path: path.replace(".", "%c0%ae").replace("/", "%c0%af"),
    "full-width": lambda path: path.replace(".", "\uff0e"),
    "full-width-slash": lambda path: path.replace("/", "\uff0f"),
    "one-dot-leader": lambda path: path.replace(".", "\u2024"),
    "two-dot-leader": lambda path: path.replace("..", "\u2025"),
    "division-slash": lambda path: path.replace("/", "\u2215"),
    "unseen": lambda path: path.replace("..", ".\u200b."),
    "backwards": lambda path: "\u202e" + path,
    "byte-order-mark": lambda path: "\ufeff" + path,
    "half-character": lambda path: path.replace(".", ".\ud800", 1),
    "control": lambda path: path.replace("/", "/\x01", 1),
    "line-break": lambda path: path + "\n",
    "blanks": lambda path: f" {path} ",
    "upper-case": str.upper,
    "trailing-slash": lambda path: path + "/",
    "trailing-dot": lambda path: path + "/.",
    "trailing-parent": lambda path: path + "/..",
    "below-root": "{root}/".__add__,
    "below-name": "a/b/c/".__add__,
}

# Some paths belong to several families.
EACH = PATHS * 5 // 4 // len(FAMILIES)


class Grounds:
    """A workspace with links of all kinds, and files around it."""

    def __init__(self, place: Path) -> None:
        self.root = place / "workspace"
        self.outside = place / "outside"
        for directory in (self.root / "a" / "b" / "c", self.outside / "below", place / "workspace-evil"):
            directory.mkdir(parents=True)
        for name in ("file.txt", "a/b/file.txt", "a..b.txt", "..."):
            (self.root / name).write_text("inside")
        for secret in (self.outside / "secret", self.outside / "below" / "file.txt", place / "workspace-evil/secret"):
            secret.write_text(FORBIDDEN)
        for name, goal in self.links().items():
            (self.root / name).symlink_to(goal)

    def links(self) -> dict[str, str]:
        """Return the name and the target of every link."""
        return {
            "link-out": "../outside",
            "link-up": "..",
            "link-absolute": str(self.outside),
            "link-inside": "a/b",
            "link-file": "a/b/file.txt",
            "link-loop": "link-loop",
            "link-to-link": "link-out",
            "link-to-nothing": "../outside/new",
            "link-secret": "../outside/secret",
            "link-process-root": "/proc/self/root",
            "link-process-files": "/proc/self/fd",
            "link-process-directory": "/proc/self/cwd",
        }

    def identities(self) -> set[Identity]:
        """Return the identities of the files that may be reached."""
        result = [self.root, *(path for path in self.root.rglob("*") if not path.is_symlink())]
        return {identity(path.stat()) for path in result}

    def around(self) -> list[tuple[str, str]]:
        """Return every path and content around the workspace."""
        paths = sorted(p for p in self.root.parent.rglob("*") if self.root not in (p, *p.parents))
        return [(str(path), path.read_text() if path.is_file() else "") for path in paths]


def identity(expected: os.stat_result) -> Identity:
    return expected.st_dev, expected.st_ino


def attacks(family: str, root: Path, wanted: int) -> list[str]:
    """So many different paths of one family, the shallow ones first."""

    def every() -> Iterator[str]:
        for depth in count():
            for tail in TAILS:
                for encode in ENCODINGS.values():
                    yield encode(FAMILIES[family](depth) + tail).replace("{root}", str(root))

    return list(islice(dict.fromkeys(islice(every(), 3 * wanted)), wanted))


def reached(root: Root, path: str) -> Iterator[Identity]:
    """Return the file that a path opens, and the directory in which it would be made."""
    for reach in (opened, placed):
        with suppress(OSError):
            yield reach(root, path)


def opened(root: Root, path: str) -> Identity:
    """Return the file that a path opens."""
    number = root.open(path)
    try:
        return identity(os.fstat(number))
    finally:
        os.close(number)


def placed(root: Root, path: str) -> Identity:
    """Return the directory in which a path would be made."""
    with root.open_parent(path) as (directory, _):
        return identity(os.fstat(directory))


def test_enough_attacks() -> None:
    """No path is tried for two families: there are as many as are asked for."""
    different = {path for family in FAMILIES for path in attacks(family, Path("/root"), EACH)}

    assert len(different) >= PATHS


@pytest.mark.parametrize("family", FAMILIES)
def test_nothing_outside_changes(family: str, grounds: Grounds, lookup: Lookup) -> None:
    """No write, edit or deletion changes anything around the root."""
    before = grounds.around()
    root = Root(grounds.root, lookup)
    box = Toolbox([*file_tools(root, guarded=()), *coding_tools(root, guarded=())])
    for path in attacks(family, grounds.root, len(TAILS)):
        box.call("edit_file", {"path": path, "old_text": FORBIDDEN, "new_text": ""})
        box.call("write_file", {"path": path, "content": ""})
        box.call("file_delete", {"path": path})

    assert before == grounds.around()


@pytest.fixture
def grounds(tmp_path: Path) -> Grounds:
    return Grounds(tmp_path)


@pytest.fixture(params=["kernel", "steps"])
def lookup(request: pytest.FixtureRequest) -> Lookup:
    """Both ways of looking up a path; the kernel's is skipped where there is none."""
    if request.param == "steps":
        return open_stepwise
    if not isinstance(Root(".").lookup, KernelLookup):
        pytest.skip("this kernel has no openat2")
    return KernelLookup()


@pytest.fixture
def root(grounds: Grounds, lookup: Lookup) -> Root:
    return Root(grounds.root, lookup)


@pytest.mark.parametrize("family", FAMILIES)
def test_no_path_leads_out(family: str, grounds: Grounds, root: Root) -> None:
    """Every path opens, or would make, a file beneath the root."""
    paths = attacks(family, grounds.root, EACH)
    inside = grounds.identities()

    assert [] == [path for path in paths if not inside.issuperset(reached(root, path))]


@pytest.mark.parametrize("family", FAMILIES)
def test_nothing_is_revealed(family: str, grounds: Grounds, root: Root) -> None:
    """No result depends on what exists outside."""
    paths = attacks(family, grounds.root, EACH // 5)
    text = [reveal(reach, root, path) for path in paths for reach in (opened, placed)]
    for directory in (grounds.outside, grounds.root.with_name("workspace-evil")):
        shutil.rmtree(directory)

    assert text == [reveal(reach, root, path) for path in paths for reach in (opened, placed)]


def reveal(reach: Callable[[Root, str], Identity], root: Root, path: str) -> Identity | str:
    """Return all that can be learned by a path."""
    try:
        return reach(root, path)
    except OSError as error:
        return f"{type(error).__name__}: {error}"


def test_attacks_work_elsewhere(grounds: Grounds) -> None:
    """The same paths, joined and opened as usual, do reach the secret: the corpus has teeth."""
    result: Counter[str] = Counter()
    for family in FAMILIES:
        for path in attacks(family, grounds.root, 400):
            with suppress(OSError, ValueError):
                result[family] += (grounds.root / path).read_text(errors="replace") == FORBIDDEN

    assert {"parents", "in-and-out", "dots", "slashes", "link-out", "link-up", "link-absolute", "link-to-link"} <= {
        family for family, hits in result.items() if hits
    }


@pytest.mark.parametrize(
    "path", ["file.txt", "./file.txt", "a/../file.txt", "//file.txt", "nowhere/../file.txt", "{root}/file.txt", "..."]
)
def test_paths_inside(path: str, grounds: Grounds, root: Root) -> None:
    """A path that stays inside is opened, absolute or not, dots or not."""
    opened = root.open(path.replace("//", "a//..//").replace("{root}", str(grounds.root)))

    assert b"inside" == os.read(opened, 100)
    os.close(opened)


@pytest.mark.parametrize(
    ("path", "how"),
    [
        ("../outside/secret", "traversal"),
        ("a/../../workspace/file.txt", "traversal"),
        ("/etc/passwd", "absolute"),
        ("{root}-evil/secret", "absolute"),
        ("{root}/../outside/secret", "traversal"),
        ("link-out/secret", "link"),
        ("link-secret", "link"),
        ("link-to-nothing", "link"),
        ("link-absolute/secret", "link"),
        ("link-loop", "link"),
        ("link-process-root/etc/passwd", "link"),
        ("link-process-files/0", "link"),
    ],
)
def test_refused(path: str, how: str, grounds: Grounds, root: Root) -> None:
    """The error has the way by which a path leads out, and not the root."""
    with pytest.raises(OutsideError) as refused:
        root.open(path.replace("{root}", str(grounds.root)))

    assert (how, "[Errno 18] outside the allowed directory") == (refused.value.way, str(refused.value))


@pytest.mark.parametrize(
    ("path", "number"),
    [("nul\0", 22), ("half\ud800", 22), ("x" * 256, 36), ("x/" * 3000, 36), ("file.txt/below", 20), ("nothing", 2)],
    ids=["nul", "half-character", "long-name", "long-path", "below-a-file", "missing"],
)
def test_impossible(path: str, number: int, root: Root) -> None:
    """A path that cannot exist or leads to nothing raises OSError."""
    with pytest.raises(OSError, match="Errno") as refused:
        root.open(path)

    assert number == refused.value.errno


def test_links_inside(grounds: Grounds) -> None:
    """The kernel follows a link that stays inside; the real path can be found."""
    root = Root(grounds.root, KernelLookup())
    opened = root.open("link-inside/file.txt")

    assert ("a", "b", "file.txt") == root.locate_open_file("link-inside/file.txt", opened)
    os.close(opened)


def test_removed(grounds: Grounds) -> None:
    """An open file that was removed is located at its old path."""
    root = Root(grounds.root, KernelLookup())
    opened = root.open("link-file")
    (grounds.root / "a" / "b" / "file.txt").unlink()

    assert ("a", "b", "file.txt") == root.locate_open_file("link-file", opened)
    os.close(opened)


def test_removed_in_name_only(grounds: Grounds) -> None:
    """A file whose name ends like the mark of /proc for removed files has its own name."""
    root = Root(grounds.root, KernelLookup())
    (grounds.root / "file (deleted)").touch()
    opened = root.open("file (deleted)")

    assert ("file (deleted)",) == root.locate_open_file("file (deleted)", opened)
    os.close(opened)


def test_moved_away(grounds: Grounds) -> None:
    """An open file that was moved out of the root cannot be located."""
    root = Root(grounds.root, KernelLookup())
    opened = root.open("file.txt")
    (grounds.root / "file.txt").rename(grounds.outside / "file.txt")

    with pytest.raises(OutsideError):
        root.locate_open_file("file.txt", opened)
    os.close(opened)


@pytest.mark.parametrize("path", ["link-inside/file.txt", "link-out/new", "link-inside/new"])
def test_changes_follow_no_link(path: str, root: Root) -> None:
    """Nothing is made or changed through a link, even if it stays inside."""
    with pytest.raises(OutsideError):
        root.make_parents(path)
    with pytest.raises(OutsideError), root.open_parent(path):
        pass


def test_directories_are_made(grounds: Grounds, root: Root) -> None:
    """Missing directories are made on request only."""
    with pytest.raises(FileNotFoundError), root.open_parent("x/y/new"):
        pass
    root.make_parents("x/y/new")
    with root.open_parent("x/y/new") as (directory, name):
        assert (identity((grounds.root / "x/y").stat()), "new") == (identity(os.fstat(directory)), name)


@pytest.mark.skipif(sys.platform != "linux", reason="needs O_PATH")
def test_directories_that_are_only_searched(grounds: Grounds, root: Root) -> None:
    """What is on the way to a file is not read, so it need not be readable."""
    (grounds.root / "a").chmod(0o711 if os.geteuid() == 0 else 0o311)
    (grounds.root / "a/b").chmod(0o777)
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        root.make_parents("a/b/new/file")
        with root.open_parent("a/b/new/file") as (directory, name):
            os.close(os.open(name, os.O_WRONLY | os.O_CREAT, dir_fd=directory))
        os.close(root.open("a/b/file.txt"))
    finally:
        os.seteuid(user)


def test_the_root_has_no_place(root: Root) -> None:
    """The root itself can be neither replaced nor removed."""
    with pytest.raises(OSError, match="this is the root directory"), root.open_parent("a/.."):
        pass


@pytest.mark.parametrize("kind", ["fifo", "socket"])
def test_nothing_waits(kind: str, grounds: Grounds, root: Root) -> None:
    """Opening a FIFO or device does not block."""
    if kind == "fifo":
        os.mkfifo(grounds.root / kind)
        os.close(root.open(kind))
        return
    with socket.socket(socket.AF_UNIX) as server:
        directory = os.open(grounds.root, os.O_RDONLY)
        server.bind(f"/proc/self/fd/{directory}/{kind}")
        os.close(directory)
        with pytest.raises(OSError, match="No such device"):
            root.open(kind)


def test_a_moved_root(grounds: Grounds, root: Root) -> None:
    """The root is held: moved away, it stays the same one, and another in its place is not entered."""
    grounds.root.rename(grounds.root.with_name("moved"))
    grounds.root.symlink_to(grounds.outside)
    opened = root.open("file.txt")

    assert b"inside" == os.read(opened, 100)
    os.close(opened)
    with pytest.raises(FileNotFoundError):
        root.open("secret")


def test_nothing_is_left_open(grounds: Grounds, root: Root) -> None:
    """Attacks cost no file descriptor."""
    before = open_files()
    with pytest.raises(OSError, match="too long"):
        root.make_parents(f"new/{'x' * 300}/file")
    for path in attacks("link-out", grounds.root, 500):
        list(reached(root, path))

    assert set() == open_files() - before  # those of earlier tests may be closed meanwhile


def open_files() -> set[tuple[str, str]]:
    """Return the number and the target of each open file."""
    found = set()
    for each in list(Path("/proc/self/fd").iterdir()):
        with suppress(FileNotFoundError):  # the directory's own, and those that another thread closes
            found.add((each.name, str(each.readlink())))
    return found


def test_no_such_root(tmp_path: Path) -> None:
    """A missing root is a definition error."""
    with pytest.raises(DefinitionError, match="is not a usable directory: No such file or directory."):
        Root(tmp_path / "nothing")


@pytest.mark.parametrize("options", [None, 5, b".", ["."], "a\0b"], ids=repr)
def test_no_path(options: Any) -> None:
    """A root that is not a path is a definition error."""
    with pytest.raises(DefinitionError, match="is not a usable directory: "):
        Root(options)


def test_other_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    """Elsewhere paths are looked up by steps; where nothing opens files beneath a directory there are no tools."""
    monkeypatch.setattr(sys, "platform", "darwin")
    assert open_stepwise is Root(".").lookup

    monkeypatch.setattr(os, "supports_dir_fd", set[Any]())
    with pytest.raises(DefinitionError, match="Linux, macOS, BSD"):
        Root(".")


def test_swapper(grounds: Grounds, root: Root) -> None:
    """While a directory and a link take each other's place, nothing outside is ever read."""
    (grounds.root / "swapped").mkdir()
    (grounds.root / "swapped" / "secret").write_text("inside")
    (grounds.root / "link").symlink_to("../outside")
    outcomes: Counter[str] = Counter()
    with swapping(grounds.root):
        while outcomes.total() < PATHS or not {"inside", "OutsideError"} <= outcomes.keys():
            outcomes[content(root, "swapped/secret")] += 1

    assert outcomes.keys() <= {"inside", "OutsideError", "NotADirectoryError"}


def test_swapper_and_a_writer(grounds: Grounds, root: Root) -> None:
    """While a directory and a link are exchanged, nothing outside is made, written or removed."""
    (grounds.root / "swapped").mkdir()
    (grounds.root / "link").symlink_to("../outside")
    before = grounds.around()
    outcomes: Counter[str] = Counter()
    with swapping(grounds.root):
        while outcomes.total() < PATHS // 6 or not {"changed", "OutsideError"} <= outcomes.keys():
            outcomes[changed(root, "swapped/secret")] += 1

    assert before == grounds.around()


def changed(root: Root, path: str) -> str:
    """Make and remove a file, and one in a new directory; return the error if there is one."""
    try:
        root.make_parents(f"{path}-directory/new")
        with root.open_parent(f"{path}-directory/new") as (directory, name):
            os.close(os.open(name, os.O_WRONLY | os.O_CREAT, dir_fd=directory))
            os.unlink(name, dir_fd=directory)
            os.rmdir("../secret-directory", dir_fd=directory)
        with root.open_parent(path) as (directory, name):
            os.close(os.open(name, os.O_WRONLY | os.O_CREAT, dir_fd=directory))
            os.unlink(name, dir_fd=directory)
    except OSError as error:
        return type(error).__name__
    return "changed"


@contextmanager
def swapping(place: Path) -> Iterator[None]:
    """Have `swapped` be a directory and `link` a link, and the other way round, as fast as another thread can."""
    done = threading.Event()
    exchange = getattr(ctypes.CDLL(None), "renameat2", None)
    if exchange is None:
        pytest.skip("only Linux exchanges two files in one step")
    one, other = (os.fsencode(place / name) for name in ("swapped", "link"))

    def swap() -> None:
        while not done.is_set():
            exchange(-1, one, -1, other, 2)  # RENAME_EXCHANGE

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def content(root: Root, path: str) -> str:
    """Return the content of a file, or the error."""
    try:
        opened = root.open(path)
    except OSError as error:
        return type(error).__name__
    try:
        return os.read(opened, 100).decode()
    finally:
        os.close(opened)
