"""Reading files and decoding their text, and the errors and names that a model sees.

A decoded text can be encoded again with the same encoding, byte order mark and line ends.
"""

from __future__ import annotations

import codecs
import errno
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import BinaryIO

from toolkit._guards.paths import OutsideError
from toolkit.errors import Failed

BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
BLOCK = 65_536  # characters in which line ends are counted at once
_LINE = re.compile(r"[^\n]+\n?|\n")


class TooLarge(OSError):
    """A file is larger than the limit."""

    def __init__(self, size: int, max_bytes: int) -> None:
        super().__init__(errno.EFBIG, f"File too large ({size} bytes, max {max_bytes}).")


class NotText(OSError):
    """A file is not text, or its encoding is unknown."""

    def __init__(self, reason: str) -> None:
        super().__init__(errno.EILSEQ, reason)


@dataclass(frozen=True)
class TextFormat:
    """The encoding and line ends of a text file."""

    encoding: str = "utf-8"
    mark: bytes = b""  # a byte order mark, which is not part of the text
    has_crlf: bool = False  # in every line

    def encode(self, text: str) -> bytes:
        """Encode a text, with the byte order mark."""
        return self.mark + text.encode(self.encoding)

    def adapt_line_ends(self, text: str) -> str:
        """Convert the line ends of a text to those of the file, unless it has CR LF already."""
        return text.replace("\n", "\r\n") if self.has_crlf and "\r\n" not in text else text


def decode_file(data: bytes, *, is_cut: bool = False, errors: str = "strict") -> tuple[str, TextFormat]:
    """Decode a file's bytes by their byte order mark or as UTF-8, and return the text and its format.

    With `is_cut`, they may end within a character or line end. Such a character is left out.

    Raises:
        NotText: The bytes are not text.
    """
    mark, encoding = next((each for each in BYTE_ORDER_MARKS if data.startswith(each[0])), (b"", "utf-8"))
    try:
        text = codecs.getincrementaldecoder(encoding)(errors).decode(data[len(mark) :], final=not is_cut)
    except UnicodeDecodeError as error:
        raise NotText("it is binary, or text that is not UTF-8") from error
    if "\0" in text:
        raise NotText("it is binary")
    whole = text.removesuffix("\r") if is_cut else text
    has_crlf = 0 < whole.count("\r\n") == whole.count("\n") == whole.count("\r")
    return text, TextFormat(encoding, mark, has_crlf)


def iter_lines(text: str, start: int = 0) -> Iterator[str]:
    """Yield the lines of a text without the first `start` lines. As in editors, no empty line comes last."""
    for line in _LINE.finditer(text, _find_line(text, start)):
        yield line[0].removesuffix("\n").removesuffix("\r")


def count_lines(text: str) -> int:
    """Count the lines that `iter_lines` yields."""
    return text.count("\n") + (text != "" and not text.endswith("\n"))


def _find_line(text: str, number: int) -> int:
    """Return the position of a line, counted from 0. Count in blocks, since a text may have millions of lines."""
    position = 0
    while position < len(text) and (found := text.count("\n", position, position + BLOCK)) < number:
        number -= found
        position += BLOCK
    for _ in range(number):
        position = text.find("\n", position) + 1 or len(text)
    return position


def read_bytes(file: BinaryIO, max_bytes: int) -> bytes:
    """Read the rest of an open file. The file may grow meanwhile, or report no size.

    Raises:
        TooLarge: The file has more bytes.
    """
    size = os.fstat(file.fileno()).st_size
    if size > max_bytes:
        raise TooLarge(size, max_bytes)
    data = file.read(size + 1)
    if len(data) > size:
        data += file.read(max_bytes + 1 - len(data))
    if len(data) > max_bytes:
        raise TooLarge(len(data), max_bytes)
    return data


@contextmanager
def report_errors(
    label: str, path: str, outside: Mapping[str, str], missing: str = "", large: str = ""
) -> Iterator[None]:
    """Convert errors of the system to errors for the model, whose messages begin with a label.

    `outside` has the messages for a path that leads out of the root, by `OutsideError.way`; `missing` is the one for a
    path that does not exist; `large` is added to the one for a file that is too large.
    """
    try:
        yield
    except OutsideError as error:
        raise Failed(outside[error.way].format(path)) from error
    except TooLarge as error:
        raise Failed(f"{_describe_error(error)}{large}") from error
    except OSError as error:
        is_missing = missing and isinstance(error, (FileNotFoundError, NotADirectoryError))
        raise Failed(missing if is_missing else f"{label}: {_describe_error(error)}") from error


def _describe_error(error: OSError) -> str:
    """Describe an error without the path, which may reveal where the workspace is."""
    return error.strerror or type(error).__name__


def escape_name(name: str) -> str:
    """Return a file's name or path on one line, with invisible and non-UTF-8 characters escaped."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in name)


def get_name(path: str) -> str:
    """Return the last name of a path."""
    return escape_name(PurePosixPath(path).name or ".")
