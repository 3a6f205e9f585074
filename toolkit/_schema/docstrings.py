"""Docstring -> description, parameter texts, returns, raises, examples.

How it works: the lines are cut into prose and sections, the sections into entries, and each entry's lines are joined to
paragraphs. Whatever the text, nothing is raised, the time is linear, and what is returned can be sent as UTF-8.

The lines of a text -> paragraphs, with lists, code and tables left as they are.

A docstring's line -> the section that it opens, in Google, NumPy, reST and Epytext style.

The lines of a section -> its entries: the names and the text of each.

Keep each regular expression anchored to one line, without two neighbouring repeats that can match the same character.

A docstring's lines -> prose and sections, in Google, NumPy, reST and Epytext style.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

ITEM = re.compile(r"\s*(?:[-*+•]\s|\d+[.)]\s)")
_FENCE = re.compile(r"\s*(?:```[^`]*|~~~.*)$")
_DRAWN = re.compile(r"\s*(?:\||\+-|={2,} +=|>>>|\.\. )")
_STRUCTURE = re.compile(r"(?:^|\n) *(?:[-*+•|=~`>.]|\d)|::|\n\n")  # what may be a list, code, a table or a paragraph
_LITERAL = re.compile(r"\s*\.\. [\w-]+::|.*::$")


def depth(line: str) -> int:
    """Count the blanks that a line begins with."""
    return len(line) - len(line.lstrip())


def dedented(lines: Sequence[str]) -> list[str]:
    """Cut off the margin that all lines but the first have in common."""
    first, *rest = lines
    margin = min([len(line) - len(line.lstrip()) for line in rest if line], default=0)
    return [first.strip(), *[line[margin:] for line in rest]]


def fenced(lines: Sequence[str]) -> frozenset[int]:
    """Number the lines inside Markdown fences, the closing one included; a fence that is never closed is none."""
    marked = [number for number, line in enumerate(lines) if "```" in line or "~~~" in line]
    fences = [number for number in marked if _FENCE.match(lines[number])]
    pairs = zip(fences[::2], fences[1::2], strict=False)
    return frozenset(number for start, end in pairs for number in range(start + 1, end + 1))


def folded(lines: Sequence[str]) -> str:
    """Join the wrapped lines of each paragraph and each list item."""
    text = "\n".join(lines).strip()
    if not _STRUCTURE.search(text):
        return " ".join(text.split())
    return "".join(_joined(dedented(lines)))


def _joined(lines: Sequence[str]) -> Iterator[str]:
    """Give lines, and between them what parts or joins them."""
    code = fenced(lines).union(_drawn(lines))
    joint = ""
    for number, line in enumerate(lines):
        if not line:
            joint = joint and "\n\n"
            continue
        is_code = number in code or bool(_FENCE.match(line))
        words = line.lstrip() if is_code else " ".join(line.split())
        if is_code or ITEM.match(line):
            yield joint.replace(" ", "\n") + " " * depth(line) + words
        else:
            yield joint + words
        joint = "\n" if is_code else " "


def _drawn(lines: Sequence[str]) -> Iterator[int]:
    """Number the lines of literal blocks, directives, doctests and tables."""
    floor: int | None = None  # the least depth of the literal block
    is_drawn = False
    for number, line in enumerate(lines):
        if floor is not None and (not line or depth(line) >= floor):
            yield number
            continue
        is_drawn = bool(line) and (is_drawn or bool(_DRAWN.match(line)))
        if is_drawn:
            yield number
        floor = _floor(lines, number) if "::" in line and _LITERAL.match(line) else None


def _floor(lines: Sequence[str], number: int) -> int:
    """Tell the least depth of the literal block that a line announces; the first line's own depth is unknown."""
    return depth(lines[number]) + 1 if number else next((depth(line) for line in lines[1:] if line), 0)


Kind = Literal["prose", "parameters", "returns", "raises", "examples", "dropped"]

_ARGUMENTS = ("arg", "args", "argument", "arguments", "parameter", "parameters", "param", "params")
_QUALIFIERS = ("keyword", "other", "optional", "required", "named", "positional", "additional", "extra")
_TITLES: Mapping[str, Kind] = {
    **dict.fromkeys((*_ARGUMENTS, "kwargs"), "parameters"),
    **{f"{qualifier} {noun}": "parameters" for qualifier in _QUALIFIERS for noun in _ARGUMENTS},
    **dict.fromkeys(("returns", "return", "return value", "yields", "yield"), "returns"),
    **dict.fromkeys(("raises", "raise", "exceptions", "except", "throws"), "raises"),
    **dict.fromkeys(("example", "examples"), "examples"),
    **dict.fromkeys(("attributes", "methods", "receives", "references", "see also", "todo", "warns"), "dropped"),
    **dict.fromkeys(("note", "notes", "warning", "warnings", "caution", "hint", "important", "tip"), "prose"),
}
_FIELDS: Mapping[str, Kind] = {
    **dict.fromkeys((*_ARGUMENTS, "key", "keyword", "kwarg"), "parameters"),
    **dict.fromkeys(("return", "returns", "yield", "yields"), "returns"),
    **dict.fromkeys(("raise", "raises", "except", "exception", "throws"), "raises"),
    **dict.fromkeys(("example", "examples"), "examples"),
    **dict.fromkeys(("type", "rtype", "ytype", "kwtype", "ivar", "cvar", "var", "vartype", "meta"), "dropped"),
    **dict.fromkeys(("author", "references", "see", "seealso", "since", "todo", "version"), "dropped"),
}

LISTED = frozenset(("parameters", "raises"))

NAME = re.compile(r"[^\W\d]\w*(?:[-.]\w+)*")
_RULES = ("-", "=", "~")
_BEGINS, _ENDS = ":@#*_", ":\uff1a-=~"
_HEADING = re.compile(
    r" *(?:(?P<hash>#+ )|(?P<bold>\*\*|__)|:)?(?P<title>[A-Za-z]+(?: [A-Za-z]+)?)"
    r"(?P<close> ?[:\uff1a])?(?(bold)(?P=bold)[:\uff1a]?)$"
)
_UNDERLINED = re.compile(r" *(\w+(?: \w+){0,4}) ?:?$")
UNDERLINE = re.compile(r" *[-=~]{2,}$")
_FIELD_MARK = re.compile(r" *[:@](\w+)(?:((?: (?::[\w:]+:`|[^:])*)?):(?!`)(.*)|( [^:]+)$)")
_ROLE = re.compile(r":[\w:]+:")


@dataclass(kw_only=True, slots=True)
class Section:
    """A stretch of lines, the first of which is what follows the heading on its own line."""

    kind: Kind
    style: Literal["google", "numpy", "field"] = "google"
    indent: int = 0
    title: str = ""
    is_bare: bool = False  # only the place tells the heading from prose
    names: tuple[str, ...] = ()
    lines: list[str]

    @property
    def has_text(self) -> bool:
        """Whether something stands on the heading's line or on the one below."""
        return any(self.lines[:2])

    @property
    def is_flush(self) -> bool:
        """Whether the text is not indented below the heading."""
        return len(self.lines) < 2 or depth(self.lines[1]) <= self.indent


def signs(lines: Iterable[str]) -> frozenset[str]:
    """Choose the lines that can be headings or underlines: a quick look at most lines, to read few of them."""
    return frozenset(
        [line for line in lines if line and (line[-1] in _ENDS or line.lstrip()[0] in _BEGINS or line.isalpha())]
    )


def heading(line: str, below: str, parameters: frozenset[str]) -> Section | None:
    """Read a line, and the one below it, as the beginning of a section."""
    if below.lstrip().startswith(_RULES) and UNDERLINE.match(below) and depth(below) == depth(line):
        return _underlined(line)
    if match := _FIELD_MARK.match(line):
        return _field(match, line, parameters)
    return _titled(line)


def _underlined(line: str) -> Section | None:
    """Read the title of a NumPy section; an unknown one is prose."""
    match = _UNDERLINED.match(line)
    kind = _TITLES.get(match[1].lower(), "prose") if match else "prose"
    if match is None or (kind == "prose" and not match[1][0].isupper()):
        return None
    return Section(kind=kind, style="numpy", indent=depth(line), lines=[line if kind == "prose" else ""])


def _titled(line: str) -> Section | None:
    """Read the title of a Google section, or of one in Markdown."""
    match = _HEADING.match(line)
    kind = _TITLES.get(match["title"].lower()) if match else None
    if match is None or kind is None:
        return None
    is_bare = not (match["close"] or match["hash"] or match["bold"])
    if is_bare and kind != "parameters":
        return None
    first = line if kind == "prose" else ""
    return Section(kind=kind, indent=depth(line), title=match["title"], is_bare=is_bare, lines=[first])


def _field(match: re.Match[str], line: str, parameters: frozenset[str]) -> Section | None:
    """Read a reST or Epytext field, with or without its second colon; an unknown one is prose."""
    word, argument, text, uncut = match.groups()
    kind = _FIELDS.get(word.lower(), "prose")
    if uncut is not None:
        argument, _, text = uncut.strip().partition(" ") if kind in LISTED else ("", "", uncut)
    names = _names(_ROLE.sub("", argument.replace("\\", "")), kind, parameters)
    if uncut is not None and kind == "parameters" and parameters.isdisjoint(names):
        return None
    if kind in LISTED and not names:
        return _unnamed(line, kind, text)
    first = line if kind == "prose" else text.strip()
    return Section(kind=kind, style="field", indent=depth(line), names=names, lines=[first])


def _unnamed(line: str, kind: Kind, text: str) -> Section | None:
    """Read a field whose names are in its text (":raises: KeyError: ...") or in the lines below (":Parameters:")."""
    if not text.strip():
        return _titled(line)
    return Section(kind=kind, indent=depth(line), lines=["", " " * (depth(line) + 1) + text.strip()])


def _names(argument: str, kind: Kind, parameters: frozenset[str]) -> tuple[str, ...]:
    """List what a field is about: all exceptions, or the parameters behind the type."""
    if kind == "raises":
        return tuple(name for name in NAME.findall(argument) if name not in ("or", "and"))
    words: list[str] = []
    for part in reversed(argument.split(",")):
        words += part.split()[-1:]
        if len(part.split()) > 1:
            break
    names = [match[0] for word in reversed(words) if (match := NAME.search(word))]
    first = argument.split()[:1]
    return tuple(first if parameters.isdisjoint(names) and parameters.issuperset(first) else names)


_MARKED = rf"(?::[\w:]+:`)?[\\*`~!]*{NAME.pattern}[*`]*"
_DASH = r"(?:--?|[\u2010-\u2015\u2212])"
_HEAD = re.compile(
    r"(?P<indent>\s*)(?P<bullet>[-*+•]\s+)?(?!None\b)"
    rf"(?P<open>[(\[])?(?P<names>{_MARKED}(?:(?:,?\s+or\s+|,\s*|\s\|\s){_MARKED})*)(?:,\s*\.\.\.)?(?(open)[)\]])"
    rf"(?P<type>\s*\(.*?\)(?=[*`]*\s*(?:[:\uff1a]|{_DASH}\s|$))|\s*\([^():]*(?=:\s|:$))?[*`]*"
    rf"(?P<mark>\s*(?:(?(type)::?|:(?!:|//))|\uff1a)(?:\*\*(?=\s))?|\s+{_DASH}\s|$)(?P<text>.*)"
)
_JOINED = re.compile(r":[\w:]+:`|\sor\s")

_LOOSE = re.compile(
    rf"\s*(?:[-*+•]\s+|\d+[.)]\s+)?[^\w\s]*(?P<name>{NAME.pattern})[^\w\s:(\[<=,]*"
    r"(?:\s*(?:\([^()]*\)|\[[^\[\]]*\]|<[^<>]*>|=\s*[^\s:]+))?(?:\s*:)?\s(?P<text>.*)"
)
# A line whose type has an open bracket and goes on below.
_HANGING = re.compile(rf"\s*(?:[-*+•]\s+)?{_MARKED}\s*(?:\(|\s:\s|:\s*[(\[{{])")
_LONGEST_TYPE = 12  # lines

_DEEPEST_TYPE = 5  # brackets in brackets
_BRACKETS = re.compile(r"\[[^\[\]]*\]|\([^()]*\)|\{[^{}]*\}")
_ATOM = r"[~`'\"]*[\w.-]+[`'\"]*(?: _)*"
_TYPE = re.compile(rf"{_ATOM}(?:(?:, or | or | of | and |, ?| ?\| ?){_ATOM})*(?:,? (?:optional|default.*))?")


class Head(NamedTuple):
    """What a line says that begins an entry."""

    names: list[str]
    depth: int
    has_bullet: bool
    has_type: bool
    mark: str
    text: str


def entries(section: Section, parameters: frozenset[str]) -> Iterator[tuple[Sequence[str], str]]:
    """List the names and the text of each entry; text in front of the first has no names."""
    if section.style == "field":
        yield section.names, folded(section.lines)
        return
    before: list[str] = []
    found: list[tuple[Head, list[str]]] = []
    for line, head in _matched(section, parameters):
        if head:
            found.append((head, []))
        else:
            (found[-1][1] if found else before).append(line)
    if found and any(before):
        yield (), folded(["", *before])
    for head, lines in found:
        yield head.names, folded(["" if _is_type(section, head, lines) else head.text, *lines])


def begun(section: Section, line: str, parameters: frozenset[str]) -> Head | None:
    """Read a line that can begin an entry of the section."""
    head = _head(line) if section.kind in LISTED and section.style != "field" else None
    if head is None or parameters.issuperset(head.names):
        return head
    if not head.mark and section.style != "numpy" and section.kind != "raises":
        return None
    # A list inside a text is not a list of entries, unless the section begins with a list.
    begins_with_list = ITEM.match(section.lines[1] if section.has_text else line)
    return head if head.has_bullet == bool(begins_with_list) else None


def _head(line: str) -> Head | None:
    match = _HEAD.match(line)
    if match is None:
        return None
    indent, bullet, _, words, type_, mark, text = match.groups()
    names = [words] if words.isidentifier() else NAME.findall(_JOINED.sub(",", words))
    return Head(names, len(indent), bool(bullet), bool(type_), mark, text.strip())


def _matched(section: Section, parameters: frozenset[str]) -> Iterable[tuple[str, Head | None]]:
    """Pair each line with what it says where it begins an entry."""
    lines = _unwrapped(section.lines[1:])
    heads = [begun(section, line, parameters) if line else None for line in lines]
    found = [head for head in heads if head]
    level = found[0].depth if found else max(map(depth, lines[:1]), default=0)
    missing = _missing(found, level, parameters) if section.kind == "parameters" else frozenset[str]()
    if missing:
        before = ["", *lines[:-1]]
        heads = [head or _loose(*pair, level, missing) for head, pair in zip(heads, zip(lines, before), strict=True)]
    return zip(lines, (_entry(head, level, missing) for head in heads), strict=True)


def _missing(heads: Iterable[Head], level: int, parameters: frozenset[str]) -> frozenset[str]:
    """Find the parameters of which no line says anything."""
    return parameters.difference(*(head.names for head in heads if head.depth <= level))


def _entry(head: Head | None, level: int, missing: frozenset[str]) -> Head | None:
    """Take a deeper line for text ("city: ..." among a dict's keys), unless it is all there is about a parameter."""
    if head is None or head.depth <= level:
        return head
    return head if head.mark and missing.issuperset(head.names) else None


def _loose(line: str, before: str, level: int, missing: frozenset[str]) -> Head | None:
    """Read a line without a colon, or with other signs, that begins with a parameter of which nothing else is said."""
    is_place = depth(line) == level and (not before or before.endswith((".", ":", ";", "!", "?", ")")))
    match = _LOOSE.match(line) if is_place else None
    if match is None or match["name"] not in missing:
        return None
    return Head([match["name"]], level, has_bullet=False, has_type=True, mark=" ", text=untyped(match["text"]))


def _unwrapped(lines: Sequence[str]) -> Sequence[str]:
    """Join the lines of each type that has an open bracket."""
    joined: list[str] = []
    number = 0
    while number < len(lines):
        line, length = lines[number], 1
        if ("(" in line or "[" in line or "{" in line) and _excess(line) > 0 and _HANGING.match(line):
            length = _type_length(lines[number : number + _LONGEST_TYPE])
        if length > 1:
            words = (each.strip().rstrip("\\") for each in lines[number : number + length])
            line = " " * depth(line) + " ".join(words)
        joined.append(line)
        number += length
    return joined


def _type_length(lines: Sequence[str]) -> int:
    """Count the lines until all brackets are closed; 1 if they never are."""
    return next((number for number, open_ in enumerate(accumulate(map(_excess, lines)), 1) if open_ <= 0), 1)


def _excess(line: str) -> int:
    """Count the brackets that are left open."""
    return sum(map(line.count, "([{")) - sum(map(line.count, ")]}"))


def _is_type(section: Section, head: Head, lines: Sequence[str]) -> bool:
    """Decide whether what follows the colon is a type, as in NumPy style, and the text stands below."""
    is_numpy, has_lines = section.style == "numpy", any(lines)
    if not head.text or head.has_type or section.kind != "parameters" or not (is_numpy or has_lines):
        return False
    if _reads_as_type(head.text):
        return is_numpy or head.mark[:1] == " " or lines[0].lstrip()[:1].isupper()
    return is_numpy and has_lines and (head.mark[:1] == " " or not head.text[:1].isupper())


def untyped(text: str) -> str:
    """Cut off the type and colon that a text begins with; "True: if ..." begins with a value."""
    first, colon, rest = text.partition(": ")
    return rest if colon and first not in ("True", "False", "None") and _reads_as_type(first) else text


def _reads_as_type(text: str) -> bool:
    """Decide whether a text is names joined by "or", "of", commas and bars, with anything in brackets."""
    for _ in range(_DEEPEST_TYPE):
        text, count = _BRACKETS.subn("_", text)
        if not count:
            break
    return bool(_TYPE.fullmatch(text))


def cut(lines: Sequence[str], parameters: frozenset[str]) -> list[Section]:
    """Cut lines into sections, the first of which is the summary."""
    code = fenced(lines)
    candidates = signs(lines)
    underlines = frozenset(filter(UNDERLINE.match, candidates))
    current = Section(kind="prose", lines=[])
    sections = [current]
    for number, (line, below) in enumerate(zip(lines, [*lines[1:], ""], strict=True)):
        if (not line or line in underlines) and not current.has_text:
            continue
        may_open = line in candidates or below in underlines
        following = _following(current, line, below, parameters, may_open=may_open) if number not in code else None
        if following:
            current = following
            sections.append(current)
        else:
            current.lines.append(line)
    return sections


def _following(
    current: Section, line: str, below: str, parameters: frozenset[str], *, may_open: bool
) -> Section | None:
    """Begin the section whose first line this is; None where it belongs to the one before."""
    opened = _opened(current, line, below, parameters) if line and may_open else None
    if opened or not line or current.kind == "prose":
        return opened
    return _closed(current, line, below, parameters)


def _opened(current: Section, line: str, below: str, parameters: frozenset[str]) -> Section | None:
    """Read a section's heading where there is one, and it is not part of the text around it."""
    opened = heading(line, below, parameters)
    return opened if opened and _admits(current, opened, below, parameters) else None


def _admits(current: Section, opened: Section, below: str, parameters: frozenset[str]) -> bool:
    if current.kind == opened.kind == "prose" or (current.kind == "parameters" and opened.title in parameters):
        return False
    if not _is_clear(current, opened) and parameters.isdisjoint(_first_names(opened, below, parameters)):
        return False
    if current.kind == "prose" or opened.indent <= current.indent:
        return True
    inner = 0 if current.is_flush else depth(current.lines[1])
    # One level too deep, "Returns:" is a heading still, where no parameter has this name.
    return opened.indent < inner or (opened.indent == inner and current.kind in LISTED and opened.title[:1].isupper())


def _is_clear(current: Section, opened: Section) -> bool:
    """Decide whether a heading cannot be a line of a sentence."""
    if opened.is_bare or (opened.title[:1].islower() and any(current.lines[-1:])):
        return False
    return current.kind != "prose" or opened.indent == 0 or opened.style == "numpy"


def _first_names(opened: Section, below: str, parameters: frozenset[str]) -> Sequence[str]:
    entry = begun(opened, below, parameters)
    return opened.names or (entry.names if entry else ())


def _closed(section: Section, line: str, below: str, parameters: frozenset[str]) -> Section | None:
    """Begin new prose where a line lies behind the end of a section."""
    if depth(line) > section.indent or _is_flush_entry(section, line, parameters):
        return None
    is_numpy = section.style == "numpy"
    if is_numpy and (section.kind not in LISTED or depth(below) > depth(line)):
        return None
    if section.kind == "dropped" and section.style == "field":
        return Section(kind="prose", lines=[line])
    if section.is_flush and (section.lines[-1] if section.has_text else section.kind not in LISTED):
        return None
    return Section(kind="prose", lines=[line])


def _is_flush_entry(section: Section, line: str, parameters: frozenset[str]) -> bool:
    """Decide whether a line is an entry of the section although it is not indented."""
    entry = begun(section, line, parameters)
    if entry is None:
        return False
    if section.kind == "parameters" and parameters.issuperset(entry.names):
        return True
    # A capital begins a sentence ("Note: ..."), hardly ever a parameter.
    return section.is_flush and (
        section.kind == "raises" or section.style == "numpy" or not entry.names[0][0].isupper()
    )


_NEWLINE = re.compile(r"\r\n?|[\f\v\x85\u2028\u2029]")
_BLANK = re.compile(r"\n{2,}")
_GAP = re.compile(r"\n{3,}")
# Where a field begins in a docstring of one line.
_FIELD = re.compile(r" +(?=[:@](?:param|type|returns?|rtype|raises?|yields?)(?: [^:]*)?: )")
_CONTROL = re.compile(r"[\0-\x09\x0b-\x1f\x7f-\x9f]")


@dataclass(frozen=True, kw_only=True)
class Docstring:
    """Hold what a docstring tells about a function."""

    description: str
    parameters: Mapping[str, str]
    returns: str = ""
    raises: Mapping[str, str]
    examples: tuple[str, ...] = ()


def parse(text: str | None, parameters: Collection[str] = ()) -> Docstring:
    """Read a docstring in Google, NumPy, reST or Epytext style.

    Raises nothing and checks nothing: an entry for a name that is not a parameter is returned like any other. Control
    characters are left out, and halves of characters (lone surrogates) replaced.

    Args:
        text: The docstring as written, with its indentation.
        parameters: The real names of the function's parameters. They tell a badly indented entry from prose.
    """
    names = frozenset(parameters)
    prose: list[str] = []
    returns: list[str] = []
    examples: list[str] = []
    texts: dict[str, dict[str, str]] = {"parameters": {}, "raises": {}}
    for section in cut(_cleaned(text or ""), names):
        if section.kind == "prose":
            prose.append(_prose(section.lines))
        elif section.kind == "returns":
            returns.append(_returned(section))
        elif section.kind == "examples":
            examples += _examples(section)
        elif section.kind != "dropped":
            prose.append(_add(texts[section.kind], section, names))
    return Docstring(
        description="\n\n".join(filter(None, prose)),
        parameters=texts["parameters"],
        returns="\n".join(filter(None, returns)),
        raises=texts["raises"],
        examples=tuple(examples),
    )


def _add(texts: dict[str, str], section: Section, parameters: frozenset[str]) -> str:
    """Add a section's entries, of two for a name the first, and give the text that is about all parameters."""
    about_all = ""
    for names, text in entries(section, parameters):
        for name in names:
            texts.setdefault(name, text)
        if not names and section.kind == "parameters":
            about_all = text
    return about_all


def _cleaned(text: str) -> list[str]:
    """Split a docstring into lines without margin, controls and trailing spaces."""
    lines = [line.rstrip() for line in _sendable(text).expandtabs().split("\n")]
    return dedented(lines) if len(lines) > 1 else _FIELD.split(lines[0].strip())


def _sendable(text: str) -> str:
    """Keep line feeds and tabs of all controls, and join or replace surrogates."""
    if text.isascii() and text.replace("\n", "").isprintable():
        return text
    text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return _CONTROL.sub("", _NEWLINE.sub("\n", text.expandtabs()))


def _prose(lines: Sequence[str]) -> str:
    """Join lines, with paragraphs one blank line apart."""
    text = "\n".join(lines).strip("\n")
    return _GAP.sub("\n\n", text) if "\n\n\n" in text else text


def _returned(section: Section) -> str:
    """Join the text about the result, without its type where it stands alone."""
    first, *rest = section.lines if section.lines[0] else [*section.lines[1:], ""]
    if section.style != "numpy" or not any(depth(line) > depth(first) for line in rest):
        return folded([untyped(first.strip()), *rest])
    if all(depth(line) > depth(first) for line in rest if line):
        return folded(["", *rest])
    return folded(["", *(line if depth(line) > depth(first) or not line else f"- {line}:" for line in [first, *rest])])


def _examples(section: Section) -> Iterator[str]:
    """List the examples: each doctest with the words before it, or else all as one."""
    example: list[str] = []
    text = "\n".join(dedented(section.lines)).strip("\n")
    for paragraph in [text] if "```" in text else _BLANK.split(text):
        example.append(paragraph)
        if ">>>" in paragraph:
            yield "\n\n".join(example)
            example = []
    if any(example):
        yield "\n\n".join(example)
