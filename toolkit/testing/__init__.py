"""Testing: models that answer by a script, a fake model server, recordings, dry runs, assertions about runs.

    with ScriptedModel([[call("add", a=1, b=2)], "It is 3."]) as model:
        assert Runner(box, model=model).run("What is 1 + 2?").output == "It is 3."

Names are imported on first use, so that the plugin does not slow down test runs that do not use it.

Files, each importing only those below it:

    plugin            the pytest plugin: the fixture `cassette`
    trajectory        assert_calls: compares the calls of a run with those that a test expects
    cassette          Cassette: the answers of a model and the results of tools, recorded and replayed
    dry_tools         dry_run: a toolbox in which only reads run
    fake_server       FakeServer and its replies, including network faults
    rendering         a reply in the wire form of Chat Completions or Responses, as JSON or as SSE
    scripted          ScriptedModel, which needs no server
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolkit._lazy import lazy_names

if TYPE_CHECKING:
    from toolkit.testing.cassette import Cassette as Cassette
    from toolkit.testing.dry_tools import dry_run as dry_run
    from toolkit.testing.fake_server import FakeServer as FakeServer
    from toolkit.testing.fake_server import Reply as Reply
    from toolkit.testing.fake_server import Request as Request
    from toolkit.testing.fake_server import reply as reply
    from toolkit.testing.scripted import ModelReply as ModelReply
    from toolkit.testing.scripted import ScriptedModel as ScriptedModel
    from toolkit.testing.scripted import ScriptError as ScriptError
    from toolkit.testing.scripted import call as call
    from toolkit.testing.trajectory import assert_calls as assert_calls

# Where each public name lives. The block above says the same to type checkers; a test holds the two together.
_HOMES = {
    "toolkit.testing.cassette": ("Cassette",),
    "toolkit.testing.dry_tools": ("dry_run",),
    "toolkit.testing.fake_server": ("FakeServer", "Reply", "Request", "reply"),
    "toolkit.testing.scripted": ("ModelReply", "ScriptError", "ScriptedModel", "call"),
    "toolkit.testing.trajectory": ("assert_calls",),
}

if not TYPE_CHECKING:  # for which each name that is not declared above is a mistake
    __getattr__, __dir__, __all__ = lazy_names(globals(), _HOMES)
