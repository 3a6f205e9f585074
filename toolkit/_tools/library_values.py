"""Values of other packages that tools return, as plain data, text or a picture: tables, arrays, figures, responses.

A value is known by what it can do. None of these packages is imported.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Mapping, MutableSequence, Sequence, Set, ValuesView
from contextlib import suppress
from io import BytesIO, StringIO
from math import prod
from typing import Any

from toolkit._messages import Image

# Elements of an array that are written as JSON; a longer one is summarised.
MAX_ELEMENTS = 1_000
# Rows of a table that are written at its beginning, and at its end, if it is longer than both.
MAX_ROWS = 5_000
# Items of a dict, list or tuple in which tables are looked for.
MAX_HELD = 100
# Columns of a table that its first line names.
MAX_COLUMNS = 50

# Added to the text of a picture that is not sent.
LEFT_OUT = " [picture, left out]"

# Attributes of classes of pydantic, attrs, msgspec and SQLAlchemy.
_WITH_FIELDS = ("__pydantic_serializer__", "__attrs_attrs__", "__struct_fields__", "__mapper__")

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def to_plain(value: Any) -> Any:
    """Convert a value that JSON cannot hold to one that it can. A value of an unknown type becomes its `str`.

    What it contains is not converted: the JSON writer asks again for each part.
    """
    kind: Any = type(value)
    if is_table(value):
        return write_table(value)
    if hasattr(kind, "dtype") and hasattr(kind, "shape"):
        return _read_array(value)
    if any(hasattr(kind, name) for name in _WITH_FIELDS):
        return _read_fields(value)
    if isinstance(value, BaseException):
        return f"{kind.__name__}: {value}" if str(value) else kind.__name__
    if isinstance(getattr(value, "status_code", None), int) and hasattr(value, "headers"):
        return _read_response(value)
    if isinstance(value, (memoryview, bytearray)):
        return bytes(value)
    if (columns := _find_columns(value)) is not None:
        return dict(columns)
    if _is_list(value):
        return list(value)
    if hasattr(kind, "to_plotly_json"):
        figure = kind.to_plotly_json(value)
        figure["layout"] = {key: part for key, part in figure["layout"].items() if key != "template"}  # colours only
        return figure
    return hide_address(str(value)) + (LEFT_OUT if can_draw(kind) else "")


def hide_address(text: str) -> str:
    """Remove the memory address that Python's own `repr` has."""
    return _ADDRESS.sub("", text)


def _is_list(value: Any) -> bool:
    """Return whether a value is a collection to write whole. A query of Django's shows 20 rows in its `repr`."""
    if isinstance(value, range):
        return len(value) <= MAX_ELEMENTS
    return isinstance(value, (Set, ValuesView, MutableSequence)) or hasattr(type(value), "values_list")


def _find_columns(value: Any) -> Any:
    """Return the mapping from names to values: a mapping itself, or the columns of a row of sqlite3 or SQLAlchemy."""
    kind = type(value)
    if isinstance(value, Mapping) or (isinstance(value, Sequence) and hasattr(kind, "keys")):
        return value
    return getattr(value, "_mapping", None) if isinstance(value, Sequence) and hasattr(kind, "_mapping") else None


def _read_fields(value: Any) -> Any:
    """Read the fields of an object of these packages. Pydantic's own JSON writer takes no bytes but UTF-8."""
    kind: Any = type(value)
    if hasattr(kind, "__pydantic_serializer__"):
        return kind.__pydantic_serializer__.to_python(value, by_alias=True)
    if hasattr(kind, "__attrs_attrs__"):
        names = [field.name for field in kind.__attrs_attrs__ if field.repr]
    elif hasattr(kind, "__struct_fields__"):
        names = kind.__struct_fields__
    else:
        names = [column.key for column in kind.__mapper__.column_attrs if not column.deferred]
    return {name: getattr(value, name) for name in names}


def _read_array(value: Any) -> Any:
    """Read the values of an array or of a scalar of NumPy's kind. Summarise a large array."""
    if getattr(value.dtype, "kind", "") in ("M", "m") and not value.shape:
        return str(value)  # `item` would give a number of nanoseconds
    if value.dtype == "longdouble":  # whose items are not numbers of Python's
        value = value.astype("float64")
    if hasattr(value, "item") and not value.shape:
        return value.item()
    to_list = getattr(value, "tolist", None) or getattr(value, "to_list", None)
    if to_list and prod(value.shape) <= MAX_ELEMENTS:
        return value.astype(str).tolist() if getattr(value.dtype, "kind", "") in ("M", "m") else to_list()
    shape = " x ".join(map(str, value.shape))
    return f"{type(value).__name__} of shape {shape}, {value.dtype}, shortened:\n{value}"


def _read_response(value: Any) -> dict[str, Any]:
    """Read status and content of an HTTP response. Content that is not text is left out."""
    media_type = str(value.headers.get("content-type", "")).partition(";")[0].strip()
    head = {"status": value.status_code, "content_type": media_type}
    if media_type.endswith("json"):
        with suppress(ValueError):
            return {**head, "content": value.json()}
    is_text = media_type.startswith("text/") or media_type.endswith(("json", "xml"))
    if is_text or (not media_type and b"\x00" not in value.content):
        return {**head, "content": value.text}
    return {**head, "content": f"{len(value.content)} bytes, left out"}


def is_table(value: Any) -> bool:
    """Return whether a value is a DataFrame or a Series of pandas or polars."""
    kind = type(value)
    return _is_frame(kind) or (hasattr(kind, "to_frame") and hasattr(kind, "value_counts") and hasattr(kind, "head"))


def _is_frame(kind: type) -> bool:
    has_csv = hasattr(kind, "to_csv") or hasattr(kind, "write_csv")
    return has_csv and all(hasattr(kind, name) for name in ("columns", "dtypes", "shape", "head", "tail"))


def holds_table(value: Any) -> bool:
    """Return whether a value is a table, or a dict, list or tuple of at most 100 items that holds one."""
    if not isinstance(value, (dict, list, tuple)):
        return is_table(value)
    return len(value) <= MAX_HELD and any(map(is_table, value.values() if isinstance(value, dict) else value))


def write_table(value: Any) -> str:
    """Write a table as text: a line with its size and the types of its columns, then its rows as CSV."""
    name = type(value).__name__
    table = _to_frame(value)
    rows, columns = table.shape
    types = [f"{column} {dtype}" for column, dtype in zip(table.columns, table.dtypes)]
    more = f", and {columns - MAX_COLUMNS} more" if columns > MAX_COLUMNS else ""
    height = "1 row" if rows == 1 else f"{rows:,} rows"
    width = "1 column" if columns == 1 else f"{columns:,} columns"
    head = f"{name}, {height}, {width}: {', '.join(types[:MAX_COLUMNS])}{more}"
    if rows <= 2 * MAX_ROWS:
        return f"{head}\n{_to_csv(table)}"

    left_out = f"[... {rows - 2 * MAX_ROWS:,} rows are left out ...]"
    _, _, tail = _to_csv(table.tail(MAX_ROWS), has_index=_has_index(table)).partition("\n")
    return f"{head}\n{_to_csv(table.head(MAX_ROWS))}{left_out}\n{tail}"


def write_rows(value: Any, start: int, columns: Collection[str] | None, room: int) -> tuple[str, int]:
    """Write as many rows of a table as fit into `room` characters, as CSV. Return also the number of the next row.

    At least one row is written. Rows are counted from 0; None stands for all columns.

    Raises:
        KeyError: There is no such column.
    """
    table = _to_frame(value)
    has_index = _has_index(value)
    if columns is not None:
        names = [str(name) for name in table.columns]
        if unknown := [name for name in columns if name not in names]:
            raise KeyError(unknown[0])
        places = [place for place, name in enumerate(names) if name in columns]
        table = table.iloc[:, places] if hasattr(table, "iloc") else table[:, places]

    count = min(table.shape[0] - start, MAX_ROWS)
    rows = table.iloc if hasattr(table, "iloc") else table
    while len(text := _to_csv(rows[start : start + count], has_index=has_index)) > room and count > 1:
        count = min(count - 1, max(count * room // len(text), 1))
    return text, start + count


def _to_frame(value: Any) -> Any:
    return value if _is_frame(type(value)) else value.to_frame()


def _has_index(table: Any) -> bool:
    """Return whether a table of pandas has an index other than the numbers of its rows."""
    index: Any = getattr(table, "index", None)
    is_default = type(index).__name__ == "RangeIndex" and (index.start, index.step, index.name) == (0, 1, None)
    return not is_default


def _to_csv(table: Any, *, has_index: bool | None = None) -> str:
    if hasattr(table, "to_csv"):  # pandas
        return str(table.to_csv(index=_has_index(table) if has_index is None else has_index))
    try:
        return str(table.write_csv())  # polars
    except Exception:  # noqa: BLE001  a column of lists, which polars does not write
        file = StringIO()
        csv.writer(file, lineterminator="\n").writerows([table.columns, *table.rows()])
        return file.getvalue()


def can_draw(kind: type) -> bool:
    """Return whether values of a type can draw themselves."""
    return any(hasattr(kind, name) for name in ("savefig", "_repr_png_", "to_plotly_json")) or (
        hasattr(kind, "get_figure") and hasattr(kind, "get_xlim")
    )


def to_image(value: Any) -> Any:
    """Draw a picture or figure (PIL, matplotlib, plotly with kaleido) as PNG. Return any other value unchanged."""
    if not can_draw(type(value)):
        return value
    try:
        drawn = _draw(value)
    except Exception:  # noqa: BLE001  it may be empty, closed, or lack a package that draws
        return value
    return Image(drawn, "image/png") if isinstance(drawn, bytes) and drawn else value


def _draw(value: Any) -> Any:
    if hasattr(value, "_repr_png_"):  # PIL, IPython, sympy
        drawn = value._repr_png_()
        if drawn is None and hasattr(value, "convert"):  # CMYK
            return value.convert("RGB")._repr_png_()
        return drawn[0] if isinstance(drawn, tuple) else drawn  # with its metadata, as of seaborn

    if hasattr(value, "to_plotly_json"):
        return value.to_image(format="png")

    figure = value.figure
    file = BytesIO()
    # "tight" includes labels that are wider than the margins. With text far outside, the picture would take gigabytes.
    is_near = all(figure.get_tightbbox().size <= 2 * figure.get_size_inches())
    figure.savefig(file, format="png", bbox_inches="tight" if is_near else None)
    return file.getvalue()
