"""Commands that serve the tools of a file: inspect, serve, worker; and the demonstration."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated

import typer

from toolkit.cli.demonstration import demo as run_demo
from toolkit.cli.files import find_values
from toolkit.cli.inspecting import Inspector, defer_changes
from toolkit.cli.options import AllFunctions, Instructions, Model, Server, Target, Turns, fail
from toolkit.cli.targets import load, make_runner, refuse_deps, suggest_toolbox
from toolkit.serve.local import parse_address


def inspect(
    file: Target,
    *,
    all_functions: AllFunctions = False,
    model: Model = None,
    base_url: Server = None,
    instructions: Instructions = None,
    max_turns: Turns = None,
    port: Annotated[int, typer.Option(help="The port on this machine; 0 takes a free one.", max=65_535)] = 0,
) -> None:
    """Try the tools of a file in the browser: call them in forms, and chat with a model that has them.

    Only this machine, with the address that is printed, reaches the page. Ctrl-C ends it.
    """
    runner = make_runner(
        file,
        all_functions=all_functions,
        approve=None,
        approver=defer_changes(),
        model=model,
        base_url=base_url,
        instructions=instructions,
        max_turns=max_turns,
    )
    runner._factory.model_choice.announces = False
    try:
        server = Inspector(runner, title=file, port=port)
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
        str | None, typer.Option(metavar="[HOST:]PORT", help="Serve HTTP, to this machine alone; MCP at /mcp.")
    ] = None,
    a2a: Annotated[
        bool, typer.Option("--a2a", help="Serve the Runner, or one with the tools, to A2A clients; at port 9000.")
    ] = False,
) -> None:
    """Serve the tools of a file to an MCP client, or its Runner to A2A clients.

    MCP is served over standard input and output, which the client has opened, or over HTTP. A call whose tool requires
    approval is put to the client's user. Functions with @prompt and @resource of toolkit.serve.mcp are served, too.
    """
    if a2a:
        _serve_agent(file, all_functions=all_functions, http=http)
        return
    try:
        from toolkit.serve import mcp
        from toolkit.serve.prompts import Prompt, Resource
    except ImportError as error:
        fail(error)
    with redirect_stdout(sys.stderr):  # standard output is the client's
        runner, toolbox = load(file, all_functions=all_functions, instead=(Prompt, Resource))
    if runner is not None:
        fail(f"{file} has a Runner, whose gates would not hold for a client. {suggest_toolbox(file)}")
    prompts, resources = find_values(file, Prompt).values(), find_values(file, Resource).values()
    for tool in (*toolbox, *(each.tool for each in prompts), *(each.tool for each in resources)):
        refuse_deps(tool)
    if http is not None:
        host, port = parse_address(http)
        print(f"http://{host}:{port}/mcp", file=sys.stderr)
    name = Path(file.partition(":")[0]).stem
    mcp.serve(toolbox, http=http, name=name, prompts=prompts, resources=resources)


def _serve_agent(file: str, *, all_functions: bool, http: str | None) -> None:
    runner = make_runner(file, all_functions=all_functions, approve=None)
    try:
        from toolkit.serve import a2a
    except ImportError as error:
        fail(error)
    host, port = parse_address(http or a2a.PORT)
    print(f"http://{host}:{port}", file=sys.stderr)
    a2a.serve(runner, http=f"{host}:{port}", name=Path(file.partition(":")[0]).stem)


def worker(
    file: Target,
    *,
    address: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="The Temporal server; on this machine by default.")
    ] = None,
    namespace: Annotated[str, typer.Option(help="The server's namespace.")] = "default",
    queue: Annotated[str, typer.Option("--queue", help="The task queue; clients use the same.")] = "toolkit",
    dev: Annotated[
        Path | None, typer.Option("--dev", metavar="DB", help="Start a development server with this file.")
    ] = None,
) -> None:
    """Work on durable runs of a file's Runner until Ctrl-C: needs the extra `temporal`."""
    runner, _ = load(file, all_functions=False)
    if runner is None:
        fail(f"{file} has no Runner. Clients and workers need the same one: write runner = Runner(...) there.")
    if dev is not None and (address is not None or namespace != "default"):
        fail("--dev starts a server of its own: leave out --address and --namespace.")
    try:
        from toolkit.cli.working import work
    except ImportError:
        fail('Durable runs need an extra. Install it with: pip install "function-toolkit[temporal]"')
    work(runner, address=address, namespace=namespace, queue=queue, file=dev)


def demo(base_url: Server = None, model: Model = None) -> None:
    """Watch a language model call three small functions."""
    run_demo(base_url=base_url, model=model)
