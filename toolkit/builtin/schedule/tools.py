"""`schedule_create`, `schedule_list`, `schedule_update` and `schedule_delete`, for a model."""

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
from toolkit._options import check_options
from toolkit._tools.decorator import tool
from toolkit._tools.tool import Tool
from toolkit.builtin.schedule.recurrence import (
    RECURRENCES,
    change_rule,
    compose_rule,
    explain_unknown,
    find_zone,
    next_run,
    to_zone_name,
    validate_rule,
)
from toolkit.builtin.schedule.scheduler import current_firing
from toolkit.builtin.schedule.store import Action, SQLiteSchedule
from toolkit.errors import DefinitionError, ToolError

MOST = 100
# Characters of an action's calls as JSON and its synthesis_prompt together.
MAX_CALLS = 16 * 1024


def _join_lines(text: str) -> str:
    return " ".join(text.split())


# In one line, so that a description cannot imitate an item of the list.
Text = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=500), AfterValidator(_join_lines)
]
# An enum for the model; any other word is read as "daily", and the result says so.
Recurrence = Annotated[str, Field(json_schema_extra={"enum": list(RECURRENCES)})]


class PlannedCall(TypedDict):
    """A planned call of a scheduled action."""

    tool: str
    params: dict[str, Any]


@check_options
def schedule_tools(
    store: SQLiteSchedule,
    zone: str | int = "UTC",
    *,
    owner: str = "",
    allowed_tools: Sequence[str] | None = None,
    most: int = MOST,
    clock: Callable[[], float] = clocks.time,
) -> list[Tool[..., Any]]:
    """Make the tools schedule_create, schedule_list, schedule_update and schedule_delete.

    They make no action that is due more than once a day. An action with a cron rule can be paused, resumed and deleted,
    but its times cannot be changed. A scheduled run can delete actions, but cannot schedule or change one. So no action
    can keep itself alive forever.

    Args:
        store: The store of the actions.
        zone: IANA name of the user's time zone, or the whole hours that it is ahead of UTC; stored with each action.
        owner: Owner of the actions. Actions of other owners are not visible and cannot be changed.
        allowed_tools: Names of the tools whose calls may be planned; any by default. The names are not checked.
        most: Maximum number of actions of the owner, paused ones included.
        clock: Returns the time, in seconds since 1970, UTC.

    Raises:
        DefinitionError: There is no such zone, or another option is invalid.
    """
    check_type("store", store, SQLiteSchedule)
    allowed = None if allowed_tools is None else check_texts("allowed_tools", allowed_tools)
    check_sync_function("clock", clock)
    most = check_whole("most", most, least=0)
    try:
        find_zone(check_type("zone", zone, str, int))
    except ValueError as error:
        raise DefinitionError(f"zone={zone!r:.100}: {error}") from None
    schedule = _Schedule(store, to_zone_name(zone), check_type("owner", owner, str), allowed, most, clock)
    return [schedule.schedule_create, schedule.schedule_list, schedule.schedule_update, schedule.schedule_delete]


@dataclass(frozen=True)
class _Schedule:
    """The tools for the actions of one owner."""

    store: SQLiteSchedule
    zone: str
    owner: str
    allowed: tuple[str, ...] | None
    most: int
    clock: Callable[[], float]

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
        """Schedule an action: tool calls that run later, once or repeatedly.

        Args:
            description: Short description of the action.
            time: Local time of the day as HH:MM, 24 hours.
            recurrence: How often it runs.
            tools: The tool calls.
            day: For weekly a day ("monday"), for custom several ("monday,friday"), for monthly a number ("15"; 31 is
                the last day of a shorter month); for once and daily none.
            synthesis_prompt: Instructions for the results of the calls.
        """
        planned = self._serialize_calls(tools, synthesis_prompt)
        schedule = validate_rule(compose_rule(time, recurrence, day), "invalid schedule format")
        self._refuse_scheduled_run(context)
        action = Action(
            description=description,
            schedule=schedule,
            zone=self.zone,
            next_run=next_run(schedule, self.clock(), self.zone),
            tools=planned,
            synthesis_prompt=synthesis_prompt,
            created_at=self.clock(),
            owner=self.owner,
        )
        if not self.store.add(action, self.most):
            raise ToolError(f"There are {self.most} scheduled actions, and there may be no more. Delete one first.")
        confirmation = f"Scheduled: {description}\nSchedule: {schedule}\nNext run: {_format_next_run(action)}"
        return confirmation + explain_unknown(recurrence)

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
        """Pause or resume a scheduled action, or change when it runs.

        Args:
            description_query: Part of the action's description, in small or capital letters.
            enabled: False pauses it, True resumes it.
            time: New local time of the day as HH:MM, 24 hours.
            recurrence: How often it runs from now on.
            day: The new day or days, as for schedule_create.
        """
        self._refuse_scheduled_run(context)
        matches = self._find_actions(description_query)
        needle = description_query.casefold()
        matches = [action for action in matches if action.description.casefold() == needle] or matches
        if not matches:
            return _format_no_match(description_query)
        if len(matches) > 1:
            names = ", ".join(action.description for action in matches)
            return f"Multiple matches: {names}. Be more specific."
        schedule = change_rule(matches[0].schedule, time, recurrence, day)
        return self._change(matches[0], schedule, enabled=enabled) + explain_unknown(recurrence)

    @tool(title="Delete Scheduled Actions", effect="destructive")
    def schedule_delete(self, description_query: Text) -> str:
        """Delete every scheduled action that matches.

        Args:
            description_query: Part of the description, in small or capital letters; "*" deletes all actions.
        """
        is_all = description_query == "*"
        matches = list(self._list_actions()) if is_all else self._find_actions(description_query)
        count = self.store.delete(*matches)
        if is_all:
            return f"Deleted all {count} scheduled action(s)."
        if not count:
            return _format_no_match(description_query)
        return f"Deleted: {matches[0].description}" if len(matches) == 1 else f"Deleted {count} scheduled action(s)."

    def _serialize_calls(self, calls: Sequence[PlannedCall], synthesis_prompt: str) -> str:
        """Check planned calls, and return them as JSON."""
        refused = [call["tool"] for call in calls if self.allowed is not None and call["tool"] not in self.allowed]
        if refused:
            raise ToolError(f"{refused[0]!r} cannot be scheduled. These can: {', '.join(self.allowed or ())}.")
        text = json.dumps(calls, ensure_ascii=False)
        if (size := len(text) + len(synthesis_prompt)) > MAX_CALLS:
            raise ToolError(f"tools and synthesis_prompt have {size} characters. At most {MAX_CALLS} can be scheduled.")
        return text

    def _refuse_scheduled_run(self, context: ToolContext[Any]) -> None:
        if current_firing.get() or self.store.find_paused(context.run_id):
            raise ToolError("A scheduled action may neither schedule nor change one. Ask the user to do it.")

    def _list_actions(self) -> tuple[Action, ...]:
        return self.store.actions(self.owner)

    def _find_actions(self, query: str) -> list[Action]:
        needle = query.casefold()
        return [action for action in self._list_actions() if needle in action.description.casefold()]

    def _change(self, old: Action, schedule: str | None, *, enabled: bool | None) -> str:
        states = {True: ["enabled"], False: ["paused"], None: []}[enabled]
        changes = states + (["schedule updated"] if schedule is not None else [])
        if not changes:
            return "No changes specified."

        new = replace(old, enabled=old.enabled if enabled is None else enabled)
        if schedule is not None:
            new = replace(new, schedule=validate_rule(schedule, "invalid schedule"))
        if schedule is not None or not old.enabled:  # a resumed action does not run for the times that it missed
            new = replace(new, next_run=next_run(new.schedule, self.clock(), new.zone))
        if not self.store.change(old, new):
            raise ToolError(f'"{old.description}" was changed by another process at the same time. Try again.')
        return f'Updated "{old.description}": {", ".join(changes)}'


def _format_action(action: Action) -> str:
    state = "active" if action.enabled else "paused"
    return f"{action.description} [{state}]\n   Schedule: {action.schedule} | Next: {_format_next_run(action)}"


def _format_next_run(action: Action) -> str:
    try:
        zone = find_zone(action.zone)
    except ValueError:  # the zone is not on this machine any more
        return f"{datetime.fromtimestamp(action.next_run, timezone.utc):%Y-%m-%d %H:%M} UTC"
    return f"{datetime.fromtimestamp(action.next_run, zone):%Y-%m-%d %H:%M}"


def _format_no_match(query: str) -> str:
    return f'No scheduled action matching "{query}".'
