"""The values exchanged with a model."""

from __future__ import annotations

import pickle

from toolkit import ToolResult
from toolkit._messages import ToolSpec


def test_pickled_spec() -> None:
    """A pickled specification leaves its cache behind, which may hold what cannot be pickled."""
    spec = ToolSpec(name="add", description="", parameters={})
    spec.cache["chat"] = lambda: None

    copy = pickle.loads(pickle.dumps(spec))  # noqa: S301
    assert (spec, {}) == (copy, copy.cache)


def test_result_with_an_error() -> None:
    """A result whose text is its error shows it once."""
    assert "ToolResult(error='no', kind='failed')" == repr(ToolResult(text="no", error="no", kind="failed"))
    assert "ToolResult(value=3, text='3 no', error='no')" == repr(ToolResult(3, "3 no", error="no"))
