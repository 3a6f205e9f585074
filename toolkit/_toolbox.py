"""Toolbox: tools by name, their schemas for a provider, and calls of them without a Runner."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from inspect import Parameter
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, TypeVar, get_args, overload

from pydantic_core import from_json, to_json
from typing_extensions import Self

from toolkit._concurrency.async_backend import AsyncBackend
from toolkit._concurrency.backend import Backend, is_async, run_sync
from toolkit._concurrency.cancellation import Cancellation
from toolkit._concurrency.sync_backend import SyncBackend
from toolkit._context import ToolContext, use_context
from toolkit._dialects.base import CUT_TEXT, Dialect, is_cut_off
from toolkit._dialects.catalog import DIALECTS, DialectName, find_dialect, is_from_langchain
from toolkit._execution.approval import Approver
from toolkit._execution.dispatcher import Dispatcher
from toolkit._execution.gates import NO_APPROVER, Gates
from toolkit._execution.parallel import ParallelCalls
from toolkit._execution.references import may_refer
from toolkit._lazy import render
from toolkit._messages import ToolCall, ToolResult
from toolkit._options import check_methods, explain_missing, find_misfit, make_hints
from toolkit._schema.arguments import RawArguments
from toolkit._schema.error_messages import suggest
from toolkit._schema.json_text import to_json_text
from toolkit._tools.addable import (
    Addable,
    ToolSource,
    describe_conflict,
    exchange_tools,
    is_redefined,
    is_source,
    list_tools,
)
from toolkit._tools.bindings import AnyTool, Bindings, check_activity, table_lock
from toolkit._tools.check import CheckReport, check_tools
from toolkit._tools.decorator import add_defaults, check_defaults, tool_methods
from toolkit._tools.options import ToolOptions
from toolkit._tools.shared_values import META_SCHEMAS, SharedValues, Values
from toolkit._tools.tool import CONTEXT_REMEDY, check_deps, safe_name
from toolkit.errors import DefinitionError, DuplicateToolError, Failed, ToolNotFoundError

if TYPE_CHECKING:
    from toolkit._tools.definitions import Fingerprint

Wait: TypeAlias = Literal["all", "success", "first"]
F = TypeVar("F", bound=Callable[..., Any])
NO_DEFAULTS = ToolOptions()
# Names of tools in its representation.
MAX_NAMES = 10
# Added to the refusal of a call that needs approval, for the caller.
HINT = " Pass approve=..., such as approve=Console()."


@check_methods(
    make_hints(
        ("format provider api", "Write dialect=..."),
        ("namespace prefix", "Write Toolbox([...]).prefixed(...)."),
        ("on_conflict", "Write box.add(f, replace=True)."),
        ("strict_docs", "Toolbox.check() reports gaps."),
        ("authorize hooks middleware", "It is an option of Runner."),
    )
)
class Toolbox:
    """Tools by name. Add tools, plain functions, and objects with methods that are decorated with `@tool`.

    An object with `name`, `parameters` (a JSON Schema) and a method `execute` is one tool. It may also have `title`,
    `description`, `effect`, `authorize` and `approve`.

    You can iterate over a toolbox, and use `box["name"]`, `"name" in box`, `len(box)` and `box | other`.

    Args:
        tools: Tools, functions, objects, and sources such as `toolkit.sources.mcp.MCP`.
        strict: Whether providers enforce the schemas, if they can be rewritten without loss. For tools without their
            own `strict`.
        references: Whether a call may use the result of another call: `_outputPath` stores a result under a path, and
            an argument `†path` is replaced by this result.
        check_output: Whether to validate return values by the return annotation or the schema. An invalid value makes
            the call fail. Valid values are converted to the declared type.
        defaults: Options of `@tool` about execution and gates, and `relay`, for tools that do not set them, such as
            `{"timeout": 30, "retries": 2}`. Retries apply only to tools that may be repeated.

    Attributes:
        bindings: The functions that are bound with `bind`, the choices between them, and modules.

    Raises:
        DuplicateToolError: Two tools have one name.
        DefinitionError: An item cannot be a tool.
        TypeError: `tools` is not a list, or there is no such option.

    Examples:
        >>> def add(a: int, b: int) -> int:
        ...     '''Add two numbers.'''
        ...     return a + b
        >>> box = Toolbox([add])
        >>> box.call("add", '{"a": 1, "b": 2}').value
        3
    """

    def __init_subclass__(cls) -> None:
        """Refuse methods that are tools: they would not be in the toolbox.

        Raises:
            DefinitionError: The class has such a method.
        """
        super().__init_subclass__()
        if methods := tool_methods(cls):
            raise DefinitionError(
                f"The tool {methods[0]!r} of {cls.__qualname__} would not be in the toolbox: write the class without "
                f"Toolbox as its base, and Toolbox([{cls.__name__}()])."
            )

    def __init__(
        self,
        tools: Iterable[Addable] = (),
        *,
        strict: bool | None = None,
        references: bool = False,
        check_output: bool = False,
        defaults: ToolOptions = NO_DEFAULTS,
    ) -> None:
        for name, value in {"strict": strict, "references": references, "check_output": check_output}.items():
            if not isinstance(value, (bool, type(None))):
                raise DefinitionError(f"Toolbox({name}={value!r:.100}) is not True or False.")
        self.strict = strict
        self.check_output = check_output
        self.defaults: Mapping[str, Any] = check_defaults(defaults)
        self.bindings: Bindings = Bindings(_meta=META_SCHEMAS if references else {})
        self._schemas = _RenderedSchemas()
        self._sources: list[_AddedSource] = []

        if isinstance(tools, (str, Mapping)) or not isinstance(tools, Iterable):
            advice = "also for a single one."
            if isinstance(tools, str):
                advice = "with the function itself, not its name. Pass a model as Runner(model=...)."
            raise TypeError(
                f"A toolbox is made of a list of tools, not of {tools!r:.100}: write Toolbox([...]) or Runner([...]), "
                f"{advice}"
            )
        self.add(*tools)

    @classmethod
    def from_object(cls, instance: object, prefix: str = "") -> Self:
        """Make a toolbox from the methods of an object that are decorated with `@tool`.

        Args:
            instance: An instance, not a class.
            prefix: As for `prefixed`.

        Raises:
            DefinitionError: No method is a tool, or `instance` is a class.
        """
        owner = instance if inspect.isclass(instance) else type(instance)
        if not tool_methods(owner):
            raise DefinitionError(
                f"No method of {owner.__qualname__} is a tool: decorate those that a model may call with @tool."
            )
        return cls([instance]).prefixed(prefix)

    @property
    def references(self) -> bool:
        """True if calls may refer to the results of other calls."""
        return bool(self.bindings._meta)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the tools, in order."""
        return tuple(self.bindings._tools)

    def add(self, *tools: Addable, replace: bool = False) -> None:
        """Add tools. If one of them is refused, none is added.

        Args:
            *tools: As for the constructor.
            replace: Whether a tool may replace a tool of the same name. In a notebook or a Python prompt, a function
                that is defined or added again always replaces the old one.

        Raises:
            DuplicateToolError: There is a tool of this name. The message names both.
            DefinitionError: An item cannot be a tool, or is a method without its instance.
        """
        listings = [item.current_tools() if is_source(item) else (item,) for item in tools]
        groups = [self._make_tools(listed) for listed in listings]
        with table_lock:
            added = dict(self.bindings._tools)
            for tool in chain.from_iterable(groups):
                if tool.name in added and not (replace or is_redefined(self.bindings._tools.get(tool.name), tool)):
                    raise DuplicateToolError(
                        f"{describe_conflict(added[tool.name], tool)} Give one another name=, put a prefix with "
                        "Toolbox.prefixed(), or take its place with Toolbox.add(..., replace=True)."
                    )
                added[tool.name] = tool
            self.bindings._tools = added
            for item, listed, group in zip(tools, listings, groups):
                if is_source(item):
                    self._sources.append(_AddedSource(item, listed, group))

    def replace(self, *tools: Addable) -> None:
        """Replace the tools that have the same names.

        Raises:
            ToolNotFoundError: There is no tool of this name to replace.
        """
        new = {tool.name: tool for tool in self._make_tools(tools)}
        with table_lock:
            for name in new:
                _ = self[name]  # raises if there is none
            self.bindings._tools = {**self.bindings._tools, **new}

    def remove(self, *items: str | ToolSource) -> None:
        """Remove tools. If one of them is missing, none is removed.

        Args:
            *items: Names of tools; or sources such as an MCP server, all of whose tools are removed.

        Raises:
            ToolNotFoundError: There is no tool of this name, or the source was not added.
        """
        with table_lock:
            sources = self._sources
            tools = self.bindings._tools
            removed = {self[name].name for name in items if not is_source(name)}

            for item in filter(is_source, items):
                found = [added for added in sources if added.source is item]
                if not found:
                    raise ToolNotFoundError(f"{item!r:.100} was not added to this toolbox.")
                for added in found:
                    removed |= {tool.name for tool in added.tools if tools.get(tool.name) is tool}
                sources = [added for added in sources if added.source is not item]

            self._sources = sources
            self.bindings._tools = {name: tool for name, tool in tools.items() if name not in removed}

    def get(self, name: str) -> AnyTool | None:
        """Return a tool, or None if there is none of this name."""
        return self.bindings._compose().get(name)

    def prefixed(self, prefix: str) -> Self:
        """Copy the toolbox with a prefix before each name. A name over 64 characters is cut and ends in a hash.

        A function that is bound under a tool's name is bound under the longer name in the copy. Tools that a source
        adds later are not in the copy.
        """
        if not isinstance(prefix, str):
            raise TypeError(f"prefixed({prefix!r:.100}) takes a text: prefixed('shop_').")
        tools = self.bindings._tools
        names = {name: safe_name(prefix + name) for name in tools}
        return self._with((tool.with_name(names[name]) for name, tool in tools.items()), self.bindings._rename(names))

    def filtered(self, keep: Callable[[AnyTool], bool]) -> Self:
        """Copy the toolbox with the tools for which `keep`, a sync function, returns True."""
        # An async function would keep every tool, since a coroutine is true.
        if not callable(keep) or is_async(keep) or find_misfit(keep, object()):
            raise TypeError(
                f"filtered({keep!r:.100}) takes a sync function: filtered(lambda tool: tool.name == 'add')."
            )
        tools = self.bindings._tools
        composed = self.bindings._compose()
        kept = {name: tool for name, tool in tools.items() if name in composed and keep(composed[name])}
        return self._with(kept.values(), self.bindings._rename({name: name for name in kept}))

    def snapshot(self) -> Mapping[str, AnyTool]:
        """Return the current tools by name, with the functions that execute them. Later changes are not included.

        The mapping stays the same until something changes. Changes of sources are read first.
        """
        with table_lock:
            for position, added in enumerate(self._sources):
                listed = added.source.current_tools()
                if listed is not added.listed:
                    new = self._make_tools(listed)
                    self._sources[position] = _AddedSource(added.source, listed, new)
                    self.bindings._tools = exchange_tools(self.bindings._tools, added.tools, new)
        return self.bindings._compose()

    @overload
    def bind(self, name: str) -> Callable[[F], F]: ...
    @overload
    def bind(self, name: str, function: Callable[..., Any]) -> None: ...
    def bind(self, name: str, function: Any = Parameter.empty) -> Any:
        """Bind the function that executes a tool, before or after the tool is added. Also as `@box.bind("weather")`.

        The function gets the arguments by their names. If it has one parameter, of another name, this gets all
        arguments as one object. Three parameters of other names get this object, the tool and the context. A parameter
        annotated ToolContext gets the context. Values are converted to the annotated types, and defaults are filled in.
        A function that was bound before is replaced, from the next call or run on.

        Args:
            name: The name of the tool, or another name for a tool's `activity` or `box.bindings.choose`.
            function: Sync or async.

        Raises:
            DefinitionError: The function cannot be called, or the name is not text.
        """
        if function is not Parameter.empty:
            return self.bindings._bind(name, function)
        check_activity(name)  # `@box.bind` without a name would bind nothing

        def decorate(function: F) -> F:
            self.bindings._bind(name, function)
            return function

        return decorate

    def unbind(self, name: str) -> None:
        """Remove a bound function.

        Raises:
            ToolNotFoundError: Nothing is bound under this name.
        """
        self.bindings._unbind(name)

    def override(self, name: str, function: Callable[..., Any] | None) -> AbstractContextManager[None]:
        """Replace the function that executes a tool inside a `with` block, for example in a test.

        It applies to the thread or task that enters the block, and to calls, runs, tasks and `asyncio.to_thread` that
        start inside it. Other threads and tasks are not affected, nor is a `threading.Thread` that starts inside it,
        except on free-threaded Python.

        Args:
            name: A tool's name, or that of a bound function.
            function: As for `bind`; None leaves the tool to the model.

        Raises:
            ToolNotFoundError: No tool, bound function or choice has this name.
        """
        return self.bindings._override(name, function)

    def schemas(self, dialect: DialectName = "chat", *, strict: bool | None = None) -> list[Any]:
        """Return the schemas of the tools for a provider, as dicts. They are cached, so do not change them.

        For type checkers, they have the types of the provider's package.

        Args:
            dialect: The format of a provider, such as "chat", "responses", "anthropic" or "gemini".
            strict: Whether the provider enforces the schemas. By default the toolbox's setting, or else False. If True,
                pass the same `strict` to `answer`, since the model then writes arguments in the strict form.

        Raises:
            ValueError: There is no such dialect.
            DefinitionError: A tool cannot be described to a model, or to this provider.
        """
        renderer = self._make_dialect(dialect, strict=strict)
        tools = self.snapshot()
        # Kept in a variable, since another thread may change the tools meanwhile.
        rendered = self._schemas
        if rendered.tools is not tools:
            rendered = self._schemas = _RenderedSchemas(tools)
        key = (dialect, renderer.strict)
        if key not in rendered.by_form:
            rendered.by_form[key] = [_render(renderer, tool) for tool in tools.values()]
        return list(rendered.by_form[key])

    def sizes(self, dialect: DialectName = "chat", *, strict: bool | None = None) -> dict[str, int]:
        """Return the size of each schema, in bytes of JSON. A token is about four bytes.

        Args:
            dialect: As for `schemas`.
            strict: As for `schemas`.

        Raises:
            ValueError: There is no such dialect.
            DefinitionError: A tool cannot be described to a model, or to this provider.
        """
        renderer = self._make_dialect(dialect, strict=strict)
        return {name: len(to_json(_render(renderer, tool))) for name, tool in self.snapshot().items()}

    def check(self, dialect: DialectName = "chat") -> CheckReport:
        """Report problems that a model or a provider may have: names, missing descriptions, size, unbound tools."""
        return check_tools(self, self._make_dialect(dialect), self.bindings)

    def lock(self, path: str | os.PathLike[str], *, update: bool = False) -> None:
        """Compare the tools with their definitions in a file, or write the file.

        A definition is everything that a model sees of a tool, its effect and its source. Commit the file and call
        `lock` in a test, to notice changes of your own tools and of tools from servers.

        Args:
            path: The file, such as "tools.lock.json".
            update: Whether to write the file: the first time, and when the differences are correct.

        Raises:
            DefinitionError: The tools differ: the message has a line for each difference. Or the file does not exist,
                or is not a lock.
            OSError: The file cannot be read or written.
        """
        from toolkit._tools.definitions import check_lock

        check_lock(path, self, update=update)

    def fingerprint(self) -> Fingerprint:
        """Make digests of the tools and of this toolbox's settings, to compare two processes.

        For a sub-agent, only the declaration is included. `Runner.fingerprint` also includes its tools.

        Raises:
            DefinitionError: A tool cannot be described to a model.
        """
        from toolkit._tools.definitions import make_fingerprint

        settings = {"references": self.references or None, "check_output": self.check_output or None}
        return make_fingerprint(self.snapshot().values(), {"strict": self.strict, **settings})

    def answer(
        self,
        reply: Any,
        dialect: DialectName = "chat",
        *,
        strict: bool | None = None,
        context: ToolContext[Any] | None = None,
        approve: Approver | None = None,
        shared: Values = None,
    ) -> list[Any]:
        """Execute the calls in a provider's reply at the same time, for your own loop.

        Args:
            reply: The response object of the provider's client, or the same data as a dict.
            dialect: As for `schemas`.
            strict: As for `schemas`.
            context: The value of parameters annotated ToolContext.
            approve: As for `call`.
            shared: As for `call_many`. Pass the same SharedValues for all replies to keep stored results.

        Returns:
            The messages that answer the calls, as dicts. An empty list if there are no calls. If the reply was cut off,
            at its token limit or by a filter, its calls do not run: each gets an error.

        Raises:
            ValueError: The reply has calls, but in another dialect, or of LangChain.
            TypeError: The reply is None, or a text, which is a reply only in the dialect "calls".
        """
        parallel = _make_parallel(self._make_dispatcher(approve), context, SyncBackend(), shared)
        return run_sync(self._answer(reply, self._make_dialect(dialect, strict=strict), parallel))

    async def aanswer(
        self,
        reply: Any,
        dialect: DialectName = "chat",
        *,
        strict: bool | None = None,
        context: ToolContext[Any] | None = None,
        approve: Approver | None = None,
        shared: Values = None,
    ) -> list[Any]:
        """Do what `answer` does, in the running event loop."""
        parallel = _make_parallel(self._make_dispatcher(approve), context, AsyncBackend(), shared)
        return await self._answer(reply, self._make_dialect(dialect, strict=strict), parallel)

    def call(
        self,
        name: str,
        arguments: RawArguments = "{}",
        context: ToolContext[Any] | None = None,
        *,
        approve: Approver | None = None,
        shared: Values = None,
    ) -> ToolResult:
        """Execute one call by the tool's name. Errors of the tool are returned as a result, not raised.

        Args:
            name: The tool's name, as the model wrote it.
            arguments: JSON text as the model wrote it, or a mapping.
            context: The value of a parameter annotated ToolContext.
            approve: An approver, as for `Runner`. Without it a call whose tool requires approval is refused.
            shared: As for `call_many`.

        Raises:
            FatalError: The tool raised it.
            DefinitionError: The tool cannot be described to a model.
            TypeError: The tool takes `ToolContext[X]`, and the context has no such deps.
        """
        return run_sync(self._call(name, arguments, context, SyncBackend(), shared, approve))

    async def acall(
        self,
        name: str,
        arguments: RawArguments = "{}",
        context: ToolContext[Any] | None = None,
        *,
        approve: Approver | None = None,
        shared: Values = None,
    ) -> ToolResult:
        """Do what `call` does, in the running event loop. A sync tool runs in its own thread."""
        context = use_context(context)
        with Cancellation(parent=context.cancellation) as cancellation:
            context = replace(context, cancellation=cancellation)
            return await self._call(name, arguments, context, AsyncBackend(), shared, approve)

    def call_many(
        self,
        calls: Iterable[ToolCall],
        context: ToolContext[Any] | None = None,
        *,
        wait: Wait = "all",
        approve: Approver | None = None,
        shared: Values = None,
    ) -> list[ToolResult]:
        """Execute calls at the same time, and return their results.

        If the toolbox has `references`, a call waits for the calls whose results it uses.

        Args:
            calls: Calls, such as those of `toolkit.calls.parse_calls`. A call may occur twice.
            context: The value of parameters annotated ToolContext.
            wait: "all" waits for every call. "success" waits for the first call that succeeds, "first" for the first
                call that ends. Both then cancel the other calls.
            approve: As for `call`.
            shared: Values by dotted path, for references and for the context. A SharedValues also stores results for
                later calls.

        Returns:
            With "all", a result for each call, in call order; failures are results, too. With "success" and "first", a
            list with one result: the first one, or an error with the reasons of all calls if none succeeds.

        Raises:
            FatalError: A tool raised it.
            TypeError: Something other than a ToolCall is among the calls, or a tool takes deps that the context lacks.
            ValueError: There is no such `wait`, or a shared value is not JSON.
        """
        parallel = _make_parallel(self._make_dispatcher(approve, HINT), context, SyncBackend(), shared)
        return run_sync(self._call_many(calls, wait, parallel))

    async def acall_many(
        self,
        calls: Iterable[ToolCall],
        context: ToolContext[Any] | None = None,
        *,
        wait: Wait = "all",
        approve: Approver | None = None,
        shared: Values = None,
    ) -> list[ToolResult]:
        """Do what `call_many` does, in the running event loop. Sync tools run in their own threads."""
        parallel = _make_parallel(self._make_dispatcher(approve, HINT), context, AsyncBackend(), shared)
        return await self._call_many(calls, wait, parallel)

    def __getitem__(self, name: str) -> AnyTool:
        _check_name(name)
        composed = self.bindings._compose()
        if name not in composed:
            raise ToolNotFoundError(f"There is no tool {name!r}{suggest(name, composed)}")
        return composed[name]

    def __contains__(self, item: object) -> bool:
        if isinstance(item, str):
            return item in self.bindings._tools
        return item in self.bindings._tools.values() or item in self.bindings._compose().values()

    def __iter__(self) -> Iterator[AnyTool]:
        return iter(tuple(self.bindings._compose().values()))

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_schemas": _RenderedSchemas()}  # a cache

    def __len__(self) -> int:
        return len(self.bindings._tools)

    def __or__(self, other: Toolbox) -> Self:
        if not isinstance(other, Toolbox):
            return NotImplemented
        tools = [*self.bindings._tools.values(), *other.bindings._tools.values()]
        joined = self._with(tools, other._copy_bindings() | self._copy_bindings())
        joined.check_output = self.check_output or other.check_output
        joined.strict = other.strict if self.strict is None else self.strict
        return joined

    def __repr__(self) -> str:
        if not self.names:
            return "<Toolbox, empty>"
        more = ", ..." if len(self) > MAX_NAMES else ""
        return f"<Toolbox of {len(self)}: {', '.join(self.names[:MAX_NAMES])}{more}>"

    if not TYPE_CHECKING:  # type checkers report missing attributes themselves
        __getattr__ = explain_missing(
            ("tool tool_plain", "@tool of toolkit, and pass the function: Toolbox([f])"),
            ("add_function add_tool append register register_tool", "box.add(f)"),
            ("call_tool dispatch execute invoke run", "box.call(name, arguments)"),
            ("execute_tool_calls handle_tool_call handle_tool_calls process", "box.answer(reply)"),
            ("combine extend import_server merge mount", "box | other"),
            ("all_definitions definitions get_schemas schema tool_definitions", 'box.schemas("chat")'),
            ("openai_schema specs to_dict to_openai to_openai_tools", 'box.schemas("chat")'),
            ("to_anthropic", 'box.schemas("anthropic")'),
            ("approval_required", "Toolbox([...], defaults={'approve': True})"),
            ("from_fastapi from_openapi", "Toolbox(openapi_tools(document)), of toolkit.sources.openapi"),
            ("disable exclude filter include only select subset without", "box.filtered(function)"),
            ("functions get_tools list_tools tools", "[*box]"),
            ("get_tool", "box[name]"),
            ("rename renamed", "Toolbox([f.with_name(name)])"),
            ("remove_tool unregister", "box.remove(name)"),
            ("all any race", "box.call_many(calls, wait=...)"),
            ("calls_schema", "calls_schema(box), of toolkit.calls"),
            ("parse_calls", "parse_calls(box, reply), of toolkit.calls"),
            ("tool_names", "box.names"),
        )

    def _repr_html_(self) -> str:
        return render(self, "cards.render_toolbox")

    def _make_tools(self, items: Sequence[Addable]) -> list[AnyTool]:
        tools = chain.from_iterable(map(list_tools, items))
        return [add_defaults(tool, self.defaults) for tool in tools] if self.defaults else [*tools]

    def _copy_bindings(self) -> Bindings:
        return self.bindings._rename({name: name for name in self.names})

    def _with(self, tools: Iterable[AnyTool], bindings: Bindings) -> Self:
        box = type(self)(tools, strict=self.strict, check_output=self.check_output)
        box.defaults = self.defaults  # not passed above, since the tools have the defaults already
        bindings._tools = box.bindings._tools
        box.bindings = bindings
        return box

    def _make_dialect(self, name: str, *, strict: bool | None = None) -> Dialect:
        return DIALECTS[name](strict=bool(self.strict if strict is None else strict))

    async def _answer(self, reply: Any, dialect: Dialect, parallel: ParallelCalls) -> list[dict[str, Any]]:
        if reply is None or (isinstance(reply, str) and not dialect.reads_text):
            raise TypeError(f"answer({reply!r:.100}) takes the whole reply of the model, and not its text.")
        if is_from_langchain(reply):
            raise ValueError("These are calls of LangChain: its agents take to_langchain(box), of toolkit.adapters.")

        specs = [tool._spec for tool in self]
        calls = dialect.parse_calls(reply, specs)
        if not calls and (other := find_dialect(reply)):
            raise ValueError(
                f"The calls in this reply are of the dialect {other!r}, not {dialect.name!r}: pass dialect={other!r}."
            )

        refused = [ToolResult.from_error(Failed(CUT_TEXT)) for _ in calls] if is_cut_off(reply) else None
        results = refused or await parallel.all(calls)
        truncated = map(parallel.dispatcher.truncate, calls, results)
        return dialect.render_results([*zip(calls, truncated)], specs)

    async def _call(
        self,
        name: str,
        arguments: RawArguments,
        context: ToolContext[Any] | None,
        backend: Backend,
        shared: Values,
        approve: Approver | None,
    ) -> ToolResult:
        _check_name(name)
        call = ToolCall(name=name, arguments=to_json_text(arguments))
        dispatcher = self._make_dispatcher(approve, HINT)
        tool = dispatcher.tools.get(name)
        if shared is not None or may_refer(tool):
            (result,) = await _make_parallel(dispatcher, context, backend, shared).all([call])
            return result

        context = replace(use_context(context), tool_name=name)
        if tool:
            check_deps(tool, context.deps, CONTEXT_REMEDY)
        return await dispatcher.dispatch(call, context, backend)

    async def _call_many(self, calls: Iterable[ToolCall], wait: Wait, parallel: ParallelCalls) -> list[ToolResult]:
        if wait not in get_args(Wait):
            raise ValueError(f'wait={wait!r:.100} is not "all", "success" or "first".')
        if wait == "all":
            return await parallel.all(calls)
        return [await parallel.first(calls, needs_success=wait == "success")]

    def _make_dispatcher(self, approve: Approver | None, hint: str = "") -> Dispatcher:
        """Make the dispatcher of calls without a run. `hint` is added to the refusal of a call without an approver."""
        if approve is not None and not callable(approve):
            raise TypeError(
                f"approve={approve!r:.100} is not a function of an ApprovalRequest, such as Console() or approve_all."
            )
        return Dispatcher(
            tools=self.snapshot(),
            gates=Gates(approvers=() if approve is None else (approve,), no_approver=NO_APPROVER + hint),
            check_output=self.check_output,
        )


@dataclass(frozen=True)
class _RenderedSchemas:
    """Schemas that were rendered, valid until the tools change.

    Attributes:
        tools: The tools.
        by_form: Their schemas, by dialect and strictness.
    """

    tools: Mapping[str, AnyTool] | None = None
    by_form: dict[tuple[str, bool], list[dict[str, Any]]] = field(default_factory=dict)


class _AddedSource(NamedTuple):
    """A source of a toolbox, its last listing, and the tools that were made from the listing."""

    source: ToolSource
    listed: tuple[object, ...]
    tools: list[AnyTool]


def make_toolbox(tools: Toolbox | Iterable[Addable]) -> Toolbox:
    """Return a toolbox unchanged, and make one of items."""
    return tools if isinstance(tools, Toolbox) else Toolbox(tools)


def _check_name(name: object) -> None:
    if not isinstance(name, str):
        remedy = "pass it to call_many([...])" if isinstance(name, ToolCall) else "pass the name"
        raise TypeError(f"A toolbox finds its tools by name, not by {name!r:.100}: {remedy}.")


def _make_parallel(
    dispatcher: Dispatcher, context: ToolContext[Any] | None, backend: Backend, shared: Values
) -> ParallelCalls:
    return ParallelCalls(dispatcher, use_context(context), backend, SharedValues.of(shared))


def _render(dialect: Dialect, tool: AnyTool) -> dict[str, Any]:
    """Render a tool as plain data that shares nothing with it."""
    try:
        copy: dict[str, Any] = from_json(to_json(dialect.render_tool(tool._spec)))
    except ValueError as error:  # a schema whose references are replaced may be deep
        raise DefinitionError(f"{tool.origin}: its schema cannot be sent in this dialect: {error}") from None
    return copy
