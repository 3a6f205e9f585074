"""`shared_state`: named texts that several agents share."""

from __future__ import annotations

import threading
from typing import Annotated, Any, Literal

from pydantic import StringConstraints

from toolkit._guards.options import check_type, check_whole
from toolkit._messages import ToolResult
from toolkit._tools.decorator import tool
from toolkit._tools.tool import Tool
from toolkit.errors import Failed, InvalidArguments

MAX_BYTES = 10 * 1024 * 1024
MAX_KEYS = 10_000
MAX_LISTED = 200

Key = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]


class SharedState:
    """Texts by name, for any number of agents and threads.

    Args:
        max_bytes: Limit for all names and texts together, in UTF-8.

    Raises:
        DefinitionError: `max_bytes` is not a positive integer.
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = check_whole("max_bytes", max_bytes)
        self._lock = threading.Lock()
        self._texts: dict[str, str] = {}
        self._used = 0

    def get(self, key: str) -> str | None:
        """Return a text; None if there is none of this name."""
        with self._lock:
            return self._texts.get(key)

    def set(self, key: str, value: str) -> None:
        """Store a text, replacing the one of this name.

        Raises:
            Failed: There is no room; nothing was changed.
        """
        with self._lock:
            total = self._used - self._size(key) + _count_bytes(key) + _count_bytes(value)
            if total > self._max_bytes or (key not in self._texts and len(self._texts) >= MAX_KEYS):
                size = _count_bytes(value)
                raise Failed(
                    f"SharedState capacity exceeded: storing '{key}' ({size} bytes) would bring total to "
                    f"{total} / {self._max_bytes} bytes, {len(self._texts)} of {MAX_KEYS} keys. Remove some first."
                )
            self._texts[key] = value
            self._used = total

    def remove(self, key: str) -> bool:
        """Remove a text; False if there was none of this name."""
        with self._lock:
            self._used -= self._size(key)
            return self._texts.pop(key, None) is not None

    def sizes(self) -> dict[str, int]:
        """Return the size of each text in bytes, sorted by name."""
        with self._lock:
            texts = dict(self._texts)
        return {key: _count_bytes(texts[key]) for key in sorted(texts)}

    def _size(self, key: str) -> int:
        return _count_bytes(key) + _count_bytes(self._texts[key]) if key in self._texts else 0


def shared_state_tool(state: SharedState | None = None) -> Tool[..., Any]:
    """Make `shared_state`, with which cooperating agents share texts.

    Args:
        state: Holds the texts; pass the same one to the tools of all cooperating agents.

    Raises:
        DefinitionError: `state` is not a `SharedState`.
    """
    texts = SharedState() if state is None else check_type("state", state, SharedState)

    @tool(title="Shared State", effect="write", idempotent=True)
    def shared_state(
        action: Literal["get", "set", "list", "remove"], key: Key | None = None, value: str | None = None
    ) -> ToolResult:
        """Read and write named texts in a store that other agents see too. They stay until they are removed.

        Args:
            action: What to do.
            key: Name of the text; for get, set and remove.
            value: The text; for set.
        """
        if action == "list":
            return ToolResult(_list_texts(texts.sizes()), details={"action": action})
        if key is None or (action == "set" and value is None):
            name = "key" if key is None else "value"
            raise InvalidArguments(f"Missing required '{name}' parameter for {action}")
        details: dict[str, Any] = {"action": action, "key": key}
        if action == "set":
            texts.set(key, value or "")
            size = _count_bytes(value or "")
            return ToolResult(f"Stored '{key}' ({size} bytes)", details={**details, "bytes": size})
        if action == "remove":
            existed = texts.remove(key)
            text = f"Removed '{key}'" if existed else f"Key '{key}' not found"
            return ToolResult(text, details={**details, "existed": existed})
        stored = texts.get(key)
        if stored is None:
            raise Failed(f"Key '{key}' not found in shared state")
        return ToolResult(stored, details=details)

    return shared_state


def _list_texts(sizes: dict[str, int]) -> str:
    listed = [f"{key} ({size} bytes)" for key, size in list(sizes.items())[:MAX_LISTED]]
    more = [f"and {len(sizes) - MAX_LISTED} more"] if len(sizes) > MAX_LISTED else []
    return ", ".join((*listed, *more)) or "(empty)"


def _count_bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
