"""The log of tool calls has a line for every call and is readable only by the user."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ask.events import ToolCallFinished
from ask.messages import ToolCall
from ask.safety.tool_call_log import MAX_LOG_BYTES, log_tool_call
from tests import wire
from tests.model_server import ModelServer, Reply, Request
from tests.program import Ask, Home
from tests.sample_files import png


def test_each_call_is_logged_completely_on_one_line(ask: Ask, server: ModelServer, home: Home) -> None:
    failing, unreadable = {"command": "sleep 0.2; echo 123; exit 3"}, "{"
    server.reply(wire.calls(("bash", failing), ("bash", unreadable)), wire.calls(("read_file", {"filepath": "ü"})))
    server.reply(wire.says("Done."))
    before = datetime.now(UTC)
    told = json.loads(ask("--json", "do it").text)
    first, second, third = home.read_tool_log()
    assert first.keys() == second.keys() == third.keys()
    assert (
        before.timestamp() - 1 < datetime.fromisoformat(first.pop("time")).timestamp() < datetime.now(UTC).timestamp()
    )
    assert 0.2 <= first.pop("seconds") < 10
    assert first == {
        "conversation": told["conversation"],
        "tool": "bash",
        "arguments": json.dumps(failing),
        "decision": "allow",
        "rule": "unrestricted",
        "failed": True,
        "exit": 3,
        "bytes": len(told["tool_calls"][0]["result"].encode()),
        "files": [],
    }
    assert (second["arguments"], second["decision"], second["rule"], second["exit"]) == (
        "{",
        "deny",
        "unreadable",
        None,
    )
    assert (third["tool"], json.loads(third["arguments"]), third["failed"]) == ("read_file", {"filepath": "ü"}, True)


def test_files_of_a_result_are_logged_by_name_and_size(ask: Ask, server: ModelServer, home: Home) -> None:
    (ask.cwd / "a.png").write_bytes(png())
    server.reply(wire.calls(("read_file", {"filepath": "a.png"})), wire.says("Done."))
    assert ask("do it").code == 0
    assert home.read_tool_log()[0]["files"] == [{"name": "a.png", "bytes": len(png())}]


def test_a_repeated_call_is_logged_as_refused(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(wire.calls(*[("list_dir", {"dirpath": "."})] * 3), wire.says("Done."))
    assert ask("do it").code == 0
    assert [line["decision"] for line in home.read_tool_log()] == ["allow", "allow", "deny"]
    assert home.read_tool_log()[2]["rule"] == "repeated"


def test_only_the_user_can_read_the_log(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(wire.calls(("list_dir", {"dirpath": "."})), wire.says("Done."))
    result = ask.shell("umask 0; ask do it")
    assert result.code == 0
    assert (home.data / "audit.jsonl").stat().st_mode & 0o777 == 0o600
    assert home.data.stat().st_mode & 0o777 == 0o700


def test_runs_append_to_the_log(ask: Ask, server: ModelServer, home: Home) -> None:
    calls, answer = wire.calls(("list_dir", {"dirpath": "."})), wire.says("Done.")
    server.reply(calls, answer, calls, answer)
    assert [ask("do it").code, ask("do it").code] == [0, 0]
    assert len({line["conversation"] for line in home.read_tool_log()}) == len(home.read_tool_log()) == 2


def test_an_unwritable_log_causes_a_warning_and_the_answer_is_printed(
    ask: Ask, server: ModelServer, home: Home
) -> None:
    home.data.touch()  # a file where the folder should be
    server.reply(wire.calls(("bash", {"command": "echo x > ran"}), ("list_dir", {"dirpath": "."})), wire.says("Done."))
    result = ask("do it")
    assert (result.text, result.code) == ("Done.\n", 0)
    assert (ask.cwd / "ran").exists()
    assert result.stderr.count("cannot write the log of tool calls") == 1


@pytest.mark.slow
def test_parallel_runs_do_not_mix_their_lines(ask: Ask, server: ModelServer, home: Home) -> None:
    long = ("write_file", {"filepath": "x", "content": "y" * 100_000})
    runs, calls = 4, 6

    def answer(request: Request) -> Reply:
        if request.method == "GET":  # the models list, for what the model can take
            return Reply(status=404)
        if request.json["messages"][-1]["role"] == "tool":
            return wire.says("Done.")
        return wire.calls(*[long, ("list_dir", {"dirpath": "."})] * (calls // 2))

    server.reply(answer)
    with ExitStack() as stack:
        running = [stack.enter_context(ask.start("do it")) for _ in range(runs)]
        assert [process.finish().code for process in running] == [0] * runs
    conversations = [line["conversation"] for line in home.read_tool_log()]
    assert sorted(conversations.count(one) for one in {*conversations}) == [calls] * runs


def test_a_large_log_is_rotated_once_when_several_runs_write_to_it(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    path.touch()
    os.truncate(path, MAX_LOG_BYTES - 2_000)
    event = ToolCallFinished(ToolCall("1", "bash", "{}"), "", False, "allow", "unrestricted", 0, 0.0)
    with ThreadPoolExecutor(8) as pool:
        for number in range(200):
            pool.submit(log_tool_call, path, str(number), event)
    older = (tmp_path / "audit.1.jsonl").read_bytes().lstrip(b"\0")
    lines = [json.loads(line) for data in (older, path.read_bytes()) for line in data.splitlines()]
    assert {line["conversation"] for line in lines} == {str(number) for number in range(200)}
    assert older.count(b"\n") < 100
    assert path.stat().st_mode & 0o777 == 0o600
