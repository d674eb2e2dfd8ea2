"""The HTML report on a job: its numbers, its markup, and text from outside."""

from __future__ import annotations

import json
import random
import re
import signal
import time
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask.config.redaction import Redactor
from ask.export.distribution_charts import format_number, format_share
from ask.export.map_report import JobOverview, render_map_report
from ask.map.distributions import MAX_DISTINCT, MAX_SAMPLED_NUMBERS, NumberDistribution, RowExcerpt, SampledRow
from ask.map.engine import Progress
from ask.map.failure_reasons import MAX_REASONS, OTHER_REASONS
from ask.map.job import RowTask
from ask.map.ledger import RowResult
from ask.map.report import JobReport
from ask.text import escape_control_characters, format_one_line
from tests import wire
from tests.batch_services import OpenAIService
from tests.conversation_strategies import HOSTILE
from tests.export.test_conversation_html import Listener, listener
from tests.json_strategies import any_json
from tests.model_server import ModelServer, Reply, Request
from tests.process_trace import ProcessTracer
from tests.program import TEST_KEY, Ask, Home, run
from tests.test_site import MEASURE

__all__ = ["listener"]
VOID_TAGS = {"meta"}
PHONE_WIDTH = 360
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "kind": {"enum": ["bug", "order", "spam"]},
        "urgent": {"type": "boolean"},
        "score": {"type": ["integer", "null"]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "reason": {"type": "string"},
    },
    "required": ["kind", "urgent", "score", "tags", "reason"],
    "additionalProperties": False,
}


class ReportPage(HTMLParser):
    """The parts of a report. All tags must be closed, in order.

    Attributes:
        tags: all tags.
        attributes: all names of attributes.
        facts: the terms of all lists of facts with their values; the last one counts.
        bars: the names and labels of bars, by the titles of their section and figure.
        examples: the rows that are shown for a bar, by the same titles and its name.
        rows: the rows of tables.
        text: all text.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.facts: dict[str, str] = {}
        self.bars: dict[tuple[str, str], dict[str, str]] = {}
        self.examples: dict[tuple[str, ...], list[dict[str, str]]] = {}
        self.rows: list[list[str]] = []
        self.text = ""
        self._open: list[tuple[str, int]] = []
        self._titles = {"h2": "", "h3": ""}
        self._spans: list[str] = []
        self._term = ""
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag not in VOID_TAGS:
            self._open.append((tag, len(self.text)))
        if tag == "tr":
            self.rows.append([])
        elif tag == "li":
            self._spans = []
        elif tag == "h2":
            self._titles["h3"] = ""
        elif tag == "dl" and ("class", "row") in attrs and "li" in [name for name, _ in self._open]:
            self.examples.setdefault((*self._titles.values(), self._spans[0]), []).append({})

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_endtag(self, tag: str) -> None:
        opened, start = self._open.pop()
        assert opened == tag
        text = self.text[start:]
        names = [name for name, _ in self._open]
        if tag in self._titles:
            self._titles[tag] = text
        elif tag in ("th", "td"):
            self.rows[-1].append(text)
        elif tag == "dt":
            self._term = text
        elif tag == "dd" and "li" in names:
            self.examples[(*self._titles.values(), self._spans[0])][-1][self._term] = text
        elif tag == "dd":
            self.facts[self._term] = text
        elif tag == "span" and "li" in names:
            self._spans.append(text)
            if len(self._spans) == 2:
                self.bars.setdefault((self._titles["h2"], self._titles["h3"]), {})[self._spans[0]] = text

    def handle_data(self, data: str) -> None:
        self.text += data

    def count_bars(self, section: str, figure: str = "") -> dict[str, int]:
        """Return the counts of the bars of a figure."""
        return {name: int(label.split()[0].replace(",", "")) for name, label in self.bars[section, figure].items()}


def make_report(*results: RowResult, schema: Any = None, models: tuple[str, ...] = ("m",), columns: Any = None) -> str:
    """Render a report on the results of rows, one for each model in turn."""
    report = JobReport(models, schema, "Say {{text}}", Redactor(["sk-a-secret"]).redact)
    for position, result in enumerate(results):
        number = position // len(models)
        row = columns or {"text": f"word {number}"}
        report.add(RowTask(position, row, position % len(models), location=f"in.jsonl:{number + 1}"), result)
    answered = sum(result.status == "answered" for result in results)
    progress = Progress(answered=answered, failed=len(results) - answered)
    return "".join(render_map_report(JobOverview("out", "in", "out", {}, progress, "$1", 1.5, ""), report))


def answer(value: Any, **values: Any) -> RowResult:
    text = value if isinstance(value, str) else json.dumps(value)
    return RowResult("answered", text, "stop", 10, 2, 0.25, latency=0.5, tries=1, time=1e9)._replace(**values)


def fail(error: str) -> RowResult:
    return RowResult("failed", error=error)


def read_page(file: Path) -> ReportPage:
    return ReportPage(file.read_text())


# The command

COMMAND = ("map", "-p", "openrouter", "-m", "vendor/model", "--schema", "schema.json", "Say {{text}}", "in.jsonl")


def classify(request: Request) -> Reply:
    """Answer about the number in the prompt; refuse some."""
    number = int(re.findall(r"\d+", wire.asked(request.json))[-1])
    if number % 10 == 9:
        return wire.fails(400, f"request {number} is bad")
    value = {
        "kind": "order" if number % 4 == 0 else "bug",
        "urgent": number < 5,
        "score": None if number == 0 else number,
        "tags": ["a", "b"][: number % 3],
        "reason": "x" * 100 + str(number),
    }
    usage = {"prompt_tokens": 10, "completion_tokens": 2, "cost": 0.25, "prompt_tokens_details": {"cached_tokens": 4}}
    return wire.whole_reply(wire.answer(json.dumps(value)) | {"usage": usage})


@pytest.fixture
def folder(home: Home) -> Path:
    """A folder with 40 rows, a damaged one and a schema."""
    rows = [json.dumps({"id": i, "text": f"<b>word</b> {i}"}) for i in range(40)]
    (home.work / "in.jsonl").write_text("\n".join([*rows[:20], "{damaged", *rows[20:]]) + "\n")
    (home.work / "schema.json").write_text(json.dumps(SCHEMA))
    return home.work


@pytest.fixture
def classifier(server: ModelServer) -> ModelServer:
    server.reply(classify)
    return server


def test_a_report_shows_the_rows_of_a_job(ask: Ask, folder: Path, classifier: ModelServer) -> None:
    result = ask(*COMMAND, "-O", "out.csv", "--report", "report.html")
    assert (result.code, len(classifier.requests)) == (12, 40)
    page = read_page(folder / "report.html")
    shown = {name: page.facts[name] for name in ("Rows", "Answered", "Failed", "Cost", "From earlier runs")}
    assert shown == {
        "Rows": "41", "Answered": "36 (87.8%)", "Failed": "5 (12.2%)", "Cost": "$9.00", "From earlier runs": "0",
    }  # fmt: skip
    assert (page.facts["Tokens in"], page.facts["Input"]) == ("360 (144 from the cache)", "in.jsonl")
    assert page.count_bars("Answers", "kind") == {"bug": 26, "order": 10, "spam": 0}
    assert page.count_bars("Answers", "urgent") == {"false": 31, "true": 5}
    assert page.count_bars("Answers", "tags") == {"a": 24, "b": 12}
    assert page.examples["Answers", "urgent", "true"][0]["text"].startswith("<b>word</b> ")
    failures = page.count_bars("Failures")
    assert sorted(failures.values()) == [1, 4]
    assert failures["not JSON"] == 1
    (reason,) = (name for name, count in failures.items() if count == 4)
    assert "request … is bad" in reason
    assert page.examples["Failures", "", reason][0]["Row"] == "in.jsonl:10"
    assert page.examples["Failures", "", "not JSON"] == [{"Row": "in.jsonl:21", "Error": "not JSON"}]


def test_a_report_on_a_finished_job_needs_no_requests(ask: Ask, folder: Path, classifier: ModelServer) -> None:
    assert ask(*COMMAND, "-O", "out.csv", "--report", "first.html").code == 12
    output = (folder / "out.csv").read_bytes()
    assert ask(*COMMAND, "-O", "out.csv", "--report", "second.html").code == 12
    assert len(classifier.requests) == 40
    assert (folder / "out.csv").read_bytes() == output
    first, second = (read_page(folder / name) for name in ("first.html", "second.html"))
    assert second.facts["From earlier runs"] == "40"
    assert (second.bars, second.examples) == (first.bars, first.examples)


def test_a_job_that_stops_has_a_report(ask: Ask, folder: Path, server: ModelServer) -> None:
    server.reply(
        lambda request: wire.fails(401, "no such key") if "7" in wire.asked(request.json) else classify(request)
    )
    assert ask(*COMMAND, "-j", "1", "--report", "report.html", "-O", "out.jsonl").code == 6
    page = read_page(folder / "report.html")
    assert page.facts["Rows"] == "7"
    assert "no such key" in page.text


@pytest.mark.slow
def test_an_interrupted_job_has_a_report(ask: Ask, folder: Path, server: ModelServer) -> None:
    def answer_slowly(request: Request) -> Reply:
        time.sleep(0.2)
        return classify(request)

    server.reply(answer_slowly)
    with ask.start(*COMMAND, "-j", "2", "-O", "out.jsonl", "--report", "report.html") as running:
        server.wait_for_requests(4)
        running.process.send_signal(signal.SIGINT)
        assert running.finish(30).code == 130
    page = read_page(folder / "report.html")
    assert page.facts["Rows"] == str(len((folder / "out.jsonl").read_text().splitlines()))
    assert "interrupted" in page.text


@pytest.mark.slow
def test_rows_with_tools_do_not_see_an_earlier_report(ask: Ask, folder: Path) -> None:
    (folder / "report.html").write_text("of an earlier run")
    command = ("map", "-p", "demo", "--tools", "--safe-files", "{{line}}", "-O", "out.jsonl", "--report", "report.html")
    result = replace(ask, installed=True)(*command, stdin=b"which files are here?\n")
    assert result.code == 0, result.stderr
    answer = json.loads((folder / "out.jsonl").read_text())["answer"]
    assert ("schema.json" in answer, "report.html" in answer) == (True, False)


def test_a_batch_has_a_report(ask: Ask, folder: Path, server: ModelServer) -> None:
    service = OpenAIService()
    server.reply(service)
    env = {"OPENAI_API_KEY": TEST_KEY, "OPENAI_BASE_URL": server.base_url}
    command = ("map", "--batch", "-p", "openai", "-m", service.model, "Say {{text}}", "in.jsonl", "-O", "out.jsonl")
    result = ask(*command, "--report", "report.html", "--poll-interval", "0.01", env=env)
    assert result.code == 12, result.stderr
    page = read_page(folder / "report.html")
    assert page.facts["Answered"] == "40 (97.6%)"
    assert sum(page.count_bars("Requests", "Finish reason").values()) == 40


@pytest.mark.usefixtures("classifier")
def test_models_are_compared(ask: Ask, folder: Path) -> None:
    command = [*COMMAND[:5], "-m", "vendor/other", *COMMAND[5:]]
    assert ask(*command, "-O", "out.csv", "--report", "report.html", "--limit", "9").code == 0
    page = read_page(folder / "report.html")
    table = {row[0]: row[1:8] for row in page.rows if row[0].startswith("openrouter:")}
    amounts = ["9", "0", "90", "36", "-", "18", "$2.25"]
    assert table == {"openrouter:vendor/model": amounts, "openrouter:vendor/other": amounts}
    assert page.text.count("openrouter:vendor/other") > 5


def test_an_input_the_output_or_the_ledger_is_not_replaced(ask: Ask, folder: Path, server: ModelServer) -> None:
    (folder / "link.html").symlink_to("in.jsonl")
    before = (folder / "in.jsonl").read_bytes()
    for report in ("in.jsonl", "link.html", "out.csv", "./out.csv", "-"):
        command = COMMAND if report == "-" else (*COMMAND, "-O", "out.csv")
        assert ask(*command, "--report", report).code == 2, report
    assert ask(*COMMAND, "--ledger", "answers.db", "--report", "answers.db").code == 2
    assert ask(*COMMAND, "-O", "sqlite:answers.db?table=rows", "--report", "answers.db").code == 2
    output_as_ledger = ask(*COMMAND, "--ledger", "out.jsonl", "-O", "out.jsonl")
    assert (output_as_ledger.code, "is the ledger" in output_as_ledger.stderr) == (2, True)
    for report in (".", "missing/report.html"):
        assert ask(*COMMAND, "--report", report).code == 9, report
    assert (folder / "in.jsonl").read_bytes() == before
    assert not (folder / "out.csv").exists()
    assert server.requests == []


@pytest.mark.usefixtures("classifier")
def test_a_report_goes_to_standard_output_if_the_rows_do_not(ask: Ask, folder: Path) -> None:
    result = ask(*COMMAND, "-O", "out.jsonl", "--report", "-", "--limit", "3")
    assert ReportPage(result.text).facts["Rows"] == "3"


@pytest.mark.usefixtures("classifier")
def test_a_report_that_cannot_be_written_is_an_error_after_the_rows(ask: Ask, folder: Path) -> None:
    result = ask(*COMMAND, "-O", "out.jsonl", "--report", "/dev/full", "--limit", "3")
    assert result.code == 9
    assert "3 rows answered" in result.stderr
    assert len((folder / "out.jsonl").read_text().splitlines()) == 3


@pytest.mark.usefixtures("classifier")
def test_keys_are_redacted(ask: Ask, folder: Path) -> None:
    (folder / "in.jsonl").write_text(json.dumps({"text": f"{TEST_KEY} 1", TEST_KEY: 2}) + "\n")
    assert ask(*COMMAND, "-s", TEST_KEY, "-O", "out.jsonl", "--report", "report.html").code == 0
    assert TEST_KEY not in (folder / "report.html").read_text()


@pytest.mark.slow
def test_only_a_report_loads_its_modules(home: Home, folder: Path, classifier: ModelServer) -> None:
    env = {"OPENROUTER_API_KEY": TEST_KEY, "OPENROUTER_BASE_URL": classifier.base_url}
    tracer = ProcessTracer(home, env)
    plain, reported = (
        tracer.ask(*COMMAND, "--limit", "3", "-O", f"out{number}.jsonl", *options).own_modules
        for number, options in enumerate([(), ("--report", "report.html")])
    )
    assert {"ask.map.report", "ask.export.map_report"} <= reported
    assert not [name for name in plain if re.search("report|distribution|export|score", name)]


# Failures


def test_errors_that_differ_in_numbers_and_names_have_one_reason() -> None:
    errors = [
        "model 'a' failed at 17:03 (x, 500)", "model 'b c' failed at 9:00 (x, 500)",
        "model 'b' failed at 9:00 (x, 503)", "request req_0af3 is bad",
        "request 550e8400-e29b-41d4-a716-446655440000 is bad", "in.jsonl:6: no 'column'",
    ]  # fmt: skip
    page = ReportPage(make_report(*map(fail, errors)))
    assert page.count_bars("Failures") == {
        "model … failed at … (x, 500)": 2, "request … is bad": 2,
        "model 'b' failed at 9:00 (x, 503)": 1, "no 'column'": 1,
    }  # fmt: skip


def test_the_number_of_reasons_is_limited() -> None:
    report = JobReport(["m"], None, "", str)
    for position in range(3 * MAX_REASONS):
        report.add(RowTask(position, {}, 0), fail("a" * position))
    assert len(report.failures) == MAX_REASONS + 1
    assert report.failures[0].label == OTHER_REASONS
    assert sum(reason.count for reason in report.failures) == 3 * MAX_REASONS


# Answers


def test_answers_that_repeat_are_counted() -> None:
    texts = ["English"] * 30 + [" German\n"] * 15 + ["German"] * 5 + [f"word {i}" for i in range(10)] + [""]
    page = ReportPage(make_report(*map(answer, texts)))
    counts = page.count_bars("Answers", "answer")
    assert (counts["English"], counts["German"], counts["empty"]) == (30, 20, 1)
    assert sum(counts.values()) == len(texts)


def test_of_texts_that_do_not_repeat_the_lengths_are_shown() -> None:
    page = ReportPage(make_report(*(answer(f"{number}:" + "x" * 100 * number) for number in range(1, 6))))
    assert ("Answers", "answer") not in page.bars
    assert (page.facts["Min length"], page.facts["Median length"], page.facts["Max length"]) == ("102", "302", "502")


def test_long_texts_with_the_same_beginning_are_different() -> None:
    texts = ["x" * 500 + "a", "x" * 500 + "b", "x" * 500 + "a"]
    report = JobReport(["m"], None, "", str)
    for position, text in enumerate(texts):
        report.add(RowTask(position, {}, 0), answer(text))
    assert [value.count for value in report.models[0].columns[0].values.list_values()] == [2, 1]


def test_the_number_of_counted_values_is_limited() -> None:
    report = JobReport(["m"], None, "", str)
    for position in range(MAX_DISTINCT + 100):
        report.add(RowTask(position, {}, 0), answer(f"text {position}"))
    values = report.models[0].columns[0].values
    assert (values.distinct_count, values.other_count, values.count) == (MAX_DISTINCT, 100, MAX_DISTINCT + 100)


@pytest.mark.slow
def test_the_order_in_which_rows_finish_does_not_matter() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "number"}, "w": {"type": "string"}}}
    generator = random.Random(1)
    rows = [
        (
            RowTask(position, {"text": str(position)}, 0, location=f"in:{position}"),
            answer({"n": generator.random(), "w": f"word {generator.randrange(5)}"}, latency=generator.random()),
        )
        for position in range(MAX_SAMPLED_NUMBERS + 500)
    ]
    pages = []
    for _ in range(2):
        report = JobReport(["m"], schema, "", str)
        for row in rows:
            report.add(*row)
        summary = JobOverview("out", "in", "out", {}, Progress(), "", 1.0, "")
        pages.append(ReportPage("".join(render_map_report(summary, report))))
        generator.shuffle(rows)
    assert pages[0].bars == pages[1].bars
    assert pages[0].examples == pages[1].examples
    assert pages[0].rows == pages[1].rows
    assert abs(float(pages[0].facts["Median"].removesuffix(" ms")) - 500) < 25


# Numbers


def make_numbers(numbers: list[float]) -> NumberDistribution:
    distribution = NumberDistribution()
    for position, number in enumerate(numbers):
        distribution.add(SampledRow(position, position, lambda: RowExcerpt("", "", (), "", "")), number)
    return distribution


@given(
    st.lists(st.integers(-(10**20), 10**20) | st.floats(-1e150, 1e150) | st.integers(-3, 3), min_size=1, max_size=60)
)
def test_a_histogram_counts_each_number_once(numbers: list[float]) -> None:
    distribution = make_numbers(numbers)
    assert (distribution.minimum, distribution.maximum) == (min(numbers), max(numbers))
    assert distribution.get_quantile(0.5) == sorted(numbers)[(len(numbers) - 1) // 2]
    histogram = distribution.make_histogram()
    if histogram is None:
        assert max(numbers) - min(numbers) <= 1e-9 * max(map(abs, numbers)) + 1e-150
        return
    bins = histogram.bins
    assert sum(each.frequency for each in bins) == len(numbers)
    assert 1 <= len(bins) <= 22
    assert all(before.high == after.low for before, after in pairwise(bins))


def test_a_few_large_numbers_do_not_stretch_a_histogram() -> None:
    histogram = make_numbers([*map(float, range(1000)), 1e9]).make_histogram()
    assert histogram is not None
    assert histogram.is_open_above
    assert not histogram.is_open_below
    assert histogram.bins[-1].low < 1000


def test_a_histogram_of_a_sample_covers_the_range_of_all_numbers() -> None:
    distribution = make_numbers([*range(3 * MAX_SAMPLED_NUMBERS)])
    histogram = distribution.make_histogram()
    assert histogram is not None
    assert (histogram.bins[0].low, histogram.bins[-1].low) == (0, 28_000)
    assert not distribution.is_exact


def test_the_last_bar_includes_the_largest_number() -> None:
    histogram = make_numbers([0.0, 0.25, 0.5, 1.0]).make_histogram()
    assert histogram is not None
    assert histogram.bins[-1].high == pytest.approx(1)


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0"), (2.0, "2"), (12345.678, "12,346"), (0.123456, "0.1235"), (1e20, "1e+20"), (-3, "-3")]
)
def test_numbers_are_short(number: float, text: str) -> None:
    assert format_number(number) == text


@pytest.mark.parametrize(
    ("count", "total", "text"),
    [(0, 5, ""), (1, 3, " (33.3%)"), (5, 5, " (100.0%)"), (1, 9999, " (under 0.1%)"), (9998, 9999, " (over 99.9%)")],
)
def test_no_share_is_rounded_to_nothing_or_to_all(count: int, total: int, text: str) -> None:
    assert format_share(count, total) == text


# Text from outside


def results() -> st.SearchStrategy[RowResult]:
    texts = st.text() | st.sampled_from(HOSTILE)
    amounts = st.none() | st.integers(0, 10**6)
    return st.builds(
        RowResult,
        status=st.sampled_from(["answered", "answered", "failed", "unavailable"]),
        answer=texts
        | st.builds(json.dumps, any_json() | st.dictionaries(st.sampled_from([*SCHEMA["properties"]]), any_json())),
        finish_reason=texts,
        input_tokens=amounts,
        cost=st.none() | st.floats(0, 1e6),
        error=texts,
        time=st.none() | st.floats(0, 1e12),
        latency=st.none() | st.floats(0, 1e6),
        tries=st.none() | st.integers(0, 50),
    )


PLAIN_PAGE = ReportPage(
    make_report(
        *(
            answer(dict(zip(SCHEMA["properties"], ("bug", True, n, ["x"], f"{n}" * 100), strict=True)))
            for n in range(9)
        ),
        fail("no"),
        schema=SCHEMA,
    )
)
"""A page with all tags that a report may have."""


@given(st.lists(results(), max_size=12), st.dictionaries(st.text(), any_json(), max_size=3), st.booleans())
def test_no_answer_adds_markup(rows: list[RowResult], columns: dict[str, Any], has_schema: bool) -> None:
    text = make_report(*rows, schema=SCHEMA if has_schema else None, columns=columns)
    page = ReportPage(text)
    assert page.tags <= PLAIN_PAGE.tags | {"i"}
    assert page.attributes <= PLAIN_PAGE.attributes
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)
    failed = sum(row.status != "answered" for row in rows)
    assert sum(page.count_bars("Failures").values() if failed else []) == failed


@given(st.lists(any_json(), max_size=20), st.sampled_from([*SCHEMA["properties"].values(), {}]))
def test_every_value_of_a_column_is_counted_once(values: list[Any], schema: dict[str, Any]) -> None:
    report = JobReport(["m"], {"type": "object", "properties": {"a": schema}}, "", str)
    for position, value in enumerate(values):
        report.add(RowTask(position, {}, 0), answer({"a": value}))
    (column,) = report.models[0].columns
    assert column.count == len(values)
    assert sum(value.count for value in column.values.list_values()) == column.values.count


def test_hostile_text_is_shown_as_text() -> None:
    text = "</dd></dl><script>alert(1)</script>\u202e\x1b[2J &lt; \"'"
    expected = escape_control_characters(format_one_line(text))
    page = ReportPage(make_report(answer(text, finish_reason=text), fail(text), columns={text: text}))
    assert page.count_bars("Answers", "answer") == {expected: 1}
    example = {"Row": "in.jsonl:1", expected: expected, "Answer": expected}
    assert page.examples["Answers", "answer", expected] == [example]
    assert page.count_bars("Failures") == {expected: 1}
    assert page.count_bars("Requests", "Finish reason") == {expected: 1}


def test_hostile_names_of_a_job_are_shown_as_text() -> None:
    text = "</title><script>alert(1)</script>"
    report = JobReport([text, "m"], {"type": "object", "properties": {text: {"enum": [text]}}}, text, str)
    report.add(RowTask(0, {}, 0, location=text), answer({text: text}))
    summary = JobOverview(text, text, text, {"Prompt": text}, Progress(), "", 1.0, text)
    page = ReportPage("".join(render_map_report(summary, report)))
    assert page.tags <= PLAIN_PAGE.tags | {"pre", "table", "thead", "tbody", "tr", "th", "td", "p"}
    assert page.count_bars("Answers", text) == {text: 1}
    assert (page.facts["Input"], page.facts["Output"]) == (text, text)
    assert page.rows[1][0] == text


@pytest.mark.slow
@pytest.mark.needs("chromium")
def test_a_browser_loads_nothing_and_a_phone_is_wide_enough(home: Home, listener: Listener) -> None:
    url = f"{listener.url}/page"
    hostile = (
        f"</title></style></pre></svg></details><script>document.write('<img src={url}>')</script><img src='{url}'>"
    )
    hostile += f"<img src=x: onerror=\"new Image().src='{url}'\"><style>@import url('{url}')</style>" + "W" * 300
    rows = [answer({"kind": hostile, "reason": hostile + str(n), "score": n, "tags": [hostile]}) for n in range(20)]
    text = make_report(
        *rows, fail(hostile), fail("x"), schema=SCHEMA, models=(hostile, "m"), columns={hostile: hostile}
    )
    (home.work / "page.html").write_text(text)
    (home.work / "open.html").write_text(text.replace("<details>", "<details open>"))
    (home.work / "control.html").write_text(f"<!DOCTYPE html><img src='{listener.url}/control'>")
    frames = "".join(
        f'<iframe src="{name}.html" width="{PHONE_WIDTH}" height="800"></iframe>'
        for name in ("page", "open", "control")
    )
    (home.work / "all.html").write_text(f"<!DOCTYPE html><title>opened</title>{frames}{MEASURE}")
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
    command += ["--disable-background-networking", "--allow-file-access-from-files", "--virtual-time-budget=20000"]
    command += [f"--user-data-dir={home.path / 'browser'}", "--dump-dom", (home.work / "all.html").as_uri()]
    shown = run(command, env=home.env, cwd=home.work, timeout=60)
    title = re.search(r"<title>([\d ]+)</title>", shown.text)
    assert title, shown.stderr
    assert max(map(int, title[1].split()[:2])) <= PHONE_WIDTH
    assert set(listener.paths) == {"/control"}
