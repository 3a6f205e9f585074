"""The conversation of one run, as a state machine without I/O.

It says what to do next, is told what came of it, and says what to do then:

    next() says              the driver does                  and tells
    CallModel                asks the model                   charge(response), respond(response)
    RunCalls                 carries the calls out            answer(results, pending)
    Paused                   puts the state away              resume(), once there are decisions
    Finished                 leaves, if the answer fits       refuse(why), if not; say(messages), if there is more

Where it stands is one word, and these are all the ways it can go:

    asking   -> calling      the model has made calls
    asking   -> asking       an empty answer, asked for once more; or a cut one, its calls answered here; or the user
                             says something
    asking   -> finished     an answer; or a limit
    calling  -> asking       every call has its result
    calling  -> paused       calls wait for somebody's yes, others perhaps for their results
    paused   -> calling      there are decisions
    finished -> asking       an answer that is not what it has to be; or the user says something
    any      -> finished     end(reason): cancelled, stopped, answered by a tool

What must stay true: each call of a response gets exactly one ToolMessage, in call order, directly after it; ids are
unique in the whole history, whatever the provider sent; no call of a response that was cut is handed out. Nothing here
reads a clock, draws a random number or builds a pydantic model, so a durable workflow can drive it.

Which calls of an answer are not carried out, and what the model is told instead.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from toolkit._messages import (
    REASONS_WITHOUT_ANSWER,
    Message,
    ModelResponse,
    PendingApproval,
    ToolCall,
    ToolMessage,
    UserMessage,
    collect_attachments,
)
from toolkit._runner.limits import LAST_TURN, NO_TOOLS_TEXT, Limits
from toolkit._runner.state import (
    CallIds,
    CallModel,
    Finished,
    Paused,
    Phase,
    RunCalls,
    RunState,
    Step,
    answered_calls,
    last_calls,
    open_calls,
)
from toolkit._schema.json_text import is_truncated
from toolkit.errors import ConversationError, LimitError, RunError

# Finish reasons that mean: there was more to come.
CUT = frozenset({"length", "content_filter"})
CUT_TEXT = "Not run: the answer that held this call was cut off. Send it again, with shorter arguments or fewer calls."
CANCELLED_TEXT = "Cancelled"
LATE_TEXT = "Not run: the run's time is up."
STOPPED_TEXT = "Not run: the run was stopped."
# Word for word as users of earlier agent loops know it.
SKIPPED_TEXT = "Skipped due to queued user message."


def is_whole(response: ModelResponse) -> bool:
    """Tell whether all of an answer has arrived; servers give cut ones other names, too."""
    return response.finish_reason not in CUT and not any(is_truncated(call.arguments) for call in response.calls)


def reason_of(response: ModelResponse) -> str:
    """Say why an answer without calls ended: servers have many words for one that is whole."""
    if response.finish_reason in CUT:
        return response.finish_reason
    return "stop" if response.text.strip() else "empty"


def refusal_of(call: ToolCall, why: str) -> ToolMessage:
    """Answer a call that is not carried out."""
    return ToolMessage(call_id=call.id, provider_call_id=call.provider_call_id, name=call.name, text=why, is_error=True)


class CallCounter:
    """Counts the calls of a run, from any thread: the model's, and those that a call of it makes in turn.

    Args:
        limits: How many there may be.
        used: How many there were before, by tool.
    """

    def __init__(self, limits: Limits, used: Mapping[str, int]) -> None:
        self._limits = limits
        self._used = Counter[str](used)
        self._lock = threading.Lock()

    @property
    def used(self) -> Mapping[str, int]:
        """How many calls were counted, by tool."""
        with self._lock:
            return dict(self._used)

    def count(self, name: str, number: int) -> str:
        """Count a call; or say why it is one too many.

        Args:
            name: The tool's.
            number: Which call of its answer it is, or which step of its plan, from 0.
        """
        with self._lock:
            why = _over(number, self._used.total(), self._used[name], name, self._limits)
            if not why:
                self._used[name] += 1
            return why

    def may_refuse(self, name: str, position: int) -> bool:
        """Tell whether a call may be one too many, whichever calls of its answer stand before it."""
        used = self.used
        return bool(_over(position, sum(used.values()) + position, used.get(name, 0) + position, name, self._limits))


def refused_by_limits(response: ModelResponse, tally: CallCounter, *, last: bool) -> tuple[ToolMessage, ...]:
    """Count the calls of an answer that run, and answer the others."""
    if last or not is_whole(response):
        why = NO_TOOLS_TEXT if is_whole(response) else CUT_TEXT
        return tuple(refusal_of(call, why) for call in response.calls)
    counted = [(call, tally.count(call.name, number)) for number, call in enumerate(response.calls)]
    return tuple(refusal_of(call, why) for call, why in counted if why)


def _over(number: int, total: int, of_tool: int, name: str, limits: Limits) -> str:
    """Say why a call is one too many; nothing where it is not.

    Args:
        number: Which call of its answer it is, from 0.
        total: How many calls the run has carried out before it.
        of_tool: How many of those were of this tool.
        name: The tool's.
        limits: How many there may be.
    """
    if number >= limits.calls_per_turn:
        return (
            f"Not run: one answer may hold {limits.calls_per_turn} calls. Send this one again later, if it is needed."
        )
    if limits.calls is not None and total >= limits.calls:
        return f"Not run: the run's {limits.calls} calls are used up. Answer with what you have."
    if of_tool >= limits.per_tool.get(name, of_tool + 1):
        return f"Not run: {name} may be called {limits.per_tool[name]} times in a run. Go on without it."
    return ""


class Conversation:
    """One run's conversation.

    Args:
        messages: What was said before, ending in what the model shall answer.
        run_id: Makes call ids unique beyond this run.
        limits: How far it may go.

    Attributes:
        refused: Results that the conversation gave itself to calls of the last answer: it was cut, or the last one, or
            there were too many.
        tally: Counts its calls.
    """

    def __init__(self, messages: Sequence[Message], *, run_id: str, limits: Limits | None = None) -> None:
        self._state = RunState(run_id=run_id, messages=())
        self._limits = limits or Limits()
        self.tally = CallCounter(self._limits, {})
        self._messages = list(messages)
        self.refused: tuple[ToolMessage, ...] = ()
        self._ids = CallIds(run_id, self._messages)

    @classmethod
    def restore(cls, state: RunState, limits: Limits | None = None) -> Conversation:
        """Go on where a state was put away."""
        conversation = cls(state.messages, run_id=state.run_id, limits=limits)
        conversation._state, conversation.tally = state, CallCounter(conversation._limits, state.used)
        return conversation

    @property
    def run_id(self) -> str:
        """What its call ids begin with."""
        return self._state.run_id

    @property
    def hears(self) -> bool:
        """Whether the user can say something to it now: before an answer, or after one that was not the last."""
        is_over = self.limit or self._state.reason in REASONS_WITHOUT_ANSWER
        return self._state.phase in ("asking", "finished") and not is_over

    @property
    def limit(self) -> str:
        """The limit that it has come to; empty where it has come to none."""
        return self._state.reason.removeprefix("max_") if self._state.reason.startswith("max_") else ""

    @property
    def text(self) -> str:
        """The last words of the model in this run."""
        if not self._state.turn:
            return ""
        last = next((m for m in reversed(self._messages) if isinstance(m, ModelResponse)), None)
        return last.text if last else ""

    @property
    def open_calls(self) -> tuple[ToolCall, ...]:
        """The calls of the last answer that have no result."""
        return open_calls(self._messages, self._state.answered)

    @property
    def history(self) -> tuple[Message, ...]:
        """All messages, with the results that are not yet among them."""
        return (*self._messages, *self._state.answered)

    @property
    def state(self) -> RunState:
        """Where the conversation stands, as plain data."""
        return self._state.replace(messages=tuple(self._messages), used=self.tally.used)

    def next(self, seconds: float = 0.0) -> Step:
        """Say what to do; asking twice without telling gives the same step.

        Args:
            seconds: How long the run has taken so far.

        Raises:
            LimitError: A limit is reached, and `on_limit="raise"`.
        """
        state, limits = self._state, self._limits
        if state.phase == "asking" and not state.last:
            calls = sum(self.tally.used.values())
            if bound := limits.used_up(turns=state.turn, calls=calls, usage=state.usage, seconds=seconds):
                self.land(bound)
        return self._step()

    def charge(self, response: ModelResponse) -> None:
        """Tell that the model has answered: what that cost counts, whatever becomes of the answer."""
        self._state = self._state.replace(usage=self._state.usage + response.usage)

    def respond(self, response: ModelResponse) -> ModelResponse:
        """Tell what the model answered, and get it back with ids that are unique in the history.

        Raises:
            ConversationError: The model was not to be asked now.
        """
        self._expect("asking")
        at, state = self._awaited, self._state
        calls = tuple(self._ids.assign(call, number, at) for number, call in enumerate(response.calls, state.calls))
        response = response.replace(calls=calls)
        self._messages.append(response)
        self._state = state.replace(turn=state.turn + 1, calls=state.calls + len(calls))
        self._go_on(response)
        return response

    def foresee(self, call: ToolCall, position: int) -> ToolCall | None:
        """Give a call of an answer that still arrives the id that it will have; None where a limit may refuse it."""
        if self.tally.may_refuse(call.name, position):
            return None
        return self._ids.foreseen(call, self._state.calls + position, self._awaited)

    def answer(self, results: Sequence[ToolMessage], pending: Sequence[PendingApproval] = ()) -> Sequence[ToolMessage]:
        """Tell what came of the calls, in any order; or that some wait for a yes: others may be left out then.

        Returns:
            The results of all calls of the answer, in call order; none while some of them wait.

        Raises:
            ConversationError: A call has no result or two, or a result belongs to no call.
        """
        self._expect("calling")
        due = sorted(call.id for call in self.open_calls)
        given = sorted([*(result.call_id for result in results), *(waiting.call.id for waiting in pending)])
        is_whole = due == given or (pending and {*given} <= {*due} and len({*given}) == len(given))
        if not is_whole:
            raise ConversationError(f"Each of the calls {due} needs one result; there are results for {given}.")
        answered = (*self._state.answered, *results)
        if pending:
            self._state = self._state.replace(phase="paused", answered=answered, pending=tuple(pending))
            return ()
        return self._settle(answered)

    def note(self, results: Sequence[ToolMessage]) -> None:
        """Tell what came of some of the calls, while the others still have no result."""
        self._state = self._state.replace(answered=(*self._state.answered, *results))

    def resume(self) -> None:
        """Tell that there are decisions on the calls that wait.

        Raises:
            ConversationError: None waits.
        """
        self._expect("paused")
        self._state = self._state.replace(phase="calling")

    def say(self, messages: Collection[UserMessage]) -> None:
        """Tell what the user says: in the middle of the run, or after an answer, which then goes on.

        Raises:
            ConversationError: Calls are open, or the run is at its end.
        """
        if not self.hears:
            raise ConversationError(f"The conversation is {self._state.phase}: nothing can be said to it now.")
        self._messages += messages
        self._state = self._state.replace(phase="asking", reason="", output=None, empty=0)

    def refuse(self, why: str, remedy: str = "") -> None:
        """Tell that the last answer is not what it has to be: the model reads why, and is asked again.

        Raises:
            RunError: The model may not be asked again.
        """
        self._expect("finished")
        state, limits = self._state, self._limits
        is_over = limits.on_limit == "stop" and (self.limit or state.turn >= limits.turns)
        if is_over or state.retries >= limits.output_retries:
            raise RunError(f"The run has no answer of its output_type after {state.turn} answers of the model. {why}")
        self._messages.append(UserMessage(f"{why} {remedy}".rstrip()))
        reason = state.reason if state.last else ""
        self._state = state.replace(phase="asking", reason=reason, empty=0, retries=state.retries + 1)

    def land(self, limit: str) -> None:
        """Come to the end of what a limit allows: ask for a last answer, or stop.

        Raises:
            LimitError: `on_limit="raise"`.
        """
        if self._limits.on_limit == "raise":
            usage = f"The run has used its {getattr(self._limits, limit)} {limit.replace('_', ' ')}."
            raise LimitError(f"{usage} Raise Limits({limit}=...), or let the run end with an answer.")
        if self._limits.on_limit == "stop":
            self.end(f"max_{limit}")
            return
        self._messages.append(UserMessage(LAST_TURN))
        self._state = self._state.replace(last=True, reason=f"max_{limit}")

    def end(self, reason: str, output: str | None = None, text: str = CANCELLED_TEXT) -> None:
        """End the run here, whatever its phase; calls without a result get one.

        Args:
            reason: Why.
            output: The answer, where it is not the model's last words.
            text: What the calls without a result are answered with.
        """
        if self._state.phase in ("calling", "paused"):
            open_calls = (refusal_of(call, text) for call in self.open_calls)
            self._settle((*self._state.answered, *open_calls))
        self._state = self._state.replace(phase="finished", reason=reason, output=output)

    def _step(self) -> Step:
        state = self._state
        if state.phase == "calling":
            return RunCalls(self.open_calls, state.turn - 1, answered_calls(self._messages, state.answered))
        if state.phase == "paused":
            return Paused(state.pending)
        if state.phase == "finished":
            return Finished(self.text if state.output is None else state.output, state.reason)
        return CallModel(tuple(self._messages), state.turn, not state.last)

    @property
    def _awaited(self) -> tuple[int, int]:
        """Which answer is awaited: after so many others, behind so many messages."""
        return self._state.turn, len(self._messages)

    def _expect(self, phase: Phase) -> None:
        if self._state.phase != phase:
            raise ConversationError(f"The conversation is {self._state.phase}, not {phase}: do what next() says.")

    def _settle(self, results: Sequence[ToolMessage]) -> Sequence[ToolMessage]:
        """Put the results of all calls into the history, in the order of the calls."""
        by_id = {result.call_id: result for result in results}
        told = [by_id[call.id].replace(provider_call_id=call.provider_call_id) for call in last_calls(self._messages)]
        self._messages += [*told, *collect_attachments(told)]  # most providers' tools give text only
        self._state = self._state.replace(phase="asking", answered=(), pending=())
        return told

    def _go_on(self, response: ModelResponse) -> None:
        state = self._state
        if not response.calls:
            self.refused = ()
            self._end_or_ask_again(response)
            return
        self.refused = refused_by_limits(response, self.tally, last=state.last)
        self._state = state.replace(phase="calling", answered=self.refused, empty=0)
        if len(self.refused) == len(response.calls):
            self._settle(self.refused)
            self._state = self._state.replace(phase="finished" if state.last else "asking")

    def _end_or_ask_again(self, response: ModelResponse) -> None:
        state, reason = self._state, reason_of(response)
        if state.last:
            self._state = state.replace(phase="finished")
        elif reason == "empty" and state.empty == 0:
            self._messages.pop()
            self._state = state.replace(empty=1)
        else:
            self._state = state.replace(phase="finished", reason=reason)
