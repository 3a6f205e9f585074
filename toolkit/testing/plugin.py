"""The pytest plugin: the fixture `cassette`, and the option `--cassettes`. pytest finds it by its entry point."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from toolkit.models import Model
    from toolkit.testing.cassette import Cassette


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option `--cassettes`."""
    parser.getgroup("toolkit").addoption(
        "--cassettes",
        choices=("replay", "record", "auto"),
        default="replay",
        help="replay: ask no model (default); record: ask it for everything; auto: ask for what is missing",
    )


@pytest.fixture
def cassette(request: pytest.FixtureRequest) -> Iterator[Callable[..., Cassette]]:
    """Return a function that makes a cassette: `cassette(lambda: OpenAIModel(OpenAI(), "gpt-5-mini"))`.

    Its file is `cassettes/FILE/TEST.json` beside the test (`CLASS-TEST.json` in a class), and its mode that of
    `--cassettes`. A model may be given by a function, which is not called to replay, so that no key is needed then.
    `name=` sets another file name, for a second cassette in one test. Other options are those of `Cassette`. A test
    that passes fails if records are unused.
    """
    from toolkit.testing.cassette import Cassette  # pytest starts without it

    cassettes: list[Cassette] = []

    def make(model: Model | Callable[[], Model] | None = None, *, name: str = "", **options: Any) -> Cassette:
        mode = options.pop("mode", request.config.getoption("--cassettes"))
        file = re.sub(r"[^\w.\-]+", "-", name or request.node.nodeid.partition("::")[2]).strip("-")
        path = Path(request.path).parent / "cassettes" / Path(request.path).stem / f"{file}.json"
        if any(each.path == path for each in cassettes):
            raise ValueError(
                f'This test has a cassette {file}: give the next one a name, cassette(model, name="other").'
            )
        chosen: Any = model
        if callable(model) and not hasattr(model, "complete"):
            chosen = None if mode == "replay" else model()
        cassettes.append(Cassette(path, chosen, mode=mode, **options))
        return cassettes[-1]

    failed = request.session.testsfailed
    yield make
    if request.session.testsfailed == failed:
        for each in cassettes:
            if each.mode == "replay":
                each.check()
