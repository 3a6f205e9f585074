"""A file's bytes -> text, and back, so that what nobody changed stays as it was: encoding, mark, line ends."""

from __future__ import annotations

import codecs
import errno
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

# Byte order marks; those of UTF-32 begin like those of UTF-16.
MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


class NotText(OSError):
    """A file holds something else than text, or text whose encoding nothing tells."""

    def __init__(self, why: str) -> None:
        super().__init__(errno.EILSEQ, why)


@dataclass(frozen=True)
class Form:
    """How a file writes its text.

    Attributes:
        mark: Its byte order mark, which is not part of the text.
        has_crlf: Whether every line ends as on Windows.
    """

    encoding: str = "utf-8"
    mark: bytes = b""
    has_crlf: bool = False

    def encoded(self, text: str) -> bytes:
        """Write a text as it is."""
        return self.mark + text.encode(self.encoding)

    def adapted(self, text: str) -> str:
        """Make a text's line ends the file's own, where it has none but plain ones."""
        return text.replace("\n", "\r\n") if self.has_crlf and "\r\n" not in text else text


def decoded(data: bytes, *, is_cut: bool = False) -> tuple[str, Form]:
    """Read a text, and how it is written: UTF-8, or what a byte order mark says.

    Args:
        data: The file's bytes.
        is_cut: Whether the bytes may end within a character, or a line end; such a character is left out.

    Raises:
        NotText: It is none.
    """
    mark, encoding = _marked(data)
    decoder = codecs.getincrementaldecoder(encoding)()
    text = _text(decoder, data[len(mark) :], is_last=not is_cut)
    return text, Form(encoding, mark, _has_crlf(text.removesuffix("\r") if is_cut else text))


def line_blocks(pieces: Iterable[bytes]) -> Iterator[list[str]]:
    """Read the lines of a text as `lines_of` does, block by block, and keep no more than a piece and a line.

    Raises:
        NotText: It is none.
    """
    unfinished: list[str] = []
    for text in _texts(pieces):
        first, *others = text.split("\n")
        unfinished.append(first)
        if others:
            *whole, last = "".join(unfinished), *others
            unfinished = [last]
            yield [line.removesuffix("\r") for line in whole]
    if any(unfinished):
        yield ["".join(unfinished)]


def lines_of(text: str) -> list[str]:
    """Part a text as editors count lines: what follows the last line end is a line only if there is something."""
    lines = text.replace("\r\n", "\n").split("\n")
    return lines if lines[-1] else lines[:-1]


def _texts(pieces: Iterable[bytes]) -> Iterator[str]:
    waiting = iter(pieces)
    first = next(waiting, b"")
    mark, encoding = _marked(first)
    decoder = codecs.getincrementaldecoder(encoding)()
    yield _text(decoder, first[len(mark) :], is_last=False)
    for piece in waiting:
        yield _text(decoder, piece, is_last=False)
    yield _text(decoder, b"", is_last=True)


def _marked(data: bytes) -> tuple[bytes, str]:
    return next(((mark, name) for mark, name in MARKS if data.startswith(mark)), (b"", "utf-8"))


def _text(decoder: codecs.IncrementalDecoder, data: bytes, *, is_last: bool) -> str:
    try:
        text = decoder.decode(data, final=is_last)
    except UnicodeDecodeError as error:
        raise NotText("it is binary, or text that is not UTF-8") from error
    if "\0" in text:
        raise NotText("it is binary")
    return text


def _has_crlf(text: str) -> bool:
    whole = text.count("\r\n")
    return whole > 0 and whole == text.count("\n") == text.count("\r")
