"""Model profiles: patterns of names, the facts about a model, and options adapted to them."""

from __future__ import annotations

from typing import Any

import pytest

from ask.errors import ParameterError
from ask.profiles import EFFORTS, ModelProfile, adapt_options, find_profile, matches, parse_pattern

UP_TO_HIGH = ("low", "medium", "high")


def adapt(profile: ModelProfile, **options: Any) -> tuple[dict[str, Any], list[str]]:
    """Return the adapted options and the notices."""
    notices: list[str] = []
    return adapt_options(profile, "m", options, notices.append), notices


@pytest.mark.parametrize(
    ("pattern", "names", "other_names"),
    [
        ("o3-mini", ["o3-mini", "vendor/o3-mini", "ft:o3-mini"], ["o3-mini-2", "o3"]),
        ("gpt-4o*|chatgpt-*", ["gpt-4o", "gpt-4o-mini", "chatgpt-4o", "ft:gpt-4o:a::b"], ["gpt-4.1"]),
        ("gpt-{5.1}*", ["gpt-5.1", "gpt-5.1-codex", "gpt-5.1-2025-11-13"], ["gpt-5", "gpt-5.10", "gpt-5-2025-08-07"]),
        ("gpt-{5}*", ["gpt-5", "gpt-5-mini", "gpt-5-2025-08-07"], ["gpt-5.1", "gpt-50"]),
        ("gpt-{5.2-5.4}*", ["gpt-5.2", "gpt-5.3-x", "gpt-5.4"], ["gpt-5.1", "gpt-5.10", "gpt-6"]),
        ("gpt-{5.4+}*", ["gpt-5.4", "gpt-5.10", "gpt-6", "gpt-12.1-x"], ["gpt-5.3", "gpt-4.9", "gpt-x"]),
        ("claude-*-{4.5+}*", ["claude-opus-4-5", "claude-x-5", "claude-opus-4-5-20251101"], ["claude-opus-4-20250514"]),
        ("kimi-k{3+}*", ["kimi-k3", "kimi-k3.1-pro"], ["kimi-k2.7", "kimi-k2-0711-preview"]),
        ("*x-ai/*", ["x-ai/grok", "~x-ai/grok"], ["grok", "openai/x-ai"]),
        ("a.c", ["a.c"], ["abc"]),
        ("gpt-*-mini", ["gpt-5-mini", "gpt-mini-mini"], ["gpt-mini", "gpt-5-mini-1"]),
        ("claude-*-{5}*", ["claude-opus-5"], ["claude-sonnet-5-5"]),
    ],
)
def test_pattern_matches_names(pattern: str, names: list[str], other_names: list[str]) -> None:
    assert [name for name in [*names, *other_names] if matches(pattern, name)] == names


@pytest.mark.parametrize("pattern", ["gpt-{}", "gpt-{5+", "gpt-{a}", "gpt-{5}-{6}", "gpt-{5.1.2}", "gpt-{-5}"])
def test_invalid_version_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="version"):
        parse_pattern(pattern)


def test_each_value_is_from_the_first_row_that_has_it() -> None:
    rows = [
        ModelProfile("a-{2+}", efforts=()),
        ModelProfile("b*", efforts=("max",)),
        ModelProfile("a*", "page", efforts=("low",), output_limit=5),
        ModelProfile("*", "other", output_limit=9, context_length=7),
    ]
    assert find_profile(rows, "a-2") == ModelProfile("a-2", "page", (), output_limit=5, context_length=7)
    assert find_profile(rows, "a-1").efforts == ("low",)
    assert find_profile([], "c") == ModelProfile("c")


@pytest.mark.parametrize(
    ("efforts", "effort", "used"),
    [
        (UP_TO_HIGH, "medium", "medium"),
        (UP_TO_HIGH, "none", "low"),
        (UP_TO_HIGH, "max", "high"),
        (("none", *UP_TO_HIGH), "minimal", "low"),
        (("low", "high", "max"), "medium", "high"),
        (("low", "high", "max"), "xhigh", "max"),
        (("none", "high"), "low", "high"),
        (("fast", "low"), "fast", "fast"),
        (None, "anything", "anything"),
    ],
)
def test_effort_is_the_nearest_that_the_model_has(efforts: tuple[str, ...] | None, effort: str, used: str) -> None:
    options, notices = adapt(ModelProfile("m", efforts=efforts), reasoning_effort=effort, seed=1)
    assert options == {"reasoning_effort": used, "seed": 1}
    assert len(notices) == (effort != used)
    assert all(f"{effort!r}; using {used!r}" in notice for notice in notices)


def test_model_without_reasoning_accepts_only_none() -> None:
    profile = ModelProfile("m", efforts=())
    assert adapt(profile, reasoning_effort="none") == ({}, [])
    with pytest.raises(ParameterError, match="does not support reasoning"):
        adapt(profile, reasoning_effort="high")


@pytest.mark.parametrize("effort", ["hihg", 3, True, ["low"]])
def test_unknown_effort_is_refused_if_the_efforts_are_known(effort: Any) -> None:
    with pytest.raises(ParameterError) as caught:
        adapt(ModelProfile("m", efforts=UP_TO_HIGH), reasoning_effort=effort)
    assert "low, medium, high" in caught.value.hint


def test_effort_becomes_the_vendor_s_parameters_except_those_that_the_user_set() -> None:
    rows: dict[str, dict[str, Any]] = {
        "none": {"thinking": {"type": "disabled"}},
        "high": {"thinking": {"type": "on", "budget": 9}, "beta": 1},
    }
    profile = ModelProfile("m", efforts=("none", "low", "high"), effort_parameters=rows)
    assert adapt(profile, reasoning_effort="none")[0] == {"thinking": {"type": "disabled"}}
    assert adapt(profile, reasoning_effort="low")[0] == {"reasoning_effort": "low"}
    assert adapt(profile, reasoning_effort="high", thinking={"budget": 3}, beta=2, seed=1)[0] == {
        "thinking": {"type": "on", "budget": 3},
        "beta": 2,
        "seed": 1,
    }
    assert rows["none"] == {"thinking": {"type": "disabled"}}


def test_refused_option_is_an_error_unless_it_changes_nothing() -> None:
    profile = ModelProfile("m", refused_options=("temperature", "stop"))
    assert adapt(profile, temperature=1, seed=1) == ({"seed": 1}, [])
    for options in ({"temperature": 0.5}, {"stop": "END"}):
        with pytest.raises(ParameterError) as caught:
            adapt(profile, **options)
        assert next(iter(options)) in caught.value.hint


@pytest.mark.parametrize(
    ("default_effort", "options", "refused"),
    [
        ("medium", {}, True),
        (None, {}, True),
        ("none", {}, False),
        ("medium", {"reasoning_effort": "none"}, False),
        ("none", {"reasoning_effort": "low"}, True),
        ("medium", {"reasoning": {"effort": "none"}}, False),
        ("medium", {"thinking": {"type": "disabled"}}, False),
    ],
)
def test_option_may_be_refused_only_while_the_model_reasons(
    default_effort: str | None, options: dict[str, Any], refused: bool
) -> None:
    profile = ModelProfile(
        "m", efforts=("none", "low"), default_effort=default_effort, refused_when_reasoning=("temperature",)
    )
    if not refused:
        assert adapt(profile, temperature=0.5, **options)[0]["temperature"] == 0.5
        return
    with pytest.raises(ParameterError) as caught:
        adapt(profile, temperature=0.5, **options)
    assert "--effort none" in caught.value.hint


def test_model_without_reasoning_accepts_what_only_reasoning_prevents() -> None:
    profile = ModelProfile("m", efforts=(), refused_when_reasoning=("temperature",))
    assert adapt(profile, temperature=0.5)[0] == {"temperature": 0.5}


def test_unknown_model_gets_the_options_as_they_are() -> None:
    options = {"reasoning_effort": "ultra", "temperature": 0.5, "stop": "END", "thinking": {}}
    assert adapt(ModelProfile("m"), **options) == (options, [])


@pytest.mark.parametrize("effort", [None, 3, True, ["low"], {"a": 1}])
def test_any_value_is_possible_if_the_efforts_are_unknown(effort: Any) -> None:
    profile = ModelProfile("m", effort_parameters={"none": {"thinking": False}})
    expected = {} if effort is None else {"reasoning_effort": effort}
    assert adapt(profile, reasoning_effort=effort) == (expected, [])


def test_efforts_are_in_ascending_order() -> None:
    assert EFFORTS == ("none", "minimal", "low", "medium", "high", "xhigh", "max")
