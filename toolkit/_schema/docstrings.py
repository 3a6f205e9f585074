"""Docstring -> description, parameter texts, returns, raises, examples.

docstring-parser reads the entries. It knows well-formed sections only: a line without a colon costs it the whole
docstring, and text behind a section is lost. So the sections that people write, in Google, NumPy, reST, Epytext or
Markdown style, are rewritten in Google style first, with the real parameter names to distinguish entries from text.

Whatever the text, nothing is raised, and the time is linear: each pattern is anchored to one line and has no two
neighbouring repeats that match the same character; docstring-parser (cubic in a run of open brackets) gets no types.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from docstring_parser.google import GoogleParser


_Kind = Literal["prose", "parameters", "returns", "raises", "examples", "dropped"]

_PARAMETERS = ("arg", "args", "argument", "arguments", "parameter", "parameters", "param", "params")
_QUALIFIERS = ("keyword", "other", "optional", "required", "named", "positional", "additional", "extra")
_TITLES: Mapping[str, _Kind] = {
    **dict.fromkeys((*_PARAMETERS, "kwargs"), "parameters"),
    **{f"{qualifier} {noun}": "parameters" for qualifier in _QUALIFIERS for noun in _PARAMETERS},
    **dict.fromkeys(("returns", "return", "return value", "yields", "yield"), "returns"),
    **dict.fromkeys(("raises", "raise", "exceptions", "except", "throws"), "raises"),
    **dict.fromkeys(("example", "examples"), "examples"),
    **dict.fromkeys(("attributes", "methods", "receives", "references", "see also", "todo", "warns"), "dropped"),
    **dict.fromkeys(("note", "notes", "warning", "warnings", "caution", "hint", "important", "tip"), "prose"),
}
_FIELDS: Mapping[str, _Kind] = {
    **_TITLES,
    **dict.fromkeys(("key", "keyword", "kwarg"), "parameters"),
    **dict.fromkeys(("type", "rtype", "ytype", "kwtype", "ivar", "cvar", "var", "vartype", "meta"), "dropped"),
    **dict.fromkeys(("author", "see", "seealso", "since", "version"), "dropped"),
    "exception": "raises",
}
_LISTED = ("parameters", "raises")
_MAX_TYPE_LINES = 12

# Headings: "Args:", "# Args", "**Args**"; a title above its underline; ":param x: ..." and "@param x: ...".
_HEADING = re.compile(
    r" *(?:(?P<hash>#+ )|(?P<bold>\*\*|__)|:)?(?P<title>[A-Za-z]+(?: [A-Za-z]+)?)"
    r"(?P<close> ?[:\uff1a])?(?(bold)(?P=bold)[:\uff1a]?)$"
)
_UNDERLINED = re.compile(r" *(\w+(?: \w+){0,4}) ?:?$")
_UNDERLINE = re.compile(r" *[-=~]{2,}$")
_FIELD = re.compile(r" *[:@](\w+)(?:((?: (?::[\w:]+:`|[^:])*)?):(?!`)(.*)|( [^:]+)$)")

# Entries: "x: ...", "*x (int): ...", "- `x`, `y` -- ...", "1. x [int]: ...", "x=3: ...", "x : int".
_NAME = re.compile(r"[^\W\d]\w*(?:[-.]\w+)*")
_ROLE_OR = re.compile(r":[\w:]+:`|\sor\s")
_MARKED_NAME = rf"(?::[\w:]+:`)?[\\*`~!'\"]*{_NAME.pattern}[*`'\"]*"
_DASH = r"(?:--?|[\u2010-\u2015\u2212])"
_ENTRY = re.compile(
    r"(?P<indent>\s*)(?P<bullet>(?:[-*+•]|\d+[.)])\s+)?(?!None\b)"
    rf"(?P<open>[(\[])?(?P<names>{_MARKED_NAME}(?:(?:,?\s+or\s+|,\s*|\s\|\s){_MARKED_NAME})*)(?P<dots>,\s*\.\.\.)?(?(open)[)\]])"
    rf"(?P<type>\s*\(.*?\)(?=[*`]*\s*(?:[:\uff1a]|{_DASH}\s|$))|\s*\([^():]*(?=:\s|:$)"
    r"|\s*(?:\[[^\[\]:]*\]|<[^<>:]*>|=\s*[^\s:]+)(?=:))?[*`]*"
    rf"(?P<mark>\s*(?:(?(type)::?|:(?!:|//))|\uff1a)(?:\*\*(?=\s))?|\s+{_DASH}\s|$)(?P<text>.*)"
)
_WITHOUT_COLON = re.compile(r"\s*(\w+)\s(?:\([^()]*\)\s)?(.*)")
_WRAPPED_TYPE = re.compile(rf"\s*(?:[-*+•]\s+)?{_MARKED_NAME}\s*(?:\(|\s:\s|:\s*[(\[{{])")
_BRACKETS = re.compile(r"\[[^\[\]]*\]|\([^()]*\)|\{[^{}]*\}")
_TYPE_NAME = r"[~`'\"]*[\w.-]+[`'\"]*(?: _)*"
_TYPE = re.compile(rf"{_TYPE_NAME}(?:(?:, or | or | of | and |, ?| ?\| ?){_TYPE_NAME})*(?:,? (?:optional|default.*))?")

# Entries that docstring-parser reads as they stand: below their heading, their text indented by four more, of which no
# line looks like an entry.
_TEXT_LINE = r"(?!\w+ ?(?:[:(]|- ))\S.*\n"
_WELL_FORMED = re.compile(
    rf"(?: {{4}}\w+(?: \([^():\n]*\))?: \S.*\n"
    rf"(?: {{8}}(?![A-Z]){_TEXT_LINE}(?: {{8}}{_TEXT_LINE}|\n)*|\n*))+"
)

# Lines that are not joined with their neighbours: lists, fences, tables, doctests, directives, literal blocks.
_ITEM = re.compile(r"\s*(?:[-*+•]\s|\d+[.)]\s)")
_FENCE = re.compile(r"\s*(?:```[^`]*|~~~.*)$")
_VERBATIM = re.compile(r"\s*(?:\||\+-|={2,} +=|>>>|\.\. )")
_LITERAL = re.compile(r"\s*\.\. [\w-]+::|.*::$")
_MARKUP = re.compile(r"(?:^|\n) *(?:[-*+•|=~`>.]|\d)|::|\n\n")

_NEWLINE = re.compile(r"\r\n?|[\f\v\x85\u2028\u2029]")
_CONTROL = re.compile(r"[\0-\x09\x0b-\x1f\x7f-\x9f]")
_INLINE_FIELD = re.compile(r"(?<! ) +(?=[:@](?:param|type|returns?|rtype|raises?|yields?)(?: [^:]*)?: )")


@dataclass(frozen=True, kw_only=True)
class Docstring:
    """The parts of a function's docstring."""

    description: str
    parameters: Mapping[str, str]
    returns: str = ""
    raises: Mapping[str, str]
    examples: tuple[str, ...] = ()


def parse_docstring(text: str | None, parameters: Collection[str] = ()) -> Docstring:
    """Parse a docstring in Google, NumPy, reST or Epytext style.

    Raises nothing and checks nothing: an entry for a name that is not a parameter is returned like any other. Control
    characters are left out, and halves of characters (lone surrogates) replaced, so all of it can be sent as UTF-8.

    Args:
        text: The docstring as written, with its indentation.
        parameters: The real names of the function's parameters. They distinguish a badly indented entry from prose.
    """
    known = frozenset(parameters)
    prose: list[str] = []
    returns: list[str] = []
    examples: list[str] = []
    entries: dict[str, list[str]] = {kind: [] for kind in _LISTED}
    for section in _split(_clean(text or ""), known):
        if section.kind == "prose":
            prose.append(re.sub(r"\n{3,}", "\n\n", "\n".join(section.lines).strip("\n")))
        elif section.kind == "returns":
            returns.append(_parse_returns(section))
        elif section.kind == "examples":
            examples += _split_examples(section)
        elif section.kind in _LISTED:
            rewritten, about_all = _rewrite(section, known)
            entries[section.kind] += rewritten
            prose.append(about_all)
    texts: dict[str, dict[str, str]] = {kind: {} for kind in _LISTED}
    if any(entries.values()):
        google = "".join([f"\n{kind}:\n{''.join(entries[kind])}" for kind in _LISTED if entries[kind]])
        for item in _get_parser().parse(google).meta:
            for name in item.args[1].partition(" (")[0].split(", "):
                texts[item.args[0]].setdefault(name, _fold((item.description or "").split("\n")))
    return Docstring(
        description="\n\n".join(filter(None, prose)),
        parameters=texts["parameters"],
        returns="\n".join(filter(None, returns)),
        raises=texts["raises"],
        examples=tuple(examples),
    )


@cache
def _get_parser() -> GoogleParser:
    from docstring_parser.google import GoogleParser, Section, SectionType  # needed only where there are entries

    return GoogleParser([Section(kind, kind, SectionType.MULTIPLE) for kind in _LISTED])


def _clean(text: str) -> list[str]:
    """Split a docstring into lines without margin, controls and trailing spaces."""
    if not (text.isascii() and text.replace("\n", "").isprintable()):
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        text = _CONTROL.sub("", _NEWLINE.sub("\n", text.expandtabs()))
    lines = [line.rstrip() for line in text.split("\n")]
    return _dedent(lines) if len(lines) > 1 else _INLINE_FIELD.split(lines[0].strip())


def _dedent(lines: Sequence[str]) -> list[str]:
    """Cut off the margin that all lines but the first have in common."""
    first, *rest = lines
    margin = min([_depth(line) for line in rest if line], default=0)
    return [first.strip(), *[line[margin:] for line in rest]]


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())


@dataclass(kw_only=True, slots=True)
class _Section:
    """A stretch of lines, the first of which is what follows the heading on its own line."""

    kind: _Kind
    lines: list[str]
    style: Literal["google", "numpy", "field"] = "google"
    indent: int = 0
    title: str = ""
    is_bare: bool = False  # only the place tells the heading from prose
    has_entry: bool = False
    names: Sequence[str] = ()  # of a field

    @property
    def has_text(self) -> bool:
        """True if something stands on the heading's line or on the one below."""
        return any(self.lines[:2])

    @property
    def is_flush(self) -> bool:
        """True if the text is not indented below the heading."""
        return len(self.lines) < 2 or _depth(self.lines[1]) <= self.indent


def _split(lines: Sequence[str], parameters: frozenset[str]) -> list[_Section]:
    """Split lines into sections, the first of which is the summary."""
    code = _find_fences(lines)
    current = _Section(kind="prose", lines=[])
    sections = [current]
    for number, (line, below) in enumerate(zip(lines, [*lines[1:], ""])):
        if not any(current.lines[:2]) and (not line or _UNDERLINE.match(line)):
            continue
        following = None
        if line and number not in code:
            if line[-1] in ":\uff1a" or line.lstrip()[0] in ":@#*_" or line.isalpha() or _UNDERLINE.match(below):
                following = _open_section(current, line, below, parameters)
            if not following and current.kind != "prose":
                is_indented = line[: current.indent + 1].isspace()
                entry = None if is_indented else _match_entry(current, line, parameters)
                current.has_entry |= is_indented or entry is not None
                if not is_indented and _ends_section(current, entry, line, below, parameters):
                    following = _Section(kind="prose", lines=[line])
        if following:
            current = following
            sections.append(current)
        else:
            current.lines.append(line)
    return sections


def _open_section(current: _Section, line: str, below: str, parameters: frozenset[str]) -> _Section | None:
    """Open the section whose heading a line is, unless it is part of the text around it."""
    opened = _match_heading(line, below, parameters)
    if opened is None or current.kind == opened.kind == "prose":
        return None
    if current.kind == "parameters" and opened.title in parameters:
        return None
    is_clear = not opened.is_bare and not (opened.title[:1].islower() and any(current.lines[-1:]))
    if not is_clear or (current.kind == "prose" and opened.indent and opened.style != "numpy"):
        entry = _match_entry(opened, below, parameters)
        if parameters.isdisjoint(opened.names or (entry.names if entry else ())):
            return None
    if current.kind == "prose" or opened.indent <= current.indent:
        return opened
    inner = 0 if current.is_flush else _depth(current.lines[1])
    # One level too deep, "Returns:" is a heading still, where no parameter has this name.
    is_inner = opened.indent == inner and current.kind in _LISTED and opened.title[:1].isupper()
    return opened if opened.indent < inner or is_inner else None


def _match_heading(line: str, below: str, parameters: frozenset[str]) -> _Section | None:
    """Match a heading in any style; under an unknown title or field is prose."""
    indent = _depth(line)
    if _UNDERLINE.match(below) and _depth(below) == indent:
        title = _UNDERLINED.match(line)
        kind = _TITLES.get(title[1].lower(), "prose") if title else "prose"
        if title is None or (kind == "prose" and not title[1][0].isupper()):
            return None
        return _Section(kind=kind, style="numpy", indent=indent, lines=[line if kind == "prose" else ""])
    if match := _FIELD.match(line):
        opened = _match_field(match, indent, parameters)
        if opened or match[2] is None or match[3].strip():
            return opened
    match = _HEADING.match(line)
    if match is None or match["title"].lower() not in _TITLES:
        return None
    kind = _TITLES[match["title"].lower()]
    is_bare = not (match["close"] or match["hash"] or match["bold"])
    if is_bare and kind != "parameters":
        return None
    lines = [line if kind == "prose" else ""]
    return _Section(kind=kind, indent=indent, title=match["title"], is_bare=is_bare, lines=lines)


def _match_field(match: re.Match[str], indent: int, parameters: frozenset[str]) -> _Section | None:
    """Open a reST or Epytext field, with or without its second colon."""
    word, argument, text, rest = match.groups()
    kind = _FIELDS.get(word.lower(), "prose")
    if rest is not None:
        argument, _, text = rest.strip().partition(" ") if kind in _LISTED else ("", "", rest)
    names = [name for name in _NAME.findall(argument.replace("\\", "")) if name not in ("or", "and")]
    if kind == "parameters":  # the last words of "str x, y", unless others are known
        last = [found[-1] for part in argument.replace("\\", "").split(",") if (found := _NAME.findall(part))]
        names = [name for name in names if name in parameters] or ([] if rest else last)
    names = [name for name in names if f":{name}:" not in argument]
    if kind in _LISTED and not names:  # ":raises: KeyError: ..."
        lines = ["", " " * (indent + 1) + text.strip()]
        return _Section(kind=kind, indent=indent, lines=lines) if text.strip() and rest is None else None
    first = match[0] if kind == "prose" else text.strip()
    return _Section(kind=kind, style="field", indent=indent, names=names, lines=[first])


def _ends_section(section: _Section, entry: _Entry | None, line: str, below: str, parameters: frozenset[str]) -> bool:
    """Return whether a line that is not indented, and has no heading, comes after the end of a section."""
    if entry:
        if section.kind == "parameters" and parameters.issuperset(entry.names):
            return False
        # A capital begins a sentence ("Note: ..."), hardly ever a parameter.
        is_lower = not entry.names[0][0].isupper()
        if section.is_flush and (section.kind == "raises" or section.style == "numpy" or is_lower):
            return False
    if section.style == "numpy":
        if section.kind not in _LISTED or not section.has_entry or _depth(below) > _depth(line):
            return False
    elif section.style == "field" and section.kind == "dropped":
        return True
    return not section.is_flush or not (section.lines[-1] if section.has_text else section.kind not in _LISTED)


class _Entry(NamedTuple):
    """The parts of a line that begins an entry."""

    names: list[str]
    depth: int
    has_bullet: bool
    type: str
    mark: str
    text: str


def _match_entry(section: _Section, line: str, parameters: frozenset[str]) -> _Entry | None:
    """Match a line that can begin an entry of the section."""
    match = _ENTRY.match(line) if section.kind in _LISTED and section.style != "field" else None
    if match is None:
        return None
    indent, bullet, _, words, dots, type_, mark, text = match.groups()
    names = [words] if words.isidentifier() else _NAME.findall(_ROLE_OR.sub(",", words))
    if dots and parameters.isdisjoint(names):  # "sample1, sample2, ..." are `*samples`
        alike = [name for name in parameters if name.startswith(names[0].rstrip("0123456789"))]
        names = alike if len(alike) == 1 else names
    entry = _Entry(names, len(indent), bool(bullet), type_ or "", mark, text.strip())
    if parameters.issuperset(names):
        return entry
    if not mark and section.style != "numpy" and section.kind != "raises":
        return None
    # A list inside a text is not a list of entries, unless the section begins with a list.
    begins_with_list = bool(_ITEM.match(section.lines[1] if section.has_text else line))
    return entry if entry.has_bullet == begins_with_list else None


def _rewrite(section: _Section, parameters: frozenset[str]) -> tuple[list[str], str]:
    """Rewrite a section's entries in Google style, and fold the text that is about all parameters."""
    if section.style == "field":
        return [_write_entry(section.names, section.lines)], ""
    body = "\n".join([*section.lines[1:], ""])
    if section.style == "google" and not section.indent and _WELL_FORMED.fullmatch(body):
        return [body], ""
    before, entries = _split_entries(section, parameters)
    rewritten = [
        _write_entry(entry.names, ["" if _is_type(section, entry, texts) else entry.text, *texts])
        for entry, texts in entries
    ]
    is_about_all = section.style == "numpy" or (entries and section.kind == "parameters")
    return rewritten, _fold(_dedent(["", *before])) if is_about_all and any(before) else ""


def _split_entries(section: _Section, parameters: frozenset[str]) -> tuple[list[str], list[tuple[_Entry, list[str]]]]:
    """Split a section's lines into those before its entries, and the entries with the lines below each."""
    lines = _join_types(section.lines[1:])
    matches = [_match_entry(section, line, parameters) if line else None for line in lines]
    level = next((entry.depth for entry in matches if entry), _depth(lines[0]) if lines else 0)
    seen = (entry.names for entry in matches if entry and entry.depth <= level)
    missing = parameters.difference(*seen) if section.kind == "parameters" else frozenset()
    before: list[str] = []
    entries: list[tuple[_Entry, list[str]]] = []
    above = ""
    for line, entry in zip(lines, matches):
        if entry is None and missing and _depth(line) == level and (not above or above[-1] in ".:;!?)"):
            match = _WITHOUT_COLON.match(line)
            if match and match[1] in missing:
                entry = _Entry([match[1]], level, has_bullet=False, type="?", mark=" ", text=match[2])
        # A deeper entry is text (the keys of a dict), unless it is all there is about a parameter.
        if entry and (entry.depth <= level or (entry.mark and missing.issuperset(entry.names))):
            entries.append((entry, []))
        else:
            (entries[-1][1] if entries else before).append(line)
        above = line
    return before, entries


def _write_entry(names: Sequence[str], lines: Sequence[str]) -> str:
    # docstring-parser takes the margin from all lines but the first, which is empty therefore.
    text = "".join(f"        {line}\n" if line else "\n" for line in _dedent(lines))
    return f"    {', '.join(names)}:\n\n{text}"


def _join_types(lines: Sequence[str]) -> list[str]:
    """Join the lines of each type that has an open bracket."""
    joined: list[str] = []
    rest = list(reversed(lines))
    while rest:
        line = rest.pop()
        taken: list[str] = []
        if _count_open(line) > 0 and _WRAPPED_TYPE.match(line):
            whole = line
            while rest and len(taken) < _MAX_TYPE_LINES and _count_open(whole) > 0:
                taken.append(rest.pop())
                whole = f"{whole.rstrip(chr(92))} {taken[-1].strip()}"
            if _count_open(whole) <= 0:
                line, taken = whole, []
        joined.append(line)
        rest += reversed(taken)
    return joined


def _count_open(line: str) -> int:
    """Count the brackets that are left open."""
    return sum(map(line.count, "([{")) - sum(map(line.count, ")]}"))


def _is_type(section: _Section, entry: _Entry, lines: Sequence[str]) -> bool:
    """Return whether the colon is followed by a type, as in NumPy style, and the text is below."""
    is_numpy, has_lines = section.style == "numpy", any(lines)
    if not entry.text or entry.type or section.kind != "parameters" or not (is_numpy or has_lines):
        return False
    if _reads_as_type(entry.text):
        return is_numpy or entry.mark[:1] == " " or lines[0].lstrip()[:1].isupper()
    return is_numpy and has_lines and (entry.mark[:1] == " " or not entry.text[:1].isupper())


def _reads_as_type(text: str) -> bool:
    """Return whether a text consists of names joined by "or", "of", commas and bars; brackets may hold anything."""
    for _ in range(5):  # brackets in brackets
        text = _BRACKETS.sub("_", text)
    return bool(_TYPE.fullmatch(text))


def _parse_returns(section: _Section) -> str:
    """Fold the text about the result, without its type where it stands alone."""
    first, *rest = section.lines if section.lines[0] else [*section.lines[1:], ""]
    margin = _depth(first)
    deeper = [line for line in rest if _depth(line) > margin]
    if section.style == "numpy" and deeper:
        if len(deeper) < len(list(filter(None, rest))):  # several results
            rest = [line if _depth(line) > margin or not line else f"- {line}:" for line in (first, *rest)]
        return _fold(_dedent(["", *rest]))
    kind, colon, text = first.strip().partition(": ")  # "True: if ..." begins with a value
    is_typed = colon and kind not in ("True", "False", "None") and _reads_as_type(kind)
    return _fold(_dedent([text if is_typed else first.strip(), *rest]))


def _split_examples(section: _Section) -> Iterator[str]:
    """Split examples: each doctest with the text before it, or else all as one."""
    example: list[str] = []
    text = "\n".join(_dedent(section.lines)).strip("\n")
    for paragraph in [text] if "```" in text else re.split(r"\n{2,}", text):
        example.append(paragraph)
        if ">>>" in paragraph:
            yield "\n\n".join(example)
            example = []
    if any(example):
        yield "\n\n".join(example)


def _fold(lines: Sequence[str]) -> str:
    """Join the wrapped lines of each paragraph and each list item; leave code and tables as they are."""
    text = "\n".join(lines).strip()
    if not _MARKUP.search(text):
        return " ".join(text.split())
    fenced = _find_fences(lines)
    floor = len(text)  # the least depth of the literal block
    is_verbatim = False
    joint = ""
    parts: list[str] = []
    for number, line in enumerate(lines):
        if not line:
            joint, is_verbatim = joint and "\n\n", False
            continue
        is_literal = _depth(line) >= floor
        is_verbatim = not is_literal and (is_verbatim or bool(_VERBATIM.match(line)))
        if not is_literal:
            floor = len(text)
            if "::" in line and _LITERAL.match(line):  # the first line's own depth is unknown
                floor = _depth(line) + 1 if number else next((_depth(line) for line in lines[1:] if line), 0)
        is_code = is_literal or is_verbatim or number in fenced or bool(_FENCE.match(line))
        if is_code or _ITEM.match(line):
            words = line.lstrip() if is_code else " ".join(line.split())
            parts.append(joint.replace(" ", "\n") + " " * _depth(line) + words)
        else:
            parts.append(joint + " ".join(line.split()))
        joint = "\n" if is_code else " "
    return "".join(parts)


def _find_fences(lines: Sequence[str]) -> set[int]:
    """Number the lines inside Markdown fences, with the closing one; a fence that is never closed does not count."""
    fences = [number for number, line in enumerate(lines) if ("```" in line or "~~~" in line) and _FENCE.match(line)]
    return {number for start, end in zip(fences[::2], fences[1::2]) for number in range(start + 1, end + 1)}
