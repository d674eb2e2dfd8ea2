# ruff: noqa: S101 - the contract is checked by assertions
"""Contract tests for `provider_decisions`: the requests of a decisions API, and the answers in a sample response."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from copy import deepcopy
from typing import Any, ClassVar

from ask import (
    AskError,
    Attachment,
    DecisionApi,
    DecisionRequest,
    HttpRequest,
    Message,
)
from ask.testing.base import ContractBase, copy_request, fail
from ask.testing.blocked_actions import guard_hook
from ask.testing.conversation import KEY, iterate_parts
from ask.testing.failure_tests import generate_corruptions
from ask.testing.samples import DECISION_QUESTIONS, EXPECTED_DECISIONS

SYSTEM_TEXT, USER_TEXT = "You are a careful judge.", "The server is down!"
IMAGE = Attachment("shot.png", "image/png", b"\x89PNG\r\n\x1a\nshot")
OPTION = "contract_option"


class DecisionTests(ContractBase):
    """The contract for the decisions API, if the provider has one."""

    decision_model: ClassVar[str] = ""
    decision_response: ClassVar[Mapping[str, Any] | None] = None

    def get_decision_api(self) -> DecisionApi | None:
        """Return the decisions API of `decision_model`, which checks the types of its results; None if there is none.

        It fails the test if the provider has such an API that no test uses.
        """
        __tracebackhide__ = True
        if self.call("provider_decisions") is None:
            return None
        if not self.decision_model:
            fail("provider_decisions returns an API. Set `decision_model` to a model that answers through it.")
        with guard_hook("provider_decisions"):
            api = self.loaded.get_decision_api(self.decision_model)
        if api is None:
            fail(
                f"No row of `profiles` says that {self.decision_model} has a decisions API, so ask never uses it. Add "
                f"decisions='supported' to the row of the model, or 'only' if it generates no text."
            )
        return api

    def build_decision_request(self, api: DecisionApi, *attachments: Attachment) -> HttpRequest:
        __tracebackhide__ = True
        messages = (Message("system", SYSTEM_TEXT), Message("user", USER_TEXT, attachments=attachments))
        request = DecisionRequest(self.decision_model, messages, DECISION_QUESTIONS, {OPTION: 1})
        with guard_hook("build_request of the decisions API"):
            built = api.build_request(request=request, key=KEY)
        return copy_request(built, "build_request of the decisions API")

    def test_decision_requests_contain_the_input_and_the_questions(self) -> None:
        api = self.get_decision_api()
        if api is None:
            return
        built = self.build_decision_request(api)
        body = built.body or {}
        text = json.dumps(body, ensure_ascii=False)
        assert built.path.startswith("/"), f"The path is {built.path!r}. Begin it with a slash."
        assert any(KEY in header for header in built.headers.values()), "The request has no API key in its headers."
        assert KEY not in text, "The body contains the API key. It belongs in the headers only."
        assert body.get(OPTION) == 1, "The request lacks an option of -o. Add `request.options` to the body last."
        assert self.decision_model in text, "The body does not name `request.model`."
        positions = [text.find(part) for part in (SYSTEM_TEXT, USER_TEXT)]
        assert -1 not in positions, "The input lacks the text of a message. Send the system message, too."
        assert positions == sorted(positions), "The system message must come first in the input."
        for question in DECISION_QUESTIONS:
            assert question.instructions in text, f"The question {question.name!r} is sent without its instructions."
        strings = {text for pair in iterate_parts(body) for text in pair if isinstance(text, str)}
        for label in (label for question in DECISION_QUESTIONS[1:3] for label in question.labels):
            assert label in strings, f"The value {label!r} of a question is not sent."
        assert self.build_decision_request(api) == built, "The same questions must produce the same request."

    def test_decision_requests_contain_files(self) -> None:
        api = self.get_decision_api()
        if api is None or not self.loaded.supports_attachment(self.decision_model, IMAGE.media_type):
            return
        text = json.dumps(self.build_decision_request(api, IMAGE).body)
        assert IMAGE.base64 in text, "The input lacks a file. Send `Message.attachments` in Base64."

    def test_decisions_are_parsed(self) -> None:
        api = self.get_decision_api()
        if api is None:
            return
        if self.decision_response is None:
            fail(
                "There is no response of the decisions API. Set `decision_response` to one, as the service sends it, "
                "with the answers `ask.testing.EXPECTED_DECISIONS` to `ask.testing.DECISION_QUESTIONS`."
            )
        with guard_hook("parse_response of the decisions API"):
            parsed = api.parse_response(questions=DECISION_QUESTIONS, response=deepcopy(self.decision_response))
        *answers, refused = parsed.answers
        for expected, answer in zip(EXPECTED_DECISIONS, answers, strict=True):
            assert answer == expected, f"The answer to {expected.name!r} is {answer}. It must be {expected}."
        assert refused.name == DECISION_QUESTIONS[-1].name
        assert refused.refusal, f"The refused question {refused.name!r} has no DecisionAnswer.refusal."
        assert refused[1:4] == (None, None, ()), "A refused question has no value and no probability."
        assert parsed.usage.input_tokens is not None or "usage" in self.unsupported, (
            "DecisionResponse.usage has no input_tokens. Return the tokens that the service reports."
        )

    def test_values_of_wrong_types_in_decisions_are_handled(self) -> None:
        api = self.get_decision_api()
        for value in generate_corruptions(self.decision_response or {}) if api else ():
            if not isinstance(value, dict):
                continue
            with suppress(AskError), guard_hook("parse_response of the decisions API", value):
                parsed = api.parse_response(questions=DECISION_QUESTIONS, response=value) if api else None
                names = [answer.name for answer in parsed.answers] if parsed else []
                assert names == [question.name for question in DECISION_QUESTIONS], (
                    f"parse_response of the decisions API returned answers to {names} for {value}. Return one answer "
                    f"for each question, in their order."
                )
