"""Calls that refer to the results of others: each waits for those it needs, gets their values, and keeps its own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from threading import TIMEOUT_MAX
from typing import Any, TypeAlias

from pydantic_core import from_json

from toolkit._concurrency.backend import Door
from toolkit._concurrency.cancellation import Cancellation
from toolkit._concurrency.threads import over
from toolkit._messages import OUTPUT_PATH, Answered, Message, ModelResponse, ToolCall, ToolMessage, ToolResult
from toolkit._schema.error_messages import shortened
from toolkit._schema.matching import mapping, resolved
from toolkit._tools.shared_values import Shared, Values, missing
from toolkit._tools.tool import Tool
from toolkit.approval import Deferred
from toolkit.errors import Cancelled, Failed, InvalidArguments, TimedOut, ToolError
from toolkit.overflow import was_cut
from toolkit.references import Plan, kept_at, planned, references_in, substituted

Tools: TypeAlias = Mapping[str, Tool[..., Any]]
CarryOut: TypeAlias = Callable[[ToolCall], Coroutine[Any, Any, ToolResult]]

# JSON that few texts look like, by what stands for it in the types of a tool; see `_types`.
_KINDS: Mapping[type, str] = {dict: "object", list: "array", str: "quoted", type(None): "null"}
_UNSAID = ("string", "object", "array")
MAX_NAMED = 100  # characters of paths in an error


class Blocked(ToolError):
    """A call needs the result of one that waits for somebody's yes."""


@dataclass(frozen=True)
class Dependencies:
    """The calls of one answer, of which some may wait for others.

    Attributes:
        given: The calls, in call order.
        until: When nothing is waited for any longer.
        ends: For each call: is called off once it has ended.
        before: What was shared before any of them was begun.
        overtook: Of each call, those that were to end after it, and have ended before; in the order of the plan.
        results: What came of the calls that have ended, by their places.
    """

    given: Sequence[ToolCall]
    plan: Plan
    shared: Shared
    tools: Tools
    until: Cancellation
    ends: Sequence[Cancellation]
    before: Shared
    overtook: Mapping[int, Sequence[Answered]]
    results: dict[int, ToolResult] = field(default_factory=dict)
    _places: Mapping[int, int] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        calls: Sequence[ToolCall],
        shared: Shared,
        tools: Tools,
        until: Cancellation,
        answered: Sequence[Answered] = (),
    ) -> Dependencies:
        """Find out which of some calls wait for which, be it for others of the same answer that have ended."""
        given = list(calls)
        for other in answered:
            given.insert(other.place, other.call)
        plan = planned(given, lambda call: imported(call, tools.get(call.name)))
        ends = [Cancellation(parent=until) for _ in given]
        places = {id(call): place for place, call in enumerate(given)}
        overtook = _overtook(plan, answered)
        made = cls(given, plan, shared, tools, until, ends, shared.copied(), overtook, _places=places)
        for other in answered:
            made.end(other.call, _result_of(other.told))
        return made

    @property
    def calls(self) -> list[ToolCall]:
        """The calls, each behind those that it waits for: begun in this order, none waits for ever."""
        return [self.given[place] for place in self.plan.order if place not in self.results]

    async def carried_out(self, call: ToolCall, carry_out: CarryOut, door: Door) -> ToolResult:
        """Carry a call out once it can be; what it may not have, or does not find, is its result."""
        place = self._places[id(call)]
        try:
            for other in self.plan.after[place]:
                await _ended(self.ends[other], door)
            self.results[place] = result = await self._carried_out(place, call, carry_out)
        finally:
            self._end(place)
        return result

    def end(self, call: ToolCall, result: ToolResult) -> None:
        """Tell what came of a call, be it that it was never begun."""
        place = self._places[id(call)]
        self.results.setdefault(place, result)
        self._end(place)

    def close(self) -> None:
        """Wait for nothing any more."""
        for place in range(len(self.given)):
            self._end(place)

    def _end(self, place: int) -> None:
        self.ends[place].cancel()
        self.ends[place].close()

    async def _carried_out(self, place: int, call: ToolCall, carry_out: CarryOut) -> ToolResult:
        tool = self.tools.get(call.name)
        if tool is None or not refers(tool):
            return await carry_out(call)
        try:
            path, own = kept_at(call), self._filled(place, call)
        except ToolError as refusal:
            return ToolResult.failed(refusal)
        result = await carry_out(own)
        if not path or result.is_error:
            return result
        try:
            self.shared.put(path, told_as(_whole(result, tool), tool), call.instance)
        except ValueError as error:
            return result._replace(text=f"{result.text}\n{error}")
        self._put_again(place)
        return result

    def _put_again(self, place: int) -> None:
        """Let a value that came late, as the call had waited for a yes, give way to those that were to come after."""
        for other in self.overtook.get(place, ()):
            _put_told(self.shared, other.call, other.told, self.tools)

    def _filled(self, place: int, call: ToolCall) -> ToolCall:
        """Put values in the places of references.

        Raises:
            ToolError: One of them has none.
        """
        if place in self.plan.circular:
            raise InvalidArguments(self._circle(place))
        for other in sorted(self.plan.needs[place]):
            self._check(self.given[other], self.results.get(other))
        arguments = substituted(call.arguments, lambda path: self._value(path, place))
        return call if arguments == call.arguments else replace(call, arguments=arguments)

    def _value(self, path: str, place: int) -> Any:
        """Find a value; where there is none, tell of what the call can count on, whatever else has ended by now."""
        instance = self.given[place].instance
        try:
            return self.shared.get(path, instance)
        except KeyError:
            needed = (kept_at(self.given[other]) for other in self.plan.needs[place])
            raise missing(path, sorted({*self.before.paths(instance), *needed})) from None

    def _circle(self, place: int) -> str:
        own, *others = (
            shortened(repr(self.given[other].output_path), MAX_NAMED)
            for other in (place, *sorted(self.plan.circular[place]))
        )
        waits = f"{own} waits for {shortened(' and '.join(others), MAX_NAMED)}"
        return f"by way of other calls they refer to this call's own result: {waits}. Leave a reference out."

    def _check(self, other: ToolCall, result: ToolResult | None) -> None:
        needed = f"{other.name} at {other.output_path!r}"
        if self.until:
            raise over(self.until)
        if result is None or isinstance(result.exception, (Deferred, Blocked)):
            raise Blocked(f"Not run: it needs the result of {needed}, which has none yet.")
        if result.is_error:
            raise Failed(f"Not run: it needs the result of {needed}, which failed: {result.error}")


def refers(tool: Tool[..., Any] | None) -> bool:
    """Tell whether calls of a tool may refer to those of others."""
    return tool is not None and OUTPUT_PATH in tool.about


def refer(tools: Tools) -> bool:
    """Tell whether calls of some tools may refer to each other."""
    return any(map(refers, tools.values()))


def imported(call: ToolCall, tool: Tool[..., Any] | None) -> Collection[str] | None:
    """List the shared values that a call imports; None where it may not refer to the results of others."""
    if tool is None or not refers(tool):
        return None
    scope = tool.scope
    return () if scope is None else (scope.imports or ()) if scope.shown is None else call.imports


def may_wait(call: ToolCall, tool: Tool[..., Any]) -> bool:
    """Tell whether a call may have to wait for others of its answer."""
    return refers(tool) and bool(references_in(call.arguments) or imported(call, tool))


def recalled(given: Values, messages: Sequence[Message], tools: Tools) -> Shared:
    """Make what the calls of a run share: a Shared as it stands; or values, and what a history tells of results.

    A result that was cut for the model is not known any more.
    """
    shared = Shared.of(given)
    if shared is given or not refer(tools):
        return shared
    told = {message.call_id: message for message in messages if isinstance(message, ToolMessage)}
    for call in chain.from_iterable(_in_order(said, tools) for said in messages if isinstance(said, ModelResponse)):
        if call.id in told:
            _put_told(shared, call, told[call.id], tools)
    return shared


def _put_told(shared: Shared, call: ToolCall, told: ToolMessage, tools: Tools) -> None:
    """Keep a result, as a history tells of it."""
    tool = tools.get(call.name)
    if call.output_path and tool and refers(tool) and not (told.is_error or was_cut(told.text)):
        with suppress(ToolError, ValueError):  # it was not kept the first time, either
            shared.put(kept_at(call), told_as(told.text, tool), call.instance)


def _overtook(plan: Plan, answered: Sequence[Answered]) -> Mapping[int, Sequence[Answered]]:
    good = {other.place: other for other in answered if not other.told.is_error}
    overtook = defaultdict[int, list[Answered]](list)
    for later in filter(good.__contains__, plan.order):
        for place in plan.after[later]:
            overtook[place].append(good[later])
    return overtook


def _result_of(told: ToolMessage) -> ToolResult:
    return ToolResult(error=told.text) if told.is_error else ToolResult(text=told.text)


def _in_order(said: ModelResponse, tools: Tools) -> list[ToolCall]:
    """List the calls of an answer as they were carried out: the last one that keeps its result in a place has won."""
    return [said.calls[place] for place in planned(said.calls, lambda call: imported(call, tools.get(call.name))).order]


def told_as(text: str, tool: Tool[..., Any]) -> Any:
    """Read what a model was told of a result as JSON data: the same in the run, and from its history.

    Where the tool may give a text, a number is one, too; so is all else that its output schema does not tell of.
    """
    try:
        value = from_json(text)
    except ValueError:
        return text
    types = {*_types(tool)}
    return value if "string" not in types or _KINDS.get(type(value)) in types else text


def _types(tool: Tool[..., Any]) -> Iterator[str]:
    """List the types of what a tool gives; and `quoted`, where a text may be that of a date or the like."""
    schema = tool.output_schema or {}
    for part in resolved(schema, schema).get("anyOf", [schema]):
        said = resolved(mapping(part), schema).get("type", _UNSAID)
        yield from [said] if isinstance(said, str) else said
    if tool.handler.returns.to_json is not None:
        yield "quoted"


def _whole(result: ToolResult, tool: Tool[..., Any]) -> str:
    """Give what the model is told of a result; the whole of its value, where it was cut."""
    text = result.text or ""
    return tool.invocation.write(result.value) if was_cut(text) and result.value is not None else text


async def _ended(end: Cancellation, door: Door) -> None:
    if not end:
        with suppress(Cancelled, TimedOut):
            await door.sleep(TIMEOUT_MAX, end)
