"""Commands that serve the tools of a file: inspect, serve, worker."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from contextlib import nullcontext, redirect_stdout, suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from toolkit import Runner
from toolkit._concurrency.threads import wait_at_exit
from toolkit.approvers import ask_when, defer
from toolkit.cli.files import find_deps, find_values, get_stem
from toolkit.cli.inspecting import Inspector
from toolkit.cli.options import AllFunctions, Target, fail
from toolkit.cli.targets import get_deps, load, make_runner, may_change, suggest_toolbox, takes_runner
from toolkit.errors import RunError
from toolkit.serve.local import parse_address


@takes_runner(approver=ask_when(defer, when=may_change))
def inspect(
    runner: Runner,
    file: str,
    *,
    port: Annotated[int, typer.Option(help="The port on this machine; 0 takes a free one.", max=65_535)] = 0,
) -> None:
    """Try the tools of a file in the browser.

    The page can be reached from this machine only, at the address that is printed. Ctrl-C ends it.
    """
    runner._factory.settings.model_choice.announces = False
    try:
        server = Inspector(runner, title=file, deps=find_deps(file), port=port)
    except OSError as error:
        fail(f"Port {port} cannot be used: {error.strerror}. Leave out --port to take a free one.")
    print(f"Open {server.url} in a browser; Ctrl-C ends it.", flush=True)
    with server:
        server.serve_forever()


def serve(
    file: Target,
    *,
    all_functions: AllFunctions = False,
    http: Annotated[
        str | None,
        typer.Option(metavar="[HOST:]PORT", help="Serve over HTTP, only to this machine; MCP at /mcp."),
    ] = None,
    a2a: Annotated[
        bool,
        typer.Option("--a2a", help="Serve the Runner, or one with the tools, to A2A clients; at port 9000 by default."),
    ] = False,
) -> None:
    """Serve the tools of a file by MCP, or its Runner by A2A.

    MCP is served over standard input and output, for a client that starts this command, or over HTTP. If a tool
    requires approval, the client asks its user. Functions decorated with @prompt and @resource of toolkit.serve.mcp
    are served, too.
    """
    if a2a:
        _serve_agent(file, all_functions=all_functions, http=http)
        return

    try:
        from toolkit.serve import mcp
        from toolkit.serve.mcp import Prompt, Resource
    except ImportError as error:
        fail(error)

    with redirect_stdout(sys.stderr):  # standard output is the client's
        runner, toolbox = load(file, all_functions=all_functions, instead=(Prompt, Resource))
    if runner is not None:
        remedy = f"Serve it by A2A: --a2a. {suggest_toolbox(file)}"
        fail(f"{file} has a Runner, whose gates would not apply to clients. {remedy}")
    prompts = find_values(file, Prompt).values()
    resources = find_values(file, Resource).values()
    tools = [*toolbox, *(prompt.tool for prompt in prompts), *(resource.tool for resource in resources)]
    deps = get_deps(file, tools)
    if http is not None:
        http = _announce(http, "/mcp")
    name = get_stem(file)
    mcp.serve(toolbox, http=http, name=name, deps=deps, prompts=prompts, resources=resources)


def _serve_agent(file: str, *, all_functions: bool, http: str | None) -> None:
    runner = make_runner(file, all_functions=all_functions)
    try:
        from toolkit.serve import a2a
    except ImportError as error:
        fail(error)
    a2a.serve(runner, http=_announce(http or a2a.PORT), name=get_stem(file), deps=find_deps(file))


def _announce(http: str, path: str = "") -> str:
    """Print the address of a server, and return it. Port 0 becomes a free one."""
    host, port = parse_address(http)
    try:
        with socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
            _, free_port, *_ = probe.getsockname()
            address = f"[{host}]:{free_port}" if ":" in host else f"{host}:{free_port}"
    except OSError as error:
        reason = str(error.strerror).partition(" (")[0]
        fail(f"Port {port} cannot be used: {reason}. Name another one with --http; 0 takes a free one.")
    print(f"http://{address}{path}", file=sys.stderr)
    return address


def worker(
    file: Target,
    *,
    address: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="The Temporal server; on this machine by default.")
    ] = None,
    namespace: Annotated[str, typer.Option(help="The server's namespace.")] = "default",
    queue: Annotated[str, typer.Option("--queue", help="The task queue; clients must use the same one.")] = "toolkit",
    dev: Annotated[
        Path | None, typer.Option("--dev", metavar="DB", help="Start a development server with this file.")
    ] = None,
) -> None:
    """Execute durable runs of a file's Runner.

    It needs the extra `temporal`. Ctrl-C ends it.
    """
    runner, _ = load(file, all_functions=False)
    if runner is None:
        fail(f"{file} has no Runner. Clients and workers need the same one: write runner = Runner(...) there.")
    if dev is not None and (address is not None or namespace != "default"):
        fail("--dev starts a server of its own: leave out --address and --namespace.")
    if not queue.strip():
        fail("--queue must be the name of a queue, the same one as that of the clients.")
    deps = get_deps(file, runner.toolbox)
    try:
        from toolkit.durable.server import PORT, DevServer
    except ImportError:
        fail('Durable runs need an extra: pip install "function-toolkit[temporal]".')

    async def work() -> None:
        async with DevServer(dev) if dev else nullcontext() as server:
            place = server.address if server else address or f"127.0.0.1:{PORT}"
            await _work_at(place, namespace, runner, task_queue=queue, deps=deps)

    asyncio.run(work())


async def _work_at(address: str, namespace: str, runner: Runner, *, task_queue: str, deps: Any) -> None:
    """Execute runs until a signal arrives. The KeyboardInterrupt at the end becomes exit code 130."""
    from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest  # optional
    from temporalio.client import Client, RPCError

    from toolkit.durable import Worker

    wait_at_exit()
    try:
        client = await Client.connect(address, namespace=namespace)
        await client.workflow_service.describe_namespace(DescribeNamespaceRequest(namespace=namespace))
    except (RuntimeError, ValueError):  # their messages are debug output
        raise RunError(
            f"No Temporal server answers at {address}. Pass --address HOST:PORT, or start one for development with "
            "--dev FILE."
        ) from None
    except RPCError as error:
        raise RunError(f"The server at {address} refuses the namespace {namespace!r}: {error}") from None

    async with Worker(client, runner, task_queue=task_queue, deps=deps):
        print(f"Working on the queue {task_queue!r} of {address}; Ctrl-C ends it.", file=sys.stderr, flush=True)
        await _wait_for_interrupt()
    raise KeyboardInterrupt


async def _wait_for_interrupt() -> None:
    """Wait for SIGINT or SIGTERM, so that the worker can end its calls; without signal handlers, until cancelled."""
    interrupted = asyncio.Event()
    loop = asyncio.get_running_loop()
    with suppress(NotImplementedError):  # on Windows, where Ctrl-C cancels the task
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, interrupted.set)
    await interrupted.wait()
