"""A file's bytes -> text, and back, so that what nobody changed stays as it was: encoding, mark, line ends.

What a file holds, piece by piece, and no more than is wanted.

Names and reasons, as a model reads them.
"""

from __future__ import annotations

import codecs
import errno
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import BinaryIO

from toolkit._guards.paths import OutsideError
from toolkit.errors import Failed

# Bytes.
PIECE = 1024 * 1024


class TooLarge(OSError):
    """A file holds more than is read."""

    def __init__(self, size: int, most: int) -> None:
        super().__init__(errno.EFBIG, f"File too large ({size} bytes, max {most}).")


def read_pieces(file: BinaryIO, size: int, max_bytes: int) -> Iterator[bytes]:
    """Give what an open file holds, from where it stands.

    Args:
        file: The file.
        size: Its size, as far as the system knows it: a file may grow while it is read, or have no size.
        max_bytes: Bytes that are read at most.

    Raises:
        TooLarge: There is more.
    """
    if size > max_bytes:
        raise TooLarge(size, max_bytes)
    taken = 0
    while piece := file.read(PIECE):
        taken += len(piece)
        if taken > max_bytes:
            raise TooLarge(taken, max_bytes)
        yield piece


def escape_name(name: str) -> str:
    """Write a file's name, or path, on one line: what cannot be seen, or is no UTF-8, as an escape."""
    if name.isprintable():
        return name
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in name)


def get_name(path: str) -> str:
    """Take the last name of a path."""
    return escape_name(PurePosixPath(path).name or ".")


@contextmanager
def report_errors(
    what: str, path: str, outside: Mapping[str, str], missing: str = "", large: str = ""
) -> Iterator[None]:
    """Tell the model what went wrong.

    Args:
        what: The work that failed.
        path: As the model gave it.
        outside: What is said of a path that leads out, by how it does; `{}` is the path.
        missing: What is said where nothing is there; else the system's reason, as of all the rest.
        large: What is said besides where a file is too large.
    """
    try:
        yield
    except OutsideError as error:
        raise Failed(outside[error.how].format(path)) from error
    except TooLarge as error:
        raise Failed(f"{_describe_error(error)}{large}") from error
    except OSError as error:
        is_missing = missing and isinstance(error, (FileNotFoundError, NotADirectoryError))
        raise Failed(missing if is_missing else f"{what}: {_describe_error(error)}") from error


def _describe_error(error: OSError) -> str:
    """Say why something failed, without the path: it may tell where the workspace is."""
    return error.strerror or type(error).__name__


# Byte order marks; those of UTF-32 begin like those of UTF-16.
BYTE_ORDER_MARKS = (
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
class TextFormat:
    """How a file writes its text.

    Attributes:
        mark: Its byte order mark, which is not part of the text.
        has_crlf: Whether every line ends as on Windows.
    """

    encoding: str = "utf-8"
    mark: bytes = b""
    has_crlf: bool = False

    def encode(self, text: str) -> bytes:
        """Write a text as it is."""
        return self.mark + text.encode(self.encoding)

    def adapt_line_ends(self, text: str) -> str:
        """Make a text's line ends the file's own, where it has none but plain ones."""
        return text.replace("\n", "\r\n") if self.has_crlf and "\r\n" not in text else text


def decode_file(data: bytes, *, is_cut: bool = False) -> tuple[str, TextFormat]:
    """Read a text, and how it is written: UTF-8, or what a byte order mark says.

    Args:
        data: The file's bytes.
        is_cut: Whether the bytes may end within a character, or a line end; such a character is left out.

    Raises:
        NotText: It is none.
    """
    mark, encoding = _detect_mark(data)
    decoder = codecs.getincrementaldecoder(encoding)()
    text = _decode_piece(decoder, data[len(mark) :], is_last=not is_cut)
    return text, TextFormat(encoding, mark, _is_all_crlf(text.removesuffix("\r") if is_cut else text))


def line_blocks(pieces: Iterable[bytes]) -> Iterator[list[str]]:
    """Read the lines of a text as `lines_of` does, block by block, and keep no more than a piece and a line.

    Raises:
        NotText: It is none.
    """
    unfinished: list[str] = []
    for text in _decode_pieces(pieces):
        first, *others = text.split("\n")
        unfinished.append(first)
        if others:
            *whole, last = "".join(unfinished), *others
            unfinished = [last]
            yield [line.removesuffix("\r") for line in whole]
    if any(unfinished):
        yield ["".join(unfinished)]


def split_lines(text: str) -> list[str]:
    """Part a text as editors count lines: what follows the last line end is a line only if there is something."""
    lines = text.replace("\r\n", "\n").split("\n")
    return lines if lines[-1] else lines[:-1]


def _decode_pieces(pieces: Iterable[bytes]) -> Iterator[str]:
    waiting = iter(pieces)
    first = next(waiting, b"")
    mark, encoding = _detect_mark(first)
    decoder = codecs.getincrementaldecoder(encoding)()
    yield _decode_piece(decoder, first[len(mark) :], is_last=False)
    for piece in waiting:
        yield _decode_piece(decoder, piece, is_last=False)
    yield _decode_piece(decoder, b"", is_last=True)


def _detect_mark(data: bytes) -> tuple[bytes, str]:
    return next(((mark, name) for mark, name in BYTE_ORDER_MARKS if data.startswith(mark)), (b"", "utf-8"))


def _decode_piece(decoder: codecs.IncrementalDecoder, data: bytes, *, is_last: bool) -> str:
    try:
        text = decoder.decode(data, final=is_last)
    except UnicodeDecodeError as error:
        raise NotText("it is binary, or text that is not UTF-8") from error
    if "\0" in text:
        raise NotText("it is binary")
    return text


def _is_all_crlf(text: str) -> bool:
    whole = text.count("\r\n")
    return whole > 0 and whole == text.count("\n") == text.count("\r")
