"""Annotations are understood wherever a function was written: as text, in local scopes, in class bodies, in cells."""

from __future__ import annotations

import gc
import importlib.util
import inspect
import sys
import types
import typing
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Optional, TypeVar

import pytest
from pydantic import BaseModel, Field
from typing_extensions import Self, TypeAliasType, TypedDict

from toolkit import DefinitionError, Tool, Toolbox, ToolContext, tool

if TYPE_CHECKING:
    from nowhere import Database, Reply  # type: ignore[import-not-found]

    import toolkit

POINT = '{"at": {"x": 1}}'


@dataclass
class Point:
    x: int


SOURCE = """
{future}
from dataclasses import dataclass
from toolkit import tool, ToolContext

@dataclass
class Point:
    x: int

@tool
def module(at: Point, context: ToolContext[int]): return at

class Body:
    @dataclass
    class Inner:
        x: int

    @tool
    def method(self, at: Point, context: ToolContext[int]): return at

    @tool
    def inner(self, at: Inner, context: ToolContext[int]): return at

def local():
    @dataclass
    class Point:
        x: int
        y: int = 2

    @tool
    def function(at: Point, context: ToolContext[int]): return at

    class Body:
        @tool
        def method(self, at: Point, context: ToolContext[int]): return at

    class Called:
        def __call__(self, at: Point, context: ToolContext[int]): return at

    class Made:
        def __init__(self, at: Point, context: ToolContext[int]): self.at = at

    return function, Body().method, tool(Called()), tool(Made)

tools = (module, Body().method, Body().inner, *local())
"""


PLACES = ["module", "method", "class body", "function", "local method", "local call", "local class"]


def loaded(source: str) -> types.ModuleType:
    """Load a module from its text."""
    module = types.ModuleType("written")
    sys.modules["written"] = module  # dataclasses look their module up
    exec(compile(source, "written.py", "exec", dont_inherit=True), module.__dict__)  # noqa: S102
    return module


@pytest.fixture(autouse=True)
def unloaded() -> Iterator[None]:
    yield
    sys.modules.pop("written", None)


@pytest.mark.parametrize(
    "place", range(7), ids=["module", "method", "class body", *["function", "method", "call", "new"]]
)
def test_future(place: int) -> None:
    """A function has the same schema with and without the future import, wherever it stands."""
    as_text = loaded(SOURCE.format(future="from __future__ import annotations")).tools[place]
    as_types = loaded(SOURCE.format(future="")).tools[place]

    assert as_types.parameters == as_text.parameters
    assert ["at"] == list(as_text.parameters["properties"])


@pytest.mark.parametrize(
    "place", range(7), ids=["module", "method", "class body", *["function", "method", "call", "new"]]
)
def test_future_values(place: int) -> None:
    """A text as annotation gives values of the type that it names."""
    made = loaded(SOURCE.format(future="from __future__ import annotations")).tools[place]
    value = made.invoke(POINT, ToolContext(deps=1)).value

    assert 1 == getattr(value, "at", value).x


def test_local_function_in_a_toolbox() -> None:
    """A plain local function that is put in a toolbox knows the types beside it."""

    @dataclass
    class Local:
        x: int

    def function(at: Local) -> Any:
        return at

    assert Local(1) == Toolbox([function]).call("function", POINT).value


def decorated_elsewhere(function: Callable[..., Any]) -> Tool[..., Any]:
    Local = "a name of the helper's"  # noqa: F841
    return tool(function)


def test_helper() -> None:
    """A decorator of the user's own may stand between: the names are those of the place of writing."""

    @dataclass
    class Local:
        x: int

    @decorated_elsewhere
    def function(at: Local) -> Any:
        return at

    assert Local(1) == function.invoke(POINT).value


def at_module_level(at: Point) -> Any:
    return at


def test_who_decorates_lends_no_names() -> None:
    """A local name of whoever decorates never stands for a name of the function's module."""
    Point = "a name of the test's"  # noqa: F841

    assert 1 == tool(at_module_level).invoke(POINT).value.x


def test_nested_scopes() -> None:
    """Names of every function around count, the innermost first."""
    Unit = typing.Literal["a"]

    def middle() -> Tool[..., Any]:
        Unit = typing.Literal["b"]  # noqa: F841
        Deep = int  # noqa: F841

        @tool
        def function(unit: Unit, deep: Deep) -> Any: ...  # type: ignore[valid-type]

        return function

    assert {"const": "b", "type": "string"} == middle().parameters["properties"]["unit"]
    assert typing.Literal["a"] == Unit


def test_closure() -> None:
    """A name that the function uses is known after the function around it has ended."""

    def around() -> Callable[..., Any]:
        @dataclass
        class Local:
            x: int

        def function(at: Local) -> Any:
            return at == Local(1)

        return function

    assert True is tool(around()).invoke(POINT).value


def test_empty_closure() -> None:
    """A name that has no value yet is like one that is not there."""

    def around() -> Tool[..., Any]:
        @tool
        def function(at: Later) -> Any:  # type: ignore[valid-type]
            return Later

        with pytest.raises(DefinitionError, match="parameter 'at'.* annotation 'Later' cannot be resolved"):
            _ = function.parameters
        Later = int
        return function

    assert "function" == around().name


def test_later_in_the_module() -> None:
    """A type of the module may be written after the function."""
    source = "from toolkit import tool\n@tool\ndef function(at: 'Later'): return at\nLater = int\n"

    assert 1 == loaded(source).function.invoke('{"at": 1}').value


QUOTED = {
    "whole": "Point",
    "in a list": list["Point"],
    "in a list of typing": typing.List["Point"],  # noqa: UP006
    "in an Optional": Optional["Point"],
    "in a list in an Optional": Optional[list["Point"]],  # noqa: UP045
    "in a list in Annotated": typing.Annotated[list["Point"], "Where."],
    "in a dict": dict[str, list["Point"]],
    "in a text": 'list["Point"]',
}


@pytest.mark.parametrize("annotation", QUOTED.values(), ids=QUOTED)
def test_quoted(annotation: Any) -> None:
    """A name in quotes is understood inside other types, too."""

    def function(at: Any) -> None: ...

    function.__annotations__ = {"at": annotation}

    assert ["Point"] == list(tool(function).parameters["$defs"])


def test_quoted_in_local_scope() -> None:
    """A name in quotes inside another type is found among local names."""

    @dataclass
    class Local:
        x: int

    @tool
    def function(at: list[Local]) -> Any:
        return at

    assert [Local(1)] == function.invoke('{"at": [{"x": 1}]}').value


def test_literal_texts_are_no_names() -> None:
    """The texts of a Literal stay texts."""

    def function(unit: typing.Literal["Point", "int"]) -> Any:
        return unit

    assert ["Point", "int"] == tool(function).parameters["properties"]["unit"]["enum"]


def test_return_annotation() -> None:
    """A return type that exists for type checkers only blocks nothing."""

    @tool
    def function(a: int) -> Reply:
        return a

    assert 1 == function.invoke('{"a": 1}').value


def contextual_bare(a: int, it: ToolContext[Database]) -> Any:
    return type(it)


def contextual_union(a: int, it: ToolContext[Database] | None = None) -> Any:
    return type(it)


def contextual_reversed(a: int, it: None | ToolContext[Database] = None) -> Any:
    return type(it)


def contextual_optional(a: int, it: Optional[ToolContext[Database]] = None) -> Any:  # noqa: UP045
    return type(it)


def contextual_dotted(a: int, it: toolkit.ToolContext[Database] | None = None) -> Any:
    return type(it)


@pytest.mark.parametrize(
    "function",
    [contextual_bare, contextual_union, contextual_reversed, contextual_optional, contextual_dotted],
    ids=lambda function: function.__name__,
)
def test_context_for_type_checkers(function: Callable[..., Any]) -> None:
    """A context is given though its dependencies' type exists for type checkers only."""
    made = tool(function)

    assert (["a"], ToolContext) == (list(made.parameters["properties"]), made.invoke('{"a": 1}').value)


Context = TypeAliasType("Context", ToolContext[str])


def test_context_by_an_alias() -> None:
    """A type alias of a context is one: the run supplies it, and needs its dependencies."""

    def function(a: int, it: Context) -> str:
        return it.deps

    made = tool(function)

    assert ["a"] == list(made.parameters["properties"])
    assert "b" == made.invoke('{"a": 1}', context=ToolContext(deps="b")).value
    with pytest.raises(TypeError, match="there are no deps"):
        made.invoke('{"a": 1}')


def test_parameter_for_type_checkers() -> None:
    """A parameter whose type exists for type checkers only is refused by name, or left out where it has a default."""

    def needing(a: int, db: Database) -> None: ...

    def offering(a: int, db: Database | None = None) -> Any:
        return db

    with pytest.raises(DefinitionError, match=r"needing\(\): parameter 'db' .*'Database' cannot be resolved"):
        _ = tool(needing).parameters
    assert ["a"] == list(tool(offering).parameters["properties"])


def test_wrapped_elsewhere(tmp_path: Path) -> None:
    """A wrapper of another module leaves the annotations to the module of the function."""
    (tmp_path / "wrapping.py").write_text(
        "from functools import wraps\n"
        "def wrapping(function):\n"
        "    @wraps(function)\n"
        "    def wrapper(*args, **kwargs): return function(*args, **kwargs)\n"
        "    return wrapper\n"
    )
    spec = importlib.util.spec_from_file_location("wrapping", tmp_path / "wrapping.py")
    module = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
    spec.loader.exec_module(module)  # type: ignore[union-attr]

    assert 1 == tool(module.wrapping(at_module_level)).invoke(POINT).value.x


def test_partial_of_a_local_function() -> None:
    """A partial of a local function knows the types beside the function."""

    @dataclass
    class Local:
        x: int

    def function(at: Local, b: int) -> Any:
        return at

    assert Local(1) == tool(partial(function, b=1)).invoke(POINT).value


def test_cell() -> None:
    """In a notebook's cell, whose names are globals and locals at once, types are found."""
    cell: dict[str, Any] = {"tool": tool}
    exec("class Alias(int): pass\n@tool\ndef function(a: 'int | None'): return a", cell)  # noqa: S102

    assert 1 == cell["function"].invoke('{"a": 1}').value


def test_separate_scopes() -> None:
    """Code that is run with locals of its own finds them."""
    names: dict[str, Any] = {}
    code = "Alias = int\n@tool\ndef function(a: 'Alias'): return a"
    exec(code, {"tool": tool}, names)  # noqa: S102

    assert 1 == names["function"].invoke('{"a": "1"}').value


@pytest.mark.skipif(sys.version_info < (3, 12), reason="type parameters came with Python 3.12")
def test_type_parameters() -> None:
    """A type parameter is a name as good as any, as text, too."""
    cell: dict[str, Any] = {"tool": tool}
    exec("@tool\ndef function[T: int](a: 'T', b: list[T]): return a", cell)  # noqa: S102

    assert {"a", "b"} == cell["function"].parameters["properties"].keys()
    assert ["T"] == [each.__name__ for each in cell["function"].__type_params__]  # typing.get_type_hints() reads it


@pytest.mark.skipif(sys.version_info < (3, 12), reason="type parameters came with Python 3.12")
def test_type_parameters_of_a_class() -> None:
    """A type parameter of a class is a name in its methods."""
    cell: dict[str, Any] = {}
    exec("class Store[T: int]:\n    def put(self, item: 'T'): return item", cell)  # noqa: S102
    made = tool(cell["Store"]().put)

    assert (1, True) == (made.invoke('{"item": "1"}').value, made.invoke('{"item": "x"}').is_error)


class Shop:
    """A class with another one inside."""

    class Order(BaseModel):
        item: str

    def place(self, order: Order, gift: Order | None = None) -> str:
        """Place an order."""
        return order.item + (gift.item if gift else "")

    @staticmethod
    def cancel(order: Order) -> str:
        """Cancel an order."""
        return order.item


class Stall(Shop):
    """A class that inherits both."""


@pytest.mark.parametrize("owner", [Shop(), Stall()])
def test_class_inside_a_class(owner: Shop) -> None:
    """A method's annotations may name a class that is defined in its own class, or in a base of that."""
    made = tool(owner.place)

    assert "ab" == made.invoke({"order": {"item": "a"}, "gift": {"item": "b"}}).value
    assert ["order"] == made.parameters["required"]


def test_class_of_an_inherited_method() -> None:
    """A method's annotations name the class inside the class that defines it, not inside one that inherits it."""
    owner: Any = type("Market", (Shop,), {"Order": Point})

    assert "a" == tool(owner().place).invoke({"order": {"item": "a"}}).value


def test_class_inside_a_class_with_the_name_of_its_base() -> None:
    """A method's annotations name the class inside its own class, though a base in another module has its name."""
    code = (
        "class Shop(Shop):\n class Order(Model):\n  number: int\n"
        " def count(self, order: 'Order'):\n  return order.number"
    )
    cell: dict[str, Any] = {"__name__": "other", "Shop": Shop, "Model": BaseModel}
    exec(code, cell)  # noqa: S102
    owner = cell["Shop"]()

    assert 3 == tool(owner.count).invoke({"order": {"number": 3}}).value
    assert "a" == tool(owner.place).invoke({"order": {"item": "a"}}).value


def test_local_class_of_a_method() -> None:
    """A method's annotations may name its class, though that is local to a function which has ended."""

    def make() -> Any:
        @dataclass
        class Sum:
            value: int

            def add(self, other: Sum) -> int:
                """Add another sum."""
                return self.value + other.value

        return Sum(1)

    assert 3 == tool(make().add).invoke({"other": {"value": 2}}).value


def test_class_of_a_partial_of_a_tool() -> None:
    """A partial of a method that is a tool knows the class inside its class, too."""
    made = tool(partial(tool(Shop.place), Shop()))

    assert "a" == made.invoke({"order": {"item": "a"}}).value


def test_class_of_a_static_method() -> None:
    """A static method's annotations may name a class inside its class."""
    assert "a" == tool(Shop.cancel).invoke({"order": {"item": "a"}}).value


def test_class_that_replaces_another() -> None:
    """While the body of a class runs, the names in it are meant, and not those of the class that it will replace."""
    cell: dict[str, Any] = {"tool": tool}
    code = "class Body:\n    Size = {}\n    @tool\n    @staticmethod\n    def put(size: 'Size'): return size"
    exec(code.format("int"), cell)  # noqa: S102
    exec(code.format("str"), cell)  # noqa: S102

    assert "1" == cell["Body"].put.invoke('{"size": "1"}').value


def test_no_other_names_stay_alive() -> None:
    """Of the names around a function only those that annotations use stay alive."""

    class Heavy: ...

    def around(heavy: Heavy) -> Tool[..., Any]:
        Alias = int  # noqa: F841

        @tool
        def function(a: Alias) -> Any:  # type: ignore[valid-type]
            return a

        return function

    def making() -> tuple[Tool[..., Any], weakref.ref[Heavy]]:
        heavy = Heavy()
        return around(heavy), weakref.ref(heavy)

    made, reference = making()
    gc.collect()

    assert (1, None) == (made.invoke('{"a": 1}').value, reference())


@pytest.mark.skipif(sys.version_info < (3, 12), reason="type aliases by statement came with Python 3.12")
def test_type_statement() -> None:
    """A type alias is its type, and may name itself."""
    cell: dict[str, Any] = {"tool": tool}
    exec("type Tree = list[Tree] | int\n@tool\ndef function(a: Tree, b: 'Tree' = 1): return [a, b]", cell)  # noqa: S102
    made = cell["function"]

    assert [[[1], 2], 1] == made.invoke('{"a": [[1], 2]}').value
    assert True is made.invoke('{"a": ["x"]}').is_error


def test_classes_that_name_local_ones() -> None:
    """What a local class names is found, too, however many classes lie between."""

    class Inner(BaseModel):
        x: int

    class Keys(TypedDict):
        inner: Inner

    @dataclass
    class Outer:
        keys: list[Keys]

    @tool
    def function(at: Outer, more: list[Outer] | None = None) -> Any:
        return at

    assert Outer([{"inner": Inner(x=1)}]) == function.invoke('{"at": {"keys": [{"inner": {"x": 1}}]}}').value


def test_types_of_a_wrapper() -> None:
    """Where a wrapper shows a signature of its own, its texts are read in the scope of the function behind it."""

    @dataclass
    class Local:
        x: int

    def inner(at: Local) -> Any:
        return at

    @wraps(inner)
    def outer(*args: Any, **kwargs: Any) -> Any:
        return inner(*args, **kwargs)

    kind = inspect.Parameter.KEYWORD_ONLY
    outer.__signature__ = inspect.Signature([inspect.Parameter("at", kind, annotation="Local")])  # type: ignore[attr-defined]

    assert Local(1) == tool(outer).invoke(POINT).value


MISUSED: dict[str, Any] = {
    "Final": typing.Final[int],
    "ClassVar": typing.ClassVar[int],
    "NoReturn": typing.NoReturn,
    "ellipsis": ...,
    "value": 5,
    "bytes": b"int",
    "Field": Field(ge=1),
    "list of types": [int],
    "tuple of types": (int, str),
    "empty text": "",
    "function as a part": dict[str, any],  # type: ignore[valid-type]
    "value as a part": typing.Optional[list[5]],  # type: ignore[valid-type]  # noqa: UP045
    "value in Annotated": typing.Annotated[any, "five"],
}


@pytest.mark.filterwarnings("ignore:.* is not a Python type")  # as in an application, where it is not an error
@pytest.mark.parametrize("annotation", MISUSED.values(), ids=MISUSED)
def test_misused(annotation: Any) -> None:
    """What is not a type of a value is refused, with function and parameter."""

    def function(at: Any) -> None: ...

    function.__annotations__ = {"at": annotation}

    with pytest.raises(DefinitionError, match=r"function\(\): parameter 'at' cannot be described to a model: its"):
        _ = tool(function).parameters


Numbered = TypeVar("Numbered", bound="Ticket")
Chosen = TypeVar("Chosen", int, "Ticket")


class Ticket(BaseModel):
    number: int


def test_limits_of_type_variables() -> None:
    """The bound and the constraints of a type variable may be names of the module, as in any annotation."""

    @tool
    def add(bound: list[Numbered], one_of: Chosen) -> list[Numbered]:
        """Add them."""
        return bound

    result = add.invoke({"bound": [{"number": 1}], "one_of": 2})

    assert [Ticket(number=1)] == result.value
    assert "Ticket" in (add.output_schema or {})["$defs"]
    assert add.invoke({"bound": [1], "one_of": 2}).is_error
    assert add.invoke({"bound": [], "one_of": "x"}).is_error


def test_self() -> None:
    """A parameter that is the class of its method is asked to name the class."""

    def function(other: Any) -> None: ...

    function.__annotations__["other"] = Self

    with pytest.raises(DefinitionError, match=r"'other' cannot be described to a model: .*Self is not a type"):
        _ = tool(function).parameters


class Library:
    Letter = Literal["a", "b"]
    Letters = list[Letter]

    def list(self, letters: Letters, first: Letter = "a") -> list[str]:
        """List the books of some letters."""
        return [first, *letters]


def test_aliases_in_a_class() -> None:
    """Annotations of a method may name the types that its class has, and the methods beside them hide no type."""
    made = tool(Library().list)

    assert ["b", "a"] == made.invoke({"letters": ["a"], "first": "b"}).value
    assert made.invoke({"letters": ["c"]}).is_error
