"""Numbers, costs, durations and times in compact form."""

from __future__ import annotations

import pytest

from ask.client.cost import UNKNOWN_COST, Cost
from ask.render.amounts import format_compact_number, format_cost, format_dollars, format_local_time, format_timestamp
from ask.text import format_age, format_duration


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (999, "999"), (1000, "1.0k"), (12_345, "12.3k"), (999_960, "1.0M"), (4_500_000_000, "4.5G")],
)
def test_compact_numbers(number: int, text: str) -> None:
    assert format_compact_number(number) == text


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (None, ""),
        (0, "$0"),
        (2.4e-7, "$0.0000002"),
        (0.00003, "$0.00003"),
        (0.00096, "$0.0010"),
        (0.00123, "$0.0012"),
        (12.345, "$12.35"),
        (1e-300, "$0.0000000000"),
    ],
)
def test_amounts_of_money(amount: float | None, text: str) -> None:
    assert format_dollars(amount) == text


@pytest.mark.parametrize(
    ("cost", "text"),
    [
        (Cost(), ""),
        (UNKNOWN_COST, "unknown"),
        (Cost(0.5, frozenset({"reported"})), "$0.5000"),
        (Cost(0.5, frozenset({"genai-prices"})), "~$0.5000"),
        (Cost(0.5, frozenset({"reported", "openrouter"}), is_complete=False), "~$0.5000+"),
        (Cost(0.0, frozenset({"local"})), "$0"),
    ],
)
def test_costs_show_what_is_estimated_or_unknown(cost: Cost, text: str) -> None:
    assert format_cost(cost) == text


@pytest.mark.parametrize(("seconds", "text"), [(0, "0.0 s"), (59.9, "59.9 s"), (90, "1.5 min"), (5400, "1.5 h")])
def test_durations(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    ("age", "text"),
    [(-5, "now"), (59, "now"), (60, "1 min"), (7199, "1 h"), (86_400, "1 d"), (8 * 86_400, "1 w"), (4e9, "126 y")],
)
def test_ages(age: float, text: str) -> None:
    assert format_age(1e10 - age, 1e10) == text


def test_times_out_of_range_are_empty() -> None:
    assert format_timestamp(0) == "1970-01-01T00:00:00Z"
    assert (format_timestamp(1e30), format_local_time(1e30)) == ("", "")
