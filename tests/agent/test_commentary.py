"""Text that a model writes before its answer is shown, and is no part of the value of the answer.

OpenAI marks such messages since gpt-5.3-codex: https://github.com/openai/openai-python/issues/3859
"""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from tests import responses_wire, wire
from tests.batch_services import OpenAIService
from tests.cli.chat.chat_session import Chat
from tests.cli.test_map import COMMAND, make_rows, read_output, write_rows
from tests.model_server import ModelServer
from tests.program import TEST_KEY, Ask, Home
from tests.responses_wire import call, message, response

SCHEMA = ("--schema", "n int")
SEARCH = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search"}}


def mark(commentary: str, answer: str, phase: str | None = "final_answer") -> dict[str, Any]:
    """Return a response with a commentary and an answer."""
    marked = {"phase": phase} if phase else {}
    return response(message(commentary, phase="commentary"), SEARCH, message(answer, id="msg_2", **marked))


@pytest.fixture
def openai(ask: Ask, server: ModelServer) -> Ask:
    env = {"OPENAI_API_KEY": TEST_KEY, "OPENAI_BASE_URL": server.base_url, "ASK_PROVIDER": "openai"}
    return Ask({**ask.env, **env}, ask.cwd)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("phase", ["final_answer", None])
@pytest.mark.parametrize(
    ("option", "commentary", "answer", "expected"),
    [
        (SCHEMA, '{"n": 1}', '{"n": 2}', '{"n":2}\n'),
        (("--code",), "I look it up.", "print(2)", "print(2)\n"),
        (("-x",), "```\nprint(1)\n```", "print(2)", "print(2)\n"),
        (("--cmd",), "```sh\necho 1\n```", "echo 2", "echo 2\n"),
        (SCHEMA, '<think>Hm.</think>{"n": 1}', '{"n": 2}', '{"n":2}\n'),
        (SCHEMA, "<think>Hm.</think>", '{"n": 2}', '{"n":2}\n'),
        ((), "I look it up.", "It is 2.", "I look it up.\n\nIt is 2.\n"),
    ],
)
def test_a_commentary_is_no_part_of_a_value(
    openai: Ask,
    server: ModelServer,
    *,
    option: tuple[str, ...],
    commentary: str,
    answer: str,
    expected: str,
    phase: str | None,
    stream: bool,
) -> None:
    server.reply(responses_wire.replies(mark(commentary, answer, phase), stream=stream))
    result = openai(*option, *([] if stream else ["--no-stream"]), "two")
    assert (result.text, result.code, len(server.requests)) == (expected, 0, 1), result.stderr


def test_an_answer_that_is_only_commentary_counts(openai: Ask, server: ModelServer) -> None:
    server.reply(responses_wire.replies(response(message('{"n": 1}', phase="commentary"))))
    assert openai(*SCHEMA, "two").text == '{"n":1}\n'


def test_a_secret_in_a_commentary_does_not_shift_the_answer(openai: Ask, server: ModelServer) -> None:
    server.reply(responses_wire.replies(mark(f"The key is {TEST_KEY}.", "print(2)")))
    assert openai("--code", "two").text == "print(2)\n"


def test_an_answer_after_a_tool_call_replaces_its_commentary(openai: Ask, server: ModelServer) -> None:
    made = response(message("I run it.", phase="commentary"), call("bash", {"command": "true"}))
    server.reply(responses_wire.replies(made), responses_wire.replies(mark("So:", "print(2)")))
    assert openai("--code", "two").text == "print(2)\n"
    server.reply(responses_wire.replies(mark("So:", "print(3)")), responses_wire.replies(response(message("print(4)"))))
    assert openai("--code", "three").text == "print(3)\n"
    assert openai("--code", "four").text == "print(4)\n"


def test_a_chat_copies_and_a_summary_has_only_the_answer(openai: Ask, server: ModelServer) -> None:
    one, two, summary = (
        responses_wire.replies(mark("I look it up.", text)) for text in ("It is 1.", "It is 2.", "In short.")
    )
    answer = responses_wire.replies(response(message("It is 3.")))
    server.reply(one, two, responses_wire.fails(401), summary, answer)
    with Chat(openai) as chat:
        chat.send("one")
        chat.send("two")
        chat.send("another")
        chat.send("/copy")
        chat.running.wait_for(f"\x1b]52;c;{base64.b64encode(b'It is 2.').decode()}\x07")
        chat.send("/compact")
        chat.send_alone("three")
        chat.quit()
    sent_summary = json.dumps(server.requests[-1].json["input"][1:2])
    assert "In short." in sent_summary
    assert "look" not in sent_summary


@pytest.mark.parametrize("options", [(), pytest.param(("--tools",), marks=pytest.mark.slow)], ids=["plain", "tools"])
def test_rows_have_only_the_answer_and_its_sources(
    openai: Ask, server: ModelServer, home: Home, options: tuple[str, ...]
) -> None:
    def cite(url: str) -> dict[str, Any]:
        return {"type": "url_citation", "url": url, "title": "A", "start_index": 0, "end_index": 2}

    made = mark("I look it up.", "It is 2.")
    made["output"][0]["content"][0]["annotations"] = [cite("https://a.example")]
    made["output"][2]["content"][0]["annotations"] = [cite("https://b.example")]
    server.reply(responses_wire.replies(made))
    command = ("map", "-p", "openai", "-m", responses_wire.MODEL, "Say {{text}}", write_rows(home.work, *make_rows(1)))
    result = openai.process(*command, *options, "-O", "out.jsonl", timeout=60)
    (row,) = read_output(home.work / "out.jsonl")
    assert row["answer"] == "It is 2.", result.stderr
    assert [(each["url"], each["start"], each["end"]) for each in row["citations"]] == [("https://b.example", 0, 2)]


@pytest.mark.parametrize("options", [(), ("--schema", "n int")])
def test_rows_of_a_batch_have_only_the_answer(
    ask: Ask, server: ModelServer, home: Home, options: tuple[str, ...]
) -> None:
    service = OpenAIService()
    service.response = mark('{"n": 1}', '{"n": 2}')
    server.reply(service)
    env = {"OPENAI_API_KEY": TEST_KEY, "OPENAI_BASE_URL": server.base_url}
    command = ("map", "-p", "openai", "-m", OpenAIService.model, "--batch", "--poll-interval", "0.01", *options)
    file = write_rows(home.work, *make_rows(1))
    result = ask(*command, "Say {{text}}", file, "-O", "out.jsonl", env=env)
    (row,) = read_output(home.work / "out.jsonl")
    assert (row["n"] if options else row["answer"], result.code) == (2 if options else '{"n": 2}', 0), result.stderr


@pytest.mark.slow
def test_rows_with_tools_do_not_have_the_text_before_a_call(ask: Ask, server: ModelServer, home: Home) -> None:
    made = wire.calls(("bash", {"command": "echo one"}), content="I look at it.")
    server.reply(made, wire.says("It is 2."))
    file = write_rows(home.work, *make_rows(1))
    result = ask.process(*COMMAND, file, "--tools", "-O", "out.jsonl", timeout=60)
    assert read_output(home.work / "out.jsonl")[0]["answer"] == "It is 2.", result.stderr


@pytest.mark.slow
def test_a_failed_row_has_the_text_before_a_call_if_no_answer_follows(
    ask: Ask, server: ModelServer, home: Home
) -> None:
    server.reply(wire.calls(("bash", {"command": "echo saved"}), content="It is 2."), wire.says(""))
    file = write_rows(home.work, *make_rows(1))
    result = ask.process(*COMMAND, file, "--tools", "-O", "out.jsonl", timeout=60)
    (row,) = read_output(home.work / "out.jsonl")
    assert (row["answer"], "empty answer" in row["error"], result.code) == ("It is 2.", True, 12), result.stderr
