"""`ask map` on tables that other programs have written."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests import wire
from tests.model_server import ModelServer
from tests.program import Ask, Home, Result

COMMAND = ("map", "-p", "openrouter", "-m", "vendor/model")


@pytest.fixture(autouse=True)
def answers(server: ModelServer) -> None:
    server.reply(lambda request: wire.whole_reply(wire.answer(request.json["messages"][-1]["content"])))


def get_answers(result: Result) -> list[Any]:
    assert result.code == 0, result.stderr
    return [json.loads(line)["answer"] for line in result.text.splitlines()]


def write(folder: Path, name: str, content: str, encoding: str = "utf-8") -> str:
    (folder / name).write_bytes(content.encode(encoding))
    return name


def test_another_encoding_is_an_error_before_anything_is_sent(ask: Ask, home: Home, server: ModelServer) -> None:
    names = write(home.work, "first.csv", "name\nMeier\n"), write(home.work, "second.csv", "name\nMüller\n", "cp1252")
    result = ask(*COMMAND, "Say {{name}}", *names)
    assert (result.code, "second.csv" in result.stderr, "--encoding cp1252" in result.stderr) == (2, True, True)
    assert server.requests == []
    assert get_answers(ask(*COMMAND, "Say {{name}}", "--encoding", "cp1252", *names)) == ["Say Meier", "Say Müller"]
    result = ask(*COMMAND, "Say {{name}}", "--input-format", "csv", stdin="name\nMüller\n".encode("cp1252"))
    assert (result.code, "stdin is not UTF-8" in result.stderr) == (2, True)


def test_a_file_in_another_encoding_or_format_has_the_same_rows(ask: Ask, home: Home, server: ModelServer) -> None:
    command = (*COMMAND, "Say {{name}}", "-O", "out.jsonl")
    assert ask(*command, write(home.work, "a.csv", "id,name\n1,Müller\n")).code == 0
    for arguments in (
        ["--encoding", "latin-1", write(home.work, "latin.csv", "id,name\n1,Müller\n", "latin-1")],
        [write(home.work, "wide.csv", "id\tname\n1\tMüller\n", "utf-16")],
        ["--delimiter", "^", write(home.work, "caret.csv", "id^name\n1^Müller\n")],
        [write(home.work, "array.json", '[{"name": "M\\u00fcller"}]')],
    ):
        result = ask(*command, *arguments)
        assert (result.code, "1 earlier" in result.stderr) == (0, True), result.stderr
    (home.work / "b.csv.gz").write_bytes(gzip.compress("name;x\nMüller;\n".encode()))
    assert ask(*command, "b.csv.gz").code == 0
    assert len(server.requests) == 1


def test_a_json_file_is_a_table_unless_the_prompt_needs_its_path(ask: Ask, home: Home) -> None:
    name = write(home.work, "a.json", '[{"x": 1}, {"x": 2}]')
    assert get_answers(ask(*COMMAND, "Say {{x}}", name)) == ["Say 1", "Say 2"]
    assert get_answers(ask(*COMMAND, "Read {{path}}", name)) == ["Read a.json"]
    assert get_answers(
        ask(*COMMAND, "{{path}}", "--input-format", "json", write(home.work, "b.json", '{"path": "p"}'))
    ) == ["p"]
    home.config.mkdir(exist_ok=True)
    (home.config / "templates").mkdir()
    (home.config / "templates" / "twice.md").write_text("Twice {{x}}")
    assert get_answers(ask(*COMMAND, "-t", "twice", name)) == ["Twice 1", "Twice 2"]


@pytest.mark.parametrize(
    ("name", "content"), [("a.jsonl", '{"path": "../key", "id": "1"}'), ("a.csv", "path,id\n../key,1\n")]
)
@pytest.mark.parametrize("prompt", ["Sort:", "Sort: {{input}}"])
def test_a_column_named_path_makes_no_row_a_file(ask: Ask, home: Home, prompt: str, name: str, content: str) -> None:
    (home.path / "key").write_text("the content of another file")
    [answer] = get_answers(ask(*COMMAND, prompt, write(home.work, name, content)))
    assert answer.split(maxsplit=1) == ["Sort:", '{"path": "../key", "id": "1"}']
    [answer] = get_answers(ask(*COMMAND, prompt, "--files", "../key"))
    assert "the content of another file" in answer


def test_a_prompt_may_be_longer_than_the_name_of_a_file(ask: Ask, home: Home) -> None:
    assert get_answers(ask(*COMMAND, f"{'Say it. ' * 999}{{{{a}}}}", write(home.work, "a.csv", "a\n1\n")))


def test_a_detected_delimiter_is_one_notice(ask: Ask, home: Home) -> None:
    result = ask(*COMMAND, "Say {{b}}", write(home.work, "a.csv", "a;b\n1;2\n"))
    assert (get_answers(result), result.stderr.count("semicolons")) == (["Say 2"], 1)
    result = ask(*COMMAND, "-q", "Say {{b}}", "a.csv")
    assert "semicolons" not in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--encoding", "utf8x", "a.csv"], "did you mean utf8"),
        (["--encoding", "base64", "a.csv"], "--encoding does not know 'base64'"),
        (["--encoding", "", "a.csv"], "does not know"),
        (["--encoding", "a\0b", "a.csv"], "does not know"),
        (["--encoding", "cp1252", "--files", "a.csv"], "--encoding"),
        (["--delimiter", ";;", "a.csv"], "one character"),
        (["--delimiter", '"', "a.csv"], "one character"),
        (["--delimiter", "", "a.csv"], "one character"),
        (["--delimiter", ";", "a.txt"], "--input-format csv"),
        (["--columns", "a\nanswer", "a.csv"], "--columns"),
        (["--columns", "", "a.csv"], "--columns"),
    ],
)
def test_options_that_cannot_be_used_are_errors(ask: Ask, home: Home, arguments: list[str], message: str) -> None:
    write(home.work, "a.csv", "a,b\n1,2\n")
    write(home.work, "a.txt", "a,b\n1,2\n")
    result = ask(*COMMAND, "Say {{a}}", *arguments)
    assert (result.code, message in result.stderr) == (2, True), result.stderr


@pytest.mark.slow
def test_an_unknown_column_of_a_wide_table_is_a_short_error(ask: Ask, home: Home) -> None:
    names = ",".join(f"c{number}" for number in range(10_000))
    file = write(home.work, "a.csv", f"{names}\n{names}\n")
    for arguments in (["Say {{x}}", file], ["Say {{c1}}", file, "--columns", "x"]):
        result = ask(*COMMAND, *arguments)
        assert (result.code, len(result.stderr) < 500) == (2, True), result.stderr[:1000]


@pytest.mark.parametrize(
    ("prompt", "hint"), [("Say {name}", "{{name}}"), ("Say ${name}", "{{name}}"), ("@prompt.txt", "cat prompt.txt")]
)
def test_a_prompt_in_the_notation_of_other_programs_is_not_sent(
    ask: Ask, home: Home, server: ModelServer, prompt: str, hint: str
) -> None:
    result = ask(*COMMAND, prompt, write(home.work, "a.csv", "name\nMeier\n"))
    assert (result.code, hint in result.stderr, server.requests) == (2, True, []), result.stderr
    for kept in ('Answer as {"name": "..."} or {other}', r"Replace \textbf{name} and \{{name}} by **name**"):
        assert ask(*COMMAND, kept, "a.csv").code == 0, kept


def test_an_input_without_a_valid_row_is_the_reason_for_a_missing_column(ask: Ask, home: Home) -> None:
    file = write(home.work, "a.jsonl", "{'text': 'a'}\n{'text': 'b'}\n")
    result = ask(*COMMAND, "Say {{text}}", file, "--columns", "text,answer")
    assert (result.code, "a.jsonl:" in result.stderr, "not JSON" in result.stderr) == (2, True, True), result.stderr


def test_a_pdf_on_stdin_is_to_be_named(ask: Ask, server: ModelServer) -> None:
    result = ask(*COMMAND, "Summarize", stdin=b"%PDF-1.4\n1 0 obj\n")
    assert (result.code, "--files FILE" in result.stderr, server.requests) == (9, True, []), result.stderr


def test_a_named_pipe_is_not_replaced_by_the_output(ask: Ask, home: Home, server: ModelServer) -> None:
    os.mkfifo(home.work / "out.jsonl")
    result = ask(*COMMAND, "Say {{a}}", write(home.work, "a.csv", "a\n1\n"), "-O", "out.jsonl")
    assert (result.code, (home.work / "out.jsonl").is_fifo()) == (9, True), result.stderr
    assert server.requests == []


@pytest.mark.parametrize("name", ["tab", "\\t", "\t"])
def test_a_tab_can_be_named(ask: Ask, home: Home, name: str) -> None:
    write(home.work, "a.txt", "a b\tb\n1\t2\n")
    assert get_answers(ask(*COMMAND, "--input-format", "csv", "--delimiter", name, "Say {{b}}", "a.txt")) == ["Say 2"]
