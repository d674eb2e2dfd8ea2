"""Tests that probabilities of `--decide` are calibrated: 200 labeled rows, whose true probabilities are known.

`python -m tests.map.test_calibration` prints the errors. The model is simulated: its labels are drawn with the
probabilities that it states, so that what is measured is the error that ask adds.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest

from tests.classifier import WORDS, Classifier
from tests.logprob_wires import join_text
from tests.model_server import ModelServer, Reply, Request
from tests.program import TEST_KEY, Ask, Home, make_home

SCALE = [*range(1, 11)]
ROWS = [f"ticket {number}" for number in range(200)]
SCHEMA = ", ".join(("kind " + " | ".join(map(json.dumps, WORDS)), "anger 1..10"))
CLASSIFIER = Classifier({"kind": WORDS, "anger": SCALE}, split_probability=0.01)
BIN_COUNT = 10
LOGPROBS_MODEL, DECISIONS_MODEL = "gpt-4.1", "gpt-6-luna"


class Prediction(NamedTuple):
    probability: float
    is_right: bool


def draw_label(text: str, field: str) -> Any:
    probabilities = CLASSIFIER.get_probabilities(text, field)
    return Random(f"label: {field}: {text}").choices([*probabilities], [*probabilities.values()])[0]


def compute_calibration_error(predictions: Sequence[Prediction]) -> float:
    """Return the expected calibration error: by how much the probabilities of a bin differ from how many are right."""
    error = 0.0
    for number in range(BIN_COUNT):
        members = [each for each in predictions if min(int(each.probability * BIN_COUNT), BIN_COUNT - 1) == number]
        if members:
            error += abs(sum(each.probability - each.is_right for each in members))
    return error / len(predictions)


def compute_brier_score(predictions: Sequence[Prediction]) -> float:
    return sum((each.probability - each.is_right) ** 2 for each in predictions) / len(predictions)


def read_first_tokens(text: str) -> Iterable[Prediction]:
    """Yield what the first token of each value says about it, in the answer that the model would write most likely."""
    tokens = CLASSIFIER.describe_likeliest_answer(text)
    answer = join_text(tokens)
    for field, value in json.loads(answer).items():
        start = answer.index(f'"{field}":') + len(field) + 3
        end = 0
        for token in tokens:
            end += len(token.token)
            if end > start + isinstance(value, str):
                yield Prediction(math.exp(token.logprob), value == draw_label(text, field))
                break


class Calibration(NamedTuple):
    """The predictions of `ask map --decide`, those of first tokens, and those of the true probabilities."""

    asked: list[Prediction]
    first_tokens: list[Prediction]
    true: list[Prediction]
    largest_error: float
    mean_error: float


def run_decisions(ask: Ask, server: ModelServer, home: Home, model: str) -> Calibration:
    def answer(request: Request) -> Reply:
        is_decision = request.path.endswith("/decisions")
        return CLASSIFIER.answer_decisions(request) if is_decision else CLASSIFIER.answer_chat(request)

    server.reply(answer)
    (home.work / "in.txt").write_text("".join(f"{row}\n" for row in ROWS))
    service = ("-p", "openai", "--base-url", server.base_url, "--key", TEST_KEY, "-m", model)
    result = ask("map", *service, "--schema", SCHEMA, "--decide", "{{line}}", "in.txt", timeout=180)
    assert result.code == 0, result.stderr
    asked, true, errors = [], [], []
    for row in map(json.loads, result.text.splitlines()):
        for field in CLASSIFIER.fields:
            probabilities = CLASSIFIER.get_probabilities(row["line"], field)
            label, best = draw_label(row["line"], field), max(probabilities, key=lambda value: probabilities[value])
            asked.append(Prediction(row[f"{field}_p"], row[field] == label))
            true.append(Prediction(probabilities[best], best == label))
            errors.append(abs(row[f"{field}_p"] - probabilities[row[field]]))
    assert len(asked) == 2 * len(ROWS)
    first_tokens = [each for row in ROWS for each in read_first_tokens(row)]
    return Calibration(asked, first_tokens, true, max(errors), sum(errors) / len(errors))


@pytest.mark.slow
def test_probabilities_from_logprobs_are_calibrated(ask: Ask, server: ModelServer, home: Home) -> None:
    result = run_decisions(ask, server, home, LOGPROBS_MODEL)
    error = compute_calibration_error(result.asked)
    assert error < compute_calibration_error(result.true) + 0.01
    assert error < compute_calibration_error(result.first_tokens) - 0.02
    assert compute_brier_score(result.asked) < compute_brier_score(result.true) + 0.005
    assert result.largest_error < 0.01


@pytest.mark.slow
def test_probabilities_of_a_decisions_api_are_unchanged(ask: Ask, server: ModelServer, home: Home) -> None:
    result = run_decisions(ask, server, home, DECISIONS_MODEL)
    assert result.largest_error < 1e-6
    assert [each.is_right for each in result.asked] == [each.is_right for each in result.true]


def main() -> None:
    for model in (LOGPROBS_MODEL, DECISIONS_MODEL):
        with TemporaryDirectory() as folder, ModelServer() as server:
            home = make_home(Path(folder))
            result = run_decisions(Ask(home.env, home.work), server, home, model)
        for name in ("asked", "first_tokens", "true"):
            if predictions := getattr(result, name):
                error, score = compute_calibration_error(predictions), compute_brier_score(predictions)
                sys.stdout.write(f"{model} {name}: ECE {error:.4f}, Brier {score:.4f}\n")
        sys.stdout.write(
            f"{model}: largest error of a probability {result.largest_error:.6f}, mean {result.mean_error:.6f}\n"
        )


if __name__ == "__main__":
    main()
