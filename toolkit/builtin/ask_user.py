"""`ask_user`: a model asks a person, and waits for the answer."""

from __future__ import annotations

import logging
import threading
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeAlias

from annotated_types import MaxLen
from pydantic import StringConstraints

from toolkit._concurrency.async_backend import AsyncBackend
from toolkit._concurrency.backend import call_function, is_async
from toolkit._context import ToolContext
from toolkit._schema.json_text import escape_confusable
from toolkit._tools.decorator import tool
from toolkit._tools.tool import Tool
from toolkit.errors import DefinitionError, Failed

logger = logging.getLogger("toolkit")

MAX_OPTIONS = 50
# So many sync handlers may be at work; each of them holds a thread until it ends.
MAX_OPEN = 64
NO_ANSWER = "No answer was given."
NOBODY = "Nobody is there to answer. Go on without an answer."
BUSY = "Too many earlier questions still wait for an answer. Go on without one."

Asked = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=4000)]
Option = Annotated[str, StringConstraints(min_length=1, max_length=500)]


@dataclass(frozen=True, kw_only=True)
class Question:
    """What a model asks; as a text, it is what a person is to read: the question, then the options, one a line.

    Its texts are the model's: where you show them yourself, escape them as that text does.

    Attributes:
        text: The question.
        options: Answers that the model suggests; a person may say something else.
        multi_select: Whether several of them may be chosen.
        metadata: Who asks: `agent`, and `source`, which is "llm".
        context: Of the call; its `cancelled` tells that nobody waits for the answer any more.
    """

    text: str
    options: tuple[str, ...] = ()
    multi_select: bool = False
    metadata: Mapping[str, str] = field(default_factory=dict)
    context: ToolContext[Any] = field(repr=False, compare=False)

    def __str__(self) -> str:
        lines = (
            escape_confusable(self.text, keep="\n"),
            *(f"- {escape_confusable(option)}" for option in self.options),
        )
        return "\n".join((*lines, ""))


# Gives what the person said: a text, or several where several may be chosen, or None.
Answer: TypeAlias = "str | list[str] | None"
Handler: TypeAlias = Callable[[Question], "Answer | Awaitable[Answer]"]


def ask_user_tool(handler: Handler, *, agent: str = "assistant", timeout: float | None = None) -> Tool[..., Any]:
    """Make `ask_user`, which puts a model's questions to a person, one after the other, whichever runs ask.

    A call ends with its run, whether there is an answer or not. What the handler raises is a failure of the call;
    raise a ToolError to tell the model why there is no answer.

    Args:
        handler: Asks the person, and gives the answer; sync, on a thread of its own, or async. `input` is one.
            An EOFError of it means that nobody is there.
        agent: Who asks, for `Question.metadata`.
        timeout: Seconds for an answer, from when the question is put; as long as the run by default.

    Raises:
        DefinitionError: The handler cannot be called, or `timeout` is no time.
    """
    if not callable(handler):
        raise DefinitionError(f"ask_user_tool: handler={handler!r} is no function of a Question, sync or async.")

    made = tool(Asking(handler, agent, threading.Semaphore(MAX_OPEN)).ask_user, max_parallel=1)
    return made if timeout is None else tool(made, timeout=timeout)


@dataclass(frozen=True)
class Asking:
    """Asks one person."""

    handler: Handler
    agent: str
    places: threading.Semaphore

    @tool(title="Ask User", effect="read", exclusive=True)
    async def ask_user(
        self,
        question: Asked,
        options: Annotated[list[Option], MaxLen(MAX_OPTIONS)] = [],  # noqa: B006  never changed
        *,
        multi_select: bool = False,
        context: ToolContext[Any],
    ) -> str | list[str]:
        """Ask the user a question, when you need clarification, confirmation or more information to go on.

        Args:
            question: The question to ask.
            options: Suggested answers to choose from.
            multi_select: Whether the user may choose several of them; the answer is a JSON array then.
            context: Ends the wait.
        """
        asked = Question(
            text=question,
            options=tuple(options),
            multi_select=multi_select,
            metadata={"agent": self.agent, "source": "llm"},
            context=context,
        )
        return _checked(await self._answer(asked), asked)

    async def _answer(self, question: Question) -> object:
        handler = self.handler if is_async(self.handler) else self._placed
        try:
            return await call_function(handler, (question,), AsyncBackend(), question.context.cancellation)
        except EOFError:
            logger.warning("Nobody is there to answer %r", question)
            raise Failed(NOBODY) from None

    def _placed(self, question: Question) -> Any:
        """Ask on this thread, which nobody can end when the question is given up."""
        if not self.places.acquire(blocking=False):
            raise Failed(BUSY)
        try:
            return self.handler(question)
        finally:
            self.places.release()


def _checked(answer: object, asked: Question) -> str | list[str]:
    """Make an answer of the form that was asked for.

    Raises:
        Failed: There is none.
        TypeError: It is none.
    """
    if answer is None:
        logger.warning("The handler of ask_user gave None to %r", asked)
        raise Failed(NO_ANSWER)
    said = [answer] if isinstance(answer, str) else answer
    if not isinstance(said, (list, tuple)) or not all(isinstance(text, str) for text in said):
        raise TypeError(f"The handler of ask_user answers with a text, or several in a list, not {answer!r:.100}.")
    if asked.multi_select:
        return list(said)
    return "\n".join(said)
