"""Names that other libraries use for options and methods of a runner, and what to write here."""

from __future__ import annotations

from collections.abc import Mapping

from toolkit._options import make_hints

# Keys of a request, such as `temperature`.
_KEYS = (
    "temperature top_p max_completion_tokens max_output_tokens seed stop frequency_penalty presence_penalty reasoning "
    "reasoning_effort parallel_tool_calls"
)

# Options of a Runner.
_RUNNER = make_hints(
    ("system system_prompt system_message prompt", "Write Runner(..., instructions=...)."),
    (
        "output_type response_format response_model output_schema result_type structured_output_model",
        "Write runner.run(..., output_type=...).",
    ),
    ("tools functions toolsets", "Tools are the first argument: Runner([...])."),
    ("mcp_servers", "A server is one of the tools: Runner([MCP(...)]), from toolkit.sources.mcp import MCP."),
    (
        "handoffs managed_agents",
        "A runner is a tool of another one: Runner([other]), or other.as_tool(..., handoff=True).",
    ),
    ("llm model_name", "Write Runner(..., model=...)."),
    ("provider", "Write base_url= and model=, or client=."),
    (
        "chain_limit max_iterations max_steps recursion_limit",
        "Write Runner(..., max_turns=...), or limits=Limits(...).",
    ),
    ("max_tool_calls tool_call_limit", "Write Runner(..., limits=Limits(max_calls=...))."),
    ("usage_limits", "Write Runner(..., limits=Limits(...))."),
    ("output_retries", "Write Runner(..., limits=Limits(max_output_retries=...))."),
    (
        "retries",
        "@tool(retries=...) repeats a call, and limits=Limits(max_output_retries=...) asks for another answer.",
    ),
    ("timeout max_time", "limits=Limits(...) has the time of a run and of a turn."),
    ("tool_timeout", "Write @tool(timeout=...), or Toolbox([...], defaults={'timeout': ...})."),
    ("stream streaming verbose", "runner.stream(prompt) gives the events of a run."),
    (
        "callback_handler callbacks event_stream_handler",
        "runner.stream(prompt) gives the events of a run, and on_event of a hook gets them.",
    ),
    ("instrument tracing", "Write Runner(..., middleware=[Telemetry()]), of toolkit.middleware."),
    (
        "deps_type context_schema",
        "Annotate a parameter of a tool: context: ToolContext[Deps], and pass deps= to a run.",
    ),
    (
        "guardrails input_guardrails output_guardrails",
        "Write Runner(..., hooks=[...]): before_model checks the prompt, after_model the answer; raise Halt(...) ends.",
    ),
    (
        "after_call after_tool_call before_call before_tool_call plugins",
        "Write Runner(..., hooks=[...]): objects with before_call or after_call.",
    ),
    (
        "interrupt_before interrupt_on needs_approval on_tool_request",
        "Write Runner(..., approve=...), such as Console() of toolkit.approvers. A tool has @tool(approve=True).",
    ),
    ("conversation_manager history_processors", "Write Runner(..., hooks=[Compaction(...)]), of toolkit.middleware."),
    ("is_enabled prepare_tools", "Leave tools out by allowed_tools=[...] of a run, or in before_model of a hook."),
    (
        "checkpointer memory session_id session_manager thread_id",
        "A conversation is a session: runner.run(prompt, session=SQLiteSession('chats.db', 'name')).",
    ),
    ("tool_use_behavior", "Write @tool(return_direct=True): the result is the answer."),
    ("reset_tool_choice", "A forced tool_choice applies to the first turn only."),
    ("output_validators", "Write a validator into the type: output_type=Annotated[T, AfterValidator(f)] of a run."),
    (
        "additional_authorized_imports executor_type",
        "Write Runner([code_tool([...])]), from toolkit.builtin import code_tool.",
    ),
    ("cache", "Write Runner(..., middleware=[cache(...)]), of toolkit.middleware."),
    ("model_settings settings", "Write Runner(..., request_options={...})."),
    ("max_tokens", "limits=Limits(max_tokens=...) bounds a run, and one answer request_options={'max_tokens': ...}."),
    ("max_retries", "Set it on the client: client=OpenAI(max_retries=...)."),
)
RUNNER_HINTS: Mapping[str, str] = {
    **_RUNNER,
    **{
        name: f"It belongs to one run: runner.run(prompt, {name}=...)."
        for name in ("messages", "deps", "session", "shared")
    },
    **{name: f"It is a key of the request: Runner(..., request_options={{{name!r}: ...}})." for name in _KEYS.split()},
}

# Options of a run.
RUN_HINTS = make_hints(
    (
        "output_type response_format response_model output_schema result_type structured_output_model schema",
        "Write output_type=...",
    ),
    ("tools functions toolsets", "Tools are the first argument of the Runner: Runner([...])."),
    ("session_id thread_id config conversation_id previous_response_id", "Write session=..."),
    ("history message_history chat_history", "Write messages=..."),
    ("context dependencies invocation_state", "Write deps=..."),
    ("input message query user_prompt", "The prompt is the first argument."),
    ("attachments files images", "They are parts of the prompt: runner.run([text, image, path])."),
    ("deferred_tool_results resume", "Write runner.resume(result.state, {call_id: True})."),
    ("cancel_signal cancellation_token", "Write handle = runner.start(prompt), and handle.cancel()."),
)

# Methods of a Runner.
METHOD_HINTS = make_hints(
    ("function register tool register_tool tool_plain", "@tool of toolkit, and pass the function: Runner([f])"),
    ("ask chat execute generate invoke run_sync chain kickoff prompt", "runner.run(prompt)"),
    ("ainvoke chat_async invoke_async run_async", "await runner.arun(prompt)"),
    ("iter run_stream run_streamed stream_events", "runner.stream(prompt)"),
    ("astream_events run_stream_events stream_async", "runner.astream(prompt)"),
    ("abatch", "await runner.amap(prompts)"),
    ("add_hook", "Runner(..., hooks=[...])"),
    ("add_tool bind_tools", "runner.toolbox.add(f), or Runner([f])"),
    ("batch", "runner.map(prompts)"),
    ("call", "runner.toolbox.call(name, arguments)"),
    ("conversation history memory", "session=Session() in each run, or result.messages"),
    ("messages", "result.messages"),
    ("on_tool_request", "Runner(..., approve=...)"),
    ("output_validator", "a validator into the type: output_type=Annotated[T, AfterValidator(f)] of a run"),
    ("override", "another Runner, with model=ScriptedModel([...])"),
    ("system_prompt", "Runner(..., instructions=...)"),
    ("tool_names", "runner.toolbox.names"),
    ("tools", "runner.toolbox"),
    ("with_structured_output", "runner.run(prompt, output_type=...)"),
)

# Options of Limits.
LIMIT_HINTS = make_hints(
    ("max_iterations max_requests max_steps request_limit recursion_limit", "Write max_turns=..."),
    ("budget cost_limit max_budget", "Write max_cost=..."),
    ("tool_calls_limit max_tool_calls", "Write max_calls=..."),
    ("timeout max_time max_duration", "Write max_seconds=..."),
    ("total_tokens_limit token_limit", "Write max_tokens=..."),
)
