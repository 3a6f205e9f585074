"""References between calls: an argument `†trip.city` stands for the value stored there by another call.

Each call waits for the calls that it refers to, gets their values, and stores its own result.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from heapq import heappop, heappush
from itertools import chain
from threading import TIMEOUT_MAX
from typing import Any, TypeAlias

from pydantic_core import from_json, to_json

from toolkit._concurrency.backend import Backend
from toolkit._concurrency.cancellation import Cancellation, cancellation_error
from toolkit._execution.approval import Deferred
from toolkit._messages import OUTPUT, OUTPUT_PATH, Message, ModelResponse, ToolCall, ToolMessage, ToolResult
from toolkit._schema.arguments import MAX_TEXT
from toolkit._schema.json_schema import as_mapping, resolve_reference
from toolkit._schema.json_text import load_object
from toolkit._tools.shared_values import MARK, OR, Path, SharedValues, Values, missing_value, overlap, parse_path
from toolkit._tools.tool import Tool
from toolkit.errors import Cancelled, Failed, InvalidArguments, TimedOut, ToolError

_ESCAPED = "\\u2020"


def substitute(arguments: str, value_of: Callable[[Sequence[str]], Any]) -> str:
    """Replace references by their values.

    Args:
        arguments: JSON text.
        value_of: Returns the value at the first of some paths that has one.

    Raises:
        InvalidArguments: There is no such value, or the values together are longer than arguments may be.
    """
    size = 0

    def read(paths: Sequence[str]) -> Any:
        nonlocal size
        value = value_of(paths)
        size += len(to_json(value))
        if size > MAX_TEXT:  # before they are all written into one text
            raise InvalidArguments(f"the values that it refers to have more than {MAX_TEXT:,} bytes together.")
        return value

    is_marked = (MARK in arguments or _ESCAPED in arguments) and len(arguments) <= MAX_TEXT
    document = load_object(arguments) if is_marked else None  # also None for a text that the tool will refuse
    if document is None:
        return arguments
    own = {name: value if name == OUTPUT else _fill(value, read) for name, value in document.items()}
    return to_json(own, inf_nan_mode="constants").decode()


def find_references(arguments: str, *, only_required: bool = False) -> set[str]:
    """Return the paths that arguments refer to. `only_required` leaves out the paths that have alternatives."""
    found = list[Sequence[str]]()  # each with its alternatives
    with suppress(InvalidArguments):  # refused when the call runs
        substitute(arguments, found.append)
    if only_required:
        found = [paths for paths in found if len(paths) == 1]
    return {*chain.from_iterable(found)}


def parse_output_path(call: ToolCall) -> str:
    """Return the path where a call stores its result.

    Raises:
        InvalidArguments: The call's `output_path` is not a path.
    """
    path = call.output_path.removeprefix(MARK)
    try:
        parse_path(path or "none")
    except ValueError as error:
        raise InvalidArguments(f"{OUTPUT_PATH}: {error}") from error
    return path


def _find_output_path(call: ToolCall, tools: Tools) -> Path | None:
    if not call.output_path or _get_referring(call, tools) is None:
        return None
    try:
        return (call.instance, *parse_path(parse_output_path(call)))
    except InvalidArguments:
        return None  # it is refused when the call runs


def _iter_paths(call: ToolCall, paths: Iterable[str]) -> Iterator[Path]:
    """Yield paths as a call may mean them: of a value of its own instance, or of a value without an instance."""
    for path in paths:
        try:
            steps = parse_path(path)
        except ValueError:
            continue  # refused when the call runs
        yield from ((owner, *steps) for owner in {call.instance, ""})


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
# By position, the positions of other calls.
Needs: TypeAlias = Mapping[int, Collection[int]]

# JSON that few texts look like, by what stands for it in the types of a tool; see `_types`.
_TYPE_NAMES: Mapping[type, str] = {dict: "object", list: "array", str: "quoted", type(None): "null"}
_DEFAULT_TYPES = ("string", "object", "array")


class Blocked(ToolError):
    """A call needs the result of a call that waits for approval."""


class Dependencies:
    """The calls of one response, some of which need the results of others.

    A call needs each call that stores its result at, above or below a path that it refers to or imports, in its own
    instance or in none. If calls would need each other in a circle, a call needs only earlier calls for its imports,
    since a model cannot leave out what a tool always imports.

    Args:
        calls: The calls, in call order.
        results: The results of the calls that have ended.
    """

    def __init__(
        self,
        calls: Sequence[ToolCall],
        shared: SharedValues,
        tools: Tools,
        cancellation: Cancellation,
        results: Sequence[ToolMessage] = (),
    ) -> None:
        self._calls = calls
        self._shared = shared
        self._tools = tools
        self._cancellation = cancellation
        self._positions = {id(call): position for position, call in enumerate(calls)}
        needs, self._order = _plan_calls(calls, tools)

        # Positions of the calls in a circle of needs, and of the calls that need these.
        self._circular = needs.keys() - self._order
        # What each call waits for: the calls that it needs, and earlier calls that store their results at its path.
        self._after = _find_predecessors(self._order, needs, calls, tools)
        self._ends = [Cancellation(parent=cancellation) for _ in calls]  # each fires when its call has ended
        self._results: dict[int, ToolResult] = {}  # by position
        by_id = {result.call_id: result for result in results}
        for call in calls:
            if call.id in by_id:
                self.end(call, by_id[call.id].to_result())

    @property
    def startable(self) -> list[ToolCall]:
        """The calls without a result, each after the calls that it waits for, so that no call waits forever."""
        positions = [*self._order, *sorted(self._circular)]
        return [self._calls[position] for position in positions if position not in self._results]

    async def execute(self, call: ToolCall, dispatch: RunCall, backend: Backend) -> ToolResult:
        """Run a call once the calls that it waits for have ended. If a value is missing, the result is an error."""
        position = self._positions[id(call)]
        try:
            for other in self._after.get(position, ()):
                await _wait_for_end(self._ends[other], backend)
            self._results[position] = result = await self._run_call(position, call, dispatch)
        finally:
            self._ends[position].cancel()
        return result

    def end(self, call: ToolCall, result: ToolResult) -> None:
        """Set the result of a call, also of one that has not started."""
        position = self._positions[id(call)]
        self._results.setdefault(position, result)
        self._ends[position].cancel()

    def close(self) -> None:
        """End every wait."""
        for end in self._ends:
            end.cancel()

    async def _run_call(self, position: int, call: ToolCall, dispatch: RunCall) -> ToolResult:
        tool = _get_referring(call, self._tools)
        if tool is None:
            return await dispatch(call)

        try:
            path = self._check_path(call)
            resolved = self._substitute(position, call)
        except ToolError as refusal:
            return ToolResult.from_error(refusal)

        result = await dispatch(resolved)
        if not path or result.is_error:
            return result
        try:
            self._shared.store_result(path, parse_result_text(result.text, tool), call.instance)
        except ValueError as error:
            return result.replace(text=f"{result.text}\n{error}")
        return result

    def _check_path(self, call: ToolCall) -> str:
        """Return the path where a call stores its result, before it runs.

        Raises:
            InvalidArguments: The call's `output_path` is not a path, or the application has a value there.
        """
        path = parse_output_path(call)
        if path:
            try:
                self._shared.check_path(path)
            except ValueError as error:
                raise InvalidArguments(f"{OUTPUT_PATH}: {error}") from error
        return path

    def _substitute(self, position: int, call: ToolCall) -> ToolCall:
        """Replace references by values.

        Raises:
            ToolError: A reference has no value.
        """
        if position in self._circular:
            raise InvalidArguments("it refers, through other calls, to its own result. Remove a reference.")
        for other in sorted(self._after[position]):
            self._require_result(position, other)
        arguments = substitute(call.arguments, lambda paths: self._find_value(paths, call.instance))
        return call if arguments == call.arguments else replace(call, arguments=arguments)

    def _find_value(self, paths: Sequence[str], instance: str) -> Any:
        for path in paths:
            with suppress(KeyError):
                return self._shared.get(path, instance)
        raise missing_value(f" {OR} ".join(paths), self._shared.paths(instance))

    def _require_result(self, position: int, needed_position: int) -> None:
        other = self._calls[needed_position]
        result = self._results.get(needed_position)
        needed = f"{other.name} at {other.output_path!r}"
        if self._cancellation:
            raise cancellation_error(self._cancellation)
        if result is None or isinstance(result.exception, (Deferred, Blocked)):
            raise Blocked(f"Not run: it needs the result of {needed}, which has none yet.")
        if result.is_error and self._is_required(position, other):
            raise Failed(f"Not run: it needs the result of {needed}, which failed: {result.error}")

    def _is_required(self, position: int, other: ToolCall) -> bool:
        """Return whether a call refers to another, or imports from it, without an alternative."""
        call = self._calls[position]
        path = _find_output_path(other, self._tools)
        required = find_references(call.arguments, only_required=True)
        imported = list_imports(call, self._tools[call.name])
        return path is not None and any(overlap(path, each) for each in _iter_paths(call, {*required, *imported}))


# The positions of calls and the paths where they store their results, by the beginnings of these paths.
_Writers: TypeAlias = defaultdict[Path, list[tuple[int, Path]]]


def _find_writers(writers: _Writers, paths: Iterable[Path]) -> set[int]:
    """Find the calls that store their results at, above or below the paths."""
    candidates = ((path, candidate) for path in paths for candidate in writers.get(path[:2], ()))
    return {position for path, (position, other) in candidates if overlap(path, other)}


def _plan_calls(calls: Sequence[ToolCall], tools: Tools) -> tuple[Needs, list[int]]:
    """Find the calls that each call needs, and the order in which the calls run."""
    needs = _find_needs(calls, tools)
    order = _sort_by_needs(needs)
    if len(order) < len(calls):
        needs = _find_needs(calls, tools, only_earlier=True)
        order = _sort_by_needs(needs)
    return needs, order


def _find_needs(calls: Sequence[ToolCall], tools: Tools, *, only_earlier: bool = False) -> Needs:
    """Find the calls that each call refers to, and the calls that store the values that it imports.

    With `only_earlier`, a call needs only earlier calls for its imports.
    """
    writers: _Writers = defaultdict(list)
    for position, call in enumerate(calls):
        if path := _find_output_path(call, tools):
            writers[path[:2]].append((position, path))
    needs: dict[int, set[int]] = {}

    for position, call in enumerate(calls):
        needs[position] = set()
        if tool := _get_referring(call, tools):
            referred = _find_writers(writers, _iter_paths(call, find_references(call.arguments)))
            imported = _find_writers(writers, _iter_paths(call, list_imports(call, tool)))
            usable = {other for other in imported if other < position} if only_earlier else imported
            needs[position] = (referred | usable) - {position}

    return needs


def _find_predecessors(order: Sequence[int], needs: Needs, calls: Sequence[ToolCall], tools: Tools) -> Needs:
    writers: _Writers = defaultdict(list)
    after: dict[int, set[int]] = {}
    for position in order:
        after[position] = {*needs[position]}
        if path := _find_output_path(calls[position], tools):
            after[position] |= _find_writers(writers, [path])
            writers[path[:2]].append((position, path))
    return after


def _sort_by_needs(needs: Needs) -> list[int]:
    """Sort positions so that each comes after the positions that it needs.

    Positions that need each other in a circle are left out, as are positions that need one of these.
    """
    sorter = TopologicalSorter(needs)
    with suppress(CycleError):
        sorter.prepare()
    order: list[int] = []
    ready: list[int] = []
    while sorter.is_active():
        for position in sorter.get_ready():
            heappush(ready, position)
        order.append(heappop(ready))
        sorter.done(order[-1])
    return order


def may_refer(tool: Tool[..., Any] | None) -> bool:
    """Return whether calls of a tool may refer to the results of other calls."""
    return tool is not None and OUTPUT_PATH in tool._meta


def _get_referring(call: ToolCall, tools: Tools) -> Tool[..., Any] | None:
    """Return the tool of a call, or None if its calls may not refer to other calls."""
    tool = tools.get(call.name)
    return tool if may_refer(tool) else None


def list_imports(call: ToolCall, tool: Tool[..., Any]) -> Collection[str]:
    """List the shared values that a call imports."""
    scope = tool._scope
    if scope is None:
        return ()
    return call.imports if scope.schema is not None else scope.imports or ()


def may_depend(call: ToolCall, tool: Tool[..., Any]) -> bool:
    """Return whether a call may have to wait for other calls of its response."""
    return may_refer(tool) and bool(find_references(call.arguments) or list_imports(call, tool))


def restore_shared(given: Values, messages: Sequence[Message], tools: Tools) -> SharedValues:
    """Create the shared values of a run, with the results in its history. Return a given SharedValues unchanged.

    A result that was truncated for the model is lost.
    """
    shared = SharedValues.of(given)
    if shared is given or not any(map(may_refer, tools.values())):
        return shared
    results = {message.call_id: message for message in messages if isinstance(message, ToolMessage)}
    responses = [message for message in messages if isinstance(message, ModelResponse)]
    for response in responses:
        _, order = _plan_calls(response.calls, tools)
        for position in order:  # if several calls stored a result at one path, the last one counts
            call = response.calls[position]
            if call.id in results:
                _restore_value(shared, call, results[call.id], tools)
    return shared


def _restore_value(shared: SharedValues, call: ToolCall, message: ToolMessage, tools: Tools) -> None:
    """Store a result from a history."""
    tool = _get_referring(call, tools)
    if call.output_path and tool and not (message.is_error or message.is_cut):
        with suppress(ToolError, ValueError):  # it was not stored the first time, either
            shared.store_result(parse_output_path(call), parse_result_text(message.text, tool), call.instance)


def parse_result_text(text: str, tool: Tool[..., Any]) -> Any:
    """Parse the text of a result as JSON data, in a run and from its history in the same way.

    For a tool that may return text, everything that its output schema does not mention stays text, such as a number.
    """
    try:
        value = from_json(text)
    except ValueError:
        return text
    types = {*_iter_types(tool)}
    return value if "string" not in types or _TYPE_NAMES.get(type(value)) in types else text


def _iter_types(tool: Tool[..., Any]) -> Iterator[str]:
    """Yield the JSON types that a tool may return, and "quoted" if a text may stand for a value such as a date."""
    schema = tool.output_schema or {}
    for part in resolve_reference(schema, schema).get("anyOf", [schema]):
        kinds = resolve_reference(as_mapping(part), schema).get("type", _DEFAULT_TYPES)
        yield from [kinds] if isinstance(kinds, str) else kinds
    if tool.handler.interface.returns.serializer is not None:
        yield "quoted"


async def _wait_for_end(end: Cancellation, backend: Backend) -> None:
    if not end:
        with suppress(Cancelled, TimedOut):
            await backend.sleep(TIMEOUT_MAX, end)
