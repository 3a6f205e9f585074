"""The checks of the project, each in a fresh environment: `nox` runs them all, `nox -s tests` one.

Tests run on every Python that the package supports and that the machine has; nox skips the others with a note.
Measuring is no check, so it is done on request: `nox -s benchmarks -- --quick`.
"""

from __future__ import annotations

from pathlib import Path

import nox

PYTHONS = nox.project.python_versions(nox.project.load_toml("pyproject.toml"))  # from its classifiers

nox.options.sessions = ["tests", "lint", "types", "examples"]
nox.options.default_venv_backend = "venv"
nox.options.error_on_missing_interpreters = False  # on a build server too, where nox would else fail

# What would lead an example to a model at some server, and away from the one that it brings.
MODEL_SETTINGS = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "TOOLKIT_MODEL")


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """Run the tests."""
    session.install("-e", ".[dev]")
    session.run("pytest", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Look for faults, and for layout that is not the formatter's."""
    session.install("-e", ".[dev]")
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")


@nox.session
def types(session: nox.Session) -> None:
    """Check the types with both checkers."""
    session.install("-e", ".[dev]")
    session.run("mypy")
    session.run("pyright")


@nox.session
def examples(session: nox.Session) -> None:
    """Run every example, with the model that it brings or the embedded one."""
    session.install("-e", ".[dev]")
    for example in sorted(Path("examples").glob("*.py")):
        session.run("python", str(example), env=dict.fromkeys(MODEL_SETTINGS))


@nox.session
def benchmarks(session: nox.Session) -> None:
    """Measure; nothing but the package and what it needs is installed."""
    session.install("-e", ".")
    session.run("python", "benchmarks/run.py", *session.posargs)
