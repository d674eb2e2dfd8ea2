"""The default hooks of `Provider`, and the functions that providers share."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask import HttpRequest, Message, Provider, ProviderInfo, ProviderState, RetryAction, ToolSpec
from ask.parsing import choose_retry_action, get_model_family, parse_retry_after

PROVIDER = Provider(ProviderInfo("test", "Test", "http://test"))


def test_hooks_have_defaults() -> None:
    assert PROVIDER.provider_info().name == "test"
    assert PROVIDER.provider_send(HttpRequest("/"), 1) is None
    assert PROVIDER.provider_supports_tools("any")
    assert PROVIDER.provider_models_request("key") is None
    assert PROVIDER.provider_parse_models({"data": [{"id": "a"}]}) == []
    tool = ToolSpec("bash", "Run a command", {"type": "object", "properties": {}})
    assert PROVIDER.provider_format_tools([tool]) == [tool.to_function()]


def test_http_error_is_one_line_with_its_status() -> None:
    error = PROVIDER.provider_parse_error(503, {"Retry-After": "2"}, "it\n  failed\n")
    assert (error.message, error.status, error.retry_action) == ("it failed", 503, RetryAction.retry(2))


def test_http_error_without_a_body_has_a_message() -> None:
    assert PROVIDER.provider_parse_error(503, {}, "").message


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("anthropic/claude-x", "anthropic"),
        ("~anthropic/claude-latest", "anthropic"),
        ("gpt-4o", ""),
        ("a/b/c", "a"),
        ("", ""),
    ],
)
def test_model_family_is_the_vendor(model: str, family: str) -> None:
    assert get_model_family(model) == family


@pytest.mark.parametrize(
    ("provider", "native_model", "model_asked", "goes_back"),
    [
        ("test", "anthropic/a", "anthropic/b", True),
        ("test", "anthropic/a", "~anthropic/b", True),
        ("test", "a", "b", True),
        ("test", "anthropic/a", "google/b", False),
        ("test", "anthropic/a", "b", False),
        ("other", "anthropic/a", "anthropic/a", False),
    ],
)
def test_native_parts_are_returned_for_the_same_provider_and_family(
    provider: str, native_model: str, model_asked: str, goes_back: bool
) -> None:
    message = Message("assistant", provider_state=ProviderState(provider, native_model, {"signature": "s"}))
    assert PROVIDER.find_provider_state(message, model_asked) == ({"signature": "s"} if goes_back else {})
    assert PROVIDER.find_provider_state(Message("assistant"), model_asked) == {}


def test_retry_after_may_be_in_seconds() -> None:
    assert parse_retry_after({"Retry-After": "7"}) == 7
    assert parse_retry_after({"retry-after": " 1.5 "}) == 1.5
    assert parse_retry_after({"Retry-After": "-3"}) == 0


def test_retry_after_may_be_a_date() -> None:
    date = datetime.now(UTC) + timedelta(seconds=60)
    seconds = parse_retry_after({"Retry-After": format_datetime(date, usegmt=True)})
    assert seconds is not None
    assert 50 < seconds <= 60
    assert parse_retry_after({"Retry-After": format_datetime(date - timedelta(days=1), usegmt=True)}) == 0


@pytest.fixture
def eastern_time(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "EST5")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("eastern_time")
@pytest.mark.parametrize("date", ["Tue, 07 Oct 2025 13:57:00 GMT", "Tue Oct  7 13:57:00 2025"])
def test_date_in_retry_after_counts_by_the_clock_of_the_server(date: str) -> None:
    assert parse_retry_after({"Retry-After": date, "Date": "Tue, 07 Oct 2025 13:56:40 GMT"}) == 20
    assert parse_retry_after({"Retry-After": date, "Date": "Tue, 07 Oct 2025 13:57:40 GMT"}) == 0
    assert parse_retry_after({"Retry-After": date, "Date": "today"}) == 0


@pytest.mark.parametrize(
    "value", ["", "soon", "nan", "inf", "1e999", "Wed, 99 Foo 2020", "Wed, 21 Oct 99999 07:28:00 GMT"]
)
def test_invalid_retry_after_is_none(value: str) -> None:
    assert parse_retry_after({"Retry-After": value}) is None
    assert parse_retry_after({}) is None


@pytest.mark.parametrize(
    ("status", "advice", "is_retried"),
    [(400, "true", True), (503, "false", False), (429, "False", False), (503, "?", True), (400, "", False)],
)
def test_x_should_retry_decides(status: int, advice: str, is_retried: bool) -> None:
    action = choose_retry_action(status, {"X-Should-Retry": advice, "Retry-After": "3"})
    assert action == (RetryAction.retry(3) if is_retried else RetryAction.NONE)


def test_retry_after_ms_takes_precedence() -> None:
    assert parse_retry_after({"Retry-After-Ms": "1500", "Retry-After": "2"}) == 1.5
    assert parse_retry_after({"retry-after-ms": "250"}) == 0.25
    assert parse_retry_after({"retry-after-ms": "-250"}) == 0
    for value in ("", "soon", "nan", "inf"):
        assert parse_retry_after({"retry-after-ms": value, "retry-after": "2"}) == 2
        assert parse_retry_after({"retry-after-ms": value}) is None


@given(st.text())
def test_any_retry_after_is_finite_or_none(value: str) -> None:
    seconds = parse_retry_after({"Retry-After": value})
    assert seconds is None or 0 <= seconds < float("inf")


@pytest.mark.parametrize(
    ("status", "action"), [(429, "retry"), (529, "retry"), (400, "none"), (401, "none"), (200, "none")]
)
def test_temporary_statuses_are_retried(status: int, action: str) -> None:
    assert choose_retry_action(status, {}).kind == action
