"""MCP: servers that want an OAuth token, which the providers of the mcp package fetch."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider

from toolkit import Failed, Toolbox
from toolkit.sources.mcp import MCP

KNOWN = "s3cret"
TOOL = {"name": "count", "inputSchema": {"type": "object", "properties": {"last": {"type": "boolean"}}}}


class Tokens:
    """Keeps what a provider fetched, as the mcp package wants it."""

    tokens: Any = None
    client: Any = None

    async def get_tokens(self) -> Any:
        return self.tokens

    async def set_tokens(self, tokens: Any) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> Any:
        return self.client

    async def set_client_info(self, client_info: Any) -> None:
        self.client = client_info


@contextmanager
def serve(together: int = 1) -> Iterator[tuple[str, list[tuple[str, str]]]]:  # noqa: C901  five kinds of requests
    """Serve a tool to those who have a token; give the address, and the paths and authorizations of requests.

    So many calls are answered `together`. A call with `last` ends the validity of its token.
    """
    seen: list[tuple[str, str]] = []
    barrier = threading.Barrier(together, timeout=10)
    ended: set[str] = set()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.answer(b"")

        def do_POST(self) -> None:
            self.answer(self.rfile.read(int(self.headers["content-length"])))

        def answer(self, body: bytes) -> None:
            seen.append((self.path, self.headers.get("authorization", "")))
            own = f"http://127.0.0.1:{server.server_port}"
            if "protected-resource" in self.path:
                self.reply({"resource": f"{own}/mcp", "authorization_servers": [own]})
            elif "authorization-server" in self.path:
                ends = {"authorization_endpoint": f"{own}/authorize", "token_endpoint": f"{own}/token"}
                self.reply({"issuer": own, **ends, "response_types_supported": ["code"]})
            elif self.path == "/token":
                is_known = self.headers.get("authorization") == f"Basic {base64.b64encode(b'me:s3cret').decode()}"
                token = {"access_token": f"t0ken{len(ended) or ''}", "token_type": "Bearer", "expires_in": 3600}
                self.reply(token if is_known else {"error": "invalid_client"}, 200 if is_known else 401)
            elif self.headers.get("authorization") != f"Bearer t0ken{len(ended) or ''}":
                metadata = f'Bearer resource_metadata="{own}/.well-known/oauth-protected-resource"'
                self.reply({}, 401, {"WWW-Authenticate": metadata})
            else:
                self.speak(json.loads(body or b"{}"))

        def speak(self, message: dict[str, Any]) -> None:
            info = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "x", "version": "1"}}
            text = {"content": [{"type": "text", "text": "7"}]}
            results: dict[str, Any] = {"initialize": info, "tools/list": {"tools": [TOOL]}, "tools/call": text}
            head = {"jsonrpc": "2.0", "id": message.get("id")}
            error = {"error": {"code": -32601, "message": "no such method"}}
            result = results.get(message.get("method", ""))
            if result is text:
                barrier.wait()
                ended.update(message["params"]["arguments"])
            self.reply({**head, **({"result": result} if result else error)}, 200 if "id" in message else 202)

        def reply(self, content: Any, status: int = 200, headers: Any = ()) -> None:
            body = json.dumps(content).encode()
            self.send_response(status)
            for name, value in {
                "Content-Type": "application/json",
                "Content-Length": len(body),
                **dict(headers),
            }.items():
                self.send_header(name, str(value))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/mcp", seen
        finally:
            server.shutdown()
            thread.join()


def sign(url: str, secret: str = KNOWN) -> ClientCredentialsOAuthProvider:
    """Make the provider of an application that has a secret for the authorization server at an address."""
    issuer = url.removesuffix("/mcp")
    return ClientCredentialsOAuthProvider(url, Tokens(), "me", secret, issuer=issuer)


def test_token() -> None:
    """The token is fetched from the authorization server, and goes with each request from then on."""
    with serve() as (url, seen), MCP(url, name="x", auth=sign(url)) as server:
        assert "7" == Toolbox([server]).call("mcp_x_count", {}).text
    assert 1 == [path for path, _ in seen].count("/token")
    assert "Bearer t0ken" in [authorization for path, authorization in seen if path == "/mcp"]


def test_wrong_secret() -> None:
    """A secret that is refused is an error, which does not repeat it, and it is not sent again."""
    with serve() as (url, seen), pytest.raises(Failed, match="cannot be reached") as caught:
        MCP(url, name="x", auth=sign(url, "wr0ng"), timeout=5).connect()

    assert "wr0ng" not in f"{caught.value}"
    assert 1 == [path for path, _ in seen].count("/token")


def test_calls_at_the_same_time() -> None:
    """Calls with a token do not wait for each other, although a provider of the mcp package sends one by one."""

    async def main() -> list[str]:
        async with MCP(url, name="x", auth=sign(url)) as server:
            results = await asyncio.gather(*(server.tools[0].ainvoke({}) for _ in range(3)))
        return [result.text for result in results]

    with serve(together=3) as (url, seen):
        assert ["7", "7", "7"] == asyncio.run(main())
    assert 1 == [path for path, _ in seen].count("/token")


def test_token_that_has_ended() -> None:
    """A token that the server does not accept any more is replaced, and the call is sent again."""
    with serve() as (url, seen), MCP(url, name="x", auth=sign(url)) as server:
        assert ["7", "7"] == [server.tools[0].invoke(arguments).text for arguments in ({"last": True}, {})]
    assert 2 == [path for path, _ in seen].count("/token")


def test_two_servers() -> None:
    """The token of one server goes to no other."""
    with serve() as (url, _), serve() as (other, seen), MCP(url, name="x", auth=sign(url)) as server:
        with pytest.raises(Failed, match="cannot be reached"):
            MCP(other, name="y", timeout=5).connect()
        server.tools[0].invoke({})

    assert {""} == {authorization for _, authorization in seen}


def test_server_that_names_another_issuer() -> None:
    """A server cannot have the secret sent to an authorization server of its own."""
    with serve() as (url, _), serve() as (evil, seen), pytest.raises(Failed, match="cannot be reached"):
        MCP(evil, name="x", auth=sign(url), timeout=5).connect()

    assert "/token" not in [path for path, _ in seen]
