"""Where actions are kept, and who may carry one out: a claim is written before the work begins."""

from __future__ import annotations

import json
import math
import time
import uuid
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from toolkit.builtin.schedule.recurrence import next_run


@dataclass(frozen=True, kw_only=True)
class Action:
    """Something to be done at certain times.

    Attributes:
        description: What it is, for the model and for people.
        schedule: When, as `next_run` reads it.
        zone: The zone of its times, by its IANA name.
        next_run: When it is due next, in seconds since 1970, UTC; by default as its schedule says, after `created_at`.
        tools: The calls it is meant to make, as JSON: a list of objects with `tool` and `params`.
        synthesis_prompt: What is to be made of their results.
        created_at: In seconds since 1970, UTC.
        owner: Whose it is: nobody else's tools see it.
        depth: How many scheduled runs lie before it, each having scheduled the next; 0 where a person asked for it.

    Raises:
        TypeError: `tools` is no text.
        ValueError: `next_run` is not given, and `schedule` or `zone` is none, or never due.
        ImportError: `next_run` is not given, the rule is in cron's form, and the extra `schedule` is not installed.
    """

    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    description: str
    schedule: str
    zone: str
    next_run: float = math.nan
    tools: str = "[]"
    synthesis_prompt: str = ""
    enabled: bool = True
    created_at: float = field(default_factory=time.time)
    owner: str = ""
    depth: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.tools, str):
            raise TypeError(f"tools={self.tools!r:.100} is no text. Give JSON: tools=json.dumps([...]).")
        if math.isnan(self.next_run):
            object.__setattr__(self, "next_run", next_run(self.schedule, self.created_at, self.zone))

    @property
    def planned(self) -> frozenset[str]:
        """The names of the tools that it is meant to call."""
        return frozenset(call["tool"] for call in json.loads(self.tools))


@dataclass(frozen=True, kw_only=True)
class Firing:
    """One time that an action is due, claimed by somebody who carries it out.

    Attributes:
        due: When it was due, in seconds since 1970, UTC.
        claimed_at: When it was claimed, by the same count.
        attempt: How often it was claimed, counted from 1.
    """

    action: Action
    due: float
    claimed_at: float
    attempt: int = 1

    @property
    def key(self) -> str:
        """The same for every attempt, another for every other firing: for work that must not be done twice."""
        return f"{self.action.id}:{self.due:.0f}"

    @property
    def late(self) -> float:
        """Seconds from when it was due to when it was claimed."""
        return self.claimed_at - self.due

    @property
    def prompt(self) -> str:
        """What a model is asked to do."""
        action = self.action
        lines = (f"Scheduled action {action.id}: {action.description}", f"Call these tools: {action.tools}")
        return "\n".join((*lines, action.synthesis_prompt)).rstrip()


@runtime_checkable
class Store(Protocol):
    """Where actions are kept. It may be used from any thread; each method does all of its work, or none."""

    def add(self, action: Action, most: int | None = None) -> bool:
        """Keep an action; False, and nothing done, where its owner has so many already.

        Raises:
            ValueError: Its schedule has none of the forms of a rule.
        """
        ...

    def actions(self, owner: str | None = None) -> tuple[Action, ...]:
        """Give the actions of an owner, or of all, the one that is due first in front."""
        ...

    def change(self, old: Action, new: Action) -> bool:
        """Put an action in another's place; False, and nothing done, where the other has changed meanwhile."""
        ...

    def delete(self, *actions: Action) -> int:
        """Remove actions and what is known of their firings; give how many were there."""
        ...

    def claim(self, old: Action, new: Action, at: float) -> Firing | None:
        """Put an action's successor in its place, and take the right to carry out what is due.

        None where it has changed meanwhile, or where this firing was claimed before, as after a clock was set back.
        """
        ...

    def unfinished(self, before: float) -> tuple[Firing, ...]:
        """Give the firings that were claimed before a time and never finished: whoever claimed them has crashed."""
        ...

    def take_over(self, firing: Firing, at: float) -> Firing | None:
        """Claim an unfinished firing anew; None where somebody else has done so, or it has finished."""
        ...

    def finish(self, firing: Firing, at: float, paused_run: str | None = None) -> None:
        """Write down that a firing has been carried out or given up, or which run of it waits for somebody's yes."""
        ...

    def paused(self, run_id: str) -> Firing | None:
        """Give the firing whose run waits for somebody's yes; None where that is no such run."""
        ...
