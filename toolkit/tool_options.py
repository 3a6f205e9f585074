"""What a tool may be told besides its name and its words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from typing_extensions import TypedDict

from toolkit._messages import REASONING
from toolkit.errors import DefinitionError
from toolkit.scopes import scope_of
from toolkit.settings import Effect, Isolation, ToolSettings

if TYPE_CHECKING:
    from concurrent.futures import Executor


# What a model is asked to say of a call.
WHY: Mapping[str, Any] = {REASONING: {"type": "string", "description": "Why this call is made, in one sentence."}}


# Options that are no fields of a tool.
_SAID = frozenset({"latent", "reasoning", "module", "imports"})


class ToolOptions(TypedDict, total=False):
    """What `@tool` takes besides name, title and description.

    Attributes:
        relay: Exceptions whose message the model may see, besides ToolError and those that the docstring's `Raises:`
            names.
        strict: Whether the provider is to enforce the schema, where that is lossless; the run decides by default.
        effect: What a call does to the world: "read", "write" or "destructive". Reads run side by side, the others
            alone and in order; nothing said, a call runs side by side with others.
        idempotent: Whether carrying a call out twice does no more than once; reads are.
        exclusive: Whether a call runs alone: those before it end first, those after it wait.
        max_parallel: How many calls run at the same time, in all runs of this process; the others wait.
        timeout: How long one try may take, in seconds; what works on then is given up, and reported.
        retries: How often a failed try is followed by another; only where a call may be repeated.
        retry_on: What failures are worth another try; any but a ToolError by default, and TimedOut.
        executor: Where the function runs: any `concurrent.futures.Executor`, such as a process pool.
        isolate: "process" gives each call a process of its own, which a timeout or a cancellation ends for good.
        authorize: May this call be made at all? Gets tool, arguments and context, after the run's own authorizer.
        approve: True where each call needs somebody's yes; or a function of an ApprovalRequest that says so.
        max_result: Characters of a result that the model is shown; the run's own bound by default.
        return_direct: Whether the result is the run's answer, without another word of the model.
        activity: The name of what carries the tool out, see Toolbox.bind; its own name by default. The tool's own
            function, where it has one, goes by this name too. "" leaves the tool to the model, which then fills in the
            output itself.
        latent: Whether the tool is left to the model, whatever the function's body is: the same as activity="".
        reasoning: Whether the model is asked why it makes a call: `ToolCall.reasoning`.
        module: The name of what carries the tool out apart from the run, see Toolbox.module: it sees neither the
            conversation nor `deps`.
        imports: Paths of the shared values that a call may see: all by default, and in a module none. Or a JSON Schema
            of an array, whose items are one of a few: the model asks for those that a call needs.
        namespace: A group that the tool is shown in, in dialects that know groups.
        defer_loading: Whether the provider loads the parameters only when the model looks for the tool.
    """

    relay: tuple[type[BaseException], ...]
    strict: bool
    effect: Effect
    idempotent: bool
    exclusive: bool
    max_parallel: int
    timeout: float
    retries: int
    retry_on: tuple[type[BaseException], ...]
    executor: Executor
    isolate: Isolation
    authorize: Callable[..., Any]
    approve: bool | Callable[..., Any]
    max_result: int
    return_direct: bool
    activity: str
    latent: bool
    reasoning: bool
    module: str
    imports: Sequence[str] | Mapping[str, Any]
    namespace: str
    defer_loading: bool


def fields_of(given: Mapping[str, Any], owner: str, settings: ToolSettings) -> Mapping[str, Any]:
    """Part what is given into a tool's own fields, and its settings.

    Raises:
        DefinitionError: An option has no such value; the message begins with the owner's name.
    """
    chosen = given.keys() & ToolSettings.__dataclass_fields__.keys()
    try:
        _check(given)
        said = _about(given)
        if chosen:
            settings = replace(settings, **{name: given[name] for name in chosen})
    except DefinitionError as error:
        raise DefinitionError(f"{owner}: {error}") from None
    own = {name: value for name, value in given.items() if name not in (*chosen, *_SAID)}
    return {"settings": settings, **own, **({"activity": ""} if given.get("latent") else {}), **said}


def _about(given: Mapping[str, Any]) -> dict[str, Any]:
    """Read what is said of the calls, and not of the tool."""
    scope = scope_of(given.get("module"), given.get("imports")) or given.get("scope")
    shown = {**(scope.about if scope else {}), **given.get("about", {}), **(WHY if given.get("reasoning") else {})}
    return {**({"scope": scope} if scope else {}), **({"about": shown} if shown else {})}


def refuse_unknown(options: Mapping[str, Any]) -> None:
    """Refuse an option that no tool has.

    Raises:
        DefinitionError: There is one.
    """
    unknown = options.keys() - ToolOptions.__annotations__.keys()
    if unknown:
        known = ("name", "title", "description", *ToolOptions.__annotations__)
        raise DefinitionError(f"A tool has no option {sorted(unknown)[0]!r}. It has: {', '.join(known)}.")


def _check(given: Mapping[str, Any]) -> None:
    relay, strict, activity = given.get("relay", ()), given.get("strict"), given.get("activity", "")
    if not isinstance(relay, (tuple, list)) or not all(map(_is_exception, relay)):
        raise DefinitionError(f"relay={relay!r} is not a tuple of exception classes, such as relay=(KeyError,).")
    if not isinstance(strict, (bool, type(None))):
        raise DefinitionError(f"strict={strict!r} is not True or False.")
    if not isinstance(activity, str):
        raise DefinitionError(f"activity={activity!r} is not the name of what carries the tool out.")
    if given.get("latent") and activity:
        raise DefinitionError(
            f"latent=True leaves the tool to the model, and activity={activity!r} does not. Drop one."
        )


def _is_exception(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseException)
