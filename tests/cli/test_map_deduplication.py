"""`ask map`: rows with the same request are sent once, and share its answer."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Sequence

import pytest

from tests import wire
from tests.batch_services import OpenAIService
from tests.cli.test_map import COMMAND, echo, get_prompt, parse, read_output, write_rows
from tests.model_server import ModelServer, Reply, Request
from tests.program import TEST_KEY, Ask, Home
from tests.sample_files import png

pytestmark = pytest.mark.usefixtures("quick_retries")


def write_words(home: Home, *words: str) -> str:
    return write_rows(home.work, *({"id": number, "text": word} for number, word in enumerate(words)))


def list_prompts(requests: Sequence[Request]) -> list[str]:
    return sorted(map(get_prompt, requests))


def test_identical_rows_are_sent_once(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(echo)
    result = ask(*COMMAND, write_words(home, "a", "b", "a", "a", "b"), "--columns", "all", "--report", "report.html")
    rows = parse(result)
    assert (result.code, list_prompts(server.requests)) == (0, ["Say a", "Say b"])
    assert [(row["id"], row["answer"]) for row in rows] == [*enumerate(("SAY A", "SAY B", "SAY A", "SAY A", "SAY B"))]
    used = [(row["cost"], row["input_tokens"], row["tries"], row["latency"] is None) for row in rows[1:3]]
    assert used == [(0.25, 10, 1, False), (None, None, 0, True)]
    assert ("3 with the result" in result.stderr, "$0.50" in result.stderr) == (True, True)
    assert re.search(r"identical to another</dt>\s*<dd>3<", (home.work / "report.html").read_text())


@pytest.mark.slow
def test_rows_wait_for_one_in_flight(ask: Ask, server: ModelServer, home: Home) -> None:
    is_released = threading.Event()

    def reply(request: Request) -> Reply:
        if get_prompt(request) == "Say slow":
            assert is_released.wait(30)
        elif get_prompt(request) == "Say last":
            is_released.set()
        return echo(request)

    server.reply(reply)
    words = ("slow", *("slow", "other") * 2_000, "last")
    result = ask(*COMMAND, write_words(home, *words), "-O", "out.jsonl", "-j", "2")
    assert (result.code, len(server.requests)) == (0, 3)
    assert [row["answer"] for row in read_output(home.work / "out.jsonl")] == [f"SAY {word.upper()}" for word in words]


@pytest.mark.parametrize(
    "options",
    [
        ("--no-dedupe",),
        ("-o", "temperature=0"),
        ("-o", "seed=7"),
        pytest.param(("--tools",), marks=pytest.mark.slow),
    ],
)
def test_each_row_is_sent_if_answers_may_differ(
    ask: Ask, server: ModelServer, home: Home, options: tuple[str, ...]
) -> None:
    server.reply(echo)
    result = ask.process(*COMMAND, write_words(home, "a", "a"), *options)
    assert (result.code, list_prompts(server.requests)) == (0, ["Say a", "Say a"]), result.stderr
    assert "identical" not in result.stderr


def test_a_failure_is_that_of_each_identical_row_until_one_retry(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(echo)
    command = (*COMMAND, write_words(home, "bad", "a", "bad", "bad"), "-O", "out.jsonl")
    assert (ask(*command).code, list_prompts(server.requests)) == (12, ["Say a", "Say bad"])
    output = read_output(home.work / "out.jsonl")
    assert [("this is bad" in (row["error"] or ""), row["id"]) for row in output] == [
        (True, 0),
        (False, 1),
        (True, 2),
        (True, 3),
    ]
    assert "4 earlier" in re.sub(r" of 4", "", ask(*command).stderr)
    server.reply(lambda request: wire.whole_reply(wire.answer("better")))
    result = ask(*command, "--retry-failed")
    assert (result.code, list_prompts(server.requests[2:])) == (0, ["Say bad"]), result.stderr
    assert [row["answer"] for row in read_output(home.work / "out.jsonl")] == ["better", "SAY A", "better", "better"]


def test_a_row_that_the_service_fails_is_retried_once_for_all(ask: Ask, server: ModelServer, home: Home) -> None:
    counts: Counter[str] = Counter()

    def reply(request: Request) -> Reply:
        counts[get_prompt(request)] += 1
        return wire.fails(503, "overloaded") if counts[get_prompt(request)] == 1 else echo(request)

    server.reply(reply)
    result = ask(*COMMAND, write_words(home, "a", "a", "b", "a"))
    assert [row["answer"] for row in parse(result)] == ["SAY A", "SAY A", "SAY B", "SAY A"]
    assert counts == {"Say a": 2, "Say b": 2}


def test_shared_answers_are_those_of_the_same_command_later(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(echo)
    command = (*COMMAND, "in.jsonl", "-O", "out.jsonl")
    write_words(home, "a", "b", "a")
    assert ask(*command).code == 0
    first = (home.work / "out.jsonl").read_bytes()
    result = ask(*command)
    assert (result.code, len(server.requests), (home.work / "out.jsonl").read_bytes()) == (0, 2, first)
    assert ("3 earlier" in result.stderr, "1 with the result" in result.stderr) == (True, True)
    write_words(home, "a", "a", "c", "a", "b")  # more and other rows, in another order
    assert ask(*command).code == 0
    assert list_prompts(server.requests[2:]) == ["Say c"]
    assert [row["answer"] for row in read_output(home.work / "out.jsonl")] == [
        "SAY A",
        "SAY A",
        "SAY C",
        "SAY A",
        "SAY B",
    ]
    result = ask(*command, "--fresh", "--no-dedupe")
    assert (result.code, len(server.requests)) == (0, 8)


def test_files_are_identical_only_with_their_names(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(lambda request: wire.whole_reply(wire.answer("seen")))
    for name in ("a.png", "b.png"):
        (home.work / name).write_bytes(png())
    file = write_rows(home.work, *({"file": name} for name in ("a.png", "b.png", "a.png", "b.png")))
    command = ("map", "-p", "openrouter", "-m", "vendor/model", "-f", "{{file}}", "Look", file)
    result = ask(*command)
    assert ([row["answer"] for row in parse(result)], len(server.requests)) == (["seen"] * 4, 2), result.stderr


def test_models_and_shards_share_within_themselves(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(lambda request: wire.whole_reply(wire.answer(request.json["model"])))
    file = write_words(home, "a", "a", "a", "a")
    result = ask(*COMMAND, file, "-m", "vendor/other")
    assert [row["answer"] for row in parse(result)] == ["vendor/model", "vendor/other"] * 4
    assert sorted(request.json["model"] for request in server.requests) == ["vendor/model", "vendor/other"]
    for number in (1, 2):
        assert ask(*COMMAND, file, "-O", "out.jsonl", "--shard", f"{number}/2").code == 0
    assert len(server.requests) == 4
    assert ask("map", "--merge", "out.jsonl", "out.1-of-2.jsonl", "out.2-of-2.jsonl").code == 0
    assert [row["answer"] for row in read_output(home.work / "out.jsonl")] == ["vendor/model"] * 4


def test_a_batch_has_a_request_for_each_distinct_prompt(ask: Ask, server: ModelServer, home: Home) -> None:
    service = OpenAIService()
    server.reply(service)
    env = {"OPENAI_API_KEY": TEST_KEY, "OPENAI_BASE_URL": server.base_url}
    file = write_words(home, "a", "late", "a", "b", "late")
    command = ("map", "-p", "openai", "-m", service.model, "--batch", "--poll-interval", "0.01", "Say {{text}}", file)
    dry_run = ask(*command, "--dry-run", env=env)
    assert ("3 rows, " in dry_run.stderr, "2 rows with the answer" in dry_run.stderr) == (True, True)
    assert ask(*command, "-O", "out.jsonl", env=env).code == 12
    (batch,) = service.batches.values()
    assert len(batch.requests) == 3
    assert [row["answer"] for row in read_output(home.work / "out.jsonl")] == ["SAY A", None, "SAY A", "SAY B", None]
    assert ask(*command, "-O", "out.jsonl", "--retry-failed", env=env).code == 12
    assert [len(each.requests) for each in service.batches.values()] == [3, 1]


def test_a_dry_run_counts_what_would_be_sent(ask: Ask, home: Home) -> None:
    result = ask(*COMMAND, write_words(home, "a", "a", "b"), "--dry-run")
    assert ("2 rows, " in result.stderr, "1 row with the answer" in result.stderr) == (True, True)
