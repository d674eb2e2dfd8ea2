"""`ask compact`: a summary replaces old messages with every provider, and the saved messages are kept."""

from __future__ import annotations

import json
import shutil
import sqlite3
from typing import Any

import pytest

from ask import Attachment, Message, ToolCall
from ask.agent.compaction import plan_compaction
from ask.agent.system_prompt import read_prompt
from ask.history.entries import HistoryEntry, Run
from ask.history.saved_messages import build_messages, find_reported_usage
from ask.messages import SUMMARY_PREFIX, Usage
from tests import wire
from tests.model_server import DROP, ModelServer, Reply
from tests.program import TEST_KEY, Ask, Home, make_home
from tests.provider_wires import SERVICES, Reasoning, Wire

INSTRUCTION = read_prompt("compact")
LIST = ToolCall("call_1", "list_dir", '{"dirpath": "."}')
CHOSEN = {"ASK_PROVIDER": "openrouter", "ASK_MODEL": wire.MODEL}


@pytest.fixture
def ask(ask: Ask) -> Ask:
    return Ask({**ask.env, **CHOSEN}, ask.cwd)


def start_conversation(ask: Ask, server: ModelServer, *questions: str) -> None:
    """Start a conversation with these questions, each answered in capitals."""
    for place, question in enumerate(questions):
        server.reply(wire.says(question.upper()))
        assert ask(*["-c"][:place], question).code == 0


@pytest.fixture(scope="module")
def home_with_conversation(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A home with a conversation of two questions, and a copy of its data in `begun`."""
    home = make_home(tmp_path_factory.mktemp("two"))
    with ModelServer() as server:
        env = {**home.env, **CHOSEN, "OPENROUTER_API_KEY": TEST_KEY, "OPENROUTER_BASE_URL": server.base_url}
        start_conversation(Ask(env, home.work), server, "one one one", "two")
    shutil.copytree(home.data, home.path / "begun")
    return home


@pytest.fixture
def conversation(ask: Ask, home_with_conversation: Home) -> Ask:
    """`ask` in a conversation of two questions, restored for each test. Its directory matters for -c."""
    shutil.rmtree(home_with_conversation.data)
    shutil.copytree(home_with_conversation.path / "begun", home_with_conversation.data)
    return Ask({**ask.env, **home_with_conversation.env}, home_with_conversation.work)


def sent_contents(server: ModelServer, place: int = -1) -> list[str]:
    """Return the contents of a request's messages after the system prompt."""
    messages = server.requests[place].json["messages"]
    return [message["content"] or "" for message in messages[1:]]


def query_rows(home: Home, query: str) -> list[Any]:
    with sqlite3.connect(home.data / "history.db") as connection:
        return connection.execute(query).fetchall()


# What is asked


def test_without_a_prompt_the_summary_is_printed_and_the_next_prompt_continues_from_it(
    ask: Ask, server: ModelServer
) -> None:
    start_conversation(ask, server, "one one one", "two two two", "three")
    server.reply(wire.says("They counted to two."), wire.says("FOUR"))
    result = ask("compact")
    assert (result.text, result.code) == ("They counted to two.\n", 0)
    assert "summary" in result.stderr
    assert "4 messages" in result.stderr
    assert sent_contents(server) == ["one one one", "ONE ONE ONE", "two two two", "TWO TWO TWO", INSTRUCTION]
    assert server.requests[-1].json["tool_choice"] == "none"
    first = server.requests[0].json["messages"][0]
    assert server.requests[-1].json["messages"][0] == first
    assert ask("-c", "four").text == "FOUR\n"
    assert sent_contents(server) == [f"{SUMMARY_PREFIX}They counted to two.\n\nthree", "THREE", "four"]


def test_the_next_prompt_continues_from_the_summary(conversation: Ask, server: ModelServer) -> None:
    server.reply(wire.says("They counted."), wire.says("THREE"))
    assert conversation("compact").code == 0
    result = conversation("-c", "three")
    assert (result.text, result.code) == ("THREE\n", 0)
    assert sent_contents(server) == [f"{SUMMARY_PREFIX}They counted.\n\ntwo", "TWO", "three"]


def test_the_summary_is_the_text_of_json_output(conversation: Ask, server: ModelServer) -> None:
    server.reply(wire.says("They counted."))
    assert json.loads(conversation("compact", "--json").stdout)["text"] == "They counted."


def test_a_single_exchange_is_summarized_completely(ask: Ask, server: ModelServer) -> None:
    start_conversation(ask, server, "one")
    server.reply(wire.says("They began."), wire.says("TWO"))
    assert ask("compact").code == 0
    assert sent_contents(server) == ["one", "ONE", INSTRUCTION]
    assert ask("-c", "two").code == 0
    assert sent_contents(server) == [f"{SUMMARY_PREFIX}They began.\n\ntwo"]


def test_a_summary_is_summarized_again_with_later_messages(conversation: Ask, server: ModelServer) -> None:
    server.reply(wire.says("A summary."), wire.says("THREE"), wire.says("Another."), wire.says("FOUR"))
    assert conversation("compact").code == 0
    assert conversation("-c", "three").code == 0
    assert conversation("compact").code == 0
    assert sent_contents(server) == [f"{SUMMARY_PREFIX}A summary.\n\ntwo", "TWO", INSTRUCTION]
    assert conversation("-c", "four").code == 0
    assert sent_contents(server) == [f"{SUMMARY_PREFIX}Another.\n\nthree", "THREE", "four"]


def test_tool_calls_in_a_summary_are_not_run(conversation: Ask, server: ModelServer) -> None:
    server.reply(wire.calls(("bash", {"command": "touch made"}), content="A summary."))
    assert conversation("compact").code == 0
    assert not list(conversation.cwd.iterdir())


def test_another_model_may_write_the_summary_without_changing_the_conversations_model(
    conversation: Ask, server: ModelServer
) -> None:
    server.reply(wire.says("A summary."), wire.says("THREE"))
    assert conversation("compact", "-m", "test/cheap").code == 0
    assert server.requests[-1].json["model"] == "test/cheap"
    assert conversation("-c", "three").code == 0
    assert server.requests[-1].json["model"] == wire.MODEL


def test_summarized_messages_stay_saved(conversation: Ask, server: ModelServer, home_with_conversation: Home) -> None:
    before = query_rows(home_with_conversation, "SELECT number, content FROM messages ORDER BY number")
    server.reply(wire.says("A summary."))
    assert conversation("compact").code == 0
    assert (
        query_rows(home_with_conversation, "SELECT number, content FROM messages ORDER BY number")[: len(before)]
        == before
    )
    assert query_rows(home_with_conversation, "SELECT first_kept_run FROM runs ORDER BY number") == [
        (None,),
        (None,),
        (2,),
    ]
    assert query_rows(home_with_conversation, "SELECT count(*) FROM conversations") == [(1,)]


@pytest.mark.slow
def test_a_conversation_that_is_too_long_is_summarized_as_far_as_it_fits(
    ask: Ask, server: ModelServer, home: Home
) -> None:
    start_conversation(ask, server, *[f"{number} " + "word " * 1_000 for number in range(5)])
    home.configure("context_limit = 9000\n")
    server.reply(lambda request: wire.whole_reply({"data": []}) if request.method == "GET" else wire.says("In short."))
    result = ask("compact")
    assert (result.text, result.code) == ("In short.\n", 0)
    asked = [text[:6] for text in sent_contents(server)]
    assert "0 word" not in asked
    assert asked[-3:] == ["3 word", "3 WORD", INSTRUCTION[:6]]
    assert "9,000 tokens" in result.stderr


# What changes nothing


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (wire.fails(400, "no"), 6),
        (wire.streams(wire.text("They co"), DROP), 10),
        (wire.says("They co", finish="length"), 10),
        (wire.calls(("list_dir", {"dirpath": "."})), 10),
        (wire.streams(wire.finish()), 10),
    ],
    ids=["refused", "cut", "length", "calls alone", "empty"],
)
def test_a_failed_summary_ends_the_run_without_changes(
    conversation: Ask, server: ModelServer, reply: Reply, code: int
) -> None:
    server.reply(reply, wire.says("AGAIN"))
    assert conversation("compact").code == code
    assert sent_contents(server)[-1] == INSTRUCTION
    assert conversation("-c", "again").code == 0
    assert sent_contents(server) == ["one one one", "ONE ONE ONE", "two", "TWO", "again"]


def test_compact_without_a_conversation_or_without_saving_is_an_error(
    conversation: Ask, home_with_conversation: Home, server: ModelServer
) -> None:
    result = conversation("compact", "0000")
    assert (result.code, result.stderr.count("\n")) == (2, 1)
    home_with_conversation.configure("[history]\nenabled = false\n")
    result = conversation("compact")
    assert (result.code, result.stderr.count("\n")) == (2, 1)
    assert "history.enabled" in result.stderr
    assert not server.requests


# On every wire


@pytest.mark.slow_after_first
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if name in ("deepseek", "lmstudio", "moonshot", "xai") else [])
        for name in SERVICES
    ],
)
def test_every_provider_accepts_the_summary_and_later_messages(
    name: str, home: Home, server: ModelServer, ask: Ask
) -> None:
    service = SERVICES[name]
    env = build_environment(service, server, home)
    command = Ask(env, ask.cwd)
    thought = Reasoning("Pondering.", "cHJpdmF0ZQ==")
    server.reply(
        service.says(thought, "Let me see.", LIST),
        service.says(thought, "Nothing is here, as far as I can see."),
        service.says("Fine."),
        service.says("They looked, and saw nothing."),
        service.says("Well."),
    )
    for arguments in (["what is here?"], ["-c", "good"], ["compact"], ["-c", "and now?"]):
        result = command(*arguments, "-p", name, "-m", service.model)
        assert result.code == 0, result.stderr
    *_, summary, after = (service.read_conversation(request.json) for request in server.requests)
    assert [message.role for message in summary] == ["system", "user", "assistant", "tool", "assistant", "user"]
    assert summary[-1].content == INSTRUCTION
    assert [message.role for message in after] == ["system", "user", "assistant", "user"]
    assert after[1].content == f"{SUMMARY_PREFIX}They looked, and saw nothing.\n\ngood"
    assert "Pondering" not in json.dumps(server.requests[-1].json)


def build_environment(service: Wire, server: ModelServer, home: Home) -> dict[str, str]:
    base = server.base_url.removesuffix("/api/v1") + service.address
    prefix = service.name.upper()
    keys = dict.fromkeys(service.provider.info.key_env, TEST_KEY)
    return {**home.env, **keys, f"{prefix}_BASE_URL": base}


# What stands for what


def make_run(number: int, *texts: str, first_kept_run: int | None = None, tokens: int | None = None) -> Run:
    messages = [Message("user" if place % 2 == 0 else "assistant", text) for place, text in enumerate(texts)]
    entries = tuple(
        HistoryEntry(0, message, usage=Usage(tokens if message.role == "assistant" else None)) for message in messages
    )
    return Run(number, first_kept_run, 0, 0, "1", "p", "m", "", "/", "", 0, "", 0, Usage(), entries)


def test_the_newest_exchange_is_kept_unless_it_is_the_longer_part() -> None:
    short, long = make_run(1, "a" * 100, "b" * 100), make_run(2, "c", "d" * 300)
    assert plan_compaction([short, make_run(2, "c", "d")]).first_kept_run == 2
    assert plan_compaction([short, long]).first_kept_run == 3
    picture = Message("user", "c", attachments=(Attachment("a.png", "image/png", b"1"),))
    with_picture = make_run(2, "c", "d")
    with_picture = with_picture._replace(entries=(HistoryEntry(0, picture), *with_picture.entries[1:]))
    assert plan_compaction([short, with_picture]).first_kept_run == 3
    assert (
        plan_compaction(
            [short, make_run(2, "c", "d"), make_run(3, "INSTRUCTION", "S", first_kept_run=2)]
        ).first_kept_run
        == 4
    )


def test_the_newer_of_two_summaries_is_used() -> None:
    runs = [
        make_run(1, "a", "A"),
        make_run(2, "b", "B"),
        make_run(3, "i", "S", first_kept_run=2),
        make_run(4, "c", "C"),
    ]
    part = plan_compaction(runs)
    assert part.first_kept_run == 4
    assert [message.content for message in part.messages] == [f"{SUMMARY_PREFIX}S", "b", "B"]
    runs.append(make_run(5, "i", "T", first_kept_run=4))
    assert [message.content for message in build_messages(runs)] == [f"{SUMMARY_PREFIX}T", "c", "C"]


def test_the_largest_reported_usage_since_the_summary_counts() -> None:
    runs = [make_run(1, "a", "A", tokens=500), make_run(2, "b", "B", tokens=800), make_run(3, "c", "C", tokens=600)]
    assert find_reported_usage("p", "m", runs, list(build_messages(runs))) == (800, 3)
    assert find_reported_usage("p", "other", runs, list(build_messages(runs))) == (0, 0)
    runs += [make_run(4, "i", "S", first_kept_run=3, tokens=900), make_run(5, "d", "D", tokens=70)]
    assert find_reported_usage("p", "m", runs, list(build_messages(runs))) == (70, 4)
    assert find_reported_usage("p", "m", [], []) == (0, 0)
