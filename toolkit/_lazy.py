"""Lazy loading of modules: those of a package's public names, and those that display a value."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from types import MappingProxyType

NO_EXTRAS: Mapping[str, str] = MappingProxyType({})
# Names in this library, by the names that other libraries use.
OTHER_NAMES = MappingProxyType(
    {
        **dict.fromkeys(("Agent", "AgentExecutor", "ToolCallingAgent", "create_agent", "create_react_agent"), "Runner"),
        **dict.fromkeys(("BaseTool", "FunctionTool"), "Tool"),
        **dict.fromkeys(("FunctionToolset", "ToolCollection", "ToolNode", "ToolRegistry", "Toolset"), "Toolbox"),
        **dict.fromkeys(("ToolBox", "ToolSet", "Toolkit"), "Toolbox"),
        **dict.fromkeys(("StructuredTool", "beta_tool", "function_tool"), "tool"),
        **dict.fromkeys(("Context", "RunContext", "RunContextWrapper", "ToolRuntime"), "ToolContext"),
        "InjectedToolArg": "ToolContext",
        **dict.fromkeys(("ModelRetry", "ToolException", "ToolFailed"), "ToolError"),
        **dict.fromkeys(("CancelToolCall", "ToolRejectError"), "Denied"),
        "DeferredToolRequests": "PendingApproval",
        **dict.fromkeys(("DeferredToolResults", "ToolApproved"), "Decision"),
        "ToolDenied": "Deny",
        "HumanInTheLoopMiddleware": "Console",
        **dict.fromkeys(("ContentToolResult", "ToolOutput", "ToolReturn"), "ToolResult"),
        **dict.fromkeys(("BinaryContent", "BinaryImage", "ToolOutputImage"), "Image"),
        **dict.fromkeys(("MaxTurnsExceeded", "UsageLimitExceeded"), "LimitError"),
        **dict.fromkeys(("APIError", "ModelHTTPError", "RateLimitError"), "ModelError"),
        **dict.fromkeys(("ModelBehaviorError", "UnexpectedModelBehavior"), "ModelError"),
        **dict.fromkeys(("InputGuardrailTripwireTriggered", "OutputGuardrailTripwireTriggered"), "Halt"),
        "ToolNotFound": "ToolNotFoundError",
        "ToolTimeoutError": "TimedOut",
        "InvalidArgs": "InvalidArguments",
        **dict.fromkeys(("AgentResult", "AgentRunResult"), "RunResult"),
        **dict.fromkeys(("Conversation", "InMemorySaver", "MemorySaver"), "Session"),
        "SqliteSaver": "SQLiteSession",
        "RunUsage": "Usage",
        "UsageLimits": "Limits",
        "AIMessage": "ModelResponse",
        "ToolCallPart": "ToolCall",
        **dict.fromkeys(("ChatOpenAI", "OpenAIChatModel", "OpenAIServerModel"), "OpenAIModel"),
        "OpenAIChatCompletionsModel": "OpenAIModel",
        "OpenAIResponsesModel": "ResponsesModel",
        "RateLimiter": "RateLimitedModel",
        "HumanMessage": "UserMessage",
        **dict.fromkeys(("FakeListChatModel", "FunctionModel", "MockModel", "TestModel"), "ScriptedModel"),
        "FastMCP": "make_server",
        **dict.fromkeys(("MCPClient", "MCPServerStdio", "MCPServerStreamableHttp", "MCPToolset"), "MCP"),
        **dict.fromkeys(("MCPServer", "MCPServerHTTP", "MultiServerMCPClient"), "MCP"),
        **dict.fromkeys(("CodeAgent", "ProgrammaticToolCallingTool", "PythonInterpreterTool"), "code_tool"),
        "ToolSearchTool": "ToolSearch",
        "ShellTool": "shell_tool",
        "UserInputTool": "ask_user_tool",
        "VisitWebpageTool": "http_tool",
        **dict.fromkeys(("DuckDuckGoSearchTool", "WebSearchTool"), "web_search_tool"),
    }
)


def lazy_names(
    scope: dict[str, object], homes: Mapping[str, Sequence[str]], extras: Mapping[str, str] = NO_EXTRAS
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """Return a package's `__getattr__`, `__dir__` and `__all__`.

    Args:
        scope: The package's `globals()`.
        homes: Public names by the module that defines them.
        extras: Names of extras by the packages that they install.
    """
    names = sorted(name for defined in homes.values() for name in defined)

    def load(name: str) -> object:
        home = next((home for home, defined in homes.items() if name in defined), None)
        if home is None:
            raise _explain_missing(name, str(scope["__name__"]), names)

        try:
            # First: two threads, one of which imports a package and the other a part of it, would wait for each other.
            import_module(home.rpartition(".")[0])
            module = import_module(home)
        except ModuleNotFoundError as error:
            extra = extras.get((error.name or "").partition(".")[0])
            if extra is None:
                raise
            raise ImportError(f'{name} needs an extra: pip install "function-toolkit[{extra}]".') from error
        except AttributeError as error:  # `from package import name` would hide it
            raise ImportError(f"{name} cannot be imported: {error}") from error

        scope[name] = getattr(module, name)  # the next access bypasses `__getattr__`
        return scope[name]

    return load, lambda: sorted({*scope, *names}), names


@contextmanager
def needs_extra(what: str, extra: str) -> Iterator[None]:
    """Explain a failed import in the block, which imports libraries of an extra for a feature.

    Raises:
        ImportError: A library is not installed. The message names the extra.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "toolkit":
            raise
        raise ImportError(f'{what} needs an extra: pip install "function-toolkit[{extra}]".') from error


def _explain_missing(name: str, module: str, names: Sequence[str]) -> Exception:
    """Make the error about a name that a module lacks.

    Its message has the module that has the name, or the name that this library uses for it.
    """
    ours = OTHER_NAMES.get(name, name)
    if name.startswith("_"):
        home = ""
    elif ours in names:
        home = module
    else:
        home = _find_home(ours, module)
    if not home:
        return AttributeError(f"module {module!r} has no attribute {name!r}")
    place = f"in {home}" if ours == name else f"called {ours} here"
    return ImportError(f"{name} is {place}: write from {home} import {ours}.")


def _find_home(name: str, module: str) -> str:
    """Return the public module that has a name, or "" if there is none, or if the name is a submodule of `module`."""
    from importlib.util import find_spec  # needed only for errors
    from pathlib import Path

    if hasattr(sys.modules[module], "__path__") and find_spec(f"{module}.{name}"):
        return ""
    root = Path(__file__).parent
    for file in sorted(root.rglob("*.py"), key=lambda file: (len(file.parts), file)):
        place = ".".join(file.relative_to(root.parent).with_suffix("").parts).removesuffix(".__init__")
        if "._" not in place and f'"{name}"' in file.read_text("utf-8"):
            with suppress(ImportError):  # an extra is not installed
                if name in getattr(import_module(place), "__all__", ()):
                    return place

    return ""


def render(value: object, renderer: str) -> str:
    """Render a value by a function of `toolkit.display`, such as "cards.render_tool", which is loaded here."""
    module, name = renderer.split(".")
    text: str = getattr(import_module(f"toolkit.display.{module}"), name)(value)
    return text
