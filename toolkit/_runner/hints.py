"""Names that other libraries use for options and methods of a runner, and what to write here."""

from __future__ import annotations

from collections.abc import Mapping

from toolkit._options import make_hints

# Keys of a request, such as `temperature`.
_KEYS = (
    "temperature top_k top_p max_completion_tokens max_output_tokens seed stop frequency_penalty presence_penalty "
    "logit_bias top_logprobs reasoning reasoning_effort verbosity parallel_tool_calls prompt_cache_key service_tier "
    "store truncation"
)

# Options of a Runner.
_RUNNER = make_hints(
    ("system system_prompt system_message prompt", "Write Runner(..., instructions=...)."),
    (
        "output_type response_format response_model output_schema result_type structured_output_model",
        "Write runner.run(..., output_type=...).",
    ),
    ("data_model schema", "Write runner.run(..., output_type=...)."),
    ("tools functions toolsets", "Tools are the first argument: Runner([...])."),
    (
        "builtin_tools native_tools",
        "Write Runner([provider_tool(...)], api='responses'), from toolkit.builtin import provider_tool.",
    ),
    ("mcp_servers", "A server is one of the tools: Runner([MCP(...)]), from toolkit.sources.mcp import MCP."),
    (
        "agents handoffs managed_agents sub_agents",
        "A runner is a tool of another one: Runner([other]), or other.as_tool(..., handoff=True).",
    ),
    ("llm model_name", "Write Runner(..., model=...)."),
    ("provider", "Write base_url= and model=, or client=."),
    ("api_base azure_endpoint endpoint", "Write base_url=..., or client=AzureOpenAI(...)."),
    ("add_base_tools", "Write Runner([code_tool(...), ...]), from toolkit.builtin import code_tool."),
    (
        "chain_limit max_iterations max_steps recursion_limit",
        "Write Runner(..., max_turns=...), or limits=Limits(...).",
    ),
    ("max_tool_calls tool_call_limit", "Write Runner(..., limits=Limits(max_calls=...))."),
    ("usage_limits", "Write Runner(..., limits=Limits(...))."),
    ("max_calls max_cost max_seconds on_limit prices", "Limits has it: Runner(..., limits=Limits(...))."),
    ("output_retries", "Write Runner(..., limits=Limits(max_output_retries=...))."),
    (
        "retries retry tool_retries",
        "@tool(retries=...) repeats a call, and limits=Limits(max_output_retries=...) asks for another answer.",
    ),
    ("timeout max_time", "Write Runner(..., limits=Limits(max_seconds=...))."),
    ("tool_timeout", "Write @tool(timeout=...), or Toolbox([...], defaults={'timeout': ...})."),
    ("debug echo stream streaming verbose verbosity_level", "runner.stream(prompt) gives the events of a run."),
    (
        "callback_handler callbacks event_stream_handler on_event step_callbacks",
        "runner.stream(prompt) gives the events of a run, and on_event of a hook gets them.",
    ),
    ("instrument telemetry tracing", "Write Runner(..., middleware=[Telemetry()]), of toolkit.middleware."),
    (
        "context_schema deps_type state_schema",
        "Annotate a parameter of a tool: context: ToolContext[Deps], and pass deps= to a run.",
    ),
    (
        "guardrails input_guardrails output_guardrails",
        "Write Runner(..., hooks=[...]): before_model checks the prompt, after_model the answer; raise Halt(...) ends.",
    ),
    (
        "after_call after_tool_call before_call before_tool_call capabilities interventions plugins",
        "Write Runner(..., hooks=[...]): objects with before_call or after_call.",
    ),
    (
        "call_model_input_filter post_model_hook pre_model_hook session_input_callback",
        "Write Runner(..., hooks=[...]): objects with before_model or after_model.",
    ),
    (
        "approval_handler approval_policy interrupt_after interrupt_before interrupt_on needs_approval on_tool_request",
        "Write Runner(..., approve=...), such as Console() of toolkit.approvers. A tool has @tool(approve=True).",
    ),
    (
        "compaction_control context_manager conversation_manager history_processors",
        "Write Runner(..., hooks=[Compaction(...)]), of toolkit.middleware.",
    ),
    ("is_enabled prepare_tools", "Leave tools out by allowed_tools=[...] of a run, or in before_model of a hook."),
    (
        "checkpointer memory session_id session_manager thread_id",
        "A conversation is a session: runner.run(prompt, session=SQLiteSession('chats.db', 'name')).",
    ),
    ("tool_use_behavior", "Write @tool(return_direct=True): the result is the answer."),
    ("reset_tool_choice", "A forced tool_choice applies to the first turn only."),
    (
        "final_answer_checks output_validators",
        "Write a validator into the type: output_type=Annotated[T, AfterValidator(f)] of a run.",
    ),
    (
        "additional_authorized_imports executor_type",
        "Write Runner([code_tool([...])]), from toolkit.builtin import code_tool.",
    ),
    ("cache", "Write Runner(..., middleware=[cache(...)]), of toolkit.middleware."),
    ("model_settings options settings", "Write Runner(..., request_options={...})."),
    ("run_config", "Its settings are options of the Runner, such as Runner(..., hooks=[...])."),
    ("tool_error_formatter", "Write Runner(..., format_error=...)."),
    ("early_execution run_tools_eagerly", "Write Runner(..., early=True)."),
    (
        "max_concurrency max_function_tool_concurrency max_tool_threads tool_execution tool_executor",
        "Write Runner(..., max_parallel=...), or order='sequential'.",
    ),
    ("mode tool_execution_mode", "Write Runner(..., order='sequential'), if no calls may run at the same time."),
    ("max_tokens", "limits=Limits(max_tokens=...) bounds a run, and one answer request_options={'max_tokens': ...}."),
    ("max_retries", "Set it on the client: client=OpenAI(max_retries=...)."),
    (
        "api_version default_headers extra_headers headers http_client organization project proxy",
        "Set it on the client: client=OpenAI(...), or client=AzureOpenAI(...).",
    ),
    ("extra_body", "Write its keys as request_options={...}."),
    ("fallback fallback_model fallback_models fallbacks", "Write Runner(..., model=FallbackModel([...]))."),
    ("logger", "Runs are logged by logging.getLogger('toolkit')."),
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
    ("session_id thread_id config conversation_id previous_response_id reset", "Write session=..."),
    ("history message_history chat_history", "Write messages=..."),
    ("additional_args context dependencies invocation_state", "Write deps=..."),
    ("input message query task user_prompt", "The prompt is the first argument; that of as_tool() has the name arg=."),
    ("attachments files images", "They are parts of the prompt: runner.run([text, image, path])."),
    ("deferred_tool_results resume", "Write runner.resume(result.state, {call_id: True})."),
    ("on_event stream_mode version", "runner.stream(prompt) gives the events of a run."),
    ("usage", "Leave it out: a run inside a tool counts in the outer run."),
    ("cancel_signal cancellation_token controller", "Write handle = runner.start(prompt), and handle.cancel()."),
)

# Methods of a Runner.
METHOD_HINTS = (
    ("function register tool register_tool tool_plain", "@tool of toolkit, and pass the function: Runner([f])"),
    ("ask chat execute generate invoke run_sync chain kickoff prompt", "runner.run(prompt)"),
    ("ainvoke chat_async invoke_async run_async", "await runner.arun(prompt)"),
    ("iter run_stream run_stream_sync run_streamed stream_events", "runner.stream(prompt)"),
    ("astream_events run_stream_events stream_async", "runner.astream(prompt)"),
    ("abatch", "await runner.amap(prompts)"),
    ("add_hook add_middleware on_event on_tool_result", "Runner(..., hooks=[...])"),
    ("add_tool bind_tools", "runner.toolbox.add(f), or Runner([f])"),
    ("batch", "runner.map(prompts)"),
    ("call", "runner.toolbox.call(name, arguments)"),
    ("clear_all_queues clear_follow_up_queue clear_queues clear_steering_queue", "runner.clear()"),
    ("conversation get_state get_turns history memory set_turns", "session=Session() in each run, or result.messages"),
    ("get_cost", "result.cost"),
    ("get_tokens token_count", "result.usage"),
    ("abort interrupt", "runner.cancel()"),
    ("messages", "result.messages"),
    ("on_tool_request", "Runner(..., approve=...)"),
    ("output_validator", "a validator into the type: output_type=Annotated[T, AfterValidator(f)] of a run"),
    ("clone copy", "another Runner([...], ...)"),
    ("override", "another Runner, with model=ScriptedModel([...])"),
    ("system_prompt", "Runner(..., instructions=...)"),
    ("tool_names", "runner.toolbox.names"),
    ("get_tools set_tools tools toolsets", "runner.toolbox"),
    ("app console to_cli to_cli_sync to_web", "toolkit chat FILE or toolkit inspect FILE in a shell"),
    ("chat_structured extract_data structured_output with_structured_output", "runner.run(prompt, output_type=...)"),
    ("with_fallbacks", "Runner(..., model=FallbackModel([...]))"),
    ("with_retry", "Runner(..., client=OpenAI(max_retries=...))"),
)

# Options of Limits.
LIMIT_HINTS = make_hints(
    ("chain_limit max_iterations max_requests max_steps request_limit recursion_limit", "Write max_turns=..."),
    ("budget cost_limit max_budget", "Write max_cost=..."),
    ("tool_calls_limit max_tool_calls", "Write max_calls=..."),
    ("timeout max_time max_duration", "Write max_seconds=..."),
    ("total_tokens_limit token_limit", "Write max_tokens=..."),
)
