"""A toolbox contains tools by name, in order, and shares nothing with another one."""

from __future__ import annotations

import asyncio
import copy
import pickle
import re
import subprocess
import sys
import threading
import types
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.threads import together
from toolkit import (
    ApprovalRequest,
    DefinitionError,
    Deny,
    DuplicateToolError,
    Failed,
    FatalError,
    Runner,
    Tool,
    Toolbox,
    ToolCall,
    ToolContext,
    ToolkitError,
    ToolNotFoundError,
    ToolResult,
    tool,
)
from toolkit.approvers import approve_all, defer
from toolkit.builtin import memory_tool
from toolkit.sources.a2a import A2A
from toolkit.sources.retrievers import retriever_tool
from toolkit.testing import ScriptedModel


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def double(a: int) -> int:
    """Double a number."""
    return 2 * a


async def later(a: int) -> int:
    """Give a number back."""
    return a


@tool
def lookup(city: str) -> ToolResult:
    """Look a city up."""
    return ToolResult(error=f"city not found: {city}")


class Widgets:
    """Widgets of one store."""

    def __init__(self, key: str = "") -> None:
        self.key = key
        self.made: list[str] = []

    @tool
    def create(self, name: str) -> str:
        """Create a widget."""
        self.made.append(name)
        return f"{self.key}{name}"

    @tool
    def listed(self) -> list[str]:
        """List all widgets."""
        return self.made

    @tool(name="delete")
    async def remove(self, name: str) -> None:
        """Delete a widget."""
        if name not in self.made:
            raise Failed(f"no widget {name}")
        self.made.remove(name)

    def helper(self) -> None:
        """Not for a model."""


class More(Widgets):
    @tool
    @classmethod
    def kind(cls) -> str:
        return cls.__name__

    @staticmethod
    @tool
    def colors() -> list[str]:
        return ["red"]


def test_order() -> None:
    """Names and schemas stand in the order of adding."""
    box = Toolbox([lookup, add])
    box.add(double, later)

    assert ("lookup", "add", "double", "later") == box.names == tuple(made.name for made in box)
    assert list(box.names) == [each["function"]["name"] for each in box.schemas()]


def test_empty() -> None:
    """A toolbox without tools has no schemas and is still a toolbox."""
    box = Toolbox()

    assert ([], (), 0, "<Toolbox, empty>") == (box.schemas(), box.names, len(box), repr(box))


def test_schemas() -> None:
    """A schema has the name, description and parameters; titles are for people."""
    parameters = {
        "type": "object",
        "properties": {"a": {"type": "integer"}},
        "required": ["a"],
        "additionalProperties": False,
    }
    function = {"name": "double", "description": "Double a number.", "parameters": parameters}

    assert [{"type": "function", "function": function}] == Toolbox([tool(double, title="Twice")]).schemas()


def test_unknown_dialect() -> None:
    """An unknown dialect is refused; the error lists the known ones and suggests the nearest."""
    with pytest.raises(ValueError, match=r"'chta' is not one of 'chat', .*\. Did you mean 'chat'\?$"):
        Toolbox().schemas("chta")  # type: ignore[arg-type]


def test_openai_is_no_dialect() -> None:
    """The name of the company is answered with the names of its two APIs."""
    with pytest.raises(ValueError, match='Chat Completions is "chat", Responses is "responses"'):
        Toolbox().schemas("openai")  # type: ignore[arg-type]


def test_schemas_are_cached() -> None:
    """Schemas are rendered once, as long as the tools are the same."""
    box = Toolbox([add])

    assert box.schemas()[0] is box.schemas()[0]


def test_schemas_after_a_change() -> None:
    """Schemas follow the tools, and a list that was returned before does not change."""
    box = Toolbox([add])
    before = box.schemas()
    box.add(double)

    assert (1, 2) == (len(before), len(box.schemas()))


def test_duplicate() -> None:
    """A name that is taken is refused; the message names both owners and the ways out, and nothing is added."""
    box = Toolbox([add])
    message = (
        r'duplicate tool name "add": native tool conflicts with an existing native tool\. The new one is the function '
        r".*test_toolbox\.double\(\), the existing one the function .*test_toolbox\.add\(\)\. "
        r"Give one another name=, put a prefix with Toolbox\.prefixed\(\), or .*replace=True"
    )

    with pytest.raises(DuplicateToolError, match=message):
        box.add(later, tool(name="add")(double))
    assert ("add",) == box.names


AGENT = Runner(model=ScriptedModel([]), name="Clerk")


@pytest.mark.parametrize(
    ("made", "kind", "origin"),
    [
        (AGENT.as_tool(), "sub-agent", "the sub-agent 'subagent_Clerk'"),
        (tool(AGENT.as_tool("clerk", "books"), approve=True), "sub-agent", "the sub-agent 'clerk'"),
        (retriever_tool(lambda query: [query], "docs"), "retriever", "the retriever 'docs'"),
        (memory_tool(lambda text, kind: None), "memory", "the memory tool 'save_memory'"),
    ],
    ids=["sub-agent", "gated", "retriever", "memory"],
)
def test_duplicate_kinds(made: Tool[..., Any], kind: str, origin: str) -> None:
    """Sub-agents, retrievers and the memory are named as what they are, not as functions of the library."""
    declared = Tool.from_schema(made.name, {"type": "object", "properties": {}})
    text = f'duplicate tool name "{made.name}": native tool conflicts with an existing {kind} tool'

    with pytest.raises(DuplicateToolError, match=rf"{text}\. The new one is Tool.from_schema.*one {origin}\."):
        Toolbox([made, declared])
    assert (origin, origin) == (made.origin, Toolbox([made]).prefixed("my_")[f"my_{made.name}"].origin)


def test_none() -> None:
    """None among tools is refused: a function that makes a tool may have returned nothing."""
    with pytest.raises(DefinitionError, match=r"^None is not a tool. Pass a function \(f, not f\(\)\)"):
        Toolbox([add, None])


def test_duplicate_at_once() -> None:
    """Two tools of one name that come together are refused, too."""
    with pytest.raises(DuplicateToolError):
        Toolbox([add, add])


def test_replace() -> None:
    """A replaced tool has the place of the old one."""
    box = Toolbox([add, double])
    box.replace(tool(name="add")(later))

    assert (("add", "double"), 7) == (box.names, box.call("add", '{"a": 7}').value)


def test_a_source_replaces_no_tool() -> None:
    """A source is added, as its tools may change; `replace` says so."""

    class Source:
        def current_tools(self) -> tuple[Tool[..., Any], ...]:
            return (tool(add),)

    with pytest.raises(DefinitionError, match=r"Source object .* is a source, .*: pass it to Toolbox\.add\(\)\."):
        Toolbox([add]).replace(Source())


def test_removed_source_leaves_the_tools_of_others() -> None:
    """A tool that took the place of one of a source stays when the source is removed."""

    class Source:
        def current_tools(self) -> tuple[Tool[..., Any], ...]:
            return (tool(add), tool(double))

    box, source = Toolbox(), Source()
    box.add(source)
    box.add(tool(name="add")(later), replace=True)
    box.remove(source)

    assert ("add",) == box.names


def test_add_or_replace() -> None:
    """Tools may be added in place of those of their names, or behind the others."""
    box = Toolbox([add, double])
    box.add(tool(name="add")(later), lookup, replace=True)

    assert (("add", "double", "lookup"), 7) == (box.names, box.call("add", '{"a": 7}').value)


NAMELESS: dict[str, Callable[[Toolbox], object]] = {
    "look up": lambda box: box["ad"],
    "remove": lambda box: box.remove("ad"),
    "replace": lambda box: box.replace(tool(name="ad")(add)),
    "unbind": lambda box: box.unbind("ad"),
    "override": lambda box: box.override("ad", double).__enter__(),
    "activity": lambda box: box.bindings.activity_of("ad"),
}


@pytest.mark.parametrize("ask", NAMELESS.values(), ids=NAMELESS)
def test_wrong_name(ask: Callable[[Toolbox], object]) -> None:
    """A wrong name is an error of this library and of a mapping, whose text has no quotes around it."""
    box = Toolbox([add])
    box.bind("add", add)
    with pytest.raises(ToolNotFoundError, match=r"'ad'[^']*; did you mean 'add'\? Available: add$") as error:
        ask(box)

    assert (True, True) == (isinstance(error.value, ToolkitError), isinstance(error.value, KeyError))


class Search:
    """A tool that is written as an object."""

    name = "search"
    title = "Search the library"
    description = "Search."
    parameters: Mapping[str, Any] = {"properties": {"query": {"type": "string"}}, "required": ["query"]}
    effect = "read"

    def execute(self, query: str, context: ToolContext[Any]) -> str:
        """Search."""
        return f"{query} for {context.deps}"


class Guarded(Search):
    """One that a gate guards, and that takes all arguments as one."""

    approve = True

    def authorize(self, *_: object) -> Deny:
        """Deny all calls."""
        return Deny("Closed.")

    def execute(self, arguments: dict[str, Any]) -> str:  # type: ignore[override]  # the other form
        """Search."""
        return f"{arguments}"


class Methodical(Search):
    """One whose description is a method."""

    def description(self) -> str:  # type: ignore[override]
        """Describe the tool."""
        return "Search."


def test_tool_object() -> None:
    """An object with name, parameters and execute is a tool, with its title, description, effect and gates."""
    box = Toolbox([Search()])
    (made,) = box

    assert ("Search the library", "Search.", "read") == (made.title, made.description, made.settings.effect)
    assert "trees for Ann" == box.call("search", {"query": "trees"}, ToolContext(deps="Ann")).text
    assert "missing, but required" in str(box.call("search").text)
    assert "Closed." in str(Toolbox([Guarded()]).call("search", {"query": "trees"}, approve=approve_all).text)


def test_source_stays() -> None:
    """A tool that is renamed or bound to another function retains its source."""
    box = Toolbox([Tool.from_schema("search", Search.parameters), add]).prefixed("my_")
    box.bind("my_search", lambda query: query)
    box.bind("my_add", add)

    assert ["Tool.from_schema('search')", add.origin] == [made.origin for made in box]


def test_replace_nothing() -> None:
    """A tool that is missing cannot be replaced; the message lists the others, and nothing changes."""
    box = Toolbox([add, double])

    with pytest.raises(DefinitionError, match="no tool 'later'. Available: add, double"):
        box.replace(tool(name="add")(double), later)
    assert [add] == [made for made in box if made.name == "add"]


def test_remove() -> None:
    """A removed tool is gone: a call of it is a call of an unknown one."""
    box = Toolbox([add, double])
    box.remove("add")

    assert (("double",), None) == (box.names, box.get("add"))
    assert "unknown tool: 'add'. Available: double" == box.call("add").text


def test_remove_nothing() -> None:
    """What is not there cannot be removed, and nothing else is."""
    box = Toolbox([add])

    with pytest.raises(KeyError, match="no tool 'ad'; did you mean 'add'"):
        box.remove("add", "ad")
    assert ("add",) == box.names


def test_look_up() -> None:
    """A tool is found by name, and asked for by name or itself."""
    box = Toolbox([add])

    assert add is box["add"] is box.get("add")
    assert (True, True, False, False) == ("add" in box, add in box, "double" in box, lookup in box)


def test_look_up_fails() -> None:
    """A wrong name raises the error of a mapping, with what there is."""
    with pytest.raises(KeyError, match="There is no tool 'x'. Available: add"):
        Toolbox([add])["x"]


def test_prefixed() -> None:
    """A prefix makes a new toolbox; the first one does not change."""
    box = Toolbox([add, double])
    named = box.prefixed("math_")

    assert (("math_add", "math_double"), ("add", "double")) == (named.names, box.names)
    assert 3 == named.call("math_add", '{"a": 1, "b": 2}').value


def test_prefixed_too_long() -> None:
    """Names that get too long are shortened and stay apart."""
    box = Toolbox([tool(name="a" * 60)(double), tool(name="a" * 59 + "b")(double)]).prefixed("server_")

    assert 2 == len(set(box.names))
    assert {64} == set(map(len, box.names))


def test_filtered() -> None:
    """A filter makes a new toolbox of the tools for which it returns True."""
    assert ("double",) == Toolbox([add, double]).filtered(lambda made: made.name != "add").names
    with pytest.raises(TypeError, match=r"^filtered\(\['add'\]\) takes a sync function: "):
        Toolbox([add, double]).filtered(["add"])  # type: ignore[arg-type]


def test_filtered_by_an_async_function() -> None:
    """An async filter is refused: its coroutine would be true for each tool."""

    async def keep(_: object) -> bool:
        return False

    given: Any = keep
    with pytest.raises(TypeError, match="takes a sync function: "):
        Toolbox([add, double]).filtered(given)


def test_merged() -> None:
    """Two toolboxes make a third, where no name meets its like."""
    one, other = Toolbox([add]), Toolbox([double])

    assert (("add", "double"), ("add",), ("double",)) == ((one | other).names, one.names, other.names)
    with pytest.raises(DuplicateToolError):
        _ = one | one


def test_join_with_a_list() -> None:
    """Only toolboxes are joined; Python says so."""
    tools: Any = [add]

    with pytest.raises(TypeError, match="for |: 'Toolbox' and 'list'"):
        _ = Toolbox([add]) | tools


def test_snapshot() -> None:
    """A snapshot does not follow later changes, and cannot be changed."""
    box = Toolbox([add])
    snapshot = box.snapshot()
    box.add(double)

    assert {"add": add} == dict(snapshot)
    with pytest.raises(TypeError):
        snapshot["double"] = add  # type: ignore[index]


def test_iteration_during_a_change() -> None:
    """A loop over a toolbox sees the tools of its start."""
    box = Toolbox([add])

    for _ in box:
        box.add(double)
    assert 2 == len(box)


def test_representation() -> None:
    """The representation lists the names."""
    assert "<Toolbox of 2: add, double>" == repr(Toolbox([add, double]))


def test_no_tool() -> None:
    """What is not a function is refused, and nothing is added."""
    box = Toolbox()

    with pytest.raises(DefinitionError, match="'add' is not a tool"):
        box.add(double, "add")
    assert 0 == len(box)


@pytest.mark.parametrize("family", [[add], (add,), Toolbox([add])], ids=["list", "tuple", "toolbox"])
def test_list_of_tools(family: Any) -> None:
    """A list among the tools is refused, and the message says how to unpack it."""
    with pytest.raises(DefinitionError, match=r"Unpack a list or a Toolbox: \[\*tools\]"):
        Toolbox([double, family])


@pytest.mark.parametrize(
    ("tools", "message"),
    [
        ({"add": add}, "made of a list of tools, not of {'add': "),
        ([{"type": "function"}], "For a JSON Schema write Tool.from_schema"),
    ],
    ids=["dict of tools", "schema"],
)
def test_dict_in_place_of_a_tool(tools: Any, message: str) -> None:
    """A dict of tools and a bare JSON Schema are refused with what to write."""
    with pytest.raises((TypeError, DefinitionError), match=re.escape(message)):
        Toolbox(tools)


@pytest.mark.parametrize("wrong", [0, add, ToolCall(name="add")], ids=["position", "tool", "call"])
def test_tool_by_something_else_than_its_name(wrong: Any) -> None:
    """A tool is found by its name alone, and the message says so."""
    box = Toolbox([add])
    for find in (box.__getitem__, box.call, box.remove):
        with pytest.raises(TypeError, match="finds its tools by name, not by .*: pass"):
            find(wrong)


@pytest.mark.parametrize(
    "use",
    [
        lambda context: Toolbox([add]).call("add", "{}", context),
        lambda context: asyncio.run(Toolbox([add]).acall("add", "{}", context)),
        lambda context: Toolbox([add]).call_many([], context),
        lambda context: add.invoke('{"a": 1, "b": 2}', context),
    ],
    ids=["call", "acall", "call_many", "invoke"],
)
def test_deps_in_place_of_a_context(use: Callable[[Any], Any]) -> None:
    """Deps that are not in a context are refused with what to write, and are not shown."""
    with pytest.raises(TypeError, match=r"is of type dict: write ToolContext\(deps=\.\.\.\)") as error:
        use({"password": "canary"})

    assert "canary" not in str(error.value)
    with pytest.raises(TypeError, match="is of type dict"):
        use({})


def test_repr_of_many_tools() -> None:
    """The representation of a toolbox has ten names at most."""
    made = [Tool.from_schema(f"tool{number}", {}, print) for number in range(300)]

    assert "<Toolbox of 300: " + ", ".join(f"tool{number}" for number in range(10)) + ", ...>" == repr(Toolbox(made))


def one(name: str) -> Tool[..., Any]: ...  # type: ignore[empty-body]
def some() -> list[Tool[..., Any]]: ...  # type: ignore[empty-body]
def bare() -> Tool: ...  # type: ignore[empty-body]


one_by_type, some_by_type = (types.FunctionType(made.__code__, globals(), made.__name__) for made in (one, some))
one_by_type.__annotations__ = {"name": str, "return": Tool[..., Any]}
some_by_type.__annotations__ = {"return": list[Tool[..., Any]]}


@pytest.mark.parametrize("maker", [one, some, bare, one_by_type, some_by_type])
def test_maker(maker: Callable[..., Any]) -> None:
    """A function that makes tools is none: its parentheses were forgotten."""
    with pytest.raises(DefinitionError, match=rf"returns tools, .*: call it, {maker.__name__}\(\.\.\.\)"):
        Toolbox([maker])


def test_no_maker() -> None:
    """A function whose return annotation is another class of this name, or unknown, can be a tool."""

    class Tool:
        """A hammer."""

    def lend() -> Tool: ...  # type: ignore[empty-body]
    def lend_unknown() -> other.Tool: ...  # type: ignore[name-defined]  # noqa: F821

    assert ("lend", "lend_unknown", "lookup") == Toolbox([lend, lend_unknown, lookup]).names


def test_unbound() -> None:
    """A method without its instance is refused; the message names the remedy."""
    message = (
        r"Widgets\.create\(\) is a method and needs its instance: add instance\.create, or .*from_object\(instance\)"
    )
    with pytest.raises(DefinitionError, match=message):
        Toolbox([Widgets.create])


def test_from_object() -> None:
    """An object's decorated methods are its tools, in the order in which they are written; they share its state."""
    store = Widgets()
    box = Toolbox.from_object(store)
    box.call("create", '{"name": "a"}')

    assert (("create", "listed", "delete"), ["a"]) == (box.names, box.call("listed").value)
    assert ["a"] == store.made


class Proxy:
    """An object that has every attribute, as clients of remote procedures do."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *_: name

    @tool
    def ping(self) -> str:
        """Ping."""
        return "pong"


def test_from_object_with_every_attribute() -> None:
    """An object is no source of tools because it makes up an attribute of that name."""
    assert ("ping",) == Toolbox.from_object(Proxy()).names == Toolbox([Proxy()]).names


def test_from_object_inherited() -> None:
    """Inherited methods come first; class and static methods are tools as well."""
    box = Toolbox.from_object(More())

    assert ("create", "listed", "delete", "kind", "colors") == box.names
    assert ["More", ["red"]] == [box.call("kind").value, box.call("colors").value]


def test_from_object_prefixed() -> None:
    """Two objects of one class meet in one toolbox under prefixes, and answer differently."""
    box = Toolbox.from_object(Widgets("a:"), "a_") | Toolbox.from_object(Widgets("b:"), "b_")

    assert ["a:x", "b:x"] == [box.call(name, {"name": "x"}).value for name in ("a_create", "b_create")]
    assert [["x"], ["x"]] == [box.call("a_listed").value, box.call("b_listed").value]


def test_from_object_without_tools() -> None:
    """An object without decorated methods is refused, and the message names the remedy."""
    with pytest.raises(DefinitionError, match="No method of Opaque is a tool: decorate those .* with @tool"):
        Toolbox.from_object(type("Opaque", (), {})())


def through(backend: str) -> Callable[..., ToolResult]:
    """Call by the sync or by the async backend."""
    if backend == "call":
        return lambda box, *args: box.call(*args)
    return lambda box, *args: asyncio.run(box.acall(*args))


BACKENDS = pytest.mark.parametrize("backend", ["call", "acall"])


@BACKENDS
def test_call(backend: str) -> None:
    """A call by name returns the typed value, and the text for the model."""
    assert ToolResult(3, "3") == through(backend)(Toolbox([add]), "add", '{"a": 1, "b": "2"}')


@BACKENDS
@pytest.mark.parametrize("words", [b'{"a": 5}', {"a": 5}, '{"a": 5}'], ids=["bytes", "mapping", "text"])
def test_call_of_an_async_tool(backend: str, words: Any) -> None:
    """Sync and async tools are called alike, with arguments in any form."""
    assert 5 == through(backend)(Toolbox([later]), "later", words).value


@BACKENDS
def test_call_fails(backend: str) -> None:
    """A failure that a tool returns is a result like one that it raises."""
    box = Toolbox([lookup, *Toolbox.from_object(Widgets())])
    texts = ["city not found: Ur", "no widget x"]

    assert texts == [
        through(backend)(box, "lookup", {"city": "Ur"}).text,
        through(backend)(box, "delete", {"name": "x"}).text,
    ]


@BACKENDS
def test_call_of_broken_arguments(backend: str) -> None:
    """Arguments that are not JSON are an error, also where a server has decoded what is not text."""
    for words in ('{"city": 5', {"city": "\ud800"}, b'{"city": "\xff"}'):
        assert "invalid_arguments" == through(backend)(Toolbox([lookup]), "lookup", words).kind


UNKNOWN = {
    "near": ("ad", "unknown tool: 'ad'; did you mean 'add'? Available: add, double"),
    "far": ("weather", "unknown tool: 'weather'. Available: add, double"),
    "empty": ("", "unknown tool: the call names none. Available: add, double"),
    "with a newline": ("add\n", "unknown tool: 'add\\n'; did you mean 'add'? Available: add, double"),
    "half a character": ("\ud800", "unknown tool: '\\ud800'. Available: add, double"),
    "huge": ("z" * 10_000, f"unknown tool: '{'z' * 100}'. Available: add, double"),
}


@BACKENDS
@pytest.mark.parametrize(("name", "text"), UNKNOWN.values(), ids=UNKNOWN)
def test_call_of_an_unknown_tool(name: str, text: str, backend: str) -> None:
    """A name that is not there is a result that suggests near names and lists what there is."""
    result = through(backend)(Toolbox([add, double]), name)

    assert (text, "not_found") == (result.text, result.kind)


def test_call_of_an_unknown_tool_of_many() -> None:
    """The list of names is limited; the error of an empty toolbox says that it is empty."""
    box = Toolbox(tool(name=f"tool_number_{number}")(double) for number in range(1000))

    assert 500 > len(str(box.call("x").text))
    assert "unknown tool: 'x'. Available: none" == Toolbox().call("x").text


@BACKENDS
def test_fatal(backend: str) -> None:
    """A fatal error leaves the call."""

    def end() -> None:
        raise FatalError("end")

    with pytest.raises(FatalError, match="end"):
        through(backend)(Toolbox([end]), "end")


@BACKENDS
def test_indescribable(backend: str) -> None:
    """A tool that cannot be described is the developer's mistake, not the model's."""

    def odd(it: object, client: Widgets) -> None: ...

    with pytest.raises(DefinitionError, match=r"odd\(\): parameter 'client' cannot be described"):
        through(backend)(Toolbox([odd]), "odd")


@BACKENDS
def test_context(backend: str) -> None:
    """A tool gets the context of its call, with the name by which it was called."""

    def who(context: ToolContext[str | None]) -> list[Any]:
        return [context.deps, context.tool_name]

    box = Toolbox([tool(name="me")(who)])

    assert [["db", "me"], [None, "me"]] == [
        through(backend)(box, "me", "{}", ToolContext(deps="db")).value,
        through(backend)(box, "me").value,
    ]


class Shelf:
    """An object with a tool, and gates that are methods."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.asked: list[str] = []

    def _may(self, _: Tool[..., Any], arguments: Mapping[str, Any], __: ToolContext) -> bool:
        return bool(arguments["places"] <= self.limit)

    def _ask(self, request: ApprovalRequest) -> bool:
        self.asked.append(request.arguments_json)
        return False  # no approval is needed

    @tool(authorize=_may, approve=_ask)
    def take(self, places: int) -> str:
        """Take places."""
        return f"{places} of {self.limit}"


class OtherTool:
    """A tool of smolagents, whose function has other parameters than itself; LlamaIndex' own is alike."""

    def __call__(self, *args: Any, sanitize: bool = False, **kwargs: Any) -> Any: ...


class KeywordTool:
    """A tool of DSPy, of the same kind."""

    def __call__(self, **kwargs: Any) -> Any: ...


class Counter:
    """Counts."""

    __name__ = "count"

    def __call__(self, start: int = 0, *more: Any, **options: Any) -> Any: ...


def test_object() -> None:
    """An object adds its decorated methods."""
    assert ["take"] == [made.name for made in Toolbox([Shelf(3)])]
    assert "start" in Toolbox([Counter()])["count"].parameters["properties"]


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        (Shelf, r"The tools of Shelf need an instance: write Shelf\(\.\.\.\)"),
        (A2A, r"The tools of A2A need an instance: write A2A\(\.\.\.\)"),
        (Search, r"The tools of Search need an instance: write Search\(\.\.\.\)"),
        (Methodical(), r"Methodical\.description is a method: make it an attribute or a property\."),
        (
            object(),
            "is not a tool. Pass a function .*, an object whose methods are decorated with @tool, or one with",
        ),
        (OtherTool(), r"does not say which arguments it takes, only \*args or \*\*kwargs: pass the function that"),
        (KeywordTool(), "does not say which arguments it takes"),
    ],
)
def test_no_object(item: object, reason: str) -> None:
    """A class with decorated methods, and an object without one, are refused with the way out."""
    with pytest.raises(DefinitionError, match=reason):
        Toolbox([item])


@pytest.mark.parametrize(("places", "text"), [(2, "2 of 3"), (4, "Tool execution was denied by authorization policy.")])
def test_gates_that_are_methods(places: int, text: str) -> None:
    """Gates that are methods of the tool's class are bound to the tool's instance."""
    shelf = Shelf(3)

    assert text == Toolbox([shelf]).call("take", {"places": places}).text
    assert [f'{{"places": {places}}}'] * (places == 2) == shelf.asked


class Queue:
    """An object whose tool has a limit on calls at the same time, and a gate that is a method."""

    def _may(self, *_: Any) -> bool:
        return True

    @tool(authorize=_may, max_parallel=1)
    def join(self) -> str:
        """Join."""
        return "joined"


def test_limit_is_shared_by_instances() -> None:
    """A tool's own limit on parallel calls counts for all instances, with gates that are methods too."""
    one, other = Queue().join, Queue().join

    assert one.settings.semaphore is other.settings.semaphore is not None


def test_changes_from_many_threads() -> None:
    """Tools that several threads add, replace and remove at the same time are all there, or all gone."""
    interval = sys.getswitchinterval()
    spare = Tool.from_schema("spare", {"type": "object"})
    box = Toolbox([replace(spare, name=f"old_{number}") for number in range(2_400)])

    def change(thread: int) -> None:
        for number in range(100):
            box.add(replace(spare, name=f"new_{thread}_{number}"))
            box.replace(replace(spare, name=f"old_{3 * (100 * thread + number)}", title="new"))
            box.remove(f"old_{3 * (100 * thread + number) + 1}")

    threads = [threading.Thread(target=change, args=[thread]) for thread in range(8)]
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)

    assert 2_400 == len(box)
    assert 800 == sum(each.title == "new" for each in box)


def test_tool_that_another_thread_removes() -> None:
    """A tool that is removed at the same time is found, or missing as any other: there is no third way."""
    box = Toolbox([add, double])

    def look() -> None:
        for _ in range(10_000):
            with suppress(ToolNotFoundError):
                assert "double" == box["double"].name
            with suppress(ToolNotFoundError):
                assert "double" == box.bindings.activity_of("double")

    def change() -> None:
        for _ in range(10_000):
            box.remove("double")
            box.add(double)

    together(look, change, look)


def test_filter_during_a_removal() -> None:
    """A tool that is removed while a filter looks at another one is still in the copy."""
    box = Toolbox([add, double])

    def keep(each: Tool[..., Any]) -> bool:
        if each.name == "add":
            box.remove("double")
        return True

    assert ("add", "double") == box.filtered(keep).names
    assert ("add",) == box.names


def test_sizes_are_of_one_moment() -> None:
    """Each size is that of the tool by whose name it is given, although one is removed meanwhile."""
    wide = Tool.from_schema("wide", {"type": "object", "properties": {"x" * 1_000: {}}})
    box, left = Toolbox([add, wide]), ["add"]

    def choose() -> None:
        if left:
            box.remove(left.pop())

    box.bindings.choose("wide", choose)

    assert box.sizes()["wide"] > 1_000


def _approve_small(request: ApprovalRequest) -> bool:
    return int(request.arguments["number"]) > 9


def test_gates_of_methods_that_are_functions() -> None:
    """A gate of a method may be a function from elsewhere, which gets no instance; of a class method, one of these."""

    class Numbers:
        @classmethod
        def _may(cls, *_: Any) -> bool:
            return cls is Numbers

        @tool(approve=_approve_small)
        def double(self, number: int) -> int:
            return 2 * number

        @tool(authorize=_may)
        @classmethod
        def half(cls, number: int) -> int:
            return number // 2

    box = Toolbox([Numbers()])

    assert [2, None, 4] == [
        box.call(name, {"number": number}).value for name, number in (("double", 1), ("double", 10), ("half", 8))
    ]


class Strict(Shelf):
    """A shelf that allows nothing."""

    def _may(self, _: Tool[..., Any], arguments: Mapping[str, Any], __: ToolContext) -> bool:
        return not arguments


def test_gate_that_is_overridden() -> None:
    """A subclass that overrides a gate is asked by its own."""
    assert "denied" in str(Toolbox([Strict(9)]).call("take", {"places": 1}).text)


class Desk:
    """An object whose rules are methods of each kind."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.asked: list[str] = []

    @staticmethod
    def _may(_: Tool[..., Any], arguments: Mapping[str, Any], __: ToolContext) -> bool:
        return bool(arguments["count"] < 3)

    @classmethod
    def _ask(cls, request: ApprovalRequest) -> bool:
        return cls is Desk  # approval is needed

    def _retry(self, error: BaseException) -> bool:
        self.asked.append(self.name)
        return True

    def _also(self, *_: Any) -> bool:
        self.asked.append(f"may {self.name}")
        return True

    @tool(authorize=_may, approve=_ask, retry_on=_retry, effect="read", retries=1, retry_delay=0.001)
    def sign(self, count: int) -> str:
        """Sign."""
        raise OSError(self.name)

    seal = tool(sign, name="seal", authorize=_also)


class Home(Desk):
    """A desk where nobody has to approve."""


def test_rules_that_are_methods() -> None:
    """Static and class methods are bound, and so is a retry rule, and what two tools ask."""
    ann, bob = Home("Ann"), Home("Bob")
    texts = [
        Toolbox([desk]).call(name, {"count": count}).text
        for desk, name, count in [(Desk("Eve"), "sign", 1), (ann, "sign", 1), (ann, "sign", 3), (bob, "seal", 2)]
    ]

    assert ["approval", "OSError", "denied", "OSError"] == [
        next(word for word in ("approval", "denied", "OSError") if word in text) for text in texts
    ]
    assert (["Ann"], ["may Bob", "Bob"]) == (ann.asked, bob.asked)


@tool(effect="destructive", approve=True, authorize=lambda *_: False)
def wipe(x: str) -> str:
    """Wipe."""
    return f"wiped {x}"


def test_partial_of_a_tool() -> None:
    """A partial of a tool has its gates and its effect, as a tool and where it is bound."""
    box = Toolbox([partial(wipe, x="all"), tool(partial(wipe), name="other"), double])
    box.bind("double", partial(wipe, x="all"))
    texts = [box.call(name, arguments).text for name, arguments in {"wipe": "{}", "other": '{"x": "a"}'}.items()]

    assert ["destructive"] * 3 == [made.settings.effect for made in box]
    assert [True, True] == ["denied" in str(text) for text in texts]


ASKED = (
    "Tool approval could not be completed because no approval handler is configured; "
    "continuing without running the tool."
)
WIPE = ToolCall(name="erase", arguments='{"x": "all"}')


@tool(approve=True)
def erase(x: str) -> str:
    """Erase."""
    return f"erased {x}"


def call_erase(box: Toolbox, **options: Any) -> list[ToolResult]:
    """Call it in each way."""
    return [
        box.call(WIPE.name, WIPE.arguments, **options),
        asyncio.run(box.acall(WIPE.name, WIPE.arguments, **options)),
        *box.call_many([WIPE], **options),
        *asyncio.run(box.acall_many([WIPE], **options)),
    ]


@pytest.mark.parametrize("references", [False, True])
def test_call_with_approval(references: bool) -> None:
    """A call without a run is asked about as in a run; without an approver the error says what to pass."""
    box = Toolbox([erase], references=references)

    assert ["erased all"] * 4 == [result.text for result in call_erase(box, approve=approve_all)]
    assert [f"{ASKED} Pass approve=..., such as approve=Console()."] * 4 == [one.text for one in call_erase(box)]
    assert ["pending"] * 4 == [result.kind for result in call_erase(box, approve=defer)]
    with pytest.raises(TypeError, match="approve=True is not a function of an ApprovalRequest, such as Console"):
        box.call("erase", WIPE.arguments, approve=True)  # type: ignore[arg-type]


def test_used_toolbox_is_copied() -> None:
    """A toolbox that was used can be pickled and copied, as one that was not; a deep copy has tools of its own."""
    box = Toolbox([add])
    before = box.schemas("chat")
    copies = pickle.loads(pickle.dumps(box)), copy.deepcopy(box)  # noqa: S301
    box.remove("add")

    assert [before, before] == [each.schemas("chat") for each in copies]


def test_answer_in_another_dialect() -> None:
    """A reply whose calls are of another dialect is refused, not taken for one without calls."""
    box = Toolbox([add])
    wanted = {"type": "function", "id": "c", "function": {"name": "add", "arguments": '{"a": 1, "b": 2}'}}
    ours = {"role": "assistant", "content": None, "tool_calls": [wanted]}
    theirs = {"content": [{"type": "tool_use", "id": "c", "name": "add", "input": {"a": 1, "b": 2}}]}

    with pytest.raises(ValueError, match="The calls in this reply are of the dialect 'anthropic', not 'chat'"):
        box.answer(theirs)
    with pytest.raises(ValueError, match="The calls in this reply are of the dialect 'chat', not 'anthropic'"):
        box.answer(ours, "anthropic")
    assert 1 == len(box.answer(ours)) == len(box.answer(theirs, "anthropic"))
    assert [] == box.answer({"role": "assistant", "content": "Hi."})


def test_answer_to_langchain() -> None:
    """Calls of LangChain, alone or in their message, are refused, not taken for a reply without calls."""
    called = {"name": "add", "args": {"a": 1, "b": 2}, "id": "c", "type": "tool_call"}

    for reply in (called, [called], types.SimpleNamespace(content="", tool_calls=[called])):
        with pytest.raises(ValueError, match=r"calls of LangChain: its agents take to_langchain\(box\)"):
            Toolbox([add]).answer(reply)


@pytest.mark.parametrize("reply", ["It is 3.", None])
def test_answer_to_a_text(reply: Any) -> None:
    """The text of a reply, which has no calls, is not taken for the reply; only with `calls` it is one."""
    with pytest.raises(TypeError, match=r"takes the whole reply of the model, and not its text"):
        Toolbox([add]).answer(reply)

    assert [] == Toolbox([add]).answer("It is 3.", "calls")


def test_answer_with_approval() -> None:
    """The calls of a reply are asked about, too; a model reads nothing of the application's options."""
    box, reply = Toolbox([erase]), {"tool_calls": [{"id": "1", "function": vars(WIPE) | {"id": "1"}}]}
    answers = [box.answer(reply), asyncio.run(box.aanswer(reply)), box.answer(reply, approve=approve_all)]
    answers.append(asyncio.run(box.aanswer(reply, approve=approve_all)))

    assert [ASKED, ASKED, "erased all", "erased all"] == [answer[0]["content"] for answer in answers]


CELLS = r"""
import importlib, json, pathlib, sys
from toolkit import DuplicateToolError, Toolbox, tool
box = Toolbox()
for text in ("old", "new"):
    exec(f"@tool\ndef look() -> str:\n    'Look.'\n    return {text!r}\nbox.add(look)")
print(len(box), box.call("look", "{}").text)

class Shop:
    @tool
    def buy(self) -> str:
        "Buy."

shop = Shop()
for part in (shop, shop, json.dumps, json.dumps):
    box.add(part)
sys.path.insert(0, "")
pathlib.Path("reloaded.py").write_text("def find(): 'old'")
import reloaded
box.add(reloaded.find)
pathlib.Path("reloaded.py").write_text("def find(): 'new text'")
box.add(importlib.reload(reloaded).find)
print(len(box), box["find"].description)
for other in (tool(name="look")(lambda: "other"), Shop()):
    try:
        box.add(other)
    except DuplicateToolError:
        print("refused")
"""


def test_cell_that_runs_again(tmp_path: Path) -> None:
    """Where code is typed, what is added or defined again takes its own place; another of its name is refused."""
    (tmp_path / "cells.py").write_text(CELLS, encoding="utf-8")
    typed = subprocess.run([sys.executable, "-c", CELLS], cwd=tmp_path, capture_output=True, text=True, check=False)
    script = subprocess.run([sys.executable, tmp_path / "cells.py"], capture_output=True, text=True, check=False)

    assert ("1 new\n4 new text\nrefused\nrefused\n", True) == (typed.stdout, "DuplicateToolError" in script.stderr)
