"""The calls of a run, compared with those that a test expects."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from itertools import zip_longest
from typing import Any, TypeAlias

from toolkit._messages import ToolCall
from toolkit._runner.result import RunResult
from toolkit._schema.json_text import load_if_json
from toolkit.events import ToolCallFinished

# A name, whatever the arguments are; or a call, as `call("add", a=1)` makes it.
ExpectedCall: TypeAlias = str | ToolCall

COLUMN = 56  # characters of the widest column that is printed beside another one
# Fields of a call besides its arguments; each is compared if the expected call has it.
METADATA = ("instance", "output_path", "imports", "reasoning")


def assert_calls(
    result: RunResult[Any], expected: Iterable[ExpectedCall], *, partial: bool = False, any_order: bool = False
) -> None:
    """Assert that a run made exactly these calls, including those that failed or were refused.

    Calls are compared as they ran (`calls[i].name` and `.arguments`), with their arguments as JSON: 1 and 1.0 are
    equal, 1 and true are not. Calls that wait for approval, in `result.pending`, are not compared.

    Args:
        result: The result of the run.
        expected: Names, for calls with any arguments, and calls such as `call("add", a=1)`, with all arguments.
        partial: Whether a call may have more arguments than the expected one.
        any_order: Whether the order does not matter.

    Raises:
        AssertionError: The run made other calls. The message has both lists side by side.
        TypeError: `expected` is not a list of names and calls, or `result` is not a result of a run.

    Examples:
        >>> from toolkit import Runner
        >>> from toolkit.testing import ScriptedModel, call
        >>> model = ScriptedModel([call("len", value="four"), "4 letters"])
        >>> result = Runner(model=model).run("How long is 'four'?")
        >>> assert_calls(result, [call("len", value="four")])
    """
    __tracebackhide__ = True  # pytest shows the line of the test
    if not isinstance(result, RunResult):
        raise TypeError(f"assert_calls() takes the result of a run first, not {result!r:.100}.")
    wanted = _check_expected(expected)
    pairs = (_pair_any_order if any_order else _pair_in_order)(
        wanted, result.calls, lambda want, got: _is_match(want, got, partial=partial)
    )
    if any(want is None or got is None or not fits for want, got, fits in pairs):
        message = "The run made other calls than expected"
        if any_order:
            message += ", in any order"
        if partial:
            message += ", with these arguments at least"
        raise AssertionError(f"{message}.\n{_render_pairs(pairs)}")


_Pair: TypeAlias = tuple[ExpectedCall | None, ToolCallFinished | None, bool]
_Match: TypeAlias = Callable[[ExpectedCall, ToolCallFinished], bool]


def _check_expected(expected: Any) -> list[ExpectedCall]:
    is_list = isinstance(expected, Iterable) and not isinstance(expected, str)
    wanted: list[Any] = [*expected] if is_list else [expected]
    wrong = [want for want in wanted if not isinstance(want, (str, ToolCall))] if is_list else wanted
    if wrong:
        what = "an expected call: write" if is_list else "a list of expected calls: write a list of"
        raise TypeError(f'{wrong[0]!r:.100} is not {what} "add" or call("add", a=1).')
    return wanted


def _pair_in_order(wanted: Sequence[ExpectedCall], got: Sequence[ToolCallFinished], match: _Match) -> list[_Pair]:
    pairs = zip_longest(wanted, got)
    return [(want, call, want is not None and call is not None and match(want, call)) for want, call in pairs]


def _pair_any_order(wanted: Sequence[ExpectedCall], got: Sequence[ToolCallFinished], match: _Match) -> list[_Pair]:
    """Pair as many calls as possible, by the augmenting paths of a bipartite matching."""
    owners: dict[int, int] = {}  # position in `got` -> position in `wanted`

    def find(want: int, tried: set[int]) -> bool:
        for position, call in enumerate(got):
            if position in tried or not match(wanted[want], call):
                continue
            tried.add(position)
            if position not in owners or find(owners[position], tried):
                owners[position] = want
                return True
        return False

    for want in range(len(wanted)):
        find(want, set())
    positions = {want: position for position, want in owners.items()}
    pairs: list[_Pair] = [(wanted[want], got[position], True) for want, position in sorted(positions.items())]
    unpaired = [want for number, want in enumerate(wanted) if number not in positions]
    others = [call for position, call in enumerate(got) if position not in owners]
    return [*pairs, *((want, call, False) for want, call in zip_longest(unpaired, others))]


def _is_match(want: ExpectedCall, got: ToolCallFinished, *, partial: bool) -> bool:
    if isinstance(want, str):
        return want == got.name
    ran = got.ran or got.call
    if want.name != ran.name or any(getattr(want, key) not in ("", (), getattr(ran, key)) for key in METADATA):
        return False
    wanted = load_if_json(want.arguments)
    arguments = load_if_json(ran.arguments)
    if partial and isinstance(wanted, dict) and isinstance(arguments, dict):
        arguments = {name: value for name, value in arguments.items() if name in wanted}
    return _is_same(wanted, arguments)


def _is_same(one: Any, other: Any) -> bool:
    """Compare JSON values; Python's `==` would take true for 1."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_is_same(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_is_same, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def _render_pairs(pairs: Sequence[_Pair]) -> str:
    rows = [("" if fits else "!", _show(want), _show_got(got)) for want, got, fits in pairs]
    width = max(len("expected"), *(len(want) for _, want, _ in rows))
    if width > COLUMN:
        return "\n".join(f"{mark:1} expected: {want}\n  actual:   {got}" for mark, want, got in rows)
    return "\n".join(f"{mark:1} {want:{width}}   {got}" for mark, want, got in [("", "expected", "actual"), *rows])


def _show_got(got: ToolCallFinished | None) -> str:
    if got is None:
        return _show(None)
    return _show(got.ran or got.call) + (f"  [{got.result.kind or 'failed'}]" if got.result.is_error else "")


def _show(call: ExpectedCall | None) -> str:
    if call is None:
        return "-"
    if isinstance(call, str):
        return call
    arguments = load_if_json(call.arguments)
    metadata = [f"{key}={value!r}" for key in METADATA if (value := getattr(call, key))]
    if not isinstance(arguments, dict):
        return f"{call.name}({', '.join([call.arguments, *metadata])})"
    written = (f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in arguments.items())
    return f"{call.name}({', '.join([*written, *metadata])})"
