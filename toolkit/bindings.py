"""Which function carries which tool out: a table beside the tools, filled in any order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from operator import is_
from types import MappingProxyType
from typing import Any, TypeAlias

from toolkit.errors import DefinitionError
from toolkit.faults import close_to
from toolkit.handlers import Function
from toolkit.implementations import Bound, Latent, Unbound, implementation
from toolkit.modules import Carrier, Delegated, carrier_of, delegated
from toolkit.tools import Tool

AnyTool: TypeAlias = Tool[..., Any]
Tools: TypeAlias = Mapping[str, AnyTool]
# The name of what carries a tool out, or what says it whenever tools are composed. "" leaves the tool to the model.
Choice: TypeAlias = str | Callable[[], str | None]


@dataclass(eq=False)
class Bindings:
    """What carries tools out, by name.

    Attributes:
        functions: By the name of the activity, which is the tool's own where nothing else is said.
        choices: Which activity carries a tool out, by the name of the tool.
        modules: What answers for tools that are carried out apart, by the name of the module.
        about: What a model is asked to say of each call beside its arguments: schemas by key.
    """

    functions: Mapping[str, Function] = field(default_factory=dict)
    choices: Mapping[str, Choice] = field(default_factory=dict)
    modules: Mapping[str, Carrier] = field(default_factory=dict)
    about: Mapping[str, Any] = field(default_factory=dict)
    _layer: _Layer = field(default_factory=lambda: _Layer())

    def __or__(self, other: Bindings) -> Bindings:
        """Make a table of the entries of both, as they are now.

        Raises:
            DefinitionError: Both have a function of one name, and not the same.
        """
        one, two = self.renamed({}), other.renamed({})
        both = next(
            (name for name, function in one.functions.items() if two.functions.get(name, function) != function), ""
        )
        if both:
            raise DefinitionError(
                f"Both toolboxes have something bound as {both!r}. Unbind one, or give it another name."
            )
        functions, choices = {**one.functions, **two.functions}, {**one.choices, **two.choices}
        modules, about = {**one.modules, **two.modules}, {**one.about, **two.about}
        return Bindings(functions, choices, modules, about)

    def renamed(self, names: Mapping[str, str]) -> Bindings:
        """Make a table for tools of other names; what stands in the place of a function now, stays there.

        Args:
            names: The new names by the old ones.
        """
        layer = _layers.get().get(self, self._layer)
        functions = {**self.functions, **{name: made for name, made in layer.overrides.items() if made}}
        choices = {**self.choices, **{name: name if made else "" for name, made in layer.overrides.items()}}
        own = {new: functions[old] for old, new in names.items() if old in functions}
        chosen = {
            names.get(name, name): names.get(choice, choice) if isinstance(choice, str) else choice
            for name, choice in choices.items()
        }
        return replace(self, functions={**functions, **own}, choices=chosen, _layer=_Layer())

    def bind(self, activity: str, function: Callable[..., Any]) -> None:
        """Name a function; one that has this name gives way.

        Raises:
            DefinitionError: It cannot be called, or has no name.
        """
        self.functions = {**self.functions, _name(activity): _function(function)}

    def unbind(self, activity: str) -> None:
        """Take a function out.

        Raises:
            KeyError: There is none of this name.
        """
        if activity not in self.functions:
            raise KeyError(f"Nothing is bound as {activity!r}{close_to(activity, list(self.functions))}")
        self.functions = {name: function for name, function in self.functions.items() if name != activity}

    def module(self, name: str, carrier: Any) -> None:
        """Name what answers for a module; what has this name gives way.

        Raises:
            DefinitionError: It is neither a runner nor a function.
        """
        self.modules = {**self.modules, name: carrier_of(carrier)}

    def choose(self, tool: str, choice: Choice | None) -> None:
        """Say which activity carries a tool out, from the next composition on; None takes that back.

        Raises:
            DefinitionError: It is no name, and no function that gives one.
        """
        if not (choice is None or callable(choice)):
            _checked(tool, choice)
        kept = {name: said for name, said in self.choices.items() if name != tool}
        self.choices = kept if choice is None else {**kept, tool: choice}

    @contextmanager
    def override(self, name: str, function: Callable[..., Any] | None) -> Iterator[None]:
        """Put a function in the place of what carries a tool out, for this thread or task and for what it starts."""
        layers = _layers.get()
        own = layers[self].overrides if self in layers else {}
        layer = _Layer({**own, _name(name): None if function is None else _function(function)})
        token = _layers.set({**layers, self: layer})
        try:
            yield
        finally:
            _layers.reset(token)

    def composed(self, tools: Tools) -> Tools:
        """Give the tools as they are carried out now."""
        return _layers.get().get(self, self._layer).composed(tools, self)


@dataclass(eq=False)
class _Layer:
    """What stands above a table in one thread or task; and what was composed there last.

    Attributes:
        overrides: By the name of a tool or of an activity; None leaves a tool to the model.
    """

    overrides: Mapping[str, Function | None] = field(default_factory=dict)
    _last: tuple[Any, Any, Any, Any, Tools] | None = None

    def composed(self, tools: Tools, table: Bindings) -> Tools:
        """Give the tools as they are carried out now: the same ones, until something has changed."""
        chosen = {name: _checked(name, said() if callable(said) else said) for name, said in table.choices.items()}
        last = self._last
        if last and all(map(is_, last, (tools, table.functions, table.modules))) and last[3] == chosen:
            return last[4]
        functions = {**table.functions, **self.overrides}
        made = {
            name: _with_module(self._carried(tool, functions, chosen.get(name)), tool, table.modules)
            for name, tool in tools.items()
        }
        if table.about:
            made = {name: replace(tool, about={**table.about, **tool.about}) for name, tool in made.items()}
        self._last = tools, table.functions, table.modules, chosen, made
        return made

    def _carried(self, tool: AnyTool, functions: Mapping[str, Function | None], chosen: str | None) -> AnyTool:
        """Make a tool as it is carried out: by its override, as it says, by a function of its name, as it was made."""
        says = tool.activity if chosen is None else chosen
        activity = tool.name if says is None or tool.name in self.overrides else says
        if function := functions.get(activity):
            return replace(tool, activity=None, handler=Bound(tool.handler.interface, activity, function))
        if activity in functions or not activity:
            return replace(tool, handler=Latent(tool.handler.interface))
        if says is None or (activity == tool.name and isinstance(tool.handler, (Function, Bound))):
            return tool
        return replace(tool, handler=Unbound(tool.handler.interface, activity))


_layers: ContextVar[Mapping[Bindings, _Layer]] = ContextVar("layers", default=MappingProxyType({}))


def _with_module(carried: AnyTool, tool: AnyTool, modules: Mapping[str, Carrier]) -> AnyTool:
    """Leave a tool to its module where it would be left to the model of the run."""
    if not (carried.scope and carried.scope.module and isinstance(carried.handler, (Latent, Delegated))):
        return carried
    return replace(carried, handler=delegated(tool, modules.get(carried.scope.module)))


def _name(given: Any) -> str:
    if isinstance(given, str) and given:
        return given
    raise DefinitionError(f"{given!r} is no name for what carries a tool out. It is a text: the tool's own name.")


def _checked(tool: str, choice: Any) -> str | None:
    if choice is None or isinstance(choice, str):
        return choice
    raise DefinitionError(f'{choice!r} does not say what carries {tool!r} out. Give the name of what is bound, or "".')


def _function(given: Any) -> Function:
    """Make what calls a function; of a tool, its own."""
    handler = given.handler if isinstance(given, Tool) else None
    if isinstance(handler, (Latent, Delegated)):
        raise DefinitionError(f"{handler.origin} does nothing by itself, so it cannot carry a tool out.")
    if isinstance(handler, Bound):
        return handler.function
    return handler if isinstance(handler, Function) else implementation(given)
