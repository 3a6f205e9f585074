"""Modules: calls that are executed apart from the run, with the imported values only."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

import openai
import pytest

from tests.servers import FakeServer
from toolkit import (
    ApprovalRequest,
    Decision,
    DefinitionError,
    Runner,
    RunResult,
    Tool,
    Toolbox,
    ToolCall,
    ToolContext,
    ToolError,
    ToolResult,
    Usage,
    tool,
)
from toolkit.calls import calls_schema
from toolkit.models import ModelRequest, UserMessage
from toolkit.schema import array, enum, string
from toolkit.schema import object as object_of
from toolkit.testing import ScriptedModel, call, reply

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
ANSWER = reply.text("Done.")
ANSWER_IN_CALLS = reply.text('{"calls": [], "output": "Done."}')


@tool
def keep(text: str) -> str:
    """Return a text, which is stored at the output path of the call."""
    return text


def call_later(box: Toolbox, *calls: ToolCall) -> list[ToolResult]:
    """Return the results of calls in a run, of which an earlier call has stored the city."""
    kept = ToolCall(name="keep", arguments='{"text": "Paris"}', output_path="city")
    model = ScriptedModel([kept, calls, "Done."])
    return [made.result for made in Runner(box | Toolbox([keep]), model=model).run("Go.").calls[1:]]


def in_place(runner: Runner, prompt: str, **options: Any) -> RunResult[Any]:
    return runner.run(prompt, **options)


def in_loop(runner: Runner, prompt: str, **options: Any) -> RunResult[Any]:
    return asyncio.run(runner.arun(prompt, **options))


BACKENDS = pytest.mark.parametrize("go", [in_place, in_loop])
BOTH = pytest.mark.parametrize(
    ("dialect", "replies"), [("chat", (ASKED, ANSWER)), ("calls", (LISTED, ANSWER_IN_CALLS))], ids=["native", "calls"]
)


def look_up(schema: Mapping[str, Any] = LOOK) -> Toolbox:
    """Make a toolbox with one tool that a module executes."""
    return Toolbox([Tool.from_schema("look", schema)])


def run_module(box: Toolbox, go: Callable[..., RunResult[Any]], dialect: Any, *replies: Any) -> RunResult[Any]:
    """Return the result of a run of `box` whose application has other values."""
    with FakeServer(replies) as server, openai.OpenAI(base_url=server.base_url, api_key="t", max_retries=0) as client:
        runner = Runner(box, model="fake", client=client, dialect=dialect, instructions="Mention hidden-rules.")
        return go(runner, "What of hidden-words?", deps="hidden-deps", shared=SHARED)


def call_module(call: ToolCall, box: Toolbox, **options: Any) -> ToolResult:
    """Return the result of a call as data, with the shared values."""
    return box.call_many([call], shared=SHARED, **options)[0]


# -- declarations


@pytest.mark.parametrize(
    ("meta", "by", "seen"),
    [
        ({}, "the model", ["city", "key", "trip"]),
        ({"_module": {"const": ""}}, "the model", ["city", "key", "trip"]),
        ({"_module": {"type": "string", "const": "m"}}, "m", []),
        ({"_module": "m"}, "m", []),
        ({"_delegate": {"const": "m"}}, "m", []),
        ({"_module": "m", "_imports": {"const": ["city", "trip.day"]}}, "m", ["city", "trip.day"]),
        ({"_module": "m", "_scopes": ["city"]}, "m", ["city"]),
        ({"_module": "m", "_imports": []}, "m", []),
        ({"_imports": ["city"]}, "the model", ["city"]),
    ],
    ids=["nothing", "empty", "constant", "bare", "delegate", "imports", "scopes", "none", "inline"],
)
def test_declarations(meta: Mapping[str, Any], by: str, seen: list[str]) -> None:
    """A schema declares the module and imports by `_module` and `_imports`, which are not parameters."""
    schema = {"type": "object", "properties": {**meta, "x": string(default="")}}

    def look(x: str, context: ToolContext) -> list[str]:
        return sorted(context.shared)

    box = Toolbox([Tool.from_schema("t", schema), Tool.from_schema("look", schema, look)])
    box.bindings.module("m", lambda *_: "m")
    written = "{}" if by == "m" else '{"_output": "the model"}'
    results = box.call_many([ToolCall(name="t", arguments=written), ToolCall(name="look")], shared=SHARED)

    assert [by, seen] == [result.value for result in results]
    assert {"x"} == box["look"].parameters["properties"].keys()


@pytest.mark.parametrize(
    "meta",
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
def test_wrong_declarations(meta: Mapping[str, Any]) -> None:
    """An invalid module or import is refused; the message names the tool, the place and the right form."""
    place = "_module" if "_module" in meta else "_imports"

    with pytest.raises(DefinitionError, match=rf"Tool.from_schema\('t'\): {place} is .*\. It is "):
        Tool.from_schema("t", {"type": "object", "properties": meta})


def test_options() -> None:
    """The decorator declares the same by `module` and `imports`."""

    @tool(module="research", imports=["city"])
    def look(about: str) -> list[str]: ...  # type: ignore[empty-body]

    box = Toolbox([look])
    box.bindings.module("research", lambda _, __, imports: [f"{name} {imports[name]}" for name in imports])

    assert ["city Paris"] == call_module(ToolCall(name="look", arguments='{"about": "x"}'), box).value


def test_wrong_options() -> None:
    """An option that is not a scope is refused, with the function's name."""
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
def test_explicit(go: Callable[..., RunResult[Any]], dialect: Any, replies: tuple[Any, ...]) -> None:
    """A function that is bound gets its parameters and the imports, and nothing else of the run."""
    box = look_up()

    @box.bind("look")
    def found(about: str, context: ToolContext[Any]) -> list[str]:
        return [about, repr(context.deps), json.dumps(dict(context.shared))]

    result = run_module(box, go, dialect, *replies)

    assert ["walls", "None", '{"city": "Paris"}'] == result.calls[0].result.value


def test_function_in_a_module() -> None:
    """A function with a body can run in a module too."""

    @tool(module="research")
    def seen(context: ToolContext[Any]) -> list[Any]:
        """Return what a call may see."""
        return [context.deps, dict(context.shared)]

    assert [None, {}] == call_module(call("seen"), Toolbox([seen]), context=ToolContext(deps="db")).value


def test_inline() -> None:
    """Without a module a call has `deps`, and of the shared values its imports if it has any."""

    @tool(imports=["trip"])
    def some(context: ToolContext[Any]) -> list[Any]:
        """Return what a call may see."""
        return [context.deps, dict(context.shared), context.shared["trip.day"]]

    assert ["db", {"trip": {"day": 3}}, 3] == call_module(
        call("some"), Toolbox([some]), context=ToolContext(deps="db")
    ).value


def read_imports(about: str, context: ToolContext[Any]) -> list[str]:
    """Return the imports."""
    return sorted(context.shared)


@pytest.mark.parametrize("asked", [(), ("city",), ("city", "trip.day")], ids=len)
def test_asked_imports(asked: tuple[str, ...]) -> None:
    """Of the imports that a model may ask for, a call gets those that it did ask for."""
    box = look_up(ASKING)
    box.bind("look", read_imports)

    assert [*asked] == call_module(ToolCall(name="look", arguments='{"about": "x"}', imports=asked), box).value


@BACKENDS
@pytest.mark.parametrize("dialect", ["chat", "calls"])
@pytest.mark.parametrize("asked", [["trip.day"], "trip.day"], ids=["list", "name"])
def test_asking_for_imports(go: Callable[..., RunResult[Any]], dialect: Any, asked: object) -> None:
    """A model asks by `_imports`, beside the arguments, with a list of names or one name."""
    box, arguments = look_up(ASKING), {"_imports": asked, "about": "x"}
    box.bind("look", read_imports)
    replies = {
        "chat": (reply.calls(("look", arguments)), ANSWER),
        "calls": (reply.text(json.dumps({"calls": [{"_tool": "look", **arguments}], "output": None})), ANSWER_IN_CALLS),
    }
    result = run_module(box, go, dialect, *replies[dialect])

    assert (["trip.day"], ("trip.day",)) == (result.calls[0].result.value, result.calls[0].call.imports)


@pytest.mark.parametrize(
    ("asked", "shared", "kind", "text"),
    [
        (("key",), SHARED, "invalid_arguments", "Invalid arguments: _imports: 'key' is not one of city, trip.day."),
        (("city",), {"town": 1}, "failed", "_imports: there is nothing at 'city'. Available: town"),
    ],
    ids=["not allowed", "not there"],
)
def test_refused_imports(asked: tuple[str, ...], shared: Mapping[str, Any], kind: str, text: str) -> None:
    """An import that is not allowed, or has no value, is an error for the model; the function is not called."""
    box = look_up(ASKING)
    box.bind("look", read_imports)
    result = box.call_many([ToolCall(name="look", arguments='{"about": "x"}', imports=asked)], shared=shared)[0]

    assert (kind, text) == (result.kind, result.text)


def test_gates_of_a_module() -> None:
    """Gates see the run's own deps, and the imports of the call."""
    seen: list[Any] = []
    box = look_up(ASKING)
    box.bind("look", read_imports)

    def approve(request: ApprovalRequest) -> bool:
        seen.append((request.context.deps, request.call.imports))
        return True

    asked = ToolCall(name="look", arguments='{"about": "x"}', imports=("city",))
    Runner(box, model=ScriptedModel([asked, "Done."]), approve=approve).run("x", deps="db", shared=SHARED)

    assert [("db", ("city",))] == seen


@pytest.mark.parametrize(
    ("schema", "asked", "imported"),
    [(LOOK, (), "city={'day': 4}"), (ASKING, ("city",), "city={'day': 4}"), (ASKING, ("trip.day",), "trip.day=4")],
    ids=["always", "asked for", "a part"],
)
def test_imports_are_waited_for(schema: Mapping[str, Any], asked: tuple[str, ...], imported: str) -> None:
    """With references, a call waits for the calls of the same response that store what it imports."""

    @tool
    def trip() -> dict[str, int]:
        return {"day": 4}

    box = Toolbox([Tool.from_schema("look", schema), trip], references=True)
    box.bindings.module("research", lambda _, __, imports: [f"{name}={value}" for name, value in imports.items()])
    look = ToolCall(name="look", arguments='{"about": "x"}', imports=asked)
    stored = [ToolCall(name="trip", output_path=path) for path in ("city", "trip")]

    assert [imported] == box.call_many([look, *stored])[0].value


def test_an_import_that_failed() -> None:
    """A call does not get an older value of an import if the call failed that should have stored a newer one."""

    @tool
    def find() -> str:
        raise ToolError("lost")

    box = Toolbox([Tool.from_schema("look", LOOK), find], references=True)
    calls = [ToolCall(name="look", arguments='{"about": "x"}'), ToolCall(name="find", output_path="city")]

    assert "Not run: it needs the result of find at 'city', which failed: lost" == call_later(box, *calls)[0].text


def test_imports_of_each_other() -> None:
    """Calls that import each other's results are executed one after the other."""
    box = Toolbox([Tool.from_schema("look", LOOK)], references=True)
    box.bindings.module("research", lambda _, __, imports: [str(imports["city"])])
    calls = [ToolCall(name="look", arguments='{"about": "x"}', output_path=path) for path in ("city.a", "city")]

    assert [["Paris"], ["{'a': ['Paris']}"]] == [result.value for result in call_later(box, *calls)]


def test_approval_of_imports() -> None:
    """An approval is for the imports of its call."""
    made = Tool.from_schema("look", ASKING)
    call = ToolCall(name="look", arguments='{"about": "x"}')
    imported: list[dict[str, Any]] = [{}, {"city": "Paris"}, {"city": "Rome"}]
    digests = {
        ApprovalRequest(made, {"about": "x"}, ToolContext(deps=None), call, values).digest for values in imported
    }

    assert 3 == len(digests)


@pytest.mark.parametrize("declared", [ASKING, LOOK], ids=["asked", "always"])
def test_approver_sees_imports(declared: dict[str, Any]) -> None:
    """An approver sees the values that a call imports, however it is asked."""
    seen = list[str]()

    def approver(request: ApprovalRequest) -> Decision:
        seen.append(str(request))
        return Decision.defer()

    box = Toolbox([Tool.from_schema("look", declared)], references=True)
    box.bindings.module("research", lambda _, __, imports: [str(imports["city"])])
    arguments = {"about": "x", **({"_imports": ["city"]} if declared is ASKING else {})}
    result = Runner(box, model=ScriptedModel([[call("look", **arguments)]]), approve=approver).run("Go", shared=SHARED)

    assert ['look({"about": "x"}) with {"city": "Paris"}'] == seen
    assert ['{"city": "Paris"}'] == [waiting.imports for waiting in result.pending]


# -- latent, by a runner


@BACKENDS
@BOTH
def test_runner(go: Callable[..., RunResult[Any]], dialect: Any, replies: tuple[Any, ...]) -> None:
    """A module's runner gets the tool, the arguments and the imports, and nothing else of the run."""
    box = look_up()
    with ScriptedModel([FOUND]) as model:
        box.bindings.module("research", Runner(model=model))
        result = run_module(box, go, dialect, *replies)

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
        """Record what a call may see."""
        seen.append((context.deps, dict(context.shared)))

    box = look_up()
    box.bindings.module("research", Runner([note], model=ScriptedModel([call("note"), FOUND])))
    go(Runner(box, model=ScriptedModel([call("look", about="x"), "Done."])), "x", deps="db", shared=SHARED)

    assert [(None, {"city": "Paris"})] == seen


def test_cost_of_a_module() -> None:
    """The result of a module's run, with its usage, is in the details of the result."""
    box = look_up()
    box.bindings.module("research", Runner(model=ScriptedModel([FOUND])))
    result = call_module(call("look", about="walls"), box)

    assert (Usage(requests=1), ["old", "grey"]) == (result.details.usage, result.details.output)


def test_typed_answer() -> None:
    """The answer of a module is converted to the tool's return annotation."""

    @tool(module="research")
    def born(name: str) -> set[int]: ...  # type: ignore[empty-body]

    box = Toolbox([born])
    box.bindings.module("research", Runner(model=ScriptedModel(["[1901]"])))

    assert {1901} == call_module(call("born", name="Ann"), box).value


def test_text_of_a_module() -> None:
    """Where a tool declares no output, or a text, any text is accepted."""
    box = look_up(object_of("Look facts up.", _module={"const": "research"}))
    box.bindings.module("research", Runner(model=ScriptedModel(["Nothing to see."])))

    assert "Nothing to see." == call_module(call("look"), box).value


@BACKENDS
def test_a_module_ends_with_the_run(go: Callable[..., RunResult[Any]]) -> None:
    """Cancelling a run cancels its modules: they send no further request."""

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
    """A module without a valid answer is an error of its call; its usage is in the details."""
    box = look_up()
    box.bindings.module("research", Runner(model=ScriptedModel([answer] * 3)))
    result = call_module(call("look", about="x"), box)

    assert ("failed", 3) == (result.kind, result.exception.result.usage.requests)  # type: ignore[union-attr]


def test_paused_module() -> None:
    """A module whose run pauses gives no answer; its state is in the details."""
    from toolkit.approvers import defer

    box = look_up()
    box.bindings.module("research", Runner([len], model=ScriptedModel([call("len", obj=[])]), approve=defer))
    result = call_module(call("look", about="x"), box)

    assert ("The module 'research' gave no answer: paused.", True) == (result.text, result.details.is_paused)


def test_modules_inside_each_other() -> None:
    """A module that calls its own tool is stopped."""
    box = Toolbox([Tool.from_schema("look", object_of(_module={"const": "deeper"}))])
    model = ScriptedModel(lambda request: "Up." if len(request.messages) > 1 else call("look"))
    box.bindings.module("deeper", Runner(box, model=model))
    box.call_many([call("look")])[0]

    assert 20 == len(model.requests)


# -- latent, by a function


def test_function() -> None:
    """A module's function gets the call, the tool and the imports."""
    box = look_up()

    @box.bindings.module("research")
    def answer(made: ToolCall, about: Tool[..., Any], imports: Mapping[str, Any]) -> list[str]:
        return [made.name, made.arguments, *made.imports, about.description, *map(str, imports.items())]

    asked = ToolCall(name="look", arguments='{"about": "walls"}', id="1", reasoning="hidden")

    assert callable(answer)
    assert ["look", '{"about":"walls"}', "city", "Look facts up.", "('city', 'Paris')"] == call_module(asked, box).value


@BACKENDS
@BOTH
def test_async_function(go: Callable[..., RunResult[Any]], dialect: Any, replies: tuple[Any, ...]) -> None:
    """A module's function may be async."""
    box = look_up()

    @box.bindings.module("research")
    async def answer(*_: Any) -> list[str]:
        await asyncio.sleep(0)
        return ["old"]

    assert ["old"] == run_module(box, go, dialect, *replies).calls[0].result.value


def test_function_that_promises() -> None:
    """A module's function may return an awaitable without being async itself."""
    box = look_up()
    box.bindings.module("research", lambda *_: asyncio.sleep(0, ["old"]))

    assert ["old"] == call_module(call("look", about="x"), box).value


def test_invalid_answer_of_a_function() -> None:
    """The answer of a module's function is validated."""
    box = look_up()
    box.bindings.module("research", lambda *_: {"walls": "old"})
    result = call_module(call("look", about="x"), box)

    assert ("failed", True) == (result.kind, str(result.text).startswith("The module 'research' gave what look does"))


def test_invalid_delegate() -> None:
    """A module is a runner or a function."""
    with pytest.raises(DefinitionError, match="A module is a Runner, or a function"):
        Toolbox().bindings.module("research", 5)  # type: ignore[call-overload]


# -- which it is


def test_nothing_answers() -> None:
    """Without a delegate, a call is an error that says what to do, and `check` reports it."""
    box = look_up()
    text = (
        "Nothing answers for the module 'research' of look. Add a runner by "
        "Toolbox.bindings.module('research', Runner(...)), or a function by Toolbox.bind('look', function)."
    )

    assert (text, ["no-module"]) == (
        call_module(call("look", about="x"), box).text,
        [found.code for found in box.check().at_least("error")],
    )


def test_output_of_the_outer_model() -> None:
    """An output that the run's own model writes is ignored."""
    box = look_up()
    box.bindings.module("research", lambda *_: ["old"])

    assert ["old"] == call_module(call("look", about="x", _output=["new"]), box).value


def test_bound_and_back() -> None:
    """A bound function replaces the module until it is unbound; neither is a finding."""
    box = look_up()
    box.bindings.module("research", lambda *_: ["module"])
    assert () == box.check().at_least("error")

    with box.override("look", lambda _: ["double"]):
        during = call_module(call("look", about="x"), box).value

    assert (["double"], ["module"]) == (during, call_module(call("look", about="x"), box).value)


@pytest.mark.parametrize(
    "other",
    [
        lambda box: box.filtered(lambda _: True),
        lambda box: box.prefixed(""),
        lambda box: box | Toolbox(),
        lambda box: Toolbox([*box]),
    ],
    ids=["filtered", "prefixed", "joined", "unpacked"],
)
def test_other_toolboxes(other: Callable[[Toolbox], Toolbox]) -> None:
    """A toolbox that is made of another one has its modules, too."""
    box = look_up()
    box.bindings.module("research", lambda *_: ["old"])

    assert ["old"] == call_module(call("look", about="x"), other(box)).value
