"""The conversation of one run: a state machine without I/O.

`next()` returns the next step. The driver does it and reports the outcome:

    step         the driver                 and calls
    CallModel    calls the model            add_usage(response), add_response(response)
    RunCalls     runs the calls             add_results(results, pending)
    Paused       saves the state            resume(), once there are decisions
    Finished     returns the answer         reject_answer(why) if it does not fit; add_messages(messages) to go on

The phases, and every transition between them:

    asking   -> calling      the response has calls
    asking   -> asking       an empty response, asked for once more; a truncated one, whose calls are answered here;
                             or new messages of the user
    asking   -> finished     an answer, or a limit
    calling  -> asking       every call has its result
    calling  -> paused       calls wait for approval, and perhaps others for their results
    paused   -> calling      there are decisions
    finished -> asking       an answer that does not fit, or new messages of the user
    any      -> finished     end(reason): cancelled, stopped, answered by a tool

What must stay true: each call of a response gets exactly one ToolMessage, in call order, directly after it; ids are
unique in the whole history, whatever the provider sent; no call of a truncated response runs. Nothing here reads a
clock, draws a random number or builds a pydantic model, so a durable workflow can drive it.
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
    ResponseKey,
    RunCalls,
    RunState,
    Step,
    get_answered_calls,
    get_last_calls,
    get_open_calls,
)
from toolkit._schema.json_text import is_truncated
from toolkit.errors import ConversationError, LimitError, RunError

# Finish reasons of truncated responses.
CUT = frozenset({"length", "content_filter"})
CUT_TEXT = "Not run: the answer that held this call was cut off. Send it again, with shorter arguments or fewer calls."
CANCELLED_TEXT = "Cancelled"
LATE_TEXT = "Not run: the run's time is up."
STOPPED_TEXT = "Not run: the run was stopped."
# Word for word as in earlier agent loops.
SKIPPED_TEXT = "Skipped due to queued user message."


class Conversation:
    """The conversation of one run.

    Args:
        messages: The history, ending in what the model has to answer.
        run_id: Makes call ids unique beyond this run.
        limits: Limits of the run.

    Attributes:
        refusals: Results of those calls of the last response that do not run: it was truncated or the last one, or has
            too many calls.
        call_counter: Counts the calls of the run.
    """

    def __init__(self, messages: Sequence[Message], *, run_id: str, limits: Limits | None = None) -> None:
        self._state = RunState(run_id=run_id, messages=())
        self._limits = limits or Limits()
        self._messages = list(messages)
        self._ids = CallIds(run_id, self._messages)
        self.call_counter = CallCounter(self._limits, {})
        self.refusals: tuple[ToolMessage, ...] = ()

    @classmethod
    def restore(cls, state: RunState, limits: Limits | None = None) -> Conversation:
        """Create a conversation that goes on from a saved state."""
        conversation = cls(state.messages, run_id=state.run_id, limits=limits)
        conversation._state = state
        conversation.call_counter = CallCounter(conversation._limits, state.calls_by_tool)
        return conversation

    @property
    def run_id(self) -> str:
        """The run's id; call ids begin with it."""
        return self._state.run_id

    @property
    def state(self) -> RunState:
        """The state of the run, as plain data."""
        return self._state.replace(messages=tuple(self._messages), calls_by_tool=self.call_counter.by_tool)

    @property
    def limit(self) -> str:
        """Name of the limit that was reached; empty when none was."""
        return self._state.finish_reason if self._state.finish_reason.startswith("max_") else ""

    @property
    def text(self) -> str:
        """Text of the last response of this run."""
        if not self._state.turns:
            return ""
        last = next((m for m in reversed(self._messages) if isinstance(m, ModelResponse)), None)
        return last.text if last else ""

    @property
    def open_calls(self) -> tuple[ToolCall, ...]:
        """The calls of the last response that have no result."""
        return get_open_calls(self._messages, self._state.results)

    @property
    def history(self) -> tuple[Message, ...]:
        """All messages, with the results that are not yet among them."""
        return (*self._messages, *self._state.results)

    @property
    def may_add_messages(self) -> bool:
        """Whether the user may add messages now: before a response, or after an answer that was not the last."""
        is_over = self.limit or self._state.finish_reason in REASONS_WITHOUT_ANSWER
        return self._state.phase in ("asking", "finished") and not is_over

    def next(self, seconds: float = 0.0) -> Step:
        """Return the next step; a second call without a report in between returns the same one.

        Args:
            seconds: How long the run has taken so far.

        Raises:
            LimitError: A limit is reached, and `on_limit="raise"`.
        """
        state = self._state
        if state.phase == "asking" and not state.is_last_turn:
            calls = sum(self.call_counter.by_tool.values())
            limit = self._limits.find_reached(turns=state.turns, calls=calls, usage=state.usage, seconds=seconds)
            if limit:
                self.reach_limit(limit)
        state = self._state
        if state.phase == "calling":
            return RunCalls(self.open_calls, state.turns - 1, get_answered_calls(self._messages, state.results))
        if state.phase == "paused":
            return Paused(state.pending)
        if state.phase == "finished":
            return Finished(self.text if state.output is None else state.output, state.finish_reason)
        return CallModel(tuple(self._messages), state.turns, not state.is_last_turn)

    def add_usage(self, response: ModelResponse) -> None:
        """Count what a response cost, whatever becomes of it."""
        self._state = self._state.replace(usage=self._state.usage + response.usage)

    def add_response(self, response: ModelResponse) -> ModelResponse:
        """Add the model's response, and return it with call ids that are unique in the history.

        Raises:
            ConversationError: No response is due.
        """
        self._expect("asking")
        key, state = self._next_response_key, self._state
        calls = tuple(
            self._ids.assign(call, number, key) for number, call in enumerate(response.calls, state.call_count)
        )
        response = response.replace(calls=calls)
        self._messages.append(response)
        self._state = state.replace(turns=state.turns + 1, call_count=state.call_count + len(calls))
        if response.calls:
            self._open_calls(response)
        else:
            self._finish_or_retry(response)
        return response

    def _open_calls(self, response: ModelResponse) -> None:
        state = self._state
        self.refusals = apply_limits(response, self.call_counter, last=state.is_last_turn)
        self._state = state.replace(phase="calling", results=self.refusals, empty_responses=0)
        if len(self.refusals) == len(response.calls):
            self._close_calls(self.refusals)
            self._state = self._state.replace(phase="finished" if state.is_last_turn else "asking")

    def _finish_or_retry(self, response: ModelResponse) -> None:
        self.refusals = ()
        state, reason = self._state, infer_finish_reason(response)
        if state.is_last_turn:
            self._state = state.replace(phase="finished")
        elif reason == "empty" and state.empty_responses == 0:
            self._messages.pop()
            self._state = state.replace(empty_responses=1)
        else:
            self._state = state.replace(phase="finished", finish_reason=reason)

    def reserve_id(self, call: ToolCall, position: int) -> ToolCall | None:
        """Return a call of a response that is still arriving with its later id; None if a limit may refuse it."""
        if self.call_counter.may_refuse(call.name, position):
            return None
        return self._ids.reserve(call, self._state.call_count + position, self._next_response_key)

    def add_results(
        self, results: Sequence[ToolMessage], pending: Sequence[PendingApproval] = ()
    ) -> Sequence[ToolMessage]:
        """Add the results of the open calls, in any order. With `pending`, further calls may be left out.

        Returns:
            The results of all calls of the response, in call order; none while some are pending.

        Raises:
            ConversationError: A call has no result or two, or a result belongs to no call.
        """
        self._expect("calling")
        due = sorted(call.id for call in self.open_calls)
        given = sorted([*(result.call_id for result in results), *(waiting.call.id for waiting in pending)])
        is_complete = due == given or (pending and {*given} <= {*due} and len({*given}) == len(given))
        if not is_complete:
            raise ConversationError(f"Each of the calls {due} needs one result; there are results for {given}.")
        results = (*self._state.results, *results)
        if pending:
            self._state = self._state.replace(phase="paused", results=results, pending=tuple(pending))
            return ()
        return self._close_calls(results)

    def record_results(self, results: Sequence[ToolMessage]) -> None:
        """Record results of some of the open calls, while the others still have none."""
        self._state = self._state.replace(results=(*self._state.results, *results))

    def resume(self) -> None:
        """Go on after a pause, with decisions on the pending calls.

        Raises:
            ConversationError: No call is pending.
        """
        self._expect("paused")
        self._state = self._state.replace(phase="calling")

    def add_messages(self, messages: Collection[UserMessage]) -> None:
        """Add messages of the user during the run, or after an answer, from which the run then goes on.

        Raises:
            ConversationError: Calls are open, or the run is over.
        """
        if not self.may_add_messages:
            raise ConversationError(f"The conversation is {self._state.phase}: no message can be added now.")
        self._messages += messages
        self._state = self._state.replace(phase="asking", finish_reason="", output=None, empty_responses=0)

    def reject_answer(self, why: str, remedy: str = "") -> None:
        """Send the last answer back to the model with the reason why it does not fit.

        Raises:
            RunError: No further answer may be asked for.
        """
        self._expect("finished")
        state, limits = self._state, self._limits
        is_over = limits.on_limit == "stop" and (self.limit or state.turns >= limits.max_turns)
        if is_over or state.output_retries >= limits.max_output_retries:
            raise RunError(f"The run has no answer of its output_type after {state.turns} answers of the model. {why}")
        self._messages.append(UserMessage(f"{why} {remedy}".rstrip()))
        reason = state.finish_reason if state.is_last_turn else ""
        retries = state.output_retries + 1
        self._state = state.replace(phase="asking", finish_reason=reason, empty_responses=0, output_retries=retries)

    def reach_limit(self, limit: str) -> None:
        """Ask for a last answer, end the run, or raise, as `on_limit` says.

        Raises:
            LimitError: `on_limit="raise"`.
        """
        if self._limits.on_limit == "raise":
            reached = f"The run has reached {limit}={getattr(self._limits, limit)}."
            raise LimitError(f"{reached} Raise Limits({limit}=...), or let the run end with an answer.")
        if self._limits.on_limit == "stop":
            self.end(limit)
            return
        self._messages.append(UserMessage(LAST_TURN))
        self._state = self._state.replace(is_last_turn=True, finish_reason=limit)

    def end(self, reason: str, output: str | None = None, text: str = CANCELLED_TEXT) -> None:
        """End the run, whatever its phase.

        Args:
            reason: The finish reason.
            output: The answer, where it is not the text of the last response.
            text: Result of the calls that have none.
        """
        if self._state.phase in ("calling", "paused"):
            self._close_calls((*self._state.results, *(refuse_call(call, text) for call in self.open_calls)))
        self._state = self._state.replace(phase="finished", finish_reason=reason, output=output)

    @property
    def _next_response_key(self) -> ResponseKey:
        return self._state.turns, len(self._messages)

    def _expect(self, phase: Phase) -> None:
        if self._state.phase != phase:
            raise ConversationError(f"The conversation is {self._state.phase}, not {phase}: do the step of next().")

    def _close_calls(self, results: Sequence[ToolMessage]) -> Sequence[ToolMessage]:
        """Add the results of all calls to the history, in call order."""
        by_id = {result.call_id: result for result in results}
        calls = get_last_calls(self._messages)
        results = [by_id[call.id].replace(provider_call_id=call.provider_call_id) for call in calls]
        self._messages += [*results, *collect_attachments(results)]  # most providers take text only from tools
        self._state = self._state.replace(phase="asking", results=(), pending=())
        return results


class CallCounter:
    """Counts the calls of a run: the model's, and those made by a call. Thread-safe.

    Args:
        limits: Limits of the run.
        by_tool: Numbers of earlier calls, by tool.
    """

    def __init__(self, limits: Limits, by_tool: Mapping[str, int]) -> None:
        self._limits = limits
        self._by_tool = Counter[str](by_tool)
        self._lock = threading.Lock()

    @property
    def by_tool(self) -> Mapping[str, int]:
        """Numbers of calls, by tool."""
        with self._lock:
            return dict(self._by_tool)

    def count(self, name: str, position: int) -> str:
        """Count a call, or return the reason why it is refused.

        Args:
            name: Name of the tool.
            position: Position of the call in its response, or of the step in its plan, from 0.
        """
        with self._lock:
            why = self._find_excess(position, self._by_tool.total(), self._by_tool[name], name)
            if not why:
                self._by_tool[name] += 1
            return why

    def may_refuse(self, name: str, position: int) -> bool:
        """Return whether a call may be refused, if all before it in its response were of the same tool."""
        with self._lock:
            total, of_tool = self._by_tool.total() + position, self._by_tool[name] + position
        return bool(self._find_excess(position, total, of_tool, name))

    def _find_excess(self, position: int, total: int, of_tool: int, name: str) -> str:
        limits = self._limits
        if position >= limits.max_calls_per_turn:
            return (
                f"Not run: one answer may hold {limits.max_calls_per_turn} calls. "
                "Send this one again later, if it is needed."
            )
        if limits.max_calls is not None and total >= limits.max_calls:
            return f"Not run: the run's {limits.max_calls} calls are used up. Answer with what you have."
        if of_tool >= limits.max_calls_per_tool.get(name, of_tool + 1):
            return f"Not run: {name} may be called {limits.max_calls_per_tool[name]} times in a run. Go on without it."
        return ""


def apply_limits(response: ModelResponse, counter: CallCounter, *, last: bool) -> tuple[ToolMessage, ...]:
    """Count the calls of a response, and return the results of those that do not run."""
    if last or not is_complete(response):
        why = NO_TOOLS_TEXT if is_complete(response) else CUT_TEXT
        return tuple(refuse_call(call, why) for call in response.calls)
    counted = [(call, counter.count(call.name, position)) for position, call in enumerate(response.calls)]
    return tuple(refuse_call(call, why) for call, why in counted if why)


def is_complete(response: ModelResponse) -> bool:
    """Return whether a response has arrived whole; not every server reports a truncated one as such."""
    return response.finish_reason not in CUT and not any(is_truncated(call.arguments) for call in response.calls)


def infer_finish_reason(response: ModelResponse) -> str:
    """Return why a response without calls ended; servers have many words for a complete one."""
    if response.finish_reason in CUT:
        return response.finish_reason
    return "stop" if response.text.strip() else "empty"


def refuse_call(call: ToolCall, why: str) -> ToolMessage:
    """Return the result of a call that does not run."""
    return ToolMessage(call_id=call.id, provider_call_id=call.provider_call_id, name=call.name, text=why, is_error=True)
