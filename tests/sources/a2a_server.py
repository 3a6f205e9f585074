"""Agents of the a2a package, and a server for any app: each message of the client says what the agent does."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

from a2a.helpers import new_data_part, new_task_from_user_message, new_text_message, new_text_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill, Part
from starlette.applications import Starlette


class Executor(AgentExecutor):
    """Does what the message says."""

    def __init__(self) -> None:
        self.cancelled = list[str]()
        self.messages = list[Any]()
        self.started = threading.Event()

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Run."""
        text, message = context.get_user_input(), context.message
        assert message is not None
        self.messages.append(message)
        if text.startswith("say "):
            await event_queue.enqueue_event(new_text_message(text[4:], context_id=context.context_id))
            return
        if context.current_task is None:
            await event_queue.enqueue_event(new_task_from_user_message(message))
        updater = TaskUpdater(event_queue, f"{context.task_id}", f"{context.context_id}")
        await updater.start_work(new_text_message("on it"))
        self.started.set()
        await self.work(text, updater, is_continued=context.current_task is not None)

    async def work(self, text: str, updater: TaskUpdater, *, is_continued: bool) -> None:  # noqa: C901  one branch for each word
        """Do what a word says."""
        if text == "more":
            await updater.add_artifact([new_text_part("more ")], artifact_id="a", append=is_continued)
            await updater.requires_input(new_text_message("More?"))
            return
        if text == "hang":
            await asyncio.sleep(60)
        if text == "raise":
            raise ValueError("the secret is 42")
        if text == "fail":
            await updater.failed(new_text_message("no birds"))
        elif text == "reject":
            await updater.reject(new_text_message("not my job"))
        elif text == "auth":
            await updater.requires_auth(new_text_message("sign in at example.org"))
        elif text == "ask":
            await updater.requires_input(new_text_message("Which pond?"))
        else:
            if text == "parts":
                parts = [
                    new_text_part("look"),
                    new_data_part({"birds": 7, "ratio": 0.5}),
                    Part(raw=b"\x89PNG\r\n", media_type="image/png", filename="a.png"),
                    Part(raw=b"%PDF", media_type="application/pdf", filename="a.pdf"),
                    Part(raw=b"?", media_type="no type", filename="odd"),
                    Part(url="http://127.0.0.1:9/manual", filename="manual"),
                ]
                await updater.add_artifact(parts, name="all")
            elif text == "pieces":
                for number, piece in enumerate(["Seven ", "birds", " fly."]):
                    await updater.add_artifact([new_text_part(piece)], artifact_id="a", append=number > 0)
            elif text == "slow":
                await asyncio.sleep(0.6)
                await updater.add_artifact([new_text_part("slowly done")])
            elif text != "nothing":
                await updater.add_artifact([new_text_part(f"{'answer' if is_continued else 'echo'}: {text}")])
            await updater.complete(new_text_message("bye") if text == "both" else None)

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Remember it."""
        self.cancelled.append(f"{context.task_id}")
        await TaskUpdater(event_queue, f"{context.task_id}", f"{context.context_id}").cancel()


SKILLS = [
    AgentSkill(id="count", name="Bird counter", description="Counts birds.", tags=["birds"]),
    AgentSkill(id="draw.birds", name="Painter", description="Draws birds.", tags=["birds"]),
]


class Agent:
    """An app of the a2a package, which learns its address when it is served."""

    def __init__(self, *, streaming: bool = True, version: str = "1.0", skills: Any = SKILLS, url: str = "") -> None:
        self.executor, self.requests = Executor(), list[tuple[str, dict[str, str]]]()
        self._card = AgentCard(
            name="The Birds",
            description="Knows all about birds.",
            version="1",
            supported_interfaces=[AgentInterface(url=url, protocol_binding="JSONRPC", protocol_version=version)],
            capabilities=AgentCapabilities(streaming=streaming),
            default_input_modes=["text/plain"],
            default_output_modes=["text/plain"],
            skills=skills,
        )
        self._url, self._app = url, None

    def _make(self, host: str) -> Any:
        self._card.supported_interfaces[0].url = self._url or f"http://{host}/rpc"
        handler = DefaultRequestHandler(
            agent_executor=self.executor, task_store=InMemoryTaskStore(), agent_card=self._card
        )
        routes = [
            *create_agent_card_routes(self._card),
            *create_jsonrpc_routes(handler, "/rpc", enable_v0_3_compat=True),
        ]
        return Starlette(routes=routes)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve."""
        if scope["type"] == "http":
            headers = {name.decode(): value.decode() for name, value in scope["headers"]}
            self._app = self._app or self._make(headers["host"])
            self.requests.append((scope["path"], headers))
        if self._app is not None:
            await self._app(scope, receive, send)


def make_card(url: str = "http://127.0.0.1:9/rpc", version: str = "1.0", **changes: Any) -> dict[str, Any]:
    """Write a card as JSON."""
    return {
        "name": "liar",
        "description": "Lies.",
        "version": "1",
        "supportedInterfaces": [{"url": url, "protocolBinding": "JSONRPC", "protocolVersion": version}],
        "capabilities": {"streaming": False},
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "skills": [{"id": "count", "name": "Count", "description": "Counts.", "tags": []}],
        **changes,
    }


class Liar:
    """An app that answers a method by what a table says: a result, or bytes as they are."""

    def __init__(self, answers: dict[str, Any], **card: Any) -> None:
        self.answers, self.card = answers, card
        self.methods = list[str]()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve."""
        if scope["type"] != "http":
            return
        host = dict(scope["headers"])[b"host"].decode()
        if scope["method"] == "GET":
            answer = self.answers.get("card", make_card(f"http://{host}/rpc", **self.card))
            await self.reply(answer, send)
            return
        body = b""
        while (message := await receive()).get("more_body") or message.get("body"):
            body += message["body"]
            if not message.get("more_body"):
                break
        request = json.loads(body)
        self.methods.append(request["method"])
        answer = self.answers[request["method"]]
        if callable(answer):
            answer = answer(request["params"])
        if isinstance(answer, list):
            await self.stream(answer, request["id"], send)
        elif isinstance(answer, dict) and "error" not in answer:
            await self.reply({"jsonrpc": "2.0", "id": request["id"], "result": answer}, send)
        elif isinstance(answer, dict):
            await self.reply({"jsonrpc": "2.0", "id": request["id"], **answer}, send)
        else:
            await self.reply(answer, send)

    async def reply(self, answer: Any, send: Any) -> None:
        """Send an answer; a number is a status, None no answer at all."""
        if answer is None:
            await asyncio.sleep(60)
        status = answer if isinstance(answer, int) else 200
        headers = [(b"content-type", b"application/json"), (b"location", b"http://127.0.0.1:9/elsewhere")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        await send({"type": "http.response.body", "body": body})

    async def stream(self, events: list[Any], request: Any, send: Any) -> None:
        """Send events; None hangs, a number repeats the event before it."""
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
        for event in events:
            if event is None:
                await asyncio.sleep(60)
            if event == "die":
                raise OSError
            text = json.dumps({"jsonrpc": "2.0", "id": request, "result": event})
            await send({"type": "http.response.body", "body": f"data: {text}\n\n".encode(), "more_body": True})
        await send({"type": "http.response.body", "body": b""})
