"""Arrow types and the values of JSON: what a prompt gets from a typed column, and how a column is typed again.

Numbers, booleans, text, lists and objects are the same in both. Decimals, dates, times and UUIDs are text in JSON,
binary data is base64, a map a list of objects with `key` and `value`, and a duration a number in the unit of its type.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, count
from types import NoneType
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from ask.map.json_values import INT64_RANGE, list_types, to_valid_text

Array = Any
"""`pyarrow.Array`: the package has no type hints."""
ArrowType = Any
"""`pyarrow.DataType`."""
pa.set_memory_pool(pa.system_memory_pool())  # the default one keeps 30 MB more of what it has freed
TYPES_BY_NAME = {"boolean": pa.bool_(), "integer": pa.int64(), "number": pa.float64()}
TYPES_BY_FORMAT = {"date": pa.date32(), "date-time": pa.timestamp("ms", "UTC")}
DAY_SECONDS = 86_400
MAX_DAYS = 11_000_000
"""About 30,000 years before or after 1970."""
TIME_UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
CONVERSION_ERRORS = (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError, ValueError)


def select_output_type(data_type: ArrowType) -> ArrowType | None:
    """Return the type with which a column of this type is written; None to choose one by its values.

    It has no dictionaries, which Arrow files cannot extend, and allows null everywhere.
    """
    if isinstance(data_type, pa.UuidType):
        return data_type
    if isinstance(data_type, pa.BaseExtensionType):
        return select_output_type(data_type.storage_type)
    if types.is_dictionary(data_type):
        return select_output_type(data_type.value_type)
    if types.is_nested(data_type):
        return _select_nested_type(data_type)
    plain = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}.get(data_type, data_type)
    return plain if _is_scalar(plain) else None


def _select_nested_type(data_type: ArrowType) -> ArrowType | None:
    inner: list[Any] = [select_output_type(data_type.field(index).type) for index in range(data_type.num_fields)]
    if None in inner or not inner:
        return None
    if types.is_struct(data_type):
        fields = dict(zip((field.name for field in data_type), inner, strict=True))
        return pa.struct(list(fields.items())) if len(fields) == len(inner) else None
    if types.is_map(data_type):
        return pa.map_(*(field.type for field in inner[0]))
    if types.is_large_list(data_type):
        return pa.large_list(inner[0])
    return pa.list_(inner[0], _get_list_size(data_type)) if _is_list(data_type) else None


def _is_list(data_type: ArrowType) -> bool:
    return bool(types.is_list(data_type) or types.is_large_list(data_type) or types.is_fixed_size_list(data_type))


def _get_list_size(data_type: ArrowType) -> int:
    return data_type.list_size if types.is_fixed_size_list(data_type) else -1


def _is_scalar(data_type: ArrowType) -> bool:
    if types.is_decimal(data_type):
        return bool(data_type.scale >= 0)  # Parquet has no others
    is_text = types.is_string(data_type) or types.is_large_string(data_type) or _is_binary(data_type)
    return is_text or bool(types.is_primitive(data_type) and not types.is_interval(data_type))


def _is_binary(data_type: ArrowType) -> bool:
    return bool(types.is_binary(data_type) or types.is_large_binary(data_type) or types.is_fixed_size_binary(data_type))


def from_json_schema(schema: Any) -> ArrowType | None:
    """Return the type of the values that match a JSON Schema; None to choose one by the values.

    Objects that may have further fields have no type, and become JSON text.
    """
    schema = schema if isinstance(schema, Mapping) else {}
    options = [each for each in schema.get("anyOf") or schema.get("oneOf") or () if each != {"type": "null"}]
    if options and "type" not in schema:
        return from_json_schema(options[0]) if len(options) == 1 else None
    match list_types(schema):
        case ["string"]:
            return TYPES_BY_FORMAT.get(schema.get("format", ""), pa.string())
        case [("boolean" | "integer" | "number") as name]:
            return TYPES_BY_NAME[name]
        case ["array"]:
            item = from_json_schema(schema.get("items"))
            return item and pa.list_(item)
        case ["object"] if schema.get("additionalProperties") is False and schema.get("properties"):
            fields = {name: from_json_schema(each) for name, each in schema["properties"].items()}
            return None if None in fields.values() else pa.struct(list(fields.items()))
    return None


def to_json_values(array: Array) -> list[Any]:
    """Return the values of a column as JSON has them.

    Raises:
        UnicodeDecodeError: a text is not UTF-8.
    """
    try:
        return list(_to_plain(array).to_pylist())
    except CONVERSION_ERRORS as error:
        if isinstance(error, UnicodeDecodeError):
            raise
        # For example a union or an interval.
        return [
            json.loads(json.dumps(value, default=str), parse_constant=lambda _: None) for value in array.to_pylist()
        ]


def build_array(values: Sequence[Any], data_type: ArrowType) -> Array | None:
    """Return a column of this type with values of JSON; None if one is of another type."""
    if not _matches(values, data_type):
        return None
    try:
        return _restore(pa.array(values, _get_plain_type(data_type)), data_type)
    except CONVERSION_ERRORS:
        return None


def build_text_array(values: Iterable[Any]) -> Array:
    """Return a column of text: values that are no text are JSON."""
    return pa.array([None if value is None else to_valid_text(value) for value in values], pa.string())


def infer_type(values: Iterable[Any]) -> ArrowType:
    """Return the type for values of JSON: text, if they have nothing else in common; null without any."""
    kinds = set(map(type, values)) - {NoneType}
    if not kinds:
        return pa.null()
    if kinds == {bool}:
        return pa.bool_()
    if kinds == {int} and all(value is None or value in INT64_RANGE for value in values):
        return pa.int64()
    return pa.float64() if kinds <= {int, float} else pa.string()


def widen_type(data_type: ArrowType, values: Sequence[Any]) -> ArrowType:
    """Return the type for a column of this type that gets values of other types."""
    other = infer_type(values)
    if types.is_null(data_type):
        return other
    numbers = [types.is_integer(data_type) or types.is_floating(data_type), other in (pa.int64(), pa.float64())]
    if not all(numbers):
        return pa.string()
    return pa.int64() if types.is_integer(data_type) and other == pa.int64() != data_type else pa.float64()


def _get_plain_type(data_type: ArrowType) -> ArrowType:
    """Return the type of the values of JSON in a column of this type."""
    if types.is_struct(data_type):
        return pa.struct([(field.name, _get_plain_type(field.type)) for field in data_type])
    if types.is_map(data_type):
        return pa.list_(_get_plain_type(_get_entry_type(data_type)))
    if _is_list(data_type):
        return pa.list_(_get_plain_type(data_type.value_type))
    if types.is_integer(data_type) or types.is_boolean(data_type) or types.is_null(data_type):
        return data_type
    if types.is_floating(data_type):
        return pa.float64()
    return pa.int64() if types.is_duration(data_type) else pa.string()


def _get_entry_type(map_type: ArrowType) -> ArrowType:
    return pa.struct([("key", map_type.key_type), ("value", map_type.item_type)])


def _matches(values: Iterable[Any], data_type: ArrowType) -> bool:
    """Check that pyarrow takes the values as they are: it truncates numbers and drops unknown fields silently."""
    present = [value for value in values if value is not None]
    kinds = set(map(type, present))
    if not kinds or types.is_null(data_type):
        return not kinds
    if types.is_nested(data_type):
        return _matches_nested(present, kinds, data_type)
    if types.is_integer(data_type) or types.is_duration(data_type):
        return kinds <= {int} or (kinds <= {int, float} and all(value == int(value) for value in present))
    if types.is_floating(data_type):
        return kinds <= {int, float} and (types.is_float64(data_type) or _is_exact(present, data_type))
    return kinds <= ({bool} if types.is_boolean(data_type) else {str})


def _is_exact(numbers: Sequence[float], data_type: ArrowType) -> bool:
    """Check that numbers are the same as numbers of fewer bits."""
    try:
        return to_json_values(pa.array(numbers, pa.float64()).cast(data_type)) == numbers
    except CONVERSION_ERRORS:
        return False


def _matches_nested(values: Sequence[Any], kinds: set[type], data_type: ArrowType) -> bool:
    if types.is_struct(data_type):
        names = {field.name for field in data_type}
        return (
            kinds <= {dict}
            and all(value.keys() <= names for value in values)
            and all(_matches((value.get(field.name) for value in values), field.type) for field in data_type)
        )
    item = _get_entry_type(data_type) if types.is_map(data_type) else data_type.value_type
    size = _get_list_size(data_type)
    has_size = kinds <= {list} and (size < 0 or all(len(value) == size for value in values))
    return has_size and _matches(chain.from_iterable(values), item)


def _to_plain(array: Array) -> Array:
    """Return a column with the types of JSON."""
    data_type = array.type
    if isinstance(data_type, pa.BaseExtensionType) and not isinstance(data_type, pa.UuidType):
        return _to_plain(array.storage)
    if types.is_dictionary(data_type):
        return _to_plain(array.dictionary_decode())
    if types.is_map(data_type):
        return _to_plain(array.cast(pa.list_(_get_entry_type(data_type))))
    if types.is_struct(data_type):
        children = [_to_plain(child) for child in array.flatten()]
        return pa.StructArray.from_arrays(children, [field.name for field in data_type], mask=array.is_null())
    if _is_list(data_type):
        return pa.ListArray.from_arrays(_compute_offsets(array), _to_plain(array.flatten()))
    return _to_plain_scalars(array)


def _to_plain_scalars(array: Array) -> Array:
    data_type = array.type
    if types.is_floating(data_type):
        # The shortest text of a 32-bit number, and not that of the equal 64-bit one: 0.1.
        numbers = array if types.is_float64(data_type) else array.cast(pa.string()).cast(pa.float64())
        return pc.if_else(pc.is_finite(numbers), numbers, None)
    if types.is_timestamp(data_type):
        return _format_timestamps(_drop_infinite(array, DAY_SECONDS * TIME_UNITS[data_type.unit]))
    if types.is_date(data_type):
        array = _drop_infinite(array, 1 if types.is_date32(data_type) else DAY_SECONDS * 1000)
    if types.is_duration(data_type):
        return array.cast(pa.int64())
    if isinstance(data_type, pa.UuidType) or types.is_binary_view(data_type) or _is_binary(data_type):
        return pa.array([_format_bytes(value) for value in array.to_pylist()], pa.string())
    if types.is_date(data_type) or types.is_time(data_type) or types.is_decimal(data_type):
        return array.cast(pa.string())
    is_plain = types.is_integer(data_type) or types.is_boolean(data_type) or types.is_null(data_type)
    if is_plain or types.is_string(data_type) or types.is_large_string(data_type) or types.is_string_view(data_type):
        return array
    raise pa.ArrowNotImplementedError(f"{data_type} has no type in JSON")


def _format_bytes(value: bytes | UUID | None) -> str | None:
    if value is None:
        return None
    return b64encode(value).decode() if isinstance(value, bytes) else str(value)


def _drop_infinite(times: Array, units_per_day: int) -> Array:
    """Return dates or timestamps with null for those that Arrow cannot format: years of more than five digits.

    They are the infinity of DuckDB and PostgreSQL.
    """
    limit = min(MAX_DAYS * units_per_day, INT64_RANGE[-1])
    numbers = times.cast(pa.int32() if types.is_date32(times.type) else pa.int64())
    return pc.if_else(pc.and_(pc.less_equal(numbers, limit), pc.greater_equal(numbers, -limit)), times, None)


def _format_timestamps(array: Array) -> Array:
    """Format timestamps in ISO 8601, in UTC if their type has a time zone."""
    unit = array.type.unit
    texts = (array.cast(pa.timestamp(unit, "UTC")) if array.type.tz else array).cast(pa.string())
    texts = pc.replace_substring(texts, " ", "T")
    return texts if unit == "s" else pc.replace_substring_regex(texts, r"(?:\.0+|(\.\d*[1-9])0+)(Z?)$", r"\1\2")


def _compute_offsets(lists: Array) -> Array:
    """Return the offsets of lists in the array of all their values; null for those that are null."""
    lengths = pc.list_value_length(lists).cast(pa.int32())
    ends = pc.cumulative_sum(pc.fill_null(lengths, 0)).cast(pa.int32())
    is_null = pa.concat_arrays([lists.is_null(), pa.array([False])])
    return pc.if_else(is_null, None, pa.concat_arrays([pa.array([0], pa.int32()), ends]))


def _restore(array: Array, data_type: ArrowType) -> Array:
    """Return a column of values of JSON with its own type again."""
    if types.is_nested(data_type):
        return _restore_nested(array, data_type)
    if _is_binary(data_type):
        return pa.array([value and b64decode(value, validate=True) for value in array.to_pylist()], data_type)
    if types.is_time(data_type):
        numbers = [None if value is None else _parse_time(value, data_type.unit) for value in array.to_pylist()]
        return pa.array(numbers, pa.int32() if types.is_time32(data_type) else pa.int64()).cast(data_type)
    if isinstance(data_type, pa.UuidType):
        return pa.array([value and _parse_uuid(value) for value in array.to_pylist()], data_type)
    return array.cast(data_type)


def _restore_nested(array: Array, data_type: ArrowType) -> Array:
    if types.is_struct(data_type):
        children = [_restore(child, field.type) for child, field in zip(array.flatten(), data_type, strict=True)]
        return pa.StructArray.from_arrays(children, fields=list(data_type), mask=array.is_null())
    if types.is_map(data_type):
        entries = _restore(array.flatten(), _get_entry_type(data_type))
        return pa.MapArray.from_arrays(_compute_offsets(array), *entries.flatten()).cast(data_type)
    values = _restore(array.flatten(), data_type.value_type)
    if types.is_fixed_size_list(data_type):
        return _restore_fixed_size_list(array, values, data_type)
    return pa.ListArray.from_arrays(_compute_offsets(array), values).cast(data_type)


def _restore_fixed_size_list(lists: Array, values: Array, data_type: ArrowType) -> Array:
    """Return lists of a fixed size, with nulls in those that are null: a cast would leave random values there."""
    positions, size = count(), data_type.list_size
    indexes = [None if is_null else next(positions) for is_null in lists.is_null().to_pylist() for _ in range(size)]
    return pa.FixedSizeListArray.from_arrays(
        values.take(pa.array(indexes, pa.int64())), type=data_type, mask=lists.is_null()
    )


def _parse_uuid(text: str) -> UUID:
    """Parse a UUID as "9f0c1e6a-...": `UUID` accepts other spellings, which a column of UUIDs would change."""
    value = UUID(text)
    if str(value) != text:
        raise ValueError(f"{text} is not in the usual form")
    return value


def _parse_time(text: str, unit: str) -> int:
    """Parse a time as "HH:MM:SS" with digits for fractions: `datetime` has no nanoseconds."""
    seconds, _, fraction = text.partition(".")
    hours, minutes, rest = map(int, seconds.split(":"))
    factor = TIME_UNITS[unit]
    part, remainder = divmod(int(fraction or 0) * factor, int("1" + "0" * len(fraction)))
    if remainder:
        raise ValueError(f"{text} has more digits than the unit {unit}")
    return (hours * 3600 + minutes * 60 + rest) * factor + part
