"""Tool search: a model is sent a few tools of a large toolbox, and finds the others when it needs them.

    search = ToolSearch(box)
    Runner([*box, search], hooks=[search])

It works with every server. Responses has a search of its own, which `@tool(defer_loading=True)` uses.
"""

from __future__ import annotations

import re
import sqlite3
import threading
import weakref
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Any

from pydantic import StringConstraints

from toolkit._guards.options import check_texts, check_whole
from toolkit._messages import Message, ModelRequest, ToolMessage
from toolkit._schema.error_messages import shorten, suggest
from toolkit._schema.json_schema import as_mapping, iterate_schemas
from toolkit._toolbox import Toolbox, make_toolbox
from toolkit._tools.addable import Addable
from toolkit._tools.decorator import tool
from toolkit._tools.tool import Tool
from toolkit.errors import DefinitionError, ToolError

__all__ = ["ToolSearch"]

FIND_TOOLS = "find_tools"
REMEDY = (
    "Write Runner([*box, search], hooks=[search]). If the tools of the run have a prefix, so must those of ToolSearch."
)
TOP_K = 5
MAX_DESCRIPTION = 200  # characters of a tool's description in the result of a search
# Weights of a word in a tool's name, title, description, and in the names and texts of its parameters.
WEIGHTS = (5.0, 3.0, 2.0, 1.0)
# The least score of a hit, as a part of the best score; below it only words such as "the" are in common.
MIN_SHARE = 0.2
Query = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=1_000)]

_WORD = re.compile(r"[^\W_]+")
# The positions between words in camel case: getWeather, HTTPClient.
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_SELECT = f"""
    SELECT id, bm25(tools, 0, {", ".join(map(str, WEIGHTS))}) AS score FROM tools
    WHERE tools MATCH ? ORDER BY score LIMIT ?
"""  # noqa: S608  our own numbers
_FOUND = re.compile(r"^- (\S+?):", re.MULTILINE)


class ToolSearch:
    """A tool `find_tools`, and the hook that hides the tools which the model has not found.

    The tools found are read from the conversation, so a resumed run keeps them. Tools are ordered by BM25 over names,
    titles, descriptions and parameters (SQLite's FTS5). A tool that was not found cannot be called.

    Args:
        tools: The tools that are shown once they are found; those of a Toolbox at this time.
        always: Names of tools that are always shown.
        top_k: Maximum number of tools that one search finds.

    Raises:
        DefinitionError: `always` has a name that no tool has, or an option is invalid.

    Examples:
        >>> from toolkit import Runner
        >>> from toolkit.testing import ScriptedModel, call
        >>> def get_weather(city: str) -> str:
        ...     '''Get the weather of a city.'''
        ...     return "Sunny."
        >>> search = ToolSearch([get_weather])
        >>> calls = [call("find_tools", query="weather"), call("get_weather", city="Oslo")]
        >>> model = ScriptedModel([*calls, "It is sunny."])
        >>> Runner([get_weather, search], model=model, hooks=[search]).run("How is Oslo?").output
        'It is sunny.'
        >>> [[spec.name for spec in request.tools] for request in model.requests]
        [['find_tools'], ['find_tools', 'get_weather'], ['find_tools', 'get_weather']]
    """

    def __init__(self, tools: Toolbox | Iterable[Addable], *, always: Collection[str] = (), top_k: int = TOP_K) -> None:
        self._tools = dict(make_toolbox(tools).snapshot())
        self._always = _check_names(always, self._tools)
        self._top_k = check_whole("top_k", top_k, 1)
        self._lock = threading.Lock()
        rows = [_make_row(entry) for name, entry in self._tools.items() if name not in self._always]
        self._index = _build_index(rows)
        weakref.finalize(self, self._index.close).atexit = False  # a thread may still search then

    def __repr__(self) -> str:
        return f"<ToolSearch of {len(self._tools)} tools>"

    def search(self, query: str) -> list[str]:
        """Return the names of the tools that a query finds, the best first."""
        words = _split_words(query)
        if not words:
            return []
        with self._lock:
            rows = self._index.execute(_SELECT, (" OR ".join(f'"{word}"' for word in words), self._top_k)).fetchall()
        return [name for name, score in rows if score <= rows[0][1] * MIN_SHARE]  # the lower, the better

    @tool(title="Find Tools", effect="read")
    def find_tools(self, query: Query) -> str:
        """Find further tools by what they do.

        Use it if none of your tools fits. The tools that it finds can be called from then on.

        Args:
            query: What is to be done, in a few words.
        """
        found = self.search(query)
        if not found:
            raise ToolError("No tool was found. Try other words, or answer without one.")
        firsts = {name: self._tools[name].description.partition("\n\n")[0].replace("\n", " ") for name in found}
        lines = [f"- {name}: {shorten(first, MAX_DESCRIPTION)}" for name, first in firsts.items()]
        return "\n".join(["These tools can be called now:", *lines])

    def before_model(self, request: ModelRequest) -> ModelRequest:
        """Leave out the tools that the model has not found. Tools that it has found come last, in the order of finding.

        Raises:
            DefinitionError: The run has no `find_tools`, or none of the tools, so nothing could be found.
        """
        specs = {spec.name: spec for spec in request.tools}
        hidden = self._tools.keys() - self._always
        if not specs or not hidden:
            return request

        own = self.find_tools.title, self.find_tools.description
        searches = {name for name, spec in specs.items() if name == FIND_TOOLS or own == (spec.title, spec.description)}
        if not searches or hidden.isdisjoint(specs):
            missing = "its tools, by their names there" if searches else "its tool find_tools"
            raise DefinitionError(f"{self!r} is a hook of this run, which does not have {missing}. {REMEDY}")

        hidden -= {request.choice}
        shown = [spec for name, spec in specs.items() if name not in hidden]
        found = [name for name in _list_found(request.messages, searches) if name in hidden and name in specs]
        return replace(request, tools=(*shown, *[specs[name] for name in found]))


def _check_names(names: Collection[str], tools: Mapping[str, Any]) -> frozenset[str]:
    always = frozenset(check_texts("always", names))
    for name in sorted(always - tools.keys()):
        raise DefinitionError(f"always={name!r} is not a tool here{suggest(name, tools)}")
    return always


def _build_index(rows: Iterable[tuple[str, ...]]) -> sqlite3.Connection:
    index = sqlite3.connect(":memory:", check_same_thread=False)
    index.execute(
        "CREATE VIRTUAL TABLE tools USING fts5(id UNINDEXED, name, title, description, parameters, "
        "tokenize='porter unicode61')"
    )
    index.executemany("INSERT INTO tools VALUES (?, ?, ?, ?, ?)", rows)
    return index


def _make_row(entry: Tool[..., Any]) -> tuple[str, ...]:
    texts = (entry.name, entry.title or "", entry.description, " ".join(_collect_texts(entry.parameters)))
    return (entry.name, *[" ".join(_split_words(text)) for text in texts])


def _collect_texts(schema: Any) -> Iterator[str]:
    """Yield the names and descriptions of the parameters of a schema, nested ones included."""
    for node in iterate_schemas(schema):
        yield from (*as_mapping(node.get("properties")), *as_mapping(node.get("$defs")))
        if isinstance(text := node.get("description"), str):
            yield text


def _split_words(text: str) -> list[str]:
    return _WORD.findall(_CAMEL.sub(" ", text))


def _list_found(messages: Iterable[Message], searches: Collection[str]) -> list[str]:
    """List the names in the results of searches, in order, each once."""
    results = (message.text for message in messages if isinstance(message, ToolMessage) and message.name in searches)
    return list(dict.fromkeys(name for text in results for name in _FOUND.findall(text)))
