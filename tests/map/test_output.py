"""The columns of the output."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from ask.errors import FileError
from ask.map.csv_cells import escape_formula, format_cell
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


@pytest.mark.parametrize("change", ["deleted", "moved", "replaced"])
def test_an_output_that_another_program_removes_is_an_error(tmp_path: Path, change: str) -> None:
    output, other = tmp_path / "out.csv", tmp_path / "other.csv"
    writer = FileWriter(output, ColumnNames((), None), "0a1b")
    writer.publish()
    if change == "deleted":
        output.unlink()
    elif change == "moved":
        output.rename(other)
    else:
        other.write_text("of another program")
        other.rename(output)
    with pytest.raises(FileError):
        writer.close()
    writer.close()


@pytest.mark.parametrize(
    "value",
    [
        *(
            "=1+1",
            "+1+1",
            "-1-1",
            "-A1",
            "+",
            "-1\n",
            "+49 (30)",
            "-1e",
            "-\u0661",
            "-1:2",
            "@SUM(A1)",
            "\t=1",
            "\r=1",
            "\n=1",
            '=HYPERLINK("x")',
            "\tx",
            "\n",
        ),
        *("\uff1d1+1", "\ufe66=1", "\u207a1", "\u22121", "\uff0b1", "\uff0d1", "\uff20x"),
        *(
            f"{start}=1"
            for start in (" ", "\xa0", "\u3000", "\u200b", "\ufeff", "\0", "\x1f", "\x85", "\u2028", "\u2060")
        ),
        *(" \t\xa0 \u200e\ufeff+1", "\x0b@x", "\u00ad-1", "\ue000=1", "\u180e=1"),
    ],
)
def test_only_with_the_option_formulas_become_text(tmp_path: Path, value: str) -> None:
    for escape_formulas, expected in ((False, value), (True, f"'{value}")):
        path = tmp_path / f"{escape_formulas}.csv"
        writer = FileWriter(path, ColumnNames(["a"], None, is_table=True), "job", escape_formulas=escape_formulas)
        writer.write([{"a": value, "answer": value}])
        writer.publish()
        writer.close()
        with path.open(newline="") as file:
            (row,) = csv.DictReader(file)
        assert (row["a"], row["answer"]) == (expected, expected)


@pytest.mark.parametrize(
    "value",
    [
        -1,
        0.5,
        "-5",
        "+49",
        "-5.25",
        "-.5",
        "-1,5",
        "+1e-9",
        "-5%",
        "-1,234,567.89",
        "+49 123 456",
        None,
        "a=1",
        "1-1",
        "",
        " ",
        " a",
        "\xa0(-1)",
        "\u200b1-1",
        {"a": "=1"},
    ],
)
def test_other_values_stay_unchanged(value: object) -> None:
    assert escape_formula(value) == format_cell(value)
