"""Check the types of what a server sends: a value of a wrong type refuses the whole answer.

Were it skipped, the rest would run: a call with other arguments, or without the call before it. Null stands for a
value that is missing. What only describes an answer, such as its usage, refuses nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from toolkit._dialects.base import get_member, join_text
from toolkit._options import is_whole
from toolkit.errors import ModelError

# JSON values that are not objects; an object is a mapping, or one of the client's own.
_NO_OBJECTS = (str, bytes, int, float, list, tuple)
# Characters. A longer text is not an index.
_LONGEST_INDEX = 18


def malformed(what: str, value: Any) -> ModelError:
    """Make the error that refuses an answer for a value in it."""
    return ModelError(f"The model's answer is malformed: {what} is {value!r:.100}. Its calls are discarded.")


def read_object(value: Any, what: str) -> Any:
    """Return an object, or None.

    Raises:
        ModelError: It is neither.
    """
    if isinstance(value, _NO_OBJECTS):
        raise malformed(what, value)
    return value


def read_objects(value: Any, what: str) -> list[Any]:
    """Return the objects of a list, without those that are missing.

    Raises:
        ModelError: It is not a list, or something in it is not an object.
    """
    if value is None:
        return []
    if not isinstance(value, (list, tuple)):
        raise malformed(what, value)
    for item in value:
        if isinstance(item, _NO_OBJECTS):
            raise malformed(f"a part of {what}", item)
    return [item for item in value if item is not None]


def read_text(value: Any, what: str) -> str:
    """Return a text; nothing is an empty one.

    Raises:
        ModelError: It is neither.
    """
    if value is None or isinstance(value, str):
        return value or ""
    raise malformed(what, value)


def read_content(value: Any, what: str) -> str:
    """Return the text of a content, or of its parts.

    Raises:
        ModelError: It is neither a text nor a list of objects, or one has no text.
    """
    if value is None or isinstance(value, str):
        return value or ""
    parts = read_objects(value, what)
    for part in parts:
        read_text(get_member(part, "text"), f"the text of {what}")
    return join_text(parts)


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
    """Return an id; some servers send a number.

    Raises:
        ModelError: It is neither text nor number.
    """
    return str(value) if is_whole(value) else read_text(value, what).strip()


def read_arguments(value: Any) -> str:
    """Return the text of a call's arguments; some servers have decoded it.

    Raises:
        ModelError: They are neither text, object nor list.
    """
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, (Mapping, list, tuple)):
        return json.dumps(value, ensure_ascii=False, default=str)
    raise malformed("the arguments of a call", value)
