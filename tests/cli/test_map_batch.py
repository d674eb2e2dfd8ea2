"""`ask map --batch` with each of the batch APIs."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from genai_prices import Usage as GenaiUsage
from genai_prices import calc_price

from ask.client.prices import VENDORS
from ask.render.amounts import format_dollars
from tests import wire
from tests.batch_services import (
    SERVICES,
    AnthropicService,
    BatchService,
    GeminiService,
    OpenAIService,
    OpenRouterService,
    XAIService,
    get_prompt,
    jsonl_reply,
)
from tests.cli.test_map import make_rows, parse, read_output, write_rows
from tests.model_server import DROP, HOLD, ModelServer, Reply, Request
from tests.program import TEST_KEY, Ask, Home, Result

POLLS = ("--poll-interval", "0.01")
Batch = Callable[..., Result]


@pytest.fixture(params=SERVICES, ids=lambda kind: kind.name)
def service(request: pytest.FixtureRequest, server: ModelServer) -> BatchService:
    service: BatchService = request.param()
    server.reply(service)
    return service


@pytest.fixture
def run(ask: Ask, server: ModelServer, home: Home) -> Callable[..., Result]:
    """Run `ask map --batch` with a service."""
    home.configure("[network]\nbackoff = 0.01\n")

    def run_map(service: BatchService, *arguments: str, **options: Any) -> Result:
        name = service.name.upper()
        env = {f"{name}_API_KEY": TEST_KEY, f"{name}_BASE_URL": server.base_url}
        command = ("map", "-p", service.name, "-m", service.model, *arguments)
        return ask(*command, env=env, **options)

    return run_map


def test_a_server_without_a_batch_api_is_an_error_with_a_hint(run: Batch, home: Home, server: ModelServer) -> None:
    server.reply(wire.fails(404, "Not Found"))
    command = ("--batch", *POLLS, "Say {{text}}", write_rows(home.work, *make_rows(1)), "-O", "out.jsonl")
    result = run(OpenAIService(), *command)
    assert (result.code, "leave out --batch" in result.stderr) == (6, True), result.stderr


def test_rows_are_answered_in_order(service: BatchService, run: Batch, home: Home) -> None:
    file = write_rows(home.work, *make_rows(5), {"id": 9, "text": "word 0"})
    result = run(service, "--batch", *POLLS, "Say {{text}}", file, "-O", "out.jsonl")
    assert (result.code, len(service.batches)) == (0, 1), result.stderr
    output = read_output(home.work / "out.jsonl")
    assert [row["id"] for row in output] == [0, 1, 2, 3, 4, 9]
    assert [row["answer"] for row in output][3:] == ["SAY WORD 3", "SAY WORD 4", "SAY WORD 0"]
    assert (output[0]["input_tokens"], output[0]["output_tokens"], output[0]["model"]) == (10, 2, service.model)
    expected_cost = 0.25
    if service.name != "openrouter":
        price = calc_price(
            GenaiUsage(input_tokens=10, output_tokens=2),
            service.model,
            provider_id=VENDORS[service.name],
            price_context={"processing": "batch"},
        )
        expected_cost = float(price.total_price)
    assert output[0]["cost"] == pytest.approx(expected_cost)
    total = format_dollars(sum(row["cost"] or 0 for row in output))
    assert f", {'' if service.name == 'openrouter' else '~'}{total}, " in result.stderr
    (batch,) = service.batches.values()
    assert "earlier" not in result.stderr
    # Neither more rows nor another run submit them again.
    write_rows(home.work, {"id": 7, "text": "new"}, *make_rows(5))
    assert run(service, "--batch", *POLLS, "Say {{text}}", file, "-O", "out.jsonl").code == 0
    assert [len(one.requests) for one in service.batches.values()] == [len(batch.requests), 1]


def test_requests_of_a_batch_have_the_tools_of_the_service(service: BatchService, run: Batch, home: Home) -> None:
    file = write_rows(home.work, {"text": "cut \ud83d"})
    result = run(service, "--batch", *POLLS, "-T", "web_search", "Say {{text}}", file)
    if "none of its own" in result.stderr:
        assert (result.code, service.batches) == (2, {})
        return
    assert (result.code, read_output_of(result)[0]["citations"]) == (0, None), result.stderr
    ((_, _, body),) = next(iter(service.batches.values())).requests
    assert len(body["tools"]) == 1
    assert "Say cut \ufffd" in wire.list_strings(body)


def read_output_of(result: Result) -> list[Any]:
    return [json.loads(line) for line in result.text.splitlines()]


def test_rows_that_fail_or_expire_can_be_retried(service: BatchService, run: Batch, home: Home) -> None:
    rows = ({"text": "a"}, "{broken", {"text": "bad"}, {"other": 1}, {"text": "late"}, {"text": "b"})
    file = write_rows(home.work, *rows)
    command = ("--batch", *POLLS, "Say {{text}}", file, "-O", "out.jsonl")
    assert run(service, *command).code == 12
    output = read_output(home.work / "out.jsonl")
    assert [row["answer"] for row in output] == ["SAY A", None, None, None, None, "SAY B"]
    assert "this is bad" in output[2]["error"]
    assert output[4]["error"]
    assert run(service, *command).code == 12
    assert run(service, *command, "--retry-failed").code == 12
    _, *repeated, last = service.batches.values()
    prompts = [[get_prompt(body) for _, _, body in batch.requests] for batch in repeated]
    assert prompts == ([] if service.name == "xai" else [["Say late"]]), "xAI's errors have no code"
    assert [get_prompt(body) for _, _, body in last.requests] == ["Say bad", "Say late"]


def test_a_detached_batch_is_collected_by_the_same_command(service: BatchService, run: Batch, home: Home) -> None:
    service.is_paused = True
    file = write_rows(home.work, *make_rows(3))
    command = ("--batch", "Say {{text}}", file, "-O", "out.jsonl")
    for _ in range(2):
        result = run(service, *command, "--detach")
        assert (result.code, len(service.batches)) == (0, 1), result.stderr
        assert not (home.work / "out.jsonl").exists()
    assert run(service, *command[1:]).code == 2, "without --batch, the rows would be paid twice"
    service.is_paused = False
    assert run(service, *command, *POLLS).code == 0
    assert [row["answer"] for row in read_output(home.work / "out.jsonl")] == ["SAY WORD 0", "SAY WORD 1", "SAY WORD 2"]


def test_a_batch_is_found_again_after_a_crash(service: BatchService, run: Batch, home: Home) -> None:
    file = write_rows(home.work, *make_rows(3))
    command = ("--batch", *POLLS, "Say {{text}}", file, "-O", "out.jsonl")
    service.create_ending = DROP
    first = run(service, *command, "--wait", "0")
    assert (first.code, len(service.batches)) == (5, 1), first.stderr
    assert run(service, *command).code == 0
    assert len(service.batches) == 1
    assert len(read_output(home.work / "out.jsonl")) == 3


def test_a_batch_is_found_again_after_a_kill(ask: Ask, server: ModelServer, home: Home) -> None:
    service = OpenRouterService()
    server.reply(service)
    command = ("map", "-p", "openrouter", "-m", service.model, "--batch", *POLLS, "Say {{text}}")
    file = write_rows(home.work, *make_rows(3))
    service.create_ending = HOLD
    with ask.start(*command, file) as running:
        server.wait_for_requests(1)
        running.process.kill()
        running.process.wait(10)
    [job] = json.loads(ask("map", "--list", "--json").text)
    assert job["pending"] == 3
    assert len(parse(ask(*command, file))) == 3
    assert len(service.batches) == 1


def test_ctrl_c_leaves_the_batch_alone(ask: Ask, server: ModelServer, home: Home) -> None:
    service = OpenRouterService()
    service.is_paused = True
    server.reply(service)
    command = ("map", "-p", "openrouter", "-m", service.model, "--batch", *POLLS, "Say {{text}}")
    with ask.start(*command, write_rows(home.work, *make_rows(3)), "-O", "out.jsonl") as running:
        server.wait_for_requests(4)
        running.signal()
        result = running.finish()
    assert (result.code, "same command again" in result.stderr) == (130, True)
    service.is_paused = False
    assert ask(*command, "in.jsonl", "-O", "out.jsonl").code == 0
    assert len(service.batches) == 1


def test_earlier_answers_are_announced_on_a_terminal(ask: Ask, server: ModelServer, home: Home) -> None:
    service = OpenRouterService()
    server.reply(service)
    file = write_rows(home.work, *make_rows(3))
    command = ("map", "-p", "openrouter", "-m", service.model, "--batch", *POLLS, "Say {{text}}", file)
    assert "--fresh" not in ask.on_terminal(*command, "-O", "out.jsonl").text
    assert "(3 earlier; --fresh" in ask.on_terminal(*command, "-O", "out.jsonl").text


@pytest.mark.parametrize("kind", [OpenAIService, XAIService], ids=lambda kind: kind.name)
def test_a_rejected_batch_fails_its_rows(kind: type[BatchService], server: ModelServer, run: Batch, home: Home) -> None:
    service = kind()
    service.rejection = "line 1: unknown parameter"
    server.reply(service)
    result = run(service, "--batch", *POLLS, "Say {{text}}", write_rows(home.work, *make_rows(2)))
    assert result.code == 12
    assert [row["error"] for row in parse(result)] == ["line 1: unknown parameter"] * 2


def test_waiting_survives_failures_of_the_network(server: ModelServer, run: Batch, home: Home) -> None:
    service = AnthropicService()
    drop = Reply((DROP,))
    server.reply(service, *[drop] * 10, service)
    assert run(service, "--batch", *POLLS, "Say {{text}}", write_rows(home.work, *make_rows(2))).code == 0
    assert len(service.batches) == 1


PAGE = Reply((b"<html><title>Bad gateway</title></html>",), content_type="text/html")


@pytest.mark.parametrize("path", ["/batches/batch_1", "/content"])
@pytest.mark.parametrize(
    "failure", [wire.fails(503), wire.fails(404, "not found"), PAGE], ids=["overloaded", "missing", "page"]
)
def test_waiting_survives_failures_of_the_service(
    path: str, failure: Reply, server: ModelServer, run: Batch, home: Home
) -> None:
    # 404 for batches that exist: https://github.com/anthropics/anthropic-sdk-python/issues/1432
    service, failures = OpenAIService(), [failure] * 9

    def fail_first(request: Request) -> Reply:
        return failures.pop() if failures and request.path.endswith(path) else service(request)

    server.reply(fail_first)
    result = run(service, "--batch", *POLLS, "Say {{text}}", write_rows(home.work, *make_rows(2)))
    assert (result.code, len(service.batches)) == (0, 1), result.stderr
    assert (result.stderr.count("trying again"), "retrying" in result.stderr) == (1, False), result.stderr
    assert [row["answer"] for row in parse(result)] == ["SAY WORD 0", "SAY WORD 1"]


@pytest.mark.parametrize("path", ["/files", "/batches"])
@pytest.mark.parametrize("failure", [wire.fails(429), wire.fails(503), Reply((DROP,))], ids=["429", "503", "dropped"])
def test_submitting_survives_failures_of_the_service(
    path: str, failure: Reply, server: ModelServer, run: Batch, home: Home
) -> None:
    service, failures = OpenAIService(), [failure] * 9

    def fail_first(request: Request) -> Reply:
        is_submission = request.method == "POST" and request.path.endswith(path)
        return failures.pop() if failures and is_submission else service(request)

    server.reply(fail_first)
    command = ("--batch", *POLLS, "Say {{text}}", write_rows(home.work, *make_rows(2)), "-O", "out.jsonl")
    stopped = run(service, *command, "--wait", "0")
    assert (stopped.code, len(service.batches), bool(failures)) == (5, 0, True), stopped.stderr
    result = run(service, *command)
    assert (result.code, len(service.batches), failures) == (0, 1, []), result.stderr
    assert result.stderr.count("trying again") == 1, result.stderr
    assert [row["answer"] for row in read_output(home.work / "out.jsonl")] == ["SAY WORD 0", "SAY WORD 1"]


def test_a_batch_that_exists_after_a_failure_is_not_created_again(run: Batch, server: ModelServer, home: Home) -> None:
    service = OpenAIService()
    server.reply(service)
    service.create_ending = DROP
    result = run(service, "--batch", *POLLS, "Say {{text}}", write_rows(home.work, *make_rows(2)))
    assert (result.code, len(service.batches)) == (0, 1), result.stderr


@pytest.mark.slow
def test_a_batch_that_is_listed_later_is_not_created_again(run: Batch, server: ModelServer, home: Home) -> None:
    """A gateway's timeout does not end the request to the service behind it."""
    service, creations = OpenAIService(), list[float]()

    def create_slowly(request: Request) -> Reply:
        is_batch = request.path.partition("?")[0].endswith("/batches")
        if request.method == "POST" and is_batch:
            creations.append(time.monotonic())
            service(request)
            return wire.fails(504)
        is_early = creations and time.monotonic() - creations[0] < 2.5
        return wire.whole_reply({"data": []}) if is_batch and is_early else service(request)

    server.reply(create_slowly)
    result = run(service, "--batch", "--wait", "4", "Say {{text}}", write_rows(home.work, *make_rows(2)))
    assert (result.code, len(service.batches)) == (0, 1), result.stderr


def test_an_answer_that_is_no_batch_is_not_requested_again(run: Batch, server: ModelServer, home: Home) -> None:
    service, creations = OpenAIService(), []

    def confirm(request: Request) -> Reply:
        if request.method != "POST" or not request.path.endswith("/batches"):
            return service(request)
        creations.append(request)
        return wire.whole_reply({"ok": True})

    server.reply(confirm)
    result = run(service, "--batch", *POLLS, "Say {{text}}", write_rows(home.work, *make_rows(2)))
    assert (result.code, len(creations)) == (6, 1), result.stderr


@pytest.mark.parametrize("status", [400, 429, 500])
def test_rows_of_a_batch_that_fail_because_of_the_service_are_submitted_again(
    status: int, run: Batch, server: ModelServer, home: Home
) -> None:
    service, is_down = OpenAIService(), True

    def fail_rows(request: Request) -> Reply:
        if not is_down or not request.path.endswith("/content"):
            return service(request)
        (batch,) = service.batches.values()
        body = {"error": {"message": "try later"}}
        return jsonl_reply(
            *({"custom_id": name, "response": {"status_code": status, "body": body}} for name, _, _ in batch.requests)
        )

    server.reply(fail_rows)
    command = ("--batch", *POLLS, "Say {{text}}", write_rows(home.work, *make_rows(2)), "-O", "out.jsonl")
    assert (run(service, *command).code, len(service.batches)) == (12, 1)
    is_down = False
    is_final = status == 400
    assert (run(service, *command).code, len(service.batches)) == ((12, 1) if is_final else (0, 2))


def test_the_wait_for_results_has_an_end(server: ModelServer, run: Batch, home: Home) -> None:
    service, is_down = OpenAIService(), True
    server.reply(lambda request: PAGE if is_down and request.path.endswith("/content") else service(request))
    command = ("--batch", *POLLS, "Say {{text}}", write_rows(home.work, *make_rows(2)))
    assert run(service, *command, "--wait", "0").code == 5
    is_down = False
    assert [row["answer"] for row in parse(run(service, *command))] == ["SAY WORD 0", "SAY WORD 1"]
    assert len(service.batches) == 1


@pytest.mark.parametrize("kind", [AnthropicService, OpenAIService], ids=lambda kind: kind.name)
def test_a_missing_batch_does_not_keep_others_from_being_collected(
    kind: type[BatchService], server: ModelServer, run: Batch, ask: Ask, home: Home
) -> None:
    service = kind()
    server.reply(lambda request: wire.fails(404, "gone") if request.path.endswith("batch_1") else service(request))
    command = ("--batch", "Say {{text}}", "in.jsonl", "-O", "out.jsonl")
    for count in (1, 2):
        write_rows(home.work, *make_rows(count))
        run(service, *command, "--detach")
    assert (run(service, *command, *POLLS).code, len(service.batches)) == (6, 2)
    [job] = json.loads(ask("map", "--list", "--json").text)
    assert (job["answered"], job["pending"]) == (1, 1)


@pytest.mark.slow
def test_results_that_are_cut_off_cost_once(server: ModelServer, run: Batch, home: Home) -> None:
    service, is_cut = AnthropicService(), [True, True]

    def cut(request: Request) -> Reply:
        reply = service(request)
        if not request.path.endswith("/results") or not is_cut:
            return reply
        is_cut.pop()
        assert isinstance(reply.steps[0], bytes)
        return Reply((reply.steps[0][:-9], DROP), framing="length")

    server.reply(cut)
    command = ("--batch", *POLLS, "Say {{text}}", write_rows(home.work, *make_rows(600)))
    assert run(service, *command, "--wait", "0").code == 5
    assert run(service, *command).code == 0
    with closing(sqlite3.connect(home.data / "map.db")) as database:
        [(spent,)] = database.execute("SELECT sum(dollars) FROM costs").fetchall()
        [(cost,)] = database.execute("SELECT sum(cost) FROM results").fetchall()
    assert spent == pytest.approx(cost)


@pytest.mark.parametrize("kind", [AnthropicService, OpenRouterService], ids=lambda kind: kind.name)
def test_a_batch_of_other_requests_is_not_taken_for_the_lost_one(
    kind: type[BatchService], server: ModelServer, run: Batch, home: Home
) -> None:
    service = kind()
    server.reply(service)
    file = write_rows(home.work, *make_rows(3))
    command = ("--batch", *POLLS, "Say {{text}}", file, "-O", "out.jsonl")
    service.create_ending = DROP
    assert run(service, *command, "--wait", "0").code == 5
    (lost,) = service.batches.values()
    lost.requests[:] = [(f"mine-{number}", path, body) for number, (_, path, body) in enumerate(lost.requests)]
    assert run(service, *command).code == 0
    assert [row["answer"] for row in read_output(home.work / "out.jsonl")] == ["SAY WORD 0", "SAY WORD 1", "SAY WORD 2"]
    assert len(service.batches) == 2


@pytest.mark.parametrize("kind", [OpenAIService, OpenRouterService], ids=lambda kind: kind.name)
def test_a_batch_whose_results_have_other_ids_is_not_submitted_again(
    kind: type[BatchService], server: ModelServer, run: Batch, home: Home
) -> None:
    service = kind()

    def rename(request: Request) -> Reply:
        for batch in service.batches.values():
            batch.requests[:] = [(f"request-{n}", path, body) for n, (_, path, body) in enumerate(batch.requests)]
        return service(request)

    server.reply(rename)
    result = run(service, "--batch", *POLLS, "Say {{text}}", write_rows(home.work, *make_rows(3)))
    assert (result.code, len(service.batches)) == (12, 1), result.stderr
    assert all(row["error"] for row in read_output_of(result))


def test_an_answer_is_kept_if_the_same_row_also_has_an_error(server: ModelServer, run: Batch, home: Home) -> None:
    service = OpenAIService()

    def repeat(request: Request) -> Reply:
        reply = service(request)
        if not request.path.endswith("/content"):
            return reply
        assert isinstance(reply.steps[0], bytes)
        lines = [json.loads(line) for line in reply.steps[0].splitlines()]
        errors = [{**line, "response": None, "error": {"message": "sent twice"}} for line in lines]
        return jsonl_reply(errors[0], *lines, errors[-1])

    server.reply(repeat)
    result = run(service, "--batch", *POLLS, "Say {{text}}", write_rows(home.work, *make_rows(2)))
    assert [row["answer"] for row in parse(result)] == ["SAY WORD 0", "SAY WORD 1"]


def test_a_refused_batch_is_submitted_again(run: Batch, server: ModelServer, home: Home) -> None:
    service = OpenAIService()
    server.reply(service)
    file = write_rows(home.work, *make_rows(2))
    service.root = "/other"
    assert run(service, "--batch", *POLLS, "Say {{text}}", file).code == 6
    service.root = "/api/v1"
    assert [row["answer"] for row in parse(run(service, "--batch", *POLLS, "Say {{text}}", file))] == [
        "SAY WORD 0",
        "SAY WORD 1",
    ]


def test_canceling_keeps_what_is_finished(service: BatchService, run: Batch, home: Home) -> None:
    service.is_paused = True
    command = ("--batch", *POLLS, "Say {{text}}", write_rows(home.work, *make_rows(2)), "-O", "out.jsonl")
    assert run(service, *command, "--detach").code == 0
    canceled = run(service, *command, "--cancel")
    if service.name == "openrouter":
        assert (canceled.code, "cannot cancel" in canceled.stderr) == (2, True)
        return
    assert canceled.code == 12
    assert [row["answer"] for row in read_output(home.work / "out.jsonl")] == [None, None]
    service.is_paused = False
    assert run(service, *command, "--retry-failed").code == 0
    assert run(service, *command, "--cancel").code == 2, "there is nothing to cancel"


@pytest.mark.slow_after_first
@pytest.mark.parametrize("kind", [AnthropicService, OpenAIService])
def test_a_batch_that_the_provider_no_longer_has_can_be_canceled(
    kind: type[BatchService], run: Batch, server: ModelServer, home: Home
) -> None:
    service = kind()
    server.reply(service)
    command = ("--batch", *POLLS, "Say {{text}}", write_rows(home.work, *make_rows(2)), "-O", "out.jsonl")
    assert run(service, *command, "--detach").code == 0
    root, service.root = service.root, "/gone"
    result = run(service, *command)
    assert (result.code, "--cancel" in result.stderr) == (6, True)
    canceled = run(service, *command, "--cancel")
    service.root = root
    assert canceled.code == 12
    assert all("404" in row["error"] for row in read_output(home.work / "out.jsonl"))
    assert run(service, *command, "--retry-failed").code == 0
    assert [row["answer"] for row in read_output(home.work / "out.jsonl")] == ["SAY WORD 0", "SAY WORD 1"]


def test_batch_that_has_ended_is_canceled_without_retries(run: Batch, server: ModelServer, home: Home) -> None:
    service = OpenAIService()
    service.is_paused = True

    def refuse_to_cancel(request: Request) -> Reply:
        if "/cancel" not in request.path:
            return service(request)
        service.is_paused = False
        return wire.fails(409, "it has ended")

    server.reply(refuse_to_cancel)
    command = ("--batch", *POLLS, "Say {{text}}", write_rows(home.work, *make_rows(2)), "-O", "out.jsonl")
    assert run(service, *command, "--detach").code == 0
    result = run(service, *command, "--cancel")
    assert (result.code, "retrying" in result.stderr) == (0, False)
    assert len([request for request in server.requests if "/cancel" in request.path]) == 1


@pytest.mark.parametrize("status", [408, 409, 524])
def test_batch_whose_creation_failed_unclearly_is_found_again(
    status: int, run: Batch, server: ModelServer, home: Home
) -> None:
    service = OpenAIService()

    def create_and_fail(request: Request) -> Reply:
        reply = service(request)
        is_creation = request.method == "POST" and request.path.endswith("/batches")
        creations.extend([request] * is_creation)
        return wire.fails(status, "timed out") if is_creation else reply

    creations: list[Any] = []
    server.reply(create_and_fail)
    command = ("--batch", *POLLS, "Say {{text}}", write_rows(home.work, *make_rows(2)), "-O", "out.jsonl")
    assert run(service, *command, "--wait", "0").code == 5
    assert run(service, *command).code == 0
    assert len(creations) == 1
    assert [row["answer"] for row in read_output(home.work / "out.jsonl")] == ["SAY WORD 0", "SAY WORD 1"]


@pytest.mark.parametrize(("kind", "path"), [(AnthropicService, "/results"), (OpenAIService, "/content")])
def test_rows_whose_results_are_gone_can_be_retried(
    kind: type[BatchService], path: str, run: Batch, server: ModelServer, home: Home
) -> None:
    service = kind()
    is_gone = True
    server.reply(lambda request: wire.fails(404, "gone") if is_gone and path in request.path else service(request))
    command = ("--batch", *POLLS, "Say {{text}}", write_rows(home.work, *make_rows(2)), "-O", "out.jsonl")
    assert run(service, *command).code == 12
    assert all("404" in row["error"] for row in read_output(home.work / "out.jsonl"))
    is_gone = False
    assert run(service, *command, "--retry-failed").code == 0
    assert [row["answer"] for row in read_output(home.work / "out.jsonl")] == ["SAY WORD 0", "SAY WORD 1"]


def test_a_schema_and_its_fields(run: Batch, server: ModelServer, home: Home) -> None:
    service = AnthropicService()
    server.reply(service)
    rows = ({"text": '{"SCORE": 1}'}, {"text": "nothing"})
    file = write_rows(home.work, *rows)
    command = ("--batch", *POLLS, "--schema", "SCORE int", "{{text}}", file)
    result = run(service, *command)
    good, wrong = parse(result)
    assert (result.code, good["SCORE"], wrong["SCORE"]) == (12, 1, None)
    assert "schema" in wrong["error"]
    good_again, wrong_again = parse(run(service, *command, "--retry-failed"))
    assert good_again == good
    for name in ("input_tokens", "output_tokens", "cost"):  # those of both requests
        assert wrong_again[name] == pytest.approx(2 * wrong[name])
    assert all("output_config" in one["params"] for one in service.creates[0]["requests"])


@pytest.mark.slow
def test_rows_are_split_into_batches(run: Batch, server: ModelServer, home: Home) -> None:
    service = OpenRouterService()
    server.reply(service)
    rows = "".join(f"row {number}\n" for number in range(5_001))
    assert run(service, "--batch", "--detach", "Say {{line}}", stdin=rows.encode()).code == 0
    assert [len(batch.requests) for batch in service.batches.values()] == [5_000, 1]


@pytest.mark.slow
def test_large_rows_are_split_by_their_size(run: Batch, server: ModelServer, home: Home) -> None:
    service = GeminiService()
    server.reply(service)
    sizes = (30_000_000, 15_000_000, 51_000_000, 10_000_000)
    rows = "".join(f"{number} {'x' * size}\n" for number, size in enumerate(sizes))
    assert run(service, "--batch", "--detach", "Say {{line}}", stdin=rows.encode()).code == 0
    assert [len(batch.requests) for batch in service.batches.values()] == [2, 1]
    assert [bool(batch.input_file) for batch in service.batches.values()] == [True, False], "small ones are inline"


@pytest.mark.slow
def test_gemini_gets_more_than_20_mb_as_a_file(run: Batch, server: ModelServer, home: Home) -> None:
    service = GeminiService()
    server.reply(service)
    file = write_rows(home.work, *make_rows(2), {"text": "é bad" + "x" * 20_000_000})
    assert run(service, "--batch", *POLLS, "Say {{text}}", file, "-O", "out.jsonl").code == 12
    (batch,) = service.batches.values()
    assert batch.input_file in service.files
    assert get_prompt(batch.requests[2][2]).startswith("Say é bad")
    output = read_output(home.work / "out.jsonl")
    assert [row["answer"] for row in output] == ["SAY WORD 0", "SAY WORD 1", None]
    assert "this is bad" in output[2]["error"]
    assert output[0]["input_tokens"] == 10


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("-p", "openrouter", "-m", "a", "--batch", "--tools"), "tools"),
        (("-p", "openrouter", "-m", "a", "-m", "b", "--batch"), "one model"),
        (("-p", "openrouter", "-m", "a", "--batch", "--max-cost", "1"), "max_cost"),
        (("-p", "openrouter", "-m", "a", "--detach"), "--batch"),
        (("-p", "demo", "--batch"), "batch API"),
    ],
)
def test_mistakes_are_errors_before_anything_is_sent(
    ask: Ask, server: ModelServer, home: Home, arguments: tuple[str, ...], word: str
) -> None:
    result = ask("map", *arguments, "Say {{text}}", write_rows(home.work, {"text": "a"}))
    assert (result.code, result.text, server.requests) == (2, "", [])
    assert word in result.stderr
