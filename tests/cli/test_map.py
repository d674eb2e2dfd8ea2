"""`ask map`: rows in, rows out, with a ledger from which an interrupted job continues."""

from __future__ import annotations

import csv
import json
import os
import random
import re
import shlex
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from base64 import b64encode
from collections import Counter
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ask.map.rate_limit import RateLimiter
from tests import wire
from tests.map.simulated_service import SCENARIOS, Sent, count_accepted, simulate
from tests.model_server import DROP, HOLD, ModelServer, Reply, Request
from tests.program import ASK, CTRL_C, NO_COMPILED_FILES, TEST_KEY, Ask, Home, Result, Running, run
from tests.screen import render_lines
from tests.test_main import is_alive, wait_until
from tests.third_party_plugins import install_provider

pytestmark = pytest.mark.usefixtures("quick_retries")

COMMAND = ("map", "-p", "openrouter", "-m", "vendor/model", "Say {{text}}")


def get_prompt(request: Request) -> str:
    return str(request.json["messages"][-1]["content"])


def echo(request: Request) -> Reply:
    """Answer with the prompt in capital letters; fail if it contains "bad"."""
    prompt = get_prompt(request)
    if "bad" in prompt:
        return wire.fails(400, "this is bad")
    usage = {"prompt_tokens": 10, "completion_tokens": 2, "cost": 0.25}
    return wire.whole_reply(wire.answer(prompt.upper()) | {"usage": usage})


def refuse_schema(request: Request) -> Reply:
    if "response_format" in request.json:
        return wire.fails(400, "Invalid schema for response_format")
    return wire.says('{"kind": "bug"}', whole=True)


def make_rows(count: int) -> list[dict[str, Any]]:
    return [{"id": i, "text": f"word {i}"} for i in range(count)]


def write_rows(folder: Path, *rows: Any, name: str = "in.jsonl") -> str:
    (folder / name).write_text("".join(row + "\n" if isinstance(row, str) else json.dumps(row) + "\n" for row in rows))
    return name


def read_output(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def parse(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.text.splitlines()]


@pytest.mark.slow
def test_rows_in_flight_are_no_more_than_files_may_be_open(ask: Ask, server: ModelServer, home: Home) -> None:
    file = write_rows(home.work, *make_rows(80))
    server.reply(lambda request: Reply((0.3, *echo(request).steps)))
    for options in ([], ["-j", "60", "--fresh"]):
        command = ["bash", "-c", 'ulimit -n 60; exec ask "$@"', "bash", *COMMAND, file, "-O", "out.jsonl", *options]
        result = run(command, env=ask.env, cwd=home.work)
        assert result.code == 0, result.stderr


def test_half_a_character_in_an_answer_costs_no_other_row(ask: Ask, server: ModelServer, home: Home) -> None:
    answers = {"0": '{"kind": "\\ud800 bug"}', "1": '{"kind": "order"}', "2": '{"count": "\\udc00"}'}
    server.reply(lambda request: wire.whole_reply(wire.answer(answers[request.json["messages"][1]["content"][-1]])))
    schema = '{"type": "object", "properties": {"kind": {"type": "string"}, "count": {"type": "integer"}}}'
    result = ask(*COMMAND, write_rows(home.work, *make_rows(3)), "--schema", schema)
    assert result.code == 12, result.stderr
    assert [row["kind"] for row in parse(result)] == ["\ufffd bug", "order", None]


@pytest.mark.parametrize("output", ["caf\udce9.csv", "sqlite:caf\udce9.db?table=t"])
def test_the_name_of_an_output_may_not_be_utf8(ask: Ask, server: ModelServer, home: Home, output: str) -> None:
    server.reply(echo)
    command = (*COMMAND, write_rows(home.work, *make_rows(2)), "-O", output)
    assert [ask(*command).code for _ in range(2)] == [0, 0]
    assert len(server.requests) == 2
    rows = parse(ask("map", "-p", "openrouter", "-m", "vendor/model", "{{answer}}", output))
    assert [row["answer"] for row in rows] == ["SAY WORD 0", "SAY WORD 1"]
    assert ask("map", "--list").code == 0


def test_a_ledger_that_cannot_be_used_has_a_hint(ask: Ask, home: Home) -> None:
    (home.work / "ledger.db").write_bytes(b"damaged" * 1000)
    result = ask(*COMMAND, write_rows(home.work, *make_rows(1)), "--ledger", "ledger.db")
    assert (result.code, "move it away" in result.stderr) == (9, True), result.stderr
    shutil.rmtree(home.data, ignore_errors=True)
    home.data.write_text("a file")
    result = ask("map", "--list")
    assert (result.code, "--ledger" in result.stderr) == (9, True), result.stderr


def test_rows_are_answered_in_order(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(echo)
    result = ask(*COMMAND, write_rows(home.work, *make_rows(30)))
    assert result.code == 0
    rows = parse(result)
    assert [row["id"] for row in rows] == list(range(30))
    assert rows[3] == {
        "id": 3, "text": "word 3", "answer": "SAY WORD 3", "model": "vendor/model", "finish_reason": "stop",
        "input_tokens": 10, "output_tokens": 2, "cached_tokens": None, "cache_write_tokens": None, "cost": 0.25,
        "error": None,
    }  # fmt: skip
    for request in server.requests:
        assert request.json["messages"][0]["role"] == "system"
        assert "ask" in request.json["messages"][0]["content"]
        assert "tools" not in request.json
    assert "30 rows" in result.stderr
    assert "$7.50" in result.stderr


def test_a_row_that_fails_does_not_stop_the_others(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(echo)
    rows = ({"text": "a"}, "{broken", {"text": "bad"}, {"other": 1}, {"text": "b"})
    file = write_rows(home.work, *rows)
    result = ask(*COMMAND, file, "-O", "out.jsonl")
    assert result.code == 12
    output = read_output(home.work / "out.jsonl")
    assert [row["answer"] for row in output] == ["SAY A", None, None, None, "SAY B"]
    errors = [row["error"] for row in output]
    assert ("in.jsonl:2" in errors[1], "bad" in errors[2], "'text'" in errors[3]) == (True, True, True)
    assert "in.jsonl:2" in result.stderr
    # Failed rows are sent again only on request.
    assert ask(*COMMAND, file, "-O", "out.jsonl").code == 12
    assert len(server.requests) == 3
    assert ask(*COMMAND, file, "-O", "out.jsonl", "--retry-failed").code == 12
    assert [get_prompt(request) for request in server.requests[3:]] == ["Say bad"]


def test_the_same_command_continues(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(echo)
    file = write_rows(home.work, *make_rows(5), {"id": 9, "text": "word 0"})
    command = (*COMMAND, file, "-O", "out.jsonl", "--no-dedupe")
    assert ask(*command).code == 0
    first = (home.work / "out.jsonl").read_bytes()
    (home.work / "out.jsonl").unlink()
    result = ask(*command)
    assert (result.code, len(server.requests)) == (0, 6), "both rows with the same text are sent"
    assert (home.work / "out.jsonl").read_bytes() == first
    assert "6 earlier" in result.stderr
    write_rows(home.work, {"id": 7, "text": "new"}, *make_rows(5))
    assert ask(*command).code == 0
    assert [get_prompt(request) for request in server.requests[6:]] == ["Say new"]
    assert [row["answer"] for row in read_output(home.work / "out.jsonl")][:2] == ["SAY NEW", "SAY WORD 0"]
    assert ask(*command, "--fresh").code == 0
    assert len(server.requests) == 13


def test_standard_output_gets_all_rows_again(ask: Ask, server: ModelServer) -> None:
    server.reply(echo)
    command = ("map", "-p", "openrouter", "-m", "m", "Say {{line}}")
    first = ask(*command, stdin=b"a\nb\n")
    again = ask(*command, stdin=b"a\nb\nc\n")
    assert again.text.startswith(first.text)
    assert len(server.requests) == 3


def test_an_output_keeps_its_link_and_its_permissions(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(echo)
    target = home.path / "elsewhere.csv"
    target.touch(0o600)
    (home.work / "out.jsonl").symlink_to(target)
    assert ask(*COMMAND, write_rows(home.work, *make_rows(2)), "-O", "out.jsonl").code == 0
    assert (home.work / "out.jsonl").is_symlink()
    assert target.stat().st_mode & 0o777 == 0o600
    assert [row["answer"] for row in read_output(target)] == ["SAY WORD 0", "SAY WORD 1"]


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--unordered",)])
def test_an_output_is_not_replaced_by_a_shorter_one(
    ask: Ask, server: ModelServer, home: Home, options: tuple[str, ...]
) -> None:
    server.reply(echo)
    file = write_rows(home.work, {"text": "bad"}, *make_rows(600))
    command = (*COMMAND, file, "-O", "out.jsonl", *options)
    assert ask(*command).code == 12
    server.reply(Reply((HOLD,)))
    for signal_number, count in ((signal.SIGKILL, 1), (signal.SIGTERM, 2), (signal.SIGINT, 3)):
        with ask.start(*command, "--retry-failed") as running:
            server.wait_for_requests(601 + count)
            running.process.send_signal(signal_number)
            if signal_number == signal.SIGINT:
                running.wait_for("Ctrl-C again")
                running.process.send_signal(signal_number)
            running.finish()
        answers = [row["answer"] for row in read_output(home.work / "out.jsonl")]
        assert len(answers) - answers.count(None) == 600
    server.reply(wire.whole_reply(wire.answer("Fine")))
    assert ask(*command, "--retry-failed").code == 0
    rows = read_output(home.work / "out.jsonl")
    assert (len(rows), sum(row["answer"] == "Fine" for row in rows)) == (601, 1)


def test_another_prompt_does_not_replace_the_output(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(echo)
    file = write_rows(home.work, *make_rows(2))
    assert ask(*COMMAND, file, "-O", "out.jsonl").code == 0
    before = (home.work / "out.jsonl").read_bytes()
    changed = (*COMMAND[:-1], "Repeat {{text}}", file, "-O", "out.jsonl")
    result = ask(*changed)
    assert (result.code, len(server.requests)) == (2, 2)
    assert "--fresh" in result.stderr
    assert (home.work / "out.jsonl").read_bytes() == before
    input_as_output = ask(*COMMAND, file, "-O", file, "--fresh")
    assert (input_as_output.code, "is an input" in input_as_output.stderr) == (2, True), "a kill would lose rows"
    (home.work / "mine.jsonl").write_text("mine\n")
    assert ask(*COMMAND, file, "-O", "mine.jsonl").code == 2
    assert ask(*changed, "--fresh").code == 0


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("Say {{txet}}", "in.jsonl"), (2, "did you mean text")),
        (("-f", "{{path}}", "Say it", "in.jsonl"), (2, "; with --files, each file is a row")),
        (("Say {{text}}", "in.jsonl", "--input-format", "lines"), (2, "; to read a table, add --input-format")),
        (("Say {{text}}", "in.jsonl", "--input-format", "lines"), (2, "; with -f {{path}}, each file is a row")),
        (("Say {{text}}", "object.json"), (2, """jq -c '(arrays[] // .)."data"[]?' extracts them""")),
        (("Say {{text}}", "none.jsonl"), (9, "none.jsonl")),
        (("of", "europe"), (9, "ask -- map")),
        (("Say {{text}}", "in.jsonl", "-O", "out.xls"), (2, ".csv")),
        (("Say {{text}}", "in.jsonl", "-O", "none/out.csv"), (9, "none")),
        (("Say {{text}}", "in.jsonl", "-o", "out.csv"), (2, "-O out.csv")),
        (("Say {{text}}", "in.jsonl", "-j", "0"), (2, "-j")),
        (("Say {{text}}", "in.jsonl", "--max-failures", "x"), (2, "max-failures")),
        (("Say {{text}}", "empty.jsonl"), (2, "no rows")),
        ((), (2, "ask map")),
    ],
)
def test_mistakes_are_errors_before_anything_is_sent(
    ask: Ask, server: ModelServer, home: Home, arguments: tuple[str, ...], expected: tuple[int, str]
) -> None:
    code, word = expected
    server.reply(echo)
    write_rows(home.work, {"text": "a"})
    write_rows(home.work, name="empty.jsonl")
    write_rows(home.work, {"count": 1, "data": [{"text": "a"}]}, name="object.json")
    result = ask("map", "-p", "openrouter", "-m", "m", *arguments)
    assert (result.code, result.text, server.requests) == (code, "", [])
    assert word in result.stderr


def test_csv_in_and_out_with_a_schema(ask: Ask, server: ModelServer, home: Home) -> None:
    value = {"sentiment": "good, really", "score": 3}
    server.reply(lambda request: wire.whole_reply(wire.answer(json.dumps(value))))
    (home.work / "in.csv").write_text('id,review\n1,"fine, ""very"""\n2,bad\n')
    schema = "sentiment, score int"
    command = ("map", "-p", "openrouter", "-m", "m", "--schema", schema, "Judge {{review}}", "in.csv", "-O", "out.csv")
    assert ask(*command).code == 0
    with (home.work / "out.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["id"], row["review"], row["sentiment"], row["score"]) for row in rows] == [
        ("1", 'fine, "very"', "good, really", "3"), ("2", "bad", "good, really", "3"),
    ]  # fmt: skip
    assert list(rows[0])[:4] == ["id", "review", "sentiment", "score"]


@pytest.mark.parametrize(("output", "delimiter"), [("out.csv", ","), ("out.tsv", "\t")])
def test_tables_may_contain_any_text(ask: Ask, server: ModelServer, home: Home, output: str, delimiter: str) -> None:
    server.reply(echo)
    texts = ["a\rb", "a\r\nb\r\n", "\n", 'x,\t"y"', "'", ""]
    file = write_rows(home.work, *({"text": text} for text in texts))
    assert ask(*COMMAND, file, "-O", output).code == 0
    with (home.work / output).open(newline="") as stream:
        assert [row["text"] for row in csv.DictReader(stream, delimiter=delimiter)] == texts


def test_columns_of_the_input_are_kept(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(echo)
    file = write_rows(home.work, {"text": "a", "answer": "theirs", "model": "old"})
    (row,) = parse(ask(*COMMAND, file))
    assert (row["answer"], row["answer_2"], row["model"], row["model_2"]) == ("theirs", "SAY A", "old", "vendor/model")


@pytest.mark.parametrize(("output", "left_out"), [("out.csv", {"answer", "note"}), ("out.jsonl", {"answer"})])
def test_columns_that_the_first_row_lacks_are_not_left_out_silently(
    ask: Ask, server: ModelServer, home: Home, output: str, left_out: set[str]
) -> None:
    server.reply(echo)
    file = write_rows(
        home.work, {"text": "a"}, {"text": "b", "note": "n", "answer": "theirs"}, {"text": "c", "note": 1}
    )
    result = ask(*COMMAND, file, "-O", output)
    assert result.code == 0
    notice = next(line for line in result.stderr.splitlines() if "first row" in line)
    assert {name for name in ("answer", "note", "text") if name in notice} == left_out


@pytest.mark.parametrize("options", [(), pytest.param(("--tools",), marks=pytest.mark.slow)], ids=["plain", "tools"])
def test_a_cut_answer_keeps_its_text(ask: Ask, server: ModelServer, home: Home, options: tuple[str, ...]) -> None:
    server.reply(wire.whole_reply(wire.answer("The first part", finish="length")))
    file = write_rows(home.work, *make_rows(1))
    result = ask.process(*COMMAND, file, "-O", "out.jsonl", *options, timeout=60)
    [row] = read_output(home.work / "out.jsonl")
    assert (result.code, row["answer"], row["finish_reason"]) == (12, "The first part", "length")
    assert "token limit" in row["error"]
    sent = len(server.requests)
    assert ask(*COMMAND, file, "-O", "out.jsonl", *options).code == 12
    assert (read_output(home.work / "out.jsonl"), len(server.requests)) == ([row], sent)


def test_an_answer_that_does_not_match_a_schema_has_no_columns(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(wire.whole_reply(wire.answer('{"score": 1', finish="length")))
    [row] = parse(ask(*COMMAND, write_rows(home.work, *make_rows(1)), "--schema", "score int"))
    assert (row["score"], row["finish_reason"]) == (None, "length")


@pytest.mark.parametrize("answer", ['{"score": 1', "1", b"1"])
def test_a_row_with_a_damaged_answer_in_the_ledger_is_sent_again(
    ask: Ask, server: ModelServer, home: Home, answer: str | bytes
) -> None:
    server.reply(wire.whole_reply(wire.answer('{"score": 1}')))
    command = (*COMMAND, write_rows(home.work, *make_rows(3)), "--schema", "score int", "-O", "out.jsonl")
    assert ask(*command).code == 0
    output = read_output(home.work / "out.jsonl")
    with closing(sqlite3.connect(home.data / "map.db")) as connection, connection:
        connection.execute("UPDATE results SET answer = ? WHERE key IN (SELECT key FROM results LIMIT 1)", (answer,))
    for _ in range(2):
        result = ask(*command)
        assert (result.code, len(server.requests)) == (0, 4), result.stderr
        assert read_output(home.work / "out.jsonl") == output


def test_damaged_rows_can_be_joined(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(echo)
    (home.work / "in.csv").write_bytes(b'id,text\n1,a\n2\n3,\xff\n4,"b\n5,c\0d\n6,e\r7,f\n8,g\n')
    result = ask(*COMMAND, "in.csv", "-O", "out.csv", "--columns", "id,answer,error")
    with (home.work / "out.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert (result.code, list(rows[0])) == (12, ["id", "answer", "error"])
    assert [(row["id"], row["answer"]) for row in rows] == [
        ("1", "SAY A"), ("2", ""), ("3", ""), ("4", ""), ("5", ""), ("6", ""), ("8", "SAY G"),
    ]  # fmt: skip
    words = ("", "1 field,", "UTF-8", "not CSV", "NUL", "not CSV", "")
    assert all(word in row["error"] for word, row in zip(words, rows, strict=True))


@pytest.mark.parametrize("output", [(), ("-O", "out.jsonl")], ids=["stdout", "file"])
def test_a_lone_surrogate_is_copied_unchanged(
    ask: Ask, server: ModelServer, home: Home, output: tuple[str, ...]
) -> None:
    server.reply(echo)
    file = write_rows(home.work, '{"text": "a", "other": "é\\ud800"}')
    result = ask(*COMMAND, file, *output)
    [row] = read_output(home.work / "out.jsonl") if output else parse(result)
    assert row["other"] == "é\ud800"


def test_columns_are_chosen(ask: Ask, server: ModelServer, home: Home) -> None:
    counts: Counter[str] = Counter()

    def refuse_first(request: Request) -> Reply:
        prompt = get_prompt(request)
        counts[prompt] += 1
        return wire.fails(429) if prompt == "Say word 1" and counts[prompt] == 1 else echo(request)

    server.reply(refuse_first)
    file = write_rows(home.work, *make_rows(2))
    [first, second] = parse(ask(*COMMAND, file, "--columns", "all"))
    assert list(first)[-4:] == ["error", "latency", "tries", "time"]
    assert (first["tries"], second["tries"], 0 < second["latency"] < 5) == (1, 2, True)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", first["time"])
    again = parse(ask(*COMMAND, file, "--columns", "tries, id,time"))
    assert again == [{name: row[name] for name in ("tries", "id", "time")} for row in (first, second)]
    result = ask(*COMMAND, file, "--columns", "id,anwser")
    assert (result.code, "did you mean answer" in result.stderr) == (2, True)
    assert ask(*COMMAND, file, "--columns", "id,id").code == 2
    assert len(server.requests) == 3


def test_files_are_rows(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(echo)
    for name in ("a.txt", "b.txt"):
        (home.work / name).write_text(f"content of {name}\n")
    result = ask("map", "-p", "openrouter", "-m", "m", "-f", "{{path}}", "Summarize.", "a.txt", "b.txt")
    assert [row["path"] for row in parse(result)] == ["a.txt", "b.txt"]
    assert sorted("content of a.txt" in get_prompt(request) for request in server.requests) == [False, True]


def test_several_models_answer_each_row(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(echo)
    file = write_rows(home.work, *make_rows(2))
    command = ("map", "-p", "openrouter", "-m", "v/a", "-m", "v/b", "Say {{text}}", file)
    assert [(row["id"], row["model"]) for row in parse(ask(*command))] == [
        (0, "openrouter:v/a"), (0, "openrouter:v/b"), (1, "openrouter:v/a"), (1, "openrouter:v/b"),
    ]  # fmt: skip
    assert Counter(request.json["model"] for request in server.requests) == {"v/a": 2, "v/b": 2}


def test_a_template_is_filled_in(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(echo)
    folder = home.config / "templates"
    folder.mkdir()
    (folder / "tell.md").write_text('+++\nsystem = "Be {{mood}}."\n+++\nTell {{text}} to {{who}}.')
    file = write_rows(home.work, {"text": "a", "who": "me"})
    result = ask("map", "-p", "openrouter", "-m", "m", "-t", "tell", "--var", "mood=kind", file)
    assert [row["answer"] for row in parse(result)] == ["TELL A TO ME."]
    assert "Be kind." in server.requests[0].json["messages"][0]["content"]


def test_a_template_says_nothing_else_in_its_system_prompt_than_in_a_row(ask: Ask, server: ModelServer) -> None:
    server.reply(echo)
    command = (
        "map",
        "-p",
        "openrouter",
        "-m",
        "m",
        "-t",
        "translate",
        write_rows(ask.cwd, {"text": "a", "to": "French"}),
    )
    for arguments, expected in (((), "--var to=VALUE"), (("--var", "to={{text}}"), "'{{text}}'")):
        result = ask(*command, *arguments)
        assert (result.code, result.text, result.stderr.count("\n")) == (2, "", 1)
        assert expected in result.stderr
    assert not server.requests
    assert ask(*command, "--var", "to=French").code == 0
    assert "You translate into French" in server.requests[0].json["messages"][0]["content"]
    assert ask(*command, "--var", "to=${{ github.ref }}").code == 0  # no column of that name
    assert "${{ github.ref }}" in server.requests[1].json["messages"][0]["content"]


def test_a_later_row_with_a_column_for_the_system_prompt_fails(ask: Ask, server: ModelServer) -> None:
    server.reply(echo)
    rows = write_rows(ask.cwd, {"text": "a"}, {"text": "b", "to": "French"})
    result = ask("map", "-p", "openrouter", "-m", "m", "-t", "translate", rows)
    assert result.code != 0
    assert [bool(row["error"]) for row in parse(result)] == [False, True]
    assert len(server.requests) == 1


@pytest.mark.slow
@pytest.mark.parametrize("output", ["out.jsonl", "out.csv"])
def test_a_bad_key_stops_the_job(ask: Ask, server: ModelServer, home: Home, output: str) -> None:
    server.reply(wire.fails(401, "no such key"))
    result = ask(*COMMAND, write_rows(home.work, *make_rows(150)), "-O", output)
    assert (result.code, "to continue" in result.stderr) == (6, False)
    assert len(server.requests) < 50
    assert not (home.work / output).exists(), "which another job could not replace"
    server.reply(echo)
    result = ask(*COMMAND, "-s", "Loudly", "in.jsonl", "-O", output)
    assert (result.code, "150 rows answered" in result.stderr) == (0, True), result.stderr


def test_requests_in_flight_do_not_exceed_the_cost_limit(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(echo)
    file = write_rows(home.work, *make_rows(100))
    result = ask(*COMMAND, file, "-O", "out.jsonl", "-j", "64", "--max-cost", "9.9")
    assert (result.code, len(server.requests)) == (11, 40)


def test_what_failed_rows_have_cost_counts_when_they_are_sent_again(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(echo)
    command = (*COMMAND, write_rows(home.work, *make_rows(2)), "-O", "out.jsonl", "-j", "1", "--schema", "n int")
    assert ask(*command).code == 12
    assert (len(server.requests), [row["cost"] for row in read_output(home.work / "out.jsonl")]) == (6, [0.75] * 2)
    for limit in ("2", "2.5"):
        assert ask(*command, "--retry-failed", "--max-cost", limit).code == 11
    assert len(server.requests) == 12
    [job] = json.loads(ask("map", "--list", "--json").text)
    assert job["cost"] == 3.0
    server.reply(wire.whole_reply(wire.answer('{"n": 1}')))  # it does not say what it costs
    assert ask(*command, "--retry-failed").code == 0
    rows = read_output(home.work / "out.jsonl")
    assert [sum(row[name] for row in rows) for name in ("n", "cost")] == [2, 3.0]


def test_limits_end_the_job_early(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(echo)
    file = write_rows(home.work, *make_rows(100))
    result = ask(*COMMAND, file, "-O", "out.jsonl", "-j", "1", "--max-cost", "1")
    assert (result.code, len(server.requests)) == (11, 4)
    assert len(read_output(home.work / "out.jsonl")) == 4
    assert ask(*COMMAND, file, "-O", "out.jsonl", "-j", "1", "--max-cost", "1.5").code == 11
    assert len(server.requests) == 6, "the limit is for the whole job"
    assert ask(*COMMAND, file, "-O", "out.jsonl", "-j", "1", "--max-cost", "1.5").code == 11
    assert len(server.requests) == 6, "it was reached before"
    rows = [{"text": f"bad {i}"} for i in range(50)]
    failing = ask(*COMMAND, write_rows(home.work, *rows, name="bad.jsonl"), "--max-failures", "3", "-j", "1")
    assert (failing.code, len(parse(failing))) == (11, 3)


def test_limit_and_sample_choose_rows(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(echo)
    file = write_rows(home.work, *make_rows(100))
    assert [row["id"] for row in parse(ask(*COMMAND, file, "--limit", "3"))] == [0, 1, 2]
    sample = [row["id"] for row in parse(ask(*COMMAND, file, "--sample", "10"))]
    assert (len(set(sample)), sample) == (10, sorted(sample))
    assert [row["id"] for row in parse(ask(*COMMAND, file, "--sample", "10"))] == sample
    assert [row["id"] for row in parse(ask(*COMMAND, file, "--limit", "3", "--sample", "10"))] == [0, 1, 2]


def test_temporary_failures_are_retried(ask: Ask, server: ModelServer, home: Home) -> None:
    counts: Counter[str] = Counter()

    def fail_first(request: Request) -> Reply:
        prompt = get_prompt(request)
        counts[prompt] += 1
        return wire.fails(503) if counts[prompt] == 1 and prompt.endswith(("3", "6")) else echo(request)

    server.reply(fail_first)
    result = ask(*COMMAND, write_rows(home.work, *make_rows(20)))
    assert (result.code, len(parse(result)), Counter(counts.values())) == (0, 20, {1: 16, 2: 4})


def test_a_wait_that_the_body_asks_for_is_for_the_refused_row(ask: Ask, server: ModelServer, home: Home) -> None:
    def refuse(_: Request) -> Reply:
        reset = {"X-RateLimit-Reset": str(int((time.time() + 1.5) * 1000))}
        error = {"message": "free-models-per-min", "code": 429, "metadata": {"headers": reset}}
        return wire.whole_reply({"error": error}, 429)

    server.reply(refuse, echo)
    assert ask(*COMMAND, write_rows(home.work, *make_rows(2)), "-j", "1").code == 0
    times = {get_prompt(request): request.time for request in server.requests}
    assert times["Say word 0"] - server.requests[0].time > 1
    assert times["Say word 1"] - server.requests[0].time < 1


def test_a_long_rate_limit_stops_the_job(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(echo, echo, echo, wire.fails(429, "daily limit", {"Retry-After": "3600"}), echo)
    command = (*COMMAND, write_rows(home.work, *make_rows(20)), "-O", "out.jsonl", "-j", "1")
    result = ask(*command)
    assert (result.code, len(server.requests)) == (6, 4)
    assert "asks to wait 1.0 h; run the same command again to continue" in result.stderr
    assert ask(*command).code == 0, "no row has failed"


def test_a_schema_that_the_service_refuses_is_left_out_of_the_next_rows(ask: Ask, server: ModelServer) -> None:
    server.reply(*[refuse_schema] * 8)
    command = ("map", "-p", "openrouter", "-m", "vendor/model", "-j", "1", "--schema", "kind", "Kind of {{line}}")
    result = ask(*command, "--input-format", "lines", "-", stdin=b"a\nb\nc\n")
    assert (result.code, result.text.count('"kind": "bug"')) == (0, 3), result.stderr
    assert ["response_format" in request.json for request in server.requests] == [True, False, False, False]
    assert result.stderr.count("Invalid schema") == 1


def test_a_refusal_of_several_rows_at_once_is_reported_once(ask: Ask, server: ModelServer) -> None:
    rows_at_once = threading.Barrier(8)

    def answer(request: Request) -> Reply:
        if "response_format" in request.json:
            rows_at_once.wait(30)
        return refuse_schema(request)

    server.reply(*[answer] * 16)
    command = ("map", "-p", "openrouter", "-m", "vendor/model", "-j", "8", "--schema", "kind", "Kind of {{line}}")
    result = ask(*command, "--input-format", "lines", "-", stdin=b"a\nb\nc\nd\ne\nf\ng\nh\n")
    assert (result.code, result.stderr.count("Invalid schema")) == (0, 1), result.stderr


def test_a_dry_run_sends_nothing(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(wire.whole_reply({"data": []}))
    result = ask(*COMMAND, write_rows(home.work, *make_rows(20), "{"), "--dry-run", "-O", "out.jsonl")
    assert result.code == 0
    assert "20 rows" in result.stderr
    assert not (home.work / "out.jsonl").exists()
    assert not any(request.path.endswith("completions") for request in server.requests)


def test_no_save_keeps_no_answers(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(echo)
    file = write_rows(home.work, {"text": "marzipan"})
    assert ask(*COMMAND, file, "--no-save").code == 0
    for path in home.data.rglob("map.db*"):
        assert b"MARZIPAN" not in path.read_bytes()


def test_jobs_are_listed_and_forgotten(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(echo)
    assert ask(*COMMAND, write_rows(home.work, *make_rows(2))).code == 0
    (job,) = json.loads(ask("map", "--list", "--json").text)
    assert (job["answered"], job["prompt"]) == (2, "Say {{text}}")
    assert job["updated"] in ask("map", "--list").text.split("\t")
    assert ask("map", "--forget", job["id"]).code == 0
    assert json.loads(ask("map", "--list", "--json").text) == []
    assert not [path for path in home.data.rglob("map.db*") if b"SAY WORD" in path.read_bytes()]
    assert ask("map", "--forget", job["id"]).code == 2


@pytest.mark.parametrize("is_killed", [False, True])
@pytest.mark.needs("bwrap")
def test_jobs_on_a_read_only_file_system_are_listed(
    ask: Ask, server: ModelServer, home: Home, *, is_killed: bool
) -> None:
    server.reply(echo)
    folder = home.work / "archive"
    folder.mkdir()
    command = ("map", "--list", "--ledger", str(folder / "map.db"), "--json")
    bwrap = f"bwrap --dev-bind / / --ro-bind {folder} {folder} --"
    assert ask(*COMMAND, write_rows(home.work, *make_rows(2)), "--ledger", str(folder / "map.db")).code == 0
    expected = ask(*command).text
    if is_killed:  # SQLite's files stay
        script = f"import os, sqlite3; db = sqlite3.connect('{folder}/map.db'); db.execute('PRAGMA journal_mode = WAL')"
        script += "; db.execute('CREATE TABLE t (x)'); os._exit(0)"
        subprocess.run([sys.executable, "-c", script], check=True)
        assert (folder / "map.db-wal").stat().st_size
    result = ask.shell(f"{bwrap} ask {' '.join(command)}")
    assert (result.code, json.loads(result.text)) == (0, json.loads(expected)), result.stderr
    assert json.loads(expected)[0]["answered"] == 2


@pytest.mark.parametrize(
    ("statement", "code"), [("", 0), ("CREATE TABLE jobs (id, name)", 9), ("PRAGMA user_version = 1", 9)]
)
@pytest.mark.needs("bwrap")
def test_only_a_ledger_on_a_read_only_file_system_is_listed(ask: Ask, home: Home, statement: str, code: int) -> None:
    file = home.work / "archive/map.db"
    file.parent.mkdir()
    file.touch()
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(statement)
    command = f"ask map --list --ledger {file}"
    result = ask.shell(f"bwrap --dev-bind / / --ro-bind {file.parent} {file.parent} -- {command}")
    writable = ask.shell(command)
    assert (result.code, result.text, result.stderr) == (code, "", writable.stderr)


def test_the_key_is_not_written_out(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(lambda request: wire.fails(400, f"your key is {request.headers['Authorization']}"))
    result = ask(*COMMAND, write_rows(home.work, {"text": "a"}), "--key", "sk-or-secret-123456789")
    assert result.code == 12
    assert "secret-123456789" not in result.text + result.stderr


class SlowServer:
    """Answers after a while, and counts the requests that arrive."""

    def __init__(self, server: ModelServer, seconds: float) -> None:
        self.count = 0
        self._seconds = seconds
        self._lock = threading.Lock()
        server.reply(self._answer)

    def _answer(self, request: Request) -> Reply:
        if len(request.body) < int(request.headers["Content-Length"]):
            return Reply((DROP,))  # ask was killed while it sent the request
        with self._lock:
            self.count += 1
        time.sleep(self._seconds)
        return echo(request)


def test_a_local_model_costs_nothing(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(wire.whole_reply(wire.answer("a") | {"usage": {"prompt_tokens": 10, "completion_tokens": 2}}))
    command = ("map", "-p", "lmstudio", "-m", "m", "--base-url", server.base_url, "Say {{text}}")
    [row] = parse(ask(*command, write_rows(home.work, *make_rows(1))))
    assert (row["answer"], row["input_tokens"], row["cost"]) == ("a", 10, 0.0)


@pytest.mark.slow
def test_progress_is_shown_on_a_terminal(ask: Ask, server: ModelServer, home: Home) -> None:
    SlowServer(server, 0.1)
    command = (*COMMAND, write_rows(home.work, *make_rows(40)), "-O", "out.jsonl", "-j", "8")
    shown = ask.on_terminal(*command).text
    assert re.search(r"█+░+  [1-9]\d*/40  .*/s .*\$\d.* \d+ in flight", shown), shown
    lines = render_lines(shown.encode())
    assert [line for line in lines if "░" in line] == [], "the bar is erased"
    assert "40 rows answered" in "".join(lines)
    write_rows(home.work, *make_rows(41))
    again = ask.on_terminal(*command).text
    assert "40 rows answered earlier (just now); --fresh" in again
    assert "(40 earlier)" in again
    piped = ask(*command)
    assert len(piped.stderr.splitlines()) == 1
    assert "(41 earlier; --fresh" in piped.stderr


@pytest.mark.slow
def test_progress_leaves_the_lines_of_other_runs_on_the_terminal(ask: Ask, server: ModelServer, home: Home) -> None:
    rows = [step for number in range(20) for step in (wire.text(f"- **row** {number}\n"), 0.1)]

    def answer(request: Request) -> Reply:
        if b"Say" not in request.body:
            return wire.streams(*rows, wire.finish())
        time.sleep(0.1)
        return wire.says("Yes.")

    server.reply(answer)
    command = shlex.join([*COMMAND, write_rows(home.work, *make_rows(200)), "-O", "out.jsonl", "-j", "8"])
    script = f"{ASK} {command} & {ASK} --no-tools hi; wait"
    with Running(["bash", "-c", script], env=ask.env, cwd=ask.cwd, terminal=True) as running:
        lines = render_lines(running.finish().stdout)
    assert [line for line in lines if "row " in line] == [f"• row {number}" for number in range(20)], lines


@pytest.mark.slow
def test_the_progress_bar_names_the_reason_of_refusals(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(*[wire.fails(429, "slow down")] * 6, wire.whole_reply(wire.answer("a")))
    shown = ask.on_terminal(*COMMAND, write_rows(home.work, *make_rows(1)), "-O", "out.jsonl").text
    assert "refused: slow down (openrouter, 429)" in shown
    assert "1 row answered" in shown


def test_rows_and_the_progress_bar_share_a_terminal(ask: Ask, server: ModelServer, home: Home) -> None:
    SlowServer(server, 0.3)
    shown = ask.on_terminal(*COMMAND, write_rows(home.work, *make_rows(2))).stdout
    lines = render_lines(shown, columns=400)
    assert "░" in shown.decode()
    assert [line for line in lines if "░" in line] == []
    assert len([line for line in lines if line.startswith("{")]) == 2


def test_ctrl_c_finishes_what_is_in_flight(ask: Ask, server: ModelServer, home: Home) -> None:
    service = SlowServer(server, 0.3)
    file = write_rows(home.work, *make_rows(200))
    with ask.start(*COMMAND, file, "-O", "out.jsonl", "-j", "4") as running:
        server.wait_for_requests(6)
        running.process.send_signal(signal.SIGINT)
        result = running.finish(30)
    assert result.code == 130
    assert "same command again" in result.stderr
    output = read_output(home.work / "out.jsonl")
    assert len(output) == service.count < 20
    assert ask(*COMMAND, file, "-O", "out.jsonl", "-j", "64").code == 0
    assert service.count == 200
    assert [row["id"] for row in read_output(home.work / "out.jsonl")] == list(range(200))


@pytest.mark.slow
def test_ctrl_c_while_the_terminal_takes_no_output_finishes_what_is_in_flight(
    ask: Ask, server: ModelServer, home: Home
) -> None:
    SlowServer(server, 0.1)
    with ask.start_on_terminal(
        *COMMAND, write_rows(home.work, *make_rows(200)), "-O", "out.jsonl", "-j", "4"
    ) as running:
        server.wait_for_requests(6)
        for key in ("\x13", CTRL_C, "\x11"):  # between Ctrl-S and Ctrl-Q, writes to the terminal wait
            time.sleep(0.5)
            running.type_in(key)
        result = running.finish(30)
    assert result.code == 130
    assert "same command again" in result.text


@pytest.mark.parametrize("kills", [3, pytest.param(100, marks=pytest.mark.slow)])
def test_kills_lose_no_row_and_repeat_only_what_was_in_flight(
    ask: Ask, server: ModelServer, home: Home, kills: int
) -> None:
    service = SlowServer(server, 0.02)
    rows = 300 if kills < 10 else 4000
    file = write_rows(home.work, *make_rows(rows))
    jobs, generator = 10, random.Random(7)
    command = (*COMMAND, file, "-O", "out.jsonl", "-j", str(jobs))
    for _ in range(kills):
        with ask.start(*command) as running:
            time.sleep(generator.uniform(0.1, 0.9))
            running.process.kill()
            running.process.wait(10)
        lines = (home.work / "out.jsonl").read_text() if (home.work / "out.jsonl").exists() else ""
        assert lines == "" or lines.endswith("\n")
        assert [json.loads(line)["id"] for line in lines.splitlines()] == list(range(lines.count("\n")))
    result = ask.process(*command, timeout=120)
    assert result.code == 0
    assert [row["id"] for row in read_output(home.work / "out.jsonl")] == list(range(rows))
    assert service.count <= rows + kills * jobs


def test_a_kill_before_the_first_request_leaves_no_file_behind(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(echo)
    command = ("map", "-p", "openrouter", "-m", "m", "Say {{line}}", "-O", "out.jsonl")
    assert ask(*command, stdin=b"one\n").code == 0
    pipe_end, input_end = os.pipe()
    with ask.start(*command, stdin=pipe_end) as running:
        os.close(pipe_end)
        os.write(input_end, b"one\n")
        wait_until(lambda: len(list(home.work.iterdir())) > 1)
        running.process.kill()
        running.process.wait(10)
    os.close(input_end)
    assert ask(*command, stdin=b"one\ntwo\n").code == 0
    assert [file.name for file in home.work.iterdir()] == ["out.jsonl"]


def test_a_job_does_not_run_twice_at_once(ask: Ask, server: ModelServer, home: Home) -> None:
    SlowServer(server, 1.0)
    file = write_rows(home.work, *make_rows(4))
    with ask.start(*COMMAND, file) as running:
        server.wait_for_requests(1)
        for _ in range(2):  # the refused command must not release the lock
            assert ask(*COMMAND, file).code == 2
        assert running.finish(30).code == 0


def test_two_jobs_do_not_write_the_same_output_at_once(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(Reply((HOLD,)))
    file = write_rows(home.work, *make_rows(3))
    with ask.start(*COMMAND, file, "-O", "out.jsonl"):
        server.wait_for_requests(1)
        result = ask(*COMMAND[:-1], "Repeat {{text}}", file, "-O", "out.jsonl")
        assert (result.code, "out.jsonl" in result.stderr) == (2, True)
        server.reply(echo)
        assert ask(*COMMAND[:-1], "Repeat {{text}}", file, "-O", "other.jsonl").code == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "50/s, latency 0.5",
        "50/s, Retry-After 2",
        "50/s in a sliding second",
        "50/s, overloaded 5%",
        "20/s, refusals after 2 s",
    ],
)
def test_a_real_service_is_used_like_the_simulated_one(ask: Ask, server: ModelServer, home: Home, name: str) -> None:
    service, sent, lock = SCENARIOS[name].copy(), list[Sent](), threading.Lock()
    seconds = 20

    def reply(request: Request) -> Reply:
        with lock:
            now = time.monotonic()
            start = server.requests[0].time
            response = service.receive(now - start)
            sent.append(Sent(now - start, response.decision))
        time.sleep(response.seconds)
        if response.decision != "accepted":
            return wire.fails(529 if response.decision == "overloaded" else 429, "slow down", response.headers)
        service.finish()
        return echo(request)

    server.reply(reply)
    file = write_rows(home.work, *make_rows(50 * seconds))
    assert ask.process(*COMMAND, file, timeout=120).code == 0
    simulated = simulate(RateLimiter(), SCENARIOS[name], seconds)
    end = min(seconds, sent[-1].time) - 1
    # On a quiet machine, they agree within 5 % from second 7 on; before, one refusal more or less ends the search for
    # the rate at another one.
    expected = count_accepted(simulated, 2, end)
    assert count_accepted(sent, 2, end) == pytest.approx(expected, rel=0.15)


def write_file(request: Request) -> Reply:
    """Have the model write its prompt to a file, then answer."""
    messages = request.json["messages"]
    if messages[-1]["role"] == "tool":
        return wire.streams(*wire.stream("done"))
    prompt = next(message["content"] for message in messages if message["role"] == "user")
    return wire.calls(("write_file", {"filepath": "note.txt", "content": f"{prompt}\n"}))


@pytest.mark.parametrize(
    "options",
    [
        pytest.param((), marks=pytest.mark.slow),
        pytest.param(("--safe",), marks=pytest.mark.needs("bwrap")),
        pytest.param(("--safe-files",), marks=pytest.mark.slow),
    ],
    ids=["plain", "safe", "files"],
)
def test_rows_with_tools_have_a_working_copy_each(
    ask: Ask, server: ModelServer, home: Home, options: tuple[str, ...]
) -> None:
    server.reply(write_file)
    template = home.work / "project"
    template.mkdir()
    (template / "note.txt").write_text("old\n")
    file = write_rows(home.work, *make_rows(3))
    command = (*COMMAND, file, "-O", "out.jsonl", "--tools", "--workdir-template", "project", *options)
    result = ask.process(*command, timeout=120)
    assert (result.code, result.stderr.count("failed")) == (0, 0)
    output = read_output(home.work / "out.jsonl")
    assert [row["answer"] for row in output] == ["done"] * 3
    for number, row in enumerate(output):
        assert "-old" in row["patch"]
        assert f"+Say word {number}" in row["patch"]
    assert (template / "note.txt").read_text() == "old\n"


@pytest.mark.slow
@pytest.mark.needs("bwrap")
def test_copies_for_rows_do_not_have_what_safe_mode_hides(ask: Ask, server: ModelServer, home: Home) -> None:
    """In a copy, an absolute link named .env leads elsewhere, and the record of an earlier run is about other paths."""
    template = home.work / "project"
    for name in ("config/absolute.txt", "config/earlier.txt", "secrets/key", "prod.env", "note.txt"):
        (template / name).parent.mkdir(parents=True, exist_ok=True)
        (template / name).write_text("SECRET=1\n" if name != "note.txt" else "text\n")
    os.link(template / "config/absolute.txt", template / "second[1].txt")
    (template / ".env").symlink_to(template / "config/absolute.txt")
    (template / ".env.d").symlink_to(template / "secrets")
    (template / ".env.local").symlink_to("config/earlier.txt")
    server.reply(wire.calls(("bash", {"command": "rm .env.local"})), wire.says("done"))
    assert replace(ask, cwd=template).process(*COMMAND[1:5], "--safe", "Go", timeout=60).code == 0
    assert not (template / ".env.local").is_symlink()
    command = "grep -rs . . | grep -v patch > found; true"
    server.reply(wire.calls(("bash", {"command": command})), wire.says("done"))
    rows = write_rows(home.work, *make_rows(1))
    result = ask.process(*COMMAND, rows, "--tools", "--workdir-template", "project", "--safe", timeout=60)
    assert result.code == 0, result.stderr
    patch = parse(result)[0]["patch"]
    assert "+./note.txt:text" in patch
    assert "SECRET" not in patch


@pytest.mark.slow
@pytest.mark.needs("jq", "patch")
def test_created_and_deleted_links_are_in_the_patch(ask: Ask, server: ModelServer, home: Home) -> None:
    template = home.work / "project"
    (template / "folder").mkdir(parents=True)
    for link in ("deleted", "folder/deleted too", "kept"):
        (template / link).symlink_to("target")
    command = (
        "mkdir new && ln -s ../folder 'new/a link' && ln -s $'two\\nlines' odd && ln -s $'caf\\xe9' old "
        "&& rm -r deleted folder && echo x > file"
    )
    server.reply(wire.calls(("bash", {"command": command})), wire.says("done"))
    file = write_rows(home.work, *make_rows(1))
    result = ask.process(*COMMAND, file, "--tools", "--workdir-template", "project", "-O", "out.jsonl", timeout=60)
    assert result.code == 0, read_output(home.work / "out.jsonl")
    assert ask.shell("jq -r .patch out.jsonl | patch -p1 -d project").code == 0
    links = {str(path.relative_to(template)): os.readlink(path) for path in template.rglob("*") if path.is_symlink()}
    assert links == {
        "kept": "target",
        "new/a link": "../folder",
        "odd": "two\nlines",
        "old": "caf\N{REPLACEMENT CHARACTER}",
    }
    assert (template / "file").read_text() == "x\n"


@pytest.mark.needs("jq", "patch")
@pytest.mark.parametrize("program", ["patch -p1 -f -d project", "git -C project apply"], ids=["patch", "git"])
def test_new_empty_files_and_permissions_to_execute_are_in_the_patch(
    ask: Ask, server: ModelServer, home: Home, program: str
) -> None:
    template = home.work / "project"
    template.mkdir()
    (template / "kept").touch()
    for name, mode in (("build", 0o644), ("notes", 0o755), ("changed", 0o644), ("gone", 0o755)):
        (template / name).write_text("old\n")
        (template / name).chmod(mode)
    command = (
        "mkdir 'a b' && touch __init__.py \"a b/caf\u00e9's\" && printf x > new && printf x > 'a b/n\u00e9w' "
        "&& chmod +x build new a*/n* && rm gone "
        "&& chmod a-x notes && echo more >> changed && chmod +x changed && printf 'x\\0' > binary && chmod +x binary"
    )
    server.reply(wire.calls(("bash", {"command": command})), wire.says("done"))
    file = write_rows(home.work, *make_rows(1))
    result = ask.process(*COMMAND, file, "--tools", "--workdir-template", "project", "-O", "out.jsonl", timeout=60)
    assert result.code == 0, read_output(home.work / "out.jsonl")
    check = f"{program} {'--check' if program.startswith('git') else '--dry-run'}"
    assert [ask.shell(f"jq -r .patch out.jsonl | {command}").code for command in (check, program)] == [0, 0]
    files = {str(path.relative_to(template)): path for path in template.rglob("*") if path.is_file()}
    executable = {name for name, path in files.items() if os.access(path, os.X_OK)}
    empty = {name for name, path in files.items() if not path.stat().st_size}
    assert executable == {"build", "new", "a b/n\u00e9w", "changed"}
    assert empty == {"kept", "__init__.py", "a b/caf\u00e9's"}
    assert files["changed"].read_text() == "old\nmore\n"
    assert ask.shell(f"jq -r .patch out.jsonl | {program} -R").code == 0
    left = {path.name for path in template.rglob("*") if path.is_file()}
    assert left == {"build", "notes", "changed", "gone", "kept"}


@pytest.mark.slow
@pytest.mark.needs("jq", "patch")
@pytest.mark.parametrize(
    "options",
    [("--safe-files",), ("--workdir-template", ".")],
    ids=["files", "template"],
)
def test_a_patch_has_only_the_changes_of_its_row(
    ask: Ask, server: ModelServer, home: Home, options: tuple[str, ...]
) -> None:
    def change_folder_then_write(request: Request) -> Reply:
        if request.json["messages"][-1]["role"] != "tool":
            (home.work / "doc.txt").write_text("changed by the user\n")
            (home.work / "new.txt").write_text("new\n")
            (home.work / "old.txt").unlink(missing_ok=True)
        return write_file(request)

    server.reply(change_folder_then_write)
    for name in ("doc.txt", "old.txt", "out.jsonl"):
        (home.work / name).write_text("original\n")
    file = write_rows(home.work, *make_rows(4))
    result = ask.process(*COMMAND, file, "-j", "1", "--fresh", "-O", "out.jsonl", "--tools", *options, timeout=60)
    assert result.code == 0, result.stderr
    for number, row in enumerate(read_output(home.work / "out.jsonl")):
        added = [line for line in row["patch"].splitlines() if line.startswith(("-", "+"))]
        assert [line.split("\t")[0] for line in added] == ["--- a/note.txt", "+++ b/note.txt", f"+Say word {number}"]
    applied = ask.shell("jq -r .patch out.jsonl | head -n 5 | patch -p1")
    assert (applied.code, (home.work / "note.txt").read_text()) == (0, "Say word 0\n")


@pytest.mark.slow
def test_rows_with_tools_send_files_of_the_same_name(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(wire.says("done"))
    contents = {folder: f"%PDF-1.4\n{folder * 50}".encode() for folder in ("a", "b")}
    for folder, content in contents.items():
        (home.work / folder).mkdir()
        (home.work / folder / "copies").write_bytes(content)
    files = [word for folder in contents for word in ("-f", f"{folder}/copies")]
    result = ask.process(*COMMAND, write_rows(home.work, *make_rows(1)), "--tools", *files, timeout=60)
    assert result.code == 0, result.stderr
    sent = json.dumps(server.requests[0].json)
    assert [sent.count(b64encode(content).decode()) for content in contents.values()] == [1, 1]


@pytest.mark.slow
def test_copies_leave_out_the_output_file(ask: Ask, server: ModelServer, home: Home) -> None:
    def list_results(request: Request) -> Reply:
        if request.json["messages"][-1]["role"] == "tool":
            return wire.says("done")
        return wire.calls(("list_dir", {"dirpath": "results"}))

    server.reply(list_results)
    folder = home.work / "results"
    folder.mkdir()
    (folder / "other.txt").touch()
    (folder / "out.jsonl").write_text("earlier\n")
    (home.work / "link").symlink_to("results")
    command = (*COMMAND, write_rows(home.work, *make_rows(2)), "-O", "link/out.jsonl", "--tools", "--safe-files")
    result = ask.process(*command, "--fresh", timeout=60)
    assert result.code == 0, result.stderr
    results = [each.json["messages"][-1]["content"] for each in server.requests if len(each.json["messages"]) > 2]
    assert all("other.txt" in text and "out.jsonl" not in text for text in results)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("config", "env"),
    [
        pytest.param("", {"ASK_SAFE": "1"}, marks=[pytest.mark.needs("bwrap"), pytest.mark.slow], id="variable"),
        pytest.param(
            "[safe]\nenabled = true\n", {}, marks=[pytest.mark.needs("bwrap"), pytest.mark.slow], id="enabled"
        ),
        pytest.param('[safe]\nlevel = "files"\n', {}, id="level"),
    ],
)
def test_rows_have_copies_however_safe_mode_is_enabled(
    ask: Ask, server: ModelServer, home: Home, config: str, env: dict[str, str]
) -> None:
    server.reply(write_file)
    home.configure(config)
    file = write_rows(home.work, *make_rows(2))
    before = sorted(home.work.rglob("*"))
    result = ask.process(*COMMAND, file, "--tools", env=env, timeout=60)
    assert result.code == 0, result.stderr
    for number, row in enumerate(parse(result)):
        added = [line for line in row["patch"].splitlines() if line.startswith("+")]
        assert [line.split("\t")[0] for line in added] == ["+++ b/note.txt", f"+Say word {number}"]
    assert sorted(home.work.rglob("*")) == before


def test_safe_mode_without_tools_changes_nothing(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(echo)
    file = write_rows(home.work, *make_rows(2))
    assert ask(*COMMAND, file, "-O", "out.jsonl").code == 0
    result = ask(*COMMAND, file, "-O", "out.jsonl", env={"ASK_SAFE": "1"})
    assert (result.code, len(server.requests)) == (0, 2)
    assert "patch" not in read_output(home.work / "out.jsonl")[0]


@pytest.mark.parametrize(
    "options", [("--safe",), ("--safe-files",), ("--context",), ("--workdir-template", "."), ("--max-rounds", "3")]
)
def test_options_for_tools_need_tools(ask: Ask, server: ModelServer, home: Home, options: tuple[str, ...]) -> None:
    result = ask(*COMMAND, write_rows(home.work, *make_rows(1)), *options)
    assert (result.code, server.requests) == (2, [])
    assert f"{options[0]} needs --tools" in result.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("config", "call", "setting"),
    [
        ("[tools]\nconfirm = true\n", ("write_file", {"filepath": "new.txt", "content": "x"}), "tools.allow"),
        ('[safe]\nlevel = "files"\n', ("fetch_url", {"url": "http://example.org/"}), "safe.allow_hosts"),
        ("", ("bash", {"command": "rm -rf /"}), "dangerous command"),
    ],
    ids=["confirm", "host", "dangerous"],
)
def test_a_call_that_needs_approval_fails_only_its_row(
    ask: Ask, server: ModelServer, home: Home, *, config: str, call: tuple[str, dict[str, Any]], setting: str
) -> None:
    def reply(request: Request) -> Reply:
        messages = request.json["messages"]
        is_first = any(message["content"] == "Say word 0" for message in messages)
        return wire.calls(call) if is_first and messages[-1]["role"] != "tool" else wire.says("done")

    server.reply(reply)
    home.configure(config)
    file = write_rows(home.work, *make_rows(3))
    result = ask.process(*COMMAND, file, "-O", "out.jsonl", "--tools", "-j", "1", timeout=60)
    rows = read_output(home.work / "out.jsonl")
    assert (result.code, [row["answer"] for row in rows]) == (12, ["done", "done", "done"])
    assert setting in rows[0]["error"]
    assert not any(option in result.stderr for option in ("--yes", "--confirm", "--allow-host", "on a terminal"))


HUGE_CHANGES = {
    "text": "yes | head -c 30000000 > big",
    "memory": "yes | head -c 900000000 > big",
    "names": "seq -f %0200g 30000 | xargs touch",
    "sparse": "truncate -s 1000M sparse",
    "pipe": "mkfifo pipe",
    "unreadable": "mkdir closed; echo x > closed/y; chmod 0 closed",
    "deep": 'python3 -c \'import os\nfor _ in range(1_500): os.mkdir("d"); os.chdir("d")\'',
    "forged": "printf '\\0' > \"$(printf 'x\\n+forged')\"",
}


@pytest.mark.slow
@pytest.mark.needs("bwrap")
@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=[pytest.mark.slow] * (kind != "unreadable")) for kind in HUGE_CHANGES],
)
def test_changes_of_any_size_fail_only_their_row(ask: Ask, server: ModelServer, home: Home, kind: str) -> None:
    def reply(request: Request) -> Reply:
        messages = request.json["messages"]
        prompt = next(message["content"] for message in messages if message["role"] == "user")
        if messages[-1]["role"] == "tool":
            return wire.streams(*wire.stream("done"))
        return wire.calls(("bash", {"command": HUGE_CHANGES[kind] if prompt.endswith("1") else "echo small > small"}))

    server.reply(reply)
    (home.work / "project").mkdir()
    file = write_rows(home.work, *make_rows(3))
    command = (*COMMAND, file, "-O", "out.jsonl", "--tools", "--workdir-template", "project", "--safe")
    temporary = home.path / "temporary"
    temporary.mkdir()
    result, peak = ask.measure(*command, timeout=200, env={"TMPDIR": str(temporary)})
    rows = read_output(home.work / "out.jsonl")
    assert ["+small" in (row["patch"] or "") for row in rows] == [True, False, True]
    assert "\n+forged" not in (rows[1]["patch"] or "")
    fails = kind in ("text", "memory", "names", "forged") or (kind == "unreadable" and os.geteuid() != 0)
    assert (result.code, bool(rows[1]["error"])) == (12 if fails else 0, fails)
    assert peak < 1_300_000_000
    assert not [*temporary.iterdir()]


@pytest.mark.slow
def test_a_folder_with_a_pipe_and_deep_folders_is_copied(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(write_file)
    template = home.work / "project"
    template.mkdir()
    os.mkfifo(template / "pipe")
    ask.shell(f"cd project && {HUGE_CHANGES['deep']}")
    command = (*COMMAND, write_rows(home.work, *make_rows(1)), "--tools", "--workdir-template", "project")
    result = ask.process(*command, timeout=60)
    assert result.code == 0, result.stderr
    assert "+Say word 0" in parse(result)[0]["patch"]
    assert ask.shell("rm -r project").code == 0  # too deep for pytest


def test_a_kill_ends_the_commands_of_rows_with_tools(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(wire.calls(("bash", {"command": "echo $$ > pid; exec sleep 100"})))
    pid_file = home.work / "pid"
    with ask.start(*COMMAND, write_rows(home.work, *make_rows(1)), "--tools") as running:
        wait_until(lambda: pid_file.exists() and pid_file.read_text().endswith("\n"))
        command = int(pid_file.read_text())
        assert is_alive(command)
        running.process.kill()
        wait_until(lambda: not is_alive(command))


LEAKING_PROVIDER = """
import os, sys
from ask import ChatCompletions
class Leaking(ChatCompletions):
    def provider_build_request(self, request, key):
        print("out", key)
        print("error", key, file=sys.stderr)
        os.system(f"echo child {key}")
        return super().provider_build_request(request, key)
provider = Leaking(name="leaking", base_url="http://127.0.0.1:9/v1", default_model="m")
"""


@pytest.mark.slow
def test_keys_that_a_plugin_prints_are_redacted(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(echo)
    packages = install_provider(home.path / "packages", "leaking", LEAKING_PROVIDER)
    env = {"PYTHONPATH": str(packages), "LEAKING_API_KEY": TEST_KEY, "LEAKING_BASE_URL": server.base_url}
    file = write_rows(home.work, *make_rows(20))
    for output in ((), ("-O", "out.jsonl")):
        result = ask.process("map", "-p", "leaking", "Say {{text}}", file, *output, env=env)
        assert (result.code, len(result.text.splitlines())) == (0, 0 if output else 20), result.stderr
        assert TEST_KEY not in result.stderr
        assert all(f"{word} [key removed]" in result.stderr for word in ("out", "error", "child")), result.stderr


@pytest.mark.slow
def test_many_requests_at_a_time_exceed_the_default_limit_of_open_files(
    ask: Ask, server: ModelServer, home: Home
) -> None:
    SlowServer(server, 0.5)
    file = write_rows(home.work, *make_rows(60))
    result = ask.shell(f"ulimit -S -n 40; ask map -p openrouter -m m -j 60 'Say {{{{text}}}}' {file}")
    assert (result.code, len(parse(result))) == (0, 60), result.stderr


@pytest.mark.slow
def test_a_named_pipe_is_read_once(ask: Ask, home: Home) -> None:
    os.mkfifo(home.work / "pipe")
    result = ask.shell("printf 'one\ntwo\n' > pipe & ask map -p demo 'Say {{line}}' pipe")
    assert (result.code, len(parse(result))) == (0, 2), result.stderr


@pytest.mark.slow
def test_a_closed_standard_input_is_no_input(ask: Ask) -> None:
    for inputs in ("", "-"):
        result = ask.shell(f"ask map -p demo 'Say {{{{line}}}}' {inputs} <&-")
        assert (result.code, "no input given" in result.stderr) == (2, True), result.stderr


@pytest.mark.slow
@pytest.mark.parametrize("output", ["out.jsonl", "out.csv"])
def test_a_full_disk_leaves_complete_rows(ask: Ask, server: ModelServer, home: Home, output: str) -> None:
    server.reply(echo)
    file = write_rows(home.work, *({"text": f"row {i}", "padding": "p" * 100_000} for i in range(20)))
    # A limit for the size of files fails like a full disk, but needs no file system of its own.
    command = f"ask map -p openrouter -m m -j 8 'Say {{{{text}}}}' {file} -O {output} --report report.html"
    result = ask.shell(f"ulimit -f 1000; trap '' XFSZ; {command}", NO_COMPILED_FILES)
    assert (result.code, f"cannot write {home.work / output}" in result.stderr) == (9, True), result.stderr
    assert ("answered" in result.stderr, "written to" in result.stderr) == (True, False)
    assert "Stopped after" in (home.work / "report.html").read_text()
    written = (home.work / output).read_text() if (home.work / output).exists() else ""
    assert written.endswith("\n") or not written, "rows that are written together may all be missing"
    assert ask.shell(command).code == 0
    assert (home.work / output).read_text().count("SAY ROW") == 20
    assert len(server.requests) == 20, "the answers in flight are saved"


def test_rows_of_a_slow_pipe_are_answered_as_they_arrive(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(echo)
    pipe_end, input_end = os.pipe()
    with ask.start("map", "-p", "openrouter", "-m", "m", "Say {{line}}", stdin=pipe_end) as running:
        os.close(pipe_end)
        with open(input_end, "wb", buffering=0) as source:
            for word in ("one", "two"):
                source.write(f"{word}\n".encode())
                running.wait_for(f"SAY {word.upper()}")
        result = running.finish()
    assert (result.code, len(result.text.splitlines())) == (0, 2)


@pytest.mark.parametrize("is_killed", [False, True])
def test_an_output_that_fresh_did_not_replace_is_still_of_its_job(
    is_killed: bool, ask: Ask, server: ModelServer, home: Home
) -> None:
    server.reply(echo, echo, Reply((HOLD,)) if is_killed else wire.fails(401))
    file = write_rows(home.work, *make_rows(2))
    first, other = ([*COMMAND[:-1], prompt, file, "-O", "out.jsonl"] for prompt in ("Say {{text}}", "Repeat {{text}}"))
    assert ask(*first).code == 0
    rows = (home.work / "out.jsonl").read_bytes()
    with ask.start(*other, "--fresh") as running:
        if is_killed:
            server.wait_for_requests(3)
            running.signal(signal.SIGKILL)
        assert running.finish().code == (-signal.SIGKILL if is_killed else 6)
    assert (home.work / "out.jsonl").read_bytes() == rows
    refused = ask(*other)
    assert (refused.code, "--fresh" in refused.stderr) == (2, True)
    assert ask(*first).code == 0
    assert (home.work / "out.jsonl").read_bytes() == rows


def test_an_output_that_fresh_has_replaced_is_of_the_new_job(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(*[echo] * 6)
    file = write_rows(home.work, *make_rows(2))
    first, other = ([*COMMAND[:-1], prompt, file, "-O", "out.jsonl"] for prompt in ("Say {{text}}", "Repeat {{text}}"))
    assert [ask(*first).code, ask(*other, "--fresh").code, ask(*other).code, ask(*first).code] == [0, 0, 0, 2]
