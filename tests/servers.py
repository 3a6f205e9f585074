"""The fake server of most tests, which refuses what OpenAI refuses."""

from __future__ import annotations

from tests import strict_chat, strict_responses
from toolkit import testing
from toolkit.testing import Request
from toolkit.testing.fake_server import Script


def check(request: Request) -> None:
    """Refuse a request that OpenAI would refuse."""
    module = strict_responses if request.path.endswith("/responses") else strict_chat
    strict_chat.check_content(request.content, module.check_request)


class FakeServer(testing.FakeServer):
    """A fake server that refuses what OpenAI refuses, unless `strict` is False."""

    def __init__(self, script: Script = (), *, strict: bool = True, model: str = "fake-model") -> None:
        super().__init__(script, check=check if strict else None, model=model)
