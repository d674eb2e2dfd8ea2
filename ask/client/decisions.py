"""`--decide`: requests to a provider's decisions API, or for logprobs, whose answers become JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, cast

from ask.client.logprob_decision_api import LogprobDecisions
from ask.errors import ParameterError, ProviderError, UsageError
from ask.messages import (
    EMPTY_MAPPING,
    DecisionAnswer,
    DecisionQuestion,
    FinishReason,
    Message,
    ModelResponse,
    ToolCall,
    Usage,
)
from ask.parsing import DECISIONS_TIER, find_error, read_dict, read_int
from ask.plugin_api.loaded_provider import LoadedProvider
from ask.plugin_api.provider import DecisionApi, Provider
from ask.plugin_api.types import ChatRequest, DecisionRequest, HttpRequest
from ask.schemas.decision_questions import format_decisions, format_refusals

PROBABILITY_DIGITS = 6
"""The digits of a probability after the decimal point, so that 1 - 0.95 is 0.05."""

DECIDE_HINT = 'add --decide and a --schema of booleans, enums and scales, such as "urgent bool, anger 1..5"'
PARSE_METHOD = "parse_response of its decisions API"


def _select_decision_api(provider: LoadedProvider, model: str, questions: Sequence[DecisionQuestion]) -> DecisionApi:
    """Return the decisions API that answers questions to a model, or what answers them from logprobs.

    Raises:
        ParameterError: the model has neither, or the API does not accept these questions.
    """
    api = provider.get_decision_api(model)
    if api is None:
        return LogprobDecisions(provider, model)
    if len(questions) > api.max_questions:
        message = f"the schema has {len(questions)} fields; {model} answers at most {api.max_questions} in a request"
        raise ParameterError(message, "leave out some of them, or ask twice")
    for question in questions:
        if len(question.values) > api.max_values:
            message = f"the field '{question.name}' has {len(question.values)} values"
            raise ParameterError(f"{message}; {model} accepts at most {api.max_values}", "leave out some of them")
    return api


def check_decisions(
    provider: LoadedProvider,
    model: str,
    questions: Sequence[DecisionQuestion],
    options: Mapping[str, Any] = EMPTY_MAPPING,
) -> None:
    """Check that a model can answer a request: with questions and these options, or without any questions.

    Raises:
        ParameterError: it cannot.
        UsageError: an option has no effect.
    """
    if questions:
        api = _select_decision_api(provider, model, questions)
        if isinstance(api, LogprobDecisions):
            api.add_options(provider.find_profile(model), options)
        elif "reasoning_effort" in options:
            raise UsageError(f"--effort has no effect on the decisions of {model}", "leave out --effort")
    elif provider.find_profile(model).decisions == "only":
        raise ParameterError(f"{model} of {provider.info.name} makes only decisions and writes no text", DECIDE_HINT)


def use_decision_api(provider: LoadedProvider, model: str, questions: Sequence[DecisionQuestion]) -> LoadedProvider:
    """Return a provider that answers each request with the decisions of a model.

    Raises:
        ParameterError: the model cannot answer the questions.
    """
    api = _select_decision_api(provider, model, questions)
    adapted = copy(provider)
    adapted.hooks = cast("Provider", DecisionHooks(provider, api, questions))
    return adapted


class DecisionHooks:
    """The hooks of a provider, of which those for a request and its response use the decisions API.

    Retries, keys, redaction, recordings and errors are therefore those of all other requests.
    """

    def __init__(self, provider: LoadedProvider, api: DecisionApi, questions: Sequence[DecisionQuestion]) -> None:
        self._provider = provider
        self._api = api
        self._questions = questions
        self._uses_logprobs = isinstance(api, LogprobDecisions)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._provider.hooks, name)

    def provider_build_request(self, request: ChatRequest, key: str) -> HttpRequest:
        decision_request = DecisionRequest(
            model=request.model,
            messages=_select_messages(request.messages),
            questions=self._questions,
            options=request.options,
            profile=request.profile,
            is_own_url=request.is_own_url,
        )
        return self._api.build_request(request=decision_request, key=key)

    def provider_parse_error(self, status: int, headers: Mapping[str, str], body: str) -> ProviderError:
        """Parse an error response.

        Raises:
            ParameterError: the service refuses to return logprobs.
        """
        error = self._provider.hooks.provider_parse_error(status=status, headers=headers, body=body)
        is_about_logprobs = "logprob" in error.message.lower() and 400 <= status < 500
        if is_about_logprobs and isinstance(self._api, LogprobDecisions):
            raise self._api.make_error(f"the service refuses logprobs ({error.message})")
        return error

    def provider_parse_response(self, response: Mapping[str, Any]) -> ModelResponse:
        """Return the answers as JSON.

        Raises:
            ProviderError: the response is an error.
        """
        # A chat API's response is checked by the provider; that of Ollama looks like an error here.
        if not self._uses_logprobs and (error := find_error(response)) is not None:
            code = read_int(read_dict(error).get("code") or read_dict(error).get("status"))
            status = code if code and 400 <= code <= 599 else 200
            body = json.dumps({"error": error})
            raise self._provider.hooks.provider_parse_error(status=status, headers={}, body=body)
        parsed = self._api.parse_response(questions=self._questions, response=response)
        answers = tuple(map(_clean_answer, parsed.answers))
        self._check_answers(answers)
        refusals, usage = format_refusals(answers), parsed.usage
        if usage != Usage() and not self._uses_logprobs:  # no text is generated
            usage = usage._replace(output_tokens=usage.output_tokens or 0, service_tier=DECISIONS_TIER)
        return ModelResponse(
            json.dumps(format_decisions(answers), ensure_ascii=False),
            finish_reason=FinishReason.CONTENT_FILTER if refusals else FinishReason.STOP,
            usage=usage,
            finish_message=refusals,
            decisions=answers,
        )

    def provider_parse_tool_calls(self, response: Mapping[str, Any]) -> list[ToolCall]:
        """Return []: decisions have no tools."""
        return []

    def provider_notice(self, request: ChatRequest, answer: ModelResponse) -> str:
        """Return "": the provider's notices are about text."""
        return ""

    def _check_answers(self, answers: Sequence[DecisionAnswer]) -> None:
        """Raise `PluginError` unless there is a valid answer for each question."""
        if [answer.name for answer in answers] != [question.name for question in self._questions]:
            raise self._provider.make_error(PARSE_METHOD, "must return an answer for each question, in their order")
        for question, answer in zip(self._questions, answers, strict=True):
            if not answer.refusal and json.dumps(answer.value) not in map(json.dumps, question.values):
                problem = f"returned {answer.value!r}, which is no value of the question {question.name!r}"
                raise self._provider.make_error(PARSE_METHOD, problem)


def _select_messages(messages: Sequence[Message]) -> list[Message]:
    """Return the messages of a conversation with the results of tools as text, without the calls and empty messages."""
    return [
        Message("user", f"[the result of {message.tool_name}]\n{message.content}", attachments=message.attachments)
        if message.role == "tool"
        else Message(message.role, message.content, attachments=message.attachments)
        for message in messages
        if message.role == "tool" or message.content or message.attachments
    ]


def _clean_answer(answer: DecisionAnswer) -> DecisionAnswer:
    """Return an answer whose probabilities are rounded and between 0 and 1, and whose refusal is on one line."""
    if answer.refusal:
        return DecisionAnswer(answer.name, refusal=" ".join(answer.refusal.split()) or "no reason was given")
    probability, probabilities = answer.probability, answer.probabilities
    return answer._replace(
        probability=None if probability is None or math.isnan(probability) else _clean_probability(probability),
        probabilities=() if any(map(math.isnan, probabilities)) else tuple(map(_clean_probability, probabilities)),
    )


def _clean_probability(probability: float) -> float:
    return round(min(max(probability, 0.0), 1.0), PROBABILITY_DIGITS)
