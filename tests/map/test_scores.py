"""Scores of answers: when values are equal, what is counted, and the statistics."""

from __future__ import annotations

import itertools
import json
import math
import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask.errors import UsageError
from ask.map.csv_cells import format_cell
from ask.map.job import RowTask
from ask.map.label_matching import make_key
from ask.map.ledger import RowResult
from ask.map.scored_fields import ScoredField, parse_scores
from ask.map.scores import MAX_CLASSES, FieldScore, JobScores, PairedResult, ProbabilityScore
from ask.render.score_tables import format_scores
from ask.text import measure_width

KINDS = ("bug", "order", "question")
SCHEMA = {
    "type": "object",
    "properties": {
        "kind": {"enum": [*KINDS]},
        "kind_p": {"type": "number"},
        "urgent": {"type": ["boolean", "null"]},
        "mood": {"enum": ["bad", "fair", "good"], "ordered": True},
        "stars": {"type": "integer", "minimum": 1, "maximum": 5},
    },
}


def score(pairs: Any, field: ScoredField | None = None) -> FieldScore:
    """Score pairs of a right answer and an answer, or these with a probability."""
    result = FieldScore(field or ScoredField("answer", "label"), "")
    for pair in pairs:
        result.add(*pair)
    return result


def get_field(name: str) -> ScoredField:
    [field] = parse_scores([f"{name}=label"], SCHEMA)
    return field


# Equal values


@pytest.mark.parametrize(
    ("label", "value"),
    [
        (" Bug\n", "bug"),
        ("straße", "STRASSE"),
        ("two  words", "Two words"),
        ("e\u0301", "é"),
        ("4", 4),
        ("4.0", 4),
        (4.0, "4"),
        ("1e3", 1000),
        ("-0", 0),
        (9007199254740993, "9007199254740993"),
        ("0.10", 0.1),
        ("TRUE", True),
        ('["b", "a"]', ["b", "a"]),
        ('{"b": 1, "a": 2}', {"a": 2, "b": 1}),
        ('[1.0, {"a": -0.0}]', [1, {"a": 0}]),
        ("[" * 900 + "]" * 900, "[" * 900 + "]" * 900 + " "),
        ("x" * 500 + "A", "x" * 500 + "a"),
    ],
)
def test_values_are_equal(label: Any, value: Any) -> None:
    assert make_key(label) == make_key(value) != ""


@pytest.mark.parametrize(
    ("label", "value"),
    [
        ("007", "7"),
        ("1", True),
        ("bug", "bug."),
        (9007199254740993, 9007199254740992),
        ("x" * 500 + "a", "x" * 500 + "b"),
        (["a", "b"], ["b", "a"]),
        ("+4", 4),
    ],
)
def test_values_are_different(label: Any, value: Any) -> None:
    assert make_key(label) != make_key(value)


@pytest.mark.parametrize("value", [None, "", "  \t", float("nan")])
def test_blank_is_no_value(value: Any) -> None:
    assert make_key(value) == ""


def test_a_value_that_is_nested_too_deeply_is_no_value() -> None:
    value: list[Any] = []
    for _ in range(2_000):
        value = [value]
    assert make_key(value) == ""


@pytest.mark.parametrize("label", ["yes", "Y", "1", 1, "true", True, "T"])
def test_booleans_are_recognized_as_people_write_them(label: Any) -> None:
    field = get_field("urgent")
    assert field.make_key(label) == field.make_key(True) != field.make_key(False)


@pytest.mark.hypothesis
@given(
    st.recursive(
        st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=5,
    )
)
def test_a_value_equals_its_cell_in_a_table(value: Any) -> None:
    assert make_key(value) == make_key(format_cell(value))


# Which field has its right answers where


def test_a_column_is_for_the_only_field_or_for_that_of_its_name() -> None:
    assert [(each.field, each.column) for each in parse_scores(["label"], None)] == [("answer", "label")]
    one_field = {"type": "object", "properties": {"kind": {}, "kind_p": {}}}
    assert [(each.field, each.column) for each in parse_scores(["label"], one_field)] == [("kind", "label")]
    both = parse_scores(["kind", "urgent=is=urgent"], SCHEMA)
    assert [(each.field, each.column) for each in both] == [("kind", "kind"), ("urgent", "is=urgent")]


@pytest.mark.parametrize(
    ("options", "schema", "hint"),
    [
        (["label"], SCHEMA, "FIELD=label"),
        (["knd=label"], SCHEMA, "kind"),
        (["kind=a", "kind=b"], SCHEMA, "one"),
        (["kind=label"], None, "answer"),
        (["kind_p=label"], SCHEMA, "kind=label"),
    ],
)
def test_an_unclear_option_is_an_error(options: list[str], schema: Any, hint: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_scores(options, schema)
    assert hint in (raised.value.hint or "")


# Counts


def test_what_is_missing_is_counted() -> None:
    result = score([("bug", "bug"), ("bug", "order"), ("bug", None), ("", "bug"), (None, None)], get_field("kind"))
    assert (result.labeled, result.unlabeled, result.answered, result.right) == (3, 2, 2, 1)
    assert result.accuracy and result.answered_accuracy
    assert (result.accuracy.share, result.answered_accuracy.share) == (1 / 3, 1 / 2)
    table = result.make_confusion_table(10)
    assert table.columns == ["bug", "order", "no answer"]
    assert table.rows == [("bug", [1, 1, 1]), ("order", [0, 0, 0])]


def test_right_answers_that_the_schema_does_not_allow_are_named() -> None:
    result = score([("ordr", "order"), ("bug", "bug"), ("ordr", "bug"), *((f"x{n}", "bug") for n in range(9))],
                   get_field("kind"))  # fmt: skip
    assert (result.labeled, result.right, result.unlisted_count) == (12, 1, 11)
    assert result.unlisted["ordr"] == 2
    assert len(result.unlisted) == 5
    assert result.macro_f1 == pytest.approx((2 / 12 + 0) / 2)
    text = "\n".join(format_scores([result], (), 100, "--report"))
    assert "'ordr'" in text
    assert "did you mean order?" in text


def test_values_are_listed_in_the_order_of_the_schema_of_numbers_or_of_frequency() -> None:
    kinds = score([("question", "bug")] * 3 + [("bug", "order")], get_field("kind"))
    assert [each.label for each in kinds.list_classes()] == [*KINDS]
    assert [each.label for each in score([(10, 9), (2, 9)]).list_classes()] == ["2", "9", "10"]
    assert [each.label for each in score([("b", "a"), ("b", "b"), ("c", "a")]).list_classes()] == ["b", "c", "a"]


def test_of_a_scale_the_distance_is_counted() -> None:
    stars = score([("1", 1), ("2", 3), ("5", 2), ("3", None)], get_field("stars"))
    assert stars.is_scale
    assert stars.mean_absolute_error == pytest.approx(4 / 3)
    assert stars.within_one and stars.within_one.share == pytest.approx(2 / 3)
    moods = score([("bad", "good"), ("fair", "good"), ("good", "good")], get_field("mood"))
    assert (moods.is_scale, moods.mean_absolute_error) == (True, 1)
    misspelled = score([("bad", "fair"), ("baad", "good")], get_field("mood"))
    assert (misspelled.is_scale, misspelled.mean_absolute_error) == (True, 1)
    halves = score([(0.5, 1.5), (1, 2), (3, 3)])
    assert (halves.is_scale, halves.within_one) == (True, None)


@pytest.mark.parametrize(
    "pairs", [[("a", "1"), ("2", "3"), ("4", "5")], [("1", "0"), ("0", "0")], [("x", None)] * 3, []]
)
def test_names_and_two_values_are_no_scale(pairs: Any) -> None:
    assert not score(pairs).is_scale


def test_a_list_of_numbers_is_no_scale_unless_it_is_ordered() -> None:
    pairs = [("10", 20), ("20", 20), ("30", 10)]
    for is_ordered in (False, True):
        field = ScoredField("code", "label", allowed=(10, 20, 30), is_ordered=is_ordered)
        assert score(pairs, field).is_scale is is_ordered


@pytest.mark.parametrize(
    ("schema", "is_ordered"),
    [
        ({"enum": [1, 2, 3, None]}, True),
        ({"enum": [10, 20, 30]}, False),
        ({"enum": ["a", "b", "c"]}, False),
        ({"enum": ["a", "b", "c"], "ordered": True}, True),
        ({"enum": [True, False, None]}, False),
    ],
)
def test_the_levels_of_a_scale_are_listed_in_order(schema: Any, is_ordered: bool) -> None:
    [field] = parse_scores(["label"], schema)
    assert field.is_ordered is is_ordered


def test_all_values_of_a_long_schema_are_allowed() -> None:
    field = ScoredField("code", "label", allowed=[f"v{number}" for number in range(2 * MAX_CLASSES)])
    result = score([(value, value) for value in field.allowed], field)
    assert (result.right, result.unlisted_count, result.class_count) == (2 * MAX_CLASSES, 0, MAX_CLASSES)


def test_memory_does_not_grow_with_the_number_of_values() -> None:
    result = score((f"value {n % 5000}", f"value {n * 7 % 5000 if n % 4 else n % 5000}") for n in range(20_000))
    assert result.labeled == result.answered == 20_000
    assert result.right == sum(n % 4 == 0 or n * 7 % 5000 == n % 5000 for n in range(20_000))
    assert result.class_count == MAX_CLASSES
    assert result.has_other_classes
    table = result.make_confusion_table(10)
    assert len(table.columns) == len(table.rows) == 11
    assert sum(sum(counts) for _, counts in table.rows) == 20_000


LABELS = st.sampled_from([*KINDS, "", None, "ordr", "BUG "])


@pytest.mark.hypothesis
@given(st.lists(st.tuples(LABELS, LABELS, st.none() | st.floats(0, 1))), st.integers(1, 5))
def test_counts_are_those_of_the_rows(rows: list[tuple[Any, Any, Any]], limit: int) -> None:
    result = score(rows)
    keys = [(make_key(label), make_key(value)) for label, value, _ in rows if make_key(label)]
    assert (result.labeled, result.unlabeled) == (len(keys), len(rows) - len(keys))
    assert result.answered == sum(value != "" for _, value in keys)
    assert result.right == sum(label == value for label, value in keys)
    labels, values = Counter(label for label, _ in keys), Counter(value for _, value in keys)
    for each in result.list_classes():
        key = make_key(each.label)
        right, labeled, answered = keys.count((key, key)), labels[key], values[key]
        assert each.rows == labeled
        assert each.recall == (right / labeled if labeled else None)
        assert each.precision == (right / answered if answered else None)
    table = result.make_confusion_table(limit)
    assert sum(sum(counts) for _, counts in table.rows) == len(keys)
    compared = [(make_key(label), make_key(value), p) for label, value, p in rows if p is not None]
    probabilities = [(p, label == value) for label, value, p in compared if label and value]
    assert result.probabilities.count == len(probabilities)
    if probabilities:
        squares = [(p - is_right) ** 2 for p, is_right in probabilities]
        assert result.probabilities.brier == pytest.approx(sum(squares) / len(squares))
        thresholds = result.probabilities.list_thresholds()
        assert thresholds[0].rows == len(probabilities)
        for row in thresholds:
            # Probabilities are counted in steps of 0.001.
            above = [is_right for p, is_right in probabilities if p > row.threshold - 1e-9]
            assert (row.rows, row.accuracy.share) == (len(above), sum(above) / len(above))
    (*_,) = format_scores([result], (), 60, "--report")


# Statistics


@pytest.mark.parametrize(
    ("right", "total", "low", "high"),
    [
        # scipy.stats.binomtest(right, total).proportion_ci(method="wilson")
        (183, 200, 0.868104, 0.946254),
        (0, 10, 0.0, 0.277533),
        (10, 10, 0.722467, 1.0),
        (1, 2, 0.094529, 0.905471),
    ],
)
def test_intervals_are_those_of_wilson(right: int, total: int, low: float, high: float) -> None:
    accuracy = score([("a", "a")] * right + [("a", "b")] * (total - right)).accuracy
    assert accuracy
    assert [accuracy.low, accuracy.high] == pytest.approx([low, high], abs=1e-5)


def add_simulated_rows(result: ProbabilityScore, generator: random.Random, count: int, overconfidence: float) -> None:
    for _ in range(count):
        p = 1 - generator.random() ** 2 / 2
        result.add(p, is_right=generator.random() < p - overconfidence)


def test_the_calibration_error_of_perfect_probabilities_is_that_of_chance() -> None:
    generator = random.Random(5)
    errors, expected = [], []
    for _ in range(150):
        result = ProbabilityScore()
        add_simulated_rows(result, generator, 200, 0)
        errors.append(result.calibration_error)
        expected.append(result.chance_error)
    assert sum(errors) == pytest.approx(sum(expected), rel=0.1)
    result = ProbabilityScore()
    add_simulated_rows(result, generator, 20_000, 0.2)
    assert result.calibration_error == pytest.approx(0.2, abs=0.02)
    assert result.chance_error < 0.01


def test_bins_and_thresholds_include_their_lower_ends() -> None:
    result = ProbabilityScore()
    for p, is_right in ((0.0, False), (0.57, True), (0.6, False), (0.7, True), (0.8, True), (0.95, True), (1.0, True)):
        result.add(p, is_right=is_right)
    assert [(each.low, each.rows) for each in result.list_bins()] == [
        (0.0, 1), (0.5, 1), (0.6, 1), (0.7, 1), (0.8, 1), (0.9, 2),
    ]  # fmt: skip
    thresholds = {row.threshold: row.rows for row in result.list_thresholds()}
    assert (thresholds[0.0], thresholds[0.6], thresholds[0.8], thresholds[0.95]) == (7, 5, 3, 2)


@pytest.mark.parametrize("probability", [None, True, "0.5", 1.5, -0.1, float("nan")])
def test_what_is_no_probability_is_ignored(probability: Any) -> None:
    assert score([("a", "a", probability)]).probabilities.count == 0


@pytest.mark.parametrize(
    ("wins", "losses", "p"),
    # scipy.stats.binomtest(wins, wins + losses).pvalue
    [(18, 3, 0.001490), (5, 5, 1.0), (0, 0, 1.0), (1, 0, 1.0), (560, 460, 0.001922)],
)
def test_models_are_compared_with_a_sign_test(wins: int, losses: int, p: float) -> None:
    assert PairedResult("kind", "a", "b", wins, losses).p_value == pytest.approx(p, rel=0.02)


def add_answers(scores: JobScores, rows: list[tuple[str, list[str | None]]], order: list[int]) -> None:
    """Add the answers of models to rows with a right answer, in an order of their positions."""
    count = len(rows[0][1])
    for position in order:
        label, answers = rows[position // count]
        answer = answers[position % count]
        text = json.dumps({"kind": answer, "kind_p": 0.9})
        result = RowResult("failed", error="x") if answer is None else RowResult("answered", text)
        scores.add(RowTask(position, {"label": label}, position % count), result)


@pytest.mark.hypothesis
@given(st.data())
def test_the_order_in_which_models_finish_rows_does_not_matter(data: st.DataObject) -> None:
    answers = st.lists(st.sampled_from([*KINDS, None]), min_size=3, max_size=3)
    rows = data.draw(st.lists(st.tuples(st.sampled_from([*KINDS, ""]), answers), min_size=1, max_size=8))
    order = data.draw(st.permutations(range(3 * len(rows))))
    field = get_field("kind")
    scores = JobScores([field], ["a", "b", "c"], SCHEMA, str)
    add_answers(scores, rows, order)
    for number, each in enumerate(scores.list_scores()):
        labeled = [(label, answers[number]) for label, answers in rows if label]
        assert each.right == sum(label == answer for label, answer in labeled)
    for pair in scores.compare_models():
        better, worse = "abc".index(pair.better), "abc".index(pair.worse)
        outcomes = Counter((row[better] == label, row[worse] == label) for label, row in rows if label)
        assert (pair.wins, pair.losses) == (outcomes[True, False], outcomes[False, True])
        assert pair.wins >= pair.losses


def test_only_rows_that_models_have_not_finished_are_kept() -> None:
    scores = JobScores([get_field("kind")], ["a", "b"], SCHEMA, str)
    rows: list[tuple[str, list[str | None]]] = [("bug", ["bug", "order"])] * 1000
    add_answers(scores, rows, [*range(2000)])
    assert not scores._incomplete
    [pair] = scores.compare_models()
    assert (pair.wins, pair.losses) == (1000, 0)
    assert pair.p_value < 1e-100


# Lines


@pytest.mark.parametrize("width", [40, 60, 80, 120])
@pytest.mark.parametrize("count", [1, 2, 5, 30])
def test_tables_fit_the_terminal(count: int, width: int) -> None:
    names = [f"a long name of value {number}" for number in range(count)]
    pairs = itertools.product(names, names)
    result = score((label, value, 0.9) for label, value in pairs)
    lines = [*format_scores([result], (), width, "--report")]
    tables = [line for line in lines if line.startswith("  ")]
    assert tables
    assert max(map(measure_width, tables)) <= width
    assert sum(counts[0] for _, counts in result.make_confusion_table(3).rows) == count


def test_of_many_scores_only_the_overview_is_printed() -> None:
    scores = [FieldScore(ScoredField("kind", "label"), f"model {number}") for number in range(9)]
    for number, each in enumerate(scores):
        for row in range(10):
            each.add("a", "a" if row < number else "b")
    lines = [*format_scores(scores, (), 80, "--report FILE")]
    assert len(lines) == 12
    assert "--report FILE" in lines[-1]


def test_nothing_labeled_is_no_division_by_zero() -> None:
    result = score([("", "a")])
    assert result.accuracy is None
    assert result.macro_f1 is None
    assert math.isclose(len([*format_scores([result], (), 80, "--report")]), 1)
