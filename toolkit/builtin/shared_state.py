"""`shared_state`: named texts that the calls of several agents share."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import StringConstraints

from toolkit._guards.options import of_type, whole
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
        max_bytes: Of all names and texts, as UTF-8.

    Raises:
        DefinitionError: That is no size.
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = whole("max_bytes", max_bytes)
        self._lock = threading.Lock()
        self._texts: dict[str, str] = {}
        self._used = 0

    def get(self, key: str) -> str | None:
        """Give a text; None where there is none of this name."""
        with self._lock:
            return self._texts.get(key)

    def set(self, key: str, value: str) -> None:
        """Keep a text, in place of the one that had its name.

        Raises:
            Failed: There is no room; nothing has changed.
        """
        with self._lock:
            total = self._used - self._size(key) + _bytes(key) + _bytes(value)
            if total > self._max_bytes or (key not in self._texts and len(self._texts) >= MAX_KEYS):
                raise Failed(
                    f"SharedState capacity exceeded: storing '{key}' ({_bytes(value)} bytes) would bring total to "
                    f"{total} / {self._max_bytes} bytes, {len(self._texts)} of {MAX_KEYS} keys. Remove some first."
                )
            self._texts[key] = value
            self._used = total

    def remove(self, key: str) -> bool:
        """Forget a text; tell whether there was one."""
        with self._lock:
            self._used -= self._size(key)
            return self._texts.pop(key, None) is not None

    def sizes(self) -> dict[str, int]:
        """Give the size of each text, in bytes, sorted by name."""
        with self._lock:
            texts = dict(self._texts)
        return {key: _bytes(texts[key]) for key in sorted(texts)}

    def _size(self, key: str) -> int:
        return _bytes(key) + _bytes(self._texts[key]) if key in self._texts else 0


def shared_state_tool(state: SharedState | None = None) -> Tool[..., Any]:
    """Make `shared_state`, by which agents that work together share texts.

    Args:
        state: Where the texts are kept; give the tools of all agents that work together the same one.

    Raises:
        DefinitionError: It is no SharedState.
    """
    kept = SharedState() if state is None else of_type("state", state, SharedState)
    return _Access(kept).shared_state


@dataclass(frozen=True)
class _Access:
    state: SharedState

    @tool(title="Shared State", effect="write", idempotent=True)
    def shared_state(
        self, action: Literal["get", "set", "list", "remove"], key: Key | None = None, value: str | None = None
    ) -> ToolResult:
        """Read and write named texts in a store that other agents see too. They stay until they are removed.

        Args:
            action: What to do.
            key: Name of the text; for get, set and remove.
            value: The text; for set.
        """
        if action == "list":
            return ToolResult(_summary(self.state.sizes()), details={"action": action})
        name = _required("key", key, action)
        if action == "set":
            return _set(self.state, name, _required("value", value, action))
        return _got(self.state, name) if action == "get" else _removed(self.state, name)


def _required(name: str, value: str | None, action: str) -> str:
    if value is None:
        raise InvalidArguments(f"Missing required '{name}' parameter for {action}")
    return value


def _set(state: SharedState, key: str, value: str) -> ToolResult:
    state.set(key, value)
    return ToolResult(
        f"Stored '{key}' ({_bytes(value)} bytes)", details={"action": "set", "key": key, "bytes": _bytes(value)}
    )


def _got(state: SharedState, key: str) -> ToolResult:
    value = state.get(key)
    if value is None:
        raise Failed(f"Key '{key}' not found in shared state")
    return ToolResult(value, details={"action": "get", "key": key})


def _removed(state: SharedState, key: str) -> ToolResult:
    existed = state.remove(key)
    text = f"Removed '{key}'" if existed else f"Key '{key}' not found"
    return ToolResult(text, details={"action": "remove", "key": key, "existed": existed})


def _summary(sizes: dict[str, int]) -> str:
    shown = [f"{key} ({_human(size)})" for key, size in list(sizes.items())[:MAX_LISTED]]
    more = [f"and {len(sizes) - MAX_LISTED} more"] if len(sizes) > MAX_LISTED else []
    return ", ".join((*shown, *more)) or "(empty)"


def _human(size: int) -> str:
    if size < 1024:
        return f"{size} bytes"
    return f"{size / 1024:.1f} KB" if size < 1024**2 else f"{size / 1024**2:.1f} MB"


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
