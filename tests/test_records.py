"""`ask.records.NamedTuple` behaves like `typing.NamedTuple`."""

from __future__ import annotations

import abc
import copy
import inspect
import pickle
import typing
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask import records
from ask.messages import ToolCall, Usage

FIELD_NAMES = ("first", "second", "third", "other")
VALUES = st.lists(st.integers(), max_size=5)
NAMED_VALUES = st.dictionaries(st.sampled_from(FIELD_NAMES), st.integers())


class Record(records.NamedTuple):
    first: int
    second: int = 2
    third: Any = ()

    @property
    def total(self) -> int:
        return self.first + self.second


class StandardRecord(typing.NamedTuple):
    first: int
    second: int = 2
    third: Any = ()


class SpecialRecord(Record):
    """A subclass, which may have class attributes."""

    default: typing.ClassVar[Any]


def create(record_type: Any, values: list[int], named_values: Mapping[str, int]) -> tuple[Any, ...] | None:
    try:
        return tuple(record_type(*values, **named_values))
    except TypeError:
        return None


@given(VALUES, NAMED_VALUES)
def test_created_as_by_typing(values: list[int], named_values: Mapping[str, int]) -> None:
    assert create(Record, values, named_values) == create(StandardRecord, values, named_values)


@given(NAMED_VALUES)
def test_replaced_as_by_typing(changes: Mapping[str, int]) -> None:
    if "other" in changes:
        with pytest.raises(TypeError, match="other"):
            Record(1)._replace(**changes)
    else:
        assert Record(1)._replace(**changes) == StandardRecord(1)._replace(**changes)  # type: ignore[comparison-overlap]
        record: Any = Record(1)
        assert record.__replace__(**changes) == record._replace(
            **changes
        )  # as copy.replace() does, from Python 3.13 on


def test_a_tuple_with_immutable_attributes() -> None:
    record = Record(1)
    first, second, third = record
    assert (first, second, third, record.total) == (record.first, 2, (), 3)
    assert tuple(record) == record
    for name in ("first", "other"):
        with pytest.raises(AttributeError):
            setattr(record, name, 5)


def test_matched_by_position_and_by_name() -> None:
    match Record(1):
        case Record(1, second, third=()):
            assert second == 2
        case _:
            pytest.fail("no match")


@pytest.mark.parametrize("record", [Record(1), SpecialRecord(1, 5), ToolCall("1", "bash", "{}"), Usage()])
def test_copied_and_pickled(record: Any) -> None:
    for copied in (copy.deepcopy(record), copy.copy(record), pickle.loads(pickle.dumps(record))):
        assert type(copied) is type(record)
        assert copied == record


def test_subclasses_add_no_fields() -> None:
    special = SpecialRecord(1)._replace(second=3)
    assert isinstance(special, SpecialRecord)
    assert special._asdict() == {"first": 1, "second": 3, "third": ()}


def test_subclasses_may_have_other_bases() -> None:
    class Mixin:
        def first_two(self: Any) -> tuple[int, int]:
            return self.first, self.second

    class MixedRecord(Mixin, Record):
        pass

    class AbstractRecord(Record, abc.ABC):
        pass

    assert MixedRecord(1).first_two() == (1, 2)
    assert AbstractRecord(1)._replace(second=3) == (1, 3, ())
    assert type(Record) is type


def test_fields_whose_types_cannot_be_resolved_are_in_the_signature() -> None:
    assert str(inspect.signature(records.Constraint)).startswith("(description: 'str', is_valid: 'Callable")


def test_described_as_by_typing() -> None:
    assert repr(Record(1)) == repr(StandardRecord(1)).removeprefix("Standard")
    assert Record._fields == StandardRecord._fields
    assert Record._field_defaults == StandardRecord._field_defaults
    assert Record._make([1, 2, 3]) == (1, 2, 3)
    assert list(inspect.get_annotations(Record)) == list(StandardRecord._fields)
    assert str(inspect.signature(Record)) == "(first: int, second: int = 2, third: Any = ())"
    assert inspect.signature(SpecialRecord) == inspect.signature(Record)
    assert typing.get_type_hints(Record)["first"] is int
