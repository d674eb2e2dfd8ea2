"""`ask map --score`: what is compared, what the model sees, and where the scores are shown."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests import wire
from tests.batch_services import OpenAIService
from tests.map.test_report import PHONE_WIDTH, ReportPage
from tests.model_server import ModelServer, Reply, Request
from tests.program import TEST_KEY, Ask, Home, Result, run
from tests.test_site import MEASURE

SCHEMA = '{"type": "object", "properties": {"kind": {"enum": ["bug", "order"]}, "kind_p": {"type": "number"}, '
SCHEMA += '"urgent": {"type": "boolean"}, "stars": {"type": "integer"}}}'
COMMAND = ("map", "-p", "openrouter", "-m", "vendor/model", "--schema", SCHEMA, "Classify: {{text}}")
ROWS: list[dict[str, Any]] = [
    {"id": 1, "text": "ticket 1", "label": "bug", "urgent": "TRUE", "stars": "4"},
    {"id": 2, "text": "ticket 2", "label": " Order", "urgent": "no", "stars": "2.0"},
    {"id": 3, "text": "ticket 3", "label": "bug", "urgent": "1", "stars": "5"},
    {"id": 4, "text": "ticket 4", "label": "", "urgent": "0", "stars": "1"},
    {"id": 5, "text": "ticket 5", "label": "order", "urgent": "yes", "stars": "3"},
    {"id": 6, "text": "ticket 6", "label": "BUG", "urgent": "", "stars": ""},
]
ANSWERS: list[dict[str, Any] | None] = [
    {"kind": "bug", "kind_p": 0.9, "urgent": True, "stars": 4},
    {"kind": "order", "kind_p": 0.8, "urgent": False, "stars": 2},
    {"kind": "order", "kind_p": 0.6, "urgent": True, "stars": 2},
    {"kind": "bug", "kind_p": 0.7, "urgent": False, "stars": 1},
    None,
    {"kind": "bug", "kind_p": 0.95, "urgent": False, "stars": 3},
]
SCORES = {"kind": (5, 1, 4, 3), "urgent": (5, 1, 4, 4), "stars": (5, 1, 4, 3)}
"""For each field: how many rows have a label, have none, are answered and are right."""


def classify(request: Request) -> Reply:
    """Answer about the ticket in the prompt; the small model is wrong about ticket 1."""
    number = int(re.findall(r"ticket (\d+)", wire.asked(request.json))[-1])
    value = ANSWERS[number - 1]
    if value is None:
        return wire.fails(400, "it is refused")
    if request.json["model"] == "vendor/small" and number == 1:
        value = value | {"kind": "order"}
    return wire.whole_reply(wire.answer(json.dumps(value)))


@pytest.fixture
def classifier(server: ModelServer, home: Home) -> ModelServer:
    """A server with answers to the rows in tickets.csv and tickets.jsonl."""
    server.reply(classify)
    with (home.work / "tickets.csv").open("w") as file:
        writer = csv.DictWriter(file, list(ROWS[0]))
        writer.writeheader()
        writer.writerows(ROWS)
    (home.work / "tickets.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return server


def score_output(ask: Ask, *arguments: str) -> list[dict[str, Any]]:
    result = ask("map", "--json", *arguments)
    assert result.code == 0, result.stderr
    scores = json.loads(result.text)
    assert isinstance(scores, list)
    return scores


def read_counts(scores: Sequence[dict[str, Any]]) -> list[tuple[int, ...]]:
    return [tuple(score[name] for name in ("labeled", "unlabeled", "answered", "right")) for score in scores]


def list_printed(result: Result) -> list[str]:
    """Return what is printed about scores, as the score of an output prints it."""
    lines = [line.removeprefix("ask: ") for line in (result.text + result.stderr).splitlines()]
    return [
        line for line in lines if "answered," not in line and "rows failed" not in line and "row failed" not in line
    ]


OPTIONS = ("--score", "kind=label", "--score", "urgent", "--score", "stars")
OUTPUT_OPTIONS = ("--score", "kind=label", "--score", "urgent_2=urgent", "--score", "stars_2=stars")


@pytest.mark.parametrize("output", ["out.csv", "out.jsonl", "out.parquet", "sqlite:out.db?table=t"])
def test_answers_are_compared_while_they_arrive_and_in_the_output(
    ask: Ask, classifier: ModelServer, output: str
) -> None:
    result = ask(*COMMAND, "tickets.csv", "-O", output, *OPTIONS)
    assert result.code == 12
    for field, (labeled, _, _, right) in SCORES.items():
        assert f"{field}: accuracy {right / labeled:.1%} ({right} of {labeled} rows" in result.stderr
    assert len(classifier.requests) == 6
    assert read_counts(score_output(ask, *OUTPUT_OPTIONS, output)) == list(SCORES.values())
    assert len(classifier.requests) == 6


def test_the_score_of_an_output_has_all_numbers(ask: Ask, classifier: ModelServer) -> None:
    assert ask(*COMMAND, "tickets.csv", "-O", "out.csv").code == 12
    [kind, _, stars] = score_output(ask, *OUTPUT_OPTIONS, "out.csv")
    confusion = {(each["label"], each["answer"]): each["rows"] for each in kind["confusion"]}
    assert confusion == {("bug", "bug"): 2, ("bug", "order"): 1, ("order", "order"): 1, ("order", None): 1}
    assert kind["classes"][0] == {"value": "bug", "rows": 3, "precision": 1.0, "recall": 0.6667, "f1": 0.8}
    assert kind["probabilities"]["brier"] == pytest.approx((0.01 + 0.04 + 0.36 + 0.0025) / 4, abs=1e-4)
    shares = {row["threshold"]: (row["rows"], row["accuracy"]["share"]) for row in kind["probabilities"]["thresholds"]}
    assert shares == {0.6: (4, 0.75), 0.8: (3, 1.0), 0.9: (2, 1.0), 0.95: (1, 1.0)}
    assert (stars["mean_absolute_error"], stars["within_one"]["share"]) == (0.75, 0.75)
    assert len(classifier.requests) == 6


def test_a_finished_job_is_scored_without_requests(ask: Ask, home: Home, classifier: ModelServer) -> None:
    first = ask(*COMMAND, "tickets.csv", "-O", "out.csv", *OPTIONS)
    output = (home.work / "out.csv").read_bytes()
    again = ask(*COMMAND, "tickets.csv", "-O", "out.csv", *OPTIONS, "--unordered")
    assert len(classifier.requests) == 6
    assert list_printed(first) == list_printed(again)
    assert (home.work / "out.csv").read_bytes() == output
    printed = list_printed(ask("map", *OUTPUT_OPTIONS, "out.csv"))
    lines, expected = ([line for line in each if line.startswith("kind")] for each in (printed, list_printed(first)))
    assert lines == expected != []


def test_a_job_without_scores_is_scored_later(ask: Ask, classifier: ModelServer) -> None:
    assert "accuracy" not in ask(*COMMAND, "tickets.csv", "-O", "out.csv", "--columns", "id,kind").stderr
    assert ask(*COMMAND, "tickets.csv", "-O", "out.csv", "--columns", "id,kind", "--score", "kind=label").code == 12
    assert len(classifier.requests) == 6


def test_an_interrupted_job_scores_all_rows_in_the_end(ask: Ask, classifier: ModelServer) -> None:
    part = ask(*COMMAND, "tickets.csv", "-O", "out.csv", "--score", "kind=label", "--limit", "3")
    assert "(2 of 3 rows" in part.stderr
    assert "(3 of 5 rows" in ask(*COMMAND, "tickets.csv", "-O", "out.csv", "--score", "kind=label").stderr
    assert len(classifier.requests) == 6


@pytest.mark.usefixtures("classifier")
def test_quiet_hides_the_scores_of_a_job_but_not_those_of_an_output(ask: Ask) -> None:
    result = ask(*COMMAND, "-q", "tickets.csv", "-O", "out.csv", "--score", "kind=label")
    assert "accuracy" not in result.stderr
    assert "accuracy 60.0%" in ask("map", "-q", "--score", "kind=label", "out.csv").text


# What the model sees


@pytest.mark.parametrize("prompt", ["Classify", "Classify: {{input}}"])
@pytest.mark.parametrize("file", ["tickets.csv", "tickets.jsonl"])
def test_right_answers_are_not_sent(ask: Ask, classifier: ModelServer, file: str, prompt: str) -> None:
    ask(*COMMAND[:-1], prompt, file, "-O", "out.csv", "--score", "kind=label", "--score", "urgent")
    asked = [wire.asked(request.json) for request in classifier.requests]
    assert len(asked) == 6
    assert not [text for text in asked if "label" in text or "urgent" in text]
    assert all('"stars"' in text for text in asked)


@pytest.mark.parametrize("options", [("Classify {{text}} {{label}}",), ("-f", "{{label}}", "Classify {{text}}")])
def test_a_prompt_with_right_answers_is_an_error(ask: Ask, classifier: ModelServer, options: tuple[str, ...]) -> None:
    result = ask(*COMMAND[:-1], *options, "tickets.csv", "--score", "kind=label")
    assert result.code == 2
    assert "label" in result.stderr
    assert classifier.requests == []


@pytest.mark.slow
@pytest.mark.usefixtures("classifier")
def test_copies_for_rows_with_tools_do_not_have_the_input(ask: Ask, home: Home) -> None:
    folder = home.work / "project[1]"
    folder.mkdir()
    (folder / "other.csv").write_text("text\n")
    (folder / "tasks.csv").write_text("text,label\nwhich files are here?,x\n")
    command = ("map", "-p", "demo", "--tools", "{{text}}", "tasks.csv", "--score", "label", "-O")
    here = replace(ask, installed=True, cwd=folder)
    result = here(*command, "out.jsonl", "--safe-files")
    assert result.code == 0, result.stderr
    answer = json.loads((folder / "out.jsonl").read_text())["answer"]
    assert ("other.csv" in answer, "tasks.csv" in answer) == (True, False)
    assert "tasks.csv" in here(*command, "other.jsonl").stderr


# Several models, shards


@pytest.mark.usefixtures("classifier")
def test_models_are_compared_on_the_same_rows(ask: Ask) -> None:
    command = (*COMMAND[:5], "-m", "vendor/small", *COMMAND[5:])
    result = ask(*command, "tickets.csv", "-O", "out.csv", "--score", "kind=label")
    assert "only openrouter:vendor/model is right in 1 row, only openrouter:vendor/small in 0 (p = 1)" in result.stderr
    scores = score_output(ask, "--score", "kind=label", "out.csv")
    assert [score["model"] for score in scores] == ["openrouter:vendor/model", "openrouter:vendor/small"]
    assert read_counts(scores) == [(5, 1, 4, 3), (5, 1, 4, 2)]


@pytest.mark.usefixtures("classifier")
def test_outputs_of_several_jobs_are_compared(ask: Ask) -> None:
    for model in ("vendor/model", "vendor/small"):
        output = f"{model.partition('/')[2]}.jsonl"
        assert ask(*COMMAND[:4], model, *COMMAND[5:], "tickets.csv", "-O", output).code == 12
    scores = score_output(ask, "--score", "kind=label", "model.jsonl", "small.jsonl")
    assert [(score["model"], score["right"]) for score in scores] == [("model.jsonl", 3), ("small.jsonl", 2)]


@pytest.mark.usefixtures("classifier")
def test_shards_are_scored_and_so_is_what_they_are_joined_to(ask: Ask) -> None:
    for shard in (1, 2):
        options = ("--shard", f"{shard}/2", "--score", "kind=label", "-O", "out.csv")
        assert f"of {3 if shard == 1 else 2} rows" in ask(*COMMAND, "tickets.csv", *options).stderr
    merged = ask("map", "--merge", "out.csv", "out.1-of-2.csv", "out.2-of-2.csv", "--score", "kind=label")
    assert (merged.code, merged.stdout) == (12, b"")
    assert "accuracy 60.0% (3 of 5 rows" in merged.stderr


def test_a_batch_is_scored(ask: Ask, home: Home, server: ModelServer) -> None:
    service = OpenAIService()
    server.reply(service)
    (home.work / "in.csv").write_text("text,label\nticket 1,x\nticket 2,\n")
    env = {"OPENAI_API_KEY": TEST_KEY, "OPENAI_BASE_URL": server.base_url}
    command = ("map", "--batch", "-p", "openai", "-m", service.model, "Say {{text}}", "in.csv", "-O", "out.jsonl")
    result = ask(*command, "--score", "label", "--poll-interval", "0.01", env=env)
    assert result.code == 0, result.stderr
    assert "(0 of 1 row," in result.stderr


# Text answers


def test_text_is_compared_with_the_column(ask: Ask, home: Home, server: ModelServer) -> None:
    (home.work / "in.csv").write_text("text,language,answer\na,English,x\nb,german,y\n")
    server.reply(
        lambda request: wire.says("english" if "it: a" in wire.asked(request.json) else " German\n", whole=True)
    )
    command = ("map", "-p", "openrouter", "-m", "m", "Name it: {{text}}", "in.csv", "--score", "language")
    result = ask(*command, "-O", "out.csv")
    assert "2 of 2 rows" in result.stderr
    assert [row["right"] for row in score_output(ask, "--score", "answer_2=language", "out.csv")] == [2]
    itself = ask("map", "--score", "answer", "out.csv")
    assert (itself.code, "--score answer_2=answer" in itself.stderr) == (2, True)


def test_a_part_of_an_answer_is_no_answer(ask: Ask, home: Home) -> None:
    rows = [{"label": "a", "answer": "a", "error": None}, {"label": "b", "answer": "b", "error": "stopped"}]
    (home.work / "out.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert read_counts(score_output(ask, "--score", "label", "out.jsonl")) == [(2, 0, 1, 1)]


# Errors


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((*COMMAND, "tickets.csv", "--score", "kind=lable"), "did you mean label?"),
        ((*COMMAND, "tickets.csv", "--score", "knd=label"), "did you mean kind?"),
        ((*COMMAND, "tickets.csv", "--score", "label"), "FIELD=label"),
        (("map", "--score", "kind=lable", "tickets.csv"), "'kind'"),
        (("map", "--score", "text=lable", "tickets.csv"), "did you mean label?"),
        (("map", "--score", "label", "tickets.csv"), "COLUMN=label"),
        (("map", "--score", "label=label", "tickets.csv"), "with itself"),
        (("map", "--score", "text=label", "tickets.csv", "-O", "out.csv"), "put the prompt before tickets.csv"),
        (("map", "--score", "text=label", "tickets.csv", "missing.csv"), "missing.csv"),
        (("map", "--json", "Say {{text}}", "tickets.csv", "--score", "label"), "--json"),
        (("map", "--score", "label"), "no prompt"),
    ],
)
def test_what_cannot_be_compared_is_an_error(
    ask: Ask, classifier: ModelServer, arguments: tuple[str, ...], message: str
) -> None:
    result = ask(*arguments)
    assert result.code in (2, 9)
    assert message in result.stderr
    assert classifier.requests == []


# The report


@pytest.mark.usefixtures("classifier")
def test_a_report_has_the_scores(ask: Ask, home: Home) -> None:
    ask(*COMMAND, "tickets.csv", "-O", "out.csv", *OPTIONS, "--report", "report.html")
    text = (home.work / "report.html").read_text()
    page = ReportPage(text)
    assert ["kind", "5", "4", "60.0%", "23.1% to 88.2%", "0.65"] in page.rows
    assert ["bug", "3", "100.0%", "66.7%", "0.80"] in page.rows
    assert ["bug", "2", "1", "0"] in page.rows
    assert ["order", "0", "1", "1"] in page.rows
    assert ["0.8", "3", "75.0%", "100.0%", "43.9% to 100.0%"] in page.rows
    assert page.facts["Mean absolute error"] == "0.75"
    assert page.facts["Brier score"] == "0.103"
    assert "polyline" in page.tags
    wrong = text.partition("Rows with a wrong answer")[2].partition("</details>")[0]
    assert re.findall(r"tickets\.csv:\d", wrong) == ["tickets.csv:4"]
    assert wrong.index("label") < wrong.index("text")


@pytest.mark.slow
@pytest.mark.needs("chromium")
def test_a_phone_is_wide_enough_for_scores(ask: Ask, home: Home, server: ModelServer) -> None:
    values = [f"<b>value</b> {'W' * number} {number}" for number in range(30)]
    rows = [{"text": f"ticket {number}", "label": value} for number, value in enumerate(values)]
    (home.work / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def answer(request: Request) -> Reply:
        number = int(re.findall(r"ticket (\d+)", wire.asked(request.json))[-1])
        value = {"kind": values[number - number % 2], "kind_p": number / 30}
        return wire.whole_reply(wire.answer(json.dumps(value)))

    server.reply(answer)
    command = ("map", "-p", "openrouter", "-m", "m", "--schema", "kind, kind_p float", "Classify: {{text}}", "in.jsonl")
    assert ask(*command, "-O", "out.jsonl", "--score", "label", "--report", "page.html").code == 0
    text = (home.work / "page.html").read_text()
    assert ReportPage(text)
    assert "<b>value" not in text
    (home.work / "open.html").write_text(text.replace("<details>", "<details open>"))
    frames = "".join(
        f'<iframe src="{name}.html" width="{PHONE_WIDTH}" height="800"></iframe>' for name in ("page", "open")
    )
    (home.work / "all.html").write_text(f"<!DOCTYPE html><title>opened</title>{frames}{MEASURE}")
    browser = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
    browser += ["--disable-background-networking", "--allow-file-access-from-files", "--virtual-time-budget=20000"]
    browser += [f"--user-data-dir={home.path / 'browser'}", "--dump-dom", (home.work / "all.html").as_uri()]
    shown = run(browser, env=home.env, cwd=home.work, timeout=60)
    title = re.search(r"<title>([\d ]+)</title>", shown.text)
    assert title, shown.stderr
    assert max(map(int, title[1].split())) <= PHONE_WIDTH
