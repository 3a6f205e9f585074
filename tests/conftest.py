"""Settings and fixtures of every test: workers, Ctrl-C, a clean environment, the embedded model's weights."""

from __future__ import annotations

import gc
import os
import signal
import ssl
import sys
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import httpcore2
import pytest
from hypothesis import HealthCheck, settings

from tests.properties import examples
from toolkit.models.local import get_weights
from toolkit.models.local.fetch import fetch_file
from toolkit.stores import embeddings

VARIABLES = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "TOOLKIT_MODEL", "NO_COLOR")


def pytest_configure() -> None:
    """Handle Ctrl-C as in a terminal, and keep what is compiled here and in the programs that tests start."""
    # Background jobs of a script and their children inherit an ignored SIGINT.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Compiling the package takes each of them half a second, and the tests with their assertions each worker seven.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False


# No test depends on how busy the machine is: neither one example nor making them has a time limit.
settings.register_profile("toolkit", examples(100), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("toolkit")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what takes long, unless all tests are asked for, or this one alone is."""
    is_named = any("::" in argument for argument in item.config.args)
    if item.get_closest_marker("slow") and not (is_named or "TOOLKIT_SLOW" in os.environ):
        pytest.skip("TOOLKIT_SLOW is not set")


def pytest_collection() -> None:
    """Collect no garbage while tests are collected: next to nothing is, and each look at all of it takes a second."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Exempt what was collected from garbage collection: it lives until the end."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Return three workers for two CPUs, as many tests wait; none for tests that are named one by one."""
    named = [argument for argument in config.args if "::" in argument]
    return 0 if named else max(2, (os.cpu_count() or 1) * 3 // 2)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Replace what no UTF-8 can carry, half a character for example: a worker could not send the report of its test."""
    report = yield
    report.sections = [(title, _make_sendable(text)) for title, text in report.sections]
    if report.failed and (text := str(report.longrepr)) != _make_sendable(text):
        report.longrepr = _make_sendable(text)
    return report


def _make_sendable(text: str) -> str:
    return text.encode(errors="replace").decode()


@pytest.fixture(scope="session", autouse=True)
def shared_ssl_context() -> Iterator[None]:
    """Read the system's certificates once: each client of a plain server would take 40 ms to read them again."""
    make_context = httpcore2.default_ssl_context
    contexts: dict[tuple[object, ...], ssl.SSLContext] = {}

    def get_context(**options: Any) -> ssl.SSLContext:
        choice = (os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"), *options.items())
        if choice not in contexts:
            contexts[choice] = make_context(**options)
        return contexts[choice]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(httpcore2, "default_ssl_context", get_context)
        yield


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Sets an environment variable until the test ends."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TOOLKIT_SESSIONS", "")  # the command keeps no conversations
    return monkeypatch.setenv


@pytest.fixture(scope="session")
def embedded_weights() -> Path:
    """The embedded model's weights, and those for embeddings, fetched before a test looks at what a program prints."""
    for file in (embeddings.WEIGHTS, embeddings.VOCABULARY):
        fetch_file(file)
    return get_weights()


@pytest.fixture(autouse=True)
def weights_first(request: pytest.FixtureRequest) -> None:
    """A test with the real model finds the weights here."""
    if request.node.get_closest_marker("real_model"):
        request.getfixturevalue("embedded_weights")


@pytest.fixture
def fast_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """For what counts minutes: a minute takes 0.3 seconds, while pauses stay as long as they are."""
    now, start = time.monotonic, time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: start + 200 * (now() - start))


@pytest.fixture
def own_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """For commands in this process: they find no other test's files on the path or imported, and leave none."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = {*sys.modules}
    yield
    for name in {*sys.modules} - before:
        if (getattr(sys.modules[name], "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]
