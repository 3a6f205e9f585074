"""`ask_user`: a model asks the user a question, and waits for the answer."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeAlias

from annotated_types import MaxLen
from pydantic import StringConstraints

from toolkit._concurrency.async_backend import AsyncBackend
from toolkit._concurrency.backend import call_function
from toolkit._context import ToolContext
from toolkit._guards.options import check_function, check_type
from toolkit._options import check_options
from toolkit._schema.json_text import escape_confusable
from toolkit._tools.decorator import tool
from toolkit._tools.tool import Tool
from toolkit.errors import Failed

logger: logging.Logger = logging.getLogger("toolkit")

MAX_OPTIONS = 50
NO_ANSWER = "No answer was given."
NO_USER = "No user is there to answer. Continue without an answer."

QuestionText = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=4000)]
Option = Annotated[str, StringConstraints(min_length=1, max_length=500)]


@dataclass(frozen=True, kw_only=True)
class Question:
    """A model's question; `str()` of it has the question and then the options, one per line.

    The model writes the texts, and may imitate other text. `str()` escapes them; escape them, too, if you display the
    attributes.

    Attributes:
        text: The question.
        options: Answers that the model suggests; the user may answer something else.
        multi_select: Whether the user may choose several options.
        metadata: The origin: `agent`, and `source`, which is "llm".
        context: Context of the call; it is cancelled once the answer is no longer awaited.
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


# The user's answer: a text, several texts for `multi_select`, or None for no answer.
Answer: TypeAlias = "str | list[str] | None"
Handler: TypeAlias = Callable[[Question], "Answer | Awaitable[Answer]"]


@check_options
def ask_user_tool(handler: Handler, *, agent: str = "assistant") -> Tool[..., Any]:
    """Make `ask_user`, which asks one user one question at a time, even for several runs.

    A call ends with its run, with or without an answer. If the handler raises, the call fails. Raise a ToolError to
    send the model the reason.

    Args:
        handler: A function that asks the user and returns the answer, such as `input`. It may be async; a sync one runs
            on its own thread. If it raises EOFError, the model reads that no user is there.
        agent: Name of the agent, for `Question.metadata`.

    Raises:
        DefinitionError: The handler cannot be called, or `agent` is not text.
    """
    prompt = UserPrompt(check_function("handler", handler), check_type("agent", agent, str))
    return tool(prompt.ask_user, max_parallel=1)


@dataclass(frozen=True)
class UserPrompt:
    """The handler of one user."""

    handler: Handler
    agent: str

    @tool(title="Ask User", effect="read", exclusive=True)
    async def ask_user(
        self,
        question: QuestionText,
        options: Annotated[list[Option], MaxLen(MAX_OPTIONS)] = [],  # noqa: B006  never changed
        *,
        multi_select: bool = False,
        context: ToolContext[Any],
    ) -> str | list[str]:
        """Ask the user a question, if you need clarification, confirmation or more information.

        Args:
            question: The question to ask.
            options: Suggested answers to choose from.
            multi_select: Whether the user may choose several of them; the answer is a JSON array then.
            context: Cancels the wait.
        """
        prompt = Question(
            text=question,
            options=tuple(options),
            multi_select=multi_select,
            metadata={"agent": self.agent, "source": "llm"},
            context=context,
        )
        try:
            answer = await call_function(self.handler, (prompt,), AsyncBackend(), context.cancellation)
        except EOFError:
            logger.warning("No user is there to answer %r", prompt)
            raise Failed(NO_USER) from None
        return _validate_answer(answer, prompt)


def _validate_answer(answer: object, question: Question) -> str | list[str]:
    """Check an answer against the question's options, and return it."""
    if answer is None:
        logger.warning("The handler of ask_user returned None for %r", question)
        raise Failed(NO_ANSWER)
    answers = [answer] if isinstance(answer, str) else answer
    if not isinstance(answers, (list, tuple)) or not all(isinstance(text, str) for text in answers):
        raise TypeError(f"The handler of ask_user must return text, or a list of texts, not {answer!r:.100}.")
    if not "".join(answers).strip() and not (question.multi_select and isinstance(answer, (list, tuple))):
        raise Failed(NO_ANSWER)
    return list(answers) if question.multi_select else "\n".join(answers)
