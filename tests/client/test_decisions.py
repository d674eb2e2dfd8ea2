"""A decisions API of a plugin: what it returns is checked, and becomes an answer."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from ask import (
    ChatCompletions,
    ChatRequest,
    DecisionAnswer,
    DecisionApi,
    DecisionQuestion,
    DecisionRequest,
    DecisionResponse,
    FinishReason,
    HttpRequest,
    Message,
    ModelProfile,
    ProviderError,
    Usage,
)
from ask.client.decisions import check_decisions, use_decision_api
from ask.errors import ParameterError, PluginError
from ask.plugin_api.loaded_provider import LoadedProvider
from ask.plugin_api.provider_loading import check_provider

QUESTIONS = (
    DecisionQuestion("urgent", "predicate", (True, False), "i"),
    DecisionQuestion("kind", "choice", ("a", 1), "i"),
)
MODEL = "judge-1"
WRONG_TYPE: Any = DecisionAnswer._make(["urgent", True, "0.9", (), ""])


class Api(DecisionApi):
    """Sends the questions unchanged, and returns the given answers."""

    max_questions = 2
    max_values = 3
    answers: Any = (DecisionAnswer("urgent", True, 0.9, (0.9, 0.1)), DecisionAnswer("kind", 1, 0.6))

    def build_request(self, request: DecisionRequest, key: str) -> HttpRequest:
        body = {"texts": [message.content for message in request.messages], "options": dict(request.options)}
        return HttpRequest("/judge", body, self.build_headers(key))

    def parse_response(self, questions: Sequence[DecisionQuestion], response: Mapping[str, Any]) -> DecisionResponse:
        if self.answers is None:
            raise KeyError("answers")
        return DecisionResponse(self.answers, Usage(10))


def load(answers: Any = Api.answers, **profile: Any) -> LoadedProvider:
    """Load a plugin of another package, whose API returns these answers."""

    class Service(ChatCompletions):
        profiles = (ModelProfile(MODEL, decisions=profile.get("decisions", "supported")),)

        def provider_logprob_options(self) -> dict[str, Any]:
            return {}

        def provider_decisions(self) -> DecisionApi:
            api = Api(self.build_headers)
            api.answers = answers
            return api

    return check_provider(Service(name="service", base_url="https://api.example.com/v1"), "service", "some-package")


def test_a_request_is_one_of_the_decisions_api() -> None:
    hooks = use_decision_api(load(), MODEL, QUESTIONS).hooks
    messages = (Message("system", "s"), Message("user", "q"), Message("assistant", ""), Message("user", "hi"))
    built = hooks.provider_build_request(ChatRequest(MODEL, messages, options={"x": 1}), "k")
    assert (built.path, built.body) == ("/judge", {"texts": ["s", "q", "hi"], "options": {"x": 1}})
    assert built.headers["Authorization"] == "Bearer k"


def test_answers_become_json() -> None:
    answer = use_decision_api(load(), MODEL, QUESTIONS).hooks.provider_parse_response({})
    assert json.loads(answer.text) == {"urgent": True, "urgent_p": 0.9, "kind": 1, "kind_p": 0.6}
    assert (answer.finish_reason, answer.usage) == (FinishReason.STOP, Usage(10, 0, service_tier="decisions"))
    assert [each.value for each in answer.decisions] == [True, 1]


def test_probabilities_are_rounded() -> None:
    answers = (DecisionAnswer("urgent", True, 0.97, (0.97, 1 - 0.97)), DecisionAnswer("kind", "a", 1 - 0.97))
    answer = use_decision_api(load(answers), MODEL, QUESTIONS).hooks.provider_parse_response({})
    assert json.loads(answer.text)["kind_p"] == 0.03
    assert answer.decisions[0].probabilities == (0.97, 0.03)


def test_probabilities_stay_between_0_and_1() -> None:
    answers = (DecisionAnswer("urgent", True, 1.01, (1.01, -0.01)), DecisionAnswer("kind", "a"))
    answer = use_decision_api(load(answers), MODEL, QUESTIONS).hooks.provider_parse_response({})
    assert json.loads(answer.text) == {"urgent": True, "urgent_p": 1, "kind": "a", "kind_p": None}
    assert answer.decisions[0].probabilities == (1, 0)
    answers = (DecisionAnswer("urgent", True, math.nan, (math.nan, 0.1)), DecisionAnswer("kind", "a", math.inf))
    answer = use_decision_api(load(answers), MODEL, QUESTIONS).hooks.provider_parse_response({})
    assert json.loads(answer.text) == {"urgent": True, "urgent_p": None, "kind": "a", "kind_p": 1}
    assert answer.decisions[0].probabilities == ()


@pytest.mark.parametrize(
    ("answers", "named"),
    [
        ((DecisionAnswer("urgent", True),), "order"),
        ((DecisionAnswer("kind", 1), DecisionAnswer("urgent", True)), "order"),
        ((DecisionAnswer("urgent", True), DecisionAnswer("kind", "b")), "'kind'"),
        ((DecisionAnswer("urgent", True), DecisionAnswer("kind", True)), "'kind'"),
        ((DecisionAnswer("urgent"), DecisionAnswer("kind", 1)), "'urgent'"),
        ((WRONG_TYPE, DecisionAnswer("kind", 1)), "probability"),
        ("answers", "answers"),
        (None, "KeyError"),
    ],
)
def test_a_mistake_of_the_plugin_is_its_bug(answers: Any, named: str) -> None:
    hooks = use_decision_api(load(answers), MODEL, QUESTIONS).hooks
    with pytest.raises(PluginError, match="service has a bug") as caught:
        hooks.provider_parse_response({})
    assert named in str(caught.value)


def test_an_error_in_a_response_is_that_of_the_provider() -> None:
    hooks = use_decision_api(load(), MODEL, QUESTIONS).hooks
    with pytest.raises(ProviderError, match="overloaded") as caught:
        hooks.provider_parse_response({"error": {"message": "overloaded", "code": 503}})
    assert (caught.value.status, caught.value.retry_action.kind) == (503, "retry")


@pytest.mark.parametrize(
    ("model", "questions"),
    [
        ("other", QUESTIONS),
        (MODEL, (*QUESTIONS, DecisionQuestion("c", "predicate", (True, False), "i"))),
        (MODEL, (DecisionQuestion("c", "score", (1, 2, 3, 4), "i"),)),
    ],
)
def test_what_a_model_cannot_decide_is_an_error(model: str, questions: Sequence[DecisionQuestion]) -> None:
    with pytest.raises(ParameterError) as caught:
        check_decisions(load(), model, questions)
    assert caught.value.hint
    check_decisions(load(), MODEL, QUESTIONS)
    check_decisions(load(), MODEL, ())
    with pytest.raises(ParameterError, match="only decisions"):
        check_decisions(load(decisions="only"), MODEL, ())
