"""Elements of HTML, and texts that are no markup in them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from typing import Any

from toolkit._messages import sendable
from toolkit.display.lines import shortened, visible

MAX_LABEL = 200  # characters
MAX_HELP = 2_000


def textarea(text: str, attributes: Mapping[str, Any]) -> str:
    """Write a text of several lines; browsers drop the first line break."""
    return f"<textarea{written_attributes({'rows': 4, **attributes})}>\n{escape(sendable(text))}</textarea>"


def tag(name: str, attributes: Mapping[str, Any]) -> str:
    """Write an element that has no content."""
    return f"<{name}{written_attributes(attributes)}>"


def written_attributes(attributes: Mapping[str, Any]) -> str:
    """Write attributes: those that are true by their name alone, those that are false or None not at all."""
    given = {key: value for key, value in attributes.items() if value is not None and value is not False}
    return "".join(f" {key}" if value is True else f' {key}="{_quoted(value)}"' for key, value in given.items())


def title(label: str, *, is_required: bool) -> str:
    """Write a label, with a mark where there has to be a value."""
    mark = ' <span title="required">*</span>' if is_required else ""
    return f"<b>{safe(label, MAX_LABEL)}</b>{mark}"


def safe(text: str, size: int) -> str:
    """Write a text so that it is no markup, and moves nothing."""
    return escape(visible(shortened(text, size)))


def written(value: Any, indent: int | None = None) -> str:
    """Write a value as JSON."""
    return json.dumps(value, ensure_ascii=False, indent=indent, default=str)


def _quoted(value: Any) -> str:
    return escape(sendable(str(value)))
