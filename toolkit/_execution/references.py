"""References between calls: an argument `†trip.city` stands for the value stored there by another call.

Each call waits for those that it refers to, gets their values, and stores its own result.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush
from itertools import chain
from threading import TIMEOUT_MAX
from typing import Any, TypeAlias

from pydantic_core import from_json, to_json

from toolkit._concurrency.backend import Backend
from toolkit._concurrency.cancellation import Cancellation
from toolkit._concurrency.threads import cancellation_error
from toolkit._execution.approval import Deferred
from toolkit._messages import (
    OUTPUT,
    OUTPUT_PATH,
    AnsweredCall,
    Message,
    ModelResponse,
    ToolCall,
    ToolMessage,
    ToolResult,
)
from toolkit._schema.arguments import MAX_TEXT
from toolkit._schema.error_messages import shorten
from toolkit._schema.json_schema import as_mapping, resolve_reference
from toolkit._tools.shared_values import MARK, OR, Path, SharedValues, Values, missing_value, overlap, parse_path
from toolkit._tools.tool import Tool
from toolkit.errors import Cancelled, Failed, InvalidArguments, TimedOut, ToolError

_ESCAPED = "\\u2020"

# Which calls a call waits for, by their places among the calls.
Needs: TypeAlias = Mapping[int, Collection[int]]


@dataclass(frozen=True)
class Plan:
    """The order in which calls run.

    Attributes:
        order: Positions of all calls: each behind those that it waits for, in call order otherwise.
        needs: For each call, those whose results it refers to or imports.
        after: For each call, those that must end before it: its needs, and those before it in the order that store
            their result in the same place.
        circular: Calls that refer to themselves, by way of others.
    """

    order: Sequence[int]
    needs: Needs
    after: Needs
    circular: Collection[int]


def plan_calls(calls: Sequence[ToolCall], imports: Callable[[ToolCall], Collection[str] | None]) -> Plan:
    """Plan which calls wait for which.

    A call waits for every other one that stores its result at, above or below a place that it refers to or imports, in
    its own instance or in none. Of those that store theirs in one place, each waits for the one before it. Imports that
    would make a circle are not waited for: a model cannot leave out what a tool always imports.

    Args:
        calls: In call order.
        imports: Returns the paths that a call imports; None for a call without references and stored result.
    """
    imported = [imports(call) for call in calls]
    output_paths = [None if paths is None else _find_output_path(call) for call, paths in zip(calls, imported)]
    referenced = [() if paths is None else find_references(call.arguments) for call, paths in zip(calls, imported)]
    writers = _Writers(output_paths)
    needs = {place: writers.find(_iter_paths(call, referenced[place])) - {place} for place, call in enumerate(calls)}
    circular = _find_circular(needs)
    free = {place: set() if place in circular else others for place, others in needs.items()}
    wider = _add_imports(free, [writers.find(_iter_paths(call, paths or ())) for call, paths in zip(calls, imported)])
    order = sort_by_needs(wider)
    return Plan(order, wider, _find_predecessors(order, wider, output_paths), circular)


def sort_by_needs(needs: Needs) -> list[int]:
    """Return positions in an order in which each stands behind those that it needs; circles are left out."""
    followers = defaultdict[int, list[int]](list)
    for place, others in needs.items():
        for other in others:
            followers[other].append(place)
    left = {place: len(others) for place, others in needs.items()}
    ready = [place for place, number in left.items() if not number]
    heapify(ready)
    order: list[int] = []
    while ready:
        order.append(heappop(ready))
        for place in followers[order[-1]]:
            left[place] -= 1
            if not left[place]:
                heappush(ready, place)
    return order


def substitute(arguments: str, value_of: Callable[[Sequence[str]], Any]) -> str:
    """Replace references by their values.

    Args:
        arguments: JSON text.
        value_of: Returns the value at the first of some paths that has one.

    Raises:
        InvalidArguments: There is no such value.
    """
    document = _load_document(arguments)
    if document is None:
        return arguments
    own = {name: value if name == OUTPUT else _fill(value, value_of) for name, value in document.items()}
    return to_json(own, inf_nan_mode="constants").decode()


def find_references(arguments: str, *, only_required: bool = False) -> set[str]:
    """Return the paths that the arguments of a call refer to.

    Args:
        arguments: JSON text.
        only_required: Leave out the paths of references that have alternatives.
    """
    found = list[Sequence[str]]()
    with suppress(InvalidArguments):  # refused when the turn of the call comes
        substitute(arguments, found.append)
    return {path for paths in found for path in paths if not only_required or len(paths) == 1}


def parse_output_path(call: ToolCall) -> str:
    """Return the path where a call stores its result.

    Raises:
        InvalidArguments: It is not a path.
    """
    path = call.output_path.removeprefix(MARK)
    try:
        parse_path(path or "none")
    except ValueError as error:
        raise InvalidArguments(f"{OUTPUT_PATH}: {error}") from error
    return path


class _Writers:
    """Calls by the place where they store their results."""

    def __init__(self, output_paths: Sequence[Path | None] = ()) -> None:
        self._by_root = defaultdict[Path, list[tuple[int, Path]]](list)
        for place, path in enumerate(output_paths):
            self.add(place, path)

    def add(self, place: int, path: Path | None) -> None:
        """Add the path where a call stores its result; None if it does not."""
        if path:
            self._by_root[path[:2]].append((place, path))

    def find(self, paths: Iterable[Path]) -> set[int]:
        """Find the calls that store theirs at, above or below the paths."""
        return {place for path in paths for place, other in self._by_root.get(path[:2], ()) if overlap(path, other)}


def _find_circular(needs: Needs) -> set[int]:
    """Find the calls that wait for themselves: those neither in front of all circles nor behind them."""
    stuck = needs.keys() - sort_by_needs(needs)
    followers: dict[int, list[int]] = {place: [] for place in stuck}
    for place in stuck:
        for other in stuck.intersection(needs[place]):
            followers[other].append(place)
    return stuck - {*sort_by_needs(followers)}


def _add_imports(needs: Needs, imported: Sequence[Collection[int]]) -> Needs:
    """Add imports to the needs, except where calls would then wait for each other."""
    whole = {place: {*others, *imported[place]} - {place} for place, others in needs.items()}
    caught = _find_circular(whole)
    return {
        place: {*needs[place], *(others - caught if place in caught else others)} for place, others in whole.items()
    }


def _find_predecessors(order: Sequence[int], needs: Needs, output_paths: Sequence[Path | None]) -> Needs:
    writers = _Writers()
    after: dict[int, Collection[int]] = {}
    for place in order:
        path = output_paths[place]
        after[place] = {*needs[place], *writers.find([path] if path else ())}
        writers.add(place, path)
    return after


def _find_output_path(call: ToolCall) -> Path | None:
    if not call.output_path:
        return None
    try:
        return (call.instance, *parse_path(parse_output_path(call)))
    except InvalidArguments:
        return None  # it is refused when its turn comes


def _iter_paths(call: ToolCall, paths: Iterable[str]) -> Iterator[Path]:
    """Yield the paths of values that a call refers to, in its instance and outside of any."""
    for path in paths:
        try:
            steps = parse_path(path)
        except ValueError:
            continue  # refused when the turn of the call comes
        yield from ((owner, *steps) for owner in {call.instance, ""})


def _load_document(arguments: str) -> dict[str, Any] | None:
    """Parse arguments that may hold references; None where there are none, or the tool will reject the text."""
    if (MARK not in arguments and _ESCAPED not in arguments) or len(arguments) > MAX_TEXT:
        return None
    try:
        document = from_json(arguments)
    except ValueError:
        return None
    return document if isinstance(document, dict) else None


def _fill(value: Any, value_of: Callable[[Sequence[str]], Any]) -> Any:
    if isinstance(value, str) and value.startswith(MARK):
        return value[1:] if value.startswith(MARK * 2) else _look_up(value, value_of)
    if isinstance(value, list):
        return [_fill(item, value_of) for item in value]
    return {key: _fill(item, value_of) for key, item in value.items()} if isinstance(value, dict) else value


def _look_up(reference: str, value_of: Callable[[Sequence[str]], Any]) -> Any:
    try:
        return value_of([part.strip().removeprefix(MARK) for part in reference.split(OR)])
    except (KeyError, ValueError) as error:
        raise InvalidArguments(f"{reference[:100]}: {error.args[0]}") from error


Tools: TypeAlias = Mapping[str, Tool[..., Any]]
RunCall: TypeAlias = Callable[[ToolCall], Coroutine[Any, Any, ToolResult]]

# JSON that few texts look like, by what stands for it in the types of a tool; see `_types`.
_TYPE_NAMES: Mapping[type, str] = {dict: "object", list: "array", str: "quoted", type(None): "null"}
_DEFAULT_TYPES = ("string", "object", "array")
MAX_NAMED = 100  # characters of a path in an error


class Blocked(ToolError):
    """A call needs the result of one that waits for approval."""


@dataclass(frozen=True)
class Dependencies:
    """The calls of one response, of which some may wait for others.

    Attributes:
        all_calls: The calls, in call order.
        plan: The order in which they run.
        cancellation: Ends every wait.
        ends: For each call, a cancellation that fires when it has ended.
        before: The shared values before any of the calls started.
        later: For each call, those that were to end after it, and have ended before; in the order of the plan.
        results: Results of the calls that have ended, by position.
    """

    all_calls: Sequence[ToolCall]
    plan: Plan
    shared: SharedValues
    tools: Tools
    cancellation: Cancellation
    ends: Sequence[Cancellation]
    before: SharedValues
    later: Mapping[int, Sequence[AnsweredCall]]
    results: dict[int, ToolResult] = field(default_factory=dict)
    _places: Mapping[int, int] = field(default_factory=dict)

    @classmethod
    def create(
        cls,
        calls: Sequence[ToolCall],
        shared: SharedValues,
        tools: Tools,
        cancellation: Cancellation,
        answered: Sequence[AnsweredCall] = (),
    ) -> Dependencies:
        """Plan calls, some of which may wait for others of the same response that have ended."""
        given = list(calls)
        for other in answered:
            given.insert(other.position, other.call)
        plan = plan_calls(given, lambda call: list_imports(call, tools.get(call.name)))
        ends = [Cancellation(parent=cancellation) for _ in given]
        places = {id(call): place for place, call in enumerate(given)}
        overtook = _find_overtaken(plan, answered)
        made = cls(given, plan, shared, tools, cancellation, ends, shared.copy(), overtook, _places=places)
        for other in answered:
            made.end(other.call, other.message.to_result())
        return made

    @property
    def startable(self) -> list[ToolCall]:
        """The calls, each behind those that it waits for: started in this order, none waits for ever."""
        return [self.all_calls[place] for place in self.plan.order if place not in self.results]

    async def execute(self, call: ToolCall, dispatch: RunCall, backend: Backend) -> ToolResult:
        """Run a call once its needs have ended; if it cannot have them, that is its result."""
        place = self._places[id(call)]
        try:
            for other in self.plan.after[place]:
                await _wait_for_end(self.ends[other], backend)
            self.results[place] = result = await self._run_call(place, call, dispatch)
        finally:
            self._end(place)
        return result

    def end(self, call: ToolCall, result: ToolResult) -> None:
        """Set the result of a call, which need not have started."""
        place = self._places[id(call)]
        self.results.setdefault(place, result)
        self._end(place)

    def close(self) -> None:
        """End every wait."""
        for place in range(len(self.all_calls)):
            self._end(place)

    def _end(self, place: int) -> None:
        self.ends[place].cancel()
        self.ends[place].close()

    async def _run_call(self, place: int, call: ToolCall, dispatch: RunCall) -> ToolResult:
        tool = self.tools.get(call.name)
        if tool is None or not may_refer(tool):
            return await dispatch(call)
        try:
            path, own = self._find_path(call), self._substitute(place, call)
        except ToolError as refusal:
            return ToolResult.from_error(refusal)
        result = await dispatch(own)
        if not path or result.is_error:
            return result
        try:
            self.shared.store_result(path, parse_result_text(result.text or "", tool), call.instance)
        except ValueError as error:
            return result.replace(text=f"{result.text}\n{error}")
        self._restore_overtaken(place)
        return result

    def _find_path(self, call: ToolCall) -> str:
        """Return the path where a call stores its result, before it runs.

        Raises:
            InvalidArguments: It is not a path, or the application has a value there.
        """
        path = parse_output_path(call)
        if path:
            try:
                self.shared.check_path(path)
            except ValueError as error:
                raise InvalidArguments(f"{OUTPUT_PATH}: {error}") from error
        return path

    def _restore_overtaken(self, place: int) -> None:
        """Write later results again, over one that came late because its call had waited for approval."""
        for other in self.later.get(place, ()):
            _restore_value(self.shared, other.call, other.message, self.tools)

    def _substitute(self, place: int, call: ToolCall) -> ToolCall:
        """Replace references by values.

        Raises:
            ToolError: One of them has none.
        """
        if place in self.plan.circular:
            path = shorten(repr(call.output_path), MAX_NAMED)
            raise InvalidArguments(f"{path} needs itself, by way of other calls: leave a reference out.")
        for other in sorted(self.plan.needs[place]):
            self._require_result(place, other)
        arguments = substitute(call.arguments, lambda paths: self._find_value(paths, place))
        return call if arguments == call.arguments else replace(call, arguments=arguments)

    def _find_value(self, paths: Sequence[str], place: int) -> Any:
        """Return the first value; an error lists only what the call can count on, whatever else has ended by now."""
        instance = self.all_calls[place].instance
        for path in paths:
            with suppress(KeyError):
                return self.shared.get(path, instance)
        needed = (parse_output_path(self.all_calls[other]) for other in self.plan.needs[place])
        raise missing_value(f" {OR} ".join(paths), sorted({*self.before.paths(instance), *needed}))

    def _require_result(self, place: int, needed_place: int) -> None:
        other, result = self.all_calls[needed_place], self.results.get(needed_place)
        needed = f"{other.name} at {other.output_path!r}"
        if self.cancellation:
            raise cancellation_error(self.cancellation)
        if result is None or isinstance(result.exception, (Deferred, Blocked)):
            raise Blocked(f"Not run: it needs the result of {needed}, which has none yet.")
        if result.is_error and self._is_required(place, other):
            raise Failed(f"Not run: it needs the result of {needed}, which failed: {result.error}")

    def _is_required(self, place: int, other: ToolCall) -> bool:
        """Return whether a call refers to another, or imports from it, without an alternative."""
        call, path = self.all_calls[place], _find_output_path(other)
        required = find_references(call.arguments, only_required=True)
        imported = list_imports(call, self.tools.get(call.name)) or ()
        return path is not None and any(overlap(path, each) for each in _iter_paths(call, {*required, *imported}))


def may_refer(tool: Tool[..., Any] | None) -> bool:
    """Return whether calls of a tool may refer to others."""
    return tool is not None and OUTPUT_PATH in tool._meta


def may_any_refer(tools: Tools) -> bool:
    """Return whether calls of some of the tools may refer to others."""
    return any(map(may_refer, tools.values()))


def list_imports(call: ToolCall, tool: Tool[..., Any] | None) -> Collection[str] | None:
    """List the shared values that a call imports; None if it may not refer to the results of others."""
    if tool is None or not may_refer(tool):
        return None
    scope = tool._scope
    return () if scope is None else (scope.imports or ()) if scope.schema is None else call.imports


def may_depend(call: ToolCall, tool: Tool[..., Any]) -> bool:
    """Return whether a call may have to wait for others of its response."""
    return may_refer(tool) and bool(find_references(call.arguments) or list_imports(call, tool))


def restore_shared(given: Values, messages: Sequence[Message], tools: Tools) -> SharedValues:
    """Create the shared values of a run: as they are given, or with the results in a history.

    A result that was truncated for the model is lost.
    """
    shared = SharedValues.of(given)
    if shared is given or not may_any_refer(tools):
        return shared
    results = {message.call_id: message for message in messages if isinstance(message, ToolMessage)}
    responses = [message for message in messages if isinstance(message, ModelResponse)]
    for call in chain.from_iterable(_sort_calls(response, tools) for response in responses):
        if call.id in results:
            _restore_value(shared, call, results[call.id], tools)
    return shared


def _restore_value(shared: SharedValues, call: ToolCall, message: ToolMessage, tools: Tools) -> None:
    """Store a result from a history."""
    tool = tools.get(call.name)
    if call.output_path and tool and may_refer(tool) and not (message.is_error or message.is_cut):
        with suppress(ToolError, ValueError):  # it was not stored the first time, either
            shared.store_result(parse_output_path(call), parse_result_text(message.text, tool), call.instance)


def _find_overtaken(plan: Plan, answered: Sequence[AnsweredCall]) -> Mapping[int, Sequence[AnsweredCall]]:
    good = {other.position: other for other in answered if not other.message.is_error}
    overtook = defaultdict[int, list[AnsweredCall]](list)
    for later in filter(good.__contains__, plan.order):
        for place in plan.after[later]:
            overtook[place].append(good[later])
    return overtook


def _sort_calls(response: ModelResponse, tools: Tools) -> list[ToolCall]:
    """List the calls of a response in the order in which they ran: of those with the same place the last one counts."""
    return [
        response.calls[place]
        for place in plan_calls(response.calls, lambda call: list_imports(call, tools.get(call.name))).order
    ]


def parse_result_text(text: str, tool: Tool[..., Any]) -> Any:
    """Parse the text of a result as JSON data: the same way in the run, and from its history.

    For a tool that may return text, a number is text too; so is everything that its output schema does not mention.
    """
    try:
        value = from_json(text)
    except ValueError:
        return text
    types = {*_iter_types(tool)}
    return value if "string" not in types or _TYPE_NAMES.get(type(value)) in types else text


def _iter_types(tool: Tool[..., Any]) -> Iterator[str]:
    """Yield the JSON types that a tool returns; and `quoted` where a text may be a date or the like."""
    schema = tool.output_schema or {}
    for part in resolve_reference(schema, schema).get("anyOf", [schema]):
        kinds = resolve_reference(as_mapping(part), schema).get("type", _DEFAULT_TYPES)
        yield from [kinds] if isinstance(kinds, str) else kinds
    if tool.handler.returns.to_json is not None:
        yield "quoted"


async def _wait_for_end(end: Cancellation, backend: Backend) -> None:
    if not end:
        with suppress(Cancelled, TimedOut):
            await backend.sleep(TIMEOUT_MAX, end)
