"""The limits in refusals, as services and servers have worded them in public reports."""

from __future__ import annotations

import pytest

from ask.client.error_classification import classify_error, find_rejected_tool, is_message_refused
from ask.client.stated_limits import LIMIT_PATTERNS, StatedLimit, find_stated_limit
from ask.errors import NetworkError, ProviderError, RetryAction
from ask.messages import ToolSpec

GROQ = (
    "Request too large for model `llama-3.3-70b-versatile` in organization `org_1` service tier `on_demand` on tokens "
    "per minute (TPM): Limit 12000, Requested 14137, please reduce your message size and try again."
)
VLLM = (
    "This model's maximum context length is 128000 tokens. However, you requested 65535 output tokens and your prompt "
    "contains at least 62466 input tokens, for a total of at least 128001 tokens."
)
SGLANG = (
    "Requested token count exceeds the model's maximum context length of 202752 tokens. You requested a total of "
    "202941 tokens: 170941 tokens from the input messages and 32000 tokens for the completion."
)
OPENROUTER = (
    "This endpoint's maximum context length is 16384 tokens. However, you requested about 94307 tokens (94307 of text "
    "input). Please reduce the length of either one"
)
LM_STUDIO = (
    "Trying to keep the first 10136 tokens when context the overflows. However, the model is loaded with context "
    "length of only 7866 tokens, which is not enough."
)
OPENAI = (
    "This model's maximum context length is 8192 tokens. However, you requested 8256 tokens (64 in the messages, 8192 "
    "in the completion). Please reduce the length of the messages or completion."
)
TGI = "`inputs` tokens + `max_new_tokens` must be <= 2048. Given: 1244 `inputs` tokens and 1000 `max_new_tokens`"
REPORTED = [
    (400, OPENAI, StatedLimit("context", 8192, 8256, 64)),
    (
        400,
        "This model's maximum context length is 4097 tokens. However, your messages resulted in 35569 tokens.",
        StatedLimit("context", 4097, 35569),
    ),
    (
        400,
        "This model's maximum context length is 4097 tokens, however you requested 6539 tokens (6283 in your prompt;",
        StatedLimit("context", 4097, 6539, 6283),
    ),
    (400, OPENROUTER, StatedLimit("context", 16384, 94307, 94307)),
    (400, VLLM, StatedLimit("context", 128000, None, 62466)),
    (
        400,
        "is too large. This model's maximum context length is 64001 tokens and your request has 24235 input tokens",
        StatedLimit("context", 64001, None, 24235),
    ),
    (
        400,
        "Input length (11680) exceeds model's maximum context length (4096).",
        StatedLimit("context", 4096, 11680),
    ),
    (
        400,
        "Request 182387 input tokens exceeds the model's maximum context length 131072",
        StatedLimit("context", 131072, 182387),
    ),
    (
        400,
        "The parameter `max_tokens` specified in the request is not valid: expected a value <= 32768, but got 65536.",
        StatedLimit("output", 32768),
    ),
    (
        400,
        "The decoder prompt (length 60025) is longer than the maximum model length of 32768.",
        StatedLimit("context", 32768, 60025),
    ),
    (400, SGLANG, StatedLimit("context", 202752, 202941, 170941)),
    (
        400,
        r"The input (61709 tokens) is longer than the model\'s context length (40960 tokens).",
        StatedLimit("context", 40960, 61709),
    ),
    (400, "prompt is too long: 219898 tokens > 200000 maximum", StatedLimit("context", 200000, 219898)),
    (
        400,
        "input length and `max_tokens` exceed context limit: 178959 + 64000 > 200000, decrease input length",
        StatedLimit("context", 200000, None, 178959),
    ),
    (
        400,
        "The input token count (2845475) exceeds the maximum number of tokens allowed (1048576).",
        StatedLimit("context", 1048576, 2845475),
    ),
    (
        400,
        "This model's maximum prompt length is 131072 but the request contains 136973 tokens.",
        StatedLimit("context", 131072, 136973),
    ),
    (400, "prompt token count of 93854 exceeds the limit of 90000", StatedLimit("context", 90000, 93854)),
    (413, "Request body too large for gpt-4o model. Max size: 8000 tokens.", StatedLimit("context", 8000)),
    (
        400,
        "request (11025 tokens) exceeds the available context size (8192 tokens), try increasing it",
        StatedLimit("context", 8192, 11025),
    ),
    (500, "Requested tokens (2138) exceed context window of 2048", StatedLimit("context", 2048, 2138)),
    (None, LM_STUDIO, StatedLimit("context", 7866, 10136)),
    (
        400,
        "Invalid request: Your request exceeded model token limit: 262144 (requested: 269030)",
        StatedLimit("context", 262144, 269030),
    ),
    (400, "Your request exceeded model token limit: 8192", StatedLimit("context", 8192)),
    (
        400,
        "Please reduce the length of the messages or completion. Current length is 42328 while limit is 40000",
        StatedLimit("context", 40000, 42328),
    ),
    (
        400,
        "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 204800]",
        StatedLimit("context", 204800),
    ),
    (422, TGI, StatedLimit("context", 2048, None, 1244)),
    (422, "`inputs` must have less than 1024 tokens. Given: 1168", StatedLimit("context", 1024, 1168)),
    (
        400,
        "number of input tokens (204703) has exceeded max_prompt_tokens (202752) limit.",
        StatedLimit("context", 202752, 204703),
    ),
    (413, GROQ, StatedLimit("rate", 12000, 14137)),
    (
        429,
        "Request too large for gpt-4o on tokens per min (TPM): Limit 30,000, Requested 342,389. The input or output",
        StatedLimit("rate", 30000, 342389),
    ),
    (
        413,
        "Maximum request body size 1048576 exceeded, actual body size 1056562",
        StatedLimit("bytes", 1048576, 1056562),
    ),
    (400, "Request payload size exceeds the limit: 20971520 bytes.", StatedLimit("bytes", 20971520)),
    (
        400,
        "max_tokens is too large: 32000. This model supports at most 16384 completion tokens, whereas you provided",
        StatedLimit("output", 16384),
    ),
    (
        400,
        "max_tokens: 128000 > 64000, which is the maximum allowed number of output tokens for claude-x",
        StatedLimit("output", 64000, 128000),
    ),
    (400, "`max_tokens` must be less than or equal to `16384`, the maximum value", StatedLimit("output", 16384)),
    (
        400,
        "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]",
        StatedLimit("output", 8192),
    ),
    (400, "Range of max_tokens should be [1, 8192]", StatedLimit("output", 8192)),
    (
        400,
        "The maximum tokens you requested exceeds the model limit of 4096. Try again with a lower value",
        StatedLimit("output", 4096),
    ),
    (
        402,
        "This request requires more credits. You requested up to 65536 tokens, but can only afford 2000.",
        StatedLimit("output", 2000, 65536),
    ),
    (400, "At most 5 image(s) may be provided in one request.", StatedLimit("images", 5)),
    (400, "too many images and documents: 120 + 0 > 100", StatedLimit("images", 100)),
    (400, "Too much media: 0 document pages + 107 images > 100", StatedLimit("images", 100)),
    (
        400,
        "request contains 52 images, exceeding the maximum of 50 allowed per request",
        StatedLimit("images", 50, 52),
    ),
    (
        400,
        "Too many images in request: 11 images provided, but the model supports a maximum of 10 images.",
        StatedLimit("images", 10, 11),
    ),
    (400, "Too many images in request. Max is 10.", StatedLimit("images", 10)),
    (500, "too many images in the message, max allowed is 16", StatedLimit("images", 16)),
    (400, "Image count 5 exceeds limit 4 per request.", StatedLimit("images", 4, 5)),
    (
        400,
        "Invalid 'tools': array too long. Expected an array with maximum length 128, but got an array with length 217",
        StatedLimit("tools", 128),
    ),
    (400, "'tools' : maximum number of items is 128", StatedLimit("tools", 128)),
    (
        400,
        "tools[0].function_declarations: [FIELD_INVALID] At most 512 function declarations can be specified.",
        StatedLimit("tools", 512),
    ),
    (400, "You may not include more than 128 tools in your request.", StatedLimit("tools", 128)),
    (400, "number of tools exceeds 128", StatedLimit("tools", 128)),
]
"""The links are beside the patterns."""


@pytest.mark.parametrize(("status", "message", "limit"), REPORTED)
def test_limit_is_read(status: int | None, message: str, limit: StatedLimit) -> None:
    assert find_stated_limit(ProviderError(message, status)) == limit


def test_an_absurd_number_is_no_limit() -> None:
    assert find_stated_limit(ProviderError(f"at most {'9' * 5_000} function declarations", 400)) is None


def test_each_wording_has_a_report() -> None:
    unreported = {pattern.pattern for _, pattern in LIMIT_PATTERNS if not any(map(pattern.search, zip_messages()))}
    assert len(unreported) <= 1, unreported  # n_keep, as older versions of LM Studio have it


def zip_messages() -> list[str]:
    return [message for _, message, _ in REPORTED]


@pytest.mark.parametrize(("status", "message", "limit"), REPORTED)
def test_the_same_request_is_not_sent_again(status: int | None, message: str, limit: StatedLimit) -> None:
    error = classify_error(ProviderError(message, status, RetryAction.retry()))
    is_about_size = limit.kind in ("context", "rate", "bytes")
    assert error.retry_action == (RetryAction.SHORTER if is_about_size else RetryAction.NONE)
    assert is_message_refused(error) == (limit.kind in ("context", "bytes", "images"))
    assert error.hint
    assert find_rejected_tool(error, [ToolSpec("bash", "", {})]) == ""


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (
            429,
            "Rate limit reached on tokens per minute (TPM): Limit 6000, Used 5034, Requested 1443. Try again.",
        ),
        (429, "You exceeded your current quota, please check your plan and billing details."),
        (400, "temperature must be less than or equal to 2"),
        (400, "max_tokens must be at least 1"),
        (400, "messages.3.content.0.image: image exceeds 5 MB maximum: 5316852 bytes > 5242880 bytes"),
        (400, "Invalid 'messages': array too short. Expected an array with minimum length 1"),
        (400, "Invalid 'stop': array too long. Expected an array with maximum length 4, but got length 5 instead."),
        (500, "the model needs 12 GB of memory, the limit is 8 GB"),
        (400, "context_length_exceeded"),
        (400, "At most 4 stop sequences can be specified."),
    ],
)
def test_other_refusals_state_no_limit(status: int, message: str) -> None:
    assert find_stated_limit(ProviderError(message, status)) is None


def test_other_errors_state_no_limit() -> None:
    assert find_stated_limit(NetworkError("prompt is too long: 219898 tokens > 200000 maximum")) is None
