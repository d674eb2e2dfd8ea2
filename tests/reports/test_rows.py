"""Reports about rows of `ask map`: one that is odd fails alone."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ask.text import repair_surrogates
from tests import wire
from tests.model_server import ModelServer, Reply
from tests.program import Ask, Home


@pytest.fixture
def demo(home: Home) -> Ask:
    return Ask({**home.env, "ASK_PROVIDER": "demo"}, home.work)


def map_rows(demo: Ask, name: str, data: bytes, code: int = 12) -> list[dict[str, Any]]:
    """Run a job over a file with these bytes, and return the rows of its output."""
    (demo.cwd / name).write_bytes(data)
    result = demo("map", "say {{q}}", name, "-O", "out.jsonl")
    assert result.code == code, result.stderr
    return [json.loads(line) for line in (demo.cwd / "out.jsonl").read_text().splitlines()]


# https://github.com/ray-project/ray/issues/59194: one bad row fails the whole job, after hours
# https://github.com/BerriAI/litellm/pull/37457: one bad line of a batch, and the costs of the others are lost
@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b'{"q": "\xff"}',
        b"null",
        b"[1]",
        b'{"other": 1}',
        b'{"q": "x"} trailing',
        b"[" * 100_000,
        b'{"q": ' + b"9" * 6_000 + b"}",
    ],
)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_one_bad_line_of_jsonl_fails_alone(line: bytes, place: int, demo: Ask) -> None:
    lines = [b'{"q": "a"}', b'{"q": "b"}']
    lines.insert(place, line)
    rows = map_rows(demo, "rows.jsonl", b"\n".join(lines))
    assert [bool(row["error"]) for row in rows] == [index == place for index in range(3)]
    assert f"rows.jsonl:{place + 1}" in rows[place]["error"]


# https://github.com/openai/codex/issues/28139: a file that begins with a byte order mark cannot be read
def test_a_byte_order_mark_within_joined_files_is_no_error(demo: Ask) -> None:
    rows = map_rows(demo, "rows.jsonl", b'\xef\xbb\xbf{"q": "a"}\n\xef\xbb\xbf{"q": "b"}\n', code=0)
    assert [row["q"] for row in rows] == ["a", "b"]


@pytest.mark.parametrize(
    "line",
    [
        b'{"q": NaN}',
        b'{"q": 1e999}',
        b'{"q": "\\ud800"}',
        b'{"q": "\\u0000"}',
        b'{"q": 1, "q": 2}',
        b'{"q": {"x": [1, {"y": null}]}}',
        b'\r{"q": 1}\r',
        b'{"q": "' + b"x" * 300_000 + b'"}',
    ],
)
def test_an_odd_value_is_answered_like_the_others(line: bytes, demo: Ask) -> None:
    rows = map_rows(demo, "rows.jsonl", b'{"q": "a"}\n' + line + b"\n\n  \n" + b'{"q": "b"}', code=0)
    assert [row["error"] for row in rows] == [None, None, None]


# https://github.com/anthropics/claude-code/issues/3277: half of an emoji, and the service refuses the request
# https://github.com/elizaOS/eliza/pull/18079: the same with other services
@pytest.mark.parametrize("service", ["openrouter", "anthropic"])
def test_a_lone_surrogate_is_not_sent(service: str, ask: Ask, server: ModelServer) -> None:
    server.reply(Reply(status=500))
    (ask.cwd / "rows.jsonl").write_text('{"q": "cut \\ud83d"}\n')
    schema = '{"properties": {"a": {"enum": ["\\udc00"]}}}'
    ask("map", "-p", service, "-m", "test", "--schema", schema, "say {{q}}", "rows.jsonl")
    event = '{"type": "message", "text": "cut \\ud83d"}\n'
    ask("-p", service, "-m", "test", "--input-events", stdin=event.encode())
    bodies = [request.json for request in server.requests]
    assert any("cut \ufffd" in text for text in wire.list_strings(bodies))
    assert all(text == repair_surrogates(text) for text in wire.list_strings(bodies))


# https://github.com/arnaudroger/SimpleFlatMapper/issues/692: one quote, and the next rows are part of its field
@pytest.mark.parametrize("line", ["3", "3,x,y", '3,"un"quoted"', "3,\udcff"])
def test_one_bad_line_of_csv_fails_alone(line: str, demo: Ask) -> None:
    text = f'id,q\n1,a\n2,"two\nlines"\n{line}\n\n4,"b, c"\n'
    rows = map_rows(demo, "rows.csv", text.encode(errors="surrogateescape"))
    assert [(row.get("id"), bool(row["error"])) for row in rows][:2] == [("1", False), ("2", False)]
    assert [(row.get("id"), bool(row["error"])) for row in rows][-2:] == [("3", True), ("4", False)]


# https://github.com/Aider-AI/aider/pull/5223, https://github.com/notatallshaw/nab/pull/1004: a link to itself
def test_an_output_that_is_a_link_to_itself_is_an_error_with_its_name(demo: Ask) -> None:
    (demo.cwd / "loop.jsonl").symlink_to("loop.jsonl")
    (demo.cwd / "rows.txt").write_text("a\n")
    for arguments in (["rows.txt", "-O", "loop.jsonl"], ["loop.jsonl", "-O", "out.jsonl"]):
        result = demo("map", "say", *arguments)
        assert (result.code, "loop.jsonl" in result.stderr) == (9, True), result.stderr
    assert (demo.cwd / "loop.jsonl").is_symlink()
