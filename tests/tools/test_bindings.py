"""Functions that execute declared tools: bound, chosen, overridden, or none; and the findings of `check` about them."""

# A body that is left out is what these tests are about.
# mypy: disable-error-code="empty-body"
# ruff: noqa: PIE790

from __future__ import annotations

import asyncio
import copy
import os
import pickle
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import date
from enum import Enum
from functools import partial
from operator import attrgetter
from typing import Any

import pytest
from pydantic import BaseModel

from tests.threads import together
from toolkit import DefinitionError, Runner, Tool, Toolbox, ToolContext, tool
from toolkit.calls import calls_schema
from toolkit.testing import ScriptedModel, call

OSLO = {"city": "Oslo"}
FILLED = '{"city": "Oslo", "_output": "from the model"}'


@tool
def weather(city: str) -> str:
    """Check the weather.

    Args:
        city: City name.
    """
    ...


@tool
def double(number: int) -> int:
    """Double a number.

    Args:
        number: Any.
    """
    return 2 * number


def real(city: str) -> str:
    return f"real {city}"


def fake(city: str) -> str:
    return f"fake {city}"


class Guide:
    @tool
    def describe(self, city: str) -> str:
        """Describe a city."""
        return city


@tool(isolate="process")
def distance(city: str) -> str:
    """Measure a distance."""
    ...


class Trip(BaseModel):
    """A trip."""

    city: str


def mail(**options: Any) -> Tool[..., Any]:
    """The seed's tool for mails."""
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {
            "recipient": {"type": "string"},
            "subject": {"type": "string"},
            "_output": {"type": "object", "properties": {"sent": {"type": "boolean"}}, "required": ["sent"]},
        },
        "required": ["recipient", "subject"],
    }
    return Tool.from_schema("sendEmail", schema, **options)


def call_filled(box: Toolbox, name: str = "weather") -> Any:
    """Return the value of a call with an output of the model."""
    return box.call(name, FILLED).value


def codes(box: Toolbox) -> list[tuple[str, str, str]]:
    return [(found.level, found.parameter, found.code) for found in box.check() if found.code != "undocumented"]


# Two tables


def test_latent_by_default() -> None:
    """Without anything bound a declared tool is left to the model."""
    box = Toolbox([weather])

    assert ("", "from the model") == (box.bindings.activity_of("weather"), call_filled(box))


def test_plain_function_has_its_own_name() -> None:
    """A tool with a body is executed by its own function."""
    assert "double" == Toolbox([double]).bindings.activity_of("double")


@pytest.mark.parametrize("before", [True, False], ids=["before the tool", "after it"])
def test_tables_are_filled_in_any_order(before: bool) -> None:
    """A function may be bound before its tool is there, or after."""
    box = Toolbox()
    steps: list[Callable[[], Any]] = [lambda: box.bind("weather", real), lambda: box.add(weather)]
    for step in steps if before else reversed(steps):
        step()

    assert ("weather", "real Oslo") == (box.bindings.activity_of("weather"), call_filled(box))


def test_bind_as_a_decorator() -> None:
    """`bind` decorates a function, and returns it unchanged."""
    box = Toolbox([weather])

    @box.bind("weather")
    def measured(city: str) -> str:
        return f"measured {city}"

    assert "measured Oslo" == call_filled(box) == measured("Oslo")


def test_rebinding_swaps() -> None:
    """A function that is bound replaces the one that was bound under the same name."""
    box = Toolbox([weather])
    box.bind("weather", real)
    box.bind("weather", fake)

    assert "fake Oslo" == call_filled(box)


def test_names_of_bound_functions() -> None:
    """The names that functions are bound under are listed, whether or not a tool has that name."""
    box = Toolbox([weather])
    box.bind("weather", real)
    box.bind("smtp", fake)
    box.bind("weather", fake)

    assert ["weather", "smtp"] == list(box.bindings.names)
    box.unbind("weather")
    assert ["smtp"] == list(box.bindings.names)


ROUTE = Tool.from_schema(
    "route",
    {"type": "object", "properties": {"to": {"type": "object"}, "items": {"type": "integer"}}, "required": ["to"]},
)


def take_call(call):  # type: ignore[no-untyped-def]
    return f"{call.to.city} {call['items']}"


async def take_call_later(call):  # type: ignore[no-untyped-def]
    return f"{call.to.city} {call['items']}"


def take_all(call, tool, context):  # type: ignore[no-untyped-def]
    return f"{call.to.city} {call['items']} {tool.name} {context.tool_name}"


def take_all_typed(call: Any, made: Tool[..., Any], context: ToolContext) -> str:
    return f"{call.to.city} {call['items']} {made.name} {context.tool_name}"


@pytest.mark.parametrize("function", [take_call, take_call_later, take_all, take_all_typed])
@pytest.mark.parametrize("in_box", [True, False])
def test_function_of_a_call(function: Callable[..., Any], in_box: bool) -> None:
    """A function of the call reads its arguments as attributes, and may take the tool and the context too."""
    made = ROUTE if in_box else Tool.from_schema("route", ROUTE.parameters, function)
    box = Toolbox([made])
    if in_box:
        box.bind("route", function)
    result = box.call("route", {"to": {"city": "Oslo"}, "items": 2})

    assert result.text in ("Oslo 2", "Oslo 2 route route")
    assert [] == [found for found in box.check() if found.level == "error"]


def test_argument_that_a_call_does_not_have() -> None:
    """An attribute that is not an argument is an AttributeError that lists those that there are."""
    box = Toolbox([ROUTE])
    box.bind("route", lambda call: call.via)
    exception = box.call("route", {"to": {}}).exception

    assert isinstance(exception, AttributeError)
    assert "The call has no argument 'via'. It has: to." == str(exception)


def test_function_of_a_typed_call() -> None:
    """A function of call, tool and context gets the instance of a tool that is declared by a type."""
    made = Tool.from_models("trip", Trip, str)
    box = Toolbox([made])
    box.bind("trip", lambda trip, tool, context: f"{trip.city} {tool.name} {context.tool_name}")

    assert "Oslo trip trip" == box.call("trip", OSLO).text


def test_unbind_leaves_the_tool_to_the_model() -> None:
    """Without its function a tool is latent again."""
    box = Toolbox([weather])
    box.bind("weather", real)
    box.unbind("weather")

    assert "from the model" == call_filled(box)
    with pytest.raises(KeyError, match="Nothing is bound as 'weather'"):
        box.unbind("weather")


def test_tool_as_an_implementation() -> None:
    """A tool with a function can be bound to another one; a tool without one cannot."""
    box = Toolbox([weather])
    box.bind("weather", tool(real))

    assert "real Oslo" == call_filled(box)
    with pytest.raises(DefinitionError, match="has no function of its own, so it cannot be bound"):
        box.bind("weather", weather)


@pytest.mark.parametrize(
    ("name", "function", "text"),
    [
        ("weather", 5, "A tool needs a callable, not 5"),
        ("", real, "'' is not a name to bind a function under"),
        (5, real, "5 is not a name to bind a function under"),
        ("weather", Guide.describe, r"is a method and needs its instance: bind instance\.describe"),
    ],
    ids=["no function", "no name", "number", "method without its instance"],
)
def test_nothing_to_bind(name: Any, function: Any, text: str) -> None:
    """An object that cannot be called, and a name that is not text, are refused at once."""
    box = Toolbox([weather])

    with pytest.raises(DefinitionError, match=text):
        box.bind(name, function)
    with pytest.raises((DefinitionError, KeyError)):
        box.override(name, function).__enter__()


@pytest.mark.parametrize("put", ["bind", "bindings.module"])
def test_decorator_without_a_name(put: str) -> None:
    """A decorator without a name is refused: it would bind nothing, and replace the function."""
    decorator = attrgetter(put)(Toolbox([weather]))

    with pytest.raises(DefinitionError, match=r"is not a name to bind .*, also in a decorator: @box\.bind"):
        decorator(real)


@pytest.mark.parametrize("put", ["bind", "bindings.module"])
def test_none_is_nothing_to_bind(put: str) -> None:
    """None is refused: it is not taken for a missing function."""
    with pytest.raises(DefinitionError, match="not None|is None"):
        attrgetter(put)(Toolbox([weather]))("weather", None)


def test_bound_function_in_the_place_of_a_body() -> None:
    """A bound function replaces a tool's own, which is called again once it is unbound."""
    box = Toolbox([double])
    box.bind("double", lambda number: 20 * number)
    bound = box.call("double", {"number": 1}).value
    box.unbind("double")

    assert (20, 2) == (bound, box.call("double", {"number": 1}).value)


def test_description_stays() -> None:
    """Binding changes a tool's output and handler, and neither its description nor its parameters."""
    box = Toolbox([weather])
    latent = calls_schema(box)["properties"]["calls"]["items"]["anyOf"][0]
    box.bind("weather", real)
    explicit = calls_schema(box)["properties"]["calls"]["items"]["anyOf"][0]
    assert ("", "weather") == (latent["properties"]["_activity"]["const"], explicit["properties"]["_activity"]["const"])
    latent["properties"] |= {"_activity": explicit["properties"]["_activity"]}
    del latent["properties"]["_output"]
    latent["required"].remove("_output")

    assert explicit == latent


# Which of several


RESOLVED: dict[str, tuple[str | None, str | Callable[[], str | None] | None, list[str], str]] = {
    "explicit": ("geo", None, ["geo", "sendEmail"], "geo"),
    "explicit, unbound": ("geo", None, ["sendEmail"], "geo"),
    "explicit, left to the model": ("", None, ["sendEmail"], ""),
    "same name": (None, None, ["sendEmail", "geo"], "sendEmail"),
    "nothing": (None, None, ["geo"], ""),
    "chosen": ("geo", "other", ["geo", "other"], "other"),
    "chosen by a function": (None, lambda: "other", ["sendEmail", "other"], "other"),
    "chosen for the model": (None, "", ["sendEmail"], ""),
    "no choice made": ("geo", lambda: None, ["geo"], "geo"),
}


@pytest.mark.parametrize(("says", "chosen", "bound", "wanted"), RESOLVED.values(), ids=RESOLVED)
def test_resolution(says: str | None, chosen: Any, bound: list[str], wanted: str) -> None:
    """The order is: a choice, the schema's own activity, a function of the tool's name, the model."""
    box = Toolbox([mail() if says is None else mail(activity=says)])
    box.bindings.choose("sendEmail", chosen)
    for name in bound:
        box.bind(name, lambda call: {"sent": True})

    assert wanted == box.bindings.activity_of("sendEmail")


def test_explicit_activity_that_is_not_there() -> None:
    """A tool whose activity is not bound returns an error, and is sent with the name of the activity."""
    box = Toolbox([mail(activity="smtp")])
    shown = calls_schema(box)["properties"]["calls"]["items"]["anyOf"][0]["properties"]
    result = box.call("sendEmail", {"recipient": "ann", "subject": "Hi", "_output": {"sent": True}})

    assert ("activity not found: smtp", "not_found") == (result.text, result.kind)
    assert "smtp" == shown["_activity"]["const"]
    assert "_output" not in shown


def test_environments(monkeypatch: pytest.MonkeyPatch) -> None:
    """A choice may look at the environment, each time again."""
    box = Toolbox([mail()])
    box.bind("smtp", lambda recipient, subject: {"sent": recipient == "ann"})
    box.bind("mock", lambda call: {"sent": True})
    box.bindings.choose("sendEmail", lambda: {"prod": "smtp", "dev": "mock"}.get(os.environ["APP"], ""))
    words = {"recipient": "bob", "subject": "Hi", "_output": {"sent": True}}
    ended = []
    for environment in ("prod", "dev", "prototype"):
        monkeypatch.setenv("APP", environment)
        ended.append((box.bindings.activity_of("sendEmail"), box.call("sendEmail", words).value))

    assert [("smtp", {"sent": False}), ("mock", {"sent": True}), ("", {"sent": True})] == ended


@pytest.mark.parametrize("choice", [5, True, ["a"]], ids=repr)
def test_no_choice(choice: Any) -> None:
    """A choice that is not a name is refused: at once, or when a function returns it."""
    box = Toolbox([weather])

    with pytest.raises(DefinitionError, match="is not an activity for 'weather'"):
        box.bindings.choose("weather", choice)
    box.bindings.choose("weather", lambda: choice)
    with pytest.raises(DefinitionError, match="is not an activity for 'weather'"):
        box.schemas()


# Overrides


def test_override() -> None:
    """An override is valid inside its block, and ends with it, also after an exception."""
    box = Toolbox([weather])
    box.bind("weather", real)
    seen = []
    with suppress(ZeroDivisionError), box.override("weather", fake):
        seen.append(call_filled(box))
        raise ZeroDivisionError

    assert ["fake Oslo", "real Oslo"] == [*seen, call_filled(box)]


def test_override_inside_an_override() -> None:
    """The innermost override counts; the outer one is valid again afterwards."""
    box = Toolbox([weather, double])
    with box.override("weather", fake), box.override("double", lambda number: -number):
        with box.override("weather", real):
            inner = call_filled(box), box.call("double", {"number": 1}).value
        outer = call_filled(box)

    assert (("real Oslo", -1), "fake Oslo", "from the model") == (inner, outer, call_filled(box))


def test_overrides_end_in_any_order() -> None:
    """Each block removes its own override only, in another toolbox too."""
    box, other = Toolbox([weather]), Toolbox([weather])
    first, second, third = box.override("weather", fake), other.override("weather", fake), box.override("weather", real)
    for block in (first, second, third):
        block.__enter__()
    seen = []
    for block in (first, third, second):
        block.__exit__(None, None, None)
        seen.append((box.bindings.activity_of("weather"), other.bindings.activity_of("weather")))

    assert [("weather", "weather"), ("", "weather"), ("", "")] == seen


def test_override_that_ends_in_another_task() -> None:
    """A block that is left in another context than it was entered in changes nothing there."""
    box = Toolbox([weather])
    block = box.override("weather", fake)

    async def step(act: Callable[[], Any]) -> str:
        act()
        return box.bindings.activity_of("weather")

    assert "weather" == asyncio.run(step(block.__enter__))
    assert "" == asyncio.run(step(lambda: block.__exit__(None, None, None))) == box.bindings.activity_of("weather")


@pytest.mark.parametrize("is_new", [True, False], ids=["in the block", "there before"])
def test_override_in_other_tasks(is_new: bool) -> None:
    """Tasks and `to_thread` calls that start inside the block see the override; a task that runs already does not."""
    box = Toolbox([weather])

    async def asked(go: asyncio.Event) -> tuple[str, str]:
        await go.wait()
        return box.bindings.activity_of("weather"), await asyncio.to_thread(box.bindings.activity_of, "weather")

    async def main() -> tuple[str, str]:
        go = asyncio.Event()
        before = asyncio.create_task(asked(go))
        with box.override("weather", fake):
            go.set()
            return await (asyncio.create_task(asked(go)) if is_new else before)

    assert ("weather", "weather") * is_new + ("", "") * (not is_new) == asyncio.run(main())


def test_override_of_what_is_only_chosen() -> None:
    """A name that only a choice mentions can be overridden before anything is bound under it."""
    box = Toolbox([weather])
    box.bindings.choose("weather", "geo")
    with box.override("geo", fake):
        ended = call_filled(box)

    assert "fake Oslo" == ended


def test_choice_that_is_removed() -> None:
    """None removes a choice."""
    box = Toolbox([double])
    box.bindings.choose("double", "")
    box.bindings.choose("double", None)

    assert ({}, "double") == (box.bindings.choices, box.bindings.activity_of("double"))


def test_override_by_the_model() -> None:
    """None makes a tool latent, one with a body too."""
    box = Toolbox([double])
    with box.override("double", None):
        latent = box.bindings.activity_of("double"), box.call("double", {"number": 1, "_output": 9}).value

    assert (("", 9), 2) == (latent, box.call("double", {"number": 1}).value)


@pytest.mark.parametrize("own", [lambda _output: _output, lambda _city: _city], ids=["_output", "another name"])
def test_private_parameter_of_a_latent_tool(own: Callable[..., Any]) -> None:
    """A tool with a parameter that starts with an underscore cannot be latent, and `check` reports it."""
    box = Toolbox([tool(own, name="odd", description="Odd.")])
    with box.override("odd", None), pytest.raises(DefinitionError, match="'_.*' begins with '_', which is reserved"):
        box.schemas()
    box.bindings.choose("odd", "")

    assert [("error", "", "undescribable")] == codes(box)


def test_override_counts_more_than_a_choice() -> None:
    """An override of a tool's name has precedence over a choice and the schema's activity."""
    box = Toolbox([mail(activity="smtp")])
    box.bindings.choose("sendEmail", "other")
    with box.override("sendEmail", lambda call: {"sent": True}):
        ended = box.call("sendEmail", {"recipient": "ann", "subject": "Hi"}).value

    assert {"sent": True} == ended


def test_override_of_an_activity() -> None:
    """An override of an activity's name replaces its function for all tools that it executes."""
    box = Toolbox([mail(activity="smtp"), mail(activity="smtp").with_name("copy")])
    with box.override("smtp", lambda call: {"sent": True}):
        ended = [made.invoke({"recipient": "a", "subject": "b"}).value for made in box]

    assert [{"sent": True}] * 2 == ended


def test_override_of_nothing() -> None:
    """A name that neither a tool nor a binding has is refused: the block would change nothing."""
    with pytest.raises(KeyError, match="There is no tool or activity 'wether' to override; did you mean 'weather'"):
        Toolbox([weather]).override("wether", fake)


def test_override_is_not_seen_by_other_threads() -> None:
    """A thread that runs already does not see an override; what the block starts does."""
    box = Toolbox([weather])
    with ThreadPoolExecutor(1) as pool:
        pool.submit(int).result()
        with box.override("weather", fake):
            other = pool.submit(call_filled, box).result()
            [own] = box.call_many([call("weather", **OSLO)])

    assert ("from the model", "fake Oslo") == (other, own.value)


def test_override_is_not_seen_by_other_tasks() -> None:
    """Tasks that override at the same time see their own."""
    box = Toolbox([weather])

    async def overridden(function: Callable[..., str], entered: asyncio.Event, other: asyncio.Event) -> Any:
        with box.override("weather", function):
            entered.set()
            await other.wait()
            return (await box.acall("weather", OSLO)).value

    async def both() -> list[Any]:
        one, two = asyncio.Event(), asyncio.Event()
        return [*await asyncio.gather(overridden(real, one, two), overridden(fake, two, one))]

    assert ["real Oslo", "fake Oslo"] == asyncio.run(both())
    assert "from the model" == call_filled(box)


@pytest.mark.parametrize("backend", ["run", "arun"])
def test_override_in_a_run(backend: str) -> None:
    """A run that starts inside the block uses the overriding function."""
    box = Toolbox([weather])
    runner = Runner(
        box, model=ScriptedModel(lambda request: call("weather", **OSLO) if len(request.messages) < 2 else "Ok")
    )
    with box.override("weather", fake):
        result = asyncio.run(runner.arun("?")) if backend == "arun" else runner.run("?")

    assert ["fake Oslo"] == [made.result.text for made in result.calls]


def test_binding_during_a_run_counts_for_the_next() -> None:
    """A run uses the functions that were bound when it started."""
    box = Toolbox([weather])

    def swapping(city: str) -> str:
        box.bind("weather", fake)
        return f"first {city}"

    box.bind("weather", swapping)
    asks = call("weather", **OSLO)
    runner = Runner(box, model=ScriptedModel([asks, asks, "Ok", asks, "Ok"]))
    first, second = runner.run("?"), runner.run("?")

    seen = [made.result.text for result in (first, second) for made in result.calls]
    assert ["first Oslo", "first Oslo", "fake Oslo"] == seen


# What a function gets


class Unit(Enum):
    METRIC = "metric"
    IMPERIAL = "imperial"


class Ask(BaseModel):
    when: date
    unit: Unit = Unit.METRIC


FORECAST: dict[str, Any] = {
    "properties": {"when": {"type": "string"}, "unit": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["when"],
}
WHEN = {"when": "2026-01-02"}
ALL = {**WHEN, "unit": "metric", "days": 2}


def whole(ask: dict[str, Any]) -> Any:
    return ask


def of_model(ask: Ask) -> Any:
    return ask


def with_context(when: str, context: ToolContext, **others: Any) -> Any:
    return when, context.tool_name, others


def whole_with_context(ask: dict[str, Any], context: ToolContext) -> Any:
    return ask, context.tool_name


def others(**values: Any) -> Any:
    return values


def positional(when: str, /, unit: str = "", days: int = 0) -> Any:
    return when, unit, days


def typed(when: date, unit: Unit = Unit.METRIC, days: int = 1) -> Any:
    return when, unit, days


async def later(when: str, **others: Any) -> Any:
    return when


def one_by_one(when: str, **others: Any) -> Iterator[str]:
    yield when
    yield "end"


async def one_by_one_later(when: str, **others: Any) -> AsyncIterator[str]:
    yield when


class Service:
    def forecast(self, when: date, **others: Any) -> Any:
        return when

    __call__ = forecast


DAY = date(2026, 1, 2)
SHAPES: dict[str, tuple[Callable[..., Any], dict[str, Any], Any]] = {
    "whole": (whole, ALL, ALL),
    "whole, a model": (of_model, WHEN, Ask(when=DAY)),
    "whole, and a context": (whole_with_context, WHEN, (WHEN, "forecast")),
    "others": (others, ALL, ALL),
    "context": (with_context, ALL, ("2026-01-02", "forecast", {"unit": "metric", "days": 2})),
    "by position": (positional, ALL, ("2026-01-02", "metric", 2)),
    "left out": (positional, WHEN, ("2026-01-02", "", 0)),
    "converted": (typed, ALL, (DAY, Unit.METRIC, 2)),
    "partial": (partial(typed, days=9), WHEN, (DAY, Unit.METRIC, 9)),
    "async": (later, ALL, "2026-01-02"),
    "generator": (one_by_one, WHEN, ["2026-01-02", "end"]),
    "async generator": (one_by_one_later, WHEN, ["2026-01-02"]),
    "method": (Service().forecast, ALL, DAY),
    "callable object": (Service(), ALL, DAY),
    "class": (Ask, WHEN, Ask(when=DAY)),
    "tool": (tool(typed), WHEN, (DAY, Unit.METRIC, 1)),
}


@pytest.mark.parametrize(("function", "words", "wanted"), SHAPES.values(), ids=SHAPES)
def test_shape_of_a_function(function: Callable[..., Any], words: dict[str, Any], wanted: Any) -> None:
    """A function gets the parameters by name, or all of them as one, in its annotated types."""
    box = Toolbox([Tool.from_schema("forecast", FORECAST)])
    box.bind("forecast", function)

    assert wanted == box.call("forecast", words).value
    assert wanted == asyncio.run(box.acall("forecast", words)).value


@pytest.mark.parametrize(
    ("function", "words", "fault"),
    [
        (typed, {"when": "some day"}, "when: Input should be a valid date"),
        (typed, {**WHEN, "unit": "nautical"}, "unit: Input should be 'metric' or 'imperial'"),
        (of_model, {"when": "some day"}, "ask.when: Input should be a valid date"),
    ],
    ids=["date", "enum", "model"],
)
def test_values_that_a_function_refuses(function: Callable[..., Any], words: dict[str, Any], fault: str) -> None:
    """Values that do not fit the function's annotations are invalid arguments."""
    made = Tool.from_schema("forecast", FORECAST, function)

    result = made.invoke(words)
    assert ("invalid_arguments", True) == (result.kind, fault in str(result.text))


class Words(BaseModel):
    when: str


class Numbers(BaseModel):
    when: int


def of_words(ask: Words) -> Any:
    return ask


def of_text(when: str, unit: Unit) -> Any:
    return when, unit


def of_a_number(when: int, unit: Any) -> Any:
    return when


def of_numbers(ask: Numbers) -> Any:
    return ask


@tool
def ask(when: date, unit: Unit = Unit.METRIC) -> Any:
    """Ask."""
    ...


TYPED: dict[str, Tool[..., Any]] = {"types": Tool.from_models("ask", Ask, Any), "a function": ask}


@pytest.mark.parametrize("made", TYPED.values(), ids=TYPED)
@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (of_words, Words(when="2026-01-02")),
        (of_model, Ask(when=DAY)),
        (whole, {"when": "2026-01-02", "unit": "metric"}),
        (of_text, ("2026-01-02", Unit.METRIC)),
        (typed, (DAY, Unit.METRIC, 1)),
        (lambda when, unit: (when, unit), (DAY, Unit.METRIC)),
    ],
    ids=["another model", "the model", "dict", "another type", "the same types", "no types"],
)
def test_types_of_a_function_for_typed_values(made: Tool[..., Any], function: Callable[..., Any], wanted: Any) -> None:
    """Typed values are converted to the function's annotations, where these differ."""
    box = Toolbox([made])
    box.bind("ask", function)

    assert wanted == box.call("ask", WHEN).value


@pytest.mark.parametrize("made", TYPED.values(), ids=TYPED)
@pytest.mark.parametrize("function", [of_a_number, of_numbers])
def test_typed_values_that_a_function_refuses(made: Tool[..., Any], function: Callable[..., Any]) -> None:
    """Where the declared types accept a value and the function's do not, the call has failed."""
    box = Toolbox([made])
    box.bind("ask", function)
    result = box.call("ask", WHEN)

    assert ("failed", TypeError) == (result.kind, type(result.exception))
    assert "takes other types than the tool declares" in str(result.exception)


@tool
def listed(count: int = 3, names: list[str] = ["a"]) -> str:  # noqa: B006  each call has its own
    """List."""
    ...


def test_defaults_of_a_declaration() -> None:
    """A bound function gets the defaults of the declaration, a new copy for each call."""
    box = Toolbox([listed])
    box.bind("listed", lambda count, names: [count, *names, names.append("b")])
    again = [box.call("listed", {}).value for _ in range(2)]

    assert [[3, "a", None]] * 2 == again
    assert [4, "c", None] == box.call("listed", {"count": 4, "names": ["c"]}).value


def fewer(when: str) -> str:
    return when


def more(when: str, place: str) -> str:
    return when


def none_at_all() -> str:
    return ""


@pytest.mark.parametrize("function", [fewer, more, none_at_all], ids=lambda made: made.__name__)
def test_function_that_does_not_fit(function: Callable[..., Any]) -> None:
    """A call of a function that does not fit its tool has failed; the exception says why."""
    result = Tool.from_schema("forecast", FORECAST, function).invoke(ALL)

    assert ("failed", TypeError) == (result.kind, type(result.exception))
    assert "see Toolbox.check()" in str(result.exception)


def test_function_with_fewer_parameters_works_without_them() -> None:
    """A call succeeds that has only the parameters of the function."""
    assert "2026-01-02" == Tool.from_schema("forecast", FORECAST, fewer).invoke(WHEN).value


# What check finds


def demanding(when: str, days: int, **others: Any) -> Any:
    return when


GIVING: dict[str, Any] = {
    **FORECAST,
    "description": "Forecast.",
    "properties": {
        **FORECAST["properties"],
        "_output": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    },
}
FOUND: dict[str, tuple[Callable[..., Any] | None, list[tuple[str, str, str]]]] = {
    "nothing bound": (None, [("note", "", "latent")]),
    "fits": (whole, []),
    "fits, by name": (typed, []),
    "fewer parameters": (fewer, [("error", name, "mismatch") for name in ("unit", "days")]),
    "more parameters": (lambda place, **others: "", [("error", "place", "mismatch")]),
    "needs what may be left out": (demanding, [("error", "days", "mismatch")]),
}  # fmt: skip


@pytest.mark.parametrize(("function", "wanted"), FOUND.values(), ids=FOUND)
def test_check(function: Callable[..., Any] | None, wanted: list[tuple[str, str, str]]) -> None:
    """`check` compares the parameters of a tool with those of its bound function."""
    box = Toolbox([Tool.from_schema("forecast", GIVING)])
    if function is not None:
        box.bind("forecast", function)

    assert wanted == codes(box)


def of_number_or_default(q: int = 7) -> Any:
    return q


NULLABLE: dict[str, Any] = {"anyOf": [{"type": "integer"}, {"type": "null"}]}


def test_null_for_what_has_a_default() -> None:
    """A function that takes no null gets its own default instead, whether types or a schema let the null through."""

    @tool
    def ask(q: int | None = None) -> Any: ...

    declared = Tool.from_schema("ask", {"properties": {"q": NULLABLE}})
    boxes = [Toolbox([ask]), Toolbox([declared])]
    for box in boxes:
        box.bind("ask", of_number_or_default)

    assert [7, 7] == [box.call("ask", {"q": None}).value for box in boxes]


def test_check_of_a_declared_function() -> None:
    """A declared function and the one that is bound to it are compared alike."""
    box = Toolbox([weather])
    box.bind("weather", lambda town, unit: town)

    assert [("error", "city"), ("error", "town"), ("error", "unit")] == [
        (found.level, found.parameter) for found in box.check()
    ]


def test_check_of_an_unbound_activity() -> None:
    """`check` reports an activity that is not bound."""
    [found] = [found for found in Toolbox([mail(activity="smtp")]).check() if found.level == "error"]

    assert ("sendEmail", "unbound") == (found.tool, found.code)
    assert "no function is bound as 'smtp', so every call fails" in found.text


def test_check_of_a_name_that_is_nearly_right() -> None:
    """`check` reports a function that is bound under nearly a tool's name: the model would make up the result."""
    box = Toolbox([mail(description="Send.")])
    box.bind("send_email", lambda call: {"sent": True})

    assert [("warning", "", "misnamed"), ("note", "", "latent")] == codes(box)


def test_check_without_a_tool() -> None:
    """`check` reports a choice for no tool, and a function that executes none unless a choice may name it."""
    box = Toolbox([double])
    box.bind("smtp", lambda call: call)
    box.bindings.choose("dubble", "smtp")
    assert [("warning", "", "idle"), ("warning", "", "no-tool")] == codes(box)
    box.bindings.choose("double", lambda: "")

    assert [("warning", "", "no-tool"), ("note", "", "latent")] == codes(box)


def test_check_of_a_function_that_no_json_can_fill() -> None:
    """`check` reports a bound function whose parameters have no schema."""
    box = Toolbox([weather])
    box.bind("weather", with_a_lock)

    assert [("error", "", "undescribable")] == codes(box)


def with_a_lock(city: threading.Event) -> str:
    return str(city)


def test_check_of_a_missing_output() -> None:
    """`check` reports a latent tool without an output schema."""
    box = Toolbox([Tool.from_schema("forecast", {**FORECAST, "description": "Forecast."})])

    assert [("warning", "", "no-output"), ("note", "", "latent")] == codes(box)


def test_check_says_where_texts_are_missing() -> None:
    """`check` says where a description belongs: in the tool's schema."""
    [found] = [found for found in Toolbox([mail()]).check() if found.code == "undocumented" and not found.parameter]

    assert found.text.endswith("Add it to the schema.")


# Toolboxes of toolboxes


def test_filtered() -> None:
    """A filtered toolbox copies the bindings; later changes of one do not reach the other."""
    box = Toolbox([weather, double])
    box.bind("weather", real)
    some = box.filtered(lambda made: made.name == "weather")
    before = call_filled(some)
    some.unbind("weather")

    assert ("real Oslo", "from the model", "real Oslo") == (before, call_filled(some), call_filled(box))


def test_filtered_keeps_the_activity() -> None:
    """A tool of a filtered toolbox can still be bound to another function."""
    box = Toolbox([mail(activity="smtp")])
    box.bind("smtp", lambda call: {"sent": False})
    some = box.filtered(lambda made: True)
    some.bind("smtp", lambda call: {"sent": True})

    assert {"sent": True} == some.call("sendEmail", {"recipient": "a", "subject": "b"}).value


def test_joined() -> None:
    """A joined toolbox has the bindings of both."""
    one, two = Toolbox([weather]), Toolbox([mail(activity="smtp")])
    one.bind("weather", real)
    two.bind("smtp", lambda call: {"sent": True})
    both = one | two

    assert "real Oslo" == call_filled(both)
    assert {"sent": True} == both.call("sendEmail", {"recipient": "a", "subject": "b"}).value


def test_joined_with_one_name_for_two_functions() -> None:
    """Two functions of one name are refused; the same function twice is not."""
    one, two = Toolbox([weather]), Toolbox([double])
    one.bind("db", real)
    two.bind("db", real)
    assert ("weather", "double") == (one | two).names
    two.bind("db", fake)

    with pytest.raises(DefinitionError, match="Both toolboxes have a function bound as 'db'"):
        _ = one | two


def test_prefixed() -> None:
    """Tools with a prefix have the same functions, and can be bound by their new names."""
    box = Toolbox([weather, double])
    box.bind("weather", real)
    longer = box.prefixed("geo_")
    before = call_filled(longer, "geo_weather")
    longer.bind("geo_weather", fake)

    assert ("real Oslo", "fake Oslo", "real Oslo") == (before, call_filled(longer, "geo_weather"), call_filled(box))
    assert 2 == longer.call("geo_double", {"number": 1}).value


def test_choice_of_a_prefixed_toolbox() -> None:
    """A choice for a tool remains under its longer name."""
    box = Toolbox([weather])
    box.bind("fast", fake)
    box.bindings.choose("weather", "fast")

    assert "fake Oslo" == call_filled(box.prefixed("geo_"), "geo_weather")


COPIES = {
    "prefixed": lambda box: box.prefixed("geo_"),
    "filtered": lambda box: box.filtered(lambda made: made.name != "weather"),
}


@pytest.mark.parametrize("make", COPIES.values(), ids=COPIES)
def test_function_of_a_tool_that_is_renamed_or_left_out(make: Callable[[Toolbox], Toolbox]) -> None:
    """A function under a tool's name goes with the tool: it executes no other tool that has this name."""
    box = Toolbox([weather, double])
    box.bind("weather", real)
    made = make(box)
    assert [] == codes(made)
    other = Toolbox([weather])
    assert "from the model" == call_filled(made | other)
    other.bind("weather", fake)

    assert "fake Oslo" == call_filled(made | other)


@pytest.mark.parametrize("make", COPIES.values(), ids=COPIES)
def test_choice_for_a_tool_that_is_renamed_or_left_out(make: Callable[[Toolbox], Toolbox]) -> None:
    """A choice goes with its tool: it is none for another tool that has this name."""
    box = Toolbox([weather, double])
    box.bind("fast", fake)
    box.bindings.choose("weather", "fast")
    other = Toolbox([weather])
    other.bind("weather", real)

    assert "real Oslo" == call_filled(make(box) | other)


@pytest.mark.parametrize("choice", ["weather", lambda: "weather"], ids=["name", "function"])
def test_function_that_another_tool_names(choice: Any) -> None:
    """A function under the name of a tool that is left out remains if another tool is executed by it."""
    box = Toolbox([weather, Tool.from_models("forecast", {"properties": {"city": {"type": "string"}}}, str)])
    box.bind("weather", real)
    box.bindings.choose("forecast", choice)

    assert "real Oslo" == call_filled(box.filtered(lambda made: made.name == "forecast"), "forecast")
    assert "real Oslo" == call_filled(box.prefixed("geo_"), "geo_forecast")


def test_function_that_a_tool_names_which_is_left_out() -> None:
    """A function under the name of a tool is left out with it, though another tool that is left out names it."""
    box = Toolbox([weather, tool(weather, name="forecast", activity="weather")])
    box.bind("weather", real)

    assert "from the model" == call_filled(box.filtered(lambda made: False) | Toolbox([weather]))


@pytest.mark.parametrize(
    "make", [lambda box: box.filtered(bool), lambda box: box | Toolbox()], ids=["filtered", "joined"]
)
def test_override_in_a_derived_toolbox(make: Callable[[Toolbox], Toolbox]) -> None:
    """A toolbox that is derived inside the block has the overriding functions; no real one is called."""
    box = Toolbox([weather])
    box.bind("weather", real)
    with box.override("weather", fake):
        made = make(box)
        inside = call_filled(made)

    assert ("fake Oslo", "real Oslo") == (inside, call_filled(box))


@pytest.mark.parametrize(
    "make",
    [lambda box: box.filtered(bool), lambda box: box.prefixed("my_"), lambda box: box | Toolbox()],
    ids=["filtered", "prefixed", "joined"],
)
def test_override_of_an_activity_in_a_derived_toolbox(make: Callable[[Toolbox], Toolbox]) -> None:
    """An activity that is overridden by the model is so in a toolbox derived inside the block too."""
    box = Toolbox([mail(description="Send.")])
    box.bind("smtp", lambda recipient, subject: {"sent": True})
    box.bindings.choose("sendEmail", "smtp")
    with box.override("smtp", None):
        made = make(box)

    words = {"recipient": "a", "subject": "b", "_output": {"sent": False}}
    assert {"sent": False} == made.call(made.names[0], words).value
    assert [("note", "", "latent")] == codes(made)


def test_binding_in_a_derived_toolbox() -> None:
    """In a derived toolbox, binding replaces a function that came from an override."""
    box = Toolbox([weather])
    box.bind("weather", real)
    with box.override("weather", None):
        made = box.filtered(bool)
    before = call_filled(made)
    made.bind("weather", fake)

    assert ("from the model", "fake Oslo") == (before, call_filled(made))


def test_snapshot() -> None:
    """A snapshot does not change with later bindings."""
    box = Toolbox([weather])
    box.bind("weather", real)
    shot = box.snapshot()
    box.bind("weather", fake)

    assert ("real Oslo", "fake Oslo") == (shot["weather"].invoke(OSLO).value, call_filled(box))


def test_tool_as_it_is_executed() -> None:
    """A toolbox returns its tools with the handlers that execute them now, and contains these."""
    box = Toolbox([weather])
    box.bind("weather", real)

    assert "real Oslo" == box["weather"]("Oslo")
    assert [True, True, True] == [box["weather"] in box, weather in box, box["weather"] is box["weather"]]
    assert box["weather"] not in Toolbox([double])


def test_composition_is_cached() -> None:
    """Tools are composed once, until something is bound."""
    box = Toolbox([weather, double])
    before = list(box)
    again = list(box)
    box.bind("weather", real)

    assert all(map(lambda one, other: one is other, before, again))
    assert before[0] is not box["weather"]


def test_binding_from_many_threads() -> None:
    """Threads that bind and call at the same time see one state or the other."""
    box = Toolbox([weather])
    box.bind("weather", real)
    seen: set[Any] = set()

    def work() -> None:
        for function in (real, fake) * 50:
            box.bind("weather", function)
            seen.add(call_filled(box))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert seen <= {"real Oslo", "fake Oslo"}


def test_bindings_from_many_threads() -> None:
    """Functions that several threads bind at the same time are all bound."""
    box, start = Toolbox(), threading.Barrier(8)

    def work(number: int) -> None:
        start.wait()
        for at in range(200):
            box.bind(f"{number}_{at}", real)

    with ThreadPoolExecutor(8) as pool:
        assert [None] * 8 == [*pool.map(work, range(8))]
    for number in range(8):
        box.unbind(f"{number}_199")


def test_bound_function_while_others_call() -> None:
    """A function that is bound while other threads bind and call executes the next call, and each one after that."""
    names = ("one", "two", "three")

    def use(box: Toolbox, name: str) -> str | None:
        box.bind(name, lambda: "new")
        return box.call(name).text

    for _ in range(100):
        box = Toolbox([Tool.from_schema(name, {"type": "object"}, lambda: "old") for name in names])

        assert ["new"] * 3 == together(*[partial(use, box, name) for name in names])
        assert ["new"] * 3 == [box.call(name).text for name in names]


def test_calls_schema_is_of_one_moment() -> None:
    """A choice by a function is called once for a schema, so that its activity and its output fit."""
    answers = iter(["weather", "", "weather", ""])
    box = Toolbox([weather])
    box.bind("weather", real)
    box.bindings.choose("weather", lambda: next(answers))
    shown = calls_schema(box)["properties"]["calls"]["items"]["anyOf"][0]["properties"]

    assert ("weather", False) == (shown["_activity"]["const"], "_output" in shown)
    assert "" == next(answers)


# Other processes


def forecast(when: str) -> str:
    return f"fine on {when}"


FORECASTS = Tool.from_schema("forecasts", FORECAST, forecast)


@pytest.mark.parametrize("made", [weather, distance, FORECASTS, mail(), Tool.from_models("ask", Ask)], ids=repr)
def test_pickle(made: Tool[..., Any]) -> None:
    """A declared tool is the same after pickling, before and after its first call."""
    made.invoke("{}")
    again = pickle.loads(pickle.dumps(made))  # noqa: S301

    assert (made.name, made.parameters, made.output_schema) == (again.name, again.parameters, again.output_schema)
    assert made.invoke("{}").text == again.invoke("{}").text


def test_pickle_of_a_bound_tool() -> None:
    """A pickled tool includes its bound function."""
    box = Toolbox([weather])
    box.bind("weather", real)

    again = pickle.loads(pickle.dumps(box["weather"]))  # noqa: S301
    assert "real Oslo" == again.invoke(OSLO).value


def test_copy() -> None:
    """A copy of a declared tool behaves as the tool does, before and after its first call."""
    made = mail()
    words = {"recipient": "a", "subject": "b", "_output": {"sent": True}}

    assert {"sent": True} == made.invoke(words).value == copy.deepcopy(made).invoke(words).value


def elsewhere(city: str) -> str:
    return f"{city} in {os.getpid()}"


def test_process_of_its_own() -> None:
    """A function that is bound to a tool with `isolate="process"` runs in another process."""
    box = Toolbox([distance])
    box.bind("distance", elsewhere)

    text = box.call("distance", OSLO).text
    assert ("Oslo in ", False) == (text.rstrip("0123456789"), text == elsewhere("Oslo"))


def test_latent_tool_with_a_process_of_its_own() -> None:
    """A latent tool starts no process, and returns the model's output."""
    assert "from the model" == call_filled(Toolbox([distance]), "distance")


def test_activity_of_a_function_with_a_body() -> None:
    """A tool's own activity has precedence over its body."""

    @tool(activity="geo")
    def weather() -> str:
        """Tell the weather."""
        return "its own"

    box = Toolbox([weather])

    assert ("geo", "activity not found: geo") == (box.bindings.activity_of("weather"), box.call("weather").error)
    box.bind("geo", lambda: "measured")
    assert "measured" == box.call("weather").value


@tool(approve=True, effect="destructive")
def delete_all() -> str:
    """Delete everything."""
    return "deleted"


def bind_gated() -> Toolbox:
    box = Toolbox([Tool.from_schema("clean", {"type": "object"})])
    box.bind("clean", delete_all)
    return box


def choose_gated() -> Toolbox:
    box = Toolbox([Tool.from_schema("clean", {"type": "object"})])
    box.bind("all", delete_all)
    box.bindings.choose("clean", "all")
    return box


def bind_renamed() -> Toolbox:
    return bind_gated().prefixed("my_") | Toolbox()


@pytest.mark.parametrize(
    "make",
    [
        bind_gated,
        choose_gated,
        bind_renamed,
        lambda: Toolbox([Tool.from_schema("clean", {"type": "object"}, delete_all)]),
        lambda: Toolbox([Tool.from_models("clean", {"type": "object"}, str, delete_all)]),
    ],
    ids=["bind", "choose", "prefixed", "from_schema", "from_models"],
)
def test_gates_of_a_bound_tool(make: Callable[[], Toolbox]) -> None:
    """A tool that is bound to another one retains its gates and its effect."""
    (made,) = box = make()

    assert ("destructive", True, True) == (made.settings.effect, made.settings.approve, made.settings.runs_alone)
    assert "unavailable" == box.call(made.name).kind


def test_gates_of_an_overriding_tool() -> None:
    """So does a tool that overrides; afterwards the tool's own settings are valid again."""
    box = Toolbox([Tool.from_schema("clean", {"type": "object"}, lambda: "clean")])
    with box.override("clean", delete_all):
        assert "unavailable" == box.call("clean").kind

    assert ("clean", None) == (box.call("clean").text, box["clean"].settings.effect)


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize(
    ("outer", "inner", "is_allowed"), [(True, True, True), (True, False, False), (False, True, False)]
)
def test_both_gates_are_asked(outer: bool, inner: bool, is_allowed: bool, is_async: bool) -> None:
    """The authorizers of both tools must allow a call, and the stricter effect counts."""

    async def wait(*_: Any) -> bool:
        return outer

    @tool(authorize=lambda *_: inner, effect="read")
    def look() -> str:
        """Look."""
        return "seen"

    options: Any = {"authorize": wait if is_async else lambda *_: outer, "effect": "write", "max_parallel": 2}
    box = Toolbox([Tool.from_schema("see", {"type": "object"}, look, **options)])

    assert ("seen" if is_allowed else None, "write") == (box.call("see").value, box["see"].settings.effect)


def test_settings_of_a_declared_tool_stay() -> None:
    """A bound function that may not be repeated removes the retries; one without options removes nothing."""

    @tool(idempotent=False)
    def once() -> str:
        """Do it once."""
        return "done"

    options: Any = {"effect": "read", "retries": 2, "timeout": 5.0}
    declared = [Tool.from_schema("work", {"type": "object"}, function, **options) for function in (once, tool(len))]

    assert [(0, 5.0), (2, 5.0)] == [(made.settings.retries, made.settings.timeout) for made in declared]


def test_settings_of_a_bound_tool() -> None:
    """A tool that is bound to a declared one keeps its time, retries and places, where the declared one has none."""
    attempts = []

    @tool(timeout=0.5, max_parallel=1, retries=1, retry_delay=0.01, retry_on=(KeyError,), effect="read", max_result=300)
    def find(city: str) -> str:
        """Find a city."""
        attempts.append(city)
        if len(attempts) == 1:
            raise KeyError(city)
        if city == "far":
            time.sleep(2)
        return city

    declared: Tool[..., Any] = Tool.from_schema("find", weather.parameters, effect="read")
    box = Toolbox([declared])
    box.bind("find", find)

    assert ("Oslo", 2, 300) == (box.call("find", OSLO).value, len(attempts), box["find"].settings.max_result)
    assert "timed_out" == box.call("find", {"city": "far"}).kind
    assert 5 == Tool.from_schema("find", weather.parameters, find, timeout=5).settings.timeout


def test_choices_of_some_of_the_tools() -> None:
    """A choice is left out with its tool. One for a tool that is not there yet stays."""
    box = Toolbox([tool(abs, name="size"), tool(len, name="length")])
    for name in ("size", "length", "later"):
        box.bindings.choose(name, "other")

    assert ["length", "later"] == [*box.filtered(lambda each: each.name == "length").bindings.choices]
