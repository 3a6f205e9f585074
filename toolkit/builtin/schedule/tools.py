"""Tools by which a model keeps a schedule."""

from __future__ import annotations

import json
import time as clocks
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Annotated, Any

from pydantic import AfterValidator, Field, StringConstraints
from typing_extensions import TypedDict

from toolkit._context import ToolContext
from toolkit._guards.options import check_sync_function, check_texts, check_type, check_whole
from toolkit._tools.decorator import tool
from toolkit._tools.tool import Tool
from toolkit.builtin.schedule.recurrence import (
    RECURRENCES,
    change_rule,
    compose_rule,
    explain_unknown,
    find_zone,
    next_run,
    validate_rule,
)
from toolkit.builtin.schedule.scheduler import current_firing
from toolkit.builtin.schedule.store import Action, ScheduleStore, validate_store, validate_zone
from toolkit.errors import ToolError

MOST = 100
# Characters of an action's calls as JSON, and of its synthesis_prompt.
LARGEST = 16 * 1024
UNREADABLE = "invalid schedule format"


def _join_lines(text: str) -> str:
    return " ".join(text.split())


# In one line, as a list shows it: no description looks like an action of its own.
Text = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=500), AfterValidator(_join_lines)
]
# Shown as a choice; another word is read as "daily", and the answer says so.
Recurrence = Annotated[str, Field(json_schema_extra={"enum": list(RECURRENCES)})]


class PlannedCall(TypedDict):
    """A call that a scheduled action is to make."""

    tool: str
    params: dict[str, Any]


def schedule_tools(
    store: ScheduleStore,
    zone: str = "UTC",
    *,
    owner: str = "",
    allowed_tools: Sequence[str] | None = None,
    most: int = MOST,
    nested: int = 0,
    clock: Callable[[], float] = clocks.time,
) -> list[Tool[..., Any]]:
    """Make the tools schedule_create, schedule_list, schedule_update and schedule_delete.

    None of them makes an action that is due more often than once a day, and an action whose rule is in cron's form can
    be paused, resumed and deleted by them, but not be given other times.

    Args:
        store: Where actions are kept.
        zone: The user's zone, by its IANA name; it is kept with each action.
        owner: Whose actions these are; those of others are neither seen nor changed.
        allowed_tools: Names of the tools whose calls may be planned; any by default, and nobody checks the names.
        most: How many actions an owner may have, paused ones included, so that no model can flood the schedule.
        nested: How many scheduled runs may lie before an action, each having scheduled or changed the next: 0 lets only
            people have something scheduled or changed, so that no action keeps itself going for ever.
        clock: Gives the time, in seconds since 1970, UTC.

    Raises:
        DefinitionError: There is no such zone, or another argument makes no sense.
    """
    validate_zone(zone)
    validate_store(store)
    allowed = None if allowed_tools is None else check_texts("allowed_tools", allowed_tools)
    most, nested = check_whole("most", most, least=0), check_whole("nested", nested, least=0)
    terms = _Terms(zone, check_type("owner", owner, str), allowed, most, nested)
    made = _Schedule(store, terms, check_sync_function("clock", clock))
    return [made.schedule_create, made.schedule_list, made.schedule_update, made.schedule_delete]


@dataclass(frozen=True)
class _Terms:
    """What may be scheduled, and for whom."""

    zone: str
    owner: str
    allowed: tuple[str, ...] | None
    most: int
    nested: int

    def serialize_calls(self, calls: Sequence[PlannedCall], synthesis_prompt: str) -> str:
        """Write down calls that are to be made.

        Raises:
            ToolError: One may not be planned, or there is too much.
        """
        unfit = [call["tool"] for call in calls if self.allowed is not None and call["tool"] not in self.allowed]
        if unfit:
            raise ToolError(f"{unfit[0]!r} cannot be scheduled. These can: {', '.join(self.allowed or ())}.")
        text = json.dumps(calls, ensure_ascii=False)
        if (size := len(text) + len(synthesis_prompt)) > LARGEST:
            raise ToolError(f"tools and synthesis_prompt have {size} characters. At most {LARGEST} can be scheduled.")
        return text


class _Schedule:
    def __init__(self, store: ScheduleStore, terms: _Terms, clock: Callable[[], float]) -> None:
        self._store, self._terms, self._clock = store, terms, clock

    @tool(title="Schedule an Action", effect="write")
    def schedule_create(  # noqa: D417  the context is not the model's
        self,
        description: Text,
        time: str,
        recurrence: Recurrence,
        tools: Annotated[list[PlannedCall], Field(min_length=1)],
        day: str = "",
        synthesis_prompt: str = "",
        *,
        context: ToolContext[Any],
    ) -> str:
        """Schedule an action: calls of tools, made later, once or again and again.

        Args:
            description: What the action does, in a few words.
            time: Local time of the day as HH:MM, 24 hours.
            recurrence: How often it is done.
            tools: The calls to make.
            day: For weekly a day ("monday"), for custom several ("monday,friday"), for monthly a number ("15"; 31 is
                the last day of a shorter month); for once and daily none.
            synthesis_prompt: What to make of the calls' results.
        """
        planned = self._terms.serialize_calls(tools, synthesis_prompt)
        schedule = validate_rule(compose_rule(time, recurrence, day), UNREADABLE)
        added = self._add(
            self._make_action(description, schedule, planned, synthesis_prompt, self._count_depth(context))
        )
        return added + explain_unknown(recurrence)

    @tool(title="List Scheduled Actions", effect="read")
    def schedule_list(self) -> str:
        """List the scheduled actions, the next one first."""
        actions = self._list_actions()
        if not actions:
            return "No scheduled actions."
        items = (f"{number}. {_format_action(action)}" for number, action in enumerate(actions, 1))
        return "\n".join((f"{len(actions)} scheduled action(s):", "", *items))

    @tool(title="Change a Scheduled Action", effect="write")
    def schedule_update(  # noqa: D417  the context is not the model's
        self,
        description_query: Text,
        *,
        context: ToolContext[Any],
        enabled: bool | None = None,
        time: str = "",
        recurrence: Recurrence | None = None,
        day: str = "",
    ) -> str:
        """Pause or resume a scheduled action, or change when it is done.

        Args:
            description_query: Part of the action's description, in small or capital letters.
            enabled: False pauses it, True resumes it.
            time: New local time of the day as HH:MM, 24 hours.
            recurrence: How often it is done from now on.
            day: The new day or days, as for schedule_create; only together with a time or a recurrence.
        """
        depth = self._count_depth(context)
        found = self._find(description_query)
        if not found:
            return _format_no_match(description_query)
        if len(found) > 1:
            names = ", ".join(action.description for action in found)
            return f"Multiple matches: {names}. Be more specific."
        schedule = change_rule(found[0].schedule, time, recurrence, day)
        return self._change(found[0], schedule, depth, enabled=enabled) + explain_unknown(recurrence)

    @tool(title="Delete Scheduled Actions", effect="destructive")
    def schedule_delete(self, description_query: Text) -> str:
        """Delete every scheduled action that matches.

        Args:
            description_query: Part of the description, in small or capital letters; "*" deletes all actions.
        """
        is_all = description_query == "*"
        found = list(self._list_actions()) if is_all else self._find(description_query)
        count = self._store.delete(*found)
        if is_all:
            return f"Deleted all {count} scheduled action(s)."
        if not count:
            return _format_no_match(description_query)
        return f"Deleted: {found[0].description}" if len(found) == 1 else f"Deleted {count} scheduled action(s)."

    def _count_depth(self, context: ToolContext[Any]) -> int:
        """Tell how many scheduled runs lie before what a call schedules or changes.

        Raises:
            ToolError: Too many.
        """
        firing = current_firing.get() or self._store.paused(context.run_id)
        depth = 0 if firing is None else firing.action.depth + 1
        if depth > self._terms.nested:
            raise ToolError("A scheduled action may neither schedule nor change one. Ask somebody to do it.")
        return depth

    def _make_action(self, description: str, schedule: str, tools: str, synthesis_prompt: str, depth: int) -> Action:
        """Make an action that begins now."""
        return Action(
            description=description,
            schedule=schedule,
            zone=self._terms.zone,
            next_run=self._find_next_run(schedule, self._terms.zone, UNREADABLE),
            tools=tools,
            synthesis_prompt=synthesis_prompt,
            created_at=self._clock(),
            owner=self._terms.owner,
            depth=depth,
        )

    def _add(self, action: Action) -> str:
        most = self._terms.most
        if not self._store.add(action, most):
            raise ToolError(f"There are {most} scheduled actions, and there may be no more. Delete one first.")
        return f"Scheduled: {action.description}\nSchedule: {action.schedule}\nNext run: {_format_next_run(action)}"

    def _list_actions(self) -> tuple[Action, ...]:
        return self._store.actions(self._terms.owner)

    def _find(self, query: str) -> list[Action]:
        wanted = query.casefold()
        return [action for action in self._list_actions() if wanted in action.description.casefold()]

    def _change(self, old: Action, schedule: str | None, depth: int, *, enabled: bool | None) -> str:
        words = {True: ["enabled"], False: ["paused"], None: []}[enabled]
        said = words + (["schedule updated"] if schedule is not None else [])
        if not said:
            return "No changes specified."
        new = replace(old, enabled=old.enabled if enabled is None else enabled, depth=max(old.depth, depth))
        fault = "invalid schedule"
        if schedule is not None:
            new = replace(new, schedule=validate_rule(schedule, fault))
        if schedule is not None or not old.enabled:  # what was paused does not make up for what it slept through
            new = replace(new, next_run=self._find_next_run(new.schedule, new.zone, fault))
        if not self._store.change(old, new):
            raise ToolError(f'"{old.description}" was changed by somebody else at the same time. Try again.')
        return f'Updated "{old.description}": {", ".join(said)}'

    def _find_next_run(self, schedule: str, zone: str, fault: str) -> float:
        try:
            return next_run(schedule, self._clock(), zone)
        except ValueError:
            raise ToolError(f"{fault}: {schedule}") from None


def _format_action(action: Action) -> str:
    state = "active" if action.enabled else "paused"
    return f"{action.description} [{state}]\n   Schedule: {action.schedule} | Next: {_format_next_run(action)}"


def _format_next_run(action: Action) -> str:
    try:
        zone = find_zone(action.zone)
    except ValueError:  # this machine does not know it any more
        return f"{datetime.fromtimestamp(action.next_run, timezone.utc):%Y-%m-%d %H:%M} UTC"
    return f"{datetime.fromtimestamp(action.next_run, zone):%Y-%m-%d %H:%M}"


def _format_no_match(query: str) -> str:
    return f'No scheduled action matching "{query}".'
