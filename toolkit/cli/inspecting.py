"""The server of `toolkit inspect`, for the browser of this machine alone.

What must stay true: it listens on loopback; a request without the token in its path is refused, and so is one for
another host name than those of this machine, since a page elsewhere could let its own name resolve to this machine; a
call that may change something runs only after a person has approved it, except in a chat with the Runner of a file,
which has its own approver.
"""

from __future__ import annotations

import json
import secrets
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

from typing_extensions import override

from toolkit import Runner, Session, Tool, ToolContext
from toolkit._execution.approval import Decision, Verdict
from toolkit._execution.approval_request import ApprovalRequest
from toolkit.approvers import approve_all, ask_when
from toolkit.cli.pages import Exchange, Site, format_error
from toolkit.cli.targets import may_change
from toolkit.display.form import Form, InvalidForm
from toolkit.display.markup import render_error
from toolkit.serve.local import LOOPBACK

MAX_BODY = 10_000_000  # bytes
# No script runs, nothing is fetched from elsewhere, and no other site gets the address or shows the page in a frame.
HEADERS = {
    "Content-Type": "text/html; charset=utf-8",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


class Refused(Exception):
    """A request is refused, with a status and one sentence."""

    def __init__(self, status: HTTPStatus, text: str) -> None:
        super().__init__(text)
        self.status = status


class Inspector(ThreadingHTTPServer):
    """A page about the tools of a toolbox, and a chat with a runner that has them.

    Raises:
        OSError: The port is in use.
    """

    daemon_threads = True
    allow_reuse_address: bool = sys.platform != "win32"  # with it, two servers of Windows share a port

    def __init__(self, runner: Runner, *, title: str, deps: Any = None, port: int = 0) -> None:
        super().__init__((LOOPBACK[0], port), _Handler)
        token = secrets.token_urlsafe(16)
        self.runner = runner
        self.deps: Any = deps
        self.site: Site = Site(title, f"/{token}/", [*runner.toolbox])
        self.hosts: set[str] = {f"{name}:{self.server_port}" for name in ("127.0.0.1", "localhost")}
        self.new_chat()

    @property
    def url(self) -> str:
        """The address of the first page, with the token."""
        return f"http://{LOOPBACK[0]}:{self.server_port}{self.site.root}"

    def new_chat(self) -> None:
        """Start a new conversation."""
        self._session = Session()
        self.exchanges: list[Exchange] = []

    def send_prompt(self, prompt: str) -> None:
        """Start the run of a prompt.

        Raises:
            Refused: The run before it has not ended, or waits for decisions.
            ToolkitError: No model is configured.
        """
        if self.exchanges and self.exchanges[-1].handle.status in ("pending", "running", "paused"):
            raise Refused(HTTPStatus.CONFLICT, "The last run has not ended. Go back, and stop it or decide.")
        self.exchanges.append(Exchange(prompt, self.runner.start(prompt, deps=self.deps, session=self._session)))

    def decide(self, decisions: Mapping[str, bool]) -> None:
        """Resume a run whose calls wait for approval.

        Raises:
            Refused: No call waits for approval.
        """
        if not self.exchanges or self.exchanges[-1].handle.status != "paused":
            raise Refused(HTTPStatus.CONFLICT, "No call waits for approval.")
        state = self.exchanges[-1].handle.result().state
        handle = self.runner.start(state, deps=self.deps, decisions=decisions, session=self._session)
        self.exchanges.append(Exchange("", handle))

    def cancel(self) -> None:
        """Cancel the last run."""
        if self.exchanges:
            self.exchanges[-1].handle.cancel()

    @override
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing. Errors of tools are answered; what is left are browsers that disconnect."""


class _Handler(BaseHTTPRequestHandler):
    server: Inspector  # pyright: ignore[reportIncompatibleVariableOverride]  # only Inspector makes handlers

    def do_GET(self) -> None:
        self._answer(self._get)

    def do_POST(self) -> None:
        self._answer(self._post)

    @override
    def log_message(self, format: str, *_: Any) -> None:
        """Log nothing: the address has the token."""

    def _answer(self, route: Any) -> None:
        """Answer a request. An exception is answered, too."""
        try:
            route(self._check_path())
        except Refused as error:
            self._send([str(error)], error.status, {"Content-Type": "text/plain; charset=utf-8"})
        except Exception as error:  # noqa: BLE001  whatever the file's tools and hooks raise
            self._send(self.server.site.render("Error", [f"<h1>Error</h1>{render_error(format_error(error))}"]))

    def _check_path(self) -> list[str]:
        """Check host, origin and token, and return the parts of the path below the token."""
        hosts = self.server.hosts
        if self.headers.get("Host") not in hosts:
            raise Refused(HTTPStatus.FORBIDDEN, "This page is for the browser of this machine alone.")
        if self.headers.get("Origin", "").removeprefix("http://") not in {*hosts, ""}:
            raise Refused(HTTPStatus.FORBIDDEN, "This request comes from another page.")
        path = self.path.partition("?")[0]
        root = path[: len(self.server.site.root)]
        rest = path[len(self.server.site.root) :]
        if not secrets.compare_digest(root.encode(), self.server.site.root.encode()):
            raise Refused(HTTPStatus.NOT_FOUND, "Open the address that the command has printed.")
        return [part for part in rest.split("/") if part]

    def _get(self, path: list[str]) -> None:
        site = self.server.site
        if path:
            tool = self._find_tool(path)
            self._send(site.render(tool.name, site.render_tool(Form(tool))))
        else:
            self._send(site.render("Chat", site.render_chat([*self.server.exchanges])))

    def _post(self, path: list[str]) -> None:
        server = self.server
        posted = self._read()
        match path:
            case ["chat"]:
                server.send_prompt(posted.get("prompt", [""])[0].replace("\r\n", "\n"))
            case ["decide"]:
                server.decide({call_id: values == ["yes"] for call_id, values in posted.items()})
            case ["cancel"]:
                server.cancel()
            case ["new"]:
                server.cancel()
                server.new_chat()
            case _:
                self._send(self._call(self._find_tool(path), posted))
                return

        self._send([], HTTPStatus.SEE_OTHER, {"Location": server.site.root})

    def _call(self, tool: Tool[..., Any], posted: Mapping[str, list[str]]) -> Iterator[str]:
        """Call a tool. If the call may change something, or the tool requires approval, ask first."""
        site = self.server.site
        asked: list[ApprovalRequest] = []

        def ask(request: ApprovalRequest) -> Verdict:
            asked.append(request)
            return Decision.unavailable("The call waits for approval.")

        try:
            approved = posted.get("approved")
            arguments = approved[0] if approved else Form(tool).read(posted)
        except InvalidForm as error:
            return site.render(tool.name, site.render_tool(error.form))

        approver = approve_all if approved else ask_when(ask, when=may_change)
        context = ToolContext(deps=self.server.deps)
        result = self.server.runner.toolbox.call(tool.name, arguments, context, approve=approver)
        if asked:
            return site.render(tool.name, site.render_question(tool, str(asked[0]), arguments))
        return site.render(tool.name, site.render_tool(Form(tool, json.loads(arguments)), site.render_result(result)))

    def _find_tool(self, path: list[str]) -> Tool[..., Any]:
        tool = next((tool for tool in self.server.site.tools if ["tools", tool.name] == path), None)
        if tool is None:
            raise Refused(HTTPStatus.NOT_FOUND, "There is no such page.")
        return tool

    def _read(self) -> Mapping[str, list[str]]:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > MAX_BODY:
            raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"A form has at most {MAX_BODY:,} bytes.")
        return parse_qs(self.rfile.read(int(length)).decode(errors="replace"), keep_blank_values=True)

    def _send(
        self, pieces: Iterable[str], status: HTTPStatus = HTTPStatus.OK, headers: Mapping[str, str] | None = None
    ) -> None:
        """Send each piece as soon as it is made, until the browser disconnects."""
        self.send_response(status)
        for name, value in {**HEADERS, **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        with suppress(ConnectionError):
            for piece in pieces:
                self.wfile.write(piece.encode(errors="backslashreplace"))
