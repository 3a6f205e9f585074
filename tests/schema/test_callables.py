"""Whatever can be called can be a tool: what it is shown as, and what reaches it."""

from __future__ import annotations

import abc
import contextlib
import enum
import functools
import inspect
import json
import math
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Generic, NamedTuple, Protocol, TypeVar
from unittest import mock

import attrs
import pytest
from pydantic import BaseModel, Field
from typing_extensions import Doc

from toolkit import DefinitionError, Tool, Toolbox, tool


def add(a: int, b: int = 2, *, c: int = 3) -> list[int]:
    return [a, b, c]


async def aadd(a: int) -> int:
    return a


class Methods:
    def __init__(self, a: int = 1) -> None:
        self.own = a

    def plain(self, a: int) -> Any:
        return [self.own, a]

    async def waiting(self, a: int) -> Any:
        return [self.own, a]

    @classmethod
    def of_class(cls, a: int) -> Any:
        return [cls.__name__, a]

    @staticmethod
    def static(a: int) -> Any:
        return [a]

    @functools.lru_cache  # noqa: B019
    def cached(self, a: int) -> Any:
        return [self.own, a]

    partial = functools.partialmethod(plain, a=4)


class Child(Methods): ...


class StaticCall:
    @staticmethod
    def __call__(a: int) -> Any:
        return a


class ClassCall:
    @classmethod
    def __call__(cls, a: int) -> Any:
        return a


class PartialCall:
    __call__ = staticmethod(functools.partial(add, 1))


class Meta(type):
    def __call__(cls, a: int) -> Any:
        return a


class Made(metaclass=Meta): ...


class Newly:
    def __new__(cls, a: int) -> Any:
        return a


@dataclass
class Point:
    a: int


class Row(NamedTuple):
    a: int


class Model(BaseModel):
    a: int


def wrapping(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


def by_position_only(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any) -> Any:
        return function(*args)

    return wrapper


def naming_the_first(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a wrapper whose own first parameter has another name."""

    @functools.wraps(function)
    def wrapper(first: Any, *args: Any, **kwargs: Any) -> Any:
        return function(first, *args, **kwargs)

    return wrapper


def giving_one(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a wrapper that gives the first argument itself."""

    @functools.wraps(function)
    def wrapper(b: int, c: int = 7) -> Any:
        return function(1, b, c=c)

    return wrapper


def with_signature(**parameters: str) -> Callable[..., Any]:
    """Make a function that shows another signature than its own."""

    def function(*args: Any, **kwargs: Any) -> Any:
        return [*args, kwargs]

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    shown = [inspect.Parameter(name, kind, annotation=annotation) for name, annotation in parameters.items()]
    function.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    return function


def endless(a: int) -> int:
    return a


endless.__wrapped__ = endless  # type: ignore[attr-defined]


@contextlib.contextmanager
def managed(a: int) -> Iterator[int]:
    yield a


def promising(a: int) -> Any:
    return aadd(a)


scope: dict[str, Any] = {}
exec("def executed(a: 'int'): return a", scope)  # noqa: S102

# What is made a tool, the parameters that are shown, what is sent, and what comes.
CALLABLES: dict[str, tuple[Any, list[str], dict[str, Any], Any]] = {
    "function": (add, ["a", "b", "c"], {"a": 1}, [1, 2, 3]),
    "method": (Methods(7).plain, ["a"], {"a": 3}, [7, 3]),
    "inherited method": (Child(7).plain, ["a"], {"a": 3}, [7, 3]),
    "coroutine method": (Methods(7).waiting, ["a"], {"a": 3}, [7, 3]),
    "class method": (Child.of_class, ["a"], {"a": 3}, ["Child", 3]),
    "static method": (Methods.static, ["a"], {"a": 3}, [3]),
    "cached method": (Methods(7).cached, ["a"], {"a": 3}, [7, 3]),
    "partial method": (Methods(7).partial, [], {}, [7, 4]),
    "partial by position": (functools.partial(add, 1), ["b", "c"], {"b": 5}, [1, 5, 3]),
    "partial by keyword": (functools.partial(add, a=1), ["b", "c"], {"b": 5}, [1, 5, 3]),
    "partial of a partial": (functools.partial(functools.partial(add, 1), c=9), ["b"], {}, [1, 2, 9]),
    "partial of a method": (functools.partial(Methods(7).plain, a=1), [], {}, [7, 1]),
    "partial that looks like its function": (
        functools.update_wrapper(functools.partial(add, 1), add),
        ["b", "c"],
        {"b": 5},
        [1, 5, 3],
    ),
    "partial of a tool": (functools.partial(tool(add), 1), ["b", "c"], {}, [1, 2, 3]),
    "object with a static call": (StaticCall(), ["a"], {"a": 3}, 3),
    "object with a class call": (ClassCall(), ["a"], {"a": 3}, 3),
    "object with a partial": (PartialCall(), ["b", "c"], {}, [1, 2, 3]),
    "dataclass": (Point, ["a"], {"a": 3}, Point(3)),
    "NamedTuple": (Row, ["a"], {"a": 3}, Row(3)),
    "model": (Model, ["a"], {"a": 3}, Model(a=3)),
    "metaclass": (Made, ["a"], {"a": 3}, 3),
    "class with __new__": (Newly, ["a"], {"a": 3}, 3),
    "cached function": (functools.cache(add), ["a", "b", "c"], {"a": 1}, [1, 2, 3]),
    "wrapper": (wrapping(add), ["a", "b", "c"], {"a": 1, "c": 4}, [1, 2, 4]),
    "wrapper of a coroutine function": (wrapping(aadd), ["a"], {"a": 1}, 1),
    "wrapper that takes no keywords": (by_position_only(Methods.static), ["a"], {"a": 1}, [1]),
    "wrapper with parameters of its own": (wrapping(giving_one(add)), ["b", "c"], {"b": "5"}, [1, 5, 7]),
    "signature of its own": (with_signature(z="int"), ["z"], {"z": "3"}, [{"z": 3}]),
    "function that gives a promise": (promising, ["a"], {"a": 3}, 3),
    "lambda": (lambda a: a, ["a"], {"a": 3}, 3),
    "executed code": (scope["executed"], ["a"], {"a": "3"}, 3),
    "built-in": (math.gcd, ["integers"], {"integers": [4, 6]}, 2),
    "built-in of positional parameters": (operator.add, ["a", "b"], {"a": 1, "b": 2}, 3),
    "built-in method": ("abc".upper, [], {}, "ABC"),
}


@pytest.mark.parametrize(("function", "shown", "sent", "value"), CALLABLES.values(), ids=CALLABLES)
def test_callables(function: Any, shown: list[str], sent: dict[str, Any], value: Any) -> None:
    """Any callable has a schema of its parameters, and is called by its signature."""
    made = tool(function, name="made")

    assert shown == list(made.parameters["properties"])
    assert (None, value) == (made.invoke(sent).error, made.invoke(sent).value)


def test_wrapper_without_keywords_and_a_gap() -> None:
    """Where all goes in by position, what is left out before a value is its default."""

    @by_position_only
    def function(a: int = 1, b: int = 2, c: int = 3) -> Any:
        return [a, b, c]

    assert [1, 5, 3] == tool(function).invoke('{"b": 5}').value


@pytest.mark.parametrize("function", [mock.call, endless], ids=["endless", "circle"])
def test_endless_wrapper(function: Any) -> None:
    """What wraps itself is refused, and no search for what it wraps goes on for ever."""
    with pytest.raises(DefinitionError, match="wraps itself"):
        tool(function)


def test_context_manager() -> None:
    """A function that makes a context manager is called, and nothing is entered."""
    assert isinstance(tool(managed).invoke('{"a": 1}').value, contextlib.AbstractContextManager)


NO_SIGNATURE: dict[str, Any] = {
    "class": int,
    "built-in": max,
    "range": range,
}


@pytest.mark.parametrize("function", NO_SIGNATURE.values(), ids=NO_SIGNATURE)
def test_no_signature(function: Any) -> None:
    """What has no signature is refused by name, with the remedy."""
    with pytest.raises(DefinitionError, match="has no signature that Python can read. Wrap it in a function"):
        _ = tool(function, name="made").parameters


@pytest.mark.parametrize("thing", [Methods.__dict__["partial"], property(len), 5], ids=type)
def test_no_callable(thing: Any) -> None:
    """What cannot be called is refused where it is written."""
    with pytest.raises(DefinitionError, match="@tool needs something that can be called, not"):
        tool(thing)


class Owner:
    @tool
    @classmethod
    def tool_on_top(cls, a: int) -> Any:
        return [cls.__name__, a]

    @classmethod
    @tool
    def tool_below(cls, a: int) -> Any:
        return [cls.__name__, a]

    @tool
    @staticmethod
    def static(a: int) -> Any:
        return [a]


class Heir(Owner): ...


def test_decorator_orders() -> None:
    """In a toolbox, a class method is one whichever decorator is on top."""
    box = Toolbox.from_object(Heir())
    values = {name: box.call(name, '{"a": 1}').value for name in box.names}

    assert {"tool_on_top": ["Heir", 1], "tool_below": ["Heir", 1], "static": [1]} == values


class Abstract(abc.ABC):
    @tool
    @abc.abstractmethod
    def work(self, a: int) -> Any: ...


class Concrete(Abstract):
    @tool
    def work(self, a: int) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]  # `self` is of another type
        return a


class Shape(Protocol):
    @tool
    def work(self, a: int) -> Any: ...


class Square(Shape):
    @tool
    def work(self, a: int) -> Any:
        return a


class Level(enum.Enum):
    HIGH = 2

    @tool
    def work(self, a: int) -> Any:
        return self.value * a


class Record(BaseModel, ignored_types=(Tool,)):
    number: int

    @tool
    def work(self, a: int) -> Any:
        return self.number * a


@pytest.mark.parametrize(
    ("owner", "value"), [(Concrete(), 3), (Square(), 3), (Level.HIGH, 6), (Record(number=4), 12)], ids=type
)
def test_methods_of_special_classes(owner: Any, value: int) -> None:
    """Methods of abstract classes, protocols, enumerations and models are tools of their instances."""
    assert (["a"], value) == (list(owner.work.parameters["properties"]), owner.work.invoke('{"a": 3}').value)


def test_members_stay() -> None:
    """A tool in the body of an enumeration is not a member of it, and an abstract one stays abstract."""
    assert [Level.HIGH] == list(Level)
    assert {"work"} == Abstract.__abstractmethods__


class Source:
    def read(self, key: int) -> int:
        """Read a value.

        Args:
            key: Where it lies.
        """
        return key


class Cache(Source):
    @tool
    def read(self, key: int) -> int:  # pyright: ignore[reportIncompatibleMethodOverride]
        return key


def test_inherited_docstring() -> None:
    """A method that overrides another one has its docstring, where it has none of its own."""
    shown = Cache().read.parameters["properties"]["key"]

    assert ("Read a value.", "Where it lies.") == (Cache().read.description, shown["description"])


class Described:
    """Find a way.

    Args:
        a: Where to.
    """

    def __call__(self, a: int) -> Any:
        return a


class Undescribed:
    def __call__(self, a: int) -> Any:
        return a


class Scale:
    """Weigh a thing."""

    def __call__(self, a: int) -> Any:
        """
        Args:
            a: Which one.
        """


def test_docstring_of_an_object() -> None:
    """An object that is called has the docstring of its class, where its call has none, or only parameters."""
    weigh = tool(Scale())
    assert ("Weigh a thing.", "Which one.") == (weigh.description, weigh.parameters["properties"]["a"]["description"])
    shown = tool(Described())

    assert ("Find a way.", "Where to.") == (shown.description, shown.parameters["properties"]["a"]["description"])
    assert "" == tool(Undescribed()).description


class Dial:
    """A dial."""

    def __init__(self, number: int, place: str = "home") -> None:
        """Create it.

        Args:
            number: Whom to call.
        """


class Order(BaseModel):
    """Place an order."""

    number: int = Field(alias="no", description="How many.")
    kind: Annotated[str, Doc("Of what.")] = "tea"
    note: str = ""


def test_texts_of_a_model() -> None:
    """The fields of a model that is a tool are described as those of a model that is a parameter."""
    properties = tool(Order).parameters["properties"]

    assert {"no": "How many.", "kind": "Of what.", "note": None} == {
        name: part.get("description") for name, part in properties.items()
    }
    assert 5 == tool(Order).invoke('{"no": 5}').value.number


def test_docstring_of_a_class() -> None:
    """A class is described by its docstring, and its parameters by that of `__init__`, if its own has none."""
    shown = tool(Dial)

    assert ("A dial.", "Whom to call.") == (shown.description, shown.parameters["properties"]["number"]["description"])


class Lamp:
    """A lamp.

    Attributes:
        watts: Its power.
    """

    def __init__(self, watts: int, color: str = "white") -> None:
        """Make a lamp.

        Args:
            watts: How strong it is.
            color: Of the light.
        """
        self.watts = watts


def test_two_docstrings_of_a_class() -> None:
    """What `__init__` says about a parameter comes before the attributes that the class lists."""
    properties = tool(Lamp).parameters["properties"]

    assert {"watts": "How strong it is.", "color": "Of the light."} == {
        name: part["description"] for name, part in properties.items()
    }


@dataclass
class Sign:
    """A sign.

    Attributes:
        text: What it says.
        width: Of the text.
    """

    text: str

    @property
    def width(self) -> int:
        return len(self.text)


class Label(BaseModel):
    """A label.

    Attributes:
        text: What it says.
        size: Its size.
    """

    text: str
    size: int = Field(description="In points.")


class Poster:
    """A poster.

    Attributes:
        text: What was said.
    """

    def __init__(self, text: str, size: int = 10) -> None:
        """Print it.

        Args:
            text: What to say.
            size: In points.
        """
        self.text = text * size


@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        (Sign, {"text": "What it says."}),
        (Label, {"text": "What it says.", "size": "In points."}),
        (Poster, {"text": "What to say.", "size": "In points."}),
    ],
)
def test_attributes_of_a_class(kind: Any, texts: dict[str, str]) -> None:
    """The attributes in the docstring of a class describe its parameters, unless these have texts of their own."""
    properties = tool(kind).parameters["properties"]

    assert texts == {name: part["description"] for name, part in properties.items()}
    assert [] == list(Toolbox([kind]).check())


class Silent(BaseModel):
    number: int


class SilentPair(NamedTuple):
    number: int


@dataclass
class SilentData:
    number: int


class SilentProperty:
    __doc__: Any = property(lambda self: "Whose it is.")

    def __init__(self, number: int) -> None:
        self.number = number


@pytest.mark.parametrize("kind", [Silent, SilentPair, SilentData, SilentProperty])
def test_class_without_a_docstring(kind: Any) -> None:
    """A class without a docstring has no description: neither that of pydantic's base class, nor its signature."""
    assert "" == tool(kind).description
    assert 5 == tool(kind).invoke('{"number": 5}').value.number


def test_attrs_class() -> None:
    """A default that a factory makes is not in the schema of a class of attrs."""

    @attrs.define
    class Basket:
        owner: str
        items: list[str] = attrs.Factory(list)

    properties = {"owner": {"type": "string"}, "items": {"type": "array", "items": {"type": "string"}}}
    assert properties == tool(Basket).parameters["properties"]
    assert [] == tool(Basket).invoke('{"owner": "Emma"}').value.items


def test_partial_with_a_name() -> None:
    """A partial's own name and docstring are those of the tool."""
    named = functools.partial(add, 1)
    named.__name__, named.__doc__ = "add_one", "Add to one."  # type: ignore[attr-defined]

    assert ("add_one", "Add to one.") == (tool(named).name, tool(named).description)


class Adder:
    """Adds to a base."""

    def __call__(self, a: int) -> int:
        """Add one.

        Args:
            a: A summand.
        """
        return a + 1


@pytest.mark.parametrize("called", [Adder(), functools.partial(Adder())], ids=["object", "partial"])
def test_wrapper_of_an_object(called: Callable[[int], int]) -> None:
    """A wrapper of an object or a partial has the docstring of what is called, and not that of the object's class."""
    made = tool(wrapping(wrapping(called)))

    assert ("Add one.", "A summand.") == (made.description, made.parameters["properties"]["a"]["description"])
    assert 2 == made.invoke('{"a": 1}').value


def declared(x: int) -> str: ...  # type: ignore[empty-body]


@functools.wraps(declared)
def wraps_a_declaration(*_: Any, **__: Any) -> str:
    return "done"


def test_wrapper_of_a_declaration() -> None:
    """What wraps a declaration and does something is a function; what it wraps is only what it is shown as."""
    made = tool(wraps_a_declaration)

    assert (["x"], "done") == ([*made.parameters["properties"]], made.invoke('{"x": 1}').value)


class Shelf:
    @naming_the_first
    def put(self, a: int, b: int = 2) -> list[int]:
        return [a, b]

    @wrapping
    @by_position_only
    def take(self, a: int, b: int = 2) -> list[int]:
        return [a, b]

    @functools.singledispatchmethod
    def describe(self, a: int, b: int = 2) -> list[int]:
        return [a, b]


def add_up(a: int, b: int = 2) -> list[int]:
    return [a, b]


@functools.singledispatch
def describe(a: int, b: int = 2) -> list[int]:
    return [a, b]


@pytest.mark.parametrize(
    "function",
    [
        naming_the_first(add_up),
        wrapping(naming_the_first(add_up)),
        Shelf().put,
        Shelf().take,
        describe,
        Shelf().describe,
    ],
    ids=["one layer", "two layers", "method", "method of two layers", "singledispatch", "singledispatchmethod"],
)
def test_a_wrapper_gets_by_position_what_it_names_otherwise(function: Callable[..., Any]) -> None:
    """A parameter that a wrapper knows by another name, or by none, is passed by position."""
    assert tool(function).invoke({"a": 1, "b": 3}).value == [1, 3]
    assert tool(function).invoke({"a": 1}).value == [1, 2]
    assert ["a"] == tool(function).parameters["required"]


T = TypeVar("T")


class Person(BaseModel):
    name: str


class Envelope(BaseModel, Generic[T]):
    content: T


class Store(Generic[T]):
    """A class whose methods take values of the type that a subclass names."""

    def put(self, item: T, others: list[T] | None = None, *more: T) -> list[T]:
        return [item, *(others or ()), *more]

    def send(self, sent: Envelope[T], by: dict[str, T]) -> T:
        return by.get("name", sent.content)

    @classmethod
    def check(cls, item: Annotated[T, "Whom."]) -> T:
        return item

    @tool
    def take(self, item: T) -> T:
        """Take an item."""
        return item

    def __call__(self, item: T) -> T:
        """Return an item."""
        return item


class People(Store[Person]): ...


class Lists(Store[list[T]], Generic[T]):
    def add(self, item: T) -> T:
        return item


class Numbers(Lists[int]): ...


class Reader(Protocol[T]):
    def read(self, item: T) -> T:
        return item


class NumberReader(Reader[int], Protocol): ...


class OwnReader(NumberReader): ...


class Named(Store["Person"]): ...


class Folder(BaseModel, Generic[T]):
    def keep(self, item: T) -> T:
        return item


class Files(Folder[Person]): ...


ANN = Person(name="Ann")
IN_GENERIC_CLASSES = {
    "in a subclass": (People().put, {"item": ANN, "others": [ANN], "more": [ANN]}, [ANN] * 3),
    "in a generic type": (People().send, {"sent": {"content": ANN}, "by": {}}, ANN),
    "class method": (People.check, {"item": ANN}, ANN),
    "decorated": (People().take, {"item": ANN}, ANN),
    "callable object": (People(), {"item": ANN}, ANN),
    "partial": (functools.partial(People().put, others=[]), {"item": ANN}, [ANN]),
    "two steps above": (Numbers().put, {"item": [1]}, [[1]]),
    "the same variable below": (Numbers().add, {"item": 1}, 1),
    "of the instance": (Store[Person]().put, {"item": ANN}, [ANN]),
    "decorated, of the instance": (Store[Person]().take, {"item": ANN}, ANN),
    "decorated, two steps above the instance": (Lists[int]().take, {"item": [1]}, [1]),
    "protocol": (OwnReader().read, {"item": "1"}, 1),
    "model": (Files().keep, {"item": ANN}, ANN),
    "alias of a model": (Folder[Person]().keep, {"item": ANN}, ANN),
    "written as text": (Named().put, {"item": "x"}, ["x"]),
    "unknown": (Store().put, {"item": "x"}, ["x"]),
}


@pytest.mark.parametrize(("method", "values", "result"), IN_GENERIC_CLASSES.values(), ids=IN_GENERIC_CLASSES)
def test_methods_of_generic_classes(method: Any, values: dict[str, Any], result: Any) -> None:
    """A method receives values of the types that its class, or its instance, has for type variables."""
    assert result == tool(method).invoke(json.dumps(values, default=Person.model_dump)).value


def test_results_of_generic_classes() -> None:
    """The return annotation of a method has these types, too."""
    assert "integer" == tool(Numbers().add).output_schema["type"]  # type: ignore[index]
    assert tool(Numbers().add).invoke('{"item": "x"}').is_error
