"""The pytest plugin: cassettes named after the test, recorded by an option."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

TEST = """
import pytest

from toolkit import Runner
from toolkit.testing import ScriptedModel


def make_model():
    print("a model is made")
    return ScriptedModel(["Hello."])


@pytest.mark.parametrize("name", ["Ann/1"])
def test_greeting(cassette, name):
    assert Runner(model=cassette(make_model)).run(PROMPT).output == "Hello."
"""


Run = Callable[..., str]


@pytest.fixture
def run_pytest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs pytest in a folder with a test, and gives what it prints."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_ADDOPTS", "")
    monkeypatch.setattr(sys, "path", [*sys.path])
    # Those of the outer pytest go on; at its end the one about unraisable exceptions looks for garbage everywhere.
    without = [f"-pno:{name}" for name in ("cacheprovider", "faulthandler", "unraisableexception", "threadexception")]

    def run_pytest(*options: str, prompt: str = "Hi!", test: str = TEST) -> str:
        (tmp_path / "test_hello.py").write_text(f"PROMPT = {prompt!r}\n{test}", encoding="utf-8")
        pytest.main(["-s", "-ptoolkit.testing.plugin", *without, *options])
        for name in [name for name in sys.modules if name.startswith(("test_hello", "test_more"))]:
            del sys.modules[name]
        return capsys.readouterr().out

    return run_pytest


def test_record_and_replay(run_pytest: Run, tmp_path: Path) -> None:
    """A test is recorded by the option, into a file of its name, and then replayed without making a model."""
    recorded, replayed = run_pytest("--cassettes=record"), run_pytest()

    assert ("1 passed" in recorded, "1 passed" in replayed) == (True, True)
    assert ("a model is made" in recorded, "a model is made" in replayed) == (True, False)
    assert [tmp_path / "cassettes" / "test_hello" / "test_greeting-Ann-1.json"] == [*tmp_path.rglob("*.json")]


def test_difference(run_pytest: Run) -> None:
    """A test that sends something else fails with the lines that differ; one that was not recorded names the way."""
    missing = run_pytest()
    run_pytest("--cassettes=record")
    differing = run_pytest(prompt="Good day!")

    assert 'mode="record"' in missing
    assert '-    "text": "Hi!"' in differing and '+    "text": "Good day!"' in differing
    assert "were not made" not in differing


def test_unused_records(run_pytest: Run) -> None:
    """A test that passes without using what was recorded fails at its end."""
    run_pytest("--cassettes=record")
    skipping = TEST.replace('assert Runner(model=cassette(make_model)).run(PROMPT).output == "Hello."', "cassette()")

    assert "1 of 1 requests" in run_pytest(test=skipping)


SAME_NAMES = """

class TestEvening:
    def test_greeting(self, cassette):
        Runner(model=cassette(make_model)).run("Good evening!")


class TestNight:
    def test_greeting(self, cassette):
        Runner(model=cassette(make_model)).run("Good night!")


def test_two(cassette):
    cassette(make_model)
    with pytest.raises(ValueError, match="This test already has a cassette test_two. Name the next one"):
        cassette(make_model)
    with pytest.raises(TypeError, match="'gpt-6-luna' is not a model"):
        cassette("gpt-6-luna", name="other")
"""


def test_names_of_files(run_pytest: Run, tmp_path: Path) -> None:
    """Tests of one name in several classes have each its own file, and so have two cassettes of one test."""
    (tmp_path / "test_more.py").write_text(f"{TEST.partition('@')[0]}{SAME_NAMES}", encoding="utf-8")
    recorded, replayed = run_pytest("--cassettes=record"), run_pytest("-k", "Evening or Night")

    assert ("4 passed" in recorded, "2 passed" in replayed) == (True, True), recorded
    assert {"TestEvening-test_greeting.json", "TestNight-test_greeting.json"} == {
        path.name for path in tmp_path.rglob("Test[EN]*.json")
    }


def test_start_of_pytest_is_not_slowed() -> None:
    """pytest loads the plugin without the rest of the library."""
    code = "import sys, toolkit.testing.plugin\nprint({'pydantic', 'toolkit.middleware'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603

    assert "set()\n" == done.stdout


@pytest.mark.skipif(sys.version_info < (3, 11), reason="reads TOML with tomllib")
def test_entry_point() -> None:
    """The package declares the plugin, so that pytest finds it."""
    import tomllib

    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    assert {"pytest11": {"toolkit": "toolkit.testing.plugin"}} == project["entry-points"]
