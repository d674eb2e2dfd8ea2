"""`ask map --completion-window`: responses that OpenAI makes in the background."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import pytest

from tests.batch_services import build_response, get_prompt, json_reply
from tests.cli.test_map import make_rows, parse, read_output, write_rows
from tests.model_server import DROP, HOLD, Ending, ModelServer, Reply, Request
from tests.program import TEST_KEY, Ask, Home, Result

WINDOW = ("--completion-window", "2h", "--poll-interval", "0.01")
ROOT = "/api/v1/responses"
Run = Callable[..., Result]


class BackgroundService:
    """The service, as the types of OpenAI's SDK have it. A response is complete with its second poll.

    A prompt with "bad" is refused, one with "fail" fails, one with "late" is complete after 30 polls.
    """

    def __init__(self) -> None:
        self.bodies: dict[str, dict[str, Any]] = {}
        self.polls: dict[str, int] = {}
        self.canceled: set[str] = set()
        self.is_paused = False
        self.refusals, self.refusal_status = 0, 429
        self.poll_replies: dict[str, Reply] = {}
        self.missed_polls: dict[str, int] = {}
        self.create_ending: Ending | None = None

    def __call__(self, request: Request) -> Reply:
        path = request.path.removeprefix(ROOT).strip("/")
        if request.method == "POST" and not path:
            return self.create(request.json)
        response_id, _, action = path.partition("/")
        missed = self.missed_polls.get(response_id, 0)
        self.missed_polls[response_id] = missed - 1
        if response_id not in self.bodies or missed > 0:
            return json_reply({"error": {"message": "not found", "type": "invalid_request_error"}}, 404)
        if action == "cancel":
            self.canceled.add(response_id)
        elif response_id in self.poll_replies:
            return self.poll_replies[response_id]
        else:
            self.polls[response_id] += not self.is_paused
        return json_reply(self.describe(response_id))

    def create(self, body: dict[str, Any]) -> Reply:
        if self.refusals:
            self.refusals -= 1
            return json_reply({"error": {"message": "slow down", "type": "rate_limit_error"}}, self.refusal_status)
        assert (body["background"], body["store"]) == (True, True)
        assert body["background_options"] == {"completion_window": "2h"}
        assert not body.get("stream")
        if "bad" in get_prompt(body):
            return json_reply({"error": {"message": "this is bad", "type": "invalid_request_error"}}, 400)
        response_id = f"resp_{len(self.bodies) + 1}"
        self.bodies[response_id], self.polls[response_id] = body, 0
        if self.create_ending:
            ending, self.create_ending = self.create_ending, None
            return Reply((ending,))
        return json_reply(self.describe(response_id))

    def describe(self, response_id: str) -> dict[str, Any]:
        body = self.bodies[response_id]
        prompt, common = get_prompt(body), {"id": response_id, "object": "response", "metadata": body["metadata"]}
        needed = 30 if "late" in prompt else 2
        if response_id in self.canceled:
            return common | {"status": "cancelled", "output": [], "error": None}
        if self.polls[response_id] < needed:
            return common | {"status": "in_progress" if self.polls[response_id] else "queued", "output": []}
        if "fail" in prompt:
            error = {"code": "server_error", "message": "it broke"}
            return common | {"status": "failed", "output": [], "error": error}
        return build_response("/responses", body) | common

    @property
    def prompts(self) -> list[str]:
        return sorted(map(get_prompt, self.bodies.values()))


@pytest.fixture
def service(server: ModelServer, home: Home) -> BackgroundService:
    home.configure("[network]\nbackoff = 0.01\n")
    service = BackgroundService()
    server.reply(service)
    return service


@pytest.fixture
def run(ask: Ask, server: ModelServer) -> Run:
    env = {"OPENAI_API_KEY": TEST_KEY, "OPENAI_BASE_URL": server.base_url}

    def run_map(*arguments: str, **options: Any) -> Result:
        return ask("map", "-p", "openai", "-m", "gpt-6-sol", "Say {{text}}", "in.jsonl", *arguments, env=env, **options)

    return run_map


@pytest.mark.slow
def test_rows_are_answered_in_order(service: BackgroundService, run: Run, home: Home) -> None:
    write_rows(home.work, *make_rows(50), {"id": 99, "text": "word 0"})
    result = run(*WINDOW, "--columns", "all")
    rows = parse(result)
    assert (result.code, len(service.bodies)) == (0, 50), result.stderr
    assert [row["answer"] for row in rows] == [*(f"SAY WORD {number}" for number in range(50)), "SAY WORD 0"]
    assert (rows[0]["input_tokens"], rows[0]["cost"] > 0) == (10, True)
    assert "at most ~$" in result.stderr
    assert (run(*WINDOW, "-O", "o.jsonl").code, len(service.bodies)) == (0, 100), "another output is another job"
    assert (run(*WINDOW, "-O", "o.jsonl").code, len(service.bodies)) == (0, 100)


def test_tools_of_the_service_are_allowed(service: BackgroundService, run: Run, home: Home) -> None:
    write_rows(home.work, *make_rows(1))
    assert run(*WINDOW, "-T", "web_search").code == 0
    assert [tool["type"] for tool in service.bodies["resp_1"]["tools"]] == ["web_search"]


def test_rows_that_fail_do_not_stop_the_others(service: BackgroundService, run: Run, home: Home) -> None:
    write_rows(home.work, *({"text": text} for text in ("a", "bad", "fail", "b")))
    result = run(*WINDOW, "-O", "out.jsonl")
    output = read_output(home.work / "out.jsonl")
    assert (result.code, [row["answer"] for row in output]) == (12, ["SAY A", None, None, "SAY B"]), result.stderr
    assert ("this is bad" in output[1]["error"], "it broke" in output[2]["error"]) == (True, True)
    assert run(*WINDOW, "-O", "out.jsonl", "--retry-failed").code == 12
    assert service.prompts == ["Say a", "Say b", "Say fail", "Say fail"]


def test_the_same_command_collects_the_answers_later(service: BackgroundService, run: Run, home: Home) -> None:
    write_rows(home.work, *make_rows(3))
    service.is_paused = True
    for _ in range(2):
        result = run(*WINDOW, "-O", "out.jsonl", "--detach")
        assert (result.code, len(service.bodies), "3 rows in progress" in result.stderr) == (0, 3, True), result.stderr
    for options in ((), ("--batch",)):
        other = run(*options, "-O", "out.jsonl")
        assert (other.code, "--completion-window" in other.stderr) == (2, True), other.stderr
    service.is_paused = False
    assert run(*WINDOW, "-O", "out.jsonl").code == 0
    assert [row["answer"] for row in read_output(home.work / "out.jsonl")] == [f"SAY WORD {n}" for n in range(3)]
    assert len(service.bodies) == 3


def test_rows_are_canceled_on_request(service: BackgroundService, run: Run, home: Home) -> None:
    write_rows(home.work, *make_rows(3))
    service.is_paused = True
    assert run(*WINDOW, "-O", "out.jsonl", "--detach").code == 0
    result = run(*WINDOW, "-O", "out.jsonl", "--cancel")
    assert (result.code, len(service.canceled)) == (12, 3), result.stderr
    assert all("canceled" in row["error"] for row in read_output(home.work / "out.jsonl"))
    assert run(*WINDOW, "-O", "out.jsonl", "--cancel").code == 2, "there is nothing to cancel"


@pytest.mark.parametrize("ending", [DROP, HOLD])
def test_a_row_that_may_have_been_submitted_is_not_submitted_twice(
    service: BackgroundService, run: Run, home: Home, ending: Ending
) -> None:
    write_rows(home.work, *make_rows(1))
    service.create_ending = ending
    assert run(*WINDOW, "-O", "out.jsonl", "--timeout", "0.5").code == 5
    result = run(*WINDOW, "-O", "out.jsonl")
    assert (result.code, len(service.bodies)) == (12, 1), result.stderr
    assert "--retry-failed" in read_output(home.work / "out.jsonl")[0]["error"]
    assert (run(*WINDOW, "-O", "out.jsonl", "--retry-failed").code, len(service.bodies)) == (0, 2)


def test_rows_that_never_reached_the_service_are_submitted_later(
    service: BackgroundService, run: Run, home: Home, ask: Ask
) -> None:
    write_rows(home.work, *make_rows(3))
    env = {"OPENAI_API_KEY": TEST_KEY, "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}
    command = ("map", "-p", "openai", "-m", "gpt-6-sol", "Say {{text}}", "in.jsonl", *WINDOW)
    assert ask(*command, env=env).code == 5
    assert (run(*WINDOW).code, len(service.bodies)) == (0, 3)


@pytest.mark.slow
def test_kills_submit_no_row_twice(service: BackgroundService, ask: Ask, server: ModelServer, home: Home) -> None:
    write_rows(home.work, *make_rows(400))
    env = {"OPENAI_API_KEY": TEST_KEY, "OPENAI_BASE_URL": server.base_url}
    command = ("map", "-p", "openai", "-m", "gpt-6-sol", "Say {{text}}", "in.jsonl", *WINDOW, "-O", "out.jsonl")
    for count in (30, 150, 320):
        with ask.start(*command, env=env) as running:
            server.wait_for_requests(count, 30)
            running.process.kill()
            running.process.wait(10)
    assert ask(*command, env=env).code in (0, 12)
    assert len(service.bodies) == len(set(service.prompts))
    answers = [row["answer"] for row in read_output(home.work / "out.jsonl")]
    assert answers.count(None) <= 3 * 16, "those in flight at each kill"


def test_a_rate_limit_delays_the_rows(service: BackgroundService, run: Run, home: Home) -> None:
    write_rows(home.work, *make_rows(20))
    service.refusals = 25
    assert (run(*WINDOW).code, len(service.bodies)) == (0, 20)


@pytest.mark.slow
def test_few_requests_find_what_is_complete(
    service: BackgroundService, run: Run, home: Home, server: ModelServer
) -> None:
    """Rows that take long do not hide others that are complete, and not all rows are asked for each time."""
    write_rows(home.work, *({"text": f"late {number}"} for number in range(40)), *make_rows(40))
    service.is_paused = True
    assert run(*WINDOW, "-O", "out.jsonl", "--detach").code == 0
    polls = sum(request.method == "GET" for request in server.requests)
    assert polls <= 16
    service.is_paused = False
    assert (run(*WINDOW, "-O", "out.jsonl").code, len(service.bodies)) == (0, 80)


@pytest.mark.parametrize(
    "arguments",
    [
        ("-p", "openrouter", "-m", "m"),
        ("-p", "openai", "-m", "gpt-6-sol", "-o", "service_tier=flex"),
        ("-p", "openai", "-m", "gpt-6-sol", "--batch"),
        ("-p", "openai", "-m", "gpt-6-sol", "--tools"),
        ("-p", "openai", "-m", "gpt-6-sol", "--max-cost", "1"),
    ],
)
def test_what_does_not_work_is_refused_before_anything_is_sent(
    service: BackgroundService, ask: Ask, server: ModelServer, home: Home, arguments: tuple[str, ...]
) -> None:
    write_rows(home.work, *make_rows(1))
    env = {"OPENAI_API_KEY": TEST_KEY, "OPENAI_BASE_URL": server.base_url}
    result = ask("map", *arguments, *WINDOW, "Say {{text}}", "in.jsonl", env=env)
    assert (result.code, "--completion-window" in result.stderr, server.requests) == (2, True, []), result.stderr


HTML = b"<html><body>Sign in</body></html>"


@pytest.mark.slow_after_first
@pytest.mark.parametrize(
    "reply",
    [
        json_reply({}),
        json_reply(None),
        json_reply([]),
        json_reply({"id": "resp_other", "status": "completed", "output": []}),
        Reply((HTML,), content_type="text/html"),
        Reply((HTML,), 404, content_type="text/html"),
        json_reply({"error": {"message": "it broke", "type": "server_error"}}, 500),
        json_reply({"error": {"message": "slow down", "type": "rate_limit_error"}}, 429),
    ],
    ids=["empty", "null", "list", "other", "html", "html-404", "500", "429"],
)
def test_an_answer_that_is_no_response_loses_no_row(
    service: BackgroundService, run: Run, home: Home, reply: Reply
) -> None:
    write_rows(home.work, *make_rows(30))
    service.poll_replies = {"resp_1": reply}
    for _ in range(3):  # each collects what is complete, and ends because of the one that cannot be read
        failed = run(*WINDOW, "-O", "out.jsonl", "--wait", "0")
        assert (failed.code != 0, len(service.bodies)) == (True, 30), failed.stderr
    assert sorted(service.polls.values()) == [0, *[2] * 29], "the others are collected"
    service.poll_replies = {}
    result = run(*WINDOW, "-O", "out.jsonl")
    assert (result.code, len(service.bodies)) == (0, 30), result.stderr
    assert [row["answer"] for row in read_output(home.work / "out.jsonl")] == [f"SAY WORD {n}" for n in range(30)]


def test_a_response_is_missing_only_after_several_polls(service: BackgroundService, run: Run, home: Home) -> None:
    write_rows(home.work, *({"text": text} for text in ("late 1", "late 2", "a")))
    service.missed_polls = {"resp_1": 1_000, "resp_2": 10}
    detached = run(*WINDOW, "-O", "out.jsonl", "--detach")
    assert (detached.code, "leave out --detach" in detached.stderr) == (6, True), detached.stderr
    assert run(*WINDOW, "-O", "out.jsonl").code == 12
    unanswered = [row["text"] for row in read_output(home.work / "out.jsonl") if row["answer"] is None]
    assert [f"Say {text}" for text in unanswered] == [get_prompt(service.bodies["resp_1"])]


def test_rows_that_an_overloaded_service_refuses_are_submitted_later(
    service: BackgroundService, run: Run, home: Home
) -> None:
    write_rows(home.work, *make_rows(3))
    service.refusals, service.refusal_status = 1_000, 529
    failed = run(*WINDOW, "-O", "out.jsonl", "--wait", "0")
    assert (failed.code, len(service.bodies)) == (5, 0), failed.stderr
    service.refusals = 0
    result = run(*WINDOW, "-O", "out.jsonl")
    assert (result.code, len(service.bodies)) == (0, 3), result.stderr


@pytest.mark.slow
def test_ctrl_c_fails_no_row(service: BackgroundService, ask: Ask, server: ModelServer, home: Home) -> None:
    write_rows(home.work, *make_rows(400))
    env = {"OPENAI_API_KEY": TEST_KEY, "OPENAI_BASE_URL": server.base_url}
    command = ("map", "-p", "openai", "-m", "gpt-6-sol", "Say {{text}}", "in.jsonl", *WINDOW, "-O", "out.jsonl")
    for count in (20, 70, 120, 170, 220, 270):
        with ask.start(*command, env=env) as running:
            server.wait_for_requests(count, 30)
            running.signal(signal.SIGINT)
            assert running.process.wait(10) == 130
    assert ask(*command, env=env).code == 0
    assert len(service.bodies) == len(set(service.prompts))
    assert all(row["answer"] for row in read_output(home.work / "out.jsonl"))
