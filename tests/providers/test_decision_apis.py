"""The vendors' decisions APIs: responses of all shapes, and the vendors' own SDKs with the services of the tests."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask import Attachment, DecisionApi, DecisionQuestion, Message, ProviderError, Usage
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


@pytest.mark.slow_after_first
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


@pytest.mark.slow_after_first
@pytest.mark.parametrize(("kind", "service"), PAIRS)
def test_scales_of_any_length_are_accepted(kind: type[DecisionApi], service: Any) -> None:
    api, levels = make_api(kind), range(11)
    question = DecisionQuestion("mark", "score", tuple(levels), "how good")
    body: Any = api.build_request(DecisionRequest(service.model, (Message("user", "hi"),), [question]), "k").body
    started = service({})
    started.validate(body)
    probabilities = {"mark": {str(level): 0.5 if level == 10 else 0.05 for level in levels}}
    [answer] = api.parse_response([question], started.build_response(body, probabilities)).answers
    assert (answer.value, answer.probability, len(answer.probabilities)) == (10, 0.5, 11)


def test_cached_tokens_of_openrouter_are_counted() -> None:
    usage = {"input_tokens": 100, "output_tokens": 5, "cost": 0.5, "input_tokens_details": {"cached_tokens": 60}}
    parsed = OpenRouterDecisionApi(lambda key: {}).parse_response([], {"answers": {}, "usage": usage})
    assert parsed.usage == Usage(100, 5, 60, cost=0.5)


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
        # The chosen value is not one of those that are listed.
        (
            CHOICE,
            {"choice": "bug", "confidence": 0.9, "probabilities": {"order": 0.1}},
            DecisionAnswer("kind", "bug", 0.9),
        ),
        (CHOICE, {"choice": "bug", "probabilities": {"order": 0.1}}, DecisionAnswer("kind", "bug")),
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
    answer = {"type": "choice", "name": "q", "choice": True, "confidence": 0.9, "probabilities": []}
    response = OpenAIDecisionApi(lambda key: {}).parse_response([question], {"answers": [answer]})
    assert response.answers == (DecisionAnswer("q", True, 0.9),)


def parse_openai(questions: Sequence[DecisionQuestion], *answers: Any) -> tuple[DecisionAnswer, ...]:
    return tuple(OpenAIDecisionApi(lambda key: {}).parse_response(questions, {"answers": [*answers]}).answers)


def test_answers_of_openai_belong_to_the_question_of_their_name() -> None:
    entries = [
        {"type": "refusal", "name": "anger"},
        {"type": "predicate", "name": "urgent", "probability": 0.25},
        {"type": "predicate", "name": "other", "probability": 0.75},
    ]
    urgent, kind, anger = parse_openai(QUESTIONS, *entries)
    assert (urgent.value, urgent.probability) == (False, 0.75)
    assert (kind.refusal, anger.refusal) == ("the service returned no answer", "declined by the model")


@pytest.mark.parametrize("first", [0, 1])
def test_levels_of_openai_have_the_labels_of_the_request(first: int) -> None:
    question = DecisionQuestion("size", "score", ("2", "1", "0"), "i")
    listed = [{"value": first + n, "label": "210"[n], "probability": p} for n, p in enumerate((0.75, 0.25))]
    answer = {"type": "score", "name": "size", "score": 1.0, "confidence": 0.75, "probabilities": listed}
    assert parse_openai([question], answer) == (DecisionAnswer("size", "2", 0.75, (0.75, 0.25, 0.0)),)


def test_booleans_of_openai_have_probabilities() -> None:
    question = DecisionQuestion("q", "choice", (True, "maybe"), "i")
    listed = [{"value": True, "probability": 0.75}, {"value": "maybe", "probability": 0.25}]
    answer = {"type": "choice", "name": "q", "choice": True, "confidence": 0.75, "probabilities": listed}
    assert parse_openai([question], answer) == (DecisionAnswer("q", True, 0.75, (0.75, 0.25)),)


@pytest.mark.slow
def test_images_of_the_model_are_in_a_message_that_may_contain_them() -> None:
    image = Attachment("a.png", "image/png", b"x")
    drawn, sent = Message("assistant", "Here.", attachments=(image,)), Message("user", "", attachments=(image,))
    for kind, service in PAIRS:
        request = DecisionRequest(service.model, (Message("user", "Draw."), drawn, sent), QUESTIONS)
        body: Any = make_api(kind).build_request(request, "k").body
        service(ANSWERS).validate(body)
        assert json.dumps(body).count(image.base64) == 2
        if kind is OpenAIDecisionApi:
            assert [message["role"] for message in body["input"]] == ["user", "assistant", "user", "user"]
            assert [len(message["content"]) for message in body["input"][2:]] == [1, 1]  # no text that is empty


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
