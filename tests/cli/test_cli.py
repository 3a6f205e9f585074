"""The command line, without a model of one's own."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.servers import FakeServer
from toolkit import __version__
from toolkit.cli import main
from toolkit.testing import reply

SCRIPT = [
    reply.calls(("add", {"a": 17, "b": 25})),
    reply.text("It is 42."),
    reply.calls(("convert", {"amount": 100, "source": "USD", "target": "EUR"})),
    reply.text("90 euros."),
    reply.calls(("weather", {"city": "Oslo"})),
    reply.text("I can't say."),
]


def test_demonstration_by_the_environment(
    environment: Callable[[str, str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    """With OPENAI_BASE_URL and TOOLKIT_MODEL set, that model answers, and is named."""
    with FakeServer(SCRIPT) as server:
        environment("OPENAI_BASE_URL", server.base_url)
        environment("TOOLKIT_MODEL", "a-model")

        assert 0 == main(["demo"])
    assert capsys.readouterr().out.endswith(
        "Call      weather(city='Oslo')\n"
        "Result    There is no weather for Oslo in this demonstration.\n"
        "Answer    I can't say.\n\n"
        "Answered by a-model.\n"
    )


def test_demonstration_by_options() -> None:
    """The server and its model can be named on the command line."""
    with FakeServer(SCRIPT) as server:
        assert 0 == main(["demo", "--base-url", server.base_url, "--model", "another"])
        assert {"another"} == {request.body["model"] for request in server.requests}


def test_failure_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """A server that cannot be reached is reported in a line on standard error, with exit code 1."""
    assert 1 == main(["demo", "--base-url", "http://127.0.0.1:9/v1", "--model", "m"])
    assert capsys.readouterr().err.startswith("toolkit: The model's server cannot be reached")


def test_without_a_command_there_is_help(capsys: pytest.CaptureFixture[str]) -> None:
    """The bare command shows what there is, with exit code 2."""
    assert 2 == main([])
    assert "demo" in "".join(capsys.readouterr())


def test_help_of_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    """The help of each command has a sentence for each of its options."""
    main(["--help"])
    commands = re.findall(r"^  (\w+) ", capsys.readouterr().out.partition("Commands:")[2], re.M)
    helps = list[str]()
    for command in commands:
        main([command, "--help"])
        helps.append(capsys.readouterr().out)

    assert 13 == len(commands)
    assert [] == re.findall(r"^  (-\S*(?: \S+)*)\s{2,}\[", "".join(helps), re.M)


def test_module_is_the_command() -> None:
    """`python -m toolkit --version` tells the version."""
    ran = subprocess.run([sys.executable, "-m", "toolkit", "--version"], capture_output=True, text=True, check=True)

    assert f"toolkit {__version__}\n" == ran.stdout
