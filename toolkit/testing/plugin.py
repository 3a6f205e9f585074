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
        help="replay: ask no model (default); record: ask the model for all answers; auto: for missing answers",
    )


@pytest.fixture
def cassette(request: pytest.FixtureRequest) -> Iterator[Callable[..., Cassette]]:
    """Return a function that makes a cassette: `cassette(lambda: ResponsesModel(OpenAI(), "gpt-6-luna"))`.

    Its file is `cassettes/FILE/TEST.json` beside the test (`CLASS-TEST.json` in a class), and its mode is that of
    `--cassettes`. The model may be a function that makes it: a replay does not call the function, and so needs no key.
    `name=` sets another file name, for a second cassette in one test. Other options are those of `Cassette`. If records
    of a replay are unused after a test that passed, that is an error.
    """
    from toolkit.testing.cassette import Cassette  # only if a test uses it

    cassettes: list[Cassette] = []

    def make(model: Model | Callable[[], Model] | None = None, *, name: str = "", **options: Any) -> Cassette:
        mode = options.pop("mode", request.config.getoption("--cassettes"))
        file = re.sub(r"[^\w.\-]+", "-", name or request.node.nodeid.partition("::")[2]).strip("-")
        path = Path(request.path).parent / "cassettes" / Path(request.path).stem / f"{file}.json"
        if any(each.path == path for each in cassettes):
            raise ValueError(
                f'This test already has a cassette {file}. Name the next one: cassette(model, name="other").'
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
