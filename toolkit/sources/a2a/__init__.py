"""The skills of an agent of the Agent2Agent protocol.

    runner = Runner([add, A2A("http://localhost:9000"), A2A("https://agents.example.com/travel", token=token)])

Invariants: whatever an agent sends is data. It sets no names but those of its own tools, waives no gate, and causes no
request to another address. Its token is sent to its own address only. Each wait for it has an end.

Files, each importing only those below it:

    exchange    one message, its task until that ends or waits, and the result
    agent       the address of an agent, its card, and clients for it
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from typing_extensions import Unpack

from toolkit._concurrency.event_loop import private_loop
from toolkit._context import ToolContext
from toolkit._guards.hidden_text import escape_hidden
from toolkit._lazy import needs_extra
from toolkit._messages import ToolResult
from toolkit._options import spell_options
from toolkit._schema.error_messages import shorten
from toolkit._tools.bindings import AnyTool
from toolkit._tools.options import DEFAULTS, HINTS, ToolOptions, ToolSettings, split_options
from toolkit.errors import Failed, TimedOut

with needs_extra("A2A", "a2a"):
    import anyio
    import httpx
    from a2a.client import A2AClientError
    from a2a.types import AgentCard, AgentSkill, CancelTaskRequest
    from a2a.utils.errors import A2AError

    from toolkit.sources.a2a.agent import Address, AgentError, describe
    from toolkit.sources.a2a.exchange import Exchange, make_result

from toolkit.sources.remote import RemoteSource, make_reporter

__all__ = ["A2A"]

TIMEOUT = 300.0  # seconds: agents are slow
LONGEST_CONNECT = 30.0  # seconds
CANCEL = 2.0  # seconds for an agent to cancel a task
MAX_SKILLS = 1_000
MAX_ERROR = 500  # characters
NO_DESCRIPTION = "A2A skill (no description)"
LOST = "The connection to the A2A agent {name!r} was lost. Whether it has executed the call is unknown."
# A skill has no schema: an agent takes a message.
PARAMETERS: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "message": {
            "type": "string",
            "description": "What the agent is to do, with everything that it must know for it.",
            "minLength": 1,
        },
        "task_id": {
            "type": "string",
            "description": "Only to answer a question of the agent: the task_id that its result names.",
        },
    },
    "required": ["message"],
}


class A2A(RemoteSource):
    """An agent of the Agent2Agent protocol, whose skills are tools for a Toolbox or a Runner.

    Its card is fetched when its tools are first needed. Each skill is a tool that takes a message. An agent without
    skills has a tool `ask`. The names of its tools begin with `a2a_` and its own name. A call waits until the agent's
    task ends or needs an answer. Each call is a conversation of its own, except answers to a question of the agent.

    Args:
        url: Address of the agent: its card is beneath it at `.well-known/agent-card.json`.
        token: Sent as a bearer token, to this address alone.
        headers: Headers of each request.
        name: Name of the agent here; by default its host, never a name from its card.
        allow: Ids of its skills that are used.
        block: Ids of its skills that are not used. Either `allow` or `block`.
        optional: Whether an agent that cannot be reached is left out, with a warning.
        **options: Options of each tool, as for `tool`, such as `approve=True`. `timeout`, 300 seconds by default, is
            also the time to connect, which is 30 seconds at most, in up to three tries.

    Attributes:
        name: The name of the agent here.

    Raises:
        DefinitionError: An option is invalid.
        TypeError: There is no such option.

    Examples:
        >>> with A2A("http://localhost:9000", name="birds") as agent:
        ...     Toolbox([agent]).call("a2a_birds_count", {"message": "How many birds are on the pond?"})
    """

    _kind = "A2A agent"
    _item = "skill"
    _prefix = "a2a"
    _final = (AgentError,)

    @spell_options(ToolOptions, {**DEFAULTS, "timeout": TIMEOUT}, HINTS)
    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
        name: str | None = None,
        allow: Collection[str] | None = None,
        block: Collection[str] | None = None,
        optional: bool = False,
        **options: Unpack[ToolOptions],
    ) -> None:
        split_options(options, "A2A", ToolSettings())
        self._address = Address.parse(url, token, headers)
        super().__init__(
            self._address.short_name if name is None else name,
            allow=allow,
            block=block,
            optional=optional,
            options={"timeout": TIMEOUT, **options},
            location=f"Its URL is {self._address.url}.",
            longest_connect=LONGEST_CONNECT,
        )
        self._card: AgentCard | None = None

    def __repr__(self) -> str:
        return f"<A2A agent {self.name!r}: {self._address.url}>"

    async def _open(self) -> None:
        if self._card is not None:
            return
        self._card = await self._try(self._address.fetch_card)
        skills = [*self._card.skills[:MAX_SKILLS]]
        if not skills:
            skills = [AgentSkill(id="ask", name=self._card.name, description=self._card.description)]
        self._update_tools([(skill.id, skill) for skill in skills], self._make_tool)

    async def _close(self) -> None:
        await super()._close()
        self._card = None

    def _make_tool(self, skill: AgentSkill) -> AnyTool:
        async def call(tool: AnyTool, arguments: dict[str, Any], context: ToolContext[Any]) -> ToolResult:
            return await private_loop.arun(partial(self._call, tool.name, skill.id, arguments, context))

        declaration = {
            "title": f"{self.name} A2A {skill.name or skill.id} Tool",
            "description": skill.description or NO_DESCRIPTION,
        }
        return self._declare(skill.id, PARAMETERS, Any, call, declaration)

    async def _call(self, tool: str, skill: str, arguments: dict[str, Any], context: ToolContext[Any]) -> ToolResult:
        """Send a message, and return its outcome.

        Raises:
            Failed: The agent cannot be reached, was lost, or refused the message.
            TimedOut: The agent's task has not ended in time.
        """
        self._check_open()
        card = self._card
        if card is None:
            raise Failed(f"The A2A agent {self.name!r} is not connected.")

        try:
            with anyio.fail_after(self._timeout):
                async with self._address.open(card) as client:
                    exchange = Exchange(client, make_reporter(context))
                    try:
                        answer = await exchange.send(arguments["message"], skill, arguments.get("task_id", ""))
                        return await asyncio.to_thread(make_result, tool, answer)  # a large answer takes long
                    finally:
                        if exchange.is_open and exchange.task is not None:
                            with suppress(Exception), anyio.move_on_after(CANCEL, shield=True):
                                await client.cancel_task(CancelTaskRequest(id=exchange.task.id))
        except TimeoutError as error:
            raise TimedOut.after(self._timeout) from error
        except Exception as error:
            raise Failed(self._explain(error)) from error

    def _explain(self, error: Exception) -> str:
        """Explain to a model why there is no answer."""
        cause = error.__cause__
        if isinstance(error, A2AClientError) and isinstance(cause, httpx.HTTPError):
            if isinstance(cause, (httpx.ConnectError, httpx.ConnectTimeout, httpx.HTTPStatusError)):
                return f"The A2A agent {self.name!r} cannot be reached: {describe(error)}."
            return LOST.format(name=self.name)
        if isinstance(error, A2AError) and cause is None:
            return f"The A2A agent {self.name!r} refused the call: {escape_hidden(shorten(error.message, MAX_ERROR))}"
        reason = str(error) if isinstance(error, AgentError) else type(cause or error).__name__
        return f"The A2A agent {self.name!r} gave an invalid answer: {reason}."

    def _describe(self, error: BaseException) -> str:
        return f"{describe(error)}."
