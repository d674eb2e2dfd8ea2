"""Scenarios: one tool call and an answer based on its result."""

from __future__ import annotations

import json
import platform

from tests import wire
from tests.model_server import ModelServer, Reply
from tests.program import Ask
from tests.scenarios.sent_requests import check_sent_requests, list_roles, read_tool_results


def test_files_are_listed_with_type_and_size(ask: Ask, server: ModelServer) -> None:
    (ask.cwd / "notes.txt").write_text("twelve bytes")
    (ask.cwd / "src").mkdir()
    server.reply(wire.calls(("list_dir", {"dirpath": "."})), wire.says("A folder and a file of 12 bytes."))
    result = ask("What files are here?")
    assert (result.text, result.code) == ("A folder and a file of 12 bytes.\n", 0)
    assert result.stderr == "· list .\n"
    assert read_tool_results(check_sent_requests(server)[1]) == ["file 12 notes.txt\ndir src"]


def test_file_content_is_returned_under_the_id_of_the_call(ask: Ask, server: ModelServer) -> None:
    (ask.cwd / "config.json").write_text('{"port": 8080}\n')
    server.reply(wire.calls(("read_file", {"filepath": "config.json"})), wire.says("The port is 8080."))
    result = ask("What is in config.json?")
    assert (result.text, result.code) == ("The port is 8080.\n", 0)
    first, second = check_sent_requests(server)
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


def test_file_content_is_returned_without_streaming(ask: Ask, server: ModelServer) -> None:
    (ask.cwd / "config.json").write_text('{"port": 8080}\n')
    server.reply(
        wire.calls(("read_file", {"filepath": "config.json"}), whole=True), wire.says("The port is 8080.", whole=True)
    )
    result = ask("--no-stream", "What is in config.json?")
    assert (result.text, result.code) == ("The port is 8080.\n", 0)
    first, second = check_sent_requests(server)
    assert "stream" not in first
    assert list_roles(second) == ["system", "user", "assistant", "tool"]
    assert read_tool_results(second) == ['{"port": 8080}\n']


def test_arguments_can_be_split_anywhere(ask: Ask, server: ModelServer) -> None:
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
    second = check_sent_requests(server)[1]
    assert second["messages"][2]["tool_calls"][0]["function"]["arguments"] == arguments
    assert read_tool_results(second) == ["all: größe\n"]


def test_surrogate_pairs_in_arguments_can_be_split(ask: Ask, server: ModelServer) -> None:
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
    assert len(check_sent_requests(server)) == 2


def test_stdout_stderr_and_exit_code_of_a_command_are_returned(ask: Ask, server: ModelServer) -> None:
    server.reply(
        wire.calls(("bash", {"command": "uname -s; echo oops >&2; exit 3"})), wire.says("It runs on this kernel.")
    )
    result = ask("Which OS is this?")
    assert (result.text, result.code) == ("It runs on this kernel.\n", 0)
    [tool_result] = read_tool_results(check_sent_requests(server)[1])
    assert tool_result.startswith("exit code: 3\n")
    assert platform.system() in tool_result
    assert "oops" in tool_result
    assert (
        tool_result.index("stdout")
        < tool_result.index(platform.system())
        < tool_result.index("stderr")
        < tool_result.index("oops")
    )


def test_writing_a_file_creates_missing_folders(ask: Ask, server: ModelServer) -> None:
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
    assert read_tool_results(check_sent_requests(server)[1]) == [
        "created test.txt: 11 bytes",
        "created new/deep/test.txt: 12 bytes",
    ]


def test_a_missing_file_is_reported_to_the_model(ask: Ask, server: ModelServer) -> None:
    (ask.cwd / "that-does-exist.txt").touch()
    server.reply(
        wire.calls(("read_file", {"filepath": "that-does-not-exist.txt"})), wire.says("There is no such file.")
    )
    result = ask("Read that-does-not-exist.txt.")
    assert (result.text, result.code) == ("There is no such file.\n", 0)
    [tool_result] = read_tool_results(check_sent_requests(server)[1])
    assert tool_result.startswith("Error: ")
    assert "that-does-not-exist.txt" in tool_result
    assert "that-does-exist.txt" in tool_result
    assert str(ask.cwd) not in tool_result
