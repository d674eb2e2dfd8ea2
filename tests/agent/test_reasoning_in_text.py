"""Reasoning that a server leaves in the text of answers: in every output, in the history, and in later requests."""

from __future__ import annotations

import json
import signal
import time
from typing import Any

import pytest

from ask import ToolCall
from tests import wire
from tests.agent.test_compaction import build_environment
from tests.cli.chat.chat_session import Chat, read_conversation
from tests.model_server import HOLD, ModelServer, Reply
from tests.program import Ask, Home
from tests.provider_wires import SERVICES, Reasoning
from tests.saved_history import history_file, read_saved_runs
from tests.screen import render_lines

THOUGHT = "I look.\nOr do I?"
TAGGED = f"<think>\n{THOUGHT}\n</think>\n\n"
LIST = ToolCall("call_1", "list_dir", '{"dirpath": "."}')


def letters(text: str, *, finish: str = "stop") -> Reply:
    """Return an answer that is streamed in single characters."""
    return wire.streams(*map(wire.text, text), wire.finish(finish))


def list_saved_reasoning(home: Home) -> list[str]:
    """Return the reasoning of the saved answers; [] if there is no history yet."""
    if not history_file(home).exists():
        return []
    entries = [entry for run in read_saved_runs(home) for entry in run.entries]
    return [entry.reasoning for entry in entries if entry.message.role == "assistant"]


def ask_json(ask: Ask, *arguments: str, **options: Any) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(ask("--json", *arguments, **options).stdout)
    return result


@pytest.mark.parametrize("whole", [False, True], ids=["streamed", "whole"])
@pytest.mark.parametrize("name", SERVICES)
def test_on_every_wire_reasoning_is_sent_back_only_within_the_run(
    name: str, whole: bool, home: Home, server: ModelServer, ask: Ask
) -> None:
    service = SERVICES[name]
    signed = Reasoning("Signed.", "cHJpdmF0ZQ==")
    server.reply(
        service.says(signed, f"{TAGGED}Let me see.", LIST, whole=whole),
        service.says(f"{TAGGED}Nothing.", whole=whole),
        service.says("Fine.", whole=whole),
    )
    command = Ask(build_environment(service, server, home), ask.cwd)
    options = ["-p", name, "-m", service.model, *(["--no-stream"] if whole else [])]
    first = command(*options, "what is here?")
    assert (first.code, first.text) == (0, "Let me see.\nNothing.\n"), first.stderr
    assert command("-c", *options, "good").text == "Fine.\n"
    within, after = (json.dumps(request.json, ensure_ascii=False) for request in server.requests[1:])
    assert json.dumps(f"{TAGGED}Let me see.", ensure_ascii=False) in within
    assert "Or do I?" not in after
    assert "Let me see." in after
    answers = [entry for entry in read_saved_runs(home)[0].entries if entry.message.role == "assistant"]
    assert [answer.message.content for answer in answers] == ["Let me see.", "Nothing."]
    assert [answer.reasoning.endswith(THOUGHT) for answer in answers] == [True, True]


@pytest.mark.parametrize("reply", [letters, wire.says, lambda text: wire.says(text, whole=True)])
def test_a_pipe_gets_only_the_text(reply: Any, ask: Ask, server: ModelServer) -> None:
    server.reply(reply(f"{TAGGED}Yes."))
    result = ask("hi")
    assert (result.code, result.text, result.stderr) == (0, "Yes.\n", "")


def test_json_has_reasoning_and_text_apart(ask: Ask, server: ModelServer) -> None:
    server.reply(letters(f"{TAGGED}Yes."), letters(f"{TAGGED}Yes."))
    result = ask_json(ask, "hi")
    assert (result["reasoning"], result["text"]) == (THOUGHT, "Yes.")
    *events, last = map(json.loads, ask("--events", "hi").text.splitlines())
    assert (last["reasoning"], last["text"]) == (THOUGHT, "Yes.")
    for kind, expected in (("reasoning", THOUGHT), ("text", "Yes.")):
        assert "".join(event["text"] for event in events if event["type"] == kind) == expected


@pytest.mark.parametrize("begin", ["<think>", ""], ids=["with an opening tag", "without"])
@pytest.mark.parametrize(
    ("options", "answer"),
    [
        (["--cmd"], "ls -l"),
        (["--code"], "x = 1"),
        (["--schema", "name"], '{"name":"Ada"}'),
        (["--no-stream"], "Yes."),
        (["--no-stream", "-t", "commit"], "Fix it"),
    ],
)
def test_reasoning_is_not_in_what_is_printed_at_the_end(
    begin: str, options: list[str], answer: str, ask: Ask, server: ModelServer
) -> None:
    text = f'{begin}I could write `rm` or {{"name": "Bob"}}.\n</think>\n\n{answer}'
    server.reply(wire.says(text, whole="--no-stream" in options))
    result = ask(*options, "hi", stdin=b"diff")
    assert (result.code, "".join(result.text.split(": "))) == (0, f"{answer}\n"), result.stderr


def test_a_closing_tag_alone_counts_without_a_stream_and_not_in_one(ask: Ask, server: ModelServer) -> None:
    text = "I look.</think>\n\nYes."
    server.reply(letters(text))
    result = ask_json(ask, "--no-stream", "hi")
    assert (result["reasoning"], result["text"]) == ("I look.", "Yes.")
    server.reply(letters(text))
    assert ask("hi").text == f"{text}\n"
    assert ask("history", "show").text.endswith(f"{text}\n")


def test_a_profile_says_that_answers_begin_with_reasoning(home: Home, ask: Ask, server: ModelServer) -> None:
    row = '[[providers.openrouter.models]]\npattern = "*"\nbegins_reasoning = true\n'
    home.configure(row)
    server.reply(letters("I look.</think>\n\nYes."), wire.streams(wire.reasoning("Hm."), *wire.stream("Yes.")))
    assert (ask("hi").text, ask("hi").text) == ("Yes.\n", "Yes.\n")


def test_a_tag_that_never_closes_is_text_once(home: Home, ask: Ask, server: ModelServer) -> None:
    text = "<think> is what models write before they answer."
    server.reply(letters(text), letters(text))
    assert ask("hi").text == f"{text}\n"
    result = ask_json(ask, "hi")
    assert (result["reasoning"], result["text"]) == ("", text)
    entries = [run.entries[-1] for run in read_saved_runs(home)]
    assert [(entry.message.content, entry.reasoning) for entry in entries] == [(text, "")] * 2


def test_reasoning_that_the_token_limit_ends_is_no_answer(home: Home, ask: Ask, server: ModelServer) -> None:
    server.reply(letters("<think>I look", finish="length"), letters("Yes."))
    result = ask("hi")
    assert (result.code, result.text) == (10, "")
    assert "reasoning" in result.stderr
    saved = read_saved_runs(home)[0].entries[-1]
    assert (saved.message.content, saved.reasoning, saved.complete) == ("", "I look", False)
    assert "I look" in ask("history", "show", "--json").text
    ask("-c", "again")
    assert [message["role"] for message in server.requests[-1].json["messages"]] == ["system", "user"]


def test_reasoning_before_a_call_need_not_be_closed(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.calls(("bash", {"command": "true"}), content="<think>I look"), wire.says("Done."))
    assert ask("hi").text == "Done.\n"
    assert server.requests[1].json["messages"][-2]["content"] == "<think>I look"


@pytest.mark.slow
def test_a_killed_run_keeps_the_reasoning_so_far(home: Home, ask: Ask, server: ModelServer) -> None:
    server.reply(wire.streams(wire.text("<think>I look"), 2.5, wire.text(" at it"), HOLD))
    with ask.start("hi") as running:
        deadline = time.monotonic() + 20
        while "I look at" not in json.dumps(list_saved_reasoning(home)) and time.monotonic() < deadline:
            time.sleep(0.1)
        running.signal(signal.SIGKILL)
        running.finish()
    assert list_saved_reasoning(home) == ["I look at it"]
    assert "I look at it" in ask("history", "show", "--json").text


@pytest.mark.slow
def test_an_interrupted_run_does_not_print_its_reasoning_as_text(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.streams(wire.text("<think>I look"), HOLD))
    with ask.start("-v", "hi") as running:
        running.wait_for("I look")
        running.signal()
        result = running.finish()
    assert (result.code, result.text) == (130, "")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"{TAGGED}**Yes.**", ["Yes."]),
        ("<think> I **write**.", ["<think> I write."]),
    ],
)
def test_on_a_terminal_reasoning_is_one_line_before_the_text(
    text: str, shown: list[str], ask: Ask, server: ModelServer
) -> None:
    server.reply(letters(text))
    with ask.start_on_terminal("hi") as running:
        result = running.finish()
    assert result.code == 0
    first, *rest = [line for line in render_lines(result.stdout) if line.strip() and "ask: " not in line]
    assert first.startswith("· thought for ")
    assert rest == shown


def test_the_next_message_of_a_chat_leaves_the_reasoning_out(ask: Ask, server: ModelServer) -> None:
    server.reply(letters(f"{TAGGED}Yes."), letters("No."))
    with Chat(ask) as chat:
        chat.send("one")
        chat.send("two")
    assert read_conversation(server.requests[1]) == ["one", "Yes.", "two"]


def test_another_model_does_not_get_the_reasoning(ask: Ask, server: ModelServer) -> None:
    server.reply(
        wire.calls(("bash", {"command": "true"}), content=f"{TAGGED}Let me see."),
        wire.whole_reply(wire.error("no credit", 402), 402),
        wire.says("Done."),
    )
    result = ask("--fallback", "openrouter:v/other", "hi")
    assert result.code == 0, result.stderr
    assert [request.json["messages"][2]["content"] for request in server.requests[1:]] == [
        f"{TAGGED}Let me see.",
        "Let me see.",
    ]


def test_a_recording_is_replayed_with_its_reasoning(ask: Ask, server: ModelServer) -> None:
    answers = (wire.calls(("bash", {"command": "true"}), content=f"{TAGGED}Let me see."), letters(f"{TAGGED}Yes."))
    server.reply(*answers)
    recorded = ask_json(ask, "hi", env={"ASK_RECORD": "hi.jsonl"})
    replayed = ask_json(ask, "hi", env={"ASK_REPLAY": "hi.jsonl"})
    assert recorded["text"] == replayed["text"] == "Let me see.\nYes."
    assert recorded["reasoning"] == replayed["reasoning"]
    assert len(server.requests) == 2


def test_rows_and_compared_answers_have_no_reasoning(home: Home, ask: Ask, server: ModelServer) -> None:
    (home.work / "rows.jsonl").write_text('{"word": "a"}\n{"word": "b"}\n')
    server.reply(lambda _: letters("I look.</think>\n\nYes."))
    rows = ask("map", "-p", "openrouter", "-m", wire.MODEL, "Say {{word}}", "rows.jsonl")
    assert [json.loads(line)["answer"] for line in rows.text.splitlines()] == ["Yes.", "Yes."]
    compared = json.loads(ask("compare", "-p", "openrouter", "-m", "v/a", "-m", "v/b", "hi").stdout)
    assert [answer["text"] for answer in compared["answers"]] == ["Yes.", "Yes."]


def test_text_in_a_code_block_is_untouched(ask: Ask, server: ModelServer) -> None:
    text = "```html\n<think>a</think>\n```"
    server.reply(letters(text), letters(text))
    assert ask("hi").text == f"{text}\n"
    assert ask("--code", "hi").text == "<think>a</think>\n"
