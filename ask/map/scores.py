"""Scores of answers: counts of right and wrong ones, and statistics of them, in memory for counts and not for rows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from ask.map.distributions import PrioritySample, RowExcerpt, SampledRow, is_number, to_text
from ask.map.job import RowTask
from ask.map.json_values import get_properties, parse_json_answer
from ask.map.label_matching import parse_number
from ask.map.ledger import RowResult
from ask.map.output import ANSWER
from ask.map.scored_fields import ScoredField
from ask.records import COST_DECIMALS, NamedTuple
from ask.text import format_one_line

MAX_CLASSES = 200
"""How many different values are counted one by one. Later ones are counted together."""
MAX_LABEL_CHARACTERS = 60
MAX_UNLISTED = 5
"""How many different labels that the schema does not allow are named."""
NO_ANSWER = ""
OTHER = "\0other"
"""The key of values that are not counted one by one."""
OTHER_NAME = "other"
Z_95 = 1.959964
"""The quantile of the normal distribution for intervals of 95 %."""
PROBABILITY_STEPS = 1000
"""How finely probabilities are counted. Thresholds are multiples of 1 / `PROBABILITY_STEPS`."""
CALIBRATION_BINS = 10
THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999)
WRONG_ROWS = 10
"""How many rows with a wrong answer are kept as examples."""
MAX_PRIORITY = 1 << 56
"""The end of the range of the random priorities of rows."""
MAX_EXACT_PAIRS = 1000
"""The number of rows up to which the sign test is exact."""


class Interval(NamedTuple):
    """A share, and the interval that contains the true one in 95 % of all samples."""

    share: float
    low: float
    high: float


def _make_interval(count: int, total: int) -> Interval | None:
    """Return the share of a count with its Wilson score interval; None if the total is 0.

    Unlike the usual approximation, it is also correct for few rows and for shares near 0 and 1 (E. B. Wilson, 1927).
    """
    if not total:
        return None
    share, z2 = count / total, Z_95**2
    center = (share + z2 / (2 * total)) / (1 + z2 / total)
    half = Z_95 * math.sqrt(share * (1 - share) / total + z2 / (4 * total**2)) / (1 + z2 / total)
    low = 0.0 if count == 0 else max(center - half, 0.0)
    high = 1.0 if count == total else min(center + half, 1.0)
    return Interval(share, low, high)


class ClassScore(NamedTuple):
    """How well one value is recognized.

    Attributes:
        label: the value.
        rows: how many rows have it as their label.
        precision: which share of its answers is right; None if there are none.
        recall: which share of its rows is answered with it; None if there are none.
        f1: the harmonic mean of both.
    """

    label: str
    rows: int
    precision: float | None
    recall: float | None
    f1: float


class ConfusionTable(NamedTuple):
    """How often each label was answered with what.

    Attributes:
        columns: the names of the answers. Those that are not listed one by one are "other".
        rows: the labels, each with the counts of these answers.
    """

    columns: Sequence[str]
    rows: Sequence[tuple[str, Sequence[int]]]


class CalibrationBin(NamedTuple):
    """The answers with a probability from `low` to below `high`.

    Attributes:
        low: the lowest probability.
        high: the end; the last bin includes it.
        rows: how many answers there are.
        mean: their mean probability.
        accuracy: which share of them is right.
    """

    low: float
    high: float
    rows: int
    mean: float
    accuracy: Interval


class ThresholdRow(NamedTuple):
    """What is above a threshold: how many answers, which share of all, and the accuracy among them."""

    threshold: float
    rows: int
    share: float
    accuracy: Interval


class ProbabilityScore:
    """The quality of the probabilities that answers have.

    Attributes:
        count: how many answers have one.
    """

    def __init__(self) -> None:
        self.count = 0
        self._squares = 0.0
        # The number of answers, that of the right ones, and the sums of p and of p(1 - p), by steps of p.
        self._steps: dict[int, list[float]] = {}

    def add(self, probability: float, *, is_right: bool) -> None:
        """Count an answer."""
        self.count += 1
        self._squares += (probability - is_right) ** 2
        step = min(int(probability * PROBABILITY_STEPS + 1e-9), PROBABILITY_STEPS - 1)
        sums = self._steps.setdefault(step, [0, 0, 0.0, 0.0])
        for index, amount in enumerate((1, is_right, probability, probability * (1 - probability))):
            sums[index] += amount

    @property
    def brier(self) -> float:
        """The mean squared difference between the probability and 1 for right, 0 for wrong answers."""
        return self._squares / self.count

    def _sum_bins(self) -> dict[int, list[float]]:
        bins: dict[int, list[float]] = {}
        for step, sums in sorted(self._steps.items()):
            total = bins.setdefault(step * CALIBRATION_BINS // PROBABILITY_STEPS, [0, 0, 0.0, 0.0])
            for index, amount in enumerate(sums):
                total[index] += amount
        return bins

    @property
    def calibration_error(self) -> float:
        """The mean difference between probability and accuracy of the bins, weighted by their rows."""
        return sum(abs(right - mean) for _, right, mean, _ in self._sum_bins().values()) / self.count

    @property
    def chance_error(self) -> float:
        """The calibration error to expect of perfect probabilities, because the bins have few rows.

        The mean of |x| for a normal x is its standard deviation times sqrt(2 / pi).
        """
        deviations = (math.sqrt(2 / math.pi * variance) for *_, variance in self._sum_bins().values())
        return sum(deviations) / self.count

    def list_bins(self) -> list[CalibrationBin]:
        """Return the bins that have answers."""
        width, bins = 1 / CALIBRATION_BINS, []
        for number, (rows, right, total, _) in self._sum_bins().items():
            accuracy = _make_interval(int(right), int(rows))
            if accuracy:
                ends = round(number * width, 3), round((number + 1) * width, 3)
                bins.append(CalibrationBin(*ends, int(rows), total / rows, accuracy))
        return bins

    def list_thresholds(self) -> list[ThresholdRow]:
        """Return thresholds, beginning with one that no answer is below; of equivalent ones, the highest."""
        rows: list[ThresholdRow] = []
        for threshold in (0.0, *THRESHOLDS):
            least = round(threshold * PROBABILITY_STEPS)
            above = [sums for step, sums in self._steps.items() if step >= least]
            count, right = (int(sum(sums[index] for sums in above)) for index in (0, 1))
            accuracy = _make_interval(right, count)
            if accuracy is None:
                break
            if rows and rows[-1].rows == count:
                rows.pop()
            rows.append(ThresholdRow(threshold, count, count / self.count, accuracy))
        return rows


class FieldScore:
    """The score of one field of the answers of one model.

    Args:
        field: the field, and the column of its labels.
        model: the model; "" if there is only one.
        redact: removes secrets from a text.

    Attributes:
        field: the field.
        model: the model.
        labeled: how many rows have a label, which is the right answer.
        unlabeled: how many have none, and are left out of everything else.
        answered: how many of the labeled ones have an answer.
        right: how many of these are right.
        unlisted: how often each of the first labels occurs that the schema does not allow.
        unlisted_count: how many rows have such a label.
        probabilities: the quality of the probabilities of the answers.
        wrong_rows: rows with a wrong answer, those with the highest probability.
        cost: what all rows have cost in US dollars; None if it is unknown.
    """

    def __init__(self, field: ScoredField, model: str, redact: Callable[[str], str] = str) -> None:
        self.field = field
        self.model = model
        self._redact = redact
        self.labeled = self.unlabeled = self.answered = self.right = 0
        self.unlisted: Counter[str] = Counter()
        self.unlisted_count = 0
        self.probabilities = ProbabilityScore()
        self.wrong_rows = PrioritySample(WRONG_ROWS)
        self.cost: float | None = None
        self._names: dict[str, str] = {}
        self._provisional_names: set[str] = set()
        """The keys of values that were only seen as labels, which people may write in other ways."""
        for value in field.allowed:
            self._add_class(field.make_key(value), value)
        allowed = [field.make_key(value) for value in field.allowed]
        self._listed = frozenset(allowed)
        self._levels = {key: level for level, key in enumerate(allowed)} if field.is_ordered else {}
        self._confusion: Counter[tuple[str, str]] = Counter()
        # The values of a list without order are names, even if they are numbers.
        self._is_numeric = field.is_ordered or not field.allowed
        self._is_integer = True
        self._distance = 0.0
        self._distance_count = self._near = 0

    def add(self, label: Any, value: Any, probability: Any = None, row: SampledRow | None = None) -> bool:
        """Count a row, and return whether its answer is right.

        Args:
            label: the right answer; None or blank if it is unknown.
            value: the answer; None if there is none.
            probability: the probability of the answer, if it is known.
            row: the row, if examples of wrong answers are wanted.
        """
        right_key = self.field.make_key(label)
        if not right_key:
            self.unlabeled += 1
            return False
        self.labeled += 1
        if self._listed and right_key not in self._listed:
            self._add_unlisted(label)
        key = self.field.make_key(value)
        answer_class = self._add_class(key, value) if key else NO_ANSWER
        self._confusion[self._add_class(right_key, label, is_provisional=True), answer_class] += 1
        if not key:
            return False
        self.answered += 1
        is_right = key == right_key
        self.right += is_right
        if self._is_numeric:
            self._add_distance(right_key, key)
        has_probability = is_number(probability) and 0 <= probability <= 1
        if has_probability:
            self.probabilities.add(probability, is_right=is_right)
        if row and not is_right:
            # A random fraction of a step selects among rows with the same probability.
            steps = round(PROBABILITY_STEPS * probability) if has_probability else 0
            self.wrong_rows.add(row.priority / MAX_PRIORITY - steps, row)
        return is_right

    def add_cost(self, cost: float | None) -> None:
        """Add the cost of a row, if it is known."""
        if cost is not None:
            self.cost = round((self.cost or 0.0) + cost, COST_DECIMALS)

    def _add_unlisted(self, label: Any) -> None:
        self.unlisted_count += 1
        text = format_one_line(self._redact(to_text(label)), MAX_LABEL_CHARACTERS)
        if text in self.unlisted or len(self.unlisted) < MAX_UNLISTED:
            self.unlisted[text] += 1

    def _add_class(self, key: str, value: Any, *, is_provisional: bool = False) -> str:
        """Return the key that a value is counted with; another way to write it replaces a provisional name."""
        if key in self._names:
            if is_provisional or key not in self._provisional_names:
                return key
        elif len(self._names) >= MAX_CLASSES:
            return OTHER
        self._names[key] = format_one_line(self._redact(to_text(value)), MAX_LABEL_CHARACTERS)
        (self._provisional_names.add if is_provisional else self._provisional_names.discard)(key)
        return key

    def _to_number(self, key: str) -> float | None:
        return self._levels.get(key) if self._levels else parse_number(key)

    def _add_distance(self, right_key: str, key: str) -> None:
        right_number, number = self._to_number(right_key), self._to_number(key)
        if right_number is None or number is None:
            # A scale may have labels that are not on it, but text among numbers means that these are names.
            self._is_numeric = bool(self._levels)
            return
        self._is_integer = self._is_integer and float(right_number).is_integer() and float(number).is_integer()
        distance = abs(right_number - number)
        self._distance += distance
        self._distance_count += 1
        self._near += distance <= 1

    @property
    def is_scale(self) -> bool:
        """Whether the values are numbers or levels, of which a near one is better than a far one."""
        return self._is_numeric and bool(self._distance_count) and len(self._names) > 2

    @property
    def mean_absolute_error(self) -> float:
        """The mean distance of the answers from the labels, in units or levels."""
        return self._distance / self._distance_count

    @property
    def within_one(self) -> Interval | None:
        """The share of answers that are at most 1 from the labels; None of numbers that are not integers."""
        return _make_interval(self._near, self._distance_count) if self.is_scale and self._is_integer else None

    @property
    def accuracy(self) -> Interval | None:
        """The share of right answers among all labeled rows; None without such rows."""
        return _make_interval(self.right, self.labeled)

    @property
    def answered_accuracy(self) -> Interval | None:
        """The share of right answers among the labeled rows with an answer."""
        return _make_interval(self.right, self.answered)

    def _count_classes(self) -> tuple[Counter[str], Counter[str]]:
        """Return how often each key is the label, and how often the answer."""
        labels: Counter[str] = Counter()
        answers: Counter[str] = Counter()
        for (label, answer), count in self._confusion.items():
            labels[label] += count
            answers[answer] += count
        return labels, answers

    def _sort_classes(self, limit: int) -> list[str]:
        """Return the most frequent values in the order of the schema or of numbers, otherwise the frequent ones first.

        Values that do not occur are left out.
        """
        labels, answers = self._count_classes()
        present = [key for key in self._names if labels[key] or answers[key]]
        frequent = sorted(present, key=lambda key: (-labels[key], -answers[key], self._names[key]))[:limit]
        if self._listed:
            order = {key: position for position, key in enumerate(self._names)}
            return sorted(frequent, key=lambda key: order[key])
        return sorted(frequent, key=lambda key: parse_number(key) or 0.0) if self.is_scale else frequent

    def list_classes(self, limit: int = MAX_CLASSES) -> list[ClassScore]:
        """Return the score of each value, or of the most frequent ones."""
        labels, answers = self._count_classes()
        scores = []
        for key in self._sort_classes(limit):
            right = self._confusion[key, key]
            precision = right / answers[key] if answers[key] else None
            recall = right / labels[key] if labels[key] else None
            f1 = 2 * right / (labels[key] + answers[key])
            scores.append(ClassScore(self._names[key], labels[key], precision, recall, f1))
        return scores

    @property
    def macro_f1(self) -> float | None:
        """The mean F1 of the values, without labels that the schema does not allow; None without any."""
        labels, answers = self._count_classes()
        keys = [key for key in self._listed or self._names if labels[key] or answers[key]]
        scores = [2 * self._confusion[key, key] / (labels[key] + answers[key]) for key in keys]
        return sum(scores) / len(scores) if scores else None

    @property
    def class_count(self) -> int:
        """How many different values are counted one by one."""
        labels, answers = self._count_classes()
        return sum(bool(labels[key] or answers[key]) for key in self._names)

    @property
    def has_other_classes(self) -> bool:
        """Whether there are values that are not counted one by one."""
        return any(OTHER in pair for pair in self._confusion)

    def list_confusions(self) -> list[tuple[str, str | None, int]]:
        """Return all pairs of a label and an answer, which is None if there is none, with their rows."""
        names: Mapping[str, str | None] = {**self._names, OTHER: OTHER_NAME, NO_ANSWER: None}
        return [(str(names[label]), names[answer], count) for (label, answer), count in self._confusion.most_common()]

    def make_confusion_table(self, limit: int) -> ConfusionTable:
        """Return the most frequent values, with the sums of all others and of the rows without an answer."""
        keys = self._sort_classes(limit)
        listed = frozenset(keys)
        counts: Counter[tuple[str, str]] = Counter()
        for (label, answer), count in self._confusion.items():
            folded = answer if answer in listed or answer == NO_ANSWER else OTHER
            counts[label if label in listed else OTHER, folded] += count
        row_keys = [*keys, *([OTHER] if any(label == OTHER for label, _ in counts) else [])]
        answered = {answer for _, answer in counts}
        # A label that the schema does not allow is never answered.
        column_keys = [key for key in keys if key in answered or not self._listed or key in self._listed]
        column_keys += [key for key in (OTHER, NO_ANSWER) if key in answered]
        names = {**self._names, OTHER: OTHER_NAME, NO_ANSWER: "no answer"}
        rows = [(names[label], [counts[label, answer] for answer in column_keys]) for label in row_keys]
        return ConfusionTable([names[key] for key in column_keys], rows)


class PairedResult(NamedTuple):
    """A comparison of two models on the same labeled rows.

    Attributes:
        field: the name of the field.
        better: the model with more right answers.
        worse: the other one.
        wins: in how many rows only `better` is right.
        losses: in how many only `worse` is right.
    """

    field: str
    better: str
    worse: str
    wins: int
    losses: int

    @property
    def p_value(self) -> float:
        """How often a difference at least this large is chance: the sign test, which is McNemar's."""
        count, fewer = self.wins + self.losses, min(self.wins, self.losses)
        if count == 0:
            return 1.0
        if count > MAX_EXACT_PAIRS:
            return math.erfc(max(abs(self.wins - self.losses) - 1, 0) / math.sqrt(2 * count))
        tail: float = sum(math.comb(count, number) for number in range(fewer + 1)) / 2**count
        return min(1.0, 2 * tail)


class JobScores:
    """The scores of all fields and models of a job.

    Args:
        fields: the fields to score.
        models: the names of the models.
        schema: the schema of the answers; None for text.
        redact: removes secrets from a text.

    Attributes:
        scores: the scores of the models, by fields.
    """

    def __init__(
        self,
        fields: Sequence[ScoredField],
        models: Sequence[str],
        schema: Mapping[str, Any] | None,
        redact: Callable[[str], str],
    ) -> None:
        names = models if len(models) > 1 else [""]
        self.scores = [[FieldScore(field, name, redact) for name in names] for field in fields]
        self._has_schema = schema is not None
        self._has_fields = bool(get_properties(schema))
        self._model_count = len(models)
        self._incomplete: dict[int, list[Sequence[bool]]] = {}
        """The results of the rows that not all models have finished: whether each field of each is right."""
        self._only_right: Counter[tuple[int, int, int]] = Counter()
        """By field, model and other model: in how many rows only the first of them is right."""

    def add(
        self,
        task: RowTask,
        result: RowResult,
        make_excerpt: Callable[[RowTask, RowResult, str], RowExcerpt] | None = None,
    ) -> None:
        """Add a finished row; `make_excerpt` returns the beginning of a row with one of its columns first."""
        answer: Any = None
        if result.status == "answered":
            answer = parse_json_answer(result.answer) if self._has_schema else result.answer
        fields: Mapping[str, Any] = {ANSWER: answer}
        if self._has_fields:
            fields = answer if isinstance(answer, dict) else {}
        results = []
        for scores in self.scores:
            score = scores[task.model_number]
            score.add_cost(result.cost)
            field = score.field
            row = None
            if make_excerpt:
                number = task.position // self._model_count
                row = SampledRow(task.position, number, partial(make_excerpt, task, result, field.column))
            values = (task.columns.get(field.column), fields.get(field.field), fields.get(field.probability))
            results.append(score.add(*values, row))
        if self._model_count > 1:
            self._add_pair(task, results)

    def _add_pair(self, task: RowTask, results: Sequence[bool]) -> None:
        """Compare the models on a row once all have finished it."""
        row = task.position // self._model_count
        finished = self._incomplete.setdefault(row, [()] * self._model_count)
        finished[task.model_number] = results
        if not all(finished):
            return
        del self._incomplete[row]
        for number in range(len(self.scores)):
            right = [model for model in range(self._model_count) if finished[model][number]]
            for model in right:
                for other in range(self._model_count):
                    if other not in right:
                        self._only_right[number, model, other] += 1

    def compare_models(self) -> list[PairedResult]:
        """Compare the best model of each field with each other one."""
        results = []
        for number, scores in enumerate(self.scores):
            best = max(range(len(scores)), key=lambda model: scores[model].right)
            for other, score in enumerate(scores):
                if other != best and scores[best].labeled:
                    counts = self._only_right[number, best, other], self._only_right[number, other, best]
                    results.append(PairedResult(score.field.field, scores[best].model, score.model, *counts))
        return results

    def list_scores(self) -> list[FieldScore]:
        """Return the scores of all fields and models."""
        return [score for scores in self.scores for score in scores]
