"""A tool as an HTML form: what a person sees, what a browser posts, and that nothing in it becomes markup."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date
from html.parser import HTMLParser
from typing import Annotated, Any, Literal

import pytest
from pydantic import AfterValidator, BaseModel, Field, HttpUrl, SecretStr

from toolkit import Tool, tool
from toolkit.display import Form, InvalidForm

EVIL = "</textarea></select><script>alert(1)</script>\"' onload='x'"


class Street(BaseModel):
    name: str
    number: int | None = None


class Place(BaseModel):
    """Where it goes."""

    city: str = Field(description="City name")
    street: Street | None = None
    country: str = "DE"


class Cat(BaseModel):
    kind: Literal["cat"]


class Dog(BaseModel):
    kind: Literal["dog"]


class Elements(HTMLParser):
    """Lists the elements of a page, and the texts between them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def named(self, name: str) -> tuple[str, dict[str, str | None]]:
        """The control that posts a name, without its looks."""
        tag, attributes = next(each for each in self.found if each[1].get("name") == name)
        return tag, {key: value for key, value in attributes.items() if key not in ("name", "style")}


def taking(annotation: Any, *default: Any) -> Tool[..., Any]:
    """A tool with one parameter."""

    def take(value: Any = None) -> str:
        return repr(value)

    take.__annotations__ = {"value": annotation, "return": str}
    take.__defaults__ = default or None
    return tool(take)


def read(made: Tool[..., Any], posted: Mapping[str, Any]) -> Any:
    return json.loads(Form(made).read(posted))


# -- what is shown

CONTROLS: dict[str, tuple[Any, tuple[str, dict[str, str | None]]]] = {
    "text": (str, ("input", {"type": "text", "value": "", "required": None})),
    "short text": (
        Annotated[str, Field(min_length=2, max_length=9)],
        ("input", {"type": "text", "value": "", "minlength": "2", "maxlength": "9", "required": None}),
    ),
    "long text": (
        Annotated[str, Field(max_length=500)],
        ("textarea", {"rows": "4", "maxlength": "500", "required": None}),
    ),
    "optional text": (str | None, ("input", {"type": "text", "value": ""})),
    "secret": (SecretStr, ("input", {"type": "password", "value": "", "required": None})),
    "long secret": (
        Annotated[SecretStr, Field(max_length=500)],
        ("input", {"type": "password", "value": "", "maxlength": "500", "required": None}),
    ),
    "address": (
        HttpUrl,
        ("input", {"type": "url", "value": "", "minlength": "1", "maxlength": "2083", "required": None}),
    ),
    "whole number": (
        Annotated[int, Field(gt=0, le=9)],
        ("input", {"type": "number", "value": "", "step": "1", "max": "9", "required": None}),
    ),
    "number": (
        Annotated[float, Field(ge=0.5, lt=2)],
        ("input", {"type": "number", "value": "", "step": "any", "min": "0.5", "required": None}),
    ),
    "yes or no": (bool, ("input", {"type": "checkbox", "value": "true"})),
    "yes, no or nothing": (bool | None, ("select", {})),
    "date": (date, ("input", {"type": "date", "value": "", "required": None})),
    "choice": (Literal["a", "b"], ("select", {"required": None})),
    "list": (
        list[int],
        ("textarea", {"rows": "4", "placeholder": "[integer, ...]", "spellcheck": "false", "required": None}),
    ),
    "one of two objects": (
        Annotated[Cat | Dog, Field(discriminator="kind")],
        (
            "textarea",
            {
                "rows": "4",
                "placeholder": '{"kind": "cat"} | {"kind": "dog"}',
                "spellcheck": "false",
                "required": None,
            },
        ),
    ),
    "anything": (Any, ("textarea", {"rows": "4", "placeholder": "JSON", "spellcheck": "false", "required": None})),
}


def test_form_of_a_plain_function() -> None:
    """A function that is no tool is refused, with the way to make it one."""
    with pytest.raises(TypeError, match="Form\\(\\) takes a tool, not <built-in function len>: decorate"):
        Form(len)  # type: ignore[arg-type]


@pytest.mark.parametrize(("annotation", "expected"), CONTROLS.values(), ids=CONTROLS)
def test_control(annotation: Any, expected: tuple[str, dict[str, str | None]]) -> None:
    """Each kind of value has the control that fits, with the limits that browsers know."""
    assert expected == Elements(str(Form(taking(annotation)))).named("value")


def test_words() -> None:
    """Titles, or else names, are labels; descriptions stand below, and what has to be there is marked."""

    @tool(title="Send a parcel")
    def send(to: Place, per_post: bool = True) -> None:
        """Send it.

        Args:
            to: Where it goes.
            per_post: Or by hand.
        """

    texts = [text for text in Elements(str(Form(send))).texts if text.strip()]

    assert [
        *("Send it.", "to", "*", "Where it goes.", "per post", "Or by hand.", "Send a parcel"),
    ] == texts


def test_titles() -> None:
    """A title is the label, where a schema has one."""
    titled = Tool.from_schema("t", {"properties": {"a": {"type": "string", "title": "Town"}}}, lambda a: a)

    assert ["Town", "t"] == Elements(str(Form(titled))).texts


def test_prefilled() -> None:
    """Given values stand in the controls; where there are none, defaults do."""

    def take(a: str, b: int = 3, c: Literal["x", "y"] = "y", d: bool = True, e: Place = Place(city="Rome")) -> None: ...

    found = Elements(str(Form(tool(take), {"a": "tea", "b": 5})))
    chosen = [attributes["value"] for name, attributes in found.found if name == "option" and "selected" in attributes]

    assert ["tea", "5"] == [found.named(name)[1]["value"] for name in ("a", "b")]
    assert any('"city": "Rome"' in text for text in found.texts)
    assert (["y"], True) == (chosen, "checked" in found.named("d")[1])


def test_page_and_notebook() -> None:
    """A page gets a form that is posted, a notebook the same without a button."""
    form = Form(taking(str), action="/run?a=1&b=2")

    assert ("form", {"method": "post", "action": "/run?a=1&b=2"}) == Elements(str(form)).found[0]
    assert "<button" in str(form) and "<button" not in form._repr_html_()


def test_output_of_the_model() -> None:
    """A tool that the model carries out asks people for its inputs alone."""
    properties = {"text": {"type": "string"}, "_output": {"type": "string"}}
    page = Elements(str(Form(Tool.from_schema("mood", {"type": "object", "properties": properties}))))

    assert ["text"] == [attributes["name"] for _, attributes in page.found if "name" in attributes]


# -- nothing is markup

EVIL_TOOL = Tool.from_schema(
    "evil",
    {
        "type": "object",
        "description": EVIL,
        "properties": {
            EVIL: {"type": "string", "title": EVIL, "description": EVIL, "default": EVIL},
            "long": {"type": "string", "maxLength": 999, "default": EVIL},
            "choice": {"type": "string", "enum": [EVIL, "b"], "default": EVIL},
            "mixed": {"enum": [1, EVIL]},
            "free": {"type": "object", "default": {EVIL: EVIL}, "description": EVIL},
            "inner": {"type": "object", "title": EVIL, "description": EVIL, "properties": {EVIL: {"type": "integer"}}},
        },
    },
    lambda **values: values,
    title=EVIL,
)


def form_of_what_was_refused() -> Form:
    posted = {EVIL: EVIL, "choice": EVIL + "x", "mixed": EVIL, "free": EVIL, "inner": EVIL}
    with pytest.raises(InvalidForm) as refused:
        Form(EVIL_TOOL, action=EVIL).read(posted)
    return refused.value.form


@pytest.mark.parametrize("form", [Form(EVIL_TOOL, action=EVIL), form_of_what_was_refused()], ids=["new", "refused"])
def test_nothing_is_markup(form: Form) -> None:
    """No name, title, description, choice, default, error or value adds an element or an attribute."""
    page = Elements(str(form) + form._repr_html_())
    elements = {"form", "p", "div", "label", "b", "br", "small", "span", "strong", "input", "textarea", "select"}
    attributes = {"method", "action", "style", "type", "value", "name", "title", "rows", "maxlength"}
    other = {"selected", "step", "placeholder", "spellcheck", "role", "aria-invalid"}

    assert {name for name, _ in page.found} <= elements | {"option", "fieldset", "legend", "button"}
    assert {key for _, given in page.found for key in given} <= attributes | other


def test_evil_values_come_back() -> None:
    """What a browser makes of such a page posts the same values again."""
    page = Elements(str(Form(EVIL_TOOL)))

    assert EVIL == page.named(EVIL)[1]["value"]
    assert {EVIL: "a", "choice": EVIL, "long": "\n" + EVIL} == read(
        EVIL_TOOL, {EVIL: "a", "choice": EVIL, "long": "\r\n" + EVIL}
    )


# -- what is posted

READ: dict[str, tuple[Any, Any, Any]] = {
    "text": (str, "tea", "tea"),
    "lines": (str, "one\r\ntwo", "one\ntwo"),
    "text that looks like a number": (str, "007", "007"),
    "whole number": (int, "5", 5),
    "a number too large for others": (int, "9" * 30, int("9" * 30)),
    "number": (float, " 0.5 ", 0.5),
    "ticked": (bool, "true", True),
    "not ticked": (bool, [], False),
    "ticked as some frameworks say it": (bool, "on", True),
    "no": (bool | None, "false", False),
    "date": (date, "2026-01-02", "2026-01-02"),
    "choice": (Literal["a", "b"], "b", "b"),
    "choice of numbers": (Literal[1, 2], "2", 2),
    "choice of several kinds": (Literal["1", 1], '"1"', "1"),
    "listed": (str, ["a", "b"], "b"),
    "empty, and may be null": (int | None, "", None),
    "list": (list[int], "[1, 2]", [1, 2]),
    "dict": (dict[str, int], '{"a": 1}', {"a": 1}),
    "plain data": (int, 5, 5),
}


@pytest.mark.parametrize(("annotation", "posted", "expected"), READ.values(), ids=READ)
def test_read(annotation: Any, posted: Any, expected: Any) -> None:
    """What a browser posts becomes the argument, of the right type."""
    assert {"value": expected} == read(taking(annotation), {"value": posted})


LEFT_OUT: dict[str, tuple[Any, Any]] = {
    "text": (str, ""),
    "number": (int, 3),
    "choice": (Literal["a", "b"], "a"),
    "list": (list[int], []),
    "object": (Place, Place(city="Rome")),
    "object or nothing": (Place | None, None),
}


def test_empty_default() -> None:
    """An empty list as default leaves room for what may be written; one in place of null is written."""
    made, nullable = taking(list[Literal["a", "b"]], []), taking(list[int] | None, [])

    assert '["a" | "b", ...]' == Elements(str(Form(made))).named("value")[1]["placeholder"]
    assert "\n[]</textarea>" not in str(Form(made))
    assert {} == read(made, {"value": ""})
    assert "\n[]</textarea>" in str(Form(nullable))


@pytest.mark.parametrize(("annotation", "default"), LEFT_OUT.values(), ids=LEFT_OUT)
def test_left_out(annotation: Any, default: Any) -> None:
    """What may be left out is, where nothing was entered."""
    assert {} == read(taking(annotation, default), {"value": ""})


def test_emptied() -> None:
    """A text or a choice that was emptied does not become its default again."""
    assert {"value": ""} == read(taking(str, "tea"), {"value": ""})
    assert {"value": None} == read(taking(int | None, 5), {"value": ""})


def test_objects() -> None:
    """An object is entered as JSON."""
    assert {"value": {"city": "Bonn", "country": "DE"}} == read(
        taking(Place), {"value": '{"city": "Bonn", "country": "DE"}'}
    )


def test_posted_besides() -> None:
    """What else is posted is passed over."""
    assert {"value": "a"} == read(taking(str), {"value": "a", "csrf_token": "x"})


def test_invoke() -> None:
    """What was read is what the tool is invoked with."""
    made = taking(Place)

    assert "Place(city='Bonn', street=None, country='FR')" == (
        made.invoke(Form(made).read({"value": '{"city": "Bonn", "country": "FR"}'})).value
    )


# -- what is refused

REFUSED: dict[str, tuple[Any, dict[str, Any], dict[str, str]]] = {
    "nothing": (str, {}, {"value": "required"}),
    "no number": (int, {"value": "five"}, {"value": "Input should be a valid integer, unable to parse "
                                                     "string as an integer"}),
    "not finite": (float, {"value": "1e999"}, {"value": "Input should be a finite number"}),
    "too large": (Annotated[int, Field(lt=3)], {"value": "3"}, {"value": "Input should be less than 3"}),
    "no choice": (Literal["a", "b"], {"value": "c"}, {"value": "Input should be 'a' or 'b'"}),
    "no JSON": (list[int], {"value": "[1"}, {"value": "this is not valid JSON: EOF while parsing a list at line 1 "
                                                     "column 2"}),
    "half a character": (int, {"value": "\ud800"}, {"": "Input should be a valid string, unable to parse raw data as a "
                                                        "unicode string"}),
    "no JSON, nor a text": (str | list[int], {"value": "[1,]"}, {"value": "this is not valid JSON: trailing comma at "
                                                                "line 1 column 4"}),
    "inside of JSON": (list[int], {"value": '[1, "x"]'}, {"value": "[1]: Input should be a valid integer, unable to "
                                                                   "parse string as an integer"}),
    "inside of objects": (Place, {"value": '{"street": {"name": "A"}}'}, {"value": "city: required"}),
    "a type that raises": (Annotated[int, AfterValidator(lambda number: 1 / number)], {"value": "0"},
                           {"": "ZeroDivisionError: division by zero"}),
}  # fmt: skip


@pytest.mark.parametrize(("annotation", "posted", "errors"), REFUSED.values(), ids=REFUSED)
def test_refused(annotation: Any, posted: dict[str, Any], errors: dict[str, str]) -> None:
    """What does not fit is shown by control."""
    with pytest.raises(InvalidForm) as refused:
        Form(taking(annotation)).read(posted)

    assert errors == refused.value.errors


def test_shown_again() -> None:
    """The form of a refusal has what was posted, and what is wrong beside it."""
    with pytest.raises(InvalidForm) as refused:
        Form(taking(Annotated[int, Field(lt=3)]), action="/run").read({"value": "7"})
    page = Elements(str(refused.value.form))

    assert ("7", "true") == (page.named("value")[1]["value"], page.named("value")[1]["aria-invalid"])
    assert "Input should be less than 3" in page.texts
    assert "/run" == page.found[0][1]["action"]


def test_rules_of_a_whole() -> None:
    """What is wrong with the whole, and with no control, is shown above them."""
    schema = {"properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "minProperties": 1}
    with pytest.raises(InvalidForm) as refused:
        Form(Tool.from_schema("t", schema, lambda **values: values)).read({})

    assert [""] == list(refused.value.errors)
