"""`ask map --decide`: columns with probabilities, and `--review`."""

from __future__ import annotations

import csv
import json
import re
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests import wire
from tests.classifier import WORDS, Classifier
from tests.cli.test_map import read_output, write_rows
from tests.model_server import ModelServer, Reply, Request
from tests.program import TEST_KEY, Ask, Home

ROWS: list[dict[str, Any]] = [{"id": number, "text": f"ticket {number}"} for number in range(20)]
SCHEMA = "urgent bool, kind " + " | ".join(map(json.dumps, WORDS)) + ", anger 1..5"
FIELDS: dict[str, Sequence[Any]] = {"urgent": [True, False], "kind": WORDS, "anger": [1, 2, 3, 4, 5]}
REFUSED = {"kind": ["ticket 3", "ticket 4"], "urgent": ["ticket 4"], "anger": ["ticket 4"]}
CLASSIFIER = Classifier(FIELDS, refused=REFUSED)
COLUMNS = ["urgent", "urgent_p", "kind", "kind_p", "anger", "anger_p"]


def make_command(server: ModelServer, home: Home, model: str) -> tuple[str, ...]:
    home.configure("[network]\nbackoff = 0.01\n")
    write_rows(home.work, *ROWS)
    service = ("-p", "openai", "--base-url", server.base_url, "--key", TEST_KEY, "-m", model)
    return ("map", *service, "--schema", SCHEMA, "--decide", "{{text}}", "in.jsonl")


@pytest.fixture
def command(server: ModelServer, home: Home) -> tuple[str, ...]:
    """A command that asks a model with a decisions API, which refuses some questions."""
    server.reply(CLASSIFIER.answer_decisions)
    return make_command(server, home, "gpt-6-luna")


@pytest.fixture
def logprobs_command(server: ModelServer, home: Home) -> tuple[str, ...]:
    """The same for a model without a decisions API."""
    return make_command(server, home, "gpt-4.1")


def read_table(file: Path) -> list[dict[str, str]]:
    with file.open(newline="") as stream:
        return list(csv.DictReader(stream))


def check_row(row: dict[str, Any], *, tolerance: float) -> None:
    for field in FIELDS:
        probabilities = CLASSIFIER.get_probabilities(row["text"], field)
        assert probabilities[row[field]] == pytest.approx(max(probabilities.values()), abs=tolerance)
        assert row[f"{field}_p"] == pytest.approx(probabilities[row[field]], abs=tolerance)


def test_each_field_has_a_column_with_its_probability(
    ask: Ask, server: ModelServer, home: Home, command: Sequence[str]
) -> None:
    result = ask(*command, "-O", "out.jsonl")
    assert result.code == 12  # one row had no answer at all
    rows = read_output(home.work / "out.jsonl")
    assert [*rows[0]][:8] == ["id", "text", *COLUMNS]
    for row in rows:
        if row["id"] not in (3, 4):
            check_row(row, tolerance=1e-6)
            assert row["error"] is None
    assert (rows[3]["kind"], rows[3]["kind_p"]) == (None, None)
    assert rows[3]["anger"] in FIELDS["anger"] and rows[3]["anger_p"] > 0
    assert "kind" in rows[3]["error"]
    assert [rows[4][name] for name in COLUMNS] == [None] * 6
    assert "urgent" in rows[4]["error"]
    assert "1 with refused questions" in result.stderr
    assert len(server.requests) == len(ROWS)
    assert {request.path.rpartition("/")[2] for request in server.requests} == {"decisions"}


def test_the_same_command_continues_with_the_same_rows(
    ask: Ask, server: ModelServer, home: Home, command: Sequence[str]
) -> None:
    assert ask(*command, "-O", "out.jsonl").code == 12
    first = (home.work / "out.jsonl").read_bytes()
    assert ask(*command, "-O", "out.jsonl", "--review", "0.5", "review.jsonl").code == 12
    assert (home.work / "out.jsonl").read_bytes() == first
    assert len(server.requests) == len(ROWS)
    plain = [argument for argument in command if argument != "--decide"]
    assert ask(*plain, "-O", "out.jsonl").code != 0  # another job, which must not replace the file
    assert (home.work / "out.jsonl").read_bytes() == first


@pytest.mark.slow
def test_columns_have_types_in_every_format(ask: Ask, home: Home, command: Sequence[str]) -> None:
    pytest.importorskip("pyarrow")
    import pyarrow.parquet

    for name in ("out.csv", "out.parquet", "sqlite:out.db?table=rows"):
        assert ask(*command, "-O", name).code == 12
    table = pyarrow.parquet.read_table(home.work / "out.parquet")
    assert [str(table.schema.field(name).type) for name in COLUMNS] == [
        "bool", "double", "string", "double", "int64", "double",
    ]  # fmt: skip
    with closing(sqlite3.connect(home.work / "out.db")) as database:
        types = dict(database.execute("SELECT name, type FROM pragma_table_info('rows')").fetchall())
        [refused] = database.execute("SELECT kind, kind_p, anger FROM rows WHERE id = 3").fetchall()
    assert [types[name] for name in COLUMNS] == ["INTEGER", "REAL", "TEXT", "REAL", "INTEGER", "REAL"]
    assert refused[:2] == (None, None) and refused[2] in FIELDS["anger"]
    rows = read_table(home.work / "out.csv")
    assert [*rows[0]][2:8] == COLUMNS
    for row, arrow_row in zip(rows, table.to_pylist(), strict=True):
        assert row["kind_p"] == ("" if arrow_row["kind_p"] is None else str(arrow_row["kind_p"]))


@pytest.mark.slow
def test_without_a_decisions_api_probabilities_come_from_logprobs(
    ask: Ask, server: ModelServer, logprobs_command: Sequence[str]
) -> None:
    server.reply(CLASSIFIER.answer_chat)
    result = ask(*logprobs_command)
    assert result.code == 0, result.stderr
    for row in map(json.loads, result.text.splitlines()):
        check_row(row, tolerance=0.01)
        assert row["output_tokens"]


REFUSAL = wire.fails(400, "Unsupported parameter: 'logprobs' is not supported with this model.")
PLAIN_ANSWER = wire.whole_reply(wire.answer(json.dumps({"urgent": True, "kind": "other", "anger": 1})))


@pytest.mark.parametrize("reply", [REFUSAL, PLAIN_ANSWER], ids=["refused", "ignored"])
def test_a_model_without_logprobs_stops_the_job(
    ask: Ask, server: ModelServer, logprobs_command: Sequence[str], reply: Reply
) -> None:
    server.reply(reply)
    result = ask(*logprobs_command, "-j", "1")
    assert result.code == 7
    assert len(server.requests) == 1
    assert "gpt-6-luna" in result.stderr  # a model that has probabilities


@pytest.mark.slow
def test_rows_without_other_tokens_fail(ask: Ask, server: ModelServer, logprobs_command: Sequence[str]) -> None:
    """A service that applies a temperature of 0 to its logprobs would make every answer certain."""

    def answer(request: Request) -> Reply:
        reply = CLASSIFIER.answer_chat(request)
        body = json.loads(b"".join(step for step in reply.steps if isinstance(step, bytes)))
        for token in body["choices"][0]["logprobs"]["content"]:
            token |= {"logprob": 0.0, "top_logprobs": [{**token, "logprob": 0.0}, {"token": "x", "logprob": -9999.0}]}
        return wire.whole_reply(body)

    server.reply(answer)
    result = ask(*logprobs_command)
    assert result.code == 12
    assert "temperature" in result.stderr
    assert all(row["kind"] is None and row["output_tokens"] for row in map(json.loads, result.text.splitlines()))


def test_a_provider_without_logprobs_is_an_error_before_a_request(
    ask: Ask, server: ModelServer, home: Home, command: Sequence[str]
) -> None:
    service = ("-p", "anthropic", "--base-url", server.base_url, "--key", TEST_KEY, "-m", "claude-sonnet-5-5")
    result = ask("map", *service, "--schema", SCHEMA, "--decide", "{{text}}", "in.jsonl")
    assert (result.code, server.requests) == (7, [])


def test_uncertain_rows_are_also_written_for_review(
    ask: Ask, server: ModelServer, home: Home, command: Sequence[str]
) -> None:
    for threshold in ("0.5", "40%", "0.5"):
        result = ask(*command, "-O", "out.csv", "--review", threshold, "review.csv")
        assert result.code == 12
        limit = 0.4 if threshold == "40%" else 0.5
        rows = read_table(home.work / "out.csv")
        names = ("urgent_p", "kind_p", "anger_p")
        expected = [row for row in rows if any(not row[name] or float(row[name]) < limit for name in names)]
        assert read_table(home.work / "review.csv") == expected
        assert 2 < len(expected) < len(rows)
        assert f"{len(expected)} rows to review written to review.csv" in result.stderr
        assert {"3", "4"} <= {row["id"] for row in expected}
    assert len(server.requests) == len(ROWS)


def test_rows_to_review_may_have_another_format(ask: Ask, home: Home, command: Sequence[str]) -> None:
    assert ask(*command, "--review", "1", "sqlite:out.db?table=review").code == 12
    with closing(sqlite3.connect(home.work / "out.db")) as database:
        assert database.execute("SELECT count(*) FROM review").fetchall() == [(len(ROWS),)]
    result = ask(*command, "-O", "sqlite:out.db?table=every", "--review", "1", "sqlite:out.db?table=again")
    assert result.code == 12
    with closing(sqlite3.connect(home.work / "out.db")) as database:
        assert database.execute("SELECT * FROM every").fetchall() == database.execute("SELECT * FROM again").fetchall()


def test_the_file_for_review_replaces_no_other(ask: Ask, home: Home, command: Sequence[str]) -> None:
    (home.work / "notes.csv").write_text("mine\n")
    for file in ("out.csv", "in.jsonl", "notes.csv", "report.html", "notes.txt"):
        result = ask(*command, "-O", "out.csv", "--report", "report.html", "--review", "0.8", file)
        assert result.code == 2, file
    assert (home.work / "notes.csv").read_text() == "mine\n"
    assert ask(*command, "-O", "out.csv", "--review", "0.8", "notes.csv", "--fresh").code == 12
    others = [argument.replace("{{text}}", "Which? {{text}}") for argument in command]
    result = ask(*others, "-O", "other.csv", "--review", "0.8", "notes.csv")
    assert result.code == 2  # the rows of another job


@pytest.mark.parametrize(
    "names",
    [
        ("sqlite:out.db?table=rows", "sqlite:out.db?table=ROWS"),
        ("sqlite:out.db?table=rows", "sqlite:link.db?table=rows"),
        ("out.csv", "sqlite:out.csv?table=rows"),
        ("sqlite:out.csv?table=rows", "out.csv"),
        ("out.csv", "link.csv"),
    ],
)
def test_the_file_for_review_is_not_the_output_by_another_name(
    ask: Ask, server: ModelServer, home: Home, command: Sequence[str], names: tuple[str, str]
) -> None:
    (home.work / "link.db").symlink_to("out.db")
    (home.work / "link.csv").symlink_to("out.csv")
    output, review = names
    assert ask(*command, "-O", output, "--review", "0.8", review).code == 2
    assert server.requests == []


def test_a_table_for_review_is_not_replaced(ask: Ask, home: Home, command: Sequence[str]) -> None:
    with closing(sqlite3.connect(home.work / "mine.db")) as database:
        database.executescript("CREATE TABLE notes (text TEXT); INSERT INTO notes VALUES ('mine')")
        result = ask(*command, "--review", "0.8", "sqlite:mine.db?table=notes", "--fresh")
        assert result.code == 2
        assert "--fresh" not in result.stderr  # which would not help
        assert database.execute("SELECT text FROM notes").fetchall() == [("mine",)]


def test_a_report_of_scores_has_values_without_labels(ask: Ask, home: Home, command: Sequence[str]) -> None:
    labels = [{"right": word, "level": level} for word, level in zip(WORDS[:2], (1, 5), strict=True)]
    write_rows(home.work, *(row | labels[row["id"] % 2] for row in ROWS))
    options = ("-O", "out.csv", "--report", "report.html", "--score", "kind=right", "--score", "anger=level")
    result = ask(*command, *options)
    assert result.code == 12, result.stderr  # a row without any answer
    report = (home.work / "report.html").read_text()
    assert "Calibration" in report and all(f"{name}_p" in report for name in ("kind", "anger"))
    assert "anger: mean absolute error" in result.stderr


@pytest.mark.parametrize(
    "options",
    [
        ("--review", "0.8", "review.csv", "--columns", "id,kind"),
        ("--review", "8", "review.csv"),
        ("--batch",),
        ("--tools",),
        ("-T", "web_search"),
    ],
)
def test_options_that_do_not_go_together(
    ask: Ask, server: ModelServer, command: Sequence[str], options: Sequence[str]
) -> None:
    assert ask(*command, *options).code == 2
    assert server.requests == []


def test_review_needs_decisions(ask: Ask, command: Sequence[str]) -> None:
    plain = [argument for argument in command if argument not in ("--decide", "gpt-6-luna")]
    position = plain.index("-m")
    plain[position : position + 1] = ["-m", "gpt-4.1"]
    assert ask(*plain, "--review", "0.8", "review.csv").code == 2
    assert "--review needs 2 values" in ask(*command, "--review", "0.8").stderr


def test_shards_are_merged_with_their_probabilities(ask: Ask, home: Home, command: Sequence[str]) -> None:
    assert ask(*command, "-O", "out.csv").code == 12
    for number in (1, 2):
        result = ask(*command, "-O", "part.csv", "--shard", f"{number}/2", "--review", "0.8", "review.csv")
        assert result.code in (0, 12), result.stderr
    assert ask("map", "--merge", "all.csv", "part.1-of-2.csv", "part.2-of-2.csv").code == 12
    assert (home.work / "all.csv").read_bytes() == (home.work / "out.csv").read_bytes()
    reviewed = [row["id"] for number in (1, 2) for row in read_table(home.work / f"review.{number}-of-2.csv")]
    assert sorted(map(int, reviewed)) == sorted({*map(int, reviewed)})


def test_a_report_shows_the_distribution_of_probabilities(ask: Ask, home: Home, command: Sequence[str]) -> None:
    assert ask(*command, "-O", "out.csv", "--report", "report.html").code == 12
    report = (home.work / "report.html").read_text()
    figure = report.partition(">kind_p<")[2].partition("</figure>")[0]
    assert "<svg" in figure and "Median" in figure


def test_the_price_of_decisions_is_estimated(ask: Ask, server: ModelServer, command: Sequence[str]) -> None:
    result = ask(*command, "--dry-run")
    assert (result.code, server.requests) == (0, [])
    assert "$0.00" in result.stderr
    tokens = int(re.findall(r"about ([\d,]+) input tokens", result.stderr)[0].replace(",", ""))
    assert len(SCHEMA) // 4 * len(ROWS) < tokens < 500 * len(ROWS)


@pytest.mark.slow
def test_workers_of_a_cluster_decide_the_same(ask: Ask, home: Home, command: Sequence[str]) -> None:
    pytest.importorskip("distributed")
    assert ask(*command, "-O", "out.csv").code == 12
    position = command.index("--key")
    without_key = (*command[:position], *command[position + 2 :])
    result = ask.process(*without_key, "-O", "cluster.csv", "--engine", "dask", env={"OPENAI_API_KEY": TEST_KEY})
    assert result.code == 12, result.stderr
    assert (home.work / "cluster.csv").read_bytes() == (home.work / "out.csv").read_bytes()
