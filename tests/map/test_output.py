"""The columns of the output."""

from __future__ import annotations

from ask.map.ledger import RowResult
from ask.map.output import ColumnNames

SCHEMA = {"type": "object", "properties": {"cost": {"type": "number"}, "kind": {"type": "string"}}}


def test_a_field_of_the_answer_and_a_result_column_may_share_a_name() -> None:
    names = ColumnNames(("id",), SCHEMA)
    record = names.build_record({"id": 1}, "m", RowResult("answered", '{"cost": 9, "kind": "a"}', "stop", 2, 3, 0.5))
    assert list(record) == list(names.all)
    assert (record["cost"], record["cost_2"], record["kind"], record["error"]) == (9, 0.5, "a", None)


def test_a_failed_row_has_no_answer() -> None:
    record = ColumnNames(("answer",), None, has_patch=True).build_record(
        {"answer": "of the input"}, "m", RowResult("failed", error="it failed")
    )
    assert (record["answer"], record["answer_2"], record["error"]) == ("of the input", None, "it failed")
    assert record["patch"] is None
