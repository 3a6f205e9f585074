"""Parsing of docstrings into description, parameter texts, returns, raises and examples; and texts in annotations.

docstring-parser reads the entries of a section. On a whole docstring it expects one style without mistakes: it fails at
a line without a colon, and loses text after a section. So sections are found here, and their entries are rewritten in
Google style. The names of the function's parameters distinguish entries from text.

No docstring raises an exception, and the time is linear: no pattern has two adjacent repeats that match the same
character, and no long text is searched once for each line. docstring-parser gets no types, since its time is cubic in
open brackets.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from inspect import Signature, cleandoc
from itertools import pairwise, takewhile
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from typing_extensions import NotRequired, ReadOnly, Required

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

_Kind = Literal["prose", "parameters", "returns", "raises", "examples", "dropped"]

_NOUNS = ("arg", "args", "argument", "arguments", "parameter", "parameters", "param", "params")
_QUALIFIERS = ("keyword", "other", "optional", "required", "named", "positional", "additional", "extra")
_INPUTS = ("input", "inputs")  # also of text that names no parameter
_ATTRIBUTES = ("attributes", "ivar", "cvar", "var")  # of a class, whose constructor takes some of them
_ABROAD = (  # in German, French, Spanish, Portuguese, Italian, Russian, Chinese, Japanese and Korean
    *("argumente", "paramètres", "argumentos", "parámetros", "parâmetros", "argomenti", "parametri"),
    *("аргументы", "параметры", "参数", "參數", "引数", "パラメータ", "매개변수"),
)
_KINDS: Mapping[str, _Kind] = {  # by the title of a section, or the word of a field
    **dict.fromkeys((*_NOUNS, *_INPUTS, *_ABROAD, *_ATTRIBUTES, "key", "keyword", "kwarg", "kwargs"), "parameters"),
    **{f"{qualifier} {noun}": "parameters" for qualifier in _QUALIFIERS for noun in _NOUNS},
    **dict.fromkeys(("returns", "return", "return value", "yields", "yield"), "returns"),
    **dict.fromkeys(("raises", "raise", "exceptions", "exception", "except", "throws"), "raises"),
    **dict.fromkeys(("example", "examples"), "examples"),
    **dict.fromkeys(("methods", "receives", "references", "see also", "todo", "warns"), "dropped"),
    **dict.fromkeys(("type", "rtype", "ytype", "kwtype", "paramtype", "vartype", "meta"), "dropped"),
    **dict.fromkeys(("author", "see", "seealso", "since", "version"), "dropped"),
}
_LISTED = ("parameters", "raises")  # sections with entries

_CONTROL = re.compile(r"[\0-\x09\x0b-\x1f\x7f-\x9f]")
_DEEP = re.compile(r"^( {99}) +", re.MULTILINE)

# "Args:", "# Args", "**Args**", "Args", also above an underline; ":param x: ...", "@param x ..." and ":Args:".
_HEADING = re.compile(r" *(?:#+ ?|\*\*)?(\w[\w ]*)[:\uff1a]?(?:\*\*)?[:\uff1a]?$")
_UNDERLINE = re.compile(r" *[-=~]{2,}$")
_FIELD = re.compile(r" *[:@](\w+)(?:((?: (?::[\w:]+:`|[^:])*)?):(?!(?:\w+:)*`)(.*)|( [^:]+)$)")
_INLINE_FIELD = re.compile(r"(?<! ) +(?=[:@](?:param|type|returns?|rtype|raises?|yields?)(?: [^:@]*)?: )")
_FENCE = re.compile(r"\s*(?:```[^`]*|~~~.*)$")

# "x: ...", "*x (int): ...", "- `x`, `y` -- ...", "1. x [int]: ...", "x=3: ...", "x : int", "x".
_NAME = r"[^\W\d](?:\w|\\_)*(?:[-.]\w+)*"
_NAMES = re.compile(rf"(?<![\w:])(?!(?:or|and)\s){_NAME}")
_MARKED_NAME = rf"(?::[\w:]+:`)?[\\*`~!'\"]*{_NAME}[*`'\"]*"
_DASH = r"(?:--?|[\u2010-\u2015\u2212])"
_BULLET = r" *(?:[-*+•]|\d{1,9}[.)])\s"
_ITEM = re.compile(_BULLET)
_ENTRY = re.compile(
    rf"(?P<bullet>{_BULLET})?\s*(?!(?:None|or|and)\b)(?P<open>[(\[])?"
    rf"(?P<names>{_MARKED_NAME}(?:(?:,?\s+(?:or|and|&)\s+|,\s*|\s\|\s|\s?/\s?){_MARKED_NAME})*)(?P<dots>,?\s*\.\.\.)?(?(open)[)\]])"
    rf"(?P<type>\s*\(.*?\)(?=[*`]*\s*(?:[:\uff1a]|{_DASH}\s|$))|\s*\([^():]*(?=:\s|:$)"
    r"|\s*(?:\[[^\[\]:]*\]|<[^<>:]*>|\{[^{}:]*\}|=\s*[^\s:]+)(?=:))?(?(type)[*`]*)"
    rf"(?P<mark>\s*(?:(?(type)::?|:(?!:|//|[\w:]+:`))|\uff1a)(?:\*\*(?=\s))?|\s+{_DASH}\s|$)(?P<text>.*)"
)
_WITHOUT_COLON = re.compile(r"\s*(\w+)\s(?:\([^()]*\)\s)?(?:[-=]?>\s|=\s)?(.*)")
_OPEN_TYPE = re.compile(rf"(?:{_BULLET})?\s*{_MARKED_NAME}\s*(?:\(|\s:\s|:\s*[(\[{{])")
_OPTIONAL = re.compile(r",? (?:optional|default|= )")
# A word of a line above entries without a heading: "The parameters are:", "Required:", "where:".
_INTRODUCTION = re.compile(r"\b(?:arg|param|keyword|option|input|require|where)", re.IGNORECASE)

# The start of code or a table. In the text before it, repeated spaces, and line ends in a paragraph, become one space.
_CODE = re.compile(r"(?:^|\n\n?) *(?:```|~~~|\||\+-|={2,} +=|>>>|\.\. )|(?<=::)\n|\n\n +")
_WRAP = re.compile(rf"(?<!\n)\n(?!\n|{_BULLET}) *|(?<=\S) +")


@dataclass(frozen=True, kw_only=True)
class Docstring:
    """The parts of a function's docstring; `attributes` are those parameters that a class lists as attributes."""

    description: str
    parameters: Mapping[str, str]
    returns: str = ""
    raises: Mapping[str, str]
    examples: tuple[str, ...] = ()
    attributes: Mapping[str, str] = field(default_factory=dict)


def parse_docstring(text: str | None, parameters: Collection[str] = ()) -> Docstring:
    """Parse a docstring in Google, NumPy, reST or Epytext style.

    Raises nothing and checks nothing: an entry for a name that is not a parameter is returned like any other. Control
    characters are left out, and lone surrogates are replaced, so all texts can be sent as UTF-8.

    Args:
        text: The docstring as written, with its indentation.
        parameters: The names of the function's parameters. They distinguish a badly indented entry from prose.
    """
    lines = _clean(text or "")
    if len(lines) == 1 and _FIELD.match(lines[0]) is None:  # most docstrings are one line
        return Docstring(description=lines[0].strip(), parameters={}, raises={})

    known = frozenset(parameters)
    parts: dict[_Kind, list[str]] = {kind: [] for kind in get_args(_Kind)}
    attributes: list[str] = []
    sections = _split(lines, known)
    if known and "parameters" not in [section.kind for section in sections]:
        sections = [part for section in sections for part in _split_prose(section, known)]
    for section in sections:
        if section.title.lower() in _ATTRIBUTES:
            _, entries = _rewrite(section, known)
            attributes += entries
        elif section.kind in _LISTED:
            introduction, entries = _rewrite(section, known)
            parts["prose"].append(introduction)
            parts[section.kind] += entries
        elif section.kind == "returns":
            parts["returns"].append(_read_returns(section))
        elif section.kind != "dropped":
            parts[section.kind].append(_dedent(section.lines))

    return Docstring(
        description="\n\n".join(filter(None, parts["prose"])),
        parameters=_read_entries(parts["parameters"]),
        attributes={name: text for name, text in _read_entries(attributes).items() if name in known},
        returns="\n".join(filter(None, parts["returns"])),
        raises=_read_entries(parts["raises"]),
        examples=tuple(filter(None, parts["examples"])),
    )


def _read_entries(lines: Sequence[str]) -> dict[str, str]:
    """Return the texts of the entries of a Google section, by name."""
    if not lines:
        return {}
    from docstring_parser.google import GoogleParser, Section, SectionType  # few docstrings have entries

    parser = GoogleParser([Section("Entries", "entry", SectionType.MULTIPLE)])
    texts: dict[str, str] = {}
    for item in parser.parse("\n".join(["", "Entries:", *lines])).meta:
        text = _fold(item.description or "")
        for name in item.args[1].split(", "):
            texts.setdefault(name, text)
    return texts


def _clean(text: str) -> list[str]:
    """Split a docstring into lines without margin, controls, trailing spaces, deep indentation, double blank lines."""
    text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    text = _CONTROL.sub("", "\n".join(text.expandtabs().splitlines()))
    text = cleandoc(text) if "\n" in text else _INLINE_FIELD.sub("\n", text.strip())
    lines = [line.rstrip() for line in _DEEP.sub(r"\1", text).split("\n")]
    return [line for line, above in zip(lines, ["", *lines]) if line or above]


def _dedent(lines: Sequence[str]) -> str:
    return cleandoc("\n".join(["", *lines]))


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())


@dataclass(kw_only=True, slots=True)
class _Section:
    """The lines under a heading, or of a field."""

    kind: _Kind
    style: Literal["google", "numpy", "field"] = "google"
    indent: int = -1  # of the heading; prose has none
    title: str = ""
    lines: list[str] = field(default_factory=list)

    @property
    def level(self) -> int:
        """The indentation of the first line."""
        return _depth(self.lines[0]) if self.lines else 0


def _split(lines: Sequence[str], known: frozenset[str]) -> list[_Section]:
    """Split lines into sections, the first of which is the summary."""
    fences = [number for number, line in enumerate(lines) if _FENCE.match(line)]  # the last one may be left open
    code = {number for start, end in zip(fences[::2], fences[1::2]) for number in range(start + 1, end + 1)}
    sections = [_Section(kind="prose")]

    for number, (line, below) in enumerate(zip(lines, [*lines[1:], ""])):
        section = sections[-1]
        is_text = line and number not in code
        opened = (_match_field(line, known) or _match_heading(line, below)) if is_text else None
        is_prose = opened is not None and opened.kind == "prose"
        if opened and not is_prose and _is_heading(section, opened, line, below, known):
            sections.append(opened)
        elif is_text and _depth(line) <= section.indent and (is_prose or _ends(section, line, below, known)):
            sections.append(_Section(kind="prose", lines=[line]))
        elif section.lines or (line and not _UNDERLINE.match(line)):
            section.lines.append(line)

    return sections


def _split_prose(section: _Section, known: frozenset[str]) -> Iterable[_Section]:
    """Split prose around blocks of entries without a heading, such as "city: Its name"."""
    if section.kind != "prose":
        return [section]
    text = [*takewhile(lambda line: not _FENCE.match(line), section.lines)]
    written = text[:1]
    for number in range(1, len(text)):
        if _are_entries(text, number, known):
            written.append(" " * (_depth(text[number]) - 1) + "Args:")
        written.append(text[number])
    return _split([*written, *section.lines[len(text) :]], known)


def _are_entries(lines: Sequence[str], number: int, known: frozenset[str]) -> bool:
    """Return whether a block begins in a line, all lines of which, but for deeper ones, name a parameter first."""
    line, above = lines[number], lines[number - 1]
    depth, before = _depth(line), above or lines[max(number - 2, 0)]
    is_introduced = before[-1:] == ":" and _depth(before) <= depth and _INTRODUCTION.search(before)
    is_apart = not above and before[-1:] != ":" and _depth(before) >= depth
    if not line or not (is_introduced or is_apart):
        return False
    section = _Section(kind="parameters", lines=[line])
    block = takewhile(lambda each: each and _depth(each) >= depth, map(lines.__getitem__, range(number, len(lines))))
    for each in (line for line in block if _depth(line) == depth):
        entry = _match_entry(section, each, known)
        if entry is None or not entry.mark or not known.issuperset(entry.names):
            return False
        if entry.mark.strip() == "-" and entry.text.partition(" ")[0] in known:  # "x - y" is a difference
            return False
    return True


def _match_field(line: str, known: frozenset[str]) -> _Section | None:
    """Match a reST or Epytext field, with or without its second colon."""
    match = _FIELD.match(line)
    if match is None:
        return None

    word, argument, text, rest = match.groups()
    kind = _KINDS.get(word.lower(), "prose")
    if word in known and kind == "prose" and not (argument or rest):  # ":x: ..."
        kind = "parameters"
        argument = word
    if rest:
        argument, _, text = rest.strip().partition(" ") if kind in _LISTED else ("", "", rest)
    parts = [_NAMES.findall(part) for part in argument.replace("\\", "").split(",")]
    names = [name for part in parts for name in part if kind == "raises" or name in known]
    if not (names or rest):  # of "str x, y" the last words
        names = [part[-1] for part in parts if part]
    is_list = kind in _LISTED and not names  # ":Parameters:", ":raises: KeyError: ..."
    first = f"{', '.join(names)}: {text}" if kind in _LISTED and names else text.strip()
    lines = [" " * _depth(line) + first] if first else []
    title = word if word in _ATTRIBUTES else ""
    return _Section(kind=kind, style="google" if is_list else "field", indent=_depth(line), title=title, lines=lines)


def _match_heading(line: str, below: str) -> _Section | None:
    """Match a heading. An underlined one with an unknown title begins prose."""
    match = _HEADING.match(line)
    if match is None:
        return None
    title = match[1].strip(" _")
    kind = _KINDS.get(title.lower(), "prose")
    is_underlined = bool(_UNDERLINE.match(below)) and _depth(below) == _depth(line)
    if kind == "prose" and not is_underlined:
        return None
    return _Section(kind=kind, style="numpy" if is_underlined else "google", indent=_depth(line), title=title)


def _is_heading(section: _Section, opened: _Section, line: str, below: str, known: frozenset[str]) -> bool:
    """Return whether a line that looks like a heading begins a section, and is not part of the text around it."""
    is_unsure = opened.title.islower() or opened.title == line.strip() or opened.title.lower() in _INPUTS
    is_plain = opened.style == "google" and is_unsure
    if is_plain or (section.kind == "prose" and opened.indent and opened.style != "numpy"):
        entry = _match_entry(opened, opened.lines[0] if opened.lines else below, known)
        if entry is None or known.isdisjoint(entry.names):
            return False
    # "Returns:" may be indented one level too deep.
    deepest = max(section.indent, section.level if section.kind in _LISTED else 0)
    return section.kind == "prose" or opened.indent <= deepest


def _ends(section: _Section, line: str, below: str, known: frozenset[str]) -> bool:
    """Return whether a section ends before a line that is not indented."""
    entry = _match_entry(section, line, known)
    if entry and section.kind == "parameters" and known.issuperset(entry.names):
        return False
    if section.level > section.indent or (section.style == "field" and section.kind == "dropped"):
        return True

    # A capital begins a sentence ("Note: ..."), hardly ever a parameter.
    if entry and (section.kind == "raises" or section.style == "numpy" or not entry.names[0][0].isupper()):
        return False
    if section.style != "numpy" or section.lines[-1:] != [""]:
        return section.lines[-1:] == [""]
    # Text that is not an entry ends a NumPy section only after an entry: text may come before the first.
    is_after_entry = _depth(section.lines[-2]) > section.level
    return section.kind in _LISTED and is_after_entry and _depth(below) <= _depth(line)


class _Entry(NamedTuple):
    """The parts of a line that begins an entry."""

    names: list[str]
    depth: int
    type: str | None
    mark: str
    text: str


def _match_entry(section: _Section, line: str, known: frozenset[str]) -> _Entry | None:
    """Match a line that can begin an entry of the section."""
    is_inside = section.style == "field" and line not in section.lines[:1]
    match = None if section.kind not in _LISTED or is_inside else _ENTRY.match(line)
    names = _NAMES.findall(match["names"].replace("\\", "")) if match else []
    if match is None or not names:
        return None
    if match["dots"] and known.isdisjoint(names):  # "sample1, sample2, ..." are `*samples`
        alike = [name for name in known if name.startswith(names[0].rstrip("0123456789"))]
        names = alike if len(alike) == 1 else names

    # A list inside a text is not a list of entries, unless the section begins with a list.
    begins_with_list = bool(_ITEM.match(section.lines[0] if section.lines else line))
    if not known.issuperset(names) and bool(match["bullet"]) != begins_with_list:
        return None
    return _Entry(names, _depth(line), match["type"], match["mark"], match["text"].strip())


def _rewrite(section: _Section, known: frozenset[str]) -> tuple[str, list[str]]:
    """Return the text before the first entry, and the entries as the lines of a Google section."""
    lines = _join_types(section.lines)
    introduction: list[str] = []
    google: list[str] = []

    for number, (line, entry) in enumerate(zip(lines, _find_entries(section, lines, known))):
        if entry:
            below = next(filter(None, lines[number + 1 : number + 3]), "")
            text = "" if _is_type(section, entry, below) else entry.text
            # The parser removes the smallest indentation of all lines, so the text is indented as the line below it.
            google += [f"    {', '.join(entry.names)}:", "", " " * (8 + _depth(below)) + text]
        elif google:
            google.append(f"        {line}")
        else:
            introduction.append(line)

    is_about_all = introduction and section.kind == "parameters" and (google or section.level <= section.indent)
    return _fold(_dedent(introduction)) if is_about_all else "", google


def _find_entries(section: _Section, lines: Sequence[str], known: frozenset[str]) -> list[_Entry | None]:
    """Find the lines that begin an entry."""
    known = known if section.kind == "parameters" else frozenset()
    entries = [_match_entry(section, line, known) if line else None for line in lines]
    level = [*[entry.depth for entry in entries if entry], section.level][0]
    missing = known.difference(*[entry.names for entry in entries if entry and entry.depth <= level])

    for number, (line, above, entry) in enumerate(zip(lines, ["", *lines], entries)):
        if entry is None and missing and _depth(line) == level and above[-1:] in (*".:;!?)", ""):
            match = _WITHOUT_COLON.match(line)
            if match and match[1] in missing:
                entries[number] = _Entry([match[1]], level, "?", " ", match[2])
        # A deeper entry is text (the keys of a dict), unless it is the only one of its parameter.
        elif entry and entry.depth > level and not missing.issuperset(entry.names):
            entries[number] = None

    return entries


def _join_types(lines: Sequence[str]) -> list[str]:
    """Join the lines of each type whose brackets are closed further down."""
    joined: list[str] = []
    for line in lines:
        above = joined[-1] if joined else ""
        is_open = len(above) < 1000 and sum(map(above.count, "([{")) > sum(map(above.count, ")]}"))
        if line and is_open and _OPEN_TYPE.match(above) and not ((match := _ENTRY.match(line)) and match["mark"]):
            continued = above.rstrip("\\")
            joined[-1] = f"{continued} {line.strip()}"
        else:
            joined.append(line)
    return joined


def _is_type(section: _Section, entry: _Entry, below: str) -> bool:
    """Return whether the mark of an entry is followed by a type, as in NumPy style, and the text is below."""
    if not entry.text or entry.type or section.kind != "parameters" or section.style == "field":
        return False
    has_text = _depth(below) > entry.depth
    if section.style == "numpy":
        has_type = has_text and (entry.mark[:1] == " " or not entry.text[0].isupper())
        return has_type or _reads_as_type(entry.text)
    return has_text and below.lstrip()[0].isupper() and _reads_as_type(entry.text)


def _reads_as_type(text: str) -> bool:
    """Return whether the words of a text are joined by commas, bars, brackets, "or", "of" and "and"."""
    joints = ("or", "of", "and", "|")
    words = _OPTIONAL.split(text, maxsplit=1)[0].split()
    is_joined = (a[-1] == "," or a in joints or b in joints or b[0] in "([{" for a, b in pairwise(words))
    return text[-1:] not in ". " and all(is_joined)


def _read_returns(section: _Section) -> str:
    """Fold the text about the result, without its type.

    If NumPy style describes several results, their types are the labels of a list.
    """
    lines = section.lines or [""]
    is_deeper = [not line or _depth(line) > section.level for line in lines]
    if section.style == "numpy" and any(line and deeper for line, deeper in zip(lines, is_deeper)):
        label = "- {}:" if is_deeper.count(False) > 1 else ""  # a single result has no label
        lines = [line if deeper else label.format(line) for line, deeper in zip(lines, is_deeper)]
        return _fold(_dedent(lines))

    first, *rest = lines
    first = first.strip()
    kind, colon, text = first.partition(": ")
    if colon and kind not in ("True", "False", "None") and _reads_as_type(kind):
        first = text
    below = next(filter(None, rest), "")
    return _fold(_dedent([" " * _depth(below) + first, *rest]))


def _fold(text: str) -> str:
    """Join the wrapped lines of each paragraph and each list item, up to the first code or table."""
    text = text.strip()
    code = _CODE.search(text)
    end = code.start() if code else len(text)
    return _WRAP.sub(" ", text[:end]) + text[end:]


# A statement of a doctest, and a prompt of one.
_STATEMENT = re.compile(r"^ *>>> .*(?:\n *\.\.\. .*)*", re.MULTILINE)
_PROMPT = re.compile(r"^ *(?:>>>|\.\.\.) ", re.MULTILINE)
# For JSON values in a row: a decoder of one, and the white space between two.
_DECODER = json.JSONDecoder()
_GAP = re.compile(r"\s*")


def find_examples(
    texts: Iterable[str], name: str, signature: Signature, keys: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Find examples of arguments: those of calls in doctests, if all are literals, and JSON objects.

    Args:
        texts: The texts of the examples.
        name: The function's name.
        signature: Its signature, without the instance and the parameters that a run supplies.
        keys: Names in JSON of its parameters; arguments of others are left out.
    """
    examples: list[dict[str, Any]] = []
    for text in texts:
        examples += _find_calls(text, name, signature, keys)
        examples += _find_json_objects(text)
    return examples


def _find_calls(text: str, name: str, signature: Signature, keys: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    for statement in _STATEMENT.findall(text):
        for node in ast.walk(_parse(_PROMPT.sub("", statement))):
            if isinstance(node, ast.Call) and name in (getattr(node.func, "id", ""), getattr(node.func, "attr", "")):
                arguments = _read_literals(node, signature)
                if arguments is not None:
                    yield {keys[each]: value for each, value in arguments.items() if each in keys}


def _parse(code: str) -> ast.AST:
    """Parse a statement. Return an empty module if it is not Python."""
    try:
        return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module(body=[], type_ignores=[])


def _read_literals(call: ast.Call, signature: Signature) -> dict[str, Any] | None:
    """Read a call's arguments by parameter. Return None if one is not a literal, or the function does not take it."""
    try:
        by_position = map(ast.literal_eval, call.args)
        by_keyword: dict[Any, Any] = {each.arg: ast.literal_eval(each.value) for each in call.keywords}
        values = signature.bind(*by_position, **by_keyword).arguments
        document: dict[str, Any] = json.loads(json.dumps(values, allow_nan=False))
    except (ValueError, TypeError, RecursionError):
        return None
    return document


def _find_json_objects(text: str) -> Iterator[dict[str, Any]]:
    """Find the JSON objects in paragraphs that consist of JSON only."""
    for paragraph in re.split(r"\n\s*\n", text):
        content = paragraph.strip().removeprefix("```json").removeprefix("```").removesuffix("```")
        found = list[Any]()
        gap = _GAP.match(content)
        with suppress(ValueError, RecursionError):
            while gap and gap.end() < len(content):
                document, end = _DECODER.raw_decode(content, gap.end())
                found.append(document)
                gap = _GAP.match(content, end)
            if all(isinstance(each, dict) for each in found):
                yield from found


# Attributes with a text: of `Doc` (PEP 727), of pydantic's `Field`, of an option of typer.
_TEXTS = ("documentation", "description", "help")
# What may stand around the type of a key of a TypedDict.
_QUALIFIERS_OF_KEYS = (Required, NotRequired, ReadOnly)


def find_text(annotation: Any) -> str:
    """Return the last text in an `Annotated` type, which is the outermost; "" if there is none."""
    while get_origin(annotation) in _QUALIFIERS_OF_KEYS:
        annotation = get_args(annotation)[0]
    annotation = getattr(annotation, "__value__", annotation)  # of a type alias
    return _pick_text(get_args(annotation)[1:]) if get_origin(annotation) is Annotated else ""


def find_field_text(annotation: Any) -> str:
    """Return the text of a field's type or, of a union, those of its members, which pydantic drops."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in _QUALIFIERS_OF_KEYS:
        return find_field_text(arguments[0])
    members = arguments if origin in (Union, UnionType) else [annotation]
    return "\n".join(filter(None, map(find_text, members)))


def _pick_text(metadata: Iterable[Any]) -> str:
    values: list[Any] = []
    for item in metadata:
        values += [item, *(getattr(item, name, None) for name in _TEXTS)]
    return next((value for value in reversed(values) if value and isinstance(value, str)), "")


def read_field_texts(kind: Any, entries: Mapping[str, str]) -> dict[str, str]:
    """Return the texts about the fields of a pydantic class by their names in JSON. Other classes have none.

    `entries` has texts by the names of fields, for those that have no other.
    """
    fields: Mapping[str, FieldInfo] = getattr(kind, "__pydantic_fields__", {})
    texts: dict[str, str] = {}
    for name, info in fields.items():
        if (
            text := info.description
            or _pick_text(info.metadata)
            or find_field_text(info.annotation)
            or entries.get(name)
        ):
            texts[info.validation_alias if isinstance(info.validation_alias, str) else name] = text
    return texts
