"""`ask chat` without a terminal: one message per line, only answers on standard output."""

from __future__ import annotations

import json
import os

import pytest

from tests import wire
from tests.cli.chat.chat_session import answer_with_last_words, read_last_conversation
from tests.model_server import HOLD, ModelServer, Reply
from tests.program import Ask, Home
from tests.saved_history import read_saved_runs


def test_each_line_is_a_message_of_one_conversation(ask: Ask, server: ModelServer, home: Home) -> None:
    answer_with_last_words(server)
    result = ask("chat", stdin=b"one\n\n  two  \r\nlast")
    assert (result.text, result.code) == ("Answer to one.\nAnswer to two.\nAnswer to last.\n", 0)
    assert result.stderr == ""
    assert result.conversation
    assert read_last_conversation(server) == ["one", "Answer to one.", "two", "Answer to two.", "last"]
    assert len(read_saved_runs(home)) == 3
    ask("-c", "more")
    assert len(read_last_conversation(server)) == 7


def test_each_line_is_answered_before_the_next_is_read(ask: Ask, server: ModelServer) -> None:
    answer_with_last_words(server)
    ours, its = os.pipe()
    with ask.start("chat", stdin=ours) as running:
        os.close(ours)
        for word in ("one", "two"):
            os.write(its, f"{word}\n".encode())
            running.wait_for(f"Answer to {word}.")
        os.close(its)
        assert running.finish().code == 0


def test_piped_lines_are_never_commands(ask: Ask, server: ModelServer) -> None:
    answer_with_last_words(server)
    ask("chat", stdin=b"/clear\n//x\n/save stolen\n")
    assert read_last_conversation(server)[::2] == ["/clear", "//x", "/save stolen"]
    assert not (ask.cwd / "stolen").exists()


@pytest.mark.parametrize("word", ["exit", "quit", "/exit"])
def test_exit_words_end_the_chat(ask: Ask, server: ModelServer, word: str) -> None:
    answer_with_last_words(server)
    assert ask("chat", stdin=f"one\n{word}\ntwo\n".encode()).text == "Answer to one.\n"


def test_the_exit_code_is_that_of_the_last_failure(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("Cut.", finish="length"), wire.says("One."), wire.fails(400, "refused"), wire.says("Two."))
    result = ask("chat", "-q", stdin=b"a\nb\nc\nd\n")
    assert (result.text, result.code) == ("Cut.\nOne.\nTwo.\n", 6)
    cut, refused = result.stderr.splitlines()
    assert "token" in cut
    assert "refused (openrouter, 400)" in refused


def test_empty_input_sends_no_request(ask: Ask, server: ModelServer) -> None:
    result = ask("chat")
    assert (result.text, result.stderr, result.code) == ("", "", 0)
    assert server.requests == []


def test_binary_and_overlong_lines_are_errors(ask: Ask, server: ModelServer, home: Home) -> None:
    answer_with_last_words(server)
    assert ask("chat", stdin=b"one\n\0\ntwo\n").code == 9
    home.configure("stdin_limit = 10\n")
    assert ask("chat", stdin=b"0123456789\n").code == 9
    assert ask("chat", stdin=b"012345678\n").code == 0


def test_sigint_ends_the_chat(ask: Ask, server: ModelServer) -> None:
    server.reply(Reply([wire.event(wire.text("So far")), HOLD], content_type="text/event-stream"))
    with ask.start("chat", stdin=b"one\ntwo\n") as running:
        running.wait_for("So far")
        running.signal()
        result = running.finish()
    assert (result.text, result.code) == ("So far\n", 130)
    assert len(server.requests) == 1


def test_a_closed_output_pipe_ends_the_chat_quietly(ask: Ask, server: ModelServer) -> None:
    answer_with_last_words(server)
    result = ask.shell("seq 100 | ask chat -q | head -1; echo ${PIPESTATUS[1]}")
    assert (result.text, result.stderr) == ("Answer to 1.\n0\n", "")
    assert len(server.requests) < 100


def test_json_prints_an_object_for_each_message(ask: Ask, server: ModelServer) -> None:
    answer_with_last_words(server)
    result = ask("chat", "--json", stdin=b"one\ntwo\n")
    objects = [json.loads(line) for line in result.text.splitlines()]
    assert [one["text"] for one in objects] == ["Answer to one.", "Answer to two."]
    assert {one["conversation"] for one in objects} == {result.conversation}
    assert all(one["saved"] for one in objects)


@pytest.mark.parametrize("option", ["--cmd", "--code", "--no-stdin", "--version"])
def test_options_without_meaning_in_a_chat_are_rejected(ask: Ask, option: str) -> None:
    result = ask("chat", option)
    assert result.code == 2
    assert option in result.stderr
