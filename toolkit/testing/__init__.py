"""Test doubles: a model that answers by a script, and an HTTP server that answers whatever a test wants.

    with ScriptedModel([[call("add", a=1, b=2)], "It is 3."]) as model:
        assert Runner(box, model=model).run("What is 1 + 2?").output == "It is 3."

Files, each importing only those below it:

    fake_server       FakeServer and its replies, faults of the network included
    wire              a reply in the wire form of Chat Completions or Responses, as JSON or as SSE
    scripted          ScriptedModel, which needs no server
    strict_responses  requests to Responses that OpenAI refuses
    strict_chat       requests to Chat Completions that OpenAI refuses
    strict_schemas    schemas that OpenAI refuses where `strict` is true
"""

from toolkit.testing.fake_server import FakeServer, Reply, Request, reply
from toolkit.testing.scripted import ModelReply, ScriptedModel, ScriptError, call

__all__ = ["FakeServer", "ModelReply", "Reply", "Request", "ScriptError", "ScriptedModel", "call", "reply"]
