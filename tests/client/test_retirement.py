"""Models that will be retired: the dates in models lists and profiles, and who is told about them when."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from ask.parsing import read_date
from providers.anthropic import provider as anthropic
from providers.openai import provider as openai
from providers.openrouter import provider as openrouter
from tests import wire
from tests.model_server import ModelServer, Reply
from tests.program import Ask, Home

NO_DATES: list[Any] = ["", "soon", "2026-13-01", "2026-12-111", None, True, -5, 0, 1e300, [], {}]


def date_in(days: int) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(time.time() + days * 86_400))


def listed(*entries: dict[str, Any]) -> Reply:
    return wire.whole_reply({"data": list(entries)})


@pytest.mark.parametrize(
    ("value", "date"),
    [
        ("2026-12-11", "2026-12-11"),
        ("2026-12-11T00:00:00Z", "2026-12-11"),
        (1_796_947_200, "2026-12-11"),
        *((value, None) for value in NO_DATES),
    ],
)
def test_dates_are_read_in_the_forms_that_services_use(value: Any, date: str | None) -> None:
    assert read_date(value) == date


def test_each_vendor_s_list_has_its_own_fields() -> None:
    (model,) = openai.provider_parse_models({"data": [{"id": "gpt-5", "shutdown_date": "2026-12-11"}]})
    assert (model.retirement_date, model.deprecation_date) == ("2026-12-11", None)
    dates = {"deprecated_at": "2026-09-01T00:00:00Z", "retires_at": "2026-12-31T00:00:00Z", "lifecycle": "deprecated"}
    (model,) = anthropic.provider_parse_models({"data": [{"id": "claude-opus-4-1", **dates}]})
    assert (model.retirement_date, model.deprecation_date) == ("2026-12-31", "2026-09-01")
    (model,) = openrouter.provider_parse_models({"data": [{"id": "a/b", "expiration_date": "2027-01-02"}]})
    assert model.retirement_date == "2027-01-02"
    (model,) = openrouter.provider_parse_models({"data": [{"id": "a/b", "expiration_date": None}]})
    assert model.retirement_date is None


@pytest.mark.parametrize("damage", [{"reported": 5}, {"dates": 3}, {"reported": None, "day": 1}])
def test_damage_in_the_file_of_dates_is_ignored(ask: Ask, home: Home, server: ModelServer, damage: Any) -> None:
    server.reply(listed({"id": "a/old", "expiration_date": date_in(1)}), wire.says("Hello."))
    assert ask("models").code == 0
    file = next(home.path.rglob("retirements.json"))
    file.write_text(json.dumps(json.loads(file.read_text()) | damage))
    assert ask("-m", "a/old", "hi").text == "Hello.\n"


@pytest.mark.parametrize(("days", "is_told"), [(31, False), (30, True), (-1, True)])
def test_a_listed_date_is_reported_from_30_days_before(ask: Ask, server: ModelServer, days: int, is_told: bool) -> None:
    server.reply(listed({"id": "a/old", "expiration_date": date_in(days)}, {"id": "a/new"}), wire.says("Hello."))
    assert json.loads(ask("models", "--json").stdout)[1]["retires"] == date_in(days)
    result = ask("-m", "a/old", "hi")
    assert result.text == "Hello.\n"
    assert (date_in(days) in result.stderr) == is_told


def test_the_notice_comes_once_for_each_model_and_day(ask: Ask, home: Home, server: ModelServer) -> None:
    old = [{"id": name, "expiration_date": date_in(3)} for name in ("a/one", "a/two")]
    server.reply(listed(*old), *[wire.says("Hello.")] * 5)
    ask("models")
    told = [date_in(3) in ask("-m", name, "hi").stderr for name in ("a/one", "a/one", "a/two:free", "a/three")]
    assert told == [True, False, True, False]
    file = home.path / "cache" / "ask" / "retirements.json"
    file.write_text(file.read_text().replace(date_in(0), date_in(-1)))
    assert date_in(3) in ask("-m", "a/one", "hi").stderr
    file.write_text("[damaged")
    assert ask("-m", "a/one", "hi").stderr == ""


def test_a_date_in_a_profile_needs_no_list(ask: Ask, home: Home, server: ModelServer) -> None:
    row = f'[[providers.openrouter.models]]\npattern = "old*"\nretirement_date = "{date_in(9)}"\n'
    home.configure(row + '[aliases]\nlast = "openrouter:a/old-2"\n')
    server.reply(wire.says("Hello."), wire.says("Hello.", whole=True))
    assert date_in(9) in ask("-m", "a/old-1", "hi").stderr
    assert date_in(9) in ask("map", "-m", "last", "Count: {{line}}", "--input-format", "lines", "-", stdin=b"x").stderr
    doctor = json.loads(ask("doctor", "--json", "--offline").stdout)
    (row,) = [row for row in doctor if row["check"] == "alias last"]
    assert (row["state"], date_in(9) in row["found"]) == ("warning", True)


def test_doctor_checks_the_models_with_the_lists_that_it_fetches(ask: Ask, server: ModelServer) -> None:
    server.reply(listed({"id": "a/old", "expiration_date": date_in(9)}))
    doctor = json.loads(ask("doctor", "--json", env={"ASK_MODEL": "a/old"}).stdout)
    found = [row["found"] for row in doctor if row["check"] == "default" and row["state"] == "warning"]
    assert len(found) == 1
    assert date_in(9) in found[0]
