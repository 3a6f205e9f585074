"""What only a schedule may be made of: each mistake is told where it is made, with what to write instead."""

from __future__ import annotations

from toolkit._guards.options import of_type
from toolkit.builtin.schedule.recurrence import zone_of
from toolkit.builtin.schedule.store import Store
from toolkit.errors import DefinitionError


def refuse_no_store(store: object) -> None:
    """Make sure that something is a store.

    Raises:
        DefinitionError: It is none; a class of stores is none, either.
    """
    if isinstance(store, type) or not isinstance(store, Store):
        raise DefinitionError(f"store={store!r:.100} is no store. Give SQLiteSchedule(path), or MemorySchedule().")


def refuse_no_zone(zone: str) -> None:
    """Make sure that there is a zone of this name.

    Raises:
        DefinitionError: There is none.
    """
    try:
        zone_of(of_type("zone", zone, str))
    except ValueError as error:
        raise DefinitionError(f"zone={zone!r:.100}: {error}") from None
