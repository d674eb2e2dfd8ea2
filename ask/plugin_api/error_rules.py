"""Rules that classify the errors of all services, such as an empty account and a model that is still loading."""

from __future__ import annotations

from ask.errors import RetryAction

LOADING_DELAY_SECONDS = 10.0
"""Seconds until the next try while a server loads a model, which takes much longer than an overload."""
COMMON_ERROR_RULES: tuple[tuple[str, RetryAction, str], ...] = (
    # Other services than OpenAI also use 429 for this: https://github.com/openai/codex/pull/6340. MiniMax uses 500:
    # https://github.com/MiniMax-AI/MiniMax-M2/issues/62
    (
        "^(?:429|500) .*(?i:insufficient.?(?:quota|balance|credit)|余额不足|billing.?(?:hard.?)?limit|please recharge)",
        RetryAction.NEXT_KEY,
        "add credit to the account, or use another key or service",
    ),
    # llama-server: https://github.com/mostlygeek/llama-swap/issues/146
    (
        "^503 .*(?i:loading model|model .{0,100}is (?:currently |still )?loading)",
        RetryAction.retry(LOADING_DELAY_SECONDS),
        "",
    ),
)
"""Rules for all services, after those of the provider."""
