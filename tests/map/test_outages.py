"""A service that fails for a while: `ask map` pauses, probes and continues."""

from __future__ import annotations

import json
import random
import resource
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from ask.errors import ProviderError
from ask.map.outages import OutageMonitor
from tests import wire
from tests.model_server import DROP, ModelServer, Reply, Request
from tests.program import Ask, Home
from tests.raw_server import constant_reply_server, make_certificate
from tests.slow_parameters import mark_others_slow

COMMAND = ("map", "-p", "openrouter", "-m", "vendor/model", "Say {{line}}", "-O", "out.jsonl")
BACKOFF = 0.01
QUIET_SECONDS = 10 * BACKOFF
PAGE = Reply((b"<html><title>Bad gateway</title></html>",), content_type="text/html")

OUTAGES: dict[str, Callable[[], Reply]] = {
    "500": lambda: wire.fails(500),
    "503": lambda: wire.fails(503),
    "522": lambda: wire.fails(522),
    "dropped": lambda: Reply((DROP,)),
    "page": lambda: PAGE,
    "page with 403": lambda: Reply(PAGE.steps, 403, "text/html"),
    # Traefik without a server behind it: https://doc.traefik.io/traefik/getting-started/faq/#404-not-found
    "text with 404": lambda: Reply((b"404 page not found\n",), 404, "text/plain"),
    "no body": Reply,
    "no answer": lambda: wire.whole_reply({"choices": []}),
    "login page": lambda: Reply(status=302, headers={"Location": "https://login.example/"}),
    "not JSON": lambda: Reply((b"upstream connect error",), content_type="text/plain"),
}


def get_prompt(request: Request) -> str:
    return str(request.json["messages"][-1]["content"])


def echo(request: Request) -> Reply:
    return wire.whole_reply(wire.answer(get_prompt(request).upper()))


class Service:
    """Answers rows, apart from outages; some rows always fail."""

    def __init__(self, server: ModelServer, failure: Callable[[], Reply], poison: tuple[str, ...] = ()) -> None:
        self.answered: Counter[str] = Counter()
        self.failed: list[tuple[float, str]] = []
        self.is_up = False
        self._outages: list[tuple[int, float]] = []
        self._failure, self.poison = failure, poison
        self._down_until = 0.0
        self._lock = threading.Lock()
        self.serve(server)

    def serve(self, server: ModelServer) -> None:
        """Answer the requests to a server."""
        server.reply(self._reply)

    def fail_after(self, count: int, seconds: float) -> None:
        """Fail for some time once that many rows are answered."""
        self._outages.append((count, seconds))

    def _reply(self, request: Request) -> Reply:
        if request.method == "GET":
            return wire.whole_reply({"data": []})  # the list of models
        if len(request.body) < int(request.headers["Content-Length"]):
            return Reply((DROP,))  # ask was killed while it sent the request
        now, prompt = time.monotonic(), get_prompt(request)
        time.sleep(0.005)
        with self._lock:
            if self._outages and self.answered.total() >= self._outages[0][0]:
                self._down_until = now + self._outages.pop(0)[1]
            if (now < self._down_until and not self.is_up) or prompt in self.poison:
                self.failed.append((now, prompt))
                return self._failure()
            self.answered[prompt] += 1
        return echo(request)


@pytest.fixture(autouse=True)
def quick_retries(home: Home) -> None:
    home.configure(f"[network]\nbackoff = {BACKOFF}\n")


def write_rows(home: Home, count: int) -> str:
    (home.work / "in.txt").write_text("".join(f"row {number}\n" for number in range(count)))
    return "in.txt"


def read_output(home: Home) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (home.work / "out.jsonl").read_text().splitlines()]


@pytest.mark.slow_after_first
@pytest.mark.parametrize("kind", mark_others_slow(list(OUTAGES), ["500", "dropped"]))
def test_an_outage_fails_no_row(ask: Ask, server: ModelServer, home: Home, kind: str) -> None:
    service = Service(server, OUTAGES[kind])
    service.fail_after(40, 20 * QUIET_SECONDS)
    result = ask(*COMMAND, write_rows(home, 150))
    # It takes some seconds to find out that a server that drops connections does not expect HTTPS: the outage may
    # be over by then.
    is_announced = "answered again" in result.stderr and len(result.stderr.splitlines()) == 3
    assert (result.code, is_announced or kind == "dropped") == (0, True), result.stderr
    assert service.answered == {f"Say row {number}": 1 for number in range(150)}
    assert [row["answer"] for row in read_output(home)] == [f"SAY ROW {number}" for number in range(150)]
    late = [moment for moment, _ in service.failed if moment > service.failed[-1][0] - 3 * QUIET_SECONDS]
    assert len(late) < 6 or kind == "dropped", "only probes"


@pytest.mark.slow
def test_rows_survive_the_restart_of_a_server(ask: Ask, home: Home) -> None:
    with ExitStack() as stack:
        with ModelServer() as first:
            service = Service(first, lambda: wire.fails(503))
            env = {"OPENROUTER_BASE_URL": first.base_url}
            running = stack.enter_context(
                ask.start(*COMMAND, write_rows(home, 1000), "-j", "8", "--rpm", "12000", env=env)
            )
            first.wait_for_requests(50)
        time.sleep(3 * QUIET_SECONDS)
        second = stack.enter_context(ModelServer(urlsplit(first.base_url).port or 0))
        service.serve(second)
        result = running.finish(30)
    assert (result.code, "no answers since" in result.stderr) == (0, True), result.stderr
    assert [row["answer"] for row in read_output(home)] == [f"SAY ROW {number}" for number in range(1000)]


@pytest.mark.parametrize(
    ("base_url", "word"), [("http://127.0.0.1:9/v1", "refused"), ("https://no-host.invalid/v1", "host")]
)
def test_a_service_that_never_answered_is_not_waited_for(ask: Ask, home: Home, base_url: str, word: str) -> None:
    result = ask(*COMMAND, write_rows(home, 50), env={"OPENROUTER_BASE_URL": base_url})
    assert (result.code, word in result.stderr) == (5, True), result.stderr
    assert "no answers since" not in result.stderr


@pytest.mark.parametrize("answer", [{"type": "message", "content": [], "stop_reason": "end_turn"}, {"status": "ok"}])
def test_a_server_of_another_api_is_not_waited_for(
    ask: Ask, server: ModelServer, home: Home, answer: dict[str, Any]
) -> None:
    server.reply(*[wire.whole_reply(answer)] * 50)
    result = ask(*COMMAND, write_rows(home, 50), "-j", "4")
    assert (result.code, "base URL" in result.stderr, len(server.requests) <= 8) == (6, True, True), result.stderr


@pytest.mark.needs("openssl")
def test_an_untrusted_certificate_stops_the_job(ask: Ask, home: Home, tmp_path: Path) -> None:
    with constant_reply_server(b"", make_certificate(tmp_path)) as https_server:
        env = {"OPENROUTER_BASE_URL": f"https://{https_server.address}/v1"}
        result = ask(*COMMAND, write_rows(home, 50), env=env)
    assert (result.code, "certificate" in result.stderr, "0 rows" in result.stderr) == (5, True, True), result.stderr


@pytest.mark.parametrize(
    ("status", "message"),
    [
        *((status, "The model `vendor/model` does not exist") for status in (402, 404, 400)),
        (403, "Workspace monthly budget of $500.00 exceeded."),
        (403, "Key limit exceeded (total limit)."),
        (403, "Country, region, or territory not supported"),
        (403, "vendor/model is not available in your region."),
        (400, "User location is not supported for the API use."),
        (404, "vendor/model is an image generation model and cannot be used with the chat/completions endpoint."),
        (404, "No endpoints found that support the requested output modalities: image, text"),
    ],
)
def test_what_no_row_survives_stops_the_job(
    ask: Ask, server: ModelServer, home: Home, status: int, message: str
) -> None:
    service = Service(server, lambda: wire.fails(status, message))
    service.fail_after(10, 60)
    result = ask(*COMMAND, write_rows(home, 100), "-j", "4")
    assert (result.code, len(service.failed) <= 4) == (6, True), result.stderr


@pytest.mark.parametrize(
    ("status", "error"),
    [
        # https://openrouter.ai/docs/api_reference/limits#in-flight-spending-budget
        (402, {"message": "In flight.", "metadata": {"limit_source": "openrouter_in_flight_budget"}}),
        (404, {"message": "No endpoints found.", "availability": {"code": "no_endpoints", "retryable": True}}),
    ],
)
def test_what_ends_by_itself_does_not_stop_the_job(
    ask: Ask, server: ModelServer, home: Home, status: int, error: dict[str, Any]
) -> None:
    service = Service(server, lambda: wire.whole_reply({"error": error}, status))
    service.fail_after(10, 5 * BACKOFF)
    result = ask(*COMMAND, write_rows(home, 40), "-j", "4")
    assert (result.code, len(read_output(home)), bool(service.failed)) == (0, 40, True), result.stderr


def test_a_probe_that_is_not_answered_is_waited_for_without_polling(ask: Ask, server: ModelServer, home: Home) -> None:
    def fail() -> Reply:
        if service.failed[-1][0] > service.failed[0][0] + 2 * QUIET_SECONDS:  # a probe
            time.sleep(2)
        return wire.fails(503)

    service = Service(server, fail)
    service.fail_after(2, 10 * QUIET_SECONDS)
    before = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
    result = ask(*COMMAND, write_rows(home, 10), "-j", "1")
    wakeups = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw - before
    assert (result.code, wakeups < 500) == (0, True), result.stderr


@pytest.mark.slow_after_first
@pytest.mark.parametrize("wait", ["0", "0.3s"])
def test_the_wait_for_a_service_has_an_end(ask: Ask, server: ModelServer, home: Home, wait: str) -> None:
    service = Service(server, lambda: wire.fails(503))
    service.fail_after(40, 60)
    command = (*COMMAND, write_rows(home, 100))
    result = ask(*command, "--wait", wait)
    assert (result.code, "503" in result.stderr, "same command" in result.stderr) == (5, True, True), result.stderr
    assert len(read_output(home)) >= 40 - 32
    service.is_up = True
    assert ask(*command).code == 0, "no row has failed"
    assert service.answered == {f"Say row {number}": 1 for number in range(100)}


@pytest.mark.parametrize("wait", ["", "x", "-1", "5 parsecs", "99999d"])
def test_an_invalid_wait_is_refused(ask: Ask, server: ModelServer, home: Home, wait: str) -> None:
    result = ask(*COMMAND, write_rows(home, 2), "--wait", wait)
    assert (result.code, server.requests) == (2, [])


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--unordered",)])
def test_rows_that_always_fail_do_not_pause_the_others(
    ask: Ask, server: ModelServer, home: Home, options: tuple[str, ...]
) -> None:
    poison = tuple(f"Say row {number}" for number in (0, 30, 57, 58, 59))
    service = Service(server, lambda: wire.fails(500), poison)
    command = (*COMMAND, write_rows(home, 60), *options)
    result = ask(*command)
    assert (result.code, len(result.stderr.splitlines())) == (12, 2), result.stderr
    assert Counter(prompt for _, prompt in service.failed) == dict.fromkeys(poison, 5)
    assert sum(row["answer"] is None for row in read_output(home)) == 5
    again = ask(*command, "-j", "1")
    assert (again.code, len(service.failed)) == (12, 50), again.stderr  # the next run does not wait for them, either
    service.poison = ()
    assert ask(*command).code == 0, "they are sent again without --retry-failed"
    assert service.answered == {f"Say row {number}": 1 for number in range(60)}


@pytest.mark.slow_after_first
@pytest.mark.parametrize("answered", [40, 130])
def test_an_outage_after_the_last_row_was_sent_fails_no_row(
    ask: Ask, server: ModelServer, home: Home, answered: int
) -> None:
    service = Service(server, lambda: wire.fails(500))
    service.fail_after(answered, 20 * QUIET_SECONDS)
    result = ask(*COMMAND, write_rows(home, 150), "-j", "128")
    assert (result.code, "no answers since" in result.stderr) == (0, True), result.stderr
    assert service.answered == {f"Say row {number}": 1 for number in range(150)}


def test_many_last_rows_that_always_fail_stop_only_one_run(ask: Ask, server: ModelServer, home: Home) -> None:
    service = Service(server, lambda: wire.fails(500))
    service.fail_after(40, 600)
    command = (*COMMAND, write_rows(home, 60), "-j", "60")
    stopped = ask(*command, "--wait", "0.2s")
    assert (stopped.code, "500" in stopped.stderr) == (5, True), stopped.stderr
    again = ask(*command)
    assert (again.code, "20 failed" in again.stderr, "no answers" in again.stderr) == (12, True, False), again.stderr
    assert sum(row["answer"] is None for row in read_output(home)) == 20
    service.is_up = True
    assert ask(*command).code == 0
    assert service.answered == {f"Say row {number}": 1 for number in range(60)}


def test_a_service_that_fails_for_each_row_from_the_first_one_on_is_not_waited_for(
    ask: Ask, server: ModelServer, home: Home
) -> None:
    Service(server, lambda: wire.fails(500), tuple(f"Say row {number}" for number in range(20)))
    result = ask(*COMMAND, write_rows(home, 20), "-j", "20")
    assert (result.code, "20 failed" in result.stderr, "no answers" in result.stderr) == (12, True, False), (
        result.stderr
    )


def test_rows_are_not_the_reason_if_the_service_fails_in_another_way_at_the_end(
    ask: Ask, server: ModelServer, home: Home
) -> None:
    service = Service(
        server, lambda: wire.fails(500 if time.monotonic() < service.failed[0][0] + 5 * QUIET_SECONDS else 503)
    )
    service.fail_after(40, 60)
    result = ask(*COMMAND, write_rows(home, 60), "-j", "60", "--wait", "1.5s")
    assert (result.code, "503" in result.stderr.splitlines()[-1]) == (5, True), result.stderr
    [job] = json.loads(ask("map", "--list", "--json").text)
    assert (job["answered"], job["failed"]) == (40, 0)


@pytest.mark.parametrize(("answers", "failures", "expected"), [(1, 4, True), (1, 3, False), (0, 20, False)])
def test_last_tries_wait_while_many_rows_fail_after_an_answer(answers: int, failures: int, *, expected: bool) -> None:
    outage = OutageMonitor(0.5, 60)
    outage.note_start(0)
    for _ in range(answers):
        outage.note_answer(1)
    for position in range(failures):
        outage.note_failure(position, ProviderError("it failed", 500), is_first=True, failed_earlier=False)
    assert outage.is_suspected == outage.should_pause(10, has_other_rows=False) == expected


@pytest.mark.parametrize(
    "reply",
    [
        Reply((b"404 page not found\n",), 404, "text/plain"),
        Reply((b"Method Not Allowed\n",), 405, "text/plain"),
        Reply((b"<html><title>405 Not Allowed</title></html>",), 405, "text/html"),
        Reply((b'{"detail": "Method Not Allowed"}',), 405),
        Reply(status=302, headers={"Location": "https://login.example/"}),
    ],
)
def test_a_wrong_address_stops_the_job(ask: Ask, server: ModelServer, home: Home, reply: Reply) -> None:
    server.reply(reply)
    result = ask(*COMMAND, write_rows(home, 100), "-j", "4")
    assert (result.code, len(server.requests) <= 4) == (6, True), result.stderr


def test_a_row_that_no_endpoint_accepts_fails_alone(ask: Ask, server: ModelServer, home: Home) -> None:
    # https://github.com/nexu-io/nexu/issues/875
    refusal = wire.fails(404, "No endpoints found that support image input")
    server.reply(lambda request: refusal if get_prompt(request) == "Say row 3" else echo(request))
    assert ask(*COMMAND, write_rows(home, 6)).code == 12
    assert [row["answer"] is None for row in read_output(home)] == [False] * 3 + [True] + [False] * 2


@pytest.mark.parametrize(("bad_rows", "status"), [(1, 400), (6, 400), (6, 200)])
def test_an_answer_that_cannot_be_parsed_fails_only_its_row(
    ask: Ask, server: ModelServer, home: Home, bad_rows: int, status: int
) -> None:
    # Groq: https://github.com/pydantic/pydantic-ai/issues/2759
    error = {"message": "Failed to call a function.", "code": "tool_use_failed", "status_code": 400}
    bad = {f"Say row {number}" for number in range(bad_rows)}
    counts: Counter[str] = Counter()

    def reply(request: Request) -> Reply:
        prompt = get_prompt(request)
        counts[prompt] += 1
        is_parsed = prompt not in bad or (prompt == "Say row 0" and counts[prompt] == 2)
        return echo(request) if is_parsed else wire.whole_reply({"error": error}, status)

    server.reply(reply)
    assert ask(*COMMAND, write_rows(home, 6)).code == (0 if bad_rows == 1 else 12)
    assert (counts["Say row 0"], counts["Say row 1"]) == (2, 1 if bad_rows == 1 else 2)


@pytest.mark.slow
@pytest.mark.parametrize("kills", [2, 25])
def test_kills_in_an_outage_lose_no_row(ask: Ask, server: ModelServer, home: Home, kills: int) -> None:
    rows, jobs, generator = 40 * kills, 8, random.Random(3)
    service = Service(server, lambda: wire.fails(503))
    for number in range(kills):
        service.fail_after(30 * (number + 1), 0.5)
    command = (*COMMAND, write_rows(home, rows), "-j", str(jobs))
    for _ in range(kills):
        with ask.start(*command) as running:
            time.sleep(generator.uniform(0.3, 0.9))
            running.process.kill()
            running.process.wait(10)
    assert ask.process(*command, timeout=60).code == 0
    assert [row["answer"] for row in read_output(home)] == [f"SAY ROW {number}" for number in range(rows)]
    assert set(service.answered) == {f"Say row {number}" for number in range(rows)}
    assert service.answered.total() <= rows + kills * jobs


@pytest.mark.slow
def test_an_outage_fails_no_row_with_tools(ask: Ask, server: ModelServer, home: Home) -> None:
    service = Service(server, lambda: wire.fails(503))
    service.fail_after(4, 3.0)
    result = ask.process(*COMMAND, write_rows(home, 16), "--tools", "-j", "4", timeout=60)
    assert (result.code, len(service.answered)) == (0, 16), result.stderr
    assert "no answers since" in result.stderr
