"""What a runner was told -> the parts of a run, put together."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from toolkit._concurrency.cancellation import Cancellation, current_cancellation
from toolkit._dialects import get_run_dialect
from toolkit._dialects.chat import parse_history
from toolkit._dialects.tool_choice import allowed_names, check_choice
from toolkit._execution.approval import Approver, RecordedDecisions
from toolkit._execution.dispatcher import Dispatcher
from toolkit._execution.ledger import Ledger, MemoryLedger
from toolkit._execution.parallel import MAX_PARALLEL, Order, check_order
from toolkit._execution.references import restore_shared
from toolkit._execution.truncation import MAX_RESULT, ResultStore
from toolkit._messages import Message, ModelResponse, SystemMessage, UserMessage
from toolkit._runner.control import ActiveRuns, MessageQueue
from toolkit._runner.conversation import Conversation
from toolkit._runner.history import repaired
from toolkit._runner.hooks import Hooks
from toolkit._runner.limits import Limits
from toolkit._runner.model_call import ModelCaller
from toolkit._runner.options import Prompt, RunnerOptions, RunRequest, refuse_reserved, refuse_unfit, refuse_unknown
from toolkit._runner.output import output_of
from toolkit._runner.result import known_from
from toolkit._runner.run import Ending, Run
from toolkit._runner.state import RunState, open_calls
from toolkit._runner.tool_calls import EarlyCalls, ToolCaller
from toolkit._schema.error_messages import suggest
from toolkit._toolbox import Toolbox
from toolkit._tools.bindings import AnyTool
from toolkit.errors import ApprovalError, ConversationError
from toolkit.models import Model
from toolkit.models.default import ModelChoice

logger = logging.getLogger("toolkit")

# Runs that were taken up again, and whose results a runner without a ledger knows.
KEPT = 1_000

Tools: TypeAlias = dict[str, AnyTool]


@dataclass(frozen=True)
class RunFactory:
    """What a runner has decided for all of its runs."""

    choice: ModelChoice
    limits: Limits
    order: Order
    hooks: Hooks
    roster: ActiveRuns[Run[Any]]
    ledger: Ledger
    options: RunnerOptions

    @classmethod
    def of(
        cls, toolbox: Toolbox, model: str | Model | None, max_turns: int | None, options: RunnerOptions
    ) -> RunFactory:
        """Check what a runner is told.

        Raises:
            ValueError: An option has no such value.
            TypeError: There is no such option.
        """
        refuse_unknown(options)
        refuse_unfit(options)
        refuse_reserved(options.get("request_options", {}))
        limits = options.get("limits", Limits())
        MessageQueue(options.get("queue", "one"))
        _check_width(options.get("max_parallel", MAX_PARALLEL))
        return cls(
            choice=_choice(toolbox, model, options),
            limits=limits if max_turns is None else replace(limits, turns=max_turns),
            order=check_order(options.get("order", "parallel")),
            hooks=Hooks(options.get("hooks", ())),
            roster=ActiveRuns(options.get("max_runs")),
            ledger=options["ledger"] if "ledger" in options else MemoryLedger(KEPT),
            options=options,
        )

    def begun(self, ask: RunRequest, toolbox: Mapping[str, AnyTool], instructions: str) -> Run[Any]:
        """Put a run together.

        Raises:
            ApprovalError: A decision is for no call that waits.
            ValueError: There is nothing to answer, or an option names a tool that there is not.
        """
        conversation = self._conversation(ask, instructions)
        tools = dict(toolbox)
        _check_per_tool(self.limits, tools)
        stop = Cancellation(parent=current_cancellation.get())
        work = Cancellation(self.limits.seconds, parent=stop)
        asking = self._asking(ask, tools, stop, work)
        calling = self._calling(ask, tools, asking, conversation)
        return Run(
            run_id=conversation.run_id,
            conversation=conversation,
            choice=self.choice,
            asking=asking,
            calling=calling,
            ending=Ending(
                conversation=conversation,
                output=asking.output,
                inbox=calling.inbox,
                calls=known_from(ask.prompt) if isinstance(ask.prompt, RunState) else {},
            ),
            roster=self.roster,
            checkpoint=self.options.get("checkpoint"),
        )

    def _calling(self, ask: RunRequest, tools: Tools, asking: ModelCaller, conversation: Conversation) -> ToolCaller:
        state = conversation.state
        return ToolCaller(
            dispatcher=replace(self._dispatcher(ask, tools, asking), count=conversation.tally.count),
            tools=tools,
            inbox=MessageQueue(self.options.get("queue", "one")),
            order=self.order,
            width=self.options.get("max_parallel", MAX_PARALLEL),
            live=ask.streams,
            is_apart=ask.is_apart,
            run_id=state.run_id,
            deps=ask.deps,
            shared=restore_shared(ask.shared, (*state.messages, *state.answered), tools),
            work=asking.work,
            early=EarlyCalls(),
            raises=self.options.get("raise_errors", False),
        )

    def _asking(self, ask: RunRequest, tools: Tools, stop: Cancellation, work: Cancellation) -> ModelCaller:
        choice, allowed = check_choice(self.options.get("tool_choice"), self.options.get("allowed_tools"), tools)
        return ModelCaller(
            limits=self.limits,
            hooks=self.hooks,
            output=output_of(ask.output_type, taken=tools),
            tools=tools,
            choice=choice,
            allowed=allowed,
            streams=ask.streams,
            early=self.options.get("early", False),
            is_apart=ask.is_apart,
            stop=stop,
            work=work,
        )

    def _dispatcher(self, ask: RunRequest, tools: Tools, asking: ModelCaller) -> Dispatcher:
        options = self.options
        is_free = asking.allowed is None and asking.choice != "none"
        return Dispatcher(
            tools=tools,
            available=None if is_free else allowed_names(tools, asking.choice, asking.allowed),
            authorizer=options.get("authorize"),
            approver=self._approver(ask),
            approval_timeout=options.get("approval_timeout"),
            middleware=(*self.hooks.middleware, *options.get("middleware", ())),
            max_result=options.get("max_result", MAX_RESULT),
            overflow=ResultStore(options.get("max_result", MAX_RESULT)) if is_free else None,
            ledger=self.ledger if "ledger" in options or isinstance(ask.prompt, RunState) else None,
            suspects=() if "ledger" in options else _begun_elsewhere(ask.prompt),
        )

    def _approver(self, ask: RunRequest) -> Approver | None:
        given = self.options.get("approve")
        if not isinstance(ask.prompt, RunState) or not (ask.prompt.pending or ask.decisions):
            return given
        return RecordedDecisions(ask.decisions, ask.prompt.pending, otherwise=given)

    def _conversation(self, ask: RunRequest, instructions: str) -> Conversation:
        if isinstance(ask.prompt, RunState):
            return _resumed(ask.prompt, self.limits)
        if ask.decisions:
            raise ApprovalError("decisions= belongs to the state of a paused run: pass that, too.")
        return Conversation(_said(ask, instructions), run_id=uuid.uuid4().hex, limits=self.limits)


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


def _resumed(state: RunState, limits: Limits) -> Conversation:
    if state.phase == "finished":
        raise ConversationError("This run has finished: go on from it with run(prompt, messages=state.messages).")
    state.check()
    conversation = Conversation.restore(state, limits)
    if state.phase == "paused":
        conversation.resume()
    return conversation


def _begun_elsewhere(prompt: Prompt) -> tuple[str, ...]:
    """List the calls that were being carried out when a state was put away: its process may have died over them."""
    if not isinstance(prompt, RunState) or prompt.phase != "calling":
        return ()
    return tuple(call.id for call in open_calls(prompt.messages, prompt.answered))


def _said(ask: RunRequest, instructions: str) -> list[Message]:
    prompt = ask.prompt
    if not isinstance(prompt, (str, type(None))):
        raise TypeError(f"A prompt is text, not {prompt!r}; what was said before goes in as messages=[...].")
    said, notes = repaired(parse_history(ask.messages))
    for note in notes:
        logger.warning("The history was mended: %s", note)
    if prompt is not None:
        said.append(UserMessage(prompt))
    if not said:
        raise ValueError("There is nothing to answer: pass a prompt, or messages.")
    if isinstance(said[-1], ModelResponse):
        raise ValueError(  # noqa: TRY004  it is the right type in the wrong place
            "There is nothing to answer: the last message is the model's own. Pass a prompt, too."
        )
    if not instructions or any(isinstance(message, SystemMessage) for message in said):
        return said
    return [SystemMessage(instructions), *said]


def _check_per_tool(limits: Limits, tools: Tools) -> None:
    for name in limits.per_tool:
        if name not in tools:
            raise ValueError(f"Limits(per_tool=...) has {name!r}, which is no tool here{suggest(str(name), tools)}")


def _check_width(width: Any) -> None:
    if not isinstance(width, int) or isinstance(width, bool) or width < 1:
        raise ValueError(f"max_parallel={width!r} is no whole number of calls, at least 1.")
