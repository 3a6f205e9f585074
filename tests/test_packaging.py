"""Facts of pyproject.toml that are stated in two places, and files that other tools read."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def pyproject() -> dict[str, Any]:
    """Return what pyproject.toml says."""
    if sys.version_info < (3, 11):
        pytest.skip("reads TOML with tomllib")
    import tomllib

    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def packages_of(group: str, groups: dict[str, list[Any]]) -> set[str]:
    """Return a dependency group's requirements, with those of the groups that it includes."""
    plain = {entry for entry in groups[group] if isinstance(entry, str)}
    included = [entry["include-group"] for entry in groups[group] if not isinstance(entry, str)]
    return plain.union(*(packages_of(name, groups) for name in included))


def test_extra_dev_is_the_group_dev(pyproject: dict[str, Any]) -> None:
    """The extra `dev` is the run-time extras and the dependency group `dev`, with the same bounds."""
    extra = {*pyproject["project"]["optional-dependencies"]["dev"]}

    assert {"function-toolkit[all]"} | packages_of("dev", pyproject["dependency-groups"]) == extra


def test_extra_all_has_every_extra(pyproject: dict[str, Any]) -> None:
    """The extra `all` names every extra that a program may use."""
    extras = pyproject["project"]["optional-dependencies"]

    assert [f"function-toolkit[{','.join(sorted({*extras} - {'all', 'dev'}))}]"] == extras["all"]


def test_changelog_has_the_version(pyproject: dict[str, Any]) -> None:
    """The version is one that the changelog describes."""
    source = (ROOT / pyproject["tool"]["hatch"]["version"]["path"]).read_text(encoding="utf-8")
    version = re.findall(r'^__version__ = "(.+)"$', source, re.MULTILINE)
    described = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)

    assert version[0].partition(".dev")[0] in described


def test_python_versions_are_the_same_everywhere(pyproject: dict[str, Any]) -> None:
    """The workflow tests the Pythons that the classifiers name."""
    classifiers = pyproject["project"]["classifiers"]
    named = [found[1] for entry in classifiers if (found := re.fullmatch(r".* :: Python :: (3\.\d+)", entry))]
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))

    assert named == workflow["jobs"]["tests"]["strategy"]["matrix"]["python"]


@pytest.mark.parametrize(
    "name", [".pre-commit-config.yaml", ".github/workflows/ci.yml", ".github/workflows/publish.yml"]
)
def test_yaml_parses(name: str) -> None:
    """The files for other tools are YAML objects."""
    assert isinstance(yaml.safe_load((ROOT / name).read_text(encoding="utf-8")), dict)


def test_no_entry_point_is_loaded(tmp_path: Path) -> None:
    """No installed package is loaded because it says so: neither at import, nor by a toolbox or a run."""
    (tmp_path / "evil.py").write_text("print('loaded')")
    information = tmp_path / "evil-1.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 1\n")
    names = ("toolkit", "toolkit.tools", "toolkit.plugins", "toolkit.models", "function_toolkit", "function-toolkit")
    groups = "".join(f"[{name}]\nevil = evil\n" for name in names)
    (information / "entry_points.txt").write_text(groups)
    code = f"""if True:
        import sys
        sys.path.append({str(tmp_path)!r})
        import toolkit.builtin, toolkit.sources.mcp, toolkit.serve.mcp, toolkit.adapters, toolkit.cli
        from toolkit import Runner, Toolbox
        from toolkit.testing import ScriptedModel
        print(Runner(Toolbox([len]), model=ScriptedModel(["done"])).run("go").output)
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "done\n" == done.stdout
