"""What every test finds: an environment that says nothing of a model or of colours."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest

from toolkit.models.local.weights import weights

SAYING = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "TOOLKIT_MODEL", "NO_COLOR")


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Sets an environment variable until the test ends."""
    for name in SAYING:
        monkeypatch.delenv(name, raising=False)
    return monkeypatch.setenv


@pytest.fixture(scope="session")
def embedded_weights() -> Path:
    """The embedded model's weights, fetched before a test looks at what a program prints."""
    return weights(io.StringIO())


@pytest.fixture(autouse=True)
def weights_first(request: pytest.FixtureRequest) -> None:
    """A test with the real model finds the weights here."""
    if request.node.get_closest_marker("real_model"):
        request.getfixturevalue("embedded_weights")
