"""MCP: public servers, each in an environment of its own; only where TOOLKIT_SERVERS names a directory for these."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.environments import install_packages
from toolkit import Toolbox
from toolkit.sources.mcp import MCP

PLACE = os.environ.get("TOOLKIT_SERVERS")

pytestmark = [
    pytest.mark.skipif(not PLACE, reason="TOOLKIT_SERVERS is not set"),
    pytest.mark.timeout(600),
    pytest.mark.xdist_group("public servers"),
]


class Case(NamedTuple):
    """A server, and a call of it that needs no network; without a call, its tools are only listed."""

    package: str
    effects: Mapping[str, Any]  # of some of its tools
    arguments: tuple[str, ...] = ()
    call: str = ""
    values: Mapping[str, Any] = {}
    text: str = ""
    requires: tuple[str, ...] = ()


CASES = [
    Case(
        "mcp-server-time",
        {"get_current_time": "read", "convert_time": "read"},
        call="convert_time",
        values={"source_timezone": "Europe/Oslo", "time": "12:00", "target_timezone": "UTC"},
        text="Europe/Oslo",
    ),
    Case(
        "mcp-server-git",
        {"git_log": "read", "git_reset": "destructive"},
        call="git_log",
        values={"repo_path": "{place}"},
        text="Message: begin",
    ),
    Case(
        "mcp-server-sqlite",
        {"list_tables": None},
        arguments=("--db-path", "{place}/data.db"),
        call="list_tables",
        text="[]",
        requires=("mcp<2",),
    ),
    Case("mcp-server-fetch", {"fetch": "read"}),
    Case(
        "mcp-text-editor",
        {"get_text_file_contents": None},
        call="get_text_file_contents",
        values={"files": [{"file_path": "{place}/notes.txt", "ranges": [{"start": 1}]}]},
        text="seven birds",
        requires=("mcp<2",),
    ),
]


def install(case: Case) -> Path:
    """Install a server into its environment, unless it is there; returns its command."""
    return install_packages(f"{PLACE}", case.package, case.package, *case.requires) / case.package


def fill(value: Any, place: Path) -> Any:
    """Put the directory of a test into arguments."""
    if isinstance(value, str):
        return value.replace("{place}", str(place))
    if isinstance(value, dict):
        return {key: fill(each, place) for key, each in value.items()}
    return [fill(each, place) for each in value] if isinstance(value, list) else value


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with a file, under version control."""
    (tmp_path / "notes.txt").write_text("seven birds\n", encoding="utf-8")
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@example.com"]
    for words in (["init", "-q"], ["add", "notes.txt"], ["commit", "-q", "-m", "begin"]):
        subprocess.run([*git, *words], check=True)
    return tmp_path


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.package)
def test_public_server(case: Case, place: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Its tools are all taken, every provider can be sent them, hints are effects, and a call is answered."""
    with MCP([install(case), *fill([*case.arguments], place)], name="p", lock=place / "lock.json") as server:
        box = Toolbox([server])

        assert {f"mcp_p_{name}" for name in case.effects} <= {*box.names}
        assert case.effects == {name: box[f"mcp_p_{name}"].settings.effect for name in case.effects}
        assert "left out" not in caplog.text
        for dialect in ("chat", "responses", "anthropic", "gemini"):
            assert len(box) == len(box.schemas(dialect, strict=True)) == len(box.schemas(dialect))
        if case.call:
            result = box.call(f"mcp_p_{case.call}", fill({**case.values}, place))
            assert (False, True) == (result.is_error, case.text in f"{result.text}"), result
    with MCP([install(case), *fill([*case.arguments], place)], name="p", lock=place / "lock.json") as again:
        assert box.names == tuple(tool.name for tool in again.tools)
