"""The HTML report of `ask history stats`: its numbers, its markup, and names from outside."""

from __future__ import annotations

import re
from datetime import date, timedelta
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask.client.cost import Cost
from ask.export.usage_html import render_usage_html, round_up_scale
from ask.history.statistics import ToolUsageRow, UsageRow, UsageStatistics
from ask.messages import Usage
from ask.text import escape_control_characters, format_one_line

TODAY = date(2026, 1, 31)
VOID_TAGS = {"meta"}


class ReportParser(HTMLParser):
    """Collects the tags, the attributes and the table rows of a page, and checks that tags are closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.rows: list[list[str]] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag not in VOID_TAGS:
            self._open.append(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("th", "td"):
            self.rows[-1].append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "td" in self._open or "th" in self._open:
            self.rows[-1][-1] += data


def make_row(name: str, **values: object) -> UsageRow:
    row = UsageRow(name, 1, 1, Usage(10, 5), Cost(0.5), 1.5, 4.0, 3, 1)
    return row._replace(**values)  # type: ignore[arg-type]


def render(statistics: UsageStatistics, first_day: date = TODAY - timedelta(days=29)) -> str:
    return "".join(render_usage_html(statistics, first_day, TODAY))


def make_statistics(days: list[UsageRow], models: list[UsageRow], tools: list[ToolUsageRow]) -> UsageStatistics:
    return UsageStatistics(make_row(""), tuple(days), tuple(models), tuple(tools))


def parse_report(model: str, tool: str) -> ReportParser:
    return ReportParser(
        render(make_statistics([make_row("2026-01-31")], [make_row(model)], [ToolUsageRow(tool, 3, 1, 2)]))
    )


@given(model=st.text(), tool=st.text())
def test_names_add_no_markup(model: str, tool: str) -> None:
    page, plain_page = parse_report(model, tool), parse_report("model", "tool")
    assert (page.tags, page.attributes) == (plain_page.tags, plain_page.attributes)
    assert page.rows[4][0] == escape_control_characters(format_one_line(model))


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", '"><svg onload=x>', "&lt;", "</title>", "a\x1b[31m"])
def test_markup_in_names_is_text(name: str) -> None:
    page, plain_page = parse_report(name, name), parse_report("model", "tool")
    assert (page.tags, page.attributes) == (plain_page.tags, plain_page.attributes)
    assert page.rows[4][0].startswith(name[:1])


def test_unknown_amounts_are_not_zero() -> None:
    nothing = make_row("m", usage=Usage(), cost=Cost(), median=None, p95=None, calls=0, failures=0)
    page = ReportParser(render(make_statistics([], [], [])._replace(days=(nothing._replace(name="2026-01-31"),))))
    assert page.rows[1][1:] == ["1", "-", "-", "-", "-", "-", "-", "-", "0", "0"]


@pytest.mark.parametrize(
    ("cost", "shown"), [(Cost(0.5, frozenset({"openrouter"})), "~$0.5000"), (Cost(2.0, is_complete=False), "$2.00+")]
)
def test_estimated_and_incomplete_costs_are_marked(cost: Cost, shown: str) -> None:
    page = ReportParser(render(make_statistics([make_row("2026-01-31", cost=cost)], [], [])))
    assert page.rows[1][6] == shown


def test_days_outside_the_charts_are_in_the_table() -> None:
    days = [make_row(day) for day in ("2020-01-01", "2026-01-31", "2027-05-05")]
    text = render(make_statistics(days, [], []), date(2019, 1, 1))
    assert [row[0] for row in ReportParser(text).rows[1:4]] == ["2020-01-01", "2026-01-31", "2027-05-05"]
    assert 'viewBox="0 0 366 100"' in text


def test_only_charts_with_amounts_are_drawn() -> None:
    local = {"cost": Cost(), "calls": 0, "failures": 0}
    days, models = [make_row("2026-01-31", **local)], [make_row("ollama:qwen3", **local)]
    charts = re.findall(r"<figcaption><b>([^<]*)", render(make_statistics(days, models, [])))
    assert charts == ["Tokens", "Response time"] * 2
    all_charts = re.findall(r"<figcaption><b>([^<]*)", render(make_statistics([make_row("2026-01-31")], [], [])))
    assert all_charts == ["Cost", "Tokens", "Response time", "Tool calls"]


def test_an_empty_history_has_neither_charts_nor_tables() -> None:
    page = ReportParser(render(UsageStatistics(UsageRow("", 0, 0, Usage()), (), (), ())))
    assert "svg" not in page.tags
    assert page.rows == []


@given(st.floats(1e-9, 1e15))
def test_axes_end_at_a_round_number_just_above_the_largest_amount(amount: float) -> None:
    top = round_up_scale(amount, 0)
    assert amount <= top * (1 + 1e-9)
    assert top <= amount * 2.1
