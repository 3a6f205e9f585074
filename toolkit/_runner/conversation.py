"""The conversation of one run: a state machine without I/O.

`next()` returns the next step. The driver does it and reports the outcome:

    step         the driver                 and calls
    CallModel    calls the model            add_usage(usage), add_response(response)
    RunCalls     runs the calls, in their   end_turn(results, pending)
                 batches, each unless
                 explain_skip() says why not
    Paused       saves the state            resume(), once there are decisions
    Finished     returns the answer         reject_answer(why) if it does not fit

Before each step, and after an answer, the driver lets it read the user's messages: read_messages(queue).

The phases, and every transition between them:

    asking   -> calling      the response has calls
    asking   -> asking       an empty response, which is asked for again once; a response whose calls are all refused;
                             or new messages of the user
    asking   -> finished     an answer, or a limit
    calling  -> asking       every call has its result
    calling  -> finished     every call has succeeded, and the response had the answer, too
    calling  -> paused       calls wait for approval
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
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from types import MappingProxyType
from typing import Literal, TypeAlias, cast, get_args

from toolkit._dialects.base import CUT_TEXT
from toolkit._execution.approval import STOPPED_TEXT
from toolkit._messages import (
    Message,
    ModelResponse,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
    collect_attachments,
    get_last_calls,
    get_open_calls,
    refuse_call,
)
from toolkit._runner.control import MessageQueue
from toolkit._runner.limits import LAST_TURN, NO_TOOLS_TEXT, Limits, describe_stop
from toolkit._runner.state import PausedSubAgent, Phase, RunState, get_ids, list_own
from toolkit._schema.json_text import is_truncated
from toolkit.errors import ConversationError, LimitError, RunError
from toolkit.events import REASONS_WITHOUT_ANSWER, FinishReason, LimitName, PendingApproval

# Finish reasons of truncated responses.
CUT: Mapping[str, FinishReason] = {"length": "length", "content_filter": "content_filter"}
CANCELLED_TEXT = "Cancelled"
LATE_TEXT = "Not run: the run's time is up."
# The wording is fixed: agent loops that users come from have the same.
SKIPPED_TEXT = "Skipped due to queued user message."
# Replaces the error of a sub-agent's model, which has the address of a server.
NO_RESPONSE = "its model did not respond."

# Finish reasons after which `undo_on_failure` undoes the calls.
UNDONE_REASONS = frozenset({"cancelled", "stopped", "error"})

# Identifies a response by the number of responses and of messages before it.
ResponseKey: TypeAlias = tuple[int, int]


@dataclass(frozen=True)
class CallModel:
    """Step: call the model, without tools on the last turn."""

    messages: tuple[Message, ...]
    turn: int
    with_tools: bool


@dataclass(frozen=True)
class RunCalls:
    """Step: run these calls."""

    calls: tuple[ToolCall, ...]
    turn: int


@dataclass(frozen=True)
class Paused:
    """Step: wait until the pending calls are decided on."""


@dataclass(frozen=True)
class Finished:
    """Step: return the answer. The run is over."""

    output: str
    reason: FinishReason


Step: TypeAlias = CallModel | RunCalls | Paused | Finished


class Conversation:
    """The conversation of one run.

    Args:
        state: The state of a saved run; or of a new run, whose history ends with the message to answer. Call ids begin
            with its `run_id`, so that no other run has them.
        limits: Limits of the run.
        parent: Conversation of the run whose call started this run. Usage and calls of this run count there, too.

    Attributes:
        limit: Name of the limit that was reached; empty when none was.
        refusals: Results of the calls of the last response that do not run, because it was truncated, was the last one,
            or had too many calls, or because the conversation was ended.
    """

    def __init__(self, state: RunState, limits: Limits | None = None, parent: Conversation | None = None) -> None:
        self.run_id: str = state.run_id
        self.limit: LimitName | Literal[""] = ""
        if state.finish_reason in get_args(LimitName):
            self.limit = cast("LimitName", state.finish_reason)
        self.refusals: tuple[ToolMessage, ...] = ()
        self._state = state
        self._limits = limits or Limits()
        self._parent = parent
        self._usage = state.usage
        self._messages = list(state.messages)
        earlier = [message.calls for message in state.messages if isinstance(message, ModelResponse)]
        self._provider_ids = {call.provider_call_id for calls in earlier for call in calls}
        self._reserved_ids: dict[str, tuple[ResponseKey, str, str]] = {}
        self._calls_by_tool = Counter(state.calls_by_tool)
        self._lock = threading.Lock()  # calls count further calls, and the usage of runs, on their own threads

    @property
    def state(self) -> RunState:
        """The state of the run, as plain data."""
        with self._lock:
            return self._state.replace(
                messages=tuple(self._messages),
                calls_by_tool=dict(self._calls_by_tool),
                usage=self._usage,
            )

    def offer(self, names: Collection[str] | None) -> None:
        """Record the tools that the next response may call; None if these are the tools of the run."""
        self._state = self._state.replace(offered=None if names is None else tuple(sorted(names)))

    @property
    def text(self) -> str:
        """Text of the last response of this run."""
        own = self._messages[self._state.start :]
        last = next((m for m in reversed(own) if isinstance(m, ModelResponse)), None)
        return last.text if last else ""

    @property
    def history(self) -> tuple[Message, ...]:
        """All messages, and the results that have not been added to them."""
        return (*self._messages, *self._state.results)

    @property
    def has_open_calls(self) -> bool:
        """True if the next step is to run calls."""
        return self._state.phase == "calling"

    @property
    def cost(self) -> float | None:
        """Cost of the tokens, those of the runs below included; None without prices."""
        prices = self._limits.prices
        return prices.compute_cost(self._usage) if prices else None

    def next(self, seconds: float = 0.0) -> Step:
        """Return the next step, `seconds` after the start of the run. It stays the same until an outcome is reported.

        Raises:
            LimitError: A limit is reached, and `on_limit="raise"`.
        """
        may_end = self._state.phase == "asking" and not self._state.is_last_turn
        if may_end and (reached := self.find_reached_limit(seconds)):
            self.reach_limit(*reached)
        state = self._state
        if state.phase == "asking":
            # Many servers refuse a history with an empty response.
            sent = [
                message
                for message in self._messages
                if not isinstance(message, ModelResponse) or message.text.strip() or message.calls or message.items
            ]
            return CallModel(tuple(sent), state.turns, not state.is_last_turn)

        if state.phase == "calling":
            return RunCalls(get_open_calls(self._messages, state.results), state.turns - 1)
        if state.phase == "paused":
            return Paused()
        return Finished(self.text if state.output is None else state.output, state.finish_reason or "stop")

    def find_reached_limit(self, seconds: float | None = None) -> tuple[LimitName, float, float] | None:
        """Return the first limit that is reached: its name, how much is used, and the limit itself.

        Without `seconds`, only calls, tokens and cost are compared. Runs below add to these.
        """
        limits, usage = self._limits, self._usage
        used: dict[LimitName, float] = {}
        if seconds is not None:
            used = {"max_turns": self._state.turns, "max_seconds": seconds}
        with self._lock:
            used["max_calls"] = self._calls_by_tool.total()
        used |= {
            "max_tokens": usage.total_tokens,
            "max_input_tokens": usage.input_tokens,
            "max_output_tokens": usage.output_tokens,
            "max_cost": self.cost or 0,
        }
        for name, amount in used.items():
            limit = getattr(limits, name)
            if limit is not None and amount >= limit:
                return name, amount, limit
        return self._parent.find_reached_limit() if self._parent else None

    def add_usage(self, usage: Usage) -> None:
        """Count the usage of a response, in the runs above, too. Thread-safe."""
        with self._lock:
            self._usage += usage
        if self._parent is not None:
            self._parent.add_usage(usage)

    def add_response(self, response: ModelResponse) -> ModelResponse:
        """Add the model's response, and return it with call ids that are unique in the history.

        Raises:
            ConversationError: No response is due.
        """
        self._expect("asking")
        state = self._state
        key = (self._state.turns, len(self._messages))
        calls = [self._assign_ids(call, number, key) for number, call in enumerate(response.calls, state.call_count)]
        response = response.replace(calls=tuple(calls))
        changed = state.replace(turns=state.turns + 1, call_count=state.call_count + len(calls))
        if calls:
            self.refusals = self._refuse_calls(response)
            changed = changed.replace(phase="calling", results=self.refusals, empty_responses=0)

        # No call between these two lines: Ctrl-C there would leave a history without results.
        self._state = changed
        self._messages.append(response)

        if not calls:
            self._finish_or_retry(response)
        elif len(self.refusals) == len(calls):
            self._close_calls(self.refusals)
            self._state = self._state.replace(phase="finished" if state.is_last_turn else "asking")
        return response

    def _assign_ids(self, call: ToolCall, number: int, key: ResponseKey) -> ToolCall:
        """Give a call of a response an id, and an id for the provider that is unique in the history."""
        call_id = self._build_id(call, number, key)
        provider_id = call.provider_call_id
        if not provider_id.strip() or provider_id in self._provider_ids:
            provider_id = call_id
            numbers = count(2)
            while provider_id in self._provider_ids:
                provider_id = f"{call_id}_{next(numbers)}"
        self._provider_ids.add(provider_id)
        return call.replace(id=call_id, provider_call_id=provider_id)

    def _build_id(self, call: ToolCall, number: int, key: ResponseKey) -> str:
        """Build the id of a call. An id that is reserved for another call gets a suffix."""
        call_id = first = f"{self.run_id[:8]}_{number}"
        identity = (key, call.name, call.arguments)
        numbers = count(2)
        while self._reserved_ids.get(call_id, identity) != identity:
            call_id = f"{first}_{next(numbers)}"
        return call_id

    def _refuse_calls(self, response: ModelResponse) -> tuple[ToolMessage, ...]:
        """Count the calls of a response, and return the results of those that do not run.

        Truncated arguments are refused, too, since not every server reports a truncated response.
        """
        calls = response.calls
        is_cut = response.finish_reason in CUT or any(map(is_truncated, [call.arguments for call in calls]))
        if is_cut or self._state.is_last_turn:
            return tuple([refuse_call(call, CUT_TEXT if is_cut else NO_TOOLS_TEXT) for call in calls])
        reasons = [self.count_call(call.name, position) for position, call in enumerate(calls)]
        return tuple([refuse_call(call, why) for call, why in zip(calls, reasons) if why])

    def count_call(self, name: str, position: int) -> str:
        """Count a call of the model or of a tool, and return "". If a limit refuses it, return the reason. Thread-safe.

        `position` is that of the call in its response, or of the step in its plan, counted from 0.
        """
        with self._lock:
            why = self._find_excess(name, position)
            if not why:
                self._calls_by_tool[name] += 1
        if not why and self._parent and (why := self._parent.count_call(name, 0)):
            with self._lock:
                self._calls_by_tool[name] -= 1
        return why

    def _find_excess(self, name: str, position: int, before: int = 0) -> str:
        """Return why a call exceeds a limit, or "" if it does not. `before` calls before it are not counted yet."""
        limits = self._limits
        if position >= limits.max_calls_per_turn:
            return (
                f"Not run: one answer may hold {limits.max_calls_per_turn} calls. "
                "Send this one again later, if it is needed."
            )

        if limits.max_calls is not None and self._calls_by_tool.total() + before >= limits.max_calls:
            return f"Not run: the run's {limits.max_calls} calls are used up. Answer with what you have."
        most = limits.max_calls_per_tool.get(name)
        if most is not None and self._calls_by_tool[name] + before >= most:
            return f"Not run: {name} may be called {most} times in a run. Go on without it."
        return ""

    def _finish_or_retry(self, response: ModelResponse) -> None:
        self.refusals = ()
        # Servers have many finish reasons for a complete response.
        is_empty = not response.text.strip()
        reason: FinishReason = CUT.get(response.finish_reason, "empty" if is_empty else "stop")
        state = self._state
        if state.is_last_turn:
            self._state = state.replace(phase="finished")
        elif reason == "empty" and state.empty_responses == 0:
            self._messages.pop()
            self._state = state.replace(empty_responses=1)
        else:
            self._state = state.replace(phase="finished", finish_reason=reason)

    def get_paused(self, call_id: str) -> PausedSubAgent | None:
        """Return the paused sub-agent that a call has started, or None for any other call."""
        return self._state.sub_agents.get(call_id)

    def reserve_id(self, call: ToolCall, position: int) -> ToolCall | None:
        """Reserve an id for a call of a response that is still arriving, and return the call with this id.

        Return None if a limit may refuse the call. The calls before it are not counted yet.
        """
        with self._lock:
            if self._find_excess(call.name, position, before=position):
                return None
        key = self._state.turns, len(self._messages)
        own = self._build_id(call, self._state.call_count + position, key)
        self._reserved_ids[own] = key, call.name, call.arguments
        return call.replace(id=own)

    def end_turn(
        self,
        results: Sequence[ToolMessage],
        pending: Sequence[PendingApproval] = (),
        sub_agents: Mapping[str, PausedSubAgent] = MappingProxyType({}),
        *,
        is_stopped: bool = False,
        find_answer: Callable[[Sequence[ToolMessage]], str | None] = lambda _: None,
    ) -> Sequence[ToolMessage]:
        """Add the results of the open calls. End the run if an approver has ended it, or if one of them is the answer.

        Args:
            results: The results, in any order.
            pending: Calls that wait for approval, those of sub-agents included. If there are any, other calls may have
                no result yet.
            sub_agents: The sub-agents that wait for approval, by the ids of their calls.
            is_stopped: Whether an approver has ended the run.
            find_answer: Finds the answer among the results of the whole response; None if there is none.

        Returns:
            The results of all calls of the response, in call order; none while some are pending.

        Raises:
            ConversationError: A call has no result or two, or a result belongs to no call.
        """
        self._expect("calling")
        due = sorted([call.id for call in get_open_calls(self._messages, self._state.results)])
        waiting = get_ids(list_own(pending, sub_agents))
        given = sorted([*(result.call_id for result in results), *waiting, *sub_agents])
        expected = sorted({*given}.intersection(due)) if pending else due
        if given != expected:
            raise ConversationError(f"Each of the calls {due} needs one result; there are results for {given}.")

        messages: Sequence[ToolMessage] = ()
        results = (*self._state.results, *results)
        if pending:
            self._state = self._state.replace(
                phase="paused", results=results, pending=tuple(pending), sub_agents=dict(sub_agents)
            )
        else:
            messages = self._close_calls(results)

        if is_stopped:
            self.end("stopped", text=STOPPED_TEXT)
        elif (answer := find_answer(messages)) is not None:
            self.end("stop", output=answer)
        return messages

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

    def read_messages(self, queue: MessageQueue) -> Sequence[UserMessage]:
        """Add the user's messages that are due now, and return them.

        Before a response, steering messages are due. After an answer both kinds are, and the run continues. Without one
        the queue is closed. While calls are open, and after the last answer, no message is due.
        """
        phase, reason = self._state.phase, self._state.finish_reason
        if phase not in ("asking", "finished") or self.limit or reason in REASONS_WITHOUT_ANSWER:
            return ()
        messages = queue.take_or_close() if phase == "finished" else queue.take_steering()
        if messages:
            self._messages += messages
            self._state = self._state.replace(phase="asking", finish_reason="", output=None, empty_responses=0)
        return messages

    def reject_answer(self, why: str, remedy: str = "") -> None:
        """Ask the model for another answer, with the reason why the last one was rejected.

        Raises:
            RunError: The limit of answers is reached.
        """
        self._expect("finished")
        state, limits = self._state, self._limits
        if state.finish_reason in CUT:
            why = f"The answer was cut off ({state.finish_reason}). {why}"
        is_over = limits.on_limit == "stop" and (self.limit or self.find_reached_limit(0.0))
        if is_over or state.output_retries >= limits.max_output_retries:
            last = f" The last one: {self.text!r:.200}" if self.text else ""
            raise RunError(
                f"The run has no answer of its output_type after {state.turns} answers of the model. {why}{last}"
            )

        self._messages.append(UserMessage(f"{why} {remedy}".rstrip()))
        reason = state.finish_reason if state.is_last_turn else ""
        retries = state.output_retries + 1
        self._state = state.replace(
            phase="asking", finish_reason=reason, output=None, empty_responses=0, output_retries=retries
        )

    def reach_limit(self, limit: LimitName, used: float, most: float) -> None:
        """Ask for a last answer, end the run, or raise, as `on_limit` says.

        Raises:
            LimitError: `on_limit="raise"`.
        """
        self.limit = limit
        if self._limits.on_limit == "raise":
            reached = f"The run has reached {limit}={most}."
            raise LimitError(f"{reached} Raise Limits({limit}=...), or let the run end with an answer.")
        if self._limits.on_limit == "stop":
            self.end(limit)
            self._messages.append(UserMessage(describe_stop(limit, used, most)))
            return
        self._messages.append(UserMessage(LAST_TURN))
        self._state = self._state.replace(is_last_turn=True, finish_reason=limit)

    def end(self, reason: FinishReason, output: str | None = None, text: str = CANCELLED_TEXT) -> None:
        """End the run, whatever its phase. Calls without a result get `text` as their result."""
        if self._state.phase in ("calling", "paused"):
            skipped = [refuse_call(call, text) for call in get_open_calls(self._messages, self._state.results)]
            self.refusals = (*self.refusals, *skipped)
            self._close_calls((*self._state.results, *skipped))
        self._state = self._state.replace(phase="finished", finish_reason=reason, output=output)

    def halt(self, answer: str) -> None:
        """End the run with the answer of a tool or a hook, which becomes part of the conversation."""
        self.end("halted", output=answer)
        if answer:
            self._messages.append(ModelResponse(text=answer))
            self._state = self._state.replace(turns=self._state.turns + 1)

    def _expect(self, phase: Phase) -> None:
        if self._state.phase != phase:
            raise ConversationError(f"The conversation is {self._state.phase}, not {phase}: do the step of next().")

    def _close_calls(self, results: Sequence[ToolMessage]) -> Sequence[ToolMessage]:
        """Add the results of all calls to the history, in call order."""
        by_id = {result.call_id: result for result in results}
        calls = get_last_calls(self._messages)
        response = self._messages[-1]
        is_answer = isinstance(response, ModelResponse) and response.is_answer
        results = [by_id[call.id].replace(provider_call_id=call.provider_call_id) for call in calls]
        added: list[Message] = [*results, *collect_attachments(results)]  # most providers take text only from tools
        changed = self._state.replace(phase="asking", results=(), pending=(), sub_agents={})
        if is_answer and not any(result.is_error for result in results):
            changed = changed.replace(phase="finished", finish_reason="stop")
        self._state = changed
        self._messages += added
        return results


def explain_skip(*, is_stopped: bool, is_late: bool, is_cancelled: bool, has_steering: bool) -> str:
    """Return why the next batch of calls does not start, or "" if it does."""
    reasons = {STOPPED_TEXT: is_stopped, LATE_TEXT: is_late, CANCELLED_TEXT: is_cancelled, SKIPPED_TEXT: has_steering}
    return next((text for text, applies in reasons.items() if applies), "")
