"""The decisions APIs of three services, to run on a `ModelServer`. The types of their SDKs judge requests and answers.

https://developers.openai.com/api/reference/resources/decisions, `google.genai.decisions` and `openrouter.components`
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from tests.batch_services import json_reply
from tests.model_server import Reply, Request
from tests.wire import Json, written_out

Probabilities = Mapping[str, float]
Decide = Callable[[str], Mapping[str, Probabilities | None]]
"""Returns the probabilities of the values of each question for an input, by name; None for a refused question."""


class DecisionService(ABC):
    """A service, which answers with the given probabilities.

    Args:
        answers: the probabilities of each question, or a function that returns them for the text of an input.

    Attributes:
        bodies: the bodies of all requests.
        headers: their headers.
    """

    path: str
    model: str
    provider: str

    def __init__(self, answers: Mapping[str, Probabilities | None] | Decide) -> None:
        self._decide: Decide = answers if callable(answers) else lambda _: answers
        self.bodies: list[Json] = []
        self.headers: list[Any] = []

    def __call__(self, request: Request) -> Reply:
        assert (request.method, request.path) == ("POST", self.path), request.path
        body = request.json
        self.validate(body)
        self.bodies.append(body)
        self.headers.append(request.headers)
        answer = self.build_response(body, self._decide("\n".join(self.read_texts(body))))
        return json_reply(answer)

    @abstractmethod
    def validate(self, body: Json) -> None:
        """Fail if the service would reject the request."""

    @abstractmethod
    def read_texts(self, body: Json) -> Iterator[str]:
        """Return the texts of the input, in their order."""

    @abstractmethod
    def build_response(self, body: Json, answers: Mapping[str, Probabilities | None]) -> Json:
        """Return the response to a request."""


@cache
def openai_types() -> tuple[Any, Any]:
    """Return the types of a request and of a response."""
    from openai.types.decision import Decision
    from openai.types.decision_create_params import DecisionCreateParams
    from pydantic import TypeAdapter

    return TypeAdapter(DecisionCreateParams), TypeAdapter(Decision)


class OpenAIDecisions(DecisionService):
    """OpenAI. It rejects a score of more than ten levels."""

    path = "/api/v1/decisions"
    model = "gpt-6-luna"
    provider = "openai"

    def validate(self, body: Json) -> None:
        assert written_out(openai_types()[0].validate_python(body)) == body
        assert 1 <= len(body["questions"]) <= 400
        for question in body["questions"]:
            options = question.get("choices") or question.get("levels") or [1, 2]
            assert 2 <= len(options) <= (10 if question["type"] == "score" else 255)

    def read_texts(self, body: Json) -> Iterator[str]:
        for message in body["input"]:
            content = message["content"]
            yield from ([content] if isinstance(content, str) else [part["text"] for part in content if "text" in part])

    def build_response(self, body: Json, answers: Mapping[str, Probabilities | None]) -> Json:
        entries = [self.build_answer(question, answers[question["name"]]) for question in body["questions"]]
        details = {"cached_tokens": 0, "cache_write_tokens": 0}
        usage = {"input_tokens": 1000, "input_tokens_details": details, "output_tokens": 0, "total_tokens": 1000}
        usage |= {"output_tokens_details": {"reasoning_tokens": 0}}
        response = {"answers": entries, "model": self.model, "usage": usage}
        openai_types()[1].validate_python(response)
        return response

    def build_answer(self, question: Json, probabilities: Probabilities | None) -> Json:
        name = question["name"]
        if probabilities is None:
            return {"type": "refusal", "name": name}
        if question["type"] == "predicate":
            return {"type": "predicate", "name": name, "probability": probabilities["true"]}
        best = max(probabilities.values())
        if question["type"] == "choice":
            assert [choice["value"] for choice in question["choices"]] == [*probabilities]
            entries = [{"value": label, "probability": value} for label, value in probabilities.items()]
            choice = max(probabilities, key=lambda label: probabilities[label])
            return {
                "type": "choice", "name": name, "choice": choice, "confidence": best, "probabilities": entries
            }  # fmt: skip
        levels = [level["label"] for level in question["levels"]]
        assert levels == [*probabilities]
        entries = [{"value": n, "label": label, "probability": probabilities[label]} for n, label in enumerate(levels)]
        score = sum(n * probabilities[label] for n, label in enumerate(levels))
        return {"type": "score", "name": name, "score": score, "confidence": best, "probabilities": entries}


class NoulDecisions(DecisionService):
    """What the APIs of Gemini and OpenRouter have in common."""

    def build_answers(self, body: Json, answers: Mapping[str, Probabilities | None]) -> Json:
        built = {}
        for name, question in body["questions"].items():
            probabilities = answers[name]
            if probabilities is not None:
                built[name] = self.build_answer(question, probabilities)
        return built

    def build_answer(self, question: Json, probabilities: Probabilities) -> Json:
        best = max(probabilities.values())
        if question["type"] == "noul":
            return {"type": "noul", "noul": probabilities["true"], **self.add_confidence(best)}
        if question["type"] == "choice":
            assert [*question["criteria"]] == [*probabilities]
            choice = max(probabilities, key=lambda label: probabilities[label])
            return {"type": "choice", "choice": choice, "confidence": best, "probabilities": dict(probabilities)}
        levels: Sequence[str] = question["criteria"]
        by_number = {str(number): value for number, value in enumerate(probabilities.values())}
        assert len(levels) == len(by_number)
        return {
            "type": "score",
            "score": sum(int(number) * value for number, value in by_number.items()),
            "confidence": best,
            "probabilities": by_number,
            "legend": {str(number): level for number, level in enumerate(levels)},
        }

    def add_confidence(self, confidence: float) -> Json:
        return {}


@cache
def openrouter_types() -> tuple[Any, Any]:
    from openrouter.components import DecisionsRequest, DecisionsResponse

    return DecisionsRequest, DecisionsResponse


class OpenRouterDecisions(NoulDecisions):
    """OpenRouter, which reports the cost. A refused question has no answer.

    It rejects a score of more than ten levels.
    """

    path = "/api/alpha/decisions"
    model = "openai/gpt-6-luna-decisions"
    provider = "openrouter"

    def validate(self, body: Json) -> None:
        request_type, _ = openrouter_types()
        assert request_type.model_validate(body).model_dump(exclude_unset=True) == body
        assert 1 <= len(body["questions"]) <= 200
        assert all(len(each["criteria"]) <= 10 for each in body["questions"].values() if each["type"] == "score")
        for part in body["state"] if isinstance(body["state"], list) else ():
            assert isinstance(part, str) or part["image_url"]["url"].startswith("data:image/")

    def read_texts(self, body: Json) -> Iterator[str]:
        state = body["state"]
        yield from [state] if isinstance(state, str) else [part for part in state if isinstance(part, str)]

    def build_response(self, body: Json, answers: Mapping[str, Probabilities | None]) -> Json:
        response = {
            "id": "gen-1",
            "provider": "OpenAI",
            "model": f"{self.model}-20261006",
            "answers": self.build_answers(body, answers),
            "usage": {"input_tokens": 1000, "output_tokens": 0, "cost": 0.0001},
        }
        openrouter_types()[1].model_validate(response)
        return response


@cache
def google_types() -> tuple[Any, Any]:
    from google.genai.decisions import CreateDecisionRequest, CreateDecisionResponse
    from pydantic import TypeAdapter

    return TypeAdapter(CreateDecisionRequest), TypeAdapter(CreateDecisionResponse)


class GeminiDecisions(NoulDecisions):
    """Gemini, which answers nothing if it blocks the input.

    Args:
        block_reason: why it does; "" if it does not.
    """

    path = "/v1beta/decisions"
    model = "gemini-decision-1"
    provider = "gemini"

    def __init__(self, answers: Mapping[str, Probabilities | None] | Decide, block_reason: str = "") -> None:
        super().__init__(answers)
        self.block_reason = block_reason

    def validate(self, body: Json) -> None:
        google_types()[0].validate_python(body)
        assert {*body} == {"model", "input", "questions"}
        for question in body["questions"].values():
            assert question["instructions"]
            criteria = question.get("criteria", ["a", "b"])
            assert 2 <= len(criteria) <= 255
            assert all(label and label == label.strip() for label in criteria)

    def read_texts(self, body: Json) -> Iterator[str]:
        yield from (part["text"] for part in body["input"] if part["type"] == "text")

    def build_response(self, body: Json, answers: Mapping[str, Probabilities | None]) -> Json:
        response: Json = {"usage": {"total_input_tokens": 1000, "total_output_tokens": 0, "total_tokens": 1000}}
        if self.block_reason:
            response["prompt_feedback"] = {"block_reason": self.block_reason}
        else:
            response["answers"] = self.build_answers(body, answers)
        google_types()[1].validate_python(response)
        return response

    def add_confidence(self, confidence: float) -> Json:
        return {"confidence": confidence}


SERVICES = (OpenAIDecisions, OpenRouterDecisions, GeminiDecisions)

OPENAI_SAMPLE: Json = {
    "model": "gpt-6-luna",
    "answers": [
        {"type": "predicate", "name": "urgent", "probability": 0.25},
        {
            "type": "choice",
            "name": "kind",
            "choice": "order",
            "confidence": 0.875,
            "probabilities": [{"value": "bug", "probability": 0.125}, {"value": "order", "probability": 0.875}],
        },
        {
            "type": "score",
            "name": "anger",
            "score": 1.0,
            "confidence": 0.5,
            "probabilities": [
                {"value": 0, "label": "1", "probability": 0.25},
                {"value": 1, "label": "2", "probability": 0.5},
                {"value": 2, "label": "3", "probability": 0.25},
            ],
        },
        {"type": "refusal", "name": "spam"},
    ],
    "usage": {
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": 0,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 100,
    },
}
"""Responses for the contract in `ask.testing`."""
NOUL_ANSWERS: Json = {
    "urgent": {"type": "noul", "noul": 0.25, "confidence": 0.75},
    "kind": {
        "type": "choice",
        "choice": "order",
        "confidence": 0.875,
        "probabilities": {"bug": 0.125, "order": 0.875},
    },
    "anger": {
        "type": "score",
        "score": 1.0,
        "confidence": 0.5,
        "probabilities": {"0": 0.25, "1": 0.5, "2": 0.25},
        "legend": {"0": "1", "1": "2", "2": "3"},
    },
}
GEMINI_SAMPLE: Json = {"answers": NOUL_ANSWERS, "usage": {"total_input_tokens": 100, "total_tokens": 100}}
OPENROUTER_SAMPLE: Json = {
    "id": "gen-1",
    "model": "openai/gpt-6-luna-decisions-20261006",
    "answers": NOUL_ANSWERS | {"urgent": {"type": "noul", "noul": 0.25}},
    "usage": {"input_tokens": 100, "output_tokens": 0, "cost": 0.00001},
}
