"""Modules: tools that a model carries out apart, in a conversation of its own that knows nothing of the run.

    box.module("research", Runner(model="..."))

It is told the tool's description, the arguments and what the tool imports; its answer has to be what the tool gives.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

from pydantic_core import ValidationError, to_json

from toolkit._context import ToolContext
from toolkit._messages import OUTPUT, REASONS_WITHOUT_ANSWER, ToolCall, ToolResult
from toolkit._schema.error_messages import explain_errors
from toolkit._tools.handlers import Action, Declared, Function, implementation
from toolkit._tools.options import Scope
from toolkit.errors import DefinitionError, Failed, NotFound

if TYPE_CHECKING:
    from toolkit._tools.tool import Tool

# So many modules may be at work inside each other: one whose runner has its own tools could go on for ever.
MAX_DEPTH = 8


class ModuleResult(Protocol):
    """What came of a module's run."""

    @property
    def output(self) -> Any:
        """Its answer; None where there is none."""
        ...

    @property
    def finish_reason(self) -> str:
        """Why it ended."""
        ...


@runtime_checkable
class ModuleRunner(Protocol):
    """What a module asks: a Runner."""

    async def arun(self, prompt: str, *, output_type: Any, shared: Mapping[str, Any]) -> ModuleResult:
        """Ask a model for an answer of a type, or of a JSON Schema."""
        ...


# Gets the call, its tool, and the values that it imports; gives what the tool gives.
ModuleFunction: TypeAlias = Callable[[ToolCall, "Tool[..., Any]", Mapping[str, Any]], Any]
Delegate: TypeAlias = ModuleRunner | Function


def delegate_of(given: ModuleRunner | ModuleFunction) -> Delegate:
    """Make what carries out the tools of a module.

    Raises:
        DefinitionError: It is neither a runner nor a function.
    """
    if isinstance(given, ModuleRunner):
        return given
    if not callable(given):
        raise DefinitionError(f"A module is a Runner, or a function of call, tool and imports; this is {given!r}.")
    return implementation(given)


@dataclass(frozen=True)
class Delegated(Declared):
    """Leaves a tool to its module.

    Attributes:
        tool: As it was declared.
        scope: What its calls may see.
        delegate: What answers for the module; None where nothing does.
    """

    tool: Tool[..., Any]
    scope: Scope
    delegate: Delegate | None

    @property
    def activity(self) -> str:
        """What carries the tool out: no function of its own."""
        return ""

    def prepared(self) -> Action:
        """Refuse every call."""

        def refuse(_: dict[str, Any], __: ToolContext[Any] | None) -> Any:
            raise NotFound(
                f"module not found: {self.scope.module}. "
                f"Toolbox.bindings.module({self.scope.module!r}, Runner(...)) gives one; "
                f"Toolbox.bind({self.tool.name!r}, function) does without."
            )

        return refuse

    def make_call(self, values: dict[str, Any], context: ToolContext[Any] | None) -> tuple[ToolCall, Mapping[str, Any]]:
        """Say what the module may know: the call, without a word of the run that makes it, and its imports."""
        own = context or ToolContext(deps=None)
        imports = {name: own.shared[name] for name in self.scope.imports or () if name in own.shared}
        call = ToolCall(
            name=self.tool.name,
            arguments=to_json(values, inf_nan_mode="strings").decode(),
            id=own.call_id,
            provider_call_id=own.provider_call_id,
            imports=tuple(imports),
        )
        return call, imports

    def check_answer(self, answer: Any) -> ToolResult:
        """Make the result of an answer; one that is not what the tool gives is an error."""
        given = answer if isinstance(answer, ToolResult) else ToolResult(answer)
        if given.is_error:
            return given
        asked = self.returns.argument_schema
        try:
            text = to_json({OUTPUT: given.value}, inf_nan_mode="strings").decode()
            return given._replace(value=asked.validator(text)[OUTPUT])
        except ValidationError as error:
            faults = explain_errors(error.errors(include_url=False, include_context=False), asked.schema)
            failure = Failed(f"The module {self.scope.module!r} gave what {self.tool.name} does not give: {faults}")
            return ToolResult.from_error(failure)._replace(details=given.details)


@dataclass(frozen=True)
class DelegatedToFunction(Delegated):
    """Leaves a tool to a module that is a function."""

    delegate: Function

    @property
    def is_async(self) -> bool:
        """Whether its answer must be awaited."""
        return self.delegate.is_async

    def prepared(self) -> Action:
        """Ask the function, and check its answer."""
        return self._ask

    def _ask(self, values: dict[str, Any], context: ToolContext[Any] | None) -> ToolResult | Awaitable[ToolResult]:
        call, imports = self.make_call(values, context)
        answer = self.delegate.function(call, self.tool, imports)
        return self._await_answer(answer) if hasattr(type(answer), "__await__") else self.check_answer(answer)

    async def _await_answer(self, promise: Awaitable[Any]) -> ToolResult:
        return self.check_answer(await promise)


@dataclass(frozen=True)
class DelegatedToRunner(Delegated):
    """Leaves a tool to a module that is a runner: in a run of its own, which ends with the one that makes the call."""

    delegate: ModuleRunner

    @property
    def is_async(self) -> bool:
        """Whether its answer must be awaited: it can be called off at any time, then."""
        return True

    def prepared(self) -> Action:
        """Ask the runner, and check its answer."""
        return self._ask

    async def _ask(self, values: dict[str, Any], context: ToolContext[Any] | None) -> ToolResult:
        if (depth := _depth.get()) >= MAX_DEPTH:
            raise Failed(f"Not done: {MAX_DEPTH} modules wait for each other already.")
        call, imports = self.make_call(values, context)
        token = _depth.set(depth + 1)
        try:
            prompt = render_prompt(self.tool.description or self.tool.name, call, imports)
            ended = await self.delegate.arun(prompt, output_type=self._output_type, shared=imports)
        finally:
            _depth.reset(token)
        return self._ended(ended)

    def _ended(self, ended: ModuleResult) -> ToolResult:
        """Make the result; what came of the run, and what it cost, stands in its details."""
        if ended.finish_reason not in REASONS_WITHOUT_ANSWER:
            return self.check_answer(ToolResult(ended.output, details=ended))
        failure = Failed(f"The module {self.scope.module!r} gave no answer: {ended.finish_reason}.")
        return ToolResult.from_error(failure)._replace(details=ended)

    @cached_property
    def _output_type(self) -> Any:
        """What the answer has to be, as an output type."""
        schema = self.returns.argument_schema.schema
        shown, definitions = schema["properties"][OUTPUT], schema.get("$defs")
        if shown.get("type") == "string" and shown.keys() <= {"type", "description"}:
            return str
        return {**shown, "$defs": definitions} if definitions else shown


def delegate_tool(tool: Tool[..., Any], delegate: Delegate | None) -> Delegated:
    """Leave a tool to its module; to the one that it was left to before, where there is no other."""
    interface, scope, before = tool.handler.interface, tool._scope or Scope(), tool.handler
    if delegate is None:
        return before if isinstance(before, Delegated) else Delegated(interface, tool, scope, None)
    if isinstance(delegate, Function):
        return DelegatedToFunction(interface, tool, scope, delegate)
    return DelegatedToRunner(interface, tool, scope, delegate)


def render_prompt(description: str, call: ToolCall, imports: Mapping[str, Any]) -> str:
    """Write what a module's model is told."""
    context = [f"Context: {to_json(imports, inf_nan_mode='strings').decode()}"] if imports else []
    return "\n\n".join([description, f"Arguments: {call.arguments}", *context])


_depth: ContextVar[int] = ContextVar("depth", default=0)
