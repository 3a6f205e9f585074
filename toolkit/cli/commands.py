"""The commands, each about the tools of a file or module."""

from __future__ import annotations

import json
import shlex
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from enum import Enum
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, NoReturn, get_args

import typer

from toolkit import (
    ModelError,
    Runner,
    RunResult,
    Session,
    SQLiteRuns,
    Tool,
    Toolbox,
    ToolError,
    ToolkitError,
    ToolNotFoundError,
    ToolResult,
    __version__,
)
from toolkit._dialects.catalog import DialectName
from toolkit._execution.approval import ApprovalRequest, Approver, Decision, Verdict
from toolkit._messages import PendingApproval, UserMessage
from toolkit._runner.prompt import make_user_message
from toolkit._runner.stream import RunStream
from toolkit._schema.error_messages import suggest, summarize_signature
from toolkit._tools.check import CHARACTERS_PER_TOKEN
from toolkit._tools.tool import check_deps
from toolkit.approvers import Console, approve_all, ask_when
from toolkit.cli.arguments import make_command
from toolkit.cli.conversations import open_session, print_conversations
from toolkit.cli.demonstration import demo as run_demo
from toolkit.cli.files import find_toolbox, find_values, load_tools
from toolkit.cli.inspecting import Inspector, defer_changes
from toolkit.display import show
from toolkit.events import event_to_dict
from toolkit.serve.local import parse_address

HELP = ["-h", "--help"]
ONE_TOOL = "A single tool is called by: toolkit call {file} TOOL"
OWN_DIRECTORY = str(Path(__file__).parent)
app = typer.Typer(
    help="Let a language model call the Python functions of a file.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # brackets in a tool's description are text
    context_settings={"help_option_names": HELP},
)


class Approval(str, Enum):
    """The calls that a person is asked about."""

    changes = "changes"
    all = "all"
    none = "none"


Target = Annotated[str, typer.Argument(metavar="FILE", help="tools.py, package.module, or with a name: tools.py:box")]
AllFunctions = Annotated[bool, typer.Option("--all", help="Take the file's functions as they are, undecorated too.")]
Model = Annotated[str | None, typer.Option("--model", "-m", help="The model's name, or 'embedded'.")]
Server = Annotated[str | None, typer.Option(help="An OpenAI-compatible server, such as http://localhost:11434/v1")]
Instructions = Annotated[str | None, typer.Option("--instructions", "-i", help="The system message.")]
Turns = Annotated[int | None, typer.Option("--max-turns", min=1, help="Requests to the model, at most.")]
Approve = Annotated[
    Approval | None,
    typer.Option(help="Ask before calls labelled write or destructive ('changes', the default), 'all', or 'none'."),
]
Name = Annotated[str | None, typer.Argument(metavar="TOOL", help="One tool; otherwise all.")]
LockFile = Annotated[Path, typer.Option("--lock", help="The file with the definitions.")]
UpdateLock = Annotated[bool, typer.Option("--update", help="Write the file, the first time or again.")]
Called = Annotated[str | None, typer.Argument(metavar="TOOL", help="Its name; without it, the tools are listed.")]
Continue = Annotated[bool, typer.Option("--continue", "-c", help="Continue the latest conversation.")]
SessionName = Annotated[
    str | None, typer.Option("--session", "-s", help="Start or continue the conversation of this name.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print events as JSON, one a line.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print the answer alone.")]


def _check_dialect(name: str) -> str:
    if name not in get_args(DialectName):
        raise typer.BadParameter(f"there is no dialect {name!r}{suggest(name, get_args(DialectName))}")
    return name


Dialect = Annotated[str, typer.Option(help=f"One of {', '.join(get_args(DialectName))}.", callback=_check_dialect)]


def run_command(arguments: Sequence[str]) -> int:
    """Run a command line, and return its exit code."""
    try:
        app([*arguments], prog_name="toolkit")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    return 0


def report_errors(function: Callable[..., None]) -> Callable[..., None]:
    """Decorate a command: an error of the package is one line on standard error, and exit code 1."""

    @wraps(function)
    def run(*args: Any, **options: Any) -> None:
        try:
            function(*args, **options)
        except ToolkitError as error:
            _fail(error)
        except KeyboardInterrupt:
            raise typer.Exit(130) from None

    return run


def _fail(error: object) -> NoReturn:
    print(f"toolkit: {error}", file=sys.stderr)
    raise typer.Exit(1)


@app.callback(invoke_without_command=True)
def _options(*, version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False) -> None:
    if version:
        print(f"toolkit {__version__}")
        raise typer.Exit


@app.command(context_settings={"allow_extra_args": True})
@report_errors
def run(
    context: typer.Context,
    file: Target,
    prompt: Annotated[
        str | None, typer.Argument(metavar="PROMPT", help="Read from standard input if it is '-' or missing.")
    ] = None,
    *,
    all_functions: AllFunctions = False,
    model: Model = None,
    base_url: Server = None,
    instructions: Instructions = None,
    max_turns: Turns = None,
    approve: Approve = None,
    session: SessionName = None,
    goes_on: Continue = False,
    attach: Annotated[list[Path] | None, typer.Option("--attach", "-a", help="A picture, PDF or text file.")] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Answer one prompt with the tools of a file.

    The answer goes to standard output; in a pipe, the calls go to standard error.
    """
    if context.args:
        raise typer.BadParameter(f"write it in quotes. {ONE_TOOL.format(file=file)}", param_hint="PROMPT")
    runner = _make_runner(
        file,
        all_functions=all_functions,
        approve=approve,
        model=model,
        base_url=base_url,
        instructions=instructions,
        max_turns=max_turns,
    )
    if quiet:
        runner._factory.model_choice.announces = False
    if prompt in (None, "-") and not sys.stdin.isatty():
        prompt = sys.stdin.read()
    if prompt in (None, "-") or not prompt.strip():
        raise typer.BadParameter("write it, or pipe it in", param_hint="PROMPT")
    stream = runner.stream(_attach(prompt, attach or ()), session=open_session(file, session, continues=goes_on))
    _end_run(_print_run(stream, as_json=as_json, quiet=quiet))


@app.command()
@report_errors
def chat(
    file: Target,
    *,
    all_functions: AllFunctions = False,
    model: Model = None,
    base_url: Server = None,
    instructions: Instructions = None,
    max_turns: Turns = None,
    approve: Approve = None,
    session: SessionName = None,
    goes_on: Continue = False,
) -> None:
    """Talk to a model that has the tools of a file.

    Ctrl-C cancels an answer. Ctrl-D, 'exit' or 'quit' ends the conversation.
    """
    runner = _make_runner(
        file,
        all_functions=all_functions,
        approve=approve,
        model=model,
        base_url=base_url,
        instructions=instructions,
        max_turns=max_turns,
    )
    print(f"{runner.model.name}, with {', '.join(runner.toolbox.names) or 'no tools'}. Ctrl-D ends the conversation.")
    conversation = open_session(file, session, continues=goes_on)
    for prompt in iter(_read_prompt, None):
        _answer(runner, prompt, conversation)


@app.command()
@report_errors
def resume(
    file: Target,
    run_id: Annotated[
        str | None, typer.Argument(metavar="RUN_ID", help="The run. Without it, those that have not ended.")
    ] = None,
    *,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Go on with a run that was saved, such as after a crash.

    The file has a Runner with checkpoint=SQLiteRuns("runs.db"). Calls that wait for approval are asked about.
    """
    runner, _ = _load(file, all_functions=False)
    saved = None if runner is None else runner._factory.options.get("checkpoint")
    if runner is None or not isinstance(saved, SQLiteRuns):
        _fail(f'{file} has no Runner that saves its runs: write Runner(..., checkpoint=SQLiteRuns("runs.db")) there.')
    unfinished = saved.unfinished()
    if run_id is None:
        for each, phase in unfinished.items():
            print(f"{each}  {phase}")
        if not unfinished:
            print("toolkit: every saved run has ended.", file=sys.stderr)
        return
    if run_id not in unfinished:
        _fail(f"No run {run_id!r:.100} can go on. These can: {', '.join(unfinished) or 'none'}.")
    state = saved.load(run_id)
    stream = runner.stream(state, decisions={each.call.id: _decide(each) for each in state.pending})
    _end_run(_print_run(stream, as_json=as_json, quiet=quiet))


@app.command()
@report_errors
def logs(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="One conversation; otherwise all are listed.")
    ] = None,
) -> None:
    """Show the conversations of `run` and `chat`, the latest first."""
    print_conversations(name)


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []})
@report_errors
def call(context: typer.Context, file: Target, tool: Called = None, *, all_functions: AllFunctions = False) -> None:
    """Call one tool; its parameters are options.

    For example: toolkit call tools.py add --a 1 --b 2. The options are in: toolkit call tools.py add --help.
    A call whose tool requires approval is asked about, or approved by --yes.
    """
    if file in HELP:
        print(context.get_help())
        raise typer.Exit
    toolbox = _load(file, all_functions=all_functions)[1]
    if tool is None or tool in HELP:
        _print_list(toolbox)
        raise typer.Exit(2 if tool is None else 0)
    chosen = _get_tool(toolbox, tool)
    _refuse_deps(chosen)
    if value := next((each for each in context.args[:1] if not each.startswith("-")), None):
        name = next(
            (f"--{name.replace('_', '-')} {shlex.quote(value)}" for name in chosen.parameters["properties"]), ""
        )
        text = f"write its parameter in front: {name}" if name else f"{chosen.name} takes no arguments"
        raise typer.BadParameter(text, param_hint=shlex.quote(value))

    def print_result(arguments: str, is_approved: bool) -> None:  # noqa: FBT001  the command passes it
        result = toolbox.call(chosen.name, arguments, approve=approve_all if is_approved else _ask_if_required)
        if result.is_error:
            _fail(_describe_error(chosen.name, result))
        print(result.text)

    command = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    command.command(context_settings={"help_option_names": HELP})(make_command(chosen, print_result))
    command(context.args, prog_name=f"toolkit call {file} {tool}")


@app.command("list")
@report_errors
def list_tools(
    file: Target,
    *,
    all_functions: AllFunctions = False,
    sizes: Annotated[bool, typer.Option("--sizes", help="Print what each one adds to a request.")] = False,
) -> None:
    """List the tools of a file."""
    toolbox = _load(file, all_functions=all_functions)[1]
    if sizes:
        _print_sizes(toolbox.sizes())
    else:
        _print_list(toolbox)


@app.command()
@report_errors
def schema(
    file: Target,
    tool: Name = None,
    *,
    all_functions: AllFunctions = False,
    dialect: Dialect = "chat",
    strict: bool = False,
) -> None:
    """Print the schemas that a provider receives."""
    toolbox = _load(file, all_functions=all_functions)[1]
    if tool is not None:
        chosen = _get_tool(toolbox, tool)
        toolbox = toolbox.filtered(lambda each: each is chosen)
    schemas = toolbox.schemas(dialect, strict=strict or None)  # type: ignore[arg-type]  # checked by the option
    print(json.dumps(schemas, indent=2, ensure_ascii=False))


@app.command()
@report_errors
def check(file: Target, *, all_functions: AllFunctions = False, dialect: Dialect = "chat") -> None:
    """Report what a model or provider may fail at.

    The exit code is 1 with errors or warnings.
    """
    report = _load(file, all_functions=all_functions)[1].check(dialect)  # type: ignore[arg-type]
    print(report)
    if report.at_least("warning"):
        raise typer.Exit(1)


@app.command()
@report_errors
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
    runner = _make_runner(
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
        _fail(f"Port {port} cannot be used: {error.strerror}. Leave out --port to take a free one.")
    print(f"Open {server.url} in a browser; Ctrl-C ends it.", flush=True)
    with server:
        server.serve_forever()


@app.command()
@report_errors
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
    with redirect_stdout(sys.stderr):  # standard output is the client's
        runner, toolbox = _load(file, all_functions=all_functions)
    if runner is not None:
        _fail(f"{file} has a Runner, whose gates would not hold for a client. {_suggest_toolbox(file)}")
    for tool in toolbox:
        _refuse_deps(tool)
    try:
        from toolkit.serve import mcp
        from toolkit.serve.prompts import Prompt, Resource
    except ImportError as error:
        _fail(error)
    if http is not None:
        host, port = parse_address(http)
        print(f"http://{host}:{port}/mcp", file=sys.stderr)
    prompts, resources = (find_values(file, kind).values() for kind in (Prompt, Resource))
    name = Path(file.partition(":")[0]).stem
    mcp.serve(toolbox, http=http, name=name, prompts=prompts, resources=resources)


def _serve_agent(file: str, *, all_functions: bool, http: str | None) -> None:
    runner = _make_runner(file, all_functions=all_functions, approve=None)
    try:
        from toolkit.serve import a2a
    except ImportError as error:
        _fail(error)
    host, port = parse_address(http or a2a.PORT)
    print(f"http://{host}:{port}", file=sys.stderr)
    a2a.serve(runner, http=f"{host}:{port}", name=Path(file.partition(":")[0]).stem)


@app.command()
@report_errors
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
    runner, _ = _load(file, all_functions=False)
    if runner is None:
        _fail(f"{file} has no Runner. Clients and workers need the same one: write runner = Runner(...) there.")
    if dev is not None and (address is not None or namespace != "default"):
        _fail("--dev starts a server of its own: leave out --address and --namespace.")
    try:
        from toolkit.cli.working import work
    except ImportError:
        _fail('Durable runs need an extra. Install it with: pip install "function-toolkit[temporal]"')
    work(runner, address=address, namespace=namespace, queue=queue, file=dev)


@app.command()
@report_errors
def lock(
    file: Target,
    *,
    all_functions: AllFunctions = False,
    path: LockFile = Path("tools.lock.json"),
    update: UpdateLock = False,
) -> None:
    """Check the tools against the definitions in a file, or write them there by --update.

    The exit code is 1 if they differ, or there is no such file.
    """
    box = _load(file, all_functions=all_functions)[1]
    try:
        box.lock(path, update=update)
    except OSError as error:
        _fail(f"{path} cannot be used: {error.strerror}. Name another file with --lock.")
    print(f"{path}: {len(box)} tools {'written' if update else 'as before'}")


@app.command()
@report_errors
def demo(base_url: Server = None, model: Model = None) -> None:
    """Watch a language model call three small functions."""
    run_demo(base_url=base_url, model=model)


def _load(file: str, *, all_functions: bool) -> tuple[Runner | None, Toolbox]:
    """Return the Runner of a file, if it has one, and its toolbox; an error of the file is shown from its own lines."""
    try:
        tools = load_tools(file, all_functions=all_functions)
    except ToolkitError:
        raise
    except SystemExit as end:
        guard = 'if __name__ == "__main__":'
        _fail(f"{file} ended the program while it was imported, by sys.exit({end.code!r}). Put that under: {guard}")
    except Exception as error:  # noqa: BLE001  whatever the file raises
        trace = error.__traceback__
        while trace and trace.tb_frame.f_code.co_filename.startswith((OWN_DIRECTORY, "<frozen importlib")):
            trace = trace.tb_next
        traceback.print_exception(type(error), error, trace)
        if isinstance(error, ModuleNotFoundError):
            _fail(f"{file} needs the module {error.name!r}. Install it for this Python: {sys.executable}")
        raise typer.Exit(1) from None
    return (tools, tools.toolbox) if isinstance(tools, Runner) else (None, tools)


def _make_runner(
    file: str, *, all_functions: bool, approve: Approval | None, approver: Approver | None = None, **options: Any
) -> Runner:
    """Return the file's Runner as it is, or a Runner of its tools with the options of the command line."""
    given = {name: value for name, value in options.items() if value is not None}
    runner, toolbox = _load(file, all_functions=all_functions)
    for tool in toolbox:
        _refuse_deps(tool)
    if runner is None:
        try:
            return Runner(toolbox, approve=approver or _make_approver(approve or Approval.changes), **given)
        except ValueError as error:  # such as a base_url without http://
            _fail(error)
    if given or approve:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in (*given, *(["approve"] if approve else [])))
        _fail(f"{names} cannot change the Runner in {file}. Set it there. {_suggest_toolbox(file)}")
    return runner


def _suggest_toolbox(file: str) -> str:
    """Suggest what to name in place of a file with a Runner."""
    if named := find_toolbox(file):
        return f"Or name its toolbox: {named}."
    return "Or write box = Toolbox([...]) there, and add :box to the file's name here."


def _refuse_deps(tool: Tool[..., Any]) -> None:
    """Refuse a tool that takes something of the application that the command does not have."""
    try:
        check_deps(tool, None, "the command has none to pass; run it from Python")
    except TypeError as error:
        _fail(error)


def _make_approver(approval: Approval) -> Approver:
    if approval is Approval.none:
        return approve_all
    console = _make_console()
    person = console if console.can_ask else _refuse_unasked
    return person if approval is Approval.all else ask_when(person, when=_changes_something)


def _make_console() -> Console:
    return Console(read=_read_answer if sys.stdin.isatty() else None, write=lambda text: print(text, file=sys.stderr))


def _refuse_unasked(_: ApprovalRequest) -> Verdict:
    return Decision.unavailable("There is no terminal to ask at; --approve none runs such calls unasked.")


def _ask_if_required(request: ApprovalRequest) -> Verdict:
    """Ask about a call that a person has typed, where its tool requires approval."""
    if not request.required:
        return True
    console = _make_console()
    return console(request) if console.can_ask else Decision.unavailable("There is no terminal to ask at: pass --yes.")


def _changes_something(request: ApprovalRequest) -> bool:
    return request.tool.settings.effect in ("write", "destructive")


def _read_answer(prompt: str) -> str:
    """Ask on standard error, since standard output may be a pipe."""
    print(prompt, end="", file=sys.stderr, flush=True)
    return input()


def _attach(prompt: str, files: Sequence[Path]) -> UserMessage:
    try:
        return make_user_message([prompt, *files])
    except (ValueError, OSError) as error:
        raise typer.BadParameter(str(error), param_hint="--attach") from None


def _print_run(stream: RunStream[Any], *, as_json: bool, quiet: bool) -> RunResult[Any]:
    if not (as_json or quiet):
        return show(stream) if sys.stdout.isatty() else _print_answer(show(stream, out=sys.stderr))
    with stream:
        for event in stream:
            if as_json:
                print(json.dumps(event_to_dict(event), ensure_ascii=False), flush=True)
    return stream.result if as_json else _print_answer(stream.result)


def _print_answer(result: RunResult[Any]) -> RunResult[Any]:
    if result.output not in (None, ""):
        print(result.output)
    return result


def _end_run(result: RunResult[Any]) -> None:
    if result.finish_reason != "stop":
        print(f"toolkit: {result}", file=sys.stderr)
        raise typer.Exit(3)


def _decide(pending: PendingApproval) -> Decision:
    """Ask about a call that waits; without a terminal it goes on waiting."""
    if not sys.stdin.isatty():
        return Decision.defer(pending.reason)
    imports = f" with {pending.imports}" if pending.imports else ""
    print(f"{pending.call.name}({pending.arguments}){imports}", file=sys.stderr)
    answer = _read_answer("Run it? [y]es, [n]o, anything else goes on waiting: ").strip().lower()
    return {"y": Decision.approve(), "n": Decision.reject()}.get(answer[:1], Decision.defer(pending.reason))


def _answer(runner: Runner, prompt: str, session: Session) -> None:
    """Show the answer to a prompt; without an answer, the conversation stays as it was."""
    try:
        show(runner.stream(prompt, session=session))
    except KeyboardInterrupt:
        print("Cancelled.")
    except ModelError as error:
        print(f"toolkit: {error}", file=sys.stderr)


def _read_prompt() -> str | None:
    """Read lines until one is a prompt; None at the end."""
    try:
        while not (prompt := input("> ").strip()):
            pass
    except (EOFError, KeyboardInterrupt):
        print()
        return None
    return None if prompt in ("exit", "quit") else prompt


def _describe_error(name: str, result: ToolResult) -> str | None:
    """Return what went wrong, to the person who wrote the tool: of any exception also the message."""
    if result.kind != "failed" or isinstance(result.exception, ToolError):
        return result.text
    return f"{name} raised {type(result.exception).__name__}: {result.exception}"


def _get_tool(toolbox: Toolbox, name: str) -> Tool[..., Any]:
    try:
        return toolbox[name]
    except ToolNotFoundError as error:
        _fail(f"{error}. With --all a file's undecorated functions are tools, too")


def _render_head(tool: Tool[..., Any]) -> str:
    """Render name and signature of a tool; one without a function has the types of its schema."""
    signature = tool._signature
    return summarize_signature(tool.name, tool.parameters) if signature == "(...)" else f"{tool.name}{signature}"


def _print_sizes(sizes: Mapping[str, int]) -> None:
    rows = {**sizes, "in all": sum(sizes.values())}
    width = max(map(len, rows))
    for name, size in rows.items():
        print(f"{name:<{width}}  {size:>9,} bytes  about {size // CHARACTERS_PER_TOKEN:>7,} tokens")


def _print_list(toolbox: Toolbox) -> None:
    for tool in toolbox:
        effect = f"  [{tool.settings.effect}]" if tool.settings.effect else ""
        print(f"{_render_head(tool)}{effect}")
        if tool.description:
            print(f"    {' '.join(tool.description.partition(chr(10) * 2)[0].split())}")
