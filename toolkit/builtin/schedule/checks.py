"""What a schedule may be made of: each mistake is told where it is made, with what to write instead."""

from __future__ import annotations

from toolkit.builtin.schedule.store import Store


def refuse_no_store(store: object) -> None:
    """Make sure that something is a store.

    Raises:
        TypeError: It is none; a class of stores is none, either.
    """
    if isinstance(store, type) or not isinstance(store, Store):
        raise TypeError(f"store={store!r} is no store. Give SQLiteSchedule(path), or MemorySchedule().")


def refuse_uncallable(clock: object, **optional: object) -> None:
    """Make sure that a clock is a function, and so is what may be None.

    Raises:
        TypeError: One is not.
    """
    given = {name: function for name, function in optional.items() if function is not None}
    for name, function in {"clock": clock, **given}.items():
        if not callable(function):
            raise TypeError(f"{name}={function!r} is no function.")


def refuse_negative(kinds: tuple[type, ...], **numbers: object) -> None:
    """Make sure that all are numbers of some types, and not below 0.

    Raises:
        ValueError: One is not.
    """
    for name, number in numbers.items():
        if isinstance(number, bool) or not isinstance(number, kinds) or not number >= 0:  # type: ignore[operator]
            raise ValueError(f"{name}={number!r} is no number from 0 on.")


def refuse_unknown(*, missed: str, crashed: str) -> None:
    """Make sure that the rules for what was missed or has crashed are known.

    Raises:
        ValueError: One is not.
    """
    if missed not in ("once", "skip"):
        raise ValueError(f"missed={missed!r} is neither 'once' nor 'skip'.")
    if crashed not in ("skip", "again"):
        raise ValueError(f"crashed={crashed!r} is neither 'skip' nor 'again'.")


def refuse_mistaken(*, owner: object, allowed_tools: object) -> None:
    """Make sure that an owner is a text, as None would mean everybody's actions, and names of tools are several.

    Raises:
        ValueError: They are not.
    """
    is_text = isinstance(allowed_tools, str)
    if is_text:
        raise ValueError(f"allowed_tools={allowed_tools!r} is one text. Give a list: [{allowed_tools!r}].")
    if not isinstance(owner, str):
        raise ValueError(f"owner={owner!r} is no text.")  # noqa: TRY004  as for every other term
