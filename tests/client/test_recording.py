"""Recording requests and answers, and replaying them without a network."""

from __future__ import annotations

import json
import os
import socket
import stat
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests import wire
from tests.model_server import ModelServer, Reply
from tests.program import TEST_KEY, Ask, Home, Result, run

FILE = "answers.jsonl"
UNRECORDED = 13


@pytest.fixture
def replay(home: Home) -> Ask:
    """`ask` with a recording and without a key; its provider's address refuses connections."""
    env = {**home.env, "ASK_REPLAY": str(home.work / FILE), "OPENROUTER_BASE_URL": "http://127.0.0.1:1/v1"}
    return Ask(env, home.work)


def record(ask: Ask, *arguments: str, **env: str) -> Result:
    return ask(*arguments, env={"ASK_RECORD": str(ask.cwd / FILE), **env})


def read_records(home: Home) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (home.work / FILE).read_text().splitlines()]


def parse(result: Result) -> dict[str, Any]:
    """Return the JSON of a run, without what differs from run to run."""
    value: dict[str, Any] = json.loads(result.stdout)
    return {name: field for name, field in value.items() if name not in ("conversation", "seconds")}


def test_a_recorded_answer_is_replayed_without_key_or_network(
    ask: Ask, replay: Ask, home: Home, server: ModelServer
) -> None:
    server.reply(wire.says("Hello, world: two  words."))
    recorded = ask("--record", FILE, "--json", "hi")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        address = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        replayed = replay("--json", "hi", env={"OPENROUTER_BASE_URL": address})
        with pytest.raises(BlockingIOError):
            listener.accept()
    assert replayed.code == recorded.code == 0
    assert parse(replayed) == parse(recorded)
    assert len(server.requests) == 1


def test_a_recording_has_no_secrets_and_the_permissions_of_the_umask(ask: Ask, home: Home, server: ModelServer) -> None:
    token = "ghp-0123456789abcdef"
    (home.work / "notes").write_text(f"{TEST_KEY} {token}")
    server.reply(
        wire.calls(("read_file", {"filepath": "notes"}), ("bash", {"command": f"echo {TEST_KEY}"})),
        wire.says(f"The key is {TEST_KEY}, the token {token}."),
    )
    options = ["-s", f"Never print {token}", "-o", f"user={TEST_KEY}", f"what is {TEST_KEY}?"]
    assert record(ask, *options, GITHUB_TOKEN=token).code == 0
    server.reply(wire.whole_reply(wire.error(f"bad key {TEST_KEY}", 401), 401))
    assert record(ask, "fail").code == 6
    text = (home.work / FILE).read_text()
    assert len(text.splitlines()) == 3
    assert TEST_KEY not in text
    assert token not in text
    assert stat.S_IMODE((home.work / FILE).stat().st_mode) == 0o644


def test_compare_records_with_the_option(ask: Ask, replay: Ask, server: ModelServer) -> None:
    server.reply(wire.says("one"), wire.says("two"))
    command = ("compare", "-m", "v/a", "-m", "v/b", "hi")
    recorded = ask(*command, "--record", FILE)
    replayed = replay(*command)
    assert recorded.code == replayed.code == 0, replayed.stderr
    first, second = (json.loads(result.text)["answers"] for result in (recorded, replayed))
    assert [answer["text"] for answer in first] == [answer["text"] for answer in second]


@pytest.mark.slow
@pytest.mark.parametrize("tools", [(), ("--tools",), ("--tools", "--safe-files")], ids=["plain", "tools", "copies"])
@pytest.mark.parametrize("how", ["option", "variable"])
def test_rows_are_recorded(
    ask: Ask, replay: Ask, home: Home, server: ModelServer, *, tools: tuple[str, ...], how: str
) -> None:
    server.reply(lambda request: wire.says(request.json["messages"][-1]["content"].upper()))
    (home.work / "rows.txt").write_text("".join(f"row {number}\n" for number in range(4)))
    command = ("map", "-m", "v/a", "Say {{line}}", "rows.txt", *tools)
    options = ("--record", FILE) if how == "option" else ()
    env = {} if options else {"ASK_RECORD": FILE}
    recorded = ask.process(*command, "-j", "4", *options, env=env, timeout=120)
    assert recorded.code == 0, recorded.stderr
    assert len(read_records(home)) == len(server.requests) == 4
    replayed = replay.process(*command, "--fresh", timeout=120)
    assert replayed.code == 0, replayed.stderr
    assert [json.loads(line)["answer"] for line in replayed.text.splitlines()] == [
        f"SAY ROW {number}" for number in range(4)
    ]


def test_a_batch_is_not_recorded(ask: Ask, home: Home, server: ModelServer) -> None:
    (home.work / "rows.txt").write_text("a\n")
    result = ask("map", "--batch", "-m", "v/a", "Say {{line}}", "rows.txt", "--record", FILE)
    assert (result.code, server.requests) == (2, [])
    assert "--record" in result.stderr


def test_a_stream_is_replayed_as_a_stream(ask: Ask, replay: Ask, server: ModelServer) -> None:
    answer = "One two\n\n  three."
    server.reply(wire.says(answer))
    record(ask, "hi")
    events = [json.loads(line) for line in replay("--events", "hi").stdout.splitlines()]
    pieces = [event["text"] for event in events if event["type"] == "text"]
    assert len(pieces) > 1
    assert "".join(pieces) == answer


def test_tools_really_run_when_their_calls_are_replayed(ask: Ask, replay: Ask, home: Home, server: ModelServer) -> None:
    server.reply(
        wire.calls(("write_file", {"filepath": "new.txt", "content": "written"}), ("bash", {"command": "cat new.txt"})),
        wire.says("Done."),
    )
    assert record(ask, "write").text == "Done.\n"
    (home.work / "new.txt").unlink()
    assert replay("write").text == "Done.\n"
    assert (home.work / "new.txt").read_text() == "written"


def test_a_tool_result_that_differs_is_not_recorded(ask: Ask, replay: Ask, home: Home, server: ModelServer) -> None:
    (home.work / "count").write_text("41")
    server.reply(wire.calls(("bash", {"command": "cat count"})), wire.says("41"))
    record(ask, "how many?")
    (home.work / "count").write_text("42")
    result = replay("how many?")
    assert result.code == UNRECORDED
    assert "messages[2].content" in result.stderr


def test_another_folder_and_date_make_no_difference(ask: Ask, replay: Ask, home: Home, server: ModelServer) -> None:
    (home.work / "a.txt").write_text("text")
    path = str(home.work / "a.txt")
    server.reply(wire.calls(("read_file", {"filepath": path}), ("bash", {"command": "pwd"})), wire.says(f"See {path}."))
    assert record(ask, f"read {path}").text == f"See {path}.\n"
    other = home.path / "other checkout"
    other.mkdir()
    (other / "a.txt").write_text("text")
    result = Ask(replay.env, other)(f"read {other}/a.txt", env={"SHELL": "/bin/other"})
    assert result.text == f"See {other}/a.txt.\n"
    assert str(home.work) not in (home.work / FILE).read_text()


def test_a_long_tool_result_is_matched_in_spite_of_its_file_name(ask: Ask, replay: Ask, server: ModelServer) -> None:
    server.reply(wire.calls(("bash", {"command": "seq 100000"})), wire.says("Many."))
    assert record(ask, "count").text == "Many.\n"
    assert replay("count").text == "Many.\n"


@pytest.mark.parametrize(
    ("recorded", "asked", "field"),
    [
        (["hi there"], ["hi here"], "messages[0].content"),
        (["-m", "vendor/a", "hi"], ["-m", "vendor/b", "hi"], "model"),
        (["-p", "openrouter", "hi"], ["-p", "openai", "hi"], "provider"),
        (["-o", "temperature=0.1", "hi"], ["-o", "temperature=0.2", "hi"], "options.temperature"),
        (["-s", "Be brief.", "hi"], ["-s", "Be verbose.", "hi"], "system"),
        (["hi"], ["--no-tools", "hi"], "missing tools are"),
        (["--disable-tool", "bash", "hi"], ["hi"], "additional tools are bash"),
        (["--no-tools", "hi"], ["--code", "--no-tools", "hi"], "format"),
        (["--no-tools", "--code", "hi"], ["--cmd", "hi"], "format"),
        (["--schema", "name", "hi"], ["--schema", "title", "hi"], "schema"),
        (["-f", "a.png", "hi"], ["-f", "b.png", "hi"], "attachments[0].name"),
        (["hi"], ["-f", "a.png", "hi"], "attachments"),
    ],
)
def test_a_request_that_was_not_recorded_fails_with_the_difference(
    ask: Ask, replay: Ask, home: Home, server: ModelServer, *, recorded: list[str], asked: list[str], field: str
) -> None:
    for name in ("a", "b"):
        (home.work / f"{name}.png").write_bytes(b"\x89PNG\r\n\x1a\n" + name.encode())
    server.reply(lambda _: wire.says('```\n{"name": "x"}\n```'))
    record(ask, "--no-tools", "something else altogether")
    record(ask, *recorded)
    assert replay(*recorded).code == 0
    result = replay(*asked)
    assert (result.code, result.stdout) == (UNRECORDED, b"")
    assert f"line 2, where {field}" in result.stderr.replace("messages[0].attachments", "attachments")
    assert "ASK_RECORD=" in result.stderr


def test_a_retried_request_is_recorded_once_with_its_answer(
    ask: Ask, replay: Ask, home: Home, server: ModelServer
) -> None:
    refused = wire.whole_reply(wire.error("slow down", 429), 429, {"Retry-After": "0"})
    server.reply(refused, wire.says("At last."))
    assert record(ask, "hi").text == "At last.\n"
    assert len(server.requests) == 2
    assert len(read_records(home)) == 1
    replayed = replay("hi")
    assert (replayed.text, "slow down" in replayed.stderr) == ("At last.\n", False)


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (wire.whole_reply(wire.error("no such model", 404), 404), 6),
        (wire.whole_reply(wire.error("temperature is too high", 400), 400), 7),
        (wire.says("Half of", finish="length"), 10),
        (wire.says("", finish="stop"), 10),
    ],
)
def test_errors_are_replayed_with_exit_code_and_message(
    ask: Ask, replay: Ask, server: ModelServer, reply: Reply, code: int
) -> None:
    server.reply(lambda _: reply)
    recorded = record(ask, "-o", "temperature=1", "hi")
    replayed = replay("-o", "temperature=1", "hi")
    assert recorded.code == replayed.code == code
    assert replayed.stdout == recorded.stdout
    assert replayed.stderr.splitlines()[-1] == recorded.stderr.splitlines()[-1]


def test_a_fallback_is_replayed(ask: Ask, replay: Ask, server: ModelServer) -> None:
    config = ["-m", "vendor/down", "--fallback", "vendor/up", "hi"]
    server.reply(wire.whole_reply(wire.error("no credit", 402), 402), wire.says("From the other."))
    recorded = record(ask, "--json", *config)
    replayed = replay("--json", *config)
    assert recorded.code == replayed.code == 0
    assert parse(replayed) == parse(recorded)


def test_a_conversation_is_replayed(ask: Ask, replay: Ask, server: ModelServer) -> None:
    server.reply(wire.says("Hello."), wire.says("Ann."))
    first = record(ask, "I am Ann")
    record(ask, "--resume", first.conversation, "who am I?")
    first = replay("I am Ann")
    assert replay("--resume", first.conversation, "who am I?").text == "Ann.\n"


SCRIPT = """
ask "ready?"; ask hi
while [ "$(ask "ready?" | tail -1)" != Yes. ]; do :; done
ask "ready?"; echo "exit $?"
"""


@pytest.fixture
def script(ask: Ask, home: Home, server: ModelServer) -> str:
    """A recorded script that asks once more than was recorded; its path."""
    server.reply(wire.says("No."), wire.says("Hello."), wire.says("No."), wire.says("Yes."))
    for question in ("ready?", "hi", "ready?", "ready?"):
        record(ask, question)
    path = home.work / "script.sh"
    path.write_text(SCRIPT)
    return str(path)


def check_script_result(result: Result, count: int = 1) -> None:
    assert result.text == "No.\nHello.\nexit 13\n" * count
    assert result.stderr.count("line 4") == count
    assert '"ready?"' in result.stderr


@pytest.mark.slow
def test_each_recorded_answer_is_used_once_in_a_run_of_a_script(replay: Ask, script: str) -> None:
    check_script_result(replay.shell(SCRIPT))
    check_script_result(run(["sh", script], env=replay.env, cwd=replay.cwd))


@pytest.mark.slow
def test_scripts_started_by_one_program_are_separate_runs(ask: Ask, replay: Ask, script: str) -> None:
    exported = f"export ASK_REPLAY='{replay.env['ASK_REPLAY']}'"
    check_script_result(ask.shell(f"{exported}; sh {script}; sh {script}"), 2)
    check_script_result(ask.shell(f"{exported}; {SCRIPT}"))


def test_the_provider_and_model_of_the_recording_are_used_if_none_is_set(
    ask: Ask, replay: Ask, server: ModelServer
) -> None:
    server.reply(wire.says("Hello."))
    record(ask, "-p", "moonshot", "hi", MOONSHOT_BASE_URL=server.base_url)
    assert replay("hi").text == "Hello.\n"


def test_a_local_server_needs_no_models_list_in_a_replay(ask: Ask, replay: Ask, server: ModelServer) -> None:
    server.reply(wire.says("Hello."))
    record(ask, "-p", "lmstudio", "-m", "local", "hi", LMSTUDIO_BASE_URL=server.base_url)
    assert replay("-p", "lmstudio", "hi").code == 0


@pytest.mark.slow
def test_parallel_processes_record_complete_lines(ask: Ask, home: Home, server: ModelServer) -> None:
    server.reply(lambda _: wire.says("x" * 20_000))
    with ThreadPoolExecutor(4) as pool:
        results = [*pool.map(lambda number: record(ask, f"question {number}"), range(8))]
    assert {result.code for result in results} == {0}
    asked = {each["request"]["messages"][0]["content"] for each in read_records(home)}
    assert asked == {f"question {number}" for number in range(8)}


def test_map_is_recorded_and_replayed(ask: Ask, replay: Ask, home: Home, server: ModelServer) -> None:
    (home.work / "rows.txt").write_text("a\nb\n")
    server.reply(lambda request: wire.whole_reply(wire.answer(f"Answer to {request.json['messages'][-1]['content']}")))
    command = ["map", "About {{line}}", "rows.txt"]
    recorded = record(ask, *command)
    assert recorded.code == 0, recorded.stderr
    replayed = replay(*command, env={"XDG_DATA_HOME": str(home.path)})  # where the job has not been done
    assert (replayed.code, replayed.text) == (0, recorded.text)
    (home.work / "rows.txt").write_text("a\nb\nc\n")
    result = replay(*command, env={"XDG_DATA_HOME": str(home.path / "home"), "XDG_CACHE_HOME": str(home.path)})
    assert result.code == UNRECORDED
    assert "messages[0].content" in result.stderr


@pytest.mark.parametrize("command", [["models", "-p", "openrouter"], ["map", "--batch", "{{line}}", "rows.txt"]])
def test_nothing_else_is_requested(replay: Ask, home: Home, command: list[str]) -> None:
    (home.work / FILE).write_text("")
    (home.work / "rows.txt").write_text("a\n")
    result = replay(*command)
    assert result.code == 4
    assert "ASK_REPLAY" in result.stderr


@pytest.mark.parametrize(
    ("content", "expected"),
    [(None, "No such file"), ("{}\n", f"{FILE}:1"), ("not json\n", f"{FILE}:1"), ('{"version": 2}\n', "version 2")],
)
def test_an_unusable_recording_is_a_file_error(replay: Ask, home: Home, content: str | None, expected: str) -> None:
    if content is not None:
        (home.work / FILE).write_text(content)
    result = replay("-p", "openrouter", "hi")
    assert (result.code, result.stderr.count("\n")) == (9, 1)
    assert expected in result.stderr


@pytest.mark.parametrize(
    "damage",
    [
        {"text": 5},
        {"tool_calls": [{"name": None, "arguments": {}}]},
        {"usage": {"input_tokens": "1"}},
        {"usage": {"cost": 10**400}},
        {"error": {"type": "ProviderError", "message": 5}},
    ],
    ids=["text", "name", "tokens", "cost", "error"],
)
def test_a_wrong_type_in_an_edited_answer_is_a_file_error(ask: Ask, replay: Ask, damage: dict[str, Any]) -> None:
    record(ask, "-p", "demo", "hi")
    file = replay.cwd / FILE
    line = json.loads(file.read_text())
    file.write_text(json.dumps({**line, "response": {**line["response"], **damage}}))
    result = replay("-p", "demo", "hi")
    assert (result.code, f"{FILE} has an invalid answer" in result.stderr) == (9, True)


def test_nothing_is_sent_if_the_recording_cannot_be_written(ask: Ask, server: ModelServer) -> None:
    assert ask("--record", "missing/answers.jsonl", "hi").code == 9
    assert server.requests == []


def test_recording_while_replaying_is_a_usage_error(replay: Ask) -> None:
    assert replay("--record", "other.jsonl", "hi").code == 2


def test_no_key_command_runs_in_a_replay(ask: Ask, replay: Ask, home: Home, server: ModelServer) -> None:
    server.reply(wire.says("Hello."))
    record(ask, "hi")
    home.configure(f"[providers.openrouter]\nkey_command = 'touch {home.path}/ran; false'")
    assert replay("-p", "openrouter", "hi").code == 0
    assert not (home.path / "ran").exists()


def test_a_named_pipe_that_nobody_reads_is_an_error(ask: Ask, server: ModelServer, home: Home) -> None:
    os.mkfifo(home.work / "rec.jsonl")
    result = ask.process("--record", "rec.jsonl", "hi")
    assert (result.code, server.requests) == (9, [])


def test_a_recording_is_written_to_a_program(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(wire.says("x" * 300_000))
    result = ask.shell("ask --record >(sleep 1; cat > copy; touch done) hi > /dev/null; until [ -e done ]; do :; done")
    assert result.code == 0, result.stderr
    assert len(json.loads((home.work / "copy").read_text())["response"]["text"]) == 300_000
