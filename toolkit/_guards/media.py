"""Image formats, recognized by their first bytes."""

from __future__ import annotations

import re
from collections.abc import Mapping

# PNG: signature, length and name of the first chunk. JPEG: SOI and another marker. WebP: with its size in between.
_SIGNATURES: Mapping[str, re.Pattern[bytes]] = {
    "image/png": re.compile(rb"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"),
    "image/jpeg": re.compile(rb"\xff\xd8\xff[\xc0-\xfe]"),
    "image/gif": re.compile(rb"GIF8[79]a"),
    "image/webp": re.compile(rb"RIFF.{4}WEBP", re.DOTALL),
}


def detect_image(data: bytes) -> str | None:
    """Return the media type of an image, by its first bytes, or None if it is something else."""
    return next((media_type for media_type, signature in _SIGNATURES.items() if signature.match(data)), None)
