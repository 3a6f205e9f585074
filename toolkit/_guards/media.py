"""Pictures, told by how a file begins."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

# PNG: signature, and the first chunk's length and name. JPEG: SOI, and another marker. WebP: its size is in between.
_BEGINNINGS: Mapping[str, re.Pattern[bytes]] = MappingProxyType(
    {
        "image/png": re.compile(rb"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"),
        "image/jpeg": re.compile(rb"\xff\xd8\xff[\xc0-\xfe]"),
        "image/gif": re.compile(rb"GIF8[79]a"),
        "image/webp": re.compile(rb"RIFF.{4}WEBP", re.DOTALL),
    }
)


def picture(data: bytes) -> str | None:
    """Tell the media type of what begins as a picture does."""
    return next((media for media, beginning in _BEGINNINGS.items() if beginning.match(data)), None)
