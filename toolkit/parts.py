"""Pictures, files and texts, as a message can carry them."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Image:
    """A picture, for a model that can see.

    Attributes:
        data: The file's bytes.
        media_type: IANA media type, such as `image/png`.

    Raises:
        TypeError: The data are no bytes.
        ValueError: The media type is none.
    """

    data: bytes
    media_type: str = "image/png"

    def __post_init__(self) -> None:
        _check(self)

    def __repr__(self) -> str:
        return f"<Image of {len(self.data)} bytes, {self.media_type}>"


@dataclass(frozen=True)
class File:
    """A document, for a model that can read it.

    Attributes:
        data: The file's bytes.
        media_type: IANA media type, such as `application/pdf`, which is what most providers take.
        name: What the model calls it by, such as `report.pdf`.

    Raises:
        TypeError: The data are no bytes.
        ValueError: The media type is none.
    """

    data: bytes
    media_type: str = "application/pdf"
    name: str = "file"

    def __post_init__(self) -> None:
        _check(self)
        object.__setattr__(self, "name", sendable(self.name) or "file")

    def __repr__(self) -> str:
        return f"<File {self.name!r} of {len(self.data)} bytes, {self.media_type}>"


def _check(part: Image | File) -> None:
    kind = type(part).__name__
    if not isinstance(part.data, bytes):
        raise TypeError(f"{kind} takes the bytes of a file, as Path.read_bytes() gives them, not {part.data!r:.100}.")
    if not re.fullmatch(r"[\w.+-]+/[\w.+-]+(;[ -~]*)?", part.media_type, re.ASCII):
        raise ValueError(f"{kind}: {part.media_type!r:.100} is no media type, such as 'image/png'.")


def sendable(text: str) -> str:
    """Join halves of a character that came apart, and replace those without a partner: no request can carry them."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
