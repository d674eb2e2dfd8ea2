"""`max_cost_per_day`: the limit on the costs of all runs of a day, from the history and from `ask map`."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing

import pytest

from tests import wire
from tests.batch_services import OpenRouterService
from tests.cli.test_map import make_rows, write_rows
from tests.model_server import ModelServer, Reply, Request
from tests.program import Ask, Home

OPENROUTER = ("-p", "openrouter", "-m", "vendor/model")
MAP = ("map", *OPENROUTER, "Say {{text}}", "in.jsonl", "-O", "out.jsonl")


@pytest.fixture(autouse=True)
def limit(home: Home) -> None:
    """A limit of $1."""
    home.configure("max_cost_per_day = 1\n[network]\nbackoff = 0.01\n")


@pytest.fixture
def priced(server: ModelServer) -> ModelServer:
    """A server where each answer costs 40 cents."""
    server.reply(answer)
    return server


def answer(request: Request) -> Reply:
    if request.json.get("stream"):
        return stream("Fine.")
    return wire.whole_reply(wire.answer("Fine.") | {"usage": wire.usage(cost=0.4)["usage"]})


def stream(content: str | None = None, *calls: wire.Call) -> Reply:
    return wire.streams(*wire.stream(content, calls)[:-1], wire.usage(cost=0.4))


def shift_time_zone(seconds_after_midnight: float) -> str:
    """Return a value of TZ in which the day began about so long ago, on a quarter of an hour."""
    quarters = round((time.time() - seconds_after_midnight) % 86_400 / 900)
    minutes = quarters * 15 if quarters < 48 else quarters * 15 - 1_440
    sign = "" if minutes >= 0 else "-"
    return f"XXX{sign}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"


@pytest.mark.parametrize("options", [(), ("--no-save",)], ids=["saved", "unsaved"])
def test_runs_are_counted_whether_saved_or_not(ask: Ask, priced: ModelServer, options: tuple[str, ...]) -> None:
    for _ in range(3):
        assert ask(*OPENROUTER, *options, "hi").code == 0
    result = ask(*OPENROUTER, *options, "hi")
    assert (result.code, len(priced.requests)) == (11, 3)
    assert ("$1.2" in result.stderr, "--max-cost-per-day" in result.stderr) == (True, True)
    assert ask(*OPENROUTER, "--max-cost-per-day", "2", "hi").code == 0


def test_an_unsaved_run_leaves_only_its_cost(ask: Ask, priced: ModelServer, home: Home) -> None:
    assert ask(*OPENROUTER, "--no-save", "a secret question").code == 0
    with closing(sqlite3.connect(home.data / "history.db")) as connection:
        assert connection.execute("SELECT count(*) FROM runs").fetchone() == (0,)
        assert connection.execute("SELECT sum(dollars) FROM unsaved_costs").fetchone() == (pytest.approx(0.4),)
    assert b"secret" not in (home.data / "history.db").read_bytes()


def test_without_a_limit_an_unsaved_run_leaves_nothing(ask: Ask, priced: ModelServer, home: Home) -> None:
    (home.config / "config.toml").unlink()
    assert ask(*OPENROUTER, "--no-save", "hi").code == 0
    assert not (home.data / "history.db").exists()


def test_tool_calls_end_at_the_limit(ask: Ask, server: ModelServer) -> None:
    calls = (stream(None, ("list_files", {"path": path})) for path in (".", ".."))
    server.reply(stream("Fine."), *calls, stream("That is all."))
    assert ask(*OPENROUTER, "hi").code == 0
    result = ask(*OPENROUTER, "hi")
    assert (result.code, result.text.strip()) == (11, "That is all."), result.stderr
    assert [request.json.get("tool_choice") for request in server.requests[2:]] == ["auto", "none"]


def test_rows_and_runs_share_the_limit(ask: Ask, priced: ModelServer, home: Home) -> None:
    write_rows(home.work, *make_rows(10))
    assert ask(*OPENROUTER, "hi").code == 0
    result = ask(*MAP, "-j", "1")
    assert (result.code, len(priced.requests)) == (11, 3)
    assert "same command again" in result.stderr
    assert (ask(*OPENROUTER, "hi").code, ask(*MAP).code, len(priced.requests)) == (11, 11, 3)
    assert ask(*MAP, "--fresh").code == 11, "deleted answers have been paid for"
    assert ask(*MAP, "--max-cost-per-day", "100").code == 0


def test_a_finished_job_needs_no_budget(ask: Ask, priced: ModelServer, home: Home) -> None:
    write_rows(home.work, *make_rows(2))
    assert ask(*MAP).code == 0
    assert (ask(*OPENROUTER, "hi").code, ask(*OPENROUTER, "hi").code) == (0, 11)
    assert (ask(*MAP).code, len(priced.requests)) == (0, 3)


@pytest.mark.parametrize("options", [("--ledger", "own.db"), ("--shard", "1/1")], ids=["ledger", "shard"])
def test_rows_in_another_ledger_are_counted(
    ask: Ask, priced: ModelServer, home: Home, options: tuple[str, ...]
) -> None:
    write_rows(home.work, *make_rows(10))
    result = ask(*MAP, *options, "-j", "1")
    assert (result.code, len(priced.requests)) == (11, 3), result.stderr
    assert ask(*OPENROUTER, "hi").code == 11
    assert ask(*MAP, *options).code == 11
    assert len(priced.requests) == 3


def test_requests_in_flight_do_not_exceed_the_limit(ask: Ask, priced: ModelServer, home: Home) -> None:
    write_rows(home.work, *make_rows(200))
    result = ask(*MAP, "-j", "64", "--max-cost-per-day", "19.9")
    assert (result.code, len(priced.requests)) == (11, 50)


def test_a_job_notices_what_other_runs_spend(ask: Ask, priced: ModelServer, home: Home) -> None:
    def reply(request: Request) -> Reply:
        time.sleep(0.4)
        return answer(request)

    priced.reply(reply)
    write_rows(home.work, *make_rows(100))
    with ask.start(*MAP, "-j", "1", "--max-cost-per-day", "20") as running:
        priced.wait_for_requests(2)
        assert ask(*OPENROUTER, "--no-save", "hi").code == 0
        with closing(sqlite3.connect(home.data / "history.db")) as connection, connection:
            connection.execute("UPDATE unsaved_costs SET dollars = 100")
        result = running.finish(30)
    assert result.code == 11
    assert len(priced.requests) < 20


@pytest.mark.slow
def test_a_job_continues_the_next_day(ask: Ask, priced: ModelServer, home: Home) -> None:
    write_rows(home.work, *make_rows(4))
    assert ask(*OPENROUTER, "hi").code == 0
    assert ask(*MAP, "-j", "1").code == 11
    for name, table, column, seconds in (
        ("history", "runs", "started", 7_200),
        ("history", "unsaved_costs", "period", 8),
        ("map", "costs", "period", 8),
    ):
        with closing(sqlite3.connect(home.data / f"{name}.db")) as connection, connection:
            connection.execute(f"UPDATE {table} SET {column} = {column} - {seconds}")  # two hours
    this_day = {"TZ": shift_time_zone(4 * 3_600)}
    assert ask.process(*MAP, env=this_day).code == 11
    result = ask.process(*MAP, env={"TZ": shift_time_zone(3_600)})
    assert result.code == 0, result.stderr


@pytest.mark.slow
def test_the_error_has_the_time_of_the_reset(ask: Ask, priced: ModelServer) -> None:
    zone = shift_time_zone(6 * 3_600)
    for _ in range(3):
        assert ask.process(*OPENROUTER, "hi", env={"TZ": zone}).code == 0
    result = ask.process(*OPENROUTER, "hi", env={"TZ": zone})
    assert result.code == 11
    assert " 00:00;" in result.stderr


def test_a_model_without_a_price_is_not_asked(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(wire.fails(404))
    with (home.config / "config.toml").open("a") as file:
        file.write(f'[providers.mine]\nbase_url = "{server.base_url}"\nkey = "k"\n')
    write_rows(home.work, *make_rows(2))
    command = ("-p", "mine", "-m", "unknown")
    for result in (ask(*command, "hi"), ask("map", *command, "Say {{text}}", "in.jsonl")):
        assert (result.code, "--max-cost-per-day" in result.stderr) == (4, True), result.stderr
    assert {request.method for request in server.requests} == {"GET"}, "only for the models list"


def test_estimated_costs_count(ask: Ask, server: ModelServer) -> None:
    reply = wire.whole_reply(wire.answer("Fine.") | {"usage": {"prompt_tokens": 100_000, "completion_tokens": 100_000}})
    server.reply(reply)
    command = ("--no-stream", "-p", "mistral", "-m", "mistral-large-latest", "hi")
    env = {"MISTRAL_API_KEY": "k", "MISTRAL_BASE_URL": server.base_url}
    codes = [ask(*command, env=env).code for _ in range(10)]
    assert codes[0] == 0
    assert codes[-1] == 11
    assert codes == sorted(codes)
    assert len(server.requests) == codes.count(0)


def test_a_ledger_of_an_earlier_version_counts(ask: Ask, priced: ModelServer, home: Home) -> None:
    write_rows(home.work, *make_rows(3))
    assert ask(*MAP, "--max-cost-per-day", "5").code == 0
    with closing(sqlite3.connect(home.data / "map.db")) as connection, connection:
        connection.execute("DROP TABLE costs")
    assert (ask(*OPENROUTER, "hi").code, len(priced.requests)) == (11, 3)


def test_a_history_that_cannot_be_read_is_an_error(ask: Ask, priced: ModelServer, home: Home) -> None:
    home.data.mkdir(parents=True, exist_ok=True)
    (home.data / "history.db").write_bytes(b"no database" * 100)
    assert (ask(*OPENROUTER, "--no-save", "hi").code, priced.requests) == (9, [])
    os.replace(home.data / "history.db", home.data / "map.db")
    assert (ask(*OPENROUTER, "--no-save", "hi").code, priced.requests) == (9, [])


def test_batches_in_another_ledger_are_counted(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(OpenRouterService())
    write_rows(home.work, *make_rows(3))
    assert ask(*MAP, "--batch", "--poll-interval", "0.01", "--ledger", "own.db").code == 0
    server.reply(answer)
    assert ask(*OPENROUTER, "hi").code == 0, "75 cents were spent"
    result = ask(*OPENROUTER, "hi")
    assert (result.code, "$1.15" in result.stderr) == (11, True), result.stderr
