"""A collection of tools: free of globals, in the order in which they came."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from types import MappingProxyType
from typing import Any, TypeAlias

from toolkit.arguments import close_to
from toolkit.context import ToolContext
from toolkit.decorator import tool
from toolkit.dialects import dialect_named
from toolkit.dispatch import Dispatcher
from toolkit.doors import AsyncDoor, Door, SyncDoor, step
from toolkit.errors import DefinitionError, DuplicateToolError
from toolkit.jsontext import as_text
from toolkit.messages import ToolCall, ToolResult
from toolkit.naming import legal_name
from toolkit.tools import Tool, Words

AnyTool: TypeAlias = Tool[..., Any]
Addable: TypeAlias = AnyTool | Callable[..., Any]


class Toolbox:
    """Tools by name. A plain function that is put in becomes a tool.

    Args:
        tools: Tools and functions.

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

    def __init__(self, tools: Iterable[Addable] = ()) -> None:
        self._tools: dict[str, AnyTool] = {}
        self._shown: dict[str, list[dict[str, Any]]] = {}
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
        methods = [name for name in dir(type(instance)) if _is_tool(inspect.getattr_static(type(instance), name))]
        if inspect.isclass(instance):
            raise DefinitionError(f"Toolbox.from_object() takes an instance: write {instance.__name__}(...).")
        if not methods:
            owner = type(instance).__qualname__
            raise DefinitionError(f"No method of {owner} is a tool: decorate those that a model may call with @tool.")
        box = cls(getattr(instance, name) for name in sorted(methods, key=_order_in(type(instance))))
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
        return Toolbox(made.renamed(legal_name(prefix + made.name)) for made in self)

    def filtered(self, keep: Callable[[AnyTool], bool]) -> Toolbox:
        """Make a toolbox of the tools that `keep` says yes to."""
        return Toolbox(made for made in self if keep(made))

    def snapshot(self) -> Mapping[str, AnyTool]:
        """Freeze what is in the toolbox now; a run works on such a view."""
        return MappingProxyType(dict(self._tools))

    def schemas(self, dialect: str = "chat") -> list[dict[str, Any]]:
        """Show the tools as a provider wants them. The schemas are kept: read them, do not change them.

        Raises:
            ValueError: There is no such dialect.
            DefinitionError: A tool cannot be described to a model.
        """
        shown = self._shown.get(dialect)
        if shown is None:
            show = dialect_named(dialect).tool
            shown = self._shown[dialect] = [
                deepcopy(show(made.spec)) for made in self
            ]  # no toolbox shares with another
        return list(shown)

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
        return Toolbox([*self, *other])

    def __repr__(self) -> str:
        return f"<Toolbox of {len(self)}: {', '.join(self.names)}>" if self._tools else "<Toolbox, empty>"

    async def _carry_out(self, name: str, words: Words, context: ToolContext[Any] | None, door: Door) -> ToolResult:
        call = ToolCall(name=name, arguments=as_text(words))
        return await Dispatcher(tools=self._tools).dispatch(call, context or ToolContext(deps=None), door)

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


def _is_tool(attribute: object) -> bool:
    return isinstance(getattr(attribute, "__func__", attribute), Tool)


def _order_in(owner: type) -> Callable[[str], int]:
    """Methods in the order of their class bodies, a base's before its children's."""
    order = {
        name: number for number, name in enumerate(name for kind in reversed(owner.__mro__) for name in vars(kind))
    }
    return lambda name: order[name]
