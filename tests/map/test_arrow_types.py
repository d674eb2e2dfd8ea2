"""Values of Arrow columns as JSON, and columns with their own types again."""

from __future__ import annotations

import json
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask.map.arrow_types import (
    build_array,
    build_text_array,
    from_json_schema,
    infer_type,
    select_output_type,
    to_json_values,
    widen_type,
)

NOON = datetime(2024, 1, 2, 12)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
INT64 = st.integers(-(2**63), 2**63 - 1)
SCALARS: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (pa.bool_(), st.booleans()),
    (pa.int8(), st.integers(-128, 127)),
    (pa.int64(), INT64),
    (pa.uint64(), st.integers(0, 2**64 - 1)),
    (pa.float16(), st.floats(width=16, allow_nan=False, allow_infinity=False)),
    (pa.float32(), st.floats(width=32, allow_nan=False, allow_infinity=False)),
    (pa.float64(), FLOATS),
    (pa.string(), st.text()),
    (pa.large_string(), st.text()),
    (pa.binary(), st.binary()),
    (pa.binary(3), st.binary(min_size=3, max_size=3)),
    (pa.date32(), st.dates()),
    (pa.date64(), st.dates()),
    (pa.time32("ms"), st.times().map(lambda each: each.replace(microsecond=each.microsecond // 1000 * 1000))),
    (pa.time64("us"), st.times()),
    (pa.timestamp("us"), st.datetimes()),
    (pa.timestamp("ns"), st.integers(-(2**63) + 10**9, 2**63 - 1)),
    (pa.timestamp("us", "Europe/Berlin"), st.datetimes()),
    (pa.duration("ms"), INT64),
    (pa.decimal128(20, 4), st.decimals(-(10**16) + 1, 10**16 - 1, places=4)),
    (pa.decimal256(60, 0), st.integers(-(10**60) + 1, 10**60 - 1).map(Decimal)),
]


def make_nested(inner: st.SearchStrategy[tuple[Any, Any]]) -> st.SearchStrategy[tuple[Any, Any]]:
    return st.one_of(
        inner.map(lambda each: (pa.list_(each[0]), st.lists(st.none() | each[1], max_size=3))),
        inner.map(lambda each: (pa.large_list(each[0]), st.lists(st.none() | each[1], max_size=3))),
        inner.map(lambda each: (pa.list_(each[0], 2), st.lists(st.none() | each[1], min_size=2, max_size=2))),
        inner.map(lambda each: (pa.map_(pa.string(), each[0]), st.dictionaries(st.text(), st.none() | each[1]).map(
            lambda items: list(items.items())
        ))),
        st.lists(inner, min_size=1, max_size=3).map(
            lambda parts: (
                pa.struct([(f"f{index}", part[0]) for index, part in enumerate(parts)]),
                st.fixed_dictionaries({f"f{index}": st.none() | part[1] for index, part in enumerate(parts)}),
            )
        ),
    )  # fmt: skip


@st.composite
def columns(draw: st.DrawFn) -> Any:
    data_type, values = draw(st.recursive(st.sampled_from(SCALARS), make_nested, max_leaves=4))
    array = pa.array(draw(st.lists(st.none() | values, max_size=6)), data_type)
    return array.slice(draw(st.integers(0, len(array))))


@given(columns())
def test_columns_are_the_same_after_json(column: Any) -> None:
    values = to_json_values(column)
    again = build_array(json.loads(json.dumps(values)), column.type)
    assert again is not None
    again.validate(full=True)
    assert again.equals(column)


def test_uuids_are_the_same_after_json() -> None:  # pa.array() makes no lists of them
    uuids = pa.array([UUID(int=1), None, UUID(int=2)], pa.uuid())
    lists = pa.ListArray.from_arrays(pa.array([0, 1, None, 3]), uuids)
    for column in (
        uuids,
        lists,
        pa.StructArray.from_arrays([uuids, lists], ["a", "b"]),
        pa.MapArray.from_arrays([0, 0, 1, 2], pa.array(["k", "l"]), uuids.slice(1)),
    ):
        again = build_array(json.loads(json.dumps(to_json_values(column))), select_output_type(column.type))
        assert again is not None and again.equals(column)


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array([Decimal("1.50"), None], pa.decimal128(9, 2)), ["1.50", None]),
        (pa.array([NOON, None], pa.timestamp("s")), ["2024-01-02T12:00:00", None]),
        (pa.array([NOON.replace(microsecond=120_000)], pa.timestamp("us", "UTC")), ["2024-01-02T12:00:00.12Z"]),
        (pa.array([NOON], pa.timestamp("ns", "Asia/Tokyo")), ["2024-01-02T12:00:00Z"]),
        (pa.array([1], pa.int64()).cast(pa.timestamp("ns")), ["1970-01-01T00:00:00.000000001"]),
        (pa.array([date(2024, 1, 2)]), ["2024-01-02"]),
        (pa.array([time(1, 2, 3)], pa.time32("s")), ["01:02:03"]),
        (pa.array([0.1, float("nan"), float("-inf")], pa.float32()), [0.1, None, None]),
        (pa.array([b"\xff", b""]), ["/w==", ""]),
        (pa.array([UUID(int=1), None], pa.uuid()), ["00000000-0000-0000-0000-000000000001", None]),
        (pa.array(["a", None, "a"]).dictionary_encode(), ["a", None, "a"]),
        (pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int8())), [[{"key": "k", "value": 1}], None]),
        (pa.array([{"a": [NOON]}], pa.struct([("a", pa.list_(pa.timestamp("ms")))])), [{"a": ["2024-01-02T12:00:00"]}]),
        (pa.array([None, None]), [None, None]),
        (pa.array([[NOON], None], pa.list_view(pa.timestamp("s"))), [["2024-01-02 12:00:00"], None]),
        (pa.array([pa.MonthDayNano([1, 2, 3])]), [[1, 2, 3]]),
    ],
)
def test_values_are_those_of_json(column: Any, expected: list[Any]) -> None:
    assert to_json_values(column) == expected


@pytest.mark.parametrize(
    ("data_type", "values"),
    [
        (pa.int64(), [1.5]),
        (pa.int64(), [True]),
        (pa.int64(), [2**63]),
        (pa.uint8(), [-1]),
        (pa.float64(), [2**53 + 1]),
        (pa.float64(), [False]),
        (pa.bool_(), [1]),
        (pa.string(), [1]),
        (pa.string(), ["\ud800"]),
        (pa.date32(), ["soon"]),
        (pa.decimal128(9, 2), ["1.505"]),
        (pa.binary(), ["not base64!"]),
        (pa.uuid(), ["ABCDEF00-0000-0000-0000-000000000001"]),
        (pa.struct([("a", pa.int64())]), [{"a": 1, "b": 2}]),
        (pa.list_(pa.int64()), [["x"]]),
        (pa.list_(pa.int64(), 2), [[1]]),
        (pa.null(), [1]),
    ],
)
def test_values_of_another_type_are_noticed(data_type: Any, values: list[Any]) -> None:
    assert build_array(values, data_type) is None


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "integer"}, pa.int64()),
        ({"type": ["number", "null"]}, pa.float64()),
        ({"anyOf": [{"type": "boolean"}, {"type": "null"}]}, pa.bool_()),
        ({"type": "string", "enum": ["a"]}, pa.string()),
        ({"type": "string", "format": "date"}, pa.date32()),
        ({"type": "array", "items": {"type": "string"}}, pa.list_(pa.string())),
        (
            {"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": False},
            pa.struct([("a", pa.int64())]),
        ),
        ({"type": "object", "properties": {"a": {"type": "integer"}}}, None),
        ({"type": "array"}, None),
        ({"enum": ["a", 1]}, None),
        (True, None),
    ],
)
def test_schemas_have_types(schema: Any, expected: Any) -> None:
    assert from_json_schema(schema) == expected


def test_only_types_that_all_formats_have_are_written() -> None:
    assert select_output_type(pa.dictionary(pa.int8(), pa.string())) == pa.string()
    assert select_output_type(pa.list_(pa.string_view())) == pa.list_(pa.string())
    assert select_output_type(pa.list_(pa.uuid())) == pa.list_(pa.uuid())
    assert select_output_type(pa.bool8()) == pa.int8()
    for data_type in (pa.decimal128(9, -2), pa.struct([]), pa.month_day_nano_interval(), pa.null()):
        assert select_output_type(data_type) is None


JSON_VALUES = st.none() | st.booleans() | st.integers() | FLOATS | st.text() | st.lists(st.integers(), max_size=2)


@given(st.lists(JSON_VALUES), st.lists(JSON_VALUES))
def test_a_wider_type_has_all_values(first: list[Any], second: list[Any]) -> None:
    for values in (first, second):
        column = build_array(values, infer_type(values))
        assert (build_text_array(values) if column is None else column).is_valid().to_pylist() == [
            value is not None for value in values
        ]
    wider = widen_type(infer_type(first), second)
    assert wider in (pa.string(), infer_type(second), pa.float64(), pa.int64())


@pytest.mark.parametrize("data_type", [pa.date32(), pa.date64(), pa.timestamp("s"), pa.timestamp("us", "UTC")])
def test_infinite_times_are_null(data_type: Any) -> None:
    """DuckDB and PostgreSQL have them, as the largest numbers of the type."""
    bits = data_type.bit_width - 1
    numbers = pa.array([0, (1 << bits) - 1, 1 - (1 << bits)], pa.int32() if bits == 31 else pa.int64())
    first, *others = to_json_values(numbers.view(data_type))
    assert (first[:10], others) == ("1970-01-01", [None, None])
