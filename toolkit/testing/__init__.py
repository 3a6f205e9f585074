"""Testing: models that answer by a script, a server that answers whatever a test wants, assertions about runs.

    with ScriptedModel([[call("add", a=1, b=2)], "It is 3."]) as model:
        assert Runner(box, model=model).run("What is 1 + 2?").output == "It is 3."

Files, each importing only those below it:

    trajectory        assert_calls: the calls of a run against those that a test expects
    cassette          Cassette: the answers of a model, recorded and replayed
    dry_tools         dry_run: tools of which only reads run
    example_values    the smallest value that a JSON Schema allows
    fake_server       FakeServer and its replies, faults of the network included
    wire              a reply in the wire form of Chat Completions or Responses, as JSON or as SSE
    scripted          ScriptedModel, which needs no server
    strict_responses  requests to Responses that OpenAI refuses
    strict_chat       requests to Chat Completions that OpenAI refuses
    strict_schemas    schemas that OpenAI refuses where `strict` is true
"""

from toolkit.testing.cassette import Cassette
from toolkit.testing.dry_tools import dry_run
from toolkit.testing.fake_server import FakeServer, Reply, Request, reply
from toolkit.testing.scripted import ModelReply, ScriptedModel, ScriptError, call
from toolkit.testing.trajectory import assert_calls

__all__ = [
    "Cassette",
    "FakeServer",
    "ModelReply",
    "Reply",
    "Request",
    "ScriptError",
    "ScriptedModel",
    "assert_calls",
    "call",
    "dry_run",
    "reply",
]
