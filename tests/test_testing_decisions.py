"""The contract for decisions APIs in `ask.testing`: what it says about mistakes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from ask import (
    ChatCompletions,
    DecisionAnswer,
    DecisionApi,
    DecisionQuestion,
    DecisionRequest,
    DecisionResponse,
    HttpRequest,
    ModelProfile,
)
from ask.testing import ProviderContract
from providers.decision_apis import OpenAIDecisionApi
from tests.decision_services import OPENAI_SAMPLE

REQUEST_TEST = "test_decision_requests_contain_the_input_and_the_questions"
FILE_TEST = "test_decision_requests_contain_files"
PARSING_TEST = "test_decisions_are_parsed"
DAMAGE_TEST = "test_values_of_wrong_types_in_decisions_are_handled"
TESTS = (REQUEST_TEST, FILE_TEST, PARSING_TEST, DAMAGE_TEST)
PROFILE = ModelProfile("judge-1", attachments=("image/png",), decisions="supported")


class KeyInBody(OpenAIDecisionApi):
    def build_request(self, request: DecisionRequest, key: str) -> HttpRequest:
        built = super().build_request(request, key)
        return built._replace(body={**(built.body or {}), "key": key})


class NoSystemMessage(OpenAIDecisionApi):
    def build_request(self, request: DecisionRequest, key: str) -> HttpRequest:
        return super().build_request(request._replace(messages=request.messages[1:]), key)


class NoFiles(OpenAIDecisionApi):
    def build_request(self, request: DecisionRequest, key: str) -> HttpRequest:
        messages = [message._replace(attachments=()) for message in request.messages]
        return super().build_request(request._replace(messages=messages), key)


class NoOptions(OpenAIDecisionApi):
    def build_request(self, request: DecisionRequest, key: str) -> HttpRequest:
        return super().build_request(request._replace(options={}), key)


class NoInstructions(OpenAIDecisionApi):
    def format_question(self, question: DecisionQuestion) -> dict[str, Any]:
        return super().format_question(question) | {"instructions": "?"}


class TruthOfFalse(OpenAIDecisionApi):
    """Returns the probability that a false statement is true."""

    def parse_answer(self, question: DecisionQuestion, entry: dict[str, Any]) -> DecisionAnswer:
        answer = super().parse_answer(question, entry)
        is_false = question.kind == "predicate" and answer.value is False
        return answer._replace(probability=answer.probabilities[0]) if is_false else answer


class NoRefusals(OpenAIDecisionApi):
    def parse_answer(self, question: DecisionQuestion, entry: dict[str, Any]) -> DecisionAnswer:
        return super().parse_answer(question, entry)._replace(refusal="")


class Trusting(OpenAIDecisionApi):
    """Does not check the types of values."""

    def parse_response(self, questions: Sequence[DecisionQuestion], response: Mapping[str, Any]) -> DecisionResponse:
        len(response["answers"])
        return super().parse_response(questions, response)


def make_contract(api: type[DecisionApi] | None, *profiles: ModelProfile, **attributes: Any) -> Any:
    """Return a test class for a provider with this decisions API."""

    class Service(ChatCompletions):
        def provider_decisions(self) -> DecisionApi | None:
            return api(self.build_headers) if api else None

    service = Service(name="service", base_url="https://api.example.com/v1", key_env="SERVICE_API_KEY")
    service.profiles = profiles
    return type("Contract", (ProviderContract,), {"provider": service, **attributes})()


COMPLETE = {"decision_model": "judge-1", "decision_response": OPENAI_SAMPLE}


@pytest.mark.parametrize("name", TESTS)
def test_a_correct_api_passes(name: str) -> None:
    getattr(make_contract(OpenAIDecisionApi, PROFILE, **COMPLETE), name)()
    getattr(make_contract(None), name)()


@pytest.mark.parametrize(
    ("api", "name", "says"),
    [
        (KeyInBody, REQUEST_TEST, "headers only"),
        (NoSystemMessage, REQUEST_TEST, "system message"),
        (NoOptions, REQUEST_TEST, "request.options"),
        (NoInstructions, REQUEST_TEST, "instructions"),
        (NoFiles, FILE_TEST, "attachments"),
        (TruthOfFalse, PARSING_TEST, "'urgent'"),
        (NoRefusals, PARSING_TEST, "refusal"),
        (Trusting, DAMAGE_TEST, "KeyError"),
    ],
)
def test_a_mistake_is_explained(api: type[DecisionApi], name: str, says: str) -> None:
    with pytest.raises((AssertionError, pytest.fail.Exception)) as caught:
        getattr(make_contract(api, PROFILE, **COMPLETE), name)()
    assert says in str(caught.value)


def test_an_api_that_is_never_used_is_reported() -> None:
    with pytest.raises(pytest.fail.Exception, match="decision_model"):
        getattr(make_contract(OpenAIDecisionApi, PROFILE), REQUEST_TEST)()
    with pytest.raises(pytest.fail.Exception, match="profiles"):
        getattr(make_contract(OpenAIDecisionApi, **COMPLETE), REQUEST_TEST)()
    with pytest.raises(pytest.fail.Exception, match="decision_response"):
        getattr(make_contract(OpenAIDecisionApi, PROFILE, decision_model="judge-1"), PARSING_TEST)()
