"""Rows are shared among several servers by who is free; one that fails is left out for a while."""

from __future__ import annotations

import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from urllib.parse import urlsplit

import pytest

from ask.errors import NetworkError, ProviderError, RetryAction
from ask.map.server_pool import ServerPool
from tests import wire
from tests.map.test_outages import COMMAND, read_output, write_rows
from tests.model_server import DROP, ModelServer, Reply, Request
from tests.program import Ask, Home

pytestmark = pytest.mark.usefixtures("quick_retries")


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def make_script(seconds: float) -> Callable[[Request], Reply]:
    def script(request: Request) -> Reply:
        if len(request.body) < int(request.headers["Content-Length"]):
            return Reply((DROP,))  # the server was stopped while it read the request
        time.sleep(seconds)
        return wire.whole_reply(wire.answer(str(request.json["messages"][-1]["content"]).upper()))

    return script


def start(stack: ExitStack, seconds: float = 0.005) -> ModelServer:
    server = stack.enter_context(ModelServer())
    server.reply(make_script(seconds))
    return server


def find_closed_url() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}/api/v1"


def name_servers(*servers: ModelServer | str) -> tuple[str, ...]:
    urls = [server if isinstance(server, str) else server.base_url for server in servers]
    return tuple(word for url in urls for word in ("--base-url", url))


def assert_complete(home: Home, count: int) -> None:
    assert [row["answer"] for row in read_output(home)] == [f"SAY ROW {number}" for number in range(count)]


@pytest.mark.slow
def test_a_slow_server_gets_fewer_rows(ask: Ask, home: Home, stack: ExitStack) -> None:
    fast, slow = start(stack, 0.01), start(stack, 0.3)
    result = ask(*COMMAND, write_rows(home, 300), "-j", "8", *name_servers(slow, fast))
    assert result.code == 0
    assert_complete(home, 300)
    counts = [len(fast.requests), len(slow.requests)]
    assert sum(counts) == 300
    assert counts[0] > 5 * counts[1] > 0


@pytest.mark.slow
def test_a_dead_server_costs_few_retries(ask: Ask, home: Home, stack: ExitStack) -> None:
    servers = [start(stack), start(stack)]
    dead = find_closed_url()
    result = ask(*COMMAND, write_rows(home, 200), "-j", "8", *name_servers(dead, *servers), "--columns", "all")
    assert result.code == 0
    assert_complete(home, 200)
    address = urlsplit(dead).netloc
    assert [address in line for line in result.stderr.splitlines()] == [True, False], "it is named once"
    assert all(len(server.requests) > 20 for server in servers)
    assert Counter(row["tries"] for row in read_output(home)) == {1: 200}


@pytest.mark.slow
def test_a_server_that_dies_and_returns_is_used_again(ask: Ask, home: Home, stack: ExitStack) -> None:
    stable, first = start(stack, 0.02), ModelServer()
    with first:
        first.reply(make_script(0.02))
        options = (write_rows(home, 600), "-j", "8", *name_servers(first, stable))
        running = stack.enter_context(ask.start(*COMMAND, *options))
        first.wait_for_requests(30)
    stable.wait_for_requests(120)
    second = stack.enter_context(ModelServer(urlsplit(first.base_url).port or 0))
    second.reply(make_script(0.02))
    result = running.finish(30)
    assert result.code == 0, result.stderr
    assert_complete(home, 600)
    assert len(second.requests) > 20
    assert "answers again" in result.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "failure",
    [
        lambda: wire.fails(503),
        lambda: Reply((DROP,)),
        lambda: wire.fails(500),
        lambda: Reply((b"404 page not found\n",), 404, "text/plain"),
    ],
)
def test_a_failing_server_is_left_out(ask: Ask, home: Home, stack: ExitStack, failure: Callable[[], Reply]) -> None:
    good, bad = start(stack, 0.01), stack.enter_context(ModelServer())
    bad.reply(lambda _: failure())
    result = ask(*COMMAND, write_rows(home, 300), "-j", "8", *name_servers(bad, good))
    assert result.code == 0, result.stderr
    assert_complete(home, 300)
    assert len(bad.requests) < 40
    assert urlsplit(bad.base_url).netloc in result.stderr


def test_if_no_server_can_be_reached_the_job_stops(ask: Ask, home: Home) -> None:
    result = ask(*COMMAND, write_rows(home, 20), *name_servers(find_closed_url(), find_closed_url()))
    assert (result.code, len(result.stderr.splitlines())) == (5, 2), result.stderr


@pytest.mark.slow
def test_if_all_servers_fail_for_a_while_the_job_waits(ask: Ask, home: Home, stack: ExitStack) -> None:
    servers = [stack.enter_context(ModelServer()) for _ in range(2)]
    begin = time.monotonic()

    def script(request: Request) -> Reply:
        is_down = 0.1 < time.monotonic() - begin < 1
        return wire.fails(503) if is_down else make_script(0.005)(request)

    for server in servers:
        server.reply(script)
    result = ask(*COMMAND, write_rows(home, 200), "-j", "8", *name_servers(*servers))
    assert (result.code, "no answers since" in result.stderr) == (0, True), result.stderr
    assert_complete(home, 200)


@pytest.mark.slow
def test_rows_with_tools_share_the_servers(ask: Ask, home: Home, stack: ExitStack) -> None:
    servers = [start(stack), start(stack)]
    options = ("--tools", "-j", "2", *name_servers(*servers))
    result = ask.process(*COMMAND, write_rows(home, 6), *options)
    assert result.code == 0, result.stderr
    counts = [len(server.requests) for server in servers]
    assert (sum(counts), min(counts) > 0) == (6, True)


def test_each_server_is_checked_first(ask: Ask, home: Home, server: ModelServer) -> None:
    result = ask(*COMMAND, write_rows(home, 2), *name_servers(server, "ftp://gpu2.lan"))
    assert (result.code, server.requests) == (4, [])


A, B = "http://me:secret@a:1/v1", "http://b/v1"
REFUSED = NetworkError("cannot connect (connection refused)", offline=True)
REFUSED.__cause__ = OSError("Connection refused")


def find_opening(pool: ServerPool, now: float) -> float:
    """Return when server A gets a row again. The row is in flight then."""
    while True:
        for _ in range(2):  # servers that are equally free take turns
            if pool.acquire(now) == A:
                return now
            pool.release(now, B, None, sent=now)
        now += 0.25


def test_the_time_without_rows_doubles_up_to_a_minute() -> None:
    notices: list[str] = []
    pool, intervals = ServerPool([A, B], 0.5, notices.append), list[float]()
    now = find_opening(pool, 100.0)
    for _ in range(8):
        pool.release(now, A, REFUSED, sent=now)
        opening = find_opening(pool, now)
        intervals.append(opening - now)
        now = opening
    assert intervals == [1, 2, 4, 8, 16, 32, 60, 60]
    assert [("a:1" in notice, "secret" in notice) for notice in notices] == [(True, False)]
    assert [pool.acquire(now) for _ in range(3)] == [B, B, B], "one row at a time shows whether it answers"
    pool.release(now, A, None, sent=now)
    assert [pool.acquire(now) for _ in range(3)] == [A, A, A]
    assert len(notices) == 2


def test_requests_that_were_sent_before_a_failure_count_once() -> None:
    pool = ServerPool([A, B], 0.5, lambda _: None)
    for _ in range(40):
        pool.acquire(100)
    for _ in range(20):
        pool.release(100, A, REFUSED, sent=100)
    assert find_opening(pool, 100) == 101


def test_a_server_that_shuts_down_stays_closed_while_it_answers_the_last_rows() -> None:
    notices: list[str] = []
    pool = ServerPool([A, B], 0.5, notices.append)
    for _ in range(10):
        pool.acquire(100)
    pool.acquire(101, [B])
    pool.release(101, A, REFUSED, sent=101)
    for moment in (101.5, 102.5, 103.5):
        pool.release(moment, A, None, sent=100)
        pool.release(moment, B, None, sent=100)
    assert len(notices) == 1
    assert [pool.acquire(105) for _ in range(4)].count(A) == 1, "a request still in flight is no reason to wait"
    pool.release(106, A, None, sent=105)
    assert len(notices) == 2
    pool.release(107, A, None, sent=100)
    assert [pool.acquire(108) for _ in range(4)] == [A, A, A, A]


def test_a_row_that_failed_does_not_show_whether_a_server_answers() -> None:
    pool = ServerPool([A, B], 0.5, lambda _: None)
    pool.acquire(100, [B])
    pool.release(100, A, REFUSED, sent=100)
    assert {pool.acquire(200, is_retry=True) for _ in range(4)} == {B}
    assert pool.acquire(200) == A


def test_without_another_server_a_closed_one_is_used() -> None:
    pool = ServerPool([A, B], 0.5, lambda _: None)
    for url in {pool.acquire(100), pool.acquire(100)}:
        pool.release(100, url, REFUSED, sent=100)
    assert {pool.acquire(100), pool.acquire(100, [A]), pool.acquire(100, [B])} == {A, B}


def test_a_row_that_makes_servers_fail_closes_none() -> None:
    pool, error, counts = ServerPool([A, B], 10, lambda _: None), ProviderError("it failed", status=500), Counter[str]()
    in_flight = [pool.acquire(100) for _ in range(8)]
    for number in range(200):
        pool.release(
            100, in_flight.pop(0), error if number % 5 == 0 else None, "service" if number % 5 == 0 else None, sent=100
        )
        in_flight.append(pool.acquire(100))
        counts[in_flight[-1]] += 1
    assert min(counts.values()) >= 99


def test_a_refused_row_lets_other_servers_have_the_next_rows() -> None:
    pool, refusal = ServerPool([A, B], 0.5, lambda _: None), ProviderError("too many requests", status=429)
    find_opening(pool, 100)
    pool.release(100, A, refusal, sent=100)
    assert find_opening(pool, 100) == 101


@pytest.mark.parametrize(("seconds", "closed_seconds"), [(20, 20), (300, 60)])
def test_a_refused_row_waits_only_if_all_servers_ask_for_it(seconds: float, closed_seconds: float) -> None:
    pool = ServerPool([A, B], 0.5, lambda _: None)
    refusals = [ProviderError("too many requests", 429, RetryAction.retry(seconds)) for _ in range(2)]
    find_opening(pool, 100)
    pool.release(100, A, refusals[0], sent=100)
    assert refusals[0].retry_action == RetryAction.retry()
    assert {pool.acquire(110) for _ in range(4)} == {B}
    pool.release(110, B, refusals[1], sent=110)
    assert refusals[1].retry_action == RetryAction.retry(seconds)
    assert pool.acquire(100 + closed_seconds) == A


def test_a_server_that_refuses_all_rows_for_long_stops_no_job(ask: Ask, home: Home, stack: ExitStack) -> None:
    good, bad = start(stack), stack.enter_context(ModelServer())
    bad.reply(lambda _: wire.fails(429, headers={"Retry-After": "300"}))
    result = ask(*COMMAND, write_rows(home, 40), "-j", "4", *name_servers(bad, good))
    assert result.code == 0, result.stderr
    assert_complete(home, 40)
    assert 0 < len(bad.requests) <= 4


def test_a_server_that_rejects_the_key_is_named(ask: Ask, home: Home, stack: ExitStack) -> None:
    good, bad = start(stack), stack.enter_context(ModelServer())
    bad.reply(lambda _: wire.fails(401))
    result = ask(*COMMAND, write_rows(home, 40), "-j", "4", *name_servers(good, bad))
    assert result.code == 6
    assert urlsplit(bad.base_url).netloc in result.stderr
