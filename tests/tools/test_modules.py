"""Modules: calls that are carried out apart, and see nothing of the run but what they import."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

import openai
import pytest

from toolkit import DefinitionError, Runner, RunResult, Tool, Toolbox, ToolContext, ToolError, tool
from toolkit._dialects.base import RunDialectName
from toolkit._execution.approval import ApprovalRequest
from toolkit._messages import ModelRequest, ToolCall, ToolResult, Usage, UserMessage
from toolkit._tools.scope import Scope
from toolkit._tools.shared_values import SharedValues
from toolkit.calls import calls_schema
from toolkit.schema import array, enum, string
from toolkit.schema import object as object_of
from toolkit.testing import FakeServer, ScriptedModel, call, reply

FACTS = array(string(), "What was found.")
LOOK = {
    "type": "object",
    "description": "Look facts up.",
    "properties": {
        "_module": {"type": "string", "const": "research"},
        "_imports": {"const": ["city"]},
        "about": {"type": "string", "description": "What about."},
        "_output": FACTS,
    },
    "required": ["about"],
}
ASKING = {**LOOK, "properties": {**LOOK["properties"], "_imports": array(enum("city", "trip.day"))}}  # type: ignore[dict-item]
SHARED = {"city": "Paris", "trip": {"day": 3}, "key": "hidden-value"}
FOUND = '{"result": ["old", "grey"]}'
PROMPT = 'Look facts up.\n\nArguments: {"about":"walls"}\n\nContext: {"city":"Paris"}'

ASKED = reply.calls(("look", {"about": "walls"}))
LISTED = reply.text('{"calls": [{"_tool": "look", "_activity": "", "_module": "research", "about": "walls"}]}')
SAID = reply.text("Done.")
SAID_IN_CALLS = reply.text('{"calls": [], "output": "Done."}')


def store_results(results: Mapping[str, Any]) -> SharedValues:
    """Make the shared values that earlier calls leave behind, by path."""
    shared = SharedValues()
    for path, value in results.items():
        shared.store_result(path, value)
    return shared


def in_place(runner: Runner, prompt: str, **options: Any) -> RunResult[Any]:
    return runner.run(prompt, **options)


def in_loop(runner: Runner, prompt: str, **options: Any) -> RunResult[Any]:
    return asyncio.run(runner.arun(prompt, **options))


BACKENDS = pytest.mark.parametrize("go", [in_place, in_loop])
BOTH = pytest.mark.parametrize(
    ("dialect", "replies"), [("chat", (ASKED, SAID)), ("calls", (LISTED, SAID_IN_CALLS))], ids=["native", "calls"]
)


def look_up(schema: Mapping[str, Any] = LOOK) -> Toolbox:
    """A toolbox with one tool that is carried out in a module."""
    return Toolbox([Tool.from_schema("look", schema)])


def served(box: Toolbox, go: Callable[..., RunResult[Any]], dialect: RunDialectName, *replies: Any) -> RunResult[Any]:
    """What came of a run of `box` that has secrets of its own."""
    with FakeServer(replies) as server, openai.OpenAI(base_url=server.base_url, api_key="t", max_retries=0) as client:
        runner = Runner(box, model="fake", client=client, dialect=dialect, instructions="Mention hidden-rules.")
        return go(runner, "What of hidden-words?", deps="hidden-deps", shared=SHARED)


def wanted(call: ToolCall, box: Toolbox, **options: Any) -> ToolResult:
    """What came of a call that is made as data, with the shared values."""
    return box.call_many([call], shared=SHARED, **options)[0]


# -- declarations


@pytest.mark.parametrize(
    ("said", "scope"),
    [
        ({}, None),
        ({"_module": {"const": ""}}, None),
        ({"_module": {"type": "string", "const": "m"}}, Scope("m")),
        ({"_module": "m"}, Scope("m")),
        ({"_delegate": {"const": "m"}}, Scope("m")),
        ({"_module": "m", "_imports": {"const": ["a", "b.c"]}}, Scope("m", ("a", "b.c"))),
        ({"_module": "m", "_scopes": ["a"]}, Scope("m", ("a",))),
        ({"_module": "m", "_imports": []}, Scope("m", ())),
        ({"_imports": ["a"]}, Scope("", ("a",))),
    ],
    ids=["nothing", "empty", "constant", "bare", "delegate", "imports", "scopes", "none", "inline"],
)
def test_declarations(said: Mapping[str, Any], scope: Scope | None) -> None:
    """A schema says by `_module` and `_imports` what a call may see, and takes no such arguments."""
    made = Tool.from_schema("t", {"type": "object", "properties": {**said, "x": string()}})

    assert (scope, {"x"}) == (made._scope, made._spec.parameters["properties"].keys() - {"_output"})


@pytest.mark.parametrize(
    "said",
    [
        {"_module": {"const": 5}},
        {"_module": {"type": "string"}},
        {"_module": ["m"]},
        {"_imports": "city"},
        {"_imports": {"type": "array"}},
        {"_imports": {"items": {"enum": [1]}}},
        {"_imports": {"const": ["a..b"]}},
        {"_scopes": {"const": "a"}},
    ],
    ids=str,
)
def test_wrong_declarations(said: Mapping[str, Any]) -> None:
    """What a scope cannot be is refused; the message names tool and place, and what to write."""
    place = "_module" if "_module" in said else "_imports"

    with pytest.raises(DefinitionError, match=rf"Tool.from_schema\('t'\): {place} is .*\. It is "):
        Tool.from_schema("t", {"type": "object", "properties": said})


def test_options() -> None:
    """The decorator says the same by `module` and `imports`."""

    @tool(module="research", imports=["city"])
    def look(about: str) -> list[str]: ...  # type: ignore[empty-body]

    assert Scope("research", ("city",)) == look._scope


def test_wrong_options() -> None:
    """An option that is no scope is refused, with the function's name."""
    with pytest.raises(DefinitionError, match=r"look: _module is 5\. It is the name of a module"):

        @tool(module=5)  # type: ignore[call-overload, untyped-decorator]
        def look() -> None: ...


def test_what_a_model_is_shown() -> None:
    """A model is asked for imports where it may choose, never for an output; the schema of a reply names the module."""
    box = look_up(ASKING)
    native = box.schemas()[0]["function"]["parameters"]["properties"]
    listed = calls_schema(box)["properties"]["calls"]["items"]["anyOf"][0]["properties"]

    assert (["_imports", "about"], ["city", "trip.day"], ["_tool", "_activity", "_module", "_imports", "about"]) == (
        [*native], native["_imports"]["items"]["enum"], [*listed]
    )  # fmt: skip


# -- explicit


@BACKENDS
@BOTH
def test_explicit(go: Callable[..., RunResult[Any]], dialect: RunDialectName, replies: tuple[Any, ...]) -> None:
    """A function that is bound gets its parameters and the imports, and nothing else of the run."""
    box = look_up()

    @box.bind("look")
    def found(about: str, context: ToolContext[Any]) -> list[str]:
        return [about, repr(context.deps), json.dumps(dict(context.shared))]

    result = served(box, go, dialect, *replies)

    assert ["walls", "None", '{"city": "Paris"}'] == result.calls[0].result.value


def test_function_in_a_module() -> None:
    """A function that is a tool itself is held apart likewise."""

    @tool(module="research")
    def seen(context: ToolContext[Any]) -> list[Any]:
        """Tell what is seen."""
        return [context.deps, dict(context.shared)]

    assert [None, {}] == wanted(call("seen"), Toolbox([seen]), context=ToolContext(deps="db")).value


def test_inline() -> None:
    """Outside of a module, a call keeps `deps`, and sees the imports where there is a list of them."""

    @tool(imports=["trip"])
    def some(context: ToolContext[Any]) -> list[Any]:
        """Tell what is seen."""
        return [context.deps, dict(context.shared), context.shared["trip.day"]]

    assert ["db", {"trip": {"day": 3}}, 3] == wanted(
        call("some"), Toolbox([some]), context=ToolContext(deps="db")
    ).value


def told(about: str, context: ToolContext[Any]) -> list[str]:
    """Tell what is imported."""
    return sorted(context.shared)


@pytest.mark.parametrize("asked", [(), ("city",), ("city", "trip.day")], ids=len)
def test_asked_imports(asked: tuple[str, ...]) -> None:
    """Of the imports that a model may ask for, a call gets those that it did ask for."""
    box = look_up(ASKING)
    box.bind("look", told)

    assert [*asked] == wanted(ToolCall(name="look", arguments='{"about": "x"}', imports=asked), box).value


@BACKENDS
@pytest.mark.parametrize("dialect", ["chat", "calls"])
def test_asking_for_imports(go: Callable[..., RunResult[Any]], dialect: RunDialectName) -> None:
    """A model asks by `_imports`, beside the arguments."""
    box, said = look_up(ASKING), {"_imports": ["trip.day"], "about": "x"}
    box.bind("look", told)
    replies = {
        "chat": (reply.calls(("look", said)), SAID),
        "calls": (reply.text(json.dumps({"calls": [{"_tool": "look", **said}], "output": None})), SAID_IN_CALLS),
    }
    result = served(box, go, dialect, *replies[dialect])

    assert (["trip.day"], ("trip.day",)) == (result.calls[0].result.value, result.calls[0].call.imports)


@pytest.mark.parametrize(
    ("asked", "shared", "kind", "text"),
    [
        (("key",), SHARED, "invalid_arguments", "Invalid arguments: _imports: 'key' is none of city, trip.day."),
        (("city",), {"town": 1}, "failed", "_imports: there is nothing at 'city'. There is: town"),
    ],
    ids=["not allowed", "not there"],
)
def test_imports_that_cannot_be(asked: tuple[str, ...], shared: Mapping[str, Any], kind: str, text: str) -> None:
    """What may not be imported, or is not there, is told to the model; nothing is carried out."""
    box = look_up(ASKING)
    box.bind("look", told)
    result = box.call_many([ToolCall(name="look", arguments='{"about": "x"}', imports=asked)], shared=shared)[0]

    assert (kind, text) == (result.kind, result.text)


def test_gates_stand_outside() -> None:
    """Who decides on a call sees what the application gave to the run, and what the call is to import."""
    seen: list[Any] = []
    box = look_up(ASKING)
    box.bind("look", told)

    def approve(request: ApprovalRequest) -> bool:
        seen.append((request.context.deps, request.call.imports))
        return True

    asked = ToolCall(name="look", arguments='{"about": "x"}', imports=("city",))
    Runner(box, model=ScriptedModel([asked, "Done."]), approve=approve).run("x", deps="db", shared=SHARED)

    assert [("db", ("city",))] == seen


@pytest.mark.parametrize(
    ("schema", "asked", "told"),
    [(LOOK, (), "city={'day': 4}"), (ASKING, ("city",), "city={'day': 4}"), (ASKING, ("trip.day",), "trip.day=4")],
    ids=["always", "asked for", "a part"],
)
def test_imports_are_waited_for(schema: Mapping[str, Any], asked: tuple[str, ...], told: str) -> None:
    """Where results are kept, a call waits for those of the same answer that give what it imports."""

    @tool
    def trip() -> dict[str, int]:
        return {"day": 4}

    box = Toolbox([Tool.from_schema("look", schema), trip], references=True)
    box.bindings.module("research", lambda _, __, imports: [f"{name}={value}" for name, value in imports.items()])
    look = ToolCall(name="look", arguments='{"about": "x"}', imports=asked)
    kept = [ToolCall(name="trip", output_path=path) for path in ("city", "trip")]

    assert [told] == box.call_many([look, *kept])[0].value


def test_an_import_that_failed() -> None:
    """A call does not get an older value of an import where the call failed that was to give a newer one."""

    @tool
    def find() -> str:
        raise ToolError("lost")

    box = Toolbox([Tool.from_schema("look", LOOK), find], references=True)
    calls = [ToolCall(name="look", arguments='{"about": "x"}'), ToolCall(name="find", output_path="city")]

    assert (
        "Not run: it needs the result of find at 'city', which failed: lost"
        == box.call_many(calls, shared=store_results(SHARED))[0].text
    )


def test_imports_of_each_other() -> None:
    """Calls that keep their results where each other imports from are carried out, one after the other."""
    box = Toolbox([Tool.from_schema("look", LOOK)], references=True)
    box.bindings.module("research", lambda _, __, imports: [str(imports["city"])])
    calls = [ToolCall(name="look", arguments='{"about": "x"}', output_path=path) for path in ("city.a", "city")]

    assert [["Paris"], ["{'a': ['Paris']}"]] == [
        result.value for result in box.call_many(calls, shared=store_results(SHARED))
    ]


def test_a_yes_is_for_the_imports() -> None:
    """A decision on a call holds for what it imports."""
    made = Tool.from_schema("look", ASKING)
    calls = [ToolCall(name="look", arguments='{"about": "x"}', imports=asked) for asked in ((), ("city",))]
    digests = {ApprovalRequest(made, {"about": "x"}, ToolContext(deps=None), one).digest for one in calls}

    assert 2 == len(digests)


# -- latent, by a runner


@BACKENDS
@BOTH
def test_runner(go: Callable[..., RunResult[Any]], dialect: RunDialectName, replies: tuple[Any, ...]) -> None:
    """A module's runner is told the tool, the arguments and the imports, and nothing else of the run."""
    box = look_up()
    with ScriptedModel([FOUND]) as model:
        box.bindings.module("research", Runner(model=model))
        result = served(box, go, dialect, *replies)

    assert (["old", "grey"], (UserMessage(PROMPT),), (), False) == (
        result.calls[0].result.value,
        model.requests[0].messages,
        model.requests[0].tools,
        "hidden" in repr(model.requests),
    )


@BACKENDS
def test_tools_of_a_module(go: Callable[..., RunResult[Any]]) -> None:
    """The tools of a module's runner see the imports, and no `deps`."""
    seen: list[Any] = []

    def note(context: ToolContext[Any]) -> None:
        """Note what is seen."""
        seen.append((context.deps, dict(context.shared)))

    box = look_up()
    box.bindings.module("research", Runner([note], model=ScriptedModel([call("note"), FOUND])))
    go(Runner(box, model=ScriptedModel([call("look", about="x"), "Done."])), "x", deps="db", shared=SHARED)

    assert [(None, {"city": "Paris"})] == seen


def test_cost_of_a_module() -> None:
    """What came of a module's run, and what it cost, stands in the details of the result."""
    box = look_up()
    box.bindings.module("research", Runner(model=ScriptedModel([FOUND])))
    result = wanted(call("look", about="walls"), box)

    assert (Usage(requests=1), ["old", "grey"]) == (result.details.usage, result.details.output)


def test_typed_answer() -> None:
    """What a module gives is of the type that the tool's annotation says."""

    @tool(module="research")
    def born(name: str) -> set[int]: ...  # type: ignore[empty-body]

    box = Toolbox([born])
    box.bindings.module("research", Runner(model=ScriptedModel(["[1901]"])))

    assert {1901} == wanted(call("born", name="Ann"), box).value


def test_text_of_a_module() -> None:
    """Where a tool says nothing of its output, or that it is a text, any text will do."""
    box = look_up(object_of("Look facts up.", _module={"const": "research"}))
    box.bindings.module("research", Runner(model=ScriptedModel(["Nothing to see."])))

    assert "Nothing to see." == wanted(call("look"), box).value


@BACKENDS
def test_a_module_ends_with_the_run(go: Callable[..., RunResult[Any]]) -> None:
    """A run that is called off takes its modules along: they ask their model nothing more."""

    def give_up(_: ModelRequest) -> ToolCall:
        outer.cancel()
        return call("nothing")

    box, inner = look_up(), ScriptedModel([give_up])
    box.bindings.module("research", Runner(model=inner))
    outer = Runner(box, model=ScriptedModel([call("look", about="x")]))
    result = go(outer, "x", shared=SHARED)

    assert ("cancelled", 1) == (result.finish_reason, len(inner.requests))


@pytest.mark.parametrize("answer", ["[1", '{"result": "old"}'], ids=["broken", "of another type"])
def test_runner_without_an_answer(answer: str) -> None:
    """A module that gives nothing that the tool gives makes an error of its call; what it cost is not lost."""
    box = look_up()
    box.bindings.module("research", Runner(model=ScriptedModel([answer] * 3)))
    result = wanted(call("look", about="x"), box)

    assert ("failed", 3) == (result.kind, result.exception.result.usage.requests)  # type: ignore[union-attr]


def test_paused_module() -> None:
    """A module whose run waits for somebody gives no answer; its state stands in the details."""
    from toolkit.approvers import defer

    box = look_up()
    box.bindings.module("research", Runner([len], model=ScriptedModel([call("len", obj=[])]), approve=defer))
    result = wanted(call("look", about="x"), box)

    assert ("The module 'research' gave no answer: paused.", True) == (result.text, result.details.is_paused)


def test_modules_inside_each_other() -> None:
    """A module that has its own tool to call comes to an end."""
    box = Toolbox([Tool.from_schema("look", object_of(_module={"const": "deeper"}))])
    model = ScriptedModel(lambda request: "Up." if len(request.messages) > 1 else call("look"))
    box.bindings.module("deeper", Runner(box, model=model))
    box.call_many([call("look")])[0]

    assert 16 == len(model.requests)


# -- latent, by a function


def test_function() -> None:
    """A module's function is given the call, the tool and the imports."""
    box = look_up()

    @box.bindings.module("research")
    def answer(made: ToolCall, about: Tool[..., Any], imports: Mapping[str, Any]) -> list[str]:
        return [made.name, made.arguments, *made.imports, about.description, *map(str, imports.items())]

    asked = ToolCall(name="look", arguments='{"about": "walls"}', id="1", reasoning="hidden")

    assert ["look", '{"about":"walls"}', "city", "Look facts up.", "('city', 'Paris')"] == wanted(asked, box).value


@BACKENDS
@BOTH
def test_async_function(go: Callable[..., RunResult[Any]], dialect: RunDialectName, replies: tuple[Any, ...]) -> None:
    """A module's function may be async."""
    box = look_up()

    @box.bindings.module("research")
    async def answer(*_: Any) -> list[str]:
        await asyncio.sleep(0)
        return ["old"]

    assert ["old"] == served(box, go, dialect, *replies).calls[0].result.value


def test_function_that_promises() -> None:
    """A module's function may give a promise without being async itself."""
    box = look_up()
    box.bindings.module("research", lambda *_: asyncio.sleep(0, ["old"]))

    assert ["old"] == wanted(call("look", about="x"), box).value


def test_function_that_gives_something_else() -> None:
    """What a module's function gives is checked."""
    box = look_up()
    box.bindings.module("research", lambda *_: {"walls": "old"})
    result = wanted(call("look", about="x"), box)

    assert ("failed", True) == (result.kind, str(result.text).startswith("The module 'research' gave what look does"))


def test_no_carrier() -> None:
    """A module is a runner or a function."""
    with pytest.raises(DefinitionError, match="A module is a Runner, or a function"):
        Toolbox().bindings.module("research", 5)  # type: ignore[call-overload]


# -- which it is


def test_nothing_answers() -> None:
    """Without anything that answers, a call is an error that says what to do, and `check` says it before."""
    box = look_up()
    text = (
        "Tool not found: module not found: research. Toolbox.bindings.module('research', Runner(...)) gives one; "
        "Toolbox.bind('look', function) does without."
    )

    assert (text, ["no-module"]) == (
        wanted(call("look", about="x"), box).text,
        [found.code for found in box.check().at_least("error")],
    )


def test_output_of_the_outer_model() -> None:
    """What the run's own model writes as the output of such a call is overlooked."""
    box = look_up()
    box.bindings.module("research", lambda *_: ["old"])

    assert ["old"] == wanted(call("look", about="x", _output=["new"]), box).value


def test_bound_and_back() -> None:
    """What is bound comes before the module, for as long as it is bound."""
    box = look_up()
    box.bindings.module("research", lambda *_: ["module"])
    with box.override("look", lambda _: ["double"]):
        during = wanted(call("look", about="x"), box).value

    assert (["double"], ["module"]) == (during, wanted(call("look", about="x"), box).value)


@pytest.mark.parametrize(
    "other",
    [lambda box: box.filtered(lambda _: True), lambda box: box.prefixed(""), lambda box: box | Toolbox()],
    ids=["filtered", "prefixed", "joined"],
)
def test_other_toolboxes(other: Callable[[Toolbox], Toolbox]) -> None:
    """A toolbox that is made of another one has its modules, too."""
    box = look_up()
    box.bindings.module("research", lambda *_: ["old"])

    assert ["old"] == wanted(call("look", about="x"), other(box)).value
