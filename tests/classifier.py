"""A model that classifies texts with known probabilities, over Chat Completions with logprobs and a decisions API."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import product
from math import prod
from random import Random
from typing import Any

from ask.schemas.token_probabilities import TokenLogprob
from tests import logprob_wires, wire
from tests.model_server import Reply, Request
from tests.simulated_model import SimulatedModel, learn_vocabulary

Json = dict[str, Any]

VOCABULARY_SIZE = 25
WORDS = ["refund", "refund status", "return", "return status", "repair", "other"]


class Classifier:
    """Chooses the values of fields for a text, each independently of the others.

    Args:
        fields: the values of each field.
        sharpness: how far the probabilities of a text are from each other.
        split_probability: how likely the model is to write a text as other tokens than usual.
        refused: for which fields and texts a decisions API refuses the question.
    """

    def __init__(
        self,
        fields: Mapping[str, Sequence[Any]],
        *,
        sharpness: float = 2.0,
        split_probability: float = 0.0,
        refused: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self.fields = fields
        self._sharpness = sharpness
        self._split_probability = split_probability
        self._refused = refused or {}
        self._describe = lru_cache(maxsize=1000)(self._build_model)

    def get_probabilities(self, text: str, field: str) -> dict[Any, float]:
        """Return the probability of each value of a field."""
        random = Random(f"{field}: {text}")
        weights = [random.expovariate(1) ** self._sharpness for _ in self.fields[field]]
        return {value: weight / sum(weights) for value, weight in zip(self.fields[field], weights, strict=True)}

    def _build_model(self, text: str) -> SimulatedModel:
        answers: dict[bytes, float] = {}
        for values in product(*self.fields.values()):
            answer = dict(zip(self.fields, values, strict=True))
            probability = prod(self.get_probabilities(text, field)[value] for field, value in answer.items())
            answers[json.dumps(answer, separators=(",", ":")).encode()] = probability
        every = tuple(
            json.dumps({field: value}, separators=(",", ":")).encode()
            for field in self.fields
            for value in self.fields[field]
        )
        return SimulatedModel(answers, learn_vocabulary(every, VOCABULARY_SIZE), self._split_probability, Random(text))

    def describe_likeliest_answer(self, text: str) -> list[TokenLogprob]:
        """Return the tokens of the answer at temperature 0, with their logprobs."""
        return self._describe(text).decode_greedily(20)

    def answer_chat(self, request: Request) -> Reply:
        """Answer a request for JSON, with logprobs if it asks for them."""
        body = request.json
        text = body["messages"][-1]["content"]
        model, top = self._describe(text), body.get("top_logprobs", 0)
        is_greedy = body.get("temperature") == 0
        tokens = model.decode_greedily(top) if is_greedy else model.sample(Random(f"sample: {text}"), top)
        answer = logprob_wires.to_chat_answer(tokens)
        if not body.get("logprobs"):
            del answer["choices"][0]["logprobs"]
        return wire.whole_reply(answer)

    def answer_decisions(self, request: Request) -> Reply:
        """Answer a request to OpenAI's decisions API."""
        body = request.json
        text = body["input"][-1]["content"]
        answers = [self._answer_question(question, text) for question in body["questions"]]
        usage = {"input_tokens": 100, "output_tokens": 0, "total_tokens": 100}
        return wire.whole_reply({"id": "dec_1", "model": body["model"], "answers": answers, "usage": usage})

    def _answer_question(self, question: Json, text: str) -> Json:
        name = question["name"]
        if text in self._refused.get(name, ()):
            return {"type": "refusal", "name": name}
        probabilities = self.get_probabilities(text, name)
        if question["type"] == "predicate":
            return {"type": "predicate", "name": name, "probability": probabilities[True]}
        best = max(probabilities, key=lambda value: probabilities[value])
        answer = {"type": question["type"], "name": name, "confidence": probabilities[best]}
        if question["type"] == "score":
            levels = [
                {"value": number, "label": to_label(value), "probability": each}
                for number, (value, each) in enumerate(probabilities.items())
            ]
            score = sum(number * each for number, each in enumerate(probabilities.values()))
            return {**answer, "score": score, "probabilities": levels}
        listed = [{"value": to_label(value), "probability": each} for value, each in probabilities.items()]
        return {**answer, "choice": to_label(best), "probabilities": listed}


def to_label(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
