"""Rules that classify the errors of all services, such as an empty account and a model that is still loading."""

from __future__ import annotations

from ask.errors import RetryAction

LOADING_DELAY_SECONDS = 10.0
"""Seconds until the next try while a server loads a model, which takes much longer than an overload."""
OUT_OF_CREDIT_PATTERN = (
    "insufficient.?(?:quota|balance|credit)|balance is insufficient|please recharge|in good standing"
    "|billing.?(?:hard.?)?limit|free tier of the model has been exhausted|budget(?: has been |_)exceeded"
    "|exceeded ?budget|余额不足|已欠费"
)
USED_UP_STATUSES = (200, 403, 429)
USED_UP_PATTERN = (
    r"(?i)(?:reached|hit) your [\w() -]{0,30}usage limit|usage limit (?:has been )?reached|UsageLimitError"
    "|(?:weekly|monthly) limit exhausted|used up your daily|使用上限"
)
"""The limit of a plan or of free use for hours, days or a month is reached, so trying again does not help.

Ollama: https://github.com/NousResearch/hermes-agent/pull/68832; Z.ai, also in Chinese:
https://github.com/hugalafutro/model-hotel/pull/955, https://github.com/dirge-code/dirge/issues/818; Kimi, with status
403: https://github.com/openclaw/openclaw/pull/142656; OpenCode Zen: https://github.com/anomalyco/opencode/issues/42977;
Cloudflare: https://github.com/diegosouzapw/OmniRoute/issues/6980
"""
COMMON_ERROR_RULES: tuple[tuple[str, RetryAction, str], ...] = (
    # llama-server: https://github.com/mostlygeek/llama-swap/issues/146
    (
        "^503 .*(?i:loading model|model .{0,100}is (?:currently |still )?loading)",
        RetryAction.retry(LOADING_DELAY_SECONDS),
        "",
    ),
    # Whatever the message says: https://openrouter.ai/docs/client-sdks/python/components/apierrortype.md
    (
        r'"(?:code|type|error_type)":\s*"context_length_exceeded"',
        RetryAction.SHORTER,
        "send less, or use a model with a larger context window",
    ),
    # The model wrote a call or a header that its server cannot parse; the next one is usually valid. Groq:
    # https://github.com/pydantic/pydantic-ai/issues/2759, https://github.com/anomalyco/opencode/issues/1018; gpt-oss:
    # https://github.com/vllm-project/vllm/issues/23567, https://github.com/tenstorrent/vllm/issues/386
    (
        '"tool_use_failed"|HarmonyError|(?i:unexpected tokens? .{0,40}(?:start token|message header))',
        RetryAction.retry(),
        "",
    ),
    # Groq, after an answer that does not match; llama-server: https://github.com/ggml-org/llama.cpp/pull/17572
    ('"json_validate_failed"|^500 JSON schema conversion failed', RetryAction.WITHOUT_SCHEMA, ""),
    # Services use any status for this: 429 (https://github.com/openai/codex/pull/6340), 500 or 200 (MiniMax:
    # https://github.com/MiniMax-AI/MiniMax-M2/issues/62), 401 (https://github.com/TiaraBasori/OpenCode2API/issues/5),
    # 400 (Alibaba: https://github.com/infiniflow/ragflow/issues/1552, and if only its free use is allowed:
    # https://github.com/666ghj/BettaFish/issues/609; LiteLLM: https://github.com/BerriAI/litellm/issues/14144). A 422
    # may quote the prompt.
    (
        f"^(?!402|422).*(?i:{OUT_OF_CREDIT_PATTERN})",
        RetryAction.NEXT_KEY,
        "add credit to the account, or use another key or service",
    ),
)
"""Rules for all services, after those of the provider."""
