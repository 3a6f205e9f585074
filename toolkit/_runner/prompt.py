"""Prompts: text, and lists of texts, images, tables and files, as messages of the user."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, TypeAlias

from toolkit._guards.media import detect_image
from toolkit._messages import File, Image, UserMessage
from toolkit._tools.library_values import is_table, to_image, write_table

# The prompt of a user: text; or one or several texts, images and files, where a `Path` stands for the content of its
# file. Images of PIL, figures of Matplotlib and Plotly, and tables of pandas and polars have no common type; tables are
# sent as text.
UserInput: TypeAlias = str | UserMessage | Path | Image | File | Sequence[Any]

# Bytes of an image or a PDF; OpenAI takes 50 MB in all files of a request.
MAX_MEDIA = 20 * 2**20
# Bytes of a file of text: some 250,000 tokens.
MAX_TEXT = 2**20
NOTHING_TO_ANSWER = "There is nothing to answer: pass a prompt, or messages whose last one is not the model's own."


def make_user_message(given: UserInput) -> UserMessage:
    """Make a message of what a user sends. A file or image alone is a list of one.

    The texts of a list are joined by line breaks. The attachments follow.

    Raises:
        TypeError: A part is of another type.
        ValueError: A file or table is too large, or a file neither an image, a PDF nor text; or the list is empty.
        OSError: A file cannot be read.
    """
    if isinstance(given, str):
        return UserMessage(given)
    if isinstance(given, UserMessage):
        return given

    parts = [_read_part(part) for part in (given if isinstance(given, (list, tuple)) else [given])]
    if not parts:
        raise ValueError("The prompt is an empty list: there is nothing to answer.")
    return UserMessage(
        "\n".join(part for part in parts if isinstance(part, str)),
        tuple(part for part in parts if isinstance(part, Image)),
        tuple(part for part in parts if isinstance(part, File)),
    )


def _read_part(part: Any) -> str | Image | File:
    if isinstance(part, Path):
        return read_file(part)
    if isinstance(part, dict):
        raise TypeError(f"A prompt cannot hold {part!r:.200}. Pass the conversation so far as messages=[...].")
    if is_table(part):
        text = write_table(part)
        if len(text) > MAX_TEXT:
            raise ValueError(f"The prompt's table is longer than {MAX_TEXT:,} characters as CSV: send a part of it.")
        return text

    image = to_image(part)
    if isinstance(image, (str, Image, File)):
        return image
    raise TypeError(
        f"A prompt cannot hold {part!r:.200} of type {type(part).__name__}. Its parts are texts, pathlib.Path, "
        "Image(data, media_type), File(data, media_type, name), images of PIL, figures of Matplotlib or Plotly, and "
        "tables of pandas or polars."
    )


def read_file(path: Path, stream: IO[bytes] | None = None) -> str | Image | File:
    """Read an image, a PDF or a text file, or an open stream of that name.

    Raises:
        ValueError: It is too large, or of another type.
        OSError: It cannot be read.
    """
    if stream is None and not path.is_file():
        raise FileNotFoundError(f"{str(path)!r} is not a file; the current directory is {Path.cwd()}.")

    with stream or path.open("rb") as file:
        data = file.read(MAX_MEDIA + 1)
    if len(data) > MAX_MEDIA:
        raise ValueError(f"The prompt's file {path} is larger than {MAX_MEDIA // 2**20} MiB.")
    if media_type := detect_image(data):
        return Image(data, media_type)
    if data.startswith(b"%PDF-"):
        return File(data, "application/pdf", path.name)
    if len(data) > MAX_TEXT:
        raise ValueError(f"The prompt's file {path} is text of more than {MAX_TEXT // 2**20} MiB.")

    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"

    if "\0" in text:
        raise ValueError(
            f"The prompt's file {path} is neither an image (PNG, JPEG, GIF, WebP), a PDF, nor text in UTF-8. "
            "File(data, media_type, name) sends another type, where the model's server takes it."
        )
    return f"[file {path.name}]\n{text}"
