"""Checks of the types of values that a server sends: an answer with a wrong type is refused as a whole.

If only the wrong value were skipped, the rest would run: a call with other arguments, or without the call before it.
Null means that a value is missing. Values that only describe an answer, such as its usage, are not checked.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from toolkit._dialects.base import get_member, join_text
from toolkit._options import is_whole
from toolkit.errors import ModelError

# Types of JSON values that are not objects; an object is a mapping, or of a class of the client.
_NO_OBJECTS = (str, bytes, int, float, list, tuple)
# Characters. A longer text is not an index.
_LONGEST_INDEX = 18


def malformed(what: str, value: Any) -> ModelError:
    """Make the error about an answer that is refused because of a value in it."""
    return ModelError(f"The model's answer is malformed: {what} is {value!r:.100}. Its calls are discarded.")


def read_object(value: Any, what: str) -> Any:
    """Return an object, or None.

    Raises:
        ModelError: The value is neither.
    """
    if isinstance(value, _NO_OBJECTS):
        raise malformed(what, value)
    return value


def read_objects(value: Any, what: str) -> list[Any]:
    """Return the objects of a list, without those that are missing.

    Raises:
        ModelError: It is not a list, or something in it is not an object.
    """
    items = _read(value, (list, tuple), what) or ()
    return [item for item in items if read_object(item, f"a part of {what}") is not None]


def read_text(value: Any, what: str) -> str:
    """Return a text; "" if it is missing.

    Raises:
        ModelError: The value is neither text nor missing.
    """
    return _read(value, str, what) or ""


def read_content(value: Any, what: str) -> str:
    """Return the text of a message's content, a text or a list of parts; "" if it is missing.

    Raises:
        ModelError: It is neither a text nor a list of objects, or the text of one is not text.
    """
    if isinstance(value, str):
        return value
    parts = read_objects(value, what)
    for part in parts:
        read_text(get_member(part, "text"), f"the text of {what}")
    return join_text(parts)


def _read(value: Any, kinds: Any, what: str) -> Any:
    if value is not None and not isinstance(value, kinds):
        raise malformed(what, value)
    return value


def read_index(value: Any, what: str) -> int | None:
    """Return an index; some servers send it as a text.

    Raises:
        ModelError: It is not a whole number.
    """
    if value is None or type(value) is int:
        return value
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= _LONGEST_INDEX:
        return int(value)
    raise malformed(what, value)


def read_identity(value: Any, what: str) -> str:
    """Return an id as text; some servers send a number.

    Raises:
        ModelError: It is neither text nor number.
    """
    return str(value) if is_whole(value) else read_text(value, what).strip()


def read_arguments(value: Any) -> str:
    """Return the JSON text of a call's arguments; some servers send an object or a list instead.

    Raises:
        ModelError: They are neither text, object nor list.
    """
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(_read(value, (Mapping, list, tuple), "the arguments of a call"), ensure_ascii=False, default=str)
