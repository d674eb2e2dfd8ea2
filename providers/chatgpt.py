"""The models of a ChatGPT plan, for which the user's Plus or Pro plan pays. The user signs in (`ask login chatgpt`).

https://developers.openai.com/siwc/token-sharing-open-source; `ask/config/sign_in_services.py` lists what could be read
there, and where the other facts are from. The API is OpenAI's Responses API with restrictions: always a stream, no
system messages, no sampling parameters or token limits, and functions only in a namespace.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ask import ChatCompletions, ChatRequest, Message, ModelInfo, ProviderError, Responses, RetryAction, ToolSpec, Usage
from ask.parsing import CallIdMap, read_dict, read_int, read_list, read_str
from ask.profiles import TOKEN_LIMIT_OPTIONS, ModelProfile

from .openai import IMAGE_TYPES
from .openai import PROFILES as OPENAI_PROFILES

LIMITS_PAGE = "https://developers.openai.com/siwc/token-sharing-open-source/preview-limitations"
USAGE_PAGE = "https://chatgpt.com/settings/usage"
NAMESPACE = "ask"
"""The namespace of all tools."""
REFUSED_OPTIONS = (
    *TOKEN_LIMIT_OPTIONS,
    *("temperature", "top_p", "top_logprobs", "metadata", "prompt", "prompt_cache_retention", "safety_identifier"),
    *("background", "conversation", "max_tool_calls", "moderation", "multi_agent", "truncation", "user"),
    "previous_response_id",
)
SIGN_IN_HINT = "run `ask login chatgpt` again, and allow ask to use your plan"
OTHER_ACCOUNT_HINT = "use an account with Plus or Pro (`ask login chatgpt --account NAME`), or another provider (-p)"
ERRORS: Mapping[str, tuple[int, str, RetryAction, str]] = {
    "subscription_sharing_usage_limit_exceeded": (
        429,
        "the usage limit of your ChatGPT plan, or your limit for ask, is reached",
        RetryAction.NONE,
        f"see {USAGE_PAGE}, or use another provider (-p)",
    ),
    "subscription_sharing_user_not_eligible": (
        403,
        "this ChatGPT account or workspace cannot share its plan",
        RetryAction.NONE,
        OTHER_ACCOUNT_HINT,
    ),
    "subscription_sharing_usage_unavailable": (
        503,
        "ChatGPT cannot check the usage of your plan now",
        RetryAction.retry(),
        "",
    ),
    "subscription_sharing_user_unavailable": (
        503,
        "ChatGPT cannot check your account now",
        RetryAction.retry(),
        "",
    ),
    "subscription_sharing_unsupported_capability": (
        400,
        "ChatGPT plans do not support this request",
        RetryAction.NONE,
        "",
    ),
    "subscription_sharing_route_not_supported": (
        403,
        "ChatGPT plans do not support this endpoint",
        RetryAction.NONE,
        "check CHATGPT_BASE_URL",
    ),
    "subscription_sharing_invalid_user": (
        401,
        "ChatGPT does not accept the sign-in",
        RetryAction.NONE,
        SIGN_IN_HINT,
    ),
    "chatpass_v2_scope_not_authorized": (
        403,
        "the sign-in does not allow ask to use your ChatGPT plan",
        RetryAction.NONE,
        SIGN_IN_HINT,
    ),
    "chatpass_v2_invalid_authorization_context": (
        403,
        "the sign-in does not allow ask to use your ChatGPT plan",
        RetryAction.NONE,
        SIGN_IN_HINT,
    ),
}
"""The plan's own errors by their codes: the status, what happened, what ask does, and what the user can do.

In a stream, the status is that of a success. https://developers.openai.com/siwc/token-sharing-open-source/errors-and-recovery
"""


class ChatGPTChat(ChatCompletions):
    """The parts that all of OpenAI's services share; the service itself has no Chat Completions."""

    profiles = (
        ModelProfile("*", LIMITS_PAGE, refused_options=REFUSED_OPTIONS, attachments=(*IMAGE_TYPES, "application/pdf")),
        *OPENAI_PROFILES,
    )

    def provider_parse_models(self, body: Any) -> list[ModelInfo]:
        models = map(read_dict, read_list(read_dict(body).get("models")))
        return [
            ModelInfo(
                read_str(model.get("slug")),
                read_str(model.get("display_name")),
                context_length=read_int(model.get("context_window")),  # not documented
            )
            for model in models
            if model.get("visibility") == "list" and read_str(model.get("slug"))
        ]


class ChatGPT(Responses):
    """A ChatGPT plan on the Responses API."""

    openai_api = ""  # type: ignore[assignment] # there is no Chat Completions to change to

    def build_body(self, request: ChatRequest) -> dict[str, Any]:
        return super().build_body(request) | {"stream": True}

    def format_message(self, message: Message) -> dict[str, Any]:
        """Send system messages as developer messages, because the service refuses the role `system`."""
        item = super().format_message(message)
        return item | {"role": "developer"} if message.role == "system" else item

    def format_assistant_items(self, message: Message, model: str, call_ids: CallIdMap) -> list[dict[str, Any]]:
        """Name the namespace of calls that were made at another service."""
        items = super().format_assistant_items(message, model, call_ids)
        return [{"namespace": NAMESPACE} | item if item.get("type") == "function_call" else item for item in items]

    def provider_supports_tools(self, model: str) -> bool:
        return True

    def provider_supports_result_attachment(self, model: str, media_type: str) -> bool:
        return True

    def provider_format_tools(self, tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
        functions = super().provider_format_tools(tools)
        return [{"type": "namespace", "name": NAMESPACE, "description": "The tools of ask.", "tools": functions}]

    def parse_usage(self, usage: Mapping[str, Any]) -> Usage:
        """Report no cost: the plan pays."""
        return super().parse_usage(usage)._replace(cost=0.0 if usage else None)

    def provider_parse_error(self, status: int, headers: Mapping[str, str], body: str) -> ProviderError:
        error = super().provider_parse_error(status, headers, body)
        code = next((code for code in ERRORS if code in body), "")
        if code:
            error.status, sentence, error.retry_action, hint = ERRORS[code]
            reason = "" if code in error.message else error.message
            error.message = ": ".join(filter(None, (sentence, reason)))
            error.hint = hint or error.hint
        # The tools are in a namespace: `tools[0].tools[3]` is the fourth one.
        error.message = re.sub(r"\btools\[0\]\.(?=tools\[)", "", error.message)
        error.parameter = error.parameter and re.sub(r"^tools\[0\]\.(?=tools\[)", "", error.parameter)
        return error


provider = ChatGPT(
    ChatGPTChat(
        name="chatgpt",
        title="ChatGPT plan",
        base_url="https://api.openai.com/v1",
        reports_cost=True,
    )
)
