"""The columns of the output."""

from __future__ import annotations

from pathlib import Path

from ask.map.ledger import RowResult
from ask.map.output import ColumnNames, FileWriter

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


def test_a_link_in_place_of_the_temporary_file_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("keep")
    output, names = tmp_path / "out.jsonl", ColumnNames((), None)
    (tmp_path / ".out.jsonl.0a1b.tmp").symlink_to("precious")
    writer = FileWriter(output, names, "0a1b")
    writer.write([names.build_record({}, "m", RowResult("answered", "yes"))])
    writer.publish()
    writer.close()
    assert (tmp_path / "precious").read_text() == "keep"
    assert not output.is_symlink()
    assert '"answer": "yes"' in output.read_text()
