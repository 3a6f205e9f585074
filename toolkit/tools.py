"""A tool: a declaration that carries its own handler, and `@tool`, which makes one of a function."""

from __future__ import annotations

import hashlib
import inspect
import re
import sys
import unicodedata
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Concatenate, Generic, Literal, ParamSpec, TypeAlias, TypeVar, cast, overload

from typing_extensions import Self, TypedDict, Unpack

from toolkit import arguments, hints, results
from toolkit.context import ToolContext
from toolkit.doors import AsyncDoor, private_loop
from toolkit.errors import DefinitionError, FatalError, InvalidArguments
from toolkit.handlers import Action, BoundFunction, Function, Handler, gathered
from toolkit.messages import ToolResult, ToolSpec
from toolkit.parameters import Built, Signature, source_of, without_partials

P = ParamSpec("P")
R = TypeVar("R")
Q = ParamSpec("Q")  # the same of a tool that is bound: P and R belong to the class
S = TypeVar("S")
T = TypeVar("T")

Words: TypeAlias = str | bytes | Mapping[str, Any]
Effect: TypeAlias = Literal["read", "write", "destructive"]

# What OpenAI and Anthropic accept as a tool's name; one bad name makes them refuse the whole request.
NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class ToolOptions(TypedDict, total=False):
    """What `@tool` takes besides name, title and description.

    Attributes:
        effect: What a call does to the world; unlabelled tools promise nothing.
        idempotent: Whether a second call with the same arguments changes nothing more.
        relay: Exceptions whose message the model may see, besides ToolError and those that the docstring's `Raises:`
            names.
    """

    effect: Effect
    idempotent: bool
    relay: tuple[type[BaseException], ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class Tool(Generic[P, R]):
    """A function that a model may call, and that stays a function.

    It is called, awaited, documented, pickled and type-checked as the function it was made of; in a class body it binds
    to its instance. `invoke` is the way in for a model's words.

    Attributes:
        name: What the model calls it by: 1 to 64 letters, digits, `_` or `-`.
        handler: What carries a call out.
        title: A name for people; never sent to a model.
        text: The description, where it is not the docstring's.
        of_class: Whether it is a class method: it binds to the class, not to an instance.
    """

    name: str
    handler: Handler
    title: str | None = None
    text: str | None = None
    effect: Effect | None = None
    idempotent: bool = False
    relay: tuple[type[BaseException], ...] = ()
    of_class: bool = False

    __test__ = False  # a tool named test_connection is not a test

    def __post_init__(self) -> None:
        if not (isinstance(self.name, str) and NAME.fullmatch(self.name)):
            raise DefinitionError(
                f"{self.origin}: {self.name!r} is no name for a tool: providers accept 1 to 64 letters, digits, '_' "
                f"and '-'. Pass name={legal_name(str(self.name))!r}, for example."
            )
        if isinstance(self.handler, Function):
            self.__dict__.update(_looks(self.handler.function))

    @overload
    def __get__(
        self: Tool[Concatenate[S, Q], T], instance: None, owner: type[S]
    ) -> Tool[Concatenate[S, Q], T]: ...  # a method on its class
    @overload
    def __get__(self: Tool[Concatenate[type[S], Q], T], instance: S | None, owner: type[S]) -> Tool[Q, T]: ...
    @overload
    def __get__(self: Tool[Concatenate[S, Q], T], instance: S, owner: type | None = None) -> Tool[Q, T]: ...
    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    def __get__(self, instance: Any, owner: type | None = None) -> Tool[Any, Any]:
        target = owner if self.of_class else instance
        if target is None or not self.binds:
            return self
        return replace(self, handler=cast("Function", self.handler).in_class().bind(target))

    def __set_name__(self, owner: type, name: str) -> None:
        if self.binds and self.__dict__["__qualname__"].rpartition(".")[0] == owner.__qualname__:
            object.__setattr__(self, "handler", cast("Function", self.handler).in_class())

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function itself, with Python's values and Python's exceptions."""
        if not isinstance(self.handler, Function):
            raise TypeError(f"Tool {self.name!r} has no Python function to call; use invoke().")
        value: R = self.handler.function(*args, **kwargs)
        return value

    def __reduce__(self) -> tuple[Any, ...]:
        place = (self.__dict__.get("__module__"), self.__dict__.get("__qualname__", ""))
        home = _found(*place)
        if home is self:
            return _found, place
        values = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "handler"}
        if not isinstance(home, Tool):
            return _rebuilt, (self.handler, values)
        bound = (self.handler.instance,) if isinstance(self.handler, BoundFunction) else ()
        return _varied, (home, bound, values)  # the function itself cannot be found by its name: the tool is there

    def __repr__(self) -> str:
        return f"<Tool {self.name}{_shown_signature(self.handler)}>"

    @property
    def binds(self) -> bool:
        """Whether it becomes a method where it stands in a class body, as a plain function does."""
        return type(self.handler) is Function and inspect.isfunction(self.handler.function)

    @property
    def is_unbound(self) -> bool:
        """Whether it is a method that waits for its instance."""
        return self.binds and cast("Function", self.handler).signature.is_method

    @property
    def is_async(self) -> bool:
        """Whether its function is a coroutine function."""
        return self.handler.is_async

    @cached_property
    def description(self) -> str:
        """What the model is told that the tool does."""
        return self.handler.description if self.text is None else self.text

    @property
    def parameters(self) -> dict[str, Any]:
        """JSON Schema of the arguments: draft 2020-12, of type object. Read it, do not change it.

        Raises:
            DefinitionError: A parameter cannot be described to a model.
        """
        return self._built.schema

    @cached_property
    def spec(self) -> ToolSpec:
        """The tool as a model may see it."""
        return ToolSpec(name=self.name, description=self.description, parameters=self.parameters)

    @cached_property
    def origin(self) -> str:
        """Where the tool comes from, for messages to its developer."""
        return self.handler.signature.label if isinstance(self.handler, Function) else type(self.handler).__name__

    def renamed(self, name: str) -> Self:
        """Make the same tool under another name."""
        return replace(self, name=name)

    def invoke(self, words: Words = "{}", context: ToolContext[Any] | None = None) -> ToolResult:
        """Carry out a model's call, without gates; a tool's fault is a result, not an exception.

        Args:
            words: The arguments, as the model wrote them.
            context: What a parameter annotated ToolContext gets.

        Raises:
            FatalError: The tool raised it.
        """
        try:
            values = self._validate(words)  # type: ignore[arg-type]  # a mapping is refused, and read again
        except Exception:  # noqa: BLE001  read again, and explained there
            return self._invoke_mended(words, context)
        result = self.carry_out(values, context)
        return result if isinstance(result, ToolResult) else private_loop.run(_awaited(result))

    async def ainvoke(self, words: Words = "{}", context: ToolContext[Any] | None = None) -> ToolResult:
        """Carry out a model's call, without gates, in the running loop; a sync function gets a thread of its own."""
        try:
            values, repairs = self.read(words)
        except InvalidArguments as error:
            return ToolResult.failed(error)
        result = await AsyncDoor().call(lambda: _now(self.carry_out, values, context), is_async=self.is_async)
        if not isinstance(result, ToolResult):
            result = await result
        return result._replace(repairs=repairs) if repairs else result

    def read(self, words: Words) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Turn a model's words into typed values, and say what had to be mended.

        Raises:
            InvalidArguments: They do not fit; the text is for the model.
        """
        return arguments.read(self._built, words)

    def carry_out(
        self, values: dict[str, Any], context: ToolContext[Any] | None = None
    ) -> ToolResult | Awaitable[ToolResult]:
        """Call the handler with validated values; what comes back is a result, or a promise of one."""
        try:
            function, plain = self._hot
            value = function(**values) if function else self._action(values, context)
            if type(value) in plain:
                return results.rendered(value)
            value = gathered(value)
        except FatalError:
            raise
        except (Exception, SystemExit, GeneratorExit) as error:  # noqa: BLE001  whatever a tool raises is the answer to its call
            return self._failure(error)
        if hasattr(type(value), "__await__"):
            return self._later(value)
        plain.add(type(value))
        return results.rendered(value)

    def _invoke_mended(self, words: Words, context: ToolContext[Any] | None) -> ToolResult:
        try:
            values, repairs = self.read(words)
        except InvalidArguments as error:
            return ToolResult.failed(error)
        result = self.carry_out(values, context)
        whole = result if isinstance(result, ToolResult) else private_loop.run(_awaited(result))
        return whole._replace(repairs=repairs) if repairs else whole

    async def _later(self, promise: Awaitable[Any]) -> ToolResult:
        try:
            return results.rendered(await promise)
        except FatalError:
            raise
        except (Exception, SystemExit, GeneratorExit) as error:  # noqa: BLE001  as in `carry_out`
            return self._failure(error)

    @cached_property
    def _built(self) -> Built:
        return self.handler.built

    @cached_property
    def _validate(self) -> Callable[[str], dict[str, Any]]:
        return self._built.validator

    @cached_property
    def _hot(self) -> tuple[Callable[..., Any] | None, set[type]]:
        """What every call needs, in one look-up.

        The function, where values go in by keyword as they are; and the types that it has returned and that are neither
        promises nor given one by one, since telling so is slow for some.
        """
        plain = isinstance(self.handler, Function) and self.handler.signature.has_plain_call
        function = cast("Function", self.handler).function if plain else None
        return function, {str, int, float, bool, dict, list, type(None)}

    @cached_property
    def _action(self) -> Action:
        return self.handler.prepared()

    def _failure(self, error: BaseException) -> ToolResult:
        return results.explained(error, self.name, self.handler.raises, self.relay)


@overload
def tool(
    function: Callable[P, R],
    /,
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    **options: Unpack[ToolOptions],
) -> Tool[P, R]: ...
@overload
def tool(
    *, name: str | None = None, title: str | None = None, description: str | None = None, **options: Unpack[ToolOptions]
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...
def tool(
    function: Any = None,
    /,
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    **options: Unpack[ToolOptions],
) -> Any:
    """Make a tool of a function: its name, docstring and signature are what the model is told.

    Registers nowhere; the function is not changed, nor is its schema built before it is asked for.

    Args:
        function: Any callable: function, coroutine function, method, class, partial, callable object.
        name: For the model; the function's own by default, with what providers refuse replaced.
        title: For people.
        description: For the model; the docstring's prose by default.
        **options: See ToolOptions.

    Raises:
        DefinitionError: It cannot be a tool; the message names the function and what to change.

    Example:
        >>> @tool
        ... def add(a: int, b: int) -> int:
        ...     '''Add two numbers.'''
        ...     return a + b
        >>> add(1, 2)
        3
        >>> add.invoke('{"a": 1, "b": 2}').text
        '3'
    """
    _check(options)

    def decorate(function: Any) -> Tool[Any, Any]:
        if isinstance(function, Tool):
            given: dict[str, Any] = {"name": name, "title": title, "text": description, **options}
            return replace(function, **{key: value for key, value in given.items() if value is not None})
        if isinstance(bound := getattr(function, "__func__", None), Tool):
            return decorate(bound.__get__(function.__self__))  # a class method made of a tool
        plain = bound if isinstance(function, (classmethod, staticmethod)) else function
        if not callable(plain):
            raise DefinitionError(
                f"@tool needs something that can be called; it got {function!r}. Give options by name: @tool(name=...)."
            )
        signature = Signature(plain, hints.frame_names(source_of(plain)))
        made: Tool[Any, Any] = Tool(
            name=legal_name(_name_of(plain)) if name is None else name,
            handler=Function(signature),
            title=title,
            text=description,
            of_class=isinstance(function, classmethod),
            **options,
        )
        return staticmethod(made) if isinstance(function, staticmethod) else made  # type: ignore[return-value]

    return decorate if function is None else decorate(function)


def legal_name(name: str) -> str:
    """Make a name that providers accept of one that they may refuse; names that differ stay apart.

    Letters lose their accents, what is left over becomes `_`, and what is too long ends in a hash of the whole.
    """
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode() if not name.isascii() else name
    legal = re.sub(r"[^A-Za-z0-9_-]+", "_", plain)
    legal = (legal.strip("_") if legal != name else legal) or "tool"
    if len(legal) <= 64 and (name.isascii() or len(plain) >= len(name)):
        return legal
    digest = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:8]
    return f"{legal[:55]}_{digest}"


def _name_of(function: Any) -> str:
    function = without_partials(function)
    written = getattr(function, "__name__", None)
    return written or re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", type(function).__name__).lower()


_COPIED = ("__module__", "__name__", "__qualname__", "__isabstractmethod__")


def _looks(function: Any) -> dict[str, Any]:
    looks = {key: getattr(function, key, None) for key in _COPIED}
    return {
        **{key: value for key, value in looks.items() if value is not None},
        "__doc__": getattr(function, "__doc__", None),
        "__annotations__": hints.raw_annotations(function),
        "__wrapped__": function,
    }


def _check(options: Mapping[str, Any]) -> None:
    unknown = options.keys() - ToolOptions.__annotations__.keys()
    if unknown:
        known = ("name", "title", "description", *ToolOptions.__annotations__)
        raise DefinitionError(f"@tool has no option {sorted(unknown)[0]!r}. It has: {', '.join(known)}.")
    if options.get("effect") not in (None, "read", "write", "destructive"):
        raise DefinitionError(f"effect={options['effect']!r} is not one of 'read', 'write', 'destructive'.")
    relay = options.get("relay", ())
    if not isinstance(relay, (tuple, list)) or not all(map(_is_exception, relay)):
        raise DefinitionError(f"relay={relay!r} is not a tuple of exception classes, such as relay=(KeyError,).")


def _is_exception(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseException)


def _shown_signature(handler: Handler) -> str:
    try:
        return str(hints.signature(handler.function)) if isinstance(handler, Function) else "(...)"
    except (ValueError, TypeError):
        return "(...)"


def _found(module: str | None, qualname: str) -> Any:
    """Find what stands in a module under a name, as it was written: not bound to anything."""
    place: Any = sys.modules.get(module or "")
    for part in qualname.split("."):
        place = inspect.getattr_static(place, part, None)
    return getattr(place, "__func__", place)


def _rebuilt(handler: Handler, values: dict[str, Any]) -> Tool[Any, Any]:
    return Tool(handler=handler, **values)


def _varied(home: Tool[Any, Any], bound: tuple[Any, ...], values: dict[str, Any]) -> Tool[Any, Any]:
    handler = cast("Function", home.handler)
    return replace(home, handler=handler.in_class().bind(*bound) if bound else handler, **values)


async def _awaited(promise: Awaitable[R]) -> R:
    return await promise


async def _now(function: Callable[..., R], *values: Any) -> R:
    return function(*values)
