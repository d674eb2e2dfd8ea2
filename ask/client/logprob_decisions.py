"""`--decide` with a model that has no decisions API: the probabilities come from the logprobs of a JSON answer."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ask.client.answers import explain_incomplete_answer
from ask.errors import AskError
from ask.messages import Message
from ask.parsing import read_dict, read_int, read_list, read_number, read_str
from ask.plugin_api.loaded_provider import LoadedProvider
from ask.plugin_api.provider import DecisionApi
from ask.plugin_api.types import (
    ChatRequest,
    DecisionAnswer,
    DecisionQuestion,
    DecisionRequest,
    DecisionResponse,
    HttpRequest,
)
from ask.schemas.schema import ResponseSchema
from ask.schemas.value_probabilities import TokenLogprob, ValueProbabilities, compute_value_probabilities

SCHEMA_TEXT = "Answer with only a JSON object that matches this JSON Schema:\n\n{}"
NEUTRAL_TEMPERATURE = 1
"""With this temperature, it does not matter whether logprobs are of the distribution before or after it.

OpenAI, vLLM and llama.cpp return those before it, SGLang those after it: https://github.com/vllm-project/vime/issues/64
"""
UNLIKELY = -9999.0
"""The logprob of a token whose probability is unknown, as services write that of an unlikely one."""
MISSING_VALUE = "the answer has none of its values"


class MissingLogprobsError(AskError):
    """The answers of a model come without logprobs, or it refuses to return them."""


class LogprobDecisions(DecisionApi):
    """Asks a model for JSON, and computes the probability of each value from the tokens that it could have written.

    Args:
        provider: the provider.
    """

    def __init__(self, provider: LoadedProvider) -> None:
        self._provider = provider

    def add_options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options of a request that asks for logprobs; the user's own come last."""
        requested = self._provider.hooks.provider_logprob_options()
        return {"temperature": NEUTRAL_TEMPERATURE, **requested, **options}

    def build_request(self, request: DecisionRequest, key: str) -> HttpRequest:
        schema = make_schema(request.questions)
        chat_request = ChatRequest(
            request.model,
            _describe_schema(request.messages, schema),
            options=request.options,
            stream=False,
            schema=schema,
            profile=request.profile,
            is_own_url=request.is_own_url,
        )
        return self._provider.hooks.provider_build_request(request=chat_request, key=key)

    def parse_response(self, request: DecisionRequest, response: Mapping[str, Any]) -> DecisionResponse:
        """Parse the answer of a model.

        Raises:
            AskError: the answer is incomplete, or no JSON object.
            MissingLogprobsError: it comes without logprobs.
        """
        answer = self._provider.hooks.provider_parse_response(response=response)
        if error := explain_incomplete_answer(answer, answer.finish_message):
            raise error
        schema = ResponseSchema(make_schema(request.questions))
        value = json.loads(schema.extract_json(answer.text))
        tokens = [parse_token(token) for token in self._provider.hooks.provider_parse_logprobs(response=response)]
        if not any(token.alternatives for token in tokens):
            raise MissingLogprobsError(f"the answer of {request.model} has no logprobs")
        allowed = {question.name: question.values for question in request.questions}
        probabilities = compute_value_probabilities(tokens, value, allowed)
        answers = tuple(_make_answer(question, probabilities.get(question.name)) for question in request.questions)
        return DecisionResponse(answers, answer.usage, read_str(response.get("model")))


def _make_answer(question: DecisionQuestion, result: ValueProbabilities | None) -> DecisionAnswer:
    if result is None:
        return DecisionAnswer(question.name, refusal=MISSING_VALUE)
    return question.make_answer(result.probabilities)


def make_schema(questions: Sequence[DecisionQuestion]) -> dict[str, Any]:
    """Return the JSON Schema of an object with the answers to questions."""
    properties = {question.name: _make_field_schema(question) for question in questions}
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


def _make_field_schema(question: DecisionQuestion) -> dict[str, Any]:
    lines = [
        question.instructions,
        *(
            f"{label}: {description}"
            for label, description in zip(question.labels, question.describe_values(), strict=True)
            if description
        ),
    ]
    description = "\n".join(lines)
    if question.kind == "predicate":
        return {"type": "boolean", "description": description}
    types = {"string" if isinstance(value, str) else "integer" for value in question.values}
    has_type = len(types) == 1 and all(isinstance(value, str) or type(value) is int for value in question.values)
    return {
        **({"type": types.pop()} if has_type else {}),
        "enum": list(question.values),
        "description": description,
    }


def _describe_schema(messages: Sequence[Message], schema: Mapping[str, Any]) -> list[Message]:
    """Add the schema to the system message, for services that do not enforce schemas."""
    system, *others = messages
    text = SCHEMA_TEXT.format(json.dumps(schema, ensure_ascii=False))
    return [system._replace(content="\n\n".join(filter(None, (system.content, text)))), *others]


def parse_token(fields: Mapping[str, Any]) -> TokenLogprob:
    """Parse a token as `Provider.provider_parse_logprobs` returns it."""
    token, logprob = _parse_alternative(fields)
    return TokenLogprob(
        token, logprob, tuple(_parse_alternative(read_dict(each)) for each in read_list(fields.get("top_logprobs")))
    )


def _parse_alternative(fields: Mapping[str, Any]) -> tuple[bytes, float]:
    """Return the bytes and the logprob of a token; the bytes may be a part of a character, which has no text."""
    numbers = [read_int(number) for number in read_list(fields.get("bytes"))]
    codes = [number for number in numbers if number is not None and 0 <= number < 256]
    is_valid = bool(codes) and len(codes) == len(numbers)
    token = bytes(codes) if is_valid else read_str(fields.get("token")).encode("utf-8", "replace")
    logprob = read_number(fields.get("logprob"))
    return token, UNLIKELY if logprob is None else logprob
