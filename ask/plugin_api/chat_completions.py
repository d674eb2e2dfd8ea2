"""The base class for providers that use OpenAI's Chat Completions API, as most services do, and its stream reader.

A provider states how it differs through constructor arguments or by overriding `build_headers`, `build_body` or a hook.
Response JSON is untrusted: every value's type is checked before use.
"""

from __future__ import annotations

import json
from binascii import crc32
from collections.abc import Mapping, Sequence
from io import StringIO
from typing import Any

from ask.errors import ProviderError, RetryAction
from ask.messages import Attachment, FinishReason, Message, ModelResponse, ProviderState, ToolCall, Usage
from ask.parsing import (
    ITEM_OVERHEAD,
    MAX_FIELDS,
    MEDIA_NOTICE,
    decode_arguments,
    find_error,
    merge_fields,
    merge_usage,
    parse_event,
    read_dict,
    read_first_choice,
    read_int,
    read_list,
    read_number,
    read_str,
    read_tool_calls,
    to_object_list,
)
from ask.plugin_api.provider import Provider
from ask.plugin_api.types import (
    DEFAULT_STALL_TIMEOUT,
    ChatRequest,
    Delta,
    HttpRequest,
    ModelInfo,
    ProviderInfo,
    RawEvent,
    ReasoningDelta,
    StreamReader,
    TextDelta,
    ToolCallDelta,
)

REASONING_FIELDS = ("reasoning", "reasoning_content")
TEXT_FIELDS = ("content", "refusal", *REASONING_FIELDS)


class ChatStreamReader:
    """The `ask.StreamReader` for Chat Completions streams."""

    def __init__(self) -> None:
        self.complete = False
        self.size = 0
        self.may_end = False
        """Set by the chunk with the usage, which some gateways send last, without a finish reason before it.

        https://github.com/earendil-works/pi/pull/7441
        """
        self._top_level_fields: dict[str, Any] = {}
        self._choice_fields: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}
        self._texts: dict[str, StringIO] = {}
        self._calls: list[PartialToolCall] = []
        self._calls_by_index: dict[int, PartialToolCall] = {}
        self._reasoning_details: dict[Any, tuple[dict[str, Any], dict[str, StringIO]]] = {}
        self._has_reasoning_details = False
        self._media_fields: dict[str, Any] = {}

    def feed(self, event: RawEvent) -> list[Delta]:
        chunk = parse_event(event.data, event.event, after_end=self.complete)
        error = find_error(chunk)
        chunk = read_dict(chunk)
        merge_fields(self._top_level_fields, chunk, "choices", "error", "usage")
        if error is not None:
            self._top_level_fields["error"] = error
            self.complete = True
        choices = to_object_list(chunk.get("choices"))
        has_usage = not choices and bool(read_dict(chunk.get("usage")))
        self.may_end = not self._calls and (has_usage or (self.may_end and not choices)) and self._has_text()
        deltas = [delta for choice in choices for delta in self._read_choice(read_dict(choice))]
        if "usage" in chunk:
            merge_usage(self._usage, chunk["usage"], is_final=self.complete or not choices)
        return deltas

    def _has_text(self) -> bool:
        return any(self._texts[name].tell() for name in ("content", "refusal") if name in self._texts)

    def _read_choice(self, choice: dict[str, Any]) -> list[Delta]:
        if (read_int(choice.get("index")) or 0) > 0:
            return []
        delta = read_dict(choice.get("delta")) or self._remove_streamed(read_dict(choice.get("message")))
        deltas = self._read_text_fields(self._read_media(delta))
        # Even if it is empty, DeepSeek's models on OpenRouter need the list back:
        # https://github.com/OpenRouterTeam/ai-sdk-provider/pull/487
        self._has_reasoning_details |= isinstance(delta.get("reasoning_details"), list)
        for fragment in read_list(delta.get("reasoning_details")):
            self._add_reasoning_detail(read_dict(fragment))
        for fragment in to_object_list(delta.get("tool_calls")):
            deltas += self._add_call_fragment(read_dict(fragment))
        finish_reason = choice.get("finish_reason") or None  # MiniMax sends "" until the answer ends
        fields = choice | {"finish_reason": finish_reason}
        merge_fields(self._choice_fields, fields, "delta", "message", "index", "usage")
        self.complete = self.complete or finish_reason is not None
        if "usage" in choice:  # Moonshot
            merge_usage(self._usage, choice["usage"], is_final=self.complete)
        return deltas

    def _remove_streamed(self, message: dict[str, Any]) -> dict[str, Any]:
        """Return the fields of a complete message without what was already streamed.

        Some streams end with the whole message: https://github.com/abundantbeing/hermes-browser-extension/issues/11
        """
        streamed = {name: text.getvalue() for name, text in self._texts.items() if text.tell()}
        texts = {name: read_str(message.get(name)) for name in streamed}
        new_texts = {
            name: text[len(streamed[name]) :] if text.startswith(streamed[name]) else None
            for name, text in texts.items()
        }
        return message | new_texts | ({"tool_calls": None} if self._calls else {})

    def _read_media(self, delta: dict[str, Any]) -> dict[str, Any]:
        """Note that there are images or audio, and return a delta whose text is that of the audio."""
        if read_list(delta.get("images")):
            self._media_fields["images"] = [{"type": "image_url"}]
        audio = read_dict(delta.get("audio"))
        if audio:
            self._media_fields["audio"] = {"id": read_str(audio.get("id"))}
        return delta | {"content": delta.get("content") or audio.get("transcript")} if audio else delta

    def _read_text_fields(self, delta: dict[str, Any]) -> list[Delta]:
        """Read text and reasoning; reasoning sent in two fields is returned once."""
        deltas: list[Delta] = []
        reasoning = ""
        for name, value in delta.items():
            if value is None or name not in TEXT_FIELDS:
                continue
            text = read_str(value)
            self.size += self._texts.setdefault(name, StringIO()).write(text)
            if name in REASONING_FIELDS:
                reasoning = reasoning or text
            elif text:
                deltas.append(TextDelta(text))
        return [ReasoningDelta(reasoning), *deltas] if reasoning else deltas

    def _add_reasoning_detail(self, fragment: dict[str, Any]) -> None:
        """Join fragments by type and index; the last may have only the signature.

        Encrypted data comes in one piece and is never joined.
        """
        is_encrypted = fragment.get("data") is not None
        key = len(self._reasoning_details) if is_encrypted else (str(fragment.get("type")), str(fragment.get("index")))
        if key not in self._reasoning_details:
            self.size += ITEM_OVERHEAD
        fields, texts = self._reasoning_details.setdefault(key, ({}, {}))
        for name, value in fragment.items():
            if isinstance(value, str) and name in ("text", "summary"):
                self.size += texts.setdefault(name, StringIO()).write(value)
            elif (value is not None or name not in fields) and len(fields) < MAX_FIELDS:
                self.size += len(value) if name in ("data", "signature") and isinstance(value, str) else 0
                fields[name] = value

    def _add_call_fragment(self, fragment: Mapping[str, Any]) -> list[Delta]:
        """Add to the call with the fragment's index, or to the last call if there is none.

        Some services send several calls with one index, or even one id, or repeat the name in each fragment. Others
        send the rest of the arguments under the next index, without id and name.
        """
        function = read_dict(fragment.get("function")) or fragment
        call_id, name = read_str(fragment.get("id")), read_str(function.get("name"))
        arguments = function.get("arguments")
        index = read_int(fragment.get("index"))
        if not (call_id or name or arguments):
            return []
        call = self._calls_by_index.get(index) if index is not None else next(reversed(self._calls), None)
        if call and name:
            is_finished = bool(call.id) and call.id != call_id if call_id else index is None and bool(call.name)
            has_arguments = arguments.strip() if isinstance(arguments, str) else arguments
            call = None if is_finished or (has_arguments and call.has_all_arguments()) else call
        if call is None and not (call_id or name) and self._calls and not self._calls[-1].has_all_arguments():
            call = self._calls[-1]  # Nebius: https://github.com/pipecat-ai/pipecat/pull/4688
        if call is None:
            call = PartialToolCall(len(self._calls))
            self._calls.append(call)
            self.size += ITEM_OVERHEAD
        if index is not None:
            self._calls_by_index[index] = call
        call.id = call.id or call_id
        is_new_name = bool(name) and (not call.name or (name != call.name and not call.arguments.tell()))
        if arguments is not None:
            self.size += call.arguments.write(arguments if isinstance(arguments, str) else json.dumps(arguments))
        if not is_new_name:
            return []
        call.name += name
        self.size += len(name)
        return [ToolCallDelta(call.position, call.name)]

    def response(self) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": None}
        message |= {name: text.getvalue() for name, text in self._texts.items()} | self._media_fields
        if self._has_reasoning_details:
            message["reasoning_details"] = [
                fields | {name: text.getvalue() for name, text in texts.items()}
                for fields, texts in self._reasoning_details.values()
            ]
        if self._calls:
            message["tool_calls"] = [call.to_dict() for call in self._calls]
        choice = {"index": 0, "finish_reason": None} | self._choice_fields | {"message": message}
        usage = {"usage": self._usage} if self._usage else {}
        return self._top_level_fields | usage | {"object": "chat.completion", "choices": [choice]}


class PartialToolCall:
    """A tool call received so far; `position` is its index among the answer's calls."""

    def __init__(self, position: int) -> None:
        self.position = position
        self.id = ""
        self.name = ""
        self.arguments = StringIO()

    def has_all_arguments(self) -> bool:
        """Check whether the arguments so far are a JSON object, so that more of them belong to another call."""
        text = self.arguments.getvalue()
        return text.rstrip().endswith("}") and decode_arguments(text) is not None

    def to_dict(self) -> dict[str, Any]:
        """Return the call so far, in the format of the non-streaming API."""
        function = {"name": self.name, "arguments": self.arguments.getvalue()}
        return {"id": self.id, "type": "function", "function": function}


FINISH_REASONS = {
    "tool_calls": FinishReason.TOOL_CALLS,
    "length": FinishReason.LENGTH,
    "max_tokens": FinishReason.LENGTH,
    "model_length": FinishReason.LENGTH,
    "content_filter": FinishReason.CONTENT_FILTER,
    "safety": FinishReason.CONTENT_FILTER,
    "error": FinishReason.ERROR,
}
"""Finish reasons with a meaning of their own, in lower case; any other is a normal stop.

Gateways pass on those of Gemini, in upper case: https://github.com/QwenLM/qwen-code/issues/9882. Mistral has
model_length.
"""
STANDARD_MEDIA_TYPES = (
    *("image/png", "image/jpeg", "image/gif", "image/webp"),
    *("application/pdf", "audio/wav", "audio/mpeg"),
)
"""The MIME types that the API can represent; a service may accept fewer."""
AUDIO_FORMATS = {"audio/mpeg": "mp3", "audio/mp4": "m4a"}
"""The API's names for audio formats whose MIME subtype differs."""
MAX_CALL_ID_LENGTH = 40
MAX_TOOL_NAME_LENGTH = 64
"""The limits for tool calls, in characters, on services as strict as OpenAI."""
SIGNATURE_SEPARATOR = "__thought__"
"""Separates a call id from Gemini's signature in LiteLLM: https://github.com/BerriAI/litellm/pull/16895"""


class ChatCompletions(Provider):
    """A provider that uses the Chat Completions API.

    Args:
        name: the provider's name, as passed to `-p`.
        base_url: the URL without the final "/chat/completions".
        key_env: the environment variable, or variables, that may contain the key.
        default_model: the model to use unless the user names one.
        title: the service's display name; defaults to `name`.
        needs_key: whether the service refuses requests without a key.
        docs: the URL of the API documentation.
        reports_cost: whether answers report their cost.
        offline_hint: the hint to show if the service cannot be reached.
        no_models_hint: the hint to show if the service lists no models.
        attachments: the MIME types of the images, PDFs and audio that a message may contain, if `profiles` do not say
            so; none by default.
        stall_timeout: the default of `--timeout` in seconds; longer if models may be silent for longer than usual.
    """

    openai_api = "chat"
    state_fields: tuple[str, ...] = ()
    """Fields of an assistant message to send back verbatim in later requests."""

    def __init__(
        self,
        *,
        name: str,
        base_url: str,
        key_env: str | tuple[str, ...] = (),
        default_model: str = "",
        title: str = "",
        needs_key: bool = True,
        docs: str = "",
        reports_cost: bool = False,
        offline_hint: str = "",
        no_models_hint: str = "",
        attachments: Sequence[str] = (),
        stall_timeout: float = DEFAULT_STALL_TIMEOUT,
    ) -> None:
        self.attachments = frozenset(attachments)
        names = (key_env,) if isinstance(key_env, str) else tuple(key_env)
        super().__init__(
            ProviderInfo(
                name=name,
                title=title or name,
                base_url=base_url,
                default_model=default_model,
                key_env=names,
                needs_key=needs_key,
                docs=docs,
                reports_cost=reports_cost,
                offline_hint=offline_hint,
                no_models_hint=no_models_hint,
                stall_timeout=stall_timeout,
            )
        )

    # Requests

    def build_headers(self, key: str) -> dict[str, str]:
        """Return the headers of every request: the key as a bearer token, if there is one."""
        return {"Authorization": f"Bearer {key}"} if key else {}

    def build_body(self, request: ChatRequest) -> dict[str, Any]:
        """Return the body of a chat request; override to add a service's own parameters."""
        body: dict[str, Any] = {"model": request.model}
        body["messages"] = [self.format_message(message, request.model) for message in request.messages]
        if request.tools:
            body["tools"] = list(request.tools)
            body["tool_choice"] = request.tool_choice
        if request.schema is not None and self.supports_schema(request, request.schema):
            body["response_format"] = self.format_schema(request.schema)
        if request.stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        return body | dict(request.options)

    def supports_schema(self, request: ChatRequest, schema: Mapping[str, Any]) -> bool:
        """Check whether to send the schema in the request.

        Services reject schemas whose type is not an object. Most also reject a schema combined with callable tools, or
        stop calling the tools, unless the model's profile says otherwise.
        """
        is_compatible = not request.tools or request.tool_choice == "none" or request.profile.schema_with_tools
        return bool(is_compatible) and schema.get("type") == "object"

    def format_schema(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        """Return the `response_format` that requests answers matching a schema."""
        from ask.plugin_api.strict_schema import to_strict_schema

        strict = to_strict_schema(schema)
        json_schema = {"name": "answer", "schema": strict or dict(schema), "strict": strict is not None}
        return {"type": "json_schema", "json_schema": json_schema}

    def format_message(self, message: Message, model: str) -> dict[str, Any]:
        """Convert a message to the API's format, including its provider-specific parts."""
        if message.role == "tool":
            return dict(message.formatted_result or {})
        formatted: dict[str, Any] = {"role": message.role, "content": message.content}
        if message.attachments:
            text_parts = [{"type": "text", "text": message.content}] if message.content else []
            formatted["content"] = [*text_parts, *map(self.format_attachment, message.attachments)]
        if message.tool_calls:
            formatted["content"] = message.content or None
            formatted["tool_calls"] = [
                {
                    "id": _format_call_id(call.id),
                    "type": "function",
                    "function": {
                        "name": sanitize_tool_name(call.name),
                        "arguments": "{}" if decode_arguments(call.arguments) is None else call.arguments,
                    },
                }
                for call in message.tool_calls
            ]
        # An imported conversation may contain any state; what is shown of the message must be what is sent.
        state = self.find_provider_state(message, model)
        return formatted | {name: state[name] for name in self.state_fields if name in state}

    def provider_supports_attachment(self, model: str, media_type: str) -> bool:
        return media_type in self.attachments or super().provider_supports_attachment(model, media_type)

    def format_attachment(self, attachment: Attachment) -> dict[str, Any]:
        """Convert an attachment to a content part: image, audio, or a named file."""
        main_type, _, subtype = attachment.media_type.partition("/")
        if main_type == "image":
            return {"type": "image_url", "image_url": {"url": attachment.data_url}}
        if main_type == "audio":
            audio_format = AUDIO_FORMATS.get(attachment.media_type) or subtype
            return {"type": "input_audio", "input_audio": {"data": attachment.base64, "format": audio_format}}
        return {"type": "file", "file": {"filename": attachment.name, "file_data": attachment.data_url}}

    def provider_format_tool_result(self, tool_call_id: str, tool_name: str, result: str) -> dict[str, Any]:
        return {"role": "tool", "tool_call_id": _format_call_id(tool_call_id), "content": result}

    def provider_build_request(self, request: ChatRequest, key: str) -> HttpRequest:
        return HttpRequest("/chat/completions", self.build_body(request), self.build_headers(key))

    # Answers

    def provider_stream_reader(self) -> StreamReader:
        return ChatStreamReader()

    def provider_parse_response(self, response: Mapping[str, Any]) -> ModelResponse:
        choice = read_first_choice(response)
        message = read_dict(choice.get("message"))
        refusal = read_str(message.get("refusal"))
        state = {name: message[name] for name in self.state_fields if message.get(name) is not None}
        audio = read_dict(message.get("audio"))
        answer = ModelResponse(
            text=(read_str(message.get("content")) or read_str(audio.get("transcript"))) + refusal,
            reasoning=read_str(message.get("reasoning") or message.get("reasoning_content")),
            finish_reason=FinishReason.CONTENT_FILTER
            if refusal
            else FINISH_REASONS.get(str(choice.get("finish_reason")).lower(), FinishReason.STOP),
            usage=self.parse_usage(read_dict(response.get("usage") or choice.get("usage"))),
            provider_state=ProviderState(self.info.name, read_str(response.get("model")), state) if state else None,
            finish_message=MEDIA_NOTICE if audio or read_list(message.get("images")) else "",
        )
        return self.check_answer(answer, self.find_response_error(response, answer))

    def find_response_error(self, response: Mapping[str, Any], answer: ModelResponse) -> ProviderError | None:
        """Return the error inside a response with status 200, or None."""
        error = find_error(response)
        if error is not None:
            return self.parse_embedded_error(error)
        if answer.finish_reason is FinishReason.ERROR:
            reason = read_str(read_first_choice(response).get("native_finish_reason")) or "error"
            return ProviderError(f"the model stopped with {reason}", None, RetryAction.retry())
        return None

    def provider_parse_tool_calls(self, response: Mapping[str, Any]) -> list[ToolCall]:
        return read_tool_calls(read_dict(read_first_choice(response).get("message")).get("tool_calls"))

    def parse_usage(self, usage: Mapping[str, Any]) -> Usage:
        """Parse the tokens and the cost, as far as they are reported."""
        return Usage(
            input_tokens=read_int(usage.get("prompt_tokens")),
            output_tokens=read_int(usage.get("completion_tokens")),
            cached_tokens=read_int(read_dict(usage.get("prompt_tokens_details")).get("cached_tokens")),
            reasoning_tokens=read_int(read_dict(usage.get("completion_tokens_details")).get("reasoning_tokens")),
            cost=read_number(usage.get("cost")),
        )

    # Models

    def provider_models_request(self, key: str) -> HttpRequest:
        return HttpRequest("/models", None, self.build_headers(key), "GET")

    def provider_parse_models(self, body: Any) -> list[ModelInfo]:
        entries = read_list(body if isinstance(body, list) else read_dict(body).get("data"))
        return [self.parse_model(read_dict(entry)) for entry in entries if read_str(read_dict(entry).get("id"))]

    def parse_model(self, entry: Mapping[str, Any]) -> ModelInfo:
        """Parse one entry of the models list."""
        return ModelInfo(
            id=read_str(entry.get("id")),
            title=read_str(entry.get("name")),
            context_length=read_int(entry.get("context_length") or entry.get("context_window")),
        )


def _format_call_id(call_id: str) -> str:
    """Shorten a call id, unless a gateway has added a signature to it, which it needs back."""
    return call_id if SIGNATURE_SEPARATOR in call_id else shorten_call_id(call_id)


def shorten_call_id(call_id: str, max_length: int = MAX_CALL_ID_LENGTH) -> str:
    """Shorten a call id to the length that services accept in requests.

    Some services return longer ids than they accept.
    """
    return call_id if len(call_id) <= max_length else f"{call_id[: max_length - 9]}_{crc32(call_id.encode()):08x}"


def sanitize_tool_name(name: str) -> str:
    """Replace the characters in a tool name that services reject in requests.

    Models may call tools by invented names.
    """
    sanitized = "".join(char if char.isascii() and (char.isalnum() or char in "_-") else "_" for char in name)
    return sanitized[:MAX_TOOL_NAME_LENGTH] or "_"
