"""Create the runs of a runner from its options."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from toolkit._concurrency.cancellation import Cancellation, current_cancellation
from toolkit._dialects.catalog import get_run_dialect
from toolkit._dialects.chat import parse_history
from toolkit._dialects.tool_choice import allowed_names, check_choice
from toolkit._execution.approval import RecordedDecisions
from toolkit._execution.dispatcher import Dispatcher
from toolkit._execution.ledger import Ledger, MemoryLedger
from toolkit._execution.parallel import MAX_PARALLEL, Order, check_order
from toolkit._execution.references import restore_shared
from toolkit._execution.truncation import MAX_RESULT, ResultStore
from toolkit._messages import Message, ModelResponse, SystemMessage, UserMessage
from toolkit._runner.control import ActiveRuns, MessageQueue
from toolkit._runner.conversation import Conversation
from toolkit._runner.history import repair_history
from toolkit._runner.hooks import Hooks
from toolkit._runner.limits import Limits
from toolkit._runner.model_call import ModelCaller
from toolkit._runner.options import RunnerOptions, RunRequest, check_options, reject_reserved_keys
from toolkit._runner.output import build_output
from toolkit._runner.result import restore_calls
from toolkit._runner.run import Run
from toolkit._runner.state import RunState, get_open_calls
from toolkit._runner.tool_calls import ToolCaller
from toolkit._schema.error_messages import suggest
from toolkit._toolbox import Toolbox
from toolkit._tools.bindings import AnyTool
from toolkit.errors import ApprovalError, ConversationError
from toolkit.models import Model
from toolkit.models.default import ModelChoice

logger = logging.getLogger("toolkit")

# Resumed runs whose results a runner without a ledger remembers.
MAX_REMEMBERED = 1_000

Tools: TypeAlias = dict[str, AnyTool]


@dataclass(frozen=True)
class RunFactory:
    """What a runner has decided for all of its runs."""

    choice: ModelChoice
    limits: Limits
    order: Order
    hooks: Hooks
    active: ActiveRuns[Run[Any]]
    ledger: Ledger
    options: RunnerOptions

    @classmethod
    def of(
        cls, toolbox: Toolbox, model: str | Model | None, max_turns: int | None, options: RunnerOptions
    ) -> RunFactory:
        """Check the options of a runner.

        Raises:
            ValueError: An option has no such value.
            TypeError: There is no such option.
        """
        check_options(options)
        reject_reserved_keys(options.get("request_options", {}))
        limits = options.get("limits", Limits())
        MessageQueue(options.get("queue", "one"))
        _check_max_parallel(options.get("max_parallel", MAX_PARALLEL))
        return cls(
            choice=_choice(toolbox, model, options),
            limits=limits if max_turns is None else replace(limits, max_turns=max_turns),
            order=check_order(options.get("order", "parallel")),
            hooks=Hooks(options.get("hooks", ())),
            active=ActiveRuns(options.get("max_runs")),
            ledger=options["ledger"] if "ledger" in options else MemoryLedger(MAX_REMEMBERED),
            options=options,
        )

    def create(self, request: RunRequest, toolbox: Mapping[str, AnyTool], instructions: str) -> Run[Any]:
        """Create a run and count it among the active ones.

        Raises:
            ApprovalError: A decision is for a call that does not wait.
            BusyError: The runner has as many active runs as it may have.
            ValueError: There is nothing to answer, or an option names a tool that does not exist.
        """
        options, state = self.options, request.prompt if isinstance(request.prompt, RunState) else None
        tools = dict(toolbox)  # result_read may join in the course of the run
        conversation = self._conversation(request, instructions)
        for name in self.limits.max_calls_per_tool:
            if name not in tools:
                raise ValueError(
                    f"Limits(max_calls_per_tool=...) has {name!r}, which is no tool here{suggest(str(name), tools)}"
                )
        cancellation = Cancellation(parent=current_cancellation.get())
        deadline = Cancellation(self.limits.max_seconds, parent=cancellation)
        choice, allowed = check_choice(options.get("tool_choice"), options.get("allowed_tools"), tools)
        output = build_output(request.output_type, taken=tools)
        queue = MessageQueue(options.get("queue", "one"))
        run = Run(
            conversation=conversation,
            choice=self.choice,
            model_caller=ModelCaller(
                limits=self.limits,
                hooks=self.hooks,
                output=output.spec,
                tools=tools,
                choice=choice,
                allowed=allowed,
                streams=request.streams,
                early=options.get("early", False),
                in_background=request.in_background,
                cancellation=cancellation,
                deadline=deadline,
            ),
            tool_caller=ToolCaller(
                dispatcher=self._dispatcher(state, request, tools, choice, allowed, conversation),
                tools=tools,
                queue=queue,
                order=self.order,
                max_parallel=options.get("max_parallel", MAX_PARALLEL),
                streams=request.streams,
                in_background=request.in_background,
                run_id=conversation.run_id,
                deps=request.deps,
                shared=restore_shared(request.shared, conversation.history, tools),
                deadline=deadline,
                raise_errors=options.get("raise_errors", False),
            ),
            output=output,
            active=self.active,
            queue=queue,
            cancellation=cancellation,
            checkpoint=options.get("checkpoint"),
            calls=restore_calls(state) if state else {},
        )
        self.active.add(run)
        return run

    def _dispatcher(
        self,
        state: RunState | None,
        request: RunRequest,
        tools: Tools,
        choice: str | None,
        allowed: tuple[str, ...] | None,
        conversation: Conversation,
    ) -> Dispatcher:
        options = self.options
        approver = options.get("approve")
        if state and (state.pending or request.decisions):
            approver = RecordedDecisions(request.decisions, state.pending, otherwise=approver)
        is_free = allowed is None and choice != "none"
        max_result = options.get("max_result", MAX_RESULT)
        return Dispatcher(
            tools=tools,
            available=None if is_free else allowed_names(tools, choice, allowed),
            authorizer=options.get("authorize"),
            approver=approver,
            approval_timeout=options.get("approval_timeout"),
            middleware=(*self.hooks.middleware, *options.get("middleware", ())),
            max_result=max_result,
            overflow=ResultStore(max_result) if is_free else None,
            ledger=self.ledger if "ledger" in options or state else None,
            suspects=() if "ledger" in options or not state else _open_call_ids(state),
            count=conversation.call_counter.count,
        )

    def _conversation(self, request: RunRequest, instructions: str) -> Conversation:
        if isinstance(request.prompt, RunState):
            return _resume(request.prompt, self.limits)
        if request.decisions:
            raise ApprovalError("decisions= belongs to the state of a paused run: pass that, too.")
        return Conversation(_first_messages(request, instructions), run_id=uuid.uuid4().hex, limits=self.limits)


def _choice(toolbox: Toolbox, model: str | Model | None, options: RunnerOptions) -> ModelChoice:
    strict = options.get("strict", toolbox.strict is not False)
    return ModelChoice(
        given=None if isinstance(model, str) else model,
        name=model if isinstance(model, str) else None,
        client=options.get("client"),
        base_url=options.get("base_url"),
        api_key=options.get("api_key"),
        api=options.get("api", "chat"),
        dialect=get_run_dialect(options["dialect"], strict=strict, api=options.get("api", "chat"))
        if "dialect" in options
        else None,
        strict=strict,
        options=options.get("request_options", {}),
    )


def _resume(state: RunState, limits: Limits) -> Conversation:
    if state.phase == "finished":
        raise ConversationError("This run has finished: go on from it with run(prompt, messages=state.messages).")
    state.check()
    conversation = Conversation.restore(state, limits)
    if state.phase == "paused":
        conversation.resume()
    return conversation


def _open_call_ids(state: RunState) -> tuple[str, ...]:
    """Return the ids of the calls that were running when a state was saved: its process may have died meanwhile."""
    if state.phase != "calling":
        return ()
    return tuple(call.id for call in get_open_calls(state.messages, state.results))


def _first_messages(request: RunRequest, instructions: str) -> list[Message]:
    prompt = request.prompt
    if not isinstance(prompt, (str, type(None))):
        raise TypeError(f"A prompt is text, not {prompt!r}; what was said before goes in as messages=[...].")
    messages: list[Message] = _history(request) if request.messages else []
    if prompt is not None:
        messages.append(UserMessage(prompt))
    if not messages:
        raise ValueError("There is nothing to answer: pass a prompt, or messages.")
    if isinstance(messages[-1], ModelResponse):
        raise ValueError(  # noqa: TRY004  it is the right type in the wrong place
            "There is nothing to answer: the last message is the model's own. Pass a prompt, too."
        )
    if not instructions or any(isinstance(message, SystemMessage) for message in messages):
        return messages
    return [SystemMessage(instructions), *messages]


def _history(request: RunRequest) -> list[Message]:
    messages, notes = repair_history(parse_history(request.messages))
    for note in notes:
        logger.warning("The history was repaired: %s", note)
    return messages


def _check_max_parallel(value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"max_parallel={value!r} is no whole number of calls, at least 1.")
