"""DeepSeek. https://api-docs.deepseek.com

Its models reason by default. In a conversation with tools, every assistant message must have reasoning, even if it is
empty; in any other conversation it is ignored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ask import ChatCompletions, ChatRequest, Message, ModelResponse, ProviderError, RetryAction
from ask.parsing import CallIdMap, read_first_choice
from ask.profiles import ModelProfile

IMAGE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
THINKING_PAGE = "https://api-docs.deepseek.com/guides/thinking_mode"
VISION_PAGE = "https://api-docs.deepseek.com/guides/vision"
PROFILES = (
    ModelProfile(
        "deepseek-v{4+}*|deepseek-flash*|deepseek-pro*",
        THINKING_PAGE,
        ("none", "low", "high", "max"),
        {"none": {"thinking": {"type": "disabled"}}},
        default_effort="high",
        output_limit=384_000,
        context_length=1_000_000,
    ),
    ModelProfile("*flash*", VISION_PAGE, attachments=IMAGE_TYPES),
    ModelProfile("*", VISION_PAGE, attachments=()),
)


class DeepSeek(ChatCompletions):
    """DeepSeek, with its reasoning, JSON mode and cache statistics."""

    profiles = PROFILES
    state_fields = ("reasoning_content",)
    error_rules = (("^402 ", None, "top up at https://platform.deepseek.com/top_up"),)

    def build_body(self, request: ChatRequest) -> dict[str, Any]:
        return super().build_body(request._replace(messages=self.separate_call_ids(request.messages)))

    def separate_call_ids(self, messages: Sequence[Message]) -> list[Message]:
        """Give each call an id of its own, because the API refuses repeated ones, as other services return them.

        https://github.com/craft-ai-agents/craft-agents-oss/issues/630
        """
        ids = CallIdMap(self.format_call_id)
        separated = []
        for message in messages:
            calls = tuple(call._replace(id=ids.assign_id(call.id)) for call in message.tool_calls)
            result = message.formatted_result
            if result is not None:
                result = {**result, "tool_call_id": ids.get_id(message.tool_call_id)}
            separated.append(message._replace(tool_calls=calls, formatted_result=result))
        return separated

    def format_schema(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        """Request JSON mode, because the API refuses schemas.

        JSON mode requires that a message mentions JSON; the system prompt does.
        """
        return {"type": "json_object"}

    def format_message(self, message: Message, model: str) -> dict[str, Any]:
        """Add empty reasoning to assistant messages of other providers.

        The API refuses conversations in which some have it and some do not:
        https://api-docs.deepseek.com/guides/thinking_mode#tool-calls
        """
        formatted = super().format_message(message, model)
        if message.role == "assistant":
            formatted.setdefault("reasoning_content", "")
        return formatted

    def find_response_error(self, response: Mapping[str, Any], answer: ModelResponse) -> ProviderError | None:
        if read_first_choice(response).get("finish_reason") == "insufficient_system_resource":
            return ProviderError(
                "the service ran out of resources in the middle of the answer", None, RetryAction.retry()
            )
        return super().find_response_error(response, answer)


provider = DeepSeek(
    name="deepseek",
    title="DeepSeek",
    base_url="https://api.deepseek.com",
    key_env="DEEPSEEK_API_KEY",
    default_model="deepseek-flash",
)
