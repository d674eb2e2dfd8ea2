"""`ask map --shard` and `--merge`: a job in parts, each with an output and a ledger of its own."""

from __future__ import annotations

import json
import random
import sqlite3
import time
from collections import Counter
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import pytest

from tests.batch_services import OpenAIService
from tests.cli.test_map import (
    COMMAND,
    SlowServer,
    echo,
    get_prompt,
    make_rows,
    parse,
    read_output,
    write_rows,
)
from tests.cli.test_map_batch import POLLS
from tests.model_server import HOLD, ModelServer, Reply
from tests.program import TEST_KEY, Ask, Home

pytestmark = pytest.mark.usefixtures("quick_retries")
INDEXED = (*COMMAND[:-1], "Say {{index}} {{text}}")


def run_shards(ask: Ask, total: int, *args: str) -> None:
    for number in range(1, total + 1):
        result = ask(*args, "--shard", f"{number}/{total}")
        assert result.code == 0, result.stderr


def list_names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


@pytest.mark.slow_after_first
@pytest.mark.parametrize("kind", [("jsonl", 7, 3), ("csv", 2, 4)])
def test_joined_shards_are_the_output_of_one_job(
    ask: Ask, server: ModelServer, home: Home, kind: tuple[str, int, int]
) -> None:
    suffix, count, total = kind
    server.reply(echo)
    rows = [{"id": 0, "text": 'a\n"b"', "index": "i"}, *make_rows(count - 1)]
    command = (*INDEXED, write_rows(home.work, *rows), "-m", "other/model")
    assert ask(*command, "-O", f"whole.{suffix}").code == 0
    prompts = Counter(map(get_prompt, server.requests))
    server.requests.clear()
    run_shards(ask, total, *command, "-O", f"out.{suffix}")
    assert Counter(map(get_prompt, server.requests)) == prompts, "{{index}} is the number of the row in the input"
    files = [name for name in list_names(home.work) if name.endswith(suffix) and "-of-" in name]
    assert len(files) == total
    result = ask("map", "--merge", f"out.{suffix}", *reversed(files))
    assert (result.code, f"{count} rows" in result.stderr) == (0, True)
    assert (home.work / f"out.{suffix}").read_bytes() == (home.work / f"whole.{suffix}").read_bytes()


def test_a_shard_on_standard_output_has_the_numbers_of_its_rows(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(echo)
    command = (*COMMAND, write_rows(home.work, *make_rows(9)), "--shard", "2/4")
    assert [(row["row_number"], row["id"]) for row in parse(ask(*command))] == [(2, 1), (6, 5)]
    assert [*parse(ask(*command, "--columns", "answer"))[0]] == ["row_number", "answer"]
    assert (len(server.requests), list_names(home.work)) == (2, ["in.jsonl"])


def test_a_shard_is_written_once_it_is_complete(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(echo)
    command = (*COMMAND, write_rows(home.work, *make_rows(8)), "-O", "out.jsonl", "--shard", "1/2", "-j", "1")
    assert ask(*command, "--max-cost", "0.5").code == 11
    assert not (home.work / "out.1-of-2.jsonl").exists()
    assert ask(*command).code == 0
    assert len(server.requests) == 4
    assert [row["id"] for row in read_output(home.work / "out.1-of-2.jsonl")] == [0, 2, 4, 6]
    write_rows(home.work, *make_rows(20))
    assert ask(*command, "--max-cost", "1.5").code == 11
    assert len(read_output(home.work / "out.1-of-2.jsonl")) == 4
    assert ask("map", "--merge", "out.jsonl", "out.1-of-2.jsonl").code == 12
    assert ask(*command[:-4], "--shard", "2/2").code == 0
    result = ask("map", "--merge", "out.jsonl", "out.1-of-2.jsonl", "out.2-of-2.jsonl")
    assert (result.code, "8 and 20 rows" in result.stderr) == (12, True)
    assert ask(*command).code == 0
    assert ask("map", "--merge", "out.jsonl", "out.1-of-2.jsonl", "out.2-of-2.jsonl").code == 0
    assert [row["id"] for row in read_output(home.work / "out.jsonl")] == list(range(20))


def test_another_machine_continues_a_shard(ask: Ask, server: ModelServer, home: Home, tmp_path: Path) -> None:
    server.reply(echo)
    command = (*COMMAND, write_rows(home.work, *make_rows(8)), "-O", "out.jsonl", "--shard", "1/2", "-j", "1")
    ask(*command, "--max-cost", "0.5")
    assert ask(*command, env={"XDG_DATA_HOME": str(tmp_path / "other")}).code == 0
    assert len(server.requests) == 4
    jobs = json.loads(ask("map", "--list", "--json", "--ledger", "out.1-of-2.ledger").text)
    assert [job["answered"] for job in jobs] == [4]
    assert json.loads(ask("map", "--list", "--json").text) == []


def test_a_shard_needs_no_data_folder(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(echo)
    command = (*COMMAND, write_rows(home.work, *make_rows(2)), "-O", "out.jsonl", "--shard", "1/2")
    result = ask(*command, env={"XDG_DATA_HOME": "/proc/none"})
    assert (result.code, len(server.requests)) == (0, 1), result.stderr


def test_shards_run_side_by_side_and_each_only_once(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(Reply((HOLD,)))
    command = (*COMMAND, write_rows(home.work, *make_rows(2)), "-O", "out.jsonl", "--shard")
    with ask.start(*command, "1/2"):
        server.wait_for_requests(1)
        server.reply(echo)
        assert ask(*command, "2/2").code == 0
        assert ask(*command, "1/2").code == 2


def test_limit_sample_and_dry_run_count_all_rows(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(echo)
    command = (*COMMAND, write_rows(home.work, *make_rows(40)), "--shard", "2/3")
    assert [row["id"] for row in parse(ask(*command, "--limit", "8"))] == [1, 4, 7]
    sample = parse(ask(*command[:-2], "--sample", "7"))
    part = parse(ask(*command, "--sample", "7"))
    assert [row["id"] for row in part] == [row["id"] for row in sample][1::3]
    result = ask(*command[:-1], "3/3", "--dry-run", "-O", "out.csv")
    assert (result.code, "13 rows" in result.stderr, list_names(home.work)) == (0, True, ["in.jsonl"])


def test_batches_have_the_rows_of_a_shard(ask: Ask, server: ModelServer, home: Home) -> None:
    service = OpenAIService()
    server.reply(service)
    ask = replace(ask, env={**ask.env, "OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": TEST_KEY})
    command = ("map", "--batch", *POLLS, "-p", "openai", "-m", service.model, "Say {{text}}")
    run_shards(ask, 2, *command, write_rows(home.work, *make_rows(5)), "-O", "out.jsonl")
    assert ask("map", "--merge", "out.jsonl", "out.1-of-2.jsonl", "out.2-of-2.jsonl").code == 0
    assert [row["id"] for row in read_output(home.work / "out.jsonl")] == list(range(5))


def test_the_scheduler_assigns_a_shard(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(echo)
    command = (*COMMAND, write_rows(home.work, *make_rows(4)), "--shard")
    env = {"JOB_COMPLETION_INDEX": "1"}
    assert [row["id"] for row in parse(ask(*command, "auto/2", env=env))] == [1, 3]
    assert [ask(*command, text, env=env).code for text in ("auto", "3/2")] == [2, 2]
    assert len(parse(ask(*command[:-1], env=env))) == 4, "nothing applies without the option"


@pytest.mark.parametrize(
    "options",
    [
        ("--shard", "1/2", "--unordered"),
        ("--merge", "out.jsonl", "--shard", "1/2"),
        ("--merge", "out.jsonl", "--report", "report.html"),
        ("--merge", "in.jsonl"),
        ("--merge", "out.jsonl", "."),
        ("--merge", "out.parquet"),
        ("--ledger", "missing/ledger.db"),
        ("--ledger", "answers.lock"),
    ],
)
def test_options_that_cannot_work_are_errors(ask: Ask, home: Home, options: tuple[str, ...]) -> None:
    file = write_rows(home.work, *make_rows(2))
    assert ask("map", "-p", "demo", *options, "Say {{text}}", file).code == 2
    assert list_names(home.work) == ["in.jsonl"]


def test_a_joined_output_is_replaced_only_on_request(ask: Ask, home: Home) -> None:
    run_shards(ask, 1, "map", "-p", "demo", "Say {{text}}", write_rows(home.work, *make_rows(2)), "-O", "out.jsonl")
    merge = ("map", "--merge", "out.jsonl", "out.1-of-1.jsonl")
    for options in (("--report", "report.html"), ("--columns", "id"), ("--csv-safe",), ("--limit", "1")):
        assert ask(*merge, *options).code == 2, "a merge would ignore it"
    assert [ask(*merge).code, ask(*merge).code, ask(*merge, "--fresh").code] == [0, 2, 0]


@pytest.mark.parametrize(
    ("prompt", "rows", "code"),
    [
        ("Repeat {{text}}", make_rows(10), 2),
        ("Say {{text}}", make_rows(11), 12),
        ("Say {{text}}", [{"id": 99, "text": "new"}, *make_rows(9)], 12),
    ],
)
def test_shards_of_different_jobs_are_not_joined(
    ask: Ask, home: Home, prompt: str, rows: list[dict[str, object]], code: int
) -> None:
    command = ("map", "-p", "demo", "-O", "out.jsonl")
    assert ask(*command, "Say {{text}}", write_rows(home.work, *make_rows(10)), "--shard", "1/2").code == 0
    assert ask(*command, prompt, write_rows(home.work, *rows), "--shard", "2/2").code == 0
    merge = ("map", "--merge", "out.jsonl", "out.1-of-2.jsonl", "out.2-of-2.jsonl")
    assert (ask(*merge).code, (home.work / "out.jsonl").exists()) == (code, False)
    (home.work / "out.1-of-2.ledger").unlink()
    result = ask(*merge)
    assert (result.code, "without out.1-of-2.ledger" in result.stderr) == (0, True)


def test_each_shard_has_a_report(ask: Ask, home: Home) -> None:
    file = write_rows(home.work, *make_rows(4))
    run_shards(ask, 2, "map", "-p", "demo", "Say {{text}}", file, "-O", "out.jsonl", "--report", "report.html")
    assert [name for name in list_names(home.work) if "html" in name] == ["report.1-of-2.html", "report.2-of-2.html"]


def test_rows_that_failed_are_counted_when_shards_are_joined(ask: Ask, home: Home) -> None:
    file = write_rows(home.work, '{"text": "a"}', "not JSON", '{"text": "b"}')
    command = ("map", "-p", "demo", "Say {{text}}", file, "-O", "out.jsonl")
    assert [ask(*command, "--shard", f"{number}/2").code for number in (1, 2)] == [0, 12]
    names = list_names(home.work)
    result = ask("map", "--merge", "out.jsonl", "out.1-of-2.jsonl", "out.2-of-2.jsonl")
    assert (result.code, len(read_output(home.work / "out.jsonl"))) == (12, 3)
    # A ledger is read without further files, so that its folder may be read-only.
    assert sorted(list_names(home.work)) == sorted([*names, "out.jsonl"])


def test_what_a_linked_ledger_has_only_in_its_log_is_read(ask: Ask, home: Home, tmp_path: Path) -> None:
    command = ("map", "-p", "demo", "Say {{text}}", write_rows(home.work, *make_rows(2)), "-O", "out.jsonl")
    assert ask(*command, "--shard", "1/1").code == 0
    ledger = home.work / "out.1-of-1.ledger"
    ledger.symlink_to(ledger.rename(tmp_path / "linked"))
    with closing(sqlite3.connect(ledger)) as connection:
        connection.execute("UPDATE shard_inputs SET failed_count = 1")
        connection.commit()
        assert ask("map", "--merge", "out.jsonl", "out.1-of-1.jsonl").code == 12


def test_a_ledger_is_where_the_user_says(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(echo)
    command = (*COMMAND, write_rows(home.work, *make_rows(3)), "--ledger", "answers.db")
    for _ in range(2):
        assert ask(*command).code == 0
    assert len(server.requests) == 3
    [job] = json.loads(ask("map", "--list", "--json", "--ledger", "answers.db").text)
    assert json.loads(ask("map", "--list", "--json").text) == []
    assert ask("map", "--forget", job["id"]).code == 2
    assert ask("map", "--forget", job["id"], "--ledger", "answers.db").code == 0
    assert ask(*command, "--shard", "1/2").code == 0
    assert "answers.1-of-2.db" in list_names(home.work)


def test_two_ledgers_do_not_share_an_output(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(Reply((HOLD,)))
    command = (*COMMAND, write_rows(home.work, *make_rows(2)), "-O", "out.jsonl")
    with ask.start(*command):
        server.wait_for_requests(1)
        assert ask(*command, "--ledger", "other.db").code == 2


def test_a_running_job_is_not_forgotten(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(Reply((HOLD,)))
    with ask.start(*COMMAND, write_rows(home.work, *make_rows(2))):
        server.wait_for_requests(1)
        [job] = json.loads(ask("map", "--list", "--json").text)
        assert ask("map", "--forget", job["id"]).code == 2
    assert ask("map", "--forget", job["id"]).code == 0


def test_a_data_folder_that_cannot_be_written_has_a_hint_with_a_ledger_elsewhere(ask: Ask, home: Home) -> None:
    (home.data / "map.lock").mkdir(parents=True)
    result = ask("map", "-p", "demo", "--ledger", "own.db", "-O", "out.jsonl", "{{line}}", stdin=b"a\n")
    assert (result.code, "XDG_DATA_HOME" in result.stderr) == (9, True)


def test_a_ledger_that_does_not_exist_is_not_created(ask: Ask, home: Home) -> None:
    for options in (("--list",), ("--forget", "0")):
        assert ask("map", *options, "--ledger", "missing.db").code == 2
    assert not list_names(home.work)


@pytest.mark.slow
def test_copies_have_no_files_of_shards(ask: Ask, home: Home) -> None:
    command = ("map", "-p", "demo", "--tools", "--safe-files", "{{text}}", "-O", "out[1].jsonl", "--shard")
    file = write_rows(home.work, *({"text": "which files are here?"} for _ in range(2)))
    (home.work / ".out[1].1-of-2.jsonl.0.tmp").touch()
    answers = []
    for shard in ("1/2", "2/2"):
        assert ask.process(*command, shard, file).code == 0
        answers += [row["answer"] for row in read_output(home.work / f"out[1].{shard.replace('/', '-of-')}.jsonl")]
    assert ["in.jsonl" in answer and "out" not in answer for answer in answers] == [True, True], answers


@pytest.mark.slow
def test_kills_of_shards_lose_no_row(ask: Ask, server: ModelServer, home: Home) -> None:
    service = SlowServer(server, 0.01)
    rows, total, kills, jobs, generator = 1500, 3, 20, 8, random.Random(5)
    command = (*COMMAND, write_rows(home.work, *make_rows(rows)), "-O", "out.jsonl", "-j", str(jobs), "--shard")
    for _ in range(kills):
        with ExitStack() as stack:
            running = [stack.enter_context(ask.start(*command, f"{n}/{total}")) for n in range(1, total + 1)]
            for process in generator.sample(running, total):
                time.sleep(generator.uniform(0.05, 0.4))
                process.process.kill()
                process.process.wait(10)
    run_shards(ask, total, *command[:-1])
    files = [f"out.{number}-of-{total}.jsonl" for number in range(1, total + 1)]
    assert ask("map", "--merge", "out.jsonl", *files).code == 0
    assert [row["id"] for row in read_output(home.work / "out.jsonl")] == list(range(rows))
    assert rows <= service.count <= rows + kills * total * jobs
