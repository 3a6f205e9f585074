"""Ways to carry a tool out. Every handler has one signature: validated values and context in, value out.

What a tool is, apart from what carries it out: its words, what it accepts, what it gives.

Values of the types that an interface says, for a function that says others.

What carries an interface out: a function, the model itself, or nothing yet.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from inspect import Parameter as Written
from itertools import islice
from typing import Any, Protocol, TypeAlias, get_origin

from pydantic_core import from_json, to_json
from typing_extensions import get_type_hints, is_typeddict

from toolkit._concurrency.cancellation import CANCELLED
from toolkit._context import ToolContext
from toolkit._messages import OUTPUT
from toolkit._schema.annotations import collect_frame_names, find_source
from toolkit._schema.argument_schema import (
    ArgumentSchema,
    DocumentSchema,
    JoinedSchema,
    LenientSchema,
    ModelArguments,
    TypeSchema,
    get_fields,
)
from toolkit._schema.arguments import ArgumentParser
from toolkit._schema.parameters import Parameter, ParameterSchema
from toolkit._schema.return_schema import ReturnDocument, ReturnSchema, ReturnType
from toolkit._schema.signature import Signature, pick_value
from toolkit.errors import Cancelled, DefinitionError, InvalidArguments, UnknownActivity


class Interface(Protocol):
    """What a tool is, apart from what carries it out."""

    @property
    def origin(self) -> str:
        """Where it comes from, for messages to its developer."""
        ...

    @property
    def description(self) -> str:
        """What the tool does, in its author's words."""
        ...

    @property
    def raises(self) -> Mapping[str, str]:
        """The failures that its author has announced: exception name and text."""
        ...

    @property
    def built(self) -> ArgumentSchema:
        """What it accepts."""
        ...

    @property
    def returns(self) -> ReturnSchema:
        """What it gives."""
        ...


@dataclass(frozen=True, eq=False)
class Declaration:
    """An interface without a function: of a schema, or of types."""

    origin: str
    description: str
    built: ArgumentSchema
    returns: ReturnSchema
    raises: Mapping[str, str] = field(default_factory=dict)


def checked(made: Declaration) -> Declaration:
    """Check what an interface says by JSON Schemas now: a mistake in them is its author's, not that of a call.

    Raises:
        DefinitionError: A schema cannot be carried out; the message says whose, and where.
    """
    documents = [made.built, *([made.returns.argument_schema] if isinstance(made.returns, ReturnDocument) else [])]
    with named(made.origin):
        _ = [each.validator for each in documents]  # it is kept
    return made


@contextmanager
def named(origin: str) -> Iterator[None]:
    """Say in the message of a DefinitionError whose mistake it is."""
    try:
        yield
    except DefinitionError as error:
        raise DefinitionError(f"{origin}: {error}") from None


def refuse_private(origin: str, names: Any) -> None:
    """Refuse parameters that look like words about a call.

    Raises:
        DefinitionError: One of them begins with an underscore.
    """
    private = next((name for name in names if str(name).startswith("_")), None)
    if private is not None:
        raise DefinitionError(
            f"{origin}: the parameter {private!r} begins with '_', which is kept for what is said about a call, such "
            f"as {OUTPUT}. Call it {private.lstrip('_') or 'value'!r}."
        )


# Validated values and context in, the function's value out: or a promise of it, or values one by one.
Action: TypeAlias = Callable[[dict[str, Any], ToolContext[Any] | None], Any]

# A tool's generator is read to its end; one without end must not fill the memory.
MAX_ITEMS = 100_000


class Handler(Interface, Protocol):
    """What a tool carries to be carried out."""

    @property
    def interface(self) -> Interface:
        """The same, apart from what carries it out."""
        ...

    @property
    def activity(self) -> str | None:
        """The name of what it does in a toolbox; empty where the model does it; None where nothing was said."""
        ...

    @property
    def is_async(self) -> bool:
        """Whether what it gives must be awaited."""
        ...

    @property
    def is_generator(self) -> bool:
        """Whether it gives its values one by one."""
        ...

    @property
    def plain_function(self) -> Callable[..., Any] | None:
        """What takes the values by keyword as they are, where there is such a function."""
        ...

    def prepared(self) -> Action:
        """Make what carries a call out; it is kept and called many times."""
        ...


@dataclass(frozen=True)
class Function:
    """Carries a tool out by calling a Python function."""

    signature: Signature
    activity: None = field(default=None, init=False)

    @property
    def interface(self) -> Interface:
        """The function's own words and types."""
        return self

    @property
    def origin(self) -> str:
        """The function's name, for messages to its developer."""
        return self.signature.label

    @property
    def function(self) -> Callable[..., Any]:
        """What is called."""
        return self.signature.callable

    @property
    def parameter_names(self) -> Collection[str]:
        """Names of the parameters that the run does not supply."""
        return [p.name for p in self.signature.parameters if not p.is_injected]

    @property
    def description(self) -> str:
        """The docstring without its sections."""
        return self.signature.docstring.description

    @property
    def raises(self) -> Mapping[str, str]:
        """The docstring's `Raises:`."""
        return self.signature.docstring.raises

    @property
    def built(self) -> ParameterSchema:
        """What the signature accepts."""
        return self.signature.argument_schema

    @property
    def returns(self) -> ReturnType:
        """What the return annotation says."""
        return self.signature.returns

    @property
    def plain_function(self) -> Callable[..., Any] | None:
        """The function, where the signature asks for nothing but values by keyword."""
        return self.function if self.signature.has_plain_call else None

    @property
    def is_async(self) -> bool:
        """Whether the function is a coroutine function or an async generator; what it wraps may be another kind."""
        called = self._called
        return inspect.iscoroutinefunction(called) or inspect.isasyncgenfunction(called)

    @property
    def is_generator(self) -> bool:
        """Whether the function gives its values one by one."""
        called = self._called
        return inspect.isgeneratorfunction(called) or inspect.isasyncgenfunction(called)

    @property
    def _called(self) -> Callable[..., Any]:
        function = self.function
        if inspect.isclass(function) or inspect.isroutine(function) or isinstance(function, partial):
            return function
        called: Callable[..., Any] = type(function).__call__
        return called

    def prepared(self) -> Action:
        """Make the call of the function; a generator is read to its end."""
        function, arrange = self.function, self.signature.arrange

        def arranged(values: dict[str, Any], context: ToolContext[Any] | None) -> Any:
            by_position, by_keyword = arrange(values, context or ToolContext(deps=None))
            return function(*by_position, **by_keyword)

        return arranged

    def in_class(self, owner: type | None = None) -> Function:
        """Make the handler of the same function as a method: its first parameter is the instance."""
        if self.signature.is_method:
            return self
        return replace(self, signature=replace(self.signature, is_method=True, owner=owner))

    def bind(self, instance: Any) -> BoundFunction:
        """Make the handler of the same method on one instance; schema and docstring are shared, not built again."""
        return BoundFunction(self.signature, instance)


@dataclass(frozen=True)
class BoundFunction(Function):
    """Carries a tool out by calling a method of one instance."""

    instance: Any

    @property
    def function(self) -> Callable[..., Any]:
        """What is called."""
        bound: Callable[..., Any] = self.signature.callable.__get__(self.instance)
        return bound


def gathered(value: Any, context: ToolContext[Any] | None = None) -> Any:
    """Read what gives its values one by one to its end: as a list, or as a promise of one.

    Args:
        value: What a function gave; anything else is given back as it is.
        context: Is told each value as it comes.

    Raises:
        Cancelled: The call was called off between two values.
    """
    kind = type(value)
    if hasattr(kind, "__next__"):
        return _listed(value, context)
    return _collected(value, context) if hasattr(kind, "__anext__") else value


def _listed(values: Iterator[Any], context: ToolContext[Any] | None) -> list[Any]:
    try:
        return list(islice(_told(values, context) if context else values, MAX_ITEMS))
    finally:
        if inspect.isgenerator(values):
            values.close()


def _told(values: Iterator[Any], context: ToolContext[Any]) -> Iterator[Any]:
    for value in values:
        _tell(value, context)
        yield value


def _tell(value: Any, context: ToolContext[Any]) -> None:
    context.update(value)
    if context.cancellation.reason == CANCELLED:  # who waits for a deadline leaves at its end
        raise Cancelled


async def _collected(values: AsyncIterator[Any], context: ToolContext[Any] | None) -> list[Any]:
    collected: list[Any] = []
    try:
        async for value in values:
            if context:
                _tell(value, context)
            collected.append(value)
            if len(collected) == MAX_ITEMS:
                break
    finally:
        if inspect.isasyncgen(values):
            await values.aclose()
    return collected


_REST = (Written.VAR_KEYWORD, Written.VAR_POSITIONAL)


def types_of(accepted: ArgumentSchema) -> Mapping[str, Any]:
    """Give Python's types of the values by name; none where a JSON Schema says it, or where they cannot be told."""
    if isinstance(accepted, ParameterSchema):
        return {p.name: p.annotation for p in accepted.offered}
    if not isinstance(accepted, TypeSchema):
        return {}
    with suppress(NameError, TypeError):  # a name of a local scope: such values are checked once more
        return get_type_hints(get_origin(accepted.kind) or accepted.kind, include_extras=True)
    return {}


def written(accepted: ArgumentSchema, values: dict[str, Any], *, by_alias: bool) -> dict[str, Any]:
    """Write values as plain data, as their own types say.

    Args:
        accepted: What they were read by.
        values: By name.
        by_alias: Whether members of a type get the names that they have in JSON.
    """
    if isinstance(accepted, ParameterSchema):
        return {p.name: _plain(accepted, p, values[p.name]) for p in accepted.offered if p.name in values}
    if isinstance(accepted, TypeSchema) and isinstance(values, ModelArguments):
        return accepted.to_document(values.instance, by_alias=by_alias)
    return values


def filled(accepted: ArgumentSchema) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Make what adds the defaults that a model was told of; a type or a schema adds its own where it is read."""
    if not isinstance(accepted, ParameterSchema):
        return lambda values: values
    told = [p for p in accepted.offered if not p.is_required and p.kind not in _REST and p.name not in accepted.hidden]
    if not told:
        return lambda values: values
    return lambda values: {
        **{p.name: pick_value(p, values, None) for p in told if p.name not in values},
        **values,
    }


def left_out(accepted: ArgumentSchema) -> Collection[str]:
    """List what a call may leave out, and nothing fills in."""
    if isinstance(accepted, ParameterSchema):
        return ()
    if isinstance(accepted, TypeSchema) and not is_typeddict(get_origin(accepted.kind) or accepted.kind):
        return ()
    shown, required = accepted.schema["properties"], accepted.schema.get("required", ())
    return [name for name, said in shown.items() if name not in required and "default" not in {**said}]


def _plain(accepted: ParameterSchema, p: Parameter, value: Any) -> Any:
    write = ReturnType(p.json_type, names=accepted.names).to_json or to_json
    return from_json(write(value))


def implementation(function: Any) -> Function:
    """Make what calls a function.

    Raises:
        DefinitionError: It cannot be called.
    """
    if not callable(function):
        raise DefinitionError(f"A tool is carried out by something that can be called; this is {function!r}.")
    return Function(Signature(function, collect_frame_names(find_source(function))))


@dataclass(frozen=True)
class Declared:
    """A handler of an interface: its words, its parameters, what it gives."""

    interface: Interface

    __getstate__ = get_fields

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

    @property
    def built(self) -> ArgumentSchema:
        """What it accepts; what a model wrote beside it, such as the output that it thought of, is overlooked."""
        return self._built

    @cached_property
    def _built(self) -> ArgumentSchema:
        return LenientSchema(self.interface.built)

    @property
    def returns(self) -> ReturnSchema:
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

    @cached_property
    def _built(self) -> ArgumentSchema:
        """What it accepts: the output, and the arguments.

        Raises:
            DefinitionError: A parameter begins with an underscore, as the output does.
        """
        refuse_private(self.origin, self.interface.built.schema["properties"])
        return LenientSchema(JoinedSchema(self.interface.returns.argument_schema, self.interface.built))

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
        read = ArgumentParser.for_tool(self.activity, replace(self.function.built, offered=self.retyped)).parse
        if isinstance(self.interface.built, DocumentSchema):
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
            raise TypeError(f"{what}: {error}") from error

    @cached_property
    def retyped(self) -> tuple[Parameter, ...]:
        """The function's parameters whose values come in another type than they have there."""
        built = self.interface.built
        if isinstance(built, DocumentSchema):
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
        return tuple(p for p in self.function.signature.parameters if not p.is_injected)

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
        needed = (p.name for p in self.offered if p.is_required and p.kind is not Written.VAR_KEYWORD)
        return tuple(name for name in needed if name not in known)

    @cached_property
    def uncertain(self) -> tuple[str, ...]:
        """What the function needs, and a call may leave out."""
        needed = {p.name for p in self.offered if p.is_required}
        return () if self.whole else tuple(name for name in left_out(self.interface.built) if name in needed)

    @cached_property
    def known(self) -> Collection[str]:
        """The names by which the values come."""
        built = self.interface.built
        return built.names if isinstance(built, TypeSchema) else built.schema["properties"]

    @cached_property
    def _rest(self) -> str:
        return next((p.name for p in self.offered if p.kind is Written.VAR_KEYWORD), "")

    def _fitted(self, values: dict[str, Any]) -> dict[str, Any]:
        """Lay values out for the function.

        Raises:
            TypeError: It does not take one of them, or needs another.
        """
        if self.whole:
            return {self.whole: values.instance if isinstance(values, ModelArguments) else values}
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
