"""Doubles for tests: a model by a script, and a server that answers whatever a test wants."""

from __future__ import annotations

from toolkit.testing.scripted import ScriptedModel, ScriptError, call
from toolkit.testing.server import FakeServer, reply

__all__ = ["FakeServer", "ScriptError", "ScriptedModel", "call", "reply"]
