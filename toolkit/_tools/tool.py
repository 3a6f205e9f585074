"""A tool: a declaration that carries its own handler."""

from __future__ import annotations

import inspect
import json
import re
import unicodedata
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Concatenate, Generic, cast, get_origin, overload

from typing_extensions import ParamSpec, Self, TypeVar, Unpack, is_protocol, is_typeddict

from toolkit._lazy import render
from toolkit._options import explain_missing, hide_frames, make_hints, spell_options
from toolkit._schema.signature import is_plain_function, read_attributes, render_signature, unwrap_partials
from toolkit._tools.functions import FunctionHandler, make_function_handler
from toolkit._tools.options import (
    DEFAULT_SETTINGS,
    DEFAULTS,
    HINTS,
    ToolOptions,
    ToolSettings,
    is_name,
    split_options,
)
from toolkit.errors import DefinitionError

if TYPE_CHECKING:  # slow to load, and not needed before a tool is described or called
    from toolkit._context import ToolContext
    from toolkit._dialects.base import Explanation
    from toolkit._dialects.catalog import DialectName
    from toolkit._messages import ToolResult, ToolSpec
    from toolkit._schema.arguments import RawArguments
    from toolkit._tools.handlers import DeclaredHandler, Handler, UndoPlan
    from toolkit._tools.invocation import Invocation
    from toolkit._tools.shared_values import Scope

# The remedy if a call without a run has no deps.
CONTEXT_REMEDY = "pass context=ToolContext(deps=...)"


def safe_name(name: str) -> str:
    """Make a name that providers accept. Different names stay different.

    Letters lose their accents, other characters become `_`, and a name that is too long ends in a hash of the whole.
    """
    if is_name(name):
        return name

    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    legal = re.sub(r"[^A-Za-z0-9_-]+", "_", plain)
    if legal != name:
        legal = legal.strip("_")
    legal = legal or "tool"
    if len(legal) <= 64 and len(plain) >= len(name):
        return legal

    import hashlib  # it takes longer to load than all of this module, and is rarely needed

    digest = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:8]
    return f"{legal[:55]}_{digest}"


def name_of(function: Any) -> str:
    """Return the name of a callable. An instance has the name of its class, in snake case."""
    while isinstance(function, partial) and "__name__" not in vars(function):
        function = function.func
    name = getattr(function, "__name__", None)
    if isinstance(name, str) and name:
        return name
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", type(function).__name__).lower()


P = ParamSpec("P", default=...)
R = TypeVar("R", default=Any)
Q = ParamSpec("Q")  # the same of a tool that is bound: P and R belong to the class
S = TypeVar("S")
T = TypeVar("T")


SCHEMA_HINTS = {
    **HINTS,
    **make_hints(
        (
            "args_schema input_schema parameters params_json_schema",
            "The JSON Schema is the second argument: Tool.from_schema(name, schema).",
        ),
        ("callable fn func handler on_invoke_tool", "Write function=..."),
    ),
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Tool(Generic[P, R]):
    """A function that a model may call. You can still call it as a function.

    It keeps the function's signature, types and documentation, can be pickled, and works as a method. `invoke` executes
    a call of a model. Make tools with `tool`, `Tool.from_schema` or `Tool.from_models`.

    Attributes:
        name: The name for the model: 1 to 64 letters, digits, `_` or `-`.
        handler: The object that executes the calls.
        title: The name for people. It is not sent to a model.
        relay: Exceptions whose message the model may read, besides ToolError and those in the docstring's `Raises:`.
        strict: Whether the provider enforces the schema, if the schema can be rewritten without loss. With None, the
            run decides.
        settings: The other options of `tool`, such as effect, timeout, retries and gates.
        activity: The name of the function that executes the tool in a toolbox. With "", the model writes the output.
            With None, the name of the tool.
    """

    name: str
    handler: Handler
    title: str | None = None
    relay: tuple[type[BaseException], ...] = ()
    strict: bool | None = None
    settings: ToolSettings = DEFAULT_SETTINGS
    activity: str | None = None
    # The description, where it is not the docstring's.
    _description: str | None = None
    # Whether it is a class method: it binds to the class, not to an instance.
    _is_classmethod: bool = False
    # JSON Schemas of the meta keys that a model writes in addition to the arguments; and which of them are required.
    _meta: Mapping[str, Any] = field(default_factory=dict)
    _required_meta: tuple[str, ...] = ()
    # The values of the run that a call may see; None for all of them.
    _scope: Scope | None = None

    __test__ = False  # a tool named test_connection is not a test

    def __post_init__(self) -> None:
        if not is_name(self.name):
            raise DefinitionError(
                f"{self.origin}: {self.name!r:.100} is not a valid tool name: providers accept 1 to 64 letters, "
                f"digits, '_' and '-'. Pass name={safe_name(str(self.name))!r}, for example."
            )

        for option, text in (("title", self.title), ("description", self._description)):
            if text is not None and not isinstance(text, str):
                raise DefinitionError(f"{self.origin}: {option}={text!r:.100} is not text.")
        function = self._function
        if function:
            self.__dict__.update(read_attributes(function.function))
        if self.settings.undo is not None and not self._is_unbound:
            self._plan_undo()

    def invoke(self, arguments: RawArguments = "{}", context: ToolContext[Any] | None = None) -> ToolResult:
        """Validate a model's arguments and call the function. Errors of the tool are returned as a result, not raised.

        Gates, `timeout`, `retries`, `executor` and `isolate` do not apply here. They apply in `Toolbox.call` and in
        runs. The result's `exception` has the exception with its traceback, and the log `toolkit` has it, too.

        Args:
            arguments: The raw arguments: JSON text, or a mapping.
            context: Passed to a parameter annotated ToolContext.

        Raises:
            FatalError: The tool raised it.
            TypeError: The tool takes `ToolContext[X]`, and the context has no such deps.
        """
        return self._invocation.invoke(arguments, context)

    def ainvoke(
        self, arguments: RawArguments = "{}", context: ToolContext[Any] | None = None
    ) -> Coroutine[Any, Any, ToolResult]:
        """Do what `invoke` does, in the running event loop. A sync function runs on its own thread."""
        return self._invocation.ainvoke(arguments, context)

    @cached_property
    def description(self) -> str:
        """The description that the model reads."""
        return self.handler.interface.description if self._description is None else self._description

    @property
    @hide_frames
    def parameters(self) -> dict[str, Any]:
        """The JSON Schema of the arguments: draft 2020-12, of type object. Do not change it.

        Raises:
            DefinitionError: A parameter cannot be described to a model.
        """
        return self.handler.argument_schema.schema

    @property
    def output_schema(self) -> dict[str, Any] | None:
        """The JSON Schema of the return value. None without a return annotation."""
        return self.handler.interface.returns.schema

    @cached_property
    def _spec(self) -> ToolSpec:
        """The tool as plain data, as dialects render it.

        Raises:
            DefinitionError: The tool cannot be described to a model.
        """
        from pydantic_core import to_json

        from toolkit._messages import ToolSpec

        arguments = self.handler.argument_schema
        output = self.handler.interface.returns.schema
        function = self.handler.function_handler

        try:
            text = to_json([self.description, arguments.schema])
            if b"NaN" in text or b"Infinity" in text:  # as a number, or in a text
                json.dumps(arguments.schema, allow_nan=False)
        except ValueError as error:
            what = "its description or schema holds what no JSON can carry"
            raise DefinitionError(f"{self.origin}: {what}: {error}") from None

        return ToolSpec(
            name=self.name,
            description=self.description,
            parameters=self._add_meta_fields(arguments.schema) if self._meta else arguments.schema,
            activity=self.handler.activity,
            meta=self._meta,
            module=self._scope.module if self._scope else "",
            output=output,
            title=self.title,
            strict=self.strict,
            namespace=self.settings.namespace,
            defer_loading=self.settings.defer_loading,
            provider_form=getattr(function and function.signature.callable, "provider_form", None),
        )

    def _add_meta_fields(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Extend the schema of the arguments by the meta keys."""
        from toolkit._messages import OUTPUT_PATH
        from toolkit._tools.shared_values import allow_references, describe_result

        meta = self._meta
        own = schema
        output = self.handler.interface.returns.schema
        if OUTPUT_PATH in meta:
            own = allow_references(schema)
            if output is not None and self.handler.activity != "":  # a model knows the output that it writes itself
                meta = {**meta, OUTPUT_PATH: describe_result(meta[OUTPUT_PATH], output)}
        required = [*(key for key in self._required_meta if key in meta), *own.get("required", ())]
        known = {"required": required} if required else {}
        return {**own, "properties": {**meta, **own["properties"]}, **known}

    @property
    def origin(self) -> str:
        """The name of the function or schema from which the tool was made, for error messages."""
        return self.handler.origin

    def explain(self, dialect: DialectName = "chat", *, strict: bool = True) -> Explanation:
        """Explain the schema of this tool in a dialect: what is rewritten, and why it is not strict.

        Raises:
            ValueError: There is no such dialect.
            DefinitionError: The tool cannot be described to a model, or to this provider.
        """
        from toolkit._dialects.base import explain_tool
        from toolkit._dialects.catalog import DIALECTS  # all of them take longer to load than the rest of a tool

        return explain_tool(self._spec, DIALECTS[dialect](strict=strict))

    @cached_property
    def _invocation(self) -> Invocation:
        """Parses, executes and renders the tool's calls."""
        from toolkit._tools.invocation import Invocation

        return Invocation(self)

    def _plan_undo(self) -> UndoPlan:
        """Decide which values of a call its `undo` takes.

        Raises:
            DefinitionError: The `undo` takes something else.
        """
        from toolkit._tools.handlers import plan_undo  # slow to load, and few tools have one

        return plan_undo(self.handler, take_function(self.settings.undo))

    @classmethod
    @spell_options(ToolOptions, DEFAULTS, SCHEMA_HINTS)
    def from_schema(
        cls,
        name: str,
        schema: Mapping[str, Any],
        function: Callable[..., Any] | None = None,
        *,
        title: str | None = None,
        description: str | None = None,
        **options: Unpack[ToolOptions],
    ) -> Tool[..., Any]:
        """Declare a tool by the JSON Schema of its arguments and, in `_output`, of its result.

        Args:
            name: The name for the model. If the schema has `_tool`, both must be equal.
            schema: Of type object: the parameters, and the meta fields `_tool`, `_activity`, `_output`,
                `_reasoningForCall`, `_module`, `_imports`, `_instance`, `_outputPath`.
            function: The function that executes the tool. Without it, bind one in a toolbox; otherwise the tool is
                latent.
            title: For display.
            description: For the model. By default the schema's own description.
            **options: As for `tool`.

        Raises:
            DefinitionError: The schema is invalid or inconsistent; the message names the place.
        """
        from toolkit._tools.from_schema import parse_schema

        interface, declared = parse_schema(name, schema)
        fields = {"title": title, "_description": description, **declared, **options}
        return cls._declare(name, interface, function, fields)

    @classmethod
    @spell_options(ToolOptions, DEFAULTS, HINTS)
    def from_models(
        cls,
        name: str,
        accepts: Any,
        gives: Any = str,
        function: Callable[..., Any] | None = None,
        *,
        title: str | None = None,
        description: str | None = None,
        **options: Unpack[ToolOptions],
    ) -> Tool[..., Any]:
        """Declare a tool by the types of its arguments and its result.

        Args:
            name: The name for the model.
            accepts: A pydantic model, a dataclass, a TypedDict, or a JSON Schema: its members are the parameters.
            gives: Any type that pydantic can validate, or a JSON Schema.
            function: As for `from_schema`.
            title: For display.
            description: For the model. By default that of the type, such as its docstring.
            **options: As for `tool`.

        Raises:
            DefinitionError: The arguments have no members, or one that begins with an underscore.
        """
        from toolkit._tools.from_schema import parse_types

        fields = {"title": title, "_description": description, **options}
        interface = parse_types(f"Tool.from_models({name!r})", accepts, gives)
        return cls._declare(name, interface, function, fields)

    @classmethod
    def _declare(cls, name: str, interface: Any, function: Any, options: Mapping[str, Any]) -> Tool[..., Any]:
        from toolkit._tools.handlers import BoundHandler, name_origin, without_function

        given = {key: value for key, value in options.items() if value is not None}
        fields = split_options(given, interface.origin, DEFAULT_SETTINGS)
        activity = fields.get("activity")
        if function is None:
            return cls(name=name, handler=without_function(interface, activity), **fields)

        own_function = take_function(function)
        with name_origin(interface.origin):
            own_function.settings.refuse_loosening(given)
        settings = fields["settings"].inherit(own_function.settings)
        handler = BoundHandler(interface, activity or name, function=own_function)
        return cls(name=name, handler=handler, **{**fields, "settings": settings})

    @overload  # a method on its class
    def __get__(self: Callable[Concatenate[S, Q], T], instance: None, owner: type[S]) -> Tool[P, R]: ...
    @overload  # mypy would have a class for S here
    def __get__(self: Callable[Concatenate[type[S], Q], T], instance: S | None, owner: type[S]) -> Tool[Q, T]: ...  # type: ignore[misc]
    @overload
    def __get__(self: Callable[Concatenate[S, Q], T], instance: S, owner: type | None = None) -> Tool[Q, T]: ...
    @overload  # a static method
    def __get__(self, instance: object, owner: type | None = None) -> Self: ...
    def __get__(self, instance: Any, owner: type | None = None) -> Tool[Any, Any]:
        target = owner if self._is_classmethod else instance
        method = self._unbound_method
        if target is None or method is None:
            return self
        handler = self._with_function(method.in_class().bind(target))
        return replace(self, handler=handler, settings=self.settings.bind(target))

    def __set_name__(self, owner: type, name: str) -> None:
        method = self._unbound_method
        if method is not None and self.__dict__.get("__qualname__", "").rpartition(".")[0] == owner.__qualname__:
            object.__setattr__(self, "handler", self._with_function(method.in_class(owner)))

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function itself."""
        handler = self.handler.function_handler
        if handler is None:
            raise NotImplementedError(f"{self.origin} has no function: bind one in a Toolbox, or use invoke().")
        value: R = handler.function(*args, **kwargs)
        return value

    def __reduce__(self) -> tuple[Any, ...]:
        place = (self.__dict__.get("__module__"), self.__dict__.get("__qualname__", ""))
        home = _find_in_module(*place)
        if home is self:
            return _import_tool, place
        values = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "handler"}
        if not isinstance(home, Tool):
            return partial(Tool, handler=self.handler, **values), ()
        function = cast("FunctionHandler", self._function)  # `home` was found by its name
        carried = None if function is self.handler else cast("DeclaredHandler", self.handler).with_interface(None)
        return _rebuild_from_home, (home, function.instance, carried, values)  # the function's name refers to the tool

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Tool):
            own = self.handler
            its = other.handler
            if isinstance(own, FunctionHandler) and isinstance(its, FunctionHandler):
                return (self.name, own.function) == (other.name, its.function)
        return self is other

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"<Tool {self.name}{self._signature}>"

    if not TYPE_CHECKING:  # type checkers report missing attributes themselves
        __getattr__ = explain_missing(
            ("call execute forward on_invoke_tool run", "tool.invoke(arguments)"),
            ("acall arun invoke_async", "await tool.ainvoke(arguments)"),
            ("args args_schema input_schema inputs json_schema params_json_schema schema", "tool.parameters"),
            ("get_input_jsonschema get_input_schema parameters_schema tool_call_schema", "tool.parameters"),
            ("display_name label", "tool.title"),
            ("effect retries timeout", "tool.settings.effect, tool.settings.timeout and so on"),
            ("fn func function implementation original_function", "inspect.unwrap(tool)"),
            ("rename renamed", "tool.with_name(name)"),
            ("openai_schema to_dict to_openai to_openai_tool tool_def tool_spec", 'Toolbox([tool]).schemas("chat")'),
        )

    def _repr_html_(self) -> str:
        return render(self, "cards.render_tool")

    @property
    def _signature(self) -> str:
        """The signature of its function, without the parameters that the run supplies; `(...)` without a function."""
        function = self._function
        if function is None:
            return "(...)"
        try:
            injected = [p.name for p in function.signature.look() if p.is_injected]
            return render_signature(function.function, leave_out=injected)
        except (DefinitionError, TypeError, ValueError):  # it has none that Python can read
            return "(...)"

    @property
    def _function(self) -> FunctionHandler | None:
        """The handler of the decorated function, or of its signature if its body is `...`."""
        interface = self.handler.interface
        return interface if isinstance(interface, FunctionHandler) else None

    def _with_function(self, function: FunctionHandler) -> Handler:
        """Return the same handler with another function."""
        if self.handler is self._function:
            return function
        return cast("DeclaredHandler", self.handler).with_interface(function)

    @property
    def _unbound_method(self) -> FunctionHandler | None:
        """The handler of a function that becomes a method in a class body, or None. Includes cached functions."""
        function = self._function
        if function is None or function.instance is not None:
            return None
        written = function.function
        return function if inspect.isfunction(written) or inspect.ismethoddescriptor(written) else None

    @cached_property
    def _deps_types(self) -> tuple[Any, ...]:
        """The types of deps that its functions take: each X of a `ToolContext[X]`, where X is neither None nor Any."""
        functions = {id(each): each for each in (self._function, self.handler.function_handler) if each}
        return tuple(kind for each in functions.values() for kind in each.signature.deps_types)

    def _check_deps(self, context: ToolContext[Any] | None) -> None:
        """Check the deps of a call without a run, as `check_deps` does."""
        from toolkit._context import use_context  # slow to load, as above

        check_deps(self, use_context(context).deps, CONTEXT_REMEDY)

    @property
    def _is_unbound(self) -> bool:
        """True if it is a method that waits for its instance, also a plain one such as `Shop.buy`."""
        method = self._unbound_method
        return method is not None and (method.signature.is_method or _is_written_in_class(method.function))

    @property
    def is_async(self) -> bool:
        """True if its function is a coroutine function."""
        return self.handler.is_async

    def with_name(self, name: str) -> Self:
        """Return the same tool under another name."""
        return replace(self, name=name)


def _find_in_module(module: str | None, qualname: str) -> Any:
    """Return the object of a qualified name in a module, without binding it."""
    place: Any = import_module(module) if module else None  # another process may not have imported it
    for part in qualname.split("."):
        place = inspect.getattr_static(place, part, None)
    return getattr(place, "__func__", place)


def _import_tool(module: str, qualname: str) -> Any:
    """Return the tool that another process has found under this name.

    Raises:
        DefinitionError: There is no such tool, for example one of the main script, if this process has another one.
    """
    found = _find_in_module(module, qualname)
    if found is None:
        raise DefinitionError(
            f"This process cannot find the tool {qualname} in {module}. A process of joblib, Ray, Spark or isolate= "
            "does not have the tools of a notebook or main script: define them in a module that it can import."
        )
    return found


def _rebuild_from_home(
    home: Tool[Any, Any], instance: Any, carried: DeclaredHandler | None, values: dict[str, Any]
) -> Tool[Any, Any]:
    own = cast("FunctionHandler", home.handler.interface)
    function = own if instance is None else own.in_class().bind(instance)
    return replace(home, handler=carried.with_interface(function) if carried else function, **values)


def refuse_unbound(tool: Tool[..., Any], verb: str) -> None:
    """Refuse a method without its instance; `verb` is the intended action, for the message.

    Raises:
        DefinitionError: The tool is an unbound method.
    """
    if tool._is_unbound:
        raise DefinitionError(
            f"{tool.origin} is a method and needs its instance: "
            f"{verb} instance.{tool.name}, or use Toolbox.from_object(instance)."
        )


def _is_written_in_class(function: Any) -> bool:
    """Return whether a function is plain, and a method of instances."""
    if not inspect.isfunction(function):
        return False
    owner = function.__qualname__.rpartition(".")[0]
    return bool(owner) and not owner.endswith("<locals>") and function.__code__.co_varnames[:1] == ("self",)


def with_origin(tool: Tool[..., Any], origin: str) -> Tool[..., Any]:
    """Return the tool with another origin, which is how errors and approvers describe where the tool is from."""
    handler: Any = tool.handler
    if isinstance(handler, FunctionHandler):
        return replace(tool, handler=replace(handler, signature=replace(handler.signature, origin=origin)))
    return replace(tool, handler=handler.with_interface(replace(handler.interface, origin=origin)))


def check_deps(tool: Tool[..., Any], deps: Any, remedy: str) -> None:
    """Refuse deps that a tool's function does not take: None, or a builtin value in place of an object.

    Raises:
        TypeError: There are no deps, or they are of another class. The message ends with `remedy`, how to pass them.
    """
    for kind in tool._deps_types:
        name = getattr(kind, "__name__", str(kind))
        if deps is None:
            raise TypeError(f"{tool.origin} takes a ToolContext[{name}], and there are no deps: {remedy}.")
        if not _may_be(deps, kind):
            raise TypeError(
                f"{tool.origin} takes a ToolContext[{name}], and the deps are of type {type(deps).__name__}: "
                f"{remedy}, of type {name}."
            )


def _may_be(value: Any, kind: Any) -> bool:
    """Return whether a value may be of a type. Only builtin values are compared, and only with plain classes.

    A value of the application's own class may stand in for one of another, such as in a test.
    """
    is_plain = isinstance(kind, type) and not (get_origin(kind) or is_protocol(kind) or is_typeddict(kind))
    if not is_plain or type(value).__module__ != "builtins":
        return True
    return isinstance(value, kind) or (kind is float and type(value) is int)


def take_function(given: Any) -> FunctionHandler:
    """Make the handler of a function that is bound to a tool. The function of another tool keeps its settings.

    Raises:
        DefinitionError: The function cannot be called, or is a tool without a function of its own.
    """
    if not isinstance(given, Tool):
        plain = make_function_handler(given)
        wrapped = find_wrapped_tool(given)
        return plain if wrapped is None else replace(plain, settings=wrapped.settings)
    refuse_unbound(given, "bind")
    handler = given.handler.function_handler
    if handler is None:
        raise DefinitionError(f"{given.origin} has no function of its own, so it cannot be bound.")
    return replace(handler, settings=given.settings)


def find_wrapped_tool(function: Any) -> Tool[..., Any] | None:
    """Return the tool behind partials, its `__call__` and decorators that use `functools.wraps`, whose gates hold."""
    if is_plain_function(function):
        return None
    found = inspect.unwrap(unwrap_partials(function), stop=lambda part: isinstance(part, (Tool, partial)))
    found = getattr(found, "__self__", found)
    if isinstance(found, partial):
        return find_wrapped_tool(found)
    return found if isinstance(found, Tool) else None


def name_function(tool: Tool[..., Any]) -> str:
    """Name the function of a tool, without its module, so that a function may move to another file."""
    signature = getattr(tool.handler.interface, "signature", None)
    module = "" if signature is None else getattr(signature.source, "__module__", None) or "builtins"
    return tool.origin.removeprefix(f"{module}.")


def find_instance(part: Any) -> Any:
    """Return the object whose method is called, behind bindings, partials and tools, or None for a plain function."""
    part = unwrap_partials(part)
    if isinstance(part, Tool):
        part = part.handler.function_handler or part.handler
    if isinstance(part, FunctionHandler):
        return find_instance(part.function)
    return getattr(part, "__self__", None) if inspect.isroutine(part) else part
