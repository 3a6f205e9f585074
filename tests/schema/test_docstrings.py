"""Docstrings as found in the wild, and what a tool has of each."""

from __future__ import annotations

import keyword
import time
from collections.abc import Iterable
from inspect import Parameter, Signature
from textwrap import indent
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.properties import scale
from toolkit import Tool, Toolbox, tool

CITY = {"city": "Name of the city, in English."}
TWO = {"city": "Name of the city.", "zone": "Zone."}


def read(text: str | None, names: Iterable[str] = ()) -> Tool[..., Any]:
    """Make a tool of a function with a docstring, and with parameters of these names."""

    def get(**given: str) -> str:
        return ""

    parameters = [Parameter(name, Parameter.KEYWORD_ONLY, annotation=str) for name in dict.fromkeys(names)]
    get.__signature__ = Signature(parameters, return_annotation=str)  # type: ignore[attr-defined]
    get.__doc__ = text
    return tool(get)


def texts(made: Tool[..., Any]) -> dict[str, str]:
    """The texts about the parameters that have one."""
    properties = made.parameters["properties"].items()
    return {name: schema["description"] for name, schema in properties if "description" in schema}


def unknown(made: Tool[..., Any]) -> list[str]:
    """The names of which the docstring says something, and which are no parameters."""
    return [each.parameter for each in Toolbox([made]).check() if each.code == "unknown-parameter"]


PLAIN = {
    "none": (None, ""),
    "empty": ("", ""),
    "whitespace": (" \n\t \n ", ""),
    "one line": ("Get the weather.", "Get the weather."),
    "one line in spaces": ("  Get the weather.  ", "Get the weather."),
    "two paragraphs": ("Get.\n\n    More\n    words.\n    ", "Get.\n\nMore\nwords."),
    "text on the second line": ("\n    Get.\n\n    More.\n    ", "Get.\n\nMore."),
    "several blank lines": ("Get.\n\n\n\n    More.", "Get.\n\nMore."),
    "carriage returns": ("Get.\r\n\r\n    More.\r\n    End.\r\n", "Get.\n\nMore.\nEnd."),
    "form feed": ("Get.\n\f\n    More.", "Get.\n\nMore."),
    "bullets": ("Get:\n\n    - one\n      line\n    - two", "Get:\n\n- one\n  line\n- two"),
    "heading with text behind it": ("Get.\n\nReturns: a list.\nArgs: none.", "Get.\n\nReturns: a list.\nArgs: none."),
    "heading inside prose": ("Takes Args:\nand Returns: too.", "Takes Args:\nand Returns: too."),
    "link": ("See http://x.org/a:b for more.", "See http://x.org/a:b for more."),
    "role that begins a line": ("Uses\n:class:`Node` objects.", "Uses\n:class:`Node` objects."),
    "mention that begins a line": ("Ask\n@anna: she knows.", "Ask\n@anna: she knows."),
    "unknown heading": ("Get.\n\nUsage:\n    Call it.", "Get.\n\nUsage:\n    Call it."),
    "unknown underlined heading": ("Get.\n\nHow it works\n------------\nWell.",) * 2,
    "input without a name": ("Get.\n\nInput:\n    A text.", "Get.\n\nInput:\n    A text."),
    "note": ("Get.\n\nNote:\n    Slow: wait.", "Get.\n\nNote:\n    Slow: wait."),
    "warnings, underlined": ("Get.\n\nWarnings\n--------\nSlow.", "Get.\n\nWarnings\n--------\nSlow."),
    "code fence": ("Get.\n\n```\nArgs:\n    x: y\n```",) * 2,
    "code fence of tildes": ("Get.\n\n~~~yaml\nReturns:\n    x\n~~~\nEnd.",) * 2,
    "indented code": ("Get.\n\nLike::\n\n    def f():\n        Args:\n            x: y",) * 2,
    "doctest without heading": ("Get.\n\n>>> get('Args:')\n1",) * 2,
    "table": ("Get.\n\n====  ====\na     b\n====  ====",) * 2,
}


@pytest.mark.parametrize(("text", "description"), PLAIN.values(), ids=PLAIN)
def test_prose(text: str | None, description: str) -> None:
    """A docstring without a section is description and nothing else."""
    made = read(text)

    assert (description, [], {"type": "string"}) == (made.description, unknown(made), made.output_schema)


PARAMETERS = {
    # Google
    "google": ("Get.\n\nArgs:\n    city: Name of the city,\n        in English.", CITY),
    "google, no blank line before": ("Get.\nArgs:\n    city: Name of the city,\n        in English.", CITY),
    "google, begins with the section": ("Args:\n        city: Name of the city,\n            in English.\n    ", CITY),
    "google, text on the next line": ("Get.\n\nArgs:\n    city:\n        Name of the city,\n        in English.", CITY),
    "google, continuation not indented": ("Get.\n\nArgs:\n    city: Name of the city,\n    in English.", CITY),
    "google, blank line between entries": ("Get.\n\nArgs:\n    city: Name of the city.\n\n    zone: Zone.", TWO),
    "google, blank line under the heading": ("Get.\n\nArgs:\n\n    city: Name of the city.\n    zone: Zone.", TWO),
    "google, tabs": ("Get.\n\n\tArgs:\n\t\tcity: Name of the city,\n\t\t\tin\tEnglish.\n\t", CITY),
    "google, carriage returns": ("Get.\r\n\r\nArgs:\r\n    city: Name of the city,\r\n        in English.\r\n", CITY),
    "google, typed": ("Get.\n\nArgs:\n    nodes (int): Target", {"nodes": "Target"}),
    "google, optional with default": (
        "Get.\n\nArgs:\n    drain (bool, optional): Whether. Defaults to True.",
        {"drain": "Whether. Defaults to True."},
    ),
    "google, nested brackets in the type": (
        "Get.\n\nArgs:\n    f (Callable[[int], str], optional): A (pure) one: f.\n    t (tuple(int, int)): Pair.",
        {"f": "A (pure) one: f.", "t": "Pair."},
    ),
    "google, colon in the type": ("Get.\n\nArgs:\n    mode (Literal['a: b']): Mode.", {"mode": "Mode."}),
    "google, a sentence of one word": (
        "Get.\n\nArgs:\n    city: Optional.\n        Name.",
        {"city": "Optional. Name."},
    ),
    "google, continuation begins with a parameter": (
        "Get.\n\nArgs:\n    city: Name of the\n    zone it is in.",
        {"city": "Name of the zone it is in."},
    ),
    "google, colon in the text": (
        "Get.\n\nArgs:\n    zone: Zone, for example: eu-west-1a.",
        {"zone": "Zone, for example: eu-west-1a."},
    ),
    "google, link in the text": (
        "Get.\n\nArgs:\n    url: Like http://x.org:80,\n    http://y.org too.",
        {"url": "Like http://x.org:80, http://y.org too."},
    ),
    "google, space before the colon": ("Get.\n\nArgs:\n    city : Name of the city,\n        in English.", CITY),
    "google, no space behind the colon": ("Get.\n\nArgs:\n    city:Name of the city,\n        in English.", CITY),
    "google, paragraphs in an entry": (
        "Get.\n\nArgs:\n    city: Name\n        of it.\n\n        More\n        words.\n    zone: Zone.",
        {"city": "Name of it.\n\nMore words.", "zone": "Zone."},
    ),
    "google, bullets in an entry": (
        "Get.\n\nArgs:\n    mode: One of:\n        - a: first\n          one\n        - b: second\n            1. deep",
        {"mode": "One of:\n- a: first one\n- b: second\n    1. deep"},
    ),
    "google, bullets in an entry, not indented": (
        "Get.\n\nArgs:\n    mode: One of:\n    - a: first\n    - b: second",
        {"mode": "One of:\n- a: first\n- b: second"},
    ),
    "google, keys of a dict in an entry": (
        "Get.\n\nArgs:\n    options: With keys:\n        depth: How deep.\n    city: City.",
        {"options": "With keys: depth: How deep.", "city": "City."},
    ),
    "google, entries as a list": ("Get.\n\nArgs:\n    - city: Name of the city.\n    - zone (str): Zone.", TWO),
    "google, starred": ("Get.\n\nArgs:\n    *args: Rest.\n    **kwargs: More.", {"args": "Rest.", "kwargs": "More."}),
    "google, starred and escaped": (
        "Get.\n\nArgs:\n    \\*args: Rest.\n    \\*\\*kwargs: More.",
        {"args": "Rest.", "kwargs": "More."},
    ),
    "google, backticks": ("Get.\n\nArgs:\n    `city`: Name of the city.\n    `zone` (`str`): Zone.", TWO),
    "google, bold": ("Get.\n\nArgs:\n    **city** (str): Name of the city.\n    **zone:** Zone.", TWO),
    "google, dashes": ("Get.\n\nArgs:\n    city -- Name of the city.\n    zone - Zone.", TWO),
    "google, long dash": ("Get.\n\nArgs:\n    city \u2014 Name of the city.\n    zone (str) - Zone.", TWO),
    "google, two names": ("Get.\n\nArgs:\n    x, y (int): Place.", {"x": "Place.", "y": "Place."}),
    "google, no text": ("Get.\n\nArgs:\n    city:\n    zone: Zone.", {"city": "", "zone": "Zone."}),
    "google, name alone": ("Get.\n\nArgs:\n    city\n    zone: Zone.", {"city": "", "zone": "Zone."}),
    "google, unicode": (
        "Get.\n\nArgs:\n    größe: Größe in µm.\n    名前: 名",
        {"größe": "Größe in µm.", "名前": "名"},
    ),
    "google, twice": ("Get.\n\nArgs:\n    city: First.\n    city: Second.", {"city": "First."}),
    "google, two sections": (
        "Get.\n\nArgs:\n    city: Name of the city.\n\nKeyword Args:\n    zone: Zone.\n\nArgs:\n    x: X.",
        TWO | {"x": "X."},
    ),
    "google, not a parameter": ("Get.\n\nArgs:\n    citty: Old.\n    city: New.", {"citty": "Old.", "city": "New."}),
    "google, named like a heading": (
        "Get.\n\nArgs:\n    note:\n        Text.\n    returns: Rate.",
        {"note": "Text.", "returns": "Rate."},
    ),
    "google, named like a heading, not indented": ("Get.\n\nArgs:\nnote:\n    Text.", {"note": "Text."}),
    "google, not indented": ("Get.\n\nArgs:\ncity: Name of the city.\nzone: Zone.", TWO),
    "google, not indented, blank line between": ("Get.\n\nArgs:\ncity: Name of the city.\n\nzone: Zone.", TWO),
    "google, not indented, continuation": ("Get.\n\nArgs:\ncity: Name of the city,\n    in English.", CITY),
    "google, one entry too deep": ("Get.\n\nArgs:\n    city: Name of the city.\n      zone: Zone.", TWO),
    "google, one entry not deep enough": ("Get.\n\nArgs:\n    city: Name of the city.\n  zone: Zone.", TWO),
    "google, one entry not indented": ("Get.\n\nArgs:\n    city: Name of the city.\nzone: Zone.", TWO),
    "google, section indented": ("Get.\n\n    Args:\n        city: Name of the city.\n        zone: Zone.\nx", TWO),
    "google, words before the first entry": (
        "Get.\n\nArgs:\n    Both needed:\n        city: Name of the city,\n        in English.",
        CITY,
    ),
    "google, no entries": ("Get.\n\nArgs:\n\nReturns:\n    x", {}),
    "google, no entries at the end": ("Get.\n\nArgs:", {}),
    "google, none": ("Get.\n\nArgs:\n    None", {}),
    "google, fence in an entry": (
        "Get.\n\nArgs:\n    city: Like\n        ```\n      Returns:\n        ```\n    zone: Zone.",
        {"city": "Like\n  ```\nReturns:\n  ```", "zone": "Zone."},
    ),
    "google, fence never closed": ("Get.\n\n```\n\nArgs:\n    city: Name of the city,\n        in English.", CITY),
    "google, code in an entry": (
        (
            "Get.\n\nArgs:\n    city: As JSON,\n        like\n        ```json\n        {\n"
            '          "a": 1\n        }\n        ```'
        ),
        {"city": 'As JSON, like\n```json\n{\n  "a": 1\n}\n```'},
    ),
    "google, literal block in an entry": (
        (
            "Get.\n\nArgs:\n    city: Like::\n\n            a = 1\n            b = 2\n\n        That\n"
            "        is all.\n    zone: Zone."
        ),
        {"city": "Like::\n\n    a = 1\n    b = 2\n\nThat\nis all.", "zone": "Zone."},
    ),
    "google, doctest in an entry": (
        "Get.\n\nArgs:\n    city: Like\n\n        >>> get(1)\n        1\n        2\n    zone: Zone.",
        {"city": "Like\n\n>>> get(1)\n1\n2", "zone": "Zone."},
    ),
    "google, table in an entry": (
        "Get.\n\nArgs:\n    city: One of\n        | a | b |\n        |---|---|\n        | 1 | 2 |",
        {"city": "One of\n| a | b |\n|---|---|\n| 1 | 2 |"},
    ),
    "google, type on two lines": (
        (
            "Get.\n\nArgs:\n    city (Union[str,\n        int]): Name of the city.\n"
            "    zone (Literal['a',\n    'b']): Zone."
        ),
        TWO,
    ),
    "google, type on many lines": (
        (
            "Get.\n\nArgs:\n    city (Union[ \\\n        str, \\\n        int, \\\n    ]):\n"
            "        Name of the city.\n    zone: Zone."
        ),
        TWO,
    ),
    "google, type in square brackets": (
        "Get.\n\nArgs:\n    city [str]: Name of the city.\n    zone <str>: Zone.",
        TWO,
    ),
    "google, type with a role": (
        "Get.\n\nArgs:\n    city (:class:`City`): Name of the city.\n    zone (:obj:`str`, optional): Zone.",
        TWO,
    ),
    "google, type behind the colon": (
        "Get.\n\nArgs:\n    x: int: X.\n    y : int, default 3",
        {"x": "int: X.", "y": "int, default 3"},
    ),
    "google, bracket never closed": ("Get.\n\nArgs:\n    city (str: Name of the city.\n    zone (str): Zone.", TWO),
    "google, no colon": ("Get.\n\nArgs:\n    city Name of the city.\n    zone (str) Zone.", TWO),
    "google, default behind the name": ("Get.\n\nArgs:\n    city = None: Name of the city.\n    zone=3: Zone.", TWO),
    "google, quoted names": ("Get.\n\nArgs:\n    'city': Name of the city.\n    \"zone\": Zone.", TWO),
    "google, numbered": ("Get.\n\nArgs:\n    1. city: Name of the city.\n    2. zone: Zone.", TWO),
    "google, wide colon": ("Get.\n\nArgs\uff1a\n    city\uff1aName of the city.\n    zone (str)\uff1a Zone.", TWO),
    "google, unicode minus": ("Get.\n\nArgs:\n    city \u2212 Name of the city.\n    zone \u2010 Zone.", TWO),
    "google, numpy inside": (
        (
            "Get.\n\nParameters:\n    city : str\n        Name of the city.\n"
            "    zone : {'a', 'b'}, optional\n        Zone."
        ),
        TWO,
    ),
    "google, numpy inside, not indented": (
        "Get.\n\nParameters:\ncity : str\n    Name of the city.\nzone : str or None\n    Zone.",
        TWO,
    ),
    "google, all named like headings": (
        "Get.\n\nArgs:\n    args:\n        A.\n    returns:\n        B.\n    note:\n        C.\n\nReturns:\n    D.",
        {"args": "A.", "returns": "B.", "note": "C."},
    ),
    "google, next heading too deep": (
        "Get.\n\nArgs:\n    city: Name of the city.\n    zone: Zone.\n    Returns:\n        X.",
        TWO,
    ),
    "google, more than ten names": (
        "Get.\n\nArgs:\n    a, b, c, d, e, f, g, h, i, j, k: Letter.",
        dict.fromkeys("abcdefghijk", "Letter."),
    ),
    "google, heading without a colon": ("Get.\n\nParameters\n    city: Name of the city.\n    zone: Zone.", TWO),
    "google, small heading": ("Get.\n\nargs:\n    city: Name of the city.\n    zone: Zone.", TWO),
    "google, list behind a bold heading": (
        "Get.\n\n**Arguments**\n\n- **city** (`str`): Name of the city.\n- **zone** \u2014 Zone.",
        TWO,
    ),
    "google, bold heading": ("Get.\n\n**Args:**\n    city: Name of the city,\n        in English.", CITY),
    "markdown headings": (
        "Get.\n\n## Parameters\n\n- `city` (str): Name of the city.\n- `zone`: Zone.\n\n## Returns\n\nx",
        TWO,
    ),
    "markdown heading without a space": (
        "Get.\n\n#Args:\n    city: Name of the city.\n    zone: Zone.\n\n#Returns:\n    x",
        TWO,
    ),
    "google, one text for names with a slash": (
        "Get.\n\nArgs:\n    city / zone: Where it is.",
        dict.fromkeys(("city", "zone"), "Where it is."),
    ),
    # NumPy
    "numpy": ("Get.\n\nParameters\n----------\ncity : str\n    Name of the city,\n    in English.", CITY),
    "numpy, optional": (
        "Get.\n\nParameters\n----------\ncity : str, optional\n    Name of the city,\n    in English.",
        CITY,
    ),
    "numpy, no space before the colon": (
        "Get.\n\nParameters\n----------\ncity: str\n    Name of the city,\n    in English.",
        CITY,
    ),
    "numpy, no type": ("Get.\n\nParameters\n----------\ncity\n    Name of the city,\n    in English.", CITY),
    "numpy, no text": ("Get.\n\nParameters\n----------\ncity\nzone : str", {"city": "", "zone": ""}),
    "numpy, text behind the colon": ("Get.\n\nParameters\n----------\ncity: Name of the city.\nzone (str): Zone.", TWO),
    "numpy, short underline": ("Get.\n\nParameters\n---\ncity : str\n    Name of the city,\n    in English.", CITY),
    "numpy, long underline": (
        "Get.\n\nParameters\n================\ncity : str\n    Name of the city,\n    in English.",
        CITY,
    ),
    "numpy, section indented": (
        "Get.\n\n  Parameters\n  ---\n  city : str\n      Name of the city,\n      in English.\n\nThe end.",
        CITY,
    ),
    "numpy, entries indented": (
        "Get.\n\nParameters\n---\n    city : str\n        Name of the city.\n    zone\n        Zone.",
        TWO,
    ),
    "numpy, text not indented": ("Get.\n\nParameters\n---\ncity : str\nName of the city,\nin English.", CITY),
    "numpy, set as type": ("Get.\n\nParameters\n---\nm : {'a', 'b'}, default 'a'\n    Mode.", {"m": "Mode."}),
    "numpy, several names": ("Get.\n\nParameters\n---\nx, y, z : int\n    Place.", dict.fromkeys("xyz", "Place.")),
    "numpy, starred": (
        "Get.\n\nParameters\n---\n*args, **kwargs\n    Rest.",
        dict.fromkeys(("args", "kwargs"), "Rest."),
    ),
    "numpy, capital after a blank line": (
        "Get.\n\nParameters\n---\nX : array\n    Data.\n\nY : array\n    More.",
        {"X": "Data.", "Y": "More."},
    ),
    "numpy, default in the text": ("Get.\n\nParameters\n---\nx : int\n    X (default: 3).", {"x": "X (default: 3)."}),
    "numpy, paragraphs and bullets": (
        "Get.\n\nParameters\n---\nx : int\n    Either\n    of:\n\n    * a\n    * b\n\n    Else\n    c.",
        {"x": "Either of:\n\n* a\n* b\n\nElse c."},
    ),
    "numpy, other parameters": (
        "Get.\n\nParameters\n---\ncity\n    Name of the city.\n\nOther Parameters\n---\nzone\n    Zone.",
        TWO,
    ),
    "numpy, type in words": (
        "Get.\n\nParameters\n---\ncity: a text that is not long\n    Name of the city.\nzone\n    Zone.",
        TWO,
    ),
    "numpy, type on two lines": (
        "Get.\n\nParameters\n---\ncity : {'a',\n        'b'}, optional\n    Name of the city.\nzone : str\n    Zone.",
        TWO,
    ),
    "numpy, role as type": (
        "Get.\n\nParameters\n---\ncity : :class:`City`\n    Name of the city.\nzone : `a.Zone`, optional\n    Zone.",
        TWO,
    ),
    "numpy, colon behind the heading": (
        "Get.\n\nParameters:\n-----------\ncity : str\n    Name of the city.\nzone : str\n    Zone.",
        TWO,
    ),
    "numpy, text without a full stop": ("Get.\n\nParameters\n---\ncity : the name of it", {"city": "the name of it"}),
    "numpy, google inside": ("Get.\n\nParameters\n---\ncity: Name of the city,\n    in English.", CITY),
    "numpy, odd entry between": (
        "Get.\n\nParameters\n---\ncity\n    Name of the city.\n\n{odd} : int\n    Odd.\n\nzone\n    Zone.",
        {"city": "Name of the city.\n\n{odd} : int Odd.", "zone": "Zone."},
    ),
    "numpy, version in an entry": (
        "Get.\n\nParameters\n---\ncity : str\n    Name.\n\n    .. versionadded:: 1.2\n       Or so.",
        {"city": "Name.\n\n.. versionadded:: 1.2\n   Or so."},
    ),
    "numpy, dots among the names": (
        "Get.\n\nParameters\n---\nx, y, ... : int\n    Place.",
        dict.fromkeys("xy", "Place."),
    ),
    "numpy, several for a starred one": (
        "Get.\n\nParameters\n---\narg1, arg2, ... : int\n    Rest.\nkwargs1, kwargs2, ...\n    More.",
        {"args": "Rest.", "kwargs": "More."},
    ),
    "numpy, prose first": (
        "Get.\n\nParameters\n---\nAll of these are needed.\n\ncity : str\n    Name of the city.\nzone : str\n    Zone.",
        TWO,
    ),
    "numpy, wrapped prose first": (
        "Get.\n\nParameters\n---\nBoth are\ntexts.\n\ncity : str\n    Name of the city.\nzone\n    Zone.",
        TWO,
    ),
    "numpy, paragraphs of prose first": (
        "Get.\n\nParameters\n---\nAll.\n\nOf these.\n\ncity : str\n    Name of the city.\nzone\n    Zone.",
        TWO,
    ),
    "numpy, then google": (
        "Get.\n\nParameters\n---\ncity\n    Name of the city,\n    in English.\n\nReturns:\n    x: X.",
        CITY,
    ),
    # reST
    "rest": ("Get.\n\n:param city: Name of the city,\n    in English.", CITY),
    "rest, no blank line before": ("Get.\n:param city: Name of the city,\n    in English.", CITY),
    "rest, text on the next line": ("Get.\n\n:param city:\n    Name of the city,\n    in English.", CITY),
    "rest, continuation not indented": ("Get.\n\n:param city: Name of the city,\nin English.\n:returns: x", CITY),
    "rest, typed": ("Get.\n\n:param str city: Name of the city,\n    in English.", CITY),
    "rest, type of several words": ("Get.\n\n:param dict[str, int] city: Name of the city,\n  in English.", CITY),
    "rest, role as type": ("Get.\n\n:param :class:`~a.City` city: Name of the city,\n  in English.", CITY),
    "rest, type field": (
        "Get.\n\n:type city: str\n:param city: Name of the city,\n    in English.\n:type zone: str",
        CITY,
    ),
    "rest, synonyms": (
        "Get.\n\n:arg a: A.\n:keyword b: B.\n:parameter c: C.\n:key d: D.",
        {"a": "A.", "b": "B.", "c": "C.", "d": "D."},
    ),
    "rest, starred": ("Get.\n\n:param \\*args: Rest.\n:param **kw: More.", {"args": "Rest.", "kw": "More."}),
    "rest, colon and role in the text": (
        "Get.\n\n:param x: One: two,\n    :class:`Node` three.",
        {"x": "One: two, :class:`Node` three."},
    ),
    "rest, parameter in the text": ("Get.\n\n:param city: With\n    zone: x.", {"city": "With zone: x."}),
    "rest, no name": ("Get.\n\n:param: Lost.\n:param x: X.", {"x": "X."}),
    "rest, unknown field between": ("Get.\n\n:param x: X.\n:custom y: Y.\n:param z: Z.", {"x": "X.", "z": "Z."}),
    "rest, indented": ("Get.\n\n    :param city: Name of the city,\n        in English.\n    :returns: x", CITY),
    "rest, two names": ("Get.\n\n:param x, y: Place.", {"x": "Place.", "y": "Place."}),
    "rest, type and two names": ("Get.\n\n:param int x, y: Place.", {"x": "Place.", "y": "Place."}),
    "rest, type behind the name": ("Get.\n\n:param city str: Name of the city,\n    in English.", CITY),
    "rest, escaped name": ("Get.\n\n:param type\\_: Type.", {"type_": "Type."}),
    "rest, one line": ("Get. :param city: Name of the city, in English. :returns: x", CITY),
    "rest, no second colon": ("Get.\n\n:param city Name of the city,\n    in English.\n:returns: x", CITY),
    "rest, one block": (
        "Get.\n\n:Parameters:\n    city : str\n        Name of the city.\n    zone\n        Zone.\n:Returns:\n    x",
        TWO,
    ),
    "rest, one block, list": (
        "Get.\n\n:Parameters:\n  - `city` (str) - Name of the city.\n  - `zone` - Zone.",
        TWO,
    ),
    "rest, paragraphs": (
        "Get.\n\n:param x: One\n    two.\n\n    Three\n    four.\n:param y:",
        {"x": "One two.\n\nThree four.", "y": ""},
    ),
    "an escaped name": (
        "Get.\n\nParameters\n----------\nfrom\\_ : str\n    X.\ncity\\_zone, b\\_ : int\n    Y.",
        {"from_": "X.", "city_zone": "Y.", "b_": "Y."},
    ),
    "rest, names as fields": (
        "Get.\n\n:city: Name of the city,\n    in English.\n:other: No.",
        CITY,
    ),
    # Names of one entry
    "names joined by and": ("Get.\n\nArgs:\n    city and zone: Where.", {"city": "Where.", "zone": "Where."}),
    "names joined by &": ("Get.\n\nArgs:\n    city & zone: Where.", {"city": "Where.", "zone": "Where."}),
    "names joined by a slash": ("Get.\n\nArgs:\n    city/zone: Where.", {"city": "Where.", "zone": "Where."}),
    "rest, names joined by and": ("Get.\n\n:param city and zone: Where.", {"city": "Where.", "zone": "Where."}),
    "inputs": ("Get.\n\nInputs:\n    city: Name of the city,\n        in English.", CITY),
    "dots behind a name": ("Get.\n\nArgs\n---\ncity1, city2... : str\n    Where.", {"city": "Where."}),
    # Entries without a heading
    "no heading": ("Get.\n\ncity: Name of the city,\n    in English.", CITY),
    "no heading, several": ("Get.\n\ncity: Name of the city.\nzone (str): Zone.", TWO),
    "no heading, dashes": ("Get.\n\ncity -- Name of the city.\nzone -- Zone.", TWO),
    "no heading, numpy": ("Get.\n\ncity : str\n    Name of the city.\nzone : str\n    Zone.", TWO),
    "no heading, bullets": ("Get.\n\n- city: Name of the city.\n\n- zone: Zone.", TWO),
    "google, arrows": ("Get.\n\nArgs:\n    city -> Name of the city.\n    zone = Zone.", TWO),
    "google, type in braces": ("Get.\n\nArgs:\n    city {str}: Name of the city.\n    zone {str}: Zone.", TWO),
    "type and default above the text": ("Get.\n\nArgs:\n    zone: str | None = None\n        Zone.", {"zone": "Zone."}),
    # Epytext
    "epytext": ("Get.\n\n@param city: Name of the city,\n    in English.\n@type city: str", CITY),
    "epytext, unicode": ("Get.\n\n@param größe: Größe.\n@keyword b: B.", {"größe": "Größe.", "b": "B."}),
    "epytext, no colon": ("Get.\n\n@param city Name of the city,\n    in English.\n@return the weather", CITY),
    "epytext, list": ("Get.\n\n@param x: One of\n  - a\n  - b\n@rtype: int", {"x": "One of\n- a\n- b"}),
    "surrogates and controls": ("Get.\n\nArgs:\n    x: \x1b[1m\ud83d\ude00\0 \udc00", {"x": "[1m\U0001f600 \ufffd"}),
    "line separators": ("Get.\u2028Args:\u2028    x: X.\x85    y: Y.", {"x": "X.", "y": "Y."}),
}
NAMES = ("city", "zone", "mode", "args", "kwargs", "note", "returns", "größe")


@pytest.mark.parametrize(("text", "parameters"), PARAMETERS.values(), ids=PARAMETERS)
def test_parameters(text: str, parameters: dict[str, str]) -> None:
    """Each entry has its name and its text, and none of it is in the description."""
    others = [name for name in parameters if name not in NAMES]
    made = read(text, [*NAMES, *others])

    assert others == unknown(read(text, NAMES))
    assert ({name: text for name, text in parameters.items() if text}, []) == (texts(made), unknown(made))
    assert not [text for text in parameters.values() if len(text) > 3 and text in made.description]


@pytest.mark.parametrize(
    "title",
    [
        "Args",
        "Arguments",
        "Parameters",
        "Params",
        "Keyword Args",
        "Keyword Arguments",
        "Other Parameters",
        "ARGS",
        "# Args",
        "Argumente",
        "Paramètres",
        "Parámetros",
        "Argomenti",
        "Параметры",
        "参数",
        "引数",
    ],
)
def test_titles(title: str) -> None:
    """Each of the usual headings introduces parameters."""
    made = read(f"Get.\n\n{title}:\n    city: Name of the city,\n        in English.\n", ["city"])

    assert ("Get.", CITY) == (made.description, texts(made))


RETURNS = {
    "google": ("Returns:\n    The names\n    of all.", "The names of all."),
    "google, type": ("Returns:\n    list[str]: The names.", "The names."),
    "google, union": ("Returns:\n    dict[str, int] | None: The names.", "The names."),
    "google, colon in the text": ("Returns:\n    A dict with: names.", "A dict with: names."),
    "google, link": ("Returns:\n    http://x.org is all.", "http://x.org is all."),
    "google, values": ("Returns:\n    True: if so.\n    False: if not.", "True: if so. False: if not."),
    "google, bullets": ("Returns:\n    dict: With\n        - a: A\n        - b: B", "With\n- a: A\n- b: B"),
    "google, not indented": ("Returns:\nThe names.", "The names."),
    "google, blank line under the heading": ("Returns:\n\nThe names.", "The names."),
    "google, yields": ("Yields:\n    int: The next.", "The next."),
    "google, yields and returns": ("Yields:\n    One.\n\nReturns:\n    Two.", "One.\nTwo."),
    "google, too little indented": ("Args:\n      x: X.\n  Returns:\n      The names.", "The names."),
    "google, empty": ("Returns:\n", ""),
    "google, list of a type": ("Returns:\n    list of str: The names.", "The names."),
    "google, bold heading": ("**Returns**:\n    The names.", "The names."),
    "google, code": ("Returns:\n    Like::\n\n        a\n        b", "Like::\n\na\nb"),
    "markdown": ("### Returns\n\nThe names.", "The names."),
    "numpy, type": ("Returns\n-------\nint\n    The count.", "The count."),
    "numpy, name and type": ("Returns\n-------\ncount : int\n    The count\n    of all.", "The count of all."),
    "numpy, text only": ("Returns\n-------\nThe count\nof all.", "The count of all."),
    "numpy, several": ("Returns\n-------\na : int\n    A.\nb : int\n    B.", "- a : int: A.\n- b : int: B."),
    "numpy, yields": ("Yields\n------\nint\n    The next.", "The next."),
    "rest": (":returns: The names,\n    all.\n:rtype: list", "The names, all."),
    "rest, return": (":return: The names.", "The names."),
    "rest, on the next line": (":returns:\n    The names.", "The names."),
    "rest, yields": (":yields: The next.", "The next."),
    "rest, only a type": (":rtype: int", ""),
    "rest, after google": ("Args:\n    x: X.\n\n:returns: The names.", "The names."),
    "rest, capital": (":Returns:\n    The names.", "The names."),
    "epytext, no colon": ("@return the names", "the names"),
    "epytext": ("@return: The names.\n@rtype: list", "The names."),
}


@pytest.mark.parametrize(("text", "returns"), RETURNS.values(), ids=RETURNS)
def test_returns(text: str, returns: str) -> None:
    """The text about the result is found, without its type, and not in the description."""
    made = read(f"Get.\n\n{text}")

    assert ("Get.", {"type": "string"} | ({"description": returns} if returns else {})) == (
        made.description,
        made.output_schema,
    )


RAISES = {
    "google": ("Raises:\n    KeyError: If unknown.", ["KeyError"]),
    "google, dotted": ("Raises:\n    a.b.Error: If\n        unknown.", ["a.b.Error"]),
    "google, two": ("Raises:\n    A: If a.\n    B: If b.\n    A: Again.", ["A", "B"]),
    "google, two in one": ("Raises:\n    KeyError, TypeError: No.", ["KeyError", "TypeError"]),
    "google, no text": ("Raises:\n    KeyError", ["KeyError"]),
    "google, not indented": ("Raises:\nKeyError: No.\nTypeError: No.", ["KeyError", "TypeError"]),
    "google, parameter in the text": ("Raises:\n    KeyError: With\n        city: x.", ["KeyError"]),
    "google, or": ("Raises:\n    KeyError or TypeError: No.", ["KeyError", "TypeError"]),
    "google, bar": ("Raises:\n    KeyError | TypeError: No.", ["KeyError", "TypeError"]),
    "google, brackets": ("Raises:\n    (KeyError, TypeError): No.", ["KeyError", "TypeError"]),
    "google, role": ("Raises:\n    :py:class:`~a.Error`: If\n        unknown.", ["a.Error"]),
    "google, list": ("Raises:\n    - KeyError: No.\n    * TypeError: No.", ["KeyError", "TypeError"]),
    "google, dotted, colon in the text": (
        "Raises:\n    requests.Timeout: When: late.\n    OSError: No.",
        ["requests.Timeout", "OSError"],
    ),
    "numpy, two in one": ("Raises\n------\nA, B\n    No.\nC : If c", ["A", "B", "C"]),
    "rest, name in the text": (":raises: KeyError: If unknown.", ["KeyError"]),
    "numpy": ("Raises\n------\nKeyError\n    If unknown.\na.Error", ["KeyError", "a.Error"]),
    "rest": (":raises KeyError: If unknown.", ["KeyError"]),
    "rest, role": (":raises :exc:`~a.Error`: If\n    unknown.", ["a.Error"]),
    "rest, two in one": (":raises KeyError or TypeError: No.", ["KeyError", "TypeError"]),
    "epytext": ("@raise a.Error: If unknown.", ["a.Error"]),
}


@pytest.mark.parametrize(("text", "raises"), RAISES.values(), ids=RAISES)
def test_raises(text: str, raises: list[str]) -> None:
    """The model reads the message of each exception that is named, and of no other."""

    def shows(name: str) -> bool:
        module, _, word = name.rpartition(".")
        error: Any = type(word, (Exception,), {"__module__": module or "builtins"})

        def get(city: str = "") -> None:
            raise error("why")

        get.__doc__ = f"Get.\n\n{text}"
        made = tool(get)
        assert "Get." == made.description
        return made.invoke().text.endswith(": why")

    assert raises == [name for name in (*raises, "Other", "city") if shows(name)]


ONE = [{"x": 1}]
EXAMPLES: dict[str, tuple[str, Any]] = {
    "google": ('Example:\n    {\n      "x": 1\n    }', ONE),
    "google, plural": ("Examples:\n    Words.\n\n    >>> get(1)", ONE),
    "google, doctests": (
        "Examples:\n    One:\n\n    >>> get(1)\n    1\n\n    >>> get(2)\n    2\n\n    End.",
        [{"x": 1}, {"x": 2}],
    ),
    "google, several lines": ("Examples:\n    >>> get(\n    ...     1\n    ... )", ONE),
    "google, heading inside": ("Example:\n    Args:\n        x: y", None),
    "google, fence": ("Example:\n    ```\nArgs:\n        x: y\n    ```", None),
    "google, JSON": ('Example:\n    {\n      "a": 1\n    }', [{"a": 1}]),
    "google, two colons": ("Example::\n\n    >>> get(1)", ONE),
    "google, two sections": ("Example:\n    >>> get(1)\n\nExample:\n    >>> get(2)", [{"x": 1}, {"x": 2}]),
    "google, no call": ("Example:\n    >>> get(x)\n\n    >>> get(1, 2)\n\n    >>> get(\n\n    >>> get(1)", ONE),
    "google, empty": ("Example:\n", None),
    "numpy": ("Examples\n--------\nOne:\n\n>>> get(1)\n1", ONE),
    "rest": (":Example:\n\n    >>> get(1)", ONE),
    "rest, in line": (":example: >>> get(1)", ONE),
}


@pytest.mark.parametrize(("text", "examples"), EXAMPLES.values(), ids=EXAMPLES)
def test_examples(text: str, examples: Any) -> None:
    """Examples that are calls or JSON objects are those of the schema, and nothing of any is elsewhere."""

    def get(x: int) -> None: ...

    get.__doc__ = f"Get.\n\n{text}"
    made = tool(get)

    assert ("Get.", {}, examples) == (made.description, texts(made), made.parameters.get("examples"))


OBJECTS: dict[str, tuple[str, list[dict[str, int]] | None]] = {
    "one": ('{"x": 1}', [{"x": 1}]),
    "one in each line": ('{"x": 1}\n{"x": 2}', [{"x": 1}, {"x": 2}]),
    "after a number": ('3 {"x": 1}', None),
    "of several lines": ('{\n  "x": 1\n}\n{"x": 2}', [{"x": 1}, {"x": 2}]),
    "in paragraphs": ('One:\n\n{"x": 1}\n\n{"x": 2}', [{"x": 1}, {"x": 2}]),
    "in a fence": ('```json\n{"x": 1}\n{"x": 2}\n```', [{"x": 1}, {"x": 2}]),
    "and words": ('{"x": 1}\nis an example.', None),
}


@pytest.mark.parametrize(("text", "examples"), OBJECTS.values(), ids=OBJECTS)
def test_examples_in_json(text: str, examples: list[dict[str, int]] | None) -> None:
    """Examples that are JSON objects are those of the schema, also one in each line."""

    def get(x: int) -> None: ...

    get.__doc__ = "Get.\n\nExamples:\n" + indent(text, "    ")

    assert examples == tool(get).parameters.get("examples")


DESCRIPTIONS = {
    "prose behind google": ("Get.\n\nArgs:\n    x: X.\n\nMore words.", "Get.\n\nMore words."),
    "prose behind google, no blank line": ("Get.\n\nArgs:\n    x: X.\nMore: words.", "Get.\n\nMore: words."),
    "prose behind google, not indented": ("Get.\n\nArgs:\nx: X.\n\nNote: words.", "Get.\n\nNote: words."),
    "prose behind google returns, not indented": ("Get.\n\nReturns:\nX.\n\nMore.", "Get.\n\nMore."),
    "prose behind google raises": ("Get.\n\nRaises:\n    E: X.\n\nNote: words.", "Get.\n\nNote: words."),
    "prose behind an empty section": ("Get.\n\nArgs:\n\nMore words.", "Get.\n\nMore words."),
    "prose behind numpy": ("Get.\n\nParameters\n---\nx : int\n    X.\n\nMore words.", "Get.\n\nMore words."),
    "prose behind rest": ("Get.\n\n:param x: X.\n\nMore words.", "Get.\n\nMore words."),
    "fence behind google": ("Get.\n\nArgs:\n    x: X.\n\n```\nx: y\n```", "Get.\n\n```\nx: y\n```"),
    "fence before google": (
        "Get.\n\n```\nArgs:\n    y: Y.\n```\nArgs:\n    x: X.",
        "Get.\n\n```\nArgs:\n    y: Y.\n```",
    ),
    "note behind google": ("Get.\n\nArgs:\n    x: X.\n\nNote:\n    Slow.", "Get.\n\nNote:\n    Slow."),
    "notes behind numpy": ("Get.\n\nArgs\n----\nx\n    X.\n\nNotes\n-----\nSlow.", "Get.\n\nNotes\n-----\nSlow."),
    "heading behind google": ("Get.\n\nArgs:\n    x: X.\n\nUsage:\n    Call.", "Get.\n\nUsage:\n    Call."),
    "attributes": ("Get.\n\nAttributes:\n    x: X.\n\nReferences:\n    Y.\n\nTodo:\n    * z", "Get."),
    "see also": ("Get.\n\nSee Also\n--------\nfoo : Foo.\n\nbar\n\nReferences\n----------\n.. [1] X.", "Get."),
    "fields": ("Get.\n\n:ivar x: X.\n:meta private:\n@author: me", "Get."),
    "type of a keyword": ("Get.\n\n:keyword x: X.\n:paramtype x: int", "Get."),
    "prose behind a dropped field": ("Get.\n\n:type x: int\nMore.", "Get.\n\nMore."),
    "words that look like headings": (
        "Get the\nargs:\nand more.\n\nExample: do x.\n\nArgs:\n    x: X.",
        "Get the\nargs:\nand more.\n\nExample: do x.",
    ),
    "role between prose and a section": ("Get\n:class:`A` things.\n\nArgs:\n    x: X.", "Get\n:class:`A` things."),
    "directives": (
        "Get.\n\n.. deprecated:: 2\n   Use y.\n\n.. note::\n\n   Args: good.\n\n:param x: X.",
        "Get.\n\n.. deprecated:: 2\n   Use y.\n\n.. note::\n\n   Args: good.",
    ),
    "code block with a docstring": (
        "Get.\n\n.. code-block:: python\n\n    def f(q):\n        Args:\n            q: Q.\n\nArgs:\n    x: X.",
        "Get.\n\n.. code-block:: python\n\n    def f(q):\n        Args:\n            q: Q.",
    ),
    "usage behind google": ("Get.\n\nArgs:\n    x: X.\n\nUsage::\n\n    f(x)", "Get.\n\nUsage::\n\n    f(x)"),
    "note between sections": (
        "Get.\n\nArgs:\n    x: X.\nNote:\n    Slow.\nReturns:\n    Z.",
        "Get.\n\nNote:\n    Slow.",
    ),
    "notes before numpy": ("Get.\n\nNotes\n-----\nSlow.\n\nArgs\n----\nx\n    X.", "Get.\n\nNotes\n-----\nSlow."),
    "words before the first entry": (
        "Get.\n\nArgs:\n    All are in\n    meters.\n\n    x: X.\n\nMore words.",
        "Get.\n\nAll are in meters.\n\nMore words.",
    ),
    "no name of an exception": ("Get.\n\n:raises: If it fails.", "Get."),
    "text behind an exception": ("Get.\n\n:raises E: X.\n\nSee :x:`a` too.", "Get.\n\nSee :x:`a` too."),
    "words before the first exception": ("Get.\n\nRaises:\n    If it fails.\n\n    KeyError: No.", "Get."),
    "no entries": ("Get.\n\nArgs:\n    None.", "Get."),
    "entries without a heading": (
        "Get.\n\nArgs for all:\n    x: X.\n    y: Y.\n\nMore words.",
        "Get.\n\nArgs for all:\n\nMore words.",
    ),
    "entry of something else": ("Get.\n\nReply:\n    x: X.", "Get.\n\nReply:\n    x: X."),
    "difference of parameters": ("Get.\n\nx - y is the result.", "Get.\n\nx - y is the result."),
    "entry beside other names": ("Get.\n\nx: X.\nelse: Z.", "Get.\n\nx: X.\nelse: Z."),
    "entry inside a paragraph": ("Get the\nx: X.", "Get the\nx: X."),
    "entry inside a fence": ("Get.\n\n```\n\nx: X.\n```", "Get.\n\n```\n\nx: X.\n```"),
    "entry inside code": ("Get.\n\n.. code:: a\n\n    x: X.", "Get.\n\n.. code:: a\n\n    x: X."),
    "entry beside a section": ("Get.\n\ny: Y.\n\nArgs:\n    x: X.", "Get.\n\ny: Y."),
    "unknown field behind a known one": ("Get.\n\n:param x: X.\n@note: Slow.", "Get.\n\n@note: Slow."),
}


@pytest.mark.parametrize(("text", "description"), DESCRIPTIONS.values(), ids=DESCRIPTIONS)
def test_description_around_sections(text: str, description: str) -> None:
    """Prose is kept wherever it stands; sections and what they say are not part of it."""
    assert description == read(text, ["x", "y"]).description


def test_parameters_decide_about_deep_entries() -> None:
    """A key of a dict inside a text is text, unless a parameter of that name has no other entry."""
    text = "Get.\n\nArgs:\n    options: With keys:\n        city: City."

    inside, apart = {"options": "With keys: city: City."}, {"options": "With keys:", "city": "City."}

    assert (inside, apart) == (
        texts(read(text, ["options"])),
        texts(read(text, ["options", "city"])),
    )


ENDLESS = {
    "line feeds": "\n" * scale(1_000_000),
    "tabs": "\t" * scale(1_000_000),
    "prose": "Some words. " * scale(90_000),
    "nested brackets": "Parameters\n---\nx : " + "(" * scale(500_000) + ")" * scale(500_000),
    "open brackets": "Args:\n" + "    x (a\n" * scale(125_000),
    "commas": ":param " + "a, " * scale(330_000) + "x: y",
    "underlines": "A\n--\n" * scale(200_000),
    "titles": "Get\nargs\n" * scale(125_000),
    "loose names": "Args:\n" + "    x y.\n" * scale(125_000),
    "quotes before a name": "Args:\n    " + "'" * scale(1_000_000) + "x",
    "type words": "Parameters\n---\nx : " + "a, " * scale(330_000) + "\n    X",
    "literal blocks": "Args:\n    x:\n" + "        a::\n\n" * scale(80_000),
    "one line of fields": ":param x: y " * scale(83_000),
    "one line of spaces": "Do" + " " * scale(200_000) + "x",
    "mixed ends": "Returns:\n" + "    a\nb\n" * scale(125_000),
    "blank lines": "Args:" + "\n" * scale(200_000) + "    x: y",
    "spaces": "Args:\n    x" + " " * scale(200_000) + "y",
    "brackets": "Args:\n    x " + "(" * scale(200_000),
    "bracket pairs": "Args:\n    x (" + ") " * scale(100_000) + "y",
    "names of one field": ":param " + "x, " * scale(200_000) + ": " + "y " * scale(200_000),
    "marks of fields": "Get " + "@param " * scale(125_000),
    "marks behind a name": "Args:\n    x" + "*" * scale(200_000) + "y",
    "deep first line": "Args:\n" + " " * scale(500_000) + "x\n" + "y\n" * scale(125_000),
    "names": "Args:\n    " + "x, " * scale(66_000) + "y: z",
    "dots": "Raises:\n    " + "x." * scale(100_000),
    "stars": "Args:\n    " + "*" * scale(200_000) + "x",
    "colons": ":param " + ":a" * scale(100_000),
    "fields": ":param x: y\n" * scale(16_000),
    "headings": "  Args:\n" * scale(24_000),
    "entries": "Args:\n" + "    x: y\n" * scale(22_000),
    "words": "@param " + "word " * scale(40_000),
    "types": "Returns:\n    " + "a[x] | " * scale(28_000),
    "doctests": "Examples\n---\n" + ">>> a\n\n" * scale(28_000),
    "fences": "Args:\n" + "```\n" * scale(50_000),
    "defaults": "Args:\n    x: " + "Default is ---- " * scale(12_000),
    "entries without a heading": "Get.\n\n" + "x: y\n" * scale(160_000) + "z",
    "introductions": "Get.\n" + "Args of it:\nx: y\n" * scale(60_000) + "z",
    "deep introductions": "Get.\n" + "x: y\n  Args of it:\n" * scale(60_000) + "z",
    "lines of one entry": "Args:\n    x: y\n" + "        z\n" * scale(20_000),
}


@pytest.mark.parametrize("text", ENDLESS.values(), ids=ENDLESS)
def test_time(text: str) -> None:
    """No text of up to a million characters (a fifth by default), however regular, takes quadratic time."""
    begin, limit = time.process_time(), 15  # seconds of work; usual are under 1, and quadratic ones far more

    assert isinstance(read(text, ["x"]).description, str)
    assert limit > time.process_time() - begin


FRAGMENTS = st.sampled_from(
    ["Args:", "Returns:", "Parameters\n----------", "x : int", "*x", ":param x:", "@raise", "```", "\n", "\n    ", ":"]
)


@given(st.lists(FRAGMENTS | st.text(st.characters() | st.sampled_from("\t\r\f\ud800 \n:-*`()"))).map("".join))
@example("Args:\n\ud800: \udfff\n    x: \ud800")
@example("Args:\n    :exc:`or (x): y")
def test_any_text(text: str) -> None:
    """Whatever the text, a docstring is read from it."""
    made = read(text, ["x"])

    assert {"type": "object"}.items() <= made.parameters.items()
    assert "" not in unknown(made)


WORDS = st.lists(st.sampled_from(["node", "größe", "a:b", "(c)", "Returns:", "x - y", "http://z", "1."]), max_size=9)
NAME = st.from_regex(r"[a-zß][a-z_ß]{0,9}", fullmatch=True).filter(lambda name: not keyword.iskeyword(name))
LAYOUTS = {
    "google": ("Args:", "    {}: Qqq {}"),
    "google, not indented": ("Args:", "{}: Qqq {}"),
    "google, typed": ("Args:", "    {} (int): Qqq {}"),
    "numpy": ("Parameters\n----------", "{} : int\n    Qqq {}"),
    "rest": ("", ":param {}: Qqq {}"),
    "epytext": ("", "@param {}: Qqq {}"),
}


@given(st.sampled_from(list(LAYOUTS.values())), st.dictionaries(NAME, WORDS.map(" ".join)))
def test_nothing_leaks(layout: tuple[str, str], about: dict[str, str]) -> None:
    """In a well-formed docstring each text is at its name, and none is in the description."""
    section, entry = layout
    lines = [entry.format(name, text) for name, text in about.items()]

    made = read("\n".join(["Get.", "", section, *lines, "", "Returns:", "    All."]), about)

    assert {name: f"Qqq {text}".strip() for name, text in about.items()} == texts(made)
    assert "Qqq" not in f"{made.description} {made.output_schema}"


@given(st.text(st.characters() | st.sampled_from("\ud800\udc00\x1b\0\x85\n ")))
def test_sendable(text: str) -> None:
    """Whatever a docstring holds, what is read of it is UTF-8 without control characters."""
    made = read(f"{text}\n\nArgs:\n    x: {text}\n", ["x"])

    words = "".join([made.description, *texts(made).values()]).encode().decode()
    assert set() == {"\0", "\x1b", "\x85", "\r", "\t"} & set(words)
