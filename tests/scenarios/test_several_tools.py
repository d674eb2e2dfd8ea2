"""Scenarios: several tool calls, sequential and parallel."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from tests import wire
from tests.model_server import ModelServer, Reply, Request
from tests.program import Ask
from tests.scenarios.sent_requests import check_sent_requests, list_roles, read_tool_results


def test_search_results_are_written_to_a_file(ask: Ask, server: ModelServer) -> None:
    (ask.cwd / "a.py").write_text("x = 1  # TODO: name it\n")
    (ask.cwd / "b.py").write_text("# TODO: test\n")

    def write_what_came_back(request: Request) -> Reply:
        [found] = read_tool_results(request.json)
        lines = [line for line in found.splitlines() if "TODO" in line]
        return wire.calls(("write_file", {"filepath": "todos.txt", "content": "\n".join(lines) + "\n"}))

    server.reply(
        wire.calls(("bash", {"command": "grep -n TODO *.py"})), write_what_came_back, wire.says("Two are saved.")
    )
    result = ask("Find all TODOs and save them to todos.txt.")
    assert (result.text, result.code) == ("Two are saved.\n", 0)
    assert (ask.cwd / "todos.txt").read_text() == "a.py:1:x = 1  # TODO: name it\nb.py:1:# TODO: test\n"
    assert len(check_sent_requests(server)) == 3


def test_three_rounds_build_on_each_other(ask: Ask, server: ModelServer) -> None:
    (ask.cwd / "main.rs").write_text('fn main() { println!("hi"); }\n')
    server.reply(
        wire.calls(("list_dir", {"dirpath": "."})),
        wire.calls(("read_file", {"filepath": "main.rs"})),
        wire.calls(("write_file", {"filepath": "summary.md", "content": "It says hi.\n"})),
        wire.says("The summary is in summary.md."),
    )
    result = ask("Read main.rs and create a summary file")
    assert (result.text, result.code) == ("The summary is in summary.md.\n", 0)
    assert (ask.cwd / "summary.md").read_text() == "It says hi.\n"
    bodies = check_sent_requests(server)
    assert [read_tool_results(body) for body in bodies[1:]] == [
        ["file 30 main.rs"],
        ['fn main() { println!("hi"); }\n'],
        ["created summary.md: 12 bytes"],
    ]
    assert list_roles(bodies[-1]) == ["system", "user", *["assistant", "tool"] * 3]


@pytest.mark.parametrize("count", [3, 8])
def test_all_calls_in_one_answer_run_in_order(ask: Ask, server: ModelServer, count: int) -> None:
    wanted = [("bash", {"command": f"echo {i} >> order; cat order"}) for i in range(count)]
    server.reply(wire.calls(*wanted), wire.says("Done."))
    result = ask("do these")
    assert (result.text, result.code) == ("Done.\n", 0)
    assert result.stderr.splitlines() == [f"· bash: {arguments['command']}" for _, arguments in wanted]
    assert (ask.cwd / "order").read_text() == "".join(f"{i}\n" for i in range(count))
    body = check_sent_requests(server)[1]
    assert list_roles(body) == ["system", "user", "assistant", *["tool"] * count]
    assert [m["tool_call_id"] for m in body["messages"][3:]] == [f"call_{i}" for i in range(count)]
    for i, tool_result in enumerate(read_tool_results(body)):
        assert tool_result.splitlines()[-1] == str(i)


def test_text_around_calls_is_streamed_and_sent_back(ask: Ask, server: ModelServer) -> None:
    server.reply(
        wire.streams(
            wire.text("First I look."),
            wire.call(0, id="call_a", name="bash", arguments='{"command": "touch one"}'),
            wire.text(" Then again."),
            wire.call(1, id="call_b", name="bash", arguments='{"command": "touch two"}'),
            wire.text(" And now I wait."),
            wire.finish("tool_calls"),
        ),
        wire.says("There are two files."),
    )
    result = ask("--events", "look")
    events = [json.loads(line) for line in result.text.splitlines()]
    texts = [event["text"] for event in events if event["type"] == "text"]
    assert texts[:3] == ["First I look.", " Then again.", " And now I wait."]
    assert "".join(texts[3:]).strip() == "There are two files."
    assert {path.name for path in ask.cwd.iterdir()} == {"one", "two"}
    second = check_sent_requests(server)[1]
    assert second["messages"][2]["content"] == "First I look. Then again. And now I wait."
    assert [call["id"] for call in second["messages"][2]["tool_calls"]] == ["call_a", "call_b"]


def test_the_text_of_each_round_starts_on_a_new_line(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.calls(("list_dir", {"dirpath": "."}), content="First I look."), wire.says("Nothing is here."))
    result = ask("look")
    assert (result.text, result.code) == ("First I look.\nNothing is here.\n", 0)


def test_text_is_shown_before_the_calls_after_it_are_complete(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.streams(wire.text("First I look."), 30.0, wire.finish()))
    with ask.start("look") as running:
        running.wait_for("First I look.")
        running.signal()
        assert running.finish().code == 130


def test_twenty_rounds_are_one_conversation_on_one_connection(ask: Ask, server: ModelServer) -> None:
    rounds = [wire.calls(("bash", {"command": f"echo {i} >> log"})) for i in range(20)]
    server.reply(*rounds, wire.says("Twenty lines."))
    result = ask("--max-rounds", "25", "-m", wire.MODEL, "write the log")
    assert (result.text, result.code) == ("Twenty lines.\n", 0)
    assert (ask.cwd / "log").read_text() == "".join(f"{i}\n" for i in range(20))
    bodies = check_sent_requests(server)
    assert len(bodies) == 21
    assert {body["tool_choice"] for body in bodies} == {"auto"}
    assert {request.connection for request in server.requests} == {1}
    for earlier, later in itertools.pairwise(request.body for request in server.requests):
        conversation, separator, rest = earlier.partition(b'],"tools":')
        assert later.startswith(conversation)
        assert later.endswith(separator + rest)


def test_each_request_extends_the_previous_one_except_for_cache_markers(ask: Ask, server: ModelServer) -> None:
    rounds = [wire.calls(("bash", {"command": f"echo {i}"})) for i in range(3)]
    server.reply(*rounds, wire.says("Done."))
    assert ask("-m", "anthropic/claude-test", "count").code == 0
    marked = [request.body.count(b'"cache_control"') for request in server.requests]
    assert all(0 < count <= 4 for count in marked)
    bodies = [without_markers(request.json) for request in server.requests]
    for earlier, later in itertools.pairwise(bodies):
        assert later["messages"][: len(earlier["messages"])] == earlier["messages"]


@pytest.mark.parametrize("whole", [False, True])
def test_duplicate_and_missing_call_ids_are_replaced(ask: Ask, server: ModelServer, whole: bool) -> None:
    arguments = [json.dumps({"command": f"echo {name} >> order"}) for name in "abcd"]
    ids = ["call_x", "call_x", None, ""]
    if whole:
        answer = wire.answer(None, [("bash", text) for text in arguments])
        for call, call_id in zip(answer["choices"][0]["message"]["tool_calls"], ids, strict=True):
            call["id"] = call_id
        server.reply(wire.whole_reply(answer), wire.says("Done.", whole=True))
    else:
        fragments = [
            wire.call(i, id=call_id, name="bash", arguments=text)
            for i, (call_id, text) in enumerate(zip(ids, arguments, strict=True))
        ]
        server.reply(wire.streams(*fragments, wire.finish("tool_calls")), wire.says("Done."))
    result = ask(*(["--no-stream"] if whole else []), "do these")
    assert (result.text, result.code) == ("Done.\n", 0)
    assert (ask.cwd / "order").read_text() == "a\nb\nc\nd\n"
    second = check_sent_requests(server)[1]
    assert len(read_tool_results(second)) == 4
    assert second["messages"][2]["tool_calls"][0]["id"] == "call_x"
    assert all(call["id"] for call in second["messages"][2]["tool_calls"])


@pytest.mark.parametrize("reason", ["stop", "end_turn"])
def test_calls_are_run_regardless_of_the_finish_reason(ask: Ask, server: ModelServer, reason: str) -> None:
    wanted = wire.stream("I look.", [("bash", {"command": "touch done"})], finish=reason)
    server.reply(wire.streams(*wanted), wire.says("Done."))
    result = ask("do it")
    assert (result.text, result.code) == ("I look.\nDone.\n", 0)
    assert (ask.cwd / "done").exists()
    assert len(check_sent_requests(server)) == 2


def without_markers(value: Any) -> Any:
    """Remove the cache markers from a request body."""
    if isinstance(value, dict):
        return {key: without_markers(part) for key, part in value.items() if key != "cache_control"}
    return [without_markers(part) for part in value] if isinstance(value, list) else value
