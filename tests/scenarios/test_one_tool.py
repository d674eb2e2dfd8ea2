"""Scenarios: one tool call, and an answer that rests on its result."""

from __future__ import annotations

import json
import platform

from tests import wire
from tests.model_server import ModelServer, Reply
from tests.program import Ask
from tests.scenarios.sent import results, roles, sent


def test_s05_the_files_here_are_listed_with_type_and_size(ask: Ask, server: ModelServer) -> None:
    (ask.cwd / "notes.txt").write_text("twelve bytes")
    (ask.cwd / "src").mkdir()
    server.reply(wire.calls(("list_dir", {"dirpath": "."})), wire.says("A folder and a file of 12 bytes."))
    result = ask("What files are here?")
    assert (result.text, result.code) == ("A folder and a file of 12 bytes.\n", 0)
    assert result.stderr == '· list_dir {"dirpath": "."}\n'
    assert results(sent(server)[1]) == ["file 12 notes.txt\ndir src"]


def test_s06_a_files_content_comes_back_under_the_calls_id(ask: Ask, server: ModelServer) -> None:
    (ask.cwd / "config.json").write_text('{"port": 8080}\n')
    server.reply(wire.calls(("read_file", {"filepath": "config.json"})), wire.says("The port is 8080."))
    result = ask("What is in config.json?")
    assert (result.text, result.code) == ("The port is 8080.\n", 0)
    first, second = sent(server)
    assert second["messages"][:2] == first["messages"]
    assert second["messages"][2:] == [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "call_0",
                    "type": "function",
                    "function": {"name": "read_file", "arguments": '{"filepath": "config.json"}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "call_0", "content": '{"port": 8080}\n'},
    ]
    assert {key: second[key] for key in second if key != "messages"} == {
        key: first[key] for key in first if key != "messages"
    }
    assert [request.connection for request in server.requests] == [1, 1]


def test_s06_the_same_without_streaming(ask: Ask, server: ModelServer) -> None:
    (ask.cwd / "config.json").write_text('{"port": 8080}\n')
    server.reply(
        wire.calls(("read_file", {"filepath": "config.json"}), whole=True), wire.says("The port is 8080.", whole=True)
    )
    result = ask("--no-stream", "What is in config.json?")
    assert (result.text, result.code) == ("The port is 8080.\n", 0)
    first, second = sent(server)
    assert "stream" not in first
    assert roles(second) == ["system", "user", "assistant", "tool"]
    assert results(second) == ['{"port": 8080}\n']


def test_s07_arguments_may_be_split_anywhere(ask: Ask, server: ModelServer) -> None:
    name = 'Make "ü" file\\1'
    (ask.cwd / name).write_text("all: größe\n")
    arguments = json.dumps({"filepath": name}, ensure_ascii=False)
    middle = arguments.index('\\"') + 1
    assert arguments[middle - 1 : middle + 1] == '\\"'
    chunks = [
        wire.call(0, id="call_a", name="read_file", arguments=""),
        wire.call(0, arguments=arguments[:middle]),
        wire.call(0, id="", arguments=arguments[middle:-4]),
        *(wire.call(0, arguments=letter) for letter in arguments[-4:]),
        wire.finish("tool_calls"),
    ]
    stream = wire.sse(*chunks)
    inside = stream.index("ü".encode()) + 1
    server.reply(
        Reply((stream[:inside], 0.05, stream[inside:]), content_type="text/event-stream"),
        Reply(wire.chop(wire.sse(*wire.stream("Es baut die Größe.")), 7), content_type="text/event-stream"),
    )
    result = ask("What is in the Makefile?")
    assert (result.text, result.code) == ("Es baut die Größe.\n", 0)
    second = sent(server)[1]
    assert second["messages"][2]["tool_calls"][0]["function"]["arguments"] == arguments
    assert results(second) == ["all: größe\n"]


def test_s07_a_character_may_be_escaped_in_two_halves(ask: Ask, server: ModelServer) -> None:
    server.reply(
        wire.streams(
            wire.call(0, id="call_a", name="write_file", arguments='{"filepath": "f", "content": "\\ud83d'),
            wire.call(0, arguments='\\ude00"}'),
            wire.finish("tool_calls"),
        ),
        wire.says("Done."),
    )
    assert ask("Write a smile.").code == 0
    assert (ask.cwd / "f").read_text() == "😀"
    assert len(sent(server)) == 2


def test_s08_a_commands_output_errors_and_exit_code_come_back(ask: Ask, server: ModelServer) -> None:
    server.reply(
        wire.calls(("bash", {"command": "uname -s; echo oops >&2; exit 3"})), wire.says("It runs on this kernel.")
    )
    result = ask("Which OS is this?")
    assert (result.text, result.code) == ("It runs on this kernel.\n", 0)
    [said] = results(sent(server)[1])
    assert said.startswith("exit code: 3\n")
    assert platform.system() in said
    assert "oops" in said
    assert said.index("stdout") < said.index(platform.system()) < said.index("stderr") < said.index("oops")


def test_s09_a_file_is_written_into_a_folder_that_was_missing(ask: Ask, server: ModelServer) -> None:
    server.reply(
        wire.calls(
            ("write_file", {"filepath": "test.txt", "content": "Hello World"}),
            ("write_file", {"filepath": "new/deep/test.txt", "content": "Hello World\n"}),
        ),
        wire.says("Both are written."),
    )
    result = ask("Create test.txt with Hello World.")
    assert (result.text, result.code) == ("Both are written.\n", 0)
    assert (ask.cwd / "test.txt").read_text() == "Hello World"
    assert (ask.cwd / "new/deep/test.txt").read_text() == "Hello World\n"
    assert results(sent(server)[1]) == ["created test.txt: 11 bytes", "created new/deep/test.txt: 12 bytes"]


def test_s10_the_model_is_told_that_a_file_is_missing(ask: Ask, server: ModelServer) -> None:
    (ask.cwd / "that-does-exist.txt").touch()
    server.reply(
        wire.calls(("read_file", {"filepath": "that-does-not-exist.txt"})), wire.says("There is no such file.")
    )
    result = ask("Read that-does-not-exist.txt.")
    assert (result.text, result.code) == ("There is no such file.\n", 0)
    [said] = results(sent(server)[1])
    assert said.startswith("Error: ")
    assert "that-does-not-exist.txt" in said
    assert "that-does-exist.txt" in said
    assert str(ask.cwd) not in said
