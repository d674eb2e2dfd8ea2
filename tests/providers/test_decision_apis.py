"""The vendors' decisions APIs: responses of all shapes, and the vendors' own SDKs with the services of the tests."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask import DecisionApi, DecisionQuestion, Message, ProviderError
from ask.messages import DecisionAnswer
from ask.plugin_api.types import DecisionRequest
from providers.decision_apis import GeminiDecisionApi, NoulDecisionApi, OpenAIDecisionApi, OpenRouterDecisionApi
from tests.decision_services import (
    GEMINI_SAMPLE,
    OPENAI_SAMPLE,
    OPENROUTER_SAMPLE,
    GeminiDecisions,
    OpenAIDecisions,
    OpenRouterDecisions,
    google_types,
    openai_types,
    openrouter_types,
)
from tests.json_strategies import any_json, replace_any_part
from tests.model_server import ModelServer, Request
from tests.slow_parameters import mark_others_slow
from tests.wire import written_out

PREDICATE = DecisionQuestion("urgent", "predicate", (True, False), "a person waits")
CHOICE = DecisionQuestion("kind", "choice", ("bug", "order"), "what it is", ("it is broken", ""))
SCORE = DecisionQuestion("anger", "score", (1, 2, 3), "how angry")
QUESTIONS = (PREDICATE, CHOICE, SCORE)
ANSWERS = {"urgent": {"true": 0.9}, "kind": {"bug": 0.3, "order": 0.7}, "anger": {"1": 0.2, "2": 0.2, "3": 0.6}}
PAIRS = (
    (OpenAIDecisionApi, OpenAIDecisions),
    (OpenRouterDecisionApi, OpenRouterDecisions),
    (GeminiDecisionApi, GeminiDecisions),
)


def make_api(kind: type[DecisionApi]) -> DecisionApi:
    return kind(lambda key: {"Authorization": f"Bearer {key}"})


def make_response(api: DecisionApi, service: Any) -> dict[str, Any]:
    """Return the response of a service to the request of an API."""
    request = DecisionRequest(service.model, (Message("system", "s"), Message("user", "hi")), QUESTIONS)
    body = dict(api.build_request(request, "k").body or {})
    service.validate(body)
    built: dict[str, Any] = service.build_response(body, ANSWERS)
    return built


@pytest.mark.parametrize(("kind", "service"), PAIRS)
def test_answers_have_the_probabilities_of_all_values(kind: type[DecisionApi], service: Any) -> None:
    api = make_api(kind)
    response = api.parse_response(QUESTIONS, make_response(api, service(ANSWERS)))
    urgent, kind_answer, anger = response.answers
    assert urgent._replace(probabilities=()) == DecisionAnswer("urgent", True, 0.9)
    assert urgent.probabilities == pytest.approx((0.9, 0.1))
    assert kind_answer == DecisionAnswer("kind", "order", 0.7, (0.3, 0.7))
    assert anger == DecisionAnswer("anger", 3, 0.6, (0.2, 0.2, 0.6))
    assert response.usage.input_tokens == 1000


def parse_noul(question: DecisionQuestion, answer: Any) -> DecisionAnswer:
    api = OpenRouterDecisionApi(lambda key: {})
    return api.parse_response([question], {"answers": {question.name: answer}}).answers[0]


@pytest.mark.parametrize(
    ("question", "answer", "parsed"),
    [
        # OpenRouter's schema has optional probabilities and confidence.
        (CHOICE, {"choice": "bug"}, DecisionAnswer("kind", "bug")),
        (CHOICE, {"choice": "bug", "confidence": 0.8}, DecisionAnswer("kind", "bug", 0.8)),
        (SCORE, {"score": 1.4}, DecisionAnswer("anger", 2)),
        (SCORE, {"score": 1.6, "confidence": 0.7}, DecisionAnswer("anger", 3, 0.7)),
        # The level with the highest probability, not the one nearest to the mean.
        (
            SCORE,
            {"score": 0.8, "probabilities": {"0": 0.6, "1": 0.0, "2": 0.4}},
            DecisionAnswer("anger", 1, 0.6, (0.6, 0.0, 0.4)),
        ),
        # Gateways name the levels by their labels.
        (SCORE, {"probabilities": {"1": 0.1, "2": 0.7, "3": 0.2}}, DecisionAnswer("anger", 2, 0.7, (0.1, 0.7, 0.2))),
        # Rounded, so that two are equal: the service knows better.
        (
            CHOICE,
            {"choice": "order", "probabilities": {"bug": 0.5, "order": 0.5}},
            DecisionAnswer("kind", "order", 0.5, (0.5, 0.5)),
        ),
        (CHOICE, {"choice": "?", "probabilities": {"order": 0.5}}, DecisionAnswer("kind", "order", 0.5, (0.0, 0.5))),
    ],
)
def test_incomplete_answers_are_read(question: DecisionQuestion, answer: Any, parsed: DecisionAnswer) -> None:
    kind = {"predicate": "noul"}.get(question.kind, question.kind)
    assert parse_noul(question, {"type": kind, **answer}) == parsed


@pytest.mark.parametrize("answer", [None, {}, {"type": "box", "box": {}}, {"type": "refusal"}, {"noul": "yes"}])
@pytest.mark.parametrize("question", QUESTIONS)
def test_a_missing_answer_is_a_refusal(question: DecisionQuestion, answer: Any) -> None:
    assert parse_noul(question, answer).refusal


def test_booleans_of_openai_are_their_texts() -> None:
    question = DecisionQuestion("q", "choice", (True, "maybe"), "i")
    answer = {"type": "choice", "choice": True, "confidence": 0.9, "probabilities": []}
    response = OpenAIDecisionApi(lambda key: {}).parse_response([question], {"answers": [answer]})
    assert response.answers == (DecisionAnswer("q", True, 0.9),)


@pytest.mark.hypothesis
@pytest.mark.parametrize("pair", mark_others_slow(PAIRS))
@given(data=st.data())
def test_no_response_breaks_the_parser(pair: tuple[type[DecisionApi], Any], data: st.DataObject) -> None:
    api, service = make_api(pair[0]), pair[1]
    response = data.draw(any_json() | replace_any_part(make_response(api, service(ANSWERS))))
    try:
        parsed = api.parse_response(QUESTIONS, response if isinstance(response, dict) else {})
    except ProviderError as error:
        assert "answers" in error.message
        return
    assert [answer.name for answer in parsed.answers] == [question.name for question in QUESTIONS]
    for question, answer in zip(QUESTIONS, parsed.answers, strict=True):
        assert answer.refusal or json.dumps(answer.value) in map(json.dumps, question.values)
        assert len(answer.probabilities) in (0, len(question.values))


# The vendors' SDKs


def test_samples_have_the_types_of_the_sdks() -> None:
    for sample, types in ((OPENAI_SAMPLE, openai_types()), (GEMINI_SAMPLE, google_types())):
        assert written_out(types[1].validate_python(sample)) == sample
    assert openrouter_types()[1].model_validate(OPENROUTER_SAMPLE).usage.cost == OPENROUTER_SAMPLE["usage"]["cost"]


def test_openai_sdk(server: ModelServer) -> None:
    from openai import OpenAI

    server.reply(OpenAIDecisions(ANSWERS))
    questions: Any = [make_api(OpenAIDecisionApi).format_question(each) for each in QUESTIONS]  # type: ignore[attr-defined]
    with OpenAI(api_key="k", base_url=server.base_url, max_retries=0) as client:
        decision = client.decisions.create(
            model="gpt-6-luna", input=[{"role": "user", "content": "hi"}], questions=questions
        )
    assert [answer.type for answer in decision.answers] == ["predicate", "choice", "score"]


def test_gemini_sdk(server: ModelServer) -> None:
    from google import genai

    server.reply(GeminiDecisions(ANSWERS))
    root = server.base_url.removesuffix("/api/v1")
    client = genai.Client(api_key="k", http_options={"base_url": root, "api_version": "v1beta"})
    parts: Any = [{"type": "text", "text": "hi"}]
    decision = client.decisions.create(model="gemini-decision-1", input=parts, questions=format_noul(GeminiDecisionApi))
    assert {name: answer.type for name, answer in (decision.answers or {}).items()} == {
        "urgent": "noul", "kind": "choice", "anger": "score"
    }  # fmt: skip


def test_openrouter_sdk(server: ModelServer) -> None:
    from openrouter import OpenRouter

    service = OpenRouterDecisions(ANSWERS)

    def reply(request: Request) -> Any:
        return service(request)

    server.reply(reply)
    root = server.base_url.removesuffix("/api/v1")
    with OpenRouter(api_key="k") as client:
        decision = client.alpha.decisions.create(
            model=service.model, state="hi", questions=format_noul(OpenRouterDecisionApi), server_url=root
        )
    assert decision.answers["kind"].choice == "order"


def format_noul(kind: type[NoulDecisionApi]) -> Any:
    return kind(lambda key: {}).format_questions(QUESTIONS)
