"""Tools by name, in the order in which they came, and beside them what carries them out.

A toolbox: tools shown to providers, and calls carried out by name.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from inspect import Parameter
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar, overload

from pydantic_core import from_json, to_json
from typing_extensions import Self

from toolkit._concurrency.async_backend import AsyncBackend
from toolkit._concurrency.backend import Backend, run_sync
from toolkit._concurrency.cancellation import Cancellation
from toolkit._concurrency.sync_backend import SyncBackend
from toolkit._context import ToolContext
from toolkit._dialects import get_dialect
from toolkit._dialects.base import Dialect
from toolkit._dialects.calls import Calls, parse_calls, reply_schema
from toolkit._execution.dispatcher import Dispatcher
from toolkit._execution.parallel import ParallelCalls, is_finished, is_success
from toolkit._execution.references import allows_references
from toolkit._messages import ToolCall, ToolResult
from toolkit._schema.arguments import RawArguments
from toolkit._schema.error_messages import suggest
from toolkit._schema.json_text import find_ambiguity, strip_fence, to_json_text
from toolkit._tools.bindings import AnyTool, Bindings, Choice, refuse_unbound
from toolkit._tools.check import CheckReport, check_tools
from toolkit._tools.decorator import tool, tool_methods
from toolkit._tools.delegation import Answerer, AnsweringRunner
from toolkit._tools.shared_values import ABOUT, SharedValues, Values
from toolkit._tools.tool import Tool, safe_name
from toolkit.errors import DefinitionError, DuplicateToolError, ToolError

Addable: TypeAlias = AnyTool | Callable[..., Any]
F = TypeVar("F", bound=Callable[..., Any])


class Collection:
    """Tools by name, and what carries them out: two tables, filled in any order.

    What it gives, one by one or all together, are tools as they are carried out now.
    """

    def __init__(self, tools: Iterable[Addable] = (), *, strict: bool | None = None, references: bool = False) -> None:
        self.strict = strict
        self._tools: Mapping[str, AnyTool] = {}
        self._bindings = Bindings(about=ABOUT if references else {})
        if not isinstance(tools, Iterable):
            raise DefinitionError(
                f"A toolbox is made of a list of tools, not of {tools!r}: write Toolbox([...]), "
                f"or Toolbox.from_object(instance) for an object whose methods are tools."
            )
        self.add(*tools)

    @classmethod
    def from_object(cls, instance: object, prefix: str = "") -> Self:
        """Make a toolbox of an object's methods that are decorated with `@tool`, bound to it.

        Raises:
            DefinitionError: None of its methods is a tool.
        """
        if inspect.isclass(instance):
            raise DefinitionError(f"Toolbox.from_object() takes an instance: write {instance.__name__}(...).")
        methods = tool_methods(type(instance))
        if not methods:
            owner = type(instance).__qualname__
            raise DefinitionError(f"No method of {owner} is a tool: decorate those that a model may call with @tool.")
        box = cls(getattr(instance, name) for name in methods)
        return box.prefixed(prefix) if prefix else box

    @property
    def references(self) -> bool:
        """Whether calls may refer to the results of others."""
        return bool(self._bindings.about)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the tools, in order."""
        return tuple(self._tools)

    def add(self, *tools: Addable) -> None:
        """Put tools in; all of them or, where one cannot be, none.

        Raises:
            DuplicateToolError: A name is taken; the message names both owners.
            DefinitionError: One is no tool, or a method without its instance.
        """
        added = dict(self._tools)
        for made in map(_as_tool, tools):
            if made.name in added:
                raise DuplicateToolError(
                    f"Tool {made.name!r} is already in this toolbox: it came from {added[made.name].origin}, and "
                    f"{made.origin} has the same name. Give one another name=, put a prefix with Toolbox.prefixed(), "
                    f"or take its place with Toolbox.replace()."
                )
            added[made.name] = made
        self._tools = added

    def replace(self, *tools: Addable) -> None:
        """Put tools in the places of those with the same names.

        Raises:
            DefinitionError: There is no tool of this name to replace.
        """
        changed = dict(self._tools)
        for made in map(_as_tool, tools):
            if made.name not in changed:
                raise DefinitionError(f"There is no tool {made.name!r} to replace{suggest(made.name, self.names)}")
            changed[made.name] = made
        self._tools = changed

    def remove(self, *names: str) -> None:
        """Take tools out; all of them or, where one is not there, none.

        Raises:
            KeyError: There is no tool of this name.
        """
        gone = {self[name].name for name in names}
        self._tools = {name: kept for name, kept in self._tools.items() if name not in gone}

    @overload
    def bind(self, name: str) -> Callable[[F], F]: ...
    @overload
    def bind(self, name: str, function: Callable[..., Any]) -> None: ...
    def bind(self, name: str, function: Any = Parameter.empty) -> Any:
        """Say what carries a tool out, now or before the tool is there; also as a decorator, `@box.bind("weather")`.

        The function takes the tool's parameters by their names, or, by a single parameter of another name, all of them
        as one; a parameter annotated ToolContext gets the context. Values are converted to the types that it says, and
        defaults that the tool says are filled in. What was bound under the name before gives way.

        Args:
            name: The tool's; or any other name, which a tool's `activity` or `choose` mentions.
            function: Sync or async.

        Raises:
            DefinitionError: It cannot be called.
        """
        if function is not Parameter.empty:
            return self._bindings.bind(name, function)

        def bound(function: F) -> F:
            self._bindings.bind(name, function)
            return function

        return bound

    def unbind(self, name: str) -> None:
        """Take back what `bind` said.

        Raises:
            KeyError: Nothing is bound under this name.
        """
        self._bindings.unbind(name)

    def override(self, name: str, function: Callable[..., Any] | None) -> AbstractContextManager[None]:
        """Put a function in the place of what carries a tool out, in a `with` block, and take it back at its end.

        It holds for the thread or task that enters the block, and for the calls, runs, tasks and `asyncio.to_thread`
        that start inside it; others see nothing of it. A `threading.Thread` that is made there is one of the others,
        unless Python hands the context on.

        Args:
            name: The tool's, or that of what is bound.
            function: As for `bind`; None leaves the tool to the model.

        Raises:
            KeyError: There is no such tool, nothing is bound under this name, and no tool or choice mentions it.
        """
        known = [*self._tools, *self._mentioned(), *self._bindings.functions]
        if isinstance(name, str) and name not in known:
            raise KeyError(f"There is nothing to override as {name!r}{suggest(name, known)}")
        return self._bindings.override(name, function)

    @overload
    def module(self, name: str) -> Callable[[F], F]: ...
    @overload
    def module(self, name: str, carrier: AnsweringRunner | Answerer) -> None: ...
    def module(self, name: str, carrier: Any = Parameter.empty) -> Any:
        """Say what carries out the tools of a module for which nothing is bound; also as a decorator.

        It knows nothing of the run that makes a call: it gets the tool's description, the arguments, and the values
        that the tool imports. Its answer has to be what the tool gives.

        Args:
            name: What a tool's `module` says.
            carrier: A Runner, whose model answers in a run of its own, with instructions and tools of its own; what
                came of that run stands in the result's `details`. Or a function, sync or async, of the call, the tool
                and the imports.

        Raises:
            DefinitionError: It is neither.
        """
        if carrier is not Parameter.empty:
            return self._bindings.module(name, carrier)

        def answers(function: F) -> F:
            self._bindings.module(name, function)
            return function

        return answers

    def choose(self, tool: str, activity: Choice | None) -> None:
        """Say which of several things that are bound carries a tool out, from the next run on.

        Args:
            tool: The tool's name.
            activity: What is bound under this name; "" leaves the tool to the model; None takes the choice back. Or a
                function that says one of these, asked whenever tools are composed: for the environment, for example.
        """
        self._bindings.choose(tool, activity)

    def activity_of(self, name: str) -> str:
        """Tell what carries a tool out now; empty where the model does.

        Raises:
            KeyError: There is no tool of this name.
        """
        return activity_of(self[name])

    def get(self, name: str) -> AnyTool | None:
        """Find a tool; None where there is none."""
        return self._composed().get(name)

    def prefixed(self, prefix: str) -> Self:
        """Make a toolbox of the same tools with longer names; one that gets too long ends in a hash of itself."""
        names = {name: safe_name(prefix + name) for name in self._tools}
        return self._with((made.with_name(names[name]) for name, made in self._tools.items()), self._table(names))

    def filtered(self, keep: Callable[[AnyTool], bool]) -> Self:
        """Make a toolbox of the tools that `keep` says yes to."""
        return self._with((self._tools[made.name] for made in self if keep(made)), self._table())

    def snapshot(self) -> Mapping[str, AnyTool]:
        """Compose the tools as they are carried out now; a run works on such a view."""
        return MappingProxyType(dict(self._composed()))

    def _mentioned(self) -> Iterator[str]:
        """List the names of what tools and choices say that carries a tool out."""
        said = (*(made.activity for made in self._tools.values()), *self._bindings.choices.values())
        return (name for name in said if isinstance(name, str) and name)

    def _composed(self) -> Mapping[str, AnyTool]:
        return self._bindings.composed(self._tools)

    def _table(self, names: Mapping[str, str] | None = None) -> Bindings:
        return self._bindings.renamed(names or dict(zip(self.names, self.names)))

    def _with(self, tools: Iterable[AnyTool], bindings: Bindings) -> Self:
        made = type(self)(tools, strict=self.strict)
        made._bindings = bindings  # noqa: SLF001  of the same class
        return made

    def __getitem__(self, name: str) -> AnyTool:
        if name not in self._tools:
            raise KeyError(f"There is no tool {name!r}{suggest(name, self.names)}")
        return self._composed()[name]

    def __contains__(self, item: object) -> bool:
        if isinstance(item, str):
            return item in self._tools
        return item in self._tools.values() or item in self._composed().values()

    def __iter__(self) -> Iterator[AnyTool]:
        return iter(tuple(self._composed().values()))

    def __len__(self) -> int:
        return len(self._tools)

    def __or__(self, other: Self) -> Self:
        joined = self._with([*self._tools.values(), *other._tools.values()], other._table() | self._table())
        joined.strict = other.strict if self.strict is None else self.strict
        return joined

    def __repr__(self) -> str:
        return f"<Toolbox of {len(self)}: {', '.join(self.names)}>" if self._tools else "<Toolbox, empty>"


def activity_of(made: AnyTool) -> str:
    """Tell what carries a composed tool out; empty where the model does."""
    said = made.handler.activity
    return made.name if said is None else said


def _as_tool(item: Addable) -> AnyTool:
    if item is None or isinstance(item, (list, tuple, Collection)):
        what = "None" if item is None else "a list of them: write Toolbox([*tools])"
        raise DefinitionError(f"A toolbox takes tools and functions; one of them is {what}.")
    made = item if isinstance(item, Tool) else tool(item)
    refuse_unbound(made, "add")
    return made


class Toolbox(Collection):
    """Tools by name. A plain function that is put in becomes a tool.

    Args:
        tools: Tools and functions.
        strict: Whether providers are to enforce the schemas of tools that do not say so themselves, where that is
            lossless.
        references: Whether calls may refer to the results of others: `_outputPath` says where a result is kept, and an
            argument `†path` stands for it.

    Raises:
        DuplicateToolError: Two of them have one name.

    Example:
        >>> def add(a: int, b: int) -> int:
        ...     '''Add two numbers.'''
        ...     return a + b
        >>> box = Toolbox([add])
        >>> box.call("add", '{"a": 1, "b": 2}').value
        3
    """

    def __init__(self, tools: Iterable[Addable] = (), *, strict: bool | None = None, references: bool = False) -> None:
        super().__init__(tools, strict=strict, references=references)
        self._shown: tuple[object, dict[tuple[str, bool], list[dict[str, Any]]]] = (None, {})

    def schemas(self, dialect: str = "chat", *, strict: bool | None = None) -> list[dict[str, Any]]:
        """Show the tools as a provider wants them. The schemas are kept: read them, do not change them.

        Args:
            dialect: "chat", "responses", "anthropic", "gemini", "mcp", "minimal" or "calls".
            strict: Whether the provider is to enforce them; the toolbox's own setting, or else False, by default. What
                comes back then has another form than the tools' own: `answer` reads it.

        Raises:
            ValueError: There is no such dialect.
            DefinitionError: A tool cannot be described to a model, or to this provider.
        """
        key, tools = (dialect, self._enforced(strict)), self._composed()
        if self._shown[0] is not tools:
            self._shown = tools, {}
        kept = self._shown[1]
        if key not in kept:
            show = get_dialect(dialect, strict=key[1]).tool
            kept[key] = from_json(to_json([show(made.spec) for made in tools.values()]))  # this toolbox's own
        return list(kept[key])

    def check(self, dialect: str = "chat") -> CheckReport:
        """Look for what a model or its provider may stumble over: names, missing texts, size, what is left out."""
        return check_tools(self, get_dialect(dialect, strict=self._enforced()), self._bindings)

    def answer(
        self,
        reply: Any,
        dialect: str = "chat",
        *,
        strict: bool | None = None,
        context: ToolContext[Any] | None = None,
        shared: Values = None,
    ) -> list[dict[str, Any]]:
        """Carry out the calls in a provider's reply, all at the same time, for a loop of your own.

        Args:
            reply: What the provider's client returned, or the same as plain data.
            dialect: As for `schemas`.
            strict: As for `schemas`.
            context: What a parameter annotated ToolContext gets.
            shared: As for `all`; one Shared for all replies keeps the results of each for those that follow.

        Returns:
            The messages that answer the calls, each exactly once; none where there are no calls.
        """
        spoken, shares = get_dialect(dialect, strict=self._enforced(strict)), SharedValues.of(shared)
        return run_sync(self._answer(reply, spoken, context, SyncBackend(), shares))

    async def aanswer(
        self,
        reply: Any,
        dialect: str = "chat",
        *,
        strict: bool | None = None,
        context: ToolContext[Any] | None = None,
        shared: Values = None,
    ) -> list[dict[str, Any]]:
        """Do what `answer` does, in the running loop."""
        spoken, shares = get_dialect(dialect, strict=self._enforced(strict)), SharedValues.of(shared)
        return await self._answer(reply, spoken, context, AsyncBackend(), shares)

    def call(
        self, name: str, words: RawArguments = "{}", context: ToolContext[Any] | None = None, *, shared: Values = None
    ) -> ToolResult:
        """Carry out a call by name; a tool's fault is a result, not an exception.

        Args:
            name: The tool's, as the model wrote it.
            words: The arguments, as the model wrote them.
            context: What a parameter annotated ToolContext gets.
            shared: As for `all`.

        Raises:
            FatalError: The tool raised it.
            DefinitionError: The tool cannot be described to a model.
        """
        return run_sync(self._carry_out(name, words, context, SyncBackend(), shared))

    async def acall(
        self, name: str, words: RawArguments = "{}", context: ToolContext[Any] | None = None, *, shared: Values = None
    ) -> ToolResult:
        """Carry out a call by name in the running loop; a sync tool gets a thread of its own."""
        own = context or ToolContext(deps=None)
        with Cancellation(parent=own.cancellation) as left:
            return await self._carry_out(name, words, replace(own, cancellation=left), AsyncBackend(), shared)

    def calls_schema(self, *, strict: bool | None = None) -> dict[str, Any]:
        """Compose the schema of a reply that lists calls, for a model or a server without tool calling.

        An object whose `calls` are each of one tool: `_tool` and `_activity` as constants and what else is said about a
        call in front, its arguments behind; and whose `output` is the answer, where there are no calls.

        Args:
            strict: Whether to write it so that OpenAI enforces it; as for `schemas`.

        Raises:
            DefinitionError: A tool cannot be described to a model.
        """
        specs = [replace(made.spec, activity=activity_of(made)) for made in self]
        schema: dict[str, Any] = from_json(to_json(reply_schema(specs, dialect=Calls(self._enforced(strict)))))
        return schema

    def parse_calls(self, text: RawArguments, *, strict: bool | None = None) -> tuple[ToolCall, ...]:
        """Read a reply of the schema that `calls_schema` makes; `run` and `all` carry out what is in it.

        Args:
            text: The reply, be it in a Markdown fence; or the object, where something else has read the text.
            strict: As for the schema.

        Raises:
            ToolError: It is no such reply, or readers of JSON disagree about it; the text is for the model.
        """
        reply = strip_fence(to_json_text(text))
        if parse_calls(reply) is None:
            raise ToolError('Invalid reply: it is no JSON object with a list "calls". Send one whole object.')
        if doubt := find_ambiguity(reply):
            raise ToolError(f"Invalid reply: {doubt}. Send one JSON object with each key once.")
        return Calls(self._enforced(strict)).calls(reply, [made.spec for made in self])

    def run(self, call: ToolCall, context: ToolContext[Any] | None = None, *, shared: Values = None) -> ToolResult:
        """Carry out a call that was made, or kept, as data; a tool's fault is a result, as in `call`."""
        return run_sync(self._callings(context, SyncBackend(), shared).one(call))

    async def arun(
        self, call: ToolCall, context: ToolContext[Any] | None = None, *, shared: Values = None
    ) -> ToolResult:
        """Do what `run` does, in the running loop."""
        return await self._callings(context, AsyncBackend(), shared).one(call)

    def all(
        self, calls: Iterable[ToolCall], context: ToolContext[Any] | None = None, *, shared: Values = None
    ) -> list[ToolResult]:
        """Carry calls out at the same time; the results, failures too, in the order of the calls.

        Where the toolbox has `references`, a call waits for those whose results it refers to.

        Args:
            calls: Of tools in this toolbox, or of none.
            context: What a parameter annotated ToolContext gets.
            shared: Values by dotted path, which calls may refer to and find in their context. In a Shared, results are
                kept for later calls, too.

        Raises:
            FatalError: A tool raised it.
            ValueError: A value is no JSON.
        """
        return run_sync(self._callings(context, SyncBackend(), shared).all(calls))

    async def aall(
        self, calls: Iterable[ToolCall], context: ToolContext[Any] | None = None, *, shared: Values = None
    ) -> list[ToolResult]:
        """Do what `all` does, in the running loop."""
        return await self._callings(context, AsyncBackend(), shared).all(calls)

    def any(
        self, calls: Iterable[ToolCall], context: ToolContext[Any] | None = None, *, shared: Values = None
    ) -> ToolResult:
        """Carry calls out until one succeeds, and give the others up; an error that has all of theirs, if none does."""
        return run_sync(self._callings(context, SyncBackend(), shared).first(calls, is_success))

    async def aany(
        self, calls: Iterable[ToolCall], context: ToolContext[Any] | None = None, *, shared: Values = None
    ) -> ToolResult:
        """Do what `any` does, in the running loop."""
        return await self._callings(context, AsyncBackend(), shared).first(calls, is_success)

    def race(
        self, calls: Iterable[ToolCall], context: ToolContext[Any] | None = None, *, shared: Values = None
    ) -> ToolResult:
        """Carry calls out until one ends, well or not, and give the others up."""
        return run_sync(self._callings(context, SyncBackend(), shared).first(calls, is_finished))

    async def arace(
        self, calls: Iterable[ToolCall], context: ToolContext[Any] | None = None, *, shared: Values = None
    ) -> ToolResult:
        """Do what `race` does, in the running loop."""
        return await self._callings(context, AsyncBackend(), shared).first(calls, is_finished)

    def _enforced(self, *wanted: bool | None) -> bool:
        return next((said for said in (*wanted, self.strict) if said is not None), False)

    async def _answer(
        self, reply: Any, dialect: Dialect, context: ToolContext[Any] | None, backend: Backend, shared: SharedValues
    ) -> list[dict[str, Any]]:
        specs = [made.spec for made in self]
        calls = dialect.calls(reply, specs)
        results = await self._callings(context, backend, shared).all(calls)
        return dialect.answers([*zip(calls, results)], specs)

    def _callings(self, context: ToolContext[Any] | None, backend: Backend, shared: Values) -> ParallelCalls:
        own = context or ToolContext(deps=None)
        return ParallelCalls(Dispatcher(tools=self._composed()), own, backend, SharedValues.of(shared))

    async def _carry_out(
        self, name: str, words: RawArguments, context: ToolContext[Any] | None, backend: Backend, shared: Values
    ) -> ToolResult:
        call, tools = ToolCall(name=name, arguments=to_json_text(words)), self._composed()
        if shared is not None or allows_references(tools.get(name)):
            return await self._callings(context, backend, shared).one(call)
        own = replace(context, tool_name=name) if context else ToolContext(deps=None, tool_name=name)
        return await Dispatcher(tools=tools).dispatch(call, own, backend)
