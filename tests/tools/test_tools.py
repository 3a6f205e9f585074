"""A function becomes a tool and stays a function: every kind of callable, every way in, every way to fail."""

from __future__ import annotations

import abc
import asyncio
import contextlib
import contextvars
import copy
import functools
import hashlib
import inspect
import json
import operator
import os
import pickle
import re
import signal
import subprocess
import sys
import threading
import types
import typing
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any, Literal
from unittest.mock import Mock, create_autospec

import pytest
from pydantic import BaseModel, Field, SecretStr, field_validator, model_validator

from toolkit import (
    Cancelled,
    DefinitionError,
    Denied,
    Failed,
    FatalError,
    InvalidArguments,
    NotFound,
    TimedOut,
    Tool,
    Toolbox,
    ToolContext,
    ToolError,
    ToolResult,
    tool,
)

NEXT = ". Try other arguments or another tool, or report that this did not work."
HIDDEN = f". Its message is not shown here{NEXT}"


@tool
def add(a: int, b: int = 2) -> int:
    """Add two numbers.

    Args:
        a: The first.
    """
    return a + b


@tool(name="sum_up", title="Sum", description="Adds.", relay=(KeyError,))
def optioned(a: int, b: int = 2) -> int:
    """Not shown."""
    return a + b


def plain(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


async def later(a: int, b: int = 2) -> int:
    """Add two numbers, later."""
    return a + b


def promising(a: int, b: int = 2) -> Awaitable[int]:
    """Promise the sum of two numbers."""
    return later(a, b)


def bare(a):  # type: ignore[no-untyped-def]
    return a


def wrapping(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


class Account:
    """Holds a balance."""

    rate = 10

    def __init__(self, balance: int = 0) -> None:
        self.balance = balance

    @tool
    def deposit(self, amount: int) -> int:
        """Put money in."""
        self.balance += amount
        return self.balance

    @tool
    @classmethod
    def yearly(cls, amount: int) -> int:
        """Tell the interest."""
        return amount // cls.rate

    @classmethod
    @tool
    def monthly(cls, amount: int) -> int:
        """Tell the interest."""
        return amount // cls.rate

    @tool
    @staticmethod
    def doubled(amount: int) -> int:
        """Double."""
        return 2 * amount

    @staticmethod
    @tool
    def tripled(amount: int) -> int:
        """Triple."""
        return 3 * amount

    @tool
    async def audit(self, amount: int) -> bool:
        """Compare."""
        return self.balance == amount

    def undecorated(self, a: int, b: int = 2) -> int:
        """Add two numbers."""
        return self.balance + a + b

    @classmethod
    def of_class(cls, a: int, b: int = 2) -> int:
        return a + b

    @staticmethod
    def of_nothing(a: int, b: int = 2) -> int:
        return a + b


class Savings(Account):
    rate = 5


class Adder:
    """Adds."""

    def __call__(self, a: int, b: int = 2) -> int:
        """Add two numbers."""
        return a + b


class LateAdder:
    async def __call__(self, a: int, b: int = 2) -> int:
        return a + b


class Sum:
    """A sum."""

    def __init__(self, a: int, b: int = 2) -> None:
        self.total = a + b

    def __str__(self) -> str:
        return str(self.total)


KINDS = {
    "function": plain,
    "coroutine function": later,
    "function that returns an awaitable": promising,
    "lambda": lambda a, b=2: a + b,
    "lambda that returns an awaitable": lambda a, b=2: later(a, b),
    "partial": functools.partial(plain, b=2),
    "partial of a partial": functools.partial(functools.partial(plain, b=7), b=2),
    "partial by position": functools.partial(lambda c, a, b=2: a + b + c, 0),
    "partial of a coroutine function": functools.partial(later, b=2),
    "partial of a tool": functools.partial(add, b=2),
    "callable object": Adder(),
    "async callable object": LateAdder(),
    "class": Sum,
    "bound method": Account(0).undecorated,
    "class method": Account.of_class,
    "static method": Account.of_nothing,
    "lru_cache": functools.lru_cache(plain),
    "wrapper": wrapping(plain),
    "wrapper of a wrapper": wrapping(wrapping(later)),
    "tool": add,
    "mock with a specification": create_autospec(plain, side_effect=plain),
}


@pytest.mark.parametrize("function", KINDS.values(), ids=KINDS)
def test_kinds(function: Callable[..., Any]) -> None:
    """Every kind of callable can be called by a model, through the sync backend."""
    made = tool(name="kind")(function)

    assert "5" == str(made.invoke('{"a": 3}').value)
    assert "no such parameter" in str(made.invoke('{"c": 3}').error)


@pytest.mark.parametrize("function", KINDS.values(), ids=KINDS)
def test_kinds_async(function: Callable[..., Any]) -> None:
    """Every kind of callable can be called by a model, through the async backend."""
    made = tool(name="kind")(function)

    assert "5" == str(asyncio.run(made.ainvoke('{"a": 3}')).value)


PYTHON = {
    "len": (len, '{"obj": "four"}', 4),
    "round": (round, '{"number": 2.6}', 3),
    "str.upper": (str.upper, '{"self": "a"}', "A"),
    "os.path.basename": (os.path.basename, '{"p": "/a/b"}', "b"),
}


@pytest.mark.parametrize(("function", "words", "value"), PYTHON.values(), ids=PYTHON)
def test_builtins(function: Callable[..., Any], words: str, value: object) -> None:
    """A function of Python's own can be a tool where it has a signature."""
    assert value == tool(function).invoke(words).value


@pytest.mark.parametrize("function", [min, dict, type], ids=lambda it: it.__name__)
def test_no_signature(function: Callable[..., Any]) -> None:
    """What has no signature is refused, with a way out."""
    made = tool(function)

    assert f"<Tool {function.__name__}(...)>" == repr(made)
    with pytest.raises(DefinitionError, match="has no signature that Python can read. Wrap it in a function"):
        made.invoke("{}")


def halve(a: int) -> int:
    """Halve."""
    return a // 2


class Hostile:
    """An object whose attribute of one name raises, or is of a type that no function's has."""

    def __init__(self, name: str, value: object) -> None:
        self.name, self.value = name, value

    def __getattribute__(self, name: str) -> Any:
        if name != object.__getattribute__(self, "name"):
            return object.__getattribute__(self, name)
        if isinstance(value := object.__getattribute__(self, "value"), Exception):
            raise value
        return value

    def __call__(self, x: int) -> int:
        """Return it."""
        return x


@pytest.mark.parametrize(
    "function",
    [
        Mock(spec=halve),
        functools.partial(Mock(spec=halve)),
        *(Hostile(name, OSError()) for name in ("__signature__", "__annotations__", "__doc__", "__name__", "__func__")),
        Hostile("__signature__", 5),
    ],
    ids=lambda it: getattr(it, "name", type(it).__name__) if type(it) is Hostile else type(it).__name__,
)
def test_object_that_cannot_be_read(function: Any) -> None:
    """An object that imitates a function, but cannot be read like one, is refused with a way out."""
    with pytest.raises(DefinitionError, match=r"Wrap it in a function"):
        tool(function).invoke("{}")


@pytest.mark.parametrize(
    ("name", "value"),
    [("__doc__", 5), ("__name__", 5), ("__name__", "a b"), ("__annotations__", [1]), ("__name__", "")],
)
def test_odd_attributes(name: str, value: object) -> None:
    """An object whose name, docstring or annotations are of another type is a tool, with what else it has."""
    made = tool(Hostile(name, value), name="odd")

    assert "7" == made.invoke('{"x": 7}').text


def test_mock_of_a_function() -> None:
    """A mock that has the signature of a function is a tool."""
    made = tool(create_autospec(halve, return_value=7))

    assert "7" == made.invoke({"a": 1}).text


def test_mock_of_a_tool() -> None:
    """A tool can be replaced by a mock with its attributes, and all its attributes can be listed."""
    spy = create_autospec(tool(plain), return_value=7)

    assert (7, True, False) == (spy(1), hasattr(spy, "invoke"), hasattr(spy, "other"))
    assert {"parameters", "invoke"} <= {name for name, _ in inspect.getmembers(tool(plain))}


def test_callable_written_in_c() -> None:
    """A callable object without a function of Python behind it is a tool where it has a signature."""
    assert "itemgetter" in tool(operator.itemgetter(1)).origin


def test_mock() -> None:
    """A mock answers for a tool, though it has every attribute."""
    assert 7 == tool(Mock(return_value=7)).invoke("{}").value


def test_decorator_forms() -> None:
    """With and without parentheses the decorator makes the same declaration."""
    made = tool()(plain)

    assert ("plain", "Add two numbers.", None) == (made.name, made.description, made.title)
    assert tool(plain).parameters == made.parameters


def test_declaration() -> None:
    """A tool has a name, a description and parameters; its title is not sent."""
    assert ("sum_up", "Adds.") == (optioned._spec.name, optioned._spec.description)
    assert "Sum" not in repr(Toolbox([optioned]).schemas())


def halved(x: Literal["\ud800"]) -> None: ...
def described(x: Annotated[str, Field(description="\ud800")]) -> None: ...


@pytest.mark.parametrize("made", [tool(halved), tool(described), tool(plain, description="\ud800")])
def test_not_sendable(made: Tool[..., Any]) -> None:
    """A tool that no request can contain is refused early; the message names the function."""
    with pytest.raises(DefinitionError, match=r"test_tools\.\w+\(\): its description or schema holds what no JSON"):
        _ = made._spec


def test_declaration_from_docstring() -> None:
    """Name, description and parameter texts are taken from the function."""
    assert ("add", "Add two numbers.") == (add.name, add.description)
    assert {"type": "integer", "description": "The first."} == add.parameters["properties"]["a"]


def test_decorating_a_tool() -> None:
    """Decorating a tool again retains the options that are not given, and does not change the first tool."""
    made = tool(optioned, name="other", description="")

    assert ("other", "Sum", "", (KeyError,)) == (made.name, made.title, made.description, made.relay)
    assert "sum_up" == optioned.name


@pytest.mark.parametrize(
    "change",
    [{"title": "T"}, {"relay": (KeyError,)}],
    ids=lambda change: next(iter(change)),
)
def test_options(change: dict[str, Any]) -> None:
    """Each option is stored as it is."""
    made = tool(**change)(plain)

    assert change == {name: getattr(made, name) for name in change}


def test_same_function_twice() -> None:
    """Two tools of one function are independent."""
    one, two = tool(name="one")(plain), tool(name="two", title="Two")(plain)

    assert ("one", None, "two", "Two") == (one.name, one.title, two.name, two.title)


def test_is_callable() -> None:
    """A decorated function is called as before, with Python's values and without validation."""
    assert (3, 5, "ab") == (add(1), add(2, b=3), add("a", "b"))  # type: ignore[arg-type]


def test_is_awaitable() -> None:
    """A decorated coroutine function returns an awaitable."""
    assert 5 == asyncio.run(tool(later)(3))


def test_raises_as_before() -> None:
    """Called as a function, a tool raises what the function raises."""
    with pytest.raises(ZeroDivisionError):
        tool(lambda: 1 / 0)()


def test_looks() -> None:
    """A tool looks like its function to whoever documents it."""
    made: Any = tool(plain)
    looks = ("plain", "plain", __name__, "Add two numbers.", plain)

    assert looks == (made.__name__, made.__qualname__, made.__module__, made.__doc__, made.__wrapped__)
    assert inspect.signature(plain) == inspect.signature(made)


def test_looks_without_docstring() -> None:
    """A function without a docstring has none as a tool, and no description."""
    made = tool(bare)

    assert (None, "") == (made.__doc__, made.description)


def test_type_hints() -> None:
    """The type hints of a tool are those of its function."""
    assert {"a": int, "b": int, "return": int} == typing.get_type_hints(add)


def test_looks_of_a_method() -> None:
    """A bound method has no `self` in its signature, one of the class has."""
    assert "(amount: 'int') -> 'int'" == str(inspect.signature(Account().deposit))
    assert "(self, amount: 'int') -> 'int'" == str(inspect.signature(Account.deposit))


def test_repr() -> None:
    """The representation shows name and signature."""
    assert "<Tool add(a: int, b: int = 2) -> int>" == repr(add)


def test_abstract() -> None:
    """An abstract method stays abstract as a tool."""

    class Source(abc.ABC):
        @tool
        @abc.abstractmethod
        def read(self) -> str: ...

    with pytest.raises(TypeError, match="abstract"):
        Source()  # type: ignore[abstract]


def test_methods_share_their_instance() -> None:
    """A method works on the instance it was taken from, called by a model or by Python."""
    account = Account(100)
    account.deposit(5)

    assert 110 == account.deposit.invoke('{"amount": 5}').value
    assert {"amount": {"type": "integer"}} == account.deposit.parameters["properties"]


def test_instances_are_apart() -> None:
    """Two instances never meet, nor do they need a schema each."""
    rich, poor = Account(100), Account(1)

    assert (101, 2) == (rich.deposit.invoke('{"amount": 1}').value, poor.deposit.invoke('{"amount": 1}').value)
    assert rich.deposit.parameters is poor.deposit.parameters


def test_unbound_method() -> None:
    """A method on its class has no instance: Python callers pass it, and a toolbox refuses the method."""
    assert 3 == Account.deposit(Account(1), 2)
    assert (True, False) == (Account.deposit._is_unbound, Account(1).deposit._is_unbound)


def test_async_method() -> None:
    """An async method is awaited in either backend."""
    account = Account(3)

    assert True is account.audit.invoke('{"amount": 3}').value
    assert False is asyncio.run(account.audit.ainvoke('{"amount": 4}')).value


@pytest.mark.parametrize("owner", [Savings, Savings()], ids=["on the class", "on the instance"])
@pytest.mark.parametrize(
    ("name", "value"), [("yearly", 20), ("monthly", 20), ("doubled", 200), ("tripled", 300)], ids=str
)
def test_class_and_static_methods(owner: Any, name: str, value: int) -> None:
    """Class and static methods are tools in either order of the decorators; a class method gets the subclass."""
    method = getattr(owner, name)

    assert value == method(100)
    assert value == Toolbox([method]).call(name, '{"amount": 100}').value


@pytest.mark.parametrize("name", ["yearly", "doubled", "tripled"])
def test_class_and_static_methods_invoked(name: str) -> None:
    """A class or static method is invoked without a toolbox, too."""
    assert ["amount"] == list(getattr(Account, name).parameters["properties"])


def test_class_method_without_chaining() -> None:
    """A class method as Python 3.13 makes it, which no longer asks what it wraps, is a tool in a toolbox."""
    method = types.MethodType(vars(Account)["monthly"].__func__, Savings)

    assert 20 == Toolbox([method]).call("monthly", '{"amount": 100}').value


def test_function_as_class_attribute() -> None:
    """A tool that is named in a class body stays what it is elsewhere."""

    class Kit:
        addition = add

    assert (False, 3) == (add._is_unbound, add.invoke('{"a": 1}').value)
    assert {add} == {vars(Kit)["addition"], Kit.addition}


def test_function_as_method() -> None:
    """A function of another place binds to the instance, as Python's functions do."""

    class Number(int):
        plus = tool(lambda self, a: self + a)

    assert 5 == Number(3).plus.invoke('{"a": 2}').value


def test_cached_method() -> None:
    """A cached method binds to its instance, which the model does not see; on its class it is refused."""

    class Rates:
        def __init__(self, rate: int) -> None:
            self.rate = rate

        @tool
        @functools.cache  # noqa: B019
        def convert(self, amount: int) -> int:
            return self.rate * amount

    assert (6, 8) == (Rates(3).convert(2), Rates(4).convert.invoke('{"amount": 2}').value)
    assert {"amount": {"type": "integer"}} == Rates(3).convert.parameters["properties"]
    with pytest.raises(DefinitionError, match=r"convert\(\) is a method and needs its instance"):
        Toolbox([Rates.convert])


def test_super() -> None:
    """A method that is overridden is reached through `super()`."""

    class Careful(Account):
        @tool
        def deposit(self, amount: int) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]  # `self` differs
            return super().deposit(amount - 1)

    assert 9 == Careful(0).deposit.invoke('{"amount": 10}').value


class Stay(BaseModel):
    """Book a stay."""

    nights: int = Field(1, le=9)
    pin: SecretStr = SecretStr("0000")

    @field_validator("nights")
    @classmethod
    def check_nights(cls, nights: int) -> int:
        if nights == 7:
            raise ValueError("a week is a package")
        return nights

    @model_validator(mode="after")
    def check_pin(self) -> Stay:
        if self.pin.get_secret_value() == "1234":
            raise ValueError("the pin is too easy")
        return self


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"nights": 8}, ""),
        ({"nights": 10}, "nights: Input should be less than or equal to 9 (received 10)"),
        ({"nights": 7}, "nights: Value error, a week is a package (received 7)"),
        ({"pin": "1234"}, "Value error, the pin is too easy (received a secret)"),
    ],
    ids=["valid", "bound", "validator of a field", "validator of the model"],
)
def test_model_as_a_tool(arguments: dict[str, Any], text: str) -> None:
    """What the validators of a class of pydantic refuse are invalid arguments, as for a parameter of this class."""
    result = tool(Stay).invoke(arguments)

    expected = f"Invalid arguments: {text}. Expected: Stay(nights: integer = 1, pin: string = ...)"
    assert (result.error, result.kind) == ((expected, "invalid_arguments") if text else (None, None))


def test_error_of_another_model() -> None:
    """A function that makes an invalid model has failed; its arguments are not to blame."""

    def book(nights: int) -> int:
        return Stay(nights=nights).nights

    assert tool(book).invoke({"nights": 7}).kind == "failed"


PICKLED = {
    "decorated": add,
    "with options": optioned,
    "made of a function": tool(plain),
    "renamed": add.with_name("plus"),
    "bound method": Account(5).deposit,
    "inherited bound method": Savings(5).deposit,
    "unbound method": Account.deposit,
    "class method": Savings.yearly,
    "static method": Account.tripled,
    "partial": tool(name="part")(functools.partial(plain, b=1)),
    "partial of a tool": tool(name="part")(functools.partial(add, b=1)),
    "callable object": tool(Adder()),
    "bound plain method": tool(Account(5).undecorated),
}


@pytest.mark.parametrize("made", PICKLED.values(), ids=PICKLED)
def test_pickle(made: Tool[..., Any]) -> None:
    """A tool pickles before and after it was used, and comes back with its declaration."""
    _ = made.parameters
    back = pickle.loads(pickle.dumps(made))  # noqa: S301

    assert (made._spec, made.title, made.relay) == (back._spec, back.title, back.relay)
    assert repr(made) == repr(back)


def test_pickle_of_a_bound_method() -> None:
    """A bound method takes its instance along."""
    back = pickle.loads(pickle.dumps(Account(5).deposit))  # noqa: S301

    assert 7 == back.invoke('{"amount": 2}').value


def test_pickle_of_a_declaration() -> None:
    """What is found under its name comes back as the same object; so does a copy."""
    assert add is pickle.loads(pickle.dumps(add))  # noqa: S301
    assert add is copy.deepcopy(add)


def test_pickle_of_a_main_script() -> None:
    """A process without the main script that has a tool says so; it got None."""
    code = "import pickle; from toolkit import tool\n@tool\ndef own() -> int: return 1\nprint(pickle.dumps(own).hex())"
    dumped = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True).stdout

    with pytest.raises(DefinitionError, match="cannot find the tool own in __main__"):
        pickle.loads(bytes.fromhex(dumped))  # noqa: S301


def test_pickle_refused() -> None:
    """A local function can no more be pickled as a tool than as a function."""
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(tool(lambda: 1))


def test_not_collected(tmp_path: Path) -> None:
    """pytest takes no tool for a test, whatever its name, and warns of none."""
    source = "from toolkit import tool\n@tool\ndef test_it(a: int) -> None: ...\ndef test_real() -> None: ...\n"
    (tmp_path / "test_names.py").write_text(source)
    arguments = ["-q", "-W", "error", "-p", "no:cacheprovider", "-p", "no:hypothesispytest", str(tmp_path)]
    done = subprocess.run([sys.executable, "-m", "pytest", *arguments], capture_output=True, text=True, check=False)  # noqa: S603

    assert (0, "1 passed") == (done.returncode, done.stdout.splitlines()[-1][:8])


@pytest.mark.parametrize(
    "name", ["", " ", "my tool", "a.b", "a" * 65, "é", "a\n", 5], ids=lambda name: ascii(name)[:12]
)
def test_bad_name(name: Any) -> None:
    """A name that providers refuse is refused at once; the message has the function, the rule and a valid name."""
    with pytest.raises(
        DefinitionError, match=r"test_tools\.plain\(\): .* is not a valid tool name.*64.* Pass name='[\w-]{1,64}'"
    ):
        tool(name=name)(plain)


@pytest.mark.parametrize("name", ["a", "get_weather", "a-b", "0", "A" * 64])
def test_good_name(name: str) -> None:
    """A name that providers accept is taken as it is."""
    assert name == add.with_name(name).name


FUNCTION_NAMES = {
    "lambda": (lambda: 1, "lambda"),
    "class": (Sum, "Sum"),
    "callable object": (Adder(), "adder"),
    "callable object of two words": (LateAdder(), "late_adder"),
    "partial": (functools.partial(functools.partial(plain)), "plain"),
}


@pytest.mark.parametrize(("function", "name"), FUNCTION_NAMES.values(), ids=FUNCTION_NAMES)
def test_name_of(function: Callable[..., Any], name: str) -> None:
    """What has no name of its own gets a legal one."""
    assert name == tool(function).name


def named(name: str) -> Callable[[], None]:
    def function() -> None: ...

    function.__name__ = name
    return function


@pytest.mark.parametrize("name", ["größe", "naïve", "名前", "x" * 65, "_", "__init__"], ids=ascii)
def test_name_made_legal(name: str) -> None:
    """A function's name that providers refuse is mended without a choice of the user's."""
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", tool(named(name)).name)


@pytest.mark.parametrize(
    ("one", "other"), [("x" * 65, "x" * 66), ("名前", "名字"), ("größe", "grösse")], ids=["long", "CJK", "accents"]
)
def test_names_made_legal_stay_apart(one: str, other: str) -> None:
    """Names that differ differ when they are mended."""
    assert tool(named(one)).name != tool(named(other)).name


BAD_OPTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "relay without tuple": (
        {"relay": ValueError},
        r"^echo: relay=.* is not a tuple of exception classes, such as relay=\(KeyError,\)",
    ),
    "relay of names": ({"relay": ("ValueError",)}, "is not a tuple of exception classes"),
    "strict": ({"strict": "yes"}, "^echo: strict='yes' is not True or False"),
    "effect": ({"effect": "reads"}, "^echo: effect='reads' is not 'read', 'write' or 'destructive'"),
    "max_parallel": ({"max_parallel": 0}, "^echo: max_parallel=0 is not a whole number of at least 1"),
    "timeout": ({"timeout": 0}, "^echo: timeout=0 is not a number of seconds above 0"),
    "retries": ({"retries": 1}, "set idempotent=True or effect='read'"),
    "places": ({"isolate": "process", "executor": ThreadPoolExecutor()}, "give one of them"),
}


@pytest.mark.parametrize(("options", "message"), BAD_OPTIONS.values(), ids=BAD_OPTIONS)
def test_bad_option(options: dict[str, Any], message: str) -> None:
    """A wrong option fails at the decorator, and the message names the function and what is right."""

    def echo(text: str) -> str:
        return text

    with pytest.raises(DefinitionError, match=message):
        tool(**options)(echo)


@pytest.mark.parametrize("thing", ["search", 5, None], ids=repr)
def test_not_callable(thing: Any) -> None:
    """An object that cannot be called is refused, and the message says how to pass options."""
    with pytest.raises(DefinitionError, match=r"something that can be called, not .*@tool\(name=\.\.\.\)"):
        tool()(thing)


@pytest.mark.parametrize(
    "words",
    ['{"a": 1}', b'{"a": 1}', {"a": 1}, '"{\\"a\\": 1}"'],
    ids=["text", "bytes", "mapping", "encoded twice"],
)
def test_words(words: Any) -> None:
    """Arguments are taken as text, as bytes, or decoded already, in either backend."""
    assert 3 == add.invoke(words).value
    assert 3 == asyncio.run(add.ainvoke(words)).value


def test_not_json() -> None:
    """A Python value that JSON cannot represent is refused with an explanation."""
    assert str(add.invoke({"a": object()}).text).startswith("Invalid arguments: a: Input should be a valid integer")


def test_repairs_in_the_result() -> None:
    """A result lists the repairs of its arguments, in either backend."""
    words = '{"a": 1, "b": null}'
    repairs = ("b: null taken as left out",)

    assert (3, repairs) == (add.invoke(words).value, add.invoke(words).repairs)
    assert repairs == asyncio.run(add.ainvoke(words)).repairs


def test_repairs_of_an_async_tool() -> None:
    """So does the result of an async tool."""
    assert ("b: null taken as left out",) == tool(later).invoke('{"a": 1, "b": null}').repairs


@pytest.mark.parametrize("words", ['{"a": 5', '{"a": "x"}', "{}", "[]"], ids=["cut", "wrong type", "missing", "list"])
def test_invalid_never_enters(words: str) -> None:
    """Arguments that do not fit never reach the function."""
    spy = create_autospec(plain)
    made = tool(name="spy")(spy)
    results = (made.invoke(words), asyncio.run(made.ainvoke(words)))

    assert ["Invalid arguments: "] * 2 == [str(result.text)[:19] for result in results]
    spy.assert_not_called()


TOOL_ERRORS = {
    "Failed": (Failed("no"), "no", "failed"),
    "ToolError": (ToolError("no"), "no", "failed"),
    "NotFound": (NotFound("x"), "Tool not found: x", "not_found"),
    "InvalidArguments": (InvalidArguments("x"), "Invalid arguments: x", "invalid_arguments"),
    "Cancelled": (Cancelled(), "Cancelled", "cancelled"),
    "Cancelled, with a reason": (Cancelled("x"), "Cancelled: x", "cancelled"),
    "Denied": (Denied("x"), "x", "denied"),
    "TimedOut": (TimedOut("x"), "x", "timed_out"),
    "without a text": (Failed(), f"fail failed: Failed{NEXT}", "failed"),
    "half a character": (Failed("\ud800!"), "\ufffd!", "failed"),
}


def failing(error: BaseException, *, is_async: bool = False, **options: Any) -> Tool[..., Any]:
    def fail() -> None:
        raise error

    async def fail_later() -> None:
        raise error

    return tool(name="fail", **options)(fail_later if is_async else fail)


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize(("error", "text", "kind"), TOOL_ERRORS.values(), ids=TOOL_ERRORS)
def test_tool_error(error: ToolError, text: str, kind: str, is_async: bool) -> None:
    """A tool's own error is a result with its exact text, its kind and no details."""
    expected = ToolResult(text=text, error=text, kind=kind, exception=error)

    assert expected == failing(error, is_async=is_async).invoke("{}")


class EvilText(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


UNEXPECTED = {
    "ordinary": ValueError("dsn=secret"),
    "SystemExit": SystemExit(3),
    "StopIteration": StopIteration("secret"),
    "StopAsyncIteration": StopAsyncIteration("secret"),
    "GeneratorExit": GeneratorExit("secret"),
    "MemoryError": MemoryError("secret"),
    "RecursionError": RecursionError("secret"),
    "evil text": EvilText(),
    "huge text": ValueError("x" * 10_000_000),
}


@pytest.mark.parametrize("error", UNEXPECTED.values(), ids=UNEXPECTED)
def test_unexpected(error: BaseException) -> None:
    """Whatever a tool raises is a result, and its message does not reach the model."""
    result = failing(error).invoke("{}")

    assert (f"fail failed: {type(error).__name__}{HIDDEN}", "failed") == (result.text, result.kind)
    assert error is result.exception


@pytest.mark.parametrize("error", UNEXPECTED.values(), ids=UNEXPECTED)
def test_unexpected_async(error: BaseException) -> None:
    """So is an exception of an async tool; Python itself turns StopIteration into RuntimeError there."""
    result = asyncio.run(failing(error, is_async=True).ainvoke("{}"))

    assert str(result.text).startswith("fail failed: ")
    assert "secret" not in str(result.text)


@pytest.mark.parametrize("is_async", [False, True])
def test_traceback_of_a_call_with_a_dict(is_async: bool) -> None:
    """The traceback of a tool that fails begins in the tool: arguments that were no JSON text are no part of it."""
    made = failing(ValueError("secret"), is_async=is_async)
    result = asyncio.run(made.ainvoke({})) if is_async else made.invoke({})

    assert result.exception is not None
    assert result.exception.__context__ is None


def test_recursion() -> None:
    """A tool that recurses without end fails alone: the next call works."""

    def deeper(n: int) -> int:
        return deeper(n + 1) if n else 0

    made = tool(deeper)

    assert f"deeper failed: RecursionError{HIDDEN}" == made.invoke('{"n": 1}').text
    assert 0 == made.invoke('{"n": 0}').value


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_fatal(is_async: bool) -> None:
    """A fatal error leaves the call as it is, in either backend."""
    made = failing(FatalError("end"), is_async=is_async)

    with pytest.raises(FatalError, match="end"):
        made.invoke("{}")
    with pytest.raises(FatalError, match="end"):
        asyncio.run(made.ainvoke("{}"))


def test_interrupt() -> None:
    """Ctrl-C is not a result."""
    made = tool(lambda: os.kill(os.getpid(), signal.SIGINT), name="work")

    with pytest.raises(KeyboardInterrupt):
        made.invoke("{}")


def test_interrupt_by_the_tool() -> None:
    """A tool that raises KeyboardInterrupt on the main thread interrupts its caller."""
    with pytest.raises(KeyboardInterrupt):
        failing(KeyboardInterrupt()).invoke("{}")


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_interrupt_on_another_thread(is_async: bool) -> None:
    """A KeyboardInterrupt that is not on the main thread is a tool's failure like any other exception."""
    fail = failing(KeyboardInterrupt(), is_async=is_async)
    with ThreadPoolExecutor(1) as threads:
        assert "failed" == threads.submit(fail.invoke, "{}").result().kind


class Outer:
    class Broken(Exception):
        """Nested on purpose."""


class Rare(KeyError):
    """A child of an announced one."""


def announcing() -> None:
    """Do it.

    Raises:
        ValueError: Not a number.
        Outer.Broken: Not whole.
        json.JSONDecodeError: Not JSON.
    """


RELAYED = {
    "announced": (ValueError("why"), {}, "ValueError: why"),
    "child of an announced one": (UnicodeError("why"), {}, "UnicodeError: why"),
    "announced by a dotted name": (Outer.Broken("why"), {}, "Broken: why"),
    "announced as its package has it": (
        json.JSONDecodeError("why", "", 0),
        {},
        "JSONDecodeError: why: line 1 column 1 (char 0)",
    ),
    "relayed": (OSError("why"), {"relay": (OSError,)}, "OSError: why"),
    "relayed in a list": (OSError("why"), {"relay": [OSError]}, "OSError: why"),
    "child of a relayed one": (Rare("why"), {"relay": (KeyError,)}, "Rare: 'why'"),
    "nested and relayed": (Outer.Broken("why"), {"relay": (Outer.Broken,)}, "Broken: why"),
    "evil": (EvilText(), {"relay": (EvilText,)}, f"EvilText{NEXT}"),
    "huge": (OSError("x" * 20_000), {"relay": (OSError,)}, "OSError: " + "x" * 379 + "…"),
    "neither": (OSError("why"), {"relay": (KeyError,)}, f"OSError{HIDDEN}"),
}


@pytest.mark.parametrize(("error", "options", "text"), RELAYED.values(), ids=RELAYED)
def test_relay(error: Exception, options: dict[str, Any], text: str) -> None:
    """A message reaches the model where the docstring announces the exception or `relay` names it."""
    function = create_autospec(announcing, side_effect=error)
    function.__doc__ = announcing.__doc__

    assert f"go failed: {text}" == tool(name="go", **options)(function).invoke("{}").text


def test_relay_of_a_namesake() -> None:
    """An exception that only has the name of a relayed one is not relayed."""

    class Timeout(Exception): ...

    class Other(Exception): ...

    Other.__name__ = Other.__qualname__ = Timeout.__qualname__

    assert "secret" not in str(failing(Other("secret"), relay=(Timeout,)).invoke("{}").text)


def counting(n: int) -> Iterator[int]:
    """Count."""
    yield from range(n)


async def counting_later(n: int) -> AsyncIterator[int]:
    """Count, later."""
    for number in range(n):
        yield number


@pytest.mark.parametrize("function", [counting, counting_later, lambda n: iter(range(n))], ids=["gen", "agen", "iter"])
def test_generators(function: Callable[..., Any]) -> None:
    """A generator is read to its end, in either backend."""
    made = tool(name="count")(function)

    assert [0, 1, 2] == made.invoke('{"n": 3}').value
    assert [0, 1] == asyncio.run(made.ainvoke('{"n": 2}')).value


def test_generator_fails() -> None:
    """A generator that fails half way is a failure, not half a list."""

    def half() -> Iterator[int]:
        yield 1
        raise ToolError("half")

    assert ToolResult(text="half", error="half", kind="failed") == tool(half).invoke("{}").replace(exception=None)


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_endless_generator(is_async: bool) -> None:
    """A generator without end is left after so many values, and closed."""
    closed: list[bool] = []

    def endless() -> Iterator[int]:
        with contextlib.closing(Mock(close=lambda: closed.append(True))):
            while True:
                yield 1

    async def endless_later() -> AsyncIterator[int]:
        with contextlib.closing(Mock(close=lambda: closed.append(True))):
            while True:
                yield 1

    value = tool(endless_later if is_async else endless).invoke("{}").value

    assert (100_000, [True]) == (len(value), closed)


class Numbers:
    """Async values that are not a generator."""

    def __init__(self) -> None:
        self.left = 100_001

    def __aiter__(self) -> Numbers:
        return self

    async def __anext__(self) -> int:
        self.left -= 1
        return self.left


def test_endless_iterator() -> None:
    """An async iterator without end is left, too, though it cannot be closed."""
    assert 100_000 == len(tool(Numbers).invoke("{}").value)


def test_wrapper_of_another_kind() -> None:
    """A sync wrapper around a coroutine function is sync: it may have an event loop of its own."""

    @functools.wraps(later)
    def wrapper(a: int) -> int:
        return asyncio.run(later(a))

    made = tool(wrapper)

    assert (False, 3, 3) == (made.is_async, made.invoke('{"a": 1}').value, asyncio.run(made.ainvoke('{"a": 1}')).value)


def test_async_wrapper_of_a_sync_function() -> None:
    """An async wrapper around a sync function runs in the caller's loop."""

    @functools.wraps(plain)
    async def wrapper(a: int) -> int:
        return id(asyncio.get_running_loop())

    async def main() -> tuple[int, int]:
        return id(asyncio.get_running_loop()), (await tool(wrapper).ainvoke('{"a": 1}')).value

    assert True is tool(wrapper).is_async
    assert 1 == len(set(asyncio.run(main())))


def test_promise_in_the_callers_loop() -> None:
    """An awaitable that a sync function returns is awaited in the caller's loop."""

    async def loop_id() -> int:
        return id(asyncio.get_running_loop())

    async def main() -> tuple[int, int]:
        return await loop_id(), (await tool(lambda: loop_id()).ainvoke("{}")).value  # a sync function

    assert 1 == len(set(asyncio.run(main())))


def test_stays_on_the_thread() -> None:
    """In the sync backend a sync tool runs on the caller's thread."""
    assert threading.get_ident() == tool(lambda: threading.get_ident()).invoke("{}").value


def test_leaves_the_loop_alone() -> None:
    """In the async backend a sync tool runs on a thread of its own, beside the loop."""

    async def main() -> bool:
        met = threading.Barrier(2, timeout=10)
        waiting = asyncio.create_task(tool(name="wait")(lambda: met.wait()).ainvoke("{}"))
        await asyncio.to_thread(met.wait)
        return (await waiting).is_error

    assert False is asyncio.run(main())


USER = contextvars.ContextVar("USER", default="nobody")


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("backend", ["invoke", "ainvoke"])
def test_context_variables(backend: str, is_async: bool) -> None:
    """A tool sees the caller's context variables."""

    async def who_later() -> str:
        return USER.get()

    made = tool(who_later if is_async else lambda: USER.get())
    USER.set("anna")
    asked = made.invoke("{}") if backend == "invoke" else asyncio.run(made.ainvoke("{}"))

    assert "anna" == asked.value


def test_arguments_are_fresh() -> None:
    """A tool that changes its arguments or a default changes no other call."""

    def append(items: list[int], more: list[int] = []) -> list[int]:
        items.append(1)
        return items + more

    made = tool(append)
    words = {"items": [0], "more": [2]}
    values = [made.invoke(words).value for _ in range(2)]

    assert ([[0, 1, 2]] * 2, {"items": [0], "more": [2]}) == (values, words)


def test_context() -> None:
    """A tool gets the context of its call, or one without dependencies."""

    def deps(context: ToolContext[str | None]) -> str | None:
        return context.deps

    made = tool(deps)

    assert ("db", None) == (made.invoke("{}", ToolContext(deps="db")).value, made.invoke("{}").value)


def test_context_is_not_the_models() -> None:
    """A model neither sees the context nor fills it in."""

    def peek(a: int, ctx: ToolContext[str]) -> str:
        return ctx.deps

    result = tool(peek).invoke('{"a": 1, "ctx": {"deps": "forged"}}', ToolContext(deps="true"))

    assert ["a"] == list(tool(peek).parameters["properties"])
    assert "Invalid arguments: ctx: no such parameter. Available: a. Expected: peek(a: integer)" == result.text


def test_idempotency_key() -> None:
    """The key is the same for every try of one call, and another for another one: SHA-256, 32 digits."""
    first, again = (ToolContext(deps=None, run_id="r", call_id="c", iteration=1) for _ in range(2))
    other = ToolContext(deps=None, run_id="r", call_id="c", iteration=2)

    assert first.idempotency_key == again.idempotency_key != other.idempotency_key
    assert hashlib.sha256(b"r:1:c").hexdigest()[:32] == first.idempotency_key


def test_no_function() -> None:
    """A declared tool cannot be called as a function; the error names the remedy."""
    stranger = Tool.from_schema("stranger", {})

    assert ("<Tool stranger(...)>", "Tool.from_schema('stranger')") == (repr(stranger), stranger.origin)
    with pytest.raises(NotImplementedError, match=r"has no function: bind one in a Toolbox, or use invoke\(\)"):
        stranger()
