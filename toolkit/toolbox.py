"""A collection of tools: free of globals, in the order in which they came."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import replace
from types import MappingProxyType
from typing import Any, TypeAlias

from pydantic_core import from_json, to_json

from toolkit.arguments import Words
from toolkit.attempts import Tell
from toolkit.checks import Report, checked
from toolkit.context import ToolContext
from toolkit.decorator import tool, tool_methods
from toolkit.dialects import Dialect, dialect_named
from toolkit.dispatch import Dispatcher
from toolkit.doors import AsyncDoor, Door, SyncDoor, step
from toolkit.errors import DefinitionError, DuplicateToolError
from toolkit.events import ToolCallFinished
from toolkit.execution import execute
from toolkit.faults import close_to
from toolkit.jsontext import as_text
from toolkit.messages import ToolCall, ToolResult
from toolkit.naming import legal_name
from toolkit.tools import Tool

AnyTool: TypeAlias = Tool[..., Any]
Addable: TypeAlias = AnyTool | Callable[..., Any]


class Toolbox:
    """Tools by name. A plain function that is put in becomes a tool.

    Args:
        tools: Tools and functions.
        strict: Whether providers are to enforce the schemas of tools that do not say so themselves, where that is
            lossless.

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

    def __init__(self, tools: Iterable[Addable] = (), *, strict: bool | None = None) -> None:
        self.strict = strict
        self._tools: dict[str, AnyTool] = {}
        self._shown: dict[tuple[str, bool], list[dict[str, Any]]] = {}
        if not isinstance(tools, Iterable):
            raise DefinitionError(
                f"A toolbox is made of a list of tools, not of {tools!r}: write Toolbox([...]), "
                f"or Toolbox.from_object(instance) for an object whose methods are tools."
            )
        self.add(*tools)

    @classmethod
    def from_object(cls, instance: object, prefix: str = "") -> Toolbox:
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
        self._change(added)

    def replace(self, *tools: Addable) -> None:
        """Put tools in the places of those with the same names.

        Raises:
            DefinitionError: There is no tool of this name to replace.
        """
        changed = dict(self._tools)
        for made in map(_as_tool, tools):
            if made.name not in changed:
                raise DefinitionError(f"There is no tool {made.name!r} to replace{close_to(made.name, self.names)}")
            changed[made.name] = made
        self._change(changed)

    def remove(self, *names: str) -> None:
        """Take tools out; all of them or, where one is not there, none.

        Raises:
            KeyError: There is no tool of this name.
        """
        gone = {self[name].name for name in names}
        self._change({name: kept for name, kept in self._tools.items() if name not in gone})

    def get(self, name: str) -> AnyTool | None:
        """Find a tool; None where there is none."""
        return self._tools.get(name)

    def prefixed(self, prefix: str) -> Toolbox:
        """Make a toolbox of the same tools with longer names; one that gets too long ends in a hash of itself."""
        return Toolbox((made.renamed(legal_name(prefix + made.name)) for made in self), strict=self.strict)

    def filtered(self, keep: Callable[[AnyTool], bool]) -> Toolbox:
        """Make a toolbox of the tools that `keep` says yes to."""
        return Toolbox((made for made in self if keep(made)), strict=self.strict)

    def snapshot(self) -> Mapping[str, AnyTool]:
        """Freeze what is in the toolbox now; a run works on such a view."""
        return MappingProxyType(dict(self._tools))

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
        key = (dialect, self._enforced(strict))
        shown = self._shown.get(key)
        if shown is None:
            show = dialect_named(dialect, strict=key[1]).tool
            # No toolbox shares them with another.
            shown = self._shown[key] = from_json(to_json([show(made.spec) for made in self]))
        return list(shown)

    def check(self, dialect: str = "chat") -> Report:
        """Look for what a model or its provider may stumble over: names, missing texts, size, what is left out."""
        return checked(self, dialect_named(dialect, strict=self._enforced()))

    def answer(
        self,
        reply: Any,
        dialect: str = "chat",
        *,
        strict: bool | None = None,
        context: ToolContext[Any] | None = None,
    ) -> list[dict[str, Any]]:
        """Carry out the calls in a provider's reply, all at the same time, for a loop of your own.

        Args:
            reply: What the provider's client returned, or the same as plain data.
            dialect: As for `schemas`.
            strict: As for `schemas`.
            context: What a parameter annotated ToolContext gets.

        Returns:
            The messages that answer the calls, each exactly once; none where there are no calls.
        """
        return step(self._answer(reply, dialect_named(dialect, strict=self._enforced(strict)), context, SyncDoor()))

    async def aanswer(
        self,
        reply: Any,
        dialect: str = "chat",
        *,
        strict: bool | None = None,
        context: ToolContext[Any] | None = None,
    ) -> list[dict[str, Any]]:
        """Do what `answer` does, in the running loop."""
        spoken = dialect_named(dialect, strict=self._enforced(strict))
        return await self._answer(reply, spoken, context, AsyncDoor())

    def call(self, name: str, words: Words = "{}", context: ToolContext[Any] | None = None) -> ToolResult:
        """Carry out a call by name; a tool's fault is a result, not an exception.

        Args:
            name: The tool's, as the model wrote it.
            words: The arguments, as the model wrote them.
            context: What a parameter annotated ToolContext gets.

        Raises:
            FatalError: The tool raised it.
            DefinitionError: The tool cannot be described to a model.
        """
        return step(self._carry_out(name, words, context, SyncDoor()))

    async def acall(self, name: str, words: Words = "{}", context: ToolContext[Any] | None = None) -> ToolResult:
        """Carry out a call by name in the running loop; a sync tool gets a thread of its own."""
        return await self._carry_out(name, words, context, AsyncDoor())

    def __getitem__(self, name: str) -> AnyTool:
        if name not in self._tools:
            raise KeyError(f"There is no tool {name!r}{close_to(name, self.names)}")
        return self._tools[name]

    def __contains__(self, item: object) -> bool:
        return item in self._tools if isinstance(item, str) else item in self._tools.values()

    def __iter__(self) -> Iterator[AnyTool]:
        return iter(tuple(self._tools.values()))

    def __len__(self) -> int:
        return len(self._tools)

    def __or__(self, other: Toolbox) -> Toolbox:
        return Toolbox([*self, *other], strict=self.strict if self.strict is not None else other.strict)

    def __repr__(self) -> str:
        return f"<Toolbox of {len(self)}: {', '.join(self.names)}>" if self._tools else "<Toolbox, empty>"

    def _enforced(self, *wanted: bool | None) -> bool:
        return next((said for said in (*wanted, self.strict) if said is not None), False)

    async def _answer(
        self, reply: Any, dialect: Dialect, context: ToolContext[Any] | None, door: Door
    ) -> list[dict[str, Any]]:
        specs, given = [made.spec for made in self], context or ToolContext(deps=None)
        calls, dispatcher = dialect.calls(reply, specs), Dispatcher(tools=self._tools)

        async def carry_out(call: ToolCall, tell: Tell) -> ToolResult:
            own = replace(given, call_id=call.id, provider_call_id=call.provider_call_id, tool_name=call.name)
            return await dispatcher.dispatch(call, own, door, tell)

        async with aclosing(execute(calls, carry_out, door)) as events:
            ended = {id(event.call): event.result async for event in events if isinstance(event, ToolCallFinished)}
        return dialect.answers([(call, ended[id(call)]) for call in calls], specs)

    async def _carry_out(self, name: str, words: Words, context: ToolContext[Any] | None, door: Door) -> ToolResult:
        call = ToolCall(name=name, arguments=as_text(words))
        own = replace(context, tool_name=name) if context else ToolContext(deps=None, tool_name=name)
        return await Dispatcher(tools=self._tools).dispatch(call, own, door)

    def _change(self, tools: dict[str, AnyTool]) -> None:
        self._tools = tools
        self._shown = {}


def _as_tool(item: Addable) -> AnyTool:
    if item is None:
        raise DefinitionError("A toolbox takes tools and functions; one of them is None.")
    made = item if isinstance(item, Tool) else tool(item)
    if made.is_unbound:
        raise DefinitionError(
            f"{made.origin} is a method and needs its instance: "
            f"add instance.{made.name}, or use Toolbox.from_object(instance)."
        )
    return made
