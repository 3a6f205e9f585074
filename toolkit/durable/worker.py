"""A worker: executes the steps of runs that a server assigns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from types import MappingProxyType
from typing import Any

from temporalio.bridge.proto.workflow_activation import WorkflowActivation
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.client import Client
from temporalio.worker import Worker as TemporalWorker
from temporalio.worker import WorkflowInstance, WorkflowInstanceDetails, WorkflowRunner
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions
from typing_extensions import Self, override

from toolkit._concurrency.threads import wait_at_exit
from toolkit._execution.ledger import MemoryLedger
from toolkit._execution.references import may_refer
from toolkit._guards.options import check_choice, check_function, check_number, check_seconds, check_type, check_whole
from toolkit._runner.runner import Runner
from toolkit._runner.session import Session
from toolkit._runner.state import make_state_validator
from toolkit._runner.sub_agent import AgentRunner, SubAgent, walk_tools
from toolkit._tools.tool import find_instance
from toolkit.durable import wire
from toolkit.durable.activities import STREAM_SECONDS, Activities
from toolkit.durable.workflow import RunWorkflow
from toolkit.errors import DefinitionError

# The server takes 2 MB for one payload, which has more in it than the state.
MAX_BYTES = 1_800_000
# The same with an ExternalStorage. The SDK gives a workflow 2 seconds to read a payload, and this one takes 0.25 on an
# idle machine; a run that needed more time would begin the same step again and again.
MAX_STORED_BYTES = 20_000_000
# The most seconds until another worker takes over the conversation of one that is gone or too busy. The other worker
# has to read the whole history, which costs more than a short wait.
STICKY_SECONDS = 5.0
GRACE = 10.0  # seconds that running steps have when a worker is shut down


class _TaskRunner(WorkflowRunner):
    """Runs workflows with another runner, and refuses an event for which the server has not started a task yet.

    A worker that takes over a run in order to answer a query gets all events. If the workflow continued with the newest
    ones, a message could arrive before their task starts. A replay would read that message first, at a later time, and
    decide differently. So the query fails here, and the worker forgets the run. The client asks again.
    """

    def __init__(self, inner: WorkflowRunner) -> None:
        self._inner = inner

    @override
    def prepare_workflow(self, defn: Any) -> None:
        self._inner.prepare_workflow(defn)

    @override
    def set_worker_level_failure_exception_types(self, types: Sequence[type[BaseException]]) -> None:
        self._inner.set_worker_level_failure_exception_types(types)

    @override
    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        instance = self._inner.create_instance(det)
        activate = instance.activate
        last = (-1, 0)  # time and length of the history in the task before

        def activate_in_task(act: WorkflowActivation) -> WorkflowActivationCompletion:
            nonlocal last
            if all(job.WhichOneof("variant") in _NO_EVENTS for job in act.jobs):
                return activate(act)

            # The time is that of the task's start: if it stays while the history grows, no task has started.
            time = act.timestamp.ToNanoseconds()
            length = act.history_length
            if not act.is_replaying and time == last[0] and length > last[1]:
                completion = WorkflowActivationCompletion()
                completion.failed.failure.message = "The run is between two tasks. Ask again."
                return completion
            last = time, length
            return activate(act)

        instance.activate = activate_in_task  # type: ignore[method-assign]
        return instance


_NO_EVENTS = frozenset({"query_workflow", "remove_from_cache"})
# The workflow holds no state outside its object, so its modules are loaded once, not for each run.
SANDBOX = SandboxedWorkflowRunner(restrictions=SandboxRestrictions.default.with_passthrough_modules("toolkit"))


class Worker:
    """Executes the steps of durable runs: each call of the model and of a tool, with the runner's hooks and gates.

    Workers of the same runner may run on many machines. If a worker dies, another one continues its runs. A call that
    may have started is repeated only if its tool allows it (`effect="read"` or `idempotent=True`), or if the runner has
    a ledger that all workers share.

    Args:
        client: A connected `temporalio.client.Client`. Its data converter may encrypt payloads, or store large ones
            elsewhere. The clients need the same data converter.
        runner: The runner with the tools, the model and the settings of each run. With `approve=defer` the client
            approves.
        task_queue: Name of the queue. Clients need the same name.
        deps: Any object for the tools, as `ToolContext.deps`.
        heartbeat: Seconds without a heartbeat after which the server gives a step to another worker, at least 1.
            Another worker waits as long, but at most 5 seconds, before it takes over the conversation.
        attempts: How often a step is tried if its worker dies, or the model's server or a store fails temporarily.
        max_bytes: The longest conversation and the largest result, in bytes of JSON. By default 1.8 million, since the
            server accepts 2 MB at a time; 20 million if the client's data converter has an `ExternalStorage`.
        tool_queues: Task queues by name of tool. The calls of such a tool run on the workers of that queue, for example
            on machines with a GPU. All workers of a runner need the same mapping. To limit the rate of a tool, give its
            workers `max_task_queue_activities_per_second=`.
        check_fingerprint: Whether client, run and worker must have the same tools and settings. With False, runs
            continue with other tools.
        streams: Whether `DurableRun.events` yields the text of a response while it arrives. It is sent with heartbeats,
            up to four a second, and is not stored.
        sessions: Opens the session of a name, `lambda name: SQLiteSession("chats.db", name)`, for runs with
            `start(..., session=name)`; all workers have to reach the same ones.
        **options: Further options of `temporalio.worker.Worker`, such as `max_concurrent_activities`.

    Raises:
        DefinitionError: The runner, or that of a sub-agent, has an option that needs the memory of one process: calls
            that refer to others, a sub-agent with `handoff`, `max_runs`, `checkpoint`, `refresh="iteration"`, a
            MemoryLedger, or `undo_on_failure` without a ledger. Or the client has a worker of this queue already, or an
            option is invalid.
        ValueError: The name of a queue is empty or not text.
    """

    def __init__(
        self,
        client: Client,
        runner: Runner,
        *,
        task_queue: str,
        deps: Any = None,
        heartbeat: float = 10.0,
        attempts: int = 10,
        max_bytes: int | None = None,
        tool_queues: Mapping[str, str] = MappingProxyType({}),
        check_fingerprint: bool = True,
        streams: bool = False,
        sessions: Callable[[str], Session] | None = None,
        **options: Any,
    ) -> None:
        wait_at_exit()
        check_type("client", client, Client)
        wire.check_name("task_queue", task_queue)
        if max_bytes is None:
            max_bytes = MAX_STORED_BYTES if client.data_converter.external_storage else MAX_BYTES
        _check_arguments(runner, heartbeat, attempts, max_bytes, tool_queues)
        if sessions is not None:
            check_function("sessions", sessions)
        activities = Activities(
            runner=runner,
            deps=deps,
            heartbeat=heartbeat,
            attempts=attempts,
            max_bytes=max_bytes,
            tool_queues=tool_queues,
            checks=check_fingerprint,
            streams=streams,
            sessions=sessions,
        )
        settings = {
            "sticky_queue_schedule_to_start_timeout": timedelta(seconds=min(STICKY_SECONDS, heartbeat)),
            "graceful_shutdown_timeout": timedelta(seconds=GRACE),
            "max_heartbeat_throttle_interval": timedelta(seconds=STREAM_SECONDS),
            **options,
            "workflow_runner": _TaskRunner(options.get("workflow_runner", SANDBOX)),
        }
        make_state_validator()  # 0.2 s, and more on a busy machine, of the 2 that the SDK gives a step of a workflow

        try:
            self._worker = TemporalWorker(
                client, task_queue=task_queue, workflows=[RunWorkflow], activities=activities.all, **settings
            )
        except RuntimeError as error:  # its message has the source code of the reason
            if "multiple workers" not in str(error):
                raise
            text = f"This client has a worker of the queue {task_queue!r} already: connect another client for this one."
            raise DefinitionError(text) from None

    async def run(self) -> None:
        """Work until `shutdown` is called or the task is cancelled. Running steps then have 10 seconds to end."""
        await self._worker.run()

    async def shutdown(self) -> None:
        """Stop, and wait until the running steps have ended."""
        await self._worker.shutdown()

    async def __aenter__(self) -> Self:
        await self._worker.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._worker.__aexit__(*error)


ONE_PROCESS = "{} the memory of one process, and a durable run may use many: leave it out{}."
SHARED_LEDGER = ", or write Runner(..., ledger=...) with a SQLiteLedger or a PostgresLedger that all workers reach"


def _check_runner(factory: AgentRunner, *, has_ledger: bool = False) -> None:
    """Check that a runner and those of its sub-agents need nothing from the memory of one process.

    Args:
        factory: Has the options and the tools.
        has_ledger: Whether a run above has a ledger.

    Raises:
        DefinitionError: A runner needs something from the memory of a process.
    """
    option = factory.options.get
    tools = [*factory.toolbox]
    agents = [agent for agent in map(find_instance, tools) if isinstance(agent, SubAgent)]
    has_ledger = has_ledger or option("ledger") is not None
    faults = [
        (any(map(may_refer, tools)), "Calls that refer to others, by references=True or _outputPath, need", ""),
        (option("max_runs") is not None, "max_runs= counts runs in", ", and use Worker(max_concurrent_activities=...)"),
        (option("checkpoint") is not None, "checkpoint= saves runs for", SHARED_LEDGER),
        (isinstance(option("ledger"), MemoryLedger), "MemoryLedger is", SHARED_LEDGER),
        (bool(option("undo_on_failure")) and not has_ledger, "undo_on_failure= without ledger= uses", SHARED_LEDGER),
        (option("refresh") == "iteration", "refresh='iteration' changes the tools in", ""),
        (any(agent.handoff for agent in agents), "as_tool(..., handoff=True) needs a conversation in", ""),
    ]
    for is_present, subject, remedy in faults:
        if is_present:
            raise DefinitionError(ONE_PROCESS.format(subject, remedy))
    for agent in agents:
        _check_runner(agent.runner, has_ledger=has_ledger)


def _check_arguments(
    runner: Runner, heartbeat: float, attempts: int, max_bytes: int, tool_queues: Mapping[str, str]
) -> None:
    _check_runner(check_type("runner", runner, Runner)._factory)
    check_seconds("heartbeat", check_number("heartbeat", heartbeat, 1))
    check_whole("attempts", attempts)
    check_whole("max_bytes", max_bytes, 1000)
    names = [tool.name for tool in walk_tools(runner.toolbox)]
    for name, queue in check_type("tool_queues", tool_queues, Mapping).items():
        check_choice("tool_queues", name, *names)
        wire.check_name("tool_queues", queue)
