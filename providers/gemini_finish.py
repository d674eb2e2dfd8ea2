"""Gemini's finish reasons, and what they mean. https://ai.google.dev/api/generate-content#FinishReason"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ask import FinishReason, ProviderError, RetryAction
from ask.parsing import read_dict, read_int, read_list, read_str

CONTINUATION = "CONTINUATION"
"""The request's own token limit was reached, and another request can continue the answer."""
UNKNOWN_TOOL = "UNEXPECTED_TOOL_CALL"
"""The model called a tool that was not offered. If the answer contains the call, its result corrects the model."""
FINISH_REASON_NAMES = (
    *("", "STOP", "MAX_TOKENS", "SAFETY", "RECITATION", "OTHER", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT"),
    *("SPII", "MALFORMED_FUNCTION_CALL", "IMAGE_SAFETY", UNKNOWN_TOOL, "TOO_MANY_TOOL_CALLS"),
)
"""Finish reasons by number, for servers that send enums as numbers."""
FILTER_MESSAGES = {
    "SAFETY": "the answer may violate Google's safety policies",
    "RECITATION": "the answer may recite a source",
    "LANGUAGE": "the answer is in an unsupported language",
    "BLOCKLIST": "the answer contains a blocked term",
    "PROHIBITED_CONTENT": "the answer may contain prohibited content",
    "SPII": "the answer may contain sensitive personal information",
    "ESCALATION": "an escalation rule stopped the answer",
    "MODEL_ARMOR": "Google Cloud's Model Armor blocked the answer",
    "IMAGE_SAFETY": "the image may violate Google's safety policies",
    "IMAGE_PROHIBITED_CONTENT": "the image may contain prohibited content",
    "IMAGE_RECITATION": "the image may recite a source",
}
"""What stopped the answer, by the reasons of filters."""
NO_TEXT_HINT = "ask for text, or use a model that is made for text"
POLICY_HINT = "see https://ai.google.dev/gemini-api/terms, or use another key"
AGAIN = RetryAction.retry()
FAILURES: dict[str, tuple[str, RetryAction, str]] = {
    "MALFORMED_FUNCTION_CALL": ("the model wrote a tool call that cannot be read", AGAIN, ""),
    UNKNOWN_TOOL: ("the model called a tool that was not offered", AGAIN, ""),
    "TOO_MANY_TOOL_CALLS": ("the model called too many tools at once", AGAIN, ""),
    "MALFORMED_RESPONSE": ("the model wrote an answer that cannot be read", AGAIN, ""),
    "OTHER": ("the model stopped without a reason", AGAIN, ""),
    # Without its parts as received, an earlier answer is sent with a value that replaces the signature.
    "MISSING_THOUGHT_SIGNATURE": (
        "the signature of an earlier tool call is missing",
        RetryAction.WITHOUT_REASONING,
        "start a new conversation",
    ),
    "NO_IMAGE": ("the model was expected to create an image, but did not", RetryAction.NONE, NO_TEXT_HINT),
    "IMAGE_OTHER": ("the model stopped creating an image without a reason", RetryAction.NONE, NO_TEXT_HINT),
    "PUP_LIMITED_DISABLED": (
        "the account is limited or disabled because of violations of Google's Prohibited Use Policy",
        RetryAction.NEXT_KEY,
        POLICY_HINT,
    ),
}
"""The message, the remedy and the hint for each reason that is a failure."""
KNOWN_REASONS = {*FINISH_REASON_NAMES, *FILTER_MESSAGES, *FAILURES, CONTINUATION, "FINISH_REASON_UNSPECIFIED"}


def make_failure(reason: str, has_calls: bool) -> ProviderError | None:
    """Return the error for a finish reason that is a failure, else None."""
    if reason not in FAILURES or (reason == UNKNOWN_TOOL and has_calls):
        return None
    message, retry_action, hint = FAILURES[reason]
    return ProviderError(message, None, retry_action, hint=hint)


def to_finish(reason: str, has_calls: bool) -> FinishReason:
    """Convert the finish reason; an unknown one counts as a normal end, which a notice reports."""
    if reason in FILTER_MESSAGES:
        return FinishReason.CONTENT_FILTER
    if reason in ("MAX_TOKENS", CONTINUATION):
        return FinishReason.LENGTH
    return FinishReason.TOOL_CALLS if has_calls else FinishReason.STOP


def get_first_candidate(response: Mapping[str, Any]) -> dict[str, Any]:
    """Return the first candidate of a response; {} if there is none."""
    return read_dict(next(iter(read_list(response.get("candidates"))), None))


def read_finish_reason(response: Mapping[str, Any]) -> str:
    """Return Gemini's finish reason; "" if there is none.

    It is "SAFETY" if the prompt itself was blocked.
    """
    if read_dict(response.get("promptFeedback")).get("blockReason"):
        return "SAFETY"
    reason = get_first_candidate(response).get("finishReason")
    number = read_int(reason)
    if number is not None:
        return FINISH_REASON_NAMES[number] if 0 <= number < len(FINISH_REASON_NAMES) else ""
    return read_str(reason).upper()


def format_filter_reason(response: Mapping[str, Any], reason: str) -> str:
    """Return the reason, message and harm categories of a content filter; "" if none applied."""
    prompt, candidate = read_dict(response.get("promptFeedback")), get_first_candidate(response)
    if reason not in FILTER_MESSAGES:
        return ""
    blocked = prompt.get("blockReason")
    label = f"prompt blocked: {blocked}" if blocked else reason
    message = read_str(prompt.get("blockReasonMessage") if blocked else candidate.get("finishMessage"))
    message = message or ("" if blocked else FILTER_MESSAGES[reason])
    ratings = (read_dict(rating) for rating in read_list((prompt if blocked else candidate).get("safetyRatings")))
    harms = [read_str(rating.get("category")) for rating in ratings if rating.get("blocked") is True]
    return ": ".join(filter(None, (label, message, ", ".join(filter(None, harms)))))
