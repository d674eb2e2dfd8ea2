"""What users see when requests fail: the partial answer, the message and the exit code."""

from __future__ import annotations

import gzip
import json
import random
import re
import time
import zlib
from collections.abc import Sequence
from typing import Any

import pytest

from tests import responses_wire, wire
from tests.model_server import DROP, HOLD, RESET, ModelServer, Repeat, Reply
from tests.program import TEST_KEY, Ask, Home, Result, is_running
from tests.providers import anthropic_wire, gemini_wire
from tests.raw_server import constant_reply_server
from tests.sample_answers import ollama_line

pytestmark = pytest.mark.usefixtures("quick_retries")

TOUCH = ("bash", {"command": "touch ran"})
COMMENT = b": OPENROUTER PROCESSING\n\n"
PAGE = b"<!DOCTYPE html><html><head><title>502 Bad\n Gateway</title></head><body>nginx</body></html>"


def check_failure(result: Result, code: int, *expected: str, stdout: str = "", tries: int = 1) -> None:
    """Check the end of a run: a line on stderr per retry, and one that contains each text of `expected`."""
    *retries, line = result.stderr.splitlines()
    assert line.startswith("ask: ")
    assert all(text in line for text in expected), line
    assert (result.code, result.text) == (code, stdout)
    assert len(retries) == tries - 1, retries
    for number, retry in enumerate(retries, start=1):
        assert re.fullmatch(rf"ask: .+ \d+\.\d s \({number} of 3\)", retry), retry
    assert TEST_KEY not in result.stderr + result.text


# No connection


def test_a_refused_connection_on_this_machine_is_reported_at_once(ask: Ask, closed_port: int) -> None:
    result = ask("--base-url", f"http://127.0.0.1:{closed_port}", "hi")
    check_failure(result, 5, f"127.0.0.1:{closed_port}", "connection refused", "base URL")


@pytest.mark.parametrize("url", ["http://localhost:{}", "http://[::1]:{}"])
def test_a_refused_connection_by_another_local_name_is_reported_at_once(ask: Ask, closed_port: int, url: str) -> None:
    result = ask("--base-url", url.format(closed_port), "hi")
    assert (result.code, len(result.stderr.splitlines())) == (5, 1)


def test_a_stopped_local_server_is_reported_with_its_start_command(ask: Ask, closed_port: int) -> None:
    result = ask("-p", "ollama", "-m", "m", "hi", env={"OLLAMA_HOST": f"127.0.0.1:{closed_port}"})
    check_failure(result, 5, f"127.0.0.1:{closed_port}", "connection refused", "ollama serve")


def test_an_unknown_host_is_reported_by_name(ask: Ask) -> None:
    result = ask("--base-url", "http://no-such-host.invalid/v1", "hi")
    check_failure(result, 5, "no-such-host.invalid", "base URL", tries=4)


def test_tls_to_a_plain_server_is_an_error(ask: Ask, server: ModelServer) -> None:
    result = ask("--base-url", server.base_url.replace("http", "https"), "hi")
    check_failure(result, 5, server.base_url.split("/")[2], "TLS", "base URL")


@pytest.mark.parametrize("url", ["nonsense", "http://[::1", "ftp://example.com", "http://exa mple.com"])
def test_an_invalid_base_url_is_a_configuration_error(ask: Ask, url: str) -> None:
    check_failure(ask("--base-url", url, "hi"), 4, f"'{url}'", "http(s)", "base URL")


def test_a_key_with_a_newline_is_an_error_that_does_not_show_it(ask: Ask, server: ModelServer) -> None:
    result = ask("--key", "sk-test\nnonsense", "hi")
    check_failure(result, 4, "the key")
    assert "nonsense" not in result.stderr
    assert server.requests == []


# Timeouts


@pytest.mark.parametrize("steps", [(HOLD,), (b"", HOLD), (Repeat(COMMENT),), (Repeat(b"\n"),)])
def test_an_answer_that_never_comes_times_out(ask: Ask, server: ModelServer, steps: Any) -> None:
    server.reply(Reply(steps))
    check_failure(ask("--timeout", "0.3", "hi"), 5, server.base_url.split("/")[2], "0.3 s", "--timeout")
    assert len(server.requests) == 1


def test_a_stalled_stream_times_out_and_keeps_the_partial_answer(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.streams(wire.text("so far"), HOLD))
    result = ask("--timeout", "0.3", "hi")
    check_failure(result, 10, server.base_url.split("/")[2], "0.3 s", "--timeout", stdout="so far\n")


def test_a_connection_left_open_after_the_answer_does_not_delay_the_exit(ask: Ask, server: ModelServer) -> None:
    server.reply(Reply((wire.sse(*wire.stream("all")), Repeat(COMMENT))))
    result = ask("hi")
    assert (result.code, result.text, result.stderr) == (0, "all\n", "")
    assert result.seconds < 10


# Lost connections


@pytest.mark.parametrize("reply", [Reply((DROP,)), Reply((COMMENT, RESET)), Reply((b"",))])
def test_a_connection_lost_before_the_answer_is_retried(ask: Ask, server: ModelServer, reply: Reply) -> None:
    server.reply(reply, wire.says("here"))
    result = ask("hi")
    assert (result.code, result.text) == (0, "here\n")
    assert re.fullmatch(r"ask: .+ \d\.\d s \(1 of 3\)\n", result.stderr)


def test_a_connection_reset_keeps_the_partial_answer(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.streams(wire.text("so "), wire.text("far"), 0.05, RESET), wire.says("again"))
    check_failure(ask("hi"), 10, server.base_url.split("/")[2], "connection", stdout="so far\n")
    assert len(server.requests) == 1


@pytest.mark.parametrize("ending", [RESET, DROP, b""], ids=["reset", "drop", "end"])
def test_a_call_truncated_by_a_lost_connection_is_not_run(
    ask: Ask, server: ModelServer, home: Home, ending: Any
) -> None:
    begun = wire.call(0, id="call_1", name="bash", arguments='{"command": "touch ran"}')
    server.reply(wire.streams(wire.text("I will."), begun, 0.05, ending, done=False), wire.says("again"))
    check_failure(ask("hi"), 10, stdout="I will.\n")
    assert len(server.requests) == 1
    assert list(home.work.iterdir()) == []


# Temporary failures


@pytest.mark.parametrize("statuses", [(408, 429, 500), (502, 503, 504), (529,)])
def test_temporary_failures_are_retried_with_a_notice_each(
    ask: Ask, server: ModelServer, statuses: tuple[int, ...]
) -> None:
    server.reply(*(wire.fails(status, "busy") for status in statuses), wire.says("here"))
    result = ask("hi")
    assert (result.code, result.text) == (0, "here\n")
    lines = result.stderr.splitlines()
    for number, (line, status) in enumerate(zip(lines, statuses, strict=True), start=1):
        assert all(
            expected in line for expected in ("busy", f"openrouter, {status}", "retrying in 0.", f"{number} of 3")
        )


def test_quiet_hides_retries_but_not_the_error(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.fails(503, "busy"), wire.says("here"))
    assert ask("-q", "hi").stderr == ""
    server.reply(wire.fails(503, "busy"))
    check_failure(ask("-q", "hi"), 6, "busy (openrouter, 503)")


def test_a_long_retry_after_is_reported(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.fails(429, "slow down", headers={"Retry-After": "600"}))
    check_failure(ask("hi"), 6, "slow down (openrouter, 429)", "10.0 min")


def test_retries_are_reported_as_events(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.fails(503, "busy"), wire.says("here"))
    lines = [json.loads(line) for line in ask("--events", "hi").text.splitlines()]
    [notice] = [line["text"] for line in lines if line["type"] == "notice"]
    assert "busy (openrouter, 503)" in notice
    assert "1 of 3" in notice


# Permanent failures

FAILURES = {
    "400": (wire.fails(400, "bad request"), 1, ["bad request (openrouter, 400)"]),
    "401": (wire.fails(401, "no"), 1, ["no (openrouter, 401)", "ask keys"]),
    "402": (wire.fails(402, "no"), 1, ["no (openrouter, 402)", "https://"]),
    "404": (wire.fails(404, "gone"), 1, ["gone (openrouter, 404)", "base URL"]),
    "404 model": (wire.fails(404, "No such model"), 1, ["No such model (openrouter, 404)", "ask models -p openrouter"]),
    "429": (wire.fails(429, "slow"), 4, ["slow (openrouter, 429)"]),
    "500": (wire.fails(500, "oops"), 4, ["oops (openrouter, 500)"]),
    "529": (wire.fails(529, "full"), 4, ["full (openrouter, 529)"]),
    "HTML": (Reply((PAGE,), 502), 4, ["502 Bad Gateway (openrouter, 502)"]),
    "HTML 200": (Reply((PAGE,)), 1, ["502 Bad Gateway (openrouter)", "base URL"]),
    "text": (Reply((b"so\nsorry\n",), 500), 4, ["so sorry (openrouter, 500)"]),
    "nothing": (Reply((b"",), 500), 4, ["(openrouter, 500)"]),
    "redirect": (
        Reply((b"",), 302, headers={"Location": "https://example.com/v2"}),
        1,
        ["https://example.com/v2 (openrouter, 302)", "base URL"],
    ),
    "redirect to no URL": (
        Reply((b"",), 307, headers={"Location": "http://[::1"}),
        1,
        ["redirected to http://[::1 (openrouter, 307)", "base URL"],
    ),
    "list": (Reply((b"[1, 2]",)), 1, ["[1, 2] (openrouter)"]),
}
"""The response of a server, the number of requests, and texts in the message and its hint."""


@pytest.mark.parametrize("name", FAILURES)
def test_failures_are_one_line_with_a_hint(ask: Ask, server: ModelServer, name: str) -> None:
    reply, tries, expected = FAILURES[name]
    server.reply(reply)
    check_failure(ask("hi"), 6, *expected, tries=tries)
    assert sum(request.method == "POST" for request in server.requests) == tries  # a GET is for the models list


ANSWER = wire.sse(wire.text("yes"), wire.finish())
HEADERS = b"Content-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n" % len(ANSWER)


def ask_raw_server(ask: Ask, reply: bytes) -> Result:
    with constant_reply_server(reply) as server:
        return ask("--base-url", f"http://{server.address}", "hi")


def test_informational_responses_are_skipped(ask: Ask) -> None:
    early = b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n"
    result = ask_raw_server(ask, early + b"HTTP/1.1 200 OK\r\n" + HEADERS + ANSWER)
    assert (result.code, result.text) == (0, "yes\n")


def test_unusable_headers_of_a_response_are_not_blamed_on_the_key(ask: Ask) -> None:
    result = ask_raw_server(ask, b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n" + HEADERS + ANSWER)
    check_failure(result, 5, "127.0.0.1", "invalid header", "base URL")


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("deflate", zlib.compress(b"data: [DONE]")),
        ("gzip, gzip", gzip.compress(gzip.compress(b"data: [DONE]", mtime=0), mtime=0)),
        ("deflate, gzip", gzip.compress(zlib.compress(b"data: [DONE]"), mtime=0)),
    ],
)
def test_an_encoding_that_was_not_requested_is_reported(
    ask: Ask, server: ModelServer, encoding: str, body: bytes
) -> None:
    server.reply(Reply((body,), headers={"Content-Encoding": encoding}))
    check_failure(ask("hi"), 5, "127.0.0.1", f"compressed with {encoding}", "base URL")


@pytest.mark.parametrize("body", [b"", b" \n", b": OPENROUTER PROCESSING\n\n", b"event: x\n", b"\xef\xbb\xbfdat"])
def test_an_empty_response_is_an_error(ask: Ask, server: ModelServer, body: bytes) -> None:
    server.reply(Reply((body,)))
    check_failure(ask("hi"), 10, tries=4)


STRAYS = {
    b"null": "null",
    b"42": "42",
    b'"hello"': '"hello"',
    b"hello\x1b[2J\r\n\r\n  world\n": r"hello\x1b[2J world",
    b"x" * 3000: "x" * 199 + "…",
}


@pytest.mark.parametrize("options", [(), ("--no-stream",)], ids=["stream", "complete"])
@pytest.mark.parametrize("body", STRAYS)
def test_an_unexpected_body_is_shown_and_not_retried(
    ask: Ask, server: ModelServer, body: bytes, options: tuple[str, ...]
) -> None:
    server.reply(Reply((body[:3], body[3:])))
    check_failure(ask(*options, "hi"), 6, f" {STRAYS[body]} (openrouter)", "base URL")
    assert len(server.requests) == 1


@pytest.mark.parametrize(("body", "expected"), [(b"null", "null"), (b"<title>Login</title>", "Login")])
@pytest.mark.parametrize("options", [(), ("--no-stream",)], ids=["stream", "complete"])
def test_an_unexpected_stream_body_is_shown(
    ask: Ask, server: ModelServer, body: bytes, expected: str, options: tuple[str, ...]
) -> None:
    server.reply(Reply((body,)))
    result = ask("-p", "ollama", "-m", "m", *options, "hi", env={"OLLAMA_BASE_URL": server.base_url})
    check_failure(result, 6, expected, "(ollama)", "base URL")


RESPONSE = responses_wire.response(responses_wire.message("hello"))
GEMINI = gemini_wire.whole(gemini_wire.text("hello"))
API_ANSWERS = {
    "chat": ("Chat Completions", wire.says("hello", whole=True), wire.says("hello")),
    "messages": (
        "Messages",
        wire.whole_reply(anthropic_wire.message_of({"type": "text", "text": "hello"})),
        anthropic_wire.says("hello"),
    ),
    "responses": (
        "Responses",
        wire.whole_reply(RESPONSE),
        responses_wire.streams(*responses_wire.events(RESPONSE)),
    ),
    "gemini": ("Gemini", wire.whole_reply(GEMINI), wire.streams(GEMINI)),
    "ollama": ("Ollama", wire.whole_reply(ollama_line(done=True, content="hello"))),
}
"""The title of each API, and answers in its format: complete and, if it is sent as server-sent events, streamed."""
API_PROVIDERS = {"chat": "openrouter", "messages": "anthropic", "gemini": "gemini", "ollama": "ollama"}
OTHER_ANSWERS = [
    pytest.param(used, found, reply, id=f"{found} for {used}, {'streamed' if i else 'complete'}")
    for used in API_PROVIDERS
    for found, (_, *replies) in API_ANSWERS.items()
    for i, reply in enumerate(replies[:1] if used == "ollama" else replies)
    if found != used
]


@pytest.mark.parametrize(("used", "found", "reply"), OTHER_ANSWERS)
def test_an_answer_of_another_api_is_named_and_not_retried(
    ask: Ask, server: ModelServer, used: str, found: str, reply: Reply
) -> None:
    server.reply(reply)
    provider, title = API_PROVIDERS[used], API_ANSWERS[found][0]
    env = {f"{provider.upper()}_API_KEY": TEST_KEY, f"{provider.upper()}_BASE_URL": server.base_url}
    result = ask("-p", provider, "-m", "m", "hi", env=env)
    setting = f'api = "{found}"' if found != "ollama" else ""
    check_failure(result, 6, f"format of the {title} API", "base URL", setting)
    assert len(server.requests) == 1


def test_an_empty_answer_of_the_same_api_is_not_taken_for_another(ask: Ask, server: ModelServer) -> None:
    message = {"role": "assistant", "content": "", "reasoning_details": [{"type": "message"}]}
    server.reply(wire.whole_reply({"choices": [{"message": message}]}))
    check_failure(ask("hi"), 10, "empty")


SAID = wire.text("so far")
LATE_ERRORS = {
    "beside the finish": (SAID, wire.chunk(finish="error") | wire.error("it failed", 400)),
    "without choices": (SAID, {"choices": []} | wire.error("it failed", 400)),
    "alone": (SAID, wire.error("it failed", 400)),
    "behind comments, without an end": (COMMENT, COMMENT, wire.error("it failed", 400)),
    "inside the usage": (SAID, wire.finish("length"), wire.usage() | wire.error("it failed", 400)),
}


@pytest.mark.parametrize("name", LATE_ERRORS)
def test_an_error_in_a_stream_keeps_the_partial_answer(ask: Ask, server: ModelServer, home: Home, name: str) -> None:
    chunks = LATE_ERRORS[name]
    server.reply(wire.streams(*chunks, done="without an end" not in name))
    check_failure(ask("hi"), 6, "it failed (openrouter, 400)", stdout="so far\n" if SAID in chunks else "")
    assert len(server.requests) == 1


def test_a_call_followed_by_a_stream_error_is_not_run(ask: Ask, server: ModelServer, home: Home) -> None:
    *calls, _ = wire.stream(None, [TOUCH])
    server.reply(wire.streams(*calls, wire.error("it failed", 502)))
    check_failure(ask("hi"), 6, "it failed (openrouter, 502)")
    assert list(home.work.iterdir()) == []


@pytest.mark.parametrize("content", ["", "so far"])
@pytest.mark.parametrize("beside", [True, False])
def test_an_error_in_a_complete_response_keeps_the_partial_answer(
    ask: Ask, server: ModelServer, content: str, beside: bool
) -> None:
    answer = wire.answer(content, [TOUCH] if content else [])
    if beside:
        answer |= wire.error("it failed", 400)
    else:
        answer["choices"][0] |= wire.error("it failed", 400)
    server.reply(wire.whole_reply(answer))
    check_failure(ask("--no-stream", "hi"), 6, "it failed (openrouter, 400)", stdout=f"{content}\n" if content else "")


def test_a_model_without_tool_support_is_asked_again_without_tools(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.fails(404, "No endpoints found that support tool use"), wire.says("here"))
    result = ask("hi")
    assert (result.code, result.text) == (0, "here\n")
    assert ["tools" in request.json for request in server.requests] == [True, False]
    [line] = result.stderr.splitlines()
    assert re.search(r"No endpoints found that support tool use \(openrouter, 404\).*without", line)


# Parameters


def test_a_rejected_parameter_has_its_own_exit_code(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.fails(400, "Unsupported parameter: 'top_k'"))
    check_failure(ask("-o", "top_k=3", "hi"), 7, "Unsupported parameter: 'top_k' (openrouter, 400)")
    check_failure(ask("hi"), 6, "Unsupported parameter: 'top_k' (openrouter, 400)")


def test_a_parameter_out_of_range_is_not_sent(ask: Ask, server: ModelServer) -> None:
    check_failure(ask("-o", "temperature=3", "hi"), 7, "temperature", "3", "from 0 to 2")
    assert server.requests == []


# Ctrl-C


@pytest.mark.parametrize(
    "steps",
    [
        *((HOLD,), (Repeat(COMMENT),)),
        *(pytest.param(one, marks=pytest.mark.slow) for one in ((b"", HOLD), (b"\n", HOLD), (b'{"choices": [', HOLD))),
    ],
)
def test_ctrl_c_while_waiting_ends_at_once(ask: Ask, server: ModelServer, steps: Any) -> None:
    server.reply(Reply(steps))
    with ask.start("hi") as running:
        server.wait_for_requests(1)
        running.signal()
        result = running.finish()
    check_failure(result, 130, "interrupted")
    server.wait_for_abandoned()
    assert len(server.requests) == 1


def test_ctrl_c_while_streaming_keeps_the_partial_answer(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.streams(wire.text("so far"), wire.stream(None, [TOUCH])[0], HOLD))
    with ask.start("hi") as running:
        running.wait_for("so far")
        running.signal()
        check_failure(running.finish(), 130, "interrupted", stdout="so far\n")
    assert list(ask.cwd.iterdir()) == []


def test_ctrl_c_after_an_error_prevents_the_retry(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.streams(wire.error("busy", 503), HOLD), wire.says("here"))
    with ask.start("hi") as running:
        server.wait_for_requests(1)
        time.sleep(0.2)
        running.signal()
        check_failure(running.finish(), 130, "interrupted")
    assert len(server.requests) == 1


def test_ctrl_c_during_a_backoff_pause_ends_at_once(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.fails(503, "busy", headers={"Retry-After": "50"}))
    with ask.start("hi") as running:
        running.wait_for("retrying")
        running.signal()
        result = running.finish()
    retry, end = result.stderr.splitlines()
    assert all(expected in retry for expected in ("busy (openrouter, 503)", "50.0 s", "1 of 3"))
    assert end == "ask: interrupted"
    assert (result.code, result.text, len(server.requests)) == (130, "", 1)


def test_ctrl_c_while_a_command_runs_kills_it_and_its_children(ask: Ask, server: ModelServer) -> None:
    command = "sleep 300 & (setsid sleep 301 & echo $! > last); echo $! $$ >> last; mv last pids; wait"
    server.reply(wire.calls(("bash", {"command": command}), TOUCH, content="Let me see."))
    with ask.start("hi") as running:
        while not (ask.cwd / "pids").exists():
            time.sleep(0.01)
        running.signal()
        result = running.finish()
    assert (result.code, result.text) == (130, "Let me see.\n")
    assert result.stderr.splitlines()[-1] == "ask: interrupted"
    pids = [int(pid) for pid in (ask.cwd / "pids").read_text().split()]
    assert [is_running(pid) for pid in pids] == [False, False, False]
    assert not (ask.cwd / "ran").exists()


IMPORTS_TOLD = {"PYTHONPROFILEIMPORTTIME": "1"}
"""Makes Python report imports on stderr, and thereby that `ask` has started. A signal before that, while
Python itself starts, cannot be handled by any program."""

DROPPED_BY_PYTHON = re.compile(r"Exception ignored in: <function _get_module_lock.*?\nKeyboardInterrupt: \n", re.DOTALL)
"""Python's import system very rarely drops a KeyboardInterrupt with this message."""


@pytest.mark.parametrize(
    ("argument", "moments"),
    [
        ("hi", range(0, 12, 4)),
        pytest.param("hi", range(12), marks=pytest.mark.slow),
        pytest.param("--version", range(12), marks=pytest.mark.slow),
    ],
)
def test_ctrl_c_during_startup_is_quiet(ask: Ask, server: ModelServer, argument: str, moments: Sequence[int]) -> None:
    server.reply(wire.says("here"))
    for moment in moments:
        with ask.start(argument, env=IMPORTS_TOLD) as running:
            running.wait_for("| ask.errors\n")
            time.sleep(random.uniform(0, 0.006) * moment)
            running.signal()
            result = running.finish()
        lines = DROPPED_BY_PYTHON.sub("", result.stderr).splitlines()
        assert [line for line in lines if not line.startswith("import time:")] in ([], ["ask: interrupted"])
        assert result.code in (0, 130)
