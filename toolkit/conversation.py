"""The conversation of one run, as a state machine without I/O.

It says what to do next, is told what came of it, and says what to do then:

    next() says              the driver does                  and tells
    CallModel                asks the model                   respond(response)
    RunCalls                 carries the calls out            answer(results)
    Finished                 leaves, if the answer fits       refuse(why), if not

Where it stands is one word, and these are all the ways it can go:

    asking   -> calling      the model has made calls
    asking   -> asking       an empty answer, asked for once more; or a cut one, its calls answered here
    asking   -> finished     an answer; or the limit
    calling  -> asking       every call has its result
    calling  -> finished     the limit, with `on_limit="stop"`
    finished -> asking       an answer that is not what it has to be

What must stay true: each call of a response gets exactly one ToolMessage, in call order, directly after it; ids are
unique in the whole history, whatever the provider sent; no call of a response that was cut is handed out. Nothing here
reads a clock, draws a random number or builds a pydantic model, so a durable workflow can drive it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, count
from typing import TypeAlias

from toolkit.errors import ConversationError, LimitError, RunError
from toolkit.jsontext import is_cut
from toolkit.limits import LAST_TURN, NO_TOOLS_TEXT, Limits
from toolkit.messages import (
    IMAGES_TEXT,
    Message,
    ModelResponse,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from toolkit.state import Phase, RunState

# Finish reasons that mean: there was more to come.
CUT = frozenset({"length", "content_filter"})
CUT_TEXT = "Not run: the answer that held this call was cut off. Send it again, with shorter arguments or fewer calls."


@dataclass(frozen=True)
class CallModel:
    """Ask the model; on a last turn without tools."""

    messages: tuple[Message, ...]
    turn: int
    with_tools: bool


@dataclass(frozen=True)
class RunCalls:
    """Carry these calls out."""

    calls: tuple[ToolCall, ...]
    turn: int


@dataclass(frozen=True)
class Finished:
    """The run is over."""

    output: str
    reason: str


Step: TypeAlias = CallModel | RunCalls | Finished


class Conversation:
    """One run's conversation.

    Args:
        messages: What was said before, ending in what the model shall answer.
        run_id: Makes call ids unique beyond this run.
        limits: How far it may go.

    Attributes:
        refused: Results that the conversation gave itself to calls of the last answer: it was cut, or the last one.
    """

    def __init__(self, messages: Sequence[Message], *, run_id: str, limits: Limits | None = None) -> None:
        self._state = RunState(run_id=run_id, messages=())
        self._limits = limits or Limits()
        self._messages = list(messages)
        self.refused: tuple[ToolMessage, ...] = ()
        self._provider_call_ids = {
            call.provider_call_id for m in self._messages if isinstance(m, ModelResponse) for call in m.calls
        }

    @classmethod
    def restored(cls, state: RunState, limits: Limits | None = None) -> Conversation:
        """Go on where a state was put away."""
        conversation = cls(state.messages, run_id=state.run_id, limits=limits)
        conversation._state = state
        return conversation

    @property
    def state(self) -> RunState:
        """Where the conversation stands, as plain data."""
        return replace(self._state, messages=tuple(self._messages))

    def next(self) -> Step:
        """Say what to do; asking twice without telling gives the same step.

        Raises:
            LimitError: The turns are used up, and `on_limit="raise"`.
        """
        if self._state.phase == "asking" and self._state.turn >= self._limits.turns and not self._state.last:
            self._land()
        state = self._state
        if state.phase == "calling":
            return RunCalls(self._open_calls(), state.turn - 1)
        if state.phase == "finished":
            return Finished(self._output(), state.reason)
        return CallModel(tuple(self._messages), state.turn, not state.last)

    def respond(self, response: ModelResponse) -> ModelResponse:
        """Tell what the model answered, and get it back with ids that are unique in the history.

        Raises:
            ConversationError: The model was not to be asked now.
        """
        self._expect("asking")
        state = self._state
        calls = tuple(self._numbered(call, number) for number, call in enumerate(response.calls, state.calls))
        response = replace(response, calls=calls)
        self._messages.append(response)
        usage = state.usage + response.usage
        self._state = replace(state, turn=state.turn + 1, calls=state.calls + len(calls), usage=usage)
        self._go_on(response)
        return response

    def answer(self, results: Sequence[ToolMessage]) -> None:
        """Tell what came of the calls: one result each, in any order.

        Raises:
            ConversationError: A call has no result or two, or a result belongs to no call.
        """
        self._expect("calling")
        calls = self._open_calls()
        told = _one_each(calls, results)
        self._messages += [
            replace(m, provider_call_id=call.provider_call_id, images=()) for m, call in zip(told, calls)
        ]
        images = tuple(image for message in told for image in message.images)
        self._messages += [UserMessage(IMAGES_TEXT, images)] if images else []  # most providers' tools give text only
        self._state = replace(self._state, phase="asking")

    def refuse(self, why: str, remedy: str = "") -> None:
        """Tell that the last answer is not what it has to be: the model reads why, and is asked again.

        Raises:
            RunError: The model may not be asked again.
        """
        self._expect("finished")
        state, limits = self._state, self._limits
        if state.retries >= limits.output_retries or (limits.on_limit == "stop" and state.turn >= limits.turns):
            raise RunError(f"The run has no answer of its output_type after {state.turn} answers of the model. {why}")
        self._messages.append(UserMessage(f"{why} {remedy}".rstrip()))
        reason = state.reason if state.last else ""
        self._state = replace(state, phase="asking", reason=reason, empty=0, retries=state.retries + 1)

    def _expect(self, phase: Phase) -> None:
        if self._state.phase != phase:
            raise ConversationError(f"The conversation is {self._state.phase}, not {phase}: do what next() says.")

    def _open_calls(self) -> tuple[ToolCall, ...]:
        last = self._messages[-1]
        return last.calls if isinstance(last, ModelResponse) else ()

    def _numbered(self, call: ToolCall, number: int) -> ToolCall:
        """Give a call our id, and a wire id that no other call of the history has."""
        own = f"{self._state.run_id[:8]}_{number}"
        candidates = chain((call.provider_call_id, own), (f"{own}_{again}" for again in count(2)))
        wire = next(wire for wire in candidates if wire.strip() and wire not in self._provider_call_ids)
        self._provider_call_ids.add(wire)
        return replace(call, id=own, provider_call_id=wire)

    def _go_on(self, response: ModelResponse) -> None:
        whole = _is_whole(response)
        if response.calls and whole and not self._state.last:
            self._state = replace(self._state, phase="calling", empty=0)
            self.refused = ()
            return
        why = NO_TOOLS_TEXT if whole else CUT_TEXT
        self.refused = tuple(
            ToolMessage(
                call_id=call.id, provider_call_id=call.provider_call_id, name=call.name, text=why, is_error=True
            )
            for call in response.calls
        )
        self._messages += self.refused
        self._end_or_ask_again(response)

    def _end_or_ask_again(self, response: ModelResponse) -> None:
        state, reason = self._state, _reason(response)
        if state.last:
            self._state = replace(state, phase="finished")
        elif response.calls:  # cut: the model may send them again, within its turns
            self._state = replace(state, empty=0)
        elif reason == "empty" and state.empty == 0:
            self._messages.pop()
            self._state = replace(state, empty=1)
        else:
            self._state = replace(state, phase="finished", reason=reason)

    def _land(self) -> None:
        """Come to the end of the turns: ask for a last answer, or stop."""
        if self._limits.on_limit == "raise":
            used = f"The run has used its {self._limits.turns} turns."
            raise LimitError(f"{used} Raise max_turns, or let it end with an answer.")
        if self._limits.on_limit == "stop":
            self._state = replace(self._state, phase="finished", reason="max_turns")
            return
        self._messages.append(UserMessage(LAST_TURN))
        self._state = replace(self._state, last=True, reason="max_turns")

    def _output(self) -> str:
        last = next((m for m in reversed(self._messages) if isinstance(m, ModelResponse)), None)
        return last.text if last else ""


def _one_each(calls: Sequence[ToolCall], results: Sequence[ToolMessage]) -> list[ToolMessage]:
    """Put results in the order of their calls."""
    by_id = {result.call_id: result for result in results}
    due, given = [call.id for call in calls], [result.call_id for result in results]
    if sorted(due) != sorted(given):
        raise ConversationError(f"Each of the calls {due} needs one result; there are results for {given}.")
    return [by_id[call_id] for call_id in due]


def _is_whole(response: ModelResponse) -> bool:
    return response.finish_reason not in CUT and not any(is_cut(call.arguments) for call in response.calls)


def _reason(response: ModelResponse) -> str:
    """Say why an answer ended: servers have many words for one that is whole."""
    if response.finish_reason in CUT:
        return response.finish_reason
    return "stop" if response.text.strip() else "empty"
