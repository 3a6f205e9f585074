"""A scripted model in a process of its own: Chat Completions on loopback, whole or streamed.

The script is in the address: at `http://127.0.0.1:PORT/turns-10/calls-8/v1` a conversation has ten answers, of which
all but the last call `add` eight times. Which answer is due, the results in the request say; so an answer is not due
before every call has its result, and the server remembers nothing.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import IO, Any, cast

FINAL = [f"word{number} " for number in range(20)]
USAGE = {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}


def address(port: int, turns: int, calls: int) -> str:
    """Write the base URL of a script."""
    return f"http://127.0.0.1:{port}/turns-{turns}/calls-{calls}/v1"


@contextmanager
def serving() -> Iterator[int]:
    """Run the server, and yield its port."""
    command = [sys.executable, __file__]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:  # noqa: S603  this file
        try:
            yield int(cast("IO[bytes]", process.stdout).readline())
        finally:
            cast("IO[bytes]", process.stdin).close()  # which ends it, as the end of this process would


class Script(BaseHTTPRequestHandler):
    """Handles one client."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # head and body leave together

    def do_POST(self) -> None:
        """Answer one request; its body is searched, never parsed."""
        body = self.rfile.read(int(self.headers["content-length"]))
        turns, calls = (int(number) for number in re.findall(r"-(\d+)", self.path))
        due = body.count(b'"tool_call_id"') // calls
        content = answer(due, calls if due < turns - 1 else 0, streamed=b'"stream":true' in body)
        kind = b"text/event-stream" if content.startswith(b"data:") else b"application/json"
        head = b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n" % (kind, len(content))
        self.wfile.write(head + content)


@cache
def answer(turn: int, calls: int, *, streamed: bool) -> bytes:
    """Write an answer: calls, or the final text."""
    wishes = [_wish(turn, number) for number in range(calls)]
    if streamed:
        events = map(json.dumps, _chunks(wishes))
        return b"".join(f"data: {event}\n\n".encode() for event in events) + b"data: [DONE]\n\n"
    message = {"role": "assistant", "content": None, "tool_calls": wishes} if calls else _text("".join(FINAL))
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
    return json.dumps({**_frame("chat.completion"), "choices": [choice], "usage": USAGE}).encode()


def _wish(turn: int, number: int) -> dict[str, Any]:
    arguments = json.dumps({"a": turn, "b": number})
    return {"id": f"call_{turn}_{number}", "type": "function", "function": {"name": "add", "arguments": arguments}}


def _text(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def _chunks(wishes: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Split an answer into the pieces that OpenAI sends: a head, two halves of the arguments; the text word by word."""
    for delta in _deltas(wishes):
        yield _chunk(delta)
    yield _chunk({}, "tool_calls" if wishes else "stop")
    yield {**_frame("chat.completion.chunk"), "choices": [], "usage": USAGE}


def _deltas(wishes: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    yield {"role": "assistant", "content": None if wishes else ""}
    for index, wish in enumerate(wishes):
        name, arguments = wish["function"]["name"], wish["function"]["arguments"]
        half = len(arguments) // 2
        yield {"tool_calls": [{**wish, "index": index, "function": {"name": name, "arguments": ""}}]}
        for part in (arguments[:half], arguments[half:]):
            yield {"tool_calls": [{"index": index, "function": {"arguments": part}}]}
    if not wishes:
        yield from ({"content": word} for word in FINAL)


def _chunk(delta: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return {**_frame("chat.completion.chunk"), "choices": [choice]}


def _frame(kind: str) -> dict[str, Any]:
    return {"id": "chatcmpl-1", "object": kind, "created": 1_700_000_000, "model": "scripted"}


class Server(ThreadingHTTPServer):
    """Accepts as many connections at once as the benchmark `crowd` makes."""

    request_queue_size = 1024


def main() -> None:
    """Serve until standard input ends."""
    server = Server(("127.0.0.1", 0), Script)
    Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_address[1], flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
