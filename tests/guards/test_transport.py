"""No spelling, changing name or redirect leads to a forbidden address, and no connection outlasts its deadline.

`TOOLKIT_URLS=250000 python -m pytest tests/guards/test_transport.py` tries more of them.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import httpcore2
import httpx2
import pytest
import trustme

from tests.origins import Origin, http
from tests.properties import scale
from tests.urls import PORTS, PUBLIC, PUBLIC6, PUBLIC_NAME, TARGETS, is_forbidden, lookup, urls
from toolkit import Cancelled, TimedOut, Toolbox, ToolContext, ToolError
from toolkit._guards.http_client import HttpClient, parse_url
from toolkit._guards.network import GuardedNetwork, RefusedConnection

URLS = int(os.environ.get("TOOLKIT_URLS", "5000"))
WHOLE = URLS // 25  # those that go all the way, connections included
SCRIPTS, CHAINS = URLS // 25, URLS // 250
ISLAND = "ip link set lo up && ip route add local 0.0.0.0/0 dev lo && ip -6 route add local ::/0 dev lo && exec "


class Recorder(httpcore2.AsyncNetworkBackend):
    """Records what it is to connect to, and connects to prepared responses."""

    def __init__(self, *answers: Iterable[bytes]) -> None:
        self.asked: list[tuple[str, int]] = []
        self.seconds: list[float | None] = []
        self.streams: list[Stream] = []
        self._answers = iter(answers)

    async def connect_tcp(self, host: str, port: int, timeout: float | None = None, *_: Any, **__: Any) -> Stream:
        self.asked.append((host, port))
        self.seconds.append(timeout)
        answer = next(self._answers, None)
        if answer is None:
            raise httpcore2.ConnectError("nobody listens")
        self.streams.append(Stream([b"".join(answer)]))
        return self.streams[-1]

    def requests(self) -> list[bytes]:
        """Return the requests, one for each response."""
        return [stream.written for stream in self.streams]


class Stream(httpcore2.AsyncMockStream):
    """Gives a prepared response, and keeps what is written."""

    written = b""

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self.written += buffer


class Switch(httpcore2.AsyncNetworkBackend):
    """Connects to a prepared response at first, and then as httpcore2 does."""

    def __init__(self, first: Recorder) -> None:
        self.first = first
        self.rest: Any = httpcore2.AnyIOBackend()  # pyright does not see its methods

    async def connect_tcp(self, *args: Any, **kwargs: Any) -> httpcore2.AsyncNetworkStream:
        backend = self.rest if self.first.asked else self.first
        return await backend.connect_tcp(*args, **kwargs)


def redirect(location: str, status: int = 302, *headers: str) -> list[bytes]:
    """An answer that leads on."""
    return http(b"", f"Location: {location}", *headers, status=f"{status} Found")


def get(web: HttpClient, url: str, context: ToolContext | None = None) -> httpx2.Response:
    """Fetch a URL as a tool does."""

    async def fetch() -> Any:
        return await web.get(url)

    result = Toolbox([fetch]).call("fetch", {}, context)
    if result.exception:
        raise result.exception
    assert isinstance(result.value, httpx2.Response)
    return result.value


def fetch_text(web: HttpClient, url: str) -> str:
    """Return the first bytes of a URL, or the error."""
    try:
        return get(web, url).content[:60].decode()
    except ToolError as error:
        return error.text


def test_the_recorder_itself() -> None:
    """The recorder gets each address and port, and its responses are read."""
    connect = Recorder(http(b"hello"))
    web = HttpClient(GuardedNetwork(["10.0.0.0/8"], resolve=lambda *_: ["10.1.2.3"], backend=connect))

    assert "hello" == fetch_text(web, "http://a.example:8080/x")
    assert [("10.1.2.3", 8080)] == connect.asked
    assert connect.requests()[0].startswith(b"GET /x HTTP/1.1\r\nHost: a.example:8080\r\n")


def test_nothing_else_connects(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the connect step replaced, no socket is connected to anything."""
    monkeypatch.setattr(socket.socket, "connect", lambda *_: pytest.fail("a socket was connected"))
    web = HttpClient(GuardedNetwork(resolve=lookup, backend=Recorder(http(b"hello"))))

    assert "hello" == fetch_text(web, f"http://{PUBLIC_NAME}/")


def find_destinations(dialer: GuardedNetwork, text: str) -> tuple[str, list[tuple[str, int]]]:
    """Return the addresses of a URL, or the error."""
    try:
        url = parse_url(text)
        port = url.port or {"http": 80, "https": 443}[url.scheme]
        return "led", [(str(address), port) for address in dialer.look_up(url.raw_host.decode(), port)]
    except (ValueError, RefusedConnection, OSError) as error:
        return type(error).__name__, []


def test_urls() -> None:
    """No spelling of a host, in no place of a URL, leads to an address that is not public, or to another port."""
    dialer, outcomes, escaped = GuardedNetwork(resolve=lookup), Counter[str](), []
    for text in islice(urls(), URLS):
        outcome, led = find_destinations(dialer, text)
        outcomes[outcome] += 1
        escaped += [(text, *place) for place in led if is_forbidden(place[0]) or place[1] not in PORTS]

    assert ([], {"ValueError", "RefusedConnection", "gaierror", "led"}) == (escaped, set(outcomes))


def test_urls_all_the_way() -> None:
    """The name that is looked up is the URL's, and only addresses that were checked are connected to."""
    connect, names = Recorder(), []

    def noted(host: str, port: int) -> list[str]:
        names.append(host)
        return lookup(host, port)

    web = HttpClient(GuardedNetwork(resolve=noted, backend=connect))
    outcomes = [(text, fetch_text(web, text)) for text in islice(urls(), 0, 25 * WHOLE, 25)]
    requests = [parse_url(text).raw_host.decode() for text, what in outcomes if not what.startswith("invalid URL")]

    assert [] == [place for place in connect.asked if is_forbidden(place[0]) or place[1] not in PORTS]
    assert (requests, True) == (names, {PUBLIC, PUBLIC6} <= {address for address, _ in connect.asked})


def may_have_islands() -> bool:
    """Return whether this system allows network namespaces."""
    unshare = shutil.which("unshare")
    if unshare is None or shutil.which("ip") is None:
        return False
    return subprocess.run([unshare, "-Urn", "true"], check=False, capture_output=True).returncode == 0


@pytest.mark.skipif(not may_have_islands(), reason="needs network namespaces")
def test_urls_on_an_island() -> None:
    """On a machine where every address answers, the real connect step reaches public addresses alone."""
    command = [
        shutil.which("unshare") or "",
        "-Urn",
        "sh",
        "-c",
        f"{ISLAND}{sys.executable} -W error -m tests.urls {scale(2000)}",
    ]
    result = subprocess.run(command, check=True, capture_output=True, cwd=Path(__file__).parents[2])

    assert {"guarded": [PUBLIC6, PUBLIC], "unguarded": ["10.9.8.7"]} == json.loads(result.stdout)


def test_names_that_change() -> None:
    """Only checked addresses of one answer of a name server are connected to."""
    chance, connect = random.Random(6), Recorder()  # noqa: S311  the same answers each time
    pool = [*TARGETS, "::1", "fd00::1", "::ffff:10.0.0.1", "64:ff9b::a00:1", "8.8.8.8", PUBLIC, PUBLIC6]
    answers: list[list[str]] = []

    def rebind(host: str, port: int) -> list[str]:
        answers.append(chance.choices(pool, weights=[1] * (len(pool) - 3) + [20] * 3, k=chance.randrange(4)))
        return answers[-1]

    web = HttpClient(GuardedNetwork(resolve=rebind, backend=connect))
    for number in range(SCRIPTS):
        fetch_text(web, f"http://name{number}.example/")
    checked = [answer for answer in answers if not any(map(is_forbidden, answer))]

    assert SCRIPTS == len(answers)
    assert [(address, 80) for answer in checked for address in answer] == connect.asked


def test_chains_of_redirects() -> None:
    """No chain of redirects leads to an address that is not public."""
    chance, spread = random.Random(6), islice(urls(), 0, None, 97)  # noqa: S311  the same chains each time
    ends = Counter[str]()
    for _ in range(CHAINS):
        goals = [f"http://{PUBLIC_NAME}/{n}" for n in range(chance.randrange(5))]
        goals.append(next(url for url in spread if url.isascii() and url.isprintable()))
        connect = Recorder(*map(redirect, goals), *[http(b"end")] * 2)
        ends[fetch_text(HttpClient(GuardedNetwork(resolve=lookup, backend=connect)), f"http://{PUBLIC_NAME}/")] += 1

        assert [] == [place for place in connect.asked if is_forbidden(place[0]) or place[1] not in PORTS]
    assert ends["end"] > CHAINS // 100


INVALID = "fetch error: the redirect is an invalid URL: "


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects(status: int) -> None:
    """A redirect is followed by GET, to where a relative one leads as well."""
    connect = Recorder(redirect("/b?c", status), redirect("//other.example/d", status), http(b"hello"))
    web = HttpClient(GuardedNetwork(resolve=lambda *_: [PUBLIC], backend=connect))
    answer = get(web, "http://a.example/a")
    lines = [request.split(b"\r\n")[:2] for request in connect.requests()]

    assert (b"hello", "http://other.example/d") == (answer.content, str(answer.url))
    assert [b"GET /a HTTP/1.1", b"GET /b?c HTTP/1.1", b"GET /d HTTP/1.1"] == [line for line, _ in lines]
    assert [b"Host: a.example", b"Host: a.example", b"Host: other.example"] == [host for _, host in lines]


@pytest.mark.parametrize(
    ("location", "why"),
    [
        ("http://127.0.0.1/", "fetch error: 127.0.0.1 is not a public address: loopback"),
        ("//localhost/", "fetch error: localhost (::1) is not a public address: loopback"),
        ("http://public.example:22/", "fetch error: port 22 is not allowed, only 80, 443"),
        ("/", "fetch error: there are more than 5 redirects"),
        ("file:///etc/passwd", INVALID + "only http and https are supported, not 'file'"),
        ("gopher://public.example:80/_", INVALID + "only http and https are supported, not 'gopher'"),
        ("data:text/plain,x", INVALID + "only http and https are supported, not 'data'"),
        ("http://u:p@public.example/", INVALID + "user and password do not belong in it"),
        ("http:\\\\public.example", INVALID + "there is a backslash in it"),
        ("http://[", INVALID + "'%5b' is not a host name"),
    ],
)
def test_redirects_that_are_not_followed(location: str, why: str) -> None:
    """A redirect goes through the same backend as the first URL, and there are five at most."""
    connect = Recorder(*[redirect(location)] * 100)

    assert why == fetch_text(HttpClient(GuardedNetwork(resolve=lookup, backend=connect)), f"http://{PUBLIC_NAME}/")
    assert len(connect.asked) <= 6


def test_body_of_a_redirect() -> None:
    """The body of a redirect is not read, so it may be anything."""
    head = b"HTTP/1.1 302 Found\r\nLocation: /b\r\nContent-Encoding: br\r\nContent-Length: 9\r\n\r\n"
    connect = Recorder([head], http(b"hello"))

    assert "hello" == fetch_text(HttpClient(GuardedNetwork(resolve=lookup, backend=connect)), f"http://{PUBLIC_NAME}/")


def test_headers_of_redirects() -> None:
    """No cookie, credential or referrer is sent on with a redirect."""
    hops = [redirect("/b", 302, "Set-Cookie: a=b; Path=/"), redirect("//b.example/", 302, "Set-Cookie: a=b"), http()]
    connect = Recorder(*hops)
    get(HttpClient(GuardedNetwork(resolve=lambda *_: [PUBLIC], backend=connect)), "http://a.example/")
    heads = [request.lower() for request in connect.requests()]

    assert 3 == len(heads)
    assert [] == [head for head in heads if b"cookie" in head or b"authorization" in head or b"referer" in head]


def test_other_schemes(authority: trustme.CA) -> None:
    """A redirect from http to https is followed."""
    there = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(there)
    with Origin(lambda _: http(b"end"), there) as origin:
        plain = Recorder(redirect(origin.url))
        web = HttpClient(GuardedNetwork(["127.0.0.1"], backend=Switch(plain)))
        result = fetch_text(web, origin.url.replace("https:", "http:"))

    assert "end" == result


def test_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither a proxy nor a password is taken from the environment."""
    (tmp_path / ".netrc").write_text("machine a.example login me password secret")
    for name, value in {
        "HTTP_PROXY": "http://10.0.0.1:80",
        "ALL_PROXY": "http://10.0.0.1",
        "HOME": str(tmp_path),
    }.items():
        monkeypatch.setenv(name, value)
        monkeypatch.setenv(name.lower(), value)
    connect = Recorder(http())
    get(HttpClient(GuardedNetwork(resolve=lambda *_: [PUBLIC], backend=connect)), "http://a.example/")

    assert ([(PUBLIC, 80)], False) == (connect.asked, b"uthorization" in connect.requests()[0])


def test_addresses_in_turn() -> None:
    """If one address does not answer, the next is tried; each gets its part of the time."""
    connect = Recorder()
    network = GuardedNetwork(resolve=lambda *_: [PUBLIC6, PUBLIC, "8.8.8.8"], backend=connect)

    assert "fetch error: nobody listens" == fetch_text(HttpClient(network, timeout=30), "http://a.example/")
    assert [(PUBLIC6, 80), (PUBLIC, 80), ("8.8.8.8", 80)] == connect.asked
    assert [10, 10, 10] == connect.seconds


def test_many_addresses() -> None:
    """Of a host with thousands of addresses, eight are tried."""
    addresses, connect = [f"8.8.{number // 250}.{number % 250}" for number in range(4000)], Recorder()
    fetch_text(HttpClient(GuardedNetwork(resolve=lambda *_: addresses, backend=connect)), "http://a.example/")

    assert [(address, 80) for address in addresses[:8]] == connect.asked


@pytest.mark.parametrize("url", ["ftp://127.0.0.1/", "http://me:secret@127.0.0.1/", "http://127.0.0.1:99999/"])
def test_invalid_requests(url: str) -> None:
    """A client refuses other schemes, passwords and invalid ports of any request."""
    connect = Recorder()
    web = HttpClient(GuardedNetwork(["127.0.0.1"], backend=connect))

    with pytest.raises(RefusedConnection, match="only http|user and password|not a port"):
        asyncio.run(web.handle_async_request(httpx2.Request("GET", url)))
    assert [] == connect.asked


@pytest.fixture
def authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> trustme.CA:
    """An authority of its own, which the environment names."""
    made = trustme.CA()
    made.cert_pem.write_to_path(tmp_path / "authority.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))
    return made


@pytest.mark.parametrize(
    ("host", "is_known", "told_is"),
    [
        ("a.example", True, "a.example"),
        ("b.example", True, "fetch error: [SSL: CERTIFICATE_VERIFY_FAILED]"),
        ("a.example", False, "fetch error: [SSL: CERTIFICATE_VERIFY_FAILED]"),
    ],
    ids=["right", "another-name", "another-authority"],
)
def test_tls(authority: trustme.CA, host: str, is_known: bool, told_is: str) -> None:
    """Behind a pinned address, TLS and the header Host are about the name, and its certificate is checked."""
    there, requests = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), []
    issuer = authority if is_known else trustme.CA()
    issuer.issue_cert("a.example").configure_cert(there)
    there.sni_callback = lambda _socket, name, _context: requests.append(name)
    with Origin(lambda head: http(head.split(b"Host: ")[1].split(b":")[0]), there) as origin:
        web = HttpClient(GuardedNetwork(["127.0.0.0/8"], resolve=lambda *_: ["127.0.0.1"]))
        result = fetch_text(web, f"https://{host}:{origin.port}/")

    assert (True, [host]) == (result.startswith(told_is), requests)


def test_no_way_down(authority: trustme.CA) -> None:
    """A redirect from https to http is not followed."""
    there = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(there)
    with Origin(lambda _: redirect("http://public.example/"), there) as origin:
        result = fetch_text(HttpClient(GuardedNetwork(["127.0.0.1"])), origin.url)

    assert "fetch error: a redirect from https to http is not followed" == result


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
# What a server sends at first, and then again and again.
DRIPS = {
    "nothing": (b"", b""),
    "status": (b"HTTP/1.1 200 ", b"O"),
    "informational": (b"", b"HTTP/1.1 103 Early Hints\r\n\r\n"),
    "headers": (HEAD, b"X: y\r\n"),
    "one-header": (HEAD + b"X: ", b"y"),
    "body": (HEAD + b"\r\n", b"x"),
    "length": (HEAD + b"Content-Length: 1000000\r\n\r\n", b"x"),
    "chunks": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
    "chunk-extension": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n1;", b"x"),
    "trailers": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", b"X: y\r\n"),
}


@pytest.mark.parametrize("drip", DRIPS)
def test_drips(drip: str) -> None:
    """A server that sends slowly, in any part of its response, does not outlast the deadline."""
    first, again = DRIPS[drip]
    with Origin(lambda _: origin.drip(first, piece=again)) as origin:
        start = time.monotonic()
        result = fetch_text(HttpClient(GuardedNetwork(["127.0.0.1"]), timeout=0.3), origin.url)
        took = time.monotonic() - start

    assert (True, True) == (result.endswith("error: it took longer than 0.3 seconds"), took < 20)


def test_a_handshake_that_never_ends() -> None:
    """A TLS handshake that never ends does not outlast the deadline."""
    with Origin(lambda _: origin.drip(piece=b"")) as origin:
        result = fetch_text(
            HttpClient(GuardedNetwork(["127.0.0.1"]), timeout=0.3), origin.url.replace("http:", "https:")
        )

    assert "fetch error: it took longer than 0.3 seconds" == result


def cancel_fetch(web: HttpClient, url: str, started_event: threading.Event) -> tuple[type[BaseException], bool]:
    """Return the error of a fetch that is cancelled after its start, and whether it ends at once."""
    context = ToolContext(deps=None)
    caller = threading.Thread(target=lambda: context.cancellation.cancel() if started_event.wait(10) else None)
    caller.start()
    start = time.monotonic()
    with pytest.raises(ToolError) as caught:
        get(web, url, context)
    caller.join()
    return caught.type, time.monotonic() - start < 10


@pytest.mark.parametrize("drip", DRIPS)
def test_cancelling_while_it_reads(drip: str) -> None:
    """A call that is cancelled ends at once, wherever the answer has got to."""
    first, again = DRIPS[drip]
    with Origin(lambda _: origin.drip(first, piece=again, every=0.05)) as origin:
        result = cancel_fetch(HttpClient(GuardedNetwork(["127.0.0.1"]), timeout=60), origin.url, origin.asked)

    assert (Cancelled, True) == result


def hold(listening: socket.socket, started_event: threading.Event) -> None:
    """Accept one connection, report the first bytes, and wait until the client closes it."""
    with listening.accept()[0] as connection:
        connection.recv(1)
        started_event.set()
        while connection.recv(65536):
            pass


def test_cancelling_a_handshake() -> None:
    """A call that is cancelled ends at once while the handshake is waited for."""
    started_event = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"https://127.0.0.1:{listening.getsockname()[1]}/"
        accepting = threading.Thread(target=hold, args=(listening, started_event))
        accepting.start()
        result = cancel_fetch(HttpClient(GuardedNetwork(["127.0.0.1"]), timeout=60), url, started_event)
        accepting.join()

    assert (Cancelled, True) == result


@pytest.fixture
def hanging() -> Iterator[Callable[..., list[str]]]:
    """A lookup that hangs until the test ends; the event is set once one has started."""
    release, started_event = threading.Event(), threading.Event()

    def resolve(*_: object) -> list[str]:
        started_event.set()
        release.wait(60)
        raise OSError("released")

    resolve.begun = started_event  # type: ignore[attr-defined]
    yield resolve
    release.set()


def test_lookups_that_hang(hanging: Callable[..., list[str]]) -> None:
    """A lookup that hangs does not outlast the deadline."""
    result = fetch_text(HttpClient(GuardedNetwork(resolve=hanging), timeout=0.1), "http://a.example/")

    assert "fetch error: it took longer than 0.1 seconds" == result


def test_cancelling_a_lookup(hanging: Callable[..., list[str]]) -> None:
    """A call that is cancelled ends at once while a name is looked up."""
    started_event: threading.Event = hanging.begun  # type: ignore[attr-defined]

    assert (Cancelled, True) == cancel_fetch(
        HttpClient(GuardedNetwork(resolve=hanging), timeout=60), "http://a.example/", started_event
    )


def test_lookups_that_come_too_late() -> None:
    """The result of a lookup after the deadline is not connected to."""
    context, connect = ToolContext(deps=None), Recorder()

    def resolve(*_: object) -> list[str]:
        context.cancellation.cancel()
        time.sleep(0.2)
        return [PUBLIC]

    with pytest.raises(Cancelled):
        get(HttpClient(GuardedNetwork(resolve=resolve, backend=connect)), "http://a.example/", context)

    assert [] == connect.asked


def test_deadline_of_the_run() -> None:
    """If the run's own deadline comes first, the run has timed out, not the tool."""
    context = ToolContext(deps=None)
    context.cancellation.restart(0.2)
    with Origin(lambda _: origin.drip(HEAD, piece=b"")) as origin, pytest.raises(TimedOut):
        get(HttpClient(GuardedNetwork(["127.0.0.1"]), timeout=60), origin.url, context)


@pytest.mark.parametrize(
    "host",
    [
        "a" * 63 + ".example",
        "x" * 64 + ".example",
        ".".join(["a"] * 200),
        "a..b",
        ".a",
        "-",
        "a_b",
        "%61",
        "a%00b",
        "exa mple",
        "a,b",
        "a;b",
        "a|b",
        "{a}",
        '"a"',
        "<a>",
    ],
)
def test_hosts(host: str) -> None:
    """Host names have letters, digits, hyphens and dots; others are invalid."""
    names: list[str] = []

    def resolve(name: str, _: int) -> list[str]:
        names.append(name)
        return [PUBLIC]

    web = HttpClient(GuardedNetwork(resolve=resolve, backend=Recorder(http(b"hello"))))
    result = fetch_text(web, f"http://{host}/")

    assert ("hello" == result, result.startswith("invalid URL: ")) == (names == [host], not names)
