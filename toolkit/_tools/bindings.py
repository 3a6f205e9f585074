"""Which function carries which tool out: a table beside the tools, filled in any order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from operator import is_
from threading import RLock
from types import MappingProxyType
from typing import Any, TypeAlias

from toolkit._schema.error_messages import suggest
from toolkit._tools.delegation import Carrier, Delegated, carrier_of, delegated
from toolkit._tools.handlers import Bound, Function, Latent, Unbound, implementation
from toolkit._tools.tool import Tool
from toolkit.errors import DefinitionError

AnyTool: TypeAlias = Tool[..., Any]
Tools: TypeAlias = Mapping[str, AnyTool]
# The name of what carries a tool out, or what says it whenever tools are composed. "" leaves the tool to the model.
Choice: TypeAlias = str | Callable[[], str | None]


@dataclass(eq=False)
class Bindings:
    """What carries tools out, by name.

    Attributes:
        functions: By the name of the activity, which is the tool's own where nothing else is said; None leaves to the
            model what has this name.
        choices: Which activity carries a tool out, by the name of the tool.
        modules: What answers for tools that are carried out apart, by the name of the module.
        about: What a model is asked to say of each call beside its arguments: schemas by key.
    """

    functions: Mapping[str, Function | None] = field(default_factory=dict)
    choices: Mapping[str, Choice] = field(default_factory=dict)
    modules: Mapping[str, Carrier] = field(default_factory=dict)
    about: Mapping[str, Any] = field(default_factory=dict)
    _layer: _Layer = field(default_factory=lambda: _Layer())

    def __or__(self, other: Bindings) -> Bindings:
        """Make a table of the entries of both.

        Raises:
            DefinitionError: Both have a function of one name, and not the same.
        """
        both = next(
            (name for name, function in self.functions.items() if other.functions.get(name, function) != function), ""
        )
        if both:
            raise DefinitionError(
                f"Both toolboxes have something bound as {both!r}. Unbind one, or give it another name."
            )
        functions, choices = {**self.functions, **other.functions}, {**self.choices, **other.choices}
        modules, about = {**self.modules, **other.modules}, {**self.about, **other.about}
        return Bindings(functions, choices, modules, about)

    def renamed(self, names: Mapping[str, str]) -> Bindings:
        """Make a table for tools of other names; what stands in the place of a function now, stays there.

        Args:
            names: The new names of all tools, by the old ones.
        """
        overrides = _layers.get().get(self, self._layer).functions
        functions = {**self.functions, **overrides}
        choices = {**self.choices, **{name: name for name in overrides if name in names}}
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
        bound = {_name(activity): _function(function)}
        with _writing:
            self.functions = {**self.functions, **bound}

    def unbind(self, activity: str) -> None:
        """Take a function out.

        Raises:
            KeyError: There is none of this name.
        """
        with _writing:
            if activity not in self.functions:
                raise KeyError(f"Nothing is bound as {activity!r}{suggest(activity, list(self.functions))}")
            self.functions = {name: function for name, function in self.functions.items() if name != activity}

    def module(self, name: str, carrier: Any) -> None:
        """Name what answers for a module; what has this name gives way.

        Raises:
            DefinitionError: It is neither a runner nor a function.
        """
        made = carrier_of(carrier)
        with _writing:
            self.modules = {**self.modules, name: made}

    def choose(self, tool: str, choice: Choice | None) -> None:
        """Say which activity carries a tool out, from the next composition on; None takes that back.

        Raises:
            DefinitionError: It is no name, and no function that gives one.
        """
        if not (choice is None or callable(choice)):
            _checked(tool, choice)
        with _writing:
            kept = {name: said for name, said in self.choices.items() if name != tool}
            self.choices = kept if choice is None else {**kept, tool: choice}

    @contextmanager
    def override(self, name: str, function: Callable[..., Any] | None) -> Iterator[None]:
        """Put a function in the place of what carries a tool out, in this context: see `contextvars`.

        Blocks may end in any order: each takes back what it has put there, and nothing else.
        """
        own = _Override(_name(name), None if function is None else _function(function))
        self._lay(lambda others: (*others, own))
        try:
            yield
        finally:
            self._lay(lambda others: tuple(other for other in others if other is not own))

    def _lay(self, change: Callable[[tuple[_Override, ...]], tuple[_Override, ...]]) -> None:
        layers = dict(_layers.get())
        overrides = change(layers.pop(self).overrides if self in layers else ())
        _layers.set({**layers, self: _Layer(overrides)} if overrides else layers)

    def composed(self, tools: Tools) -> Tools:
        """Give the tools as they are carried out now."""
        return _layers.get().get(self, self._layer).composed(tools, self)


@dataclass(frozen=True, eq=False)
class _Override:
    """What one block has put in the place of a function.

    Attributes:
        name: That of a tool or of an activity.
        function: None leaves a tool to the model.
    """

    name: str
    function: Function | None


@dataclass(eq=False)
class _Layer:
    """What stands above a table in one context; and what was composed there last.

    Attributes:
        overrides: In the order of their blocks.
    """

    overrides: tuple[_Override, ...] = ()
    _last: tuple[Any, Any, Any, Any, Tools] | None = None

    @property
    def functions(self) -> Mapping[str, Function | None]:
        """What counts by name: the last of each."""
        return {each.name: each.function for each in self.overrides}

    def composed(self, tools: Tools, table: Bindings) -> Tools:
        """Give the tools as they are carried out now: the same ones, until something has changed."""
        chosen = {name: _checked(name, said() if callable(said) else said) for name, said in table.choices.items()}
        last = self._last
        if last and all(map(is_, last, (tools, table.functions, table.modules))) and last[3] == chosen:
            return last[4]
        functions = {**table.functions, **self.functions}
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
        activity = tool.name if says is None or tool.name in self.functions else says
        if function := functions.get(activity):
            return replace(tool, activity=None, handler=Bound(tool.handler.interface, activity, function))
        if activity in functions or not activity:
            return replace(tool, handler=Latent(tool.handler.interface))
        has_function = isinstance(tool.handler, (Function, Bound))
        if says is None or (has_function and activity == (tool.handler.activity or tool.name)):
            return tool
        return replace(tool, handler=Unbound(tool.handler.interface, activity))


# Two that bind at the same time must not lose what the other has bound; a signal handler may come in between.
_writing = RLock()
_layers: ContextVar[Mapping[Bindings, _Layer]] = ContextVar("layers", default=MappingProxyType({}))


def _with_module(carried: AnyTool, tool: AnyTool, modules: Mapping[str, Carrier]) -> AnyTool:
    """Leave a tool to its module where it would be left to the model of the run."""
    if not (carried.scope and carried.scope.module and isinstance(carried.handler, (Latent, Delegated))):
        return carried
    return replace(carried, handler=delegated(tool, modules.get(carried.scope.module)))


def refuse_unbound(made: AnyTool, verb: str) -> None:
    """Refuse a method that waits for its instance.

    Args:
        made: Any tool.
        verb: What was to be done with it.

    Raises:
        DefinitionError: It is one.
    """
    if made.is_unbound:
        raise DefinitionError(
            f"{made.origin} is a method and needs its instance: "
            f"{verb} instance.{made.name}, or use Toolbox.from_object(instance)."
        )


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
    if isinstance(given, Tool):
        refuse_unbound(given, "bind")
    handler = given.handler if isinstance(given, Tool) else None
    if isinstance(handler, (Latent, Unbound, Delegated)):
        raise DefinitionError(f"{handler.origin} does nothing by itself, so it cannot carry a tool out.")
    if isinstance(handler, Bound):
        return handler.function
    return handler if isinstance(handler, Function) else implementation(given)
