"""Modules: tools that another model executes in a conversation of its own.

    box.bindings.module("research", Runner(model="..."))

The module gets the tool's description, the arguments and the values that the tool imports, and nothing else of the run.
Its answer is validated against the tool's output schema.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

from pydantic_core import ValidationError, to_json

from toolkit._context import ToolContext
from toolkit._messages import OUTPUT, ToolCall, ToolResult
from toolkit._schema.error_messages import ErrorExplainer
from toolkit._tools.functions import Action, FunctionHandler, make_function_handler
from toolkit._tools.handlers import DeclaredHandler
from toolkit._tools.shared_values import Scope
from toolkit.errors import DefinitionError, Failed
from toolkit.events import REASONS_WITHOUT_ANSWER

if TYPE_CHECKING:
    from toolkit._tools.tool import Tool


@runtime_checkable
class ModuleRunner(Protocol):
    """A Runner, as far as a module needs it."""

    async def arun(self, prompt: str, *, output_type: Any, shared: Mapping[str, Any]) -> Any:
        """Ask a model for an answer of a type, or of a JSON Schema, and return a RunResult."""
        ...


# A function of the call, its tool and the imported values that returns the tool's output.
ModuleFunction: TypeAlias = Callable[[ToolCall, "Tool[..., Any]", Mapping[str, Any]], Any]


def parse_delegate(given: ModuleRunner | ModuleFunction) -> FunctionHandler:
    """Wrap a runner or a function.

    Raises:
        DefinitionError: `given` is neither.
    """
    if isinstance(given, ModuleRunner):
        return make_function_handler(partial(_ask_runner, given))
    if not callable(given):
        raise DefinitionError(f"A module is a Runner, or a function of call, tool and imports; this is {given!r}.")
    return make_function_handler(given)


@dataclass(frozen=True)
class Delegated(DeclaredHandler):
    """A handler that passes calls to a module.

    `delegate` is the function of the module, which may ask a runner. If it is None, every call fails.
    """

    scope: Scope = field(kw_only=True)
    delegate: FunctionHandler | None = field(kw_only=True)

    @property
    def is_async(self) -> bool:
        """True if the answer must be awaited."""
        return self.delegate is not None and self.delegate.is_async

    def make_action(self, tool: Tool[..., Any]) -> Action:
        """Return a function that asks the module, and checks its answer."""
        return partial(self._ask_module, tool)

    def _ask_module(
        self, tool: Tool[..., Any], values: dict[str, Any], context: ToolContext[Any] | None
    ) -> ToolResult | Awaitable[ToolResult]:
        """Ask the module, which sees the call, without anything of the run, and the imported values."""
        if self.delegate is None:
            raise Failed(
                f"Nothing answers for the module {self.scope.module!r} of {tool.name}. Add a runner by "
                f"Toolbox.bindings.module({self.scope.module!r}, Runner(...)), or a function by "
                f"Toolbox.bind({tool.name!r}, function)."
            )

        own = context or ToolContext(deps=None)
        imports = {name: own.shared[name] for name in self.scope.imports or () if name in own.shared}
        call = ToolCall(
            name=tool.name,
            arguments=to_json(values, inf_nan_mode="strings").decode(),
            id=own.call_id,
            provider_call_id=own.provider_call_id,
            imports=tuple(imports),
        )
        answer = self.delegate.function(call, tool, imports)

        async def wait() -> ToolResult:
            return self._check_answer(tool, await answer)

        return wait() if hasattr(type(answer), "__await__") else self._check_answer(tool, answer)

    def _check_answer(self, tool: Tool[..., Any], answer: Any) -> ToolResult:
        """Validate an answer against the output schema. A wrong answer becomes an error."""
        given = answer if isinstance(answer, ToolResult) else ToolResult(answer)
        if given.is_error:
            return given

        expected = self.interface.returns.argument_schema
        text = ""
        try:
            text = to_json({OUTPUT: given.value}, inf_nan_mode="strings").decode()
            return given.replace(value=expected.validator(text)[OUTPUT])
        except ValidationError as error:
            faults = error.errors(include_url=False, include_context=False)
            problems = ErrorExplainer(expected.schema).explain(faults, text)
            failure = Failed(f"The module {self.scope.module!r} gave what {tool.name} does not give: {problems}")
            return ToolResult.from_error(failure).replace(details=given.details)


async def _ask_runner(
    runner: ModuleRunner, call: ToolCall, tool: Tool[..., Any], imports: Mapping[str, Any]
) -> ToolResult:
    """Ask a runner. Its run is cancelled with the run that makes the call, and its RunResult goes into the details."""
    prompt = _render_prompt(tool.description or tool.name, call, imports)
    result = await runner.arun(prompt, output_type=_read_output_type(tool), shared=imports)
    if result.finish_reason in REASONS_WITHOUT_ANSWER:
        failure = Failed(f"The module {tool._scope and tool._scope.module!r} gave no answer: {result.finish_reason}.")
        return ToolResult.from_error(failure).replace(details=result)
    return ToolResult(result.output, details=result)


def _read_output_type(tool: Tool[..., Any]) -> Any:
    """Return a tool's output schema as an output type of a run."""
    schema = tool.handler.interface.returns.argument_schema.schema
    output = schema["properties"][OUTPUT]
    definitions = schema.get("$defs")
    if output.get("type") == "string" and output.keys() <= {"type", "description"}:
        return str
    return {**output, "$defs": definitions} if definitions else output


def _render_prompt(description: str, call: ToolCall, imports: Mapping[str, Any]) -> str:
    """Render the prompt for a module's model."""
    context = [f"Context: {to_json(imports, inf_nan_mode='strings').decode()}"] if imports else []
    return "\n\n".join([description, f"Arguments: {call.arguments}", *context])
