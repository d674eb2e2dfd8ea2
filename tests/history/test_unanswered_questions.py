"""A question that was refused, or that failed, is not sent again by itself, and its conversation goes on."""

from __future__ import annotations

import json
import signal
import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import wire
from tests.model_server import DROP, HOLD, ModelServer, Reply, Request
from tests.program import TEST_KEY, Ask, Home, Result, make_home
from tests.provider_wires import SERVICES, Wire
from tests.sample_files import PHOTO
from tests.saved_history import history_file, read_saved_runs, write_tables

pytestmark = pytest.mark.usefixtures("quick_retries")

WIRES = ("openrouter", "openai", "anthropic", "gemini", "ollama")
IMAGE_ERRORS: dict[str, tuple[int, Any]] = {
    "openrouter": (400, {"error": {"message": "Provider returned error", "code": 400}}),
    "openai": (
        400,
        {"error": {"message": "The image data you provided does not represent a valid image.", "param": "input"}},
    ),
    "anthropic": (400, {"type": "error", "error": {"type": "invalid_request_error", "message": "Could not process"}}),
    "gemini": (
        400,
        {"error": {"code": 400, "message": "Unable to process input image.", "status": "INVALID_ARGUMENT"}},
    ),
    "ollama": (400, {"error": "invalid image input"}),
}


def choose(ask: Ask, server: ModelServer, name: str) -> tuple[Ask, Wire]:
    """Return `ask` with this provider and an image-reading model, and the provider's wire."""
    service = SERVICES[name]
    root = server.base_url.removesuffix("/api/v1") + service.address
    model = {"openrouter": "openai/gpt-4o", "ollama": "llava"}.get(name, service.model)
    env = {f"{name.upper()}_API_KEY": TEST_KEY, f"{name.upper()}_BASE_URL": root, "ASK_PROVIDER": name}
    return Ask({**ask.env, **env, "ASK_MODEL": model}, ask.cwd), service


def asked(service: Wire, server: ModelServer, place: int = -1) -> list[str]:
    """Return what a request contains besides the system prompt."""
    return [message.content for message in service.read_conversation(server.requests[place].json)[1:]]


def sent(server: ModelServer, place: int = -1) -> list[str]:
    return asked(SERVICES["openrouter"], server, place)


# Refused messages


@pytest.mark.slow_after_first
@pytest.mark.parametrize("name", WIRES)
def test_a_refused_image_does_not_poison_its_conversation(ask: Ask, server: ModelServer, home: Home, name: str) -> None:
    ask, service = choose(ask, server, name)
    (ask.cwd / "photo.png").write_bytes(PHOTO.data)
    server.reply(service.says("Hello."))
    identity = ask("hi").conversation
    server.reply(service.refuses(*IMAGE_ERRORS[name]), service.says("Fine."))
    refused = ask("-c", "-f", "photo.png", "what is this?")
    assert refused.code == 6, refused.stderr
    result = ask("-c", "one")
    assert (result.text, result.code) == ("Fine.\n", 0), result.stderr
    assert result.stderr.count("what is this?") == 1
    assert asked(service, server) == ["hi", "Hello.", "one"]
    quiet = ask("--resume", identity, "two")
    assert (quiet.code, quiet.stderr) == (0, ""), "the notice comes once"
    assert asked(service, server) == ["hi", "Hello.", "one", "Fine.", "two"]
    assert "refused" in ask("history", "show", identity).text
    assert [run.status for run in read_saved_runs(home)] == ["", "refused", "", ""]


@pytest.mark.parametrize("name", WIRES)
def test_a_refused_first_message_leaves_an_empty_conversation(ask: Ask, server: ModelServer, name: str) -> None:
    ask, service = choose(ask, server, name)
    (ask.cwd / "photo.png").write_bytes(PHOTO.data)
    server.reply(service.refuses(*IMAGE_ERRORS[name]), service.says("Fine."))
    assert ask("-f", "photo.png", "what is this?").code == 6
    compacted = ask("compact")
    assert (compacted.code, "nothing to summarize" in compacted.stderr) == (2, True)
    lines = ask("chat", "-c", stdin=b"one\ntwo\n")
    assert (lines.text, lines.code) == ("Fine.\nFine.\n", 0), lines.stderr
    assert lines.stderr.count("what is this?") == 1
    assert asked(service, server) == ["one", "Fine.", "two"]


@pytest.mark.slow_after_first
@pytest.mark.parametrize("name", WIRES)
def test_a_conversation_with_a_refused_message_is_summarized(ask: Ask, server: ModelServer, name: str) -> None:
    ask, service = choose(ask, server, name)
    (ask.cwd / "photo.png").write_bytes(PHOTO.data)
    server.reply(service.says("Hello."), service.says("Yes."))
    ask("hi")
    ask("-c", "really?")
    server.reply(service.refuses(*IMAGE_ERRORS[name]), service.says("They met."), service.says("Fine."))
    ask("-c", "-f", "photo.png", "what is this?")
    assert ask("compact").code == 0
    assert "what is this?" not in "".join(asked(service, server))
    assert ask("-c", "one").code == 0
    assert "They met." in asked(service, server)[0]


@pytest.mark.parametrize("options", [(), ("--no-save",)])
def test_a_refused_line_of_piped_input_is_not_sent_with_the_next(
    ask: Ask, server: ModelServer, options: tuple[str, ...]
) -> None:
    server.reply(wire.says("Hello."), wire.fails(400), wire.says("Fine."))
    result = ask("chat", *options, stdin=b"hi\nbad\ngood\n")
    assert (result.text, result.code) == ("Hello.\nFine.\n", 6)
    assert "'bad'" in result.stderr
    assert sent(server) == ["hi", "Hello.", "good"]


BLOCKED = {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": {"promptTokenCount": 5}}


def test_a_blocked_prompt_of_gemini_is_refused(ask: Ask, server: ModelServer, home: Home) -> None:
    ask, service = choose(ask, server, "gemini")
    server.reply(wire.whole_reply(BLOCKED), service.says("Fine."))
    assert ask("--no-stream", "something bad").code == 10
    assert ask("-c", "one").code == 0
    assert asked(service, server) == ["one"]
    assert [run.status for run in read_saved_runs(home)] == ["refused", ""]


@pytest.mark.parametrize(
    ("status", "message", "is_refused"),
    [
        (400, "it failed", True),
        (422, "input.0: value error", True),
        (413, "request entity too large", True),
        (400, "The response was filtered due to the prompt triggering content management policy", True),
        (400, "This model does not support image input", True),
        (404, "No endpoints found that support image input", True),
        (403, "this model requires moderation; your input was flagged for violence", True),
        (403, "This request was blocked by our safety systems. Reason: Potentially unintended activity.", True),
        (403, "your key may not use this", False),
        (404, "No endpoints found for test/model", False),
        (400, "test/model is not a valid model ID", False),
        (400, "The model `gpt-image-9` does not exist", True),
        (400, "Unsupported parameter: 'max_tokens'", False),
        (400, "max_tokens: 200000 > 8192, which is the maximum", False),
        (400, "Invalid schema for function 'bash': bad", False),
        (400, "tools.0.custom.input_schema: invalid", False),
        (401, "no auth", False),
        (402, "pay", False),
        (429, "slow down", False),
        (503, "overloaded", False),
        (400, "prompt is too long: 209353 tokens > 200000 maximum", True),
    ],
)
def test_what_counts_as_refused(
    *, status: int, message: str, is_refused: bool, ask: Ask, server: ModelServer, home: Home
) -> None:
    server.reply(wire.fails(status, message))
    assert ask("hi").code in (6, 7)
    assert [run.status for run in read_saved_runs(home)] == ["refused" if is_refused else ""]


def test_a_refused_option_keeps_the_question(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.fails(400, "temperature must be at most 1"), wire.says("Fine."))
    assert ask("-o", "temperature=2", "hi").code == 7
    result = ask("-c", "one")
    assert sent(server) == ["one"]
    assert f"ask --resume {result.conversation} --unanswered" in result.stderr


def test_refused_tool_results_are_replaced(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(wire.calls(("bash", {"command": "echo rude"})), wire.fails(400, "content_filter"), wire.says("Fine."))
    assert ask("run it").code == 6
    assert ask("-c", "one").code == 0
    question, call, result, following = sent(server)
    assert (question, call, following) == ("run it", "", "one")
    assert "refused" in result
    assert "rude" not in result
    assert "rude" in ask("history", "show", "--tools").text


def test_a_failure_between_two_rounds_keeps_the_tool_results(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.calls(("bash", {"command": "echo rude"})), wire.fails(401), wire.says("Fine."))
    assert ask("run it").code == 6
    assert ask("-c", "one").code == 0
    assert "rude" in sent(server)[2]


def test_a_message_that_is_too_long_is_not_sent_again(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("Hello."))
    ask("hi")
    server.reply(wire.fails(400, "context_length_exceeded"), wire.fails(400, "context_length_exceeded"))
    assert ask("-c", "word " * 3_000).code == 6
    server.reply(wire.says("Fine."))
    count = len(server.requests)
    result = ask("-c", "one")
    assert (result.text, len(server.requests)) == ("Fine.\n", count + 1)
    assert sent(server) == ["hi", "Hello.", "one"]


def test_a_correction_that_failed_is_not_sent_again(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("Unknown."), wire.fails(401), wire.says("Fine."))
    assert ask("--schema", "age int", "how old?").code == 6
    assert ask("-c", "one").code == 0
    assert sent(server) == ["how old?", "Unknown.", "one"]


def test_files_that_another_model_accepted_are_left_out(ask: Ask, server: ModelServer) -> None:
    ask, service = choose(ask, server, "openai")
    (ask.cwd / "photo.png").write_bytes(PHOTO.data)
    server.reply(service.says("A cat."))
    assert ask("-f", "photo.png", "what is this?").code == 0
    server.reply(service.refuses(400, {"error": {"message": "this model cannot read images"}}), service.says("Fine."))
    result = ask("-c", "-m", "gpt-5-small", "one")
    assert (result.text, result.code) == ("Fine.\n", 0)
    assert "without the files" in result.stderr
    assert PHOTO.base64 in json.dumps(server.requests[-2].json)
    body = json.dumps(server.requests[-1].json)
    assert PHOTO.base64 not in body
    assert "photo.png" in body


def reads_no_photos(request: Request, service: Wire) -> Reply:
    """Refuse the photo for one model; answer everything else."""
    if request.json["model"] == "gpt-5-small" and PHOTO.base64 in json.dumps(request.json):
        return service.refuses(400, {"error": {"message": "this model cannot read images"}})
    return service.says("Fine.")


def test_a_refused_file_is_not_sent_to_that_model_again(ask: Ask, server: ModelServer) -> None:
    ask, service = choose(ask, server, "openai")
    (ask.cwd / "photo.png").write_bytes(PHOTO.data)
    server.reply(partial(reads_no_photos, service=service))
    ask("-f", "photo.png", "what is this?")
    small = ("-m", "gpt-5-small")
    counts = []
    for arguments in (
        ["-c", *small, "one"],
        ["-c", *small, "two"],
        ["compact", *small],
        ["-c", *small, "three"],
    ):
        count = len(server.requests)
        assert ask(*arguments).code == 0
        counts.append(len(server.requests) - count)
    assert counts == [2, 1, 1, 1]


def test_a_fallback_gets_the_files_that_the_first_model_refused(ask: Ask, server: ModelServer) -> None:
    ask, service = choose(ask, server, "openai")
    (ask.cwd / "photo.png").write_bytes(PHOTO.data)
    server.reply(service.says("A cat."))
    assert ask("-f", "photo.png", "what is this?").code == 0
    refusal = service.refuses(400, {"error": {"message": "this model cannot read images"}})
    failure = service.refuses(500, {"error": {"message": "broken"}})
    server.reply(refusal, *[failure] * 4, service.says("Fine."))
    assert ask("-c", "-m", "gpt-5-small", "--fallback", "gpt-5", "one").code == 0
    assert [PHOTO.base64 in json.dumps(request.json) for request in server.requests[1:]] == [True, *[False] * 4, True]
    server.reply(refusal, service.says("Fine."))
    assert ask("-c", "-m", "gpt-5-small", "two").code == 0
    assert [PHOTO.base64 in json.dumps(request.json) for request in server.requests[-2:]] == [True, False], (
        "not learned"
    )


@pytest.mark.parametrize("way", ["another model", "attached again", "imported", "another conversation"])
def test_a_refused_file_is_remembered_with_its_message_and_model(
    ask: Ask, server: ModelServer, home: Home, way: str
) -> None:
    ask, service = choose(ask, server, "openai")
    (ask.cwd / "photo.png").write_bytes(PHOTO.data)
    server.reply(partial(reads_no_photos, service=service))
    identity = ask("-f", "photo.png", "what is this?").conversation
    small = ("-m", "gpt-5-small")
    assert ask("-c", *small, "one").code == 0
    count = len(server.requests)
    match way:
        case "another model":
            assert ask("-c", "-m", service.model, "two").code == 0
            expected = [True]
        case "attached again":
            server.reply(service.says("A cat."))
            assert ask("-c", *small, "-f", "photo.png", "and now?").code == 0
            assert ask("-c", *small, "two").code == 0
            expected = [True, True]
        case "imported":
            exported = ask("history", "export", identity, "--format", "json").text
            assert ask("history", "delete", "--yes", identity).code == 0
            assert ask("history", "import", stdin=exported.encode()).code == 0
            assert ask("--resume", identity, *small, "two").code == 0
            expected = [False]
        case _:
            assert ask("-f", "photo.png", "what is this?").code == 0
            assert ask("-c", *small, "two").code == 0
            expected = [True, True, False]
    assert [PHOTO.base64 in json.dumps(request.json) for request in server.requests[count:]] == expected


# Unanswered questions


def test_an_unanswered_question_is_sent_only_on_request(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(wire.says("Hello."))
    identity = ask("hi").conversation
    server.reply(*[wire.fails(503)] * 4, wire.says("Fine."))
    assert ask("-c", "lost").code == 6
    result = ask("-c", "one")
    assert sent(server) == ["hi", "Hello.", "one"]
    assert f"ask --resume {identity} --unanswered" in result.stderr
    assert ask("-c", "two").stderr == "", "the notice comes once"
    assert ask("--resume", identity, "--unanswered").code == 0
    assert sent(server) == ["hi", "Hello.", "one", "Fine.", "two", "Fine.", "lost"]
    again = ask("--resume", identity, "--unanswered")
    assert (again.code, "no unanswered question" in again.stderr) == (2, True)
    assert [run.replaced_by for run in read_saved_runs(home)] == [None, 5, None, None, None]


def test_an_unanswered_question_is_sent_with_the_next(ask: Ask, server: ModelServer) -> None:
    (ask.cwd / "photo.png").write_bytes(PHOTO.data)
    ask, service = choose(ask, server, "anthropic")
    server.reply(*[service.refuses(529, {"error": {"type": "overloaded_error", "message": "busy"}})] * 4)
    assert ask("-f", "photo.png", "what is this?").code == 6
    server.reply(service.says("Fine."))
    assert ask("-c", "--unanswered", "and that?").code == 0
    assert asked(service, server) == ["what is this?\n\nand that?"]
    assert PHOTO.base64 in json.dumps(server.requests[-1].json)
    assert ask("-c", "one").stderr == ""
    assert asked(service, server) == ["what is this?\n\nand that?", "Fine.", "one"]


def test_without_a_question_the_unanswered_one_is_shown(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.fails(401))
    ask("lost")
    result = ask("--resume", "1")
    assert (result.code, "lost" in result.stderr) == (2, True)
    assert ask("--unanswered", "hi").code == 2


@pytest.mark.parametrize(("answer", "expected"), [("y\n", ["lost\n\none"]), ("n\n", ["one"]), ("\n", ["one"])])
def test_on_a_terminal_the_user_decides(ask: Ask, server: ModelServer, answer: str, expected: list[str]) -> None:
    server.reply(wire.fails(401), wire.says("Fine."))
    session = {"ASK_SESSION": "a"}
    assert ask("lost", env=session).code == 6
    result = ask.on_terminal("-c", "one", env=session, answers=[("Send the unanswered question too? [y/N] ", answer)])
    assert result.code == 0
    assert sent(server) == expected
    assert "continuing without" not in result.text
    assert "Send the" not in ask.on_terminal("-c", "two", env=session).text


def test_reasoning_that_could_be_sent_back_is_no_answer(ask: Ask, server: ModelServer) -> None:
    details = {"reasoning_details": [{"type": "reasoning.text", "text": "Hm.", "signature": "x", "index": 0}]}
    server.reply(
        wire.streams(wire.chunk({"reasoning": "Hm."} | details), wire.finish(), wire.usage()), wire.says("Fine.")
    )
    assert ask("hi").code == 10
    assert ask("-c", "one").code == 0
    assert sent(server) == ["one"]


def test_a_killed_run_leaves_an_unanswered_question(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.streams(HOLD), wire.says("Fine."))
    with ask.start("lost") as running:
        server.wait_for_requests(1)
        running.signal(signal.SIGKILL)
        running.finish()
    result = ask("-c", "one")
    assert sent(server) == ["one"]
    assert "lost" in result.stderr


def test_a_question_that_another_run_is_answering_may_not_be_unanswered(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.streams(HOLD), wire.says("Fine."))
    with ask.start("slow") as running:
        server.wait_for_requests(1)
        result = ask("-c", "one")
        running.signal(signal.SIGINT)
        running.finish()
    assert (sent(server), "'slow', which another run" in result.stderr) == (["one"], True), result.stderr
    assert "another run" not in ask("-c", "two").stderr


def test_the_notice_is_an_event(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.fails(400), wire.says("Fine."))
    ask("bad")
    events = [json.loads(line) for line in ask("-c", "--events", "one").text.splitlines()]
    [notice] = [event for event in events if event["type"] == "notice"]
    assert "'bad'" in json.dumps(notice)


def test_an_imported_conversation_behaves_alike(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(wire.says("Hello."), wire.fails(400), wire.fails(401), wire.says("Fine."))
    identity = ask("hi").conversation
    ask("-c", "bad")
    ask("-c", "lost")
    exported = ask("history", "export", "--json").stdout
    ask("history", "delete", "-y", identity)
    assert ask("history", "import", stdin=exported).code == 0
    assert ask("history", "export", "--json").stdout == exported
    assert ask("--resume", identity, "--unanswered", "one").code == 0
    assert sent(server) == ["hi", "Hello.", "lost\n\none"]


# Any sequence

OUTCOMES = ("answered", "used tools", "interrupted", "refused", "failed", "too long", "stopped in a tool loop")


def script_outcome(outcome: str, question: str) -> list[Reply]:
    """Return the replies to a question with this outcome."""
    call = wire.calls(("bash", {"command": f"echo {question}"}))
    partial = wire.streams(wire.text(f"Partly {question}"), DROP)
    return {
        "answered": [wire.says(f"Answer {question}.")],
        "used tools": [call, wire.says(f"Answer {question}.")],
        "interrupted": [partial],
        "refused": [wire.fails(400, "your input was flagged")],
        "failed": [wire.fails(401, "no auth")],
        "too long": [wire.fails(400, "context_length_exceeded")] * 9,
        "stopped in a tool loop": [call, wire.fails(401, "no auth")],
    }[outcome]


def expected_messages(outcome: str, question: str) -> list[tuple[str, str]]:
    """Return what later requests contain of a question with this outcome."""
    calls = [("assistant", ""), ("tool", f"exit code: 0\nstdout:\n{question}\n")]
    return {
        "answered": [("user", question), ("assistant", f"Answer {question}.")],
        "used tools": [("user", question), *calls, ("assistant", f"Answer {question}.")],
        "interrupted": [("user", question), ("assistant", f"Partly {question}")],
        "stopped in a tool loop": [("user", question), *calls],
    }.get(outcome, [])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["commands", "lines", "unsaved lines"])
@given(outcomes=st.lists(st.sampled_from(OUTCOMES), min_size=1, max_size=6))
@settings(max_examples=15)
def test_each_request_contains_exactly_what_was_answered(kind: str, outcomes: list[str]) -> None:
    service = SERVICES["openrouter"]
    questions = [f"q{number}" for number in range(len(outcomes))]
    with TemporaryDirectory() as folder, ModelServer() as server:
        home = make_home(Path(folder))
        home.configure("[network]\ntries = 1\n")
        ask = Ask({**home.env, "OPENROUTER_API_KEY": TEST_KEY, "OPENROUTER_BASE_URL": server.base_url}, home.work)
        replies: list[Reply] = []

        def answer(request: Request) -> Reply:
            asked_last = [message for message in service.read_conversation(request.json) if message.role == "user"][-1]
            heard.setdefault(asked_last.content, [(str(m.role), m.content) for m in service.read(request.json)][1:])
            if last_question[-1:] != [asked_last.content]:
                last_question.append(asked_last.content)
                number = questions.index(asked_last.content) if asked_last.content in questions else None
                replies[:] = (
                    [wire.says("End.")] if number is None else script_outcome(outcomes[number], questions[number])
                )
            return replies.pop(0) if len(replies) > 1 else replies[0]

        heard: dict[str, list[tuple[str, str]]] = {}
        last_question: list[str] = []
        server.reply(answer)
        if kind == "commands":
            for number, question in enumerate(questions):
                ask(*["-c"][:number], question)
            ask("-c", "end")
        else:
            lines = "\n".join([*questions, "end"]).encode()
            ask("chat", *["--no-save"][: kind.startswith("unsaved")], stdin=lines)
    expected: list[tuple[str, str]] = []
    for outcome, question in zip(outcomes, questions, strict=True):
        assert heard[question] == [*expected, ("user", question)]
        expected += expected_messages(outcome, question)
    assert heard["end"] == [*expected, ("user", "end")]


# Earlier versions


def write_earlier_version(file: Path, directory: str) -> None:
    """Write a history of the version before runs had a status, with the conversation `abc`."""
    runs = [("one", None, 6), ("1b", "", 130), ("two", "Hello.", 0), ("bad", None, 6), ("worse", "", None)]
    file.parent.mkdir(parents=True)
    with closing(sqlite3.connect(file)) as connection, connection:
        write_tables(connection, 3)
        connection.execute("INSERT INTO conversations VALUES (1, 'abc', 'one', 1, 1)")
        for number, (question, answer, exit_code) in enumerate(runs, 1):
            connection.execute(
                "INSERT INTO runs (number, conversation, started, version, provider, model, system, directory, "
                "terminal, exit_code) VALUES (?, 1, 1, '0', 'openrouter', 'test/model', '', ?, '', ?)",
                (number, directory, exit_code),
            )
            for role, text in (("user", question), ("assistant", answer)):
                if text is not None:  # an empty one is an answer of which only reasoning arrived
                    connection.execute(
                        "INSERT INTO messages (run, time, role, content, tool_call_id, tool_name, whole, reasoning, "
                        "finish) VALUES (?, 1, ?, ?, '', '', 1, 'Hm.', '')",
                        (number, role, text),
                    )


def test_a_conversation_that_an_earlier_version_poisoned_goes_on(ask: Ask, server: ModelServer, home: Home) -> None:
    write_earlier_version(history_file(home), str(ask.cwd))
    server.reply(wire.says("Fine."))
    result: Result = ask("-c", "now?")
    assert (result.text, result.code) == ("Fine.\n", 0)
    assert sent(server) == ["one\n\n1b\n\ntwo", "Hello.", "now?"]
    assert "2 unanswered questions" in result.stderr
    assert [run.status for run in read_saved_runs(home)] == ["merged", "merged", "", "", "", ""]


def test_an_export_of_an_earlier_version_is_imported_alike(ask: Ask, server: ModelServer, home: Home) -> None:
    write_earlier_version(history_file(home), str(ask.cwd))
    exported = json.loads(ask("history", "export", "abc", "--format", "json").text)
    for run in exported["runs"]:
        del run["status"]
    text = json.dumps(exported).encode()
    again = ask("history", "import", stdin=text)
    assert (again.code, "already" in again.stderr) == (0, True), "it is the same conversation"
    ask("history", "delete", "-y", "abc")
    assert ask("history", "import", stdin=text).code == 0
    server.reply(wire.says("Fine."))
    assert "2 unanswered questions" in ask("--resume", "abc", "now?").stderr
    assert sent(server) == ["one\n\n1b\n\ntwo", "Hello.", "now?"]
    assert [run.status for run in read_saved_runs(home)] == ["merged", "merged", "", "", "", ""]


def test_a_damaged_question_with_nothing_but_reasoning_is_left_out(ask: Ask, server: ModelServer, home: Home) -> None:
    write_earlier_version(history_file(home), str(ask.cwd))
    with closing(sqlite3.connect(history_file(home))) as connection, connection:
        connection.execute("UPDATE messages SET role = 'developer' WHERE content = 'worse'")
    server.reply(wire.says("Fine."))
    result = ask("-c", "now?")
    assert (result.text, result.code, "damaged" in result.stderr) == ("Fine.\n", 0, True)
    assert sent(server) == ["one\n\n1b\n\ntwo", "Hello.", "now?"]


def test_an_unanswered_question_belongs_to_a_conversation(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.fails(401, "no"))
    ask("-p", "openrouter", "-m", "test/model", "first")
    alone = ask("--unanswered", "second")
    assert (alone.code, "-c" in alone.stderr) == (2, True)
    shown = ask("-c", "--no-stdin")
    assert (shown.code, "--unanswered" in shown.stderr) == (2, True)
