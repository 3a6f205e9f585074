"""Escaping of characters in texts of others that a model reads, and a person does not see."""

from __future__ import annotations

import json
import re

# Characters that a person does not see and a model reads: controls, marks of direction, tags, and so on.
_CONTROLS = (
    r"\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f"
    r"\u202a-\u202e\u2060-\u206f\u2800\u3164\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    r"\U000e0000-\U000e0fff"
)
# Besides these: joiners and selectors, but for those of emoji and of letters that are not ASCII; and the first bar of a
# token of a chat template, such as <|im_start|>.
_HIDDEN = re.compile(
    rf"[{_CONTROLS}]"
    rf"|(?<![^\x00-\x7f\u200c\u200d{_CONTROLS}])[\u200c\u200d]|[\u200c\u200d](?![^\x00-\x7f\u200c\u200d{_CONTROLS}])"
    rf"|(?<![^\x00-\x22\x24-\x29\x2b-\x2f\x3a-\x7f\u200c\u200d\ufe00-\ufe0f{_CONTROLS}])[\ufe00-\ufe0f]"
    r"|(?<=<)[|\uff5c](?=[^\s<>|\uff5c]{1,40}[|\uff5c]>)"
)


def escape_hidden(text: str) -> str:
    """Escape the invisible characters in a text of another program, and tokens of chat templates."""
    if text.isascii() and text.isprintable() and "<|" not in text:  # as most are
        return text
    return _HIDDEN.sub(lambda found: json.dumps(found[0])[1:-1] if found[0] != "|" else r"\u007c", text)
