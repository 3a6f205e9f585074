"""The data tools: parsing, filtering, aggregating and sorting of any tables."""

from __future__ import annotations

import csv
import io
import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit import Runner, Toolbox
from toolkit.builtin import data_tools
from toolkit.testing import ScriptedModel, call

BOX = Toolbox(data_tools())
HUGE = 10**400
MIXED: list[dict[str, Any]] = [
    {"a": "10"},
    {"a": 9},
    {"a": None},
    {"a": "abc"},
    {"a": True},
    {"b": 1},
    {"a": [1]},
    {"a": HUGE},
]
CELLS = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=8)
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.text(max_size=2), inner, max_size=2)),
    max_leaves=4,
)
RECORDS = st.lists(st.dictionaries(st.sampled_from("abc"), CELLS), max_size=8).map(
    lambda rows: [*rows, {"a": 1, "b": 1}]
)
WRITTEN = st.characters(codec="utf-8", exclude_characters="\0")  # what a CSV writer takes in every Python
OPS = ("==", "!=", ">", "<", ">=", "<=", "contains")
METRICS = ("sum", "count", "avg", "min", "max")


def call_tool(name: str, /, **arguments: Any) -> Any:
    """Return a tool's value, or its text if it is an error."""
    result = BOX.call(name, arguments)
    return result.text if result.is_error else json.loads(result.text)


def chosen(op: str, value: Any, records: list[dict[str, Any]] = MIXED) -> Any:
    """The values of column a that a condition chooses."""
    result = call_tool("data_filter", records=records, where=[{"column": "a", "op": op, "value": value}])
    return [record["a"] for record in result["records"]] if isinstance(result, dict) else result


@pytest.mark.parametrize(
    ("content", "records", "columns"),
    [
        ("a,b\n1,x\n2,\n3\n", [{"a": "1", "b": "x"}, {"a": "2", "b": ""}, {"a": "3", "b": ""}], ["a", "b"]),
        ('\ufeffa;b\r\n"1;2";x;y\r\n\r\n', [{"a": "1;2", "b": "x"}], ["a", "b"]),
        (",a \n1,2,3", [{"": "1", "a": "2"}], ["", "a"]),
        ('a\n"two\nlines"', [{"a": "two\nlines"}], ["a"]),
        ("a", [], []),
        ('[{"a": 1}, {"b": null}]', [{"a": 1}, {"b": None}], ["a", "b"]),
        (' {"a": {"b": [1.5]}}', [{"a": {"b": [1.5]}}], ["a"]),
        ('{"a": 1}\n\n{"b": 2}\n', [{"a": 1}, {"b": 2}], ["a", "b"]),
        ("[]", [], []),
        ('[\n{"a": 1}\n]', [{"a": 1}], ["a"]),
        ('{\n"a": 1\n}', [{"a": 1}], ["a"]),
        ("\n\na,b\n1,2", [{"a": "1", "b": "2"}], ["a", "b"]),
    ],
    ids=[
        *("csv", "semicolons", "names", "lines", "header", "json", "object", "jsonl", "none"),
        *("json in lines", "object in lines", "csv after blank lines"),
    ],
)
def test_parse(content: str, records: list[Any], columns: list[str]) -> None:
    """The format is detected; records and columns are returned."""
    assert {"records": records, "columns": columns, "count": len(records)} == call_tool("data_parse", content=content)


def test_parse_limit() -> None:
    """The first records up to the limit are returned, and all are counted."""
    for content in ("a\n1\n2\n3", '[{"a":"1"},{"a":"2"},{"a":"3"}]', '{"a":"1"}\n{"a":"2"}\n{"a":"3"}'):
        result = call_tool("data_parse", content=content, limit=1)
        cut = result.pop("truncated")

        assert {"records": [{"a": "1"}], "columns": ["a"], "count": 3} == result
        assert "The first 1 of 3 are shown: the rest is beyond the limit, or 32768 bytes." == cut


@pytest.mark.parametrize(
    ("content", "format", "reason"),
    [
        ("", None, "Invalid arguments: content"),
        ("a", "xml", "Invalid arguments: format"),
        ("[1]", None, "json parse error: record 1 is not an object"),
        ('[{}, "x"]', None, "json parse error: record 2 is not an object"),
        ('{"a": ', None, "json parse error: "),
        ('[{"a": NaN}]', None, "json parse error: "),
        ("[" * 100_000, None, "json parse error: recursion limit exceeded"),
        ('[{"a": ' + "9" * 10_000 + "}]", None, "json parse error: number out of range"),
        ('a\n"' + "x" * 200_000, None, "csv parse error: field larger than field limit"),
        ("," * 100_000, None, "csv parse error: two columns have the same name"),
        ('{"a": 1}\n{"a": NaN}', "jsonl", "json parse error: record 2: "),
        ('{"a": 1}\n\n[2]', "jsonl", "json parse error: record 2 is not an object"),
    ],
    ids=["empty", "format", "number", "text", "cut", "nan", "deep", "digits", "cell", "columns", "line", "record"],
)
def test_parse_refused(content: str, format: str | None, reason: str) -> None:
    """A text without records is refused with the reason."""
    assert reason == call_tool("data_parse", content=content, format=format)[: len(reason)]


@pytest.mark.parametrize("content", ["a\n" * 1_000_000, "a,b\n" + "1" * 100_000 + "x,2\n", '{"a":1}\n' * 300_000])
def test_parse_at_once(content: str) -> None:
    """A long text takes no longer than it takes to read it."""
    start = time.thread_time()
    call_tool("data_parse", content=content)

    assert time.thread_time() - start < 3


@pytest.mark.parametrize(
    ("op", "value", "values"),
    [
        ("==", 10, ["10"]),
        ("==", "9.0", [9]),
        ("==", "true", [True]),
        ("==", None, [None]),
        ("==", "", []),
        ("!=", 10, [9, None, "abc", True, [1], HUGE]),
        (">", 9, ["10"]),
        (">=", "9", ["10", 9]),
        ("<", "1e1", [9]),
        ("<", "abd", ["abc", [1], HUGE]),
        ("<=", None, []),
        ("contains", "B", ["abc"]),
        ("contains", 1, ["10", [1], HUGE]),
        ("in", [9, "ABC", "abc"], [9, "abc"]),
        ("in", [], []),
        ("in", 9, "Invalid arguments: where: op 'in' needs a list as value."),
    ],
    ids=str,
)
def test_filter(op: str, value: Any, values: Any) -> None:
    """Numbers are compared as numbers, other values as text; values without an order match no comparison."""
    assert values == chosen(op, value)


@pytest.mark.parametrize("text", ["nan", "inf", "-Infinity", "1_000", "٣", "0x10", "1e999", "1" * 401, " "], ids=repr)
def test_no_number(text: str) -> None:
    """A numeral that only Python accepts is text."""
    assert [] == chosen(">", 0, [{"a": text}])


def test_all_conditions() -> None:
    """A record is chosen where all conditions hold."""
    where = [{"column": "a", "op": ">", "value": 1}, {"column": "b", "op": "==", "value": "x"}]
    records = [{"a": 2, "b": "x"}, {"a": 1, "b": "x"}, {"a": 2, "b": "y"}]

    assert {"records": records[:1], "count": 1} == call_tool("data_filter", records=records, where=where)


@pytest.mark.parametrize(
    ("values", "metrics"),
    [
        ([1, "2", 3.5, "x", None, True], (6.5, 6, 6.5 / 3, 1, 3.5)),
        ([1, 2, 3], (6, 3, 2, 1, 3)),
        ([1e16, 1, -1e16], (1, 3, 1 / 3, -1e16, 1e16)),
        (["x"], (0, 1, None, None, None)),
        ([], (0, 0, None, None, None)),
        ([10**300] * 2, (2 * 10**300, 2, 1e300, 10**300, 10**300)),
        ([1e300] * 1000, (1e303, 1000, 1e300, 1e300, 1e300)),
    ],
    ids=["mixed", "whole", "small and large", "no numbers", "no records", "huge", "many huge"],
)
def test_metrics(values: list[Any], metrics: tuple[Any, ...]) -> None:
    """Metrics use the values that are numbers, and are named op_column."""
    requests = [{"column": "a", "op": op} for op in METRICS]
    result = call_tool("data_aggregate", records=[{"a": value} for value in values], metrics=requests)
    result.pop("left_out", None)

    assert {"groups": [{f"{op}_a": value for op, value in zip(METRICS, metrics)}], "count": 1} == result


@pytest.mark.parametrize(
    ("values", "left_out"),
    [
        (["1,000", "$5", 2, "", " ", None, "3"], {"left_out": {"a": 2}}),
        ([1, "2", None, ""], {}),
        ([[1], [], True, False, 0], {"left_out": {"a": 4}}),
    ],
    ids=str,
)
def test_left_out(values: list[Any], left_out: dict[str, Any]) -> None:
    """A result says how many values are no numbers, so that a sum of other texts is not taken for whole."""
    metrics = [{"column": "a", "op": "sum"}, {"column": "b", "op": "count"}]
    result = call_tool("data_aggregate", records=[{"a": value} for value in values], metrics=metrics)

    assert left_out == {name: value for name, value in result.items() if name not in ("groups", "count")}


def test_groups() -> None:
    """Records of equal values make a group; groups are sorted by these, and those without a value come last."""
    records = [{"g": "b", "n": 1}, {"n": 2}, {"g": 10, "n": 3}, {"g": "9", "n": 4}, {"g": "10", "n": 5}]
    result = call_tool("data_aggregate", records=records, metrics=[{"column": "n", "op": "sum"}], group_by=["g"])

    assert [("9", 4), (10, 8), ("b", 1), (None, 2)] == [(group["g"], group["sum_n"]) for group in result["groups"]]


def test_codes() -> None:
    """Numbers with leading zeros are different codes, and are sorted and added up as numbers all the same."""
    records = [{"zip": "123"}, {"zip": "0123"}, {"zip": 123}, {"zip": "012"}]
    metrics = [{"column": "zip", "op": "count"}, {"column": "zip", "op": "sum"}]
    groups = call_tool("data_aggregate", records=records, metrics=metrics, group_by=["zip"])["groups"]

    assert [("012", 1, 12), ("123", 2, 246), ("0123", 1, 123)] == [tuple(group.values()) for group in groups]
    assert ["0123"] == chosen("==", "0123", [{"a": "0123"}, {"a": 123}])


@pytest.mark.parametrize(
    ("name", "arguments", "text"),
    [
        (
            "data_filter",
            {"where": [{"column": "C", "op": "==", "value": 1}]},
            "where: no record has a column 'C'. Available: ",
        ),
        (
            "data_aggregate",
            {"metrics": [{"column": "C", "op": "sum"}]},
            "metrics: no record has a column 'C'. Available: ",
        ),
        (
            "data_aggregate",
            {"metrics": [{"column": "*", "op": "count"}], "group_by": ["C"]},
            "group_by: no record has a column 'C'. Available: ",
        ),
        (
            "data_aggregate",
            {"metrics": [{"column": "c", "op": "sum"}], "group_by": ["sum_c"]},
            "metrics: sum_c is a column of group_by: rename that with data_transform first.",
        ),
        ("data_transform", {"select": ["C"]}, "select: no record has a column 'C'. Available: "),
        ("data_transform", {"rename": {"C": "d"}}, "rename: no record has a column 'C'. Available: "),
        ("data_transform", {"sort_by": "C"}, "sort_by: no record has a column 'C'. Available: "),
    ],
    ids=["filter", "metric", "group", "collision", "select", "rename", "sort"],
)
def test_columns(name: str, arguments: dict[str, Any], text: str) -> None:
    """An unknown column is an error that names similar ones; two columns cannot have one name."""
    result = call_tool(name, records=[{"c": 1}, {"sum_c": 2}], **arguments)

    assert f"Invalid arguments: {text}" == result[: 19 + len(text)]
    assert "sum_c" in result


@pytest.mark.parametrize(
    ("arguments", "records"),
    [
        ({"sort_by": "a"}, [{"a": "9", "b": 2}, {"a": 10, "b": 1}, {"a": "x"}, {"b": 3}]),
        ({"sort_by": "a", "sort_desc": True}, [{"a": "x"}, {"a": 10, "b": 1}, {"a": "9", "b": 2}, {"b": 3}]),
        ({"select": ["b"], "limit": 2}, [{"b": 1}, {"b": 3}]),
        ({"select": ["b"], "sort_by": "a", "limit": 2}, [{"b": 2}, {"b": 1}]),
        ({"rename": {"a": "b", "b": "a"}, "limit": 1}, [{"b": 10, "a": 1}]),
    ],
    ids=str,
)
def test_transform(arguments: dict[str, Any], records: list[Any]) -> None:
    """Records are sorted, their columns selected and renamed, and limited."""
    given_records = [{"a": 10, "b": 1}, {"b": 3}, {"a": "9", "b": 2}, {"a": "x"}]

    assert {"records": records, "count": len(records)} == call_tool(
        "data_transform", records=given_records, **arguments
    )


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("data_transform", {"records": [{}] * 1001}),
        ("data_transform", {"records": [1]}),
        ("data_transform", {"records": [], "limit": 1001}),
        ("data_transform", {"records": [{"a": 1, "b": 2}], "rename": {"a": "b"}}),
        ("data_filter", {"records": [], "where": []}),
        ("data_filter", {"records": [], "where": [{"column": "a", "op": "~", "value": 1}]}),
        ("data_aggregate", {"records": [], "metrics": []}),
        ("data_aggregate", {"records": [], "metrics": [{"column": "a", "op": "median"}]}),
    ],
    ids=["many", "no record", "limit", "one name", "no condition", "operator", "no metric", "metric"],
)
def test_refused(name: str, arguments: dict[str, Any]) -> None:
    """Too many records, another operator, or nothing to do is refused."""
    assert "Invalid arguments: " == call_tool(name, **arguments)[:19]


@pytest.mark.parametrize(
    ("name", "arguments", "key"),
    [
        ("data_parse", {"content": "a,b\n" + ("ä" * 50 + ",1\n") * 900}, "records"),
        ("data_transform", {"records": [{"a": "ä" * 100}] * 900}, "records"),
        (
            "data_aggregate",
            {
                "records": [{"g": f"{n}" * 20} for n in range(900)],
                "metrics": [{"column": "g", "op": "count"}],
                "group_by": ["g"],
            },
            "groups",
        ),
    ],
)
def test_output(name: str, arguments: dict[str, Any], key: str) -> None:
    """Results above 32 KiB are cut after a whole record, with a note."""
    result = BOX.call(name, arguments)
    results = json.loads(result.text)
    text = len(results[key])

    assert 31 * 1024 < len(result.text.encode()) <= 32 * 1024
    assert f"The first {text} of 900 are shown: the rest is beyond the limit, or 32768 bytes." == results["truncated"]


@pytest.mark.parametrize(
    "records", [[{"k" * 40_000: 1}], [{f"k{n}": "x" * 300} for n in range(900)]], ids=["name", "names"]
)
def test_wide(records: list[dict[str, Any]]) -> None:
    """A result is short also where the names of columns are not."""
    content = json.dumps(records)

    assert len(BOX.call("data_parse", {"content": content}).text) <= 32 * 1024
    assert len(BOX.call("data_transform", {"records": records}).text) <= 32 * 1024


@given(RECORDS, st.sampled_from(OPS), CELLS)
def test_any_filter(records: list[dict[str, Any]], op: str, value: Any) -> None:
    """A filter returns some of the records in their order, for any values."""
    result = chosen(op, value, records)
    remaining = iter(record["a"] for record in records if "a" in record)

    assert all(any(repr(one) == repr(other) for other in remaining) for one in result)


@given(RECORDS, CELLS)
def test_complement(records: list[dict[str, Any]], value: Any) -> None:
    """Each record with the column is either equal or unequal."""
    assert sum("a" in record for record in records) == len(chosen("==", value, records)) + len(
        chosen("!=", value, records)
    )


@given(RECORDS)
def test_any_table(records: list[dict[str, Any]]) -> None:
    """Sorting and counting lose no record."""
    sorted_ones = call_tool("data_transform", records=records, sort_by="a", sort_desc=True)
    requests = [{"column": "b", "op": op} for op in METRICS]
    groups = call_tool("data_aggregate", records=records, metrics=requests, group_by=["a"])["groups"]

    assert sorted(map(repr, records)) == sorted(map(repr, sorted_ones["records"]))
    assert len(records) == sum(group["count_b"] for group in groups)


@given(st.lists(st.lists(st.text(WRITTEN, max_size=5), min_size=2, max_size=2), max_size=5))
def test_any_csv(rows: list[list[str]]) -> None:
    """The output of a CSV writer is parsed to its input."""
    text = io.StringIO(newline="")
    csv.writer(text, quoting=csv.QUOTE_ALL).writerows([["a", "b"], *rows])

    assert rows == [
        list(record.values()) for record in call_tool("data_parse", content=text.getvalue(), format="csv")["records"]
    ]


@given(st.text(max_size=200), st.sampled_from([None, "csv", "json", "jsonl"]))
def test_any_text(text: str, format: str | None) -> None:
    """Any text gives records or a reason."""
    result = call_tool("data_parse", content=text, format=format)

    assert isinstance(result, dict) or " parse error: " in result or "Invalid arguments: content" in result


def test_in_a_run() -> None:
    """A run parses a table and aggregates the result."""
    model = ScriptedModel(
        [
            call("data_parse", content="city,rain\nBonn,3\nRome,1\nBonn,2"),
            lambda request: call(
                "data_aggregate",
                records=json.loads(request.messages[-1].text)["records"],
                metrics=[{"column": "rain", "op": "sum"}],
                group_by=["city"],
            ),
            "5 in Bonn.",
        ]
    )
    result = Runner(data_tools(), model=model).run("How much rain?")

    assert [{"city": "Bonn", "sum_rain": 5}, {"city": "Rome", "sum_rain": 1}] == result.calls[1].result.value["groups"]
