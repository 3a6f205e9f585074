"""Doubles for tests: a model by a script, and a server that answers whatever a test wants."""

from toolkit.testing.errors import ScriptError
from toolkit.testing.reply import Reply, reply
from toolkit.testing.scripted import ModelReply, ScriptedModel, call
from toolkit.testing.server import FakeServer, Request

__all__ = ["FakeServer", "ModelReply", "Reply", "Request", "ScriptError", "ScriptedModel", "call", "reply"]
