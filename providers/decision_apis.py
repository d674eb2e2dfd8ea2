"""The vendors' decisions APIs: questions with a fixed set of answers, and a probability for each.

Probabilities may be rounded to two digits, so that their sum is not exactly 1. Response JSON is untrusted: the type of
every value is checked before use.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ask import (
    Attachment,
    DecisionAnswer,
    DecisionApi,
    DecisionQuestion,
    DecisionRequest,
    DecisionResponse,
    HttpRequest,
    Message,
    ProviderError,
    Usage,
)
from ask.parsing import read_dict, read_int, read_list, read_number, read_str

from .gemini_models import MIME_TYPE_NAMES

DECLINED = "declined by the model"
MISSING = "the service returned no answer"


def format_turns(messages: Sequence[Message]) -> list[tuple[str, Sequence[Attachment]]]:
    """Return the text and files of each message, for an API without roles. Turns of a conversation have a label."""
    has_turns = any(message.role == "assistant" for message in messages)
    labels = {"user": "User: ", "assistant": "Assistant: "} if has_turns else {}
    return [(labels.get(message.role, "") + message.content, message.attachments) for message in messages]


def choose_value(
    question: DecisionQuestion, probabilities: Mapping[str, float], label: str = "", confidence: float | None = None
) -> DecisionAnswer:
    """Return the answer to a question whose values have these probabilities, by label.

    `label` is the value that the service chose, "" for the most probable one. Its probability is the service's
    `confidence` if it did not return all probabilities.
    """
    labels = question.labels
    if not probabilities.keys() & {*labels}:
        if label not in labels:
            return DecisionAnswer(question.name, refusal=MISSING)
        return DecisionAnswer(question.name, question.values[labels.index(label)], confidence)
    answer = question.make_answer([probabilities.get(each, 0.0) for each in labels])
    if label not in labels:
        return answer
    value = question.values[labels.index(label)]
    if label not in probabilities:
        return DecisionAnswer(question.name, value, confidence)
    return answer._replace(value=value, probability=probabilities[label])


def read_numbers(value: Any) -> dict[str, float]:
    """Return the numbers of a JSON object."""
    numbers = {name: read_number(number) for name, number in read_dict(value).items()}
    return {name: number for name, number in numbers.items() if number is not None}


def check_answers(response: Mapping[str, Any], answers_type: type) -> None:
    """Raise a `ProviderError` if a response has no answers at all, as one of another program."""
    if not isinstance(response.get("answers"), answers_type):
        raise ProviderError("the response contains no answers")


class ScoringApi(DecisionApi):
    """What the vendors' decisions APIs have in common: refusals, predicates, and a limit for the levels of a score."""

    max_levels = 10
    """A question with more levels is asked as a choice."""
    predicate_field = "probability"
    """The field of an answer to a predicate with the probability that it is true."""

    def is_score(self, question: DecisionQuestion) -> bool:
        return question.kind == "score" and len(question.values) <= self.max_levels

    def parse_answer(self, question: DecisionQuestion, entry: dict[str, Any]) -> DecisionAnswer:
        if entry.get("type") == "refusal":
            return DecisionAnswer(question.name, refusal=DECLINED)
        if question.kind == "predicate":
            share = read_number(entry.get(self.predicate_field))
            return choose_value(question, {} if share is None else {"true": share, "false": 1 - share})
        return self.parse_value(question, entry)

    def parse_value(self, question: DecisionQuestion, entry: dict[str, Any]) -> DecisionAnswer:
        """Parse the answer to a choice or a score."""
        raise NotImplementedError


class OpenAIDecisionApi(ScoringApi):
    """OpenAI's Decisions API. https://developers.openai.com/api/reference/resources/decisions

    A request costs its input tokens only.
    """

    attachments = ("image/png", "image/jpeg", "image/gif", "image/webp")

    def build_request(self, request: DecisionRequest, key: str) -> HttpRequest:
        body: dict[str, Any] = {
            "model": request.model,
            "input": [entry for message in request.messages for entry in self.format_message(message)],
            "questions": [self.format_question(question) for question in request.questions],
        }
        return HttpRequest("/decisions", body | dict(request.options), self.build_headers(key))

    def format_message(self, message: Message) -> list[dict[str, Any]]:
        """Return a message, and after one of the model a message with its images: only the user's may contain any."""
        images = [{"type": "input_image", "image_url": file.data_url} for file in message.attachments]
        texts = [{"type": "input_text", "text": message.content}] if message.content else []
        if message.role == "user" and images:
            return [{"role": "user", "content": [*texts, *images]}]
        return [
            *([{"role": message.role, "content": message.content}] if texts else []),
            *([{"role": "user", "content": images}] if images else []),
        ]

    def format_question(self, question: DecisionQuestion) -> dict[str, Any]:
        fields: dict[str, Any] = {"name": question.name, "instructions": question.instructions}
        described = list(zip(question.labels, question.describe_values(), strict=True))
        if question.kind == "predicate":  # its values have no descriptions
            lines = [
                question.instructions,
                *(f"{label}: {description}" for label, description in described if description),
            ]
            return {"type": "predicate", **fields, "instructions": "\n".join(lines)}
        texts = [(label, {"description": description} if description else {}) for label, description in described]
        if self.is_score(question):
            return {"type": "score", **fields, "levels": [{"label": label, **more} for label, more in texts]}
        return {"type": "choice", **fields, "choices": [{"value": label, **more} for label, more in texts]}

    def parse_response(self, questions: Sequence[DecisionQuestion], response: Mapping[str, Any]) -> DecisionResponse:
        """Parse the answers, which have the names of the questions."""
        check_answers(response, list)
        entries = [read_dict(entry) for entry in read_list(response.get("answers"))]
        by_name = {read_str(entry.get("name")): entry for entry in reversed(entries)}
        usage = read_dict(response.get("usage"))
        details = read_dict(usage.get("input_tokens_details"))
        return DecisionResponse(
            tuple(self.parse_answer(question, by_name.get(question.name, {})) for question in questions),
            Usage(
                read_int(usage.get("input_tokens")),
                read_int(usage.get("output_tokens")),
                read_int(details.get("cached_tokens")),
                cache_write_tokens=read_int(details.get("cache_write_tokens")),
            ),
            read_str(response.get("model")),
        )

    def parse_value(self, question: DecisionQuestion, entry: dict[str, Any]) -> DecisionAnswer:
        listed = [read_dict(each) for each in read_list(entry.get("probabilities"))]
        if self.is_score(question):
            by_label = read_probabilities(listed, "label")
            if by_label.keys() & {*question.labels}:
                return choose_value(question, by_label)
            return choose_level(question, entry, read_probabilities(listed, "value"))
        return choose_value(
            question,
            read_probabilities(listed, "value"),
            read_label(entry.get("choice")),
            read_number(entry.get("confidence")),
        )


def read_label(value: Any) -> str:
    """Return the text of one of OpenAI's values: a text, a boolean, or the number of a level; "" for others."""
    return json.dumps(value) if isinstance(value, int) else read_str(value)


def read_probabilities(entries: Sequence[Mapping[str, Any]], name: str) -> dict[str, float]:
    """Return the probabilities in a list of OpenAI's, by the text in the field `name`."""
    return read_numbers({read_label(entry.get(name)): entry.get("probability") for entry in entries})


def choose_level(
    question: DecisionQuestion, entry: Mapping[str, Any], probabilities: Mapping[str, float]
) -> DecisionAnswer:
    """Return the answer to a score, from the probabilities by the number of the level, which begins at 0.

    Some gateways use the labels of the levels instead. Without probabilities, the level is the one nearest to the
    score, which is the mean of the levels.
    """
    labels = question.labels
    numbers = {str(number): label for number, label in enumerate(labels)}
    are_numbers = probabilities.keys() <= numbers.keys()
    by_label = {numbers[name]: value for name, value in probabilities.items()} if are_numbers else probabilities
    score = read_number(entry.get("score"))
    nearest = "" if score is None or by_label else numbers.get(str(round(score)), "")
    return choose_value(question, by_label, nearest, read_number(entry.get("confidence")))


class NoulDecisionApi(ScoringApi):
    """What the decisions APIs of Gemini and OpenRouter have in common: questions and answers are objects by name.

    They call a predicate "noul". The descriptions of values are criteria.
    """

    predicate_field = "noul"
    missing_description: str | None = ""
    """The description of a value that has none."""
    criterion_suffix = ""
    """What follows "true" and "false" in the names of the criteria of a predicate."""

    def format_questions(self, questions: Sequence[DecisionQuestion]) -> dict[str, Any]:
        return {question.name: self.format_question(question) for question in questions}

    def format_question(self, question: DecisionQuestion) -> dict[str, Any]:
        if question.kind == "predicate":
            texts = zip(question.labels, question.descriptions, strict=False)
            criteria = {label + self.criterion_suffix: text for label, text in texts}
            return {
                "type": "noul",
                "instructions": question.instructions,
                **({"criteria": criteria} if criteria else {}),
            }
        described = list(zip(question.labels, question.describe_values(), strict=True))
        if self.is_score(question):
            levels = [f"{label}: {description}" if description else label for label, description in described]
            return {"type": "score", "instructions": question.instructions, "criteria": levels}
        options = {label: description or self.missing_description for label, description in described}
        return {"type": "choice", "instructions": question.instructions, "criteria": options}

    def parse_answers(self, questions: Sequence[DecisionQuestion], answers: Any) -> tuple[DecisionAnswer, ...]:
        entries = read_dict(answers)
        return tuple(self.parse_answer(question, read_dict(entries.get(question.name))) for question in questions)

    def parse_value(self, question: DecisionQuestion, entry: dict[str, Any]) -> DecisionAnswer:
        probabilities = read_numbers(entry.get("probabilities"))
        if self.is_score(question):
            return choose_level(question, entry, probabilities)
        label, confidence = read_str(entry.get("choice")), read_number(entry.get("confidence"))
        return choose_value(question, probabilities, label, confidence)


class OpenRouterDecisionApi(NoulDecisionApi):
    """OpenRouter's Decisions API. https://openrouter.ai/docs/guides/overview/multimodal/decisions

    The input has no roles: it is one text, or a list of texts and images.
    """

    max_questions = 200
    missing_description = None
    path = "/../alpha/decisions"
    """The API has a version of its own, which replaces the version in the base URL."""

    def build_request(self, request: DecisionRequest, key: str) -> HttpRequest:
        turns = format_turns(request.messages)
        state: str | list[Any] = "\n\n".join(text for text, _ in turns)
        if any(files for _, files in turns):
            state = []
            for text, files in turns:
                images = ({"type": "image_url", "image_url": {"url": file.data_url}} for file in files)
                state += [*filter(None, [text]), *images]
        body = {"model": request.model, "state": state, "questions": self.format_questions(request.questions)}
        return HttpRequest(self.path, body | dict(request.options), self.build_headers(key))

    def parse_response(self, questions: Sequence[DecisionQuestion], response: Mapping[str, Any]) -> DecisionResponse:
        check_answers(response, dict)
        usage = read_dict(response.get("usage"))
        details = read_dict(usage.get("input_tokens_details"))  # the guide mentions it, the SDK does not
        return DecisionResponse(
            self.parse_answers(questions, response.get("answers")),
            Usage(
                read_int(usage.get("input_tokens")),
                read_int(usage.get("output_tokens")),
                read_int(details.get("cached_tokens")),
                cost=read_number(usage.get("cost")),
            ),
            read_str(response.get("model")),
        )


class GeminiDecisionApi(NoulDecisionApi):
    """Gemini's Decisions API, which Vertex does not have.

    The types are those of Google's SDK:
    https://github.com/googleapis/python-genai/tree/main/google/genai/_gaos/types/decisions
    """

    max_questions = 1_000
    max_levels = 255
    criterion_suffix = "_description"

    def build_request(self, request: DecisionRequest, key: str) -> HttpRequest:
        parts: list[dict[str, Any]] = []
        for text, files in format_turns(request.messages):
            parts += [*([{"type": "text", "text": text}] if text else []), *map(self.format_file, files)]
        body = {"model": request.model, "input": parts, "questions": self.format_questions(request.questions)}
        return HttpRequest("/v1beta/decisions", body | dict(request.options), self.build_headers(key))

    def format_file(self, file: Attachment) -> dict[str, Any]:
        kind = file.media_type.partition("/")[0]
        return {
            "type": kind if kind in ("image", "audio", "video") else "document",
            "data": file.base64,
            "mime_type": MIME_TYPE_NAMES.get(file.media_type, file.media_type),
        }

    def parse_response(self, questions: Sequence[DecisionQuestion], response: Mapping[str, Any]) -> DecisionResponse:
        """Parse the answers; there are none if the input was blocked."""
        usage = read_dict(response.get("usage"))
        tokens = Usage(
            read_int(usage.get("total_input_tokens")),
            read_int(usage.get("total_output_tokens")),
            read_int(usage.get("total_cached_tokens")),
        )
        feedback = read_dict(response.get("prompt_feedback"))
        reason = read_str(feedback.get("block_reason_message")) or read_str(feedback.get("block_reason"))
        if reason:
            refusal = f"the input was blocked: {reason}"
            return DecisionResponse(tuple(DecisionAnswer(each.name, refusal=refusal) for each in questions), tokens)
        check_answers(response, dict)
        return DecisionResponse(self.parse_answers(questions, response.get("answers")), tokens)
