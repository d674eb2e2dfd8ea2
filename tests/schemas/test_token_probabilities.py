"""Tests for the probabilities of values, with a model whose probabilities are known."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask.schemas.token_probabilities import (
    TokenLogprob,
    compute_value_probabilities,
    find_value_positions,
)
from tests.simulated_model import SimulatedModel, learn_vocabulary

ALL = 1000

VALUE_SETS = st.one_of(
    st.just([True, False]),
    st.integers(2, 20).map(lambda count: list(range(1, count + 1))),
    st.integers(-3, 3).flatmap(lambda first: st.integers(2, 15).map(lambda n: list(range(first, first + n)))),
    st.lists(st.text(alphabet='abé/"\\ ñ日🦊', max_size=6), min_size=2, max_size=8, unique=True),
    st.permutations(["billing", "bill", "bug", "bug report", "other", "outage", "bi"]),
)
LAYOUTS = st.sampled_from(['{{"kind":{}}}', '{{"kind": {}}}', '{{\n  "kind": {}\n}}', '```json\n{{"kind":{}}}\n```'])


def make_tokens(*tokens: tuple[str, dict[str, float]]) -> list[TokenLogprob]:
    """Return tokens with the probabilities of the tokens at their positions."""
    return [
        TokenLogprob(
            token.encode(),
            math.log(alternatives[token]),
            [(each.encode(), math.log(probability)) for each, probability in alternatives.items()],
        )
        for token, alternatives in tokens
    ]


def compute(tokens: Sequence[TokenLogprob], values: Sequence[Any], name: str = "kind") -> dict[Any, float]:
    """Return the probability of each value of a field."""
    answer = json.loads(b"".join(token.token for token in tokens))
    result = compute_value_probabilities(tokens, answer, {name: values})[name]
    return dict(zip(values, map(pytest.approx, result.probabilities), strict=True))


def test_all_tokens_that_begin_a_value_are_added_up() -> None:
    tokens = make_tokens(
        ('{"kind":', {'{"kind":': 1.0}),
        ('"bill', {'"bill': 0.3, '"billing"': 0.2, ' "bi': 0.1, '"bug': 0.25, '"other': 0.15}),
        ('ing"}', {'ing"}': 1.0}),
    )
    assert compute(tokens, ["billing", "bug", "other"]) == {"billing": 0.6, "bug": 0.25, "other": 0.15}


def test_an_ambiguous_token_is_followed_along_the_answer() -> None:
    tokens = make_tokens(
        ('{"kind":"', {'{"kind":"': 1.0}),
        ("b", {"b": 0.8, "other": 0.2}),
        ("ug", {"ug": 0.75, "illing": 0.25}),
        ('"}', {'"}': 1.0}),
    )
    assert compute(tokens, ["billing", "bug", "other"]) == {"billing": 0.2, "bug": 0.6, "other": 0.2}


def test_a_token_that_covers_the_key_and_the_quote_is_split() -> None:
    tokens = make_tokens(
        ('{"', {'{"': 1.0}),
        ("kind", {"kind": 1.0}),
        ('":"', {'":"': 0.5, '":': 0.3, '": "': 0.2}),
        ("yes", {"yes": 0.9, "no": 0.1}),
        ('"}', {'"}': 1.0}),
    )
    assert compute(tokens, ["yes", "no"]) == {"yes": 0.9, "no": 0.1}


def test_a_number_ends_where_the_object_does() -> None:
    tokens = make_tokens(
        ('{"kind":', {'{"kind":': 1.0}),
        ("1", {"1": 0.9, "2": 0.1}),
        ("}", {"}": 0.6, "0": 0.4}),
    )
    assert compute(tokens, list(range(1, 11))) == {1: 0.54, 2: 0.1, 10: 0.36, **dict.fromkeys(range(3, 10), 0.0)}


def test_a_value_may_be_written_in_an_unusual_way() -> None:
    tokens = make_tokens(
        ('{"kind":', {'{"kind":': 1.0}),
        ("1", {"1": 0.7, "2": 0.3}),
        (".0", {".0": 0.9, "0": 0.1}),
        ("}", {"}": 1.0}),
    )
    assert compute(tokens, list(range(1, 11)))[1] == 0.63
    tokens = make_tokens(
        ('{"kind":"', {'{"kind":"': 1.0}),
        ("\\u00E9", {"\\u00E9": 0.75, "other": 0.25}),
        ('"}', {'"}': 1.0}),
    )
    assert compute(tokens, ["é", "other"]) == {"é": 0.75, "other": 0.25}


def test_what_is_no_value_is_reported_and_not_counted() -> None:
    tokens = make_tokens(
        ('{"kind": ', {'{"kind": ': 1.0}),
        ("true", {"true": 0.6, "false": 0.2, "null": 0.15, "<|end|>": 0.05}),
        ("}", {"}": 1.0}),
    )
    [result] = compute_value_probabilities(tokens, {"kind": True}, {"kind": [True, False]}).values()
    assert result.probabilities == pytest.approx((0.75, 0.25))
    assert (result.outside, result.unresolved) == pytest.approx((0.2, 0.0))


def test_other_fields_in_place_of_this_one_are_not_counted() -> None:
    tokens = make_tokens(
        ('{"kind', {'{"kind': 1.0}),
        ('":true', {'":true': 0.3, '":false': 0.1, 'ness":1': 0.6}),
        ("}", {"}": 1.0}),
    )
    [result] = compute_value_probabilities(tokens, {"kind": True}, {"kind": [True, False]}).values()
    assert result.probabilities == pytest.approx((0.75, 0.25))
    assert (result.outside, result.unresolved) == pytest.approx((0.0, 0.0))


def test_the_parts_of_a_character_and_escapes_belong_to_their_value() -> None:
    tokens = [
        TokenLogprob(b'{"kind":"caf', 0.0),
        TokenLogprob(b"\xc3", math.log(0.5), [(b"\xc3", math.log(0.5)), (b"\\u00e9", math.log(0.3))]),
        TokenLogprob(b"\xa9", math.log(0.25), [(b"\xa9", math.log(0.25)), (b"\xa8", math.log(0.75))]),
        TokenLogprob(b'"}', 0.0),
    ]
    result = compute_value_probabilities(tokens, {"kind": "café"}, {"kind": ["café", "cafè"]})["kind"]
    assert result.probabilities == pytest.approx((0.425 / 0.8, 0.375 / 0.8))
    assert result.unresolved == pytest.approx(0.2)


def test_a_branch_of_several_values_is_divided() -> None:
    tokens = make_tokens(
        ('{"kind":"', {'{"kind":"': 1.0}),
        ("other", {"other": 0.4, "b": 0.6}),
        ('"}', {'"}': 1.0}),
    )
    [result] = compute_value_probabilities(tokens, {"kind": "other"}, {"kind": ["billing", "bug", "other"]}).values()
    assert result.probabilities == pytest.approx((0.3, 0.3, 0.4))
    assert result.unresolved == pytest.approx(0.6)


def test_a_shorter_token_begins_the_values_that_no_longer_one_begins() -> None:
    tokens = make_tokens(
        ('{"kind":"', {'{"kind":"': 1.0}),
        ("bug", {"bug": 0.5, "b": 0.3, "o": 0.1, "outage": 0.09995, "other": 0.00005}),
        ('"}', {'"}': 1.0}),
    )
    expected = {"billing": 0.3, "bug": 0.5, "outage": 0.09995, "other": 0.10005}
    assert compute(tokens, ["billing", "bug", "outage", "other"]) == expected


def test_a_long_text_before_the_answer_takes_little_time() -> None:
    reasoning = [TokenLogprob(b"because ", 0.0, [(b"because ", 0.0)] * 20)] * 20_000
    tokens = make_tokens(('{"kind":', {'{"kind":': 1.0}), ("true", {"true": 0.75, "false": 0.25}), ("}", {"}": 1.0}))
    start = time.process_time()
    result = compute_value_probabilities([*reasoning, *tokens], {"kind": True}, {"kind": [True, False]})
    assert result["kind"].probabilities == pytest.approx((0.75, 0.25))
    assert time.process_time() - start < 1


@pytest.mark.parametrize(
    ("text", "answer", "positions"),
    [
        ('{"a": 1, "b":"x"}', {"a": 1, "b": "x"}, {"a": 5, "b": 13}),
        ('<think>{"a":2}</think>{"a":1}', {"a": 1}, {"a": 27}),
        ('{"é":{"a":"}"},"a":1} "c"', {"é": {"a": "}"}, "a": 1}, {"é": 6, "a": 20}),
        ('{"a":1}', {"a": 2}, {}),
        ("{}", {}, {}),
        ("no object {", {"a": 1}, {}),
    ],
)
def test_values_are_found_after_their_names(text: str, answer: dict[str, Any], positions: dict[str, int]) -> None:
    assert find_value_positions(text.encode(), answer) == positions


@pytest.mark.hypothesis
@given(
    values=VALUE_SETS,
    layout=LAYOUTS,
    seed=st.integers(0, 2**32),
    size=st.integers(0, 60),
    split_probability=st.sampled_from([None, 0.0, 0.1, 0.5]),
    top=st.sampled_from([2, 5, 20, ALL]),
)
def test_estimates_are_the_probabilities_as_far_as_tokens_are_resolved(
    *, values: list[Any], layout: str, seed: int, size: int, split_probability: float | None, top: int
) -> None:
    random = Random(seed)
    encoded = [json.dumps(value, ensure_ascii=random.random() < 0.2) for value in values]
    weights = {text: random.expovariate(1) for text in (*encoded, "null", '"unknown"')}
    texts = {layout.format(text).encode(): weight for text, weight in weights.items()}
    # How the text before the value is split says nothing about the value, as a model does not look ahead.
    is_split_everywhere = split_probability is None
    value_start = 0 if is_split_everywhere else layout.index("{}") - 2
    texts = {text[value_start:]: weight / sum(weights.values()) for text, weight in texts.items()}
    model = SimulatedModel(texts, learn_vocabulary(tuple(texts), size), split_probability or 0.0, random)
    start = layout.format("").encode()[:value_start]
    tokens = [TokenLogprob(start, 0.0), *model.sample(random, ALL if is_split_everywhere else top)]
    answer = json.loads(b"".join(token.token for token in tokens).decode().strip("`json\n"))
    result = compute_value_probabilities(tokens, answer, {"kind": values}).get("kind")
    if result is None:  # all tokens of allowed values are hidden
        assert answer["kind"] not in values
        return
    assert sum(result.probabilities) == pytest.approx(1)
    allowed = sum(weights[text] for text in encoded)
    tolerance = 1e-9 + 2 * result.unresolved * sum(weights.values()) / allowed
    for estimate, text in zip(result.probabilities, encoded, strict=True):
        assert abs(estimate - weights[text] / allowed) <= tolerance


@pytest.mark.hypothesis
@given(seed=st.integers(0, 2**32), size=st.integers(0, 60), split_probability=st.sampled_from([0.0, 0.5]))
def test_values_that_differ_in_their_first_letter_are_always_resolved(
    seed: int, size: int, split_probability: float
) -> None:
    random = Random(seed)
    values = ["billing", "outage", "question", "spam"]
    weights = [random.expovariate(1) for _ in values]
    prefix = b'{"kind":"'
    texts = {json.dumps(value).encode()[1:] + b"}": weight for value, weight in zip(values, weights, strict=True)}
    model = SimulatedModel(texts, learn_vocabulary(tuple(texts), size), split_probability, random)
    tokens = [TokenLogprob(prefix, 0.0), *model.sample(random, top=20)]
    text = b"".join(token.token for token in tokens)
    result = compute_value_probabilities(tokens, json.loads(text), {"kind": values})["kind"]
    assert result.unresolved == pytest.approx(0)
    assert result.probabilities == pytest.approx([weight / sum(weights) for weight in weights])


@pytest.mark.hypothesis
@given(seed=st.integers(0, 2**32), size=st.integers(0, 60))
def test_a_later_field_has_its_probabilities_after_the_earlier_one(seed: int, size: int) -> None:
    random = Random(seed)
    joint = {(kind, urgent): random.expovariate(1) for kind in ("bug", "other") for urgent in (True, False)}
    texts = {json.dumps({"kind": k, "urgent": u}).encode(): weight for (k, u), weight in joint.items()}
    model = SimulatedModel(texts, learn_vocabulary(tuple(texts), size), 0.0, random)
    tokens = model.sample(random, top=20)
    answer = json.loads(b"".join(token.token for token in tokens))
    allowed: dict[str, list[Any]] = {"kind": ["bug", "other"], "urgent": [True, False]}
    results = compute_value_probabilities(tokens, answer, allowed)
    kinds = [joint[kind, True] + joint[kind, False] for kind in allowed["kind"]]
    after = [joint[answer["kind"], urgent] for urgent in allowed["urgent"]]
    for name, weights in (("kind", kinds), ("urgent", after)):
        tolerance = 1e-9 + 2 * results[name].unresolved
        expected = [weight / sum(weights) for weight in weights]
        assert results[name].probabilities == pytest.approx(expected, abs=tolerance)
