"""Anthropic's Messages API. https://platform.claude.com/docs/en/api/messages

A message is a list of blocks, and consecutive messages of one role are merged. Tool results go in the next user
message, the cache is marked explicitly, and thinking is sent back to the model that wrote it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from io import StringIO
from typing import Any

from ask import (
    Attachment,
    BatchApi,
    ChatRequest,
    FinishReason,
    HttpRequest,
    Message,
    ModelInfo,
    ModelResponse,
    Provider,
    ProviderError,
    ProviderInfo,
    ProviderState,
    ReasoningDelta,
    RetryAction,
    ServerToolDelta,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    ToolSpec,
    Usage,
)
from ask.parsing import (
    FAST_TIER,
    ITEM_OVERHEAD_CHARACTERS,
    AnswerAccumulator,
    CallIdMap,
    decode_arguments,
    find_error,
    format_unknown_reason,
    merge_fields,
    merge_usage,
    parse_json,
    read_date,
    read_dict,
    read_int,
    read_list,
    read_service_tier,
    read_str,
    read_tool_calls,
)
from ask.profiles import EFFORTS

from .anthropic_models import OFF, PDF_TYPE, PROFILES, must_not_think
from .anthropic_server_tools import (
    FALLBACK,
    INPUT_FIELD,
    PAUSED,
    ParagraphSeparator,
    PartialBlock,
    assemble_block,
    clean_block,
    extend_block,
    format_server_tools,
    is_server_result,
    join_text,
    make_server_call,
    read_citations,
    read_server_calls,
    remove_unpaired_blocks,
    select_calls,
    select_server_tools,
)

API_VERSION = "2023-06-01"
"""Later versions refuse `temperature`, `top_p` and `top_k` for all models; this one only for models without them."""
MAX_TOKENS = 32_000
"""The limit, which includes thinking, for models whose own is unknown; the API requires one."""
DEFAULT_THINKING_VERSION = (5, 0)
"""The first version that thinks unless the request says otherwise."""
OMITTED_THINKING_VERSION = (4, 7)
"""The first version that returns its thinking only if the request says so.

https://platform.claude.com/docs/en/build-with-claude/thinking#controlling-thinking-display
"""
BOUND_THINKING_VERSION = (5, 1)
"""The first version that reads thinking only after exactly the same system prompt, tools and messages.

https://platform.claude.com/docs/en/build-with-claude/preserved-thinking
"""
BINDING_BETA = "thinking-binding-controls-2026-08-01"
FINISH_REASONS = {
    "tool_use": FinishReason.TOOL_CALLS,
    "max_tokens": FinishReason.LENGTH,
    "model_context_window_exceeded": FinishReason.LENGTH,
    "refusal": FinishReason.CONTENT_FILTER,
    **dict.fromkeys((PAUSED, "compaction"), FinishReason.CONTINUE),
}
"""Stop reasons with a special meaning; any other is a normal stop."""
ERROR_STATUSES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""HTTP status by error type: an error inside a stream has no status."""
ADD_CREDITS_HINT = "add credits or raise the limit at https://platform.claude.com/settings/billing"
SIZE_RULE: tuple[str, RetryAction | None, str] = (
    "^413 |prompt is too long",
    None,
    "send less, or start a new conversation",
)
OPTION_NAMES = {"stop_sequences": "stop", "output_config": "reasoning_effort"}
"""Option names by the API parameter that they become, to explain errors about that parameter."""
THINKING_REFUSED_PATTERN = re.compile(r"effort (?:level|parameter)|adaptive thinking|^(?!messages).*\bthinking\.\w+")
CACHE_MARKER = {"type": "ephemeral"}
THINKING_FIELDS = {"thinking": "signature", "redacted_thinking": "data"}
"""Types of thinking blocks, with the field that authenticates each."""
REQUIRED_FIELDS = {**THINKING_FIELDS, "text": "text"}
"""Block types that the API refuses if this field is blank."""
INVALID_CHARACTERS = re.compile(r"[^a-zA-Z0-9_-]")
"""Characters that are not allowed in call ids and tool names."""
MAX_TOOL_NAME_CHARACTERS = 128
MAX_TITLE_CHARACTERS = 200


class Anthropic(Provider):
    """Anthropic's Messages API."""

    profiles = PROFILES
    key_header = "x-api-key"
    has_batches = True
    """Whether the service has the API for batches."""
    caches_all_models = False
    """Whether a service that is not Anthropic's caches the prefix up to a marker for other models than Claude, too."""
    requires_signatures = True
    """Whether the service refuses thinking without a signature. Others want all of their models' thinking back.

    https://github.com/NousResearch/hermes-agent/issues/75725
    """
    common_error_rules = (SIZE_RULE,)
    """The rules that also apply to other services with this API."""
    error_rules = (
        (r'"error_code":\s*"\w*(?:spend_limit_reached|billing_unavailable)"', RetryAction.NEXT_KEY, ADD_CREDITS_HINT),
        ("^402 |credit balance is too low|specified (workspace )?API usage", RetryAction.NEXT_KEY, ADD_CREDITS_HINT),
        *common_error_rules,
    )

    # Requests

    def build_headers(self, key: str) -> dict[str, str]:
        """Build the headers of every request: the version, and the key if there is one."""
        return {"anthropic-version": API_VERSION} | self.build_key_header(key)

    def provider_build_request(self, request: ChatRequest, key: str) -> HttpRequest:
        body = self.build_body(request)
        headers = self.build_headers(key)
        if "block_binding" in read_dict(body.get("thinking")):
            headers["anthropic-beta"] = BINDING_BETA
        # The user's betas are added: https://github.com/vercel/ai/issues/10018
        return HttpRequest("/v1/messages", body, headers, list_headers=("anthropic-beta",))

    def build_body(self, request: ChatRequest) -> dict[str, Any]:
        body: dict[str, Any] = {"model": request.model, "max_tokens": request.profile.output_limit or MAX_TOKENS}
        system = [message.content for message in request.messages if message.role == "system"]
        if blocks := format_text_blocks(*system):
            body["system"] = blocks
        body["messages"] = self.format_messages(request)
        body |= self.build_tool_parameters(request)
        if container := self.find_container(request):
            body["container"] = container
        if request.stream:
            body["stream"] = True
        if request.is_own_url or is_claude(request.model) or self.caches_all_models:
            add_cache_markers(body)
        body |= to_api_parameters(request.options)
        if thinking := build_thinking(request):
            body["thinking"] = OFF["thinking"] if must_not_think(thinking, body["messages"]) else thinking
        if request.schema is not None:
            from .anthropic_schema import to_anthropic_schema

            if schema := to_anthropic_schema(request.schema):
                output_format = {"type": "json_schema", "schema": schema}
                body["output_config"] = read_dict(body.get("output_config")) | {"format": output_format}
        return body

    def build_tool_parameters(self, request: ChatRequest) -> dict[str, Any]:
        """Build `tools` and `tool_choice`.

        If the history contains calls, the API requires tool definitions even if no tool may be called.
        """
        called_names = dict.fromkeys(
            sanitize_tool_name(call.name) for message in request.messages for call in message.tool_calls
        )
        server_tools = format_server_tools(request)
        if request.tools or (server_tools and not called_names):
            return {"tools": [*server_tools, *request.tools], "tool_choice": {"type": request.tool_choice}}
        if not called_names:
            return {}
        former_tools = [
            {"name": name, "description": "Retired.", "input_schema": {"type": "object", "properties": {}}}
            for name in called_names
        ]
        return {
            "tools": [*server_tools, *former_tools],
            "tool_choice": {"type": request.tool_choice if server_tools else "none"},
        }

    def find_container(self, request: ChatRequest) -> str:
        """Return the container in which the model's code waits for results of this turn; "" if there is none.

        https://github.com/anthropics/anthropic-sdk-typescript/issues/1114
        """
        for message in reversed(request.messages):
            if message.role == "user":
                break
            if container := read_str(self.find_provider_state(message, request.model).get("container")):
                return container
        return ""

    def provider_server_tools(self, model: str) -> dict[str, dict[str, Any]]:
        return select_server_tools(parse_claude_version(model))

    def provider_format_tools(self, tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
        return [
            {"name": tool.name, "description": tool.description, "input_schema": dict(tool.parameters)}
            | ({"defer_loading": True} if tool.is_deferred else {})
            for tool in map(Provider.normalize_tool, tools)
        ]

    def format_messages(self, request: ChatRequest) -> list[dict[str, Any]]:
        """Format the conversation without the system message, merging consecutive messages of one role.

        Thinking is left out if it no longer follows the same messages, and before the last user message also if another
        family's model wrote it, if thinking is off, or if only the API itself could check what it follows.
        """
        is_thinking = build_thinking(request).get("type") not in ("disabled", "between_tools")
        is_thinking &= request.is_own_url or parse_claude_version(request.model) < BOUND_THINKING_VERSION
        last_user_index = max((i for i, message in enumerate(request.messages) if message.role == "user"), default=-1)
        ids = CallIdMap(sanitize_call_id)
        formatted: list[dict[str, Any]] = []
        for i, message in enumerate(request.messages):
            if message.role == "system":
                continue
            if message.role == "assistant":
                state = message.provider_state or ProviderState("", "", {})
                is_readable = is_thinking and is_claude(state.model) == is_claude(request.model)
                include_thinking = (i > last_user_index or is_readable) and not state.context_truncated
                content = self.format_assistant_blocks(message, request.model, ids, include_thinking=include_thinking)
            elif message.role == "tool":
                content = [format_result_block(message, ids)]
            else:
                files = [format_file_block(attachment) for attachment in message.attachments]
                content = files + format_text_blocks(message.content)
            role = "assistant" if message.role == "assistant" else "user"
            if content and formatted and formatted[-1]["role"] == role:
                formatted[-1]["content"] += content
            elif content:
                formatted.append({"role": role, "content": content})
        return remove_unpaired_blocks(formatted)

    def format_assistant_blocks(
        self, message: Message, model: str, call_ids: CallIdMap, *, include_thinking: bool
    ) -> list[dict[str, Any]]:
        """Format an assistant message.

        The model's own blocks are used if they match it, except for space at its end; if not, others are built from it.
        """
        calls = [
            {
                "type": "tool_use",
                "id": call_ids.assign_id(call.id),
                "name": sanitize_tool_name(call.name),
                "input": decode_arguments(call.arguments) or {},
            }
            for call in message.tool_calls
        ]
        blocks = read_blocks(self.find_provider_state(message, model))
        is_same_text = join_text(blocks).rstrip() == message.content.rstrip()
        if not is_same_text or list_call_ids(blocks) != [call.id for call in message.tool_calls]:
            return format_text_blocks(message.content) + calls
        remaining_calls = iter(calls)
        is_signed = self.requires_signatures or is_claude(model)
        sendable = [
            clean_block(block)
            for block in blocks
            if is_sendable_block(block, include_thinking=include_thinking, requires_signature=is_signed)
        ]
        return [block | next(remaining_calls) if block.get("type") == "tool_use" else block for block in sendable]

    def provider_supports_result_attachment(self, model: str, media_type: str) -> bool:
        return True

    def provider_format_tool_result(self, tool_call_id: str, tool_name: str, result: str) -> dict[str, Any]:
        block = {"type": "tool_result", "tool_use_id": tool_call_id}
        return block | {"content": result} if result.strip() else block

    # Answers

    def provider_stream_reader(self) -> AnthropicStreamReader:
        return AnthropicStreamReader()

    def provider_parse_response(self, response: Mapping[str, Any]) -> ModelResponse:
        blocks = read_blocks(response)
        finish = FINISH_REASONS.get(str(response.get("stop_reason")), FinishReason.STOP)
        answer = ModelResponse(
            text=join_text(blocks, is_paused=response.get("stop_reason") == PAUSED),
            reasoning="".join(read_str(block.get("thinking")) for block in blocks if block.get("type") == "thinking"),
            finish_reason=finish,
            usage=parse_usage(read_dict(response.get("usage"))),
            provider_state=self.build_provider_state(response, blocks, finish),
            finish_message=format_refusal_reason(response)
            or format_unknown_reason(response.get("stop_reason"), FINISH_REASONS),
            citations=read_citations(blocks),
            server_calls=read_server_calls(blocks),
        )
        error = find_error(response)
        return self.check_answer(answer, None if error is None else self.parse_embedded_error(error))

    def build_provider_state(
        self, response: Mapping[str, Any], blocks: list[dict[str, Any]], finish: FinishReason
    ) -> ProviderState | None:
        """Keep the content of a complete response with more than text and calls, and of any paused one.

        A past message must not end with thinking. The block after a model declined is refused without a beta header.
        """
        is_signed = self.requires_signatures
        sendable = [block for block in blocks if is_sendable_block(block, requires_signature=is_signed)]
        block_types = [read_str(block.get("type")) for block in sendable]
        has_other_blocks = (
            any(block_type not in ("text", "tool_use") for block_type in block_types)
            and block_types[-1] not in THINKING_FIELDS
            and FALLBACK not in block_types
        )
        is_complete = response.get("stop_reason") and finish in (FinishReason.STOP, FinishReason.TOOL_CALLS)
        if finish is FinishReason.CONTINUE or (is_complete and has_other_blocks):
            container = read_str(read_dict(response.get("container")).get("id"))
            data = {"content": blocks} | ({"container": container} if container else {})
            return ProviderState(self.info.name, read_str(response.get("model")), data)
        return None

    def provider_parse_tool_calls(self, response: Mapping[str, Any]) -> list[ToolCall]:
        blocks = select_calls(read_blocks(response))
        return read_tool_calls([{"id": b.get("id"), "function": b | {"arguments": b.get("input")}} for b in blocks])

    def provider_parse_error(self, status: int, headers: Mapping[str, str], body: str) -> ProviderError:
        error = read_dict(find_error(parse_json(body)))
        error_type = read_str(error.get("type"))
        code = ERROR_STATUSES.get(error_type) if status == 200 else status
        provider_error = super().provider_parse_error(code or 200, headers, body)
        message = provider_error.message
        # A message about a parameter begins with its path, as in "thinking.budget_tokens: ...".
        provider_error.parameter = OPTION_NAMES.get(message.partition(":")[0].partition(".")[0])
        if THINKING_REFUSED_PATTERN.search(message):
            provider_error.parameter = "thinking"
        if error_type == "not_found_error":
            provider_error.message = f"not found: {message}"
        return provider_error

    def provider_batch(self) -> BatchApi | None:
        if not self.has_batches:
            return None
        from .batch_apis import AnthropicBatchApi

        return AnthropicBatchApi(self.build_headers)

    # Models

    def provider_models_request(self, key: str) -> HttpRequest:
        return HttpRequest("/v1/models?limit=1000", None, self.build_headers(key), "GET")

    def provider_parse_models(self, body: Any) -> list[ModelInfo]:
        entries = [read_dict(entry) for entry in read_list(read_dict(body).get("data"))]
        return [
            ModelInfo(
                id=read_str(entry.get("id")),
                title=read_str(entry.get("display_name")),
                context_length=read_int(entry.get("max_input_tokens")),
                output_limit=read_int(entry.get("max_tokens")),
                efforts=read_efforts(read_dict(entry.get("capabilities"))),
                retirement_date=read_date(entry.get("retires_at")),
                deprecation_date=read_date(entry.get("deprecated_at")),
            )
            for entry in entries
            if read_str(entry.get("id")) and entry.get("lifecycle") != "retired"
        ]


# Streams

DELTA_FIELDS = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "signature",
    "input_json_delta": INPUT_FIELD,
}
"""Deltas with their field; apart from that of the input, it is also the field of their block."""
BLOCK_TYPES = {
    "text": ("text",),
    "thinking": ("thinking",),
    "signature": ("thinking",),
    INPUT_FIELD: ("tool_use", "server_tool_use", "mcp_tool_use"),
}
"""The types of the blocks that a delta's field belongs to, even if its own type is unknown; the first is assumed."""


class AnthropicStreamReader(AnswerAccumulator):
    """Assembles a stream into the message that the API returns without streaming."""

    def __init__(self) -> None:
        super().__init__()
        self._open_block: PartialBlock | None = None
        """The last block that was started, until it stops."""
        self._is_stopped = False
        """Whether nothing can follow: the reason for the end comes before the event that stops the message."""
        self._start_message({})

    def read_event(self, fields: dict[str, Any]) -> None:
        event_type = fields.get("type")
        if self._is_stopped or (self.complete and event_type == "message_start"):
            return
        if self.error or event_type == "message_stop":
            self.complete = self._is_stopped = True
        elif event_type == "message_start":
            self._start_message(read_dict(fields.get("message")))
        elif event_type == "content_block_start":
            self._start_block(read_dict(fields.get("content_block")), read_int(fields.get("index")))
        elif event_type == "content_block_stop":
            self._open_block = None
        elif event_type == "content_block_delta":
            self._read_delta(fields)
        elif event_type == "message_delta":
            self.size += len(str(fields))
            merge_fields(self._message_fields, fields.get("delta"))
            self.complete = self.complete or bool(self._message_fields.get("stop_reason"))
            merge_usage(self.usage, fields.get("usage"), is_final=True)
            if self._message_fields.get("stop_reason") == PAUSED:
                self._show("text", self._separator.add_text(""))

    def response(self) -> dict[str, Any]:
        content = [assemble_block(block, buffers) for block, buffers in self._blocks]
        error = {"error": self.error} if self.error else {}
        return self._message_fields | error | {"content": content, "usage": self.usage}

    def _start_message(self, message: dict[str, Any]) -> None:
        """Start a message, discarding an interrupted one: streams that begin again have been seen."""
        self._message_fields: dict[str, Any] = {}
        self.usage = {}
        merge_fields(self._message_fields, message, "error")
        # It also counts output tokens, but only those before the answer, mostly 1.
        usage = {name: count for name, count in read_dict(message.get("usage")).items() if name != "output_tokens"}
        merge_usage(self.usage, usage, is_final=False)
        self._blocks: list[PartialBlock] = []
        self._blocks_by_index: dict[int | None, PartialBlock] = {}
        """The last block with each index: https://github.com/anthropics/anthropic-sdk-typescript/issues/879"""
        self._open_block = None
        self._call_count = 0
        self._separator = ParagraphSeparator()

    def _start_block(self, block: dict[str, Any], index: int | None) -> None:
        if self._blocks_by_index.get(index) == (block, {}):  # the same event again
            return
        self._blocks.append((block, {}))
        self._open_block = self._blocks[-1]
        self._blocks_by_index[index] = self._open_block
        self.size += ITEM_OVERHEAD_CHARACTERS + len(str(block))
        self._separator.add_block(block)
        if block.get("type") == "tool_use":
            self._call_count += 1
            self._deltas.append(ToolCallDelta(self._call_count - 1, read_str(block.get("name")) or "unnamed"))
            return
        if is_server_result(block):
            call_id = block.get("tool_use_id")
            calls = [assemble_block(*each) for each in self._blocks if each[0].get("id") == call_id]
            self._deltas.append(ServerToolDelta(make_server_call(block, calls)))
        for name in ("thinking", "text"):
            if block.get("type", name) == name:
                self._show(name, read_str(block.get(name)))

    def _read_delta(self, fields: dict[str, Any]) -> None:
        delta = read_dict(fields.get("delta"))
        delta_type, index = read_str(delta.get("type")), read_int(fields.get("index"))
        block, _ = self._blocks_by_index.get(index, ({}, {}))
        if delta_type == "citations_delta":
            block["citations"] = [*read_list(block.get("citations")), delta.get("citation")]
            self.size += ITEM_OVERHEAD_CHARACTERS
            return
        names = (name for name, types in BLOCK_TYPES.items() if not delta_type or block.get("type") in (None, *types))
        name = DELTA_FIELDS.get(delta_type) or next((name for name in names if delta.get(name)), "")
        if not name:
            extend_block(block, delta)
        if not (text := read_str(delta.get(name))):
            return
        buffers = self._find_buffers(index, BLOCK_TYPES[name])
        self.size += buffers.setdefault(name, StringIO()).write(text)
        self._show(name, text)

    def _show(self, name: str, text: str) -> None:
        if name == "thinking" and text:
            self._deltas.append(ReasoningDelta(text))
        elif name == "text" and text:
            self._deltas.append(TextDelta(self._separator.add_text(text) + text))

    def _find_buffers(self, index: int | None, block_types: Sequence[str]) -> dict[str, StringIO]:
        """Return the buffers of the block that a delta belongs to.

        It is the block with this index or, if that has another type, the open one, or else a new one. Gateways number
        deltas wrongly, or never start a block: https://github.com/sgl-project/sglang/pull/24294
        """
        indexed = self._blocks_by_index.get(index)
        for block, buffers in filter(None, (indexed, self._open_block)):
            if block.setdefault("type", block_types[0]) in block_types:
                return buffers
        self._start_block({"type": block_types[0]}, index)
        if indexed:
            self._blocks_by_index[index] = indexed
        return self._blocks[-1][1]


# Content blocks


def format_text_blocks(*texts: str) -> list[dict[str, Any]]:
    """Format a block for each text, except blank ones, which the API refuses."""
    return [{"type": "text", "text": text} for text in texts if text.strip()]


def format_file_block(attachment: Attachment) -> dict[str, Any]:
    """Format an image or document. Files go before the text, as Anthropic recommends."""
    source = {"type": "base64", "media_type": attachment.media_type, "data": attachment.base64}
    if attachment.media_type != PDF_TYPE:
        return {"type": "image", "source": source}
    return {"type": "document", "source": source, "title": attachment.name[:MAX_TITLE_CHARACTERS] or "document"}


def format_result_block(message: Message, call_ids: CallIdMap) -> dict[str, Any]:
    """Format a tool result. With files, its content is a list of blocks."""
    block = {**(message.formatted_result or {}), "tool_use_id": call_ids.get_id(message.tool_call_id)}
    if message.attachments:
        text_blocks = format_text_blocks(read_str(block.get("content")))
        block["content"] = [*text_blocks, *map(format_file_block, message.attachments)]
    elif message.is_error and "content" in block:
        # Refused without text: https://github.com/UKGovernmentBEIS/inspect_ai/pull/169
        block["is_error"] = True
    return block


def read_blocks(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [block for block in read_list(message.get("content")) if isinstance(block, dict)]


def list_call_ids(blocks: Sequence[Mapping[str, Any]]) -> list[str]:
    return [read_str(block.get("id")) for block in blocks if block.get("type") == "tool_use"]


def format_refusal_reason(response: Mapping[str, Any]) -> str:
    """Return the policy category and explanation of a refusal; "" if the response is not one."""
    details = read_dict(response.get("stop_details"))
    if response.get("stop_reason") != "refusal":
        return ""
    return ": ".join(filter(None, (read_str(details.get("category")), read_str(details.get("explanation")))))


def is_sendable_block(
    block: Mapping[str, Any], *, include_thinking: bool = True, requires_signature: bool = True
) -> bool:
    """Check whether a block may be sent back.

    The API refuses blank text, although it sends such blocks, and unsigned thinking.
    """
    block_type = read_str(block.get("type"))
    if not block_type:
        return False
    if block_type in THINKING_FIELDS and not (include_thinking and requires_signature):
        return include_thinking
    return block_type not in REQUIRED_FIELDS or read_str(block.get(REQUIRED_FIELDS[block_type])).strip() != ""


def add_cache_markers(body: dict[str, Any]) -> None:
    """Mark what to cache: the end of tools and system prompt, this request and the previous one.

    The last marker lets this request find its prefix after any number of calls: the API looks back at most 20 blocks
    from a marker.
    """
    # A tool that is not loaded yet cannot be marked.
    tools = [tool for tool in read_list(body.get("tools")) if not tool.get("defer_loading")]
    prefix = read_list(body.get("system")) or tools
    user_contents = [read_list(message.get("content")) for message in body["messages"] if message["role"] == "user"]
    for blocks in (prefix, *user_contents[-2:]):
        cacheable = [block for block in blocks if block.get("type") != "tool_result" or "content" in block]
        for last in cacheable[-1:]:
            last["cache_control"] = CACHE_MARKER


def sanitize_call_id(call_id: str) -> str:
    """Return a call id that the API accepts. Ids of other providers may contain a dot or colon."""
    return INVALID_CHARACTERS.sub("_", call_id) or "call"


def sanitize_tool_name(name: str) -> str:
    """Return a tool name that the API accepts; a model or another provider may have used other characters."""
    return INVALID_CHARACTERS.sub("_", name)[:MAX_TOOL_NAME_CHARACTERS] or "unnamed"


# Parameters, usage and models


def parse_claude_version(model: str) -> tuple[int, int]:
    """Return (5, 5) for "claude-sonnet-5-5"; (0, 0) for a name without a version."""
    match = re.search(r"claude-(?:[a-z]+-)?(\d{1,2})(?:[-.](\d{1,2}))?(?!\d)", model)
    return (int(match[1]), int(match[2] or 0)) if match else (0, 0)


def is_claude(model: str) -> bool:
    return "claude" in model


def build_thinking(request: ChatRequest) -> dict[str, Any]:
    """Build `thinking`: what the user set, and how to return and check it.

    Thinking that no longer follows the same messages, as in a conversation continued with other tools, is dropped by
    the API instead of refused. Other servers may refuse the header that this needs, as Bedrock does:
    https://github.com/BerriAI/litellm/pull/41203. {} leaves the decision to the model.
    """
    version = parse_claude_version(request.model)
    thinks_by_default = {"type": "adaptive"} if version >= DEFAULT_THINKING_VERSION else {}
    thinking = read_dict(request.options.get("thinking", thinks_by_default))
    if thinking.get("type") not in ("adaptive", "enabled"):
        return thinking
    parameters: dict[str, Any] = {}
    if request.show_reasoning and version >= OMITTED_THINKING_VERSION:
        parameters["display"] = "summarized"
    if version >= BOUND_THINKING_VERSION and request.is_own_url:
        parameters["block_binding"] = {"prefix_mismatch_behavior": "drop_block"}
    return parameters | thinking if parameters or "thinking" in request.options else {}


def read_efforts(capabilities: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Return the efforts of a listed model; None if it has a thinking budget instead, or none is listed."""
    levels = read_dict(capabilities.get("effort"))
    thinking_types = read_dict(read_dict(capabilities.get("thinking")).get("types"))
    if levels.get("supported") is not True:
        return None
    off_types = [read_dict(thinking_types[name]) for name in ("disabled", "between_tools") if name in thinking_types]
    # For models that do not think by default, no type is listed for turning it off.
    can_turn_off = any(off_type.get("supported") for off_type in off_types) or bool(thinking_types and not off_types)
    supported = tuple(effort for effort in EFFORTS if read_dict(levels.get(effort)).get("supported"))
    return ("none", *supported) if can_turn_off else supported


def to_api_parameters(options: Mapping[str, Any]) -> dict[str, Any]:
    """Rename the user's parameters to the API's names."""
    body = dict(options)
    if "stop" in body:
        stop = body.pop("stop")
        body["stop_sequences"] = [stop] if isinstance(stop, str) else stop
    if "reasoning_effort" in body:
        effort = {"effort": body.pop("reasoning_effort")}
        body["output_config"] = effort | read_dict(body.get("output_config"))
    return body


def parse_usage(usage: Mapping[str, Any]) -> Usage:
    """Parse the token counts and the tier.

    The API's `input_tokens` does not include tokens read from the cache or written to it. Fast mode is a speed within
    the standard tier: https://platform.claude.com/docs/en/build-with-claude/fast-mode#pricing
    """
    speed = read_service_tier(usage.get("speed"))
    names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    input_counts = [tokens for tokens in (read_int(usage.get(name)) for name in names) if tokens is not None]
    return Usage(
        input_tokens=sum(input_counts) if input_counts else None,
        output_tokens=read_int(usage.get("output_tokens")),
        cached_tokens=read_int(usage.get("cache_read_input_tokens")),
        cache_write_tokens=read_int(usage.get("cache_creation_input_tokens")),
        cache_write_1h_tokens=read_int(read_dict(usage.get("cache_creation")).get("ephemeral_1h_input_tokens")),
        reasoning_tokens=read_int(read_dict(usage.get("output_tokens_details")).get("thinking_tokens")),
        service_tier=speed if speed == FAST_TIER else read_service_tier(usage.get("service_tier"), speed),
    )


provider = Anthropic(
    ProviderInfo(
        name="anthropic",
        title="Anthropic",
        base_url="https://api.anthropic.com",
        default_model="claude-sonnet-5-5",
        key_env=("ANTHROPIC_API_KEY",),
    )
)
