"""A runner for clients of the Agent2Agent protocol.

    serve(runner, http="9000")                     at http://127.0.0.1:9000, until Ctrl-C
    app = make_app(runner, token=token)            an ASGI application, for your own server

docs/a2a.md lists what becomes of messages and tasks. What must stay true: a caller without the token gets the card and
nothing else; each call passes the gates of the runner; and the memory for tasks and conversations is bounded.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from typing_extensions import override

import toolkit
from toolkit._guards.options import check_texts, check_type, check_whole
from toolkit._lazy import needs_extra
from toolkit._messages import Message
from toolkit._runner.prompt import make_user_message
from toolkit._runner.result import RunResult
from toolkit._runner.runner import Runner
from toolkit._runner.state import RunState
from toolkit.errors import BusyError, DefinitionError
from toolkit.events import PendingApproval
from toolkit.serve.local import LOOPBACK, parse_address

with needs_extra("toolkit.serve.a2a", "a2a"):
    from a2a.helpers import new_data_part, new_text_part
    from a2a.server.agent_execution import AgentExecutor, RequestContext
    from a2a.server.context import ServerCallContext
    from a2a.server.events import EventQueue
    from a2a.server.request_handlers import DefaultRequestHandler
    from a2a.server.request_handlers.response_helpers import agent_card_to_dict
    from a2a.server.routes import create_jsonrpc_routes
    from a2a.server.tasks import InMemoryTaskStore, TaskStore, TaskUpdater
    from a2a.types import (
        AgentCapabilities,
        AgentCard,
        AgentInterface,
        AgentSkill,
        HTTPAuthSecurityScheme,
        SecurityRequirement,
        SecurityScheme,
        StringList,
        Task,
        TaskState,
        TaskStatus,
    )
    from a2a.types import Message as WireMessage
    from a2a.utils.constants import AGENT_CARD_WELL_KNOWN_PATH
    from google.protobuf.json_format import MessageToDict
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.requests import Request
    from starlette.responses import JSONResponse, PlainTextResponse
    from starlette.routing import Route
    from starlette.types import ASGIApp, Receive, Scope, Send
    from starlette.types import Message as ASGIMessage

    from toolkit.sources.a2a.agent import MAX_MARKS
    from toolkit.sources.a2a.exchange import ENDED, WAITING, read_part
    from toolkit.sources.remote import MarkCounter

__all__ = ["make_app", "serve"]

logger: logging.Logger = logging.getLogger("toolkit")

PORT = "9000"
MAX_REQUEST = 10_000_000  # bytes
KEEP = 1_000
MAX_WAIT = 3_600.0  # seconds for which the SDK keeps a task that waits
VERSIONS = ("1.0", "0.3")  # of the protocol
DESCRIPTION = "Answers messages."
QUESTION = "Waits for approval:\n{calls}\nAnswer approve or reject."
CANNOT_CONTINUE = "This task can no longer be continued. Start a new one."
EMPTY_MESSAGE = "The message is empty."
OTHER_TASK = "The task {id} of this conversation waits for an answer. Send that with its id, or cancel it."
ANSWERS: Mapping[str, bool] = {"approve": True, "reject": False}
# When the current request arrived. It may wait for others of its task, and answers only what was asked before.
_arrival: ContextVar[float] = ContextVar("arrival", default=0.0)


def make_app(
    runner: Runner,
    *,
    name: str = "toolkit",
    description: str = DESCRIPTION,
    version: str = toolkit.__version__,
    url: str | None = None,
    token: str | None = None,
    hosts: Collection[str] | None = None,
    deps: Any = None,
    task_store: TaskStore | None = None,
    keep: int = KEEP,
) -> ASGIApp:
    """Make an ASGI application that serves a runner: its card, and JSON-RPC at the path `/`.

    Args:
        runner: The runner; each task is one run of it.
        name: Name of the agent, on its card.
        description: What the agent does, on its card; clients choose an agent by it.
        version: Version of the agent, on its card.
        url: The public address; by default the one at which a client requests the card.
        token: The bearer token that callers must send; the card is public. By default everybody may call.
        hosts: The host names that requests may be sent to; by default any.
        deps: Passed to tools as `ToolContext.deps`.
        task_store: Stores tasks, such as `a2a.server.tasks.DatabaseTaskStore`; by default they are stored in memory.
        keep: How many conversations, and how many tasks that do not run, are kept in memory; the oldest are forgotten.
            A `task_store` has its own limit.

    Raises:
        DefinitionError: An option has a wrong value.
    """
    check_type("runner", runner, Runner)
    check_whole("keep", keep)
    for option, value in ("name", name), ("description", description), ("version", version), ("url", url or ""):
        check_type(option, value, str)
    names = None if hosts is None else frozenset(check_texts("hosts", hosts))
    if token is not None and not (isinstance(token, str) and token.isascii() and token.strip() == token != ""):
        raise DefinitionError("token= must be visible ASCII characters.")  # without the value, which is a secret

    def make_card(address: str) -> AgentCard:
        skill = AgentSkill(id="ask", name=name, description=description, tags=["toolkit"])
        about = {"name": name, "description": description, "version": version, "skills": [skill]}
        return _make_card(address, about, has_token=token is not None)

    async def show_card(request: Request) -> JSONResponse:
        card = agent_card_to_dict(make_card(url or f"{request.base_url}"))
        return JSONResponse(card, headers={"Cache-Control": "no-store"})  # it has the address of this request

    handler = DefaultRequestHandler(
        agent_executor=_Executor(runner, deps, keep),
        task_store=task_store or _BoundedTaskStore(keep),
        agent_card=make_card(url or "http://localhost/"),
        interrupted_task_timeout=MAX_WAIT,
    )

    @asynccontextmanager
    async def run(_: Starlette) -> AsyncIterator[None]:
        yield
        await handler.aclose()

    routes = [
        Route(AGENT_CARD_WELL_KNOWN_PATH, show_card, methods=["GET"]),
        *create_jsonrpc_routes(handler, "/", enable_v0_3_compat=True),
    ]
    return _Gate(Starlette(routes=routes, lifespan=run), token, names)


def serve(runner: Runner, *, http: str | int = PORT, **options: Any) -> None:
    """Serve a runner until Ctrl-C.

    Args:
        runner: As for `make_app`.
        http: A port, or `host:port`; it must be of this machine.
        **options: As for `make_app`.

    Raises:
        DefinitionError: The address is not a local one, or an option has a wrong value.
    """
    import uvicorn

    host, port = parse_address(http)
    app = make_app(runner, **{"hosts": LOOPBACK, **options})
    uvicorn.run(app, host=host, port=port, log_level="warning", ws="none")


def _make_card(address: str, about: Mapping[str, Any], *, has_token: bool) -> AgentCard:
    card = AgentCard(
        **about,
        capabilities=AgentCapabilities(streaming=True),
        supported_interfaces=[
            AgentInterface(url=address, protocol_binding="JSONRPC", protocol_version=each) for each in VERSIONS
        ],
        default_input_modes=["text/plain", "application/json", "image/*", "application/pdf"],
        default_output_modes=["text/plain"],
    )
    if has_token:
        bearer = SecurityScheme(http_auth_security_scheme=HTTPAuthSecurityScheme(scheme="Bearer"))
        card.security_schemes["bearer"].CopyFrom(bearer)
        card.security_requirements.append(SecurityRequirement(schemes={"bearer": StringList()}))
    return card


@dataclass(frozen=True)
class _Gate:
    """Refuses requests that are for another host, lack the token, are not JSON, or would take long to parse.

    A page of another site can make a browser send requests to this server, but not with the content type of JSON. If
    the page's own name resolves to this server, the header Host has that name.
    """

    app: ASGIApp
    token: str | None = field(repr=False)
    hosts: frozenset[str] | None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        refusal = self._find_refusal(scope)
        if refusal:
            status, text = refusal
            headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None
            await PlainTextResponse(text, status, headers)(scope, receive, send)
            return

        _arrival.set(time.monotonic())
        left = MAX_REQUEST
        marks = MarkCounter()

        async def receive_some() -> ASGIMessage:
            nonlocal left
            message = await receive()
            body = message.get("body", b"")
            left -= len(body)
            marks.add(body)
            if left < 0 or marks.count > MAX_MARKS:
                raise HTTPException(413)
            return message

        await self.app(scope, receive_some, send)

    def _find_refusal(self, scope: Scope) -> tuple[int, str] | None:
        """Return the status and the text of a refusal, or None. The card needs no token."""
        headers = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
        if self.hosts is not None and _read_host(headers.get(b"host", "")) not in self.hosts:
            return 421, "This server does not answer for the host of this request."
        if scope["path"].endswith(AGENT_CARD_WELL_KNOWN_PATH):
            return None

        scheme, _, received = headers.get(b"authorization", "").partition(" ")
        if self.token is not None and not (
            scheme.lower() == "bearer" and hmac.compare_digest(received.strip().encode(), self.token.encode())
        ):
            return 401, "This request needs the header Authorization with a bearer token."
        media_type = headers.get(b"content-type", "").partition(";")[0].strip().lower()
        return None if media_type == "application/json" else (415, "The content type must be application/json.")


def _read_host(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


class _BoundedTaskStore(InMemoryTaskStore):
    """Keeps tasks in memory: all that run, and the latest of the others."""

    def __init__(self, keep: int) -> None:
        super().__init__()
        self._keep = keep
        self._idle: OrderedDict[tuple[str, str], ServerCallContext] = OrderedDict()  # tasks that do not run

    @override
    async def save(self, task: Task, context: ServerCallContext) -> None:
        await super().save(task, context)
        key = (context.user.user_name, task.id)
        self._idle.pop(key, None)
        if task.status.state in ENDED | WAITING:
            self._idle[key] = context
        while len(self._idle) > self._keep:
            (_, oldest), owner = self._idle.popitem(last=False)
            await super().delete(oldest, owner)


@dataclass(eq=False)
class _Conversation:
    """The messages of a context id, its task that waits for approval, and when each call was asked about, by digest."""

    messages: Sequence[Message] = ()
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    task_id: str = ""
    state: RunState | None = None
    asked: Mapping[str, float] = field(default_factory=dict)

    def list_asked(self, before: float) -> list[PendingApproval]:
        """List the waiting calls that were asked about before a time."""
        pending = self.state.pending if self.state else ()
        return [each for each in pending if self.asked[each.digest] < before]


class _Executor(AgentExecutor):
    """Starts or resumes a run for each message."""

    def __init__(self, runner: Runner, deps: Any, keep: int) -> None:
        self._runner = runner
        self._deps = deps
        self._keep = keep
        self._conversations: OrderedDict[tuple[str, str], _Conversation] = OrderedDict()

    @override
    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        message, task = context.message, context.current_task
        if message is None or context.task_id is None or context.context_id is None:
            raise ValueError("The request has no message.")

        # A client that continues a task need not repeat the context id.
        updater = TaskUpdater(event_queue, context.task_id, task.context_id if task else context.context_id)
        if task is None:
            status = TaskStatus(state=TaskState.TASK_STATE_SUBMITTED)
            started = Task(id=updater.task_id, context_id=updater.context_id, status=status, history=[message])
            await event_queue.enqueue_event(started)
        conversation = self._find_conversation(context, updater.context_id)

        async with conversation.lock:
            await updater.start_work()
            try:
                result = await self._run(conversation, message, updater, is_new=task is None)
            except BusyError:
                await updater.reject(_make_message(updater, "The agent is busy. Try again later."))
            except Exception as error:
                logger.exception("A run that was served over A2A failed.")
                await updater.failed(_make_message(updater, f"The run failed: {type(error).__name__}."))
            else:
                if result is not None:
                    await _report_result(conversation, result, updater)

    @override
    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Forget a task that waits for approval. For a working task the SDK cancels `execute`, and so the run."""
        conversation = self._find_conversation(context, f"{context.context_id}")
        if conversation.task_id == context.task_id:
            conversation.task_id = ""
            conversation.state = None
        await TaskUpdater(event_queue, f"{context.task_id}", f"{context.context_id}").cancel()

    def _find_conversation(self, context: RequestContext, context_id: str) -> _Conversation:
        key = (context.call_context.user.user_name, context_id)
        conversation = self._conversations.setdefault(key, _Conversation())
        self._conversations.move_to_end(key)
        while len(self._conversations) > self._keep:
            self._conversations.popitem(last=False)
        return conversation

    async def _run(
        self, conversation: _Conversation, message: WireMessage, updater: TaskUpdater, *, is_new: bool
    ) -> RunResult[Any] | None:
        """Start a run, or resume the one that waits; if the message allows neither, answer it and return None."""
        parts = [part for part in map(read_part, message.parts) if part]
        state = conversation.state
        is_waiting = conversation.task_id == updater.task_id
        if not is_new and (state is None or not is_waiting):
            await updater.failed(_make_message(updater, CANNOT_CONTINUE))
        elif state is None and parts:
            prompt = make_user_message(parts)
            return await self._runner.arun(prompt, messages=conversation.messages, deps=self._deps)
        elif state is None:
            await updater.reject(_make_message(updater, EMPTY_MESSAGE))
        elif not is_waiting:
            await updater.reject(_make_message(updater, OTHER_TASK.format(id=conversation.task_id)))
        elif decisions := _read_decisions(message, conversation.list_asked(_arrival.get())):
            conversation.task_id = ""
            conversation.state = None
            return await self._runner.aresume(state, decisions, deps=self._deps)
        else:
            await _ask_for_decisions(updater, state.pending)

        return None


async def _report_result(conversation: _Conversation, result: RunResult[Any], updater: TaskUpdater) -> None:
    """Report the result of a run: its task ends, or waits for decisions."""
    if result.is_paused:
        now = time.monotonic()
        earlier = conversation.asked
        conversation.task_id = updater.task_id
        conversation.state = result.state
        conversation.asked = {each.digest: earlier.get(each.digest, now) for each in result.pending}
        await _ask_for_decisions(updater, result.pending)
    elif result.finish_reason == "cancelled":
        await updater.cancel()
    elif result.output is None or result.output == "" or result.finish_reason in ("stopped", "error"):
        await updater.failed(_make_message(updater, f"The run ended without an answer: {result.finish_reason}."))
    else:
        conversation.messages = result.messages
        await updater.add_artifact([new_text_part(f"{result.output}")], name="answer", last_chunk=True)
        await updater.complete()


async def _ask_for_decisions(updater: TaskUpdater, pending: Sequence[PendingApproval]) -> None:
    """Ask for decisions: as text, and as data for programs."""
    calls = "\n".join(f"- {each} {each.reason}".rstrip() for each in pending)
    names = ("arguments", "imports", "agent", "reason")
    data = [
        {"id": each.call.id, "tool": each.call.name, **{name: getattr(each, name) for name in names}}
        for each in pending
    ]
    parts = [new_text_part(QUESTION.format(calls=calls)), new_data_part({"pending": data})]
    await updater.requires_input(updater.new_agent_message(parts))


def _read_decisions(message: WireMessage, pending: Sequence[PendingApproval]) -> dict[str, bool]:
    """Read the decisions on pending calls, from the first part that has data, or says approve or reject."""
    ids = [each.call.id for each in pending]
    for part in message.parts:
        if part.HasField("data"):
            data = MessageToDict(part.data)
            decisions = data.get("decisions") if isinstance(data, dict) else None
            by_id = decisions if isinstance(decisions, dict) else {}
            return {each: by_id[each] for each in ids if isinstance(by_id.get(each), bool)}
        word = ANSWERS.get(part.text.strip().rstrip(".!").lower())
        if word is not None:
            return dict.fromkeys(ids, word)
    return {}


def _make_message(updater: TaskUpdater, text: str) -> WireMessage:
    return updater.new_agent_message([new_text_part(text)])
