"""Scenarios: conversations continued in one process or the next, and those that outgrow the context window."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence

import pytest

from tests import wire
from tests.model_server import ModelServer, Reply, Request, Script
from tests.program import Ask, Home
from tests.scenarios.sent_requests import Json, check_messages, check_sent_requests, list_roles, read_tool_results

LIST = ("list_dir", {"dirpath": "."})
TOO_LONG = "This endpoint's maximum context length is 4096 tokens. However, you requested about 9000 tokens"


def check_chat_requests(server: ModelServer) -> list[Json]:
    """Return the bodies of the chat requests, each checked by itself."""
    bodies = [request.json for request in server.requests if request.method == "POST"]
    for body in bodies:
        check_messages(body["messages"])
        plain = wire.without_fields(body, {"num_ctx"})
        assert wire.read_by_openai(plain) == plain
    return bodies


def list_message_prefixes(body: Json) -> list[str]:
    """Return the first characters of each message after the system prompt."""
    return [(message["content"] or "")[:12].strip() for message in body["messages"][1:]]


def script_with_models_list(length: int | None, *replies: Reply) -> Iterator[Script]:
    """Script replies for a server whose models list reports this context length."""
    entry = {"id": wire.MODEL} | ({} if length is None else {"context_length": length})
    models = wire.whole_reply({"data": [entry]})
    left = list(replies)

    def answer(request: Request) -> Reply:
        return models if request.method == "GET" else left.pop(0)

    return itertools.repeat(answer, len(replies) + 3)


def test_the_second_request_contains_the_first_exchange_with_call_and_result(ask: Ask, server: ModelServer) -> None:
    (ask.cwd / "notes.txt").write_text("milk\n")
    server.reply(wire.calls(LIST), wire.says("There is notes.txt."), wire.says("One."))
    assert ask("What files are here?").code == 0
    result = ask("-c", "How many?")
    assert (result.text, result.code) == ("One.\n", 0)
    _, second, third = check_sent_requests(server)
    assert list_roles(third) == ["system", "user", "assistant", "tool", "assistant", "user"]
    assert third["messages"][: len(second["messages"])] == second["messages"]
    assert third["messages"][3]["content"] == "file 5 notes.txt"
    assert [third["messages"][place]["content"] for place in (4, 5)] == ["There is notes.txt.", "How many?"]


def test_a_continued_conversation_contains_earlier_tool_results(ask: Ask, server: ModelServer) -> None:
    (ask.cwd / "sub").mkdir()
    (ask.cwd / "a.txt").write_text("x")

    def answer_from_the_history(request: Request) -> Reply:
        [seen] = [m["content"] for m in request.json["messages"] if m["role"] == "tool"]
        return wire.says(f"I saw: {' and '.join(line.split()[-1] for line in sorted(seen.splitlines()))}.")

    server.reply(wire.calls(LIST), wire.says("Two things are here."), answer_from_the_history)
    assert ask("What files are here?").code == 0
    assert ask("-c", "What files did you see?").text == "I saw: sub and a.txt.\n"


@pytest.mark.parametrize("told_by", ["models list", "config", "option"])
def test_the_oldest_exchanges_are_dropped_first_and_the_system_prompt_is_kept(
    ask: Ask, server: ModelServer, home: Home, told_by: str
) -> None:
    """An exchange has about 5,000 tokens; the system prompt and the tools have about 1,500."""
    home.configure("context_limit = 24000\n" if told_by == "config" else "")
    options = ["-o", "num_ctx=24000"] if told_by == "option" else []
    server.reply(*script_with_models_list(24_000 if told_by == "models list" else None, *[wire.says("Noted.")] * 4))
    for number in range(4):
        again = ["-c"] if number else []
        result = ask(*again, *options, f"{number} " + "word " * 3_000)
        assert (result.text, result.code) == ("Noted.\n", 0)
    bodies = check_chat_requests(server)
    assert [list_message_prefixes(body)[::2] for body in bodies[:3]] == [
        ["0 word word"],
        ["0 word word", "1 word word"],
        ["0 word word", "1 word word", "2 word word"],
    ]
    assert list_message_prefixes(bodies[3]) == ["2 word word", "Noted.", "3 word word"]
    assert bodies[3]["messages"][0] == bodies[0]["messages"][0]
    [line] = [line for line in result.stderr.splitlines() if "does not fit" in line]
    assert all(part in line for part in ("24,000 tokens", "4 messages", "ask compact"))


def test_tool_definitions_count_toward_the_context(ask: Ask, server: ModelServer) -> None:
    server.reply(*script_with_models_list(None, *[wire.says("Noted.")] * 4))
    ask("0 " + "word " * 3_000)
    ask("-c", "1")
    last = check_chat_requests(server)[-1]
    messages, tools = (len(json.dumps(last[name])) // 3 for name in ("messages", "tools"))
    limit = f"num_ctx={(messages + tools // 2) * 5 // 4}"  # a fifth is reserved for the answer
    assert ask("-c", *("-o", limit), "--no-tools", "2").code == 0
    assert ask("-c", *("-o", limit), "3").code == 0
    *_, without, with_tools = check_chat_requests(server)
    assert list_message_prefixes(without)[::2] == ["0 word word", "1", "2"]
    assert list_message_prefixes(with_tools)[::2] == ["1", "2", "3"]


def test_long_tasks_drop_the_oldest_rounds_and_keep_calls_with_their_results(
    ask: Ask, server: ModelServer, home: Home
) -> None:
    home.configure("context_limit = 8000\n")
    wanted = [wire.calls(("bash", {"command": f"printf '{n}%.0s' $(seq 3000)"})) for n in range(1, 9)]
    server.reply(*script_with_models_list(None, *wanted, wire.says("Done.")))
    result = ask("Count.")
    assert (result.text, result.code) == ("Done.\n", 0)
    bodies = check_chat_requests(server)
    assert len(bodies) == 9
    assert all(list_roles(body)[:2] == ["system", "user"] for body in bodies)
    assert all(len(json.dumps(body)) < 3 * 8_000 for body in bodies)
    for number, body in enumerate(bodies[1:], 1):
        assert str(number) * 3_000 in read_tool_results(body)[-1], "the newest result is in each request"
    kept = [body["messages"] for body in bodies]
    cuts = [later[: len(earlier)] != earlier for earlier, later in itertools.pairwise(kept)]
    assert 1 <= sum(cuts) <= 4, "it is cut in steps, so that the beginning stays the same in between"
    assert result.stderr.count("does not fit") == 1


def test_a_context_length_error_is_retried_with_about_half_the_messages(ask: Ask, server: ModelServer) -> None:
    """The context length is unknown until the provider refuses the request."""
    answers = [wire.says("Noted.")] * 3
    server.reply(*script_with_models_list(None, *answers, wire.fails(400, TOO_LONG), wire.says("Short.")))
    for number in range(3):
        assert ask(*["-c"][:number], f"{number} " + "word " * 1_000).code == 0
    result = ask("-c", "and now?")
    assert (result.text, result.code) == ("Short.\n", 0)
    refused, accepted = check_chat_requests(server)[-2:]
    assert len(json.dumps(accepted["messages"])) < len(json.dumps(refused["messages"])) * 0.6
    assert list_message_prefixes(accepted)[-1] == "and now?"
    assert accepted["messages"][0] == refused["messages"][0]
    assert f"ask: {TOO_LONG} (openrouter, 400)" in result.stderr


def test_a_prompt_that_is_too_long_by_itself_is_sent_and_the_error_shown(
    ask: Ask, server: ModelServer, home: Home
) -> None:
    home.configure("context_limit = 3000\n")
    server.reply(*script_with_models_list(3_000, wire.fails(400, TOO_LONG)))
    result = ask("word " * 9_000)
    assert result.code == 6
    assert result.stderr.splitlines()[-1].startswith(f"ask: {TOO_LONG} (openrouter, 400): ")
    assert len(check_chat_requests(server)) == 1


def test_only_large_conversations_fetch_the_models_list_and_once_a_day(ask: Ask, server: ModelServer) -> None:
    server.reply(*script_with_models_list(100_000, *[wire.says("Noted.")] * 3))
    assert ask("hi").code == 0
    assert [request.method for request in server.requests] == ["POST"]
    big = "word " * 9_000
    assert ask(big).code == 0
    assert ask(big).code == 0
    assert [request.method for request in server.requests] == ["POST", "GET", "POST", "POST"]


@pytest.mark.parametrize("failure", [wire.fails(500), wire.whole_reply({"data": "nonsense"}), Reply((b"<html>",))])
def test_a_failed_models_list_is_ignored_and_not_requested_again_soon(
    ask: Ask, server: ModelServer, failure: Reply
) -> None:
    def answer(request: Request) -> Reply:
        return failure if request.method == "GET" else wire.says("Noted.")

    server.reply(answer)
    big = "word " * 9_000
    for _ in range(2):
        result = ask("-q", big)
        assert (result.text, result.stderr, result.code) == ("Noted.\n", "", 0)
    assert [request.method for request in server.requests] == ["GET", "POST", "POST"]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"time": "x", "models": {"a": 1}}', b"\xff\xfe"])
def test_a_damaged_models_cache_is_replaced(ask: Ask, server: ModelServer, home: Home, content: bytes) -> None:
    server.reply(*script_with_models_list(100_000, wire.says("Noted."), wire.says("Noted.")))
    big = "word " * 9_000
    assert ask(big).code == 0
    [file] = (home.path / "cache" / "ask" / "models").iterdir()
    kept = json.loads(file.read_bytes())
    assert [(model["id"], model["context_length"]) for model in kept["models"]] == [(wire.MODEL, 100_000)]
    file.write_bytes(content)
    assert ask(big).code == 0
    assert json.loads(file.read_bytes())["models"] == kept["models"]


def test_prompts_before_and_after_a_failure_are_merged(ask: Ask, server: ModelServer) -> None:
    """Some models reject consecutive user messages."""
    server.reply(wire.fails(401, "no"), wire.says("Hello."))
    assert ask("first").code == 6
    assert ask("-c", "--unanswered", "second").code == 0
    body = check_chat_requests(server)[-1]
    assert list_roles(body) == ["system", "user"]
    assert wire.asked(body) == "first\n\nsecond"


@pytest.mark.parametrize(
    ("tokens", "expected"), [(4_500, ["0 word word", "Noted.", "1 word word"]), (7_000, ["1 word word"])]
)
def test_reported_usage_takes_precedence_over_the_estimate(
    ask: Ask, server: ModelServer, home: Home, tokens: int, expected: Sequence[str]
) -> None:
    """The same text is dropped or kept depending on the usage reported for it."""
    home.configure("context_limit = 8000\n")
    first = wire.streams(wire.text("Noted."), wire.finish(), wire.usage(tokens, 5))
    server.reply(*script_with_models_list(None, first, wire.says("Two.")))
    assert ask("0 " + "word " * 3_000).code == 0
    assert ask("-c", "1 " + "word " * 600).code == 0
    assert list_message_prefixes(check_chat_requests(server)[-1]) == expected
