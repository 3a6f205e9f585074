"""What every test finds: an environment that says nothing of a model or of colours."""

from __future__ import annotations

from collections.abc import Callable

import pytest

SAYING = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "TOOLKIT_MODEL", "NO_COLOR")


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Sets an environment variable until the test ends."""
    for name in SAYING:
        monkeypatch.delenv(name, raising=False)
    return monkeypatch.setenv
