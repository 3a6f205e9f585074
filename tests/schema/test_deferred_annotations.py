"""Annotations that name what is defined later: every one from Python 3.14 on, and texts in any Python.

This module has no `from __future__ import annotations`, which the sources below would inherit.
"""

import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any

import pytest

from toolkit import DefinitionError, Runner, Tool, Toolbox, tool
from toolkit.testing import ScriptedModel

needs_deferred = pytest.mark.skipif(
    sys.version_info < (3, 14), reason="Python evaluates annotations at once before 3.14"
)

HEAD = """
from typing import *
import toolkit
from pydantic import BaseModel, Field
from toolkit import ToolContext, tool
if TYPE_CHECKING:
    from nowhere import Missing
"""
LATER = """
class Later(BaseModel):
    x: int
LEAST = 3
"""


def run(source: str, head: str = HEAD) -> dict[str, Any]:
    """Run a module and return its names."""
    names: dict[str, Any] = {"__name__": "shop"}
    exec(head + source, names)  # noqa: S102
    return names


LOOKS: dict[str, Callable[[Tool[..., Any]], Any]] = {
    "repr": repr,
    "HTML": lambda given: given._repr_html_(),
    "HTML of a toolbox": lambda given: Toolbox([given])._repr_html_(),
    "parameters": lambda given: given.parameters,
    "output schema": lambda given: given.output_schema,
    "invoke": lambda given: given.invoke("{}"),
    "schemas": lambda given: Toolbox([given]).schemas("chat"),
    "runner": lambda given: Runner([given], model=ScriptedModel("Done.")),
    "latent": lambda given: tool(given, latent=True),
    "undo": lambda given: tool(given, effect="write", undo=given),
}


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
def test_look_at_a_tool_whose_types_come_later(look: Callable[[Tool[..., Any]], Any]) -> None:
    """What is read of a tool before its types are defined does not last: it works as soon as they are."""
    names = run("@tool\ndef act(a: 'Later', b: 'Later | None' = None) -> 'Later': return a\n")
    act = names["act"]
    try:
        look(act)
    except DefinitionError as error:
        assert "'Later' is not defined" in str(error)  # noqa: PT017  not each of them raises
    exec(LATER, names)  # noqa: S102

    assert ["a", "b"] == [*act.parameters["properties"]]
    assert {"x"} == act.output_schema["properties"].keys()
    assert '{"x":1}' == act.invoke('{"a": {"x": 1}, "b": {"x": 2}}').text


@needs_deferred
@pytest.mark.parametrize("annotation", ["Annotated[int, Field(ge=LEAST)]", "Literal[LEAST]"])
def test_look_at_a_tool_whose_values_come_later(annotation: str) -> None:
    """A constraint or a literal may be defined after the schema was asked for, as a type may."""
    names = run(f"@tool\ndef act(a: {annotation}) -> int: return a\n")
    with pytest.raises(DefinitionError, match="'LEAST', which is not defined"):
        _ = names["act"].parameters
    exec(LATER, names)  # noqa: S102

    assert [False, True] == [names["act"].invoke(f'{{"a": {given}}}').is_error for given in (3, 2)]


def test_look_at_a_declared_tool_whose_types_come_later() -> None:
    """A declared tool works as soon as its types are defined, although its schema was asked for before."""
    names = run("@tool(activity='go')\ndef act(a: 'Later') -> str: ...\n")
    act, box = names["act"], Toolbox([names["act"]])
    box.bind("go", lambda a: str(a.x))
    for look in (lambda: act.parameters, lambda: box.schemas("chat")):
        with pytest.raises(DefinitionError, match="'Later' cannot be resolved"):
            look()
    exec(LATER, names)  # noqa: S102

    assert ["a"] == [*act.parameters["properties"]]
    assert "1" == box.call("act", {"a": {"x": 1}}).text


@needs_deferred
@pytest.mark.parametrize("beside", ["", ", other: Missing = None"], ids=["alone", "beside a type for type checkers"])
@pytest.mark.parametrize(
    ("annotation", "good", "bad"),
    [
        ("Later", '{"x": 1}', '{"x": "a"}'),
        ("Later | None", "null", "1"),
        ("list[int] | Later", "[1]", '["a"]'),
        ("dict[str, list[Later]]", '{"a": [{"x": 1}]}', '{"a": [1]}'),
        ("Annotated[int, Field(ge=LEAST)]", "3", "2"),
        ("Annotated[list[Annotated[int, Field(ge=LEAST)]], Field(min_length=1)]", "[3]", "[2]"),
        ("Literal['a'] | Later", '"a"', '"b"'),
    ],
)
@pytest.mark.parametrize("body", ["return a", "..."], ids=["body", "declaration"])
def test_types_defined_later(annotation: str, good: str, bad: str, beside: str, body: str) -> None:
    """A parameter may have a type, or a constraint, that is defined after the function."""
    act = run(f"@tool\ndef act(a: {annotation}{beside}) -> str: {body}\n{LATER}")["act"]
    alike = run(f"{LATER}\n@tool\ndef act(a: {annotation}) -> str: {body}\n")["act"]
    output = "" if body == "return a" else '"_output": "c", '

    assert alike.parameters == act.parameters
    assert [False, True] == [act.invoke(f'{{{output}"a": {given}}}').is_error for given in (good, bad)]


@needs_deferred
@pytest.mark.parametrize("annotation", ['"Later" | None', "1 / 0"])
def test_annotation_that_raises(annotation: str) -> None:
    """An annotation of values that cannot be evaluated is refused by the name of the function, and with the reason."""
    with pytest.raises(
        DefinitionError, match=r"^shop\.act\(\): an annotation cannot be evaluated \(\w+Error: .+Correct"
    ):
        run(f"@tool\ndef act(a: {annotation}): return a\n")


@needs_deferred
@pytest.mark.parametrize("annotation", ["Annotated[int]", "Optional[int, str]", "int('a')", "toolkit.Missing"])
def test_annotation_of_names_that_raises(annotation: str) -> None:
    """An annotation of names that cannot be evaluated is refused by the name of the parameter."""
    act = run(f"@tool\ndef act(a: {annotation}, b: int): return a\n")["act"]

    with pytest.raises(DefinitionError, match=r"^shop\.act\(\): parameter 'a' .* cannot be resolved"):
        _ = act.parameters


@needs_deferred
@pytest.mark.parametrize(
    ("annotation", "written"),
    [
        ("Missing", "Missing"),
        ("int | Missing", "int | Missing"),
        ("list[Missing]", "list[Missing]"),
        ("Literal['a'] | Missing", "Literal['a'] | Missing"),
        ("Optional['Missing']", "Missing | None"),
        ("int.Missing", "int.Missing"),
    ],
)
def test_text_of_an_undefined_name(annotation: str, written: str) -> None:
    """An undefined name is shown as it is written, in a tool's repr and in the error about it."""
    act = run(f"@tool\ndef act(a: {annotation}) -> {annotation}: return a\n")["act"]

    assert f"<Tool act(a: {written}) -> {written}>" == repr(act)
    with pytest.raises(DefinitionError, match=r"'Missing'") as caught:
        _ = act.parameters
    assert f" {written} " in str(caught.value)


@needs_deferred
@pytest.mark.parametrize("annotation", ["Annotated[int, Field(ge=Missing)]", "Literal[Missing]"])
def test_undefined_name_of_a_value(annotation: str) -> None:
    """The error about a constraint or a literal whose value is not defined names the value."""
    act = run(f"@tool\ndef act(a: {annotation}): return a\n")["act"]

    with pytest.raises(DefinitionError, match=r"parameter 'a' .* has 'Missing', which is not defined.*TYPE_CHECKING"):
        _ = act.parameters


@needs_deferred
@pytest.mark.parametrize("hidden", ["", "del ToolContext, toolkit\n"], ids=["imported", "for type checkers only"])
@pytest.mark.parametrize(
    "annotation",
    [
        "ToolContext[Missing]",
        "ToolContext[Missing] | None",
        "None | ToolContext[Missing]",
        "Optional[ToolContext[Missing]]",
        "Union[None, ToolContext[Missing]]",
        "Annotated[ToolContext[Missing], 'The run.']",
        "toolkit.ToolContext[Missing | int] | None",
        "'ToolContext[Missing]'",
    ],
)
def test_context_of_undefined_names(annotation: str, hidden: str) -> None:
    """A context is known by its name, though its type, or it itself, exists for type checkers only."""
    act = run(f"{hidden}@tool\ndef act(it: {annotation}) -> str: return type(it).__name__\n")["act"]

    assert ("ToolContext", {}) == (act.invoke("{}").value, act.parameters["properties"])


@needs_deferred
def test_wrapper_of_a_tool() -> None:
    """A wrapper made by `functools.wraps` of a tool has the tool's annotations, like one of a function."""
    names = run("@tool\ndef act(a: Later, b: int) -> list[int]: return [b]\n")

    @functools.wraps(names["act"])
    def wrapper(*args: Any, **options: Any) -> Any: ...

    exec(LATER, names)  # noqa: S102

    assert {"a": names["Later"], "b": int, "return": list[int]} == inspect.get_annotations(wrapper)


@needs_deferred
def test_placeholder_of_a_partial() -> None:
    """Parameters behind which a partial binds others, by placeholders, are those that the model fills."""
    names = run("def act(a: int, b: Later, c: str = 'c'): return [a, b, c]\n")
    made = tool(functools.partial(names["act"], functools.Placeholder, None))  # type: ignore[attr-defined,unused-ignore]
    exec(LATER, names)  # noqa: S102

    assert ["a", "c"] == [*made.parameters["properties"]]
    assert [1, None, "d"] == made.invoke('{"a": 1, "c": "d"}').value


@needs_deferred
@pytest.mark.parametrize(
    "options",
    [
        "middleware=[lambda call, call_next: call_next(call), around]",
        "middleware=[audit(write)]",
        "hooks=[Hook()]",
        "approve=approve",
    ],
)
def test_types_for_type_checkers_in_functions_of_a_runner(options: str) -> None:
    """Annotations of middleware, hooks and the like may name types that exist for type checkers only."""
    source = f"""
from toolkit import Runner
from toolkit.middleware import audit
from toolkit.testing import ScriptedModel, call

called = []
def around(call: Missing, call_next: Missing) -> Missing:
    called.append(call)
    return call_next(call)
def write(record: Missing) -> Missing: called.append(record)
def approve(request: Missing) -> Missing:
    called.append(request)
    return True
class Hook:
    def before_model(self, request: Missing) -> Missing: called.append(request)
    def before_call(self, call: Missing, context: Missing) -> Missing: called.append(call)
@tool
def act(a: int) -> int: return a
output = Runner([act], model=ScriptedModel([call("act", a=1), "Done."]), {options}).run("Act.").output
"""
    names = run(source)

    assert ("Done.", True) == (names["output"], bool(names["called"]))


@needs_deferred
def test_misfit_with_types_for_type_checkers() -> None:
    """A function of a runner that cannot be called is refused, although its types exist for type checkers only."""
    around = run("def around(call: Missing) -> Missing: ...\n")["around"]

    with pytest.raises(TypeError, match=r"around must take \(call, call_next\)"):
        Runner(middleware=[around], model=ScriptedModel("Done."))
