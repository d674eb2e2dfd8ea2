"""Changes to requests: parts that ask adds by itself and a service refuses, although it would answer without them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from ask.attachments import move_result_files
from ask.client.error_classification import is_option_named
from ask.errors import ProviderError, RetryAction
from ask.messages import Message, merge_user_messages
from ask.plugin_api.types import ChatRequest
from ask.records import NamedTuple

Body = Mapping[str, Any]
NO_ANSWER = "(no answer)"


def _keep_request(request: ChatRequest) -> ChatRequest:
    return request


def _keep_body(body: Body) -> Body:
    return body


class RequestChange(NamedTuple):
    """A part of a request that may be refused, and what to send in its place.

    Attributes:
        description: what the notice says about the next request.
        subject: what it changes. Only one change of it is made: another one would undo it.
        pattern: how services word the refusal; the parameter that it names comes first.
        change_request: returns the changed request.
        change_body: returns the changed JSON body of the request.
    """

    description: str
    subject: str
    pattern: str
    change_request: Callable[[ChatRequest], ChatRequest] = _keep_request
    change_body: Callable[[Body], Body] = _keep_body


def _fold_system_prompt(request: ChatRequest) -> ChatRequest:
    """Send the system prompt at the beginning of the first user message, and let the roles alternate."""
    if all(message.role != "system" for message in request.messages):
        return request
    prompts = [message._replace(role="user") for message in request.messages if message.role == "system"]
    others = [message for message in request.messages if message.role != "system"]
    return request._replace(messages=merge_user_messages([*prompts, *others]))


def _separate_results(request: ChatRequest) -> ChatRequest:
    """Add an answer between tool results and the next question, if the run before it ended without one."""
    messages: list[Message] = []
    for message in request.messages:
        if message.role == "user" and messages and messages[-1].role == "tool":
            messages.append(Message("assistant", NO_ANSWER))
        messages.append(message)
    return request if len(messages) == len(request.messages) else request._replace(messages=messages)


def _drop_uncallable_tools(request: ChatRequest) -> ChatRequest:
    """Drop the tools if none may be called, because nothing else would prevent a call."""
    return request._replace(tools=()) if request.tool_choice == "none" else request


def _move_result_files(request: ChatRequest) -> ChatRequest:
    """Send the files in tool results in a message after these results."""
    if not any(message.role == "tool" and message.attachments for message in request.messages):
        return request
    return request._replace(messages=move_result_files(request.messages))


def _fill_empty_content(body: Body) -> Body:
    """Replace null by empty text in messages that consist of tool calls."""
    messages = body.get("messages")
    if not isinstance(messages, list):
        return body
    filled = [message | {"content": ""} if message.get("content", "") is None else message for message in messages]
    return {**body, "messages": filled}


def _drop_field(dropped_name: str) -> Callable[[Body], Body]:
    """Return a function that drops a field of a body."""
    return lambda body: {name: value for name, value in body.items() if name != dropped_name}


def _rename_field(old_name: str, new_name: str) -> Callable[[Body], Body]:
    """Return a function that renames a field of a body."""
    return lambda body: {new_name if name == old_name else name: value for name, value in body.items()}


def _drop_cache_markers(value: Any) -> Any:
    """Return a body without Anthropic's cache markers."""
    if isinstance(value, Mapping):
        return {name: _drop_cache_markers(item) for name, item in value.items() if name != "cache_control"}
    return list(map(_drop_cache_markers, value)) if isinstance(value, list) else value


NOT_SUPPORTED = r"(?:not (?:\w+ ){0,2}(?:supported|enabled|allowed|permitted|available)|unsupported)"
OPTIONAL_FIELDS = ("stream_options", "prompt_cache_key", "session_id", "store", "include", "tool_choice")
"""Fields that ask adds to bodies and that an answer does not need.

https://github.com/anomalyco/opencode/issues/4698
"""
ENCRYPTED_REFUSED_PATTERN = re.compile(rf"encrypted[ _](?:content|reasoning)\b.*{NOT_SUPPORTED}", re.IGNORECASE)
"""Refusals of `include` by a model that does not reason: https://github.com/NousResearch/hermes-agent/pull/24234"""

CHANGES = (
    # Alibaba: https://github.com/infiniflow/ragflow/issues/5912, https://github.com/codexu/note-gen/issues/319
    RequestChange(
        "with streaming",
        "stream",
        r"only supports? stream|for non-streaming calls|support(?:ed)? when .?stream=false"
        r"|stream must be (?:set to )?true|stream(?:ing)? (?:mode )?is required",
        lambda request: request._replace(stream=True),
    ),
    # https://github.com/charmbracelet/crush/issues/422
    RequestChange(
        "without streaming",
        "stream",
        r"verified to stream|'stream' does not support true|(?:not|n't) support (?:tool use in )?stream"
        r"|unsupported for stream"
        rf"|\bstream(?:ing)?\b[^.]* {NOT_SUPPORTED}",
        lambda request: request._replace(stream=False),
    ),
    RequestChange(
        "without a summary of the reasoning",
        "summary",
        rf"verified to generate reasoning summar|reasoning\.summary\b.*{NOT_SUPPORTED}",
        lambda request: request._replace(show_reasoning=False),
    ),
    # Mistral, and servers with the chat templates of its models: https://github.com/aaif-goose/goose/issues/5998,
    # https://github.com/mistralai/mistral-vibe/issues/578
    RequestChange(
        "with an answer between the tool results and the question",
        "order of roles",
        r"role .?user.? after role .?tool|roles must alternate",
        _separate_results,
    ),
    RequestChange(
        "with the system prompt in the first message",
        "system prompt",
        rf"\b(?:system|developer) (?:role|message|prompt|instruction)s?\b[^.]* {NOT_SUPPORTED}"
        r"|(?:not|n't) support ['\"]?(?:system|developer)\b|invalid message role: (?:system|developer)"
        r"|\brole\b.{0,60}(?:should be|enum value set:) \[?['\"]?user['\"]?(?:,| or) ['\"]?assistant\b"
        r"(?!.{0,9}\bsystem\b)"
        r"|roles must alternate|only user(?:,| and) assistant",
        _fold_system_prompt,
    ),
    # https://github.com/anomalyco/opencode/issues/37964
    RequestChange(
        "with max_completion_tokens in place of max_tokens",
        "max_tokens",
        r"use .?max_completion_tokens",
        change_body=_rename_field("max_tokens", "max_completion_tokens"),
    ),
    RequestChange(
        "with max_tokens in place of max_completion_tokens",
        "max_tokens",
        rf"\bmax_completion_tokens\b.*{NOT_SUPPORTED}|(?:{NOT_SUPPORTED}|unrecognized|unknown|extra).*\bmax_completion_tokens\b"
        r"|^max_completion_tokens: extra",
        change_body=_rename_field("max_completion_tokens", "max_tokens"),
    ),
    RequestChange(
        "with empty text in place of null",
        "content",
        r"\bcontent\b.*\b(?:null|none|nil)\b|\b(?:null|none|nil)\b.*\bcontent\b"
        r"|\bcontent\b.{0,30}\b(?:must|should) be a (?:valid )?string|'null' not in 'string'",
        change_body=_fill_empty_content,
    ),
    RequestChange("without cache markers", "cache_control", r"\bcache_control\b", change_body=_drop_cache_markers),
    # At another base URL: https://github.com/lmstudio-ai/lmstudio-bug-tracker/issues/2248,
    # https://github.com/openclaw/openclaw/issues/57981
    RequestChange(
        "with the files of tool results after the results",
        "files of tool results",
        r"invalid type for 'input'|did not match any variant|cannot unmarshal|valid string|\boutput\b.*\bstring\b"
        r"|function_?call_?output|multi-?modal|function_?response",
        _move_result_files,
    ),
)
CHANGE_STATUSES = (400, 404, 422, 500)
"""llama-server and others answer 500 if a chat template refuses the roles."""


def find_change(
    error: ProviderError, request: ChatRequest, body: Body, made_changes: Collection[RequestChange]
) -> RequestChange | None:
    """Return the change that removes what a service has refused; None if there is none besides `made_changes`.

    What the user has set with an option is never removed, only renamed.
    """
    if error.status not in CHANGE_STATUSES:
        return None
    is_refusal = error.retry_action == RetryAction.NONE or error.status == 500
    # Cohere has "tool choice", gateways to Gemini "streamOptions".
    message = re.sub(r"\b(tool|stream) ?(choice|options)\b", r"\1_\2", error.message, flags=re.IGNORECASE)
    for name in OPTIONAL_FIELDS:
        is_added = name in body and name not in request.options
        is_named = is_refusal and (error.parameter == name or is_option_named(name, message))
        if is_added and (is_named or (name == "include" and ENCRYPTED_REFUSED_PATTERN.search(error.message))):
            change_request = _drop_uncallable_tools if name == "tool_choice" else _keep_request
            return RequestChange(f"without {name}", name, "", change_request, _drop_field(name))
    if not is_refusal:
        return None
    text = ": ".join(filter(None, (error.parameter, error.message)))
    subjects = {change.subject for change in made_changes}
    matching = (
        change
        for change in CHANGES
        if change.subject not in subjects and re.search(change.pattern, text, re.IGNORECASE | re.DOTALL)
    )
    return next(
        (
            change
            for change in matching
            if change.change_request(request) != request or change.change_body(body) != body
        ),
        None,
    )
