"""Handlers: what executes a tool. Each takes validated values and a context, and returns a value.

FunctionHandler   a Python function, in `functions`
BoundHandler      a declared tool, executed by a function that takes its parameters
LatentHandler     a declared tool that the model answers itself, without code
UnboundHandler    a declared tool whose activity is not bound yet: refuses each call

The names of a function's parameters decide which values it takes; so do those of a tool's `undo`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import NoneType
from typing import Any, TypeAlias

from typing_extensions import Self

from toolkit._context import ToolContext
from toolkit._messages import OUTPUT
from toolkit._schema.arguments import ArgumentParser
from toolkit._schema.declared_schema import (
    DocumentSchema,
    JoinedSchema,
    ModelArguments,
    ReturnDocument,
)
from toolkit._schema.function_schema import ArgumentSchema, Parameter, ReturnSchema, Uncached
from toolkit._schema.signature import read_annotations
from toolkit._tools.functions import Action, FunctionHandler
from toolkit.errors import DefinitionError, InvalidArguments, UnknownActivity


@dataclass(frozen=True, eq=False)
class Declaration:
    """A declaration without a function: by a schema, or by types.

    Attributes:
        origin: The name of its schema, for error messages.
        description: The description that its author wrote.
        raises: Exceptions that its author documents: text by name.
        is_hint: Whether the tool's effect is what another program says of itself.
    """

    origin: str
    description: str
    argument_schema: ArgumentSchema
    returns: ReturnSchema
    raises: Mapping[str, str] = field(default_factory=dict)
    is_hint: bool = False


def check_declaration(declaration: Declaration) -> Declaration:
    """Check a declaration's JSON Schemas, so that a mistake in them is found before any call.

    Raises:
        DefinitionError: A schema cannot be compiled; the message says whose, and where.
    """
    returned = declaration.returns.argument_schema if isinstance(declaration.returns, ReturnDocument) else None
    with name_origin(declaration.origin):
        for each in (declaration.argument_schema, returned):
            if isinstance(each, DocumentSchema):
                each.check()
    return declaration


@contextmanager
def name_origin(origin: str) -> Iterator[None]:
    """Put the origin before the message of a DefinitionError."""
    try:
        yield
    except DefinitionError as error:
        raise DefinitionError(f"{origin}: {error}") from None


def refuse_private(origin: str, names: Any) -> None:
    """Refuse parameters that look like meta fields.

    Raises:
        DefinitionError: A parameter begins with an underscore.
    """
    private = next((name for name in names if str(name).startswith("_")), None)
    if private is not None:
        raise DefinitionError(
            f"{origin}: the parameter {private!r} begins with '_', which is reserved for meta fields such "
            f"as {OUTPUT}. Call it {private.lstrip('_') or 'value'!r}."
        )


class CallArguments(dict[str, Any]):
    """The arguments of a call as one object: `call["city"]` is `call.city`, unless a method of `dict` has that name."""

    def __getattr__(self, name: str) -> Any:
        try:
            value = self[name]
        except KeyError:
            raise AttributeError(f"The call has no argument {name!r}. It has: {', '.join(self) or 'none'}.") from None
        return CallArguments(value) if isinstance(value, dict) else value


_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_REST = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)


# A tool's declaration, apart from its handler.
ToolInterface: TypeAlias = Declaration | FunctionHandler


@dataclass(frozen=True)
class DeclaredHandler(Uncached):
    """The handler of a declared tool."""

    interface: ToolInterface
    activity: str = ""  # the name of its function in a toolbox's bindings; empty if there is none

    @property
    def function_handler(self) -> FunctionHandler | None:
        """The handler of the function that executes the calls; None if there is none."""
        return None

    def with_interface(self, interface: Any) -> Self:
        """Return the same handler with another declaration."""
        return replace(self, interface=interface)

    @property
    def origin(self) -> str:
        """The name of the function or schema that declares it, for error messages."""
        return self.interface.origin

    @property
    def argument_schema(self) -> ArgumentSchema:
        """The schema of its arguments."""
        return self.interface.argument_schema

    @property
    def is_async(self) -> bool:
        """True if its value must be awaited."""
        return False

    @property
    def plain_function(self) -> Callable[..., Any] | None:
        """None, since the values must be arranged first."""
        return None

    def make_action(self, tool: Any) -> Action:
        """Return the function that executes the calls of a tool. It is made once for each tool."""
        raise NotImplementedError


# Executes a tool's calls.
Handler: TypeAlias = FunctionHandler | DeclaredHandler


@dataclass(frozen=True)
class LatentHandler(DeclaredHandler):
    """Takes the output that the model filled in beside the arguments. No code runs."""

    @property
    def argument_schema(self) -> ArgumentSchema:
        """The schema of the output and the arguments.

        Raises:
            DefinitionError: A parameter begins with an underscore, as the output does.
        """
        return self._joined

    @cached_property
    def _joined(self) -> ArgumentSchema:
        refuse_private(self.origin, self.interface.argument_schema.schema["properties"])
        return JoinedSchema(self.interface.returns.argument_schema, self.interface.argument_schema)

    def make_action(self, tool: Any) -> Action:  # noqa: ARG002  as for every handler
        """Return a function that takes the output, which was validated with the arguments."""
        return lambda values, _: values[OUTPUT]


@dataclass(frozen=True)
class UnboundHandler(DeclaredHandler):
    """Stands for an activity that is not bound."""

    def make_action(self, tool: Any) -> Action:  # noqa: ARG002  as for every handler
        """Return a function that refuses every call."""

        def refuse(_: dict[str, Any], __: ToolContext[Any] | None) -> Any:
            raise UnknownActivity(self.activity)

        return refuse


def without_function(interface: ToolInterface, activity: str | None) -> LatentHandler | UnboundHandler:
    """Make the handler of a tool that is declared without a function.

    With an activity, a function must still be bound to it. Without one, the model fills in the output.
    """
    return UnboundHandler(interface, activity) if activity else LatentHandler(interface)


@dataclass(frozen=True)
class BoundHandler(DeclaredHandler):
    """Executes a declared tool by a function, which takes the arguments by name, or all of them as one object."""

    function: FunctionHandler = field(kw_only=True)

    @property
    def function_handler(self) -> FunctionHandler:
        """The handler of the function that executes the calls."""
        return self.function

    @property
    def is_async(self) -> bool:
        """True if the function's value must be awaited."""
        return self.function.is_async

    def make_action(self, tool: Any) -> Action:
        """Return a function that converts the values where their types differ, and calls the function."""
        call = self._make_inner(tool)
        declared = self.interface.argument_schema
        if not self.converted:
            return lambda values, context: call(self._fit(declared.add_defaults(values)), context)

        parser = ArgumentParser(self.activity, replace(self.function.argument_schema, offered=self.converted))

        def parse(values: Any) -> dict[str, Any]:
            parsed, _ = parser.parse(values)
            return parsed

        if isinstance(declared, DocumentSchema):
            return lambda values, context: call(parse(self._fit(values)), context)
        return lambda values, context: call(self._convert(declared.add_defaults(values), parse), context)

    def _make_inner(self, tool: Any) -> Action:
        """Return the action of the function. If it takes call, tool and context, pass the tool and the context, too."""
        call = self.function.make_action(tool)
        names = [p.name for p in self.tool_and_context]
        if not names:
            return call

        def call_with_tool(values: dict[str, Any], context: ToolContext[Any] | None) -> Any:
            own = context or ToolContext(deps=None)
            return call({**values, **dict(zip(names, (tool, own)))}, own)

        return call_with_tool

    def _convert(self, values: dict[str, Any], parse: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        """Convert values from the declaration's types to the function's.

        Raises:
            TypeError: The types do not agree. The model cannot correct this.
        """
        fitted = self._fit(values)
        plain = self._fit(self.interface.argument_schema.to_plain(values, by_alias=bool(self.single_parameter)))
        changed = {p.name: plain[p.name] for p in self.converted if p.name in plain}
        unchanged = {name: value for name, value in fitted.items() if name not in changed}
        try:
            return {**unchanged, **parse(changed)}
        except InvalidArguments as error:
            what = f"{self.function.origin} takes other types than the tool declares"
            raise TypeError(f"{what}: {error}") from error

    @cached_property
    def converted(self) -> tuple[Parameter, ...]:
        """The function's parameters whose type differs from the declaration's."""
        built = self.interface.argument_schema
        if isinstance(built, DocumentSchema):
            return tuple(p for p in self.parameters if p.name != self.single_parameter or p.annotation is not Any)
        types = {self.single_parameter: getattr(built, "kind", Any)} if self.single_parameter else built.value_types
        return tuple(p for p in self.parameters if p.annotation not in (Any, types.get(p.name, Any)))

    @cached_property
    def single_parameter(self) -> str:
        """The name of the parameter that takes all arguments as one object. Empty if each argument has a parameter.

        It is the only parameter of the function, or the first of three: call, tool and context. No declared parameter
        has this name.
        """
        if len(self.parameters) != 1:
            return ""
        only = self.parameters[0]
        return "" if only.kind in _REST or only.name in self.value_names else only.name

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """The function's parameters that take arguments of the call.

        If no parameter has a declared name, and only one has no default, it is this one, as in
        `lambda call, name=name: ...`.
        """
        taken = tuple(
            p for p in self.function.signature.parameters if not p.is_injected and p not in self.tool_and_context
        )
        required = tuple(p for p in taken if p.is_required)
        is_named = any(p.kind in _REST or p.name in self.value_names for p in taken)
        return required if len(required) == 1 and not is_named else taken

    @cached_property
    def tool_and_context(self) -> tuple[Parameter, ...]:
        """The parameters for tool and context, of a function that takes call, tool and context. Otherwise empty.

        Such a function has three positional parameters without defaults, which do not have the names of declared
        parameters. A parameter annotated ToolContext gets the context anyway, and is not listed.
        """
        every = self.function.signature.parameters
        given = tuple(p for p in every if not p.is_injected)
        has_three = len(every) == 3 and len(given) > 1 and given == tuple(every[: len(given)])
        is_free = all(p.kind in _POSITIONAL and p.is_required and p.name not in self.value_names for p in given)
        return given[1:] if has_three and is_free else ()

    @cached_property
    def unused(self) -> tuple[str, ...]:
        """Declared parameters that the function does not take."""
        if self.single_parameter or self._rest:
            return ()
        names = {p.name for p in self.parameters}
        return tuple(name for name in self.value_names if name not in names)

    @cached_property
    def missing(self) -> tuple[str, ...]:
        """Parameters that the function needs and the declaration lacks."""
        known = (self.single_parameter,) if self.single_parameter else self.value_names
        needed = (p.name for p in self.parameters if p.is_required and p.kind is not inspect.Parameter.VAR_KEYWORD)
        return tuple(name for name in needed if name not in known)

    @cached_property
    def uncertain(self) -> tuple[str, ...]:
        """Parameters that the function needs and a call may leave out."""
        needed = {p.name for p in self.parameters if p.is_required}
        return tuple(name for name in self.interface.argument_schema.undefined_names if name in needed)

    @cached_property
    def value_names(self) -> Collection[str]:
        """The names of the declared parameters."""
        return self.interface.argument_schema.value_names

    @cached_property
    def _rest(self) -> str:
        return next((p.name for p in self.parameters if p.kind is inspect.Parameter.VAR_KEYWORD), "")

    def _fit(self, values: dict[str, Any]) -> dict[str, Any]:
        """Arrange values for the function."""
        if self.single_parameter:
            return {
                self.single_parameter: values.instance if isinstance(values, ModelArguments) else CallArguments(values)
            }

        missing = next((name for name in self.missing if name not in values), None)
        if missing is not None:
            raise TypeError(f"{self.function.origin} needs {missing!r}, which the call leaves out; see Toolbox.check()")

        names = {p.name for p in self.parameters} - {self._rest}
        other = {name: value for name, value in values.items() if name not in names}
        if not other:
            return values
        if not self._rest:
            raise TypeError(
                f"{self.function.origin} does not take {next(iter(other))!r} of the call; see Toolbox.check()"
            )
        return {name: value for name, value in values.items() if name in names} | {self._rest: other}


@dataclass(frozen=True)
class UndoPlan:
    """The values of a call that its `undo` takes."""

    handler: Handler  # of the tool
    arguments: tuple[str, ...]
    result: str  # the parameter that gets the result; empty if there is none
    rest: str  # the parameter that gets the other arguments; empty if there is none

    def fit(self, values: Mapping[str, Any], result: Any) -> dict[str, Any]:
        """Arrange the validated arguments of a call, with defaults for missing ones, and its result."""
        whole = self.handler.interface.argument_schema.add_defaults(dict(values))
        fitted = {name: whole[name] for name in self.arguments if name in whole}
        if self.result:
            fitted[self.result] = result
        if self.rest:
            fitted[self.rest] = {name: value for name, value in whole.items() if name not in fitted}
        return fitted


def plan_undo(handler: Handler, function: FunctionHandler) -> UndoPlan:
    """Decide which values of a call are passed to the function that undoes it.

    Raises:
        DefinitionError: The function needs more than the arguments and the result.
    """
    interface = handler.interface
    if isinstance(interface, FunctionHandler):
        known: Collection[str] = [p.name for p in interface.signature.look()]
        annotations = read_annotations(interface.signature.source)
        returned = annotations.get("return", "")
    else:
        known = interface.argument_schema.value_names
        returned = ""

    parameters = [p for p in function.signature.look() if not p.is_injected]
    named = [p for p in parameters if p.kind not in _REST]
    others = [p.name for p in named if p.name not in known and p.is_required]
    if len(others) > 1 or (others and returned in (None, NoneType, "None")):
        what = "only one parameter can get the result" if len(others) > 1 else "the tool returns nothing"
        raise DefinitionError(
            f"{handler.origin}: undo={function.origin} takes {' and '.join(map(repr, others))}, and {what}. "
            f"Name its parameters as the tool's: {', '.join(known) or 'it has none'}."
        )

    rest = next((p.name for p in parameters if p.kind is inspect.Parameter.VAR_KEYWORD), "")
    return UndoPlan(handler, tuple(p.name for p in named if p.name in known), "".join(others), rest)
