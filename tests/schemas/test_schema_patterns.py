"""The regular expressions and references in a schema take a limited time, whoever wrote them."""

from __future__ import annotations

import signal
import threading
import time
from typing import Any

import pytest

from ask.schemas.pattern_guard import MAX_SEARCH_SECONDS, PatternError, PatternGuard
from ask.schemas.schema import MAX_CHECK_SECONDS, LenientSchema, parse_schema
from tests.slow_parameters import mark_others_slow

SLOW = "^(a+)+$"
TEXT = "a" * 40 + "b"
SCHEMAS: dict[str, tuple[dict[str, Any], Any]] = {
    "pattern": ({"pattern": SLOW}, TEXT),
    "patternProperties": ({"patternProperties": {SLOW: {}}}, {TEXT: 1}),
    "propertyNames": ({"propertyNames": {"pattern": SLOW}}, {TEXT: 1}),
    "additionalProperties": ({"additionalProperties": False, "patternProperties": {SLOW: {}}}, {TEXT: 1}),
    "unevaluatedProperties": (
        {"unevaluatedProperties": False, "$ref": "#/$defs/a", "$defs": {"a": {"patternProperties": {SLOW: {}}}}},
        {TEXT: 1},
    ),
    "without a check of signals": ({"pattern": "a+b"}, "a" * 400_000),
}


@pytest.mark.slow_after_first
@pytest.mark.parametrize("case", mark_others_slow(SCHEMAS, ["patternProperties", "unevaluatedProperties"]))
def test_a_slow_pattern_is_left_unchecked_and_named(case: str) -> None:
    schema, value = SCHEMAS[case]
    checker = LenientSchema(schema)
    start = time.monotonic()
    assert checker.describe_problems(value) == ""
    assert time.monotonic() - start < MAX_CHECK_SECONDS + MAX_SEARCH_SECONDS + 2
    assert checker.unchecked


@pytest.mark.slow_after_first
@pytest.mark.parametrize("case", mark_others_slow(SCHEMAS, ["pattern", "without a check of signals"]))
def test_an_answer_that_a_pattern_cannot_be_searched_in_does_not_match(case: str) -> None:
    schema, value = SCHEMAS[case]
    problem = parse_schema(schema).describe_problems(value)
    assert f"{MAX_SEARCH_SECONDS:g} s" in problem


def test_other_patterns_are_checked_as_before() -> None:
    schema = {
        "properties": {"a": {"pattern": "^x"}, "b": {"pattern": r"^\p{L}$"}},
        "patternProperties": {"^n_": {"type": "integer"}},
        "additionalProperties": False,
    }
    for checker in (parse_schema({**schema, "properties": {"a": {"pattern": "^x"}}}), LenientSchema(schema)):
        assert checker.describe_problems({"a": "xyz", "n_1": 5}) == ""
        assert "'^x'" in checker.describe_problems({"a": "yz"})
        assert "'five'" in checker.describe_problems({"n_1": "five"})
        assert "'c'" in checker.describe_problems({"c": 1})
    checker = LenientSchema(schema)
    assert "'^x'" in checker.describe_problems({"b": "yz", "a": "yz"})
    [description] = checker.unchecked
    assert r"\p{L}" in description


@pytest.mark.slow
def test_references_that_multiply_take_a_limited_time() -> None:
    definitions: dict[str, Any] = {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)}
    schema = {"$defs": {**definitions, "d40": {"type": "string"}}, "properties": {"a": {"$ref": "#/$defs/d0"}}}
    checker = LenientSchema(schema)
    start = time.monotonic()
    assert checker.is_nullable({"$ref": "#/$defs/d0"})
    assert checker.describe_problems({"a": 5}) == ""
    assert time.monotonic() - start < MAX_CHECK_SECONDS + 3
    assert checker.unchecked


@pytest.mark.slow
def test_a_search_leaves_other_threads_running_and_can_be_interrupted() -> None:
    guard = PatternGuard()
    guard.check_search("x", ["x"])

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGUSR1, interrupt)
    try:
        threading.Timer(0.1, signal.pthread_kill, [threading.get_ident(), signal.SIGUSR1]).start()
        start = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            guard.check_search(SLOW, [TEXT])
        assert time.monotonic() - start < MAX_SEARCH_SECONDS
    finally:
        signal.signal(signal.SIGUSR1, previous)
    guard.check_search("x", ["x"])
    with pytest.raises(PatternError, match=r"0\.5 s"):
        guard.check_search(SLOW, [TEXT])
    guard.check_search("x", ["x"])
    guard.stop()


def test_unique_items_are_compared_in_a_limited_time() -> None:
    checker = parse_schema({"uniqueItems": True})
    items = [{"a": number} for number in range(20_000)]
    start = time.monotonic()
    assert checker.describe_problems(items) == ""
    assert "non-unique" in checker.describe_problems([*items, {"a": 3.0}])
    assert time.monotonic() - start < 10
    assert checker.describe_problems([1, True, "1", [1], 1.5, None, 0, False, {"1": 1}]) == ""
    assert "non-unique" in checker.describe_problems([{"a": 1, "b": [2.0]}, {"b": [2], "a": 1}])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["unevaluatedItems", "unevaluatedProperties"])
def test_very_many_items_are_not_compared_with_the_unevaluated_ones(name: str) -> None:
    value: Any = [0] * 100_000 if name == "unevaluatedItems" else {str(number): 0 for number in range(100_000)}
    schema = {name: False, "allOf": [{"items": {}, "additionalProperties": True}]}
    start = time.process_time()
    lenient = LenientSchema(schema)
    assert lenient.describe_problems(value) == ""
    assert [name in description for description in lenient.unchecked] == [True]
    assert name in parse_schema(schema).describe_problems(value)
    assert time.process_time() - start < 10
