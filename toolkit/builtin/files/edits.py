"""One text in place of another, where it occurs exactly once, however lines end."""

from __future__ import annotations

from toolkit.builtin.files.texts import lines_of
from toolkit.errors import Failed

TIP = "Tip: Use read_file to see the current file contents, then copy the exact text you want to replace."
EDIT_ADVICE = "Make sure old_text matches exactly, including whitespace and indentation."


def edited(text: str, old: str, new: str, path: str) -> str:
    r"""Replace the one place, whether its lines end in `\n` or in `\r\n`; what is not replaced keeps its line ends.

    New lines end as the line does that the place begins in.

    Raises:
        Failed: There is no such place, or there are several; the message says what to do.
    """
    plain, wanted = _plain(text), _plain(old)
    count = plain.count(wanted)
    if count == 0:
        raise Failed(f"old_text not found in {path}.\n\n{_hint(text, old)}")
    if count > 1:
        raise Failed(
            f"old_text matches {count} locations in {path}. Include more surrounding context to make the match unique."
        )
    place = plain.index(wanted)
    start, end = _place(text, place), _place(text, place + len(wanted))
    return text[:start] + (_plain(new).replace("\n", "\r\n") if _is_crlf(text, start) else new) + text[end:]


def summary(old: str, new: str, path: str) -> str:
    """Say what was replaced."""
    return f"Replaced {_counted(old)} with {_counted(new)} in {path}"


def _plain(text: str) -> str:
    return text.replace("\r\n", "\n")


def _place(text: str, plain: int) -> int:
    """Tell where a place in a text with plain line ends stands in the text itself."""
    found, place = plain, -1
    while place != found:
        place, found = found, plain + text.count("\r\n", 0, found)
    return place + (text[place - 1 : place + 1] == "\r\n")


def _is_crlf(text: str, place: int) -> bool:
    """Tell how the line ends that a place stands in; the last one as the line before it."""
    end = text.find("\n", place)
    return text.endswith("\r\n", 0, (end if end >= 0 else text.rfind("\n")) + 1)


def _counted(text: str) -> str:
    lines = len(lines_of(text))
    return f"{lines} line{'' if lines == 1 else 's'}"


def _hint(text: str, old: str) -> str:
    """Show the lines that begin as the wanted text does, its white space aside, and one more."""
    wanted = lines_of(old.strip())
    lines = lines_of(text)
    start = next((place for place, line in enumerate(lines) if wanted and wanted[0].strip() in line), None)
    if start is None:
        return TIP
    similar = "\n".join(lines[start : start + len(wanted) + 1])
    return f"Did you mean:\n```\n{similar}\n```\n{EDIT_ADVICE}"
