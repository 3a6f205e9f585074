"""The values exchanged with a model."""

from __future__ import annotations

import pickle

from toolkit._messages import ToolSpec


def test_pickled_spec() -> None:
    """A pickled specification leaves its cache behind, which may hold what cannot be pickled."""
    spec = ToolSpec(name="add", description="", parameters={})
    spec.cache["chat"] = lambda: None

    copy = pickle.loads(pickle.dumps(spec))  # noqa: S301
    assert (spec, {}) == (copy, copy.cache)
