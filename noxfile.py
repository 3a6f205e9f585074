"""The checks of the project, each in a fresh environment: `nox` runs them all, `nox -s tests` one.

Tests run on every Python that the package supports and that the machine has; nox skips the others with a note.
Measuring is no check, so it is done on request: `nox -s benchmarks -- --quick`.
"""

from __future__ import annotations

import nox

PYTHONS = nox.project.python_versions(nox.project.load_toml("pyproject.toml"))  # from its classifiers

nox.options.sessions = ["tests", "lint", "types", "docs"]
nox.options.default_venv_backend = "venv"
nox.options.error_on_missing_interpreters = False  # on a build server too, where nox would else fail


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """Run the tests, with the examples."""
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
    """Check the types with all three checkers."""
    session.install("-e", ".[dev]")
    session.run("mypy")
    session.run("pyright")
    session.run("pyrefly", "check")


@nox.session
def docs(session: nox.Session) -> None:
    """Build the documentation as a site; a link that leads nowhere is an error."""
    session.install("-e", ".[dev]")
    session.run("zensical", "build", "--clean", "--strict")


@nox.session
def benchmarks(session: nox.Session) -> None:
    """Measure; nothing but the package and what it needs is installed."""
    session.install("-e", ".")
    session.run("python", "benchmarks/run.py", *session.posargs)
