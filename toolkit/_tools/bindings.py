"""Functions that execute tools: a table beside the tools, filled in any order.

A tool's *activity* is the name that its function is bound under, by default the tool's own name. It is resolved in
this order: an override, a choice, what the tool itself names, a function bound under the tool's name, the function that
the tool was made of. Where there is none, the tool is latent: the model fills in the output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from inspect import Parameter
from operator import is_
from threading import RLock
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias, TypeVar, overload

from toolkit._schema.error_messages import suggest
from toolkit._tools.delegation import Delegated, ModuleFunction, ModuleRunner, parse_delegate
from toolkit._tools.functions import FunctionHandler
from toolkit._tools.handlers import BoundHandler, LatentHandler, UnboundHandler
from toolkit._tools.tool import Tool, take_function
from toolkit.errors import DefinitionError, ToolNotFoundError

AnyTool: TypeAlias = Tool[..., Any]
Tools: TypeAlias = Mapping[str, AnyTool]
# An activity, or a function that returns one whenever tools are composed. "" leaves the tool to the model.
Choice: TypeAlias = str | Callable[[], str | None]
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(eq=False)
class Bindings:
    """Functions, choices and modules of one toolbox: `box.bindings`.

    Attributes:
        functions: Bound functions by activity; None leaves the tools of this activity to the model.
        choices: Chosen activities by the tool's name.
        modules: Runners and functions that answer for modules, by the module's name.
    """

    functions: Mapping[str, FunctionHandler | None] = field(default_factory=dict)
    choices: Mapping[str, Choice] = field(default_factory=dict)
    modules: Mapping[str, FunctionHandler] = field(default_factory=dict)
    # The toolbox's tools as they were added, by name.
    _tools: Tools = field(default_factory=dict)
    # JSON Schemas of the meta keys that a model may fill in with each call.
    _meta: Mapping[str, Any] = field(default_factory=dict)
    _overlay: _Overlay = field(default_factory=lambda: _Overlay())

    @property
    def names(self) -> tuple[str, ...]:
        """The names that functions are bound under, in the order of their first binding."""
        return tuple(name for name, function in self.functions.items() if function)

    def _bind(self, activity: str, function: Callable[..., Any]) -> None:
        """Do what `Toolbox.bind` does."""
        bound = {check_activity(activity): take_function(function)}
        with table_lock:
            self.functions = {**self.functions, **bound}

    def _unbind(self, activity: str) -> None:
        """Do what `Toolbox.unbind` does."""
        with table_lock:
            if check_activity(activity) not in self.functions:
                raise ToolNotFoundError(f"Nothing is bound as {activity!r}{suggest(activity, list(self.functions))}")
            self.functions = {name: function for name, function in self.functions.items() if name != activity}

    def _override(self, name: str, function: Callable[..., Any] | None) -> AbstractContextManager[None]:
        """Do what `Toolbox.override` does. Blocks may end in any order. Each removes its own override only."""
        mentioned = (*(tool.activity for tool in self._tools.values()), *self.choices.values())
        activities = [each for each in mentioned if isinstance(each, str) and each]
        known = [*dict.fromkeys([*self._tools, *activities, *self.functions])]
        if check_activity(name) not in known:
            raise ToolNotFoundError(f"There is no tool or activity {name!r} to override{suggest(name, known)}")
        return self._apply((name, None if function is None else take_function(function)))

    def choose(self, tool: str, activity: Choice | None) -> None:
        """Choose one of several bound functions for a tool, from the next run on.

        Args:
            tool: The tool's name.
            activity: The name of a bound function; "" leaves the tool to the model; None removes the choice. Or a
                function that returns one of these; it is called whenever tools are composed.

        Raises:
            DefinitionError: The activity is neither a name nor a function.
        """
        if not callable(activity):
            _check_choice(tool, activity)
        with table_lock:
            others = {name: choice for name, choice in self.choices.items() if name != tool}
            self.choices = others if activity is None else {**others, tool: activity}

    @overload
    def module(self, name: str) -> Callable[[F], F]: ...
    @overload
    def module(self, name: str, delegate: ModuleRunner | ModuleFunction) -> None: ...
    def module(self, name: str, delegate: Any = Parameter.empty) -> Any:
        """Execute the latent tools of a module by a runner or a function. Also as a decorator.

        The runner or function sees nothing of the run that makes a call. It gets the tool's description, the arguments
        and the values that the tool imports. Its answer must match the tool's output schema.

        Args:
            name: The `module` of the tools.
            delegate: A Runner, whose model answers in a run of its own, with its own instructions and tools; the
                RunResult of that run is the `details` of the tool's result. Or a function, sync or async, of the call,
                the tool and the imported values.

        Raises:
            DefinitionError: The delegate is neither a runner nor a function, or the name is not text.
        """
        check_activity(name)
        if delegate is Parameter.empty:

            def decorate(function: Any) -> Any:
                self.module(name, function)
                return function

            return decorate

        parsed = parse_delegate(delegate)
        with table_lock:
            self.modules = {**self.modules, name: parsed}
        return None

    def activity_of(self, name: str) -> str:
        """Return the activity that a tool resolves to now, or "" if the model fills in the output.

        Raises:
            ToolNotFoundError: There is no tool of this name.
        """
        composed = self._compose()
        if name not in composed:
            raise ToolNotFoundError(f"There is no tool {name!r}{suggest(name, composed)}")
        return get_activity(composed[name])

    def _compose(self) -> Tools:
        """Return the tools, each with the handler that executes it now: the same mapping until something changes."""
        overlay = _overlays.get().get(self, self._overlay)
        tools = self._tools
        functions = self.functions  # read once, as the next one: another thread may replace them meanwhile
        modules = self.modules
        chosen = {
            name: _check_choice(name, choice() if callable(choice) else choice) for name, choice in self.choices.items()
        }
        tables = (tools, functions, modules)
        last = overlay.last
        if last is not None and all(map(is_, last.tables, tables)) and last.chosen == chosen:
            return last.composed

        bound = {**functions, **overlay.functions}
        composed = {
            name: _resolve_handler(tool, bound, name if name in overlay.functions else chosen.get(name), modules)
            for name, tool in tools.items()
        }
        if self._meta:
            composed = {name: replace(tool, _meta={**self._meta, **tool._meta}) for name, tool in composed.items()}
        overlay.last = last = _Composition(tables, chosen, MappingProxyType(composed))
        return last.composed

    def _rename(self, names: Mapping[str, str]) -> Bindings:
        """Copy the tables for some of the tools. Overrides of the current context become part of the copy.

        `names` has the new names by the old ones, without the tools that are left out. A function or a choice under a
        tool's name gets the tool's new name, or is left out with it.
        """
        tools = self._tools
        overrides = _overlays.get().get(self, self._overlay).functions
        functions = {**self.functions, **overrides}
        choices = {**self.choices, **{name: name for name in overrides if name in names}}
        renamed = {new: functions[old] for old, new in names.items() if old in functions}
        chosen = {
            names.get(name, name): names.get(choice, choice) if isinstance(choice, str) else choice
            for name, choice in choices.items()
            if name in names or name not in tools
        }
        gone = {name for name in tools if names.get(name) != name}
        if not any(map(callable, chosen.values())):  # such a choice may return any name
            gone -= {*(tool.activity for name, tool in tools.items() if name in names), *chosen.values()}
            functions = {name: function for name, function in functions.items() if name not in gone}
        return replace(self, _tools={}, functions={**functions, **renamed}, choices=chosen, _overlay=_Overlay())

    def __or__(self, other: Bindings) -> Bindings:
        """Join the tables of two toolboxes, without their tools.

        Raises:
            DefinitionError: Both have different functions under one name.
        """
        for name, function in self.functions.items():
            if other.functions.get(name, function) != function:
                raise DefinitionError(
                    f"Both toolboxes have a function bound as {name!r}. Unbind one, or give it another name."
                )
        return Bindings(
            functions={**self.functions, **other.functions},
            choices={**self.choices, **other.choices},
            modules={**self.modules, **other.modules},
            _meta={**self._meta, **other._meta},
        )

    @contextmanager
    def _apply(self, own: _Override) -> Iterator[None]:
        self._change_overrides(lambda others: (*others, own))
        try:
            yield
        finally:
            self._change_overrides(lambda others: tuple(other for other in others if other is not own))

    def _change_overrides(self, change: Callable[[tuple[_Override, ...]], tuple[_Override, ...]]) -> None:
        overlays = dict(_overlays.get())
        overrides = change(overlays.pop(self).overrides if self in overlays else ())
        _overlays.set({**overlays, self: _Overlay(overrides)} if overrides else overlays)


# The name of a tool or an activity, and the function for one `with` block; None leaves a tool to the model.
_Override: TypeAlias = tuple[str, FunctionHandler | None]


class _Composition(NamedTuple):
    """The tools with their handlers, and the tables that they were composed of."""

    tables: tuple[object, ...]
    chosen: Mapping[str, str | None]
    composed: Tools


class _Overlay:
    """Overrides of one context, and the last composition there."""

    def __init__(self, overrides: tuple[_Override, ...] = ()) -> None:
        self.overrides = overrides  # in the order of their blocks
        self.functions = dict(overrides)  # the last one of a name counts
        self.last: _Composition | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        # Only that of the tables themselves is pickled: it has no overrides, and its composition is a cache.
        return _Overlay, ()


# Two threads that bind or add at the same time must not lose an entry. Reentrant: a signal handler may interrupt it.
table_lock = RLock()
_overlays: ContextVar[Mapping[Bindings, _Overlay]] = ContextVar("overlays", default=MappingProxyType({}))


def _resolve_handler(
    tool: AnyTool,
    functions: Mapping[str, FunctionHandler | None],
    chosen: str | None,
    modules: Mapping[str, FunctionHandler],
) -> AnyTool:
    """Return a tool with the handler that executes it.

    This is a function that is bound under its activity or name, its module, or the handler that it was made with.
    """
    named = tool.activity if chosen is None else chosen
    handler = tool.handler
    activity = tool.name if named is None else named
    if function := functions.get(activity):
        settings = tool.settings.inherit(function.settings)
        return replace(
            tool, activity=None, handler=BoundHandler(handler.interface, activity, function=function), settings=settings
        )

    if activity in functions or not activity:
        handler = LatentHandler(handler.interface)
    elif named is not None and (handler.function_handler is None or activity != (handler.activity or tool.name)):
        handler = UnboundHandler(handler.interface, activity)
    scope = tool._scope
    if scope and scope.module and isinstance(handler, (LatentHandler, Delegated)):
        before = handler.delegate if isinstance(handler, Delegated) else None
        handler = Delegated(handler.interface, scope=scope, delegate=modules.get(scope.module, before))
    return tool if handler is tool.handler else replace(tool, handler=handler)


def get_activity(composed: AnyTool) -> str:
    """Return the activity of a tool as it was composed, or "" if the model fills in the output."""
    activity = composed.handler.activity
    return composed.name if activity is None else activity


def check_activity(given: Any) -> str:
    """Check the name under which a function is bound, and return it.

    Raises:
        DefinitionError: The name is not text. It may be the function itself.
    """
    if isinstance(given, str) and given:
        return given
    raise DefinitionError(
        f"{given!r:.100} is not a name to bind a function under. Write a text, such as the tool's own name, also in a "
        "decorator: @box.bind('weather')."
    )


def _check_choice(tool: str, choice: Any) -> str | None:
    if choice is None or isinstance(choice, str):
        return choice
    raise DefinitionError(f'{choice!r} is not an activity for {tool!r}. Give the name of a bound function, or "".')
