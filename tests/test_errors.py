"""The exception tree, its exit codes, and error messages."""

from __future__ import annotations

import pickle

import pytest

from ask import errors
from ask.errors import (
    AskError,
    IncompleteStreamError,
    NetworkError,
    ProviderError,
    RetryAction,
    RunInterruptedError,
    to_ask_error,
)


def list_subclasses(root: type[AskError]) -> list[type[AskError]]:
    return [root, *(leaf for branch in root.__subclasses__() for leaf in list_subclasses(branch))]


def test_an_error_is_pickled_without_what_was_redacted() -> None:
    error = ProviderError("no key sk-1", 429, RetryAction.retry(2.0), hint="set sk-1")
    error.redact(lambda text: text.replace("sk-1", "[key]"))
    data = pickle.dumps(error)
    copy = pickle.loads(data)
    assert b"sk-1" not in data
    assert (type(copy), str(copy), copy.status, copy.retry_action) == (ProviderError, str(error), 429, ("retry", 2.0))
    for other in (NetworkError("down", retryable=True), RunInterruptedError("stop", exit_code=143)):
        copy = pickle.loads(pickle.dumps(other))
        assert (copy.__dict__, str(copy), copy.exit_code) == (other.__dict__, str(other), other.exit_code)


def test_the_tree_in_the_docstring_is_accurate() -> None:
    assert errors.__doc__
    drawn = [line.replace("│", " ").strip("├└─ ").split()[:2] for line in errors.__doc__.split("\n\n")[1].splitlines()]
    built = [error for error in list_subclasses(AskError) if error.__module__ == errors.__name__]
    assert [[error.__name__, str(error.exit_code)] for error in built] == drawn


def test_an_error_is_formatted_with_its_advice() -> None:
    assert str(AskError("no key")) == "no key"
    assert str(AskError("no key", "set one")) == "no key: set one"


@pytest.mark.parametrize(
    ("provider", "status", "hint", "text"),
    [
        ("", None, "", "it failed"),
        ("openrouter", None, "", "it failed (openrouter)"),
        ("openrouter", 402, "", "it failed (openrouter, 402)"),
        ("", 402, "add credits", "it failed (402): add credits"),
    ],
)
def test_a_provider_error_names_the_provider_and_the_status(
    provider: str, status: int | None, hint: str, text: str
) -> None:
    error = ProviderError("it failed", status, hint=hint)
    error.provider = provider
    assert str(error) == text


def test_an_incomplete_stream_is_a_network_error_with_exit_code_10() -> None:
    assert issubclass(IncompleteStreamError, NetworkError)
    assert (NetworkError("x").exit_code, IncompleteStreamError("x").exit_code) == (5, 10)
    assert not NetworkError("x").retryable


def test_remedies_compare_by_value() -> None:
    assert RetryAction.retry(3) == RetryAction("retry", 3)
    assert RetryAction.retry() == RetryAction("retry", None)
    assert ProviderError("x").retry_action == RetryAction.NONE == RetryAction("none")
    assert (RetryAction.NEXT_KEY.kind, RetryAction.WITHOUT_TOOLS.kind) == ("next_key", "without_tools")


def test_a_wrapped_keyboard_interrupt_is_recognized() -> None:
    fault = RuntimeError("Error calling __set_name__")
    fault.__cause__ = KeyboardInterrupt()
    assert to_ask_error(fault).exit_code == 130
