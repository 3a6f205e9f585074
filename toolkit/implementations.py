"""What carries an interface out: a function, the model itself, or nothing yet."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from inspect import Parameter as Written
from typing import Any

from toolkit._context import ToolContext
from toolkit._messages import OUTPUT
from toolkit._schema.annotations import frame_names, source_of
from toolkit._schema.arguments import Reader
from toolkit._schema.parameters import Accepted, ByDocument, ByType, Filled, Heedless, Joined, Lean, Parameter, kept
from toolkit._schema.signature import Signature
from toolkit.errors import DefinitionError, InvalidArguments, UnknownActivity
from toolkit.handlers import Action, Function
from toolkit.interfaces import Given, Interface, refuse_private
from toolkit.retyping import filled, left_out, types_of, written


def implementation(function: Any) -> Function:
    """Make what calls a function.

    Raises:
        DefinitionError: It cannot be called.
    """
    if not callable(function):
        raise DefinitionError(f"A tool is carried out by something that can be called; this is {function!r}.")
    return Function(Signature(function, frame_names(source_of(function))))


@dataclass(frozen=True)
class Declared(Lean):
    """A handler of an interface: its words, its parameters, what it gives."""

    interface: Interface

    def of(self, interface: Any) -> Any:
        """Make the same handler of another form of its interface."""
        return replace(self, interface=interface)

    @property
    def origin(self) -> str:
        """Where the interface comes from, for messages to its developer."""
        return self.interface.origin

    @property
    def description(self) -> str:
        """What the tool does, in its author's words."""
        return self.interface.description

    @property
    def raises(self) -> Mapping[str, str]:
        """The failures that its author has announced: exception name and text."""
        return self.interface.raises

    @kept
    def built(self) -> Accepted:
        """What it accepts; what a model wrote beside it, such as the output that it thought of, is overlooked."""
        return Heedless(self.interface.built)

    @property
    def returns(self) -> Given:
        """What it gives."""
        return self.interface.returns

    @property
    def is_async(self) -> bool:
        """Whether what it gives must be awaited."""
        return False

    @property
    def is_generator(self) -> bool:
        """Whether it gives its values one by one."""
        return False

    @property
    def plain_function(self) -> Callable[..., Any] | None:
        """None: the values have a way to go."""
        return None


@dataclass(frozen=True)
class Latent(Declared):
    """Leaves a tool to the model: it fills in the output beside the arguments, and no code runs."""

    @property
    def activity(self) -> str:
        """What carries the tool out: nothing."""
        return ""

    @kept
    def built(self) -> Accepted:
        """What it accepts: the output, and the arguments.

        Raises:
            DefinitionError: A parameter begins with an underscore, as the output does.
        """
        refuse_private(self.origin, self.interface.built.schema["properties"])
        return Heedless(Joined(self.interface.returns.asked, self.interface.built))

    def prepared(self) -> Action:
        """Take the output for the result; it was checked with the arguments."""
        return lambda values, _: values[OUTPUT]


@dataclass(frozen=True)
class Unbound(Declared):
    """Stands where a tool names what carries it out, and nothing of that name is there."""

    activity: str

    def prepared(self) -> Action:
        """Refuse every call."""

        def refuse(_: dict[str, Any], __: ToolContext[Any] | None) -> Any:
            raise UnknownActivity(self.activity)

        return refuse


def without_function(interface: Interface, activity: str | None) -> Latent | Unbound:
    """Make the handler of an interface to which no function is given.

    Args:
        interface: Any.
        activity: The name of what carries it out; empty or None where the model does.
    """
    return Unbound(interface, activity) if activity else Latent(interface)


@dataclass(frozen=True)
class Bound(Declared):
    """Carries an interface out by a function, which takes the parameters by name, or all of them as one.

    Attributes:
        activity: What the function is called in the toolbox.
    """

    activity: str
    function: Function

    @property
    def is_async(self) -> bool:
        """Whether what the function gives must be awaited."""
        return self.function.is_async

    @property
    def is_generator(self) -> bool:
        """Whether the function gives its values one by one."""
        return self.function.is_generator

    def prepared(self) -> Action:
        """Call the function; values become what its annotations say, where the interface says something else."""
        act, fit, fill = self.function.prepared(), self._fitted, filled(self.interface.built)
        if not self.retyped:
            return lambda values, context: act(fit(fill(values)), context)
        read = Reader.of(self.activity, replace(self.function.built, offered=self.retyped)).read
        if isinstance(self.interface.built, ByDocument):
            return lambda values, context: act(read(fit(values))[0], context)
        return lambda values, context: act(self._read(fill(values), read), context)

    def _read(self, values: dict[str, Any], read: Callable[[Any], tuple[dict[str, Any], Any]]) -> dict[str, Any]:
        """Write values by the interface's types, and read them by the function's.

        Raises:
            TypeError: They do not agree, which is no fault of the model's.
        """
        fitted = self._fitted(values)
        plain = self._fitted(written(self.interface.built, values, by_alias=bool(self.whole)))
        changed = {p.name: plain[p.name] for p in self.retyped if p.name in plain}
        kept = {name: value for name, value in fitted.items() if name not in changed}
        try:
            return {**kept, **read(changed)[0]}
        except InvalidArguments as error:
            what = f"{self.function.origin} takes something else than the tool says"
            raise TypeError(f"{what}: {error}; Toolbox.check() tells more") from error

    @cached_property
    def retyped(self) -> tuple[Parameter, ...]:
        """The function's parameters whose values come in another type than they have there."""
        built = self.interface.built
        if isinstance(built, ByDocument):
            return self.offered
        types = {self.whole: getattr(built, "kind", Any)} if self.whole else types_of(built)
        return tuple(p for p in self.offered if p.annotation not in (Any, types.get(p.name, Any)))

    @cached_property
    def whole(self) -> str:
        """The parameter that takes all values as one; empty where each has its own.

        It is the function's only one, and none of the interface is called so.
        """
        named = [p.name for p in self.offered if p.kind not in (Written.VAR_KEYWORD, Written.VAR_POSITIONAL)]
        alone = len(named) == 1 == len(self.offered) and named[0] not in self.known
        return named[0] if alone else ""

    @cached_property
    def offered(self) -> tuple[Parameter, ...]:
        """The function's parameters that the run does not supply."""
        return tuple(p for p in self.function.signature.parameters if not p.injected)

    @cached_property
    def untaken(self) -> tuple[str, ...]:
        """What the interface has and the function does not take."""
        if self.whole or self._rest:
            return ()
        names = {p.name for p in self.offered}
        return tuple(name for name in self.known if name not in names)

    @cached_property
    def unfilled(self) -> tuple[str, ...]:
        """What the function needs and the interface does not have."""
        known = (self.whole,) if self.whole else self.known
        needed = (p.name for p in self.offered if p.required and p.kind is not Written.VAR_KEYWORD)
        return tuple(name for name in needed if name not in known)

    @cached_property
    def uncertain(self) -> tuple[str, ...]:
        """What the function needs, and a call may leave out."""
        needed = {p.name for p in self.offered if p.required}
        return () if self.whole else tuple(name for name in left_out(self.interface.built) if name in needed)

    @cached_property
    def known(self) -> Collection[str]:
        """The names by which the values come."""
        built = self.interface.built
        return built.names if isinstance(built, ByType) else built.schema["properties"]

    @cached_property
    def _rest(self) -> str:
        return next((p.name for p in self.offered if p.kind is Written.VAR_KEYWORD), "")

    def _fitted(self, values: dict[str, Any]) -> dict[str, Any]:
        """Lay values out for the function.

        Raises:
            TypeError: It does not take one of them, or needs another.
        """
        if self.whole:
            return {self.whole: values.whole if isinstance(values, Filled) else values}
        missing = next((name for name in self.unfilled if name not in values), None)
        if missing is not None:
            raise TypeError(f"{self.function.origin} needs {missing!r}; Toolbox.check() tells more")
        names = {p.name for p in self.offered}
        other = {name: value for name, value in values.items() if name not in names}
        if not other:
            return values
        if not self._rest:
            raise TypeError(f"{self.function.origin} takes no {next(iter(other))!r}; Toolbox.check() tells more")
        return {name: value for name, value in values.items() if name in names} | {self._rest: other}
